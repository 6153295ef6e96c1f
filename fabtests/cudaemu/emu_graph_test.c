/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Shows that the emulator captures streams into graphs, replays these, and refuses what cannot be
 * captured. Gates force the order of operations: a stream waits for a value in pinned memory.
 */
#define _GNU_SOURCE
#include "emu_test.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#define GLOBAL CU_STREAM_CAPTURE_MODE_GLOBAL
#define LOCAL CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
#define RELAXED CU_STREAM_CAPTURE_MODE_RELAXED

#define UNSUPPORTED CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
#define INVALIDATED CUDA_ERROR_STREAM_CAPTURE_INVALIDATED

static CUstream a, b, blocking;
static CUevent event, other_event;
static CUdeviceptr d;
static volatile uint32_t *pinned;
static unsigned int calls;

/* pinned[0] is the gate; what the device reads begins at [1] */
#define GATE ((CUdeviceptr) (uintptr_t) pinned)
#define RESULT (&pinned[8])

static int setup(void **state)
{
	CUcontext ctx;
	void *p;

	ok(cuInit(0));
	ok(cuDevicePrimaryCtxRetain(&ctx, 0));
	ok(cuCtxSetCurrent(ctx));
	ok(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
	ok(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
	ok(cuStreamCreate(&blocking, 0));
	ok(cuEventCreate(&event, 0));
	ok(cuEventCreate(&other_event, 0));
	ok(cuMemAlloc_v2(&d, 64));
	ok(cuMemHostAlloc(&p, 4096, 0));
	pinned = p;
	return 0;
}

static int teardown(void **state)
{
	ok(cuMemFreeHost((void *) pinned));
	ok(cuMemFree_v2(d));
	ok(cuEventDestroy_v2(other_event));
	ok(cuEventDestroy_v2(event));
	ok(cuStreamDestroy_v2(blocking));
	ok(cuStreamDestroy_v2(b));
	ok(cuStreamDestroy_v2(a));
	ok(cuDevicePrimaryCtxRelease_v2(0));
	return 0;
}

static void count_call(void *data)
{
	__atomic_fetch_add((unsigned int *) data, 1, __ATOMIC_SEQ_CST);
}

static void gate(uint32_t value)
{
	__atomic_store_n(pinned, value, __ATOMIC_SEQ_CST);
}

static void gate_wait(CUstream stream)
{
	ok(cuStreamWaitValue32_v2(stream, GATE, 1, CU_STREAM_WAIT_VALUE_EQ));
}

/* Ends the capture on a stream, and makes it executable */
static CUgraphExec capture_end(CUstream stream, size_t nodes)
{
	CUgraphExec exec;
	CUgraph graph;
	size_t count;

	ok(cuStreamEndCapture(stream, &graph));
	ok(cuGraphGetNodes(graph, NULL, &count));
	assert_int_equal(count, nodes);
	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	ok(cuGraphDestroy(graph));
	return exec;
}

/* The capture ends with an error, and the stream is as before */
static void capture_fails(CUstream stream, CUresult rc)
{
	CUstreamCaptureStatus status;
	CUgraph graph = (CUgraph) &status;

	fails(cuStreamEndCapture(stream, &graph), rc);
	assert_null(graph);
	ok(cuStreamIsCapturing(stream, &status));
	assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
	ok(cuStreamSynchronize(stream));
}

/* All kinds of operations, in order, twice. Nothing is done before the launch. */
static void test_replay(void **state)
{
	CUstreamBatchMemOpParams batch[2] = {
		{.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32,
				.address = d + 20,
				.value = 5}},
		{.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32,
			       .address = d + 20,
			       .value = 5,
			       .flags = CU_STREAM_WAIT_VALUE_EQ}},
	};
	uint32_t pageable = 3, round;
	CUgraphExec exec;

	memset((void *) pinned, 0, 4096);
	calls = 0;
	ok(cuMemsetD8_v2(d, 0, 64));
	/* the stream does not wait for that by itself */
	ok(cuStreamSynchronize(NULL));
	ok(cuStreamBeginCapture_v2(a, GLOBAL));
	ok(cuMemcpyHtoDAsync_v2(d, (void *) &pinned[1], 4, a));
	ok(cuMemcpyDtoDAsync_v2(d + 4, d, 4, a));
	ok(cuMemsetD8Async(d + 8, 0x11, 4, a));
	ok(cuMemcpyHtoDAsync_v2(d + 12, &pageable, 4, a));
	ok(cuStreamWriteValue32_v2(a, d + 16, 4, 0));
	ok(cuStreamBatchMemOp_v2(a, 2, batch, 0));
	ok(cuLaunchHostFunc(a, count_call, &calls));
	ok(cuMemcpyDtoHAsync_v2((void *) RESULT, d, 24, a));
	exec = capture_end(a, 9);
	ok(cuStreamSynchronize(a));
	assert_int_equal(calls, 0);
	assert_int_equal(RESULT[5], 0);
	for (round = 1; round <= 3; round++) {
		/* what is read at the launch is what is there at the launch */
		pinned[1] = 100 + round;
		pageable = round;
		memset((void *) RESULT, 0, 24);
		ok(cuGraphLaunch(exec, a));
		ok(cuStreamSynchronize(a));
		assert_int_equal(calls, round);
		assert_int_equal(RESULT[0], 100 + round);
		assert_int_equal(RESULT[1], 100 + round);
		assert_int_equal(RESULT[2], 0x11111111);
		assert_int_equal(RESULT[3], round);
		assert_int_equal(RESULT[4], 4);
		assert_int_equal(RESULT[5], 5);
	}
	ok(cuGraphExecDestroy(exec));
	fails(cuGraphLaunch(exec, a), CUDA_ERROR_INVALID_VALUE);
}

