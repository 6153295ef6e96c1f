/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Rounds of exchanges through scratch memory. See rounds.h. */
#include "rounds.h"

#include <stdlib.h>

#include "dev/dev_none.h"
#include "kernel.h"
#include "lane.h"
#include "scratch.h"

/* So are slots aligned. */
#define ROUNDS_ALIGNED 64

static size_t rounds_scratch(const struct rounds *rounds)
{
	return 2 * (size_t) rounds->exchange->ranks * rounds->slot;
}

/* Does its GPU run kernels of ours? */
static bool rounds_computes(const struct exchange_area *area)
{
	return area->gpu && area->mem.ops->kernel_load != dev_none_kernel_load;
}

/* Two rounds share @scratch bytes. */
static size_t rounds_room(size_t scratch, int ranks)
{
	return scratch / 2 / (size_t) ranks / ROUNDS_ALIGNED * ROUNDS_ALIGNED;
}

bool rounds_fits(size_t len, int ranks)
{
	return len <= rounds_room(SCRATCH_SMALL, ranks);
}

static void rounds_divide(struct rounds *rounds, size_t scratch)
{
	size_t slot = rounds_room(scratch, rounds->exchange->ranks);

	if (slot > rounds->longest)
		slot = (rounds->longest + ROUNDS_ALIGNED - 1) / ROUNDS_ALIGNED * ROUNDS_ALIGNED;
	rounds->slot = slot > ROUNDS_ALIGNED ? slot : ROUNDS_ALIGNED;
	rounds->most = rounds->slot / rounds->size * rounds->size;
}

static bool rounds_take(struct rounds *rounds)
{
	struct exchange_area *scratch = &rounds->scratch;
	const bool gpu =
		rounds->in.gpu && (rounds->op == MPI_OP_NULL || rounds_computes(&rounds->in));

	rounds_divide(rounds, SCRATCH_MOST);
	if (gpu && scratch_gpu(scratch, rounds_scratch(rounds), &rounds->in))
		return true;
	rounds->exchange->small = true;
	rounds_divide(rounds, SCRATCH_SMALL);
	return (gpu && scratch_gpu(scratch, rounds_scratch(rounds), &rounds->in)) ||
	       scratch_host(scratch, rounds_scratch(rounds), &rounds->in);
}

void rounds_prepare(struct rounds *rounds)
{
	struct exchange *exchange = rounds->exchange;
	const size_t ranks = (size_t) exchange->ranks;

	/* maybe there was no memory for where segments begin */
	if (exchange->cannot)
		return;
	for (size_t i = 0; i < ranks; i++) {
		const size_t len = rounds->segments[i].len;

		rounds->longest = len > rounds->longest ? len : rounds->longest;
	}
	rounds->pieces = calloc(6 * ranks, sizeof *rounds->pieces);
	if (!rounds->pieces || !rounds_take(rounds))
		exchange->cannot = true;
}

void rounds_release(struct rounds *rounds)
{
	free(rounds->pieces);
	if (rounds->scratch.addr)
		scratch_give(&rounds->scratch, rounds_scratch(rounds));
}

/* How long the part of @rank's segment is in the round that begins @at */
static size_t rounds_part(const struct rounds *rounds, int rank, size_t at)
{
	const size_t len = rounds->segments[rank].len, left = len > at ? len - at : 0;

	return left < rounds->most ? left : rounds->most;
}

static char *rounds_slot(const struct rounds *rounds, size_t round, int rank)
{
	return rounds->scratch.addr +
	       (round % 2 * (size_t) rounds->exchange->ranks + (size_t) rank) * rounds->slot;
}

/* Parts come to their owners. */
static void rounds_collect(struct rounds *rounds, struct exchange_flow flows[2], size_t at)
{
	struct exchange *exchange = rounds->exchange;
	const int ranks = exchange->ranks, rank = exchange->rank;
	const size_t round = at / rounds->most, own = rounds_part(rounds, rank, at);
	struct exchange_piece *out = &rounds->pieces[round % 2 * 2 * (size_t) ranks],
			      *in = out + ranks;

	for (int i = 0; i < ranks; i++) {
		out[i].addr = rounds->in.addr + rounds->segments[i].at + at;
		out[i].len = rounds_part(rounds, i, at);
		in[i].addr = rounds_slot(rounds, round, i);
		in[i].len = own;
	}
	flows[round % 2] = (struct exchange_flow){.exchange = exchange,
						  .out = out,
						  .in = in,
						  .from = &rounds->in,
						  .to = &rounds->scratch};
	exchange_begin(&flows[round % 2]);
}

