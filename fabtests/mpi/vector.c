/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_vector: vector collectives, which libp2p-mpi makes messages of, with many ranks; with parts so long that ranks go
 * in step, or some ranks do; of types with gaps at one end only; of a rank alone, which sends itself none; and with
 * MPI_IN_PLACE where it is wrong, of which MPI says so.
 */
#include <stdlib.h>
#include <unistd.h>

#include "mpi_test.h"

#define RANKS_MOST 64
#define LATE_US 20000
/* Numbers of a part: long enough that it goes as it lies */
#define PART 20000
/* and so long that ranks go in step */
#define STEP (2 << 20)
#define STEP_RANKS 8

/* One rank comes late. Nobody returns without its part. */
static int all_to_all(struct mpi_run *run, int late)
{
	int out[RANKS_MOST], in[RANKS_MOST], counts[RANKS_MOST], at[RANKS_MOST];

	for (int i = 0; i < run->ranks; i++) {
		out[i] = late + 100 * run->rank + 10000 * i;
		in[i] = -1;
		counts[i] = 1;
		at[i] = i;
	}
	if (run->rank == late)
		usleep(LATE_US);
	MPI_Alltoallv(out, counts, at, MPI_INT, in, counts, at, MPI_INT, MPI_COMM_WORLD);
	for (int i = 0; i < run->ranks; i++)
		FT_CHECK(in[i] == late + 100 * i + 10000 * run->rank,
			 "rank %d is late: %d came from rank %d", late, in[i], i);
	return 0;
}

/* Numbers from rank @from to rank @to: with @some, few between some */
static int step_count(int from, int to, bool some)
{
	return some && (from + to) % 3 ? 5 + from : STEP + 10 * from + to;
}

/* Long parts go one peer at a time. Ranks whose parts for others are all short do not wait. */
static int in_step(struct mpi_run *run, bool some)
{
	const int most = STEP + 10 * STEP_RANKS + STEP_RANKS;
	int counts[2][STEP_RANKS], at[STEP_RANKS], *out, *in, wrong = 0;

	out = calloc((size_t) most * 2 * (size_t) run->ranks, sizeof *out);
	FT_CHECK(out, "no memory");
	in = out + (size_t) most * (size_t) run->ranks;
	for (int i = 0; i < run->ranks; i++) {
		at[i] = i * most;
		counts[0][i] = step_count(run->rank, i, some);
		counts[1][i] = step_count(i, run->rank, some);
		for (int k = 0; k < counts[0][i]; k++)
			out[at[i] + k] = k + 1000 * run->rank + i;
	}
	MPI_Alltoallv(out, counts[0], at, MPI_INT, in, counts[1], at, MPI_INT, MPI_COMM_WORLD);
	for (int i = 0; i < run->ranks; i++) {
		for (int k = 0; k < most; k++)
			wrong += in[at[i] + k] !=
				 (k < counts[1][i] ? k + 1000 * i + run->rank : 0);
	}
	free(out);
	FT_CHECK(wrong == 0, "%d numbers of long parts are wrong", wrong);
	return 0;
}

/* What the program receives from itself is its own. */
static int alone(struct mpi_run *run)
{
	const int out[] = {1, 2, 3, 4}, count = 2, at = 0;
	int in[] = {0, 0}, own = 0, sent = 5, done;
	MPI_Datatype gaps;
	MPI_Request request;
	MPI_Comm comm;

	MPI_Comm_split(MPI_COMM_WORLD, run->rank, 0, &comm);
	MPI_Type_vector(2, 1, 2, MPI_INT, &gaps);
	MPI_Type_commit(&gaps);
	MPI_Irecv(&own, 1, MPI_INT, 0, MPI_ANY_TAG, MPI_COMM_SELF, &request);
	MPI_Gatherv(out, 1, gaps, in, &count, &at, MPI_INT, 0, comm);
	FT_CHECK(in[0] == 1 && in[1] == 3, "%d and %d were gathered", in[0], in[1]);
	MPI_Test(&request, &done, MPI_STATUS_IGNORE);
	FT_CHECK(!done, "a receive of the program's got %d", own);
	MPI_Send(&sent, 1, MPI_INT, 0, 0, MPI_COMM_SELF);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	FT_CHECK(own == sent, "%d came, not %d", own, sent);
	MPI_Type_free(&gaps);
	MPI_Comm_free(&comm);
	return 0;
}

