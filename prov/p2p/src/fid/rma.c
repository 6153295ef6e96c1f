/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The calls of fi_rma(3).
 *
 * From and to host memory, with a key that the core provider serves, a call is the core's own. As
 * in msg.c that costs a few loads and branches if there is no GPU runtime. Everything else
 * becomes one struct p2p_op for xfer_post_rma().
 */
#include "fid/rma.h"

#include <rdma/fi_errno.h>

#include "fid/flags.h"
#include "base/log.h"
#include "mem/mem.h"
#include "proto/post.h"
#include "xfer/ep_state.h"

static inline bool rma_special_target(const struct p2p_ep *ep, fi_addr_t peer, uint64_t key)
{
	return p2p_unlikely(xfer_key_remote(ep->xfer.xfer, key) || av_unknown(ep->av, peer)) ||
	       xfer_ep_follows(&ep->xfer, FI_READ | FI_WRITE);
}

/*
 * Zero bytes at a device's address are special, too: see rma_core_post(). So is what the runtime
 * does not know: xfer_post_rma() asks again, and may have to tell of an error
 */
static inline bool rma_special_piece(const struct p2p_ep *ep, const void *buf, size_t len,
				     void *desc)
{
	struct dev_mem mem;

	return (!buf && len) ||
	       (dev_active() &&
		desc_cache_find_device(&ep->xfer.xfer->descs, buf, len ? len : 1, desc, &mem));
}

/* Is it host memory for sure, and remote memory that the core reaches, and nothing else of ours? */
static inline bool rma_direct(const struct p2p_ep *ep, const void *buf, size_t len,
			      uint64_t key)
{
	return !dev_glance() && xfer_plain(buf, len, &ep->xfer.rma_limit) &&
	       p2p_likely(!(key & ep->xfer.xfer->key_mark));
}

static bool rma_special_iov(const struct p2p_ep *ep, fi_addr_t peer, const struct iovec *iov,
			    void **desc, size_t count, uint64_t key)
{
	if (!iov || count > ep->xfer.iov_limit || rma_special_target(ep, peer, key))
		return true;
	for (size_t i = 0; i < count; i++) {
		if (rma_special_piece(ep, iov[i].iov_base, iov[i].iov_len,
				      desc ? desc[i] : NULL))
			return true;
	}
	return false;
}

/* The message comes when all is there. Of no bytes it is (QUIRK_EMPTY_WRITE) */
static uint64_t rma_arrival(const struct p2p_op *op)
{
	return op->flags & (FI_INJECT | FI_COMMIT_COMPLETE) ||
			       !mem_iov_len(op->rma.msg_iov, op->rma.iov_count)
		       ? 0
		       : FI_DELIVERY_COMPLETE;
}

/* What is fenced may take another way than a write of the core's before it, which has to be there, not just sent. */
static bool rma_fences(const struct p2p_ep *ep)
{
	return ep->xfer.layered && ep->caps & FI_FENCE;
}

static ssize_t rma_post(struct p2p_ep *ep, struct p2p_op *op)
{
	int ret;

	if ((op->rma.iov_count && !op->rma.msg_iov) || op->rma.iov_count > ep->xfer.iov_limit) {
		P2P_WARN("%zu pieces of a buffer: %s\n", op->rma.iov_count,
			 op->rma.msg_iov ? "more than iov_limit" : "and no list of them");
		return -FI_EINVAL;
	}
	op->rma.data &= ep->xfer.data_mask;
	op->notices = ep->xfer.notices && op->flags & FI_REMOTE_CQ_DATA;
	if (op->notices || (op->type == FI_OP_WRITE && rma_fences(ep)))
		op->flags |= rma_arrival(op);
	if (op->notices)
		op->flags &= ~FI_REMOTE_CQ_DATA;
	ret = av_to_core(ep->av, &op->rma.addr);
	return ret ? ret : xfer_post_rma(&ep->xfer, op);
}

/* The calls about one buffer */
enum rma_call { RMA_READ, RMA_WRITE, RMA_WRITEDATA, RMA_INJECT, RMA_INJECTDATA };

