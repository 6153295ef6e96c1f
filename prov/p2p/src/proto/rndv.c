/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The rendezvous protocol: long messages, announced before their bytes travel. This file is its
 * row of the table; rndv_*.c have the parts.
 *
 *	sender                                                           receiver
 *	MARKING              --- ANNOUNCE(id, length, chunk) ----------> notes what is to come
 *	ANNOUNCED            --- marker(tag, id) ----------------------> MATCHED with a receive
 *	PUSHING              <------ TAKE(id, length, chunk, number) --- PULLING: has posted pieces
 *	copies out           --- piece(number, 0) ---------------------> copies in
 *	copies out           --- piece(number, 1) ---------------------> copies in
 *	                     <---------------------- TAKE(id, count) --- has posted more pieces
 *	                     --- piece(number, last) ------------------> TELLING
 *	ENDED                <-------- DONE(id), if it is waited for --- ENDED
 *
 * The receiver posts RNDV_WINDOW pieces ahead of the sender: into the user's buffer if that is
 * host memory, else into slots. A slot serves the next piece as soon as its own has been copied or
 * sent. So copy, wire and copy run at the same time.
 *
 * Over cores that stall behind a message without a receive, TAKE, pieces and DONE travel between side endpoints
 * (side_ep.h), which greetings have named.
 *
 * rndv_across.c, rndv_lent.c, rndv_plain.c and rma_core.c have what a receiver may do instead
 * of asking for pieces; rndv_choose.c chooses.
 */
#include <rdma/fi_errno.h>

#include "base/clock.h"
#include "proto/hello_facts.h"
#include "proto/proto.h"
#include "proto/proto_state.h"
#include "proto/rma_served.h"
#include "proto/rndv_choose.h"
#include "proto/rndv_match.h"
#include "proto/rndv_plain.h"
#include "proto/rndv_recv.h"
#include "proto/rndv_send.h"
#include "proto/rndv_stale.h"
#include "xfer/peer.h"
#include "xfer/progress.h"
#include "xfer/req_state.h"

/*
 * Pieces that may begin without a slot in XFER_WATCH milliseconds: so few that what is merely many
 * keeps to slots
 */
#define RNDV_SPARE 4

/* The sender has given up. */
static void rndv_aborted(struct xfer_ep *ep, const struct wire_msg *msg)
{
	struct xfer_arrival *arrival = rndv_arrival_find(ep->xfer, msg->id);

	if (!arrival || !arrival->announced) {
		/* where a connection breaks, this may overtake the announcement, and no marker comes */
		if (arrival || msg->flags & WIRE_UNMARKED)
			rndv_announced_in_vain(ep, msg->id, true, msg->status);
		return;
	}
	if (arrival->peer && arrival->peer != msg->peer) {
		xfer_message_wrong(ep->xfer, msg->type, "another peer's");
		return;
	}
	arrival->status = msg->status;
	/* of pieces that were asked for anew, and of which it does not know, none comes */
	arrival->begun =
		arrival->req && arrival->req->transfer.number != msg->transfer ? 0 : msg->count;
	if (arrival->held)
		rndv_divert_fail(arrival);
	else if (arrival->req && xfer_req_fits(arrival->req, msg->type))
		rndv_recv_stop(arrival->req, msg->status, false, arrival->begun);
	else if (msg->flags & WIRE_UNMARKED)
		rndv_arrival_orphan(arrival, ep->xfer);
}

/* A message is announced, or the bytes of a long read of ours */
static void rndv_announces(struct xfer_ep *ep, struct xfer_req *req, const struct wire_msg *msg)
{
	if (!req)
		rndv_announced(ep, msg);
	else if (req->recv && req->len > WIRE_PAYLOAD_MAX && msg->len == req->len)
		rndv_recv_unmarked(req, msg);
	else
		xfer_message_wrong(ep->xfer, msg->type, "no long read of that length");
}

/* Either side has all, or gives up; or the owner of memory has done what was asked for */
static void rndv_done(struct xfer_ep *ep, struct xfer_req *req, const struct wire_msg *msg)
{
	if (!req)
		rndv_aborted(ep, msg);
	else if (req->state == XFER_ASKING)
		rma_served_result(ep, req, msg);
	else if (req->state == XFER_MARKING && !msg->status)
		xfer_message_wrong(ep->xfer, msg->type, xfer_state_name(req->state));
	else if (req->state == XFER_MARKING)
		/* there was no memory for its announcement. The marker goes, and has its receive fail as well */
		req->transfer.status = msg->status;
	else if (msg->status)
		/* the receives of pieces stay posted until nothing more can come: what is ENDING comes */
		rndv_send_fail(req, msg->status, req->state != XFER_ENDING);
	else if (req->state != XFER_ENDING)
		rndv_received(ep, req, msg);
}

