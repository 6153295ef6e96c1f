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
 *	PUSHING              <-- CTS(id, length, chunk, number, count) --- PULLING
 *	copies out           --- piece(number, i) by lane (number + i) -> copies in
 *
 *	uses less            --- LANES(answers, count) ----------------> asks for no more
 *
 * A lane is used when something has come over it. So those that a firewall stops are never used.
 *
 * The receiver gives a piece to its lane before it asks for it. But it may come before the lane's thread has posted
 * it: it waits in the core then. Messages of one piece go by any lane, as nobody can guess their numbers.
 */
#include "proto/rndv_lanes.h"

#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "proto/hello_facts.h"
#include "proto/proto.h"
#include "proto/proto_state.h"
#include "xfer/ctrl.h"
#include "xfer/peer.h"
#include "xfer/req_state.h"

/* A message alone that is no longer is there sooner by the one connection. */
#define RNDV_LANES_ALONE ((uint64_t) 512 << 10)

/* A message from host memory is announced each [ms], until its peer has offered lanes */
#define RNDV_LANES_HINT 1000

/* Pieces of one message that are posted at a time; and on each lane, if that is more */
#define RNDV_WINDOW 8u
#define RNDV_LANE_WINDOW 2u

/*
 * The record of what is agreed with a peer, made if there is none; NULL: there is no memory. Who was removed from the
 * address vector meanwhile does not know, and goes by what was agreed before.
 */
static struct xfer_peer_lanes *rndv_lanes_get(struct xfer_peer *peer)
{
	const struct xfer_peer_lanes *before;

	if (peer->lanes)
		return peer->lanes;
	peer->lanes = calloc(1, sizeof *peer->lanes);
	if (!peer->lanes)
		return NULL;
	before = xfer_peer_lanes_past(peer);
	if (before)
		*peer->lanes = *before;
	else
		peer->lanes->limit = LANES_MAX;
	peer->lanes->held = 0;
	return peer->lanes;
}

/*
 * Gives an operation its tag, of @tag. A receive looks for all of that but the bit which is ours at the endpoint: for
 * the core of lanes it may be a sign of its own. net takes the highest one for FI_CLAIM. So a short message that was
 * there before its receive would not meet it.
 */
static void rndv_lane_tag(struct lane_op *op, const struct xfer_ep *ep, uint64_t tag)
{
	op->tag = op->recv ? tag & ~ep->tag_bit : tag;
	op->ignore = op->recv ? ep->tag_bit : 0;
}

/* ---- the first message over each ---- */

/**
 * struct rndv_lane_first - an empty message over a lane, to or from the peer at @peer.
 * @number:	of the offer; @index: the lane's
 */
struct rndv_lane_first {
	struct xfer_ctx ctx;
	struct lane_op op;
	fi_addr_t peer;
	uint32_t number;
	unsigned int index;
};

_Static_assert(sizeof(struct rndv_lane_first) <= CELL_SIZE, "a first message is a cell");

static void rndv_lane_first_sent(struct xfer_ctx *ctx, const struct core_comp *comp)
{
	xfer_ctx_free(ctx);
}

static void rndv_lane_first_heard(struct xfer_ctx *ctx, const struct core_comp *comp)
{
	const struct rndv_lane_first *first = (struct rndv_lane_first *) ctx;
	const struct xfer_peer *peer = xfer_peer_find(ctx->ep, first->peer);

	lanes_leave(ctx->ep, NULL, 1);
	/* it may have been lost since */
	if (!comp->err && peer && peer->lanes && peer->lanes->number == first->number)
		peer->lanes->heard |= 1u << first->index;
	xfer_ctx_free(ctx);
}

/* Sends or awaits it, if there is memory. Else the lane is not used. */
static void rndv_lane_first_post(struct xfer_peer *peer, unsigned int index, bool recv,
				 uint32_t number)
{
	struct xfer_ep *ep = peer->ep;
	struct rndv_lane_first *first = cell_get(&ep->xfer->cells);

	if (!first) {
		if (recv)
			lanes_leave(ep, NULL, 1);
		return;
	}
	*first = (struct rndv_lane_first){
		.op =
			{
				.ctx = &first->ctx,
				.recv = recv,
				.aside = true,
				.addr = recv ? FI_ADDR_UNSPEC : peer->lanes->to[index],
			},
		.peer = peer->addr,
		.number = number,
		.index = index,
	};
	rndv_lane_tag(&first->op, ep,
		      ep->tag_bit | WIRE_TAG_PIECE |
			      (uint64_t) number << WIRE_TAG_TRANSFER_SHIFT | index);
	xfer_ctx_init(&first->ctx, ep, recv ? rndv_lane_first_heard : rndv_lane_first_sent,
		      xfer_ctx_free);
	lanes_post(ep, index, &first->op);
}

