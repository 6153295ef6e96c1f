/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The windows on GPU memory of this process: how they begin and end, and what they say of themselves. See window.h. */
#include "window.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "call.h"
#include "dev/dev.h"
#include "hidden.h"

/* Who waits has MPI go on at least so often [ms] */
#define WINDOW_PROGRESS 1

/* @served: what the service's thread is at; @comm: MPI_COMM_SELF, with errors returned */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	LIST_HEAD(, window) windows;
	const struct window *served;
	unsigned int count;
	uint32_t number;
	MPI_Comm comm;
} window_table = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* ---- the table ---- */

void window_lock(void)
{
	pthread_mutex_lock(&window_table.lock);
}

void window_unlock(void)
{
	pthread_mutex_unlock(&window_table.lock);
}

void window_wake(void)
{
	pthread_cond_broadcast(&window_table.changed);
}

void window_wait(const struct window *window)
{
	struct timespec until;
	int any;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += WINDOW_PROGRESS * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	if (pthread_cond_timedwait(&window_table.changed, &window_table.lock, &until) !=
	    ETIMEDOUT)
		return;
	/*
	 * Another rank may need what this one has begun before it can answer. A probe has MPI go on; in MPICH, where
	 * there are other ranks, and nothing to be found.
	 */
	window_unlock();
	PMPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, window->comm, &any, MPI_STATUS_IGNORE);
	window_lock();
}

struct window *window_find(MPI_Win win)
{
	struct window *window;

	if (!__atomic_load_n(&window_table.count, __ATOMIC_ACQUIRE))
		return NULL;
	window_lock();
	LIST_FOREACH(window, &window_table.windows, entry) {
		if (window->handle == win)
			break;
	}
	window_unlock();
	return window;
}

struct window *window_get(uint32_t number)
{
	struct window *window;

	window_lock();
	LIST_FOREACH(window, &window_table.windows, entry) {
		if (window->number == number)
			break;
	}
	window_table.served = window;
	window_unlock();
	return window;
}

void window_put(void)
{
	window_lock();
	/* who waits for that looks again soon */
	window_table.served = NULL;
	window_unlock();
}

int window_error(const struct window *window, int error, const char *why)
{
	return call_report(&CALL_WIN(window->handle), error, why);
}

void window_unsent(const void *data, fi_addr_t to)
{
	struct window *window;

	window_lock();
	LIST_FOREACH(window, &window_table.windows, entry)
		window_lost_locked(window, data, to);
	window_unlock();
}

void window_fatal(const char *why)
{
	fprintf(stderr, "libp2p-mpi: %s: it would wait for ever\n", why);
	abort();
}

/* ---- begin and end ---- */

/* What ranks tell each other of a window */
struct window_part {
	struct service_address address;
	uint32_t number;
	int unit, error;
	MPI_Aint size;
};

static void window_free(struct window *window)
{
	struct window_region *region;

	if (window->number) {
		window_lock();
		LIST_REMOVE(window, entry);
		__atomic_sub_fetch(&window_table.count, 1, __ATOMIC_RELEASE);
		/* an unlock may come as late as that */
		while (window_table.served == window)
			window_wait(window);
		window_unlock();
	}
	if (window->comm != MPI_COMM_NULL)
		PMPI_Comm_free(&window->comm);
	while ((region = SLIST_FIRST(&window->regions))) {
		SLIST_REMOVE_HEAD(&window->regions, entry);
		free(region);
	}
	free(window->access.ranks);
	free(window->exposure.ranks);
	free(window->peers);
	free(window);
}

static bool window_is_gpu(void *base, MPI_Aint size)
{
	struct dev_mem mem = {0};

	return size > 0 && dev_active() && dev_find(base, &mem) > 0;
}

/* Adds memory to a window. */
static int window_add(struct window *window, void *base, MPI_Aint size, const char **why)
{
	struct window_region *region = calloc(1, sizeof *region);

	if (!region) {
		*why = "no memory for a window";
		return MPI_ERR_NO_MEM;
	}
	region->base = base;
	region->size = size;
	region->gpu = window_is_gpu(base, size);
	window_lock();
	SLIST_INSERT_HEAD(&window->regions, region, entry);
	window_unlock();
	return MPI_SUCCESS;
}

/* MPI's window that stands for ours. Of shared memory, as an Open MPI may have no other one between threads */
static int window_handle(struct window *window, MPI_Info info)
{
	void *base;
	int ret = MPI_SUCCESS;

	if (!window_table.number) {
		ret = PMPI_Comm_dup(MPI_COMM_SELF, &window_table.comm);
		if (ret == MPI_SUCCESS)
			PMPI_Comm_set_errhandler(window_table.comm, MPI_ERRORS_RETURN);
	}
	if (ret == MPI_SUCCESS)
		ret = PMPI_Win_allocate_shared(0, 1, info, window_table.comm, &base,
					       &window->handle);
	if (ret != MPI_SUCCESS)
		ret = PMPI_Win_create(NULL, 0, 1, info, window_table.comm, &window->handle);
	return ret;
}

