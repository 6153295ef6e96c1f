/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The endpoint aside.
 *
 * A core with QUIRK_STALLS stops reading from a peer at a message that has no receive. Pieces of
 * a long message, and the answers that ask for them, would wait behind it. The application may
 * not post that receive before the long message has ended. So there is a second endpoint, with
 * connections of its own, beside each of the application's that sends or receives long messages
 * from device memory. All that comes there is ours, and has a receive. It reports to the same
 * queues. Peers learn its name from announcements and from the answers to them (wire.h).
 */
#ifndef P2P_SIDE_EP_H
#define P2P_SIDE_EP_H

#include "fid/av.h"
#include "xfer/xfer.h"

struct p2p_ep;

/**
 * struct p2p_aside - what it takes; it is opened by xfer_ep_beside().
 * @info:	what to open it with: a copy of what the application's was opened with
 * @av:		the peers' endpoints aside
 */
struct p2p_aside {
	struct xfer_ep xfer;
	struct p2p_ep *ep;
	struct fi_info *info;
	struct p2p_av *av;
};

/* @core: what @ep is opened with, at the core. 0 or -FI_ENOMEM */
int side_ep_init(struct p2p_ep *ep, const struct fi_info *core);

/* After xfer_ep_fini() of the application's endpoint, or where there was none */
void side_ep_fini(struct p2p_ep *ep);

#endif /* P2P_SIDE_EP_H */
