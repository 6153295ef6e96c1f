/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_kernel: kernels of libp2p-mpi (mpi/kernel.h) do what MPI_Reduce_local does, to the bit, with all operations
 * and types. On a real GPU it also tells how fast a sum is. The library's sources are part of this program.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernel.h"
#include "mpi_test.h"
#include "base/conf.h"
#include "base/log.h"

/* Four blocks, each thread with four elements, and some left */
#define MOST 5000
#define ROOM (MOST * 8 + 64)
#define LONG_BYTES (64ul << 20)
#define ROUNDS 20

#define NAMED(of)                                                                              \
	{                                                                                      \
		of, #of                                                                        \
	}

static const struct {
	MPI_Datatype type;
	const char *name;
} types[] = {
	NAMED(MPI_CHAR),
	NAMED(MPI_SIGNED_CHAR),
	NAMED(MPI_UNSIGNED_CHAR),
	NAMED(MPI_WCHAR),
	NAMED(MPI_BYTE),
	NAMED(MPI_SHORT),
	NAMED(MPI_UNSIGNED_SHORT),
	NAMED(MPI_INT),
	NAMED(MPI_UNSIGNED),
	NAMED(MPI_LONG),
	NAMED(MPI_UNSIGNED_LONG),
	NAMED(MPI_LONG_LONG),
	NAMED(MPI_UNSIGNED_LONG_LONG),
	NAMED(MPI_INT8_T),
	NAMED(MPI_UINT8_T),
	NAMED(MPI_INT16_T),
	NAMED(MPI_UINT16_T),
	NAMED(MPI_INT32_T),
	NAMED(MPI_UINT32_T),
	NAMED(MPI_INT64_T),
	NAMED(MPI_UINT64_T),
	NAMED(MPI_AINT),
	NAMED(MPI_OFFSET),
	NAMED(MPI_COUNT),
	NAMED(MPI_FLOAT),
	NAMED(MPI_DOUBLE),
	NAMED(MPI_LONG_DOUBLE),
	NAMED(MPI_C_BOOL),
	NAMED(MPI_LOGICAL),
	NAMED(MPI_INTEGER),
	NAMED(MPI_INTEGER1),
	NAMED(MPI_INTEGER2),
	NAMED(MPI_INTEGER4),
	NAMED(MPI_INTEGER8),
	NAMED(MPI_REAL),
	NAMED(MPI_REAL4),
	NAMED(MPI_REAL8),
	NAMED(MPI_DOUBLE_PRECISION),
	NAMED(MPI_C_DOUBLE_COMPLEX),
	NAMED(MPI_FLOAT_INT),
};

static const struct {
	MPI_Op op;
	const char *name;
} ops[] = {
	NAMED(MPI_SUM),  NAMED(MPI_PROD), NAMED(MPI_MAX),    NAMED(MPI_MIN),
	NAMED(MPI_LAND), NAMED(MPI_LOR),  NAMED(MPI_LXOR),   NAMED(MPI_BAND),
	NAMED(MPI_BOR),  NAMED(MPI_BXOR), NAMED(MPI_MAXLOC), NAMED(MPI_REPLACE),
};

/* Those that the standard has no such operation for, but Open MPI */
static const float specials[] = {0.0f,        -0.0f,          1.0f,    -1.0f,    1e-45f,
				 -1e-45f,     3e38f,          -3e38f,  INFINITY, -INFINITY,
				 (float) NAN, 0x1.fffffep-1f, 1.5e-38f};

/**
 * struct work - one operation, with one type.
 * @size:	of an element; @real: it is a floating-point number
 * @gpu:	three buffers of ROOM bytes
 */
struct work {
	const struct ft_mem_ops *mem;
	MPI_Op op;
	MPI_Datatype type;
	char what[64];
	int size;
	bool real;
	char *gpu[3];
	unsigned char a[ROOM], b[ROOM], expected[ROOM], found[ROOM];
};

