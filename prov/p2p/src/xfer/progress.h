/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Progress: one pass moves completions, copies and what waits to be sent. Nothing here blocks.
 */
#ifndef P2P_PROGRESS_H
#define P2P_PROGRESS_H

#include "xfer/xfer.h"

/* Moves everything that can move: completions, copies, messages, and what waits for counters */
void xfer_progress(struct xfer *xfer);

/* The same, unless another thread has the domain's lock or waits for it: that one goes first */
void xfer_progress_poll(struct xfer *xfer);

/* The same [locked] */
void xfer_progress_locked(struct xfer *xfer);

/* The same, and others may have the lock before it returns: for who waits [locked] */
void xfer_progress_turn(struct xfer *xfer);

/* The same, of copies alone: nothing is read from the core */
void xfer_progress_copied(struct xfer *xfer);

/* Makes a pass that ends as soon as there is a report in @cq. Did the core, or may it, as another thread was first? */
bool xfer_cq_progress(struct xfer_cq *cq);

/*
 * Would a message sent to @addr now overtake one that waits? Does what it can that it
 * would not.
 */
bool xfer_ep_overtakes(struct xfer_ep *ep, fi_addr_t addr);

#endif /* P2P_PROGRESS_H */
