/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Unit tests of heard.c: old ids are known, those that may still come are not taken for old. */
#include "unit.h"

#include "heard.h"
#include "wire.h"

#define BASE 0x123456789a000000ULL

static struct heard heard;

static uint64_t id_of(uint64_t count)
{
	return BASE | (count & WIRE_ID_COUNT);
}

static void test_unknown(void **state)
{
	assert_false(heard_before(&heard, id_of(5)));
	heard_add(&heard, id_of(5));
	assert_true(heard_before(&heard, id_of(5)));
	assert_false(heard_before(&heard, id_of(4)));
	assert_false(heard_before(&heard, id_of(6)));
	/* another sender counts as it likes */
	assert_false(heard_before(&heard, id_of(5) + WIRE_ID_COUNT + 1));
	heard_fini(&heard);
	assert_false(heard_before(&heard, id_of(5)));
}

/* In any order, from wherever the count begins, with gaps: against a list of all that came */
static void out_of_order(uint64_t first)
{
	enum { COUNT = 3 * HEARD_IDS };
	static bool came[COUNT];
	uint32_t random = 1;

	memset(came, false, sizeof came);
	for (size_t i = 0; i < COUNT; i += 8) {
		/* five of eight, backwards or not */
		for (size_t n = 0; n < 5; n++) {
			size_t at = i + (random & 1 ? n : 7 - n);

			random = random * 1664525 + 1013904223;
			heard_add(&heard, id_of(first + at));
			came[at] = true;
		}
		for (size_t at = 0; at < COUNT; at++) {
			size_t end = i + 8;
			bool old = at + HEARD_IDS + 8 <= end;

			/* what is about to leave the window may be either */
			if (!old && at + HEARD_IDS < end)
				continue;
			assert_int_equal(heard_before(&heard, id_of(first + at)),
					 came[at] || old);
		}
	}
	heard_fini(&heard);
}

static void test_out_of_order(void **state)
{
	out_of_order(1);
	out_of_order(WIRE_ID_COUNT - 100);
}

static void test_leaps(void **state)
{
	heard_add(&heard, id_of(10));
	heard_add(&heard, id_of(10 + HEARD_IDS));
	assert_true(heard_before(&heard, id_of(10)));
	for (uint64_t i = 11; i < 10 + HEARD_IDS; i++)
		assert_false(heard_before(&heard, id_of(i)));
	/* as far as it goes */
	heard_add(&heard, id_of(10 + WIRE_ID_COUNT / 2));
	for (uint64_t i = 11; i < 10 + HEARD_IDS; i++)
		assert_true(heard_before(&heard, id_of(i)));
	/* too old to be told apart: as it was */
	heard_add(&heard, id_of(11));
	assert_true(heard_before(&heard, id_of(11)));
	assert_false(heard_before(&heard, id_of(9 + WIRE_ID_COUNT / 2)));
	heard_fini(&heard);
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
