/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unit tests of stage.c: slots that are nobody else's and within what may be pinned. The
 * device is the emulated one; the core's domain is made up here.
 */
#include "unit_stage.h"

#include "base/base.h"

#include <stdlib.h>
#include <string.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include "../cudaemu/driver.h"
#include "base/conf.h"
#include "mem/stage.h"
#include "xfer/wire.h"

#define KiB ((size_t) 1 << 10)
#define MiB ((size_t) 1 << 20)

/* ---- a domain that counts what is registered with it ---- */

/**
 * struct fake_domain - a domain.
 * @lends:	memory is registered to be read by peers, not for the core's own use
 * @addr, @len, @key: what was registered last
 */
struct fake_domain {
	struct fid_domain fid;
	struct fi_ops_mr mr_ops;
	unsigned int fail_at;
	unsigned int calls;
	int open;
	bool lends;
	const void *addr;
	size_t len;
	uint64_t key;
};

static int fake_mr_close(struct fid *fid)
{
	((struct fake_domain *) fid->context)->open--;
	free(fid);
	return 0;
}

static int fake_mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access,
		       uint64_t offset, uint64_t key, uint64_t flags, struct fid_mr **mr,
		       void *context)
{
	static struct fi_ops ops = {.size = sizeof ops, .close = fake_mr_close};
	struct fake_domain *domain = (struct fake_domain *) fid;

	assert_int_equal(access, domain->lends ? FI_REMOTE_READ
					       : FI_SEND | FI_RECV | FI_READ | FI_WRITE);
	domain->addr = buf;
	domain->len = len;
	domain->key = key;
	if (++domain->calls == domain->fail_at)
		return -FI_ENOMEM;
	*mr = calloc(1, sizeof **mr);
	assert_non_null(*mr);
	(*mr)->fid.ops = &ops;
	(*mr)->fid.context = domain;
	(*mr)->mem_desc = *mr;
	(*mr)->key = key;
	domain->open++;
	return 0;
}

static void fake_domain_init(struct fake_domain *domain, unsigned int fail_at)
{
	*domain = (struct fake_domain){
		.mr_ops = {.size = sizeof domain->mr_ops, .reg = fake_mr_reg},
		.fail_at = fail_at,
	};
	domain->fid.mr = &domain->mr_ops;
}

/* ---- slots ---- */

static struct dev_mem mem;
static struct conf conf_default;

/* The first is replaced by the defaults */
static struct conf confs[] = {
	{0},
	{4 * KiB, 16 * KiB, 4 * MiB, true},
	{512 * KiB, 512 * KiB, 4 * MiB, true},
	{1 * MiB, 512 * KiB, 8 * MiB, true},
	{16 * KiB, 2 * MiB, 16 * MiB, true},
	{5000, 20001, 8 * MiB, true},
	{4097, 16385, 4 * MiB, true},
	/* the least that is allowed for pieces of an odd size */
	{16 * KiB, 524289, 8 * 524289, true},
	{4 * KiB + 1, 100 * KiB + 1, 4 * MiB + 1, true},
};

static int setup(void **state)
{
	unit_dev_start();
	assert_true(dev_find(unit_dev_alloc(16), &mem));
	conf_default = confs[0] = conf;
	return 0;
}

static bool is_pinned(void *addr)
{
	unsigned int flags;

	return cuMemHostGetFlags(&flags, addr) == CUDA_SUCCESS;
}

static int compare_slots(const void *a, const void *b)
{
	const struct stage_slot *const *x = a, *const *y = b;

	return (*x)->addr < (*y)->addr ? -1 : (*x)->addr > (*y)->addr;
}

