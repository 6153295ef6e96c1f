/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Copies and fills. A call returns before the work is done wherever the driver's documentation
 * allows that. Copies inside a device do so even in their synchronous form. Copies from pageable
 * buffers do so once the last piece is staged. On an H200 (rules.h200) the last piece of 64 KiB or
 * 1 MiB is late nearly always, 16 KiB hardly ever; here all are late.
 *
 * CU_CTX_SYNC_MEMOPS of the calling context makes every synchronous form wait. The attribute of the
 * same name does so for memory of cuMemAlloc(); memory of a pool takes it, and nothing changes.
 */
#include "emu.h"

#include <stdlib.h>
#include <string.h>

#define EMU_STAGED_MAX 65536
/* CU_DEVICE_ATTRIBUTE_MAX_PITCH */
#define EMU_PITCH_MAX 0x7fffffffu

/* Does the caller sleep until the copy has run, and is its source staged? */
struct emu_manner {
	bool wait, stage;
};

static bool emu_sync_memops(const struct emu_operand *o)
{
	return o->alloc && o->alloc->sync_memops && o->alloc->kind != EMU_POOL;
}

static bool emu_ctx_sync_memops(const struct CUctx_st *ctx)
{
	return ctx->flags & CU_CTX_SYNC_MEMOPS;
}

static struct emu_manner emu_copy_manner(const struct emu_copy *copy,
					 const struct emu_operand *dst,
					 const struct emu_operand *src,
					 const struct CUstream_st *stream)
{
	bool blocking = copy->flags & EMU_COPY_BLOCKING;
	struct emu_manner m = {false, false};

	if (copy->flags & EMU_COPY_SNAPSHOT)
		m.stage = src->host;
	else if (stream->capture)
		return m;
	else if (copy->flags & EMU_COPY_NO_SNAPSHOT)
		m.wait = !dst->alloc;
	else if (!dst->alloc || (blocking && dst->host))
		m.wait = true;
	else if (!src->alloc && !dst->host && dst->alloc->kind != EMU_MANAGED &&
		 copy->width * copy->height <= EMU_STAGED_MAX)
		m.stage = true;
	else
		m.wait = !src->alloc || (blocking && src->host);
	if (blocking &&
	    (emu_sync_memops(dst) || emu_sync_memops(src) || emu_ctx_sync_memops(stream->ctx)))
		m.wait = true;
	return m;
}

static struct emu_op *emu_copy_op(const struct emu_copy *copy, const struct emu_operand *dst,
				  const struct emu_operand *src, bool stage,
				  const struct CUstream_st *stream)
{
	struct emu_op *op = emu_op_new(EMU_OP_COPY);
	size_t row;

	op->copy.dst = dst->p;
	op->copy.src = src->p;
	op->copy.width = copy->width;
	op->copy.height = copy->height;
	op->copy.dpitch = copy->dpitch;
	op->copy.spitch = copy->spitch;
	op->copy.dev = stream->ctx->dev;
	op->copy.dir = src->host == dst->host ? EMU_WITHIN
		       : src->host            ? EMU_TO_DEVICE
					      : EMU_TO_HOST;
	op->copy.hang = ++emu.copies == emu.conf.hang_copy;
	if (stage) {
		op->copy.staging = malloc(copy->width * copy->height);
		if (!op->copy.staging)
			emu_die("staging memory of a copy");
		for (row = 0; row < copy->height; row++)
			memcpy(op->copy.staging + row * copy->width,
			       src->p + row * copy->spitch, copy->width);
		op->copy.src = op->copy.staging;
		op->copy.spitch = copy->width;
	}
	return op;
}

/* The bytes from the first to the last one that a copy of this pitch touches */
static size_t emu_copy_span(const struct emu_copy *copy, size_t pitch)
{
	return pitch * (copy->height - 1) + copy->width;
}

/* Checks everything and enqueues nothing. Called with the lock held. */
static CUresult emu_copy_resolve(const struct emu_copy *copy, CUdevice dev,
				 struct emu_operand *dst, struct emu_operand *src)
{
	CUresult rc;

