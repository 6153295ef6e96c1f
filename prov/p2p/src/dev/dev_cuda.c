/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The CUDA backend, on the driver API alone.
 *
 * The library is opened at run time and never initialised by us: as long as the
 * application has not called cuInit (or the runtime for it), no address can be CUDA
 * memory, and the driver says so quickly.
 */
#include "config.h"
#include "dev/dev_cuda.h"

#include <stdlib.h>
#include <string.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include "base/base.h"
#include "dev/dev_backends.h"
#include "dev/dev_pci.h"
#include "base/log.h"

/*
 * What belongs to no context was mapped piece by piece, or is from a pool. Of its bounds the attributes tell
 * the whole reservation's.
 */
static P2P_APART int cuda_describe_mapped(CUdeviceptr ptr, struct dev_mem *mem)
{
	CUdeviceptr base = 0;
	size_t size = 0;
	struct cuda_gate gate;
	int ret;

	mem->mapped = true;
	/* it may lie on one device, for another one alone: where it is reached counts, for copies as for NICs */
	mem->ordinal = cuda_accessor(ptr, mem->ordinal);
	mem->ctx = cuda_ctx_mapped(mem->ordinal);
	if (!mem->ctx || cuda_enter(mem->ctx, &gate))
		return -FI_EIO;
	ret = cuda_check(gate.cu->address_range(&base, &size, ptr), "cuMemGetAddressRange");
	cuda_leave(&gate);
	mem->base = base;
	mem->size = size;
	return ret ? -FI_EIO : 1;
}

/*
 * Addresses among which device memory has been seen. There, everything is asked at once: that
 * takes hardly longer than one thing. Of host memory it does, so elsewhere one thing comes
 * first.
 */
static uintptr_t cuda_seen_first = UINTPTR_MAX, cuda_seen_last;

/* Tells whether an address lies in the range where device memory has been seen. */
static bool cuda_seen(uintptr_t addr)
{
	return addr >= __atomic_load_n(&cuda_seen_first, __ATOMIC_RELAXED) &&
	       addr <= __atomic_load_n(&cuda_seen_last, __ATOMIC_RELAXED);
}

/* When threads meet here one of them may be forgotten, until the next time */
static P2P_APART void cuda_see(uintptr_t addr)
{
	if (addr < __atomic_load_n(&cuda_seen_first, __ATOMIC_RELAXED))
		__atomic_store_n(&cuda_seen_first, addr, __ATOMIC_RELAXED);
	if (addr > __atomic_load_n(&cuda_seen_last, __ATOMIC_RELAXED))
		__atomic_store_n(&cuda_seen_last, addr, __ATOMIC_RELAXED);
}

/* 1: the driver has answered. 0: it is torn down, or a child lacks its parent's cuInit(): no address is device memory */
static int cuda_answered(CUresult error, const char *call)
{
	if (p2p_likely(error == CUDA_SUCCESS))
		return 1;
	if (error == CUDA_ERROR_NOT_INITIALIZED || error == CUDA_ERROR_DEINITIALIZED)
		return 0;
	cuda_check(error, call);
	return -FI_EIO;
}

/* Asks for attributes, of which the memory's type is the first. As dev_ops.find: what the driver does not know has no type */
static int cuda_ask(CUdeviceptr ptr, const CUpointer_attribute *attributes, void **data,
		    unsigned int count)
{
	CUresult error = cuda.pointer_get(count, (CUpointer_attribute *) (uintptr_t) attributes,
					  data, ptr);
	const int ret = cuda_answered(error, "cuPointerGetAttributes");

	return ret == 1 ? *(const unsigned int *) data[0] == CU_MEMORYTYPE_DEVICE : ret;
}

/* Finds the allocation of an address: its range, device, context and id. */
static int cuda_find(const void *addr, struct dev_mem *mem)
{
	static const CUpointer_attribute attributes[] = {
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE,      CU_POINTER_ATTRIBUTE_CONTEXT,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,   CU_POINTER_ATTRIBUTE_BUFFER_ID,
		CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
	};
	CUdeviceptr ptr = (CUdeviceptr) (uintptr_t) addr, base = 0;
	unsigned int type = 0;
	CUcontext ctx = NULL;
	int ordinal = -1;
	unsigned long long id = 0;
	size_t size = 0;
	void *data[] = {&type, &ctx, &ordinal, &id, &base, &size};
	struct dev_mem found;
	int ret;

	if (!cuda_seen(ptr)) {
		ret = cuda_ask(ptr, attributes, data, 1);
		if (ret <= 0)
			return ret;
		cuda_see(ptr);
	}
	ret = cuda_ask(ptr, attributes, data, sizeof data / sizeof data[0]);
	if (ret <= 0)
		return ret;
	found = (struct dev_mem){
		.ops = &dev_cuda_ops,
		.ctx = ctx ? cuda_ctx_of(ctx) : NULL,
		.ordinal = ordinal,
		.base = base,
		.size = size,
		.id = id,
	};
	if (p2p_unlikely(!ctx))
		ret = cuda_describe_mapped(ptr, &found);
	if (!found.ctx)
		return -FI_EIO;
	if (ret == 1)
		*mem = found;
	return ret;
}

