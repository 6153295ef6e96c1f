/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Greetings. See hello.h.
 *
 *	sender                                                           receiver
 *	first long message   --- HELLO(names, asks N) -----------------> remembers nothing
 *	                     <-- HELLO(names, answers N, token B) ------
 *	                     --- HELLO(names, confirms B, token A) ----> knows the sender
 *	all messages         --- ANNOUNCE(B, id, length, ...), ... ---->
 *	                     <---------------------- TAKE(A, id, ...) ---
 *
 *	within a host        --- HELLO(B, board) ----------------------> maps the board
 *	                     <-------------------- HELLO(A, reads) -----
 *	all announcements    === note(B, id, length, ...) =============> reads it
 *
 * Only the endpoint that was sent a number or token can bear it: so N shows that the answer comes from the endpoint that
 * was asked, and token B that the confirmation comes from the endpoint that is named. B is a hash of the sender's name,
 * process and port (hello_token.h). So the receiver need not remember its askers, and a question in another's name
 * has no effect. An answer and a confirmation also tell which endpoint is to hear the rest.
 *
 * A lost peer that is greeted again may live, and not know of its loss. Both ends count losses: each says the
 * higher count that it knows of, which is the epoch that begins. So the confirmation tells the peer, too, that what was
 * under way is over. If the peer speaks first, it is told then.
 *
 * Over cores that stall, question and answer leave from the side endpoint. A foreign peer, which has no receive for the
 * question, would else receive nothing more. But where endpoints shun strangers (QUIRK_DIRECTED) the endpoint itself asks,
 * in so few bytes that the core sets them aside. The answer goes between the side endpoints, if there was room to name one.
 */
#include "proto/hello.h"

#include <stdlib.h>
#include <string.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/log.h"
#include "base/room.h"
#include "proto/hello_facts.h"
#include "proto/hello_token.h"
#include "proto/proto.h"
#include "proto/proto_state.h"
#include "proto/rndv_match.h"
#include "xfer/ctrl.h"
#include "xfer/ep_state.h"
#include "xfer/loss.h"
#include "xfer/req_state.h"
#include "xfer/sendq.h"

/* Receives that are looked after though there may be no need */
#define HELLO_TRIAL 1024

/*
 * Answers to who may not be whom he says he is, at most so many in HELLO_ANSWERS_TIME [ms]: to peers that
 * the application has not inserted, and that have not confirmed yet, as the core connects to whatever
 * name it is given; and to messages of version 7.
 */
#define HELLO_STRANGERS 256
#define HELLO_REFUSALS 4096

/*
 * A question, or its answer, may be lost. So it is asked again when half of FI_P2P_HELLO_TIMEOUT is over, at the
 * earliest HELLO_REPEAT, and each next time after twice as long. Where endpoints shun strangers there is little room for
 * what nobody takes: once, and late; but before FI_P2P_PEER_TIMEOUT is over, and at once if we were away [ms]
 */
#define HELLO_REPEAT 500
#define HELLO_REPEAT_LATE 60000

/* For so long the successor of a process that has ended is looked for; and each time after that, if there was none [ms] */
#define HELLO_DESERTED 3000
#define HELLO_DESERTED_AGAIN 200

/* Only where a message takes less time than a copy through the host are short ones worth it. */
void hello_start(struct xfer_ep *ep)
{
	const struct path_query query = {.len = 1, .policy = ep->policy};
	const char *why;

	xfer_assert_locked(ep->xfer);
	if (!(ep->quirks & QUIRK_NEAR) || !dev_ipc_present() ||
	    !path_wants_across(&query, &why))
		return;
	/* where that is so anyway it costs nothing */
	ep->proto->follows = ep->followed & FI_RECV;
	ep->followed |= FI_RECV;
	ep->proto->trial = ep->proto->follows ? 0 : HELLO_TRIAL;
	xfer_ep_limit(ep);
	ctrl_listen(&ep->front);
}

