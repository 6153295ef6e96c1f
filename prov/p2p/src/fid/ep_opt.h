/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Options of endpoints: fi_getopt() and fi_setopt(). Options that are not about device memory are the core's. */
#ifndef P2P_EP_OPT_H
#define P2P_EP_OPT_H

#include "fid/ep.h"

int ep_opt_get(fid_t fid, int level, int name, void *value, size_t *len);
int ep_opt_set(fid_t fid, int level, int name, const void *value, size_t len);

/* Lets device memory go the ways that this value of FI_OPT_FI_HMEM_P2P, and FI_P2P_PATH, allow */
void ep_opt_set_hmem_p2p(struct p2p_ep *ep, int hmem_p2p);

#endif /* P2P_EP_OPT_H */
