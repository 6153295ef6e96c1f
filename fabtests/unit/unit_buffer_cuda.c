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
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	/* any thread may be the last that has the memory, and the thread may capture a stream */
	unit_dev_use(0);
	assert_int_equal(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
	assert_int_equal(cuMemcpy((uintptr_t) dst, (uintptr_t) src, len), CUDA_SUCCESS);
	assert_int_equal(cuStreamSynchronize(NULL), CUDA_SUCCESS);
	assert_int_equal(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
}

static CUcontext unit_buffer_ctx;

bool unit_buffer_own(bool begin)
{
	if (begin)
		assert_int_equal(cuCtxCreate_v2(&unit_buffer_ctx, 0, 0), CUDA_SUCCESS);
	else
		assert_int_equal(cuCtxDestroy_v2(unit_buffer_ctx), CUDA_SUCCESS);
	if (!begin)
		unit_buffer_ctx = NULL;
	return true;
}

void unit_buffer_put(void *dst, const void *src, size_t len)
{
	/* the tests' other copies are made in the primary one */
	if (unit_buffer_ctx)
		assert_int_equal(cuCtxSetCurrent(unit_buffer_ctx), CUDA_SUCCESS);
	assert_int_equal(cuMemcpyHtoD_v2((uintptr_t) dst, src, len), CUDA_SUCCESS);
}

static CUstream unit_buffer_stream;
static CUdeviceptr unit_buffer_work;

void unit_buffer_capture(void)
{
	unit_dev_use(0);
	if (!unit_buffer_stream) {
		assert_int_equal(cuStreamCreate(&unit_buffer_stream, CU_STREAM_NON_BLOCKING),
				 CUDA_SUCCESS);
		assert_int_equal(cuMemAlloc_v2(&unit_buffer_work, 64), CUDA_SUCCESS);
	}
	assert_int_equal(cuStreamBeginCapture_v2(unit_buffer_stream,
						 CU_STREAM_CAPTURE_MODE_GLOBAL),
			 CUDA_SUCCESS);
	assert_int_equal(cuMemsetD8Async(unit_buffer_work, 1, 64, unit_buffer_stream),
			 CUDA_SUCCESS);
}

void unit_buffer_captured(void)
{
	CUgraph graph = NULL;

	assert_int_equal(cuStreamEndCapture(unit_buffer_stream, &graph), CUDA_SUCCESS);
	assert_int_equal(cuGraphDestroy(graph), CUDA_SUCCESS);
}

int unit_buffer_waits(void)
{
	unsigned int flags = 0;
	int active;

	assert_int_equal(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
	assert_int_equal(cuDevicePrimaryCtxSetFlags_v2(0, flags & ~CU_CTX_SYNC_MEMOPS),
			 CUDA_SUCCESS);
	return flags & CU_CTX_SYNC_MEMOPS ? 1 : 0;
}
