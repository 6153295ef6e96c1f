/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Remote memory of middling length, served by its owner: whoever has the bytes copies them to a slot,
 * and the other end's core reads them there (rndv_lent.h), several at a time. All [locked].
 *
 * Pieces would take one more exchange, and buffers of the core's own at both ends. Unlike a message,
 * this is worth it for one alone, too: it has to be asked for in any case.
 */
#ifndef P2P_RMA_LENT_H
#define P2P_RMA_LENT_H

#include "xfer/req.h"
#include "xfer/wire.h"

/*
 * Takes a slot for a transfer: a long write of ours, or what a peer reads. Then its path is PATH_LENT; else there is none,
 * and it goes another way
 */
void rma_lent_take(struct xfer_req *req);

/* Begins what has a slot, as rndv_send_unmarked() begins the rest */
int rma_lent_start(struct xfer_req *req);

#endif /* P2P_RMA_LENT_H */
