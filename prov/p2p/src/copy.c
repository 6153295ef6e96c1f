/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Rank 4: copies in flight. See copy.h. */
#include "copy.h"

#include <stdlib.h>
#include <time.h>
#include <rdma/fi_errno.h>

#include "base.h"
#include "log.h"

/*
 * A device writes a mark some microseconds after the last byte of the copy before it. So a
 * copy up to this length is watched itself, and the mark only follows when it has not been
 * seen to end for COPY_OVERDUE [ns]: the data may be what its place was filled with.
 */
#define COPY_WATCHED ((size_t) 4096)
#define COPY_OVERDUE 32000

/*
 * What copy_await() waits for: a copy up to this length, when there are few and one is about
 * to end within COPY_SOON, and how late it may be [ns].
 */
#define COPY_SMALL ((size_t) 16384)
#define COPY_FEW 2
#define COPY_SOON 2000
#define COPY_LATE 1000

static uint64_t copy_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t) now.tv_sec * 1000000000 + now.tv_nsec;
}

void copy_engines_init(struct copy_engines *engines)
{
	LIST_INIT(&engines->list);
	engines->pending = 0;
	engines->sign = 0x5bd1e995;
}

void copy_engines_fini(struct copy_engines *engines)
{
	struct copy_engine *engine;

	while ((engine = LIST_FIRST(&engines->list))) {
		LIST_REMOVE(engine, entry);
		for (int dir = 0; dir < COPY_DIRS; dir++) {
			struct dev_queue *dev = engine->queues[dir].dev;

			dev->ops->queue_close(dev);
		}
		free(engine);
	}
}

static void copy_pending_add(struct copy_engines *engines, int change)
{
	__atomic_store_n(&engines->pending, engines->pending + change, __ATOMIC_RELAXED);
}

static struct copy_engine *copy_engine_open(struct copy_engines *engines,
					    const struct dev_mem *mem)
{
	struct copy_engine *engine = calloc(1, sizeof *engine);

	if (!engine)
		return NULL;
	engine->ctx = mem->ctx;
	for (int dir = 0; dir < COPY_DIRS; dir++) {
		TAILQ_INIT(&engine->queues[dir].waiting);
		if (mem->ops->queue_open(mem, dir == COPY_ACROSS, &engine->queues[dir].dev))
			goto close_queues;
	}
	LIST_INSERT_HEAD(&engines->list, engine, entry);
	return engine;

close_queues:
	for (int dir = 0; dir < COPY_DIRS && engine->queues[dir].dev; dir++)
		mem->ops->queue_close(engine->queues[dir].dev);
	free(engine);
	return NULL;
}

static struct copy_engine *copy_engine_find(struct copy_engines *engines,
					    const struct dev_mem *mem)
{
	struct copy_engine *engine;

	LIST_FOREACH(engine, &engines->list, entry) {
		if (engine->ctx == mem->ctx)
			return engine;
	}
	return copy_engine_open(engines, mem);
}

/* ---- watching ---- */

/*
 * What a copy brings comes in whole words if both ends begin with one (a bus does not tear
 * them), though in any order: it is complete when none of its words is the sign any more.
 */
static void copy_watch(struct copy_engines *engines, struct copy *copy, void *host,
		       const struct iovec *iov)
{
	size_t words = iov->iov_len / sizeof *copy->words;

	if (((uintptr_t) host | (uintptr_t) iov->iov_base | iov->iov_len) %
		    sizeof *copy->words ||
	    !words || iov->iov_len > COPY_WATCHED)
		return;
	/* another one each time: data that is like one sign is not like the next */
	engines->sign = engines->sign * 1664525 + 1013904223;
	copy->sign = engines->sign;
	copy->words = host;
	copy->left = (uint32_t) words;
	for (size_t i = 0; i < words; i++)
		copy->words[i] = copy->sign;
}

/* The last one first, since it is most often the last to come */
static bool copy_arrived(struct copy *copy)
{
	while (copy->left && __atomic_load_n(&copy->words[copy->left - 1],
					     __ATOMIC_RELAXED) != copy->sign)
		copy->left--;
	if (copy->left)
		return false;
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return true;
}