static bool is_real(MPI_Datatype type)
{
	return type == MPI_FLOAT || type == MPI_DOUBLE || type == MPI_REAL ||
	       type == MPI_REAL4 || type == MPI_REAL8 || type == MPI_DOUBLE_PRECISION;
}

static bool is_truth(MPI_Datatype type)
{
	return type == MPI_C_BOOL || type == MPI_LOGICAL;
}

static void number_put(const struct work *work, unsigned char *at, double value)
{
	const float narrow = (float) value;

	memcpy(at, work->size == 4 ? (const void *) &narrow : &value, (size_t) work->size);
}

/* Every pair of special numbers, then any */
static void numbers(struct mpi_run *run, struct work *work)
{
	const size_t pairs = FT_COUNT(specials) * FT_COUNT(specials);

	for (size_t i = 0; i < MOST; i++) {
		unsigned char *a = work->a + i * (size_t) work->size,
			      *b = work->b + i * (size_t) work->size;
		const uint64_t any = ft_random(&run->random), other = ft_random(&run->random);

		if (work->real && i < pairs) {
			number_put(work, a, specials[i % FT_COUNT(specials)]);
			number_put(work, b, specials[i / FT_COUNT(specials)]);
		} else if (work->real) {
			number_put(work, a, ldexp((double) (int64_t) any, -40));
			number_put(work, b, ldexp((double) (int64_t) other, -50));
		} else if (is_truth(work->type)) {
			memset(a, 0, (size_t) work->size);
			memset(b, 0, (size_t) work->size);
			*a = any & 1;
			*b = other & 1;
		} else {
			memcpy(a, &any, (size_t) work->size);
			memcpy(b, &other, (size_t) work->size);
			/* so that zeros and equal ones are among them */
			if (i % 16 == 0)
				memset(a, 0, (size_t) work->size);
			if (i % 24 == 0)
				memcpy(b, a, (size_t) work->size);
		}
	}
}

/* What is no number has no more to tell after a sum */
static bool same(const struct work *work, const unsigned char *x, const unsigned char *y)
{
	double p, q;
	float f, g;

	if (!memcmp(x, y, (size_t) work->size))
		return true;
	if (!work->real)
		return false;
	memcpy(&p, x, sizeof(p));
	memcpy(&q, y, sizeof(q));
	memcpy(&f, x, sizeof(f));
	memcpy(&g, y, sizeof(g));
	return (work->op == MPI_SUM || work->op == MPI_PROD) &&
	       (work->size == 4 ? isnan(f) && isnan(g) : isnan(p) && isnan(q));
}

/*
 * The result in the first buffer (or in either operand's own), @skip elements in. One element at a time is what the MPI
 * computes as C does: its vector instructions may take the other one of two zeros, or of what is no number.
 */
static int reduce(struct lane *lane, struct work *work, size_t count, size_t skip, int place)
{
	const size_t size = (size_t) work->size, off = skip * size, len = count * size;
	char *out = work->gpu[place] + off, *a = work->gpu[1] + off, *b = work->gpu[2] + off;
	const char *why = "";

	memset(work->expected, 0x5a, ROOM);
	if (place)
		memcpy(work->expected, place == 1 ? work->a : work->b, ROOM);
	FT_TRY(work->mem->to(work->gpu[0], work->expected, ROOM));
	FT_TRY(work->mem->to(work->gpu[1], work->a, ROOM));
	FT_TRY(work->mem->to(work->gpu[2], work->b, ROOM));
	for (size_t i = off; i < off + len; i += size) {
		memcpy(work->found, work->b + i, size);
		PMPI_Reduce_local(work->a + i, work->found, 1, work->type, work->op);
		memcpy(work->expected + i, work->found, size);
	}
	FT_CHECK(!kernel_reduce(lane, work->op, work->type, out, a, b, count, &why),
		 "%s, %zu elements: %s", work->what, count, why);
	FT_CHECK(!lane_close(lane, MPI_SUCCESS, &why), "%s: %s", work->what, why);
	FT_TRY(work->mem->from(work->found, work->gpu[place], ROOM));
	for (size_t i = 0; i + size <= ROOM; i += size)
		FT_CHECK(same(work, work->found + i, work->expected + i),
			 "%s, %zu elements: at %zu is %#llx, not %#llx", work->what, count,
			 i / size, *(unsigned long long *) (work->found + i),
			 *(unsigned long long *) (work->expected + i));
	return 0;
}

