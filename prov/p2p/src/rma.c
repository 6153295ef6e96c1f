/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rank 5: the calls of fi_rma(3), through a hook, for host memory: the core's own calls.
 * The layered provider does not offer FI_RMA.
 */
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "ep.h"
#include "log.h"
#include "mem.h"

/* Is this something that the core may be given? 0 or an error, logged */
static int rma_check(struct p2p_ep *ep, const struct iovec *iov, size_t count)
{
	if (ep->xfer.layered) {
		P2P_WARN("FI_RMA is not offered\n");
		return -FI_EOPNOTSUPP;
	}
	for (size_t i = 0; i < count; i++) {
		if (mem_is_device(iov[i].iov_base, iov[i].iov_len)) {
			P2P_WARN("device memory in an RMA operation is not supported\n");
			return -FI_EOPNOTSUPP;
		}
	}
	return 0;
}

static int rma_check_buf(struct p2p_ep *ep, const void *buf, size_t len)
{
	const struct iovec iov = {(void *) buf, len};

	return rma_check(ep, &iov, 1);
}

static ssize_t rma_read(struct fid_ep *fid, void *buf, size_t len, void *desc,
			fi_addr_t src, uint64_t addr, uint64_t key, void *context)
{
	struct p2p_ep *ep = (struct p2p_ep *) fid;
	int ret = rma_check_buf(ep, buf, len);

	return ret ? ret
		   : fi_read(ep->xfer.core, buf, len, desc, av_core_addr(ep->av, src), addr,
			     key, context);
}

static ssize_t rma_readv(struct fid_ep *fid, const struct iovec *iov, void **desc,
			 size_t count, fi_addr_t src, uint64_t addr, uint64_t key,
			 void *context)
{
	struct p2p_ep *ep = (struct p2p_ep *) fid;
	int ret = rma_check(ep, iov, count);

	return ret ? ret
		   : fi_readv(ep->xfer.core, iov, desc, count, av_core_addr(ep->av, src),
			      addr, key, context);
}

static ssize_t rma_readmsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	struct p2p_ep *ep = (struct p2p_ep *) fid;
	struct fi_msg_rma core_msg = *msg;
	int ret = rma_check(ep, msg->msg_iov, msg->iov_count);

	core_msg.addr = av_core_addr(ep->av, msg->addr);
	return ret ? ret : fi_readmsg(ep->xfer.core, &core_msg, flags);
}

static ssize_t rma_write(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			 fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
{
	struct p2p_ep *ep = (struct p2p_ep *) fid;
	int ret = rma_check_buf(ep, buf, len);

	return ret ? ret
		   : fi_write(ep->xfer.core, buf, len, desc, av_core_addr(ep->av, dest),
			      addr, key, context);
}

static ssize_t rma_writev(struct fid_ep *fid, const struct iovec *iov, void **desc,
			  size_t count, fi_addr_t dest, uint64_t addr, uint64_t key,
			  void *context)
{
	struct p2p_ep *ep = (struct p2p_ep *) fid;
	int ret = rma_check(ep, iov, count);

	return ret ? ret
		   : fi_writev(ep->xfer.core, iov, desc, count, av_core_addr(ep->av, dest),
			       addr, key, context);
}

static ssize_t rma_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg,
			    uint64_t flags)
{
	struct p2p_ep *ep = (struct p2p_ep *) fid;
	struct fi_msg_rma core_msg = *msg;
	int ret = rma_check(ep, msg->msg_iov, msg->iov_count);

	core_msg.addr = av_core_addr(ep->av, msg->addr);
	return ret ? ret : fi_writemsg(ep->xfer.core, &core_msg, flags);
}

static ssize_t rma_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
			  uint64_t addr, uint64_t key)
{
	struct p2p_ep *ep = (struct p2p_ep *) fid;
	int ret = rma_check_buf(ep, buf, len);

	return ret ? ret
		   : fi_inject_write(ep->xfer.core, buf, len, av_core_addr(ep->av, dest),
				     addr, key);
}

static ssize_t rma_writedata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			     uint64_t data, fi_addr_t dest, uint64_t addr, uint64_t key,
			     void *context)
{
	struct p2p_ep *ep = (struct p2p_ep *) fid;
	int ret = rma_check_buf(ep, buf, len);

	return ret ? ret
		   : fi_writedata(ep->xfer.core, buf, len, desc, data,
				  av_core_addr(ep->av, dest), addr, key, context);
}

static ssize_t rma_injectdata(struct fid_ep *fid, const void *buf, size_t len,
			      uint64_t data, fi_addr_t dest, uint64_t addr, uint64_t key)
{
	struct p2p_ep *ep = (struct p2p_ep *) fid;
	int ret = rma_check_buf(ep, buf, len);

	return ret ? ret
		   : fi_inject_writedata(ep->xfer.core, buf, len, data,
					 av_core_addr(ep->av, dest), addr, key);
}

struct fi_ops_rma rma_ops = {
	.size = sizeof(struct fi_ops_rma),
	.read = rma_read,
	.readv = rma_readv,
	.readmsg = rma_readmsg,
	.write = rma_write,
	.writev = rma_writev,
	.writemsg = rma_writemsg,
	.inject = rma_inject,
	.writedata = rma_writedata,
	.injectdata = rma_injectdata,
};
