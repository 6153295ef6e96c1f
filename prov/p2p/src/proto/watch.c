/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Silent peers. See watch.h.
 *
 *	one end                                                          a peer
 *	nothing for 0.5 s    === question (UDP) =======================> its thread
 *	                     <========================= answer (UDP) ===
 *	nothing for 2 s      --- PROBE(asks, counts) ------------------> if it calls libfabric
 *	                     <----------------------- PROBE(counts) ---   some are missing: lost
 *	has never answered   --- HELLO(asks) --------------------------> another process is there:
 *	a question           <---------------- HELLO(names, answers) ---   lost
 *
 *	nobody there: a      === question (UDP) =======================> the endpoint is closed,
 *	while later: lost    <================= its host tells (UDP) ===   or its process has ended
 *
 *	lost                 === dead token (UDP) =====================> ends it, too
 *	                                                                 or has not heard, and goes on
 *	                     <------------------ TAKE or anything else -
 *	                     --- HELLO(dead token) --------------------> ends it, too
 */
#include "proto/watch.h"

#include <rdma/fi_errno.h>

#include "base/conf.h"
#include "base/log.h"
#include "proto/hello.h"
#include "proto/hello_facts.h"
#include "proto/hello_token.h"
#include "xfer/ctrl.h"
#include "xfer/keepalive.h"
#include "xfer/loss.h"
#include "xfer/req_state.h"
#include "xfer/sendq.h"

/*
 * When a quiet peer's process is asked for the first time, and when the peer is probed [ms]. Each next
 * time comes after twice as long: WATCH_PATIENCE times for a probe; for a question up to WATCH_ASK_MOST, and as
 * long as there are WATCH_ASKS in the timeout. By WATCH_ASK_MOST and WATCH_LAST a process that has ended is known for
 * it within 5 s, however long it was silent before. A process that has not answered yet is asked WATCH_FIRST times in
 * a row. None is lost before it has left WATCH_UNHEARD questions unanswered: where this process was held up, the
 * other one may have been, too.
 */
#define WATCH_ASK 500u
#define WATCH_ASK_MOST 1500u
#define WATCH_PROBE 2000u
#define WATCH_PATIENCE 6u
#define WATCH_ASKS 8u
#define WATCH_FIRST 20u
#define WATCH_UNHEARD 4u
/* For so long what a peer has sent last may be on its way, though nobody is there any more [ms] */
#define WATCH_LAST 3000u

static void watch_say(const struct xfer_peer *peer, int status)
{
	char text[256];

	peer->ep->front.ops->print(&peer->ep->front, peer->addr, text, sizeof text);
	if (status == -FI_ETIMEDOUT)
		P2P_WARN(
			"%s has given no sign of life for %zu s (FI_P2P_PEER_TIMEOUT): what is under "
			"way with it fails\n",
			text, conf.peer_timeout);
	else
		P2P_WARN("%s is closed, or its process has ended: what is under way with it "
			 "fails\n",
			 text);
}

/* Returns how long a process that has been silent is left alone before the next question [ms] */
static unsigned int watch_interval(const struct xfer_life *life)
{
	const unsigned int timeout = 1000 * (unsigned int) conf.peer_timeout;
	unsigned int most = WATCH_ASK_MOST;

	if (timeout)
		most = P2P_MIN(most, P2P_MAX(timeout / WATCH_ASKS, WATCH_ASK));
	/* as long as it has never answered, its silence tells nothing */
	if (!life->answers && life->asks < WATCH_FIRST)
		return XFER_WATCH;
	/* questions may be lost. But a stopped process keeps them, and its socket has room for some 280 */
	if (timeout && life->silent >= timeout / 2)
		return P2P_MAX(XFER_WATCH, timeout / (4 * WATCH_ASKS));
	return P2P_MIN(WATCH_ASK << P2P_MIN(life->asks, WATCH_PATIENCE), most);
}

/* Takes in a peer's @signs of life, and asks its process for another one when it is time. */
static void watch_ask(struct xfer_life *life, struct keepalive_signs signs, unsigned int passed)
{
	life->quiet += passed;
	life->gone += signs.gone ? passed : 0;
	if (signs.answers != life->answers)
		life->silent = life->unheard = 0;
	life->answers = signs.answers;
	if (life->quiet - life->asked < watch_interval(life))
		return;
	life->asked = life->quiet;
	life->asks++;
	life->unheard++;
	keepalive_ask(life->keepalive);
}

