/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Lanes: who has agreed to them, and which piece takes which. See rndv_lanes.h, and lane.h for what they are.
 *
 *	sender                                                           receiver
 *	                     --- ANNOUNCE(id, length) -----------------> opens its lanes
 *	opens its lanes      <------- LANES(asks, kind, number, names) ---
 *	inserts the names    === empty message(number, i) by lane i ===> may use those up to i
 *
 *	                     --- ANNOUNCE(id, length) of another ------> posts pieces on lanes
 *	PUSHING              <- TAKE(id, length, chunk, number, count) --- PULLING
 *	copies out           --- piece(number, i) by lane (number + i) -> copies in
 *
 *	uses less            --- LANES(answers, count) ----------------> asks for no more
 *
 *	a lane has failed    --- LANES(answers, 0, next turn) --------> takes back what is posted on lanes
 *	PUSHING from there   <---- TAKE(id, other number, from, count) --- posts the rest, on none
 *	a while later        === empty message(number, turn, i) ======> may use those up to i
 *	                     --- LANES(answers, count, turn) ----------> in that turn
 *
 *	hears nothing        === message(number, turn, i; id, next) ==> does what was before that lack a piece?
 *	PUSHING from there   <---- TAKE(id, other number, from, count) --- yes
 *
 * A lane is used when something has come over it in the sender's present *turn*. So those that a firewall stops are not
 * used, nor those that have failed before they are tried again. The receives for such messages stay posted.
 *
 * The receiver gives a piece to its lane before it asks for it. But it may come before the lane's thread has posted
 * it: it waits in the core then. Messages of one piece go by any lane, as nobody can guess their numbers.
 */
#include "proto/rndv_lanes.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/room.h"
#include "path/cost.h"
#include "proto/hello_facts.h"
#include "proto/proto.h"
#include "proto/proto_state.h"
#include "proto/rndv_match.h"
#include "xfer/ctrl.h"
#include "xfer/peer.h"
#include "xfer/req_state.h"
#include "xfer/xfer_proto.h"

/* A message from host memory is announced each [ms], until its peer has offered lanes */
#define RNDV_LANES_HINT 1000

/* A lane that has not been able to send a message for so long has failed [ms] */
#define RNDV_LANES_LATE 8

/* Pieces of one message that are posted at a time; and on each lane, if that is more */
#define RNDV_WINDOW 8u
#define RNDV_LANE_WINDOW 2u

/* The record of what is agreed with a peer, made if there is none; NULL: there is no memory */
static struct xfer_peer_lanes *rndv_lanes_get(struct xfer_peer *peer)
{
	if (!peer->lanes)
		peer->lanes = calloc(1, sizeof *peer->lanes);
	return peer->lanes;
}

/* ---- the first message over each ---- */

/*
 * A message over a lane, to or from the peer at @peer; @number: of the offer; @since: when it was given to the lane [ms]. It is
 * empty or @asks: have the pieces come of the message with that id, before that one?
 */
struct rndv_lane_first {
	struct xfer_out out;
	fi_addr_t peer;
	uint32_t number;
	uint64_t since;
	uint64_t asks[2];
};

_Static_assert(sizeof(struct rndv_lane_first) <= CELL_SIZE, "a first message is a cell");

/* Where pieces have their number, it has the lane's, and above that the sender's turn */
#define RNDV_LANE_TURNS ((uint32_t) (WIRE_PIECES_MAX / LANES_MAX))

static uint64_t rndv_lane_first_tag(const struct xfer_ep *ep, uint32_t number, uint32_t turn,
				    unsigned int index)
{
	return ep->tag_bit | WIRE_TAG_PIECE | (uint64_t) number << WIRE_TAG_TRANSFER_SHIFT |
	       (turn % RNDV_LANE_TURNS * LANES_MAX + index);
}

static void rndv_lanes_refused(struct xfer_peer *peer);

/* What is agreed with a peer by that number; NULL: nothing, as it may have been lost since */
static struct xfer_peer_lanes *rndv_lanes_by(const struct xfer_peer *peer, bool ours,
					     uint32_t number)
{
	struct xfer_peer_lanes *lanes = peer ? peer->lanes : NULL;

	if (!lanes || (ours ? !lanes->offered || lanes->number != number
			    : !lanes->out || lanes->theirs != number))
		return NULL;
	return lanes;
}

