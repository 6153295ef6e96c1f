/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Passive endpoints. */
#ifndef P2P_PEP_H
#define P2P_PEP_H

#include <rdma/fi_endpoint.h>

#include "base/base.h"
#include "fid/fabric.h"
#include "fid/fid.h"

/**
 * struct p2p_pep - a passive endpoint.
 * @fabric:	whose it is
 * @info:	what it was opened with; NULL: the core's infos need no change
 * @core_info:	what @core was opened with, and may still read: see domain.h
 */
struct p2p_pep {
	struct fid_pep fid;
	struct fid_pep *core;
	const struct p2p_fabric *fabric;
	struct fi_info *info;
	struct fi_info *core_info;
	struct fid_pair pair;
};

static inline struct p2p_pep *pep_of(struct fid *fid)
{
	return container_of(fid, struct p2p_pep, fid.fid);
}

int pep_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
	     void *context);

#endif /* P2P_PEP_H */
