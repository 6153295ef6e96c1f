/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Rank 4: device memory at this end of the core's remote operations. See bounce.h. */
#include "bounce.h"

#include <stdlib.h>
#include <rdma/fi_errno.h>

#include "amo.h"
#include "log.h"
#include "mem.h"
#include "pipe_sides.h"

/* Pieces of one operation under way at a time */
#define BOUNCE_WINDOW 8

/* ---- reading and writing ---- */

/* The part of the remote memory that begins @offset bytes in; returns its pieces */
static size_t bounce_target(const struct xfer_req *req, size_t offset, size_t len,
			    struct fi_rma_iov *out)
{
	size_t pieces = 0;

	/* of nothing, too, the core wants to know where */
	for (size_t i = 0; i < req->targets && (len || !pieces); i++) {
		const struct fi_rma_iov *target = &req->target[i];

		if (offset >= target->len && i + 1 < req->targets) {
			offset -= target->len;
			continue;
		}
		out[pieces] = *target;
		out[pieces].addr += offset;
		out[pieces].len = P2P_MIN(target->len - offset, len);
		len -= out[pieces++].len;
		offset = 0;
	}
	return pieces;
}

/* The core's operation on one piece, or on all of a host buffer */
static ssize_t bounce_post(struct xfer_req *req, const struct iovec *iov, void **desc,
			   size_t count, uint64_t offset, uint64_t flags, void *context)
{
	struct fi_rma_iov target[CORE_RMA_MAX];
	const struct core_rma op = {
		.read = req->recv,
		.iov = iov,
		.desc = desc,
		.count = count,
		.addr = req->addr,
		.remote = target,
		.remotes = bounce_target(req, offset, mem_iov_len(iov, count), target),
		.data = req->data & req->ctx.ep->data_mask,
		.flags = flags | FI_COMPLETION,
		.context = context,
	};

	return core_post_rma(req->ctx.ep->core, &op);
}

static bool bounce_last(const struct xfer_req *req, uint64_t index)
{
	return index + 1 == req->pipe.pieces;
}

static ssize_t bounce_piece_try(struct xfer_out *out)
{
	struct pipe_piece *piece = container_of(out, struct pipe_piece, out);
	struct xfer_req *req = piece->req;
	uint64_t flags = req->op_flags & (FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE);

	if (bounce_last(req, piece->index))
		flags |= req->op_flags & FI_REMOTE_CQ_DATA;
	return bounce_post(req, out->iov, out->desc, out->count,
			   piece->index * req->pipe.chunk, flags, &out->ctx);
}

/* Ends the operation if nothing of it is left. */
static void bounce_check(struct xfer_req *req)
{
	if (req->pipe.in_flight || (!req->pipe.status && !pipe_req_done(req)))
		return;
	pipe_list_remove(req);
	req->comp = (struct core_comp){
		.flags = req->done_flags,
		.len = req->recv ? req->len : 0,
		.src = FI_ADDR_NOTAVAIL,
	};
	xfer_req_end(req, -req->pipe.status);
}

static void bounce_piece_end(struct pipe_piece *piece, int status)
{
	struct xfer_req *req = pipe_piece_end(piece);

	if (status && !req->pipe.status)
		req->pipe.status = status;
	bounce_check(req);
}

static void bounce_piece_copied_in(struct copy *copy, int status)
{
	struct pipe_piece *piece = container_of(copy, struct pipe_piece, copy);

	if (!xfer_copy_ended(piece->req->ctx.ep))
		bounce_piece_end(piece, status);
}

static void bounce_piece_done(struct xfer_ctx *ctx, const struct core_comp *comp)
{
	struct pipe_piece *piece = (struct pipe_piece *) ctx;
	int status = -abs(comp->err);

	if (!status && piece->req->recv) {
		piece->copy.done = bounce_piece_copied_in;
		status = xfer_copy_start(ctx->ep, &piece->req->mem, COPY_IN, piece->iov,
					 piece->count, piece->host, &piece->copy);
		if (!status)
			return;
	}
	bounce_piece_end(piece, status);
}

static void bounce_piece_copied_out(struct copy *copy, int status)
{
	struct pipe_piece *piece = container_of(copy, struct pipe_piece, copy);

	if (xfer_copy_ended(piece->req->ctx.ep))
		return;
	if (status || piece->req->pipe.status)
		bounce_piece_end(piece, status);
	else
		xfer_out_post(&piece->out);
}

static void bounce_piece_begin(struct pipe_piece *piece)
{
	struct xfer_req *req = piece->req;
	int ret = 0;

	piece->out.post = bounce_piece_try;
	pipe_piece_begun(req);
	if (req->op_flags & FI_INJECT) {
		ret = mem_gather(&req->mem, piece->iov, piece->count, piece->host);
	} else if (!req->recv) {
		piece->copy.done = bounce_piece_copied_out;
		ret = xfer_copy_start(req->ctx.ep, &req->mem, COPY_OUT, piece->iov,
				      piece->count, piece->host, &piece->copy);
		if (!ret)
			return;
	}
	if (ret)
		bounce_piece_end(piece, ret);
	else
		xfer_out_post(&piece->out);
}

/* Begins the pieces that there are slots for; what tells the peer goes last. */
static void bounce_push(struct xfer_req *req)
{
	enum stage_use use = req->recv ? STAGE_PIECE_IN : STAGE_PIECE_OUT;
	struct pipe_piece *piece;

	/* one more than there are: it must not end meanwhile */
	req->pipe.in_flight++;
	while (!req->pipe.status && req->pipe.next < req->pipe.pieces &&
	       req->pipe.in_flight <= BOUNCE_WINDOW) {
		if (bounce_last(req, req->pipe.next) && req->op_flags & FI_REMOTE_CQ_DATA &&
		    req->pipe.in_flight > 1)
			break;
		piece = pipe_piece_new(req, use, bounce_piece_done);
		if (!piece)
			break;
		bounce_piece_begin(piece);
	}
	req->pipe.in_flight--;
	bounce_check(req);
}

