/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The statistics of an endpoint: an application asks for them, or they are printed when it closes. */
#ifndef P2P_EP_STATS_H
#define P2P_EP_STATS_H

#include "fid/ep.h"

/*
 * fi_open_ops(FI_P2P_STATS_OPS): true, with *@ops, if that is @name and @fid an endpoint. From then
 * on the endpoint counts host messages, too.
 */
bool ep_stats_own_ops(struct fid *fid, const char *name, void **ops);

/* Prints what the endpoint has counted, as FI_P2P_STATS wants it */
void ep_stats_print(const struct p2p_ep *ep);

#endif /* P2P_EP_STATS_H */
