/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Memory regions. */
#ifndef P2P_MR_H
#define P2P_MR_H

#include <rdma/fi_domain.h>

#include "dev/dev.h"
#include "fid/domain.h"
#include "xfer/region.h"

/**
 * struct p2p_mr - a region.
 * @core:	the core's region, whose key and descriptor it shows; NULL for memory that only
 *		we serve
 * @map:	or the mapping of device memory that it shows them of
 * @desc:	or a descriptor of ours, NULL where it has another one or none
 * @host:	of @core, where it is one piece of host memory that is to stay that; or empty.
 *		@noted: with its descriptor (desc_cache.h)
 * @region:	what peers may ask us for
 * @served:	they may
 */
struct p2p_mr {
	struct fid_mr fid;
	struct fid_mr *core;
	struct nic_map_entry *map;
	struct dev_mem *desc;
	struct iovec host;
	bool noted;
	struct p2p_domain *domain;
	struct region region;
	bool served;
};

static inline struct p2p_mr *mr_of(struct fid *fid)
{
	return container_of(fid, struct p2p_mr, fid.fid);
}

extern struct fi_ops_mr mr_ops;

#endif /* P2P_MR_H */
