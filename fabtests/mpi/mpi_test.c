/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the MPI programs share: see mpi_test.h. */
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ft_test.h"
#include "mpi_test.h"

#define EXIT_TIMEOUT 124

const size_t mpi_test_sizes[] = {
	0,
	1,
	7,
	64,
	65,
	4095,
	4096,
	4097,
	16384,
	65535,
	65536,
	65537,
	1048575,
	1048576,
	1048577,
	2 * 1048576,
	3 * 1048576 + 17,
	MPI_TEST_LONGEST,
};
const size_t mpi_test_size_count = FT_COUNT(mpi_test_sizes);

static char stage[256] = "MPI_Init\n";

/* A rank that waits in MPI for what never comes. mpirun ends the others. */
static void on_alarm(int sig)
{
	static const char head[] = "time is up: ";

	if (write(STDERR_FILENO, head, sizeof(head) - 1) > 0 &&
	    write(STDERR_FILENO, stage, strlen(stage)) > 0)
		_exit(EXIT_TIMEOUT);
	_exit(EXIT_TIMEOUT);
}

void mpi_stage(struct mpi_run *run, const char *fmt, ...)
{
	va_list args;
	int len = snprintf(stage, sizeof(stage), "rank %d: ", run->rank);

	va_start(args, fmt);
	vsnprintf(stage + len, sizeof(stage) - (size_t) len - 1, fmt, args);
	va_end(args);
	strcat(stage, "\n");
	for (size_t i = 0; i < run->kinds; i++)
		run->pool[i].used = 0;
	alarm((unsigned int) run->opts.timeout);
}

static int pool_open(struct mpi_pool *pool, enum fi_hmem_iface iface, int device, size_t size)
{
	void *addr;

	pool->buf.ops = ft_mem_ops(iface);
	pool->buf.size = size;
	FT_TRY(pool->buf.ops->init(device));
	FT_TRY(pool->buf.ops->alloc(size, &addr));
	pool->buf.addr = addr;
	return 0;
}

