/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_deleted: the function that deletes a window's attribute makes a call of all ranks, with device memory. On one rank
 * the library has something to do meanwhile, and on the others it has not.
 */
#include "mpi_test.h"

#define LEN (512 * 1024)
#define NUMBERS (LEN / 4)

/* What the function finds */
static struct deletion {
	struct mpi_run *run;
	size_t kind;
	int calls, ret;
} deletion;

static char *memory_of(const struct mpi_run *run, size_t kind)
{
	return run->pool[kind].buf.addr;
}

static int fill(const struct mpi_run *run, size_t kind, int number)
{
	static int numbers[NUMBERS];

	for (size_t i = 0; i < NUMBERS; i++)
		numbers[i] = number;
	return run->pool[kind].buf.ops->to(memory_of(run, kind), numbers, LEN);
}

static int check(const struct mpi_run *run, size_t kind, int number)
{
	static int numbers[NUMBERS];

	FT_TRY(run->pool[kind].buf.ops->from(numbers, memory_of(run, kind) + LEN, LEN));
	for (size_t i = 0; i < NUMBERS; i++)
		FT_CHECK(numbers[i] == number, "number %zu is %d, not %d", i, numbers[i],
			 number);
	return 0;
}

static int deleted(MPI_Win win, int key, void *value, void *extra)
{
	char *memory = memory_of(deletion.run, deletion.kind);

	deletion.calls++;
	deletion.ret =
		MPI_Allreduce(memory, memory + LEN, NUMBERS, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	return deletion.ret;
}

/* @from, @kind: memory of the window, and of what the function is about; @busy: the rank with something to do, or -1 */
static int once(struct mpi_run *run, size_t from, size_t kind, int busy)
{
	const int ranks = run->ranks;
	MPI_Request request = MPI_REQUEST_NULL;
	MPI_Datatype spread;
	MPI_Win win;
	int key;

	mpi_stage(run, "a window of kind %zu, a call of kind %zu, rank %d is busy", from, kind,
		  busy);
	deletion = (struct deletion){.run = run, .kind = kind};
	FT_TRY(fill(run, kind, run->rank + 1));
	MPI_Type_vector(2, 1, 2, MPI_INT, &spread);
	MPI_Type_commit(&spread);
	MPI_Win_create_keyval(MPI_WIN_NULL_COPY_FN, deleted, &key, NULL);
	MPI_Win_create(memory_of(run, from) + 2 * LEN, 64, 1, MPI_INFO_NULL, MPI_COMM_WORLD,
		       &win);
	MPI_Win_set_attr(win, key, NULL);
	if (run->rank == busy)
		MPI_Irecv(memory_of(run, run->kinds - 1) + 2 * LEN + 64, 1, spread, 0, 9,
			  MPI_COMM_SELF, &request);
	MPI_Win_free(&win);
	FT_CHECK(deletion.calls == 1 && deletion.ret == MPI_SUCCESS,
		 "%d calls, which return %d", deletion.calls, deletion.ret);
	FT_TRY(check(run, kind, ranks * (ranks + 1) / 2));
	if (run->rank == busy) {
		MPI_Cancel(&request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	}
	MPI_Win_free_keyval(&key);
	MPI_Type_free(&spread);
	return 0;
}

static int run_all(struct mpi_run *run)
{
	for (size_t from = 0; from < run->kinds; from++) {
		for (size_t kind = 0; kind < run->kinds; kind++) {
			for (int busy = -1; busy < run->ranks; busy++)
				FT_TRY(once(run, from, kind, busy));
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "calls that the deletion of a window's attribute makes",
		.wants = {"Open MPI v4.", "MPICH"},
		.ranks = 2,
		.device = true,
		.pool = 2 * LEN + 4096,
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
