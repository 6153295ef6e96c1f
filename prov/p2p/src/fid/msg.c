/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The calls to send and receive.
 *
 * A host buffer goes on to the same call of the core provider, with the application's own
 * context. If there is no GPU runtime, and nothing else of ours, that costs a few loads and
 * branches. Each call has them written out. Everything else becomes a struct p2p_op.
 */
#include "fid/msg.h"

#include <rdma/fi_errno.h>

#include "fid/flags.h"
#include "fid/submit.h"
#include "xfer/ep_state.h"

/*
 * Tells whether the core may take a buffer at once: it is xfer_plain(), and host memory for sure. A closer
 * look may find the same of the rest.
 */
static inline bool msg_direct(const void *buf, size_t len, const size_t *limit)
{
	return !dev_glance() && xfer_plain(buf, len, limit);
}

/* Tells whether the core may take a tagged message at once; its tag must not have our bit */
static inline bool msg_tagged_direct(const struct p2p_ep *ep, const void *buf, size_t len,
				     const size_t *limit, uint64_t tag)
{
	return p2p_likely(!(tag & ep->xfer.tag_bit)) && msg_direct(buf, len, limit);
}

/* A message of one piece that is not direct; @op has all else. If only the look was missing, it is the core's call. */
P2P_INLINE ssize_t msg_piece(struct p2p_ep *ep, struct p2p_op *op, const void *buf, size_t len,
			     void *desc, const size_t *limit)
{
	const struct iovec iov = {(void *) buf, len};
	struct dev_mem seen = {.size = 0};

	op->msg.msg_iov = &iov;
	op->msg.desc = &desc;
	op->msg.iov_count = 1;
	if (xfer_plain(buf, len, limit) &&
	    !((op->msg.tag | op->msg.ignore) & ep->xfer.tag_bit)) {
		if (!submit_is_device(ep, buf, len, desc, &seen))
			return core_call(ep->xfer.front.core, op);
		op->seen = &seen;
	}
	return ep->submit(ep, op);
}

/*
 * Builds the op of a send that needs a closer look, and submits it. @flags: FI_INJECT, FI_REMOTE_CQ_DATA, or
 * none
 */
static P2P_NOINLINE ssize_t msg_send_other(struct p2p_ep *ep, enum fi_op_type type,
					   uint64_t flags, const void *buf, size_t len,
					   void *desc, fi_addr_t dest, uint64_t tag,
					   uint64_t data, void *context)
{
	const bool inject = flags & FI_INJECT;
	struct p2p_op op;

	op_init(&op, type, inject ? OP_INJECT : OP_PLAIN, flags | (inject ? 0 : ep->tx_flags));
	op.msg = (struct fi_msg_tagged){
		.addr = dest,
		.tag = tag,
		.context = context,
		.data = data & ep->xfer.data_mask,
	};
	return msg_piece(ep, &op, buf, len, desc, &ep->xfer.send_limit);
}

static inline ssize_t msg_submit_iov(struct p2p_ep *ep, enum fi_op_type type, uint64_t flags,
				     const struct iovec *iov, void **desc, size_t count,
				     fi_addr_t addr, uint64_t tag, uint64_t ignore,
				     void *context)
{
	struct p2p_op op;

	op_init(&op, type, OP_PLAIN, flags);
	op.msg = (struct fi_msg_tagged){iov, desc, count, addr, tag, ignore, context, 0};
	return ep->submit(ep, &op);
}

static P2P_NOINLINE ssize_t msg_submit(struct p2p_ep *ep, enum fi_op_type type,
				       const struct fi_msg *msg, uint64_t flags)
{
	struct p2p_op op;

	if (p2p_unlikely(!msg))
		return -FI_EINVAL;
	op_init(&op, type, OP_FLAGGED, flags);
	op_set_msg(&op, msg);
	return ep->submit(ep, &op);
}

