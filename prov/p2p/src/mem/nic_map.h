/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Device memory that the NIC reads and writes itself: how it is given to the NIC,
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
#ifndef P2P_NIC_MAP_H
#define P2P_NIC_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_ext_p2p.h>

/* a library does not end the process when memory is short */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "dev/dev.h"

/* An allocation, by its id, and the pieces of it that are known; there is at least one */
struct nic_map_alloc {
	uint64_t id;
	LIST_HEAD(, nic_map_entry) pieces;
	UT_hash_handle hh;
};

/**
 * struct nic_map_entry - a piece of an allocation in the NIC's hands.
 * @alloc:	which
 * @start, @len: the piece
 * @access:	what it was registered for
 * @mr:		the core's region; NULL: it was refused, because of @why
 * @users:	who has it from nic_map_get()
 */
struct nic_map_entry {
	struct nic_map_alloc *alloc;
	uintptr_t start;
	size_t len;
	uint64_t access;
	struct fid_mr *mr;
	const char *why;
	unsigned int users;
	LIST_ENTRY(nic_map_entry) piece;
	TAILQ_ENTRY(nic_map_entry) used;
};

/* How a device's memory is given to the NIC */
enum nic_map_way { MAP_DMABUF, MAP_PEERMEM, MAP_WAYS };

/**
 * struct nic_map_device - what is known of one device.
 * @worked:	some of its memory is or was in the NIC's hands
 * @closed:	ways that cannot work
 * @why:	for each of them, the reason
 * @all:	the reasons in one sentence, once all ways are closed
 */
struct nic_map_device {
	const struct dev_ops *ops;
	int ordinal;
	bool worked;
	bool closed[MAP_WAYS];
	char why[MAP_WAYS][128];
	char all[288];
	LIST_ENTRY(nic_map_device) entry;
};

/**
 * struct nic_map - one domain's mappings.
 * @domain:	the core's domain; NULL: nothing can be mapped, because of @why
 * @dmabuf:	libfabric can register dma-bufs
 * @allocs:	by id
 * @used:	all pieces, what was used last at the end
 * @count:	how many; @bytes of those with a region
 */
struct nic_map {
	struct fid_domain *domain;
	const char *why;
	bool dmabuf;
	struct nic_map_alloc *allocs;
	TAILQ_HEAD(, nic_map_entry) used;
	LIST_HEAD(, nic_map_device) devices;
	size_t count;
	size_t bytes;
};

/* Registration flag that keeps a region out of the core's cache (QUIRK_STALE_MR) */
#define MAP_FLAG_NOCACHE (1ULL << 60)

/*
 * @domain: the core's; or NULL, and @why nothing can be mapped (kept, not copied); @dmabuf:
 * libfabric can register dma-bufs
 */
void nic_map_init(struct nic_map *map, struct fid_domain *domain, const char *why, bool dmabuf);

/* Gives back what is not in use; nic_map_fini() wants nothing to be in use any more */
void nic_map_trim(struct nic_map *map);
void nic_map_fini(struct nic_map *map);

/*
 * Gives the @len bytes at @addr, which lie in the allocation @mem, to the NIC for @access
 * (fi_mr(3)) or finds them given. Fills @entry, for nic_map_put(), or returns a negative error
 * with @why (which lives as long as @map). Counts in @stats.
 */
int nic_map_get(struct nic_map *map, struct fi_p2p_stats *stats, const struct dev_mem *mem,
		const void *addr, size_t len, uint64_t access, struct nic_map_entry **entry,
		const char **why);
void nic_map_put(struct nic_map_entry *entry);

/*
 * Is a way open to @mem's device, as far as is known without trying? Else @why not, as
 * above.
 */
bool nic_map_possible(struct nic_map *map, const struct dev_mem *mem, const char **why);

#endif /* P2P_NIC_MAP_H */
