/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_exchange: collective calls of much data, on host memory and then on each other kind, on all ranks or on some of
 * them. All bytes are the same afterwards. They go from GPU to GPU where docs/mpi.md says so, and nowhere else: the library's
 * own messages tell. It wants libp2p-mpi.
 */
#include <stdio.h>
#include <string.h>

#include "mpi_test.h"
#include "sent.h"

#define ROOM (20ul << 20)
#define RANKS_MOST 64
/* From as many bytes of each rank on */
#define LEAST 65536
/* More than the library has hidden communicators */
#define COMMS 80
/* Nobody writes there. */
#define GAP 3
#define AROUND 256
#define POOL (2 * (ROOM + AROUND) + AROUND)
/* Parts of as many bytes go from GPU to GPU in vector collectives */
#define PART 65536

/* ---- the calls ---- */

/**
 * struct work - what a call works on.
 * @in, @out:	memory of the kinds at hand, for all elements and gaps
 * @n, @part:	elements: of all ranks, of each
 * @counts, @displs: uneven parts
 */
struct work {
	char *in, *out;
	int n, part, counts[RANKS_MOST], displs[RANKS_MOST];
	MPI_Datatype type;
	MPI_Op op;
	MPI_Comm comm;
	int rank, ranks, root, size;
};

static char *own(const struct work *w, char *memory)
{
	return memory + (size_t) w->rank * (size_t) w->part * (size_t) w->size;
}

static void allreduce(const struct work *w)
{
	MPI_Allreduce(w->in, w->out, w->n, w->type, w->op, w->comm);
}

static void allreduce_in_place(const struct work *w)
{
	MPI_Allreduce(MPI_IN_PLACE, w->out, w->n, w->type, w->op, w->comm);
}

static void reduce(const struct work *w)
{
	MPI_Reduce(w->in, w->rank == w->root ? w->out : NULL, w->n, w->type, w->op, w->root,
		   w->comm);
}

static void reduce_in_place(const struct work *w)
{
	const bool root = w->rank == w->root;

	MPI_Reduce(root ? MPI_IN_PLACE : w->in, root ? w->out : NULL, w->n, w->type, w->op,
		   w->root, w->comm);
}

static void reduce_scatter(const struct work *w)
{
	MPI_Reduce_scatter(w->in, w->out, w->counts, w->type, w->op, w->comm);
}

static void reduce_scatter_in_place(const struct work *w)
{
	MPI_Reduce_scatter(MPI_IN_PLACE, w->out, w->counts, w->type, w->op, w->comm);
}

static void reduce_scatter_block(const struct work *w)
{
	MPI_Reduce_scatter_block(w->in, w->out, w->part, w->type, w->op, w->comm);
}

static void reduce_scatter_block_in_place(const struct work *w)
{
	MPI_Reduce_scatter_block(MPI_IN_PLACE, w->out, w->part, w->type, w->op, w->comm);
}

static void allgather(const struct work *w)
{
	MPI_Allgather(w->in, w->part, w->type, w->out, w->part, w->type, w->comm);
}

static void allgather_in_place(const struct work *w)
{
	MPI_Allgather(MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, w->out, w->part, w->type, w->comm);
}

static void allgatherv(const struct work *w)
{
	MPI_Allgatherv(w->in, w->counts[w->rank], w->type, w->out, w->counts, w->displs,
		       w->type, w->comm);
}

static void allgatherv_in_place(const struct work *w)
{
	MPI_Allgatherv(MPI_IN_PLACE, 0, w->type, w->out, w->counts, w->displs, w->type,
		       w->comm);
}

static void alltoall(const struct work *w)
{
	MPI_Alltoall(w->in, w->part, w->type, w->out, w->part, w->type, w->comm);
}

static void alltoall_in_place(const struct work *w)
{
	MPI_Alltoall(MPI_IN_PLACE, 0, w->type, w->out, w->part, w->type, w->comm);
}

