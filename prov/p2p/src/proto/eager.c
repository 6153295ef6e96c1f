/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Eager messages travel whole, in one core message. Either end copies between the device and a
 * slot or, if no slot is long enough, a reserve. See eager.h.
 *
 *	sender                                                           receiver
 *	                                                                 CORE: posts a slot
 *	STAGING: copies out
 *	READY: for its turn
 *	CORE                 --- message(tag, data, bytes) ------------> COPYING: copies in
 *	ENDED                                                            ENDED
 *
 * PATH_DIRECT copies nothing: the core's NIC takes the device memory itself.
 */
#include "proto/eager.h"

#include <stdlib.h>
#include <rdma/fi_errno.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/log.h"
#include "xfer/ep_state.h"
#include "xfer/reports.h"
#include "xfer/sendq.h"
#include "mem/mem.h"
#include "proto/proto.h"
#include "proto/proto_state.h"
#include "xfer/peer.h"
#include "xfer/pin.h"
#include "xfer/req_state.h"

/* What of the user's flags is no business of the core's when it sends a copy */
#define EAGER_OUR_FLAGS (FI_COMPLETION | FI_INJECT | FI_MORE)

/*
 * Slots may all have messages to peers that take nothing, for as long as the core keeps those. So once no short message has found
 * one for EAGER_STALL [ms], one to each peer goes without.
 */
#define EAGER_STALL 100

/* Is a short message on its way without a slot, to the same peer? */
static bool eager_went_without(const struct xfer_req *req)
{
	const struct xfer_req *other;
	const struct xfer_ctx *ctx;

	LIST_FOREACH(ctx, &req->ctx.ep->live, live) {
		other = (const struct xfer_req *) ctx;
		if (xfer_ctx_is_req(ctx) && !other->recv && other->addr == req->addr &&
		    other->reserve && other->path.proto == PATH_SHORT)
			return true;
	}
	return false;
}

/* A send waits for a slot; a receive may not, as it may be what others wait for. Does it wait? */
static bool eager_waits(const struct xfer_req *req)
{
	struct proto_domain *proto = req->ctx.ep->xfer->proto;
	const uint32_t now = (uint32_t) clock_coarse_ms() | 1;

	if (req->recv || req->path.proto != PATH_SHORT)
		return false;
	if (!proto->starved)
		proto->starved = now;
	return now - proto->starved < EAGER_STALL || eager_went_without(req);
}

/* Gets a host buffer for the request: a slot if one fits and is free, else a reserve */
static int eager_buffer_get(struct xfer_req *req)
{
	struct stage *stage = &req->ctx.ep->xfer->stage;

	req->slot = stage_slot_get(stage, req->recv ? STAGE_WHOLE_IN : STAGE_WHOLE_OUT,
				   req->len, NULL);
	if (req->slot) {
		if (!req->recv && req->path.proto == PATH_SHORT && req->len <= WIRE_PLAIN_MAX)
			req->ctx.ep->xfer->proto->starved = 0;
		return 0;
	}
	if (eager_waits(req))
		return -FI_EAGAIN;
	req->reserve = stage_reserve_get(stage, req->len);
	return req->reserve ? 0 : -FI_ENOMEM;
}

/*
 * Returns the length of the copy under way, or of the next one. Pageable memory makes a copy wait in the
 * driver, so it is done a piece at a time.
 */
static size_t eager_step(const struct xfer_req *req, size_t total)
{
	return P2P_MIN(total - req->copied, conf.chunk_size);
}

/* Begins the next copy between the user's buffer and the request's host buffer. */
static int eager_copy_next(struct xfer_req *req, enum copy_dir dir, size_t total,
			   void (*done)(struct copy *copy, int status))
{
	struct iovec iov[P2P_IOV_MAX];
	size_t count =
		mem_iov_slice(req->iov, req->count, req->copied, eager_step(req, total), iov);

	req->copy.done = done;
	return xfer_copy_start(req->ctx.ep, &req->mem, dir, iov, count,
			       (char *) stage_place_of(req->slot, req->reserve).addr +
				       req->copied,
			       &req->copy);
}

/* ---- sending ---- */

/* Ends the request when the core has sent its message. */
static void eager_sent(struct xfer_ctx *ctx, const struct core_comp *comp)
{
	struct xfer_req *req = (struct xfer_req *) ctx;

	req->comp = *comp;
	req->comp.len = 0;
	xfer_req_end(req, comp->err);
}

