/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Calls that may wait for counters. See trigger_calls.h. */
#include "gpu/trigger_calls.h"

#include <stdlib.h>
#include <rdma/fi_errno.h>

#include "fid/atomic.h"
#include "fid/msg.h"
#include "fid/rma.h"
#include "gpu/trigger_alias.h"
#include "gpu/trigger_list.h"
#include "mem/mem.h"
#include "xfer/progress.h"

/* ---- operations with FI_TRIGGER ---- */

/* What the context of an operation says that it waits for. 0 or an error */
static int trigger_condition(const struct p2p_ep *ep, const void *context,
			     struct p2p_cntr **cntr, uint64_t *threshold)
{
	const struct fi_triggered_context *triggered = context;

	if (!triggered)
		return trigger_refuse(-FI_EINVAL, TRIGGER_NO_CNTR);
	if (triggered->event_type != FI_TRIGGER_THRESHOLD)
		return trigger_refuse(-FI_ENOSYS, "its event is not FI_TRIGGER_THRESHOLD");
	*cntr = trigger_cntr(ep->domain, triggered->trigger.threshold.cntr);
	*threshold = triggered->trigger.threshold.threshold;
	return *cntr ? 0 : trigger_refuse(-FI_EINVAL, TRIGGER_NO_CNTR);
}

/* Lets a work wait for what its context says. @made: 0, or why there is none */
static ssize_t trigger_submit(struct p2p_ep *ep, int made, struct trigger_work **work)
{
	int ret;

	if (made)
		return made;
	ret = trigger_condition(ep, (*work)->context, &(*work)->cntr, &(*work)->threshold);
	if (ret) {
		free(*work);
		return ret;
	}
	return trigger_queue(ep->domain->trigger, *work);
}

/*
 * May what is fenced begin? 0, or -FI_EAGAIN: what was posted before waits for room. Who repeats the call makes progress
 * by that
 */
static ssize_t trigger_fence(struct p2p_ep *ep, uint64_t flags, fi_addr_t addr)
{
	if (!(flags & FI_FENCE) || !trigger_is_awaited(ep->domain->trigger, ep, addr))
		return 0;
	xfer_progress(&ep->domain->xfer);
	return -FI_EAGAIN;
}

static ssize_t trigger_msg(struct fid_ep *fid, enum fi_op_type type, const struct fi_msg *msg,
			   uint64_t flags)
{
	struct p2p_ep *ep = trigger_ep_of(fid);
	struct trigger_work *work;
	ssize_t ret;

	if (!msg)
		return -FI_EINVAL;
	if (flags & FI_TRIGGER)
		return trigger_submit(ep, trigger_work_msg(ep, type, msg, flags, &work), &work);
	if (type == FI_OP_RECV)
		return msg_ops.recvmsg(&ep->fid, msg, flags);
	ret = trigger_fence(ep, flags, msg->addr);
	return ret ? ret : msg_ops.sendmsg(&ep->fid, msg, flags);
}

static ssize_t trigger_tagged(struct fid_ep *fid, enum fi_op_type type,
			      const struct fi_msg_tagged *msg, uint64_t flags)
{
	struct p2p_ep *ep = trigger_ep_of(fid);
	struct trigger_work *work;
	ssize_t ret;

	if (!msg)
		return -FI_EINVAL;
	if (flags & FI_TRIGGER)
		return trigger_submit(ep, trigger_work_tagged(ep, type, msg, flags, &work),
				      &work);
	if (type == FI_OP_TRECV)
		return msg_tagged_ops.recvmsg(&ep->fid, msg, flags);
	ret = trigger_fence(ep, flags, msg->addr);
	return ret ? ret : msg_tagged_ops.sendmsg(&ep->fid, msg, flags);
}

/*
 * Remote memory is served by its owner here (info_serves_all()), which has to be greeted first. Applications
 * know of no such thing, and there is a queue: the first operations wait there.
 */