void hello_trial(struct xfer_ep *ep, bool device)
{
	xfer_assert_locked(ep->xfer);
	if (!ep->proto->trial)
		return;
	if (device) {
		ep->proto->trial = 0;
		ep->proto->follows = true;
	} else if (!--ep->proto->trial) {
		P2P_DBG("no device memory so far: receives are not followed up any more\n");
		__atomic_store_n(&ep->followed, ep->followed & ~FI_RECV, __ATOMIC_RELAXED);
		xfer_ep_limit(ep);
		ctrl_stop(ep);
	}
}

/* It is another one now for who waits for it. */
static void hello_move(struct xfer_peer *peer, enum xfer_peer_state state)
{
	peer->state = state;
	peer->ep->proto->news = true;
}

/* ---- what is said ---- */

/* May a question also name @side? Only those who shun strangers look at that. */
static bool hello_fits(const struct wire_msg *ask, const struct xfer_channel *side)
{
	return side->ep->quirks & QUIRK_DIRECTED &&
	       wire_size(ask) + side->name_len <= WIRE_ASK_MAX;
}

/* Where peers may ask for signs of life; 0: nowhere */
static uint16_t hello_port(struct xfer_ep *ep)
{
	if (!ep->proto->keepalive_tried)
		ep->proto->keepalive = keepalive_listen(ep->xfer->ipc.process, ep->front.name,
							ep->front.name_len);
	ep->proto->keepalive_tried = true;
	return keepalive_port(ep->proto->keepalive);
}

static struct wire_msg hello_msg(struct xfer_ep *ep, uint32_t flags, uint64_t epoch)
{
	const struct xfer_channel *side = xfer_ep_side(ep);
	struct wire_msg msg = {
		.type = WIRE_HELLO,
		.id = ep->xfer->id_base,
		.flags = flags | (ep->proto->follows ? WIRE_FOLLOWS : 0) |
			 (ep->lanes ? WIRE_MAY_LANES : 0) |
			 (ep->xfer->stage.lender ? WIRE_BORROWS : 0),
		.epoch = epoch,
		.key = ep->xfer->ipc.host,
		.data = ep->xfer->ipc.spaces.pid,
		.status = (int32_t) ep->xfer->ipc.spaces.net,
		.process = ep->xfer->ipc.process,
		.port = hello_port(ep),
		.oldest = WIRE_VERSION_OLDEST,
		.newest = WIRE_VERSION,
		.name = ep->front.name,
		.name_len = ep->front.name_len,
	};

	if (side && side != &ep->front && (!(flags & WIRE_ASKS) || hello_fits(&msg, side))) {
		msg.flags |= WIRE_SIDE;
		msg.payload = side->name;
		msg.payload_len = side->name_len;
	}
	return msg;
}

/* Tells a peer of our board, if there can be one now */
static void hello_add_board(struct xfer_peer *peer, struct wire_msg *msg)
{
	msg->addr = board_open(&peer->ep->xfer->notes.board, msg->id);
	if (!msg->addr)
		return;
	msg->flags |= WIRE_BOARD;
	/* it may not be able to map it now */
	retry_failed(&peer->told);
}

/*
 * What it was sent before it was lost may be noted on our board, and is given up there. Its markers may have come to
 * another process of its address, which is to look for their notes.
 */
static bool hello_left_notes(const struct xfer_peer *peer)
{
	const struct xfer *xfer = peer->ep->xfer;

	return peer->epoch && xfer->notes.board.page && peer->host == xfer->ipc.host;
}

/* Says what is to be said besides the three steps. Markers of before may be in the way between the endpoints */
static void hello_tell(struct xfer_peer *peer, uint32_t flags)
{
	struct wire_msg msg = hello_msg(peer->ep, flags & ~WIRE_BOARD, peer->epoch);

	if (flags & WIRE_BOARD)
		hello_add_board(peer, &msg);
	msg.front = true;
	if (msg.flags & (WIRE_BOARD | WIRE_READS))
		ctrl_tell(peer, &msg);
	msg.front = false;
	if (msg.flags & WIRE_BOARD && hello_left_notes(peer) && !xfer_peer_one_way(peer))
		ctrl_tell(peer, &msg);
}

