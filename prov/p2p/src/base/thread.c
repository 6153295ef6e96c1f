/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Threads of our own. See thread.h. */
#include "base/thread.h"

#include <signal.h>
#include <stddef.h>
#include <rdma/fi_errno.h>

#include "base/log.h"

int thread_start(pthread_t *thread, const char *name, void *(*run)(void *arg), void *arg)
{
	/*
	 * a fault goes to the thread that makes it: the application may handle faults of its
	 * memory
	 */
	static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
	sigset_t all, before;
	int ret;

	sigfillset(&all);
	for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
		sigdelset(&all, faults[i]);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (ret)
		P2P_WARN("thread %s: pthread_create: %s\n", name, fi_strerror(ret));
	else
		pthread_setname_np(*thread, name);
	return -ret;
}
