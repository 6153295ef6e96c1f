/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The time since some moment before the process began. Changes of the date do not affect it. */
#ifndef P2P_CLOCK_H
#define P2P_CLOCK_H

#include <stdint.h>

/* Returns the monotonic time [ns]. */
uint64_t clock_ns(void);

/* Returns a cheap time [ms], which the kernel updates every few milliseconds only. To read it costs least. */
uint64_t clock_coarse_ms(void);

/* The end [ms] of a timeout [ms] that begins now. A negative timeout never ends. */
int64_t clock_end(int timeout);

/* The time [ms] that is left until @end, at least 0; -1: @end never comes */
int64_t clock_left(int64_t end);

#endif /* P2P_CLOCK_H */
