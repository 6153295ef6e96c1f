/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Arrivals of long messages. See rndv_match.h. */
#include "proto/rndv_match.h"
#include "proto/proto_state.h"

#include <string.h>
#include <rdma/fi_errno.h>

#include "base/conf.h"
#include "base/log.h"
#include "base/trace.h"
#include "xfer/ctrl.h"
#include "xfer/peer.h"
#include "xfer/reports.h"
#include "xfer/req_state.h"
#include "xfer/xfer_proto.h"

/* What a peer has sent before it was lost may be on its way for so long [ms] */
#define RNDV_ORPHAN 3000u

_Static_assert(sizeof(struct xfer_arrival) <= CELL_SIZE, "an arrival is a cell");

/* Lets go of the peer that was suspected to have sent an arrival's marker. */
static void rndv_arrival_acquit(struct xfer_arrival *arrival)
{
	if (arrival->suspect)
		xfer_peer_put(arrival->suspect);
	arrival->suspect = NULL;
}

void rndv_arrival_free(struct xfer_arrival *arrival, struct xfer *xfer)
{
	xfer_assert_locked(xfer);
	note_await_no_more(xfer, &arrival->look);
	rndv_arrival_acquit(arrival);
	LIST_REMOVE(arrival, chain);
	xfer_open_add(xfer, -1);
	if (arrival->peer)
		xfer_peer_put(arrival->peer);
	if (arrival->ctx.ep)
		xfer_ctx_free(&arrival->ctx);
	else
		cell_put(&xfer->cells, arrival);
}

/* Frees it, whatever waits for it */
static void rndv_arrival_forget(struct xfer_arrival *arrival, struct xfer *xfer)
{
	struct xfer_req *peek;

	if (arrival->req)
		arrival->req->transfer.recv.arrival = NULL;
	while ((peek = TAILQ_FIRST(&arrival->peeks))) {
		TAILQ_REMOVE(&arrival->peeks, peek, entry);
		peek->transfer.recv.arrival = NULL;
		/* another endpoint's */
		if (!peek->ctx.ep->closing)
			xfer_req_end(peek, FI_ECANCELED);
	}
	rndv_arrival_free(arrival, xfer);
}

static void rndv_arrival_drop(struct xfer_ctx *ctx)
{
	struct xfer_arrival *arrival = (struct xfer_arrival *) ctx;
	struct xfer *xfer = ctx->ep->xfer;

	/* another endpoint may have its marker, or its announcement, later */
	if (arrival->announced == !arrival->ready && LIST_NEXT(LIST_FIRST(&xfer->eps), entry))
		seen_ids_add(&xfer->proto->lost, arrival->id);
	rndv_arrival_forget(arrival, xfer);
}

void rndv_cq_drop(struct xfer_cq *cq)
{
	struct xfer_arrival *arrival, *next;
	struct xfer *xfer = cq->xfer;

	xfer_assert_locked(cq->xfer);
	for (size_t i = 0; i < XFER_CHAINS; i++) {
		for (arrival = LIST_FIRST(&xfer->proto->arriving[i]); arrival; arrival = next) {
			next = LIST_NEXT(arrival, chain);
			if (arrival->cq == cq)
				rndv_arrival_forget(arrival, xfer);
		}
	}
}

struct xfer_arrival *rndv_arrival_find(const struct xfer *xfer, uint64_t id)
{
	struct xfer_arrival *arrival;

	xfer_assert_locked(xfer);
	LIST_FOREACH(arrival, xfer_chain(xfer->proto->arriving, id), chain) {
		if (arrival->id == id)
			return arrival;
	}
	return NULL;
}

struct xfer_arrival *rndv_arrival_get(struct xfer *xfer, uint64_t id)
{
	struct xfer_arrival *arrival = rndv_arrival_find(xfer, id);

	xfer_assert_locked(xfer);
	if (arrival)
		return arrival;
	arrival = cell_get(&xfer->cells);
	if (!arrival) {
		P2P_WARN("no room for an announced message\n");
		return NULL;
	}
	*arrival = (struct xfer_arrival){.id = id};
	TAILQ_INIT(&arrival->peeks);
	LIST_INSERT_HEAD(xfer_chain(xfer->proto->arriving, id), arrival, chain);
	xfer_open_add(xfer, 1);
	return arrival;
}

