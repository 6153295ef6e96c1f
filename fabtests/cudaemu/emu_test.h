/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the emulator's tests share. */
#ifndef EMU_TEST_H
#define EMU_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>
#include <cmocka.h>

#include "driver.h"

#define ok(call) assert_int_equal(call, CUDA_SUCCESS)
#define fails(call, rc) assert_int_equal(call, rc)

/* Scenes are no cmocka tests: they say where they failed and end */
#define check(expr)                                                                            \
	do {                                                                                   \
		if (!(expr)) {                                                                 \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #expr);             \
			_exit(1);                                                              \
		}                                                                              \
	} while (0)
#define want(call, rc) check((int) (call) == (int) (rc))
#define good(call) want(call, CUDA_SUCCESS)

/*
 * A test that needs a process of its own runs its program again with the name of a scene. A scene
 * answers with its exit status; 0 means that all was as expected.
 */
struct emu_test_scene {
	const char *name;
	int (*play)(void);
};

/* Runs this program again with the environment set, to play a scene; returns waitpid()'s status */
int emu_test_spawn(const char *scene, const char *env, const char *value);
/* The same for a scene that has to end well */
void emu_test_plays(const char *scene, const char *env, const char *value);
/* Plays one of the scenes, whose last one has no name */
int emu_test_play(const struct emu_test_scene *scenes, const char *name);
/* For scenes: initialises the driver, and makes a device's context current */
void emu_test_use(int dev);

/* The tests of emu_test_process.c, and the scenes that these play */
int emu_test_process(const char *name);
void test_cpu_access_dies(void **state);
void test_reset(void **state);
void test_before_init(void **state);
void test_after_fork(void **state);
void test_faults(void **state);
void test_no_device(void **state);
void test_no_memops(void **state);
void test_sparse_memory(void **state);
void test_shuffle(void **state);
void test_modelled_time(void **state);
void test_hang(void **state);
void test_staged(void **state);
void test_ipc(void **state);
void test_crowded(void **state);
void test_runtime(void **state);

#endif
