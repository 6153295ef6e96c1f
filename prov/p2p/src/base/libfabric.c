/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Binds the versioned functions of the libfabric that is loaded. See libfabric.h. */
#include "base/libfabric.h"

#include <dlfcn.h>
#include <rdma/fi_errno.h>

#include "base/base.h"
#include "base/log.h"

struct lf lf;

struct fi_info *libfabric_copy_info(const struct fi_info *info)
{
	union libfabric_info bare = {.room = {0}};
	struct fid_nic *nic;
	struct fi_info *copy;

	if (!info)
		return lf.dupinfo(NULL);
	bare.info = *info;
	nic = bare.info.nic;
	bare.info.nic = NULL;
	copy = lf.dupinfo(&bare.info);
	/* hints may have one that nobody has opened */
	if (copy && nic && nic->fid.ops && nic->fid.ops->control &&
	    fi_control(&nic->fid, FI_DUP, &copy->nic))
		copy->nic = NULL;
	return copy;
}

int libfabric_bind(void)
{
	const struct {
		const char *name;
		void **slot;
	} functions[] = {
		{"fi_getinfo", (void **) &lf.getinfo},
		{"fi_dupinfo", (void **) &lf.dupinfo},
		{"fi_freeinfo", (void **) &lf.freeinfo},
	};
	Dl_info where;
	void *lib;
	int ret = 0;

	/* this copy of libfabric resolved our own references, whatever its path is */
	if (!dladdr((void *) fi_version, &where)) {
		P2P_WARN("cannot tell which libfabric is loaded\n");
		return -FI_ENOSYS;
	}
	lib = dlopen(where.dli_fname, RTLD_NOW | RTLD_NOLOAD);
	for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
		*functions[i].slot = dlsym(lib ? lib : RTLD_DEFAULT, functions[i].name);
		if (!*functions[i].slot) {
			P2P_WARN("%s has no %s\n", where.dli_fname, functions[i].name);
			ret = -FI_ENOSYS;
		}
	}
	/* the version of the function is that of the structures */
	lf.xpu = dlvsym(lib ? lib : RTLD_DEFAULT, "fi_dupinfo", "FABRIC_1.10");
	if (lib)
		dlclose(lib);
	return ret;
}
