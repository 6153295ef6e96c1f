/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The time. See clock.h. */
#include "base/clock.h"

#include <time.h>

#include "base/base.h"

uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t) now.tv_sec * 1000000000 + now.tv_nsec;
}

uint64_t clock_coarse_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t clock_ms(void)
{
	return (int64_t) (clock_ns() / 1000000);
}

int64_t clock_end(int timeout)
{
	return timeout < 0 ? INT64_MAX : clock_ms() + timeout;
}

int64_t clock_left(int64_t end)
{
	int64_t left;

	if (end == INT64_MAX)
		return -1;
	left = end - clock_ms();
	return P2P_MAX(left, 0);
}
