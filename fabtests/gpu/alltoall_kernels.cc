/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Kernels of an exchange of tokens among all ranks. See alltoall_kernels.h.
 *
 *	block b of rank r                            block b of rank d
 *	puts tokens into slots of (r, b)  ─────────►
 *	sets the word of (r, b): {round, n} ───────► waits for it, looks at n tokens
 *	                      ◄────────────────────  puts what it makes of them, also if n is 0
 *	waits, adds all up    ◄────────────────────  adds n + 1 to the word of (d, b)
 *
 * So all blocks of one number are a team of their own. A block begins a round when all that it has sent in
 * the last one has come back. Nobody reads its slots, nor waits for its words, then.
 */
#include "gpu_kernel.h"
#include "gpu_xpu.h"

#include "alltoall_kernels.h"

#define ALLTOALL_SCOPE FI_XPU_WORK_GROUP

__device__ static void alltoall_copy(unsigned char *to, const unsigned char *from,
				     uint64_t size)
{
	for (uint64_t i = threadIdx.x; i < size; i += blockDim.x)
		to[i] = from[i];
}

/* What is true for the first thread is so for all of them. */
__device__ static int alltoall_failed(struct alltoall &a)
{
	return FI_P2P_XPU_SYNC_BLOCK(
		threadIdx.x ? 0 : fi_p2p_xpu_cntr_readerr(&a.tx, FI_XPU_WORK_ITEM) != 0);
}

/* The words of @rank and this block: what it has sent, and what it has returned */
__device__ static uint64_t alltoall_word(const struct alltoall &a, int area, unsigned int rank)
{
	return ((uint64_t) area * a.ranks + rank) * a.blocks + blockIdx.x;
}

/* All threads of the block wait for a word, as gpu_await() does. */
__device__ static int alltoall_await(struct alltoall &a, uint64_t word, uint64_t least)
{
	return FI_P2P_XPU_SYNC_BLOCK(threadIdx.x ? 0
						 : gpu_await(&a.signal[word], least, &a.tx));
}

__device__ static const unsigned char *alltoall_route(const struct alltoall &a, uint64_t round)
{
	return a.route + ((round - 1) * a.blocks + blockIdx.x) * a.count;
}

/* How many tokens of this block @rank gets */
__device__ static uint64_t alltoall_count(const struct alltoall &a, const unsigned char *route,
					  unsigned int rank)
{
	uint64_t count = 0;

	for (uint64_t i = 0; i < a.count; i++)
		count += route[i] >> rank & 1;
	return count;
}

/* New tokens, in the place of the last round's */
__device__ static void alltoall_compute(struct alltoall &a)
{
	unsigned char *tokens = a.out + blockIdx.x * a.count * a.size;

	for (uint64_t i = threadIdx.x; i < a.count * a.size; i += blockDim.x)
		tokens[i]++;
	__syncthreads();
}

/* Puts the tokens that @rank gets to its slots, and tells it how many there are. */
__device__ static int alltoall_dispatch(struct alltoall &a, const unsigned char *route,
					uint64_t round, unsigned int rank)
{
	uint64_t count = 0;
	int ret = 0;

	for (uint64_t i = 0; i < a.count && !ret; i++) {
		const uint64_t from = (blockIdx.x * a.count + i) * a.size;
		const uint64_t to =
			alltoall_slot(&a, ALLTOALL_THERE, a.rank, blockIdx.x, count);

		if (!(route[i] >> rank & 1))
			continue;
		count++;
		if (rank == a.rank)
			alltoall_copy(a.in + to, a.out + from, a.size);
		else
			XPU_RETRY(ret, fi_p2p_xpu_put(&a.ep, a.target[rank], to, from,
						      (uint32_t) a.size, 0, ALLTOALL_SCOPE));
	}
	if (rank != a.rank && !ret)
		XPU_RETRY(ret, fi_p2p_xpu_signal_set(&a.ep, a.signal_target[rank],
						     alltoall_word(a, ALLTOALL_THERE, a.rank) *
							     sizeof(uint64_t),
						     round << ALLTOALL_ROUND_SHIFT | count,
						     FI_P2P_XPU_NO_FENCE, ALLTOALL_SCOPE));
	return ret;
}

