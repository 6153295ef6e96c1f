/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* rdma/fi_p2p_xpu_device.h for kernels of gpu_kernel.h: where a thread is, on the emulator, too */
#ifndef GPU_XPU_H
#define GPU_XPU_H

#include "gpu_kernel.h"

#ifndef __CUDACC__

/*
 * All threads of the block get the first one's value. A block of one thread has no others, and may be
 * a thread of the host.
 */
static inline int gpu_sync(int value)
{
	if (blockDim.x * blockDim.y * blockDim.z == 1)
		return value;

	GPU_SHARED(int, first);

	if (!threadIdx.x && !threadIdx.y && !threadIdx.z)
		first = value;
	__syncthreads();
	value = first;
	__syncthreads();
	return value;
}

#define FI_P2P_XPU_BLOCK                                                                       \
	(blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * (uint64_t) blockIdx.z))
#define FI_P2P_XPU_THREAD                                                                      \
	(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * (uint64_t) threadIdx.z))
#define FI_P2P_XPU_LANES 32U
#define FI_P2P_XPU_SYNC_BLOCK(value) gpu_sync(value)
/* blocks of these tests are one warp */
#define FI_P2P_XPU_SYNC_LANES(value) gpu_sync(value)

#endif

#define FI_P2P_XPU_PREFIX
#include <rdma/fi_p2p_xpu_device.h>

#endif /* GPU_XPU_H */
