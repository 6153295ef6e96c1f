/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What the provider uses of gdrcopy's library, for emulated device memory. The memory is mapped
 * for the CPU a second time, under other addresses. Only memory of cuMemAlloc can be mapped,
 * though the real library may do more. Calls are counted and made to fail as the driver's are
 * (fault.c).
 *
 * Three mistakes kill the process, as they do with the real library, or worse. A child uses
 * what its parent has opened. A program uses memory that has been freed. Two threads use the
 * library at once.
 */
#include "emu.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "backing.h"
#include "driver.h"

#define GDR_API(type, name, ...)                                                               \
	EMU_EXPORT type name(__VA_ARGS__);                                                     \
	EMU_EXPORT type name(__VA_ARGS__)

#define GDR_PAGE 65536ull

/* A handle, which is passed by value */
struct gdr_mh {
	unsigned long h;
};

struct gdr_info_v2 {
	uint64_t va, mapped_size;
	uint32_t page_size;
	uint64_t tm_cycles;
	uint32_t cycles_per_ms;
	unsigned int mapped : 1, wc_mapping : 1;
	int mapping_type;
};

/* Pages of an allocation, by its id */
struct gdr_pin {
	uint64_t va, size, id;
	int fd;
	uint64_t offset;
	char *map;
};

static pid_t gdr_owner;
static int gdr_threads;

static void __attribute__((noreturn)) gdr_die(const char *what)
{
	fprintf(stderr, "cudaemu: gdrcopy: %s\n", what);
	abort();
}

static int gdr_enter(const char *function)
{
	if (gdr_owner != getpid())
		gdr_die("opened by another process");
	if (__atomic_exchange_n(&gdr_threads, 1, __ATOMIC_RELAXED))
		gdr_die("used by two threads at once");
	return emu_enter(function, EMU_NEED_NOTHING) == CUDA_SUCCESS ? 0 : EIO;
}

static int gdr_leave(int error)
{
	__atomic_store_n(&gdr_threads, 0, __ATOMIC_RELAXED);
	return error;
}

GDR_API(void *, gdr_open, void)
{
	gdr_owner = getpid();
	return emu_enter(__func__, EMU_NEED_NOTHING) == CUDA_SUCCESS ? &gdr_owner : NULL;
}

static int gdr_pin(uint64_t addr, size_t size, struct gdr_mh *handle)
{
	const uint64_t va = addr / GDR_PAGE * GDR_PAGE;
	CUcontext ctx = NULL;
	struct gdr_pin *pin;
	struct cudaemu_backing backing;
	CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_CONTEXT;
	void *data = &ctx;

	/* virtual memory and memory of a pool belong to no context */
	if (!cudaemu_address_backing(va, &backing) ||
	    cuPointerGetAttributes(1, &attribute, &data, va) != CUDA_SUCCESS || !ctx)
		return EINVAL;
	pin = calloc(1, sizeof(*pin));
	if (!pin)
		return ENOMEM;
	pin->va = va;
	pin->size = EMU_ROUND_UP(addr + size, GDR_PAGE) - va;
	pin->id = backing.id;
	pin->fd = backing.fd;
	pin->offset = backing.offset;
	handle->h = (unsigned long) pin;
	return 0;
}

GDR_API(int, gdr_pin_buffer, void *g, unsigned long addr, size_t size, uint64_t token,
	uint32_t space, struct gdr_mh *handle)
{
	int error = gdr_enter(__func__);

	return gdr_leave(error ? error : gdr_pin(addr, size, handle));
}

GDR_API(int, gdr_unpin_buffer, void *g, struct gdr_mh handle)
{
	struct gdr_pin *pin = (struct gdr_pin *) handle.h;
	int error = gdr_enter(__func__);

	if (pin->map)
		gdr_die("unpinned before it is unmapped");
	free(pin);
	return gdr_leave(error);
}

GDR_API(int, gdr_get_info_v2, void *g, struct gdr_mh handle, struct gdr_info_v2 *info)
{
	const struct gdr_pin *pin = (const struct gdr_pin *) handle.h;
	int error = gdr_enter(__func__);

	*info = (struct gdr_info_v2){.va = pin->va,
				     .mapped_size = pin->size,
				     .page_size = GDR_PAGE,
				     .mapped = pin->map != NULL,
				     .wc_mapping = pin->map != NULL};
	return gdr_leave(error);
}

GDR_API(int, gdr_map, void *g, struct gdr_mh handle, void **map, size_t size)
{
	struct gdr_pin *pin = (struct gdr_pin *) handle.h;
	int error = gdr_enter(__func__);

	if (!error) {
		*map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, pin->fd,
			    (off_t) pin->offset);
		if (*map == MAP_FAILED)
			error = errno;
		else
			pin->map = *map;
	}
	return gdr_leave(error);
}

GDR_API(int, gdr_unmap, void *g, struct gdr_mh handle, void *map, size_t size)
{
	struct gdr_pin *pin = (struct gdr_pin *) handle.h;
	int error = gdr_enter(__func__);

	if (pin->map != map || munmap(map, size))
		gdr_die("not mapped there");
	pin->map = NULL;
	return gdr_leave(error);
}

static int gdr_copy(struct gdr_mh handle, const void *at, void *dst, const void *src,
		    size_t size)
{
	const struct gdr_pin *pin = (const struct gdr_pin *) handle.h;
	const uint64_t offset = (uint64_t) ((const char *) at - pin->map);
	struct cudaemu_backing backing;

	if (!pin->map || offset >= pin->size || size > pin->size - offset)
		gdr_die("outside what is mapped");
	if (!cudaemu_address_backing(pin->va + offset, &backing) || backing.id != pin->id)
		gdr_die("the memory has been freed");
	memcpy(dst, src, size);
	return 0;
}

GDR_API(int, gdr_copy_to_mapping, struct gdr_mh handle, void *map, const void *src, size_t size)
{
	int error = gdr_enter(__func__);

	return gdr_leave(error ? error : gdr_copy(handle, map, map, src, size));
}

GDR_API(int, gdr_copy_from_mapping, struct gdr_mh handle, void *dst, const void *map,
	size_t size)
{
	int error = gdr_enter(__func__);

	return gdr_leave(error ? error : gdr_copy(handle, map, dst, map, size));
}
