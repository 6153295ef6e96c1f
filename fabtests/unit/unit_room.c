/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Unit tests of descriptors.c */
#include "unit.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>
#include <rdma/fi_errno.h>

#include "base/room.h"

/* Numbers are looked at in groups: these are more than two, and no whole number of them */
#define LIMIT 201

static struct rlimit before;
static int opened[LIMIT];
static int count;

static int setup(void **state)
{
	struct rlimit now;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	now = (struct rlimit){LIMIT, before.rlim_max};
	count = 0;
	return setrlimit(RLIMIT_NOFILE, &now);
}

static int teardown(void **state)
{
	while (count)
		close(opened[--count]);
	return setrlimit(RLIMIT_NOFILE, &before);
}

static void open_all(void)
{
	int fd;

	while ((fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		opened[count++] = fd;
}

/* There have to be more than ROOM_DESCRIPTORS, wherever they are */
static void expect_at(int first)
{
	for (int i = 0; i <= ROOM_DESCRIPTORS; i++) {
		assert_int_equal(room_spare(1), -FI_EMFILE);
		close(opened[first + i]);
	}
	assert_int_equal(room_spare(1), 0);
	for (int i = 0; i <= ROOM_DESCRIPTORS; i++)
		opened[first + i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_int_equal(room_spare(1), -FI_EMFILE);
}

static void test_counted(void **state)
{
	assert_int_equal(room_spare(1), 0);
	open_all();
	expect_at(0);
	expect_at(count / 2);
	expect_at(count - ROOM_DESCRIPTORS - 1);
}

/* Those above a limit that has been lowered are nobody's to open */
static void test_lowered(void **state)
{
	struct rlimit lower = {100, before.rlim_max};

	open_all();
	while (count && opened[count - 1] >= 100)
		close(opened[--count]);
	assert_int_equal(room_spare(1), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &lower), 0);
	assert_int_equal(room_spare(1), -FI_EMFILE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_counted, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lowered, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
