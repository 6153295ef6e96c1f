/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The sender's side of long messages. All [locked]. */
#ifndef P2P_RNDV_SEND_H
#define P2P_RNDV_SEND_H

#include "proto/rndv_pieces.h"
#include "xfer/wire.h"

/*
 * Announces a send, and sends its marker before or after that. 0, or an error, and the caller frees the
 * request.
 */
ssize_t rndv_start(struct xfer_req *req, const struct p2p_op *op);

/* Makes a request a transfer to a peer that is known */
void rndv_send_init(struct xfer_req *req);

/*
 * Begins a transfer without a marker: a write to its target, or, of what serves a peer, the bytes of the read whose id is
 * the target's key. 0 or an error, as above.
 */
int rndv_send_unmarked(struct xfer_req *req);

/* Ends a send of which nothing is left, with transfer.status */
void rndv_send_end(struct xfer_req *req);

/*
 * Announces what is to come. The caller moves the request on. 0 or an error (logged): it is as if it had not been called
 */
int rndv_announce(struct xfer_req *req);

/* Puts an announced message's marker in its turn. */
void rndv_marker_queue(struct xfer_req *req);

/*
 * It could not be copied, or begun. A receive may wait for it, and ends with @status: the message is announced, and
 * given up. It is MARKING then; else its peer takes no announcements, or there is no room for one
 */
void rndv_announce_failure(struct xfer_req *req, int status);

/* Notes how the marker's send has ended; or, of what could not be announced, how that has */
void rndv_marker_sent(struct xfer_ctx *ctx, const struct core_comp *comp);

/* Begins the pieces that are asked for, and that there are slots for */
void rndv_push(struct xfer_req *req);

/* Begins no more pieces; @tell: the receiver does not know yet */
void rndv_send_fail(struct xfer_req *req, int status, bool tell);

/* Its peer is lost: what waits on lanes for it is taken back, and nothing more is given to the core */
void rndv_send_forsake(struct xfer_req *req);

/* Does what the receiver asks for: pieces, more of them, the whole message, or nothing. Or it has all */
void rndv_take(struct xfer_ep *ep, struct xfer_req *req, const struct wire_msg *msg);
void rndv_received(struct xfer_ep *ep, struct xfer_req *req, const struct wire_msg *msg);

#endif /* P2P_RNDV_SEND_H */
