/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The CUDA backend's queues: streams, and how their progress is learned.
 *
 * What the driver is asked for once endpoints are open and memory is registered, and why none of it
 * waits for a kernel. Seen on an H100 (driver 580), while a kernel occupied every multiprocessor,
 * in the default stream or in a blocking one. (*): not seen, but of the same kind.
 *
 * Whatever may end another thread's capture of a stream is called through a gate (cuda_enter()).
 *
 * call					when			why it does not wait
 * cuPointerGetAttributes		each buffer		reads the driver's tables
 * cuMemGetAddressRange (*)		virtual memory		the same
 * cuDeviceGetAttribute (*)		NICs, new memory	the same
 * cuCtxGetCurrent, -GetDevice (*),	around other calls,	state of the calling thread
 *	-PushCurrent, -PopCurrent,	once a thread
 *	cuThreadExchangeStreamCaptureMode (*)
 * cuCtxGetId (*)			the same, each buffer	a number of the context, in 12 ns
 * cuDevicePrimaryCtxRetain,		virtual memory, once	the context is there. If the device has none at
 *	-Release			a context		all, one is made: tens of milliseconds
 * cuPointerSetAttribute		new allocation		waits for the application's synchronous
 *								copies to it alone
 * cuDevicePrimaryCtxGetState,		the same, and new	questions
 *	cuCtxGetFlags
 * cuMemcpyAsync			each copy		in a stream of ours, which does not block
 *								(CU_STREAM_NON_BLOCKING): it follows nothing
 *								but our copies. Copy engines do it, without a
 *								multiprocessor. From ordinary memory the call
 *								reads it before it returns; to ordinary memory
 *								it returns after the copy
 * cuMemcpyBatchAsync (*),		copies together		the same
 *	cuMemcpy2DAsync (*)
 * cuLaunchKernel			libp2p-mpi only		puts the kernel into a stream of ours. It runs
 *								once a multiprocessor has room for it
 * cuStreamWriteValue32,		marks, 8 bytes		the same
 *	cuStreamBatchMemOp (*)
 * cuEventRecord, cuEventQuery		marks of old devices	the same
 * cuStreamQuery(ours)			long waits		a question
 * cuStreamSynchronize(ours)		a copy has failed	the stream holds nothing but copies
 * cuIpcGetMemHandle,			messages in a host	read or make entries of tables
 *	cuMemExportToShareableHandle,
 *	cuMemRetainAllocationHandle (*)
 * cuIpcOpenMemHandle,			memory of others	map memory for the device
 *	cuMemImportFromShareableHandle,
 *	cuMemAddressReserve, cuMemMap,
 *	cuMemSetAccess, cuMemUnmap,
 *	cuMemAddressFree, cuMemRelease
 * cuMemGetHandleForAddressRange	memory for NICs		makes an entry of a table
 * cuFlushGPUDirectRDMAWrites		memory for NICs		flushes a bus
 * cuMemHostRegister, cuStreamCreate,	the first time that	does not wait, but takes up to 36 ms: so an
 *	cuEventCreate,			a device is met		endpoint is enabled, or memory registered, or
 *	cuMemHostGetDevicePointer				the first operation posted (xfer_ready())
 *
 * What remains:
 *
 * cuModuleLoadData waits for every kernel of its context, and no copy begins meanwhile. Only libp2p-mpi calls it, within
 * calls of MPI.
 *
 * Two calls wait for every kernel of their context. cuMemHostUnregister is for closing a domain.
 * cuIpcCloseMemHandle is, too. It has one use on the data path: another process has freed memory
 * that is open here and offers other memory in its place, or has freed IPC_GONE_MOST (mem/ipc.h), or
 * more than FI_P2P_MAP_COUNT is open. Otherwise it waits until nothing has been copied from other
 * processes' memory for a second. Where kernels are known to wait for messages it has no use there. A thread of its
 * own would be no help: seen to hold up cuMemcpyAsync meanwhile.
 *
 * cuDevicePrimaryCtxSetFlags and cuCtxSetFlags wait for every kernel of their context, too, where they set
 * CU_CTX_SYNC_MEMOPS (dev_cuda_sync.c). That is when a domain or an endpoint is opened, and for new virtual memory,
 * if the flag has gone since.
 *
 * cuPointerSetAttribute waits for a kernel if the application has put a cudaMemset, or a copy from
 * device to device, of that same memory behind it in the default stream. That is in the call that
 * registers the memory, or first posts it.
 *
 * Copies by the application between the legacy default stream and pageable memory wait for what is
 * in that stream. Meanwhile they keep a lock of the driver's that cuMemcpyAsync wants, in whatever
 * context. If a kernel there waits for our copy, that is for ever. Other streams keep no lock.
 *
 * A copy between two places on one device is done by a multiprocessor. From a process that shares
 * its device with the receiver, it begins when a kernel leaves room. Nobody waits for it meanwhile.
 */
