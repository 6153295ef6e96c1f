/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Stale pieces. See rndv_stale.h. */
#include "proto/rndv_stale.h"

#include <stdlib.h>
#include <rdma/fi_errno.h>

#include "mem/stage.h"
#include "proto/proto_state.h"
#include "xfer/core.h"
#include "xfer/lane.h"
#include "xfer/sendq.h"
#include "xfer/wire.h"

/*
 * So many stale pieces of an endpoint are waited for. The core has 1,024 receives, and looks through all that
 * are posted. Who dies, and does not merely pause, never sends them.
 */
#define RNDV_STALE_MAX 256

/* ---- over a core that stalls ---- */

static void rndv_stale_discarded(struct xfer_ctx *ctx, const struct core_comp *comp)
{
	struct xfer_ep *ep = ctx->ep;
	const bool found = !comp->err;

	xfer_ctx_free(ctx);
	if (found)
		rndv_stale_discard(ep);
}

/*
 * The sender of a piece has been told that its receive is posted. So a piece without one is stale, whoever
 * has sent it.
 */
void rndv_stale_discard(struct xfer_ep *ep)
{
	struct xfer_ctx *ctx = ep->closing ? NULL : cell_get(&ep->xfer->cells);
	const struct p2p_op op = {
		.type = FI_OP_TRECV,
		.msg.addr = FI_ADDR_UNSPEC,
		.msg.tag = ep->tag_bit | WIRE_TAG_PIECE,
		.msg.ignore = WIRE_TAG_PIECE - 1,
		.flags = FI_PEEK | FI_DISCARD | FI_COMPLETION,
		.msg.context = ctx,
	};

	xfer_assert_locked(ep->xfer);
	if (!ctx)
		return;
	xfer_ctx_init(ctx, ep, rndv_stale_discarded, xfer_ctx_free);
	if (core_post(ep, &op))
		xfer_ctx_free(ctx);
}

/* ---- within a host ---- */

/**
 * struct rndv_stale - a receive for one stale piece.
 * @waits:	the core had no room for it, or there was no memory: then progress looks (xfer_busy_add())
 * @forgotten:	it is not on the list any more
 */
struct rndv_stale {
	struct xfer_out out;
	bool waits;
	bool forgotten;
	TAILQ_ENTRY(rndv_stale) entry;
};

_Static_assert(sizeof(struct rndv_stale) <= CELL_SIZE, "a receive for a stale piece is a cell");

static void rndv_stale_forget(struct rndv_stale *stale)
{
	struct proto_ep *state = stale->out.ctx.ep->proto;

	if (stale->forgotten)
		return;
	stale->forgotten = true;
	TAILQ_REMOVE(&state->stales, stale, entry);
	state->stale_count--;
}

static void rndv_stale_wait(struct rndv_stale *stale, bool waits)
{
	if (stale->waits != waits)
		xfer_busy_add(stale->out.ctx.ep->xfer, waits ? 1 : -1);
	stale->waits = waits;
}

static void rndv_stale_drop(struct xfer_ctx *ctx)
{
	struct rndv_stale *stale = (struct rndv_stale *) ctx;

	rndv_stale_wait(stale, false);
	rndv_stale_forget(stale);
	if (stale->out.lane >= 0)
		lanes_leave(ctx->ep, NULL, 1);
	xfer_ctx_free(ctx);
}

/* The oldest one is not waited for any more; the core may still be receiving it */
static void rndv_stale_give_up(struct xfer_ep *ep)
{
	struct rndv_stale *oldest = TAILQ_FIRST(&ep->proto->stales);

	if (oldest->waits) {
		rndv_stale_drop(&oldest->out.ctx);
		return;
	}
	rndv_stale_forget(oldest);
	xfer_out_cancel(&oldest->out);
}

/* Nobody asks for what has come, nor why nothing has */
static void rndv_stale_received(struct xfer_ctx *ctx, const struct core_comp *comp)
{
	rndv_stale_drop(ctx);
}

/*
 * There is room for all of a piece, as shm (1.17) waits for ever for that. Whole tags: shm (1.17, 1.18) compares
 * those of a message that waits under the mask of another receive, so one
 * for all pieces does not find them, and may have another receive find a message that is not its own.
 */
static void rndv_stale_post(struct rndv_stale *stale)
{
	const struct stage_reserve *sink = stage_sink(&stale->out.ctx.ep->xfer->stage);
	ssize_t ret = -FI_ENOMEM;

	if (sink) {
		stale->out.iov[0] = (struct iovec){sink->addr, sink->size};
		stale->out.desc[0] = sink->desc;
		ret = xfer_out_try(&stale->out);
	}
	rndv_stale_wait(stale, ret == -FI_EAGAIN || ret == -FI_ENOMEM);
	if (ret && !stale->waits)
		rndv_stale_drop(&stale->out.ctx);
}

void rndv_stale_expect(struct xfer_ep *ep, int lane, uint64_t tag)
{
	struct rndv_stale *stale = ep->closing ? NULL : cell_get(&ep->xfer->cells);

	xfer_assert_locked(ep->xfer);
	if (!stale)
		return;
	if (lane >= 0 && !lanes_keep(ep, NULL, 1)) {
		cell_put(&ep->xfer->cells, stale);
		return;
	}
	stale->waits = stale->forgotten = false;
	if (ep->proto->stale_count >= RNDV_STALE_MAX)
		rndv_stale_give_up(ep);
	xfer_out_init(&stale->out, ep, FI_ADDR_UNSPEC, tag, rndv_stale_received,
		      rndv_stale_drop);
	stale->out.lane = lane;
	stale->out.recv = stale->out.aside = true;
	stale->out.count = 1;
	TAILQ_INSERT_TAIL(&ep->proto->stales, stale, entry);
	ep->proto->stale_count++;
	rndv_stale_post(stale);
}

void rndv_stale_retry(struct xfer_ep *ep)
{
	struct rndv_stale *stale, *next;

	xfer_assert_locked(ep->xfer);
	for (stale = TAILQ_FIRST(&ep->proto->stales); stale; stale = next) {
		next = TAILQ_NEXT(stale, entry);
		if (stale->waits)
			rndv_stale_post(stale);
	}
}
