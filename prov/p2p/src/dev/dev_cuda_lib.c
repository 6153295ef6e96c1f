/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The CUDA driver: its functions, its errors, its contexts. The rest of the backend stands on this file. See dev_cuda.h. */
#include "config.h"
#include "dev/dev_cuda.h"

#include <stdlib.h>
#include <rdma/fi_errno.h>

#include "base/base.h"
#include "dev/dl.h"
#include "base/log.h"
#include "base/process.h"

struct cuda_questions cuda;
static struct cuda_calls cuda_gated;

#define CUDA_QUESTION(field, name, optional)                                                   \
	{                                                                                      \
		name, NULL, (void **) &cuda.field, optional                                    \
	}
#define CUDA_CALL(field, name, older, optional)                                                \
	{                                                                                      \
		name, older, (void **) &cuda_gated.field, optional                             \
	}

static const struct dl_symbol cuda_symbols[] = {
	CUDA_QUESTION(get_error_name, "cuGetErrorName", 0),
	CUDA_QUESTION(device_count, "cuDeviceGetCount", 0),
	CUDA_QUESTION(device_get, "cuDeviceGetAttribute", 0),
	CUDA_QUESTION(ctx_get_current, "cuCtxGetCurrent", 0),
	CUDA_QUESTION(ctx_get_device, "cuCtxGetDevice", 0),
	CUDA_QUESTION(ctx_get_id, "cuCtxGetId", 1),
	CUDA_QUESTION(loading_mode, "cuModuleGetLoadingMode", 1),
	CUDA_QUESTION(pointer_get, "cuPointerGetAttributes", 0),
	CUDA_QUESTION(pointer_get_one, "cuPointerGetAttribute", 0),
	CUDA_CALL(init, "cuInit", NULL, 0),
	CUDA_CALL(capture_mode, "cuThreadExchangeStreamCaptureMode", NULL, 1),
	CUDA_CALL(ctx_push, "cuCtxPushCurrent_v2", NULL, 0),
	CUDA_CALL(ctx_pop, "cuCtxPopCurrent_v2", NULL, 0),
	CUDA_CALL(primary_ctx_retain, "cuDevicePrimaryCtxRetain", NULL, 0),
	CUDA_CALL(primary_ctx_release, "cuDevicePrimaryCtxRelease_v2",
		  "cuDevicePrimaryCtxRelease", 0),
	CUDA_CALL(primary_ctx_get, "cuDevicePrimaryCtxGetState", NULL, 0),
	CUDA_CALL(primary_ctx_set, "cuDevicePrimaryCtxSetFlags_v2",
		  "cuDevicePrimaryCtxSetFlags", 0),
	CUDA_CALL(ctx_get_flags, "cuCtxGetFlags", NULL, 0),
	CUDA_CALL(ctx_set_flags, "cuCtxSetFlags", NULL, 1),
	CUDA_CALL(pointer_set, "cuPointerSetAttribute", NULL, 0),
	CUDA_CALL(address_range, "cuMemGetAddressRange_v2", NULL, 0),
	CUDA_CALL(mem_alloc, "cuMemAlloc_v2", NULL, 0),
	CUDA_CALL(mem_free, "cuMemFree_v2", NULL, 0),
	CUDA_CALL(copy_async, "cuMemcpyAsync", NULL, 0),
	CUDA_CALL(copy_rows, "cuMemcpy2DAsync_v2", NULL, 0),
	CUDA_CALL(copy_batch, "cuMemcpyBatchAsync_v2", NULL, 1),
	CUDA_CALL(copy_batch_12, "cuMemcpyBatchAsync", NULL, 1),
	CUDA_CALL(host_register, "cuMemHostRegister_v2", "cuMemHostRegister", 0),
	CUDA_CALL(host_unregister, "cuMemHostUnregister", NULL, 0),
	CUDA_CALL(host_device_pointer, "cuMemHostGetDevicePointer_v2", NULL, 0),
	CUDA_CALL(stream_create, "cuStreamCreate", NULL, 0),
	CUDA_CALL(stream_destroy, "cuStreamDestroy_v2", NULL, 0),
	CUDA_CALL(stream_query, "cuStreamQuery", NULL, 0),
	CUDA_CALL(stream_synchronize, "cuStreamSynchronize", NULL, 0),
	CUDA_CALL(stream_write32, "cuStreamWriteValue32_v2", "cuStreamWriteValue32", 1),
	CUDA_CALL(module_load, "cuModuleLoadData", NULL, 1),
	CUDA_CALL(module_function, "cuModuleGetFunction", NULL, 1),
	CUDA_CALL(launch, "cuLaunchKernel", NULL, 1),
	CUDA_CALL(stream_capture, "cuStreamGetCaptureInfo_v2", NULL, 1),
	CUDA_CALL(user_object, "cuUserObjectCreate", NULL, 1),
	CUDA_CALL(graph_retain, "cuGraphRetainUserObject", NULL, 1),
	CUDA_CALL(stream_memops, "cuStreamBatchMemOp_v2", "cuStreamBatchMemOp", 1),
	CUDA_CALL(event_create, "cuEventCreate", NULL, 0),
	CUDA_CALL(event_destroy, "cuEventDestroy_v2", NULL, 0),
	CUDA_CALL(event_record, "cuEventRecord", NULL, 0),
	CUDA_CALL(event_query, "cuEventQuery", NULL, 0),
	CUDA_CALL(range_handle, "cuMemGetHandleForAddressRange", NULL, 1),
	CUDA_CALL(flush_writes, "cuFlushGPUDirectRDMAWrites", NULL, 1),
	CUDA_CALL(ipc_get, "cuIpcGetMemHandle", NULL, 1),
	CUDA_CALL(ipc_open, "cuIpcOpenMemHandle_v2", "cuIpcOpenMemHandle", 1),
	CUDA_CALL(ipc_close, "cuIpcCloseMemHandle", NULL, 1),
	CUDA_CALL(handle_retain, "cuMemRetainAllocationHandle", NULL, 1),
	CUDA_CALL(handle_export, "cuMemExportToShareableHandle", NULL, 1),
	CUDA_CALL(handle_import, "cuMemImportFromShareableHandle", NULL, 1),
	CUDA_CALL(handle_map, "cuMemMap", NULL, 1),
	CUDA_CALL(handle_release, "cuMemRelease", NULL, 1),
	CUDA_CALL(address_reserve, "cuMemAddressReserve", NULL, 1),
	CUDA_CALL(address_free, "cuMemAddressFree", NULL, 1),
	CUDA_CALL(unmap, "cuMemUnmap", NULL, 1),
	CUDA_CALL(set_access, "cuMemSetAccess", NULL, 1),
	CUDA_CALL(get_access, "cuMemGetAccess", NULL, 1),
};

