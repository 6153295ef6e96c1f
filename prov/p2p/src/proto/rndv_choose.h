/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Marker and announcement have met: chooses how the message is received, and begins.
 * All [locked].
 */
#ifndef P2P_RNDV_CHOOSE_H
#define P2P_RNDV_CHOOSE_H

#include "xfer/req.h"
#include "xfer/wire.h"

/* Begins to receive what @msg announces, without a marker */
void rndv_recv_unmarked(struct xfer_req *req, const struct wire_msg *msg);

/* Takes a request whose receive has met a marker (its completion is in req->comp). */
void rndv_matched(struct xfer_req *req);

#endif /* P2P_RNDV_CHOOSE_H */
