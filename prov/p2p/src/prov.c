/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * libp2p-fi.so, the layered provider ofi_p2p: fi_getinfo, and the way to the core provider's
 * fabric.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>

#include "config.h"
#include "base/base.h"
#include "base/conf.h"
#include "base/env.h"
#include "fid/fabric.h"
#include "fid/fid.h"
#include "fid/native.h"
#include "gpu/stream.h"
#include "gpu/trigger.h"
#include "gpu/xpu.h"
#include "path/info.h"
#include "path/info_tags.h"
#include "path/nic.h"
#include "path/quirks.h"
#include "mem/ipc_share.h"
#include "base/libfabric.h"
#include "base/log.h"

/* Excludes us from a nested fi_getinfo. Exclusions stand last in a provider's name. */
#define PROV_EXCLUDE_SELF "^" P2P_NAME

/* Makes the hints' provider name for a nested fi_getinfo. It begins with the core's part. */
static int prov_hints_name(struct fi_info *hints, const char *core, const char *excluded)
{
	char *name;

	if (asprintf(&name, "%s%s%s%s" PROV_EXCLUDE_SELF, core ? core : "",
		     core && *core ? ";" : "", excluded ? excluded : "",
		     excluded && *excluded ? ";" : "") < 0)
		return -FI_ENOMEM;
	free(hints->fabric_attr->prov_name);
	hints->fabric_attr->prov_name = name;
	return 0;
}

/* The application has our objects open, but its hints mean the core's objects behind them. */
static void prov_hints_objects(struct fi_info *hints)
{
	struct fi_fabric_attr *fabric = hints->fabric_attr;
	struct fi_domain_attr *domain = hints->domain_attr;

	fabric->fabric = (struct fid_fabric *) fid_core((struct fid *) fabric->fabric);
	if (domain)
		domain->domain = (struct fid_domain *) fid_core((struct fid *) domain->domain);
}

/*
 * Moves the infos of cores with QUIRK_AHEAD before the first info of a core with QUIRK_BEHIND.
 */
static void prov_reorder(struct fi_info **list, uint32_t version)
{
	struct fi_info *plain = NULL, **plain_end = &plain, **place, *info;

	for (place = list; (info = *place);) {
		if (quirks_of(info, version) & QUIRK_AHEAD) {
			*place = info->next;
			*plain_end = info;
			plain_end = &info->next;
			info->next = NULL;
		} else {
			place = &info->next;
		}
	}
	if (!plain)
		return;
	for (place = list; *place; place = &(*place)->next) {
		if (quirks_of(*place, version) & QUIRK_BEHIND)
			break;
	}
	*plain_end = *place;
	*place = plain;
}

/* Takes the info at @place out of its list. */
static void prov_drop(struct fi_info **place)
{
	struct fi_info *info = *place;

	*place = info->next;
	info->next = NULL;
	lf.freeinfo(info);
}

/* Is there one in the list that says the same, and has more tag bits? */
static bool prov_has_better(const struct fi_info *list, const struct fi_info *info)
{
	for (; list; list = list->next) {
		if (info_is_lesser(info, list))
			return true;
	}
	return false;
}

/* Drops what is made for collective operations, where they are not asked for. */
static void prov_drop_lesser(struct fi_info **list)
{
	struct fi_info **place = list;

	while (*place) {
		if (prov_has_better(*list, *place))
			prov_drop(place);
		else
			place = &(*place)->next;
	}
}

/* May hints have LF_XPU? Applications of @version 1 mean another thing by the bit. */
static bool prov_knows_xpu(uint32_t version)
{
	return lf.xpu && FI_MAJOR(version) > 1;
}

/* Contexts of a domain that fi_getinfo speaks of: there is no limit */
#define PROV_XPU_CTXS 256

/* A member that this build's headers may lack */
static void prov_set_xpu_ctxs(struct fi_info *info)
{
	struct lf_domain_attr_end *end = (void *) &info->domain_attr->tclass;

	if (lf.xpu)
		end->max_xpu_ctx_cnt = info->caps & LF_XPU ? PROV_XPU_CTXS : 0;
}

/*
 * Cores over sockets tell the interface, which is their domain, and not what is behind it. We do, where application or
 * user have named a provider. A program that takes any RDMA device, as NVSHMEM does, takes all infos that have a NIC,
 * and ends at one that is no RDMA device. False: an info that must not be offered, and @why
 */
