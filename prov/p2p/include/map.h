/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rank 2: device memory that the NIC reads and writes itself: how it is given to the NIC,
 * and what is kept so. The only caller of the core's fi_mr_regattr() for device memory.
 *
 * Two ways are tried, once for each device: a dma-buf, then the memory's address, which
 * works where a kernel module has taught the NIC's driver about it ("peer-mem"). What
 * fails for good is remembered, with the reason in words.
 *
 * A mapping belongs to an allocation, by its id, which no other allocation ever has: a
 * freed and re-used address finds nothing of what was there before. What is not in use
 * makes room for others, what was not used for longest first.
 *
 * The caller's lock guards a map.
 */
#ifndef P2P_MAP_H
#define P2P_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_ext_p2p.h>

/* a library does not end the process when memory is short */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "dev.h"

/* An allocation, by its id, and the pieces of it that are known; there is at least one */
struct map_alloc {
	uint64_t id;
	LIST_HEAD(, map_entry) pieces;
	UT_hash_handle hh;
};

/**
 * struct map_entry - a piece of an allocation in the NIC's hands.
 * @alloc:	which
 * @start, @len: the piece
 * @access:	what it was registered for
 * @mr:		the core's region; NULL: it was refused, because of @why
 * @users:	who has it from map_get()
 */
struct map_entry {
	struct map_alloc *alloc;
	uintptr_t start;
	size_t len;
	uint64_t access;
	struct fid_mr *mr;
	const char *why;
	unsigned int users;
	LIST_ENTRY(map_entry) piece;
	TAILQ_ENTRY(map_entry) used;
};

/* How a device's memory is given to the NIC */
enum map_way {
	MAP_DMABUF,
	MAP_PEERMEM,
	MAP_WAYS
};

/**
 * struct map_device - what is known of one device.
 * @worked:	some of its memory is or was in the NIC's hands
 * @closed:	ways that cannot work
 * @why:	for each of them, the reason
 * @all:	the reasons in one sentence, once all ways are closed
 */
struct map_device {
	const struct dev_ops *ops;
	int ordinal;
	bool worked;
	bool closed[MAP_WAYS];
	char why[MAP_WAYS][128];
	char all[288];
	LIST_ENTRY(map_device) entry;
};

/**
 * struct map - one domain's mappings.
 * @domain:	the core's domain; NULL: nothing can be mapped, because of @why
 * @allocs:	by id
 * @used:	all pieces, what was used last at the end
 * @count:	how many; @bytes of those with a region
 */
struct map {
	struct fid_domain *domain;
	const char *why;
	struct map_alloc *allocs;
	TAILQ_HEAD(, map_entry) used;
	LIST_HEAD(, map_device) devices;
	size_t count;
	size_t bytes;
};

/*
 * Registration flag that keeps a region out of the core's cache, which knows nothing of
 * freed device memory
 */
#define MAP_FLAG_NOCACHE (1ULL << 60)

/* @domain: the core's; or NULL, and @why nothing can be mapped (kept, not copied) */
void map_init(struct map *map, struct fid_domain *domain, const char *why);

/* Gives back what is not in use; map_fini() wants nothing to be in use any more */
void map_trim(struct map *map);
void map_fini(struct map *map);

/*
 * Gives the @len bytes at @addr, which lie in the allocation @mem, to the NIC for @access
 * (fi_mr(3)) or finds them given. Fills @entry, for map_put(), or returns a negative error
 * with @why (which lives as long as @map). Counts in @stats.
 */
int map_get(struct map *map, struct fi_p2p_stats *stats, const struct dev_mem *mem,
	    const void *addr, size_t len, uint64_t access, struct map_entry **entry,
	    const char **why);
void map_put(struct map_entry *entry);

/*
 * Is a way open to @mem's device, as far as is known without trying? Else @why not, as
 * above.
 */
bool map_possible(struct map *map, const struct dev_mem *mem, const char **why);

#endif /* P2P_MAP_H */