void eager_give_up(struct xfer_req *req, int status)
{
	xfer_assert_locked(req->ctx.ep->xfer);
	XFER_PROTO_EACH(req->ctx.ep->xfer, failed, req, status);
	if (req->state == XFER_MARKING)
		return;
	req->comp.err = -status;
	req->ctx.done = eager_sent;
	xfer_req_move(req, XFER_READY);
}

/* Its peer takes announcements after all. Until all of it has been copied, it is chosen anew (post.c). False: it goes on */
static bool eager_again(struct xfer_req *req)
{
	struct xfer_ep *ep = req->ctx.ep;
	const struct xfer_peer *peer = req->path.foreign ? xfer_peer_find(ep, req->addr) : NULL;

	if (!peer || peer->state != XFER_PEER_KNOWN)
		return false;
	ep->stats.tx_msgs[req->path.path]--;
	ep->stats.tx_bytes[req->path.path] -= req->len;
	xfer_req_unstage(req, req->copied);
	/* of a choice that was not taken, as the peer was late */
	pin_release(req);
	xfer_req_move(req, XFER_GREETING);
	ep->proto->news = true;
	return true;
}

/* Begins the next copy out; behind the last one, puts the message in its turn to be sent. */
static void eager_copied_out(struct copy *copy, int status)
{
	struct xfer_req *req = container_of(copy, struct xfer_req, copy);

	if (xfer_copy_ended(req->ctx.ep))
		return;
	req->copied += eager_step(req, req->len);
	if (!status && req->copied < req->len && eager_again(req))
		return;
	if (!status && req->copied < req->len)
		status = eager_copy_next(req, COPY_OUT, req->len, eager_copied_out);
	if (!status && req->copied < req->len)
		return;
	if (status && req->ctx.done == eager_sent) {
		eager_give_up(req, status);
	} else {
		req->comp.err = -status;
		xfer_req_move(req, XFER_READY);
	}
	xfer_sendq_flush(req->ctx.ep);
}

int eager_keep(struct xfer_req *req)
{
	int ret;

	xfer_assert_locked(req->ctx.ep->xfer);
	if (req->slot || req->reserve)
		return 0;
	ret = eager_buffer_get(req);
	if (!ret)
		ret = xfer_copy_now(req->ctx.ep->xfer, &req->mem, req->iov, req->count,
				    stage_place_of(req->slot, req->reserve).addr);
	if (ret)
		xfer_req_unstage(req, req->len);
	return ret;
}

/* Copies what is to be sent into host memory, at once or in the background, and puts it in its turn. */
static ssize_t eager_begin(struct xfer_req *req)
{
	/* the user's buffer is free when the call returns (FI_INJECT), so the copy cannot wait; or it is the CPU's */
	const bool now = req->op_flags & FI_INJECT || !req->mem.ops;
	int ret = now ? eager_keep(req) : eager_buffer_get(req);

	if (ret)
		return ret;
	req->copied = 0;
	if (!now)
		ret = eager_copy_next(req, COPY_OUT, req->len, eager_copied_out);
	if (ret)
		return ret;
	xfer_set_busy(req);
	xfer_req_move(req, now ? XFER_READY : XFER_STAGING);
	xfer_sendq_flush(req->ctx.ep);
	return 0;
}

ssize_t eager_send_as(struct xfer_req *req, uint64_t data,
		      void (*done)(struct xfer_ctx *ctx, const struct core_comp *comp))
{
	xfer_assert_locked(req->ctx.ep->xfer);
	req->ctx.done = done;
	req->out.data = data;
	req->out.flags = (req->op_flags & ~EAGER_OUR_FLAGS) | FI_REMOTE_CQ_DATA;
	return eager_begin(req);
}

ssize_t eager_send_followed(struct xfer_req *req, const struct p2p_op *op)
{
	struct p2p_op followed = *op;
	int ret = req->direct ? 0 : pin_host(req, op->msg.desc, false);

	if (ret)
		return ret;
	if (req->pin)
		followed.msg.desc = req->pin->desc;
	followed.msg.context = &req->ctx;
	followed.flags |= FI_COMPLETION;
	req->ctx.done = eager_sent;
	return core_post(&req->ctx.ep->front, &followed);
}

/* ---- receiving ---- */

