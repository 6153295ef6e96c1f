/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Stale pieces: their receives were taken back, as the transfer has failed here, but their sender may not know
 * that yet. The sender may be lost, and come back much later. Nobody wants such a piece, but it may be in the way of
 * others:
 *
 * - Cores that stall read nothing behind it. There the core discards what has come (rndv_stale_discard()).
 * - shm reports none of its sender's later messages as sent, to any peer, and ofi_rxm not that piece, if it is long.
 *   There each piece that may come has a receive again, and its bytes go nowhere (rndv_stale_expect()).
 * - A lane has receives for pieces alone, and its thread may not have posted the next one yet. So nothing is discarded
 *   there, and a piece has a receive again, too.
 *
 * All [locked].
 */
#ifndef P2P_RNDV_STALE_H
#define P2P_RNDV_STALE_H

#include "xfer/xfer.h"

/* Has the core discard pieces that have come to @ep and have no receive */
void rndv_stale_discard(struct xfer_ep *ep);

/* The receive of the piece with @tag was taken back: what comes with it by @via goes nowhere */
void rndv_stale_expect(struct xfer_channel *via, uint64_t tag);

/* Posts receives for stale pieces that the core had no room for */
void rndv_stale_retry(struct xfer_ep *ep);

#endif /* P2P_RNDV_STALE_H */