static void rndv_lane_first_sent(struct xfer_ctx *ctx, const struct core_comp *comp)
{
	const struct rndv_lane_first *first = (struct rndv_lane_first *) ctx;
	struct xfer_peer *peer = xfer_peer_find(ctx->ep, first->peer);
	const bool failed = comp->err && comp->err != FI_ECANCELED &&
			    rndv_lanes_by(peer, false, first->number);

	xfer_ctx_free(ctx);
	if (failed)
		rndv_lanes_failed(peer);
}

/* Is that turn later than what was heard of that lane? What was sent by a connection that failed may come last. */
static bool rndv_lane_later(uint32_t turn, uint32_t heard)
{
	return !heard || (turn + 1 - heard) % RNDV_LANE_TURNS < RNDV_LANE_TURNS / 2;
}

static void rndv_lane_first_heard(struct xfer_ctx *ctx, const struct core_comp *comp)
{
	struct rndv_lane_first *first = (struct rndv_lane_first *) ctx;
	struct xfer_peer *peer = xfer_peer_find(ctx->ep, first->peer);
	struct xfer_peer_lanes *lanes = rndv_lanes_by(peer, true, first->number);
	const uint32_t low = (uint32_t) (first->out.tag % WIRE_PIECES_MAX);
	const unsigned int lane = (unsigned int) first->out.via->lane;

	if (comp->err) {
		lanes_leave(ctx->ep, NULL, 1);
		xfer_ctx_free(ctx);
		if (lanes && comp->err != FI_ECANCELED) {
			struct xfer *xfer = peer->ep->xfer;

			/* questions are not heard any more */
			rndv_lanes_refused(peer);
			XFER_PROTO_EACH(xfer, cut, peer, 0, 0, 0);
		}
		return;
	}
	if (lanes && low % LANES_MAX == lane &&
	    rndv_lane_later(low / LANES_MAX, lanes->heard[lane]))
		lanes->heard[lane] = low / LANES_MAX + 1;
	if (lanes && comp->len == sizeof first->asks)
		XFER_PROTO_EACH(ctx->ep->xfer, cut, peer, le64toh(first->asks[0]), lane,
				le64toh(first->asks[1]));
	xfer_out_post(&first->out);
}

/* Sends or awaits it, if there is memory. Else the lane is not used. @req: asks for its pieces, if not NULL */
static void rndv_lane_first_post(struct xfer_peer *peer, unsigned int index, bool recv,
				 const struct xfer_req *req)
{
	struct xfer_ep *ep = peer->ep;
	struct xfer_peer_lanes *lanes = peer->lanes;
	struct rndv_lane_first *first = cell_get(&ep->xfer->cells);

	if (!first) {
		if (recv)
			lanes_leave(ep, NULL, 1);
		return;
	}
	first->peer = peer->addr;
	first->number = recv ? lanes->number : lanes->theirs;
	xfer_out_init(&first->out, lanes_channel(ep, index),
		      recv ? FI_ADDR_UNSPEC : lanes->to[index],
		      rndv_lane_first_tag(ep, first->number, recv ? 0 : lanes->turn, index),
		      recv ? rndv_lane_first_heard : rndv_lane_first_sent, xfer_ctx_free);
	first->out.iov[0] = (struct iovec){&first->asks, recv || req ? sizeof first->asks : 0};
	first->out.count = 1;
	first->asks[0] = htole64(req ? req->transfer.id : 0);
	first->asks[1] = htole64(req ? req->transfer.next : 0);
	first->since = clock_coarse_ms();
	first->out.aside = true;
	first->out.recv = recv;
	/* it takes what comes in any turn */
	first->out.ignore = recv ? WIRE_PIECES_MAX - 1 : 0;
	xfer_out_post(&first->out);
}

/* The next one behind @ctx, or the first, that is to go to a peer; or NULL */
static struct rndv_lane_first *rndv_lane_first_next(const struct xfer_peer *peer,
						    struct xfer_ctx *ctx)
{
	do {
		ctx = ctx ? LIST_NEXT(ctx, live) : LIST_FIRST(&peer->ep->live);
	} while (ctx && (ctx->done != rndv_lane_first_sent ||
			 ((struct rndv_lane_first *) ctx)->peer != peer->addr));
	return (struct rndv_lane_first *) ctx;
}