/* A slot of just this pool, or NULL when it has no more */
static struct stage_slot *pool_get(struct stage *stage, enum stage_pool_id pool)
{
	static const enum stage_use uses[STAGE_POOLS] = {
		[STAGE_TINY_OUT] = STAGE_WHOLE_OUT,  [STAGE_TINY_IN] = STAGE_WHOLE_IN,
		[STAGE_SHORT_OUT] = STAGE_WHOLE_OUT, [STAGE_SHORT_IN] = STAGE_WHOLE_IN,
		[STAGE_PIECE] = STAGE_PIECE_OUT,     [STAGE_BRIEF] = STAGE_COPY,
	};
	struct stage_slot *slot =
		stage_slot_get(stage, uses[pool], stage->pools[pool].size, NULL);

	if (!slot || slot->pool == pool)
		return slot;
	/* another one stands in for it, of greater slots */
	assert_true(stage->pools[slot->pool].size > stage->pools[pool].size);
	stage_slot_put(stage, slot);
	return NULL;
}

/* Takes all slots of a pool. Returns how many, and the slots in *@slots */
static size_t drain(struct stage *stage, enum stage_pool_id pool, struct stage_slot ***slots)
{
	size_t count = 0, room = stage->pools[pool].count + 1;

	*slots = calloc(room, sizeof **slots);
	assert_non_null(*slots);
	while (((*slots)[count] = pool_get(stage, pool))) {
		assert_true(++count < room);
		assert_int_equal(stage->pools[pool].idle + count, room - 1);
	}
	assert_null(pool_get(stage, pool));
	assert_int_equal(count, room - 1);
	return count;
}

/* There is nothing for any use: memory comes with stage_ready() */
static void check_none(struct stage *stage)
{
	const size_t lens[] = {0, 1, WIRE_PLAIN_MAX, conf.chunk_size};

	for (int use = STAGE_WHOLE_OUT; use <= STAGE_COPY; use++) {
		for (size_t i = 0; i < UNIT_COUNT(lens); i++) {
			assert_false(stage_slot_free(stage, use, lens[i], NULL));
			assert_null(stage_slot_get(stage, use, lens[i], NULL));
		}
	}
}

/* Writes to every slot first, so that who overlaps with another is found after */
static void check_contents(struct stage_slot **slots, size_t count, size_t size)
{
	unsigned char *want = malloc(size);

	assert_non_null(want);
	for (size_t i = 0; i < count; i++)
		unit_fill(slots[i]->addr, size, (unsigned int) i);
	for (size_t i = 0; i < count; i++) {
		unit_fill(want, size, (unsigned int) i);
		assert_memory_equal(slots[i]->addr, want, size);
		assert_true(is_pinned(slots[i]->addr));
		assert_true(is_pinned((char *) slots[i]->addr + size - 1));
	}
	free(want);
}

/* What each pool has to be good for at least */
static const size_t least[STAGE_POOLS] = {
	[STAGE_TINY_OUT] = 8, [STAGE_TINY_IN] = 8, [STAGE_SHORT_OUT] = 1,
	[STAGE_SHORT_IN] = 1, [STAGE_PIECE] = 4,   [STAGE_BRIEF] = 8,
};

