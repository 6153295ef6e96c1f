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
 * @core:	the core's region, whose key and descriptor the application sees; or NULL
 * @map:	the mapping of device memory whose key and descriptor it sees; or NULL
 * @desc:	a descriptor of ours; NULL: the region has another one or none
 * @host:	the memory of @core, if that is one piece of host memory and stays so; else empty
 * @noted:	desc_cache.h has @host with its descriptor
 * @region:	what peers may ask us for, if it is @served
 * @own:	it is offered to peers' kernels, once one has asked for that
 * @pmem:	what peers write there is made durable by us, where they ask for that
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
	struct ipc_own own;
	enum pmem_kind pmem;
};

static inline struct p2p_mr *mr_of(struct fid *fid)
{
	return container_of(fid, struct p2p_mr, fid.fid);
}

extern struct fi_ops_mr mr_ops;

#endif /* P2P_MR_H */
