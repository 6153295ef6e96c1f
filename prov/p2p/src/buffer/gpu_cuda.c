/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Memory of CUDA's GPUs, by the driver's interface and in the primary context. See gpu.h. */
#include "buffer/gpu.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>
#include <rdma/fi_errno.h>

#include "config.h"
#include "dev/p2p_cuda_abi.h"

#ifndef CUDA_LIBDIR
#define CUDA_LIBDIR NULL
#endif

/* What loading has returned, and a question that the driver answers while a thread captures a stream, too */
static struct {
	int loaded;
	CUresult (*pointer_attribute)(void *value, CUpointer_attribute which, CUdeviceptr ptr);
} cuda;

/* All other calls. There is no way to them but a gate. */
struct cuda_calls {
	CUresult (*init)(unsigned int flags);
	CUresult (*capture_mode)(unsigned int *mode);
	CUresult (*device_get)(CUdevice *device, int ordinal);
	CUresult (*ctx_retain)(CUcontext *context, CUdevice device);
	CUresult (*ctx_release)(CUdevice device);
	CUresult (*ctx_get_state)(CUdevice device, unsigned int *flags, int *active);
	CUresult (*ctx_set_flags)(CUdevice device, unsigned int flags);
	CUresult (*current_get_flags)(unsigned int *flags);
	CUresult (*current_set_flags)(unsigned int flags);
	CUresult (*ctx_push)(CUcontext context);
	CUresult (*ctx_pop)(CUcontext *context);
	CUresult (*mem_alloc)(CUdeviceptr *ptr, size_t size);
	CUresult (*mem_free)(CUdeviceptr ptr);
	CUresult (*host_register)(void *data, size_t size, unsigned int flags);
	CUresult (*host_unregister)(void *data);
	CUresult (*stream_create)(CUstream *stream, unsigned int flags);
	CUresult (*stream_destroy)(CUstream stream);
	CUresult (*stream_sync)(CUstream stream);
	CUresult (*copy_to)(CUdeviceptr dst, const void *src, size_t size, CUstream stream);
	CUresult (*copy_from)(void *dst, CUdeviceptr src, size_t size, CUstream stream);
};

static struct cuda_calls cuda_gated;

static const struct gpu_symbol symbols[] = {
	{"cuPointerGetAttribute", &cuda.pointer_attribute},
	{"cuInit", &cuda_gated.init},
	{"cuThreadExchangeStreamCaptureMode", &cuda_gated.capture_mode},
	{"cuDeviceGet", &cuda_gated.device_get},
	{"cuDevicePrimaryCtxRetain", &cuda_gated.ctx_retain},
	{"cuDevicePrimaryCtxRelease_v2", &cuda_gated.ctx_release},
	{"cuDevicePrimaryCtxGetState", &cuda_gated.ctx_get_state},
	{"cuDevicePrimaryCtxSetFlags_v2", &cuda_gated.ctx_set_flags},
	{"cuCtxGetFlags", &cuda_gated.current_get_flags},
	{"cuCtxPushCurrent_v2", &cuda_gated.ctx_push},
	{"cuCtxPopCurrent_v2", &cuda_gated.ctx_pop},
	{"cuMemAlloc_v2", &cuda_gated.mem_alloc},
	{"cuMemFree_v2", &cuda_gated.mem_free},
	{"cuMemHostRegister_v2", &cuda_gated.host_register},
	{"cuMemHostUnregister", &cuda_gated.host_unregister},
	{"cuStreamCreate", &cuda_gated.stream_create},
	{"cuStreamDestroy_v2", &cuda_gated.stream_destroy},
	{"cuStreamSynchronize", &cuda_gated.stream_sync},
	{"cuMemcpyHtoDAsync_v2", &cuda_gated.copy_to},
	{"cuMemcpyDtoHAsync_v2", &cuda_gated.copy_from},
};

/* Those that drivers before CUDA 12.1 lack: NULL there */
static const struct gpu_symbol symbols_late[] = {
	{"cuCtxSetFlags", &cuda_gated.current_set_flags},
};

static int cuda_error(CUresult result)
{
	switch (result) {
	case CUDA_SUCCESS:
		return 0;
	case CUDA_ERROR_OUT_OF_MEMORY:
		return -FI_ENOMEM;
	case CUDA_ERROR_INVALID_VALUE:
	case CUDA_ERROR_INVALID_DEVICE:
		return -FI_EINVAL;
	case CUDA_ERROR_NO_DEVICE:
		return -FI_ENOSYS;
	default:
		return -FI_EIO;
	}
}

#define CUDA_NO_GPU (-1)
#define CUDA_CAPTURE_RELAXED 2 /* CU_STREAM_CAPTURE_MODE_RELAXED */