/* By the host, slot @i gets what is in the one before added. */
static void rounds_add_slot(struct rounds *rounds, size_t round, int i, size_t len)
{
	struct exchange *exchange = rounds->exchange;
	const struct exchange_area *scratch = &rounds->scratch;
	struct exchange_area host = {.mem = scratch->mem};
	char *from = rounds_slot(rounds, round, i - 1), *to = rounds_slot(rounds, round, i);
	char *in = from, *out = to;
	const char *why;

	if (scratch->gpu) {
		int ret = lane_memory(&host.mem, 2 * rounds->slot, &host.addr, &why);

		if (ret != MPI_SUCCESS) {
			call_fail(&exchange->call, ret, why);
			return;
		}
		in = host.addr;
		out = host.addr + rounds->slot;
		exchange_copy(&exchange->call, &host, in, scratch, from, len);
		exchange_copy(&exchange->call, &host, out, scratch, to, len);
	}
	if (PMPI_Reduce_local(in, out, (int) (len / rounds->size), rounds->type, rounds->op) !=
	    MPI_SUCCESS)
		call_fail(&exchange->call, MPI_ERR_OTHER, "a reduction has failed");
	if (scratch->gpu) {
		exchange_copy(&exchange->call, scratch, to, &host, out, len);
		lane_memory_free(&host.mem, host.addr, 2 * rounds->slot);
	}
}

/* By kernels: returns how many slots have been added, which may be one. */
static int rounds_launch(struct rounds *rounds, size_t round, size_t len)
{
	const char *why = NULL;
	struct lane *lane;
	int i = 1, ret = lane_open(&rounds->scratch.mem, &lane, &why);

	if (ret != MPI_SUCCESS)
		return 1;
	while (i < rounds->exchange->ranks &&
	       kernel_reduce(lane, rounds->op, rounds->type, rounds_slot(rounds, round, i),
			     rounds_slot(rounds, round, i - 1), rounds_slot(rounds, round, i),
			     len / rounds->size, &why) == MPI_SUCCESS)
		i++;
	ret = lane_close(lane, MPI_SUCCESS, &why);
	if (ret != MPI_SUCCESS)
		call_fail(&rounds->exchange->call, ret, why);
	return i;
}

/* The sum is in the last slot. */
static void rounds_add(struct rounds *rounds, size_t at)
{
	const size_t round = at / rounds->most,
		     own = rounds_part(rounds, rounds->exchange->rank, at);
	int i = 1;

	if (own == 0)
		return;
	/* one that is launched, and waits for a kernel of the application's, cannot be taken back */
	if (rounds->scratch.gpu && kernel_begins(&rounds->scratch.mem))
		i = rounds_launch(rounds, round, own);
	for (; i < rounds->exchange->ranks; i++)
		rounds_add_slot(rounds, round, i, own);
}

static bool rounds_gets(const struct rounds *rounds, int owner, int rank)
{
	return rounds->root == ROUNDS_ALL || rounds->root == rank ||
	       (rounds->root == ROUNDS_OWN && owner == rank);
}

/* Sums go to those who get them. */
static void rounds_deliver(struct rounds *rounds, size_t at)
{
	struct exchange *exchange = rounds->exchange;
	const int ranks = exchange->ranks, rank = exchange->rank;
	const size_t own = rounds_part(rounds, rank, at);
	struct exchange_piece *out = &rounds->pieces[4 * ranks], *in = out + ranks;

	for (int i = 0; i < ranks; i++) {
		out[i].addr = rounds_slot(rounds, at / rounds->most, ranks - 1);
		out[i].len = rounds_gets(rounds, rank, i) ? own : 0;
		in[i].addr = rounds->out.addr + at +
			     (rounds->root == ROUNDS_OWN ? 0 : rounds->segments[i].at);
		in[i].len = rounds_gets(rounds, i, rank) ? rounds_part(rounds, i, at) : 0;
	}
	exchange_all(exchange, out, &rounds->scratch, in, &rounds->out);
}

/* Parts that have waited for others to be sent */
static void rounds_settle(struct rounds *rounds, size_t at)
{
	struct exchange *exchange = rounds->exchange;

	for (int i = 0; i < exchange->ranks; i++) {
		if (i != exchange->rank)
			exchange_copy(&exchange->call, &rounds->out,
				      rounds->out.addr + rounds->segments[i].at + at,
				      &rounds->scratch,
				      rounds_slot(rounds, at / rounds->most, i),
				      rounds_part(rounds, i, at));
	}
}

/*
 * What a round delivers in place lies at no later offset than its parts in their segments. So the next round, whose parts
 * are being sent meanwhile, still finds them.
 */
void rounds_run(struct rounds *rounds)
{
	struct exchange_flow flows[2];

	/* all ranks have slots of one length */
	if (rounds->exchange->small)
		rounds_divide(rounds, SCRATCH_SMALL);
	rounds_collect(rounds, flows, 0);
	for (size_t at = 0; at < rounds->longest; at += rounds->most) {
		if (at + rounds->most < rounds->longest)
			rounds_collect(rounds, flows, at + rounds->most);
		exchange_end(&flows[at / rounds->most % 2]);
		if (rounds->op == MPI_OP_NULL) {
			rounds_settle(rounds, at);
			continue;
		}
		rounds_add(rounds, at);
		rounds_deliver(rounds, at);
	}
}
