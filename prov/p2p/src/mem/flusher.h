/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A thread that makes memory durable (pmem.h). msync() waits for a disk, and progress does not wait.
 *
 * The owner's lock guards it all but what the two threads pass each other. Callbacks run with the
 * lock held. The thread itself never takes it.
 */
#ifndef P2P_FLUSHER_H
#define P2P_FLUSHER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>
#include <sys/uio.h>

#include "mem/pmem.h"

/**
 * struct flush - memory that is made durable; part of the record that waits for it.
 * @iov, @count: it stays as it is until the end, and so does the list
 * @done:	called when it has ended, with 0 or a negative error
 */
struct flush {
	TAILQ_ENTRY(flush) entry;
	enum pmem_kind kind;
	const struct iovec *iov;
	size_t count;
	int status;
	void (*done)(struct flush *flush, int status);
};

TAILQ_HEAD(flush_list, flush);

/**
 * struct flusher - one domain's.
 * @lock:	guards @asked, @ended and @stop
 * @runs:	there is a thread
 * @pending:	flushes whose end was not told yet
 */
struct flusher {
	pthread_mutex_t lock;
	pthread_cond_t some;
	struct flush_list asked;
	struct flush_list ended;
	bool stop;
	pthread_t thread;
	bool runs;
	unsigned int pending;
};

void flusher_init(struct flusher *flusher);

/* Starts the thread, if there is none. 0 or a negative error, logged */
int flusher_start(struct flusher *flusher);

/* Ends the thread. Nothing is pending. */
void flusher_fini(struct flusher *flusher);

/* There is a thread: @flush->done will be called, from flusher_progress(). */
void flusher_add(struct flusher *flusher, struct flush *flush);

/* Calls the @done of each flush that has ended, and returns their number. */
unsigned int flusher_progress(struct flusher *flusher);

#endif /* P2P_FLUSHER_H */