const char *cuda_strerror(CUresult error)
{
	const char *name = NULL;

	cuda.get_error_name(error, &name);
	return name ? name : "unknown CUDA error";
}

int cuda_check(CUresult error, const char *call)
{
	if (p2p_likely(error == CUDA_SUCCESS))
		return 0;
	P2P_WARN("%s: %s\n", call, cuda_strerror(error));
	switch (error) {
	case CUDA_ERROR_OUT_OF_MEMORY:
		return -FI_ENOMEM;
	case CUDA_ERROR_INVALID_VALUE:
		return -FI_EFAULT;
	case CUDA_ERROR_NOT_SUPPORTED:
		return -FI_EOPNOTSUPP;
	default:
		return -FI_EIO;
	}
}

/**
 * struct cuda_ctx - see dev_cuda.h.
 * @id:		of no other context that there has been or will be in this process
 * @ordinal:	whose it is; negative: that is not known
 */
struct cuda_ctx {
	struct cuda_ctx *next;
	CUcontext handle;
	unsigned long long id;
	int ordinal;
};

/* They stay: there are few, and what was opened in one may be looked at when it is gone. */
static struct cuda_ctx *cuda_ctxs;

/*
 * Asks the driver for a context's id. 0: the driver does not say, as it never does before CUDA 12; or there is
 * no such context
 */
static unsigned long long cuda_ctx_id(CUcontext handle)
{
	unsigned long long id = 0;

	return cuda.ctx_get_id && cuda.ctx_get_id(handle, &id) == CUDA_SUCCESS ? id : 0;
}

/* Looks a context up among those that are known, by handle and id. */
static struct cuda_ctx *cuda_ctx_find(CUcontext handle, unsigned long long id)
{
	struct cuda_ctx *ctx = __atomic_load_n(&cuda_ctxs, __ATOMIC_ACQUIRE);

	while (ctx && (ctx->handle != handle || ctx->id != id))
		ctx = ctx->next;
	return ctx;
}

static int cuda_ctx_ask_ordinal(CUcontext handle)
{
	struct cuda_gate gate;
	CUcontext popped;
	CUdevice device = -1;

	cuda_enter(NULL, &gate);
	if (gate.cu->ctx_push(handle) == CUDA_SUCCESS) {
		if (cuda.ctx_get_device(&device) != CUDA_SUCCESS)
			device = -1;
		gate.cu->ctx_pop(&popped);
	}
	cuda_leave(&gate);
	return device;
}

