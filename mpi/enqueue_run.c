/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The thread that carries out what streams have come to. See enqueue.h. */
#include "enqueue.h"

#ifndef FI_P2P_MPI_STREAMS
void enqueue_end(void)
{
}
#else
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/thread.h"
#include "call.h"
#include "kernel.h"

/* How long the thread looks without a sleep, and how long it sleeps at most [ns] */
#define ENQUEUE_SPIN 50000
#define ENQUEUE_NAP 200000

struct enqueue_state enqueue = {.lock = PTHREAD_MUTEX_INITIALIZER,
				.wake = PTHREAD_COND_INITIALIZER,
				.key = MPI_KEYVAL_INVALID};

/* ---- operations ---- */

static void enqueue_failed(struct p2p_mpi_stream *stream, struct enqueue_request *request,
			   int error)
{
	if (request->error == MPI_SUCCESS)
		request->error = error;
	if (stream->error == MPI_SUCCESS)
		__atomic_store_n(&stream->error, error, __ATOMIC_RELAXED);
}

static void enqueue_begin(struct p2p_mpi_stream *stream, struct enqueue_op *op)
{
	struct enqueue_request *request = op->requests[0];
	const struct enqueue_sum *sum = &op->sum;
	int ret = request->handle != MPI_REQUEST_NULL
			  ? MPI_Start(&request->handle)
			  : MPI_Iallreduce(sum->sendbuf, sum->recvbuf, sum->count, sum->type,
					   sum->op, sum->comm, &request->handle);

	enqueue_failed(stream, request, ret);
	request->begun = true;
}

/* Has it ended? A request that MPI could not begin has. */
static bool enqueue_test(struct p2p_mpi_stream *stream, struct enqueue_request *request,
			 MPI_Status *status)
{
	MPI_Status found;
	int ended = 0, ret;

	memset(&found, 0, sizeof found);
	ret = MPI_Test(&request->handle, &ended, &found);
	if (ret == MPI_SUCCESS && !ended)
		return false;
	enqueue_failed(stream, request, ret);
	if (request->handle != MPI_REQUEST_NULL)
		MPI_Request_free(&request->handle);
	found.MPI_ERROR = request->error;
	if (status)
		*status = found;
	return true;
}

/* Does what can be done now. Has the operation ended? */
static bool enqueue_carry_out(struct p2p_mpi_stream *stream, struct enqueue_op *op)
{
	if (op->begins && !op->requests[0]->begun)
		enqueue_begin(stream, op);
	while (op->waits && op->ended < op->count) {
		if (!enqueue_test(stream, op->requests[op->ended],
				  op->statuses ? &op->statuses[op->ended] : NULL))
			return false;
		op->ended++;
	}
	return true;
}

/* The first operation, if the stream has come to it. Called with the lock held, which is not held meanwhile */
static bool enqueue_advance(struct p2p_mpi_stream *stream)
{
	struct enqueue_op *op = STAILQ_FIRST(&stream->ops);
	bool ended;

	if (!op || op->number > __atomic_load_n(stream->come, __ATOMIC_ACQUIRE))
		return false;
	pthread_mutex_unlock(&enqueue.lock);
	ended = enqueue_carry_out(stream, op);
	pthread_mutex_lock(&enqueue.lock);
	if (!ended)
		return false;
	STAILQ_REMOVE_HEAD(&stream->ops, entry);
	for (int i = 0; op->waits && i < op->count; i++) {
		LIST_REMOVE(op->requests[i], entry);
		free(op->requests[i]);
	}
	/* the stream, and the host behind it, see all of the above from now on */
	__atomic_store_n(stream->gone, op->number, __ATOMIC_RELEASE);
	free(op);
	return true;
}