#include "config.h"
#include "dev/dev_cuda.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <rdma/fi_errno.h>

#include "base/base.h"
#include "base/log.h"
#include "base/retry.h"

/* marks that a queue without stream memory operations can have in flight */
#define CUDA_EVENTS 256

/* polls after which a waiting queue asks the driver whether the device still lives */
#define CUDA_POLLS_TO_CHECK 4096

/* Values that the device writes for less than a copy takes */
#define CUDA_PUT_VALUES 2

/**
 * struct cuda_queue - a stream, and how its progress is learned.
 * @reached:	page of memory, pinned if it can be, that the stream writes its mark number to
 * @reached_dev: the same for the device; 0: this device cannot, @events are used
 * @polls:	unsuccessful looks since the last question to the driver
 * @seen:	@reached at the last look
 * @no_put:	the driver writes no values; @put: the device has refused to write some to its own memory
 * @holds:	it keeps its context there (cuda_ctx_hold())
 */
struct cuda_queue {
	struct dev_queue base;
	CUstream stream;
	uint32_t *reached;
	CUdeviceptr reached_dev;
	unsigned int polls;
	uint32_t seen;
	bool no_put;
	bool holds;
	struct retry put;
	CUevent events[CUDA_EVENTS];
};

/*
 * Can the stream write its marks to host memory? Found out by doing it once: the device
 * attribute changed its number and its meaning between CUDA releases. That goes to another word: if
 * it cannot be waited for, it may come when there are marks.
 */
static void cuda_queue_try_memops(struct cuda_queue *queue, const struct cuda_calls *cu)
{
	volatile uint32_t *word = queue->reached + 1;
	CUdeviceptr ptr = 0;

	if (!cu->stream_write32 ||
	    cu->host_device_pointer(&ptr, queue->reached, 0) != CUDA_SUCCESS)
		return;
	if (cu->stream_write32(queue->stream, ptr + sizeof *word, 1, 0) == CUDA_SUCCESS &&
	    cu->stream_synchronize(queue->stream) == CUDA_SUCCESS && *word == 1)
		queue->reached_dev = ptr;
}

static int cuda_queue_create_events(struct cuda_queue *queue, const struct cuda_calls *cu)
{
	for (int i = 0; i < CUDA_EVENTS; i++) {
		if (cuda_check(cu->event_create(&queue->events[i], CU_EVENT_DISABLE_TIMING),
			       "cuEventCreate"))
			return -FI_EIO;
	}
	return 0;
}

static void cuda_queue_free(struct cuda_queue *queue, const struct cuda_calls *cu)
{
	for (int i = 0; i < CUDA_EVENTS && queue->events[i]; i++)
		cu->event_destroy(queue->events[i]);
	if (queue->stream)
		cu->stream_destroy(queue->stream);
	if (queue->reached) {
		cu->host_unregister(queue->reached);
		munmap(queue->reached, getpagesize());
	}
	free(queue);
}

