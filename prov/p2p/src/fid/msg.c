/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The calls to send and receive.
 *
 * A host buffer goes on to the same call of the core provider, with the application's own
 * context. If there is no GPU runtime, and nothing else of ours, that costs a few loads and
 * branches. Each call has them written out. Everything else gets a closer look, and is then the
 * core's call or one struct p2p_op for xfer_post().
 */
#include "fid/msg.h"

#include <rdma/fi_errno.h>

#include "fid/flags.h"
#include "base/log.h"
#include "mem/mem.h"
#include "path/info.h"
#include "proto/post.h"
#include "xfer/ep_state.h"
#include "xfer/progress.h"

/* What to do with a message */
enum msg_way {
	MSG_CORE, /* the core's own call */
	MSG_XFER, /* it takes more than that, or is wrong */
	MSG_LATER /* it would overtake others */
};

/*
 * Is one piece of a buffer, which has an address, device memory? Or is that not known? Then
 * xfer_post() asks again, and may have to tell of an error. @seen: as below
 */
static inline bool msg_device(const struct p2p_ep *ep, const void *buf, size_t len,
			      const void *desc, struct dev_mem *seen)
{
	return dev_active() &&
	       desc_cache_find_device(&ep->xfer.xfer->descs, buf, len, desc, seen);
}

/*
 * Does a buffer need more than the core's call? @seen: what this sees of device memory, for
 * struct p2p_op. Looking costs more than all else. xfer_post() looks itself, so callers that
 * know that they need it do not come here first.
 */
static bool msg_special_iov(const struct p2p_ep *ep, const struct iovec *iov, void *const *desc,
			    size_t count, size_t limit, struct dev_mem *seen)
{
	if (count > 1 && count > limit)
		return true;
	for (size_t i = 0; i < count; i++) {
		if (!iov || (!iov[i].iov_base && iov[i].iov_len) ||
		    msg_device(ep, iov[i].iov_base, iov[i].iov_len, desc ? desc[i] : NULL,
			       seen))
			return true;
	}
	return false;
}

/* Counts a message of @len bytes if the core's call has sent it: @ret is what that returned */
static ssize_t msg_counted(struct p2p_ep *ep, size_t len, ssize_t ret)
{
	if (!ret)
		xfer_ep_tally(&ep->xfer, len);
	return ret;
}

static enum msg_way msg_send_way_iov(struct p2p_ep *ep, const struct iovec *iov,
				     void *const *desc, size_t count, fi_addr_t dest,
				     struct dev_mem *seen)
{
	seen->base = seen->size = 0;
	if (xfer_ep_follows(&ep->xfer, FI_SEND) || av_unknown(ep->av, dest) ||
	    msg_special_iov(ep, iov, desc, count, ep->xfer.iov_limit, seen) ||
	    xfer_may_have_lanes(&ep->xfer, iov, count))
		return MSG_XFER;
	if (p2p_unlikely(xfer_ep_waiting(&ep->xfer)) &&
	    xfer_ep_overtakes(&ep->xfer, ep->av ? av_core_addr(ep->av, dest) : FI_ADDR_UNSPEC))
		return MSG_LATER;
	return MSG_CORE;
}

/* Is it xfer_plain(), and host memory for sure? A closer look may find the same of the rest. */
static inline bool msg_direct(const void *buf, size_t len, const size_t *limit)
{
	return !dev_glance() && xfer_plain(buf, len, limit);
}

/* One tag bit is ours: mem_tag_format does not have it */
static P2P_APART void msg_tag_warn(uint64_t tag)
{
	P2P_WARN("tag 0x%zx has a bit that is not in mem_tag_format\n", (size_t) tag);
}

static inline bool msg_tag_bad(const struct p2p_ep *ep, uint64_t tag)
{
	if (p2p_likely(!(tag & ep->xfer.tag_bit)))
		return false;
	msg_tag_warn(tag);
	return true;
}

