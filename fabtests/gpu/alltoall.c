/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_alltoall: kernels of two to four ranks send tokens to each other, and get back what those make of
 * them, as layers of experts do. How many tokens a block has for a rank is different each time, and often
 * there are none. Results, and what has arrived in between, are compared with what one process computes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alltoall_kernels.h"
#include "cu.h"
#include "xpu_side.h"

/**
 * struct run - a rank.
 * @tokens:	of all blocks; @rounds: all that there are
 * @route:	this rank's part of @routes; @sums: results
 * @routes:	of all ranks and rounds
 * @expected, @found: room for two tokens, and for those of all blocks
 * @usec:	what the last kernel took
 */
struct run {
	struct xpu_side side;
	struct alltoall a;
	unsigned int threads;
	uint64_t tokens, rounds;
	struct ft_buf route, sums;
	unsigned char *routes;
	unsigned char *expected, *found;
	void *stream;
	double usec;
};

/* ---- what is expected ---- */

/* Of @round, from 1 on: the set of ranks that get @token of @rank */
static unsigned char *route_at(const struct run *run, int rank, uint64_t round, uint64_t token)
{
	return &run->routes[((uint64_t) rank * run->rounds + round - 1) * run->tokens + token];
}

/* Half of the tokens go to a rank. Of a quarter of the blocks it gets none. The last round fails, for all. */
static void draw(struct run *run)
{
	uint64_t seed = run->side.proc->opts.seed;

	for (uint64_t i = 0; i < (uint64_t) run->side.proc->ranks * run->rounds; i++) {
		for (uint64_t token = 0; token < run->tokens; token += run->a.count) {
			const bool all = i % run->rounds == run->rounds - 1;
			const uint64_t closed = ft_random(&seed) & ft_random(&seed);

			for (uint64_t j = 0; j < run->a.count; j++)
				run->routes[i * run->tokens + token + j] =
					all ? 0xff
					    : (unsigned char) (ft_random(&seed) & ~closed);
		}
	}
}

/* What @rank's token is in @round */
static void token_fill(const struct run *run, unsigned char *to, int rank, uint64_t round,
		       uint64_t token)
{
	ft_pattern_fill(to, run->a.size,
			run->side.proc->opts.seed + (uint64_t) rank * run->tokens + token);
	for (uint64_t i = 0; i < run->a.size; i++)
		to[i] = (unsigned char) (to[i] + round);
}

/* ---- comparing ---- */

static int compare(const struct run *run, const unsigned char *found, uint64_t round,
		   const char *what, int rank, uint64_t token)
{
	const uint64_t size = run->a.size;

	if (!memcmp(found, run->expected, size))
		return 0;
	for (uint64_t i = 0; i < size; i++)
		FT_CHECK(found[i] == run->expected[i],
			 "round %" PRIu64 ", %s rank %d, token %" PRIu64 ": byte %" PRIu64
			 " is 0x%02x, not 0x%02x",
			 round, what, rank, token, i, found[i], run->expected[i]);
	return 0;
}

/* All tokens for this rank lie in their slots. */
static int check_arrived(struct run *run, uint64_t round)
{
	const struct xpu_side *side = &run->side;
	const struct alltoall *a = &run->a;

	for (int rank = 0; rank < side->proc->ranks; rank++) {
		uint64_t slot = 0;

		for (uint64_t token = 0; token < run->tokens; token++) {
			const unsigned int block = (unsigned int) (token / a->count);

			if (token % a->count == 0)
				slot = 0;
			if (!(*route_at(run, rank, round, token) >> side->proc->rank & 1))
				continue;
			token_fill(run, run->expected, rank, round, token);
			FT_TRY(side->in.ops->from(run->found,
						  a->in + alltoall_slot(a, ALLTOALL_THERE,
									(unsigned int) rank,
									block, slot++),
						  a->size));
			FT_TRY(compare(run, run->found, round, "arrived of", rank, token));
		}
	}
	return 0;
}

