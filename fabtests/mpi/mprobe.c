/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_mprobe: MPI_Mprobe and MPI_Improbe take a message out of the queue, with its
 * source, tag and length; other receives get the messages behind it, and MPI_Mrecv or
 * MPI_Imrecv gets it, at once or later.
 */
#include <sched.h>

#include "mpi_test.h"

#define TAG 3

static const struct variant {
	const char *name;
	bool improbe, imrecv, any, later;
} variants[] = {
	{"MPI_Mprobe, MPI_Mrecv", false, false, false, false},
	{"MPI_Mprobe of anything, MPI_Imrecv later", false, true, true, true},
	{"MPI_Improbe, MPI_Imrecv", true, true, false, false},
	{"MPI_Improbe of anything, MPI_Mrecv later", true, false, true, true},
};

static void probe(const struct variant *variant, int src, MPI_Message *message,
		  MPI_Status *status)
{
	const int source = variant->any ? MPI_ANY_SOURCE : src;
	const int tag = variant->any ? MPI_ANY_TAG : TAG;
	int there = 0;

	if (!variant->improbe) {
		MPI_Mprobe(source, tag, MPI_COMM_WORLD, message, status);
		return;
	}
	for (;;) {
		MPI_Improbe(source, tag, MPI_COMM_WORLD, &there, message, status);
		if (there)
			return;
		sched_yield();
	}
}

static int receive_probed(struct mpi_msg *msg, const struct variant *variant,
			  MPI_Message *message)
{
	MPI_Status status;

	if (variant->imrecv) {
		MPI_Imrecv(mpi_addr(&msg->rx), msg->room, MPI_BYTE, message, &msg->req);
		MPI_Wait(&msg->req, &status);
	} else {
		MPI_Mrecv(mpi_addr(&msg->rx), msg->room, MPI_BYTE, message, &status);
	}
	return mpi_msg_check(msg, &msg->rx, &status);
}

static int receive_plain(struct mpi_msg *msg)
{
	MPI_Status status;

	MPI_Recv(mpi_addr(&msg->rx), msg->room, MPI_BYTE, msg->src, TAG, MPI_COMM_WORLD,
		 &status);
	return mpi_msg_check(msg, &msg->rx, &status);
}

static int receive(struct mpi_msg *msg, const struct variant *variant)
{
	MPI_Message message;
	MPI_Status status;

	probe(variant, msg[0].src, &message, &status);
	FT_TRY(mpi_status_check(&msg[0], &status));
	/* Same source, same tag: without the probe it would be the second to come. */
	if (variant->later)
		FT_TRY(receive_plain(&msg[1]));
	FT_TRY(receive_probed(&msg[0], variant, &message));
	return variant->later ? 0 : receive_plain(&msg[1]);
}

/* Two messages, alike but for their lengths and data, from one rank to rank 0 */
static int one(struct mpi_run *run, const struct variant *variant, size_t index)
{
	const int src = 1 + (int) mpi_random(run, (size_t) run->ranks - 1);
	struct mpi_msg msg[2];
	MPI_Request req[2];

	mpi_stage(run, "%s, %zu bytes", variant->name, mpi_test_sizes[index]);
	mpi_msg_init(run, &msg[0], src, 0, TAG, mpi_test_sizes[index]);
	mpi_msg_any(run, &msg[1], src, 0, TAG, MPI_TEST_LONGEST);
	FT_TRY(mpi_msgs_ready(run, msg, 2));
	if (run->rank == src) {
		for (int i = 0; i < 2; i++)
			MPI_Isend(mpi_addr(&msg[i].tx), msg[i].len, MPI_BYTE, 0, TAG,
				  MPI_COMM_WORLD, &req[i]);
		MPI_Waitall(2, req, MPI_STATUSES_IGNORE);
	}
	if (run->rank == 0)
		FT_TRY(receive(msg, variant));
	MPI_Barrier(MPI_COMM_WORLD);
	return 0;
}

static int run_all(struct mpi_run *run)
{
	for (size_t v = 0; v < FT_COUNT(variants); v++)
		for (size_t i = 0; i < mpi_test_size_count; i++)
			FT_TRY(one(run, &variants[v], i));
	return 0;
}

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "MPI_Mprobe and MPI_Improbe with MPI_Mrecv and MPI_Imrecv",
		.ranks = 2,
		.pool = 3 * MPI_TEST_LONGEST,
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
