/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Virtual memory management: physical memory, address reservations, and mappings of the one
 * into the other. A piece of physical memory is a file of its own, so that other processes can
 * get its descriptor. The last page describes the piece.
 *
 * The engine has a twin of each reservation with the same layout. So a copy may run from one
 * mapping into the next.
 */
#define _GNU_SOURCE
#include "emu.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define EMU_PHYS_MAGIC 0x6d6d7665616475ull

struct emu_phys {
	int fd;
	size_t size;
	CUmemAllocationProp prop;
	bool imported;
	int refs; /* handles that the program holds, and mappings */
	int handles;
	struct emu_phys *next;
};

struct emu_trailer {
	uint64_t magic, size;
	CUmemAllocationProp prop;
};

struct emu_reservation {
	uint64_t base;
	size_t size;
	char *twin;
	bool live;
	struct emu_reservation *next;
};

static struct emu_phys *emu_phys_list;
/* Freed reservations stay for the next one of their size */
static struct emu_reservation *emu_reservations;

/* ---- what others ask about mappings; the lock is held ---- */

void emu_vmm_range(const struct emu_alloc *alloc, uint64_t *base, size_t *size)
{
	*base = alloc->resv->base;
	*size = alloc->resv->size;
}

uint64_t emu_vmm_handle_types(const struct emu_alloc *alloc)
{
	return alloc->phys->imported ? 0 : alloc->phys->prop.requestedHandleTypes;
}

bool emu_vmm_rdma_capable(const struct emu_alloc *alloc)
{
	return alloc->phys->prop.allocFlags.gpuDirectRDMACapable;
}

int emu_vmm_fd(const struct emu_alloc *alloc)
{
	return alloc->phys->fd;
}

static struct emu_reservation *emu_reservation_find(uint64_t ptr)
{
	struct emu_reservation *resv;

	for (resv = emu_reservations; resv; resv = resv->next)
		if (resv->live && ptr - resv->base < resv->size)
			break;
	return resv;
}

bool emu_vmm_reserved(uint64_t ptr, uint64_t *base, size_t *size)
{
	struct emu_reservation *resv = emu_reservation_find(ptr);

	if (!resv)
		return false;
	*base = resv->base;
	*size = resv->size;
	return true;
}

/* ---- physical memory ---- */

static struct emu_phys *emu_phys_get(CUmemGenericAllocationHandle handle)
{
	struct emu_phys *phys;

	for (phys = emu_phys_list; phys; phys = phys->next)
		if ((uintptr_t) phys == handle && phys->handles)
			break;
	return phys;
}

/* A descriptor or a mapping elsewhere keeps the charge */
static void emu_phys_forget(const struct emu_phys *phys)
{
	struct emu_device *dev = &emu.dev[phys->prop.location.id];
	const struct emu_ghost ghost = {.fd = phys->fd,
					.close_fd = phys->fd,
					.charge = phys->size};

	if (emu_ghost_held(phys->fd, 0, 0)) {
		emu_ghost_add(dev, &ghost);
		return;
	}
	dev->used -= phys->size;
	close(phys->fd);
}

static void emu_phys_put(struct emu_phys *phys)
{
	struct emu_phys **link;

	if (--phys->refs)
		return;
	for (link = &emu_phys_list; *link != phys; link = &(*link)->next)
		;
	*link = phys->next;
	if (phys->imported)
		close(phys->fd);
	else
		emu_phys_forget(phys);
	free(phys);
}

