/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* How a long message is received. See rndv_choose.h. */
#include "proto/rndv_choose.h"

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "base/trace.h"
#include "mem/mem.h"
#include "path/cost.h"
#include "proto/rma_core.h"
#include "proto/proto_state.h"
#include "proto/rndv_across.h"
#include "proto/rndv_lanes.h"
#include "proto/rndv_lent.h"
#include "proto/rndv_match.h"
#include "proto/rndv_recv.h"
#include "xfer/ctrl.h"
#include "xfer/peer.h"
#include "xfer/pin.h"
#include "xfer/req_state.h"

/* Says why the core cannot read the sender's memory; NULL: it can */
static const char *rndv_read_not(const struct xfer_arrival *arrival)
{
	const struct xfer_req *req = arrival->req;
	const struct xfer *xfer = req->ctx.ep->xfer;

	if (!(arrival->flags & WIRE_READABLE))
		return "the sender's NIC does not reach the message";
	if (req->count > req->ctx.ep->iov_limit)
		return "the receive has more pieces than a read may have (tx_attr->iov_limit)";
	return xfer->map.domain ? NULL : xfer->map.why;
}

/* May the core read into a host buffer? A short one has no descriptor of its own yet. */
static bool rndv_read_host(struct xfer_req *req)
{
	if (req->len <= WIRE_PLAIN_MAX)
		pin_release(req);
	return req->pin || !pin_host(req, NULL, true);
}

/* Tells whether no other message is asked for. */
static bool rndv_alone(const struct xfer *xfer)
{
	return TAILQ_EMPTY(&xfer->in[XFER_PULLING]);
}

/* Pieces of lanes are a multiple of it, so each begins as the message's memory does within a page */
#define RNDV_PART 4096

/* Divides a message into pieces; if it has lanes, each gets one, unless that is too short. */
static void rndv_divide(struct xfer_req *req)
{
	struct xfer_transfer *transfer = &req->transfer;
	const bool alone = rndv_alone(req->ctx.ep->xfer);
	const uint64_t least = P2P_MIN(transfer->chunk, cost_lanes_piece(alone));
	uint64_t part;

	transfer->lanes = rndv_lanes_choose(req, alone, (transfer->wanted - 1) / least + 1);
	if (transfer->lanes) {
		part = P2P_ALIGN_UP((transfer->wanted - 1) / transfer->lanes + 1, RNDV_PART);
		transfer->chunk = P2P_MIN(transfer->chunk, P2P_MAX(part, least));
	}
	transfer->pieces = (transfer->wanted - 1) / transfer->chunk + 1;
}

/*
 * Chooses how a device buffer is filled. What the sender's NIC does not reach is the sender's to
 * tell why; of a process on this host there is more to say than of a NIC.
 */
static int rndv_recv_choose(struct xfer_arrival *arrival, void **from)
{
	struct xfer_req *req = arrival->req;
	struct xfer_ep *ep = req->ctx.ep;
	const char *why = rndv_read_not(arrival), *far_why = NULL;
	bool ours = !why;
	int ret;

	if (why) {
		req->transfer.recv.far = rndv_across_open(arrival, from);
		if (req->transfer.recv.far != PATH_FAR_NOT)
			far_why = path_far_reason(req->transfer.recv.far);
		ours = req->transfer.recv.far > PATH_FAR_HOST ||
		       (req->transfer.recv.far && ep->quirks & QUIRK_NEAR);
		if (ours)
			why = path_far_reason(req->transfer.recv.far);
	}
	if (!req->mem.ops)
		return 0;
	ret = pin_choose_rma(req, req->transfer.wanted, why, far_why);
	if (ours)
		ep->reason[req->path.path] = req->path.reason;
	return ret;
}

/* Begins a receive whose announcement and marker have both come. */
static void rndv_recv_begin(struct xfer_arrival *arrival)
{
	struct xfer_req *req = arrival->req;
	struct xfer_ep *ep = req->ctx.ep;
	struct xfer *xfer = ep->xfer;
	const size_t most = P2P_MIN(arrival->chunk, xfer->stage.pools[STAGE_PIECE].size);
	void *from;
	int ret;

	req->transfer.wanted = P2P_MIN(arrival->total, req->len);
	/* among others, whose copies and pieces fill the time, only the number of pieces counts */
	req->transfer.chunk =
		(uint32_t) (rndv_alone(xfer) ? cost_piece(req->transfer.wanted, most) : most);
	/* nobody else is to send pieces of it */
	req->transfer.number = (uint32_t) xfer_id_new(xfer);
	rndv_arrival_describe(arrival, &req->comp);

	if (arrival->status) {
		rndv_recv_fail(req, arrival->status, false);
		return;
	}
	xfer_req_meet(req, arrival->peer);
	/* the core of another endpoint only receives: that can be taken back */
	if (req->peer->ep != ep)
		arrival->flags &= ~(WIRE_READABLE | WIRE_LENT);
	if (!req->transfer.wanted) {
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
		const struct fi_rma_iov source = {arrival->addr, req->transfer.wanted,
						  arrival->key};

		rma_core_pull(req, &source, req->peer->addr);
		return;
	}
	if (req->path.proto == PATH_ACROSS) {
		rndv_across(req, from);
		return;
	}
	if (arrival->flags & WIRE_LENT &&
	    rndv_lent_borrow(req, arrival->loan.addr, arrival->loan.key))
		return;
	rndv_divide(req);
	/* progress begins it: others that have come before and wait for slots have them first */
	xfer_req_move(req, XFER_PULLING);
}

void rndv_matched(struct xfer_req *req)
{
	xfer_assert_locked(req->ctx.ep->xfer);
	/* for a message that might have come whole */
	xfer_req_unstage(req, 0);
	rndv_arrival_take(req, rndv_recv_begin);
}

void rndv_recv_unmarked(struct xfer_req *req, const struct wire_msg *msg)
{
	struct xfer_ep *ep = req->ctx.ep;
	struct xfer_arrival *arrival = rndv_arrival_get(ep->xfer, msg->id);

	xfer_assert_locked(req->ctx.ep->xfer);
	xfer_set_busy(req);
	if (!arrival || arrival->announced || arrival->ready || !TAILQ_EMPTY(&arrival->peeks)) {
		P2P_WARN("two transfers came under one id, or there is no room for one\n");
		ctrl_owed(msg->peer, arrival ? 0 : -FI_ENOMEM);
		xfer_req_end(req, FI_EIO);
		return;
	}
	rndv_arrival_announce(arrival, ep, msg);
	xfer_req_move(req, XFER_MATCHED);
	xfer_transfer_init(req);
	/* a marker under this id is refused */
	arrival->ready = rndv_recv_begin;
	arrival->req = req;
	req->transfer.id = msg->id;
	P2P_TRACE(req_id, req, msg->id);
	req->transfer.recv.arrival = arrival;
	req->comp.flags = req->done_flags;
	req->comp.src = FI_ADDR_NOTAVAIL;
	rndv_recv_begin(arrival);
}
