/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rank 4: long messages from device memory, in pieces; the protocol of wire.h.
 *
 * Sending, a piece takes a slot, is copied out of the device, sent, and gives the slot
 * back. Receiving, pieces are posted ahead of the sender: straight into the user's buffer
 * if that is host memory, else into slots from which they are copied to the device. So
 * copy, wire and copy run at the same time. All [locked].
 */
#ifndef P2P_PIPE_H
#define P2P_PIPE_H

#include "xfer.h"

/* Begins a send: 0, or an error, and the caller frees the request. */
ssize_t pipe_send(struct xfer_req *req);

/*
 * Begins a send that the receiver asked for: @type is WIRE_WRITE (to @key, @addr) or
 * WIRE_SUPPLY (for the read whose id is @key). 0 or an error, as above.
 */
int pipe_send_unmarked(struct xfer_req *req, enum wire_type type, uint64_t key,
		       uint64_t addr);

/* Begins to receive what @msg announces, without a marker */
void pipe_recv_unmarked(struct xfer_req *req, const struct wire_msg *msg);

/* The core has read what bounce_pull() was to read, or failed (pipe.status) */
void pipe_read_end(struct xfer_req *req);

/* A number for a transaction that begins here */
uint64_t pipe_id_new(struct xfer *xfer);

/* Enters a request whose peer will answer to its id */
void pipe_sending_add(struct xfer_req *req);
void pipe_sending_remove(struct xfer_req *req);

/* Ends a send if nothing of it is left */
void pipe_send_check(struct xfer_req *req);

/* A marker has come to a request's receive (its completion is in req->comp). */
void pipe_matched(struct xfer_req *req);

/*
 * A marker has come to a receive that is not followed up, because it is shorter than
 * any announced message: the message is truncated, and nothing of it travels.
 */
void pipe_marker_untracked(struct xfer_cq *cq, const struct core_comp *comp);

/*
 * A marker has come to a peek (its completion is in req->comp): probe_found() is called,
 * now or as soon as the message is announced, with its own length and data there instead.
 */
void pipe_peeked(struct xfer_req *req);

/*
 * Has the marker with this id been received, so that whatever seems to be it now is another
 * message, shown with data that the marker has left behind? Asked where peeks tell data
 * without saying whose it is (xfer_ep.peek_data).
 */
bool pipe_marker_spent(const struct xfer *xfer, uint64_t id);

/*
 * A marker has come and its message is not wanted: the request ends when the sender has
 * been told.
 */
void pipe_discard(struct xfer_req *req);

/*
 * A marker has come to a multi-receive buffer: asks the sender for the message itself.
 * @held is what multi_lost() is told if it will not come, which may be at once.
 */
void pipe_divert(struct xfer_ep *ep, uint64_t id, struct multi_msg *held);

/*
 * It has come: puts the user's own data into its completion, and returns what
 * pipe_divert() was given; NULL when nobody has asked for it.
 */
struct multi_msg *pipe_diverted(struct xfer *xfer, struct core_comp *comp);

/* A control message has come. */
void pipe_control(struct xfer_ep *ep, const struct wire_msg *msg);

/* A message is announced in a way that we cannot read: what its marker matches fails. */
void pipe_unreadable(struct xfer_ep *ep, uint64_t id);

/* @owner's board can be read now: what is announced there may have been waited for. */
void pipe_board_found(struct xfer_ep *ep, uint64_t owner);

/* Nothing can be sent to @addr: ends with @status what is under way with that peer. */
void pipe_peer_lost(struct xfer_ep *ep, fi_addr_t addr, int status);

/* A clock that is cheap to read [ms] */
uint64_t pipe_now(void);

/* Begins what pieces can begin, and looks after transfers that do not move. */
void pipe_progress(struct xfer *xfer);

/* Receives end that waited for their senders to be told of it by ctrl_flush() */
void pipe_told(struct xfer *xfer);

/* Forgets a request whose endpoint closes. */
void pipe_req_drop(struct xfer_req *req);

/* Forgets what would be reported in a queue that closes. */
void pipe_cq_drop(struct xfer_cq *cq);

/* Forgets everything, as the domain closes. */
void pipe_fini(struct xfer *xfer);

#endif /* P2P_PIPE_H */
