/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The table of states: what may follow, which list a state means, and which control messages
 * fit. All [locked], but for what only looks up the table.
 */
#ifndef P2P_REQ_STATE_H
#define P2P_REQ_STATE_H

#include "xfer/req.h"

/* What becomes of a control message, by the state of what it is about */
enum xfer_fit {
	XFER_FITS,  /* it is acted on */
	XFER_LATE,  /* it has crossed with what ended here: it is ignored */
	XFER_WRONG, /* no honest peer sends it now: it is dropped, counted, and said once */
};

/*
 * Changes a request's state: takes it off the list of the old one, and puts it last on that of the new
 * one. Debug builds end when the one may not follow the other.
 */
void xfer_req_move(struct xfer_req *req, enum xfer_state state);

/* Tells by the table whether a control message fits a request in this state. Not [locked] */
enum xfer_fit xfer_state_fit(enum xfer_state state, enum wire_type type);
bool xfer_state_follows(enum xfer_state state, enum xfer_state next);
const char *xfer_state_name(enum xfer_state state);

/* Tells whether a control message fits a request; logs and counts what is wrong. */
bool xfer_req_fits(struct xfer_req *req, enum wire_type type);

/* A control message of this type fits nothing here: counts it, and says so once */
void xfer_message_wrong(struct xfer *xfer, enum wire_type type, const char *where);

/* Does @step for all requests in a state that has a list. It may end the one that it is called for. */
void xfer_req_each(struct xfer *xfer, enum xfer_state state,
		   void (*step)(struct xfer_req *req));

/* Makes a request one that travels in parts. */
void xfer_transfer_init(struct xfer_req *req);

/* Makes this peer the one at a request's other end. */
void xfer_req_meet(struct xfer_req *req, struct xfer_peer *peer);

/* Withdraws what was announced of a transfer: its note comes down, its offer falls */
void xfer_transfer_recall(struct xfer_req *req);

/* Makes an id for a transaction that begins here */
uint64_t xfer_id_new(struct xfer *xfer);

/* Returns the request under way whose peer answers to this id, or NULL */
struct xfer_req *xfer_req_find(const struct xfer *xfer, uint64_t id);

#endif /* P2P_REQ_STATE_H */
