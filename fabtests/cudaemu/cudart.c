/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The runtime calls that test programs use, on top of the emulated driver. A thread's first
 * call makes its device's primary context current.
 *
 * The types are declared here as programs see them in the binary interface. Error codes are the
 * driver's.
 */
#include "emu.h"
#include "driver.h"

#include <string.h>

/* Numbers of the runtime that are others in the driver, or that the driver does not have */
enum {
	RT_SUCCESS = 0,
	RT_INVALID_VALUE = 1,
	RT_INVALID_MEMCPY_DIRECTION = 21,
	RT_INVALID_DEVICE = 101,
};

enum rt_memcpy_kind {
	RT_HOST_TO_HOST,
	RT_HOST_TO_DEVICE,
	RT_DEVICE_TO_HOST,
	RT_DEVICE_TO_DEVICE,
	RT_DEFAULT,
};

enum rt_memory_type {
	RT_UNREGISTERED,
	RT_HOST,
	RT_DEVICE,
	RT_MANAGED,
};

#define RT_VERSION 13000

static __thread int rt_device;
static __thread CUresult rt_last_error;
static pthread_once_t rt_once = PTHREAD_ONCE_INIT;
static CUresult rt_init_rc;
static CUcontext rt_primary[EMU_MAX_DEVICES];
static pthread_mutex_t rt_lock = PTHREAD_MUTEX_INITIALIZER;

/* Declares one runtime function, and opens its definition */
#define RT_API(name, ...)                                                                      \
	EMU_EXPORT CUresult name(__VA_ARGS__);                                                 \
	CUresult name(__VA_ARGS__)

static CUresult rt_result(CUresult rc)
{
	/* "not ready" is an answer, not an error that sticks */
	if (rc != CUDA_SUCCESS && rc != CUDA_ERROR_NOT_READY)
		rt_last_error = rc;
	return rc;
}

static void rt_init(void)
{
	rt_init_rc = cuInit(0);
}

static CUresult rt_driver(void)
{
	pthread_once(&rt_once, rt_init);
	return rt_init_rc;
}

/* Makes the thread's device current, unless the program has set a context itself */
static CUresult rt_enter(void)
{
	CUcontext current = NULL, *primary;
	CUresult rc = rt_driver();

	if (rc == CUDA_SUCCESS)
		rc = cuCtxGetCurrent(&current);
	if (rc != CUDA_SUCCESS || current)
		return rc;
	primary = &rt_primary[rt_device];
	pthread_mutex_lock(&rt_lock);
	if (!*primary)
		rc = cuDevicePrimaryCtxRetain(primary, rt_device);
	pthread_mutex_unlock(&rt_lock);
	return rc == CUDA_SUCCESS ? cuCtxSetCurrent(*primary) : rc;
}

/* Most functions are the driver's, called with a context made current */
#define RT_ENTERED(call)                                                                       \
	do {                                                                                   \
		CUresult entered_rc = rt_enter();                                              \
		if (entered_rc == CUDA_SUCCESS)                                                \
			entered_rc = (call);                                                   \
		return rt_result(entered_rc);                                                  \
	} while (0)

#define RT_FORWARD(name, params, call)                                                         \
	EMU_EXPORT CUresult name params;                                                       \
	CUresult name params                                                                   \
	{                                                                                      \
		RT_ENTERED(call);                                                              \
	}

/* For functions that ask about the machine and need no context */
#define RT_FORWARD_BARE(name, params, call)                                                    \
	EMU_EXPORT CUresult name params;                                                       \
	CUresult name params                                                                   \
	{                                                                                      \
		CUresult bare_rc = rt_driver();                                                \
		return rt_result(bare_rc == CUDA_SUCCESS ? (call) : bare_rc);                  \
	}

#define RT_PTR(p) ((CUdeviceptr) (uintptr_t) (p))

/* ---- devices ---- */

RT_FORWARD_BARE(cudaGetDeviceCount, (int *count), cuDeviceGetCount(count))
RT_FORWARD_BARE(cudaDeviceGetAttribute, (int *value, CUdevice_attribute attr, int dev),
		cuDeviceGetAttribute(value, attr, dev))
