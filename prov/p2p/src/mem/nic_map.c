/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Device memory in the NIC's hands. See nic_map.h. */
#include "mem/nic_map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <rdma/fi_errno.h>

#include "base/base.h"
#include "base/conf.h"
#include "base/libfabric.h"
#include "base/log.h"
#include "base/trace.h"

void nic_map_init(struct nic_map *map, struct fid_domain *domain, const char *why, bool dmabuf)
{
	*map = (struct nic_map){.domain = domain, .why = why, .dmabuf = dmabuf};
	TAILQ_INIT(&map->used);
	LIST_INIT(&map->devices);
}

/* ---- entries ---- */

static void nic_map_entry_free(struct nic_map *map, struct nic_map_entry *entry)
{
	struct nic_map_alloc *alloc = entry->alloc;

	LIST_REMOVE(entry, piece);
	if (LIST_EMPTY(&alloc->pieces)) {
		HASH_DELETE(hh, map->allocs, alloc);
		free(alloc);
	}
	TAILQ_REMOVE(&map->used, entry, used);
	map->count--;
	if (entry->mr) {
		map->bytes -= entry->len;
		fi_close(&entry->mr->fid);
	}
	free(entry);
}

void nic_map_trim(struct nic_map *map)
{
	struct nic_map_entry *entry, *next;

	for (entry = TAILQ_FIRST(&map->used); entry; entry = next) {
		next = TAILQ_NEXT(entry, used);
		if (!entry->users)
			nic_map_entry_free(map, entry);
	}
}

void nic_map_fini(struct nic_map *map)
{
	struct nic_map_device *device;

	nic_map_trim(map);
	while ((device = LIST_FIRST(&map->devices))) {
		LIST_REMOVE(device, entry);
		free(device);
	}
}

/* Gives back the piece that was not used for longest. @held: only pieces that the NIC has count. False: all are in use. */
static bool nic_map_evict(struct nic_map *map, struct fi_p2p_stats *stats, bool held)
{
	struct nic_map_entry *entry;

	TAILQ_FOREACH(entry, &map->used, used) {
		if (entry->users || (held && !entry->mr))
			continue;
		stats->evictions += entry->mr != NULL;
		P2P_TRACE(map_evict, entry->start, entry->len);
		nic_map_entry_free(map, entry);
		return true;
	}
	return false;
}

/* Makes room for one piece more, and for @len <= conf.map_size bytes. False: too much is in use. */
static bool nic_map_make_place(struct nic_map *map, struct fi_p2p_stats *stats)
{
	while (map->count >= conf.map_count) {
		if (!nic_map_evict(map, stats, false))
			return false;
	}
	return true;
}

static bool nic_map_make_room(struct nic_map *map, struct fi_p2p_stats *stats, size_t len)
{
	while (map->bytes > conf.map_size - len) {
		if (!nic_map_evict(map, stats, true))
			return false;
	}
	return true;
}

static struct nic_map_entry *nic_map_entry_find(struct nic_map *map, const struct dev_mem *mem,
						uintptr_t start, size_t len, uint64_t access)
{
	struct nic_map_alloc *alloc;
	struct nic_map_entry *entry;

	HASH_FIND(hh, map->allocs, &mem->id, sizeof mem->id, alloc);
	if (!alloc)
		return NULL;
	LIST_FOREACH(entry, &alloc->pieces, piece) {
		if (entry->access == access && start >= entry->start &&
		    start - entry->start + len <= entry->len)
			return entry;
	}
	return NULL;
}

/* The allocation with this id. A new one has no piece yet. */
static struct nic_map_alloc *nic_map_alloc_get(struct nic_map *map, uint64_t id)
{
	struct nic_map_alloc *alloc;

	HASH_FIND(hh, map->allocs, &id, sizeof id, alloc);
	if (alloc)
		return alloc;
	alloc = calloc(1, sizeof *alloc);
	if (!alloc)
		return NULL;
	alloc->id = id;
	LIST_INIT(&alloc->pieces);
	HASH_ADD(hh, map->allocs, id, sizeof id, alloc);
	if (alloc->hh.tbl)
		return alloc;
	free(alloc);
	return NULL;
}