/* Probes a silent peer when it is time, so that the core notices if it is dead. */
static void watch_probe(struct xfer_peer *peer)
{
	const unsigned int timeout = 1000 * (unsigned int) conf.peer_timeout;
	struct xfer_life *life = &peer->life;
	unsigned int interval = WATCH_PROBE << P2P_MIN(life->probes, WATCH_PATIENCE);

	/* nothing else shows that it lives */
	if (timeout && !life->port)
		interval = P2P_MIN(interval, timeout / WATCH_UNHEARD);
	if (life->quiet - life->probed < interval)
		return;
	life->probed = life->quiet;
	life->probes++;
	/* what waits finds out as much; and cores may have no room for a dead peer for ever */
	if (xfer_outq_find(peer->via, peer->to))
		return;
	hello_remind(peer);
	ctrl_probe(peer, true);
}

/* Does its silence tell anything? */
static bool watch_unanswered(const struct xfer_life *life)
{
	if ((life->port && !life->answers) || life->unheard < WATCH_UNHEARD)
		return false;
	/* the thread may have had no time for an answer that is here */
	keepalive_drain();
	return keepalive_signs(life->keepalive).answers == life->answers;
}

/*
 * What is kept for one that was lost, and may live, is given back when its process has ended. So does what is to go there
 * whole, or to its memory, unless another process takes it: cores may try to reach one for ever. 0, or why that fails
 */
static int watch_lost(struct xfer_peer *peer, unsigned int passed)
{
	const struct keepalive_signs signs = keepalive_signs(peer->life.keepalive);

	if (!peer->epoch)
		return 0;
	watch_ask(&peer->life, signs, passed);
	if (!signs.gone)
		return 0;
	if (peer->state == XFER_PEER_GREETED)
		return hello_deserted(peer) ? -FI_ECONNRESET : 0;
	return peer->facts & HELLO_LOST && peer->life.gone >= WATCH_LAST ? -FI_ECONNRESET : 0;
}

/* Looks after one peer: 0, or why it is lost */
static int watch_peer(struct xfer_peer *peer, unsigned int passed)
{
	struct xfer_life *life = &peer->life;
	const struct keepalive_signs signs = keepalive_signs(life->keepalive);
	int status = 0;

	if (xfer_peer_reset(peer, signs.reset))
		return -FI_ECONNRESET;
	life->silent += passed;
	watch_ask(life, signs, passed);
	watch_probe(peer);
	if (life->gone >= WATCH_LAST)
		status = -FI_ECONNRESET;
	else if (conf_overdue(life->silent) && watch_unanswered(life))
		status = -FI_ETIMEDOUT;
	if (status)
		watch_say(peer, status);
	else
		xfer_peer_say_silent(peer, peer->life.silent);
	return status;
}

static struct xfer_peer *watch_doomed(const struct xfer *xfer)
{
	struct xfer_peer *peer;

	LIST_FOREACH(peer, &xfer->busy_peers, busy) {
		if (peer->life.verdict)
			return peer;
	}
	return NULL;
}

/*
 * It goes to a peer that may have died, and about which nothing else is under way: then nobody would see that. One that was
 * lost may be asked, and one that was removed may be answered, too.
 */
static void watch_unsent_begin(const struct xfer_out *out)
{
	const struct xfer_ep *ep = out->ctx.ep;
	struct xfer_peer *past, *next, *peer = xfer_peer_find(ep, out->addr);

	TAILQ_FOREACH(past, &ep->pasts, past) {
		if (past->open && xfer_peer_at(past, out->via, out->addr))
			xfer_outq_hold(past);
	}
	if (out->via == &ep->front && peer && (peer->open || peer->epoch))
		xfer_outq_hold(peer);
	if (out->via == &ep->front)
		return;
	HASH_ITER(hh, ep->peers, peer, next) {
		if ((peer->open || peer->epoch) && xfer_peer_at(peer, out->via, out->addr))
			xfer_outq_hold(peer);
	}
}