void rndv_arrival_bind(struct xfer_arrival *arrival, struct xfer_ep *ep)
{
	xfer_assert_locked(ep->xfer);
	rndv_arrival_acquit(arrival);
	if (arrival->ctx.ep)
		LIST_REMOVE(&arrival->ctx, live);
	xfer_ctx_init(&arrival->ctx, ep, NULL, rndv_arrival_drop);
}

/* Notes that all that will be known of an arrival is known. */
static void rndv_arrival_told(struct xfer_arrival *arrival, struct xfer_ep *ep)
{
	if (!arrival->ready || !arrival->ctx.ep)
		rndv_arrival_bind(arrival, ep);
	note_await_no_more(ep->xfer, &arrival->look);
	rndv_arrival_acquit(arrival);
	if (ep->quirks & QUIRK_PEEK_UNMARKED && !(ep->quirks & QUIRK_NO_PEEK))
		seen_ids_add(&ep->xfer->proto->seen, arrival->id);
	arrival->announced = true;
}

void rndv_arrival_announce(struct xfer_arrival *arrival, struct xfer_ep *ep,
			   const struct wire_msg *msg)
{
	xfer_assert_locked(ep->xfer);
	rndv_arrival_told(arrival, ep);
	arrival->total = msg->len;
	arrival->data = msg->data;
	arrival->flags = msg->flags;
	arrival->chunk = msg->chunk;
	arrival->key = msg->key;
	arrival->addr = msg->addr;
	arrival->offer = msg->offer;
	arrival->board = (uint64_t) msg->transfer << 32 | msg->count;
	arrival->loan = (struct fi_rma_iov){msg->lent_addr, sizeof(uint64_t), msg->lent_key};
	arrival->noted = msg->noted;
	arrival->peer = msg->peer;
	xfer_peer_hold(arrival->peer);
}

/* What would have been announced will not come, for the reason @status. */
static void rndv_arrival_fail(struct xfer_arrival *arrival, struct xfer_ep *ep, int status)
{
	rndv_arrival_told(arrival, ep);
	arrival->status = status;
}

void rndv_arrival_describe(const struct xfer_arrival *arrival, struct core_comp *comp)
{
	xfer_assert_locked(arrival->ctx.ep->xfer);
	comp->flags &= ~FI_REMOTE_CQ_DATA;
	comp->data = arrival->data;
	comp->len = arrival->total;
	if (arrival->flags & WIRE_HAS_DATA)
		comp->flags |= FI_REMOTE_CQ_DATA;
}

/* ---- marker and announcement ---- */

static void rndv_peek_end(struct xfer_arrival *arrival, struct xfer_req *req)
{
	rndv_arrival_describe(arrival, &req->comp);
	arrival->found(req);
}

bool rndv_arrival_parts(const struct xfer_arrival *arrival)
{
	const struct xfer_ep *ep = arrival->ctx.ep, *from = arrival->peer->ep;

	xfer_assert_locked(ep->xfer);
	return from != ep && (from->proto->closes || ep->proto->closes);
}

/* It was not waited for any longer, or its sender had been lost: that waits for an answer. */
static void rndv_arrival_reject(struct xfer_peer *peer, uint64_t id)
{
	struct wire_msg done = {
		.type = WIRE_DONE,
		.id = id,
		.status = -FI_ECONNABORTED,
		.to_sender = true,
	};

	ctrl_owed(peer, ctrl_tell(peer, &done));
}

/* Moves on what has waited for the announcement. */
static void rndv_arrival_known(struct xfer_arrival *arrival)
{
	struct xfer_req *peek;

	while ((peek = TAILQ_FIRST(&arrival->peeks))) {
		TAILQ_REMOVE(&arrival->peeks, peek, entry);
		peek->transfer.recv.arrival = NULL;
		rndv_peek_end(arrival, peek);
	}
	if (arrival->ready && arrival->peer && rndv_arrival_parts(arrival)) {
		arrival->status = -FI_ECANCELED;
		rndv_arrival_reject(arrival->peer, arrival->id);
	}
	if (arrival->ready)
		arrival->ready(arrival);
}

