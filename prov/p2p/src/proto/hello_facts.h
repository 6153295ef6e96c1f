/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What else is known of a peer that speaks our protocol: from its greetings (hello.h), or from what it has done. All
 * [locked].
 */
#ifndef P2P_HELLO_FACTS_H
#define P2P_HELLO_FACTS_H

#include "path/path.h"
#include "xfer/peer.h"
#include "xfer/wire.h"

/* For so long whoever answers a greeting tries to [ms] */
#define HELLO_ANSWERS_TIME 30000

/* Bits of struct xfer_peer.facts: */
#define HELLO_FOLLOWS                                                                          \
	(1u << 0) /* it follows up all of its receives; if not, short ones are staged */
#define HELLO_REFUSES (1u << 1) /* to take what is offered: only what is announced anyway is */
#define HELLO_AWAY (1u << 2)  /* this process was away, and its answer may have been dropped */
#define HELLO_READS (1u << 3) /* it looks for announcements on our board */
#define HELLO_WHOLE (1u << 4) /* it asked for what was lent in another way */
#define HELLO_LATE (1u << 5)  /* it was said that it has not answered */
#define HELLO_OTHER (1u << 6) /* it speaks none of our versions */
#define HELLO_LOST (1u << 7)  /* it was known, and lost: it may be dead */
#define HELLO_ANSWERED                                                                         \
	(1u << 8)            /* it has answered a greeting, and may not know yet that we know */
#define HELLO_GONE (1u << 9) /* its process has ended, and no other one was reached */
#define HELLO_LANES (1u << 10)    /* it may have lanes (lane.h) */
#define HELLO_BORROWS (1u << 11)  /* it reads what requests lend */
#define HELLO_MET (1u << 12)      /* it was known once: nobody more is let in for it */
#define HELLO_DECLINED (1u << 13) /* it did not take what it was offered last */

/* Is it another process than the one that was known last, or another endpoint, that says @msg? */
bool hello_another(const struct xfer_peer *peer, const struct wire_msg *msg);

/* Counts the time that it has had to answer a greeting: until that is too long, time in which this process has looked */
void hello_facts_wait(struct xfer_peer *peer);

/* It has shown that it is there */
void hello_facts_meet(struct xfer_peer *peer);

/* Takes from a greeting what a peer says of itself there */
void hello_facts_learn(struct xfer_peer *peer, const struct wire_msg *msg);

/*
 * Has its process never answered beside the core? Then its host's word that nobody is there tells nothing, and another
 * one may have its address by now. That takes us for nobody, but answers a question. Where endpoints shun strangers
 * there is little room for one that nobody takes.
 */
bool hello_doubts(const struct xfer_peer *peer);

/* What has become of the @len bytes that it was offered; @plain: they met a multi-receive buffer */
void hello_offered(struct xfer_peer *peer, size_t len, enum path_far far, bool plain);

/* Is it on this host, and has not refused what it was offered? */
bool hello_takes_offers(const struct xfer_peer *peer);

/* It may be asked for signs of life, and is, so that it is known whether it answers. */
void hello_facts_keepalive(struct xfer_peer *peer, const struct wire_msg *msg);

/* It has not answered in time: says so */
void hello_facts_late(struct xfer_peer *peer);

#endif /* P2P_HELLO_FACTS_H */
