/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Small records of one size, all from one address range. One compare tells whose a completion
 * of the core provider is: ours if and only if its context lies in that range.
 *
 * The owner's lock guards a pool. cell_mine() needs no lock.
 */
#ifndef P2P_CELL_H
#define P2P_CELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The size is an odd number of cache lines. So the beginnings of cells use all sets of a cache.
 */
#define CELL_SIZE 960
#define CELL_COUNT (1u << 17)

/* New operations leave these cells alone: operations under way need them to end */
#define CELL_SPARE (1u << 13)

struct cell_pool {
	char *base;
	uint32_t used;    /* cells handed out now */
	uint32_t touched; /* cells ever handed out: the others have no pages yet */
	void *free;       /* a list through the cells' first words; the cell put last comes
			   * first */
};

int cell_pool_init(struct cell_pool *pool);
void cell_pool_fini(struct cell_pool *pool);

/* Returns an unused cell with undefined content. NULL: all are in use */
void *cell_get(struct cell_pool *pool);
/* Puts a cell back, for the next caller of cell_get(). */
void cell_put(struct cell_pool *pool, void *cell);

/* Returns an unused cell whose first @size bytes are zero, or NULL. */
void *cell_get_zeroed(struct cell_pool *pool, size_t size);

/* Tells whether a new operation has to wait until others have ended, as few cells are left. */
static inline bool cell_scarce(const struct cell_pool *pool)
{
	return pool->used >= CELL_COUNT - CELL_SPARE;
}

/* Tells whether a pointer lies in the pool, so that a context is one of our records. */
static inline bool cell_mine(const struct cell_pool *pool, const void *ptr)
{
	return (uintptr_t) ptr - (uintptr_t) pool->base < (uintptr_t) CELL_SIZE * CELL_COUNT;
}

#endif /* P2P_CELL_H */
