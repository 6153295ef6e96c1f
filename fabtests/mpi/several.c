/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_several: collective calls that do not block, several of them under way at a time, beside blocking ones and
 * messages. They end in any order, by any call that ends requests. All bytes are as MPI itself leaves them in host memory: on a
 * communicator that has no hidden one beside it.
 */
#include <pthread.h>
#include <string.h>

#include "mpi_test.h"
#include "sent.h"

#define AT_ONCE 7
#define ROUNDS 40
#define RANKS_MOST 8
/* Each side of a call has as much. */
#define ROOM (1ul << 20)
#define POOL (2 * AT_ONCE * ROOM)
/* Elements that nobody touches, behind each part of those that differ */
#define GAP 2
#define LONGEST 24000

/* Memory of the GPU's that the test works on */
static const struct ft_buf *gpu;

/* ---- the calls ---- */

/**
 * struct work - what a call works on. It lives until the call has ended: lists are read until then.
 * @call:	which one of the table
 * @in, @out:	memory of the kinds at hand
 * @n:		elements of a part, at most
 * @comm:	a ring
 */
struct work {
	size_t call;
	char *in, *out;
	int n, root, rank, ranks;
	MPI_Datatype type;
	MPI_Comm comm;
	MPI_Request request;
	int send_counts[RANKS_MOST], recv_counts[RANKS_MOST], displs[RANKS_MOST],
		bytes[RANKS_MOST];
	MPI_Datatype types[RANKS_MOST];
};

/* From one rank to another: some have nothing. */
static int between(const struct work *w, int from, int to)
{
	return (from + 2 * to) % 5 == 4 ? 0 : w->n - w->n / 9 * (to % 3);
}

static void prepare(struct work *w)
{
	MPI_Aint low, extent;

	MPI_Type_get_extent(w->type, &low, &extent);
	for (int i = 0; i < w->ranks; i++) {
		w->send_counts[i] = between(w, w->rank, i);
		w->recv_counts[i] = between(w, i, w->rank);
		w->displs[i] = (w->ranks - 1 - i) * (w->n + GAP);
		w->bytes[i] = w->displs[i] * (int) extent;
		w->types[i] = w->type;
	}
}

static bool is_root(const struct work *w)
{
	return w->rank == w->root;
}

static void gather(struct work *w)
{
	MPI_Igather(w->in, w->n, w->type, w->out, w->n, w->type, w->root, w->comm, &w->request);
}

static void gather_in_place(struct work *w)
{
	MPI_Igather(is_root(w) ? MPI_IN_PLACE : w->in, w->n, w->type, w->out, w->n, w->type,
		    w->root, w->comm, &w->request);
}

static void scatter(struct work *w)
{
	MPI_Iscatter(w->in, w->n, w->type, w->out, w->n, w->type, w->root, w->comm,
		     &w->request);
}

static void scatter_in_place(struct work *w)
{
	MPI_Iscatter(w->in, w->n, w->type, is_root(w) ? MPI_IN_PLACE : w->out, w->n, w->type,
		     w->root, w->comm, &w->request);
}

/* What the root gets is as long as what it would get of all. */
static void gatherv(struct work *w)
{
	MPI_Igatherv(w->in, between(w, w->rank, w->root), w->type, w->out, w->recv_counts,
		     w->displs, w->type, w->root, w->comm, &w->request);
}

static void gatherv_in_place(struct work *w)
{
	MPI_Igatherv(is_root(w) ? MPI_IN_PLACE : w->in, between(w, w->rank, w->root), w->type,
		     w->out, w->recv_counts, w->displs, w->type, w->root, w->comm, &w->request);
}

static void scatterv(struct work *w)
{
	MPI_Iscatterv(w->in, is_root(w) ? w->send_counts : NULL, w->displs, w->type, w->out,
		      between(w, w->root, w->rank), w->type, w->root, w->comm, &w->request);
}

static void scatterv_in_place(struct work *w)
{
	MPI_Iscatterv(w->in, w->send_counts, w->displs, w->type,
		      is_root(w) ? MPI_IN_PLACE : w->out, between(w, w->root, w->rank), w->type,
		      w->root, w->comm, &w->request);
}

