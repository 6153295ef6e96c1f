/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Long messages going out. See rndv_send.h. */
#include "proto/rndv_send.h"

#include <stdlib.h>
#include <rdma/fi_errno.h>

#include "base/clock.h"
#include "base/conf.h"
#include "xfer/ctrl.h"
#include "base/log.h"
#include "base/trace.h"
#include "xfer/ep_state.h"
#include "mem/mem.h"
#include "proto/hello_facts.h"
#include "xfer/peer.h"
#include "xfer/pin.h"
#include "proto/eager.h"
#include "proto/rndv_lanes.h"
#include "xfer/req_state.h"
#include "xfer/xfer_proto.h"

_Static_assert(sizeof(struct rndv_piece) <= CELL_SIZE, "a piece is a cell");

/*
 * Parts of one message that are in flight at a time, at most: a peer may ask for as many pieces as there
 * are bytes, and each takes a cell. Receivers of ours post fewer.
 */
#define RNDV_SEND_MAX 64

/* For so long [ms] lanes have done nothing when a receiver is asked; if they have something yet; the time doubles so often */
#define RNDV_QUIET ((uint64_t) 8)
#define RNDV_STUCK ((uint64_t) 128)
#define RNDV_QUIET_DOUBLES 10

_Static_assert(WIRE_PLAIN_MSG_MAX <= BOARD_TEXT_MAX, "an announcement is a note");

static void rndv_send_plain(struct xfer_req *req);

/* Does the receiver want it whole? */
static bool rndv_goes_whole(const struct xfer_req *req)
{
	return req->state == XFER_PUSHING && req->path.proto == PATH_WHOLE;
}

/* Ends, or moves on, a send of which nothing is in flight any more. */
static void rndv_send_check(struct xfer_req *req)
{
	if (req->transfer.in_flight && req->state == XFER_ENDING)
		rndv_report_early(req);
	if (req->transfer.in_flight)
		return;
	if (rndv_goes_whole(req))
		rndv_send_plain(req);
	else if (req->state == XFER_ENDING)
		rndv_send_end(req);
}

void rndv_send_end(struct xfer_req *req)
{
	xfer_assert_locked(req->ctx.ep->xfer);
	req->comp = (struct core_comp){.flags = req->done_flags, .src = FI_ADDR_NOTAVAIL};
	xfer_req_end(req, -req->transfer.status);
}

/* Ends a piece when the core has sent it, and looks whether it was the last. */
static void rndv_piece_sent(struct xfer_ctx *ctx, const struct core_comp *comp);

/* Takes back what waits on lanes: they may never have room for it */
static void rndv_send_recall(const struct xfer_req *req)
{
	struct rndv_piece *piece;
	struct xfer_ctx *ctx;

	LIST_FOREACH(ctx, &req->transfer.via->ep->live, live) {
		piece = (struct rndv_piece *) ctx;
		if (ctx->done == rndv_piece_sent && piece->req == req &&
		    piece->out.via->lane >= 0)
			xfer_out_cancel(&piece->out);
	}
}

void rndv_send_forsake(struct xfer_req *req)
{
	xfer_assert_locked(req->ctx.ep->xfer);
	req->transfer.send.lost = true;
	if (req->transfer.in_flight)
		rndv_send_recall(req);
}

/* Begins nothing more; ends when what is in flight has. It may be reported earlier, but after copies of it here */
static void rndv_send_over(struct xfer_req *req)
{
	xfer_req_move(req, XFER_ENDING);
	ipc_own_fall(&req->transfer.own);
	rndv_send_check(req);
}

void rndv_send_fail(struct xfer_req *req, int status, bool tell)
{
	/* once its DONE is here, nothing can fail */
	const bool has_ended = req->state == XFER_ENDING && req->transfer.send.wants_done;

	xfer_assert_locked(req->ctx.ep->xfer);
	if (req->transfer.status || has_ended) {
		rndv_send_check(req);
		return;
	}
	req->transfer.status = status;
	if (tell)
		rndv_abort_send(req);
	note_give_up(req->ctx.ep->xfer, req->transfer.id, status);
	if (req->state == XFER_ENDING)
		rndv_send_check(req);
	else if (req->state == XFER_MARKING)
		/* in its turn */
		req->comp.err = -status;
	else
		rndv_send_over(req);
}