/* Begins the next copy in; behind the last one, ends the receive. */
static void eager_copied_in(struct copy *copy, int status)
{
	struct xfer_req *req = container_of(copy, struct xfer_req, copy);

	if (xfer_copy_ended(req->ctx.ep))
		return;
	req->copied += eager_step(req, req->comp.len);
	if (!status && req->copied < req->comp.len)
		status = eager_copy_next(req, COPY_IN, req->comp.len, eager_copied_in);
	if (status)
		xfer_req_end(req, -status);
	else if (req->copied == req->comp.len)
		xfer_req_end(req, req->comp.err);
}

/*
 * Returns how many bytes are received in place: all of a slot or reserve, however short the receive. The end of a message
 * that does not fit goes to @sink, so that the core takes all of it: a core may end the connection over what is too long. So
 * it is cut here, where its length is known. @sink is NULL if the core takes one place, or there is no memory.
 */
static size_t eager_place(const struct xfer_req *req, const struct stage_reserve **sink)
{
	struct xfer_ep *ep = req->ctx.ep;
	size_t place;

	*sink = NULL;
	if (!req->slot && !req->reserve)
		return req->len;
	place = req->slot ? stage_slot_size(&ep->xfer->stage, req->slot) : req->reserve->size;
	if (ep->recv_iov_limit > 1)
		*sink = stage_sink(&ep->xfer->stage);
	if (*sink && (*sink)->size <= place)
		*sink = NULL;
	return place;
}

/* So much is posted: all of the place, and the rest of what the sink has room for */
static size_t eager_room(const struct xfer_req *req)
{
	const struct stage_reserve *sink;
	const size_t place = eager_place(req, &sink);

	return sink ? sink->size : place;
}

/*
 * Says of a message that is too long for its receive how much of it is there. The core says so only if it
 * has found it: of a host buffer. Some cores end the connection over it, and say no lengths.
 */
static void eager_cut(struct xfer_req *req)
{
	/* the core counts what did not fit into all that was posted */
	if (abs(req->comp.err) == FI_ETRUNC && req->comp.olen)
		req->comp.olen += eager_room(req) - req->len;
	if (!req->comp.err && req->comp.len > req->len) {
		req->comp.err = FI_ETRUNC;
		req->comp.prov_errno = FI_ETRUNC;
		req->comp.olen = req->comp.len - req->len;
	}
	if (abs(req->comp.err) != FI_ETRUNC)
		return;
	if (req->comp.olen)
		P2P_WARN(
			"a message of %zu bytes is too long for its receive of %zu: FI_ETRUNC\n",
			req->len + req->comp.olen, req->len);
	else
		P2P_WARN(
			"a message is too long for its receive of %zu bytes. The core provider "
			"does not say how long, and may give the peer up: FI_ETRUNC\n",
			req->len);
}

/* Copies a message into the user's buffer, or hands a marker to its protocol. */
static void eager_received(struct xfer_ctx *ctx, const struct core_comp *comp)
{
	struct xfer_req *req = (struct xfer_req *) ctx;
	int ret, err;

	req->comp = *comp;
	req->comp.buf = comp->buf && req->count ? req->iov[0].iov_base : NULL;
	/* a shared context has none: it is that of the endpoint that the message came to */
	if (!req->cq)
		req->cq = ctx->cq;
	if ((!comp->err || abs(comp->err) == FI_ETRUNC) &&
	    xfer_concerned(ctx->cq, NULL, comp->flags, comp->data)) {
		if (!comp->err && !comp->len) {
			XFER_PROTO_EACH(req->ctx.ep->xfer, matched, req);
			return;
		}
		XFER_PROTO_EACH(req->ctx.ep->xfer, body, req->ctx.ep->xfer, &req->comp);
	}
	eager_cut(req);
	err = req->comp.err;
	req->comp.len = P2P_MIN(comp->len, req->len);
	if (req->direct && !err && req->comp.len)
		err = -req->mem.ops->flush(&req->mem);
	if (req->direct || !req->mem.ops || !req->comp.len) {
		xfer_req_end(req, err);
		return;
	}
	/* the other end may not know, and have sent it as a short message is sent */
	if (req->ctx.ep->policy == PATH_PEER_ONLY) {
		P2P_WARN("%zu bytes for %s device %d have come by way of host memory: "
			 "FI_HMEM_P2P_REQUIRED\n",
			 req->comp.len, req->mem.ops->name, req->mem.ordinal);
		xfer_req_end(req, err ? err : FI_EOPNOTSUPP);
		return;
	}
	xfer_set_busy(req);
	xfer_req_move(req, XFER_COPYING);
	req->copied = 0;
	ret = eager_copy_next(req, COPY_IN, req->comp.len, eager_copied_in);
	if (ret)
		xfer_req_end(req, -ret);
}

