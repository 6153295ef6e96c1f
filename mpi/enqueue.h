/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * MPI calls in a stream of the GPU: what rdma/fi_p2p_mpi.h declares, where mpi.h does not.
 *
 * A host function of the stream cannot call MPI, as it may not call the driver, which messages of GPU memory need. So a
 * thread of the library calls MPI. It and the stream tell each other by two words in pinned memory. Each operation has a
 * number:
 *
 *	stream                                     thread
 *	writes the number to @come ──────────────► begins the operation
 *	waits until @gone is no less ◄──────────── the operation has ended
 *
 * The stream waits for those operations alone that block.
 *
 * An operation is a persistent request, which the application's thread makes. So MPI judges the arguments at once, keeps
 * datatype and communicator, and its mirror is there. The thread starts the request, tests it and frees it. No request
 * keeps the thread, so one thread is enough for all streams, and streams may cross.
 *
 * The thread calls MPI while the application does, which wants MPI_THREAD_MULTIPLE. With less, only the application's own
 * calls of MPI could begin operations: a synchronisation with the stream is none, and would never return.
 *
 * The thread must not wait for a stream that waits for it. The driver waits for all streams when memory is unpinned, when
 * a kernel is loaded, and when a context's flags are set. The thread does none of that: see thread_is_ours() and
 * kernel_load_none(). MPIX_Stream_create() loads the kernel that packs, and sets the flags, beforehand.
 */
#ifndef P2P_MPI_ENQUEUE_H
#define P2P_MPI_ENQUEUE_H

#include <pthread.h>
#include <rdma/fi_p2p_mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "dev/dev.h"

/* Before MPI_Finalize(): waits for all operations, and ends the thread. */
void enqueue_end(void);

#ifdef FI_P2P_MPI_STREAMS
/**
 * struct enqueue_request - an operation's, until it has ended.
 * @handle:	the application may have it, too; none of a sum that has not begun
 * @error:	the first one
 * @begun:	MPI goes on with it
 * @seen:	it has ended, as nobody has been told yet
 * @awaited:	there is an operation that waits for it
 */
struct enqueue_request {
	LIST_ENTRY(enqueue_request) entry;
	MPI_Request handle;
	int error;
	bool begun, seen, awaited;
};

/* The arguments of MPI_Allreduce(), for which MPI 3 has no persistent request */
struct enqueue_sum {
	const void *sendbuf;
	void *recvbuf;
	int count;
	MPI_Datatype type;
	MPI_Op op;
	MPI_Comm comm;
};

/**
 * struct enqueue_op - what the thread does when the stream has come to it.
 * @number:	that of an earlier one is less
 * @begins:	it begins its only request
 * @waits:	it waits until its requests have ended, and so does the stream
 * @ended:	as many have
 * @statuses:	the application's, or NULL
 */
struct enqueue_op {
	STAILQ_ENTRY(enqueue_op) entry;
	uint64_t number;
	bool begins, waits;
	struct enqueue_sum sum;
	MPI_Status *statuses;
	int count, ended;
	struct enqueue_request *requests[];
};

/**
 * struct p2p_mpi_stream - a stream. The lock of all streams guards its lists. The thread alone takes out what the stream has
 * come to. Nobody calls MPI with the lock held: MPI may call enqueue_copied() with a lock of its own.
 * @put:	held while something is put into the stream, so that numbers have its order. The driver may wait for the
 *		stream then, and the stream for the thread
 * @memory:	pinned: the words
 * @come, @gone: the words; @come_there, @gone_there: where the GPU finds them
 * @number:	of the latest operation
 * @refs:	the application's, and communicators
 * @error:	the first one
 */
struct p2p_mpi_stream {
	LIST_ENTRY(p2p_mpi_stream) entry;
	pthread_mutex_t put;
	void *stream;
	struct dev_mem mem;
	char *memory;
	uint64_t *come, *gone, *come_there, *gone_there;
	uint64_t number;
	int refs, error;
	STAILQ_HEAD(, enqueue_op) ops;
	LIST_HEAD(, enqueue_request) requests;
};

/**
 * struct enqueue_state - all streams.
 * @idle:	streams for later. They keep words and numbers: a stream that has not looked at @gone yet finds what it
 *		waits for
 * @news:	something has changed since the latest look began
 * @key:	of the attribute that is a communicator's stream
 */
extern struct enqueue_state {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	LIST_HEAD(, p2p_mpi_stream) streams, idle;
	pthread_t thread;
	bool running, stopping, news;
	int key;
} enqueue;

/* Has the thread look again. Called with the lock held */
void enqueue_wake(void);
/* Begins the thread, if it has not begun. */
bool enqueue_start(void);
#endif

#endif /* P2P_MPI_ENQUEUE_H */
