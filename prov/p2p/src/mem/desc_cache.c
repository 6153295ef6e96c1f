/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the descriptors of buffers tell. See desc_cache.h. */
#include "mem/desc_cache.h"

#include <stdlib.h>

#include "mem/mem.h"

/* A descriptor is the address of a record of the core's. Such records are longer than a cache line. */
static inline size_t desc_cache_index(const void *desc)
{
	uintptr_t n = (uintptr_t) desc;

	return (n >> 6 ^ n >> 15) % DESC_SETS;
}

/*
 * A reader that gets a part of the new values also sees the odd version, or a later one at its
 * end: the orders below make that so. So it does not trust such values.
 */
static void desc_cache_host_set(struct desc_cache_host *host, const void *desc, uintptr_t start,
				size_t len)
{
	unsigned int version = host->version;

	__atomic_store_n(&host->version, version + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&host->desc, desc, __ATOMIC_RELEASE);
	__atomic_store_n(&host->start, start, __ATOMIC_RELEASE);
	__atomic_store_n(&host->len, len, __ATOMIC_RELEASE);
	__atomic_store_n(&host->version, version + 2, __ATOMIC_RELEASE);
}

void desc_cache_fini(struct desc_cache *book)
{
	free(book->sets);
}

/* Is there room to note anything? */
static bool desc_cache_begin(struct desc_cache *book)
{
	struct desc_cache_set *sets;

	if (book->sets)
		return true;
	sets = calloc(DESC_SETS, sizeof *sets);
	__atomic_store_n(&book->sets, sets, __ATOMIC_RELEASE);
	return sets;
}

void desc_cache_host_add(struct desc_cache *book, const void *desc, const struct iovec *iov)
{
	struct desc_cache_set *set;
	size_t way = 0;

	if (!desc_cache_begin(book))
		return;
	set = &book->sets[desc_cache_index(desc)];
	while (way < DESC_WAYS && set->host[way].desc)
		way++;
	if (way == DESC_WAYS)
		way = set->next++ % DESC_WAYS;
	desc_cache_host_set(&set->host[way], desc, (uintptr_t) iov->iov_base, iov->iov_len);
}

void desc_cache_host_remove(struct desc_cache *book, const void *desc, const struct iovec *iov)
{
	struct desc_cache_set *set;
	struct desc_cache_host *host;

	if (!book->sets)
		return;
	set = &book->sets[desc_cache_index(desc)];
	for (host = set->host; host < set->host + DESC_WAYS; host++) {
		if (host->desc == desc && host->start == (uintptr_t) iov->iov_base &&
		    host->len == iov->iov_len) {
			desc_cache_host_set(host, NULL, 0, 0);
			return;
		}
	}
}

/* Is @host a region of @desc's that holds the buffer? Another thread may write it meanwhile. */
static bool desc_cache_host_is(const struct desc_cache_host *host, const void *desc,
			       const void *addr, size_t len)
{
	unsigned int version = __atomic_load_n(&host->version, __ATOMIC_ACQUIRE);
	const void *known = __atomic_load_n(&host->desc, __ATOMIC_ACQUIRE);
	uintptr_t offset = (uintptr_t) addr - __atomic_load_n(&host->start, __ATOMIC_ACQUIRE);
	size_t size = __atomic_load_n(&host->len, __ATOMIC_ACQUIRE);

	return known == desc && offset <= size && len <= size - offset && !(version & 1) &&
	       version == __atomic_load_n(&host->version, __ATOMIC_RELAXED);
}

/* Tells whether a descriptor is known to cover this host memory. */
static bool desc_cache_host_holds(const struct desc_cache *book, const void *desc,
				  const void *addr, size_t len)
{
	const struct desc_cache_set *sets = __atomic_load_n(&book->sets, __ATOMIC_ACQUIRE);
	const struct desc_cache_host *host;
	bool holds = false;

	if (!desc || !sets)
		return false;
	host = sets[desc_cache_index(desc)].host;
	for (size_t way = 0; !holds && way < DESC_WAYS; way++)
		holds = desc_cache_host_is(&host[way], desc, addr, len);
	return holds;
}

bool desc_cache_host(const struct desc_cache *book, const struct iovec *iov, void *const *desc,
		     size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (!desc ||
		    !desc_cache_host_holds(book, desc[i], iov[i].iov_base, iov[i].iov_len))
			return false;
	}
	return true;
}

int desc_cache_find_device(const struct desc_cache *book, const void *addr, size_t len,
			   const void *desc, struct dev_mem *mem)
{
	int ret;

	if (cell_mine(book->cells, desc))
		return 1;
	if (desc_cache_host_holds(book, desc, addr, len))
		return 0;
	ret = mem_find_device(addr, len, mem);
	return ret || !len || mem_readable(addr) ? ret : -FI_EFAULT;
}