static int run_open(const struct mpi_test *test, struct mpi_run *run)
{
	const enum fi_hmem_iface kinds[MPI_TEST_KINDS] = {FI_HMEM_SYSTEM, run->opts.iface};

	MPI_Comm_rank(MPI_COMM_WORLD, &run->rank);
	MPI_Comm_size(MPI_COMM_WORLD, &run->ranks);
	ft_prefix_set(run->opts.argv[0], run->rank);
	FT_CHECK(run->ranks >= test->ranks, "wants %d ranks or more, got %d", test->ranks,
		 run->ranks);
	MPI_Bcast(&run->opts.seed, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
	run->random = run->opts.seed;
	run->kinds = run->opts.iface == FI_HMEM_SYSTEM ? 1 : 2;
	for (size_t i = 0; i < run->kinds; i++)
		FT_TRY(pool_open(&run->pool[i], kinds[i], run->opts.device, test->pool));
	return 0;
}

static bool is_wanted(const struct mpi_test *test, const char *library)
{
	bool any = true;

	for (size_t i = 0; i < FT_COUNT(test->wants) && test->wants[i]; i++) {
		if (strstr(library, test->wants[i]))
			return true;
		any = false;
	}
	return any;
}

/* Is it for this MPI? */
static bool suits(const struct mpi_test *test, struct mpi_run *run)
{
	char library[MPI_MAX_LIBRARY_VERSION_STRING];
	int len, rank;

	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Get_library_version(library, &len);
	run->mpich = strstr(library, "MPICH");
	if (!is_wanted(test, library)) {
		if (!rank)
			ft_skip("it wants %s, and this is %.20s", test->wants[0], library);
		return false;
	}
	if ((!test->device || run->opts.iface != FI_HMEM_SYSTEM) &&
	    (!test->cuda || run->opts.iface == FI_HMEM_CUDA))
		return true;
	if (!rank)
		ft_skip("it wants memory of %s", test->cuda ? "CUDA" : "a device");
	return false;
}

int mpi_test_main(const struct mpi_test *test, int argc, char **argv)
{
	struct mpi_run run = {0};
	int ret;

	ft_prefix_set(argv[0], -1);
	ft_options_parse(&run.opts, FT_SCOPE_MPI, test->purpose, argc, argv);
	signal(SIGALRM, on_alarm);
	alarm((unsigned int) run.opts.timeout);
	MPI_Init_thread(&argc, &argv, test->threads, &run.threads);
	if (!suits(test, &run)) {
		MPI_Finalize();
		return FT_SKIP;
	}
	ret = run_open(test, &run);
	if (!ret)
		ret = test->run(&run);
	if (ret && ret != FT_SKIP) {
		ft_err("failed (--seed %" PRIu64 ") at %s", run.opts.seed, stage);
		MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
	}
	mpi_stage(&run, "MPI_Finalize");
	MPI_Barrier(MPI_COMM_WORLD);
	for (size_t i = 0; i < run.kinds; i++)
		run.pool[i].buf.ops->release(run.pool[i].buf.addr);
	MPI_Finalize();
	return ret;
}

size_t mpi_random(struct mpi_run *run, size_t limit)
{
	return ft_random(&run->random) % limit;
}

void mpi_msg_init(struct mpi_run *run, struct mpi_msg *msg, int src, int dst, int tag,
		  size_t len)
{
	*msg = (struct mpi_msg){
		.src = src,
		.dst = dst,
		.tag = tag,
		.len = (int) len,
		.room = (int) len,
		.from = mpi_random(run, run->kinds),
		.to = mpi_random(run, run->kinds),
		.key = ft_random(&run->random),
		.req = MPI_REQUEST_NULL,
	};
	if (src == dst && run->mpich)
		msg->from = msg->to = 0;
}

void mpi_msg_any(struct mpi_run *run, struct mpi_msg *msg, int src, int dst, int tag,
		 size_t longest)
{
	size_t count = mpi_test_size_count;

	while (mpi_test_sizes[count - 1] > longest)
		count--;
	mpi_msg_init(run, msg, src, dst, tag, mpi_test_sizes[mpi_random(run, count)]);
}

char *mpi_window(size_t len, MPI_Win *win)
{
	char *memory = calloc(1, len);
	int ret;

	/* Open MPI 5.0 has no one-sided calls over most providers */
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	ret = MPI_Win_create(memory, (MPI_Aint) len, 1, MPI_INFO_NULL, MPI_COMM_WORLD, win);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
	if (ret == MPI_SUCCESS)
		return memory;
	free(memory);
	return NULL;
}

int mpi_slot_take(struct mpi_run *run, size_t kind, size_t len, struct ft_slot *slot)
{
	struct mpi_pool *pool = &run->pool[kind];
	const size_t room = len + FT_ROOM;

	FT_CHECK(pool->used + room <= pool->buf.size,
		 "the test has too little memory for its messages: %zu bytes", pool->buf.size);
	*slot = (struct ft_slot){
		.buf = &pool->buf,
		.base = pool->used,
		.room = room,
		.off = pool->used + 64 + run->taken++ % 64,
		.len = len,
	};
	pool->used += room;
	return 0;
}

void *mpi_addr(const struct ft_slot *slot)
{
	return slot->buf->addr + slot->off;
}

int mpi_msg_ready(struct mpi_run *run, struct mpi_msg *msg)
{
	if (run->rank == msg->src) {
		FT_TRY(mpi_slot_take(run, msg->from, (size_t) msg->len, &msg->tx));
		FT_TRY(ft_slot_fill(&msg->tx, msg->key));
	}
	if (run->rank == msg->dst) {
		FT_TRY(mpi_slot_take(run, msg->to, (size_t) msg->room, &msg->rx));
		FT_TRY(ft_slot_arm(&msg->rx));
	}
	return 0;
}

int mpi_msgs_ready(struct mpi_run *run, struct mpi_msg *msgs, size_t count)
{
	for (size_t i = 0; i < count; i++)
		FT_TRY(mpi_msg_ready(run, &msgs[i]));
	return 0;
}

int mpi_status_check(const struct mpi_msg *msg, const MPI_Status *status)
{
	int count;

	MPI_Get_count((MPI_Status *) status, MPI_BYTE, &count);
	FT_CHECK(status->MPI_SOURCE == msg->src && status->MPI_TAG == msg->tag &&
			 count == msg->len,
		 "expected source %d, tag %d, %d bytes; the status has %d, %d, %d", msg->src,
		 msg->tag, msg->len, status->MPI_SOURCE, status->MPI_TAG, count);
	return 0;
}

int mpi_msg_check(const struct mpi_msg *msg, const struct ft_slot *slot,
		  const MPI_Status *status)
{
	char what[128];

	FT_TRY(mpi_status_check(msg, status));
	snprintf(what, sizeof(what), "%d bytes, rank %d to %d, tag %d", msg->len, msg->src,
		 msg->dst, msg->tag);
	return ft_slot_check(slot, (size_t) msg->len, msg->key, what);
}
