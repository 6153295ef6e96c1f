/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Rank 4: device memory at this end of the core's remote operations. See bounce.h. */
#include "bounce.h"

#include <stdlib.h>
#include <rdma/fi_errno.h>

#include "amo.h"
#include "log.h"
#include "mem.h"
#include "pin.h"
#include "pipe_sides.h"
#include "remote.h"

/* Pieces of one operation under way at a time */
#define BOUNCE_WINDOW 8

/* One operation of the NIC's is no longer than this: no NIC takes less */
#define BOUNCE_DIRECT (1u << 30)

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
		.data = req->data,
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
	/* what the NIC has written to the device is to be seen there */
	if (req->direct && req->recv && !req->pipe.status)
		req->pipe.status = req->mem.ops->flush(&req->mem);
	pipe_list_remove(req);
	if (req->pipe.arrival) {
		pipe_read_end(req);
		return;
	}
	req->comp = (struct core_comp){
		.flags = req->done_flags,
		.len = req->recv && !req->pipe.status ? req->len : 0,
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

	if (!status && piece->req->recv && piece->host) {
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
	} else if (!req->recv && piece->host) {
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

static bool bounce_at_once(const struct xfer_req *req)
{
	return !req->mem.ops || req->direct ||
	       req->len <= req->ctx.ep->xfer->stage.pools[STAGE_PIECE].size;
}

/* Begins to move what the request wants, piece by piece */
static void bounce_begin(struct xfer_req *req, uint64_t len)
{
	struct xfer *xfer = req->ctx.ep->xfer;

	req->pipe.via = req->ctx.ep;
	req->pipe.to = req->addr;
	req->pipe.wanted = len;
	req->pipe.chunk = req->mem.ops && !req->direct
				  ? (uint32_t) xfer->stage.pools[STAGE_PIECE].size
				  : BOUNCE_DIRECT;
	req->pipe.pieces = len ? (len - 1) / req->pipe.chunk + 1 : 1;
	req->pipe.answered = true;
	pipe_list_add(req, &xfer->bouncing);
	xfer_set_busy(req);
	bounce_push(req);
}

void bounce_pull(struct xfer_req *req, const struct fi_rma_iov *from, fi_addr_t addr)
{
	req->target[0] = *from;
	req->targets = 1;
	req->addr = addr;
	bounce_begin(req, from->len);
}

/* Which way a read or write of the core's takes at this end */
static int bounce_choose(struct xfer_req *req, void *const *desc)
{
	if (req->mem.ops)
		return pin_choose_rma(req, req->len, NULL,
				      "the core provider itself reaches the remote memory");
	req->path.reason = "host memory";
	return pin_host(req, desc, true);
}

ssize_t bounce_rma(struct xfer_ep *ep, const struct core_rma *op, const struct dev_mem *mem)
{
	struct xfer_req *req = xfer_req_new_rma(ep, op, mem);
	struct iovec nothing = {.iov_len = 0};
	struct path_choice choice;
	bool empty;
	size_t len;
	ssize_t ret;

	if (!req)
		return -FI_EAGAIN;
	len = req->len;
	/* ofi_rxm registers no bytes, too: not at a device's address, and verbs crashes then */
	empty = !len && op->count;
	nothing.iov_base = &req->context;
	ret = bounce_choose(req, op->desc);
	choice = req->path;
	if (!ret && ep->counts_remote && !bounce_at_once(req)) {
		/* in pieces the core would do it, and count it, several times */
		xfer_req_undo(req);
		return remote_rma(ep, op, mem);
	}
	if (!ret && op->flags & FI_INJECT && mem->ops) {
		if (!bounce_at_once(req))
			ret = -FI_EINVAL;
		else if (!stage_slot_free(&ep->xfer->stage, STAGE_PIECE_OUT, len))
			ret = -FI_EAGAIN;
	}
	if (!ret && mem->ops) {
		bounce_begin(req, len);
	} else if (!ret) {
		req->ctx.done = bounce_done;
		ret = bounce_post(req, empty ? &nothing : op->iov,
				  req->pin ? req->pin->desc : op->desc,
				  empty ? 1 : op->count, 0, op->flags, req);
	}
	if (ret) {
		xfer_req_undo(req);
		return ret;
	}
	if (!op->read)
		xfer_ep_sent(ep, &choice, len);
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
	host.operand_desc = host.compare_desc = host.result_desc = &req->reserve->desc;
	host.plain = false;
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
