/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_files: every call that reads or writes a file, and the few on windows and requests that fi_p2p_mpi_calls leaves
 * out, on host memory and then on each other kind. All bytes are the same afterwards. It wants libp2p-mpi.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpi_test.h"

#define ROOM 65536
#define COUNT 100
#define TAG 9

/**
 * struct work - what a call works on.
 * @in, @out:	memory of the kind at hand
 * @mine:	where this rank's part of the file begins
 */
struct work {
	char *in, *out;
	MPI_Datatype type;
	MPI_File file;
	MPI_Offset mine;
	int rank, next, last;
};

#define ARGS w->type, MPI_STATUS_IGNORE

static void start_over(struct work *w)
{
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_File_seek(w->file, w->mine, MPI_SEEK_SET);
	MPI_File_seek_shared(w->file, 0, MPI_SEEK_SET);
	MPI_Barrier(MPI_COMM_WORLD);
}

static void wait_for(MPI_Request *request)
{
	MPI_Wait(request, MPI_STATUS_IGNORE);
}

static void own_pointer(struct work *w)
{
	MPI_File_write(w->file, w->in, COUNT, ARGS);
	start_over(w);
	MPI_File_read(w->file, w->out, COUNT, ARGS);
}

static void own_pointer_all(struct work *w)
{
	MPI_File_write_all(w->file, w->in, COUNT, ARGS);
	start_over(w);
	MPI_File_read_all(w->file, w->out, COUNT, ARGS);
}

static void own_pointer_later(struct work *w)
{
	MPI_Request request;

	MPI_File_iwrite(w->file, w->in, COUNT, w->type, &request);
	wait_for(&request);
	start_over(w);
	MPI_File_iread(w->file, w->out, COUNT, w->type, &request);
	wait_for(&request);
}

static void own_pointer_all_later(struct work *w)
{
	MPI_Request request;

	MPI_File_iwrite_all(w->file, w->in, COUNT, w->type, &request);
	wait_for(&request);
	start_over(w);
	MPI_File_iread_all(w->file, w->out, COUNT, w->type, &request);
	wait_for(&request);
}

static void at(struct work *w)
{
	MPI_File_write_at(w->file, w->mine, w->in, COUNT, ARGS);
	start_over(w);
	MPI_File_read_at(w->file, w->mine, w->out, COUNT, ARGS);
}

static void at_all(struct work *w)
{
	MPI_File_write_at_all(w->file, w->mine, w->in, COUNT, ARGS);
	start_over(w);
	MPI_File_read_at_all(w->file, w->mine, w->out, COUNT, ARGS);
}

static void at_all_later(struct work *w)
{
	MPI_Request request;

	MPI_File_iwrite_at_all(w->file, w->mine, w->in, COUNT, w->type, &request);
	wait_for(&request);
	start_over(w);
	MPI_File_iread_at_all(w->file, w->mine, w->out, COUNT, w->type, &request);
	wait_for(&request);
}

/* The order of ranks is nobody's, so one of them does all. */
static void shared(struct work *w)
{
	MPI_Request request;

	if (w->rank == 0) {
		MPI_File_write_shared(w->file, w->in, COUNT, ARGS);
		MPI_File_iwrite_shared(w->file, w->in, COUNT, w->type, &request);
		wait_for(&request);
	}
	start_over(w);
	if (w->rank == 0) {
		MPI_File_iread_shared(w->file, w->out, COUNT, w->type, &request);
		wait_for(&request);
		MPI_File_read_shared(w->file, w->out, COUNT, ARGS);
	}
}

static void ordered(struct work *w)
{
	MPI_File_write_ordered(w->file, w->in, COUNT, ARGS);
	start_over(w);
	MPI_File_read_ordered(w->file, w->out, COUNT, ARGS);
}

static void split_all(struct work *w)
{
	MPI_File_write_all_begin(w->file, w->in, COUNT, w->type);
	MPI_File_write_all_end(w->file, w->in, MPI_STATUS_IGNORE);
	start_over(w);
	MPI_File_read_all_begin(w->file, w->out, COUNT, w->type);
	MPI_File_read_all_end(w->file, w->out, MPI_STATUS_IGNORE);
}

static void split_at_all(struct work *w)
{
	MPI_File_write_at_all_begin(w->file, w->mine, w->in, COUNT, w->type);
	MPI_File_write_at_all_end(w->file, w->in, MPI_STATUS_IGNORE);
	start_over(w);
	MPI_File_read_at_all_begin(w->file, w->mine, w->out, COUNT, w->type);
	MPI_File_read_at_all_end(w->file, w->out, MPI_STATUS_IGNORE);
}

static void split_ordered(struct work *w)
{
	MPI_File_write_ordered_begin(w->file, w->in, COUNT, w->type);
	MPI_File_write_ordered_end(w->file, w->in, MPI_STATUS_IGNORE);
	start_over(w);
	MPI_File_read_ordered_begin(w->file, w->out, COUNT, w->type);
	MPI_File_read_ordered_end(w->file, w->out, MPI_STATUS_IGNORE);
}

