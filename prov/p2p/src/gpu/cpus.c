/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Which processors a proxy runs on. See cpus.h. */
#include "gpu/cpus.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/conf.h"
#include "base/log.h"

/* Fewer than these, and proxies let others run after each look */
#define CPUS_MANY 4

/* Reads a list such as "0-3,8": false if it is none. */
static bool cpus_parse(const char *text, cpu_set_t *set)
{
	unsigned long first, last;
	char *end;

	CPU_ZERO(set);
	do {
		first = last = strtoul(text, &end, 10);
		if (end == text)
			return false;
		if (*end == '-') {
			text = end + 1;
			last = strtoul(text, &end, 10);
			if (end == text)
				return false;
		}
		if (first > last || last >= CPU_SETSIZE)
			return false;
		for (unsigned long cpu = first; cpu <= last; cpu++)
			CPU_SET(cpu, set);
		text = end + 1;
	} while (*end == ',');
	return *end == '\0' || *end == '\n';
}

static bool cpus_of_node(int node, cpu_set_t *set)
{
	char path[64], line[1024];
	bool found = false;
	FILE *file;

	snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", node);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (fgets(line, sizeof line, file))
		found = cpus_parse(line, set);
	fclose(file);
	return found;
}

void cpus_place(pthread_t thread, const struct gpu_dev *dev)
{
	const char *wanted = conf.proxy_cpus;
	cpu_set_t mine, set;
	int node;

	if (strcmp(wanted, "auto")) {
		if (!cpus_parse(wanted, &set) ||
		    pthread_setaffinity_np(thread, sizeof set, &set))
			P2P_WARN(
				"FI_P2P_PROXY_CPUS=%s: use processors that the process may run on, "
				"such as 0-3,8\n",
				wanted);
		return;
	}
	node = dev->mem.ops ? dev->mem.ops->node(&dev->mem) : -1;
	if (node < 0 || !cpus_of_node(node, &set) || sched_getaffinity(0, sizeof mine, &mine))
		return;
	CPU_AND(&set, &set, &mine);
	if (CPU_COUNT(&set))
		pthread_setaffinity_np(thread, sizeof set, &set);
}

bool cpus_few(void)
{
	static int few = -1;
	cpu_set_t set;

	if (few < 0)
		few = !sched_getaffinity(0, sizeof set, &set) && CPU_COUNT(&set) < CPUS_MANY;
	return few;
}
