/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The emulated ROCm device, as an application uses it. See unit.h. */
#include "unit.h"

#include <stdlib.h>

#include "dev/p2p_hsa_abi.h"

#define PAGE 4096

/* Agents as the emulation lists them: a CPU, then GPUs; each has one pool */
static hsa_agent_t agents[8];
static unsigned int agent_count;
static hsa_amd_memory_pool_t pool;

static hsa_status_t take_agent(hsa_agent_t agent, void *arg)
{
	assert_true(agent_count < UNIT_COUNT(agents));
	agents[agent_count++] = agent;
	return HSA_STATUS_SUCCESS;
}

static hsa_status_t take_pool(hsa_amd_memory_pool_t its_pool, void *arg)
{
	pool = its_pool;
	return HSA_STATUS_SUCCESS;
}

void unit_dev_use(int ordinal)
{
	assert_true(ordinal + 1 < (int) agent_count);
	assert_int_equal(hsa_amd_agent_iterate_memory_pools(agents[ordinal + 1], take_pool,
							    NULL),
			 HSA_STATUS_SUCCESS);
}

void unit_dev_start(void)
{
	assert_int_equal(hsa_init(), HSA_STATUS_SUCCESS);
	agent_count = 0;
	assert_int_equal(hsa_iterate_agents(take_agent, NULL), HSA_STATUS_SUCCESS);
	unit_dev_use(0);
	dev_init();
	assert_true(dev_present);
}

void *unit_dev_alloc(size_t len)
{
	void *ptr = NULL;

	assert_int_equal(hsa_amd_memory_pool_allocate(pool, len, 0, &ptr), HSA_STATUS_SUCCESS);
	return ptr;
}

void unit_dev_free(void *ptr)
{
	assert_int_equal(hsa_amd_memory_pool_free(ptr), HSA_STATUS_SUCCESS);
}

void unit_dev_write(void *dst, const void *src, size_t len)
{
	assert_int_equal(hsa_memory_copy(dst, src, len), HSA_STATUS_SUCCESS);
}

void unit_dev_read(void *dst, const void *src, size_t len)
{
	assert_int_equal(hsa_memory_copy(dst, src, len), HSA_STATUS_SUCCESS);
}

void *unit_dev_pinned(size_t len)
{
	void *ptr = NULL, *device_ptr;

	assert_int_equal(posix_memalign(&ptr, PAGE, len), 0);
	assert_int_equal(hsa_amd_memory_lock(ptr, len, NULL, 0, &device_ptr),
			 HSA_STATUS_SUCCESS);
	return ptr;
}

/* The emulation frees nothing before the device is idle. */
void unit_dev_sync(void)
{
	unit_dev_free(unit_dev_alloc(1));
}
