/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * GPUs, as the CUDA driver tells of them. This application may initialise that driver. See
 * info.h.
 */
#include "info.h"

#include <ctype.h>
#include <stdlib.h>
#include <time.h>

#include "dev/p2p_cuda_abi.h"

#define CUDA_LIBRARY "libcuda.so.1"

/* So many copies are timed, of each length */
#define CUDA_COPIES 20

static struct {
	CUresult (*init)(unsigned int flags);
	CUresult (*driver_version)(int *version);
	CUresult (*device_count)(int *count);
	CUresult (*device_get)(CUdevice *dev, int ordinal);
	CUresult (*device_name)(char *name, int len, CUdevice dev);
	CUresult (*device_pci)(char *address, int len, CUdevice dev);
	CUresult (*device_memory)(size_t *size, CUdevice dev);
	CUresult (*device_attribute)(int *value, CUdevice_attribute which, CUdevice dev);
	CUresult (*ctx_retain)(CUcontext *ctx, CUdevice dev);
	CUresult (*ctx_set)(CUcontext ctx);
	CUresult (*mem_alloc)(CUdeviceptr *ptr, size_t size);
	CUresult (*host_alloc)(void **ptr, size_t size);
	CUresult (*copy_out)(void *dst, CUdeviceptr src, size_t size);
	CUresult (*error_name)(CUresult err, const char **name);
	CUresult (*range_handle)(void *handle, CUdeviceptr ptr, size_t size,
				 CUmemRangeHandleType type, unsigned long long flags);
} cuda;

static const struct info_symbol cuda_symbols[] = {
	{"cuInit", &cuda.init},
	{"cuDriverGetVersion", &cuda.driver_version},
	{"cuDeviceGetCount", &cuda.device_count},
	{"cuDeviceGet", &cuda.device_get},
	{"cuDeviceGetName", &cuda.device_name},
	{"cuDeviceGetPCIBusId", &cuda.device_pci},
	{"cuDeviceTotalMem_v2", &cuda.device_memory},
	{"cuDeviceGetAttribute", &cuda.device_attribute},
	{"cuDevicePrimaryCtxRetain", &cuda.ctx_retain},
	{"cuCtxSetCurrent", &cuda.ctx_set},
	{"cuMemAlloc_v2", &cuda.mem_alloc},
	{"cuMemAllocHost_v2", &cuda.host_alloc},
	{"cuMemcpyDtoH_v2", &cuda.copy_out},
	{"cuGetErrorName", &cuda.error_name},
	{"cuMemGetHandleForAddressRange", &cuda.range_handle, true},
};

/* The message for a call that failed; NULL: it has not failed */
static const char *cuda_error(const char *call, CUresult result)
{
	const char *name = NULL;

	if (result == CUDA_SUCCESS)
		return NULL;
	cuda.error_name(result, &name);
	return info_text("%s: %s", call, name ? name : "unknown CUDA error");
}

static enum info_answer cuda_attribute(CUdevice dev, CUdevice_attribute which)
{
	int value;

	/* older drivers do not know newer attributes */
	if (cuda.device_attribute(&value, which, dev) != CUDA_SUCCESS)
		return INFO_UNKNOWN;
	return value ? INFO_YES : INFO_NO;
}

static const char *cuda_ordering(CUdevice dev)
{
	int value;

	if (cuda.device_attribute(&value, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING,
				  dev) != CUDA_SUCCESS)
		return NULL;
	return value >= CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES ? "all devices"
	       : value >= CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER     ? "owner"
								       : "none";
}

/* Makes the device's primary context the current one. Returns the call that failed, or NULL. */
static const char *cuda_enter(CUdevice dev)
{
	CUcontext ctx;
	const char *error;

	error = cuda_error("cuDevicePrimaryCtxRetain", cuda.ctx_retain(&ctx, dev));
	return error ? error : cuda_error("cuCtxSetCurrent", cuda.ctx_set(ctx));
}

static int cuda_expose(const struct info_gpu *gpu)
{
	CUdevice dev;
	int fd;

	if (cuda.device_get(&dev, gpu->number) != CUDA_SUCCESS || cuda_enter(dev) ||
	    cuda.range_handle(&fd, (CUdeviceptr) (uintptr_t) gpu->buffer, INFO_LONG,
			      CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0) != CUDA_SUCCESS)
		return -1;
	return fd;
}

