/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The emulated CUDA device, as an application uses it. See unit.h. */
#include "unit.h"

#include "../cudaemu/driver.h"

void unit_dev_use(int ordinal)
{
	CUcontext ctx;

	assert_int_equal(cuDevicePrimaryCtxRetain(&ctx, ordinal), CUDA_SUCCESS);
	assert_int_equal(cuCtxSetCurrent(ctx), CUDA_SUCCESS);
}

void unit_dev_start(void)
{
	assert_int_equal(cuInit(0), CUDA_SUCCESS);
	unit_dev_use(0);
	dev_init();
	assert_true(dev_present);
}

void *unit_dev_alloc(size_t len)
{
	CUdeviceptr ptr = 0;

	assert_int_equal(cuMemAlloc_v2(&ptr, len), CUDA_SUCCESS);
	return (void *) (uintptr_t) ptr;
}

void unit_dev_free(void *ptr)
{
	assert_int_equal(cuMemFree_v2((uintptr_t) ptr), CUDA_SUCCESS);
}

void unit_dev_write(void *dst, const void *src, size_t len)
{
	assert_int_equal(cuMemcpyHtoD_v2((uintptr_t) dst, src, len), CUDA_SUCCESS);
	assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
}

void unit_dev_read(void *dst, const void *src, size_t len)
{
	assert_int_equal(cuMemcpyDtoH_v2(dst, (uintptr_t) src, len), CUDA_SUCCESS);
}

void *unit_dev_pinned(size_t len)
{
	void *ptr = NULL;

	assert_int_equal(cuMemHostAlloc(&ptr, len, CU_MEMHOSTALLOC_PORTABLE), CUDA_SUCCESS);
	return ptr;
}

void unit_dev_sync(void)
{
	assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
}
