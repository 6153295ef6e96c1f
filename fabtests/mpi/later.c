/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_later: requests and datatypes that go through host memory, and what MPI says of errors. Each rank sends to
 * itself: numbers from the host, which are received with gaps in each kind of memory.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>

#include "mpi_test.h"

#define NUMBERS 64
/* Each number has a gap behind it */
#define BYTES (2 * NUMBERS * sizeof(int))
#define GAP 0x5a5a5a5a
#define THREADS 6
#define ROUNDS 1000

/**
 * struct place - where a thread receives.
 * @addr:	BYTES of a kind of memory
 * @type:	of all numbers there
 */
struct place {
	const struct ft_buf *buf;
	char *addr;
	MPI_Datatype type;
	int tag;
};

/* Fills it with gaps. */
static int place_clear(const struct place *place)
{
	int numbers[2 * NUMBERS];

	for (int i = 0; i < 2 * NUMBERS; i++)
		numbers[i] = GAP;
	return place->buf->ops->to(place->addr, numbers, BYTES);
}

static int place_check(const struct place *place, int expected, const char *what)
{
	int numbers[2 * NUMBERS];

	FT_TRY(place->buf->ops->from(numbers, place->addr, BYTES));
	for (int i = 0; i < 2 * NUMBERS; i++)
		FT_CHECK(numbers[i] == (i % 2 ? GAP : expected), "%s: number %d is %x, not %x",
			 what, i, numbers[i], i % 2 ? GAP : expected);
	return 0;
}

static void place_expect(const struct place *place, MPI_Request *request)
{
	MPI_Irecv(place->addr, 1, place->type, 0, place->tag, MPI_COMM_SELF, request);
}

static void place_send(const struct place *place, int number)
{
	int numbers[NUMBERS];

	for (int i = 0; i < NUMBERS; i++)
		numbers[i] = number;
	MPI_Send(numbers, NUMBERS, MPI_INT, 0, place->tag, MPI_COMM_SELF);
}

/* ---- threads, one of which gets the handles that MPI has from another one's requests ---- */

static void *thread_main(void *arg)
{
	struct place place = *(struct place *) arg;
	MPI_Request requests[2];
	int plain;

	for (int i = 0; i < ROUNDS; i++, place.addr += BYTES) {
		place_expect(&place, &requests[0]);
		MPI_Irecv(&plain, 1, MPI_INT, 0, THREADS + place.tag, MPI_COMM_SELF,
			  &requests[1]);
		place_send(&place, i);
		MPI_Send(&i, 1, MPI_INT, 0, THREADS + place.tag, MPI_COMM_SELF);
		if (i % 2)
			MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
		MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
	}
	return NULL;
}

