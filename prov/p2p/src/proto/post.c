/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Where an operation begins. See post.h. */
#include "proto/post.h"

#include <rdma/fi_errno.h>

#include "base/conf.h"
#include "base/log.h"
#include "mem/mem.h"
#include "proto/eager.h"
#include "proto/hello.h"
#include "proto/multi_recv.h"
#include "proto/peek.h"
#include "proto/proto.h"
#include "proto/rma_core.h"
#include "proto/rma_served.h"
#include "xfer/ep_state.h"
#include "xfer/pin.h"
#include "xfer/progress.h"
#include "xfer/sendq.h"

/* What is longer may be lent: up to that, cores send a message as one */
#define POST_LEND_MIN 16384

/* Up to this length a message is not announced, on a core that may be on other hosts */
static size_t post_whole_max(const struct xfer_ep *ep, const struct core_op *op)
{
	return op->flags & FI_DELIVERY_COMPLETE || ep->wish == PATH_ACROSS_LONG
		       ? WIRE_PLAIN_MAX
		       : conf.eager_size;
}

static struct path_query post_query(struct xfer_ep *ep, const struct core_op *op, size_t len)
{
	bool whole = len <= post_whole_max(ep, op);
	/* who sends short messages only needs no other endpoint */
	bool stalls = ep->stalls && (whole || !xfer_ep_side(ep));
	bool pieces = ep->layered && (whole || !stalls);
	/* of the core we only hear when a message is in the receiver's staging memory */
	bool delivery = pieces && op->flags & FI_DELIVERY_COMPLETE;

	return (struct path_query){
		.device = true,
		.layered = ep->layered,
		.stalls = stalls,
		.len = len,
		.short_max = delivery ? WIRE_PLAIN_MAX
			     : pieces ? conf.eager_size
				      : conf.chunk_size,
		.plain_max = WIRE_PLAIN_MAX,
		.slot = stage_slot_free(&ep->xfer->stage, STAGE_WHOLE_OUT, len),
		.lends = ep->lends && stage_lends(&ep->xfer->stage, len) &&
			 hello_borrows(ep, op->addr),
		.lend_min = POST_LEND_MIN,
		.name_len = ep->name_len,
		.name_max = WIRE_NAME_MAX,
		.inject = op->flags & FI_INJECT,
		.wish = ep->wish,
		.pieces = op->count,
		.direct = ep->xfer->direct,
		.inline_max = ep->inline_max,
		.near = ep->near,
		.across_why = "over a hook there are no announcements",
	};
}

static struct path_choice post_choose(struct xfer_req *req, const struct core_op *op)
{
	struct path_query query = post_query(req->ctx.ep, op, req->len);

	hello_query(req->ctx.ep, op->addr, &query);
	return pin_choose(req, &query);
}

/* Fills @choice: the request may be gone when it returns */
static ssize_t post_send_device(struct xfer_req *req, const struct core_op *op,
				struct path_choice *choice)
{
	req->path = *choice = post_choose(req, op);
	for (const struct xfer_proto *const *proto = req->ctx.ep->xfer->protos->table; *proto;
	     proto++) {
		if ((*proto)->paths & PROTO_PATH(choice->proto))
			return (*proto)->start(req, op);
	}
	P2P_WARN("%zu bytes from %s device %d may not be staged: %s\n", req->len,
		 req->mem.ops->name, req->mem.ordinal, req->path.reason);
	return -FI_EOPNOTSUPP;
}

static ssize_t post_send(struct xfer_ep *ep, const struct core_op *op,
			 const struct dev_mem *mem)
{
	struct path_choice choice = {FI_P2P_PATH_HOST, PATH_CORE, "host memory"};
	struct xfer_req *req;
	size_t len;
	ssize_t ret;

	if (!mem->ops && xfer_sendq_has(ep, op->addr))
		return -FI_EAGAIN;
	if (!mem->ops && !xfer_ep_follows(ep, FI_SEND)) {
		ret = core_post(ep->core, op);
		if (!ret)
			xfer_ep_tally(ep, mem_iov_len(op->iov, op->count));
		return ret;
	}
	req = xfer_req_new(ep, op, mem);
	if (!req)
		return -FI_EAGAIN;
	len = req->len;
	ret = mem->ops ? post_send_device(req, op, &choice) : eager_send_followed(req, op);
	if (ret) {
		xfer_req_undo(req);
		return ret;
	}
	/* what was offered is counted when it is known whether it was taken */
	if (!path_offers(choice.proto))
		xfer_ep_sent(ep, &choice, len);
	if (mem->ops)
		P2P_DBG("%zu bytes from %s device %d: %s\n", len, mem->ops->name, mem->ordinal,
			choice.reason);
	return 0;
}

static ssize_t post_recv(struct xfer_ep *ep, const struct core_op *op,
			 const struct dev_mem *mem)
{
	struct xfer_req *req;
	ssize_t ret;

	if (op->tagged && op->flags & (FI_PEEK | FI_CLAIM | FI_DISCARD))
		return peek_post(ep, op, mem);
	if (!op->tagged && op->flags & FI_MULTI_RECV)
		return multi_recv_post(ep, op, mem);
	req = xfer_req_new(ep, op, mem);
	if (!req)
		return -FI_EAGAIN;
	ret = eager_recv(req, op);
	if (ret)
		xfer_req_undo(req);
	return ret;
}

/*
 * What a buffer is, by its descriptors where they tell. @seen: as for mem_classify(). Where one of
 * them is ours and wrong, as it is host memory, @desc becomes none, since the core knows it not.
 */
