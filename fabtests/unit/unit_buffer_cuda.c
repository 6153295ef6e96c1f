/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The emulated CUDA device, for unit_buffer. */
#include "unit_buffer.h"

#include "../cudaemu/driver.h"

const enum fi_hmem_iface unit_buffer_iface = FI_HMEM_CUDA;

int unit_buffer_setup(void **state)
{
	unit_dev_start();
	return 0;
}

void unit_buffer_copy(void *dst, const void *src, size_t len)
{
	/* any thread may be the last that has the memory */
	unit_dev_use(0);
	assert_int_equal(cuMemcpy((uintptr_t) dst, (uintptr_t) src, len), CUDA_SUCCESS);
	assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
}
