/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Device memory by the CUDA driver API. The library is opened at run time, so that the
 * programs run, and say what is missing, on machines that have none.
 */
#include "ft.h"
#include "p2p_cuda_abi.h"

static struct {
	bool ready;
	CUdevice device;
	CUcontext ctx;
	CUresult (*init)(unsigned int flags);
	CUresult (*device_get)(CUdevice *dev, int ordinal);
	CUresult (*device_get_count)(int *count);
	CUresult (*device_get_name)(char *name, int len, CUdevice dev);
	CUresult (*ctx_retain)(CUcontext *ctx, CUdevice dev);
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
	{"cuCtxSetCurrent", &cuda.ctx_set},
	{"cuCtxSynchronize", &cuda.ctx_sync},
	{"cuMemAlloc_v2", &cuda.mem_alloc},
	{"cuMemFree_v2", &cuda.mem_free},
	{"cuMemcpyHtoD_v2", &cuda.copy_htod},
	{"cuMemcpyDtoH_v2", &cuda.copy_dtoh},
	{"cuGetErrorName", &cuda.error_name},
};

static int cuda_fail(CUresult err, const char *call)
{
	const char *name = NULL;

	if (cuda.error_name)
		cuda.error_name(err, &name);
	return ft_fail(-FI_EIO, call, "%s (%d)", name ? name : "unknown CUDA error",
		       (int)err);
}

/* A thread's business: each that copies calls init. */
static int set_current(void)
{
	const CUresult err = cuda.ctx_set(cuda.ctx);

	return err ? cuda_fail(err, "cuCtxSetCurrent") : 0;
}

static int cuda_init(int device)
{
	CUresult err;
	int count;

	if (cuda.ready)
		return set_current();
	FT_TRY(ft_load("libcuda.so.1", symbols, FT_COUNT(symbols)));
	err = cuda.init(0);
	if (err)
		return cuda_fail(err, "cuInit");
	err = cuda.device_get_count(&count);
	if (err)
		return cuda_fail(err, "cuDeviceGetCount");
	if (device < 0 || device >= count) {
		ft_err("-i %d: there are %d CUDA devices, counted from 0", device, count);
		return -FI_EINVAL;
	}
	err = cuda.device_get(&cuda.device, device);
	if (err)
		return cuda_fail(err, "cuDeviceGet");
	err = cuda.ctx_retain(&cuda.ctx, cuda.device);
	if (err)
		return cuda_fail(err, "cuDevicePrimaryCtxRetain");
	FT_TRY(set_current());
	cuda.ready = true;
	return 0;
}

static int cuda_alloc(size_t size, void **addr)
{
	CUdeviceptr ptr;
	CUresult err = cuda.mem_alloc(&ptr, size);

	if (err)
		return cuda_fail(err, "cuMemAlloc");
	*addr = (void *)(uintptr_t)ptr;
	return 0;
}

static void cuda_release(void *addr)
{
	CUresult err = cuda.mem_free((CUdeviceptr)(uintptr_t)addr);

	if (err)
		cuda_fail(err, "cuMemFree");
}

static int cuda_to(void *dst, const void *src, size_t len)
{
	CUresult err = 0;

	if (len)
		err = cuda.copy_htod((CUdeviceptr)(uintptr_t)dst, src, len);
	/* From pageable memory the call may return before other streams see the data. */
	if (!err)
		err = cuda.ctx_sync();
	return err ? cuda_fail(err, "cuMemcpyHtoD") : 0;
}

static int cuda_from(void *dst, const void *src, size_t len)
{
	CUresult err = 0;

	if (len)
		err = cuda.copy_dtoh(dst, (CUdeviceptr)(uintptr_t)src, len);
	return err ? cuda_fail(err, "cuMemcpyDtoH") : 0;
}

static int cuda_device_name(char *name, size_t len)
{
	CUresult err = cuda.device_get_name(name, (int)len, cuda.device);

	return err ? cuda_fail(err, "cuDeviceGetName") : 0;
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