/* Where what the peer's endpoint itself is to hear comes from */
static struct xfer_channel *hello_mouth(struct xfer_ep *ep)
{
	return ep->quirks & QUIRK_DIRECTED ? &ep->front : xfer_ep_side(ep);
}

/* By which channel a HELLO for @peer travels that may find nobody who takes it */
static int hello_door(const struct xfer_peer *peer, struct xfer_channel **via, fi_addr_t *to)
{
	uint8_t name[WIRE_NAME_MAX] = {0};
	size_t len = sizeof name;
	int ret;

	*via = hello_mouth(peer->ep);
	*to = peer->addr;
	if (*via == &peer->ep->front)
		return 0;
	if (!*via)
		return -FI_EOPNOTSUPP;
	/* a connection more, which is the core's sooner than ours */
	ret = room_spare(1);
	if (!ret)
		ret = peer->ep->front.ops->lookup(&peer->ep->front, peer->addr, name, &len);
	return ret ? ret
		   : (*via)->ops->resolve(*via, name, P2P_MIN(len, sizeof name), true, to);
}

/* Asks who it is; in vain for @time at most [ms], 0: as long as it takes */
static int hello_ask(struct xfer_peer *peer, uint64_t time)
{
	struct xfer_channel *via;
	struct wire_msg msg;
	fi_addr_t to;
	int ret;

	ret = hello_door(peer, &via, &to);
	if (ret)
		return ret;
	msg = hello_msg(peer->ep, WIRE_ASKS, peer->epoch);
	msg.grant = xfer_peer_token(peer)->token;
	if (!msg.grant || xfer_peer_token(peer)->lost)
		msg.grant = xfer_token_new(peer->ep->xfer);
	ret = xfer_peer_admit(peer, msg.grant);
	if (!ret)
		ret = time ? ctrl_answer(via, to, &msg, time) : ctrl_send(via, to, &msg, 0);
	/* what a peer that is known hears goes on to go the way that it has named */
	if (ret || peer->open)
		return ret;
	peer->via = via;
	peer->to = to;
	return 0;
}

int hello_greet(struct xfer_peer *peer)
{
	int ret;

	xfer_assert_locked(peer->ep->xfer);
	if (peer->state != XFER_PEER_NEW)
		return 0;
	ret = hello_ask(peer, 0);
	if (ret)
		return ret;
	peer->repeats = 0;
	peer->waited = peer->facts & HELLO_GONE ? HELLO_DESERTED - HELLO_DESERTED_AGAIN : 0;
	peer->looked = clock_coarse_ms();
	peer->life.asked = 0;
	peer->state = XFER_PEER_GREETED;
	return 0;
}

/* ---- what is known ---- */

/* When the last question is due. Nobody looks any more once what waits has failed */
static uint64_t hello_late(void)
{
	return conf.peer_timeout ? P2P_MIN(500 * conf.peer_timeout, HELLO_REPEAT_LATE)
				 : HELLO_REPEAT_LATE;
}

static void hello_ask_again(struct xfer_peer *peer)
{
	uint64_t due = P2P_MAX(500 * conf.hello_timeout, HELLO_REPEAT) << peer->repeats;

	if (peer->ep->quirks & QUIRK_DIRECTED)
		due = peer->repeats ? UINT64_MAX : peer->facts & HELLO_AWAY ? 0 : hello_late();
	if (peer->waited < due || peer->lost || peer->facts & HELLO_OTHER ||
	    xfer_outq_find(peer->via, peer->to))
		return;
	peer->repeats++;
	hello_ask(peer, 0);
}

bool hello_deserted(struct xfer_peer *peer)
{
	xfer_assert_locked(peer->ep->xfer);
	hello_facts_wait(peer);
	if (!(peer->facts & HELLO_LOST))
		return false;
	if (keepalive_signs(peer->life.keepalive).gone)
		return peer->waited >= HELLO_DESERTED;
	/* not more often than it is watched */
	if (peer->waited >= peer->life.asked + HELLO_REPEAT) {
		peer->life.asked = (unsigned int) peer->waited;
		keepalive_ask(peer->life.keepalive);
	}
	return false;
}

