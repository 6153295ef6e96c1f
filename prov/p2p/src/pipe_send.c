/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Rank 4: long messages going out. See pipe.h. */
#include "pipe_sides.h"

#include <stdlib.h>
#include <rdma/fi_errno.h>

#include "conf.h"
#include "ctrl.h"
#include "log.h"
#include "mem.h"
#include "peer.h"
#include "pin.h"
#include "remote.h"
#include "whole.h"

_Static_assert(sizeof(struct pipe_piece) <= CELL_SIZE, "a piece is a cell");
_Static_assert(WIRE_PLAIN_MSG_MAX <= BOARD_TEXT_MAX, "an announcement is a note");

struct xfer_req *pipe_sending_find(const struct xfer *xfer, uint64_t id)
{
	struct xfer_req *req;

	LIST_FOREACH(req, xfer_chain(xfer->sending, id), pipe.chain) {
		if (req->pipe.id == id)
			return req;
	}
	return NULL;
}

void pipe_sending_remove(struct xfer_req *req)
{
	struct xfer *xfer = req->ctx.ep->xfer;

	if (!req->pipe.listed)
		return;
	LIST_REMOVE(req, pipe.chain);
	xfer->open--;
	board_take_down(&xfer->board, req->pipe.id);
	req->pipe.listed = false;
}

void pipe_sending_recall(struct xfer_req *req, int status)
{
	const struct wire_msg msg = {.type = WIRE_ABORT, .id = req->pipe.id, .status = status};
	struct board *board = &req->ctx.ep->xfer->board;
	void *note = req->pipe.listed ? board_recall(board, msg.id) : NULL;

	if (note)
		board_leave(board, msg.id, wire_encode(&msg, note));
}

void pipe_sending_add(struct xfer_req *req)
{
	struct xfer *xfer = req->ctx.ep->xfer;

	LIST_INSERT_HEAD(xfer_chain(xfer->sending, req->pipe.id), req, pipe.chain);
	xfer->open++;
	req->pipe.listed = true;
	req->pipe.heard = pipe_now();
	/* until the receiver says otherwise */
	req->pipe.via = req->ctx.ep;
	req->pipe.to = req->addr;
}

void pipe_send_check(struct xfer_req *req)
{
	if (!req->pipe.marker_sent || req->pipe.in_flight)
		return;
	if (!req->pipe.status && (!pipe_req_done(req) || req->pipe.fin_wanted))
		return;
	pipe_list_remove(req);
	pipe_sending_remove(req);
	req->comp = (struct core_comp){
		.flags = req->done_flags,
		.src = FI_ADDR_NOTAVAIL,
	};
	xfer_req_end(req, -req->pipe.status);
}

/* Begins no more pieces; @tell: the receiver does not know yet. */
void pipe_send_fail(struct xfer_req *req, int status, bool tell)
{
	if (!req->pipe.status)
		req->pipe.status = status;
	if (tell)
		pipe_abort_send(req);
	pipe_sending_recall(req, req->pipe.status);
	req->pipe.aborted = true;
	pipe_send_check(req);
}

static void pipe_plain_sent(struct xfer_ctx *ctx, const struct core_comp *comp)
{
	struct xfer_req *req = (struct xfer_req *) ctx;

	req->pipe.status = -abs(comp->err);
	if (comp->err)
		pipe_abort_send(req);
	req->comp = *comp;
	req->comp.len = 0;
	xfer_req_end(req, comp->err);
}

/* Sends the whole message after all; its data tells what it stands for. */
static void pipe_send_plain(struct xfer_req *req)
{
	ssize_t ret;

	pipe_sending_remove(req);
	xfer_req_unstage(req, 0);
	ret = whole_send_as(req, WIRE_MARK | req->pipe.id, pipe_plain_sent);
	if (ret)
		pipe_send_fail(req, (int) ret, true);
}

void pipe_marker_sent(struct xfer_ctx *ctx, const struct core_comp *comp)
{
	struct xfer_req *req = (struct xfer_req *) ctx;

	req->pipe.marker_sent = true;
	if (comp->err)
		pipe_send_fail(req, -abs(comp->err), true);
	else if (req->pipe.plain && !req->pipe.status)
		pipe_send_plain(req);
	else
		pipe_send_check(req);
}

