/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Time that passes as a test wants it. A program has this if it calls one of these functions. See unit.h. */
#include "unit.h"

#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000L

static bool stopped;
static struct timespec now;

/* In the place of libc's */
int clock_gettime(clockid_t clock, struct timespec *time)
{
	if (!stopped || (clock != CLOCK_MONOTONIC && clock != CLOCK_MONOTONIC_COARSE))
		return (int) syscall(SYS_clock_gettime, clock, time);
	*time = now;
	return 0;
}

void unit_clock_stop(void)
{
	stopped = false;
	clock_gettime(CLOCK_MONOTONIC, &now);
	stopped = true;
}

void unit_clock_pass(uint64_t ms)
{
	assert_true(stopped);
	now.tv_sec += (time_t) (ms / 1000);
	now.tv_nsec += (long) (ms % 1000) * (SECOND / 1000);
	now.tv_sec += now.tv_nsec / SECOND;
	now.tv_nsec %= SECOND;
}

void unit_clock_run(void)
{
	stopped = false;
}
