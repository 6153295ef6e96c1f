/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_persistent: MPI 4's persistent collectives. All are under way at a time, some on host memory, the others on the
 * GPU's, and are started several times with other data. Each has to leave what the call that blocks leaves in host memory.
 */
#include <string.h>

#include "ft_test.h"
#include "mpi_test.h"

#if MPI_VERSION >= 4

#define ROOT 1
#define TIMES 5
#define RANKS_MOST 16
/* Of each rank: a few numbers, more than messages that travel at once have, and what goes from GPU to GPU by itself */
static const int lengths[] = {3, 5000, 30000};
#define LONGEST 30000
/* Of one buffer, for three ranks */
#define ROOM (3 * LONGEST * sizeof(int))

/**
 * struct work - what a call works on.
 * @in, @out:	numbers of all ranks in each
 * @bytes:	@displs in bytes
 * @ring:	each rank has two neighbours there
 */
struct work {
	int *in, *out, n, rank, ranks;
	int counts[RANKS_MOST], displs[RANKS_MOST], bytes[RANKS_MOST];
	MPI_Aint far[RANKS_MOST];
	MPI_Datatype types[RANKS_MOST];
	MPI_Comm comm, ring;
};

/* With a request it is made for later, and else carried out. */
#define CALL(name, function, ...)                                                              \
	static void name(const struct work *w, MPI_Request *request)                           \
	{                                                                                      \
		if (request)                                                                   \
			MPI_##function##_init(__VA_ARGS__, MPI_INFO_NULL, request);            \
		else                                                                           \
			MPI_##function(__VA_ARGS__);                                           \
	}

#define IN w->in, w->n, MPI_INT
#define OUT w->out, w->n, MPI_INT
#define ALL w->counts, w->displs, MPI_INT
#define EACH w->counts, w->bytes, w->types
#define AT_ROOT(there, elsewhere) (w->rank == ROOT ? (there) : (elsewhere))

CALL(bcast, Bcast, w->out, w->n * w->ranks, MPI_INT, ROOT, w->comm)
CALL(gather, Gather, IN, OUT, ROOT, w->comm)
CALL(gather_in_place, Gather, AT_ROOT(MPI_IN_PLACE, w->in), w->n, MPI_INT, OUT, ROOT, w->comm)
CALL(gatherv, Gatherv, IN, w->out, ALL, ROOT, w->comm)
CALL(scatter, Scatter, IN, OUT, ROOT, w->comm)
CALL(scatter_in_place, Scatter, IN, AT_ROOT(MPI_IN_PLACE, w->out), w->n, MPI_INT, ROOT, w->comm)
CALL(scatterv, Scatterv, w->in, ALL, OUT, ROOT, w->comm)
CALL(allgather, Allgather, IN, OUT, w->comm)
CALL(allgather_in_place, Allgather, MPI_IN_PLACE, 0, MPI_INT, OUT, w->comm)
CALL(allgatherv, Allgatherv, IN, w->out, ALL, w->comm)
CALL(alltoall, Alltoall, IN, OUT, w->comm)
CALL(alltoall_in_place, Alltoall, MPI_IN_PLACE, 0, MPI_INT, OUT, w->comm)
CALL(alltoallv, Alltoallv, w->in, ALL, w->out, ALL, w->comm)
CALL(alltoallw, Alltoallw, w->in, EACH, w->out, EACH, w->comm)
CALL(alltoallw_in_place, Alltoallw, MPI_IN_PLACE, EACH, w->out, EACH, w->comm)
CALL(reduce, Reduce, w->in, w->out, w->n, MPI_INT, MPI_SUM, ROOT, w->comm)
CALL(reduce_in_place, Reduce, AT_ROOT(MPI_IN_PLACE, w->in), w->out, w->n, MPI_INT, MPI_SUM,
     ROOT, w->comm)
CALL(allreduce, Allreduce, w->in, w->out, w->n, MPI_INT, MPI_SUM, w->comm)
CALL(allreduce_in_place, Allreduce, MPI_IN_PLACE, w->out, w->n, MPI_INT, MPI_SUM, w->comm)
CALL(reduce_scatter_block, Reduce_scatter_block, w->in, w->out, w->n, MPI_INT, MPI_SUM, w->comm)
CALL(reduce_scatter, Reduce_scatter, w->in, w->out, w->counts, MPI_INT, MPI_SUM, w->comm)
CALL(scan, Scan, w->in, w->out, w->n, MPI_INT, MPI_SUM, w->comm)
CALL(scan_in_place, Scan, MPI_IN_PLACE, w->out, w->n, MPI_INT, MPI_SUM, w->comm)
CALL(exscan, Exscan, w->in, w->out, w->n, MPI_INT, MPI_SUM, w->comm)
CALL(neighbor_allgather, Neighbor_allgather, IN, OUT, w->ring)
CALL(neighbor_allgatherv, Neighbor_allgatherv, IN, w->out, ALL, w->ring)
CALL(neighbor_alltoall, Neighbor_alltoall, IN, OUT, w->ring)
CALL(neighbor_alltoallv, Neighbor_alltoallv, w->in, ALL, w->out, ALL, w->ring)
CALL(neighbor_alltoallw, Neighbor_alltoallw, w->in, w->counts, w->far, w->types, w->out,
     w->counts, w->far, w->types, w->ring)

