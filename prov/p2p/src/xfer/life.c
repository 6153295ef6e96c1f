/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Queues and endpoints come and go. See life.h. */
#include "xfer/life.h"

#include <stdlib.h>
#include <rdma/fi_errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "xfer/ctrl.h"
#include "xfer/ep_state.h"
#include "xfer/gone.h"
#include "xfer/lane.h"
#include "xfer/peer.h"
#include "xfer/progress.h"
#include "xfer/reports.h"
#include "xfer/sendq.h"
#include "xfer/xfer_proto.h"

/* ---- queues ---- */

void xfer_cq_init(struct xfer_cq *cq, struct xfer *xfer)
{
	cq->xfer = xfer;
	STAILQ_INIT(&cq->reports);
	p2p_lock_take(&xfer->lock);
	LIST_INSERT_HEAD(&xfer->cqs, cq, entry);
	wait_domain_add(&xfer->wait, cq->fd);
	xfer_apart_update(xfer);
	p2p_lock_drop(&xfer->lock);
}

static bool xfer_cq_bound(const struct xfer_cq *cq)
{
	const struct xfer_ep *ep;

	LIST_FOREACH(ep, &cq->xfer->eps, entry) {
		if (ep->txcq == cq || ep->rxcq == cq)
			return true;
	}
	return false;
}

bool xfer_cq_busy(const struct xfer_cq *cq)
{
	bool bound;

	p2p_lock_take(&cq->xfer->lock);
	bound = xfer_cq_bound(cq);
	p2p_lock_drop(&cq->xfer->lock);
	return bound;
}

static int xfer_cq_close(struct xfer_cq *cq)
{
	int ret, fd;

	/* the core may not know yet */
	if (xfer_cq_bound(cq))
		return -FI_EBUSY;
	/* a child of this process may have the descriptor, too: it would stay in the sets */
	fd = wait_domain_forget(&cq->xfer->wait, cq);
	ret = fi_close(&cq->core->fid);
	if (ret) {
		wait_domain_recall(&cq->xfer->wait, cq, fd);
		return ret;
	}
	LIST_REMOVE(cq, entry);
	xfer_apart_update(cq->xfer);
	/* its point is there a little longer, and nobody is to be woken by way of the core's queue */
	if (cq->point)
		cq->point->armed = false;
	XFER_PROTO_EACH(cq->xfer, cq_drop, cq);
	return 0;
}

int xfer_cq_fini(struct xfer_cq *cq)
{
	struct core_comp comp;
	int ret;

	p2p_lock_take(&cq->xfer->lock);
	ret = xfer_cq_close(cq);
	p2p_lock_drop(&cq->xfer->lock);
	if (ret)
		return ret;
	while (xfer_cq_next(cq, true, &comp) == 1 || xfer_cq_next(cq, false, &comp) == 1)
		free(comp.err_data);
	return 0;
}

/* ---- endpoints ---- */

/*
 * A side channel may still be connecting, and then loses what the core has taken. Other cores only lose what they had
 * no room for.
 */
static bool xfer_ep_owes(const struct xfer_ep *ep)
{
	if (ep->quirks & QUIRK_STALLS)
		return ep->front.owed || ep->side.owed;
	return !TAILQ_EMPTY(&ep->front.outq);
}

/*
 * What peers wait for leaves before the core's endpoint is closed. What is being copied may be in its place already, and
 * the application have seen it: its peer is to hear so. A peer may have gone: not without end
 */
static void xfer_ep_say_farewell(struct xfer_ep *ep)
{
	const int64_t end = clock_end(ep->xfer->farewell);

	while (ep->copying && clock_left(end))
		xfer_progress_copied(ep->xfer);
	xfer_letter_post(&ep->front);
	xfer_letter_post(&ep->side);
	while (xfer_ep_owes(ep) && clock_left(end))
		xfer_progress_turn(ep->xfer);
}

static void xfer_ep_read(const struct xfer_ep *ep, bool (*pull)(struct xfer_cq *cq))
{
	struct xfer_cq *cq;

	LIST_FOREACH(cq, &ep->xfer->cqs, entry) {
		while (pull(cq))
			;
	}
}