/* MPI's own function: ours would free the window */
static int window_handle_free(MPI_Win *handle)
{
	static int (*real)(MPI_Win *);

	if (!real)
		*(void **) &real = call_symbol("PMPI_Win_free");
	return real(handle);
}

/* What this rank does by itself. @part says it, and whether it could. */
static const char *window_prepare(struct window *window, MPI_Info info,
				  struct window_part *part)
{
	static const struct service_user user = {window_arrived, window_unsent};
	const char *why = NULL;
	int ret;

	if (window->size < 0) {
		part->error = MPI_ERR_SIZE;
		return "the size is negative";
	}
	if (window->unit <= 0) {
		part->error = MPI_ERR_DISP;
		return "the unit of displacements is not positive";
	}
	ret = service_start(&user, &part->address, &why);
	if (ret == MPI_SUCCESS && window->flavor == MPI_WIN_FLAVOR_CREATE)
		ret = window_add(window, window->base, window->size, &why);
	if (ret == MPI_SUCCESS) {
		ret = window_handle(window, info);
		why = ret == MPI_SUCCESS ? NULL : "the MPI makes no window of its own";
	}
	part->error = ret;
	if (ret != MPI_SUCCESS)
		return why;
	window_lock();
	part->number = window->number = ++window_table.number;
	part->size = window->size;
	part->unit = window->unit;
	LIST_INSERT_HEAD(&window_table.windows, window, entry);
	__atomic_add_fetch(&window_table.count, 1, __ATOMIC_RELEASE);
	window_unlock();
	return NULL;
}

/* Takes what others have told. */
static int window_meet(struct window *window, const struct window_part *parts, const char **why)
{
	for (int i = 0; i < window->ranks; i++) {
		struct window_peer *peer = &window->peers[i];

		if (parts[i].error != MPI_SUCCESS)
			return parts[i].error;
		peer->window = parts[i].number;
		peer->size = parts[i].size;
		peer->unit = parts[i].unit;
		if (!service_peer(&parts[i].address, &peer->addr)) {
			*why = "libfabric does not take another rank's address";
			return MPI_ERR_OTHER;
		}
	}
	return MPI_SUCCESS;
}

/* All ranks come here. @parts: memory for what they tell each other */
static int window_begin(struct window *window, struct window_part *parts, MPI_Info info,
			MPI_Comm comm, MPI_Win *win)
{
	struct window_part mine = {.error = MPI_SUCCESS};
	const char *why = "the MPI makes no communicator for a window";
	int failed = MPI_SUCCESS, ret = PMPI_Comm_dup(comm, &window->comm);

	if (ret == MPI_SUCCESS) {
		why = window_prepare(window, info, &mine);
		ret = PMPI_Allgather(&mine, sizeof mine, MPI_BYTE, parts, sizeof mine, MPI_BYTE,
				     window->comm);
	}
	if (ret == MPI_SUCCESS) {
		mine.error = window_meet(window, parts, &why);
		/* nobody asks one that does not know the others yet */
		ret = PMPI_Allreduce(&mine.error, &failed, 1, MPI_INT, MPI_MAX, window->comm);
	}
	if (ret == MPI_SUCCESS)
		ret = failed;
	if (ret == MPI_SUCCESS) {
		*win = window->handle;
		return ret;
	}
	if (window->number)
		window_handle_free(&window->handle);
	window_free(window);
	return call_report(&CALL_COMM(comm), ret,
			   why ? why : "another rank could not make the window");
}

/* What a rank says before */
#define WINDOW_GPU 1 /* the window is on a GPU's memory; or has none yet, and the rank a GPU */
#define WINDOW_CANNOT 2 /* there is no memory for it */

/* What ranks of @comm say; @bits: what this one does */
static int window_asked(int bits, MPI_Comm comm)
{
	return PMPI_Allreduce(MPI_IN_PLACE, &bits, 1, MPI_INT, MPI_BOR, comm) == MPI_SUCCESS
		       ? bits
		       : 0;
}

/* Begins a call that makes a window, in which all ranks ask each other. False: it is left to MPI */
static bool window_enter(MPI_Comm comm)
{
	return call_wants() && !hidden_partly() && comm != MPI_COMM_NULL && call_enter();
}

/* A window on @comm, without memory of its own; or NULL */
static struct window *window_new(const struct window *as, MPI_Comm comm)
{
	struct window *window = malloc(sizeof *window);

	if (!window)
		return NULL;
	*window = *as;
	window->comm = MPI_COMM_NULL;
	window->model = MPI_WIN_UNIFIED;
	STAILQ_INIT(&window->waiters);
	PMPI_Comm_rank(comm, &window->rank);
	PMPI_Comm_size(comm, &window->ranks);
	window->peers = calloc((size_t) window->ranks, sizeof *window->peers);
	for (int i = 0; window->peers && i < window->ranks; i++) {
		window->peers[i].addr = FI_ADDR_UNSPEC;
		TAILQ_INIT(&window->peers[i].pending);
	}
	return window;
}

