/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Threads of our own. See thread.h. */
#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <rdma/fi_errno.h>

#include "base/log.h"

struct thread_begin {
	void *(*run)(void *arg);
	void *arg;
};

static __thread bool thread_ours;

bool thread_is_ours(void)
{
	return thread_ours;
}

static void *thread_run(void *begin)
{
	const struct thread_begin what = *(struct thread_begin *) begin;

	free(begin);
	thread_ours = true;
	return what.run(what.arg);
}

int thread_start(pthread_t *thread, const char *name, void *(*run)(void *arg), void *arg)
{
	/* a fault goes to the thread that makes it: the application may handle faults of its memory */
	static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
	struct thread_begin *begin = malloc(sizeof *begin);
	sigset_t all, before;
	int ret = ENOMEM;

	if (!begin)
		goto failed;
	*begin = (struct thread_begin){run, arg};
	sigfillset(&all);
	for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
		sigdelset(&all, faults[i]);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(thread, NULL, thread_run, begin);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!ret) {
		pthread_setname_np(*thread, name);
		return 0;
	}
	free(begin);
failed:
	P2P_WARN("thread %s: pthread_create: %s\n", name, fi_strerror(ret));
	return -ret;
}
