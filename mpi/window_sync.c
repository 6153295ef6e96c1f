/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Synchronisation of windows on GPU memory: fences, locks, and epochs between groups. See window.h. */
#include <stdlib.h>

#include "call.h"
#include "window.h"

static bool window_is_rank(const struct window *window, int rank)
{
	return rank >= 0 && rank < window->ranks;
}

static int window_no_rank(const struct window *window)
{
	return window_error(window, MPI_ERR_RANK, "the target is no rank of the window");
}

/* ---- fences and flushes ---- */

int window_Win_fence(int assert, MPI_Win win)
{
	struct window *window = window_find(win);
	/* a rank whose operations have failed comes to the barrier as well */
	const int ret = window_flush(window, WINDOW_ALL), all = PMPI_Barrier(window->comm);

	(void) assert;
	return ret == MPI_SUCCESS ? all : ret;
}

int window_Win_flush(int rank, MPI_Win win)
{
	struct window *window = window_find(win);

	if (rank == MPI_PROC_NULL)
		return MPI_SUCCESS;
	return window_is_rank(window, rank) ? window_flush(window, rank)
					    : window_no_rank(window);
}

int window_Win_flush_all(MPI_Win win)
{
	return window_flush(window_find(win), WINDOW_ALL);
}

int window_Win_flush_local(int rank, MPI_Win win)
{
	return window_Win_flush(rank, win);
}

int window_Win_flush_local_all(MPI_Win win)
{
	return window_Win_flush_all(win);
}

CALL_WRAPPER(Win_sync, (MPI_Win win))
{
	CALL_REAL(Win_sync, (MPI_Win));
	static int fence;

	/* there is one copy of the memory only; the thread sanitizer knows no plain fences */
	__atomic_fetch_add(&fence, 0, __ATOMIC_SEQ_CST);
	return window_find(win) ? MPI_SUCCESS : real(win);
}

/* ---- locks ---- */

static void window_acquire(struct window *window, int rank, int type, int assert)
{
	struct window_peer *peer = &window->peers[rank];

	peer->locked = assert &MPI_MODE_NOCHECK ? WINDOW_NO_CHECK : WINDOW_LOCKED;
	if (peer->locked == WINDOW_LOCKED)
		window_ask(window, rank, WINDOW_LOCK, type == MPI_LOCK_EXCLUSIVE);
}

/* Its own operations have ended. It does not wait until the owner has heard. */
static void window_release(struct window *window, int rank)
{
	struct window_peer *peer = &window->peers[rank];

	if (peer->locked == WINDOW_LOCKED)
		window_ask(window, rank, WINDOW_UNLOCK, 0);
	peer->locked = WINDOW_UNLOCKED;
}

CALL_WRAPPER(Win_lock, (int type, int rank, int assert, MPI_Win win))
{
	CALL_REAL(Win_lock, (int, int, int, MPI_Win));
	struct window *window = window_find(win);

	if (!window)
		return real(type, rank, assert, win);
	if (rank == MPI_PROC_NULL)
		return MPI_SUCCESS;
	if (!window_is_rank(window, rank))
		return window_no_rank(window);
	if (type != MPI_LOCK_EXCLUSIVE && type != MPI_LOCK_SHARED)
		return window_error(window, MPI_ERR_LOCKTYPE, "this is no type of lock");
	if (window->peers[rank].locked)
		return window_error(window, MPI_ERR_RMA_SYNC, "the target is locked already");
	window_acquire(window, rank, type, assert);
	return window_flush(window, rank);
}

CALL_WRAPPER(Win_lock_all, (int assert, MPI_Win win))
{
	CALL_REAL(Win_lock_all, (int, MPI_Win));
	struct window *window = window_find(win);

	if (!window)
		return real(assert, win);
	for (int i = 0; i < window->ranks; i++) {
		if (window->peers[i].locked)
			return window_error(window, MPI_ERR_RMA_SYNC,
					    "a target is locked already");
	}
	for (int i = 0; i < window->ranks; i++)
		window_acquire(window, i, MPI_LOCK_SHARED, assert);
	return window_flush(window, WINDOW_ALL);
}

int window_Win_unlock(int rank, MPI_Win win)
{
	struct window *window = window_find(win);
	int ret;

	if (rank == MPI_PROC_NULL)
		return MPI_SUCCESS;
	if (!window_is_rank(window, rank))
		return window_no_rank(window);
	if (!window->peers[rank].locked)
		return window_error(window, MPI_ERR_RMA_SYNC, "the target is not locked");
	ret = window_flush(window, rank);
	window_release(window, rank);
	return ret;
}

int window_Win_unlock_all(MPI_Win win)
{
	struct window *window = window_find(win);
	int ret;

	for (int i = 0; i < window->ranks; i++) {
		if (!window->peers[i].locked)
			return window_error(window, MPI_ERR_RMA_SYNC, "a target is not locked");
	}
	ret = window_flush(window, WINDOW_ALL);
	for (int i = 0; i < window->ranks; i++)
		window_release(window, i);
	return ret;
}

/* ---- groups ---- */

static void window_group_end(struct window_group *group)
{
	free(group->ranks);
	group->ranks = NULL;
	group->count = 0;
}

