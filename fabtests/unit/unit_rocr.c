/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unit tests of the ROCm backend on the emulated device: what unit_copy.c, which both
 * vendors' backends go through, does not ask.
 */
#include "unit.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>

#include "dev/dl.h"
#include "dev/p2p_hsa_abi.h"

#define SIZE 10000

/* More than a queue has signals */
#define MARKS 1000

static unsigned char bytes[SIZE], back[SIZE];

/* ---- finding ---- */

static void check_found(const char *addr, const char *base, int ordinal, uint64_t id)
{
	struct dev_mem mem;

	assert_true(dev_find(addr, &mem));
	assert_string_equal(mem.ops->name, "rocr");
	unit_ops_complete(mem.ops);
	assert_int_equal(mem.ordinal, ordinal);
	assert_ptr_equal(mem.base, base);
	assert_int_equal(mem.size, SIZE);
	assert_int_equal(mem.id, id);
	assert_false(mem.mapped);
}

static uint64_t id_of(const void *addr)
{
	struct dev_mem mem;

	assert_true(dev_find(addr, &mem));
	return mem.id;
}

static void scene_find(void **state)
{
	struct dev_mem mem;
	char *first, *second, *again;
	uint64_t ids[2], id;
	void *ctx;

	unit_dev_start();
	first = unit_dev_alloc(SIZE);
	unit_dev_use(1);
	second = unit_dev_alloc(SIZE);
	assert_true(dev_find(first, &mem));
	ctx = mem.ctx;
	assert_true(dev_find(second, &mem));
	assert_ptr_not_equal(ctx, mem.ctx);
	ids[0] = id_of(first);
	ids[1] = id_of(second);
	assert_int_not_equal(ids[0], 0);
	assert_int_not_equal(ids[0], ids[1]);
	for (size_t at = 0; at < SIZE; at += 1111) {
		check_found(first + at, first, 0, ids[0]);
		check_found(second + at, second, 1, ids[1]);
	}
	check_found(first + SIZE - 1, first, 0, ids[0]);
	assert_false(dev_find(first + SIZE, &mem));
	assert_false(dev_find(first - 1, &mem));
	assert_false(dev_find(NULL, &mem));

	/* an address that comes back is another allocation */
	unit_dev_free(second);
	assert_false(dev_find(second, &mem));
	again = unit_dev_alloc(SIZE);
	assert_ptr_equal(again, second);
	id = id_of(again);
	assert_int_not_equal(id, ids[0]);
	assert_int_not_equal(id, ids[1]);
	assert_int_equal(id_of(again), id);
}

static hsa_status_t take_cpu(hsa_agent_t agent, void *cpu)
{
	*(hsa_agent_t *) cpu = agent;
	return HSA_STATUS_INFO_BREAK;
}

static hsa_status_t take_pool(hsa_amd_memory_pool_t its_pool, void *pool)
{
	*(hsa_amd_memory_pool_t *) pool = its_pool;
	return HSA_STATUS_SUCCESS;
}

/* Memory that the runtime knows of, and that is a host's all the same */
static void scene_host(void **state)
{
	hsa_agent_t cpu = {0};
	hsa_amd_memory_pool_t pool = {0};
	struct dev_mem mem;
	void *ptr;

	unit_dev_start();
	assert_false(dev_find(bytes, &mem));
	assert_false(dev_find(unit_dev_pinned(SIZE), &mem));
	assert_int_equal(hsa_iterate_agents(take_cpu, &cpu), HSA_STATUS_INFO_BREAK);
	assert_int_equal(hsa_amd_agent_iterate_memory_pools(cpu, take_pool, &pool),
			 HSA_STATUS_SUCCESS);
	assert_int_equal(hsa_amd_memory_pool_allocate(pool, SIZE, 0, &ptr), HSA_STATUS_SUCCESS);
	assert_false(dev_find(ptr, &mem));
	memset(ptr, 1, SIZE);
}

/* Until the application begins with ROCm, we do not either */
static void scene_not_initialised(void **state)
{
	hsa_agent_t cpu;
	struct dev_mem mem;
	void *ptr;

	dev_init();
	assert_true(dev_present);
	for (int i = 0; i < 3; i++) {
		assert_false(dev_find(bytes, &mem));
		assert_false(dev_find((void *) SIZE, &mem));
	}
	assert_int_equal(hsa_iterate_agents(take_cpu, &cpu), HSA_STATUS_ERROR_NOT_INITIALIZED);
	/* and when it does, that is seen; and when it ends, too */
	unit_dev_start();
	ptr = unit_dev_alloc(SIZE);
	assert_true(dev_find(ptr, &mem));
	assert_int_equal(hsa_shut_down(), HSA_STATUS_SUCCESS);
	assert_false(dev_find(ptr, &mem));
	assert_int_equal(hsa_iterate_agents(take_cpu, &cpu), HSA_STATUS_ERROR_NOT_INITIALIZED);
}

