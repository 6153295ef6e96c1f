/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The calls of fi_atomic(3). Each becomes one struct p2p_op. On host memory, with a key that
 * the core provider serves, that goes to the core as it is.
 */
#include "fid/atomic.h"

#include <rdma/fi_errno.h>

#include "base/amo.h"
#include "fid/flags.h"
#include "base/log.h"
#include "proto/rma_served.h"
#include "proto/post.h"
#include "xfer/ep_state.h"

/* Is any of it device memory? Or is that not known? Then core_atomic_arrays() asks again */
static bool atomic_device(const struct p2p_ep *ep, const struct fi_ioc *ioc, void *const *desc,
			  size_t count, size_t size)
{
	struct dev_mem mem;

	for (size_t i = 0; ioc && i < count && dev_active(); i++) {
		if (desc_cache_find_device(&ep->xfer.xfer->descs, ioc[i].addr,
					   ioc[i].count * size, desc ? desc[i] : NULL, &mem))
			return true;
	}
	return false;
}

/* Is it more than the core can do alone? */
static bool atomic_special(const struct p2p_ep *ep, const struct p2p_op *op)
{
	/* of a type that is not known, it is known where its first byte is */
	size_t size = P2P_MAX(amo_size(op->atomic.datatype), 1);
	const uint64_t injected = FI_INJECT | FI_COMPLETION;

	return xfer_key_atomic_remote(ep->xfer.xfer, op->atomic.rma_iov->key) ||
	       (op->flags & FI_COMMIT_COMPLETE && ep->xfer.layered) ||
	       /* cores do not tell of the end of what was injected, asked or not */
	       ((op->flags & injected) == injected && ep->xfer.layered) ||
	       xfer_ep_follows(&ep->xfer, FI_READ | FI_WRITE) ||
	       atomic_device(ep, op->atomic.msg_iov, op->atomic.desc, op->atomic.iov_count,
			     size) ||
	       atomic_device(ep, op->compare.msg_iov, op->compare.desc, op->compare.iov_count,
			     size) ||
	       atomic_device(ep, op->fetch.msg_iov, op->fetch.desc, op->fetch.iov_count, size);
}

static ssize_t atomic_post(struct p2p_ep *ep, struct p2p_op *op)
{
	int ret = av_to_core(ep->av, &op->atomic.addr);

	if (ret)
		return ret;
	if (!atomic_special(ep, op))
		return core_post(ep->xfer.core, op);
	if (!amo_valid(op->atomic.datatype, op->atomic.op, op->type == FI_OP_COMPARE_ATOMIC)) {
		P2P_WARN("atomic operation %d on type %d is not offered\n", op->atomic.op,
			 op->atomic.datatype);
		return -FI_EOPNOTSUPP;
	}
	return xfer_post_atomic(&ep->xfer, op);
}

/* The forms that take a message */
static ssize_t atomic_post_msg(struct p2p_ep *ep, enum fi_op_type kind,
			       const struct fi_msg_atomic *msg, const struct fi_ioc *compare,
			       void **compare_desc, size_t compares, struct fi_ioc *result,
			       void **result_desc, size_t results, uint64_t flags)
{
	struct p2p_op op;
	int ret;

	if (!msg || !msg->rma_iov || !msg->rma_iov_count)
		return -FI_EINVAL;
	ret = flags_take(ep, FLAGS_ATOMIC, &flags, msg->addr);
	if (p2p_unlikely(ret))
		return ret;
	op = (struct p2p_op){
		.type = kind,
		.atomic.msg_iov = msg->msg_iov,
		.atomic.desc = msg->desc,
		.atomic.iov_count = msg->op == FI_ATOMIC_READ ? 0 : msg->iov_count,
		.compare.msg_iov = compare,
		.compare.desc = compare_desc,
		.compare.iov_count = compares,
		.fetch.msg_iov = result,
		.fetch.desc = result_desc,
		.fetch.iov_count = results,
		.atomic.addr = msg->addr,
		.atomic.rma_iov = msg->rma_iov,
		.atomic.rma_iov_count = msg->rma_iov_count,
		.atomic.datatype = msg->datatype,
		.atomic.op = msg->op,
		.atomic.data = msg->data,
		.flags = flags | (ep->tx_all ? FI_COMPLETION : 0),
		.atomic.context = msg->context,
	};
	return atomic_post(ep, &op);
}

