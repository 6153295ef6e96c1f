/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Multi-receive buffers, and the order of what comes to them. See multi_recv.h.
 *
 *	sender                                                           receiver
 *	                     --- message A ----------------------------> places and reports A
 *	MARKING              --- ANNOUNCE(id, length) of B ------------> notes what is to come
 *	ANNOUNCED            --- marker(id) of B ----------------------> holds a turn for B
 *	PUSHING              <---------------------- TAKE(id, plain) ---
 *	                     --- message C ----------------------------> places C, holds it back
 *	CORE                 --- message B(mark and id, bytes) --------> places B
 *	ENDED                                                            reports B, then C
 *
 * The receiver gives up B when no buffer is left that could take it. Messages of other senders
 * do not wait for B.
 */
#include "proto/multi_recv.h"

#include <stdlib.h>
#include <rdma/fi_errno.h>

#include "base/conf.h"
#include "base/log.h"
#include "xfer/pin.h"
#include "proto/proto.h"
#include "proto/proto_state.h"
#include "proto/rndv_plain.h"
#include "xfer/ep_state.h"
#include "xfer/reports.h"
#include "xfer/sendq.h"

/**
 * struct multi_recv_buf - a buffer in the core's hands.
 * @context, @addr: as the user gave them
 * @report:	the user wants to hear of every message
 * @base, @len:	the user's buffer; @mem its allocation
 * @host:	where the core puts the messages: @base, or the start of @reserve
 * @mr:		what @base is registered as, where the core wants that
 * @released:	the core puts nothing more there
 * @placed:	bytes of the messages that have come
 * @filled:	of those that will have come, as far as it is known: up to the end of the last one that lies here and, once it
 *		is released, as many as that takes. Cores may release a buffer while they still receive into it, and
 *		another thread may have read what lies here, and not handed it on
 * @torn:	a message has failed, and may have taken any place
 * @vague:	they have not told how many, so that the record has to outlive its end: it
 *		is @over then
 * @queued:	messages in ep.multi_msgs that lie here
 * @end:	what is reported last, unless that is a message
 */
struct multi_recv_buf {
	struct xfer_ctx ctx;
	void *context;
	fi_addr_t addr;
	bool report;
	bool released;
	bool torn;
	bool vague;
	bool over;
	struct dev_mem mem;
	char *base;
	size_t len;
	char *host;
	void *host_desc;
	struct stage_reserve *reserve;
	struct fid_mr *mr;
	size_t placed;
	size_t filled;
	unsigned int queued;
	struct core_comp end;
	LIST_ENTRY(multi_recv_buf) entry;
};

/**
 * struct multi_recv_msg - a message from its completion in the core to its report.
 * @buf:	where it lies; NULL: it is still to come, to any buffer
 * @copying:	it is on its way to the device, @copied bytes are there
 * @comp:	its completion, with the place in @buf->host
 */
struct multi_recv_msg {
	struct xfer_ctx ctx;
	struct multi_recv_buf *buf;
	bool copying;
	size_t copied;
	struct copy copy;
	struct core_comp comp;
	TAILQ_ENTRY(multi_recv_msg) entry;
};

_Static_assert(sizeof(struct multi_recv_buf) <= CELL_SIZE, "a buffer is a cell");
_Static_assert(sizeof(struct multi_recv_msg) <= CELL_SIZE, "a message is a cell");

/* Buffers kept after their end, the newest ones */
#define MULTI_RECV_OVER_MAX 64

/* ---- buffers ---- */

static void multi_recv_buf_drop(struct xfer_ctx *ctx)
{
	struct multi_recv_buf *buf = (struct multi_recv_buf *) ctx;

	LIST_REMOVE(buf, entry);
	if (buf->reserve)
		stage_reserve_put(&ctx->ep->xfer->stage, buf->reserve, buf->len);
	if (buf->mr)
		fi_close(&buf->mr->fid);
	xfer_ctx_free(ctx);
}

/* Has the last message been reported, or is about to be? */
static bool multi_recv_buf_done(const struct multi_recv_buf *buf)
{
	return buf->released && !buf->over && !buf->queued &&
	       ((buf->vague && buf->torn) || buf->placed >= buf->filled);
}

struct xfer_ctx *multi_recv_find(struct xfer_ep *ep, const void *context)
{
	struct multi_recv_buf *buf;

