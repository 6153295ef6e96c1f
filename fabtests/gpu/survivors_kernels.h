/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Kernels of two ranks that talk to each other, and to a third one that dies; how C programs launch them */
#ifndef SURVIVORS_KERNELS_H
#define SURVIVORS_KERNELS_H

#include "xpu_kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Blocks that write to the victim, and behind them those that talk to the other survivor */
#define SURVIVORS_WRITERS 6
#define SURVIVORS_TALKERS 2
#define SURVIVORS_BLOCKS (SURVIVORS_WRITERS + SURVIVORS_TALKERS)

/* What a writer writes at a time, and what a talker puts [bytes] */
#define SURVIVORS_WRITE 512
#define SURVIVORS_PUT 3001

/* How often a talker and the other one exchange bytes when both know that the victim has died */
#define SURVIVORS_MORE 50

/* Where talkers have their bytes, behind what writers write; two parts, for odd and even rounds */
#define SURVIVORS_TALK (2 * SURVIVORS_WRITERS * SURVIVORS_WRITE)
#define SURVIVORS_LEN (SURVIVORS_TALK + SURVIVORS_TALKERS * 2 * SURVIVORS_PUT)

/**
 * struct survivors - a rank that survives.
 * @ep, @tx:	exported
 * @victim:	the target of writers; @there is where they write [bytes]
 * @victim_desc, @victim_peer, @victim_addr, @victim_key: the same for writes with all arguments
 * @other, @other_signal: targets of talkers
 * @out, @in:	local memory; @signal: words that the other sets, two for each talker
 * @rank:	this one, and @other_rank: the other one
 * @most:	writers write so often, if nothing fails
 * @posted:	for each block, how many operations it has posted
 * @result:	for each block 0, or where it failed
 */
struct survivors {
	struct fid_xpu_ep ep;
	struct fid_xpu_cntr tx;
	uint32_t victim, other, other_signal;
	uint64_t there;
	uint64_t victim_desc, victim_peer, victim_addr, victim_key;
	unsigned char *out, *in;
	uint64_t *signal;
	unsigned int rank, other_rank;
	uint64_t most;
	uint64_t *posted, *result;
};

/* 0 or an error of the GPU */
int survivors_run(const struct survivors *survivors, void *stream);

#ifdef __cplusplus
}
#endif

#endif /* SURVIVORS_KERNELS_H */
