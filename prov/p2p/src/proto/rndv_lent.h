/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Lent messages: they lie in their sender's slots until the receiver's core has read them,
 * several at a time. All [locked].
 *
 * To the core such a read is one operation, from place to place. It would send messages of that
 * length through buffers of its own. The price is a marker, which is small. Lending pays as
 * long as others are under way. A message alone travels whole, as that takes no round trip.
 */
#ifndef P2P_RNDV_LENT_H
#define P2P_RNDV_LENT_H

#include "xfer/req.h"

/* Reads what the receive is to have from its sender's memory, with others or alone. False: it cannot, and asks for pieces */
bool rndv_lent_borrow(struct xfer_req *req, uint64_t addr, uint64_t key);

#endif /* P2P_RNDV_LENT_H */