struct xfer_arrival *rndv_arrival_claim(struct xfer *xfer, uint64_t id,
					void (*ready)(struct xfer_arrival *arrival), int *err)
{
	struct xfer_arrival *arrival = rndv_arrival_get(xfer, id);

	xfer_assert_locked(xfer);
	if (arrival && !arrival->ready) {
		arrival->ready = ready;
		return arrival;
	}
	if (arrival)
		P2P_WARN("two messages came under one id\n");
	*err = arrival ? FI_EIO : FI_ENOMEM;
	return NULL;
}

void rndv_arrival_check(struct xfer_arrival *arrival, struct xfer_ep *ep)
{
	struct proto_domain *proto = ep->xfer->proto;

	xfer_assert_locked(ep->xfer);
	if (!arrival->announced && seen_ids_before(&proto->unreadable, arrival->id))
		rndv_arrival_fail(arrival, ep, -FI_EOPNOTSUPP);
	else if (!arrival->announced && rndv_orphaned(ep->xfer, arrival->id))
		rndv_arrival_fail(arrival, ep, -FI_ECONNABORTED);
	if (arrival->announced)
		rndv_arrival_known(arrival);
	else
		note_await(ep->xfer, &arrival->look, arrival->id);
}

void rndv_arrival_take(struct xfer_req *req, void (*ready)(struct xfer_arrival *arrival))
{
	struct xfer_ep *ep = req->ctx.ep;
	struct xfer_arrival *arrival;
	int err;

	xfer_assert_locked(req->ctx.ep->xfer);
	xfer_set_busy(req);
	xfer_req_move(req, XFER_MATCHED);
	xfer_transfer_init(req);
	req->transfer.id = req->comp.data & WIRE_ID_MASK;
	P2P_TRACE(req_id, req, req->transfer.id);
	arrival = rndv_arrival_claim(ep->xfer, req->transfer.id, ready, &err);
	if (!arrival) {
		xfer_req_end(req, err);
		return;
	}
	rndv_arrival_bind(arrival, ep);
	arrival->req = req;
	req->transfer.recv.arrival = arrival;
	rndv_arrival_check(arrival, ep);
}

/* ---- peeks ---- */

bool rndv_marker_spent(const struct xfer *xfer, uint64_t id)
{
	const struct xfer_arrival *arrival = rndv_arrival_find(xfer, id);

	xfer_assert_locked(xfer);
	/* one that has been announced, and that no more is known of, is over */
	return arrival ? arrival->ready != NULL : seen_ids_before(&xfer->proto->seen, id);
}

void rndv_peeked(struct xfer_req *req, void (*found)(struct xfer_req *req))
{
	struct xfer_ep *ep = req->ctx.ep;
	struct xfer_arrival *arrival;

	xfer_assert_locked(req->ctx.ep->xfer);
	arrival = rndv_arrival_get(ep->xfer, req->comp.data & WIRE_ID_MASK);
	if (!arrival) {
		xfer_req_end(req, FI_ENOMEM);
		return;
	}
	if (!arrival->ctx.ep)
		rndv_arrival_bind(arrival, ep);
	arrival->found = found;
	if (arrival->announced) {
		rndv_peek_end(arrival, req);
		return;
	}
	xfer_set_busy(req);
	xfer_req_move(req, XFER_MATCHED);
	xfer_transfer_init(req);
	req->transfer.recv.arrival = arrival;
	TAILQ_INSERT_TAIL(&arrival->peeks, req, entry);
	rndv_arrival_check(arrival, ep);
}

/* ---- announcements ---- */

