/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Rank 4: what is known of peers. See peer.h. */
#include "peer.h"

#include <stdlib.h>
#include <string.h>

#include "ctrl.h"
#include "log.h"

/* Addresses beyond are no indices: nothing is known of them */
#define PEER_MAX (1u << 20)

/* Receives that are looked after though there may be no need */
#define PEER_TRIAL 1024

/* @PEER_PLAIN: short messages are staged; @PEER_REFUSES: all that is not announced anyway */
enum peer_state {
	PEER_UNKNOWN,
	PEER_ASKED,
	PEER_FOLLOWS,
	PEER_PLAIN,
	PEER_REFUSES
};

/* NULL: there is no room to remember anything of it */
static uint8_t *peer_state(struct xfer_ep *ep, fi_addr_t addr)
{
	size_t count = P2P_MAX(ep->peer_count, 64);
	uint8_t *peers;

	if (addr >= PEER_MAX)
		return NULL;
	if (addr < ep->peer_count)
		return &ep->peers[addr];
	while (count <= addr)
		count *= 2;
	peers = realloc(ep->peers, count);
	if (!peers)
		return NULL;
	memset(peers + ep->peer_count, PEER_UNKNOWN, count - ep->peer_count);
	ep->peers = peers;
	ep->peer_count = count;
	return &peers[addr];
}

/*
 * Only where a message takes less time than a copy through the host are short ones worth it.
 */
void peer_start(struct xfer_ep *ep)
{
	const struct path_query query = {.len = 1, .wish = ep->wish};
	const char *why;

	if (!ep->near || !dev_ipc_present() || !path_wants_across(&query, &why))
		return;
	/* where that is so anyway it costs nothing */
	ep->follows = ep->followed & FI_RECV;
	ep->followed |= FI_RECV;
	ep->trial = ep->follows ? 0 : PEER_TRIAL;
}

void peer_trial(struct xfer_ep *ep, bool device)
{
	if (!ep->trial)
		return;
	if (device) {
		ep->trial = 0;
		ep->follows = true;
	} else if (!--ep->trial) {
		P2P_DBG("no device memory so far: receives are not followed up any more\n");
		__atomic_store_n(&ep->followed, ep->followed & ~FI_RECV, __ATOMIC_RELAXED);
		ctrl_stop(ep);
	}
}

static void peer_hello_send(struct xfer_ep *ep, fi_addr_t addr, bool ask)
{
	struct wire_msg msg = {
		.type = WIRE_HELLO,
		.flags = (ask ? WIRE_ASKS : 0) | (ep->follows ? WIRE_FOLLOWS : 0),
		.key = ep->xfer->ipc.host,
		.name_len = ep->name_len,
	};

	memcpy(msg.name, ep->name, ep->name_len);
	ctrl_send(ep, addr, &msg);
}

void peer_query(struct xfer_ep *ep, fi_addr_t addr, struct path_query *query)
{
	struct path_query hoped = *query;
	uint8_t *state = ep->near ? peer_state(ep, addr) : NULL;
	const char *why;

	if (!state)
		return;
	hoped.follows = true;
	if (*state == PEER_UNKNOWN && query->len <= query->plain_max &&
	    path_wants_across(&hoped, &why)) {
		*state = PEER_ASKED;
		peer_hello_send(ep, addr, true);
	}
	query->follows = *state == PEER_FOLLOWS;
	query->refuses = *state == PEER_REFUSES;
}

void peer_hello(struct xfer_ep *ep, const struct wire_msg *msg)
{
	uint8_t *state;
	fi_addr_t addr;

	if (ep->resolve(ep, msg->name, msg->name_len, &addr))
		return;
	if (msg->flags & WIRE_ASKS) {
		peer_trial(ep, true);
		peer_hello_send(ep, addr, false);
	}
	state = peer_state(ep, addr);
	if (!state || *state > PEER_ASKED)
		return;
	*state = msg->flags & WIRE_FOLLOWS && msg->key == ep->xfer->ipc.host ? PEER_FOLLOWS
									       : PEER_PLAIN;
	P2P_DBG("peer %zu %s short messages\n", (size_t) addr,
		*state == PEER_FOLLOWS ? "may be offered" : "is sent copies of");
}

void peer_declined(struct xfer_ep *ep, fi_addr_t addr, size_t len, enum path_far far, bool plain)
{
	uint8_t *state = ep->near ? peer_state(ep, addr) : NULL;

	if (!state)
		return;
	if (far == PATH_FAR_HOST || far == PATH_FAR_WISH || far == PATH_FAR_CLOSED)
		*state = PEER_REFUSES;
	else if (plain && len <= WIRE_PLAIN_MAX)
		*state = PEER_PLAIN;
}

void peer_forget(struct xfer *xfer, fi_addr_t addr)
{
	struct xfer_ep *ep;

	LIST_FOREACH(ep, &xfer->eps, entry) {
		if (addr < ep->peer_count)
			ep->peers[addr] = PEER_UNKNOWN;
	}
}
