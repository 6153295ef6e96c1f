/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Kinds of CUDA memory. See cudamem.h. */
#include "cudamem.h"

#include <stdlib.h>

#include "dev/p2p_cuda_abi.h"

static struct {
	bool ready;
	CUdevice device, other; /* the one in use, and another one; or there is one only */
	size_t granularity;
	int rdma; /* NICs may have virtual memory */
	CUstream stream;
	CUresult (*ctx_device)(CUdevice *dev);
	CUresult (*device_count)(int *count);
	CUresult (*device_attribute)(int *value, CUdevice_attribute attr, CUdevice dev);
	CUresult (*primary_retain)(CUcontext *ctx, CUdevice dev);
	CUresult (*ctx_push)(CUcontext ctx);
	CUresult (*ctx_pop)(CUcontext *ctx);
	CUresult (*alloc)(CUdeviceptr *ptr, size_t size);
	CUresult (*free)(CUdeviceptr ptr);
	CUresult (*alloc_managed)(CUdeviceptr *ptr, size_t size, unsigned int flags);
	CUresult (*alloc_async)(CUdeviceptr *ptr, size_t size, CUstream stream);
	CUresult (*free_async)(CUdeviceptr ptr, CUstream stream);
	CUresult (*stream_create)(CUstream *stream, unsigned int flags);
	CUresult (*stream_sync)(CUstream stream);
	CUresult (*granularity_get)(size_t *size, const CUmemAllocationProp *prop,
				    CUmemAllocationGranularity_flags option);
	CUresult (*reserve)(CUdeviceptr *ptr, size_t size, size_t align, CUdeviceptr hint,
			    unsigned long long flags);
	CUresult (*create)(CUmemGenericAllocationHandle *handle, size_t size,
			   const CUmemAllocationProp *prop, unsigned long long flags);
	CUresult (*release)(CUmemGenericAllocationHandle handle);
	CUresult (*map)(CUdeviceptr ptr, size_t size, size_t offset,
			CUmemGenericAllocationHandle handle, unsigned long long flags);
	CUresult (*unmap)(CUdeviceptr ptr, size_t size);
	CUresult (*set_access)(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc,
			       size_t count);
} cuda;

static const struct ft_symbol symbols[] = {
	{"cuCtxGetDevice", &cuda.ctx_device},
	{"cuDeviceGetCount", &cuda.device_count},
	{"cuDeviceGetAttribute", &cuda.device_attribute},
	{"cuDevicePrimaryCtxRetain", &cuda.primary_retain},
	{"cuCtxPushCurrent_v2", &cuda.ctx_push},
	{"cuCtxPopCurrent_v2", &cuda.ctx_pop},
	{"cuMemAlloc_v2", &cuda.alloc},
	{"cuMemFree_v2", &cuda.free},
	{"cuMemAllocManaged", &cuda.alloc_managed},
	{"cuMemAllocAsync", &cuda.alloc_async},
	{"cuMemFreeAsync", &cuda.free_async},
	{"cuStreamCreate", &cuda.stream_create},
	{"cuStreamSynchronize", &cuda.stream_sync},
	{"cuMemGetAllocationGranularity", &cuda.granularity_get},
	{"cuMemAddressReserve", &cuda.reserve},
	{"cuMemCreate", &cuda.create},
	{"cuMemRelease", &cuda.release},
	{"cuMemMap", &cuda.map},
	{"cuMemUnmap", &cuda.unmap},
	{"cuMemSetAccess", &cuda.set_access},
};

/* Memory of @device; @rdma: for NICs; @shared: for other processes */
static CUmemAllocationProp properties(CUdevice device, bool rdma, bool shared)
{
	return (CUmemAllocationProp){
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
		.allocFlags.gpuDirectRDMACapable = rdma,
		.requestedHandleTypes = shared ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0,
	};
}

