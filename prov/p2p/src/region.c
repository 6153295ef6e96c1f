/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Rank 4: memory that peers may reach. See region.h. */
#include "region.h"

#include <rdma/fi_errno.h>

#include "log.h"
#include "mem.h"

int region_add(struct xfer *xfer, struct region *region)
{
	struct region *other;

	HASH_FIND(hh, xfer->regions, &region->key, sizeof region->key, other);
	if (other) {
		P2P_WARN("key 0x%zx is in use for another region\n", (size_t) region->key);
		return -FI_ENOKEY;
	}
	HASH_ADD(hh, xfer->regions, key, sizeof region->key, region);
	return region->hh.tbl ? 0 : -FI_ENOMEM;
}

int region_remove(struct xfer *xfer, struct region *region)
{
	if (region->users) {
		P2P_WARN("region 0x%zx is being written or read by peers\n",
			 (size_t) region->key);
		return -FI_EBUSY;
	}
	HASH_DELETE(hh, xfer->regions, region);
	return 0;
}

int region_reach(struct xfer *xfer, uint64_t key, uint64_t addr, uint64_t len,
		 uint64_t access, struct region **region, struct iovec *iov, size_t *count)
{
	struct region *found;
	uint64_t offset;

	HASH_FIND(hh, xfer->regions, &key, sizeof key, found);
	if (!found) {
		P2P_WARN("a peer names key 0x%zx: there is no such region\n", (size_t) key);
		return -FI_EKEYREJECTED;
	}
	offset = addr - found->base;
	if (offset > found->len || len > found->len - offset) {
		P2P_WARN("a peer asks for %zu bytes at 0x%zx: region 0x%zx has %zu at "
			 "0x%zx\n",
			 (size_t) len, (size_t) addr, (size_t) key, found->len,
			 (size_t) found->base);
		return -FI_EACCES;
	}
	if (access & ~found->access) {
		P2P_WARN("a peer wants to %s region 0x%zx, whose access flags forbid it\n",
			 access & ~found->access & FI_REMOTE_WRITE ? "write" : "read",
			 (size_t) key);
		return -FI_EACCES;
	}
	*count = mem_iov_slice(found->iov, found->count, offset, len, iov);
	*region = found;
	return 0;
}
