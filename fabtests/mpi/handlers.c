/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_handlers: error handlers of communicators, windows and files, called by MPI and by libp2p-mpi. They call MPI with
 * device memory, and leave by longjmp(), or return. Afterwards device memory is taken as before. Each rank calls by itself.
 */
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mpi_test.h"

#define NUMBERS 64
/* A place has gaps: so it goes through host memory */
#define PLACE (2 * NUMBERS * sizeof(int))

static struct {
	struct ft_buf *buf;
	MPI_Datatype type;
	jmp_buf jump;
	bool jumps;
	int calls, number, error;
} at;

/* Sends numbers from one place to another one. */
static int transfer(void)
{
	int numbers[2 * NUMBERS], found[2 * NUMBERS];

	at.number++;
	for (int i = 0; i < 2 * NUMBERS; i++)
		numbers[i] = at.number + i;
	memset(found, 0, sizeof found);
	FT_TRY(at.buf->ops->to(at.buf->addr, numbers, PLACE));
	FT_TRY(at.buf->ops->to(at.buf->addr + PLACE, found, PLACE));
	MPI_Sendrecv(at.buf->addr, 1, at.type, 0, 1, at.buf->addr + PLACE, 1, at.type, 0, 1,
		     MPI_COMM_SELF, MPI_STATUS_IGNORE);
	FT_TRY(at.buf->ops->from(found, at.buf->addr + PLACE, PLACE));
	for (int i = 0; i < 2 * NUMBERS; i++)
		FT_CHECK(found[i] == (i % 2 ? 0 : numbers[i]), "number %d is %d", i, found[i]);
	return 0;
}

static void handle(void)
{
	at.calls++;
	at.error |= transfer();
	if (at.jumps)
		longjmp(at.jump, 1);
}

static void of_comm(MPI_Comm *comm, int *code, ...)
{
	handle();
}

static void of_win(MPI_Win *win, int *code, ...)
{
	handle();
}

static void of_file(MPI_File *file, int *code, ...)
{
	handle();
}

struct objects {
	MPI_Comm comm;
	MPI_Win win;
	MPI_File file;
};

static int send_nowhere(const struct objects *o)
{
	return MPI_Send(at.buf->addr, 1, at.type, 77, 0, o->comm);
}

/* libp2p-mpi says so */
static int send_beyond(const struct objects *o)
{
	return MPI_Send(at.buf->addr, 1 << 28, MPI_INT, 0, 0, o->comm);
}

static int put_nowhere(const struct objects *o)
{
	return MPI_Put(at.buf->addr, 1, at.type, 77, 0, 1, at.type, o->win);
}

static int read_less(const struct objects *o)
{
	return MPI_File_read(o->file, at.buf->addr, -1, at.type, MPI_STATUS_IGNORE);
}

static int (*const wrong[])(const struct objects *o) = {send_nowhere, send_beyond, put_nowhere,
							read_less};

static int try_all(const struct objects *o)
{
	for (volatile size_t i = 0; i < FT_COUNT(wrong); i++) {
		/* there is no memory's end that MPI knows of */
		if (wrong[i] == send_beyond && at.buf->ops->iface == FI_HMEM_SYSTEM)
			continue;
		at.calls = 0;
		if (!setjmp(at.jump))
			FT_CHECK(wrong[i](o) != MPI_SUCCESS && !at.jumps, "call %zu is right",
				 i);
		FT_CHECK(at.calls == 1, "call %zu: the handler is called %d times", i,
			 at.calls);
		FT_TRY(at.error);
		FT_TRY(transfer());
	}
	return 0;
}

/* The memory that data was to be copied to is gone when it has come: the world's handler is called. */
static int end_without_memory(struct mpi_run *run)
{
	int numbers[NUMBERS] = {0};
	MPI_Errhandler handler, before;
	void *gone;
	MPI_Win win;

	if (run->kinds == 1)
		return 0;
	mpi_stage(run, "memory that is gone behind a fence");
	MPI_Comm_get_errhandler(MPI_COMM_WORLD, &before);
	MPI_Comm_create_errhandler(of_comm, &handler);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
	MPI_Errhandler_free(&handler);
	MPI_Win_create(numbers, sizeof numbers, 1, MPI_INFO_NULL, MPI_COMM_SELF, &win);
	FT_TRY(at.buf->ops->alloc(sizeof numbers, &gone));
	MPI_Win_fence(0, win);
	MPI_Get(gone, NUMBERS, MPI_INT, 0, 0, NUMBERS, MPI_INT, win);
	at.buf->ops->release(gone);
	at.jumps = false;
	at.calls = 0;
	FT_CHECK(MPI_Win_fence(0, win) != MPI_SUCCESS, "the fence is right");
	FT_CHECK(at.calls == 1, "the handler is called %d times", at.calls);
	MPI_Win_free(&win);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, before);
	MPI_Errhandler_free(&before);
	return at.error;
}

static int run_all(struct mpi_run *run)
{
	char name[] = "/tmp/fi_p2p_mpi_handlers.XXXXXX";
	const int fd = mkstemp(name);
	MPI_Errhandler handlers[3];
	struct objects o;

	FT_CHECK(fd >= 0, "no file %s", name);
	at.buf = &run->pool[run->kinds - 1].buf;
	MPI_Type_vector(NUMBERS, 1, 2, MPI_INT, &at.type);
	MPI_Type_commit(&at.type);
	MPI_Comm_dup(MPI_COMM_SELF, &o.comm);
	MPI_Win_create(at.buf->addr, PLACE, 1, MPI_INFO_NULL, MPI_COMM_SELF, &o.win);
	MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &o.file);
	MPI_Comm_create_errhandler(of_comm, &handlers[0]);
	MPI_Win_create_errhandler(of_win, &handlers[1]);
	MPI_File_create_errhandler(of_file, &handlers[2]);
	MPI_Comm_set_errhandler(o.comm, handlers[0]);
	MPI_Win_set_errhandler(o.win, handlers[1]);
	MPI_File_set_errhandler(o.file, handlers[2]);
	for (size_t i = 0; i < FT_COUNT(handlers); i++)
		MPI_Errhandler_free(&handlers[i]);
	for (int jumps = 0; jumps < 2; jumps++) {
		at.jumps = jumps;
		mpi_stage(run, "handlers that %s", jumps ? "jump" : "return");
		FT_TRY(try_all(&o));
	}
	FT_TRY(end_without_memory(run));
	MPI_File_close(&o.file);
	MPI_Win_free(&o.win);
	MPI_Comm_free(&o.comm);
	MPI_Type_free(&at.type);
	close(fd);
	return unlink(name);
}

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "error handlers that call MPI, or leave it",
		.ranks = 1,
		.pool = 2 * PLACE,
		.wants = {"Open MPI v4."},
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