/* Takes over the descriptor, also if it fails */
static CUresult emu_phys_new(int fd, const struct emu_trailer *trailer, bool imported,
			     CUmemGenericAllocationHandle *out)
{
	struct emu_phys *phys = calloc(1, sizeof(*phys));

	if (!phys) {
		close(fd);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	phys->fd = fd;
	phys->size = trailer->size;
	phys->prop = trailer->prop;
	phys->imported = imported;
	phys->refs = phys->handles = 1;
	phys->next = emu_phys_list;
	emu_phys_list = phys;
	*out = (uintptr_t) phys;
	return CUDA_SUCCESS;
}

static bool emu_prop_valid(const CUmemAllocationProp *prop)
{
	return prop && prop->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
	       prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
	       emu_device_get(prop->location.id);
}

/* A file full of poison, with the description behind it; or -1 */
static int emu_phys_file(const struct emu_trailer *trailer)
{
	int fd = memfd_create("cudaemu-physical", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	char *p;

	if (fd < 0)
		return -1;
	if (ftruncate(fd, (off_t) (trailer->size + EMU_PAGE)) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) ||
	    pwrite(fd, trailer, sizeof(*trailer), (off_t) trailer->size) !=
		    (ssize_t) sizeof(*trailer))
		goto close_fd;
	p = mmap(NULL, trailer->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		goto close_fd;
	emu_poison(p, trailer->size, EMU_POISON_NEW);
	munmap(p, trailer->size);
	return fd;

close_fd:
	close(fd);
	return -1;
}

EMU_API(cuMemCreate, CUmemGenericAllocationHandle *out, size_t size,
	const CUmemAllocationProp *prop, unsigned long long flags)
{
	struct emu_trailer trailer = {.magic = EMU_PHYS_MAGIC, .size = size};
	struct emu_device *dev;
	CUresult rc = CUDA_ERROR_OUT_OF_MEMORY;
	int fd;

	EMU_ENTER(EMU_NEED_INIT);
	if (!out || !emu_prop_valid(prop) || !size || size % EMU_GRANULARITY || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (prop->requestedHandleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	trailer.prop = *prop;
	dev = emu_device_get(prop->location.id);
	/* ordinals of other processes may be others */
	trailer.prop.location.id = dev->number;
	pthread_mutex_lock(&emu.lock);
	emu_ghosts_sweep(dev);
	if (size > emu.conf.memory - dev->used)
		goto unlock;
	fd = emu_phys_file(&trailer);
	if (fd < 0)
		goto unlock;
	trailer.prop = *prop;
	rc = emu_phys_new(fd, &trailer, false, out);
	if (rc == CUDA_SUCCESS)
		dev->used += size;

unlock:
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

/* Looks phys up from handle, and runs the body with the lock held */
#define EMU_WITH_PHYS(phys, handle, body)                                                      \
	do {                                                                                   \
		struct emu_phys *phys;                                                         \
		pthread_mutex_lock(&emu.lock);                                                 \
		phys = emu_phys_get(handle);                                                   \
		if (!phys)                                                                     \
			rc = CUDA_ERROR_INVALID_VALUE;                                         \
		else                                                                           \
			body;                                                                  \
		pthread_mutex_unlock(&emu.lock);                                               \
	} while (0)

EMU_API(cuMemRelease, CUmemGenericAllocationHandle handle)
{
	CUresult rc = CUDA_SUCCESS;

	EMU_ENTER(EMU_NEED_INIT);
	EMU_WITH_PHYS(phys, handle, {
		phys->handles--;
		emu_phys_put(phys);
	});
	return rc;
}

EMU_API(cuMemGetAllocationPropertiesFromHandle, CUmemAllocationProp *prop,
	CUmemGenericAllocationHandle handle)
{
	CUresult rc = CUDA_SUCCESS;

	EMU_ENTER(EMU_NEED_INIT);
	EMU_WITH_PHYS(phys, handle, *prop = phys->prop);
	return rc;
}

EMU_API(cuMemRetainAllocationHandle, CUmemGenericAllocationHandle *out, void *addr)
{
	struct emu_alloc *alloc;
	CUresult rc = CUDA_ERROR_INVALID_VALUE;

	EMU_ENTER(EMU_NEED_INIT);
	pthread_mutex_lock(&emu.lock);
	alloc = emu_alloc_find((uintptr_t) addr);
	if (alloc && alloc->kind == EMU_VMM) {
		errno = EFAULT;
		/* a driver crashes, or writes to its own freed memory: probe_unmap.c */
		if (alloc->unmapping)
			emu_die("cuMemRetainAllocationHandle beside cuMemUnmap");
		alloc->phys->refs++;
		alloc->phys->handles++;
		*out = (uintptr_t) alloc->phys;
		rc = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

EMU_API(cuMemGetAllocationGranularity, size_t *out, const CUmemAllocationProp *prop,
	CUmemAllocationGranularity_flags option)
{
	EMU_ENTER(EMU_NEED_INIT);
	if (!out || !emu_prop_valid(prop))
		return CUDA_ERROR_INVALID_VALUE;
	*out = EMU_GRANULARITY;
	return CUDA_SUCCESS;
}

/* A descriptor that tells as long as it, or a mapping of it, is there: see ghost.c */
static int emu_phys_share(const struct emu_phys *phys)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", phys->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0 && !emu_ghost_hold(fd, 0, 0)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

EMU_API(cuMemExportToShareableHandle, void *out, CUmemGenericAllocationHandle handle,
	CUmemAllocationHandleType type, unsigned long long flags)
{
	CUresult rc = CUDA_SUCCESS;
	int fd = -1;

	EMU_ENTER(EMU_NEED_INIT);
	if (!out || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	EMU_WITH_PHYS(phys, handle, {
		if (!(phys->prop.requestedHandleTypes & type))
			rc = CUDA_ERROR_INVALID_VALUE;
		else
			fd = emu_phys_share(phys);
	});
	if (rc == CUDA_SUCCESS && fd < 0)
		rc = CUDA_ERROR_OPERATING_SYSTEM;
	if (rc == CUDA_SUCCESS)
		memcpy(out, &fd, sizeof(fd));
	return rc;
}

EMU_API(cuMemImportFromShareableHandle, CUmemGenericAllocationHandle *out, void *handle,
	CUmemAllocationHandleType type)
{
	struct emu_trailer trailer;
	struct stat st;
	CUresult rc;
	int fd;

	EMU_ENTER(EMU_NEED_INIT);
	if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
		return CUDA_ERROR_NOT_SUPPORTED;
	fd = fcntl((int) (uintptr_t) handle, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (fstat(fd, &st) || st.st_size < (off_t) EMU_PAGE ||
	    pread(fd, &trailer, sizeof(trailer), st.st_size - (off_t) EMU_PAGE) !=
		    (ssize_t) sizeof(trailer) ||
	    trailer.magic != EMU_PHYS_MAGIC ||
	    trailer.size != (uint64_t) st.st_size - EMU_PAGE ||
	    emu_device_ordinal(trailer.prop.location.id) == EMU_NO_DEVICE) {
		close(fd);
		return CUDA_ERROR_INVALID_VALUE;
	}
	trailer.prop.location.id = emu_device_ordinal(trailer.prop.location.id);
	pthread_mutex_lock(&emu.lock);
	rc = emu_phys_new(fd, &trailer, true, out);
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

/* ---- reservations ---- */

static struct emu_reservation *emu_reservation_new(size_t size)
{
	struct emu_reservation *resv;
	char *va;

	for (resv = emu_reservations; resv; resv = resv->next)
		if (!resv->live && resv->size == size)
			return resv;
	resv = calloc(1, sizeof(*resv));
	if (!resv)
		return NULL;
	va = emu_address_reserve(size);
	resv->twin = va ? mmap(NULL, size, PROT_NONE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
			: MAP_FAILED;
	if (resv->twin == MAP_FAILED) {
		free(resv);
		return NULL;
	}
	resv->base = (uintptr_t) va;
	resv->size = size;
	resv->next = emu_reservations;
	emu_reservations = resv;
	return resv;
}

EMU_API(cuMemAddressReserve, CUdeviceptr *out, size_t size, size_t align, CUdeviceptr hint,
	unsigned long long flags)
{
	struct emu_reservation *resv;

	EMU_ENTER(EMU_NEED_INIT);
	if (!out || !size || size % EMU_GRANULARITY || flags || align & (align - 1) ||
	    align > EMU_GRANULARITY)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&emu.lock);
	resv = emu_reservation_new(size);
	if (resv) {
		resv->live = true;
		*out = resv->base;
	}
	pthread_mutex_unlock(&emu.lock);
	return resv ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Any mapping that shares an address with the range */
static struct emu_alloc *emu_mapping_in(uint64_t base, size_t size)
{
	struct emu_alloc *alloc = emu_alloc_find(base);
	uint64_t at;

	for (at = base; !alloc && at - base < size; at += EMU_GRANULARITY)
		alloc = emu_alloc_find(at);
	return alloc;
}

EMU_API(cuMemAddressFree, CUdeviceptr ptr, size_t size)
{
	struct emu_reservation *resv;
	CUresult rc = CUDA_ERROR_INVALID_VALUE;

	EMU_ENTER(EMU_NEED_INIT);
	pthread_mutex_lock(&emu.lock);
	resv = emu_reservation_find(ptr);
	if (resv && resv->base == ptr && resv->size == size && !emu_mapping_in(ptr, size)) {
		resv->live = false;
		rc = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

/* ---- mappings ---- */

static CUresult emu_mapping_create(struct emu_reservation *resv, uint64_t ptr,
				   struct emu_phys *phys)
{
	struct emu_alloc *alloc = calloc(1, sizeof(*alloc));
	CUresult rc = CUDA_ERROR_OUT_OF_MEMORY;

	if (!alloc)
		return rc;
	alloc->kind = EMU_VMM;
	alloc->base = ptr;
	alloc->size = phys->size;
	alloc->dev = phys->prop.location.id;
	alloc->phys = phys;
	alloc->resv = resv;
	alloc->rw = mmap(resv->twin + (ptr - resv->base), phys->size, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_FIXED, phys->fd, 0);
	if (alloc->rw == MAP_FAILED)
		goto free_alloc;
	rc = emu_alloc_insert(alloc);
	if (rc != CUDA_SUCCESS)
		goto free_alloc;
	phys->refs++;
	return CUDA_SUCCESS;

free_alloc:
	free(alloc);
	return rc;
}

static void emu_mapping_destroy(struct emu_alloc *alloc)
{
	struct emu_phys *phys = alloc->phys;

	mmap(alloc->rw, alloc->size, PROT_NONE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
	emu_alloc_destroy(alloc);
	emu_phys_put(phys);
}

EMU_API(cuMemMap, CUdeviceptr ptr, size_t size, size_t offset,
	CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	struct emu_reservation *resv;
	CUresult rc = CUDA_SUCCESS;

	EMU_ENTER(EMU_NEED_INIT);
	if (ptr % EMU_GRANULARITY || offset || flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (size % EMU_GRANULARITY)
		return CUDA_ERROR_NOT_SUPPORTED;
	EMU_WITH_PHYS(phys, handle, {
		resv = emu_reservation_find(ptr);
		if (!resv || size != phys->size || size > resv->size - (ptr - resv->base) ||
		    emu_mapping_in(ptr, size))
			rc = CUDA_ERROR_INVALID_VALUE;
		else
			rc = emu_mapping_create(resv, ptr, phys);
	});
	return rc;
}

/* Do all mappings that touch the range lie within it? */
static bool emu_mappings_whole(uint64_t ptr, size_t size)
{
	struct emu_alloc *alloc;
	uint64_t at;

	for (at = ptr; at - ptr < size; at += EMU_GRANULARITY) {
		alloc = emu_alloc_find(at);
		if (alloc && (alloc->base < ptr || alloc->base + alloc->size > ptr + size))
			return false;
	}
	return true;
}

EMU_API(cuMemUnmap, CUdeviceptr ptr, size_t size)
{
	struct emu_reservation *resv;
	struct emu_alloc *alloc;
	CUresult rc = CUDA_ERROR_INVALID_VALUE;

	EMU_ENTER(EMU_NEED_INIT);
	if (size % EMU_GRANULARITY)
		return CUDA_ERROR_INVALID_VALUE;
	/* waits for nothing, as on a device: a copy that is under way crashes */
	pthread_mutex_lock(&emu.lock);
	resv = emu_reservation_find(ptr);
	if (resv && size <= resv->size - (ptr - resv->base) && emu_mappings_whole(ptr, size)) {
		while ((alloc = emu_mapping_in(ptr, size))) {
			alloc->unmapping = true;
			pthread_mutex_unlock(&emu.lock);
			for (int i = 0; i < 10; i++)
				sched_yield();
			pthread_mutex_lock(&emu.lock);
			emu_mapping_destroy(alloc);
		}
		rc = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

EMU_API(cuMemSetAccess, CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
	struct emu_alloc *alloc;
	CUresult rc = CUDA_SUCCESS;
	uint64_t at;
	size_t i;

	EMU_ENTER(EMU_NEED_INIT);
	if (!desc || !count || !size || size % EMU_GRANULARITY)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&emu.lock);
	if (!emu_mappings_whole(ptr, size))
		rc = CUDA_ERROR_INVALID_VALUE;
	for (at = ptr; at - ptr < size; at += EMU_GRANULARITY) {
		alloc = emu_alloc_find(at);
		if (!alloc || alloc->kind != EMU_VMM)
			rc = CUDA_ERROR_INVALID_VALUE;
	}
	for (i = 0; i < count; i++)
		if (desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
		    !emu_device_get(desc[i].location.id))
			rc = CUDA_ERROR_INVALID_VALUE;
	for (at = ptr; rc == CUDA_SUCCESS && at - ptr < size; at += EMU_GRANULARITY)
		for (i = 0; i < count; i++)
			emu_alloc_find(at)->access[desc[i].location.id] =
				(unsigned char) desc[i].flags;
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

EMU_API(cuMemGetAccess, unsigned long long *flags, const CUmemLocation *location,
	CUdeviceptr ptr)
{
	struct emu_alloc *alloc;
	CUresult rc = CUDA_ERROR_INVALID_VALUE;

	EMU_ENTER(EMU_NEED_INIT);
	if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
	    !emu_device_get(location->id))
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&emu.lock);
	alloc = emu_alloc_find(ptr);
	if (alloc && !emu_alloc_is_host(alloc)) {
		/* a driver tells nothing of memory that is not virtual */
		*flags = alloc->kind == EMU_VMM ? emu_access(alloc, location->id) : 0;
		rc = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&emu.lock);
	return rc;
}