/* The end of the process gives it back, after the endpoints that have it pinned */
static const char *cuda_alloc(struct info_gpu *gpu, CUdevice dev)
{
	CUdeviceptr ptr;
	const char *error = cuda_enter(dev);

	if (!error)
		error = cuda_error("cuMemAlloc", cuda.mem_alloc(&ptr, INFO_BUFFER));
	if (!error)
		gpu->buffer = (void *) (uintptr_t) ptr;
	return error;
}

/* The quickest of some copies [ns], as others may use the machine, too; 0: they fail */
static uint64_t cuda_copy_time(void *host, const struct info_gpu *gpu, size_t len)
{
	struct timespec begin, end;
	uint64_t least = UINT64_MAX, ns;

	for (int i = 0; i < CUDA_COPIES; i++) {
		clock_gettime(CLOCK_MONOTONIC, &begin);
		if (cuda.copy_out(host, (CUdeviceptr) (uintptr_t) gpu->buffer, len) !=
		    CUDA_SUCCESS)
			return 0;
		clock_gettime(CLOCK_MONOTONIC, &end);
		ns = (uint64_t) (end.tv_sec - begin.tv_sec) * 1000000000 +
		     (uint64_t) (end.tv_nsec - begin.tv_nsec);
		least = ns < least ? ns : least;
	}
	return least;
}

/* Fills what a copy costs, from the device to pinned memory, which the end of the process gives back */
static void cuda_measure(struct info_gpu *gpu)
{
	uint64_t brief, longer;
	void *host;

	if (gpu->error || cuda.host_alloc(&host, INFO_LONG) != CUDA_SUCCESS)
		return;
	brief = cuda_copy_time(host, gpu, INFO_SHORT);
	longer = cuda_copy_time(host, gpu, INFO_LONG);
	if (!brief || longer < brief)
		return;
	gpu->copy_fixed = (uint32_t) brief;
	gpu->copy_kib = (uint32_t) ((longer - brief) / (INFO_LONG >> 10));
}

static void cuda_describe(struct info_gpu *gpu, int ordinal, int version)
{
	char text[256];
	size_t memory;
	CUdevice dev;

	gpu->runtime = "CUDA";
	gpu->number = ordinal;
	gpu->numa = -1;
	gpu->error = cuda_error("cuDeviceGet", cuda.device_get(&dev, ordinal));
	if (gpu->error)
		return;
	if (cuda.device_name(text, sizeof text, dev) == CUDA_SUCCESS)
		gpu->name = info_text("%s", text);
	if (cuda.device_pci(text, sizeof text, dev) == CUDA_SUCCESS) {
		for (char *c = text; *c; c++)
			*c = (char) tolower((unsigned char) *c);
		gpu->pci = info_text("%s", text);
	}
	if (cuda.device_memory(&memory, dev) == CUDA_SUCCESS)
		gpu->memory = memory;
	gpu->driver = info_file_line("/sys/module/nvidia/version");
	if (!gpu->driver)
		gpu->driver = info_text("CUDA %d.%d", version / 1000, version / 10 % 100);
	gpu->attributes = true;
	gpu->dmabuf = cuda_attribute(dev, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED);
	gpu->rdma = cuda_attribute(dev, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED);
	gpu->memops = cuda_attribute(dev, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
	gpu->ordering = cuda_ordering(dev);
	gpu->error = cuda_alloc(gpu, dev);
	cuda_measure(gpu);
	if (cuda.range_handle)
		gpu->expose = cuda_expose;
}

void info_gpus_cuda(struct info *info)
{
	struct info_runtime *runtime =
		info_append(&info->runtimes, &info->runtime_count, sizeof *runtime);
	int count = 0, version = 0;

	runtime->name = "CUDA";
	runtime->library = CUDA_LIBRARY;
	if (!info_load(CUDA_LIBRARY, cuda_symbols, INFO_COUNT(cuda_symbols), &runtime->status))
		return;
	runtime->status = cuda_error("cuInit", cuda.init(0));
	if (!runtime->status)
		runtime->status = cuda_error("cuDeviceGetCount", cuda.device_count(&count));
	if (runtime->status)
		return;
	cuda.driver_version(&version);
	runtime->ready = true;
	runtime->status =
		info_text("CUDA %d.%d, devices: %d", version / 1000, version / 10 % 100, count);
	for (int i = 0; i < count; i++)
		cuda_describe(info_append(&info->gpus, &info->gpu_count, sizeof *info->gpus), i,
			      version);
}
