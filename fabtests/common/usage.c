/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What a process has of the system: memory, descriptors, mappings. */
#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#include "ft.h"

static int count_lines(const char *path, size_t *lines)
{
	FILE *file = fopen(path, "r");
	int c;

	if (!file)
		return ft_errno("fopen", path);
	*lines = 0;
	while ((c = getc(file)) != EOF)
		*lines += c == '\n';
	fclose(file);
	return 0;
}

static int count_entries(const char *path, size_t *entries)
{
	DIR *dir = opendir(path);

	if (!dir)
		return ft_errno("opendir", path);
	*entries = 0;
	while (readdir(dir))
		++*entries;
	closedir(dir);
	return 0;
}

int ft_resident(size_t *bytes)
{
	FILE *file = fopen("/proc/self/statm", "r");
	size_t pages;
	int found;

	if (!file)
		return ft_errno("fopen", "/proc/self/statm");
	found = fscanf(file, "%*u %zu", &pages);
	fclose(file);
	FT_CHECK(found == 1, "/proc/self/statm: not as expected");
	*bytes = pages * (size_t) sysconf(_SC_PAGESIZE);
	return 0;
}

/* Where the kernel has no such sums, they are 0. */
static void read_shares(struct ft_usage *usage)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	char line[128];
	size_t kib;

	usage->own = usage->pss = 0;
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "Pss: %zu kB", &kib) == 1)
			usage->pss = kib << 10;
		else if (sscanf(line, "Private_Clean: %zu kB", &kib) == 1 ||
			 sscanf(line, "Private_Dirty: %zu kB", &kib) == 1)
			usage->own += kib << 10;
	}
	if (file)
		fclose(file);
}

int ft_usage_read(struct ft_usage *usage)
{
	FT_TRY(ft_resident(&usage->resident));
	read_shares(usage);
	FT_TRY(count_entries("/proc/self/fd", &usage->descriptors));
	FT_TRY(count_entries("/proc/self/task", &usage->threads));
	return count_lines("/proc/self/maps", &usage->mappings);
}