static void gather(const struct work *w)
{
	MPI_Gather(w->in, w->part, w->type, w->out, w->part, w->type, w->root, w->comm);
}

static void gather_in_place(const struct work *w)
{
	const bool root = w->rank == w->root;

	MPI_Gather(root ? MPI_IN_PLACE : own(w, w->out), w->part, w->type, root ? w->out : NULL,
		   w->part, w->type, w->root, w->comm);
}

static void scatter(const struct work *w)
{
	MPI_Scatter(w->in, w->part, w->type, w->out, w->part, w->type, w->root, w->comm);
}

static void scatter_in_place(const struct work *w)
{
	const bool root = w->rank == w->root;

	MPI_Scatter(root ? w->out : NULL, w->part, w->type, root ? MPI_IN_PLACE : w->out,
		    w->part, w->type, w->root, w->comm);
}

static void gatherv(const struct work *w)
{
	MPI_Gatherv(w->in, w->counts[w->rank], w->type, w->out, w->counts, w->displs, w->type,
		    w->root, w->comm);
}

static void gatherv_in_place(const struct work *w)
{
	const bool root = w->rank == w->root;

	MPI_Gatherv(root ? MPI_IN_PLACE : w->in, w->counts[w->rank], w->type,
		    root ? w->out : NULL, root ? w->counts : NULL, root ? w->displs : NULL,
		    w->type, w->root, w->comm);
}

static void scatterv(const struct work *w)
{
	MPI_Scatterv(w->in, w->counts, w->displs, w->type, w->out, w->counts[w->rank], w->type,
		     w->root, w->comm);
}

static void scatterv_in_place(const struct work *w)
{
	const bool root = w->rank == w->root;

	MPI_Scatterv(root ? w->out : NULL, root ? w->counts : NULL, root ? w->displs : NULL,
		     w->type, root ? MPI_IN_PLACE : w->out, w->counts[w->rank], w->type,
		     w->root, w->comm);
}

/* What each rank gets from each other one is a part of its own part. */
static void alltoallv(const struct work *w)
{
	int out[RANKS_MOST], in[RANKS_MOST], at[RANKS_MOST];

	for (int i = 0; i < w->ranks; i++) {
		out[i] = w->counts[i] / w->ranks;
		in[i] = w->counts[w->rank] / w->ranks;
		at[i] = i * (in[i] + GAP);
	}
	MPI_Alltoallv(w->in, out, w->displs, w->type, w->out, in, at, w->type, w->comm);
}

static void alltoallw(const struct work *w)
{
	int out[RANKS_MOST], in[RANKS_MOST], from[RANKS_MOST], to[RANKS_MOST];
	MPI_Datatype types[RANKS_MOST];
	MPI_Aint low, extent;

	MPI_Type_get_extent(w->type, &low, &extent);
	for (int i = 0; i < w->ranks; i++) {
		out[i] = w->counts[i] / w->ranks;
		in[i] = w->counts[w->rank] / w->ranks;
		from[i] = w->displs[i] * (int) extent;
		to[i] = i * (in[i] + GAP) * (int) extent;
		types[i] = w->type;
	}
	MPI_Alltoallw(w->in, out, from, types, w->out, in, to, types, w->comm);
}

/*
 * @parts: all ranks have as much. @rest: MPI does not say what is behind the result. @messages: it is sent by the library,
 * whatever the memory
 */