/* A runtime that fails does not say that it is host memory; the next time it may know */
static void scene_fails(void **state)
{
	struct dev_mem mem;
	void *ptr;

	unit_dev_start();
	ptr = unit_dev_alloc(SIZE);
	assert_int_equal(dev_find(ptr, &mem), -FI_EIO);
	assert_int_equal(dev_find(ptr, &mem), 1);
	assert_int_equal(mem.ordinal, 0);
}

/* ---- copying ---- */

static void wait_for(struct dev_queue *queue)
{
	int passed;

	while (!(passed = dev_queue_passed(queue, queue->marked)))
		sched_yield();
	assert_int_equal(passed, 1);
}

/* Pageable memory, and pinned memory that begins and ends anywhere */
static void scene_places(void **state)
{
	struct dev_queue *queue;
	struct dev_mem mem;
	char *dev, *pinned;

	unit_dev_start();
	dev = unit_dev_alloc(SIZE);
	assert_true(dev_find(dev, &mem));
	assert_int_equal(mem.ops->queue_open(&mem, false, &queue), 0);
	unit_fill(bytes, SIZE, 1);
	assert_int_equal(queue->ops->queue_copy(queue, dev, bytes, SIZE), 0);
	assert_int_equal(queue->ops->queue_mark(queue), 0);
	wait_for(queue);
	assert_int_equal(queue->ops->queue_copy(queue, back, dev, SIZE), 0);
	assert_int_equal(queue->ops->queue_mark(queue), 0);
	wait_for(queue);
	assert_memory_equal(back, bytes, SIZE);

	/* ours this time, in a page that it does not begin */
	pinned = calloc(1, 2 * SIZE);
	assert_non_null(pinned);
	assert_int_equal(mem.ops->pin(&mem, pinned + 7, SIZE + 3), 0);
	assert_int_equal(queue->ops->queue_copy(queue, pinned + 9, dev + 1, SIZE - 1), 0);
	assert_int_equal(queue->ops->queue_mark(queue), 0);
	wait_for(queue);
	assert_memory_equal(pinned + 9, bytes + 1, SIZE - 1);
	mem.ops->unpin(pinned + 7);
	free(pinned);
	queue->ops->queue_close(queue);
}

/* A queue outlives the application's own use of the runtime. */
static void scene_shut_down(void **state)
{
	struct dev_queue *queue;
	struct dev_mem mem;
	char *dev, *pinned;

	unit_dev_start();
	dev = unit_dev_alloc(SIZE);
	pinned = unit_dev_pinned(SIZE);
	assert_true(dev_find(dev, &mem));
	assert_int_equal(mem.ops->queue_open(&mem, false, &queue), 0);
	assert_int_equal(hsa_shut_down(), HSA_STATUS_SUCCESS);
	unit_fill((void *) pinned, SIZE, 5);
	assert_int_equal(queue->ops->queue_copy(queue, dev, pinned, SIZE), 0);
	assert_int_equal(queue->ops->queue_mark(queue), 0);
	queue->ops->queue_close(queue);
	assert_int_equal(hsa_shut_down(), HSA_STATUS_ERROR_NOT_INITIALIZED);
}

/* Marks go round the ring of signals, many a time, with and without copies between. */
static void scene_marks(void **state)
{
	unsigned char *pinned;
	struct dev_queue *queue;
	struct dev_mem mem;
	char *dev;

	unit_dev_start();
	dev = unit_dev_alloc(MARKS);
	pinned = unit_dev_pinned(MARKS);
	unit_fill(pinned, MARKS, 3);
	assert_true(dev_find(dev, &mem));
	assert_int_equal(mem.ops->queue_open(&mem, false, &queue), 0);
	for (int i = 0; i < MARKS; i++) {
		if (i % 5)
			assert_int_equal(queue->ops->queue_copy(queue, dev + i, pinned + i, 1),
					 0);
		else
			unit_dev_write(dev + i, pinned + i, 1);
		assert_int_equal(queue->ops->queue_mark(queue), 0);
		assert_int_equal(queue->marked, i + 1);
	}
	wait_for(queue);
	unit_dev_read(back, dev, MARKS);
	assert_memory_equal(back, pinned, MARKS);
	queue->ops->queue_close(queue);
}

/*
 * The first copy never ends, the second one does: neither's mark is reached. The
 * emulation spreads copies over streams, so that of many later queues only some are stuck
 * behind it.
 */
