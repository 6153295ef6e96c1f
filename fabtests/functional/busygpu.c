/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A busy GPU. See busygpu.h. */
#include "busygpu.h"

#include "ft_test.h"
#include "dev/p2p_cuda_abi.h"

#define BLOCK 1024 /* threads; every device has room for it */

static struct {
	CUdevice device;
	CUstream own;    /* waits for nothing else */
	CUdeviceptr end; /* what the kernel leaves when it gives up */
	CUresult (*attribute)(int *value, CUdevice_attribute attr, CUdevice dev);
	CUresult (*mem_alloc)(CUdeviceptr *ptr, size_t size);
	CUresult (*stream_create)(CUstream *stream, unsigned int flags);
	CUresult (*stream_sync)(CUstream stream);
	CUresult (*stream_query)(CUstream stream);
	CUresult (*copy)(CUdeviceptr dst, CUdeviceptr src, size_t len, CUstream stream);
	CUresult (*load)(void **module, const void *image);
	CUresult (*function)(void **function, void *module, const char *name);
	CUresult (*launch)(void *function, unsigned int grid_x, unsigned int grid_y,
			   unsigned int grid_z, unsigned int block_x, unsigned int block_y,
			   unsigned int block_z, unsigned int shared, CUstream stream,
			   void **params, void **extra);
	CUresult (*wait_value)(CUstream stream, CUdeviceptr addr, cuuint32_t value,
			       unsigned int flags);
} gpu;

static const struct ft_symbol symbols[] = {
	{"cuDeviceGetAttribute", &gpu.attribute}, {"cuMemAlloc_v2", &gpu.mem_alloc},
	{"cuStreamCreate", &gpu.stream_create},   {"cuStreamSynchronize", &gpu.stream_sync},
	{"cuStreamQuery", &gpu.stream_query},     {"cuMemcpyAsync", &gpu.copy},
	{"cuModuleLoadData", &gpu.load},
};

/* The emulator does not know this PTX; its streams wait as real ones do */
static const struct ft_symbol kernel_symbols[] = {
	{"cuModuleGetFunction", &gpu.function},
	{"cuLaunchKernel", &gpu.launch},
};
static const struct ft_symbol wait_symbols[] = {
	{"cuStreamWaitValue32_v2", &gpu.wait_value},
};

/* Every thread looks at the word until it has the value, or the time is over */
static const char ptx[] = ".version 6.0\n"
			  ".target sm_50\n"
			  ".address_size 64\n"
			  ".visible .entry busy(.param .u64 word, .param .u32 value,\n"
			  "		.param .u64 limit, .param .u64 end)\n"
			  "{\n"
			  "	.reg .pred %p<3>;\n"
			  "	.reg .u32 %r<4>;\n"
			  "	.reg .u64 %d<6>;\n"
			  "	ld.param.u64 %d0, [word];\n"
			  "	ld.param.u32 %r0, [value];\n"
			  "	ld.param.u64 %d1, [limit];\n"
			  "	ld.param.u64 %d2, [end];\n"
			  "	mov.u64 %d3, %globaltimer;\n"
			  "look:\n"
			  "	ld.volatile.u32 %r1, [%d0];\n"
			  "	setp.eq.u32 %p0, %r1, %r0;\n"
			  "	@%p0 bra done;\n"
			  "	mov.u64 %d4, %globaltimer;\n"
			  "	sub.u64 %d4, %d4, %d3;\n"
			  "	setp.lt.u64 %p1, %d4, %d1;\n"
			  "	@%p1 bra look;\n"
			  "	mov.u32 %r2, 1;\n"
			  "	st.volatile.u32 [%d2], %r2;\n"
			  "done:\n"
			  "	ret;\n"
			  "}\n";

static int load(void)
{
	return gpu.copy ? 0 : ft_load("libcuda.so.1", symbols, FT_COUNT(symbols));
}

static int copy(CUdeviceptr dst, CUdeviceptr src, size_t len)
{
	FT_TRY(ft_cuda_check(gpu.copy(dst, src, len, gpu.own), "cuMemcpyAsync"));
	return ft_cuda_check(gpu.stream_sync(gpu.own), "cuStreamSynchronize");
}

int busygpu_to(void *dst, const void *src, size_t len)
{
	return copy((uintptr_t) dst, (uintptr_t) src, len);
}

int busygpu_from(void *dst, const void *src, size_t len)
{
	return copy((uintptr_t) dst, (uintptr_t) src, len);
}

int busygpu_open(int device)
{
	const uint32_t zero = 0;

	FT_TRY(load());
	gpu.device = device;
	FT_TRY(ft_cuda_check(gpu.stream_create(&gpu.own, CU_STREAM_NON_BLOCKING),
			     "cuStreamCreate"));
	FT_TRY(ft_cuda_check(gpu.mem_alloc(&gpu.end, sizeof(zero)), "cuMemAlloc"));
	return busygpu_to((void *) (uintptr_t) gpu.end, &zero, sizeof(zero));
}

/* On every multiprocessor, as many threads as it takes */
static int launch(void *module, CUdeviceptr word, uint32_t value, int seconds)
{
	uint64_t limit = (uint64_t) seconds * 1000000000;
	void *params[] = {&word, &value, &limit, &gpu.end}, *function;
	int processors, threads;

	FT_TRY(ft_load("libcuda.so.1", kernel_symbols, FT_COUNT(kernel_symbols)));
	FT_TRY(ft_cuda_check(gpu.function(&function, module, "busy"), "cuModuleGetFunction"));
	FT_TRY(ft_cuda_check(gpu.attribute(&processors,
					   CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
					   gpu.device),
			     "cuDeviceGetAttribute"));
	FT_TRY(ft_cuda_check(gpu.attribute(&threads,
					   CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
					   gpu.device),
			     "cuDeviceGetAttribute"));
	return ft_cuda_check(gpu.launch(function,
					(unsigned int) (processors * (threads / BLOCK)), 1, 1,
					BLOCK, 1, 1, 0, NULL, params, NULL),
			     "cuLaunchKernel");
}

int busygpu_start(void *word, uint32_t value, int seconds)
{
	const CUdeviceptr at = (uintptr_t) word;
	void *module;
	CUresult ret = gpu.load(&module, ptx);

	if (ret != CUDA_ERROR_INVALID_PTX) {
		FT_TRY(ft_cuda_check(ret, "cuModuleLoadData"));
		return launch(module, at, value, seconds);
	}
	FT_TRY(ft_load("libcuda.so.1", wait_symbols, FT_COUNT(wait_symbols)));
	return ft_cuda_check(gpu.wait_value(NULL, at, value, CU_STREAM_WAIT_VALUE_EQ),
			     "cuStreamWaitValue32");
}

int busygpu_runs(bool *runs)
{
	CUresult ret = gpu.stream_query(NULL);
	uint32_t end;

	*runs = ret == CUDA_ERROR_NOT_READY;
	if (*runs)
		return 0;
	FT_TRY(ft_cuda_check(ret, "cuStreamQuery"));
	FT_TRY(busygpu_from(&end, (void *) (uintptr_t) gpu.end, sizeof(end)));
	FT_CHECK(!end, "the kernel has given up: nothing came while it ran");
	return 0;
}
