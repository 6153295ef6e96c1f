/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Where devices on the PCI bus are. See dev_pci.h. */
#include "dev/dev_pci.h"

#include <stdio.h>

int dev_pci_node(int domain, int bus, int device)
{
	char path[64];
	int node = -1;
	FILE *file;

	snprintf(path, sizeof path, "/sys/bus/pci/devices/%04x:%02x:%02x.0/numa_node", domain,
		 bus, device);
	file = fopen(path, "re");
	if (!file)
		return -1;
	if (fscanf(file, "%d", &node) != 1)
		node = -1;
	fclose(file);
	return node;
}
