/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Long messages coming in. See rndv_recv.h. */
#include "proto/rndv_recv.h"

#include <stdlib.h>
#include <rdma/fi_errno.h>

#include "base/log.h"
#include "mem/mem.h"
#include "proto/rndv_match.h"
#include "xfer/ctrl.h"
#include "xfer/ep_state.h"

/* The longest that a receive waits until its sender can be told of its end [ms] */
#define RNDV_FIN_WAIT 1000

/* Pieces of one message that are posted at a time */
#define RNDV_WINDOW 8

/* Tells the sender that all of the message is here. */
static void rndv_recv_fin(struct xfer_req *req)
{
	const struct rndv_arrival *arrival = req->rndv.arrival;
	const struct wire_msg fin = {.type = WIRE_FIN, .id = req->rndv.id};
	struct xfer_ep *ep = req->ctx.ep;

	/* on the note, where that does not overtake a message and wakes nobody */
	bool note = arrival->noted && req->path.proto == PATH_ACROSS &&
		    !(arrival->flags & WIRE_CALLS);

	if (!note || !board_far_answer(ep->xfer->boards, xfer_board_owner(fin.id), fin.id))
		ctrl_send(arrival->via, arrival->src, &fin);
}

/*
 * What the sender is told last may have to wait: for room in the core, or a connection of the endpoint
 * aside. Once it has this message the application may leave us no time for that. A sender that
 * cannot be told is not waited for.
 */
static bool rndv_end_waits(const struct xfer_req *req)
{
	return (req->rndv.fin_sent || !req->rndv.wanted) &&
	       ctrl_unsent(req->rndv.via, req->rndv.to) &&
	       xfer_now() - req->rndv.heard < RNDV_FIN_WAIT;
}

/* Ends the receive if nothing of it is left. */
void rndv_recv_check(struct xfer_req *req)
{
	struct rndv_arrival *arrival = req->rndv.arrival;
	struct xfer_ep *ep = req->ctx.ep;
	int status = req->rndv.status;

	if (req->rndv.in_flight || (!status && !rndv_req_done(req)))
		return;
	if (!status && !req->rndv.fin_sent &&
	    (arrival->flags & WIRE_WANT_FIN || req->path.proto == PATH_ACROSS)) {
		rndv_recv_fin(req);
		req->rndv.fin_sent = true;
		req->rndv.heard = xfer_now();
	}
	if (rndv_end_waits(req)) {
		if (req->rndv.list != &ep->xfer->pulling) {
			xfer_list_remove(req);
			xfer_list_add(req, &ep->xfer->pulling);
		}
		return;
	}
	xfer_list_remove(req);
	req->comp.len = req->rndv.wanted;
	if (!status && arrival->total > req->rndv.wanted) {
		req->comp.olen = arrival->total - req->rndv.wanted;
		status = -FI_ETRUNC;
	}
	rndv_arrival_free(arrival, ep->xfer);
	xfer_req_end(req, -status);
}

static void rndv_piece_received(struct xfer_ctx *ctx, const struct core_comp *comp);

static void rndv_piece_copied_in(struct copy *copy, int status)
{
	struct rndv_piece *piece = container_of(copy, struct rndv_piece, copy);
	struct xfer_req *req = piece->req;

	if (xfer_copy_ended(req->ctx.ep))
		return;
	rndv_piece_end(piece);
	if (status)
		rndv_recv_fail(req, status, true);
	else
		rndv_recv_check(req);
}

static void rndv_piece_received(struct xfer_ctx *ctx, const struct core_comp *comp)
{
	struct rndv_piece *piece = (struct rndv_piece *) ctx;
	struct xfer_req *req = piece->req;
	int status = -abs(comp->err);

	req->rndv.heard = xfer_now();
	if (!status && comp->len != piece->len) {
		P2P_WARN("piece %zu of a message has %zu bytes, not %zu\n",
			 (size_t) piece->index, comp->len, piece->len);
		status = -FI_EIO;
	}
	if (!status && !req->rndv.status && piece->host) {
		piece->copy.done = rndv_piece_copied_in;
		status = xfer_copy_start(req->ctx.ep, &req->mem, COPY_IN, piece->iov,
					 piece->count, piece->host, &piece->copy);
		if (!status)
			return;
	}
	rndv_piece_end(piece);
	if (status)
		rndv_recv_fail(req, status, true);
	else
		rndv_recv_check(req);
}

