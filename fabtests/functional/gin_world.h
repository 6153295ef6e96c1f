/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the parts of fi_p2p_gin share. gin_net.c has the messages, gin.c the rest. */
#ifndef GIN_WORLD_H
#define GIN_WORLD_H

#include "gin_plugin.h"

#define LARGEST (((size_t) 1 << 20) + 3)
#define SLOT (LARGEST + FT_ROOM)
#define OFFSET 64
#define DEPTH 8
#define ROUNDS 3

/**
 * struct world - what a rank has.
 * @data:	under test: first a slot for what goes to each rank, then one for what comes from each
 * @words:	signals, of which each rank adds to its own
 * @expected:	what the word of each rank has to be
 * @v11, @rma:	one of the two interfaces, with @coll; and the contexts of the second one
 */
struct world {
	struct ft_proc *proc;
	const struct nccl_net_v11 *net;
	const struct nccl_gin_v11 *v11;
	const struct nccl_rma_v14 *rma;
	struct ft_buf data, words;
	uint64_t expected[FT_MAX_RANKS];
	void *coll, *ctx;
	void *data_mr, *words_mr;
};

/** gin_len() - the length of message or put @i */
size_t gin_len(size_t i);

/** gin_slot() - the part of the data under test that is for @rank, or from it if @in */
struct ft_slot gin_slot(const struct world *w, bool in, int rank, size_t len);

/** gin_key() - what the bytes are made of that go between two ranks in a round */
uint64_t gin_key(size_t round, int from, int to);

/** gin_messages() - NCCL's calls for messages */
int gin_messages(struct world *w);

#endif /* GIN_WORLD_H */