/**
 * struct cuda_gate - the way to the driver's calls, from cuda_enter() to cuda_leave().
 * @cu:		the calls
 * @relaxed:	the thread's capture mode is relaxed, and was @mode before
 * @device:	whose primary context is current meanwhile; CUDA_NO_GPU: as before
 */
struct cuda_gate {
	const struct cuda_calls *cu;
	bool relaxed;
	unsigned int mode;
	CUdevice device;
};

static int cuda_retain(const struct cuda_calls *cu, int gpu, CUdevice *device,
		       CUcontext *context)
{
	CUresult result = cu->device_get(device, gpu);

	if (result == CUDA_SUCCESS)
		result = cu->ctx_retain(context, *device);
	return cuda_error(result);
}

/* Makes the primary context of a GPU current. Without one, CUDA_NO_GPU, that does not fail. */
static int cuda_enter_ctx(struct cuda_gate *gate, int gpu)
{
	CUcontext context;
	CUdevice device;
	int ret;

	if (gpu == CUDA_NO_GPU)
		return 0;
	ret = cuda_retain(gate->cu, gpu, &device, &context);
	if (ret)
		return ret;
	ret = cuda_error(gate->cu->ctx_push(context));
	if (ret)
		gate->cu->ctx_release(device);
	else
		gate->device = device;
	return ret;
}

/* The caller's current context is the same again after this. */
static void cuda_leave(const struct cuda_gate *gate)
{
	unsigned int mode = gate->mode;
	CUcontext context;

	if (gate->device != CUDA_NO_GPU) {
		gate->cu->ctx_pop(&context);
		gate->cu->ctx_release(gate->device);
	}
	if (gate->relaxed)
		gate->cu->capture_mode(&mode);
}

/* While a thread captures a stream most calls fail, and end that capture, where the mode is another one */
static int cuda_enter(struct cuda_gate *gate, int gpu)
{
	int ret;

	*gate = (struct cuda_gate){.cu = &cuda_gated,
				   .mode = CUDA_CAPTURE_RELAXED,
				   .device = CUDA_NO_GPU};
	gate->relaxed = gate->cu->capture_mode(&gate->mode) == CUDA_SUCCESS;
	ret = cuda_enter_ctx(gate, gpu);
	if (ret)
		cuda_leave(gate);
	return ret;
}

static void cuda_load_once(void)
{
	struct cuda_gate gate;

	cuda.loaded = buffer_gpu_open(CUDA_LIBDIR, "libcuda.so.1", symbols,
				      sizeof symbols / sizeof symbols[0]);
	if (cuda.loaded)
		return;
	buffer_gpu_open(CUDA_LIBDIR, "libcuda.so.1", symbols_late,
			sizeof symbols_late / sizeof symbols_late[0]);
	cuda_enter(&gate, CUDA_NO_GPU);
	cuda.loaded = cuda_error(gate.cu->init(0));
	cuda_leave(&gate);
}

static int cuda_load(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, cuda_load_once);
	return cuda.loaded;
}

/* As the provider has it, of which this library knows nothing else: fi_p2p(7) */
static bool cuda_sync_wanted(void)
{
	static const char *const words[] = {"0", "no", "off", "false"};
	const char *flag = getenv("FI_P2P_SYNC_MEMOPS"), *api = getenv("FI_P2P_CUDA_API");

	for (size_t i = 0; flag && i < sizeof words / sizeof words[0]; i++) {
		if (!strcasecmp(flag, words[i]))
			return false;
	}
	return !api || strcasecmp(api, "async");
}

/* The context that the caller has made itself, and has current */
static void cuda_sync_current(const struct cuda_calls *cu)
{
	unsigned int flags = 0;

	if (cu->current_set_flags && cu->current_get_flags(&flags) == CUDA_SUCCESS &&
	    !(flags & CU_CTX_SYNC_MEMOPS))
		cu->current_set_flags(flags | CU_CTX_SYNC_MEMOPS);
}

/*
 * The application's synchronous copies from pageable memory would else return before their bytes are there for our
 * copies. Drivers before CUDA 12.1 do not know the flag. To set flags replaces those that there are.
 */
static void cuda_sync(const struct cuda_calls *cu, CUdevice device)
{
	unsigned int flags = 0;
	int active;

	if (!cuda_sync_wanted())
		return;
	if (cu->ctx_get_state(device, &flags, &active) == CUDA_SUCCESS &&
	    !(flags & CU_CTX_SYNC_MEMOPS))
		cu->ctx_set_flags(device, flags | CU_CTX_SYNC_MEMOPS);
	cuda_sync_current(cu);
}

