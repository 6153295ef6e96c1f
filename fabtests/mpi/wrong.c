/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_wrong: buffers that are wrong. Each call returns MPI's error class, with the text of libp2p-mpi where that
 * finds it, and writes nothing. Each rank calls by itself.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mpi_test.h"

#define NUMBERS 64
#define BYTES (NUMBERS * sizeof(int))
/* With gaps they are as long as that */
#define ROOM (2 * BYTES)
#define TAG 1

/**
 * struct work - what a call gets.
 * @wrong:	the buffer that is wrong
 * @host:	one that is not
 */
struct work {
	void *wrong, *host;
	MPI_Datatype type;
	int count;
};

/*
 * This rank's own: @grid has it as its own neighbour; @win is on host memory, or MPI_WIN_NULL where the MPI has none, and
 * @gpus on the GPU's
 */
static MPI_Comm grid;
static MPI_Win win, gpus;
static MPI_File file;

#define SELF 0, TAG, MPI_COMM_SELF

/* ---- calls, each with one wrong buffer ---- */

static int sends(struct work *w)
{
	return MPI_Send(w->wrong, w->count, w->type, SELF);
}

static int sends_buffered(struct work *w)
{
	return MPI_Bsend(w->wrong, w->count, w->type, SELF);
}

static int sends_later(struct work *w)
{
	MPI_Request request;

	return MPI_Isend(w->wrong, w->count, w->type, SELF, &request);
}

static int sends_often(struct work *w)
{
	MPI_Request request;

	return MPI_Send_init(w->wrong, w->count, w->type, SELF, &request);
}

static int receives(struct work *w)
{
	return MPI_Sendrecv(w->host, NUMBERS, MPI_INT, 0, TAG, w->wrong, w->count, w->type,
			    SELF, MPI_STATUS_IGNORE);
}

static int receives_later(struct work *w)
{
	MPI_Request request;

	return MPI_Irecv(w->wrong, w->count, w->type, SELF, &request);
}

static int replaces(struct work *w)
{
	return MPI_Sendrecv_replace(w->wrong, w->count, w->type, 0, TAG, SELF,
				    MPI_STATUS_IGNORE);
}

static int has_it_told(struct work *w)
{
	return MPI_Bcast(w->wrong, w->count, w->type, 0, MPI_COMM_SELF);
}

static int gathers(struct work *w)
{
	return MPI_Gather(w->host, NUMBERS, MPI_INT, w->wrong, w->count, w->type, 0,
			  MPI_COMM_SELF);
}

static int exchanges(struct work *w)
{
	const int count = NUMBERS, at = 0;

	return MPI_Alltoallv(w->host, &count, &at, MPI_INT, w->wrong, &w->count, &at, w->type,
			     MPI_COMM_SELF);
}

static int packs(struct work *w)
{
	int position = 0;

	return MPI_Pack(w->wrong, w->count, w->type, w->host, ROOM, &position, MPI_COMM_SELF);
}

static int unpacks(struct work *w)
{
	int position = 0;

	return MPI_Unpack(w->host, ROOM, &position, w->wrong, w->count, w->type, MPI_COMM_SELF);
}

static int adds(struct work *w)
{
	return MPI_Allreduce(w->host, w->wrong, NUMBERS, MPI_INT, MPI_SUM, MPI_COMM_SELF);
}

static int adds_later(struct work *w)
{
	MPI_Request request;

	return MPI_Iallreduce(w->wrong, w->host, NUMBERS, MPI_INT, MPI_SUM, MPI_COMM_SELF,
			      &request);
}

static int adds_and_scatters(struct work *w)
{
	return MPI_Reduce_scatter_block(w->wrong, w->host, NUMBERS, MPI_INT, MPI_SUM,
					MPI_COMM_SELF);
}

static int scans(struct work *w)
{
	return MPI_Scan(MPI_IN_PLACE, w->wrong, NUMBERS, MPI_INT, MPI_SUM, MPI_COMM_SELF);
}

static int adds_here(struct work *w)
{
	return MPI_Reduce_local(w->host, w->wrong, NUMBERS, MPI_INT, MPI_SUM);
}

static int exchanges_types(struct work *w)
{
	const int counts[2] = {NUMBERS, w->count}, at = 0;
	const MPI_Datatype types[2] = {MPI_INT, w->type};
	MPI_Request request;

	return MPI_Ialltoallw(w->host, &counts[0], &at, &types[0], w->wrong, &counts[1], &at,
			      &types[1], MPI_COMM_SELF, &request);
}

