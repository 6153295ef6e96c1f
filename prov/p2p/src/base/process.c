/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The locks of a process, and fork(2). See process.h. */
#include "base/process.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>

#define PROCESS_FORGETS 8

static pthread_mutex_t process_locks[PROCESS_LOCKS] = {
	[0 ... PROCESS_LOCKS - 1] = PTHREAD_MUTEX_INITIALIZER,
};
static void (*process_forgets[PROCESS_FORGETS])(void);
unsigned int process_forks;

void process_lock(enum process_lock which)
{
	pthread_mutex_lock(&process_locks[which]);
}

void process_unlock(enum process_lock which)
{
	pthread_mutex_unlock(&process_locks[which]);
}

void process_forget(void (*forget)(void))
{
	size_t i = 0;

	process_lock(PROCESS_TABLES);
	while (i < PROCESS_FORGETS && process_forgets[i] && process_forgets[i] != forget)
		i++;
	assert(i < PROCESS_FORGETS);
	process_forgets[i] = forget;
	process_unlock(PROCESS_TABLES);
}

static void process_before(void)
{
	process_lock(PROCESS_TABLES);
}

static void process_parent(void)
{
	process_unlock(PROCESS_TABLES);
}

static void process_child(void)
{
	process_forks++;
	for (int i = 0; i < PROCESS_TABLES; i++)
		process_locks[i] = (pthread_mutex_t) PTHREAD_MUTEX_INITIALIZER;
	for (size_t i = 0; i < PROCESS_FORGETS && process_forgets[i]; i++)
		process_forgets[i]();
	process_unlock(PROCESS_TABLES);
}

/* A zombie still takes signals, but its pidfd tells */
bool process_ended(pid_t pid)
{
	bool ended = false;

	if (kill(pid, 0))
		return errno == ESRCH;
#ifdef SYS_pidfd_open
	struct pollfd look = {.fd = (int) syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};

	if (look.fd >= 0) {
		ended = poll(&look, 1, 0) == 1;
		close(look.fd);
	}
#endif
	return ended;
}

/*
 * When the object is loaded: a thread may fork at any time from then on. The C library takes the handlers back when
 * the object is unloaded.
 */
static __attribute__((constructor)) void process_watch(void)
{
	pthread_atfork(process_before, process_parent, process_child);
}
