/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Automatic progress (FI_PROGRESS_AUTO): a thread moves a domain's transfers while the
 * application calls nothing.
 *
 * It sleeps on the descriptors of all of the domain's queues. A thread that starts something that
 * no descriptor shows wakes it. While copies are in flight it looks after them, and lets others
 * run. When it has looked in vain for some time, it sleeps for moments.
 */
#ifndef P2P_AUTO_H
#define P2P_AUTO_H

#include <pthread.h>
#include <stdbool.h>

#include "xfer/wait.h"

struct xfer;

/**
 * struct auto_thread - the thread.
 * @point:	what it sleeps on
 * @stop:	it is to end; the domain's lock guards it
 * @pending:	copies in flight, last time
 */
struct auto_thread {
	struct xfer *xfer;
	struct wait_point point;
	pthread_t thread;
	bool stop;
	unsigned int pending;
};

/* Before any queue is opened. 0 or a negative error, logged */
int auto_start(struct auto_thread *thread, struct xfer *xfer);

/* Returns when the thread has ended. */
void auto_stop(struct auto_thread *thread);

#endif /* P2P_AUTO_H */
