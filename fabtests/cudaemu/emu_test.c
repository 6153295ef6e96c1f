/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Shows that the emulator is as strict as it says. A test device that lets errors pass is worse
 * than none.
 *
 * Gates force the order of operations: a stream waits for a value in pinned memory. No test
 * sleeps for it.
 */
#define _GNU_SOURCE
#include "emu_test.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE 10000

static CUcontext ctx;
static CUstream stream;
/* The gate, and room for results */
static volatile uint32_t *pinned;

static int setup(void **state)
{
	void *p;

	ok(cuInit(0));
	ok(cuDevicePrimaryCtxRetain(&ctx, 0));
	ok(cuCtxSetCurrent(ctx));
	ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ok(cuMemHostAlloc(&p, 1 << 20, 0));
	pinned = p;
	return 0;
}

static int teardown(void **state)
{
	ok(cuMemFreeHost((void *) pinned));
	ok(cuStreamDestroy_v2(stream));
	ok(cuDevicePrimaryCtxRelease_v2(0));
	return 0;
}

static void gate_close(CUstream s)
{
	__atomic_store_n(pinned, 0, __ATOMIC_SEQ_CST);
	ok(cuStreamWaitValue32_v2(s, (uintptr_t) pinned, 1, CU_STREAM_WAIT_VALUE_EQ));
}

static void gate_open(void)
{
	__atomic_store_n(pinned, 1, __ATOMIC_SEQ_CST);
}

static void fill(unsigned char *p, size_t n, unsigned int seed)
{
	size_t i;

	for (i = 0; i < n; i++)
		p[i] = (unsigned char) (i * 7 + seed);
}

static void test_copies(void **state)
{
	unsigned char in[SIZE], out[SIZE];
	CUdeviceptr a, b;
	size_t off;

	ok(cuMemAlloc_v2(&a, SIZE));
	ok(cuMemAlloc_v2(&b, SIZE));
	fill(in, SIZE, 1);
	for (off = 0; off < 9; off += 3) {
		ok(cuMemcpyHtoD_v2(a + off, in, SIZE - off));
		ok(cuMemcpyDtoD_v2(b, a + off, SIZE - off));
		memset(out, 0, SIZE);
		ok(cuMemcpyDtoH_v2(out, b, SIZE - off));
		assert_memory_equal(in, out, SIZE - off);
	}
	ok(cuMemcpy(b, a, SIZE));
	ok(cuMemcpy((uintptr_t) out, (uintptr_t) in, SIZE));
	assert_memory_equal(in, out, SIZE);
	fails(cuMemcpyHtoD_v2(a + 1, in, SIZE), CUDA_ERROR_INVALID_VALUE);
	fails(cuMemcpyDtoH_v2(out, a + SIZE - 4, 5), CUDA_ERROR_INVALID_VALUE);
	fails(cuMemcpyDtoD_v2(b, a + SIZE, 1), CUDA_ERROR_INVALID_VALUE);
	fails(cuMemcpyDtoD_v2(b + 9, a, SIZE - 8), CUDA_ERROR_INVALID_VALUE);
	fails(cuMemsetD8_v2(a, 0, SIZE + 1), CUDA_ERROR_INVALID_VALUE);
	fails(cuMemcpyHtoD_v2((uintptr_t) out, in, 1), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemFree_v2(b));
	fails(cuMemcpyDtoH_v2(out, b, 1), CUDA_ERROR_INVALID_VALUE);
	fails(cuMemFree_v2(b), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemFree_v2(a));
}

