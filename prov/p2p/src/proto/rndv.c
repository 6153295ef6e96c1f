/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The rendezvous protocol (wire.h): long messages from device memory, announced before their bytes
 * travel. Sending, a piece takes a slot, is copied out of the device, sent, and gives the slot back.
 * Receiving, pieces are posted ahead of the sender: straight into the user's buffer if that is host
 * memory, else into slots from which they are copied to the device. So copy, wire and copy run at
 * the same time. This file is its row of the table; the parts are in rndv_*.c.
 */
#include <rdma/fi_errno.h>

#include "mem/board.h"
#include "proto/proto.h"
#include "proto/proto_state.h"
#include "proto/rndv_choose.h"
#include "proto/rndv_match.h"
#include "proto/rndv_plain.h"
#include "proto/rndv_recv.h"
#include "proto/rndv_send.h"
#include "proto/rndv_watch.h"

static void rndv_answered(struct xfer_ep *ep, const struct wire_msg *msg)
{
	rndv_answer(ep->xfer, msg);
}

/* The sender has given up. */
static void rndv_aborted(struct xfer_ep *ep, const struct wire_msg *msg)
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

/* Either side may give up. */
static void rndv_abort(struct xfer_ep *ep, const struct wire_msg *msg)
{
	if (msg->to_sender)
		rndv_answer(ep->xfer, msg);
	else
		rndv_aborted(ep, msg);
}

static void rndv_foreign(struct xfer_ep *ep, const struct wire_msg *msg)
{
	if (msg->type == WIRE_ANNOUNCE)
		rndv_unreadable(ep, msg->id & WIRE_ID_MASK);
}

static void rndv_lost(struct xfer_ep *ep, fi_addr_t addr, int status)
{
	struct rndv_arrival *arrival, *next_arrival;
	struct xfer *xfer = ep->xfer;
	struct xfer_req *req, *next;

	for (size_t i = 0; i < XFER_CHAINS; i++) {
		for (arrival = LIST_FIRST(&xfer->proto->arriving[i]); arrival;
		     arrival = next_arrival) {
			next_arrival = LIST_NEXT(arrival, chain);
			if (arrival->held && arrival->announced && arrival->via == ep &&
			    arrival->src == addr)
				rndv_divert_fail(arrival);
		}
	}
	for (req = TAILQ_FIRST(&xfer->pulling); req; req = next) {
		next = TAILQ_NEXT(req, entry);
		if (req->rndv.via == ep && req->rndv.to == addr)
			rndv_recv_fail(req, status, false);
	}
	for (size_t i = 0; i < XFER_CHAINS; i++) {
		for (req = LIST_FIRST(&xfer->sending[i]); req; req = next) {
			next = LIST_NEXT(req, rndv.chain);
			/* who lives all the same, and connects again, must not read its slot */
			if (req->rndv.via == ep && req->rndv.to == addr)
				rndv_send_fail(req, status, req->path.proto == PATH_LENT);
		}
	}
}

static void rndv_progress(struct xfer *xfer)
{
	struct wire_msg fin = {.type = WIRE_FIN};
	struct xfer_req *req, *next;

	if (!xfer->open && TAILQ_EMPTY(&xfer->bouncing))
		return;
	while (board_answered(&xfer->board, &fin.id))
		rndv_answer(xfer, &fin);
	rndv_arrivals_look(xfer, false);
	for (req = TAILQ_FIRST(&xfer->pushing); req; req = next) {
		next = TAILQ_NEXT(req, entry);
		rndv_push(req);
	}
	for (req = TAILQ_FIRST(&xfer->pulling); req; req = next) {
		next = TAILQ_NEXT(req, entry);
		rndv_pull(req);
	}
	rndv_watch(xfer);
}

static void rndv_drop(struct xfer_req *req)
{
	xfer_list_remove(req);
	rndv_sending_recall(req, -FI_ECANCELED);
	xfer_sending_remove(req);
	if (!req->rndv.arrival)
		return;
	if (req->rndv.arrival->req == req)
		req->rndv.arrival->req = NULL;
	else
		TAILQ_REMOVE(&req->rndv.arrival->peeks, req, entry);
}

const struct xfer_proto rndv_proto = {
	.name = "rendezvous",
	.paths = PROTO_PATH(PATH_READ) | PROTO_PATH(PATH_ACROSS) | PROTO_PATH(PATH_LONG),
	.start = rndv_start,
	.matched = rndv_matched,
	.stray = rndv_marker_untracked,
	.message =
		{
			[WIRE_ANNOUNCE] = rndv_announced,
			[WIRE_CTS] = rndv_answered,
			[WIRE_CREDIT] = rndv_answered,
			[WIRE_FIN] = rndv_answered,
			[WIRE_ABORT] = rndv_abort,
			[WIRE_PROBE] = rndv_answered,
		},
	.unreadable = rndv_foreign,
	.progress = rndv_progress,
	.told = rndv_told,
	.lost = rndv_lost,
	.drop = rndv_drop,
	.cq_drop = rndv_cq_drop,
};
