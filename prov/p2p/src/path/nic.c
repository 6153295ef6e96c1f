/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The device behind a network interface. See nic.h. */
#include "path/nic.h"

#include <limits.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <rdma/fi_errno.h>

#include "base/base.h"
#include "base/conf.h"

/* From /sys/class/infiniband to the interfaces */
#define NIC_INFINIBAND "../net/"

/**
 * struct nic - all that belongs to one struct fid_nic, in one piece of memory
 * @room:	what its strings point at: the interface's name and address, and of the PCI function its vendor,
 *		its device and its driver
 */
struct nic {
	struct fid_nic nic;
	struct fi_device_attr device;
	struct fi_bus_attr bus;
	struct fi_link_attr link;
	struct {
		char name[sizeof NIC_INFINIBAND + IFNAMSIZ], address[64], vendor[16],
			device[16], driver[64], type[16];
	} room;
};

static struct nic *nic_of(const struct fid *fid)
{
	return container_of(fid, struct nic, nic.fid);
}

static int nic_close(struct fid *fid)
{
	free(nic_of(fid));
	return 0;
}

static char *nic_text(char *room)
{
	return *room ? room : NULL;
}

/* Has its pointers point at its own memory. */
static void nic_link(struct nic *nic)
{
	nic->nic.device_attr = &nic->device;
	nic->nic.bus_attr = &nic->bus;
	nic->nic.link_attr = &nic->link;
	nic->device.name = nic->room.name;
	nic->device.vendor_id = nic_text(nic->room.vendor);
	nic->device.device_id = nic_text(nic->room.device);
	nic->device.driver = nic_text(nic->room.driver);
	nic->link.address = nic_text(nic->room.address);
	nic->link.network_type = nic_text(nic->room.type);
}

static int nic_control(struct fid *fid, int command, void *arg)
{
	struct fid_nic **dup = arg;
	struct nic *nic;

	if (command != FI_DUP)
		return -FI_ENOSYS;
	nic = malloc(sizeof *nic);
	if (!nic)
		return -FI_ENOMEM;
	*nic = *nic_of(fid);
	nic_link(nic);
	*dup = &nic->nic;
	return 0;
}

/* What fi_info -v shows, behind what @buf has already */
static int nic_tostr(const struct fid *fid, char *buf, size_t len)
{
	const struct nic *nic = nic_of(fid);
	const struct fi_pci_attr *pci = &nic->bus.attr.pci;
	const size_t used = strnlen(buf, len);
	char at[16] = "unknown";

	if (nic->bus.bus_type == FI_BUS_PCI)
		snprintf(at, sizeof at, "%04x:%02x:%02x.%x", pci->domain_id, pci->bus_id,
			 pci->device_id, pci->function_id);
	snprintf(
		buf + used, len - used,
		"    nic: %s, PCI %s, device %s of %s, driver %s, address %s, %s, speed %zu, mtu "
		"%zu\n",
		nic->room.name, at, nic->room.device, nic->room.vendor, nic->room.driver,
		nic->room.address, nic->room.type, nic->link.speed, nic->link.mtu);
	return 0;
}

static struct fi_ops nic_ops = {
	.size = sizeof(struct fi_ops),
	.close = nic_close,
	.control = nic_control,
	.tostr = nic_tostr,
};

/* Reads the first line of a file; @line is empty if there is none, or no such file. */
__attribute__((format(printf, 3, 4))) static void nic_read(char *line, size_t size,
							   const char *fmt, ...)
{
	char path[PATH_MAX];
	FILE *file;
	va_list args;

	va_start(args, fmt);
	vsnprintf(path, sizeof path, fmt, args);
	va_end(args);
	*line = '\0';
	file = fopen(path, "re");
	if (!file)
		return;
	if (!fgets(line, (int) size, file))
		*line = '\0';
	line[strcspn(line, "\n")] = '\0';
	fclose(file);
}