/* It has none for ours, or one of ours does not receive: they are offered again after a while. */
static void rndv_lanes_refused(struct xfer_peer *peer)
{
	peer->lanes->offered = false;
	retry_failed(&peer->lanes->offers);
}

/*
 * Gives back the receives for those that were lost or removed, or have another offer. They are kept as long as there is
 * room: first messages may be under way to them, and cores that stall read nothing behind one without a receive.
 */
static void rndv_lanes_sweep(struct xfer_ep *ep)
{
	struct rndv_lane_first *first;
	struct xfer_ctx *ctx;

	LIST_FOREACH(ctx, &ep->live, live) {
		first = (struct rndv_lane_first *) ctx;
		if (ctx->done == rndv_lane_first_heard &&
		    !rndv_lanes_by(xfer_peer_find(ep, first->peer), true, first->number))
			xfer_out_cancel(&first->out);
	}
}

/* Offers our lanes to a peer */
static void rndv_lanes_offer(struct xfer_peer *peer)
{
	uint8_t names[LANES_MAX * WIRE_NAME_MAX];
	struct xfer_peer_lanes *lanes = peer->lanes;
	struct xfer_ep *ep = peer->ep;
	struct wire_msg msg = {.type = WIRE_LANES, .flags = WIRE_ASKS};

	msg.count = lanes_open(ep);
	if (!msg.count)
		return;
	/* later, if others have all receives, or their connections might leave none for the core's */
	if (room_spare(msg.count) || !lanes_keep(ep, NULL, msg.count)) {
		rndv_lanes_sweep(ep);
		retry_failed(&lanes->offers);
		return;
	}
	lanes->offered = true;
	memset(lanes->heard, 0, sizeof lanes->heard);
	lanes->limit_turn = 1;
	lanes->limit = LANES_MAX;
	msg.len = lanes_kind(ep);
	msg.transfer = lanes->number = (uint32_t) xfer_id_new(ep->xfer);
	msg.payload = names;
	msg.payload_len = msg.count * lanes_names(ep, msg.count, names);
	for (unsigned int i = 0; i < msg.count; i++)
		rndv_lane_first_post(peer, i, true, NULL);
	if (!msg.payload_len || ctrl_tell(peer, &msg))
		rndv_lanes_refused(peer);
}

unsigned int rndv_lanes_window(unsigned int count)
{
	return P2P_MAX(RNDV_WINDOW, RNDV_LANE_WINDOW * count);
}

/* So many of ours may be used, from the first on: it has been heard over each since it began to use them */
static unsigned int rndv_lanes_heard(const struct xfer_peer_lanes *lanes)
{
	unsigned int count = 0;

	while (lanes->offered && count < lanes->limit &&
	       lanes->heard[count] == lanes->limit_turn + 1)
		count++;
	return count;
}

/*
 * Sends something over each of its lanes. False: not now, as what was sent the last time is still on its way, or the core may
 * need the descriptors for its own connections
 */
static bool rndv_lanes_send(struct xfer_peer *peer)
{
	if (room_spare(peer->lanes->out) || rndv_lane_first_next(peer, NULL))
		return false;
	for (unsigned int i = 0; i < peer->lanes->out; i++)
		rndv_lane_first_post(peer, i, false, NULL);
	return true;
}

/* Begins to use its lanes. False: not now, or one has failed not long ago */
static bool rndv_lanes_try(struct xfer_peer *peer)
{
	struct xfer_peer_lanes *lanes = peer->lanes;

	if (!retry_due(&lanes->failed))
		return false;
	if (!rndv_lanes_send(peer)) {
		retry_failed(&lanes->failed);
		return false;
	}
	lanes->again = (struct retry){.delay = 0};
	retry_failed(&lanes->again);
	return true;
}

unsigned int rndv_lanes_choose(struct xfer_req *req, bool alone, uint64_t pieces)
{
	struct xfer_peer *peer = req->peer;
	unsigned int count, room;

	xfer_assert_locked(req->ctx.ep->xfer);
	if (req->transfer.wanted < lanes_len_min(req->ctx.ep) || peer->ep != req->ctx.ep ||
	    !(peer->facts & HELLO_LANES) || !rndv_lanes_get(peer))
		return 0;
	if (!peer->lanes->offered && retry_due(&peer->lanes->offers))
		rndv_lanes_offer(peer);
	if (!(req->transfer.recv.arrival->flags & WIRE_WANT_DONE) ||
	    (alone && req->transfer.wanted <= cost_lanes_alone()))
		return 0;
	count = P2P_MIN(rndv_lanes_heard(peer->lanes), lanes_use(req->ctx.ep));
	room = (unsigned int) P2P_MIN(rndv_lanes_window(count), pieces);
	if (!count || !lanes_keep(req->ctx.ep, &peer->lanes->held, room))
		return 0;
	req->lane_room = room;
	return count;
}

