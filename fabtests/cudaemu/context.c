/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Contexts: the primary one of each device, those that programs create, and the stack of
 * current contexts that every thread has.
 *
 * As seen on an H100 (driver 580), a primary context that is reset keeps its handle and how often it is
 * retained. Until it is retained once more it can be pushed, and nothing else. Then it has another id
 * (cuCtxGetId). Memory, registrations and events of before are not known any more, but a stream of before
 * makes the driver crash.
 */
#include "emu.h"

#include <stdlib.h>

#define EMU_CTX_MAGIC 0x43545821u
#define EMU_CTX_DEPTH 64
#define EMU_API_VERSION 3020

static __thread struct CUctx_st *emu_ctx_stack[EMU_CTX_DEPTH];
static __thread int emu_ctx_depth;

struct CUctx_st *emu_ctx_current(void)
{
	return emu_ctx_depth ? emu_ctx_stack[emu_ctx_depth - 1] : NULL;
}

bool emu_ctx_is_open(const struct CUctx_st *ctx)
{
	return __atomic_load_n(&ctx->magic, __ATOMIC_ACQUIRE) == EMU_CTX_MAGIC;
}

CUresult emu_ctx_check(struct CUctx_st *ctx)
{
	if (!ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	return emu_ctx_is_open(ctx) ? CUDA_SUCCESS : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

/* The error of a kernel sticks: it is the answer to all that the context is asked to do */
CUresult emu_ctx_error(const struct CUctx_st *ctx)
{
	return __atomic_load_n(&ctx->error, __ATOMIC_ACQUIRE);
}

/* Called with the lock held. What is queued is not done any more. */
void emu_ctx_fail(struct CUctx_st *ctx, CUresult error)
{
	if (!ctx->error)
		__atomic_store_n(&ctx->error, error, __ATOMIC_RELEASE);
	emu_kernels_kill(ctx);
}

struct emu_device *emu_ctx_device(void)
{
	return &emu.dev[emu_ctx_current()->dev];
}

/* Called with the lock held */
static CUresult emu_ctx_open(struct CUctx_st *ctx, CUdevice dev, unsigned int flags)
{
	CUresult rc;

	ctx->dev = dev;
	ctx->flags = flags;
	ctx->id = ++emu.next_ctx_id;
	ctx->peers = 0;
	ctx->error = CUDA_SUCCESS;
	rc = emu_stream_create(ctx, CU_STREAM_DEFAULT, 0, &ctx->legacy);
	if (rc == CUDA_SUCCESS)
		rc = emu_stream_create(ctx, CU_STREAM_DEFAULT, 0, &ctx->per_thread);
	if (rc != CUDA_SUCCESS)
		return rc;
	ctx->legacy->implicit = ctx->per_thread->implicit = true;
	__atomic_store_n(&ctx->magic, EMU_CTX_MAGIC, __ATOMIC_RELEASE);
	return CUDA_SUCCESS;
}

/* Called with the lock held. What belongs to a context goes with it. */
static void emu_ctx_close(struct CUctx_st *ctx)
{
	emu_ctx_wait(ctx);
	__atomic_store_n(&ctx->magic, 0, __ATOMIC_RELEASE);
	emu_ctx_drop_streams(ctx);
	emu_ctx_free_memory(ctx);
}

/*
 * Called with the lock held. Operations become synchronous behind those that were not: so the change
 * waits for all that the context does, and spoils what is being captured there. Only the context's own call has the
 * driver's lock meanwhile.
 */
static CUresult emu_ctx_set_flags(struct CUctx_st *ctx, unsigned int flags)
{
	CUresult rc = CUDA_SUCCESS;

	if (flags & ~ctx->flags & CU_CTX_SYNC_MEMOPS && emu_ctx_is_open(ctx)) {
		rc = emu_capture_refuse_ctx(ctx);
		emu_ctx_wait(ctx);
	}
	ctx->flags = flags & ~(unsigned int) CU_CTX_MAP_HOST;
	return rc;
}

static void emu_primary_close(struct emu_device *dev)
{
	if (emu_ctx_is_open(&dev->primary))
		emu_ctx_close(&dev->primary);
	dev->primary_flags = dev->primary.flags = 0;
}

EMU_API(cuDevicePrimaryCtxRetain, CUcontext *out, CUdevice device)
{
	struct emu_device *dev;
	CUresult rc = CUDA_SUCCESS;

	EMU_ENTER(EMU_NEED_INIT);
	dev = emu_device_get(device);
	if (!dev)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&emu.lock);
	if (!emu_ctx_is_open(&dev->primary))
		rc = emu_ctx_open(&dev->primary, device, dev->primary_flags);
	if (rc == CUDA_SUCCESS) {
		dev->primary.refs++;
		*out = &dev->primary;
	}
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

EMU_API(cuDevicePrimaryCtxRelease_v2, CUdevice device)
{
	struct emu_device *dev;
	CUresult rc = CUDA_SUCCESS;

	EMU_ENTER(EMU_NEED_INIT);
	dev = emu_device_get(device);
	if (!dev)
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&emu.lock);
	if (dev->primary.refs == 0)
		rc = CUDA_ERROR_INVALID_CONTEXT;
	else if (--dev->primary.refs == 0)
		emu_primary_close(dev);
	pthread_mutex_unlock(&emu.lock);
	return rc;
}
EMU_API_ALIAS(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2);

EMU_API(cuDevicePrimaryCtxReset_v2, CUdevice device)
{
	struct emu_device *dev;

	EMU_ENTER(EMU_NEED_INIT);
	dev = emu_device_get(device);
	if (!dev)
		return CUDA_ERROR_INVALID_DEVICE;
	pthread_mutex_lock(&emu.lock);
	emu_primary_close(dev);
	pthread_mutex_unlock(&emu.lock);
	return CUDA_SUCCESS;
}
EMU_API_ALIAS(cuDevicePrimaryCtxReset, cuDevicePrimaryCtxReset_v2);

EMU_API(cuDevicePrimaryCtxGetState, CUdevice device, unsigned int *flags, int *active)
{
	struct emu_device *dev;

	EMU_ENTER(EMU_NEED_INIT);
	dev = emu_device_get(device);
	if (!dev)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!flags || !active)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&emu.lock);
	*flags = dev->primary_flags | (dev->primary.flags & CU_CTX_SYNC_MEMOPS);
	*active = emu_ctx_is_open(&dev->primary);
	pthread_mutex_unlock(&emu.lock);
	return CUDA_SUCCESS;
}

