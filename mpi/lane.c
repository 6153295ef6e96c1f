/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Queues and pinned memory, each taken from a list and put back there. See lane.h. */
#include "lane.h"

#include <mpi.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/queue.h>
#include <time.h>

#include "base/clock.h"
#include "base/thread.h"

/* Blocks have sizes that are powers of two, from 4 KiB to 512 MiB. What is longer comes from the system each time. */
#define LANE_SMALLEST 12
#define LANE_SIZES 18
/* Bytes that are kept, at most */
#define LANE_KEPT (512ul << 20)
/* Allocations that are known to be settled (dev_ops.settle): each place has the latest id */
#define LANE_SETTLED 16
/* How long a thread looks at copies before it has the driver wait [ns] */
#define LANE_POLL 100000
/* and how long it sleeps between looks, where it waits for no longer than it is told to [ns] */
#define LANE_NAP 20000

/* @memory, @len: what a parked one keeps */
struct lane {
	SLIST_ENTRY(lane) entry;
	struct dev_mem held;
	struct dev_queue *queue;
	uint64_t settled[LANE_SETTLED];
	char *memory;
	size_t len;
};

/* Memory that nobody uses; it is in the memory itself. */
struct lane_block {
	SLIST_ENTRY(lane_block) entry;
};

static struct {
	pthread_mutex_t lock;
	SLIST_HEAD(, lane) lanes, parked;
	SLIST_HEAD(, lane_block) blocks[LANE_SIZES];
	size_t kept;
} lane_pool = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- queues ---- */

static struct lane *lane_idle(const struct dev_mem *mem)
{
	struct lane *lane;

	pthread_mutex_lock(&lane_pool.lock);
	SLIST_FOREACH(lane, &lane_pool.lanes, entry)
	{
		if (lane->held.ops == mem->ops && lane->held.ordinal == mem->ordinal) {
			SLIST_REMOVE(&lane_pool.lanes, lane, lane, entry);
			break;
		}
	}
	pthread_mutex_unlock(&lane_pool.lock);
	return lane;
}

static struct lane *lane_new(const struct dev_mem *mem)
{
	struct lane *lane = calloc(1, sizeof *lane);

	if (!lane)
		return NULL;
	if (mem->ops->device(mem->ordinal, &lane->held)) {
		free(lane);
		return NULL;
	}
	if (lane->held.ops->queue_open(&lane->held, false, &lane->queue)) {
		lane->held.ops->device_close(lane->held.ctx);
		free(lane);
		return NULL;
	}
	return lane;
}

static void lane_free(struct lane *lane)
{
	lane->held.ops->queue_close(lane->queue);
	lane->held.ops->device_close(lane->held.ctx);
	free(lane);
}

/* A parked one whose kernel has ended, or NULL */
static struct lane *lane_parked(void)
{
	struct lane *lane;

	pthread_mutex_lock(&lane_pool.lock);
	SLIST_FOREACH(lane, &lane_pool.parked, entry)
	{
		if (dev_queue_passed(lane->queue, lane->queue->marked) != 0) {
			SLIST_REMOVE(&lane_pool.parked, lane, lane, entry);
			break;
		}
	}
	pthread_mutex_unlock(&lane_pool.lock);
	return lane;
}

void lane_settle(struct lane *lane, const struct dev_mem *mem)
{
	uint64_t *known = &lane->settled[mem->id % LANE_SETTLED];

	if (*known != mem->id && mem->ops->settle(mem))
		*known = mem->id;
}

int lane_open(const struct dev_mem *mem, struct lane **lane, const char **why)
{
	while ((*lane = lane_parked())) {
		lane_memory_free(&(*lane)->held, (*lane)->memory, (*lane)->len);
		lane_free(*lane);
	}
	*lane = lane_idle(mem);
	if (*lane && (*lane)->held.ops->gone((*lane)->held.ctx)) {
		lane_free(*lane);
		*lane = NULL;
	}
	if (!*lane)
		*lane = lane_new(mem);
	if (!*lane) {
		*why = "the GPU gives no queue for copies";
		return MPI_ERR_OTHER;
	}
	lane_settle(*lane, mem);
	return MPI_SUCCESS;
}

int lane_copy(struct lane *lane, void *gpu, void *host, size_t len, bool out, const char **why)
{
	if (lane->queue->ops->queue_copy(lane->queue, out ? gpu : host, out ? host : gpu,
					 len)) {
		*why = "the GPU refuses a copy";
		return MPI_ERR_OTHER;
	}
	return MPI_SUCCESS;
}

