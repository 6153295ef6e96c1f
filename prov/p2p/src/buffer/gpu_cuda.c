/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Memory of CUDA's GPUs, by the driver's interface and in the primary context. See gpu.h. */
#include "buffer/gpu.h"

#include <pthread.h>
#include <stdint.h>
#include <rdma/fi_errno.h>

#include "config.h"
#include "dev/p2p_cuda_abi.h"

#ifndef CUDA_LIBDIR
#define CUDA_LIBDIR NULL
#endif

static struct {
	int loaded; /* what loading has returned */
	CUresult (*init)(unsigned int flags);
	CUresult (*device_get)(CUdevice *device, int ordinal);
	CUresult (*ctx_retain)(CUcontext *context, CUdevice device);
	CUresult (*ctx_release)(CUdevice device);
	CUresult (*ctx_push)(CUcontext context);
	CUresult (*ctx_pop)(CUcontext *context);
	CUresult (*pointer_attribute)(void *value, CUpointer_attribute which, CUdeviceptr ptr);
	CUresult (*mem_alloc)(CUdeviceptr *ptr, size_t size);
	CUresult (*mem_free)(CUdeviceptr ptr);
	CUresult (*host_alloc)(void **data, size_t size, unsigned int flags);
	CUresult (*host_free)(void *data);
	CUresult (*stream_create)(CUstream *stream, unsigned int flags);
	CUresult (*stream_destroy)(CUstream stream);
	CUresult (*stream_sync)(CUstream stream);
	CUresult (*copy_to)(CUdeviceptr dst, const void *src, size_t size, CUstream stream);
	CUresult (*copy_from)(void *dst, CUdeviceptr src, size_t size, CUstream stream);
} cuda;

static const struct gpu_symbol symbols[] = {
	{"cuInit", &cuda.init},
	{"cuDeviceGet", &cuda.device_get},
	{"cuDevicePrimaryCtxRetain", &cuda.ctx_retain},
	{"cuDevicePrimaryCtxRelease_v2", &cuda.ctx_release},
	{"cuCtxPushCurrent_v2", &cuda.ctx_push},
	{"cuCtxPopCurrent_v2", &cuda.ctx_pop},
	{"cuPointerGetAttribute", &cuda.pointer_attribute},
	{"cuMemAlloc_v2", &cuda.mem_alloc},
	{"cuMemFree_v2", &cuda.mem_free},
	{"cuMemHostAlloc", &cuda.host_alloc},
	{"cuMemFreeHost", &cuda.host_free},
	{"cuStreamCreate", &cuda.stream_create},
	{"cuStreamDestroy_v2", &cuda.stream_destroy},
	{"cuStreamSynchronize", &cuda.stream_sync},
	{"cuMemcpyHtoDAsync_v2", &cuda.copy_to},
	{"cuMemcpyDtoHAsync_v2", &cuda.copy_from},
};

static int cuda_error(CUresult result)
{
	switch (result) {
	case CUDA_SUCCESS:
		return 0;
	case CUDA_ERROR_OUT_OF_MEMORY:
		return -FI_ENOMEM;
	case CUDA_ERROR_INVALID_VALUE:
	case CUDA_ERROR_INVALID_DEVICE:
		return -FI_EINVAL;
	case CUDA_ERROR_NO_DEVICE:
		return -FI_ENOSYS;
	default:
		return -FI_EIO;
	}
}

static void cuda_load_once(void)
{
	cuda.loaded = buffer_gpu_open(CUDA_LIBDIR, "libcuda.so.1", symbols,
				      sizeof symbols / sizeof symbols[0]);
	if (!cuda.loaded)
		cuda.loaded = cuda_error(cuda.init(0));
}

static int cuda_load(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, cuda_load_once);
	return cuda.loaded;
}

static int cuda_retain(int gpu, CUdevice *device, CUcontext *context)
{
	CUresult result = cuda.device_get(device, gpu);

	if (result == CUDA_SUCCESS)
		result = cuda.ctx_retain(context, *device);
	return cuda_error(result);
}

static int cuda_hold(int gpu)
{
	CUcontext context;
	CUdevice device;

	return cuda_retain(gpu, &device, &context);
}

static void cuda_drop(int gpu)
{
	CUdevice device;

	if (cuda.device_get(&device, gpu) == CUDA_SUCCESS)
		cuda.ctx_release(device);
}

