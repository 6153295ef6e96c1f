/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Unit tests of cost.h: where two costs cross, the lengths that follow, and what limits them. */
#include "unit.h"

#include <stdint.h>

#include "path/cost.h"

#define KIB ((size_t) 1 << 10)

static uint64_t time_of(const struct cost *cost, uint64_t len)
{
	return cost->fixed + len * cost->kib / KIB;
}

static void test_crossing(void **state)
{
	static const struct {
		struct cost from, to;
		size_t len;
	} cases[] = {
		/* the other one has the dearer beginning, and is cheaper by the byte */
		{{100, 30}, {200, 20}, 10 * KIB},
		{{100, 30}, {101, 29}, KIB},
		{{100, 30}, {101, 28}, KIB / 2},
		/* always, and never */
		{{100, 30}, {100, 20}, 0},
		{{100, 30}, {99, 40}, 0},
		{{100, 30}, {101, 30}, SIZE_MAX},
		{{100, 30}, {101, 31}, SIZE_MAX},
		/* one of the two is not for all lengths */
		{{100, 30, .most = 9 * KIB}, {200, 20}, 9 * KIB},
		{{100, 30, .most = 11 * KIB}, {200, 20}, 10 * KIB},
		{{100, 30, .most = KIB}, {101, 31}, KIB},
		{{100, 30}, {200, 20, .least = 11 * KIB}, 11 * KIB},
		{{100, 30}, {200, 20, .least = 9 * KIB}, 10 * KIB},
		{{100, 30}, {100, 30, .least = KIB}, KIB},
		/* no 32 bits are enough for that */
		{{0, UINT32_MAX}, {UINT32_MAX, UINT32_MAX - 1}, UINT32_MAX * KIB},
	};

	for (size_t i = 0; i < UNIT_COUNT(cases); i++)
		assert_int_equal(cost_crossing(&cases[i].from, &cases[i].to), cases[i].len);
}

/* What was measured, in docs/performance.md, is what the figures come to */
static void test_lengths(void **state)
{
	assert_int_equal(cost_lend_min(), 16 * KIB);
	assert_int_equal(cost_piece_min(), 256 * KIB);
	assert_int_equal(cost_lanes_min(false), 96 * KIB);
	assert_int_equal(cost_lanes_min(true), 192 * KIB);
	assert_int_equal(cost_lanes_alone(), 128 * KIB);
	assert_int_equal(cost_lanes_piece(true), 64 * KIB);
	assert_int_equal(cost_lanes_piece(false), 128 * KIB);
}

/* At each length the way that is taken is the cheaper one, where there are figures */
static void test_cheaper(void **state)
{
	const struct cost *table = cost_table;

	for (size_t len = 17 * KIB; len <= 64 * KIB; len += KIB)
		assert_true(time_of(&table[COST_LENT], len) < time_of(&table[COST_PARTS], len));
	for (size_t len = KIB; len <= 16 * KIB; len += KIB)
		assert_true(time_of(&table[COST_SENT], len) < time_of(&table[COST_LENT], len));
	for (size_t len = cost_lanes_min(false); len <= 256 * KIB; len += KIB)
		assert_true(time_of(&table[COST_LANES], len) <
			    time_of(&table[COST_WHOLE], len));
	for (size_t len = KIB; len <= cost_lanes_alone(); len += KIB)
		assert_true(time_of(&table[COST_ALONE], len) <
			    time_of(&table[COST_LANES_ALONE], len));
	assert_true(time_of(&table[COST_ALONE], 256 * KIB) >
		    time_of(&table[COST_LANES_ALONE], 256 * KIB));
}

/* What a message alone takes for its copies and pieces */
static uint64_t pieces_cost(uint64_t len, uint64_t piece)
{
	return 2 * piece * cost_table[COST_COPY].kib / KIB +
	       len * cost_table[COST_PIECE_CPU].fixed / piece;
}

static void test_pieces(void **state)
{
	const uint64_t most = 64 * KIB * KIB;

	for (uint64_t len = 1; len < (uint64_t) 1 << 40; len = len * 9 / 8 + 1) {
		const uint64_t piece = cost_piece(len, most);

		assert_true(piece >= cost_piece_min() && piece <= most);
		if (piece < most)
			assert_true(pieces_cost(len, piece) <= pieces_cost(len, 2 * piece) + 1);
		if (piece > cost_piece_min())
			assert_true(pieces_cost(len, piece) <= pieces_cost(len, piece / 2) + 1);
	}
	assert_int_equal(cost_piece(1 << 20, most), 256 * KIB);
	assert_int_equal(cost_piece(4 << 20, most), 512 * KIB);
	assert_int_equal(cost_piece(8 << 20, most), 1024 * KIB);
	/* FI_P2P_CHUNK_SIZE wins */
	assert_int_equal(cost_piece(UINT64_MAX, 1024 * KIB), 1024 * KIB);
	assert_int_equal(cost_piece(UINT64_MAX, 300 * KIB), 300 * KIB);
	assert_int_equal(cost_piece(1, 16 * KIB), 16 * KIB);
}

int main(int argc, char **argv)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_crossing),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_cheaper),
		cmocka_unit_test(test_pieces),
	};
	static const struct unit unit = {.tests = tests, .test_count = UNIT_COUNT(tests)};

	return unit_main(argc, argv, &unit);
}
