/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Unit tests of nic_map.c: what is kept in the NIC's hands, and what has to go. */
#include "unit_nic_map.h"

#include <rdma/fi_errno.h>

#include "base/conf.h"

/* Its pieces are registered one by one */
#define LARGE (conf.map_size / 2 + PAGE)

/* ---- what is kept ---- */

static void test_once(void **state)
{
	const struct dev_mem mem = fake_alloc(BASE, 10 * PAGE), other = fake_alloc(2 * BASE, 1);
	struct fake_mr *mr = must_and_put(&mem, 3 * PAGE + 5, 7);

	/* the whole of it, by whichever part it was met first */
	assert_int_equal(mr->start, BASE);
	assert_int_equal(mr->len, 10 * PAGE);
	assert_int_equal(mr->flags, FLAG_DMABUF);
	for (size_t i = 0; i < 10; i++)
		assert_ptr_equal(must_and_put(&mem, i * PAGE, (10 - i) * PAGE), mr);
	assert_ptr_equal(must_and_put(&mem, 10 * PAGE - 1, 1), mr);
	assert_int_equal(stats.pins, 1);
	assert_int_equal(stats.cache_hits, 11);
	assert_ptr_not_equal(must_and_put(&other, 0, 1), mr);
	assert_int_equal(fake.asked, 2);
	assert_int_equal(fake.exposes, 2);
	assert_int_equal(stats.evictions, 0);
	assert_int_equal(map.bytes, fake.bytes);
}

/* Allocations begin and end where they like, dma-bufs at pages */
static void test_pages(void **state)
{
	struct dev_mem mem = fake_alloc(BASE + 512, 512);
	struct fake_mr *mr = must_and_put(&mem, 0, 512);

	assert_int_equal(mr->start, BASE);
	assert_int_equal(mr->len, PAGE);
	mem = fake_alloc(BASE + 17 * PAGE + 1, 2 * PAGE);
	mr = must_and_put(&mem, 2 * PAGE - 1, 1);
	assert_int_equal(mr->start, BASE + 17 * PAGE);
	assert_int_equal(mr->len, 3 * PAGE);
	/* pieces, too */
	mem = fake_alloc(BASE + 1, LARGE);
	mr = must_and_put(&mem, 3 * PAGE, PAGE);
	assert_int_equal(mr->start, BASE + 3 * PAGE);
	assert_int_equal(mr->len, 2 * PAGE);
}

static void test_pieces(void **state)
{
	const struct dev_mem mem = fake_alloc(BASE, LARGE);
	const struct dev_mem half = fake_alloc(2 * BASE, conf.map_size / 2);
	struct fake_mr *first, *second;

	first = must_and_put(&mem, 8 * PAGE, 2 * PAGE);
	assert_int_equal(first->start, BASE + 8 * PAGE);
	assert_int_equal(first->len, 2 * PAGE);
	assert_ptr_equal(must_and_put(&mem, 9 * PAGE + 1, 100), first);
	/* one over the edge is another, and so is what encloses it */
	second = must_and_put(&mem, 10 * PAGE - 1, 2);
	assert_ptr_not_equal(second, first);
	assert_int_equal(second->start, BASE + 9 * PAGE);
	assert_int_equal(second->len, 2 * PAGE);
	assert_int_equal(must_and_put(&mem, 7 * PAGE, 8 * PAGE)->len, 8 * PAGE);
	assert_int_equal(must_and_put(&mem, LARGE - 1, 1)->len, PAGE);
	assert_int_equal(fake.count, 4);
	assert_int_equal(stats.cache_hits, 1);
	/* up to half of what may be there is one piece */
	assert_int_equal(must_and_put(&half, 5, 1)->len, conf.map_size / 2);
}