static ssize_t msg_post(struct p2p_ep *ep, struct p2p_op *op)
{
	int ret;

	if (op->msg.iov_count && !op->msg.msg_iov) {
		P2P_WARN("%zu pieces of a message and no list of them\n", op->msg.iov_count);
		return -FI_EINVAL;
	}
	op->msg.data &= ep->xfer.data_mask;
	/* an endpoint's own flags are for writes, too */
	if (ep->xfer.layered && !op_receives(op))
		op->flags = info_flags_to_core(op->flags);
	ret = av_to_core(ep->av, &op->msg.addr);
	return ret ? ret : xfer_post(&ep->xfer, op);
}

/* The calls to send one piece, tagged or not */
enum msg_call { MSG_CALL_SEND, MSG_CALL_SENDDATA, MSG_CALL_INJECT, MSG_CALL_INJECTDATA };

static ssize_t msg_send_core(const struct p2p_ep *ep, enum msg_call call, bool tagged,
			     const void *buf, size_t len, void *desc, fi_addr_t dest,
			     uint64_t tag, uint64_t data, void *context)
{
	struct fid_ep *core = ep->xfer.core;
	fi_addr_t to = av_core_addr(ep->av, dest);

	data &= ep->xfer.data_mask;
	switch (call) {
	case MSG_CALL_SEND:
		return tagged ? fi_tsend(core, buf, len, desc, to, tag, context)
			      : fi_send(core, buf, len, desc, to, context);
	case MSG_CALL_SENDDATA:
		return tagged ? fi_tsenddata(core, buf, len, desc, data, to, tag, context)
			      : fi_senddata(core, buf, len, desc, data, to, context);
	case MSG_CALL_INJECT:
		return tagged ? fi_tinject(core, buf, len, to, tag)
			      : fi_inject(core, buf, len, to);
	case MSG_CALL_INJECTDATA:
		return tagged ? fi_tinjectdata(core, buf, len, data, to, tag)
			      : fi_injectdata(core, buf, len, data, to);
	}
	return -FI_EINVAL;
}

/* A send of one piece that is not direct */
static P2P_NOINLINE ssize_t msg_send_other(struct p2p_ep *ep, enum msg_call call, bool tagged,
					   const void *buf, size_t len, void *desc,
					   fi_addr_t dest, uint64_t tag, uint64_t data,
					   void *context)
{
	struct dev_mem seen = {.size = 0};
	struct iovec iov = {(void *) buf, len};
	enum msg_way way;

	if (msg_tag_bad(ep, tag))
		return -FI_EINVAL;
	if (xfer_plain(buf, len, &ep->xfer.send_limit))
		way = msg_device(ep, buf, len, desc, &seen) ? MSG_XFER : MSG_CORE;
	else
		way = msg_send_way_iov(ep, &iov, &desc, 1, dest, &seen);
	if (way == MSG_XFER) {
		struct p2p_op op = {
			.type = tagged ? FI_OP_TSEND : FI_OP_SEND,
			.msg.msg_iov = &iov,
			.msg.desc = &desc,
			.msg.iov_count = 1,
			.msg.addr = dest,
			.msg.tag = tag,
			.msg.data = data,
			.flags = call < MSG_CALL_INJECT ? ep->tx_flags : FI_INJECT,
			.msg.context = context,
			.seen = &seen,
		};

		if (call == MSG_CALL_SENDDATA || call == MSG_CALL_INJECTDATA)
			op.flags |= FI_REMOTE_CQ_DATA;
		return msg_post(ep, &op);
	}
	if (way == MSG_LATER)
		return -FI_EAGAIN;
	return msg_counted(ep, len,
			   msg_send_core(ep, call, tagged, buf, len, desc, dest, tag, data,
					 context));
}

/* ---- fi_msg(3): sending ---- */

