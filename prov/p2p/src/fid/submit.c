/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Operations go on from here. From and to host memory, with a key that the core serves, an operation is the same call
 * of the core provider, with the application's own context. Everything else is for xfer_post() and its kin.
 */
#include "fid/submit.h"

#include <rdma/fi_errno.h>

#include "base/amo.h"
#include "base/log.h"
#include "fid/flags.h"
#include "mem/mem.h"
#include "proto/post.h"
#include "xfer/ep_state.h"
#include "xfer/progress.h"

/* The flags of what is not the core's call alone: those that come with a call do not have the queue's. */
P2P_INLINE uint64_t submit_flags(const struct p2p_op *op, bool all)
{
	return op->flags | (op->call == OP_FLAGGED && all ? FI_COMPLETION : 0);
}

/* Does a buffer need more than the core's call? Looking costs more than all else. @least: of an empty piece, to look up */
P2P_INLINE bool submit_iov_is_special(const struct p2p_ep *ep, const struct iovec *iov,
				      void *const *desc, size_t count, size_t least,
				      struct dev_mem *seen)
{
	for (size_t i = 0; i < count; i++) {
		if ((!iov[i].iov_base && iov[i].iov_len) ||
		    submit_is_device(ep, iov[i].iov_base, P2P_MAX(iov[i].iov_len, least),
				     desc ? desc[i] : NULL, seen))
			return true;
	}
	return false;
}

/* ---- messages ---- */

/*
 * Tells whether a message has device memory, too many pieces or none, and notes what was seen. @op->seen
 * becomes what this sees of device memory. Who has looked already has set it.
 */
static bool submit_is_special(const struct p2p_ep *ep, struct p2p_op *op, size_t limit,
			      struct dev_mem *seen)
{
	const struct fi_msg_tagged *msg = &op->msg;

	if (op->seen)
		return true;
	seen->base = seen->size = 0;
	op->seen = seen;
	return (msg->iov_count > 1 && msg->iov_count > limit) ||
	       (msg->iov_count && !msg->msg_iov) ||
	       submit_iov_is_special(ep, msg->msg_iov, msg->desc, msg->iov_count, 0, seen);
}

/* One tag bit is ours: mem_tag_format does not have it */
static P2P_APART int submit_refuse_tag(uint64_t tag)
{
	P2P_WARN("tag 0x%zx has a bit that is not in mem_tag_format\n", (size_t) tag);
	return -FI_EINVAL;
}

/* Hands an operation to xfer_post(), with the core's address, if it takes more than the core's own call */
static ssize_t submit_post(struct p2p_ep *ep, struct p2p_op *op)
{
	int ret;

	if (op->msg.iov_count && !op->msg.msg_iov) {
		P2P_WARN("%zu pieces of a message and no list of them\n", op->msg.iov_count);
		return -FI_EINVAL;
	}
	ret = av_to_core(ep->av, &op->msg.addr);
	op->call = OP_FLAGGED;
	return ret ? ret : xfer_post(&ep->xfer, op);
}

/* Sends by the core's call if it can send this alone; else as a request. */
static P2P_NOINLINE ssize_t submit_send(struct p2p_ep *ep, struct p2p_op *op)
{
	struct fi_msg_tagged *msg = &op->msg;
	struct dev_mem seen;
	ssize_t ret;

	if (p2p_unlikely(msg->tag & ep->xfer.tag_bit))
		return submit_refuse_tag(msg->tag);
	msg->data &= ep->xfer.data_mask;
	if (xfer_ep_follows(&ep->xfer, FI_SEND) || av_unknown(ep->av, msg->addr) ||
	    submit_is_special(ep, op, ep->xfer.iov_limit, &seen) ||
	    xfer_may_have_lanes(&ep->xfer, msg->msg_iov, msg->iov_count)) {
		/* an endpoint's own flags are for writes, too */
		op->flags = flags_to_core(ep, submit_flags(op, ep->tx_all));
		return submit_post(ep, op);
	}
	if (p2p_unlikely(xfer_ep_waiting(&ep->xfer)) &&
	    xfer_ep_overtakes(&ep->xfer,
			      ep->av ? av_core_addr(ep->av, msg->addr) : FI_ADDR_UNSPEC))
		return -FI_EAGAIN;
	msg->addr = av_core_addr(ep->av, msg->addr);
	ret = core_call(ep->xfer.front.core, op);
	if (!ret)
		xfer_ep_tally(&ep->xfer, mem_iov_len(msg->msg_iov, msg->iov_count));
	return ret;
}

/* These flags are for tagged messages. Cores take untagged ones with them for receives. */
#define SUBMIT_TAGGED_ONLY (FI_PEEK | FI_CLAIM | FI_DISCARD)

/* Tells whether the core may receive this by itself and report it. @flags: what is to be reported */
static bool submit_recv_is_plain(const struct p2p_ep *ep, struct p2p_op *op, uint64_t flags,
				 struct dev_mem *seen)
{
	const size_t limit = xfer_recv_limit(&ep->xfer, flags);

