/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_unexpected: messages that are there before anyone asks for them, received
 * last one first by their tags, and in the order of sending where they share a tag.
 */
#include "mpi_test.h"

#define COUNT 24 /* messages of each sender */
#define LONGEST 2097152

/* Rank 0 receives, the others send. */
static int flood(struct mpi_run *run, bool one_tag)
{
	const int total = (run->ranks - 1) * COUNT;
	struct mpi_msg msg[total];
	MPI_Request req[total];
	MPI_Status status;

	mpi_stage(run, "unexpected messages, %s", one_tag ? "one tag" : "last one first");
	for (int i = 0; i < total; i++) {
		mpi_msg_any(run, &msg[i], 1 + i / COUNT, 0, one_tag ? 0 : i, LONGEST);
		req[i] = MPI_REQUEST_NULL;
	}
	if (run->rank)
		FT_TRY(mpi_msgs_ready(run, msg, (size_t) total));
	for (int i = 0; i < total; i++)
		if (run->rank == msg[i].src)
			MPI_Isend(mpi_addr(&msg[i].tx), msg[i].len, MPI_BYTE, 0, msg[i].tag,
				  MPI_COMM_WORLD, &req[i]);
	/* Behind the messages on every sender's way to rank 0 */
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; run->rank == 0 && i < total; i++) {
		struct mpi_msg *next = &msg[one_tag ? i : total - 1 - i];

		run->pool[0].used = run->pool[run->kinds - 1].used = 0;
		FT_TRY(mpi_msg_ready(run, next));
		MPI_Recv(mpi_addr(&next->rx), next->room, MPI_BYTE, next->src, next->tag,
			 MPI_COMM_WORLD, &status);
		FT_TRY(mpi_msg_check(next, &next->rx, &status));
	}
	MPI_Waitall(total, req, MPI_STATUSES_IGNORE);
	return 0;
}

static int run_all(struct mpi_run *run)
{
	FT_TRY(flood(run, false));
	return flood(run, true);
}

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "messages that arrive before they are received",
		.ranks = 2,
		.pool = COUNT * (LONGEST + FT_ROOM),
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