/* The longest piece that there can be, and what is longer */
static void test_longest(void **state)
{
	const struct dev_mem small = fake_alloc(3 * BASE, PAGE);
	const struct dev_mem all = fake_alloc(BASE, conf.map_size);
	const struct dev_mem more = fake_alloc(2 * BASE, conf.map_size + 1);

	must_and_put(&small, 0, 1);
	/* nothing has to make room for what never fits */
	must_not(&more, 0, more.size, -FI_EOPNOTSUPP, "FI_P2P_MAP_SIZE");
	must_not(&more, PAGE - 1, conf.map_size - PAGE + 2, -FI_EOPNOTSUPP, "FI_P2P_MAP_SIZE");
	assert_int_equal(fake.count, 1);
	assert_int_equal(fake.asked, 1);
	assert_int_equal(must_and_put(&all, 0, conf.map_size)->len, conf.map_size);
	assert_int_equal(fake.count, 1);
	assert_int_equal(stats.evictions, 1);
	assert_int_equal(must_and_put(&more, 0, conf.map_size)->len, conf.map_size);
	assert_int_equal(stats.evictions, 2);
}

/* Freed and allocated again: the same address is other memory */
static void test_reuse(void **state)
{
	struct dev_mem mem = fake_alloc(BASE, 4 * PAGE);
	struct fake_mr *mr = must(&mem, 0, PAGE), *again;
	struct nic_map_entry *old = got_entry;

	for (int i = 0; i < 20; i++) {
		mem = fake_alloc(BASE, (size_t) (4 - i % 4) * PAGE);
		again = must_and_put(&mem, 0, PAGE);
		assert_ptr_not_equal(again, mr);
		assert_int_equal(again->id, mem.id);
		assert_int_equal(again->len, mem.size);
	}
	assert_int_equal(stats.cache_hits, 0);
	/* who has the old one has it still; the newer ones made room for each other */
	assert_int_equal(old->users, 1);
	assert_ptr_equal(old->mr, mr);
	assert_int_equal(fake.count, conf.map_count);
	put(old);
}

static void test_access(void **state)
{
	static const uint64_t accesses[] = {FI_SEND, FI_RECV, FI_SEND | FI_RECV,
					    FI_SEND | FI_REMOTE_READ};
	const struct dev_mem mem = fake_alloc(BASE, PAGE);
	struct fid_mr *mrs[UNIT_COUNT(accesses)];

	for (int again = 0; again < 2; again++) {
		for (size_t i = 0; i < UNIT_COUNT(accesses); i++) {
			assert_int_equal(nic_map_get(&map, &stats, &mem, (void *) BASE, 1,
						     accesses[i], &got_entry, &got_why),
					 0);
			if (!again)
				mrs[i] = got_entry->mr;
			assert_ptr_equal(got_entry->mr, mrs[i]);
			assert_int_equal(((struct fake_mr *) mrs[i])->access, accesses[i]);
			nic_map_put(got_entry);
		}
	}
	assert_int_equal(fake.count, UNIT_COUNT(accesses));
	assert_int_equal(stats.cache_hits, UNIT_COUNT(accesses));
}

/* A buffer that is not all in the allocation */
static void test_outside(void **state)
{
	static const struct {
		size_t offset, len;
	} outside[] = {
		{0, 2 * PAGE + 1}, {2 * PAGE, 1},    {2 * PAGE + 1, 0}, {-PAGE, 1},
		{-1, 2},           {PAGE, SIZE_MAX}, {0, SIZE_MAX},     {2 * PAGE - 1, 2},
	};
	const struct dev_mem mem = fake_alloc(BASE, 2 * PAGE);

	for (int again = 0; again < 2; again++) {
		for (size_t i = 0; i < UNIT_COUNT(outside); i++)
			must_not(&mem, outside[i].offset, outside[i].len, -FI_EOPNOTSUPP,
				 "more than one allocation");
		/* not even when all of that is mapped */
		must_and_put(&mem, 0, 2 * PAGE);
	}
	assert_int_equal(fake.asked, 1);
}

/* ---- what makes room ---- */

