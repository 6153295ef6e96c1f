/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Loading a library that may not be there. See dl.h. */
#include "dev/dl.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

/* Of dl_watch(), before libraries are taken for what cannot be watched */
#define DL_TRIES 100

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

/* To load one and drop it takes 10 ms of each program's start. So that is done only where no usual place has one. */
bool dl_installed(const char *dir, const char *soname)
{
	const char *const dirs[] = {"/usr/lib/x86_64-linux-gnu", "/usr/lib64"};
	char path[PATH_MAX], magic[SELFMAG];
	void *lib;
	bool elf;
	int fd;

	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof path, "%s/%s", dirs[i], soname);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			continue;
		elf = read(fd, magic, SELFMAG) == SELFMAG && !memcmp(magic, ELFMAG, SELFMAG);
		close(fd);
		if (elf)
			return true;
	}
	lib = dl_open_any(dir, soname);
	if (lib)
		dlclose(lib);
	return lib;
}

/* The last of them has come last. The thread sanitizer knows nothing of the loader's lock, and looks into strcpy() in any case. */
__attribute__((no_sanitize("thread"))) static int dl_last_name(struct dl_phdr_info *info,
							       size_t size, void *data)
{
	char *name = data;
	size_t i;

	for (i = 0; i < PATH_MAX - 1 && info->dlpi_name[i]; i++)
		name[i] = info->dlpi_name[i];
	name[i] = '\0';
	return 0;
}

static void *const *dl_watch_last(void)
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

void *const *dl_watch(void)
{
	void *const *watch = NULL;

	/* where another thread opens and closes libraries, what was the last one may not be it any
	 * more, or be gone, when it is opened */
	for (int i = 0; !watch && i < DL_TRIES; i++)
		watch = dl_watch_last();
	return watch;
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