/* Watches requests that began while their peer was unknown, if it is known by now. A receive is anybody's */
static void watch_unknown(const struct xfer_ep *ep)
{
	struct xfer_ctx *ctx;
	struct xfer_req *req;

	LIST_FOREACH(ctx, &ep->live, live) {
		req = (struct xfer_req *) ctx;
		if (xfer_ctx_is_req(ctx) && req->busy && !req->peer &&
		    !(req->done_flags & FI_RECV) && req->state != XFER_GREETING)
			xfer_req_watch(req, xfer_peer_find(ep, req->addr));
	}
}

/* Looks for messages that the core has had no room for. Mostly nothing waits for as long as it takes to come here */
static void watch_unsent_all(const struct xfer_channel *channel)
{
	struct xfer_out *out;

	TAILQ_FOREACH(out, &channel->outq, entry) {
		if (!out->behind && !out->until)
			watch_unsent_begin(out);
	}
}

/*
 * What the core has for one that was lost before ends as the core says: another process may have taken it. Within a host the
 * core may say nothing for ever. What a peer was to look for on our board it cannot have seen, if it is another process by now
 */
static void watch_lose(struct xfer_peer *peer)
{
	const int verdict = peer->life.verdict;
	const bool noted = peer->facts & HELLO_READS && peer->sends;

	xfer_peer_hold(peer);
	if (!peer->open && peer->state == XFER_PEER_GREETED) {
		hello_give_up(peer);
	} else if (peer->open || peer->ep->quirks & QUIRK_NEAR) {
		xfer_peer_end(peer, true, verdict);
	} else {
		xfer_sendq_fail(peer->ep, peer->addr, verdict);
		xfer_outq_fail(&peer->ep->front, peer->addr, verdict);
		xfer_outq_fail(peer->via, peer->to, verdict);
	}
	peer->life.verdict = 0;
	/* what is asked for later is given as much time */
	peer->life.gone = 0;
	if (noted)
		hello_seek(peer);
	xfer_peer_put(peer);
}

/*
 * Looks after all peers with something under way. The loss of one may take others off the list: so all are
 * looked at before.
 */
static void watch_all(struct xfer *xfer, unsigned int passed)
{
	bool doomed = false;
	struct xfer_peer *peer;
	struct xfer_ep *ep;

	LIST_FOREACH(ep, &xfer->eps, entry) {
		watch_unsent_all(&ep->side);
		watch_unknown(ep);
		watch_unsent_all(&ep->front);
	}
	/* this process was held up, and so was its thread */
	if (passed > XFER_WATCH)
		keepalive_drain();
	LIST_FOREACH(peer, &xfer->busy_peers, busy) {
		peer->life.verdict =
			peer->open ? watch_peer(peer, passed) : watch_lost(peer, passed);
		doomed |= peer->life.verdict;
	}
	while (doomed && (peer = watch_doomed(xfer)))
		watch_lose(peer);
}

static void watch_probed(struct xfer_ep *ep, struct xfer_req *req, const struct wire_msg *msg)
{
	const uint32_t missing = xfer_peer_missing(msg);

	if (msg->flags & WIRE_ASKS)
		ctrl_probe(msg->peer, false);
	if (!missing)
		return;
	/* nobody knows what they were about */
	P2P_WARN("%u control messages of a peer are lost: what is under way with it fails\n",
		 missing);
	xfer_peer_lose(msg->peer, -FI_EIO);
}

/*
 * It is lost. What goes beside the endpoint may lack a connection that the endpoint has: so a peer that lives is told
 * there.
 */
static void watch_unsent(struct xfer_channel *channel, fi_addr_t addr, int status)
{
	struct xfer_peer *peer, *next;

	xfer_lose(channel, addr, status);
	HASH_ITER(hh, channel->ep->peers, peer, next) {
		if ((channel != &peer->ep->front || addr != peer->addr) &&
		    xfer_peer_at(peer, channel, addr))
			hello_token_say_again(peer);
	}
}

const struct xfer_proto watch_proto = {
	.name = "watch",
	.message = {[WIRE_PROBE] = watch_probed},
	.watch = watch_all,
	.unsent = watch_unsent,
};
