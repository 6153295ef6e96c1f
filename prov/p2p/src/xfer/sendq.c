/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What waits to be sent. See sendq.h. */
#include "xfer/sendq.h"

#include <rdma/fi_errno.h>

#include "base/clock.h"
#include "xfer/ep_state.h"
#include "xfer/gone.h"
#include "xfer/lane.h"
#include "xfer/peer.h"
#include "xfer/req_state.h"

/*
 * Of those that are dropped in the end, so many are tried in a pass: where nobody listens, the core tries to
 * connect each time.
 */
#define XFER_OUT_DOUBTFUL 2
/* They are tried for so long once it is too late [ms] */
#define XFER_OUT_LATE 1000

/* ---- one by one ---- */

/* Gives a record to the core. */
static ssize_t xfer_out_send(struct xfer_out *out)
{
	const struct p2p_op op = xfer_out_op(out);

	return core_post(out->via, &op);
}

ssize_t xfer_out_try(struct xfer_out *out)
{
	xfer_assert_locked(out->ctx.ep->xfer);
	if (out->via->lane >= 0) {
		lanes_post(out);
		return 0;
	}
	if (!out->recv && p2p_unlikely(gone_is(out->via, out->addr)))
		return -FI_ECONNRESET;
	return out->post(out);
}

int xfer_out_wait(struct xfer_out *out, ssize_t ret)
{
	const int change = (ret != 0) - (out->ret != 0);

	xfer_assert_locked(out->ctx.ep->xfer);
	out->ret = ret;
	if (change)
		xfer_busy_add(out->ctx.ep->xfer, change);
	return change;
}

void xfer_out_cancel(struct xfer_out *out)
{
	xfer_assert_locked(out->ctx.ep->xfer);
	if (out->via->lane >= 0) {
		lanes_cancel(out);
		return;
	}
	out->cancelled = true;
	if (!out->ctx.ep->closing)
		fi_cancel(&out->via->core->fid, &out->ctx);
}

void xfer_out_init(struct xfer_out *out, struct xfer_channel *via, fi_addr_t addr, uint64_t tag,
		   void (*done)(struct xfer_ctx *ctx, const struct core_comp *comp),
		   void (*drop)(struct xfer_ctx *ctx))
{
	xfer_assert_locked(via->ep->xfer);
	xfer_ctx_init(&out->ctx, via->ep, done, drop);
	out->via = via;
	out->post = xfer_out_send;
	out->recv = out->late = out->aside = out->cancelled = false;
	out->ret = 0;
	out->until = 0;
	out->addr = addr;
	out->tag = tag;
	out->ignore = 0;
}

/* The core refused it: that is how it ends. */
static void xfer_ctx_fail(struct xfer_ctx *ctx, ssize_t ret)
{
	const struct core_comp comp = {
		.context = ctx,
		.src = FI_ADDR_NOTAVAIL,
		.err = (int) -ret,
	};

	ctx->done(ctx, &comp);
}

struct xfer_out *xfer_outq_find(const struct xfer_channel *channel, fi_addr_t addr)
{
	struct xfer_out *out;

	xfer_assert_locked(channel->ep->xfer);
	TAILQ_FOREACH(out, &channel->outq, entry) {
		if (out->addr == addr)
			return out;
	}
	return NULL;
}

void xfer_outq_hold(struct xfer_peer *peer)
{
	xfer_assert_locked(peer->ep->xfer);
	if (peer->unsent)
		return;
	peer->unsent = true;
	peer->ep->xfer->unsent++;
	xfer_peer_hold(peer);
}

/* Those of @ep whose messages have gone, or (@all) all */
static void xfer_outq_release(struct xfer_ep *ep, bool all)
{
	struct xfer_peer *peer, *next;

	for (peer = LIST_FIRST(&ep->xfer->busy_peers); peer; peer = next) {
		next = LIST_NEXT(peer, busy);
		if (!peer->unsent || peer->ep != ep ||
		    (!all && (xfer_outq_find(&ep->front, peer->addr) ||
			      xfer_outq_find(peer->via, peer->to))))
			continue;
		peer->unsent = false;
		ep->xfer->unsent--;
		xfer_peer_put(peer);
		/* that may have taken others off the list */
		next = LIST_FIRST(&ep->xfer->busy_peers);
	}
}