/*
 * Tells a receiver over how many lanes it is to ask for pieces from now on. Without a turn, none can be: they are to be
 * offered again
 */
static void rndv_lanes_say(struct xfer_peer *peer, unsigned int count)
{
	struct wire_msg msg = {
		.type = WIRE_LANES,
		.flags = WIRE_ANSWERS,
		.count = count,
		.transfer = peer->lanes->out ? peer->lanes->turn % RNDV_LANE_TURNS : 0,
	};

	peer->lanes->told = count;
	peer->lanes->over = !count && peer->lanes->over;
	ctrl_owed(peer, ctrl_tell(peer, &msg));
}

/* The same, if it is news. Those that are used after none were are tried first: what was used before may have failed. */
static void rndv_lanes_tell(struct xfer_peer *peer, unsigned int count)
{
	struct xfer_peer_lanes *lanes = peer->lanes;

	if (lanes->told != count && (lanes->told || rndv_lanes_try(peer)))
		rndv_lanes_say(peer, count);
}

bool rndv_lanes_carry_host(struct xfer_peer *peer, size_t len)
{
	const uint64_t now = clock_coarse_ms();
	struct xfer_peer_lanes *lanes = peer->facts & HELLO_LANES ? rndv_lanes_get(peer) : NULL;

	xfer_assert_locked(peer->ep->xfer);
	if (!lanes || lanes->whole || len < lanes_len_min(peer->ep))
		return false;
	if (lanes->out) {
		rndv_lanes_tell(peer, P2P_MIN(lanes_use(peer->ep), lanes->out));
		return lanes->told && (len > cost_lanes_alone() || peer->users);
	}
	if (now - lanes->hinted < RNDV_LANES_HINT)
		return false;
	lanes->hinted = now;
	return true;
}

bool rndv_lanes_known(const struct xfer_req *req, unsigned int count)
{
	const struct xfer_peer_lanes *lanes;

	xfer_assert_locked(req->ctx.ep->xfer);
	lanes = count ? rndv_lanes_get(req->peer) : NULL;
	if (!count || (lanes && count <= lanes->out))
		return true;
	P2P_WARN(
		"a peer asks for a message over lanes that are not known: the message fails\n");
	if (lanes)
		rndv_lanes_say(req->peer, 0);
	return false;
}

void rndv_lanes_adapt(struct xfer_req *req)
{
	struct xfer_peer_lanes *lanes = req->peer->lanes;

	xfer_assert_locked(req->ctx.ep->xfer);
	if (!lanes || !lanes->out)
		return;
	rndv_lanes_tell(req->peer, P2P_MIN(lanes_use(req->ctx.ep), lanes->out));
	/* a connection that was cut may have lost what the core had called sent: nobody is told of that */
	if (lanes->told > req->transfer.lanes && retry_due(&lanes->again)) {
		retry_failed(&lanes->again);
		rndv_lanes_send(req->peer);
	}
}

void rndv_lanes_failed(struct xfer_peer *peer)
{
	xfer_assert_locked(peer->ep->xfer);
	if (!peer->lanes || peer->lanes->over)
		return;
	P2P_WARN("a lane has failed: long messages to that peer travel over one connection for "
		 "a while\n");
	retry_failed(&peer->lanes->failed);
	peer->lanes->turn++;
	peer->lanes->over = true;
	rndv_lanes_say(peer, 0);
}

void rndv_lanes_check(struct xfer_req *req)
{
	const struct rndv_lane_first *last = rndv_lane_first_next(req->peer, NULL);

	xfer_assert_locked(req->ctx.ep->xfer);
	if (!req->peer->lanes || req->peer->lanes->over)
		return;
	if (last && clock_coarse_ms() - last->since >= RNDV_LANES_LATE) {
		rndv_lanes_failed(req->peer);
		return;
	}
	for (unsigned int i = 0; i < req->transfer.lanes; i++)
		rndv_lane_first_post(req->peer, i, false, req);
}

