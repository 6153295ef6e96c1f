/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_rma: windows on the device's memory, of all ranks or some: all one-sided calls, all ways to synchronise.
 * Every rank keeps in host memory what all windows should have, and compares each byte, gaps and guards included.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpi_test.h"

#define ROUNDS 24
/* Of a rank's window: each origin has its own part of that many bytes, between guards */
#define PART (1200 * 1024 + 40)
#define GUARD 72
/* Ranks, at most */
#define RANKS 4
#define AREA (GUARD + RANKS * PART + GUARD)
#define ADDS 200

/**
 * struct side - what a rank knows.
 * @kind:	of memory: of each rank's window
 * @expected:	what is in a rank's window, with guards
 * @origin, @result: a buffer of each kind, as long as a part, and
 * @origins, @results: what is in those of each rank
 */
struct side {
	struct mpi_run *run;
	MPI_Win win;
	size_t kind[RANKS];
	char *window, *expected[RANKS];
	char *origin[MPI_TEST_KINDS], *origins[RANKS];
	char *result[MPI_TEST_KINDS], *results[RANKS];
	char *scratch;
};

/* ---- memory ---- */

static const struct ft_mem_ops *ops_of(const struct side *side, size_t kind)
{
	return side->run->pool[kind].buf.ops;
}

static void fill(struct side *side, char *image, size_t len)
{
	/* small numbers, so that sums of any type are exact */
	for (size_t i = 0; i < len; i += 8) {
		const uint64_t number = ft_random(&side->run->random);

		memcpy(image + i, &number, len - i < 8 ? len - i : 8);
	}
}

static int compare(struct side *side, size_t kind, const char *memory, const char *image,
		   size_t len, const char *what)
{
	FT_TRY(ops_of(side, kind)->from(side->scratch, memory, len));
	for (size_t i = 0; i < len; i++)
		FT_CHECK(side->scratch[i] == image[i], "%s: byte %zu of %zu is %d, not %d",
			 what, i, len, side->scratch[i], image[i]);
	return 0;
}

static int check_window(struct side *side)
{
	const int rank = side->run->rank;

	return compare(side, side->kind[rank], side->window - GUARD, side->expected[rank], AREA,
		       "the window");
}

/* Where an origin's part of a rank's window is, in what is expected */
static char *part_of(const struct side *side, int rank, int origin)
{
	return side->expected[rank] + GUARD + (size_t) origin * PART;
}

/* @some: odd ranks have host memory. @unit: of displacements */
static int begin(struct side *side, bool some, int unit)
{
	struct mpi_run *run = side->run;

	mpi_stage(run, "a window, %s", some ? "of some ranks' device memory" : "of all");
	for (int i = 0; i < run->ranks; i++) {
		side->kind[i] = some && i % 2 ? 0 : run->kinds - 1;
		fill(side, side->expected[i], AREA);
		fill(side, side->origins[i], PART);
		fill(side, side->results[i], PART);
	}
	for (size_t i = 0; i < run->kinds; i++) {
		side->origin[i] = run->pool[i].buf.addr + AREA + 64;
		side->result[i] = side->origin[i] + PART + 1;
		FT_TRY(ops_of(side, i)->to(side->origin[i], side->origins[run->rank], PART));
		FT_TRY(ops_of(side, i)->to(side->result[i], side->results[run->rank], PART));
	}
	side->window = run->pool[side->kind[run->rank]].buf.addr + GUARD + 8;
	FT_TRY(ops_of(side, side->kind[run->rank])
		       ->to(side->window - GUARD, side->expected[run->rank], AREA));
	MPI_Win_create(side->window, (MPI_Aint) RANKS * PART, unit, MPI_INFO_NULL,
		       MPI_COMM_WORLD, &side->win);
	return 0;
}

static int end(struct side *side)
{
	FT_TRY(check_window(side));
	MPI_Win_free(&side->win);
	return check_window(side);
}

/* ---- ways to synchronise ---- */

enum way { WAY_FENCE, WAY_LOCK, WAY_SHARED, WAY_FLUSH, WAY_GROUP, WAYS };

static const char *const way_names[] = {"fences", "locks", "shared locks", "flushes", "groups"};

