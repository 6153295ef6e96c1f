/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Eager messages: they travel whole. Either end copies between the device and a host buffer
 * that the core sends from or receives into.
 */
#ifndef P2P_EAGER_H
#define P2P_EAGER_H

#include "xfer/req.h"

/*
 * Begin a request [locked]. 0; or -FI_EAGAIN when staging memory is short, or another
 * error: then the caller frees the request. eager_send_as() gives it remote cq data of
 * ours, whatever the user's is, and ends with @done.
 */
ssize_t eager_send_as(struct xfer_req *req, uint64_t data,
		      void (*done)(struct xfer_ctx *ctx, const struct core_comp *comp));
/* of host memory: the core's own send, but we hear of its end */
ssize_t eager_send_followed(struct xfer_req *req, const struct p2p_op *op);
/* Posts a receive to the core, into the user's buffer or a copy of ours. */
ssize_t eager_recv(struct xfer_req *req, const struct p2p_op *op);

/*
 * Copies what is to be sent, though it has yet to wait: the buffer is the user's again. The request has the copy, and
 * is sent from there when it begins. As above [locked]
 */
int eager_keep(struct xfer_req *req);

/*
 * It fails. A receive may wait for it: who can end that does. Else this end alone is told, in its turn, which the caller
 * looks for (xfer_sendq_flush())
 */
void eager_give_up(struct xfer_req *req, int status);

#endif /* P2P_EAGER_H */
