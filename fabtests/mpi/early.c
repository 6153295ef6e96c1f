/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_early: a call with a GPU in use, before MPI_Init() or after MPI_Finalize(). MPI ends the process, and names that
 * call, not one of libp2p-mpi's.
 */
#include <stdio.h>
#include <string.h>

#include "mpi_test.h"

static int sum(void)
{
	/* as long as what goes from GPU to GPU */
	static int in[40000], out[40000];

	return MPI_Allreduce(in, out, 40000, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

int main(int argc, char **argv)
{
	const bool before = argc > 1 && !strcmp(argv[1], "before");
	MPI_Comm kept;

	/* without a GPU it is MPI alone */
	if (ft_cuda_ops.init(0))
		fputs("no GPU\n", stderr);
	if (before)
		return sum();
	MPI_Init(&argc, &argv);
	MPI_Comm_dup(MPI_COMM_WORLD, &kept);
	MPI_Finalize();
	return sum();
}