static const struct call {
	const char *name;
	void (*run)(const struct work *w);
	bool parts, rest, messages;
} calls[] = {
	{"Allreduce", allreduce, false, false, false},
	{"Allreduce in place", allreduce_in_place, false, false, false},
	{"Reduce", reduce, false, false, false},
	{"Reduce in place", reduce_in_place, false, false, false},
	{"Reduce_scatter", reduce_scatter, false, false, false},
	{"Reduce_scatter in place", reduce_scatter_in_place, false, true, false},
	{"Reduce_scatter_block", reduce_scatter_block, true, false, false},
	{"Reduce_scatter_block in place", reduce_scatter_block_in_place, true, true, false},
	{"Allgather", allgather, true, false, true},
	{"Allgather in place", allgather_in_place, true, false, true},
	{"Allgatherv", allgatherv, false, false, true},
	{"Allgatherv in place", allgatherv_in_place, false, false, true},
	{"Alltoall", alltoall, true, false, true},
	{"Alltoall in place", alltoall_in_place, true, false, false},
	{"Gather", gather, true, false, true},
	{"Gather in place", gather_in_place, true, false, true},
	{"Scatter", scatter, true, false, true},
	{"Scatter in place", scatter_in_place, true, false, true},
	{"Gatherv", gatherv, false, false, true},
	{"Gatherv in place", gatherv_in_place, false, false, true},
	{"Scatterv", scatterv, false, false, true},
	{"Scatterv in place", scatterv_in_place, false, false, true},
	{"Alltoallv", alltoallv, false, false, true},
	{"Alltoallw", alltoallw, false, false, true},
};

/* ---- types and operations ---- */

enum numbers { WHOLE, REAL, COMPLEX, LOGICAL, BITS };

/* @left: reductions are left to MPI */
struct kind {
	const char *name;
	MPI_Datatype type;
	enum numbers numbers;
	bool left;
};

struct operation {
	const char *name;
	MPI_Op op;
	unsigned numbers;
};

#define OF(numbers) (1u << (numbers))

static const struct operation operations[] = {
	{"sum", MPI_SUM, OF(WHOLE) | OF(REAL) | OF(COMPLEX)},
	{"product", MPI_PROD, OF(WHOLE) | OF(REAL) | OF(COMPLEX)},
	{"minimum", MPI_MIN, OF(WHOLE) | OF(REAL)},
	{"maximum", MPI_MAX, OF(WHOLE) | OF(REAL)},
	{"and", MPI_LAND, OF(WHOLE) | OF(LOGICAL)},
	{"or", MPI_LOR, OF(WHOLE) | OF(LOGICAL)},
	{"either", MPI_LXOR, OF(WHOLE) | OF(LOGICAL)},
	{"bits of both", MPI_BAND, OF(WHOLE) | OF(BITS)},
	{"bits of any", MPI_BOR, OF(WHOLE) | OF(BITS)},
	{"bits of either", MPI_BXOR, OF(WHOLE) | OF(BITS)},
};

#define KINDS 15

static void make_kinds(struct kind kinds[KINDS])
{
	const struct kind all[KINDS] = {
		{"int", MPI_INT, WHOLE, false},
		{"signed char", MPI_SIGNED_CHAR, WHOLE, false},
		{"unsigned char", MPI_UNSIGNED_CHAR, WHOLE, false},
		{"short", MPI_SHORT, WHOLE, false},
		{"unsigned short", MPI_UNSIGNED_SHORT, WHOLE, false},
		{"long", MPI_LONG, WHOLE, false},
		{"uint16_t", MPI_UINT16_T, WHOLE, false},
		{"uint64_t", MPI_UINT64_T, WHOLE, false},
		{"float", MPI_FLOAT, REAL, false},
		{"double", MPI_DOUBLE, REAL, false},
		{"long double", MPI_LONG_DOUBLE, REAL, true},
		{"float complex", MPI_C_FLOAT_COMPLEX, COMPLEX, true},
		{"double complex", MPI_C_DOUBLE_COMPLEX, COMPLEX, true},
		{"bool", MPI_C_BOOL, LOGICAL, false},
		{"byte", MPI_BYTE, BITS, false},
	};

	memcpy(kinds, all, sizeof all);
}

/*
 * Numbers whose sums and products any type holds, in whatever order they are added: Open MPI 4.1 adds short ones that do not
 * now this way, now that.
 */
