/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unit tests of nic.c, with a sysfs of their own: interfaces of PCI functions, of devices below them, of no PCI
 * function, and those without a device. And what libfabric does with the result.
 */
#include "unit.h"

#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include "base/conf.h"
#include "base/libfabric.h"
#include "path/nic.h"

static char root[] = P_tmpdir "/unit_nic.XXXXXX";

static void make_path(char path[PATH_MAX], const char *name)
{
	assert_true(snprintf(path, PATH_MAX, "%s/%s", root, name) < PATH_MAX);
}

/* Makes a folder, and those above it */
static void make_folder(const char *name)
{
	char path[PATH_MAX];

	make_path(path, name);
	for (char *at = path + strlen(root) + 1; (at = strchr(at, '/')); at++) {
		*at = '\0';
		mkdir(path, 0700);
		*at = '/';
	}
	mkdir(path, 0700);
}

static void make_file(const char *folder, const char *name, const char *line)
{
	char path[PATH_MAX], in_folder[PATH_MAX];
	FILE *file;

	make_folder(folder);
	make_path(in_folder, folder);
	assert_true(snprintf(path, PATH_MAX, "%s/%s", in_folder, name) < PATH_MAX);
	file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file, "%s\n", line);
	fclose(file);
}

static void make_link(const char *name, const char *target)
{
	char path[PATH_MAX];

	make_path(path, name);
	assert_int_equal(symlink(target, path), 0);
}

static void make_interface(const char *name, const char *device, const char *speed)
{
	char folder[64], link[128], target[160];

	snprintf(folder, sizeof folder, "class/net/%s", name);
	make_file(folder, "address", "02:00:00:00:00:07");
	make_file(folder, "mtu", "9000");
	make_file(folder, "type", "1");
	make_file(folder, "operstate", "up");
	if (speed)
		make_file(folder, "speed", speed);
	if (!device)
		return;
	snprintf(link, sizeof link, "%s/device", folder);
	snprintf(target, sizeof target, "../../../%s", device);
	make_folder(device);
	make_link(link, target);
}

#define BRIDGE "devices/pci0000:00/0000:00:02.0/"
#define CARD BRIDGE "000a:c1:1f.7"
#define AMAZON "devices/pci0000:00/0000:00:05.0"
#define HOST "devices/pci0000:00/0000:00:03.0"

static int start(void **state)
{
	if (!mkdtemp(root))
		return -1;
	make_folder("class/net");
	make_file(CARD, "vendor", "0x15b3");
	make_file(CARD, "device", "0x1021");
	make_link(CARD "/driver", "../../../../bus/pci/drivers/mlx5_core");
	make_interface("card0", CARD, "400000");
	make_file(HOST, "vendor", "0x1af4");
	make_file(HOST "/virtio2", "vendor", "0x9999");
	make_interface("virtio0", HOST "/virtio2", "-1");
	make_interface("hyperv0", "devices/acpi/VMBUS:00/4c-2e", "50000");
	make_interface("veth0", NULL, "10000");
	make_file(AMAZON, "vendor", "0x1d0f");
	make_file(AMAZON, "device", "0xec20");
	make_interface("ena0", AMAZON, NULL);
	/* a name like a function's, and more behind it */
	make_interface("near0", "devices/0000:00:03.0a", NULL);
	return libfabric_bind();
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *at)
{
	return remove(path);
}