void rndv_announced(struct xfer_ep *ep, const struct wire_msg *msg)
{
	struct xfer_arrival *arrival = rndv_arrival_find(ep->xfer, msg->id);

	xfer_assert_locked(ep->xfer);
	if (rndv_orphaned(ep->xfer, msg->id)) {
		rndv_arrival_reject(msg->peer, msg->id);
		return;
	}
	if (!arrival && xfer_peer_full(msg->peer)) {
		xfer_message_wrong(ep->xfer, msg->type, XFER_PEER_FULL);
		return;
	}
	arrival = rndv_arrival_get(ep->xfer, msg->id);
	if (!arrival) {
		/* both ends of that message fail, and nothing else */
		seen_ids_add(&ep->xfer->proto->lost, msg->id);
		rndv_arrival_reject(msg->peer, msg->id);
		return;
	}
	if (arrival->announced) {
		xfer_message_wrong(ep->xfer, msg->type, "announced");
		return;
	}
	rndv_arrival_announce(arrival, ep, msg);
	rndv_arrival_known(arrival);
}

/* It will not be announced, for the reason @status. Whatever waits for that ends. */
static void rndv_arrival_lost(struct xfer_arrival *arrival, struct xfer_ep *ep, int status)
{
	xfer_assert_locked(ep->xfer);
	rndv_arrival_fail(arrival, ep, status);
	rndv_arrival_known(arrival);
}

void rndv_arrival_orphan(struct xfer_arrival *arrival, struct xfer *xfer)
{
	xfer_assert_locked(xfer);
	seen_ids_add(&xfer->proto->lost, arrival->id);
	if (!arrival->ready)
		rndv_arrival_free(arrival, xfer);
}

bool rndv_orphaned(const struct xfer *xfer, uint64_t id)
{
	xfer_assert_locked(xfer);
	return seen_ids_before(&xfer->proto->lost, id);
}

/* Are all peers of that domain lost, or have been? @but: this one is, though it does not say so yet; or NULL */
static bool rndv_deserted(const struct xfer *xfer, uint64_t owner, const struct xfer_peer *but)
{
	struct xfer_peer *peer, *next;
	struct xfer_ep *ep;
	bool lost = but;

	LIST_FOREACH(ep, &xfer->eps, entry) {
		HASH_ITER(hh, ep->peers, peer, next) {
			if (peer->owner != owner || peer == but)
				continue;
			if (peer->open)
				return false;
			lost |= peer->epoch;
		}
	}
	return lost;
}

/* The next request behind @req, or the first one, that its marker has met, or that has found it; NULL: none */
static const struct xfer_req *rndv_arrival_next(const struct xfer_arrival *arrival,
						const struct xfer_req *req)
{
	if (!req && arrival->req)
		return arrival->req;
	return req && req != arrival->req ? TAILQ_NEXT(req, entry)
					  : TAILQ_FIRST(&arrival->peeks);
}

/* Is such a request for this peer's messages alone? The number in the marker may be a lie. */
static bool rndv_arrival_is_for(const struct xfer_arrival *arrival,
				const struct xfer_peer *peer)
{
	const struct xfer_req *req = NULL;

	while ((req = rndv_arrival_next(arrival, req))) {
		if (req->ctx.ep == peer->ep && req->addr == peer->addr)
			return true;
	}
	return false;
}

/* Is its sender lost, or all of the domain that its number tells? Or is its only possible sender of another domain? */
static bool rndv_arrival_deserted(const struct xfer_arrival *arrival, const struct xfer *xfer)
{
	const uint64_t owner = xfer_board_owner(arrival->id);
	const struct xfer_req *req = NULL;
	const struct xfer_peer *peer;

	while ((req = rndv_arrival_next(arrival, req))) {
		peer = xfer_peer_find(req->ctx.ep, req->addr);
		if (peer && (peer->open ? peer->owner && peer->owner != owner : peer->epoch))
			return true;
	}
	return rndv_deserted(xfer, owner, NULL);
}

