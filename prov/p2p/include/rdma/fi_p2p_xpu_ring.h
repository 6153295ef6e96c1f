/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the calls of rdma/fi_p2p_xpu_device.h have in common: how the threads of a scope act as one, how one
 * of many looks at the host's memory, and how triggers get into rings. Not for applications.
 */
#ifndef FI_P2P_XPU_RING_H
#define FI_P2P_XPU_RING_H

#include <rdma/fi_errno.h>
#include <rdma/fi_p2p_xpu.h>
#include <rdma/fi_p2p_xpu_abi.h>
#include <rdma/fi_p2p_xpu_port.h>

/** Flag of an operation: what it is to make visible is visible already */
#define FI_P2P_XPU_NO_FENCE (1ULL << 60)

/* ---- scopes ---- */

/* Does this thread act for its scope? All have come here, so what they have written is done. */
FI_P2P_XPU_FUNC int fi_p2p_xpu_enter(int scope)
{
	switch (scope) {
	case FI_XPU_SUBGROUP:
		(void) FI_P2P_XPU_SYNC_LANES(0);
		return FI_P2P_XPU_THREAD % FI_P2P_XPU_LANES == 0;
	case FI_XPU_WORK_GROUP:
		(void) FI_P2P_XPU_SYNC_BLOCK(0);
		return FI_P2P_XPU_THREAD == 0;
	case FI_XPU_DEVICE:
		return FI_P2P_XPU_BLOCK == 0 && FI_P2P_XPU_THREAD == 0;
	default:
		return 1;
	}
}

/* Gives all threads of the scope the result of the one that has acted. */
FI_P2P_XPU_FUNC int fi_p2p_xpu_leave(int scope, int result)
{
	switch (scope) {
	case FI_XPU_SUBGROUP:
		return FI_P2P_XPU_SYNC_LANES(result);
	case FI_XPU_WORK_GROUP:
		return FI_P2P_XPU_SYNC_BLOCK(result);
	default:
		return result;
	}
}

/* Does this thread look at host memory from now on? Not while another one does */
FI_P2P_XPU_FUNC int fi_p2p_xpu_look(uint64_t *looking)
{
	return !fi_p2p_xpu_swap_if(looking, 0, 1);
}

/*
 * A thread that wants to know a counter.
 * @mine:	it looks itself
 * @looks:	how often the counter had been looked at when it began, or by now if it looks itself
 * @seen:	the counter
 */
struct fi_p2p_xpu_watch {
	int mine;
	uint64_t looks;
	struct fi_p2p_xpu_count seen;
};

FI_P2P_XPU_FUNC struct fi_p2p_xpu_watch
fi_p2p_xpu_watch_begin(const struct fi_p2p_xpu_cntr_dev *dev)
{
	const struct fi_p2p_xpu_watch watch = {0,
					       fi_p2p_xpu_load_near(&dev->looks),
					       {~0ULL, ~0ULL}};

	return watch;
}

/* Looks, and leaves what it has seen to others. */
FI_P2P_XPU_FUNC void fi_p2p_xpu_watch_look(struct fi_p2p_xpu_cntr_dev *dev,
					   struct fi_p2p_xpu_watch *watch)
{
	const struct fi_p2p_xpu_count before = watch->seen;

	fi_p2p_xpu_load2(&dev->count->value, &watch->seen.value, &watch->seen.errors);
	watch->looks++;
	if (watch->seen.value == before.value && watch->seen.errors == before.errors) {
		fi_p2p_xpu_poke(&dev->looks, watch->looks);
		return;
	}
	fi_p2p_xpu_poke(&dev->seen.value, watch->seen.value);
	fi_p2p_xpu_poke(&dev->seen.errors, watch->seen.errors);
	fi_p2p_xpu_store_near(&dev->looks, watch->looks);
}