/* The application may be unmapping that memory: of all questions, no crash is known of this one (probe_unmap.c) */
static int cuda_identify(const void *addr, uint64_t *id)
{
	unsigned long long number = 0;
	CUresult error = cuda.pointer_get_one(&number, CU_POINTER_ATTRIBUTE_BUFFER_ID,
					      (CUdeviceptr) (uintptr_t) addr);

	*id = number;
	return error == CUDA_ERROR_INVALID_VALUE
		       ? 0
		       : cuda_answered(error, "cuPointerGetAttribute");
}

static bool cuda_hosts(const void *addr)
{
	CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
	unsigned int type = 0;
	void *data = &type;

	return !cuda.pointer_get(1, &attribute, &data, (CUdeviceptr) (uintptr_t) addr) &&
	       type == CU_MEMORYTYPE_HOST;
}

static int cuda_current(struct dev_mem *mem)
{
	CUcontext handle = NULL;
	struct cuda_ctx *ctx;

	if (cuda.ctx_get_current(&handle) == CUDA_ERROR_NOT_PERMITTED)
		return -FI_EPERM;
	ctx = handle ? cuda_ctx_of(handle) : NULL;
	if (!ctx || cuda_ctx_ordinal(ctx) < 0)
		return 0;
	*mem = (struct dev_mem){.ops = &dev_cuda_ops,
				.ctx = ctx,
				.ordinal = cuda_ctx_ordinal(ctx)};
	return 1;
}

static int cuda_device(int ordinal, struct dev_mem *mem)
{
	int count = 0;
	struct cuda_ctx *ctx;

	/* the application has initialised the driver, or there is nothing for it to use */
	if (cuda.device_count(&count) != CUDA_SUCCESS || ordinal < 0 || ordinal >= count)
		return -FI_ENODEV;
	ctx = cuda_ctx_retain(ordinal);
	if (!ctx)
		return -FI_EIO;
	*mem = (struct dev_mem){.ops = &dev_cuda_ops, .ctx = ctx, .ordinal = ordinal};
	return 0;
}

static int cuda_attribute(const struct dev_mem *mem, CUdevice_attribute attribute)
{
	int value = 0;

	return cuda.device_get(&value, attribute, mem->ordinal) == CUDA_SUCCESS ? value : 0;
}