/* All ranks but oneself, or oneself if there is none */
static MPI_Group others(const struct side *side)
{
	MPI_Group all, group;
	int mine = side->run->rank;

	MPI_Win_get_group(side->win, &all);
	if (side->run->ranks == 1)
		return all;
	MPI_Group_excl(all, 1, &mine, &group);
	MPI_Group_free(&all);
	return group;
}

static void enter(const struct side *side, enum way way, int target)
{
	MPI_Group group;

	if (way == WAY_FENCE)
		MPI_Win_fence(MPI_MODE_NOPRECEDE, side->win);
	if (way == WAY_LOCK || way == WAY_SHARED)
		MPI_Win_lock(way == WAY_LOCK ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, target, 0,
			     side->win);
	if (way == WAY_FLUSH)
		MPI_Win_lock_all(0, side->win);
	if (way != WAY_GROUP)
		return;
	group = others(side);
	MPI_Win_post(group, 0, side->win);
	MPI_Win_start(group, 0, side->win);
	MPI_Group_free(&group);
}

static void leave(const struct side *side, enum way way, int target)
{
	int done = 0;

	if (way == WAY_FENCE)
		MPI_Win_fence(MPI_MODE_NOSUCCEED, side->win);
	if (way == WAY_LOCK || way == WAY_SHARED)
		MPI_Win_unlock(target, side->win);
	if (way == WAY_FLUSH) {
		MPI_Win_flush_local(target, side->win);
		MPI_Win_flush(target, side->win);
		MPI_Win_sync(side->win);
		MPI_Win_unlock_all(side->win);
	}
	if (way == WAY_GROUP) {
		MPI_Win_complete(side->win);
		while (side->run->rank % 2 && !done)
			MPI_Win_test(side->win, &done);
		if (!done)
			MPI_Win_wait(side->win);
	}
	MPI_Barrier(MPI_COMM_WORLD);
}

/* ---- put, get and accumulations of any datatype ---- */

/* A type of @base, whose elements have @extent bytes, and how many of it fit a part */
struct shape {
	MPI_Datatype type;
	int count;
	MPI_Aint bytes;
};

/* @elements: how many of @base there are to be, whatever the type */
static struct shape shape_make(struct mpi_run *run, MPI_Datatype base, int elements)
{
	struct shape shape = {.type = base, .count = elements};
	const size_t which = elements > 100000 ? 0 : mpi_random(run, 4);
	int displs[] = {5, 0, 9}, size;

	if (which == 1) {
		MPI_Type_vector(elements, 1, 3, base, &shape.type);
		shape.count = 1;
	} else if (which == 2 && elements % 6 == 0) {
		MPI_Type_create_indexed_block(3, 2, displs, base, &shape.type);
		shape.count = elements / 6;
	} else {
		MPI_Type_contiguous(elements, base, &shape.type);
		shape.count = 1;
	}
	MPI_Type_commit(&shape.type);
	MPI_Type_size(shape.type, &size);
	shape.bytes = (MPI_Aint) size * shape.count;
	return shape;
}

enum what { PUT, GET, ACCUMULATE, GET_ACCUMULATE, WHATS };

static const char *const what_names[] = {"MPI_Put", "MPI_Get", "MPI_Accumulate",
					 "MPI_Get_accumulate"};

/**
 * struct access - what all ranks do, each to the rank behind it
 * @request: by the calls with requests
 */
struct access {
	enum what what;
	enum way way;
	bool request;
	size_t from, into;
	MPI_Op op;
	struct shape origin, target, result;
	MPI_Aint disp;
};

