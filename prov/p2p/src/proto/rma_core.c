/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The core's own reads, writes and atomic operations, with device memory at this end; and long
 * messages that the receiver's core reads. See rma_core.h.
 *
 *	initiator                                                        target
 *	MOVING: copies out   === the core writes, piece by piece ======> the core's memory
 *	ENDED
 *
 *	MOVING: copies in    <===== the core reads, piece by piece === the core's memory
 *	ENDED
 *
 *	sender                                                           receiver
 *	MARKING              --- ANNOUNCE(id, length, key, address) ---> notes what is to come
 *	ANNOUNCED            --- marker(tag, id) ----------------------> MATCHED with a receive
 *	                     === the core reads the memory ============> MOVING
 *	                     === reads the word =======================> believes the bytes
 *	ENDED                <----------------------------- DONE(id) --- TELLING, ENDED
 *
 * Where the NIC has the device memory, nothing is copied. The arrays of an atomic operation are
 * copied to one reserve, which the core works on.
 */
#include "proto/rma_core.h"

#include <stdlib.h>
#include <rdma/fi_errno.h>

#include "base/amo.h"
#include "base/log.h"
#include "mem/mem.h"
#include "xfer/peer.h"
#include "xfer/pin.h"
#include "proto/proto.h"
#include "proto/proto_state.h"
#include "proto/rma_notice.h"
#include "proto/rndv_match.h"
#include "proto/rndv_recv.h"
#include "xfer/ep_state.h"
#include "xfer/req_state.h"

/* Pieces of one operation under way at a time */
#define RMA_CORE_WINDOW 8

/* What of the user's flags is no business of the core's when it reads or writes pieces; but the last one has data */
#define RMA_CORE_OUR_FLAGS (FI_COMPLETION | FI_INJECT | FI_MORE | FI_REMOTE_CQ_DATA)

/* One operation of the NIC's is no longer than this: no NIC takes less */
#define RMA_CORE_DIRECT (1u << 30)

static void rma_core_check(struct xfer_req *req);

/* Is it a message? Else it is the user's own read or write */
static bool rma_core_fetches(const struct xfer_req *req)
{
	return req->recv && req->transfer.recv.arrival;
}

/* ---- does a message that was read stand? ---- */

/**
 * struct rma_core_look - a read of the word by which the sender tells so. It comes behind the reads of the message.
 * @word:	the place where it goes, of those of the domain (xfer.local)
 */
struct rma_core_look {
	struct xfer_out out;
	struct xfer_req *req;
	unsigned int word;
};

_Static_assert(sizeof(struct rma_core_look) <= CELL_SIZE, "a look is a cell");

static uint64_t *rma_core_word(const struct rma_core_look *look)
{
	return (uint64_t *) look->out.ctx.ep->xfer->local->addr + look->word;
}

static void rma_core_look_drop(struct xfer_ctx *ctx)
{
	ctx->ep->xfer->proto->words &= ~(1ULL << ((struct rma_core_look *) ctx)->word);
	xfer_ctx_free(ctx);
}

static ssize_t rma_core_look_try(struct xfer_out *out)
{
	struct rma_core_look *look = container_of(out, struct rma_core_look, out);
	const struct xfer_req *req = look->req;
	const struct iovec iov = {rma_core_word(look), sizeof(uint64_t)};
	const struct p2p_op op = {
		.type = FI_OP_READ,
		.rma.msg_iov = &iov,
		.rma.desc = &out->ctx.ep->xfer->local->desc,
		.rma.iov_count = 1,
		.rma.addr = req->addr,
		.rma.rma_iov = &req->transfer.recv.arrival->loan,
		.rma.rma_iov_count = 1,
		.flags = FI_COMPLETION,
		.rma.context = &out->ctx,
	};

	return req->transfer.status ? req->transfer.status : core_post(out->via, &op);
}

static void rma_core_looked(struct xfer_ctx *ctx, const struct core_comp *comp)
{
	struct rma_core_look *look = (struct rma_core_look *) ctx;
	struct xfer_req *req = look->req;
	int status = -abs(comp->err);

	if (!status && *rma_core_word(look) != (req->transfer.id | WIRE_MARK))
		status = -FI_ECONNABORTED;
	rma_core_look_drop(ctx);
	req->transfer.in_flight--;
	if (!req->transfer.status)
		req->transfer.status = status;
	rma_core_check(req);
}