/* Offers our lanes to a peer, once */
static void rndv_lanes_offer(struct xfer_peer *peer)
{
	uint8_t names[LANES_MAX * WIRE_NAME_MAX];
	struct xfer_ep *ep = peer->ep;
	struct wire_msg msg = {.type = WIRE_LANES, .flags = WIRE_ASKS};

	msg.count = lanes_open(ep);
	/* later, if others have all receives; those that are never used count as well */
	if (msg.count && !lanes_keep(ep, NULL, msg.count))
		return;
	peer->lanes->offered = true;
	if (!msg.count)
		return;
	msg.len = lanes_kind(ep);
	msg.transfer = peer->lanes->number = (uint32_t) xfer_id_new(ep->xfer);
	msg.payload = names;
	msg.payload_len = msg.count * lanes_names(ep, msg.count, names);
	for (unsigned int i = 0; i < msg.count; i++)
		rndv_lane_first_post(peer, i, true, msg.transfer);
	if (msg.payload_len)
		ctrl_tell(peer, &msg);
}

unsigned int rndv_lanes_window(unsigned int count)
{
	return P2P_MAX(RNDV_WINDOW, RNDV_LANE_WINDOW * count);
}

unsigned int rndv_lanes_choose(struct xfer_req *req, bool alone, uint64_t pieces)
{
	struct xfer_peer *peer = req->peer;
	unsigned int heard, count, room;

	xfer_assert_locked(req->ctx.ep->xfer);
	if (req->transfer.wanted < lanes_len_min(req->ctx.ep) || !hello_lanes(peer) ||
	    !rndv_lanes_get(peer))
		return 0;
	if (!peer->lanes->offered)
		rndv_lanes_offer(peer);
	if (alone && req->transfer.wanted <= RNDV_LANES_ALONE)
		return 0;
	/* from the first on */
	heard = (unsigned int) __builtin_ctz(~peer->lanes->heard);
	heard = P2P_MIN(heard, peer->lanes->limit);
	count = heard ? P2P_MIN(heard, lanes_use(req->ctx.ep)) : 0;
	room = (unsigned int) P2P_MIN(rndv_lanes_window(count), pieces);
	if (!count || !lanes_keep(req->ctx.ep, &peer->lanes->held, room))
		return 0;
	req->lane_room = room;
	return count;
}

/* Tells a receiver over how many lanes it is to ask for pieces from now on */
static void rndv_lanes_say(struct xfer_peer *peer, unsigned int count)
{
	struct wire_msg msg = {.type = WIRE_LANES, .flags = WIRE_ANSWERS, .count = count};

	peer->lanes->told = count;
	ctrl_owed(peer, ctrl_tell(peer, &msg));
}

/* The same, if it is news */
static void rndv_lanes_tell(struct xfer_peer *peer, unsigned int count)
{
	if (peer->lanes->told != count)
		rndv_lanes_say(peer, count);
}

bool rndv_lanes_carry_host(struct xfer_peer *peer, size_t len)
{
	const uint64_t now = clock_coarse_ms();
	struct xfer_peer_lanes *lanes = hello_lanes(peer) ? rndv_lanes_get(peer) : NULL;

	xfer_assert_locked(peer->ep->xfer);
	if (!lanes || lanes->over || lanes->failed || lanes->whole ||
	    len < lanes_len_min(peer->ep))
		return false;
	if (lanes->out) {
		rndv_lanes_tell(peer, P2P_MIN(lanes_use(peer->ep), lanes->out));
		return lanes->told && (len > RNDV_LANES_ALONE || peer->users);
	}
	if (now - lanes->hinted < RNDV_LANES_HINT)
		return false;
	lanes->hinted = now;
	return true;
}

void rndv_lanes_whole(struct xfer_peer *peer)
{
	xfer_assert_locked(peer->ep->xfer);
	if (peer->lanes)
		peer->lanes->whole = true;
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
	if (lanes && lanes->out && !lanes->failed)
		rndv_lanes_tell(req->peer, P2P_MIN(lanes_use(req->ctx.ep), lanes->out));
}

