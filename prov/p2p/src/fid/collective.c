/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Collective operations. See collective.h. */
#include "fid/collective.h"

#include <rdma/fi_errno.h>

#include "base/amo.h"
#include "fid/ep.h"
#include "base/log.h"
#include "mem/mem.h"

int collective_query(struct fid_domain *fid, enum fi_collective_op collective,
		     struct fi_collective_attr *attr, uint64_t flags)
{
	struct p2p_domain *domain = domain_of(&fid->fid);

	return fi_query_collective(domain->core, collective, attr, flags);
}

int collective_av_set(struct fid_av *fid, struct fi_av_set_attr *attr,
		      struct fid_av_set **av_set, void *context)
{
	struct p2p_av *av = av_of(&fid->fid);

	/* the set is the core's, and takes the core's addresses */
	if (av_same(av))
		return fi_av_set(av->core, attr, av_set, context);
	P2P_WARN("a group of peers after one was learned that the application had not "
		 "inserted: its addresses are not the core provider's any more\n");
	return -FI_EOPNOTSUPP;
}

int collective_join(struct fid_ep *fid, const void *addr, uint64_t flags, struct fid_mc **mc,
		    void *context)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	return fi_join(ep->xfer.front.core, addr, flags, mc, context);
}

/*
 * The core's endpoint, if it may be given these buffers. NULL if not: these are no host memory, or
 * that is not known
 */
static struct fid_ep *collective_core(struct fid_ep *fid, const void *buf, const void *result,
				      size_t count, enum fi_datatype datatype)
{
	const struct p2p_ep *ep = ep_of(&fid->fid);
	/* of a type that is not known, it is known where its first byte is */
	size_t len = count * P2P_MAX(amo_size(datatype), 1);

	if (!ep->xfer.front.core->collective)
		return NULL;
	if (!mem_is_device(buf, len) && !mem_is_device(result, len))
		return ep->xfer.front.core;
	P2P_WARN("collective operations are not offered on device memory\n");
	return NULL;
}

static ssize_t collective_barrier(struct fid_ep *fid, fi_addr_t group, void *context)
{
	struct fid_ep *core = collective_core(fid, NULL, NULL, 0, FI_UINT8);

	return core ? fi_barrier(core, group, context) : -FI_EOPNOTSUPP;
}

static ssize_t collective_broadcast(struct fid_ep *fid, void *buf, size_t count, void *desc,
				    fi_addr_t group, fi_addr_t root, enum fi_datatype datatype,
				    uint64_t flags, void *context)
{
	struct fid_ep *core = collective_core(fid, buf, NULL, count, datatype);

	return core ? fi_broadcast(core, buf, count, desc, group, root, datatype, flags,
				   context)
		    : -FI_EOPNOTSUPP;
}

static ssize_t collective_alltoall(struct fid_ep *fid, const void *buf, size_t count,
				   void *desc, void *result, void *result_desc, fi_addr_t group,
				   enum fi_datatype datatype, uint64_t flags, void *context)
{
	struct fid_ep *core = collective_core(fid, buf, result, count, datatype);

	return core ? fi_alltoall(core, buf, count, desc, result, result_desc, group, datatype,
				  flags, context)
		    : -FI_EOPNOTSUPP;
}

static ssize_t collective_allreduce(struct fid_ep *fid, const void *buf, size_t count,
				    void *desc, void *result, void *result_desc,
				    fi_addr_t group, enum fi_datatype datatype, enum fi_op op,
				    uint64_t flags, void *context)
{
	struct fid_ep *core = collective_core(fid, buf, result, count, datatype);

	return core ? fi_allreduce(core, buf, count, desc, result, result_desc, group, datatype,
				   op, flags, context)
		    : -FI_EOPNOTSUPP;
}

static ssize_t collective_allgather(struct fid_ep *fid, const void *buf, size_t count,
				    void *desc, void *result, void *result_desc,
				    fi_addr_t group, enum fi_datatype datatype, uint64_t flags,
				    void *context)
{
	struct fid_ep *core = collective_core(fid, buf, result, count, datatype);

	return core ? fi_allgather(core, buf, count, desc, result, result_desc, group, datatype,
				   flags, context)
		    : -FI_EOPNOTSUPP;
}

static ssize_t collective_reduce_scatter(struct fid_ep *fid, const void *buf, size_t count,
					 void *desc, void *result, void *result_desc,
					 fi_addr_t group, enum fi_datatype datatype,
					 enum fi_op op, uint64_t flags, void *context)
{
	struct fid_ep *core = collective_core(fid, buf, result, count, datatype);

	return core ? fi_reduce_scatter(core, buf, count, desc, result, result_desc, group,
					datatype, op, flags, context)
		    : -FI_EOPNOTSUPP;
}

static ssize_t collective_reduce(struct fid_ep *fid, const void *buf, size_t count, void *desc,
				 void *result, void *result_desc, fi_addr_t group,
				 fi_addr_t root, enum fi_datatype datatype, enum fi_op op,
				 uint64_t flags, void *context)
{
	struct fid_ep *core = collective_core(fid, buf, result, count, datatype);

	return core ? fi_reduce(core, buf, count, desc, result, result_desc, group, root,
				datatype, op, flags, context)
		    : -FI_EOPNOTSUPP;
}

static ssize_t collective_scatter(struct fid_ep *fid, const void *buf, size_t count, void *desc,
				  void *result, void *result_desc, fi_addr_t group,
				  fi_addr_t root, enum fi_datatype datatype, uint64_t flags,
				  void *context)
{
	struct fid_ep *core = collective_core(fid, buf, result, count, datatype);

	return core ? fi_scatter(core, buf, count, desc, result, result_desc, group, root,
				 datatype, flags, context)
		    : -FI_EOPNOTSUPP;
}

static ssize_t collective_gather(struct fid_ep *fid, const void *buf, size_t count, void *desc,
				 void *result, void *result_desc, fi_addr_t group,
				 fi_addr_t root, enum fi_datatype datatype, uint64_t flags,
				 void *context)
{
	struct fid_ep *core = collective_core(fid, buf, result, count, datatype);

	return core ? fi_gather(core, buf, count, desc, result, result_desc, group, root,
				datatype, flags, context)
		    : -FI_EOPNOTSUPP;
}

/* The form that takes lists: cores have no such call, and nobody asks for it */
static ssize_t collective_msg(struct fid_ep *fid, const struct fi_msg_collective *msg,
			      struct fi_ioc *resultv, void **result_desc, size_t result_count,
			      uint64_t flags)
{
	return -FI_ENOSYS;
}

static ssize_t collective_barrier2(struct fid_ep *fid, fi_addr_t group, uint64_t flags,
				   void *context)
{
	struct fid_ep *core = collective_core(fid, NULL, NULL, 0, FI_UINT8);

	return core ? fi_barrier2(core, group, flags, context) : -FI_EOPNOTSUPP;
}

struct fi_ops_collective collective_ops = {
	.size = sizeof(struct fi_ops_collective),
	.barrier = collective_barrier,
	.broadcast = collective_broadcast,
	.alltoall = collective_alltoall,
	.allreduce = collective_allreduce,
	.allgather = collective_allgather,
	.reduce_scatter = collective_reduce_scatter,
	.reduce = collective_reduce,
	.scatter = collective_scatter,
	.gather = collective_gather,
	.msg = collective_msg,
	.barrier2 = collective_barrier2,
};
