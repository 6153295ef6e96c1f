/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Long messages coming in. See rndv.h. */
#include "proto/rndv_sides.h"

#include <stdlib.h>
#include <rdma/fi_errno.h>

#include "proto/rma_core.h"
#include "base/conf.h"
#include "xfer/ctrl.h"
#include "proto/rndv_lent.h"
#include "base/log.h"
#include "mem/mem.h"
#include "proto/multi_recv.h"
#include "xfer/pin.h"

/* The longest that a receive waits until its sender can be told of its end [ms] */
#define RNDV_FIN_WAIT 1000

/* Pieces of one message that are posted at a time */
#define RNDV_WINDOW 8

/*
 * The shortest pieces made by choice: cores send shorter messages in other, slower ways. And
 * half of what is copied in the time that a piece takes of the CPUs, some 4 us at 48 GB/s.
 */
#define RNDV_CHUNK_MIN ((uint64_t) 256 << 10)
#define RNDV_PIECE ((uint64_t) 96 << 10)

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
	       rndv_now() - req->rndv.heard < RNDV_FIN_WAIT;
}

/* Ends the receive if nothing of it is left. */
static void rndv_recv_check(struct xfer_req *req)
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
		req->rndv.heard = rndv_now();
	}
	if (rndv_end_waits(req)) {
		if (req->rndv.list != &ep->xfer->pulling) {
			rndv_list_remove(req);
			rndv_list_add(req, &ep->xfer->pulling);
		}
		return;
	}
	rndv_list_remove(req);
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

	req->rndv.heard = rndv_now();
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
static void rndv_grant(struct xfer_req *req)
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

/* Why the sender's memory cannot be read by the core; NULL: it can */
static const char *rndv_read_not(const struct rndv_arrival *arrival)
{
	const struct xfer *xfer = arrival->req->ctx.ep->xfer;

	if (!(arrival->flags & WIRE_READABLE))
		return "the sender's NIC does not reach the message";
	return xfer->map.domain ? NULL : xfer->map.why;
}

/* May the core read into a host buffer? A short one has no descriptor of its own yet. */
static bool rndv_read_host(struct xfer_req *req)
{
	if (req->len <= WIRE_PLAIN_MAX)
		pin_release(req);
	return req->pin || !pin_host(req, NULL, true);
}

