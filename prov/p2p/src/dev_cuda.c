/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rank 1: the CUDA backend, on the driver API alone.
 *
 * The library is opened at run time and never initialised by us: as long as the
 * application has not called cuInit (or the runtime for it), no address can be CUDA
 * memory, and the driver says so quickly.
 */
#include "dev_backends.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <rdma/fi_errno.h>

#include "config.h"
#if HAVE_CUDA_H
#include <cuda.h>
#else
#include "p2p_cuda_abi.h"
#endif
#include "base.h"
#include "dl.h"
#include "log.h"

#ifndef CUDA_LIBDIR
#define CUDA_LIBDIR NULL
#endif

/* marks that a queue without stream memory operations can have in flight */
#define CUDA_EVENTS 256

/* polls after which a waiting queue asks the driver whether the device still lives */
#define CUDA_POLLS_TO_CHECK 4096

#define CUDA_DEVICES_MAX 64

/* What is used of the driver. The symbols' versions are those of CUDA 11 and later. */
static struct {
	CUresult (*get_error_name)(CUresult error, const char **name);
	CUresult (*ctx_get_current)(CUcontext *ctx);
	CUresult (*ctx_push)(CUcontext ctx);
	CUresult (*ctx_pop)(CUcontext *ctx);
	CUresult (*primary_ctx_retain)(CUcontext *ctx, CUdevice dev);
	CUresult (*pointer_get)(unsigned int count, CUpointer_attribute *attributes,
				void **data, CUdeviceptr ptr);
	CUresult (*pointer_set)(const void *value, CUpointer_attribute attribute,
				CUdeviceptr ptr);
	CUresult (*address_range)(CUdeviceptr *base, size_t *size, CUdeviceptr ptr);
	CUresult (*copy)(CUdeviceptr dst, CUdeviceptr src, size_t len);
	CUresult (*copy_async)(CUdeviceptr dst, CUdeviceptr src, size_t len, CUstream);
	CUresult (*host_register)(void *addr, size_t len, unsigned int flags);
	CUresult (*host_unregister)(void *addr);
	CUresult (*host_device_pointer)(CUdeviceptr *ptr, void *addr, unsigned int flags);
	CUresult (*stream_create)(CUstream *stream, unsigned int flags);
	CUresult (*stream_destroy)(CUstream stream);
	CUresult (*stream_query)(CUstream stream);
	CUresult (*stream_synchronize)(CUstream stream);
	CUresult (*stream_write32)(CUstream stream, CUdeviceptr ptr, uint32_t value,
				   unsigned int flags);
	CUresult (*event_create)(CUevent *event, unsigned int flags);
	CUresult (*event_destroy)(CUevent event);
	CUresult (*event_record)(CUevent event, CUstream stream);
	CUresult (*event_query)(CUevent event);
	CUresult (*device_get)(int *value, CUdevice_attribute attribute, CUdevice dev);
	CUresult (*range_handle)(void *handle, CUdeviceptr ptr, size_t size,
				 CUmemRangeHandleType type, unsigned long long flags);
	CUresult (*flush_writes)(CUflushGPUDirectRDMAWritesTarget target,
				 CUflushGPUDirectRDMAWritesScope scope);
	CUresult (*ipc_get)(CUipcMemHandle *handle, CUdeviceptr ptr);
	CUresult (*ipc_open)(CUdeviceptr *ptr, CUipcMemHandle handle, unsigned int flags);
	CUresult (*ipc_close)(CUdeviceptr ptr);
} cuda;

#define CUDA_SYMBOL(field, name, older, optional)                                        \
	{                                                                                \
		name, older, (void **) &cuda.field, optional                             \
	}