static void fill(char *memory, size_t len, const struct kind *kind, uint64_t seed)
{
	const bool floats = kind->type == MPI_FLOAT || kind->type == MPI_C_FLOAT_COMPLEX;

	memset(memory, 0, len);
	for (size_t i = 0; i + 16 <= len;) {
		const int number = (int) (ft_random(&seed) % 3);

		if (kind->type == MPI_LONG_DOUBLE) {
			*(long double *) (void *) (memory + i) = number;
			i += sizeof(long double);
		} else if (kind->numbers == REAL || kind->numbers == COMPLEX) {
			if (floats)
				*(float *) (void *) (memory + i) = (float) number;
			else
				*(double *) (void *) (memory + i) = number;
			i += (floats ? sizeof(float) : sizeof(double)) *
			     (kind->numbers == COMPLEX ? 2 : 1);
		} else {
			memory[i] = (char) (kind->numbers == LOGICAL ? number % 2 : number);
			i += kind->numbers == WHOLE ? 2 : 1;
		}
	}
}

/* ---- once on host memory, once elsewhere ---- */

/**
 * struct trial - what a call is tried with.
 * @expected:	is it to go from GPU to GPU, if all data is there?
 * @shift:	of buffers in their memory
 */
struct trial {
	const struct call *call;
	const struct kind *kind;
	const char *what;
	bool expected;
	size_t shift;
};

static char result[2][2][ROOM];

/* With @from and @to, kinds of memory; what is in both afterwards goes to @found. */
static int once(struct mpi_run *run, const struct trial *trial, struct work *w, size_t from,
		size_t to, char found[2][ROOM], unsigned long *messages)
{
	const size_t len = (size_t) (w->n + GAP * w->ranks) * (size_t) w->size + AROUND;
	const struct ft_buf *in = &run->pool[from].buf, *out = &run->pool[to].buf;

	FT_CHECK(len <= ROOM, "too much data: %zu bytes", len);
	for (uint64_t i = 0; i < 2; i++)
		fill(found[i], len, trial->kind, 2 * (uint64_t) w->rank + i + 1);
	FT_TRY(in->ops->to(in->addr + trial->shift, found[0], len));
	FT_TRY(out->ops->to(out->addr + ROOM + AROUND + trial->shift, found[1], len));
	w->in = in->addr + trial->shift;
	w->out = out->addr + ROOM + AROUND + trial->shift;
	mpi_sent = (struct mpi_sent){0};
	trial->call->run(w);
	*messages = trial->call->messages ? mpi_sent.watched : mpi_sent.all;
	FT_TRY(in->ops->from(found[0], in->addr + trial->shift, len));
	return out->ops->from(found[1], out->addr + ROOM + AROUND + trial->shift, len);
}

static int compare(const struct trial *trial, const struct work *w)
{
	const size_t len = (size_t) (w->n + GAP * w->ranks) * (size_t) w->size + AROUND;
	const int mine = trial->call->parts ? w->part : w->counts[w->rank];
	const size_t defined = trial->call->rest ? (size_t) mine * (size_t) w->size : len;

	for (size_t k = 0; k < 2; k++) {
		for (size_t i = 0; i < (k ? defined : len); i++)
			FT_CHECK(result[1][k][i] == result[0][k][i],
				 "%s, %d elements of %s, %s: byte %zu of %s is %d, not %d",
				 trial->call->name, w->n, trial->kind->name, trial->what, i,
				 k ? "what is written" : "what is read", result[1][k][i],
				 result[0][k][i]);
	}
	return 0;
}

