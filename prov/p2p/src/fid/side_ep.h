/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The side endpoint.
 *
 * A core with QUIRK_STALLS stops reading from a peer at a message that has no receive. Pieces of a
 * long message, and the answers that ask for them, would wait behind it. The application may not post
 * that receive before the long message has ended: nothing would move.
 *
 * So over such a core each of the application's endpoints that sends or receives long messages from
 * device memory gets a second one beside it, with connections of its own. All that comes there is
 * ours, and has a receive. Both report to the same queues. Peers learn its name from greetings (hello.h).
 */
#ifndef P2P_SIDE_EP_H
#define P2P_SIDE_EP_H

#include "fid/ep.h"

/* Prepares one for @ep, which is opened with @core at the core. xfer_ep_side() opens it. 0 or -FI_ENOMEM */
int side_ep_init(struct p2p_ep *ep, const struct fi_info *core);

/* Frees it, after xfer_ep_fini() of @ep; or does nothing if @ep has none */
void side_ep_fini(struct p2p_ep *ep);

#endif /* P2P_SIDE_EP_H */