/*
 * Begins to look. Where there is no room for that, progress tries again. This read cannot go along with the message: a NIC may
 * fetch two reads from two memories in any order.
 */
static void rma_core_look(struct xfer_req *req)
{
	struct xfer *xfer = req->ctx.ep->xfer;
	struct rma_core_look *look = ~xfer->proto->words ? cell_get(&xfer->cells) : NULL;

	if (!look)
		return;
	req->transfer.recv.arrival->flags &= ~WIRE_WORD;
	look->req = req;
	look->word = (unsigned int) __builtin_ctzll(~xfer->proto->words);
	xfer->proto->words |= 1ULL << look->word;
	xfer_out_init(&look->out, &req->ctx.ep->front, req->addr, 0, rma_core_looked,
		      rma_core_look_drop);
	look->out.post = rma_core_look_try;
	req->transfer.in_flight++;
	xfer_out_post(&look->out);
}

/*
 * The sender may have lost us, or closed its endpoint, before the core has read all, and then its memory may have been
 * another message's. It has taken back its note before. False: that is not known yet
 */
static bool rma_core_stood(struct xfer_req *req)
{
	const struct xfer_arrival *arrival = req->transfer.recv.arrival;

	if (arrival->noted && !note_stands(req->ctx.ep->xfer, arrival->id))
		req->transfer.status = -FI_ECONNABORTED;
	if (!(arrival->flags & WIRE_WORD))
		return true;
	rma_core_look(req);
	return false;
}

/* ---- reading and writing ---- */