static const struct dl_symbol cuda_symbols[] = {
	CUDA_SYMBOL(get_error_name, "cuGetErrorName", NULL, 0),
	CUDA_SYMBOL(ctx_get_current, "cuCtxGetCurrent", NULL, 0),
	CUDA_SYMBOL(ctx_push, "cuCtxPushCurrent_v2", NULL, 0),
	CUDA_SYMBOL(ctx_pop, "cuCtxPopCurrent_v2", NULL, 0),
	CUDA_SYMBOL(primary_ctx_retain, "cuDevicePrimaryCtxRetain", NULL, 0),
	CUDA_SYMBOL(pointer_get, "cuPointerGetAttributes", NULL, 0),
	CUDA_SYMBOL(pointer_set, "cuPointerSetAttribute", NULL, 0),
	CUDA_SYMBOL(address_range, "cuMemGetAddressRange_v2", NULL, 0),
	CUDA_SYMBOL(copy, "cuMemcpy", NULL, 0),
	CUDA_SYMBOL(copy_async, "cuMemcpyAsync", NULL, 0),
	CUDA_SYMBOL(host_register, "cuMemHostRegister_v2", "cuMemHostRegister", 0),
	CUDA_SYMBOL(host_unregister, "cuMemHostUnregister", NULL, 0),
	CUDA_SYMBOL(host_device_pointer, "cuMemHostGetDevicePointer_v2", NULL, 0),
	CUDA_SYMBOL(stream_create, "cuStreamCreate", NULL, 0),
	CUDA_SYMBOL(stream_destroy, "cuStreamDestroy_v2", NULL, 0),
	CUDA_SYMBOL(stream_query, "cuStreamQuery", NULL, 0),
	CUDA_SYMBOL(stream_synchronize, "cuStreamSynchronize", NULL, 0),
	CUDA_SYMBOL(stream_write32, "cuStreamWriteValue32_v2", "cuStreamWriteValue32", 1),
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
};

/**
 * struct cuda_queue - a stream, and how its progress is learned.
 * @reached:	page of pinned memory that the stream writes its mark number to
 * @reached_dev: the same for the device; 0: this device cannot, @events are used
 * @polls:	unsuccessful looks since the last question to the driver
 * @seen:	@reached at the last look
 */
struct cuda_queue {
	struct dev_queue base;
	CUstream stream;
	uint32_t *reached;
	CUdeviceptr reached_dev;
	unsigned int polls;
	uint32_t seen;
	CUevent events[CUDA_EVENTS];
};

static const char *cuda_strerror(CUresult error)
{
	const char *name = NULL;

	cuda.get_error_name(error, &name);
	return name ? name : "unknown CUDA error";
}

/* Translates a driver's error; the one place where it is logged. */
static int cuda_check(CUresult error, const char *call)
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

/* Makes @ctx current; *@pushed tells cuda_leave() whether that took anything. */
static int cuda_enter(void *ctx, bool *pushed)
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

static void cuda_leave(bool pushed)
{
	CUcontext ctx;

	if (pushed)
		cuda.ctx_pop(&ctx);
}

static int cuda_load(void)
{
	return dl_open(CUDA_LIBDIR, "libcuda.so.1", cuda_symbols,
		       sizeof cuda_symbols / sizeof cuda_symbols[0])
		       ? 0
		       : -FI_ENOSYS;
}

/* Memory of no particular context (VMM, pools) is worked on from the primary one. */
static CUcontext cuda_primary_ctx(int ordinal)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static CUcontext retained[CUDA_DEVICES_MAX];
	CUcontext ctx = NULL;

	if (ordinal < 0 || ordinal >= CUDA_DEVICES_MAX)
		return NULL;
	pthread_mutex_lock(&lock);
	if (!retained[ordinal])
		cuda_check(cuda.primary_ctx_retain(&retained[ordinal], ordinal),
			   "cuDevicePrimaryCtxRetain");
	ctx = retained[ordinal];
	pthread_mutex_unlock(&lock);
	return ctx;
}

/* What there is to know of device memory */
static P2P_APART bool cuda_describe(CUdeviceptr ptr, struct dev_mem *mem)
{
	CUdeviceptr base = 0;
	CUcontext ctx = NULL;
	int ordinal = -1;
	unsigned long long id = 0;
	CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_CONTEXT,
					    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
					    CU_POINTER_ATTRIBUTE_BUFFER_ID};
	void *data[] = {&ctx, &ordinal, &id};
	size_t size = 0;
	bool pushed, mapped;

	if (cuda_check(cuda.pointer_get(3, attributes, data, ptr),
		       "cuPointerGetAttributes"))
		return false;
	/* no allocation of cuMemAlloc's: mapped piece by piece, or from a pool */
	mapped = !ctx;
	if (!ctx)
		ctx = cuda_primary_ctx(ordinal);
	if (!ctx || cuda_enter(ctx, &pushed))
		return false;
	cuda_check(cuda.address_range(&base, &size, ptr), "cuMemGetAddressRange");
	cuda_leave(pushed);

	*mem = (struct dev_mem){
		.ops = &dev_cuda_ops,
		.ctx = ctx,
		.ordinal = ordinal,
		.base = base,
		.size = size,
		.id = id,
		.mapped = mapped,
	};
	return true;
}