static ssize_t msg_send(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			fi_addr_t dest, void *context)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(msg_direct(buf, len, &ep->xfer.send_limit)))
		return fi_send(ep->xfer.core, buf, len, desc, dest, context);
	return msg_send_other(ep, MSG_CALL_SEND, false, buf, len, desc, dest, 0, 0, context);
}

static ssize_t msg_senddata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			    uint64_t data, fi_addr_t dest, void *context)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(msg_direct(buf, len, &ep->xfer.send_limit)))
		return fi_senddata(ep->xfer.core, buf, len, desc, data & ep->xfer.data_mask,
				   dest, context);
	return msg_send_other(ep, MSG_CALL_SENDDATA, false, buf, len, desc, dest, 0, data,
			      context);
}

static ssize_t msg_inject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(msg_direct(buf, len, &ep->xfer.send_limit)))
		return fi_inject(ep->xfer.core, buf, len, dest);
	return msg_send_other(ep, MSG_CALL_INJECT, false, buf, len, NULL, dest, 0, 0, NULL);
}

static ssize_t msg_injectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
			      fi_addr_t dest)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(msg_direct(buf, len, &ep->xfer.send_limit)))
		return fi_injectdata(ep->xfer.core, buf, len, data & ep->xfer.data_mask, dest);
	return msg_send_other(ep, MSG_CALL_INJECTDATA, false, buf, len, NULL, dest, 0, data,
			      NULL);
}

static ssize_t msg_sendmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	struct dev_mem seen;
	struct p2p_ep *ep = ep_of(&fid->fid);
	struct fi_msg core_msg;
	enum msg_way way;
	int ret;

	if (p2p_unlikely(!msg))
		return -FI_EINVAL;
	ret = flags_take(ep, FLAGS_SEND, &flags, msg->addr);
	if (p2p_unlikely(ret))
		return ret;
	way = msg_send_way_iov(ep, msg->msg_iov, msg->desc, msg->iov_count, msg->addr, &seen);
	if (way == MSG_XFER) {
		struct p2p_op op = {
			.type = FI_OP_SEND,
			.msg.msg_iov = msg->msg_iov,
			.msg.desc = msg->desc,
			.msg.iov_count = msg->iov_count,
			.msg.addr = msg->addr,
			.msg.data = msg->data,
			.flags = flags | (ep->tx_all ? FI_COMPLETION : 0),
			.msg.context = msg->context,
			.seen = &seen,
		};

		return msg_post(ep, &op);
	}
	if (way == MSG_LATER)
		return -FI_EAGAIN;
	core_msg = *msg;
	core_msg.addr = av_core_addr(ep->av, msg->addr);
	core_msg.data &= ep->xfer.data_mask;
	return msg_counted(ep, mem_iov_len(msg->msg_iov, msg->iov_count),
			   fi_sendmsg(ep->xfer.core, &core_msg, flags));
}

static ssize_t msg_sendv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t dest, void *context)
{
	struct dev_mem seen;
	struct p2p_ep *ep = ep_of(&fid->fid);
	enum msg_way way = msg_send_way_iov(ep, iov, desc, count, dest, &seen);
	struct p2p_op op = {
		.type = FI_OP_SEND,
		.msg.msg_iov = iov,
		.msg.desc = desc,
		.msg.iov_count = count,
		.msg.addr = dest,
		.flags = ep->tx_flags,
		.msg.context = context,
		.seen = &seen,
	};

	if (way == MSG_CORE)
		return msg_counted(ep, mem_iov_len(iov, count),
				   fi_sendv(ep->xfer.core, iov, desc, count,
					    av_core_addr(ep->av, dest), context));
	return way == MSG_LATER ? -FI_EAGAIN : msg_post(ep, &op);
}

/* ---- fi_tagged(3): sending ---- */

/* The same for a tagged message: its tag must not have our bit */
static inline bool msg_tagged_direct(const struct p2p_ep *ep, const void *buf, size_t len,
				     const size_t *limit, uint64_t tag)
{
	return p2p_likely(!(tag & ep->xfer.tag_bit)) && msg_direct(buf, len, limit);
}

