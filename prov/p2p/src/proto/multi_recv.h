/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Buffers for many messages (FI_MULTI_RECV).
 *
 * The core packs messages into a host buffer itself, and for device memory into a reserve
 * of the same length, from which each is copied to the same place of the device's.
 *
 * A marker finds no room for its message there. The sender then sends the message as it
 * is, and until it has come, what came after it from the same peer is not reported: order
 * is all that an application has to go by. It is given up only when no buffer is left
 * that could take the message, since such a buffer may be what the application waits for.
 *
 * All [locked].
 */
#ifndef P2P_MULTI_RECV_H
#define P2P_MULTI_RECV_H

#include "xfer/xfer.h"

/* A receive with FI_MULTI_RECV: as xfer_post() */
ssize_t multi_recv_post(struct xfer_ep *ep, const struct core_op *op,
			const struct dev_mem *mem);

/* What the core knows a buffer by that was posted with @context, or NULL */
struct xfer_ctx *multi_recv_find(struct xfer_ep *ep, const void *context);

#endif /* P2P_MULTI_RECV_H */
