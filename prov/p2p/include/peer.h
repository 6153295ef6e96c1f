/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rank 4: what is known of peers within the host, a byte each.
 *
 * A short message from device memory may be offered like a long one (wire.h), and not staged,
 * if its receiver looks after all of its receives (struct xfer_ep.follows): a marker that met
 * one which it does not look after would be lost. So it is asked, with WIRE_HELLO, when the
 * first such message goes there, and until it has answered they are staged. All [locked].
 */
#ifndef P2P_PEER_H
#define P2P_PEER_H

#include "xfer.h"

/* Fills in what is known of the peer at @addr; asks it if that is nothing yet */
void peer_query(struct xfer_ep *ep, fi_addr_t addr, struct path_query *query);

/* A peer has asked, or answered */
void peer_hello(struct xfer_ep *ep, const struct wire_msg *msg);

/* It did not take the @len bytes that it was offered; @plain: they met a multi-receive buffer */
void peer_declined(struct xfer_ep *ep, fi_addr_t addr, size_t len, enum path_far far,
		   bool plain);

/* @addr is nobody's any more */
void peer_forget(struct xfer *xfer, fi_addr_t addr);

#endif /* P2P_PEER_H */