	return limit && !xfer_ep_follows(&ep->xfer, FI_RECV) &&
	       !av_unknown(ep->av, op->msg.addr) &&
	       !submit_is_special(ep, op, ep->xfer.recv_iov_limit, seen) &&
	       mem_iov_len(op->msg.msg_iov, op->msg.iov_count) < limit;
}

/* Receives by the core's call if it can receive this alone; else as a request. */
static P2P_NOINLINE ssize_t submit_recv(struct p2p_ep *ep, struct p2p_op *op)
{
	const uint64_t report =
		submit_flags(op, ep->rx_all) & ~(op_tagged(op) ? FI_MULTI_RECV : 0);
	const uint64_t peeks = op->flags & SUBMIT_TAGGED_ONLY;
	struct fi_msg_tagged *msg = &op->msg;
	struct dev_mem seen;
	bool plain;

	if (p2p_unlikely(msg->tag & ep->xfer.tag_bit))
		return submit_refuse_tag(msg->tag);
	msg->ignore &= ~ep->xfer.tag_bit;
	/* Without FI_DIRECTED_RECV the address has no meaning, and need be nobody's (fi_msg(3)). */
	if (!ep->directed)
		msg->addr = FI_ADDR_UNSPEC;
	plain = !(op_tagged(op) && peeks) && submit_recv_is_plain(ep, op, report, &seen);
	if (p2p_unlikely(peeks & (plain ? ep->xfer.ours : ~0ULL) && !op_tagged(op))) {
		P2P_WARN("receive flags 0x%zx are not offered for untagged messages\n",
			 (size_t) peeks);
		return -FI_EOPNOTSUPP;
	}
	if (plain) {
		msg->addr = av_core_addr(ep->av, msg->addr);
		return core_call(ep->xfer.front.core, op);
	}
	op->flags = report;
	if (peeks & (FI_PEEK | FI_DISCARD))
		msg->iov_count = 0;
	return submit_post(ep, op);
}

/* ---- remote memory ---- */

/*
 * Tells whether a read or write is not the core's alone. Zero bytes at a device's address are special, too:
 * see rma_core_post(). So is what the runtime does not know: xfer_post_rma() asks again, and may have to tell
 * of an error
 */
static bool submit_rma_is_special(const struct p2p_ep *ep, const struct p2p_op *op)
{
	const struct fi_msg_rma *rma = &op->rma;
	struct dev_mem mem;

	if (!rma->msg_iov || !rma->rma_iov || rma->iov_count > ep->xfer.iov_limit ||
	    av_unknown(ep->av, rma->addr) || xfer_ep_follows(&ep->xfer, FI_READ | FI_WRITE) ||
	    (op->call == OP_FLAGGED && op->type == FI_OP_WRITE &&
	     op->flags & ep->xfer.ours & FI_COMMIT_COMPLETE))
		return true;
	for (size_t i = 0; i < rma->rma_iov_count; i++) {
		if (xfer_key_remote(ep->xfer.xfer, rma->rma_iov[i].key))
			return true;
	}
	return submit_iov_is_special(ep, rma->msg_iov, rma->desc, rma->iov_count, 1, &mem);
}

/* Checks that the pieces of a buffer and those of remote memory are few enough, and as long. */
static int submit_rma_check(const struct p2p_ep *ep, const struct fi_msg_rma *rma)
{
	size_t len = 0, here;

	if (!rma->rma_iov || !rma->rma_iov_count || rma->rma_iov_count > OP_RMA_MAX) {
		P2P_WARN("%zu pieces of remote memory: 1 to %d may be asked for\n",
			 rma->rma_iov_count, OP_RMA_MAX);
		return -FI_EINVAL;
	}
	if ((rma->iov_count && !rma->msg_iov) || rma->iov_count > ep->xfer.iov_limit) {
		P2P_WARN("%zu pieces of a buffer: %s\n", rma->iov_count,
			 rma->msg_iov ? "more than iov_limit" : "and no list of them");
		return -FI_EINVAL;
	}
	here = mem_iov_len(rma->msg_iov, rma->iov_count);
	for (size_t i = 0; i < rma->rma_iov_count; i++)
		len += rma->rma_iov[i].len;
	if (len == here)
		return 0;
	P2P_WARN("%zu bytes of remote memory and %zu of the local buffer\n", len, here);
	return -FI_EINVAL;
}

/* The message comes when all is there. Of no bytes it is (QUIRK_EMPTY_WRITE) */
static uint64_t submit_arrival(const struct p2p_op *op)
{
	return op->flags & (FI_INJECT | FI_COMMIT_COMPLETE) ||
			       !mem_iov_len(op->rma.msg_iov, op->rma.iov_count)
		       ? 0
		       : FI_DELIVERY_COMPLETE;
}