static int cuda_hold(int gpu)
{
	struct cuda_gate gate;
	CUcontext context;
	CUdevice device;
	int ret;

	cuda_enter(&gate, CUDA_NO_GPU);
	ret = cuda_retain(gate.cu, gpu, &device, &context);
	if (!ret)
		cuda_sync(gate.cu, device);
	cuda_leave(&gate);
	return ret;
}

static void cuda_drop(int gpu)
{
	struct cuda_gate gate;
	CUdevice device;

	cuda_enter(&gate, CUDA_NO_GPU);
	if (gate.cu->device_get(&device, gpu) == CUDA_SUCCESS)
		gate.cu->ctx_release(device);
	cuda_leave(&gate);
}

/* The ordinal at one address */
static int cuda_owner_of(const void *data, int *gpu)
{
	unsigned int type = 0;
	const CUdeviceptr ptr = (uintptr_t) data;

	if (cuda.pointer_attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, ptr) !=
		    CUDA_SUCCESS ||
	    type != CU_MEMORYTYPE_DEVICE)
		return -FI_EINVAL;
	return cuda_error(
		cuda.pointer_attribute(gpu, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, ptr));
}

static int cuda_owner(const void *data, size_t size, int *gpu)
{
	int last;
	int ret = cuda_owner_of(data, gpu);

	if (!ret)
		ret = cuda_owner_of((const char *) data + size - 1, &last);
	return ret || *gpu == last ? ret : -FI_EINVAL;
}

static int cuda_alloc(int gpu, size_t size, void **data)
{
	CUdeviceptr ptr = 0;
	struct cuda_gate gate;
	int ret = cuda_enter(&gate, gpu);

	if (ret)
		return ret;
	ret = cuda_error(gate.cu->mem_alloc(&ptr, size));
	if (!ret)
		*data = (void *) (uintptr_t) ptr;
	cuda_leave(&gate);
	return ret;
}

static void cuda_free(int gpu, void *data)
{
	struct cuda_gate gate;

	if (cuda_enter(&gate, gpu))
		return;
	gate.cu->mem_free((uintptr_t) data);
	cuda_leave(&gate);
}

/* A stream that waits for no kernel of the application's */
static int cuda_host_alloc(int gpu, size_t size, void **data, void **queue)
{
	void *memory = NULL;
	CUstream stream;
	struct cuda_gate gate;
	int ret = cuda_enter(&gate, gpu);

	if (ret)
		return ret;
	ret = -posix_memalign(&memory, (size_t) sysconf(_SC_PAGESIZE), size);
	if (ret)
		goto leave;
	ret = cuda_error(gate.cu->stream_create(&stream, CU_STREAM_NON_BLOCKING));
	if (ret) {
		free(memory);
		goto leave;
	}
	/* copies to and from memory that cannot be pinned are slower, and right */
	gate.cu->host_register(memory, size, CU_MEMHOSTREGISTER_PORTABLE);
	*data = memory;
	*queue = stream;
leave:
	cuda_leave(&gate);
	return ret;
}

static void cuda_host_free(int gpu, void *data, void *queue)
{
	struct cuda_gate gate;

	if (!cuda_enter(&gate, gpu)) {
		gate.cu->host_unregister(data);
		gate.cu->stream_destroy(queue);
		cuda_leave(&gate);
	}
	free(data);
}

/* Waits for a copy, also for one whose call has failed: part of it may have begun. */
static int cuda_finish(const struct cuda_calls *cu, void *queue, CUresult begun)
{
	const CUresult ended = cu->stream_sync(queue);

	return cuda_error(begun == CUDA_SUCCESS ? ended : begun);
}

static int cuda_to(int gpu, void *queue, void *dst, const void *src, size_t size)
{
	struct cuda_gate gate;
	int ret = cuda_enter(&gate, gpu);

	if (ret)
		return ret;
	ret = cuda_finish(gate.cu, queue, gate.cu->copy_to((uintptr_t) dst, src, size, queue));
	cuda_leave(&gate);
	return ret;
}

static int cuda_from(int gpu, void *queue, void *dst, const void *src, size_t size)
{
	struct cuda_gate gate;
	int ret = cuda_enter(&gate, gpu);

	if (ret)
		return ret;
	ret = cuda_finish(gate.cu, queue,
			  gate.cu->copy_from(dst, (uintptr_t) src, size, queue));
	cuda_leave(&gate);
	return ret;
}

const struct gpu_ops buffer_gpu_cuda = {
	.iface = FI_HMEM_CUDA,
	.load = cuda_load,
	.hold = cuda_hold,
	.drop = cuda_drop,
	.owner = cuda_owner,
	.alloc = cuda_alloc,
	.free = cuda_free,
	.host_alloc = cuda_host_alloc,
	.host_free = cuda_host_free,
	.to = cuda_to,
	.from = cuda_from,
};
