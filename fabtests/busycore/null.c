/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * BUSYCORE_NULL=1: a core provider that does nothing with writes and reads. Each ends at once, with a
 * completion if it asks for one, and moves no byte. So a measurement has what comes before the core, and after it.
 *
 * BUSYCORE_NULL=mark: a write adds one to the first 8 bytes that it was to move, so that one who looks there learns when it
 * was called.
 *
 * BUSYCORE_NULL=slow: operations end in their order, one each time that somebody looks. A write leaves in the first 8 bytes
 * that it was to move how many are in front of it. So a test sees who waits for whom, on processors of any speed.
 *
 * BUSYCORE_NULL=deaf: the same, but what is to end with the peer (FI_DELIVERY_COMPLETE) never does, as if the peer called nothing
 * of libfabric's.
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
 * @marks, @slow, @deaf: as BUSYCORE_NULL says; the deaf one is slow, too
 * @rests:	of the slow one: there is nothing at this look, as there was at the last one
 * @ended:	operations, from @tail to @head
 */
struct null {
	pthread_mutex_t lock;
	bool marks, slow, deaf, rests;
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

ssize_t null_end(const struct busy *ep, void *context, uint64_t kind, uint64_t flags)
{
	struct null *null = ep->null;
	ssize_t ret = -FI_EAGAIN;

	if (!(flags & FI_COMPLETION) || !null || (null->deaf && flags & FI_DELIVERY_COMPLETE))
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

ssize_t null_write(const struct busy *ep, const struct fi_msg_rma *msg, uint64_t flags)
{
	struct null *null = ep->null;
	uint64_t *word = NULL;

	if (null && msg->iov_count && msg->msg_iov->iov_len >= sizeof(*word))
		word = msg->msg_iov->iov_base;
	if (word && null->marks)
		__atomic_fetch_add(word, 1, __ATOMIC_RELEASE);
	if (word && null->slow) {
		pthread_mutex_lock(&null->lock);
		__atomic_store_n(word, null->head - null->tail, __ATOMIC_RELEASE);
		pthread_mutex_unlock(&null->lock);
	}
	return null_end(ep, msg->context, FI_WRITE, flags);
}

/* How many operations end at this look, which has room for @count? */
static size_t null_ends(struct null *null, size_t count)
{
	const uint64_t left = null->head - null->tail;

	if (null->slow) {
		null->rests = !null->rests;
		count = null->rests ? 0 : 1;
	}
	return left < count ? (size_t) left : count;
}

static ssize_t null_readfrom(struct fid_cq *cq, void *buf, size_t count, fi_addr_t *src)
{
	struct null *null = busy_find(cq)->null;
	struct fi_cq_data_entry *entry;
	size_t read, ends;

	pthread_mutex_lock(&null->lock);
	ends = null_ends(null, count);
	for (read = 0; read < ends; read++) {
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
	const char *wish = getenv("BUSYCORE_NULL");

	if (!null)
		abort();
	null->marks = !strcmp(wish, "mark");
	null->deaf = !strcmp(wish, "deaf");
	null->slow = null->deaf || !strcmp(wish, "slow");
	pthread_mutex_init(&null->lock, NULL);
	null->size = busy_entry_size(attr);
	null->core = cq->ops;
	busy_new(cq)->null = null;
	cq->ops = busy_copy(cq->ops);
	cq->ops->read = null_read;
	cq->ops->readfrom = null_readfrom;
}
