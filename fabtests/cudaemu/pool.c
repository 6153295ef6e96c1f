/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory pools: allocations in stream order. Memory exists from the call on. It ends when the
 * stream reaches the free.
 */
#include "emu.h"

#include <stdlib.h>
#include <string.h>

static CUresult emu_pool_alloc(CUdeviceptr *out, size_t size, struct CUmemPoolHandle_st *pool,
			       CUstream stream)
{
	struct emu_alloc *alloc;
	CUresult rc;

	if (!out || !size)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&emu.lock);
	rc = emu_stream_get(stream, &stream);
	/* nodes that allocate or free are not emulated */
	if (rc == CUDA_SUCCESS)
		rc = emu_capture_refuse(stream);
	if (rc != CUDA_SUCCESS)
		goto unlock;
	if (!pool)
		pool = emu.dev[stream->ctx->dev].current_pool;
	rc = emu_alloc_create(EMU_POOL, pool->dev, size, &alloc);
	if (rc != CUDA_SUCCESS)
		goto unlock;
	alloc->pool = pool;
	pool->used += size;
	if (pool->used > pool->used_high)
		pool->used_high = pool->used;
	*out = alloc->base;

unlock:
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

EMU_API(cuMemAllocAsync, CUdeviceptr *out, size_t size, CUstream stream)
{
	EMU_ENTER_UNSAFE(EMU_NEED_INIT);
	return emu_pool_alloc(out, size, NULL, stream);
}

EMU_API(cuMemAllocFromPoolAsync, CUdeviceptr *out, size_t size, CUmemoryPool pool,
	CUstream stream)
{
	EMU_ENTER_UNSAFE(EMU_NEED_INIT);
	if (!pool || pool->dead)
		return CUDA_ERROR_INVALID_VALUE;
	return emu_pool_alloc(out, size, pool, stream);
}

EMU_API(cuMemFreeAsync, CUdeviceptr ptr, CUstream stream)
{
	struct emu_alloc *alloc;
	struct emu_op *op;
	CUresult rc;

	EMU_ENTER(EMU_NEED_INIT);
	if (!ptr)
		return CUDA_SUCCESS;
	pthread_mutex_lock(&emu.lock);
	rc = emu_stream_get(stream, &stream);
	if (rc == CUDA_SUCCESS)
		rc = emu_capture_refuse(stream);
	alloc = emu_alloc_find(ptr);
	if (rc == CUDA_SUCCESS && (!alloc || alloc->base != ptr || alloc->freeing ||
				   (alloc->kind != EMU_POOL && alloc->kind != EMU_DEVICE)))
		rc = CUDA_ERROR_INVALID_VALUE;
	if (rc == CUDA_SUCCESS) {
		alloc->freeing = true;
		op = emu_op_new(EMU_OP_FREE);
		op->free_base = ptr;
		emu_stream_enqueue(stream, op);
	}
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

static CUresult emu_pool_of_device(CUmemoryPool *out, CUdevice device, bool current)
{
	struct emu_device *dev = emu_device_get(device);

	if (!dev)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&emu.lock);
	*out = current ? dev->current_pool : &dev->pool;
	pthread_mutex_unlock(&emu.lock);
	return CUDA_SUCCESS;
}

EMU_API(cuDeviceGetDefaultMemPool, CUmemoryPool *out, CUdevice dev)
{
	EMU_ENTER(EMU_NEED_INIT);
	return emu_pool_of_device(out, dev, false);
}

EMU_API(cuDeviceGetMemPool, CUmemoryPool *out, CUdevice dev)
{
	EMU_ENTER(EMU_NEED_INIT);
	return emu_pool_of_device(out, dev, true);
}

EMU_API(cuDeviceSetMemPool, CUdevice dev, CUmemoryPool pool)
{
	EMU_ENTER(EMU_NEED_INIT);
	if (!emu_device_get(dev) || !pool || pool->dead || pool->dev != dev)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&emu.lock);
	emu.dev[dev].current_pool = pool;
	pthread_mutex_unlock(&emu.lock);
	return CUDA_SUCCESS;
}