/* Closes the core's endpoint, and reads what it has completed or cancelled: records of ours */
static int xfer_channel_close(struct xfer_channel *channel)
{
	struct xfer_ep *ep = channel->ep;
	const bool dangles = ep->quirks & QUIRK_DANGLES;
	int ret;

	/* afterwards there are only errors to be read, but of what came between the two */
	if (dangles && !ep->closing)
		xfer_ep_read(ep, xfer_cq_pull);
	/* before the close: another endpoint may send meanwhile, or have the name afterwards */
	gone_closed(channel);
	ret = fi_close(&channel->core->fid);
	if (ret) {
		gone_opened(channel);
		return ret;
	}
	ep->closing = true;
	xfer_ep_read(ep, dangles ? xfer_cq_pull_error : xfer_cq_pull);
	return 0;
}

/* Ends what is left of it. Newer records may point to older ones, which come later in the list */
static void xfer_ep_drop(struct xfer_ep *ep)
{
	struct xfer_ctx *ctx;

	ctrl_close(&ep->front);
	ctrl_close(&ep->side);
	while ((ctx = LIST_FIRST(&ep->live)))
		ctx->drop(ctx);
	LIST_REMOVE(ep, entry);
	xfer_apart_update(ep->xfer);
	xfer_peers_free(ep);
	lanes_free(ep);
	ep->xfer->protos->ep_fini(ep);
}

static void xfer_channel_init(struct xfer_channel *channel, struct xfer_ep *ep)
{
	channel->ep = ep;
	channel->lane = -1;
	TAILQ_INIT(&channel->outq);
	TAILQ_INIT(&channel->inbox.posted);
}

int xfer_ep_init(struct xfer_ep *ep, struct xfer *xfer)
{
	static uint64_t count;

	ep->xfer = xfer;
	ep->quirks = xfer->quirks;
	ep->number = __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
	xfer_channel_init(&ep->front, ep);
	xfer_channel_init(&ep->side, ep);
	TAILQ_INIT(&ep->sendq);
	TAILQ_INIT(&ep->pasts);
	LIST_INIT(&ep->live);
	ep->data_mask = xfer->protos->user_data;
	return xfer->protos->ep_init(ep);
}

void xfer_ep_undo(struct xfer_ep *ep)
{
	p2p_lock_take(&ep->xfer->lock);
	lanes_close(ep);
	p2p_lock_drop(&ep->xfer->lock);
	lanes_free(ep);
	ep->xfer->protos->ep_fini(ep);
}

void xfer_ep_add(struct xfer_ep *ep)
{
	p2p_lock_take(&ep->xfer->lock);
	LIST_INSERT_HEAD(&ep->xfer->eps, ep, entry);
	/* who sleeps without a descriptor has something to look for now */
	wait_wake_all(&ep->xfer->wait);
	p2p_lock_drop(&ep->xfer->lock);
}

void xfer_ep_start(struct xfer_ep *ep)
{
	p2p_lock_take(&ep->xfer->lock);
	ctrl_start(ep);
	ep->started = true;
	p2p_lock_drop(&ep->xfer->lock);
}

int xfer_ep_fini(struct xfer_ep *ep)
{
	struct xfer *xfer = ep->xfer;
	int ret = 0;

	p2p_lock_take(&xfer->lock);
	XFER_PROTO_EACH(xfer, ep_close, ep, &ret);
	if (!ret) {
		xfer_outq_close(ep);
		xfer_ep_say_farewell(ep);
		ret = xfer_channel_close(&ep->front);
	}
	if (ret) {
		p2p_lock_drop(&xfer->lock);
		return ret;
	}
	if (ep->side.core && xfer_channel_close(&ep->side))
		P2P_WARN("the endpoint for long messages does not close\n");
	lanes_close(ep);
	xfer->copies.more = false;
	while (ep->copying) {
		copy_progress(&xfer->copies);
		xfer_flush_progress(xfer);
	}
	xfer_retired_turn(xfer);
	xfer_ep_drop(ep);
	if (ep->quirks & QUIRK_LITTERS && ep->txcq)
		wait_domain_forget(&xfer->wait, ep->txcq);
	if (ep->quirks & QUIRK_LITTERS && ep->rxcq)
		wait_domain_forget(&xfer->wait, ep->rxcq);
	p2p_lock_drop(&xfer->lock);
	return 0;
}
