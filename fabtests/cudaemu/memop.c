/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Stream memory operations: streams wait for values in memory, and write values, in order. */
#include "emu.h"

#include <stdlib.h>

static bool emu_memop_flags_valid(enum emu_op_kind kind, unsigned int flags)
{
	if (kind == EMU_OP_WRITE_VALUE)
		return flags == CU_STREAM_WRITE_VALUE_DEFAULT;
	/* like most real devices, no emulated device can flush remote writes */
	return flags <= CU_STREAM_WAIT_VALUE_NOR;
}

/* Called with the lock held. If it fails, it enqueues nothing. */
static CUresult emu_memop_prepare(CUdevice dev, enum emu_op_kind kind, int width,
				  CUdeviceptr addr, uint64_t value, unsigned int flags,
				  struct emu_op **out)
{
	struct emu_operand where;
	CUresult rc;

	if (addr % (unsigned int) width || !emu_memop_flags_valid(kind, flags))
		return CUDA_ERROR_INVALID_VALUE;
	rc = emu_operand_resolve(addr, (size_t) width, dev, &where);
	if (rc != CUDA_SUCCESS || !where.alloc)
		return CUDA_ERROR_INVALID_VALUE;
	*out = emu_op_new(kind);
	(*out)->memop.addr = where.p;
	(*out)->memop.value = value;
	(*out)->memop.width = width;
	(*out)->memop.flags = flags;
	return CUDA_SUCCESS;
}

static CUresult emu_memop_submit(enum emu_op_kind kind, int width, CUstream stream,
				 CUdeviceptr addr, uint64_t value, unsigned int flags)
{
	struct emu_op *op;
	CUresult rc;

	if (emu.conf.no_memops)
		return CUDA_ERROR_NOT_SUPPORTED;
	pthread_mutex_lock(&emu.lock);
	rc = emu_stream_get(stream, &stream);
	if (rc == CUDA_SUCCESS)
		rc = emu_memop_prepare(stream->ctx->dev, kind, width, addr, value, flags, &op);
	if (rc == CUDA_SUCCESS)
		emu_stream_enqueue(stream, op);
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

#define EMU_MEMOP(name, kind, type, need)                                                      \
	EMU_API(name##_v2, CUstream stream, CUdeviceptr addr, type value, unsigned int flags)  \
	{                                                                                      \
		EMU_ENTER(need);                                                               \
		return emu_memop_submit(kind, sizeof(type), stream, addr, value, flags);       \
	}                                                                                      \
	EMU_API_ALIAS(name, name##_v2)

EMU_MEMOP(cuStreamWriteValue32, EMU_OP_WRITE_VALUE, cuuint32_t, EMU_NEED_DRIVER);
EMU_MEMOP(cuStreamWriteValue64, EMU_OP_WRITE_VALUE, cuuint64_t, EMU_NEED_INIT);
EMU_MEMOP(cuStreamWaitValue32, EMU_OP_WAIT_VALUE, cuuint32_t, EMU_NEED_INIT);
EMU_MEMOP(cuStreamWaitValue64, EMU_OP_WAIT_VALUE, cuuint64_t, EMU_NEED_INIT);

/* Handles one element of a batch. *op stays NULL if the element needs no work here. */
static CUresult emu_memop_one(CUdevice dev, const CUstreamBatchMemOpParams *p,
			      struct emu_op **op)
{
	switch (p->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
		return emu_memop_prepare(dev, EMU_OP_WAIT_VALUE, 4, p->waitValue.address,
					 p->waitValue.value, p->waitValue.flags, op);
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		return emu_memop_prepare(dev, EMU_OP_WAIT_VALUE, 8, p->waitValue.address,
					 p->waitValue.value64, p->waitValue.flags, op);
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
		return emu_memop_prepare(dev, EMU_OP_WRITE_VALUE, 4, p->writeValue.address,
					 p->writeValue.value, p->writeValue.flags, op);
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		return emu_memop_prepare(dev, EMU_OP_WRITE_VALUE, 8, p->writeValue.address,
					 p->writeValue.value64, p->writeValue.flags, op);
	case CU_STREAM_MEM_OP_BARRIER:
		return CUDA_SUCCESS;
	case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

#define EMU_MEMOP_BATCH 256

EMU_API(cuStreamBatchMemOp_v2, CUstream stream, unsigned int count,
	CUstreamBatchMemOpParams *params, unsigned int flags)
{
	struct emu_op *ops[EMU_MEMOP_BATCH] = {NULL};
	unsigned int i;
	CUresult rc;

	EMU_ENTER(EMU_NEED_INIT);
	if (emu.conf.no_memops)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (flags || count > EMU_MEMOP_BATCH || (count && !params))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&emu.lock);
	rc = emu_stream_get(stream, &stream);
	for (i = 0; rc == CUDA_SUCCESS && i < count; i++)
		rc = emu_memop_one(stream->ctx->dev, &params[i], &ops[i]);
	for (i = 0; i < count; i++) {
		if (ops[i] && rc == CUDA_SUCCESS)
			emu_stream_enqueue(stream, ops[i]);
		else if (ops[i])
			emu_op_free(ops[i]);
	}
	pthread_mutex_unlock(&emu.lock);
	return rc;
}
EMU_API_ALIAS(cuStreamBatchMemOp, cuStreamBatchMemOp_v2);
