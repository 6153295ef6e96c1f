/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the two files of the emulator's test share. */
#ifndef EMU_TEST_H
#define EMU_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "driver.h"

#define ok(call) assert_int_equal(call, CUDA_SUCCESS)
#define fails(call, rc) assert_int_equal(call, rc)

/* Runs this program again with the environment set, to play one of the scenes below */
int emu_test_spawn(const char *scene, const char *env, const char *value);

/* The tests that need processes of their own, and the scenes that these play */
int emu_test_scene(const char *name);
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
void test_runtime(void **state);

#endif
