/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Lent messages: the receiver's core reads them out of their sender's slots. See rndv_lent.h.
 *
 *	sender                                                           receiver
 *	STAGING: copies out
 *	MARKING              --- ANNOUNCE(id, length, key, address) ---> notes what is to come
 *	ANNOUNCED            --- marker(tag, id) ----------------------> MATCHED with a receive
 *	                     === the core reads this and other slots ==> MOVING, copies in
 *	ENDED                <----------------------------- DONE(id) --- TELLING, ENDED
 *
 * A receiver that cannot read asks for pieces (rndv.c), and the sender lends it nothing more.
 */
#include "proto/rndv_lent.h"

#include <rdma/fi_errno.h>

#include "base/clock.h"
#include "mem/mem.h"
#include "proto/proto.h"
#include "proto/proto_state.h"
#include "proto/rndv_recv.h"
#include "proto/rndv_send.h"
#include "xfer/ep_state.h"
#include "xfer/peer.h"
#include "xfer/reports.h"
#include "xfer/req_state.h"

/* What is read at once, at most: the copies at the receiver wait for all of it */
#define RNDV_LENT_TOGETHER ((size_t) 256 << 10)

/* The longest that a read is waited for when its endpoint is closed [ms] */
#define RNDV_LENT_CLOSE 100

/* ---- the sender ---- */

static int rndv_lent_announce(struct xfer_req *req)
{
	int ret = rndv_announce(req);

	if (!ret)
		rndv_marker_queue(req);
	return ret;
}

static void rndv_lent_copied_out(struct copy *copy, int status)
{
	struct xfer_req *req = container_of(copy, struct xfer_req, copy);

	if (xfer_copy_ended(req->ctx.ep))
		return;
	if (!status)
		status = rndv_lent_announce(req);
	else
		rndv_announce_failure(req, status);
	if (status && req->state != XFER_MARKING) {
		/* that is told in its turn */
		req->comp.err = -status;
		req->ctx.done = rndv_marker_sent;
		xfer_req_move(req, XFER_READY);
	}
	xfer_sendq_flush(req->ctx.ep);
}

static ssize_t rndv_lent_start(struct xfer_req *req, const struct p2p_op *op)
{
	struct xfer_ep *ep = req->ctx.ep;
	int ret;

	req->slot = stage_slot_get(&ep->xfer->stage, STAGE_WHOLE_OUT, req->len, NULL);
	/* what cannot be lent goes another way the next time */
	if (!req->slot || stage_slot_lend(&ep->xfer->stage, req->slot, req->len))
		return -FI_EAGAIN;
	rndv_send_init(req);
	req->transfer.send.wants_done = true;
	req->copy.done = rndv_lent_copied_out;
	ret = xfer_copy_start(ep, &req->mem, COPY_OUT, req->iov, req->count, req->slot->addr,
			      &req->copy);
	if (ret)
		return ret;
	xfer_set_busy(req);
	xfer_req_move(req, XFER_STAGING);
	return 0;
}

/* ---- the receiver ---- */

/* One read, for @count receives of one sender */
struct rndv_lent_read {
	struct xfer_ctx ctx;
	size_t count;
	struct xfer_req *req[OP_RMA_MAX];
};

_Static_assert(sizeof(struct rndv_lent_read) <= CELL_SIZE, "a read is a cell");

static void rndv_lent_end(struct xfer_req *req, int status)
{
	req->transfer.in_flight--;
	rndv_read_end(req, status);
}

static void rndv_lent_copied_in(struct copy *copy, int status)
{
	struct xfer_req *req = container_of(copy, struct xfer_req, copy);

	if (rndv_copied(req))
		rndv_lent_end(req, status);
}

static void rndv_lent_read_one(struct xfer_req *req, int status)
{
	struct iovec iov[P2P_IOV_MAX];
	size_t count;

	if (!status && req->mem.ops && req->state == XFER_MOVING) {
		count = mem_iov_slice(req->iov, req->count, 0, req->transfer.wanted, iov);
		req->copy.done = rndv_lent_copied_in;
		status = rndv_copy(req, COPY_IN, iov, count,
				   stage_place_of(req->slot, req->reserve).addr, &req->copy);
		if (!status)
			return;
	}
	rndv_lent_end(req, status);
}

