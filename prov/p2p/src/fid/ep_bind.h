/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What endpoints are bound to, and their contexts, until they are enabled. */
#ifndef P2P_EP_BIND_H
#define P2P_EP_BIND_H

#include "fid/ep.h"

/* fi_ep_bind(3) */
int ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags);

/* Sets what receives without flags do */
void ep_bind_set_rx_flags(struct p2p_ep *ep, uint64_t flags);

/* Opens the queues that are missing, and enables the core's endpoint. 0 or an error */
int ep_bind_enable(struct p2p_ep *ep);

#endif /* P2P_EP_BIND_H */
