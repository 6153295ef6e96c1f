/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Progress. See progress.h. */
#include "xfer/progress.h"

#include <sched.h>

#include "base/clock.h"
#include "xfer/ctrl.h"
#include "xfer/lane.h"
#include "xfer/note.h"
#include "xfer/reports.h"
#include "xfer/sendq.h"
#include "xfer/xfer_proto.h"

/*
 * Looks after copies first: a look at them costs nearly nothing, one at the core's queues system calls. Where
 * those were in vain last time, a copy is even waited for a little.
 */
static void xfer_progress_copies(struct xfer *xfer)
{
	if (xfer->copies.more)
		copy_progress(&xfer->copies);
	else
		copy_await(&xfer->copies);
}

/* Looks after what does not move. If this process was held up, peers had no longer to be heard. */
static void xfer_watch(struct xfer *xfer, uint64_t now)
{
	const uint64_t passed = P2P_MIN(now - xfer->survey.looked, XFER_LOOK_MAX);

	survey_look(xfer, now);
	ipc_tend(&xfer->ipc, !xfer->copies.pending);
	XFER_PROTO_EACH(xfer, watch, xfer, (unsigned int) passed);
}

/* Has xfer_watch() look every XFER_WATCH [ms], as long as there may be something. */
static void xfer_progress_watch(struct xfer *xfer)
{
	uint64_t now;

	if (!xfer_busy(xfer) && !xfer->open && LIST_EMPTY(&xfer->busy_peers) &&
	    !ipc_keeps(&xfer->ipc) && !survey_asked(&xfer->survey))
		return;
	now = clock_coarse_ms();
	if (now - xfer->survey.looked >= XFER_WATCH)
		xfer_watch(xfer, now);
}

/* Reads all queues of the domain, and moves on copies, protocols and what waits to be sent. */
static void xfer_progress_core(struct xfer *xfer)
{
	struct xfer_cq *cq;
	struct xfer_ep *ep;
	bool more = false;

	/*
	 * The application may not be reading a queue that holds reports, but another one, or leave all to the thread. So while
	 * cells are scarce the rest stays with the core.
	 */
	LIST_FOREACH(cq, &xfer->cqs, entry)
		more |= !(cq->count && cell_scarce(&xfer->cells)) && xfer_cq_pull(cq);
	if (wait_ended_take(&xfer->wait)) {
		more = true;
		LIST_FOREACH(ep, &xfer->eps, entry)
			lanes_progress(ep);
	}
	xfer->copies.more = more;
	copy_progress(&xfer->copies);
	/* first: what is over is not gone on with */
	xfer_progress_watch(xfer);
	if (xfer->open)
		notes_progress(xfer);
	XFER_PROTO_EACH(xfer, progress, xfer);
	LIST_FOREACH(ep, &xfer->eps, entry) {
		ctrl_progress(&ep->side);
		ctrl_progress(&ep->front);
		xfer_outq_flush(&ep->side);
		xfer_outq_flush(&ep->front);
		xfer_sendq_flush(ep);
	}
}

/* Begins copies and control messages that waited for more of their kind. */
static void xfer_pass_end(struct xfer *xfer)
{
	struct xfer_ep *ep;
	bool told = false;

	xfer->passing = false;
	copy_push(&xfer->copies);
	LIST_FOREACH(ep, &xfer->eps, entry) {
		if (ep->front.letter || ep->side.letter) {
			xfer_letter_post(&ep->side);
			xfer_letter_post(&ep->front);
			told = true;
		}
	}
	if (told)
		XFER_PROTO_EACH(xfer, told, xfer);
}

void xfer_progress_locked(struct xfer *xfer)
{
	xfer_assert_locked(xfer);
	if (p2p_unlikely(cell_scarce(&xfer->cells)))
		xfer_retired_turn(xfer);
	xfer->passing = true;
	xfer_progress_copies(xfer);
	xfer_progress_core(xfer);
	xfer_pass_end(xfer);
}

static void xfer_progress_yield(struct xfer *xfer)
{
	p2p_lock_drop(&xfer->lock);
	sched_yield();
	p2p_lock_take(&xfer->lock);
}

void xfer_progress_turn(struct xfer *xfer)
{
	xfer_assert_locked(xfer);
	xfer_progress_locked(xfer);
	xfer_progress_yield(xfer);
}

void xfer_progress_copied(struct xfer *xfer)
{
	xfer_assert_locked(xfer);
	xfer->passing = true;
	xfer_progress_copies(xfer);
	xfer_pass_end(xfer);
	xfer_progress_yield(xfer);
}

/* A pass of a host function's begins copies, which the driver does not let it */
static void *xfer_progress_lent(void *xfer)
{
	xfer_progress(xfer);
	return NULL;
}

bool xfer_cq_progress(struct xfer_cq *cq)
{
	struct xfer *xfer = cq->xfer;
	bool moved;

	if (dev_lend(xfer_progress_lent, xfer) || !p2p_lock_poll(&xfer->lock))
		return true;
	xfer->passing = true;
	xfer_progress_copies(xfer);
	if (!cq->count)
		xfer_progress_core(xfer);
	xfer_pass_end(xfer);
	moved = xfer->copies.more;
	p2p_lock_drop(&xfer->lock);
	xfer_works_turn(xfer);
	return moved;
}

static void xfer_progress_drop(struct xfer *xfer)
{
	xfer_progress_locked(xfer);
	p2p_lock_drop(&xfer->lock);
	xfer_works_turn(xfer);
}

void xfer_progress(struct xfer *xfer)
{
	if (dev_lend(xfer_progress_lent, xfer))
		return;
	p2p_lock_take(&xfer->lock);
	xfer_progress_drop(xfer);
}

void xfer_progress_poll(struct xfer *xfer)
{
	if (!dev_lend(xfer_progress_lent, xfer) && p2p_lock_poll(&xfer->lock))
		xfer_progress_drop(xfer);
}

bool xfer_ep_overtakes(struct xfer_ep *ep, fi_addr_t addr)
{
	bool waits;

	p2p_lock_take(&ep->xfer->lock);
	waits = xfer_sendq_has(ep, addr);
	if (waits) {
		xfer_progress_locked(ep->xfer);
		waits = xfer_sendq_has(ep, addr);
	}
	p2p_lock_drop(&ep->xfer->lock);
	return waits;
}
