/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Operations that wait for counters. See trigger_work.h. */
#include "gpu/trigger_work.h"

#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>

#include "base/log.h"
#include "fid/atomic.h"
#include "fid/flags.h"
#include "fid/msg.h"
#include "fid/rma.h"
#include "xfer/gone.h"

/* ---- made ---- */

/*
 * A buffer that may be used again at once would have to be copied now, though it is not to be read yet.
 */
#define TRIGGER_NEVER FI_INJECT

/* What these begin has no one completion. */
#define TRIGGER_NOT_COUNTED (FI_MULTI_RECV | FI_PEEK | FI_CLAIM | FI_DISCARD)

#define TRIGGER_PIECES "it has no list of pieces, or too many"

int trigger_refuse(int err, const char *why)
{
	P2P_WARN("an operation that waits for a counter is refused: %s\n", why);
	return err;
}

static int trigger_work_new(struct p2p_ep *ep, enum fi_op_type type, void *context,
			    uint64_t flags, struct trigger_work **made)
{
	static const enum flags_call calls[] = {
		[FI_OP_RECV] = FLAGS_RECV,
		[FI_OP_SEND] = FLAGS_SEND,
		[FI_OP_TRECV] = FLAGS_TRECV,
		[FI_OP_TSEND] = FLAGS_TSEND,
		[FI_OP_READ] = FLAGS_READ,
		[FI_OP_WRITE] = FLAGS_WRITE,
		[FI_OP_ATOMIC] = FLAGS_ATOMIC,
		[FI_OP_FETCH_ATOMIC] = FLAGS_ATOMIC,
		[FI_OP_COMPARE_ATOMIC] = FLAGS_ATOMIC,
	};
	struct trigger_work *work;
	int ret = ep ? flags_check(ep, calls[type], flags & ~FI_TRIGGER) : 0;

	if (ret)
		return ret;
	if (flags & TRIGGER_NEVER)
		return trigger_refuse(-FI_ENOSYS, "it has FI_INJECT");
	work = calloc(1, sizeof *work);
	if (!work)
		return -FI_ENOMEM;
	work->ep = ep;
	work->type = type;
	work->context = context;
	work->flags = flags & ~FI_TRIGGER;
	*made = work;
	return 0;
}

/* Operations with FI_TRIGGER are reported as ever, those of FI_QUEUE_WORK counted once. */
static int trigger_flags_check(uint64_t flags)
{
	if (flags & FI_TRIGGER || !(flags & TRIGGER_NOT_COUNTED))
		return 0;
	return trigger_refuse(-FI_ENOSYS,
			      "it is deferred work, and may not complete just once");
}

/*
 * Where the application need not have descriptors, what it passes for an array of them may be none. Ours are looked up
 * again when the work goes.
 */
static bool trigger_wants_desc(const struct p2p_ep *ep)
{
	const struct p2p_domain *domain = ep->domain;

	return domain->layered || domain->xfer.local;
}

/* @from: NULL: there is nothing */
static void trigger_copy(void *to, const void *from, size_t size)
{
	if (from)
		memcpy(to, from, size);
}

/* The same, with a copy of the buffers that its message names */
static int trigger_work_new_buffers(struct p2p_ep *ep, enum fi_op_type type, void *context,
				    uint64_t flags, const struct iovec *iov, void **desc,
				    size_t count, struct trigger_work **made)
{
	struct trigger_work *work = NULL;
	int ret = trigger_work_new(ep, type, context, flags, &work);

	if (ret)
		return ret;
	if (count > P2P_IOV_MAX || (count && !iov)) {
		free(work);
		return trigger_refuse(-FI_EINVAL, TRIGGER_PIECES);
	}
	trigger_copy(work->iov, iov, count * sizeof *iov);
	trigger_copy(work->desc, trigger_wants_desc(ep) ? desc : NULL, count * sizeof *desc);
	*made = work;
	return 0;
}

int trigger_work_msg(struct p2p_ep *ep, enum fi_op_type type, const struct fi_msg *msg,
		     uint64_t flags, struct trigger_work **made)
{
	struct trigger_work *work = NULL;
	int ret = trigger_flags_check(flags);

	if (!ret)
		ret = trigger_work_new_buffers(ep, type, msg->context, flags, msg->msg_iov,
					       msg->desc, msg->iov_count, &work);
	if (ret)
		return ret;
	work->op.msg = *msg;
	work->op.msg.msg_iov = work->iov;
	work->op.msg.desc = msg->desc ? work->desc : NULL;
	*made = work;
	return 0;
}

