/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_cancel: receives that are cancelled leave their buffers alone and take no
 * message; those that had one by then have all of it.
 */
#include "mpi_test.h"

#define DATA_TAG 1
#define ABSENT_TAG 2
#define COUNT 8

/* Nothing comes; the same memory then receives something else. */
static int unmatched(struct mpi_run *run, size_t len)
{
	struct mpi_msg msg;
	MPI_Status status;
	int cancelled;

	mpi_stage(run, "a receive of %zu bytes that nothing matches", len);
	mpi_msg_init(run, &msg, 1, 0, DATA_TAG, len);
	FT_TRY(mpi_msg_ready(run, &msg));
	if (run->rank == 0) {
		MPI_Irecv(mpi_addr(&msg.rx), msg.room, MPI_BYTE, 1, ABSENT_TAG, MPI_COMM_WORLD,
			  &msg.req);
		MPI_Cancel(&msg.req);
		MPI_Wait(&msg.req, &status);
		MPI_Test_cancelled(&status, &cancelled);
		FT_CHECK(cancelled, "a receive that nothing matches was not cancelled");
		FT_TRY(ft_slot_check(&msg.rx, 0, 0, "a cancelled receive"));
		MPI_Recv(mpi_addr(&msg.rx), msg.room, MPI_BYTE, 1, DATA_TAG, MPI_COMM_WORLD,
			 &status);
		return mpi_msg_check(&msg, &msg.rx, &status);
	}
	if (run->rank == 1)
		MPI_Send(mpi_addr(&msg.tx), msg.len, MPI_BYTE, 0, DATA_TAG, MPI_COMM_WORLD);
	return 0;
}

/* More receives than messages, all alike: the first ones get them, the last none. */
static int some_matched(struct mpi_run *run)
{
	const int used = COUNT / 2;
	struct mpi_msg msg[COUNT];
	MPI_Request req[COUNT];
	MPI_Status status[COUNT];
	int cancelled;

	mpi_stage(run, "%d receives, %d messages", COUNT, used);
	for (int i = 0; i < COUNT; i++)
		mpi_msg_any(run, &msg[i], 1, 0, DATA_TAG, MPI_TEST_LONGEST);
	FT_TRY(mpi_msgs_ready(run, msg, COUNT));
	if (run->rank == 1)
		for (int i = 0; i < used; i++)
			MPI_Send(mpi_addr(&msg[i].tx), msg[i].len, MPI_BYTE, 0, DATA_TAG,
				 MPI_COMM_WORLD);
	if (run->rank == 0) {
		for (int i = 0; i < COUNT; i++)
			MPI_Irecv(mpi_addr(&msg[i].rx), msg[i].room, MPI_BYTE, 1, DATA_TAG,
				  MPI_COMM_WORLD, &req[i]);
		MPI_Waitall(used, req, status);
		for (int i = used; i < COUNT; i++)
			MPI_Cancel(&req[i]);
		MPI_Waitall(COUNT - used, req + used, status + used);
		for (int i = 0; i < COUNT; i++) {
			MPI_Test_cancelled(&status[i], &cancelled);
			FT_CHECK(cancelled == (i >= used), "receive %d of %d: %s", i, COUNT,
				 cancelled ? "cancelled" : "not cancelled");
			if (cancelled)
				FT_TRY(ft_slot_check(&msg[i].rx, 0, 0, "a cancelled receive"));
			else
				FT_TRY(mpi_msg_check(&msg[i], &msg[i].rx, &status[i]));
		}
	}
	MPI_Barrier(MPI_COMM_WORLD);
	return 0;
}

/* Message and cancellation meet; whoever loses, nothing is lost or half done. */
static int race(struct mpi_run *run)
{
	struct mpi_msg msg;
	MPI_Status status;
	int cancelled;

	mpi_stage(run, "a message and a cancellation at the same time");
	mpi_msg_any(run, &msg, 1, 0, DATA_TAG, MPI_TEST_LONGEST);
	FT_TRY(mpi_msg_ready(run, &msg));
	MPI_Barrier(MPI_COMM_WORLD);
	if (run->rank == 1)
		MPI_Send(mpi_addr(&msg.tx), msg.len, MPI_BYTE, 0, DATA_TAG, MPI_COMM_WORLD);
	if (run->rank == 0) {
		MPI_Irecv(mpi_addr(&msg.rx), msg.room, MPI_BYTE, 1, DATA_TAG, MPI_COMM_WORLD,
			  &msg.req);
		MPI_Cancel(&msg.req);
		MPI_Wait(&msg.req, &status);
		MPI_Test_cancelled(&status, &cancelled);
		if (cancelled) {
			FT_TRY(ft_slot_check(&msg.rx, 0, 0, "a cancelled receive"));
			MPI_Recv(mpi_addr(&msg.rx), msg.room, MPI_BYTE, 1, DATA_TAG,
				 MPI_COMM_WORLD, &status);
		}
		return mpi_msg_check(&msg, &msg.rx, &status);
	}
	return 0;
}

static int run_all(struct mpi_run *run)
{
	for (size_t i = 0; i < mpi_test_size_count; i++)
		FT_TRY(unmatched(run, mpi_test_sizes[i]));
	for (int i = 0; i < 4; i++)
		FT_TRY(some_matched(run));
	for (int i = 0; i < 50; i++)
		FT_TRY(race(run));
	return 0;
}

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "MPI_Cancel of receives",
		.ranks = 2,
		.pool = (COUNT + 1) * MPI_TEST_LONGEST,
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
