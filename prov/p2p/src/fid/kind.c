/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The kinds of fabrics and domains. See kind.h. */
#include "fid/kind.h"

#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "base/conf.h"
#include "base/log.h"
#include "dev/dev.h"
#include "fid/domain.h"
#include "fid/ep.h"
#include "path/info.h"
#include "path/info_tags.h"
#include "path/quirks.h"
#include "proto/hello.h"
#include "proto/proto.h"
#include "xfer/lane.h"
#include "xfer/life.h"

int kind_offers(const struct fid_kind *kind, size_t fclass)
{
	if (kind->classes >> fclass & 1)
		return 0;
	P2P_INFO("scalable endpoints, or such shared contexts, are not offered\n");
	return -FI_ENOSYS;
}

static int kind_to_core(struct fi_info *info)
{
	return info_to_core(info, fi_version());
}

static void kind_p2p_plan(struct p2p_domain *domain, const struct fi_info *info,
			  struct fi_info *core_info, struct domain_plan *plan)
{
	/* host memory has to be registered then, too: only for applications that ask for it */
	if (!plan->why && !(info->caps & (FI_HMEM | FI_P2P)) && conf.path != CONF_PATH_PEER)
		plan->why =
			"the domain was opened without FI_HMEM, and FI_P2P_PATH is not peer";
	domain->automatic = info->domain_attr->data_progress == FI_PROGRESS_AUTO;
	/* such a core's CPU would touch what is behind a dma-buf. Over a hook we do not know, and ask it */
	if (!(plan->quirks & QUIRK_MAPS))
		plan->quirks |= QUIRK_NO_DMABUF;
	domain->serves_all = info_serves_all(info, plan->quirks);
	domain->pmem = info->caps & FI_RMA_PMEM;
	info_keys(info, domain->serves_all, &plan->key_mark, &plan->keys_ours);
	if (!plan->key_mark && !plan->keys_ours)
		plan->quirks &= ~QUIRK_ATOMICS;
	plan->local = !plan->why;
	if (plan->local)
		info_core_add_maps(core_info);
	if (dev_present && plan->quirks & QUIRK_LENDS)
		info_core_add_lending(core_info);
	/*
	 * An endpoint may ask for sources later, as aws-ofi-nccl's do. The core's queues have room for them only if
	 * its domain was opened so.
	 */
	if (info->caps & FI_RMA && info->caps & FI_HMEM)
		core_info->caps |= FI_SOURCE;
}

/* One tag bit is ours, and lanes are opened as the endpoint is. */
static int kind_p2p_ep_plan(struct p2p_ep *ep, const struct fi_info *core, uint64_t format)
{
	ep->xfer.tag_bit = info_tag_bit(info_offered_format(core, format));
	if (ep->xfer.tag_bit)
		return lanes_init(&ep->xfer, core);
	P2P_WARN("mem_tag_format 0x%zx leaves no bit to us: use what fi_getinfo gives\n",
		 (size_t) format);
	return -FI_EINVAL;
}

/* From now on peers may greet it. */
static int kind_p2p_ep_start(struct p2p_ep *ep)
{
	size_t len = sizeof ep->xfer.front.name;
	int ret = fi_getname(&ep->xfer.front.core->fid, ep->xfer.front.name, &len);

	/* a longer name is not kept, which name_len tells */
	if (ret && ret != -FI_ETOOSMALL) {
		P2P_WARN("fi_getname: %s\n", fi_strerror(-ret));
		return ret;
	}
	ep->xfer.front.name_len = len;
	xfer_ep_start(&ep->xfer);
	p2p_lock_take(&ep->domain->xfer.lock);
	hello_start(&ep->xfer);
	p2p_lock_drop(&ep->domain->xfer.lock);
	return 0;
}

/* The core wants both queues, and our receives need one. Ours is for where the application has no such operations. */
static int kind_p2p_lacks_cq(const struct p2p_ep *ep, uint64_t kinds, bool counted)
{
	const uint64_t dirs = ep->caps & (FI_SEND | FI_RECV);

	if (!counted && (!dirs || dirs & kinds))
		return -FI_ENOCQ;
	return ep->av ? 1 : -FI_ENOAV;
}

static void kind_plain_plan(struct p2p_domain *domain, const struct fi_info *info,
			    struct fi_info *core_info, struct domain_plan *plan)
{
	if (!plan->why && !(info->domain_attr->mr_mode & FI_MR_LOCAL))
		plan->why = "the domain was opened without FI_MR_LOCAL: the core provider "
			    "registers buffers by itself";
}

/* Works may count for a counter that is not the endpoint's. */
static int kind_plain_lacks_cq(const struct p2p_ep *ep, uint64_t kinds, bool counted)
{
	return counted || (ep->domain->triggers && kinds);
}

/* Quirks that matter to what we do with peers that run ofi_p2p */
#define KIND_QUIRKS_PEERS                                                                      \
	(QUIRK_STALLS | QUIRK_DIRECTED | QUIRK_NEAR | QUIRK_NO_PEEK | QUIRK_ATOMICS |          \
	 QUIRK_LENDS)

static const struct fid_kind kind_plain = {
	.protos = &protos_alone,
	.plain = &kind_plain,
	.ours = FI_HMEM,
	.quirks = ~KIND_QUIRKS_PEERS,
	.classes = 1u << FI_CLASS_SRX_CTX,
	.no_wait = 1u << FI_WAIT_SET,
	.to_core = kind_to_core,
	.plan = kind_plain_plan,
	.lacks_cq = kind_plain_lacks_cq,
};

const struct fid_kind kind_p2p = {
	.protos = &protos,
	.plain = &kind_plain,
	.ours = ~0ULL,
	.quirks = ~0ULL,
	.no_wait = 1u << FI_WAIT_NONE | 1u << FI_WAIT_SET,
	.early = true,
	.to_core = kind_to_core,
	.plan = kind_p2p_plan,
	.ep_plan = kind_p2p_ep_plan,
	.ep_start = kind_p2p_ep_start,
	.lacks_cq = kind_p2p_lacks_cq,
};

/* Works are ours: the core would be handed counters of ours. */
const struct fid_kind kind_hook = {
	.protos = &protos_alone,
	.plain = &kind_hook,
	.ours = FI_TRIGGER,
	.quirks = ~KIND_QUIRKS_PEERS,
	.classes = 1u << FI_CLASS_SEP | 1u << FI_CLASS_STX_CTX | 1u << FI_CLASS_SRX_CTX,
	.no_wait = 1u << FI_WAIT_SET,
	.plan = kind_plain_plan,
	.lacks_cq = kind_plain_lacks_cq,
};