int cuda_queue_open(const struct dev_mem *mem, bool asks, struct dev_queue **base)
{
	struct cuda_queue *queue;
	void *page;
	struct cuda_gate gate;
	bool pinned;
	int ret = cuda_enter(mem->ctx, &gate);

	if (ret)
		return ret;
	ret = -FI_ENOMEM;
	queue = calloc(1, sizeof *queue);
	if (!queue)
		goto leave;
	page = mmap(NULL, getpagesize(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		    -1, 0);
	if (page == MAP_FAILED)
		goto free_queue;
	queue->reached = page;
	pinned = !cuda_pin(mem, page, getpagesize());
	ret = cuda_check(gate.cu->stream_create(&queue->stream, CU_STREAM_NON_BLOCKING),
			 "cuStreamCreate");
	if (ret)
		goto free_queue;
	if (!asks && pinned) {
		cuda_queue_try_memops(queue, gate.cu);
		if (!queue->reached_dev)
			P2P_INFO("no stream memory operations on this device: events are "
				 "used\n");
	}
	queue->no_put = !gate.cu->stream_memops;
	if (!queue->reached_dev)
		ret = cuda_queue_create_events(queue, gate.cu);
	if (ret)
		goto free_queue;

	queue->base.ops = mem->ops;
	queue->base.ctx = mem->ctx;
	queue->base.reached = queue->reached;
	queue->holds = mem->mapped && cuda_ctx_hold(mem->ctx);
	*base = &queue->base;
	cuda_leave(&gate);
	return 0;

free_queue:
	cuda_queue_free(queue, gate.cu);
leave:
	cuda_leave(&gate);
	return ret;
}

void cuda_queue_close(struct dev_queue *base)
{
	struct cuda_queue *queue = (struct cuda_queue *) base;
	struct cuda_ctx *held = queue->holds ? base->ctx : NULL;
	struct cuda_gate gate;

	if (cuda_ctx_gone(base->ctx) || cuda_enter(base->ctx, &gate)) {
		/* the context is gone, and with it the stream */
		munmap(queue->reached, getpagesize());
		free(queue);
	} else {
		gate.cu->stream_synchronize(queue->stream);
		cuda_queue_free(queue, gate.cu);
		cuda_leave(&gate);
	}
	if (held)
		cuda_ctx_drop(held);
}

int cuda_queue_copy(struct dev_queue *base, void *dst, const void *src, size_t len)
{
	struct cuda_queue *queue = (struct cuda_queue *) base;
	struct cuda_gate gate;
	int ret = cuda_enter(base->ctx, &gate);

	if (ret)
		return ret;
	ret = cuda_check(gate.cu->copy_async((CUdeviceptr) (uintptr_t) dst,
					     (CUdeviceptr) (uintptr_t) src, len, queue->stream),
			 "cuMemcpyAsync");
	cuda_leave(&gate);
	return ret;
}

int cuda_queue_rows(struct dev_queue *base, void *dst, const void *src, size_t len, size_t rows,
		    size_t pitch)
{
	struct cuda_queue *queue = (struct cuda_queue *) base;
	const CUDA_MEMCPY2D copy = {
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.srcDevice = (CUdeviceptr) (uintptr_t) src,
		.srcPitch = pitch,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = (CUdeviceptr) (uintptr_t) dst,
		.dstPitch = pitch,
		.WidthInBytes = len,
		.Height = rows,
	};
	struct cuda_gate gate;
	int ret = cuda_enter(base->ctx, &gate);

	if (ret)
		return ret;
	ret = cuda_check(gate.cu->copy_rows(&copy, queue->stream), "cuMemcpy2DAsync");
	cuda_leave(&gate);
	return ret;
}

int cuda_queue_kernel(struct dev_queue *base, void *kernel, void **args, unsigned int blocks,
		      unsigned int threads)
{
	struct cuda_queue *queue = (struct cuda_queue *) base;
	struct cuda_gate gate;
	int ret = cuda_enter(base->ctx, &gate);

	if (ret)
		return ret;
	ret = cuda_check(gate.cu->launch(kernel, blocks, 1, 1, threads, 1, 1, 0, queue->stream,
					 args, NULL),
			 "cuLaunchKernel");
	cuda_leave(&gate);
	return ret;
}

static CUresult cuda_queue_copy_all(struct cuda_queue *queue, const struct cuda_calls *cu,
				    const struct dev_copy *copies, size_t count)
{
	CUresult result = CUDA_SUCCESS;

	for (size_t i = 0; result == CUDA_SUCCESS && i < count; i++)
		result = cu->copy_async((CUdeviceptr) (uintptr_t) copies[i].dst,
					(CUdeviceptr) (uintptr_t) copies[i].src, copies[i].len,
					queue->stream);
	return result;
}

static CUresult cuda_queue_copy_batch(struct cuda_queue *queue, const struct cuda_calls *cu,
				      const struct dev_copy *copies, size_t count)
{
	struct cuda_batch_attributes attributes = {.order = 1};
	CUdeviceptr dst[DEV_BATCH], src[DEV_BATCH];
	size_t len[DEV_BATCH], first = 0, failed;

	for (size_t i = 0; i < count; i++) {
		dst[i] = (CUdeviceptr) (uintptr_t) copies[i].dst;
		src[i] = (CUdeviceptr) (uintptr_t) copies[i].src;
		len[i] = copies[i].len;
	}
	return cu->copy_batch ? cu->copy_batch(dst, src, len, count, &attributes, &first, 1,
					       queue->stream)
			      : cu->copy_batch_12(dst, src, len, count, &attributes, &first, 1,
						  &failed, queue->stream);
}

int cuda_queue_batch(struct dev_queue *base, const struct dev_copy *copies, size_t count)
{
	struct cuda_queue *queue = (struct cuda_queue *) base;
	struct cuda_gate gate;
	bool batch;
	int ret = cuda_enter(base->ctx, &gate);

	if (ret)
		return ret;
	batch = gate.cu->copy_batch || gate.cu->copy_batch_12;
	ret = cuda_check(batch ? cuda_queue_copy_batch(queue, gate.cu, copies, count)
			       : cuda_queue_copy_all(queue, gate.cu, copies, count),
			 batch ? "cuMemcpyBatchAsync" : "cuMemcpyAsync");
	cuda_leave(&gate);
	return ret;
}

/*
 * Turns @len bytes into values for the device to write, as wide as the address allows. How many; 0: too many
 */
static unsigned int cuda_put_values(CUdeviceptr dst, const char *src, size_t len,
				    CUstreamBatchMemOpParams *ops)
{
	size_t width = (dst | len) % 8 ? 4 : 8;
	unsigned int count = 0;

	if ((dst | len) % width || len / width > CUDA_PUT_VALUES)
		return 0;
	for (; len; len -= width, dst += width, src += width, count++) {
		ops[count] = (CUstreamBatchMemOpParams){
			.writeValue = {.operation = width == 8
							    ? CU_STREAM_MEM_OP_WRITE_VALUE_64
							    : CU_STREAM_MEM_OP_WRITE_VALUE_32,
				       .address = dst}};
		memcpy(&ops[count].writeValue.value64, src, width);
	}
	return count;
}

int cuda_queue_put(struct dev_queue *base, const struct dev_copy *copies, size_t count)
{
	struct cuda_queue *queue = (struct cuda_queue *) base;
	CUstreamBatchMemOpParams ops[CUDA_PUT_VALUES * DEV_BATCH + 1];
	unsigned int values = 0, more;
	CUresult result;
	struct cuda_gate gate;

	if (!queue->reached_dev || queue->no_put || !retry_due(&queue->put))
		return -FI_ENOSYS;
	for (size_t i = 0; i < count; i++, values += more) {
		more = cuda_put_values((CUdeviceptr) (uintptr_t) copies[i].dst, copies[i].src,
				       copies[i].len, ops + values);
		if (!more)
			return -FI_ENOSYS;
	}
	if (cuda_enter(base->ctx, &gate))
		return -FI_ENOSYS;
	ops[values] = (CUstreamBatchMemOpParams){
		.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32,
			       .address = queue->reached_dev,
			       .value = base->marked + 1}};
	result = gate.cu->stream_memops(queue->stream, values + 1, ops, 0);
	cuda_leave(&gate);
	if (result == CUDA_SUCCESS) {
		base->marked++;
		return 0;
	}
	retry_failed(&queue->put);
	P2P_INFO("cuStreamBatchMemOp: %s: small messages are copied\n", cuda_strerror(result));
	return -FI_ENOSYS;
}

