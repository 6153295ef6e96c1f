/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The calls of fi_rma(3).
 *
 * From and to host memory, with a key that the core provider serves, a call is the core's own. As
 * in msg.c that costs a few loads and branches if there is no GPU runtime. Everything else
 * becomes a struct p2p_op.
 */
#include "fid/rma.h"

#include <rdma/fi_errno.h>

#include "fid/flags.h"
#include "fid/submit.h"
#include "mem/mem.h"
#include "xfer/ep_state.h"

/*
 * Tells whether the core may take a call at once: host memory for sure, and remote memory that the core
 * reaches.
 */
static inline bool rma_direct(const struct p2p_ep *ep, const void *buf, size_t len,
			      uint64_t key)
{
	return !dev_glance() && xfer_plain(buf, len, &ep->xfer.rma_limit) &&
	       p2p_likely(!(key & ep->xfer.xfer->key_mark));
}

/* The same of a buffer in pieces */
static inline bool rma_direct_iov(const struct p2p_ep *ep, const struct iovec *iov,
				  size_t count, uint64_t key)
{
	return xfer_direct_iov(iov, count, ep->xfer.iov_limit, &ep->xfer.rma_limit) &&
	       p2p_likely(!(key & ep->xfer.xfer->key_mark));
}

/* Begins the op of a call. @flags: FI_INJECT, FI_REMOTE_CQ_DATA, or none */
static inline void rma_init(const struct p2p_ep *ep, struct p2p_op *op, enum fi_op_type type,
			    uint64_t flags)
{
	const bool inject = flags & FI_INJECT;

	op_init(op, type, inject ? OP_INJECT : OP_PLAIN, flags | (inject ? 0 : ep->tx_flags));
}

/*
 * Builds the op of a call that the core may not take at once, and submits it. If only the look was missing, it
 * is the core's
 */
static P2P_NOINLINE ssize_t rma_other(struct p2p_ep *ep, enum fi_op_type type, uint64_t flags,
				      const void *buf, size_t len, void *desc, fi_addr_t peer,
				      uint64_t addr, uint64_t key, uint64_t data, void *context)
{
	const struct iovec iov = {(void *) buf, len};
	const struct fi_rma_iov remote = {addr, len, key};
	struct dev_mem seen;
	struct p2p_op op;

	rma_init(ep, &op, type, flags);
	op.rma = (struct fi_msg_rma){&iov,    &desc, 1,       peer,
				     &remote, 1,     context, data & ep->xfer.data_mask};
	if (xfer_plain(buf, len, &ep->xfer.rma_limit) && !(key & ep->xfer.xfer->key_mark) &&
	    !submit_is_device(ep, buf, P2P_MAX(len, 1), desc, &seen))
		return core_call(ep->xfer.front.core, &op);
	return ep->submit(ep, &op);
}

static ssize_t rma_submit_iov(struct p2p_ep *ep, enum fi_op_type type, const struct iovec *iov,
			      void **desc, size_t count, fi_addr_t peer, uint64_t addr,
			      uint64_t key, void *context)
{
	const struct fi_rma_iov remote = {addr, iov ? mem_iov_len(iov, count) : 0, key};
	struct p2p_op op;

	rma_init(ep, &op, type, 0);
	op.rma = (struct fi_msg_rma){iov, desc, count, peer, &remote, 1, context, 0};
	return ep->submit(ep, &op);
}

static inline ssize_t rma_submit(struct fid_ep *fid, enum fi_op_type type,
				 const struct fi_msg_rma *msg, uint64_t flags)
{
	struct p2p_ep *ep = ep_of(&fid->fid);
	struct p2p_op op;

	if (p2p_unlikely(!msg))
		return -FI_EINVAL;
	if (p2p_likely(!(flags & ~FLAGS_TX_PLAIN) && msg->rma_iov && msg->rma_iov_count == 1 &&
		       rma_direct_iov(ep, msg->msg_iov, msg->iov_count, msg->rma_iov->key)))
		return type == FI_OP_READ ? fi_readmsg(ep->xfer.front.core, msg, flags)
					  : fi_writemsg(ep->xfer.front.core, msg, flags);
	op_init(&op, type, OP_FLAGGED, flags);
	op.rma = *msg;
	return ep->submit(ep, &op);
}

static ssize_t rma_read(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
			uint64_t addr, uint64_t key, void *context)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(rma_direct(ep, buf, len, key)))
		return fi_read(ep->xfer.front.core, buf, len, desc, src, addr, key, context);
	return rma_other(ep, FI_OP_READ, 0, buf, len, desc, src, addr, key, 0, context);
}

static ssize_t rma_readv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t src, uint64_t addr, uint64_t key, void *context)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(rma_direct_iov(ep, iov, count, key)))
		return fi_readv(ep->xfer.front.core, iov, desc, count, src, addr, key, context);
	return rma_submit_iov(ep, FI_OP_READ, iov, desc, count, src, addr, key, context);
}

static ssize_t rma_readmsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	return rma_submit(fid, FI_OP_READ, msg, flags);
}

/* Is fi_write(): calls the core at once for plain host memory, or leaves the rest to rma_other(). */
static ssize_t rma_write(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			 fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(rma_direct(ep, buf, len, key)))
		return fi_write(ep->xfer.front.core, buf, len, desc, dest, addr, key, context);
	return rma_other(ep, FI_OP_WRITE, 0, buf, len, desc, dest, addr, key, 0, context);
}

static ssize_t rma_writev(struct fid_ep *fid, const struct iovec *iov, void **desc,
			  size_t count, fi_addr_t dest, uint64_t addr, uint64_t key,
			  void *context)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(rma_direct_iov(ep, iov, count, key)))
		return fi_writev(ep->xfer.front.core, iov, desc, count, dest, addr, key,
				 context);
	return rma_submit_iov(ep, FI_OP_WRITE, iov, desc, count, dest, addr, key, context);
}

static ssize_t rma_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	return rma_submit(fid, FI_OP_WRITE, msg, flags);
}

static ssize_t rma_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
			  uint64_t addr, uint64_t key)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(rma_direct(ep, buf, len, key)))
		return fi_inject_write(ep->xfer.front.core, buf, len, dest, addr, key);
	return rma_other(ep, FI_OP_WRITE, FI_INJECT, buf, len, NULL, dest, addr, key, 0, NULL);
}

static ssize_t rma_writedata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			     uint64_t data, fi_addr_t dest, uint64_t addr, uint64_t key,
			     void *context)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(rma_direct(ep, buf, len, key)))
		return fi_writedata(ep->xfer.front.core, buf, len, desc,
				    data & ep->xfer.data_mask, dest, addr, key, context);
	return rma_other(ep, FI_OP_WRITE, FI_REMOTE_CQ_DATA, buf, len, desc, dest, addr, key,
			 data, context);
}

static ssize_t rma_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
			      fi_addr_t dest, uint64_t addr, uint64_t key)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(rma_direct(ep, buf, len, key)))
		return fi_inject_writedata(ep->xfer.front.core, buf, len,
					   data & ep->xfer.data_mask, dest, addr, key);
	return rma_other(ep, FI_OP_WRITE, FI_INJECT | FI_REMOTE_CQ_DATA, buf, len, NULL, dest,
			 addr, key, data, NULL);
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
