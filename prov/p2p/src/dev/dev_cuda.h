/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the parts of the CUDA backend share. dev_cuda_lib.c is the driver, and dev_cuda_ctx.c chooses
 * contexts. The parts dev_cuda_gdr.c, dev_cuda_queue.c, dev_cuda_stream.c, dev_cuda_sync.c and dev_cuda_vmm.c call nothing
 * but these two, and dev_cuda.c calls them all.
 */
#ifndef P2P_DEV_CUDA_H
#define P2P_DEV_CUDA_H

/* config.h comes first, where it says so */
#if HAVE_CUDA_H
#include <cuda.h>
#else
#include "dev/p2p_cuda_abi.h"
#endif
#include "dev/dev.h"

/* Where configure was told that the library is */
#ifndef CUDA_LIBDIR
#define CUDA_LIBDIR NULL
#endif

#define CUDA_SONAME "libcuda.so.1"

/* CUmemcpyAttributes: headers before CUDA 12.8 have none */
struct cuda_batch_attributes {
	int order; /* when the sources are read: 1, in the order of the stream */
	int src[2];
	int dst[2];
	unsigned int flags;
};

/*
 * Questions that the driver answers at any time, also while a thread captures a stream: whoever asks needs no
 * gate. The symbols' versions, here and below, are those of CUDA 11 and later.
 */
struct cuda_questions {
	CUresult (*get_error_name)(CUresult error, const char **name);
	CUresult (*device_count)(int *count);
	CUresult (*device_get)(int *value, CUdevice_attribute attribute, CUdevice dev);
	CUresult (*ctx_get_current)(CUcontext *ctx);
	CUresult (*ctx_get_device)(CUdevice *dev);
	CUresult (*ctx_get_id)(CUcontext ctx, unsigned long long *id);
	CUresult (*loading_mode)(unsigned int *mode);
	CUresult (*pointer_get)(unsigned int count, CUpointer_attribute *attributes,
				void **data, CUdeviceptr ptr);
	CUresult (*pointer_get_one)(void *data, CUpointer_attribute attribute, CUdeviceptr ptr);
};

extern struct cuda_questions cuda;

