/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Copies of the application that return before their last bytes are on the device for any other stream than their
 * own: cuMemcpy and its like from pageable memory. Seen on an H200 (driver 580): 64 KiB are late nearly
 * always, 32 KiB and 1 MiB often, below 16 KiB hardly ever; managed memory never.
 *
 * Memory that belongs to a context has the attribute SYNC_MEMOPS. With it such copies wait, and to set it waits for
 * those that have not ended, not for kernels.
 *
 * Virtual memory refuses it. A pool's memory takes it, and copies are late all the same. For these the context
 * in which the copy is made has to have the flag CU_CTX_SYNC_MEMOPS. Who sets it waits for all that is under
 * way in that context, kernels included: so what was copied before is there, too, but a kernel that waits for us
 * would wait for ever. So the flag is set when a domain or an endpoint is opened, in the primary
 * contexts of all devices, also in those that are not there yet, and in the current one. Later it is missing only
 * where a context is new, was reset, or the application has set other flags. It is never set by a thread of ours: there
 * the application waits for us without knowing.
 *
 * What remains: a context that is not a primary one, and was never current where we were called.
 */
#include "config.h"
#include "dev/dev_cuda.h"

#include <rdma/fi_errno.h>

#include "base/base.h"
#include "base/conf.h"
#include "base/log.h"
#include "base/thread.h"

/* CU_CTX_SYNC_MEMOPS: headers before CUDA 12.1 have none */
#define CUDA_CTX_SYNC 0x80u

static const char cuda_sync_old[] = "the driver is older than CUDA 12.1";
static const char cuda_sync_ours[] = "a peer, a kernel or a stream was the first to name it";

/*
 * All these return why a context lacks the flag; NULL: it has it. To set flags replaces those that there are, and drivers
 * before CUDA 12.1 refuse this one.
 */

static const char *cuda_sync_primary(const struct cuda_calls *cu, CUdevice device)
{
	unsigned int flags = 0;
	int active;

	if (cu->primary_ctx_get(device, &flags, &active) != CUDA_SUCCESS ||
	    flags & CUDA_CTX_SYNC)
		return NULL;
	if (thread_is_ours())
		return active ? cuda_sync_ours : NULL;
	return cu->primary_ctx_set(device, flags | CUDA_CTX_SYNC) == CUDA_SUCCESS
		       ? NULL
		       : cuda_sync_old;
}

static const char *cuda_sync_current(const struct cuda_calls *cu)
{
	unsigned int flags = 0;

	/* there is none, or the driver is gone */
	if (cu->ctx_get_flags(&flags) != CUDA_SUCCESS || flags & CUDA_CTX_SYNC)
		return NULL;
	if (thread_is_ours())
		return cuda_sync_ours;
	return cu->ctx_set_flags && cu->ctx_set_flags(flags | CUDA_CTX_SYNC) == CUDA_SUCCESS
		       ? NULL
		       : cuda_sync_old;
}

static const char *cuda_sync_all(void)
{
	const char *why = NULL, *found;
	struct cuda_gate gate;
	int count = 0;

	/* before cuInit() there are none; to set the flag waits for kernels, which the other option rules out */
	if (!conf.sync_memops || conf.cuda_api == CONF_API_ASYNC ||
	    cuda.device_count(&count) != CUDA_SUCCESS)
		return NULL;
	cuda_enter(NULL, &gate);
	for (CUdevice device = 0; device < count; device++) {
		found = cuda_sync_primary(gate.cu, device);
		why = found ? found : why;
	}
	found = cuda_sync_current(gate.cu);
	cuda_leave(&gate);
	return found ? found : why;
}

void cuda_sync(void)
{
	/* virtual memory may be met in a thread that has no context: then this one is known */
	cuda_ctx_current();
	/* who has memory that needs it is told when that is seen */
	cuda_sync_all();
}

/* Does the memory obey its attribute? */
static bool cuda_sync_memory(const struct dev_mem *mem)
{
	unsigned int on = 1;
	struct cuda_gate gate;
	bool takes;

	if (mem->mapped || cuda_enter(mem->ctx, &gate))
		return false;
	takes = gate.cu->pointer_set(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, mem->base) ==
		CUDA_SUCCESS;
	cuda_leave(&gate);
	return takes;
}

bool cuda_settle(const struct dev_mem *mem)
{
	static bool told;
	const char *why = cuda_sync_memory(mem) ? NULL : cuda_sync_all();

	if (why && !__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
		P2P_WARN("memory at 0x%zx (virtual memory, or a pool's): what the application "
			 "copies there may come late to messages, unless it synchronises after "
			 "each copy: %s\n",
			 (size_t) mem->base, why);
	return why != cuda_sync_ours;
}
