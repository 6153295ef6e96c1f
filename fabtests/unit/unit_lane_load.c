/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Unit tests of lane_load.c: how many lanes pay. */
#include "unit.h"

#include <sched.h>
#include <unistd.h>

#include "xfer/lane_load.h"

#define MS ((uint64_t) 1000000)

static struct lane_load load;
static uint64_t now, ran, waited;

/* The threads have run, and waited for a processor, for so long since [ms] */
static unsigned int think(uint64_t runs, uint64_t waits)
{
	while (!lane_load_due(&load, now))
		now++;
	ran += runs * MS;
	waited += waits * MS;
	lane_load_think(&load, now, ran, waited);
	return load.use;
}

static int setup(void **state)
{
	load = (struct lane_load){.most = 8, .use = 8};
	now = 1000;
	ran = waited = 0;
	return 0;
}

/* Processors for all: all lanes are used. What waits a little, or is nearly idle, changes nothing. */
static void test_enough(void **state)
{
	assert_int_equal(think(100, 0), 8);
	assert_int_equal(think(100, 20), 8);
	assert_int_equal(think(0, 0), 8);
	assert_false(lane_load_due(&load, now));
}

/* Too few: half of them, down to none; and after a rest two are tried again, and more if that goes well. */
static void test_too_few(void **state)
{
	uint64_t rest;

	assert_int_equal(think(10, 90), 4);
	assert_int_equal(think(60, 40), 4);
	assert_int_equal(think(10, 90), 2);
	assert_int_equal(think(10, 90), 0);
	rest = now;
	assert_int_equal(think(0, 0), 2);
	assert_true(now - rest > 1000);
	assert_int_equal(think(60, 40), 2);
	assert_int_equal(think(100, 1), 4);
	assert_int_equal(think(100, 1), 8);
	assert_int_equal(think(100, 1), 8);
}

/* Two at most are two, or none */
static void test_few(void **state)
{
	load.most = load.use = 2;
	assert_int_equal(think(100, 0), 2);
	assert_int_equal(think(10, 90), 0);
	assert_int_equal(think(0, 0), 2);
}

static void test_start(void **state)
{
	cpu_set_t set, one;
	unsigned int cpus;

	assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
	cpus = (unsigned int) CPU_COUNT(&set);
	assert_int_equal(lane_load_start(8), cpus < 4 ? 1 : cpus < 16 ? cpus / 2 : 8);
	assert_in_range(lane_load_start(2), 1, 2);
	CPU_ZERO(&one);
	for (int i = 0; i < CPU_SETSIZE && !CPU_COUNT(&one); i++) {
		if (CPU_ISSET(i, &set))
			CPU_SET(i, &one);
	}
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_int_equal(lane_load_start(8), 1);
	assert_int_equal(sched_setaffinity(0, sizeof(set), &set), 0);
}

/* The kernel's figures of a thread that runs grow. */
static void test_read(void **state)
{
	uint64_t first = 0, later = 0, waits = 0;
	int fd = lane_load_open();

	lane_load_read(-1, &first, &waits);
	assert_int_equal(first, 0);
	if (fd < 0)
		skip(); /* a kernel that does not count */
	lane_load_read(fd, &first, &waits);
	while (later <= first) {
		later = 0;
		lane_load_read(fd, &later, &waits);
	}
	close(fd);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_enough, setup),
		cmocka_unit_test_setup(test_too_few, setup),
		cmocka_unit_test_setup(test_few, setup),
		cmocka_unit_test(test_start),
		cmocka_unit_test(test_read),
	};
	static const struct unit unit = {.tests = tests, .test_count = UNIT_COUNT(tests)};

	return unit_main(argc, argv, &unit);
}