static ssize_t rma_call_core(const struct p2p_ep *ep, enum rma_call call, void *buf, size_t len,
			     void *desc, fi_addr_t peer, uint64_t addr, uint64_t key,
			     uint64_t data, void *context)
{
	struct fid_ep *core = ep->xfer.core;
	fi_addr_t to = av_core_addr(ep->av, peer);

	data &= ep->xfer.data_mask;
	switch (call) {
	case RMA_READ:
		return fi_read(core, buf, len, desc, to, addr, key, context);
	case RMA_WRITE:
		return fi_write(core, buf, len, desc, to, addr, key, context);
	case RMA_WRITEDATA:
		return fi_writedata(core, buf, len, desc, data, to, addr, key, context);
	case RMA_INJECT:
		return fi_inject_write(core, buf, len, to, addr, key);
	case RMA_INJECTDATA:
		return fi_inject_writedata(core, buf, len, data, to, addr, key);
	}
	return -FI_EINVAL;
}

/* A call that is not direct */
static P2P_NOINLINE ssize_t rma_other(struct p2p_ep *ep, enum rma_call call, const void *buf,
				      size_t len, void *desc, fi_addr_t peer, uint64_t addr,
				      uint64_t key, uint64_t data, void *context)
{
	const struct iovec iov = {(void *) buf, len};
	const struct fi_rma_iov remote = {addr, len, key};
	struct p2p_op op;

	if (!rma_special_target(ep, peer, key) && !rma_special_piece(ep, buf, len, desc))
		return rma_call_core(ep, call, iov.iov_base, len, desc, peer, addr, key, data,
				     context);
	op = (struct p2p_op){
		.type = call == RMA_READ ? FI_OP_READ : FI_OP_WRITE,
		.rma.msg_iov = &iov,
		.rma.desc = &desc,
		.rma.iov_count = 1,
		.rma.addr = peer,
		.rma.rma_iov = &remote,
		.rma.rma_iov_count = 1,
		.rma.data = data,
		.flags = call < RMA_INJECT ? ep->tx_flags : FI_INJECT,
		.rma.context = context,
	};
	if (call == RMA_WRITEDATA || call == RMA_INJECTDATA)
		op.flags |= FI_REMOTE_CQ_DATA;
	return rma_post(ep, &op);
}

static ssize_t rma_post_iov(struct p2p_ep *ep, bool read, const struct iovec *iov, void **desc,
			    size_t count, fi_addr_t peer, uint64_t addr, uint64_t key,
			    void *context)
{
	const struct fi_rma_iov remote = {addr, iov ? mem_iov_len(iov, count) : 0, key};
	struct p2p_op op = {
		.type = read ? FI_OP_READ : FI_OP_WRITE,
		.rma.msg_iov = iov,
		.rma.desc = desc,
		.rma.iov_count = count,
		.rma.addr = peer,
		.rma.rma_iov = &remote,
		.rma.rma_iov_count = 1,
		.flags = ep->tx_flags,
		.rma.context = context,
	};

	return rma_post(ep, &op);
}

static ssize_t rma_post_msg(struct p2p_ep *ep, bool read, const struct fi_msg_rma *msg,
			    uint64_t flags)
{
	struct p2p_op op = {
		.type = read ? FI_OP_READ : FI_OP_WRITE,
		.rma.msg_iov = msg->msg_iov,
		.rma.desc = msg->desc,
		.rma.iov_count = msg->iov_count,
		.rma.addr = msg->addr,
		.rma.rma_iov = msg->rma_iov,
		.rma.rma_iov_count = msg->rma_iov_count,
		.rma.data = msg->data,
		.flags = flags | (ep->tx_all ? FI_COMPLETION : 0),
		.rma.context = msg->context,
	};
	size_t len = 0;

	if (!msg->rma_iov || !msg->rma_iov_count || msg->rma_iov_count > OP_RMA_MAX) {
		P2P_WARN("%zu pieces of remote memory: 1 to %d may be asked for\n",
			 msg->rma_iov_count, OP_RMA_MAX);
		return -FI_EINVAL;
	}
	for (size_t i = 0; i < op.rma.rma_iov_count; i++)
		len += op.rma.rma_iov[i].len;
	if (op.rma.msg_iov && len != mem_iov_len(op.rma.msg_iov, op.rma.iov_count)) {
		P2P_WARN("%zu bytes of remote memory and %zu of the local buffer\n", len,
			 mem_iov_len(op.rma.msg_iov, op.rma.iov_count));
		return -FI_EINVAL;
	}
	return rma_post(ep, &op);
}