static int lane_of(const struct work *work, struct lane **lane)
{
	const char *why = "";
	struct dev_mem mem;

	FT_CHECK(dev_find(work->gpu[0], &mem) > 0, "no memory of a GPU's");
	FT_CHECK(!lane_open(&mem, lane, &why), "%s", why);
	return 0;
}

/* One that does not begin is in nobody's way. */
static int begins(struct work *work, bool expected)
{
	struct lane *lane;
	struct dev_mem mem;
	const char *why;
	char word[64] = "a word";

	FT_CHECK(dev_find(work->gpu[0], &mem) > 0, "no memory of a GPU's");
	for (int i = 0; i < 3; i++) {
		FT_CHECK(kernel_begins(&mem) == expected, "a kernel %s",
			 expected ? "does not begin" : "begins");
		FT_TRY(lane_of(work, &lane));
		FT_CHECK(!lane_copy(lane, work->gpu[0], word, sizeof(word), true, &why) &&
				 !lane_close(lane, MPI_SUCCESS, &why),
			 "%s", why);
		FT_TRY(work->mem->from(work->found, work->gpu[0], sizeof(word)));
		FT_CHECK(!memcmp(work->found, word, sizeof(word)), "a copy has not come");
		/* in the second round the first one's kernel has ended */
		if (!expected && !i)
			sleep(1);
	}
	return 0;
}

static int no_kernel(struct work *work)
{
	const char *why = NULL;
	struct lane *lane;

	FT_TRY(lane_of(work, &lane));
	FT_CHECK(kernel_reduce(lane, MPI_SUM, MPI_INT, work->gpu[0], work->gpu[1], work->gpu[2],
			       1, &why) != MPI_SUCCESS &&
			 why,
		 "a kernel on a GPU that has none");
	FT_CHECK(!lane_close(lane, MPI_SUCCESS, &why), "%s", why);
	return 0;
}

/* Nothing begins: the host does it. */
static int refuses(struct work *work)
{
	char *const *gpu = work->gpu;
	const char *why = NULL;
	struct lane *lane;
	static char host[64];
	int ret = MPI_ERR_OTHER;

	FT_TRY(lane_of(work, &lane));
	if (work->size > 1)
		ret = kernel_reduce(lane, work->op, work->type, gpu[0] + 1, gpu[1], gpu[2], 1,
				    &why);
	if (ret != MPI_SUCCESS)
		ret = kernel_reduce(lane, work->op, work->type, host, gpu[1], gpu[2], 1, &why);
	if (ret != MPI_SUCCESS)
		ret = kernel_reduce(lane, work->op, work->type, gpu[0], gpu[1], gpu[2],
				    LONG_BYTES, &why);
	FT_CHECK(ret != MPI_SUCCESS && why, "%s takes what is no buffer of its kind",
		 work->what);
	FT_CHECK(!lane_close(lane, MPI_SUCCESS, &why), "%s", why);
	return 0;
}

static int try_one(struct mpi_run *run, struct work *work)
{
	static const size_t counts[] = {0, 1, 3, 255, 1025, MOST};
	struct lane *lane;

	FT_CHECK(!PMPI_Reduce_local(work->a, work->b, 1, work->type, work->op),
		 "%s is no operation of MPI's", work->what);
	work->real = is_real(work->type);
	numbers(run, work);
	for (size_t i = 0; i < FT_COUNT(counts); i++) {
		FT_TRY(lane_of(work, &lane));
		FT_TRY(reduce(lane, work, counts[i], counts[i] < MOST ? i : 0, (int) i % 3));
	}
	return refuses(work);
}

