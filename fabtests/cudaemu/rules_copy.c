/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* When are the bytes of a synchronous call there for another, non-blocking stream? And the flags that say so */
#include "rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One copy in a hundred is in time by chance */
#define ROUNDS 400

static CUresult from_pageable(CUdeviceptr at, unsigned char value, size_t size)
{
	memset(rules.pageable, value, size);
	return cuMemcpyHtoD_v2(at, rules.pageable, size);
}

static CUresult from_pinned(CUdeviceptr at, unsigned char value, size_t size)
{
	memset(rules.pinned, value, size);
	return cuMemcpyHtoD_v2(at, rules.pinned, size);
}

static CUresult from_any(CUdeviceptr at, unsigned char value, size_t size)
{
	memset(rules.pageable, value, size);
	return cuMemcpy(at, (CUdeviceptr) (uintptr_t) rules.pageable, size);
}

static CUresult fill(CUdeviceptr at, unsigned char value, size_t size)
{
	return cuMemsetD8_v2(at, value, size);
}

/* The source is in place before */
static CUresult within(CUdeviceptr at, unsigned char value, size_t size)
{
	return cuMemcpyDtoD_v2(at, rules.device2, size);
}

static CUresult from_pageable_and_sync(CUdeviceptr at, unsigned char value, size_t size)
{
	CUresult rc;

	memset(rules.pageable, value, size);
	rc = cuMemcpyHtoDAsync_v2(at, rules.pageable, size, rules.blocking);
	return rc ? rc : cuStreamSynchronize(rules.blocking);
}

static const struct {
	const char *name;
	CUresult (*write)(CUdeviceptr at, unsigned char value, size_t size);
} writes[] = {
	{"cuMemcpyHtoD(pageable)", from_pageable},
	{"cuMemcpy(pageable)", from_any},
	{"cuMemcpyHtoD(pinned)", from_pinned},
	{"cuMemcpyHtoDAsync(pageable), cuStreamSynchronize", from_pageable_and_sync},
	{"cuMemsetD8", fill},
	{"cuMemcpyDtoD", within},
};

/* Other sizes, fills and copies within the device are late too seldom to say so each time */
static const size_t sizes[] = {65536, 1048576, 4194304, 4096, 131072};
#define LATE_SIZES 3
#define LATE_WRITES 4

/*
 * How often the last bytes are old ones for a copy by another stream; once is enough, unless they are counted. A machine
 * that is busy needs more rounds for it.
 */
static int old_bytes(size_t w, CUdeviceptr at, size_t size, int rounds)
{
	const bool counted = getenv("RULES_COUNT");
	unsigned char *seen = (unsigned char *) rules.pinned + RULES_BIG - 64;
	const size_t last = size < 64 ? size : 64;
	int i, wrong = 0;

	for (i = 0; i < rounds && (counted || !wrong); i++) {
		unsigned char value = (unsigned char) (1 + i % 250);

		if (writes[w].write == within) {
			RULES_MUST(cuMemsetD8_v2(rules.device2, value, size));
			RULES_MUST(cuCtxSynchronize());
		}
		RULES_MUST(writes[w].write(at, value, size));
		RULES_MUST(cuMemcpyAsync((CUdeviceptr) (uintptr_t) seen, at + size - last, last,
					 rules.side));
		RULES_MUST(cuStreamSynchronize(rules.side));
		wrong += seen[last - 1] != value;
		RULES_MUST(cuCtxSynchronize());
	}
	return wrong;
}

