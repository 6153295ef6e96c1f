/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Long messages coming in. See rndv_recv.h. */
#include "proto/rndv_recv.h"

#include <stdlib.h>
#include <rdma/fi_errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/trace.h"
#include "mem/mem.h"
#include "proto/rndv_lanes.h"
#include "proto/rndv_match.h"
#include "proto/rndv_stale.h"
#include "xfer/ctrl.h"
#include "xfer/ep_state.h"
#include "xfer/peer.h"
#include "xfer/region.h"
#include "xfer/req_state.h"

/* The longest that a receive waits until its sender can be told of its end [ms] */
#define RNDV_FIN_WAIT 1000

/* Tells the sender that all of the message is here. */
static void rndv_recv_answer(struct xfer_req *req)
{
	const struct xfer_arrival *arrival = req->transfer.recv.arrival;
	struct wire_msg done = {.type = WIRE_DONE, .to_sender = true, .id = req->transfer.id};

	/* on the note, where that does not overtake a message and wakes nobody */
	bool note = arrival->noted && req->path.proto == PATH_ACROSS &&
		    !(arrival->flags & WIRE_CALLS);

	if (!note || !note_answer(req->ctx.ep->xfer, done.id))
		ctrl_owed(req->peer, ctrl_tell(req->peer, &done));
}

/* Ends a receive with its status, and forgets its arrival. */
static void rndv_recv_end(struct xfer_req *req)
{
	struct xfer_arrival *arrival = req->transfer.recv.arrival;
	int status = req->transfer.status;

	req->comp.len = req->transfer.wanted;
	if (!status && arrival->total > req->transfer.wanted) {
		req->comp.olen = arrival->total - req->transfer.wanted;
		status = -FI_ETRUNC;
		P2P_WARN(
			"a message of %zu bytes is too long for its receive of %zu: FI_ETRUNC\n",
			arrival->total, req->transfer.wanted);
	}
	rndv_arrival_free(arrival, req->ctx.ep->xfer);
	xfer_req_end(req, -status);
}

static void rndv_recv_committed(struct flush *flush, int status)
{
	struct xfer_req *req = container_of(flush, struct xfer_req, flush);

	if (!rndv_copied(req))
		return;
	req->transfer.in_flight--;
	req->ctx.ep->stats.commits += !status;
	if (status)
		rndv_recv_fail(req, status, true);
	else
		rndv_recv_check(req);
}

/* Begins to make what a peer has written durable, once. False: that is not asked for, or done */
static bool rndv_recv_commit(struct xfer_req *req)
{
	struct xfer_arrival *arrival = req->transfer.recv.arrival;

	if (!(arrival->flags & WIRE_COMMIT) || !req->region)
		return false;
	arrival->flags &= ~WIRE_COMMIT;
	req->flush = (struct flush){
		.kind = req->region->pmem,
		.iov = req->iov,
		.count = req->count,
		.done = rndv_recv_committed,
	};
	req->transfer.in_flight++;
	req->transfer.copying++;
	xfer_flush(req->ctx.ep, &req->flush);
	return true;
}

/*
 * Tells the sender, where that is needed, that all of a message is here, and ends the receive. What the sender
 * is told last may have to wait: for room in the core, or a connection of the side endpoint. Once it has this
 * message the application may leave us no time for that. A sender that cannot be told is not waited for.
 */
static void rndv_recv_done(struct xfer_req *req)
{
	const struct xfer_arrival *arrival = req->transfer.recv.arrival;
	bool tell = arrival->flags & WIRE_WANT_DONE || req->path.proto == PATH_ACROSS;

	if (rndv_recv_commit(req))
		return;
	if (tell)
		rndv_recv_answer(req);
	req->transfer.since = clock_coarse_ms();
	if ((tell || !req->transfer.wanted) && ctrl_unsent(req->transfer.via, req->transfer.to))
		xfer_req_move(req, XFER_TELLING);
	else
		rndv_recv_end(req);
}

