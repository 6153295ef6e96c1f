/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Long messages from device memory, in pieces; the protocol of wire.h.
 *
 * Sending, a piece takes a slot, is copied out of the device, sent, and gives the slot
 * back. Receiving, pieces are posted ahead of the sender: straight into the user's buffer
 * if that is host memory, else into slots from which they are copied to the device. So
 * copy, wire and copy run at the same time. All [locked].
 */
#ifndef P2P_RNDV_H
#define P2P_RNDV_H

#include "xfer/xfer.h"

/* Begins a send: 0, or an error, and the caller frees the request. */
ssize_t rndv_send(struct xfer_req *req);

/*
 * Begins a send that the receiver asked for: @type is WIRE_WRITE (to @key, @addr) or
 * WIRE_SUPPLY (for the read whose id is @key). 0 or an error, as above.
 */
int rndv_send_unmarked(struct xfer_req *req, enum wire_type type, uint64_t key, uint64_t addr);

/* Begins to receive what @msg announces, without a marker */
void rndv_recv_unmarked(struct xfer_req *req, const struct wire_msg *msg);

/* The core has read what rma_core_pull() was to read, or failed (rndv.status) */
void rndv_read_end(struct xfer_req *req);

/* A number for a transaction that begins here */
uint64_t rndv_id_new(struct xfer *xfer);

/* Enters a request whose peer will answer to its id */
void rndv_sending_add(struct xfer_req *req);
void rndv_sending_remove(struct xfer_req *req);

/* Ends a send if nothing of it is left */
void rndv_send_check(struct xfer_req *req);

/* A marker has come to a request's receive (its completion is in req->comp). */
void rndv_matched(struct xfer_req *req);

/*
 * A marker has come to a receive that is not followed up, because it is shorter than
 * any announced message: the message is truncated, and nothing of it travels.
 */
void rndv_marker_untracked(struct xfer_cq *cq, const struct core_comp *comp);

/*
 * A marker has come to a peek (its completion is in req->comp): peek_found() is called,
 * now or as soon as the message is announced, with its own length and data there instead.
 */
void rndv_peeked(struct xfer_req *req);

/*
 * Has the marker with this id been received, so that whatever seems to be it now is another
 * message, shown with data that the marker has left behind? Asked where peeks tell data
 * without saying whose it is (xfer_ep.peek_data).
 */
bool rndv_marker_spent(const struct xfer *xfer, uint64_t id);

/*
 * A marker has come and its message is not wanted: the request ends when the sender has
 * been told.
 */
void rndv_discard(struct xfer_req *req);

/*
 * A marker has come to a multi-receive buffer: asks the sender for the message itself.
 * @held is what multi_recv_lost() is told if it will not come, which may be at once.
 */
void rndv_divert(struct xfer_ep *ep, uint64_t id, struct multi_recv_msg *held);

/*
 * It has come: puts the user's own data into its completion, and returns what
 * rndv_divert() was given; NULL when nobody has asked for it.
 */
struct multi_recv_msg *rndv_diverted(struct xfer *xfer, struct core_comp *comp);

/* A control message has come. */
void rndv_control(struct xfer_ep *ep, const struct wire_msg *msg);

/* A message is announced in a way that we cannot read: what its marker matches fails. */
void rndv_unreadable(struct xfer_ep *ep, uint64_t id);

/* @owner's board can be read now: what is announced there may have been waited for. */
void rndv_board_found(struct xfer_ep *ep, uint64_t owner);

/* Nothing can be sent to @addr: ends with @status what is under way with that peer. */
void rndv_peer_lost(struct xfer_ep *ep, fi_addr_t addr, int status);

/* A clock that is cheap to read [ms] */
uint64_t rndv_now(void);

/* Begins what pieces can begin, and looks after transfers that do not move. */
void rndv_progress(struct xfer *xfer);

/* Receives end that waited for their senders to be told of it by ctrl_flush() */
void rndv_told(struct xfer *xfer);

/* Forgets a request whose endpoint closes. */
void rndv_req_drop(struct xfer_req *req);

/* Forgets what would be reported in a queue that closes. */
void rndv_cq_drop(struct xfer_cq *cq);

/* Forgets everything, as the domain closes. */
void rndv_fini(struct xfer *xfer);

#endif /* P2P_RNDV_H */
