/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unit tests of stage.c: reserves, which cost what is written to them. There is no device
 * here, nor any slot.
 */
#include "unit_stage.h"

#include <string.h>

#include "mem/stage.h"

#define KiB ((size_t) 1 << 10)
#define MiB ((size_t) 1 << 20)

static void test_reserve_sizes(void **state)
{
	static const size_t lens[] = {0, 1, 4095, 65536, 65537, 99999, MiB + 1, 7 * MiB};
	struct stage_reserve *reserves[UNIT_COUNT(lens)];
	struct stage stage;

	stage_init(&stage, NULL);
	for (size_t i = 0; i < UNIT_COUNT(lens); i++) {
		reserves[i] = stage_reserve_get(&stage, lens[i]);
		assert_non_null(reserves[i]);
		assert_true(reserves[i]->size >= lens[i]);
		assert_null(reserves[i]->desc);
		memset(reserves[i]->addr, (int) i, reserves[i]->size);
	}
	for (size_t i = 0; i < UNIT_COUNT(lens); i++) {
		assert_int_equal(*(unsigned char *) reserves[i]->addr, i);
		assert_int_equal(((unsigned char *) reserves[i]->addr)[reserves[i]->size - 1],
				 i);
		stage_reserve_put(&stage, reserves[i], lens[i]);
	}
	assert_null(stage_reserve_get(&stage, SIZE_MAX));
	assert_null(stage_reserve_get(&stage, SIZE_MAX - 4096));
	assert_null(stage_reserve_get(&stage, (size_t) 1 << 62));
	stage_fini(&stage);
}

/* Another message of about the same length takes the same buffer */
static void test_reserve_reuse(void **state)
{
	struct stage_reserve *first, *second, *third;
	struct stage stage;

	stage_init(&stage, NULL);
	first = stage_reserve_get(&stage, 300 * KiB);
	second = stage_reserve_get(&stage, 300 * KiB);
	assert_ptr_not_equal(first, second);
	assert_ptr_not_equal(first->addr, second->addr);
	stage_reserve_put(&stage, first, 300 * KiB);
	assert_ptr_equal(stage_reserve_get(&stage, 299 * KiB), first);
	stage_reserve_put(&stage, first, 1);
	/* one that would be too short is never given */
	third = stage_reserve_get(&stage, first->size + 1);
	assert_ptr_not_equal(third, first);
	assert_int_equal(stage.kept_count, 1);
	stage_reserve_put(&stage, third, 0);
	stage_reserve_put(&stage, second, 0);
	stage_fini(&stage);
}

static void test_reserves_kept(void **state)
{
	enum { COUNT = 500, BOUND = 128 };
	struct stage_reserve *reserves[COUNT], *kept;
	struct stage stage;
	size_t listed = 0;

	stage_init(&stage, NULL);
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < COUNT; i++)
			assert_non_null(reserves[i] = stage_reserve_get(&stage, i * 500));
		assert_int_equal(stage.kept_count, 0);
		for (int i = 0; i < COUNT; i++)
			stage_reserve_put(&stage, reserves[i], i * 500);
		assert_in_range(stage.kept_count, 1, BOUND);
	}
	LIST_FOREACH(kept, &stage.kept, entry)
		listed++;
	assert_int_equal(listed, stage.kept_count);
	stage_fini(&stage);
}

/* A kept reserve gives most of its memory back */
static void test_reserve_returned(void **state)
{
	const size_t len = 64 * MiB;
	size_t before;
	struct stage_reserve *reserve;
	struct stage stage;

	stage_init(&stage, NULL);
	reserve = stage_reserve_get(&stage, len);
	assert_non_null(reserve);
	before = unit_resident(reserve->addr);
	memset(reserve->addr, 1, len);
	assert_true(unit_resident(reserve->addr) >= before + len / 8 * 7);
	stage_reserve_put(&stage, reserve, len);
	assert_true(unit_resident(reserve->addr) < before + len / 8);
	assert_ptr_equal(stage_reserve_get(&stage, len), reserve);
	stage_reserve_put(&stage, reserve, 0);
	stage_fini(&stage);
}

/* 1 TiB, where the sanitizer leaves that much of the address space in one piece */
#ifdef __SANITIZE_THREAD__
#define HUGE_LEN ((size_t) 1 << 36)
#else
#define HUGE_LEN ((size_t) 1 << 40)
#endif

static void test_reserve_huge(void **state)
{
	const size_t len = HUGE_LEN;
	size_t before;
	struct stage_reserve *reserve;
	struct stage stage;

	stage_init(&stage, NULL);
	reserve = stage_reserve_get(&stage, len);
	assert_non_null(reserve);
	assert_true(reserve->size >= len);
	/* mappings beside it may count as one with it */
	before = unit_resident(reserve->addr);
	for (size_t at = 0; at < len; at += len / 8 - 1)
		((char *) reserve->addr)[at] = 1;
	assert_in_range(unit_resident(reserve->addr) - before, 1, 64 * MiB);
	stage_reserve_put(&stage, reserve, len);
	stage_fini(&stage);
}

const struct CMUnitTest unit_stage_reserve_tests[] = {
	cmocka_unit_test(test_reserve_sizes), cmocka_unit_test(test_reserve_reuse),
	cmocka_unit_test(test_reserves_kept), cmocka_unit_test(test_reserve_returned),
	cmocka_unit_test(test_reserve_huge),
};
const size_t unit_stage_reserve_count = UNIT_COUNT(unit_stage_reserve_tests);
