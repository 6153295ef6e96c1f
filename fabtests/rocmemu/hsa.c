/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Emulated HSA: start and end, agents, errors. */
#include "rocm.h"

#include <stdio.h>
#include <stdlib.h>

/* Handles of agents: never 0, and no pointers */
#define ROCM_CPU 1ull
#define ROCM_GPU 2ull

static pthread_mutex_t rocm_lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned int rocm_refs;
static CUcontext rocm_ctx[EMU_MAX_DEVICES];

hsa_status_t rocm_status(CUresult rc)
{
	switch (rc) {
	case CUDA_SUCCESS:
		return HSA_STATUS_SUCCESS;
	case CUDA_ERROR_INVALID_VALUE:
		return HSA_STATUS_ERROR_INVALID_ARGUMENT;
	case CUDA_ERROR_OUT_OF_MEMORY:
	case CUDA_ERROR_NO_DEVICE:
		return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
	case CUDA_ERROR_NOT_INITIALIZED:
		return HSA_STATUS_ERROR_NOT_INITIALIZED;
	default:
		return HSA_STATUS_ERROR;
	}
}

hsa_status_t rocm_enter(const char *function)
{
	CUresult rc = emu_enter(function, EMU_NEED_NOTHING);

	if (rc == CUDA_SUCCESS && !__atomic_load_n(&rocm_refs, __ATOMIC_ACQUIRE))
		rc = CUDA_ERROR_NOT_INITIALIZED;
	return rocm_status(rc);
}

void rocm_fault(const char *function, const void *ptr)
{
	fprintf(stderr, "rocmemu: %s: no device can reach %p\n", function, ptr);
	abort();
}

hsa_status_t hsa_init(void)
{
	CUresult rc = emu_enter(__func__, EMU_NEED_NOTHING);

	pthread_mutex_lock(&rocm_lock);
	emu.vendor = "ROCm";
	if (rc == CUDA_SUCCESS)
		rc = cuInit(0);
	for (int i = 0; rc == CUDA_SUCCESS && !rocm_refs && i < emu.conf.devices; i++)
		rc = cuDevicePrimaryCtxRetain(&rocm_ctx[i], i);
	if (rc == CUDA_SUCCESS)
		__atomic_add_fetch(&rocm_refs, 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&rocm_lock);
	return rocm_status(rc);
}

/* What there is stays; it only cannot be asked for any more */
hsa_status_t hsa_shut_down(void)
{
	ROCM_ENTER();
	pthread_mutex_lock(&rocm_lock);
	__atomic_sub_fetch(&rocm_refs, 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&rocm_lock);
	return HSA_STATUS_SUCCESS;
}

hsa_status_t hsa_status_string(hsa_status_t status, const char **text)
{
#define ROCM_NAMED(code, value) {code, #code},
	static const struct {
		hsa_status_t status;
		const char *text;
	} texts[] = {P2P_HSA_STATUSES(ROCM_NAMED)};
#undef ROCM_NAMED

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (texts[i].status == status) {
			*text = texts[i].text;
			return HSA_STATUS_SUCCESS;
		}
	}
	return HSA_STATUS_ERROR_INVALID_ARGUMENT;
}

CUdevice rocm_device(hsa_agent_t agent)
{
	if (agent.handle == ROCM_CPU)
		return EMU_NO_DEVICE;
	if (agent.handle < ROCM_GPU || agent.handle - ROCM_GPU >= (unsigned) emu.conf.devices)
		return EMU_NO_DEVICE - 1;
	return (CUdevice) (agent.handle - ROCM_GPU);
}

hsa_agent_t rocm_agent(CUdevice dev)
{
	return (hsa_agent_t){dev == EMU_NO_DEVICE ? ROCM_CPU : ROCM_GPU + (unsigned) dev};
}

CUresult rocm_use(CUdevice dev)
{
	return cuCtxSetCurrent(rocm_ctx[dev]);
}

hsa_status_t hsa_iterate_agents(hsa_status_t (*callback)(hsa_agent_t agent, void *data),
				void *data)
{
	hsa_status_t status;

	ROCM_ENTER();
	status = callback(rocm_agent(EMU_NO_DEVICE), data);
	for (int i = 0; status == HSA_STATUS_SUCCESS && i < emu.conf.devices; i++)
		status = callback(rocm_agent(i), data);
	return status;
}

hsa_status_t hsa_agent_get_info(hsa_agent_t agent, hsa_agent_info_t info, void *value)
{
	CUdevice dev = rocm_device(agent);

	ROCM_ENTER();
	if (dev < EMU_NO_DEVICE)
		return HSA_STATUS_ERROR_INVALID_AGENT;
	/* AMD's are of another enumeration */
	switch ((int) info) {
	case HSA_AMD_AGENT_INFO_PRODUCT_NAME:
	case HSA_AGENT_INFO_NAME:
		/* 64 bytes, as HSA has it */
		snprintf(value, 64, dev >= 0 ? "rocmemu emulated GPU %d" : "rocmemu CPU", dev);
		return HSA_STATUS_SUCCESS;
	case HSA_AGENT_INFO_DEVICE:
		*(hsa_device_type_t *) value =
			dev >= 0 ? HSA_DEVICE_TYPE_GPU : HSA_DEVICE_TYPE_CPU;
		return HSA_STATUS_SUCCESS;
	case HSA_AMD_AGENT_INFO_BDFID:
		/* bus, device and function; not the buses of the emulated CUDA devices */
		*(uint32_t *) value = dev >= 0 ? (0xc0 + (uint32_t) dev) << 8 : 0;
		return HSA_STATUS_SUCCESS;
	case HSA_AMD_AGENT_INFO_DOMAIN:
		*(uint32_t *) value = 0;
		return HSA_STATUS_SUCCESS;
	}
	return HSA_STATUS_ERROR_INVALID_ARGUMENT;
}
