/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* GPUs, as HSA tells of them, which is ROCm's lowest runtime. See info.h. */
#include "info.h"

#include <string.h>

#include "dev/p2p_hsa_abi.h"

#define ROCR_LIBRARY "libhsa-runtime64.so.1"
#define ROCR_NAME_LEN 64 /* by HSA's definition */

static struct {
	__typeof__(hsa_init) *init;
	__typeof__(hsa_status_string) *status_string;
	__typeof__(hsa_iterate_agents) *iterate_agents;
	__typeof__(hsa_agent_get_info) *agent_info;
	__typeof__(hsa_amd_agent_iterate_memory_pools) *iterate_pools;
	__typeof__(hsa_amd_memory_pool_get_info) *pool_info;
	__typeof__(hsa_amd_memory_pool_allocate) *allocate;
} hsa;

static const struct info_symbol rocr_symbols[] = {
	{"hsa_init", &hsa.init},
	{"hsa_status_string", &hsa.status_string},
	{"hsa_iterate_agents", &hsa.iterate_agents},
	{"hsa_agent_get_info", &hsa.agent_info},
	{"hsa_amd_agent_iterate_memory_pools", &hsa.iterate_pools},
	{"hsa_amd_memory_pool_get_info", &hsa.pool_info},
	{"hsa_amd_memory_pool_allocate", &hsa.allocate},
};

static const char *rocr_error(const char *call, hsa_status_t status)
{
	const char *text = NULL;

	hsa.status_string(status, &text);
	if (!text)
		text = "unknown HSA status";
	/* some releases add sentences */
	return info_text("%s: %.*s", call, (int) strcspn(text, ":"), text);
}

/* The first pool that gives device memory */
static hsa_status_t rocr_take_pool(hsa_amd_memory_pool_t pool, void *taken)
{
	hsa_amd_segment_t segment;
	bool allowed;
	hsa_status_t status = hsa.pool_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment);

	if (status != HSA_STATUS_SUCCESS || segment != HSA_AMD_SEGMENT_GLOBAL)
		return status;
	status = hsa.pool_info(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED, &allowed);
	if (status != HSA_STATUS_SUCCESS || !allowed)
		return status;
	*(hsa_amd_memory_pool_t *) taken = pool;
	return HSA_STATUS_INFO_BREAK;
}

static const char *rocr_alloc(struct info_gpu *gpu, hsa_agent_t agent)
{
	hsa_amd_memory_pool_t pool;
	hsa_status_t status = hsa.iterate_pools(agent, rocr_take_pool, &pool);

	if (status != HSA_STATUS_INFO_BREAK)
		return "it has no memory to allocate from";
	status = hsa.allocate(pool, INFO_BUFFER, 0, &gpu->buffer);
	if (status == HSA_STATUS_SUCCESS)
		return NULL;
	gpu->buffer = NULL;
	return rocr_error("hsa_amd_memory_pool_allocate", status);
}

static bool rocr_ask(hsa_agent_t agent, int what, void *value)
{
	return hsa.agent_info(agent, (hsa_agent_info_t) what, value) == HSA_STATUS_SUCCESS;
}

static hsa_status_t rocr_agent(hsa_agent_t agent, void *arg)
{
	char name[ROCR_NAME_LEN + 1] = "";
	uint32_t address, domain = 0;
	struct info *info = arg;
	struct info_gpu *gpu;
	hsa_device_type_t type;
	int number = 0;

	if (!rocr_ask(agent, HSA_AGENT_INFO_DEVICE, &type) || type != HSA_DEVICE_TYPE_GPU)
		return HSA_STATUS_SUCCESS;
	for (size_t i = 0; i < info->gpu_count; i++)
		number += !strcmp(info->gpus[i].runtime, "ROCm");
	gpu = info_append(&info->gpus, &info->gpu_count, sizeof *gpu);
	gpu->runtime = "ROCm";
	gpu->number = number;
	gpu->numa = -1;
	if (rocr_ask(agent, HSA_AMD_AGENT_INFO_PRODUCT_NAME, name) ||
	    rocr_ask(agent, HSA_AGENT_INFO_NAME, name))
		gpu->name = info_text("%s", name);
	rocr_ask(agent, HSA_AMD_AGENT_INFO_DOMAIN, &domain);
	/* bus, device and function, in the same bits as in a PCI identifier */
	if (rocr_ask(agent, HSA_AMD_AGENT_INFO_BDFID, &address))
		gpu->pci = info_text("%04x:%02x:%02x.%x", domain, address >> 8 & 0xff,
				     address >> 3 & 0x1f, address & 0x7);
	gpu->driver = info_file_line("/sys/module/amdgpu/version");
	gpu->error = rocr_alloc(gpu, agent);
	return HSA_STATUS_SUCCESS;
}

void info_gpus_rocr(struct info *info)
{
	struct info_runtime *runtime =
		info_append(&info->runtimes, &info->runtime_count, sizeof *runtime);
	size_t before = info->gpu_count;
	hsa_status_t status;

	runtime->name = "ROCm";
	runtime->library = ROCR_LIBRARY;
	if (!info_load(ROCR_LIBRARY, rocr_symbols, INFO_COUNT(rocr_symbols), &runtime->status))
		return;
	status = hsa.init();
	if (status != HSA_STATUS_SUCCESS) {
		runtime->status = rocr_error("hsa_init", status);
		return;
	}
	runtime->ready = true;
	status = hsa.iterate_agents(rocr_agent, info);
	runtime->status = status == HSA_STATUS_SUCCESS
				  ? info_text("devices: %zu", info->gpu_count - before)
				  : rocr_error("hsa_iterate_agents", status);
}
