/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * FI_PEEK, FI_CLAIM and FI_DISCARD of tagged messages. The core finds, keeps and discards. Where it
 * has found a marker, we report the message behind it. A core knows a claimed message by its
 * context. So the request of a claim lives on, and the receive that takes the message uses it.
 * All [locked].
 */
#ifndef P2P_PEEK_H
#define P2P_PEEK_H

#include "xfer/req.h"

/* Any receive with one of the three flags: as xfer_post() */
ssize_t peek_post(struct xfer_ep *ep, const struct p2p_op *op, const struct dev_mem *mem);

#endif /* P2P_PEEK_H */
