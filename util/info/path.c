/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which way messages would take. The provider itself is asked, by an endpoint of each kind that
 * it offers, and with memory of each GPU. See info.h.
 */
#include "info.h"

#include <stdlib.h>
#include <string.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#define PATH_NAME "ofi_p2p"
#define PATH_CQ_SIZE 64

bool info_is_ours(const char *provider)
{
	size_t len = strlen(provider), own = strlen(PATH_NAME);

	return len > own && !strcmp(provider + len - own, PATH_NAME) &&
	       provider[len - own - 1] == ';';
}

/* ---- asking ---- */

static void path_ask_length(struct info_offer *offer, struct fid_ep *ep,
			    const struct fi_p2p_stats_ops *ops, const struct info *info,
			    size_t gpu, size_t len)
{
	struct info_path *path = info_append(&offer->paths, &offer->path_count, sizeof *path);
	char reason[FI_P2P_REASON_MAX] = "";

	path->gpu = gpu;
	path->len = len;
	path->reason = info->gpus[gpu].error;
	path->ret = -FI_ENOMEM;
	if (!info->gpus[gpu].buffer)
		return;
	path->ret = ops->path(&ep->fid, info->gpus[gpu].buffer, len, &path->path, reason,
			      sizeof reason);
	path->reason = *reason ? info_text("%s", reason) : fi_strerror(-path->ret);
	if (path->ret || path->path != FI_P2P_PATH_HOST)
		return;
	path->ret = -FI_EFAULT;
	path->reason = "the provider takes it for host memory";
}

static const char *path_ask(struct info_offer *offer, struct fid_ep *ep,
			    const struct info *info)
{
	struct fi_p2p_stats_ops *ops;
	int ret = fi_open_ops(&ep->fid, FI_P2P_STATS_OPS, 0, (void **) &ops, NULL);

	if (ret)
		return info_text("fi_open_ops: %s: neither %s nor its hook", fi_strerror(-ret),
				 PATH_NAME);
	if (ops->size < offsetof(struct fi_p2p_stats_ops, path) + sizeof ops->path)
		return "its objects are older than this program";
	for (size_t i = 0; i < info->gpu_count; i++) {
		path_ask_length(offer, ep, ops, info, i, INFO_SHORT);
		path_ask_length(offer, ep, ops, info, i, INFO_LONG);
	}
	return NULL;
}

/* ---- an endpoint, and what it takes ---- */

const char *info_open(struct info_fids *fids, struct fi_info *found)
{
	struct fi_av_attr av_attr = {.type = found->domain_attr->av_type};
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .size = PATH_CQ_SIZE};
	const char *call = "fi_fabric";
	int ret = fi_fabric(found->fabric_attr, &fids->fabric, NULL);

	if (!ret) {
		call = "fi_domain";
		ret = fi_domain(fids->fabric, found, &fids->domain, NULL);
	}
	if (!ret) {
		call = "fi_av_open";
		ret = fi_av_open(fids->domain, &av_attr, &fids->av, NULL);
	}
	if (!ret) {
		call = "fi_cq_open";
		ret = fi_cq_open(fids->domain, &cq_attr, &fids->cq, NULL);
	}
	if (!ret) {
		call = "fi_endpoint";
		ret = fi_endpoint(fids->domain, found, &fids->ep, NULL);
	}
	if (!ret) {
		call = "fi_ep_bind";
		ret = fi_ep_bind(fids->ep, &fids->av->fid, 0);
	}
	if (!ret)
		ret = fi_ep_bind(fids->ep, &fids->cq->fid, FI_TRANSMIT | FI_RECV);
	if (!ret) {
		call = "fi_enable";
		ret = fi_enable(fids->ep);
	}
	return ret ? info_text("%s: %s", call, fi_strerror(-ret)) : NULL;
}

void info_close(struct info_fids *fids)
{
	if (fids->ep)
		fi_close(&fids->ep->fid);
	if (fids->cq)
		fi_close(&fids->cq->fid);
	if (fids->av)
		fi_close(&fids->av->fid);
	if (fids->domain)
		fi_close(&fids->domain->fid);
	if (fids->fabric)
		fi_close(&fids->fabric->fid);
}

/* ---- what is offered ---- */

