/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The states of requests. See req_state.h. */
#include "xfer/req_state.h"

#include <assert.h>

#include "base/log.h"
#include "base/trace.h"
#include "xfer/ep_state.h"
#include "xfer/peer.h"

/* The lists that a state may mean. A list of the domain's is the state's own (struct xfer.in). */
enum xfer_list_kind { XFER_LIST_NONE, XFER_LIST_SENDQ, XFER_LIST_DOMAIN };

#define S(state) (1u << XFER_##state)
#define M(type) (1u << WIRE_##type)

/**
 * struct xfer_state_row - one state.
 * @next:	those that may follow; XFER_ENDED may at any time
 * @list:	the list that it is on
 * @found:	the peer's answers find it by its id; not what is ENDING and receives
 * @ready:	in ep.sendq: it may be sent
 * @fits, @late: control messages about it: see enum xfer_fit; all others are wrong
 */
static const struct xfer_state_row {
	const char *name;
	uint32_t next;
	enum xfer_list_kind list;
	bool found;
	bool ready;
	uint32_t fits;
	uint32_t late;
} xfer_states[XFER_STATES] = {
	[XFER_CORE] =
		{
			.name = "with the core",
			.next = S(COPYING) | S(CLAIMED) | S(GREETING) | S(STAGING) | S(READY) |
				S(MARKING) | S(ANNOUNCED) | S(ASKING) | S(MATCHED) | S(MOVING),
		},
	[XFER_COPYING] =
		{
			.name = "copying",
			.next = S(CORE) | S(ANNOUNCED) | S(ASKING),
		},
	[XFER_CLAIMED] =
		{
			.name = "claimed",
			.next = S(CORE),
			.list = XFER_LIST_DOMAIN,
		},
	[XFER_MOVING] =
		{
			.name = "moving",
			.next = S(TELLING) | S(ENDING),
			.list = XFER_LIST_DOMAIN,
			.fits = M(DONE),
		},
	[XFER_ENDED] = {.name = "ended"},
	[XFER_GREETING] =
		{
			.name = "greeting",
			.next = S(STAGING) | S(READY) | S(MARKING),
			.list = XFER_LIST_SENDQ,
		},
	[XFER_STAGING] =
		{
			.name = "staging",
			.next = S(GREETING) | S(READY) | S(MARKING),
			.list = XFER_LIST_SENDQ,
		},
	[XFER_READY] =
		{
			.name = "ready",
			.next = S(CORE),
			.list = XFER_LIST_SENDQ,
			.ready = true,
		},
	/* a marker that has not been sent can have matched nothing */
	[XFER_MARKING] =
		{
			.name = "marking",
			.next = S(ANNOUNCED),
			.list = XFER_LIST_SENDQ,
			.found = true,
			.ready = true,
			.fits = M(DONE),
		},
	[XFER_ANNOUNCED] =
		{
			.name = "announced",
			.next = S(PUSHING) | S(ENDING),
			.found = true,
			.fits = M(TAKE) | M(DONE),
		},
	[XFER_PUSHING] =
		{
			.name = "pushing",
			.next = S(STAGING) | S(READY) | S(ENDING),
			.list = XFER_LIST_DOMAIN,
			.found = true,
			.fits = M(TAKE) | M(DONE),
		},
	/* ANNOUNCE answers a long read alone (rma_serving.c) */
	[XFER_ASKING] =
		{
			.name = "asking the owner",
			.next = S(ENDING) | S(MATCHED),
			.found = true,
			.fits = M(DONE) | M(ANNOUNCE),
		},
	[XFER_MATCHED] =
		{
			.name = "matched",
			.next = S(CLAIMED) | S(PULLING) | S(MOVING) | S(TELLING) | S(ENDING),
			.fits = M(DONE),
		},
	[XFER_PULLING] =
		{
			.name = "pulling",
			.next = S(TELLING) | S(ENDING),
			.list = XFER_LIST_DOMAIN,
			.fits = M(DONE),
		},
	[XFER_TELLING] =
		{
			.name = "telling",
			.list = XFER_LIST_DOMAIN,
			.late = M(DONE),
		},
	/*
	 * The core may keep what it has for as long as a receiver does nothing. A receiver's sender has heard of it, and says
	 * that no piece will come any more.
	 */
	[XFER_ENDING] =
		{
			.name = "ending",
			.found = true,
			.fits = M(DONE),
			.late = M(TAKE),
		},
};

#undef S
#undef M

const char *xfer_state_name(enum xfer_state state)
{
	return xfer_states[state].name;
}

bool xfer_state_follows(enum xfer_state state, enum xfer_state next)
{
	return next == XFER_ENDED || xfer_states[state].next & 1u << next;
}

enum xfer_fit xfer_state_fit(enum xfer_state state, enum wire_type type)
{
	if (xfer_states[state].fits & 1u << type)
		return XFER_FITS;
	return xfer_states[state].late & 1u << type ? XFER_LATE : XFER_WRONG;
}

/* Returns the list that requests of a state are on, or NULL. */
static struct xfer_list *xfer_state_list(const struct xfer_req *req, enum xfer_state state)
{
	switch (xfer_states[state].list) {
	case XFER_LIST_SENDQ:
		return &req->ctx.ep->sendq;
	case XFER_LIST_DOMAIN:
		return &req->ctx.ep->xfer->in[state];
	default:
		return NULL;
	}
}

/* Puts a request last on its state's list. */
static void xfer_list_add(struct xfer_req *req, struct xfer_list *list)
{
	struct xfer_ep *ep = req->ctx.ep;

	TAILQ_INSERT_TAIL(list, req, entry);
	if (list == &ep->sendq) {
		__atomic_store_n(&ep->waiting, ep->waiting + 1, __ATOMIC_RELAXED);
		xfer_ep_limit(ep);
		wait_wake_mover(&ep->xfer->wait);
	}
}

