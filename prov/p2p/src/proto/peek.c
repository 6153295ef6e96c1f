/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Peeks: they look for messages and receive none. See peek.h. The sender knows nothing of them.
 *
 *	sender                                                           receiver
 *	ANNOUNCED            --- marker(tag, id) ----------------------> the core keeps it
 *	                                                                 CORE: a peek finds it
 *	                     --- ANNOUNCE(id, length, data) -----------> MATCHED, until this
 *	                                                                 reports length and data
 *
 *	                                                                 FI_PEEK: ENDED
 *	                                                                 FI_CLAIM: CLAIMED
 *	PUSHING              <-------- TAKE(id, length, ...): rndv.c --- received: CORE, MATCHED
 *	PUSHING or ENDING    <----- TAKE(id, length 0): rndv_plain.c --- FI_DISCARD: ENDED
 */
#include "proto/peek.h"

#include <rdma/fi_errno.h>

#include "base/libfabric.h"
#include "base/log.h"
#include "proto/rndv_match.h"
#include "proto/rndv_plain.h"
#include "xfer/reports.h"
#include "proto/eager.h"
#include "xfer/req_state.h"

static bool peek_is_marker(const struct xfer_ep *ep, const struct core_comp *comp)
{
	if (comp->len || !(comp->data & ep->xfer->marks & WIRE_MARK))
		return false;
	if (ep->quirks & QUIRK_PEEK_UNMARKED)
		return !rndv_marker_spent(ep->xfer, comp->data & WIRE_ID_MASK);
	return comp->flags & FI_REMOTE_CQ_DATA;
}

static void peek_found(struct xfer_req *req)
{
	struct xfer_ep *ep = req->ctx.ep;
	struct core_comp comp = req->comp;

	if (!(req->op_flags & FI_CLAIM)) {
		xfer_req_end(req, 0);
		return;
	}
	comp.context = req->context;
	xfer_req_release(req);
	xfer_req_move(req, XFER_CLAIMED);
	xfer_cq_report(ep->rxcq, &comp);
}

static void peek_done(struct xfer_ctx *ctx, const struct core_comp *comp)
{
	struct xfer_req *req = (struct xfer_req *) ctx;

	req->comp = *comp;
	req->comp.buf = NULL;
	req->data = peek_is_marker(ctx->ep, comp) ? comp->data : 0;
	/* what is there without data may be another message's */
	if (!req->data && !(comp->flags & FI_REMOTE_CQ_DATA) &&
	    (!(ctx->ep->quirks & QUIRK_PEEK_UNMARKED) ||
	     comp->data & ctx->ep->xfer->marks & WIRE_MARK))
		req->comp.data = 0;
	req->comp.flags |= comp->err || req->data ? 0 : FI_PEEK;
	if (comp->err)
		xfer_req_end(req, comp->err);
	else if (!req->data)
		peek_found(req);
	else if (req->op_flags & FI_DISCARD)
		rndv_discard(req);
	else
		rndv_peeked(req, peek_found);
}

static ssize_t peek_look(struct xfer_ep *ep, const struct p2p_op *op)
{
	const struct dev_mem none = {.ops = NULL};
	struct p2p_op core = *op;
	struct xfer_req *req;
	ssize_t ret;

	/* what a peek may receive is not promised: no buffer is needed */
	core.msg.iov_count = 0;
	core.flags |= FI_COMPLETION;
	req = xfer_req_new(ep, &core, &none);
	if (!req)
		return -FI_EAGAIN;
	req->ctx.done = peek_done;
	core.msg.context = &req->ctx;
	ret = core_post(&ep->front, &core);
	if (ret)
		xfer_ctx_free(&req->ctx);
	return ret;
}

/* A claimed message is thrown away; req->comp is what the peek has said of it. */
static void peek_discarded(struct xfer_ctx *ctx, const struct core_comp *comp)
{
	struct xfer_req *req = (struct xfer_req *) ctx;

	if (comp->err || !req->data) {
		xfer_req_end(req, comp->err);
		return;
	}
	req->comp.data = req->data;
	rndv_discard(req);
}

static ssize_t peek_claim_post(struct xfer_req *req, const struct p2p_op *op,
			       const struct dev_mem *mem)
{
	struct p2p_op core = *op;

	if (!(op->flags & FI_DISCARD)) {
		xfer_req_set_buffer(req, op, mem);
		return eager_recv(req, op);
	}
	core.msg.iov_count = 0;
	core.flags |= FI_COMPLETION;
	core.msg.context = &req->ctx;
	req->ctx.done = peek_discarded;
	return core_post(&req->ctx.ep->front, &core);
}

static ssize_t peek_claim(struct xfer_ep *ep, const struct p2p_op *op,
			  const struct dev_mem *mem)
{
	struct xfer_req *req;
	ssize_t ret;

	TAILQ_FOREACH(req, &ep->xfer->in[XFER_CLAIMED], entry) {
		if (req->ctx.ep == ep && req->context == op->msg.context)
			break;
	}
	/* FI_BUFFERED_RECV claims without having peeked */
	if (!req && !(ep->ours & LF_BUFFERED_RECV) && !mem->ops)
		return core_post(&ep->front, op);
	if (!req) {
		P2P_WARN("FI_CLAIM with a context that no message was claimed with\n");
		return -FI_EINVAL;
	}
	ret = peek_claim_post(req, op, mem);
	if (ret) {
		xfer_req_release(req);
		req->op_flags |= FI_PEEK;
		return ret;
	}
	xfer_req_move(req, XFER_CORE);
	return 0;
}

ssize_t peek_post(struct xfer_ep *ep, const struct p2p_op *op, const struct dev_mem *mem)
{
	xfer_assert_locked(ep->xfer);
	if (ep->quirks & QUIRK_NO_PEEK) {
		P2P_WARN("FI_PEEK: the core provider has no such thing\n");
		return -FI_EOPNOTSUPP;
	}
	/* a shared receive context's completions are another's */
	if (!ep->rxcq && !mem->ops)
		return core_post(&ep->front, op);
	return op->flags & FI_PEEK ? peek_look(ep, op) : peek_claim(ep, op, mem);
}
