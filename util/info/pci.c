/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What sysfs knows of GPUs: their BARs, and those that no runtime offers. See info.h. */
#include "info.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PCI_DEVICES "/sys/bus/pci/devices"

/* Flags of a resource, as the kernel has them */
#define PCI_RESOURCE_MEM 0x200
#define PCI_RESOURCE_PREFETCH 0x2000

/* Class codes of devices that may be GPUs: VGA, 3D, other displays, accelerators */
static const long pci_gpu_classes[] = {0x0300, 0x0302, 0x0380, 0x1200};

static const struct {
	long id;
	const char *name;
} pci_vendors[] = {{0x10de, "NVIDIA"}, {0x1002, "AMD"}};

/* The largest BAR that may be mapped whole. NVIDIA calls it BAR1. */
static uint64_t pci_bar(const char *address)
{
	char *path = info_file(PCI_DEVICES "/%s/resource", address);
	FILE *file = fopen(path, "re");
	uint64_t first, last, flags, largest = 0;

	if (!file)
		return 0;
	while (fscanf(file, "%" SCNx64 " %" SCNx64 " %" SCNx64, &first, &last, &flags) == 3) {
		if (flags & PCI_RESOURCE_MEM && flags & PCI_RESOURCE_PREFETCH && last > first &&
		    last - first + 1 > largest)
			largest = last - first + 1;
	}
	fclose(file);
	return largest;
}

static const char *pci_gpu_vendor(const char *address)
{
	long class = info_file_number(-1, PCI_DEVICES "/%s/class", address) >> 8;
	long vendor = info_file_number(-1, PCI_DEVICES "/%s/vendor", address);
	bool gpu = false;

	for (size_t i = 0; i < INFO_COUNT(pci_gpu_classes); i++)
		gpu |= class == pci_gpu_classes[i];
	for (size_t i = 0; gpu && i < INFO_COUNT(pci_vendors); i++) {
		if (vendor == pci_vendors[i].id)
			return pci_vendors[i].name;
	}
	return NULL;
}

static bool pci_in_use(const struct info *info, const char *address)
{
	for (size_t i = 0; i < info->gpu_count; i++) {
		if (info->gpus[i].pci && !strcmp(info->gpus[i].pci, address))
			return true;
	}
	return false;
}

void info_gpus_pci(struct info *info)
{
	struct info_unused *unused;
	const char *vendor;
	char **names;
	size_t count;

	for (size_t i = 0; i < info->gpu_count; i++) {
		struct info_gpu *gpu = &info->gpus[i];

		if (!gpu->pci)
			continue;
		gpu->bar = pci_bar(gpu->pci);
		gpu->numa = (int) info_file_number(-1, PCI_DEVICES "/%s/numa_node", gpu->pci);
	}
	count = info_file_names(&names, PCI_DEVICES);
	for (size_t i = 0; i < count; i++) {
		vendor = pci_gpu_vendor(names[i]);
		if (!vendor || pci_in_use(info, names[i]))
			continue;
		unused = info_append(&info->unused, &info->unused_count, sizeof *unused);
		unused->pci = names[i];
		unused->vendor = vendor;
		unused->driver = info_file_link(PCI_DEVICES "/%s/driver", names[i]);
	}
	free(names);
}