/* The caller's current context is the same again after cuda_leave(). */
static int cuda_enter(int gpu, CUdevice *device)
{
	CUcontext context;
	int ret = cuda_retain(gpu, device, &context);

	if (ret)
		return ret;
	ret = cuda_error(cuda.ctx_push(context));
	if (ret)
		cuda.ctx_release(*device);
	return ret;
}

static void cuda_leave(CUdevice device)
{
	CUcontext context;

	cuda.ctx_pop(&context);
	cuda.ctx_release(device);
}

/* The ordinal at one address */
static int cuda_owner_of(const void *data, int *gpu)
{
	unsigned int type = 0;
	const CUdeviceptr ptr = (uintptr_t) data;

	if (cuda.pointer_attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, ptr) !=
		    CUDA_SUCCESS ||
	    type != CU_MEMORYTYPE_DEVICE)
		return -FI_EINVAL;
	return cuda_error(
		cuda.pointer_attribute(gpu, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, ptr));
}

static int cuda_owner(const void *data, size_t size, int *gpu)
{
	int last;
	int ret = cuda_owner_of(data, gpu);

	if (!ret)
		ret = cuda_owner_of((const char *) data + size - 1, &last);
	return ret || *gpu == last ? ret : -FI_EINVAL;
}

static int cuda_alloc(int gpu, size_t size, void **data)
{
	CUdeviceptr ptr = 0;
	CUdevice device;
	int ret = cuda_enter(gpu, &device);

	if (ret)
		return ret;
	ret = cuda_error(cuda.mem_alloc(&ptr, size));
	if (!ret)
		*data = (void *) (uintptr_t) ptr;
	cuda_leave(device);
	return ret;
}

static void cuda_free(int gpu, void *data)
{
	CUdevice device;

	if (cuda_enter(gpu, &device))
		return;
	cuda.mem_free((uintptr_t) data);
	cuda_leave(device);
}

/* A stream that waits for no kernel of the application's */
static int cuda_host_alloc(int gpu, size_t size, void **data, void **queue)
{
	CUstream stream;
	CUdevice device;
	int ret = cuda_enter(gpu, &device);

	if (ret)
		return ret;
	ret = cuda_error(cuda.stream_create(&stream, CU_STREAM_NON_BLOCKING));
	if (ret)
		goto leave;
	ret = cuda_error(cuda.host_alloc(data, size, CU_MEMHOSTALLOC_PORTABLE));
	if (ret)
		cuda.stream_destroy(stream);
	else
		*queue = stream;
leave:
	cuda_leave(device);
	return ret;
}

static void cuda_host_free(int gpu, void *data, void *queue)
{
	CUdevice device;

	if (cuda_enter(gpu, &device))
		return;
	cuda.host_free(data);
	cuda.stream_destroy(queue);
	cuda_leave(device);
}

/* Waits for a copy, also for one whose call has failed: part of it may have begun. */
static int cuda_finish(CUdevice device, void *queue, CUresult begun)
{
	const CUresult ended = cuda.stream_sync(queue);

	cuda_leave(device);
	return cuda_error(begun == CUDA_SUCCESS ? ended : begun);
}

static int cuda_to(int gpu, void *queue, void *dst, const void *src, size_t size)
{
	CUdevice device;
	int ret = cuda_enter(gpu, &device);

	if (ret)
		return ret;
	return cuda_finish(device, queue, cuda.copy_to((uintptr_t) dst, src, size, queue));
}

static int cuda_from(int gpu, void *queue, void *dst, const void *src, size_t size)
{
	CUdevice device;
	int ret = cuda_enter(gpu, &device);

	if (ret)
		return ret;
	return cuda_finish(device, queue, cuda.copy_from(dst, (uintptr_t) src, size, queue));
}

const struct gpu_ops buffer_gpu_cuda = {
	.iface = FI_HMEM_CUDA,
	.load = cuda_load,
	.hold = cuda_hold,
	.drop = cuda_drop,
	.owner = cuda_owner,
	.alloc = cuda_alloc,
	.free = cuda_free,
	.host_alloc = cuda_host_alloc,
	.host_free = cuda_host_free,
	.to = cuda_to,
	.from = cuda_from,
};