static ssize_t trigger_rma(struct fid_ep *fid, enum fi_op_type type,
			   const struct fi_msg_rma *msg, uint64_t flags)
{
	struct p2p_ep *ep = trigger_ep_of(fid);
	struct trigger_work *work;
	ssize_t ret;

	if (!msg)
		return -FI_EINVAL;
	if (flags & FI_TRIGGER)
		return trigger_submit(ep, trigger_work_rma(ep, type, msg, flags, &work), &work);
	ret = trigger_fence(ep, flags, msg->addr);
	if (!ret)
		ret = type == FI_OP_READ ? rma_ops.readmsg(&ep->fid, msg, flags)
					 : rma_ops.writemsg(&ep->fid, msg, flags);
	if (ret != -FI_EAGAIN || flags & FI_INJECT || !ep->domain->layered ||
	    trigger_work_rma(ep, type, msg, flags, &work))
		return ret;
	return trigger_queue_due(ep->domain->trigger, work);
}

/* At once */
static ssize_t trigger_atomic_now(struct p2p_ep *ep, const struct fi_msg_atomic *msg,
				  const struct fi_msg_fetch *fetch,
				  const struct fi_msg_compare *compare, uint64_t flags)
{
	const ssize_t ret = trigger_fence(ep, flags, msg->addr);

	if (ret)
		return ret;
	if (compare)
		return atomic_ops.compwritemsg(&ep->fid, msg, compare->msg_iov, compare->desc,
					       compare->iov_count, fetch->msg_iov, fetch->desc,
					       fetch->iov_count, flags);
	if (fetch)
		return atomic_ops.readwritemsg(&ep->fid, msg, fetch->msg_iov, fetch->desc,
					       fetch->iov_count, flags);
	return atomic_ops.writemsg(&ep->fid, msg, flags);
}

static ssize_t trigger_atomic(struct fid_ep *fid, const struct fi_msg_atomic *msg,
			      const struct fi_msg_fetch *fetch,
			      const struct fi_msg_compare *compare, uint64_t flags)
{
	const enum fi_op_type type = compare ? FI_OP_COMPARE_ATOMIC
				     : fetch ? FI_OP_FETCH_ATOMIC
					     : FI_OP_ATOMIC;
	struct p2p_ep *ep = trigger_ep_of(fid);
	struct trigger_work *work;
	ssize_t ret;

	if (!msg)
		return -FI_EINVAL;
	if (flags & FI_TRIGGER)
		return trigger_submit(ep,
				      trigger_work_atomic(ep, type, msg, fetch, compare, flags,
							  &work),
				      &work);
	ret = trigger_atomic_now(ep, msg, fetch, compare, flags);
	if (ret != -FI_EAGAIN || flags & FI_INJECT || !ep->domain->layered ||
	    trigger_work_atomic(ep, type, msg, fetch, compare, flags, &work))
		return ret;
	return trigger_queue_due(ep->domain->trigger, work);
}

/* ---- fi_msg(3) ---- */

static ssize_t trigger_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	return trigger_msg(fid, FI_OP_RECV, msg, flags);
}

static ssize_t trigger_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc,
			     size_t count, fi_addr_t src, void *context)
{
	const struct fi_msg msg = {iov, desc, count, src, context, 0};

	return trigger_msg(fid, FI_OP_RECV, &msg, trigger_rx_flags(fid, false));
}

static ssize_t trigger_recv(struct fid_ep *fid, void *buf, size_t len, void *desc,
			    fi_addr_t src, void *context)
{
	const struct iovec iov = {buf, len};

	return trigger_recvv(fid, &iov, &desc, 1, src, context);
}

static ssize_t trigger_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	return trigger_msg(fid, FI_OP_SEND, msg, flags);
}

static ssize_t trigger_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc,
			     size_t count, fi_addr_t dest, void *context)
{
	const struct fi_msg msg = {iov, desc, count, dest, context, 0};

	return trigger_msg(fid, FI_OP_SEND, &msg, trigger_tx_flags(fid));
}

static ssize_t trigger_send(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			    fi_addr_t dest, void *context)
{
	const struct iovec iov = {(void *) buf, len};

	return trigger_sendv(fid, &iov, &desc, 1, dest, context);
}

static ssize_t trigger_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
				uint64_t data, fi_addr_t dest, void *context)
{
	const struct iovec iov = {(void *) buf, len};
	const struct fi_msg msg = {&iov, &desc, 1, dest, context, data};

	return trigger_msg(fid, FI_OP_SEND, &msg, trigger_tx_flags(fid) | FI_REMOTE_CQ_DATA);
}