static int tells_neighbors(struct work *w)
{
	return MPI_Neighbor_allgather(w->wrong, w->count, w->type, w->host, NUMBERS, MPI_INT,
				      grid);
}

static int writes(struct work *w)
{
	return MPI_File_write_at(file, 0, w->wrong, w->count, w->type, MPI_STATUS_IGNORE);
}

static int reads_later(struct work *w)
{
	MPI_Request request;

	return MPI_File_iread_at(file, 0, w->wrong, w->count, w->type, &request);
}

static int puts_there(struct work *w)
{
	return MPI_Put(w->wrong, w->count, w->type, 0, 0, NUMBERS, MPI_INT, win);
}

static int adds_there(struct work *w)
{
	return MPI_Get_accumulate(w->host, NUMBERS, MPI_INT, w->wrong, w->count, w->type, 0, 0,
				  NUMBERS, MPI_INT, MPI_SUM, win);
}

static int gets_from_gpu(struct work *w)
{
	return MPI_Get(w->wrong, w->count, w->type, 0, 0, NUMBERS, MPI_INT, gpus);
}

#if MPI_VERSION >= 4
static int sends_long(struct work *w)
{
	return MPI_Send_c(w->wrong, w->count, w->type, SELF);
}

static int sends_parts(struct work *w)
{
	MPI_Request request;

	return MPI_Psend_init(w->wrong, 1, w->count, w->type, SELF, MPI_INFO_NULL, &request);
}

static int adds_often(struct work *w)
{
	MPI_Request request;

	return MPI_Allreduce_init(w->wrong, w->host, NUMBERS, MPI_INT, MPI_SUM, MPI_COMM_SELF,
				  MPI_INFO_NULL, &request);
}
#endif

/* @name: what the text of an error calls it */
static const struct {
	int (*call)(struct work *w);
	const char *name;
} calls[] = {
	{sends, "MPI_Send"},
	{sends_buffered, "MPI_Bsend"},
	{sends_later, "MPI_Isend"},
	{sends_often, "MPI_Send_init"},
	{receives, "MPI_Sendrecv"},
	{receives_later, "MPI_Irecv"},
	{replaces, "MPI_Sendrecv_replace"},
	{has_it_told, "MPI_Bcast"},
	{gathers, "MPI_Gather"},
	{exchanges, "MPI_Alltoallv"},
	{packs, "MPI_Pack"},
	{unpacks, "MPI_Unpack"},
	{adds, "MPI_Allreduce"},
	{adds_later, "MPI_Iallreduce"},
	{adds_and_scatters, "MPI_Reduce_scatter_block"},
	{scans, "MPI_Scan"},
	{adds_here, "MPI_Reduce_local"},
	{exchanges_types, "MPI_Ialltoallw"},
	{tells_neighbors, "MPI_Neighbor_allgather"},
	{writes, "MPI_File_write_at"},
	{reads_later, "MPI_File_iread_at"},
	{gets_from_gpu, "MPI_Get"},
#if MPI_VERSION >= 4
	{sends_long, "MPI_Send_c"},
	{sends_parts, "MPI_Psend_init"},
	{adds_often, "MPI_Allreduce_init"},
#endif
	/* the last ones, as there may be no window */
	{puts_there, "MPI_Put"},
	{adds_there, "MPI_Get_accumulate"},
};
#define ONE_SIDED 2

/* ---- what is wrong ---- */

/* @name: the call that the text of ours names; NULL: MPI itself has found it */
static int expects(int code, int expected, const char *name, const char *what)
{
	char text[MPI_MAX_ERROR_STRING], begins[64];
	int class, len,
		ours = snprintf(begins, sizeof begins, "libp2p-mpi: %s: ", name ? name : "");

	FT_CHECK(code != MPI_SUCCESS, "%s: no error", what);
	MPI_Error_class(code, &class);
	MPI_Error_string(code, text, &len);
	FT_CHECK(class == expected, "%s: the error class is %d, not %d: %s", what, class,
		 expected, text);
	FT_CHECK(!name || !strncmp(text, begins, ours), "%s: no \"%s\" in: %s", what, begins,
		 text);
	return 0;
}

