/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Where an operation begins: what memory it is about, which path it takes, and which protocol
 * carries it.
 */
#ifndef P2P_POST_H
#define P2P_POST_H

#include "xfer/req.h"

/*
 * Posts any send or receive, of any memory. @op->flags has FI_COMPLETION where the user wants to hear of
 * success. 0, -FI_EAGAIN when there is no room now, or another error.
 */
ssize_t xfer_post(struct xfer_ep *ep, const struct p2p_op *op);

/*
 * Which way the send @op would take now: 0 with @choice, -FI_EOPNOTSUPP with its reason when
 * it may take none, or what mem_classify() returns. Pins memory as the send would.
 */
int xfer_ask_path(struct xfer_ep *ep, const struct p2p_op *op, struct path_choice *choice);

/*
 * Posts any read or write of remote memory, or atomic operation on it, that is not the core's alone. As above.
 */
ssize_t xfer_post_rma(struct xfer_ep *ep, const struct p2p_op *op);
ssize_t xfer_post_atomic(struct xfer_ep *ep, const struct p2p_op *op);

/*
 * May an operation with FI_FENCE to this peer begin? 0, or -FI_EAGAIN: what was posted before it has not ended,
 * and progress was made. FI_ADDR_UNSPEC: there is one peer only. Not [locked]
 */
ssize_t xfer_post_fence(struct xfer_ep *ep, fi_addr_t addr);

/* Tells whether memory with this key is reached by asking its owner, not by the core. */
static inline bool xfer_key_remote(const struct xfer *xfer, uint64_t key)
{
	return xfer->keys_ours || key & xfer->key_mark;
}

/* The same for an atomic operation: it may be so where reads and writes are the core's */
static inline bool xfer_key_atomic_remote(const struct xfer *xfer, uint64_t key)
{
	return xfer->quirks & QUIRK_ATOMICS || xfer_key_remote(xfer, key);
}

/* Cancels the receive that was posted with @context; -FI_ENOENT if it is not ours. */
ssize_t xfer_cancel(struct xfer_ep *ep, void *context);

/* The same [locked] */
ssize_t xfer_cancel_locked(struct xfer_ep *ep, void *context);

#endif /* P2P_POST_H */
