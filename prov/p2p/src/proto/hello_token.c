/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Tokens of greetings. See hello_token.h. */
#include "proto/hello_token.h"

#include <string.h>
#include <rdma/fi_errno.h>

#include "base/siphash.h"
#include "proto/proto_state.h"
#include "xfer/ctrl.h"
#include "xfer/keepalive.h"
#include "xfer/loss.h"

/* For so long a peer is told of its lost token where the core has no room, as it may be dead [ms] */
#define HELLO_TOKEN_TIME 5000

uint64_t hello_token_make(const struct xfer_ep *ep, const struct wire_msg *msg, uint64_t epoch)
{
	struct proto_ep *state = ep->proto;
	struct {
		uint64_t ep, process, port, epoch;
		uint8_t name[WIRE_NAME_MAX];
	} text = {.process = msg->process, .port = msg->port, .epoch = epoch};

	xfer_assert_locked(ep->xfer);
	/* another endpoint may have had its address before */
	if (!state->secret)
		state->secret = xfer_token_new(ep->xfer);
	text.ep = state->secret;
	memcpy(text.name, msg->name, msg->name_len);
	return siphash(&ep->xfer->secret, &text, sizeof text) | 1;
}

void hello_token_say(const struct xfer_peer *peer, uint64_t grant, uint64_t token,
		     struct xfer_channel *via, fi_addr_t to)
{
	const struct xfer_ep *ep = peer->ep;
	const struct wire_msg msg = {
		.type = WIRE_HELLO,
		.grant = grant,
		.token = token,
		.epoch = peer->epoch,
		.key = ep->xfer->ipc.host,
		.process = ep->xfer->ipc.process,
		.port = keepalive_port(ep->proto->keepalive),
		.oldest = WIRE_VERSION_OLDEST,
		.newest = WIRE_VERSION,
		.name = ep->front.name,
		.name_len = ep->front.name_len,
	};

	xfer_assert_locked(ep->xfer);
	/* once at a time */
	if (!ctrl_unsent(via, to))
		ctrl_answer(via, to, &msg, HELLO_TOKEN_TIME);
}

void hello_token_say_again(const struct xfer_peer *peer)
{
	xfer_assert_locked(peer->ep->xfer);
	if (peer->epoch && !peer->open && !xfer_peer_one_way(peer))
		hello_token_say(peer, 0, peer->theirs.token, &peer->ep->front, peer->addr);
}

/* Those that something is under way with are looked through: some may have no address any more */
static struct xfer_peer *hello_token_giver(struct xfer_ep *ep, const struct wire_msg *msg)
{
	struct xfer_peer *peer;

	LIST_FOREACH(peer, &ep->xfer->busy_peers, busy) {
		if (peer->ep == ep && xfer_peer_reset(peer, msg->grant))
			return peer;
	}
	peer = xfer_peer_named(ep, msg->name, msg->name_len);
	return peer && xfer_peer_reset(peer, msg->grant) ? peer : NULL;
}

void hello_token_reset(struct xfer_ep *ep, const struct wire_msg *msg)
{
	struct xfer_peer *peer;

	xfer_assert_locked(ep->xfer);
	peer = hello_token_giver(ep, msg);
	if (peer)
		xfer_peer_lose(peer, -FI_ECONNRESET);
}
