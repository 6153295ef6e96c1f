/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory shared with others: IPC handles for other processes, dma-bufs for devices.
 *
 * A handle says where in which file of the exporting process the memory is. That file begins
 * with a table, in which every exported allocation has its id until it is freed. So a handle
 * that has outlived its memory is refused.
 *
 * A handle is also refused if its memory lies where other memory is still open here, as drivers
 * do. So a program that keeps an import too long notices.
 */
#define _GNU_SOURCE
#include "backing.h"
#include "emu.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/dma-buf.h>
#include <linux/udmabuf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define EMU_IPC_MAGIC 0x43504965u
#define EMU_SLOTS (EMU_GRANULARITY / sizeof(uint64_t))
/* Marks address ranges that wait for the next import */
#define EMU_IPC_BLOCK (-3)

struct emu_ipc_handle {
	uint32_t magic;
	int32_t pid, fd, dev;
	uint64_t token, id, offset, size;
	uint32_t slot;
};
_Static_assert(sizeof(struct emu_ipc_handle) <= CU_IPC_HANDLE_SIZE, "handle too big");

struct emu_import {
	struct emu_ipc_handle handle;
	struct emu_block *block;
	int refs; /* opens of the same handle share one mapping */
};

/* The id in the slot of memory that is gone, but open elsewhere */
#define EMU_SLOT_GHOST UINT64_MAX

/* Nobody can open the memory any more. Who has it open keeps its charge. */
void emu_ipc_forget(struct emu_alloc *alloc, uint64_t charge)
{
	struct emu_device *dev = &emu.dev[alloc->dev];
	struct emu_ghost ghost = {
		.fd = dev->fd,
		.close_fd = -1,
		.at = alloc->slot * sizeof(uint64_t),
		.len = sizeof(uint64_t),
		.charge = charge,
		.slot = alloc->slot,
	};
	const bool held = alloc->slot && emu_ghost_held(ghost.fd, ghost.at, ghost.len);

	if (alloc->slot)
		__atomic_store_n(&dev->slots[alloc->slot], held ? EMU_SLOT_GHOST : 0,
				 __ATOMIC_RELEASE);
	if (held)
		emu_ghost_add(dev, &ghost);
	else
		dev->used -= charge;
}

static uint32_t emu_slot_take(const struct emu_device *dev, uint64_t id)
{
	uint32_t slot;

	for (slot = 1; slot < EMU_SLOTS; slot++) {
		if (dev->slots[slot])
			continue;
		__atomic_store_n(&dev->slots[slot], id, __ATOMIC_RELEASE);
		return slot;
	}
	return 0;
}

