/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Compiles as CUDA, too: see gpu_kernel.h */
#include "emu_kernels.h"
#include "gpu_kernel.h"

static __device__ uint32_t load(const uint32_t *at)
{
	return *(const volatile uint32_t *) at;
}

static __device__ void store(uint32_t *at, uint32_t value)
{
	*(volatile uint32_t *) at = value;
}

static __global__ void add(uint32_t *to, const uint32_t *from, uint32_t count, uint32_t more)
{
	uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < count)
		to[i] = (from ? from[i] : i) + more;
}

static __global__ void answer(kernel_line *line, uint64_t *sum)
{
	uint32_t last = 0, number = 0;

	while (number != KERNEL_STOP) {
		while ((number = load(&line->to_kernel)) == last)
			gpu_spin();
		__threadfence_system();
		*sum += number;
		last = number;
		__threadfence_system();
		store(&line->from_kernel, number + 1);
	}
}

static __global__ void count(int *sum32, unsigned long long *sum64, unsigned int *by_cas)
{
	unsigned int seen = *by_cas, was;

	atomicAdd(sum32, -1);
	atomicAdd_system(sum64, 1ull << 32);
	for (;;) {
		was = atomicCAS(by_cas, seen, seen + 1);
		if (was == seen)
			break;
		seen = was;
	}
}

static __global__ void meet(unsigned int *come)
{
	if (threadIdx.x == 0) {
		atomicAdd(come, 1);
		while (load(come) < gridDim.x)
			gpu_spin();
	}
	__syncthreads();
	if (atomicAdd(come + 1, 1) == gridDim.x * blockDim.x - 1)
		atomicExch(come + 2, 1);
}

static __global__ void turn(uint32_t *numbers)
{
	GPU_SHARED_ARRAY(uint32_t, room, KERNEL_TURN_THREADS);
	GPU_SHARED(unsigned int, readers);
	const unsigned int me = threadIdx.x;
	uint32_t *mine = numbers + blockIdx.x * blockDim.x;

	if (me == 0)
		readers = 0;
	room[me] = mine[me];
	__syncthreads();
	if (me % 2)
		return;
	mine[me] = room[blockDim.x - 1 - me];
	mine[me + 1] = room[blockDim.x - 2 - me];
	__syncwarp();
	atomicAdd(&readers, 1);
	__syncthreads();
	if (me == 0 && readers != blockDim.x / 2)
		mine[0] = ~0u;
}

static __device__ uint64_t number_of(dim3 at, dim3 size)
{
	return at.x + size.x * (at.y + (uint64_t) size.y * at.z);
}

static __device__ dim3 plain(unsigned int x, unsigned int y, unsigned int z)
{
	return dim3(x, y, z);
}

static __global__ void places(uint64_t *to)
{
	dim3 size = plain(blockDim.x, blockDim.y, blockDim.z);
	uint64_t thread = number_of(plain(threadIdx.x, threadIdx.y, threadIdx.z), size);
	uint64_t block = number_of(plain(blockIdx.x, blockIdx.y, blockIdx.z),
				   plain(gridDim.x, gridDim.y, gridDim.z));

	atomicAdd((unsigned long long *) &to[block * size.x * size.y * size.z + thread],
		  thread << 32 | block);
}

static __global__ void crash(uint32_t *at)
{
	if (!at)
		__trap();
	store(at, 1);
}

static __global__ void wait(uint32_t *word)
{
	while (!load(word))
		__nanosleep(1000);
}

int launch_add(CUstream_st *stream, uint32_t *to, const uint32_t *from, uint32_t count,
	       uint32_t more)
{
	return GPU_LAUNCH(add, (count + 63) / 64, 64, stream, to, from, count, more);
}

int launch_answer(CUstream_st *stream, kernel_line *line, uint64_t *sum)
{
	return GPU_LAUNCH(answer, 1, 1, stream, line, sum);
}

int launch_count(CUstream_st *stream, unsigned int blocks, unsigned int threads, int *sum32,
		 unsigned long long *sum64, unsigned int *by_cas)
{
	return GPU_LAUNCH(count, blocks, threads, stream, sum32, sum64, by_cas);
}

int launch_meet(CUstream_st *stream, unsigned int blocks, unsigned int threads,
		unsigned int *come)
{
	return GPU_LAUNCH(meet, blocks, threads, stream, come);
}

int launch_turn(CUstream_st *stream, unsigned int blocks, uint32_t *numbers)
{
	return GPU_LAUNCH(turn, blocks, KERNEL_TURN_THREADS, stream, numbers);
}

int launch_places(CUstream_st *stream, uint64_t *to)
{
	return GPU_LAUNCH(places, dim3(3, 2, 2), dim3(5, 2, 3), stream, to);
}

int launch_crash(CUstream_st *stream, uint32_t *at)
{
	return GPU_LAUNCH(crash, 1, 1, stream, at);
}

int launch_wait(CUstream_st *stream, uint32_t *word)
{
	return GPU_LAUNCH(wait, 1, 1, stream, word);
}

int launch_too_many(CUstream_st *stream)
{
	return GPU_LAUNCH(wait, 1, 1025, stream, (uint32_t *) nullptr);
}