static void do_access(struct side *side, const struct access *a, int target, int unit)
{
	const MPI_Aint disp = ((MPI_Aint) side->run->rank * PART + a->disp) / unit;
	char *const origin = side->origin[a->from], *const result = side->result[a->into];
	MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
	int got = -1, sent = side->run->rank, which, done = 0;

#define ORIGIN origin, a->origin.count, a->origin.type
#define RESULT result, a->result.count, a->result.type
#define TARGET target, disp, a->target.count, a->target.type
	if (a->request)
		MPI_Irecv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 7, MPI_COMM_WORLD, &requests[1]);
	if (a->what == PUT && a->request)
		MPI_Rput(ORIGIN, TARGET, side->win, &requests[0]);
	else if (a->what == PUT)
		MPI_Put(ORIGIN, TARGET, side->win);
	else if (a->what == GET && a->request)
		MPI_Rget(RESULT, TARGET, side->win, &requests[0]);
	else if (a->what == GET)
		MPI_Get(RESULT, TARGET, side->win);
	else if (a->what == ACCUMULATE && a->request)
		MPI_Raccumulate(ORIGIN, TARGET, a->op, side->win, &requests[0]);
	else if (a->what == ACCUMULATE)
		MPI_Accumulate(ORIGIN, TARGET, a->op, side->win);
	else if (a->request)
		MPI_Rget_accumulate(ORIGIN, RESULT, TARGET, a->op, side->win, &requests[0]);
	else
		MPI_Get_accumulate(ORIGIN, RESULT, TARGET, a->op, side->win);
	if (a->request) {
		MPI_Send(&sent, 1, MPI_INT, target, 7, MPI_COMM_WORLD);
		while (!done)
			MPI_Testany(2, requests, &which, &done, MPI_STATUS_IGNORE);
		MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
	}
}

/* The same, done to what is expected. @base: elements are of that */
static void expect(struct side *side, const struct access *a, int origin, int target,
		   MPI_Datatype base)
{
	char *const memory = part_of(side, target, origin) + a->disp;
	const int bytes = (int) a->target.bytes;
	char *packed = malloc((size_t) bytes), *there = malloc((size_t) bytes);
	int place = 0, size;

	MPI_Type_size(base, &size);
	MPI_Pack(memory, a->target.count, a->target.type, there, bytes, &place, MPI_COMM_SELF);
	if (a->what == GET || a->what == GET_ACCUMULATE) {
		memcpy(packed, there, (size_t) bytes);
	}
	if (a->what != GET) {
		char *data = malloc((size_t) bytes);

		place = 0;
		MPI_Pack(side->origins[origin], a->origin.count, a->origin.type, data, bytes,
			 &place, MPI_COMM_SELF);
		if (a->what == PUT || a->op == MPI_REPLACE)
			memcpy(there, data, (size_t) bytes);
		else if (a->op != MPI_NO_OP)
			MPI_Reduce_local(data, there, bytes / size, base, a->op);
		place = 0;
		MPI_Unpack(there, bytes, &place, memory, a->target.count, a->target.type,
			   MPI_COMM_SELF);
		free(data);
	}
	if (a->what == GET || a->what == GET_ACCUMULATE) {
		place = 0;
		MPI_Unpack(packed, bytes, &place, side->results[origin], a->result.count,
			   a->result.type, MPI_COMM_SELF);
	}
	free(packed);
	free(there);
}

static void access_free(struct access *a)
{
	MPI_Type_free(&a->origin.type);
	MPI_Type_free(&a->target.type);
	MPI_Type_free(&a->result.type);
}

/* Of all ranks alike. Elements are of @base; @calculate: sums of them are exact. */
static struct access access_make(struct side *side, MPI_Datatype base, bool calculate, int unit)
{
	static const int lengths[] = {1, 6, 30, 1021, 4092, 12000, 1150001};
	const MPI_Op ops[] = {MPI_SUM, MPI_MAX, MPI_BXOR, MPI_REPLACE, MPI_NO_OP};
	struct mpi_run *run = side->run;
	const size_t count = FT_COUNT(lengths) - (base == MPI_BYTE ? 0 : 1);
	const int elements = lengths[mpi_random(run, count)];
	struct access a = {
		.what = (enum what) mpi_random(run, calculate ? WHATS : ACCUMULATE),
		.way = (enum way) mpi_random(run, run->ranks == 1 ? WAY_GROUP : WAYS),
		.from = mpi_random(run, run->kinds),
		.into = mpi_random(run, run->kinds),
		.op = ops[mpi_random(run, FT_COUNT(ops))],
		.origin = shape_make(run, base, elements),
		.target = shape_make(run, base, elements),
		.result = shape_make(run, base, elements),
		.disp = (MPI_Aint) (mpi_random(run, 100) * (size_t) unit),
	};