/* Makes something of @count tokens of @rank, and puts it back. */
__device__ static int alltoall_return(struct alltoall &a, uint64_t round, unsigned int rank,
				      uint64_t count)
{
	int ret = 0;

	for (uint64_t i = 0; i < count && !ret; i++) {
		const uint64_t from = alltoall_slot(&a, ALLTOALL_THERE, rank, blockIdx.x, i);
		const uint64_t mine = alltoall_slot(&a, ALLTOALL_BACK, rank, blockIdx.x, i);
		const uint64_t theirs = alltoall_slot(&a, ALLTOALL_BACK, a.rank, blockIdx.x, i);
		unsigned char *to = rank == a.rank ? a.in + theirs : a.out + mine;

		for (uint64_t j = threadIdx.x; j < a.size; j += blockDim.x)
			to[j] = alltoall_apply(a.rank, a.in[from + j]);
		if (rank != a.rank)
			XPU_RETRY(ret, fi_p2p_xpu_put(&a.ep, a.target[rank], theirs, mine,
						      (uint32_t) a.size, 0, ALLTOALL_SCOPE));
	}
	if (rank == a.rank || ret)
		return ret;

	const uint64_t at = alltoall_word(a, ALLTOALL_BACK, a.rank) * sizeof(uint64_t);

	if (a.adds)
		XPU_RETRY(ret,
			  fi_p2p_xpu_signal_add(&a.ep, a.signal_target[rank], at, count + 1,
						FI_P2P_XPU_NO_FENCE, ALLTOALL_SCOPE));
	else
		XPU_RETRY(ret, fi_p2p_xpu_signal_set(&a.ep, a.signal_target[rank], at,
						     round << ALLTOALL_ROUND_SHIFT,
						     FI_P2P_XPU_NO_FENCE, ALLTOALL_SCOPE));
	return ret;
}

/* Adds up what has come back for each token. */
__device__ static void alltoall_combine(struct alltoall &a, const unsigned char *route)
{
	uint64_t count[ALLTOALL_RANKS] = {0};

	for (uint64_t i = 0; i < a.count; i++) {
		unsigned char *sum = a.sums + (blockIdx.x * a.count + i) * a.size;

		for (uint64_t j = threadIdx.x; j < a.size; j += blockDim.x)
			sum[j] = 0;
		for (unsigned int rank = 0; rank < a.ranks; rank++) {
			if (!(route[i] >> rank & 1))
				continue;

			const unsigned char *in =
				a.in + alltoall_slot(&a, ALLTOALL_BACK, rank, blockIdx.x,
						     count[rank]++);

			for (uint64_t j = threadIdx.x; j < a.size; j += blockDim.x)
				sum[j] = (unsigned char) (sum[j] + in[j]);
		}
	}
}

/* Of the others, each begins with the one behind itself. The last one is this rank. */
__device__ static unsigned int alltoall_next(const struct alltoall &a, unsigned int turn)
{
	return (a.rank + 1 + turn) % a.ranks;
}

__device__ static int alltoall_round(struct alltoall &a, uint64_t round)
{
	const unsigned char *route = alltoall_route(a, round);
	uint64_t back[ALLTOALL_RANKS];
	int ret = 0;

	/* nothing comes back before it is sent */
	for (unsigned int rank = 0; rank < a.ranks; rank++)
		back[rank] =
			a.adds ? fi_p2p_xpu_load(
					 &a.signal[alltoall_word(a, ALLTOALL_BACK, rank)]) +
					 alltoall_count(a, route, rank) + 1
			       : round << ALLTOALL_ROUND_SHIFT;
	alltoall_compute(a);
	for (unsigned int i = 0; i < a.ranks && !ret; i++)
		ret = alltoall_dispatch(a, route, round, alltoall_next(a, i));
	for (unsigned int i = 0; i < a.ranks && !ret; i++) {
		const unsigned int rank = alltoall_next(a, i);
		const uint64_t word = alltoall_word(a, ALLTOALL_THERE, rank);
		uint64_t count = alltoall_count(a, route, rank);

		if (rank != a.rank) {
			ret = alltoall_await(a, word, round << ALLTOALL_ROUND_SHIFT);
			count = fi_p2p_xpu_load(&a.signal[word]) & 0xffffffffU;
		}
		if (!ret)
			ret = alltoall_return(a, round, rank, count);
	}
	for (unsigned int rank = 0; rank < a.ranks && !ret; rank++)
		if (rank != a.rank)
			ret = alltoall_await(a, alltoall_word(a, ALLTOALL_BACK, rank),
					     back[rank]);
	__syncthreads();
	if (!ret)
		alltoall_combine(a, route);
	/* what has come may be all, and what was sent not */
	return !ret && alltoall_failed(a) ? -FI_EIO : ret;
}

__global__ static void alltoall_kernel(struct alltoall a)
{
	int ret = 0;

	for (uint64_t i = 0; i < a.rounds && !ret; i++)
		ret = alltoall_round(a, a.first + i);
	if (!threadIdx.x)
		a.result[blockIdx.x] = (uint64_t) -ret;
}

int alltoall_run(const struct alltoall *alltoall, unsigned int threads, void *stream)
{
	return GPU_LAUNCH(alltoall_kernel, alltoall->blocks, threads, GPU_STREAM(stream),
			  *alltoall);
}
