/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Messages of middling length that lie in their sender's staging memory until the receiver's
 * core has read them (wire.h), several at a time. All [locked].
 *
 * To the core such a read is one operation, from place to place, where messages of that length go
 * through buffers of its own; what is in turn added, a marker, is small. It is of use as long as others
 * are under way: one by itself travels whole, without a round trip.
 */
#ifndef P2P_RNDV_LENT_H
#define P2P_RNDV_LENT_H

#include "xfer/req.h"

/* Can the receive read what is lent to it? Else it asks for pieces. */
bool rndv_lent_borrows(const struct xfer_req *req);

/* Reads what the receive is to have from its sender's memory, with others or alone. */
void rndv_lent_borrow(struct xfer_req *req, uint64_t addr, uint64_t key);

#endif /* P2P_RNDV_LENT_H */