static void by_request(struct work *w)
{
	MPI_Request request;
	MPI_Win win;
	char *memory = mpi_window(ROOM, &win);

	if (!memory)
		return;
	MPI_Win_lock_all(0, win);
	MPI_Raccumulate(w->in, COUNT, MPI_INT, w->next, 0, COUNT, MPI_INT, MPI_SUM, win,
			&request);
	wait_for(&request);
	MPI_Win_flush_all(win);
	MPI_Rget_accumulate(w->in, COUNT, MPI_INT, w->out, COUNT, MPI_INT, w->next, 0, COUNT,
			    MPI_INT, MPI_SUM, win, &request);
	wait_for(&request);
	MPI_Win_unlock_all(win);
	MPI_Win_free(&win);
	free(memory);
}

static void by_start(struct work *w)
{
	static char buffer[ROOM + MPI_BSEND_OVERHEAD];
	void *detached;
	MPI_Request requests[2];
	int size;

	MPI_Buffer_attach(buffer, sizeof buffer);
	for (int ready = 0; ready < 2; ready++) {
		MPI_Recv_init(w->out, COUNT, w->type, w->last, TAG, MPI_COMM_WORLD,
			      &requests[0]);
		if (ready)
			MPI_Rsend_init(w->in, COUNT, w->type, w->next, TAG, MPI_COMM_WORLD,
				       &requests[1]);
		else
			MPI_Bsend_init(w->in, COUNT, w->type, w->next, TAG, MPI_COMM_WORLD,
				       &requests[1]);
		MPI_Start(&requests[0]);
		MPI_Barrier(MPI_COMM_WORLD);
		MPI_Start(&requests[1]);
		MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
		for (int i = 0; i < 2; i++)
			MPI_Request_free(&requests[i]);
	}
	MPI_Buffer_detach(&detached, &size);
}

static void plainly(struct work *w)
{
	MPI_Request request;

	MPI_Isend(w->in, COUNT, w->type, w->next, TAG, MPI_COMM_WORLD, &request);
	MPI_Recv(w->out, COUNT, w->type, w->last, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	wait_for(&request);
}

static const struct call {
	const char *name;
	void (*run)(struct work *w);
} calls[] = {
	{"File_write", own_pointer},
	{"File_write_all", own_pointer_all},
	{"File_iwrite", own_pointer_later},
	{"File_iwrite_all", own_pointer_all_later},
	{"File_write_at", at},
	{"File_write_at_all", at_all},
	{"File_iwrite_at_all", at_all_later},
	{"File_write_shared", shared},
	{"File_write_ordered", ordered},
	{"File_write_all_begin", split_all},
	{"File_write_at_all_begin", split_at_all},
	{"File_write_ordered_begin", split_ordered},
	{"Raccumulate", by_request},
	{"Bsend_init", by_start},
	{"Recv", plainly},
};

/* On memory of @kind; what is in it afterwards goes to @result. */
static int once(struct mpi_run *run, const struct call *call, struct work *w, size_t kind,
		char *result)
{
	struct ft_buf *buf = &run->pool[kind].buf;

	for (int i = 0; i < 2 * ROOM; i++)
		result[i] = (char) (i * 7 + (i >> 8) + w->rank);
	FT_TRY(buf->ops->to(buf->addr, result, 2 * ROOM));
	w->in = buf->addr;
	w->out = buf->addr + ROOM;
	start_over(w);
	call->run(w);
	return buf->ops->from(result, buf->addr, 2 * ROOM);
}

static int twice(struct mpi_run *run, const struct call *call, struct work *w)
{
	static char expected[2 * ROOM], found[2 * ROOM];

	mpi_stage(run, "MPI_%s", call->name);
	FT_TRY(once(run, call, w, 0, expected));
	for (size_t kind = 1; kind < run->kinds; kind++) {
		FT_TRY(once(run, call, w, kind, found));
		for (size_t i = 0; i < 2 * ROOM; i++)
			FT_CHECK(found[i] == expected[i], "MPI_%s: byte %zu is %d, not %d",
				 call->name, i, found[i], expected[i]);
	}
	return 0;
}

static int run_all(struct mpi_run *run)
{
	char name[64];
	struct work w = {.rank = run->rank,
			 .next = (run->rank + 1) % run->ranks,
			 .last = (run->rank + run->ranks - 1) % run->ranks,
			 .mine = (MPI_Offset) run->rank * ROOM};
	int pid = (int) getpid();
	MPI_Datatype types[2] = {MPI_INT};

	MPI_Bcast(&pid, 1, MPI_INT, 0, MPI_COMM_WORLD);
	snprintf(name, sizeof name, "/tmp/fi_p2p_mpi_files.%d", pid);
	MPI_File_open(MPI_COMM_WORLD, name,
		      MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
		      &w.file);
	MPI_File_set_errhandler(w.file, MPI_ERRORS_ARE_FATAL);
	MPI_Type_vector(3, 2, 5, MPI_INT, &types[1]);
	MPI_Type_commit(&types[1]);
	for (size_t i = 0; i < 2 * FT_COUNT(calls); i++) {
		w.type = types[i / FT_COUNT(calls)];
		FT_TRY(twice(run, &calls[i % FT_COUNT(calls)], &w));
	}
	MPI_Type_free(&types[1]);
	MPI_File_close(&w.file);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "files, with libp2p-mpi",
		.ranks = 1,
		.pool = 2 * ROOM,
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