	/* requests are for locks */
	a.request = mpi_random(run, 2) && (a.way == WAY_SHARED || a.way == WAY_FLUSH);
	return a;
}

/* One access of each rank, compared everywhere */
static int access_once(struct side *side, MPI_Datatype base, bool calculate, int unit)
{
	struct mpi_run *run = side->run;
	const int target = (run->rank + 1) % run->ranks;
	struct access a = access_make(side, base, calculate, unit);

	mpi_stage(run, "%s of %d bytes, %s%s", what_names[a.what], (int) a.target.bytes,
		  way_names[a.way], a.request ? ", a request" : "");
	enter(side, a.way, target);
	do_access(side, &a, target, unit);
	leave(side, a.way, target);
	for (int i = 0; i < run->ranks; i++)
		expect(side, &a, i, (i + 1) % run->ranks, base);
	access_free(&a);
	FT_TRY(check_window(side));
	FT_TRY(compare(side, a.from, side->origin[a.from], side->origins[run->rank], PART,
		       "the origin"));
	FT_TRY(compare(side, a.into, side->result[a.into], side->results[run->rank], PART,
		       "the result"));
	/* the other kind has the same again */
	for (size_t i = 0; i < run->kinds; i++)
		FT_TRY(ops_of(side, i)->to(side->result[i], side->results[run->rank], PART));
	/* nobody goes on while others look */
	MPI_Barrier(MPI_COMM_WORLD);
	return 0;
}

/* No shorter integers: Open MPI 4.1 may add those with saturation, or not, depending on where they begin. */
static int access_all(struct side *side, bool some)
{
	const MPI_Datatype bases[] = {MPI_INT, MPI_INT64_T, MPI_UNSIGNED};

	FT_TRY(begin(side, some, 1));
	for (int i = 0; i < ROUNDS; i++)
		FT_TRY(access_once(side, i % 3 ? MPI_BYTE : MPI_DOUBLE, false, 1));
	FT_TRY(end(side));
	FT_TRY(begin(side, some, 8));
	for (int i = 0; i < ROUNDS; i++)
		FT_TRY(access_once(side, bases[i % 3], true, 8));
	return end(side);
}

/* ---- one element, and all ranks at once ---- */

/* Numbers of rank 0's window, which it begins with */
enum { COUNTED, SWAPPED, GUARDED, FLAG, NUMBERS };

static int numbers_begin(struct side *side, int64_t numbers[NUMBERS])
{
	const int rank = side->run->rank;

	FT_TRY(begin(side, false, 8));
	memset(side->expected[rank] + GUARD, 0, NUMBERS * 8);
	memset(numbers, 0, NUMBERS * 8);
	FT_TRY(ops_of(side, side->kind[rank])->to(side->window, numbers, NUMBERS * 8));
	MPI_Barrier(MPI_COMM_WORLD);
	return 0;
}

/* All ranks have returned from their operations: what rank 0 has is to be @numbers. */
static int numbers_end(struct side *side, const int64_t numbers[NUMBERS])
{
	MPI_Barrier(MPI_COMM_WORLD);
	if (side->run->rank == 0)
		memcpy(side->expected[0] + GUARD, numbers, NUMBERS * 8);
	return end(side);
}

static void swap_until(const struct side *side)
{
	int64_t before = 0, seen, after;

	for (;; before = seen) {
		after = before + 1;
		MPI_Compare_and_swap(&after, &before, &seen, MPI_INT64_T, 0, SWAPPED,
				     side->win);
		MPI_Win_flush(0, side->win);
		if (seen == before)
			return;
	}
}

static void add_under_lock(const struct side *side)
{
	int64_t number;

	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, side->win);
	MPI_Get(&number, 1, MPI_INT64_T, 0, GUARDED, 1, MPI_INT64_T, side->win);
	MPI_Win_flush(0, side->win);
	number++;
	MPI_Put(&number, 1, MPI_INT64_T, 0, GUARDED, 1, MPI_INT64_T, side->win);
	MPI_Win_unlock(0, side->win);
}

