/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Opening of a GPU runtime's library. See gpu.h. */
#include "buffer/gpu.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <rdma/fi_errno.h>

int buffer_gpu_open(const char *dir, const char *soname, const struct gpu_symbol *symbols,
		    size_t count)
{
	/* Another copy of what the process has would know nothing of its memory. */
	void *lib = dlopen(soname, RTLD_LAZY | RTLD_NOLOAD);
	char path[PATH_MAX];

	if (!lib && dir &&
	    snprintf(path, sizeof path, "%s/%s", dir, soname) < (int) sizeof path)
		lib = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
	if (!lib)
		lib = dlopen(soname, RTLD_LAZY | RTLD_LOCAL);
	if (!lib)
		return -FI_ENOSYS;
	for (size_t i = 0; i < count; i++) {
		void *address = dlsym(lib, symbols[i].name);

		if (!address) {
			dlclose(lib);
			return -FI_ENOSYS;
		}
		memcpy(symbols[i].slot, &address, sizeof address);
	}
	return 0;
}
