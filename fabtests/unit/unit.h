/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the unit tests share: cmocka, scenes that play in a process of their own, and (for
 * programs linked with the emulated driver) a device.
 */
#ifndef P2P_UNIT_H
#define P2P_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "dev/dev.h"

#define UNIT_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/**
 * struct unit - a test program.
 * @tests:	run in the program's own process
 * @scenes:	run by unit_play() alone, each in a fresh process
 */
struct unit {
	const struct CMUnitTest *tests;
	size_t test_count;
	const struct CMUnitTest *scenes;
	size_t scene_count;
	CMFixtureFunction setup;
	CMFixtureFunction teardown;
};

int unit_main(int argc, char **argv, const struct unit *unit);

/*
 * Runs one of the scenes in a new process, with @env ("NAME=value", NULL at its end)
 * added to the environment, and fails unless the scene ends well.
 */
void unit_play(const char *scene, const char *const *env);

/* Bytes whose order and place show: no two pieces of a buffer look alike */
void unit_fill(void *buf, size_t len, unsigned int seed);

/* No function of a runtime's table may be missing. */
void unit_ops_complete(const struct dev_ops *ops);

/* Resident bytes of the mapping that @addr lies in */
size_t unit_resident(const void *addr);

/* ---- unit_clock.c: time stands still, passes, and runs again ---- */

void unit_clock_stop(void);
void unit_clock_pass(uint64_t ms);
void unit_clock_run(void);

/* ---- unit_dev.c: a CUDA device, unit_dev_rocr.c: a ROCm device ---- */

/* Initialises the emulated library, makes device 0 current and loads the backends. */
void unit_dev_start(void);

/* Makes device @ordinal current */
void unit_dev_use(int ordinal);

void *unit_dev_alloc(size_t len);
void unit_dev_free(void *ptr);
void unit_dev_write(void *dst, const void *src, size_t len);
void unit_dev_read(void *dst, const void *src, size_t len);

/* Host memory that the application has pinned, never freed */
void *unit_dev_pinned(size_t len);

/* Waits for all that the current device has been told to do */
void unit_dev_sync(void);

#endif /* P2P_UNIT_H */