static size_t atomic_elements(const struct fi_ioc *ioc, size_t count)
{
	size_t elements = 0;

	for (size_t i = 0; ioc && i < count; i++)
		elements += ioc[i].count;
	return elements;
}

static ssize_t atomic_post_iov(struct p2p_ep *ep, enum fi_op_type kind,
			       const struct fi_ioc *operand, void **desc, size_t operands,
			       const struct fi_ioc *compare, void **compare_desc,
			       size_t compares, struct fi_ioc *result, void **result_desc,
			       size_t results, fi_addr_t dest, uint64_t addr, uint64_t key,
			       enum fi_datatype datatype, enum fi_op op, uint64_t flags,
			       void *context)
{
	const struct fi_rma_ioc remote = {
		.addr = addr,
		.count = atomic_elements(op == FI_ATOMIC_READ ? result : operand,
					 op == FI_ATOMIC_READ ? results : operands),
		.key = key,
	};
	struct p2p_op atomic = {
		.type = kind,
		.atomic.msg_iov = operand,
		.atomic.desc = desc,
		.atomic.iov_count = op == FI_ATOMIC_READ ? 0 : operands,
		.plain = true,
		.compare.msg_iov = compare,
		.compare.desc = compare_desc,
		.compare.iov_count = compares,
		.fetch.msg_iov = result,
		.fetch.desc = result_desc,
		.fetch.iov_count = results,
		.atomic.addr = dest,
		.atomic.rma_iov = &remote,
		.atomic.rma_iov_count = 1,
		.atomic.datatype = datatype,
		.atomic.op = op,
		.flags = flags,
		.atomic.context = context,
	};

	return atomic_post(ep, &atomic);
}

static ssize_t atomic_writev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc,
			     size_t count, fi_addr_t dest, uint64_t addr, uint64_t key,
			     enum fi_datatype datatype, enum fi_op op, void *context)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	return atomic_post_iov(ep, FI_OP_ATOMIC, iov, desc, count, NULL, NULL, 0, NULL, NULL, 0,
			       dest, addr, key, datatype, op, ep->tx_flags, context);
}

static ssize_t atomic_write(struct fid_ep *fid, const void *buf, size_t count, void *desc,
			    fi_addr_t dest, uint64_t addr, uint64_t key,
			    enum fi_datatype datatype, enum fi_op op, void *context)
{
	const struct fi_ioc operand = {(void *) buf, count};

	return atomic_writev(fid, &operand, &desc, 1, dest, addr, key, datatype, op, context);
}

static ssize_t atomic_inject(struct fid_ep *fid, const void *buf, size_t count, fi_addr_t dest,
			     uint64_t addr, uint64_t key, enum fi_datatype datatype,
			     enum fi_op op)
{
	struct p2p_ep *ep = ep_of(&fid->fid);
	const struct fi_ioc operand = {(void *) buf, count};
	const struct fi_rma_ioc remote = {addr, count, key};
	struct p2p_op atomic = {
		.type = FI_OP_ATOMIC,
		.atomic.msg_iov = &operand,
		.atomic.iov_count = 1,
		.atomic.addr = dest,
		.atomic.rma_iov = &remote,
		.atomic.rma_iov_count = 1,
		.atomic.datatype = datatype,
		.atomic.op = op,
		.flags = FI_INJECT,
	};

	if (av_unknown(ep->av, dest) || atomic_special(ep, &atomic))
		return atomic_post(ep, &atomic);
	/* this call never completes, unlike a message with FI_INJECT */
	return fi_inject_atomic(ep->xfer.core, buf, count, av_core_addr(ep->av, dest), addr,
				key, datatype, op);
}

static ssize_t atomic_writemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
			       uint64_t flags)
{
	return atomic_post_msg(ep_of(&fid->fid), FI_OP_ATOMIC, msg, NULL, NULL, 0, NULL, NULL,
			       0, flags);
}

static ssize_t atomic_readwritev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc,
				 size_t count, struct fi_ioc *resultv, void **result_desc,
				 size_t result_count, fi_addr_t dest, uint64_t addr,
				 uint64_t key, enum fi_datatype datatype, enum fi_op op,
				 void *context)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	return atomic_post_iov(ep, FI_OP_FETCH_ATOMIC, iov, desc, count, NULL, NULL, 0, resultv,
			       result_desc, result_count, dest, addr, key, datatype, op,
			       ep->tx_flags, context);
}

