/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Unit tests of stage.c: parts of slots, and more slots. */
#include "unit_stage.h"

#include <stdlib.h>
#include <rdma/fi_domain.h>

#include "../cudaemu/driver.h"
#include "base/conf.h"
#include "mem/stage.h"

static struct dev_mem mem;

/* Takes so many parts, of which none overlaps another, nor is in a slot of the other direction */
static void take_parts(struct stage *stage, enum stage_use use, size_t len, size_t count,
		       struct stage_slot **parts)
{
	for (size_t i = 0; i < count; i++) {
		parts[i] = stage_slot_get(stage, use, len, NULL);
		assert_non_null(parts[i]);
		assert_non_null(parts[i]->whole);
		assert_int_equal(parts[i]->whole->use, use);
		assert_true((char *) parts[i]->addr >= (char *) parts[i]->whole->addr);
		assert_true((char *) parts[i]->addr + len <=
			    (char *) parts[i]->whole->addr + stage->pools[STAGE_PIECE].size);
		unit_fill(parts[i]->addr, len, (unsigned int) i + use);
	}
}

static void put_parts(struct stage *stage, enum stage_use use, size_t len, size_t count,
		      struct stage_slot **parts)
{
	unsigned char *want = malloc(len);

	assert_non_null(want);
	for (size_t i = 0; i < count; i++) {
		unit_fill(want, len, (unsigned int) i + use);
		assert_memory_equal(parts[i]->addr, want, len);
		stage_slot_put(stage, parts[i]);
	}
	free(want);
}

/* Pieces of a quarter share slots, those of one direction alone. A slot is whole again when all have come back. */
static void test_parts(void **state)
{
	const size_t len = conf.chunk_size / STAGE_PARTS;
	struct stage_slot *out[2 * STAGE_PARTS], *in[STAGE_PARTS + 1], *whole;
	unsigned int held = 0;
	struct stage stage;
	size_t idle;

	stage_init(&stage, NULL);
	assert_int_equal(stage_ready(&stage, &mem), 0);
	idle = stage.pools[STAGE_PIECE].idle;
	take_parts(&stage, STAGE_PIECE_OUT, len, 1, out);
	assert_int_equal(stage.pools[STAGE_PIECE].idle, idle - 1);
	take_parts(&stage, STAGE_PIECE_IN, len, STAGE_PARTS + 1, in);
	assert_int_equal(stage.pools[STAGE_PIECE].idle, idle - 3);
	take_parts(&stage, STAGE_PIECE_OUT, len, 2 * STAGE_PARTS - 1, out + 1);
	assert_int_equal(stage.pools[STAGE_PIECE].idle, idle - 4);
	put_parts(&stage, STAGE_PIECE_OUT, len, 1, out);
	put_parts(&stage, STAGE_PIECE_IN, len, STAGE_PARTS + 1, in);
	assert_int_equal(stage.pools[STAGE_PIECE].idle, idle - 2);
	put_parts(&stage, STAGE_PIECE_OUT, len, 2 * STAGE_PARTS - 1, out + 1);
	assert_int_equal(stage.pools[STAGE_PIECE].idle, idle);

	whole = stage_slot_get(&stage, STAGE_PIECE_OUT, len + 1, NULL);
	assert_non_null(whole);
	assert_null(whole->whole);
	stage_slot_put(&stage, whole);
	/* a part counts for less */
	in[0] = stage_slot_get(&stage, STAGE_PIECE_IN, len, &held);
	assert_int_equal(held, 1);
	whole = stage_slot_get(&stage, STAGE_PIECE_IN, len + 1, &held);
	assert_int_equal(held, 1 + STAGE_PARTS);
	stage_slot_put(&stage, whole);
	stage_slot_put(&stage, in[0]);
	assert_int_equal(held, 0);
	stage_fini(&stage);
}

/* More slots, once, that are pinned as the others are; not where the core has registered what there is */
static void test_grow(void **state)
{
	struct stage_slot *slots[64];
	struct fid_domain domain;
	struct stage stage;
	size_t count;

	stage_init(&stage, NULL);
	assert_int_equal(stage_ready(&stage, &mem), 0);
	count = stage.pools[STAGE_PIECE].count + 5;
	assert_true(count < UNIT_COUNT(slots));
	stage.domain = &domain;
	assert_false(stage_grow(&stage, &mem, 5 * conf.chunk_size));
	stage.domain = NULL;
	assert_false(stage_grow(&stage, &mem, conf.chunk_size - 1));
	assert_true(stage_grow(&stage, &mem, 5 * conf.chunk_size + 1));
	assert_false(stage_grow(&stage, &mem, 5 * conf.chunk_size));
	assert_int_equal(stage.pools[STAGE_PIECE].count, count);
	for (size_t i = 0; i < count; i++) {
		slots[i] = stage_slot_get(&stage, STAGE_PIECE_OUT, conf.chunk_size, NULL);
		assert_non_null(slots[i]);
		assert_true(stage_pinned(&stage, slots[i]->addr));
		unit_fill(slots[i]->addr, conf.chunk_size, (unsigned int) i + STAGE_PIECE_OUT);
	}
	assert_null(stage_slot_get(&stage, STAGE_PIECE_OUT, conf.chunk_size, NULL));
	put_parts(&stage, STAGE_PIECE_OUT, conf.chunk_size, count, slots);
	stage_fini(&stage);
}

static int setup(void **state)
{
	unit_dev_start();
	assert_true(dev_find(unit_dev_alloc(16), &mem));
	return 0;
}

const struct CMUnitTest unit_stage_parts_tests[] = {
	cmocka_unit_test_setup(test_parts, setup),
	cmocka_unit_test_setup(test_grow, setup),
};
const size_t unit_stage_parts_count = UNIT_COUNT(unit_stage_parts_tests);