static void rndv_plain_sent(struct xfer_ctx *ctx, const struct core_comp *comp)
{
	struct xfer_req *req = (struct xfer_req *) ctx;

	req->transfer.status = -abs(comp->err);
	if (comp->err)
		rndv_abort_send(req);
	req->comp = *comp;
	req->comp.len = 0;
	xfer_req_end(req, comp->err);
}

/* Sends the whole message after all; its data tells what it stands for. */
static void rndv_send_plain(struct xfer_req *req)
{
	ssize_t ret;

	xfer_req_unstage(req, 0);
	ret = eager_send_as(req, WIRE_MARK | req->transfer.id, rndv_plain_sent);
	if (ret)
		rndv_send_fail(req, (int) ret, true);
}

/* The core refuses, or has sent, a marker; or what was to be announced with it could not be. */
void rndv_marker_sent(struct xfer_ctx *ctx, const struct core_comp *comp)
{
	struct xfer_req *req = (struct xfer_req *) ctx;

	xfer_assert_locked(ctx->ep->xfer);
	if (req->state == XFER_CORE) {
		req->transfer.status = -abs(comp->err);
		rndv_send_end(req);
		return;
	}
	req->transfer.in_flight--;
	req->transfer.send.unmarked = comp->err;
	if (comp->err && !req->transfer.status) {
		rndv_send_fail(req, -abs(comp->err), true);
	} else if (req->state == XFER_ANNOUNCED && req->transfer.status) {
		/* it was to come all the same */
		if (comp->err)
			rndv_abort_send(req);
		rndv_send_over(req);
	} else {
		rndv_send_check(req);
	}
}

/*
 * Announces to the receiver: by a note that it will look for, or a message. How long a message's memory stands is told by
 * a note beside it, which a process of this host reads, or a NIC
 */
static int rndv_tell(struct xfer_req *req, struct wire_msg *msg)
{
	struct board *board = &req->ctx.ep->xfer->notes.board;
	const uint64_t id = msg->id | WIRE_MARK;
	struct fi_rma_iov word;

	if (req->done_flags & FI_SEND && req->peer->facts & HELLO_READS &&
	    note_tell(req->peer, msg))
		return 0;
	if (msg->flags & (WIRE_OFFERED | WIRE_READABLE)) {
		if (!board_note(board, id))
			return -FI_EAGAIN;
		board_show(board, id, 1);
	}
	if (msg->flags & WIRE_READABLE) {
		pin_word(req->ctx.ep->xfer, msg->id, &word);
		msg->flags |= WIRE_WORD;
		msg->lent_key = word.key;
		msg->lent_addr = word.addr;
	}
	if (msg->flags & WIRE_OFFERED) {
		msg->transfer = (uint32_t) (board->place >> 32);
		msg->count = (uint32_t) board->place;
	}
	msg->front = true;
	return ctrl_tell(req->peer, msg);
}

/* Where the receiver's core finds the copy */
static void rndv_announce_lent(struct xfer_req *req, struct wire_msg *msg)
{
	struct xfer_ep *ep = req->ctx.ep;

	msg->flags |= WIRE_LENT;
	msg->lent_key = fi_mr_key(req->slot->lent);
	msg->lent_addr = ep->xfer->stage.virt_addr ? (uintptr_t) req->slot->addr : 0;
	ep->stats.lent++;
}