static void check_pools(struct stage *stage)
{
	struct stage_slot **slots[STAGE_POOLS + 1];
	size_t counts[STAGE_POOLS], size, total = 0, all = 0;

	for (int pool = 0; pool < STAGE_POOLS; pool++) {
		/* the pools before this one are empty now: that takes nothing from it */
		size = stage->pools[pool].size;
		counts[pool] = drain(stage, pool, &slots[pool]);
		assert_true(counts[pool] >= least[pool]);
		total += counts[pool] * size;
		all += counts[pool];
		check_contents(slots[pool], counts[pool], size);
	}
	/* what may not be announced has to fit */
	assert_true(stage->pools[STAGE_TINY_OUT].size >= WIRE_PLAIN_MAX);
	assert_true(stage->pools[STAGE_TINY_IN].size >= WIRE_PLAIN_MAX);
	assert_int_equal(stage->pools[STAGE_PIECE].size, conf.chunk_size);
	/* what is allowed is used */
	assert_in_range(total, conf.pinned_size / 2, conf.pinned_size);

	slots[STAGE_POOLS] = calloc(all, sizeof *slots[STAGE_POOLS]);
	assert_non_null(slots[STAGE_POOLS]);
	all = 0;
	for (int pool = 0; pool < STAGE_POOLS; pool++) {
		for (size_t i = 0; i < counts[pool]; i++) {
			assert_null(slots[pool][i]->desc);
			slots[STAGE_POOLS][all++] = slots[pool][i];
		}
	}
	qsort(slots[STAGE_POOLS], all, sizeof(void *), compare_slots);
	for (size_t i = 1; i < all; i++) {
		const struct stage_slot *low = slots[STAGE_POOLS][i - 1];

		assert_true((char *) low->addr + stage->pools[low->pool].size <=
			    (char *) slots[STAGE_POOLS][i]->addr);
	}

	for (int pool = 0; pool < STAGE_POOLS; pool++) {
		for (size_t i = 0; i < counts[pool]; i += 2)
			stage_slot_put(stage, slots[pool][i]);
		for (size_t i = 1; i < counts[pool]; i += 2)
			stage_slot_put(stage, slots[pool][i]);
		free(slots[pool]);
		assert_int_equal(drain(stage, pool, &slots[pool]), counts[pool]);
		free(slots[pool]);
	}
	free(slots[STAGE_POOLS]);
}

static void test_slots(void **state)
{
	struct stage stage;
	void *region;

	for (size_t i = 0; i < UNIT_COUNT(confs); i++) {
		conf = confs[i];
		stage_init(&stage, NULL);
		check_none(&stage);
		assert_int_equal(stage_ready(&stage, &mem), 0);
		region = stage.regions[0].addr;
		assert_int_equal(stage_ready(&stage, &mem), 0);
		assert_ptr_equal(stage.regions[0].addr, region);
		check_pools(&stage);
		stage_fini(&stage);
		assert_false(is_pinned(region));
	}
	conf = conf_default;
}

/*
 * Takes what there is for such a use, of the smallest slots first, and adds it to @taken.
 * Returns the last one's pool, @first if there was none.
 */
static enum stage_pool_id take_all(struct stage *stage, enum stage_use use, size_t len,
				   enum stage_pool_id first, struct stage_slots *taken)
{
	enum stage_pool_id last = first;
	struct stage_slot *slot;

	while (stage_slot_free(stage, use, len, NULL)) {
		slot = stage_slot_get(stage, use, len, NULL);
		assert_non_null(slot);
		/* greater ones after smaller ones; but pieces have theirs first */
		assert_true(slot->pool == last ||
			    (first == STAGE_PIECE ? last == first : slot->pool > last));
		assert_true(slot->pool == STAGE_PIECE || slot->pool % 2 == use % 2);
		assert_true(len <= stage->pools[slot->pool].size);
		last = slot->pool;
		LIST_INSERT_HEAD(taken, slot, entry);
	}
	assert_null(stage_slot_get(stage, use, len, NULL));
	return last;
}

static void give_back(struct stage *stage, struct stage_slots *taken)
{
	struct stage_slot *slot;

	while ((slot = LIST_FIRST(taken))) {
		LIST_REMOVE(slot, entry);
		stage_slot_put(stage, slot);
	}
	for (int pool = 0; pool < STAGE_POOLS; pool++)
		assert_int_equal(stage->pools[pool].idle, stage->pools[pool].count);
}

/* All but a part of the slots for pieces is taken: and that part is something */
static void check_left(const struct stage *stage, size_t part)
{
	const struct stage_pool *pool = &stage->pools[STAGE_PIECE];

	if (!pool->idle)
		fail_msg("none of %zu slots of %zu is left", pool->count, pool->size);
	/* one for pieces going out, and one more for those coming in */
	assert_int_equal(pool->idle, P2P_MAX(pool->count / part, part == 3 ? 2 : 1));
}