/* Of endpoints without a queue of their own: of shared contexts */
static void eager_cq_drop(struct xfer_cq *cq)
{
	struct xfer_ctx *ctx;
	struct xfer_req *req;
	struct xfer_ep *ep;

	LIST_FOREACH(ep, &cq->xfer->eps, entry) {
		if (ep->rxcq)
			continue;
		LIST_FOREACH(ctx, &ep->live, live) {
			req = (struct xfer_req *) ctx;
			if (ctx->done == eager_received && req->cq == cq)
				req->cq = NULL;
		}
	}
}

/*
 * Decides whether the core receives into the user's buffer. Where the core's CPU touches nothing that is
 * received, the NIC may put it into device memory; else it is received into host memory.
 */
static int eager_recv_prepare(struct xfer_req *req, void *const *desc)
{
	struct xfer_ep *ep = req->ctx.ep;
	const struct path_query query = {
		.len = req->len,
		.policy = ep->policy,
		.direct = ep->quirks & QUIRK_DIRECT,
	};
	const char *why;

	if (!req->mem.ops)
		return pin_host(req, desc, false);
	if (path_wants_peer(&query, &why) && !pin_device(req, &why)) {
		req->direct = true;
		req->path.path = FI_P2P_PATH_PEER;
		return 0;
	}
	if (ep->quirks & QUIRK_DIRECT && ep->policy == PATH_PEER_ONLY && req->len) {
		P2P_WARN("a receive into %s device %d may not be staged: %s\n",
			 req->mem.ops->name, req->mem.ordinal, why);
		return -FI_EOPNOTSUPP;
	}
	return eager_buffer_get(req);
}

/* Sets the places that a receive is staged in, at most two, and returns their number */
static size_t eager_recv_places(const struct xfer_req *req, struct iovec *iov, void **desc)
{
	const struct stage_place first = stage_place_of(req->slot, req->reserve);
	const struct stage_reserve *sink;
	const size_t place = eager_place(req, &sink);

	iov[0] = (struct iovec){first.addr, place};
	desc[0] = first.desc;
	if (!sink)
		return 1;
	iov[1] = (struct iovec){sink->addr, sink->size - place};
	desc[1] = sink->desc;
	return 2;
}

ssize_t eager_recv(struct xfer_req *req, const struct p2p_op *op)
{
	struct p2p_op staged = *op;
	struct iovec iov[2];
	void *desc[2];
	int ret = eager_recv_prepare(req, op->msg.desc);

	if (ret)
		return ret;
	staged.msg.context = &req->ctx;
	staged.flags |= FI_COMPLETION;
	if (req->pin)
		staged.msg.desc = req->pin->desc;
	if (req->mem.ops && !req->direct) {
		staged.msg.iov_count = eager_recv_places(req, iov, desc);
		staged.msg.msg_iov = iov;
		staged.msg.desc = desc;
	}
	req->ctx.done = eager_received;
	return core_post(&req->ctx.ep->front, &staged);
}

/* Sends a message whole: the core takes it from the user's buffer, or from a copy. */
static ssize_t eager_start(struct xfer_req *req, const struct p2p_op *op)
{
	if (req->path.proto != PATH_DIRECT) {
		req->ctx.done = eager_sent;
		req->out.data = req->data;
		req->out.flags = req->op_flags & ~EAGER_OUR_FLAGS;
		return eager_begin(req);
	}
	/* what goes there at once must not overtake what is being copied */
	if (xfer_sendq_has(req->ctx.ep, op->msg.addr))
		return -FI_EAGAIN;
	req->direct = true;
	return eager_send_followed(req, op);
}

const struct xfer_proto eager_proto = {
	.name = "eager",
	.paths = PROTO_PATH(PATH_SHORT) | PROTO_PATH(PATH_WHOLE) | PROTO_PATH(PATH_DIRECT),
	.start = eager_start,
	.cq_drop = eager_cq_drop,
};