/* Tells the receiver what is to come. */
int rndv_announce(struct xfer_req *req)
{
	const bool write = req->done_flags & FI_WRITE, marked = req->done_flags & FI_SEND;
	struct xfer_ep *ep = req->ctx.ep;
	struct wire_msg msg = {
		.type = write ? WIRE_CALL : WIRE_ANNOUNCE,
		.op = write ? FI_ATOMIC_WRITE : 0,
		.to_sender = req->served,
		.id = req->transfer.id,
		.len = req->len,
		.chunk = (uint32_t) ep->xfer->stage.pools[STAGE_PIECE].size,
		.key = marked ? 0 : req->target->key,
		.addr = marked ? 0 : req->target->addr,
	};
	struct fi_rma_iov memory;
	int ret;

	xfer_assert_locked(req->ctx.ep->xfer);
	if (!msg.id)
		msg.id = req->transfer.id = xfer_id_new(ep->xfer);
	P2P_TRACE(req_id, req, msg.id);
	if (req->op_flags & FI_REMOTE_CQ_DATA) {
		msg.flags |= WIRE_HAS_DATA;
		msg.data = req->data;
	}
	/* it may have lanes: one may die behind the last piece, and the receiver ask for that once more */
	req->transfer.send.wants_done |= write || (req->peer->lanes && req->peer->lanes->told &&
						   req->len >= lanes_len_min(ep));
	if (req->transfer.send.wants_done)
		msg.flags |= WIRE_WANT_DONE;
	if (req->path.proto == PATH_LENT)
		rndv_announce_lent(req, &msg);
	if (write && req->op_flags & FI_COMMIT_COMPLETE)
		msg.flags |= WIRE_COMMIT;
	if (req->path.proto == PATH_READ) {
		pin_remote(req, &memory);
		msg.flags |= WIRE_READABLE;
		msg.key = memory.key;
		msg.addr = memory.addr;
	}
	if (req->path.proto == PATH_ACROSS) {
		ipc_describe(&ep->xfer->ipc, req->export, &req->mem, req->iov[0].iov_base,
			     &msg.offer);
		msg.flags |= WIRE_OFFERED;
		ipc_own_stand(&req->transfer.own, msg.id, &req->mem, req->iov[0].iov_base,
			      req->len);
	}
	ret = rndv_tell(req, &msg);
	if (ret)
		xfer_transfer_recall(req);
	else
		xfer_set_busy(req);
	return ret;
}

/*
 * Sends a marker at once: within a host the core is done with it when the call returns. False: it is not sent
 */
static bool rndv_marker_inject(struct xfer_req *req)
{
	const struct xfer_ep *ep = req->ctx.ep;
	const struct iovec none = {NULL, 0};
	const struct p2p_op op = {
		.type = req->done_flags & FI_TAGGED ? FI_OP_TSEND : FI_OP_SEND,
		.call = OP_INJECT,
		.flags = FI_REMOTE_CQ_DATA,
		.msg.msg_iov = &none,
		.msg.addr = req->addr,
		.msg.tag = req->tag,
		.msg.data = WIRE_MARK | req->transfer.id,
	};

	return ep->quirks & QUIRK_NEAR && !ep->waiting && !(req->op_flags & FI_FENCE) &&
	       !ctrl_unsent(&ep->front, req->addr) && !core_call(ep->front.core, &op);
}

/*
 * Sends the marker before its announcement, where that is a note. The note is written while the marker is on
 * its way, and the receiver looks again if it is not there. False: the marker has not been sent
 */
static bool rndv_marker_first(struct xfer_req *req)
{
	struct xfer_ep *ep = req->ctx.ep;

	if (!(ep->quirks & QUIRK_NEAR) || !(req->peer->facts & HELLO_READS))
		return false;
	ctrl_listen(&ep->front);
	req->transfer.id = xfer_id_new(ep->xfer);
	return board_note(&ep->xfer->notes.board, req->transfer.id) && rndv_marker_inject(req);
}

void rndv_marker_queue(struct xfer_req *req)
{
	xfer_assert_locked(req->ctx.ep->xfer);
	req->ctx.done = rndv_marker_sent;
	req->out.data = WIRE_MARK | req->transfer.id;
	req->out.flags = FI_REMOTE_CQ_DATA | (req->op_flags & FI_FENCE);
	req->transfer.in_flight++;
	xfer_req_move(req, XFER_MARKING);
}

void rndv_announce_failure(struct xfer_req *req, int status)
{
	const struct xfer_peer *peer = xfer_peer_find(req->ctx.ep, req->addr);
	struct wire_msg done = {.type = WIRE_DONE, .status = status};

	xfer_assert_locked(req->ctx.ep->xfer);
	if (!peer || !peer->open)
		return;
	/* nothing of it travels, is lent or offered; and none is announced that is short */
	xfer_req_unstage(req, req->len);
	req->len = P2P_MAX(req->len, WIRE_PLAIN_MAX + 1);
	req->path.proto = PATH_LONG;
	rndv_send_init(req);
	if (rndv_announce(req))
		return;
	req->transfer.status = status;
	/* by the way of the announcement, which it must not overtake */
	done.front = true;
	done.id = req->transfer.id;
	ctrl_owed(req->peer, ctrl_tell(req->peer, &done));
	note_give_up(req->ctx.ep->xfer, req->transfer.id, status);
	rndv_marker_queue(req);
}

