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
 * So many stale pieces of an endpoint are waited for, and by lanes. The core has 1,024 receives, lanes have twice as many, and
 * the core looks through all that are posted. Who dies, and does not merely pause, never sends them.
 */
#define RNDV_STALE_MAX 256
#define RNDV_STALE_LANES_MAX 512

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
	/* without a side channel pieces come by the front */
	const struct xfer_channel *channel = ep->side.core ? &ep->side : &ep->front;
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
	if (core_post(channel, &op))
		xfer_ctx_free(ctx);
}

/* ---- over other cores, and lanes ---- */

/* A receive for one stale piece is a struct xfer_out without more. */

static void rndv_stale_drop(struct xfer_ctx *ctx)
{
	struct xfer_out *stale = (struct xfer_out *) ctx;

	xfer_out_wait(stale, 0);
	ctx->ep->proto->stale_count[stale->via->lane >= 0] -= !stale->cancelled;
	if (stale->via->lane >= 0)
		lanes_leave(ctx->ep, NULL, 1);
	xfer_ctx_free(ctx);
}

/* Nobody asks for what has come, nor why nothing has */
static void rndv_stale_received(struct xfer_ctx *ctx, const struct core_comp *comp)
{
	rndv_stale_drop(ctx);
}

/* The next one behind @ctx, or NULL. Newer ones come first */
static struct xfer_out *rndv_stale_next(struct xfer_ctx *ctx)
{
	while (ctx && ctx->done != rndv_stale_received)
		ctx = LIST_NEXT(ctx, live);
	return (struct xfer_out *) ctx;
}

/* The oldest one is not waited for any more; the core may still be receiving it */
static void rndv_stale_give_up(struct xfer_ep *ep, bool by_lane)
{
	struct xfer_out *stale, *oldest = NULL;

	for (stale = rndv_stale_next(LIST_FIRST(&ep->live)); stale;
	     stale = rndv_stale_next(LIST_NEXT(&stale->ctx, live)))
		oldest =
			stale->cancelled || (stale->via->lane >= 0) != by_lane ? oldest : stale;
	if (oldest->ret) {
		rndv_stale_drop(&oldest->ctx);
		return;
	}
	ep->proto->stale_count[by_lane]--;
	xfer_out_cancel(oldest);
}

/*
 * There is room for all of a piece, as shm (1.17) waits for ever for that. Whole tags: shm (1.17, 1.18) compares
 * those of a message that waits under the mask of another receive, so one
 * for all pieces does not find them, and may have another receive find a message that is not its own.
 */
static void rndv_stale_post(struct xfer_out *stale)
{
	const struct stage_reserve *sink = stage_sink(&stale->ctx.ep->xfer->stage);
	ssize_t ret = -FI_ENOMEM;

	if (sink) {
		stale->iov[0] = (struct iovec){sink->addr, sink->size};
		stale->desc[0] = sink->desc;
		ret = xfer_out_try(stale);
	}
	if (ret && ret != -FI_EAGAIN && ret != -FI_ENOMEM)
		rndv_stale_drop(&stale->ctx);
	else
		xfer_out_wait(stale, ret);
}

void rndv_stale_expect(struct xfer_channel *via, uint64_t tag)
{
	struct xfer_ep *ep = via->ep;
	struct xfer_out *stale = ep->closing ? NULL : cell_get(&ep->xfer->cells);
	const bool by_lane = via->lane >= 0;

	xfer_assert_locked(ep->xfer);
	if (!stale) {
		if (by_lane)
			lanes_leave(ep, NULL, 1);
		return;
	}
	if (ep->proto->stale_count[by_lane] >=
	    (by_lane ? RNDV_STALE_LANES_MAX : RNDV_STALE_MAX))
		rndv_stale_give_up(ep, by_lane);
	xfer_out_init(stale, via, FI_ADDR_UNSPEC, tag, rndv_stale_received, rndv_stale_drop);
	stale->recv = stale->aside = true;
	stale->count = 1;
	ep->proto->stale_count[by_lane]++;
	rndv_stale_post(stale);
}

void rndv_stale_retry(struct xfer_ep *ep)
{
	struct xfer_out *stale, *next;

	xfer_assert_locked(ep->xfer);
	if (!ep->proto->stale_count[false] && !ep->proto->stale_count[true])
		return;
	for (stale = rndv_stale_next(LIST_FIRST(&ep->live)); stale; stale = next) {
		next = rndv_stale_next(LIST_NEXT(&stale->ctx, live));
		if (stale->ret)
			rndv_stale_post(stale);
	}
}