/* All ranks add 1, so often: each number between is seen by one rank, once. */
static int atomic(struct side *side)
{
	const int64_t all = (int64_t) ADDS * side->run->ranks;
	int64_t numbers[NUMBERS], one = 1, found[ADDS], sum = 0;

	FT_TRY(numbers_begin(side, numbers));
	mpi_stage(side->run, "all ranks add to one number");
	MPI_Win_lock_all(0, side->win);
	for (int i = 0; i < ADDS; i++)
		MPI_Fetch_and_op(&one, &found[i], MPI_INT64_T, 0, COUNTED, MPI_SUM, side->win);
	MPI_Win_flush_all(side->win);
	for (int i = 0; i < ADDS / 4; i++)
		swap_until(side);
	MPI_Win_unlock_all(side->win);
	for (int i = 0; i < ADDS / 4; i++)
		add_under_lock(side);
	for (int i = 0; i < ADDS; i++) {
		FT_CHECK(i == 0 || found[i] > found[i - 1],
			 "accumulations of one rank are out of order");
		sum += found[i];
	}
	MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
	FT_CHECK(sum == all * (all - 1) / 2, "a number was seen twice, or never");
	numbers[COUNTED] = all;
	numbers[SWAPPED] = numbers[GUARDED] = all / 4;
	return numbers_end(side, numbers);
}

/* Rank 0 calls nothing of MPI's until the others have written what it waits for. */
static int passive(struct side *side)
{
	struct mpi_run *run = side->run;
	int64_t numbers[NUMBERS], one = 1, seen = 0;

	FT_TRY(numbers_begin(side, numbers));
	mpi_stage(run, "a target that calls nothing of MPI's");
	if (run->rank) {
		MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, side->win);
		MPI_Accumulate(&one, 1, MPI_INT64_T, 0, FLAG, 1, MPI_INT64_T, MPI_SUM,
			       side->win);
		MPI_Win_unlock(0, side->win);
	}
	while (!run->rank && seen != run->ranks - 1)
		FT_TRY(ops_of(side, side->kind[0])->from(&seen, side->window + 8 * FLAG, 8));
	numbers[FLAG] = run->ranks - 1;
	return numbers_end(side, numbers);
}

/* A short accumulation comes behind a long one to the same place, and is not to get there before it. */
static int ordered(struct side *side)
{
	static const int counts[] = {60000, 30000, 3000};
	struct mpi_run *run = side->run;
	const int target = (run->rank + 1) % run->ranks,
		  before = (run->rank - 1 + run->ranks) % run->ranks;
	const MPI_Aint disp = (MPI_Aint) run->rank * PART / 4;
	const int one = 1;

	FT_TRY(begin(side, false, 4));
	mpi_stage(run, "short accumulations behind long ones");
	MPI_Win_lock_all(0, side->win);
	for (int i = 0; i < ROUNDS; i++) {
		const int count = counts[i % 3];
		int *const last = (int *) part_of(side, run->rank, before) + count - 1;

		MPI_Accumulate(side->origin[0], count, MPI_INT, target, disp, count, MPI_INT,
			       MPI_REPLACE, side->win);
		MPI_Accumulate(&one, 1, MPI_INT, target, disp + count - 1, 1, MPI_INT, MPI_SUM,
			       side->win);
		MPI_Win_flush(target, side->win);
		MPI_Barrier(MPI_COMM_WORLD);
		memcpy(part_of(side, run->rank, before), side->origins[before],
		       (size_t) count * 4);
		++*last;
		FT_TRY(check_window(side));
		MPI_Barrier(MPI_COMM_WORLD);
	}
	MPI_Win_unlock_all(side->win);
	return end(side);
}