void hello_give_up(struct xfer_peer *peer)
{
	xfer_assert_locked(peer->ep->xfer);
	xfer_peer_lose(peer, -FI_ECONNRESET);
	peer->facts |= HELLO_GONE;
}

enum xfer_peer_state hello_state(struct xfer_peer *peer)
{
	xfer_assert_locked(peer->ep->xfer);
	if (peer->state == XFER_PEER_NEW || peer->state == XFER_PEER_KNOWN)
		return peer->state;
	hello_facts_wait(peer);
	hello_ask_again(peer);
	if (peer->state == XFER_PEER_FOREIGN || peer->waited < 1000 * conf.hello_timeout)
		return peer->state;
	/* it cannot have got it, nor anything else, unless only the endpoint beside lacks a connection */
	if ((peer->via == &peer->ep->front || peer->facts & HELLO_LOST) &&
	    xfer_outq_find(peer->via, peer->to)) {
		if (conf_overdue(peer->waited))
			xfer_peer_lose(peer, -FI_ETIMEDOUT);
		else if (hello_deserted(peer))
			hello_give_up(peer);
		else
			xfer_peer_say_silent(peer, peer->waited);
		return peer->state;
	}
	hello_facts_late(peer);
	hello_move(peer, XFER_PEER_FOREIGN);
	return peer->state;
}

/* Returns once why a peer was lost, and forgets that: the next message tries anew. */
static int hello_lost_once(struct xfer_peer *peer)
{
	int status = peer->lost;

	peer->lost = 0;
	if (status)
		hello_move(peer, XFER_PEER_NEW);
	return status;
}

int hello_ready(struct xfer_ep *ep, fi_addr_t addr)
{
	struct xfer_peer *peer = xfer_peer_get(ep, addr);
	int ret = peer ? hello_lost_once(peer) : -FI_ENOMEM;

	xfer_assert_locked(ep->xfer);
	if (!ret)
		ret = hello_greet(peer);
	/* some are free again sooner or later */
	if (ret == -FI_EMFILE)
		return -FI_EAGAIN;
	if (ret)
		return ret;
	switch (hello_state(peer)) {
	case XFER_PEER_KNOWN:
		return peer->sends < XFER_PEER_SENDS ? 0 : -FI_EAGAIN;
	case XFER_PEER_FOREIGN:
		if (!peer->lost && hello_deserted(peer))
			hello_give_up(peer);
		ret = hello_lost_once(peer);
		if (ret)
			return ret;
		/* who has not answered may compute */
		return peer->facts & HELLO_OTHER || conf_overdue(peer->waited) ? -FI_EOPNOTSUPP
									       : -FI_EAGAIN;
	default:
		return -FI_EAGAIN;
	}
}

struct xfer_peer *hello_query(struct xfer_ep *ep, fi_addr_t addr, struct path_query *query)
{
	struct xfer_peer *peer = xfer_peer_find(ep, addr);

	xfer_assert_locked(ep->xfer);
	if (!peer)
		return NULL;
	query->foreign = hello_state(peer) == XFER_PEER_FOREIGN;
	query->lends = query->lends && !(peer->facts & HELLO_WHOLE);
	query->refuses = peer->facts & HELLO_REFUSES || !retry_due(&peer->offers);
	query->takes = peer->state == XFER_PEER_KNOWN && hello_takes_offers(peer) &&
		       !(peer->facts & HELLO_DECLINED);
	query->follows = peer->state == XFER_PEER_KNOWN && peer->facts & HELLO_FOLLOWS &&
			 !query->refuses;
	return peer;
}

/*
 * Greets a peer that messages like this one may be offered to, and tells one on this host of our board. A short one may
 * be once it follows up all, a long one once it reads our board. All device messages come here: facts are asked first.
 */
