/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the descriptor of a buffer tells about it, so that nobody need ask the driver.
 *
 * Descriptors of device memory that the core provider has no region of are ours, and lie in cells. Descriptors of host
 * memory are the core's own. They may be known while that memory is registered.
 *
 * The owner's lock guards adding and removing. A look takes no lock.
 */
#ifndef P2P_DESC_CACHE_H
#define P2P_DESC_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/cell.h"
#include "dev/dev.h"

/* Each descriptor has one of these indices, and each index has some places. */
#define DESC_SETS 512
#define DESC_WAYS 4

/* A region of host memory, and the core's descriptor of it. @version is odd while it is written. */
struct desc_cache_host {
	const void *desc;
	uintptr_t start;
	size_t len;
	unsigned int version;
};

/* @next: the place that is taken next if none is free */
struct desc_cache_set {
	struct desc_cache_host host[DESC_WAYS];
	unsigned int next;
};

/**
 * struct desc_cache - the descriptors of one domain; all zero but for @cells at first.
 * @cells:	where our descriptors lie, each a struct dev_mem
 * @sets:	DESC_SETS of them, from the first region of host memory on
 */
struct desc_cache {
	const struct cell_pool *cells;
	struct desc_cache_set *sets;
};

void desc_cache_fini(struct desc_cache *book);

/*
 * Notes a region that stays host memory as long as it is registered with the core. Both its
 * ends are host memory, and so is all of it. If its index has no free place, the region takes
 * another one's. The driver is then asked about buffers of that one.
 */
void desc_cache_host_add(struct desc_cache *book, const void *desc, const struct iovec *iov);
void desc_cache_host_remove(struct desc_cache *book, const void *desc, const struct iovec *iov);

/* Returns the allocation that one of a buffer's @count descriptors is about; NULL: none of them is ours */
static inline const struct dev_mem *desc_cache_device(const struct desc_cache *book,
						      void *const *desc, size_t count)
{
	for (size_t i = 0; desc && i < count; i++) {
		if (cell_mine(book->cells, desc[i]))
			return desc[i];
	}
	return NULL;
}

/* Tells whether the descriptors say that all of a buffer is host memory. */
bool desc_cache_host(const struct desc_cache *book, const struct iovec *iov, void *const *desc,
		     size_t count);

/*
 * Finds a buffer's device memory as mem_find_device() does, but asks the descriptor first. @desc may be NULL.
 * -FI_EFAULT, not logged: the CPU would fault there (mem_readable()).
 *
 * Returns 1 without filling @mem if @desc is ours, right or wrong for this buffer: the core must not get such a descriptor.
 */
int desc_cache_find_device(const struct desc_cache *book, const void *addr, size_t len,
			   const void *desc, struct dev_mem *mem);

#endif /* P2P_DESC_CACHE_H */