/* Takes a request off its state's list. */
static void xfer_list_remove(struct xfer_req *req, struct xfer_list *list)
{
	struct xfer_ep *ep = req->ctx.ep;

	if (list == &ep->sendq && ep->resumes == req)
		ep->resumes = TAILQ_NEXT(req, entry);
	TAILQ_REMOVE(list, req, entry);
	if (list == &ep->sendq) {
		__atomic_store_n(&ep->waiting, ep->waiting - 1, __ATOMIC_RELAXED);
		xfer_ep_limit(ep);
	}
}

void xfer_transfer_recall(struct xfer_req *req)
{
	struct xfer *xfer = req->ctx.ep->xfer;

	xfer_assert_locked(xfer);
	board_take_down(&xfer->notes.board, req->transfer.id);
	board_take_down(&xfer->notes.board, req->transfer.id | WIRE_MARK);
	ipc_own_fall(&req->transfer.own);
}

/* Makes a request one that is found by its id, as its peer will answer to that */
static void xfer_chain_add(struct xfer_req *req)
{
	struct xfer *xfer = req->ctx.ep->xfer;

	LIST_INSERT_HEAD(xfer_chain(xfer->sending, req->transfer.id), req, transfer.chain);
	xfer_open_add(xfer, 1);
	req->peer->sends += !req->served;
}

/* Ends the search for a request by its id, and withdraws what was announced. */
static void xfer_chain_remove(struct xfer_req *req)
{
	struct xfer *xfer = req->ctx.ep->xfer;

	LIST_REMOVE(req, transfer.chain);
	xfer_open_add(xfer, -1);
	req->peer->sends -= !req->served;
	xfer_transfer_recall(req);
}

/* Would answers find the request by its id, in that state? */
static bool xfer_state_found(const struct xfer_req *req, enum xfer_state state)
{
	return xfer_states[state].found && !(state == XFER_ENDING && req->recv);
}

void xfer_req_move(struct xfer_req *req, enum xfer_state state)
{
	const struct xfer_state_row *from = &xfer_states[req->state], *to = &xfer_states[state];
	struct xfer_list *before = xfer_state_list(req, req->state);
	struct xfer_list *after = xfer_state_list(req, state);
	bool found = xfer_state_found(req, req->state), finds = xfer_state_found(req, state);

	xfer_assert_locked(req->ctx.ep->xfer);
	assert(xfer_state_follows(req->state, state));
	P2P_TRACE(req_move, req, from->name, to->name);
	if (before && before != after)
		xfer_list_remove(req, before);
	if (after && before != after)
		xfer_list_add(req, after);
	req->ctx.ep->ready += to->ready - from->ready;
	if (found && !finds)
		xfer_chain_remove(req);
	if (finds && !found)
		xfer_chain_add(req);
	req->state = state;
}

void xfer_req_each(struct xfer *xfer, enum xfer_state state, void (*step)(struct xfer_req *req))
{
	struct xfer_req *req, *next;

	xfer_assert_locked(xfer);
	for (req = TAILQ_FIRST(&xfer->in[state]); req; req = next) {
		next = TAILQ_NEXT(req, entry);
		step(req);
	}
}

void xfer_message_wrong(struct xfer *xfer, enum wire_type type, const char *where)
{
	xfer_assert_locked(xfer);
	if (!xfer->wrong++)
		P2P_WARN("a peer sends %s about what is %s here: such messages are dropped\n",
			 wire_type_name(type), where);
}

bool xfer_req_fits(struct xfer_req *req, enum wire_type type)
{
	enum xfer_fit fit = xfer_state_fit(req->state, type);

	xfer_assert_locked(req->ctx.ep->xfer);
	if (fit == XFER_WRONG)
		xfer_message_wrong(req->ctx.ep->xfer, type, xfer_state_name(req->state));
	return fit == XFER_FITS;
}

/* ---- transfers ---- */

void xfer_transfer_init(struct xfer_req *req)
{
	xfer_assert_locked(req->ctx.ep->xfer);
	req->transfer = (struct xfer_transfer){
		.via = &req->ctx.ep->front,
		.to = req->addr,
	};
}

void xfer_req_meet(struct xfer_req *req, struct xfer_peer *peer)
{
	xfer_assert_locked(req->ctx.ep->xfer);
	if (req->peer != peer) {
		xfer_peer_hold(peer);
		if (req->peer)
			xfer_peer_put(req->peer);
	}
	req->peer = peer;
	req->transfer.via = peer->via;
	req->transfer.to = peer->to;
}

struct xfer_req *xfer_req_find(const struct xfer *xfer, uint64_t id)
{
	struct xfer_req *req;

	xfer_assert_locked(xfer);
	LIST_FOREACH(req, xfer_chain(xfer->sending, id), transfer.chain) {
		if (req->transfer.id == id)
			return req;
	}
	return NULL;
}

/*
 * Unique here by its lower bits, among processes by the upper ones. One that is over comes again after
 * four thousand million others: a peer may not have heard of its end yet. Its note has a place, if there is one for any.
 */
uint64_t xfer_id_new(struct xfer *xfer)
{
	struct board *board = &xfer->notes.board;
	uint64_t id;

	xfer_assert_locked(xfer);
	do
		id = xfer->id_base | siphash_permute(&xfer->secret, (uint32_t) ++xfer->made);
	while (xfer_req_find(xfer, id) ||
	       (board_taken(board, id) && board_room(board, xfer->id_base)));
	return id;
}
