/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_ssend: a synchronous send does not end before its receive was posted,
 * however short it is, and ends then.
 */
#include "mpi_test.h"

#define DATA_TAG 1
#define PING_TAG 2
#define PINGS 20

/* Messages to and fro: both ends make progress meanwhile. */
static void pings(int peer)
{
	for (int i = 0; i < PINGS; i++)
		MPI_Sendrecv(NULL, 0, MPI_BYTE, peer, PING_TAG, NULL, 0, MPI_BYTE, peer,
			     PING_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static int one(struct mpi_run *run, size_t len)
{
	struct mpi_msg msg;
	MPI_Status status;
	int done;

	mpi_stage(run, "MPI_Issend of %zu bytes", len);
	mpi_msg_init(run, &msg, 0, run->ranks - 1, DATA_TAG, len);
	FT_TRY(mpi_msg_ready(run, &msg));
	if (run->rank == msg.src) {
		MPI_Issend(mpi_addr(&msg.tx), msg.len, MPI_BYTE, msg.dst, DATA_TAG,
			   MPI_COMM_WORLD, &msg.req);
		pings(msg.dst);
		MPI_Test(&msg.req, &done, MPI_STATUS_IGNORE);
		FT_CHECK(!done, "%zu bytes: ended before the receive was posted", len);
		MPI_Send(NULL, 0, MPI_BYTE, msg.dst, PING_TAG, MPI_COMM_WORLD);
		MPI_Wait(&msg.req, MPI_STATUS_IGNORE);
	} else if (run->rank == msg.dst) {
		pings(msg.src);
		MPI_Recv(NULL, 0, MPI_BYTE, msg.src, PING_TAG, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
		MPI_Recv(mpi_addr(&msg.rx), msg.room, MPI_BYTE, msg.src, DATA_TAG,
			 MPI_COMM_WORLD, &status);
		FT_TRY(mpi_msg_check(&msg, &msg.rx, &status));
	}
	return 0;
}

static int run_all(struct mpi_run *run)
{
	for (int round = 0; round < 3; round++)
		for (size_t i = 0; i < mpi_test_size_count; i++)
			FT_TRY(one(run, mpi_test_sizes[i]));
	return 0;
}

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "MPI_Issend ends after its receive was posted",
		.ranks = 2,
		.pool = 2 * MPI_TEST_LONGEST,
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
