/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Windows on GPU memory, all of whose calls are ours. A window of which no rank's memory is a GPU's stays MPI's.
 *
 *	origin                                owner, in its service's thread (service.h)
 *	request: kind, runs, data   ──────►   mirror of the runs; reads, computes, writes
 *	result, count of pending    ◄──────   reply
 *
 * An operation on data is one kind of request: it fetches what is there, or not, and replaces it by a calculation. A long
 * one becomes several requests. Replies count: synchronisation waits until there are as many as requests. So all that is
 * done to a window is done by one thread, one after the other, in the order in which each origin has asked for it. That
 * gives the standard's atomicity, and its order of accumulations.
 *
 * To the application, the handle is that of a window of MPI's on MPI_COMM_SELF, without memory, which keeps the name, the
 * attributes, the error handler and the like.
 */
#ifndef P2P_MPI_WINDOW_H
#define P2P_MPI_WINDOW_H

#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "calculate.h"
#include "layout.h"
#include "service.h"

/* What is asked for: data; the lock of a rank's window; or a notice, which the owner counts. All but an unlock have a reply. */
enum window_kind {
	WINDOW_REPLY,
	WINDOW_DATA,
	WINDOW_SWAP,
	WINDOW_LOCK,
	WINDOW_UNLOCK,
	WINDOW_POST,
	WINDOW_COMPLETE
};

/* What went wrong at the owner */
enum window_error {
	WINDOW_FINE,
	WINDOW_RANGE,
	WINDOW_GONE,
	WINDOW_FAILED,
	WINDOW_NO_MEM,
	WINDOW_LOST,
	WINDOW_WRONG,
	WINDOW_ERRORS
};

/* The operation of an enum calculation; MPI_OP_NULL: there is no such */
MPI_Op window_op(unsigned int calculation);

/**
 * struct window_head - the begin of a message; @runs of the window's memory and @len bytes of data follow.
 * @window:	which one it is, for who gets this
 * @rank:	of who sends it
 * @op:		the origin's number of the request, for the reply
 * @fetch:	the reply has what was there
 * @calculation, @type: what to do with elements of which type (calculate.h)
 * @unit:	from one element to the next one [bytes]; of a lock: is it exclusive?
 */
struct window_head {
	uint16_t kind, error;
	uint32_t window;
	int32_t rank, type;
	uint64_t op;
	uint16_t fetch, calculation;
	uint32_t unit;
	uint64_t runs, len;
};

_Static_assert(sizeof(struct window_head) % 16 == 0 && sizeof(struct layout_run) == 16,
	       "what follows is aligned for any type");

/**
 * struct window_peer - what a rank knows of another one's part of a window.
 * @pending:	requests that have no reply yet, the oldest first
 * @error:	the first one since the last synchronisation
 * @locked:	by us
 * @posts, @completes: of its notices, those that nobody has waited for
 * @holds:	the lock of our part, for the service's thread: while it waits, it is in a list;
 * @exclusive:	it wants it alone; @lock: its number of that request
 */
struct window_peer {
	STAILQ_ENTRY(window_peer) entry;
	fi_addr_t addr;
	uint32_t window;
	MPI_Aint size;
	int unit;
	TAILQ_HEAD(, window_pending) pending;
	unsigned int posts, completes;
	enum window_error error;
	enum { WINDOW_UNLOCKED, WINDOW_LOCKED, WINDOW_NO_CHECK } locked;
	enum { WINDOW_NOTHING, WINDOW_WAITS, WINDOW_HOLDS } holds;
	bool exclusive;
	uint64_t lock;
};

/* Memory of a window: all of it, or what was attached */
struct window_region {
	SLIST_ENTRY(window_region) entry;
	char *base;
	MPI_Aint size;
	bool gpu;
};

/* Ranks that an epoch is about */
struct window_group {
	int count, *ranks;
};

/**
 * struct window - one of ours.
 * @handle:	what the application has
 * @base, @size, @unit, @flavor, @model: what its attributes say; @base is what runs count from, too
 * @holders:	how many hold the lock; @exclusive: it is one, and nobody else may
 * @waiters:	who waits for it, the first first
 * @access, @exposure: of MPI_Win_start and MPI_Win_post
 */
struct window {
	LIST_ENTRY(window) entry;
	MPI_Win handle;
	MPI_Comm comm;
	uint32_t number;
	int rank, ranks;
	char *base;
	MPI_Aint size;
	int unit, flavor, model;
	SLIST_HEAD(, window_region) regions;
	struct window_peer *peers;
	int holders;
	bool exclusive;
	STAILQ_HEAD(, window_peer) waiters;
	struct window_group access, exposure;
};

