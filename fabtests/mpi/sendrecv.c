/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_sendrecv: MPI_Sendrecv around the ring of ranks in either direction, with
 * oneself and with nobody; lengths and memory of what goes and what comes differ.
 */
#include "mpi_test.h"

#define TAG 5

/* Every rank sends to the one @step further on. */
static int around(struct mpi_run *run, int step, size_t index)
{
	const int ranks = run->ranks;
	struct mpi_msg msg[ranks];
	const struct mpi_msg *out = &msg[run->rank];
	struct mpi_msg *in = &msg[(run->rank - step + ranks) % ranks];
	MPI_Status status;

	mpi_stage(run, "MPI_Sendrecv %d ranks on, from size %zu", step, index);
	for (int i = 0; i < ranks; i++) {
		mpi_msg_init(run, &msg[i], i, (i + step) % ranks, TAG + i,
			     mpi_test_sizes[(index + (size_t) i) % mpi_test_size_count]);
		msg[i].room += (int) mpi_random(run, 2) * 1000;
	}
	FT_TRY(mpi_msgs_ready(run, msg, (size_t) ranks));
	MPI_Sendrecv(mpi_addr(&out->tx), out->len, MPI_BYTE, out->dst, out->tag,
		     mpi_addr(&in->rx), in->room, MPI_BYTE, in->src, in->tag, MPI_COMM_WORLD,
		     &status);
	return mpi_msg_check(in, &in->rx, &status);
}

/* One half of the call is empty: what MPI_PROC_NULL stands for at the ends of a line. */
static int along(struct mpi_run *run)
{
	const int last = run->ranks - 1;
	const int next = run->rank < last ? run->rank + 1 : MPI_PROC_NULL;
	const int prev = run->rank > 0 ? run->rank - 1 : MPI_PROC_NULL;
	struct mpi_msg msg[run->ranks];
	const struct mpi_msg *out = &msg[run->rank];
	MPI_Status status;

	mpi_stage(run, "MPI_Sendrecv with MPI_PROC_NULL at the ends");
	for (int i = 0; i < run->ranks; i++)
		mpi_msg_any(run, &msg[i], i, i + 1, TAG, MPI_TEST_LONGEST);
	FT_TRY(mpi_msgs_ready(run, msg, (size_t) run->ranks));
	if (prev == MPI_PROC_NULL) {
		MPI_Sendrecv(mpi_addr(&out->tx), out->len, MPI_BYTE, next, TAG, NULL, 0,
			     MPI_BYTE, prev, TAG, MPI_COMM_WORLD, &status);
		return 0;
	}
	MPI_Sendrecv(mpi_addr(&out->tx), out->len, MPI_BYTE, next, TAG, mpi_addr(&msg[prev].rx),
		     msg[prev].room, MPI_BYTE, prev, TAG, MPI_COMM_WORLD, &status);
	return mpi_msg_check(&msg[prev], &msg[prev].rx, &status);
}

static int run_all(struct mpi_run *run)
{
	for (size_t i = 0; i < mpi_test_size_count; i++) {
		FT_TRY(around(run, 0, i));
		FT_TRY(around(run, 1, i));
		FT_TRY(around(run, run->ranks - 1, i));
	}
	return along(run);
}

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "MPI_Sendrecv to others and to oneself",
		.ranks = 2,
		.pool = 3 * MPI_TEST_LONGEST,
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