/* Tells the receiver: by a note that it will look for, or a message */
static int pipe_tell(struct xfer_req *req, struct wire_msg *msg)
{
	struct xfer_ep *ep = req->ctx.ep;
	struct board *board = &ep->xfer->board;
	void *note;
	int ret;

	if (msg->type != WIRE_ANNOUNCE || !peer_reads(ep, req->addr))
		return ctrl_send(ep, req->addr, msg);
	note = board_note(board, msg->id);
	if (!note)
		return ctrl_send(ep, req->addr, msg);
	/* an answer may be a message all the same */
	ret = ctrl_listen(ep);
	if (ret)
		return ret;
	if (wait_sleepers(&ep->xfer->wait))
		msg->flags |= WIRE_CALLS;
	board_show(board, msg->id, wire_encode(msg, note));
	return 0;
}

/* Tells the receiver what is to come. */
int pipe_announce(struct xfer_req *req, enum wire_type type, uint64_t key, uint64_t addr)
{
	struct xfer_ep *ep = req->ctx.ep;
	struct wire_msg msg = {
		.type = type,
		.id = req->pipe.id,
		.len = req->len,
		.chunk = (uint32_t) ep->xfer->stage.pools[STAGE_PIECE].size,
		.key = key,
		.addr = addr,
	};
	struct fi_rma_iov memory;
	int ret;

	ctrl_sign(ep, &msg);
	if (!msg.id)
		msg.id = req->pipe.id = pipe_id_new(ep->xfer);
	if (req->op_flags & FI_REMOTE_CQ_DATA) {
		msg.flags |= WIRE_HAS_DATA;
		msg.data = req->data;
	}
	if (req->pipe.fin_wanted)
		msg.flags |= WIRE_WANT_FIN;
	if (req->path.proto == PATH_LENT)
		msg.flags |= WIRE_LENT;
	if (type == WIRE_ANNOUNCE && req->path.proto == PATH_READ) {
		pin_remote(req, &memory);
		msg.flags |= WIRE_READABLE;
		msg.key = memory.key;
		msg.addr = memory.addr;
	}
	if (req->path.proto == PATH_ACROSS) {
		ipc_describe(&ep->xfer->ipc, req->export, &req->mem, req->iov[0].iov_base,
			     &msg.offer);
		msg.flags |= WIRE_OFFERED;
	}
	pipe_sending_add(req);
	ret = pipe_tell(req, &msg);
	if (ret)
		pipe_sending_remove(req);
	else
		xfer_set_busy(req);
	return ret;
}

/* Within a host the core is done with a marker when the call returns. False: it is not sent */
static bool pipe_marker_inject(struct xfer_req *req)
{
	const struct xfer_ep *ep = req->ctx.ep;
	const struct core_op op = {
		.tagged = req->tagged,
		.addr = req->addr,
		.tag = req->tag,
		.data = WIRE_MARK | req->pipe.id,
	};

	if (!ep->near || ep->waiting || req->op_flags & FI_FENCE ||
	    core_inject_empty(ep->core, &op))
		return false;
	req->pipe.marker_sent = true;
	return true;
}

/*
 * What is announced by a note may have its marker sent first: the note is written while that is on
 * its way, and the receiver looks again if it is not there. False: the marker has not been sent
 */
static bool pipe_marker_first(struct xfer_req *req)
{
	struct xfer_ep *ep = req->ctx.ep;

	if (!ep->near || !peer_reads(ep, req->addr) || ctrl_listen(ep))
		return false;
	req->pipe.id = pipe_id_new(ep->xfer);
	return board_note(&ep->xfer->board, req->pipe.id) && pipe_marker_inject(req);
}