void rndv_arrivals_desert(const struct xfer_peer *peer, bool suspected)
{
	struct xfer *xfer = peer->ep->xfer;
	struct xfer_arrival *arrival;
	const bool all = rndv_deserted(xfer, peer->owner, peer);

	xfer_assert_locked(xfer);
	for (size_t i = 0; xfer->open && i < XFER_CHAINS; i++) {
		LIST_FOREACH(arrival, &xfer->proto->arriving[i], chain) {
			if (arrival->announced || arrival->deserted ||
			    (suspected && arrival->suspect != peer) ||
			    !((all && xfer_board_owner(arrival->id) == peer->owner) ||
			      rndv_arrival_is_for(arrival, peer)))
				continue;
			arrival->deserted = true;
			arrival->waited = 0;
		}
	}
}

/*
 * Mostly nothing tells who has sent the marker, but a peer of its domain is watched from now on: so it is known when that
 * has died, or has lost this process.
 */
static void rndv_arrival_suspect(struct xfer_arrival *arrival)
{
	const uint64_t owner = xfer_board_owner(arrival->id);
	struct xfer_peer *peer, *next;

	if (arrival->suspect && arrival->suspect->open)
		return;
	rndv_arrival_acquit(arrival);
	/* of no other endpoint: that may be closed before */
	if (!arrival->ctx.ep)
		return;
	xfer_peer_recall_owner(arrival->ctx.ep, owner);
	HASH_ITER(hh, arrival->ctx.ep->peers, peer, next) {
		if ((peer->owner != owner && !rndv_arrival_is_for(arrival, peer)) ||
		    !peer->open)
			continue;
		xfer_peer_hold(peer);
		arrival->suspect = peer;
		return;
	}
}

/* This looks through all peers: less and less often */
static bool rndv_arrival_due(unsigned int before, unsigned int waited)
{
	const unsigned int times = waited / RNDV_ORPHAN;

	return times != before / RNDV_ORPHAN && !(times & (times - 1));
}

/* Says why an arrival's announcement is not waited for any longer, or 0 */
static int rndv_arrival_overdue(struct xfer_arrival *arrival, const struct xfer *xfer,
				unsigned int passed)
{
	const unsigned int before = arrival->waited;

	arrival->waited += passed;
	if (arrival->announced)
		return 0;
	if (conf_overdue(arrival->waited))
		return -FI_ETIMEDOUT;
	/* a marker of before a loss may be taken after it, and soon the peer is known again */
	if (!before)
		arrival->deserted |= rndv_arrival_deserted(arrival, xfer);
	if (arrival->deserted)
		return arrival->waited >= RNDV_ORPHAN ? -FI_ECONNRESET : 0;
	if (!rndv_arrival_due(before, arrival->waited))
		return 0;
	if (rndv_arrival_deserted(arrival, xfer))
		return -FI_ECONNRESET;
	rndv_arrival_suspect(arrival);
	return 0;
}

void rndv_arrivals_watch(struct xfer *xfer, unsigned int passed)
{
	struct xfer_arrival *arrival, *next;
	struct xfer_ep *ep;
	int status;

	xfer_assert_locked(xfer);
	for (size_t i = 0; xfer->open && i < XFER_CHAINS; i++) {
		for (arrival = LIST_FIRST(&xfer->proto->arriving[i]); arrival; arrival = next) {
			next = LIST_NEXT(arrival, chain);
			status = rndv_arrival_overdue(arrival, xfer, passed);
			if (!status)
				continue;
			ep = arrival->ctx.ep ? arrival->ctx.ep : xfer_cq_ep(arrival->cq, NULL);
			if (!ep)
				continue;
			/* it may come all the same, from a sender that waits */
			seen_ids_add(&xfer->proto->lost, arrival->id);
			rndv_arrival_lost(arrival, ep, status);
		}
	}
}

void rndv_announced_in_vain(struct xfer_ep *ep, uint64_t id, bool known, int status)
{
	struct xfer_arrival *arrival = rndv_arrival_find(ep->xfer, id);
	struct proto_domain *proto = ep->xfer->proto;

	xfer_assert_locked(ep->xfer);
	/* no record for it: nobody knows how many more will come */
	if (!arrival)
		seen_ids_add(known ? &proto->lost : &proto->unreadable, id);
	else if (!arrival->announced)
		rndv_arrival_lost(arrival, ep, status);
}