static void allgather(struct work *w)
{
	MPI_Iallgather(w->in, w->n, w->type, w->out, w->n, w->type, w->comm, &w->request);
}

static void allgather_in_place(struct work *w)
{
	MPI_Iallgather(MPI_IN_PLACE, -1, MPI_DATATYPE_NULL, w->out, w->n, w->type, w->comm,
		       &w->request);
}

/* Each rank gives as much as it would give to the root. */
static void allgatherv_of(struct work *w, const void *in)
{
	for (int i = 0; i < w->ranks; i++)
		w->recv_counts[i] = between(w, i, w->root);
	MPI_Iallgatherv(in, w->recv_counts[w->rank], w->type, w->out, w->recv_counts, w->displs,
			w->type, w->comm, &w->request);
}

static void allgatherv(struct work *w)
{
	allgatherv_of(w, w->in);
}

static void allgatherv_in_place(struct work *w)
{
	allgatherv_of(w, MPI_IN_PLACE);
}

static void alltoall(struct work *w)
{
	MPI_Ialltoall(w->in, w->n, w->type, w->out, w->n, w->type, w->comm, &w->request);
}

static void alltoall_in_place(struct work *w)
{
	MPI_Ialltoall(MPI_IN_PLACE, 0, w->type, w->out, w->n, w->type, w->comm, &w->request);
}

static void alltoallv(struct work *w)
{
	MPI_Ialltoallv(w->in, w->send_counts, w->displs, w->type, w->out, w->recv_counts,
		       w->displs, w->type, w->comm, &w->request);
}

static void alltoallw(struct work *w)
{
	MPI_Ialltoallw(w->in, w->send_counts, w->bytes, w->types, w->out, w->recv_counts,
		       w->bytes, w->types, w->comm, &w->request);
}

static void neighbor_alltoall(struct work *w)
{
	MPI_Ineighbor_alltoall(w->in, w->n, w->type, w->out, w->n, w->type, w->comm,
			       &w->request);
}

static void bcast(struct work *w)
{
	MPI_Ibcast(w->out, w->n, w->type, w->root, w->comm, &w->request);
}

/* Of bytes, which all types are of: MPI may add them in any order */
static void allreduce(struct work *w)
{
	MPI_Iallreduce(w->in, w->out, w->n, MPI_INT, MPI_BXOR, w->comm, &w->request);
}

/* A message beside them, which has its own */
static void receive(struct work *w)
{
	const int next = (w->rank + 1) % w->ranks, last = (w->rank + w->ranks - 1) % w->ranks;
	MPI_Request sent;

	MPI_Isend(w->in, w->n, w->type, next, 3, w->comm, &sent);
	MPI_Request_free(&sent);
	MPI_Irecv(w->out, w->n, w->type, last, 3, w->comm, &w->request);
}

/* One that blocks: others are under way meanwhile. */
static void blocks(struct work *w)
{
	MPI_Alltoallv(w->in, w->send_counts, w->displs, w->type, w->out, w->recv_counts,
		      w->displs, w->type, w->comm);
	w->request = MPI_REQUEST_NULL;
}

static void blocks_large(struct work *w)
{
	MPI_Allgather(w->in, w->n, w->type, w->out, w->n, w->type, w->comm);
	w->request = MPI_REQUEST_NULL;
}

static const struct {
	const char *name;
	void (*begin)(struct work *w);
} calls[] = {
	{"Igather", gather},
	{"Igather in place", gather_in_place},
	{"Iscatter", scatter},
	{"Iscatter in place", scatter_in_place},
	{"Igatherv", gatherv},
	{"Igatherv in place", gatherv_in_place},
	{"Iscatterv", scatterv},
	{"Iscatterv in place", scatterv_in_place},
	{"Iallgather", allgather},
	{"Iallgather in place", allgather_in_place},
	{"Iallgatherv", allgatherv},
	{"Iallgatherv in place", allgatherv_in_place},
	{"Ialltoall", alltoall},
	{"Ialltoall in place", alltoall_in_place},
	{"Ialltoallv", alltoallv},
	{"Ialltoallw", alltoallw},
	{"Ineighbor_alltoall", neighbor_alltoall},
	{"Ibcast", bcast},
	{"Iallreduce", allreduce},
	{"Irecv", receive},
	{"Alltoallv", blocks},
	{"Allgather", blocks_large},
};

