/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_probe: MPI_Probe and MPI_Iprobe tell source, tag and length of a message
 * before it is received, for lengths of any class, and nothing of messages that are not
 * there.
 */
#include <sched.h>

#include "mpi_test.h"

#define ABSENT_TAG 4711

static void probe(const struct mpi_msg *msg, bool any, MPI_Status *status)
{
	MPI_Probe(any ? MPI_ANY_SOURCE : msg->src, any ? MPI_ANY_TAG : msg->tag, MPI_COMM_WORLD,
		  status);
}

static void iprobe(const struct mpi_msg *msg, bool any, MPI_Status *status)
{
	int there = 0;

	for (;;) {
		MPI_Iprobe(any ? MPI_ANY_SOURCE : msg->src, any ? MPI_ANY_TAG : msg->tag,
			   MPI_COMM_WORLD, &there, status);
		if (there)
			return;
		sched_yield();
	}
}

static const struct variant {
	const char *name;
	void (*probe)(const struct mpi_msg *msg, bool any, MPI_Status *status);
	bool any;
} variants[] = {
	{"MPI_Probe", probe, false},
	{"MPI_Probe of anything", probe, true},
	{"MPI_Iprobe", iprobe, false},
	{"MPI_Iprobe of anything", iprobe, true},
};

static int receive(struct mpi_run *run, struct mpi_msg *msg, const struct variant *variant)
{
	MPI_Status status;
	int there;

	MPI_Iprobe(MPI_ANY_SOURCE, ABSENT_TAG, MPI_COMM_WORLD, &there, &status);
	FT_CHECK(!there, "MPI_Iprobe found a message that nobody sent");
	/* Twice: the message stays where it is. */
	for (int i = 0; i < 2; i++) {
		variant->probe(msg, variant->any, &status);
		FT_TRY(mpi_status_check(msg, &status));
	}
	MPI_Recv(mpi_addr(&msg->rx), msg->room, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG,
		 MPI_COMM_WORLD, &status);
	FT_TRY(mpi_msg_check(msg, &msg->rx, &status));
	MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &there, &status);
	FT_CHECK(!there, "MPI_Iprobe found a message that was received before");
	return 0;
}

/* The other ranks send to rank 0, one after the other. */
static int one(struct mpi_run *run, const struct variant *variant, size_t index)
{
	struct mpi_msg msg;

	mpi_stage(run, "%s, %zu bytes", variant->name, mpi_test_sizes[index]);
	mpi_msg_init(run, &msg, 1 + (int) mpi_random(run, (size_t) run->ranks - 1), 0,
		     (int) index, mpi_test_sizes[index]);
	msg.room += (int) mpi_random(run, 2) * 1000;
	FT_TRY(mpi_msg_ready(run, &msg));
	if (run->rank == msg.src)
		MPI_Send(mpi_addr(&msg.tx), msg.len, MPI_BYTE, 0, msg.tag, MPI_COMM_WORLD);
	if (run->rank == 0)
		FT_TRY(receive(run, &msg, variant));
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
		.purpose = "MPI_Probe and MPI_Iprobe",
		.ranks = 2,
		.pool = 2 * MPI_TEST_LONGEST,
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