/* @group: the ranks of @of, as the window numbers them */
static int window_group_begin(struct window *window, struct window_group *group, MPI_Group of)
{
	MPI_Group all = MPI_GROUP_NULL;
	int *from = NULL, ret;

	if (group->ranks)
		return window_error(window, MPI_ERR_RMA_SYNC,
				    "there is such an epoch of the window already");
	ret = PMPI_Group_size(of, &group->count);
	if (ret != MPI_SUCCESS)
		return ret;
	from = calloc((size_t) group->count + 1, sizeof *from);
	group->ranks = calloc((size_t) group->count + 1, sizeof *group->ranks);
	for (int i = 0; from && i < group->count; i++)
		from[i] = i;
	if (!from || !group->ranks)
		ret = MPI_ERR_NO_MEM;
	if (ret == MPI_SUCCESS)
		ret = PMPI_Comm_group(window->comm, &all);
	if (ret == MPI_SUCCESS)
		ret = PMPI_Group_translate_ranks(of, group->count, from, all, group->ranks);
	if (all != MPI_GROUP_NULL)
		PMPI_Group_free(&all);
	free(from);
	for (int i = 0; ret == MPI_SUCCESS && i < group->count; i++)
		ret = window_is_rank(window, group->ranks[i]) ? MPI_SUCCESS : MPI_ERR_GROUP;
	if (ret == MPI_SUCCESS)
		return ret;
	window_group_end(group);
	return window_error(window, ret, "the group has others than the window's ranks");
}

static void window_tell(struct window *window, const struct window_group *group,
			enum window_kind kind)
{
	for (int i = 0; i < group->count; i++)
		window_ask(window, group->ranks[i], kind, 0);
}

static unsigned int *window_notices(struct window *window, int rank, enum window_kind kind)
{
	struct window_peer *peer = &window->peers[rank];

	return kind == WINDOW_POST ? &peer->posts : &peer->completes;
}

/* Has the whole group told us so? Then that is taken. */
static bool window_told_locked(struct window *window, const struct window_group *group,
			       enum window_kind kind)
{
	for (int i = 0; i < group->count; i++) {
		if (!*window_notices(window, group->ranks[i], kind))
			return false;
	}
	for (int i = 0; i < group->count; i++)
		(*window_notices(window, group->ranks[i], kind))--;
	return true;
}

static void window_await(struct window *window, const struct window_group *group,
			 enum window_kind kind)
{
	window_lock();
	while (!window_told_locked(window, group, kind))
		window_wait(window);
	window_unlock();
}

CALL_WRAPPER(Win_post, (MPI_Group group, int assert, MPI_Win win))
{
	CALL_REAL(Win_post, (MPI_Group, int, MPI_Win));
	struct window *window = window_find(win);
	int ret;

	if (!window)
		return real(group, assert, win);
	ret = window_group_begin(window, &window->exposure, group);
	if (ret == MPI_SUCCESS)
		window_tell(window, &window->exposure, WINDOW_POST);
	return ret;
}

CALL_WRAPPER(Win_start, (MPI_Group group, int assert, MPI_Win win))
{
	CALL_REAL(Win_start, (MPI_Group, int, MPI_Win));
	struct window *window = window_find(win);
	int ret;

	if (!window)
		return real(group, assert, win);
	ret = window_group_begin(window, &window->access, group);
	/* with MPI_MODE_NOCHECK, too: notices are told all the same, and are here soon */
	if (ret == MPI_SUCCESS)
		window_await(window, &window->access, WINDOW_POST);
	return ret;
}

int window_Win_complete(MPI_Win win)
{
	struct window *window = window_find(win);
	int ret;

	if (!window->access.ranks)
		return window_error(window, MPI_ERR_RMA_SYNC, "MPI_Win_start is missing");
	ret = window_flush(window, WINDOW_ALL);
	window_tell(window, &window->access, WINDOW_COMPLETE);
	window_group_end(&window->access);
	/* MPI_Win_test finds what a message after this call has told its rank of */
	return ret == MPI_SUCCESS ? window_flush(window, WINDOW_ALL) : ret;
}

CALL_WRAPPER(Win_wait, (MPI_Win win))
{
	CALL_REAL(Win_wait, (MPI_Win));
	struct window *window = window_find(win);

	if (!window)
		return real(win);
	if (!window->exposure.ranks)
		return window_error(window, MPI_ERR_RMA_SYNC, "MPI_Win_post is missing");
	window_await(window, &window->exposure, WINDOW_COMPLETE);
	window_group_end(&window->exposure);
	return MPI_SUCCESS;
}

CALL_WRAPPER(Win_test, (MPI_Win win, int *flag))
{
	CALL_REAL(Win_test, (MPI_Win, int *) );
	struct window *window = window_find(win);

	if (!window)
		return real(win, flag);
	if (!window->exposure.ranks)
		return window_error(window, MPI_ERR_RMA_SYNC, "MPI_Win_post is missing");
	window_lock();
	*flag = window_told_locked(window, &window->exposure, WINDOW_COMPLETE);
	window_unlock();
	if (*flag)
		window_group_end(&window->exposure);
	return MPI_SUCCESS;
}
