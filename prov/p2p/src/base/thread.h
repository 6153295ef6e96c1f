/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Threads of our own. */
#ifndef P2P_THREAD_H
#define P2P_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/*
 * Starts a thread with this name, of at most 15 characters. Returns 0 or a negative error,
 * logged.
 *
 * The thread gets no signals but those of its own faults. All others are for the application's
 * threads.
 */
int thread_start(pthread_t *thread, const char *name, void *(*run)(void *arg), void *arg);

/* Is the calling thread one of those? Else it is the application's */
bool thread_is_ours(void);

#endif /* P2P_THREAD_H */
