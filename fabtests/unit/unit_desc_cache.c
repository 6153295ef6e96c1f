/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unit tests of desc_cache.c: which buffers are host memory by their descriptors, and that nothing is
 * that must be asked about. With devices: fi_p2p_desc, fi_p2p_calls.
 */
#include "unit.h"

#include <pthread.h>

#include "mem/desc_cache.h"

#define LEN ((size_t) 1 << 12)
#define ROUNDS 2000000
#define PLACES (DESC_SETS * DESC_WAYS)

static struct cell_pool pool;
static struct desc_cache book = {.cells = &pool};

/* Stand for the core's records, which are as far from each other as malloc() makes them */
static char records[2 * PLACES][656];

static struct iovec region_at(uintptr_t start)
{
	return (struct iovec){(void *) start, LEN};
}

static bool holds(void *desc, uintptr_t start, size_t len)
{
	const struct iovec iov = {(void *) start, len};

	return desc_cache_host(&book, &iov, &desc, 1);
}

static int teardown(void **state)
{
	desc_cache_fini(&book);
	return 0;
}

static void test_bounds(void **state)
{
	const struct iovec iov = region_at(0x10000);
	void *desc = records[0], *other = records[1];

	assert_false(holds(desc, 0x10000, 1));
	desc_cache_host_add(&book, desc, &iov);
	assert_true(holds(desc, 0x10000, 1));
	assert_true(holds(desc, 0x10000, LEN));
	assert_true(holds(desc, 0x10000 + LEN - 1, 1));
	assert_true(holds(desc, 0x10000 + LEN, 0));
	assert_false(holds(desc, 0x10000 + LEN, 1));
	assert_false(holds(desc, 0x10000 + LEN - 1, 2));
	assert_false(holds(desc, 0x10000 - 1, 2));
	assert_false(holds(desc, 0x10000 - 1, SIZE_MAX));
	assert_false(holds(desc, 0x10000 + 1, SIZE_MAX));
	assert_false(holds(other, 0x10000, 1));
	assert_false(holds(NULL, 0x10000, 1));
	desc_cache_host_remove(&book, desc, &iov);
	assert_false(holds(desc, 0x10000, 1));
	assert_false(holds(NULL, 0, 0));
}

/* One descriptor may be that of two regions, one after the other or both at once. */
static void test_same_descriptor(void **state)
{
	const struct iovec first = region_at(0x10000), second = region_at(0x20000);
	void *desc = records[0];

	desc_cache_host_add(&book, desc, &first);
	desc_cache_host_add(&book, desc, &second);
	assert_true(holds(desc, 0x10000, 1));
	assert_true(holds(desc, 0x20000, 1));
	desc_cache_host_remove(&book, desc, &first);
	assert_false(holds(desc, 0x10000, 1));
	assert_true(holds(desc, 0x20000, 1));
	desc_cache_host_remove(&book, desc, &second);
	assert_false(holds(desc, 0x20000, 1));
}

static void test_pieces(void **state)
{
	const struct iovec regions[] = {region_at(0x10000), region_at(0x20000)};
	struct iovec iov[] = {{(void *) 0x10010, 16}, {(void *) 0x20020, 32}};
	void *desc[] = {records[0], records[1]}, *some[] = {records[0], NULL};

	for (size_t i = 0; i < 2; i++)
		desc_cache_host_add(&book, desc[i], &regions[i]);
	assert_true(desc_cache_host(&book, iov, desc, 2));
	assert_false(desc_cache_host(&book, iov, some, 2));
	assert_false(desc_cache_host(&book, iov, NULL, 2));
	assert_true(desc_cache_host(&book, NULL, NULL, 0));
	iov[1].iov_len = LEN;
	assert_false(desc_cache_host(&book, iov, desc, 2));
	for (size_t i = 0; i < 2; i++)
		desc_cache_host_remove(&book, desc[i], &regions[i]);
}

/*
 * So many regions, with descriptors @step bytes apart: each is known or not, and none for another;
 * @least: so many are known.
 */
