/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_bench: what collective calls take. On GPU buffers; on host memory; and as programs do it where MPI knows nothing
 * of GPUs: copied to pinned memory, called there, copied back. All three take turns in one run. What comes out is compared
 * first. contrib/bench-mpi runs it.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ft_test.h"
#include "mpi_test.h"

/* How long a turn takes, about, in us; and how many calls it has, at most */
#define TURN 1e5
#define CALLS 200
#define ROUNDS 5
#define ROUNDS_MOST 100

enum way { GPU, HOST, BY_HAND, WAYS };

/**
 * struct bench - what a rank works on.
 * @in, @out:	memory of the GPU, and twice of the host: the second one is pinned
 * @part:	numbers of each rank
 */
struct bench {
	const struct ft_mem_ops *gpu;
	float *in[WAYS], *out[WAYS];
	int rank, ranks, part;
	size_t size;
};

/* ---- the calls ---- */

/* @gives, @gets: numbers that a rank copies to the host and back, if it does so itself */
struct operation {
	const char *name;
	void (*run)(const struct bench *b, const float *in, float *out);
	int (*gives)(const struct bench *b), (*gets)(const struct bench *b);
};

static int all(const struct bench *b)
{
	return b->part * b->ranks;
}

static int own(const struct bench *b)
{
	return b->part;
}