void cuda_queue_drain(struct dev_queue *base)
{
	struct cuda_gate gate;

	if (cuda_ctx_gone(base->ctx))
		return;
	cuda_enter(NULL, &gate);
	gate.cu->stream_synchronize(((struct cuda_queue *) base)->stream);
	cuda_leave(&gate);
}

/* Asks for the marks of a queue whose device does not write them */
static CUresult cuda_queue_ask_events(struct cuda_queue *queue)
{
	CUresult result = CUDA_SUCCESS;
	struct cuda_gate gate;

	if (*queue->reached == queue->base.marked)
		return CUDA_SUCCESS;
	cuda_enter(NULL, &gate);
	while (result == CUDA_SUCCESS && *queue->reached != queue->base.marked) {
		result = gate.cu->event_query(
			queue->events[(*queue->reached + 1) % CUDA_EVENTS]);
		if (result == CUDA_SUCCESS)
			++*queue->reached;
	}
	cuda_leave(&gate);
	return result;
}

/* Does the device of a queue live? One that has failed writes no marks, nor does a stream that is gone */
static P2P_APART CUresult cuda_queue_ask_stream(const struct cuda_queue *queue)
{
	struct cuda_gate gate;
	CUresult result;

	if (cuda_ctx_gone(queue->base.ctx))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	cuda_enter(NULL, &gate);
	result = gate.cu->stream_query(queue->stream);
	cuda_leave(&gate);
	return result;
}

