/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Over which lanes the pieces of a message travel, if any: rndv_lanes.c. All [locked]. */
#ifndef P2P_RNDV_LANES_H
#define P2P_RNDV_LANES_H

#include "proto/rndv_pieces.h"

/*
 * Chooses how many lanes a message gets that is about to be asked for, with or without others, in @pieces at
 * most. 0: none. Lanes are offered to its sender, if there may be any: later messages use them.
 */
unsigned int rndv_lanes_choose(struct xfer_req *req, bool alone, uint64_t pieces);

/*
 * Is a message from host memory worth announcing to this peer (FI_P2P_LANES_HOST)? It may have lanes then; or it brings
 * the peer to offer some. If it is short, there must be something under way with the peer already.
 */
bool rndv_lanes_carry_host(struct xfer_peer *peer, size_t len);

/* Returns how many pieces of a message over @count lanes, or none, are posted at a time. Not [locked] */
unsigned int rndv_lanes_window(unsigned int count);

/*
 * Notes over how many lanes a message's receiver asks for it. False: it did not offer those, or that is
 * forgotten, as it has been removed since. It is told to use none from now on.
 */
bool rndv_lanes_known(const struct xfer_req *req, unsigned int count);

/* Tells the receiver that asks for pieces how many lanes are used from now on, if that has changed */
void rndv_lanes_adapt(struct xfer_req *req);

/* A lane to this peer has failed: it asks for what has not come, and messages do without until lanes were tried again. */
void rndv_lanes_failed(struct xfer_peer *peer);

/* Has the receiver look, behind all pieces that lanes have been given of this message, whether they are there */
void rndv_lanes_check(struct xfer_req *req);

/* Gives a piece its lane, if its message has any */
void rndv_lanes_take(struct rndv_piece *piece);

#endif /* P2P_RNDV_LANES_H */
