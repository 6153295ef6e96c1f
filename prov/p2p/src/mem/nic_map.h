/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Device memory that the NIC reads and writes itself: how the NIC gets it, and what is kept of
 * that. No other file calls the core's fi_mr_regattr() for device memory.
 *
 * Two ways are tried, once for each device. The first is a dma-buf. The second is the memory's
 * address, which works where a kernel module has taught it to the NIC's driver ("peer-mem"). A
 * way that fails is remembered, with the reason in words: for good, or until it may be tried again (retry.h).
 *
 * A mapping belongs to an allocation, by its id. No id ever comes again, so a freed and re-used address finds nothing of
 * what was there before. If there is no room, the piece that was unused for longest is given back.
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

#include "base/retry.h"
#include "dev/dev.h"

/* An allocation, by its id, and its known pieces. There is at least one. */
struct nic_map_alloc {
	uint64_t id;
	LIST_HEAD(, nic_map_entry) pieces;
	UT_hash_handle hh;
};

/**
 * struct nic_map_entry - a piece of an allocation in the NIC's hands.
 * @alloc:	the allocation
 * @start:	where the piece begins
 * @len:	its length [bytes]
 * @access:	what it was registered for
 * @mr:		the core's region; NULL: it was refused
 * @why:	why it was refused; @retry: when to ask again
 * @users:	how many have it from nic_map_get()
 */
struct nic_map_entry {
	struct nic_map_alloc *alloc;
	uintptr_t start;
	size_t len;
	uint64_t access;
	struct fid_mr *mr;
	const char *why;
	struct retry retry;
	unsigned int users;
	LIST_ENTRY(nic_map_entry) piece;
	TAILQ_ENTRY(nic_map_entry) used;
};

/* The ways to give a device's memory to the NIC */
enum nic_map_way { MAP_DMABUF, MAP_PEERMEM, MAP_WAYS };

/**
 * struct nic_map_device - what is known of one device.
 * @worked:	some of its memory is or was in the NIC's hands
 * @closed:	the ways that cannot work; @again: when to try again those that have worked for nothing so far
 * @why:	for each of them, the reason
 * @all:	the reasons in one sentence, once all ways are closed
 */
struct nic_map_device {
	const struct dev_ops *ops;
	int ordinal;
	bool worked;
	bool closed[MAP_WAYS];
	struct retry again[MAP_WAYS];
	char why[MAP_WAYS][128];
	char all[288];
	LIST_ENTRY(nic_map_device) entry;
};

/**
 * struct nic_map - one domain's mappings.
 * @domain:	the core's domain; NULL: nothing can be mapped
 * @why:	if there is no @domain: why
 * @dmabuf:	libfabric can register dma-bufs
 * @allocs:	the allocations, by id
 * @used:	all pieces, with what was used last at the end
 * @count:	how many pieces there are
 * @bytes:	the length of those with a region [bytes]
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

/* This registration flag keeps a region out of the core's cache (QUIRK_STALE_MR) */
#define MAP_FLAG_NOCACHE (1ULL << 60)

/*
 * @domain: the core's; NULL: nothing can be mapped. @why says why, and is not copied. @dmabuf:
 * libfabric can register dma-bufs.
 */
void nic_map_init(struct nic_map *map, struct fid_domain *domain, const char *why, bool dmabuf);

/* Gives back what is not in use. At nic_map_fini() nothing may be in use any more. */
void nic_map_trim(struct nic_map *map);
void nic_map_fini(struct nic_map *map);

/*
 * Gives the @len bytes at @addr to the NIC for @access (fi_mr(3)), or finds them given. They
 * lie in the allocation @mem. Fills @entry for nic_map_put(), and counts in @stats. Returns 0,
 * or a negative error with @why, which lives as long as @map.
 */
int nic_map_get(struct nic_map *map, struct fi_p2p_stats *stats, const struct dev_mem *mem,
		const void *addr, size_t len, uint64_t access, struct nic_map_entry **entry,
		const char **why);
void nic_map_put(struct nic_map_entry *entry);

/* Is a way open to the memory of @mem's device, as far as is known without trying? If not, @why is as above. */
bool nic_map_possible(struct nic_map *map, const struct dev_mem *mem, const char **why);

#endif /* P2P_NIC_MAP_H */
