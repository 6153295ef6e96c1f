/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The CUDA driver: its functions, its errors, its contexts. The rest of the backend stands on
 * this file. See dev_cuda.h.
 */
#include "config.h"
#include "dev/dev_cuda.h"

#include <rdma/fi_errno.h>

#include "base/base.h"
#include "dev/dl.h"
#include "base/log.h"

struct cuda_driver cuda;

#define CUDA_SYMBOL(field, name, older, optional)                                              \
	{                                                                                      \
		name, older, (void **) &cuda.field, optional                                   \
	}

static const struct dl_symbol cuda_symbols[] = {
	CUDA_SYMBOL(get_error_name, "cuGetErrorName", NULL, 0),
	CUDA_SYMBOL(ctx_get_current, "cuCtxGetCurrent", NULL, 0),
	CUDA_SYMBOL(ctx_get_device, "cuCtxGetDevice", NULL, 0),
	CUDA_SYMBOL(ctx_push, "cuCtxPushCurrent_v2", NULL, 0),
	CUDA_SYMBOL(ctx_pop, "cuCtxPopCurrent_v2", NULL, 0),
	CUDA_SYMBOL(primary_ctx_retain, "cuDevicePrimaryCtxRetain", NULL, 0),
	CUDA_SYMBOL(pointer_get, "cuPointerGetAttributes", NULL, 0),
	CUDA_SYMBOL(pointer_set, "cuPointerSetAttribute", NULL, 0),
	CUDA_SYMBOL(address_range, "cuMemGetAddressRange_v2", NULL, 0),
	CUDA_SYMBOL(copy_async, "cuMemcpyAsync", NULL, 0),
	CUDA_SYMBOL(copy_batch, "cuMemcpyBatchAsync_v2", NULL, 1),
	CUDA_SYMBOL(copy_batch_12, "cuMemcpyBatchAsync", NULL, 1),
	CUDA_SYMBOL(host_register, "cuMemHostRegister_v2", "cuMemHostRegister", 0),
	CUDA_SYMBOL(host_unregister, "cuMemHostUnregister", NULL, 0),
	CUDA_SYMBOL(host_device_pointer, "cuMemHostGetDevicePointer_v2", NULL, 0),
	CUDA_SYMBOL(stream_create, "cuStreamCreate", NULL, 0),
	CUDA_SYMBOL(stream_destroy, "cuStreamDestroy_v2", NULL, 0),
	CUDA_SYMBOL(stream_query, "cuStreamQuery", NULL, 0),
	CUDA_SYMBOL(stream_synchronize, "cuStreamSynchronize", NULL, 0),
	CUDA_SYMBOL(stream_write32, "cuStreamWriteValue32_v2", "cuStreamWriteValue32", 1),
	CUDA_SYMBOL(stream_memops, "cuStreamBatchMemOp_v2", "cuStreamBatchMemOp", 1),
	CUDA_SYMBOL(event_create, "cuEventCreate", NULL, 0),
	CUDA_SYMBOL(event_destroy, "cuEventDestroy_v2", NULL, 0),
	CUDA_SYMBOL(event_record, "cuEventRecord", NULL, 0),
	CUDA_SYMBOL(event_query, "cuEventQuery", NULL, 0),
	CUDA_SYMBOL(device_get, "cuDeviceGetAttribute", NULL, 0),
	CUDA_SYMBOL(range_handle, "cuMemGetHandleForAddressRange", NULL, 1),
	CUDA_SYMBOL(flush_writes, "cuFlushGPUDirectRDMAWrites", NULL, 1),
	CUDA_SYMBOL(ipc_get, "cuIpcGetMemHandle", NULL, 1),
	CUDA_SYMBOL(ipc_open, "cuIpcOpenMemHandle_v2", "cuIpcOpenMemHandle", 1),
	CUDA_SYMBOL(ipc_close, "cuIpcCloseMemHandle", NULL, 1),
	CUDA_SYMBOL(handle_retain, "cuMemRetainAllocationHandle", NULL, 1),
	CUDA_SYMBOL(handle_export, "cuMemExportToShareableHandle", NULL, 1),
	CUDA_SYMBOL(handle_import, "cuMemImportFromShareableHandle", NULL, 1),
	CUDA_SYMBOL(handle_map, "cuMemMap", NULL, 1),
	CUDA_SYMBOL(handle_release, "cuMemRelease", NULL, 1),
	CUDA_SYMBOL(address_reserve, "cuMemAddressReserve", NULL, 1),
	CUDA_SYMBOL(address_free, "cuMemAddressFree", NULL, 1),
	CUDA_SYMBOL(unmap, "cuMemUnmap", NULL, 1),
	CUDA_SYMBOL(set_access, "cuMemSetAccess", NULL, 1),
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

int cuda_enter(void *ctx, bool *pushed)
{
	CUcontext current = NULL;

	*pushed = false;
	if (cuda.ctx_get_current(&current) == CUDA_SUCCESS && current == ctx)
		return 0;
	if (cuda_check(cuda.ctx_push(ctx), "cuCtxPushCurrent"))
		return -FI_EIO;
	*pushed = true;
	return 0;
}

void cuda_leave(bool pushed)
{
	CUcontext ctx;

	if (pushed)
		cuda.ctx_pop(&ctx);
}

int cuda_load(void)
{
	return dl_open(CUDA_LIBDIR, CUDA_SONAME, cuda_symbols,
		       sizeof cuda_symbols / sizeof cuda_symbols[0])
		       ? 0
		       : -FI_ENOSYS;
}

int cuda_pin(const struct dev_mem *mem, void *addr, size_t len)
{
	bool pushed;
	int ret;

	ret = cuda_enter(mem->ctx, &pushed);
	if (ret)
		return ret;
	ret = cuda_check(cuda.host_register(addr, len,
					    CU_MEMHOSTREGISTER_PORTABLE |
						    CU_MEMHOSTREGISTER_DEVICEMAP),
			 "cuMemHostRegister");
	cuda_leave(pushed);
	return ret;
}