/* Two branches, of which one waits for what the other writes */
static void test_fork_and_join(void **state)
{
	CUgraphExec exec;
	int round;

	ok(cuStreamBeginCapture_v2(a, GLOBAL));
	ok(cuStreamWriteValue32_v2(a, d, 0, 0));
	ok(cuEventRecord(event, a));
	ok(cuStreamWaitEvent(b, event, 0));
	ok(cuStreamWaitValue32_v2(a, d, 1, CU_STREAM_WAIT_VALUE_EQ));
	ok(cuStreamWriteValue32_v2(a, d, 2, 0));
	ok(cuStreamWriteValue32_v2(b, d, 1, 0));
	ok(cuStreamWaitValue32_v2(b, d, 2, CU_STREAM_WAIT_VALUE_EQ));
	ok(cuEventRecord(other_event, b));
	ok(cuStreamWaitEvent(a, other_event, 0));
	ok(cuMemcpyDtoHAsync_v2((void *) RESULT, d, 4, a));
	ok(cuStreamWriteValue32_v2(a, d, 3, 0));
	exec = capture_end(a, 7);
	for (round = 0; round < 20; round++) {
		RESULT[0] = 0;
		ok(cuGraphLaunch(exec, a));
		ok(cuGraphLaunch(exec, b));
		ok(cuStreamSynchronize(b));
		assert_int_equal(RESULT[0], 2);
	}
	ok(cuStreamSynchronize(a));
	ok(cuGraphExecDestroy(exec));
	/* b is an ordinary stream again */
	ok(cuStreamWriteValue32_v2(b, d, 9, 0));
	ok(cuStreamSynchronize(b));
	fails(cuEventQuery(other_event), CUDA_ERROR_CAPTURED_EVENT);
	ok(cuEventRecord(other_event, b));
	ok(cuEventSynchronize(other_event));
}

