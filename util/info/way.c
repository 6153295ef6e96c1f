/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What lies between a NIC and a GPU. See info.h.
 *
 * hwloc tells how far they are apart. The configuration of the bridges on the way tells whether
 * they send the traffic between the two through the root complex (ACS).
 */
#include "info.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"

/* ---- distance ---- */

#if HAVE_HWLOC
#include <hwloc.h>

static hwloc_topology_t way_topology(void)
{
	static hwloc_topology_t topology;

	if (topology)
		return topology;
	/* bridges with one device behind them matter, too */
	if (hwloc_topology_init(&topology) ||
	    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL) ||
	    hwloc_topology_load(topology)) {
		topology = NULL;
		return NULL;
	}
	return topology;
}

static hwloc_obj_t way_common(hwloc_obj_t a, hwloc_obj_t b)
{
	for (hwloc_obj_t up = a->parent; up; up = up->parent) {
		for (hwloc_obj_t other = b->parent; other; other = other->parent) {
			if (up == other)
				return up;
		}
	}
	return NULL;
}

/* For devices on different root complexes */
static enum info_distance way_by_numa(hwloc_topology_t topology, hwloc_obj_t a, hwloc_obj_t b)
{
	hwloc_obj_t near_a = hwloc_get_non_io_ancestor_obj(topology, a);
	hwloc_obj_t near_b = hwloc_get_non_io_ancestor_obj(topology, b);

	if (!near_a || !near_b || !near_a->nodeset || !near_b->nodeset ||
	    hwloc_bitmap_weight(near_a->nodeset) != 1 ||
	    hwloc_bitmap_weight(near_b->nodeset) != 1)
		return INFO_FAR_UNKNOWN;
	return hwloc_bitmap_isequal(near_a->nodeset, near_b->nodeset) ? INFO_SAME_NUMA
								      : INFO_ACROSS;
}

static void way_measure(struct info_way *way, const char *nic, const char *gpu)
{
	hwloc_topology_t topology = way_topology();
	hwloc_obj_t a, b, common;

	way->why = "hwloc finds no topology";
	if (!topology)
		return;
	a = hwloc_get_pcidev_by_busidstring(topology, nic);
	b = hwloc_get_pcidev_by_busidstring(topology, gpu);
	way->why = "hwloc does not see both devices";
	common = a && b ? way_common(a, b) : NULL;
	if (!common)
		return;
	if (common->type != HWLOC_OBJ_BRIDGE)
		way->distance = way_by_numa(topology, a, b);
	else if (common->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI)
		way->distance = INFO_SAME_SWITCH;
	else
		way->distance = INFO_SAME_ROOT;
	way->why = way->distance == INFO_FAR_UNKNOWN ? "their NUMA nodes are not known" : NULL;
}

#else

static void way_measure(struct info_way *way, const char *nic, const char *gpu)
{
	way->why = "built without hwloc";
}

#endif

/* ---- ACS ---- */

/*
 * In PCI Express: where extended capabilities begin, and the number of access control services
 */
#define ACS_FIRST 0x100
#define ACS_CAPABILITY 0x000d
#define ACS_CONTROL 6
/* The bridge redirects requests, or their completions, between devices below it to upstream */
#define ACS_REDIRECT (1 << 2 | 1 << 3)

#define CONFIG_SIZE 4096
/* The bytes that a user without permission for all may read */
#define CONFIG_PUBLIC 64

/*
 * The devices on the way from the root complex to @address, that one included, in the order of
 * its path. The list ends with NULL, and the caller frees it. NULL: not known.
 */
static char **way_route(const char *address)
{
	char *link = info_file("/sys/bus/pci/devices/%s", address);
	char *path = realpath(link, NULL), *save, **route = NULL;
	unsigned int domain, bus, device, function;
	size_t count = 0;
	char tail;

	for (char *part = path ? strtok_r(path, "/", &save) : NULL; part;
	     part = strtok_r(NULL, "/", &save)) {
		if (sscanf(part, "%x:%x:%x.%x%c", &domain, &bus, &device, &function, &tail) ==
		    4)
			*(char **) info_append(&route, &count, sizeof *route) =
				info_text("%s", part);
	}
	if (route)
		info_append(&route, &count, sizeof *route);
	free(path);
	return route;
}

static enum info_answer way_redirects(const char *bridge)
{
	char *path = info_file("/sys/bus/pci/devices/%s/config", bridge);
	int fd = open(path, O_RDONLY | O_CLOEXEC), steps = CONFIG_SIZE / 8;
	unsigned char config[CONFIG_SIZE] = {0};
	ssize_t len = fd < 0 ? 0 : read(fd, config, sizeof config);
	size_t at = ACS_FIRST;

	if (fd >= 0)
		close(fd);
	if (len <= CONFIG_PUBLIC)
		return INFO_UNKNOWN;
	/* a malformed list must not make this loop endless */
	while (at >= ACS_FIRST && at + 8 <= (size_t) len && steps--) {
		if ((config[at] | config[at + 1] << 8) == ACS_CAPABILITY)
			return config[at + ACS_CONTROL] & ACS_REDIRECT ? INFO_YES : INFO_NO;
		at = (config[at + 2] | config[at + 3] << 8) >> 4;
	}
	return INFO_NO;
}

/* Looks at the bridges above a device, from number @first on */
static void way_ask_bridges(struct info_way *way, char *const *route, size_t first)
{
	enum info_answer redirects;

	for (size_t i = first; route[i] && route[i + 1]; i++) {
		redirects = way_redirects(route[i]);
		if (redirects == INFO_YES)
			way->bridges = way->bridges ? info_text("%s %s", way->bridges, route[i])
						    : info_text("%s", route[i]);
		if (redirects == INFO_YES || (redirects == INFO_UNKNOWN && way->acs == INFO_NO))
			way->acs = redirects;
	}
}

static void way_ask_acs(struct info_way *way, const char *nic, const char *gpu)
{
	char **a = way_route(nic), **b = way_route(gpu);
	size_t common = 0;

	if (a && b) {
		while (a[common] && b[common] && !strcmp(a[common], b[common]))
			common++;
		way->acs = INFO_NO;
		way_ask_bridges(way, a, common);
		way_ask_bridges(way, b, common);
	}
	free(a);
	free(b);
}

void info_ways(struct info *info)
{
	for (size_t i = 0; i < info->nic_count; i++) {
		struct info_nic *nic = &info->nics[i];
		size_t count = 0;

		while (count < info->gpu_count) {
			const struct info_gpu *gpu = &info->gpus[count];
			struct info_way *way = info_append(&nic->ways, &count, sizeof *way);

			if (!nic->pci || !gpu->pci) {
				way->why = "not both have a PCI address";
				continue;
			}
			way_measure(way, nic->pci, gpu->pci);
			way_ask_acs(way, nic->pci, gpu->pci);
		}
	}
}