/* ---- pieces ---- */

void rndv_lanes_take(struct rndv_piece *piece)
{
	const struct xfer_req *req = piece->req;
	const struct xfer_transfer *transfer = &req->transfer;

	xfer_assert_locked(req->ctx.ep->xfer);
	if (!transfer->lanes)
		return;
	piece->out.via = lanes_channel(piece->out.ctx.ep,
				       (transfer->number + piece->index) % transfer->lanes);
	if (!req->recv)
		piece->out.addr = req->peer->lanes->to[piece->out.via->lane];
}

/* ---- what is said of lanes ---- */

/* Inserts what a peer has named: how many of it there are */
static unsigned int rndv_lanes_insert(struct xfer_peer *peer, const struct wire_msg *msg)
{
	const size_t len = msg->payload_len / msg->count;
	const uint8_t *names = msg->payload;
	const unsigned int count = P2P_MIN(msg->count, lanes_open(peer->ep));
	uint8_t name[WIRE_NAME_MAX] = {0};
	size_t name_len = sizeof name;
	unsigned int i;

	if (!count || lanes_kind(peer->ep) != msg->len) {
		P2P_INFO("no lanes to a peer: its libfabric is another one\n");
		return 0;
	}
	if (peer->ep->front.ops->lookup(&peer->ep->front, peer->addr, name, &name_len))
		return 0;
	for (i = 0; i < count; i++) {
		/* nobody is to name lanes of others */
		if (wire_names_apart(name, name_len, names + i * len, len) ||
		    lanes_insert(peer->ep, i, names + i * len, &peer->lanes->to[i]))
			break;
	}
	return i;
}

/* Its lanes are offered. It may do so again, if it was refused, but not one time after the other. */
static void rndv_lanes_offered(struct xfer_peer *peer, const struct wire_msg *msg)
{
	struct xfer_peer_lanes *lanes = peer->lanes;

	lanes->out = 0;
	if (retry_due(&lanes->taken)) {
		retry_failed(&lanes->taken);
		lanes->out = rndv_lanes_insert(peer, msg);
	}
	lanes->theirs = msg->transfer;
	lanes->turn = 1;
	lanes->over = !lanes->out;
	/* as it thinks as long as it hears nothing else */
	lanes->told = msg->count;
	rndv_lanes_tell(peer, rndv_lanes_try(peer) ? lanes->out : 0);
}

static void rndv_lanes_said(struct xfer_ep *ep, struct xfer_req *req,
			    const struct wire_msg *msg)
{
	struct xfer_peer *peer = msg->peer;

	if (!rndv_lanes_get(peer))
		return;
	if (msg->flags & WIRE_ASKS) {
		rndv_lanes_offered(peer, msg);
		return;
	}
	if (peer->lanes->limit_turn != msg->transfer % RNDV_LANE_TURNS)
		XFER_PROTO_EACH(ep->xfer, cut, peer, 0, 0, 0);
	peer->lanes->limit = P2P_MIN(msg->count, LANES_MAX);
	peer->lanes->limit_turn = msg->transfer % RNDV_LANE_TURNS;
	if (!msg->count && !msg->transfer && peer->lanes->offered)
		rndv_lanes_refused(peer);
}

/*
 * It may live, and come back. Cores that stall may have pieces of it on our lanes, for which there are no receives
 * now: nothing would come behind them. Such lanes are not heard when all begins anew.
 */
static void rndv_lanes_lost(struct xfer_peer *peer, int status)
{
	struct xfer_peer_lanes *lanes = peer->lanes;
	struct rndv_lane_first *first = NULL;

	if (!lanes)
		return;
	while ((first = rndv_lane_first_next(peer, first ? &first->out.ctx : NULL)))
		xfer_out_cancel(&first->out);
	*lanes = (struct xfer_peer_lanes){
		.offers = lanes->offers,
		.taken = lanes->taken,
		.failed = lanes->failed,
		.held = lanes->held,
	};
	retry_failed(&lanes->offers);
}

const struct xfer_proto rndv_lanes_proto = {
	.name = "lanes",
	.message = {[WIRE_LANES] = rndv_lanes_said},
	.lost = rndv_lanes_lost,
};