/* Rank 0 waits for a lock, whose holder waits for a message that rank 0 has only begun. */
static int waiting(struct side *side)
{
	struct mpi_run *run = side->run;
	MPI_Request request;

	if (run->ranks == 1)
		return 0;
	FT_TRY(begin(side, false, 1));
	mpi_stage(run, "a lock that waits for a message");
	if (run->rank == 1)
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, side->win);
	MPI_Barrier(MPI_COMM_WORLD);
	if (run->rank == 0) {
		MPI_Isend(side->origin[0], PART, MPI_BYTE, 1, 0, MPI_COMM_WORLD, &request);
		MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 1, 0, side->win);
		MPI_Win_unlock(1, side->win);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	} else if (run->rank == 1) {
		usleep(100000);
		MPI_Recv(side->result[0], PART, MPI_BYTE, 0, 0, MPI_COMM_WORLD,
			 MPI_STATUS_IGNORE);
		MPI_Win_unlock(1, side->win);
	}
	return end(side);
}

/* Pairs have gaps. */
static int pairs(struct side *side)
{
	struct pair {
		double value;
		int index;
	} pair[2], there[2] = {{3, 9}, {5, 9}}, result[2];
	struct mpi_run *run = side->run;

	FT_TRY(begin(side, false, 8));
	mpi_stage(run, "the place of the greatest");
	memset(result, 0, sizeof result);
	for (int i = 0; i < 2; i++)
		pair[i] = (struct pair){i + run->rank + 1, run->rank};
	if (run->rank == 0) {
		memcpy(side->expected[0] + GUARD, there, sizeof there);
		FT_TRY(ops_of(side, side->kind[0])->to(side->window, there, sizeof there));
	}
	MPI_Win_fence(0, side->win);
	MPI_Get_accumulate(pair, 2, MPI_DOUBLE_INT, result, 2, MPI_DOUBLE_INT, 0, 0, 2,
			   MPI_DOUBLE_INT, MPI_MAXLOC, side->win);
	MPI_Win_fence(0, side->win);
	FT_CHECK(result[0].value >= 3 && result[0].index >= 0, "a pair is lost");
	for (int i = 0; run->rank == 0 && i < 2; i++) {
		struct pair *expected = (struct pair *) (side->expected[0] + GUARD) + i;
		const int last = run->ranks - 1;

		/* of equal ones the lesser index counts */
		if (i + last + 1 >= expected->value) {
			expected->value = i + last + 1;
			expected->index = last;
		}
	}
	FT_TRY(ops_of(side, side->kind[run->rank])->from(there, side->window, sizeof there));
	for (int i = 0; run->rank == 0 && i < 2; i++) {
		const struct pair *expected = (struct pair *) (side->expected[0] + GUARD) + i;

		FT_CHECK(there[i].value == expected->value && there[i].index == expected->index,
			 "pair %d is %g of %d", i, there[i].value, there[i].index);
	}
	if (run->rank == 0)
		memcpy(side->expected[0] + GUARD, there, sizeof there);
	return end(side);
}

/* ---- errors ---- */

static int is_error(int ret, int wanted, const char *what)
{
	char text[MPI_MAX_ERROR_STRING];
	int class, len;

	MPI_Error_class(ret, &class);
	MPI_Error_string(ret, text, &len);
	FT_CHECK(class == wanted, "%s: \"%s\"", what, text);
	FT_CHECK(strstr(text, "libp2p-mpi"), "%s: \"%s\" is not our text", what, text);
	return 0;
}

static int errors(struct side *side)
{
	const int rank = side->run->rank, unit = 8;
	const MPI_Aint last = (MPI_Aint) RANKS * PART / unit;
	MPI_Win win = MPI_WIN_NULL;
	char *from;

	FT_TRY(begin(side, false, unit));
	mpi_stage(side->run, "errors");
	win = side->win;
	from = side->origin[side->run->kinds - 1];
	MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
	MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win);