static void test_copies_2d(void **state)
{
	unsigned char in[64], out[64] = {0}, want[64] = {0};
	CUDA_MEMCPY2D copy = {
		.srcMemoryType = CU_MEMORYTYPE_HOST,
		.srcHost = in,
		.srcPitch = 16,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstPitch = 32,
		.WidthInBytes = 5,
		.Height = 4,
	};
	CUdeviceptr d;
	int row;

	fill(in, sizeof(in), 3);
	ok(cuMemAlloc_v2(&d, 3 * 32 + 5));
	copy.dstDevice = d;
	ok(cuMemcpy2D_v2(&copy));
	for (row = 0; row < 4; row++) {
		ok(cuMemcpyDtoH_v2(out + row * 5, d + (CUdeviceptr) row * 32, 5));
		memcpy(want + row * 5, in + row * 16, 5);
	}
	assert_memory_equal(out, want, sizeof(want));
	copy.Height = 5;
	fails(cuMemcpy2D_v2(&copy), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemFree_v2(d));
}

static void test_poison(void **state)
{
	unsigned char out[2];
	CUdeviceptr d;

	ok(cuMemAlloc_v2(&d, SIZE));
	ok(cuMemcpyDtoH_v2(out, d, 1));
	ok(cuMemcpyDtoH_v2(out + 1, d + SIZE - 1, 1));
	assert_int_equal(out[0], 0xdb);
	assert_int_equal(out[1], 0xdb);
	ok(cuMemFree_v2(d));
}

static uint64_t buffer_id(CUdeviceptr d)
{
	uint64_t id = 0;

	ok(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, d));
	return id;
}

static void test_reuse(void **state)
{
	uint64_t ids[3];
	CUdeviceptr a, b, c;
	void *h, *h2;

	ok(cuMemAlloc_v2(&a, SIZE));
	ok(cuMemAlloc_v2(&b, SIZE));
	ids[0] = buffer_id(a);
	ids[1] = buffer_id(b);
	assert_int_not_equal(ids[0], ids[1]);
	ok(cuMemFree_v2(a));
	ok(cuMemAlloc_v2(&c, SIZE - 1));
	ids[2] = buffer_id(c);
	assert_true(c == a);
	assert_int_not_equal(ids[2], ids[0]);
	fails(cuMemcpyDtoD_v2(b, c, SIZE), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemFree_v2(b));
	ok(cuMemFree_v2(c));
	ok(cuMemHostAlloc(&h, SIZE, 0));
	ids[0] = buffer_id((uintptr_t) h);
	ok(cuMemFreeHost(h));
	ok(cuMemHostAlloc(&h2, SIZE, 0));
	assert_ptr_equal(h, h2);
	assert_int_not_equal(ids[0], buffer_id((uintptr_t) h2));
	memset(h2, 1, SIZE);
	ok(cuMemFreeHost(h2));
}

