/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unit tests of region.c: what a key leads to, and that regions of the core's may share one.
 */
#include "unit.h"

#include <rdma/fi_errno.h>

#include "xfer/region.h"

static char memory[100];

static struct region region_of(uint64_t key, size_t first, size_t len, uint64_t access)
{
	return (struct region){
		.key = key,
		.access = access,
		.base = (uintptr_t) memory + first,
		.iov = {{memory + first, len}},
		.count = 1,
		.len = len,
	};
}

static struct xfer xfer;

/* Is @len bytes at memory[@at] reached in @expected? NULL: @error is the answer */
static void reach(uint64_t key, size_t at, size_t len, uint64_t access,
		  const struct region *expected, int error)
{
	struct iovec iov[P2P_IOV_MAX];
	struct region *found = NULL;
	size_t count = 0;
	struct dev_mem mem;

	assert_int_equal(region_reach(&xfer, key, (uintptr_t) memory + at, len, access, &found,
				      iov, &count, &mem),
			 error);
	assert_ptr_equal(found, expected);
	if (!expected)
		return;
	assert_int_equal(count, 1);
	assert_ptr_equal(iov[0].iov_base, memory + at);
	assert_int_equal(iov[0].iov_len, len);
}

static void test_alone(void **state)
{
	struct region region = region_of(7, 10, 20, FI_REMOTE_READ);
	struct region other = region_of(7, 10, 20, FI_REMOTE_READ);

	assert_int_equal(region_add(&xfer, &region, false), 0);
	assert_int_equal(region_add(&xfer, &other, false), -FI_ENOKEY);
	reach(7, 10, 20, FI_REMOTE_READ, &region, 0);
	reach(7, 29, 1, FI_REMOTE_READ, &region, 0);
	reach(7, 9, 2, FI_REMOTE_READ, NULL, -FI_EACCES);
	reach(7, 29, 2, FI_REMOTE_READ, NULL, -FI_EACCES);
	reach(7, 10, 20, FI_REMOTE_WRITE, NULL, -FI_EACCES);
	reach(8, 10, 20, FI_REMOTE_READ, NULL, -FI_EKEYREJECTED);
	region_hold(&region);
	assert_int_equal(region_remove(&xfer, &region), -FI_EBUSY);
	region_release(&region);
	assert_int_equal(region_remove(&xfer, &region), 0);
	reach(7, 10, 20, FI_REMOTE_READ, NULL, -FI_EKEYREJECTED);
}

/* Whichever of them goes first, the others stay. */
static void test_shared(void **state)
{
	static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
					{1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

	for (size_t i = 0; i < UNIT_COUNT(orders); i++) {
		struct region regions[] = {
			region_of(9, 0, 20, FI_REMOTE_READ),
			region_of(9, 40, 20, FI_REMOTE_READ),
			region_of(9, 40, 60, FI_REMOTE_WRITE),
		};
		bool there[] = {true, true, true};

		for (size_t n = 0; n < UNIT_COUNT(regions); n++)
			assert_int_equal(region_add(&xfer, &regions[n], true), 0);
		for (size_t n = 0; n < UNIT_COUNT(regions); n++) {
			const int left =
				n + 1 < UNIT_COUNT(regions) ? -FI_EACCES : -FI_EKEYREJECTED;
			const int gone = orders[i][n];

			reach(9, 20, 1, FI_REMOTE_READ, NULL, -FI_EACCES);
			assert_int_equal(region_remove(&xfer, &regions[gone]), 0);
			there[gone] = false;
			reach(9, 5, 10, FI_REMOTE_READ, there[0] ? &regions[0] : NULL,
			      there[0] ? 0 : left);
			reach(9, 50, 10, FI_REMOTE_READ, there[1] ? &regions[1] : NULL,
			      there[1] ? 0 : left);
			reach(9, 50, 50, FI_REMOTE_WRITE, there[2] ? &regions[2] : NULL,
			      there[2] ? 0 : left);
		}
		assert_null(xfer.regions);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_alone),
		cmocka_unit_test(test_shared),
	};
	const struct unit unit = {.tests = tests, .test_count = UNIT_COUNT(tests)};

	/* every function of region.c wants it */
	p2p_lock_init(&xfer.lock, false);
	p2p_lock_take(&xfer.lock);
	return unit_main(argc, argv, &unit);
}
