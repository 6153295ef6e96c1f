/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_again: persistent requests, whose memory is freed between two starts, and allocated again at the same address.
 * What the program copies there is sent, and what is received stays. Each rank sends to itself.
 */
#include <string.h>

#include "ft_test.h"
#include "mpi_test.h"

/* Each number has a gap behind it: so they go through host memory */
#define NUMBERS 8192
#define BYTES (2 * NUMBERS * sizeof(int))
#define TIMES 40

static int numbers[2 * NUMBERS], found[2 * NUMBERS];

/* The driver's own: it may return before the last bytes are there for other streams */
static int (*copy)(uintptr_t dst, const void *src, size_t len);

/* Allocates it again. 1: it lies elsewhere */
static int again(const struct ft_mem_ops *ops, void **memory)
{
	void *before = *memory;

	ops->release(before);
	FT_TRY(ops->alloc(BYTES, memory));
	return *memory != before;
}

static int once(const struct ft_mem_ops *ops, void *out, void *in, MPI_Request requests[2],
		int time)
{
	for (int i = 0; i < 2 * NUMBERS; i++)
		numbers[i] = time + i;
	memset(found, 0, BYTES);
	FT_TRY(ops->to(in, found, BYTES));
	FT_TRY(ft_cuda_check(copy((uintptr_t) out, numbers, BYTES), "cuMemcpyHtoD"));
	MPI_Startall(2, requests);
	MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
	FT_TRY(ops->from(found, in, BYTES));
	for (int i = 0; i < 2 * NUMBERS; i++)
		FT_CHECK(found[i] == (i % 2 ? 0 : numbers[i]), "time %d: number %d is %d", time,
			 i, found[i]);
	return 0;
}

static int run_all(struct mpi_run *run)
{
	const struct ft_mem_ops *ops = run->pool[run->kinds - 1].buf.ops;
	MPI_Request requests[2];
	MPI_Datatype type;
	const struct ft_symbol symbols[] = {{"cuMemcpyHtoD_v2", &copy}};
	void *out, *in;
	int ret = 0;

	if (run->opts.iface != FI_HMEM_CUDA)
		return ft_skip("copies are CUDA's here");
	FT_TRY(ft_load("libcuda.so.1", symbols, FT_COUNT(symbols)));
	FT_TRY(ops->alloc(BYTES, &out));
	FT_TRY(ops->alloc(BYTES, &in));
	MPI_Type_vector(NUMBERS, 1, 2, MPI_INT, &type);
	MPI_Type_commit(&type);
	MPI_Send_init(out, 1, type, 0, 0, MPI_COMM_SELF, &requests[0]);
	MPI_Recv_init(in, 1, type, 0, 0, MPI_COMM_SELF, &requests[1]);
	for (int time = 0; time < TIMES && !ret; time++) {
		mpi_stage(run, "time %d", time);
		FT_TRY(once(ops, out, in, requests, time));
		ret = again(ops, &out);
		if (!ret)
			ret = again(ops, &in);
	}
	MPI_Request_free(&requests[0]);
	MPI_Request_free(&requests[1]);
	MPI_Type_free(&type);
	ops->release(out);
	ops->release(in);
	return ret > 0 ? ft_skip("other addresses each time") : ret;
}

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "persistent requests, and memory that comes and goes",
		.ranks = 1,
		.device = true,
		.pool = BYTES,
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
