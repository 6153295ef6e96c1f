/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Rank 1: loading a library that may not be there. See dl.h. */
#include "dl.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>

#include "log.h"

static void *dl_find(void *lib, const struct dl_symbol *symbol)
{
	void *address = dlsym(lib, symbol->name);

	if (!address && symbol->older)
		address = dlsym(lib, symbol->older);
	return address;
}

void *dl_open(const char *dir, const char *soname, const struct dl_symbol *symbols,
	      size_t count)
{
	char path[PATH_MAX];
	void *lib;
	size_t i;

	/* the process's own comes first: another copy would know nothing of its memory */
	lib = dlopen(soname, RTLD_LAZY | RTLD_NOLOAD);
	if (!lib && dir &&
	    snprintf(path, sizeof path, "%s/%s", dir, soname) < (int) sizeof path)
		lib = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	if (!lib)
		lib = dlopen(soname, RTLD_LAZY | RTLD_LOCAL);
	if (!lib) {
		P2P_INFO("%s\n", dlerror());
		return NULL;
	}
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
