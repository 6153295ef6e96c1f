/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Announced messages of which no pieces come. See rndv_plain.h. A multi-receive buffer has no
 * room for a long message of its own, so the sender sends it whole; others do not want it.
 *
 *	sender                                                           receiver
 *	MARKING              --- ANNOUNCE(id, length) -----------------> notes what is to come
 *	ANNOUNCED            --- marker(tag, id) ----------------------> a multi-receive buffer
 *	PUSHING              <---------------------- TAKE(id, plain) --- asks for all of it
 *	STAGING, READY
 *	CORE                 --- message(tag, mark and id, bytes) -----> knows it by its id
 *	ENDED                                                            reports it
 *
 *	not wanted:          --- ANNOUNCE(id, length) -----------------> notes what is to come
 *	ANNOUNCED            --- marker(tag, id) ----------------------> refuses or discards it
 *	PUSHING or ENDING    <------------------- TAKE(id, length 0) ---
 *	ENDED                <-------- DONE(id), if it is waited for ---
 */
#include "proto/rndv_plain.h"

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "xfer/ctrl.h"
#include "xfer/peer.h"
#include "xfer/reports.h"

/* Tells the sender that nothing of a message is wanted. */
static void rndv_decline(struct xfer_arrival *arrival)
{
	struct wire_msg take = {.type = WIRE_TAKE, .to_sender = true, .id = arrival->id};
	struct wire_msg done = {.type = WIRE_DONE, .to_sender = true, .id = arrival->id};

	if (arrival->status)
		return;
	ctrl_owed(arrival->peer, ctrl_tell(arrival->peer, &take));
	if (arrival->flags & WIRE_WANT_DONE)
		ctrl_owed(arrival->peer, ctrl_tell(arrival->peer, &done));
}

/* The receive that the marker has matched has no room. */
static void rndv_refuse(struct xfer_arrival *arrival)
{
	struct core_comp comp = arrival->marker;

	rndv_decline(arrival);
	rndv_arrival_describe(arrival, &comp);
	comp.err = arrival->status ? -arrival->status : FI_ETRUNC;
	comp.len = 0;
	comp.olen = arrival->total;
	if (comp.err == FI_ETRUNC)
		P2P_WARN("a message of %zu bytes is too long for its receive, of no more than "
			 "4096: FI_ETRUNC\n",
			 arrival->total);
	xfer_cq_report(arrival->cq, &comp);
	rndv_arrival_free(arrival, arrival->ctx.ep->xfer);
}

void rndv_marker_untracked(struct xfer_cq *cq, const struct core_comp *comp)
{
	struct xfer_arrival *arrival;
	struct core_comp lost = *comp;
	struct xfer_ep *ep;

	xfer_assert_locked(cq->xfer);
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

static void rndv_thrown_away(struct xfer_arrival *arrival)
{
	struct xfer_req *req = arrival->req;

	rndv_decline(arrival);
	rndv_arrival_describe(arrival, &req->comp);
	rndv_arrival_free(arrival, req->ctx.ep->xfer);
	xfer_req_end(req, 0);
}

void rndv_discard(struct xfer_req *req)
{
	xfer_assert_locked(req->ctx.ep->xfer);
	rndv_arrival_take(req, rndv_thrown_away);
}

void rndv_divert_fail(struct xfer_arrival *arrival)
{
	xfer_assert_locked(arrival->ctx.ep->xfer);
	void *held = arrival->held;
	void (*gone)(void *held) = arrival->gone;

	P2P_WARN("a message of %zu bytes for a multi-receive buffer will not come\n",
		 (size_t) arrival->total);
	rndv_arrival_free(arrival, arrival->ctx.ep->xfer);
	gone(held);
}

static void rndv_ask_plain(struct xfer_arrival *arrival)
{
	struct wire_msg msg = {
		.type = WIRE_TAKE,
		.to_sender = true,
		.id = arrival->id,
		.flags = WIRE_PLAIN,
	};
	int ret = arrival->status;

	if (!ret) {
		ret = ctrl_tell(arrival->peer, &msg);
		ctrl_owed(arrival->peer, ret);
	}
	if (ret)
		rndv_divert_fail(arrival);
}

void rndv_divert(struct xfer_ep *ep, uint64_t id, void *held, void (*gone)(void *held))
{
	struct xfer_arrival *arrival;
	int err;

	xfer_assert_locked(ep->xfer);
	arrival = rndv_arrival_claim(ep->xfer, id, rndv_ask_plain, &err);
	if (!arrival) {
		gone(held);
		return;
	}
	rndv_arrival_bind(arrival, ep);
	arrival->held = held;
	arrival->gone = gone;
	rndv_arrival_check(arrival, ep);
}

void *rndv_diverted(struct xfer *xfer, struct core_comp *comp)
{
	struct xfer_arrival *arrival = rndv_arrival_find(xfer, comp->data & WIRE_ID_MASK);
	size_t len = comp->len;
	void *held;

	xfer_assert_locked(xfer);
	/* before the announcement nobody has */
	if (!arrival || !arrival->held || !arrival->announced) {
		P2P_WARN("a message has come that nobody has asked for\n");
		comp->flags &= ~FI_REMOTE_CQ_DATA;
		comp->data = 0;
		comp->err = comp->err ? comp->err : FI_ECONNABORTED;
		return NULL;
	}
	held = arrival->held;
	rndv_arrival_describe(arrival, comp);
	comp->len = len;
	rndv_arrival_free(arrival, xfer);
	return held;
}
