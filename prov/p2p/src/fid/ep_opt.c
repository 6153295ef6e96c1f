/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Options of endpoints. See ep_opt.h. */
#include "fid/ep_opt.h"

#include <rdma/fi_errno.h>

#include "base/conf.h"
#include "base/log.h"
#include "fid/ep.h"
#include "fid/fid.h"

/* libfabric 1.18 added it, as the next of the enumeration */
#define EP_OPT_CUDA_API_PERMITTED (FI_OPT_XPU_TRIGGER + 1)

int ep_opt_get(fid_t fid, int level, int name, void *value, size_t *len)
{
	struct p2p_ep *ep = ep_itself(fid);

	if (level != FI_OPT_ENDPOINT || name != FI_OPT_FI_HMEM_P2P)
		return fi_getopt(fid_core(fid), level, name, value, len);
	if (!value || !len || *len < sizeof(int))
		return -FI_EINVAL;
	*(int *) value = ep->hmem_p2p;
	*len = sizeof(int);
	return 0;
}

void ep_opt_set_hmem_p2p(struct p2p_ep *ep, int hmem_p2p)
{
	static const enum path_policy policies[] = {
		[CONF_PATH_AUTO] = PATH_ANY,
		[CONF_PATH_PEER] = PATH_PEER_LONG,
		[CONF_PATH_IPC] = PATH_ACROSS_LONG,
		[CONF_PATH_STAGE] = PATH_STAGE_ONLY,
	};

	ep->hmem_p2p = hmem_p2p;
	ep->xfer.policy = policies[conf.path];
	if (hmem_p2p == FI_HMEM_P2P_REQUIRED)
		ep->xfer.policy = PATH_PEER_ONLY;
	else if (hmem_p2p == FI_HMEM_P2P_DISABLED && ep->xfer.policy == PATH_ANY)
		ep->xfer.policy = PATH_NO_NIC;
	else if (hmem_p2p == FI_HMEM_P2P_DISABLED && ep->xfer.policy == PATH_PEER_LONG)
		ep->xfer.policy = PATH_STAGE_ONLY;
}

static int ep_opt_hmem_p2p(struct p2p_ep *ep, int value)
{
	const struct nic_map *map = &ep->domain->xfer.map;

	switch (value) {
	case FI_HMEM_P2P_REQUIRED:
		if (!map->domain) {
			P2P_WARN("FI_HMEM_P2P_REQUIRED: %s; without this option device memory "
				 "is staged\n",
				 map->why);
			return -FI_EOPNOTSUPP;
		}
		break;
	case FI_HMEM_P2P_ENABLED:
	case FI_HMEM_P2P_PREFERRED:
	case FI_HMEM_P2P_DISABLED:
		break;
	default:
		P2P_WARN("FI_OPT_FI_HMEM_P2P: %d is none of the values\n", value);
		return -FI_EINVAL;
	}
	ep_opt_set_hmem_p2p(ep, value);
	return 0;
}

/*
 * Without calls device memory can only be had where there is none. Calls that wait for no kernel are as good,
 * unless the application's own launches hold them up.
 */
static int ep_opt_cuda_api(bool permitted)
{
	static bool said;
	const char *remedy;

	if (permitted || !dev_present)
		return 0;
	remedy = conf.cuda_api == CONF_API_ASYNC ? dev_loads_late() : "FI_P2P_CUDA_API=async";
	if (!remedy)
		return 0;
	if (__atomic_exchange_n(&said, true, __ATOMIC_RELAXED))
		return -FI_EOPNOTSUPP;
	if (conf.cuda_api == CONF_API_ASYNC)
		P2P_WARN(
			"FI_OPT_CUDA_API_PERMITTED=false is refused in spite of "
			"FI_P2P_CUDA_API=async: CUDA loads kernels at their first launch here. "
			"Behind a collective that launch waits for it, and keeps our copies "
			"from beginning, for ever. Set %s\n",
			remedy);
	else
		P2P_WARN(
			"FI_OPT_CUDA_API_PERMITTED=false is refused: CUDA copies device memory "
			"here. No call waits for a kernel: if that is enough, set %s\n",
			remedy);
	return -FI_EOPNOTSUPP;
}

int ep_opt_set(fid_t fid, int level, int name, const void *value, size_t len)
{
	struct p2p_ep *ep = ep_itself(fid);

	if (level == FI_OPT_ENDPOINT && name == FI_OPT_FI_HMEM_P2P) {
		if (!value || len < sizeof(int))
			return -FI_EINVAL;
		return ep_opt_hmem_p2p(ep, *(const int *) value);
	}
	if (level == FI_OPT_ENDPOINT && name == EP_OPT_CUDA_API_PERMITTED) {
		if (!value || len < sizeof(bool))
			return -FI_EINVAL;
		return ep_opt_cuda_api(*(const bool *) value);
	}
	return fi_setopt(fid_core(fid), level, name, value, len);
}
