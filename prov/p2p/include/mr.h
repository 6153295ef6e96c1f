/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Rank 5: memory regions. */
#ifndef P2P_MR_H
#define P2P_MR_H

#include <rdma/fi_domain.h>

#include "dev.h"
#include "domain.h"

/**
 * struct p2p_mr - a region.
 * @core:	the core's region, whose key and descriptor it shows; NULL for device
 *		memory, which no core here can reach
 */
struct p2p_mr {
	struct fid_mr fid;
	struct fid_mr *core;
	struct p2p_domain *domain;
};

extern struct fi_ops_mr mr_ops;

#endif /* P2P_MR_H */
