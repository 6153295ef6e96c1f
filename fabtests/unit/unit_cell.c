/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Unit tests of cell.c: every cell once, the latest one first, and none of others'. */
#include "unit.h"

#include <stdlib.h>

#include "base/cell.h"

static int setup(void **state)
{
	static struct cell_pool pool;

	*state = &pool;
	return cell_pool_init(&pool);
}

static int teardown(void **state)
{
	cell_pool_fini(*state);
	return 0;
}

static void test_last_put_first(void **state)
{
	struct cell_pool *pool = *state;
	void *cells[5], *again[5];

	for (int i = 0; i < 5; i++)
		assert_non_null(cells[i] = cell_get(pool));
	for (int i = 0; i < 5; i++)
		cell_put(pool, cells[i]);
	for (int i = 4; i >= 0; i--)
		assert_ptr_equal(again[i] = cell_get(pool), cells[i]);
	assert_ptr_not_equal(cell_get(pool), again[0]);
}

static void test_mine(void **state)
{
	struct cell_pool *pool = *state;
	uintptr_t first = (uintptr_t) pool->base;
	uintptr_t end = first + (uintptr_t) CELL_SIZE * CELL_COUNT;
	struct cell_pool other;
	const struct {
		uintptr_t addr;
		bool mine;
	} cases[] = {
		{0, false},
		{1, false},
		{first - 1, false},
		{first, true},
		{first + 1, true},
		{first + CELL_SIZE, true},
		{end - 1, true},
		{end, false},
		{end + CELL_SIZE, false},
		{UINTPTR_MAX, false},
		{(uintptr_t) pool, false},
	};

	for (size_t i = 0; i < UNIT_COUNT(cases); i++)
		assert_int_equal(cell_mine(pool, (void *) cases[i].addr), cases[i].mine);
	assert_true(cell_mine(pool, cell_get(pool)));
	assert_int_equal(cell_pool_init(&other), 0);
	assert_false(cell_mine(pool, cell_get(&other)));
	cell_pool_fini(&other);
}

/* Cells are given by number, for there is no order that they must come in */
static size_t cell_number(const struct cell_pool *pool, const void *cell)
{
	size_t offset = (size_t) ((const char *) cell - pool->base);

	assert_true(cell_mine(pool, cell));
	assert_int_equal(offset % CELL_SIZE, 0);
	return offset / CELL_SIZE;
}

static void test_all_of_them(void **state)
{
	struct cell_pool *pool = *state;
	char *seen = calloc(CELL_COUNT, 1);
	void *cell, *last = NULL, *first = NULL;

	assert_non_null(seen);
	for (size_t i = 0; i < CELL_COUNT; i++) {
		cell = cell_get(pool);
		assert_non_null(cell);
		assert_false(seen[cell_number(pool, cell)]);
		seen[cell_number(pool, cell)] = 1;
		*(char *) cell = (char) i;
		first = first ? first : cell;
		last = cell;
	}
	free(seen);
	assert_null(cell_get(pool));
	assert_null(cell_get(pool));
	cell_put(pool, last);
	cell_put(pool, first);
	assert_ptr_equal(cell_get(pool), first);
	assert_ptr_equal(cell_get(pool), last);
	assert_null(cell_get(pool));
}

/* A pool costs what is used of it */
static void test_lazy(void **state)
{
	struct cell_pool *pool = *state;

	*(char *) cell_get(pool) = 1;
	assert_in_range(unit_resident(pool->base), 1, (size_t) CELL_SIZE * CELL_COUNT / 8);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_last_put_first, setup, teardown),
		cmocka_unit_test_setup_teardown(test_mine, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lazy, setup, teardown),
		cmocka_unit_test_setup_teardown(test_all_of_them, setup, teardown),
	};
	const struct unit unit = {.tests = tests, .test_count = UNIT_COUNT(tests)};

	return unit_main(argc, argv, &unit);
}