EMU_API(cuMemPoolCreate, CUmemoryPool *out, const CUmemPoolProps *props)
{
	struct CUmemPoolHandle_st *pool;

	EMU_ENTER(EMU_NEED_INIT);
	if (!out || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
	    props->location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    !emu_device_get(props->location.id))
		return CUDA_ERROR_INVALID_VALUE;
	pool = calloc(1, sizeof(*pool));
	if (!pool)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pool->dev = props->location.id;
	pool->props = *props;
	*out = pool;
	return CUDA_SUCCESS;
}

/* Memory of the pool stays valid until it is freed, and points to the pool until then */
EMU_API(cuMemPoolDestroy, CUmemoryPool pool)
{
	CUresult rc = CUDA_SUCCESS;
	struct emu_device *dev;

	EMU_ENTER(EMU_NEED_INIT);
	if (!pool || pool->dead)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&emu.lock);
	dev = &emu.dev[pool->dev];
	if (pool == &dev->pool) {
		rc = CUDA_ERROR_INVALID_VALUE;
	} else {
		pool->dead = true;
		if (dev->current_pool == pool)
			dev->current_pool = &dev->pool;
		if (!pool->used)
			free(pool);
	}
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

/* Nothing is cached here that could be trimmed */
EMU_API(cuMemPoolTrimTo, CUmemoryPool pool, size_t keep)
{
	EMU_ENTER(EMU_NEED_INIT);
	return pool ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EMU_API(cuMemPoolSetAccess, CUmemoryPool pool, const CUmemAccessDesc *desc, size_t count)
{
	EMU_ENTER(EMU_NEED_INIT);
	return pool && desc ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EMU_API(cuMemPoolGetAccess, CUmemAccess_flags *flags, CUmemoryPool pool,
	CUmemLocation *location)
{
	EMU_ENTER(EMU_NEED_INIT);
	if (!pool || !flags || !location)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	return CUDA_SUCCESS;
}

/* Where the pool keeps an attribute. The sizes are those of the real interface. */
static void *emu_pool_attribute(struct CUmemPoolHandle_st *pool, CUmemPool_attribute attr,
				size_t *size)
{
	*size = sizeof(cuuint64_t);
	switch (attr) {
	case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
	case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
		*size = sizeof(int);
		return &pool->reuse[attr - 1];
	case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
		return &pool->threshold;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
	case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
		return &pool->used;
	case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
	case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
		return &pool->used_high;
	}
	return NULL;
}

static CUresult emu_pool_access(struct CUmemPoolHandle_st *pool, CUmemPool_attribute attr,
				void *value, bool set)
{
	size_t size;
	void *field;

	if (!pool || !value)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&emu.lock);
	field = emu_pool_attribute(pool, attr, &size);
	if (field)
		memcpy(set ? field : value, set ? value : field, size);
	pthread_mutex_unlock(&emu.lock);
	return field ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

EMU_API(cuMemPoolSetAttribute, CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	EMU_ENTER(EMU_NEED_INIT);
	if (attr > CU_MEMPOOL_ATTR_RELEASE_THRESHOLD && attr != CU_MEMPOOL_ATTR_USED_MEM_HIGH &&
	    attr != CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
		return CUDA_ERROR_INVALID_VALUE;
	return emu_pool_access(pool, attr, value, true);
}

EMU_API(cuMemPoolGetAttribute, CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
	EMU_ENTER(EMU_NEED_INIT);
	return emu_pool_access(pool, attr, value, false);
}

/*
 * Pools are not shared between processes here. Programs that link to these functions still
 * start.
 */
#define EMU_POOL_UNSUPPORTED(name, ...)                                                        \
	EMU_API(name, __VA_ARGS__)                                                             \
	{                                                                                      \
		EMU_ENTER(EMU_NEED_INIT);                                                      \
		return CUDA_ERROR_NOT_SUPPORTED;                                               \
	}

EMU_POOL_UNSUPPORTED(cuMemPoolExportToShareableHandle, void *out, CUmemoryPool pool,
		     CUmemAllocationHandleType type, unsigned long long flags)
EMU_POOL_UNSUPPORTED(cuMemPoolImportFromShareableHandle, CUmemoryPool *out, void *handle,
		     CUmemAllocationHandleType type, unsigned long long flags)
EMU_POOL_UNSUPPORTED(cuMemPoolExportPointer, void *out, CUdeviceptr ptr)
EMU_POOL_UNSUPPORTED(cuMemPoolImportPointer, CUdeviceptr *out, CUmemoryPool pool, void *data)
