/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Mappings of files. See pmem.h. */
#include "mem/pmem.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <rdma/fi_errno.h>

#include "base/base.h"
#include "base/log.h"

#ifdef __x86_64__
#include <cpuid.h>
#endif

/* ---- what a mapping is ---- */

/* One mapping, as smaps tells of it */
struct pmem_map {
	uintptr_t start;
	uintptr_t end;
	enum pmem_kind kind;
};

/* Memory that processes share without a file is a deleted /dev/zero to the kernel. */
#define PMEM_ANONYMOUS "/dev/zero"
#define PMEM_DEVICE "/dev/dax"

static bool pmem_begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

/* Is it the first line about a mapping? Then @map is that */
static bool pmem_map_read(const char *line, struct pmem_map *map)
{
	unsigned long inode;
	char shared;
	int path = 0;

	if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %*c%*c%*c%c %*x %*x:%*x %lu %n",
		   &map->start, &map->end, &shared, &inode, &path) != 4)
		return false;
	map->kind = PMEM_FILE;
	if (shared != 's' || pmem_begins(line + path, PMEM_ANONYMOUS))
		map->kind = PMEM_NOT;
	else if (pmem_begins(line + path, PMEM_DEVICE))
		map->kind = PMEM_DAX;
	else if (!inode)
		map->kind = PMEM_NOT;
	return true;
}

/* Do the flags of a mapping say MAP_SYNC? */
static bool pmem_flags_sync(const char *line)
{
	return pmem_begins(line, "VmFlags:") && strstr(line, " sf");
}

/* How far the bytes from @at on lie in @map, or else @at. @kind becomes the least of all */
static uintptr_t pmem_cover(const struct pmem_map *map, uintptr_t at, enum pmem_kind *kind)
{
	if (at < map->start || at >= map->end)
		return at;
	*kind = P2P_MIN(*kind, map->kind);
	return map->end;
}

/* What the bytes from @at to @end are. Mappings come in the order of their addresses. */
static enum pmem_kind pmem_look_at(FILE *smaps, uintptr_t at, uintptr_t end)
{
	enum pmem_kind kind = PMEM_DAX;
	struct pmem_map map = {0}, next;
	size_t room = 0;
	char *line = NULL;

	rewind(smaps);
	while (at < end && getline(&line, &room, smaps) > 0) {
		if (pmem_map_read(line, &next)) {
			at = pmem_cover(&map, at, &kind);
			map = next;
		} else if (map.kind == PMEM_FILE && pmem_flags_sync(line)) {
			map.kind = PMEM_DAX;
		}
	}
	if (at < end)
		at = pmem_cover(&map, at, &kind);
	free(line);
	return at < end ? PMEM_NOT : kind;
}

/* Can this processor write its caches back for us? If not, msync() is right for any mapping. */
static bool pmem_has_lines(void)
{
#ifdef __x86_64__
	return true;
#else
	return false;
#endif
}

enum pmem_kind pmem_look_in(FILE *smaps, const struct iovec *iov, size_t count)
{
	enum pmem_kind kind = PMEM_DAX, one;

	for (size_t i = 0; i < count; i++) {
		uintptr_t at = (uintptr_t) iov[i].iov_base;

		one = pmem_look_at(smaps, at, at + iov[i].iov_len);
		kind = P2P_MIN(kind, one);
	}
	return kind == PMEM_DAX && !pmem_has_lines() ? PMEM_FILE : kind;
}

int pmem_look(const struct iovec *iov, size_t count, enum pmem_kind *kind)
{
	FILE *smaps = fopen("/proc/self/smaps", "re");
	int ret;

	if (!smaps) {
		ret = -errno;
		P2P_WARN("/proc/self/smaps: %s: what a mapping is cannot be told\n",
			 fi_strerror(-ret));
		return ret;
	}
	*kind = pmem_look_in(smaps, iov, count);
	fclose(smaps);
	return 0;
}

const char *pmem_kind_says(enum pmem_kind kind)
{
	switch (kind) {
	case PMEM_FILE:
		return "an ordinary mapping of a file, made durable by msync";
	case PMEM_DAX:
		return "a mapping of persistent memory, made durable by writing back caches";
	default:
		return "no shared mapping of a file";
	}
}

/* ---- making it durable ---- */

static int pmem_sync(const struct iovec *iov)
{
	const uintptr_t page = (uintptr_t) sysconf(_SC_PAGESIZE);
	uintptr_t start = (uintptr_t) iov->iov_base & ~(page - 1);
	uintptr_t end = (uintptr_t) iov->iov_base + iov->iov_len;
	int ret;

	if (!iov->iov_len || !msync((void *) start, end - start, MS_SYNC))
		return 0;
	ret = -errno;
	P2P_WARN("msync of %zu bytes: %s\n", iov->iov_len, fi_strerror(-ret));
	return ret;
}

#ifdef __x86_64__

#define PMEM_LINE 64

/* CPUID, leaf 7: in Intel's manual of instructions */
static bool pmem_has_clwb(void)
{
	unsigned int eax, ebx, ecx, edx;

	return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && ebx & bit_CLWB;
}

static void pmem_write_back(const struct iovec *iov)
{
	const bool clwb = pmem_has_clwb();
	uintptr_t end = (uintptr_t) iov->iov_base + iov->iov_len;
	uintptr_t at = (uintptr_t) iov->iov_base & ~(uintptr_t) (PMEM_LINE - 1);

	for (; at < end; at += PMEM_LINE) {
		if (clwb)
			__asm__ volatile("clwb %0" : "+m"(*(char *) at));
		else
			__asm__ volatile("clflush %0" : "+m"(*(char *) at));
	}
	__asm__ volatile("sfence" ::: "memory");
}

#else

static void pmem_write_back(const struct iovec *iov)
{
}

#endif

int pmem_flush(enum pmem_kind kind, const struct iovec *iov, size_t count)
{
	int ret = 0;

	for (size_t i = 0; i < count && !ret; i++) {
		if (kind == PMEM_DAX)
			pmem_write_back(&iov[i]);
		else
			ret = pmem_sync(&iov[i]);
	}
	return ret;
}
