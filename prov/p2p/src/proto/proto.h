/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The table of protocols: one row, and one file or more, for each way that bytes travel. The
 * file of a protocol begins with its sequence diagram. In it, ---> is a message between endpoints, and ===> anything else:
 * memory that one side reaches at the other, a note, a datagram, a lane's first message. Capitals are states (xfer/req.h),
 * from that line on. A new protocol is a new file and row.
 *
 * Announcement and marker may arrive in either order. Either side may send DONE at any time, or PROBE after a long
 * silence. docs/wire.md describes the messages without the code.
 */
#ifndef P2P_PROTO_H
#define P2P_PROTO_H

#include "xfer/xfer_proto.h"

extern const struct xfer_proto eager_proto;
extern const struct xfer_proto hello_proto;
extern const struct xfer_proto post_proto;
extern const struct xfer_proto multi_recv_proto;
extern const struct xfer_proto rma_core_proto;
extern const struct xfer_proto rma_notice_proto;
extern const struct xfer_proto rma_served_proto;
extern const struct xfer_proto rndv_lanes_proto;
extern const struct xfer_proto rndv_lent_proto;
extern const struct xfer_proto rndv_proto;

/* For xfer_init(): all of them, and those that take no peer of ours */
extern const struct xfer_protos protos;
extern const struct xfer_protos protos_alone;

#endif /* P2P_PROTO_H */
