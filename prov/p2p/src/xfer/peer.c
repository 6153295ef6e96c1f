/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Records of peers. See peer.h. */
#include "xfer/peer.h"

#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>

#include "base/log.h"
#include "base/siphash.h"
#include "xfer/keepalive.h"

struct xfer_peer *xfer_peer_find(const struct xfer_ep *ep, fi_addr_t addr)
{
	struct xfer_peer *peer;

	xfer_assert_locked(ep->xfer);
	HASH_FIND(hh, ep->peers, &addr, sizeof addr, peer);
	return peer;
}

struct xfer_token *xfer_token_find(const struct xfer_ep *ep, uint64_t token)
{
	struct xfer_token *found;

	xfer_assert_locked(ep->xfer);
	HASH_FIND(hh, ep->tokens, &token, sizeof token, found);
	return found;
}

void xfer_token_count(struct xfer_token *token, const struct wire_msg *msg)
{
	xfer_assert_locked(token->peer->ep->xfer);
	token->heard[msg->front] += wire_counts(msg);
	/* a peer that answers a question may not know of the epoch yet */
	if (msg->type != WIRE_HELLO || !(msg->flags & WIRE_ANSWERS))
		token->spoke |= !msg->front || xfer_peer_one_way(token->peer);
}

uint32_t xfer_peer_missing(const struct wire_msg *msg)
{
	const struct xfer_token *token = xfer_token_find(msg->peer->ep, msg->token);
	int32_t front = 0, side = 0;

	xfer_assert_locked(msg->peer->ep->xfer);
	if (token && msg->flags & WIRE_COUNTS_FRONT)
		front = (int32_t) (msg->transfer - token->heard[true]);
	if (token && msg->flags & WIRE_COUNTS_SIDE)
		side = (int32_t) (msg->count - token->heard[false]);
	/* a peer that counts too few harms nobody */
	return (uint32_t) P2P_MAX(front, 0) + (uint32_t) P2P_MAX(side, 0);
}

bool xfer_peer_spoke(const struct xfer_peer *peer)
{
	const struct xfer_token *token = xfer_peer_token(peer);

	xfer_assert_locked(peer->ep->xfer);
	return !token->lost && token->spoke;
}

void xfer_peer_expire(struct xfer_peer *peer)
{
	xfer_assert_locked(peer->ep->xfer);
	peer->tokens[peer->current].lost = true;
	peer->open = false;
	peer->epoch++;
	/* what was said with that token of its does not hold any more */
	keepalive_reset(peer->life.keepalive, peer->theirs.token);
}

static void xfer_peer_dismiss(struct xfer_peer *peer, unsigned int index)
{
	struct xfer_token *token = &peer->tokens[index];

	if (token->token)
		HASH_DELETE(hh, peer->ep->tokens, token);
	*token = (struct xfer_token){.token = 0};
}

static int xfer_peer_set_token(struct xfer_peer *peer, unsigned int index, struct xfer_token is)
{
	struct xfer_token *token = &peer->tokens[index];

	xfer_peer_dismiss(peer, index);
	*token = is;
	token->peer = peer;
	HASH_ADD(hh, peer->ep->tokens, token, sizeof token->token, token);
	if (token->hh.tbl)
		return 0;
	token->token = 0;
	return -FI_ENOMEM;
}

int xfer_peer_admit(struct xfer_peer *peer, uint64_t value)
{
	const struct xfer_token *before = xfer_peer_token(peer);
	struct xfer_token *given = xfer_token_find(peer->ep, value);

	xfer_assert_locked(peer->ep->xfer);
	if (before->token == value)
		return 0;
	/* it may have another address here, too */
	if (given)
		xfer_peer_dismiss(given->peer, (unsigned int) (given - given->peer->tokens));
	/* a lost one stays where it is: its bearer is to be told so, also where there is no memory for another one */
	if (before->lost)
		peer->current = !peer->current;
	return xfer_peer_set_token(peer, peer->current, (struct xfer_token){.token = value});
}