/* These two have their arguments where the calls have them: nothing on the stack is moved. */
static P2P_NOINLINE ssize_t msg_tsend_other(struct fid_ep *fid, const void *buf, size_t len,
					    void *desc, fi_addr_t dest, uint64_t tag,
					    void *context)
{
	return msg_send_other(ep_of(&fid->fid), MSG_CALL_SEND, true, buf, len, desc, dest, tag,
			      0, context);
}

static P2P_NOINLINE ssize_t msg_tsenddata_other(struct fid_ep *fid, const void *buf, size_t len,
						void *desc, uint64_t data, fi_addr_t dest,
						uint64_t tag, void *context)
{
	return msg_send_other(ep_of(&fid->fid), MSG_CALL_SENDDATA, true, buf, len, desc, dest,
			      tag, data, context);
}

static ssize_t msg_tsend(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			 fi_addr_t dest, uint64_t tag, void *context)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(msg_tagged_direct(ep, buf, len, &ep->xfer.send_limit, tag)))
		return fi_tsend(ep->xfer.core, buf, len, desc, dest, tag, context);
	return msg_tsend_other(fid, buf, len, desc, dest, tag, context);
}

static ssize_t msg_tsenddata(struct fid_ep *fid, const void *buf, size_t len, void *desc,
			     uint64_t data, fi_addr_t dest, uint64_t tag, void *context)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(msg_tagged_direct(ep, buf, len, &ep->xfer.send_limit, tag)))
		return fi_tsenddata(ep->xfer.core, buf, len, desc, data & ep->xfer.data_mask,
				    dest, tag, context);
	return msg_tsenddata_other(fid, buf, len, desc, data, dest, tag, context);
}

static ssize_t msg_tinject(struct fid_ep *fid, const void *buf, size_t len, fi_addr_t dest,
			   uint64_t tag)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(msg_tagged_direct(ep, buf, len, &ep->xfer.send_limit, tag)))
		return fi_tinject(ep->xfer.core, buf, len, dest, tag);
	return msg_send_other(ep, MSG_CALL_INJECT, true, buf, len, NULL, dest, tag, 0, NULL);
}

static ssize_t msg_tinjectdata(struct fid_ep *fid, const void *buf, size_t len, uint64_t data,
			       fi_addr_t dest, uint64_t tag)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(msg_tagged_direct(ep, buf, len, &ep->xfer.send_limit, tag)))
		return fi_tinjectdata(ep->xfer.core, buf, len, data & ep->xfer.data_mask, dest,
				      tag);
	return msg_send_other(ep, MSG_CALL_INJECTDATA, true, buf, len, NULL, dest, tag, data,
			      NULL);
}

static ssize_t msg_tsendmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
	struct dev_mem seen;
	struct p2p_ep *ep = ep_of(&fid->fid);
	struct fi_msg_tagged core_msg;
	enum msg_way way;
	int ret;

	if (p2p_unlikely(!msg || msg_tag_bad(ep, msg->tag)))
		return -FI_EINVAL;
	ret = flags_take(ep, FLAGS_TSEND, &flags, msg->addr);
	if (p2p_unlikely(ret))
		return ret;
	way = msg_send_way_iov(ep, msg->msg_iov, msg->desc, msg->iov_count, msg->addr, &seen);
	if (way == MSG_XFER) {
		struct p2p_op op = {
			.type = FI_OP_TSEND,
			.msg.msg_iov = msg->msg_iov,
			.msg.desc = msg->desc,
			.msg.iov_count = msg->iov_count,
			.msg.addr = msg->addr,
			.msg.tag = msg->tag,
			.msg.data = msg->data,
			.flags = flags | (ep->tx_all ? FI_COMPLETION : 0),
			.msg.context = msg->context,
			.seen = &seen,
		};

		return msg_post(ep, &op);
	}
	if (way == MSG_LATER)
		return -FI_EAGAIN;
	core_msg = *msg;
	core_msg.addr = av_core_addr(ep->av, msg->addr);
	core_msg.data &= ep->xfer.data_mask;
	return msg_counted(ep, mem_iov_len(msg->msg_iov, msg->iov_count),
			   fi_tsendmsg(ep->xfer.core, &core_msg, flags));
}