int trigger_work_tagged(struct p2p_ep *ep, enum fi_op_type type,
			const struct fi_msg_tagged *msg, uint64_t flags,
			struct trigger_work **made)
{
	struct trigger_work *work = NULL;
	int ret = trigger_flags_check(flags);

	if (!ret)
		ret = trigger_work_new_buffers(ep, type, msg->context, flags, msg->msg_iov,
					       msg->desc, msg->iov_count, &work);
	if (ret)
		return ret;
	work->op.tagged = *msg;
	work->op.tagged.msg_iov = work->iov;
	work->op.tagged.desc = msg->desc ? work->desc : NULL;
	*made = work;
	return 0;
}

int trigger_work_rma(struct p2p_ep *ep, enum fi_op_type type, const struct fi_msg_rma *msg,
		     uint64_t flags, struct trigger_work **made)
{
	struct trigger_work *work = NULL;
	int ret;

	if (!msg->rma_iov || msg->rma_iov_count > OP_RMA_MAX)
		return trigger_refuse(-FI_EINVAL, TRIGGER_PIECES);
	ret = trigger_work_new_buffers(ep, type, msg->context, flags, msg->msg_iov, msg->desc,
				       msg->iov_count, &work);
	if (ret)
		return ret;
	memcpy(work->remote, msg->rma_iov, msg->rma_iov_count * sizeof *msg->rma_iov);
	work->op.rma = *msg;
	work->op.rma.msg_iov = work->iov;
	work->op.rma.desc = msg->desc ? work->desc : NULL;
	work->op.rma.rma_iov = work->remote;
	*made = work;
	return 0;
}

static int trigger_array_copy(const struct p2p_ep *ep, struct trigger_array *array,
			      const struct fi_ioc *ioc, void **desc, size_t count)
{
	if (count > P2P_IOV_MAX || (count && !ioc))
		return -FI_EINVAL;
	trigger_copy(array->ioc, ioc, count * sizeof *ioc);
	trigger_copy(array->desc, trigger_wants_desc(ep) ? desc : NULL, count * sizeof *desc);
	array->count = count;
	return 0;
}

static int trigger_work_arrays(struct trigger_work *work, const struct fi_msg_atomic *msg,
			       const struct fi_msg_fetch *fetch,
			       const struct fi_msg_compare *compare)
{
	/* what is only read has no operands, whatever the message says */
	const size_t operands = msg->op == FI_ATOMIC_READ ? 0 : msg->iov_count;
	int ret =
		trigger_array_copy(work->ep, &work->operand, msg->msg_iov, msg->desc, operands);

	if (!ret && fetch)
		ret = trigger_array_copy(work->ep, &work->result, fetch->msg_iov, fetch->desc,
					 fetch->iov_count);
	if (!ret && compare)
		ret = trigger_array_copy(work->ep, &work->compare, compare->msg_iov,
					 compare->desc, compare->iov_count);
	return ret;
}

int trigger_work_atomic(struct p2p_ep *ep, enum fi_op_type type,
			const struct fi_msg_atomic *msg, const struct fi_msg_fetch *fetch,
			const struct fi_msg_compare *compare, uint64_t flags,
			struct trigger_work **made)
{
	struct trigger_work *work;
	int ret;

	if (!msg->rma_iov || msg->rma_iov_count > OP_RMA_MAX)
		return trigger_refuse(-FI_EINVAL, TRIGGER_PIECES);
	ret = trigger_work_new(ep, type, msg->context, flags, &work);
	if (ret)
		return ret;
	ret = trigger_work_arrays(work, msg, fetch, compare);
	if (ret) {
		free(work);
		return trigger_refuse(ret, TRIGGER_PIECES);
	}
	memcpy(work->remote_ioc, msg->rma_iov, msg->rma_iov_count * sizeof *msg->rma_iov);
	work->op.atomic = *msg;
	work->op.atomic.iov_count = work->operand.count;
	work->op.atomic.msg_iov = work->operand.ioc;
	work->op.atomic.desc = work->operand.desc;
	work->op.atomic.rma_iov = work->remote_ioc;
	*made = work;
	return 0;
}