/* A call to inject has no context that could name a counter. */
static ssize_t trigger_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest)
{
	return msg_ops.inject(&trigger_ep_of(fid)->fid, buf, len, dest);
}

static ssize_t trigger_injectdata(struct fid_ep *fid, const void *buf, size_t len,
				  uint64_t data, fi_addr_t dest)
{
	return msg_ops.injectdata(&trigger_ep_of(fid)->fid, buf, len, data, dest);
}

struct fi_ops_msg trigger_msg_ops = {
	.size = sizeof(struct fi_ops_msg),
	.recv = trigger_recv,
	.recvv = trigger_recvv,
	.recvmsg = trigger_recvmsg,
	.send = trigger_send,
	.sendv = trigger_sendv,
	.sendmsg = trigger_sendmsg,
	.inject = trigger_inject,
	.senddata = trigger_senddata,
	.injectdata = trigger_injectdata,
};

/* ---- fi_tagged(3) ---- */

static ssize_t trigger_trecvmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg,
				uint64_t flags)
{
	return trigger_tagged(fid, FI_OP_TRECV, msg, flags);
}

static ssize_t trigger_trecvv(struct fid_ep *fid, const struct iovec *iov, void **desc,
			      size_t count, fi_addr_t src, uint64_t tag, uint64_t ignore,
			      void *context)
{
	const struct fi_msg_tagged msg = {iov, desc, count, src, tag, ignore, context, 0};

	return trigger_tagged(fid, FI_OP_TRECV, &msg, trigger_rx_flags(fid, true));
}

static ssize_t trigger_trecv(struct fid_ep *fid, void *buf, size_t len, void *desc,
			     fi_addr_t src, uint64_t tag, uint64_t ignore, void *context)
{
	const struct iovec iov = {buf, len};

	return trigger_trecvv(fid, &iov, &desc, 1, src, tag, ignore, context);
}

static ssize_t trigger_tsendmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg,
				uint64_t flags)
{
	return trigger_tagged(fid, FI_OP_TSEND, msg, flags);
}

static ssize_t trigger_tsendv(struct fid_ep *fid, const struct iovec *iov, void **desc,
			      size_t count, fi_addr_t dest, uint64_t tag, void *context)
{
	const struct fi_msg_tagged msg = {iov, desc, count, dest, tag, 0, context, 0};

	return trigger_tagged(fid, FI_OP_TSEND, &msg, trigger_tx_flags(fid));
}

static ssize_t trigger_tsend(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			     fi_addr_t dest, uint64_t tag, void *context)
{
	const struct iovec iov = {(void *) buf, len};

	return trigger_tsendv(fid, &iov, &desc, 1, dest, tag, context);
}

static ssize_t trigger_tsenddata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
				 uint64_t data, fi_addr_t dest, uint64_t tag, void *context)
{
	const struct iovec iov = {(void *) buf, len};
	const struct fi_msg_tagged msg = {&iov, &desc, 1, dest, tag, 0, context, data};

	return trigger_tagged(fid, FI_OP_TSEND, &msg,
			      trigger_tx_flags(fid) | FI_REMOTE_CQ_DATA);
}

static ssize_t trigger_tinject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
			       uint64_t tag)
{
	return msg_tagged_ops.inject(&trigger_ep_of(fid)->fid, buf, len, dest, tag);
}

static ssize_t trigger_tinjectdata(struct fid_ep *fid, const void *buf, size_t len,
				   uint64_t data, fi_addr_t dest, uint64_t tag)
{
	return msg_tagged_ops.injectdata(&trigger_ep_of(fid)->fid, buf, len, data, dest, tag);
}

struct fi_ops_tagged trigger_tagged_ops = {
	.size = sizeof(struct fi_ops_tagged),
	.recv = trigger_trecv,
	.recvv = trigger_trecvv,
	.recvmsg = trigger_trecvmsg,
	.send = trigger_tsend,
	.sendv = trigger_tsendv,
	.sendmsg = trigger_tsendmsg,
	.inject = trigger_tinject,
	.senddata = trigger_tsenddata,
	.injectdata = trigger_tinjectdata,
};

/* ---- fi_rma(3) ---- */

static ssize_t trigger_readmsg(struct fid_ep *fid, const struct fi_msg_rma *msg, uint64_t flags)
{
	return trigger_rma(fid, FI_OP_READ, msg, flags);
}

