/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Emulated HSA: memory and copies. Harder than a real runtime in three ways: pinned host
 * memory always has another address on the devices than on the host, asynchronous copies
 * overtake each other, and an address that no device can reach ends the process.
 */
#include "rocm.h"

#include <stdlib.h>
#include <string.h>

/* Copies of one device go to each of these in turn */
#define ROCM_STREAMS 3

/**
 * struct rocm_alloc - memory that the runtime knows
 * @base:	for the host
 * @place:	for the devices: the same, unless it is pinned host memory
 */
struct rocm_alloc {
	hsa_amd_pointer_type_t type;
	char *base, *place;
	size_t size;
	CUdevice dev;
	void *data;
	struct rocm_alloc *next;
};

static pthread_mutex_t rocm_memory_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rocm_alloc *rocm_allocs;
static CUstream rocm_streams[EMU_MAX_DEVICES][ROCM_STREAMS];
static unsigned int rocm_copies;

static bool rocm_within(const void *start, size_t size, const void *ptr)
{
	return (uintptr_t) ptr - (uintptr_t) start < size;
}

/* With the lock held */
static struct rocm_alloc *rocm_alloc_find(const void *ptr)
{
	struct rocm_alloc *alloc;

	for (alloc = rocm_allocs; alloc; alloc = alloc->next)
		if (rocm_within(alloc->base, alloc->size, ptr) ||
		    rocm_within(alloc->place, alloc->size, ptr))
			break;
	return alloc;
}

static hsa_status_t rocm_alloc_add(const struct rocm_alloc *from)
{
	struct rocm_alloc *alloc = malloc(sizeof(*alloc));

	if (!alloc)
		return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	*alloc = *from;
	pthread_mutex_lock(&rocm_memory_lock);
	alloc->next = rocm_allocs;
	rocm_allocs = alloc;
	pthread_mutex_unlock(&rocm_memory_lock);
	return HSA_STATUS_SUCCESS;
}

/* Forgets what starts at @base; false if nothing of this type does */
static bool rocm_alloc_drop(const void *base, hsa_amd_pointer_type_t type, CUdevice *dev)
{
	struct rocm_alloc **link, *alloc;

	pthread_mutex_lock(&rocm_memory_lock);
	for (link = &rocm_allocs; *link; link = &(*link)->next)
		if ((*link)->base == base && (*link)->type == type)
			break;
	alloc = *link;
	if (alloc) {
		*link = alloc->next;
		*dev = alloc->dev;
	}
	pthread_mutex_unlock(&rocm_memory_lock);
	free(alloc);
	return alloc != NULL;
}

/* ---- pools: one an agent, with the agent's handle ---- */

hsa_status_t hsa_amd_agent_iterate_memory_pools(
	hsa_agent_t agent, hsa_status_t (*callback)(hsa_amd_memory_pool_t pool, void *data),
	void *data)
{
	ROCM_ENTER();
	if (rocm_device(agent) < EMU_NO_DEVICE)
		return HSA_STATUS_ERROR_INVALID_AGENT;
	return callback((hsa_amd_memory_pool_t){agent.handle}, data);
}