static bool cuda_find(const void *addr, struct dev_mem *mem)
{
	CUdeviceptr ptr = (CUdeviceptr) (uintptr_t) addr;
	CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
	unsigned int type = 0;
	void *data = &type;

	return cuda.pointer_get(1, &attribute, &data, ptr) == CUDA_SUCCESS &&
	       type == CU_MEMORYTYPE_DEVICE && cuda_describe(ptr, mem);
}

/*
 * A cuMemcpy from pageable memory may return before the data is on the device for any
 * other stream than the default one. So: from now on such copies shall wait, and those
 * made before now are waited for.
 */
static void cuda_settle(const struct dev_mem *mem)
{
	unsigned int on = 1;
	bool pushed;

	if (cuda_enter(mem->ctx, &pushed))
		return;
	if (cuda.pointer_set(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, mem->base) !=
	    CUDA_SUCCESS)
		P2P_INFO("memory at 0x%zx cannot be made synchronous (virtual memory "
			 "management or a pool): the application must synchronise "
			 "its copies itself\n",
			 (size_t) mem->base);
	cuda_check(cuda.stream_synchronize(CU_STREAM_LEGACY), "cuStreamSynchronize");
	cuda_leave(pushed);
}

static int cuda_copy(const struct dev_mem *mem, void *dst, const void *src, size_t len)
{
	bool pushed;
	int ret;

	ret = cuda_enter(mem->ctx, &pushed);
	if (ret)
		return ret;
	ret = cuda_check(cuda.copy((CUdeviceptr) (uintptr_t) dst,
				   (CUdeviceptr) (uintptr_t) src, len),
			 "cuMemcpy");
	cuda_leave(pushed);
	return ret;
}

static int cuda_pin(const struct dev_mem *mem, void *addr, size_t len)
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

static void cuda_unpin(void *addr)
{
	/* at exit the driver may be gone already: nothing is lost then */
	cuda.host_unregister(addr);
}

/*
 * Can the stream write its marks to host memory? Found out by doing it once: the device
 * attribute changed its number and its meaning between CUDA releases.
 */
static void cuda_queue_try_memops(struct cuda_queue *queue)
{
	CUdeviceptr ptr = 0;

	if (!cuda.stream_write32 ||
	    cuda.host_device_pointer(&ptr, queue->reached, 0) != CUDA_SUCCESS)
		return;
	if (cuda.stream_write32(queue->stream, ptr, 1, 0) == CUDA_SUCCESS &&
	    cuda.stream_synchronize(queue->stream) == CUDA_SUCCESS &&
	    *(volatile uint32_t *) queue->reached == 1)
		queue->reached_dev = ptr;
	*(volatile uint32_t *) queue->reached = 0;
}

static int cuda_queue_create_events(struct cuda_queue *queue)
{
	P2P_INFO("no stream memory operations on this device: events are used\n");
	for (int i = 0; i < CUDA_EVENTS; i++) {
		if (cuda_check(cuda.event_create(&queue->events[i],
						 CU_EVENT_DISABLE_TIMING),
			       "cuEventCreate"))
			return -FI_EIO;
	}
	return 0;
}

static void cuda_queue_free(struct cuda_queue *queue)
{
	for (int i = 0; i < CUDA_EVENTS && queue->events[i]; i++)
		cuda.event_destroy(queue->events[i]);
	if (queue->stream)
		cuda.stream_destroy(queue->stream);
	if (queue->reached) {
		cuda.host_unregister(queue->reached);
		munmap(queue->reached, getpagesize());
	}
	free(queue);
}

