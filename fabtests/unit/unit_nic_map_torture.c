/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unit tests of nic_map.c: many random steps, each held against what the made-up NIC says is
 * registered: whether an answer is right can be told from that and from what is in use.
 */
#include "unit_nic_map.h"

#include <stdlib.h>
#include <rdma/fi_errno.h>

#include "base/conf.h"

#define STEPS 50000
#define ALLOCS 24
#define HELD 6

/* Every so many allocations there is one of which the device makes no dma-buf */
#define REFUSED_EVERY 13

static struct dev_mem allocs[ALLOCS];
static struct nic_map_entry *held[HELD];
static unsigned int seed;
static unsigned long now;

/* How often each kind of answer came: else this shows nothing */
static unsigned int hits, added, refused, busy;

static size_t random_below(size_t limit)
{
	return ((size_t) rand_r(&seed) << 16 ^ (size_t) rand_r(&seed)) % limit;
}

/* Another allocation at the address of the last one; some are larger than the map */
static void torture_realloc(size_t i)
{
	size_t size = 1 + random_below(i % 4 ? 24 * PAGE : conf.map_size + conf.map_size / 4);

	allocs[i] = fake_alloc(((uintptr_t) i + 1) << 40 | random_below(3) * 512, size);
}

/* What is to be registered for the bytes from @start to @end */
static size_t torture_need(const struct dev_mem *mem, uintptr_t start, uintptr_t end)
{
	uintptr_t first = mem->base & -PAGE, last = (mem->base + mem->size + PAGE - 1) & -PAGE;

	if (last - first <= conf.map_size / 2)
		return last - first;
	return ((end + PAGE - 1) & -PAGE) - (start & -PAGE);
}

static struct fake_mr *torture_known(uint64_t id, uintptr_t start, uintptr_t end,
				     uint64_t access)
{
	struct fake_mr *mr;

	LIST_FOREACH(mr, &fake.mrs, entry) {
		if (mr->id == id && mr->access == access && mr->start <= start &&
		    mr->start + mr->len >= end)
			return mr;
	}
	return NULL;
}

/* Nothing has been closed that was used later than something which nobody has */
static void torture_check_order(void)
{
	struct fake_mr *mr;

	LIST_FOREACH(mr, &fake.mrs, entry)
		assert_true(mr->users || mr->last > fake.closed_last);
}

static void torture_check_refusal(int ret, const struct dev_mem *mem, size_t need)
{
	size_t bytes = 0, count = 0;
	struct fake_mr *mr;

	LIST_FOREACH(mr, &fake.mrs, entry) {
		bytes += mr->users ? mr->len : 0;
		count += mr->users > 0;
	}
	if (ret == -FI_EOPNOTSUPP) {
		refused++;
		assert_true(mem->id % REFUSED_EVERY == 0 || need > fake.room);
	} else {
		busy++;
		assert_int_equal(ret, -FI_ENOMEM);
		assert_true(count >= conf.map_count || bytes + need > conf.map_size ||
			    bytes + need > fake.room);
	}
}

static void torture_get(void)
{
	const struct dev_mem *mem = &allocs[random_below(ALLOCS)];
	size_t offset = random_below(mem->size), len = 1 + random_below(mem->size - offset);
	uintptr_t start = mem->base + offset;
	uint64_t access = random_below(8) ? ACCESS : FI_SEND;
	struct fake_mr *mr, *known = torture_known(mem->id, start, start + len, access);
	unsigned int asked = fake.asked;
	struct nic_map_entry *entry;
	size_t i = random_below(HELD);
	const char *why = NULL;
	int ret;

	now++;
	fake.expose_id = mem->id % REFUSED_EVERY ? UINT64_MAX : mem->id;
	fake.closed_last = 0;
	ret = nic_map_get(&map, &stats, mem, (void *) start, len, access, &entry, &why);
	assert_int_equal(map.bytes, fake.bytes);
	assert_true(fake.bytes <= conf.map_size && fake.count <= map.count);
	assert_true(map.count <= conf.map_count);
	if (ret) {
		assert_non_null(why);
		assert_null(known);
		torture_check_refusal(ret, mem, torture_need(mem, start, start + len));
		return;
	}
	mr = (struct fake_mr *) entry->mr;
	if (known)
		hits++;
	else
		added++;
	if (known)
		assert_int_equal(fake.asked, asked);
	else
		assert_int_equal(mr->len, torture_need(mem, start, start + len));
	assert_ptr_equal(torture_known(mem->id, mr->start, mr->start + mr->len, access), mr);
	assert_true(mr->start <= start && mr->start + mr->len >= start + len);
	mr->last = now;
	torture_check_order();
	if (held[i]) {
		nic_map_put(entry);
	} else {
		held[i] = entry;
		mr->users++;
	}
}

static void torture_put(size_t i)
{
	if (!held[i])
		return;
	put(held[i]);
	held[i] = NULL;
}

static void torture_trim(void)
{
	struct fake_mr *mr;

	nic_map_trim(&map);
	LIST_FOREACH(mr, &fake.mrs, entry)
		assert_true(mr->users);
}

void test_torture(void **state)
{
	size_t what;

	seed = 20240229;
	fake.expose_error = -FI_EOPNOTSUPP;
	fake.room = conf.map_size - conf.map_size / 8;
	for (size_t i = 0; i < ALLOCS; i++)
		torture_realloc(i);
	for (int step = 0; step < STEPS; step++) {
		what = random_below(1000);
		if (what < 50)
			torture_realloc(random_below(ALLOCS));
		else if (what < 300)
			torture_put(random_below(HELD));
		else if (what < 302)
			torture_trim();
		else
			torture_get();
	}
	for (size_t i = 0; i < HELD; i++)
		torture_put(i);
	assert_int_equal(added, stats.pins);
	assert_int_equal(hits, stats.cache_hits);
	assert_true(hits > 1000 && added > 1000 && refused > 100 && busy > 100);
	assert_true(stats.evictions > 1000);
}
