/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A rank whose kernels communicate: all that it has open, exported and shared. */
#ifndef XPU_SIDE_H
#define XPU_SIDE_H

#include "ft_test.h"
#include "xpu_kernels.h"

#define XPU_SIGNALS 8192

/* What a rank tells the others: where they may write, and the keys */
struct xpu_memory {
	uint64_t in, in_key, signal, signal_key;
};

/**
 * struct xpu_side - one of the ranks.
 * @caps:	asked for besides, before xpu_side_open()
 * @out, @in:	what is written, and what the others write to
 * @signal:	words that the others set
 * @result:	a word for each block
 * @there:	the others' memory, by rank
 * @there_signal, @there_signal_key: the peer's words. The peer is the first one of the others.
 * @args:	for its kernels, which write to the peer
 * @device:	of xpu_launch()
 */
struct xpu_side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	uint64_t caps;
	struct fi_p2p_xpu_ops *xpu;
	struct fid_xpu_ctx *xpu_ctx;
	struct fid_cntr *tx, *rx;
	struct ft_buf out, in, signal, result;
	struct xpu_memory there[FT_MAX_RANKS];
	uint64_t there_signal, there_signal_key;
	struct xpu_args args;
	int device;
};

/**
 * xpu_side_open() - open all, for buffers of @len bytes, and export it with @flags
 * @blocks:	how many words there are for results
 * @near:	the signals are in pinned host memory, which kernels read, too
 */
int xpu_side_open(struct xpu_side *side, struct ft_proc *proc, uint64_t flags, size_t len,
		  size_t blocks, bool near);
int xpu_side_close(struct xpu_side *side);

/**
 * xpu_side_hints(), _alloc(), _share() - the steps of xpu_side_open(). After the first a program opens
 * all, and connects. When all is exported, the last one tells the peer of the buffers, and completes @args.
 */
int xpu_side_hints(struct xpu_side *side, struct ft_proc *proc);
int xpu_side_alloc(struct xpu_side *side, size_t len, size_t blocks, bool near);
int xpu_side_share(struct xpu_side *side);

/** xpu_side_target() - name local memory, and the peer's at @addr by @key, for short operations */
int xpu_side_target(struct xpu_side *side, const struct ft_buf *buf, uint64_t addr,
		    uint64_t key, uint32_t *number);
/** xpu_side_target_of() - the same for the memory of @rank */
int xpu_side_target_of(struct xpu_side *side, int rank, const struct ft_buf *buf, uint64_t addr,
		       uint64_t key, uint32_t *number);
/** xpu_side_shares() - are there mr_share() and target_map()? Plugins of 1.0.0 lack them. */
bool xpu_side_shares(const struct xpu_side *side);
/**
 * xpu_side_map() - let kernels store to the peer's memory themselves: all of its targets so far, if those are these two
 * @can:	false: the GPU cannot reach it
 */
int xpu_side_map(struct xpu_side *side, bool *can);
/** xpu_side_clear() - fill a buffer with zeros */
int xpu_side_clear(const struct ft_buf *buf);
/** xpu_side_take_back() - from now on the host posts and reads again */
int xpu_side_take_back(struct xpu_side *side);

#define XPU_BLOCKS_MAX 256

/**
 * xpu_side_run() - run a kernel of args.blocks blocks to its end
 * @results:	gets a word of each block; NULL: they tell where one has failed
 */
int xpu_side_run(struct xpu_side *side, enum xpu_kernel kernel, unsigned int threads,
		 uint64_t *results);

#endif /* XPU_SIDE_H */