/* Its marker comes all the same, and must not wait. What is of another version has no token */
static void rndv_unheard(struct xfer_ep *ep, const struct xfer_token *token,
			 const struct wire_msg *msg)
{
	if (msg->type == WIRE_ANNOUNCE && !msg->to_sender)
		rndv_announced_in_vain(ep, msg->id, token,
				       msg->token ? -FI_ECONNABORTED : -FI_EOPNOTSUPP);
}

/*
 * A silent peer may live, and read what was lent to it when it goes on. A peer that has lost us lives, and says so by a
 * datagram, which may overtake a read in the core. If that key were gone, the core would end the connection, with all that
 * is on it. So the slot stays as it is until the core says that the peer is gone, or it has said something that shows that
 * it knows, by the way that its read takes.
 */
static void rndv_keep(struct xfer_req *req)
{
	if (req->state != XFER_ANNOUNCED || !req->slot || !req->slot->lent)
		return;
	req->transfer.send.kept = true;
	req->transfer.in_flight++;
}

static void rndv_keep_no_more(struct xfer_req *req)
{
	req->transfer.send.kept = false;
	req->transfer.in_flight--;
	rndv_send_fail(req, req->transfer.status, false);
}

/* Does the peer know better by now, or has its process ended (watch.h), so that another one may be there? */
static bool rndv_kept_enough(const struct xfer_peer *peer)
{
	return peer->open ? xfer_peer_spoke(peer) : keepalive_signs(peer->life.keepalive).gone;
}

/* Looks whether slots that were kept for peers may be used otherwise */
static void rndv_keep_look(struct xfer *xfer)
{
	struct xfer_req *req, *next;

	for (size_t i = 0; i < XFER_CHAINS; i++) {
		for (req = LIST_FIRST(&xfer->sending[i]); req; req = next) {
			next = LIST_NEXT(req, transfer.chain);
			if (req->transfer.send.kept && rndv_kept_enough(req->peer))
				rndv_keep_no_more(req);
		}
	}
}

static void rndv_lost(struct xfer_peer *peer, int status)
{
	struct xfer_arrival *arrival, *next_arrival;
	struct xfer *xfer = peer->ep->xfer;
	struct xfer_req *req, *next, *receive;
	const bool may_read = status == -FI_ETIMEDOUT || xfer_peer_reset_heard(peer);
	bool held;

	peer->ep->proto->stale = true;
	rndv_arrivals_desert(peer, false);
	for (size_t i = 0; i < XFER_CHAINS; i++) {
		for (arrival = LIST_FIRST(&xfer->proto->arriving[i]); arrival;
		     arrival = next_arrival) {
			next_arrival = LIST_NEXT(arrival, chain);
			if (arrival->peer != peer)
				continue;
			held = arrival->held;
			receive = arrival->req;
			rndv_arrival_orphan(arrival, xfer);
			if (held)
				rndv_divert_fail(arrival);
			else if (receive)
				rndv_recv_fail(receive, status, false);
		}
		for (req = LIST_FIRST(&xfer->sending[i]); req; req = next) {
			next = LIST_NEXT(req, transfer.chain);
			if (req->peer != peer)
				continue;
			if (req->transfer.send.kept) {
				if (!may_read)
					rndv_keep_no_more(req);
				continue;
			}
			if (may_read)
				rndv_keep(req);
			rndv_send_forsake(req);
			rndv_send_fail(req, status, false);
		}
	}
}

/* Has pieces without a receive discarded, where they would stall the core. */
static void rndv_stale_look(struct xfer_ep *ep)
{
	if (ep->quirks & QUIRK_STALLS && ep->proto->stale)
		rndv_stale_discard(ep);
}

/* A peer waits for something: pieces of before may be in the way */
static void rndv_probed(struct xfer_ep *ep, struct xfer_req *req, const struct wire_msg *msg)
{
	rndv_stale_look(ep);
	/* announcements are counted there */
	if (msg->peer->epoch && msg->flags & WIRE_COUNTS_FRONT && !xfer_peer_missing(msg))
		rndv_arrivals_desert(msg->peer, true);
}

