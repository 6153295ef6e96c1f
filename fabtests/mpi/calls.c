/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_calls: every call of MPI that has a buffer, on host memory and then on each other kind. All bytes are the same
 * afterwards, those in gaps and around the data too. What MPI does itself wants libp2p-mpi.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpi_test.h"

#define ROOM (1ul << 20)
#define TAG 7

/**
 * struct twin - what a call works on.
 * @in, @out:	memory of the kind at hand; @n, @type: elements for each rank
 * @bytes, @room: from one rank's to the next one's; all that calls may touch of @in, and of @out
 * @later:	the form that does not block
 * @comm:	the world, or a part of it
 */
struct twin {
	char *in, *out;
	int n, rank, ranks, next, last;
	MPI_Datatype type;
	size_t bytes, room;
	bool later;
	MPI_Comm comm;
	char *file;
};

/* As many numbers fit where elements of the longest type are. */
#define NUMBERS(t) ((t)->n * 3)

/* The call as it is, or the form that does not block and a wait */
#define DO(twin, name, later_name, ...)                                                        \
	do {                                                                                   \
		MPI_Request request_;                                                          \
                                                                                               \
		if ((twin)->later) {                                                           \
			MPI_##later_name(__VA_ARGS__, &request_);                              \
			MPI_Wait(&request_, MPI_STATUS_IGNORE);                                \
		} else {                                                                       \
			MPI_##name(__VA_ARGS__);                                               \
		}                                                                              \
	} while (0)

/* ---- messages: each rank sends to the next ---- */

static MPI_Request expect(const struct twin *t)
{
	MPI_Request request;

	MPI_Irecv(t->out, t->n, t->type, t->last, TAG, t->comm, &request);
	return request;
}