/* Three times the bytes go through the GPU's memory */
static int how_fast(struct work *work)
{
	char *gpu[3];
	struct timespec begin, end;
	const char *why = "";
	struct lane *lane;
	double seconds;

	for (int i = 0; i < 3; i++)
		FT_TRY(work->mem->alloc(LONG_BYTES, (void **) &gpu[i]));
	for (int round = 0; round < 2; round++) {
		FT_TRY(lane_of(work, &lane));
		clock_gettime(CLOCK_MONOTONIC, &begin);
		for (int i = 0; i < ROUNDS; i++)
			FT_CHECK(!kernel_reduce(lane, MPI_SUM, MPI_FLOAT, gpu[0], gpu[1],
						gpu[2], LONG_BYTES / 4, &why),
				 "%s", why);
		FT_CHECK(!lane_close(lane, MPI_SUCCESS, &why), "%s", why);
		clock_gettime(CLOCK_MONOTONIC, &end);
	}
	seconds = (double) (end.tv_sec - begin.tv_sec) +
		  (double) (end.tv_nsec - begin.tv_nsec) * 1e-9;
	printf("MPI_SUM of 64 MiB of MPI_FLOAT: %.1f us, %.0f GB/s\n", seconds / ROUNDS * 1e6,
	       3.0 * LONG_BYTES * ROUNDS / seconds * 1e-9);
	for (int i = 0; i < 3; i++)
		work->mem->release(gpu[i]);
	return 0;
}

static int run_all(struct mpi_run *run)
{
	static struct work work;
	const bool late = getenv("CUDAEMU_KERNEL_LATENCY_MS");
	unsigned long calls;
	int tried = 0;

	FT_CHECK(!kernel_reduces(MPI_OP_NULL, MPI_INT) &&
			 !kernel_reduces(MPI_SUM, MPI_DATATYPE_NULL),
		 "a kernel for nothing");
	if (run->kinds < 2)
		return 0;
	dev_init();
	work.mem = run->pool[1].buf.ops;
	for (int i = 0; i < 3; i++)
		work.gpu[i] = run->pool[1].buf.addr + i * ROOM;
	FT_TRY(begins(&work, run->opts.iface == FI_HMEM_CUDA && !late));
	if (run->opts.iface != FI_HMEM_CUDA)
		return no_kernel(&work);
	if (late)
		return 0;
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	for (size_t i = 0; i < FT_COUNT(types); i++) {
		work.type = types[i].type;
		/* an MPI without Fortran has none of its types */
		if (MPI_Type_size(work.type, &work.size) != MPI_SUCCESS)
			continue;
		for (size_t k = 0; k < FT_COUNT(ops); k++) {
			work.op = ops[k].op;
			snprintf(work.what, sizeof(work.what), "%s of %s", ops[k].name,
				 types[i].name);
			if (!kernel_reduces(work.op, work.type))
				continue;
			mpi_stage(run, "%s", work.what);
			FT_TRY(try_one(run, &work));
			tried++;
		}
	}
	FT_CHECK(tried >= 200, "%d operations and types have kernels", tried);
	return ft_cuda_calls("cuLaunchKernel", &calls) == FT_SKIP ? how_fast(&work) : 0;
}

int main(int argc, char **argv)
{
	static struct fi_provider log = {.name = "p2p_mpi"};
	static const struct mpi_test test = {
		.purpose = "reductions by kernels",
		.ranks = 1,
		.pool = 3 * ROOM,
		.run = run_all,
	};

	log_prov = &log;
	conf_read();
	return mpi_test_main(&test, argc, argv);
}