ssize_t pipe_send(struct xfer_req *req)
{
	bool first;
	int ret;

	req->pipe.fin_wanted = req->op_flags & (FI_DELIVERY_COMPLETE | FI_TRANSMIT_COMPLETE) ||
			       req->path.proto == PATH_READ;
	first = pipe_marker_first(req);
	/* not after the marker: then there is a place for the note */
	ret = pipe_announce(req, WIRE_ANNOUNCE, 0, 0);
	if (ret)
		return ret;
	if (first || pipe_marker_inject(req))
		return 0;
	req->ctx.done = pipe_marker_sent;
	req->out.data = WIRE_MARK | req->pipe.id;
	req->out.flags = FI_REMOTE_CQ_DATA | (req->op_flags & FI_FENCE);
	xfer_sendq_add(req);
	xfer_sendq_ready(req);
	xfer_sendq_flush(req->ctx.ep);
	return 0;
}

int pipe_send_unmarked(struct xfer_req *req, enum wire_type type, uint64_t key,
		       uint64_t addr)
{
	req->pipe.marker_sent = true;
	req->pipe.fin_wanted = type == WIRE_WRITE;
	return pipe_announce(req, type, key, addr);
}

static void pipe_piece_sent(struct xfer_ctx *ctx, const struct core_comp *comp)
{
	struct xfer_req *req = pipe_piece_end((struct pipe_piece *) ctx);

	req->pipe.heard = pipe_now();
	if (comp->err)
		pipe_send_fail(req, -abs(comp->err), true);
	else
		pipe_send_check(req);
}

static void pipe_piece_copied_out(struct copy *copy, int status)
{
	struct pipe_piece *piece = container_of(copy, struct pipe_piece, copy);
	struct xfer_req *req = piece->req;

	if (xfer_copy_ended(req->ctx.ep))
		return;
	if (status || req->pipe.status) {
		pipe_piece_end(piece);
		pipe_send_fail(req, status, true);
		return;
	}
	xfer_out_post(&piece->out);
}

/* Begins the pieces that there are credits and slots for. */
void pipe_push(struct xfer_req *req)
{
	struct pipe_piece *piece;
	int ret;

	while (!req->pipe.status && req->pipe.credits && req->pipe.next < req->pipe.pieces) {
		piece = pipe_piece_new(req, STAGE_PIECE_OUT, pipe_piece_sent);
		if (!piece)
			return;
		piece->copy.done = pipe_piece_copied_out;
		pipe_piece_begun(req);
		req->pipe.credits--;
		if (!piece->host) {
			xfer_out_post(&piece->out);
			continue;
		}
		ret = xfer_copy_start(req->ctx.ep, &req->mem, COPY_OUT, piece->iov,
				      piece->count, piece->host, &piece->copy);
		if (ret) {
			pipe_piece_end(piece);
			pipe_send_fail(req, ret, true);
			return;
		}
	}
}

/* It is known whether a message that was offered has been taken: it is counted. */
static void pipe_taken(struct xfer_req *req, enum path_far far)
{
	struct path_choice choice = {FI_P2P_PATH_STAGE, PATH_LONG, path_far_reason(far)};

	if (!path_offers(req->path.proto))
		return;
	if (far == PATH_FAR_NOT && req->path.proto == PATH_READ)
		choice = req->path;
	else if (far == PATH_FAR_NOT)
		choice.path = FI_P2P_PATH_IPC;
	/* to another host it goes as it would have gone without an offer */
	if (far == PATH_FAR_HOST && req->path.path == FI_P2P_PATH_STAGE)
		choice.reason = req->path.reason;
	req->path = choice;
	if (!req->served)
		xfer_ep_sent(req->ctx.ep, &choice, req->len);
}

/* Is a message to be staged, as the receiver wants, that may not be? @proto: as announced */
static bool pipe_forbidden(const struct xfer_req *req, enum path_proto proto)
{
	enum path_wish wish = req->ctx.ep->wish;
	bool nic = proto == PATH_READ && (wish == PATH_PEER_LONG || wish == PATH_PEER_ONLY);

	if (!req->mem.ops || req->len <= WIRE_PLAIN_MAX || (wish != PATH_ACROSS_LONG && !nic))
		return false;
	P2P_WARN("%zu bytes from %s device %d may not be staged: %s\n", req->len,
		 req->mem.ops->name, req->mem.ordinal, req->path.reason);
	return true;
}

