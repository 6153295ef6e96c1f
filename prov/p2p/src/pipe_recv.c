/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Rank 4: long messages coming in. See pipe.h. */
#include "pipe_sides.h"

#include <stdlib.h>
#include <rdma/fi_errno.h>

#include "bounce.h"
#include "conf.h"
#include "ctrl.h"
#include "lend.h"
#include "log.h"
#include "mem.h"
#include "multi.h"
#include "pin.h"

/* The longest that a receive waits until its sender can be told of its end [ms] */
#define PIPE_FIN_WAIT 1000

/* Pieces of one message that are posted at a time */
#define PIPE_WINDOW 8

/*
 * The shortest pieces made by choice: cores send shorter messages in other, slower ways. And
 * half of what is copied in the time that a piece takes of the CPUs, some 4 us at 48 GB/s.
 */
#define PIPE_CHUNK_MIN ((uint64_t) 256 << 10)
#define PIPE_PIECE ((uint64_t) 96 << 10)

/* Tells the sender that all of the message is here. */
static void pipe_recv_fin(struct xfer_req *req)
{
	const struct pipe_arrival *arrival = req->pipe.arrival;
	const struct wire_msg fin = {.type = WIRE_FIN, .id = req->pipe.id};
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
static bool pipe_end_waits(const struct xfer_req *req)
{
	return (req->pipe.fin_sent || !req->pipe.wanted) &&
	       ctrl_unsent(req->pipe.via, req->pipe.to) &&
	       pipe_now() - req->pipe.heard < PIPE_FIN_WAIT;
}

/* Ends the receive if nothing of it is left. */
static void pipe_recv_check(struct xfer_req *req)
{
	struct pipe_arrival *arrival = req->pipe.arrival;
	struct xfer_ep *ep = req->ctx.ep;
	int status = req->pipe.status;

	if (req->pipe.in_flight || (!status && !pipe_req_done(req)))
		return;
	if (!status && !req->pipe.fin_sent &&
	    (arrival->flags & WIRE_WANT_FIN || req->path.proto == PATH_ACROSS)) {
		pipe_recv_fin(req);
		req->pipe.fin_sent = true;
		req->pipe.heard = pipe_now();
	}
	if (pipe_end_waits(req)) {
		if (req->pipe.list != &ep->xfer->pulling) {
			pipe_list_remove(req);
			pipe_list_add(req, &ep->xfer->pulling);
		}
		return;
	}
	pipe_list_remove(req);
	req->comp.len = req->pipe.wanted;
	if (!status && arrival->total > req->pipe.wanted) {
		req->comp.olen = arrival->total - req->pipe.wanted;
		status = -FI_ETRUNC;
	}
	pipe_arrival_free(arrival, ep->xfer);
	xfer_req_end(req, -status);
}

static void pipe_piece_received(struct xfer_ctx *ctx, const struct core_comp *comp);

static void pipe_piece_copied_in(struct copy *copy, int status)
{
	struct pipe_piece *piece = container_of(copy, struct pipe_piece, copy);
	struct xfer_req *req = piece->req;

	if (xfer_copy_ended(req->ctx.ep))
		return;
	pipe_piece_end(piece);
	if (status)
		pipe_recv_fail(req, status, true);
	else
		pipe_recv_check(req);
}

static void pipe_piece_received(struct xfer_ctx *ctx, const struct core_comp *comp)
{
	struct pipe_piece *piece = (struct pipe_piece *) ctx;
	struct xfer_req *req = piece->req;
	int status = -abs(comp->err);

	req->pipe.heard = pipe_now();
	if (!status && comp->len != piece->len) {
		P2P_WARN("piece %zu of a message has %zu bytes, not %zu\n",
			 (size_t) piece->index, comp->len, piece->len);
		status = -FI_EIO;
	}
	if (!status && !req->pipe.status && piece->host) {
		piece->copy.done = pipe_piece_copied_in;
		status = xfer_copy_start(req->ctx.ep, &req->mem, COPY_IN, piece->iov,
					 piece->count, piece->host, &piece->copy);
		if (!status)
			return;
	}
	pipe_piece_end(piece);
	if (status)
		pipe_recv_fail(req, status, true);
	else
		pipe_recv_check(req);
}

/* Takes back the pieces that are posted; they end as cancelled. */
static void pipe_recv_cancel(struct xfer_req *req)
{
	struct xfer_ep *ep = req->pipe.via;
	struct xfer_ctx *ctx;

	LIST_FOREACH(ctx, &ep->live, live) {
		if (ctx->done == pipe_piece_received &&
		    ((struct pipe_piece *) ctx)->req == req)
			fi_cancel(&ep->core->fid, ctx);
	}
}

void pipe_recv_fail(struct xfer_req *req, int status, bool tell)
{
	/* what is on its way to the endpoint aside has its receives, until the sender answers */
	bool answered = tell && req->pipe.via != req->ctx.ep;

	if (!req->pipe.status && !req->pipe.fin_sent) {
		req->pipe.status = status;
		if (tell)
			pipe_abort_send(req);
	}
	if (req->pipe.status && !answered)
		pipe_recv_cancel(req);
	pipe_recv_check(req);
}

/* Tells the sender of the pieces that have been posted since it was told last. */
static void pipe_grant(struct xfer_req *req)
{
	const struct xfer_ep *via = req->pipe.via;
	struct wire_msg msg = {
		.type = req->pipe.answered ? WIRE_CREDIT : WIRE_CTS,
		.id = req->pipe.id,
		.len = req->pipe.wanted,
		.chunk = req->pipe.chunk,
		.transfer = req->pipe.transfer,
		.count = req->pipe.granted,
		.data = req->pipe.answered ? 0 : req->pipe.far,
	};

	if (via != req->ctx.ep && !req->pipe.answered) {
		msg.flags = WIRE_ASIDE;
		msg.name = via->name;
		msg.name_len = via->name_len;
	}
	if (ctrl_send(req->pipe.via, req->pipe.to, &msg))
		return;
	req->pipe.answered = true;
	req->pipe.granted = 0;
}

/* Posts the next piece: 0, -FI_EAGAIN when there is no room for it, or another error. */
static ssize_t pipe_piece_post(struct xfer_req *req)
{
	struct pipe_piece *piece = pipe_piece_new(req, STAGE_PIECE_IN, pipe_piece_received);
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
	ret = core_post(req->pipe.via->core, &op);
	if (ret)
		pipe_piece_drop(&piece->out.ctx);
	else
		pipe_piece_begun(req);
	/* as shm says that its receives are all in use */
	return ret == -FI_ENOMEM ? -FI_EAGAIN : ret;
}

/* Posts the pieces that there is room for. */
void pipe_pull(struct xfer_req *req)
{
	ssize_t ret = 0;

	while (!ret && !req->pipe.status && req->pipe.next < req->pipe.pieces &&
	       req->pipe.in_flight < PIPE_WINDOW) {
		ret = pipe_piece_post(req);
		if (!ret)
			req->pipe.granted++;
	}
	if (ret && ret != -FI_EAGAIN)
		pipe_recv_fail(req, (int) ret, true);
	else if (req->pipe.granted)
		pipe_grant(req);
	else
		pipe_recv_check(req);
}

void pipe_told(struct xfer *xfer)
{
	struct xfer_req *req, *next;

	for (req = TAILQ_FIRST(&xfer->pulling); req; req = next) {
		next = TAILQ_NEXT(req, entry);
		pipe_recv_check(req);
	}
}

void pipe_read_end(struct xfer_req *req)
{
	if (req->pipe.status)
		pipe_abort_send(req);
	pipe_recv_check(req);
}

/* Why the sender's memory cannot be read by the core; NULL: it can */
static const char *pipe_read_not(const struct pipe_arrival *arrival)
{
	const struct xfer *xfer = arrival->req->ctx.ep->xfer;

	if (!(arrival->flags & WIRE_READABLE))
		return "the sender's NIC does not reach the message";
	return xfer->map.domain ? NULL : xfer->map.why;
}

/* May the core read into a host buffer? A short one has no descriptor of its own yet. */
static bool pipe_read_host(struct xfer_req *req)
{
	if (req->len <= WIRE_PLAIN_MAX)
		pin_release(req);
	return req->pin || !pin_host(req, NULL, true);
}

/* Opens what the sender offers, as req->import, with @from; or says why not */
static enum path_far pipe_open(struct pipe_arrival *arrival, void **from)
{
	struct xfer_req *req = arrival->req;
	struct ipc *ipc = &req->ctx.ep->xfer->ipc;
	const struct path_query query = {.len = req->pipe.wanted, .wish = req->ctx.ep->wish};
	const char *why;
	int ret;

	if (!(arrival->flags & WIRE_OFFERED))
		return PATH_FAR_UNKNOWN;
	if (!ipc_near(ipc, &arrival->offer))
		return PATH_FAR_HOST;
	if (!req->mem.ops)
		return PATH_FAR_BUFFER;
	if (!path_wants_across(&query, &why))
		return PATH_FAR_WISH;
	ret = ipc_open(ipc, &arrival->offer, &req->mem, &req->import, from);
	if (ret)
		return ret == -FI_EAGAIN ? PATH_FAR_BUSY : PATH_FAR_CLOSED;
	return PATH_FAR_NOT;
}

static void pipe_copied_across(struct copy *copy, int status)
{
	struct xfer_req *req = container_of(copy, struct xfer_req, copy);

	if (xfer_copy_ended(req->ctx.ep))
		return;
	req->pipe.in_flight--;
	if (status)
		pipe_recv_fail(req, status, true);
	else
		pipe_recv_check(req);
}

/* Copies all of the message from the sender's memory, which is open here at @from. */
static void pipe_across(struct xfer_req *req, void *from)
{
	struct iovec iov[P2P_IOV_MAX];
	size_t count = mem_iov_slice(req->iov, req->count, 0, req->pipe.wanted, iov);
	int ret;

	req->copy.done = pipe_copied_across;
	req->pipe.answered = true;
	req->pipe.in_flight++;
	ret = xfer_copy_start(req->ctx.ep, &req->mem, COPY_ACROSS, iov, count, from,
			      &req->copy);
	if (!ret)
		return;
	req->pipe.in_flight--;
	pipe_recv_fail(req, ret, true);
}

/*
 * Bytes in a piece, @most at most. A message alone waits for the copies of its first piece out
 * and of its last one in, and pays for each piece: the sum is least for pieces of
 * sqrt(@len * PIPE_PIECE), and hardly more for half or twice that. Among others, whose
 * copies and pieces fill the time, only the number of pieces counts.
 */
static uint32_t pipe_chunk(const struct xfer *xfer, uint64_t len, size_t most)
{
	uint64_t chunk = PIPE_CHUNK_MIN;

	if (!TAILQ_EMPTY(&xfer->pulling))
		return (uint32_t) most;
	while (chunk < most && 2 * chunk * chunk / PIPE_PIECE < len)
		chunk *= 2;
	return (uint32_t) P2P_MIN(chunk, most);
}

/*
 * Chooses how a device buffer is filled. What the sender's NIC does not reach is the sender's to
 * tell why; of a process on this host there is more to say than of a NIC.
 */
static int pipe_recv_choose(struct pipe_arrival *arrival, void **from)
{
	struct xfer_req *req = arrival->req;
	struct xfer_ep *ep = req->ctx.ep;
	const char *why = pipe_read_not(arrival), *far_why = NULL;
	bool ours = !why;
	int ret;

	if (why) {
		req->pipe.far = pipe_open(arrival, from);
		if (req->pipe.far != PATH_FAR_NOT)
			far_why = path_far_reason(req->pipe.far);
		ours = req->pipe.far > PATH_FAR_HOST || (req->pipe.far && ep->near);
		if (ours)
			why = path_far_reason(req->pipe.far);
	}
	if (!req->mem.ops)
		return 0;
	ret = pin_choose_rma(req, req->pipe.wanted, why, far_why);
	if (ours)
		ep->reason[req->path.path] = req->path.reason;
	return ret;
}

/* Announcement and receive have found each other. */
static void pipe_recv_begin(struct pipe_arrival *arrival)
{
	struct xfer_req *req = arrival->req;
	struct xfer_ep *ep = req->ctx.ep;
	struct xfer *xfer = ep->xfer;
	void *from;
	int ret;

	req->pipe.wanted = P2P_MIN(arrival->total, req->len);
	req->pipe.chunk = pipe_chunk(xfer, req->pipe.wanted,
				     P2P_MIN(arrival->chunk,
					     xfer->stage.pools[STAGE_PIECE].size));
	req->pipe.transfer = ++xfer->transfer_next;
	req->pipe.heard = pipe_now();
	pipe_arrival_describe(arrival, &req->comp);

	ret = pipe_arrival_source(arrival);
	req->pipe.via = arrival->via;
	req->pipe.to = arrival->src;
	if (ret) {
		req->pipe.aborted = true;
		pipe_recv_fail(req, ret, false);
		return;
	}
	if (!req->pipe.wanted) {
		pipe_grant(req);
		pipe_recv_check(req);
		return;
	}
	ret = pipe_recv_choose(arrival, &from);
	if (ret) {
		pipe_recv_fail(req, ret, true);
		return;
	}
	/* where only the sender's NIC reaches its memory, a copy is saved at that end */
	if (!pipe_read_not(arrival) && (req->mem.ops || pipe_read_host(req))) {
		const struct fi_rma_iov source = {arrival->addr, req->pipe.wanted,
						arrival->key};

		bounce_pull(req, &source, arrival->src);
		return;
	}
	if (req->path.proto == PATH_ACROSS) {
		pipe_across(req, from);
		return;
	}
	if (arrival->flags & WIRE_LENT && lend_borrows(req)) {
		lend_borrow(req, arrival->addr, arrival->key);
		return;
	}
	req->pipe.pieces = (req->pipe.wanted - 1) / req->pipe.chunk + 1;
	pipe_list_add(req, &xfer->pulling);
	pipe_pull(req);
}

void pipe_matched(struct xfer_req *req)
{
	/* for a message that might have come whole */
	xfer_req_unstage(req, 0);
	pipe_arrival_take(req, pipe_recv_begin);
}

/* ---- messages that do not come in pieces ---- */

/* Tells the sender that nothing of a message is wanted. */
static void pipe_decline(struct pipe_arrival *arrival)
{
	const struct wire_msg msg = {.type = WIRE_CTS, .id = arrival->id};
	const struct wire_msg fin = {.type = WIRE_FIN, .id = arrival->id};

	if (pipe_arrival_source(arrival))
		return;
	ctrl_send(arrival->via, arrival->src, &msg);
	if (arrival->flags & WIRE_WANT_FIN)
		ctrl_send(arrival->via, arrival->src, &fin);
}

/* The receive that the marker has matched has no room. */
static void pipe_refuse(struct pipe_arrival *arrival)
{
	struct core_comp comp = arrival->marker;

	pipe_decline(arrival);
	pipe_arrival_describe(arrival, &comp);
	comp.err = arrival->status ? -arrival->status : FI_ETRUNC;
	comp.len = 0;
	comp.olen = arrival->total;
	xfer_cq_report(arrival->cq, &comp);
	pipe_arrival_free(arrival, arrival->ctx.ep->xfer);
}

void pipe_marker_untracked(struct xfer_cq *cq, const struct core_comp *comp)
{
	struct pipe_arrival *arrival;
	struct core_comp lost = *comp;
	struct xfer_ep *ep;

	arrival = pipe_arrival_claim(cq->xfer, comp->data & WIRE_ID_MASK, pipe_refuse,
				     &lost.err);
	if (!arrival) {
		xfer_cq_report(cq, &lost);
		return;
	}
	arrival->cq = cq;
	arrival->marker = *comp;
	ep = xfer_cq_ep(cq, NULL);
	if (!ep)
		return;
	/* it may be another's, and must outlive this one then */
	if (!xfer_cq_ep(cq, ep))
		pipe_arrival_bind(arrival, ep);
	pipe_arrival_check(arrival, ep);
}

static void pipe_thrown_away(struct pipe_arrival *arrival)
{
	struct xfer_req *req = arrival->req;

	pipe_decline(arrival);
	pipe_arrival_describe(arrival, &req->comp);
	pipe_arrival_free(arrival, req->ctx.ep->xfer);
	xfer_req_end(req, 0);
}

void pipe_discard(struct xfer_req *req)
{
	pipe_arrival_take(req, pipe_thrown_away);
}

void pipe_divert_fail(struct pipe_arrival *arrival)
{
	struct multi_msg *held = arrival->held;

	P2P_WARN("a message of %zu bytes for a multi-receive buffer will not come\n",
		 (size_t) arrival->total);
	pipe_arrival_free(arrival, arrival->ctx.ep->xfer);
	multi_lost(held);
}

static void pipe_ask_plain(struct pipe_arrival *arrival)
{
	const struct wire_msg msg = {
		.type = WIRE_CTS,
		.id = arrival->id,
		.flags = WIRE_PLAIN,
	};

	arrival->heard = pipe_now();
	if (pipe_arrival_source(arrival) || ctrl_send(arrival->via, arrival->src, &msg))
		pipe_divert_fail(arrival);
}

void pipe_divert(struct xfer_ep *ep, uint64_t id, struct multi_msg *held)
{
	struct pipe_arrival *arrival;
	int err;

	arrival = pipe_arrival_claim(ep->xfer, id, pipe_ask_plain, &err);
	if (!arrival) {
		multi_lost(held);
		return;
	}
	pipe_arrival_bind(arrival, ep);
	arrival->held = held;
	pipe_arrival_check(arrival, ep);
}

struct multi_msg *pipe_diverted(struct xfer *xfer, struct core_comp *comp)
{
	struct pipe_arrival *arrival = pipe_arrival_find(xfer, comp->data & WIRE_ID_MASK);
	size_t len = comp->len;
	struct multi_msg *held;

	/* before the announcement nobody has */
	if (!arrival || !arrival->held || !arrival->announced) {
		P2P_WARN("a message has come that nobody has asked for\n");
		comp->flags &= ~FI_REMOTE_CQ_DATA;
		comp->data = 0;
		return NULL;
	}
	held = arrival->held;
	pipe_arrival_describe(arrival, comp);
	comp->len = len;
	pipe_arrival_free(arrival, xfer);
	return held;
}

/* ---- what the sender says ---- */

void pipe_recv_unmarked(struct xfer_req *req, const struct wire_msg *msg)
{
	struct xfer_ep *ep = req->ctx.ep;
	struct pipe_arrival *arrival = pipe_arrival_get(ep->xfer, msg->id);

	xfer_set_busy(req);
	if (!arrival || arrival->announced || arrival->ready || !TAILQ_EMPTY(&arrival->peeks)) {
		P2P_WARN("two transfers came under one id, or there is no room for one\n");
		xfer_req_end(req, FI_EIO);
		return;
	}
	pipe_arrival_announce(arrival, ep, msg);
	/* a marker under this id is refused */
	arrival->ready = pipe_recv_begin;
	arrival->req = req;
	req->pipe.id = msg->id;
	req->pipe.arrival = arrival;
	req->comp.flags = req->done_flags;
	req->comp.src = FI_ADDR_NOTAVAIL;
	pipe_recv_begin(arrival);
}

/* The answer to a long read */
void pipe_supplied(struct xfer_ep *ep, const struct wire_msg *msg)
{
	struct xfer_req *req = pipe_sending_find(ep->xfer, msg->key);

	if (!req || !req->recv || msg->len != req->len) {
		P2P_WARN("%zu bytes are supplied that were not asked for\n",
			 (size_t) msg->len);
		return;
	}
	pipe_sending_remove(req);
	req->pipe.fin_wanted = req->pipe.answered = false;
	pipe_recv_unmarked(req, msg);
}

/* The sender has given up. */
void pipe_aborted(struct xfer_ep *ep, const struct wire_msg *msg)
{
	struct pipe_arrival *arrival = pipe_arrival_find(ep->xfer, msg->id);

	if (!arrival)
		return;
	if (!arrival->announced) {
		pipe_arrival_lost(arrival, ep, msg->status);
		return;
	}
	arrival->status = msg->status;
	if (arrival->held)
		pipe_divert_fail(arrival);
	else if (arrival->req)
		pipe_recv_fail(arrival->req, msg->status, false);
}