/* All other calls. There is no way to them but a gate (cuda_enter()). */
struct cuda_calls {
	CUresult (*init)(unsigned int flags);
	CUresult (*capture_mode)(unsigned int *mode);
	CUresult (*ctx_push)(CUcontext ctx);
	CUresult (*ctx_pop)(CUcontext *ctx);
	CUresult (*primary_ctx_retain)(CUcontext *ctx, CUdevice dev);
	CUresult (*primary_ctx_release)(CUdevice dev);
	CUresult (*primary_ctx_get)(CUdevice dev, unsigned int *flags, int *active);
	CUresult (*primary_ctx_set)(CUdevice dev, unsigned int flags);
	CUresult (*ctx_get_flags)(unsigned int *flags);
	CUresult (*ctx_set_flags)(unsigned int flags);
	CUresult (*pointer_set)(const void *value, CUpointer_attribute attribute,
				CUdeviceptr ptr);
	CUresult (*address_range)(CUdeviceptr *base, size_t *size, CUdeviceptr ptr);
	CUresult (*mem_alloc)(CUdeviceptr *ptr, size_t len);
	CUresult (*mem_free)(CUdeviceptr ptr);
	CUresult (*copy_async)(CUdeviceptr dst, CUdeviceptr src, size_t len, CUstream);
	CUresult (*copy_rows)(const CUDA_MEMCPY2D *copy, CUstream stream);
	CUresult (*copy_batch)(CUdeviceptr *dst, CUdeviceptr *src, size_t *len, size_t count,
			       struct cuda_batch_attributes *attributes, size_t *first,
			       size_t kinds, CUstream stream);
	CUresult (*copy_batch_12)(CUdeviceptr *dst, CUdeviceptr *src, size_t *len, size_t count,
				  struct cuda_batch_attributes *attributes, size_t *first,
				  size_t kinds, size_t *failed, CUstream stream);
	CUresult (*host_register)(void *addr, size_t len, unsigned int flags);
	CUresult (*host_unregister)(void *addr);
	CUresult (*host_device_pointer)(CUdeviceptr *ptr, void *addr, unsigned int flags);
	CUresult (*stream_create)(CUstream *stream, unsigned int flags);
	CUresult (*stream_destroy)(CUstream stream);
	CUresult (*stream_query)(CUstream stream);
	CUresult (*stream_synchronize)(CUstream stream);
	CUresult (*stream_write32)(CUstream stream, CUdeviceptr ptr, uint32_t value,
				   unsigned int flags);
	CUresult (*module_load)(CUmodule *module, const void *image);
	CUresult (*module_function)(CUfunction *function, CUmodule module, const char *name);
	CUresult (*launch)(CUfunction function, unsigned int grid_x, unsigned int grid_y,
			   unsigned int grid_z, unsigned int block_x, unsigned int block_y,
			   unsigned int block_z, unsigned int shared, CUstream stream,
			   void **args, void **extra);
	/* an enum, CUgraph, and lists that nobody asks for */
	CUresult (*stream_capture)(CUstream stream, int *status, cuuint64_t *id, void **graph,
				   const void **nodes, size_t *count);
	CUresult (*user_object)(void **object, void *arg, void (*end)(void *arg),
				unsigned int refs, unsigned int flags);
	CUresult (*graph_retain)(void *graph, void *object, unsigned int refs,
				 unsigned int flags);
	CUresult (*stream_memops)(CUstream stream, unsigned int count,
				  CUstreamBatchMemOpParams *ops, unsigned int flags);
	CUresult (*event_create)(CUevent *event, unsigned int flags);
	CUresult (*event_destroy)(CUevent event);
	CUresult (*event_record)(CUevent event, CUstream stream);
	CUresult (*event_query)(CUevent event);
	CUresult (*range_handle)(void *handle, CUdeviceptr ptr, size_t size,
				 CUmemRangeHandleType type, unsigned long long flags);
	CUresult (*flush_writes)(CUflushGPUDirectRDMAWritesTarget target,
				 CUflushGPUDirectRDMAWritesScope scope);
	CUresult (*ipc_get)(CUipcMemHandle *handle, CUdeviceptr ptr);
	CUresult (*ipc_open)(CUdeviceptr *ptr, CUipcMemHandle handle, unsigned int flags);
	CUresult (*ipc_close)(CUdeviceptr ptr);
	CUresult (*handle_retain)(CUmemGenericAllocationHandle *handle, void *addr);
	CUresult (*handle_export)(void *shareable, CUmemGenericAllocationHandle handle,
				  CUmemAllocationHandleType type, unsigned long long flags);
	CUresult (*handle_import)(CUmemGenericAllocationHandle *handle, void *shareable,
				  CUmemAllocationHandleType type);
	CUresult (*handle_map)(CUdeviceptr ptr, size_t size, size_t offset,
			       CUmemGenericAllocationHandle handle, unsigned long long flags);
	CUresult (*handle_release)(CUmemGenericAllocationHandle handle);
	CUresult (*address_reserve)(CUdeviceptr *ptr, size_t size, size_t align,
				    CUdeviceptr hint, unsigned long long flags);
	CUresult (*address_free)(CUdeviceptr ptr, size_t size);
	CUresult (*unmap)(CUdeviceptr ptr, size_t size);
	CUresult (*set_access)(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc,
			       size_t count);
	CUresult (*get_access)(unsigned long long *flags, const CUmemLocation *location,
			       CUdeviceptr ptr);
};

const char *cuda_strerror(CUresult error);

/* Translates a driver's error; the one place where it is logged. */
int cuda_check(CUresult error, const char *call);

/*
 * Returns our record of a context, for struct dev_mem.ctx. A primary one that was reset is another one, though
 * its handle is the same. So what was opened in the first is found to be gone: to touch a stream of it makes
 * the driver crash. NULL: no memory, or @handle is of none
 */
struct cuda_ctx *cuda_ctx_of(CUcontext handle);

/* Tells whether a context is gone. Drivers before CUDA 12 cannot tell, and then it is not */
bool cuda_ctx_gone(const void *ctx);

/* The calling thread's; NULL: it has none */
struct cuda_ctx *cuda_ctx_current(void);

/* The device that it is of; negative: that is not known */
int cuda_ctx_ordinal(const struct cuda_ctx *ctx);

/* One of the device's that is not gone, of those that we have seen; NULL: there is none */
struct cuda_ctx *cuda_ctx_known(int ordinal);

