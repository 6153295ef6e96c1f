/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_refused: MPI does not take a message of one rank, in a call whose result it gets. The rank gets an error, says so, and
 * ends the job: another one waits for that message, so that nothing else would.
 */
#include <dlfcn.h>
#include <stdio.h>

#include "mpi_test.h"

#define EXPORT __attribute__((visibility("default")))
/* Long enough for several rounds of the library's */
#define LEN (48 * 1048576)

/* The message that is not taken; 0: all are */
static int refused;

/* The library's own messages come here. */
EXPORT int PMPI_Isend(const void *buf, int count, MPI_Datatype type, int dest, int tag,
		      MPI_Comm comm, MPI_Request *request)
{
	static int (*real)(const void *, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request *);

	if (!real)
		*(void **) &real = dlsym(RTLD_NEXT, "PMPI_Isend");
	return refused && --refused == 0 ? MPI_ERR_OTHER
					 : real(buf, count, type, dest, tag, comm, request);
}

static int run_all(struct mpi_run *run)
{
	char *memory = run->pool[run->kinds - 1].buf.addr;
	int ret;

	mpi_stage(run, "MPI_Reduce, whose first message is refused");
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	refused = run->rank == 1;
	ret = MPI_Reduce(memory, memory + LEN, LEN / 4, MPI_INT, MPI_SUM, 1, MPI_COMM_WORLD);
	if (run->rank == 0)
		return 0;
	FT_CHECK(run->rank == 1 && ret != MPI_SUCCESS, "rank %d: MPI_Reduce returns %d",
		 run->rank, ret);
	printf("a message was refused\n");
	fflush(stdout);
	return MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "a message that MPI does not take",
		.wants = {"Open MPI v4.", "MPICH"},
		.ranks = 2,
		.device = true,
		.pool = 2 * LEN,
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