/* Takes back the pieces that are posted; they end as cancelled. */
static void rndv_recv_cancel(struct xfer_req *req)
{
	struct xfer_ep *ep = req->rndv.via;
	struct xfer_ctx *ctx;

	LIST_FOREACH(ctx, &ep->live, live) {
		if (ctx->done == rndv_piece_received && ((struct rndv_piece *) ctx)->req == req)
			fi_cancel(&ep->core->fid, ctx);
	}
}

void rndv_recv_fail(struct xfer_req *req, int status, bool tell)
{
	/* what is on its way to the endpoint aside has its receives, until the sender answers */
	bool answered = tell && req->rndv.via != req->ctx.ep;

	if (!req->rndv.status && !req->rndv.fin_sent) {
		req->rndv.status = status;
		if (tell)
			rndv_abort_send(req);
	}
	if (req->rndv.status && !answered)
		rndv_recv_cancel(req);
	rndv_recv_check(req);
}

/* Tells the sender of the pieces that have been posted since it was told last. */
void rndv_grant(struct xfer_req *req)
{
	const struct xfer_ep *via = req->rndv.via;
	struct wire_msg msg = {
		.type = req->rndv.answered ? WIRE_CREDIT : WIRE_CTS,
		.id = req->rndv.id,
		.len = req->rndv.wanted,
		.chunk = req->rndv.chunk,
		.transfer = req->rndv.transfer,
		.count = req->rndv.granted,
		.data = req->rndv.answered ? 0 : req->rndv.far,
	};

	if (via != req->ctx.ep && !req->rndv.answered) {
		msg.flags = WIRE_ASIDE;
		msg.name = via->name;
		msg.name_len = via->name_len;
	}
	if (ctrl_send(req->rndv.via, req->rndv.to, &msg))
		return;
	req->rndv.answered = true;
	req->rndv.granted = 0;
}

/* Posts the next piece: 0, -FI_EAGAIN when there is no room for it, or another error. */
static ssize_t rndv_piece_post(struct xfer_req *req)
{
	struct rndv_piece *piece = rndv_piece_new(req, STAGE_PIECE_IN, rndv_piece_received);
	struct core_op op = {
		.recv = true,
		.tagged = true,
		.addr = FI_ADDR_UNSPEC,
		.flags = FI_COMPLETION,
	};
	ssize_t ret;

	if (!piece)
		return -FI_EAGAIN;
	op.iov = piece->out.iov;
	op.desc = piece->out.desc;
	op.count = piece->out.count;
	op.tag = piece->out.tag;
	op.context = &piece->out.ctx;
	ret = core_post(req->rndv.via->core, &op);
	if (ret)
		rndv_piece_drop(&piece->out.ctx);
	else
		rndv_piece_begun(req);
	/* as shm says that its receives are all in use */
	return ret == -FI_ENOMEM ? -FI_EAGAIN : ret;
}

/* Posts the pieces that there is room for. */
void rndv_pull(struct xfer_req *req)
{
	ssize_t ret = 0;

	while (!ret && !req->rndv.status && req->rndv.next < req->rndv.pieces &&
	       req->rndv.in_flight < RNDV_WINDOW) {
		ret = rndv_piece_post(req);
		if (!ret)
			req->rndv.granted++;
	}
	if (ret && ret != -FI_EAGAIN)
		rndv_recv_fail(req, (int) ret, true);
	else if (req->rndv.granted)
		rndv_grant(req);
	else
		rndv_recv_check(req);
}

void rndv_told(struct xfer *xfer)
{
	struct xfer_req *req, *next;

	for (req = TAILQ_FIRST(&xfer->pulling); req; req = next) {
		next = TAILQ_NEXT(req, entry);
		rndv_recv_check(req);
	}
}

void rndv_read_end(struct xfer_req *req)
{
	if (req->rndv.status)
		rndv_abort_send(req);
	rndv_recv_check(req);
}
