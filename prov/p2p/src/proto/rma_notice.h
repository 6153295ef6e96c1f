/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Writes with remote cq data that take a receive at their target (FI_RX_CQ_DATA), as NICs' do. Cores over sockets
 * have no such writes. So an empty message follows the write, and brings the data.
 */
#ifndef P2P_RMA_NOTICE_H
#define P2P_RMA_NOTICE_H

#include "xfer/req.h"

/*
 * Makes a request as xfer_req_new_rma() does, with what it takes to tell of a write (struct p2p_op.notices)
 * [locked]
 */
struct xfer_req *rma_notice_req(struct xfer_ep *ep, const struct p2p_op *op,
				const struct dev_mem *mem);

/* Who the message of this record goes to; FI_ADDR_NOTAVAIL: it is none of these */
fi_addr_t rma_notice_addr(const struct xfer_ctx *ctx);

#endif /* P2P_RMA_NOTICE_H */
