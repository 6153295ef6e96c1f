/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The emulated ROCm device, for unit_buffer. */
#include "unit_buffer.h"

#include <stdlib.h>

#include "dev/p2p_hsa_abi.h"

const enum fi_hmem_iface unit_buffer_iface = FI_HMEM_ROCR;

/* The emulated CUDA driver may be found, too. It has no GPU then, as a driver without one. */
int unit_buffer_setup(void **state)
{
	unit_dev_start();
	return setenv("CUDAEMU_DEVICES", "0", 1);
}

void unit_buffer_copy(void *dst, const void *src, size_t len)
{
	assert_int_equal(hsa_memory_copy(dst, src, len), HSA_STATUS_SUCCESS);
}

void unit_buffer_capture(void)
{
}

void unit_buffer_captured(void)
{
}

void unit_buffer_put(void *dst, const void *src, size_t len)
{
	unit_buffer_copy(dst, src, len);
}

bool unit_buffer_own(bool begin)
{
	return false;
}

int unit_buffer_waits(void)
{
	return -1;
}
