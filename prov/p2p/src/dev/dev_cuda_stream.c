/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What streams and kernels of the application share with us, memory and values, and kernels of ours. See dev.h. */
#include "config.h"
#include "dev/dev_cuda.h"

#include <rdma/fi_errno.h>

int cuda_host_address(const struct dev_mem *mem, void *host, void **addr)
{
	CUdeviceptr ptr = 0;
	struct cuda_gate gate;
	int ret = cuda_enter(mem->ctx, &gate);

	if (ret)
		return ret;
	ret = cuda_check(gate.cu->host_device_pointer(&ptr, host, 0),
			 "cuMemHostGetDevicePointer");
	cuda_leave(&gate);
	if (!ret)
		*addr = (void *) (uintptr_t) ptr;
	return ret;
}

int cuda_alloc(const struct dev_mem *mem, size_t len, void **addr)
{
	CUdeviceptr ptr = 0;
	struct cuda_gate gate;
	int ret = cuda_enter(mem->ctx, &gate);

	if (ret)
		return ret;
	ret = cuda_check(gate.cu->mem_alloc(&ptr, len), "cuMemAlloc");
	cuda_leave(&gate);
	if (!ret)
		*addr = (void *) (uintptr_t) ptr;
	return ret;
}

int cuda_store(const struct dev_mem *mem, void *addr, const void *from, size_t len)
{
	CUstream stream = NULL;
	struct cuda_gate gate;
	int ret = cuda_enter(mem->ctx, &gate);

	if (ret)
		return ret;
	ret = cuda_check(gate.cu->stream_create(&stream, CU_STREAM_NON_BLOCKING),
			 "cuStreamCreate");
	if (!ret)
		ret = cuda_check(gate.cu->copy_async((CUdeviceptr) (uintptr_t) addr,
						     (CUdeviceptr) (uintptr_t) from, len,
						     stream),
				 "cuMemcpyAsync");
	if (!ret)
		ret = cuda_check(gate.cu->stream_synchronize(stream), "cuStreamSynchronize");
	if (stream)
		gate.cu->stream_destroy(stream);
	cuda_leave(&gate);
	return ret;
}

void cuda_free(const struct dev_mem *mem, void *addr)
{
	struct cuda_gate gate;

	/* a context that is gone has taken its memory along */
	if (cuda_ctx_gone(mem->ctx) || cuda_enter(mem->ctx, &gate))
		return;
	cuda_check(gate.cu->mem_free((CUdeviceptr) (uintptr_t) addr), "cuMemFree");
	cuda_leave(&gate);
}

/* The stream tells its context, but the legacy one, which is the current context's. */
int cuda_stream_steps(const struct dev_mem *mem, void *stream, const struct dev_step *steps,
		      size_t count)
{
	CUstreamBatchMemOpParams ops[DEV_STEPS] = {{0}};
	struct cuda_gate gate;
	int ret = -FI_ENOSYS;

	if (count > DEV_STEPS)
		return -FI_ENOSYS;
	for (size_t i = 0; i < count; i++) {
		const CUdeviceptr addr = (CUdeviceptr) (uintptr_t) steps[i].word;

		if (steps[i].wait)
			ops[i].waitValue = (struct CUstreamMemOpWaitValueParams_st){
				.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64,
				.address = addr,
				.value64 = steps[i].value,
				.flags = CU_STREAM_WAIT_VALUE_GEQ,
			};
		else
			ops[i].writeValue = (struct CUstreamMemOpWriteValueParams_st){
				.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64,
				.address = addr,
				.value64 = steps[i].value,
			};
	}
	cuda_enter(NULL, &gate);
	if (gate.cu->stream_memops)
		ret = cuda_check(gate.cu->stream_memops(stream, (unsigned int) count, ops, 0),
				 "cuStreamBatchMemOp");
	cuda_leave(&gate);
	return ret;
}

int cuda_stream_copy(const struct dev_mem *mem, void *stream, const struct dev_copy *copy)
{
	struct cuda_gate gate;
	int ret;

	cuda_enter(NULL, &gate);
	ret = cuda_check(gate.cu->copy_async((CUdeviceptr) (uintptr_t) copy->dst,
					     (CUdeviceptr) (uintptr_t) copy->src, copy->len,
					     stream),
			 "cuMemcpyAsync");
	cuda_leave(&gate);
	return ret;
}

int cuda_kernel_load(const struct dev_mem *mem, const char *text, const char *name,
		     void **kernel)
{
	CUmodule module = NULL;
	CUfunction function = NULL;
	struct cuda_gate gate;
	int ret = cuda_enter(mem->ctx, &gate);

	if (ret)
		return ret;
	ret = -FI_ENOSYS;
	if (gate.cu->module_load && gate.cu->module_function && gate.cu->launch)
		ret = cuda_check(gate.cu->module_load(&module, text), "cuModuleLoadData");
	if (!ret)
		ret = cuda_check(gate.cu->module_function(&function, module, name),
				 "cuModuleGetFunction");
	cuda_leave(&gate);
	*kernel = function;
	return ret;
}

#define CUDA_LOADING_LAZY 2 /* CU_MODULE_LAZY_LOADING, which headers before CUDA 11.7 lack */

/* Drivers without the question load with the module, and one that nobody has initialised has loaded nothing */
const char *cuda_loads_late(void)
{
	unsigned int mode = 0;

	return cuda.loading_mode && cuda.loading_mode(&mode) == CUDA_SUCCESS &&
			       mode == CUDA_LOADING_LAZY
		       ? "CUDA_MODULE_LOADING=EAGER"
		       : NULL;
}

/* ---- graphs: numbers of the driver's interface that headers before CUDA 11.3 lack ---- */

#define CUDA_CAPTURE_ACTIVE 1      /* CU_STREAM_CAPTURE_STATUS_ACTIVE */
#define CUDA_USER_OBJECT_NO_SYNC 1 /* CU_USER_OBJECT_NO_DESTRUCTOR_SYNC */
#define CUDA_GRAPH_MOVE 1          /* CU_GRAPH_USER_OBJECT_MOVE */

int cuda_stream_captured(void *stream, uint64_t *id, void **graph)
{
	int status = 0;
	cuuint64_t number = 0;
	struct cuda_gate gate;
	int ret = 0;

	cuda_enter(NULL, &gate);
	if (gate.cu->stream_capture)
		ret = cuda_check(gate.cu->stream_capture(stream, &status, &number, graph, NULL,
							 NULL),
				 "cuStreamGetCaptureInfo");
	cuda_leave(&gate);
	if (ret)
		return -FI_EIO;
	*id = number;
	return status == CUDA_CAPTURE_ACTIVE;
}

int cuda_graph_keep(void *graph, void (*end)(void *arg), void *arg)
{
	struct cuda_gate gate;
	void *object;
	int ret = -FI_ENOSYS;

	cuda_enter(NULL, &gate);
	if (!gate.cu->user_object || !gate.cu->graph_retain)
		goto leave;
	ret = cuda_check(gate.cu->user_object(&object, arg, end, 1, CUDA_USER_OBJECT_NO_SYNC),
			 "cuUserObjectCreate");
	/* the graph has the only reference then */
	if (!ret)
		ret = cuda_check(gate.cu->graph_retain(graph, object, 1, CUDA_GRAPH_MOVE),
				 "cuGraphRetainUserObject");
leave:
	cuda_leave(&gate);
	return ret;
}