RT_FORWARD_BARE(cudaDeviceGetPCIBusId, (char *id, int len, int dev),
		cuDeviceGetPCIBusId(id, len, dev))
RT_FORWARD_BARE(cudaDeviceGetByPCIBusId, (int *dev, const char *id),
		cuDeviceGetByPCIBusId(dev, id))
RT_FORWARD_BARE(cudaDeviceCanAccessPeer, (int *can, int dev, int peer),
		cuDeviceCanAccessPeer(can, dev, peer))
RT_FORWARD_BARE(cudaDeviceGetDefaultMemPool, (CUmemoryPool * pool, int dev),
		cuDeviceGetDefaultMemPool(pool, dev))
RT_FORWARD_BARE(cudaDeviceGetMemPool, (CUmemoryPool * pool, int dev),
		cuDeviceGetMemPool(pool, dev))
RT_FORWARD(cudaDeviceSynchronize, (void), cuCtxSynchronize())
RT_FORWARD(cudaDeviceGetStreamPriorityRange, (int *least, int *greatest),
	   cuCtxGetStreamPriorityRange(least, greatest))
RT_FORWARD(cudaMemGetInfo, (size_t * available, size_t *total),
	   cuMemGetInfo_v2(available, total))

RT_API(cudaGetDevice, int *dev)
{
	CUresult rc = rt_driver();
	CUcontext current = NULL;

	if (rc == CUDA_SUCCESS && !dev)
		rc = CUDA_ERROR_INVALID_VALUE;
	if (rc == CUDA_SUCCESS) {
		*dev = rt_device;
		cuCtxGetCurrent(&current);
		if (current)
			rc = cuCtxGetDevice(dev);
	}
	return rt_result(rc);
}

RT_API(cudaSetDevice, int dev)
{
	CUresult rc = rt_driver();
	int count = 0;

	if (rc == CUDA_SUCCESS)
		rc = cuDeviceGetCount(&count);
	if (rc == CUDA_SUCCESS && (dev < 0 || dev >= count))
		rc = CUDA_ERROR_INVALID_DEVICE;
	if (rc != CUDA_SUCCESS)
		return rt_result(rc);
	rt_device = dev;
	cuCtxSetCurrent(NULL);
	return rt_result(rt_enter());
}

RT_API(cudaInitDevice, int dev, unsigned int device_flags, unsigned int flags)
{
	return cudaSetDevice(dev);
}

RT_API(cudaSetDeviceFlags, unsigned int flags)
{
	CUresult rc = rt_driver();

	return rt_result(rc == CUDA_SUCCESS ? cuDevicePrimaryCtxSetFlags_v2(rt_device, flags)
					    : rc);
}

RT_API(cudaDeviceReset, void)
{
	CUresult rc = rt_driver();

	if (rc == CUDA_SUCCESS) {
		pthread_mutex_lock(&rt_lock);
		rt_primary[rt_device] = NULL;
		cuCtxSetCurrent(NULL);
		rc = cuDevicePrimaryCtxReset_v2(rt_device);
		pthread_mutex_unlock(&rt_lock);
	}
	return rt_result(rc);
}

static CUresult rt_enable_peer(int peer)
{
	CUcontext ctx;
	CUresult rc;

	rc = cuDevicePrimaryCtxRetain(&ctx, peer);
	return rc == CUDA_SUCCESS ? cuCtxEnablePeerAccess(ctx, 0) : rc;
}

RT_FORWARD(cudaDeviceEnablePeerAccess, (int peer, unsigned int flags), rt_enable_peer(peer))

/* The beginning of cudaDeviceProp. CUDA 13 has no clock rate there. */
struct rt_prop {
	char name[256];
	CUuuid uuid;
	char luid[8];
	unsigned int luid_mask;
	size_t total_memory, shared_per_block;
	int regs_per_block, warp_size;
	size_t pitch;
	int max_threads, max_block[3], max_grid[3];
	union {
		struct {
			int clock_rate;
			size_t const_memory;
			int major, minor;
		} v12;
		struct {
			size_t const_memory;
			int major, minor;
		} v13;
	};
};

