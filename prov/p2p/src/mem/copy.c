/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Copies in flight. See copy.h. */
#include "mem/copy.h"

#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>

#include "base/base.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/trace.h"

/*
 * A device writes a mark some microseconds after the last byte of the copy before it. So a
 * small copy is watched itself, and the mark only follows when it has not been seen to end
 * for COPY_OVERDUE [ns]: the data may be what its place was filled with.
 */
#define COPY_SMALL ((size_t) 16384)
#define COPY_OVERDUE 32000

/* Behind others time does not press: there, to fill and to look must take less than a mark */
#define COPY_TINY ((size_t) 256)

/*
 * copy_await() waits for a small copy, when there are few and one is to end within
 * COPY_SOON, and no longer than until it is COPY_LATE [ns].
 */
#define COPY_FEW 2
#define COPY_SOON 2000
#define COPY_LATE 1000

/* Bytes that are held back, at most, to begin with others: the first must not wait long */
#define COPY_HELD ((size_t) 262144)

/*
 * A copy in of at least COPY_LARGE that follows another one within COPY_CROWD [ns] waits for
 * the next ones even if the device has nothing to do, as long as messages come one after the
 * other: it is the CPU that is short of time then, and several at once cost it as much as one.
 */
#define COPY_LARGE ((size_t) 16384)
#define COPY_CROWD 60000

/*
 * Copies that keep their order are in no batch. Those behind others begin one by one, with one mark for all, or are put to
 * the device in one call if they are short. Between two devices the driver is asked, as it knows earlier than a mark comes.
 */

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

/* Finds the queues for a context's copies, or opens them. */
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

int copy_ready(struct copy_engines *engines, const struct dev_mem *mem)
{
	return copy_engine_find(engines, mem) ? 0 : -FI_EIO;
}

struct dev_queue *copy_queue(struct copy_engines *engines, const struct dev_mem *mem,
			     enum copy_dir dir)
{
	return copy_engine_find(engines, mem)->queues[dir].dev;
}

/* Drains the queue after a failure, as what has begun must not go on in memory that is used otherwise. */
static int copy_check(struct dev_queue *dev, int ret)
{
	if (ret)
		dev->ops->queue_drain(dev);
	return ret;
}

/* ---- watching ---- */

/*
 * Fills a short copy's place with a sign, so that the CPU sees when all words have come. A copy comes in whole
 * words if both ends begin with one (a bus does not tear them), though in any order: it is complete when none
 * of its words is the sign any more.
 */
static void copy_watch(struct copy_engines *engines, const struct dev_queue *dev,
		       const struct dev_copy *piece, struct copy *copy)
{
	size_t words = piece->len / sizeof *copy->words;

	if (!dev->ops->words || piece->len > (copy->alone ? COPY_SMALL : COPY_TINY) ||
	    ((uintptr_t) piece->dst | (uintptr_t) piece->src | piece->len) %
		    sizeof *copy->words)
		return;
	/* another one each time: data that is like one sign is not like the next */
	engines->sign = engines->sign * 1664525 + 1013904223;
	copy->sign = engines->sign;
	copy->words = piece->dst;
	copy->left = (uint32_t) words;
	for (size_t i = 0; i < words; i++)
		copy->words[i] = copy->sign;
}

/*
 * Tells whether none of a copy's words is the sign any more. It looks at the last one first, since that is
 * most often the last to come
 */
static bool copy_arrived(struct copy *copy)
{
	while (copy->left &&
	       __atomic_load_n(&copy->words[copy->left - 1], __ATOMIC_ACQUIRE) != copy->sign)
		copy->left--;
	return !copy->left;
}

/*
 * Tells whether a copy has ended: by its words, or by its queue's mark. Negative: the device has failed, or
 * would not begin it
 */
static int copy_ended(struct dev_queue *dev, struct copy *copy)
{
	if (copy->held || copy->status)
		return copy->status;
	if (copy->words && copy_arrived(copy))
		return 1;
	if ((int32_t) (dev->marked - copy->mark) >= 0)
		return dev_queue_passed(dev, copy->mark);
	if (clock_ns() - copy->begun < COPY_OVERDUE)
		return 0;
	return copy_check(dev, dev->ops->queue_mark(dev));
}

/* ---- beginning ---- */

/* Gives the device all pieces of one copy, and a mark behind them */
static int copy_begin(struct dev_queue *dev, const struct dev_copy *pieces, struct copy *copy)
{
	int ret = 0;

	copy->mark = dev->marked + 1;
	for (uint32_t i = 0; !ret && i < copy->pieces; i++)
		ret = dev->ops->queue_copy(dev, pieces[i].dst, pieces[i].src, pieces[i].len);
	if (!ret && !copy->words)
		ret = dev->ops->queue_mark(dev);
	return copy_check(dev, ret);
}