static int check_sums(struct run *run, uint64_t round)
{
	const struct ft_proc *proc = run->side.proc;
	const uint64_t size = run->a.size;
	unsigned char *token_bytes = run->expected + size;

	FT_TRY(run->sums.ops->from(run->found, run->sums.addr, run->tokens * size));
	for (uint64_t token = 0; token < run->tokens; token++) {
		const unsigned int to = *route_at(run, proc->rank, round, token);

		token_fill(run, token_bytes, proc->rank, round, token);
		memset(run->expected, 0, size);
		for (uint64_t i = 0; i < size; i++)
			for (unsigned int rank = 0; rank < run->a.ranks; rank++)
				if (to >> rank & 1)
					run->expected[i] =
						(unsigned char) (run->expected[i] +
								 alltoall_apply(rank,
										token_bytes
											[i]));
		FT_TRY(compare(run, run->found + token * size, round, "returned to", proc->rank,
			       token));
	}
	return 0;
}

/* ---- scenes ---- */

/* Runs the next @rounds rounds in one kernel. Gets how many blocks have @failed. */
static int launch(struct run *run, uint64_t rounds, unsigned int *failed)
{
	struct xpu_side *side = &run->side;
	uint64_t results[XPU_BLOCKS_MAX];

	run->a.rounds = rounds;
	run->usec = ft_usec();
	FT_CHECK(!alltoall_run(&run->a, run->threads, run->stream),
		 "a kernel cannot be launched");
	CU(synchronize(run->stream));
	run->usec = ft_usec() - run->usec;
	run->a.first += rounds;
	FT_TRY(side->result.ops->from(results, side->result.addr,
				      run->a.blocks * sizeof(uint64_t)));
	*failed = 0;
	for (unsigned int i = 0; i < run->a.blocks; i++)
		*failed += results[i] != 0;
	ft_progress_note();
	return 0;
}

/* Some rounds, the last one of which is looked at */
static int scene_rounds(struct run *run, uint64_t rounds)
{
	unsigned int failed;

	FT_TRY(launch(run, rounds, &failed));
	FT_CHECK(!failed, "%u blocks have failed", failed);
	FT_TRY(check_arrived(run, run->a.first - 1));
	FT_TRY(check_sums(run, run->a.first - 1));
	/* the next round overwrites what the others look at */
	return ft_meet_all(run->side.proc);
}

static int scene_size(struct run *run, uint64_t size, uint64_t rounds)
{
	struct xpu_side *side = &run->side;

	run->a.size = size;
	for (uint64_t token = 0; token < run->tokens; token++)
		token_fill(run, run->found + token * size, side->proc->rank, run->a.first - 1,
			   token);
	FT_TRY(side->out.ops->to(side->out.addr, run->found, run->tokens * size));
	FT_TRY(ft_meet_all(side->proc));
	FT_TRY(scene_rounds(run, 1));
	if (rounds == 1)
		return 0;
	FT_TRY(scene_rounds(run, rounds - 1));
	if (!side->proc->rank)
		printf("%d ranks, %u blocks, tokens of %" PRIu64 " bytes: %.2f us a round\n",
		       side->proc->ranks, run->a.blocks, size,
		       run->usec / (double) (rounds - 1));
	return 0;
}

/* No signal has come of tokens that have not. */
static int check_silence(struct run *run, uint64_t round)
{
	const struct xpu_side *side = &run->side;
	const uint64_t blocks = run->a.blocks;
	uint64_t words[XPU_SIGNALS];

	FT_TRY(side->signal.ops->from(words, side->signal.addr, sizeof(words)));
	for (int rank = 0; rank < side->proc->ranks; rank++) {
		for (uint64_t block = 0; block < blocks && rank != side->proc->rank; block++) {
			const uint64_t word = words[(uint64_t) rank * blocks + block];

			FT_CHECK(word >> ALLTOALL_ROUND_SHIFT < round || !(uint32_t) word,
				 "rank %d, block %" PRIu64 ": %" PRIu32
				 " tokens are signalled, and were never put",
				 rank, block, (uint32_t) word);
		}
	}
	return 0;
}

/* With wrong keys no token arrives. Each rank's kernel ends, and tells of that. */
static int scene_failure(struct run *run)
{
	struct xpu_side *side = &run->side;
	unsigned int failed;

	for (int i = 0; i < side->proc->ranks; i++)
		if (i != side->proc->rank)
			FT_TRY(xpu_side_target_of(side, i, &side->out, side->there[i].in,
						  side->there[i].in_key ^ 0x5a5a,
						  &run->a.target[i]));
	FT_TRY(launch(run, 1, &failed));
	FT_CHECK(failed, "puts with wrong keys, and no block has failed");
	FT_TRY(ft_meet_all(side->proc));
	return check_silence(run, run->a.first - 1);
}

/* ---- opening and closing ---- */