	rc = emu_operand_resolve(copy->dst, emu_copy_span(copy, copy->dpitch), dev, dst);
	if (rc == CUDA_SUCCESS)
		rc = emu_operand_resolve(copy->src, emu_copy_span(copy, copy->spitch), dev,
					 src);
	if (rc != CUDA_SUCCESS)
		return rc;
	if ((copy->flags & EMU_COPY_DST_KNOWN && !dst->alloc) ||
	    (copy->flags & EMU_COPY_SRC_KNOWN && !src->alloc))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/* A synchronous operation returns before it has run: who makes the memory synchronous waits */
static void emu_copy_note(struct emu_alloc *alloc, struct CUstream_st *stream,
			  const struct emu_op *op)
{
	if (alloc)
		alloc->sync = (struct emu_point){stream, op->seq};
}

/* Called with the lock held. A synchronous copy in the legacy stream keeps others out while it waits. */
static CUresult emu_copy_run(const struct emu_copy *copy, struct CUstream_st *stream)
{
	const bool blocking = copy->flags & EMU_COPY_BLOCKING;
	struct emu_operand dst, src;
	struct emu_manner manner;
	struct emu_op *op;
	CUresult rc;

	rc = emu_copy_resolve(copy, stream->ctx->dev, &dst, &src);
	if (rc != CUDA_SUCCESS)
		return rc;
	manner = emu_copy_manner(copy, &dst, &src, stream);
	if (blocking && manner.stage) {
		/* it does not begin before all else has ended: what is left at the return is brief */
		emu_stream_drain(stream);
		rc = emu_copy_resolve(copy, stream->ctx->dev, &dst, &src);
		if (rc != CUDA_SUCCESS)
			return rc;
	}
	op = emu_copy_op(copy, &dst, &src, manner.stage, stream);
	if (manner.wait) {
		emu_stream_enqueue_and_wait(stream, op);
		return emu_ctx_error(stream->ctx);
	}
	emu_stream_enqueue(stream, op);
	if (blocking) {
		emu_copy_note(dst.alloc, stream, op);
		emu_copy_note(src.alloc, stream, op);
	}
	return CUDA_SUCCESS;
}

CUresult emu_copy_submit(const struct emu_copy *copy, CUstream stream)
{
	CUresult rc;

	pthread_mutex_lock(&emu.lock);
	emu_hold_pass();
	rc = emu_stream_get(stream, &stream);
	if (rc != CUDA_SUCCESS || !copy->width || !copy->height)
		goto unlock;
	if (copy->flags & EMU_COPY_BLOCKING)
		emu_hold_begin();
	rc = emu_copy_run(copy, stream);
	if (copy->flags & EMU_COPY_BLOCKING)
		emu_hold_end();

unlock:
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

/* A synchronous copy of pageable memory in more than one piece. If it can fail, it does so at once. */
static bool emu_copy_in_pieces(const struct emu_copy *copy)
{
	struct emu_operand dst, src;
	bool pieces;

	if (!(copy->flags & EMU_COPY_BLOCKING) || copy->width <= EMU_STAGED_MAX)
		return false;
	pthread_mutex_lock(&emu.lock);
	pieces = emu_copy_resolve(copy, emu_ctx_current()->dev, &dst, &src) == CUDA_SUCCESS &&
		 !src.alloc && !dst.host;
	pthread_mutex_unlock(&emu.lock);
	return pieces;
}

static CUresult emu_copy_1d(uint64_t dst, uint64_t src, size_t size, unsigned int flags,
			    CUstream stream)
{
	struct emu_copy copy = {
		.dst = dst,
		.src = src,
		.width = size,
		.height = 1,
		.flags = flags,
	};
	CUresult rc;

	if (!emu_copy_in_pieces(&copy))
		return emu_copy_submit(&copy, stream);
	copy.width = size - EMU_STAGED_MAX;
	rc = emu_copy_submit(&copy, stream);
	copy.dst += copy.width;
	copy.src += copy.width;
	copy.width = EMU_STAGED_MAX;
	return rc == CUDA_SUCCESS ? emu_copy_submit(&copy, stream) : rc;
}

/* For each direction, the synchronous form and the one with a stream */
#define EMU_COPY(sync_name, async_name, dst_type, src_type, known)                             \
	EMU_API(sync_name, dst_type dst, src_type src, size_t size)                            \
	{                                                                                      \
		EMU_ENTER(EMU_NEED_CTX);                                                       \
		return emu_copy_1d((uint64_t) dst, (uint64_t) src, size,                       \
				   (known) | EMU_COPY_BLOCKING, NULL);                         \
	}                                                                                      \
	EMU_API(async_name, dst_type dst, src_type src, size_t size, CUstream stream)          \
	{                                                                                      \
		EMU_ENTER(EMU_NEED_INIT);                                                      \
		return emu_copy_1d((uint64_t) dst, (uint64_t) src, size, known, stream);       \
	}

EMU_COPY(cuMemcpy, cuMemcpyAsync, CUdeviceptr, CUdeviceptr, 0)
EMU_COPY(cuMemcpyHtoD_v2, cuMemcpyHtoDAsync_v2, CUdeviceptr, const void *, EMU_COPY_DST_KNOWN)
EMU_COPY(cuMemcpyDtoH_v2, cuMemcpyDtoHAsync_v2, void *, CUdeviceptr, EMU_COPY_SRC_KNOWN)
EMU_COPY(cuMemcpyDtoD_v2, cuMemcpyDtoDAsync_v2, CUdeviceptr, CUdeviceptr,
	 EMU_COPY_DST_KNOWN | EMU_COPY_SRC_KNOWN)

static CUresult emu_copy_peer(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src,
			      CUcontext src_ctx, size_t size, unsigned int flags,
			      CUstream stream)
{
	if (emu_ctx_check(dst_ctx) != CUDA_SUCCESS || emu_ctx_check(src_ctx) != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_CONTEXT;
	return emu_copy_1d(dst, src, size, flags | EMU_COPY_DST_KNOWN | EMU_COPY_SRC_KNOWN,
			   stream);
}

EMU_API(cuMemcpyPeer, CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx,
	size_t size)
{
	EMU_ENTER(EMU_NEED_CTX);
	return emu_copy_peer(dst, dst_ctx, src, src_ctx, size, EMU_COPY_BLOCKING, NULL);
}

EMU_API(cuMemcpyPeerAsync, CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src,
	CUcontext src_ctx, size_t size, CUstream stream)
{
	EMU_ENTER(EMU_NEED_INIT);
	return emu_copy_peer(dst, dst_ctx, src, src_ctx, size, 0, stream);
}

static CUresult emu_copy_2d(const CUDA_MEMCPY2D *p, unsigned int flags, CUstream stream)
{
	struct emu_copy copy = {
		.width = p->WidthInBytes,
		.height = p->Height,
		.dpitch = p->dstPitch ? p->dstPitch : p->WidthInBytes,
		.spitch = p->srcPitch ? p->srcPitch : p->WidthInBytes,
		.flags = flags,
	};

	if (p->srcMemoryType == CU_MEMORYTYPE_ARRAY || p->dstMemoryType == CU_MEMORYTYPE_ARRAY)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (copy.dpitch < copy.width || copy.spitch < copy.width ||
	    copy.dpitch > EMU_PITCH_MAX || copy.spitch > EMU_PITCH_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	copy.src =
		p->srcMemoryType == CU_MEMORYTYPE_HOST ? (uint64_t) p->srcHost : p->srcDevice;
	copy.dst =
		p->dstMemoryType == CU_MEMORYTYPE_HOST ? (uint64_t) p->dstHost : p->dstDevice;
	copy.src += p->srcY * copy.spitch + p->srcXInBytes;
	copy.dst += p->dstY * copy.dpitch + p->dstXInBytes;
	if (p->srcMemoryType == CU_MEMORYTYPE_DEVICE)
		copy.flags |= EMU_COPY_SRC_KNOWN;
	if (p->dstMemoryType == CU_MEMORYTYPE_DEVICE)
		copy.flags |= EMU_COPY_DST_KNOWN;
	return emu_copy_submit(&copy, stream);
}

EMU_API(cuMemcpy2D_v2, const CUDA_MEMCPY2D *copy)
{
	EMU_ENTER(EMU_NEED_CTX);
	return emu_copy_2d(copy, EMU_COPY_BLOCKING, NULL);
}
EMU_API_ALIAS(cuMemcpy2DUnaligned_v2, cuMemcpy2D_v2);

EMU_API(cuMemcpy2DAsync_v2, const CUDA_MEMCPY2D *copy, CUstream stream)
{
	EMU_ENTER(EMU_NEED_INIT);
	return emu_copy_2d(copy, 0, stream);
}

/* ---- batches ---- */

static bool emu_batch_valid(size_t count, const CUmemcpyAttributes *attrs, const size_t *first,
			    size_t nattrs, CUstream stream)
{
	size_t i;

	if (!count || !attrs || !first || !nattrs || nattrs > count || first[0])
		return false;
	if (!stream || stream == CU_STREAM_LEGACY)
		return false;
	for (i = 0; i < nattrs; i++)
		if ((i && first[i] <= first[i - 1]) || first[i] >= count ||
		    attrs[i].srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_INVALID ||
		    attrs[i].srcAccessOrder > CU_MEMCPY_SRC_ACCESS_ORDER_ANY)
			return false;
	return true;
}

static unsigned int emu_batch_flags(const CUmemcpyAttributes *attr)
{
	if (attr->srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL)
		return EMU_COPY_SNAPSHOT;
	return EMU_COPY_NO_SNAPSHOT;
}

/*
 * The copies of a batch have no order among each other. The last one runs first, to expose
 * programs that rely on an order. A bad copy fails the batch before any of it runs.
 */
EMU_API(cuMemcpyBatchAsync_v2, CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
	size_t count, CUmemcpyAttributes *attrs, size_t *attrs_first, size_t nattrs,
	CUstream stream)
{
	struct emu_operand dst, src;
	struct emu_copy copy = {.height = 1};
	CUresult rc = CUDA_SUCCESS;
	size_t i;

	EMU_ENTER(EMU_NEED_INIT);
	if (!dsts || !srcs || !sizes ||
	    !emu_batch_valid(count, attrs, attrs_first, nattrs, stream))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&emu.lock);
	rc = emu_stream_find(stream, &stream);
	for (i = 0; i < count && rc == CUDA_SUCCESS; i++) {
		copy.dst = dsts[i];
		copy.src = srcs[i];
		copy.width = sizes[i];
		rc = sizes[i] ? emu_copy_resolve(&copy, stream->ctx->dev, &dst, &src)
			      : CUDA_ERROR_INVALID_VALUE;
	}
	pthread_mutex_unlock(&emu.lock);
	while (rc == CUDA_SUCCESS && count-- > 0) {
		while (attrs_first[nattrs - 1] > count)
			nattrs--;
		rc = emu_copy_1d(dsts[count], srcs[count], sizes[count],
				 emu_batch_flags(&attrs[nattrs - 1]), stream);
	}
	return rc;
}

/* The form of CUDA 12.8, which names the copy at fault. SIZE_MAX: none is at fault. */
EMU_API(cuMemcpyBatchAsync, CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
	CUmemcpyAttributes *attrs, size_t *attrs_first, size_t nattrs, size_t *failed,
	CUstream stream)
{
	if (failed)
		*failed = SIZE_MAX;
	return cuMemcpyBatchAsync_v2(dsts, srcs, sizes, count, attrs, attrs_first, nattrs,
				     stream);
}

/* ---- fills ---- */

static CUresult emu_set_submit(CUdeviceptr dst, uint32_t value, int width, size_t count,
			       bool blocking, CUstream stream)
{
	struct emu_operand where;
	struct emu_op *op;
	CUresult rc;

	pthread_mutex_lock(&emu.lock);
	emu_hold_pass();
	rc = emu_stream_get(stream, &stream);
	if (rc != CUDA_SUCCESS || !count)
		goto unlock;
	rc = emu_operand_resolve(dst, count * (size_t) width, stream->ctx->dev, &where);
	if (rc == CUDA_SUCCESS && (!where.alloc || dst % (unsigned int) width))
		rc = CUDA_ERROR_INVALID_VALUE;
	if (rc != CUDA_SUCCESS)
		goto unlock;
	op = emu_op_new(EMU_OP_SET);
	op->set.dst = where.p;
	op->set.value = value;
	op->set.width = width;
	op->set.count = count;
	if (blocking &&
	    (where.host || emu_sync_memops(&where) || emu_ctx_sync_memops(stream->ctx))) {
		emu_hold_begin();
		emu_stream_enqueue_and_wait(stream, op);
		emu_hold_end();
		rc = emu_ctx_error(stream->ctx);
		goto unlock;
	}
	emu_stream_enqueue(stream, op);
	if (blocking)
		emu_copy_note(where.alloc, stream, op);

unlock:
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

#define EMU_SET(name, async_name, type)                                                        \
	EMU_API(name, CUdeviceptr dst, type value, size_t count)                               \
	{                                                                                      \
		EMU_ENTER(EMU_NEED_CTX);                                                       \
		return emu_set_submit(dst, value, sizeof(type), count, true, NULL);            \
	}                                                                                      \
	EMU_API(async_name, CUdeviceptr dst, type value, size_t count, CUstream stream)        \
	{                                                                                      \
		EMU_ENTER(EMU_NEED_INIT);                                                      \
		return emu_set_submit(dst, value, sizeof(type), count, false, stream);         \
	}

EMU_SET(cuMemsetD8_v2, cuMemsetD8Async, unsigned char)
EMU_SET(cuMemsetD16_v2, cuMemsetD16Async, unsigned short)
EMU_SET(cuMemsetD32_v2, cuMemsetD32Async, unsigned int)