static P2P_NOINLINE ssize_t msg_submit_tagged(struct p2p_ep *ep, enum fi_op_type type,
					      const struct fi_msg_tagged *msg, uint64_t flags)
{
	struct p2p_op op;

	if (p2p_unlikely(!msg))
		return -FI_EINVAL;
	op_init(&op, type, OP_FLAGGED, flags);
	op.msg = *msg;
	return ep->submit(ep, &op);
}

/* ---- fi_msg(3): sending ---- */

static ssize_t msg_send(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			fi_addr_t dest, void *context)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(msg_direct(buf, len, &ep->xfer.send_limit)))
		return fi_send(ep->xfer.front.core, buf, len, desc, dest, context);
	return msg_send_other(ep, FI_OP_SEND, 0, buf, len, desc, dest, 0, 0, context);
}

static ssize_t msg_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			    uint64_t data, fi_addr_t dest, void *context)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(msg_direct(buf, len, &ep->xfer.send_limit)))
		return fi_senddata(ep->xfer.front.core, buf, len, desc,
				   data & ep->xfer.data_mask, dest, context);
	return msg_send_other(ep, FI_OP_SEND, FI_REMOTE_CQ_DATA, buf, len, desc, dest, 0, data,
			      context);
}

static ssize_t msg_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(msg_direct(buf, len, &ep->xfer.send_limit)))
		return fi_inject(ep->xfer.front.core, buf, len, dest);
	return msg_send_other(ep, FI_OP_SEND, FI_INJECT, buf, len, NULL, dest, 0, 0, NULL);
}

static ssize_t msg_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
			      fi_addr_t dest)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(msg_direct(buf, len, &ep->xfer.send_limit)))
		return fi_injectdata(ep->xfer.front.core, buf, len, data & ep->xfer.data_mask,
				     dest);
	return msg_send_other(ep, FI_OP_SEND, FI_INJECT | FI_REMOTE_CQ_DATA, buf, len, NULL,
			      dest, 0, data, NULL);
}

static ssize_t msg_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(msg && !(flags & ~FLAGS_TX_PLAIN) &&
		       xfer_direct_iov(msg->msg_iov, msg->iov_count, ep->xfer.iov_limit,
				       &ep->xfer.send_limit)))
		return fi_sendmsg(ep->xfer.front.core, msg, flags);
	return msg_submit(ep, FI_OP_SEND, msg, flags);
}

static ssize_t msg_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t dest, void *context)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(xfer_direct_iov(iov, count, ep->xfer.iov_limit, &ep->xfer.send_limit)))
		return fi_sendv(ep->xfer.front.core, iov, desc, count, dest, context);
	return msg_submit_iov(ep, FI_OP_SEND, ep->tx_flags, iov, desc, count, dest, 0, 0,
			      context);
}

/* ---- fi_tagged(3): sending ---- */

/*
 * Takes what fi_tsend() does not pass on at once. Its arguments are where the call has them, so nothing on the
 * stack is moved.
 */
static P2P_NOINLINE ssize_t msg_tsend_other(struct fid_ep *fid, const void *buf, size_t len,
					    void *desc, fi_addr_t dest, uint64_t tag,
					    void *context)
{
	return msg_send_other(ep_of(&fid->fid), FI_OP_TSEND, 0, buf, len, desc, dest, tag, 0,
			      context);
}

static P2P_NOINLINE ssize_t msg_tsenddata_other(struct fid_ep *fid, const void *buf, size_t len,
						void *desc, uint64_t data, fi_addr_t dest,
						uint64_t tag, void *context)
{
	return msg_send_other(ep_of(&fid->fid), FI_OP_TSEND, FI_REMOTE_CQ_DATA, buf, len, desc,
			      dest, tag, data, context);
}

/* Is fi_tsend(): calls the core at once for plain host memory, or leaves the rest to msg_tsend_other(). */
static ssize_t msg_tsend(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			 fi_addr_t dest, uint64_t tag, void *context)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(msg_tagged_direct(ep, buf, len, &ep->xfer.send_limit, tag)))
		return fi_tsend(ep->xfer.front.core, buf, len, desc, dest, tag, context);
	return msg_tsend_other(fid, buf, len, desc, dest, tag, context);
}