static void test_count(void **state)
{
	struct dev_mem mem[9];
	struct nic_map_entry *held[8];

	for (size_t i = 0; i < 9; i++)
		mem[i] = fake_alloc(BASE + i * PAGE, PAGE);
	for (size_t i = 0; i < 8; i++)
		must_and_put(&mem[i], 0, 1);
	/* what was used again is not what was used longest ago */
	must_and_put(&mem[0], 0, 1);
	must_and_put(&mem[8], 0, 1);
	assert_int_equal(stats.evictions, 1);
	must_and_put(&mem[0], 0, 1);
	assert_int_equal(fake.asked, 9);
	must_and_put(&mem[1], 0, 1);
	assert_int_equal(fake.asked, 10);
	assert_int_equal(stats.evictions, 2);

	for (size_t i = 0; i < 8; i++) {
		must(&mem[i], 0, 1);
		held[i] = got_entry;
	}
	for (int again = 0; again < 2; again++)
		must_not(&mem[8], 0, 1, -FI_ENOMEM, "FI_P2P_MAP_COUNT");
	put(held[5]);
	must_and_put(&mem[8], 0, 1);
	must_not(&mem[8], 1, PAGE, -FI_EOPNOTSUPP, "allocation");
	assert_int_equal(fake.count, 8);
	for (size_t i = 0; i < 8; i++) {
		if (i == 5)
			continue;
		put(held[i]);
	}
}

static void test_size(void **state)
{
	const size_t third = conf.map_size / 3 & -PAGE;
	struct dev_mem mem[5];
	struct nic_map_entry *first, *second;

	for (size_t i = 0; i < 5; i++)
		mem[i] = fake_alloc(BASE + i * conf.map_size, third);
	must(&mem[0], 0, 1);
	first = got_entry;
	must_and_put(&mem[1], 0, 1);
	must_and_put(&mem[2], 0, 1);
	must(&mem[3], 0, 1);
	second = got_entry;
	assert_int_equal(stats.evictions, 1);
	assert_int_equal(fake.bytes, 3 * third);
	must_and_put(&mem[0], 0, 1);
	must_and_put(&mem[2], 0, 1);
	assert_int_equal(fake.asked, 4);
	/* one more than fits beside what is in use */
	mem[4] = fake_alloc(BASE, conf.map_size);
	must_not(&mem[4], 0, conf.map_size - 2 * third + 1, -FI_ENOMEM, "FI_P2P_MAP_SIZE");
	must_and_put(&mem[4], 0, conf.map_size - 2 * third);
	assert_int_equal(fake.bytes, conf.map_size);
	put(first);
	put(second);
}

/* What is only remembered as refused takes no bytes, and does not give way for them */
static void test_size_spares_refused(void **state)
{
	const struct dev_mem bad = fake_alloc(BASE, PAGE);
	struct dev_mem mem;

	fake.module = FAKE_MODULE;
	fake.expose_error = -FI_EOPNOTSUPP;
	fake.plain_error = -FI_EINVAL;
	fake.expose_id = bad.id;
	must_not(&bad, 0, 1, -FI_EOPNOTSUPP, "refuses");
	for (int i = 0; i < 5; i++) {
		mem = fake_alloc(2 * BASE, conf.map_size / 2);
		must_and_put(&mem, 0, 1);
	}
	assert_int_equal(stats.evictions, 3);
	must_not(&bad, 0, 1, -FI_EOPNOTSUPP, "refuses");
	assert_int_equal(fake.exposes, 6);
	/* but for the count it does */
	for (int i = 0; i < 8; i++) {
		mem = fake_alloc(2 * BASE, PAGE);
		must_and_put(&mem, 0, 1);
	}
	must_not(&bad, 0, 1, -FI_EOPNOTSUPP, "refuses");
	assert_int_equal(fake.exposes, 15);
	/* nothing was taken back from the NIC when that went */
	assert_int_equal(stats.evictions, stats.pins - fake.count);
}

/* The NIC has less room than FI_P2P_MAP_SIZE */
static void test_room(void **state)
{
	struct dev_mem mem[4];
	struct nic_map_entry *first, *last;

	for (size_t i = 0; i < 4; i++)
		mem[i] = fake_alloc(BASE + i * 4 * PAGE, 4 * PAGE);
	fake.room = 8 * PAGE;
	must_and_put(&mem[0], 0, 1);
	must_and_put(&mem[1], 0, 1);
	must(&mem[2], 0, 1);
	first = got_entry;
	assert_int_equal(fake.asked, 4);
	assert_int_equal(stats.evictions, 1);
	must_and_put(&mem[1], 0, 1);
	assert_int_equal(fake.asked, 4);
	must(&mem[3], 0, 1);
	last = got_entry;
	/* all is in use: not now, but no refusal for ever */
	must_not(&mem[0], 0, 1, -FI_ENOMEM, "no room");
	must_not(&mem[0], 0, 1, -FI_ENOMEM, "no room");
	assert_int_equal(fake.asked, 8);
	put(last);
	must_and_put(&mem[0], 0, 1);
	put(first);
	assert_int_equal(fake.bytes, 8 * PAGE);
}