/* Has the device write a copy that is small enough by itself. It ends as others do. */
static bool copy_put(struct copy_queue *queue, const struct dev_copy *pieces, struct copy *copy)
{
	struct dev_queue *dev = queue->dev;

	if (copy->pieces != 1 || pieces->len > DEV_PUT || !copy->alone)
		return false;
	copy->mark = dev->marked + 1;
	return !dev->ops->queue_put(dev, pieces, 1);
}

/* Has the CPU make a copy that is short enough. Then it has ended, whatever is before it, and tells nothing of others */
static bool copy_at_once(const struct copy_queue *queue, const struct dev_mem *mem,
			 const struct dev_copy *pieces, struct copy *copy)
{
	if (copy->pieces != 1 || (copy->ordered && queue->ordered) ||
	    mem->ops->copy_short(mem, pieces->dst, pieces->src, pieces->len))
		return false;
	copy->status = 1;
	copy->small = false;
	copy->ordered = false;
	return true;
}

/*
 * Those held back cannot begin together: which of them can? Some of what they bring may be
 * there already, so that it tells nothing.
 */
static void copy_begin_each(struct copy_queue *queue, struct copy *copy, uint64_t now)
{
	const struct dev_copy *pieces = queue->held;

	for (; copy; copy = TAILQ_NEXT(copy, entry)) {
		if (queue->held_count > 1)
			copy->words = NULL;
		copy->begun = now;
		copy->status = copy_begin(queue->dev, pieces, copy);
		pieces += copy->pieces;
		copy->held = false;
	}
}

/* The device is given them now, from @first on. Are they all watched themselves? */
static bool copy_begin_all(const struct copy_queue *queue, struct copy *first, uint64_t now)
{
	bool words = true;

	for (struct copy *copy = first; copy; copy = TAILQ_NEXT(copy, entry)) {
		copy->held = false;
		copy->begun = now;
		copy->mark = queue->dev->marked + 1;
		words &= copy->words != NULL;
	}
	return words;
}

/* Those held back begin one behind the other, with one mark behind the last. 0 or an error: none */
static int copy_begin_ordered(struct copy_queue *queue)
{
	struct dev_queue *dev = queue->dev;
	bool puts = true;
	int ret = 0;

	for (unsigned int i = 0; i < queue->held_count; i++)
		puts &= queue->held[i].len <= DEV_PUT;
	if (puts && !dev->ops->queue_put(dev, queue->held, queue->held_count))
		return 0;
	for (unsigned int i = 0; !ret && i < queue->held_count; i++)
		ret = dev->ops->queue_copy(dev, queue->held[i].dst, queue->held[i].src,
					   queue->held[i].len);
	return copy_check(dev, ret ? ret : dev->ops->queue_mark(dev));
}

static int copy_begin_batch(struct copy_queue *queue, bool mark)
{
	struct dev_queue *dev = queue->dev;
	int ret = dev->ops->queue_batch(dev, queue->held, queue->held_count);

	return copy_check(dev, ret || !mark ? ret : dev->ops->queue_mark(dev));
}

static void copy_begin_held(struct copy_queue *queue)
{
	struct copy *first = TAILQ_LAST(&queue->waiting, copy_list), *copy;
	uint64_t now = clock_ns();
	bool words;
	int ret;

	for (copy = first; copy && copy->held; copy = TAILQ_PREV(copy, copy_list, entry))
		first = copy;
	words = copy_begin_all(queue, first, now);
	if (queue->held_ordered)
		ret = copy_begin_ordered(queue);
	else
		ret = queue->held_count < 2 ? -FI_EAGAIN : copy_begin_batch(queue, !words);
	if (ret)
		copy_begin_each(queue, first, now);
	queue->held_count = 0;
	queue->held_len = 0;
}

void copy_push(struct copy_engines *engines)
{
	struct copy_engine *engine;

	if (!engines->pending)
		return;
	LIST_FOREACH(engine, &engines->list, entry) {
		for (int dir = 0; dir < COPY_DIRS; dir++) {
			struct copy_queue *queue = &engine->queues[dir];

			if (queue->held_count && !(queue->patient && engines->more))
				copy_begin_held(queue);
		}
	}
}

/* Puts a copy last in its queue. */
static void copy_insert(struct copy_engines *engines, struct copy_queue *queue,
			struct copy *copy)
{
	TAILQ_INSERT_TAIL(&queue->waiting, copy, entry);
	queue->ordered += copy->ordered;
	__atomic_store_n(&engines->pending, engines->pending + 1, __ATOMIC_RELAXED);
}

