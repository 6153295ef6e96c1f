/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The CUDA backend's choice of contexts, for memory that belongs to none: virtual memory, and pools. Any context of the
 * device will do. One that the application does not have costs it hundreds of megabytes of device memory, so
 * the choice falls on one that is there:
 *
 *	1. the primary one, if it is active;
 *	2. the calling thread's current one;
 *	3. another one that we have seen;
 *	4. the primary one, which we retain for good. The application is told.
 *
 * All such memory of a device has the same one, in all threads, until that is gone. Then there is a new choice.
 *
 * A primary context that others retain may be theirs for a moment only. So queues in it hold it until they are
 * closed. One that the application has created is its own to destroy: what is under way there fails.
 *
 * Drivers before CUDA 12 do not tell when a context is gone: they leave the first choice, for good, or the last.
 */
#include "config.h"
#include "dev/dev_cuda.h"

#include "base/base.h"
#include "base/log.h"
#include "base/process.h"

#define CUDA_DEVICES_MAX 64

/* Those retained for good, those found active, and those chosen for memory of no context, by ordinal */
static struct cuda_ctx *cuda_retained[CUDA_DEVICES_MAX];
static struct cuda_ctx *cuda_found[CUDA_DEVICES_MAX];
static struct cuda_ctx *cuda_chosen[CUDA_DEVICES_MAX];

static bool cuda_ctx_usable(const struct cuda_ctx *ctx)
{
	return ctx && !cuda_ctx_gone(ctx);
}

static bool cuda_primary_active(const struct cuda_calls *cu, int ordinal)
{
	unsigned int flags;
	int active = 0;

	return cu->primary_ctx_get(ordinal, &flags, &active) == CUDA_SUCCESS && active;
}

static struct cuda_ctx *cuda_primary_retain(const struct cuda_calls *cu, int ordinal)
{
	CUcontext handle;

	return cuda_check(cu->primary_ctx_retain(&handle, ordinal), "cuDevicePrimaryCtxRetain")
		       ? NULL
		       : cuda_ctx_of(handle);
}

struct cuda_ctx *cuda_ctx_retain(int ordinal)
{
	struct cuda_gate gate;
	struct cuda_ctx *ctx;

	cuda_enter(NULL, &gate);
	ctx = cuda_primary_retain(gate.cu, ordinal);
	cuda_leave(&gate);
	return ctx;
}

static struct cuda_ctx *cuda_ctx_primary(int ordinal)
{
	struct cuda_ctx *ctx;

	process_lock(PROCESS_CONTEXTS);
	ctx = cuda_retained[ordinal];
	/* who resets it may retain it no more, and have virtual memory all the same */
	if (!cuda_ctx_usable(ctx)) {
		ctx = cuda_ctx_retain(ordinal);
		cuda_retained[ordinal] = ctx;
	}
	process_unlock(PROCESS_CONTEXTS);
	return ctx;
}

/* The primary one if it is active, and it stays as it is: only who retains it learns its handle */
static struct cuda_ctx *cuda_primary_find(int ordinal)
{
	struct cuda_ctx *ctx = NULL;
	struct cuda_gate gate;

	cuda_enter(NULL, &gate);
	if (cuda_primary_active(gate.cu, ordinal)) {
		ctx = cuda_primary_retain(gate.cu, ordinal);
		if (ctx)
			gate.cu->primary_ctx_release(ordinal);
	}
	cuda_leave(&gate);
	__atomic_store_n(&cuda_found[ordinal], ctx, __ATOMIC_RELAXED);
	return ctx;
}

static void cuda_ctx_tell(int ordinal)
{
	static bool told;
	struct cuda_gate gate;
	bool active;

	cuda_enter(NULL, &gate);
	active = cuda_primary_active(gate.cu, ordinal);
	cuda_leave(&gate);
	if (!active && !__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
		P2P_WARN("virtual memory, or a pool's, of device %d, where no context has been "
			 "seen: the primary one is made, and stays\n",
			 ordinal);
}

static struct cuda_ctx *cuda_ctx_choose(int ordinal)
{
	struct cuda_ctx *ctx = NULL;

	if (cuda.ctx_get_id) {
		ctx = cuda_primary_find(ordinal);
		if (!ctx)
			ctx = cuda_ctx_current();
		if (!ctx || cuda_ctx_ordinal(ctx) != ordinal)
			ctx = cuda_ctx_known(ordinal);
	}
	if (ctx)
		return ctx;
	cuda_ctx_tell(ordinal);
	return cuda_ctx_primary(ordinal);
}

/* Threads that meet here may choose differently, once: the last choice stays */
struct cuda_ctx *cuda_ctx_mapped(int ordinal)
{
	struct cuda_ctx *ctx;

	if (ordinal < 0 || ordinal >= CUDA_DEVICES_MAX)
		return NULL;
	ctx = __atomic_load_n(&cuda_chosen[ordinal], __ATOMIC_ACQUIRE);
	if (p2p_unlikely(!cuda_ctx_usable(ctx))) {
		ctx = cuda_ctx_choose(ordinal);
		__atomic_store_n(&cuda_chosen[ordinal], ctx, __ATOMIC_RELEASE);
	}
	return ctx;
}

bool cuda_ctx_hold(const struct cuda_ctx *ctx)
{
	const int ordinal = cuda_ctx_ordinal(ctx);

	if (ordinal < 0 || ordinal >= CUDA_DEVICES_MAX ||
	    __atomic_load_n(&cuda_found[ordinal], __ATOMIC_RELAXED) != ctx)
		return false;
	return cuda_ctx_retain(ordinal);
}

void cuda_ctx_drop(void *ctx)
{
	struct cuda_gate gate;

	/* at exit the driver may be gone already */
	cuda_enter(NULL, &gate);
	gate.cu->primary_ctx_release(cuda_ctx_ordinal(ctx));
	cuda_leave(&gate);
}