static bool prov_set_nic(const struct fi_info *hints, struct fi_info *info, const char **why)
{
	const char *name = hints && hints->fabric_attr ? hints->fabric_attr->prov_name : NULL;

	name = name ? name : getenv("FI_PROVIDER");
	if (!info->nic && (conf.nic_name != CONF_NIC_INTERFACE || (name && *name != '^')))
		info->nic = nic_of_interface(NIC_SYSFS, info->domain_attr->name);
	*why = "the interface has no device, and FI_P2P_NIC_NAME wants one";
	return info->nic || conf.nic_name == CONF_NIC_INTERFACE;
}

/* Turns the cores' answers into ours. Drops those that are of no use. */
static int prov_convert(const struct fi_info *hints, const char *core_name,
			struct fi_info **list)
{
	/* one name may stand for every stack over it; a stack of names means just that stack */
	const char *asked = hints && hints->fabric_attr ? hints->fabric_attr->prov_name : NULL;
	bool exact = asked && *core_name && strchr(asked, ';');
	struct fi_info **place = list, *info;
	struct fid *core;
	const char *why;

	while ((info = *place)) {
		core = (struct fid *) info->fabric_attr->fabric;
		why = "another provider was named";
		if ((!exact || !strcasecmp(info->fabric_attr->prov_name, core_name)) &&
		    info_from_core(hints, info, fi_version(), &why) &&
		    prov_set_nic(hints, info, &why)) {
			prov_set_xpu_ctxs(info);
			/* a fabric that the application has open, unless it is the core's own */
			if (fid_user(core) != core)
				info->fabric_attr->fabric = (void *) fid_user(core);
			place = &info->next;
			continue;
		}
		P2P_INFO("not over %s: %s\n", info->fabric_attr->prov_name, why);
		prov_drop(place);
	}
	prov_drop_lesser(list);
	for (info = *list; info; info = info->next)
		info_offer(info);
	return *list ? 0 : -FI_ENODATA;
}

/* Does @core have reliable datagram endpoints? @any: has it any at all? */
static bool prov_has_rdm(uint32_t version, const char *core, bool *any)
{
	struct fi_info *hints = lf.dupinfo(NULL), *list = NULL;
	bool found = false;

	*any = false;
	if (hints && !prov_hints_name(hints, core, NULL) &&
	    !lf.getinfo(version, NULL, NULL, P2P_GETINFO_INTERNAL, hints, &list)) {
		for (const struct fi_info *info = list; info; info = info->next) {
			*any |= !strcasecmp(info->fabric_attr->prov_name, core);
			found |= !strcasecmp(info->fabric_attr->prov_name, core) &&
				 info->ep_attr->type == FI_EP_RDM;
		}
		lf.freeinfo(list);
	}
	lf.freeinfo(hints);
	return found;
}

/*
 * The application, or FI_PROVIDER, wants us over one core provider, and nothing is offered there: if it
 * is that provider's fault, this says so.
 */
static void prov_explain(uint32_t version, const struct fi_info *hints, const char *core)
{
	bool rdm = !hints || !hints->ep_attr || hints->ep_attr->type == FI_EP_UNSPEC ||
		   hints->ep_attr->type == FI_EP_RDM;
	bool any;

	if (!rdm || !fi_log_enabled(log_prov, FI_LOG_WARN, FI_LOG_CORE) ||
	    prov_has_rdm(version, core, &any))
		return;
	if (!any)
		P2P_WARN("%s;ofi_p2p is not offered: fi_p2p_info -p '%s' tells why\n", core,
			 core);
	else
		P2P_WARN("%s;ofi_p2p is not offered: in libfabric %u.%u, %s has no reliable "
			 "datagram endpoints. Use '%s;%s;ofi_p2p'\n",
			 core, FI_MAJOR(fi_version()), FI_MINOR(fi_version()), core, core,
			 QUIRKS_RDM_OVER);
}

/* The one stack that is wanted, without our name, or NULL. The caller frees it. */
static char *prov_wanted(const struct fi_info *hints)
{
	const char *name = hints && hints->fabric_attr ? hints->fabric_attr->prov_name : NULL;
	char *core = NULL, *excluded = NULL;

	name = name ? name : getenv("FI_PROVIDER");
	if (!name || strchr(name, ',') || !strcasestr(name, ";" P2P_NAME) ||
	    info_name_split(name, &core, &excluded))
		return NULL;
	free(excluded);
	return core;
}

static bool prov_offers(const struct fi_info *list, const char *core)
{
	for (; list; list = list->next) {
		if (!strcasecmp(list->fabric_attr->prov_name, core))
			return true;
	}
	return false;
}