/* @among: all data is a GPU's, every second rank's, or any */
static int twice(struct mpi_run *run, const struct trial *trial, struct work *w, int among)
{
	const size_t bytes = (size_t) w->n * (size_t) w->size;
	unsigned long messages, any;
	size_t from, to;

	mpi_stage(run, "%s, %d elements of %s, %s, memory %d", trial->call->name, w->n,
		  trial->kind->name, trial->what, among);
	FT_TRY(once(run, trial, w, 0, 0, result[0], &messages));
	FT_CHECK(!messages, "%s: host memory is exchanged", trial->call->name);
	from = to = among == 0 || run->rank % 2;
	for (int i = 0; among == 2 && i < run->ranks; i++) {
		const size_t a = mpi_random(run, 2), b = mpi_random(run, 2);

		from = i == run->rank ? a : from;
		to = i == run->rank ? b : to;
	}
	if (run->kinds == 1)
		return 0;
	FT_TRY(once(run, trial, w, from, to, result[1], &messages));
	FT_TRY(compare(trial, w));
	MPI_Allreduce(&messages, &any, 1, MPI_UNSIGNED_LONG, MPI_MAX, w->comm);
	/* between that, it depends on which ranks have parts */
	if (trial->call->messages && bytes >= PART && bytes < PART * (size_t) w->ranks * 4)
		return 0;
	FT_CHECK(w->ranks == 1 || among > 0 || !any == !trial->expected,
		 "%s, %d elements of %s, %s: not expected %s GPU to GPU", trial->call->name,
		 w->n, trial->kind->name, trial->what, any ? "from" : "but from");
	return 0;
}

/* Of @n elements on @comm: some ranks have none of them, if there are few. */
static void work_init(struct work *w, MPI_Comm comm, const struct kind *kind, int n)
{
	*w = (struct work){.n = n, .type = kind->type, .op = MPI_SUM, .comm = comm};
	MPI_Comm_rank(comm, &w->rank);
	MPI_Comm_size(comm, &w->ranks);
	MPI_Type_size(kind->type, &w->size);
	w->root = w->ranks / 2;
	w->part = n / w->ranks;
	for (int i = 0, at = 0; i < w->ranks; i++) {
		const int left = n - at;

		w->counts[i] = i == w->ranks - 1 ? left : i % 3 == 1 ? 0 : left / 2;
		w->displs[i] = at + GAP * i;
		at += w->counts[i];
	}
}

/* With all data on GPUs, or some of it */
static int one_call(struct mpi_run *run, size_t i, MPI_Comm comm, const struct kind *kind,
		    int n, const char *what, bool expected)
{
	const struct call *call = &calls[i % FT_COUNT(calls)];
	struct trial trial = {call, kind, what, expected, 4 * (i % 16) + 1};
	struct work w;

	work_init(&w, comm, kind, n);
	w.root = (int) i % w.ranks;
	if ((size_t) (call->parts ? w.part * w.ranks : n) * (size_t) w.size <
	    (call->messages ? PART : LEAST * (size_t) w.ranks))
		trial.expected = false;
	return twice(run, &trial, &w, (int) mpi_random(run, 3));
}

/* ---- the tests ---- */

static int sizes(struct mpi_run *run, const struct kind *kinds)
{
	const int least = LEAST / (int) sizeof(int) * run->ranks,
		  counts[] = {1, least - 1, least, least + 1, least + 6, 70001 * run->ranks};

	for (size_t i = 0; i < FT_COUNT(counts) * FT_COUNT(calls); i++) {
		const size_t call = i % FT_COUNT(calls), size = i / FT_COUNT(calls);

		if (!run->opts.quick || (call + size) % 3 == 0)
			FT_TRY(one_call(run, i, MPI_COMM_WORLD, &kinds[0], counts[size],
					"world", true));
	}
	return 0;
}

/* Several rounds through scratch memory, and one element more */
static int rounds(struct mpi_run *run, const struct kind *kinds)
{
	static const int which[] = {0, 5, 13, 8, 12, 3, 1, 2};
	struct work w;

	for (size_t i = 0; i < (run->opts.quick ? 2 : FT_COUNT(which)); i++) {
		const int most = (16 << 20) / (int) sizeof(int);
		struct trial trial = {&calls[which[i]], &kinds[0], "rounds", true, 0};

		work_init(&w, MPI_COMM_WORLD, &kinds[0],
			  (i % 2 ? most : most + most / 8) + run->ranks);
		FT_TRY(twice(run, &trial, &w, (int) i % 2));
	}
	return 0;
}

