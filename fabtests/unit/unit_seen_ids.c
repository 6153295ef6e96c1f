/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Unit tests of seen_ids.c: old ids are known, those that may still come are not taken for old. */
#include "unit.h"

#include "proto/seen_ids.h"
#include "xfer/wire.h"

#define BASE 0x123456789a000000ULL

static struct seen_ids heard;

static uint64_t id_of(uint64_t count)
{
	return BASE | (count & WIRE_ID_COUNT);
}

static void test_unknown(void **state)
{
	assert_false(seen_ids_before(&heard, id_of(5)));
	seen_ids_add(&heard, id_of(5));
	assert_true(seen_ids_before(&heard, id_of(5)));
	assert_false(seen_ids_before(&heard, id_of(4)));
	assert_false(seen_ids_before(&heard, id_of(6)));
	/* another sender counts as it likes */
	assert_false(seen_ids_before(&heard, id_of(5) + WIRE_ID_COUNT + 1));
	seen_ids_fini(&heard);
	assert_false(seen_ids_before(&heard, id_of(5)));
}

/* In any order, from wherever the count begins, with gaps: against a list of all that came */
static void out_of_order(uint64_t first)
{
	enum { COUNT = 3 * SEEN_IDS };
	static bool came[COUNT];
	uint32_t random = 1;

	memset(came, false, sizeof came);
	for (size_t i = 0; i < COUNT; i += 8) {
		/* five of eight, backwards or not */
		for (size_t n = 0; n < 5; n++) {
			size_t at = i + (random & 1 ? n : 7 - n);

			random = random * 1664525 + 1013904223;
			seen_ids_add(&heard, id_of(first + at));
			came[at] = true;
		}
		for (size_t at = 0; at < COUNT; at++) {
			size_t end = i + 8;
			bool old = at + SEEN_IDS + 8 <= end;

			/* what is about to leave the window may be either */
			if (!old && at + SEEN_IDS < end)
				continue;
			assert_int_equal(seen_ids_before(&heard, id_of(first + at)),
					 came[at] || old);
		}
	}
	seen_ids_fini(&heard);
}

static void test_out_of_order(void **state)
{
	out_of_order(1);
	out_of_order(WIRE_ID_COUNT - 100);
}

static void test_leaps(void **state)
{
	seen_ids_add(&heard, id_of(10));
	seen_ids_add(&heard, id_of(10 + SEEN_IDS));
	assert_true(seen_ids_before(&heard, id_of(10)));
	for (uint64_t i = 11; i < 10 + SEEN_IDS; i++)
		assert_false(seen_ids_before(&heard, id_of(i)));
	/* as far as it goes */
	seen_ids_add(&heard, id_of(10 + WIRE_ID_COUNT / 2));
	for (uint64_t i = 11; i < 10 + SEEN_IDS; i++)
		assert_true(seen_ids_before(&heard, id_of(i)));
	/* too old to be told apart: as it was */
	seen_ids_add(&heard, id_of(11));
	assert_true(seen_ids_before(&heard, id_of(11)));
	assert_false(seen_ids_before(&heard, id_of(9 + WIRE_ID_COUNT / 2)));
	seen_ids_fini(&heard);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_out_of_order),
		cmocka_unit_test(test_leaps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