/* Asks the cores. They read the hints' NIC, and keep none: it may be one that cannot be copied. */
static int prov_ask_cores(uint32_t version, const char *node, const char *service,
			  uint64_t flags, const struct fi_info *hints,
			  struct fi_info *core_hints, struct fi_info **info)
{
	const bool lent = hints && !core_hints->nic;
	int ret;

	if (lent)
		core_hints->nic = hints->nic;
	ret = lf.getinfo(version, node, service, flags | P2P_GETINFO_INTERNAL, core_hints,
			 info);
	if (lent)
		core_hints->nic = NULL;
	if (ret == -FI_ENODATA && core_hints->caps & FI_RMA_EVENT)
		P2P_INFO("no core provider has FI_RMA_EVENT with what else is asked for: ask "
			 "for FI_TRIGGER, too, and ofi_p2p counts what peers do\n");
	return ret;
}

static int prov_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
			const struct fi_info *hints, struct fi_info **info)
{
	char *core_name = NULL, *excluded = NULL, *wanted;
	struct fi_info *core_hints;
	int ret = conf_status();

	if (ret) {
		P2P_WARN("not offered: a parameter has a bad value, see above\n");
		return ret;
	}
	if (flags & P2P_OFFLOAD_PROV_ONLY)
		return -FI_ENODATA;
	if (hints && hints->caps & LF_XPU && !prov_knows_xpu(version)) {
		P2P_INFO("FI_XPU is offered with libfabric 2.7 and later\n");
		return -FI_ENODATA;
	}

	core_hints = libfabric_copy_info(hints);
	if (!core_hints)
		return -FI_ENOMEM;
	/* hints may lack some parts, but we need this one */
	if (!core_hints->fabric_attr)
		core_hints->fabric_attr = calloc(1, 4 * sizeof *core_hints->fabric_attr);
	ret = core_hints->fabric_attr ? 0 : -FI_ENOMEM;
	if (!ret)
		prov_hints_objects(core_hints);
	if (!ret)
		ret = info_name_split(core_hints->fabric_attr->prov_name, &core_name,
				      &excluded);
	if (!ret)
		ret = prov_hints_name(core_hints, core_name, excluded);
	if (!ret)
		ret = info_hints_to_core(core_hints);
	if (!ret)
		ret = prov_ask_cores(version, node, service, flags, hints, core_hints, info);
	if (!ret) {
		prov_reorder(info, fi_version());
		ret = prov_convert(hints, core_name, info);
	}
	wanted = prov_wanted(hints);
	if (wanted && (ret == -FI_ENODATA || (!ret && !prov_offers(*info, wanted))))
		prov_explain(version, hints, wanted);
	free(wanted);
	lf.freeinfo(core_hints);
	free(core_name);
	free(excluded);
	return ret;
}

static int prov_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	struct fi_fabric_attr core_attr = *attr;
	struct fid_fabric *core;
	char *excluded;
	int ret = info_name_split(attr->prov_name, &core_attr.prov_name, &excluded);

	if (ret)
		return ret;
	if (!*core_attr.prov_name) {
		P2P_WARN("%s names no provider to work over\n", attr->prov_name);
		ret = -FI_EINVAL;
		goto free_names;
	}
	ret = fi_fabric(&core_attr, &core, context);
	if (ret)
		goto free_names;
	ret = fabric_open(core, &kind_p2p, &triggers, context, fabric);
	if (ret)
		fi_close(&core->fid);
free_names:
	free(core_attr.prov_name);
	free(excluded);
	return ret;
}

static struct fi_provider prov_provider = {
	.version = FI_VERSION(P2P_VERSION_MAJOR, P2P_VERSION_MINOR),
	.name = P2P_NAME,
	.getinfo = prov_getinfo,
	.fabric = prov_fabric,
	.cleanup = ipc_share_stop,
};

/* Tables of the rank above the objects */
static bool prov_gpu_ops(struct fid *fid, const char *name, void **ops)
{
	return stream_own_ops(fid, name, ops) || xpu_own_ops(fid, name, ops);
}

struct fi_provider *fi_prov_ini(void);

FI_EXT_INI
{
	log_prov = &prov_provider;
	/* the cores below us speak the version that libfabric speaks */
	prov_provider.fi_version = fi_version();
	if (libfabric_bind())
		return NULL;
	conf_read();
	env_check(QUIRKS_USUAL);
	fid_more_ops = prov_gpu_ops;
	native_calls = &xpu_ops;
	return &prov_provider;
}
