/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the descriptor that comes with a buffer tells of it, so that no driver need be
 * asked. Descriptors of device memory that the core provider has no region of are ours, and lie
 * in cells; those of host memory are the core's own, and may be known while it is registered.
 *
 * The owner's lock guards adding and removing; to look takes none.
 */
#ifndef P2P_DESC_CACHE_H
#define P2P_DESC_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/cell.h"
#include "dev/dev.h"

/* Indices, which are made of descriptors, and places for each of them */
#define DESC_SETS 512
#define DESC_WAYS 4

/* A region of host memory and the core's descriptor of it. @version: odd while it is written */
struct desc_cache_host {
	const void *desc;
	uintptr_t start;
	size_t len;
	unsigned int version;
};

/* @next: the place that is taken next where none is free */
struct desc_cache_set {
	struct desc_cache_host host[DESC_WAYS];
	unsigned int next;
};

/**
 * struct desc_cache - the descriptors of one domain; begins as zeroes but for @cells.
 * @cells:	where ours lie, each a struct dev_mem
 * @sets:	DESC_SETS of them, from the first region of host memory on
 */
struct desc_cache {
	const struct cell_pool *cells;
	struct desc_cache_set *sets;
};

void desc_cache_fini(struct desc_cache *book);

/*
 * Of memory that is the host's for as long as it is registered with the core, at both ends and so
 * all of it. Of two regions with many others' index, some are not known: the driver is asked then
 */
void desc_cache_host_add(struct desc_cache *book, const void *desc, const struct iovec *iov);
void desc_cache_host_remove(struct desc_cache *book, const void *desc, const struct iovec *iov);

/* The allocation that one of a buffer's @count descriptors is about, or NULL: none is ours */
static inline const struct dev_mem *desc_cache_device(const struct desc_cache *book,
						      void *const *desc, size_t count)
{
	for (size_t i = 0; desc && i < count; i++) {
		if (cell_mine(book->cells, desc[i]))
			return desc[i];
	}
	return NULL;
}

/* Is all of a buffer host memory by its descriptors? */
bool desc_cache_host(const struct desc_cache *book, const struct iovec *iov, void *const *desc,
		     size_t count);

/*
 * mem_finds_device(), where a descriptor may tell; @desc may be NULL. It may also be ours and
 * wrong, so that the buffer must not go to the core with it: that is true, too, without @mem.
 */
bool desc_cache_finds_device(const struct desc_cache *book, const void *addr, size_t len,
			     const void *desc, struct dev_mem *mem);

#endif /* P2P_DESC_CACHE_H */