static CUresult rt_prop_fill(struct rt_prop *prop, int dev, int *major, int *minor)
{
	const struct {
		int attr, *to;
	} ints[] = {
		{CU_DEVICE_ATTRIBUTE_WARP_SIZE, &prop->warp_size},
		{CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &prop->max_threads},
		{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, major},
		{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, minor},
	};
	CUresult rc;
	size_t i;

	rc = rt_driver();
	if (rc != CUDA_SUCCESS)
		return rc;
	if (!prop)
		return CUDA_ERROR_INVALID_VALUE;
	memset(prop, 0, sizeof(*prop));
	rc = cuDeviceGetName(prop->name, sizeof(prop->name), dev);
	if (rc != CUDA_SUCCESS)
		return rc;
	cuDeviceGetUuid_v2(&prop->uuid, dev);
	cuDeviceTotalMem_v2(&prop->total_memory, dev);
	for (i = 0; i < sizeof(ints) / sizeof(ints[0]); i++)
		cuDeviceGetAttribute(ints[i].to, (CUdevice_attribute) ints[i].attr, dev);
	return CUDA_SUCCESS;
}

/* Both leave the rest alone, at which programs that use only the beginning never look */
#define RT_GET_PROPERTIES(name, vintage)                                                       \
	RT_API(name, struct rt_prop *prop, int dev)                                            \
	{                                                                                      \
		return rt_result(                                                              \
			rt_prop_fill(prop, dev, &prop->vintage.major, &prop->vintage.minor));  \
	}

RT_GET_PROPERTIES(cudaGetDeviceProperties, v13)
RT_GET_PROPERTIES(cudaGetDeviceProperties_v2, v12)

/* ---- memory ---- */

static CUresult rt_malloc(void **out, size_t size)
{
	CUdeviceptr ptr = 0;
	CUresult rc = CUDA_SUCCESS;

	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	if (size)
		rc = cuMemAlloc_v2(&ptr, size);
	if (rc == CUDA_SUCCESS)
		*out = (void *) (uintptr_t) ptr;
	return rc;
}

RT_FORWARD(cudaMalloc, (void **out, size_t size), rt_malloc(out, size))
RT_FORWARD(cudaFree, (void *ptr), cuMemFree_v2(RT_PTR(ptr)))
RT_FORWARD(cudaMallocHost, (void **out, size_t size), cuMemHostAlloc(out, size, 0))
RT_FORWARD(cudaHostAlloc, (void **out, size_t size, unsigned int flags),
	   cuMemHostAlloc(out, size, flags))
RT_FORWARD(cudaFreeHost, (void *ptr), cuMemFreeHost(ptr))
RT_FORWARD(cudaHostRegister, (void *ptr, size_t size, unsigned int flags),
	   cuMemHostRegister_v2(ptr, size, flags))
RT_FORWARD(cudaHostUnregister, (void *ptr), cuMemHostUnregister(ptr))
RT_FORWARD(cudaHostGetDevicePointer, (void **out, void *ptr, unsigned int flags),
	   cuMemHostGetDevicePointer_v2((CUdeviceptr *) out, ptr, flags))
RT_FORWARD(cudaHostGetFlags, (unsigned int *flags, void *ptr), cuMemHostGetFlags(flags, ptr))
RT_FORWARD(cudaMallocManaged, (void **out, size_t size, unsigned int flags),
	   cuMemAllocManaged((CUdeviceptr *) out, size, flags))
RT_FORWARD(cudaMallocAsync, (void **out, size_t size, CUstream stream),
	   cuMemAllocAsync((CUdeviceptr *) out, size, stream))
RT_FORWARD(cudaFreeAsync, (void *ptr, CUstream stream), cuMemFreeAsync(RT_PTR(ptr), stream))
RT_FORWARD(cudaMemset, (void *dst, int value, size_t count),
	   cuMemsetD8_v2(RT_PTR(dst), (unsigned char) value, count))
RT_FORWARD(cudaMemsetAsync, (void *dst, int value, size_t count, CUstream stream),
	   cuMemsetD8Async(RT_PTR(dst), (unsigned char) value, count, stream))

