/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Requests. See req.h. */
#include "xfer/req.h"

#include "base/trace.h"
#include "mem/mem.h"
#include "xfer/ep_state.h"
#include "xfer/lane.h"
#include "xfer/peer.h"
#include "xfer/pin.h"
#include "xfer/region.h"
#include "xfer/reports.h"
#include "xfer/req_state.h"
#include "xfer/xfer_proto.h"

void xfer_set_busy(struct xfer_req *req)
{
	xfer_assert_locked(req->ctx.ep->xfer);
	if (!req->busy)
		xfer_busy_add(req->ctx.ep->xfer, 1);
	req->busy = true;
}

void xfer_req_watch(struct xfer_req *req, struct xfer_peer *peer)
{
	xfer_assert_locked(req->ctx.ep->xfer);
	if (req->peer || !peer)
		return;
	xfer_peer_hold(peer);
	req->peer = peer;
}

void xfer_req_unstage(struct xfer_req *req, size_t used)
{
	struct stage *stage = &req->ctx.ep->xfer->stage;

	xfer_assert_locked(req->ctx.ep->xfer);
	if (req->slot)
		stage_slot_put(stage, req->slot);
	if (req->reserve)
		stage_reserve_put(stage, req->reserve, used);
	req->slot = NULL;
	req->reserve = NULL;
}

void xfer_req_release(struct xfer_req *req)
{
	struct xfer *xfer = req->ctx.ep->xfer;

	xfer_assert_locked(req->ctx.ep->xfer);
	/* what was too long for it was written, too */
	xfer_req_unstage(req, req->recv ? req->comp.len + req->comp.olen : req->len);
	if (req->lane_room)
		lanes_leave(req->ctx.ep, &req->peer->lanes->held, req->lane_room);
	if (req->peer)
		xfer_peer_put(req->peer);
	if (req->region)
		region_release(req->region);
	pin_release(req);
	if (req->import)
		ipc_close(&xfer->ipc, req->import);
	if (req->notice)
		cell_put(&xfer->cells, req->notice);
	if (req->busy)
		xfer_busy_add(xfer, -1);
	req->lane_room = 0;
	req->peer = NULL;
	req->region = NULL;
	req->import = NULL;
	req->notice = NULL;
	req->busy = false;
}

void xfer_req_undo(struct xfer_req *req)
{
	xfer_assert_locked(req->ctx.ep->xfer);
	P2P_TRACE(req_undo, req);
	if (req->state != XFER_CORE)
		xfer_req_move(req, XFER_ENDED);
	xfer_req_release(req);
	xfer_ctx_free(&req->ctx);
}

/* The record of an operation that has waited for a counter; NULL: it is any other one */
static struct xfer_work *xfer_req_work(const struct xfer_req *req)
{
	const struct xfer *xfer = req->ctx.ep->xfer;
	bool works = xfer->works_go && cell_mine(&xfer->cells, req->context);

	return works ? req->context : NULL;
}

/* A request of a closing endpoint */
static void xfer_req_drop(struct xfer_ctx *ctx)
{
	struct xfer_req *req = (struct xfer_req *) ctx;
	struct xfer_work *work = xfer_req_work(req);

	if (work && !req->reported)
		work->ended(work);
	XFER_PROTO_EACH(req->ctx.ep->xfer, drop, req);
	xfer_req_move(req, XFER_ENDED);
	xfer_req_undo(req);
}

bool xfer_ctx_is_req(const struct xfer_ctx *ctx)
{
	return ctx->drop == xfer_req_drop;
}

void xfer_req_set_buffer(struct xfer_req *req, const struct p2p_op *op,
			 const struct dev_mem *mem)
{
	xfer_assert_locked(req->ctx.ep->xfer);
	req->op_flags = op->flags;
	req->mem = *mem;
	req->path.path = mem->ops ? FI_P2P_PATH_STAGE : FI_P2P_PATH_HOST;
	req->count = op->msg.iov_count;
	req->len = mem_iov_len(op->msg.msg_iov, op->msg.iov_count);
	for (size_t i = 0; i < op->msg.iov_count; i++)
		req->iov[i] = op->msg.msg_iov[i];
}

