/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Automatic progress. See auto.h. */
#include "xfer/auto.h"

#include <poll.h>
#include <sched.h>
#include <time.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include "base/thread.h"
#include "xfer/sleep.h"
#include "xfer/xfer.h"

/*
 * Passes that have moved nothing: after so many it does not look again at once, but sleeps for
 * AUTO_DOZE [ns] first; after so many of those that a descriptor woke it for, descriptors are
 * not what they should be.
 */
#define AUTO_VAIN 2000
#define AUTO_VAIN_WOKEN 8
#define AUTO_DOZE 100000

static void auto_doze(void)
{
	const struct timespec doze = {.tv_nsec = AUTO_DOZE};

	nanosleep(&doze, NULL);
}

/* Has anything moved since the last pass? False in @on: it is to end */
static bool auto_moved(struct auto_thread *thread, bool *on)
{
	struct xfer *xfer = thread->xfer;
	bool moved;

	p2p_lock_take(&xfer->lock);
	moved = xfer->copies.more || xfer->copies.pending != thread->pending;
	thread->pending = xfer->copies.pending;
	*on = !thread->stop;
	p2p_lock_drop(&xfer->lock);
	return moved;
}

/*
 * Makes descriptors as they were that stay readable once there was something (QUIRK_READABLE). A
 * read that waits does so. It returns at once if there is something, and after a millisecond
 * if not.
 */
static void auto_calm(struct xfer *xfer)
{
	struct xfer_cq *cq;

	p2p_lock_take(&xfer->lock);
	LIST_FOREACH(cq, &xfer->cqs, entry) {
		struct pollfd polled = {.fd = cq->fd, .events = POLLIN};

		if (cq->fd >= 0 && poll(&polled, 1, 0) == 1)
			fi_cq_sread(cq->core, NULL, 0, NULL, 1);
	}
	p2p_lock_drop(&xfer->lock);
	/* if that was no remedy */
	auto_doze();
}

static void *auto_run(void *arg)
{
	struct auto_thread *thread = arg;
	struct pollfd polled = {.fd = thread->point.fd, .events = POLLIN};
	unsigned int vain = 0, woken = 0;
	bool on = true;

	while (on) {
		/* this is what moves everything */
		int ret = sleep_try(&thread->point);

		if (auto_moved(thread, &on))
			vain = woken = 0;
		if (!on)
			break;
		if (ret) {
			if (vain++ < AUTO_VAIN)
				sched_yield();
			else
				auto_doze();
			continue;
		}
		if (woken++ >= AUTO_VAIN_WOKEN)
			auto_calm(thread->xfer);
		poll(&polled, 1, SURVEY_TURN);
	}
	return NULL;
}

static void auto_set_mover(struct xfer *xfer, struct wait_point *mover)
{
	p2p_lock_take(&xfer->lock);
	xfer->wait.mover = mover;
	xfer_busy_add(xfer, mover ? 1 : -1);
	p2p_lock_drop(&xfer->lock);
}

int auto_start(struct auto_thread *thread, struct xfer *xfer)
{
	int ret;

	*thread = (struct auto_thread){.xfer = xfer};
	ret = wait_open_all(&thread->point, xfer, -1);
	if (ret)
		return ret;
	auto_set_mover(xfer, &thread->point);
	ret = thread_start(&thread->thread, "p2p_auto", auto_run, thread);
	if (ret) {
		auto_set_mover(xfer, NULL);
		wait_close(&thread->point);
	}
	return ret;
}

void auto_stop(struct auto_thread *thread)
{
	p2p_lock_take(&thread->xfer->lock);
	thread->stop = true;
	wait_wake(&thread->point);
	p2p_lock_drop(&thread->xfer->lock);
	pthread_join(thread->thread, NULL);
	auto_set_mover(thread->xfer, NULL);
	wait_close(&thread->point);
}