static ssize_t msg_tsendv(struct fid_ep *fid, const struct iovec *iov, void **desc,
			  size_t count, fi_addr_t dest, uint64_t tag, void *context)
{
	struct dev_mem seen;
	struct p2p_ep *ep = ep_of(&fid->fid);
	enum msg_way way = msg_send_way_iov(ep, iov, desc, count, dest, &seen);
	struct p2p_op op = {
		.type = FI_OP_TSEND,
		.msg.msg_iov = iov,
		.msg.desc = desc,
		.msg.iov_count = count,
		.msg.addr = dest,
		.msg.tag = tag,
		.flags = ep->tx_flags,
		.msg.context = context,
		.seen = &seen,
	};

	if (msg_tag_bad(ep, tag))
		return -FI_EINVAL;
	if (way == MSG_CORE)
		return msg_counted(ep, mem_iov_len(iov, count),
				   fi_tsendv(ep->xfer.core, iov, desc, count,
					     av_core_addr(ep->av, dest), tag, context));
	return way == MSG_LATER ? -FI_EAGAIN : msg_post(ep, &op);
}

/* ---- receiving ---- */

/*
 * Who a receive is for. Without FI_DIRECTED_RECV the address has no meaning, and need be nobody's (fi_msg(3)).
 * The core ignores it, too: what is direct goes there as it is.
 */
static inline fi_addr_t msg_src(const struct p2p_ep *ep, fi_addr_t src)
{
	return ep->directed ? src : FI_ADDR_UNSPEC;
}

/* May the core receive this by itself, and report it? */
static bool msg_recv_plain_iov(const struct p2p_ep *ep, const struct iovec *iov,
			       void *const *desc, size_t count, fi_addr_t src, uint64_t flags,
			       struct dev_mem *seen)
{
	seen->base = seen->size = 0;
	return !xfer_ep_follows(&ep->xfer, FI_RECV) && !av_unknown(ep->av, src) &&
	       !msg_special_iov(ep, iov, desc, count, ep->xfer.recv_iov_limit, seen) &&
	       mem_iov_len(iov, count) < xfer_recv_limit(&ep->xfer, flags);
}

/* These flags are for tagged messages. Cores take untagged ones with them for receives. */
#define MSG_TAGGED_ONLY (FI_PEEK | FI_CLAIM | FI_DISCARD)

static bool msg_recv_flags_bad(const struct p2p_ep *ep, bool plain, uint64_t flags)
{
	if (!(flags & MSG_TAGGED_ONLY) || (plain && !ep->xfer.layered))
		return false;
	P2P_WARN("receive flags 0x%zx are not offered for untagged messages\n",
		 (size_t) (flags & MSG_TAGGED_ONLY));
	return true;
}

/* The flags of a tagged receive: an endpoint's own may be meant for both kinds. */
static inline uint64_t msg_trecv_flags(uint64_t flags)
{
	return flags & ~FI_MULTI_RECV;
}

