/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Calls that MPI goes on with when they have returned: their mirrors wait here for what ends them. That is a request, of MPI's
 * or of messages together (parts.h), the synchronisation of a window, or the end of a file's split collective. To the
 * application, requests with and without mirrors are the same, and may be mixed.
 */
#ifndef P2P_MPI_LATER_H
#define P2P_MPI_LATER_H

#include <limits.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "call.h"

/* To all targets of a window: no rank, nor MPI_PROC_NULL, which MPICH has at -1 */
#define LATER_ALL INT_MIN

LIST_HEAD(later_list, later);

/* These take the mirrors of a call, and its flow, or return false: there is no memory. */
bool later_request(struct call *call, MPI_Request request, bool persistent);
bool later_window(struct call *call, MPI_Win win, int target);
bool later_file(struct call *call, MPI_File file);
/* @owner: a communicator, a session, or 0 */
bool later_attached(struct call *call, uintptr_t owner);

/* Is there anything at all? One load. */
bool later_any(void);

/*
 * A call may end some of @requests: it takes their mirrors before it calls MPI. As soon as MPI has ended a request, another
 * thread may get the same handle.
 */
void later_take(struct later_list *taken, int count, const MPI_Request requests[]);
/* Have all messages ended that were made of what is taken? @wait: until they have */
bool later_messages(const struct later_list *taken, bool wait);
/* Looks whether messages have ended that @requests were made of. */
void later_look(int count, const MPI_Request requests[]);
/**
 * struct later_ends - which persistent requests a call has ended: MPI leaves their handles.
 * @ret:	what MPI has returned. If that is an error, MPI is asked for each
 * @all:	all of them
 * @count, @indices: else these
 *
 * That is what the call says. MPICH 5.0 forgets a persistent request when it is asked whether that has ended.
 */
struct later_ends {
	int ret;
	bool all;
	int count;
	const int *indices;
};

/*
 * MPI has returned. What has ended is copied to the GPU, with or without an error; what goes on, and what is
 * persistent, is given back. Returns what MPI has, or an error of the copies, with @why.
 */
int later_give_back(struct later_list *taken, const MPI_Request requests[],
		    const struct later_ends *ends, const char **why);
/* A request may be seen to be done before it is given up: it keeps the data that it brings from then on. */
int later_seen(MPI_Request request, const char **why);
/*
 * Of a partitioned request: a part is ready, or has arrived. Calls that may end such ones leave them where they are, as
 * other threads may tell of parts meanwhile: what has ended of @count requests is copied behind such a call, of which @ret is known so far.
 */
int later_part(MPI_Request request, int part, const char **why);
int later_parts_ended(int count, const MPI_Request requests[], int ret,
		      const struct later_ends *ends, const char **why);
/* A persistent request is about to begin. */
int later_start(MPI_Request request, const char **why);
/*
 * The application gives a request up. True: it is MPI's to free. False: it has mirrors, and is freed when it has ended:
 * later_poll() looks.
 */
bool later_give_up(MPI_Request request);
/* @wait: until all such have ended */
void later_poll(bool wait);

/* The number of the latest one */
uint64_t later_number(void);
/*
 * Operations on a window to @target have ended with @ret, up to the number @until: threads may have begun others since. Or
 * the split collective of a file has. As later_give_back()
 */
int later_window_ended(MPI_Win win, int target, uint64_t until, int ret, const char **why);
int later_file_ended(MPI_File file, int ret, const char **why);

/* The buffer of MPI_Bsend has been detached: the one that the application gave, or NULL if that has no mirror */
void *later_detached(uintptr_t owner);

#endif /* P2P_MPI_LATER_H */
