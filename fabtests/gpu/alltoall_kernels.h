/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Kernels of an exchange of tokens among all ranks, and how C programs launch them */
#ifndef ALLTOALL_KERNELS_H
#define ALLTOALL_KERNELS_H

#include "xpu_kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ALLTOALL_RANKS 4

#if defined(__CUDACC__) || defined(__HIP__)
#define ALLTOALL_FUNC __host__ __device__ static inline
#else
#define ALLTOALL_FUNC static inline
#endif

/**
 * struct alltoall - a rank's part of the exchange.
 *
 * Each block owns @count tokens of @size bytes. In each round it puts copies of them to ranks, and those
 * return what they make of them. What ranks have for each other lies in slots, two areas of them.
 *
 * @out:	here: the tokens of all blocks; in the second area what this rank returns
 * @in:		here: what others have sent; in the second area what they have returned
 * @route:	a byte for each token of each round: the set of ranks that get it
 * @sums:	the results: all that came back for a token, added byte by byte
 * @signal:	words that others set: for each rank and block how many tokens it has sent in which round;
 *		then as many for what it has returned
 * @result:	a word for each block: 0, or the error that has ended it
 * @ep, @tx:	exported; @target, @signal_target: the others' @in and @signal, by rank
 * @adds:	what is returned is added to its word; else its word is set
 * @first:	the number of the first round, from 1 on; @rounds: how many
 */
struct alltoall {
	unsigned char *out, *in;
	const unsigned char *route;
	unsigned char *sums;
	uint64_t *signal;
	uint64_t *result;
	struct fid_xpu_ep ep;
	struct fid_xpu_cntr tx;
	uint32_t target[ALLTOALL_RANKS], signal_target[ALLTOALL_RANKS];
	unsigned int rank, ranks, blocks;
	int adds;
	uint64_t count, size;
	uint64_t first, rounds;
};

/* Words of @signal have the round in their upper half, and the number of tokens in the lower one. */
#define ALLTOALL_ROUND_SHIFT 32

/* Areas of slots: on the way there, and back */
enum { ALLTOALL_THERE, ALLTOALL_BACK, ALLTOALL_AREAS };

/* Where slot @i of @rank and @block is [bytes] */
ALLTOALL_FUNC uint64_t alltoall_slot(const struct alltoall *alltoall, int area,
				     unsigned int rank, unsigned int block, uint64_t i)
{
	const uint64_t owner =
		((uint64_t) area * alltoall->ranks + rank) * alltoall->blocks + block;

	return (owner * alltoall->count + i) * alltoall->size;
}

/* What @rank makes of a byte that it gets */
ALLTOALL_FUNC unsigned char alltoall_apply(unsigned int rank, unsigned char byte)
{
	return (unsigned char) (byte * 5 + 11 * rank + 3);
}

/* All rounds, each block of @threads threads. 0 or an error of the GPU */
int alltoall_run(const struct alltoall *alltoall, unsigned int threads, void *stream);

#ifdef __cplusplus
}
#endif

#endif /* ALLTOALL_KERNELS_H */
