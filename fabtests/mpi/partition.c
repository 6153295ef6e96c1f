/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_partition: messages in partitions, from each rank to the next one and from and to each kind of memory. The
 * data of a partition is put there when all others have begun, and is looked at when it has arrived.
 */
#include "mpi_test.h"

#if MPI_VERSION >= 4 || (defined OMPI_MAJOR_VERSION && OMPI_MAJOR_VERSION >= 5)

#define PARTITIONS 6
/* Elements of a partition */
#define COUNT 5
/* Each number has a gap behind it */
#define PLACES (2 * PARTITIONS * COUNT)
#define BYTES (PLACES * sizeof(int))
#define GAP 0x5a5a5a5a
#define ROUNDS 3

static int number(int rank, int round, int place)
{
	return place % 2 ? GAP : rank << 20 | round << 10 | place;
}

/* One partition of a buffer, as @rank has it */
static int put(const struct ft_buf *buf, char *addr, int part, int rank, int round)
{
	int numbers[2 * COUNT];

	for (int i = 0; i < 2 * COUNT; i++)
		numbers[i] = number(rank, round, part * 2 * COUNT + i);
	return buf->ops->to(addr + (size_t) part * sizeof numbers, numbers, sizeof numbers);
}

static int look(const struct ft_buf *buf, const char *addr, int part, int rank, int round)
{
	int numbers[2 * COUNT];

	FT_TRY(buf->ops->from(numbers, addr + (size_t) part * sizeof numbers, sizeof numbers));
	for (int i = 0; i < 2 * COUNT; i++)
		FT_CHECK(numbers[i] == number(rank, round, part * 2 * COUNT + i),
			 "round %d, partition %d, place %d: %x, not %x", round, part, i,
			 numbers[i], number(rank, round, part * 2 * COUNT + i));
	return 0;
}

/* Fills all partitions, each just before it is ready. */
static int send_all(struct mpi_run *run, const struct ft_buf *buf, int round,
		    MPI_Request request)
{
	int list[2] = {5, 1};

	FT_TRY(put(buf, buf->addr, 0, run->rank, round));
	MPI_Pready(0, request);
	for (int i = 2; i <= 4; i++)
		FT_TRY(put(buf, buf->addr, i, run->rank, round));
	MPI_Pready_range(2, 4, request);
	for (int i = 0; i < 2; i++)
		FT_TRY(put(buf, buf->addr, list[i], run->rank, round));
	MPI_Pready_list(2, list, request);
	return 0;
}

static int one(struct mpi_run *run, const struct ft_buf *from, const struct ft_buf *to,
	       MPI_Datatype type)
{
	const int next = (run->rank + 1) % run->ranks,
		  last = (run->rank + run->ranks - 1) % run->ranks;
	char *place = to->addr + BYTES;
	MPI_Request requests[2];
	int gaps[PLACES], there = 0;

	for (int i = 0; i < PLACES; i++)
		gaps[i] = GAP;
	MPI_Psend_init(from->addr, PARTITIONS, COUNT, type, next, 1, MPI_COMM_WORLD,
		       MPI_INFO_NULL, &requests[0]);
	MPI_Precv_init(place, PARTITIONS, COUNT, type, last, 1, MPI_COMM_WORLD, MPI_INFO_NULL,
		       &requests[1]);
	for (int round = 0; round < ROUNDS; round++) {
		FT_TRY(to->ops->to(place, gaps, BYTES));
		MPI_Startall(2, requests);
		FT_TRY(send_all(run, from, round, requests[0]));
		for (there = 0; !there;)
			MPI_Parrived(requests[1], 3, &there);
#ifndef OPEN_MPI
		/* 5.0 says so of what has not */
		FT_TRY(look(to, place, 3, last, round));
#endif
		MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
		MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
		for (int i = 0; i < PARTITIONS; i++)
			FT_TRY(look(to, place, i, last, round));
		MPI_Barrier(MPI_COMM_WORLD);
	}
	for (int i = 0; i < 2; i++)
		MPI_Request_free(&requests[i]);
	return 0;
}

static int run_all(struct mpi_run *run)
{
	MPI_Datatype type;

#ifdef OPEN_MPI
	/* 5.0 puts partitions where they were without gaps */
	MPI_Type_contiguous(2, MPI_INT, &type);
#else
	MPI_Type_create_resized(MPI_INT, 0, 2 * sizeof(int), &type);
#endif
	MPI_Type_commit(&type);
	for (size_t i = 0; i < run->kinds * run->kinds; i++) {
		mpi_stage(run, "memory %zu to memory %zu", i % run->kinds, i / run->kinds);
		FT_TRY(one(run, &run->pool[i % run->kinds].buf, &run->pool[i / run->kinds].buf,
			   type));
	}
	MPI_Type_free(&type);
	return 0;
}

#else
#define run_all NULL
#define BYTES 0
#endif

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "messages in partitions, with libp2p-mpi",
		.ranks = 1,
		.pool = 2 * BYTES,
		.wants = {BYTES ? NULL : "an MPI with partitions"},
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
