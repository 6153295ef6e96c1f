/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Lanes: who has agreed to them, and which piece takes which. See rndv_lanes.h, and lane.h for what they are.
 *
 *	sender                                                           receiver
 *	                     --- ANNOUNCE(id, length) -----------------> opens its lanes
 *	opens its lanes      <-------------- LANES(asks, count, names) ---
 *	inserts the names    --- LANES(answers, count) ----------------> may use so many
 *
 *	                     --- ANNOUNCE(id, length) of another ------> posts pieces on lanes
 *	PUSHING              <-- CTS(id, length, chunk, number, count) --- PULLING
 *	copies out           --- piece(number, i) by lane (number + i) -> copies in
 *
 * The receiver posts a piece on its lane before it asks for it, as elsewhere. Messages of one piece take turns on
 * the lanes, as their numbers do.
 */
#include "proto/rndv_lanes.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>

#include "base/log.h"
#include "proto/hello.h"
#include "proto/proto.h"
#include "xfer/ctrl.h"
#include "xfer/peer.h"
#include "xfer/req_state.h"

/* What is shorter is not worth it: cores send it in other ways, and there is the other thread to be woken */
#define RNDV_LANES_MIN ((uint64_t) 256 << 10)

/* The record of what is agreed with a peer, made if there is none; NULL: there is no memory */
static struct xfer_peer_lanes *rndv_lanes_get(struct xfer_peer *peer)
{
	if (!peer->lanes)
		peer->lanes = calloc(1, sizeof *peer->lanes);
	return peer->lanes;
}

/* Offers our lanes to a peer, once */
static void rndv_lanes_offer(struct xfer_peer *peer)
{
	uint8_t names[LANES_MAX * WIRE_NAME_MAX];
	struct xfer_ep *ep = peer->ep;
	struct wire_msg msg = {.type = WIRE_LANES, .flags = WIRE_ASKS};

	peer->lanes->offered = true;
	msg.count = lanes_open(ep);
	if (!msg.count)
		return;
	msg.payload = names;
	msg.payload_len = msg.count * lanes_names(ep, msg.count, names);
	if (msg.payload_len && !ctrl_tell(peer, &msg))
		peer->lanes->named = msg.count;
}

unsigned int rndv_lanes_choose(struct xfer_req *req)
{
	struct xfer_peer *peer = req->peer;

	xfer_assert_locked(req->ctx.ep->xfer);
	if (req->transfer.wanted < RNDV_LANES_MIN || !hello_lanes(peer) ||
	    !rndv_lanes_get(peer))
		return 0;
	if (!peer->lanes->offered)
		rndv_lanes_offer(peer);
	return peer->lanes->in;
}

bool rndv_lanes_known(const struct xfer_req *req, unsigned int count)
{
	xfer_assert_locked(req->ctx.ep->xfer);
	return !count || (req->peer->lanes && count <= req->peer->lanes->out);
}

void rndv_lanes_failed(struct xfer_req *req)
{
	struct wire_msg msg = {.type = WIRE_LANES, .flags = WIRE_ANSWERS};

	xfer_assert_locked(req->ctx.ep->xfer);
	P2P_WARN("a lane has failed: long messages to that peer travel over one connection\n");
	ctrl_tell(req->peer, &msg);
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
		.tag = piece->out.tag,
	};
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

/* Are two endpoints at one host's address? Nobody is to name lanes of others. */
static bool rndv_lanes_same_host(const void *a, const void *b, size_t len)
{
	struct sockaddr_in6 in6[2];
	struct sockaddr_in in[2];

	if (len < sizeof in[0])
		return false;
	memcpy(&in[0], a, sizeof in[0]);
	memcpy(&in[1], b, sizeof in[1]);
	if (in[0].sin_family != in[1].sin_family)
		return false;
	if (in[0].sin_family == AF_INET)
		return in[0].sin_addr.s_addr == in[1].sin_addr.s_addr;
	if (in[0].sin_family != AF_INET6 || len < sizeof in6[0])
		return false;
	memcpy(&in6[0], a, sizeof in6[0]);
	memcpy(&in6[1], b, sizeof in6[1]);
	return !memcmp(&in6[0].sin6_addr, &in6[1].sin6_addr, sizeof in6[0].sin6_addr);
}

/* Inserts what a peer has named: how many of it there are */
static unsigned int rndv_lanes_insert(struct xfer_peer *peer, const struct wire_msg *msg)
{
	const size_t len = msg->payload_len / msg->count;
	const uint8_t *names = msg->payload;
	const unsigned int count = P2P_MIN(msg->count, lanes_open(peer->ep));
	uint8_t name[WIRE_NAME_MAX] = {0};
	size_t name_len = sizeof name;
	unsigned int i;

	if (peer->ep->lookup(peer->ep, peer->addr, name, &name_len))
		return 0;
	for (i = 0; i < count; i++) {
		if (!rndv_lanes_same_host(name, names + i * len, len) ||
		    lanes_insert(peer->ep, i, names + i * len, &peer->lanes->to[i]))
			break;
	}
	return i;
}

static void rndv_lanes_said(struct xfer_ep *ep, struct xfer_req *req,
			    const struct wire_msg *msg)
{
	struct wire_msg answer = {.type = WIRE_LANES, .flags = WIRE_ANSWERS};
	struct xfer_peer *peer = msg->peer;

	if (!rndv_lanes_get(peer))
		return;
	if (msg->flags & WIRE_ANSWERS) {
		peer->lanes->in = P2P_MIN(msg->count, peer->lanes->named);
		return;
	}
	if (peer->lanes->out) {
		xfer_message_wrong(ep->xfer, msg->type, "the second of its kind");
		return;
	}
	peer->lanes->out = rndv_lanes_insert(peer, msg);
	answer.count = peer->lanes->out;
	ctrl_tell(peer, &answer);
}

/*
 * It may live, and come back. Over a core that stalls it may have sent pieces, for which there are no receives now:
 * nothing would come behind them. So there are no more lanes with it.
 */
static void rndv_lanes_lost(struct xfer_peer *peer, int status)
{
	if (peer->lanes)
		*peer->lanes = (struct xfer_peer_lanes){.offered = peer->ep->stalls};
}

const struct xfer_proto rndv_lanes_proto = {
	.name = "lanes",
	.message = {[WIRE_LANES] = rndv_lanes_said},
	.lost = rndv_lanes_lost,
};
