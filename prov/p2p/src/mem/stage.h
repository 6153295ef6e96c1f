/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Host memory that device data passes through.
 *
 * Slots are pinned, in pools of one size each. No use of them may take what another needs
 * to go on, at one end or across two:
 * - a piece of a long message goes out only when the receiver has a buffer posted for it,
 *   so its slot comes back unless that peer stops calling libfabric: it may take any;
 * - a piece coming in waits for the sender's slots: it leaves some to those going out;
 * - a message sent whole may wait for its receive, and a posted receive for its message, as
 *   long as the application likes: they leave some to pieces, and the small ones have pools
 *   of their own for each direction.
 * - what is held for no longer than the device takes to copy (short reads, writes and atomic
 *   operations of peers' memory, at either end) has a pool of its own: its slots come back
 *   whatever peers do, and who holds one waits for no other, so that one may be waited for.
 *
 * A reserve is an ordinary buffer of any length for a message that may or may not come
 * whole; it has no pages until something is written to it.
 *
 * The caller's lock guards a stage.
 */
#ifndef P2P_STAGE_H
#define P2P_STAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "dev/dev.h"

struct fid_domain;
struct fid_mr;

enum stage_pool_id {
	STAGE_TINY_OUT, /* messages that are never announced */
	STAGE_TINY_IN,
	STAGE_SHORT_OUT, /* messages of some 10 KiB */
	STAGE_SHORT_IN,
	STAGE_PIECE, /* pieces of long messages, and messages of that size */
	STAGE_BRIEF, /* what is held during a copy alone */
	STAGE_POOLS
};

enum stage_use { STAGE_WHOLE_OUT, STAGE_WHOLE_IN, STAGE_PIECE_OUT, STAGE_PIECE_IN, STAGE_COPY };

/**
 * struct stage_slot - one pinned buffer.
 * @addr:	the buffer
 * @desc:	its descriptor for the core provider (NULL where it wants none)
 */
struct stage_slot {
	SLIST_ENTRY(stage_slot) entry;
	void *addr;
	void *desc;
	enum stage_pool_id pool;
};

SLIST_HEAD(stage_slots, stage_slot);

/*
 * A lazily backed buffer. @addr, @desc as above; @size is at least what was asked for; the
 * first @backed bytes have pages, if something was ever written there
 */
struct stage_reserve {
	LIST_ENTRY(stage_reserve) entry;
	void *addr;
	void *desc;
	size_t size;
	size_t backed;
	struct fid_mr *mr;
};

LIST_HEAD(stage_reserves, stage_reserve);

/**
 * struct stage_pool - the free slots of one size.
 * @size, @count: of the slots
 * @slots:	all of them
 * @free:	those not in use, @idle their number
 */
struct stage_pool {
	size_t size;
	size_t count;
	struct stage_slot *slots;
	struct stage_slots free;
	size_t idle;
};

/**
 * struct stage - one domain's staging memory.
 * @domain:	the core's domain to register it with; NULL: registration not wanted
 * @lender:	the same, if peers are to read messages of some 10 KiB in their slots; @lent: what
 *		they are registered as for that, NULL: they are not
 * @pools:	the slots; @region is the memory behind all of them, there from the
 *		first use of a device on
 * @kept:	reserves for re-use, of which @backed bytes may have pages
 */
struct stage {
	struct fid_domain *domain;
	struct fid_domain *lender;
	struct stage_pool pools[STAGE_POOLS];
	void *region;
	size_t region_len;
	const struct dev_ops *pinned_by;
	struct fid_mr *mr;
	struct fid_mr *lent;
	struct stage_reserves kept;
	size_t kept_count;
	size_t backed;
};

/*
 * Sets up @stage; memory comes later. @domain: register staging memory there for local
 * access (core providers with FI_MR_LOCAL), or NULL.
 */
void stage_init(struct stage *stage, struct fid_domain *domain);
void stage_fini(struct stage *stage);

/*
 * Allocates and pins the pools through the device that @mem is on, if that was not done
 * yet. 0 or a negative error, logged.
 */
int stage_ready(struct stage *stage, const struct dev_mem *mem);

/*
 * May a message of @len bytes be read in its slot: are there others on their way out of such, and is
 * there room for more that may wait for their receives there? Some is left to those that go whole.
 */
static inline bool stage_lends(const struct stage *stage, size_t len)
{
	const struct stage_pool *pool = &stage->pools[STAGE_SHORT_OUT];

	return stage->lent && len <= pool->size && pool->idle < pool->count &&
	       pool->idle > pool->count / 8;
}

/* Is this in one of the slots? */
static inline bool stage_pinned(const struct stage *stage, const void *addr)
{
	return (uintptr_t) addr - (uintptr_t) stage->region < stage->region_len;
}

/* A free slot of at least @len bytes for such a use, or NULL */
struct stage_slot *stage_slot_get(struct stage *stage, enum stage_use use, size_t len);

/* Is there one? */
bool stage_slot_free(const struct stage *stage, enum stage_use use, size_t len);

void stage_slot_put(struct stage *stage, struct stage_slot *slot);

/* A buffer of at least @len bytes, or NULL (logged) */
struct stage_reserve *stage_reserve_get(struct stage *stage, size_t len);

/* Gives a reserve back of which at most the first @used bytes were written */
void stage_reserve_put(struct stage *stage, struct stage_reserve *reserve, size_t used);

#endif /* P2P_STAGE_H */