static int prepare(struct run *run, size_t size)
{
	struct xpu_side *side = &run->side;
	const struct ft_proc *proc = side->proc;
	const size_t area = (size_t) proc->ranks * run->tokens * size;
	const size_t routes = (size_t) run->rounds * run->tokens;

	run->routes = malloc((size_t) proc->ranks * routes);
	run->expected = malloc(2 * size);
	run->found = malloc(run->tokens * size);
	FT_CHECK(run->routes && run->expected && run->found, "no memory for tokens");
	FT_TRY(xpu_side_open(side, run->side.proc, 0, ALLTOALL_AREAS * area, run->a.blocks,
			     false));
	FT_TRY(cu_load());
	CU(stream_create(&run->stream, CU_NON_BLOCKING));
	FT_TRY(ft_buf_alloc(&side->ctx, &run->route, FI_HMEM_CUDA, routes));
	FT_TRY(ft_buf_alloc(&side->ctx, &run->sums, FI_HMEM_CUDA, run->tokens * size));
	draw(run);
	FT_TRY(run->route.ops->to(run->route.addr, route_at(run, proc->rank, 1, 0), routes));
	FT_TRY(xpu_side_clear(&side->signal));
	for (int i = 0; i < proc->ranks; i++) {
		if (i == proc->rank)
			continue;
		FT_TRY(xpu_side_target_of(side, i, &side->out, side->there[i].in,
					  side->there[i].in_key, &run->a.target[i]));
		FT_TRY(xpu_side_target_of(side, i, &side->out, side->there[i].signal,
					  side->there[i].signal_key, &run->a.signal_target[i]));
	}
	return 0;
}

static void fill_args(struct run *run)
{
	struct xpu_side *side = &run->side;
	struct alltoall *a = &run->a;
	size_t most;

	a->out = (unsigned char *) side->out.addr;
	a->in = (unsigned char *) side->in.addr;
	a->route = (unsigned char *) run->route.addr;
	a->sums = (unsigned char *) run->sums.addr;
	a->signal = (uint64_t *) side->signal.addr;
	a->result = (uint64_t *) side->result.addr;
	a->ep = side->args.ep;
	a->tx = side->args.tx;
	a->rank = (unsigned int) side->proc->rank;
	a->ranks = (unsigned int) side->proc->ranks;
	a->adds = !fi_atomicvalid(side->ctx.ep, FI_UINT64, FI_SUM, &most);
	a->first = 1;
}

static int run(struct ft_proc *proc)
{
	static size_t usual[] = {1, 7001, 7168};
	const bool quick = proc->opts.quick;
	const size_t *sizes = proc->opts.size_count ? proc->opts.sizes : usual;
	const size_t size_count = proc->opts.size_count ? proc->opts.size_count
				  : quick               ? 2
							: FT_COUNT(usual);
	const uint64_t rounds = proc->opts.rounds ? proc->opts.rounds : quick ? 4 : 50;
	struct run run = {
		.side = {.proc = proc},
		.a = {.blocks = quick ? 3 : 32, .count = quick ? 6 : 4},
		.threads = quick ? 4 : 256,
		.rounds = rounds * size_count + 1,
	};
	size_t largest = 1;

	if (proc->opts.iface != FI_HMEM_CUDA)
		return ft_skip("for CUDA memory (-D cuda)");
	for (size_t i = 0; i < size_count; i++)
		largest = FT_MAX(largest, sizes[i]);
	run.tokens = run.a.blocks * run.a.count;
	FT_TRY(prepare(&run, largest));
	fill_args(&run);
	for (size_t i = 0; i < size_count; i++)
		if (sizes[i])
			FT_TRY(scene_size(&run, sizes[i], rounds));
	FT_TRY(scene_failure(&run));
	FT_TRY(ft_meet_all(proc));
	CU(stream_destroy(run.stream));
	ft_buf_free(&run.route);
	ft_buf_free(&run.sums);
	free(run.routes);
	free(run.expected);
	free(run.found);
	return xpu_side_close(&run.side);
}

int main(int argc, char **argv)
{
	const struct ft_test test = {
		.purpose = "Kernels of two to four ranks send tokens to each other, and get "
			   "them back.",
		.scope = FT_SCOPE_TEST | FT_SCOPE_SIZES | FT_SCOPE_ROUNDS | FT_SCOPE_RANKS,
		.ranks = 2,
		.most_ranks = 4,
		.measures = true,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
