/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_hostfunc: a host function of a stream calls MPI. It may use the GPU for nothing, and the driver does not say
 * there whose memory a buffer is. Host memory works.
 */
#include <string.h>
#include <sys/mman.h>

#include "cu.h"
#include "ft_test.h"
#include "mpi_test.h"

/* A mapping of its own, and no part of the heap: so the driver is asked */
#define LEN (1ul << 20)

struct work {
	struct mpi_run *run;
	char *in, *out;
};

static void in_host_function(void *arg)
{
	struct work *w = arg;
	const int ranks = w->run->ranks, rank = w->run->rank;

	MPI_Sendrecv(w->in, LEN, MPI_BYTE, (rank + 1) % ranks, 0, w->out, LEN, MPI_BYTE,
		     (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Allreduce(w->out, w->in, LEN, MPI_BYTE, MPI_BXOR, MPI_COMM_WORLD);
}

static char *mapping(void)
{
	void *memory =
		mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static int run_all(struct mpi_run *run)
{
	static int (*launch)(void *stream, void (*function)(void *arg), void *arg);
	const struct ft_symbol symbols[] = {{"cuLaunchHostFunc", &launch}};
	struct work w = {run, mapping(), mapping()};
	void *stream;
	char sum = 0;

	if (run->opts.iface != FI_HMEM_CUDA)
		return ft_skip("streams are CUDA's here");
	FT_CHECK(w.in && w.out, "no memory");
	FT_TRY(cu_load());
	FT_TRY(ft_load("libcuda.so.1", symbols, FT_COUNT(symbols)));
	CU(stream_create(&stream, CU_NON_BLOCKING));
	memset(w.in, 1 << run->rank, LEN);
	mpi_stage(run, "a host function");
	FT_TRY(ft_cuda_check(launch(stream, in_host_function, &w), "cuLaunchHostFunc"));
	CU(synchronize(stream));
	for (int i = 0; i < run->ranks; i++)
		sum ^= (char) (1 << i);
	for (size_t i = 0; i < LEN; i++)
		FT_CHECK(w.in[i] == sum, "byte %zu is %d", i, w.in[i]);
	CU(stream_destroy(stream));
	munmap(w.in, LEN);
	munmap(w.out, LEN);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "MPI in host functions of streams",
		.ranks = 2,
		.threads = MPI_THREAD_MULTIPLE,
		.device = true,
		.pool = LEN,
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
