/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Verbs devices, from sysfs. See info.h. */
#include "info.h"

#include <stdlib.h>
#include <string.h>

#define NIC_CLASS "/sys/class/infiniband"

/* The word behind the number in "4: ACTIVE" or "1: CA" */
static const char *nic_word(char *line)
{
	char *colon = line ? strchr(line, ':') : NULL;

	return colon ? colon + 1 + strspn(colon + 1, " ") : line;
}

static void nic_ports(struct info_nic *nic)
{
	struct info_port *port;
	char **names;
	size_t count = info_file_names(&names, NIC_CLASS "/%s/ports", nic->name);

	for (size_t i = 0; i < count; i++) {
		port = info_append(&nic->ports, &nic->port_count, sizeof *port);
		port->number = names[i];
		port->state = nic_word(
			info_file_line(NIC_CLASS "/%s/ports/%s/state", nic->name, names[i]));
		port->link = info_file_line(NIC_CLASS "/%s/ports/%s/link_layer", nic->name,
					    names[i]);
		port->rate = info_file_line(NIC_CLASS "/%s/ports/%s/rate", nic->name, names[i]);
	}
	free(names);
}

void info_nics(struct info *info)
{
	struct info_nic *nic;
	char **names;
	size_t count = info_file_names(&names, NIC_CLASS);

	for (size_t i = 0; i < count; i++) {
		nic = info_append(&info->nics, &info->nic_count, sizeof *nic);
		nic->name = names[i];
		nic->type = nic_word(info_file_line(NIC_CLASS "/%s/node_type", names[i]));
		nic->firmware = info_file_line(NIC_CLASS "/%s/fw_ver", names[i]);
		nic->driver = info_file_link(NIC_CLASS "/%s/device/driver", names[i]);
		nic->pci = info_file_link(NIC_CLASS "/%s/device", names[i]);
		nic->numa =
			(int) info_file_number(-1, NIC_CLASS "/%s/device/numa_node", names[i]);
		nic_ports(nic);
		info_nic_try_dmabuf(nic, info);
	}
	free(names);
}