/* Opens what the sender offers, as req->import, with @from; or says why not */
static enum path_far rndv_open(struct rndv_arrival *arrival, void **from)
{
	struct xfer_req *req = arrival->req;
	struct ipc *ipc = &req->ctx.ep->xfer->ipc;
	const struct path_query query = {.len = req->rndv.wanted, .wish = req->ctx.ep->wish};
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

static void rndv_copied_across(struct copy *copy, int status)
{
	struct xfer_req *req = container_of(copy, struct xfer_req, copy);

	if (xfer_copy_ended(req->ctx.ep))
		return;
	req->rndv.in_flight--;
	if (status)
		rndv_recv_fail(req, status, true);
	else
		rndv_recv_check(req);
}

/* Copies all of the message from the sender's memory, which is open here at @from. */
static void rndv_across(struct xfer_req *req, void *from)
{
	struct iovec iov[P2P_IOV_MAX];
	size_t count = mem_iov_slice(req->iov, req->count, 0, req->rndv.wanted, iov);
	int ret;

	req->copy.done = rndv_copied_across;
	req->rndv.answered = true;
	req->rndv.in_flight++;
	ret = xfer_copy_start(req->ctx.ep, &req->mem, COPY_ACROSS, iov, count, from,
			      &req->copy);
	if (!ret)
		return;
	req->rndv.in_flight--;
	rndv_recv_fail(req, ret, true);
}

/*
 * Bytes in a piece, @most at most. A message alone waits for the copies of its first piece out
 * and of its last one in, and pays for each piece: the sum is least for pieces of
 * sqrt(@len * RNDV_PIECE), and hardly more for half or twice that. Among others, whose
 * copies and pieces fill the time, only the number of pieces counts.
 */
static uint32_t rndv_chunk(const struct xfer *xfer, uint64_t len, size_t most)
{
	uint64_t chunk = RNDV_CHUNK_MIN;

	if (!TAILQ_EMPTY(&xfer->pulling))
		return (uint32_t) most;
	while (chunk < most && 2 * chunk * chunk / RNDV_PIECE < len)
		chunk *= 2;
	return (uint32_t) P2P_MIN(chunk, most);
}

/*
 * Chooses how a device buffer is filled. What the sender's NIC does not reach is the sender's to
 * tell why; of a process on this host there is more to say than of a NIC.
 */
static int rndv_recv_choose(struct rndv_arrival *arrival, void **from)
{
	struct xfer_req *req = arrival->req;
	struct xfer_ep *ep = req->ctx.ep;
	const char *why = rndv_read_not(arrival), *far_why = NULL;
	bool ours = !why;
	int ret;

	if (why) {
		req->rndv.far = rndv_open(arrival, from);
		if (req->rndv.far != PATH_FAR_NOT)
			far_why = path_far_reason(req->rndv.far);
		ours = req->rndv.far > PATH_FAR_HOST || (req->rndv.far && ep->near);
		if (ours)
			why = path_far_reason(req->rndv.far);
	}
	if (!req->mem.ops)
		return 0;
	ret = pin_choose_rma(req, req->rndv.wanted, why, far_why);
	if (ours)
		ep->reason[req->path.path] = req->path.reason;
	return ret;
}

/* Announcement and receive have found each other. */
static void rndv_recv_begin(struct rndv_arrival *arrival)
{
	struct xfer_req *req = arrival->req;
	struct xfer_ep *ep = req->ctx.ep;
	struct xfer *xfer = ep->xfer;
	void *from;
	int ret;

	req->rndv.wanted = P2P_MIN(arrival->total, req->len);
	req->rndv.chunk =
		rndv_chunk(xfer, req->rndv.wanted,
			   P2P_MIN(arrival->chunk, xfer->stage.pools[STAGE_PIECE].size));
	req->rndv.transfer = ++xfer->transfer_next;
	req->rndv.heard = rndv_now();
	rndv_arrival_describe(arrival, &req->comp);

	ret = rndv_arrival_source(arrival);
	req->rndv.via = arrival->via;
	req->rndv.to = arrival->src;
	if (ret) {
		req->rndv.aborted = true;
		rndv_recv_fail(req, ret, false);
		return;
	}
	if (!req->rndv.wanted) {
		rndv_grant(req);
		rndv_recv_check(req);
		return;
	}
	ret = rndv_recv_choose(arrival, &from);
	if (ret) {
		rndv_recv_fail(req, ret, true);
		return;
	}
	/* where only the sender's NIC reaches its memory, a copy is saved at that end */
	if (!rndv_read_not(arrival) && (req->mem.ops || rndv_read_host(req))) {
		const struct fi_rma_iov source = {arrival->addr, req->rndv.wanted,
						  arrival->key};

		rma_core_pull(req, &source, arrival->src);
		return;
	}
	if (req->path.proto == PATH_ACROSS) {
		rndv_across(req, from);
		return;
	}
	if (arrival->flags & WIRE_LENT && rndv_lent_borrows(req)) {
		rndv_lent_borrow(req, arrival->addr, arrival->key);
		return;
	}
	req->rndv.pieces = (req->rndv.wanted - 1) / req->rndv.chunk + 1;
	rndv_list_add(req, &xfer->pulling);
	rndv_pull(req);
}

void rndv_matched(struct xfer_req *req)
{
	/* for a message that might have come whole */
	xfer_req_unstage(req, 0);
	rndv_arrival_take(req, rndv_recv_begin);
}

/* ---- messages that do not come in pieces ---- */

/* Tells the sender that nothing of a message is wanted. */
static void rndv_decline(struct rndv_arrival *arrival)
{
	const struct wire_msg msg = {.type = WIRE_CTS, .id = arrival->id};
	const struct wire_msg fin = {.type = WIRE_FIN, .id = arrival->id};

	if (rndv_arrival_source(arrival))
		return;
	ctrl_send(arrival->via, arrival->src, &msg);
	if (arrival->flags & WIRE_WANT_FIN)
		ctrl_send(arrival->via, arrival->src, &fin);
}

/* The receive that the marker has matched has no room. */
static void rndv_refuse(struct rndv_arrival *arrival)
{
	struct core_comp comp = arrival->marker;

	rndv_decline(arrival);
	rndv_arrival_describe(arrival, &comp);
	comp.err = arrival->status ? -arrival->status : FI_ETRUNC;
	comp.len = 0;
	comp.olen = arrival->total;
	xfer_cq_report(arrival->cq, &comp);
	rndv_arrival_free(arrival, arrival->ctx.ep->xfer);
}

void rndv_marker_untracked(struct xfer_cq *cq, const struct core_comp *comp)
{
	struct rndv_arrival *arrival;
	struct core_comp lost = *comp;
	struct xfer_ep *ep;

	arrival =
		rndv_arrival_claim(cq->xfer, comp->data & WIRE_ID_MASK, rndv_refuse, &lost.err);
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
		rndv_arrival_bind(arrival, ep);
	rndv_arrival_check(arrival, ep);
}

static void rndv_thrown_away(struct rndv_arrival *arrival)
{
	struct xfer_req *req = arrival->req;

	rndv_decline(arrival);
	rndv_arrival_describe(arrival, &req->comp);
	rndv_arrival_free(arrival, req->ctx.ep->xfer);
	xfer_req_end(req, 0);
}

void rndv_discard(struct xfer_req *req)
{
	rndv_arrival_take(req, rndv_thrown_away);
}

void rndv_divert_fail(struct rndv_arrival *arrival)
{
	struct multi_recv_msg *held = arrival->held;

	P2P_WARN("a message of %zu bytes for a multi-receive buffer will not come\n",
		 (size_t) arrival->total);
	rndv_arrival_free(arrival, arrival->ctx.ep->xfer);
	multi_recv_lost(held);
}

static void rndv_ask_plain(struct rndv_arrival *arrival)
{
	const struct wire_msg msg = {
		.type = WIRE_CTS,
		.id = arrival->id,
		.flags = WIRE_PLAIN,
	};

	arrival->heard = rndv_now();
	if (rndv_arrival_source(arrival) || ctrl_send(arrival->via, arrival->src, &msg))
		rndv_divert_fail(arrival);
}

void rndv_divert(struct xfer_ep *ep, uint64_t id, struct multi_recv_msg *held)
{
	struct rndv_arrival *arrival;
	int err;

	arrival = rndv_arrival_claim(ep->xfer, id, rndv_ask_plain, &err);
	if (!arrival) {
		multi_recv_lost(held);
		return;
	}
	rndv_arrival_bind(arrival, ep);
	arrival->held = held;
	rndv_arrival_check(arrival, ep);
}

struct multi_recv_msg *rndv_diverted(struct xfer *xfer, struct core_comp *comp)
{
	struct rndv_arrival *arrival = rndv_arrival_find(xfer, comp->data & WIRE_ID_MASK);
	size_t len = comp->len;
	struct multi_recv_msg *held;

