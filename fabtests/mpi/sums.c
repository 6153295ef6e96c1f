/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_sums: sums of memory that a copy has just written, which the GPU may still be about to do; and all ranks get the
 * same, where one adds on its GPU and the others on the host.
 */
#include <stdlib.h>
#include <string.h>

#include "dev/p2p_cuda_abi.h"
#include "ft_test.h"
#include "mpi_test.h"

#define COUNT 131072
#define TURNS 40

static struct {
	CUresult (*copy_htod)(CUdeviceptr dst, const void *src, size_t len);
} cuda;

static const struct ft_symbol symbols[] = {
	{"cuMemcpyHtoD_v2", &cuda.copy_htod},
};

static int numbers[COUNT];

/* The memory is new in each turn, so nobody has waited for its copies yet. */
static int just_written(struct mpi_run *run, bool all, int root)
{
	const struct ft_mem_ops *ops = run->pool[1].buf.ops;
	void *in, *out;

	FT_TRY(ops->alloc(sizeof(numbers), &in));
	FT_TRY(ops->alloc(sizeof(numbers), &out));
	for (int i = 0; i < COUNT; i++)
		numbers[i] = i * (run->rank + 1);
	FT_TRY(ft_cuda_check(cuda.copy_htod((CUdeviceptr) (uintptr_t) in, numbers,
					    sizeof(numbers)),
			     "cuMemcpyHtoD"));
	if (all)
		MPI_Allreduce(in, out, COUNT, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	else
		MPI_Reduce(in, out, COUNT, MPI_INT, MPI_SUM, root, MPI_COMM_WORLD);
	if (all || run->rank == root) {
		FT_TRY(ops->from(numbers, out, sizeof(numbers)));
		for (int i = 0; i < COUNT; i++)
			FT_CHECK(numbers[i] == i * (run->ranks * (run->ranks + 1) / 2),
				 "number %d is %d, of %d ranks", i, numbers[i], run->ranks);
	}
	ops->release(in);
	ops->release(out);
	return 0;
}

/* @bytes: what each rank gives; rank 0's are in its GPU's memory */
static int agreed(struct mpi_run *run, const char *what, MPI_Datatype type, MPI_Op op,
		  const char *bytes)
{
	const struct ft_mem_ops *ops = run->pool[1].buf.ops;
	char *found = malloc(sizeof(numbers)), *root = malloc(sizeof(numbers));
	void *in, *out;
	int size;

	FT_CHECK(found && root, "no memory");
	MPI_Type_size(type, &size);
	FT_TRY(ops->alloc(sizeof(numbers), &in));
	FT_TRY(ops->alloc(sizeof(numbers), &out));
	FT_TRY(ops->to(in, bytes, sizeof(numbers)));
	MPI_Allreduce(run->rank ? bytes : in, run->rank ? (void *) found : out,
		      (int) sizeof(numbers) / size, type, op, MPI_COMM_WORLD);
	if (!run->rank)
		FT_TRY(ops->from(found, out, sizeof(numbers)));
	memcpy(root, found, sizeof(numbers));
	MPI_Bcast(root, (int) sizeof(numbers), MPI_BYTE, 0, MPI_COMM_WORLD);
	FT_CHECK(!memcmp(root, found, sizeof(numbers)), "%s: rank 0 got something else", what);
	ops->release(in);
	ops->release(out);
	free(found);
	free(root);
	return 0;
}

static int all_agree(struct mpi_run *run)
{
	float *floats = (float *) (void *) numbers;

	mpi_stage(run, "short sums that overflow");
	memset(numbers, run->rank ? 100 : 200, sizeof(numbers));
	FT_TRY(agreed(run, "unsigned char", MPI_UNSIGNED_CHAR, MPI_SUM, (char *) numbers));
	FT_TRY(agreed(run, "unsigned short", MPI_UNSIGNED_SHORT, MPI_SUM, (char *) numbers));
	mpi_stage(run, "zeros of both signs");
	for (int i = 0; i < COUNT; i++)
		floats[i] = (i + run->rank) % 2 ? 0.0F : -0.0F;
	FT_TRY(agreed(run, "the larger float", MPI_FLOAT, MPI_MAX, (char *) numbers));
	return agreed(run, "the smaller float", MPI_FLOAT, MPI_MIN, (char *) numbers);
}

static int run_all(struct mpi_run *run)
{
	FT_TRY(ft_load("libcuda.so.1", symbols, FT_COUNT(symbols)));
	for (int i = 0; i < TURNS; i++) {
		mpi_stage(run, "turn %d", i);
		FT_TRY(just_written(run, i % 2, run->ranks - 1));
	}
	return all_agree(run);
}

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "sums by libp2p-mpi, of GPU memory that was just written",
		.ranks = 1,
		.device = true,
		.cuda = true,
		.pool = 4096,
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