static ssize_t msg_tsenddata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			     uint64_t data, fi_addr_t dest, uint64_t tag, void *context)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(msg_tagged_direct(ep, buf, len, &ep->xfer.send_limit, tag)))
		return fi_tsenddata(ep->xfer.front.core, buf, len, desc,
				    data & ep->xfer.data_mask, dest, tag, context);
	return msg_tsenddata_other(fid, buf, len, desc, data, dest, tag, context);
}

static ssize_t msg_tinject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
			   uint64_t tag)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(msg_tagged_direct(ep, buf, len, &ep->xfer.send_limit, tag)))
		return fi_tinject(ep->xfer.front.core, buf, len, dest, tag);
	return msg_send_other(ep, FI_OP_TSEND, FI_INJECT, buf, len, NULL, dest, tag, 0, NULL);
}

static ssize_t msg_tinjectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
			       fi_addr_t dest, uint64_t tag)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(msg_tagged_direct(ep, buf, len, &ep->xfer.send_limit, tag)))
		return fi_tinjectdata(ep->xfer.front.core, buf, len, data & ep->xfer.data_mask,
				      dest, tag);
	return msg_send_other(ep, FI_OP_TSEND, FI_INJECT | FI_REMOTE_CQ_DATA, buf, len, NULL,
			      dest, tag, data, NULL);
}

static ssize_t msg_tsendmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(msg && !(flags & ~FLAGS_TX_PLAIN) && !(msg->tag & ep->xfer.tag_bit) &&
		       xfer_direct_iov(msg->msg_iov, msg->iov_count, ep->xfer.iov_limit,
				       &ep->xfer.send_limit)))
		return fi_tsendmsg(ep->xfer.front.core, msg, flags);
	return msg_submit_tagged(ep, FI_OP_TSEND, msg, flags);
}

static ssize_t msg_tsendv(struct fid_ep *fid, const struct iovec *iov, void **desc,
			  size_t count, fi_addr_t dest, uint64_t tag, void *context)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(!(tag & ep->xfer.tag_bit) &&
		       xfer_direct_iov(iov, count, ep->xfer.iov_limit, &ep->xfer.send_limit)))
		return fi_tsendv(ep->xfer.front.core, iov, desc, count, dest, tag, context);
	return msg_submit_iov(ep, FI_OP_TSEND, ep->tx_flags, iov, desc, count, dest, tag, 0,
			      context);
}

/* ---- receiving ---- */

/* @recv_limit is for receives that are reported */
static inline bool msg_recv_flags_plain(const struct p2p_ep *ep, uint64_t flags)
{
	return (flags & FI_COMPLETION || ep->rx_all) && !(flags & ~FLAGS_RX_PLAIN);
}

P2P_INLINE ssize_t msg_recv_piece(struct p2p_ep *ep, enum fi_op_type type, void *buf,
				  size_t len, void *desc, fi_addr_t src, uint64_t tag,
				  uint64_t ignore, void *context)
{
	struct p2p_op op;

	op_init(&op, type, OP_PLAIN, ep_rx_flags(ep, type));
	op.msg = (struct fi_msg_tagged){
		.addr = src,
		.tag = tag,
		.ignore = ignore,
		.context = context,
	};
	return msg_piece(ep, &op, buf, len, desc, &ep->xfer.recv_limit);
}

/* Receives of one piece that are not direct have their arguments where the calls have them. */
static P2P_NOINLINE ssize_t msg_recv_other(struct fid_ep *fid, void *buf, size_t len,
					   void *desc, fi_addr_t src, void *context)
{
	return msg_recv_piece(ep_of(&fid->fid), FI_OP_RECV, buf, len, desc, src, 0, 0, context);
}

/* Takes what fi_trecv() does not pass on at once. */
static P2P_NOINLINE ssize_t msg_trecv_other(struct fid_ep *fid, void *buf, size_t len,
					    void *desc, fi_addr_t src, uint64_t tag,
					    uint64_t ignore, void *context)
{
	return msg_recv_piece(ep_of(&fid->fid), FI_OP_TRECV, buf, len, desc, src, tag, ignore,
			      context);
}

