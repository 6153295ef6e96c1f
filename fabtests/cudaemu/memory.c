/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Memory underneath the entry points: address ranges, the device's files, and the lookup of
 * pointers.
 *
 * A device address is a mapping that nobody may touch. The engine reaches the same bytes
 * through a second mapping elsewhere. Pinned memory is shared with the processes of kernels.
 *
 * Freed addresses come back with the next allocation of their size, the last one first, under a
 * new buffer id. So a cache by address that has missed the free gives wrong answers at once
 * instead of seldom.
 */
#define _GNU_SOURCE
#include "emu.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- pointers to allocations ---- */

/* The index of the first allocation above ptr */
static size_t emu_alloc_above(uint64_t ptr)
{
	size_t low = 0, high = emu.nallocs, mid;

	while (low < high) {
		mid = low + (high - low) / 2;
		if (emu.allocs[mid]->base <= ptr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct emu_alloc *emu_alloc_find(uint64_t ptr)
{
	size_t i = emu_alloc_above(ptr);

	if (i == 0 || ptr - emu.allocs[i - 1]->base >= emu.allocs[i - 1]->size)
		return NULL;
	return emu.allocs[i - 1];
}

/* Makes room for one more element. Arrays grow by doubling. */
static bool emu_array_grow(void **array, size_t *cap, size_t used, size_t elem)
{
	size_t more = *cap ? *cap * 2 : 64;
	void *p;

	if (used < *cap)
		return true;
	p = realloc(*array, more * elem);
	if (!p)
		return false;
	*array = p;
	*cap = more;
	return true;
}

CUresult emu_alloc_insert(struct emu_alloc *alloc)
{
	size_t i;

	if (!emu_array_grow((void **) &emu.allocs, &emu.allocs_cap, emu.nallocs,
			    sizeof(*emu.allocs)))
		return CUDA_ERROR_OUT_OF_MEMORY;
	i = emu_alloc_above(alloc->base);
	memmove(&emu.allocs[i + 1], &emu.allocs[i], (emu.nallocs - i) * sizeof(*emu.allocs));
	emu.allocs[i] = alloc;
	emu.nallocs++;
	alloc->id = ++emu.next_id;
	return CUDA_SUCCESS;
}

void emu_alloc_remove(struct emu_alloc *alloc)
{
	size_t i = emu_alloc_above(alloc->base) - 1;

	emu.nallocs--;
	memmove(&emu.allocs[i], &emu.allocs[i + 1], (emu.nallocs - i) * sizeof(*emu.allocs));
}

static size_t emu_range_above(uint64_t ptr)
{
	size_t low = 0, high = emu.nranges, mid;

	while (low < high) {
		mid = low + (high - low) / 2;
		if (emu.ranges[mid].base <= ptr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Is or was this device memory? If so, it is never ordinary host memory. */
bool emu_range_owned(uint64_t ptr)
{
	size_t i = emu_range_above(ptr);

	return i && ptr - emu.ranges[i - 1].base < emu.ranges[i - 1].len;
}

void emu_range_add(uint64_t base, uint64_t len)
{
	size_t i = emu_range_above(base);

	if (!emu_array_grow((void **) &emu.ranges, &emu.ranges_cap, emu.nranges,
			    sizeof(*emu.ranges)))
		emu_die("range of addresses");
	memmove(&emu.ranges[i + 1], &emu.ranges[i], (emu.nranges - i) * sizeof(*emu.ranges));
	emu.ranges[i].base = base;
	emu.ranges[i].len = len;
	emu.nranges++;
}

/* ---- address ranges ---- */

/* The range is untouchable, aligned like device memory, and has a gap behind it. */
char *emu_address_reserve(size_t len)
{
	size_t whole = EMU_ROUND_UP(len, EMU_GRANULARITY) + EMU_GRANULARITY;
	char *p, *aligned;

	if (whole < len)
		return NULL;
	p = mmap(NULL, whole + EMU_GRANULARITY, PROT_NONE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return NULL;
	aligned = (char *) EMU_ROUND_UP((uintptr_t) p, EMU_GRANULARITY);
	if (aligned != p)
		munmap(p, (size_t) (aligned - p));
	if (aligned + whole != p + whole + EMU_GRANULARITY)
		munmap(aligned + whole,
		       (size_t) (p + whole + EMU_GRANULARITY - (aligned + whole)));
	emu_range_add((uintptr_t) aligned, whole);
	return aligned;
}

void emu_poison(char *p, size_t size, int pattern)
{
	size_t span = size <= 2 * EMU_POISON_SPAN ? size : EMU_POISON_SPAN;

	memset(p, pattern, span);
	if (span != size)
		memset(p + size - span, pattern, span);
}

static struct emu_block *emu_block_map(int dev, size_t len)
{
	struct emu_block *block = calloc(1, sizeof(*block));
	struct emu_device *device = emu_device_get(dev);
	char *va = block ? emu_address_reserve(len) : NULL;

	if (!va)
		goto free_block;
	block->va = (uintptr_t) va;
	block->len = len;
	block->dev = dev;
	if (!device) {
		block->rw = mmap(va, len, PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
		if (block->rw == MAP_FAILED)
			goto free_block;
		return block;
	}
	block->offset = device->file_size;
	if (ftruncate(device->fd, (off_t) (device->file_size + len)))
		goto free_block;
	block->rw = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
			 device->fd, (off_t) block->offset);
	if (block->rw == MAP_FAILED)
		goto free_block;
	device->file_size += len;
	return block;

free_block:
	/* the addresses stay reserved: this process is out of memory anyhow */
	free(block);
	return NULL;
}

static struct emu_block *emu_block_get(int dev, size_t size)
{
	size_t len = EMU_ROUND_UP(size, EMU_GRANULARITY);
	struct emu_block **link, *block;

	for (link = &emu.free_blocks; *link; link = &(*link)->next) {
		block = *link;
		if (block->dev != dev || block->len != len)
			continue;
		if (dev == EMU_NO_DEVICE && mprotect(block->rw, len, PROT_READ | PROT_WRITE))
			return NULL;
		*link = block->next;
		return block;
	}
	return emu_block_map(dev, len);
}

static void emu_block_put(struct emu_block *block, size_t size)
{
	emu_poison(block->rw, size, EMU_POISON_FREED);
	if (block->dev == EMU_NO_DEVICE)
		mprotect(block->rw, block->len, PROT_NONE);
	else if (block->len > 2 * EMU_POISON_SPAN)
		/* what was written between the two ends goes back to the system */
		fallocate(emu.dev[block->dev].fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			  (off_t) (block->offset + EMU_POISON_SPAN),
			  (off_t) (block->len - EMU_POISON_SPAN));
	block->next = emu.free_blocks;
	emu.free_blocks = block;
}

/* ---- allocations ---- */

bool emu_alloc_is_host(const struct emu_alloc *alloc)
{
	return alloc->kind == EMU_HOST || alloc->kind == EMU_REGISTERED;
}

static bool emu_kind_is_plain(enum emu_kind kind)
{
	return kind == EMU_HOST || kind == EMU_MANAGED;
}

static uint64_t emu_alloc_charge(const struct emu_alloc *alloc)
{
	return EMU_ROUND_UP(alloc->size, 512ull);
}

/* New memory of the given kind in dev. Called with the lock held. */
CUresult emu_alloc_create(enum emu_kind kind, CUdevice dev, size_t size, struct emu_alloc **out)
{
	struct emu_alloc *alloc = calloc(1, sizeof(*alloc));
	CUresult rc = CUDA_ERROR_OUT_OF_MEMORY;

	if (!alloc)
		return rc;
	alloc->kind = kind;
	alloc->dev = dev;
	alloc->size = size;
	if (size > emu.conf.memory && kind != EMU_HOST)
		goto free_alloc;
	emu_ghosts_sweep(&emu.dev[dev]);
	if (!emu_kind_is_plain(kind) &&
	    emu_alloc_charge(alloc) > emu.conf.memory - emu.dev[dev].used)
		goto free_alloc;
	alloc->block = emu_block_get(emu_kind_is_plain(kind) ? EMU_NO_DEVICE : dev, size);
	if (!alloc->block)
		goto free_alloc;
	alloc->base = alloc->block->va;
	alloc->rw = alloc->block->rw;
	rc = emu_alloc_insert(alloc);
	if (rc != CUDA_SUCCESS)
		goto put_block;
	emu_poison(alloc->rw, size, EMU_POISON_NEW);
	if (!emu_kind_is_plain(kind))
		emu.dev[dev].used += emu_alloc_charge(alloc);
	*out = alloc;
	return CUDA_SUCCESS;

put_block:
	emu_block_put(alloc->block, 0);
free_alloc:
	free(alloc);
	return rc;
}

/* Forgets an allocation that nothing uses any more. Called with the lock held. */
void emu_alloc_destroy(struct emu_alloc *alloc)
{
	emu_alloc_remove(alloc);
	if (alloc->block && !emu_kind_is_plain(alloc->kind))
		emu_ipc_forget(alloc, emu_alloc_charge(alloc));
	if (alloc->pool)
		alloc->pool->used -= alloc->size;
	if (alloc->block)
		emu_block_put(alloc->block, alloc->size);
	free(alloc);
}

/* A context takes its memory with it, pinned memory and that of other processes too */
void emu_ctx_free_memory(struct CUctx_st *ctx)
{
	size_t i = emu.nallocs;

	while (i-- > 0)
		if (emu.allocs[i]->ctx == ctx && emu.allocs[i]->kind == EMU_IPC)
			emu_ipc_unmap(emu.allocs[i]);
		else if (emu.allocs[i]->ctx == ctx)
			emu_alloc_destroy(emu.allocs[i]);
}

/* ---- operands of copies ---- */

/* Who asks about the memory: the current context's device, else its own */
CUdevice emu_accessor(const struct emu_alloc *alloc)
{
	const struct CUctx_st *ctx = emu_ctx_current();

	return ctx ? ctx->dev : alloc->dev;
}

/* What the device may do with the memory. Only virtual memory keeps devices out. */
unsigned int emu_access(const struct emu_alloc *alloc, CUdevice dev)
{
	return alloc->kind == EMU_VMM ? alloc->access[dev] : CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

/*
 * Is all of [ptr, ptr + size) accessible for the device? Adjacent mappings of one reservation count as one
 * piece, as they do for the real driver.
 */
bool emu_range_check(const struct emu_alloc *alloc, uint64_t ptr, size_t size, CUdevice dev)
{
	const struct emu_alloc *next;
	uint64_t left;

	for (;;) {
		if (emu_access(alloc, dev) != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
			return false;
		left = alloc->size - (ptr - alloc->base);
		if (size <= left)
			return true;
		ptr += left;
		size -= left;
		next = emu_alloc_find(ptr);
		if (!next || !alloc->resv || next->resv != alloc->resv)
			return false;
		alloc = next;
	}
}

CUresult emu_operand_resolve(uint64_t ptr, size_t size, CUdevice dev, struct emu_operand *out)
{
	struct emu_alloc *alloc = emu_alloc_find(ptr);

	if (!ptr || ptr + size < ptr)
		return CUDA_ERROR_INVALID_VALUE;
	out->alloc = alloc;
	if (!alloc) {
		if (emu_range_owned(ptr))
			return CUDA_ERROR_INVALID_VALUE;
		out->p = (char *) (uintptr_t) ptr;
		out->host = true;
		return CUDA_SUCCESS;
	}
	if (!emu_range_check(alloc, ptr, size, dev))
		return CUDA_ERROR_INVALID_VALUE;
	out->p = alloc->rw + (ptr - alloc->base);
	out->host = emu_alloc_is_host(alloc);
	return CUDA_SUCCESS;
}
