/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Rank 1: loading a library that may not be there. See dl.h. */
#include "dl.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "log.h"

static void *dl_find(void *lib, const struct dl_symbol *symbol)
{
	void *address = dlsym(lib, symbol->name);

	if (!address && symbol->older)
		address = dlsym(lib, symbol->older);
	return address;
}

static void *dl_open_any(const char *dir, const char *soname)
{
	char path[PATH_MAX];
	void *lib;

	/* the process's own comes first: another copy would know nothing of its memory */
	lib = dlopen(soname, RTLD_LAZY | RTLD_NOLOAD);
	if (!lib && dir &&
	    snprintf(path, sizeof path, "%s/%s", dir, soname) < (int) sizeof path)
		lib = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	if (!lib)
		lib = dlopen(soname, RTLD_LAZY | RTLD_LOCAL);
	if (!lib)
		P2P_INFO("%s\n", dlerror());
	return lib;
}

bool dl_loaded(const char *soname)
{
	void *lib = dlopen(soname, RTLD_LAZY | RTLD_NOLOAD);

	if (lib)
		dlclose(lib);
	return lib;
}

bool dl_installed(const char *dir, const char *soname)
{
	void *lib = dl_open_any(dir, soname);

	if (lib)
		dlclose(lib);
	return lib;
}

/* The last of them is the last to have come */
static int dl_last_name(struct dl_phdr_info *info, size_t size, void *name)
{
	if (strlen(info->dlpi_name) < PATH_MAX)
		strcpy(name, info->dlpi_name);
	return 0;
}

void *const *dl_watch(void)
{
	char name[PATH_MAX] = "";
	struct link_map *map;
	void *const *watch;
	void *lib;
	int ret;

	dl_iterate_phdr(dl_last_name, name);
	/* what is watched must not be unmapped */
	lib = dlopen(name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
	if (!lib)
		return NULL;
	ret = dlinfo(lib, RTLD_DI_LINKMAP, &map);
	dlclose(lib);
	if (ret)
		return NULL;
	watch = (void *const *) &map->l_next;
	/* another has come meanwhile, or the list is in another order than we think */
	return dl_news(watch) ? NULL : watch;
}

void *dl_open(const char *dir, const char *soname, const struct dl_symbol *symbols,
	      size_t count)
{
	void *lib = dl_open_any(dir, soname);
	size_t i;

	if (!lib)
		return NULL;
	for (i = 0; i < count; i++) {
		if (!symbols[i].optional && !dl_find(lib, &symbols[i])) {
			P2P_INFO("%s lacks %s: not used\n", soname, symbols[i].name);
			dlclose(lib);
			return NULL;
		}
	}
	for (i = 0; i < count; i++)
		*symbols[i].slot = dl_find(lib, &symbols[i]);
	return lib;
}