static void allreduce(const struct bench *b, const float *in, float *out)
{
	MPI_Allreduce(in, out, all(b), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void allgather(const struct bench *b, const float *in, float *out)
{
	MPI_Allgather(in, b->part, MPI_FLOAT, out, b->part, MPI_FLOAT, MPI_COMM_WORLD);
}

static void alltoall(const struct bench *b, const float *in, float *out)
{
	MPI_Alltoall(in, b->part, MPI_FLOAT, out, b->part, MPI_FLOAT, MPI_COMM_WORLD);
}

static void reduce_scatter(const struct bench *b, const float *in, float *out)
{
	MPI_Reduce_scatter_block(in, out, b->part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void bcast(const struct bench *b, const float *in, float *out)
{
	(void) in;
	MPI_Bcast(out, all(b), MPI_FLOAT, 0, MPI_COMM_WORLD);
}

static int none(const struct bench *b)
{
	(void) b;
	return 0;
}

static const struct operation operations[] = {
	{"allreduce", allreduce, all, all},
	{"allgather", allgather, own, all},
	{"alltoall", alltoall, all, all},
	{"bcast", bcast, none, all},
	{"reduce_scatter", reduce_scatter, all, own},
};

/* ---- one call, each way ---- */

static int call(const struct bench *b, const struct operation *of, enum way way)
{
	const size_t gives = (size_t) of->gives(b) * sizeof(float);
	const size_t gets = (size_t) of->gets(b) * sizeof(float);

	if (way == BY_HAND && gives)
		FT_TRY(b->gpu->from(b->in[way], b->in[GPU], gives));
	/* what the root of a broadcast sends is where others receive */
	if (way == BY_HAND && of->run == bcast && b->rank == 0)
		FT_TRY(b->gpu->from(b->out[way], b->out[GPU], gets));
	of->run(b, b->in[way], b->out[way]);
	if (way == BY_HAND && (of->run != bcast || b->rank != 0))
		FT_TRY(b->gpu->to(b->out[GPU], b->out[way], gets));
	return 0;
}

/* What a call takes, in us: that of the slowest rank */
static int turn(const struct bench *b, const struct operation *of, enum way way, int calls,
		double *usec)
{
	double start, took;

	MPI_Barrier(MPI_COMM_WORLD);
	start = MPI_Wtime();
	for (int i = 0; i < calls; i++)
		FT_TRY(call(b, of, way));
	took = (MPI_Wtime() - start) / calls * 1e6;
	MPI_Allreduce(&took, usec, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	return 0;
}

/* All ways come to the same, which also warms them up. */
static int compare(const struct bench *b, const struct operation *of)
{
	const size_t len = (size_t) all(b) * sizeof(float);
	const size_t gets = (size_t) of->gets(b) * sizeof(float);

	for (int i = 0; i < all(b); i++)
		b->in[HOST][i] = b->out[HOST][i] = (float) ((i + b->rank) % 100);
	FT_TRY(b->gpu->to(b->in[GPU], b->in[HOST], len));
	FT_TRY(b->gpu->to(b->out[GPU], b->out[HOST], len));
	FT_TRY(call(b, of, HOST));
	for (int way = GPU; way != WAYS; way = way == GPU ? BY_HAND : WAYS) {
		FT_TRY(call(b, of, (enum way) way));
		FT_TRY(b->gpu->from(b->out[BY_HAND], b->out[GPU], gets));
		FT_CHECK(!memcmp(b->out[HOST], b->out[BY_HAND], gets),
			 "%s of %zu bytes: a result is wrong", of->name, b->size);
	}
	return 0;
}

/* ---- the table ---- */

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *) a, y = *(const double *) b;

	return (x > y) - (x < y);
}

static int row(const struct bench *b, const struct operation *of, int rounds)
{
	double usec[WAYS][ROUNDS_MOST], median[WAYS];
	int calls[WAYS];

	FT_TRY(compare(b, of));
	for (int way = 0; way < WAYS; way++) {
		FT_TRY(turn(b, of, (enum way) way, 1, &usec[way][0]));
		calls[way] = (int) FT_MAX(1, FT_MIN(CALLS, TURN / usec[way][0]));
	}
	for (int i = 0; i < rounds; i++) {
		for (int way = 0; way < WAYS; way++)
			FT_TRY(turn(b, of, (enum way) way, calls[way], &usec[way][i]));
	}
	for (int way = 0; way < WAYS; way++) {
		qsort(usec[way], (size_t) rounds, sizeof usec[way][0], by_value);
		median[way] = usec[way][rounds / 2];
	}
	if (b->rank == 0)
		printf("%-14s %10zu %12.1f %12.1f %12.1f %8.2f %8.2f\n", of->name, b->size,
		       median[GPU], median[HOST], median[BY_HAND], median[HOST] / median[GPU],
		       median[BY_HAND] / median[GPU]);
	fflush(stdout);
	return 0;
}

static const size_t sizes[] = {8,       1024,    8192,     65536,    262144,
			       1048576, 4194304, 16777216, 67108864, 268435456};

/* Copies from and to memory that is not pinned are slower, and right */
static void pin(void *memory, size_t len)
{
	void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	int (*reg)(void *, size_t, unsigned) = NULL;

	if (lib)
		*(void **) &reg = dlsym(lib, "cuMemHostRegister_v2");
	if (!reg || reg(memory, len, 0))
		ft_err("host memory is not pinned");
}

static int memory(struct bench *b, size_t longest)
{
	const size_t len = longest + (size_t) b->ranks * sizeof(float);
	void *addr;

	for (int way = 0; way < WAYS; way++) {
		for (int i = 0; i < 2; i++) {
			if (way == GPU) {
				FT_TRY(b->gpu->alloc(len, &addr));
			} else {
				FT_CHECK(!posix_memalign(&addr, 4096, len), "no memory");
				memset(addr, 0, len);
			}
			if (way == BY_HAND)
				pin(addr, len);
			*(i ? &b->out[way] : &b->in[way]) = addr;
		}
	}
	return 0;
}

static int run(const struct ft_opts *opts)
{
	const size_t *list = opts->sizes ? opts->sizes : sizes;
	const size_t count = opts->sizes ? opts->size_count : FT_COUNT(sizes);
	const int rounds = opts->rounds ? (int) FT_MIN(opts->rounds, ROUNDS_MOST) : ROUNDS;
	struct bench b = {.gpu = ft_mem_ops(opts->iface)};
	const char *local = getenv("OMPI_COMM_WORLD_LOCAL_RANK");
	int devices = 1;
	size_t longest = 0;

	MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &b.ranks);
	ft_prefix_set(opts->argv[0], b.rank);
	if (opts->iface == FI_HMEM_SYSTEM)
		return b.rank ? FT_SKIP : ft_skip("it wants a GPU: -D cuda");
	if (opts->iface == FI_HMEM_CUDA)
		FT_TRY(ft_cuda_devices(&devices));
	FT_TRY(b.gpu->init((opts->device + (local ? atoi(local) : b.rank)) % devices));
	for (size_t i = 0; i < count; i++)
		longest = FT_MAX(longest, list[i]);
	FT_TRY(memory(&b, longest));
	if (b.rank == 0)
		printf("# %d ranks; us a call: median of %d turns, slowest rank\n"
		       "# %-12s %10s %12s %12s %12s %8s %8s\n",
		       b.ranks, rounds, "operation", "bytes", "GPU", "host", "by hand",
		       "host/GPU", "hand/GPU");
	for (size_t i = 0; i < FT_COUNT(operations) * count; i++) {
		b.size = FT_MAX(list[i % count], sizeof(float));
		b.part = FT_MAX(1, (int) (b.size / sizeof(float)) / b.ranks);
		alarm((unsigned) opts->timeout);
		FT_TRY(row(&b, &operations[i / count], rounds));
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct ft_opts opts;
	int ret;

	ft_options_parse(&opts, FT_SCOPE_MPI | FT_SCOPE_SIZES | FT_SCOPE_ROUNDS,
			 "what collective calls take", argc, argv);
	MPI_Init(&argc, &argv);
	ret = run(&opts);
	if (ret && ret != FT_SKIP)
		MPI_Abort(MPI_COMM_WORLD, 1);
	MPI_Finalize();
	return ret;
}
