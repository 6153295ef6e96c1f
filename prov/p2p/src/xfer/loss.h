/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A peer is lost: the core does not reach it, or it gives no signs of life. All [locked]. */
#ifndef P2P_LOSS_H
#define P2P_LOSS_H

#include "xfer/peer.h"

/*
 * Ends with @status what is under way with a peer. What the core has stays with it. So an operation whose
 * part there is the user's own memory ends when the core gives that back; any other one ends now.
 */
void xfer_peer_lose(struct xfer_peer *peer, int status);

/* The same. @over: so fails what goes to its address whole, though it may be lost already */
void xfer_peer_end(struct xfer_peer *peer, bool over, int status);

/* The same for whoever @channel reaches at @addr */
void xfer_lose(const struct xfer_channel *channel, fi_addr_t addr, int status);

#endif /* P2P_LOSS_H */
