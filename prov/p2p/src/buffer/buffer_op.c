/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Transfers: pieces, one after the other. Each is posted when the completion of the one before it has
 * been handed in. If the provider does not take the local GPU memory, a piece goes through a slot of
 * pinned host memory.
 */
#include "buffer/buffer.h"

#include <rdma/fi_rma.h>

#define OP_ENDED 0
#define OP_POSTED 0x706f7374U  /* a piece is under way */
#define OP_STALLED 0x7374616cU /* the next one has found no room */

/* ---- pieces ---- */

/* The context may close the memory later if that cannot be done now. */
static void memory_leave(struct p2p_buffer_memory *memory)
{
	if (buffer_memory_put(memory))
		memory->orphan = true;
}

static int op_end(struct p2p_buffer_op *op, int ret)
{
	op->state = OP_ENDED;
	if (op->slot)
		buffer_slot_put(op->local->context, op->slot);
	memory_leave(op->local);
	memory_leave(op->remote);
	return ret;
}

/* Where the provider finds the bytes of the next piece, or puts them */
static int op_prepare(struct p2p_buffer_op *op, struct iovec *iov, void **desc)
{
	struct p2p_buffer_memory *local = op->local;
	struct p2p_buffer_context *context = local->context;
	struct fid_mr *mr = local->reg.mr;
	char *const data = local->data + op->local_at;
	int ret = 0;

	op->piece = op->left < context->max_msg_size ? op->left : context->max_msg_size;
	iov->iov_base = data;
	if (!local->direct) {
		if (!op->slot)
			ret = buffer_slot_get(context, local, &op->slot);
		if (ret)
			return ret;
		if (op->piece > BUFFER_SLOT_SIZE)
			op->piece = BUFFER_SLOT_SIZE;
		iov->iov_base = op->slot->data;
		mr = op->slot->reg.mr;
		if (!op->reads)
			ret = buffer_gpu_copy(op->slot->queue, iov->iov_base, data, op->piece);
	}
	iov->iov_len = op->piece;
	*desc = mr ? fi_mr_desc(mr) : NULL;
	return ret;
}

static int op_post(struct p2p_buffer_op *op)
{
	struct p2p_buffer_memory *remote = op->remote;
	struct p2p_buffer_context *context = op->local->context;
	struct fi_rma_iov target;
	struct fi_msg_rma msg = {.rma_iov = &target, .rma_iov_count = 1, .context = op};
	struct iovec iov;
	void *desc;
	ssize_t ret = op_prepare(op, &iov, &desc);

	if (ret)
		return (int) ret;
	target = (struct fi_rma_iov){remote->base + op->remote_at, op->piece, remote->key};
	msg.msg_iov = &iov;
	msg.desc = &desc;
	msg.iov_count = 1;
	msg.addr = remote->peer;
	/* Another thread may read the completion before the call returns. */
	op->state = OP_POSTED;
	ret = op->reads ? fi_readmsg(context->ep, &msg, context->op_flags)
			: fi_writemsg(context->ep, &msg, context->op_flags);
	if (ret)
		op->state = OP_STALLED;
	return (int) ret;
}

/* ---- transfers ---- */

static int transfer(struct p2p_buffer *local, size_t local_offset, struct p2p_buffer *remote,
		    size_t remote_offset, size_t len, bool reads, struct p2p_buffer_op *op)
{
	int ret;

	if (op)
		op->state = OP_ENDED;
	if (!buffer_alive(local) || !buffer_alive(remote) || !op || !local->memory->data ||
	    remote->memory->data || local->memory->context != remote->memory->context ||
	    !buffer_inside(local->size, local_offset, len) ||
	    !buffer_inside(remote->size, remote_offset, len))
		return -FI_EINVAL;
	if (!len)
		return 0;
	op->local = local->memory;
	op->remote = remote->memory;
	op->slot = NULL;
	op->local_at = local->offset + local_offset;
	op->remote_at = remote->offset + remote_offset;
	op->left = len;
	op->reads = reads;
	buffer_memory_get(op->local);
	buffer_memory_get(op->remote);
	ret = op_post(op);
	return ret ? op_end(op, ret) : 1;
}

int p2p_buffer_write(struct p2p_buffer *local, size_t local_offset, struct p2p_buffer *remote,
		     size_t remote_offset, size_t len, struct p2p_buffer_op *op)
{
	return transfer(local, local_offset, remote, remote_offset, len, false, op);
}

int p2p_buffer_read(struct p2p_buffer *local, size_t local_offset, struct p2p_buffer *remote,
		    size_t remote_offset, size_t len, struct p2p_buffer_op *op)
{
	return transfer(local, local_offset, remote, remote_offset, len, true, op);
}

/* The piece under way has come to its end. */
static int op_take(struct p2p_buffer_op *op)
{
	struct p2p_buffer_memory *local = op->local;
	int ret = 0;

	if (op->slot && op->reads)
		ret = buffer_gpu_copy(op->slot->queue, local->data + op->local_at,
				      op->slot->data, op->piece);
	op->local_at += op->piece;
	op->remote_at += op->piece;
	op->left -= op->piece;
	op->state = OP_STALLED;
	return ret;
}

int p2p_buffer_op_next(struct p2p_buffer_op *op, int err)
{
	int ret;

	if (!op || err < 0 || (op->state != OP_POSTED && op->state != OP_STALLED))
		return -FI_EINVAL;
	if (err)
		return op_end(op, -err);
	ret = op->state == OP_POSTED ? op_take(op) : 0;
	if (ret || !op->left)
		return op_end(op, ret);
	ret = op_post(op);
	if (!ret)
		return 1;
	return ret == -FI_EAGAIN ? ret : op_end(op, ret);
}