void bounce_progress(struct xfer *xfer)
{
	struct xfer_req *req, *next;

	for (req = TAILQ_FIRST(&xfer->bouncing); req; req = next) {
		next = TAILQ_NEXT(req, entry);
		bounce_push(req);
	}
}

/* The core's answer where it did it all */
static void bounce_done(struct xfer_ctx *ctx, const struct core_comp *comp)
{
	struct xfer_req *req = (struct xfer_req *) ctx;

	req->comp = *comp;
	xfer_req_end(req, comp->err);
}

bool bounce_at_once(const struct xfer_ep *ep, const struct core_rma *op)
{
	return mem_iov_len(op->iov, op->count) <= ep->xfer->stage.pools[STAGE_PIECE].size;
}

static ssize_t bounce_staged(struct xfer_req *req)
{
	struct xfer *xfer = req->ctx.ep->xfer;
	enum stage_use use = req->recv ? STAGE_PIECE_IN : STAGE_PIECE_OUT;

	req->pipe.wanted = req->len;
	req->pipe.chunk = (uint32_t) xfer->stage.pools[STAGE_PIECE].size;
	req->pipe.pieces = (req->len - 1) / req->pipe.chunk + 1;
	req->pipe.answered = true;
	if (req->op_flags & FI_INJECT &&
	    (req->pipe.pieces > 1 || !stage_slot_free(&xfer->stage, use, req->len)))
		return req->pipe.pieces > 1 ? -FI_EINVAL : -FI_EAGAIN;
	pipe_list_add(req, &xfer->bouncing);
	xfer_set_busy(req);
	bounce_push(req);
	return 0;
}

ssize_t bounce_rma(struct xfer_ep *ep, const struct core_rma *op, const struct dev_mem *mem)
{
	enum fi_p2p_path path = mem->ops ? FI_P2P_PATH_STAGE : FI_P2P_PATH_HOST;
	struct xfer_req *req = xfer_req_new_rma(ep, op, mem);
	size_t len;
	ssize_t ret;

	if (!req)
		return -FI_EAGAIN;
	len = req->len;
	if (mem->ops) {
		ret = bounce_staged(req);
	} else {
		req->ctx.done = bounce_done;
		ret = bounce_post(req, op->iov, op->desc, op->count, 0, op->flags, req);
	}
	if (ret) {
		xfer_req_undo(req);
		return ret;
	}
	if (!op->read) {
		ep->stats.tx_msgs[path]++;
		ep->stats.tx_bytes[path] += len;
	}
	return 0;
}

/* ---- atomic operations ---- */

static void bounce_atomic_done(struct xfer_ctx *ctx, const struct core_comp *comp)
{
	struct xfer_req *req = (struct xfer_req *) ctx;
	int err = comp->err;

	req->comp = *comp;
	if (!err)
		err = -mem_scatter(&req->mem, req->iov, req->count, req->host);
	req->comp.len = req->len;
	xfer_req_end(req, err);
}

/* Host copies of an operation's arrays lie in a row: result, operand, compare values. */
static ssize_t bounce_atomic_post(struct xfer_req *req, const struct core_atomic *op,
				  const struct core_array *operand,
				  const struct core_array *compare, size_t len)
{
	char *result_at = req->host, *operand_at = result_at + len,
	     *compare_at = operand_at + len;
	const size_t count = len / amo_size(op->datatype);
	const struct fi_ioc result_ioc = {result_at, count}, operand_ioc = {operand_at, count},
			    compare_ioc = {compare_at, count};
	struct core_atomic host = *op;
	int ret;

	ret = mem_gather(&operand->mem, operand->iov, operand->count, operand_at);
	if (!ret)
		ret = mem_gather(&compare->mem, compare->iov, compare->count, compare_at);
	if (ret)
		return ret;
	host.operand = op->operands ? &operand_ioc : NULL;
	host.operands = op->operands ? 1 : 0;
	host.compare = op->compares ? &compare_ioc : NULL;
	host.compares = op->compares ? 1 : 0;
	host.result = op->results ? &result_ioc : NULL;
	host.results = op->results ? 1 : 0;
	/* nothing need be injected from memory that is ours; cores do not tell of its end */
	host.flags = (op->flags | FI_COMPLETION) & ~FI_INJECT;
	host.context = &req->ctx;
	return core_post_atomic(req->ctx.ep->core, &host);
}

ssize_t bounce_atomic(struct xfer_ep *ep, const struct core_atomic *op)
{
	struct core_array operand, compare, result;
	struct xfer_req *req;
	size_t len;
	ssize_t ret;

	ret = core_atomic_arrays(op, &operand, &compare, &result, &len);
	if (ret)
		return ret;
	req = xfer_req_new_atomic(ep, op, &result);
	if (!req)
		return -FI_EAGAIN;
	req->ctx.done = bounce_atomic_done;
	req->reserve = stage_reserve_get(&ep->xfer->stage, 3 * len);
	if (req->reserve) {
		req->host = req->reserve->addr;
		ret = bounce_atomic_post(req, op, &operand, &compare, len);
	} else {
		ret = -FI_ENOMEM;
	}
	if (ret)
		xfer_req_undo(req);
	return ret;
}
