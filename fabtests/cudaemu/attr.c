/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the driver tells about a pointer. For memory that the driver does not know, the singular
 * form fails. The plural form succeeds with zeros (and two oddities, see below).
 */
#include "emu.h"

#include <errno.h>
#include <string.h>

/* The bytes that each attribute takes at the caller; 0 for those that do not exist */
static size_t emu_attr_size(CUpointer_attribute attr)
{
	switch (attr) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		return 8;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
	case CU_POINTER_ATTRIBUTE_MAPPED:
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		return 4;
	case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
		return 16;
	}
	return 0;
}

static bool emu_alloc_rdma_capable(const struct emu_alloc *alloc)
{
	return alloc->kind == EMU_DEVICE ||
	       (alloc->kind == EMU_VMM && emu_vmm_rdma_capable(alloc));
}

/* Is it another device's, to which the current context has no peer access? */
static bool emu_alloc_is_far(const struct emu_alloc *alloc)
{
	const struct CUctx_st *ctx = emu_ctx_current();

	return alloc->kind == EMU_DEVICE && ctx && ctx->dev != alloc->dev &&
	       !(ctx->peers & 1u << alloc->dev);
}

/* One attribute of memory that the driver knows. Called with the lock held. */
static CUresult emu_attr_get(const struct emu_alloc *alloc, CUpointer_attribute attr,
			     uint64_t ptr, uint64_t *value)
{
	uint64_t base = alloc->base;
	size_t size = alloc->size;
	bool host = emu_alloc_is_host(alloc);

	if (alloc->kind == EMU_VMM)
		emu_vmm_range(alloc, &base, &size);
	switch (attr) {
	case CU_POINTER_ATTRIBUTE_CONTEXT:
		*value = (uintptr_t) alloc->ctx;
		break;
	case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
		*value = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
		if (!emu_access(alloc, emu_accessor(alloc)) || emu_alloc_is_far(alloc))
			return CUDA_ERROR_INVALID_VALUE;
		*value = ptr;
		break;
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		if (!host && alloc->kind != EMU_MANAGED)
			return CUDA_ERROR_INVALID_VALUE;
		*value = ptr;
		break;
	case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
		*value = (uint64_t) alloc->sync_memops;
		break;
	case CU_POINTER_ATTRIBUTE_BUFFER_ID:
	case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
		*value = alloc->id;
		break;
	case CU_POINTER_ATTRIBUTE_IS_MANAGED:
		*value = alloc->kind == EMU_MANAGED;
		break;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		*value = (uint64_t) alloc->dev;
		break;
	case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
		*value = alloc->kind == EMU_DEVICE;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		*value = base;
		break;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		*value = size;
		break;
	case CU_POINTER_ATTRIBUTE_MAPPED:
		*value = 1;
		break;
	case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
		*value = alloc->kind == EMU_VMM ? emu_vmm_handle_types(alloc) : 0;
		break;
	case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
		*value = emu_alloc_rdma_capable(alloc);
		break;
	case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
		*value = emu_access(alloc, emu_accessor(alloc));
		break;
	case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
		*value = (uintptr_t) alloc->pool;
		break;
	case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
		*value = alloc->size;
		break;
	case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
		*value = alloc->base;
		break;
	case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
		return host ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED;
	}
	return CUDA_SUCCESS;
}

/* The plural form's answers about memory that the driver does not know */
static uint64_t emu_attr_unknown(CUpointer_attribute attr, uint64_t ptr)
{
	uint64_t base = 0;
	size_t size = 0;

	emu_vmm_reserved(ptr, &base, &size);
	switch (attr) {
	case CU_POINTER_ATTRIBUTE_HOST_POINTER:
		return ptr;
	case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
		return (uint64_t) EMU_NO_DEVICE;
	case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
		return base;
	case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
		return size;
	default:
		return 0;
	}
}

/* Little-endian: the low bytes of the value are the value of the narrower types */
static void emu_attr_store(void *data, CUpointer_attribute attr, uint64_t value)
{
	uint64_t wide[2] = {value, 0};

	memcpy(data, wide, emu_attr_size(attr));
}

EMU_API(cuPointerGetAttribute, void *data, CUpointer_attribute attr, CUdeviceptr ptr)
{
	struct emu_alloc *alloc;
	uint64_t value = 0;
	CUresult rc = CUDA_ERROR_INVALID_VALUE;

	EMU_ENTER(EMU_NEED_INIT);
	if (!data || !emu_attr_size(attr))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&emu.lock);
	alloc = emu_alloc_find(ptr);
	if (alloc)
		rc = emu_attr_get(alloc, attr, ptr, &value);
	pthread_mutex_unlock(&emu.lock);
	/* an attribute that fails for known memory still clears the caller's variable */
	if (alloc)
		emu_attr_store(data, attr, value);
	return rc;
}

EMU_API(cuPointerGetAttributes, unsigned int count, CUpointer_attribute *attrs, void **data,
	CUdeviceptr ptr)
{
	struct emu_alloc *alloc;
	uint64_t value;
	unsigned int i;

	EMU_ENTER(EMU_NEED_INIT);
	if (!attrs || !data)
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; i < count; i++)
		if (!data[i] || !emu_attr_size(attrs[i]))
			return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&emu.lock);
	alloc = emu_alloc_find(ptr);
	errno = EFAULT;
	/* a driver crashes now and then: probe_unmap.c. The form for one attribute has not */
	if (alloc && alloc->unmapping)
		emu_die("cuPointerGetAttributes beside cuMemUnmap");
	for (i = 0; i < count; i++) {
		value = 0;
		if (!alloc)
			value = emu_attr_unknown(attrs[i], ptr);
		else
			emu_attr_get(alloc, attrs[i], ptr, &value);
		emu_attr_store(data[i], attrs[i], value);
	}
	pthread_mutex_unlock(&emu.lock);
	return CUDA_SUCCESS;
}

/* Mapped memory does not take the flag. Synchronous operations that have not ended are waited for */
EMU_API(cuPointerSetAttribute, const void *data, CUpointer_attribute attr, CUdeviceptr ptr)
{
	struct emu_alloc *alloc;
	struct emu_point sync = {NULL, 0};
	unsigned int value;
	CUresult rc = CUDA_ERROR_INVALID_VALUE;

	EMU_ENTER_UNSAFE(EMU_NEED_INIT);
	if (!data || attr != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
		return CUDA_ERROR_INVALID_VALUE;
	memcpy(&value, data, sizeof(value));
	pthread_mutex_lock(&emu.lock);
	alloc = emu_alloc_find(ptr);
	if (emu_capture_unsafe() != CUDA_SUCCESS) {
		rc = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	} else if (alloc && alloc->kind == EMU_VMM) {
		rc = CUDA_ERROR_NOT_SUPPORTED;
	} else if (alloc) {
		alloc->sync_memops = value != 0;
		sync = alloc->sync;
		rc = CUDA_SUCCESS;
	}
	if (value && sync.stream)
		emu_stream_wait(sync.stream, sync.seq);
	pthread_mutex_unlock(&emu.lock);
	return rc;
}