/* Nothing has a receive on lanes any more. The rest comes without, and under another number, as what is late has this one */
static void rndv_recv_anew(struct xfer_req *req)
{
	struct xfer_transfer *transfer = &req->transfer;

	transfer->next = transfer->recv.lost - 1;
	transfer->number = (uint32_t) xfer_id_new(req->ctx.ep->xfer);
	transfer->lanes = 0;
	transfer->recv.granted = 0;
	transfer->recv.lost = 0;
}

void rndv_recv_check(struct xfer_req *req)
{
	xfer_assert_locked(req->ctx.ep->xfer);
	if (req->transfer.in_flight && req->state == XFER_ENDING)
		rndv_report_early(req);
	if (req->transfer.in_flight)
		return;
	switch (req->state) {
	case XFER_PULLING:
	case XFER_MOVING:
		if (req->state == XFER_PULLING && req->transfer.recv.lost)
			rndv_recv_anew(req);
		if (rndv_all_begun(req))
			rndv_recv_done(req);
		break;
	case XFER_MATCHED:
		if (!req->transfer.wanted)
			rndv_recv_done(req);
		break;
	case XFER_TELLING:
		if (!ctrl_unsent(req->transfer.via, req->transfer.to) ||
		    rndv_arrival_parts(req->transfer.recv.arrival) ||
		    clock_coarse_ms() - req->transfer.since >= RNDV_FIN_WAIT)
			rndv_recv_end(req);
		break;
	case XFER_ENDING:
		rndv_recv_end(req);
		break;
	default:
		break;
	}
}

/* Begins to copy a piece into the user's buffer when the core has received it. */
static void rndv_piece_received(struct xfer_ctx *ctx, const struct core_comp *comp);

/* Ends a piece when it has been copied into the user's buffer. */
static void rndv_piece_copied_in(struct copy *copy, int status)
{
	struct rndv_piece *piece = container_of(copy, struct rndv_piece, copy);
	struct xfer_req *req = piece->req;

	if (!rndv_copied(piece->req))
		return;
	rndv_piece_end(piece);
	if (status)
		rndv_recv_fail(req, status, true);
	else
		rndv_recv_check(req);
}

/* One receive less is kept for the message: it is left to what may still come. */
static void rndv_room_give(struct xfer_req *req)
{
	req->lane_room--;
	req->peer->lanes->held--;
}

/* Its receive was taken back. It may come all the same, unless its sender does not begin it. So there is another one */
static void rndv_piece_missed(struct xfer_req *req, struct xfer_channel *via, uint64_t tag)
{
	const struct xfer_arrival *arrival = req->transfer.recv.arrival;

	if (arrival->status && tag % WIRE_PIECES_MAX >= arrival->begun)
		return;
	if (via->lane >= 0 && req->lane_room) {
		rndv_room_give(req);
		rndv_stale_expect(via, tag);
	} else if (via->lane < 0 && !(req->ctx.ep->quirks & QUIRK_STALLS)) {
		rndv_stale_expect(via, tag);
	}
}

/* Takes back the pieces that are posted, from number @from on; they end as cancelled. */
static void rndv_recv_cancel(struct xfer_req *req, uint64_t from)
{
	struct rndv_piece *piece;
	struct xfer_ctx *ctx;

	LIST_FOREACH(ctx, &req->transfer.via->ep->live, live) {
		piece = (struct rndv_piece *) ctx;
		if (ctx->done == rndv_piece_received && piece->req == req &&
		    piece->index >= from)
			xfer_out_cancel(&piece->out);
	}
}

static void rndv_stray_drop(struct xfer_ctx *ctx)
{
	struct xfer_peer *peer = ((struct rndv_piece *) ctx)->stray;

	rndv_piece_drop(ctx);
	xfer_peer_put(peer);
}

/* A stray piece has come, or does not. What was taken back may come all the same */
static void rndv_stray_ended(struct xfer_ctx *ctx, const struct core_comp *comp)
{
	struct xfer_channel *via = ((struct rndv_piece *) ctx)->out.via;
	const uint64_t tag = ((struct rndv_piece *) ctx)->out.tag;

	rndv_stray_drop(ctx);
	if (comp->err == FI_ECANCELED)
		rndv_stale_expect(via, tag);
	else
		lanes_leave(via->ep, NULL, 1);
}

/*
 * Its message goes on without it. If the core has begun to fill the slot, it keeps that until TCP finds that nothing more comes.
 * The slot is the peer's
 */
