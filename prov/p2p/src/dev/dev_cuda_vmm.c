/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The CUDA backend's virtual memory, for other processes. See dev_cuda.h. */
#include "config.h"
#include "dev/dev_cuda.h"

#include <rdma/fi_errno.h>

#include "base/log.h"

/* All of these came with CUDA 11 or earlier, but some drivers that we run on may lack them. */
static bool cuda_has_vmm(void)
{
	return cuda.handle_retain && cuda.handle_export && cuda.handle_import &&
	       cuda.handle_release && cuda.address_reserve && cuda.address_free &&
	       cuda.handle_map && cuda.unmap && cuda.set_access;
}

int cuda_ipc_share(const struct dev_mem *mem, int *fd, const char **why)
{
	CUmemGenericAllocationHandle handle;
	CUresult error;

	*why = "memory of a pool, or virtual memory where the driver shares none, has no CUDA "
	       "IPC handle";
	if (!cuda_has_vmm() || cuda.handle_retain(&handle, (void *) mem->base) != CUDA_SUCCESS)
		return -FI_EOPNOTSUPP;
	error = cuda.handle_export(fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	cuda.handle_release(handle);
	*why = error == CUDA_SUCCESS ? NULL
				     : "virtual memory that was made without "
				       "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR is not shared";
	return *why ? -FI_EOPNOTSUPP : 0;
}

/* Maps @size bytes of @handle at @ptr for the device. */
static CUresult cuda_map(CUdeviceptr ptr, size_t size, CUmemGenericAllocationHandle handle,
			 int ordinal)
{
	const CUmemAccessDesc access = {
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal},
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	CUresult error = cuda.handle_map(ptr, size, 0, handle, 0);

	if (error != CUDA_SUCCESS)
		return error;
	error = cuda.set_access(ptr, size, &access, 1);
	if (error != CUDA_SUCCESS)
		cuda.unmap(ptr, size);
	return error;
}

int cuda_ipc_attach(const struct dev_mem *mem, int fd, size_t size, void **addr,
		    const char **why)
{
	CUmemGenericAllocationHandle handle;
	CUdeviceptr ptr = 0;
	CUresult error;
	bool pushed;

	*why = "the driver has no virtual memory";
	if (!cuda_has_vmm())
		return -FI_ENOSYS;
	*why = "its context cannot be entered";
	if (cuda_enter(mem->ctx, &pushed))
		return -FI_EIO;
	error = cuda.handle_import(&handle, (void *) (uintptr_t) fd,
				   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	if (error == CUDA_SUCCESS) {
		error = cuda.address_reserve(&ptr, size, 0, 0, 0);
		if (error == CUDA_SUCCESS)
			error = cuda_map(ptr, size, handle, mem->ordinal);
		if (error != CUDA_SUCCESS && ptr)
			cuda.address_free(ptr, size);
		/* the mapping keeps the memory */
		cuda.handle_release(handle);
	}
	cuda_leave(pushed);
	*addr = (void *) (uintptr_t) ptr;
	*why = error == CUDA_SUCCESS ? NULL : cuda_strerror(error);
	return *why ? -FI_EOPNOTSUPP : 0;
}

void cuda_ipc_detach(void *addr, size_t size)
{
	cuda_check(cuda.unmap((CUdeviceptr) (uintptr_t) addr, size), "cuMemUnmap");
	cuda_check(cuda.address_free((CUdeviceptr) (uintptr_t) addr, size), "cuMemAddressFree");
}
