/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What protocols keep of a domain and of an endpoint, beside requests. The domain's lock guards
 * it.
 */
#ifndef P2P_PROTO_STATE_H
#define P2P_PROTO_STATE_H

#include "proto/seen_ids.h"
#include "xfer/xfer.h"

struct multi_recv_buf;
struct multi_recv_msg;
struct rma_ask;
struct rma_job;
struct xfer_arrival;

/**
 * struct proto_domain - of a domain (struct xfer.proto).
 * @spare:	pieces that may begin without a slot now
 * @starved:	since when short messages find no slot [ms]; 0: they find one
 * @arriving:	announcements and markers waiting for each other, and what is being received, in
 *		chains, by id
 * @seen:	what has been announced, where that is asked for (rndv_marker_spent())
 * @unreadable:	what has been announced in a way that we cannot read
 * @lost:	what peers had announced that were lost before its marker came
 * @serving:	short requests of peers for memory of ours, in the order in which they came
 *		(rma_serving.c)
 * @asking:	our requests whose payload is being copied, in the order of their posting (rma_served.c)
 * @words:	a bit for each word of struct xfer.local that the NIC reads something into (rma_core.c)
 */
struct proto_domain {
	unsigned int spare;
	uint32_t starved;
	LIST_HEAD(, xfer_arrival) arriving[XFER_CHAINS];
	struct seen_ids seen;
	struct seen_ids unreadable;
	struct seen_ids lost;
	TAILQ_HEAD(, rma_job) serving;
	TAILQ_HEAD(, rma_ask) asking;
	uint64_t words;
};

/**
 * struct proto_ep - of an endpoint (struct xfer_ep.proto).
 * @multis:	multi-receive buffers that the core holds
 * @multi_msgs:	messages in such buffers that are not reported yet, in order
 * @secret:	what its answers are made with (hello_token.c); 0: it has given none
 * @strangers:	peers answered that the application does not know, since @answers_at [ms]
 * @refusals:	the same for messages of older versions
 * @ahead:	receives that pieces hold here, but for one for each message (rndv_pieces.h)
 * @closes:	it is about to be closed: nothing begins any more between it and other endpoints
 * @stale:	a peer may have sent pieces that nobody waits for, as it was lost or the receive's endpoint closes
 * @stale_count: receives for pieces that nobody wants any more (rndv_stale.c); [true]: by lanes
 * @keepalive: where peers ask for this endpoint's signs of life, or NULL; @keepalive_tried: it was opened, or cannot be
 * @follows:	peers are told that all receives here are followed up
 * @trial:	all receives are followed up, for so many receives more, though no peer has been told
 * @news:	a peer has answered a greeting, is late or lost; or time has passed: who waits is looked at
 */
struct proto_ep {
	LIST_HEAD(, multi_recv_buf) multis;
	TAILQ_HEAD(, multi_recv_msg) multi_msgs;
	uint64_t secret;
	unsigned int strangers;
	unsigned int refusals;
	uint64_t answers_at;
	unsigned int ahead;
	bool closes;
	bool stale;
	unsigned int stale_count[2];
	struct keepalive_sock *keepalive;
	bool keepalive_tried;
	bool follows;
	unsigned int trial;
	bool news;
};

#endif /* P2P_PROTO_STATE_H */
