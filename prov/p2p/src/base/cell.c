/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Records of one size from one address range. See cell.h. */
#include "base/cell.h"

#include <string.h>
#include <sys/mman.h>
#include <rdma/fi_errno.h>

#include "base/log.h"

int cell_pool_init(struct cell_pool *pool)
{
	void *base = mmap(NULL, (size_t) CELL_SIZE * CELL_COUNT, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (base == MAP_FAILED) {
		P2P_WARN("no address space for %u requests\n", CELL_COUNT);
		return -FI_ENOMEM;
	}
	*pool = (struct cell_pool){.base = base};
	return 0;
}

void cell_pool_fini(struct cell_pool *pool)
{
	munmap(pool->base, (size_t) CELL_SIZE * CELL_COUNT);
}

/* Fills a free cell with a pattern, which exposes readers of undefined content and of others' cells. */
static void cell_spoil(void *cell)
{
#ifndef NDEBUG
	memset(cell, 0xa5, CELL_SIZE);
#endif
}

void *cell_get(struct cell_pool *pool)
{
	void *cell = pool->free;

	if (cell)
		pool->free = *(void **) cell;
	else if (pool->touched < CELL_COUNT)
		cell = pool->base + (size_t) CELL_SIZE * pool->touched++;
	if (!cell)
		return NULL;
	pool->used++;
	cell_spoil(cell);
	return cell;
}

void cell_put(struct cell_pool *pool, void *cell)
{
	cell_spoil(cell);
	*(void **) cell = pool->free;
	pool->free = cell;
	pool->used--;
}

void *cell_get_zeroed(struct cell_pool *pool, size_t size)
{
	void *cell = cell_get(pool);

	return cell ? memset(cell, 0, size) : NULL;
}
