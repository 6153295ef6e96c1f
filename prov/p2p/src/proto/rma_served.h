/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Remote memory that is reached by asking its owner (wire.h), at both ends. What is
 * short travels with the request or the answer; the rest in pieces (rndv.h). All [locked].
 */
#ifndef P2P_RMA_SERVED_H
#define P2P_RMA_SERVED_H

#include "xfer/req.h"

/* Posts an operation whose buffer lies in @mem. 0, -FI_EAGAIN or another error */
ssize_t rma_served_post(struct xfer_ep *ep, const struct core_rma *op,
			const struct dev_mem *mem);
ssize_t rma_served_atomic(struct xfer_ep *ep, const struct core_atomic *op);

/* Elements of @datatype that one atomic operation may have */
size_t rma_served_atomic_max(enum fi_datatype datatype);

#endif /* P2P_RMA_SERVED_H */