/* An entry without a region yet */
static struct nic_map_entry *nic_map_entry_new(struct nic_map *map, uint64_t id,
					       uintptr_t start, size_t len, uint64_t access)
{
	struct nic_map_entry *entry = calloc(1, sizeof *entry);

	if (!entry)
		return NULL;
	entry->alloc = nic_map_alloc_get(map, id);
	if (!entry->alloc) {
		free(entry);
		return NULL;
	}
	entry->start = start;
	entry->len = len;
	entry->access = access;
	LIST_INSERT_HEAD(&entry->alloc->pieces, entry, piece);
	TAILQ_INSERT_TAIL(&map->used, entry, used);
	map->count++;
	return entry;
}

/* ---- devices ---- */

/* For good, unless its @again says otherwise */
static void nic_map_device_close(struct nic_map_device *device, enum nic_map_way way,
				 const char *why)
{
	static const char *const names[MAP_WAYS] = {"dma-buf", "peer-mem"};

	device->closed[way] = true;
	snprintf(device->why[way], sizeof device->why[way], "%s: %s", names[way], why);
	P2P_INFO("%s device %d, %s\n", device->ops->name, device->ordinal, device->why[way]);
	if (device->closed[MAP_DMABUF] && device->closed[MAP_PEERMEM])
		snprintf(device->all, sizeof device->all, "%s; %s", device->why[MAP_DMABUF],
			 device->why[MAP_PEERMEM]);
}

/* It was tried, and has failed before anything has worked. That may pass. */
static void nic_map_device_doubt(struct nic_map_device *device, enum nic_map_way way,
				 const char *why)
{
	if (device->worked)
		return;
	retry_failed(&device->again[way]);
	nic_map_device_close(device, way, why);
}

static bool nic_map_module_loaded(const struct dev_ops *ops)
{
	char path[96];

	for (const char *const *module = ops->modules; *module; module++) {
		snprintf(path, sizeof path, "/sys/module/%s", *module);
		if (!access(path, F_OK))
			return true;
	}
	return false;
}

/* Closes the ways that cannot work, as far as is known without trying */
static void nic_map_device_look(const struct nic_map *map, struct nic_map_device *device)
{
	char why[96];

	if (conf.pin == CONF_PIN_PEERMEM || conf.pin == CONF_PIN_NONE) {
		nic_map_device_close(device, MAP_DMABUF, "switched off by FI_P2P_PIN");
	} else if (!map->dmabuf) {
		snprintf(why, sizeof why, "libfabric %d.%d cannot register one (1.20 can)",
			 FI_MAJOR(fi_version()), FI_MINOR(fi_version()));
		nic_map_device_close(device, MAP_DMABUF, why);
	}
	if (conf.pin == CONF_PIN_DMABUF || conf.pin == CONF_PIN_NONE) {
		nic_map_device_close(device, MAP_PEERMEM, "switched off by FI_P2P_PIN");
	} else if (conf.pin == CONF_PIN_AUTO && !nic_map_module_loaded(device->ops)) {
		snprintf(why, sizeof why, "the kernel module %s is not loaded",
			 device->ops->modules[0]);
		nic_map_device_close(device, MAP_PEERMEM, why);
	}
}

static struct nic_map_device *nic_map_device_find(const struct nic_map *map,
						  const struct dev_mem *mem)
{
	struct nic_map_device *device;

	LIST_FOREACH(device, &map->devices, entry) {
		if (device->ops == mem->ops && device->ordinal == mem->ordinal)
			break;
	}
	return device;
}

static struct nic_map_device *nic_map_device_get(struct nic_map *map, const struct dev_mem *mem)
{
	struct nic_map_device *device = nic_map_device_find(map, mem);

	for (int way = 0; device && way < MAP_WAYS; way++) {
		if (device->closed[way] && device->again[way].delay)
			device->closed[way] = !retry_due(&device->again[way]);
	}
	if (device)
		return device;
	device = calloc(1, sizeof *device);
	if (!device)
		return NULL;
	device->ops = mem->ops;
	device->ordinal = mem->ordinal;
	LIST_INSERT_HEAD(&map->devices, device, entry);
	nic_map_device_look(map, device);
	return device;
}

