/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_accumulate: all ranks at once add to the windows of all others, which are on every kind of memory, by
 * MPI_Accumulate, MPI_Fetch_and_op and MPI_Compare_and_swap. Operands are in host memory.
 */
#include <stdlib.h>

#include "mpi_test.h"

#define ROUNDS 20
#define LONGEST 3000
/* What MPI_Accumulate adds to; the elements behind are for single ones */
#define FETCHED LONGEST
#define SWAPPED (LONGEST + 1)
#define ELEMENTS (LONGEST + 2)

static const int counts[] = {1, 2, 31, 33, LONGEST};

struct side {
	struct mpi_run *run;
	MPI_Win win;
	const struct ft_buf *buf;
	int64_t ones[LONGEST];
	int64_t expected[LONGEST];
};

/* Adds 1 by an operation that only one rank at a time succeeds with. */
static void swap_until(const struct side *side, int peer)
{
	int64_t before = 0, seen, after;

	for (;;) {
		after = before + 1;
		MPI_Compare_and_swap(&after, &before, &seen, MPI_INT64_T, peer, SWAPPED,
				     side->win);
		MPI_Win_flush(peer, side->win);
		if (seen == before)
			return;
		before = seen;
	}
}

static int add(struct side *side, int round)
{
	const int ranks = side->run->ranks, count = counts[round % (int) FT_COUNT(counts)];
	int64_t one = 1, before;

	mpi_stage(side->run, "%d elements in round %d", count, round);
	for (int i = 0; i < ranks; i++) {
		if (i == side->run->rank)
			continue;
		MPI_Accumulate(side->ones, count, MPI_INT64_T, i, 0, count, MPI_INT64_T,
			       MPI_SUM, side->win);
		MPI_Fetch_and_op(&one, &before, MPI_INT64_T, i, FETCHED, MPI_SUM, side->win);
		MPI_Win_flush(i, side->win);
		FT_CHECK(before >= round && before < (int64_t) ROUNDS * (ranks - 1),
			 "MPI_Fetch_and_op found %lld in round %d", (long long) before, round);
		swap_until(side, i);
	}
	for (int i = 0; i < count; i++)
		side->expected[i] += ranks - 1;
	return 0;
}

static int check(const struct side *side)
{
	const int64_t single = (int64_t) ROUNDS * (side->run->ranks - 1);
	static int64_t found[ELEMENTS];

	FT_TRY(side->buf->ops->from(found, side->buf->addr, sizeof(found)));
	for (int i = 0; i < LONGEST; i++)
		FT_CHECK(found[i] == side->expected[i], "element %d is %lld, not %lld", i,
			 (long long) found[i], (long long) side->expected[i]);
	FT_CHECK(found[FETCHED] == single && found[SWAPPED] == single,
		 "single elements are %lld and %lld, not %lld", (long long) found[FETCHED],
		 (long long) found[SWAPPED], (long long) single);
	return 0;
}

static int one_kind(struct side *side, const struct ft_buf *buf)
{
	static const int64_t zero[ELEMENTS];

	side->buf = buf;
	for (int i = 0; i < LONGEST; i++) {
		side->ones[i] = 1;
		side->expected[i] = 0;
	}
	FT_TRY(buf->ops->to(buf->addr, zero, sizeof(zero)));
	MPI_Win_create(buf->addr, sizeof(zero), sizeof(int64_t), MPI_INFO_NULL, MPI_COMM_WORLD,
		       &side->win);
	MPI_Win_lock_all(0, side->win);
	for (int i = 0; i < ROUNDS; i++)
		FT_TRY(add(side, i));
	MPI_Win_unlock_all(side->win);
	MPI_Barrier(MPI_COMM_WORLD);
	FT_TRY(check(side));
	MPI_Win_free(&side->win);
	return 0;
}

static int run_all(struct mpi_run *run)
{
	static struct side side;

	side.run = run;
	for (size_t i = 0; i < run->kinds; i++)
		FT_TRY(one_kind(&side, &run->pool[i].buf));
	return 0;
}

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "MPI_Accumulate, MPI_Fetch_and_op and MPI_Compare_and_swap",
		.wants = {"Open MPI v4."},
		.ranks = 2,
		.pool = ELEMENTS * sizeof(int64_t),
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