static int cuda_queue_open(const struct dev_mem *mem, struct dev_queue **base)
{
	struct cuda_queue *queue;
	void *page;
	bool pushed;
	int ret;

	ret = cuda_enter(mem->ctx, &pushed);
	if (ret)
		return ret;
	ret = -FI_ENOMEM;
	queue = calloc(1, sizeof *queue);
	if (!queue)
		goto leave;
	page = mmap(NULL, getpagesize(), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED)
		goto free_queue;
	queue->reached = page;
	ret = cuda_pin(mem, page, getpagesize());
	if (!ret)
		ret = cuda_check(cuda.stream_create(&queue->stream, CU_STREAM_NON_BLOCKING),
				 "cuStreamCreate");
	if (ret)
		goto free_queue;
	cuda_queue_try_memops(queue);
	if (!queue->reached_dev)
		ret = cuda_queue_create_events(queue);
	if (ret)
		goto free_queue;

	queue->base.ops = &dev_cuda_ops;
	queue->base.ctx = mem->ctx;
	queue->base.reached = queue->reached;
	*base = &queue->base;
	cuda_leave(pushed);
	return 0;

free_queue:
	cuda_queue_free(queue);
leave:
	cuda_leave(pushed);
	return ret;
}

static void cuda_queue_close(struct dev_queue *base)
{
	struct cuda_queue *queue = (struct cuda_queue *) base;
	bool pushed;

	if (cuda_enter(base->ctx, &pushed)) {
		/* the context is gone, and with it the stream */
		munmap(queue->reached, getpagesize());
		free(queue);
		return;
	}
	cuda.stream_synchronize(queue->stream);
	cuda_queue_free(queue);
	cuda_leave(pushed);
}

static int cuda_queue_copy(struct dev_queue *base, void *dst, const void *src, size_t len)
{
	struct cuda_queue *queue = (struct cuda_queue *) base;
	bool pushed;
	int ret;

	ret = cuda_enter(base->ctx, &pushed);
	if (ret)
		return ret;
	ret = cuda_check(cuda.copy_async((CUdeviceptr) (uintptr_t) dst,
					 (CUdeviceptr) (uintptr_t) src, len, queue->stream),
			 "cuMemcpyAsync");
	cuda_leave(pushed);
	return ret;
}

static void cuda_queue_drain(struct dev_queue *base)
{
	cuda.stream_synchronize(((struct cuda_queue *) base)->stream);
}

static int cuda_queue_poll(struct dev_queue *base)
{
	struct cuda_queue *queue = (struct cuda_queue *) base;
	CUresult result = CUDA_SUCCESS;

	if (!queue->reached_dev) {
		while (*queue->reached != base->marked) {
			result = cuda.event_query(
				queue->events[(*queue->reached + 1) % CUDA_EVENTS]);
			if (result != CUDA_SUCCESS)
				break;
			++*queue->reached;
		}
	} else if (__atomic_load_n(queue->reached, __ATOMIC_ACQUIRE) != queue->seen) {
		queue->seen = __atomic_load_n(queue->reached, __ATOMIC_ACQUIRE);
		queue->polls = 0;
	} else if (queue->seen != base->marked &&
		   ++queue->polls % CUDA_POLLS_TO_CHECK == 0) {
		/* a failed device writes no marks */
		result = cuda.stream_query(queue->stream);
	}
	return result == CUDA_ERROR_NOT_READY ? 0 : cuda_check(result, "waiting for a copy");
}

static int cuda_queue_mark(struct dev_queue *base)
{
	struct cuda_queue *queue = (struct cuda_queue *) base;
	uint32_t mark = base->marked + 1;
	bool pushed;
	int ret;

	ret = cuda_enter(base->ctx, &pushed);
	if (ret)
		return ret;
	if (queue->reached_dev) {
		ret = cuda_check(cuda.stream_write32(queue->stream, queue->reached_dev,
						     mark, 0),
				 "cuStreamWriteValue32");
	} else {
		/* an event that is used again must have happened */
		while (!ret && mark - *queue->reached >= CUDA_EVENTS)
			ret = cuda_queue_poll(base);
		if (!ret)
			ret = cuda_check(cuda.event_record(queue->events[mark % CUDA_EVENTS],
							   queue->stream),
					 "cuEventRecord");
	}
	if (!ret)
		base->marked = mark;
	cuda_leave(pushed);
	return ret;
}

/* ---- for NICs ---- */

static int cuda_attribute(const struct dev_mem *mem, CUdevice_attribute attribute)
{
	int value = 0;

	return cuda.device_get(&value, attribute, mem->ordinal) == CUDA_SUCCESS ? value : 0;
}

