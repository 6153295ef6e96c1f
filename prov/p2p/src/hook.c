/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * libp2p_hook-fi.so, the provider ofi_hook_p2p. With FI_HOOK=p2p libfabric puts it around every
 * fabric that is opened, of whatever provider.
 */
#include <string.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>

#include "config.h"
#include "base/base.h"
#include "base/conf.h"
#include "base/env.h"
#include "fid/fabric.h"
#include "gpu/trigger.h"
#include "base/libfabric.h"
#include "base/log.h"
#include "path/quirks.h"

/*
 * libfabric calls this after a fabric has been opened. @attr->fabric is that fabric, and
 * @context is its provider. An error leaves the fabric as it was.
 */
static int hook_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	const struct fi_provider *hooked = context;
	int ret = conf_status();

	if (ret) {
		P2P_WARN("not installed: a parameter has a bad value, see above\n");
		return ret;
	}
	if (!strcmp(hooked->name, P2P_NAME)) {
		P2P_INFO("not needed around " P2P_NAME "\n");
		return -FI_ENOSYS;
	}
	if (quirks_of_name(hooked->name, fi_version()) & QUIRK_NO_HOOK) {
		P2P_INFO("not around %s, which transfers nothing by itself\n", hooked->name);
		return -FI_ENOSYS;
	}
	P2P_INFO("around provider %s\n", hooked->name);
	return fabric_open(attr->fabric, &kind_hook, &triggers, attr->fabric->fid.context,
			   fabric);
}

static struct fi_provider hook_provider = {
	.version = FI_VERSION(P2P_VERSION_MAJOR, P2P_VERSION_MINOR),
	.name = P2P_HOOK_NAME,
	.fabric = hook_fabric,
};

struct fi_provider *fi_prov_ini(void);

FI_EXT_INI
{
	log_prov = &hook_provider;
	/* we hand through the version that libfabric speaks */
	hook_provider.fi_version = fi_version();
	if (libfabric_bind())
		return NULL;
	conf_read();
	env_check(QUIRKS_USUAL);
	return &hook_provider;
}