static P2P_APART struct cuda_ctx *cuda_ctx_new(CUcontext handle, unsigned long long id)
{
	struct cuda_ctx *ctx;
	int ordinal;

	if (cuda.ctx_get_id && !id)
		return NULL;
	ordinal = cuda_ctx_ask_ordinal(handle);
	process_lock(PROCESS_TABLES);
	ctx = cuda_ctx_find(handle, id);
	if (!ctx) {
		ctx = malloc(sizeof *ctx);
		if (ctx) {
			*ctx = (struct cuda_ctx){cuda_ctxs, handle, id, ordinal};
			__atomic_store_n(&cuda_ctxs, ctx, __ATOMIC_RELEASE);
		}
	}
	process_unlock(PROCESS_TABLES);
	return ctx;
}

struct cuda_ctx *cuda_ctx_of(CUcontext handle)
{
	const unsigned long long id = cuda_ctx_id(handle);
	struct cuda_ctx *ctx = cuda_ctx_find(handle, id);

	return p2p_likely(ctx != NULL) ? ctx : cuda_ctx_new(handle, id);
}

bool cuda_ctx_gone(const void *ptr)
{
	const struct cuda_ctx *ctx = ptr;

	return cuda_ctx_id(ctx->handle) != ctx->id;
}

struct cuda_ctx *cuda_ctx_current(void)
{
	CUcontext handle = NULL;

	return cuda.ctx_get_current(&handle) == CUDA_SUCCESS && handle ? cuda_ctx_of(handle)
								       : NULL;
}

int cuda_ctx_ordinal(const struct cuda_ctx *ctx)
{
	return ctx->ordinal;
}

struct cuda_ctx *cuda_ctx_known(int ordinal)
{
	struct cuda_ctx *ctx = __atomic_load_n(&cuda_ctxs, __ATOMIC_ACQUIRE);

	while (ctx && (ctx->ordinal != ordinal || cuda_ctx_gone(ctx)))
		ctx = ctx->next;
	return ctx;
}

#define CUDA_CAPTURE_RELAXED                                                                   \
	2 /* CU_STREAM_CAPTURE_MODE_RELAXED: headers before CUDA 10.1 have none */

int cuda_enter(void *ptr, struct cuda_gate *gate)
{
	const struct cuda_ctx *ctx = ptr;
	CUcontext current = NULL;

	*gate = (struct cuda_gate){.cu = &cuda_gated, .mode = CUDA_CAPTURE_RELAXED};
	if (p2p_unlikely(ctx && cuda_ctx_gone(ctx))) {
		cuda_check(CUDA_ERROR_CONTEXT_IS_DESTROYED, "work in a context of before");
		return -FI_EIO;
	}
	if (ctx && (cuda.ctx_get_current(&current) != CUDA_SUCCESS || current != ctx->handle)) {
		if (cuda_check(gate->cu->ctx_push(ctx->handle), "cuCtxPushCurrent"))
			return -FI_EIO;
		gate->pushed = true;
	}
	gate->relaxed =
		gate->cu->capture_mode && gate->cu->capture_mode(&gate->mode) == CUDA_SUCCESS;
	return 0;
}

void cuda_leave(const struct cuda_gate *gate)
{
	unsigned int mode = gate->mode;
	CUcontext ctx;

	if (gate->relaxed)
		gate->cu->capture_mode(&mode);
	if (gate->pushed)
		gate->cu->ctx_pop(&ctx);
}

int cuda_load(void)
{
	return dl_open(CUDA_LIBDIR, CUDA_SONAME, cuda_symbols,
		       sizeof cuda_symbols / sizeof cuda_symbols[0])
		       ? 0
		       : -FI_ENOSYS;
}

int cuda_init(void)
{
	struct cuda_gate gate;
	CUresult error;

	cuda_enter(NULL, &gate);
	error = gate.cu->init(0);
	cuda_leave(&gate);
	return error == CUDA_SUCCESS ? 0 : -FI_ENOSYS;
}

int cuda_pin(const struct dev_mem *mem, void *addr, size_t len)
{
	struct cuda_gate gate;
	int ret = cuda_enter(mem->ctx, &gate);

	if (ret)
		return ret;
	ret = cuda_check(gate.cu->host_register(addr, len,
						CU_MEMHOSTREGISTER_PORTABLE |
							CU_MEMHOSTREGISTER_DEVICEMAP),
			 "cuMemHostRegister");
	cuda_leave(&gate);
	return ret;
}
