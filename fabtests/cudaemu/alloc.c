/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Allocation entry points: device, managed, pinned and registered memory. */
#include "emu.h"

#include <stdlib.h>

/* Creates memory of a kind that belongs to the current context */
static CUresult emu_alloc_for_ctx(enum emu_kind kind, size_t size, unsigned int flags,
				  int sync_memops, uint64_t *out)
{
	struct CUctx_st *ctx = emu_ctx_current();
	struct emu_alloc *alloc;
	CUresult rc;

	pthread_mutex_lock(&emu.lock);
	emu_hold_pass();
	rc = emu_alloc_create(kind, ctx->dev, size, &alloc);
	if (rc == CUDA_SUCCESS) {
		alloc->ctx = ctx;
		alloc->flags = flags;
		alloc->sync_memops = sync_memops;
		*out = alloc->base;
	}
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

EMU_API(cuMemAlloc_v2, CUdeviceptr *out, size_t size)
{
	uint64_t base;
	CUresult rc;

	EMU_ENTER_UNSAFE(EMU_NEED_CTX);
	if (!out || !size)
		return CUDA_ERROR_INVALID_VALUE;
	rc = emu_alloc_for_ctx(EMU_DEVICE, size, 0, 0, &base);
	if (rc == CUDA_SUCCESS)
		*out = base;
	return rc;
}

EMU_API(cuMemAllocPitch_v2, CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
	unsigned int element)
{
	EMU_ENTER(EMU_NEED_CTX);
	if (!pitch || !width || !height)
		return CUDA_ERROR_INVALID_VALUE;
	*pitch = EMU_ROUND_UP(width, 512);
	return cuMemAlloc_v2(out, *pitch * height);
}

EMU_API(cuMemAllocManaged, CUdeviceptr *out, size_t size, unsigned int flags)
{
	uint64_t base;
	CUresult rc;

	EMU_ENTER_UNSAFE(EMU_NEED_CTX);
	if (!out || !size || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
		return CUDA_ERROR_INVALID_VALUE;
	rc = emu_alloc_for_ctx(EMU_MANAGED, size, flags, 1, &base);
	if (rc == CUDA_SUCCESS)
		*out = base;
	return rc;
}

/* Memory that starts at base and is of a kind in the mask. Called with the lock held. */
static struct emu_alloc *emu_alloc_at(uint64_t base, unsigned int kinds)
{
	struct emu_alloc *alloc = emu_alloc_find(base);

	if (!alloc || alloc->base != base || !(kinds & 1u << alloc->kind))
		return NULL;
	return alloc;
}

/* A free waits for what the device is doing. So a program that frees too early waits, too. */
static CUresult emu_free(uint64_t base, unsigned int kinds)
{
	CUresult rc = CUDA_ERROR_INVALID_VALUE;
	struct emu_alloc *alloc;

	pthread_mutex_lock(&emu.lock);
	emu_hold_begin();
	alloc = emu_alloc_at(base, kinds);
	if (alloc) {
		emu_device_wait(alloc->dev);
		/* the wait let go of the lock: another thread may have freed the memory */
		alloc = emu_alloc_at(base, kinds);
	}
	if (alloc)
		rc = alloc->ctx ? emu_ctx_error(alloc->ctx) : CUDA_SUCCESS;
	if (rc == CUDA_SUCCESS)
		emu_alloc_destroy(alloc);
	emu_hold_end();
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

EMU_API(cuMemFree_v2, CUdeviceptr ptr)
{
	EMU_ENTER_UNSAFE(EMU_NEED_INIT);
	if (!ptr)
		return CUDA_SUCCESS;
	if (emu_ctx_current() && emu_ctx_check(emu_ctx_current()) != CUDA_SUCCESS)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	return emu_free(ptr, 1u << EMU_DEVICE | 1u << EMU_MANAGED | 1u << EMU_POOL);
}

EMU_API(cuMemGetInfo_v2, size_t *available, size_t *total)
{
	EMU_ENTER(EMU_NEED_CTX);
	if (!available || !total)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&emu.lock);
	emu_ghosts_sweep(emu_ctx_device());
	*total = emu.conf.memory;
	*available = emu.conf.memory - emu_ctx_device()->used;
	pthread_mutex_unlock(&emu.lock);
	return CUDA_SUCCESS;
}

EMU_API(cuMemGetAddressRange_v2, CUdeviceptr *base, size_t *size, CUdeviceptr ptr)
{
	struct emu_alloc *alloc;

	EMU_ENTER(EMU_NEED_CTX);
	pthread_mutex_lock(&emu.lock);
	alloc = emu_alloc_find(ptr);
	if (alloc && !emu_access(alloc, emu_accessor(alloc)))
		alloc = NULL;
	if (alloc && base)
		*base = alloc->base;
	if (alloc && size)
		*size = alloc->size;
	pthread_mutex_unlock(&emu.lock);
	return alloc ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* ---- pinned host memory ---- */

EMU_API(cuMemHostAlloc, void **out, size_t size, unsigned int flags)
{
	uint64_t base = 0;
	CUresult rc = CUDA_SUCCESS;

	EMU_ENTER_UNSAFE(EMU_NEED_CTX);
	if (!out ||
	    flags & ~(unsigned int) (CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP |
				     CU_MEMHOSTALLOC_WRITECOMBINED))
		return CUDA_ERROR_INVALID_VALUE;
	if (size)
		rc = emu_alloc_for_ctx(EMU_HOST, size, flags, 0, &base);
	if (rc == CUDA_SUCCESS)
		*out = (void *) (uintptr_t) base;
	return rc;
}

EMU_API(cuMemAllocHost_v2, void **out, size_t size)
{
	EMU_ENTER(EMU_NEED_CTX);
	return cuMemHostAlloc(out, size, 0);
}

EMU_API(cuMemFreeHost, void *ptr)
{
	EMU_ENTER_UNSAFE(EMU_NEED_INIT);
	if (!ptr)
		return CUDA_SUCCESS;
	return emu_free((uintptr_t) ptr, 1u << EMU_HOST);
}

/* The first allocation that shares an address with [ptr, ptr + size) */
static struct emu_alloc *emu_alloc_overlap(uint64_t ptr, size_t size)
{
	struct emu_alloc *alloc = emu_alloc_find(ptr);
	size_t i;

	for (i = 0; !alloc && i < emu.nallocs; i++)
		if (emu.allocs[i]->base >= ptr && emu.allocs[i]->base - ptr < size)
			alloc = emu.allocs[i];
	return alloc;
}

EMU_API(cuMemHostRegister_v2, void *ptr, size_t size, unsigned int flags)
{
	uint64_t base = (uintptr_t) ptr;
	struct emu_alloc *alloc;
	CUresult rc;

	EMU_ENTER_UNSAFE(EMU_NEED_CTX);
	if (!ptr || !size || base + size < base ||
	    flags & ~(unsigned int) (CU_MEMHOSTREGISTER_PORTABLE |
				     CU_MEMHOSTREGISTER_DEVICEMAP |
				     CU_MEMHOSTREGISTER_IOMEMORY |
				     CU_MEMHOSTREGISTER_READ_ONLY))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&emu.lock);
	alloc = emu_alloc_overlap(base, size);
	if (alloc) {
		rc = alloc->kind == EMU_REGISTERED ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
						   : CUDA_ERROR_INVALID_VALUE;
		goto unlock;
	}
	rc = CUDA_ERROR_INVALID_VALUE;
	if (emu_range_owned(base))
		goto unlock;
	rc = CUDA_ERROR_OUT_OF_MEMORY;
	alloc = calloc(1, sizeof(*alloc));
	if (!alloc)
		goto unlock;
	alloc->kind = EMU_REGISTERED;
	alloc->base = base;
	alloc->size = size;
	alloc->rw = ptr;
	alloc->ctx = emu_ctx_current();
	alloc->dev = alloc->ctx->dev;
	alloc->flags = flags;
	rc = emu_alloc_insert(alloc);
	if (rc != CUDA_SUCCESS)
		free(alloc);

unlock:
	pthread_mutex_unlock(&emu.lock);
	return rc;
}
EMU_API_ALIAS(cuMemHostRegister, cuMemHostRegister_v2);

EMU_API(cuMemHostUnregister, void *ptr)
{
	struct emu_alloc *alloc;

	EMU_ENTER_UNSAFE(EMU_NEED_INIT);
	pthread_mutex_lock(&emu.lock);
	alloc = emu_alloc_find((uintptr_t) ptr);
	pthread_mutex_unlock(&emu.lock);
	if (!alloc)
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	return emu_free((uintptr_t) ptr, 1u << EMU_REGISTERED);
}

EMU_API(cuMemHostGetDevicePointer_v2, CUdeviceptr *out, void *ptr, unsigned int flags)
{
	struct emu_alloc *alloc;

	EMU_ENTER(EMU_NEED_CTX);
	if (!out || flags)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&emu.lock);
	alloc = emu_alloc_find((uintptr_t) ptr);
	if (alloc && emu_alloc_is_host(alloc))
		*out = (uintptr_t) ptr;
	else
		alloc = NULL;
	pthread_mutex_unlock(&emu.lock);
	return alloc ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EMU_API(cuMemHostGetFlags, unsigned int *flags, void *ptr)
{
	struct emu_alloc *alloc;

	EMU_ENTER(EMU_NEED_CTX);
	pthread_mutex_lock(&emu.lock);
	alloc = emu_alloc_find((uintptr_t) ptr);
	if (alloc && emu_alloc_is_host(alloc))
		*flags = alloc->flags | CU_MEMHOSTALLOC_DEVICEMAP;
	else
		alloc = NULL;
	pthread_mutex_unlock(&emu.lock);
	return alloc ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