/* Each part, also what a rank has for itself, has gaps at one end, and none in a GPU's memory at the other. */
static int from_gaps(struct mpi_run *run, bool sends_gaps)
{
	const struct ft_buf *gpu = &run->pool[run->kinds - 1].buf;
	const size_t room = (size_t) run->ranks * PART * 2;
	int counts[RANKS_MOST], at[RANKS_MOST], *host = calloc(room, sizeof(int)),
						*image = calloc(room, sizeof(int));
	MPI_Datatype gaps, apart;

	FT_CHECK(host && image, "no memory");
	/* one number, and one that nobody touches */
	MPI_Type_vector(1, 1, 1, MPI_INT, &apart);
	MPI_Type_create_resized(apart, 0, 2 * sizeof(int), &gaps);
	MPI_Type_commit(&gaps);
	for (int i = 0; i < run->ranks; i++) {
		counts[i] = PART;
		at[i] = i * PART;
		for (int k = 0; k < PART; k++) {
			const int number = run->rank + 100 * i + 10000 * k;

			host[2 * (i * PART + k)] = sends_gaps ? number : 0;
			image[i * PART + k] = sends_gaps ? 0 : number;
		}
	}
	FT_TRY(gpu->ops->to(gpu->addr, image, room * sizeof(int)));
	if (sends_gaps)
		MPI_Alltoallv(host, counts, at, gaps, gpu->addr, counts, at, MPI_INT,
			      MPI_COMM_WORLD);
	else
		MPI_Alltoallv(gpu->addr, counts, at, MPI_INT, host, counts, at, gaps,
			      MPI_COMM_WORLD);
	FT_TRY(gpu->ops->from(image, gpu->addr, room * sizeof(int)));
	for (int i = 0; i < run->ranks; i++)
		for (int k = 0; k < PART; k++) {
			const int element = i * PART + k,
				  found = sends_gaps ? image[element] : host[2 * element];

			FT_CHECK(found == i + 100 * run->rank + 10000 * k &&
					 !host[2 * element + 1],
				 "%d and %d came from rank %d at %d", found,
				 host[2 * element + 1], i, k);
		}
	MPI_Type_free(&apart);
	MPI_Type_free(&gaps);
	free(host);
	free(image);
	return 0;
}

/* All ranks call. */
static int in_place(struct mpi_run *run)
{
	const bool first = run->rank == 0;
	int numbers[RANKS_MOST] = {0}, counts[RANKS_MOST], at[RANKS_MOST], ret[3];

	for (int i = 0; i < run->ranks; i++) {
		counts[i] = 1;
		at[i] = i;
	}
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	ret[0] = MPI_Alltoallv(numbers, counts, at, MPI_INT, MPI_IN_PLACE, counts, at, MPI_INT,
			       MPI_COMM_WORLD);
	ret[1] = MPI_Gatherv(first ? numbers : MPI_IN_PLACE, 1, MPI_INT,
			     first ? MPI_IN_PLACE : numbers, counts, at, MPI_INT, 0,
			     MPI_COMM_WORLD);
	ret[2] = MPI_Scatterv(first ? MPI_IN_PLACE : numbers, counts, at, MPI_INT,
			      first ? numbers : MPI_IN_PLACE, 1, MPI_INT, 0, MPI_COMM_WORLD);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
	for (int i = 0; i < 3; i++)
		FT_CHECK(ret[i] != MPI_SUCCESS, "call %d: MPI_IN_PLACE is no error", i);
	return 0;
}

static int run_all(struct mpi_run *run)
{
	FT_CHECK(run->ranks <= RANKS_MOST, "no more than %d ranks", RANKS_MOST);
	for (int late = 0; late < run->ranks; late++)
		FT_TRY(all_to_all(run, late));
	FT_TRY(from_gaps(run, true));
	FT_TRY(from_gaps(run, false));
	FT_TRY(in_place(run));
	for (int some = 0; some < 2 && run->ranks <= STEP_RANKS; some++)
		FT_TRY(in_step(run, some));
	return alone(run);
}

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "vector collectives as messages, with libp2p-mpi",
		.ranks = 1,
		.pool = 2 * RANKS_MOST * PART * sizeof(int),
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
