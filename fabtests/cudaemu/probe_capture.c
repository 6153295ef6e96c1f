/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Prints what a CUDA driver answers to calls while a stream is captured, and what becomes of the
 * capture. The emulator goes by NVIDIA's documentation, which leaves some of this open: so run this
 * on both, and compare. By hand, where LIB is the build tree's fabtests/cudaemu/lib:
 *
 *   gcc -I/usr/local/cuda/include probe_capture.c -o probe_capture -L$LIB -lcuda -lpthread
 *   ./probe_capture >real; LD_LIBRARY_PATH=$LIB ./probe_capture | diff real -
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <cuda.h>

static CUcontext ctx;
static CUstream s, other, blocking;
static CUevent before, fresh, within;
static CUdeviceptr d, spare;
static char host[64];
static void *pinned;
static CUmemoryPool pool;

static const char *name(CUresult rc)
{
	const char *text = NULL;

	cuGetErrorName(rc, &text);
	return text ? text + (strncmp(text, "CUDA_", 5) ? 0 : 5) : "?";
}

static void begin(CUstream stream, CUstreamCaptureMode mode)
{
	CUresult rc = cuStreamBeginCapture(stream, mode);

	if (rc != CUDA_SUCCESS)
		printf("no capture: %s\n", name(rc));
	cuEventRecord(within, stream);
}

/* What the call said, how the capture was then, and how it ended */
static void report(const char *what, CUstream stream, CUresult rc)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUgraph graph = NULL;
	CUresult ended;

	cuStreamIsCapturing(stream, &status);
	ended = cuStreamEndCapture(stream, &graph);
	if (graph)
		cuGraphDestroy(graph);
	cuStreamSynchronize(other);
	cuStreamSynchronize(stream);
	printf("  %-58s %-30s %d %s\n", what, name(rc), (int) status, name(ended));
}

