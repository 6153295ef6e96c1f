/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Copies between device and host or other device memory in flight, and who is told of their end. The owner's lock guards it
 * all; callbacks run with the lock held.
 */
#ifndef P2P_COPY_H
#define P2P_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/uio.h>

#include "dev/dev.h"

enum copy_dir {
	COPY_OUT,    /* device to host */
	COPY_IN,     /* host to device */
	COPY_ACROSS, /* device to device, from what another process has */
	COPY_DIRS
};

/**
 * struct copy - one copy in flight; part of the record that waits for it.
 * @pinned:	the host memory is; set by who starts it
 * @ordered:	it may not overtake those of its queue that are so, too; set by who starts it. The
 *		runtime has to be one that keeps order (dev_ops.ordered)
 * @held:	the device has not been given it yet; it has @pieces
 * @small:	how long it takes tells how long others will
 * @status:	what giving it has led to; 1: it was over at once
 * @mark:	the first mark behind it in the queue, whether it is there yet or not
 * @begun:	when it began [ns]; @alone: with nothing before it in the queue
 * @words:	of a small copy to the host: where it goes, filled with @sign, so that it tells
 *		of its end by itself; @left of them have not come. NULL: only a mark tells
 * @done:	called when it has ended, with 0 or a negative error
 */
struct copy {
	TAILQ_ENTRY(copy) entry;
	bool pinned;
	bool ordered;
	bool held;
	bool small;
	bool alone;
	uint32_t pieces;
	int status;
	uint32_t mark;
	uint32_t sign;
	uint32_t left;
	uint32_t *words;
	uint64_t begun;
	void (*done)(struct copy *copy, int status);
};

TAILQ_HEAD(copy_list, copy);

/**
 * struct copy_queue - copies in one direction.
 * @waiting:	those in flight, in order
 * @ordered:	how many of them the device has yet to do in order
 * @usual:	how long a small one takes that is alone [ns]; 0: not known yet
 * @held:	@held_count pieces, @held_len bytes, of those that the device will be given
 *		together: the last ones waiting; @held_ordered: in order, all or none of them;
 *		@patient: they may wait for more to come
 * @last:	when something was started [ns]
 */
struct copy_queue {
	struct dev_queue *dev;
	struct copy_list waiting;
	unsigned int ordered;
	uint32_t usual;
	unsigned int held_count;
	size_t held_len;
	bool held_ordered;
	bool patient;
	uint64_t last;
	struct dev_copy held[DEV_BATCH];
};

/* One device context's queues */
struct copy_engine {
	LIST_ENTRY(copy_engine) entry;
	void *ctx;
	struct copy_queue queues[COPY_DIRS];
};

/**
 * struct copy_engines - all of one domain's.
 * @pending:	copies in flight; read without the lock
 * @sign:	the latest sign
 * @more:	messages come one after the other, as the owner's last look at the core's queues has found something: set by it
 */
struct copy_engines {
	LIST_HEAD(, copy_engine) list;
	unsigned int pending;
	uint32_t sign;
	bool more;
};

void copy_engines_init(struct copy_engines *engines);
void copy_engines_fini(struct copy_engines *engines);

/* Opens the queues of a device that is met for the first time. 0 or -FI_EIO, logged */
int copy_ready(struct copy_engines *engines, const struct dev_mem *mem);

/* That of copies in one direction, for a device that is ready */
struct dev_queue *copy_queue(struct copy_engines *engines, const struct dev_mem *mem,
			     enum copy_dir dir);

/*
 * Starts copying between pieces of device memory (@iov, @mem its allocation) and the consecutive bytes at
 * @host. For COPY_ACROSS those are of an allocation that was opened for @mem's context.
 * Returns 0: @copy->done will be called, from copy_progress(); or a negative error, logged: it
 * will not. Behind others it may begin as late as copy_push(), for several begun together take much less than
 * each by itself.
 */
int copy_start(struct copy_engines *engines, const struct dev_mem *mem, enum copy_dir dir,
	       const struct iovec *iov, size_t count, void *host, struct copy *copy);

/* The same, and waits for its end: @copy->done is not called. 0 or a negative error */
int copy_run(struct copy_engines *engines, const struct dev_mem *mem, enum copy_dir dir,
	     const struct iovec *iov, size_t count, void *host, struct copy *copy);

/* Begins what was started and is not begun, unless there is soon to be more of it */
void copy_push(struct copy_engines *engines);

/* Begins what waits and calls the @done of every copy that has ended; tells whether any has */
bool copy_progress(struct copy_engines *engines);

/*
 * Makes progress on copies, and waits a few microseconds at most for a small one that is about to end. For who
 * has nothing better to do: other looks for news take longer than the copy.
 */
void copy_await(struct copy_engines *engines);

#endif /* P2P_COPY_H */