static void hello_hope(struct xfer_peer *peer, const struct path_query *query)
{
	const bool near = peer->ep->quirks & QUIRK_NEAR;
	struct path_query hoped = *query;
	const char *why;

	hoped.follows = hoped.takes = true;
	if (peer->facts & HELLO_READS || !retry_due(&peer->told) ||
	    !path_wants_across(&hoped, &why))
		return;
	hello_greet(peer);
	if (peer->state == XFER_PEER_KNOWN && (near || peer->host == peer->ep->xfer->ipc.host))
		hello_tell(peer, WIRE_BOARD);
}

struct xfer_peer *hello_meet(struct xfer_ep *ep, fi_addr_t addr, struct path_query *query)
{
	struct xfer_peer *peer = query->announced ? xfer_peer_get(ep, addr) : NULL;

	xfer_assert_locked(ep->xfer);
	if (peer)
		hello_lost_once(peer);
	/* there will be others to be lent when it has answered */
	if (peer && peer->state != XFER_PEER_KNOWN)
		query->lends = xfer_ep_lends(ep);
	hello_query(ep, addr, query);
	if (peer)
		hello_hope(peer, query);
	/* without memory for a record nothing is announced */
	query->foreign |= query->announced && !peer;
	return peer;
}

/* ---- what is heard ---- */

/* Has it failed? Without memory the message is read again: what comes from its sender next is understood only behind it */
static bool hello_failed(const struct wire_msg *msg, int ret)
{
	*msg->again |= ret == -FI_ENOMEM;
	return ret;
}

/* One more answer of a kind, if it may be given: @count of @max have been */
static bool hello_answers(struct proto_ep *state, unsigned int *count, unsigned int max)
{
	uint64_t now = clock_coarse_ms();

	if (now - state->answers_at >= HELLO_ANSWERS_TIME) {
		state->answers_at = now;
		state->strangers = 0;
		state->refusals = 0;
	}
	if (*count == max)
		return false;
	++*count;
	return true;
}

/* The address of an endpoint that is named, inserted if need be. Strangers are not let in without end. */
static int hello_resolve(struct xfer_channel *channel, const void *name, size_t len,
			 fi_addr_t *addr)
{
	struct proto_ep *state = channel->ep->proto;
	int ret = channel->ops->resolve(channel, name, len, false, addr);

	if (ret != -FI_ENOENT)
		return ret;
	if (!hello_answers(state, &state->strangers, HELLO_STRANGERS))
		return -FI_EAGAIN;
	ret = channel->ops->resolve(channel, name, len, true, addr);
	state->strangers -= ret == -FI_ENOMEM;
	return ret;
}

/*
 * By which channel answers to the sender of @msg travel. @addr: of its own endpoint. Where there is
 * nothing beside endpoints, who names something names somebody else. @proved: a token shows that it is no
 * stranger
 */
static int hello_route(struct xfer_ep *ep, const struct wire_msg *msg, fi_addr_t addr,
		       bool proved, struct xfer_channel **via, fi_addr_t *to)
{
	struct xfer_channel *side = xfer_ep_side(ep);

	*via = side ? side : &ep->front;
	if (ep->quirks & QUIRK_STALLS && msg->flags & WIRE_SIDE) {
		/* what is beside an endpoint is at its address: so nobody names what is on another host */
		if (wire_names_apart(msg->name, msg->name_len, msg->payload, msg->payload_len))
			return -FI_EINVAL;
		return proved ? (*via)->ops->resolve(*via, msg->payload, msg->payload_len, true,
						     to)
			      : hello_resolve(*via, msg->payload, msg->payload_len, to);
	}
	if (*via != &ep->front)
		return hello_resolve(*via, msg->name, msg->name_len, to);
	*to = addr;
	return 0;
}

/* The first one that may be good for @msg: another process than the one that is known begins another. NULL: any */
static uint64_t hello_epoch(const struct xfer_peer *peer, const struct wire_msg *msg)
{
	return peer ? peer->epoch + (peer->open && hello_another(peer, msg)) : 0;
}

/*
 * The answer goes to the endpoint itself: who is named, and nobody beside it, shall have the token. Only
 * where endpoints shun strangers, the other's messages would be in the answer's way. Whoever cannot be
 * reached takes no more than one place in the queue, and leaves it in the end.
 */
