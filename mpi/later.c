/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A table of calls that go on, by the handle that ends them. See later.h. */
#include "later.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "parts.h"

#define LATER_BUCKETS 256

enum later_kind { LATER_REQUEST, LATER_WINDOW, LATER_FILE, LATER_ATTACHED };

/**
 * struct later - one of them.
 * @handle:	what ends it: the bytes of MPI's handle
 * @number:	that of an earlier one is less
 * @target:	of a window
 * @active:	MPI has begun, and the application has not seen the end
 * @given_up:	the application has freed the request
 * @flow:	messages that the request is for, until their end has been seen; else NULL
 * @index:	of the request among those of a call that has taken this
 */
struct later {
	LIST_ENTRY(later) entry;
	enum later_kind kind;
	uint64_t handle, number;
	MPI_Request request;
	int target, index;
	bool persistent, active, given_up;
	struct mirror *mirrors[CALL_BUFFERS];
	int count;
	struct parts_flow *flow;
};

static struct {
	pthread_mutex_t lock;
	struct later_list buckets[LATER_BUCKETS];
	size_t count, given_up;
	uint64_t number;
} later_table = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool later_any(void)
{
	return __atomic_load_n(&later_table.count, __ATOMIC_ACQUIRE) != 0;
}

/* ---- the table ---- */

/* MPI's handles are numbers, or addresses */
#define LATER_HANDLE(of)                                                                       \
	({                                                                                     \
		__typeof__(of) handle_ = (of);                                                 \
		uint64_t bits_ = 0;                                                            \
		memcpy(&bits_, &handle_, sizeof handle_);                                      \
		bits_;                                                                         \
	})

static struct later_list *later_bucket(uint64_t handle)
{
	return &later_table.buckets[(handle ^ handle >> 8 ^ handle >> 16) % LATER_BUCKETS];
}

static bool later_add(struct call *call, enum later_kind kind, uint64_t handle,
		      struct later *as)
{
	struct later *later = malloc(sizeof *later);

	if (!later)
		return false;
	*later = *as;
	later->kind = kind;
	later->handle = handle;
	later->count = call->count;
	memcpy(later->mirrors, call->mirrors, sizeof later->mirrors);
	later->flow = call->flow;
	call->count = 0;
	pthread_mutex_lock(&later_table.lock);
	later->number = ++later_table.number;
	LIST_INSERT_HEAD(later_bucket(handle), later, entry);
	__atomic_add_fetch(&later_table.count, 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&later_table.lock);
	return true;
}

bool later_request(struct call *call, MPI_Request request, bool persistent)
{
	return later_add(call, LATER_REQUEST, LATER_HANDLE(request),
			 &(struct later){.request = request,
					 .persistent = persistent,
					 .active = !persistent});
}

bool later_window(struct call *call, MPI_Win win, int target)
{
	return later_add(call, LATER_WINDOW, LATER_HANDLE(win),
			 &(struct later){.target = target, .active = true});
}

bool later_file(struct call *call, MPI_File file)
{
	return later_add(call, LATER_FILE, LATER_HANDLE(file), &(struct later){.active = true});
}

bool later_attached(struct call *call, uintptr_t owner)
{
	return later_add(call, LATER_ATTACHED, owner, &(struct later){.active = false});
}

/* One of that handle, or NULL; @until: its number, at most; @take: out of the table. The lock is held. */
static struct later *later_find_locked(enum later_kind kind, uint64_t handle, int target,
				       uint64_t until, bool take)
{
	struct later *later;

	LIST_FOREACH(later, later_bucket(handle), entry) {
		if (later->kind == kind && later->handle == handle && later->number <= until &&
		    !later->given_up && (target == LATER_ALL || later->target == target))
			break;
	}
	if (later && take)
		LIST_REMOVE(later, entry);
	return later;
}

static struct later *later_find(MPI_Request request)
{
	struct later *later;

	pthread_mutex_lock(&later_table.lock);
	later = later_find_locked(LATER_REQUEST, LATER_HANDLE(request), LATER_ALL, UINT64_MAX,
				  false);
	pthread_mutex_unlock(&later_table.lock);
	return later;
}

/* ---- their ends ---- */

