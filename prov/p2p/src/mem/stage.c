/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Pinned slots and lazily backed buffers. See stage.h. */
#include "mem/stage.h"

#include <stdlib.h>
#include <string.h>
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include "base/base.h"
#include "base/conf.h"
#include "base/log.h"
#include "base/trace.h"
#include "base/random.h"
#include "base/room.h"

/*
 * Reserves kept for re-use, and how much of each stays backed by memory whatever the others
 * have; beyond that, so much of all of them: to get pages again takes longer than to copy them
 */
#define STAGE_KEPT_MAX 64
#define STAGE_KEPT_BACKED ((size_t) 64 << 10)
#define STAGE_BACKED_MAX ((size_t) 32 << 20)
#define STAGE_HUGE ((size_t) 2 << 20)
#define STAGE_RESERVE_MIN ((size_t) 64 << 10)

/* How the memory that may be pinned is shared out, in parts of STAGE_SHARES */
#define STAGE_SHARES 64

static const size_t stage_tiny_size = 4096, stage_short_size = 65536, stage_brief_size = 8192;

static const struct {
	const size_t *size;
	size_t share;
} stage_shares[STAGE_POOLS] = {
	[STAGE_TINY_OUT] = {&stage_tiny_size, 2},    [STAGE_TINY_IN] = {&stage_tiny_size, 2},
	[STAGE_SHORT_OUT] = {&stage_short_size, 10}, [STAGE_SHORT_IN] = {&stage_short_size, 9},
	[STAGE_PIECE] = {&conf.chunk_size, 40},      [STAGE_BRIEF] = {&stage_brief_size, 1},
};