static void hello_asked(struct xfer_ep *ep, const struct wire_msg *msg)
{
	struct xfer_peer *peer = xfer_peer_named(ep, msg->name, msg->name_len);
	struct xfer_channel *mouth = hello_mouth(ep), *via = mouth ? mouth : &ep->front;
	struct wire_msg answer;
	fi_addr_t to;
	int ret;

	hello_trial(ep, true);
	/* a datagram may have said that we are lost there. If that is seen later, this token is refused in the end */
	if (peer && xfer_peer_reset_heard(peer))
		xfer_peer_lose(peer, -FI_ECONNRESET);
	/* who is known there, and asks in doubt, does not know that it was lost */
	answer = hello_msg(ep, WIRE_ANSWERS, P2P_MAX(hello_epoch(peer, msg), msg->epoch));
	answer.grant = hello_token_make(ep, msg, answer.epoch);
	if (ep->quirks & QUIRK_DIRECTED && msg->flags & WIRE_SIDE)
		ret = hello_route(ep, msg, FI_ADDR_UNSPEC, false, &via, &to);
	else
		ret = hello_resolve(via, msg->name, msg->name_len, &to);
	if (hello_failed(msg, ret))
		return;
	/* who is not answered sends whole messages, which take no connection more */
	if (via != &ep->front && room_spare(1))
		return;
	answer.token = msg->grant;
	hello_failed(msg, ctrl_answer(via, to, &answer, HELLO_ANSWERS_TIME));
}

/* A peer tells of its board: if it can be read here, it hears that */
static void hello_board(struct xfer_peer *peer, const struct wire_msg *msg)
{
	struct xfer_ep *ep = peer->ep;
	int ret;

	if (!(msg->flags & WIRE_BOARD) || msg->key != ep->xfer->ipc.host)
		return;
	ret = note_board(peer, msg->id, msg->addr);
	if (ret) {
		P2P_INFO("the board of another process cannot be read: %s\n",
			 fi_strerror(-ret));
		return;
	}
	notes_progress(ep->xfer);
	hello_tell(peer, WIRE_READS);
}

void hello_seek(struct xfer_peer *peer)
{
	xfer_assert_locked(peer->ep->xfer);
	if (peer->state == XFER_PEER_FOREIGN && !peer->name && hello_left_notes(peer))
		hello_ask(peer, HELLO_DESERTED);
}

/* The third step */
static void hello_confirm(struct xfer_peer *peer)
{
	struct wire_msg confirm = hello_msg(peer->ep, WIRE_CONFIRMS, peer->epoch);

	confirm.grant = xfer_peer_token(peer)->token;
	/* elsewhere the answer to it would be in the way of a peer that closes */
	if (peer->ep->quirks & QUIRK_NEAR || hello_left_notes(peer))
		hello_add_board(peer, &confirm);
	/* before all that it is to understand, by whichever way that goes */
	confirm.front = true;
	ctrl_tell(peer, &confirm);
	confirm.front = false;
	if (!xfer_peer_one_way(peer))
		ctrl_tell(peer, &confirm);
}

/* Has it lost us, or is it another process than the one that was known, or another endpoint? What was under way ends */
static bool hello_renewed(struct xfer_peer *peer, const struct wire_msg *msg)
{
	const bool another = hello_another(peer, msg);

	if (!peer->open || (!another && msg->epoch <= peer->epoch))
		return false;
	if (another)
		P2P_INFO("a peer has been started anew\n");
	xfer_peer_lose(peer, -FI_ECONNRESET);
	return true;
}

/* It speaks our protocol, and is reached so. 0 or -FI_ENOMEM */
static int hello_known(struct xfer_peer *peer, const struct wire_msg *msg,
		       struct xfer_channel *via, fi_addr_t to)
{
	int ret = xfer_peer_admit(peer, hello_token_make(peer->ep, msg, msg->epoch));