static inline ssize_t msg_recv_piece(struct p2p_ep *ep, bool tagged, void *buf, size_t len,
				     void *desc, fi_addr_t src, uint64_t tag, uint64_t ignore,
				     void *context)
{
	uint64_t flags = tagged ? msg_trecv_flags(ep->xfer.rx_flags) : ep->xfer.rx_flags;
	struct dev_mem seen = {.size = 0};
	struct iovec iov = {buf, len};
	bool plain;

	if (msg_tag_bad(ep, tag))
		return -FI_EINVAL;
	ignore &= ~ep->xfer.tag_bit;
	src = msg_src(ep, src);
	plain = xfer_plain(buf, len, &ep->xfer.recv_limit)
			? !msg_device(ep, buf, len, desc, &seen)
			: xfer_recv_limit(&ep->xfer, flags) &&
				  msg_recv_plain_iov(ep, &iov, &desc, 1, src, flags, &seen);
	if (!plain) {
		struct p2p_op op = {
			.type = tagged ? FI_OP_TRECV : FI_OP_RECV,
			.msg.msg_iov = &iov,
			.msg.desc = &desc,
			.msg.iov_count = 1,
			.msg.addr = src,
			.msg.tag = tag,
			.msg.ignore = ignore,
			.flags = flags,
			.msg.context = context,
			.seen = &seen,
		};

		return msg_post(ep, &op);
	}
	src = av_core_addr(ep->av, src);
	return tagged ? fi_trecv(ep->xfer.core, buf, len, desc, src, tag, ignore, context)
		      : fi_recv(ep->xfer.core, buf, len, desc, src, context);
}

/* Receives of one piece that are not direct have their arguments where the calls have them. */
static P2P_NOINLINE ssize_t msg_recv_other(struct fid_ep *fid, void *buf, size_t len,
					   void *desc, fi_addr_t src, void *context)
{
	return msg_recv_piece(ep_of(&fid->fid), false, buf, len, desc, src, 0, 0, context);
}

static P2P_NOINLINE ssize_t msg_trecv_other(struct fid_ep *fid, void *buf, size_t len,
					    void *desc, fi_addr_t src, uint64_t tag,
					    uint64_t ignore, void *context)
{
	return msg_recv_piece(ep_of(&fid->fid), true, buf, len, desc, src, tag, ignore,
			      context);
}

static ssize_t msg_recv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
			void *context)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	if (p2p_likely(msg_direct(buf, len, &ep->xfer.recv_limit)))
		return fi_recv(ep->xfer.core, buf, len, desc, src, context);
	return msg_recv_other(fid, buf, len, desc, src, context);
}

static ssize_t msg_recvv(struct fid_ep *fid, const struct iovec *iov, void **desc, size_t count,
			 fi_addr_t src, void *context)
{
	struct dev_mem seen;
	struct p2p_ep *ep = ep_of(&fid->fid);
	struct p2p_op op = {
		.type = FI_OP_RECV,
		.msg.msg_iov = iov,
		.msg.desc = desc,
		.msg.iov_count = count,
		.msg.addr = msg_src(ep, src),
		.flags = ep->xfer.rx_flags,
		.msg.context = context,
		.seen = &seen,
	};

	if (msg_recv_plain_iov(ep, iov, desc, count, op.msg.addr, op.flags, &seen))
		return fi_recvv(ep->xfer.core, iov, desc, count,
				av_core_addr(ep->av, op.msg.addr), context);
	return msg_post(ep, &op);
}

static ssize_t msg_recvmsg(struct fid_ep *fid, const struct fi_msg *msg, uint64_t flags)
{
	struct dev_mem seen;
	struct p2p_ep *ep = ep_of(&fid->fid);
	uint64_t report = flags | (ep->rx_all ? FI_COMPLETION : 0);
	struct fi_msg core_msg;
	fi_addr_t src;
	bool plain;
	int ret;

	if (p2p_unlikely(!msg))
		return -FI_EINVAL;
	ret = flags_take(ep, FLAGS_RECV, &flags, msg->addr);
	if (p2p_unlikely(ret))
		return ret;
	src = msg_src(ep, msg->addr);
	plain = msg_recv_plain_iov(ep, msg->msg_iov, msg->desc, msg->iov_count, src, report,
				   &seen);
	if (msg_recv_flags_bad(ep, plain, flags))
		return -FI_EOPNOTSUPP;
	if (!plain) {
		struct p2p_op op = {
			.type = FI_OP_RECV,
			.msg.msg_iov = msg->msg_iov,
			.msg.desc = msg->desc,
			.msg.iov_count = msg->iov_count,
			.msg.addr = src,
			.flags = report,
			.msg.context = msg->context,
			.seen = &seen,
		};

		return msg_post(ep, &op);
	}
	core_msg = *msg;
	core_msg.addr = av_core_addr(ep->av, src);
	return fi_recvmsg(ep->xfer.core, &core_msg, flags);
}