static ssize_t msg_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
			void *context)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(msg_direct(buf, len, &ep->xfer.recv_limit)))
		return fi_recv(ep->xfer.front.core, buf, len, desc, src, context);
	return msg_recv_other(fid, buf, len, desc, src, context);
}

static ssize_t msg_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t src, void *context)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(
		    xfer_direct_iov(iov, count, ep->xfer.recv_iov_limit, &ep->xfer.recv_limit)))
		return fi_recvv(ep->xfer.front.core, iov, desc, count, src, context);
	return msg_submit_iov(ep, FI_OP_RECV, ep_rx_flags(ep, FI_OP_RECV), iov, desc, count,
			      src, 0, 0, context);
}

static ssize_t msg_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(msg && msg_recv_flags_plain(ep, flags) &&
		       xfer_direct_iov(msg->msg_iov, msg->iov_count, ep->xfer.recv_iov_limit,
				       &ep->xfer.recv_limit)))
		return fi_recvmsg(ep->xfer.front.core, msg, flags);
	return msg_submit(ep, FI_OP_RECV, msg, flags);
}

/* Is fi_trecv(): calls the core at once for plain host memory, or leaves the rest to msg_trecv_other(). */
static ssize_t msg_trecv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
			 uint64_t tag, uint64_t ignore, void *context)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	/* if @ignore has our bit, it is taken out later */
	if (p2p_likely(msg_tagged_direct(ep, buf, len, &ep->xfer.recv_limit, tag | ignore)))
		return fi_trecv(ep->xfer.front.core, buf, len, desc, src, tag, ignore, context);
	return msg_trecv_other(fid, buf, len, desc, src, tag, ignore, context);
}

static ssize_t msg_trecvv(struct fid_ep *fid, const struct iovec *iov, void **desc,
			  size_t count, fi_addr_t src, uint64_t tag, uint64_t ignore,
			  void *context)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(
		    !((tag | ignore) & ep->xfer.tag_bit) &&
		    xfer_direct_iov(iov, count, ep->xfer.recv_iov_limit, &ep->xfer.recv_limit)))
		return fi_trecvv(ep->xfer.front.core, iov, desc, count, src, tag, ignore,
				 context);
	return msg_submit_iov(ep, FI_OP_TRECV, ep_rx_flags(ep, FI_OP_TRECV), iov, desc, count,
			      src, tag, ignore, context);
}

static ssize_t msg_trecvmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(msg && msg_recv_flags_plain(ep, flags) &&
		       !((msg->tag | msg->ignore) & ep->xfer.tag_bit) &&
		       xfer_direct_iov(msg->msg_iov, msg->iov_count, ep->xfer.recv_iov_limit,
				       &ep->xfer.recv_limit)))
		return fi_trecvmsg(ep->xfer.front.core, msg, flags);
	return msg_submit_tagged(ep, FI_OP_TRECV, msg, flags);
}

struct fi_ops_msg msg_ops = {
	.size = sizeof(struct fi_ops_msg),
	.recv = msg_recv,
	.recvv = msg_recvv,
	.recvmsg = msg_recvmsg,
	.send = msg_send,
	.sendv = msg_sendv,
	.sendmsg = msg_sendmsg,
	.inject = msg_inject,
	.senddata = msg_senddata,
	.injectdata = msg_injectdata,
};

struct fi_ops_tagged msg_tagged_ops = {
	.size = sizeof(struct fi_ops_tagged),
	.recv = msg_trecv,
	.recvv = msg_trecvv,
	.recvmsg = msg_trecvmsg,
	.send = msg_tsend,
	.sendv = msg_tsendv,
	.sendmsg = msg_tsendmsg,
	.inject = msg_tinject,
	.senddata = msg_tsenddata,
	.injectdata = msg_tinjectdata,
};
