/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The calls of fi_atomic(3). Each becomes a struct p2p_op. */
#include "fid/atomic.h"

#include <rdma/fi_errno.h>

#include "base/amo.h"
#include "fid/submit.h"
#include "proto/rma_served.h"

static const struct fi_msg_fetch atomic_no_fetch;
static const struct fi_msg_compare atomic_no_compare;

/* The forms that take a message */
static ssize_t atomic_submit(struct fid_ep *fid, enum fi_op_type type,
			     const struct fi_msg_atomic *msg, struct fi_msg_fetch fetch,
			     struct fi_msg_compare compare, uint64_t flags)
{
	struct p2p_ep *ep = ep_of(&fid->fid);
	struct p2p_op op;

	if (!msg)
		return -FI_EINVAL;
	op_init(&op, type, OP_FLAGGED, flags);
	op.atomic = *msg;
	op.fetch = fetch;
	op.compare = compare;
	return ep->submit(ep, &op);
}

static size_t atomic_elements(const struct fi_ioc *ioc, size_t count)
{
	size_t elements = 0;

	for (size_t i = 0; ioc && i < count; i++)
		elements += ioc[i].count;
	return elements;
}

/* The others: as many elements of remote memory as of the arrays */
static ssize_t atomic_submit_iov(struct fid_ep *fid, enum fi_op_type type, enum op_call call,
				 const struct fi_ioc *operand, void **desc, size_t operands,
				 struct fi_msg_fetch fetch, struct fi_msg_compare compare,
				 fi_addr_t dest, uint64_t addr, uint64_t key,
				 enum fi_datatype datatype, enum fi_op op, void *context)
{
	struct p2p_ep *ep = ep_of(&fid->fid);
	const struct fi_rma_ioc remote = {
		.addr = addr,
		.count = op == FI_ATOMIC_READ ? atomic_elements(fetch.msg_iov, fetch.iov_count)
					      : atomic_elements(operand, operands),
		.key = key,
	};
	struct p2p_op atomic = {
		.type = type,
		.call = call,
		.flags = call == OP_INJECT ? FI_INJECT : ep->tx_flags,
		.atomic = {operand, desc, operands, dest, &remote, 1, datatype, op, context, 0},
		.fetch = fetch,
		.compare = compare,
	};

	return ep->submit(ep, &atomic);
}

static ssize_t atomic_writev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc,
			     size_t count, fi_addr_t dest, uint64_t addr, uint64_t key,
			     enum fi_datatype datatype, enum fi_op op, void *context)
{
	return atomic_submit_iov(fid, FI_OP_ATOMIC, OP_PLAIN, iov, desc, count, atomic_no_fetch,
				 atomic_no_compare, dest, addr, key, datatype, op, context);
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
	const struct fi_ioc operand = {(void *) buf, count};

	return atomic_submit_iov(fid, FI_OP_ATOMIC, OP_INJECT, &operand, NULL, 1,
				 atomic_no_fetch, atomic_no_compare, dest, addr, key, datatype,
				 op, NULL);
}

static ssize_t atomic_writemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
			       uint64_t flags)
{
	return atomic_submit(fid, FI_OP_ATOMIC, msg, atomic_no_fetch, atomic_no_compare, flags);
}

static ssize_t atomic_readwritev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc,
				 size_t count, struct fi_ioc *resultv, void **result_desc,
				 size_t result_count, fi_addr_t dest, uint64_t addr,
				 uint64_t key, enum fi_datatype datatype, enum fi_op op,
				 void *context)
{
	const struct fi_msg_fetch fetch = {resultv, result_desc, result_count};

	return atomic_submit_iov(fid, FI_OP_FETCH_ATOMIC, OP_PLAIN, iov, desc, count, fetch,
				 atomic_no_compare, dest, addr, key, datatype, op, context);
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
	const struct fi_msg_fetch fetch = {resultv, result_desc, result_count};

	return atomic_submit(fid, FI_OP_FETCH_ATOMIC, msg, fetch, atomic_no_compare, flags);
}

static ssize_t atomic_compwritev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc,
				 size_t count, const struct fi_ioc *comparev,
				 void **compare_desc, size_t compare_count,
				 struct fi_ioc *resultv, void **result_desc,
				 size_t result_count, fi_addr_t dest, uint64_t addr,
				 uint64_t key, enum fi_datatype datatype, enum fi_op op,
				 void *context)
{
	const struct fi_msg_fetch fetch = {resultv, result_desc, result_count};
	const struct fi_msg_compare compare = {comparev, compare_desc, compare_count};

	return atomic_submit_iov(fid, FI_OP_COMPARE_ATOMIC, OP_PLAIN, iov, desc, count, fetch,
				 compare, dest, addr, key, datatype, op, context);
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
	const struct fi_msg_fetch fetch = {resultv, result_desc, result_count};
	const struct fi_msg_compare compare = {comparev, compare_desc, compare_count};

	return atomic_submit(fid, FI_OP_COMPARE_ATOMIC, msg, fetch, compare, flags);
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

	return atomic_valid(ep, fi_atomicvalid(ep->xfer.front.core, datatype, op, count),
			    datatype, op, 0, count);
}

static int atomic_readwritevalid(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op,
				 size_t *count)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	return atomic_valid(ep, fi_fetch_atomicvalid(ep->xfer.front.core, datatype, op, count),
			    datatype, op, FI_FETCH_ATOMIC, count);
}

static int atomic_compwritevalid(struct fid_ep *fid, enum fi_datatype datatype, enum fi_op op,
				 size_t *count)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	return atomic_valid(ep,
			    fi_compare_atomicvalid(ep->xfer.front.core, datatype, op, count),
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
