/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Unit tests of seen_ids.c: old ids are known, those that may still come are not taken for old. */
#include "unit.h"

#include "base/siphash.h"
#include "proto/seen_ids.h"

#define BASE (77ULL << 32)
#define LAST 1024

static struct seen_ids seen;

/* As xfer_id_new() makes them */
static uint64_t id_of(uint32_t count)
{
	const struct siphash_key key = {{1, 2}};

	return BASE | siphash_permute(&key, count);
}

static void test_one(void **state)
{
	assert_false(seen_ids_before(&seen, id_of(5)));
	assert_false(seen_ids_before(&seen, 0));
	seen_ids_add(&seen, id_of(5));
	assert_true(seen_ids_before(&seen, id_of(5)));
	assert_false(seen_ids_before(&seen, id_of(4)));
	assert_false(seen_ids_before(&seen, id_of(5) + (1ULL << 32)));
	assert_false(seen_ids_before(&seen, 0));
	seen_ids_fini(&seen);
	assert_false(seen_ids_before(&seen, id_of(5)));
}

static void test_many(void **state)
{
	for (uint32_t i = 0; i < 100 * LAST; i++) {
		assert_false(seen_ids_before(&seen, id_of(i)));
		seen_ids_add(&seen, id_of(i));
		if (i % LAST == 0) {
			for (uint32_t j = i < LAST ? 0 : i - LAST; j <= i; j++)
				assert_true(seen_ids_before(&seen, id_of(j)));
		}
	}
	seen_ids_fini(&seen);
}

/* The ways of one set */
static void test_one_set(void **state)
{
	for (uint64_t i = 0; i < 3 * SEEN_IDS_WAYS; i++)
		seen_ids_add(&seen, i * SEEN_IDS_SETS);
	for (uint64_t i = 0; i < 3 * SEEN_IDS_WAYS; i++)
		assert_int_equal(seen_ids_before(&seen, i * SEEN_IDS_SETS),
				 i >= 2 * SEEN_IDS_WAYS);
	seen_ids_fini(&seen);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_one_set),
	};
	static const struct unit unit = {.tests = tests, .test_count = UNIT_COUNT(tests)};

	return unit_main(argc, argv, &unit);
}
