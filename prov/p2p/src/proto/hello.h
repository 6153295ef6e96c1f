/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Greetings: whether a peer speaks our protocol, and what else is known of it.
 *
 * A peer may run another provider, or a hook: an announcement would be lost there, and its marker look
 * like an empty message. So nothing is announced to a peer before it has answered a HELLO. Until then
 * messages wait or travel whole, in the core's own way, which is right for every receiver. A peer that has
 * not answered within FI_P2P_HELLO_TIMEOUT gets whole messages, and may still answer.
 *
 * A short message from device memory may be offered like a long one (wire.h), and not staged.
 * Its receiver must follow up all receives (struct proto_ep.follows), as a marker that meets any
 * other receive is lost. The greeting tells whether it does.
 *
 * Within a host greetings tell of boards, too (board.h). Once a peer says that it reads ours,
 * announcements to it are notes.
 *
 * Applications such as MPI initialise their GPU after the endpoint. So, where there is a GPU,
 * all receives are followed up at first. That ends after HELLO_TRIAL of them, unless device
 * memory has been seen or a peer has asked. All [locked].
 */
#ifndef P2P_HELLO_H
#define P2P_HELLO_H

#include "path/path.h"
#include "xfer/peer.h"

/*
 * Returns the record of the peer at @addr, or NULL. What is known of it goes into @query, as far as that is
 * about peers.
 */
struct xfer_peer *hello_query(struct xfer_ep *ep, fi_addr_t addr, struct path_query *query);

/* Makes a record of the peer that something is to be sent to, and asks and tells what may be of use */
struct xfer_peer *hello_meet(struct xfer_ep *ep, fi_addr_t addr, struct path_query *query);

/* Greets a peer, unless that was done. 0 or a negative error */
int hello_greet(struct xfer_peer *peer);

/* Returns the state of a peer now, as it may have had its time to answer */
enum xfer_peer_state hello_state(struct xfer_peer *peer);

/*
 * Tells whether a request that is answered may go to @addr. 0; -FI_EAGAIN: not yet; -FI_EOPNOTSUPP: nobody
 * there takes it, as far as is known; or why the core does not reach it
 */
int hello_ready(struct xfer_ep *ep, fi_addr_t addr);

/* The endpoint has begun: does it follow up all receives? Then it listens, as peers may ask before anything else happens */
void hello_start(struct xfer_ep *ep);

/*
 * Ends the trial in which receives into host memory are followed up, when device memory is in use or none has
 * been for long
 */
void hello_trial(struct xfer_ep *ep, bool device);

/* Nothing has come from it for long: tells it once more what it may not have heard. */
void hello_remind(struct xfer_peer *peer);

/*
 * The process that was known there has ended, as its host has told, and no other one has answered a greeting. Cores may try
 * to reach one for ever. The second fails what waits for that.
 */
bool hello_deserted(struct xfer_peer *peer);
void hello_give_up(struct xfer_peer *peer);

/* It is lost, and was to look for notes on our board: greets whoever has its address now, who may wait for those */
void hello_seek(struct xfer_peer *peer);

#endif /* P2P_HELLO_H */
