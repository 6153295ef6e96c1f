/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_scarce: one rank has no memory for something, in calls of all ranks. They all end, and windows are made on all ranks
 * or on none. Each allocation of the library's in a call fails once, until none is left.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_test.h"

#define LEN (512 * 1024)
#define RANKS_MOST 16

/* ---- memory ---- */

#define EXPORT __attribute__((visibility("default")))

/* glibc's own names */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_memalign(size_t align, size_t size);

/* Of this thread's allocations, the one that fails; 0: none */
static __thread unsigned long fails, allocated;
static __thread bool failed;

/* Only the library's own */
static bool fails_now(const void *caller)
{
	Dl_info info;

	if (!fails || !dladdr(caller, &info) || !strstr(info.dli_fname, "libp2p-mpi") ||
	    ++allocated != fails)
		return false;
	failed = true;
	return true;
}

EXPORT void *malloc(size_t size)
{
	return fails_now(__builtin_return_address(0)) ? NULL : __libc_malloc(size);
}

EXPORT void *calloc(size_t count, size_t size)
{
	return fails_now(__builtin_return_address(0)) ? NULL : __libc_calloc(count, size);
}

EXPORT int posix_memalign(void **memory, size_t align, size_t size)
{
	*memory = fails_now(__builtin_return_address(0)) ? NULL : __libc_memalign(align, size);
	return *memory ? 0 : ENOMEM;
}

static void fail_from(unsigned long number)
{
	fails = number;
	allocated = 0;
	failed = false;
}

/* ---- calls ---- */

/* Both are in device memory */
struct buffers {
	char *in, *out;
	int ranks;
};

static MPI_Win win;

static int create(const struct buffers *b)
{
	win = MPI_WIN_NULL;
	return MPI_Win_create(b->in, LEN, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
}

static int create_dynamic(const struct buffers *b)
{
	win = MPI_WIN_NULL;
	return MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
}

static int allgather(const struct buffers *b)
{
	return MPI_Allgather(b->in, LEN / b->ranks, MPI_BYTE, b->out, LEN / b->ranks, MPI_BYTE,
			     MPI_COMM_WORLD);
}

static int alltoall(const struct buffers *b)
{
	return MPI_Alltoall(MPI_IN_PLACE, 0, MPI_BYTE, b->out, LEN / b->ranks, MPI_BYTE,
			    MPI_COMM_WORLD);
}

static int allreduce(const struct buffers *b)
{
	return MPI_Allreduce(b->in, b->out, LEN / 4, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static int reduce_scatter(const struct buffers *b)
{
	return MPI_Reduce_scatter_block(b->in, b->out, LEN / 4 / b->ranks, MPI_INT, MPI_SUM,
					MPI_COMM_WORLD);
}

static int gather(const struct buffers *b)
{
	return MPI_Gather(b->in, LEN / b->ranks, MPI_BYTE, b->out, LEN / b->ranks, MPI_BYTE, 0,
			  MPI_COMM_WORLD);
}

static int scatter(const struct buffers *b)
{
	return MPI_Scatter(b->in, LEN / b->ranks, MPI_BYTE, b->out, LEN / b->ranks, MPI_BYTE, 0,
			   MPI_COMM_WORLD);
}

static int all_to_all(const struct buffers *b, bool waits)
{
	int counts[RANKS_MOST], at[RANKS_MOST], ret;
	MPI_Request request = MPI_REQUEST_NULL;

	for (int i = 0; i < b->ranks; i++) {
		counts[i] = LEN / b->ranks;
		at[i] = i * counts[i];
	}
	if (waits)
		return MPI_Alltoallv(b->in, counts, at, MPI_BYTE, b->out, counts, at, MPI_BYTE,
				     MPI_COMM_WORLD);
	ret = MPI_Ialltoallv(b->in, counts, at, MPI_BYTE, b->out, counts, at, MPI_BYTE,
			     MPI_COMM_WORLD, &request);
	return ret == MPI_SUCCESS ? MPI_Wait(&request, MPI_STATUS_IGNORE) : ret;
}

static int alltoallv(const struct buffers *b)
{
	return all_to_all(b, true);
}

static int ialltoallv(const struct buffers *b)
{
	return all_to_all(b, false);
}

/* Of blocks with gaps: through host memory */
static int gather_gaps(const struct buffers *b)
{
	MPI_Datatype gaps;
	int ret;

	MPI_Type_vector(LEN / 8 / b->ranks, 1, 2, MPI_INT, &gaps);
	MPI_Type_commit(&gaps);
	ret = MPI_Gather(b->in, 1, gaps, b->out, LEN / 8 / b->ranks, MPI_INT, 0,
			 MPI_COMM_WORLD);
	MPI_Type_free(&gaps);
	return ret;
}

/* @window: the call makes a window */
static const struct scarce {
	const char *name;
	int (*call)(const struct buffers *b);
	bool window;
} calls[] = {
	{"MPI_Win_create", create, true},
	{"MPI_Win_create_dynamic", create_dynamic, true},
	{"MPI_Allgather", allgather, false},
	{"MPI_Alltoall", alltoall, false},
	{"MPI_Allreduce", allreduce, false},
	{"MPI_Reduce_scatter_block", reduce_scatter, false},
	{"MPI_Gather", gather, false},
	{"MPI_Scatter", scatter, false},
	{"MPI_Alltoallv", alltoallv, false},
	{"MPI_Ialltoallv", ialltoallv, false},
	{"MPI_Gather of gaps", gather_gaps, false},
};

/* The allocation of that number fails on @rank. Returns whether there was one, on all ranks alike; negative: an error */
static int once(struct mpi_run *run, const struct scarce *what, int rank, unsigned long number)
{
	const struct buffers b = {run->pool[run->kinds - 1].buf.addr,
				  (char *) run->pool[run->kinds - 1].buf.addr + LEN,
				  run->ranks};
	int ret, any = 0, errors = 0;

	mpi_stage(run, "%s: allocation %lu of rank %d", what->name, number, rank);
	fail_from(run->rank == rank ? number : 0);
	ret = what->call(&b);
	any = failed;
	fail_from(0);
	MPI_Allreduce(MPI_IN_PLACE, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
	errors = ret != MPI_SUCCESS;
	MPI_Allreduce(MPI_IN_PLACE, &errors, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	FT_CHECK(any || errors == 0, "%d ranks have an error, and all had memory", errors);
	if (!what->window)
		return any;
	FT_CHECK(errors == 0 || errors == run->ranks, "%d of %d ranks have no window", errors,
		 run->ranks);
	FT_CHECK((win == MPI_WIN_NULL) == (errors > 0), "a window, and an error");
	if (win != MPI_WIN_NULL)
		MPI_Win_free(&win);
	return any;
}

static int run_all(struct mpi_run *run)
{
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	for (size_t i = 0; i < FT_COUNT(calls); i++) {
		for (int rank = 0; rank < run->ranks; rank++) {
			int any = 1;

			for (unsigned long number = 1; any > 0; number++)
				any = once(run, &calls[i], rank, number);
			FT_TRY(any);
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "calls of all ranks of which one has no memory",
		.wants = {"Open MPI v4.", "MPICH"},
		.ranks = 2,
		.device = true,
		.pool = 2 * LEN,
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
