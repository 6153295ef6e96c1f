/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_capture: a stream is being captured, in global mode, by this thread, while it calls MPI with device memory. The
 * calls do the same as with host memory, and the capture goes on. Each call is the first one that wants what it does of the
 * GPU.
 */
#include <stdlib.h>
#include <string.h>

#include "cu.h"
#include "ft_test.h"
#include "mpi_test.h"

#define ROOM (2ul << 20)
/* Numbers of a rank: left to the MPI, and from GPU to GPU */
#define SHORT 1000
#define LONG 40000

struct twin {
	int *in, *out;
	int n, rank, ranks;
};

static void do_gaps(struct twin *t)
{
	MPI_Datatype type;

	MPI_Type_vector(t->n / 2, 1, 2, MPI_INT, &type);
	MPI_Type_commit(&type);
	MPI_Sendrecv(t->in, 1, type, (t->rank + 1) % t->ranks, 0, t->out, 1, type,
		     (t->rank + t->ranks - 1) % t->ranks, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Type_free(&type);
}

static void do_allreduce(struct twin *t)
{
	MPI_Allreduce(t->in, t->out, t->n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}

static void do_allgather(struct twin *t)
{
	MPI_Allgather(t->in, t->n, MPI_INT, t->out, t->n, MPI_INT, MPI_COMM_WORLD);
}

static void do_gatherv(struct twin *t)
{
	int counts[16], displs[16];

	for (int i = 0; i < t->ranks; i++) {
		counts[i] = t->n;
		displs[i] = i * t->n;
	}
	MPI_Gatherv(t->in, t->n, MPI_INT, t->out, counts, displs, MPI_INT, 0, MPI_COMM_WORLD);
}

static void do_window(struct twin *t)
{
	MPI_Win win;

	MPI_Win_create(t->out, ROOM, sizeof *t->out, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	MPI_Win_fence(0, win);
	MPI_Accumulate(t->in, t->n, MPI_INT, (t->rank + 1) % t->ranks, 1, t->n, MPI_INT,
		       MPI_SUM, win);
	MPI_Win_fence(0, win);
	MPI_Win_free(&win);
}

static void (*const calls[])(struct twin *t) = {do_gaps, do_allreduce, do_allgather, do_gatherv,
						do_window};

static int captured(struct mpi_run *run, void *stream, void (*call)(struct twin *t), int n)
{
	const struct mpi_pool *pool = &run->pool[run->kinds - 1];
	int *data = malloc(2 * ROOM), *result = malloc(2 * ROOM);
	struct twin host = {data, data + ROOM / sizeof *data, n, run->rank, run->ranks};
	struct twin device = host;
	void *graph = NULL;

	if (!data || !result)
		return -FI_ENOMEM;
	device.in = (int *) pool->buf.addr;
	device.out = (int *) (pool->buf.addr + ROOM);
	for (size_t i = 0; i < 2 * ROOM / sizeof *data; i++)
		data[i] = (int) i * 7 + run->rank;
	FT_TRY(pool->buf.ops->to(pool->buf.addr, data, 2 * ROOM));
	call(&host);
	CU(capture_begin(stream, CU_CAPTURE_GLOBAL));
	call(&device);
	CU(capture_end(stream, &graph));
	CU(graph_destroy(graph));
	FT_TRY(pool->buf.ops->from(result, pool->buf.addr, 2 * ROOM));
	FT_CHECK(!memcmp(data, result, 2 * ROOM), "other bytes than of host memory");
	free(data);
	free(result);
	return 0;
}

static int run_all(struct mpi_run *run)
{
	void *stream;

	if (run->opts.iface != FI_HMEM_CUDA)
		return ft_skip("streams are CUDA's here");
	FT_TRY(cu_load());
	CU(stream_create(&stream, CU_NON_BLOCKING));
	for (size_t i = 0; i < FT_COUNT(calls); i++) {
		mpi_stage(run, "call %zu", i);
		FT_TRY(captured(run, stream, calls[i], SHORT));
		FT_TRY(captured(run, stream, calls[i], LONG));
	}
	CU(stream_destroy(stream));
	return 0;
}

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "calls while a stream is being captured",
		.ranks = 2,
		.device = true,
		.pool = 2 * ROOM,
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
