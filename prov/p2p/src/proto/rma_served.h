/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Remote memory that is reached by asking its owner: rma_served.c asks, rma_serving.c serves. Short
 * data travels with the request or the answer. Long data is read out of a slot (rma_lent.h), or travels
 * as a long message (rndv.c). Nothing waits for a copy but a call with FI_INJECT. All [locked].
 */
#ifndef P2P_RMA_SERVED_H
#define P2P_RMA_SERVED_H

#include "xfer/req.h"

/* Bytes of one atomic operation: operands and compare values share one payload */
#define RMA_SERVED_ATOMIC_MAX (WIRE_PAYLOAD_MAX / 2)

/* Posts an operation whose buffer lies in @mem. 0, -FI_EAGAIN or another error */
ssize_t rma_served_post(struct xfer_ep *ep, const struct p2p_op *op, const struct dev_mem *mem);
ssize_t rma_served_atomic(struct xfer_ep *ep, const struct p2p_op *op);

/* Elements of @datatype that one atomic operation may have. Not [locked] */
size_t rma_served_atomic_max(enum fi_datatype datatype);

/*
 * What is too long for one control message becomes a transfer, and is offered or lent to the other end where that may be
 * of use. 0, or -FI_EOPNOTSUPP when it has to be offered and cannot (logged)
 */
int rma_served_offer(struct xfer_req *req);

/* Ends a request of ours as its answer says */
void rma_served_result(struct xfer_ep *ep, struct xfer_req *req, const struct wire_msg *msg);

#endif /* P2P_RMA_SERVED_H */