static void many(size_t count, size_t step, size_t least)
{
	size_t known = 0;

	for (size_t i = 0; i < count; i++) {
		const struct iovec iov = region_at((i + 1) * LEN);

		desc_cache_host_add(&book, records[0] + i * step, &iov);
	}
	for (size_t i = 0; i < count; i++) {
		void *desc = records[0] + i * step;

		known += holds(desc, (i + 1) * LEN, LEN);
		assert_false(holds(desc, (i + 1) * LEN - 1, 1));
		assert_false(holds(desc, (i + 2) * LEN, 1));
	}
	assert_in_range(known, least, PLACES);
	for (size_t i = 0; i < count; i++) {
		const struct iovec iov = region_at((i + 1) * LEN);

		desc_cache_host_remove(&book, records[0] + i * step, &iov);
		assert_false(holds(records[0] + i * step, (i + 1) * LEN, 1));
	}
}

static void test_many(void **state)
{
	static const size_t steps[] = {64, 112, 224, 288, 656};

	for (size_t i = 0; i < UNIT_COUNT(steps); i++) {
		many(PLACES / 8, steps[i], PLACES / 8 * 9 / 10);
		many(PLACES / 2, steps[i], PLACES / 4);
		many(PLACES * 2, steps[i], PLACES / 2);
	}
}

/* ---- descriptors of ours ---- */

static void test_device(void **state)
{
	struct dev_mem *ours, mem;
	void *desc[2];

	assert_int_equal(cell_pool_init(&pool), 0);
	ours = cell_get(&pool);
	*ours = (struct dev_mem){.base = 0x70000, .size = LEN};
	desc[0] = records[0];
	desc[1] = ours;
	assert_null(desc_cache_device(&book, NULL, 2));
	assert_null(desc_cache_device(&book, desc, 1));
	assert_ptr_equal(desc_cache_device(&book, desc, 2), ours);
	assert_true(desc_cache_find_device(&book, (void *) 0x10000, 1, ours, &mem));
	cell_put(&pool, ours);
	cell_pool_fini(&pool);
	pool = (struct cell_pool){.base = NULL};
}

/* ---- threads ---- */

/* Descriptors with one index, every other of one region and the rest of another */
#define RIVALS 6

struct rivals {
	void *desc[RIVALS];
	bool done;
};

static uintptr_t start_of(size_t rival)
{
	return rival % 2 ? 0x20000 : 0x10000;
}

static size_t place_of(void *desc)
{
	const struct iovec iov = region_at(0x10000);
	size_t place = 0;

	desc_cache_host_add(&book, desc, &iov);
	while (book.sets[place].host[0].desc != desc)
		place++;
	desc_cache_host_remove(&book, desc, &iov);
	return place;
}

static void *replace(void *arg)
{
	struct rivals *rivals = arg;

	for (size_t i = 0; i < ROUNDS; i++) {
		const struct iovec iov = region_at(start_of(i % RIVALS));

		desc_cache_host_add(&book, rivals->desc[i % RIVALS], &iov);
		if (i % 5 == 0)
			desc_cache_host_remove(&book, rivals->desc[i % RIVALS], &iov);
	}
	__atomic_store_n(&rivals->done, true, __ATOMIC_RELEASE);
	return NULL;
}

static void test_threads(void **state)
{
	struct rivals rivals = {.done = false};
	size_t place = place_of(records[0]), count = 0, wrong = 0;
	pthread_t thread;

	/* Any 16th byte is taken: where the array lies decides how many records share a place */
	for (size_t at = 0; count < RIVALS; at += 16) {
		assert_in_range(at, 0, sizeof(records) - 1);
		if (place_of((char *) records + at) == place)
			rivals.desc[count++] = (char *) records + at;
	}
	assert_int_equal(pthread_create(&thread, NULL, replace, &rivals), 0);
	while (!__atomic_load_n(&rivals.done, __ATOMIC_ACQUIRE)) {
		for (size_t i = 0; i < RIVALS; i++)
			wrong += holds(rivals.desc[i], start_of(i + 1), 1);
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(wrong, 0);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bounds), cmocka_unit_test(test_same_descriptor),
		cmocka_unit_test(test_pieces), cmocka_unit_test(test_many),
		cmocka_unit_test(test_device), cmocka_unit_test(test_threads),
	};
	static const struct unit unit = {
		.tests = tests,
		.test_count = UNIT_COUNT(tests),
		.teardown = teardown,
	};

	return unit_main(argc, argv, &unit);
}