/* The driver sees where memory is. So the kind is only checked for being one. */
static bool rt_kind_valid(enum rt_memcpy_kind kind)
{
	return (unsigned int) kind <= RT_DEFAULT;
}

RT_FORWARD(cudaMemcpy, (void *dst, const void *src, size_t size, enum rt_memcpy_kind kind),
	   rt_kind_valid(kind) ? cuMemcpy(RT_PTR(dst), RT_PTR(src), size)
			       : (CUresult) RT_INVALID_MEMCPY_DIRECTION)
RT_FORWARD(cudaMemcpyAsync,
	   (void *dst, const void *src, size_t size, enum rt_memcpy_kind kind, CUstream stream),
	   rt_kind_valid(kind) ? cuMemcpyAsync(RT_PTR(dst), RT_PTR(src), size, stream)
			       : (CUresult) RT_INVALID_MEMCPY_DIRECTION)

static CUDA_MEMCPY2D rt_2d(void *dst, size_t dpitch, const void *src, size_t spitch,
			   size_t width, size_t height)
{
	CUDA_MEMCPY2D copy = {
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
		.srcDevice = RT_PTR(src),
		.srcPitch = spitch,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED,
		.dstDevice = RT_PTR(dst),
		.dstPitch = dpitch,
		.WidthInBytes = width,
		.Height = height,
	};

	return copy;
}

RT_API(cudaMemcpy2D, void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
       size_t height, enum rt_memcpy_kind kind)
{
	CUDA_MEMCPY2D copy = rt_2d(dst, dpitch, src, spitch, width, height);

	RT_ENTERED(cuMemcpy2D_v2(&copy));
}

RT_API(cudaMemcpy2DAsync, void *dst, size_t dpitch, const void *src, size_t spitch,
       size_t width, size_t height, enum rt_memcpy_kind kind, CUstream stream)
{
	CUDA_MEMCPY2D copy = rt_2d(dst, dpitch, src, spitch, width, height);

	RT_ENTERED(cuMemcpy2DAsync_v2(&copy, stream));
}

struct rt_pointer_attributes {
	enum rt_memory_type type;
	int device;
	void *device_pointer, *host_pointer;
};

static CUresult rt_pointer(struct rt_pointer_attributes *out, const void *ptr)
{
	unsigned int type = 0, managed = 0;
	CUpointer_attribute attrs[] = {
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE,    CU_POINTER_ATTRIBUTE_IS_MANAGED,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
		CU_POINTER_ATTRIBUTE_HOST_POINTER,
	};
	void *data[] = {&type, &managed, &out->device, &out->device_pointer,
			&out->host_pointer};
	CUresult rc;

	rc = cuPointerGetAttributes(5, attrs, data, RT_PTR(ptr));
	if (rc != CUDA_SUCCESS)
		return rc;
	out->type = managed                        ? RT_MANAGED
		    : type == CU_MEMORYTYPE_DEVICE ? RT_DEVICE
		    : type == CU_MEMORYTYPE_HOST   ? RT_HOST
						   : RT_UNREGISTERED;
	return CUDA_SUCCESS;
}

RT_FORWARD(cudaPointerGetAttributes, (struct rt_pointer_attributes * out, const void *ptr),
	   out ? rt_pointer(out, ptr) : CUDA_ERROR_INVALID_VALUE)

RT_FORWARD(cudaIpcGetMemHandle, (CUipcMemHandle * out, void *ptr),
	   cuIpcGetMemHandle(out, RT_PTR(ptr)))
RT_FORWARD(cudaIpcOpenMemHandle, (void **out, CUipcMemHandle handle, unsigned int flags),
	   cuIpcOpenMemHandle_v2((CUdeviceptr *) out, handle, flags))
RT_FORWARD(cudaIpcCloseMemHandle, (void *ptr), cuIpcCloseMemHandle(RT_PTR(ptr)))

/* ---- streams, events ---- */