static void rndv_piece_stray(struct rndv_piece *piece)
{
	struct xfer_req *req = piece->req;

	piece->stray = req->peer;
	xfer_peer_hold(piece->stray);
	rndv_room_give(req);
	req->transfer.in_flight--;
	piece->out.ctx.done = rndv_stray_ended;
	piece->out.ctx.drop = rndv_stray_drop;
	lanes_forget(&piece->out);
}

/* A piece was to come by a lane, and does not: nothing more is asked for by lanes, and what was asked for is taken back */
static void rndv_recv_lose(struct xfer_req *req, uint64_t index)
{
	struct rndv_piece *piece;
	struct xfer_ctx *ctx;

	index = P2P_MIN(index, req->transfer.recv.lost ? req->transfer.recv.lost - 1
						       : req->transfer.next);
	LIST_FOREACH(ctx, &req->transfer.via->ep->live, live) {
		piece = (struct rndv_piece *) ctx;
		if (ctx->done != rndv_piece_received || piece->req != req || piece->copy.done)
			continue;
		index = P2P_MIN(index, piece->index);
		if (rndv_piece_host(piece) && req->lane_room)
			rndv_piece_stray(piece);
		else if (!req->transfer.recv.lost)
			xfer_out_cancel(&piece->out);
	}
	req->transfer.recv.lost = 1 + (uint32_t) index;
	rndv_recv_check(req);
}

static void rndv_piece_received(struct xfer_ctx *ctx, const struct core_comp *comp)
{
	struct rndv_piece *piece = (struct rndv_piece *) ctx;
	const uint64_t tag = piece->out.tag;
	struct xfer_channel *via = piece->out.via;
	struct xfer_req *req = piece->req;
	int status = -abs(comp->err);

	P2P_TRACE(piece_received, piece, req, comp->err);
	if (!status && comp->len != piece->len) {
		P2P_WARN("piece %zu of a message has %zu bytes, not %zu\n",
			 (size_t) piece->index, comp->len, piece->len);
		status = -FI_EIO;
	}
	if (!status && req->state != XFER_ENDING && rndv_piece_host(piece)) {
		status = rndv_piece_copy(piece, COPY_IN, rndv_piece_copied_in);
		if (!status)
			return;
	}
	rndv_piece_end(piece);
	if (status == -FI_ECANCELED)
		rndv_piece_missed(req, via, tag);
	if (comp->err && via->lane >= 0 && req->state == XFER_PULLING)
		rndv_recv_lose(req, tag % WIRE_PIECES_MAX);
	else if (status)
		rndv_recv_fail(req, status, true);
	else
		rndv_recv_check(req);
}

/* The endpoint that was to receive it has closed. Its request may be another one's, and go on to its end. */
static void rndv_piece_close(struct xfer_ctx *ctx)
{
	struct xfer_req *req = rndv_piece_end((struct rndv_piece *) ctx);

	if (!req->ctx.ep->closing)
		rndv_recv_check(req);
}

/* Does a message wait for a piece before @next by that lane? */
static bool rndv_recv_waits(const struct xfer_req *req, unsigned int lane, uint64_t next)
{
	const struct rndv_piece *piece;
	const struct xfer_ctx *ctx;

	LIST_FOREACH(ctx, &req->transfer.via->ep->live, live) {
		piece = (const struct rndv_piece *) ctx;
		if (ctx->done == rndv_piece_received && piece->req == req &&
		    piece->out.via->lane == (int) lane && piece->index < next &&
		    !piece->copy.done)
			return true;
	}
	return false;
}

void rndv_recv_cut(struct xfer_peer *peer, uint64_t id, unsigned int lane, uint64_t next)
{
	struct xfer_req *req, *after;

	xfer_assert_locked(peer->ep->xfer);
	for (req = TAILQ_FIRST(&peer->ep->xfer->in[XFER_PULLING]); req; req = after) {
		after = TAILQ_NEXT(req, entry);
		if (req->peer == peer && req->transfer.lanes &&
		    (!id || (req->transfer.id == id && rndv_recv_waits(req, lane, next))))
			rndv_recv_lose(req, req->transfer.next);
	}
}

