/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Pieces of long messages. See rndv_pieces.h. */
#include "proto/rndv_pieces.h"
#include "base/clock.h"
#include "base/trace.h"
#include "proto/proto_state.h"

#include <rdma/fi_errno.h>

#include "base/conf.h"
#include "mem/mem.h"
#include "xfer/ctrl.h"
#include "xfer/peer.h"
#include "xfer/ep_state.h"
#include "xfer/pin.h"

/*
 * Slots may all be with peers that do not call libfabric for long, or have died, of which cores may
 * never tell. What has wanted one for RNDV_STALL [ms], and has nothing in flight, goes on with
 * ordinary memory.
 */
#define RNDV_STALL 100

/*
 * So many receives of an endpoint pieces may hold, beside one for each message and peer. Cores have 256 or more, and an
 * application expects them to be its own.
 */
#define RNDV_AHEAD 128

void rndv_piece_drop(struct xfer_ctx *ctx)
{
	struct rndv_piece *piece = (struct rndv_piece *) ctx;
	struct stage *stage = &ctx->ep->xfer->stage;

	xfer_assert_locked(ctx->ep->xfer);
	if (piece->slot)
		stage_slot_put(stage, piece->slot);
	if (piece->reserve)
		stage_reserve_put(stage, piece->reserve, piece->len);
	if (piece->ahead) {
		ctx->ep->proto->ahead--;
		--*piece->ahead;
	}
	xfer_ctx_free(ctx);
}

bool rndv_piece_ahead(struct rndv_piece *piece)
{
	const struct xfer_req *req = piece->req;
	unsigned int *all = &piece->out.ctx.ep->proto->ahead;
	unsigned int *held = &req->peer->ahead;

	xfer_assert_locked(req->ctx.ep->xfer);
	if (piece->out.via->lane >= 0 || !(req->transfer.in_flight || req->done_flags & FI_RMA))
		return true;
	if (*held && *held + *all >= RNDV_AHEAD)
		return false;
	piece->ahead = held;
	++*held;
	++*all;
	return true;
}

unsigned int *rndv_held(const struct xfer_req *req, enum stage_use use)
{
	xfer_assert_locked(req->ctx.ep->xfer);
	return req->peer ? &req->peer->slots[use == STAGE_PIECE_IN] : NULL;
}

struct stage_slot *rndv_slot(struct xfer_req *req, enum stage_use use, size_t len)
{
	struct stage_slot *slot;

	xfer_assert_locked(req->ctx.ep->xfer);
	slot = stage_slot_get(&req->ctx.ep->xfer->stage, use, len, rndv_held(req, use));
	if (slot)
		req->transfer.starved = 0;
	return slot;
}

struct stage_reserve *rndv_spare(struct xfer_req *req, size_t len)
{
	unsigned int *spares = &req->peer->spares[req->recv];
	struct xfer *xfer = req->ctx.ep->xfer;
	uint32_t now = (uint32_t) clock_coarse_ms() | 1;
	struct stage_reserve *reserve = NULL;

	xfer_assert_locked(req->ctx.ep->xfer);
	if (!req->transfer.starved)
		req->transfer.starved = now;
	/* one for each peer: else who has much to do would take those that others need */
	if (!*spares && xfer->proto->spare && now - req->transfer.starved >= RNDV_STALL)
		reserve = stage_reserve_get(&xfer->stage, len);
	if (!reserve)
		return NULL;
	xfer->proto->spare--;
	reserve->spares = spares;
	++*spares;
	return reserve;
}

/* Lanes want more slots: half of all memory for staging for each */
static bool rndv_lanes_grow(const struct xfer_req *req)
{
	return req->transfer.lanes && stage_grow(&req->ctx.ep->xfer->stage, &req->mem,
						 req->transfer.lanes * (conf.pinned_size / 2));
}

/* Gets staging memory for a piece: a slot, or in need any other. False: none now */
static bool rndv_piece_stage(struct rndv_piece *piece, enum stage_use use)
{
	struct xfer_req *req = piece->req;

	piece->slot = rndv_slot(req, use, piece->len);
	if (!piece->slot && rndv_lanes_grow(req))
		piece->slot = rndv_slot(req, use, piece->len);
	if (!piece->slot && req->peer &&
	    (!req->transfer.in_flight || (!req->recv && req->transfer.send.anew)))
		piece->reserve = rndv_spare(req, piece->len);
	return rndv_piece_host(piece);
}