EMU_API(cuDevicePrimaryCtxSetFlags_v2, CUdevice device, unsigned int flags)
{
	struct emu_device *dev;

	EMU_ENTER(EMU_NEED_INIT);
	dev = emu_device_get(device);
	if (!dev)
		return CUDA_ERROR_INVALID_DEVICE;
	if (flags & ~(unsigned int) CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&emu.lock);
	dev->primary_flags = flags & ~(unsigned int) CU_CTX_MAP_HOST;
	emu_ctx_set_flags(&dev->primary, flags);
	pthread_mutex_unlock(&emu.lock);
	return CUDA_SUCCESS;
}
EMU_API_ALIAS(cuDevicePrimaryCtxSetFlags, cuDevicePrimaryCtxSetFlags_v2);

static CUresult emu_ctx_push(struct CUctx_st *ctx)
{
	if (emu_ctx_depth == EMU_CTX_DEPTH)
		return CUDA_ERROR_OUT_OF_MEMORY;
	emu_ctx_stack[emu_ctx_depth++] = ctx;
	return CUDA_SUCCESS;
}

/* Created contexts are used again, so a look at an old handle is safe. */
static struct CUctx_st *emu_ctx_unused(void)
{
	struct CUctx_st *ctx;

	for (ctx = emu.contexts; ctx; ctx = ctx->next)
		if (!emu_ctx_is_open(ctx))
			return ctx;
	ctx = calloc(1, sizeof(*ctx));
	if (ctx) {
		ctx->next = emu.contexts;
		emu.contexts = ctx;
	}
	return ctx;
}

