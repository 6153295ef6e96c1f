/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rings, as the proxy has them: rdma/fi_p2p_xpu_abi.h says what they are.
 *
 * ring_peek() gives the operation at the tail, as often as it is called. ring_next() goes on to the next one.
 * Kernels may use the slots again when ring_tell() has told them, once for several.
 */
#ifndef P2P_RING_H
#define P2P_RING_H

#include <stdbool.h>
#include <stdint.h>
#include <rdma/fi_p2p_xpu_abi.h>

/**
 * struct ring_op - what a kernel has asked for.
 * @kind:	FI_P2P_XPU_KIND_...
 * @op, @flags:	of kinds OP and ENDED; @datatype, @atomic: of kind OP
 * @word:	of kind OP, by FI_P2P_XPU_W_...
 * @target, @offset, @local, @len: of the other kinds; @value: of signals, and the context of kind ENDED
 */
struct ring_op {
	unsigned int kind;
	unsigned int op;
	unsigned int datatype;
	unsigned int atomic;
	uint64_t flags;
	uint64_t word[FI_P2P_XPU_WORDS];
	uint32_t target;
	uint64_t offset;
	uint64_t local;
	uint32_t len;
	uint64_t value;
};

/**
 * struct ring - a ring.
 * @slots, @parts, @told: what the proxy shares with kernels: how far it is, is at @told
 * @size:	a power of two
 * @tail:	the next position
 */
struct ring {
	const struct fi_p2p_xpu_word2 *slots;
	const struct fi_p2p_xpu_parts *parts;
	uint64_t *told;
	uint64_t size;
	uint64_t tail;
};

/* Has a kernel put something at the tail? */
static inline bool ring_has(const struct ring *ring)
{
	const struct fi_p2p_xpu_word2 *slot = &ring->slots[ring->tail & (ring->size - 1)];
	const uint64_t lap = ring->tail & ring->size ? 0 : FI_P2P_XPU_LAP;

	return (__atomic_load_n(&slot->hi, __ATOMIC_ACQUIRE) & FI_P2P_XPU_LAP) == lap;
}

/* What is at the tail; false: nothing yet, or not all of it */
bool ring_peek(const struct ring *ring, struct ring_op *op);

static inline void ring_next(struct ring *ring)
{
	ring->tail++;
}

/* Tells kernels how far the ring is empty. They poll that word when it is full, so each store costs a trip. */
void ring_tell(struct ring *ring);

/* Has the processor fetch the next @count slots, which a device may have written last */
void ring_fetch(const struct ring *ring, unsigned int count);

/* Tells kernels that nobody empties it any more. */
void ring_end(struct ring *ring);

#endif /* P2P_RING_H */