RT_FORWARD(cudaStreamCreate, (CUstream * out), cuStreamCreate(out, 0))
RT_FORWARD(cudaStreamCreateWithFlags, (CUstream * out, unsigned int flags),
	   cuStreamCreate(out, flags))
RT_FORWARD(cudaStreamCreateWithPriority, (CUstream * out, unsigned int flags, int priority),
	   cuStreamCreateWithPriority(out, flags, priority))
RT_FORWARD(cudaStreamDestroy, (CUstream stream), cuStreamDestroy_v2(stream))
RT_FORWARD(cudaStreamSynchronize, (CUstream stream), cuStreamSynchronize(stream))
RT_FORWARD(cudaStreamQuery, (CUstream stream), cuStreamQuery(stream))
RT_FORWARD(cudaStreamWaitEvent, (CUstream stream, CUevent event, unsigned int flags),
	   cuStreamWaitEvent(stream, event, flags))
RT_FORWARD(cudaStreamAddCallback,
	   (CUstream stream, CUstreamCallback callback, void *data, unsigned int flags),
	   cuStreamAddCallback(stream, callback, data, flags))
RT_FORWARD(cudaLaunchHostFunc, (CUstream stream, CUhostFn fn, void *data),
	   cuLaunchHostFunc(stream, fn, data))
RT_FORWARD(cudaStreamBeginCapture, (CUstream stream, CUstreamCaptureMode mode),
	   cuStreamBeginCapture_v2(stream, mode))
RT_FORWARD(cudaStreamEndCapture, (CUstream stream, CUgraph *graph),
	   cuStreamEndCapture(stream, graph))
RT_FORWARD(cudaStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus *status),
	   cuStreamIsCapturing(stream, status))
RT_FORWARD_BARE(cudaThreadExchangeStreamCaptureMode, (CUstreamCaptureMode * mode),
		cuThreadExchangeStreamCaptureMode(mode))
/* As in CUDA 12. That of CUDA 11 has places for an error behind the graph. */
RT_FORWARD(cudaGraphInstantiate, (CUgraphExec * exec, CUgraph graph, unsigned long long flags),
	   cuGraphInstantiateWithFlags(exec, graph, flags))
RT_FORWARD(cudaGraphInstantiateWithFlags,
	   (CUgraphExec * exec, CUgraph graph, unsigned long long flags),
	   cuGraphInstantiateWithFlags(exec, graph, flags))
RT_FORWARD(cudaGraphLaunch, (CUgraphExec exec, CUstream stream), cuGraphLaunch(exec, stream))
RT_FORWARD(cudaGraphDestroy, (CUgraph graph), cuGraphDestroy(graph))
RT_FORWARD(cudaGraphExecDestroy, (CUgraphExec exec), cuGraphExecDestroy(exec))
RT_FORWARD(cudaEventCreate, (CUevent * out), cuEventCreate(out, 0))
RT_FORWARD(cudaEventCreateWithFlags, (CUevent * out, unsigned int flags),
	   cuEventCreate(out, flags))
RT_FORWARD(cudaEventDestroy, (CUevent event), cuEventDestroy_v2(event))
RT_FORWARD(cudaEventRecord, (CUevent event, CUstream stream), cuEventRecord(event, stream))
RT_FORWARD(cudaEventQuery, (CUevent event), cuEventQuery(event))
RT_FORWARD(cudaEventSynchronize, (CUevent event), cuEventSynchronize(event))
RT_FORWARD(cudaEventElapsedTime, (float *ms, CUevent start, CUevent end),
	   cuEventElapsedTime_v2(ms, start, end))

/* ---- versions, entry points, errors ---- */

RT_API(cudaRuntimeGetVersion, int *version)
{
	if (!version)
		return rt_result(CUDA_ERROR_INVALID_VALUE);
	*version = RT_VERSION;
	return CUDA_SUCCESS;
}

RT_API(cudaDriverGetVersion, int *version)
{
	return rt_result(cuDriverGetVersion(version));
}

RT_API(cudaGetDriverEntryPointByVersion, const char *symbol, void **fn, unsigned int version,
       unsigned long long flags, CUdriverProcAddressQueryResult *status)
{
	return rt_result(cuGetProcAddress_v2(symbol, fn, (int) version, flags, status));
}