	xfer_assert_locked(ep->xfer);
	LIST_FOREACH(buf, &ep->proto->multis, entry) {
		if (!buf->released && buf->context == context)
			return &buf->ctx;
	}
	return NULL;
}

/* Forgets a buffer; @reported: the last message has told of its end. */
static void multi_recv_buf_end(struct multi_recv_buf *buf, bool reported)
{
	if (!reported)
		xfer_cq_report(buf->ctx.ep->rxcq, &buf->end);
	buf->over = true;
	if (!buf->vague)
		multi_recv_buf_drop(&buf->ctx);
}

/* Up to there the buffer is known to be filled */
static void multi_recv_buf_reach(struct multi_recv_buf *buf, size_t filled)
{
	buf->filled = P2P_MAX(buf->filled, filled);
}

static void multi_recv_buf_release(struct multi_recv_buf *buf, const struct core_comp *comp)
{
	size_t least = 0, size = sizeof least;

	buf->released = true;
	buf->end = (struct core_comp){
		.context = buf->context,
		.flags = FI_MULTI_RECV,
		.src = FI_ADDR_NOTAVAIL,
	};
	if (comp->buf && !comp->err) {
		multi_recv_buf_reach(buf, (char *) comp->buf - buf->host + comp->len);
		return;
	}
	buf->vague = true;
	if (abs(comp->err) == FI_ECANCELED) {
		buf->end.flags |= FI_RECV | FI_MSG;
		buf->end.err = comp->err;
		buf->end.prov_errno = comp->prov_errno;
	} else if (!comp->err && !fi_getopt(&buf->ctx.ep->front.core->fid, FI_OPT_ENDPOINT,
					    FI_OPT_MIN_MULTI_RECV, &least, &size)) {
		/* no core gives back what has room for that */
		multi_recv_buf_reach(buf, buf->len - P2P_MIN(least, buf->len));
	}
}

/* Forgets what has been over for long. */
static void multi_recv_bufs_prune(struct xfer_ep *ep)
{
	struct multi_recv_buf *buf, *next;
	unsigned int over = 0;

	for (buf = LIST_FIRST(&ep->proto->multis); buf; buf = next) {
		next = LIST_NEXT(buf, entry);
		over += buf->over;
		if (buf->over && !buf->queued && over > MULTI_RECV_OVER_MAX)
			multi_recv_buf_drop(&buf->ctx);
	}
}

/* Could a message from @src still come to any buffer? */
static bool multi_recv_room(const struct xfer_ep *ep, fi_addr_t src)
{
	const struct multi_recv_buf *buf;

	LIST_FOREACH(buf, &ep->proto->multis, entry) {
		if (!buf->released && (buf->addr == FI_ADDR_UNSPEC || buf->addr == src ||
				       src == FI_ADDR_NOTAVAIL))
			return true;
	}
	return false;
}

/* ---- messages ---- */

static void multi_recv_msg_drop(struct xfer_ctx *ctx)
{
	struct multi_recv_msg *msg = (struct multi_recv_msg *) ctx;

	TAILQ_REMOVE(&ctx->ep->proto->multi_msgs, msg, entry);
	xfer_busy_add(ctx->ep->xfer, -1);
	xfer_ctx_free(ctx);
}

/* NULL: there is no room for it, and that is reported */
static struct multi_recv_msg *multi_recv_msg_new(const struct multi_recv_buf *buf,
						 const struct core_comp *comp)
{
	struct xfer_ep *ep = buf->ctx.ep;
	struct multi_recv_msg *msg = cell_get(&ep->xfer->cells);
	struct core_comp lost = *comp;

	if (!msg) {
		lost.context = buf->context;
		lost.err = FI_ENOMEM;
		xfer_ep_count(ep, FI_RECV, lost.err);
		xfer_cq_report(ep->rxcq, &lost);
		return NULL;
	}
	msg->buf = NULL;
	msg->copying = false;
	msg->copied = 0;
	msg->comp = *comp;
	xfer_ctx_init(&msg->ctx, ep, NULL, multi_recv_msg_drop);
	xfer_busy_add(ep->xfer, 1);
	TAILQ_INSERT_TAIL(&ep->proto->multi_msgs, msg, entry);
	return msg;
}

