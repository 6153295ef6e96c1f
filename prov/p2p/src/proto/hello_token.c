/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Tokens of greetings. See hello_token.h. */
#include "proto/hello_token.h"

#include <string.h>
#include <rdma/fi_errno.h>

#include "base/siphash.h"
#include "proto/proto_state.h"
#include "xfer/ctrl.h"
#include "xfer/loss.h"

/* How often peers were lost when a token was made is in its last bits, modulo this power of two */
#define HELLO_AGES UINT64_C(64)

/* For so long a peer is told of its lost token where the core has no room, as it may be dead [ms] */
#define HELLO_TOKEN_TIME 5000

/* ---- those of answers ---- */

static uint64_t hello_token_aged(const struct xfer_ep *ep, const struct wire_msg *msg,
				 uint64_t age)
{
	struct proto_ep *state = ep->proto;
	struct {
		uint64_t ep, grant, age;
		uint8_t name[WIRE_NAME_MAX];
	} text = {.grant = msg->grant};

	/* another endpoint may have had its address before */
	if (!state->secret)
		state->secret = xfer_token_new(ep->xfer);
	age %= HELLO_AGES;
	text.ep = state->secret;
	text.age = age;
	memcpy(text.name, msg->name, msg->name_len);
	/* not 0, whatever the age */
	return ((siphash(&ep->xfer->secret, &text, sizeof text) | HELLO_AGES) &
		~(HELLO_AGES - 1)) |
	       age;
}

uint64_t hello_token_make(struct xfer_ep *ep, const struct wire_msg *msg, uint64_t *dead)
{
	struct xfer_peer *peer = NULL;
	fi_addr_t addr;

	xfer_assert_locked(ep->xfer);
	if (!ep->resolve(ep, msg->name, msg->name_len, false, &addr))
		peer = xfer_peer_find(ep, addr);
	/* a datagram may have said that we are lost there. If that is seen later, this token is refused in the end */
	if (peer && peer->open && xfer_peer_buried(peer))
		xfer_peer_lose(peer, -FI_ECONNRESET);
	*dead = peer ? peer->dead : 0;
	return hello_token_aged(ep, msg, peer ? peer->losses : 0);
}

bool hello_token_ours(const struct xfer_ep *ep, const struct wire_msg *msg)
{
	xfer_assert_locked(ep->xfer);
	return msg->token == hello_token_aged(ep, msg, msg->token);
}

/* Who has been removed since, and inserted again, has a record that was never lost */
bool hello_token_outdated(const struct xfer_peer *peer, uint64_t token)
{
	const unsigned int since = (peer->losses - (unsigned int) token) % HELLO_AGES;

	xfer_assert_locked(peer->ep->xfer);
	return since && since <= peer->losses && xfer_peer_of(peer->ep, token) != peer;
}

/* ---- those that are lost ---- */

/*
 * By the way from @via to @to, once at a time. @grant: the lost token that it bears, or 0; @dead: one that it has given, or
 * 0
 */
static void hello_token_say(const struct xfer_peer *peer, uint64_t grant, uint64_t dead,
			    struct xfer_ep *via, fi_addr_t to)
{
	const struct xfer_ep *ep = peer->ep;
	const struct wire_msg msg = {
		.type = WIRE_HELLO,
		.grant = grant,
		.token = dead,
		.dead = dead,
		.key = ep->xfer->ipc.host,
		.process = ep->xfer->ipc.process,
		.oldest = WIRE_VERSION_OLDEST,
		.newest = WIRE_VERSION,
		.name = ep->name,
		.name_len = ep->name_len,
	};

	if (!ctrl_unsent(via, to))
		ctrl_answer(via, to, &msg, HELLO_TOKEN_TIME);
}

void hello_token_tell(const struct xfer_token *token)
{
	const struct xfer_peer *peer = token->peer;

	xfer_assert_locked(peer->ep->xfer);
	hello_token_say(peer, token->token, 0, peer->via, peer->to);
}

void hello_token_bury(const struct xfer_peer *peer)
{
	xfer_assert_locked(peer->ep->xfer);
	if (peer->dead && !xfer_peer_one_way(peer))
		hello_token_say(peer, 0, peer->dead, peer->ep, peer->addr);
}

void hello_token_refuse(struct xfer_peer *peer, uint64_t token)
{
	xfer_assert_locked(peer->ep->xfer);
	if (!xfer_peer_admit_lost(peer, token))
		hello_token_tell(xfer_token_find(peer->ep, token));
}

/* Those that something is under way with are looked through: some may have no address any more */
static struct xfer_peer *hello_token_giver(struct xfer_ep *ep, const struct wire_msg *msg)
{
	struct xfer_peer *peer;
	fi_addr_t addr;

	LIST_FOREACH(peer, &ep->xfer->busy_peers, busy) {
		if (peer->ep == ep && xfer_peer_gave(peer, msg->grant))
			return peer;
	}
	if (ep->resolve(ep, msg->name, msg->name_len, false, &addr))
		return NULL;
	peer = xfer_peer_find(ep, addr);
	return peer && xfer_peer_gave(peer, msg->grant) ? peer : NULL;
}

void hello_token_reset(struct xfer_ep *ep, const struct wire_msg *msg)
{
	struct xfer_peer *peer;

	xfer_assert_locked(ep->xfer);
	peer = hello_token_giver(ep, msg);
	if (peer)
		xfer_peer_lose(peer, -FI_ECONNRESET);
}