static bool later_parted(const struct later *later)
{
	return later->count && later->mirrors[0]->moved;
}

static int later_drain(struct later *later, int ret, const char **why)
{
	for (int i = 0; later->active && i < later->count && ret == MPI_SUCCESS; i++)
		ret = mirror_drain(later->mirrors[i], why);
	if (later->flow) {
		const char *told;
		const int error = parts_close(later->flow, &told);

		later->flow = NULL;
		if (error != MPI_SUCCESS) {
			ret = error;
			*why = told;
		}
	}
	later->active = false;
	return ret;
}

static void later_free(struct later *later)
{
	for (int i = 0; i < later->count; i++)
		mirror_free(later->mirrors[i]);
	free(later);
	__atomic_sub_fetch(&later_table.count, 1, __ATOMIC_RELEASE);
}

void later_take(struct later_list *taken, int count, const MPI_Request requests[])
{
	LIST_INIT(taken);
	pthread_mutex_lock(&later_table.lock);
	for (int i = 0; requests && i < count; i++) {
		struct later *later =
			later_find_locked(LATER_REQUEST, LATER_HANDLE(requests[i]), LATER_ALL,
					  UINT64_MAX, false);

		if (!later || later_parted(later))
			continue;
		LIST_REMOVE(later, entry);
		LIST_INSERT_HEAD(taken, later, entry);
		later->index = i;
	}
	pthread_mutex_unlock(&later_table.lock);
}

bool later_messages(const struct later_list *taken, bool wait)
{
	bool all = true;
	struct later *later;

	LIST_FOREACH(later, taken, entry)
		all &= !later->flow || parts_ended(later->flow, wait);
	return all;
}

void later_look(int count, const MPI_Request requests[])
{
	for (int i = 0; requests && i < count; i++) {
		struct later *later = later_find(requests[i]);

		if (later && later->flow)
			parts_ended(later->flow, false);
	}
}

/*
 * The request number @index of a call. @now: what MPI has made of the handle. It clears those of requests that have ended,
 * but for persistent ones.
 */