/* @all: everything is in time, so the rows can show all */
static void copies_to(const char *kind, CUdeviceptr at, bool all)
{
	const size_t nwrites = all ? sizeof(writes) / sizeof(writes[0]) : LATE_WRITES;
	const size_t nsizes = all ? sizeof(sizes) / sizeof(sizes[0]) : LATE_SIZES;
	size_t w, s;
	int wrong;

	for (w = 0; w < nwrites; w++) {
		printf("%s to %s:", writes[w].name, kind);
		for (s = 0; s < nsizes; s++) {
			wrong = old_bytes(w, at, sizes[s],
					  getenv("RULES_QUICK") ? ROUNDS / 8 : ROUNDS);
			if (getenv("RULES_COUNT"))
				printf(" %zu %d", sizes[s], wrong);
			else
				printf(" %zu %s", sizes[s], wrong ? "late" : "there");
		}
		rules_row("%s", "");
	}
}

static void copies(bool all)
{
	copies_to("cuMemAlloc", rules.device, all);
	copies_to("pool", rules.pool, all);
	copies_to("vmm", rules.vmm, all);
	copies_to("managed", rules.managed, all);
}

static unsigned int current_flags(void)
{
	unsigned int flags = 0;

	RULES_MUST(cuCtxGetFlags(&flags));
	return flags;
}

void rules_copies(void)
{
	rules_open_all();
	copies(false);
}

static CUresult set_sync(CUdeviceptr ptr)
{
	const unsigned int on = 1;

	return cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, ptr);
}

void rules_copies_attribute(void)
{
	rules_open_all();
	set_sync(rules.device);
	set_sync(rules.pool);
	set_sync(rules.vmm);
	set_sync(rules.managed);
	copies(false);
}

void rules_copies_current(void)
{
	rules_open_all();
	rules_row("cuCtxSetFlags: %s",
		  rules_name(cuCtxSetFlags(current_flags() | CU_CTX_SYNC_MEMOPS)));
	copies(true);
}

void rules_copies_active(void)
{
	rules_open_all();
	rules_row("cuDevicePrimaryCtxSetFlags: %s",
		  rules_name(cuDevicePrimaryCtxSetFlags_v2(0, rules_primary_flags() |
								      CU_CTX_SYNC_MEMOPS)));
	copies(true);
}

void rules_copies_early(void)
{
	RULES_MUST(cuInit(0));
	RULES_MUST(cuDevicePrimaryCtxSetFlags_v2(0, CU_CTX_SYNC_MEMOPS));
	rules_open_all();
	copies(true);
}

/* A context of its own, beside the primary one that has no flag */
void rules_copies_created(void)
{
	CUcontext ctx;

	rules_open();
	RULES_MUST(cuCtxCreate_v2(&ctx, CU_CTX_SYNC_MEMOPS, 0));
	RULES_MUST(cuMemAlloc_v2(&rules.device, RULES_BIG));
	RULES_MUST(cuMemAlloc_v2(&rules.device2, RULES_BIG));
	RULES_MUST(cuStreamCreate(&rules.side, CU_STREAM_NON_BLOCKING));
	RULES_MUST(cuStreamCreate(&rules.blocking, CU_STREAM_DEFAULT));
	RULES_MUST(cuMemHostAlloc(&rules.pinned, RULES_BIG, CU_MEMHOSTALLOC_PORTABLE));
	rules.vmm = rules_vmm_new(RULES_BIG, 0, &rules.vmm_handle);
	RULES_MUST(rules_vmm_access(rules.vmm, RULES_BIG, 0));
	rules.pageable = calloc(1, RULES_BIG);
	copies_to("cuMemAlloc", rules.device, true);
	copies_to("vmm", rules.vmm, true);
}

/* ---- the flags of contexts ---- */

static void show_flags(const char *what, CUresult rc)
{
	unsigned int primary = 0, current = 0;
	CUresult got;
	int active = 0;

	cuDevicePrimaryCtxGetState(0, &primary, &active);
	got = cuCtxGetFlags(&current);
	rules_row("%s: %s; primary 0x%x, active %d; current %s 0x%x", what, rules_name(rc),
		  primary, active, rules_name(got), current);
}