#define PUT_TO(count, to, disp) MPI_Put(from, count, MPI_BYTE, to, disp, count, MPI_BYTE, win)
	FT_TRY(is_error(PUT_TO(9, rank, last - 1), MPI_ERR_RMA_RANGE, "beyond the end"));
	FT_TRY(is_error(PUT_TO(PART, rank, last - 100), MPI_ERR_RMA_RANGE, "partly beyond"));
	FT_TRY(is_error(PUT_TO(1, rank, -1), MPI_ERR_DISP, "before the begin"));
	FT_TRY(is_error(PUT_TO(1, side->run->ranks, 0), MPI_ERR_RANK, "no rank"));
	FT_TRY(is_error(MPI_Put(from, 8, MPI_BYTE, rank, 0, 4, MPI_BYTE, win), MPI_ERR_TRUNCATE,
			"too long"));
	FT_TRY(is_error(MPI_Win_lock(MPI_LOCK_SHARED, rank, 0, win), MPI_ERR_RMA_SYNC,
			"locked twice"));
	FT_CHECK(PUT_TO(8, MPI_PROC_NULL, 0) == MPI_SUCCESS, "MPI_PROC_NULL");
	MPI_Win_unlock(rank, win);
	FT_TRY(is_error(MPI_Win_unlock(rank, win), MPI_ERR_RMA_SYNC, "unlocked twice"));
	FT_TRY(is_error(MPI_Win_wait(win), MPI_ERR_RMA_SYNC, "no post"));
	FT_TRY(is_error(MPI_Win_complete(win), MPI_ERR_RMA_SYNC, "no start"));
	MPI_Barrier(MPI_COMM_WORLD);
	return end(side);
}

