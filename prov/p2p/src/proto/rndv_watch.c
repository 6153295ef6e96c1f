/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Transfers that do not move. See rndv_watch.h. */
#include "proto/rndv_watch.h"

#include "base/clock.h"
#include "proto/hello.h"
#include "proto/proto_state.h"
#include "proto/rndv_match.h"
#include "xfer/ctrl.h"
#include "xfer/peer.h"
#include "xfer/sendq.h"

/*
 * How often it looks [ms], and how many pieces may begin without a slot in that time, so that what is
 * merely many keeps to slots. After RNDV_SILENCE a peer is probed [ms], then each time after twice as
 * long, which is doubled RNDV_PATIENCE times at most.
 */
#define RNDV_WATCH 100
#define RNDV_SPARE 4
#define RNDV_SILENCE 2000
#define RNDV_PATIENCE 6

/* @heard, @probes: as in struct xfer_req. True: the peer is probed now */
static bool rndv_probe(struct xfer_peer *peer, uint64_t id, bool to_sender, uint64_t *heard,
		       unsigned int *probes)
{
	struct wire_msg msg = {.type = WIRE_PROBE, .id = id, .to_sender = to_sender};
	uint64_t now = clock_coarse_ms();

	/* the next one after twice the time */
	if (now - *heard < (uint64_t) RNDV_SILENCE << P2P_MIN(*probes, RNDV_PATIENCE))
		return false;
	*heard = now;
	++*probes;
	/* what waits finds out as much; and cores may have no room for a dead peer for ever */
	if (xfer_outq_has(peer->via, peer->to))
		return false;
	ctrl_tell(peer, &msg);
	return true;
}

/* Looks after transfers that do not move; a few times a second is enough. */
void rndv_watch(struct xfer *xfer)
{
	static const enum xfer_state receiving[] = {XFER_GRANTING, XFER_PULLING, XFER_BORROWING,
						    XFER_READING,  XFER_TELLING, XFER_RECEIVED};
	uint64_t now = clock_coarse_ms();
	struct xfer_arrival *arrival;
	struct xfer_req *req;

	xfer_assert_locked(xfer);
	if (now < xfer->proto->watch_at)
		return;
	xfer->proto->watch_at = now + RNDV_WATCH;
	xfer->proto->spare = RNDV_SPARE;
	rndv_arrivals_look(xfer, true);
	for (size_t i = 0; i < sizeof receiving / sizeof receiving[0]; i++) {
		TAILQ_FOREACH(req, &xfer->in[receiving[i]], entry)
			if (req->peer)
				rndv_probe(req->peer, req->transfer.id, true,
					   &req->transfer.heard, &req->transfer.probes);
	}
	for (size_t i = 0; i < XFER_CHAINS; i++) {
		LIST_FOREACH(arrival, &xfer->proto->arriving[i], chain) {
			if (arrival->held && arrival->announced)
				rndv_probe(arrival->peer, arrival->id, true, &arrival->heard,
					   &arrival->probes);
		}
		LIST_FOREACH(req, &xfer->sending[i], transfer.chain) {
			if (rndv_probe(req->peer, req->transfer.id, false, &req->transfer.heard,
				       &req->transfer.probes) &&
			    hello_reads(req->peer))
				hello_remind(req->peer);
		}
	}
}
