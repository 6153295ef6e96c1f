/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rank 5: the calls of fi_atomic(3), through a hook, for host memory: the core's own calls.
 * The layered provider does not offer FI_ATOMIC.
 */
#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>

#include "ep.h"
#include "log.h"
#include "mem.h"

/* Is this something that the core may be given? 0 or an error, logged */
static int atomic_check(struct p2p_ep *ep, const void *a, const void *b, const void *c)
{
	if (ep->xfer.layered) {
		P2P_WARN("FI_ATOMIC is not offered\n");
		return -FI_EOPNOTSUPP;
	}
	if (mem_is_device(a, 1) || mem_is_device(b, 1) || mem_is_device(c, 1)) {
		P2P_WARN("device memory in an atomic operation is not supported\n");
		return -FI_EOPNOTSUPP;
	}
	return 0;
}

static const void *atomic_first(const struct fi_ioc *ioc, size_t count)
{
	return ioc && count ? ioc->addr : NULL;
}

static ssize_t atomic_write(struct fid_ep *fid, const void *buf, size_t count, void *desc,
			    fi_addr_t dest, uint64_t addr, uint64_t key,
			    enum fi_datatype datatype, enum fi_op op, void *context)
{
	struct p2p_ep *ep = (struct p2p_ep *) fid;
	int ret = atomic_check(ep, buf, NULL, NULL);

	return ret ? ret
		   : fi_atomic(ep->xfer.core, buf, count, desc, av_core_addr(ep->av, dest),
			       addr, key, datatype, op, context);
}

static ssize_t atomic_writev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc,
			     size_t count, fi_addr_t dest, uint64_t addr, uint64_t key,
			     enum fi_datatype datatype, enum fi_op op, void *context)
{
	struct p2p_ep *ep = (struct p2p_ep *) fid;
	int ret = atomic_check(ep, atomic_first(iov, count), NULL, NULL);

	return ret ? ret
		   : fi_atomicv(ep->xfer.core, iov, desc, count, av_core_addr(ep->av, dest),
				addr, key, datatype, op, context);
}

static ssize_t atomic_writemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
			       uint64_t flags)
{
	struct p2p_ep *ep = (struct p2p_ep *) fid;
	struct fi_msg_atomic core_msg = *msg;
	int ret = atomic_check(ep, atomic_first(msg->msg_iov, msg->iov_count), NULL, NULL);

	core_msg.addr = av_core_addr(ep->av, msg->addr);
	return ret ? ret : fi_atomicmsg(ep->xfer.core, &core_msg, flags);
}

static ssize_t atomic_inject(struct fid_ep *fid, const void *buf, size_t count,
			     fi_addr_t dest, uint64_t addr, uint64_t key,
			     enum fi_datatype datatype, enum fi_op op)
{
	struct p2p_ep *ep = (struct p2p_ep *) fid;
	int ret = atomic_check(ep, buf, NULL, NULL);

	return ret ? ret
		   : fi_inject_atomic(ep->xfer.core, buf, count, av_core_addr(ep->av, dest),
				      addr, key, datatype, op);
}

static ssize_t atomic_readwrite(struct fid_ep *fid, const void *buf, size_t count,
				void *desc, void *result, void *result_desc, fi_addr_t dest,
				uint64_t addr, uint64_t key, enum fi_datatype datatype,
				enum fi_op op, void *context)
{
	struct p2p_ep *ep = (struct p2p_ep *) fid;
	int ret = atomic_check(ep, buf, result, NULL);

	return ret ? ret
		   : fi_fetch_atomic(ep->xfer.core, buf, count, desc, result, result_desc,
				     av_core_addr(ep->av, dest), addr, key, datatype, op,
				     context);
}

static ssize_t atomic_readwritev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc,
				 size_t count, struct fi_ioc *resultv, void **result_desc,
				 size_t result_count, fi_addr_t dest, uint64_t addr,
				 uint64_t key, enum fi_datatype datatype, enum fi_op op,
				 void *context)
{
	struct p2p_ep *ep = (struct p2p_ep *) fid;
	int ret = atomic_check(ep, atomic_first(iov, count),
			       atomic_first(resultv, result_count), NULL);

	return ret ? ret
		   : fi_fetch_atomicv(ep->xfer.core, iov, desc, count, resultv, result_desc,
				      result_count, av_core_addr(ep->av, dest), addr, key,
				      datatype, op, context);
}