/* With nothing else in the NIC's hands it is refused for good: others are not sent away
 * for it */
static void test_no_room_at_all(void **state)
{
	const struct dev_mem small = fake_alloc(BASE, PAGE);
	const struct dev_mem first = fake_alloc(3 * BASE, 9 * PAGE);
	const struct dev_mem large = fake_alloc(2 * BASE, 9 * PAGE);

	/* no way is closed by that, nor is there more room by another way */
	fake.module = FAKE_MODULE;
	fake.room = 8 * PAGE;
	must_not(&first, 0, 1, -FI_EOPNOTSUPP, "no room");
	assert_int_equal(fake.asked, 1);
	assert_int_equal(must_and_put(&small, 0, 1)->flags, FLAG_DMABUF);
	must_not(&large, 0, 1, -FI_EOPNOTSUPP, "no room");
	assert_int_equal(fake.asked, 4);
	must_and_put(&small, 0, 1);
	must_not(&large, 0, 1, -FI_EOPNOTSUPP, "no room");
	must_and_put(&small, 0, 1);
	assert_int_equal(fake.asked, 5);
	assert_int_equal(stats.evictions, 1);
	/* only that memory */
	assert_true(nic_map_possible(&map, &large, &got_why));
}

static void test_trim(void **state)
{
	struct dev_mem mem;
	struct nic_map_entry *held = NULL;

	nic_map_trim(&map);
	for (int i = 0; i < 6; i++) {
		mem = fake_alloc(BASE, PAGE);
		must(&mem, 0, 1);
		if (i == 3)
			held = got_entry;
		else
			put(got_entry);
	}
	nic_map_trim(&map);
	assert_int_equal(fake.count, 1);
	assert_ptr_equal(LIST_FIRST(&fake.mrs), held->mr);
	/* given back, not sent away */
	assert_int_equal(stats.evictions, 0);
	put(held);
	nic_map_trim(&map);
	assert_int_equal(fake.count, 0);
	/* it can go on */
	must_and_put(&mem, 0, 1);
}

/* Pieces of one allocation go in any order */
static void test_pieces_go(void **state)
{
	const struct dev_mem mem = fake_alloc(BASE, LARGE);
	struct nic_map_entry *held[6];

	for (int keep = 0; keep < 6; keep++) {
		for (int i = 0; i < 6; i++) {
			must(&mem, (size_t) i * 2 * PAGE, PAGE);
			held[i] = got_entry;
		}
		for (int i = 0; i < 6; i++) {
			if (i != keep)
				put(held[i]);
		}
		nic_map_trim(&map);
		assert_int_equal(fake.count, 1);
		assert_ptr_equal(must(&mem, (size_t) keep * 2 * PAGE, PAGE), held[keep]->mr);
		put(held[keep]);
		put(held[keep]);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fake_begin, fake_end)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(test_once),          TEST(test_pages),
		TEST(test_pieces),        TEST(test_longest),
		TEST(test_reuse),         TEST(test_access),
		TEST(test_outside),       TEST(test_count),
		TEST(test_size),          TEST(test_size_spares_refused),
		TEST(test_room),          TEST(test_no_room_at_all),
		TEST(test_trim),          TEST(test_pieces_go),
		TEST(test_ladder),        TEST(test_possible),
		TEST(test_no_domain),     TEST(test_refused_memory),
		TEST(test_refused_later), TEST(test_devices),
		TEST(test_torture),
	};
	const struct unit unit = {.tests = tests, .test_count = UNIT_COUNT(tests)};

	return unit_main(argc, argv, &unit);
}
