/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Device memory by the CUDA driver API. The library is opened at run time. So the programs also
 * run on machines without it, and say what is missing.
 */
#include <dlfcn.h>

#include "ft_test.h"
#include "dev/p2p_cuda_abi.h"

static struct {
	bool ready;
	bool own; /* the context is of the program's making, and not the device's primary one */
	CUdevice device;
	CUcontext ctx;
	CUresult (*init)(unsigned int flags);
	CUresult (*device_get)(CUdevice *dev, int ordinal);
	CUresult (*device_get_count)(int *count);
	CUresult (*device_get_name)(char *name, int len, CUdevice dev);
	CUresult (*ctx_retain)(CUcontext *ctx, CUdevice dev);
	CUresult (*ctx_reset)(CUdevice dev);
	CUresult (*ctx_state)(CUdevice dev, unsigned int *flags, int *active);
	CUresult (*ctx_create)(CUcontext *ctx, unsigned int flags, CUdevice dev);
	CUresult (*ctx_destroy)(CUcontext ctx);
	CUresult (*ctx_set)(CUcontext ctx);
	CUresult (*ctx_sync)(void);
	CUresult (*mem_alloc)(CUdeviceptr *ptr, size_t size);
	CUresult (*mem_free)(CUdeviceptr ptr);
	CUresult (*copy_htod)(CUdeviceptr dst, const void *src, size_t len);
	CUresult (*copy_dtoh)(void *dst, CUdeviceptr src, size_t len);
	CUresult (*error_name)(CUresult err, const char **name);
} cuda;

static const struct ft_symbol symbols[] = {
	{"cuInit", &cuda.init},
	{"cuDeviceGet", &cuda.device_get},
	{"cuDeviceGetCount", &cuda.device_get_count},
	{"cuDeviceGetName", &cuda.device_get_name},
	{"cuDevicePrimaryCtxRetain", &cuda.ctx_retain},
	{"cuDevicePrimaryCtxReset_v2", &cuda.ctx_reset},
	{"cuDevicePrimaryCtxGetState", &cuda.ctx_state},
	{"cuCtxCreate_v2", &cuda.ctx_create},
	{"cuCtxDestroy_v2", &cuda.ctx_destroy},
	{"cuCtxSetCurrent", &cuda.ctx_set},
	{"cuCtxSynchronize", &cuda.ctx_sync},
	{"cuMemAlloc_v2", &cuda.mem_alloc},
	{"cuMemFree_v2", &cuda.mem_free},
	{"cuMemcpyHtoD_v2", &cuda.copy_htod},
	{"cuMemcpyDtoH_v2", &cuda.copy_dtoh},
	{"cuGetErrorName", &cuda.error_name},
};

int ft_cuda_check(int err, const char *call)
{
	const char *name = NULL;

	if (!err)
		return 0;
	if (cuda.error_name)
		cuda.error_name(err, &name);
	return ft_fail(-FI_EIO, call, "%s (%d)", name ? name : "unknown CUDA error", err);
}

/* A function that only the emulator has; NULL: this is a real device. The process may not have opened it yet */
static void *emulator(const char *function)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW);

	return lib ? dlsym(lib, function) : NULL;
}

int ft_cuda_calls(const char *name, unsigned long *calls)
{
	static unsigned long (*counter)(const char *name);

	if (!counter)
		counter = (unsigned long (*)(const char *)) emulator("cudaemu_calls");
	if (!counter)
		return ft_skip("not on the emulator: nobody counts");
	*calls = counter(name);
	return 0;
}

int ft_cuda_break(unsigned long nth, unsigned long *failed)
{
	static unsigned long (*breaks)(unsigned long nth);

	if (!breaks)
		breaks = (unsigned long (*)(unsigned long)) emulator("cudaemu_break");
	if (!breaks)
		return ft_skip("not on the emulator: a real device is not to be broken");
	*failed = breaks(nth);
	return 0;
}

