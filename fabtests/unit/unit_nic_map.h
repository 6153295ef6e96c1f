/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the unit tests of nic_map.c share: a device, a NIC and a libfabric that are made up,
 * and do and refuse what a test wants (unit_map_fake.c).
 */
#ifndef P2P_UNIT_MAP_H
#define P2P_UNIT_MAP_H

#include "unit.h"

#include <sys/queue.h>

#include "mem/nic_map.h"

#define PAGE ((size_t) DEV_PAGE)

/* The registration flags, as libfabric has them */
#define FLAG_DMABUF (1ULL << 40)
#define FLAG_NOCACHE (1ULL << 60)

#define ACCESS (FI_SEND | FI_RECV | FI_READ | FI_WRITE)

/**
 * struct fake_mr - a region of the NIC's.
 * @id:		of the allocation, where it came as a dma-buf
 * @users, @last: for the test: who has it, and when it was asked for last
 */
struct fake_mr {
	struct fid_mr fid;
	uint64_t id;
	uintptr_t start;
	size_t len;
	uint64_t access;
	uint64_t flags;
	unsigned int users;
	unsigned long last;
	LIST_ENTRY(fake_mr) entry;
};

/**
 * struct fake - what there is, and what is to happen.
 * @module:	the kernel module that is loaded
 * @expose_error: of the device's, with @expose_why; for the allocation @expose_id only,
 *		unless that is 0
 * @dmabuf_error, @plain_error: the NIC's, for the two ways
 * @room:	bytes that the NIC can have
 * @exposes, @asked, @closed: calls so far; @last_fd: the last dma-buf
 * @closed_last: the latest fake_mr.last of all that were closed
 * @mrs:	those open, of @bytes
 */
struct fake {
	const char *module;
	int expose_error;
	const char *expose_why;
	uint64_t expose_id;
	int dmabuf_error;
	int plain_error;
	size_t room;
	unsigned int exposes;
	unsigned int asked;
	unsigned int closed;
	int last_fd;
	unsigned long closed_last;
	LIST_HEAD(, fake_mr) mrs;
	unsigned int count;
	size_t bytes;
};

extern struct fake fake;

/* What fi_version() says, as a number and in words */
#define FAKE_VERSION FI_VERSION(1, 19)
#define FAKE_RELEASE "1.19"

/* Device modules, of which none is loaded at first; and a second runtime */
#define FAKE_MODULE "unit_peermem"
#define FAKE_MODULE_OLD "unit_peermem_old"
extern const struct dev_ops fake_dev, fake_other_dev;

/* The core's domain */
extern struct fid_domain fake_domain;

/* Around each test: a device and a NIC that refuse nothing, conf's defaults, an empty map
 */
int fake_begin(void **state);
int fake_end(void **state);

/* An allocation that never was before; the address may have been another's */
struct dev_mem fake_alloc(uintptr_t base, size_t size);

/* The map, and what nic_map_get() has answered last */
extern struct nic_map map;
extern struct fi_p2p_stats stats;
extern struct nic_map_entry *got_entry;
extern const char *got_why;

/* Where allocations of tests lie */
#define BASE ((uintptr_t) 0x7f0000000000)

/*
 * Asks for @len bytes, @offset into @mem, which must be given, for nic_map_put() or put at
 * once; or must be refused with @error and a reason that says @reason.
 */
struct fake_mr *must(const struct dev_mem *mem, size_t offset, size_t len);
void put(struct nic_map_entry *entry);
struct fake_mr *must_and_put(const struct dev_mem *mem, size_t offset, size_t len);
void must_not(const struct dev_mem *mem, size_t offset, size_t len, int error,
	      const char *reason);

/* unit_map_ways.c */
void test_ladder(void **state);
void test_possible(void **state);
void test_no_domain(void **state);
void test_refused_memory(void **state);
void test_refused_later(void **state);
void test_devices(void **state);

/* unit_map_torture.c */
void test_torture(void **state);

#endif /* P2P_UNIT_MAP_H */
