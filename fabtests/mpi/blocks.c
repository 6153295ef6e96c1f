/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_blocks: data of up to four blocks with gaps between them, from and to every kind of memory, by
 * messages and one-sided calls. What lies in the gaps stays. MPICH hands such blocks to libfabric one by one.
 */
#include <string.h>

#include "mpi_test.h"

#define ROUNDS 60
#define TAG 3
#define MOST 4
#define WIDEST 300000
#define LONGEST (2 * MOST * WIDEST)

enum call { SEND, SSEND, PERSISTENT, PUT, GET, CALLS };
static const char *const names[CALLS] = {"MPI_Send", "MPI_Ssend", "MPI_Start", "MPI_Put",
					 "MPI_Get"};
static const int widths[] = {1, 8, 16, 1000, 4097, 30000, WIDEST};

struct blocks {
	int count, width;
	MPI_Datatype type;
};

static size_t extent(const struct blocks *blocks)
{
	return 2 * (size_t) blocks->count * (size_t) blocks->width;
}

static void message(enum call call, const struct mpi_msg *out, const struct mpi_msg *in,
		    MPI_Datatype type)
{
	const void *from = mpi_addr(&out->tx);
	MPI_Request req[2];

	MPI_Recv_init(mpi_addr(&in->rx), 1, type, in->src, TAG, MPI_COMM_WORLD, &req[0]);
	MPI_Start(&req[0]);
	if (call == SEND) {
		MPI_Send(from, 1, type, out->dst, TAG, MPI_COMM_WORLD);
	} else if (call == SSEND) {
		MPI_Ssend(from, 1, type, out->dst, TAG, MPI_COMM_WORLD);
	} else {
		MPI_Send_init(from, 1, type, out->dst, TAG, MPI_COMM_WORLD, &req[1]);
		MPI_Start(&req[1]);
		MPI_Wait(&req[1], MPI_STATUS_IGNORE);
		MPI_Request_free(&req[1]);
	}
	MPI_Wait(&req[0], MPI_STATUS_IGNORE);
	MPI_Request_free(&req[0]);
}

/* @win: one for each kind of memory */
static void one_sided(struct mpi_run *run, enum call call, const struct mpi_msg *out,
		      const struct mpi_msg *in, MPI_Datatype type, MPI_Win *win)
{
	const MPI_Aint mine[2] = {(MPI_Aint) out->tx.off, (MPI_Aint) in->rx.off};
	MPI_Aint at[run->ranks][2];

	MPI_Allgather(mine, 2, MPI_AINT, at, 2, MPI_AINT, MPI_COMM_WORLD);
	for (size_t i = 0; i < run->kinds; i++)
		MPI_Win_fence(MPI_MODE_NOPRECEDE, win[i]);
	if (call == PUT)
		MPI_Put(mpi_addr(&out->tx), 1, type, out->dst, at[out->dst][1], 1, type,
			win[out->to]);
	else
		MPI_Get(mpi_addr(&in->rx), 1, type, in->src, at[in->src][0], 1, type,
			win[in->from]);
	for (size_t i = 0; i < run->kinds; i++)
		MPI_Win_fence(MPI_MODE_NOSUCCEED, win[i]);
}

/* The blocks have come, and all else is as it was: the pattern of @old. */
static int check(const struct mpi_msg *in, const struct blocks *blocks, uint64_t old)
{
	static unsigned char found[LONGEST], expected[LONGEST], sent[LONGEST];
	const size_t len = extent(blocks), width = (size_t) blocks->width;

	FT_TRY(ft_slot_guards(&in->rx, len, "around the blocks"));
	FT_TRY(in->rx.buf->ops->from(found, mpi_addr(&in->rx), len));
	ft_pattern_fill(sent, len, in->key);
	ft_pattern_fill(expected, len, old);
	for (size_t i = 0; i < len; i += 2 * width)
		memcpy(expected + i, sent + i, width);
	for (size_t i = 0; i < len; i++)
		FT_CHECK(found[i] == expected[i], "%d blocks of %d bytes: at %zu is %d, not %d",
			 blocks->count, blocks->width, i, found[i], expected[i]);
	return 0;
}

/* Every rank has a message for the next one. */
static int around(struct mpi_run *run, enum call call, const struct blocks *blocks,
		  MPI_Win *win)
{
	const int ranks = run->ranks;
	struct mpi_msg msg[ranks];
	const struct mpi_msg *out = &msg[run->rank];
	const struct mpi_msg *in = &msg[(run->rank + ranks - 1) % ranks];
	uint64_t old;

	mpi_stage(run, "%s of %d blocks of %d bytes", names[call], blocks->count,
		  blocks->width);
	for (int i = 0; i < ranks; i++)
		mpi_msg_init(run, &msg[i], i, (i + 1) % ranks, TAG, extent(blocks));
	FT_TRY(mpi_msgs_ready(run, msg, (size_t) ranks));
	old = in->key + 1;
	FT_TRY(ft_slot_fill(&in->rx, old));
	if (call == PUT || call == GET)
		one_sided(run, call, out, in, blocks->type, win);
	else
		message(call, out, in, blocks->type);
	FT_TRY(check(in, blocks, old));
	MPI_Barrier(MPI_COMM_WORLD);
	return 0;
}

static int run_all(struct mpi_run *run)
{
	MPI_Win win[MPI_TEST_KINDS];
	struct blocks blocks;

	for (size_t i = 0; i < run->kinds; i++)
		MPI_Win_create(run->pool[i].buf.addr, (MPI_Aint) run->pool[i].buf.size, 1,
			       MPI_INFO_NULL, MPI_COMM_WORLD, &win[i]);
	for (int i = 0; i < ROUNDS; i++) {
		blocks.count = 2 + (int) mpi_random(run, MOST - 1);
		blocks.width = widths[mpi_random(run, FT_COUNT(widths))];
		MPI_Type_vector(blocks.count, blocks.width, 2 * blocks.width, MPI_BYTE,
				&blocks.type);
		MPI_Type_commit(&blocks.type);
		FT_TRY(around(run, (enum call)(i % CALLS), &blocks, win));
		MPI_Type_free(&blocks.type);
	}
	for (size_t i = 0; i < run->kinds; i++)
		MPI_Win_free(&win[i]);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "data of up to four blocks, with gaps",
		.wants = {"MPICH"},
		.ranks = 2,
		.pool = 2 * (LONGEST + 4096),
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
