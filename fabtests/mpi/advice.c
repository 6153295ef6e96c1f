/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_advice: calls that go through host memory, for the report of libp2p-mpi. Nothing spares that for MPI_Alltoallv in
 * place, nor on a communicator of MPI_Comm_idup(); longer parts do for MPI_Allgather.
 */
#include "ft_test.h"
#include "mpi_test.h"

/* Of each rank: so many that other calls of theirs go from GPU to GPU */
#define COUNT 100000
#define RANKS_MOST 4
#define ROOM ((RANKS_MOST + 1) * COUNT * sizeof(int))

static int run_all(struct mpi_run *run)
{
	int *in = (int *) run->pool[run->kinds - 1].buf.addr, *out = in + COUNT;
	int counts[RANKS_MOST], displs[RANKS_MOST];
	MPI_Request request;
	MPI_Comm comm;

	if (run->ranks > RANKS_MOST)
		return ft_skip("it takes %d ranks at most", RANKS_MOST);
	for (int i = 0; i < run->ranks; i++) {
		counts[i] = COUNT;
		displs[i] = i * COUNT;
	}
	MPI_Alltoallv(MPI_IN_PLACE, NULL, NULL, MPI_INT, out, counts, displs, MPI_INT,
		      MPI_COMM_WORLD);
	MPI_Allgather(in, 1, MPI_INT, out, 1, MPI_INT, MPI_COMM_WORLD);
	MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	MPI_Iallreduce(in, out, COUNT, MPI_INT, MPI_SUM, comm, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	MPI_Comm_free(&comm);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "calls that the report has advice for, and others",
		.ranks = 2,
		.device = true,
		.pool = ROOM,
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