/* The request's next piece, with staging memory if it wants some; NULL: not now */
struct rndv_piece *rndv_piece_new(struct xfer_req *req, enum stage_use use,
				  void (*done)(struct xfer_ctx *ctx,
					       const struct core_comp *comp))
{
	struct xfer_ep *ep = req->ctx.ep;
	uint64_t offset = req->transfer.next * req->transfer.chunk;
	struct rndv_piece *piece = cell_get(&ep->xfer->cells);
	struct stage_place place;

	xfer_assert_locked(req->ctx.ep->xfer);
	if (!piece)
		return NULL;
	piece->req = req;
	piece->index = req->transfer.next;
	piece->slot = NULL;
	piece->reserve = NULL;
	piece->ahead = NULL;
	piece->copy.done = NULL;
	piece->len = P2P_MIN(req->transfer.wanted - offset, req->transfer.chunk);
	if (req->mem.ops && !req->direct && !rndv_piece_stage(piece, use)) {
		cell_put(&ep->xfer->cells, piece);
		return NULL;
	}
	xfer_out_init(&piece->out, req->transfer.via, req->transfer.to,
		      ep->tag_bit | WIRE_TAG_PIECE |
			      (uint64_t) req->transfer.number << WIRE_TAG_TRANSFER_SHIFT |
			      piece->index,
		      done, rndv_piece_drop);
	piece->count = mem_iov_slice(req->iov, req->count, offset, piece->len, piece->iov);
	memset(piece->out.desc, 0, sizeof piece->out.desc);
	place = stage_place_of(piece->slot, piece->reserve);
	if (place.addr) {
		piece->out.iov[0] = (struct iovec){place.addr, piece->len};
		piece->out.desc[0] = place.desc;
		piece->out.count = 1;
	} else {
		memcpy(piece->out.iov, piece->iov, piece->count * sizeof *piece->iov);
		pin_slice(req, offset, piece->count, piece->out.desc);
		piece->out.count = piece->count;
	}
	return piece;
}

void rndv_piece_begun(struct rndv_piece *piece)
{
	struct xfer_req *req = piece->req;

	xfer_assert_locked(req->ctx.ep->xfer);
	P2P_TRACE(piece_begin, piece, req, piece->index, piece->len, &piece->copy);
	req->transfer.next++;
	req->transfer.in_flight++;
}

/* Ends a piece; what it means for its request is up to the caller. */
struct xfer_req *rndv_piece_end(struct rndv_piece *piece)
{
	struct xfer_req *req = piece->req;

	xfer_assert_locked(piece->req->ctx.ep->xfer);
	req->transfer.in_flight--;
	rndv_piece_drop(&piece->out.ctx);
	return req;
}

int rndv_copy(struct xfer_req *req, enum copy_dir dir, const struct iovec *iov, size_t count,
	      void *host, struct copy *copy)
{
	int ret = xfer_copy_start(req->ctx.ep, &req->mem, dir, iov, count, host, copy);

	xfer_assert_locked(req->ctx.ep->xfer);
	if (!ret)
		req->transfer.copying++;
	return ret;
}

int rndv_piece_copy(struct rndv_piece *piece, enum copy_dir dir,
		    void (*done)(struct copy *copy, int status))
{
	xfer_assert_locked(piece->req->ctx.ep->xfer);
	piece->copy.done = done;
	return rndv_copy(piece->req, dir, piece->iov, piece->count, rndv_piece_host(piece),
			 &piece->copy);
}

bool rndv_copied(struct xfer_req *req)
{
	xfer_assert_locked(req->ctx.ep->xfer);
	if (xfer_copy_ended(req->ctx.ep))
		return false;
	req->transfer.copying--;
	return true;
}

void rndv_report_early(struct xfer_req *req)
{
	xfer_assert_locked(req->ctx.ep->xfer);
	/* what a lane keeps when the receiver has all may stay there, too */
	if ((!req->transfer.status && (req->recv || !req->transfer.send.wants_done)) ||
	    req->transfer.copying)
		return;
	/* the marker has no bytes */
	if ((req->mem.ops && !req->direct) || (!req->recv && !req->transfer.pieces))
		xfer_req_report_early(req, -req->transfer.status);
}

void rndv_abort_send(struct xfer_req *req)
{
	const bool unmarked =
		!req->recv && (req->state == XFER_MARKING || req->transfer.send.unmarked);
	struct wire_msg msg = {
		.type = WIRE_DONE,
		.id = req->transfer.id,
		.status = req->transfer.status,
		.to_sender = req->recv,
		.count = req->recv ? 0 : (uint32_t) req->transfer.next,
		.transfer = req->recv ? 0 : req->transfer.number,
		.flags = unmarked ? WIRE_UNMARKED : 0,
		/* that ends what was announced, so it must not overtake it */
		.front = unmarked,
	};

	xfer_assert_locked(req->ctx.ep->xfer);
	if (req->peer)
		ctrl_owed(req->peer, ctrl_tell(req->peer, &msg));
}
