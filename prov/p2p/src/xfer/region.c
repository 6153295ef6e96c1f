/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Memory that peers may reach. See region.h. */
#include "xfer/region.h"

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "mem/mem.h"

/* Finds a region by its key. */
static struct region *region_find(struct xfer *xfer, uint64_t key)
{
	struct region *first;

	HASH_FIND(hh, xfer->regions, &key, sizeof key, first);
	return first;
}

int region_add(struct xfer *xfer, struct region *region, bool shared)
{
	struct region *first = region_find(xfer, region->key);

	xfer_assert_locked(xfer);
	if (first && !shared) {
		P2P_WARN("key 0x%zx is in use for another region\n", (size_t) region->key);
		return -FI_ENOKEY;
	}
	if (first) {
		region->same = first->same;
		first->same = region;
		return 0;
	}
	HASH_ADD(hh, xfer->regions, key, sizeof region->key, region);
	return region->hh.tbl ? 0 : -FI_ENOMEM;
}

int region_remove(struct xfer *xfer, struct region *region)
{
	struct region *before = region_find(xfer, region->key), *next = region->same;

	xfer_assert_locked(xfer);
	if (region->users) {
		P2P_WARN("region 0x%zx is being written or read by peers\n",
			 (size_t) region->key);
		return -FI_EBUSY;
	}
	if (before != region) {
		while (before->same != region)
			before = before->same;
		before->same = next;
		return 0;
	}
	if (next) {
		HASH_ADD(hh, xfer->regions, key, sizeof next->key, next);
		if (!next->hh.tbl)
			return -FI_ENOMEM;
	}
	HASH_DELETE(hh, xfer->regions, region);
	return 0;
}

/* Tells whether an address range lies in a region. */
static bool region_covers(const struct region *region, uint64_t addr, uint64_t len)
{
	uint64_t offset = addr - region->base;

	return offset <= region->len && len <= region->len - offset;
}

/*
 * Looks again what memory that is. In all of memory, the application may be unmapping what a peer names. It should not, but
 * the driver would crash (mem/ipc_own.h). So of an allocation that is known from the last time only the id is asked for.
 */
static int region_classify(struct region *region, const struct iovec *iov, size_t count,
			   struct dev_mem *mem)
{
	const struct dev_mem *last = &region->mem;
	uint64_t id;
	const bool known = region->all && count &&
			   (uintptr_t) iov->iov_base - last->base < last->size &&
			   dev_identify(iov->iov_base, &id) == 1 && id == last->id;

	if (mem_classify(iov, count, known ? last : NULL, mem))
		return -FI_EACCES;
	if (region->all && mem->ops)
		region->mem = *mem;
	return 0;
}

int region_reach(struct xfer *xfer, uint64_t key, uint64_t addr, uint64_t len, uint64_t access,
		 struct region **region, struct iovec *iov, size_t *count, struct dev_mem *mem)
{
	struct region *first = region_find(xfer, key), *found = first;

	xfer_assert_locked(xfer);
	if (!first) {
		P2P_WARN("a peer names key 0x%zx: there is no such region\n", (size_t) key);
		return -FI_EKEYREJECTED;
	}
	while (found && (!region_covers(found, addr, len) || access & ~found->access))
		found = found->same;
	if (!found && !region_covers(first, addr, len)) {
		P2P_WARN("a peer asks for %zu bytes at 0x%zx: region 0x%zx has %zu at "
			 "0x%zx\n",
			 (size_t) len, (size_t) addr, (size_t) key, first->len,
			 (size_t) first->base);
		return -FI_EACCES;
	}
	if (!found) {
		P2P_WARN("a peer wants to %s region 0x%zx, whose access flags forbid it\n",
			 access & ~first->access & FI_REMOTE_WRITE ? "write" : "read",
			 (size_t) key);
		return -FI_EACCES;
	}
	*count = mem_iov_slice(found->iov, found->count, addr - found->base, len, iov);
	*region = found;
	*mem = found->mem;
	return found->all || mem_moved(mem) ? region_classify(found, iov, *count, mem) : 0;
}