static int cuda_expose(const struct dev_mem *mem, uintptr_t addr, size_t len, int *fd,
		       uint64_t *offset, const char **why)
{
	CUresult error;
	bool pushed;

	if (!cuda.range_handle) {
		*why = "the driver is older than dma-bufs (CUDA 11.7)";
		return -FI_ENOSYS;
	}
	if (!cuda_attribute(mem, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED)) {
		*why = "the device exports no dma-buf (the open kernel modules and Linux 5.12 "
		       "or later do)";
		return -FI_ENOSYS;
	}
	if (cuda_enter(mem->ctx, &pushed)) {
		*why = "its context cannot be entered";
		return -FI_EIO;
	}
	error = cuda.range_handle(fd, addr, len, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
	cuda_leave(pushed);
	if (error == CUDA_SUCCESS) {
		*offset = 0;
		return 0;
	}
	*why = "the driver exports no dma-buf of this memory (managed memory, or virtual memory "
	       "made without gpuDirectRDMACapable)";
	return -FI_EOPNOTSUPP;
}

static int cuda_flush(const struct dev_mem *mem)
{
	bool pushed;
	int ret;

	if (!cuda.flush_writes ||
	    cuda_attribute(mem, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING) >=
		    CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER)
		return 0;
	ret = cuda_enter(mem->ctx, &pushed);
	if (ret)
		return ret;
	ret = cuda_check(cuda.flush_writes(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
					   CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER),
			 "cuFlushGPUDirectRDMAWrites");
	cuda_leave(pushed);
	return ret;
}

/* ---- for other processes ---- */

_Static_assert(sizeof(CUipcMemHandle) == DEV_IPC_HANDLE, "a handle is what others open it by");

static int cuda_ipc_export(const struct dev_mem *mem, void *handle, const char **why)
{
	CUresult error;
	bool pushed;

	*why = "the driver shares no memory between processes";
	if (!cuda.ipc_get)
		return -FI_ENOSYS;
	*why = "virtual memory, or memory of a pool, has no CUDA IPC handle";
	if (mem->mapped)
		return -FI_EOPNOTSUPP;
	*why = "its context cannot be entered";
	if (cuda_enter(mem->ctx, &pushed))
		return -FI_EIO;
	error = cuda.ipc_get(handle, mem->base);
	cuda_leave(pushed);
	*why = error == CUDA_SUCCESS
		       ? NULL
		       : "the driver gives no CUDA IPC handle of this memory (managed memory, or "
			 "another process's)";
	return *why ? -FI_EOPNOTSUPP : 0;
}

static int cuda_ipc_open(const struct dev_mem *mem, const void *handle, void **addr,
			 const char **why)
{
	CUipcMemHandle opaque;
	CUdeviceptr ptr = 0;
	CUresult error;
	bool pushed;

	*why = "the driver shares no memory between processes";
	if (!cuda.ipc_open || !cuda.ipc_close)
		return -FI_ENOSYS;
	*why = "its context cannot be entered";
	if (cuda_enter(mem->ctx, &pushed))
		return -FI_EIO;
	memcpy(&opaque, handle, sizeof opaque);
	error = cuda.ipc_open(&ptr, opaque, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	cuda_leave(pushed);
	if (error == CUDA_SUCCESS) {
		*addr = (void *) (uintptr_t) ptr;
		return 0;
	}
	*why = cuda_strerror(error);
	return -FI_EOPNOTSUPP;
}

static void cuda_ipc_close(void *ctx, void *addr)
{
	bool pushed;

	/* with the context it is gone, too */
	if (cuda_enter(ctx, &pushed))
		return;
	cuda.ipc_close((CUdeviceptr) (uintptr_t) addr);
	cuda_leave(pushed);
}

static const char *const cuda_modules[] = {"nvidia_peermem", "nv_peer_mem", NULL};

const struct dev_ops dev_cuda_ops = {
	.name = "cuda",
	.load = cuda_load,
	.find = cuda_find,
	.settle = cuda_settle,
	.copy = cuda_copy,
	.pin = cuda_pin,
	.unpin = cuda_unpin,
	.queue_open = cuda_queue_open,
	.queue_close = cuda_queue_close,
	.queue_copy = cuda_queue_copy,
	.queue_mark = cuda_queue_mark,
	.queue_poll = cuda_queue_poll,
	.queue_drain = cuda_queue_drain,
	.modules = cuda_modules,
	.expose = cuda_expose,
	.flush = cuda_flush,
	.ipc_export = cuda_ipc_export,
	.ipc_open = cuda_ipc_open,
	.ipc_close = cuda_ipc_close,
};