static ssize_t atomic_readwrite(struct fid_ep *fid, const void *buf, size_t count, void *desc,
				void *result, void *result_desc, fi_addr_t dest, uint64_t addr,
				uint64_t key, enum fi_datatype datatype, enum fi_op op,
				void *context)
{
	const struct fi_ioc operand = {(void *) buf, count};
	struct fi_ioc before = {result, count};

	return atomic_readwritev(fid, &operand, &desc, 1, &before, &result_desc, 1, dest, addr,
				 key, datatype, op, context);
}

static ssize_t atomic_readwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
				   struct fi_ioc *resultv, void **result_desc,
				   size_t result_count, uint64_t flags)
{
	return atomic_post_msg(ep_of(&fid->fid), FI_OP_FETCH_ATOMIC, msg, NULL, NULL, 0,
			       resultv, result_desc, result_count, flags);
}

static ssize_t atomic_compwritev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc,
				 size_t count, const struct fi_ioc *comparev,
				 void **compare_desc, size_t compare_count,
				 struct fi_ioc *resultv, void **result_desc,
				 size_t result_count, fi_addr_t dest, uint64_t addr,
				 uint64_t key, enum fi_datatype datatype, enum fi_op op,
				 void *context)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	return atomic_post_iov(ep, FI_OP_COMPARE_ATOMIC, iov, desc, count, comparev,
			       compare_desc, compare_count, resultv, result_desc, result_count,
			       dest, addr, key, datatype, op, ep->tx_flags, context);
}

static ssize_t atomic_compwrite(struct fid_ep *fid, const void *buf, size_t count, void *desc,
				const void *compare, void *compare_desc, void *result,
				void *result_desc, fi_addr_t dest, uint64_t addr, uint64_t key,
				enum fi_datatype datatype, enum fi_op op, void *context)
{
	const struct fi_ioc operand = {(void *) buf, count},
			    expected = {(void *) compare, count};
	struct fi_ioc before = {result, count};

	return atomic_compwritev(fid, &operand, &desc, 1, &expected, &compare_desc, 1, &before,
				 &result_desc, 1, dest, addr, key, datatype, op, context);
}

static ssize_t atomic_compwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
				   const struct fi_ioc *comparev, void **compare_desc,
				   size_t compare_count, struct fi_ioc *resultv,
				   void **result_desc, size_t result_count, uint64_t flags)
{
	return atomic_post_msg(ep_of(&fid->fid), FI_OP_COMPARE_ATOMIC, msg, comparev,
			       compare_desc, compare_count, resultv, result_desc, result_count,
			       flags);
}

/* ---- queries ---- */

size_t atomic_count(const struct xfer *xfer, enum fi_datatype datatype, enum fi_op op,
		    uint64_t flags, size_t core_count)
{
	if (!xfer->keys_ours && !xfer->key_mark)
		return core_count;
	/* what is read has to go somewhere */
	if (!amo_valid(datatype, op, flags & FI_COMPARE_ATOMIC) ||
	    (op == FI_ATOMIC_READ && !flags))
		return 0;
	return P2P_MIN(core_count, rma_served_atomic_max(datatype));
}

int atomic_check_flags(uint64_t flags)
{
	const uint64_t kinds = FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC;

	if (flags & FI_TAGGED)
		return -FI_EOPNOTSUPP;
	return flags & ~kinds || flags == kinds ? -FI_EBADFLAGS : 0;
}

static int atomic_valid(const struct p2p_ep *ep, int ret, enum fi_datatype datatype,
			enum fi_op op, uint64_t flags, size_t *count)
{
	size_t both;

	if (ret && !domain_serves_atomics(ep->domain))
		return ret;
	both = atomic_count(ep->xfer.xfer, datatype, op, flags,
			    ret     ? SIZE_MAX
			    : count ? *count
				    : 1);
	if (!both)
		return -FI_EOPNOTSUPP;
	if (count)
		*count = both;
	return 0;
}

static int atomic_writevalid(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op,
			     size_t *count)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	return atomic_valid(ep, fi_atomicvalid(ep->xfer.core, datatype, op, count), datatype,
			    op, 0, count);
}

static int atomic_readwritevalid(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op,
				 size_t *count)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	return atomic_valid(ep, fi_fetch_atomicvalid(ep->xfer.core, datatype, op, count),
			    datatype, op, FI_FETCH_ATOMIC, count);
}

static int atomic_compwritevalid(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op,
				 size_t *count)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	return atomic_valid(ep, fi_compare_atomicvalid(ep->xfer.core, datatype, op, count),
			    datatype, op, FI_COMPARE_ATOMIC, count);
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