/* Is any of the remote memory served by us, or is the local buffer not plain? */
static bool rma_special_msg(const struct p2p_ep *ep, const struct fi_msg_rma *msg)
{
	for (size_t i = 0; msg->rma_iov && i < msg->rma_iov_count; i++) {
		if (rma_special_iov(ep, msg->addr, msg->msg_iov, msg->desc, msg->iov_count,
				    msg->rma_iov[i].key))
			return true;
	}
	return !msg->rma_iov;
}

static ssize_t rma_read(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
			uint64_t addr, uint64_t key, void *context)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(rma_direct(ep, buf, len, key)))
		return fi_read(ep->xfer.core, buf, len, desc, src, addr, key, context);
	return rma_other(ep, RMA_READ, buf, len, desc, src, addr, key, 0, context);
}

static ssize_t rma_readv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t src, uint64_t addr, uint64_t key, void *context)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (rma_special_iov(ep, src, iov, desc, count, key))
		return rma_post_iov(ep, true, iov, desc, count, src, addr, key, context);
	return fi_readv(ep->xfer.core, iov, desc, count, av_core_addr(ep->av, src), addr, key,
			context);
}

static ssize_t rma_readmsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	struct p2p_ep *ep = ep_of(&fid->fid);
	struct fi_msg_rma core_msg;
	int ret;

	if (p2p_unlikely(!msg))
		return -FI_EINVAL;
	ret = flags_take(ep, FLAGS_READ, &flags, msg->addr);
	if (p2p_unlikely(ret))
		return ret;
	if (rma_special_msg(ep, msg))
		return rma_post_msg(ep, true, msg, flags);
	core_msg = *msg;
	core_msg.addr = av_core_addr(ep->av, msg->addr);
	return fi_readmsg(ep->xfer.core, &core_msg, flags);
}

static ssize_t rma_write(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			 fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(rma_direct(ep, buf, len, key)))
		return fi_write(ep->xfer.core, buf, len, desc, dest, addr, key, context);
	return rma_other(ep, RMA_WRITE, buf, len, desc, dest, addr, key, 0, context);
}

static ssize_t rma_writev(struct fid_ep *fid, const struct iovec *iov, void **desc,
			  size_t count, fi_addr_t dest, uint64_t addr, uint64_t key,
			  void *context)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (rma_special_iov(ep, dest, iov, desc, count, key))
		return rma_post_iov(ep, false, iov, desc, count, dest, addr, key, context);
	return fi_writev(ep->xfer.core, iov, desc, count, av_core_addr(ep->av, dest), addr, key,
			 context);
}

static ssize_t rma_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	struct p2p_ep *ep = ep_of(&fid->fid);
	struct fi_msg_rma core_msg;
	int ret;

	if (p2p_unlikely(!msg))
		return -FI_EINVAL;
	ret = flags_take(ep, FLAGS_WRITE, &flags, msg->addr);
	if (p2p_unlikely(ret))
		return ret;
	if ((flags & FI_COMMIT_COMPLETE && ep->xfer.layered) || rma_special_msg(ep, msg))
		return rma_post_msg(ep, false, msg, flags);
	core_msg = *msg;
	core_msg.addr = av_core_addr(ep->av, msg->addr);
	core_msg.data &= ep->xfer.data_mask;
	return fi_writemsg(ep->xfer.core, &core_msg, flags);
}

static ssize_t rma_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
			  uint64_t addr, uint64_t key)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(rma_direct(ep, buf, len, key)))
		return fi_inject_write(ep->xfer.core, buf, len, dest, addr, key);
	return rma_other(ep, RMA_INJECT, buf, len, NULL, dest, addr, key, 0, NULL);
}

static ssize_t rma_writedata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			     uint64_t data, fi_addr_t dest, uint64_t addr, uint64_t key,
			     void *context)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(rma_direct(ep, buf, len, key)))
		return fi_writedata(ep->xfer.core, buf, len, desc, data & ep->xfer.data_mask,
				    dest, addr, key, context);
	return rma_other(ep, RMA_WRITEDATA, buf, len, desc, dest, addr, key, data, context);
}

static ssize_t rma_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
			      fi_addr_t dest, uint64_t addr, uint64_t key)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(rma_direct(ep, buf, len, key)))
		return fi_inject_writedata(ep->xfer.core, buf, len, data & ep->xfer.data_mask,
					   dest, addr, key);
	return rma_other(ep, RMA_INJECTDATA, buf, len, NULL, dest, addr, key, data, NULL);
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