void xfer_outq_close(struct xfer_ep *ep)
{
	xfer_assert_locked(ep->xfer);
	xfer_outq_release(ep, true);
}

/* Those behind it have their turn */
static void xfer_outq_remove(struct xfer_out *out)
{
	struct xfer_out *next = TAILQ_NEXT(out, entry);

	TAILQ_REMOVE(&out->via->outq, out, entry);
	while (next && next->addr != out->addr)
		next = TAILQ_NEXT(next, entry);
	if (next)
		next->behind = out->behind;
	else if (p2p_unlikely(out->via->ep->xfer->unsent) && !out->behind)
		xfer_outq_release(out->via->ep, false);
}

static void xfer_outq_add(struct xfer_out *out)
{
	out->behind = xfer_outq_find(out->via, out->addr);
	TAILQ_INSERT_TAIL(&out->via->outq, out, entry);
}

/* An error is told later, in progress: the caller is still busy with what it sends. */
void xfer_out_post(struct xfer_out *out)
{
	struct xfer_ep *ep = out->ctx.ep;
	/* whoever is answered meanwhile sends more */
	const bool waits = out->via->lane < 0 &&
			   (!TAILQ_EMPTY(&out->via->outq) || (ep->rxcq && ep->rxcq->hears));

	xfer_assert_locked(out->ctx.ep->xfer);
	out->ret = waits ? -FI_EAGAIN : xfer_out_try(out);
	if (!out->ret)
		return;
	xfer_outq_add(out);
	wait_wake_mover(&ep->xfer->wait);
}

void xfer_letter_post(struct xfer_channel *channel)
{
	struct xfer_out *out = channel->letter;

	xfer_assert_locked(channel->ep->xfer);
	channel->letter = NULL;
	if (out)
		xfer_out_post(out);
}

void xfer_outq_drop(struct xfer_channel *channel, fi_addr_t addr)
{
	struct xfer_out *out, *next;

	xfer_assert_locked(channel->ep->xfer);
	for (out = TAILQ_FIRST(&channel->outq); out; out = next) {
		next = TAILQ_NEXT(out, entry);
		if (out->addr != addr || !out->until)
			continue;
		xfer_outq_remove(out);
		out->ctx.drop(&out->ctx);
	}
}

void xfer_outq_fail(struct xfer_channel *channel, fi_addr_t addr, int status)
{
	struct xfer_out *out = channel->letter;

	xfer_assert_locked(channel->ep->xfer);
	if (out && out->addr == addr) {
		channel->letter = NULL;
		xfer_ctx_fail(&out->ctx, status);
	}
	/* the end of one may take others away */
	while ((out = xfer_outq_find(channel, addr))) {
		xfer_outq_remove(out);
		xfer_ctx_fail(&out->ctx, status);
	}
}

/*
 * The core had no room for it. The doubtful take turns, until they are dropped: not at once, as this process may have been
 * held up, and not have tried before.
 */
static void xfer_out_again(struct xfer_out *out)
{
	uint64_t now;

	if (!out->until)
		return;
	xfer_outq_remove(out);
	now = clock_coarse_ms();
	if (now >= out->until && out->late) {
		out->ctx.drop(&out->ctx);
		return;
	}
	if (now >= out->until) {
		out->until = now + XFER_OUT_LATE;
		out->late = true;
	}
	xfer_outq_add(out);
}

void xfer_outq_flush(struct xfer_channel *channel)
{
	unsigned int doubtful = XFER_OUT_DOUBTFUL;
	struct xfer_out *out, *next;
	ssize_t ret;

	xfer_assert_locked(channel->ep->xfer);
	for (out = TAILQ_FIRST(&channel->outq); out; out = next) {
		next = TAILQ_NEXT(out, entry);
		if (out->behind || (out->until && !doubtful))
			continue;
		doubtful -= out->until != 0;
		ret = out->ret == -FI_EAGAIN ? xfer_out_try(out) : out->ret;
		if (ret == -FI_EAGAIN) {
			xfer_out_again(out);
			continue;
		}
		xfer_outq_remove(out);
		if (!ret)
			continue;
		xfer_ctx_fail(&out->ctx, ret);
		/* the end of one may take others away, the next one among them */
		next = TAILQ_FIRST(&channel->outq);
	}
}

