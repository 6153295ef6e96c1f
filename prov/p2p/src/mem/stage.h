/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Host memory that device data passes through.
 *
 * Slots are pinned, if they can be, in pools of one size each. Several uses share them. Waiting for slots must
 * never go in a circle, at one end or across two. So no use may take the slots that another use
 * needs to go on. stage_pool_choose() holds to that:
 *
 * - A piece that goes out may take any slot of its pool. It goes out only when the receiver has
 *   a buffer posted for it. So its slot comes back, unless that peer stops calling libfabric.
 *   Then ordinary memory makes up for the slot (rndv_spare()).
 * - A piece that comes in waits for a piece that goes out at the sender. So it leaves some
 *   slots to those that go out.
 * - A message sent whole may wait for its receive as long as the application likes. A posted
 *   receive may wait for its message just as long. So both leave some slots to pieces, in
 *   either direction. Small messages have pools of their own for each direction.
 * - A slot of a message that goes out may also hold remote memory until the other end has read it. That
 *   end wants a slot for it, as for a piece that comes in. If none is free here, pieces go (rma_lent.h).
 * - What is held for no longer than the device takes to copy has a pool of its own: short reads,
 *   writes and atomic operations on peers' memory, at either end. Its slots come back whatever
 *   peers do. Whoever holds one waits for no other, so that one may be waited for.
 * - Slots stay with a peer that does not go on. They cannot be taken back, as its bytes may be under way.
 *   So the slots that one peer holds in one direction are counted, and it leaves a part to others (STAGE_PART).
 *   What it is refused for that waits for its own pieces alone, in the same direction: for nobody else.
 * - Pieces that are short share a slot: it is split for one direction, and whole again when all of its parts have
 *   come back. So parts wait for what their direction may wait for, and take no slot that is left to others.
 * - Where slots for pieces are short, pieces that fit take those of messages of some 10 KiB, too. Such
 *   messages may wait for anything. Else a peer whose message once found none of those free, and went in
 *   pieces, would wait long, while others took them again and again.
 *
 * So the waiting goes one way. Whole messages may wait for anything. Pieces that come in wait only for pieces that go out. A
 * piece that goes out waits for no other use: some slots are left to such pieces alone.
 *
 * A reserve is an ordinary buffer of any length, for a message that may or may not come whole.
 * It has no pages until something is written to it.
 *
 * The caller's lock guards a stage.
 */
#ifndef P2P_STAGE_H
#define P2P_STAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/retry.h"
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

enum stage_use {
	STAGE_WHOLE_OUT,
	STAGE_WHOLE_IN,
	STAGE_PIECE_OUT,
	STAGE_PIECE_IN,
	STAGE_COPY,
	STAGE_USES
};

/* A slot for pieces is split into so many */
#define STAGE_PARTS 4

/**
 * struct stage_slot - one pinned buffer.
 * @entry:	in its pool's list of free ones, or in the list of those with parts to be had
 * @addr:	the buffer
 * @desc:	its descriptor for the core provider; NULL: that provider wants none
 * @pool:	the pool that it belongs to
 * @lent:	the registration by which a peer reads what is in it, or NULL
 * @held:	how much its peer holds [parts], of which it is some; NULL: that is not counted
 * @whole:	what it is a part of, or NULL
 * @parts:	its own parts, or NULL: it is never split. If it is, for @use: those in @idle, one bit
 *		each, are to be had
 */
struct stage_slot {
	LIST_ENTRY(stage_slot) entry;
	void *addr;
	void *desc;
	enum stage_pool_id pool;
	struct fid_mr *lent;
	unsigned int *held;
	struct stage_slot *whole;
	struct stage_slot *parts;
	enum stage_use use;
	unsigned int idle;
};

LIST_HEAD(stage_slots, stage_slot);

/*
 * struct stage_reserve - a buffer that gets its pages when something is written to it.
 * @addr, @desc:	as in struct stage_slot
 * @size:	its length [bytes], at least what was asked for
 * @backed:	if something was ever written there, the first @backed bytes have pages
 * @spares:	how many its peer holds, of which it is one; NULL: that is not counted
 */
struct stage_reserve {
	LIST_ENTRY(stage_reserve) entry;
	void *addr;
	void *desc;
	size_t size;
	size_t backed;
	unsigned int *spares;
	struct fid_mr *mr;
};

LIST_HEAD(stage_reserves, stage_reserve);

/* A buffer, and its descriptor for the core provider */
struct stage_place {
	void *addr;
	void *desc;
};

/* Returns the buffer of what has a slot, a reserve, or neither. */
static inline struct stage_place stage_place_of(const struct stage_slot *slot,
						const struct stage_reserve *reserve)
{
	if (slot)
		return (struct stage_place){slot->addr, slot->desc};
	return (struct stage_place){reserve ? reserve->addr : NULL,
				    reserve ? reserve->desc : NULL};
}

/**
 * struct stage_pool - the slots of one size.
 * @size:	the size of a slot [bytes]
 * @count:	how many slots there are
 * @free:	those not in use
 * @idle:	how many are not in use
 */
struct stage_pool {
	size_t size;
	size_t count;
	struct stage_slots free;
	size_t idle;
};

/* Memory behind slots: what a stage begins with, and what it has grown by */
#define STAGE_REGIONS 2

/**
 * struct stage_region - pinned memory.
 * @addr, @len:	where it is; @addr NULL: there is none
 * @pinned:	it is
 * @slots:	those in it, in arrays of one pool each
 */