EMU_API(cuCtxCreate_v2, CUcontext *out, unsigned int flags, CUdevice device)
{
	struct CUctx_st *ctx;
	CUresult rc;

	EMU_ENTER(EMU_NEED_INIT);
	if (!emu_device_get(device))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!out || flags & ~(unsigned int) CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&emu.lock);
	ctx = emu_ctx_unused();
	rc = ctx ? emu_ctx_open(ctx, device, flags) : CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_unlock(&emu.lock);
	if (rc == CUDA_SUCCESS)
		rc = emu_ctx_push(ctx);
	if (rc == CUDA_SUCCESS)
		*out = ctx;
	return rc;
}

/* Affinity and the like do not concern an emulated device */
EMU_API(cuCtxCreate_v3, CUcontext *out, void *params, int nparams, unsigned int flags,
	CUdevice device)
{
	return cuCtxCreate_v2(out, flags, device);
}

EMU_API(cuCtxCreate_v4, CUcontext *out, void *params, unsigned int flags, CUdevice device)
{
	return cuCtxCreate_v2(out, flags, device);
}

EMU_API(cuCtxDestroy_v2, CUcontext ctx)
{
	CUresult rc;

	EMU_ENTER(EMU_NEED_INIT);
	rc = emu_ctx_check(ctx);
	if (rc != CUDA_SUCCESS || ctx->primary)
		return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&emu.lock);
	emu_ctx_close(ctx);
	pthread_mutex_unlock(&emu.lock);
	if (emu_ctx_current() == ctx)
		emu_ctx_depth--;
	return CUDA_SUCCESS;
}

EMU_API(cuCtxPushCurrent_v2, CUcontext ctx)
{
	EMU_ENTER(EMU_NEED_INIT);
	if (!ctx)
		return CUDA_ERROR_INVALID_CONTEXT;
	return emu_ctx_push(ctx);
}

EMU_API(cuCtxPopCurrent_v2, CUcontext *out)
{
	EMU_ENTER(EMU_NEED_INIT);
	if (!emu_ctx_depth)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (out)
		*out = emu_ctx_current();
	emu_ctx_depth--;
	return CUDA_SUCCESS;
}

/* Replaces the top of the stack. NULL takes it off. One that is destroyed is taken, and of no use. */
EMU_API(cuCtxSetCurrent, CUcontext ctx)
{
	EMU_ENTER(EMU_NEED_INIT);
	if (emu_ctx_depth)
		emu_ctx_depth--;
	return ctx ? emu_ctx_push(ctx) : CUDA_SUCCESS;
}

EMU_API(cuCtxGetCurrent, CUcontext *out)
{
	EMU_ENTER(EMU_NEED_INIT);
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = emu_ctx_current();
	return CUDA_SUCCESS;
}

EMU_API(cuCtxGetDevice, CUdevice *dev)
{
	EMU_ENTER(EMU_NEED_INIT);
	if (!emu_ctx_current())
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!dev)
		return CUDA_ERROR_INVALID_VALUE;
	*dev = emu_ctx_current()->dev;
	return CUDA_SUCCESS;
}

EMU_API(cuCtxGetId, CUcontext ctx, unsigned long long *id)
{
	CUresult rc;

	EMU_ENTER(EMU_NEED_INIT);
	ctx = ctx ? ctx : emu_ctx_current();
	rc = emu_ctx_check(ctx);
	if (rc == CUDA_SUCCESS)
		*id = ctx->id;
	return rc;
}