static ssize_t trigger_writemsg(struct fid_ep *fid, const struct fi_msg_rma *msg,
				uint64_t flags)
{
	return trigger_rma(fid, FI_OP_WRITE, msg, flags);
}

static ssize_t trigger_rma_iov(struct fid_ep *fid, enum fi_op_type type,
			       const struct iovec *iov, void **desc, size_t count,
			       fi_addr_t peer, uint64_t addr, uint64_t key, uint64_t data,
			       uint64_t flags, void *context)
{
	const struct fi_rma_iov remote = {addr, iov ? mem_iov_len(iov, count) : 0, key};
	const struct fi_msg_rma msg = {
		.msg_iov = iov,
		.desc = desc,
		.iov_count = count,
		.addr = peer,
		.rma_iov = &remote,
		.rma_iov_count = 1,
		.context = context,
		.data = data,
	};

	return trigger_rma(fid, type, &msg, trigger_tx_flags(fid) | flags);
}

static ssize_t trigger_readv(struct fid_ep *fid, const struct iovec *iov, void **desc,
			     size_t count, fi_addr_t src, uint64_t addr, uint64_t key,
			     void *context)
{
	return trigger_rma_iov(fid, FI_OP_READ, iov, desc, count, src, addr, key, 0, 0,
			       context);
}

static ssize_t trigger_read(struct fid_ep *fid, void *buf, size_t len, void *desc,
			    fi_addr_t src, uint64_t addr, uint64_t key, void *context)
{
	const struct iovec iov = {buf, len};

	return trigger_readv(fid, &iov, &desc, 1, src, addr, key, context);
}

static ssize_t trigger_writev(struct fid_ep *fid, const struct iovec *iov, void **desc,
			      size_t count, fi_addr_t dest, uint64_t addr, uint64_t key,
			      void *context)
{
	return trigger_rma_iov(fid, FI_OP_WRITE, iov, desc, count, dest, addr, key, 0, 0,
			       context);
}

static ssize_t trigger_write(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			     fi_addr_t dest, uint64_t addr, uint64_t key, void *context)
{
	const struct iovec iov = {(void *) buf, len};

	return trigger_writev(fid, &iov, &desc, 1, dest, addr, key, context);
}

static ssize_t trigger_writedata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
				 uint64_t data, fi_addr_t dest, uint64_t addr, uint64_t key,
				 void *context)
{
	const struct iovec iov = {(void *) buf, len};

	return trigger_rma_iov(fid, FI_OP_WRITE, &iov, &desc, 1, dest, addr, key, data,
			       FI_REMOTE_CQ_DATA, context);
}

static ssize_t trigger_inject_write(struct fid_ep *fid, const void *buf, size_t len,
				    fi_addr_t dest, uint64_t addr, uint64_t key)
{
	return rma_ops.inject(&trigger_ep_of(fid)->fid, buf, len, dest, addr, key);
}

static ssize_t trigger_inject_writedata(struct fid_ep *fid, const void *buf, size_t len,
					uint64_t data, fi_addr_t dest, uint64_t addr,
					uint64_t key)
{
	return rma_ops.injectdata(&trigger_ep_of(fid)->fid, buf, len, data, dest, addr, key);
}

struct fi_ops_rma trigger_rma_ops = {
	.size = sizeof(struct fi_ops_rma),
	.read = trigger_read,
	.readv = trigger_readv,
	.readmsg = trigger_readmsg,
	.write = trigger_write,
	.writev = trigger_writev,
	.writemsg = trigger_writemsg,
	.inject = trigger_inject_write,
	.writedata = trigger_writedata,
	.injectdata = trigger_inject_writedata,
};

/* ---- fi_atomic(3) ---- */

static ssize_t trigger_atomic_writemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
				       uint64_t flags)
{
	return trigger_atomic(fid, msg, NULL, NULL, flags);
}

static ssize_t trigger_atomic_readwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
					   struct fi_ioc *resultv, void **result_desc,
					   size_t result_count, uint64_t flags)
{
	const struct fi_msg_fetch fetch = {resultv, result_desc, result_count};

	return trigger_atomic(fid, msg, &fetch, NULL, flags);
}

