/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Memory of ROCm's GPUs, by the HSA runtime, which HIP is built on. See gpu.h. */
#include "buffer/gpu.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <rdma/fi_errno.h>

#include "config.h"
#include "dev/p2p_hsa_abi.h"

#define HOST_ALIGN 4096

#ifndef ROCM_LIBDIR
#define ROCM_LIBDIR NULL
#endif

static struct {
	int loaded; /* what loading has returned */
	__typeof__(hsa_init) *init;
	__typeof__(hsa_iterate_agents) *iterate_agents;
	__typeof__(hsa_agent_get_info) *agent_info;
	__typeof__(hsa_amd_agent_iterate_memory_pools) *iterate_pools;
	__typeof__(hsa_amd_memory_pool_get_info) *pool_info;
	__typeof__(hsa_amd_memory_pool_allocate) *allocate;
	__typeof__(hsa_amd_memory_pool_free) *free;
	__typeof__(hsa_amd_pointer_info) *pointer_info;
	__typeof__(hsa_memory_copy) *copy;
} hsa;

static const struct gpu_symbol symbols[] = {
	{"hsa_init", &hsa.init},
	{"hsa_iterate_agents", &hsa.iterate_agents},
	{"hsa_agent_get_info", &hsa.agent_info},
	{"hsa_amd_agent_iterate_memory_pools", &hsa.iterate_pools},
	{"hsa_amd_memory_pool_get_info", &hsa.pool_info},
	{"hsa_amd_memory_pool_allocate", &hsa.allocate},
	{"hsa_amd_memory_pool_free", &hsa.free},
	{"hsa_amd_pointer_info", &hsa.pointer_info},
	{"hsa_memory_copy", &hsa.copy},
};

/* What is looked for among the GPUs: the one numbered @gpu, or the number of @agent */
struct search {
	hsa_agent_t agent;
	int gpu;
	int at;
};

static int hsa_error(hsa_status_t status)
{
	switch (status) {
	case HSA_STATUS_SUCCESS:
		return 0;
	case HSA_STATUS_ERROR_OUT_OF_RESOURCES:
		return -FI_ENOMEM;
	case HSA_STATUS_ERROR_INVALID_ARGUMENT:
		return -FI_EINVAL;
	default:
		return -FI_EIO;
	}
}

static void rocr_load_once(void)
{
	hsa.loaded = buffer_gpu_open(ROCM_LIBDIR, "libhsa-runtime64.so.1", symbols,
				     sizeof symbols / sizeof symbols[0]);
	if (!hsa.loaded)
		hsa.loaded = hsa_error(hsa.init());
}

static int rocr_load(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, rocr_load_once);
	return hsa.loaded;
}

static hsa_status_t rocr_visit(hsa_agent_t agent, void *arg)
{
	struct search *search = arg;
	hsa_device_type_t type;
	hsa_status_t status = hsa.agent_info(agent, HSA_AGENT_INFO_DEVICE, &type);

	if (status != HSA_STATUS_SUCCESS || type != HSA_DEVICE_TYPE_GPU)
		return status;
	if (search->at == search->gpu || agent.handle == search->agent.handle) {
		search->agent = agent;
		search->gpu = search->at;
		return HSA_STATUS_INFO_BREAK;
	}
	search->at++;
	return HSA_STATUS_SUCCESS;
}

static int rocr_search(struct search *search)
{
	hsa_status_t status = hsa.iterate_agents(rocr_visit, search);

	return status == HSA_STATUS_INFO_BREAK ? 0
	       : status == HSA_STATUS_SUCCESS  ? -FI_EINVAL
					       : -FI_EIO;
}

static int rocr_hold(int gpu)
{
	struct search search = {.gpu = gpu};

	return gpu < 0 ? -FI_EINVAL : rocr_search(&search);
}

static void rocr_drop(int gpu)
{
}

static int rocr_owner(const void *data, size_t size, int *gpu)
{
	hsa_amd_pointer_info_t info = {.size = sizeof info};
	struct search search = {.gpu = -1};
	size_t offset;
	int ret;

	ret = hsa_error(hsa.pointer_info(data, &info, NULL, NULL, NULL));
	if (ret)
		return ret;
	if (info.type != HSA_EXT_POINTER_TYPE_HSA && info.type != HSA_EXT_POINTER_TYPE_IPC)
		return -FI_EINVAL;
	offset = (size_t) ((const char *) data - (const char *) info.agentBaseAddress);
	if (offset > info.sizeInBytes || size > info.sizeInBytes - offset)
		return -FI_EINVAL;
	search.agent = info.agentOwner;
	ret = rocr_search(&search);
	if (!ret)
		*gpu = search.gpu;
	return ret;
}

/* The first pool that gives device memory */
static hsa_status_t rocr_visit_pool(hsa_amd_memory_pool_t pool, void *arg)
{
	hsa_amd_segment_t segment;
	bool allowed;
	hsa_status_t status = hsa.pool_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment);

	if (status != HSA_STATUS_SUCCESS || segment != HSA_AMD_SEGMENT_GLOBAL)
		return status;
	status = hsa.pool_info(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED, &allowed);
	if (status != HSA_STATUS_SUCCESS || !allowed)
		return status;
	*(hsa_amd_memory_pool_t *) arg = pool;
	return HSA_STATUS_INFO_BREAK;
}

static int rocr_alloc(int gpu, size_t size, void **data)
{
	struct search search = {.gpu = gpu};
	hsa_amd_memory_pool_t pool;
	int ret = rocr_search(&search);

	if (ret)
		return ret;
	if (hsa.iterate_pools(search.agent, rocr_visit_pool, &pool) != HSA_STATUS_INFO_BREAK)
		return -FI_EIO;
	return hsa_error(hsa.allocate(pool, size, 0, data));
}

static void rocr_free(int gpu, void *data)
{
	hsa.free(data);
}

/* hsa_memory_copy() pins what it wants pinned, and has queues of its own. */
static int rocr_host_alloc(int gpu, size_t size, void **data, void **queue)
{
	return posix_memalign(data, HOST_ALIGN, size) ? -FI_ENOMEM : 0;
}

static void rocr_host_free(int gpu, void *data, void *queue)
{
	free(data);
}

static int rocr_copy(int gpu, void *queue, void *dst, const void *src, size_t size)
{
	return hsa_error(hsa.copy(dst, src, size));
}

const struct gpu_ops buffer_gpu_rocr = {
	.iface = FI_HMEM_ROCR,
	.load = rocr_load,
	.hold = rocr_hold,
	.drop = rocr_drop,
	.owner = rocr_owner,
	.alloc = rocr_alloc,
	.free = rocr_free,
	.host_alloc = rocr_host_alloc,
	.host_free = rocr_host_free,
	.to = rocr_copy,
	.from = rocr_copy,
};
