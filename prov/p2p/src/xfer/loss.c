/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Lost peers. See loss.h. */
#include "xfer/loss.h"

#include "base/trace.h"
#include "xfer/req.h"
#include "xfer/sendq.h"
#include "xfer/xfer_proto.h"

/*
 * What goes to @addr, and the core has, fails, if its memory is ours. A receive is anybody's. What is still copied for the
 * peer's memory fails when the copy has ended.
 */
static void xfer_lose_sent(struct xfer_ep *ep, fi_addr_t addr, int status)
{
	struct xfer_ctx *ctx;
	struct xfer_req *req;

	LIST_FOREACH(ctx, &ep->live, live) {
		req = (struct xfer_req *) ctx;
		if (!xfer_ctx_is_req(ctx) || req->addr != addr || req->done_flags & FI_RECV)
			continue;
		if (req->state == XFER_COPYING)
			req->comp.err = -status;
		else if (req->state == XFER_CORE && (req->slot || req->reserve))
			xfer_req_report_early(req, -status);
	}
}

/* What is on its way to it, or is to go there */
static void xfer_lose_queued(struct xfer_peer *peer, bool over, int status)
{
	struct xfer_ep *ep = peer->ep;

	xfer_outq_fail(&ep->front, peer->addr, status);
	xfer_outq_fail(peer->via, peer->to, status);
	/* where somebody may be, unknown, messages go in the core's own way, and the core tells what becomes of them */
	if (!over)
		return;
	xfer_sendq_fail(ep, peer->addr, status);
	xfer_lose_sent(ep, peer->addr, status);
}

void xfer_peer_end(struct xfer_peer *peer, bool over, int status)
{
	struct xfer_ep *ep = peer->ep;
	const struct xfer_peer *there;

	xfer_assert_locked(ep->xfer);
	/* what it ends may be what tells of it */
	if (ep->xfer->losing)
		return;
	P2P_TRACE(peer_lost, ep, peer->addr, status);
	ep->xfer->losing = true;
	/* its last request may end, and its address be nobody's */
	xfer_peer_hold(peer);
	/* requests first: then what waits to be sent is nobody's */
	XFER_PROTO_EACH(ep->xfer, lost, peer, status);
	/* if its address has another record by now, what goes there is no business of this one */
	there = xfer_peer_find(ep, peer->addr);
	if (!there || there == peer)
		xfer_lose_queued(peer, over, status);
	ep->xfer->losing = false;
	xfer_peer_put(peer);
}

void xfer_peer_lose(struct xfer_peer *peer, int status)
{
	xfer_assert_locked(peer->ep->xfer);
	xfer_peer_end(peer, peer->open, status);
}

void xfer_lose(const struct xfer_channel *channel, fi_addr_t addr, int status)
{
	struct xfer_peer *peer, *next;

	xfer_assert_locked(channel->ep->xfer);
	HASH_ITER(hh, channel->ep->peers, peer, next) {
		if (xfer_peer_at(peer, channel, addr))
			xfer_peer_lose(peer, status);
	}
}