/*
 * Whole messages take the smallest slots that they fit in, then greater ones, and never
 * all of those for pieces.
 */
static void check_whole(struct stage *stage, bool in, size_t len)
{
	const enum stage_use use = in ? STAGE_WHOLE_IN : STAGE_WHOLE_OUT;
	const enum stage_pool_id first = in ? STAGE_TINY_IN : STAGE_TINY_OUT;
	enum stage_pool_id last;
	struct stage_slots taken = LIST_HEAD_INITIALIZER(taken);
	struct stage_slot *slot;

	last = take_all(stage, use, len, first, &taken);
	if (len <= conf.chunk_size) {
		assert_int_equal(last, STAGE_PIECE);
		check_left(stage, 3);
	}
	assert_true(stage_slot_free(stage, STAGE_PIECE_IN, conf.chunk_size, NULL));
	assert_true(stage_slot_free(stage, STAGE_PIECE_OUT, conf.chunk_size, NULL));
	/* nor what is held during copies */
	assert_int_equal(stage->pools[STAGE_BRIEF].idle, stage->pools[STAGE_BRIEF].count);
	for (int i = STAGE_TINY_OUT; i < STAGE_BRIEF; i++) {
		const struct stage_pool *pool = &stage->pools[i];

		slot = pool_get(stage, i);
		/*
		 * taken to the last, if it is good for that length, and neither for
		 * pieces nor for the other direction
		 */
		if (i == STAGE_PIECE || i % 2 != (int) first % 2)
			assert_non_null(slot);
		else
			assert_int_equal(!slot, len <= pool->size);
		if (slot)
			stage_slot_put(stage, slot);
		if (i != STAGE_PIECE && slot)
			assert_int_equal(pool->idle, pool->count);
	}
	give_back(stage, &taken);
}

static void test_whole_messages(void **state)
{
	struct stage stage;

	for (size_t i = 0; i < UNIT_COUNT(confs); i++) {
		const size_t lens[] = {0,
				       1,
				       WIRE_PLAIN_MAX,
				       WIRE_PLAIN_MAX + 1,
				       16 * KiB,
				       confs[i].chunk_size,
				       confs[i].chunk_size + 1,
				       SIZE_MAX};

		conf = confs[i];
		stage_init(&stage, NULL);
		check_none(&stage);
		assert_int_equal(stage_ready(&stage, &mem), 0);
		for (size_t j = 0; j < 2 * UNIT_COUNT(lens); j++)
			check_whole(&stage, j % 2, lens[j / 2]);
		stage_fini(&stage);
	}
	conf = conf_default;
}

/* Has the use taken all that fit of the slots for messages of some 10 KiB, and none else? */
static void check_short(const struct stage *stage, enum stage_use use, size_t len, bool taken)
{
	const struct stage_pool *pool =
		&stage->pools[use % 2 ? STAGE_SHORT_IN : STAGE_SHORT_OUT];

	assert_int_equal(pool->idle, taken || len <= pool->size ? 0 : pool->count);
}

/*
 * Pieces coming in leave some slots to those going out, which may take any; whole
 * messages leave some to both, whoever comes first. Then pieces that fit take the slots for messages of some
 * 10 KiB, and none that are smaller.
 */