static int stop(void **state)
{
	return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static struct fid_nic *nic_named(const char *name)
{
	return nic_of_interface(root, name);
}

static void check_card(const struct fid_nic *nic)
{
	assert_non_null(nic);
	assert_int_equal(nic->fid.fclass, FI_CLASS_NIC);
	assert_int_equal(nic->bus_attr->bus_type, FI_BUS_PCI);
	assert_int_equal(nic->bus_attr->attr.pci.domain_id, 0xa);
	assert_int_equal(nic->bus_attr->attr.pci.bus_id, 0xc1);
	assert_int_equal(nic->bus_attr->attr.pci.device_id, 0x1f);
	assert_int_equal(nic->bus_attr->attr.pci.function_id, 7);
	assert_string_equal(nic->device_attr->vendor_id, "0x15b3");
	assert_string_equal(nic->device_attr->device_id, "0x1021");
	assert_string_equal(nic->device_attr->driver, "mlx5_core");
	assert_string_equal(nic->device_attr->name, "card0");
	assert_null(nic->device_attr->firmware);
	assert_string_equal(nic->link_attr->address, "02:00:00:00:00:07");
	assert_string_equal(nic->link_attr->network_type, "Ethernet");
	assert_int_equal(nic->link_attr->mtu, 9000);
	assert_int_equal(nic->link_attr->speed, 400000000000);
	assert_int_equal(nic->link_attr->state, FI_LINK_UP);
	assert_null(nic->prov_attr);
}

static void test_card(void **state)
{
	struct fid_nic *nic = nic_named("card0");

	check_card(nic);
	assert_int_equal(fi_close(&nic->fid), 0);
}

/* NVSHMEM looks below /sys/class/infiniband for the name. */
static void test_infiniband(void **state)
{
	struct fid_nic *nic;
	char path[PATH_MAX];

	conf.nic_name = CONF_NIC_INFINIBAND;
	nic = nic_named("card0");
	conf.nic_name = CONF_NIC_INTERFACE;
	assert_non_null(nic);
	assert_string_equal(nic->device_attr->name, "../net/card0");
	make_folder("class/infiniband");
	assert_true(snprintf(path, sizeof path, "%s/class/infiniband/%s/device", root,
			     nic->device_attr->name) < PATH_MAX);
	assert_int_equal(access(path, F_OK), 0);
	fi_close(&nic->fid);
}

/* The function is above the device, and the vendor is the function's. A speed of -1 is not known. */
static void test_below(void **state)
{
	struct fid_nic *nic = nic_named("virtio0");

	assert_non_null(nic);
	assert_int_equal(nic->bus_attr->bus_type, FI_BUS_PCI);
	assert_int_equal(nic->bus_attr->attr.pci.domain_id, 0);
	assert_int_equal(nic->bus_attr->attr.pci.device_id, 3);
	assert_string_equal(nic->device_attr->vendor_id, "0x1af4");
	assert_null(nic->device_attr->device_id);
	assert_null(nic->device_attr->driver);
	assert_int_equal(nic->link_attr->speed, 0);
	fi_close(&nic->fid);
}

static void test_no_pci(void **state)
{
	static const char *const names[] = {"hyperv0", "near0"};

	for (size_t i = 0; i < UNIT_COUNT(names); i++) {
		struct fid_nic *nic = nic_named(names[i]);

		assert_non_null(nic);
		assert_int_equal(nic->bus_attr->bus_type, FI_BUS_UNKNOWN);
		assert_null(nic->device_attr->vendor_id);
		assert_int_equal(nic->link_attr->mtu, 9000);
		fi_close(&nic->fid);
	}
}

/* Where Amazon has a device, aws-ofi-nccl throws at a NIC that is no RDMA device. */
static void test_none(void **state)
{
	static const char *const names[] = {
		"veth0",
		"ena0",
		"shm",
		"",
		".",
		"..",
		"../net/card0",
		"card0/",
		"a_name_of_16_or_more",
	};

	for (size_t i = 0; i < UNIT_COUNT(names); i++)
		assert_null(nic_named(names[i]));
	assert_null(nic_named(NULL));
}

/* fi_dupinfo() and fi_freeinfo() are the only ones that applications call. */
static void test_dup(void **state)
{
	struct fi_info *info = lf.dupinfo(NULL), *dup;
	struct fid_nic *nic;

	assert_non_null(info);
	info->nic = nic = nic_named("card0");
	dup = lf.dupinfo(info);
	assert_non_null(dup);
	assert_ptr_not_equal(dup->nic, nic);
	lf.freeinfo(info);
	check_card(dup->nic);
	assert_int_equal(fi_control(&dup->nic->fid, FI_GETWAIT, NULL), -FI_ENOSYS);
	lf.freeinfo(dup);
}

static void test_text(void **state)
{
	struct fid_nic *nic = nic_named("card0");
	char text[512] = "before\n";

	assert_int_equal(nic->fid.ops->tostr(&nic->fid, text, sizeof text), 0);
	assert_non_null(
		strstr(text, "before\n    nic: card0, PCI 000a:c1:1f.7, device 0x1021 of"));
	assert_non_null(strstr(text, "speed 400000000000, mtu 9000\n"));
	memcpy(text, "12345678", 9);
	assert_int_equal(nic->fid.ops->tostr(&nic->fid, text, 12), 0);
	assert_string_equal(text, "12345678   ");
	fi_close(&nic->fid);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_card),       cmocka_unit_test(test_below),
		cmocka_unit_test(test_no_pci),     cmocka_unit_test(test_none),
		cmocka_unit_test(test_dup),        cmocka_unit_test(test_text),
		cmocka_unit_test(test_infiniband),
	};
	const struct unit unit = {
		.tests = tests,
		.test_count = UNIT_COUNT(tests),
		.setup = start,
		.teardown = stop,
	};

	return unit_main(argc, argv, &unit);
}
