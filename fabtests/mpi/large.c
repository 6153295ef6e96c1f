/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_large: the calls of MPI 4 with counts of 64 bits. Each runs with host memory and with the GPU's, and has to
 * leave the same in both. What they send has gaps: datatypes that such calls have made.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpi_test.h"

#if MPI_VERSION >= 4

#define ROOM 4096
#define COUNT 3
#define TAG 3

/**
 * struct work - what a call works on.
 * @in, @out:	memory of the kind at hand, a place for each rank in both
 * @wrong:	the call has returned what it should not
 */
struct work {
	const struct ft_buf *buf;
	int *in, *out;
	MPI_Datatype type;
	int rank, ranks, next, last;
	bool wrong;
};

#define WORLD MPI_COMM_WORLD

static void sends(struct work *w)
{
	MPI_Request request;

	MPI_Isend_c(w->in, COUNT, w->type, w->next, TAG, WORLD, &request);
	MPI_Recv_c(w->out, COUNT, w->type, w->last, TAG, WORLD, MPI_STATUS_IGNORE);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void replaces(struct work *w)
{
	MPI_Sendrecv_replace_c(w->out, COUNT, w->type, w->next, TAG, w->last, TAG, WORLD,
			       MPI_STATUS_IGNORE);
}

static void sends_buffered(struct work *w)
{
	static char buffer[ROOM + MPI_BSEND_OVERHEAD];
	void *detached;
	MPI_Count size;

	MPI_Buffer_attach_c(buffer, sizeof buffer);
	MPI_Bsend_c(w->in, COUNT, w->type, w->next, TAG, WORLD);
	MPI_Recv_c(w->out, COUNT, w->type, w->last, TAG, WORLD, MPI_STATUS_IGNORE);
	MPI_Buffer_detach_c(&detached, &size);
}

static void adds(struct work *w)
{
	MPI_Allreduce_c(w->in, w->out, COUNT, MPI_INT, MPI_SUM, WORLD);
	MPI_Scan_c(w->in, w->out + COUNT, COUNT, MPI_INT, MPI_SUM, WORLD);
	MPI_Reduce_local_c(w->in, w->out + 2 * COUNT, COUNT, MPI_INT, MPI_SUM);
}

static void scatters_sums(struct work *w)
{
	MPI_Count counts[16];

	for (int i = 0; i < w->ranks; i++)
		counts[i] = i + 1;
	MPI_Reduce_scatter_c(w->in, w->out, counts, MPI_INT, MPI_SUM, WORLD);
}

static void gathers(struct work *w)
{
	MPI_Allgather_c(w->in, 1, MPI_INT, w->out, 1, MPI_INT, WORLD);
}

static void gathers_vectors(struct work *w)
{
	MPI_Count counts[16];
	MPI_Aint displs[16];

	for (int i = 0; i < w->ranks; i++) {
		counts[i] = i + 1;
		displs[i] = (MPI_Aint) 20 * i;
	}
	MPI_Gatherv_c(w->in, w->rank + 1, MPI_INT, w->out, counts, displs, MPI_INT, 0, WORLD);
}

static void exchanges(struct work *w)
{
	MPI_Count counts[16];
	MPI_Aint displs[16];
	MPI_Datatype types[16];
	MPI_Request request;

	for (int i = 0; i < w->ranks; i++) {
		counts[i] = 1;
		displs[i] = i * 256;
		types[i] = w->type;
	}
	MPI_Ialltoallw_c(w->in, counts, displs, types, w->out, counts, displs, types, WORLD,
			 &request);
	MPI_Wait(&request, MPI_STATUS_IGNORE);
}

static void packs(struct work *w)
{
	MPI_Count position = 0, end = 0;

	MPI_Pack_c(w->in, COUNT, w->type, w->out, ROOM, &position, WORLD);
	MPI_Unpack_c(w->out, position, &end, w->in, COUNT, w->type, WORLD);
}

static void puts_there(struct work *w)
{
	MPI_Win win;
	int *memory = (int *) mpi_window(ROOM, &win);

	if (!memory)
		return;
	MPI_Win_fence(0, win);
	MPI_Put_c(w->in, 1, w->type, w->next, 0, 1, w->type, win);
	MPI_Win_fence(0, win);
	MPI_Get_c(w->out, 1, w->type, w->last, 0, 1, w->type, win);
	MPI_Win_fence(0, win);
	MPI_Win_free(&win);
	free(memory);
}

static void writes(struct work *w)
{
	char name[64];
	MPI_File file;
	int pid = (int) getpid();

	MPI_Bcast(&pid, 1, MPI_INT, 0, WORLD);
	snprintf(name, sizeof name, "/tmp/fi_p2p_mpi_large.%d", pid);
	MPI_File_open(WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE,
		      MPI_INFO_NULL, &file);
	/* MPICH 4.0 ends at the datatypes here */
	MPI_File_write_at_all_c(file, (MPI_Offset) w->rank * ROOM, w->in, COUNT, MPI_INT,
				MPI_STATUS_IGNORE);
	MPI_File_read_at_all_begin_c(file, (MPI_Offset) w->rank * ROOM, w->out, COUNT, MPI_INT);
	MPI_File_read_at_all_end(file, w->out, MPI_STATUS_IGNORE);
	MPI_File_close(&file);
}

#if MPI_VERSION > 4 || MPI_SUBVERSION >= 1
static void attaches(struct work *w)
{
	char *buffer = w->buf->addr + 2 * ROOM;
	void *detached;
	MPI_Session session;
	int size;

	MPI_Buffer_attach(MPI_BUFFER_AUTOMATIC, 0);
	MPI_Buffer_detach(&detached, &size);
	MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
	MPI_Session_attach_buffer(session, buffer, ROOM);
	MPI_Comm_attach_buffer(WORLD, buffer + ROOM, ROOM);
	MPI_Bsend(w->in, COUNT, w->type, w->next, TAG, WORLD);
	MPI_Recv(w->out, COUNT, w->type, w->last, TAG, WORLD, MPI_STATUS_IGNORE);
	MPI_Comm_detach_buffer(WORLD, &detached, &size);
	w->wrong |= detached != buffer + ROOM;
	MPI_Session_detach_buffer(session, &detached, &size);
	w->wrong |= detached != buffer;
	MPI_Session_finalize(&session);
}

/* The data of a receive is there when it is seen to be done, by any of these calls. */
static void asks(struct work *w)
{
	char there[ROOM / 16];
	MPI_Request requests[2];
	int index, indices[2], done;

	for (int way = 0; way < 3; way++) {
		MPI_Irecv(w->out, COUNT, w->type, w->last, TAG, WORLD, &requests[0]);
		MPI_Isend(w->in, COUNT, w->type, w->next, TAG, WORLD, &requests[1]);
		for (done = 0; done < (way == 2 ? 2 : 1);) {
			/* MPICH 4.2 makes no progress in these calls */
			MPI_Iprobe(w->last, TAG + 1, WORLD, &index, MPI_STATUS_IGNORE);
			if (way == 0)
				MPI_Request_get_status_all(2, requests, &done,
							   MPI_STATUSES_IGNORE);
			else if (way == 1)
				MPI_Request_get_status_any(1, requests, &index, &done,
							   MPI_STATUS_IGNORE);
			else
				MPI_Request_get_status_some(2, requests, &done, indices,
							    MPI_STATUSES_IGNORE);
		}
		/* a copy of what is there, which has to be all */
		w->buf->ops->from(there, w->out, sizeof there);
		w->buf->ops->to(w->out + ROOM / 32, there, sizeof there);
		MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
		w->out += ROOM / 16;
	}
}
#endif

static void (*const calls[])(struct work *w) = {
	sends,           replaces,  sends_buffered, adds,       scatters_sums, gathers,
	gathers_vectors, exchanges, packs,          puts_there, writes,
#if MPI_VERSION > 4 || MPI_SUBVERSION >= 1
	attaches,        asks,
#endif
};

/* ---- datatypes ---- */

static void types_make(MPI_Datatype types[])
{
	const MPI_Count two[2] = {2, 2}, places[2] = {0, 5}, bytes[2] = {4, 24},
			sizes[2] = {4, 5}, parts[2] = {2, 3}, starts[2] = {1, 1};
	const MPI_Datatype ints[2] = {MPI_INT, MPI_INT};
	MPI_Datatype part;

	MPI_Type_vector_c(3, 2, 5, MPI_INT, &types[0]);
	MPI_Type_create_hvector_c(3, 2, 20, MPI_INT, &types[1]);
	MPI_Type_indexed_c(2, two, places, MPI_INT, &types[2]);
	MPI_Type_create_hindexed_c(2, two, bytes, MPI_INT, &types[3]);
	MPI_Type_create_indexed_block_c(2, 2, places, MPI_INT, &types[4]);
	MPI_Type_create_hindexed_block_c(2, 2, bytes, MPI_INT, &types[5]);
	MPI_Type_create_struct_c(2, two, bytes, ints, &types[6]);
	MPI_Type_create_subarray_c(2, sizes, parts, starts, MPI_ORDER_C, MPI_INT, &types[7]);
	MPI_Type_contiguous_c(2, MPI_INT, &part);
	MPI_Type_create_resized_c(part, 0, 20, &types[8]);
	MPI_Type_free(&part);
	for (int i = 0; i < 9; i++)
		MPI_Type_commit(&types[i]);
}

/* ---- the test ---- */

static int once(struct mpi_run *run, void (*call)(struct work *w), struct work *w, size_t kind,
		char *result)
{
	struct ft_buf *buf = &run->pool[kind].buf;

	for (int i = 0; i < 2 * ROOM; i++)
		result[i] = (char) (i * 7 + (i >> 8) + w->rank);
	FT_TRY(buf->ops->to(buf->addr, result, 2 * ROOM));
	w->buf = buf;
	w->in = (int *) buf->addr;
	w->out = (int *) (buf->addr + ROOM);
	MPI_Barrier(WORLD);
	call(w);
	FT_CHECK(!w->wrong, "a buffer came back as another one");
	return buf->ops->from(result, buf->addr, 2 * ROOM);
}

static int run_all(struct mpi_run *run)
{
	static char expected[2 * ROOM], found[2 * ROOM];
	struct work w = {.rank = run->rank,
			 .ranks = run->ranks,
			 .next = (run->rank + 1) % run->ranks,
			 .last = (run->rank + run->ranks - 1) % run->ranks};
	MPI_Datatype types[9];

	types_make(types);
	for (size_t i = 0; i < FT_COUNT(calls) * FT_COUNT(types); i++) {
		const size_t type = i % FT_COUNT(types), call = i / FT_COUNT(types);

		mpi_stage(run, "call %zu, datatype %zu", call, type);
		w.type = types[type];
		FT_TRY(once(run, calls[call], &w, 0, expected));
		for (size_t kind = 1; kind < run->kinds; kind++) {
			FT_TRY(once(run, calls[call], &w, kind, found));
			FT_CHECK(!memcmp(found, expected, 2 * ROOM),
				 "call %zu, datatype %zu: other bytes", call, type);
		}
	}
	for (size_t i = 0; i < FT_COUNT(types); i++)
		MPI_Type_free(&types[i]);
	return 0;
}

#else
#define run_all NULL
#endif

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "MPI 4's counts of 64 bits, with libp2p-mpi",
		.ranks = 1,
		.pool = 4 * 4096,
		.wants = {MPI_VERSION >= 4 ? NULL : "an MPI of version 4"},
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
