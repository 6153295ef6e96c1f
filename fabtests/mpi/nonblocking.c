/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_nonblocking: many messages under way at once between all ranks (each to
 * itself, too), by MPI_Isend and MPI_Irecv, completed in several ways, and by persistent
 * requests that start again with other data.
 */
#include <stdlib.h>

#include "mpi_test.h"

#define PER_PAIR 6
#define LONG_ONES 2 /* of each pair's, of any length; the others end at SHORT */
#define SHORT 65537

enum completion {
	BY_WAITALL,
	BY_WAITANY,
	BY_TESTSOME,
	COMPLETIONS,
};

/* MPI wants its requests in an array of their own; msg[i] has rx[i] and tx[i]. */
struct round {
	struct mpi_msg *msg;
	MPI_Request *rx, *tx;
	MPI_Status *status;
	int *done;
	int count;
};

static int round_alloc(struct round *round, int ranks)
{
	const size_t count = (size_t) (ranks * ranks * PER_PAIR);

	round->count = (int) count;
	round->msg = calloc(count, sizeof(*round->msg));
	round->rx = calloc(count, sizeof(*round->rx));
	round->tx = calloc(count, sizeof(*round->tx));
	round->status = calloc(count, sizeof(*round->status));
	round->done = calloc(count, sizeof(*round->done));
	if (!round->msg || !round->rx || !round->tx || !round->status || !round->done)
		return ft_fail(-FI_ENOMEM, "calloc", "%zu messages", count);
	return 0;
}

static void round_free(struct round *round)
{
	free(round->msg);
	free(round->rx);
	free(round->tx);
	free(round->status);
	free(round->done);
}

static int round_plan(struct mpi_run *run, struct round *round)
{
	for (int i = 0; i < round->count; i++) {
		const int pair = i / PER_PAIR, which = i % PER_PAIR;

		mpi_msg_any(run, &round->msg[i], pair / run->ranks, pair % run->ranks, i,
			    which < LONG_ONES ? MPI_TEST_LONGEST / (size_t) run->ranks : SHORT);
		round->rx[i] = round->tx[i] = MPI_REQUEST_NULL;
	}
	return mpi_msgs_ready(run, round->msg, (size_t) round->count);
}

static int round_check(struct mpi_run *run, struct round *round, int index,
		       const MPI_Status *status)
{
	struct mpi_msg *msg = &round->msg[index];

	return run->rank == msg->dst ? mpi_msg_check(msg, &msg->rx, status) : 0;
}

static int complete_all(struct mpi_run *run, struct round *round)
{
	MPI_Waitall(round->count, round->rx, round->status);
	for (int i = 0; i < round->count; i++)
		FT_TRY(round_check(run, round, i, &round->status[i]));
	return 0;
}

static int complete_any(struct mpi_run *run, struct round *round)
{
	MPI_Status status;
	int index;

	for (;;) {
		MPI_Waitany(round->count, round->rx, &index, &status);
		if (index == MPI_UNDEFINED)
			return 0;
		FT_TRY(round_check(run, round, index, &status));
	}
}

static int complete_some(struct mpi_run *run, struct round *round)
{
	int count;

	for (;;) {
		MPI_Testsome(round->count, round->rx, &count, round->done, round->status);
		if (count == MPI_UNDEFINED)
			return 0;
		for (int i = 0; i < count; i++)
			FT_TRY(round_check(run, round, round->done[i], &round->status[i]));
	}
}

static int exchange(struct mpi_run *run, struct round *round, enum completion how)
{
	static int (*const complete[])(struct mpi_run *, struct round *) = {
		[BY_WAITALL] = complete_all,
		[BY_WAITANY] = complete_any,
		[BY_TESTSOME] = complete_some,
	};

	mpi_stage(run, "MPI_Isend and MPI_Irecv, completed in way %d", how);
	FT_TRY(round_plan(run, round));
	for (int i = 0; i < round->count; i++) {
		struct mpi_msg *msg = &round->msg[i];

		if (run->rank == msg->src)
			MPI_Isend(mpi_addr(&msg->tx), msg->len, MPI_BYTE, msg->dst, msg->tag,
				  MPI_COMM_WORLD, &round->tx[i]);
		if (run->rank == msg->dst)
			MPI_Irecv(mpi_addr(&msg->rx), msg->room, MPI_BYTE, msg->src, msg->tag,
				  MPI_COMM_WORLD, &round->rx[i]);
	}
	FT_TRY(complete[how](run, round));
	MPI_Waitall(round->count, round->tx, MPI_STATUSES_IGNORE);
	return 0;
}

/* The same requests carry other data every time. */
static int restart(struct mpi_run *run, struct round *round)
{
	for (int i = 0; i < round->count; i++) {
		struct mpi_msg *msg = &round->msg[i];

		msg->key = ft_random(&run->random);
		if (run->rank == msg->src)
			FT_TRY(ft_slot_fill(&msg->tx, msg->key));
		if (run->rank == msg->dst)
			FT_TRY(ft_slot_arm(&msg->rx));
	}
	for (int i = 0; i < round->count; i++) {
		if (round->rx[i] != MPI_REQUEST_NULL)
			MPI_Start(&round->rx[i]);
		if (round->tx[i] != MPI_REQUEST_NULL)
			MPI_Start(&round->tx[i]);
	}
	MPI_Waitall(round->count, round->tx, MPI_STATUSES_IGNORE);
	return complete_all(run, round);
}

static int persistent(struct mpi_run *run, struct round *round)
{
	mpi_stage(run, "persistent requests");
	FT_TRY(round_plan(run, round));
	for (int i = 0; i < round->count; i++) {
		struct mpi_msg *msg = &round->msg[i];

		if (run->rank == msg->src)
			MPI_Send_init(mpi_addr(&msg->tx), msg->len, MPI_BYTE, msg->dst,
				      msg->tag, MPI_COMM_WORLD, &round->tx[i]);
		if (run->rank == msg->dst)
			MPI_Recv_init(mpi_addr(&msg->rx), msg->room, MPI_BYTE, msg->src,
				      msg->tag, MPI_COMM_WORLD, &round->rx[i]);
	}
	for (int i = 0; i < 3; i++)
		FT_TRY(restart(run, round));
	for (int i = 0; i < round->count; i++) {
		if (round->rx[i] != MPI_REQUEST_NULL)
			MPI_Request_free(&round->rx[i]);
		if (round->tx[i] != MPI_REQUEST_NULL)
			MPI_Request_free(&round->tx[i]);
	}
	return 0;
}

static int run_all(struct mpi_run *run)
{
	struct round round = {0};

	FT_TRY(round_alloc(&round, run->ranks));
	for (int how = 0; how < COMPLETIONS; how++)
		FT_TRY(exchange(run, &round, (enum completion) how));
	FT_TRY(persistent(run, &round));
	round_free(&round);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "many MPI_Isend and MPI_Irecv at once, persistent ones too",
		.ranks = 2,
		.pool = 2 * LONG_ONES * MPI_TEST_LONGEST + 8 * PER_PAIR * 2 * SHORT,
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
