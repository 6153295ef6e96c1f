/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Device memory of ROCm, by the HSA runtime, from which HIP allocates as well. The library is
 * opened at run time, as in cuda.c.
 */
#include <stdio.h>

#include "ft.h"
#include "dev/p2p_hsa_abi.h"

#define NAME_LEN 64 /* an agent's name, by HSA's definition */

static struct {
	bool ready;
	hsa_agent_t gpu;
	hsa_amd_memory_pool_t pool;
	__typeof__(hsa_init) *init;
	__typeof__(hsa_status_string) *status_string;
	__typeof__(hsa_iterate_agents) *iterate_agents;
	__typeof__(hsa_agent_get_info) *agent_info;
	__typeof__(hsa_amd_agent_iterate_memory_pools) *iterate_pools;
	__typeof__(hsa_amd_memory_pool_get_info) *pool_info;
	__typeof__(hsa_amd_memory_pool_allocate) *allocate;
	__typeof__(hsa_amd_memory_pool_free) *free;
	__typeof__(hsa_memory_copy) *copy;
} hsa;

static const struct ft_symbol symbols[] = {
	{"hsa_init", &hsa.init},
	{"hsa_status_string", &hsa.status_string},
	{"hsa_iterate_agents", &hsa.iterate_agents},
	{"hsa_agent_get_info", &hsa.agent_info},
	{"hsa_amd_agent_iterate_memory_pools", &hsa.iterate_pools},
	{"hsa_amd_memory_pool_get_info", &hsa.pool_info},
	{"hsa_amd_memory_pool_allocate", &hsa.allocate},
	{"hsa_amd_memory_pool_free", &hsa.free},
	{"hsa_memory_copy", &hsa.copy},
};

static int hsa_fail(hsa_status_t status, const char *call)
{
	const char *text = NULL;

	hsa.status_string(status, &text);
	return ft_fail(-FI_EIO, call, "%s (0x%x)", text ? text : "unknown HSA status",
		       (unsigned int) status);
}

/* Counts down the GPUs to the one that is wanted */
static hsa_status_t take_gpu(hsa_agent_t agent, void *left)
{
	hsa_device_type_t type;
	hsa_status_t status = hsa.agent_info(agent, HSA_AGENT_INFO_DEVICE, &type);

	if (status != HSA_STATUS_SUCCESS || type != HSA_DEVICE_TYPE_GPU)
		return status;
	if ((*(int *) left)--)
		return HSA_STATUS_SUCCESS;
	hsa.gpu = agent;
	return HSA_STATUS_INFO_BREAK;
}

/* The first pool that gives device memory */
static hsa_status_t take_pool(hsa_amd_memory_pool_t pool, void *arg)
{
	hsa_amd_segment_t segment;
	bool allowed;
	hsa_status_t status = hsa.pool_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment);

	if (status != HSA_STATUS_SUCCESS || segment != HSA_AMD_SEGMENT_GLOBAL)
		return status;
	status = hsa.pool_info(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED, &allowed);
	if (status != HSA_STATUS_SUCCESS || !allowed)
		return status;
	hsa.pool = pool;
	return HSA_STATUS_INFO_BREAK;
}

static int rocr_init(int device)
{
	hsa_status_t status;
	int left = device;

	if (hsa.ready)
		return 0;
	FT_TRY(ft_load("libhsa-runtime64.so.1", symbols, FT_COUNT(symbols)));
	status = hsa.init();
	if (status != HSA_STATUS_SUCCESS)
		return hsa_fail(status, "hsa_init");
	status = hsa.iterate_agents(take_gpu, &left);
	if (status == HSA_STATUS_SUCCESS) {
		ft_err("-i %d: there are %d ROCm devices, counted from 0", device,
		       device - left);
		return -FI_EINVAL;
	}
	if (status != HSA_STATUS_INFO_BREAK)
		return hsa_fail(status, "hsa_iterate_agents");
	status = hsa.iterate_pools(hsa.gpu, take_pool, NULL);
	if (status != HSA_STATUS_INFO_BREAK)
		return hsa_fail(status, "hsa_amd_agent_iterate_memory_pools");
	hsa.ready = true;
	return 0;
}

static int rocr_alloc(size_t size, void **addr)
{
	hsa_status_t status = hsa.allocate(hsa.pool, size, 0, addr);

	if (status != HSA_STATUS_SUCCESS)
		return hsa_fail(status, "hsa_amd_memory_pool_allocate");
	return 0;
}

static void rocr_release(void *addr)
{
	hsa_status_t status = hsa.free(addr);

	if (status != HSA_STATUS_SUCCESS)
		hsa_fail(status, "hsa_amd_memory_pool_free");
}

static int rocr_copy(void *dst, const void *src, size_t len)
{
	hsa_status_t status = HSA_STATUS_SUCCESS;

	if (len)
		status = hsa.copy(dst, src, len);
	return status == HSA_STATUS_SUCCESS ? 0 : hsa_fail(status, "hsa_memory_copy");
}

static int rocr_device_name(char *name, size_t len)
{
	char whole[NAME_LEN] = "";
	hsa_status_t status = hsa.agent_info(hsa.gpu, HSA_AGENT_INFO_NAME, whole);

	if (status != HSA_STATUS_SUCCESS)
		return hsa_fail(status, "hsa_agent_get_info");
	snprintf(name, len, "%s", whole);
	return 0;
}

const struct ft_mem_ops ft_rocr_ops = {
	.name = "device",
	.iface = FI_HMEM_ROCR,
	.init = rocr_init,
	.alloc = rocr_alloc,
	.release = rocr_release,
	.to = rocr_copy,
	.from = rocr_copy,
	.device_name = rocr_device_name,
};
