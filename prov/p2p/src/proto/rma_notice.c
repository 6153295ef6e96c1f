/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Writes that a message tells of. See rma_notice.h.
 *
 *	initiator                                                        target
 *	as rma_core.c or rma_served.c has it === the write is there ===>
 *	ENDED                --- message(notice, data), no bytes ------> takes a receive, and
 *	the write is reported                                            reports FI_REMOTE_WRITE
 */
#include "proto/rma_notice.h"

#include <stdlib.h>
#include <rdma/fi_errno.h>

#include "proto/proto.h"
#include "xfer/ep_state.h"
#include "xfer/reports.h"
#include "xfer/sendq.h"

/**
 * struct rma_notice - the message, and what is reported when it has gone.
 * @kinds:	what the write counts as
 */
struct rma_notice {
	struct xfer_out out;
	struct xfer_cq *cq;
	uint64_t data;
	uint64_t kinds;
	bool report;
	struct core_comp comp;
};

_Static_assert(sizeof(struct rma_notice) <= CELL_SIZE, "a notice is a cell");

static void rma_notice_free(struct rma_notice *notice)
{
	xfer_busy_add(notice->out.ctx.ep->xfer, -1);
	xfer_ctx_free(&notice->out.ctx);
}

static void rma_notice_drop(struct xfer_ctx *ctx)
{
	rma_notice_free((struct rma_notice *) ctx);
}

fi_addr_t rma_notice_addr(const struct xfer_ctx *ctx)
{
	return ctx->drop == rma_notice_drop ? ((const struct rma_notice *) ctx)->out.addr
					    : FI_ADDR_NOTAVAIL;
}

static void rma_notice_sent(struct xfer_ctx *ctx, const struct core_comp *comp)
{
	struct rma_notice *notice = (struct rma_notice *) ctx;
	struct xfer_ep *ep = ctx->ep;

	notice->comp.err = abs(comp->err);
	xfer_ep_count(ep, notice->kinds, notice->comp.err);
	if (notice->cq && (notice->report || notice->comp.err))
		xfer_cq_report(notice->cq, &notice->comp);
	rma_notice_free(notice);
}

static ssize_t rma_notice_post(struct xfer_out *out)
{
	const struct rma_notice *notice = (struct rma_notice *) out;
	const struct p2p_op op = {
		.type = FI_OP_SEND,
		.msg.addr = out->addr,
		.msg.data = WIRE_NOTICE | notice->data,
		.flags = FI_REMOTE_CQ_DATA | FI_COMPLETION,
		.msg.context = &out->ctx,
	};

	return core_post(out->via, &op);
}

/* The write has ended. What is to be reported of it waits until the message has gone. */
static void rma_notice_tell(struct xfer_req *req)
{
	struct xfer_ep *ep = req->ctx.ep;
	struct rma_notice *notice = req->notice;

	req->notice = NULL;
	notice->cq = req->cq;
	notice->data = req->data & WIRE_USER_DATA_MASK;
	notice->kinds = req->done_flags & XFER_COUNT_ALL;
	notice->report = req->op_flags & FI_COMPLETION;
	notice->comp = req->comp;
	xfer_out_init(&notice->out, &ep->front, req->addr, 0, rma_notice_sent, rma_notice_drop);
	notice->out.post = rma_notice_post;
	xfer_busy_add(ep->xfer, 1);
	xfer_out_post(&notice->out);
}

struct xfer_req *rma_notice_req(struct xfer_ep *ep, const struct p2p_op *op,
				const struct dev_mem *mem)
{
	struct xfer_req *req = xfer_req_new_rma(ep, op, mem);

	xfer_assert_locked(ep->xfer);
	if (!req || !op->notices)
		return req;
	req->notice = cell_get(&ep->xfer->cells);
	if (req->notice)
		return req;
	xfer_req_undo(req);
	return NULL;
}

const struct xfer_proto rma_notice_proto = {
	.name = "writes that are told of",
	.tell = rma_notice_tell,
};