/* Short data goes to each rank that gets the sum: one message to each, and none with sums. */
static int added_by_each(struct mpi_run *run, const struct kind *kinds)
{
	struct trial trial = {&calls[0], &kinds[0], "added by each", true, 0};
	unsigned long messages;
	struct work w;

	if (run->kinds == 1)
		return 0;
	work_init(&w, MPI_COMM_WORLD, &kinds[0], LEAST / (int) sizeof(int) * run->ranks);
	FT_TRY(once(run, &trial, &w, 1, 1, result[1], &messages));
	FT_CHECK(messages == (unsigned long) run->ranks - 1,
		 "%lu messages for a sum of %d ranks", messages, run->ranks);
	return 0;
}

static int all_operations(struct mpi_run *run, const struct kind *kinds)
{
	char what[64];
	struct work w;
	int size;

	for (size_t i = 0; i < KINDS * FT_COUNT(operations); i++) {
		const struct kind *kind = &kinds[i / FT_COUNT(operations)];
		const struct operation *operation = &operations[i % FT_COUNT(operations)];
		struct trial trial = {&calls[i % 8], kind, what, !kind->left, i % 3 * 16};

		if (!(operation->numbers & OF(kind->numbers)) ||
		    (run->opts.quick && i / 3 % 3 != 0))
			continue;
		snprintf(what, sizeof what, "%s", operation->name);
		MPI_Type_size(kind->type, &size);
		work_init(&w, MPI_COMM_WORLD, kind, (LEAST / size + 7) * run->ranks);
		w.op = operation->op;
		FT_TRY(twice(run, &trial, &w, (int) (i % 3)));
	}
	return 0;
}

static void own_sum(void *in, void *out, int *count, MPI_Datatype *type)
{
	(void) type;
	for (int i = 0; i < *count; i++)
		((int *) out)[i] += ((int *) in)[i];
}

/* What is left to MPI */
static int not_exchanged(struct mpi_run *run, const struct kind *kinds)
{
	struct kind gaps = {"vector", MPI_DATATYPE_NULL, WHOLE, true};
	MPI_Request request;
	MPI_Comm comm;
	struct work w;
	MPI_Op op;

	MPI_Op_create(own_sum, 1, &op);
	for (size_t i = 0; i < 8; i++) {
		struct trial trial = {&calls[i], &kinds[0], "own operation", false, 4};

		work_init(&w, MPI_COMM_WORLD, &kinds[0], 30001);
		w.op = op;
		FT_TRY(twice(run, &trial, &w, 0));
	}
	MPI_Op_free(&op);
	MPI_Type_vector(2, 1, 3, MPI_INT, &gaps.type);
	MPI_Type_commit(&gaps.type);
	for (size_t i = 8; i < FT_COUNT(calls); i++) {
		struct trial trial = {&calls[i], &gaps, "gaps", false, 4};

		work_init(&w, MPI_COMM_WORLD, &gaps, 16000);
		w.size = 16;
		FT_TRY(twice(run, &trial, &w, 0));
	}
	MPI_Type_free(&gaps.type);
	MPI_Comm_idup(MPI_COMM_WORLD, &comm, &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	for (size_t i = 0; i < FT_COUNT(calls); i++)
		FT_TRY(one_call(run, i, comm, &kinds[0], 20000 * run->ranks, "idup", false));
	MPI_Comm_free(&comm);
	return 0;
}

/* ---- communicators ---- */

static int comms_made(struct mpi_run *run, const struct kind *kinds)
{
	const int rank = run->rank, dims[1] = {run->ranks}, no[1] = {0}, yes[1] = {1};
	const int weight = 1, last = (rank + run->ranks - 1) % run->ranks,
		  next = (rank + 1) % run->ranks;
	MPI_Comm comms[9], cart, alone;
	MPI_Group group;
	int count = 0, index[RANKS_MOST], edges[RANKS_MOST];

	for (int i = 0; i < run->ranks; i++) {
		index[i] = i + 1;
		edges[i] = (i + 1) % run->ranks;
	}
	MPI_Comm_group(MPI_COMM_WORLD, &group);
	MPI_Comm_dup(MPI_COMM_WORLD, &comms[count++]);
	MPI_Comm_dup_with_info(comms[0], MPI_INFO_NULL, &comms[count++]);
	MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &comms[count++]);
	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, -rank, MPI_INFO_NULL,
			    &comms[count++]);
	MPI_Comm_create(MPI_COMM_WORLD, group, &comms[count++]);
	MPI_Comm_create_group(MPI_COMM_WORLD, group, 5, &alone);
	MPI_Cart_create(MPI_COMM_WORLD, 1, dims, no, 0, &cart);
	MPI_Cart_sub(cart, yes, &comms[count++]);
	MPI_Graph_create(MPI_COMM_WORLD, run->ranks, index, edges, 0, &comms[count++]);
	MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &last, &weight, 1, &next, &weight,
				       MPI_INFO_NULL, 0, &comms[count++]);
	for (int i = 0; i < count; i++) {
		for (int k = 0; k < 5; k++)
			FT_TRY(one_call(run, (size_t) (4 * i + k), comms[i], &kinds[0],
					20000 * run->ranks, "a communicator", true));
		MPI_Comm_free(&comms[i]);
	}
	FT_TRY(one_call(run, 0, alone, &kinds[0], 20000 * run->ranks, "of a group", false));
	MPI_Comm_free(&alone);
	MPI_Comm_free(&cart);
	MPI_Group_free(&group);
	return 0;
}