/* Has it ended? Negative: the device has failed */
static int copy_ended(struct dev_queue *dev, struct copy *copy)
{
	int ret;

	if (copy->words && copy_arrived(copy))
		return 1;
	if ((int32_t) (dev->marked - copy->mark) >= 0)
		return dev_queue_passed(dev, copy->mark);
	if (copy_now() - copy->begun < COPY_OVERDUE)
		return 0;
	ret = dev->ops->queue_mark(dev);
	if (ret)
		dev->ops->queue_drain(dev);
	return ret;
}

/* ---- copies ---- */

int copy_start(struct copy_engines *engines, const struct dev_mem *mem, enum copy_dir dir,
	       const struct iovec *iov, size_t count, void *host, struct copy *copy)
{
	struct copy_engine *engine = copy_engine_find(engines, mem);
	struct copy_queue *queue;
	struct dev_queue *dev;
	char *at = host;
	int ret = 0;

	if (!engine)
		return -FI_EIO;
	queue = &engine->queues[dir];
	dev = queue->dev;
	copy->words = NULL;
	if (dir == COPY_OUT && dev->ops->words && count == 1)
		copy_watch(engines, copy, host, iov);
	copy->begun = copy_now();
	for (size_t i = 0; !ret && i < count; at += iov[i++].iov_len) {
		if (dir == COPY_OUT)
			ret = dev->ops->queue_copy(dev, at, iov[i].iov_base, iov[i].iov_len);
		else
			ret = dev->ops->queue_copy(dev, iov[i].iov_base, at, iov[i].iov_len);
	}
	copy->mark = dev->marked + 1;
	if (!ret && !copy->words)
		ret = dev->ops->queue_mark(dev);
	if (ret) {
		/* what has begun must not go on in memory that is used otherwise */
		dev->ops->queue_drain(dev);
		return ret;
	}
	copy->small = at - (char *) host <= (ptrdiff_t) COPY_SMALL;
	copy->alone = TAILQ_EMPTY(&queue->waiting);
	TAILQ_INSERT_TAIL(&queue->waiting, copy, entry);
	copy_pending_add(engines, 1);
	return 0;
}

/* Learns from a copy that has ended */
static void copy_learn(struct copy_queue *queue, const struct copy *copy)
{
	uint64_t took;

	if (!copy->small || !copy->alone)
		return;
	took = P2P_MIN(copy_now() - copy->begun, COPY_OVERDUE);
	queue->usual = (uint32_t) (queue->usual ? (7ULL * queue->usual + took) / 8 : took);
}

static bool copy_queue_progress(struct copy_engines *engines, struct copy_queue *queue)
{
	struct copy *copy;
	bool any = false;
	int ended;

	while ((copy = TAILQ_FIRST(&queue->waiting))) {
		ended = copy_ended(queue->dev, copy);
		if (!ended)
			break;
		copy_learn(queue, copy);
		TAILQ_REMOVE(&queue->waiting, copy, entry);
		copy_pending_add(engines, -1);
		copy->done(copy, ended < 0 ? ended : 0);
		any = true;
	}
	return any;
}

bool copy_progress(struct copy_engines *engines)
{
	struct copy_engine *engine;
	bool any = false;

	if (!engines->pending)
		return false;
	LIST_FOREACH(engine, &engines->list, entry) {
		for (int dir = 0; dir < COPY_DIRS; dir++)
			any |= copy_queue_progress(engines, &engine->queues[dir]);
	}
	return any;
}

/* Until when the next copy that is about to end will have done so; 0: none is */
static uint64_t copy_soon(const struct copy_engines *engines, uint64_t now)
{
	const struct copy_engine *engine;
	const struct copy *copy;
	uint64_t until = 0, end;

	LIST_FOREACH(engine, &engines->list, entry) {
		for (int dir = 0; dir < COPY_DIRS; dir++) {
			copy = TAILQ_FIRST(&engine->queues[dir].waiting);
			if (!copy || !copy->small)
				continue;
			end = copy->begun + engine->queues[dir].usual;
			if (end <= now + COPY_SOON && now < end + COPY_LATE)
				until = P2P_MAX(until, end + COPY_LATE);
		}
	}
	return until;
}

void copy_await(struct copy_engines *engines)
{
	uint64_t now, until;

	if (copy_progress(engines) || !engines->pending || engines->pending > COPY_FEW)
		return;
	now = copy_now();
	until = copy_soon(engines, now);
	while (now < until && !copy_progress(engines))
		now = copy_now();
}