EMU_API(cuCtxGetApiVersion, CUcontext ctx, unsigned int *version)
{
	CUresult rc;

	EMU_ENTER(EMU_NEED_INIT);
	rc = emu_ctx_check(ctx ? ctx : emu_ctx_current());
	if (rc == CUDA_SUCCESS)
		*version = EMU_API_VERSION;
	return rc;
}

EMU_API(cuCtxGetFlags, unsigned int *flags)
{
	const struct CUctx_st *ctx = emu_ctx_current();

	EMU_ENTER(ctx && ctx->primary ? EMU_NEED_INIT : EMU_NEED_CTX);
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&emu.lock);
	*flags = ctx->flags;
	/* only primary contexts say so; all can */
	if (ctx->primary && emu_ctx_is_open(ctx))
		*flags |= CU_CTX_MAP_HOST;
	pthread_mutex_unlock(&emu.lock);
	return CUDA_SUCCESS;
}

EMU_API(cuCtxSetFlags, unsigned int flags)
{
	CUresult rc;

	EMU_ENTER(EMU_NEED_CTX);
	if (flags & ~(unsigned int) CU_CTX_FLAGS_MASK)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&emu.lock);
	emu_hold_pass();
	emu_hold_begin();
	rc = emu_ctx_set_flags(emu_ctx_current(), flags);
	emu_hold_end();
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

EMU_API(cuCtxSynchronize, void)
{
	CUresult rc;

	EMU_ENTER(EMU_NEED_CTX);
	pthread_mutex_lock(&emu.lock);
	rc = emu_capture_refuse_ctx(emu_ctx_current());
	if (rc == CUDA_SUCCESS)
		rc = emu_capture_unsafe();
	if (rc == CUDA_SUCCESS) {
		emu_ctx_wait(emu_ctx_current());
		rc = emu_ctx_error(emu_ctx_current());
	}
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

EMU_API(cuCtxGetStreamPriorityRange, int *least, int *greatest)
{
	EMU_ENTER(EMU_NEED_CTX);
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return CUDA_SUCCESS;
}

/* Every emulated device reaches every other one. Only the bookkeeping is emulated. */
static CUresult emu_ctx_peer(struct CUctx_st *peer, bool enable)
{
	struct CUctx_st *ctx = emu_ctx_current();
	CUresult rc = emu_ctx_check(peer);
	uint32_t bit;

	if (rc != CUDA_SUCCESS)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (peer->dev == ctx->dev)
		return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	bit = 1u << peer->dev;
	pthread_mutex_lock(&emu.lock);
	if (enable && ctx->peers & bit)
		rc = CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
	else if (!enable && !(ctx->peers & bit))
		rc = CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
	else
		ctx->peers ^= bit;
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

EMU_API(cuCtxEnablePeerAccess, CUcontext peer, unsigned int flags)
{
	EMU_ENTER(EMU_NEED_CTX);
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	return emu_ctx_peer(peer, true);
}

EMU_API(cuCtxDisablePeerAccess, CUcontext peer)
{
	EMU_ENTER(EMU_NEED_CTX);
	return emu_ctx_peer(peer, false);
}

/* Nothing but copies writes to emulated memory, so there is nothing to flush. */
EMU_API(cuFlushGPUDirectRDMAWrites, CUflushGPUDirectRDMAWritesTarget target,
	CUflushGPUDirectRDMAWritesScope scope)
{
	EMU_ENTER(EMU_NEED_CTX);
	if (target != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX ||
	    (scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER &&
	     scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES))
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

/* Nothing else decides it: an application has no say once the driver is initialised */
EMU_API(cuModuleGetLoadingMode, CUmoduleLoadingMode *mode)
{
	EMU_ENTER(EMU_NEED_INIT);
	if (!mode)
		return CUDA_ERROR_INVALID_VALUE;
	*mode = emu.conf.eager ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
	return CUDA_SUCCESS;
}
