/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Queues and endpoints: their beginning and their end. */
#ifndef P2P_LIFE_H
#define P2P_LIFE_H

#include "xfer/xfer.h"

/* Adds and removes queues; the caller has set core, source, silent and fd. */
void xfer_cq_init(struct xfer_cq *cq, struct xfer *xfer);

/* Is it bound to an endpoint? Its close is -FI_EBUSY, then */
bool xfer_cq_busy(const struct xfer_cq *cq);

/* Closes the core's queue. 0 or the core's error; then the queue is as before. */
int xfer_cq_fini(struct xfer_cq *cq);

/*
 * Begins an endpoint, before there is one of the core's: 0 or -FI_ENOMEM. Then it is added to its domain,
 * or undone. The caller sets the rest before it is started
 */
int xfer_ep_init(struct xfer_ep *ep, struct xfer *xfer);
void xfer_ep_add(struct xfer_ep *ep);
void xfer_ep_undo(struct xfer_ep *ep);

/* The core's endpoint is enabled: posts the internal receives. */
void xfer_ep_start(struct xfer_ep *ep);

/*
 * Closes the core's endpoint, and the side channel, and ends what was under way on them without
 * reports. 0 or the core's error; then the endpoint is as before.
 */
int xfer_ep_fini(struct xfer_ep *ep);

#endif /* P2P_LIFE_H */
