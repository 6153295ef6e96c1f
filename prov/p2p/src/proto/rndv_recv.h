/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The receiver's side of long messages, from the first piece to the end. All [locked]. */
#ifndef P2P_RNDV_RECV_H
#define P2P_RNDV_RECV_H

#include "proto/rndv_pieces.h"

/* Ends the receive if nothing of it is left */
void rndv_recv_check(struct xfer_req *req);

/* Posts the pieces that there is room for. */
void rndv_pull(struct xfer_req *req);
/* Posts one piece if the request has none for want of a slot. */
void rndv_pull_starved(struct xfer_req *req);

/* Posts no more pieces; @tell: the sender does not know yet */
void rndv_recv_fail(struct xfer_req *req, int status, bool tell);

/* The same. Below number @come the receives of pieces stay, as those come all the same; by lanes they have others */
void rndv_recv_stop(struct xfer_req *req, int status, bool tell, uint64_t come);

/* A lane has died (xfer_proto.cut): asks for the rest of the messages anew, without lanes */
void rndv_recv_cut(struct xfer_peer *peer, uint64_t id, unsigned int lane, uint64_t next);

/* Tells the sender of the pieces that have been posted since it was told last */
void rndv_grant(struct xfer_req *req);

/* The core has read the message; or failed, with @status: what is not in flight of it ends */
void rndv_read_end(struct xfer_req *req, int status);

#endif /* P2P_RNDV_RECV_H */