/* dev_cuda_ctx.c. The primary context of a device, there until cuda_ctx_drop(). NULL: it cannot be had, which is logged */
struct cuda_ctx *cuda_ctx_retain(int ordinal);

/* The context in which memory of the device that belongs to none is worked on. NULL: as above */
struct cuda_ctx *cuda_ctx_mapped(int ordinal);

/* Keeps @ctx there while it is used for such memory, if it is a primary one that we found. Is it? */
bool cuda_ctx_hold(const struct cuda_ctx *ctx);
void cuda_ctx_drop(void *ctx);

/**
 * struct cuda_gate - the way to the driver's calls, from cuda_enter() to cuda_leave().
 * @cu:	the calls
 * @relaxed:	the thread's capture mode is relaxed, and was @mode before
 * @pushed:	another context was current
 */
struct cuda_gate {
	const struct cuda_calls *cu;
	bool relaxed;
	unsigned int mode;
	bool pushed;
};

/*
 * Makes @ctx current for the driver's calls. It also allows this thread all calls while a thread captures a
 * stream: else most of them fail, and end that capture. cuda_leave() undoes both. Gates may be nested. @ctx
 * may be NULL: calls that need no context, or get it from a stream. That does not fail.
 */
int cuda_enter(void *ctx, struct cuda_gate *gate);
/* Gives the thread its context and its capture mode back, after the calls within a gate. */
void cuda_leave(const struct cuda_gate *gate);

/* What struct dev_ops has of these names */
int cuda_load(void);
int cuda_init(void);
void cuda_sync(void);
bool cuda_settle(const struct dev_mem *mem);
int cuda_pin(const struct dev_mem *mem, void *addr, size_t len);
int cuda_copy_short(const struct dev_mem *mem, void *dst, const void *src, size_t len);
int cuda_queue_open(const struct dev_mem *mem, bool asks, struct dev_queue **base);
void cuda_queue_close(struct dev_queue *base);
/* Puts one copy into the queue's stream. */
int cuda_queue_copy(struct dev_queue *base, void *dst, const void *src, size_t len);
int cuda_queue_rows(struct dev_queue *base, void *dst, const void *src, size_t len, size_t rows,
		    size_t pitch);
int cuda_queue_batch(struct dev_queue *base, const struct dev_copy *copies, size_t count);
/* Has the stream write a few bytes and the mark in one call, which is cheaper than a copy. */
int cuda_queue_put(struct dev_queue *base, const struct dev_copy *copies, size_t count);
/* Has the device write the next mark when all copies before it have ended. */
int cuda_queue_mark(struct dev_queue *base);
/* Takes in how far the device has come, and now and then asks whether it has failed. */
int cuda_queue_poll(struct dev_queue *base);
void cuda_queue_drain(struct dev_queue *base);
/* Which device's contexts reach virtual memory of @ordinal at @ptr: that one's, if they do. Threads: any */
int cuda_accessor(CUdeviceptr ptr, int ordinal);
int cuda_ipc_share(const struct dev_mem *mem, int *fd, const char **why);
int cuda_ipc_attach(const struct dev_mem *mem, int fd, size_t size, void **addr,
		    const char **why);
void cuda_ipc_detach(void *addr, size_t size);

int cuda_host_address(const struct dev_mem *mem, void *host, void **addr);
int cuda_alloc(const struct dev_mem *mem, size_t len, void **addr);
int cuda_store(const struct dev_mem *mem, void *addr, const void *from, size_t len);
void cuda_free(const struct dev_mem *mem, void *addr);
int cuda_window_open(const struct dev_mem *mem, size_t len, struct dev_window *window);
void cuda_window_close(const struct dev_mem *mem, struct dev_window *window);
int cuda_stream_copy(const struct dev_mem *mem, void *stream, const struct dev_copy *copy);
int cuda_stream_steps(const struct dev_mem *mem, void *stream, const struct dev_step *steps,
		      size_t count);
const char *cuda_loads_late(void);
int cuda_kernel_load(const struct dev_mem *mem, const char *text, const char *name,
		     void **kernel);
int cuda_queue_kernel(struct dev_queue *base, void *kernel, void **args, unsigned int blocks,
		      unsigned int threads);
int cuda_stream_captured(void *stream, uint64_t *id, void **graph);
int cuda_graph_keep(void *graph, void (*end)(void *arg), void *arg);

#endif /* P2P_DEV_CUDA_H */