static ssize_t trigger_atomic_compwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
					   const struct fi_ioc *comparev, void **compare_desc,
					   size_t compare_count, struct fi_ioc *resultv,
					   void **result_desc, size_t result_count,
					   uint64_t flags)
{
	const struct fi_msg_fetch fetch = {resultv, result_desc, result_count};
	const struct fi_msg_compare compare = {comparev, compare_desc, compare_count};

	return trigger_atomic(fid, msg, &fetch, &compare, flags);
}

static size_t trigger_elements(const struct fi_ioc *ioc, size_t count)
{
	size_t elements = 0;

	for (size_t i = 0; ioc && i < count; i++)
		elements += ioc[i].count;
	return elements;
}

/* The forms without a message: as many elements of remote memory as of the arrays */
static ssize_t trigger_atomic_iov(struct fid_ep *fid, const struct fi_ioc *operand, void **desc,
				  size_t operands, const struct fi_msg_fetch *fetch,
				  const struct fi_msg_compare *compare, fi_addr_t dest,
				  uint64_t addr, uint64_t key, enum fi_datatype datatype,
				  enum fi_op op, void *context)
{
	const bool reads = op == FI_ATOMIC_READ && fetch;
	const struct fi_rma_ioc remote = {
		.addr = addr,
		.count = reads ? trigger_elements(fetch->msg_iov, fetch->iov_count)
			       : trigger_elements(operand, operands),
		.key = key,
	};
	const struct fi_msg_atomic msg = {
		.msg_iov = operand,
		.desc = desc,
		.iov_count = operands,
		.addr = dest,
		.rma_iov = &remote,
		.rma_iov_count = 1,
		.datatype = datatype,
		.op = op,
		.context = context,
	};

	return trigger_atomic(fid, &msg, fetch, compare, trigger_tx_flags(fid));
}

static ssize_t trigger_atomic_writev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc,
				     size_t count, fi_addr_t dest, uint64_t addr, uint64_t key,
				     enum fi_datatype datatype, enum fi_op op, void *context)
{
	return trigger_atomic_iov(fid, iov, desc, count, NULL, NULL, dest, addr, key, datatype,
				  op, context);
}

static ssize_t trigger_atomic_write(struct fid_ep *fid, const void *buf, size_t count,
				    void *desc, fi_addr_t dest, uint64_t addr, uint64_t key,
				    enum fi_datatype datatype, enum fi_op op, void *context)
{
	const struct fi_ioc operand = {(void *) buf, count};

	return trigger_atomic_writev(fid, &operand, &desc, 1, dest, addr, key, datatype, op,
				     context);
}

static ssize_t trigger_atomic_inject(struct fid_ep *fid, const void *buf, size_t count,
				     fi_addr_t dest, uint64_t addr, uint64_t key,
				     enum fi_datatype datatype, enum fi_op op)
{
	return atomic_ops.inject(&trigger_ep_of(fid)->fid, buf, count, dest, addr, key,
				 datatype, op);
}

static ssize_t trigger_atomic_readwritev(struct fid_ep *fid, const struct fi_ioc *iov,
					 void **desc, size_t count, struct fi_ioc *resultv,
					 void **result_desc, size_t result_count,
					 fi_addr_t dest, uint64_t addr, uint64_t key,
					 enum fi_datatype datatype, enum fi_op op,
					 void *context)
{
	const struct fi_msg_fetch fetch = {resultv, result_desc, result_count};

	return trigger_atomic_iov(fid, iov, desc, count, &fetch, NULL, dest, addr, key,
				  datatype, op, context);
}

static ssize_t trigger_atomic_readwrite(struct fid_ep *fid, const void *buf, size_t count,
					void *desc, void *result, void *result_desc,
					fi_addr_t dest, uint64_t addr, uint64_t key,
					enum fi_datatype datatype, enum fi_op op, void *context)
{
	const struct fi_ioc operand = {(void *) buf, count};
	struct fi_ioc before = {result, count};

	return trigger_atomic_readwritev(fid, &operand, &desc, 1, &before, &result_desc, 1,
					 dest, addr, key, datatype, op, context);
}

