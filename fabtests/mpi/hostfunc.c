/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_hostfunc: a host function of a stream calls MPI. It may use the GPU for nothing, and the driver does not say
 * there whose memory a buffer is. Host memory works. So do messages of GPU memory that were begun before.
 */
#include <string.h>
#include <sys/mman.h>

#include "cu.h"
#include "ft_test.h"
#include "mpi_test.h"

/* A mapping of its own, and no part of the heap: so the driver is asked */
#define LEN (1ul << 20)

#define RANKS 8 /* at most */

/* What launches host functions, and where */
struct launcher {
	int (*launch)(void *stream, void (*function)(void *arg), void *arg);
	void *stream;
};

struct work {
	struct mpi_run *run;
	char *in, *out;
};

static int host_function(struct launcher *launcher, void (*function)(void *arg), void *arg)
{
	FT_TRY(ft_cuda_check(launcher->launch(launcher->stream, function, arg),
			     "cuLaunchHostFunc"));
	CU(synchronize(launcher->stream));
	return 0;
}

static void in_host_function(void *arg)
{
	struct work *w = arg;
	const int ranks = w->run->ranks, rank = w->run->rank;

	MPI_Sendrecv(w->in, LEN, MPI_BYTE, (rank + 1) % ranks, 0, w->out, LEN, MPI_BYTE,
		     (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Allreduce(w->out, w->in, LEN, MPI_BYTE, MPI_BXOR, MPI_COMM_WORLD);
}

/* One to the next rank, one from the last */
struct begun {
	MPI_Request requests[2];
	MPI_Status status[2];
	int ret;
};

static void end_in_host_function(void *arg)
{
	struct begun *begun = arg;

	begun->ret = MPI_Waitall(2, begun->requests, begun->status);
}

/* GPU memory: MPI ends messages in the host function that were begun before. */
static int run_begun(struct mpi_run *run, struct launcher *launcher, size_t len)
{
	const int ranks = run->ranks, rank = run->rank;
	struct begun begun = {.ret = MPI_ERR_OTHER};
	struct mpi_msg *to, *from;
	struct mpi_msg msgs[RANKS];

	mpi_stage(run, "%zu bytes of GPU memory", len);
	for (int i = 0; i < ranks; i++) {
		mpi_msg_init(run, &msgs[i], i, (i + 1) % ranks, i, len);
		msgs[i].from = msgs[i].to = run->kinds - 1;
		FT_TRY(mpi_msg_ready(run, &msgs[i]));
	}
	to = &msgs[rank];
	from = &msgs[(rank + ranks - 1) % ranks];
	MPI_Irecv(mpi_addr(&from->rx), from->room, MPI_BYTE, from->src, from->tag,
		  MPI_COMM_WORLD, &begun.requests[0]);
	MPI_Isend(mpi_addr(&to->tx), to->len, MPI_BYTE, to->dst, to->tag, MPI_COMM_WORLD,
		  &begun.requests[1]);
	FT_TRY(host_function(launcher, end_in_host_function, &begun));
	FT_CHECK(begun.ret == MPI_SUCCESS, "MPI_Waitall returned %d", begun.ret);
	return mpi_msg_check(from, &from->rx, &begun.status[0]);
}

#define GAPS 1000

/* What it receives goes through host memory, as there are gaps in its place on the GPU. */
static int run_gaps(struct mpi_run *run, struct launcher *launcher)
{
	const int next = (run->rank + 1) % run->ranks,
		  last = (run->rank + run->ranks - 1) % run->ranks;
	const struct ft_buf *gpu = &run->pool[run->kinds - 1].buf;
	int sent[GAPS], got[2 * GAPS] = {0};
	struct begun begun = {.ret = MPI_ERR_OTHER};
	MPI_Datatype type;

	mpi_stage(run, "GPU memory with gaps");
	FT_TRY(gpu->ops->to(gpu->addr, got, sizeof(got)));
	for (int i = 0; i < GAPS; i++)
		sent[i] = 1 + run->rank * GAPS + i;
	MPI_Type_vector(GAPS, 1, 2, MPI_INT, &type);
	MPI_Type_commit(&type);
	MPI_Irecv(gpu->addr, 1, type, last, 0, MPI_COMM_WORLD, &begun.requests[0]);
	MPI_Isend(sent, GAPS, MPI_INT, next, 0, MPI_COMM_WORLD, &begun.requests[1]);
	FT_TRY(host_function(launcher, end_in_host_function, &begun));
	FT_CHECK(begun.ret == MPI_SUCCESS, "MPI_Waitall returned %d", begun.ret);
	FT_TRY(gpu->ops->from(got, gpu->addr, sizeof(got)));
	for (int i = 0; i < 2 * GAPS; i++)
		FT_CHECK(got[i] == (i % 2 ? 0 : 1 + last * GAPS + i / 2), "element %d is %d", i,
			 got[i]);
	MPI_Type_free(&type);
	return 0;
}

static char *mapping(void)
{
	void *memory =
		mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

static int run_host(struct mpi_run *run, struct launcher *launcher)
{
	struct work w = {run, mapping(), mapping()};
	char sum = 0;

	FT_CHECK(w.in && w.out, "no memory");
	memset(w.in, 1 << run->rank, LEN);
	mpi_stage(run, "a host function");
	FT_TRY(host_function(launcher, in_host_function, &w));
	for (int i = 0; i < run->ranks; i++)
		sum ^= (char) (1 << i);
	for (size_t i = 0; i < LEN; i++)
		FT_CHECK(w.in[i] == sum, "byte %zu is %d", i, w.in[i]);
	munmap(w.in, LEN);
	munmap(w.out, LEN);
	return 0;
}

static int run_all(struct mpi_run *run)
{
	static struct launcher launcher;
	const struct ft_symbol symbols[] = {{"cuLaunchHostFunc", &launcher.launch}};

	if (run->opts.iface != FI_HMEM_CUDA)
		return ft_skip("streams are CUDA's here");
	FT_CHECK(run->ranks <= RANKS, "%d ranks: more than %d", run->ranks, RANKS);
	FT_TRY(cu_load());
	FT_TRY(ft_load("libcuda.so.1", symbols, FT_COUNT(symbols)));
	CU(stream_create(&launcher.stream, CU_NON_BLOCKING));
	FT_TRY(run_host(run, &launcher));
	for (size_t i = 0; i < mpi_test_size_count; i++)
		FT_TRY(run_begun(run, &launcher, mpi_test_sizes[i]));
	FT_TRY(run_gaps(run, &launcher));
	CU(stream_destroy(launcher.stream));
	return 0;
}

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "MPI in host functions of streams",
		.ranks = 2,
		.threads = MPI_THREAD_MULTIPLE,
		.device = true,
		.pool = 2 * (MPI_TEST_LONGEST + 4096),
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