void rndv_send_init(struct xfer_req *req)
{
	struct xfer_peer *peer = req->peer ? req->peer : xfer_peer_find(req->ctx.ep, req->addr);

	xfer_assert_locked(req->ctx.ep->xfer);
	xfer_transfer_init(req);
	xfer_req_meet(req, peer);
}

ssize_t rndv_start(struct xfer_req *req, const struct p2p_op *op)
{
	bool first;
	int ret;

	xfer_assert_locked(req->ctx.ep->xfer);
	rndv_send_init(req);
	req->transfer.send.wants_done =
		req->op_flags & (FI_DELIVERY_COMPLETE | FI_TRANSMIT_COMPLETE) ||
		req->path.proto == PATH_READ;
	first = rndv_marker_first(req);
	/* not after the marker: then there is a place for the note */
	ret = rndv_announce(req);
	if (ret)
		return ret;
	if (first || rndv_marker_inject(req)) {
		xfer_req_move(req, XFER_ANNOUNCED);
		return 0;
	}
	rndv_marker_queue(req);
	xfer_sendq_flush(req->ctx.ep);
	return 0;
}

int rndv_send_unmarked(struct xfer_req *req)
{
	int ret;

	xfer_assert_locked(req->ctx.ep->xfer);
	ret = rndv_announce(req);
	if (!ret)
		xfer_req_move(req, XFER_ANNOUNCED);
	return ret;
}

/* Sends a piece by its lane, or as all else */
static void rndv_piece_send(struct rndv_piece *piece)
{
	P2P_TRACE(piece_send, piece, piece->req, piece->req->transfer.lanes);
	piece->req->ctx.ep->stats.lane_pieces += piece->out.via->lane >= 0;
	xfer_out_post(&piece->out);
}

/*
 * It could not be copied, or sent, or nobody wants it. But its receive stays posted until it comes, so it comes, and is
 * empty.
 */
static void rndv_piece_give_up(struct rndv_piece *piece, int status)
{
	struct xfer_req *req = piece->req;
	const bool lost = req->transfer.send.lost;

	if (lost)
		rndv_piece_end(piece);
	rndv_send_fail(req, status, true);
	if (lost)
		return;
	piece->out.iov[0].iov_len = 0;
	piece->out.count = 1;
	rndv_piece_send(piece);
}

static void rndv_piece_sent(struct xfer_ctx *ctx, const struct core_comp *comp)
{
	struct rndv_piece *piece = (struct rndv_piece *) ctx;
	struct xfer_req *req = piece->req;
	const fi_addr_t addr = req->transfer.to;
	struct xfer_channel *via = piece->out.via;
	const int status = -abs(comp->err);
	bool awaited = comp->err && !req->transfer.send.lost;

	P2P_TRACE(piece_sent, ctx, req, comp->err);
	req->transfer.since = 0;
	if (comp->err && via->lane >= 0 && !req->transfer.send.lost) {
		if (comp->err != FI_ECANCELED)
			rndv_lanes_failed(req->peer);
		/* its receiver hears of that, and asks for it once more */
		rndv_piece_end(piece);
		rndv_send_check(req);
		return;
	}
	/* once */
	if (comp->err && piece->out.iov[0].iov_len) {
		rndv_piece_give_up(piece, status);
		return;
	}
	rndv_piece_end(piece);
	if (comp->err)
		rndv_send_fail(req, status, true);
	else
		rndv_send_check(req);
	/* what the core does not send empty either does not come: so its receive ends with all that is under way */
	if (awaited && !via->ep->xfer->losing)
		XFER_PROTO_EACH(via->ep->xfer, unsent, via, addr, status);
}

/* Sends a piece when it has been copied into its slot. */
static void rndv_piece_copied_out(struct copy *copy, int status)
{
	struct rndv_piece *piece = container_of(copy, struct rndv_piece, copy);
	struct xfer_req *req = piece->req;

	if (!rndv_copied(piece->req))
		return;
	if (status || req->transfer.status)
		rndv_piece_give_up(piece, status);
	else
		rndv_piece_send(piece);
}

