/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Kernels of a Jacobi iteration. See jacobi_kernels.h. */
#include "gpu_kernel.h"
#include "gpu_xpu.h"

#include "jacobi_kernels.h"

#ifdef GPU_COMPILED
#define JACOBI_THREADS 512
#else
#define JACOBI_THREADS 32
#endif

__device__ static double *jacobi_array(const struct jacobi &jacobi, int which)
{
	return jacobi.grid + which * (jacobi.rows + 2) * jacobi.cols;
}

/* No product is added to anything, so that every compiler rounds alike. */
__device__ static void jacobi_compute(const struct jacobi &jacobi, int from)
{
	const double *old = jacobi_array(jacobi, from);
	double *next = jacobi_array(jacobi, !from);
	const uint64_t cols = jacobi.cols, all = jacobi.rows * (cols - 2);

	for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < all;
	     i += (uint64_t) gridDim.x * blockDim.x) {
		const uint64_t at = (i / (cols - 2) + 1) * cols + i % (cols - 2) + 1;

		next[at] = 0.25 *
			   ((old[at - 1] + old[at + 1]) + (old[at - cols] + old[at + cols]));
	}
}

__global__ static void jacobi_step_kernel(struct jacobi jacobi, int from)
{
	jacobi_compute(jacobi, from);
}

__device__ static void jacobi_exchange(struct jacobi &jacobi, int to, uint64_t iteration)
{
	const uint64_t array = (uint64_t) to * (jacobi.rows + 2),
		       row = jacobi.cols * sizeof(double);
	/* where it is here, and where the peer, whose rows are as many, has it */
	const uint64_t from = (array + jacobi.send) * row;
	const uint64_t there = (array + (jacobi.send == 1 ? jacobi.rows + 1 : 0)) * row;
	int ret;

	XPU_RETRY(ret, fi_p2p_xpu_put(&jacobi.ep, jacobi.target, there, from, (uint32_t) row, 0,
				      FI_XPU_WORK_ITEM));
	if (!ret)
		XPU_RETRY(ret,
			  fi_p2p_xpu_signal_set(&jacobi.ep, jacobi.signal_target, 0, iteration,
						FI_P2P_XPU_NO_FENCE, FI_XPU_WORK_ITEM));
	(void) gpu_await(jacobi.signal, iteration, &jacobi.tx);
}

/*
 * The peer may be one iteration ahead, and no more: it waits for our row. What it writes then is of the
 * array that we do not read any more.
 */
__global__ static void jacobi_run_kernel(struct jacobi jacobi)
{
	for (uint64_t i = 1; i <= jacobi.iterations; i++) {
		jacobi_compute(jacobi, (i - 1) % 2);
		gpu_meet(jacobi.meet, 2 * i - 1);
		if (!blockIdx.x && !threadIdx.x)
			jacobi_exchange(jacobi, i % 2, i);
		gpu_meet(jacobi.meet, 2 * i);
	}
}

int jacobi_step(const struct jacobi *jacobi, int from, void *stream)
{
	return GPU_LAUNCH(jacobi_step_kernel, jacobi->blocks, JACOBI_THREADS,
			  GPU_STREAM(stream), *jacobi, from);
}

int jacobi_run(const struct jacobi *jacobi, void *stream)
{
	return GPU_LAUNCH(jacobi_run_kernel, jacobi->blocks, JACOBI_THREADS, GPU_STREAM(stream),
			  *jacobi);
}
