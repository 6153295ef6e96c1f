/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Sleeping. See sleep.h. */
#include "xfer/sleep.h"

#include <errno.h>
#include <poll.h>
#include <rdma/fi_errno.h>

#include "xfer/progress.h"

/* @stays: the caller sleeps at once if it may */
static int sleep_prepare(struct wait_point *point, bool stays)
{
	struct xfer *xfer = point->xfer;
	int ret;

	/* leaves nothing in the core's queues that would keep the descriptors readable */
	if (wait_wide(point) || survey_asked(&xfer->survey))
		xfer_progress(xfer);
	p2p_lock_take(&xfer->lock);
	ret = wait_arm(point);
	if (!ret && stays)
		point->asleep++;
	p2p_lock_drop(&xfer->lock);
	return ret;
}

int sleep_try(struct wait_point *point)
{
	return sleep_prepare(point, false);
}

int sleep_on(struct wait_point *point, struct xfer *xfer, int64_t timeout, unsigned int *rounds)
{
	struct pollfd polled[2];
	int ret;

	if (!point)
		return wait_doze(xfer, rounds);
	ret = sleep_prepare(point, true);
	if (ret == -FI_EAGAIN)
		return wait_doze(xfer, rounds);
	if (ret)
		return ret;
	*rounds = 0;
	polled[0] = (struct pollfd){.fd = point->fd, .events = POLLIN};
	polled[1] = (struct pollfd){.fd = point->event, .events = POLLIN};
	if (timeout < 0 || timeout > SURVEY_TURN)
		timeout = SURVEY_TURN;
	if (poll(polled, point->plain ? 2 : 1, (int) timeout) < 0)
		ret = -errno;
	p2p_lock_take(&xfer->lock);
	point->asleep--;
	p2p_lock_drop(&xfer->lock);
	return ret;
}
