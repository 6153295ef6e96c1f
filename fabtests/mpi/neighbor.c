/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_neighbor: neighbourhood collectives, which libp2p-mpi makes messages of, on grids and graphs where a rank is the
 * same one's neighbour twice, or its own. All bytes are as MPI itself leaves them in host memory: on a communicator that has no
 * hidden one beside it. MPICH hands several parts from one rank to another over in reverse order, but in one dimension of a grid.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_test.h"
#include "sent.h"

#define ROOM (5ul << 18)
#define POOL (2 * ROOM)
/* Neighbours of a rank, at most */
#define MOST 8
/* Bytes of an element, at most, with its gaps */
#define EXTENT 6000
/* Parts of as many bytes go from GPU to GPU */
#define PART 65536
/* Elements that nobody touches, before each part of those that differ */
#define GAP 2

/* ---- grids and graphs ---- */

static void grid(MPI_Comm comm, int dims, const int sizes[], const int periods[],
		 MPI_Comm *made)
{
	MPI_Cart_create(comm, dims, sizes, periods, 0, made);
}

/* The ends have a neighbour each that is none. */
static void line(MPI_Comm comm, int ranks, MPI_Comm *made)
{
	grid(comm, 1, &ranks, (int[]){0}, made);
}

/* Of two ranks, each is the other's neighbour twice. */
static void ring(MPI_Comm comm, int ranks, MPI_Comm *made)
{
	grid(comm, 1, &ranks, (int[]){1}, made);
}

/* Each rank is its own neighbour twice. */
static void flat(MPI_Comm comm, int ranks, MPI_Comm *made)
{
	grid(comm, 2, (int[]){1, ranks}, (int[]){1, 1}, made);
}

static void torus(MPI_Comm comm, int ranks, MPI_Comm *made)
{
	grid(comm, 3, (int[]){ranks % 2 ? 1 : 2, ranks % 2 ? ranks : ranks / 2, 1},
	     (int[]){1, 1, 0}, made);
}

/* Each rank and the next one are neighbours twice, and each is its own. */
static void graph(MPI_Comm comm, int ranks, MPI_Comm *made)
{
	int index[64], edges[64 * 5];

	for (int i = 0; i < ranks; i++) {
		const int next = (i + 1) % ranks, last = (i + ranks - 1) % ranks;
		const int own[5] = {next, last, i, next, last};

		memcpy(&edges[5 * i], own, sizeof own);
		index[i] = 5 * (i + 1);
	}
	MPI_Graph_create(comm, ranks, index, edges, 0, made);
}

/* One way: to itself, twice to the next one, once to the one behind, to itself; in another order at the other end */
static void one_way(MPI_Comm comm, int ranks, MPI_Comm *made)
{
	int rank, weights[5] = {1, 2, 3, 4, 5};

	MPI_Comm_rank(comm, &rank);
	MPI_Dist_graph_create_adjacent(comm, 5,
				       (int[]){(rank + ranks - 1) % ranks, rank, rank,
					       (rank + 2 * ranks - 2) % ranks,
					       (rank + ranks - 1) % ranks},
				       weights, 5,
				       (int[]){rank, (rank + 1) % ranks, (rank + 1) % ranks,
					       (rank + 2) % ranks, rank},
				       weights, MPI_INFO_NULL, 0, made);
}

/* All ranks send to the first one. */
static void star(MPI_Comm comm, int ranks, MPI_Comm *made)
{
	int all[MOST], weights[MOST] = {0}, zero = 0, rank;

	for (int i = 0; i < ranks; i++)
		all[i] = ranks - 1 - i;
	MPI_Comm_rank(comm, &rank);
	MPI_Dist_graph_create_adjacent(comm, rank ? 0 : ranks, all, weights, 1, &zero, weights,
				       MPI_INFO_NULL, 0, made);
}