/* One rank gives no window: all get the error. */
static int no_window(struct side *side)
{
	struct mpi_run *run = side->run;
	MPI_Win win = MPI_WIN_NULL;
	int ret;

	mpi_stage(run, "no window");
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	ret = MPI_Win_create(run->pool[run->kinds - 1].buf.addr, 8, run->rank ? 1 : -1,
			     MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
	FT_CHECK(win == MPI_WIN_NULL, "there is a window");
	return is_error(ret, MPI_ERR_DISP, "a bad unit of rank 0");
}

/* The application frees memory that a window is made of. */
static int freed(struct side *side)
{
	struct mpi_run *run = side->run;
	const size_t kind = run->kinds - 1;
	char data[64] = {0};
	void *memory;
	MPI_Win win;

	mpi_stage(run, "freed memory");
	FT_TRY(ops_of(side, kind)->alloc(1 << 20, &memory));
	MPI_Win_create(memory, 1 << 20, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
	ops_of(side, kind)->release(memory);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
	MPI_Put(data, 64, MPI_BYTE, 0, 0, 64, MPI_BYTE, win);
	FT_TRY(is_error(MPI_Win_unlock(0, win), MPI_ERR_RMA_RANGE, "freed memory"));
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_free(&win);
	return 0;
}

/* What puts have read is not kept until the window is synchronised. */
static int many(struct side *side)
{
	const int rank = side->run->rank;
	unsigned long before = 0, after = 0;

	FT_TRY(begin(side, false, 1));
	mpi_stage(side->run, "many puts");
	MPI_Win_fence(0, side->win);
	ft_cuda_calls("cuMemHostRegister", &before);
	for (int i = 0; i < 500; i++)
		MPI_Put(side->origin[1], 8, MPI_BYTE, rank, 0, 8, MPI_BYTE, side->win);
	MPI_Win_fence(0, side->win);
	ft_cuda_calls("cuMemHostRegister", &after);
	FT_CHECK(after - before < 50, "%lu pieces of memory for 500 puts", after - before);
	memcpy(part_of(side, rank, 0), side->origins[rank], 8);
	return end(side);
}

/* ---- what windows say, and memory that is attached ---- */

static int attributes(struct side *side)
{
	MPI_Group mine, all;
	MPI_Aint *size;
	int *unit, *flavor, *model, flag, same, size_of;
	char name[MPI_MAX_OBJECT_NAME];
	void *base;

	FT_TRY(begin(side, true, 8));
	MPI_Win_get_attr(side->win, MPI_WIN_BASE, &base, &flag);
	FT_CHECK(flag && base == side->window, "the base is %p", base);
	MPI_Win_get_attr(side->win, MPI_WIN_SIZE, &size, &flag);
	FT_CHECK(flag && *size == (MPI_Aint) RANKS * PART, "the size is %ld", (long) *size);
	MPI_Win_get_attr(side->win, MPI_WIN_DISP_UNIT, &unit, &flag);
	FT_CHECK(flag && *unit == 8, "the unit is %d", *unit);
	MPI_Win_get_attr(side->win, MPI_WIN_CREATE_FLAVOR, &flavor, &flag);
	FT_CHECK(flag && *flavor == MPI_WIN_FLAVOR_CREATE, "the flavor is %d", *flavor);
	MPI_Win_get_attr(side->win, MPI_WIN_MODEL, &model, &flag);
	FT_CHECK(flag && *model == MPI_WIN_UNIFIED, "the model is %d", *model);
	MPI_Win_get_group(side->win, &mine);
	MPI_Comm_group(MPI_COMM_WORLD, &all);
	MPI_Group_compare(mine, all, &same);
	FT_CHECK(same == MPI_IDENT, "the group is another one");
	MPI_Group_free(&mine);
	MPI_Group_free(&all);
	MPI_Win_set_name(side->win, "mine");
	MPI_Win_get_name(side->win, name, &size_of);
	FT_CHECK(!strcmp(name, "mine"), "the name is %s", name);
	return end(side);
}

static int attached(struct side *side)
{
	struct mpi_run *run = side->run;
	const int target = (run->rank + 1) % run->ranks,
		  last = (run->rank - 1 + run->ranks) % run->ranks;
	const size_t kind = run->kinds - 1;
	MPI_Aint mine, at[RANKS];
	MPI_Win win;

	FT_TRY(begin(side, false, 1));
	mpi_stage(run, "memory that is attached");
	MPI_Win_create_dynamic(MPI_INFO_NULL, MPI_COMM_WORLD, &win);
	MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
	MPI_Win_attach(win, side->window, 50000);
	MPI_Win_attach(win, side->window + 50000, PART - 50000);
	MPI_Get_address(side->window, &mine);
	MPI_Allgather(&mine, 1, MPI_AINT, at, 1, MPI_AINT, MPI_COMM_WORLD);
	MPI_Win_lock_all(0, win);
	MPI_Put(side->origin[kind], 70001, MPI_BYTE, target, MPI_Aint_add(at[target], 3), 70001,
		MPI_BYTE, win);
	FT_CHECK(MPI_Win_flush(target, win) == MPI_SUCCESS, "MPI_Put to what is attached");
	MPI_Put(side->origin[kind], 2, MPI_BYTE, target, at[target] + PART - 1, 2, MPI_BYTE,
		win);
	FT_TRY(is_error(MPI_Win_flush(target, win), MPI_ERR_RMA_RANGE, "beyond its end"));
	MPI_Win_unlock_all(win);
	MPI_Barrier(MPI_COMM_WORLD);
	memcpy(part_of(side, run->rank, 0) + 3, side->origins[last], 70001);
	MPI_Win_detach(win, side->window + 50000);
	MPI_Win_detach(win, side->window);
	FT_TRY(is_error(MPI_Win_detach(win, side->window), MPI_ERR_RMA_ATTACH,
			"detached twice"));
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Win_free(&win);
	return end(side);
}

static int run_all(struct mpi_run *run)
{
	static struct side side;

	side.run = run;
	FT_CHECK(run->ranks <= RANKS, "%d ranks, at most", RANKS);
	side.scratch = malloc(AREA);
	for (int i = 0; i < run->ranks; i++) {
		side.expected[i] = malloc(AREA);
		side.origins[i] = malloc(PART);
		side.results[i] = malloc(PART);
	}
	FT_TRY(access_all(&side, false));
	FT_TRY(access_all(&side, true));
	FT_TRY(atomic(&side));
	FT_TRY(ordered(&side));
	FT_TRY(passive(&side));
	FT_TRY(waiting(&side));
	FT_TRY(pairs(&side));
	FT_TRY(attributes(&side));
	FT_TRY(errors(&side));
	FT_TRY(no_window(&side));
	FT_TRY(freed(&side));
	FT_TRY(many(&side));
	FT_TRY(attached(&side));
	free(side.scratch);
	for (int i = 0; i < run->ranks; i++) {
		free(side.expected[i]);
		free(side.origins[i]);
		free(side.results[i]);
	}
	return 0;
}

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "windows on device memory: all calls, all ways to synchronise",
		.ranks = 1,
		/* windows of host memory are the MPI's own, with its own defects */
		.device = true,
		.pool = AREA + 2 * PART + 4096,
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
