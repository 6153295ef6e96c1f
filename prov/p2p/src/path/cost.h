/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What a message costs each way, and the lengths at which ways begin. The compiler computes these, so no message
 * pays for it.
 *
 * The figures are of H200s and TCP (docs/performance.md, "Costs"). Half or twice of one moves a length by little, so
 * programs measure nothing when they start. No end relies on a length of the other one's: the sender says in its
 * announcement what it lends, the receiver says in TAKE how long pieces are, and how many lanes they have.
 *
 * Four lengths do not follow from costs:
 * - WIRE_PLAIN_MAX and WIRE_PAYLOAD_MAX are constants of the wire.
 * - FI_P2P_EAGER_SIZE ends whole messages, FI_P2P_CHUNK_SIZE ends pieces. Both are limits of pinned memory.
 */
#ifndef P2P_COST_H
#define P2P_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

enum cost_way {
	COST_SENT,
	COST_PARTS,
	COST_LENT,
	COST_WHOLE,
	COST_PIECES,
	COST_LANES,
	COST_LANES_DEAR,
	COST_ALONE,
	COST_LANES_ALONE,
	COST_ACROSS,
	COST_ACROSS_NEAR,
	COST_PIECE_CPU,
	COST_COPY,
	COST_WAYS
};

/**
 * struct cost - the time that a message takes one way: at 64 under way, or from end to end if it is alone.
 * @fixed:	whatever its length [ns]
 * @kib:	for each KiB [ns]
 * @least, @most: the figures are of longer ones than @least, and no longer than @most [bytes]; 0: of all
 */
struct cost {
	uint32_t fixed;
	uint32_t kib;
	size_t least;
	size_t most;
};

static const struct cost cost_table[COST_WAYS] = {
	/* ofi_rxm over tcp: in one buffer of the core's; in several; read by the receiver, four at a time */
	[COST_SENT] = {8200, 256, .most = 16 << 10},
	[COST_PARTS] = {16700, 119, .least = 16 << 10, .most = 128 << 10},
	[COST_LENT] = {11000, 172},
	/* a core without buffers */
	[COST_WHOLE] = {4200, 244},
	/* by one connection; by eight lanes; by lanes of ofi_rxm itself, which send short pieces in parts */
	[COST_PIECES] = {17000, 253},
	[COST_LANES] = {17800, 70},
	[COST_LANES_DEAR] = {18600, 57, .least = 128 << 10},
	/* the same with no other message under way */
	[COST_ALONE] = {65000, 242},
	[COST_LANES_ALONE] = {85700, 115},
	/* copied from device to device, over tcp and over shm */
	[COST_ACROSS] = {21300, 3},
	[COST_ACROSS_NEAR] = {9000, 3},
	/* the CPUs' time for one piece; a copy between device and host */
	[COST_PIECE_CPU] = {4000, 0},
	[COST_COPY] = {6300, 20},
};

/*
 * Returns the length from which on @to costs no more than @from; SIZE_MAX: never. Where only one of the two
 * has figures, it is taken.
 */
static inline size_t cost_crossing(const struct cost *from, const struct cost *to)
{
	size_t len = to->fixed <= from->fixed ? 0 : SIZE_MAX;

	if (len && to->kib < from->kib)
		len = (size_t) (to->fixed - from->fixed) * 1024 / (from->kib - to->kib);
	len = P2P_MAX(len, to->least);
	return from->most ? P2P_MIN(len, from->most) : len;
}

/* Returns the length above which messages may be lent, or offered to who copies from device to device */
static inline size_t cost_lend_min(void)
{
	return cost_crossing(&cost_table[COST_SENT], &cost_table[COST_LENT]);
}

/* Returns the least length of pieces that are made shorter by choice, as cores send shorter ones in parts */
static inline size_t cost_piece_min(void)
{
	return 2 * cost_table[COST_PARTS].most;
}

/*
 * Returns the length up to which pieces of @piece bytes are cheaper than pieces twice as long. A message alone
 * waits for the copies of its first piece out and of its last one in, and pays for each piece.
 */
static inline uint64_t cost_piece_until(uint64_t piece)
{
	return 4 * piece * piece * cost_table[COST_COPY].kib /
	       (1024ULL * cost_table[COST_PIECE_CPU].fixed);
}

/* Returns the length of the pieces of a message alone, @most at most */
static inline uint64_t cost_piece(uint64_t len, uint64_t most)
{
	uint64_t piece = cost_piece_min();

	while (piece < most && cost_piece_until(piece) < len)
		piece *= 2;
	return P2P_MIN(piece, most);
}

/*
 * Returns the length from which on messages have lanes; @dear: each lane takes much memory. The figures are of
 * powers of two. So the middle between the two around the crossing is taken.
 */
static inline size_t cost_lanes_min(bool dear)
{
	const size_t len = cost_crossing(&cost_table[COST_WHOLE],
					 &cost_table[dear ? COST_LANES_DEAR : COST_LANES]);

	return (size_t) 3 << (62 - __builtin_clzll(len));
}

/* Returns the least length of a lane's piece. Where lanes have nothing else to do, they share shorter ones. */
static inline size_t cost_lanes_piece(bool alone)
{
	return cost_table[COST_PARTS].most / (alone ? 2 : 1);
}

/* A message alone that is no longer goes by one connection. Lanes share whole pieces. */
static inline size_t cost_lanes_alone(void)
{
	const size_t len =
		cost_crossing(&cost_table[COST_ALONE], &cost_table[COST_LANES_ALONE]);

	return len - len % cost_lanes_piece(true);
}

#endif /* P2P_COST_H */