void rndv_recv_stop(struct xfer_req *req, int status, bool tell, uint64_t come)
{
	xfer_assert_locked(req->ctx.ep->xfer);
	if (req->state != XFER_ENDING && req->state != XFER_TELLING) {
		req->transfer.status = status;
		if (tell)
			rndv_abort_send(req);
		xfer_req_move(req, XFER_ENDING);
	}
	/* by lanes what may come need not, and has other receives */
	if (req->state == XFER_ENDING)
		rndv_recv_cancel(req, req->transfer.lanes && come != UINT64_MAX ? 0 : come);
	rndv_recv_check(req);
}

void rndv_recv_fail(struct xfer_req *req, int status, bool tell)
{
	/*
	 * Pieces that the sender knows of have their receives until they are here, or it answers which of them come.
	 * A core may wait for such a receive, and the sender with it.
	 */
	bool asked = tell && req->transfer.next > req->transfer.recv.granted;

	xfer_assert_locked(req->ctx.ep->xfer);
	rndv_recv_stop(req, status, tell, asked ? UINT64_MAX : 0);
}

/* Tells the sender of the pieces that have been posted since it was told last. */
void rndv_grant(struct xfer_req *req)
{
	const struct xfer_transfer *transfer = &req->transfer;
	struct wire_msg msg = {
		.type = WIRE_TAKE,
		.to_sender = true,
		.id = transfer->id,
		.len = transfer->wanted,
		.chunk = transfer->chunk,
		.transfer = transfer->number,
		.data = transfer->next - transfer->recv.granted,
		.count = transfer->recv.granted,
		.flags = transfer->lanes << WIRE_TAKE_LANES_SHIFT |
			 (uint32_t) transfer->recv.far << WIRE_TAKE_FAR_SHIFT,
	};
	int ret;

	xfer_assert_locked(req->ctx.ep->xfer);
	ret = ctrl_tell(req->peer, &msg);
	if (!ret)
		req->transfer.recv.granted = 0;
	else if (!transfer->wanted) /* nobody says that again */
		ctrl_owed(req->peer, ret);
}

/* Posts the next piece: 0, -FI_EAGAIN when there is no room for it, or another error. */
static ssize_t rndv_piece_post(struct xfer_req *req)
{
	struct rndv_piece *piece = rndv_piece_new(req, STAGE_PIECE_IN, rndv_piece_received);
	ssize_t ret;

	if (!piece)
		return -FI_EAGAIN;
	piece->out.ctx.drop = rndv_piece_close;
	piece->out.recv = true;
	piece->out.addr = FI_ADDR_UNSPEC;
	rndv_lanes_take(piece);
	ret = rndv_piece_ahead(piece) ? xfer_out_try(&piece->out) : -FI_EAGAIN;
	if (ret)
		rndv_piece_drop(&piece->out.ctx);
	else
		rndv_piece_begun(piece);
	return ret;
}

/* Posts the pieces that there is room for, until @window are in flight. */
static void rndv_pull_to(struct xfer_req *req, size_t window)
{
	ssize_t ret = 0;

	while (!ret && !rndv_all_begun(req) && !req->transfer.recv.lost &&
	       req->transfer.in_flight < window) {
		ret = rndv_piece_post(req);
		if (!ret)
			req->transfer.recv.granted++;
	}
	if (ret && ret != -FI_EAGAIN)
		rndv_recv_fail(req, (int) ret, true);
	else if (req->transfer.recv.granted)
		rndv_grant(req);
	else
		rndv_recv_check(req);
}

void rndv_pull(struct xfer_req *req)
{
	xfer_assert_locked(req->ctx.ep->xfer);
	rndv_pull_to(req, rndv_lanes_window(req->transfer.lanes));
}

void rndv_pull_starved(struct xfer_req *req)
{
	xfer_assert_locked(req->ctx.ep->xfer);
	if (req->transfer.starved)
		rndv_pull_to(req, 1);
}

void rndv_read_end(struct xfer_req *req, int status)
{
	xfer_assert_locked(req->ctx.ep->xfer);
	if (status)
		rndv_recv_fail(req, status, true);
	else
		rndv_recv_check(req);
}