/* A number that a file has; 0: it has none, or a negative one, which means "not known" */
static size_t nic_number(const char *dir, const char *name, const char *what)
{
	char line[32];
	long number;

	nic_read(line, sizeof line, "%s/class/net/%s/%s", dir, name, what);
	number = strtol(line, NULL, 10);
	return number > 0 ? (size_t) number : 0;
}

/* What the last part of @path says of a PCI function: the whole part has to */
static bool nic_pci_parse(const char *path, struct fi_pci_attr *pci)
{
	const char *last = strrchr(path, '/');
	unsigned int domain, bus, device, function;
	int end = 0;

	if (!last ||
	    sscanf(last, "/%x:%x:%x.%1x%n", &domain, &bus, &device, &function, &end) != 4 ||
	    last[end])
		return false;
	*pci = (struct fi_pci_attr){
		.domain_id = domain,
		.bus_id = bus,
		.device_id = device,
		.function_id = function,
	};
	return true;
}

/*
 * Fills what belongs to the PCI function at or above @path, which is cut. A virtio device, for example, is below its
 * function.
 */
static void nic_set_device(struct nic *nic, char *path)
{
	char driver[PATH_MAX], target[PATH_MAX], *last;
	ssize_t len;

	while (!nic_pci_parse(path, &nic->bus.attr.pci)) {
		last = strrchr(path, '/');
		if (!last)
			return;
		*last = '\0';
	}
	nic->bus.bus_type = FI_BUS_PCI;
	nic_read(nic->room.vendor, sizeof nic->room.vendor, "%s/vendor", path);
	nic_read(nic->room.device, sizeof nic->room.device, "%s/device", path);
	if (snprintf(driver, sizeof driver, "%s/driver", path) >= (int) sizeof driver)
		return;
	len = readlink(driver, target, sizeof target - 1);
	if (len < 0)
		return;
	target[len] = '\0';
	last = strrchr(target, '/');
	snprintf(nic->room.driver, sizeof nic->room.driver, "%.*s",
		 (int) sizeof nic->room.driver - 1, last ? last + 1 : target);
}

static void nic_set_link(struct nic *nic, const char *dir, const char *name)
{
	const size_t type = nic_number(dir, name, "type");
	char state[32];

	nic_read(nic->room.address, sizeof nic->room.address, "%s/class/net/%s/address", dir,
		 name);
	nic_read(state, sizeof state, "%s/class/net/%s/operstate", dir, name);
	if (type == ARPHRD_ETHER)
		strcpy(nic->room.type, "Ethernet");
	else if (type == ARPHRD_INFINIBAND)
		strcpy(nic->room.type, "InfiniBand");
	/* the kernel has megabits a second */
	nic->link.speed = nic_number(dir, name, "speed") * 1000000;
	nic->link.mtu = nic_number(dir, name, "mtu");
	if (!strcmp(state, "up"))
		nic->link.state = FI_LINK_UP;
	else if (!strcmp(state, "down"))
		nic->link.state = FI_LINK_DOWN;
}

/* Amazon's PCI functions: see nic.h */
#define NIC_AMAZON "0x1d0f"

struct fid_nic *nic_of_interface(const char *dir, const char *name)
{
	char path[PATH_MAX], device[PATH_MAX];
	struct nic *nic;

	/* what no interface is called may lead out of the directory */
	if (!name || !*name || *name == '.' || strchr(name, '/') || strlen(name) >= IFNAMSIZ)
		return NULL;
	snprintf(path, sizeof path, "%s/class/net/%s/device", dir, name);
	if (!realpath(path, device))
		return NULL;
	nic = calloc(1, sizeof *nic);
	if (!nic)
		return NULL;
	nic->nic.fid.fclass = FI_CLASS_NIC;
	nic->nic.fid.ops = &nic_ops;
	snprintf(nic->room.name, sizeof nic->room.name, "%s%s",
		 conf.nic_name == CONF_NIC_INFINIBAND ? NIC_INFINIBAND : "", name);
	nic_set_device(nic, device);
	nic_set_link(nic, dir, name);
	nic_link(nic);
	if (!strcmp(nic->room.vendor, NIC_AMAZON)) {
		free(nic);
		return NULL;
	}
	return &nic->nic;
}