static void multi_recv_msg_report(struct multi_recv_msg *msg)
{
	struct xfer_ep *ep = msg->ctx.ep;
	struct multi_recv_buf *buf = msg->buf;
	struct core_comp comp = msg->comp;
	bool last;

	buf->queued--;
	last = multi_recv_buf_done(buf);
	comp.context = buf->context;
	if (comp.buf)
		comp.buf = buf->base + ((char *) comp.buf - buf->host);
	if (last && !buf->end.err)
		comp.flags |= FI_MULTI_RECV;
	if (!comp.err) {
		enum fi_p2p_path path = buf->reserve ? FI_P2P_PATH_STAGE : FI_P2P_PATH_HOST;

		ep->stats.rx_msgs[path]++;
		ep->stats.rx_bytes[path] += comp.len;
	}
	xfer_ep_count(ep, FI_RECV, comp.err);
	if (buf->report || comp.err || last)
		xfer_cq_report(ep->rxcq, &comp);
	multi_recv_msg_drop(&msg->ctx);
	if (last)
		multi_recv_buf_end(buf, !buf->end.err);
}

/* Reports what nothing has to be waited for. */
static void multi_recv_deliver(struct xfer_ep *ep)
{
	struct xfer_blocked blocked = {.count = 0};
	struct multi_recv_msg *msg, *next;

	for (msg = TAILQ_FIRST(&ep->proto->multi_msgs); msg; msg = next) {
		next = TAILQ_NEXT(msg, entry);
		if (!msg->buf && !multi_recv_room(ep, msg->comp.src))
			continue;
		if (!msg->buf || msg->copying || xfer_blocked_has(&blocked, msg->comp.src))
			xfer_blocked_add(&blocked, msg->comp.src);
		else
			multi_recv_msg_report(msg);
	}
}

/* ---- copying ---- */

static size_t multi_recv_step(const struct multi_recv_msg *msg)
{
	return P2P_MIN(msg->comp.len - msg->copied, conf.chunk_size);
}

static void multi_recv_copied(struct copy *copy, int status);

static int multi_recv_copy_next(struct multi_recv_msg *msg)
{
	struct multi_recv_buf *buf = msg->buf;
	size_t offset = (char *) msg->comp.buf - buf->host + msg->copied;
	const struct iovec iov = {buf->base + offset, multi_recv_step(msg)};

	msg->copy.done = multi_recv_copied;
	return xfer_copy_start(msg->ctx.ep, &buf->mem, COPY_IN, &iov, 1, buf->host + offset,
			       &msg->copy);
}

static void multi_recv_copied(struct copy *copy, int status)
{
	struct multi_recv_msg *msg = container_of(copy, struct multi_recv_msg, copy);

	if (xfer_copy_ended(msg->ctx.ep))
		return;
	msg->copied += multi_recv_step(msg);
	if (!status && msg->copied < msg->comp.len)
		status = multi_recv_copy_next(msg);
	else
		msg->copying = false;
	if (status) {
		msg->copying = false;
		msg->comp.err = -status;
	}
	multi_recv_deliver(msg->ctx.ep);
}

/* ---- what the core reports ---- */

static void multi_recv_placed(struct multi_recv_buf *buf, const struct core_comp *comp)
{
	struct xfer_ep *ep = buf->ctx.ep;
	const bool marked = xfer_concerned(ep->rxcq, NULL, comp->flags, comp->data);
	struct core_comp known = *comp;
	struct multi_recv_msg *msg = NULL;
	int ret;

	buf->placed += comp->len;
	buf->torn |= comp->err != 0;
	if (comp->buf && !comp->err)
		multi_recv_buf_reach(buf, (char *) comp->buf - buf->host + comp->len);
	/* its sender was stopped, is lost, and knows by now that it has failed */
	if (marked && rndv_orphaned(ep->xfer, comp->data & WIRE_ID_MASK))
		return;
	known.flags &= ~FI_MULTI_RECV;
	/* the core may tell the whole length of a message that is too long: QUIRK_LONG_LEN */
	if (known.err && known.buf)
		known.len = P2P_MIN(known.len, buf->len - ((char *) known.buf - buf->host));
	if (marked)
		msg = rndv_diverted(ep->xfer, &known);
	/* nobody here has asked for it: it takes no receive from anybody */
	if (marked && !msg && !comp->err)
		return;
	if (!msg)
		msg = multi_recv_msg_new(buf, &known);
	if (!msg)
		return;
	msg->comp = known;
	msg->buf = buf;
	buf->queued++;
	if (!buf->reserve || !known.len || !known.buf)
		return;
	ret = multi_recv_copy_next(msg);
	msg->copying = !ret;
	if (ret)
		msg->comp.err = -ret;
}

