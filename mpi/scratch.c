/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A list of blocks in GPUs' memory, and host memory of lane.h. See scratch.h. */
#include "scratch.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "lane.h"

/* Memory of a GPU, @size bytes. @held: the context that it is in */
struct scratch_block {
	SLIST_ENTRY(scratch_block) entry;
	struct dev_mem held;
	size_t size;
	struct exchange_area area;
};

static struct {
	pthread_mutex_t lock;
	SLIST_HEAD(, scratch_block) idle, taken;
} scratch_blocks = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void scratch_drop(struct scratch_block *block)
{
	block->held.ops->device_close(block->held.ctx);
	free(block);
}

static struct scratch_block *scratch_idle(const struct dev_mem *mem)
{
	struct scratch_block *block;

	pthread_mutex_lock(&scratch_blocks.lock);
	SLIST_FOREACH(block, &scratch_blocks.idle, entry)
	{
		if (block->held.ops == mem->ops && block->held.ordinal == mem->ordinal) {
			SLIST_REMOVE(&scratch_blocks.idle, block, scratch_block, entry);
			break;
		}
	}
	pthread_mutex_unlock(&scratch_blocks.lock);
	return block;
}

static struct scratch_block *scratch_new(const struct dev_mem *mem, size_t size)
{
	struct scratch_block *block = calloc(1, sizeof *block);
	void *addr = NULL;

	if (!block)
		return NULL;
	if (mem->ops->device(mem->ordinal, &block->held)) {
		free(block);
		return NULL;
	}
	if (mem->ops->alloc(&block->held, size, &addr)) {
		scratch_drop(block);
		return NULL;
	}
	if (dev_find(addr, &block->area.mem) <= 0) {
		mem->ops->free(&block->held, addr);
		scratch_drop(block);
		return NULL;
	}
	block->size = size;
	block->area.addr = addr;
	block->area.gpu = true;
	return block;
}

/* One that is too small gives way to a longer one. */
static struct scratch_block *scratch_block(const struct dev_mem *mem, size_t len)
{
	struct scratch_block *block;
	size_t size = SCRATCH_SMALL;

	while (size < len)
		size *= 2;
	while ((block = scratch_idle(mem))) {
		/* or the memory has gone with its context */
		const bool gone = mem->ops->gone(block->held.ctx);

		if (!gone && block->size >= size)
			return block;
		if (!gone)
			mem->ops->free(&block->held, block->area.addr);
		scratch_drop(block);
	}
	return scratch_new(mem, size);
}

bool scratch_gpu(struct exchange_area *scratch, size_t len, const struct exchange_area *beside)
{
	struct scratch_block *block = scratch_block(&beside->mem, len);

	if (!block)
		return false;
	pthread_mutex_lock(&scratch_blocks.lock);
	SLIST_INSERT_HEAD(&scratch_blocks.taken, block, entry);
	pthread_mutex_unlock(&scratch_blocks.lock);
	*scratch = block->area;
	return true;
}

bool scratch_host(struct exchange_area *scratch, size_t len, const struct exchange_area *beside)
{
	const char *why;

	*scratch = (struct exchange_area){0};
	if (!beside->gpu) {
		scratch->addr = malloc(len);
		return scratch->addr;
	}
	scratch->mem = beside->mem;
	return lane_memory(&beside->mem, len, &scratch->addr, &why) == MPI_SUCCESS;
}

void scratch_give(struct exchange_area *scratch, size_t len)
{
	struct scratch_block *block;

	if (!scratch->mem.ops) {
		free(scratch->addr);
		return;
	}
	if (!scratch->gpu) {
		lane_memory_free(&scratch->mem, scratch->addr, len);
		return;
	}
	pthread_mutex_lock(&scratch_blocks.lock);
	SLIST_FOREACH(block, &scratch_blocks.taken, entry)
	{
		if (block->area.addr == scratch->addr)
			break;
	}
	SLIST_REMOVE(&scratch_blocks.taken, block, scratch_block, entry);
	SLIST_INSERT_HEAD(&scratch_blocks.idle, block, entry);
	pthread_mutex_unlock(&scratch_blocks.lock);
}