static ssize_t atomic_readwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
				   struct fi_ioc *resultv, void **result_desc,
				   size_t result_count, uint64_t flags)
{
	struct p2p_ep *ep = (struct p2p_ep *) fid;
	struct fi_msg_atomic core_msg = *msg;
	int ret = atomic_check(ep, atomic_first(msg->msg_iov, msg->iov_count),
			       atomic_first(resultv, result_count), NULL);

	core_msg.addr = av_core_addr(ep->av, msg->addr);
	return ret ? ret
		   : fi_fetch_atomicmsg(ep->xfer.core, &core_msg, resultv, result_desc,
					result_count, flags);
}

static ssize_t atomic_compwrite(struct fid_ep *fid, const void *buf, size_t count,
				void *desc, const void *compare, void *compare_desc,
				void *result, void *result_desc, fi_addr_t dest,
				uint64_t addr, uint64_t key, enum fi_datatype datatype,
				enum fi_op op, void *context)
{
	struct p2p_ep *ep = (struct p2p_ep *) fid;
	int ret = atomic_check(ep, buf, compare, result);

	return ret ? ret
		   : fi_compare_atomic(ep->xfer.core, buf, count, desc, compare,
				       compare_desc, result, result_desc,
				       av_core_addr(ep->av, dest), addr, key, datatype, op,
				       context);
}

static ssize_t atomic_compwritev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc,
				 size_t count, const struct fi_ioc *comparev,
				 void **compare_desc, size_t compare_count,
				 struct fi_ioc *resultv, void **result_desc,
				 size_t result_count, fi_addr_t dest, uint64_t addr,
				 uint64_t key, enum fi_datatype datatype, enum fi_op op,
				 void *context)
{
	struct p2p_ep *ep = (struct p2p_ep *) fid;
	int ret = atomic_check(ep, atomic_first(iov, count),
			       atomic_first(comparev, compare_count),
			       atomic_first(resultv, result_count));

	return ret ? ret
		   : fi_compare_atomicv(ep->xfer.core, iov, desc, count, comparev,
					compare_desc, compare_count, resultv, result_desc,
					result_count, av_core_addr(ep->av, dest), addr, key,
					datatype, op, context);
}

static ssize_t atomic_compwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
				   const struct fi_ioc *comparev, void **compare_desc,
				   size_t compare_count, struct fi_ioc *resultv,
				   void **result_desc, size_t result_count, uint64_t flags)
{
	struct p2p_ep *ep = (struct p2p_ep *) fid;
	struct fi_msg_atomic core_msg = *msg;
	int ret = atomic_check(ep, atomic_first(msg->msg_iov, msg->iov_count),
			       atomic_first(comparev, compare_count),
			       atomic_first(resultv, result_count));

	core_msg.addr = av_core_addr(ep->av, msg->addr);
	return ret ? ret
		   : fi_compare_atomicmsg(ep->xfer.core, &core_msg, comparev, compare_desc,
					  compare_count, resultv, result_desc, result_count,
					  flags);
}

static int atomic_writevalid(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op,
			     size_t *count)
{
	struct p2p_ep *ep = (struct p2p_ep *) fid;

	return ep->xfer.layered ? -FI_EOPNOTSUPP
				: fi_atomicvalid(ep->xfer.core, datatype, op, count);
}

static int atomic_readwritevalid(struct fid_ep *fid, enum fi_datatype datatype,
				 enum fi_op op, size_t *count)
{
	struct p2p_ep *ep = (struct p2p_ep *) fid;

	return ep->xfer.layered ? -FI_EOPNOTSUPP
				: fi_fetch_atomicvalid(ep->xfer.core, datatype, op, count);
}

static int atomic_compwritevalid(struct fid_ep *fid, enum fi_datatype datatype,
				 enum fi_op op, size_t *count)
{
	struct p2p_ep *ep = (struct p2p_ep *) fid;

	return ep->xfer.layered ? -FI_EOPNOTSUPP
				: fi_compare_atomicvalid(ep->xfer.core, datatype, op, count);
}

struct fi_ops_atomic atomic_ops = {
	.size = sizeof(struct fi_ops_atomic),
	.write = atomic_write,
	.writev = atomic_writev,
	.writemsg = atomic_writemsg,
	.inject = atomic_inject,
	.readwrite = atomic_readwrite,
	.readwritev = atomic_readwritev,
	.readwritemsg = atomic_readwritemsg,
	.compwrite = atomic_compwrite,
	.compwritev = atomic_compwritev,
	.compwritemsg = atomic_compwritemsg,
	.writevalid = atomic_writevalid,
	.readwritevalid = atomic_readwritevalid,
	.compwritevalid = atomic_compwritevalid,
};