/* @often: a rank is the same one's neighbour in several dimensions of a grid, or in a graph, from so few ranks down */
static const struct shape {
	const char *name;
	void (*make)(MPI_Comm comm, int ranks, MPI_Comm *made);
	int often;
} shapes[] = {
	{"a line", line, 0},   {"a ring", ring, 0},         {"a flat grid", flat, 1},
	{"a torus", torus, 1}, {"a graph", graph, INT_MAX}, {"a way around", one_way, INT_MAX},
	{"a star", star, 0},
};

/* ---- the calls ---- */

/**
 * struct work - what a call works on.
 * @in, @out:	memory of the kinds at hand
 * @n:		elements of a part, at most
 * @len:	of both areas, with all parts and what is around them
 * @from, @to:	neighbours, @sources and @targets many
 */
struct work {
	char *in, *out;
	size_t len;
	int n, rank, ranks, sources, targets, from[MOST], to[MOST];
	MPI_Datatype in_type, out_type;
	bool later;
	MPI_Comm comm;
	MPI_Request request;
};

/* The call as it is, or the form that does not block and a wait */
#define DO(work, name, later_name, ...)                                                        \
	do {                                                                                   \
		if ((work)->later) {                                                           \
			MPI_##later_name(__VA_ARGS__, &(work)->request);                       \
			MPI_Wait(&(work)->request, MPI_STATUS_IGNORE);                         \
		} else {                                                                       \
			MPI_##name(__VA_ARGS__);                                               \
		}                                                                              \
	} while (0)

static void neighbors(struct work *w)
{
	int kind, weights[MOST], weighted;

	MPI_Topo_test(w->comm, &kind);
	if (kind == MPI_CART) {
		MPI_Cartdim_get(w->comm, &w->sources);
		for (int i = 0; i < w->sources; i++)
			MPI_Cart_shift(w->comm, i, 1, &w->from[2 * i], &w->from[2 * i + 1]);
		w->targets = w->sources *= 2;
		memcpy(w->to, w->from, sizeof w->to);
	} else if (kind == MPI_GRAPH) {
		MPI_Graph_neighbors_count(w->comm, w->rank, &w->sources);
		MPI_Graph_neighbors(w->comm, w->rank, MOST, w->from);
		w->targets = w->sources;
		memcpy(w->to, w->from, sizeof w->to);
	} else {
		MPI_Dist_graph_neighbors_count(w->comm, &w->sources, &w->targets, &weighted);
		MPI_Dist_graph_neighbors(w->comm, w->sources, w->from, weights, w->targets,
					 w->to, weights);
	}
}

/* Elements from one rank to another: some have none. */
static int between(const struct work *w, int from, int to)
{
	return from < 0 || to < 0 || (from + 2 * to) % 5 == 4 ? 0 : w->n - w->n / 9 * (to % 3);
}

/* Parts of different lengths, in another order, with places between them */
struct blocks {
	int counts[MOST], displs[MOST];
	MPI_Aint bytes[MOST];
	MPI_Datatype types[MOST];
};

static struct blocks blocks_of(const struct work *w, bool in)
{
	const int number = in ? w->targets : w->sources;
	const MPI_Datatype type = in ? w->in_type : w->out_type;
	struct blocks blocks;
	MPI_Aint low, extent;

	MPI_Type_get_extent(type, &low, &extent);
	for (int i = 0; i < number; i++) {
		blocks.counts[i] =
			in ? between(w, w->rank, w->to[i]) : between(w, w->from[i], w->rank);
		blocks.displs[i] = (number - 1 - i) * (w->n + GAP) + GAP;
		blocks.bytes[i] = blocks.displs[i] * extent;
		blocks.types[i] = type;
	}
	return blocks;
}

static void allgather(struct work *w)
{
	DO(w, Neighbor_allgather, Ineighbor_allgather, w->in, w->n, w->in_type, w->out, w->n,
	   w->out_type, w->comm);
}

static void allgatherv(struct work *w)
{
	struct blocks from = blocks_of(w, false);

	/* a rank sends all of them the same */
	for (int i = 0; i < w->sources; i++)
		from.counts[i] = from.counts[i] || w->from[i] >= 0 ? w->n - w->from[i] % 2 : 0;
	if (w->n)
		DO(w, Neighbor_allgatherv, Ineighbor_allgatherv, w->in, w->n - w->rank % 2,
		   w->in_type, w->out, from.counts, from.displs, w->out_type, w->comm);
}