void rules_flags(void)
{
	CUcontext primary, created;
	CUresult rc;

	show_flags("cuInit", cuInit(0));
	show_flags("unknown flags", cuDevicePrimaryCtxSetFlags_v2(0, 0x4000));
	show_flags("SetFlags(primary, SPIN), not active",
		   cuDevicePrimaryCtxSetFlags_v2(0, CU_CTX_SCHED_SPIN));
	rc = cuDevicePrimaryCtxRetain(&primary, 0);
	cuCtxSetCurrent(primary);
	show_flags("retained", rc);
	show_flags("SetFlags(primary, SYNC_MEMOPS), active",
		   cuDevicePrimaryCtxSetFlags_v2(0, CU_CTX_SYNC_MEMOPS));
	show_flags("SetFlags(primary, 0)", cuDevicePrimaryCtxSetFlags_v2(0, 0));
	show_flags("cuCtxSetFlags(SYNC_MEMOPS)", cuCtxSetFlags(CU_CTX_SYNC_MEMOPS));
	show_flags("cuCtxSetFlags(MAP_HOST)", cuCtxSetFlags(CU_CTX_MAP_HOST));
	show_flags("cuCtxSetFlags(SPIN and SYNC_MEMOPS)",
		   cuCtxSetFlags(CU_CTX_SCHED_SPIN | CU_CTX_SYNC_MEMOPS));
	show_flags("cuCtxSetFlags(unknown)", cuCtxSetFlags(0x4000));
	show_flags("created without flags", cuCtxCreate_v2(&created, 0, 0));
	show_flags("cuCtxSetFlags(SYNC_MEMOPS)", cuCtxSetFlags(CU_CTX_SYNC_MEMOPS));
	show_flags("destroyed", cuCtxDestroy_v2(created));
	show_flags("created with SYNC_MEMOPS", cuCtxCreate_v2(&created, CU_CTX_SYNC_MEMOPS, 0));
	show_flags("cuCtxSetFlags(0)", cuCtxSetFlags(0));
	show_flags("destroyed", cuCtxDestroy_v2(created));
	cuCtxSetCurrent(NULL);
	show_flags("cuCtxSetFlags without a context", cuCtxSetFlags(CU_CTX_SYNC_MEMOPS));
	show_flags("released", cuDevicePrimaryCtxRelease_v2(0));
	rc = cuDevicePrimaryCtxRetain(&primary, 0);
	cuCtxSetCurrent(primary);
	show_flags("retained again", rc);
	cuDevicePrimaryCtxSetFlags_v2(0, CU_CTX_SYNC_MEMOPS);
	show_flags("reset", cuDevicePrimaryCtxReset_v2(0));
}

/* ---- the attribute of memory ---- */

static void show_sync(const char *what, CUdeviceptr ptr)
{
	unsigned int before = 77, after = 77;
	CUresult got, set, again;

	got = cuPointerGetAttribute(&before, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, ptr);
	set = set_sync(ptr);
	again = cuPointerGetAttribute(&after, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, ptr);
	rules_row("SYNC_MEMOPS of %s: get %s %u, set %s, get %s %u", what, rules_name(got),
		  before, rules_name(set), rules_name(again), after);
}

static void show_kinds(const char *which)
{
	rules_row("%s", which);
	show_sync("cuMemAlloc", rules.device);
	show_sync("pool", rules.pool);
	show_sync("vmm", rules.vmm);
	show_sync("managed", rules.managed);
	show_sync("pinned", (CUdeviceptr) (uintptr_t) rules.pinned);
	show_sync("pageable", (CUdeviceptr) (uintptr_t) rules.pageable);
}

void rules_attributes(void)
{
	rules_open_all();
	show_kinds("without the context's flag");
	RULES_MUST(cuDevicePrimaryCtxSetFlags_v2(0, CU_CTX_SYNC_MEMOPS));
	show_kinds("with the context's flag");
	RULES_MUST(cuMemAlloc_v2(&rules.device, 4096));
	show_sync("cuMemAlloc of later", rules.device);
}