/* Where the receiver wants the pieces: 0, or an error, and it is told */
static int pipe_cts_route(struct xfer_req *req, const struct wire_msg *msg)
{
	struct xfer_ep *via;
	fi_addr_t to;
	int ret;

	if (!(msg->flags & WIRE_ASIDE))
		return 0;
	via = xfer_ep_beside(req->ctx.ep);
	ret = via ? via->resolve(via, msg->name, msg->name_len, &to) : -FI_EADDRNOTAVAIL;
	if (ret) {
		pipe_send_fail(req, ret, true);
		return ret;
	}
	req->pipe.via = via;
	req->pipe.to = to;
	return 0;
}

static void pipe_cts(struct xfer_req *req, const struct wire_msg *msg)
{
	struct xfer *xfer = req->ctx.ep->xfer;
	enum path_proto proto = req->path.proto;

	if (req->pipe.answered || msg->len > req->len ||
	    msg->chunk > xfer->stage.pools[STAGE_PIECE].size) {
		P2P_WARN("a request for %zu bytes of a message of %zu is dropped: it does "
			 "not fit what was announced\n",
			 (size_t) msg->len, req->len);
		return;
	}
	req->pipe.answered = true;
	if (pipe_cts_route(req, msg))
		return;
	req->pipe.plain = msg->flags & WIRE_PLAIN;
	if (req->path.proto == PATH_LENT && (req->pipe.plain || msg->len))
		peer_borrows_not(req->ctx.ep, req->addr);
	if (req->path.proto == PATH_ACROSS)
		peer_declined(req->ctx.ep, req->addr, req->len, (enum path_far) msg->data,
			      req->pipe.plain);
	pipe_taken(req, (enum path_far) msg->data);
	if ((req->pipe.plain || msg->len) && pipe_forbidden(req, proto)) {
		pipe_send_fail(req, -FI_EOPNOTSUPP, true);
		return;
	}
	if (req->pipe.plain) {
		if (req->pipe.marker_sent)
			pipe_send_plain(req);
		return;
	}
	req->pipe.wanted = msg->len;
	req->pipe.chunk = msg->chunk;
	req->pipe.transfer = msg->transfer;
	/* another thread may have dealt with what came after this */
	req->pipe.credits += msg->count;
	if (!msg->len) {
		pipe_send_check(req);
		return;
	}
	req->pipe.pieces = (msg->len - 1) / msg->chunk + 1;
	/* it need not be there whole any more; unless that is all there is of it (FI_INJECT) */
	if (req->mem.ops)
		xfer_req_unstage(req, 0);
	pipe_list_add(req, &xfer->pushing);
	pipe_push(req);
}

void pipe_answer(struct xfer *xfer, const struct wire_msg *msg)
{
	struct xfer_req *req = pipe_sending_find(xfer, msg->id);

	if (!req) {
		/* one that failed here in the meantime */
		P2P_INFO("an answer for a message that is not being sent is dropped\n");
		return;
	}
	req->pipe.heard = pipe_now();
	switch (msg->type) {
	case WIRE_CTS:
		pipe_cts(req, msg);
		break;
	case WIRE_CREDIT:
		req->pipe.credits += msg->count;
		pipe_push(req);
		break;
	case WIRE_PROBE:
		break;
	case WIRE_RESULT:
		remote_result(req, msg);
		break;
	case WIRE_FIN:
		/* who has read or copied it, or the rest of it, asks for nothing more */
		if (!msg->status && !req->pipe.answered)
			pipe_taken(req, PATH_FAR_NOT);
		req->pipe.answered = true;
		req->pipe.fin_wanted = false;
		if (msg->status && !req->pipe.status)
			req->pipe.status = msg->status;
		pipe_send_check(req);
		break;
	default:
		/* there, receives stay posted until nothing more can come */
		pipe_send_fail(req, msg->status, req->pipe.via != req->ctx.ep);
	}
}