static void alltoall(struct work *w)
{
	DO(w, Neighbor_alltoall, Ineighbor_alltoall, w->in, w->n, w->in_type, w->out, w->n,
	   w->out_type, w->comm);
}

static void alltoallv(struct work *w)
{
	struct blocks to = blocks_of(w, true), from = blocks_of(w, false);

	DO(w, Neighbor_alltoallv, Ineighbor_alltoallv, w->in, to.counts, to.displs, w->in_type,
	   w->out, from.counts, from.displs, w->out_type, w->comm);
}

static void alltoallw(struct work *w)
{
	struct blocks to = blocks_of(w, true), from = blocks_of(w, false);

	DO(w, Neighbor_alltoallw, Ineighbor_alltoallw, w->in, to.counts, to.bytes, to.types,
	   w->out, from.counts, from.bytes, from.types, w->comm);
}

static const struct call {
	const char *name;
	void (*run)(struct work *w);
} calls[] = {
	{"allgather", allgather}, {"allgatherv", allgatherv}, {"alltoall", alltoall},
	{"alltoallv", alltoallv}, {"alltoallw", alltoallw},
};

/* ---- what MPI does in host memory, and what becomes of it elsewhere ---- */

/**
 * struct trial - what a call is tried with.
 * @plain, @comm: without a hidden communicator, and with one
 * @dense:	data without gaps
 */
struct trial {
	const struct call *call;
	const char *shape, *type;
	MPI_Comm plain, comm;
	bool dense;
};

static char original[2][ROOM], result[2][2][ROOM];

static int once(struct mpi_run *run, const struct trial *trial, struct work *w, size_t from,
		size_t to, char found[2][ROOM])
{
	const struct ft_buf *in = &run->pool[from].buf, *out = &run->pool[to].buf;

	for (size_t i = 0; i < 2; i++)
		memcpy(found[i], original[i], w->len);
	FT_TRY(in->ops->to(in->addr, found[0], w->len));
	FT_TRY(out->ops->to(out->addr + ROOM, found[1], w->len));
	w->in = in->addr + 64;
	w->out = out->addr + ROOM + 64;
	mpi_sent.watched = 0;
	trial->call->run(w);
	FT_TRY(in->ops->from(found[0], in->addr, w->len));
	return out->ops->from(found[1], out->addr + ROOM, w->len);
}

static int compare(const struct trial *trial, const struct work *w, size_t from, size_t to)
{
	for (size_t k = 0; k < 2; k++) {
		for (size_t i = 0; i < w->len && memcmp(result[1][k], result[0][k], w->len);
		     i++)
			FT_CHECK(result[1][k][i] == result[0][k][i],
				 "Neighbor_%s, %s, %d of %s%s, memory %zu and %zu: byte %zu of "
				 "what is %s is %d, not %d",
				 trial->call->name, trial->shape, w->n, trial->type,
				 w->later ? ", later" : "", from, to, i, k ? "written" : "read",
				 result[1][k][i], result[0][k][i]);
	}
	return 0;
}

static bool has_others(const struct work *w)
{
	for (int i = 0; i < w->targets; i++) {
		if (w->to[i] >= 0 && w->to[i] != w->rank)
			return true;
	}
	return false;
}