static int init(int device)
{
	CUmemAllocationProp prop;
	int count;

	FT_TRY(ft_cuda_ops.init(device));
	if (cuda.ready)
		return 0;
	FT_TRY(ft_load("libcuda.so.1", symbols, FT_COUNT(symbols)));
	FT_TRY(ft_cuda_check(cuda.ctx_device(&cuda.device), "cuCtxGetDevice"));
	FT_TRY(ft_cuda_check(cuda.device_count(&count), "cuDeviceGetCount"));
	cuda.other = (cuda.device + 1) % count;
	FT_TRY(ft_cuda_check(
		cuda.device_attribute(
			&cuda.rdma, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
			cuda.device),
		"cuDeviceGetAttribute"));
	prop = properties(cuda.device, cuda.rdma, false);
	FT_TRY(ft_cuda_check(cuda.granularity_get(&cuda.granularity, &prop,
						  CU_MEM_ALLOC_GRANULARITY_MINIMUM),
			     "cuMemGetAllocationGranularity"));
	FT_TRY(ft_cuda_check(cuda.stream_create(&cuda.stream, CU_STREAM_NON_BLOCKING),
			     "cuStreamCreate"));
	cuda.ready = true;
	return 0;
}

/* ---- virtual memory ---- */

/**
 * struct range - reserved addresses, kept for the next allocation of the same size
 * @used:	handed out, at @addr
 */
struct range {
	CUdeviceptr base;
	size_t size;
	bool used;
	void *addr;
	struct range *next;
};

static struct range *ranges;

static int range_get(size_t size, struct range **out)
{
	struct range *range = ranges;

	while (range && (range->used || range->size != size))
		range = range->next;
	if (!range) {
		range = calloc(1, sizeof(*range));
		if (!range)
			return ft_fail(-FI_ENOMEM, "calloc", "address range");
		range->size = size;
		if (ft_cuda_check(cuda.reserve(&range->base, size, 0, 0, 0),
				  "cuMemAddressReserve")) {
			free(range);
			return -FI_ENOMEM;
		}
		range->next = ranges;
		ranges = range;
	}
	*out = range;
	return 0;
}

/* New physical memory at @ptr, which nothing but the mapping holds */
static int map_piece(CUdeviceptr ptr, size_t size, const CUmemAllocationProp *prop)
{
	CUmemGenericAllocationHandle handle;
	int ret;

	FT_TRY(ft_cuda_check(cuda.create(&handle, size, prop, 0), "cuMemCreate"));
	ret = ft_cuda_check(cuda.map(ptr, size, 0, handle, 0), "cuMemMap");
	FT_TRY(ft_cuda_check(cuda.release(handle), "cuMemRelease"));
	return ret;
}

/* The device in use may access it, whichever it lies on */
static int vmm_alloc_of(const CUmemAllocationProp *prop, size_t size, size_t pieces,
			void **addr)
{
	const size_t piece =
		(size + cuda.granularity - 1) / cuda.granularity * cuda.granularity;
	const CUmemAccessDesc access = {
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = cuda.device},
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	struct range *range = NULL;

	FT_TRY(range_get(pieces * piece, &range));
	for (size_t i = 0; i < pieces; i++)
		FT_TRY(map_piece(range->base + i * piece, piece, prop));
	FT_TRY(ft_cuda_check(cuda.set_access(range->base, range->size, &access, 1),
			     "cuMemSetAccess"));
	range->used = true;
	range->addr = (void *) (uintptr_t) (range->base + (pieces > 1 ? piece - size / 2 : 0));
	*addr = range->addr;
	return 0;
}

static int vmm_alloc(size_t size, size_t pieces, bool rdma, bool shared, void **addr)
{
	const CUmemAllocationProp prop = properties(cuda.device, rdma, shared);

	return vmm_alloc_of(&prop, size, pieces, addr);
}

static int vmm_alloc_far(size_t size, void **addr)
{
	const CUmemAllocationProp prop = properties(cuda.other, false, false);

	return vmm_alloc_of(&prop, size, 1, addr);
}

static int vmm_alloc_rdma(size_t size, void **addr)
{
	return vmm_alloc(size, 1, cuda.rdma, false, addr);
}

static int vmm_alloc_plain(size_t size, void **addr)
{
	return vmm_alloc(size, 1, false, false, addr);
}

static int vmm_alloc_two(size_t size, void **addr)
{
	return vmm_alloc(size, 2, cuda.rdma, false, addr);
}

static int vmm_alloc_shared(size_t size, void **addr)
{
	return vmm_alloc(size, 1, false, true, addr);
}

static int vmm_alloc_shared_two(size_t size, void **addr)
{
	return vmm_alloc(size, 2, false, true, addr);
}