/* The threads have no context of the GPU's. */
static int threads(struct mpi_run *run, const struct place *first)
{
	struct place places[THREADS], place = *first;
	pthread_t ids[THREADS];

	if (run->threads < MPI_THREAD_MULTIPLE)
		return 0;
	for (int i = 0; i < THREADS * ROUNDS; i++, place.addr += BYTES)
		FT_TRY(place_clear(&place));
	for (int i = 0; i < THREADS; i++) {
		places[i] = *first;
		places[i].addr += (size_t) i * ROUNDS * BYTES;
		places[i].tag = i;
		pthread_create(&ids[i], NULL, thread_main, &places[i]);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(ids[i], NULL);
	place.addr = first->addr;
	for (int i = 0; i < THREADS * ROUNDS; i++, place.addr += BYTES)
		FT_TRY(place_check(&place, i % ROUNDS, "a thread's receive"));
	return 0;
}

/* ---- calls that MPI refuses leave requests as they are ---- */

static int refused(struct mpi_run *run, const struct place *place)
{
	MPI_Request request, wrong[2];
	int index = -1, ended = -1, ret;

	(void) run;
	FT_TRY(place_clear(place));
	place_expect(place, &request);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	ret = MPI_Waitall(-1, &request, MPI_STATUSES_IGNORE);
	FT_CHECK(ret != MPI_SUCCESS, "MPI_Waitall of -1 requests: no error");
	ret = MPI_Waitall(2, NULL, MPI_STATUSES_IGNORE);
	FT_CHECK(ret != MPI_SUCCESS, "MPI_Waitall of no list: no error");
	wrong[0] = request;
	memset(&wrong[1], 0, sizeof wrong[1]);
	ret = MPI_Waitall(2, wrong, MPI_STATUSES_IGNORE);
	FT_CHECK(ret != MPI_SUCCESS, "MPI_Waitall of what is no request: no error");
	ret = MPI_Waitany(2, wrong, &index, MPI_STATUS_IGNORE);
	FT_CHECK(ret != MPI_SUCCESS, "MPI_Waitany of what is no request: no error");
	ret = MPI_Waitsome(2, wrong, &ended, &index, MPI_STATUSES_IGNORE);
	FT_CHECK(ret != MPI_SUCCESS, "MPI_Waitsome of what is no request: no error");
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
	place_send(place, 7);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	return place_check(place, 7, "a receive after calls with wrong arguments");
}

/* ---- nobody's messages: nothing is looked at ---- */

static int nobody(struct mpi_run *run, const struct place *place)
{
	const int none = MPI_PROC_NULL;
	char *end = place->buf->addr + place->buf->size - 8;

	(void) run;
	MPI_Send(end, 1, place->type, none, 1, MPI_COMM_SELF);
	MPI_Sendrecv(end, 1, place->type, none, 1, end, 1, place->type, none, 1, MPI_COMM_SELF,
		     MPI_STATUS_IGNORE);
	return 0;
}

/* ---- types that cannot be told by their parts ---- */

/* One element of @type arrives as in host memory, and leaves again. */
static int arrives(const struct place *place, MPI_Datatype type, const char *what)
{
	char sent[BYTES], expected[BYTES], found[BYTES], back[BYTES];

	for (size_t i = 0; i < BYTES; i++)
		sent[i] = (char) i;
	memset(expected, GAP & 0xff, BYTES);
	memset(back, GAP & 0xff, BYTES);
	MPI_Type_commit(&type);
	MPI_Sendrecv(sent, 1, type, 0, 1, expected, 1, type, 0, 1, MPI_COMM_SELF,
		     MPI_STATUS_IGNORE);
	FT_TRY(place_clear(place));
	MPI_Sendrecv(sent, 1, type, 0, 1, place->addr, 1, type, 0, 1, MPI_COMM_SELF,
		     MPI_STATUS_IGNORE);
	FT_TRY(place->buf->ops->from(found, place->addr, BYTES));
	MPI_Sendrecv(place->addr, 1, type, 0, 1, back, 1, type, 0, 1, MPI_COMM_SELF,
		     MPI_STATUS_IGNORE);
	MPI_Type_free(&type);
	FT_CHECK(!memcmp(found, expected, BYTES), "%s: received other bytes", what);
	FT_CHECK(!memcmp(back, expected, BYTES), "%s: sent other bytes", what);
	return 0;
}

/* Within another type, and not committed by itself */
static int darray(struct mpi_run *run, const struct place *place)
{
	const int sizes[2] = {8, 8}, args[2] = {2, MPI_DISTRIBUTE_DFLT_DARG}, grid[2] = {2, 1},
		  ways[2] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_BLOCK};
	MPI_Datatype part, type;

	(void) run;
	MPI_Type_create_darray(2, 0, 2, sizes, ways, args, grid, MPI_ORDER_C, MPI_INT, &part);
	MPI_Type_create_resized(part, 0, BYTES, &type);
	MPI_Type_free(&part);
	return arrives(place, type, "part of an array");
}

static int fortran(struct mpi_run *run, const struct place *place)
{
	MPI_Datatype part, type;

	(void) run;
	MPI_Type_create_f90_real(6, MPI_UNDEFINED, &part);
	MPI_Type_vector(NUMBERS / 2, 1, 3, part, &type);
	return arrives(place, type, "a type of Fortran's");
}