static void do_send(struct twin *t)
{
	MPI_Request request = expect(t);

	DO(t, Send, Isend, t->in, t->n, t->type, t->next, TAG, t->comm);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void do_ssend(struct twin *t)
{
	MPI_Request request = expect(t);

	DO(t, Ssend, Issend, t->in, t->n, t->type, t->next, TAG, t->comm);
	while (true) {
		int done;

		MPI_Test(&request, &done, MPI_STATUS_IGNORE);
		if (done)
			break;
	}
}

static void do_rsend(struct twin *t)
{
	MPI_Request request = expect(t), requests[2];
	int index;

	MPI_Barrier(t->comm);
	requests[0] = MPI_REQUEST_NULL;
	if (t->later)
		MPI_Irsend(t->in, t->n, t->type, t->next, TAG, t->comm, &requests[0]);
	else
		MPI_Rsend(t->in, t->n, t->type, t->next, TAG, t->comm);
	requests[1] = request;
	for (int i = t->later ? 0 : 1; i < 2; i++)
		MPI_Waitany(2, requests, &index, MPI_STATUS_IGNORE);
}

static void do_bsend(struct twin *t)
{
	void *buffer = t->out + t->room / 2;
	MPI_Request request = expect(t);
	int size;

	MPI_Buffer_attach(buffer, (int) t->room / 4);
	DO(t, Bsend, Ibsend, t->in, t->n, t->type, t->next, TAG, t->comm);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	MPI_Buffer_detach(&buffer, &size);
	/* MPI may have left anything there */
	MPI_Allreduce(t->in, buffer, size / 4, MPI_INT, MPI_MAX, MPI_COMM_SELF);
}

static void do_sendrecv(struct twin *t)
{
	MPI_Sendrecv(t->in, t->n, t->type, t->next, TAG, t->out, t->n, t->type, t->last, TAG,
		     t->comm, MPI_STATUS_IGNORE);
}

static void do_replace(struct twin *t)
{
	MPI_Sendrecv_replace(t->out, t->n, t->type, t->next, TAG, t->last, TAG, t->comm,
			     MPI_STATUS_IGNORE);
}

static void do_mrecv(struct twin *t)
{
	MPI_Request request;
	MPI_Message message;

	MPI_Isend(t->in, t->n, t->type, t->next, TAG, t->comm, &request);
	MPI_Mprobe(t->last, TAG, t->comm, &message, MPI_STATUS_IGNORE);
	if (t->later) {
		MPI_Request both[2] = {request, MPI_REQUEST_NULL};

		MPI_Imrecv(t->out, t->n, t->type, &message, &both[1]);
		MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
		return;
	}
	MPI_Mrecv(t->out, t->n, t->type, &message, MPI_STATUS_IGNORE);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* Begun several times; the second message is longer by what the first has received */
static void do_persistent(struct twin *t)
{
	MPI_Request requests[2];
	MPI_Status statuses[2];
	int flag;

	MPI_Recv_init(t->out, t->n, t->type, t->last, TAG, t->comm, &requests[0]);
	if (t->later)
		MPI_Ssend_init(t->in, t->n, t->type, t->next, TAG, t->comm, &requests[1]);
	else
		MPI_Send_init(t->in, t->n, t->type, t->next, TAG, t->comm, &requests[1]);
	for (int i = 0; i < 3; i++) {
		MPI_Startall(2, requests);
		do {
			MPI_Testall(2, requests, &flag, statuses);
		} while (!flag);
	}
	MPI_Start(&requests[0]);
	MPI_Start(&requests[1]);
	do {
		MPI_Request_get_status(requests[0], &flag, statuses);
	} while (!flag);
	MPI_Waitall(2, requests, statuses);
	MPI_Request_free(&requests[0]);
	MPI_Request_free(&requests[1]);
}

/* Requests that have mirrors and others, in one list, four messages each way */
static void do_mixed(struct twin *t)
{
	static int plain[2][2];
	MPI_Request requests[8];
	MPI_Status statuses[8];
	int indices[8], ended, left = 8, most = t->n / 2;

	for (int i = 0; i < 2; i++) {
		const size_t half = (size_t) i * (t->bytes / 2);

		plain[0][i] = t->rank + i;
		MPI_Irecv(t->out + half, most, t->type, t->last, i, t->comm, &requests[i]);
		MPI_Irecv(&plain[1][i], 1, MPI_INT, t->last, 2 + i, t->comm, &requests[2 + i]);
	}
	for (int i = 0; i < 2; i++) {
		const size_t half = (size_t) i * (t->bytes / 2);

		MPI_Isend(t->in + half, most, t->type, t->next, i, t->comm, &requests[4 + i]);
		MPI_Isend(&plain[0][i], 1, MPI_INT, t->next, 2 + i, t->comm, &requests[6 + i]);
	}
	while (left > 0) {
		if (t->later)
			MPI_Testsome(8, requests, &ended, indices, statuses);
		else
			MPI_Waitsome(8, requests, &ended, indices, MPI_STATUSES_IGNORE);
		left -= ended;
	}
}

/* What is behind a message that is shorter than its receive stays */
static void do_short(struct twin *t)
{
	MPI_Request request = expect(t);

	DO(t, Send, Isend, t->in, t->n / 2, t->type, t->next, TAG, t->comm);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
}

/* The sender gives its request up at once. */
static void do_freed(struct twin *t)
{
	MPI_Request request;

	MPI_Issend(t->in, t->n, t->type, t->next, TAG, t->comm, &request);
	MPI_Request_free(&request);
	request = expect(t);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
	MPI_Barrier(t->comm);
}

/* A type that has addresses */
static void do_bottom(struct twin *t)
{
	const int lengths[2] = {1, 5};
	const MPI_Datatype types[2] = {t->type, MPI_INT};
	MPI_Aint at[2];
	MPI_Datatype type;

	MPI_Get_address(t->in, &at[0]);
	MPI_Get_address(t->in + t->bytes, &at[1]);
	MPI_Type_create_struct(2, lengths, at, types, &type);
	MPI_Type_commit(&type);
	MPI_Sendrecv(MPI_BOTTOM, 1, type, t->next, TAG, t->out, NUMBERS(t), MPI_INT, t->last,
		     TAG, t->comm, MPI_STATUS_IGNORE);
	MPI_Type_free(&type);
}

/* ---- all ranks ---- */

static void do_bcast(struct twin *t)
{
	DO(t, Bcast, Ibcast, t->out, t->n, t->type, t->ranks - 1, t->comm);
}

static void do_gather(struct twin *t)
{
	DO(t, Gather, Igather, t->in, t->n, t->type, t->out, t->n, t->type, 0, t->comm);
}

static void do_gather_in_place(struct twin *t)
{
	char *own = t->out + (size_t) t->rank * t->bytes;

	DO(t, Gather, Igather, t->rank ? own : MPI_IN_PLACE, t->n, t->type, t->out, t->n,
	   t->type, 0, t->comm);
}

static void do_scatter(struct twin *t)
{
	DO(t, Scatter, Iscatter, t->in, t->n, t->type, t->out, t->n, t->type, 0, t->comm);
}

static void do_allgather(struct twin *t)
{
	DO(t, Allgather, Iallgather, t->in, t->n, t->type, t->out, t->n, t->type, t->comm);
}

static void do_allgather_in_place(struct twin *t)
{
	DO(t, Allgather, Iallgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, t->out, t->n, t->type,
	   t->comm);
}

static void do_alltoall(struct twin *t)
{
	DO(t, Alltoall, Ialltoall, t->in, t->n, t->type, t->out, t->n, t->type, t->comm);
}

static void do_alltoall_in_place(struct twin *t)
{
	MPI_Alltoall(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, t->out, t->n, t->type, t->comm);
}

/* Blocks of different lengths, in another order, with places between them */
struct blocks {
	int counts[16], displs[16], bytes[16];
	MPI_Datatype types[16];
};

static struct blocks blocks_of(const struct twin *t)
{
	struct blocks blocks;

	for (int i = 0; i < t->ranks; i++) {
		blocks.counts[i] = t->n - i;
		blocks.displs[i] = (t->ranks - 1 - i) * t->n;
		blocks.bytes[i] = (int) ((size_t) (t->ranks - 1 - i) * t->bytes);
		blocks.types[i] = t->type;
	}
	return blocks;
}

/* What others have for this rank: as long as its own place in their blocks */
static struct blocks blocks_from(const struct twin *t)
{
	struct blocks blocks = blocks_of(t);

	for (int i = 0; i < t->ranks; i++)
		blocks.counts[i] = t->n - t->rank;
	return blocks;
}

static void do_gatherv(struct twin *t)
{
	struct blocks blocks = blocks_of(t);
	const int *counts = t->rank == t->ranks - 1 ? blocks.counts : NULL;

	DO(t, Gatherv, Igatherv, t->in, t->n - t->rank, t->type, t->out, counts, blocks.displs,
	   t->type, t->ranks - 1, t->comm);
}

static void do_scatterv(struct twin *t)
{
	struct blocks blocks = blocks_of(t);

	DO(t, Scatterv, Iscatterv, t->in, t->rank ? NULL : blocks.counts, blocks.displs,
	   t->type, t->out, t->n - t->rank, t->type, 0, t->comm);
}

static void do_allgatherv(struct twin *t)
{
	struct blocks blocks = blocks_of(t);

	DO(t, Allgatherv, Iallgatherv, t->in, t->n - t->rank, t->type, t->out, blocks.counts,
	   blocks.displs, t->type, t->comm);
}

static void do_alltoallv(struct twin *t)
{
	struct blocks to = blocks_of(t), from = blocks_from(t);

	DO(t, Alltoallv, Ialltoallv, t->in, to.counts, to.displs, t->type, t->out, from.counts,
	   from.displs, t->type, t->comm);
}

static void do_alltoallw(struct twin *t)
{
	struct blocks to = blocks_of(t), from = blocks_from(t);

	DO(t, Alltoallw, Ialltoallw, t->in, to.counts, to.bytes, to.types, t->out, from.counts,
	   from.bytes, from.types, t->comm);
}

/* ---- reductions, of numbers: the type does not matter ---- */

static void do_reduce(struct twin *t)
{
	DO(t, Reduce, Ireduce, t->in, t->out, NUMBERS(t), MPI_INT, MPI_SUM, 0, t->comm);
}

static void do_reduce_in_place(struct twin *t)
{
	DO(t, Reduce, Ireduce, t->rank ? t->out : MPI_IN_PLACE, t->out, NUMBERS(t), MPI_INT,
	   MPI_MAX, 0, t->comm);
}

static void do_allreduce(struct twin *t)
{
	DO(t, Allreduce, Iallreduce, t->in, t->out, NUMBERS(t), MPI_INT, MPI_SUM, t->comm);
}

static void do_allreduce_in_place(struct twin *t)
{
	DO(t, Allreduce, Iallreduce, MPI_IN_PLACE, t->out, NUMBERS(t), MPI_INT, MPI_SUM,
	   t->comm);
}

static void do_pairs(struct twin *t)
{
	DO(t, Allreduce, Iallreduce, t->in, t->out, NUMBERS(t) / 4, MPI_SHORT_INT, MPI_MINLOC,
	   t->comm);
}

static void add_first(void *in, void *inout, int *len, MPI_Datatype *type)
{
	MPI_Aint low, first, extent, len_of_data;

	MPI_Type_get_extent(*type, &low, &extent);
	MPI_Type_get_true_extent(*type, &first, &len_of_data);
	for (int i = 0; i < *len; i++) {
		const int *a = (const int *) ((const char *) in + i * extent + first);

		*(int *) ((char *) inout + i * extent + first) += *a;
	}
}

static void do_own_operation(struct twin *t)
{
	MPI_Op op;

	/* what is not first is of the last rank; nor does Open MPI 4.1's ring, for others, have room for a gap before the data */
	MPI_Op_create(add_first, 0, &op);
	DO(t, Allreduce, Iallreduce, t->in, t->out, t->n, t->type, op, t->comm);
	MPI_Op_free(&op);
}

static void do_scan(struct twin *t)
{
	DO(t, Scan, Iscan, t->in, t->out, NUMBERS(t), MPI_INT, MPI_SUM, t->comm);
}

static void do_exscan(struct twin *t)
{
	DO(t, Exscan, Iexscan, t->in, t->out, NUMBERS(t), MPI_INT, MPI_SUM, t->comm);
}

static void do_reduce_scatter(struct twin *t)
{
	struct blocks blocks = blocks_of(t);

	DO(t, Reduce_scatter, Ireduce_scatter, t->in, t->out, blocks.counts, MPI_INT, MPI_SUM,
	   t->comm);
}

static void do_reduce_scatter_in_place(struct twin *t)
{
	struct blocks blocks = blocks_of(t);

	MPI_Reduce_scatter(MPI_IN_PLACE, t->out, blocks.counts, MPI_INT, MPI_SUM, t->comm);
}

static void do_reduce_scatter_block(struct twin *t)
{
	DO(t, Reduce_scatter_block, Ireduce_scatter_block, t->in, t->out, t->n, MPI_INT,
	   MPI_SUM, t->comm);
}

static void do_reduce_local(struct twin *t)
{
	MPI_Reduce_local(t->in, t->out, NUMBERS(t), MPI_INT, MPI_SUM);
}

/* As a Fortran program calls it: the MPI's own library for that calls C. Nothing where there is none */
static void do_fortran(struct twin *t)
{
	void *library = dlopen("libmpi_mpifh.so.40", RTLD_NOW | RTLD_GLOBAL);
	void (*allreduce)(const void *, void *, MPI_Fint *, MPI_Fint *, MPI_Fint *, MPI_Fint *,
			  MPI_Fint *) = NULL;
	MPI_Fint count = NUMBERS(t), type = MPI_Type_c2f(MPI_INT), op = MPI_Op_c2f(MPI_SUM),
		 comm = MPI_Comm_c2f(t->comm), error = 0;

	if (library)
		*(void **) &allreduce = dlsym(library, "mpi_allreduce_");
	if (allreduce)
		allreduce(t->in, t->out, &count, &type, &op, &comm, &error);
	if (error)
		MPI_Abort(t->comm, error);
}

/* ---- neighbours ---- */

static MPI_Comm ring_of(const struct twin *t)
{
	const int dims[1] = {t->ranks}, periods[1] = {0};
	MPI_Comm ring;

	/* the ends have a neighbour each that is none */
	MPI_Cart_create(t->comm, 1, dims, periods, 0, &ring);
	return ring;
}

static void do_neighbors(struct twin *t)
{
	int counts[2] = {t->n, t->n - 1}, turned[2] = {t->n - 1, t->n}, displs[2] = {t->n, 0};
	const MPI_Aint bytes[2] = {(MPI_Aint) t->bytes, 0};
	MPI_Datatype types[2] = {t->type, t->type};
	MPI_Comm ring = ring_of(t);

	DO(t, Neighbor_allgather, Ineighbor_allgather, t->in, t->n, t->type, t->out, t->n,
	   t->type, ring);
	DO(t, Neighbor_alltoall, Ineighbor_alltoall, t->out, t->n, t->type, t->in, t->n,
	   t->type, ring);
	DO(t, Neighbor_allgatherv, Ineighbor_allgatherv, t->in, t->n - 1, t->type, t->out,
	   (int[]){t->n - 1, t->n - 1}, displs, t->type, ring);
	DO(t, Neighbor_alltoallv, Ineighbor_alltoallv, t->out, counts, displs, t->type, t->in,
	   turned, displs, t->type, ring);
	DO(t, Neighbor_alltoallw, Ineighbor_alltoallw, t->in, counts, bytes, types, t->out,
	   turned, bytes, types, ring);
	MPI_Comm_free(&ring);
}

/* ---- by itself ---- */

static void do_pack(struct twin *t)
{
	int size, position = 3;
	char *packed;

	MPI_Pack_size(t->n, t->type, t->comm, &size);
	packed = malloc((size_t) size + 3);
	MPI_Pack(t->in, t->n, t->type, packed, size + 3, &position, t->comm);
	position = 3;
	MPI_Unpack(packed, size + 3, &position, t->out, t->n, t->type, t->comm);
	free(packed);
}

static void do_pack_there(struct twin *t)
{
	char *packed = t->out + t->bytes;
	int size, position = 0;
	MPI_Aint place = 5;

	MPI_Pack_size(t->n, t->type, t->comm, &size);
	MPI_Pack(t->in, t->n, t->type, packed, size, &position, t->comm);
	packed += size;
	MPI_Pack_external("external32", t->in, t->n, t->type, packed, size + 5, &place);
	place = 5;
	MPI_Unpack_external("external32", packed, size + 5, &place, t->out, t->n, t->type);
}

/* ---- one-sided: windows of host memory ---- */

static void do_window(struct twin *t)
{
	MPI_Request request;
	MPI_Win win;
	char *memory = mpi_window((size_t) t->ranks * t->bytes, &win);

	if (!memory)
		return;
	MPI_Win_fence(0, win);
	MPI_Put(t->in, t->n, t->type, t->next, (MPI_Aint) ((size_t) t->rank * t->bytes), t->n,
		t->type, win);
	MPI_Win_fence(0, win);
	MPI_Accumulate(t->in, t->n, MPI_INT, t->next, 0, t->n, MPI_INT, MPI_SUM, win);
	MPI_Win_fence(0, win);
	MPI_Get(t->out, t->n, t->type, t->next, (MPI_Aint) ((size_t) t->rank * t->bytes), t->n,
		t->type, win);
	MPI_Win_fence(0, win);
	MPI_Win_lock(MPI_LOCK_EXCLUSIVE, t->next, 0, win);
	MPI_Get_accumulate(t->in, t->n, MPI_INT, t->out + t->bytes, t->n, MPI_INT, t->next, 0,
			   t->n, MPI_INT, MPI_SUM, win);
	MPI_Win_flush(t->next, win);
	MPI_Fetch_and_op(t->in, t->out, MPI_INT, t->next, 0, MPI_SUM, win);
	MPI_Win_unlock(t->next, win);
	MPI_Win_lock_all(0, win);
	MPI_Compare_and_swap(t->in, t->in + 4, t->out + 4, MPI_INT, t->next, 4, win);
	MPI_Win_flush_local_all(win);
	if (t->later) {
		MPI_Rput(t->in, t->n, t->type, t->next, 0, t->n, t->type, win, &request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		MPI_Win_flush_all(win);
		MPI_Rget(t->out, t->n, t->type, t->next, 0, t->n, t->type, win, &request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	}
	MPI_Win_unlock_all(win);
	MPI_Win_free(&win);
	free(memory);
}

/* ---- files ---- */

static void do_file(struct twin *t)
{
	const MPI_Offset mine = (MPI_Offset) ((size_t) t->rank * t->bytes);
	MPI_Request request;
	MPI_File file;

	MPI_File_open(t->comm, t->file, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
	if (t->later) {
		MPI_File_iwrite_at(file, mine, t->in, t->n, t->type, &request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
		MPI_Barrier(t->comm);
		MPI_File_read_at_all_begin(file, mine, t->out, t->n, t->type);
		MPI_File_read_at_all_end(file, t->out, MPI_STATUS_IGNORE);
		MPI_File_iread_at(file, mine, t->out + t->bytes, t->n, t->type, &request);
		MPI_Wait(&request, MPI_STATUS_IGNORE);
	} else {
		MPI_File_write_at_all(file, mine, t->in, t->n, t->type, MPI_STATUS_IGNORE);
		MPI_Barrier(t->comm);
		MPI_File_seek(file, mine, MPI_SEEK_SET);
		MPI_File_read(file, t->out, t->n, t->type, MPI_STATUS_IGNORE);
	}
	MPI_File_close(&file);
}

/* ---- between two groups ---- */

static void do_between(struct twin *t)
{
	int side = t->rank % 2, root;
	MPI_Comm half, between;

	if (t->ranks < 2)
		return;
	MPI_Comm_split(t->comm, side, t->rank, &half);
	MPI_Intercomm_create(half, 0, t->comm, 1 - side, TAG, &between);
	root = side ? 0 : t->rank == 0 ? MPI_ROOT : MPI_PROC_NULL;
	DO(t, Allreduce, Iallreduce, t->in, t->out, NUMBERS(t), MPI_INT, MPI_SUM, between);
	DO(t, Gather, Igather, t->in, t->n, t->type, t->out, t->n, t->type, root, between);
	DO(t, Bcast, Ibcast, t->out, t->n, t->type, root, between);
	DO(t, Alltoall, Ialltoall, t->in, t->n, t->type, t->out, t->n, t->type, between);
	MPI_Comm_free(&between);
	MPI_Comm_free(&half);
}

/* ---- the test ---- */

static const struct call {
	const char *name;
	void (*run)(struct twin *t);
} calls[] = {
	{"Send", do_send},
	{"Ssend", do_ssend},
	{"Rsend", do_rsend},
	{"Bsend", do_bsend},
	{"Sendrecv", do_sendrecv},
	{"Sendrecv_replace", do_replace},
	{"Mrecv", do_mrecv},
	{"Start", do_persistent},
	{"Waitsome", do_mixed},
	{"a short message", do_short},
	{"Request_free", do_freed},
	{"MPI_BOTTOM", do_bottom},
	{"Bcast", do_bcast},
	{"Gather", do_gather},
	{"Gather in place", do_gather_in_place},
	{"Scatter", do_scatter},
	{"Allgather", do_allgather},
	{"Allgather in place", do_allgather_in_place},
	{"Alltoall", do_alltoall},
	{"Alltoall in place", do_alltoall_in_place},
	{"Gatherv", do_gatherv},
	{"Scatterv", do_scatterv},
	{"Allgatherv", do_allgatherv},
	{"Alltoallv", do_alltoallv},
	{"Alltoallw", do_alltoallw},
	{"Reduce", do_reduce},
	{"Reduce in place", do_reduce_in_place},
	{"Allreduce", do_allreduce},
	{"Allreduce in place", do_allreduce_in_place},
	{"Allreduce of pairs", do_pairs},
	{"Allreduce by an own operation", do_own_operation},
	{"Scan", do_scan},
	{"Exscan", do_exscan},
	{"Reduce_scatter", do_reduce_scatter},
	{"Reduce_scatter in place", do_reduce_scatter_in_place},
	{"Reduce_scatter_block", do_reduce_scatter_block},
	{"Reduce_local", do_reduce_local},
	{"mpi_allreduce_", do_fortran},
	{"Neighbor", do_neighbors},
	{"Pack", do_pack},
	{"Pack there", do_pack_there},
	{"Win", do_window},
	{"File", do_file},
	{"between groups", do_between},
};

/* Numbers that stay small: sums do not overflow */
static void fill(char *memory, size_t len, uint64_t seed)
{
	for (size_t i = 0; i + sizeof(int) <= len; i += sizeof(int)) {
		const int number = (int) (ft_random(&seed) % 1000);

		memcpy(memory + i, &number, sizeof number);
	}
}

/* On memory of @kind; what is in both areas afterwards goes to @result. */
static int once(struct mpi_run *run, const struct call *call, struct twin *t, size_t kind,
		size_t shift, char *result)
{
	struct ft_buf *buf = &run->pool[kind].buf;

	fill(result, 2 * t->room, (uint64_t) t->rank + 1);
	FT_TRY(buf->ops->to(buf->addr, result, 2 * t->room));
	t->in = buf->addr + shift;
	t->out = buf->addr + t->room + shift;
	call->run(t);
	return buf->ops->from(result, buf->addr, 2 * t->room);
}

static int twice(struct mpi_run *run, const struct call *call, struct twin *t, const char *type,
		 size_t shift)
{
	static char expected[2 * ROOM], found[2 * ROOM];

	mpi_stage(run, "%s, %d elements of %s%s", call->name, t->n, type,
		  t->later ? ", later" : "");
	FT_TRY(once(run, call, t, 0, shift, expected));
	for (size_t kind = 1; kind < run->kinds; kind++) {
		FT_TRY(once(run, call, t, kind, shift, found));
		for (size_t i = 0; i < 2 * t->room; i++)
			FT_CHECK(found[i] == expected[i],
				 "%s, %d elements of %s%s: byte %zu of %s is %d, not %d",
				 call->name, t->n, type, t->later ? ", later" : "", i % t->room,
				 i < t->room ? "what is read" : "what is written", found[i],
				 expected[i]);
	}
	return 0;
}

struct kind {
	const char *name;
	MPI_Datatype type;
};

static void make_kinds(struct kind kinds[4])
{
	const int sizes[2] = {8, 8}, parts[2] = {5, 3}, starts[2] = {2, 4}, lengths[2] = {2, 1};
	const MPI_Aint displs[2] = {8, 0};
	MPI_Datatype vector, types[2] = {MPI_SHORT, MPI_INT};

	kinds[0] = (struct kind){"int", MPI_INT};
	MPI_Type_vector(3, 2, 5, MPI_INT, &vector);
	kinds[1].name = "vector";
	MPI_Type_create_resized(vector, 0, 64, &kinds[1].type);
	MPI_Type_free(&vector);
	kinds[2].name = "array";
	MPI_Type_create_subarray(2, sizes, parts, starts, MPI_ORDER_FORTRAN, MPI_INT,
				 &kinds[2].type);
	kinds[3].name = "struct";
	MPI_Type_create_struct(2, lengths, displs, types, &kinds[3].type);
	for (int i = 1; i < 4; i++)
		MPI_Type_commit(&kinds[i].type);
}

/* A buffer that leaves its allocation is an error, which says so, and writes nothing. */
static int beyond(struct mpi_run *run)
{
	char text[MPI_MAX_ERROR_STRING];
	int ret, class, len;

	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	for (size_t kind = 1; kind < run->kinds; kind++) {
		const struct ft_buf *buf = &run->pool[kind].buf;
		char *end = buf->addr + buf->size;

		ret = MPI_Allreduce(end - 64, end - 64, 1000, MPI_INT, MPI_SUM, MPI_COMM_SELF);
		MPI_Error_class(ret, &class);
		MPI_Error_string(ret, text, &len);
		FT_CHECK(class == MPI_ERR_BUFFER && strstr(text, "libp2p-mpi"),
			 "beyond an allocation: class %d, %s", class, text);
	}
	return 0;
}

static int run_all(struct mpi_run *run)
{
	static const int counts[] = {17, 700};
	struct kind kinds[4];
	char file[64];
	struct twin t = {
		.rank = run->rank,
		.ranks = run->ranks,
		.next = (run->rank + 1) % run->ranks,
		.last = (run->rank + run->ranks - 1) % run->ranks,
		.comm = MPI_COMM_WORLD,
		.file = file,
	};
	int pid = (int) getpid();

	MPI_Bcast(&pid, 1, MPI_INT, 0, MPI_COMM_WORLD);
	snprintf(file, sizeof file, "/tmp/fi_p2p_mpi_calls.%d", pid);
	FT_TRY(beyond(run));
	make_kinds(kinds);
	for (size_t i = 0; i < FT_COUNT(calls) * FT_COUNT(kinds) * FT_COUNT(counts) * 2; i++) {
		const struct call *call = &calls[i % FT_COUNT(calls)];
		const size_t rest = i / FT_COUNT(calls);
		MPI_Aint low, extent;

		if ((run->opts.quick && (i % FT_COUNT(calls) + rest) % 4 != rest / 4) ||
		    (run->mpich && call->run == do_pack_there && rest % 4 == 3))
			continue; /* MPICH's MPI_Pack_external divides by zero */
		t.n = counts[rest / 4 % FT_COUNT(counts)];
		t.later = rest / 4 / FT_COUNT(counts);
		t.type = kinds[rest % 4].type;
		MPI_Type_get_extent(t.type, &low, &extent);
		t.bytes = (size_t) t.n * (size_t) extent;
		t.room = FT_MIN(2 * (size_t) (t.ranks + 1) * t.bytes + 16384, ROOM);
		FT_TRY(twice(run, call, &t, kinds[rest % 4].name, 4 * (i % 16)));
	}
	if (run->rank == 0)
		unlink(file);
	for (int i = 1; i < 4; i++)
		MPI_Type_free(&kinds[i].type);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "every call that has a buffer, with libp2p-mpi",
		.ranks = 1,
		.pool = 2 * ROOM,
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