static void vmm_release(void *addr)
{
	struct range *range = ranges;

	while (range->addr != addr || !range->used)
		range = range->next;
	ft_cuda_check(cuda.unmap(range->base, range->size), "cuMemUnmap");
	range->used = false;
}

/* ---- the others ---- */

static int pool_alloc(size_t size, void **addr)
{
	CUdeviceptr ptr;

	FT_TRY(ft_cuda_check(cuda.alloc_async(&ptr, size, cuda.stream), "cuMemAllocAsync"));
	*addr = (void *) (uintptr_t) ptr;
	return ft_cuda_check(cuda.stream_sync(cuda.stream), "cuStreamSynchronize");
}

static void pool_release(void *addr)
{
	ft_cuda_check(cuda.free_async((CUdeviceptr) (uintptr_t) addr, cuda.stream),
		      "cuMemFreeAsync");
	ft_cuda_check(cuda.stream_sync(cuda.stream), "cuStreamSynchronize");
}

static int managed_alloc(size_t size, void **addr)
{
	CUdeviceptr ptr;

	FT_TRY(ft_cuda_check(cuda.alloc_managed(&ptr, size, CU_MEM_ATTACH_GLOBAL),
			     "cuMemAllocManaged"));
	*addr = (void *) (uintptr_t) ptr;
	return 0;
}

/* The other device's primary context stays as long as this process */
static int far_alloc(size_t size, void **addr)
{
	CUdeviceptr ptr = 0;
	CUcontext ctx;
	int ret;

	FT_TRY(ft_cuda_check(cuda.primary_retain(&ctx, cuda.other),
			     "cuDevicePrimaryCtxRetain"));
	FT_TRY(ft_cuda_check(cuda.ctx_push(ctx), "cuCtxPushCurrent"));
	ret = ft_cuda_check(cuda.alloc(&ptr, size), "cuMemAlloc");
	FT_TRY(ft_cuda_check(cuda.ctx_pop(&ctx), "cuCtxPopCurrent"));
	*addr = (void *) (uintptr_t) ptr;
	return ret;
}

static void plain_release(void *addr)
{
	ft_cuda_check(cuda.free((CUdeviceptr) (uintptr_t) addr), "cuMemFree");
}

static int copy_to(void *dst, const void *src, size_t len)
{
	return ft_cuda_ops.to(dst, src, len);
}

static int copy_from(void *dst, const void *src, size_t len)
{
	return ft_cuda_ops.from(dst, src, len);
}

#define KIND(text, alloc_fn, release_fn)                                                       \
	{                                                                                      \
		.name = text, .iface = FI_HMEM_CUDA, .init = init, .alloc = alloc_fn,          \
		.release = release_fn, .to = copy_to, .from = copy_from,                       \
	}

const struct ft_mem_ops cudamem_vmm = KIND("virtual", vmm_alloc_rdma, vmm_release);
const struct ft_mem_ops cudamem_vmm_plain =
	KIND("virtual, not for NICs", vmm_alloc_plain, vmm_release);
const struct ft_mem_ops cudamem_vmm_two =
	KIND("virtual, in two pieces", vmm_alloc_two, vmm_release);
const struct ft_mem_ops cudamem_vmm_shared =
	KIND("virtual, for other processes", vmm_alloc_shared, vmm_release);
const struct ft_mem_ops cudamem_vmm_shared_two =
	KIND("virtual, for other processes, in two pieces", vmm_alloc_shared_two, vmm_release);
const struct ft_mem_ops cudamem_vmm_far =
	KIND("virtual, of another device", vmm_alloc_far, vmm_release);
const struct ft_mem_ops cudamem_pool = KIND("pool", pool_alloc, pool_release);
const struct ft_mem_ops cudamem_managed = KIND("managed", managed_alloc, plain_release);
const struct ft_mem_ops cudamem_far = KIND("another device's", far_alloc, plain_release);

int cudamem_exported(const struct ft_mem_ops *ops, bool *exported)
{
	const bool virtual = ops == &cudamem_vmm || ops == &cudamem_vmm_two;
	int value = 0;

	FT_TRY(ft_cuda_check(cuda.device_attribute(&value,
						   CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED,
						   cuda.device),
			     "cuDeviceGetAttribute"));
	*exported = value && (ops == &ft_cuda_ops || (virtual && cuda.rdma));
	return 0;
}

bool cudamem_many(void)
{
	return cuda.other != cuda.device;
}