#define P(stream, mode, expr)                                                                  \
	do {                                                                                   \
		begin(stream, mode);                                                           \
		report(#expr, stream, expr);                                                   \
	} while (0)

static void host_function(void *data)
{
}

static void callback(CUstream stream, CUresult rc, void *data)
{
}

static CUresult unsafe_elsewhere(CUstreamCaptureMode mode, int what)
{
	cuCtxSetCurrent(ctx);
	cuThreadExchangeStreamCaptureMode(&mode);
	switch (what) {
	case 0:
		return cuEventQuery(before);
	case 1:
		return cuStreamQuery(other);
	case 2:
		return cuStreamSynchronize(other);
	case 3:
		return cuCtxSynchronize();
	case 4:
		return cuMemcpyDtoH(host, d, 1);
	default:
		return cuMemHostAlloc(&pinned, 64, 0);
	}
}

struct elsewhere {
	CUstreamCaptureMode mode;
	int what;
	CUresult rc;
};

static void *run_elsewhere(void *arg)
{
	struct elsewhere *e = arg;

	e->rc = unsafe_elsewhere(e->mode, e->what);
	return NULL;
}

static CUresult elsewhere(CUstreamCaptureMode mode, int what)
{
	struct elsewhere e = {mode, what, CUDA_SUCCESS};
	pthread_t thread;

	pthread_create(&thread, NULL, run_elsewhere, &e);
	pthread_join(thread, NULL);
	return e.rc;
}

static void same_thread(CUstream stream, CUstreamCaptureMode mode)
{
	CUpointer_attribute attr = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
	CUstreamCaptureStatus status;
	CUdeviceptr p = 0;
	CUstream made;
	CUevent event;
	unsigned int type;
	size_t size;

	P(stream, mode, cuStreamQuery(stream));
	P(stream, mode, cuStreamSynchronize(stream));
	P(stream, mode, cuStreamQuery(other));
	P(stream, mode, cuStreamSynchronize(other));
	P(stream, mode, cuStreamSynchronize(NULL));
	P(stream, mode, cuCtxSynchronize());
	P(stream, mode, cuEventQuery(before));
	P(stream, mode, cuEventSynchronize(before));
	P(stream, mode, cuEventQuery(fresh));
	P(stream, mode, cuEventQuery(within));
	P(stream, mode, cuStreamWaitEvent(stream, before, 0));
	P(stream, mode, cuStreamWaitEvent(stream, fresh, 0));
	P(stream, mode, cuStreamWaitEvent(NULL, within, 0));
	P(stream, mode, cuEventRecord(before, other));
	P(stream, mode, cuMemAlloc(&p, 64));
	P(stream, mode, cuMemFree(spare));
	P(stream, mode, cuMemAlloc(&spare, 64));
	P(stream, mode, cuMemHostAlloc(&pinned, 64, 0));
	P(stream, mode, cuMemFreeHost(pinned));
	P(stream, mode, cuMemHostRegister(host, 64, 0));
	P(stream, mode, cuMemHostUnregister(host));
	P(stream, mode, cuMemcpyDtoH(host, d, 1));
	P(stream, mode, cuMemsetD8(d, 0, 1));
	P(stream, mode, cuMemcpyDtoHAsync(host, d, 1, stream));
	P(stream, mode, cuMemcpyDtoHAsync(host, d, 1, other));
	P(stream, mode, cuMemsetD8Async(d, 0, 1, NULL));
	P(stream, mode, cuLaunchHostFunc(stream, host_function, NULL));
	P(stream, mode, cuStreamAddCallback(stream, callback, NULL, 0));
	P(stream, mode, cuStreamWriteValue32(stream, d, 0, 0));
	P(stream, mode, cuStreamWaitValue32(stream, d, 0, CU_STREAM_WAIT_VALUE_EQ));
	P(stream, mode, cuStreamIsCapturing(NULL, &status));
	P(stream, mode, cuStreamBeginCapture(stream, mode));
	P(stream, mode, cuPointerGetAttribute(&type, attr, d));
	P(stream, mode, cuMemGetAddressRange(&p, &size, d));
	P(stream, mode, cuDeviceGetDefaultMemPool(&pool, 0));
	P(stream, mode, cuEventCreate(&event, 0));
	P(stream, mode, cuEventDestroy(event));
	P(stream, mode, cuStreamCreate(&made, CU_STREAM_NON_BLOCKING));
	P(stream, mode, cuStreamDestroy(made));
}

int main(void)
{
	static const char *const modes[] = {"global", "thread-local", "relaxed"};
	CUgraph graph;
	int mode, theirs, what;

	cuInit(0);
	cuDevicePrimaryCtxRetain(&ctx, 0);
	cuCtxSetCurrent(ctx);
	cuStreamCreate(&s, CU_STREAM_NON_BLOCKING);
	cuStreamCreate(&other, CU_STREAM_NON_BLOCKING);
	cuStreamCreate(&blocking, CU_STREAM_DEFAULT);
	cuEventCreate(&before, 0);
	cuEventCreate(&fresh, 0);
	cuEventCreate(&within, 0);
	cuMemAlloc(&d, 64);
	cuMemAlloc(&spare, 64);
	cuMemsetD8(d, 0, 64);
	cuEventRecord(before, other);
	cuStreamSynchronize(other);
	printf("legacy: begin %s\n", name(cuStreamBeginCapture(NULL, 0)));
	printf("not capturing: end %s\n", name(cuStreamEndCapture(s, &graph)));
	for (mode = 0; mode < 3; mode++) {
		printf("-- %s, non-blocking\n", modes[mode]);
		same_thread(s, mode);
		printf("-- %s, blocking\n", modes[mode]);
		same_thread(blocking, mode);
		for (theirs = 0; theirs < 3; theirs++) {
			printf("-- %s, another thread, which is %s\n", modes[mode],
			       modes[theirs]);
			for (what = 0; what < 6; what++)
				P(s, mode, elsewhere(theirs, what));
		}
	}
	return 0;
}
