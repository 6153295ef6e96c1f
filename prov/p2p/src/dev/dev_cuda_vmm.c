/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The CUDA backend's virtual memory, for other processes. See dev_cuda.h. */
#include "config.h"
#include "dev/dev_cuda.h"

#include <rdma/fi_errno.h>

#include "base/log.h"

/* All of these came with CUDA 11 or earlier, but some drivers that we run on may lack them. */
static bool cuda_has_vmm(const struct cuda_calls *cu)
{
	return cu->handle_retain && cu->handle_export && cu->handle_import &&
	       cu->handle_release && cu->address_reserve && cu->address_free &&
	       cu->handle_map && cu->unmap && cu->set_access;
}

static bool cuda_reaches(const struct cuda_calls *cu, CUdeviceptr ptr, int ordinal)
{
	const CUmemLocation location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal};
	unsigned long long flags = 0;

	return cu->get_access(&flags, &location, ptr) == CUDA_SUCCESS && flags;
}

/* The first other device that reaches it; negative: none does. Of a pool's the driver tells nothing. */
static int cuda_reaches_other(const struct cuda_calls *cu, CUdeviceptr ptr, int ordinal)
{
	static bool told;
	void *pool = NULL;
	int count = 0;

	if (cuda.device_count(&count) != CUDA_SUCCESS)
		return -1;
	for (int i = 0; i < count; i++) {
		if (i != ordinal && cuda_reaches(cu, ptr, i))
			return i;
	}
	if (cuda.pointer_get_one(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, ptr) ==
		    CUDA_SUCCESS &&
	    !pool && !__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
		P2P_WARN("virtual memory of device %d that no device may access "
			 "(cuMemSetAccess): what is copied there fails\n",
			 ordinal);
	return -1;
}

int cuda_accessor(CUdeviceptr ptr, int ordinal)
{
	struct cuda_gate gate;
	int other = -1;

	cuda_enter(NULL, &gate);
	if (gate.cu->get_access && !cuda_reaches(gate.cu, ptr, ordinal))
		other = cuda_reaches_other(gate.cu, ptr, ordinal);
	cuda_leave(&gate);
	return other < 0 ? ordinal : other;
}

int cuda_ipc_share(const struct dev_mem *mem, int *fd, const char **why)
{
	CUmemGenericAllocationHandle handle;
	CUresult error = CUDA_ERROR_NOT_SUPPORTED;
	struct cuda_gate gate;

	*why = "memory of a pool, or virtual memory where the driver shares none, has no CUDA "
	       "IPC handle";
	cuda_enter(NULL, &gate);
	if (cuda_has_vmm(gate.cu) &&
	    gate.cu->handle_retain(&handle, (void *) mem->base) == CUDA_SUCCESS) {
		error = gate.cu->handle_export(fd, handle,
					       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
		gate.cu->handle_release(handle);
		*why = "virtual memory that was made without "
		       "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR is not shared";
	}
	cuda_leave(&gate);
	if (error != CUDA_SUCCESS)
		return -FI_EOPNOTSUPP;
	*why = NULL;
	return 0;
}

/* Maps @size bytes of @handle at @ptr for the device. */
static CUresult cuda_map(const struct cuda_calls *cu, CUdeviceptr ptr, size_t size,
			 CUmemGenericAllocationHandle handle, int ordinal)
{
	const CUmemAccessDesc access = {
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal},
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	CUresult error = cu->handle_map(ptr, size, 0, handle, 0);

	if (error != CUDA_SUCCESS)
		return error;
	error = cu->set_access(ptr, size, &access, 1);
	if (error != CUDA_SUCCESS)
		cu->unmap(ptr, size);
	return error;
}

/* Imports what @fd is of, and maps it anywhere: at @ptr */
static CUresult cuda_import(const struct cuda_calls *cu, int fd, size_t size, int ordinal,
			    CUdeviceptr *ptr)
{
	CUmemGenericAllocationHandle handle;
	CUresult error;

	error = cu->handle_import(&handle, (void *) (uintptr_t) fd,
				  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	if (error != CUDA_SUCCESS)
		return error;
	error = cu->address_reserve(ptr, size, 0, 0, 0);
	if (error == CUDA_SUCCESS) {
		error = cuda_map(cu, *ptr, size, handle, ordinal);
		if (error != CUDA_SUCCESS)
			cu->address_free(*ptr, size);
	}
	/* the mapping keeps the memory */
	cu->handle_release(handle);
	return error;
}

int cuda_ipc_attach(const struct dev_mem *mem, int fd, size_t size, void **addr,
		    const char **why)
{
	CUdeviceptr ptr = 0;
	struct cuda_gate gate;
	CUresult error;
	int ret = -FI_ENOSYS;

	*why = "its context cannot be entered";
	if (cuda_enter(mem->ctx, &gate))
		return -FI_EIO;
	*why = "the driver has no virtual memory";
	if (cuda_has_vmm(gate.cu)) {
		error = cuda_import(gate.cu, fd, size, mem->ordinal, &ptr);
		*why = error == CUDA_SUCCESS ? NULL : cuda_strerror(error);
		ret = *why ? -FI_EOPNOTSUPP : 0;
	}
	cuda_leave(&gate);
	if (!ret)
		*addr = (void *) (uintptr_t) ptr;
	return ret;
}

void cuda_ipc_detach(void *addr, size_t size)
{
	struct cuda_gate gate;

	cuda_enter(NULL, &gate);
	cuda_check(gate.cu->unmap((CUdeviceptr) (uintptr_t) addr, size), "cuMemUnmap");
	cuda_check(gate.cu->address_free((CUdeviceptr) (uintptr_t) addr, size),
		   "cuMemAddressFree");
	cuda_leave(&gate);
}