/* ---- their ends ---- */

/* Some, until all have ended */
static void end_some(MPI_Request requests[], bool wait)
{
	int ended = 0, indices[AT_ONCE];
	MPI_Status statuses[AT_ONCE];

	while (ended != MPI_UNDEFINED) {
		if (wait)
			MPI_Waitsome(AT_ONCE, requests, &ended, indices, statuses);
		else
			MPI_Testsome(AT_ONCE, requests, &ended, indices, MPI_STATUSES_IGNORE);
	}
}

static void end_any(MPI_Request requests[], bool wait)
{
	int index = 0, done;
	MPI_Status status;

	while (index != MPI_UNDEFINED || !done) {
		if (wait) {
			MPI_Waitany(AT_ONCE, requests, &index, &status);
			done = 1;
		} else {
			MPI_Testany(AT_ONCE, requests, &index, &done, MPI_STATUS_IGNORE);
		}
	}
}

/* One by one, from the last one on, if this rank is odd */
static void end_each(const struct mpi_run *run, MPI_Request requests[], int way)
{
	for (int i = 0, done; i < AT_ONCE; i++) {
		MPI_Request *request = &requests[run->rank % 2 ? AT_ONCE - 1 - i : i];

		if (way == 0)
			MPI_Wait(request, MPI_STATUS_IGNORE);
		for (done = way == 0; !done;) {
			if (way == 1)
				MPI_Test(request, &done, MPI_STATUS_IGNORE);
			else
				MPI_Request_get_status(*request, &done, MPI_STATUS_IGNORE);
		}
	}
	MPI_Waitall(AT_ONCE, requests, MPI_STATUSES_IGNORE);
}

static void end_all(const struct mpi_run *run, MPI_Request requests[], size_t way)
{
	int done = 0;

	if (way == 0)
		MPI_Waitall(AT_ONCE, requests, MPI_STATUSES_IGNORE);
	else if (way == 1)
		while (!done)
			MPI_Testall(AT_ONCE, requests, &done, MPI_STATUSES_IGNORE);
	else if (way < 4)
		end_some(requests, way % 2);
	else if (way < 6)
		end_any(requests, way % 2);
	else
		end_each(run, requests, (int) way - 6);
}

#define WAYS 9

/* ---- once by MPI, one after the other, and once together ---- */

static char original[ROOM], expected[AT_ONCE][2][ROOM], found[ROOM];

/* What they are, and where: the same on all ranks, but for the memory */
static void draw(struct mpi_run *run, struct work works[], size_t kinds[][2],
		 const MPI_Datatype types[])
{
	static const int counts[] = {0, 1, 17, LONGEST};

	for (size_t i = 0; i < AT_ONCE; i++) {
		struct work *w = &works[i];
		const size_t type = mpi_random(run, 2);

		*w = (struct work){.call = mpi_random(run, FT_COUNT(calls)),
				   .n = counts[mpi_random(run, FT_COUNT(counts) - type)],
				   .root = (int) mpi_random(run, (size_t) run->ranks),
				   .rank = run->rank,
				   .ranks = run->ranks,
				   .type = types[type]};
		for (int rank = 0; rank < run->ranks; rank++)
			for (size_t side = 0; side < 2; side++) {
				const size_t kind = mpi_random(run, run->kinds);

				if (rank == run->rank)
					kinds[i][side] = kind;
			}
		prepare(w);
	}
}

static int fill(const struct work *w, const struct ft_buf *in, const struct ft_buf *out)
{
	FT_TRY(in->ops->to(w->in, original, ROOM));
	return out->ops->to(w->out, original, ROOM);
}