/* The current context belongs to a thread: each thread that copies calls init */
static int set_current(void)
{
	return ft_cuda_check(cuda.ctx_set(cuda.ctx), "cuCtxSetCurrent");
}

static int make_current(void)
{
	if (cuda.own)
		return ft_cuda_check(cuda.ctx_create(&cuda.ctx, 0, cuda.device), "cuCtxCreate");
	FT_TRY(ft_cuda_check(cuda.ctx_retain(&cuda.ctx, cuda.device),
			     "cuDevicePrimaryCtxRetain"));
	return set_current();
}

int ft_cuda_devices(int *count)
{
	FT_TRY(ft_load("libcuda.so.1", symbols, FT_COUNT(symbols)));
	FT_TRY(ft_cuda_check(cuda.init(0), "cuInit"));
	return ft_cuda_check(cuda.device_get_count(count), "cuDeviceGetCount");
}

static int cuda_init(int device)
{
	int count;

	if (cuda.ready)
		return set_current();
	FT_TRY(ft_cuda_devices(&count));
	if (device < 0 || device >= count) {
		ft_err("-i %d: there are %d CUDA devices, counted from 0", device, count);
		return -FI_EINVAL;
	}
	FT_TRY(ft_cuda_check(cuda.device_get(&cuda.device, device), "cuDeviceGet"));
	FT_TRY(make_current());
	cuda.ready = true;
	return 0;
}

int ft_cuda_reset(void)
{
	FT_TRY(ft_cuda_check(cuda.ctx_reset(cuda.device), "cuDevicePrimaryCtxReset"));
	return make_current();
}

int ft_cuda_own(int device)
{
	const CUcontext before = cuda.own ? cuda.ctx : NULL;

	cuda.own = true;
	if (!cuda.ready)
		return ft_cuda_ops.init(device);
	FT_TRY(make_current());
	return ft_cuda_check(cuda.ctx_destroy(before), "cuCtxDestroy");
}

int ft_cuda_primaries(int *active)
{
	unsigned int flags;
	int count, is_active;

	*active = 0;
	FT_TRY(ft_cuda_devices(&count));
	for (CUdevice device = 0; device < count; device++) {
		FT_TRY(ft_cuda_check(cuda.ctx_state(device, &flags, &is_active),
				     "cuDevicePrimaryCtxGetState"));
		*active += is_active;
	}
	return 0;
}

static int cuda_alloc(size_t size, void **addr)
{
	CUdeviceptr ptr;

	FT_TRY(ft_cuda_check(cuda.mem_alloc(&ptr, size), "cuMemAlloc"));
	*addr = (void *) (uintptr_t) ptr;
	return 0;
}

static void cuda_release(void *addr)
{
	ft_cuda_check(cuda.mem_free((CUdeviceptr) (uintptr_t) addr), "cuMemFree");
}

static int cuda_to(void *dst, const void *src, size_t len)
{
	CUresult err = 0;

	if (len)
		err = cuda.copy_htod((CUdeviceptr) (uintptr_t) dst, src, len);
	/* from pageable memory the call may return before other streams see the data */
	if (!err)
		err = cuda.ctx_sync();
	return ft_cuda_check(err, "cuMemcpyHtoD");
}

static int cuda_from(void *dst, const void *src, size_t len)
{
	CUresult err = 0;

	if (len)
		err = cuda.copy_dtoh(dst, (CUdeviceptr) (uintptr_t) src, len);
	return ft_cuda_check(err, "cuMemcpyDtoH");
}

static int cuda_device_name(char *name, size_t len)
{
	return ft_cuda_check(cuda.device_get_name(name, (int) len, cuda.device),
			     "cuDeviceGetName");
}

const struct ft_mem_ops ft_cuda_ops = {
	.name = "device",
	.iface = FI_HMEM_CUDA,
	.init = cuda_init,
	.alloc = cuda_alloc,
	.release = cuda_release,
	.to = cuda_to,
	.from = cuda_from,
	.device_name = cuda_device_name,
};