void rndv_lanes_failed(struct xfer_req *req)
{
	struct xfer_peer *peer = req->peer;

	xfer_assert_locked(req->ctx.ep->xfer);
	if (!peer->lanes || peer->lanes->failed)
		return;
	P2P_WARN("a lane has failed: long messages to that peer travel over one connection\n");
	peer->lanes->failed = true;
	rndv_lanes_tell(peer, 0);
}

/* ---- pieces ---- */

static unsigned int rndv_lane_of(const struct rndv_piece *piece)
{
	const struct xfer_transfer *transfer = &piece->req->transfer;

	return (unsigned int) ((transfer->number + piece->index) % transfer->lanes);
}

bool rndv_lanes_post(struct rndv_piece *piece, bool recv)
{
	struct xfer_req *req = piece->req;
	unsigned int lane;

	xfer_assert_locked(req->ctx.ep->xfer);
	if (!req->transfer.lanes)
		return false;
	lane = rndv_lane_of(piece);
	piece->op = (struct lane_op){
		.ctx = &piece->out.ctx,
		.recv = recv,
		.iov = piece->out.iov,
		.count = piece->out.count,
		.addr = recv ? FI_ADDR_UNSPEC : req->peer->lanes->to[lane],
	};
	rndv_lane_tag(&piece->op, req->ctx.ep, piece->out.tag);
	lanes_post(req->ctx.ep, lane, &piece->op);
	req->ctx.ep->stats.lane_pieces += !recv;
	return true;
}

void rndv_lanes_cancel(struct rndv_piece *piece)
{
	xfer_assert_locked(piece->req->ctx.ep->xfer);
	if (piece->req->transfer.lanes)
		lanes_cancel(piece->req->ctx.ep, rndv_lane_of(piece), &piece->op);
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
	if (peer->ep->lookup(peer->ep, peer->addr, name, &name_len))
		return 0;
	for (i = 0; i < count; i++) {
		/* nobody is to name lanes of others */
		if (wire_names_apart(name, name_len, names + i * len, len) ||
		    lanes_insert(peer->ep, i, names + i * len, &peer->lanes->to[i]))
			break;
	}
	return i;
}

/* Takes back what was to come first over our lanes from a peer. @all: what was to go by its lanes, too */
static void rndv_lanes_first_cancel(struct xfer_peer *peer, bool all)
{
	struct rndv_lane_first *first;
	struct xfer_ctx *ctx;

	LIST_FOREACH(ctx, &peer->ep->live, live) {
		first = (struct rndv_lane_first *) ctx;
		if ((ctx->done == rndv_lane_first_heard ||
		     (all && ctx->done == rndv_lane_first_sent)) &&
		    first->peer == peer->addr)
			lanes_cancel(peer->ep, first->index, &first->op);
	}
}

static void rndv_lanes_said(struct xfer_ep *ep, struct xfer_req *req,
			    const struct wire_msg *msg)
{
	struct xfer_peer *peer = msg->peer;

	if (!rndv_lanes_get(peer))
		return;
	if (msg->flags & WIRE_ANSWERS) {
		peer->lanes->limit = msg->count;
		/* it has none for us */
		if (!msg->count && !peer->lanes->heard)
			rndv_lanes_first_cancel(peer, false);
		return;
	}
	if (peer->lanes->out || peer->lanes->over) {
		xfer_message_wrong(ep->xfer, msg->type, "the second of its kind");
		return;
	}
	peer->lanes->out = rndv_lanes_insert(peer, msg);
	/* as it thinks as long as it hears nothing else */
	peer->lanes->told = msg->count;
	rndv_lanes_tell(peer, peer->lanes->out);
	for (unsigned int i = 0; i < peer->lanes->out; i++)
		rndv_lane_first_post(peer, i, false, msg->transfer);
}

/*
 * It may live, and come back. Cores that stall may have pieces of it on our lanes, for which there are no receives
 * now: nothing would come behind them. So there are no more lanes with it.
 */
static void rndv_lanes_lost(struct xfer_peer *peer, int status)
{
	if (!peer->lanes)
		return;
	rndv_lanes_first_cancel(peer, true);
	*peer->lanes = (struct xfer_peer_lanes){
		.offered = true,
		.over = true,
		.held = peer->lanes->held,
	};
}

const struct xfer_proto rndv_lanes_proto = {
	.name = "lanes",
	.message = {[WIRE_LANES] = rndv_lanes_said},
	.lost = rndv_lanes_lost,
};
