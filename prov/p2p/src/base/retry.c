/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Failures that may pass. See retry.h. */
#include "base/retry.h"

#include "base/base.h"
#include "base/clock.h"

void retry_failed(struct retry *retry)
{
	const uint64_t now = clock_ns();

	if (!retry->delay || now >= retry->until + RETRY_MOST)
		retry->delay = RETRY_LEAST;
	else
		retry->delay = P2P_MIN(2 * retry->delay, RETRY_MOST);
	retry->until = now + retry->delay;
}

bool retry_passed(const struct retry *retry)
{
	return clock_ns() >= retry->until;
}