/* Nothing shows at the destination before the stream gets there */
static void test_asynchronous(void **state)
{
	volatile unsigned char *h = (volatile unsigned char *) pinned + 4096;
	CUdeviceptr d;
	CUevent event;

	ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	ok(cuMemAlloc_v2(&d, 64));
	ok(cuMemsetD8_v2(d, 1, 64));
	ok(cuCtxSynchronize());
	*h = 7;
	gate_close(stream);
	ok(cuMemcpyDtoHAsync_v2((void *) h, d, 1, stream));
	ok(cuEventRecord(event, stream));
	fails(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
	fails(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	assert_int_equal(*h, 7);
	gate_open();
	ok(cuEventSynchronize(event));
	ok(cuEventQuery(event));
	assert_int_equal(*h, 1);
	ok(cuStreamSynchronize(stream));
	ok(cuStreamQuery(stream));

	/* a pinned source is read when the copy runs, not when it is asked for */
	*h = 2;
	gate_close(stream);
	ok(cuMemcpyHtoDAsync_v2(d, (void *) h, 1, stream));
	*h = 3;
	gate_open();
	ok(cuMemcpyDtoHAsync_v2((void *) (h + 1), d, 1, stream));
	ok(cuStreamSynchronize(stream));
	assert_int_equal(h[1], 3);
	ok(cuMemFree_v2(d));
	ok(cuEventDestroy_v2(event));
	fails(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
}

static void *opener(void *arg)
{
	gate_open();
	return NULL;
}

/* Small pageable sources are staged. Pageable destinations make the caller wait. */
static void test_pageable(void **state)
{
	unsigned char host[2] = {5, 0};
	CUdeviceptr d;
	pthread_t thread;

	ok(cuMemAlloc_v2(&d, 64));
	gate_close(stream);
	ok(cuMemcpyHtoDAsync_v2(d, host, 1, stream));
	host[0] = 6;
	assert_int_equal(pthread_create(&thread, NULL, opener, NULL), 0);
	ok(cuMemcpyDtoHAsync_v2(host + 1, d, 1, stream));
	assert_int_equal(host[1], 5);
	ok(cuStreamQuery(stream));
	assert_int_equal(pthread_join(thread, NULL), 0);

	/* The synchronous form begins behind the default stream; other streams do not wait */
	gate_close(NULL);
	ok(cuMemcpyDtoHAsync_v2(host + 1, d, 1, stream));
	assert_int_equal(host[1], 5);
	fails(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	assert_int_equal(pthread_create(&thread, NULL, opener, NULL), 0);
	ok(cuMemcpyHtoD_v2(d, host, 1));
	assert_int_equal(*pinned, 1);
	ok(cuMemcpyDtoH_v2(host + 1, d, 1));
	assert_int_equal(host[1], 6);
	assert_int_equal(pthread_join(thread, NULL), 0);
	ok(cuMemFree_v2(d));
}

static void test_stream_order(void **state)
{
	volatile uint32_t *h = pinned + 1024;
	CUdeviceptr d;
	CUstream other;
	CUevent event;
	uint32_t i;

	ok(cuMemAlloc_v2(&d, 4));
	ok(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	ok(cuEventCreate(&event, 0));
	for (i = 0; i < 1000; i++) {
		ok(cuStreamWriteValue32_v2(stream, d, i, 0));
		ok(cuMemcpyDtoHAsync_v2((void *) &h[i], d, 4, stream));
	}
	ok(cuStreamSynchronize(stream));
	for (i = 0; i < 1000; i++)
		assert_int_equal(h[i], i);

	/* the other stream waits for the event, and so for the gate */
	gate_close(stream);
	ok(cuStreamWriteValue32_v2(stream, d, 77, 0));
	ok(cuEventRecord(event, stream));
	ok(cuStreamWaitEvent(other, event, 0));
	ok(cuMemcpyDtoHAsync_v2((void *) h, d, 4, other));
	fails(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
	gate_open();
	ok(cuStreamSynchronize(other));
	assert_int_equal(h[0], 77);
	ok(cuStreamDestroy_v2(other));
	fails(cuStreamQuery(other), CUDA_ERROR_INVALID_HANDLE);
	ok(cuEventDestroy_v2(event));
	ok(cuMemFree_v2(d));
}

/* The default stream and blocking streams wait for each other */
static void test_default_stream(void **state)
{
	CUstream blocking;

	ok(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
	gate_close(blocking);
	ok(cuStreamWriteValue32_v2(NULL, (uintptr_t) (pinned + 1), 1, 0));
	fails(cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
	ok(cuStreamQuery(stream));
	gate_open();
	ok(cuStreamSynchronize(NULL));
	ok(cuStreamQuery(blocking));
	gate_close(NULL);
	ok(cuStreamWriteValue32_v2(blocking, (uintptr_t) (pinned + 1), 1, 0));
	fails(cuStreamQuery(blocking), CUDA_ERROR_NOT_READY);
	gate_open();
	ok(cuStreamSynchronize(blocking));
	ok(cuStreamDestroy_v2(blocking));
}

static void test_memops(void **state)
{
	uint64_t *wide = (uint64_t *) (uintptr_t) (pinned + 16);
	CUdeviceptr d;
	CUstreamBatchMemOpParams batch[3];
	uint32_t back;

	ok(cuMemAlloc_v2(&d, 16));
	ok(cuStreamWriteValue64_v2(stream, (uintptr_t) wide, 1ull << 40, 0));
	ok(cuStreamWaitValue64_v2(stream, (uintptr_t) wide, 1ull << 40,
				  CU_STREAM_WAIT_VALUE_GEQ));
	ok(cuStreamWaitValue64_v2(stream, (uintptr_t) wide, 3ull << 40,
				  CU_STREAM_WAIT_VALUE_AND));
	/* cyclic: 2 is at or after 0xffffffff */
	ok(cuStreamWriteValue32_v2(stream, d, 2, 0));
	ok(cuStreamWaitValue32_v2(stream, d, 0xffffffff, CU_STREAM_WAIT_VALUE_GEQ));
	ok(cuStreamWaitValue32_v2(stream, d, 0xfffffff0, CU_STREAM_WAIT_VALUE_NOR));
	memset(batch, 0, sizeof(batch));
	batch[0].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	batch[0].writeValue.address = d + 4;
	batch[0].writeValue.value = 42;
	batch[1].operation = CU_STREAM_MEM_OP_BARRIER;
	batch[2].operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
	batch[2].waitValue.address = d + 4;
	batch[2].waitValue.value = 42;
	batch[2].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
	ok(cuStreamBatchMemOp_v2(stream, 3, batch, 0));
	ok(cuStreamSynchronize(stream));
	ok(cuMemcpyDtoH_v2(&back, d + 4, 4));
	assert_int_equal(back, 42);
	batch[2].waitValue.address = (uintptr_t) &back;
	batch[0].writeValue.value = 43;
	fails(cuStreamBatchMemOp_v2(stream, 3, batch, 0), CUDA_ERROR_INVALID_VALUE);
	ok(cuStreamSynchronize(stream));
	ok(cuMemcpyDtoH_v2(&back, d + 4, 4));
	assert_int_equal(back, 42);
	fails(cuStreamWriteValue32_v2(stream, d + 2, 1, 0), CUDA_ERROR_INVALID_VALUE);
	fails(cuStreamWaitValue32_v2(stream, d, 1, CU_STREAM_WAIT_VALUE_FLUSH),
	      CUDA_ERROR_INVALID_VALUE);
	ok(cuMemFree_v2(d));
}

/* What a host function is answered */
static struct {
	CUresult device, query, record, write;
	CUevent event;
} answers;

static void host_function(void *data)
{
	CUdevice device;

	answers.device = cuDeviceGet(&device, 0);
	answers.query = cuStreamQuery(stream);
	answers.record = cuEventRecord(answers.event, stream);
	answers.write = cuStreamWriteValue32_v2(stream, (uintptr_t) pinned, 7, 0);
	*(uint32_t *) data += 1;
}

static void stream_callback(CUstream s, CUresult status, void *data)
{
	*(uint32_t *) data += status == CUDA_SUCCESS && s == stream ? 10 : 0;
}

static void test_host_functions(void **state)
{
	uint32_t calls = 0;

	ok(cuEventCreate(&answers.event, 0));
	ok(cuLaunchHostFunc(stream, host_function, &calls));
	ok(cuStreamAddCallback(stream, stream_callback, &calls, 0));
	ok(cuStreamSynchronize(stream));
	assert_int_equal(calls, 11);
	assert_int_equal(answers.device, CUDA_ERROR_NOT_PERMITTED);
	assert_int_equal(answers.query, CUDA_ERROR_NOT_READY);
	ok(answers.record);
	ok(answers.write);
	ok(cuStreamSynchronize(stream));
	ok(cuEventQuery(answers.event));
	assert_int_equal(*pinned, 7);
	ok(cuEventDestroy_v2(answers.event));
}

static void test_events(void **state)
{
	CUevent a, b, untimed;
	float ms = -1;

	ok(cuEventCreate(&a, 0));
	ok(cuEventCreate(&b, 0));
	ok(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
	ok(cuEventQuery(a));
	fails(cuEventElapsedTime_v2(&ms, a, b), CUDA_ERROR_INVALID_HANDLE);
	ok(cuEventRecord(a, stream));
	gate_close(stream);
	ok(cuEventRecord(b, stream));
	ok(cuEventRecord(untimed, stream));
	fails(cuEventElapsedTime_v2(&ms, a, b), CUDA_ERROR_NOT_READY);
	gate_open();
	ok(cuEventSynchronize(b));
	ok(cuEventElapsedTime_v2(&ms, a, b));
	assert_true(ms >= 0);
	ok(cuEventSynchronize(untimed));
	fails(cuEventElapsedTime_v2(&ms, a, untimed), CUDA_ERROR_INVALID_HANDLE);
	fails(cuEventCreate(&a, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
	ok(cuEventDestroy_v2(a));
	ok(cuEventDestroy_v2(b));
	ok(cuEventDestroy_v2(untimed));
}

/* The copies of a batch have no order. A bad one keeps all of it from running. */
static void test_batch(void **state)
{
	unsigned char *h = (unsigned char *) (uintptr_t) (pinned + 1024);
	CUdeviceptr d, dsts[3], srcs[3];
	size_t sizes[3] = {10, 20, 30}, first[1] = {0}, i;
	CUmemcpyAttributes attrs[1] = {{.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM}};

	fill(h, 128, 9);
	ok(cuMemAlloc_v2(&d, 96));
	for (i = 0; i < 3; i++) {
		dsts[i] = d + i * 32;
		srcs[i] = (uintptr_t) (h + i * 32);
	}
	ok(cuMemcpyBatchAsync_v2(dsts, srcs, sizes, 3, attrs, first, 1, stream));
	ok(cuStreamSynchronize(stream));
	for (i = 0; i < 3; i++) {
		ok(cuMemcpyDtoH_v2(h + 512, d + i * 32, sizes[i]));
		assert_memory_equal(h + 512, h + i * 32, sizes[i]);
	}
	ok(cuMemsetD8_v2(d, 1, 96));
	ok(cuCtxSynchronize());
	sizes[1] = 200;
	fails(cuMemcpyBatchAsync_v2(dsts, srcs, sizes, 3, attrs, first, 1, stream),
	      CUDA_ERROR_INVALID_VALUE);
	fails(cuMemcpyBatchAsync_v2(dsts, srcs, sizes, 1, attrs, first, 1, NULL),
	      CUDA_ERROR_INVALID_VALUE);
	ok(cuStreamSynchronize(stream));
	ok(cuMemcpyDtoH_v2(h + 512, d, 1));
	assert_int_equal(h[512], 1);
	/* the source may change after the call if the attribute says so */
	sizes[0] = 1;
	attrs[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
	h[0] = 1;
	gate_close(stream);
	ok(cuMemcpyBatchAsync_v2(dsts, srcs, sizes, 1, attrs, first, 1, stream));
	h[0] = 2;
	gate_open();
	ok(cuStreamSynchronize(stream));
	ok(cuMemcpyDtoH_v2(h + 512, d, 1));
	assert_int_equal(h[512], 1);
	ok(cuMemFree_v2(d));
}

static void test_attributes(void **state)
{
	CUpointer_attribute names[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				       CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
				       CU_POINTER_ATTRIBUTE_BUFFER_ID};
	unsigned int type = 9;
	int ordinal = 9;
	uint64_t id = 9;
	void *out[] = {&type, &ordinal, &id}, *h;
	CUcontext owner = NULL;
	CUdeviceptr d, base;
	size_t size;
	char local;

	ok(cuMemAlloc_v2(&d, SIZE));
	ok(cuPointerGetAttributes(3, names, out, d + 5));
	assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
	assert_int_equal(ordinal, 0);
	assert_int_not_equal(id, 0);
	ok(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, d));
	assert_ptr_equal(owner, ctx);
	ok(cuMemGetAddressRange_v2(&base, &size, d + 99));
	assert_true(base == d && size == SIZE);
	ok(cuPointerGetAttributes(3, names, out, (uintptr_t) &local));
	assert_int_equal(type, 0);
	assert_int_equal(ordinal, -2);
	assert_int_equal(id, 0);
	fails(cuPointerGetAttribute(&type, names[0], (uintptr_t) &local),
	      CUDA_ERROR_INVALID_VALUE);
	fails(cuPointerGetAttribute(&type, names[0], d + SIZE), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemFree_v2(d));
	fails(cuPointerGetAttribute(&type, names[0], d), CUDA_ERROR_INVALID_VALUE);

	/* registered memory is known, and a copy may not run over its end */
	h = aligned_alloc(4096, 8192);
	assert_non_null(h);
	ok(cuMemHostRegister_v2(h, 4096, 0));
	fails(cuMemHostRegister_v2(h, 64, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
	ok(cuPointerGetAttribute(&type, names[0], (uintptr_t) h));
	assert_int_equal(type, CU_MEMORYTYPE_HOST);
	ok(cuMemAlloc_v2(&d, SIZE));
	fails(cuMemcpyHtoD_v2(d, h, 8192), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemHostUnregister(h));
	fails(cuMemHostUnregister(h), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
	ok(cuMemcpyHtoD_v2(d, h, 8192));
	ok(cuMemFree_v2(d));
	free(h);

	ok(cuMemAllocManaged(&d, SIZE, CU_MEM_ATTACH_GLOBAL));
	ok(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_IS_MANAGED, d));
	assert_int_equal(type, 1);
	memset((void *) (uintptr_t) d, 3, SIZE);
	ok(cuMemcpyDtoH_v2(&local, d + 1, 1));
	assert_int_equal(local, 3);
	ok(cuMemFree_v2(d));
}

static void test_contexts(void **state)
{
	CUcontext second, got;
	CUdeviceptr d, base;
	CUevent event;
	size_t available, total;
	int dev, can;

	ok(cuCtxCreate_v2(&second, 0, 1));
	ok(cuCtxGetDevice(&dev));
	assert_int_equal(dev, 1);
	ok(cuMemAlloc_v2(&d, SIZE));
	ok(cuPointerGetAttribute(&dev, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, d));
	assert_int_equal(dev, 1);
	ok(cuEventCreate(&event, 0));
	fails(cuEventRecord(event, stream), CUDA_ERROR_INVALID_HANDLE);
	ok(cuEventDestroy_v2(event));
	ok(cuCtxPopCurrent_v2(&got));
	assert_ptr_equal(got, second);
	ok(cuCtxGetCurrent(&got));
	assert_ptr_equal(got, ctx);
	ok(cuDeviceCanAccessPeer(&can, 0, 1));
	assert_int_equal(can, 1);
	ok(cuCtxEnablePeerAccess(second, 0));
	fails(cuCtxEnablePeerAccess(second, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);

	/* a stream brings its context along; most other calls want a current one */
	ok(cuCtxPopCurrent_v2(&got));
	fails(cuCtxPopCurrent_v2(&got), CUDA_ERROR_INVALID_CONTEXT);
	fails(cuMemAlloc_v2(&base, 1), CUDA_ERROR_INVALID_CONTEXT);
	fails(cuMemGetAddressRange_v2(&base, NULL, d), CUDA_ERROR_INVALID_CONTEXT);
	fails(cuMemcpyDtoH_v2(&dev, d, 1), CUDA_ERROR_INVALID_CONTEXT);
	fails(cuMemcpyDtoHAsync_v2(&dev, d, 1, NULL), CUDA_ERROR_INVALID_CONTEXT);
	ok(cuMemcpyDtoHAsync_v2(&dev, d, 1, stream));
	ok(cuMemFree_v2(d));
	ok(cuCtxSetCurrent(ctx));
	ok(cuCtxDestroy_v2(second));
	ok(cuCtxSetCurrent(second));
	fails(cuMemAlloc_v2(&d, 1), CUDA_ERROR_CONTEXT_IS_DESTROYED);
	ok(cuCtxSetCurrent(ctx));
	ok(cuMemGetInfo_v2(&available, &total));
	fails(cuMemAlloc_v2(&d, available + 1), CUDA_ERROR_OUT_OF_MEMORY);
}

static CUmemAllocationProp vmm_prop(void)
{
	CUmemAllocationProp prop;

	memset(&prop, 0, sizeof(prop));
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	return prop;
}

static void test_vmm(void **state)
{
	const size_t piece = 2 << 20;
	CUmemAllocationProp prop = vmm_prop();
	CUmemAccessDesc access = {
		.location = prop.location,
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	CUmemGenericAllocationHandle handle[2], shared;
	unsigned char in[64], out[64];
	CUdeviceptr va, other;
	CUcontext owner;
	int fd, i;

	ok(cuMemAddressReserve(&va, 2 * piece, 0, 0, 0));
	fails(cuMemcpyHtoD_v2(va, in, 1), CUDA_ERROR_INVALID_VALUE);
	for (i = 0; i < 2; i++) {
		ok(cuMemCreate(&handle[i], piece, &prop, 0));
		ok(cuMemMap(va + (CUdeviceptr) i * piece, piece, 0, handle[i], 0));
	}
	fails(cuMemcpyHtoD_v2(va, in, 1), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemSetAccess(va, 2 * piece, &access, 1));
	fill(in, sizeof(in), 4);
	/* across the seam of the two mappings */
	ok(cuMemcpyHtoD_v2(va + piece - 32, in, 64));
	ok(cuMemcpyDtoH_v2(out, va + piece - 32, 64));
	assert_memory_equal(in, out, 64);
	ok(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, va));
	assert_null(owner);
	i = 1;
	fails(cuPointerSetAttribute(&i, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, va),
	      CUDA_ERROR_NOT_SUPPORTED);

	/* the same bytes through an exported and imported handle */
	ok(cuMemExportToShareableHandle(&fd, handle[1],
					CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	ok(cuMemImportFromShareableHandle(&shared, (void *) (uintptr_t) fd,
					  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(fd);
	ok(cuMemAddressReserve(&other, piece, 0, 0, 0));
	ok(cuMemMap(other, piece, 0, shared, 0));
	ok(cuMemSetAccess(other, piece, &access, 1));
	ok(cuMemcpyDtoH_v2(out, other, 32));
	assert_memory_equal(in + 32, out, 32);
	ok(cuMemUnmap(other, piece));
	ok(cuMemRelease(shared));
	ok(cuMemAddressFree(other, piece));

	fails(cuMemAddressFree(va, 2 * piece), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemRelease(handle[0]));
	ok(cuMemRelease(handle[1]));
	fails(cuMemRelease(handle[0]), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemUnmap(va, 2 * piece));
	fails(cuMemcpyDtoH_v2(out, va, 1), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemAddressFree(va, 2 * piece));
}

static void test_pools(void **state)
{
	CUmemoryPool pool, owner;
	cuuint64_t used;
	CUcontext none;
	CUdeviceptr d;

	ok(cuDeviceGetDefaultMemPool(&pool, 0));
	gate_close(stream);
	ok(cuMemAllocAsync(&d, SIZE, stream));
	ok(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, d));
	assert_ptr_equal(owner, pool);
	ok(cuPointerGetAttribute(&none, CU_POINTER_ATTRIBUTE_CONTEXT, d));
	assert_null(none);
	ok(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
	assert_int_equal(used, SIZE);
	ok(cuMemFreeAsync(d, stream));
	fails(cuMemFreeAsync(d, stream), CUDA_ERROR_INVALID_VALUE);
	/* the memory is still there: the stream has not come to the free yet */
	ok(cuMemcpyHtoD_v2(d, "x", 1));
	ok(cuStreamSynchronize(NULL));
	gate_open();
	ok(cuStreamSynchronize(stream));
	fails(cuMemcpyHtoD_v2(d, "x", 1), CUDA_ERROR_INVALID_VALUE);
	ok(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
	assert_int_equal(used, 0);
}

static void test_dmabuf(void **state)
{
	CUdeviceptr d;
	CUresult rc;
	int fd = -1, supported;

	ok(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0));
	ok(cuMemAlloc_v2(&d, 1 << 16));
	fails(cuMemGetHandleForAddressRange(&fd, d + 512, 4096,
					    CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
	      CUDA_ERROR_INVALID_VALUE);
	fails(cuMemGetHandleForAddressRange(&fd, d, 1 << 17,
					    CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0),
	      CUDA_ERROR_INVALID_VALUE);
	rc = cuMemGetHandleForAddressRange(&fd, d, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
					   0);
	assert_int_equal(rc, supported ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED);
	if (fd >= 0)
		close(fd);
	ok(cuMemFree_v2(d));
}

static void test_lookup(void **state)
{
	CUdriverProcAddressQueryResult status;
	const char *name;
	void *fn;

	ok(cuGetProcAddress_v2("cuMemAlloc", &fn, 12000, 0, &status));
	assert_ptr_equal(fn, (void *) cuMemAlloc_v2);
	ok(cuGetProcAddress_v2("cuMemcpyBatchAsync", &fn, 12000, 0, &status));
	assert_int_equal(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
	assert_null(fn);
	ok(cuGetProcAddress_v2("cuNoSuchThing", &fn, 13000, 0, &status));
	assert_int_equal(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
	ok(cuGetErrorName(CUDA_ERROR_NOT_READY, &name));
	assert_string_equal(name, "CUDA_ERROR_NOT_READY");
	fails(cuGetErrorName((CUresult) 12345, &name), CUDA_ERROR_INVALID_VALUE);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_copies),
		cmocka_unit_test(test_copies_2d),
		cmocka_unit_test(test_poison),
		cmocka_unit_test(test_reuse),
		cmocka_unit_test(test_asynchronous),
		cmocka_unit_test(test_pageable),
		cmocka_unit_test(test_stream_order),
		cmocka_unit_test(test_default_stream),
		cmocka_unit_test(test_memops),
		cmocka_unit_test(test_host_functions),
		cmocka_unit_test(test_events),
		cmocka_unit_test(test_batch),
		cmocka_unit_test(test_attributes),
		cmocka_unit_test(test_contexts),
		cmocka_unit_test(test_vmm),
		cmocka_unit_test(test_pools),
		cmocka_unit_test(test_dmabuf),
		cmocka_unit_test(test_lookup),
		cmocka_unit_test(test_cpu_access_dies),
		cmocka_unit_test(test_reset),
		cmocka_unit_test(test_before_init),
		cmocka_unit_test(test_after_fork),
		cmocka_unit_test(test_faults),
		cmocka_unit_test(test_no_device),
		cmocka_unit_test(test_no_memops),
		cmocka_unit_test(test_sparse_memory),
		cmocka_unit_test(test_shuffle),
		cmocka_unit_test(test_modelled_time),
		cmocka_unit_test(test_hang),
		cmocka_unit_test(test_staged),
		cmocka_unit_test(test_ipc),
		cmocka_unit_test(test_crowded),
		cmocka_unit_test(test_runtime),
	};

	if (argc == 2)
		return emu_test_process(argv[1]);
	return cmocka_run_group_tests(tests, setup, teardown);
}