EMU_API(cuIpcGetMemHandle, CUipcMemHandle *out, CUdeviceptr ptr)
{
	struct emu_ipc_handle handle;
	struct emu_device *dev;
	struct emu_alloc *alloc;
	CUresult rc = CUDA_ERROR_INVALID_VALUE;

	EMU_ENTER(EMU_NEED_CTX);
	pthread_mutex_lock(&emu.lock);
	alloc = emu_alloc_find(ptr);
	if (!out || !alloc || alloc->kind != EMU_DEVICE)
		goto unlock;
	dev = &emu.dev[alloc->dev];
	if (!alloc->slot)
		alloc->slot = emu_slot_take(dev, alloc->id);
	rc = CUDA_ERROR_OUT_OF_MEMORY;
	if (!alloc->slot)
		goto unlock;
	memset(&handle, 0, sizeof(handle));
	handle.magic = EMU_IPC_MAGIC;
	handle.pid = getpid();
	handle.fd = dev->fd;
	handle.dev = dev->ordinal;
	handle.token = emu.token;
	handle.id = alloc->id;
	handle.offset = alloc->block->offset;
	handle.size = alloc->size;
	handle.slot = alloc->slot;
	memset(out, 0, sizeof(*out));
	memcpy(out, &handle, sizeof(handle));
	rc = CUDA_SUCCESS;

unlock:
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

/* The exporter's file; -1 if the memory behind the handle is gone */
static int emu_ipc_file(const struct emu_ipc_handle *handle)
{
	uint64_t token, id;
	char path[64];
	int fd;

	if (emu.conf.host < 0)
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", handle->pid, handle->fd);
	else
		snprintf(path, sizeof(path), EMU_DEVICE_FILE, handle->token, handle->dev);
	fd = openat(emu.conf.host, path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -1;
	/* the lock comes first, so that the memory is seen to be open, or seen to be gone */
	if (pread(fd, &token, sizeof(token), 0) == (ssize_t) sizeof(token) &&
	    token == handle->token &&
	    emu_ghost_hold(fd, handle->slot * sizeof(id), sizeof(id)) &&
	    pread(fd, &id, sizeof(id), (off_t) (handle->slot * sizeof(id))) ==
		    (ssize_t) sizeof(id) &&
	    id == handle->id)
		return fd;
	close(fd);
	return -1;
}

static struct emu_alloc *emu_import_find(const struct emu_ipc_handle *handle)
{
	size_t i;

	for (i = 0; i < emu.nallocs; i++)
		if (emu.allocs[i]->kind == EMU_IPC &&
		    !memcmp(&emu.allocs[i]->import->handle, handle, sizeof(*handle)))
			return emu.allocs[i];
	return NULL;
}

/* Is older memory still open here that was in the place of the handle's memory? */
static bool emu_import_stale(const struct emu_ipc_handle *handle)
{
	const struct emu_ipc_handle *other;
	size_t i;

	for (i = 0; i < emu.nallocs; i++) {
		if (emu.allocs[i]->kind != EMU_IPC)
			continue;
		other = &emu.allocs[i]->import->handle;
		if (other->token == handle->token && other->dev == handle->dev &&
		    other->id != handle->id && other->offset < handle->offset + handle->size &&
		    handle->offset < other->offset + other->size)
			return true;
	}
	return false;
}

/* An address range for an import, with nothing behind it yet */
static struct emu_block *emu_import_block(size_t size)
{
	size_t len = EMU_ROUND_UP(size, EMU_GRANULARITY);
	struct emu_block **link, *block;
	char *va;

	for (link = &emu.free_blocks; *link; link = &(*link)->next) {
		block = *link;
		if (block->dev == EMU_IPC_BLOCK && block->len == len) {
			*link = block->next;
			return block;
		}
	}
	block = calloc(1, sizeof(*block));
	va = block ? emu_address_reserve(len) : NULL;
	if (!va) {
		free(block);
		return NULL;
	}
	block->va = (uintptr_t) va;
	block->len = len;
	block->dev = EMU_IPC_BLOCK;
	return block;
}

static void emu_import_block_put(struct emu_block *block)
{
	block->next = emu.free_blocks;
	emu.free_blocks = block;
}

static CUresult emu_import_create(const struct emu_ipc_handle *handle, int fd,
				  struct emu_alloc **out)
{
	struct emu_alloc *alloc = calloc(1, sizeof(*alloc));
	struct emu_import *import = calloc(1, sizeof(*import));
	struct emu_block *block = emu_import_block(handle->size);
	CUresult rc = CUDA_ERROR_OUT_OF_MEMORY;

	if (!alloc || !import || !block)
		goto free_all;
	block->rw = mmap(NULL, block->len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
			 fd, (off_t) handle->offset);
	if (block->rw == MAP_FAILED)
		goto free_all;
	import->handle = *handle;
	alloc->kind = EMU_IPC;
	alloc->base = block->va;
	alloc->size = handle->size;
	alloc->rw = block->rw;
	alloc->ctx = emu_ctx_current();
	alloc->dev = alloc->ctx->dev;
	alloc->import = import;
	rc = emu_alloc_insert(alloc);
	if (rc != CUDA_SUCCESS)
		goto unmap;
	import->block = block;
	*out = alloc;
	return CUDA_SUCCESS;

unmap:
	munmap(block->rw, block->len);
free_all:
	if (block)
		emu_import_block_put(block);
	free(import);
	free(alloc);
	return rc;
}

EMU_API(cuIpcOpenMemHandle_v2, CUdeviceptr *out, CUipcMemHandle opaque, unsigned int flags)
{
	struct emu_ipc_handle handle;
	struct emu_alloc *alloc;
	CUresult rc = CUDA_SUCCESS;
	int fd;

	EMU_ENTER(EMU_NEED_CTX);
	memcpy(&handle, &opaque, sizeof(handle));
	if (!out || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS ||
	    handle.magic != EMU_IPC_MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	/*
	 * A process cannot import from itself, and the driver says so in this way. It (580, on an H200) knows it by its id, which
	 * a process in another namespace may have, too.
	 */
	if (handle.pid == getpid())
		return CUDA_ERROR_INVALID_CONTEXT;
	fd = emu_ipc_file(&handle);
	if (fd < 0)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&emu.lock);
	alloc = emu_import_find(&handle);
	if (!alloc && emu_import_stale(&handle))
		rc = CUDA_ERROR_ALREADY_MAPPED;
	else if (!alloc)
		rc = emu_import_create(&handle, fd, &alloc);
	if (rc == CUDA_SUCCESS) {
		alloc->import->refs++;
		*out = alloc->base;
	}
	pthread_mutex_unlock(&emu.lock);
	close(fd);
	return rc;
}
EMU_API_ALIAS(cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2);

/* Called with the lock held, when nothing uses it any more */
void emu_ipc_unmap(struct emu_alloc *alloc)
{
	struct emu_import *import = alloc->import;

	munmap(import->block->rw, import->block->len);
	emu_import_block_put(import->block);
	emu_alloc_destroy(alloc);
	free(import);
}

EMU_API(cuIpcCloseMemHandle, CUdeviceptr ptr)
{
	struct emu_alloc *alloc;
	CUresult rc = CUDA_ERROR_INVALID_VALUE;
	CUdevice dev;

	EMU_ENTER(EMU_NEED_INIT);
	pthread_mutex_lock(&emu.lock);
	emu_hold_begin();
	for (dev = 0; dev < emu.conf.devices; dev++)
		emu_device_wait(dev);
	emu_hold_end();
	alloc = emu_alloc_find(ptr);
	if (alloc && alloc->kind == EMU_IPC && alloc->base == ptr) {
		rc = CUDA_SUCCESS;
		if (!--alloc->import->refs)
			emu_ipc_unmap(alloc);
	}
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

/* The device attribute IPC_EVENT_SUPPORTED is 0 */
EMU_API(cuIpcGetEventHandle, CUipcEventHandle *out, CUevent event)
{
	EMU_ENTER(EMU_NEED_INIT);
	return CUDA_ERROR_NOT_SUPPORTED;
}

EMU_API(cuIpcOpenEventHandle, CUevent *out, CUipcEventHandle handle)
{
	EMU_ENTER(EMU_NEED_INIT);
	return CUDA_ERROR_NOT_SUPPORTED;
}

/* ---- dma-buf ---- */

/* The descriptor, the number and the offset of the file behind a dma-buf */
#define EMU_DMABUF_NAME "emu%d:%" PRIx64 ":%" PRIx64
#define EMU_DMABUF_SCAN "name: emu%d:%" SCNx64 ":%" SCNx64

static int emu_udmabuf_create(int memfd, uint64_t offset, uint64_t size)
{
	struct udmabuf_create create = {
		.memfd = (uint32_t) memfd,
		.flags = UDMABUF_FLAGS_CLOEXEC,
		.offset = offset,
		.size = size,
	};
	int dev = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	char name[DMA_BUF_NAME_LEN];
	struct stat file;
	int fd;

	if (dev < 0)
		return -1;
	fd = ioctl(dev, UDMABUF_CREATE, &create);
	close(dev);
	if (fd < 0)
		return fd;
	/* the dma-buf's name tells what is behind it: see cudaemu_dmabuf_backing() */
	if (fstat(memfd, &file) ||
	    snprintf(name, sizeof(name), EMU_DMABUF_NAME, memfd, (uint64_t) file.st_ino,
		     offset) >= (int) sizeof(name) ||
	    ioctl(fd, DMA_BUF_SET_NAME, name)) {
		close(fd);
		return -1;
	}
	return fd;
}

/* Where in which file the memory is. Called with the lock held. */
static bool emu_dmabuf_source(const struct emu_alloc *alloc, uint64_t ptr, int *fd,
			      uint64_t *offset)
{
	*offset = ptr - alloc->base;
	switch (alloc->kind) {
	case EMU_DEVICE:
	case EMU_POOL:
		*fd = emu.dev[alloc->dev].fd;
		*offset += alloc->block->offset;
		return true;
	case EMU_VMM:
		*fd = emu_vmm_fd(alloc);
		return true;
	default:
		return false;
	}
}

EMU_API(cuMemGetHandleForAddressRange, void *out, CUdeviceptr ptr, size_t size,
	CUmemRangeHandleType type, unsigned long long flags)
{
	struct emu_alloc *alloc;
	uint64_t offset;
	int source, fd = -1;
	CUresult rc = CUDA_ERROR_INVALID_VALUE;

	EMU_ENTER(EMU_NEED_CTX);
	if (!out || type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || !ptr || !size ||
	    ptr % EMU_PAGE || size % EMU_PAGE)
		return CUDA_ERROR_INVALID_VALUE;
	if (flags & ~(unsigned long long) CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE)
		return CUDA_ERROR_NOT_SUPPORTED;
	pthread_mutex_lock(&emu.lock);
	alloc = emu_alloc_find(ptr);
	/* the driver rounds the end of an allocation up to whole pages, and so do we */
	if (!alloc || EMU_ROUND_UP(alloc->size, EMU_PAGE) - (ptr - alloc->base) < size ||
	    !emu_dmabuf_source(alloc, ptr, &source, &offset))
		goto unlock;
	rc = CUDA_ERROR_NOT_SUPPORTED;
	if (!emu.udmabuf)
		goto unlock;
	fd = emu_udmabuf_create(source, offset, size);
	if (fd >= 0) {
		memcpy(out, &fd, sizeof(fd));
		rc = CUDA_SUCCESS;
	}

unlock:
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

EMU_EXPORT bool cudaemu_address_backing(uint64_t address, struct cudaemu_backing *backing)
{
	struct emu_alloc *alloc;
	bool found;

	pthread_mutex_lock(&emu.lock);
	alloc = emu_alloc_find(address);
	found = alloc && emu_dmabuf_source(alloc, address, &backing->fd, &backing->offset);
	if (found) {
		backing->size = EMU_ROUND_UP(alloc->size, EMU_PAGE) - (address - alloc->base);
		backing->id = alloc->id;
	}
	pthread_mutex_unlock(&emu.lock);
	return found;
}

EMU_EXPORT bool cudaemu_dmabuf_backing(int dmabuf, struct cudaemu_backing *backing)
{
	char path[64], line[128];
	struct stat file;
	uint64_t number;
	bool found = false;
	off_t size;
	FILE *info;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", dmabuf);
	info = fopen(path, "re");
	if (!info)
		return false;
	while (!found && fgets(line, sizeof(line), info))
		found = sscanf(line, EMU_DMABUF_SCAN, &backing->fd, &number,
			       &backing->offset) == 3;
	fclose(info);
	/*
	 * memory in a file of its own is gone with that file, whose number may be another's now
	 */
	if (!found || fstat(backing->fd, &file) || file.st_ino != number)
		return false;
	size = lseek(dmabuf, 0, SEEK_END);
	backing->size = size < 0 ? 0 : (uint64_t) size;
	return size > 0;
}
