/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The core's own operations on remote memory, with device memory at this end. Either the NIC
 * has that memory, or it is staged piece by piece. The peer need not know. All [locked].
 */
#ifndef P2P_RMA_CORE_H
#define P2P_RMA_CORE_H

#include "xfer/req.h"

/*
 * Posts an operation whose buffer lies in @mem; host memory goes to the core as it is, with
 * the completion followed. 0, -FI_EAGAIN or another error; or 0 with @owner: the owner is to be asked
 * instead, as the core would count it several times
 */
ssize_t rma_core_post(struct xfer_ep *ep, const struct p2p_op *op, const struct dev_mem *mem,
		      bool *owner);
ssize_t rma_core_atomic(struct xfer_ep *ep, const struct p2p_op *op);

/*
 * Reads a message's bytes, @from the memory of the peer @addr, into its receive's buffer.
 * The NIC has the buffer (pin.h), or it is device memory that is staged. Ends with
 * rndv_read_end().
 */
void rma_core_pull(struct xfer_req *req, const struct fi_rma_iov *from, fi_addr_t addr);

#endif /* P2P_RMA_CORE_H */