hsa_status_t hsa_amd_memory_pool_get_info(hsa_amd_memory_pool_t pool,
					  hsa_amd_memory_pool_info_t info, void *value)
{
	ROCM_ENTER();
	switch (info) {
	case HSA_AMD_MEMORY_POOL_INFO_SEGMENT:
		*(hsa_amd_segment_t *) value = HSA_AMD_SEGMENT_GLOBAL;
		return HSA_STATUS_SUCCESS;
	case HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED:
		*(bool *) value = true;
		return HSA_STATUS_SUCCESS;
	}
	return HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

hsa_status_t hsa_amd_memory_pool_allocate(hsa_amd_memory_pool_t pool, size_t size,
					  uint32_t flags, void **ptr)
{
	struct rocm_alloc alloc = {
		.type = HSA_EXT_POINTER_TYPE_HSA,
		.size = size,
		.dev = rocm_device((hsa_agent_t){pool.handle}),
	};
	CUdeviceptr base = 0;
	void *host = NULL;
	CUresult rc;
	hsa_status_t status;

	ROCM_ENTER();
	if (!size || alloc.dev < EMU_NO_DEVICE)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	rc = rocm_use(alloc.dev >= 0 ? alloc.dev : 0);
	if (rc == CUDA_SUCCESS && alloc.dev >= 0)
		rc = cuMemAlloc_v2(&base, size);
	else if (rc == CUDA_SUCCESS)
		rc = cuMemHostAlloc(&host, size, 0);
	if (rc != CUDA_SUCCESS)
		return rocm_status(rc);
	alloc.base = alloc.place = host ? host : (void *) (uintptr_t) base;
	status = rocm_alloc_add(&alloc);
	if (status == HSA_STATUS_SUCCESS)
		*ptr = alloc.base;
	return status;
}

hsa_status_t hsa_amd_memory_pool_free(void *ptr)
{
	CUdevice dev;

	ROCM_ENTER();
	if (!rocm_alloc_drop(ptr, HSA_EXT_POINTER_TYPE_HSA, &dev))
		return HSA_STATUS_ERROR_INVALID_ALLOCATION;
	return rocm_status(dev >= 0 ? cuMemFree_v2((uintptr_t) ptr) : cuMemFreeHost(ptr));
}

/* ---- host memory of others ---- */

hsa_status_t hsa_amd_memory_lock(void *host, size_t size, hsa_agent_t *agents, int count,
				 void **agent_ptr)
{
	struct rocm_alloc alloc = {
		.type = HSA_EXT_POINTER_TYPE_LOCKED,
		.base = host,
		.size = size,
		.dev = EMU_NO_DEVICE,
	};
	size_t in_page = (uintptr_t) host % EMU_PAGE;
	CUresult rc;
	hsa_status_t status;

	ROCM_ENTER();
	if (!host || !size || !agent_ptr || !agents != !count)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	rc = rocm_use(0);
	if (rc == CUDA_SUCCESS)
		rc = cuMemHostRegister_v2(host, size, 0);
	if (rc != CUDA_SUCCESS)
		return rocm_status(rc);
	pthread_mutex_lock(&emu.lock);
	alloc.place = emu_address_reserve(in_page + size);
	pthread_mutex_unlock(&emu.lock);
	status = HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	if (!alloc.place)
		goto unregister;
	alloc.place += in_page;
	status = rocm_alloc_add(&alloc);
	if (status != HSA_STATUS_SUCCESS)
		goto unregister;
	*agent_ptr = alloc.place;
	return HSA_STATUS_SUCCESS;

unregister:
	cuMemHostUnregister(host);
	return status;
}

hsa_status_t hsa_amd_memory_unlock(void *host)
{
	CUdevice dev;

	ROCM_ENTER();
	if (!rocm_alloc_drop(host, HSA_EXT_POINTER_TYPE_LOCKED, &dev))
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	return rocm_status(cuMemHostUnregister(host));
}

/* ---- what a pointer is ---- */

hsa_status_t hsa_amd_pointer_info(const void *ptr, hsa_amd_pointer_info_t *info,
				  void *(*alloc_fn)(size_t), uint32_t *num_accessible,
				  hsa_agent_t **accessible)
{
	hsa_amd_pointer_info_t known = {.size = sizeof(known)};
	struct rocm_alloc *alloc;

	ROCM_ENTER();
	if (!ptr || !info || !info->size)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	pthread_mutex_lock(&rocm_memory_lock);
	alloc = rocm_alloc_find(ptr);
	if (alloc) {
		known.type = alloc->type;
		known.agentBaseAddress = alloc->place;
		known.hostBaseAddress = alloc->base;
		known.sizeInBytes = alloc->size;
		known.userData = alloc->data;
		known.agentOwner = rocm_agent(alloc->dev);
	}
	pthread_mutex_unlock(&rocm_memory_lock);
	if (known.size > info->size)
		known.size = info->size;
	memcpy(info, &known, known.size);
	return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_amd_pointer_info_set_userdata(const void *ptr, void *data)
{
	struct rocm_alloc *alloc;

	ROCM_ENTER();
	pthread_mutex_lock(&rocm_memory_lock);
	alloc = rocm_alloc_find(ptr);
	if (alloc && alloc->base != ptr)
		alloc = NULL;
	if (alloc)
		alloc->data = data;
	pthread_mutex_unlock(&rocm_memory_lock);
	return alloc ? HSA_STATUS_SUCCESS : HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

/* ---- copies ---- */

hsa_status_t hsa_memory_copy(void *dst, const void *src, size_t size)
{
	CUresult rc;

	ROCM_ENTER();
	if (!dst || !src)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	if (!size)
		return HSA_STATUS_SUCCESS;
	rc = rocm_use(0);
	if (rc == CUDA_SUCCESS)
		rc = cuMemcpy((uintptr_t) dst, (uintptr_t) src, size);
	/* within a device that one returns before it has ended */
	if (rc == CUDA_SUCCESS)
		rc = cuStreamSynchronize(CU_STREAM_LEGACY);
	return rocm_status(rc);
}

/* What a device means by @place, for the emulated driver */
static CUdeviceptr rocm_operand(const void *place, size_t size, hsa_agent_t agent)
{
	struct rocm_alloc *alloc;
	CUdeviceptr ptr = 0;
	size_t offset;

	pthread_mutex_lock(&rocm_memory_lock);
	alloc = rocm_alloc_find(place);
	if (alloc && rocm_within(alloc->place, alloc->size, place)) {
		offset = (size_t) ((const char *) place - alloc->place);
		if (size <= alloc->size - offset && alloc->dev == rocm_device(agent))
			ptr = (uintptr_t) alloc->base + offset;
	}
	pthread_mutex_unlock(&rocm_memory_lock);
	if (!ptr)
		rocm_fault("hsa_amd_memory_async_copy", place);
	return ptr;
}

/* The next of the device's streams */
static CUresult rocm_stream(CUdevice dev, CUstream *stream)
{
	CUresult rc = CUDA_SUCCESS;
	CUstream *slot;

	pthread_mutex_lock(&rocm_memory_lock);
	slot = &rocm_streams[dev][rocm_copies++ % ROCM_STREAMS];
	if (!*slot)
		rc = cuStreamCreate(slot, CU_STREAM_NON_BLOCKING);
	*stream = *slot;
	pthread_mutex_unlock(&rocm_memory_lock);
	return rc;
}

hsa_status_t hsa_amd_memory_async_copy(void *dst, hsa_agent_t dst_agent, const void *src,
				       hsa_agent_t src_agent, size_t size, uint32_t num_after,
				       const hsa_signal_t *after, hsa_signal_t completion)
{
	CUdevice to = rocm_device(dst_agent), from = rocm_device(src_agent);
	CUdeviceptr to_ptr, from_ptr;
	CUstream stream;
	CUresult rc;

	ROCM_ENTER();
	if (to < EMU_NO_DEVICE || from < EMU_NO_DEVICE || (to < 0 && from < 0))
		return HSA_STATUS_ERROR_INVALID_AGENT;
	/* order among copies is not emulated: nobody here asks for it */
	if (!dst || !src || !completion.handle || num_after)
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	/* and nothing is counted down */
	if (!size)
		return HSA_STATUS_SUCCESS;
	to_ptr = rocm_operand(dst, size, dst_agent);
	from_ptr = rocm_operand(src, size, src_agent);
	from = from >= 0 ? from : to;
	rc = rocm_use(from);
	if (rc == CUDA_SUCCESS)
		rc = rocm_stream(from, &stream);
	if (rc == CUDA_SUCCESS)
		rc = cuMemcpyAsync(to_ptr, from_ptr, size, stream);
	if (rc == CUDA_SUCCESS)
		rc = cuLaunchHostFunc(stream, rocm_copy_ends,
				      (void *) (uintptr_t) completion.handle);
	return rocm_status(rc);
}