static ssize_t msg_trecv(struct fid_ep *fid, void *buf, size_t len, void *desc, fi_addr_t src,
			 uint64_t tag, uint64_t ignore, void *context)
{
	struct p2p_ep *ep = ep_of(&fid->fid);

	/* if @ignore has our bit, msg_recv_piece() takes it out */
	if (p2p_likely(msg_tagged_direct(ep, buf, len, &ep->xfer.recv_limit, tag | ignore)))
		return fi_trecv(ep->xfer.core, buf, len, desc, src, tag, ignore, context);
	return msg_trecv_other(fid, buf, len, desc, src, tag, ignore, context);
}

static ssize_t msg_trecvv(struct fid_ep *fid, const struct iovec *iov, void **desc,
			  size_t count, fi_addr_t src, uint64_t tag, uint64_t ignore,
			  void *context)
{
	struct dev_mem seen;
	struct p2p_ep *ep = ep_of(&fid->fid);
	struct p2p_op op = {
		.type = FI_OP_TRECV,
		.msg.msg_iov = iov,
		.msg.desc = desc,
		.msg.iov_count = count,
		.msg.addr = msg_src(ep, src),
		.msg.tag = tag,
		.msg.ignore = ignore & ~ep->xfer.tag_bit,
		.flags = msg_trecv_flags(ep->xfer.rx_flags),
		.msg.context = context,
		.seen = &seen,
	};

	if (msg_tag_bad(ep, tag))
		return -FI_EINVAL;
	if (msg_recv_plain_iov(ep, iov, desc, count, op.msg.addr, op.flags, &seen))
		return fi_trecvv(ep->xfer.core, iov, desc, count,
				 av_core_addr(ep->av, op.msg.addr), tag, op.msg.ignore,
				 context);
	return msg_post(ep, &op);
}

static ssize_t msg_trecvmsg(struct fid_ep *fid, const struct fi_msg_tagged *msg, uint64_t flags)
{
	struct dev_mem seen = {.size = 0};
	struct p2p_ep *ep = ep_of(&fid->fid);
	uint64_t report = flags | (ep->rx_all ? FI_COMPLETION : 0);
	struct fi_msg_tagged core_msg;
	fi_addr_t src;
	int ret;

	if (p2p_unlikely(!msg || msg_tag_bad(ep, msg->tag)))
		return -FI_EINVAL;
	ret = flags_take(ep, FLAGS_TRECV, &flags, msg->addr);
	if (p2p_unlikely(ret))
		return ret;
	src = msg_src(ep, msg->addr);
	if (flags & MSG_TAGGED_ONLY ||
	    !msg_recv_plain_iov(ep, msg->msg_iov, msg->desc, msg->iov_count, src, report,
				&seen)) {
		const bool buffer = !(flags & (FI_PEEK | FI_DISCARD));
		struct p2p_op op = {
			.type = FI_OP_TRECV,
			.msg.msg_iov = msg->msg_iov,
			.msg.desc = msg->desc,
			.msg.iov_count = buffer ? msg->iov_count : 0,
			.msg.addr = src,
			.msg.tag = msg->tag,
			.msg.ignore = msg->ignore & ~ep->xfer.tag_bit,
			.flags = msg_trecv_flags(report),
			.msg.context = msg->context,
			.seen = &seen,
		};

		return msg_post(ep, &op);
	}
	core_msg = *msg;
	core_msg.addr = av_core_addr(ep->av, src);
	core_msg.ignore &= ~ep->xfer.tag_bit;
	return fi_trecvmsg(ep->xfer.core, &core_msg, flags);
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
