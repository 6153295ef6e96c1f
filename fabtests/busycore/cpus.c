/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * BUSYCORE_CPUS=N: the process is told that it may run on N processors, however many there are. So threads that are
 * made for each of them stand in each other's way.
 */
#include "busycore.h"

#include <dlfcn.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

__attribute__((visibility("default"))) int sched_getaffinity(pid_t pid, size_t size,
							     cpu_set_t *set)
{
	int (*call)(pid_t pid, size_t size, cpu_set_t * set);
	const char *wish = getenv("BUSYCORE_CPUS");

	if (!wish) {
		*(void **) &call = dlsym(RTLD_NEXT, "sched_getaffinity");
		return call(pid, size, set);
	}
	memset(set, 0, size);
	for (int cpu = 0; cpu < atoi(wish); cpu++)
		CPU_SET_S(cpu, size, set);
	return 0;
}