static void check_piece(struct stage *stage, size_t len, bool whole_first)
{
	struct stage_slots taken = LIST_HEAD_INITIALIZER(taken);

	if (whole_first) {
		take_all(stage, STAGE_WHOLE_IN, 0, STAGE_TINY_IN, &taken);
		check_left(stage, 3);
		take_all(stage, STAGE_WHOLE_OUT, 0, STAGE_TINY_OUT, &taken);
		check_left(stage, 3);
	}
	take_all(stage, STAGE_PIECE_IN, len, STAGE_PIECE, &taken);
	check_left(stage, 6);
	check_short(stage, STAGE_PIECE_IN, len, whole_first);
	if (conf.chunk_size > stage->pools[STAGE_SHORT_IN].size)
		assert_false(stage_slot_free(stage, STAGE_WHOLE_IN, conf.chunk_size, NULL));
	take_all(stage, STAGE_PIECE_OUT, len, STAGE_PIECE, &taken);
	assert_int_equal(stage->pools[STAGE_PIECE].idle, 0);
	check_short(stage, STAGE_PIECE_OUT, len, whole_first);
	for (int pool = STAGE_TINY_OUT; pool <= STAGE_TINY_IN; pool++)
		assert_int_equal(stage->pools[pool].idle,
				 whole_first ? 0 : stage->pools[pool].count);
	give_back(stage, &taken);
	take_all(stage, STAGE_PIECE_OUT, len, STAGE_PIECE, &taken);
	assert_int_equal(stage->pools[STAGE_PIECE].idle, 0);
	give_back(stage, &taken);
}

static void test_pieces(void **state)
{
	struct stage stage;

	for (size_t i = 0; i < UNIT_COUNT(confs); i++) {
		const size_t lens[] = {1, WIRE_PLAIN_MAX, confs[i].chunk_size};

		conf = confs[i];
		stage_init(&stage, NULL);
		assert_int_equal(stage_ready(&stage, &mem), 0);
		for (size_t j = 0; j < 2 * UNIT_COUNT(lens); j++)
			check_piece(&stage, lens[j / 2], j % 2);
		for (int use = STAGE_PIECE_OUT; use <= STAGE_PIECE_IN; use++) {
			assert_null(stage_slot_get(&stage, use,
						   P2P_MAX(conf.chunk_size,
							   stage.pools[STAGE_SHORT_IN].size) +
							   1,
						   NULL));
			assert_null(stage_slot_get(&stage, use, SIZE_MAX, NULL));
		}
		stage_fini(&stage);
	}
	conf = conf_default;
}

/* Takes all that a peer may have. Returns how many slots it holds. */
static unsigned int take_share(struct stage *stage, enum stage_use use, unsigned int *held,
			       struct stage_slots *taken)
{
	struct stage_slot *slot;

	while ((slot = stage_slot_get(stage, use, conf.chunk_size, held)))
		LIST_INSERT_HEAD(taken, slot, entry);
	return *held / STAGE_PARTS;
}

/*
 * A peer takes most of the slots, if no other wants them, and leaves some to the others. Who holds none has
 * one as long as there is any.
 */
static void check_share(struct stage *stage, enum stage_use use)
{
	const struct stage_pool *pool = &stage->pools[STAGE_PIECE];
	const size_t left = use == STAGE_PIECE_IN ? P2P_MAX(pool->count / 6, 1) : 0;
	struct stage_slots taken = LIST_HEAD_INITIALIZER(taken);
	unsigned int held[2] = {0}, others[64] = {0}, most;
	struct stage_slot *slot;
	size_t many = 0;

	most = take_share(stage, use, &held[0], &taken);
	if (conf.chunk_size <= stage->pools[STAGE_SHORT_IN].size)
		assert_true(most > (pool->count - left) / 2);
	else
		assert_in_range(most, (pool->count - left) / 2, pool->count - left - 1);
	assert_true(pool->idle > left);
	assert_in_range(take_share(stage, use, &held[1], &taken), 1, most);
	assert_int_equal(held[0], STAGE_PARTS * most);

	for (; stage_slot_free(stage, use, conf.chunk_size, NULL); many++) {
		assert_true(many < UNIT_COUNT(others));
		slot = stage_slot_get(stage, use, conf.chunk_size, &others[many]);
		LIST_INSERT_HEAD(&taken, slot, entry);
	}
	give_back(stage, &taken);
	assert_int_equal(held[0], 0);
	assert_int_equal(held[1], 0);
}