static const struct info_nic *path_nic(const struct info *info, const char *domain)
{
	for (size_t i = 0; i < info->nic_count; i++) {
		if (!strcmp(info->nics[i].name, domain))
			return &info->nics[i];
	}
	return NULL;
}

/* One endpoint of each provider is enough, but every verbs device is of interest */
static bool path_known(const struct info *info, const char *provider,
		       const struct info_nic *nic)
{
	for (size_t i = 0; i < info->offer_count; i++) {
		if (!strcmp(info->offers[i].provider, provider) && info->offers[i].nic == nic)
			return true;
	}
	return false;
}

static void path_try(struct info *info, struct fi_info *found)
{
	const char *provider = found->fabric_attr->prov_name;
	const struct info_nic *nic = path_nic(info, found->domain_attr->name);
	struct info_fids fids = {NULL};
	struct info_offer *offer;

	if (path_known(info, provider, nic))
		return;
	offer = info_append(&info->offers, &info->offer_count, sizeof *offer);
	offer->provider = info_text("%s", provider);
	offer->domain = info_text("%s", found->domain_attr->name);
	offer->nic = nic;
	offer->error = info_open(&fids, found);
	if (!offer->error)
		offer->error = path_ask(offer, fids.ep, info);
	info_close(&fids);
}

/*
 * Asks fi_getinfo() for a provider's name. @hooked: takes all answers, not only those with our
 * name.
 */
static int path_try_name(struct info *info, const char *provider, bool hooked)
{
	struct fi_info *hints = fi_allocinfo(), *found = NULL;
	int ret;

	if (!hints)
		return -FI_ENOMEM;
	hints->fabric_attr->prov_name = strdup(provider);
	hints->ep_attr->type = FI_EP_RDM;
	hints->caps = FI_MSG | FI_TAGGED | (hooked ? 0 : FI_HMEM);
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ENDPOINT | FI_MR_VIRT_ADDR |
				      FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_HMEM;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	ret = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &found);
	fi_freeinfo(hints);
	if (ret)
		return ret;
	for (struct fi_info *each = found; each; each = each->next) {
		if (hooked || info_is_ours(each->fabric_attr->prov_name))
			path_try(info, each);
	}
	fi_freeinfo(found);
	return 0;
}

/*
 * Asked for by its name, one core provider calls us. Another one does so only if we are named,
 * too.
 */
static int path_try_core(struct info *info, const char *core)
{
	char *name = info_text("%s;%s", core, PATH_NAME);
	int ret = path_try_name(info, core, false), named = path_try_name(info, name, false);

	return ret && named ? named : 0;
}

static int path_try_all(struct info *info)
{
	const struct info_library *library = &info->library;
	int ret = path_try_name(info, PATH_NAME, false);

	/* some providers are not offered unless they are asked for */
	for (size_t i = 0; i < library->provider_count; i++) {
		if (strncmp(library->providers[i].name, "ofi_", 4))
			path_try_core(info, library->providers[i].name);
	}
	return ret;
}

int info_paths(struct info *info, const char *provider)
{
	const char *hook = info->library.hooked;
	bool hooked = provider && hook && strstr(hook, "p2p");
	int ret;

	if (!provider)
		ret = path_try_all(info);
	else if (hooked || info_is_ours(provider))
		ret = path_try_name(info, provider, !info_is_ours(provider));
	else
		ret = path_try_core(info, provider);

	if (info->offer_count)
		return 0;
	return ret ? ret : -FI_ENODATA;
}

/* ---- what it comes to ---- */

bool info_gpu_works(const struct info *info, size_t gpu)
{
	for (size_t i = 0; i < info->offer_count; i++) {
		const struct info_offer *offer = &info->offers[i];
		size_t works = 0, asked = 0;

		for (size_t j = 0; j < offer->path_count; j++) {
			asked += offer->paths[j].gpu == gpu;
			works += offer->paths[j].gpu == gpu && !offer->paths[j].ret;
		}
		if (asked && works == asked)
			return true;
	}
	return false;
}

bool info_works(const struct info *info)
{
	bool open = false;

	for (size_t i = 0; i < info->offer_count; i++)
		open |= !info->offers[i].error;
	for (size_t i = 0; i < info->gpu_count; i++)
		open &= info_gpu_works(info, i);
	return open;
}