int xfer_peer_admit_lost(struct xfer_peer *peer, uint64_t value)
{
	const struct xfer_token token = {.token = value, .lost = true};

	xfer_assert_locked(peer->ep->xfer);
	return xfer_peer_set_token(peer, !peer->current, token);
}

uint64_t xfer_token_new(struct xfer *xfer)
{
	const uint64_t count = ++xfer->made;

	xfer_assert_locked(xfer);
	return siphash(&xfer->secret, &count, sizeof count) | 1;
}

/* It has an address again, or is forgotten for good */
static void xfer_past_end(struct xfer_peer *peer)
{
	TAILQ_REMOVE(&peer->ep->pasts, peer, past);
	free(peer->name);
	peer->name = NULL;
}

static void xfer_peer_free(struct xfer_peer *peer)
{
	if (peer->name)
		xfer_past_end(peer);
	for (unsigned int i = 0; i < XFER_PEER_TOKENS; i++)
		xfer_peer_dismiss(peer, i);
	keepalive_close(peer->life.keepalive);
	if (peer->users)
		LIST_REMOVE(peer, busy);
	free(peer->lanes);
	free(peer);
}

void xfer_peer_hold(struct xfer_peer *peer)
{
	xfer_assert_locked(peer->ep->xfer);
	if (peer->users++)
		return;
	/* as long as nothing was under way, it had nothing to say */
	xfer_peer_heard(peer, true);
	LIST_INSERT_HEAD(&peer->ep->xfer->busy_peers, peer, busy);
}

void xfer_peer_put(struct xfer_peer *peer)
{
	xfer_assert_locked(peer->ep->xfer);
	if (!--peer->users)
		LIST_REMOVE(peer, busy);
}

/* The oldest are forgotten for good, as far as nothing is under way with them. The newest comes first */
static void xfer_pasts_trim(struct xfer_ep *ep)
{
	struct xfer_peer *peer, *next;
	unsigned int count = 0;

	for (peer = TAILQ_FIRST(&ep->pasts); peer; peer = next) {
		next = TAILQ_NEXT(peer, past);
		if (!peer->users && ++count > XFER_PASTS)
			xfer_peer_free(peer);
	}
}

static struct xfer_peer *xfer_past_find(const struct xfer_ep *ep, const void *name, size_t len)
{
	struct xfer_peer *peer;

	TAILQ_FOREACH(peer, &ep->pasts, past) {
		if (peer->name_len == len && !memcmp(peer->name, name, len))
			return peer;
	}
	return NULL;
}

/* False: there is no memory for its name, or it has none */
static bool xfer_peer_remember(struct xfer_peer *peer)
{
	struct xfer_ep *ep = peer->ep;

	peer->name_len = WIRE_NAME_MAX;
	peer->name = calloc(1, peer->name_len);
	if (!peer->name ||
	    ep->front.ops->lookup(&ep->front, peer->addr, peer->name, &peer->name_len)) {
		free(peer->name);
		peer->name = NULL;
		return false;
	}
	TAILQ_INSERT_HEAD(&ep->pasts, peer, past);
	return true;
}

bool xfer_peer_forget(struct xfer_ep *ep, fi_addr_t addr)
{
	struct xfer_peer *peer = xfer_peer_find(ep, addr);
	/* one that was lost may not know that yet */
	const bool heard = peer && (peer->open || peer->epoch || peer->users);
	bool used;

	xfer_assert_locked(ep->xfer);
	if (!peer)
		return false;
	/* then it stays as it is */
	if (heard && !xfer_peer_remember(peer))
		return true;
	used = peer->users;
	HASH_DEL(ep->peers, peer);
	if (!heard)
		xfer_peer_free(peer);
	xfer_pasts_trim(ep);
	return used;
}

/* It has an address again. 0 or -FI_ENOMEM */
static int xfer_past_return(struct xfer_peer *peer, fi_addr_t addr)
{
	if (xfer_peer_one_way(peer))
		peer->to = addr;
	peer->addr = addr;
	/* there was no memory for its name as it was removed last */
	if (xfer_peer_find(peer->ep, addr))
		return 0;
	HASH_ADD(hh, peer->ep->peers, addr, sizeof addr, peer);
	if (!peer->hh.tbl)
		return -FI_ENOMEM;
	xfer_past_end(peer);
	return 0;
}

