/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * BUSYCORE_NULL=1: a core provider that does nothing with writes and reads. Each ends at once, with a
 * completion if it asks for one, and moves no byte. So a measurement has what comes before the core, and after it.
 *
 * BUSYCORE_NULL=mark: a write adds one to the first 8 bytes that it was to move, so that one who looks there learns when it
 * was called.
 *
 * An application's thread and the proxy may call at the same time: each queue has a lock.
 */
#include "busycore.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

/* Completions of one queue that wait to be read, at most; a power of two */
#define NULL_WAITING 4096

/**
 * struct null - one queue
 * @core:	its own calls
 * @ended:	operations, from @tail to @head
 */
struct null {
	pthread_mutex_t lock;
	const struct fi_ops_cq *core;
	size_t size;
	uint64_t head, tail;
	struct {
		void *context;
		uint64_t flags;
	} ended[NULL_WAITING];
};

bool null_wanted(void)
{
	return getenv("BUSYCORE_NULL");
}

void null_mark(const struct iovec *iov, size_t count)
{
	static int marks = -1;
	const char *wish;

	if (marks < 0) {
		wish = getenv("BUSYCORE_NULL");
		marks = wish && !strcmp(wish, "mark");
	}
	if (marks && count && iov->iov_len >= sizeof(uint64_t))
		__atomic_fetch_add((uint64_t *) iov->iov_base, 1, __ATOMIC_RELEASE);
}

ssize_t null_end(const struct busy *ep, void *context, uint64_t kind, uint64_t flags)
{
	struct null *null = ep->null;
	ssize_t ret = -FI_EAGAIN;

	if (!(flags & FI_COMPLETION) || !null)
		return 0;
	pthread_mutex_lock(&null->lock);
	if (null->head - null->tail < NULL_WAITING) {
		null->ended[null->head % NULL_WAITING].context = context;
		null->ended[null->head++ % NULL_WAITING].flags = FI_RMA | kind;
		ret = 0;
	}
	pthread_mutex_unlock(&null->lock);
	return ret;
}

static ssize_t null_readfrom(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src)
{
	struct null *null = busy_find(cq)->null;
	struct fi_cq_data_entry *entry;
	size_t read = 0;

	pthread_mutex_lock(&null->lock);
	for (; read < count && null->tail < null->head; read++) {
		/* the other format begins alike */
		entry = (void *) ((char *) buf + read * null->size);
		*entry = (struct fi_cq_data_entry){
			.op_context = null->ended[null->tail % NULL_WAITING].context,
			.flags = null->ended[null->tail % NULL_WAITING].flags,
		};
		null->tail++;
		if (src)
			src[read] = FI_ADDR_NOTAVAIL;
	}
	pthread_mutex_unlock(&null->lock);
	return read ? (ssize_t) read : null->core->readfrom(cq, buf, count, src);
}

static ssize_t null_read(struct fid_cq *cq, void *buf, size_t count)
{
	return null_readfrom(cq, buf, count, NULL);
}

void null_opened(struct fid_cq *cq, const struct fi_cq_attr *attr)
{
	struct null *null = calloc(1, sizeof(*null));

	if (!null)
		abort();
	pthread_mutex_init(&null->lock, NULL);
	null->size = busy_entry_size(attr);
	null->core = cq->ops;
	busy_new(cq)->null = null;
	cq->ops = busy_copy(cq->ops);
	cq->ops->read = null_read;
	cq->ops->readfrom = null_readfrom;
}