	if (ret)
		return ret;
	if (peer->facts & HELLO_LATE)
		P2P_INFO("a peer has answered its greeting after all\n");
	/* a marker of before may have come since it was lost */
	if (!peer->open && peer->epoch)
		rndv_arrivals_desert(peer, false);
	hello_facts_meet(peer);
	peer->lost = 0;
	peer->epoch = msg->epoch;
	if (peer->theirs.token != msg->grant)
		peer->theirs = (struct xfer_said){.token = msg->grant};
	peer->via = via;
	peer->to = to;
	peer->host = msg->key;
	peer->spaces = (struct ipc_spaces){(uint32_t) msg->data, (uint32_t) msg->status};
	hello_facts_keepalive(peer, msg);
	keepalive_expect(peer->life.keepalive, xfer_peer_token(peer)->token);
	peer->process = msg->process;
	peer->owner = msg->id;
	/* it has lost us; where its first greeting was lost, we have not heard of it before */
	if (!peer->open && msg->epoch)
		rndv_arrivals_desert(peer, false);
	hello_move(peer, XFER_PEER_KNOWN);
	peer->open = true;
	hello_facts_learn(peer, msg);
	return 0;
}

void hello_remind(struct xfer_peer *peer)
{
	xfer_assert_locked(peer->ep->xfer);
	if (hello_doubts(peer))
		hello_ask(peer, 0);
	/* the confirmation may be lost, and then it takes us for nobody */
	if (peer->facts & HELLO_ANSWERED && !xfer_peer_spoke(peer))
		hello_confirm(peer);
	else if (peer->sends && peer->facts & HELLO_READS)
		hello_tell(peer, WIRE_BOARD);
}

static void hello_answered(struct xfer_peer *peer, const struct wire_msg *msg)
{
	struct xfer_channel *via;
	fi_addr_t to;

	/* a question in doubt: its number, which is lost with the peer, was given to the former process */
	if (msg->epoch < peer->epoch || hello_renewed(peer, msg) ||
	    hello_failed(msg, hello_route(peer->ep, msg, peer->addr, !(peer->facts & HELLO_MET),
					  &via, &to)))
		return;
	/* without memory it is greeted once more */
	if (hello_known(peer, msg, via, to)) {
		hello_move(peer, XFER_PEER_NEW);
		return;
	}
	peer->facts |= HELLO_ANSWERED;
	hello_confirm(peer);
}

/* Tells the bearer of a lost token so. A former process may be reached elsewhere: a confirmation says where this one is */
static void hello_refuse(const struct xfer_token *token, const struct wire_msg *msg)
{
	struct xfer_peer *peer = token->peer;
	struct xfer_channel *via = peer->via;
	fi_addr_t to = peer->to;

	if (msg->type == WIRE_HELLO && msg->flags & WIRE_CONFIRMS &&
	    hello_route(peer->ep, msg, peer->addr, !(peer->facts & HELLO_MET), &via, &to))
		return;
	peer->via = peer->open ? peer->via : via;
	peer->to = peer->open ? peer->to : to;
	hello_token_say(peer, token->token, 0, via, to);
}

static void hello_confirmed(struct xfer_ep *ep, const struct wire_msg *msg)
{
	struct xfer_peer *peer = msg->peer;
	struct xfer_channel *via;
	fi_addr_t addr, to;
	bool met;

	if (msg->token != hello_token_make(ep, msg, msg->epoch)) {
		xfer_message_wrong(ep->xfer, msg->type, "not asked for");
		return;
	}
	/* one that has its token already may have another address here than the one that it names */
	if (!peer && hello_failed(msg, ep->front.ops->resolve(&ep->front, msg->name,
							      msg->name_len, true, &addr)))
		return;
	peer = peer ? peer : xfer_peer_get(ep, addr);
	/* whoever goes on to name others beside itself is none that is let in */
	if (hello_failed(msg, peer ? 0 : -FI_ENOMEM) ||
	    hello_failed(msg, hello_route(ep, msg, peer->addr, !(peer->facts & HELLO_MET), &via,
					  &to)))
		return;
	/* it may have been on its way for as long as one of the two was stopped */
	if (msg->epoch < hello_epoch(peer, msg)) {
		if (!hello_failed(msg, xfer_peer_admit_lost(peer, msg->token)))
			hello_refuse(xfer_token_find(ep, msg->token), msg);
		return;
	}
	hello_renewed(peer, msg);
	met = peer->facts & HELLO_MET;
	if (hello_failed(msg, hello_known(peer, msg, via, to)))
		return;
	xfer_token_count(xfer_token_find(ep, msg->token), msg);
	ep->proto->strangers -= !met && ep->proto->strangers;
	peer->facts &= ~HELLO_ANSWERED;
	if (hello_left_notes(peer))
		hello_tell(peer, WIRE_BOARD);
	hello_board(peer, msg);
}