/* Makes a window with what the application gave. False: no rank has @gpu, and it is left to MPI */
static bool window_make(const struct window *as, bool gpu, MPI_Info info, MPI_Comm comm,
			MPI_Win *win, int *ret)
{
	struct window *window = window_new(as, comm);
	struct window_part *parts = calloc(call_own(comm), sizeof *parts);
	const bool can = window && window->peers && parts;
	const int bits = window_asked((gpu ? WINDOW_GPU : 0) | (can ? 0 : WINDOW_CANNOT), comm);

	if (bits == WINDOW_GPU) {
		*ret = window_begin(window, parts, info, comm, win);
	} else {
		if (window)
			window_free(window);
		if (bits & WINDOW_GPU)
			*ret = call_report(&CALL_COMM(comm), MPI_ERR_NO_MEM,
					   "a rank has no memory for a window");
	}
	free(parts);
	return bits & WINDOW_GPU;
}

CALL_WRAPPER(Win_create,
	     (void *base, MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, MPI_Win *win))
{
	CALL_REAL(Win_create, (void *, MPI_Aint, int, MPI_Info, MPI_Comm, MPI_Win *) );
	int ret;

	if (!window_enter(comm))
		return real(base, size, unit, info, comm, win);
	if (!window_make(&(struct window){.base = base,
					  .size = size,
					  .unit = unit,
					  .flavor = MPI_WIN_FLAVOR_CREATE},
			 window_is_gpu(base, size), info, comm, win, &ret))
		ret = real(base, size, unit, info, comm, win);
	call_leave();
	return ret;
}

/* Such a window has no memory yet. */
CALL_WRAPPER(Win_create_dynamic, (MPI_Info info, MPI_Comm comm, MPI_Win *win))
{
	CALL_REAL(Win_create_dynamic, (MPI_Info, MPI_Comm, MPI_Win *) );
	int ret;

	if (!window_enter(comm))
		return real(info, comm, win);
	if (!window_make(&(struct window){.unit = 1, .flavor = MPI_WIN_FLAVOR_DYNAMIC},
			 dev_active(), info, comm, win, &ret))
		ret = real(info, comm, win);
	call_leave();
	return ret;
}

CALL_WRAPPER(Win_attach, (MPI_Win win, void *base, MPI_Aint size))
{
	CALL_REAL(Win_attach, (MPI_Win, void *, MPI_Aint));
	struct window *window = window_find(win);
	const char *why;
	int ret;

	if (!window)
		return real(win, base, size);
	if (window->flavor != MPI_WIN_FLAVOR_DYNAMIC)
		return window_error(window, MPI_ERR_RMA_FLAVOR,
				    "the window takes no other memory");
	if (size < 0)
		return window_error(window, MPI_ERR_SIZE, "the size is negative");
	ret = window_add(window, base, size, &why);
	return ret == MPI_SUCCESS ? ret : window_error(window, ret, why);
}

CALL_WRAPPER(Win_detach, (MPI_Win win, const void *base))
{
	CALL_REAL(Win_detach, (MPI_Win, const void *) );
	struct window *window = window_find(win);
	struct window_region *region;

	if (!window)
		return real(win, base);
	window_lock();
	SLIST_FOREACH(region, &window->regions, entry)
	{
		if (region->base == base)
			break;
	}
	if (region && window->flavor == MPI_WIN_FLAVOR_DYNAMIC)
		SLIST_REMOVE(&window->regions, region, window_region, entry);
	else
		region = NULL;
	window_unlock();
	if (!region)
		return window_error(window, MPI_ERR_RMA_ATTACH,
				    "no such memory is attached to the window");
	free(region);
	return MPI_SUCCESS;
}

int window_Win_free(MPI_Win *win)
{
	struct window *window = window_find(*win);
	int ret = window_flush(window, WINDOW_ALL), end = PMPI_Barrier(window->comm);

	/* callbacks of attributes may ask the window what it is */
	if (end == MPI_SUCCESS)
		end = window_handle_free(win);
	window_free(window);
	return ret == MPI_SUCCESS ? end : ret;
}

/* ---- what a window says of itself ---- */

CALL_WRAPPER(Win_get_attr, (MPI_Win win, int key, void *value, int *flag))
{
	CALL_REAL(Win_get_attr, (MPI_Win, int, void *, int *) );
	struct window *window = window_find(win);
	void *own = NULL;

	if (window)
		own = key == MPI_WIN_SIZE            ? (void *) &window->size
		      : key == MPI_WIN_DISP_UNIT     ? (void *) &window->unit
		      : key == MPI_WIN_CREATE_FLAVOR ? (void *) &window->flavor
		      : key == MPI_WIN_MODEL         ? (void *) &window->model
						     : NULL;
	if (!own && (!window || key != MPI_WIN_BASE))
		return real(win, key, value, flag);
	*(void **) value = own ? own : window->base;
	*flag = 1;
	return MPI_SUCCESS;
}

CALL_WRAPPER(Win_get_group, (MPI_Win win, MPI_Group *group))
{
	CALL_REAL(Win_get_group, (MPI_Win, MPI_Group *) );
	struct window *window = window_find(win);

	return window ? PMPI_Comm_group(window->comm, group) : real(win, group);
}