struct xfer_req *xfer_req_new(struct xfer_ep *ep, const struct p2p_op *op,
			      const struct dev_mem *mem)
{
	struct xfer_req *req = cell_get_zeroed(&ep->xfer->cells, XFER_REQ_ZEROED);

	xfer_assert_locked(ep->xfer);
	if (!req)
		return NULL;
	req->context = op->msg.context;
	req->tag = op->msg.tag;
	req->data = op->msg.data;
	req->addr = op->msg.addr;
	req->done_flags = op_done_flags(op->type);
	req->recv = req->done_flags & (FI_RECV | FI_READ);
	req->cq = op_receives(op) ? ep->rxcq : ep->txcq;
	xfer_ctx_init(&req->ctx, ep, NULL, xfer_req_drop);
	xfer_req_set_buffer(req, op, mem);
	P2P_TRACE(req_post, req, req->done_flags, req->addr, req->tag, req->len, &req->copy);
	return req;
}

struct xfer_req *xfer_req_new_rma(struct xfer_ep *ep, const struct p2p_op *op,
				  const struct dev_mem *mem)
{
	const struct fi_msg_rma *rma = &op->rma;
	const struct p2p_op local = {
		.type = op->type,
		.flags = op->flags,
		.msg.msg_iov = rma->msg_iov,
		.msg.iov_count = rma->iov_count,
		.msg.addr = rma->addr,
		.msg.context = rma->context,
		.msg.data = rma->data,
	};
	struct xfer_req *req = xfer_req_new(ep, &local, mem);

	xfer_assert_locked(ep->xfer);
	if (!req)
		return NULL;
	memcpy(req->target, rma->rma_iov, rma->rma_iov_count * sizeof *rma->rma_iov);
	req->targets = rma->rma_iov_count;
	return req;
}

struct xfer_req *xfer_req_new_atomic(struct xfer_ep *ep, const struct p2p_op *op,
				     const struct core_array *result)
{
	const struct fi_rma_ioc *remote = op->atomic.rma_iov;
	const struct p2p_op local = {
		.type = op->type,
		.flags = op->flags,
		.msg.msg_iov = result->iov,
		.msg.iov_count = result->count,
		.msg.addr = op->atomic.addr,
		.msg.context = op->atomic.context,
	};
	struct xfer_req *req = xfer_req_new(ep, &local, &result->mem);

	xfer_assert_locked(ep->xfer);
	if (req)
		req->target[0] = (struct fi_rma_iov){.addr = remote->addr, .key = remote->key};
	return req;
}

/* What has waited for a counter counts for the one that was named. Is it to be reported? */
static P2P_NOINLINE bool xfer_work_end(struct xfer_req *req, int err)
{
	struct xfer_work *work = req->context;
	const bool report = err || work->report;

	req->comp.context = work->context;
	if (work->cntr)
		xfer_cntr_count(req->ctx.ep->xfer, work->cntr, err);
	work->ended(work);
	return report;
}

/* Counts a request that has ended, and reports it where the application wants that. */
static void xfer_req_report(struct xfer_req *req, int err)
{
	struct xfer_ep *ep = req->ctx.ep;
	bool report = err ? !req->served : req->op_flags & FI_COMPLETION;

	req->reported = true;
	req->comp.context = req->context;
	req->comp.err = err;
	/* what the core has refused it tells nothing of */
	if (err)
		req->comp.flags |= req->done_flags;
	if (p2p_unlikely(req->notice != NULL) && !err) {
		XFER_PROTO_EACH(ep->xfer, tell, req);
		return;
	}
	if (req->recv && !err && !(req->op_flags & FI_PEEK)) {
		ep->stats.rx_msgs[req->path.path]++;
		ep->stats.rx_bytes[req->path.path] += req->comp.len;
	}
	if (p2p_unlikely(ep->xfer->works_go) && xfer_req_work(req))
		report = xfer_work_end(req, err);
	else if (!(req->op_flags & FI_PEEK))
		xfer_ep_count(ep, req->done_flags & XFER_COUNT_ALL, err);
	if (req->cq && report)
		xfer_cq_report(req->cq, &req->comp);
}

void xfer_req_report_early(struct xfer_req *req, int err)
{
	xfer_assert_locked(req->ctx.ep->xfer);
	if (req->reported)
		return;
	req->comp = (struct core_comp){.flags = req->done_flags, .src = FI_ADDR_NOTAVAIL};
	xfer_req_report(req, err);
	/* the peer reaches it no more */
	if (req->region)
		region_release(req->region);
	req->region = NULL;
}

void xfer_req_end(struct xfer_req *req, int err)
{
	xfer_assert_locked(req->ctx.ep->xfer);
	if (p2p_unlikely(req->state != XFER_CORE))
		xfer_req_move(req, XFER_ENDED);
	if (!req->reported)
		xfer_req_report(req, err);
	P2P_TRACE(req_end, req, err, req->path.path, req->path.reason, req->len, req->comp.len);
	xfer_req_release(req);
	xfer_ctx_free(&req->ctx);
}