/* A launch has its place in the stream's order, and waits for the one before of the same graph */
static void test_launch_order(void **state)
{
	CUgraphExec exec;

	calls = 0;
	gate(0);
	ok(cuStreamBeginCapture_v2(a, GLOBAL));
	gate_wait(a);
	ok(cuLaunchHostFunc(a, count_call, &calls));
	exec = capture_end(a, 2);
	ok(cuGraphLaunch(exec, a));
	ok(cuMemcpyHtoDAsync_v2(d, (void *) RESULT, 4, a));
	fails(cuStreamQuery(a), CUDA_ERROR_NOT_READY);
	ok(cuGraphLaunch(exec, b));
	fails(cuStreamQuery(b), CUDA_ERROR_NOT_READY);
	/* in the legacy stream, and a blocking stream behind that */
	ok(cuGraphLaunch(exec, NULL));
	ok(cuLaunchHostFunc(blocking, count_call, &calls));
	fails(cuStreamQuery(blocking), CUDA_ERROR_NOT_READY);
	assert_int_equal(calls, 0);
	/* it still runs to its end */
	ok(cuGraphExecDestroy(exec));
	gate(1);
	ok(cuStreamSynchronize(blocking));
	assert_int_equal(calls, 4);
	ok(cuStreamSynchronize(a));
	ok(cuStreamSynchronize(b));
}