/* One of ours, or NULL: one load as long as there is none */
struct window *window_find(MPI_Win win);

/* Guards all that the service's thread shares with calls. window_wait() lets go of it for a while. */
void window_lock(void);
void window_unlock(void);
void window_wait(const struct window *window);
void window_wake(void);

/* For the service's thread: the window of that number, which is there until window_put(), or NULL */
struct window *window_get(uint32_t number);
void window_put(void);

/* To all ranks */
#define WINDOW_ALL -1

/* Ends the process, and so the job: another rank would wait for ever. */
_Noreturn void window_fatal(const char *why);

/* An error of ours, by the window's error handler */
int window_error(const struct window *window, int error, const char *why);
/* Asks @target for what has no data. */
void window_ask(struct window *window, int target, enum window_kind kind, uint32_t unit);
/* Waits until @target has answered all requests, and returns the first error. */
int window_flush(struct window *window, int target);

/* The owner's side. @head: of a message of @len bytes. It is of one of the window's ranks; nothing else is known of it. */
void window_serve(struct window *window, const struct window_head *head, size_t len);

/* The service's two */
void window_arrived(const void *data, size_t len);
void window_unsent(const void *data, fi_addr_t to);
/* @head, of a message to @to, could not be sent: all that it was asked for ends with an error. */
void window_lost_locked(struct window *window, const struct window_head *head, fi_addr_t to);

/* What stands in for MPI's calls */
int window_Put(const void *origin, MPI_Count origin_count, MPI_Datatype origin_type, int target,
	       MPI_Aint disp, MPI_Count target_count, MPI_Datatype target_type, MPI_Win win);
int window_Get(void *origin, MPI_Count origin_count, MPI_Datatype origin_type, int target,
	       MPI_Aint disp, MPI_Count target_count, MPI_Datatype target_type, MPI_Win win);
int window_Accumulate(const void *origin, MPI_Count origin_count, MPI_Datatype origin_type,
		      int target, MPI_Aint disp, MPI_Count target_count,
		      MPI_Datatype target_type, MPI_Op op, MPI_Win win);
int window_Get_accumulate(const void *origin, MPI_Count origin_count, MPI_Datatype origin_type,
			  void *result, MPI_Count result_count, MPI_Datatype result_type,
			  int target, MPI_Aint disp, MPI_Count target_count,
			  MPI_Datatype target_type, MPI_Op op, MPI_Win win);
int window_Fetch_and_op(const void *origin, void *result, MPI_Datatype type, int target,
			MPI_Aint disp, MPI_Op op, MPI_Win win);
int window_Compare_and_swap(const void *origin, const void *compare, void *result,
			    MPI_Datatype type, int target, MPI_Aint disp, MPI_Win win);
int window_Rput(const void *origin, MPI_Count origin_count, MPI_Datatype origin_type,
		int target, MPI_Aint disp, MPI_Count target_count, MPI_Datatype target_type,
		MPI_Win win, MPI_Request *request);
int window_Rget(void *origin, MPI_Count origin_count, MPI_Datatype origin_type, int target,
		MPI_Aint disp, MPI_Count target_count, MPI_Datatype target_type, MPI_Win win,
		MPI_Request *request);
int window_Raccumulate(const void *origin, MPI_Count origin_count, MPI_Datatype origin_type,
		       int target, MPI_Aint disp, MPI_Count target_count,
		       MPI_Datatype target_type, MPI_Op op, MPI_Win win, MPI_Request *request);
int window_Rget_accumulate(const void *origin, MPI_Count origin_count, MPI_Datatype origin_type,
			   void *result, MPI_Count result_count, MPI_Datatype result_type,
			   int target, MPI_Aint disp, MPI_Count target_count,
			   MPI_Datatype target_type, MPI_Op op, MPI_Win win,
			   MPI_Request *request);
int window_Win_fence(int assert, MPI_Win win);
int window_Win_complete(MPI_Win win);
int window_Win_unlock(int rank, MPI_Win win);
int window_Win_unlock_all(MPI_Win win);
int window_Win_flush(int rank, MPI_Win win);
int window_Win_flush_all(MPI_Win win);
int window_Win_flush_local(int rank, MPI_Win win);
int window_Win_flush_local_all(MPI_Win win);
int window_Win_free(MPI_Win *win);

#endif /* P2P_MPI_WINDOW_H */
