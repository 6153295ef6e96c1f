/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* libfabric, the providers that it has loaded, and their files. See info.h. */
#include "info.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>

static void library_add(struct info_library *library, const struct fi_info *found)
{
	struct info_provider *provider;

	for (size_t i = 0; i < library->provider_count; i++) {
		if (!strcmp(library->providers[i].name, found->fabric_attr->prov_name))
			return;
	}
	provider = info_append(&library->providers, &library->provider_count, sizeof *provider);
	provider->name = info_text("%s", found->fabric_attr->prov_name);
	provider->version = found->fabric_attr->prov_version;
}

static int library_object(struct dl_phdr_info *object, size_t size, void *arg)
{
	struct info_library *library = arg;
	const char *last = strrchr(object->dlpi_name, '/');

	if (last && !strcmp(last + 1, "libp2p-fi.so"))
		library->layered = info_text("%s", object->dlpi_name);
	if (last && !strcmp(last + 1, "libp2p_hook-fi.so"))
		library->hook = info_text("%s", object->dlpi_name);
	return 0;
}

void info_library(struct info_library *library)
{
	struct fi_info *found = NULL;
	Dl_info object;

	library->release = info_text("%s", fi_tostr("", FI_TYPE_VERSION));
	if (dladdr((void *) fi_getinfo, &object))
		library->path = info_text("%s", object.dli_fname);
	library->search = getenv("FI_PROVIDER_PATH");
	library->restricted = getenv("FI_PROVIDER");
	library->hooked = getenv("FI_HOOK");
	/* this call makes libfabric load its providers */
	if (!fi_getinfo(fi_version(), NULL, NULL, FI_PROV_ATTR_ONLY, NULL, &found)) {
		for (struct fi_info *each = found; each; each = each->next)
			library_add(library, each);
		fi_freeinfo(found);
	}
	dl_iterate_phdr(library_object, library);
}