int trigger_work_cntr(struct p2p_cntr *cntr, enum fi_op_type type, uint64_t value,
		      struct trigger_work **made)
{
	int ret = trigger_work_new(NULL, type, NULL, 0, made);

	if (ret)
		return ret;
	(*made)->op.count.cntr = cntr;
	(*made)->op.count.value = value;
	return 0;
}

/* ---- asked, and posted ---- */

fi_addr_t trigger_work_addr(const struct trigger_work *work)
{
	switch (work->type) {
	case FI_OP_SEND:
		return work->op.msg.addr;
	case FI_OP_TSEND:
		return work->op.tagged.addr;
	case FI_OP_READ:
	case FI_OP_WRITE:
		return work->op.rma.addr;
	case FI_OP_ATOMIC:
	case FI_OP_FETCH_ATOMIC:
	case FI_OP_COMPARE_ATOMIC:
		return work->op.atomic.addr;
	default:
		return FI_ADDR_UNSPEC;
	}
}

uint64_t trigger_work_comp_flags(const struct trigger_work *work)
{
	static const uint64_t flags[] = {
		[FI_OP_RECV] = FI_RECV | FI_MSG,
		[FI_OP_SEND] = FI_SEND | FI_MSG,
		[FI_OP_TRECV] = FI_RECV | FI_TAGGED,
		[FI_OP_TSEND] = FI_SEND | FI_TAGGED,
		[FI_OP_READ] = FI_READ | FI_RMA,
		[FI_OP_WRITE] = FI_WRITE | FI_RMA,
		[FI_OP_ATOMIC] = FI_WRITE | FI_ATOMIC,
		[FI_OP_FETCH_ATOMIC] = FI_READ | FI_ATOMIC,
		[FI_OP_COMPARE_ATOMIC] = FI_READ | FI_ATOMIC,
	};

	return work->type <= FI_OP_COMPARE_ATOMIC ? flags[work->type] : 0;
}

static ssize_t trigger_post_atomic(struct trigger_work *work)
{
	struct fid_ep *ep = &work->ep->fid;

	if (work->type == FI_OP_ATOMIC)
		return atomic_ops.writemsg(ep, &work->op.atomic, work->flags);
	if (work->type == FI_OP_FETCH_ATOMIC)
		return atomic_ops.readwritemsg(ep, &work->op.atomic, work->result.ioc,
					       work->result.desc, work->result.count,
					       work->flags);
	return atomic_ops.compwritemsg(ep, &work->op.atomic, work->compare.ioc,
				       work->compare.desc, work->compare.count,
				       work->result.ioc, work->result.desc, work->result.count,
				       work->flags);
}

ssize_t trigger_work_post(struct trigger_work *work, void *context)
{
	struct fid_ep *ep = work->ep ? &work->ep->fid : NULL;

	if (work->ep &&
	    gone_is_late(&work->ep->xfer, av_core_addr(work->ep->av, trigger_work_addr(work))))
		return -FI_ECONNRESET;
	switch (work->type) {
	case FI_OP_RECV:
		work->op.msg.context = context;
		return msg_ops.recvmsg(ep, &work->op.msg, work->flags);
	case FI_OP_SEND:
		work->op.msg.context = context;
		return msg_ops.sendmsg(ep, &work->op.msg, work->flags);
	case FI_OP_TRECV:
		work->op.tagged.context = context;
		return msg_tagged_ops.recvmsg(ep, &work->op.tagged, work->flags);
	case FI_OP_TSEND:
		work->op.tagged.context = context;
		return msg_tagged_ops.sendmsg(ep, &work->op.tagged, work->flags);
	case FI_OP_READ:
		work->op.rma.context = context;
		return rma_ops.readmsg(ep, &work->op.rma, work->flags);
	case FI_OP_WRITE:
		work->op.rma.context = context;
		return rma_ops.writemsg(ep, &work->op.rma, work->flags);
	case FI_OP_CNTR_SET:
		return fi_cntr_set(&work->op.count.cntr->fid, work->op.count.value);
	case FI_OP_CNTR_ADD:
		return fi_cntr_add(&work->op.count.cntr->fid, work->op.count.value);
	default:
		work->op.atomic.context = context;
		return trigger_post_atomic(work);
	}
}
