/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * rdma/fi_p2p_xpu_device.h for kernels of gpu_kernel.h: where a thread is, on the emulator, too. And what
 * kernels that communicate have in common.
 */
#ifndef GPU_XPU_H
#define GPU_XPU_H

#include "gpu_kernel.h"

#ifndef GPU_COMPILED

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
#define FI_P2P_XPU_THREADS (blockDim.x * blockDim.y * blockDim.z)
#define FI_P2P_XPU_LANES 32U
#define FI_P2P_XPU_SYNC_BLOCK(value) gpu_sync(value)
/* blocks of these tests are one warp */
#define FI_P2P_XPU_SYNC_LANES(value) gpu_sync(value)

#endif

#define FI_P2P_XPU_PREFIX
#include <rdma/fi_p2p_xpu_device.h>

/* Tries until the ring has room. */
#define XPU_RETRY(ret, call)                                                                   \
	do {                                                                                   \
		(ret) = (call);                                                                \
		if ((ret) == -FI_EAGAIN)                                                       \
			gpu_spin();                                                            \
	} while ((ret) == -FI_EAGAIN)

/* A stream, as C programs have it */
#ifdef GPU_COMPILED
#define GPU_STREAM(stream) ((cudaStream_t) (stream))
#else
#define GPU_STREAM(stream) (static_cast<cudaStream_t>(stream))
#endif

/*
 * All blocks have come here, @turn times. All of them run at the same time. @word is zero at first.
 */
__device__ static inline void gpu_meet(uint64_t *word, uint64_t turn)
{
	__syncthreads();
	if (!threadIdx.x) {
		__threadfence();
		atomicAdd((unsigned long long *) word, 1ULL);
		while (fi_p2p_xpu_load(word) < turn * gridDim.x)
			gpu_spin();
	}
	__syncthreads();
}

/* So long may take what other ranks do [ns] */
#define GPU_PATIENCE 50000000000ULL

/* So many looks at a word pass between two at what else there is: each is a trip over the bus, too */
#define GPU_LOOKS 64

/*
 * One thread waits until others have made a word at least @least. -FI_EIO: @cntr has errors; with NULL it may
 * have some. -FI_ETIMEDOUT: the others take too long
 */
__device__ static inline int gpu_await(const uint64_t *word, uint64_t least,
				       struct fid_xpu_cntr *cntr)
{
	const uint64_t end = fi_p2p_xpu_now() + GPU_PATIENCE;

	for (unsigned int looks = 1; fi_p2p_xpu_load(word) < least; looks++) {
		gpu_spin();
		if (looks % GPU_LOOKS)
			continue;
		if (cntr && fi_p2p_xpu_cntr_readerr(cntr, FI_XPU_WORK_ITEM))
			return -FI_EIO;
		if (fi_p2p_xpu_now() > end)
			return -FI_ETIMEDOUT;
	}
	return 0;
}

#endif /* GPU_XPU_H */
