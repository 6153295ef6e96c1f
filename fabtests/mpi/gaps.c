/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_gaps: datatypes of thousands of blocks, from the GPU's memory and to it. What comes is what comes between host
 * buffers, what lies in the gaps stays, and on the emulator few copies do it, if it has kernels that begin. It wants
 * libp2p-mpi.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mpi_test.h"

#define ROOM (48ul << 20)
#define TAG 5
/* Copies and kernels that a message may take */
#define FEW 64
#define ROUNDS 20

/* ---- types: each is of less than ROOM bytes, from the first byte of a buffer on ---- */

static MPI_Datatype vector(void)
{
	MPI_Datatype type;

	MPI_Type_vector(10000, 3, 8, MPI_INT, &type);
	return type;
}

/* Not all of it is copied, as it is long */
static MPI_Datatype far_apart(void)
{
	MPI_Datatype type;

	MPI_Type_create_hvector(40, 5, 1 << 20, MPI_CHAR, &type);
	return type;
}

static MPI_Datatype vectors(void)
{
	MPI_Datatype row, type;

	MPI_Type_vector(500, 1, 3, MPI_SHORT, &row);
	MPI_Type_create_hvector(20, 1, 20000, row, &type);
	MPI_Type_free(&row);
	return type;
}

/* One number of each row of an array */
static MPI_Datatype column(void)
{
	MPI_Datatype type;

	MPI_Type_create_resized(MPI_INT, 0, 404, &type);
	return type;
}

static MPI_Datatype block(int order)
{
	const int sizes[] = {40, 50, 60}, parts[] = {20, 30, 40}, starts[] = {1, 2, 3};
	MPI_Datatype type;

	MPI_Type_create_subarray(3, sizes, parts, starts, order, MPI_INT, &type);
	return type;
}

static MPI_Datatype block_c(void)
{
	return block(MPI_ORDER_C);
}

static MPI_Datatype block_fortran(void)
{
	return block(MPI_ORDER_FORTRAN);
}

/* The last block comes first */
static MPI_Datatype backwards(void)
{
	const int length = 1;
	const MPI_Aint first = 16 * 39;
	MPI_Datatype down, type;

	MPI_Type_create_hvector(40, 2, -16, MPI_INT, &down);
	MPI_Type_create_hindexed(1, &length, &first, down, &type);
	MPI_Type_free(&down);
	return type;
}

/* No two blocks are alike: @most bytes, and as long a gap, at most */
static MPI_Datatype any(int count, int most, int gap)
{
	int *lengths = calloc((size_t) count, sizeof(int)),
	    *at = calloc((size_t) count, sizeof(int));
	uint64_t random = 77;
	MPI_Datatype type;

	if (!lengths || !at)
		abort();
	for (int i = 0; i < count; i++) {
		lengths[i] = (int) (ft_random(&random) % (uint64_t) (most + 1));
		at[i] = (i ? at[i - 1] + lengths[i - 1] : 0) +
			(int) (ft_random(&random) % (uint64_t) gap);
	}
	MPI_Type_indexed(count, lengths, at, MPI_CHAR, &type);
	free(lengths);
	free(at);
	return type;
}

static MPI_Datatype short_blocks(void)
{
	return any(5000, 40, 50);
}

/* All that is between them had better not be copied */
static MPI_Datatype scattered(void)
{
	return any(5000, 9, 16000);
}

/* More than a kernel takes at once */
static MPI_Datatype long_blocks(void)
{
	return any(2000, 8000, 3000);
}

static MPI_Datatype structure(void)
{
	const int lengths[] = {1, 1, 3};
	const MPI_Aint at[] = {0, 8, 16};
	const MPI_Datatype types[] = {MPI_INT, MPI_DOUBLE, MPI_CHAR};
	MPI_Datatype parts, type;

	MPI_Type_create_struct(3, lengths, at, types, &parts);
	MPI_Type_create_resized(parts, 0, 24, &type);
	MPI_Type_free(&parts);
	return type;
}

static const struct {
	const char *name;
	MPI_Datatype (*make)(void);
	int count;
} cases[] = {
	{"a vector", vector, 1},
	{"a vector of another one", vectors, 1},
	{"seven vectors", vector, 7},
	{"a vector with long gaps", far_apart, 1},
	{"a column", column, 9000},
	{"a block of an array", block_c, 1},
	{"a block of Fortran's", block_fortran, 1},
	{"a vector backwards", backwards, 1},
	{"short blocks", short_blocks, 1},
	{"scattered blocks", scattered, 1},
	{"long blocks", long_blocks, 1},
	{"structures", structure, 3000},
};

/* ---- messages ---- */

/**
 * struct gaps - buffers of ROOM bytes
 * @sent, @old:	what is sent, and what is in a buffer before it receives
 * @expected:	what a host buffer has afterwards
 * @real:	it is a GPU, and tells how fast it is
 * @late:	kernels begin when the call that wanted them has returned
 */
struct gaps {
	const struct ft_mem_ops *mem;
	char *gpu, *sent, *old, *expected, *found;
	bool late, real;
};