bool nic_map_possible(struct nic_map *map, const struct dev_mem *mem, const char **why)
{
	struct nic_map_device *device;

	*why = map->why;
	if (!map->domain)
		return false;
	device = nic_map_device_get(map, mem);
	*why = device ? device->all : "out of memory";
	return device && !(device->closed[MAP_DMABUF] && device->closed[MAP_PEERMEM]);
}

/* ---- registration ---- */

static int nic_map_register(struct nic_map *map, union libfabric_mr_attr *u, uint64_t access,
			    uint64_t flags, struct fid_mr **mr)
{
	u->attr.iov_count = 1;
	u->attr.access = access;
	u->attr.iface = FI_HMEM_SYSTEM;
	return fi_mr_regattr(map->domain, &u->attr, flags, mr);
}

static const char *nic_map_refusal(int ret)
{
	return ret == -FI_ENOMEM ? "the NIC has no room for more device memory"
				 : "the NIC's driver refuses to register this memory";
}

static int nic_map_register_dmabuf(struct nic_map *map, struct nic_map_device *device,
				   const struct dev_mem *mem, struct nic_map_entry *entry)
{
	struct lf_mr_dmabuf dmabuf = {.len = entry->len};
	union libfabric_mr_attr u = {.room = {0}};
	int ret;

	ret = mem->ops->expose(mem, entry->start, entry->len, &dmabuf.fd, &dmabuf.offset,
			       &entry->why);
	if (ret == -FI_ENOSYS)
		nic_map_device_close(device, MAP_DMABUF, entry->why);
	if (ret)
		return ret;
	dmabuf.base_addr = (void *) (entry->start - dmabuf.offset);
	/* newer headers have a field of this type in the same place */
	u.attr.mr_iov = (const struct iovec *) &dmabuf;
	ret = nic_map_register(map, &u, entry->access, LF_MR_DMABUF, &entry->mr);
	close(dmabuf.fd);
	if (ret && ret != -FI_ENOMEM)
		nic_map_device_doubt(device, MAP_DMABUF,
				     "the NIC's driver refuses to register one");
	entry->why = nic_map_refusal(ret);
	return ret;
}

static int nic_map_register_peermem(struct nic_map *map, struct nic_map_device *device,
				    struct nic_map_entry *entry)
{
	const struct iovec iov = {(void *) entry->start, entry->len};
	union libfabric_mr_attr u = {.room = {0}};
	int ret;

	u.attr.mr_iov = &iov;
	ret = nic_map_register(map, &u, entry->access, MAP_FLAG_NOCACHE, &entry->mr);
	/* if dma-bufs work, memory that fails as one, too, says nothing about other memory */
	if (ret && ret != -FI_ENOMEM && device->closed[MAP_DMABUF])
		nic_map_device_doubt(device, MAP_PEERMEM,
				     "the NIC's driver refuses device addresses");
	entry->why = nic_map_refusal(ret);
	return ret;
}

/* Tries the ways that are open. Returns 0, or the last error with entry->why. */
static int nic_map_entry_register(struct nic_map *map, struct nic_map_device *device,
				  const struct dev_mem *mem, struct nic_map_entry *entry)
{
	int ret = -FI_EOPNOTSUPP;

	if (!device->closed[MAP_DMABUF])
		ret = nic_map_register_dmabuf(map, device, mem, entry);
	if (ret && ret != -FI_ENOMEM && !device->closed[MAP_PEERMEM])
		ret = nic_map_register_peermem(map, device, entry);
	if (ret && device->closed[MAP_DMABUF] && device->closed[MAP_PEERMEM])
		entry->why = device->all;
	return ret;
}

/* Gives a new piece to the NIC, or one that was refused before. Returns 0, or an error with entry->why. */
static int nic_map_entry_pin(struct nic_map *map, struct nic_map_device *device,
			     struct fi_p2p_stats *stats, const struct dev_mem *mem,
			     struct nic_map_entry *entry)
{
	int ret;

