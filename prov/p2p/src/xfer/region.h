/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Regions: registered memory that peers reach through us, as the core cannot reach it, or
 * the application has chosen its key. All [locked].
 */
#ifndef P2P_REGION_H
#define P2P_REGION_H

#include "xfer/xfer.h"

/**
 * struct region - one registration.
 * @key:	what peers name it by
 * @same:	the next one under the same key: it is the core's
 * @access:	FI_REMOTE_READ, FI_REMOTE_WRITE
 * @base:	the remote address of its first byte
 * @iov, @count, @len: the memory, in the allocation @mem (ops NULL: host memory)
 * @all:	it is registered as all of memory: what a peer asks for may be of any kind, and @mem is the device memory
 *		that one asked for last
 * @pmem:	how it is made durable where a peer asks for that; PMEM_NOT: it is not
 * @users:	transfers under way in it; @jobs: those of them that end whatever peers do
 */
struct region {
	uint64_t key;
	uint64_t access;
	uint64_t base;
	struct iovec iov[P2P_IOV_MAX];
	size_t count;
	size_t len;
	struct dev_mem mem;
	bool all;
	enum pmem_kind pmem;
	unsigned int users;
	unsigned int jobs;
	struct region *same;
	UT_hash_handle hh;
};

/* @shared: there may be others with this key. 0; -FI_ENOKEY: there is one; -FI_ENOMEM */
int region_add(struct xfer *xfer, struct region *region, bool shared);

/* 0, -FI_EBUSY while transfers are under way in it, or -FI_ENOMEM */
int region_remove(struct xfer *xfer, struct region *region);

/*
 * Finds the memory that a peer means by @key, @addr and @len, if it may have all of @access. Fills @iov
 * (P2P_IOV_MAX pieces) and @count, and @mem with what it is. 0, -FI_EKEYREJECTED: no such key, or -FI_EACCES:
 * outside, or not allowed; both are logged.
 */
int region_reach(struct xfer *xfer, uint64_t key, uint64_t addr, uint64_t len, uint64_t access,
		 struct region **region, struct iovec *iov, size_t *count, struct dev_mem *mem);

/*
 * Counts one more user of a region. Not [locked] by a check, as a region does not know its domain: the caller
 * holds the lock.
 */
static inline void region_hold(struct region *region)
{
	region->users++;
}

/* Counts a user of a region off. Not [locked], as above */
static inline void region_release(struct region *region)
{
	region->users--;
}

#endif /* P2P_REGION_H */