	/* before the announcement nobody has */
	if (!arrival || !arrival->held || !arrival->announced) {
		P2P_WARN("a message has come that nobody has asked for\n");
		comp->flags &= ~FI_REMOTE_CQ_DATA;
		comp->data = 0;
		return NULL;
	}
	held = arrival->held;
	rndv_arrival_describe(arrival, comp);
	comp->len = len;
	rndv_arrival_free(arrival, xfer);
	return held;
}

/* ---- what the sender says ---- */

void rndv_recv_unmarked(struct xfer_req *req, const struct wire_msg *msg)
{
	struct xfer_ep *ep = req->ctx.ep;
	struct rndv_arrival *arrival = rndv_arrival_get(ep->xfer, msg->id);

	xfer_set_busy(req);
	if (!arrival || arrival->announced || arrival->ready || !TAILQ_EMPTY(&arrival->peeks)) {
		P2P_WARN("two transfers came under one id, or there is no room for one\n");
		xfer_req_end(req, FI_EIO);
		return;
	}
	rndv_arrival_announce(arrival, ep, msg);
	/* a marker under this id is refused */
	arrival->ready = rndv_recv_begin;
	arrival->req = req;
	req->rndv.id = msg->id;
	req->rndv.arrival = arrival;
	req->comp.flags = req->done_flags;
	req->comp.src = FI_ADDR_NOTAVAIL;
	rndv_recv_begin(arrival);
}

/* The answer to a long read */
void rndv_supplied(struct xfer_ep *ep, const struct wire_msg *msg)
{
	struct xfer_req *req = rndv_sending_find(ep->xfer, msg->key);

	if (!req || !req->recv || msg->len != req->len) {
		P2P_WARN("%zu bytes are supplied that were not asked for\n", (size_t) msg->len);
		return;
	}
	rndv_sending_remove(req);
	req->rndv.fin_wanted = req->rndv.answered = false;
	rndv_recv_unmarked(req, msg);
}

/* The sender has given up. */
void rndv_aborted(struct xfer_ep *ep, const struct wire_msg *msg)
{
	struct rndv_arrival *arrival = rndv_arrival_find(ep->xfer, msg->id);

	if (!arrival)
		return;
	if (!arrival->announced) {
		rndv_arrival_lost(arrival, ep, msg->status);
		return;
	}
	arrival->status = msg->status;
	if (arrival->held)
		rndv_divert_fail(arrival);
	else if (arrival->req)
		rndv_recv_fail(arrival->req, msg->status, false);
}
