/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What is known of peers, and how they tell it. See hello.h.
 *
 *	sender                                                           receiver
 *	first short message  --- HELLO(host, name, asks) -------------->
 *	                     <----------- HELLO(host, name, follows) --- follows up all receives
 *	short messages       --- ANNOUNCE(id, length, offer), marker --> ACROSS
 *
 *	first offer          --- HELLO(host, name, board) -------------> maps the board
 *	                     <------------- HELLO(host, name, reads) ---
 *	all announcements    === note(id, length, ...) ================> reads it
 *
 * One HELLO may ask and tell of the board at once. Until its answer is here, short messages are
 * staged, and long ones announced by messages.
 */
#include "proto/hello.h"

#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>

#include "xfer/ctrl.h"
#include "base/log.h"
#include "proto/proto.h"
#include "proto/proto_state.h"
#include "proto/rndv_match.h"
#include "xfer/ep_state.h"

/* Addresses beyond are no indices: nothing is known of them */
#define HELLO_MAX (1u << 20)

/* Receives that are looked after though there may be no need */
#define HELLO_TRIAL 1024

/* What is known of a peer: */
#define HELLO_ASKED (1u << 0) /* whether it follows up all of its receives */
#define HELLO_KNOWN (1u << 1) /* whether it does; if not, short messages are staged */
#define HELLO_FOLLOWS (1u << 2)
#define HELLO_REFUSES (1u << 3) /* to take what is offered: only what is announced anyway is */
#define HELLO_TOLD (1u << 4)    /* it has been told of our board */
#define HELLO_READS (1u << 5)   /* it reads our board */
#define HELLO_WHOLE (1u << 6)   /* it wants sent what could be lent */

/* NULL: there is no room to remember anything of it */
static uint8_t *hello_facts(struct xfer_ep *ep, fi_addr_t addr)
{
	size_t count = P2P_MAX(ep->proto->peer_count, 64);
	uint8_t *peers;

	if (addr >= HELLO_MAX)
		return NULL;
	if (addr < ep->proto->peer_count)
		return &ep->proto->peers[addr];
	while (count <= addr)
		count *= 2;
	peers = realloc(ep->proto->peers, count);
	if (!peers)
		return NULL;
	memset(peers + ep->proto->peer_count, 0, count - ep->proto->peer_count);
	ep->proto->peers = peers;
	ep->proto->peer_count = count;
	return &peers[addr];
}

/*
 * Only where a message takes less time than a copy through the host are short ones worth it.
 */
void hello_start(struct xfer_ep *ep)
{
	const struct path_query query = {.len = 1, .wish = ep->wish};
	const char *why;

	xfer_assert_locked(ep->xfer);
	if (!ep->near || !dev_ipc_present() || !path_wants_across(&query, &why))
		return;
	/* where that is so anyway it costs nothing */
	ep->follows = ep->followed & FI_RECV;
	ep->followed |= FI_RECV;
	ep->asked = true;
	ep->proto->trial = ep->follows ? 0 : HELLO_TRIAL;
	xfer_ep_limit(ep);
}

void hello_trial(struct xfer_ep *ep, bool device)
{
	xfer_assert_locked(ep->xfer);
	if (!ep->proto->trial)
		return;
	if (device) {
		ep->proto->trial = 0;
		ep->follows = true;
	} else if (!--ep->proto->trial) {
		P2P_DBG("no device memory so far: receives are not followed up any more\n");
		__atomic_store_n(&ep->followed, ep->followed & ~FI_RECV, __ATOMIC_RELAXED);
		xfer_ep_limit(ep);
		ctrl_stop(ep);
	}
}

static void hello_send(struct xfer_ep *ep, fi_addr_t addr, uint32_t flags, uint64_t place)
{
	const struct wire_msg msg = {
		.type = WIRE_HELLO,
		.flags = flags | (ep->follows ? WIRE_FOLLOWS : 0),
		.id = xfer_board_owner(ep->xfer->id_base),
		.key = ep->xfer->ipc.host,
		.addr = place,
		.name = ep->name,
		.name_len = ep->name_len,
	};

	ctrl_send(ep, addr, &msg);
}

/* Greets a peer that something is to be offered to, if there is anything to ask or tell */
static void hello_greet(struct xfer_ep *ep, fi_addr_t addr, uint8_t *facts, bool ask)
{
	uint32_t flags = 0;
	uint64_t place = 0;

	if (ask && !(*facts & (HELLO_ASKED | HELLO_KNOWN))) {
		*facts |= HELLO_ASKED;
		flags |= WIRE_ASKS | WIRE_SAYS;
	}
	if (!(*facts & HELLO_TOLD)) {
		*facts |= HELLO_TOLD;
		place = board_open(&ep->xfer->board, xfer_board_owner(ep->xfer->id_base));
		flags |= place ? WIRE_BOARD : 0;
	}
	if (flags)
		hello_send(ep, addr, flags, place);
}

