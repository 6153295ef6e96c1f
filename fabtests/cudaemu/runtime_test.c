/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Shows that programs get the emulated GPU by our cuda_runtime.h and cuda.h, as far as MPI's test
 * programs and benchmarks use it. The same source compiles with NVIDIA's headers, so that what it
 * names is named alike.
 */
#include <cuda.h>
#include <cuda_runtime.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#define SIZE 4096

#define ok(call) assert_int_equal(call, cudaSuccess)

static void test_driver(void **state)
{
	CUcontext ctx;
	CUdevice dev;
	size_t bytes = 0;

	assert_int_equal(cuInit(0), CUDA_SUCCESS);
	assert_int_equal(cuDeviceGet(&dev, 0), CUDA_SUCCESS);
	assert_int_equal(cuDeviceTotalMem(&bytes, dev), CUDA_SUCCESS);
	assert_true(bytes > 0);
	assert_int_equal(cuDevicePrimaryCtxRetain(&ctx, dev), CUDA_SUCCESS);
	assert_int_equal(cuCtxSetCurrent(ctx), CUDA_SUCCESS);
	assert_int_equal(cuDevicePrimaryCtxRelease(dev), CUDA_SUCCESS);
}

static void test_device(void **state)
{
	struct cudaDeviceProp prop;
	int devices = 0, dev = -1, major = 0;

	/* The runtime writes the whole of it */
	_Static_assert(sizeof(prop) == 1008, "cudaDeviceProp");
	ok(cudaGetDeviceCount(&devices));
	assert_true(devices > 0);
	ok(cudaSetDevice(devices - 1));
	ok(cudaGetDevice(&dev));
	assert_int_equal(dev, devices - 1);
	assert_int_equal(cudaSetDevice(devices), cudaErrorInvalidDevice);
	assert_int_equal(cudaGetLastError(), cudaErrorInvalidDevice);
	assert_string_equal(cudaGetErrorString(cudaSuccess),
			    cudaGetErrorString(cudaGetLastError()));
	ok(cudaSetDevice(0));
	ok(cudaGetDeviceProperties(&prop, 0));
	ok(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
	assert_int_equal(prop.major, major);
	assert_true(prop.warpSize > 0 && prop.totalGlobalMem > 0);
}

/* Each kind of memory has its type, and all can be copied to each other */
static void test_memory(void **state)
{
	static char bytes[SIZE], back[SIZE];
	struct cudaPointerAttributes attributes;
	struct {
		enum cudaMemoryType type;
		void *ptr;
	} of[3] = {{cudaMemoryTypeDevice}, {cudaMemoryTypeHost}, {cudaMemoryTypeManaged}};
	int i;

	ok(cudaMalloc(&of[0].ptr, SIZE));
	ok(cudaMallocHost(&of[1].ptr, SIZE));
	ok(cudaMallocManaged(&of[2].ptr, SIZE, cudaMemAttachGlobal));
	for (i = 0; i < SIZE; i++)
		bytes[i] = (char) (i * 7);
	for (i = 0; i < 3; i++) {
		ok(cudaPointerGetAttributes(&attributes, of[i].ptr));
		assert_int_equal(attributes.type, of[i].type);
		assert_int_equal(attributes.device, 0);
		ok(cudaMemset(of[i].ptr, 1, SIZE));
		ok(cudaMemcpy(of[i].ptr, i ? of[i - 1].ptr : bytes, SIZE, cudaMemcpyDefault));
	}
	ok(cudaMemcpy(back, of[0].ptr, SIZE, cudaMemcpyDeviceToHost));
	assert_memory_equal(back, bytes, SIZE);
	ok(cudaMemcpy2D(back, 8, of[0].ptr, 16, 8, SIZE / 16, cudaMemcpyDeviceToHost));
	assert_memory_equal(back + 8, bytes + 16, 8);
	ok(cudaMemcpy(back, of[2].ptr, SIZE, cudaMemcpyDefault));
	assert_memory_equal(back, bytes, SIZE);
	ok(cudaFree(of[2].ptr));
	ok(cudaFreeHost(of[1].ptr));
	ok(cudaFree(of[0].ptr));
}

static void called(void *data)
{
	*(int *) data += 1;
}

static void test_streams(void **state)
{
	cudaStream_t stream;
	cudaEvent_t start, end;
	cudaGraph_t graph;
	cudaGraphExec_t exec;
	float ms = -1;
	int calls = 0;
	void *d;

	ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	ok(cudaEventCreate(&start));
	ok(cudaEventCreateWithFlags(&end, cudaEventDefault));
	ok(cudaMallocAsync(&d, SIZE, stream));
	ok(cudaEventRecord(start, stream));
	ok(cudaMemsetAsync(d, 1, SIZE, stream));
	ok(cudaLaunchHostFunc(stream, called, &calls));
	ok(cudaEventRecord(end, stream));
	ok(cudaEventSynchronize(end));
	ok(cudaEventElapsedTime(&ms, start, end));
	assert_true(ms >= 0);
	ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
	ok(cudaLaunchHostFunc(stream, called, &calls));
	ok(cudaStreamEndCapture(stream, &graph));
	ok(cudaGraphInstantiate(&exec, graph, 0));
	ok(cudaGraphLaunch(exec, stream));
	ok(cudaStreamSynchronize(stream));
	assert_int_equal(calls, 2);
	ok(cudaGraphExecDestroy(exec));
	ok(cudaGraphDestroy(graph));
	ok(cudaFreeAsync(d, stream));
	ok(cudaDeviceSynchronize());
	ok(cudaEventDestroy(end));
	ok(cudaEventDestroy(start));
	ok(cudaStreamDestroy(stream));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_driver),
		cmocka_unit_test(test_device),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_streams),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
