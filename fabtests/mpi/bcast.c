/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_bcast: MPI_Bcast and MPI_Ibcast from every rank, each rank's buffer in
 * memory of a kind of its own, in the world and in the halves of it.
 */
#include "mpi_test.h"

/* @color: of the communicator, so that two at work side by side carry different data */
static int one(struct mpi_run *run, MPI_Comm comm, int color, bool blocking, size_t len)
{
	int rank, ranks, root;
	size_t kind = 0;
	uint64_t key;
	struct ft_slot slot;
	MPI_Request req;

	mpi_stage(run, "%s of %zu bytes", blocking ? "MPI_Bcast" : "MPI_Ibcast", len);
	MPI_Comm_rank(comm, &rank);
	MPI_Comm_size(comm, &ranks);
	root = (int) mpi_random(run, (size_t) run->ranks) % ranks;
	key = ft_random(&run->random) + (uint64_t) color;
	for (int i = 0; i < run->ranks; i++) {
		const size_t drawn = mpi_random(run, run->kinds);

		if (i == run->rank)
			kind = drawn;
	}
	FT_TRY(mpi_slot_take(run, kind, len, &slot));
	FT_TRY(rank == root ? ft_slot_fill(&slot, key) : ft_slot_arm(&slot));
	if (blocking) {
		MPI_Bcast(mpi_addr(&slot), (int) len, MPI_BYTE, root, comm);
	} else {
		MPI_Ibcast(mpi_addr(&slot), (int) len, MPI_BYTE, root, comm, &req);
		MPI_Wait(&req, MPI_STATUS_IGNORE);
	}
	return ft_slot_check(&slot, len, key, "MPI_Bcast");
}

static int every_size(struct mpi_run *run, MPI_Comm comm, int color)
{
	for (size_t i = 0; i < mpi_test_size_count; i++) {
		FT_TRY(one(run, comm, color, true, mpi_test_sizes[i]));
		FT_TRY(one(run, comm, color, false, mpi_test_sizes[i]));
	}
	return 0;
}

static int run_all(struct mpi_run *run)
{
	MPI_Comm half;

	FT_TRY(every_size(run, MPI_COMM_WORLD, 0));
	MPI_Comm_split(MPI_COMM_WORLD, run->rank % 2, run->rank, &half);
	FT_TRY(every_size(run, half, run->rank % 2));
	MPI_Comm_free(&half);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "MPI_Bcast and MPI_Ibcast",
		.ranks = 2,
		.pool = MPI_TEST_LONGEST + FT_ROOM,
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