static void scene_overtaken(void **state)
{
	enum { LATER = 8 };
	static struct dev_queue *queue, *later[LATER];
	struct dev_mem mem;
	char *dev, *pinned;
	int ended = 0;

	unit_dev_start();
	dev = unit_dev_alloc(SIZE);
	pinned = unit_dev_pinned(SIZE);
	assert_true(dev_find(dev, &mem));
	assert_int_equal(mem.ops->queue_open(&mem, false, &queue), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(queue->ops->queue_copy(queue, dev + i, pinned + i, 1), 0);
		assert_int_equal(queue->ops->queue_mark(queue), 0);
	}
	for (int i = 0; i < LATER; i++) {
		assert_int_equal(mem.ops->queue_open(&mem, false, &later[i]), 0);
		assert_int_equal(later[i]->ops->queue_copy(later[i], dev + i + 2,
							   pinned + i + 2, 1),
				 0);
		assert_int_equal(later[i]->ops->queue_mark(later[i]), 0);
	}
	/* more than one stream could do: so the second copy's has ended, too */
	while (ended < LATER / 2) {
		ended = 0;
		for (int i = 0; i < LATER; i++)
			ended += dev_queue_passed(later[i], 1);
		sched_yield();
	}
	assert_int_equal(dev_queue_passed(queue, 1), 0);
	assert_int_equal(dev_queue_passed(queue, 2), 0);
	/* not closed: that would wait for the copy which never ends */
}

/* What has failed is not forgotten when another copy joins it. */
static void scene_failed(void **state)
{
	struct dev_queue *queue;
	struct dev_mem mem;
	char *dev, *pinned;

	unit_dev_start();
	dev = unit_dev_alloc(SIZE);
	pinned = unit_dev_pinned(SIZE);
	assert_true(dev_find(dev, &mem));
	assert_int_equal(mem.ops->queue_open(&mem, false, &queue), 0);
	assert_int_equal(queue->ops->queue_copy(queue, dev, pinned, SIZE), 0);
	queue->ops->queue_drain(queue);
	assert_int_equal(queue->ops->queue_copy(queue, dev, pinned, SIZE), -FI_EIO);
	assert_int_equal(queue->ops->queue_mark(queue), 0);
	assert_int_equal(dev_queue_passed(queue, 1), -FI_EIO);
	queue->ops->queue_close(queue);
}

/* ---- libraries that are not as they should be ---- */

static void test_libraries(void **state)
{
	void *(*found)(void) = NULL;
	void *(*missing)(void) = (void *(*) (void) ) & found;
	const struct dl_symbol good = {"hsa_init", NULL, (void **) &found, 0};
	const struct dl_symbol none = {"hsa_no_such", NULL, (void **) &missing, 0};
	const struct dl_symbol maybe = {"hsa_no_such", NULL, (void **) &missing, 1};
	const struct dl_symbol older = {"hsa_no_such", "hsa_init", (void **) &missing, 0};
	const char *lib = "libhsa-runtime64.so.1";

	assert_null(dl_open(NULL, "libno-such-library.so.1", &good, 1));
	assert_null(dl_open("/nowhere", "libno-such-library.so.1", &good, 1));
	assert_null(dl_open(NULL, lib, (struct dl_symbol[]){good, none}, 2));
	/* nothing is filled in part */
	assert_null(found);
	assert_non_null(missing);
	/* the one that is loaded, wherever another might be */
	assert_non_null(dl_open("/nowhere", lib, (struct dl_symbol[]){good, maybe}, 2));
	assert_ptr_equal(found, hsa_init);
	assert_null(missing);
	assert_non_null(dl_open(NULL, lib, &older, 1));
	assert_ptr_equal(missing, hsa_init);
}

/* ---- who plays what ---- */

static const struct {
	const char *scene;
	const char *env[3];
} plays[] = {
	{"scene_find", {NULL}},
	{"scene_host", {NULL}},
	{"scene_not_initialised", {NULL}},
	{"scene_fails", {"CUDAEMU_FAIL=hsa_amd_pointer_info:1"}},
	{"scene_fails", {"CUDAEMU_FAIL=hsa_iterate_agents:2"}},
	{"scene_fails", {"CUDAEMU_FAIL=hsa_agent_get_info:3"}},
	{"scene_places", {NULL}},
	{"scene_places", {"CUDAEMU_SHUFFLE=3"}},
	{"scene_shut_down", {"CUDAEMU_COPY_LATENCY_US=1000"}},
	{"scene_marks", {NULL}},
	{"scene_marks", {"CUDAEMU_COPY_LATENCY_US=20"}},
	{"scene_failed", {"CUDAEMU_FAIL=hsa_copy_ends:1"}},
	{"scene_overtaken", {"CUDAEMU_HANG_COPY=1"}},
};

static void test_plays(void **state)
{
	for (size_t i = 0; i < UNIT_COUNT(plays); i++)
		unit_play(plays[i].scene, plays[i].env);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_libraries),
		cmocka_unit_test(test_plays),
	};
	const struct CMUnitTest scenes[] = {
		cmocka_unit_test(scene_find),
		cmocka_unit_test(scene_host),
		cmocka_unit_test(scene_not_initialised),
		cmocka_unit_test(scene_fails),
		cmocka_unit_test(scene_places),
		cmocka_unit_test(scene_shut_down),
		cmocka_unit_test(scene_marks),
		cmocka_unit_test(scene_failed),
		cmocka_unit_test(scene_overtaken),
	};
	const struct unit unit = {
		.tests = tests,
		.test_count = UNIT_COUNT(tests),
		.scenes = scenes,
		.scene_count = UNIT_COUNT(scenes),
	};

	return unit_main(argc, argv, &unit);
}
