/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The kernel: its release, modules, IOMMU. See info.h. */
#include "info.h"

#include <stdlib.h>
#include <string.h>

static const char *const system_modules[] = {
	"nvidia",      "nvidia_uvm", "nvidia_peermem", "nv_peer_mem", "gdrdrv",  "amdgpu",
	"ib_peer_mem", "ib_core",    "ib_uverbs",      "rdma_ucm",    "mlx5_ib", "irdma",
	"bnxt_re",     "efa",        "rdma_rxe",       "siw",         "udmabuf",
};

static void system_add_modules(struct info_system *system)
{
	struct info_module *module;

	for (size_t i = 0; i < INFO_COUNT(system_modules); i++) {
		module = info_append(&system->modules, &system->module_count, sizeof *module);
		module->name = system_modules[i];
		module->loaded = info_file_there("/sys/module/%s", module->name);
		module->version = info_file_line("/sys/module/%s/version", module->name);
	}
}

/* The words of the kernel's command line that are about the IOMMU */
static const char *system_iommu_words(void)
{
	char *line = info_file_line("/proc/cmdline"), *words = NULL, *save;

	if (!line)
		return NULL;
	for (char *word = strtok_r(line, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		if (!strstr(word, "iommu"))
			continue;
		words = words ? info_text("%s %s", words, word) : word;
	}
	return words;
}

/* The kernel's default is taken to be what most devices' groups have */
static enum info_iommu system_iommu(void)
{
	size_t direct = 0, known = 0, groups, units;
	char **names, *type;

	if (!info_file_there("/sys/class"))
		return INFO_IOMMU_UNKNOWN;
	units = info_file_names(&names, "/sys/class/iommu");
	free(names);
	if (!units)
		return INFO_IOMMU_OFF;
	groups = info_file_names(&names, "/sys/kernel/iommu_groups");
	for (size_t i = 0; i < groups; i++) {
		type = info_file_line("/sys/kernel/iommu_groups/%s/type", names[i]);
		known += type != NULL;
		direct += type && !strcmp(type, "identity");
	}
	free(names);
	if (!groups || known < groups)
		return INFO_IOMMU_UNKNOWN;
	return 2 * direct > groups ? INFO_IOMMU_PASSTHROUGH : INFO_IOMMU_TRANSLATES;
}

void info_system(struct info_system *system)
{
	char *version = info_file_line("/proc/driver/nvidia/version");

	system->kernel = info_file_line("/proc/sys/kernel/osrelease");
	system_add_modules(system);
	system->iommu_words = system_iommu_words();
	system->iommu = system_iommu();
	if (version)
		system->nvidia_open =
			strstr(version, "Open Kernel Module") ? INFO_YES : INFO_NO;
}