static int cuda_node(const struct dev_mem *mem)
{
	return dev_pci_node(cuda_attribute(mem, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
			    cuda_attribute(mem, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID),
			    cuda_attribute(mem, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID));
}

static void cuda_unpin(void *addr)
{
	struct cuda_gate gate;

	/* at exit the driver may be gone already: nothing is lost then */
	cuda_enter(NULL, &gate);
	gate.cu->host_unregister(addr);
	cuda_leave(&gate);
}

/* ---- for NICs ---- */

static int cuda_expose(const struct dev_mem *mem, uintptr_t addr, size_t len, int *fd,
		       uint64_t *offset, const char **why)
{
	CUresult error = CUDA_ERROR_NOT_SUPPORTED;
	struct cuda_gate gate;
	int ret = -FI_ENOSYS;

	if (cuda_enter(mem->ctx, &gate)) {
		*why = "its context cannot be entered";
		return -FI_EIO;
	}
	if (!gate.cu->range_handle) {
		*why = "the driver is older than dma-bufs (CUDA 11.7)";
	} else if (!cuda_attribute(mem, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED)) {
		*why = "the device exports no dma-buf (the open kernel modules and Linux 5.12 "
		       "or later do)";
	} else {
		error = gate.cu->range_handle(fd, addr, len,
					      CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
		*why = "the driver exports no dma-buf of this memory (managed memory, or virtual "
		       "memory made without gpuDirectRDMACapable)";
		ret = -FI_EOPNOTSUPP;
	}
	cuda_leave(&gate);
	if (error != CUDA_SUCCESS)
		return ret;
	*offset = 0;
	return 0;
}

static int cuda_flush(const struct dev_mem *mem)
{
	struct cuda_gate gate;
	int ret;

	if (cuda_attribute(mem, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING) >=
	    CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER)
		return 0;
	ret = cuda_enter(mem->ctx, &gate);
	if (ret)
		return ret;
	if (gate.cu->flush_writes)
		ret = cuda_check(gate.cu->flush_writes(
					 CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
					 CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER),
				 "cuFlushGPUDirectRDMAWrites");
	cuda_leave(&gate);
	return ret;
}

/* ---- for other processes ---- */

_Static_assert(sizeof(CUipcMemHandle) == DEV_IPC_HANDLE, "a handle is what others open it by");

static int cuda_ipc_export(const struct dev_mem *mem, void *handle, const char **why)
{
	CUresult error = CUDA_ERROR_NOT_SUPPORTED;
	struct cuda_gate gate;
	int ret = -FI_ENOSYS;

	*why = "its context cannot be entered";
	if (cuda_enter(mem->ctx, &gate))
		return -FI_EIO;
	*why = "the driver shares no memory between processes";
	if (gate.cu->ipc_get) {
		error = gate.cu->ipc_get(handle, mem->base);
		*why = "the driver gives no CUDA IPC handle of this memory (managed memory, or "
		       "another process's)";
		ret = -FI_EOPNOTSUPP;
	}
	cuda_leave(&gate);
	if (error != CUDA_SUCCESS)
		return ret;
	*why = NULL;
	return 0;
}

static int cuda_ipc_open(const struct dev_mem *mem, const void *handle, void **addr,
			 const char **why)
{
	CUipcMemHandle opaque;
	CUdeviceptr ptr = 0;
	CUresult error = CUDA_ERROR_NOT_SUPPORTED;
	struct cuda_gate gate;
	int ret = -FI_ENOSYS;

	*why = "its context cannot be entered";
	if (cuda_enter(mem->ctx, &gate))
		return -FI_EIO;
	*why = "the driver shares no memory between processes";
	if (gate.cu->ipc_open && gate.cu->ipc_close) {
		memcpy(&opaque, handle, sizeof opaque);
		error = gate.cu->ipc_open(&ptr, opaque, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
		*why = cuda_strerror(error);
		ret = -FI_EOPNOTSUPP;
	}
	cuda_leave(&gate);
	if (error != CUDA_SUCCESS)
		return ret;
	*addr = (void *) (uintptr_t) ptr;
	return 0;
}

static void cuda_ipc_close(void *ctx, void *addr)
{
	struct cuda_gate gate;

	/* with the context it is gone, too */
	if (cuda_ctx_gone(ctx) || cuda_enter(ctx, &gate))
		return;
	gate.cu->ipc_close((CUdeviceptr) (uintptr_t) addr);
	cuda_leave(&gate);
}

static const char *const cuda_modules[] = {"nvidia_peermem", "nv_peer_mem", NULL};

const struct dev_ops dev_cuda_ops = {
	.name = "cuda",
	.iface = FI_HMEM_CUDA,
	.libdir = CUDA_LIBDIR,
	.soname = CUDA_SONAME,
	.ordered = true,
	.words = true,
	.batches = true,
	.modules = cuda_modules,
	.load = cuda_load,
	.init = cuda_init,
	.find = cuda_find,
	.identify = cuda_identify,
	.hosts = cuda_hosts,
	.current = cuda_current,
	.gone = cuda_ctx_gone,
	.sync = cuda_sync,
	.settle = cuda_settle,
	.copy_short = cuda_copy_short,
	.node = cuda_node,
	.pin = cuda_pin,
	.unpin = cuda_unpin,
	.queue_open = cuda_queue_open,
	.queue_close = cuda_queue_close,
	.queue_copy = cuda_queue_copy,
	.queue_rows = cuda_queue_rows,
	.queue_batch = cuda_queue_batch,
	.queue_put = cuda_queue_put,
	.queue_mark = cuda_queue_mark,
	.queue_poll = cuda_queue_poll,
	.queue_drain = cuda_queue_drain,
	.expose = cuda_expose,
	.flush = cuda_flush,
	.ipc_export = cuda_ipc_export,
	.ipc_open = cuda_ipc_open,
	.ipc_close = cuda_ipc_close,
	.ipc_share = cuda_ipc_share,
	.ipc_attach = cuda_ipc_attach,
	.ipc_detach = cuda_ipc_detach,
	.device = cuda_device,
	.device_close = cuda_ctx_drop,
	.host_address = cuda_host_address,
	.alloc = cuda_alloc,
	.store = cuda_store,
	.free = cuda_free,
	.window_open = cuda_window_open,
	.window_close = cuda_window_close,
	.stream_steps = cuda_stream_steps,
	.stream_copy = cuda_stream_copy,
	.loads_late = cuda_loads_late,
	.kernel_load = cuda_kernel_load,
	.queue_kernel = cuda_queue_kernel,
	.stream_captured = cuda_stream_captured,
	.graph_keep = cuda_graph_keep,
};