static void message(const void *from, void *to, MPI_Datatype type, int count)
{
	MPI_Request request;

	MPI_Irecv(to, count, type, 0, TAG, MPI_COMM_SELF, &request);
	MPI_Send(from, count, type, 0, TAG, MPI_COMM_SELF);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static int calls(unsigned long *sum)
{
	static const char *const names[] = {"cuMemcpyAsync", "cuMemcpy2DAsync",
					    "cuLaunchKernel"};
	unsigned long number;

	*sum = 0;
	for (size_t i = 0; i < FT_COUNT(names); i++) {
		if (ft_cuda_calls(names[i], &number))
			return FT_SKIP;
		*sum += number;
	}
	return 0;
}

static int compare(const struct gaps *gaps, const char *name, const char *way)
{
	for (size_t i = 0; i < ROOM; i++)
		FT_CHECK(gaps->found[i] == gaps->expected[i],
			 "%s %s the GPU: at %zu is %#hhx, not %#hhx", name, way, i,
			 gaps->found[i], gaps->expected[i]);
	return 0;
}

/* A kernel that comes now does nothing */
static int quiet(struct gaps *gaps, const char *name)
{
	FT_TRY(gaps->mem->to(gaps->gpu, gaps->old, ROOM));
	sleep(1);
	FT_TRY(gaps->mem->from(gaps->found, gaps->gpu, ROOM));
	memcpy(gaps->expected, gaps->old, ROOM);
	return compare(gaps, name, "behind what is in");
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double) ts.tv_sec * 1e6 + (double) ts.tv_nsec * 1e-3;
}

static void how_fast(const struct gaps *gaps, const char *name, MPI_Datatype type, int count)
{
	double took[3];

	/* none, from, to */
	for (int way = 0; way < 3; way++) {
		const double begin = now();

		for (int i = 0; i < ROUNDS; i++)
			message(way & 1 ? gaps->gpu : gaps->sent,
				way & 2 ? gaps->gpu : gaps->found, type, count);
		took[way] = (now() - begin) / ROUNDS;
	}
	printf("%s: %.0f us between host buffers, from the GPU %.0f more, to it %.0f more\n",
	       name, took[0], took[1] - took[0], took[2] - took[0]);
}

static int try_one(struct gaps *gaps, size_t number, bool counts)
{
	const int count = cases[number].count;
	const char *name = cases[number].name;
	unsigned long before = 0, between = 0, after = 0;
	MPI_Datatype type = cases[number].make();

	MPI_Type_commit(&type);
	memcpy(gaps->expected, gaps->old, ROOM);
	message(gaps->sent, gaps->expected, type, count);

	FT_TRY(gaps->mem->to(gaps->gpu, gaps->sent, ROOM));
	memcpy(gaps->found, gaps->old, ROOM);
	if (counts)
		FT_TRY(calls(&before));
	message(gaps->gpu, gaps->found, type, count);
	if (counts)
		FT_TRY(calls(&between));
	FT_TRY(compare(gaps, name, "from"));

	FT_TRY(gaps->mem->to(gaps->gpu, gaps->old, ROOM));
	between -= before;
	if (counts)
		FT_TRY(calls(&before));
	message(gaps->sent, gaps->gpu, type, count);
	if (counts)
		FT_TRY(calls(&after));
	FT_TRY(gaps->mem->from(gaps->found, gaps->gpu, ROOM));
	FT_TRY(compare(gaps, name, "to"));
	after -= before;
	FT_CHECK(between <= FEW && after <= FEW,
		 "%s takes %lu copies from the GPU, and %lu to it", name, between, after);
	if (gaps->real)
		how_fast(gaps, name, type, count);
	MPI_Type_free(&type);
	return gaps->late ? quiet(gaps, name) : 0;
}

static int run_all(struct mpi_run *run)
{
	struct gaps gaps = {0};
	char **host[] = {&gaps.sent, &gaps.old, &gaps.expected, &gaps.found};
	unsigned long number;
	bool counts;

	if (run->kinds < 2)
		return 0;
	gaps.mem = run->pool[1].buf.ops;
	gaps.gpu = run->pool[1].buf.addr;
	gaps.late = getenv("CUDAEMU_KERNEL_LATENCY_MS");
	gaps.real = run->opts.iface == FI_HMEM_CUDA && calls(&number) == FT_SKIP;
	counts = run->opts.iface == FI_HMEM_CUDA && !gaps.real && !gaps.late &&
		 !getenv("CUDAEMU_FAIL");
	for (size_t i = 0; i < FT_COUNT(host); i++) {
		*host[i] = malloc(ROOM);
		FT_CHECK(*host[i], "no memory");
	}
	ft_pattern_fill((unsigned char *) gaps.sent, ROOM, run->opts.seed);
	ft_pattern_fill((unsigned char *) gaps.old, ROOM, run->opts.seed + 1);
	for (size_t i = 0; i < FT_COUNT(cases); i++) {
		mpi_stage(run, "%s", cases[i].name);
		FT_TRY(try_one(&gaps, i, counts));
	}
	for (size_t i = 0; i < FT_COUNT(host); i++)
		free(*host[i]);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "datatypes of many blocks",
		.ranks = 1,
		.pool = ROOM,
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
