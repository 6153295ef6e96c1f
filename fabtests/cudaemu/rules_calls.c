/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The calls that the provider makes of the driver, and those of applications that it has to live with */
#include "rules.h"

#include <sys/mman.h>
#include <unistd.h>

#define K(n) ((size_t) (n) << 10)

/* What a call makes, for the one that takes it back */
static struct {
	CUdeviceptr ptr;
	void *host;
	CUstream stream;
	CUevent event;
	CUmemGenericAllocationHandle handle;
	CUuserObject object;
	CUcontext ctx;
	int fd;
} made;

#define CALL(name) static CUresult name(void)

CALL(get_attributes_of)
{
	CUpointer_attribute attrs[] = {
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_CONTEXT,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_BUFFER_ID,
		CU_POINTER_ATTRIBUTE_IS_MANAGED,
	};
	uint64_t v[5];
	void *data[] = {v, v + 1, v + 2, v + 3, v + 4};

	return cuPointerGetAttributes(5, attrs, data, made.ptr);
}

#define ATTRIBUTES(name, at)                                                                   \
	CALL(name)                                                                             \
	{                                                                                      \
		made.ptr = (CUdeviceptr) (at);                                                 \
		return get_attributes_of();                                                    \
	}
ATTRIBUTES(get_device, rules.device)
ATTRIBUTES(get_vmm, rules.vmm)
ATTRIBUTES(get_pool, rules.pool)
ATTRIBUTES(get_managed, rules.managed)
ATTRIBUTES(get_pageable, rules.pageable)

CALL(get_one)
{
	unsigned int type;

	return cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, rules.device);
}

CALL(range)
{
	CUdeviceptr base;
	size_t size;

	return cuMemGetAddressRange_v2(&base, &size, rules.vmm);
}

CALL(device_attribute)
{
	int v;

	return cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 0);
}

CALL(device_count)
{
	int v;

	return cuDeviceGetCount(&v);
}

CALL(device)
{
	CUdevice dev;

	return cuDeviceGet(&dev, 0);
}

CALL(current)
{
	CUcontext ctx;

	return cuCtxGetCurrent(&ctx);
}

CALL(current_device)
{
	CUdevice dev;

	return cuCtxGetDevice(&dev);
}

CALL(ctx_id)
{
	unsigned long long id;

	return cuCtxGetId(rules.ctx, &id);
}

CALL(push_pop)
{
	CUresult rc = cuCtxPushCurrent_v2(rules.ctx);

	return rc ? rc : cuCtxPopCurrent_v2(NULL);
}

CALL(set_current)
{
	return cuCtxSetCurrent(rules.ctx);
}
CALL(retain)
{
	return cuDevicePrimaryCtxRetain(&made.ctx, 0);
}
CALL(release)
{
	return cuDevicePrimaryCtxRelease_v2(0);
}

CALL(primary_state)
{
	unsigned int flags;
	int active;

	return cuDevicePrimaryCtxGetState(0, &flags, &active);
}

CALL(primary_set)
{
	unsigned int flags;
	int active;
	CUresult rc = cuDevicePrimaryCtxGetState(0, &flags, &active);

	return rc ? rc : cuDevicePrimaryCtxSetFlags_v2(0, flags);
}

CALL(flags_get)
{
	unsigned int flags;

	return cuCtxGetFlags(&flags);
}

CALL(flags_set)
{
	unsigned int flags;
	CUresult rc = cuCtxGetFlags(&flags);

	return rc ? rc : cuCtxSetFlags(flags);
}

static CUresult set_sync(CUdeviceptr ptr)
{
	const unsigned int on = 1;

	return cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, ptr);
}

CALL(set_sync_device)
{
	return set_sync(made.ptr);
}
CALL(set_sync_vmm)
{
	return set_sync(rules.vmm);
}

CALL(loading_mode)
{
	CUmoduleLoadingMode mode;

	return cuModuleGetLoadingMode(&mode);
}

/* ---- memory ---- */

CALL(mem_alloc)
{
	return cuMemAlloc_v2(&made.ptr, K(64));
}
CALL(mem_free)
{
	return cuMemFree_v2(made.ptr);
}
CALL(pool_alloc)
{
	return cuMemAllocAsync(&made.ptr, K(64), rules.side);
}
CALL(pool_free)
{
	return cuMemFreeAsync(made.ptr, rules.side);
}
CALL(host_alloc)
{
	return cuMemHostAlloc(&made.host, K(64), CU_MEMHOSTALLOC_PORTABLE);
}
CALL(host_free)
{
	return cuMemFreeHost(made.host);
}

