/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the emulated driver tells rdmaemu and gdremu: the file that has device memory. These two
 * stand in for the kernel's part in the pinning of device memory.
 *
 * The functions are no part of the driver's interface. Both sides find them by dlsym, so that
 * neither needs the other.
 */
#ifndef CUDAEMU_BACKING_H
#define CUDAEMU_BACKING_H

#include <stdbool.h>
#include <stdint.h>

/**
 * struct cudaemu_backing - where emulated device memory is
 * @fd:		a file of this process; the emulator owns it
 * @offset:	where the memory is in that file
 * @size:	how many bytes from there on belong to what was asked for
 * @id:		the allocation's id; a dma-buf has none
 */
struct cudaemu_backing {
	int fd;
	uint64_t offset, size, id;
};

/**
 * cudaemu_address_backing() - the backing of a device address, up to its allocation's last page
 *
 * Returns false for memory of which a NIC's driver would get no pages: host memory, and memory
 * that is free, managed or another process's.
 */
typedef bool cudaemu_address_backing_fn(uint64_t address, struct cudaemu_backing *backing);
cudaemu_address_backing_fn cudaemu_address_backing;

/**
 * cudaemu_dmabuf_backing() - the backing of a dma-buf that cuMemGetHandleForAddressRange() has
 * given
 *
 * Returns false for other descriptors, and if the memory is gone altogether.
 */
typedef bool cudaemu_dmabuf_backing_fn(int dmabuf, struct cudaemu_backing *backing);
cudaemu_dmabuf_backing_fn cudaemu_dmabuf_backing;

#endif
