/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Announced messages of which no pieces come: refused, discarded, or asked for whole.
 * All [locked].
 */
#ifndef P2P_RNDV_PLAIN_H
#define P2P_RNDV_PLAIN_H

#include "proto/rndv_match.h"

/*
 * A marker has come to a receive that is not followed up, because it is shorter than
 * any announced message: the message is truncated, and nothing of it travels.
 */
void rndv_marker_untracked(struct xfer_cq *cq, const struct core_comp *comp);

/*
 * A marker has come and its message is not wanted: the request ends when the sender has
 * been told.
 */
void rndv_discard(struct xfer_req *req);

/*
 * A marker has come to a multi-receive buffer: asks the sender for the message itself.
 * @gone is called with @held if it will not come, which may be at once.
 */
void rndv_divert(struct xfer_ep *ep, uint64_t id, void *held, void (*gone)(void *held));

/*
 * It has come: puts the user's own data into its completion, and returns what
 * rndv_divert() was given; NULL when nobody has asked for it. A process that was here before
 * may have, at this address: its data was told to that one, so the completion is an error.
 */
void *rndv_diverted(struct xfer *xfer, struct core_comp *comp);

/* A message that was to come by itself will not */
void rndv_divert_fail(struct xfer_arrival *arrival);

#endif /* P2P_RNDV_PLAIN_H */