static int one_trial(struct mpi_run *run, const struct trial *trial, struct work *w)
{
	const bool later = w->later;
	int size;

	mpi_stage(run, "Neighbor_%s, %s, %d of %s%s", trial->call->name, trial->shape, w->n,
		  trial->type, w->later ? ", later" : "");
	MPI_Type_size(w->in_type, &size);
	w->comm = trial->plain;
	w->later = false;
	neighbors(w);
	w->len = MOST * (w->in_type == MPI_INT ? sizeof(int) : EXTENT) * ((size_t) w->n + GAP) +
		 256;
	FT_TRY(once(run, trial, w, 0, 0, result[0]));
	w->comm = trial->comm;
	w->later = later;
	neighbors(w);
	for (size_t kinds = 0; kinds < run->kinds * run->kinds; kinds++) {
		const size_t from = kinds % run->kinds, to = kinds / run->kinds;

		FT_TRY(once(run, trial, w, from, to, result[1]));
		FT_TRY(compare(trial, w, from, to));
		FT_CHECK(!from || strcmp(trial->call->name, "allgather") || !has_others(w) ||
				 !mpi_sent.watched ==
					 !(trial->dense && (size_t) (w->n * size) >= PART),
			 "Neighbor_%s, %s, %d of %s: %lu messages from the GPU",
			 trial->call->name, trial->shape, w->n, trial->type, mpi_sent.watched);
	}
	return 0;
}

static int one_shape(struct mpi_run *run, const struct shape *shape, MPI_Comm plain)
{
	static const int counts[] = {0, 1, 17, 17000};
	struct work w = {.rank = run->rank, .ranks = run->ranks};
	struct trial trial = {.shape = shape->name};
	MPI_Datatype vector, gaps, whole;

	MPI_Type_vector(3, 400, 500, MPI_INT, &vector);
	MPI_Type_create_resized(vector, 0, EXTENT, &gaps);
	MPI_Type_contiguous(1200, MPI_INT, &whole);
	MPI_Type_commit(&gaps);
	MPI_Type_commit(&whole);
	shape->make(plain, run->ranks, &trial.plain);
	shape->make(MPI_COMM_WORLD, run->ranks, &trial.comm);
	for (size_t i = 0; i < FT_COUNT(calls) * FT_COUNT(counts) * 8; i++) {
		const size_t types = i / FT_COUNT(calls) / FT_COUNT(counts) % 4;

		trial.call = &calls[i % FT_COUNT(calls)];
		w.n = counts[i / FT_COUNT(calls) % FT_COUNT(counts)];
		w.in_type = types == 0 ? MPI_INT : types % 2 ? gaps : whole;
		w.out_type = types == 0 ? MPI_INT : types > 1 ? gaps : whole;
		trial.type =
			(const char *[]){"int", "gaps to none", "none to gaps", "gaps"}[types];
		if (types == 3)
			w.in_type = gaps;
		trial.dense = w.in_type != gaps;
		if (run->mpich && run->ranks <= shape->often && i % FT_COUNT(calls) > 1)
			continue;
		/* elements of the others are long */
		if (types && w.n > 17)
			continue;
		/* MPI alone confuses directions here */
		w.later = i / FT_COUNT(calls) / FT_COUNT(counts) / 4 && run->ranks > 1;
		FT_TRY(one_trial(run, &trial, &w));
	}
	MPI_Comm_free(&trial.plain);
	MPI_Comm_free(&trial.comm);
	MPI_Type_free(&vector);
	MPI_Type_free(&gaps);
	MPI_Type_free(&whole);
	return 0;
}

static int run_all(struct mpi_run *run)
{
	uint64_t seed = (uint64_t) run->rank + 1;
	MPI_Group group;
	MPI_Comm plain;

	if (run->kinds > 1)
		mpi_sent_watch(run->pool[1].buf.addr, POOL);
	MPI_Comm_group(MPI_COMM_WORLD, &group);
	MPI_Comm_create_group(MPI_COMM_WORLD, group, 0, &plain);
	for (size_t i = 0; i < sizeof original; i += sizeof seed) {
		const uint64_t number = ft_random(&seed);

		memcpy(&original[0][0] + i, &number, sizeof number);
	}
	for (size_t i = 0; i < FT_COUNT(shapes); i++)
		FT_TRY(one_shape(run, &shapes[i], plain));
	MPI_Comm_free(&plain);
	MPI_Group_free(&group);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "neighbourhood collectives as messages, with libp2p-mpi",
		.ranks = 1,
		.pool = POOL,
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