/* Looks after transfers that do not move */
static void rndv_watch(struct xfer *xfer, unsigned int passed)
{
	struct xfer_ep *ep;

	xfer->proto->spare = RNDV_SPARE;
	rndv_arrivals_watch(xfer, passed);
	rndv_keep_look(xfer);
	LIST_FOREACH(ep, &xfer->eps, entry) {
		rndv_stale_look(ep);
		rndv_stale_retry(ep);
	}
}

/* Moves all transfers on: begins what there is room for. */
static void rndv_progress(struct xfer *xfer)
{
	if (!xfer->open)
		return;
	xfer_req_each(xfer, XFER_PUSHING, rndv_push);
	/* nobody has another slot before all have one; then the oldest has it */
	xfer_req_each(xfer, XFER_PULLING, rndv_pull_starved);
	xfer_req_each(xfer, XFER_PULLING, rndv_pull);
	xfer_req_each(xfer, XFER_TELLING, rndv_recv_check);
}

/* Receives that waited for their senders to be told of their end */
static void rndv_told(struct xfer *xfer)
{
	xfer_req_each(xfer, XFER_TELLING, rndv_recv_check);
}

static void rndv_drop(struct xfer_req *req)
{
	struct xfer_arrival *arrival = req->recv ? req->transfer.recv.arrival : NULL;

	switch (req->state) {
	case XFER_MARKING:
	case XFER_ANNOUNCED:
	case XFER_PUSHING:
	case XFER_MATCHED:
	case XFER_PULLING:
	case XFER_MOVING:
	case XFER_TELLING:
	case XFER_ENDING:
		if (!req->recv)
			note_give_up(req->ctx.ep->xfer, req->transfer.id, -FI_ECANCELED);
		else if (arrival && req->op_flags & FI_PEEK)
			TAILQ_REMOVE(&arrival->peeks, req, entry);
		else if (arrival)
			arrival->req = NULL;
		break;
	default:
		break;
	}
}

/* Ends what one endpoint receives for another one, if either closes. True: there was something that @ep has to wait for */
static bool rndv_close_apart(struct xfer_ep *ep)
{
	struct xfer_arrival *arrival, *next;
	bool waits = false;

	for (size_t i = 0; i < XFER_CHAINS; i++) {
		for (arrival = LIST_FIRST(&ep->xfer->proto->arriving[i]); arrival;
		     arrival = next) {
			next = LIST_NEXT(arrival, chain);
			if (!arrival->peer || !rndv_arrival_parts(arrival))
				continue;
			/* what the core has of its own endpoint's is over with that */
			waits |= arrival->ctx.ep == ep ||
				 (arrival->req && arrival->req->transfer.copying);
			arrival->peer->ep->proto->stale = true;
			if (arrival->held)
				rndv_divert_fail(arrival);
			else
				rndv_recv_stop(arrival->req, -FI_ECANCELED, true, 0);
		}
	}
	return waits;
}

/* The core of another endpoint may be receiving into a buffer of this one's, which its user frees next. */
static void rndv_close(struct xfer_ep *ep, int *ret)
{
	const int64_t end = clock_end(ep->xfer->farewell);

	ep->proto->closes = true;
	while (!*ret && rndv_close_apart(ep)) {
		if (clock_left(end))
			xfer_progress_turn(ep->xfer);
		else
			*ret = -FI_EBUSY;
	}
	ep->proto->closes = !*ret;
}

const struct xfer_proto rndv_proto = {
	.name = "rendezvous",
	.paths = PROTO_PATH(PATH_READ) | PROTO_PATH(PATH_ACROSS) | PROTO_PATH(PATH_LONG),
	.start = rndv_start,
	.matched = rndv_matched,
	.stray = rndv_marker_untracked,
	.message =
		{
			[WIRE_ANNOUNCE] = rndv_announces,
			[WIRE_TAKE] = rndv_take,
			[WIRE_DONE] = rndv_done,
			[WIRE_PROBE] = rndv_probed,
		},
	.failed = rndv_announce_failure,
	.unheard = rndv_unheard,
	.progress = rndv_progress,
	.watch = rndv_watch,
	.told = rndv_told,
	.cut = rndv_recv_cut,
	.lost = rndv_lost,
	.drop = rndv_drop,
	.cq_drop = rndv_cq_drop,
	.ep_close = rndv_close,
};
