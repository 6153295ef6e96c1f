/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_window: MPI_Put and MPI_Get from and to every kind of memory, in windows on every kind of memory,
 * between fences and under locks.
 */
#include "mpi_test.h"

#define ROUNDS 40
/* Open MPI 4.1 copies shorter pieces by the CPU, with the settings of mpirun-p2p */
#define SHORTEST 9
#define LONGEST (2 * 1048576)

/* A message is put by its source, or got by its destination. The window is at the other end. */
static bool is_put(const struct mpi_msg *msg)
{
	return msg->key % 2;
}

static int initiator(const struct mpi_msg *msg)
{
	return is_put(msg) ? msg->src : msg->dst;
}

static int target(const struct mpi_msg *msg)
{
	return is_put(msg) ? msg->dst : msg->src;
}

static void fence(struct mpi_run *run, MPI_Win *win, int assert)
{
	for (size_t i = 0; i < run->kinds; i++)
		MPI_Win_fence(assert, win[i]);
}

/* @at: where the payload is in the target's window */
static void access(const struct mpi_msg *msg, MPI_Win *win, MPI_Aint at, bool locks)
{
	MPI_Win w = win[is_put(msg) ? msg->to : msg->from];
	const int peer = target(msg);

	if (locks)
		MPI_Win_lock(msg->key % 4 < 2 ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, peer, 0,
			     w);
	if (is_put(msg))
		MPI_Put(mpi_addr(&msg->tx), msg->len, MPI_BYTE, peer, at, msg->len, MPI_BYTE,
			w);
	else
		MPI_Get(mpi_addr(&msg->rx), msg->len, MPI_BYTE, peer, at, msg->len, MPI_BYTE,
			w);
	if (locks)
		MPI_Win_unlock(peer, w);
}

static int check(struct mpi_run *run, const struct mpi_msg *msg)
{
	const size_t len = (size_t) msg->len;

	if (run->rank == msg->src)
		FT_TRY(ft_slot_check(&msg->tx, len, msg->key, "the source"));
	if (run->rank == msg->dst)
		FT_TRY(ft_slot_check(&msg->rx, len, msg->key, is_put(msg) ? "put" : "got"));
	return 0;
}

/* Every rank has a message for the one @step further on. */
static int around(struct mpi_run *run, MPI_Win *win, int step, bool locks)
{
	const int ranks = run->ranks, before = (run->rank - step + ranks) % ranks;
	struct mpi_msg msg[ranks];
	MPI_Aint at[ranks][2], mine[2]; /* where a rank's source and destination are */

	mpi_stage(run, "%s, %d ranks on", locks ? "locks" : "fences", step);
	for (int i = 0; i < ranks; i++) {
		mpi_msg_any(run, &msg[i], i, (i + step) % ranks, 0, LONGEST);
		if (msg[i].len < SHORTEST)
			msg[i].len = msg[i].room = SHORTEST;
	}
	FT_TRY(mpi_msgs_ready(run, msg, (size_t) ranks));
	mine[0] = (MPI_Aint) msg[run->rank].tx.off;
	mine[1] = (MPI_Aint) msg[before].rx.off;
	MPI_Allgather(mine, 2, MPI_AINT, at, 2, MPI_AINT, MPI_COMM_WORLD);
	if (!locks)
		fence(run, win, MPI_MODE_NOPRECEDE);
	for (int i = 0; i < ranks; i++) {
		if (initiator(&msg[i]) == run->rank)
			access(&msg[i], win, at[target(&msg[i])][is_put(&msg[i])], locks);
	}
	if (!locks)
		fence(run, win, MPI_MODE_NOSUCCEED);
	MPI_Barrier(MPI_COMM_WORLD);
	for (int i = 0; i < ranks; i++)
		FT_TRY(check(run, &msg[i]));
	return 0;
}

static int run_all(struct mpi_run *run)
{
	MPI_Win win[MPI_TEST_KINDS];

	for (size_t i = 0; i < run->kinds; i++)
		MPI_Win_create(run->pool[i].buf.addr, (MPI_Aint) run->pool[i].buf.size, 1,
			       MPI_INFO_NULL, MPI_COMM_WORLD, &win[i]);
	for (int i = 0; i < ROUNDS; i++)
		FT_TRY(around(run, win, 1 + i % (run->ranks - 1), i % 3 == 2));
	for (size_t i = 0; i < run->kinds; i++)
		MPI_Win_free(&win[i]);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "MPI_Put and MPI_Get",
		.wants = {"Open MPI v4.", "MPICH"},
		.ranks = 2,
		.pool = 4 * (LONGEST + 4096),
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