struct stage_region {
	void *addr;
	size_t len;
	bool pinned;
	struct stage_slot *slots[STAGE_POOLS];
};

/* So many keys are made at a time, as that takes hardly longer than to make one */
#define STAGE_KEYS 32

/**
 * struct stage - one domain's staging memory.
 * @domain:	the core's domain to register it with; NULL: it is not registered
 * @lender:	the same domain, if peers are to read messages of some 10 KiB in their slots;
 *		NULL: they do not. @virt_addr: they are told the slots' addresses, not offsets. @lend: it has refused a key
 * @keys:	random keys for that, of which @key_count are left
 * @pools:	the slots
 * @split:	for each use, slots that are split for it and have parts to be had
 * @regions:	the memory behind all slots; the first is there from the first use of a device on
 * @grow:	it could not grow
 * @pinned_by, @pinned_in: the runtime that it is pinned by, and the context; NULL: it is not, which is
 *		tried again when @pin says so
 * @kept:	reserves for re-use
 * @backed:	how many bytes of @kept may have pages
 * @sink:	see stage_sink(); NULL: nobody has asked for it
 * @poor:	the system had no memory at the last time
 */
struct stage {
	struct fid_domain *domain;
	struct fid_domain *lender;
	bool virt_addr;
	struct retry lend;
	struct stage_pool pools[STAGE_POOLS];
	struct stage_slots split[STAGE_USES];
	struct stage_region regions[STAGE_REGIONS];
	struct retry grow;
	const struct dev_ops *pinned_by;
	const void *pinned_in;
	struct retry pin;
	struct fid_mr *mr;
	uint64_t keys[STAGE_KEYS];
	unsigned int key_count;
	struct stage_reserves kept;
	size_t kept_count;
	size_t backed;
	struct stage_reserve *sink;
	bool poor;
};

/*
 * Sets up @stage. Its memory comes later. @domain: if not NULL, that memory is registered there
 * for local access, as core providers with FI_MR_LOCAL want it.
 */
void stage_init(struct stage *stage, struct fid_domain *domain);
void stage_fini(struct stage *stage);

/*
 * Allocates the pools and pins them through the device that @mem is on, if that was not done
 * yet. What cannot be pinned is smaller, or not pinned (logged). Returns 0 or a negative error, logged.
 */
int stage_ready(struct stage *stage, const struct dev_mem *mem);

/*
 * Allocates and pins @len bytes more for pieces, once, after stage_ready(). False: it has been done before, or cannot be now
 */
bool stage_grow(struct stage *stage, const struct dev_mem *mem, size_t len);

/*
 * Tells whether a peer may read @len bytes in their slot. Yes if enough slots are free: those that wait for
 * that leave some to messages that go whole.
 */
static inline bool stage_can_lend(const struct stage *stage, size_t len)
{
	const struct stage_pool *pool = &stage->pools[STAGE_SHORT_OUT];

	return stage->lender && retry_due(&stage->lend) && len <= pool->size &&
	       pool->idle > pool->count / 8;
}

/* Tells whether a message may be lent: only if others are under way, as it would else travel whole */
static inline bool stage_lends(const struct stage *stage, size_t len)
{
	const struct stage_pool *pool = &stage->pools[STAGE_SHORT_OUT];

	return stage_can_lend(stage, len) && pool->idle < pool->count;
}

/* Tells whether @addr lies in a pinned slot. */
static inline bool stage_pinned(const struct stage *stage, const void *addr)
{
	for (int i = 0; i < STAGE_REGIONS; i++) {
		const struct stage_region *region = &stage->regions[i];

		if (region->pinned && (uintptr_t) addr - (uintptr_t) region->addr < region->len)
			return true;
	}
	return false;
}

/*
 * A peer holds at most so many times what is left in the pool that it takes from. So it has most of a pool, if
 * it is alone. Several have the same each, and leave less.
 */
#define STAGE_PART 4

/*
 * Returns a free slot, or part of one, of at least @len bytes for this use; NULL: there is none. @held: it is for a peer
 * that holds *@held parts already, and leaves the rest to others; or NULL. *@held is counted up here, and down when the slot is
 * put back.
 */
struct stage_slot *stage_slot_get(struct stage *stage, enum stage_use use, size_t len,
				  unsigned int *held);

/* Tells whether stage_slot_get() would return a slot. */
bool stage_slot_free(const struct stage *stage, enum stage_use use, size_t len,
		     const unsigned int *held);

/* Returns the slot's length in bytes */
size_t stage_slot_size(const struct stage *stage, const struct stage_slot *slot);

/*
 * Lets a peer read the first @len bytes of the slot, by the key of its @lent, until it is put
 * back. 0 or an error: for a while nothing is lent any more (logged)
 */
int stage_slot_lend(struct stage *stage, struct stage_slot *slot, size_t len);

/* Gives a slot back. If it was lent, the key is of no use any more. */
void stage_slot_put(struct stage *stage, struct stage_slot *slot);

/* A buffer of at least @len bytes; NULL: there is no memory (logged) */
struct stage_reserve *stage_reserve_get(struct stage *stage, size_t len);

/* Gives a reserve back. At most its first @used bytes were written, or all of it. */
void stage_reserve_put(struct stage *stage, struct stage_reserve *reserve, size_t used);

/*
 * Returns memory for bytes that nobody reads, whoever sends them: as long as a slot for pieces. It is not
 * given back. NULL: there is no memory (logged)
 */
const struct stage_reserve *stage_sink(struct stage *stage);

#endif /* P2P_STAGE_H */