/* Is @seen the counter as it has been since the watch began? What another thread sees with its second look is. */
FI_P2P_XPU_FUNC int fi_p2p_xpu_watch_see(struct fi_p2p_xpu_cntr_dev *dev,
					 struct fi_p2p_xpu_watch *watch)
{
	if (!watch->mine && fi_p2p_xpu_look(&dev->looking)) {
		watch->mine = 1;
		watch->looks = fi_p2p_xpu_load_near(&dev->looks);
		watch->seen.value = ~0ULL;
	}
	if (watch->mine) {
		fi_p2p_xpu_watch_look(dev, watch);
		return 1;
	}
	if (fi_p2p_xpu_load_near(&dev->looks) - watch->looks < 2)
		return 0;
	watch->seen.value = fi_p2p_xpu_peek(&dev->seen.value);
	watch->seen.errors = fi_p2p_xpu_peek(&dev->seen.errors);
	return 1;
}

FI_P2P_XPU_FUNC void fi_p2p_xpu_watch_end(struct fi_p2p_xpu_cntr_dev *dev,
					  const struct fi_p2p_xpu_watch *watch)
{
	if (watch->mine)
		fi_p2p_xpu_store_near(&dev->looking, 0);
}

/* ---- rings ---- */

/* Is there room at position @at? 0, -FI_EAGAIN, or -FI_ECANCELED if nobody empties the ring any more */
FI_P2P_XPU_FUNC int fi_p2p_xpu_ring_room(struct fi_p2p_xpu_ring *ring, uint64_t at)
{
	const uint64_t tail = fi_p2p_xpu_load(ring->tail);
	const uint64_t done = tail & ~FI_P2P_XPU_CLOSED;

	fi_p2p_xpu_poke(&ring->done, done);
	if (at - done < ring->size)
		return 0;
	return tail & FI_P2P_XPU_CLOSED ? -FI_ECANCELED : -FI_EAGAIN;
}

/* struct fi_p2p_xpu_way - a ring. @own: nobody else posts to it. @mapped and @tell are the endpoint's. */
struct fi_p2p_xpu_way {
	struct fi_p2p_xpu_ring *ring;
	int own;
	const struct fi_p2p_xpu_mapped *mapped;
	uint64_t tell;
};

/* What a ring has in memory, as one who posts has it. 32 bits of @size spare a GPU half of its instructions. */
struct fi_p2p_xpu_open {
	struct fi_p2p_xpu_word2 *slots;
	uint64_t head, done;
	uint32_t size;
};

/* In one trip to memory */
FI_P2P_XPU_FUNC struct fi_p2p_xpu_open fi_p2p_xpu_way_open(struct fi_p2p_xpu_way way)
{
	const struct fi_p2p_xpu_word2 fixed = fi_p2p_xpu_const2(&way.ring->slots);
	struct fi_p2p_xpu_open open;

	/* plain loads: nobody else changes these, so a multiprocessor's own cache has them */
	if (way.own) {
		open.head = way.ring->head;
		open.done = way.ring->done;
	} else {
		fi_p2p_xpu_peek2(&way.ring->head, &open.head, &open.done);
	}
	open.slots = (struct fi_p2p_xpu_word2 *) (uintptr_t) fixed.lo;
	open.size = (uint32_t) fixed.hi;
	return open;
}

/* The block's ring to an exported endpoint: 0, or -FI_EINVAL if that is none of ours */
FI_P2P_XPU_FUNC int fi_p2p_xpu_ep_way(const struct fid_xpu_ep *ep, struct fi_p2p_xpu_way *way)
{
	struct fi_p2p_xpu_ep_dev *dev = (struct fi_p2p_xpu_ep_dev *) ep->fid.prov_ctx;
	uint32_t block = (uint32_t) FI_P2P_XPU_BLOCK;
	struct fi_p2p_xpu_word2 head, more;

	if (ep->fid.prov_id != FI_XPU_PROV_P2P)
		return -FI_EINVAL;
	/* @abi and @rings. @mapped and @tell come in the same trip to memory, before it is known whether they are of use */
	head = fi_p2p_xpu_const2(dev);
	more = fi_p2p_xpu_const2(&dev->mapped);
	if (((uint32_t) head.lo & ~FI_P2P_XPU_MAPPED) != FI_P2P_XPU_ABI)
		return -FI_EINVAL;
	/* a division takes longer than all the rest */
	if (block >= (uint32_t) head.hi)
		block %= (uint32_t) head.hi;
	way->ring = &dev->ring[block];
	way->own = !!(head.lo & FI_P2P_XPU_OWNED);
	way->mapped = (const struct fi_p2p_xpu_mapped *) (uintptr_t) more.lo;
	way->tell = more.hi;
	return 0;
}