static int post_classify(const struct xfer *xfer, const struct iovec *iov, size_t count,
			 const struct dev_mem *seen, void ***desc, struct dev_mem *mem)
{
	static void *none[P2P_IOV_MAX];
	const struct dev_mem *described = desc_cache_device(&xfer->descs, *desc, count);
	int ret = 0;

	if (described || !desc_cache_host(&xfer->descs, iov, *desc, count))
		ret = mem_classify(iov, count, described ? described : seen, mem);
	else
		mem->ops = NULL;
	if (!ret && described && !mem->ops)
		*desc = none;
	return ret;
}

/* May another operation begin, on @mem? 0, -FI_EAGAIN: not now, or an error */
static int post_ready(struct xfer *xfer, const struct dev_mem *mem)
{
	if (cell_scarce(&xfer->cells))
		return -FI_EAGAIN;
	return mem->ops ? xfer_ready(xfer, mem) : 0;
}

ssize_t xfer_post(struct xfer_ep *ep, const struct core_op *op)
{
	struct xfer *xfer = ep->xfer;
	const size_t limit = op->recv ? ep->recv_iov_limit : ep->iov_limit;
	void **desc = op->desc;
	struct core_op plain;
	struct dev_mem mem;
	ssize_t ret;

	if (op->count > limit) {
		P2P_WARN("%zu pieces in one message: no more than %zu are offered "
			 "(iov_limit)\n",
			 op->count, limit);
		return -FI_EINVAL;
	}
	ret = post_classify(xfer, op->iov, op->count, op->seen, &desc, &mem);
	if (ret)
		return ret;
	if (desc != op->desc) {
		plain = *op;
		plain.desc = desc;
		op = &plain;
	}

	p2p_lock_take(&xfer->lock);
	if (mem.ops || op->recv)
		hello_trial(ep, mem.ops);
	ret = post_ready(xfer, &mem);
	if (!ret)
		ret = op->recv ? post_recv(ep, op, &mem) : post_send(ep, op, &mem);
	if (ret == -FI_EAGAIN)
		xfer_progress_locked(xfer);
	p2p_lock_drop(&xfer->lock);
	return ret;
}

int xfer_ask_path(struct xfer_ep *ep, const struct core_op *op, struct path_choice *choice)
{
	struct xfer_req *req;
	struct dev_mem mem;
	int ret;

	ret = mem_classify(op->iov, op->count, op->seen, &mem);
	if (ret)
		return ret;
	*choice = (struct path_choice){FI_P2P_PATH_HOST, PATH_CORE, "host memory"};
	if (!mem.ops)
		return 0;
	p2p_lock_take(&ep->xfer->lock);
	req = xfer_req_new(ep, op, &mem);
	if (req) {
		*choice = post_choose(req, op);
		xfer_req_undo(req);
	}
	p2p_lock_drop(&ep->xfer->lock);
	if (!req)
		return -FI_EAGAIN;
	return choice->proto == PATH_NONE ? -FI_EOPNOTSUPP : 0;
}

ssize_t xfer_post_rma(struct xfer_ep *ep, const struct core_rma *op)
{
	struct xfer *xfer = ep->xfer;
	void **desc = op->desc;
	bool owner = xfer_key_remote(xfer, op->remote->key);
	struct core_rma plain;
	struct dev_mem mem;
	ssize_t ret;

	ret = post_classify(xfer, op->iov, op->count, NULL, &desc, &mem);
	if (ret)
		return ret;
	if (desc != op->desc) {
		plain = *op;
		plain.desc = desc;
		op = &plain;
	}
	p2p_lock_take(&xfer->lock);
	ret = post_ready(xfer, &mem);
	if (!ret && !owner)
		ret = rma_core_post(ep, op, &mem, &owner);
	if (!ret && owner)
		ret = rma_served_post(ep, op, &mem);
	if (ret == -FI_EAGAIN)
		xfer_progress_locked(xfer);
	p2p_lock_drop(&xfer->lock);
	return ret;
}

ssize_t xfer_post_atomic(struct xfer_ep *ep, const struct core_atomic *op)
{
	struct xfer *xfer = ep->xfer;
	ssize_t ret;

	p2p_lock_take(&xfer->lock);
	ret = cell_scarce(&xfer->cells) ? -FI_EAGAIN : 0;
	if (!ret)
		ret = xfer_key_atomic_remote(xfer, op->remote->key) ? rma_served_atomic(ep, op)
								    : rma_core_atomic(ep, op);
	if (ret == -FI_EAGAIN)
		xfer_progress_locked(xfer);
	p2p_lock_drop(&xfer->lock);
	return ret;
}

ssize_t xfer_cancel(struct xfer_ep *ep, void *context)
{
	struct xfer_ctx *ctx;
	ssize_t ret = -FI_ENOENT;

	p2p_lock_take(&ep->xfer->lock);
	ctx = multi_recv_find(ep, context);
	if (ctx) {
		ret = fi_cancel(&ep->core->fid, ctx);
		p2p_lock_drop(&ep->xfer->lock);
		return ret;
	}
	LIST_FOREACH(ctx, &ep->live, live) {
		struct xfer_req *req = (struct xfer_req *) ctx;

		if (xfer_ctx_is_req(ctx) && req->done_flags & FI_RECV && !req->busy &&
		    req->context == context) {
			ret = fi_cancel(&ep->core->fid, ctx);
			break;
		}
	}
	p2p_lock_drop(&ep->xfer->lock);
	return ret;
}