/* Nothing moves: the receiver may have much else to do, or a connection has died with what it had taken. Cores do not tell */
static void rndv_push_check(struct xfer_req *req)
{
	const uint64_t quiet = req->transfer.in_flight ? RNDV_STUCK : RNDV_QUIET;
	const uint64_t now = clock_coarse_ms(), since = req->transfer.since;
	uint8_t *checks = &req->transfer.send.checks;

	if (since && now - since < quiet << *checks)
		return;
	req->transfer.since = now;
	*checks = since ? P2P_MIN(*checks + 1, RNDV_QUIET_DOUBLES) : 0;
	/* a connection may take all, and bring nothing */
	if (since && *checks == RNDV_QUIET_DOUBLES)
		rndv_lanes_failed(req->peer);
	else if (since)
		rndv_lanes_check(req);
}

/* Begins the pieces that are asked for, and that there are slots for. */
void rndv_push(struct xfer_req *req)
{
	struct rndv_piece *piece;
	int ret;

	xfer_assert_locked(req->ctx.ep->xfer);
	while (req->state == XFER_PUSHING && req->transfer.next < req->transfer.send.asked &&
	       req->transfer.in_flight < RNDV_SEND_MAX && !rndv_all_begun(req)) {
		piece = rndv_piece_new(req, STAGE_PIECE_OUT, rndv_piece_sent);
		if (!piece)
			break;
		rndv_lanes_take(piece);
		rndv_piece_begun(piece);
		if (!rndv_piece_host(piece)) {
			rndv_piece_send(piece);
			continue;
		}
		ret = rndv_piece_copy(piece, COPY_OUT, rndv_piece_copied_out);
		if (ret) {
			rndv_piece_give_up(piece, ret);
			return;
		}
	}
	if (req->state != XFER_PUSHING)
		return;
	if (req->transfer.lanes)
		rndv_push_check(req);
	if (rndv_all_begun(req) && !rndv_goes_whole(req) && !req->transfer.send.wants_done)
		rndv_send_over(req);
}

/* Counts by which path a message that was offered goes, now that its receiver has chosen. */
static void rndv_taken(struct xfer_req *req, enum path_far far)
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
	P2P_TRACE(req_path, req, choice.path, choice.reason);
	if (!req->served)
		xfer_ep_sent(req->ctx.ep, &choice, req->len);
}

/* Tells whether a message may not be staged, though the receiver wants that. @proto: as announced */
static bool rndv_forbidden(const struct xfer_req *req, enum path_proto proto)
{
	enum path_policy policy = req->ctx.ep->policy;
	bool nic = proto == PATH_READ && (policy == PATH_PEER_LONG || policy == PATH_PEER_ONLY);

	if (!req->mem.ops || req->len <= WIRE_PLAIN_MAX || (policy != PATH_ACROSS_LONG && !nic))
		return false;
	P2P_WARN("%zu bytes from %s device %d may not be staged: %s\n", req->len,
		 req->mem.ops->name, req->mem.ordinal, req->path.reason);
	return true;
}

/* Tells whether the first TAKE asks for what was announced. What is no message cannot be sent whole as one. */
static bool rndv_take_fits(const struct xfer_req *req, const struct wire_msg *msg)
{
	const struct stage *stage = &req->ctx.ep->xfer->stage;

	return msg->len <= req->len && msg->chunk <= stage->pools[STAGE_PIECE].size &&
	       (!(msg->flags & WIRE_PLAIN) || req->done_flags & FI_SEND);
}

/* Divides the message into pieces, as the receiver wants them */
static void rndv_cut(struct xfer_req *req, const struct wire_msg *msg, unsigned int lanes)
{
	req->transfer.wanted = msg->len;
	req->transfer.chunk = msg->chunk;
	req->transfer.number = msg->transfer;
	req->transfer.lanes = lanes;
	req->transfer.pieces = (msg->len - 1) / msg->chunk + 1;
	/* it need not be there whole any more; unless that is all there is of it (FI_INJECT) */
	if (req->mem.ops)
		xfer_req_unstage(req, 0);
	rndv_lanes_adapt(req);
}