/* Takes @count positions, @position and what follows: 0 or an error of fi_p2p_xpu_ring_room() */
FI_P2P_XPU_FUNC int fi_p2p_xpu_way_take(struct fi_p2p_xpu_way way, struct fi_p2p_xpu_open *open,
					uint32_t count, uint64_t *position)
{
	uint64_t at = open->head, seen;
	int ret;

	if (way.own) {
		if ((uint32_t) (at + count - 1 - open->done) >= open->size) {
			ret = fi_p2p_xpu_ring_room(way.ring, at + count - 1);
			if (ret)
				return ret;
		}
		way.ring->head = at + count;
		*position = at;
		return 0;
	}
	for (;;) {
		if (at + count - 1 - open->done >= open->size) {
			ret = fi_p2p_xpu_ring_room(way.ring, at + count - 1);
			if (ret)
				return ret;
		}
		seen = fi_p2p_xpu_swap_if(&way.ring->head, at, at + count);
		if (seen == at)
			break;
		fi_p2p_xpu_peek2(&way.ring->head, &at, &open->done);
	}
	*position = at;
	return 0;
}

/* Writes the trigger. The proxy then sees it. */
FI_P2P_XPU_FUNC void fi_p2p_xpu_open_put(struct fi_p2p_xpu_open open, uint64_t position,
					 struct fi_p2p_xpu_word2 trigger)
{
	const uint64_t lap = (uint32_t) position & open.size ? 0 : FI_P2P_XPU_LAP;

	fi_p2p_xpu_store16(&open.slots[(uint32_t) position & (open.size - 1)], trigger.lo,
			   (trigger.hi & ~FI_P2P_XPU_LAP) | lap);
}

/* Posts an operation of FI_P2P_XPU_WORDS: 0 or an error of fi_p2p_xpu_ring_room() */
FI_P2P_XPU_FUNC int fi_p2p_xpu_way_post_op(struct fi_p2p_xpu_way way, const uint64_t *words,
					   uint64_t what)
{
	const uint64_t *half = words + FI_P2P_XPU_W_HALVES;
	struct fi_p2p_xpu_open open = fi_p2p_xpu_way_open(way);
	struct fi_p2p_xpu_parts *parts;
	struct fi_p2p_xpu_word2 trigger;
	uint64_t position = 0, mark;
	const int ret = fi_p2p_xpu_way_take(way, &open, 1, &position);

	if (ret)
		return ret;
	parts = &way.ring->parts[(uint32_t) position & (open.size - 1)];
	mark = (position + 1) << 32;
	for (int i = 0; i < FI_P2P_XPU_PARTS; i++) {
		uint64_t more = i < 6 ? half[i / 2] >> (i % 2 * 32) & 0xffffffffU : 0;

		fi_p2p_xpu_store16(&parts->part[i], words[1 + i], mark | more);
	}
	trigger.lo = words[FI_P2P_XPU_W_BUF];
	trigger.hi = what | (uint64_t) FI_P2P_XPU_KIND_OP << FI_P2P_XPU_KIND_SHIFT;
	fi_p2p_xpu_open_put(open, position, trigger);
	return 0;
}

#endif /* FI_P2P_XPU_RING_H */