void hello_query(struct xfer_ep *ep, fi_addr_t addr, struct path_query *query)
{
	struct path_query hoped = *query;
	uint8_t *facts = ep->near ? hello_facts(ep, addr) : NULL;
	const char *why;

	xfer_assert_locked(ep->xfer);
	if (!facts)
		return;
	hoped.follows = true;
	hoped.refuses = *facts & HELLO_REFUSES;
	if (path_wants_across(&hoped, &why))
		hello_greet(ep, addr, facts, query->len <= query->plain_max);
	query->follows = *facts & HELLO_FOLLOWS;
	query->refuses = *facts & HELLO_REFUSES;
}

void hello_remind(struct xfer_ep *ep, fi_addr_t addr)
{
	uint64_t place = board_open(&ep->xfer->board, xfer_board_owner(ep->xfer->id_base));

	xfer_assert_locked(ep->xfer);
	if (place)
		hello_send(ep, addr, WIRE_BOARD, place);
}

bool hello_reads(const struct xfer_ep *ep, fi_addr_t addr)
{
	xfer_assert_locked(ep->xfer);
	return addr < ep->proto->peer_count && ep->proto->peers[addr] & HELLO_READS;
}

/* A peer tells of its board. Can it be read here? */
static bool hello_board(struct xfer_ep *ep, const struct wire_msg *msg)
{
	int ret;

	if (!(msg->flags & WIRE_BOARD) || msg->key != ep->xfer->ipc.host || !ep->near)
		return false;
	ret = board_far_open(&ep->xfer->boards, msg->id, msg->addr);
	if (ret)
		P2P_INFO("the board of another process cannot be read: %s\n",
			 fi_strerror(-ret));
	else
		rndv_board_found(ep, msg->id);
	return !ret;
}

static void hello_received(struct xfer_ep *ep, struct xfer_req *req, const struct wire_msg *msg)
{
	bool near = msg->key == ep->xfer->ipc.host, known;
	uint32_t answer = 0;
	uint8_t *facts;
	fi_addr_t addr;

	if (ep->resolve(ep, msg->name, msg->name_len, &addr))
		return;
	if (msg->flags & WIRE_ASKS) {
		hello_trial(ep, true);
		answer |= WIRE_SAYS;
	}
	if (hello_board(ep, msg))
		answer |= WIRE_READS;
	if (answer)
		hello_send(ep, addr, answer, 0);
	facts = hello_facts(ep, addr);
	if (!facts)
		return;
	known = *facts & HELLO_KNOWN;
	if (msg->flags & WIRE_SAYS && !known)
		*facts |= HELLO_KNOWN | (msg->flags & WIRE_FOLLOWS && near ? HELLO_FOLLOWS : 0);
	/* an answer may be about who had this address before */
	if (msg->flags & WIRE_READS && near && *facts & HELLO_TOLD)
		*facts |= HELLO_READS;
	P2P_DBG("peer %zu %s short messages, announced by %s\n", (size_t) addr,
		*facts & HELLO_FOLLOWS ? "may be offered" : "is sent copies of",
		*facts & HELLO_READS ? "notes" : "messages");
}

void hello_declined(struct xfer_ep *ep, fi_addr_t addr, size_t len, enum path_far far,
		    bool plain)
{
	uint8_t *facts = ep->near ? hello_facts(ep, addr) : NULL;
	bool refuses = far == PATH_FAR_HOST || far == PATH_FAR_WISH || far == PATH_FAR_CLOSED;

	xfer_assert_locked(ep->xfer);
	if (!facts || (!refuses && !(plain && len <= WIRE_PLAIN_MAX)))
		return;
	*facts = (*facts & ~HELLO_FOLLOWS) | HELLO_KNOWN | (refuses ? HELLO_REFUSES : 0);
}

bool hello_borrows(const struct xfer_ep *ep, fi_addr_t addr)
{
	xfer_assert_locked(ep->xfer);
	return addr >= ep->proto->peer_count || !(ep->proto->peers[addr] & HELLO_WHOLE);
}

void hello_borrows_not(struct xfer_ep *ep, fi_addr_t addr)
{
	uint8_t *facts = hello_facts(ep, addr);

	xfer_assert_locked(ep->xfer);
	if (facts)
		*facts |= HELLO_WHOLE;
}

void hello_forget(struct xfer *xfer, fi_addr_t addr)
{
	struct xfer_ep *ep;

	xfer_assert_locked(xfer);
	LIST_FOREACH(ep, &xfer->eps, entry) {
		if (addr < ep->proto->peer_count)
			ep->proto->peers[addr] = 0;
	}
}

const struct xfer_proto hello_proto = {
	.name = "hello",
	.message = {[WIRE_HELLO] = hello_received},
};
