/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_vector: vector collectives of host memory, which libp2p-mpi makes messages of, with more ranks than it has
 * messages under way to at a time.
 */
#include <unistd.h>

#include "mpi_test.h"

#define RANKS_MOST 64
#define LATE_US 20000

/* One rank comes late. Nobody returns without its part. */
static int all_to_all(struct mpi_run *run, int late)
{
	int out[RANKS_MOST], in[RANKS_MOST], counts[RANKS_MOST], at[RANKS_MOST];

	for (int i = 0; i < run->ranks; i++) {
		out[i] = late + 100 * run->rank + 10000 * i;
		in[i] = -1;
		counts[i] = 1;
		at[i] = i;
	}
	if (run->rank == late)
		usleep(LATE_US);
	MPI_Alltoallv(out, counts, at, MPI_INT, in, counts, at, MPI_INT, MPI_COMM_WORLD);
	for (int i = 0; i < run->ranks; i++)
		FT_CHECK(in[i] == late + 100 * i + 10000 * run->rank,
			 "rank %d is late: %d came from rank %d", late, in[i], i);
	return 0;
}

static int run_all(struct mpi_run *run)
{
	FT_CHECK(run->ranks <= RANKS_MOST, "no more than %d ranks", RANKS_MOST);
	for (int late = 0; late < run->ranks; late++)
		FT_TRY(all_to_all(run, late));
	return 0;
}

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "vector collectives as messages, with libp2p-mpi",
		.ranks = 1,
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