static void rndv_lent_read_done(struct xfer_ctx *ctx, const struct core_comp *comp)
{
	struct rndv_lent_read read = *(struct rndv_lent_read *) ctx;

	xfer_ctx_free(ctx);
	for (size_t i = 0; i < read.count; i++)
		rndv_lent_read_one(read.req[i], -abs(comp->err));
}

/* Staging memory for what is to go to a device. False: none now */
static bool rndv_lent_stage(struct xfer_req *req)
{
	if (!req->mem.ops || req->slot || req->reserve)
		return true;
	/* those for messages may all be waiting for one; those for pieces come back */
	req->slot = rndv_slot(req, STAGE_WHOLE_IN, req->transfer.wanted);
	if (!req->slot)
		req->slot = rndv_slot(req, STAGE_PIECE_IN, req->transfer.wanted);
	if (!req->slot)
		req->reserve = rndv_spare(req, req->transfer.wanted);
	return req->slot || req->reserve;
}

/* The places that a receive's bytes are read to */
static size_t rndv_lent_places(const struct xfer_req *req, struct iovec *iov)
{
	if (!req->mem.ops)
		return mem_iov_slice(req->iov, req->count, 0, req->transfer.wanted, iov);
	iov->iov_base = stage_place_of(req->slot, req->reserve).addr;
	iov->iov_len = req->transfer.wanted;
	return 1;
}

/* Is it still to be read? */
static bool rndv_lent_waits(const struct xfer_req *req)
{
	return req->path.proto == PATH_LENT && !rndv_all_begun(req);
}

/* Is it of the same sender as @first? */
static bool rndv_lent_beside(const struct xfer_req *req, const struct xfer_req *first)
{
	return req->transfer.via == first->transfer.via &&
	       req->transfer.to == first->transfer.to;
}

/* Is a read of the same sender's messages under way? */
static bool rndv_lent_reads(const struct xfer_req *first)
{
	const struct xfer_req *req;

	TAILQ_FOREACH(req, &first->ctx.ep->xfer->in[XFER_MOVING], entry) {
		if (req->path.proto == PATH_LENT && rndv_lent_beside(req, first) &&
		    req->transfer.in_flight > req->transfer.copying)
			return true;
	}
	return false;
}

/*
 * Fills @op, a read for @first and those behind it of the same sender, with as many as there is room
 * for; @read has them. Is there room left?
 */
static bool rndv_lent_gather(struct xfer_req *first, struct rndv_lent_read *read,
			     struct p2p_op *op, struct iovec *iov, struct fi_rma_iov *from)
{
	const struct xfer_ep *ep = first->ctx.ep;
	struct xfer_req *req;
	size_t len = 0, places;

	for (req = first; req; req = TAILQ_NEXT(req, entry)) {
		if (!rndv_lent_waits(req) || !rndv_lent_beside(req, first))
			continue;
		if (!rndv_lent_stage(req))
			return true;
		places = rndv_lent_places(req, iov + op->rma.iov_count);
		if (op->rma.iov_count + places > ep->iov_limit || read->count == OP_RMA_MAX ||
		    (len && len + req->transfer.wanted > RNDV_LENT_TOGETHER))
			return false;
		op->rma.desc[op->rma.iov_count] =
			req->mem.ops ? stage_place_of(req->slot, req->reserve).desc : NULL;
		op->rma.iov_count += places;
		len += req->transfer.wanted;
		from[read->count] = req->target[0];
		read->req[read->count++] = req;
	}
	return read->count < OP_RMA_MAX && len < RNDV_LENT_TOGETHER;
}

/* What rndv_lent_read_begin() did not begin waits for another read of the same peer */
#define RNDV_LENT_HELD 1

/*
 * Gives the core a read for @first and others. What does not fill one waits as long as there is
 * another from there: to read several messages at once takes little more than to read one. 0,
 * RNDV_LENT_HELD, -FI_EAGAIN: there is no room now, or another error, with which they have ended
 */
