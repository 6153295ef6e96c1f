/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Emulated devices: their properties, read off an NVIDIA H200, and the files that are their
 * memory.
 */
#define _GNU_SOURCE
#include "emu.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * The emulated driver does not know attributes above this one. Those that are not listed are 0.
 */
#define EMU_LAST_ATTRIBUTE 147

static const struct {
	int attribute, value;
} emu_attributes[] = {
	{CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
	{2, 1024}, /* block dimensions x, y, z */
	{3, 1024},
	{4, 64},
	{5, 2147483647}, /* grid dimensions x, y, z */
	{6, 65535},
	{7, 65535},
	{8, 49152}, /* shared memory per block */
	{9, 65536}, /* constant memory */
	{CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
	{11, 2147483647}, /* pitch */
	{12, 65536},      /* registers per block */
	{CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
	{14, 512}, /* texture alignment */
	{15, 1},   /* copies overlap kernels */
	{CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
	{CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
	{CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
	{CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 1},
	{CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 3201000},
	{CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 6016},
	{38, 62914560}, /* L2 cache */
	{39, 2048},     /* threads per multiprocessor */
	{CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
	{CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
	{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
	{CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
	{CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
	{CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
	{CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS,
	 CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST},
	{CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING,
	 CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER},
	{CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES,
	 CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR},
	{CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
	{CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1},
};

/* Its memory: a file that only the process itself has a name for, or one that all of the host's find */
static int emu_device_file(int ordinal)
{
	char name[48];

	if (emu.conf.host >= 0) {
		snprintf(name, sizeof(name), EMU_DEVICE_FILE, emu.token, ordinal);
		return openat(emu.conf.host, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	}
	snprintf(name, sizeof(name), "cudaemu-device-%d", ordinal);
	return memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

void emu_device_init(struct emu_device *dev, int ordinal)
{
	int dir;

	dev->ordinal = ordinal;
	dev->primary.dev = ordinal;
	dev->primary.primary = true;
	dev->pool.dev = ordinal;
	dev->current_pool = &dev->pool;
	dev->fd = emu_device_file(ordinal);
	dev->file_size = EMU_GRANULARITY;
	/* udmabuf takes only memory that cannot shrink under it */
	if (dev->fd < 0 || ftruncate(dev->fd, (off_t) dev->file_size) ||
	    (emu.conf.host < 0 && fcntl(dev->fd, F_ADD_SEALS, F_SEAL_SHRINK)))
		goto fail;
	dev->slots =
		mmap(NULL, EMU_GRANULARITY, PROT_READ | PROT_WRITE, MAP_SHARED, dev->fd, 0);
	if (dev->slots == MAP_FAILED)
		goto fail;
	dev->slots[0] = emu.token;
	for (dir = 0; dir < EMU_DIRECTIONS; dir++)
		pthread_mutex_init(&dev->engine[dir], NULL);
	return;

fail:
	emu_die("memory file");
}

struct emu_device *emu_device_get(CUdevice dev)
{
	return dev >= 0 && dev < emu.conf.devices ? &emu.dev[dev] : NULL;
}

/* The ordinal of one of the machine's devices; EMU_NO_DEVICE: hidden */
CUdevice emu_device_ordinal(int number)
{
	CUdevice dev;

	for (dev = 0; dev < emu.conf.devices; dev++)
		if (emu.dev[dev].number == number)
			return dev;
	return EMU_NO_DEVICE;
}

static void emu_uuid(CUuuid *uuid, int number)
{
	memcpy(uuid->bytes + 1, "cudaemu-device-", 15);
	uuid->bytes[0] = (char) number;
}

/* Does the text begin as the device's name by its uuid does, by one byte of that at least? */
static bool emu_uuid_begins(const char *text, size_t len, int number)
{
	char name[64] = "GPU-";
	CUuuid uuid;
	int i, at = 4;

	emu_uuid(&uuid, number);
	for (i = 0; i < 16; i++)
		at += sprintf(name + at, "%s%02x",
			      i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			      (unsigned char) uuid.bytes[i]);
	return len > 4 && len <= (size_t) at && !strncmp(text, name, len);
}

/* The device that an item of the list names: by number or uuid; -1: none */
static int emu_device_named(const char *item, size_t len, int count)
{
	int number, found = -1;
	char *end;

	if (!strncmp(item, "GPU-", 4)) {
		for (number = 0; number < count; number++)
			if (emu_uuid_begins(item, len, number))
				found = found < 0 ? number : count;
		return found < count ? found : -1;
	}
	number = (int) strtol(item, &end, 10);
	return end != item && number >= 0 && number < count ? number : -1;
}

/*
 * CUDA_VISIBLE_DEVICES, as an H200's driver takes it (rules.h200): the first item that names no
 * device ends the list, and one that is named twice is an error.
 */
CUresult emu_devices_see(void)
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES"), *item = list;
	const int count = emu.conf.devices;
	CUdevice dev;
	int seen = 0;

	for (dev = 0; dev < count; dev++)
		emu.dev[dev].number = dev;
	if (!list || strcmp(emu.vendor, "CUDA"))
		return CUDA_SUCCESS;
	emu.conf.devices = 0;
	while (seen <= count) {
		const size_t len = strcspn(item, ",");
		const int number = len ? emu_device_named(item, len, count) : -1;

		if (number < 0)
			break;
		if (emu_device_ordinal(number) != EMU_NO_DEVICE)
			return CUDA_ERROR_INVALID_DEVICE;
		emu.dev[seen++].number = number;
		emu.conf.devices = seen;
		if (!item[len])
			break;
		item += len + 1;
	}
	return seen ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

EMU_API(cuDeviceGetCount, int *count)
{
	EMU_ENTER(EMU_NEED_INIT);
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	*count = emu.conf.devices;
	return CUDA_SUCCESS;
}

EMU_API(cuDeviceGet, CUdevice *device, int ordinal)
{
	EMU_ENTER(EMU_NEED_INIT);
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	if (!emu_device_get(ordinal))
		return CUDA_ERROR_INVALID_DEVICE;
	*device = ordinal;
	return CUDA_SUCCESS;
}

EMU_API(cuDeviceGetName, char *name, int len, CUdevice dev)
{
	EMU_ENTER(EMU_NEED_INIT);
	if (!emu_device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!name || len <= 0)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(name, (size_t) len, "cudaemu emulated CUDA device %d", emu.dev[dev].number);
	return CUDA_SUCCESS;
}

EMU_API(cuDeviceGetUuid_v2, CUuuid *uuid, CUdevice dev)
{
	EMU_ENTER(EMU_NEED_INIT);
	if (!emu_device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!uuid)
		return CUDA_ERROR_INVALID_VALUE;
	emu_uuid(uuid, emu.dev[dev].number);
	return CUDA_SUCCESS;
}
EMU_API_ALIAS(cuDeviceGetUuid, cuDeviceGetUuid_v2);

EMU_API(cuDeviceTotalMem_v2, size_t *bytes, CUdevice dev)
{
	EMU_ENTER(EMU_NEED_INIT);
	if (!emu_device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!bytes)
		return CUDA_ERROR_INVALID_VALUE;
	*bytes = emu.conf.memory;
	return CUDA_SUCCESS;
}

EMU_API(cuDeviceGetAttribute, int *value, CUdevice_attribute attribute, CUdevice dev)
{
	size_t i;

	EMU_ENTER(EMU_NEED_INIT);
	if (!value || attribute < 1 || attribute > EMU_LAST_ATTRIBUTE)
		return CUDA_ERROR_INVALID_VALUE;
	if (!emu_device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	*value = 0;
	for (i = 0; i < sizeof(emu_attributes) / sizeof(emu_attributes[0]); i++)
		if (emu_attributes[i].attribute == (int) attribute)
			*value = emu_attributes[i].value;
	if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)
		*value = 0xe0 + emu.dev[dev].number;
	if (attribute == CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED)
		*value = emu.udmabuf;
	if (emu.conf.unordered &&
	    attribute == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING)
		*value = CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE;
	if (emu.conf.no_memops &&
	    (attribute == CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS ||
	     attribute == CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR))
		*value = 0;
	return CUDA_SUCCESS;
}

EMU_API(cuDeviceGetPCIBusId, char *id, int len, CUdevice dev)
{
	EMU_ENTER(EMU_NEED_INIT);
	if (!emu_device_get(dev))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!id || len < 13)
		return CUDA_ERROR_INVALID_VALUE;
	snprintf(id, (size_t) len, "0000:%02X:00.0",
		 (unsigned int) (0xe0 + emu.dev[dev].number) & 0xff);
	return CUDA_SUCCESS;
}

EMU_API(cuDeviceGetByPCIBusId, CUdevice *dev, const char *id)
{
	unsigned int domain = 0, bus, slot;

	EMU_ENTER(EMU_NEED_INIT);
	if (!dev || !id)
		return CUDA_ERROR_INVALID_VALUE;
	if (sscanf(id, "%x:%x:%x", &domain, &bus, &slot) != 3) {
		domain = 0;
		if (sscanf(id, "%x:%x", &bus, &slot) != 2)
			return CUDA_ERROR_INVALID_VALUE;
	}
	if (domain || slot || emu_device_ordinal((int) bus - 0xe0) == EMU_NO_DEVICE)
		return CUDA_ERROR_INVALID_DEVICE;
	*dev = emu_device_ordinal((int) bus - 0xe0);
	return CUDA_SUCCESS;
}

EMU_API(cuDeviceCanAccessPeer, int *can, CUdevice dev, CUdevice peer)
{
	EMU_ENTER(EMU_NEED_INIT);
	if (!emu_device_get(dev) || !emu_device_get(peer))
		return CUDA_ERROR_INVALID_DEVICE;
	if (!can)
		return CUDA_ERROR_INVALID_VALUE;
	*can = dev != peer;
	return CUDA_SUCCESS;
}

/* The attributes in the order of the real interface: rank, access, native atomics, arrays */
EMU_API(cuDeviceGetP2PAttribute, int *value, int attribute, CUdevice src, CUdevice dst)
{
	EMU_ENTER(EMU_NEED_INIT);
	if (!emu_device_get(src) || !emu_device_get(dst) || src == dst)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!value || attribute < 1 || attribute > 4)
		return CUDA_ERROR_INVALID_VALUE;
	*value = attribute == 2;
	return CUDA_SUCCESS;
}