CALL(host_register)
{
	return cuMemHostRegister_v2(rules.pageable + K(1024), K(64),
				    CU_MEMHOSTREGISTER_PORTABLE);
}

CALL(host_unregister)
{
	return cuMemHostUnregister(rules.pageable + K(1024));
}
CALL(host_pointer)
{
	return cuMemHostGetDevicePointer_v2(&made.ptr, rules.pinned, 0);
}
CALL(ipc_get)
{
	CUipcMemHandle handle;

	return cuIpcGetMemHandle(&handle, rules.device);
}

CALL(handle_retain)
{
	return cuMemRetainAllocationHandle(&made.handle, (void *) rules.vmm);
}
CALL(handle_release)
{
	return cuMemRelease(made.handle);
}

CALL(handle_export)
{
	return cuMemExportToShareableHandle(&made.fd, rules.vmm_handle,
					    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
}

CALL(handle_import)
{
	return cuMemImportFromShareableHandle(&made.handle, (void *) (uintptr_t) made.fd,
					      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}

CALL(fd_close)
{
	return close(made.fd) ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

CALL(handle_import_end)
{
	handle_release();
	return fd_close();
}

CALL(reserve)
{
	return cuMemAddressReserve(&made.ptr, RULES_BIG, 0, 0, 0);
}
CALL(unreserve)
{
	return cuMemAddressFree(made.ptr, RULES_BIG);
}
CALL(map)
{
	return cuMemMap(made.ptr, RULES_BIG, 0, rules.vmm_handle, 0);
}
CALL(unmap)
{
	return cuMemUnmap(made.ptr, RULES_BIG);
}
CALL(set_access)
{
	return rules_vmm_access(made.ptr, RULES_BIG, 0);
}

CALL(reserve_map)
{
	CUresult rc = reserve();

	return rc ? rc : map();
}

CALL(reserve_map_access)
{
	CUresult rc = reserve_map();

	return rc ? rc : set_access();
}

CALL(unmap_all)
{
	unmap();
	return unreserve();
}

CALL(range_handle)
{
	CUresult rc = cuMemGetHandleForAddressRange(&made.fd, rules.device, K(64),
						    CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);

	/* a machine without dma-bufs is not a rule */
	return rc == CUDA_ERROR_NOT_SUPPORTED ? CUDA_SUCCESS : rc;
}

CALL(flush_writes)
{
	return cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
					  CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
}

/* ---- streams, events, graphs ---- */

CALL(stream_create)
{
	return cuStreamCreate(&made.stream, CU_STREAM_NON_BLOCKING);
}
CALL(stream_destroy)
{
	return cuStreamDestroy_v2(made.stream);
}
CALL(stream_query)
{
	return cuStreamQuery(rules.side);
}
CALL(stream_sync)
{
	return cuStreamSynchronize(rules.side);
}
CALL(legacy_query)
{
	return cuStreamQuery(NULL);
}
CALL(ctx_sync)
{
	return cuCtxSynchronize();
}

CALL(event_create)
{
	return cuEventCreate(&made.event, CU_EVENT_DISABLE_TIMING);
}
CALL(event_destroy)
{
	return cuEventDestroy_v2(made.event);
}
CALL(event_record)
{
	return cuEventRecord(made.event, rules.side);
}

CALL(event_recorded)
{
	CUresult rc = event_create();

	return rc ? rc : event_record();
}

CALL(event_query)
{
	return cuEventQuery(made.event);
}
CALL(stream_wait_event)
{
	return cuStreamWaitEvent(rules.side, made.event, 0);
}

CALL(is_capturing)
{
	CUstreamCaptureStatus status;

	return cuStreamIsCapturing(rules.side, &status);
}

static void nothing(void *data)
{
}

CALL(user_object)
{
	return cuUserObjectCreate(&made.object, NULL, nothing, 1,
				  CU_USER_OBJECT_NO_DESTRUCTOR_SYNC);
}

CALL(user_object_release)
{
	return cuUserObjectRelease(made.object, 1);
}

CALL(write_value)
{
	return cuStreamWriteValue32_v2(rules.side, (CUdeviceptr) (uintptr_t) rules.pinned, 1,
				       0);
}

CALL(batch_value)
{
	CUstreamBatchMemOpParams op = {
		.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32,
			       .address = (CUdeviceptr) (uintptr_t) rules.pinned}};

	return cuStreamBatchMemOp_v2(rules.side, 1, &op, 0);
}

/* ---- copies ---- */

#define AT(host) ((CUdeviceptr) (uintptr_t) (host))

CALL(to_pinned)
{
	return cuMemcpyAsync(AT(rules.pinned), rules.device, K(4), rules.side);
}
CALL(to_pinned_typed)
{
	return cuMemcpyDtoHAsync_v2(rules.pinned, rules.device, K(4), rules.side);
}
CALL(from_pinned)
{
	return cuMemcpyAsync(rules.device, AT(rules.pinned), K(4), rules.side);
}
CALL(to_pageable)
{
	return cuMemcpyAsync(AT(rules.pageable), rules.device, K(300), rules.side);
}
CALL(from_pageable)
{
	return cuMemcpyAsync(rules.device, AT(rules.pageable), K(300), rules.side);
}
CALL(from_pageable_little)
{
	return cuMemcpyAsync(rules.device, AT(rules.pageable), K(4), rules.side);
}
CALL(within)
{
	return cuMemcpyAsync(rules.device2, rules.device, K(4), rules.side);
}

CALL(batch)
{
	CUmemcpyAttributes attrs = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
	CUdeviceptr dst = rules.device, src = AT(rules.pinned);
	size_t size = K(4), first = 0;

	return cuMemcpyBatchAsync_v2(&dst, &src, &size, 1, &attrs, &first, 1, rules.side);
}

CUresult rules_copy_aside(void)
{
	CUresult rc = cuMemcpyAsync(AT(rules.pinned), rules.device, K(4), rules.side);

	return rc ? rc : cuStreamSynchronize(rules.side);
}

CALL(sync_4k)
{
	return cuMemcpyHtoD_v2(rules.device, rules.pageable, K(4));
}
CALL(sync_64k)
{
	return cuMemcpyHtoD_v2(rules.device, rules.pageable, K(64));
}
CALL(sync_64k_vmm)
{
	return cuMemcpyHtoD_v2(rules.vmm, rules.pageable, K(64));
}
CALL(sync_1m)
{
	return cuMemcpyHtoD_v2(rules.device, rules.pageable, K(1024));
}
CALL(sync_pinned)
{
	return cuMemcpyHtoD_v2(rules.device, rules.pinned, K(64));
}
CALL(sync_back)
{
	return cuMemcpyDtoH_v2(rules.pageable, rules.device, K(4));
}
CALL(sync_within)
{
	return cuMemcpyDtoD_v2(rules.device2, rules.device, K(64));
}
CALL(sync_within_vmm)
{
	return cuMemcpyDtoD_v2(rules.vmm, rules.device, K(64));
}
CALL(set)
{
	return cuMemsetD8_v2(rules.device, 1, K(64));
}
CALL(set_vmm)
{
	return cuMemsetD8_v2(rules.vmm, 1, K(64));
}
CALL(set_pool)
{
	return cuMemsetD8_v2(rules.pool, 1, K(64));
}
CALL(set_aside)
{
	return cuMemsetD8Async(rules.device, 1, K(64), rules.side);
}

#define C(name, call)                                                                          \
	{                                                                                      \
		name, NULL, call, NULL, false                                                  \
	}
#define W(name, call)                                                                          \
	{                                                                                      \
		name, NULL, call, NULL, true                                                   \
	}
/* may wait for others that wait */
#define H(name, call)                                                                          \
	{                                                                                      \
		name, NULL, call, NULL, false, true                                            \
	}

const struct rules_call rules_calls[] = {
	H("cuPointerGetAttributes(device)", get_device),
	H("cuPointerGetAttributes(vmm)", get_vmm),
	C("cuPointerGetAttributes(pool)", get_pool),
	C("cuPointerGetAttributes(managed)", get_managed),
	C("cuPointerGetAttributes(pageable)", get_pageable),
	C("cuPointerGetAttribute", get_one),
	H("cuMemGetAddressRange", range),
	C("cuDeviceGetAttribute", device_attribute),
	C("cuDeviceGetCount", device_count),
	C("cuDeviceGet", device),
	C("cuCtxGetCurrent", current),
	C("cuCtxGetDevice", current_device),
	H("cuCtxGetId", ctx_id),
	C("cuCtxPushCurrent, PopCurrent", push_pop),
	C("cuCtxSetCurrent", set_current),
	{"cuDevicePrimaryCtxRetain", NULL, retain, release, true},
	{"cuDevicePrimaryCtxRelease", retain, release, NULL, true},
	H("cuDevicePrimaryCtxGetState", primary_state),
	{"cuDevicePrimaryCtxSetFlags", NULL, primary_set, NULL, true, true},
	H("cuCtxGetFlags", flags_get),
	{"cuCtxSetFlags", NULL, flags_set, NULL, true, true},
	{"cuPointerSetAttribute(device)", mem_alloc, set_sync_device, mem_free, true, true},
	W("cuPointerSetAttribute(vmm)", set_sync_vmm),
	C("cuModuleGetLoadingMode", loading_mode),
	{"cuMemAlloc", NULL, mem_alloc, mem_free, true, true},
	{"cuMemFree", mem_alloc, mem_free, NULL, true},
	{"cuMemAllocAsync", NULL, pool_alloc, pool_free, true},
	{"cuMemHostAlloc", NULL, host_alloc, host_free, true},
	{"cuMemFreeHost", host_alloc, host_free, NULL, true},
	{"cuMemHostRegister", NULL, host_register, host_unregister, true, true},
	{"cuMemHostUnregister", host_register, host_unregister, NULL, true},
	C("cuMemHostGetDevicePointer", host_pointer),
	H("cuIpcGetMemHandle", ipc_get),
	{"cuMemRetainAllocationHandle", NULL, handle_retain, handle_release, false},
	{"cuMemRelease", handle_retain, handle_release, NULL, false},
	{"cuMemExportToShareableHandle", NULL, handle_export, fd_close, false},
	{"cuMemImportFromShareableHandle", handle_export, handle_import, handle_import_end,
	 true},
	{"cuMemAddressReserve", NULL, reserve, unreserve, false},
	{"cuMemAddressFree", reserve, unreserve, NULL, false},
	{"cuMemMap", reserve, map, unmap_all, true},
	{"cuMemSetAccess", reserve_map, set_access, unmap_all, true, true},
	{"cuMemUnmap", reserve_map_access, unmap, unreserve, true},
	{"cuMemGetHandleForAddressRange", NULL, range_handle, fd_close, true},
	W("cuFlushGPUDirectRDMAWrites", flush_writes),
	{"cuStreamCreate", NULL, stream_create, stream_destroy, true, true},
	{"cuStreamDestroy", stream_create, stream_destroy, NULL, true},
	H("cuStreamQuery(non-blocking)", stream_query),
	C("cuStreamSynchronize(non-blocking)", stream_sync),
	C("cuStreamQuery(legacy)", legacy_query),
	C("cuCtxSynchronize", ctx_sync),
	{"cuEventCreate", NULL, event_create, event_destroy, true},
	{"cuEventDestroy", event_create, event_destroy, NULL, true},
	{"cuEventRecord(non-blocking)", event_create, event_record, event_destroy, false, true},
	{"cuEventQuery", event_recorded, event_query, event_destroy, false, true},
	{"cuStreamWaitEvent", event_recorded, stream_wait_event, event_destroy, false},
	C("cuStreamIsCapturing(non-blocking)", is_capturing),
	{"cuUserObjectCreate", NULL, user_object, user_object_release, false},
	H("cuStreamWriteValue32", write_value),
	H("cuStreamBatchMemOp", batch_value),
	H("cuMemcpyAsync(DtoH pinned)", to_pinned),
	C("cuMemcpyDtoHAsync(pinned)", to_pinned_typed),
	{"cuMemcpyAsync(HtoD pinned)", NULL, from_pinned, NULL, true, true},
	W("cuMemcpyAsync(DtoH pageable)", to_pageable),
	W("cuMemcpyAsync(HtoD pageable)", from_pageable),
	W("cuMemcpyAsync(HtoD pageable, 4 KiB)", from_pageable_little),
	W("cuMemcpyAsync(DtoD)", within),
	W("cuMemcpyBatchAsync(HtoD pinned)", batch),
	W("cuMemcpyHtoD(pageable, 4 KiB)", sync_4k),
	W("cuMemcpyHtoD(pageable, 64 KiB)", sync_64k),
	W("cuMemcpyHtoD(pageable, 64 KiB, vmm)", sync_64k_vmm),
	W("cuMemcpyHtoD(pageable, 1 MiB)", sync_1m),
	W("cuMemcpyHtoD(pinned, 64 KiB)", sync_pinned),
	W("cuMemcpyDtoH(pageable)", sync_back),
	W("cuMemcpyDtoD", sync_within),
	W("cuMemcpyDtoD(vmm)", sync_within_vmm),
	W("cuMemsetD8", set),
	W("cuMemsetD8(vmm)", set_vmm),
	W("cuMemsetD8(pool)", set_pool),
	{"cuMemsetD8Async", NULL, set_aside, NULL, true, true},
};

const size_t rules_calls_count = sizeof(rules_calls) / sizeof(rules_calls[0]);