/* Hands a read or write to the core if it can do it alone, or to xfer_post_rma(). */
static P2P_NOINLINE ssize_t submit_rma(struct p2p_ep *ep, struct p2p_op *op)
{
	int ret;

	op->rma.data &= ep->xfer.data_mask;
	if (!submit_rma_is_special(ep, op)) {
		op->rma.addr = av_core_addr(ep->av, op->rma.addr);
		return core_call(ep->xfer.front.core, op);
	}
	ret = submit_rma_check(ep, &op->rma);
	if (ret)
		return ret;
	op->flags = submit_flags(op, ep->tx_all);
	op->call = OP_FLAGGED;
	op->notices = ep->notices && op->flags & FI_REMOTE_CQ_DATA;
	/* what is fenced may take another way than this write, which has to be there then, not just sent */
	if (op->notices || (op->type == FI_OP_WRITE && ep->xfer.ours & ep->caps & FI_FENCE))
		op->flags |= submit_arrival(op);
	if (op->notices)
		op->flags &= ~FI_REMOTE_CQ_DATA;
	ret = av_to_core(ep->av, &op->rma.addr);
	return ret ? ret : xfer_post_rma(&ep->xfer, op);
}

/* ---- atomic operations ---- */

/* Is any of it device memory? Or is that not known? Then core_atomic_arrays() asks again */
static bool submit_ioc_is_device(const struct p2p_ep *ep, const struct fi_ioc *ioc,
				 void *const *desc, size_t count, size_t size)
{
	struct dev_mem mem;

	for (size_t i = 0; ioc && i < count; i++) {
		if (submit_is_device(ep, ioc[i].addr, ioc[i].count * size,
				     desc ? desc[i] : NULL, &mem))
			return true;
	}
	return false;
}

/* Is it more than the core can do alone? */
static bool submit_atomic_is_special(const struct p2p_ep *ep, const struct p2p_op *op)
{
	const struct fi_msg_atomic *atomic = &op->atomic;
	/* of a type that is not known, it is known where its first byte is */
	size_t size = P2P_MAX(amo_size(atomic->datatype), 1);
	const uint64_t injected = FI_INJECT | FI_COMPLETION;

	return xfer_key_atomic_remote(ep->xfer.xfer, atomic->rma_iov->key) ||
	       op->flags & ep->xfer.ours & FI_COMMIT_COMPLETE ||
	       /* cores do not tell of the end of what was injected, asked or not */
	       (op->flags & ep->xfer.ours & injected) == injected ||
	       xfer_ep_follows(&ep->xfer, FI_READ | FI_WRITE) ||
	       (dev_active() && (submit_ioc_is_device(ep, atomic->msg_iov, atomic->desc,
						      atomic->iov_count, size) ||
				 submit_ioc_is_device(ep, op->compare.msg_iov, op->compare.desc,
						      op->compare.iov_count, size) ||
				 submit_ioc_is_device(ep, op->fetch.msg_iov, op->fetch.desc,
						      op->fetch.iov_count, size)));
}

static P2P_NOINLINE ssize_t submit_atomic(struct p2p_ep *ep, struct p2p_op *op)
{
	struct fi_msg_atomic *atomic = &op->atomic;
	int ret;

	if (!atomic->rma_iov || !atomic->rma_iov_count)
		return -FI_EINVAL;
	op->flags = submit_flags(op, ep->tx_all);
	/* what is only read has no operands, whatever the message says */
	if (atomic->op == FI_ATOMIC_READ)
		atomic->iov_count = 0;
	ret = av_to_core(ep->av, &atomic->addr);
	if (ret)
		return ret;
	if (!submit_atomic_is_special(ep, op))
		return core_post(&ep->xfer.front, op);
	if (amo_valid(atomic->datatype, atomic->op, op->type == FI_OP_COMPARE_ATOMIC))
		return xfer_post_atomic(&ep->xfer, op);
	P2P_WARN("atomic operation %d on type %d is not offered\n", atomic->op,
		 atomic->datatype);
	return -FI_EOPNOTSUPP;
}

struct submit_lent {
	struct p2p_ep *ep;
	struct p2p_op *op;
	ssize_t ret;
};

static void *submit_lent(void *arg)
{
	struct submit_lent *lent = arg;

	lent->ret = ep_submit(lent->ep, lent->op);
	return NULL;
}

ssize_t ep_submit(struct p2p_ep *ep, struct p2p_op *op)
{
	struct submit_lent lent = {ep, op, 0};
	int ret;

	if (dev_lend(submit_lent, &lent))
		return lent.ret;
	ret = op->call == OP_FLAGGED ? flags_take(ep, op) : 0;
	if (p2p_unlikely(ret))
		return ret;
	switch (op->type) {
	case FI_OP_RECV:
	case FI_OP_TRECV:
		return submit_recv(ep, op);
	case FI_OP_SEND:
	case FI_OP_TSEND:
		return submit_send(ep, op);
	case FI_OP_READ:
	case FI_OP_WRITE:
		return submit_rma(ep, op);
	default:
		return submit_atomic(ep, op);
	}
}