/* Behind others, a short one waits for more of its kind, to begin with them. Those in order are in nobody else's batch. */
static void copy_hold(struct copy_engines *engines, struct copy_queue *queue,
		      const struct dev_copy *pieces, size_t len, struct copy *copy)
{
	if (queue->held_count && (queue->held_count + copy->pieces > DEV_BATCH ||
				  queue->held_ordered != copy->ordered))
		copy_begin_held(queue);
	queue->held_ordered = copy->ordered;
	memcpy(queue->held + queue->held_count, pieces, copy->pieces * sizeof *pieces);
	queue->held_count += copy->pieces;
	queue->held_len += len;
	copy->held = true;
	copy_insert(engines, queue, copy);
	if (queue->held_count == DEV_BATCH || queue->held_len >= COPY_HELD)
		copy_begin_held(queue);
}

int copy_start(struct copy_engines *engines, const struct dev_mem *mem, enum copy_dir dir,
	       const struct iovec *iov, size_t count, void *host, struct copy *copy)
{
	struct copy_engine *engine = copy_engine_find(engines, mem);
	struct dev_copy pieces[P2P_IOV_MAX];
	struct copy_queue *queue;
	char *at = host;
	bool patient;
	uint64_t now;
	size_t len;
	int ret;

	if (!engine)
		return -FI_EIO;
	queue = &engine->queues[dir];
	copy->pieces = 0;
	for (size_t i = 0; i < count; at += iov[i++].iov_len) {
		if (!iov[i].iov_len)
			continue;
		pieces[copy->pieces++] = (struct dev_copy){
			.dst = dir == COPY_OUT ? at : iov[i].iov_base,
			.src = dir == COPY_OUT ? iov[i].iov_base : at,
			.len = iov[i].iov_len,
		};
	}
	len = at - (char *) host;
	copy->small = len <= COPY_SMALL;
	copy->alone = TAILQ_EMPTY(&queue->waiting);
	copy->held = false;
	copy->status = 0;
	copy->words = NULL;
	if (dir != COPY_ACROSS && copy_at_once(queue, mem, pieces, copy)) {
		/* those held back are the last ones in the queue */
		if (queue->held_count)
			copy_begin_held(queue);
		copy_insert(engines, queue, copy);
		return 0;
	}
	if (dir == COPY_OUT && copy->pieces == 1)
		copy_watch(engines, queue->dev, pieces, copy);
	now = copy->begun = clock_ns();
	patient = dir == COPY_IN && len >= COPY_LARGE && now - queue->last < COPY_CROWD;
	queue->last = now;
	/* several in one batch may end in any order */
	if (copy->pinned && copy->pieces && (!copy->alone || patient) && len < COPY_HELD &&
	    (copy->ordered || queue->dev->ops->batches)) {
		queue->patient = patient && (queue->patient || !queue->held_count);
		copy_hold(engines, queue, pieces, len, copy);
	} else {
		if (queue->held_count)
			copy_begin_held(queue);
		ret = dir == COPY_IN && copy_put(queue, pieces, copy)
			      ? 0
			      : copy_begin(queue->dev, pieces, copy);
		if (ret)
			return ret;
		copy_insert(engines, queue, copy);
	}
	return 0;
}

/* ---- ending ---- */

/* Takes a copy out of its queue. */
static void copy_remove(struct copy_engines *engines, struct copy_queue *queue,
			struct copy *copy)
{
	TAILQ_REMOVE(&queue->waiting, copy, entry);
	queue->ordered -= copy->ordered;
	__atomic_store_n(&engines->pending, engines->pending - 1, __ATOMIC_RELAXED);
}

int copy_run(struct copy_engines *engines, const struct dev_mem *mem, enum copy_dir dir,
	     const struct iovec *iov, size_t count, void *host, struct copy *copy)
{
	struct copy_queue *queue;
	int ret;

	copy->pinned = copy->ordered = false;
	ret = copy_start(engines, mem, dir, iov, count, host, copy);
	if (ret)
		return ret;
	queue = &copy_engine_find(engines, mem)->queues[dir];
	do
		ret = copy_ended(queue->dev, copy);
	while (!ret);
	copy_remove(engines, queue, copy);
	return ret < 0 ? ret : 0;
}

/* Learns from a copy that has ended */
static void copy_learn(struct copy_queue *queue, const struct copy *copy)
{
	uint64_t took;

	if (!copy->small || !copy->alone)
		return;
	took = P2P_MIN(clock_ns() - copy->begun, COPY_OVERDUE);
	queue->usual = (uint32_t) (queue->usual ? (7ULL * queue->usual + took) / 8 : took);
}

/* Calls the @done of the copies at a queue's head that have ended; tells whether there were any. */
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
		copy_remove(engines, queue, copy);
		P2P_TRACE(copy_end, copy, ended);
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
	copy_push(engines);
	LIST_FOREACH(engine, &engines->list, entry) {
		for (int dir = 0; dir < COPY_DIRS; dir++)
			any |= copy_queue_progress(engines, &engine->queues[dir]);
	}
	return any;
}

/* Returns the time by which the next copy that is about to end will have done so; 0: none is */
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
	now = clock_ns();
	until = copy_soon(engines, now);
	while (now < until && !copy_progress(engines))
		now = clock_ns();
}