/* Does it speak what we speak? */
static bool hello_understood(const struct wire_msg *msg)
{
	static bool said;

	if (msg->oldest <= WIRE_VERSION && msg->newest >= WIRE_VERSION_OLDEST)
		return true;
	if (!__atomic_exchange_n(&said, true, __ATOMIC_RELAXED))
		P2P_WARN("a peer speaks versions %d to %d of the protocol, this is %d: long "
			 "messages travel whole. Install the same release on both ends\n",
			 msg->oldest, msg->newest, WIRE_VERSION);
	return false;
}

/* It has answered, in a version that is none of ours. Nobody watches over what was under way with such a peer. */
static void hello_differs(struct xfer_peer *peer)
{
	if (peer->open)
		xfer_peer_lose(peer, -FI_ECONNRESET);
	hello_move(peer, XFER_PEER_FOREIGN);
	peer->facts |= HELLO_OTHER;
}

static void hello_received(struct xfer_ep *ep, struct xfer_req *req, const struct wire_msg *msg)
{
	bool understood = hello_understood(msg);

	xfer_serialise(ep->xfer);
	if (msg->flags & WIRE_ASKS)
		hello_asked(ep, msg);
	else if (understood && msg->flags & WIRE_CONFIRMS)
		hello_confirmed(ep, msg);
	else if (msg->peer && !understood)
		hello_differs(msg->peer);
	else if (msg->peer && msg->flags & WIRE_ANSWERS)
		hello_answered(msg->peer, msg);
	else if (msg->peer && !hello_renewed(msg->peer, msg)) {
		hello_facts_learn(msg->peer, msg);
		hello_board(msg->peer, msg);
	}
	if (wire_resets(msg))
		hello_token_reset(ep, msg);
}

/* The endpoint tells bearers of lost tokens so, and refuses what ends of version 7 ask for */
static void hello_unheard(struct xfer_ep *ep, const struct xfer_token *token,
			  const struct wire_msg *msg)
{
	const struct wire_msg refusal = wire_refusal(msg);
	fi_addr_t addr;

	if (token)
		hello_refuse(token, msg);
	else if (msg->old && msg->name_len &&
		 hello_answers(ep->proto, &ep->proto->refusals, HELLO_REFUSALS) &&
		 !hello_resolve(&ep->front, msg->name, msg->name_len, &addr))
		ctrl_send(&ep->front, addr, &refusal, 0);
}

/* What waits for its answer fails. */
static void hello_lost(struct xfer_peer *peer, int status)
{
	const bool known = peer->open;
	const bool anew = known ? peer->state != XFER_PEER_KNOWN : peer->state == XFER_PEER_NEW;

	if (known)
		xfer_peer_expire(peer);
	/* what waits for whoever is there now is not about the process that is lost */
	hello_move(peer, anew ? XFER_PEER_NEW : XFER_PEER_FOREIGN);
	peer->lost = anew ? 0 : status;
	peer->told = (struct retry){.delay = 0};
	peer->facts = (peer->facts & (HELLO_LOST | HELLO_MET | HELLO_GONE)) |
		      (known ? HELLO_LOST : 0);
}

const struct xfer_proto hello_proto = {
	.name = "hello",
	.message = {[WIRE_HELLO] = hello_received},
	.unheard = hello_unheard,
	.lost = hello_lost,
};
