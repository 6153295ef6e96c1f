/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Kernels of two ranks that survive a third one. See survivors_kernels.h. */
#include "gpu_kernel.h"
#include "gpu_xpu.h"

#include "survivors_kernels.h"

#define SURVIVORS_SCOPE FI_XPU_WORK_ITEM
#define SURVIVORS_TIMEOUT 60000

/* Has anything failed? Only what is for the victim can. */
__device__ static bool survivors_know(struct survivors &s)
{
	return fi_p2p_xpu_cntr_readerr(&s.tx, SURVIVORS_SCOPE) != 0;
}

/* Every other block puts, the others write with all arguments. Returns how many operations it has posted. */
__device__ static uint64_t survivors_write(struct survivors &s)
{
	const uint64_t from = blockIdx.x * SURVIVORS_WRITE, to = s.there + from;
	uint64_t posted = 0;
	int ret = 0;

	while (posted < s.most && !survivors_know(s) && !ret) {
		if (blockIdx.x % 2)
			XPU_RETRY(ret, fi_p2p_xpu_put(&s.ep, s.victim, to, from,
						      SURVIVORS_WRITE, 0, SURVIVORS_SCOPE));
		else
			XPU_RETRY(ret,
				  fi_p2p_xpu_write(&s.ep, s.out + from, SURVIVORS_WRITE,
						   &s.victim_desc, 0, &s.victim_peer,
						   s.victim_addr + to, s.victim_key, nullptr,
						   FI_DELIVERY_COMPLETE, SURVIVORS_SCOPE));
		posted += !ret;
	}
	fi_p2p_xpu_cntr_wait(&s.tx, ~0ULL, SURVIVORS_TIMEOUT, SURVIVORS_SCOPE);
	if (ret || !survivors_know(s))
		s.result[blockIdx.x] = ret ? (uint64_t) -ret : 1000;
	return posted;
}

__device__ static unsigned char survivors_byte(unsigned int rank, uint64_t round, uint64_t i)
{
	return (unsigned char) (rank * 101 + round * 7 + i * 3 + blockIdx.x);
}

/* What the other one has said of this round: 1 if it knows, else 0; -1 if it says nothing. */
__device__ static int survivors_hear(struct survivors &s, unsigned int talker, uint64_t round)
{
	const uint64_t *word = &s.signal[2 * talker + round % 2];

	if (gpu_await(word, 2 * round, nullptr))
		return -1;
	return (int) (fi_p2p_xpu_load(word) & 1);
}

/*
 * Rounds, in which both put bytes to each other, tell whether they know of the death, and look at the bytes.
 * The last one is some rounds after the first one of which both know. So they agree on it.
 */
__device__ static uint64_t survivors_talk(struct survivors &s)
{
	const unsigned int talker = blockIdx.x - SURVIVORS_WRITERS;
	uint64_t posted = 0, last = ~0ULL;
	int ret = 0;

	for (uint64_t round = 1; round <= last; round++) {
		const uint64_t at = SURVIVORS_TALK + (talker * 2 + round % 2) * SURVIVORS_PUT;
		const int know = survivors_know(s);
		int heard;

		for (uint64_t i = 0; i < SURVIVORS_PUT; i++)
			s.out[at + i] = survivors_byte(s.rank, round, i);
		XPU_RETRY(ret, fi_p2p_xpu_put(&s.ep, s.other, at, at, SURVIVORS_PUT, 0,
					      SURVIVORS_SCOPE));
		if (!ret)
			XPU_RETRY(ret,
				  fi_p2p_xpu_signal_set(&s.ep, s.other_signal,
							(2 * talker + round % 2) *
								sizeof(uint64_t),
							2 * round + (uint64_t) know,
							FI_P2P_XPU_NO_FENCE, SURVIVORS_SCOPE));
		posted += 2;
		heard = ret ? -1 : survivors_hear(s, talker, round);
		if (heard < 0) {
			s.result[blockIdx.x] = 2000;
			return posted;
		}
		for (uint64_t i = 0; i < SURVIVORS_PUT; i++)
			if (s.in[at + i] != survivors_byte(s.other_rank, round, i))
				s.result[blockIdx.x] = 3000 + round;
		if (know && heard && last == ~0ULL)
			last = round + SURVIVORS_MORE;
	}
	return posted;
}

__global__ static void survivors_kernel(struct survivors s)
{
	s.posted[blockIdx.x] =
		blockIdx.x < SURVIVORS_WRITERS ? survivors_write(s) : survivors_talk(s);
}

int survivors_run(const struct survivors *survivors, void *stream)
{
	return GPU_LAUNCH(survivors_kernel, SURVIVORS_BLOCKS, 1, GPU_STREAM(stream),
			  *survivors);
}