/* The part of the remote memory that begins @offset bytes in; returns its pieces */
static size_t rma_core_target(const struct xfer_req *req, size_t offset, size_t len,
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
static ssize_t rma_core_give(struct xfer_req *req, const struct iovec *iov, void **desc,
			     size_t count, uint64_t offset, uint64_t flags, void *context)
{
	struct fi_rma_iov target[OP_RMA_MAX];
	const struct p2p_op op = {
		.type = req->recv ? FI_OP_READ : FI_OP_WRITE,
		.rma.msg_iov = iov,
		.rma.desc = desc,
		.rma.iov_count = count,
		.rma.addr = req->addr,
		.rma.rma_iov = target,
		.rma.rma_iov_count =
			rma_core_target(req, offset, mem_iov_len(iov, count), target),
		.rma.data = req->data,
		.flags = flags | FI_COMPLETION,
		.rma.context = context,
	};

	return core_post(&req->ctx.ep->front, &op);
}

static bool rma_core_last(const struct xfer_req *req, uint64_t index)
{
	return index + 1 == req->transfer.pieces;
}

static ssize_t rma_core_piece_try(struct xfer_out *out)
{
	struct rndv_piece *piece = container_of(out, struct rndv_piece, out);
	struct xfer_req *req = piece->req;
	/* those of a receive mean nothing to the read that fetches its message */
	uint64_t flags = rma_core_fetches(req) ? 0 : req->op_flags & ~RMA_CORE_OUR_FLAGS;

	if (rma_core_last(req, piece->index))
		flags |= req->op_flags & FI_REMOTE_CQ_DATA;
	return rma_core_give(req, out->iov, out->desc, out->count,
			     piece->index * req->transfer.chunk, flags, &out->ctx);
}

/* Ends the operation if nothing of it is left. */
static void rma_core_check(struct xfer_req *req)
{
	if (req->transfer.in_flight)
		rndv_report_early(req);
	if (req->transfer.in_flight || (!req->transfer.status && !rndv_all_begun(req)))
		return;
	if (rma_core_fetches(req) && !req->transfer.status && !rma_core_stood(req))
		return;
	/* what the NIC has written to the device is to be seen there */
	if (req->direct && req->recv && !req->transfer.status)
		req->transfer.status = req->mem.ops->flush(&req->mem);
	if (rma_core_fetches(req)) {
		rndv_read_end(req, req->transfer.status);
		return;
	}
	req->comp = (struct core_comp){
		.flags = req->done_flags,
		.len = req->recv && !req->transfer.status ? req->len : 0,
		.src = FI_ADDR_NOTAVAIL,
	};
	xfer_req_end(req, -req->transfer.status);
}

static void rma_core_piece_end(struct rndv_piece *piece, int status)
{
	struct xfer_req *req = rndv_piece_end(piece);

	if (status && !req->transfer.status)
		req->transfer.status = status;
	rma_core_check(req);
}

static void rma_core_piece_copied_in(struct copy *copy, int status)
{
	struct rndv_piece *piece = container_of(copy, struct rndv_piece, copy);

	if (rndv_copied(piece->req))
		rma_core_piece_end(piece, status);
}

static void rma_core_piece_done(struct xfer_ctx *ctx, const struct core_comp *comp)
{
	struct rndv_piece *piece = (struct rndv_piece *) ctx;
	int status = -abs(comp->err);

	if (!status && !piece->req->transfer.status && piece->req->recv &&
	    rndv_piece_host(piece)) {
		status = rndv_piece_copy(piece, COPY_IN, rma_core_piece_copied_in);
		if (!status)
			return;
	}
	rma_core_piece_end(piece, status);
}

static void rma_core_piece_copied_out(struct copy *copy, int status)
{
	struct rndv_piece *piece = container_of(copy, struct rndv_piece, copy);

	if (!rndv_copied(piece->req))
		return;
	if (status || piece->req->transfer.status)
		rma_core_piece_end(piece, status);
	else
		xfer_out_post(&piece->out);
}

static void rma_core_piece_begin(struct rndv_piece *piece)
{
	struct xfer_req *req = piece->req;
	int ret = 0;

	piece->out.post = rma_core_piece_try;
	rndv_piece_begun(piece);
	/* the flag means nothing to what is read */
	if (!req->recv && req->op_flags & FI_INJECT) {
		ret = xfer_copy_now(req->ctx.ep->xfer, &req->mem, piece->iov, piece->count,
				    rndv_piece_host(piece));
	} else if (!req->recv && rndv_piece_host(piece)) {
		ret = rndv_piece_copy(piece, COPY_OUT, rma_core_piece_copied_out);
		if (!ret)
			return;
	}
	if (ret)
		rma_core_piece_end(piece, ret);
	else
		xfer_out_post(&piece->out);
}

/* Begins the pieces that there are slots for; what tells the peer goes last. */
static void rma_core_push(struct xfer_req *req)
{
	enum stage_use use = req->recv ? STAGE_PIECE_IN : STAGE_PIECE_OUT;
	struct rndv_piece *piece;

	if (req->path.proto == PATH_LENT)
		return;
	while (!req->transfer.status && req->transfer.next < req->transfer.pieces &&
	       req->transfer.in_flight < RMA_CORE_WINDOW) {
		if (rma_core_last(req, req->transfer.next) &&
		    req->op_flags & FI_REMOTE_CQ_DATA && req->transfer.in_flight)
			break;
		piece = rndv_piece_new(req, use, rma_core_piece_done);
		if (!piece)
			break;
		/* one more than there are: it must not end meanwhile */
		req->transfer.in_flight++;
		rma_core_piece_begin(piece);
		req->transfer.in_flight--;
	}
	rma_core_check(req);
}

/* Goes on with operations on remote memory that the core does itself, piece by piece. */
static void rma_core_progress(struct xfer *xfer)
{
	xfer_req_each(xfer, XFER_MOVING, rma_core_push);
}

static void rma_core_lost(struct xfer_peer *peer, int status)
{
	struct xfer_list *list = &peer->ep->xfer->in[XFER_MOVING];
	struct xfer_req *req, *next;

	for (req = TAILQ_FIRST(list); req; req = next) {
		next = TAILQ_NEXT(req, entry);
		if (rma_core_fetches(req) ||
		    !xfer_peer_at(peer, &req->ctx.ep->front, req->addr))
			continue;
		if (!req->transfer.status)
			req->transfer.status = status;
		rma_core_check(req);
	}
}

/* The core's answer where it did it all */
static void rma_core_done(struct xfer_ctx *ctx, const struct core_comp *comp)
{
	struct xfer_req *req = (struct xfer_req *) ctx;

	req->comp = *comp;
	xfer_req_end(req, comp->err);
}

static bool rma_core_at_once(const struct xfer_req *req)
{
	return !req->mem.ops || req->direct ||
	       req->len <= req->ctx.ep->xfer->stage.pools[STAGE_PIECE].size;
}

/* Begins to move what the request wants, piece by piece */
static void rma_core_begin(struct xfer_req *req, uint64_t len)
{
	struct xfer *xfer = req->ctx.ep->xfer;

	req->transfer.wanted = len;
	req->transfer.chunk = req->mem.ops && !req->direct
				      ? (uint32_t) xfer->stage.pools[STAGE_PIECE].size
				      : RMA_CORE_DIRECT;
	req->transfer.pieces = len ? (len - 1) / req->transfer.chunk + 1 : 1;
	xfer_req_move(req, XFER_MOVING);
	xfer_set_busy(req);
	rma_core_push(req);
}

void rma_core_pull(struct xfer_req *req, const struct fi_rma_iov *from, fi_addr_t addr)
{
	xfer_assert_locked(req->ctx.ep->xfer);
	req->target[0] = *from;
	req->targets = 1;
	req->addr = addr;
	rma_core_begin(req, from->len);
}

/* Which way a read or write of the core's takes at this end */
static int rma_core_choose(struct xfer_req *req, void *const *desc)
{
	if (req->mem.ops)
		return pin_choose_rma(req, req->len, NULL,
				      "the core provider itself reaches the remote memory");
	req->path.reason = "host memory";
	return pin_host(req, desc, true);
}

ssize_t rma_core_post(struct xfer_ep *ep, const struct p2p_op *op, const struct dev_mem *mem,
		      bool *owner)
{
	struct xfer_req *req = rma_notice_req(ep, op, mem);
	struct iovec nothing = {.iov_len = 0};
	struct path_choice choice;
	bool empty;
	size_t len;
	ssize_t ret;

	xfer_assert_locked(ep->xfer);
	*owner = false;
	if (!req)
		return -FI_EAGAIN;
	len = req->len;
	/* no bytes at a device's address may crash the core: QUIRK_EMPTY_MR */
	empty = !len && op->rma.iov_count;
	nothing.iov_base = &req->context;
	ret = rma_core_choose(req, op->rma.desc);
	choice = req->path;
	if (!ret && ep->counts_remote && !rma_core_at_once(req)) {
		/* in pieces the core would do it, and count it, several times */
		xfer_req_undo(req);
		*owner = true;
		return 0;
	}
	/* slots are counted for each peer, though nobody has met this one */
	if (!ret && mem->ops)
		xfer_req_watch(req, xfer_peer_get(ep, req->addr));
	if (!ret && op->flags & FI_INJECT && mem->ops) {
		if (!rma_core_at_once(req))
			ret = -FI_EINVAL;
		else if (!stage_slot_free(&ep->xfer->stage, STAGE_PIECE_OUT, len,
					  rndv_held(req, STAGE_PIECE_OUT)))
			ret = -FI_EAGAIN;
	}
	if (!ret && mem->ops) {
		xfer_transfer_init(req);
		rma_core_begin(req, len);
	} else if (!ret) {
		req->ctx.done = rma_core_done;
		ret = rma_core_give(req, empty ? &nothing : op->rma.msg_iov,
				    req->pin ? req->pin->desc : op->rma.desc,
				    empty ? 1 : op->rma.iov_count, 0, op->flags, req);
	}
	if (ret) {
		xfer_req_undo(req);
		return ret;
	}
	if (op->type == FI_OP_WRITE)
		xfer_ep_sent(ep, &choice, len);
	return 0;
}

/* ---- atomic operations ---- */

/**
 * struct rma_core_amo - an atomic operation of the core's, on host copies of its arrays.
 * @out:	gives it to the core, when the operands are there
 * @op:		what the core is given, with @operand, @compare, @result, @remote, and @desc of the first three
 * @copying:	copies from device memory under way; @status: the first error
 */
struct rma_core_amo {
	struct xfer_out out;
	struct xfer_req *req;
	struct p2p_op op;
	struct fi_ioc operand;
	struct fi_ioc compare;
	struct fi_ioc result;
	struct fi_rma_ioc remote[OP_RMA_MAX];
	void *desc;
	unsigned int copying;
	int status;
	struct rma_core_copy {
		struct copy copy;
		struct rma_core_amo *amo;
	} copies[2];
};

_Static_assert(sizeof(struct rma_core_amo) <= CELL_SIZE, "an atomic operation is a cell");

static ssize_t rma_core_atomic_try(struct xfer_out *out)
{
	struct rma_core_amo *amo = container_of(out, struct rma_core_amo, out);

	return amo->status ? amo->status : core_post(out->via, &amo->op);
}

static void rma_core_result_copied(struct copy *copy, int status)
{
	struct xfer_req *req = container_of(copy, struct xfer_req, copy);

	if (!xfer_copy_ended(req->ctx.ep))
		xfer_req_end(req, -status);
}

static void rma_core_atomic_done(struct xfer_ctx *ctx, const struct core_comp *comp)
{
	struct xfer_req *req = ((struct rma_core_amo *) ctx)->req;
	int err = abs(comp->err);

	req->comp = *comp;
	req->comp.flags |= req->done_flags;
	req->comp.len = req->len;
	xfer_ctx_free(ctx);
	/* who was told that it has failed has the memory back */
	if (!err && req->mem.ops && !req->reported) {
		xfer_req_move(req, XFER_COPYING);
		req->copy.done = rma_core_result_copied;
		err = -xfer_copy_start(req->ctx.ep, &req->mem, COPY_IN, req->iov, req->count,
				       stage_place_of(req->slot, req->reserve).addr,
				       &req->copy);
		if (!err)
			return;
	} else if (!err && !req->reported) {
		mem_scatter(req->iov, req->count, stage_place_of(req->slot, req->reserve).addr);
	}
	xfer_req_end(req, err);
}

static void rma_core_operand_copied(struct copy *copy, int status)
{
	struct rma_core_amo *amo = container_of(copy, struct rma_core_copy, copy)->amo;

	if (xfer_copy_ended(amo->out.ctx.ep))
		return;
	if (status && !amo->status)
		amo->status = status;
	if (--amo->copying)
		return;
	xfer_req_move(amo->req, XFER_CORE);
	xfer_out_post(&amo->out);
}

/* Brings an operation's array to the host: later, or where it has to be so, now */
static void rma_core_operand(struct rma_core_amo *amo, const struct core_array *array, void *at)
{
	struct xfer_ep *ep = amo->req->ctx.ep;
	struct rma_core_copy *copy = &amo->copies[amo->copying];
	int ret;

	if (!array->mem.ops || amo->req->op_flags & FI_INJECT) {
		ret = xfer_copy_now(ep->xfer, &array->mem, array->iov, array->count, at);
	} else {
		copy->amo = amo;
		copy->copy.done = rma_core_operand_copied;
		ret = xfer_copy_start(ep, &array->mem, COPY_OUT, array->iov, array->count, at,
				      &copy->copy);
		amo->copying += !ret;
	}
	if (ret && !amo->status)
		amo->status = ret;
}

/*
 * Host memory for the arrays: pinned if any of them is device memory, unless they are longer than a
 * slot. It comes back when the core has the result, as that of a piece going out does.
 */
static int rma_core_atomic_stage(struct xfer_req *req, const struct dev_mem *device, size_t len)
{
	struct xfer *xfer = req->ctx.ep->xfer;
	int ret = device ? xfer_ready(xfer, device) : 0;

	if (ret)
		return ret;
	if (device && len <= xfer->stage.pools[STAGE_PIECE].size)
		req->slot = stage_slot_get(&xfer->stage, STAGE_PIECE_OUT, len,
					   rndv_held(req, STAGE_PIECE_OUT));
	if (!req->slot)
		req->reserve = stage_reserve_get(&xfer->stage, len);
	return req->slot || req->reserve ? 0 : -FI_ENOMEM;
}

/* What the core is given. Host copies of the arrays lie in a row: result, operand, compare values. */
static void rma_core_amo_init(struct rma_core_amo *amo, struct xfer_req *req,
			      const struct p2p_op *op, size_t len)
{
	const size_t count = len / amo_size(op->atomic.datatype);
	char *at = stage_place_of(req->slot, req->reserve).addr;

	xfer_out_init(&amo->out, &req->ctx.ep->front, op->atomic.addr, 0, rma_core_atomic_done,
		      xfer_ctx_free);
	amo->out.post = rma_core_atomic_try;
	amo->req = req;
	amo->copying = 0;
	amo->status = 0;
	amo->result = (struct fi_ioc){at, count};
	amo->operand = (struct fi_ioc){at + len, count};
	amo->compare = (struct fi_ioc){at + 2 * len, count};
	memcpy(amo->remote, op->atomic.rma_iov,
	       op->atomic.rma_iov_count * sizeof *op->atomic.rma_iov);
	amo->op = *op;
	amo->op.atomic.desc = amo->op.compare.desc = amo->op.fetch.desc = &amo->desc;
	amo->desc = stage_place_of(req->slot, req->reserve).desc;
	amo->op.call = OP_FLAGGED;
	amo->op.atomic.msg_iov = op->atomic.iov_count ? &amo->operand : NULL;
	amo->op.atomic.iov_count = op->atomic.iov_count ? 1 : 0;
	amo->op.compare.msg_iov = op->compare.iov_count ? &amo->compare : NULL;
	amo->op.compare.iov_count = op->compare.iov_count ? 1 : 0;
	amo->op.fetch.msg_iov = op->fetch.iov_count ? &amo->result : NULL;
	amo->op.fetch.iov_count = op->fetch.iov_count ? 1 : 0;
	amo->op.atomic.rma_iov = amo->remote;
	/* nothing need be injected from memory that is ours; cores do not tell of its end */
	amo->op.flags = (op->flags | FI_COMPLETION) & ~(FI_INJECT | FI_MORE);
	amo->op.atomic.context = &amo->out.ctx;
}

/* 0: it will end by itself */
static ssize_t rma_core_atomic_begin(struct xfer_req *req, const struct p2p_op *op,
				     const struct core_array *operand,
				     const struct core_array *compare, size_t len)
{
	struct rma_core_amo *amo = cell_get(&req->ctx.ep->xfer->cells);
	ssize_t ret = 0;

	if (!amo)
		return -FI_EAGAIN;
	rma_core_amo_init(amo, req, op, len);
	rma_core_operand(amo, operand, amo->operand.addr);
	rma_core_operand(amo, compare, amo->compare.addr);
	if (amo->copying)
		xfer_req_move(req, XFER_COPYING);
	else
		ret = rma_core_atomic_try(&amo->out);
	if (ret)
		xfer_ctx_free(&amo->out.ctx);
	else
		xfer_set_busy(req);
	return ret;
}

ssize_t rma_core_atomic(struct xfer_ep *ep, const struct p2p_op *op)
{
	struct core_array operand, compare, result;
	struct xfer_req *req;
	size_t len;
	ssize_t ret;

	xfer_assert_locked(ep->xfer);
	ret = core_atomic_arrays(op, &operand, &compare, &result, &len);
	if (ret)
		return ret;
	if (op->atomic.rma_iov_count > OP_RMA_MAX) {
		P2P_WARN("%zu pieces of remote memory in an atomic operation: at most %d\n",
			 op->atomic.rma_iov_count, OP_RMA_MAX);
		return -FI_EINVAL;
	}
	req = xfer_req_new_atomic(ep, op, &result);
	if (!req)
		return -FI_EAGAIN;
	xfer_req_watch(req, xfer_peer_get(ep, req->addr));
	ret = rma_core_atomic_stage(req, core_atomic_device(&operand, &compare, &result),
				    3 * len);
	if (!ret)
		ret = rma_core_atomic_begin(req, op, &operand, &compare, len);
	if (ret)
		xfer_req_undo(req);
	return ret;
}

const struct xfer_proto rma_core_proto = {
	.name = "RMA by the core",
	.progress = rma_core_progress,
	.lost = rma_core_lost,
};
