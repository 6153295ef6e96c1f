/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Small records of one size, all from one address range. A completion of the core
 * provider is ours if and only if its context lies in that range: one compare.
 *
 * The owner's lock guards a pool; cell_mine() needs none.
 */
#ifndef P2P_CELL_H
#define P2P_CELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An odd number of cache lines, so that the beginnings of cells do not share a few sets of them */
#define CELL_SIZE 960
#define CELL_COUNT (1u << 17)

/* Kept back from new operations, for what those under way take to end */
#define CELL_SPARE (1u << 13)

struct cell_pool {
	char *base;
	uint32_t used;    /* cells handed out now */
	uint32_t touched; /* cells ever handed out: the memory behind the rest has no pages */
	void *free;       /* linked through their first word, the last one put first */
};

int cell_pool_init(struct cell_pool *pool);
void cell_pool_fini(struct cell_pool *pool);

/* An unused cell with undefined content, or NULL when all are in use */
void *cell_get(struct cell_pool *pool);
void cell_put(struct cell_pool *pool, void *cell);

/* The same with its first @size bytes zeroed */
void *cell_get_zeroed(struct cell_pool *pool, size_t size);

/* Is a new operation to wait until others have ended? */
static inline bool cell_scarce(const struct cell_pool *pool)
{
	return pool->used >= CELL_COUNT - CELL_SPARE;
}

static inline bool cell_mine(const struct cell_pool *pool, const void *ptr)
{
	return (uintptr_t) ptr - (uintptr_t) pool->base < (uintptr_t) CELL_SIZE * CELL_COUNT;
}

#endif /* P2P_CELL_H */