static int copied;

static int copy(MPI_Comm comm, int key, void *extra, void *value, void *copy_of, int *flag)
{
	(void) comm;
	(void) key;
	(void) extra;
	*(void **) copy_of = value;
	*flag = 1;
	copied++;
	return MPI_SUCCESS;
}

/* The application sees its own communicators only, and may have many. */
static int comms_hidden(struct mpi_run *run, const struct kind *kinds)
{
	struct trial trial = {&calls[0], &kinds[0], "many communicators", true, 0};
	MPI_Comm comms[COMMS];
	struct work w;
	int key;

	MPI_Comm_create_keyval(copy, MPI_COMM_NULL_DELETE_FN, &key, NULL);
	MPI_Comm_set_attr(MPI_COMM_WORLD, key, NULL);
	for (int round = 0; round < 2; round++) {
		copied = 0;
		for (int i = 0; i < COMMS; i++)
			MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
		FT_CHECK(copied == COMMS, "an attribute was copied %d times", copied);
		for (int i = 0; i < COMMS; i += COMMS - 1) {
			work_init(&w, comms[i], &kinds[0], 20000 * run->ranks);
			trial.expected = i == 0;
			FT_TRY(twice(run, &trial, &w, 0));
		}
		for (int i = 0; i < COMMS; i++)
			MPI_Comm_free(&comms[i]);
	}
	MPI_Comm_delete_attr(MPI_COMM_WORLD, key);
	MPI_Comm_free_keyval(&key);
	return 0;
}

static int run_all(struct mpi_run *run)
{
	struct kind kinds[KINDS];

	make_kinds(kinds);
	if (run->kinds > 1)
		mpi_sent_watch(run->pool[1].buf.addr, POOL);
	FT_TRY(sizes(run, kinds));
	FT_TRY(added_by_each(run, kinds));
	FT_TRY(all_operations(run, kinds));
	FT_TRY(not_exchanged(run, kinds));
	FT_TRY(comms_made(run, kinds));
	FT_TRY(comms_hidden(run, kinds));
	return rounds(run, kinds);
}

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "collective calls from GPU to GPU, with libp2p-mpi",
		.ranks = 1,
		.pool = POOL,
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