static void test_share(void **state)
{
	struct stage stage;

	for (size_t i = 0; i < UNIT_COUNT(confs); i++) {
		conf = confs[i];
		stage_init(&stage, NULL);
		assert_int_equal(stage_ready(&stage, &mem), 0);
		check_share(&stage, STAGE_PIECE_OUT);
		check_share(&stage, STAGE_PIECE_IN);
		stage_fini(&stage);
	}
	conf = conf_default;
}

/* What is held during a copy has slots of its own, and takes no others */
static void test_brief(void **state)
{
	struct stage stage;
	struct stage_slot **slots;
	size_t count;

	stage_init(&stage, NULL);
	assert_int_equal(stage_ready(&stage, &mem), 0);
	count = drain(&stage, STAGE_BRIEF, &slots);
	/* an atomic operation has operands, compare values, and the memory before and after */
	assert_true(stage.pools[STAGE_BRIEF].size >= 2 * WIRE_PAYLOAD_MAX);
	assert_false(stage_slot_free(&stage, STAGE_COPY, 1, NULL));
	for (int pool = 0; pool < STAGE_BRIEF; pool++)
		assert_int_equal(stage.pools[pool].idle, stage.pools[pool].count);
	while (count--)
		stage_slot_put(&stage, slots[count]);
	assert_true(stage_slot_free(&stage, STAGE_COPY, 1, NULL));
	assert_false(
		stage_slot_free(&stage, STAGE_COPY, stage.pools[STAGE_BRIEF].size + 1, NULL));
	free(slots);
	stage_fini(&stage);
}

/* The user's limit is one for what is pinned, gaps and all */
static void test_bounded(void **state)
{
	struct stage stage;
	int over = 0;

	for (size_t i = 0; i < UNIT_COUNT(confs); i++) {
		conf = confs[i];
		stage_init(&stage, NULL);
		assert_int_equal(stage_ready(&stage, &mem), 0);
		if (stage.regions[0].len > conf.pinned_size) {
			print_error("row %zu: %zu bytes pinned, not %zu\n", i,
				    stage.regions[0].len, conf.pinned_size);
			over++;
		}
		stage_fini(&stage);
	}
	conf = conf_default;
	assert_int_equal(over, 0);
}

static void test_registered(void **state)
{
	struct fake_domain domain;
	struct stage stage;
	struct stage_slot *slot;
	struct stage_reserve *reserve;

	fake_domain_init(&domain, 0);
	stage_init(&stage, &domain.fid);
	assert_int_equal(stage_ready(&stage, &mem), 0);
	assert_int_equal(domain.open, 1);
	for (int pool = 0; pool < STAGE_POOLS; pool++) {
		slot = pool_get(&stage, pool);
		assert_non_null(slot);
		assert_non_null(slot->desc);
		assert_ptr_equal(slot->desc, fi_mr_desc(stage.mr));
	}
	reserve = stage_reserve_get(&stage, 100 * KiB);
	assert_non_null(reserve);
	assert_ptr_equal(reserve->desc, fi_mr_desc(reserve->mr));
	assert_int_equal(domain.open, 2);
	/* registered memory keeps its pages: they are the ones that the NIC writes to */
	memset(reserve->addr, 0x5a, reserve->size);
	stage_reserve_put(&stage, reserve, reserve->size);
	assert_ptr_equal(stage_reserve_get(&stage, 100 * KiB), reserve);
	assert_int_equal(((char *) reserve->addr)[reserve->size - 1], 0x5a);
	stage_reserve_put(&stage, reserve, 0);
	stage_fini(&stage);
	assert_int_equal(domain.open, 0);
}

/*
 * A key leads to the bytes of one message, and to nothing when its slot is given back. Nobody
 * can tell the next one by it.
 */