static int all_refuse(struct mpi_run *run, void *wrong, const char *what)
{
	static int host[2 * NUMBERS];
	struct work work = {wrong, host, MPI_INT, NUMBERS};
	const size_t count = FT_COUNT(calls) - (win == MPI_WIN_NULL ? ONE_SIDED : 0);
	MPI_Datatype gaps;

	MPI_Type_vector(NUMBERS, 1, 2, MPI_INT, &gaps);
	MPI_Type_commit(&gaps);
	for (size_t i = 0; i < 2 * count; i++) {
		mpi_stage(run, "%s, call %zu", what, i);
		if (i == count) {
			work.type = gaps;
			work.count = 1;
		}
		FT_TRY(expects(calls[i % count].call(&work), MPI_ERR_BUFFER,
			       calls[i % count].name, what));
	}
	MPI_Type_free(&gaps);
	return 0;
}

static int freed(struct mpi_run *run)
{
	const struct ft_buf *buf = &run->pool[1].buf;
	void *addr, *next;

	FT_TRY(buf->ops->alloc(ROOM, &addr));
	/* one that has been used, and one that has not */
	MPI_Sendrecv(addr, 1, MPI_INT, 0, TAG, run->pool[0].buf.addr, 1, MPI_INT, SELF,
		     MPI_STATUS_IGNORE);
	buf->ops->release(addr);
	FT_TRY(all_refuse(run, addr, "freed after use"));
	FT_TRY(buf->ops->alloc(64 * ROOM, &next));
	buf->ops->release(next);
	return all_refuse(run, next, "freed");
}

/* Where the host's memory was first: the emulator takes the place at once, and nobody knows where a GPU has it. */
static int hosts_before(struct mpi_run *run)
{
	const struct ft_buf *buf = &run->pool[1].buf;
	const size_t granule = 2 << 20, len = 3 * granule, room = len + 2 * granule;
	char *host = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			  0),
	     *addr = (char *) (((uintptr_t) host + granule - 1) & ~(granule - 1));
	void *place;

	FT_CHECK(host != MAP_FAILED, "no host memory");
	MPI_Bcast(addr, NUMBERS, MPI_INT, 0, MPI_COMM_SELF);
	munmap(host, room);
	FT_TRY(buf->ops->alloc(len, &place));
	MPI_Bcast(place, NUMBERS, MPI_INT, 0, MPI_COMM_SELF);
	buf->ops->release(place);
	return place == addr ? all_refuse(run, addr, "the host's, then a GPU's, then freed")
			     : 0;
}

/* Its first half is in the allocation; that stays as it is. */
static int crossing(struct mpi_run *run)
{
	const struct ft_buf *buf = &run->pool[1].buf;
	char before[BYTES / 2], after[BYTES / 2], *addr = buf->addr + buf->size - sizeof before;

	memset(before, 0x5a, sizeof before);
	FT_TRY(buf->ops->to(addr, before, sizeof before));
	FT_TRY(all_refuse(run, addr, "leaves its allocation"));
	FT_TRY(buf->ops->from(after, addr, sizeof after));
	FT_CHECK(!memcmp(before, after, sizeof after), "a call has written what it refused");
	return 0;
}

/* Addresses of a GPU's with nothing behind them */
static int reserved(struct mpi_run *run)
{
	int (*reserve)(uint64_t * addr, size_t size, size_t align, uint64_t fixed,
		       uint64_t flags);
	const size_t size = 2 << 20;
	void *cuda = run->opts.iface == FI_HMEM_CUDA ? dlopen("libcuda.so.1", RTLD_LAZY) : NULL;
	uint64_t addr;

	if (!cuda)
		return 0;
	*(void **) &reserve = dlsym(cuda, "cuMemAddressReserve");
	FT_CHECK(reserve && !reserve(&addr, size, 0, 0, 0), "no addresses of the GPU's");
	return all_refuse(run, (void *) (uintptr_t) addr, "no more than reserved");
}

static int nowhere(struct mpi_run *run)
{
	return all_refuse(run, NULL, "NULL");
}

static int longer_than_memory(struct mpi_run *run)
{
	const int one = 1, far = INT32_MAX;
	char *addr = run->pool[1].buf.addr;
	MPI_Datatype wide;

	mpi_stage(run, "counts");
	MPI_Type_create_resized(MPI_INT, 0, (MPI_Aint) 1 << 40, &wide);
	MPI_Type_commit(&wide);
	FT_TRY(expects(MPI_Send(addr, INT32_MAX, wide, SELF), MPI_ERR_COUNT, "MPI_Send",
		       "a count"));
	FT_TRY(expects(MPI_Gatherv(MPI_IN_PLACE, 0, MPI_INT, addr, &one, &far, wide, 0,
				   MPI_COMM_SELF),
		       MPI_ERR_COUNT, "MPI_Gatherv", "a displacement"));
	FT_TRY(expects(MPI_Send(addr, -1, MPI_INT, SELF), MPI_ERR_COUNT, NULL, "-1"));
	MPI_Type_free(&wide);
	return 0;
}