int xfer_peer_recall(struct xfer_peer *peer)
{
	struct xfer_ep *ep = peer->ep;
	fi_addr_t addr;
	int ret;

	xfer_assert_locked(ep->xfer);
	if (!peer->name)
		return 0;
	ret = ep->front.ops->resolve(&ep->front, peer->name, peer->name_len, true, &addr);
	return ret ? ret : xfer_past_return(peer, addr);
}

void xfer_peer_recall_owner(struct xfer_ep *ep, uint64_t owner)
{
	struct xfer_peer *peer, *next;

	xfer_assert_locked(ep->xfer);
	for (peer = TAILQ_FIRST(&ep->pasts); peer; peer = next) {
		next = TAILQ_NEXT(peer, past);
		if (peer->owner == owner)
			xfer_peer_recall(peer);
	}
}

/*
 * The application has inserted it again: it may be another process. So it is greeted as one that nothing is known of,
 * while what is under way with it goes on. NULL: there is no memory
 */
static struct xfer_peer *xfer_past_insert(struct xfer_peer *peer, fi_addr_t addr)
{
	if (xfer_past_return(peer, addr))
		return NULL;
	peer->state = XFER_PEER_NEW;
	peer->facts = 0;
	peer->lost = 0;
	return peer;
}

/* The one of that address that was removed, or NULL */
static struct xfer_peer *xfer_past_at(struct xfer_ep *ep, fi_addr_t addr)
{
	uint8_t name[WIRE_NAME_MAX] = {0};
	size_t len = sizeof name;

	if (TAILQ_EMPTY(&ep->pasts) || ep->front.ops->lookup(&ep->front, addr, name, &len))
		return NULL;
	return xfer_past_find(ep, name, len);
}

struct xfer_peer *xfer_peer_named(struct xfer_ep *ep, const void *name, size_t len)
{
	struct xfer_peer *past = xfer_past_find(ep, name, len);
	fi_addr_t addr;

	xfer_assert_locked(ep->xfer);
	if (past)
		return past;
	return ep->front.ops->resolve(&ep->front, name, len, false, &addr)
		       ? NULL
		       : xfer_peer_find(ep, addr);
}

struct xfer_peer *xfer_peer_get(struct xfer_ep *ep, fi_addr_t addr)
{
	struct xfer_peer *peer = xfer_peer_find(ep, addr);
	struct xfer_peer *past = peer ? NULL : xfer_past_at(ep, addr);

	xfer_assert_locked(ep->xfer);
	if (peer || past)
		return peer ? peer : xfer_past_insert(past, addr);
	peer = calloc(1, sizeof *peer);
	if (!peer)
		return NULL;
	peer->ep = ep;
	peer->via = &ep->front;
	peer->addr = peer->to = addr;
	HASH_ADD(hh, ep->peers, addr, sizeof addr, peer);
	if (!peer->hh.tbl) {
		free(peer);
		return NULL;
	}
	return peer;
}

void xfer_peer_say_silent(struct xfer_peer *peer, uint64_t ms)
{
	char text[256];

	xfer_assert_locked(peer->ep->xfer);
	if (ms < XFER_SILENCE || peer->life.told)
		return;
	peer->life.told = true;
	peer->ep->front.ops->print(&peer->ep->front, peer->addr, text, sizeof text);
	P2P_WARN(
		"%s has given no sign of life, or is not reached, for %u s: what is under way with "
		"it waits, unless FI_P2P_PEER_TIMEOUT is set\n",
		text, XFER_SILENCE / 1000);
}

void xfer_peers_free(struct xfer_ep *ep)
{
	struct xfer_peer *peer, *next;

	xfer_assert_locked(ep->xfer);
	while (!TAILQ_EMPTY(&ep->pasts))
		xfer_peer_free(TAILQ_FIRST(&ep->pasts));
	HASH_ITER(hh, ep->peers, peer, next) {
		HASH_DEL(ep->peers, peer);
		xfer_peer_free(peer);
	}
}
