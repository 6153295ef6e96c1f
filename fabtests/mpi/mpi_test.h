/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the MPI programs share: start and end, and messages whose data proves where they
 * came from. MPI's own errors are fatal; unless a comment says otherwise a function
 * returns 0 or -FI_E*, and has reported an error on stderr.
 */
#ifndef MPI_TEST_H
#define MPI_TEST_H

#include <mpi.h>

#include "ft.h"

#define MPI_TEST_KINDS 2
#define MPI_TEST_LONGEST (8 * 1048576 - 3) /* of mpi_test_sizes */

/**
 * struct mpi_pool - memory of one kind that slots are cut from
 * @used:	bytes that are taken; never given back one by one
 */
struct mpi_pool {
	struct ft_buf buf;
	size_t used;
};

/**
 * struct mpi_run - what one rank knows
 * @pool:	one for each kind of memory under test: host, and the device's with -D
 * @random:	state of ft_random(), the same on all ranks: every rank draws every number
 * @taken:	slots so far; moves them to ever different places
 * @threads:	what the MPI allows of what the program asked for
 * @mpich:	the MPI is that one: for example, its CPU copies what a rank sends to itself
 */
struct mpi_run {
	struct ft_opts opts;
	int rank, ranks, threads;
	bool mpich;
	struct mpi_pool pool[MPI_TEST_KINDS];
	size_t kinds;
	uint64_t random, taken;
};

/**
 * struct mpi_test - a program
 * @ranks:	fewest ranks that it makes sense with
 * @threads:	which of MPI_THREAD_... it asks for; 0: it has one thread
 * @pool:	bytes of each kind of memory that a rank needs at a time
 * @wants:	what the MPI calls itself, one of these; others are skipped. None: any
 * @run:	may return FT_SKIP on all ranks
 * @device:	skipped without a device's memory; @cuda: or without that of CUDA
 */
struct mpi_test {
	const char *purpose, *wants[2];
	int ranks, threads;
	bool device, cuda;
	size_t pool;
	int (*run)(struct mpi_run *run);
};

int mpi_test_main(const struct mpi_test *test, int argc, char **argv);

/** mpi_stage() - what follows has a time limit of its own, and this name when it ends.
 * All slots are free again.
 */
void mpi_stage(struct mpi_run *run, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/** Lengths around every threshold of ours, of libfabric's and of MPIs' */
extern const size_t mpi_test_sizes[];
extern const size_t mpi_test_size_count;

/**
 * struct mpi_msg - one message, which all ranks describe alike
 * @from, @to:	kinds of memory, indices of mpi_run.pool
 * @room:	bytes that the receive has for it
 * @key:	of the pattern; different for each message
 * @tx, @rx:	valid on ranks @src and @dst, once mpi_msg_ready() has run
 */
struct mpi_msg {
	int src, dst, tag;
	int len, room;
	size_t from, to;
	uint64_t key;
	struct ft_slot tx, rx;
	MPI_Request req;
};

/** mpi_random() - a number below @limit, the same on all ranks */
size_t mpi_random(struct mpi_run *run, size_t limit);
/** mpi_msg_init() - any memory that may be, and the length @len, the receive as long as that */
void mpi_msg_init(struct mpi_run *run, struct mpi_msg *msg, int src, int dst, int tag,
		  size_t len);
/** mpi_msg_any() - as mpi_msg_init(), with a length up to @longest */
void mpi_msg_any(struct mpi_run *run, struct mpi_msg *msg, int src, int dst, int tag,
		 size_t longest);
/** mpi_msg_ready() - at either end: take a slot, put the data there or the guards */
int mpi_msg_ready(struct mpi_run *run, struct mpi_msg *msg);
/** mpi_msgs_ready() - mpi_msg_ready() for all of them */
int mpi_msgs_ready(struct mpi_run *run, struct mpi_msg *msgs, size_t count);
/** mpi_msg_check() - what was received into @slot is @msg, and @status says so */
int mpi_msg_check(const struct mpi_msg *msg, const struct ft_slot *slot,
		  const MPI_Status *status);
/** mpi_status_check() - @status has @msg's source, tag and length */
int mpi_status_check(const struct mpi_msg *msg, const MPI_Status *status);

/** mpi_window() - a window of the world on zeroed host memory; the caller frees that. NULL: the MPI has none over this provider */
char *mpi_window(size_t len, MPI_Win *win);

/** mpi_slot_take() - room for @len bytes in memory of @kind, in an odd place */
int mpi_slot_take(struct mpi_run *run, size_t kind, size_t len, struct ft_slot *slot);
/** mpi_addr() - where the payload is */
void *mpi_addr(const struct ft_slot *slot);

#endif /* MPI_TEST_H */
