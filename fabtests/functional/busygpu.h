/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A GPU that is busy until it sees a value in its own memory; and copies that do not wait for
 * it. Unless a comment says otherwise, a function returns 0 or -FI_E*.
 */
#ifndef BUSYGPU_H
#define BUSYGPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** busygpu_open() - after the device's memory has been initialised; once */
int busygpu_open(int device);
/** busygpu_to(), busygpu_from() - copies to and from device memory; done at the return */
int busygpu_to(void *dst, const void *src, size_t len);
int busygpu_from(void *dst, const void *src, size_t len);
/**
 * busygpu_start() - from now on the default stream waits for @value in the device's word @word.
 * On a real GPU that is a kernel on every multiprocessor, which gives up after @seconds.
 */
int busygpu_start(void *word, uint32_t value, int seconds);
/** busygpu_runs() - is it still busy? An error if it has given up */
int busygpu_runs(bool *runs);

#endif /* BUSYGPU_H */