/* A program that lacks lists is told so by MPI, unless that reads them. */
static int no_lists(struct mpi_run *run)
{
	char *addr = run->pool[1].buf.addr;
	const int one = 1;

	if (run->mpich)
		return 0;
	mpi_stage(run, "no lists");
	FT_CHECK(MPI_Alltoallv(addr, NULL, NULL, MPI_INT, addr, NULL, NULL, MPI_INT,
			       MPI_COMM_SELF) != MPI_SUCCESS,
		 "no counts: no error");
	FT_CHECK(MPI_Gatherv(addr, 1, MPI_INT, addr, &one, NULL, MPI_INT, 0, MPI_COMM_SELF) !=
			 MPI_SUCCESS,
		 "no displacements: no error");
	FT_CHECK(MPI_Reduce_scatter(addr, addr + 64, NULL, MPI_INT, MPI_SUM, MPI_COMM_SELF) !=
			 MPI_SUCCESS,
		 "no counts of a reduction: no error");
	return 0;
}

/* ---- what looks wrong, and is not ---- */

static int not_looked_at(struct mpi_run *run)
{
	char *addr = run->pool[1].buf.addr, *memory;
	int number = 7, found = 0;

	mpi_stage(run, "buffers that nobody looks at");
	/* not NULL, which MPICH refuses */
	MPI_Exscan(&number, (void *) sizeof number, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
	MPI_Send(NULL, 0, MPI_INT, MPI_PROC_NULL, TAG, MPI_COMM_SELF);
	memory = mpi_window(sizeof number, &win);
	if (!memory)
		return 0;
	MPI_Win_fence(0, win);
	MPI_Put(&number, 1, MPI_INT, run->rank, 0, 1, MPI_INT, win);
	MPI_Win_fence(0, win);
	MPI_Fetch_and_op(NULL, addr, MPI_INT, run->rank, 0, MPI_NO_OP, win);
	MPI_Win_fence(0, win);
	FT_TRY(run->pool[1].buf.ops->from(&found, addr, sizeof found));
	FT_CHECK(found == number, "fetched %d, not %d", found, number);
	MPI_Win_free(&win);
	free(memory);
	return 0;
}

static void errors_return(char *memory)
{
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	/* that of a call without a communicator */
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(grid, MPI_ERRORS_RETURN);
	MPI_Win_set_errhandler(gpus, MPI_ERRORS_RETURN);
	MPI_Win_fence(0, gpus);
	if (memory) {
		MPI_Win_set_errhandler(win, MPI_ERRORS_RETURN);
		MPI_Win_fence(0, win);
	}
}

static int run_all(struct mpi_run *run)
{
	int (*const tests[])(struct mpi_run *
			     run) = {freed,   hosts_before,       crossing, reserved,
				     nowhere, longer_than_memory, no_lists};

	const int one = 1, yes = 1;
	char *memory, name[64];

	if (run->kinds == 1)
		return 0;
	FT_TRY(not_looked_at(run));
	snprintf(name, sizeof name, "/tmp/fi_p2p_mpi_wrong.%d", (int) getpid());
	MPI_File_open(MPI_COMM_SELF, name,
		      MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
		      &file);
	MPI_Cart_create(MPI_COMM_SELF, 1, &one, &yes, 0, &grid);
	MPI_Win_create(run->pool[1].buf.addr, ROOM, 1, MPI_INFO_NULL, MPI_COMM_SELF, &gpus);
	memory = mpi_window(ROOM, &win);
	if (!memory)
		win = MPI_WIN_NULL;
	errors_return(memory);
	for (size_t i = 0; i < FT_COUNT(tests); i++)
		FT_TRY(tests[i](run));
	if (memory) {
		MPI_Win_fence(0, win);
		MPI_Win_free(&win);
		free(memory);
	}
	MPI_Win_fence(0, gpus);
	MPI_Win_free(&gpus);
	MPI_Comm_free(&grid);
	MPI_File_close(&file);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "buffers that are wrong, with libp2p-mpi",
		.ranks = 1,
		.pool = 1 << 20,
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
