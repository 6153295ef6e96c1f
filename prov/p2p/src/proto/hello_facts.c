/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What is known of a peer. See hello_facts.h. */
#include "proto/hello_facts.h"

#include "base/clock.h"
#include "base/conf.h"
#include "base/log.h"
#include "proto/proto_state.h"
#include "xfer/ep_state.h"
#include "xfer/keepalive.h"

/* So often a silent peer is asked who it is, where there is little room for a question that nobody takes */
#define HELLO_DOUBTS 2

bool hello_doubts(const struct xfer_peer *peer)
{
	const struct xfer_life *life = &peer->life;

	xfer_assert_locked(peer->ep->xfer);
	return !keepalive_signs(life->keepalive).answers &&
	       (!(peer->ep->quirks & QUIRK_DIRECTED) || life->probes <= HELLO_DOUBTS);
}

void hello_offered(struct xfer_peer *peer, size_t len, enum path_far far, bool plain)
{
	const bool refuses =
		far == PATH_FAR_HOST || far == PATH_FAR_POLICY || far == PATH_FAR_USER;

	xfer_assert_locked(peer->ep->xfer);
	/* its driver may open other memory, or the same one later */
	if (far == PATH_FAR_CLOSED || far == PATH_FAR_SPACES)
		retry_failed(&peer->offers);
	peer->facts = (peer->facts & ~HELLO_DECLINED) |
		      (plain || far != PATH_FAR_NOT ? HELLO_DECLINED : 0);
	if (!refuses && !(plain && len <= WIRE_PLAIN_MAX))
		return;
	peer->facts = (peer->facts & ~HELLO_FOLLOWS) | (refuses ? HELLO_REFUSES : 0);
}

bool hello_takes_offers(const struct xfer_peer *peer)
{
	xfer_assert_locked(peer->ep->xfer);
	return peer->host == peer->ep->xfer->ipc.host && !(peer->facts & HELLO_REFUSES) &&
	       retry_due(&peer->offers);
}

bool hello_another(const struct xfer_peer *peer, const struct wire_msg *msg)
{
	xfer_assert_locked(peer->ep->xfer);
	return peer->process != msg->process || peer->life.port != msg->port;
}

void hello_facts_wait(struct xfer_peer *peer)
{
	const uint64_t now = clock_coarse_ms(), passed = now - peer->looked;

	xfer_assert_locked(peer->ep->xfer);
	/* what has waited has failed then, and nobody may look before the next question is due */
	peer->waited += conf_overdue(peer->waited) ? passed : P2P_MIN(passed, XFER_LOOK_MAX);
	peer->looked = now;
	/* it may have had no connection to answer by, as those need us, too */
	if (passed >= HELLO_ANSWERS_TIME / 2)
		peer->facts |= HELLO_AWAY;
}

void hello_facts_meet(struct xfer_peer *peer)
{
	const unsigned int over = HELLO_LATE | HELLO_OTHER | HELLO_LOST | HELLO_GONE;

	xfer_assert_locked(peer->ep->xfer);
	if (peer->state != XFER_PEER_KNOWN)
		peer->told = (struct retry){.delay = 0};
	/* what it left unanswered was of the time before */
	if (!peer->open)
		xfer_peer_heard(peer, true);
	peer->facts = (peer->facts & ~over) | HELLO_MET;
}

void hello_facts_learn(struct xfer_peer *peer, const struct wire_msg *msg)
{
	const bool near = msg->key == peer->ep->xfer->ipc.host;

	xfer_assert_locked(peer->ep->xfer);
	if (msg->flags & WIRE_FOLLOWS && near && peer->ep->quirks & QUIRK_NEAR)
		peer->facts |= HELLO_FOLLOWS;
	if (msg->flags & WIRE_READS && near)
		peer->facts |= HELLO_READS;
	if (msg->flags & WIRE_MAY_LANES)
		peer->facts |= HELLO_LANES;
	if (msg->flags & WIRE_BORROWS)
		peer->facts |= HELLO_BORROWS;
}

void hello_facts_keepalive(struct xfer_peer *peer, const struct wire_msg *msg)
{
	const struct ipc *ipc = &peer->ep->xfer->ipc;
	const bool near = msg->key == ipc->host;
	struct xfer_life *life = &peer->life;
	uint8_t name[WIRE_NAME_MAX] = {0};
	size_t len = sizeof name;
	bool named;

	xfer_assert_locked(peer->ep->xfer);
	/* a question sent before its confirmation is here: it has its answer, though the thread had no time */
	keepalive_drain();
	if (!hello_another(peer, msg))
		return;
	keepalive_close(life->keepalive);
	life->answers = 0;
	life->port = msg->port;
	named = !peer->ep->front.ops->lookup(&peer->ep->front, peer->addr, name, &len);
	life->keepalive =
		keepalive_open(peer->ep->proto->keepalive, msg->process, named ? msg->port : 0,
			       name, P2P_MIN(len, sizeof name), near,
			       near && ipc_shares_ids(ipc, (uint32_t) msg->data));
	keepalive_ask(life->keepalive);
}

void hello_facts_late(struct xfer_peer *peer)
{
	char text[256];

	xfer_assert_locked(peer->ep->xfer);
	peer->ep->front.ops->print(&peer->ep->front, peer->addr, text, sizeof text);
	P2P_WARN(
		"%s has not answered a greeting for %zu s: long messages from device memory go "
		"there whole, which is slower, and operations on its remote memory wait. Unless it "
		"computes, install this provider there, or see FI_P2P_HELLO_TIMEOUT\n",
		text, conf.hello_timeout);
	peer->facts |= HELLO_LATE;
}