/* The receiver has chosen. False: no pieces, but the whole message; or it has failed, or is wrong */
static bool rndv_chosen(struct xfer_ep *ep, struct xfer_req *req, const struct wire_msg *msg)
{
	const unsigned int lanes = (msg->flags & WIRE_TAKE_LANES) >> WIRE_TAKE_LANES_SHIFT;
	const enum path_far far = (msg->flags & WIRE_TAKE_FAR) >> WIRE_TAKE_FAR_SHIFT;
	enum path_proto proto = req->path.proto;
	bool plain = msg->flags & WIRE_PLAIN;

	if (!rndv_take_fits(req, msg)) {
		xfer_message_wrong(ep->xfer, msg->type, "of another length or kind");
		return false;
	}
	if (proto == PATH_LENT && (plain || msg->len))
		req->peer->facts |= HELLO_WHOLE;
	if (proto == PATH_ACROSS)
		hello_offered(req->peer, req->len, far, plain);
	rndv_taken(req, far);
	if ((plain || msg->len) && rndv_forbidden(req, proto)) {
		rndv_send_fail(req, -FI_EOPNOTSUPP, true);
		return false;
	}
	if (!rndv_lanes_known(req, lanes)) {
		rndv_send_fail(req, -FI_EIO, true);
		return false;
	}
	xfer_req_move(req, XFER_PUSHING);
	if (plain) {
		/* nothing more from host memory is announced to it */
		if (!req->mem.ops && req->peer->lanes)
			req->peer->lanes->whole = true;
		req->path.proto = PATH_WHOLE;
		rndv_send_check(req);
		return false;
	}
	if (msg->len)
		rndv_cut(req, msg, lanes);
	return true;
}

/* A lane has died: the receiver wants what has not come once more, and nothing more by lanes */
static void rndv_push_anew(struct xfer_req *req, const struct wire_msg *msg)
{
	rndv_lanes_failed(req->peer);
	rndv_send_recall(req);
	req->transfer.lanes = 0;
	req->transfer.send.anew = true;
	req->transfer.number = msg->transfer;
	req->transfer.next = msg->data;
	req->transfer.send.asked = 0;
}

/* The receiver wants more pieces. False: it is wrong */
static bool rndv_goes_on(struct xfer_ep *ep, struct xfer_req *req, const struct wire_msg *msg)
{
	const struct xfer_transfer *transfer = &req->transfer;
	const bool anew = msg->transfer != transfer->number;

	if (!msg->len || msg->len != transfer->wanted ||
	    (anew && (!transfer->lanes || msg->data > transfer->next))) {
		xfer_message_wrong(ep->xfer, msg->type, "asked for otherwise");
		return false;
	}
	if (anew)
		rndv_push_anew(req, msg);
	return true;
}

void rndv_take(struct xfer_ep *ep, struct xfer_req *req, const struct wire_msg *msg)
{
	const bool first = req->state == XFER_ANNOUNCED;

	xfer_assert_locked(ep->xfer);
	if (first ? !rndv_chosen(ep, req, msg) : !rndv_goes_on(ep, req, msg))
		return;
	req->transfer.send.asked = P2P_MAX(req->transfer.send.asked, msg->data + msg->count);
	req->transfer.since = 0;
	rndv_push(req);
}

/* May a receiver say that it has all? It must have been offered the memory, or have asked for all, and been sent it. */
static bool rndv_received_fits(const struct xfer_req *req)
{
	if (req->state == XFER_PUSHING)
		return req->transfer.send.wants_done && rndv_all_begun(req) &&
		       !rndv_goes_whole(req);
	return path_offers(req->path.proto) || req->path.proto == PATH_LENT ||
	       req->transfer.send.wants_done;
}

void rndv_received(struct xfer_ep *ep, struct xfer_req *req, const struct wire_msg *msg)
{
	xfer_assert_locked(ep->xfer);
	if (!rndv_received_fits(req)) {
		xfer_message_wrong(ep->xfer, msg->type, xfer_state_name(req->state));
		return;
	}
	/* who has read or copied it, or the rest of it, asks for nothing more */
	if (req->state == XFER_ANNOUNCED && req->path.proto == PATH_ACROSS && req->peer)
		hello_offered(req->peer, req->len, PATH_FAR_NOT, false);
	if (req->state == XFER_ANNOUNCED)
		rndv_taken(req, PATH_FAR_NOT);
	if (req->transfer.in_flight)
		rndv_send_recall(req);
	rndv_send_over(req);
}
