/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Buffers for many messages (FI_MULTI_RECV).
 *
 * The core packs messages into a host buffer itself. For device memory that is a reserve of the
 * same length. Each message is copied from there to the same place in the device's.
 *
 * A marker finds no room for its message there. So its sender sends the message as it is. Until
 * it has come, later messages of the same peer (without FI_SOURCE: of any) are not reported, as order is all that an
 * application has to go by. The message is given up only when no buffer is left that could take
 * it: such a buffer may be what the application waits for.
 *
 * All [locked].
 */
#ifndef P2P_MULTI_RECV_H
#define P2P_MULTI_RECV_H

#include "xfer/xfer.h"

/* A receive with FI_MULTI_RECV: as xfer_post() */
ssize_t multi_recv_post(struct xfer_ep *ep, const struct p2p_op *op, const struct dev_mem *mem);

/* What the core knows a buffer by that was posted with @context, or NULL */
struct xfer_ctx *multi_recv_find(struct xfer_ep *ep, const void *context);

#endif /* P2P_MULTI_RECV_H */