static void test_lent(void **state)
{
	enum { LENT = 200 };
	struct fake_domain domain;
	struct stage_slot *slots[2];
	uint64_t keys[LENT];
	struct stage stage;

	fake_domain_init(&domain, 0);
	domain.lends = true;
	stage_init(&stage, NULL);
	stage.lender = &domain.fid;
	assert_int_equal(stage_ready(&stage, &mem), 0);
	/* before anything is lent, peers read nothing */
	assert_int_equal(domain.calls, 0);
	for (size_t i = 0; i < LENT; i++) {
		slots[0] = stage_slot_get(&stage, STAGE_WHOLE_OUT, 20000, NULL);
		slots[1] = stage_slot_get(&stage, STAGE_WHOLE_OUT, 20000, NULL);
		assert_int_equal(stage_slot_lend(&stage, slots[i % 2], 16385 + i), 0);
		assert_int_equal(domain.open, 1);
		assert_ptr_equal(domain.addr, slots[i % 2]->addr);
		assert_int_equal(domain.len, 16385 + i);
		keys[i] = fi_mr_key(slots[i % 2]->lent);
		assert_int_equal(keys[i], domain.key);
		for (size_t j = 0; j < i; j++)
			assert_int_not_equal(keys[j], keys[i]);
		if (i > 1)
			assert_int_not_equal(keys[i] - keys[i - 1], keys[1] - keys[0]);
		stage_slot_put(&stage, slots[0]);
		stage_slot_put(&stage, slots[1]);
		assert_int_equal(domain.open, 0);
	}
	stage_fini(&stage);
}

/* Where the core refuses, nothing more is lent for a while, and the slot is like any other. */
static void test_lend_fails(void **state)
{
	struct fake_domain domain;
	struct stage_slot *slots[2];
	struct stage stage;

	fake_domain_init(&domain, 2);
	domain.lends = true;
	stage_init(&stage, NULL);
	stage.lender = &domain.fid;
	assert_int_equal(stage_ready(&stage, &mem), 0);
	unit_clock_stop();
	for (size_t i = 0; i < 2; i++) {
		slots[i] = stage_slot_get(&stage, STAGE_WHOLE_OUT, 20000, NULL);
		assert_true(stage_lends(&stage, 20000));
		assert_int_equal(stage_slot_lend(&stage, slots[i], 20000), i ? -FI_ENOMEM : 0);
	}
	assert_false(stage_lends(&stage, 20000));
	assert_int_equal(domain.open, 1);
	unit_clock_pass(RETRY_LEAST / 1000000);
	assert_true(stage_lends(&stage, 20000));
	unit_clock_run();
	stage_slot_put(&stage, slots[1]);
	assert_int_equal(domain.open, 1);
	stage_slot_put(&stage, slots[0]);
	assert_int_equal(domain.open, 0);
	stage_fini(&stage);
}

/* ---- what cannot be had ---- */

/* So much may be pinned at once [bytes] */
static size_t pin_limit;

static int limited_pin(const struct dev_mem *dev, void *addr, size_t len)
{
	return len > pin_limit ? -FI_ENOMEM : mem.ops->pin(dev, addr, len);
}

/* All of @size bytes but what is lost by rounding, in slots of every kind */
static void check_some(struct stage *stage, size_t size, bool pinned)
{
	assert_in_range(stage->regions[0].len, size / 2, size);
	for (int use = STAGE_WHOLE_OUT; use <= STAGE_COPY; use++) {
		struct stage_slot *slot = stage_slot_get(stage, use, 1, NULL);

		assert_non_null(slot);
		unit_fill(slot->addr, stage_slot_size(stage, slot), 1);
		assert_int_equal(stage_pinned(stage, slot->addr), pinned);
		assert_int_equal(is_pinned(slot->addr), pinned);
		stage_slot_put(stage, slot);
	}
	assert_int_equal(stage->pools[STAGE_PIECE].size, conf.chunk_size);
}