/* The message that a marker stood for will not come, or has gone elsewhere. */
static void multi_recv_gone(void *held)
{
	struct multi_recv_msg *msg = held;
	struct xfer_ep *ep = msg->ctx.ep;

	multi_recv_msg_drop(&msg->ctx);
	multi_recv_deliver(ep);
}

/* It has come to a receive that is not one of these. */
static void multi_recv_body(struct xfer *xfer, struct core_comp *comp)
{
	struct multi_recv_msg *held = rndv_diverted(xfer, comp);

	if (held)
		multi_recv_gone(held);
}

static void multi_recv_marker(const struct multi_recv_buf *buf, const struct core_comp *comp)
{
	struct multi_recv_msg *msg = multi_recv_msg_new(buf, comp);

	if (msg)
		rndv_divert(buf->ctx.ep, comp->data & WIRE_ID_MASK, msg, multi_recv_gone);
}

static void multi_recv_received(struct xfer_ctx *ctx, const struct core_comp *comp)
{
	struct multi_recv_buf *buf = (struct multi_recv_buf *) ctx;
	struct xfer_ep *ep = ctx->ep;
	bool cancelled = abs(comp->err) == FI_ECANCELED;

	if (cancelled || comp->flags & FI_MULTI_RECV)
		multi_recv_buf_release(buf, comp);
	/* a marker whose message has failed may let others be reported: the buffer is not to end before this does */
	buf->queued++;
	if (!comp->err && !comp->len && xfer_concerned(ep->rxcq, NULL, comp->flags, comp->data))
		multi_recv_marker(buf, comp);
	else if (!cancelled && (comp->err || comp->flags & (FI_RECV | FI_REMOTE_WRITE)))
		multi_recv_placed(buf, comp);
	buf->queued--;
	if (multi_recv_buf_done(buf))
		multi_recv_buf_end(buf, false);
	multi_recv_deliver(ep);
}

/* ---- posting ---- */

ssize_t multi_recv_post(struct xfer_ep *ep, const struct p2p_op *op, const struct dev_mem *mem)
{
	struct p2p_op core = *op;
	struct multi_recv_buf *buf;
	struct iovec iov;
	ssize_t ret;

	xfer_assert_locked(ep->xfer);
	if (op->msg.iov_count != 1 || !ep->rxcq) {
		P2P_WARN("a multi-receive buffer of %zu pieces, or for another's queue\n",
			 op->msg.iov_count);
		return -FI_EINVAL;
	}
	multi_recv_bufs_prune(ep);
	buf = cell_get(&ep->xfer->cells);
	if (!buf)
		return -FI_EAGAIN;
	*buf = (struct multi_recv_buf){
		.context = op->msg.context,
		.addr = op->msg.addr,
		.report = op->flags & FI_COMPLETION,
		.mem = *mem,
		.base = op->msg.msg_iov[0].iov_base,
		.len = op->msg.msg_iov[0].iov_len,
		.host = op->msg.msg_iov[0].iov_base,
		.host_desc = op->msg.desc ? op->msg.desc[0] : NULL,
	};
	xfer_ctx_init(&buf->ctx, ep, multi_recv_received, multi_recv_buf_drop);
	LIST_INSERT_HEAD(&ep->proto->multis, buf, entry);
	ret = -FI_ENOMEM;
	if (mem->ops) {
		buf->reserve = stage_reserve_get(&ep->xfer->stage, buf->len);
		if (!buf->reserve)
			goto drop;
		buf->host = buf->reserve->addr;
		buf->host_desc = buf->reserve->desc;
	} else if (ep->xfer->local && !buf->host_desc) {
		ret = pin_local(ep->xfer, &op->msg.msg_iov[0], &buf->mr, &buf->host_desc);
		if (ret)
			goto drop;
	}
	iov = (struct iovec){buf->host, buf->len};
	core.msg.msg_iov = &iov;
	core.msg.desc = &buf->host_desc;
	core.flags |= FI_COMPLETION;
	core.msg.context = &buf->ctx;
	ret = core_post(&ep->front, &core);
	if (!ret)
		return 0;
drop:
	multi_recv_buf_drop(&buf->ctx);
	return ret;
}

const struct xfer_proto multi_recv_proto = {
	.name = "multi-receive",
	.body = multi_recv_body,
};
