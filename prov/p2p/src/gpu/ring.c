/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Rings. See ring.h. */
#include "gpu/ring.h"

#include <rdma/fabric.h>

#include "base/base.h"

/* The flags of fi_endpoint(3), in the order of FI_P2P_XPU_F_... */
static uint64_t ring_flags(uint64_t packed)
{
	static const uint64_t flags[] = {
		FI_COMPLETION,        FI_REMOTE_CQ_DATA,    FI_INJECT, FI_INJECT_COMPLETE,
		FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE, FI_FENCE,  FI_COMMIT_COMPLETE,
	};
	uint64_t given = 0;

	for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
		if (packed >> i & 1)
			given |= flags[i];
	}
	return given;
}

/*
 * The parts beside the slot: each bears the lower half of the position after this one. A kernel has
 * written them before the trigger, but they may come later.
 */
static bool ring_peek_parts(const struct ring *ring, struct ring_op *op)
{
	const struct fi_p2p_xpu_parts *parts = &ring->parts[ring->tail & (ring->size - 1)];
	uint32_t half[FI_P2P_XPU_PARTS];

	for (int i = 0; i < FI_P2P_XPU_PARTS; i++) {
		uint64_t hi = __atomic_load_n(&parts->part[i].hi, __ATOMIC_ACQUIRE);

		if (hi >> 32 != (uint32_t) (ring->tail + 1))
			return false;
		half[i] = (uint32_t) hi;
		op->word[1 + i] = parts->part[i].lo;
	}
	for (int i = FI_P2P_XPU_W_HALVES; i < FI_P2P_XPU_WORDS; i++) {
		const uint32_t *two = &half[2 * (i - FI_P2P_XPU_W_HALVES)];

		op->word[i] = (uint64_t) two[1] << 32 | two[0];
	}
	return true;
}

bool ring_peek(const struct ring *ring, struct ring_op *op)
{
	const struct fi_p2p_xpu_word2 *slot = &ring->slots[ring->tail & (ring->size - 1)];
	const uint64_t offset_mask = (UINT64_C(1) << FI_P2P_XPU_OFFSET_BITS) - 1;
	uint64_t lo, hi;

	if (!ring_has(ring))
		return false;
	/* one store has written both words */
	hi = __atomic_load_n(&slot->hi, __ATOMIC_ACQUIRE);
	lo = __atomic_load_n(&slot->lo, __ATOMIC_RELAXED);
	op->kind = hi >> FI_P2P_XPU_KIND_SHIFT & 7;
	if (op->kind == FI_P2P_XPU_KIND_OP) {
		op->op = hi & FI_P2P_XPU_OP_MASK;
		op->datatype = hi >> FI_P2P_XPU_DATATYPE_SHIFT & 0xff;
		op->atomic = hi >> FI_P2P_XPU_ATOMIC_SHIFT & 0xff;
		op->flags = ring_flags(hi >> FI_P2P_XPU_FLAGS_SHIFT);
		op->word[FI_P2P_XPU_W_BUF] = lo;
		return ring_peek_parts(ring, op);
	}
	if (op->kind == FI_P2P_XPU_KIND_ENDED) {
		op->op = hi & FI_P2P_XPU_OP_MASK;
		op->flags = ring_flags(hi >> FI_P2P_XPU_FLAGS_SHIFT);
	}
	op->target = hi >> FI_P2P_XPU_TARGET_SHIFT & (FI_P2P_XPU_TARGETS_MASK);
	op->offset = hi >> 8 & offset_mask;
	op->value = lo;
	op->local = lo >> 24;
	op->len = (uint32_t) (lo << 8 | (hi & 0xff));
	return true;
}

void ring_tell(struct ring *ring)
{
	__atomic_store_n(ring->told, ring->tail, __ATOMIC_RELEASE);
}

void ring_fetch(const struct ring *ring, unsigned int count)
{
	const unsigned int line = P2P_CACHE_LINE / sizeof ring->slots[0];

	for (unsigned int i = 0; i < count; i += line)
		__builtin_prefetch(&ring->slots[(ring->tail + i) & (ring->size - 1)]);
}

void ring_end(struct ring *ring)
{
	__atomic_fetch_or(ring->told, FI_P2P_XPU_CLOSED, __ATOMIC_RELEASE);
}