static ssize_t
trigger_atomic_compwritev(struct fid_ep *fid, const struct fi_ioc *iov, void **desc,
			  size_t count, const struct fi_ioc *comparev, void **compare_desc,
			  size_t compare_count, struct fi_ioc *resultv, void **result_desc,
			  size_t result_count, fi_addr_t dest, uint64_t addr, uint64_t key,
			  enum fi_datatype datatype, enum fi_op op, void *context)
{
	const struct fi_msg_fetch fetch = {resultv, result_desc, result_count};
	const struct fi_msg_compare compare = {comparev, compare_desc, compare_count};

	return trigger_atomic_iov(fid, iov, desc, count, &fetch, &compare, dest, addr, key,
				  datatype, op, context);
}

static ssize_t trigger_atomic_compwrite(struct fid_ep *fid, const void *buf, size_t count,
					void *desc, const void *compare, void *compare_desc,
					void *result, void *result_desc, fi_addr_t dest,
					uint64_t addr, uint64_t key, enum fi_datatype datatype,
					enum fi_op op, void *context)
{
	const struct fi_ioc operand = {(void *) buf, count};
	const struct fi_ioc expected = {(void *) compare, count};
	struct fi_ioc before = {result, count};

	return trigger_atomic_compwritev(fid, &operand, &desc, 1, &expected, &compare_desc, 1,
					 &before, &result_desc, 1, dest, addr, key, datatype,
					 op, context);
}

static int trigger_atomic_writevalid(struct fid_ep *fid, enum fi_datatype datatype,
				     enum fi_op op, size_t *count)
{
	return atomic_ops.writevalid(&trigger_ep_of(fid)->fid, datatype, op, count);
}

static int trigger_atomic_readwritevalid(struct fid_ep *fid, enum fi_datatype datatype,
					 enum fi_op op, size_t *count)
{
	return atomic_ops.readwritevalid(&trigger_ep_of(fid)->fid, datatype, op, count);
}

static int trigger_atomic_compwritevalid(struct fid_ep *fid, enum fi_datatype datatype,
					 enum fi_op op, size_t *count)
{
	return atomic_ops.compwritevalid(&trigger_ep_of(fid)->fid, datatype, op, count);
}

struct fi_ops_atomic trigger_atomic_ops = {
	.size = sizeof(struct fi_ops_atomic),
	.write = trigger_atomic_write,
	.writev = trigger_atomic_writev,
	.writemsg = trigger_atomic_writemsg,
	.inject = trigger_atomic_inject,
	.readwrite = trigger_atomic_readwrite,
	.readwritev = trigger_atomic_readwritev,
	.readwritemsg = trigger_atomic_readwritemsg,
	.compwrite = trigger_atomic_compwrite,
	.compwritev = trigger_atomic_compwritev,
	.compwritemsg = trigger_atomic_compwritemsg,
	.writevalid = trigger_atomic_writevalid,
	.readwritevalid = trigger_atomic_readwritevalid,
	.compwritevalid = trigger_atomic_compwritevalid,
};

/* ---- the same for endpoints whose own flags do not have FI_TRIGGER ---- */

struct fi_ops_msg trigger_flagged_msg_ops;
struct fi_ops_tagged trigger_flagged_tagged_ops;
struct fi_ops_rma trigger_flagged_rma_ops;
struct fi_ops_atomic trigger_flagged_atomic_ops;

static __attribute__((constructor)) void trigger_calls_complete(void)
{
	trigger_flagged_msg_ops = msg_ops;
	trigger_flagged_msg_ops.recvmsg = trigger_recvmsg;
	trigger_flagged_msg_ops.sendmsg = trigger_sendmsg;
	trigger_flagged_tagged_ops = msg_tagged_ops;
	trigger_flagged_tagged_ops.recvmsg = trigger_trecvmsg;
	trigger_flagged_tagged_ops.sendmsg = trigger_tsendmsg;
	trigger_flagged_rma_ops = rma_ops;
	trigger_flagged_rma_ops.readmsg = trigger_readmsg;
	trigger_flagged_rma_ops.writemsg = trigger_writemsg;
	trigger_flagged_atomic_ops = atomic_ops;
	trigger_flagged_atomic_ops.writemsg = trigger_atomic_writemsg;
	trigger_flagged_atomic_ops.readwritemsg = trigger_atomic_readwritemsg;
	trigger_flagged_atomic_ops.compwritemsg = trigger_atomic_compwritemsg;
}