/* As much is pinned as can be. Where nothing can, there is memory all the same, and it is pinned when that has passed. */
static void test_pin_limit(void **state)
{
	static const struct {
		size_t limit, size;
	} rows[] = {{SIZE_MAX, 32}, {20 << 20, 16}, {10 << 20, 8}, {1 << 20, 0}};
	struct dev_ops ops = *mem.ops;
	struct dev_mem limited = mem;
	struct stage stage;

	ops.pin = limited_pin;
	limited.ops = &ops;
	unit_clock_stop();
	for (size_t i = 0; i < UNIT_COUNT(rows); i++) {
		pin_limit = rows[i].limit;
		stage_init(&stage, NULL);
		assert_int_equal(stage_ready(&stage, &limited), 0);
		check_some(&stage, (rows[i].size ? rows[i].size : 8) << 20, rows[i].size);
		pin_limit = SIZE_MAX;
		assert_int_equal(stage_ready(&stage, &limited), 0);
		check_some(&stage, (rows[i].size ? rows[i].size : 8) << 20, rows[i].size);
		unit_clock_pass(RETRY_LEAST / 1000000);
		assert_int_equal(stage_ready(&stage, &limited), 0);
		check_some(&stage, (rows[i].size ? rows[i].size : 8) << 20, true);
		stage_fini(&stage);
	}
	unit_clock_run();
}

/* The core has room for less, or the system */
static void test_register_fails(void **state)
{
	struct fake_domain domain;
	struct stage stage;

	fake_domain_init(&domain, 1);
	stage_init(&stage, &domain.fid);
	assert_int_equal(stage_ready(&stage, &mem), 0);
	check_some(&stage, 16 << 20, true);
	stage_fini(&stage);
	assert_int_equal(domain.open, 0);
}

/* The pages come from the device's node: 0 is the one that every machine has */
static int node_asked;

static int fake_node(const struct dev_mem *dev)
{
	return node_asked;
}

static void test_node(void **state)
{
	struct dev_ops ops = *mem.ops;
	struct dev_mem at_node = mem;
	unsigned long nodes[16];
	struct stage stage;
	int policy;

	ops.node = fake_node;
	at_node.ops = &ops;
	for (node_asked = -1; node_asked <= 0; node_asked++) {
		stage_init(&stage, NULL);
		assert_int_equal(stage_ready(&stage, &at_node), 0);
		memset(nodes, 0, sizeof(nodes));
		if (syscall(SYS_get_mempolicy, &policy, nodes, 8 * sizeof(nodes),
			    stage.regions[0].addr, MPOL_F_ADDR)) {
			stage_fini(&stage);
			skip(); /* a kernel without nodes, or one that does not tell */
		}
		assert_int_equal(policy, node_asked < 0 ? MPOL_DEFAULT : MPOL_PREFERRED);
		assert_int_equal(nodes[0], node_asked < 0 ? 0 : 1);
		stage_fini(&stage);
	}
	/* more than there are: then any will do */
	node_asked = 1000;
	stage_init(&stage, NULL);
	assert_int_equal(stage_ready(&stage, &at_node), 0);
	stage_fini(&stage);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_slots),          cmocka_unit_test(test_whole_messages),
		cmocka_unit_test(test_pieces),         cmocka_unit_test(test_bounded),
		cmocka_unit_test(test_brief),          cmocka_unit_test(test_registered),
		cmocka_unit_test(test_register_fails), cmocka_unit_test(test_pin_limit),
		cmocka_unit_test(test_node),           cmocka_unit_test(test_lent),
		cmocka_unit_test(test_lend_fails),     cmocka_unit_test(test_share),
	};
	const struct unit unit = {
		.tests = tests,
		.test_count = UNIT_COUNT(tests),
		.setup = setup,
	};
	const struct unit reserves = {
		.tests = unit_stage_reserve_tests,
		.test_count = unit_stage_reserve_count,
	};

	const struct unit parts = {
		.tests = unit_stage_parts_tests,
		.test_count = unit_stage_parts_count,
	};

	if (argc == 1 && (unit_main(argc, argv, &reserves) || unit_main(argc, argv, &parts)))
		return 1;
	return unit_main(argc, argv, &unit);
}