/* ---- in order ---- */

/* Tells whether a request waits for nothing but its turn */
static bool xfer_sendq_ready(const struct xfer_req *req)
{
	return req->state == XFER_READY || req->state == XFER_MARKING;
}

/*
 * Tells whether a request still has to wait. A marker's announcement goes before it: a receiver that has the
 * marker alone cannot tell whose it is. Where the core stops at messages without a receive, what follows the
 * marker may be such a message.
 */
static bool xfer_sendq_waits(const struct xfer_req *req)
{
	struct xfer_channel *front = &req->ctx.ep->front;

	if (!xfer_sendq_ready(req))
		return true;
	if (!(front->ep->quirks & QUIRK_STALLS) && req->state != XFER_MARKING)
		return false;
	if (front->letter && front->letter->addr == req->addr)
		xfer_letter_post(front);
	return xfer_outq_find(front, req->addr);
}

/* Gives the core a request's message or marker, if it is its turn. */
static ssize_t xfer_sendq_try(struct xfer_req *req)
{
	struct xfer_channel *front = &req->ctx.ep->front;
	struct stage_place place = stage_place_of(req->slot, req->reserve);
	struct iovec iov = {place.addr, req->state == XFER_MARKING ? 0 : req->len};
	const struct p2p_op op = {
		.type = req->done_flags & FI_TAGGED ? FI_OP_TSEND : FI_OP_SEND,
		.msg.msg_iov = &iov,
		.msg.desc = &place.desc,
		.msg.iov_count = 1,
		.msg.addr = req->addr,
		.msg.tag = req->tag,
		.msg.data = req->out.data,
		.flags = req->out.flags | FI_COMPLETION,
		.msg.context = &req->ctx,
	};

	if (xfer_sendq_waits(req))
		return -FI_EAGAIN;
	/* a copy that failed is known here, in its turn */
	if (req->comp.err)
		return -req->comp.err;
	return p2p_unlikely(gone_is(front, req->addr)) ? -FI_ECONNRESET : core_post(front, &op);
}

void xfer_sendq_flush(struct xfer_ep *ep)
{
	struct xfer_blocked blocked = {.count = 0};
	unsigned int left = ep->ready;
	struct xfer_req *req, *next;
	ssize_t ret;

	xfer_assert_locked(ep->xfer);
	for (req = TAILQ_FIRST(&ep->sendq); req && left; req = next) {
		next = TAILQ_NEXT(req, entry);
		left -= xfer_sendq_ready(req);
		if (xfer_blocked_has(&blocked, req->addr))
			continue;
		ret = xfer_sendq_try(req);
		if (ret == -FI_EAGAIN) {
			xfer_blocked_add(&blocked, req->addr);
			continue;
		}
		xfer_req_move(req, req->state == XFER_MARKING ? XFER_ANNOUNCED : XFER_CORE);
		if (ret)
			xfer_ctx_fail(&req->ctx, ret);
	}
}

void xfer_sendq_fail(struct xfer_ep *ep, fi_addr_t addr, int status)
{
	struct xfer_req *req;

	xfer_assert_locked(ep->xfer);
	TAILQ_FOREACH(req, &ep->sendq, entry) {
		if (req->addr == addr && req->state != XFER_GREETING)
			req->comp.err = -status;
	}
}

bool xfer_sendq_has(const struct xfer_ep *ep, fi_addr_t addr)
{
	const struct xfer_req *req;

	xfer_assert_locked(ep->xfer);
	TAILQ_FOREACH(req, &ep->sendq, entry) {
		if (req->addr == addr)
			return true;
	}
	return false;
}