static int one_round(struct mpi_run *run, MPI_Comm plain, MPI_Comm comm,
		     const MPI_Datatype types[])
{
	struct work works[AT_ONCE];
	MPI_Request requests[AT_ONCE];
	size_t kinds[AT_ONCE][2], way = 0;

	draw(run, works, kinds, types);
	for (size_t i = 0; i < AT_ONCE; i++) {
		struct work alone = works[i];

		memcpy(expected[i][0], original, ROOM);
		memcpy(expected[i][1], original, ROOM);
		alone.in = expected[i][0];
		alone.out = expected[i][1];
		alone.comm = plain;
		calls[alone.call].begin(&alone);
		MPI_Wait(&alone.request, MPI_STATUS_IGNORE);
	}
	for (size_t i = 0; i < AT_ONCE; i++) {
		struct work *w = &works[i];
		const struct ft_buf *in = &run->pool[kinds[i][0]].buf,
				    *out = &run->pool[kinds[i][1]].buf;

		w->in = in->addr + 2 * i * ROOM;
		w->out = out->addr + (2 * i + 1) * ROOM;
		w->comm = comm;
		FT_TRY(fill(w, in, out));
	}
	for (size_t i = 0; i < AT_ONCE; i++) {
		calls[works[i].call].begin(&works[i]);
		requests[i] = works[i].request;
	}
	/* each rank ends them its own way */
	for (int rank = 0; rank < run->ranks; rank++) {
		const size_t drawn = mpi_random(run, WAYS);

		way = rank == run->rank ? drawn : way;
	}
	mpi_stage(run, "the %zu-th way to end them", way);
	end_all(run, requests, way);
	for (size_t i = 0; i < 2 * AT_ONCE; i++) {
		const struct work *w = &works[i / 2];
		const struct ft_buf *buf = &run->pool[kinds[i / 2][i % 2]].buf;

		FT_TRY(buf->ops->from(found, i % 2 ? w->out : w->in, ROOM));
		for (size_t k = 0; k < ROOM && memcmp(found, expected[i / 2][i % 2], ROOM); k++)
			FT_CHECK(found[k] == expected[i / 2][i % 2][k],
				 "%s, %d of %s, root %d, memory %zu and %zu, end %zu: byte %zu "
				 "of what is %s is %d, not %d",
				 calls[w->call].name, w->n,
				 w->type == types[0] ? "int" : "gaps", w->root, kinds[i / 2][0],
				 kinds[i / 2][1], way, k, i % 2 ? "written" : "read", found[k],
				 expected[i / 2][i % 2][k]);
	}
	return 0;
}

/* Long data of a GPU's goes from where it lies, short data does not. Its communicator may be freed meanwhile. */
static int from_gpu(struct mpi_run *run, MPI_Comm comm)
{
	struct work w = {.rank = run->rank, .ranks = run->ranks, .type = MPI_INT};

	for (w.call = 0; calls[w.call].begin != neighbor_alltoall; w.call++) {
		for (int i = 0; i < 2; i++) {
			const bool sends = calls[w.call].begin != alltoall_in_place;
			unsigned long any;

			w.n = i ? LONGEST : LONGEST / 2;
			w.in = gpu->addr;
			w.out = gpu->addr + ROOM;
			prepare(&w);
			mpi_sent.watched = 0;
			MPI_Comm_dup(comm, &w.comm);
			calls[w.call].begin(&w);
			/* what is under way goes on, but Open MPI's own does not */
			if (i && sends)
				MPI_Comm_free(&w.comm);
			MPI_Wait(&w.request, MPI_STATUS_IGNORE);
			if (!(i && sends))
				MPI_Comm_free(&w.comm);
			MPI_Allreduce(&mpi_sent.watched, &any, 1, MPI_UNSIGNED_LONG, MPI_MAX,
				      MPI_COMM_WORLD);
			FT_CHECK(run->ranks == 1 || !any == !(i && sends),
				 "%s, %d elements: %lu messages from the GPU",
				 calls[w.call].name, w.n, any);
		}
	}
	return 0;
}