/* Who gets none may try again, thousands of times: the first time is said */
static void *stage_map(struct stage *stage, size_t len)
{
	void *addr = mmap(NULL, len, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	const bool poor = addr == MAP_FAILED;

	if (poor && !stage->poor)
		P2P_WARN("no %zu bytes of host memory for staging\n", len);
	stage->poor = poor;
	return poor ? NULL : addr;
}

/*
 * The same at a multiple of STAGE_HUGE, in huge pages if the system has them: the slots are copied through in turn, and with
 * small pages every copy begins with the address translations of the last one gone.
 */
static void *stage_map_huge(struct stage *stage, size_t len)
{
	char *addr = stage_map(stage, len + STAGE_HUGE), *start;

	if (!addr)
		return NULL;
	start = (char *) P2P_ALIGN_UP((uintptr_t) addr, STAGE_HUGE);
	if (start != addr)
		munmap(addr, start - addr);
	munmap(start + len, addr + STAGE_HUGE - start);
	madvise(start, len, MADV_HUGEPAGE);
	return start;
}

/* Has its pages come from a node, if there are any there; before they are touched */
static void stage_place(void *addr, size_t len, int node)
{
	unsigned long nodes[16] = {0}, bits = 8 * sizeof nodes[0];

	if (node < 0 || (unsigned long) node >= bits * (sizeof nodes / sizeof nodes[0]))
		return;
	nodes[node / bits] = 1UL << node % bits;
	if (syscall(SYS_mbind, addr, len, MPOL_PREFERRED, nodes, 8 * sizeof nodes, 0))
		P2P_INFO("staging memory cannot be put on node %d, where the device is\n",
			 node);
}

/* From one slot to the next */
static size_t stage_stride(const struct stage_pool *pool)
{
	return P2P_ALIGN_UP(pool->size, 64);
}

/* Registers with the core provider, where that wants its local buffers registered. */
static int stage_register(struct stage *stage, void *addr, size_t len, struct fid_mr **mr)
{
	static uint64_t key = 1ULL << 60;
	int ret;

	*mr = NULL;
	if (!stage->domain)
		return 0;
	ret = fi_mr_reg(stage->domain, addr, len, FI_SEND | FI_RECV | FI_READ | FI_WRITE, 0,
			__atomic_fetch_add(&key, 1, __ATOMIC_RELAXED), 0, mr, NULL);
	if (ret)
		P2P_WARN("fi_mr_reg of %zu bytes for staging: %s\n", len, fi_strerror(-ret));
	return ret;
}

/* How many slots each pool has of @size bytes for all */
static void stage_share_out(struct stage *stage, size_t size)
{
	for (int i = 0; i < STAGE_POOLS; i++) {
		struct stage_pool *pool = &stage->pools[i];

		pool->size = *stage_shares[i].size;
		pool->count = size / STAGE_SHARES * stage_shares[i].share / stage_stride(pool);
	}
}

void stage_init(struct stage *stage, struct fid_domain *domain)
{
	*stage = (struct stage){.domain = domain};
	for (int i = 0; i < STAGE_POOLS; i++)
		LIST_INIT(&stage->pools[i].free);
	for (int i = 0; i < STAGE_USES; i++)
		LIST_INIT(&stage->split[i]);
	LIST_INIT(&stage->kept);
	stage_share_out(stage, conf.pinned_size);
}

static void stage_region_free(struct stage *stage, struct stage_region *region)
{
	for (int i = 0; i < STAGE_POOLS; i++)
		free(region->slots[i]);
	if (region->pinned)
		stage->pinned_by->unpin(region->addr);
	if (region->addr)
		munmap(region->addr, region->len);
	*region = (struct stage_region){.addr = NULL};
}

static void stage_regions_free(struct stage *stage)
{
	for (int i = 0; i < STAGE_POOLS; i++) {
		LIST_INIT(&stage->pools[i].free);
		stage->pools[i].idle = 0;
	}
	if (stage->mr)
		fi_close(&stage->mr->fid);
	stage->mr = NULL;
	for (int i = 0; i < STAGE_REGIONS; i++)
		stage_region_free(stage, &stage->regions[i]);
	stage->pinned_by = NULL;
}

static void stage_reserve_free(struct stage_reserve *reserve)
{
	if (reserve->mr)
		fi_close(&reserve->mr->fid);
	munmap(reserve->addr, reserve->size);
	free(reserve);
}

void stage_fini(struct stage *stage)
{
	struct stage_reserve *reserve;

	while ((reserve = LIST_FIRST(&stage->kept))) {
		LIST_REMOVE(reserve, entry);
		stage_reserve_free(reserve);
	}
	if (stage->sink)
		stage_reserve_free(stage->sink);
	stage->sink = NULL;
	stage_regions_free(stage);
}

/* Returns the length of a part of a slot of @pool, in whole cache lines */
static size_t stage_part_size(const struct stage_pool *pool)
{
	return pool->size / STAGE_PARTS & ~(size_t) 63;
}

/* A slot's parts, which are as many slots behind all whole ones */
static void stage_slot_divide(struct stage_slot *slot, struct stage_slot *parts, size_t size)
{
	slot->parts = parts;
	for (int i = 0; i < STAGE_PARTS; i++) {
		parts[i].addr = (char *) slot->addr + i * size;
		parts[i].desc = slot->desc;
		parts[i].pool = slot->pool;
		parts[i].whole = slot;
	}
}

/* Adds @count slots, from @addr on, to a pool */
static int stage_pool_fill(struct stage *stage, struct stage_region *region,
			   enum stage_pool_id id, char *addr, size_t count)
{
	struct stage_pool *pool = &stage->pools[id];
	const size_t parts = id == STAGE_PIECE ? STAGE_PARTS : 0;
	struct stage_slot *slots = calloc(count * (1 + parts), sizeof *slots);

	region->slots[id] = slots;
	if (!slots)
		return -FI_ENOMEM;
	for (size_t i = count; i--;) {
		slots[i].addr = addr + i * stage_stride(pool);
		slots[i].desc = stage->mr ? fi_mr_desc(stage->mr) : NULL;
		slots[i].pool = id;
		if (parts)
			stage_slot_divide(&slots[i], slots + count + i * parts,
					  stage_part_size(pool));
		LIST_INSERT_HEAD(&pool->free, &slots[i], entry);
	}
	pool->idle += count;
	return 0;
}

/* In one context for all; but when that is gone, memory is not pinned any more */
static int stage_region_pin(struct stage *stage, struct stage_region *region,
			    const struct dev_mem *mem)
{
	int ret = mem->ops->pin(mem, region->addr, region->len);

	P2P_TRACE(stage_pin, region->addr, region->len, ret);
	if (ret)
		return ret;
	region->pinned = true;
	stage->pinned_by = mem->ops;
	stage->pinned_in = mem->ctx;
	return 0;
}

/*
 * Memory that is not pinned, or not any more, may be some other time. Until then copies go by way of the driver's
 * own pinned memory, and keep the caller waiting.
 */
static void stage_pin_again(struct stage *stage, const struct dev_mem *mem)
{
	int ret = 0;

	for (int i = 0; i < STAGE_REGIONS; i++)
		stage->regions[i].pinned = false;
	stage->pinned_by = NULL;
	stage->pinned_in = NULL;
	if (!retry_due(&stage->pin))
		return;
	for (int i = 0; !ret && i < STAGE_REGIONS; i++) {
		if (stage->regions[i].addr)
			ret = stage_region_pin(stage, &stage->regions[i], mem);
	}
	if (ret)
		retry_failed(&stage->pin);
}

/* Memory near the device, not pinned yet */
static int stage_region_map(struct stage *stage, struct stage_region *region,
			    const struct dev_mem *mem, size_t len)
{
	region->addr = stage_map_huge(stage, len);
	if (!region->addr)
		return -FI_ENOMEM;
	region->len = len;
	stage_place(region->addr, len, mem->ops->node(mem));
	return 0;
}

/* All pools, in memory of @size bytes; @pins: which has to be pinned. Nothing is left of what fails. */
static int stage_open(struct stage *stage, const struct dev_mem *mem, size_t size, bool pins)
{
	struct stage_region *region = &stage->regions[0];
	size_t offsets[STAGE_POOLS], len = 0;
	int ret;

	stage_share_out(stage, size);
	for (int i = 0; i < STAGE_POOLS; i++) {
		offsets[i] = len;
		len += stage->pools[i].count * stage_stride(&stage->pools[i]);
	}
	len = P2P_ALIGN_UP(len, 4096);
	ret = stage_region_map(stage, region, mem, len);
	if (!ret && pins)
		ret = stage_region_pin(stage, region, mem);
	if (!ret)
		ret = stage_register(stage, region->addr, len, &stage->mr);
	for (int i = 0; !ret && i < STAGE_POOLS; i++)
		ret = stage_pool_fill(stage, region, i, (char *) region->addr + offsets[i],
				      stage->pools[i].count);
	if (ret)
		stage_regions_free(stage);
	return ret;
}

/* Every pool has a few slots of that (conf_read()) */
static size_t stage_least(void)
{
	return P2P_MIN(conf.pinned_size, 8 * conf.chunk_size);
}

/* As much as can be pinned; if nothing can, as little as it takes. Messages arrive all the same, more slowly. */
static int stage_open_some(struct stage *stage, const struct dev_mem *mem)
{
	const bool roomy = room_for(conf.pinned_size);
	size_t size = roomy ? conf.pinned_size : stage_least();
	int ret = stage_open(stage, mem, size, true);

	if (!ret && roomy)
		return 0;
	while (ret && size > stage_least()) {
		size = P2P_MAX(size / 2, stage_least());
		ret = stage_open(stage, mem, size, true);
	}
	if (!ret) {
		P2P_WARN("only %zu bytes for staging can be pinned, not %zu "
			 "(FI_P2P_PINNED_SIZE): see ulimit -l and ulimit -v\n",
			 size, conf.pinned_size);
		return 0;
	}
	ret = stage_open(stage, mem, size, false);
	if (ret)
		return ret;
	retry_failed(&stage->pin);
	P2P_WARN("no memory for staging can be pinned: device memory is copied by way of %zu "
		 "bytes that are not, and calls wait for the copies\n",
		 size);
	return 0;
}

int stage_ready(struct stage *stage, const struct dev_mem *mem)
{
	int ret;

	if (p2p_likely(stage->regions[0].addr != NULL)) {
		/* the context that has it pinned may be gone */
		if (p2p_unlikely(
			    stage->pinned_in != mem->ctx &&
			    (!stage->pinned_by || stage->pinned_by->gone(stage->pinned_in))))
			stage_pin_again(stage, mem);
		return 0;
	}
	ret = stage_open_some(stage, mem);
	if (ret)
		return ret;
	P2P_INFO("%zu bytes for staging: %zu slots of %zu, and each way %zu of "
		 "%zu and %zu of %zu\n",
		 stage->regions[0].len, stage->pools[STAGE_PIECE].count,
		 stage->pools[STAGE_PIECE].size, stage->pools[STAGE_SHORT_OUT].count,
		 stage->pools[STAGE_SHORT_OUT].size, stage->pools[STAGE_TINY_OUT].count,
		 stage->pools[STAGE_TINY_OUT].size);
	return 0;
}

bool stage_grow(struct stage *stage, const struct dev_mem *mem, size_t len)
{
	struct stage_pool *pool = &stage->pools[STAGE_PIECE];
	struct stage_region *region = &stage->regions[1];
	const size_t count = len / stage_stride(pool);

	/* what the core has registered is one piece */
	if (region->addr || stage->domain || !count || !retry_due(&stage->grow))
		return false;
	if (stage_region_map(stage, region, mem, count * stage_stride(pool)) ||
	    stage_region_pin(stage, region, mem) ||
	    stage_pool_fill(stage, region, STAGE_PIECE, region->addr, count)) {
		if (!stage->grow.delay)
			P2P_WARN("no %zu bytes more for staging: long messages are slower\n",
				 len);
		stage_region_free(stage, region);
		retry_failed(&stage->grow);
		return false;
	}
	pool->count += count;
	P2P_INFO("pinned %zu bytes more for staging\n", region->len);
	return true;
}

#define STAGE_CHOICES 3

/* Pools for each use, the first choice first; of the slots for pieces, so many in 6 are left to others */
static const struct {
	enum stage_pool_id pools[STAGE_CHOICES];
	size_t leaves;
} stage_uses[] = {
	[STAGE_WHOLE_OUT] = {{STAGE_TINY_OUT, STAGE_SHORT_OUT, STAGE_PIECE}, 2},
	[STAGE_WHOLE_IN] = {{STAGE_TINY_IN, STAGE_SHORT_IN, STAGE_PIECE}, 2},
	[STAGE_PIECE_OUT] = {{STAGE_PIECE, STAGE_SHORT_OUT, STAGE_POOLS}, 0},
	[STAGE_PIECE_IN] = {{STAGE_PIECE, STAGE_SHORT_IN, STAGE_POOLS}, 1},
	[STAGE_COPY] = {{STAGE_BRIEF, STAGE_POOLS, STAGE_POOLS}, 0},
};

/* Returns what a peer that holds *@held parts leaves to others in every pool [slots]; NULL: nothing */
static size_t stage_others(const unsigned int *held)
{
	const size_t part = STAGE_PART * STAGE_PARTS;

	return held ? (*held + part - 1) / part : 0;
}

/* Chooses the pool to take a slot from, for a caller that leaves @others; STAGE_POOLS: none has one for this use */
static enum stage_pool_id stage_pool_choose(const struct stage *stage, enum stage_use use,
					    size_t len, size_t others)
{
	const size_t leaves = stage_uses[use].leaves;
	const enum stage_pool_id *id = stage_uses[use].pools;
	const struct stage_pool *pool;
	size_t left;

	for (; id < stage_uses[use].pools + STAGE_CHOICES && *id != STAGE_POOLS; id++) {
		pool = &stage->pools[*id];
		left = *id == STAGE_PIECE ? P2P_MAX(pool->count * leaves / 6, leaves) : 0;
		if (len <= pool->size && pool->idle > left + others)
			return *id;
	}
	return STAGE_POOLS;
}

/* Tells whether a part of a slot is enough. */
static bool stage_part_fits(const struct stage *stage, enum stage_use use, size_t len)
{
	return (use == STAGE_PIECE_OUT || use == STAGE_PIECE_IN) &&
	       len <= stage_part_size(&stage->pools[STAGE_PIECE]);
}

/* Tells whether a split slot has such a part, and as many slots as @others are left. */
static bool stage_part_free(const struct stage *stage, enum stage_use use, size_t len,
			    size_t others)
{
	return stage_part_fits(stage, use, len) && !LIST_EMPTY(&stage->split[use]) &&
	       stage->pools[STAGE_PIECE].idle >= others;
}

bool stage_slot_free(const struct stage *stage, enum stage_use use, size_t len,
		     const unsigned int *held)
{
	const size_t others = stage_others(held);

	return stage_part_free(stage, use, len, others) ||
	       stage_pool_choose(stage, use, len, others) != STAGE_POOLS;
}

/* Takes a part of a split slot that has some to be had */
static struct stage_slot *stage_part_take(struct stage_slot *whole)
{
	struct stage_slot *part = &whole->parts[__builtin_ctz(whole->idle)];

	whole->idle &= whole->idle - 1;
	if (!whole->idle)
		LIST_REMOVE(whole, entry);
	return part;
}

/* Gives a part back. Returns its slot if that is whole again, or NULL */
static struct stage_slot *stage_part_put(struct stage *stage, struct stage_slot *part)
{
	struct stage_slot *whole = part->whole;

	if (!whole->idle)
		LIST_INSERT_HEAD(&stage->split[whole->use], whole, entry);
	whole->idle |= 1u << (part - whole->parts);
	if (whole->idle + 1 != 1u << STAGE_PARTS)
		return NULL;
	LIST_REMOVE(whole, entry);
	return whole;
}

/* Takes a free part if that is enough, or else a free slot, which may be split for that; @others are left. */
static struct stage_slot *stage_slot_take(struct stage *stage, enum stage_use use, size_t len,
					  size_t others)
{
	enum stage_pool_id id;
	struct stage_slot *slot;

	if (stage_part_free(stage, use, len, others))
		return stage_part_take(LIST_FIRST(&stage->split[use]));
	id = stage_pool_choose(stage, use, len, others);
	if (id == STAGE_POOLS)
		return NULL;
	slot = LIST_FIRST(&stage->pools[id].free);
	LIST_REMOVE(slot, entry);
	stage->pools[id].idle--;
	if (id != STAGE_PIECE || !stage_part_fits(stage, use, len))
		return slot;
	slot->use = use;
	slot->idle = (1u << STAGE_PARTS) - 1;
	LIST_INSERT_HEAD(&stage->split[use], slot, entry);
	return stage_part_take(slot);
}

/* Returns what a slot counts for its holder [parts] */
static unsigned int stage_slot_counts(const struct stage_slot *slot)
{
	return slot->whole ? 1 : STAGE_PARTS;
}

struct stage_slot *stage_slot_get(struct stage *stage, enum stage_use use, size_t len,
				  unsigned int *held)
{
	struct stage_slot *slot = stage_slot_take(stage, use, len, stage_others(held));

	if (!slot)
		return NULL;
	slot->held = held;
	if (held)
		*held += stage_slot_counts(slot);
	return slot;
}

/* A key that is neither an application's nor guessed */
static int stage_key_new(struct stage *stage, uint64_t *key)
{
	int ret;

	if (!stage->key_count) {
		ret = random_fill(stage->keys, sizeof stage->keys);
		if (ret)
			return ret;
		stage->key_count = STAGE_KEYS;
	}
	*key = stage->keys[--stage->key_count];
	return 0;
}

int stage_slot_lend(struct stage *stage, struct stage_slot *slot, size_t len)
{
	uint64_t key;
	int ret = stage_key_new(stage, &key);

	if (!ret)
		ret = fi_mr_reg(stage->lender, slot->addr, len, FI_REMOTE_READ, 0, key, 0,
				&slot->lent, NULL);
	if (!ret)
		return 0;
	P2P_INFO("peers cannot read staging memory: %s\n", fi_strerror(-ret));
	slot->lent = NULL;
	retry_failed(&stage->lend);
	return ret;
}

size_t stage_slot_size(const struct stage *stage, const struct stage_slot *slot)
{
	const struct stage_pool *pool = &stage->pools[slot->pool];

	return slot->whole ? stage_part_size(pool) : pool->size;
}

void stage_slot_put(struct stage *stage, struct stage_slot *slot)
{
	if (slot->lent)
		fi_close(&slot->lent->fid);
	slot->lent = NULL;
	if (slot->held)
		*slot->held -= stage_slot_counts(slot);
	slot->held = NULL;
	if (slot->whole)
		slot = stage_part_put(stage, slot);
	if (!slot)
		return;
	LIST_INSERT_HEAD(&stage->pools[slot->pool].free, slot, entry);
	stage->pools[slot->pool].idle++;
}

struct stage_reserve *stage_reserve_get(struct stage *stage, size_t len)
{
	struct stage_reserve *reserve;
	size_t size = STAGE_RESERVE_MIN;

	/* powers of two, so that a kept one is likely to fit */
	while (size < len && size < (size_t) 1 << 40)
		size <<= 1;
	size = P2P_MAX(size, P2P_ALIGN_UP(len, 4096));
	if (size < len) {
		P2P_WARN("a message of %zu bytes cannot be staged\n", len);
		return NULL;
	}
	LIST_FOREACH(reserve, &stage->kept, entry) {
		if (reserve->size == size) {
			LIST_REMOVE(reserve, entry);
			stage->kept_count--;
			stage->backed -= reserve->backed;
			return reserve;
		}
	}
	reserve = calloc(1, sizeof *reserve);
	if (!reserve)
		return NULL;
	reserve->size = size;
	reserve->addr = stage_map(stage, size);
	if (!reserve->addr)
		goto free_reserve;
	if (stage_register(stage, reserve->addr, size, &reserve->mr))
		goto unmap;
	reserve->desc = reserve->mr ? fi_mr_desc(reserve->mr) : NULL;
	return reserve;

unmap:
	munmap(reserve->addr, size);
free_reserve:
	free(reserve);
	return NULL;
}

void stage_reserve_put(struct stage *stage, struct stage_reserve *reserve, size_t used)
{
	if (reserve->spares)
		--*reserve->spares;
	reserve->spares = NULL;
	if (stage->kept_count == STAGE_KEPT_MAX) {
		stage_reserve_free(reserve);
		return;
	}
	reserve->backed = P2P_MAX(reserve->backed, P2P_MIN(used, reserve->size));
	/* a registered one stays backed: the NIC knows its pages */
	if (reserve->backed > STAGE_KEPT_BACKED && !reserve->mr &&
	    stage->backed + reserve->backed > STAGE_BACKED_MAX) {
		madvise((char *) reserve->addr + STAGE_KEPT_BACKED,
			reserve->size - STAGE_KEPT_BACKED, MADV_DONTNEED);
		reserve->backed = STAGE_KEPT_BACKED;
	}
	stage->backed += reserve->backed;
	LIST_INSERT_HEAD(&stage->kept, reserve, entry);
	stage->kept_count++;
}

const struct stage_reserve *stage_sink(struct stage *stage)
{
	if (!stage->sink)
		stage->sink = stage_reserve_get(stage, stage->pools[STAGE_PIECE].size);
	return stage->sink;
}
