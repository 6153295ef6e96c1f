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
#include "base/random.h"

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
 * The same at a multiple of STAGE_HUGE, in huge pages if the system has them: the slots
 * are copied through in turn, and with small pages every copy begins with the address
 * translations of the last one gone.
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
	ret = fi_mr_reg(stage->domain, addr, len, FI_SEND | FI_RECV, 0,
			__atomic_fetch_add(&key, 1, __ATOMIC_RELAXED), 0, mr, NULL);
	if (ret)
		P2P_WARN("fi_mr_reg of %zu bytes for staging: %s\n", len, fi_strerror(-ret));
	return ret;
}

void stage_init(struct stage *stage, struct fid_domain *domain)
{
	*stage = (struct stage){.domain = domain};
	for (int i = 0; i < STAGE_POOLS; i++)
		SLIST_INIT(&stage->pools[i].free);
	LIST_INIT(&stage->kept);

	for (int i = 0; i < STAGE_POOLS; i++) {
		struct stage_pool *pool = &stage->pools[i];

		pool->size = *stage_shares[i].size;
		pool->count = conf.pinned_size / STAGE_SHARES * stage_shares[i].share /
			      stage_stride(pool);
	}
}

static void stage_region_free(struct stage *stage)
{
	for (int i = 0; i < STAGE_POOLS; i++) {
		free(stage->pools[i].slots);
		stage->pools[i].slots = NULL;
		SLIST_INIT(&stage->pools[i].free);
		stage->pools[i].idle = 0;
	}
	if (stage->mr)
		fi_close(&stage->mr->fid);
	if (stage->pinned_by)
		stage->pinned_by->unpin(stage->region);
	if (stage->region)
		munmap(stage->region, stage->region_len);
	stage->region = NULL;
	stage->pinned_by = NULL;
	stage->mr = NULL;
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
	stage_region_free(stage);
}

static int stage_pool_fill(struct stage *stage, enum stage_pool_id id, char *addr)
{
	struct stage_pool *pool = &stage->pools[id];

	pool->slots = calloc(pool->count, sizeof *pool->slots);
	if (!pool->slots)
		return -FI_ENOMEM;
	for (size_t i = pool->count; i--;) {
		pool->slots[i].addr = addr + i * stage_stride(pool);
		pool->slots[i].desc = stage->mr ? fi_mr_desc(stage->mr) : NULL;
		pool->slots[i].pool = id;
		SLIST_INSERT_HEAD(&pool->free, &pool->slots[i], entry);
	}
	pool->idle = pool->count;
	return 0;
}

/* In one context for all; but when that is gone, memory is not pinned any more */
static int stage_pin(struct stage *stage, const struct dev_mem *mem)
{
	int ret = mem->ops->pin(mem, stage->region, stage->region_len);

	if (ret)
		return ret;
	stage->pinned_by = mem->ops;
	stage->pinned_in = mem->ctx;
	return 0;
}

static bool stage_is_pinned(const struct stage *stage, const struct dev_mem *mem)
{
	return stage->pinned_in == mem->ctx || !stage->pinned_by->gone(stage->pinned_in);
}

int stage_ready(struct stage *stage, const struct dev_mem *mem)
{
	size_t offsets[STAGE_POOLS], len = 0;
	int ret;

	if (p2p_likely(stage->region != NULL))
		return p2p_likely(stage_is_pinned(stage, mem)) ? 0 : stage_pin(stage, mem);

	for (int i = 0; i < STAGE_POOLS; i++) {
		offsets[i] = len;
		len += stage->pools[i].count * stage_stride(&stage->pools[i]);
	}
	len = P2P_ALIGN_UP(len, 4096);
	stage->region = stage_map_huge(stage, len);
	if (!stage->region)
		return -FI_ENOMEM;
	stage->region_len = len;
	stage_place(stage->region, len, mem->ops->node(mem));
	ret = stage_pin(stage, mem);
	if (ret)
		goto free_region;
	ret = stage_register(stage, stage->region, len, &stage->mr);
	for (int i = 0; !ret && i < STAGE_POOLS; i++)
		ret = stage_pool_fill(stage, i, (char *) stage->region + offsets[i]);
	if (ret)
		goto free_region;
	P2P_INFO("pinned %zu bytes for staging: %zu slots of %zu, and each way %zu of "
		 "%zu and %zu of %zu\n",
		 len, stage->pools[STAGE_PIECE].count, stage->pools[STAGE_PIECE].size,
		 stage->pools[STAGE_SHORT_OUT].count, stage->pools[STAGE_SHORT_OUT].size,
		 stage->pools[STAGE_TINY_OUT].count, stage->pools[STAGE_TINY_OUT].size);
	return 0;

free_region:
	stage_region_free(stage);
	return ret;
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

/* The pool to take a slot from, for who holds @held; STAGE_POOLS: none has one for this use */
static enum stage_pool_id stage_pool_choose(const struct stage *stage, enum stage_use use,
					    size_t len, size_t held)
{
	const size_t others = (held + STAGE_PART - 1) / STAGE_PART;
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

bool stage_slot_free(const struct stage *stage, enum stage_use use, size_t len)
{
	return stage_pool_choose(stage, use, len, 0) != STAGE_POOLS;
}

struct stage_slot *stage_slot_get(struct stage *stage, enum stage_use use, size_t len)
{
	return stage_slot_share(stage, use, len, NULL);
}

struct stage_slot *stage_slot_share(struct stage *stage, enum stage_use use, size_t len,
				    unsigned int *held)
{
	enum stage_pool_id id = stage_pool_choose(stage, use, len, held ? *held : 0);
	struct stage_slot *slot;

	if (id == STAGE_POOLS)
		return NULL;
	slot = SLIST_FIRST(&stage->pools[id].free);
	SLIST_REMOVE_HEAD(&stage->pools[id].free, entry);
	stage->pools[id].idle--;
	slot->held = held;
	if (held)
		++*held;
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
	stage->lender = NULL;
	return ret;
}

void stage_slot_put(struct stage *stage, struct stage_slot *slot)
{
	if (slot->lent)
		fi_close(&slot->lent->fid);
	slot->lent = NULL;
	if (slot->held)
		--*slot->held;
	SLIST_INSERT_HEAD(&stage->pools[slot->pool].free, slot, entry);
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
	reserve->backed = P2P_MAX(reserve->backed, used);
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
