/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The time since some moment before the process began. No change of the date shows in it. */
#ifndef P2P_CLOCK_H
#define P2P_CLOCK_H

#include <stdint.h>

/* [ns] */
uint64_t clock_ns(void);

/* [ms] The kernel brings it up to date every few milliseconds, and reading it costs least. */
uint64_t clock_coarse_ms(void);

/* When a timeout [ms] that begins now ends; negative: never */
int64_t clock_end(int timeout);

/* What is left until @end [ms], at least 0; -1: it never comes */
int64_t clock_left(int64_t end);

#endif /* P2P_CLOCK_H */