/* The first rank begins a call, and looks what has ended, before the others begin it. */
static int nobody_waits(struct mpi_run *run, MPI_Comm comm)
{
	struct work w = {.rank = run->rank,
			 .ranks = run->ranks,
			 .n = 17,
			 .type = MPI_INT,
			 .comm = comm};
	int done = 0, index = -1, token = 0;
	MPI_Request requests[2];

	mpi_stage(run, "a call that the others begin later");
	w.in = run->pool[run->kinds - 1].buf.addr;
	w.out = w.in + ROOM;
	prepare(&w);
	if (run->rank) {
		MPI_Send(&token, 1, MPI_INT, 0, 4, MPI_COMM_WORLD);
		MPI_Recv(&token, 1, MPI_INT, 0, 4, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		alltoallv(&w);
		MPI_Wait(&w.request, MPI_STATUS_IGNORE);
		return 0;
	}
	alltoallv(&w);
	requests[0] = w.request;
	MPI_Test(&requests[0], &done, MPI_STATUS_IGNORE);
	FT_CHECK(!done, "MPI_Test ends what others have not begun");
	MPI_Request_get_status(requests[0], &done, MPI_STATUS_IGNORE);
	FT_CHECK(!done, "MPI_Request_get_status tells an end of what others have not begun");
	for (int i = 1; i < run->ranks; i++) {
		MPI_Irecv(&token, 1, MPI_INT, i, 4, MPI_COMM_WORLD, &requests[1]);
		MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
		FT_CHECK(index == 1, "MPI_Waitany ends request %d, which nobody has begun",
			 index);
	}
	for (int i = 1; i < run->ranks; i++)
		MPI_Send(&token, 1, MPI_INT, i, 4, MPI_COMM_WORLD);
	MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
	return 0;
}

/* What is longer than its place is an error at the end, and the call has ended. */
static int too_long(struct mpi_run *run, MPI_Comm comm, size_t kind)
{
	struct work w = {.rank = run->rank,
			 .ranks = run->ranks,
			 .n = LONGEST,
			 .type = MPI_INT,
			 .comm = comm};
	char text[MPI_MAX_ERROR_STRING] = "";
	int ret, class, len;

	mpi_stage(run, "a part that is too long");
	w.in = run->pool[kind].buf.addr;
	w.out = w.in + ROOM;
	prepare(&w);
	if (run->rank == 0)
		w.recv_counts[1] -= LONGEST / 20;
	alltoallv(&w);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	ret = MPI_Wait(&w.request, MPI_STATUS_IGNORE);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
	MPI_Error_class(ret, &class);
	MPI_Error_string(ret, text, &len);
	FT_CHECK((ret == MPI_SUCCESS) == (run->rank > 0) && w.request == MPI_REQUEST_NULL &&
			 (!ret || strstr(text, "libp2p-mpi")),
		 "a part that is too long: class %d, %s", class, text);
	return 0;
}

/* ---- threads, each with a communicator of its own ---- */

#define THREADS 3
#define THREAD_ROUNDS 60

/* A short call and a long one, together, again and again. The thread has no context of the GPU's. */
static void *thread_main(void *arg)
{
	struct work *works = arg;
	MPI_Request requests[2];
	int ended;

	for (int i = 0; i < THREAD_ROUNDS; i++) {
		for (int k = 0; k < 2; k++) {
			alltoall(&works[k]);
			requests[k] = works[k].request;
		}
		MPI_Waitany(2, requests, &ended, MPI_STATUS_IGNORE);
		MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
	}
	return NULL;
}

/* A part that a rank sends: the same numbers all over */
static int part_fill(const struct ft_buf *buf, struct work *w, int to)
{
	static int numbers[LONGEST];
	const size_t len = (size_t) w->n * sizeof *numbers;

	for (int i = 0; i < w->n; i++)
		numbers[i] = 100 * w->rank + 10 * to + (int) (w->n > 17);
	return buf->ops->to(w->in + (size_t) to * len, numbers, len);
}

static int part_check(const struct ft_buf *buf, const struct work *w, int from)
{
	static int numbers[LONGEST];
	const size_t len = (size_t) w->n * sizeof *numbers;

	FT_TRY(buf->ops->from(numbers, w->out + (size_t) from * len, len));
	for (int i = 0; i < w->n; i++)
		FT_CHECK(numbers[i] == 100 * from + 10 * w->rank + (int) (w->n > 17),
			 "a thread's call, %d elements: %d came from rank %d", w->n, numbers[i],
			 from);
	return 0;
}

static int threads(struct mpi_run *run)
{
	struct work works[THREADS][2];
	pthread_t ids[THREADS];

	if (run->threads < MPI_THREAD_MULTIPLE)
		return 0;
	for (size_t i = 0; i < THREADS * 2; i++) {
		struct work *w = &works[i / 2][i % 2];
		const struct ft_buf *buf = &run->pool[i / 2 % run->kinds].buf;

		*w = (struct work){.in = buf->addr + 2 * i * ROOM,
				   .out = buf->addr + (2 * i + 1) * ROOM,
				   .n = i % 2 ? LONGEST : 17,
				   .rank = run->rank,
				   .ranks = run->ranks,
				   .type = MPI_INT,
				   .comm = works[i / 2][0].comm};
		if (i % 2 == 0)
			MPI_Comm_dup(MPI_COMM_WORLD, &w->comm);
		for (int to = 0; to < run->ranks; to++)
			FT_TRY(part_fill(buf, w, to));
	}
	for (int i = 0; i < THREADS; i++)
		pthread_create(&ids[i], NULL, thread_main, works[i]);
	for (int i = 0; i < THREADS; i++)
		pthread_join(ids[i], NULL);
	for (size_t i = 0; i < THREADS * 2; i++)
		for (int from = 0; from < run->ranks; from++)
			FT_TRY(part_check(&run->pool[i / 2 % run->kinds].buf,
					  &works[i / 2][i % 2], from));
	for (int i = 0; i < THREADS; i++)
		MPI_Comm_free(&works[i][0].comm);
	return 0;
}

static int run_all(struct mpi_run *run)
{
	const int periodic = 1;
	MPI_Datatype types[2] = {MPI_INT}, vector;
	MPI_Comm plain, ring, plain_ring;
	MPI_Group group;
	uint64_t seed = (uint64_t) run->rank + 1;

	FT_CHECK(run->ranks <= RANKS_MOST, "no more than %d ranks", RANKS_MOST);
	for (size_t i = 0; i < ROOM; i += sizeof seed) {
		const uint64_t number = ft_random(&seed);

		memcpy(original + i, &number, sizeof number);
	}
	gpu = run->kinds > 1 ? &run->pool[1].buf : NULL;
	if (run->kinds > 1)
		mpi_sent_watch(run->pool[1].buf.addr, POOL);
	MPI_Type_vector(3, 400, 500, MPI_INT, &vector);
	MPI_Type_create_resized(vector, 0, 6000, &types[1]);
	MPI_Type_commit(&types[1]);
	MPI_Comm_group(MPI_COMM_WORLD, &group);
	MPI_Comm_create_group(MPI_COMM_WORLD, group, 0, &plain);
	/* of two ranks, MPI alone confuses directions */
	MPI_Cart_create(MPI_COMM_WORLD, 1, &run->ranks, &(int){run->ranks > 2 && periodic}, 0,
			&ring);
	MPI_Cart_create(plain, 1, &run->ranks, &(int){run->ranks > 2 && periodic}, 0,
			&plain_ring);
	if (gpu)
		FT_TRY(from_gpu(run, ring));
	if (run->ranks > 1)
		FT_TRY(nobody_waits(run, ring));
	for (size_t kind = 0; gpu && run->ranks > 1 && kind < run->kinds; kind++)
		FT_TRY(too_long(run, ring, kind));
	for (int i = 0; i < ROUNDS; i++) {
		mpi_stage(run, "round %d", i);
		FT_TRY(one_round(run, plain_ring, ring, types));
	}
	mpi_stage(run, "threads");
	FT_TRY(threads(run));
	MPI_Comm_free(&plain_ring);
	MPI_Comm_free(&ring);
	MPI_Comm_free(&plain);
	MPI_Group_free(&group);
	MPI_Type_free(&types[1]);
	MPI_Type_free(&vector);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "several collective calls at a time, with libp2p-mpi",
		.ranks = 1,
		.threads = MPI_THREAD_MULTIPLE,
		.pool = POOL,
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