static bool later_has_ended(const struct later *later, int index, MPI_Request now,
			    const struct later_ends *ends)
{
	int done = 0;

	if (!later->persistent)
		return now != later->request;
	if (!later->active)
		return false;
	if (ends->ret != MPI_SUCCESS)
		return PMPI_Request_get_status(now, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS &&
		       done;
	for (int i = 0; i < ends->count; i++)
		done |= ends->indices[i] == index;
	return ends->all || done;
}

int later_give_back(struct later_list *taken, const MPI_Request requests[],
		    const struct later_ends *ends, const char **why)
{
	struct later *later;
	int ret = ends->ret;

	while ((later = LIST_FIRST(taken))) {
		const bool ended =
			later_has_ended(later, later->index, requests[later->index], ends);
		const char *told = NULL;
		const int error = ended ? later_drain(later, MPI_SUCCESS, &told) : MPI_SUCCESS;

		if (told && !*why) {
			*why = told;
			ret = error;
		}
		LIST_REMOVE(later, entry);
		if (ended && !later->persistent) {
			later_free(later);
			continue;
		}
		pthread_mutex_lock(&later_table.lock);
		LIST_INSERT_HEAD(later_bucket(later->handle), later, entry);
		pthread_mutex_unlock(&later_table.lock);
	}
	return ret;
}

int later_seen(MPI_Request request, const char **why)
{
	struct later *later = later_find(request);

	return later ? later_drain(later, MPI_SUCCESS, why) : MPI_SUCCESS;
}

int later_part(MPI_Request request, int part, const char **why)
{
	struct later *later = later_find(request);

	return later && later->active && later_parted(later)
		       ? mirror_move(later->mirrors[0], (size_t) part, why)
		       : MPI_SUCCESS;
}

int later_parts_ended(int count, const MPI_Request requests[], int ret,
		      const struct later_ends *ends, const char **why)
{
	for (int i = 0; requests && i < count; i++) {
		struct later *later = later_find(requests[i]);
		const char *told = NULL;
		int error;

		if (!later || !later->active || !later_parted(later) ||
		    !later_has_ended(later, i, requests[i], ends))
			continue;
		error = later_drain(later, MPI_SUCCESS, &told);
		if (told && !*why) {
			*why = told;
			ret = error;
		}
	}
	return ret;
}

int later_start(MPI_Request request, const char **why)
{
	struct later *later = later_find(request);
	int ret = MPI_SUCCESS;

	for (int i = 0; later && i < later->count && ret == MPI_SUCCESS; i++)
		ret = mirror_fill(later->mirrors[i], why);
	if (later)
		later->active = true;
	return ret;
}

uint64_t later_number(void)
{
	uint64_t number;

	pthread_mutex_lock(&later_table.lock);
	number = later_table.number;
	pthread_mutex_unlock(&later_table.lock);
	return number;
}

static int later_all_ended(enum later_kind kind, uint64_t handle, int target, uint64_t until,
			   int ret, const char **why)
{
	/* a thread that finds none waits for one that has just taken them */
	static pthread_mutex_t ends = PTHREAD_MUTEX_INITIALIZER;
	struct later *later;

	pthread_mutex_lock(&ends);
	do {
		pthread_mutex_lock(&later_table.lock);
		later = later_find_locked(kind, handle, target, until, true);
		pthread_mutex_unlock(&later_table.lock);
		if (later) {
			ret = later_drain(later, ret, why);
			later_free(later);
		}
	} while (later);
	pthread_mutex_unlock(&ends);
	return ret;
}

int later_window_ended(MPI_Win win, int target, uint64_t until, int ret, const char **why)
{
	return later_all_ended(LATER_WINDOW, LATER_HANDLE(win), target, until, ret, why);
}

int later_file_ended(MPI_File file, int ret, const char **why)
{
	return later_all_ended(LATER_FILE, LATER_HANDLE(file), LATER_ALL, UINT64_MAX, ret, why);
}

void *later_detached(uintptr_t owner)
{
	struct later *later;
	void *buf;

	pthread_mutex_lock(&later_table.lock);
	later = later_find_locked(LATER_ATTACHED, owner, LATER_ALL, UINT64_MAX, true);
	pthread_mutex_unlock(&later_table.lock);
	buf = later ? later->mirrors[0]->buf : NULL;
	if (later)
		later_free(later);
	return buf;
}

/* ---- requests that are given up ---- */

bool later_give_up(MPI_Request request)
{
	struct later *later;
	bool free_now = true;

	pthread_mutex_lock(&later_table.lock);
	later = later_find_locked(LATER_REQUEST, LATER_HANDLE(request), LATER_ALL, UINT64_MAX,
				  false);
	if (later && later->active) {
		later->given_up = true;
		later_table.given_up++;
		free_now = false;
	} else if (later) {
		LIST_REMOVE(later, entry);
	}
	pthread_mutex_unlock(&later_table.lock);
	if (later && free_now)
		later_free(later);
	return free_now;
}

/* Takes one that is given up and has ended out of the table; @wait: any. */
static struct later *later_given_up(bool wait)
{
	struct later *later = NULL;

	pthread_mutex_lock(&later_table.lock);
	for (int i = 0; i < LATER_BUCKETS && !later && later_table.given_up; i++) {
		LIST_FOREACH(later, &later_table.buckets[i], entry) {
			int done = 0;

			if (!later->given_up)
				continue;
			if (wait || (later->flow && parts_ended(later->flow, false)))
				break;
			if (PMPI_Request_get_status(later->request, &done, MPI_STATUS_IGNORE) !=
				    MPI_SUCCESS ||
			    done)
				break;
		}
	}
	if (later) {
		LIST_REMOVE(later, entry);
		later_table.given_up--;
	}
	pthread_mutex_unlock(&later_table.lock);
	return later;
}

void later_poll(bool wait)
{
	struct later *later;

	if (!__atomic_load_n(&later_table.given_up, __ATOMIC_RELAXED))
		return;
	while ((later = later_given_up(wait))) {
		const char *why;
		int ret;

		if (later->flow)
			parts_ended(later->flow, true);
		ret = PMPI_Wait(&later->request, MPI_STATUS_IGNORE);

		later_drain(later, ret, &why);
		if (later->persistent)
			PMPI_Request_free(&later->request);
		later_free(later);
	}
}