/* No gap, but Open MPI does not see that of parts that do not begin with their data, and packs it. */
static int shifted(struct mpi_run *run, const struct place *place)
{
	const int length = 2, at = 3;
	MPI_Datatype part, type;

	(void) run;
	MPI_Type_indexed(1, &length, &at, MPI_INT, &part);
	MPI_Type_contiguous(4, part, &type);
	MPI_Type_free(&part);
	return arrives(place, type, "parts that do not begin with their data");
}

/* Parts of the host's and of the GPU's memory, with less room for addresses than there are between them */
static int apart(struct mpi_run *run, const struct place *place)
{
	static int host[NUMBERS];
	const int lengths[3] = {NUMBERS, NUMBERS, 1};
	int sent[2 * NUMBERS + 1], back[2 * NUMBERS + 1] = {0}, last = 0;
	MPI_Aint at[3];
	MPI_Datatype type;
	struct rlimit all, few;

	(void) run;
	for (int i = 0; i <= 2 * NUMBERS; i++)
		sent[i] = i;
	MPI_Get_address(host, &at[0]);
	MPI_Get_address(place->addr, &at[1]);
	MPI_Get_address(&last, &at[2]);
	MPI_Type_create_hindexed(3, lengths, at, MPI_INT, &type);
	MPI_Type_commit(&type);
	FT_CHECK(!getrlimit(RLIMIT_AS, &all), "no limit");
	few = all;
	few.rlim_cur = (rlim_t) 1 << 40;
	FT_CHECK(!setrlimit(RLIMIT_AS, &few), "no limit");
	MPI_Sendrecv(sent, 2 * NUMBERS + 1, MPI_INT, 0, 1, MPI_BOTTOM, 1, type, 0, 1,
		     MPI_COMM_SELF, MPI_STATUS_IGNORE);
	MPI_Sendrecv(MPI_BOTTOM, 1, type, 0, 1, back, 2 * NUMBERS + 1, MPI_INT, 0, 1,
		     MPI_COMM_SELF, MPI_STATUS_IGNORE);
	setrlimit(RLIMIT_AS, &all);
	MPI_Type_free(&type);
	FT_CHECK(!memcmp(sent, back, sizeof sent), "other numbers came back");
	FT_CHECK(!memcmp(sent, host, sizeof host), "other numbers in host memory");
	return 0;
}

/* ---- programs that ask ---- */

static int answers(struct mpi_run *run, const struct place *place)
{
	const char *const names[] = {"MPIX_Query_cuda_support", "MPIX_Query_rocm_support",
				     "MPIX_Query_hip_support"};

	(void) place;
	for (size_t i = 0; i < FT_COUNT(names); i++) {
		int (*asked)(void);

		*(void **) &asked = dlsym(RTLD_DEFAULT, names[i]);
		FT_CHECK(run->kinds == 1 || (asked && asked() == 1), "%s says no", names[i]);
	}
	return 0;
}

/* ---- the test ---- */

static const struct {
	const char *name;
	int (*run)(struct mpi_run *run, const struct place *place);
} tests[] = {
	{"threads", threads},
	{"refused calls", refused},
	{"nobody's messages", nobody},
	{"part of an array", darray},
	{"types of Fortran's", fortran},
	{"shifted parts", shifted},
	{"parts far apart", apart},
	{"answers", answers},
};

static int run_all(struct mpi_run *run)
{
	struct place place = {.tag = 1};

	MPI_Type_vector(NUMBERS, 1, 2, MPI_INT, &place.type);
	MPI_Type_commit(&place.type);
	for (size_t i = 0; i < FT_COUNT(tests) * run->kinds; i++) {
		place.buf = &run->pool[i % run->kinds].buf;
		place.addr = place.buf->addr;
		mpi_stage(run, "%s, memory %zu", tests[i / run->kinds].name, i % run->kinds);
		FT_TRY(tests[i / run->kinds].run(run, &place));
	}
	MPI_Type_free(&place.type);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "requests, datatypes and errors, with libp2p-mpi",
		.ranks = 1,
		.threads = MPI_THREAD_MULTIPLE,
		.pool = THREADS * ROUNDS * BYTES,
		.wants = {"Open MPI v4."},
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