static void test_empty(void **state)
{
	CUgraphExec exec;
	CUgraph graph;

	ok(cuGraphCreate(&graph, 0));
	ok(cuGraphInstantiate_v2(&exec, graph, NULL, NULL, 0));
	ok(cuGraphLaunch(exec, a));
	ok(cuStreamSynchronize(a));
	ok(cuGraphExecDestroy(exec));
	fails(cuGraphInstantiateWithFlags(&exec, graph,
					  CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH),
	      CUDA_ERROR_NOT_SUPPORTED);
	ok(cuGraphDestroy(graph));
	fails(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
	fails(cuGraphCreate(&graph, 1), CUDA_ERROR_INVALID_VALUE);
}

/* What a library asks that is called with a stream */
static void test_info(void **state)
{
	CUstreamCaptureStatus status;
	const CUgraphEdgeData *edges;
	const CUgraphNode *after;
	CUgraph graph, got;
	cuuint64_t id, again;
	size_t count;

	ok(cuStreamGetCaptureInfo_v2(a, &status, NULL, NULL, NULL, NULL));
	assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
	ok(cuStreamBeginCapture_v2(a, LOCAL));
	ok(cuStreamGetCaptureInfo_v2(a, &status, &id, &graph, &after, &count));
	assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	assert_int_equal(count, 0);
	ok(cuStreamWriteValue32_v2(a, d, 1, 0));
	ok(cuEventRecord(event, a));
	ok(cuStreamWaitEvent(b, event, 0));
	ok(cuStreamIsCapturing(b, &status));
	assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
	ok(cuStreamWriteValue32_v2(b, d, 1, 0));
	ok(cuEventRecord(event, b));
	ok(cuStreamWaitEvent(a, event, 0));
	ok(cuStreamGetCaptureInfo_v3(a, &status, &again, &got, &after, &edges, &count));
	assert_int_equal(again, id);
	assert_ptr_equal(got, graph);
	assert_int_equal(count, 2);
	assert_int_equal(edges[1].type, 0);
	fails(cuGraphDestroy(graph), CUDA_ERROR_INVALID_VALUE);
	fails(cuStreamBeginCapture_v2(a, LOCAL), CUDA_ERROR_ILLEGAL_STATE);
	ok(cuStreamEndCapture(a, &got));
	assert_ptr_equal(got, graph);
	ok(cuGraphDestroy(graph));
	ok(cuStreamBeginCapture_v2(a, LOCAL));
	ok(cuStreamGetCaptureInfo_v2(a, &status, &again, NULL, NULL, NULL));
	assert_true(again != id);
	ok(cuStreamEndCapture(a, &graph));
	ok(cuGraphDestroy(graph));
}

/* Each of these is refused, and spoils the capture on the stream */
#define REFUSED(stream, call, rc)                                                              \
	do {                                                                                   \
		CUstreamCaptureStatus refused_status;                                          \
		ok(cuStreamBeginCapture_v2(stream, GLOBAL));                                   \
		fails(call, rc);                                                               \
		ok(cuStreamIsCapturing(stream, &refused_status));                              \
		assert_int_equal(refused_status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);        \
		fails(cuMemsetD8Async(d, 0, 1, stream), INVALIDATED);                          \
		capture_fails(stream, INVALIDATED);                                            \
	} while (0)

static void callback(CUstream stream, CUresult rc, void *data)
{
}

static void test_refused(void **state)
{
	CUstreamCaptureStatus status;
	const unsigned int on = 1;
	CUdeviceptr p;
	void *h;

	REFUSED(a, cuStreamSynchronize(a), UNSUPPORTED);
	REFUSED(a, cuStreamQuery(a), UNSUPPORTED);
	REFUSED(a, cuStreamSynchronize(b), UNSUPPORTED);
	REFUSED(a, cuCtxSynchronize(), UNSUPPORTED);
	REFUSED(a, cuStreamAddCallback(a, callback, NULL, 0), UNSUPPORTED);
	REFUSED(a, cuMemAlloc_v2(&p, 1), UNSUPPORTED);
	REFUSED(a, cuMemHostAlloc(&h, 1, 0), UNSUPPORTED);
	REFUSED(a, cuMemFree_v2(d), UNSUPPORTED);
	REFUSED(a, cuMemHostRegister_v2(&status, 1, 0), UNSUPPORTED);
	REFUSED(a, cuMemAllocAsync(&p, 1, a), UNSUPPORTED);
	REFUSED(a, cuMemAllocAsync(&p, 1, b), UNSUPPORTED);
	REFUSED(a, cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, d),
		UNSUPPORTED);
	ok(cuEventRecord(event, b));
	REFUSED(a, cuEventQuery(event), UNSUPPORTED);
	REFUSED(a, cuEventSynchronize(event), UNSUPPORTED);
	REFUSED(a, cuStreamWaitEvent(a, event, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
	/* the legacy stream would wait for a blocking one */
	REFUSED(blocking, cuMemcpyDtoH_v2(&status, d, 1), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	REFUSED(blocking, cuMemsetD8Async(d, 0, 1, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	REFUSED(blocking, cuStreamSynchronize(NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	fails(cuStreamBeginCapture_v2(NULL, GLOBAL), UNSUPPORTED);
	fails(cuStreamBeginCapture_v2(a, 3), CUDA_ERROR_INVALID_VALUE);
	ok(cuStreamBeginCapture_v2(blocking, GLOBAL));
	fails(cuStreamIsCapturing(NULL, &status), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
	ok(cuGraphExecDestroy(capture_end(blocking, 0)));
}

/* What is let through */
static void test_allowed(void **state)
{
	CUpointer_attribute attr = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
	unsigned int type;
	unsigned char byte;
	CUstream stream;
	CUevent e;

	ok(cuStreamBeginCapture_v2(a, GLOBAL));
	ok(cuPointerGetAttribute(&type, attr, d));
	ok(cuEventCreate(&e, 0));
	ok(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	/* each elsewhere, as these streams do not wait for each other */
	ok(cuMemsetD8Async(d + 2, 1, 1, stream));
	ok(cuEventRecord(e, stream));
	ok(cuMemsetD8Async(d + 1, 1, 1, NULL));
	ok(cuMemsetD8_v2(d, 0, 1));
	ok(cuMemcpyDtoH_v2(&byte, d, 1));
	ok(cuStreamDestroy_v2(stream));
	ok(cuGraphExecDestroy(capture_end(a, 0)));
	ok(cuEventSynchronize(e));
	ok(cuEventDestroy_v2(e));
	ok(cuStreamSynchronize(NULL));
}

static void test_ends(void **state)
{
	CUgraph graph;

	fails(cuStreamEndCapture(a, &graph), CUDA_ERROR_ILLEGAL_STATE);

	/* a branch that does not come back */
	ok(cuStreamBeginCapture_v2(a, GLOBAL));
	ok(cuEventRecord(event, a));
	ok(cuStreamWaitEvent(b, event, 0));
	ok(cuMemsetD8Async(d, 0, 1, b));
	capture_fails(a, CUDA_ERROR_STREAM_CAPTURE_UNJOINED);

	/* not where it began */
	ok(cuStreamBeginCapture_v2(a, GLOBAL));
	ok(cuEventRecord(event, a));
	ok(cuStreamWaitEvent(b, event, 0));
	fails(cuStreamEndCapture(b, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
	capture_fails(a, INVALIDATED);

	/* two that meet */
	ok(cuStreamBeginCapture_v2(a, GLOBAL));
	ok(cuStreamBeginCapture_v2(b, GLOBAL));
	ok(cuEventRecord(event, a));
	fails(cuStreamWaitEvent(b, event, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
	fails(cuStreamEndCapture(b, &graph), INVALIDATED);
	capture_fails(a, INVALIDATED);

	/* an event of a capture that is over, and one asked about in the capture */
	fails(cuStreamWaitEvent(a, event, 0), CUDA_ERROR_CAPTURED_EVENT);
	ok(cuStreamBeginCapture_v2(a, RELAXED));
	ok(cuEventRecord(event, a));
	fails(cuEventQuery(event), CUDA_ERROR_CAPTURED_EVENT);
	capture_fails(a, INVALIDATED);
}

static void test_stream_goes(void **state)
{
	CUstream s;

	ok(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	ok(cuStreamBeginCapture_v2(s, GLOBAL));
	ok(cuMemsetD8Async(d, 0, 1, s));
	ok(cuEventRecord(event, s));
	ok(cuStreamWaitEvent(a, event, 0));
	ok(cuStreamDestroy_v2(s));
	ok(cuMemsetD8Async(d, 0, 1, a));
	ok(cuStreamSynchronize(a));
}

/* ---- other threads ---- */

static void *ask(void *arg)
{
	CUstreamCaptureMode mode = *(CUstreamCaptureMode *) arg;
	CUcontext ctx;
	CUresult rc;

	cuDevicePrimaryCtxRetain(&ctx, 0);
	cuCtxSetCurrent(ctx);
	cuThreadExchangeStreamCaptureMode(&mode);
	rc = cuEventQuery(other_event);
	cuThreadExchangeStreamCaptureMode(&mode);
	cuDevicePrimaryCtxRelease_v2(0);
	return (void *) (uintptr_t) rc;
}

static void *end(void *arg)
{
	CUgraph graph = NULL;
	CUresult rc = cuStreamEndCapture(a, &graph);

	if (rc == CUDA_SUCCESS)
		rc = cuGraphDestroy(graph);
	return (void *) (uintptr_t) rc;
}

static CUresult elsewhere(void *(*fn)(void *), CUstreamCaptureMode mode)
{
	pthread_t thread;
	void *rc;

	assert_int_equal(pthread_create(&thread, NULL, fn, &mode), 0);
	assert_int_equal(pthread_join(thread, &rc), 0);
	return (CUresult) (uintptr_t) rc;
}

static void test_threads(void **state)
{
	CUstreamCaptureMode mode = RELAXED;
	void *h;

	ok(cuEventRecord(other_event, b));
	ok(cuEventSynchronize(other_event));
	ok(cuStreamBeginCapture_v2(a, GLOBAL));
	ok(elsewhere(ask, RELAXED));
	ok(elsewhere(ask, LOCAL));
	fails(elsewhere(ask, GLOBAL), UNSUPPORTED);
	capture_fails(a, INVALIDATED);

	ok(cuStreamBeginCapture_v2(a, LOCAL));
	ok(elsewhere(ask, GLOBAL));
	fails(elsewhere(end, GLOBAL), CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
	/* a library may do what is unsafe if it says that it knows */
	ok(cuThreadExchangeStreamCaptureMode(&mode));
	assert_int_equal(mode, GLOBAL);
	ok(cuMemHostAlloc(&h, 8, 0));
	ok(cuMemFreeHost(h));
	ok(cuEventQuery(other_event));
	ok(cuStreamSynchronize(b));
	ok(cuThreadExchangeStreamCaptureMode(&mode));
	assert_int_equal(mode, RELAXED);
	ok(cuGraphExecDestroy(capture_end(a, 0)));
	mode = 3;
	fails(cuThreadExchangeStreamCaptureMode(&mode), CUDA_ERROR_INVALID_VALUE);

	ok(cuStreamBeginCapture_v2(a, RELAXED));
	ok(cuEventQuery(other_event));
	ok(elsewhere(end, GLOBAL));
}

/* ---- events and user objects ---- */

static void test_external_events(void **state)
{
	CUgraphExec exec;

	fails(cuEventRecordWithFlags(event, a, CU_EVENT_RECORD_EXTERNAL),
	      CUDA_ERROR_INVALID_VALUE);
	fails(cuStreamWaitEvent(a, event, CU_EVENT_WAIT_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
	ok(cuEventRecord(event, b));
	ok(cuStreamSynchronize(b));
	gate(0);
	ok(cuStreamBeginCapture_v2(a, GLOBAL));
	ok(cuStreamWaitEvent(a, other_event, CU_EVENT_WAIT_EXTERNAL));
	ok(cuEventRecordWithFlags(event, a, CU_EVENT_RECORD_EXTERNAL));
	exec = capture_end(a, 2);
	ok(cuEventQuery(event));
	/* b is behind the gate, the graph behind b, and the event at the graph's end */
	gate_wait(b);
	ok(cuEventRecord(other_event, b));
	ok(cuGraphLaunch(exec, a));
	fails(cuEventQuery(event), CUDA_ERROR_NOT_READY);
	gate(1);
	ok(cuEventSynchronize(event));
	ok(cuStreamSynchronize(a));
	ok(cuGraphExecDestroy(exec));
}

static void wait_for_calls(unsigned int count)
{
	while (__atomic_load_n(&calls, __ATOMIC_SEQ_CST) != count)
		sched_yield();
}

/* The destructor may not call the driver, and comes when the last launch has ended */
static void destroy(void *data)
{
	CUcontext ctx;

	assert_ptr_equal(data, &calls);
	assert_int_equal(cuCtxGetCurrent(&ctx), CUDA_ERROR_NOT_PERMITTED);
	count_call(&calls);
}

static void test_user_objects(void **state)
{
	CUuserObject object, second;
	CUgraphExec exec;
	CUgraph graph;

	calls = 0;
	fails(cuUserObjectCreate(&object, &calls, destroy, 1, 0), CUDA_ERROR_INVALID_VALUE);
	ok(cuUserObjectCreate(&object, &calls, destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
	ok(cuUserObjectRetain(object, 2));
	ok(cuUserObjectRelease(object, 2));
	ok(cuUserObjectCreate(&second, &calls, destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
	gate(0);
	ok(cuStreamBeginCapture_v2(a, GLOBAL));
	gate_wait(a);
	ok(cuStreamEndCapture(a, &graph));
	ok(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
	ok(cuGraphRetainUserObject(graph, second, 1, 0));
	fails(cuGraphRetainUserObject(graph, second, 0, 0), CUDA_ERROR_INVALID_VALUE);
	ok(cuGraphReleaseUserObject(graph, second, 1));
	ok(cuUserObjectRelease(second, 1));
	wait_for_calls(1);
	ok(cuGraphInstantiateWithFlags(&exec, graph, 0));
	ok(cuGraphDestroy(graph));
	ok(cuGraphLaunch(exec, a));
	ok(cuGraphExecDestroy(exec));
	assert_int_equal(calls, 1);
	gate(1);
	wait_for_calls(2);
	ok(cuStreamSynchronize(a));
}

/* Held by a graph while it is captured, and gone with it */
static void test_spoiled_object(void **state)
{
	CUstreamCaptureStatus status;
	CUuserObject object;
	CUgraph graph;

	calls = 0;
	ok(cuUserObjectCreate(&object, &calls, destroy, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
	ok(cuStreamBeginCapture_v2(a, RELAXED));
	ok(cuStreamGetCaptureInfo_v2(a, &status, NULL, &graph, NULL, NULL));
	ok(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
	fails(cuStreamQuery(a), UNSUPPORTED);
	capture_fails(a, INVALIDATED);
	wait_for_calls(1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_replay),
		cmocka_unit_test(test_fork_and_join),
		cmocka_unit_test(test_launch_order),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_info),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_allowed),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_stream_goes),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_external_events),
		cmocka_unit_test(test_user_objects),
		cmocka_unit_test(test_spoiled_object),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