int cuda_queue_poll(struct dev_queue *base)
{
	struct cuda_queue *queue = (struct cuda_queue *) base;
	CUresult result = CUDA_SUCCESS;

	if (!queue->reached_dev) {
		result = cuda_queue_ask_events(queue);
	} else if (__atomic_load_n(queue->reached, __ATOMIC_ACQUIRE) != queue->seen) {
		queue->seen = __atomic_load_n(queue->reached, __ATOMIC_ACQUIRE);
		queue->polls = 0;
	} else if (queue->seen != base->marked && ++queue->polls % CUDA_POLLS_TO_CHECK == 0) {
		result = cuda_queue_ask_stream(queue);
	}
	return result == CUDA_ERROR_NOT_READY ? 0 : cuda_check(result, "waiting for a copy");
}

int cuda_queue_mark(struct dev_queue *base)
{
	struct cuda_queue *queue = (struct cuda_queue *) base;
	uint32_t mark = base->marked + 1;
	struct cuda_gate gate;
	int ret = cuda_enter(base->ctx, &gate);

	if (ret)
		return ret;
	if (queue->reached_dev) {
		ret = cuda_check(gate.cu->stream_write32(queue->stream, queue->reached_dev,
							 mark, 0),
				 "cuStreamWriteValue32");
	} else {
		/* an event that is used again must have happened */
		while (!ret && mark - *queue->reached >= CUDA_EVENTS)
			ret = cuda_queue_poll(base);
		if (!ret)
			ret = cuda_check(gate.cu->event_record(queue->events[mark %
									     CUDA_EVENTS],
							       queue->stream),
					 "cuEventRecord");
	}
	if (!ret)
		base->marked = mark;
	cuda_leave(&gate);
	return ret;
}