bool lane_rows(struct lane *lane, void *gpu, void *host, size_t len, size_t rows, size_t pitch,
	       bool out)
{
	return lane->queue->ops->queue_rows(lane->queue, out ? gpu : host, out ? host : gpu,
					    len, rows, pitch) == 0;
}

const struct dev_mem *lane_device(const struct lane *lane)
{
	return &lane->held;
}

int lane_launch(struct lane *lane, void *kernel, void **args, unsigned int blocks,
		unsigned int threads)
{
	return lane->queue->ops->queue_kernel(lane->queue, kernel, args, blocks, threads);
}

int lane_wait(struct lane *lane, uint64_t ns)
{
	/* others that are ready to run would have the processor for whole time slices, if it were yielded */
	const struct timespec nap = {.tv_nsec = LANE_NAP};
	const uint64_t begin = clock_ns();
	int ret;

	if (lane->queue->ops->queue_mark(lane->queue))
		return -1;
	while ((ret = dev_queue_passed(lane->queue, lane->queue->marked)) == 0) {
		const uint64_t waited = clock_ns() - begin;

		if (waited >= ns)
			break;
		if (waited >= LANE_POLL)
			nanosleep(&nap, NULL);
	}
	return ret;
}

void lane_park(struct lane *lane, char *memory, size_t len)
{
	lane->memory = memory;
	lane->len = len;
	pthread_mutex_lock(&lane_pool.lock);
	SLIST_INSERT_HEAD(&lane_pool.parked, lane, entry);
	pthread_mutex_unlock(&lane_pool.lock);
}

int lane_close(struct lane *lane, int ret, const char **why)
{
	const struct dev_ops *ops = lane->queue->ops;
	const bool marked = ops->queue_mark(lane->queue) == 0;
	const uint64_t until = clock_ns() + LANE_POLL;
	int passed = 0;

	/* short copies are there sooner than the driver returns from a wait */
	while (marked && passed == 0 && clock_ns() < until)
		passed = dev_queue_passed(lane->queue, lane->queue->marked);
	if (passed == 0) {
		ops->queue_drain(lane->queue);
		passed = marked ? dev_queue_passed(lane->queue, lane->queue->marked) : -1;
	}
	if (passed <= 0) {
		lane_free(lane);
		*why = "a copy from or to the GPU has failed";
		return MPI_ERR_OTHER;
	}
	pthread_mutex_lock(&lane_pool.lock);
	SLIST_INSERT_HEAD(&lane_pool.lanes, lane, entry);
	pthread_mutex_unlock(&lane_pool.lock);
	return ret;
}

/* ---- memory ---- */

/* The list of blocks that are long enough, or LANE_SIZES */
static unsigned lane_size(size_t len)
{
	unsigned size = 0;

	while (size < LANE_SIZES && (1ul << (size + LANE_SMALLEST)) < len)
		size++;
	return size;
}

int lane_memory(const struct dev_mem *mem, size_t len, char **memory, const char **why)
{
	const unsigned size = lane_size(len);
	struct lane_block *block = NULL;

	if (size < LANE_SIZES) {
		pthread_mutex_lock(&lane_pool.lock);
		block = SLIST_FIRST(&lane_pool.blocks[size]);
		if (block) {
			SLIST_REMOVE_HEAD(&lane_pool.blocks[size], entry);
			lane_pool.kept -= 1ul << (size + LANE_SMALLEST);
		}
		pthread_mutex_unlock(&lane_pool.lock);
		len = 1ul << (size + LANE_SMALLEST);
	}
	*memory = (char *) block;
	if (block)
		return MPI_SUCCESS;
	*memory = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (*memory == MAP_FAILED) {
		*memory = NULL;
		*why = "no host memory for a GPU buffer's data";
		return MPI_ERR_NO_MEM;
	}
	/* copies from and to memory that cannot be pinned are slower, and right */
	if (size < LANE_SIZES)
		mem->ops->pin(mem, *memory, len);
	return MPI_SUCCESS;
}

void lane_memory_free(const struct dev_mem *mem, char *memory, size_t len)
{
	struct lane_block *block = (struct lane_block *) memory;
	const unsigned size = lane_size(len);

	if (size < LANE_SIZES) {
		bool keep;

		len = 1ul << (size + LANE_SMALLEST);
		pthread_mutex_lock(&lane_pool.lock);
		/* unpinning waits for streams, which may wait for a thread of ours */
		keep = lane_pool.kept + len <= LANE_KEPT || thread_is_ours();
		if (keep) {
			SLIST_INSERT_HEAD(&lane_pool.blocks[size], block, entry);
			lane_pool.kept += len;
		}
		pthread_mutex_unlock(&lane_pool.lock);
		if (keep)
			return;
		mem->ops->unpin(memory);
	}
	munmap(memory, len);
}