	/* keeps the loop below from giving this entry back */
	entry->users++;
	do {
		ret = nic_map_entry_register(map, device, mem, entry);
	} while (ret == -FI_ENOMEM && nic_map_evict(map, stats, true));
	entry->users--;
	P2P_TRACE(map_pin, entry->start, entry->len, ret, entry->why);
	if (ret) {
		P2P_INFO("%zu bytes of %s device %d at 0x%zx: %s\n", entry->len, mem->ops->name,
			 mem->ordinal, (size_t) entry->start, entry->why);
		retry_failed(&entry->retry);
		return ret;
	}
	entry->why = NULL;
	device->worked = true;
	map->bytes += entry->len;
	stats->pins++;
	return 0;
}

/* Adds a new piece: the whole allocation, or only what is asked for if the allocation is too long */
static int nic_map_add(struct nic_map *map, struct nic_map_device *device,
		       struct fi_p2p_stats *stats, const struct dev_mem *mem, uintptr_t start,
		       size_t len, uint64_t access, struct nic_map_entry **added,
		       const char **why)
{
	uintptr_t first = mem->base & ~(uintptr_t) (DEV_PAGE - 1);
	size_t all = P2P_ALIGN_UP(mem->base + mem->size - first, DEV_PAGE);
	struct nic_map_entry *entry;
	int ret;

	if (all > conf.map_size / 2) {
		all = P2P_ALIGN_UP(start + len, DEV_PAGE);
		first = start & ~(uintptr_t) (DEV_PAGE - 1);
		all -= first;
	}
	*why = "longer than FI_P2P_MAP_SIZE";
	if (all > conf.map_size)
		return -FI_EOPNOTSUPP;
	*why = "as much device memory as FI_P2P_MAP_SIZE and FI_P2P_MAP_COUNT allow is in use";
	if (!nic_map_make_place(map, stats) || !nic_map_make_room(map, stats, all))
		return -FI_ENOMEM;
	entry = nic_map_entry_new(map, mem->id, first, all, access);
	if (!entry) {
		*why = "out of memory";
		return -FI_ENOMEM;
	}
	ret = nic_map_entry_pin(map, device, stats, mem, entry);
	*why = entry->why;
	/* later there may be room, unless nothing of ours has taken any */
	if (ret == -FI_ENOMEM && map->bytes) {
		nic_map_entry_free(map, entry);
		return ret;
	}
	*added = entry;
	return 0;
}

int nic_map_get(struct nic_map *map, struct fi_p2p_stats *stats, const struct dev_mem *mem,
		const void *addr, size_t len, uint64_t access, struct nic_map_entry **found,
		const char **why)
{
	uintptr_t start = (uintptr_t) addr;
	struct nic_map_device *device;
	struct nic_map_entry *entry;
	int ret;

	if (!nic_map_possible(map, mem, why))
		return -FI_EOPNOTSUPP;
	if (start < mem->base || len > mem->size || start - mem->base > mem->size - len) {
		*why = "the buffer runs over more than one allocation";
		return -FI_EOPNOTSUPP;
	}
	device = nic_map_device_find(map, mem);
	entry = nic_map_entry_find(map, mem, start, len, access);
	if (entry) {
		stats->cache_hits += entry->mr != NULL;
		TAILQ_REMOVE(&map->used, entry, used);
		TAILQ_INSERT_TAIL(&map->used, entry, used);
		if (!entry->mr && retry_due(&entry->retry) &&
		    nic_map_make_room(map, stats, entry->len))
			nic_map_entry_pin(map, device, stats, mem, entry);
	} else {
		ret = nic_map_add(map, device, stats, mem, start, len, access, &entry, why);
		if (ret)
			return ret;
	}
	if (!entry->mr) {
		*why = entry->why;
		return -FI_EOPNOTSUPP;
	}
	entry->users++;
	*found = entry;
	return 0;
}

void nic_map_put(struct nic_map_entry *entry)
{
	entry->users--;
}
