/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Unit tests of retry.c */
#include "unit.h"

#include "base/retry.h"

#define LEAST (RETRY_LEAST / 1000000)
#define MOST (RETRY_MOST / 1000000)

static int setup(void **state)
{
	unit_clock_stop();
	return 0;
}

/* What has never failed may be tried */
static void test_never(void **state)
{
	const struct retry retry = {.delay = 0};

	assert_true(retry_due(&retry));
	unit_clock_pass(1000);
	assert_true(retry_due(&retry));
}

/* The time doubles, as far as RETRY_MOST */
static void test_doubles(void **state)
{
	struct retry retry = {.delay = 0};
	uint64_t delay = LEAST;

	for (int i = 0; i < 100; i++) {
		retry_failed(&retry);
		assert_false(retry_due(&retry));
		unit_clock_pass(delay - 1);
		assert_false(retry_due(&retry));
		unit_clock_pass(1);
		assert_true(retry_due(&retry));
		delay = delay * 2 < MOST ? delay * 2 : MOST;
	}
	assert_int_equal(delay, MOST);
}

/* After a long time without a failure it begins anew, and not after a short one */
static void test_forgets(void **state)
{
	struct retry retry = {.delay = 0};

	for (int i = 0; i < 100; i++) {
		retry_failed(&retry);
		unit_clock_pass(MOST + LEAST);
		retry_failed(&retry);
		unit_clock_pass(LEAST);
		assert_true(retry_due(&retry));
		retry_failed(&retry);
		unit_clock_pass(LEAST);
		assert_false(retry_due(&retry));
		unit_clock_pass(MOST + LEAST);
	}
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_never, setup),
		cmocka_unit_test_setup(test_doubles, setup),
		cmocka_unit_test_setup(test_forgets, setup),
	};
	static const struct unit unit = {.tests = tests, .test_count = UNIT_COUNT(tests)};

	return unit_main(argc, argv, &unit);
}
