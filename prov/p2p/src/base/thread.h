/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Threads of our own. */
#ifndef P2P_THREAD_H
#define P2P_THREAD_H

#include <pthread.h>

/*
 * Starts one, named @name (15 characters at most), which gets no signals but for its own faults:
 * they are for the application's threads. 0 or a negative error, logged.
 */
int thread_start(pthread_t *thread, const char *name, void *(*run)(void *arg), void *arg);

#endif /* P2P_THREAD_H */
