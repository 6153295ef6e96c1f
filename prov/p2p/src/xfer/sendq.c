/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What waits to be sent. See sendq.h. */
#include "xfer/sendq.h"

#include <rdma/fi_errno.h>

#include "xfer/ep_state.h"
#include "xfer/gone.h"
#include "xfer/req_state.h"

/* ---- one by one ---- */

static ssize_t xfer_out_send(struct xfer_out *out)
{
	const struct core_op op = {
		.tagged = true,
		.iov = out->iov,
		.desc = out->desc,
		.count = out->count,
		.addr = out->addr,
		.tag = out->tag,
		.flags = FI_COMPLETION,
		.context = &out->ctx,
	};

	if (p2p_unlikely(gone_is(out->ctx.ep, out->addr)))
		return -FI_ECONNRESET;
	return core_post(out->ctx.ep->core, &op);
}

void xfer_out_init(struct xfer_out *out, struct xfer_ep *ep, fi_addr_t addr, uint64_t tag,
		   void (*done)(struct xfer_ctx *ctx, const struct core_comp *comp),
		   void (*drop)(struct xfer_ctx *ctx))
{
	xfer_assert_locked(ep->xfer);
	xfer_ctx_init(&out->ctx, ep, done, drop);
	out->post = xfer_out_send;
	out->addr = addr;
	out->tag = tag;
}

/* The core refused it: that is how it ends. */
static void xfer_ctx_fail(struct xfer_ctx *ctx, ssize_t ret)
{
	const struct core_comp comp = {.context = ctx, .err = (int) -ret};

	ctx->done(ctx, &comp);
}

/* An error is told later, in progress: the caller is still busy with what it sends. */
void xfer_out_post(struct xfer_out *out)
{
	struct xfer_ep *ep = out->ctx.ep;

	xfer_assert_locked(out->ctx.ep->xfer);
	out->ret = TAILQ_EMPTY(&ep->outq) ? out->post(out) : -FI_EAGAIN;
	if (!out->ret)
		return;
	TAILQ_INSERT_TAIL(&ep->outq, out, entry);
	wait_wake_mover(&ep->xfer->wait);
}

bool xfer_blocked_has(const struct xfer_blocked *blocked, fi_addr_t addr)
{
	for (size_t i = 0; i < blocked->count; i++) {
		if (blocked->addr[i] == addr)
			return true;
	}
	return blocked->count == sizeof blocked->addr / sizeof blocked->addr[0] ||
	       (addr == FI_ADDR_NOTAVAIL && blocked->count);
}

void xfer_blocked_add(struct xfer_blocked *blocked, fi_addr_t addr)
{
	if (xfer_blocked_has(blocked, addr))
		return;
	if (addr == FI_ADDR_NOTAVAIL)
		blocked->count = sizeof blocked->addr / sizeof blocked->addr[0];
	else
		blocked->addr[blocked->count++] = addr;
}

/* One that goes there, or NULL */
static struct xfer_out *xfer_outq_find(const struct xfer_ep *ep, fi_addr_t addr)
{
	struct xfer_out *out;

	TAILQ_FOREACH(out, &ep->outq, entry) {
		if (out->addr == addr)
			return out;
	}
	return NULL;
}

bool xfer_outq_has(const struct xfer_ep *ep, fi_addr_t addr)
{
	xfer_assert_locked(ep->xfer);
	return xfer_outq_find(ep, addr);
}

void xfer_outq_fail(struct xfer_ep *ep, fi_addr_t addr, int status)
{
	struct xfer_out *out = ep->letter;

	xfer_assert_locked(ep->xfer);
	if (out && out->addr == addr) {
		ep->letter = NULL;
		xfer_ctx_fail(&out->ctx, status);
	}
	/* the end of one may take others away */
	while ((out = xfer_outq_find(ep, addr))) {
		TAILQ_REMOVE(&ep->outq, out, entry);
		xfer_ctx_fail(&out->ctx, status);
	}
}

void xfer_outq_flush(struct xfer_ep *ep)
{
	struct xfer_blocked blocked = {.count = 0};
	struct xfer_out *out, *next;
	ssize_t ret;

	xfer_assert_locked(ep->xfer);
	for (out = TAILQ_FIRST(&ep->outq); out; out = next) {
		next = TAILQ_NEXT(out, entry);
		if (xfer_blocked_has(&blocked, out->addr))
			continue;
		ret = out->ret == -FI_EAGAIN ? out->post(out) : out->ret;
		if (ret == -FI_EAGAIN) {
			xfer_blocked_add(&blocked, out->addr);
			continue;
		}
		TAILQ_REMOVE(&ep->outq, out, entry);
		if (ret)
			xfer_ctx_fail(&out->ctx, ret);
	}
}

/* ---- in order ---- */

/* It has nothing to wait for but its turn */
static bool xfer_sendq_ready(const struct xfer_req *req)
{
	return req->state == XFER_READY || req->state == XFER_MARKING;
}

/*
 * A marker's announcement goes before it: a receiver that has the marker alone cannot tell whose it is.
 * Where the core stops at messages without a receive, what follows the marker may be such a message.
 */
static bool xfer_sendq_waits(const struct xfer_req *req)
{
	const struct xfer_ep *ep = req->ctx.ep;

	return !xfer_sendq_ready(req) ||
	       ((ep->stalls || req->state == XFER_MARKING) && xfer_outq_has(ep, req->addr));
}

static ssize_t xfer_sendq_try(struct xfer_req *req)
{
	struct iovec iov = {req->host, req->out.len};
	const struct core_op op = {
		.tagged = req->tagged,
		.iov = &iov,
		.desc = &req->host_desc,
		.count = 1,
		.addr = req->addr,
		.tag = req->tag,
		.data = req->out.data,
		.flags = req->out.flags | FI_COMPLETION,
		.context = &req->ctx,
	};

	if (xfer_sendq_waits(req))
		return -FI_EAGAIN;
	/* a copy that failed is known here, in its turn */
	if (req->comp.err)
		return -req->comp.err;
	return p2p_unlikely(gone_is(req->ctx.ep, req->addr))
		       ? -FI_ECONNRESET
		       : core_post(req->ctx.ep->core, &op);
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