static void (*const calls[])(const struct work *w, MPI_Request *request) = {
	bcast,
	gather,
	gather_in_place,
	gatherv,
	scatter,
	scatter_in_place,
	scatterv,
	allgather,
	allgather_in_place,
	allgatherv,
	alltoall,
	alltoall_in_place,
	alltoallv,
	alltoallw,
	alltoallw_in_place,
	reduce,
	reduce_in_place,
	allreduce,
	allreduce_in_place,
	reduce_scatter_block,
	reduce_scatter,
	scan,
	scan_in_place,
	exscan,
	neighbor_allgather,
	neighbor_allgatherv,
	neighbor_alltoall,
	neighbor_alltoallv,
	neighbor_alltoallw,
};

#define CALLS FT_COUNT(calls)
#define POOL (2 * CALLS * ROOM)

/* ---- rounds ---- */

static int numbers[2][ROOM / sizeof(int)], found[ROOM / sizeof(int)];

static void fill(const struct work *w, size_t call, int time)
{
	for (int i = 0; i < w->n * w->ranks; i++) {
		numbers[0][i] = i % 1000 + w->rank * 3 + (int) call + time;
		numbers[1][i] = -numbers[0][i] - 7;
	}
}

static size_t kind_of(const struct mpi_run *run, size_t call)
{
	return (call + (size_t) run->rank) % run->kinds;
}

/* Where the call has its buffers */
static void place(struct mpi_run *run, struct work *w, size_t call)
{
	char *addr = run->pool[kind_of(run, call)].buf.addr + 2 * call * ROOM;

	w->in = (int *) (void *) addr;
	w->out = (int *) (void *) (addr + ROOM);
}

/* Each request ends, and once. MPI_Testall() is left out: MPICH 5.0 fails there, for its own requests too. */
static int end(int time, MPI_Request requests[])
{
	int ended, index, indices[CALLS];
	size_t all = 0;

	switch (time % 4) {
	case 0:
		MPI_Waitall(CALLS, requests, MPI_STATUSES_IGNORE);
		return 0;
	case 1:
		for (size_t i = CALLS; i-- > 0;)
			MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
		return 0;
	case 2:
		while (MPI_Waitsome(CALLS, requests, &ended, indices, MPI_STATUSES_IGNORE),
		       ended != MPI_UNDEFINED)
			all += (size_t) ended;
		break;
	default:
		while (MPI_Waitany(CALLS, requests, &index, MPI_STATUS_IGNORE),
		       index != MPI_UNDEFINED)
			all++;
	}
	FT_CHECK(all == CALLS, "time %d: %zu requests ended, not %zu", time, all, CALLS);
	return 0;
}

static int compare(struct mpi_run *run, struct work *w, size_t call, int time)
{
	const size_t len = (size_t) (w->n * w->ranks) * sizeof(int);

	place(run, w, call);
	FT_TRY(run->pool[kind_of(run, call)].buf.ops->from(found, w->out, len));
	fill(w, call, time);
	w->in = numbers[0];
	w->out = numbers[1];
	calls[call](w, NULL);
	for (int i = 0; i < w->n * w->ranks; i++)
		FT_CHECK(found[i] == numbers[1][i],
			 "call %zu, %d numbers, time %d: number %d is %d, not %d", call, w->n,
			 time, i, found[i], numbers[1][i]);
	return 0;
}

static int started(struct mpi_run *run, struct work *w)
{
	const size_t len = (size_t) (w->n * w->ranks) * sizeof(int);
	MPI_Request requests[CALLS];

	for (size_t i = 0; i < CALLS; i++) {
		place(run, w, i);
		calls[i](w, &requests[i]);
	}
	for (int time = 0; time < TIMES; time++) {
		mpi_stage(run, "%d numbers, time %d", w->n, time);
		for (size_t i = 0; i < CALLS; i++) {
			const struct ft_mem_ops *ops = run->pool[kind_of(run, i)].buf.ops;

			fill(w, i, time);
			place(run, w, i);
			FT_TRY(ops->to(w->in, numbers[0], len));
			FT_TRY(ops->to(w->out, numbers[1], len));
		}
		MPI_Startall(CALLS, requests);
		FT_TRY(end(time, requests));
		for (size_t i = 0; i < CALLS; i++)
			FT_TRY(compare(run, w, i, time));
	}
	for (size_t i = 0; i < CALLS; i++)
		MPI_Request_free(&requests[i]);
	return 0;
}

static int run_all(struct mpi_run *run)
{
	const int yes = 1;
	struct work w = {.rank = run->rank, .ranks = run->ranks, .comm = MPI_COMM_WORLD};

	if (run->ranks != 3)
		return ft_skip("it has room for three ranks");
	MPI_Cart_create(w.comm, 1, &run->ranks, &yes, 0, &w.ring);
	for (size_t i = 0; i < FT_COUNT(lengths); i++) {
		w.n = lengths[i];
		for (int k = 0; k < run->ranks; k++) {
			w.counts[k] = w.n;
			w.displs[k] = k * w.n;
			w.bytes[k] = w.displs[k] * (int) sizeof(int);
			w.far[k] = w.bytes[k];
			w.types[k] = MPI_INT;
		}
		FT_TRY(started(run, &w));
	}
	MPI_Comm_free(&w.ring);
	return 0;
}

#else
#define run_all NULL
#define POOL 1
#endif

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "MPI 4's persistent collectives, with libp2p-mpi",
		.ranks = 3,
		.pool = POOL,
		.wants = {MPI_VERSION >= 4 ? NULL : "an MPI of version 4"},
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
