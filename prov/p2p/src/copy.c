/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Rank 4: copies in flight. See copy.h. */
#include "copy.h"

#include <stdlib.h>
#include <rdma/fi_errno.h>

#include "log.h"

void copy_engines_init(struct copy_engines *engines)
{
	LIST_INIT(&engines->list);
	engines->pending = 0;
}

void copy_engines_fini(struct copy_engines *engines)
{
	struct copy_engine *engine;

	while ((engine = LIST_FIRST(&engines->list))) {
		LIST_REMOVE(engine, entry);
		for (int dir = 0; dir < COPY_DIRS; dir++)
			engine->queues[dir]->ops->queue_close(engine->queues[dir]);
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
		TAILQ_INIT(&engine->waiting[dir]);
		if (mem->ops->queue_open(mem, &engine->queues[dir]))
			goto close_queues;
	}
	LIST_INSERT_HEAD(&engines->list, engine, entry);
	return engine;

close_queues:
	for (int dir = 0; dir < COPY_DIRS && engine->queues[dir]; dir++)
		mem->ops->queue_close(engine->queues[dir]);
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

int copy_start(struct copy_engines *engines, const struct dev_mem *mem, enum copy_dir dir,
	       const struct iovec *iov, size_t count, void *host, struct copy *copy)
{
	struct copy_engine *engine = copy_engine_find(engines, mem);
	struct dev_queue *queue;
	char *at = host;
	int ret = 0;

	if (!engine)
		return -FI_EIO;
	queue = engine->queues[dir];
	for (size_t i = 0; !ret && i < count; at += iov[i++].iov_len) {
		if (dir == COPY_OUT)
			ret = queue->ops->queue_copy(queue, at, iov[i].iov_base,
						     iov[i].iov_len);
		else
			ret = queue->ops->queue_copy(queue, iov[i].iov_base, at,
						     iov[i].iov_len);
	}
	if (!ret)
		ret = queue->ops->queue_mark(queue);
	if (ret) {
		/* what has begun must not go on in memory that is used otherwise */
		queue->ops->queue_drain(queue);
		return ret;
	}
	copy->mark = queue->marked;
	TAILQ_INSERT_TAIL(&engine->waiting[dir], copy, entry);
	copy_pending_add(engines, 1);
	return 0;
}

static void copy_queue_progress(struct copy_engines *engines, struct dev_queue *queue,
				struct copy_list *waiting)
{
	struct copy *copy;
	int passed;

	while ((copy = TAILQ_FIRST(waiting))) {
		passed = dev_queue_passed(queue, copy->mark);
		if (!passed)
			break;
		TAILQ_REMOVE(waiting, copy, entry);
		copy_pending_add(engines, -1);
		copy->done(copy, passed < 0 ? passed : 0);
	}
}

void copy_progress(struct copy_engines *engines)
{
	struct copy_engine *engine;

	if (!engines->pending)
		return;
	LIST_FOREACH(engine, &engines->list, entry) {
		for (int dir = 0; dir < COPY_DIRS; dir++)
			copy_queue_progress(engines, engine->queues[dir],
					    &engine->waiting[dir]);
	}
}