RT_API(cudaGetDriverEntryPoint, const char *symbol, void **fn, unsigned long long flags,
       CUdriverProcAddressQueryResult *status)
{
	return rt_result(cuGetProcAddress_v2(symbol, fn, RT_VERSION, flags, status));
}

RT_API(cudaGetLastError, void)
{
	CUresult rc = rt_last_error;

	rt_last_error = CUDA_SUCCESS;
	return rc;
}

RT_API(cudaPeekAtLastError, void)
{
	return rt_last_error;
}

/* The runtime's own names for what the driver calls otherwise */
static const struct {
	int code;
	const char *name;
} rt_names[] = {
	{RT_SUCCESS, "cudaSuccess"},
	{RT_INVALID_VALUE, "cudaErrorInvalidValue"},
	{CUDA_ERROR_OUT_OF_MEMORY, "cudaErrorMemoryAllocation"},
	{CUDA_ERROR_NOT_INITIALIZED, "cudaErrorInitializationError"},
	{RT_INVALID_MEMCPY_DIRECTION, "cudaErrorInvalidMemcpyDirection"},
	{CUDA_ERROR_NO_DEVICE, "cudaErrorNoDevice"},
	{RT_INVALID_DEVICE, "cudaErrorInvalidDevice"},
	{CUDA_ERROR_INVALID_CONTEXT, "cudaErrorDeviceUninitialized"},
	{CUDA_ERROR_OPERATING_SYSTEM, "cudaErrorOperatingSystem"},
	{CUDA_ERROR_INVALID_HANDLE, "cudaErrorInvalidResourceHandle"},
	{CUDA_ERROR_NOT_FOUND, "cudaErrorSymbolNotFound"},
	{CUDA_ERROR_NOT_READY, "cudaErrorNotReady"},
	{CUDA_ERROR_ILLEGAL_ADDRESS, "cudaErrorIllegalAddress"},
	{CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "cudaErrorPeerAccessAlreadyEnabled"},
	{CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "cudaErrorPeerAccessUnsupported"},
	{CUDA_ERROR_CONTEXT_IS_DESTROYED, "cudaErrorContextIsDestroyed"},
	{CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "cudaErrorHostMemoryAlreadyRegistered"},
	{CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "cudaErrorHostMemoryNotRegistered"},
	{CUDA_ERROR_NOT_PERMITTED, "cudaErrorNotPermitted"},
	{CUDA_ERROR_NOT_SUPPORTED, "cudaErrorNotSupported"},
	{CUDA_ERROR_LAUNCH_FAILED, "cudaErrorLaunchFailure"},
	{CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "cudaErrorStreamCaptureUnsupported"},
	{CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "cudaErrorStreamCaptureInvalidated"},
	{CUDA_ERROR_STREAM_CAPTURE_MERGE, "cudaErrorStreamCaptureMerge"},
	{CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "cudaErrorStreamCaptureUnmatched"},
	{CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "cudaErrorStreamCaptureUnjoined"},
	{CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "cudaErrorStreamCaptureIsolation"},
	{CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "cudaErrorStreamCaptureImplicit"},
	{CUDA_ERROR_CAPTURED_EVENT, "cudaErrorCapturedEvent"},
	{CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "cudaErrorStreamCaptureWrongThread"},
	{CUDA_ERROR_UNKNOWN, "cudaErrorUnknown"},
};

static const char *rt_error_name(int code)
{
	size_t i;

	for (i = 0; i < sizeof(rt_names) / sizeof(rt_names[0]); i++)
		if (rt_names[i].code == code)
			return rt_names[i].name;
	return "unrecognized error code";
}

#define RT_ERROR_NAME(function)                                                                \
	EMU_EXPORT const char *function(int code);                                             \
	const char *function(int code)                                                         \
	{                                                                                      \
		return rt_error_name(code);                                                    \
	}

RT_ERROR_NAME(cudaGetErrorName)
/* As in the driver, there are no better words than the name */
RT_ERROR_NAME(cudaGetErrorString)