static ssize_t rndv_lent_read_begin(struct xfer_req *first)
{
	struct rndv_lent_read *read = cell_get(&first->ctx.ep->xfer->cells);
	struct iovec iov[2 * P2P_IOV_MAX];
	void *desc[P2P_IOV_MAX] = {NULL};
	struct fi_rma_iov from[OP_RMA_MAX];
	struct p2p_op op = {
		.type = FI_OP_READ,
		.rma.msg_iov = iov,
		.rma.desc = desc,
		.rma.addr = first->transfer.to,
		.rma.rma_iov = from,
		.flags = FI_COMPLETION,
		.rma.context = read,
	};
	ssize_t ret = -FI_EAGAIN;
	bool room;

	if (!read)
		return ret;
	read->count = 0;
	xfer_ctx_init(&read->ctx, first->transfer.via->ep, rndv_lent_read_done, xfer_ctx_free);
	room = rndv_lent_gather(first, read, &op, iov, from);
	op.rma.rma_iov_count = read->count;
	if (read->count && room && rndv_lent_reads(first))
		ret = RNDV_LENT_HELD;
	else if (read->count)
		ret = core_post(first->transfer.via, &op);
	if (ret == RNDV_LENT_HELD || ret == -FI_EAGAIN) {
		xfer_ctx_free(&read->ctx);
		return ret;
	}
	for (size_t i = 0; i < read->count; i++) {
		read->req[i]->transfer.next++;
		read->req[i]->transfer.in_flight++;
	}
	if (ret)
		rndv_lent_read_done(&read->ctx, &(struct core_comp){.err = (int) -ret});
	return ret;
}

bool rndv_lent_borrow(struct xfer_req *req, uint64_t addr, uint64_t key)
{
	const struct xfer_ep *ep = req->ctx.ep;

	xfer_assert_locked(req->ctx.ep->xfer);
	/* a read has no more places than the application has asked for, however many its receives have */
	if (!ep->xfer->stage.lender ||
	    (req->mem.ops ? req->transfer.wanted > ep->xfer->stage.pools[STAGE_SHORT_IN].size
			  : req->count > ep->iov_limit))
		return false;
	req->target[0] = (struct fi_rma_iov){addr, req->transfer.wanted, key};
	req->transfer.pieces = 1;
	req->path.proto = PATH_LENT;
	xfer_req_move(req, XFER_MOVING);
	return true;
}

/* Is a read under way? */
static bool rndv_lent_reads_any(const struct xfer_ep *ep)
{
	const struct xfer_ctx *ctx;

	LIST_FOREACH(ctx, &ep->live, live) {
		if (ctx->done == rndv_lent_read_done)
			return true;
	}
	return false;
}

/* The core may crash if its endpoint is closed while a read is under way (QUIRK_READ_TWICE). */
static void rndv_lent_close(struct xfer_ep *ep, int *ret)
{
	uint64_t until = clock_coarse_ms() + RNDV_LENT_CLOSE;
	struct xfer_cq *cq;

	while (rndv_lent_reads_any(ep) && clock_coarse_ms() < until) {
		LIST_FOREACH(cq, &ep->xfer->cqs, entry)
			xfer_cq_pull(cq);
	}
}

/* Begins reads of what is lent by @channel, as far as the core takes them. */
static void rndv_lent_read_all(const struct xfer_channel *channel)
{
	struct xfer_list *list = &channel->ep->xfer->in[XFER_MOVING];
	struct xfer_blocked blocked = {.count = 0};
	struct xfer_req *req, *next;
	ssize_t ret;

	for (req = TAILQ_FIRST(list); req; req = next) {
		next = TAILQ_NEXT(req, entry);
		if (!rndv_lent_waits(req) || req->transfer.via != channel ||
		    xfer_blocked_has(&blocked, req->transfer.to))
			continue;
		ret = rndv_lent_read_begin(req);
		if (ret == -FI_EAGAIN)
			xfer_blocked_add(&blocked, req->transfer.to);
		else if (ret < 0)
			/* others have ended with it */
			next = TAILQ_FIRST(list);
	}
}

/* Begins reads of lent messages, as far as the core takes them. */
static void rndv_lent_progress(struct xfer *xfer)
{
	struct xfer_ep *ep;

	if (TAILQ_EMPTY(&xfer->in[XFER_MOVING]))
		return;
	LIST_FOREACH(ep, &xfer->eps, entry) {
		rndv_lent_read_all(&ep->side);
		rndv_lent_read_all(&ep->front);
	}
}

const struct xfer_proto rndv_lent_proto = {
	.name = "lent",
	.paths = PROTO_PATH(PATH_LENT),
	.start = rndv_lent_start,
	.progress = rndv_lent_progress,
	.ep_close = rndv_lent_close,
};