/* MPI may go on only while it is called: is there a request that no operation waits for yet? The lock is not held meanwhile */
static bool enqueue_progress(struct p2p_mpi_stream *stream)
{
	static int (*real)(MPI_Request, int *, MPI_Status *);
	struct enqueue_request *request;
	bool busy = false;

	/* MPI's own: what has arrived is copied when the request ends */
	if (!real)
		*(void **) &real = call_symbol("PMPI_Request_get_status");
	LIST_FOREACH(request, &stream->requests, entry) {
		int ended = 0;

		if (!request->begun || request->seen || request->awaited)
			continue;
		pthread_mutex_unlock(&enqueue.lock);
		request->seen =
			real(request->handle, &ended, MPI_STATUS_IGNORE) != MPI_SUCCESS ||
			ended;
		pthread_mutex_lock(&enqueue.lock);
		busy |= !request->seen;
	}
	return busy;
}

/* ---- the thread ---- */

/*
 * One look at all streams: has something been done? @busy: there is something to wait for. Called with the lock held, which
 * is not held meanwhile
 */
static bool enqueue_look(bool *busy)
{
	struct p2p_mpi_stream *stream, *next;
	bool moved = false;

	*busy = enqueue.news = false;
	for (stream = LIST_FIRST(&enqueue.streams); stream; stream = next) {
		moved |= enqueue_advance(stream);
		*busy |= enqueue_progress(stream);
		*busy |= !STAILQ_EMPTY(&stream->ops);
		next = LIST_NEXT(stream, entry);
		if (stream->refs == 0 && STAILQ_EMPTY(&stream->ops) &&
		    LIST_EMPTY(&stream->requests)) {
			LIST_REMOVE(stream, entry);
			LIST_INSERT_HEAD(&enqueue.idle, stream, entry);
		}
	}
	return moved;
}

/* Nothing has happened since then: short at first. */
static void enqueue_nap(uint64_t since)
{
	const uint64_t idle = clock_ns() - since;
	const struct timespec nap = {.tv_nsec = idle / 4 < ENQUEUE_NAP ? (long) idle / 4
								       : ENQUEUE_NAP};

	if (idle > ENQUEUE_SPIN)
		nanosleep(&nap, NULL);
}

/* Will a stream never get to its operations? Its context is gone, or has failed. */
static bool enqueue_dead(void)
{
	struct p2p_mpi_stream *stream;
	void *addr;

	LIST_FOREACH(stream, &enqueue.streams, entry) {
		if (!STAILQ_EMPTY(&stream->ops) &&
		    stream->mem.ops->host_address(&stream->mem, stream->memory, &addr))
			return true;
	}
	return false;
}

/* Returns what is not NULL if there is something that it has given up. */
static void *enqueue_run(void *unused)
{
	uint64_t since = clock_ns();
	bool busy;

	(void) unused;
	kernel_load_none();
	pthread_mutex_lock(&enqueue.lock);
	for (;;) {
		if (enqueue_look(&busy) || enqueue.news) {
			since = clock_ns();
		} else if (!busy && !enqueue.stopping) {
			pthread_cond_wait(&enqueue.wake, &enqueue.lock);
			since = clock_ns();
		} else if (!busy || (enqueue.stopping && enqueue_dead())) {
			break;
		} else {
			pthread_mutex_unlock(&enqueue.lock);
			enqueue_nap(since);
			pthread_mutex_lock(&enqueue.lock);
		}
	}
	pthread_mutex_unlock(&enqueue.lock);
	return busy ? &enqueue : NULL;
}

void enqueue_wake(void)
{
	enqueue.news = true;
	pthread_cond_signal(&enqueue.wake);
}

bool enqueue_start(void)
{
	bool running;

	pthread_mutex_lock(&enqueue.lock);
	if (!enqueue.running)
		enqueue.running =
			thread_start(&enqueue.thread, "p2p-mpi-stream", enqueue_run, NULL) == 0;
	running = enqueue.running;
	pthread_mutex_unlock(&enqueue.lock);
	return running;
}

void enqueue_end(void)
{
	void *given_up;

	if (!enqueue.running)
		return;
	pthread_mutex_lock(&enqueue.lock);
	enqueue.stopping = true;
	enqueue_wake();
	pthread_mutex_unlock(&enqueue.lock);
	pthread_join(enqueue.thread, &given_up);
	enqueue.running = false;
	if (given_up)
		call_told(MPI_ERR_OTHER, "a stream's context is gone, or has failed: what "
					 "was in the stream has not been carried out");
}
#endif
