/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Domains. See domain.h. */
#include "fid/domain.h"

#include <stdlib.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>

#include "fid/atomic.h"
#include "fid/av.h"
#include "fid/cntr.h"
#include "fid/collective.h"
#include "base/conf.h"
#include "fid/cq.h"
#include "dev/dev.h"
#include "fid/ep.h"
#include "fid/fid.h"
#include "path/info.h"
#include "path/quirks.h"
#include "base/libfabric.h"
#include "base/log.h"
#include "proto/proto.h"
#include "fid/mr.h"
#include "fid/pollset.h"

static int domain_close(struct fid *fid)
{
	struct p2p_domain *domain = domain_of(fid);
	bool local = domain->xfer.local;
	int ret;

	if (__atomic_load_n(&domain->users, __ATOMIC_ACQUIRE))
		return -FI_EBUSY;
	xfer_give_back(&domain->xfer);
	ret = fi_close(&domain->core->fid);
	if (ret) {
		if (local)
			xfer_want_local(&domain->xfer);
		return ret;
	}
	/* as long as that could fail it had to go on; now there is nothing that it may touch */
	if (domain->automatic)
		auto_stop(&domain->auto_thread);
	xfer_fini(&domain->xfer);
	free(domain);
	return 0;
}

static int domain_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct fid *core = fid_core(fid);

	return core->ops->bind(core, fid_core(bfid), flags);
}

static int domain_query_atomic(struct fid_domain *fid, enum fi_datatype datatype, enum fi_op op,
			       struct fi_atomic_attr *attr, uint64_t flags)
{
	struct p2p_domain *domain = domain_of(&fid->fid);

	int ret = fi_query_atomic(domain->core, datatype, op, attr, flags);

	if (!ret && domain->layered)
		attr->count = atomic_count(&domain->xfer, datatype, op,
					   flags & FI_COMPARE_ATOMIC, attr->count);
	return !ret && !attr->count ? -FI_EOPNOTSUPP : ret;
}

static int domain_no_scalable_ep(struct fid_domain *domain, struct fi_info *info,
				 struct fid_ep **sep, void *context)
{
	P2P_INFO("scalable endpoints are not offered\n");
	return -FI_ENOSYS;
}

static int domain_no_stx(struct fid_domain *domain, struct fi_tx_attr *attr,
			 struct fid_stx **stx, void *context)
{
	P2P_INFO("shared transmit contexts are not offered\n");
	return -FI_ENOSYS;
}

static struct fid_class domain_class = {
	.ops =
		{
			.size = sizeof(struct fi_ops),
			.close = domain_close,
			.bind = domain_bind,
			.control = fid_control,
			.ops_open = fid_ops_open,
		},
	.core = offsetof(struct p2p_domain, core),
};

static struct fi_ops_domain domain_ops = {
	.size = offsetof(struct fi_ops_domain, endpoint2),
	.av_open = av_open,
	.cq_open = cq_open,
	.endpoint = ep_open,
	.scalable_ep = domain_no_scalable_ep,
	.cntr_open = cntr_open,
	.poll_open = pollset_open,
	.stx_ctx = domain_no_stx,
	.srx_ctx = ep_open_srx,
	.query_atomic = domain_query_atomic,
	.query_collective = collective_query,
};

/* Why the core's NIC cannot be given device memory; NULL: it can, as far as is known */
static const char *domain_maps_not(const struct fi_info *info, unsigned int quirks,
				   bool layered)
{
	if (!(quirks & QUIRK_MAPS))
		return "the core provider registers no device memory";
	if (!dev_present)
		return "there is no GPU runtime";
	if (conf.path == CONF_PATH_STAGE)
		return "FI_P2P_PATH=stage";
	if (conf.path == CONF_PATH_IPC)
		return "FI_P2P_PATH=ipc";
	/* it takes registering host memory, too, which is not for who has not asked for it */
	if (layered && !(info->caps & (FI_HMEM | FI_P2P)) && conf.path != CONF_PATH_PEER)
		return "the domain was opened without FI_HMEM, and FI_P2P_PATH is not peer";
	if (!layered && !(info->domain_attr->mr_mode & FI_MR_LOCAL))
		return "the domain was opened without FI_MR_LOCAL: the core provider registers "
		       "buffers by itself";
	return NULL;
}

static void domain_say_quirks(const struct fi_info *core)
{
	const char *name = core->fabric_attr ? core->fabric_attr->prov_name : NULL;

	for (size_t i = 0; i < quirks_count; i++) {
		if (quirks_match(&quirks_table[i], name, fi_version()))
			P2P_INFO("%s %s\n", name ? name : "the core provider",
				 quirks_table[i].does);
	}
}

int domain_open(struct fid_fabric *fabric_fid, struct fi_info *info,
		struct fid_domain **domain_fid, void *context)
{
	struct p2p_fabric *fabric = fabric_of(&fabric_fid->fid);
	struct p2p_domain *domain;
	struct fi_info *core_info;
	bool local_mr, adds, lends, shared;
	const char *why;
	int ret;

	if (!info || !info->domain_attr || !domain_fid)
		return -FI_EINVAL;
	/* not at load time: the application may never open one */
	dev_init();

	core_info = lf.dupinfo(info);
	if (!core_info)
		return -FI_ENOMEM;
	ret = -FI_ENOMEM;
	domain = p2p_new(sizeof *domain);
	if (!domain)
		goto free_info;
	ret = fabric->layered ? info_to_core(core_info, fi_version()) : 0;
	if (ret)
		goto free_domain;
	domain->layered = fabric->layered && info_layered(info);
	domain->automatic =
		domain->layered && info->domain_attr->data_progress == FI_PROGRESS_AUTO;
	shared = domain->automatic || info->domain_attr->threading != FI_THREAD_DOMAIN;
	/* whichever thread calls, all of the domain's queues are read */
	if (shared)
		core_info->domain_attr->threading = FI_THREAD_SAFE;
	domain->quirks = quirks_of(core_info, fi_version());
	domain_say_quirks(core_info);
	why = domain_maps_not(info, domain->quirks, domain->layered);
	adds = !why && domain->layered;
	lends = domain->layered && dev_present && domain->quirks & QUIRK_LENDS;
	if (adds)
		info_core_add_maps(core_info);
	if (lends)
		info_core_add_lending(core_info);
	ret = fi_domain(fabric->core, core_info, &domain->core, domain);
	if (ret)
		goto free_domain;
	local_mr = adds || info->domain_attr->mr_mode & FI_MR_LOCAL;
	ret = xfer_init(&domain->xfer, &protos, domain->layered, shared,
			local_mr ? domain->core : NULL);
	if (ret)
		goto close_core;
	domain->xfer.stage.lender = lends ? domain->core : NULL;
	nic_map_init(&domain->xfer.map, why ? NULL : domain->core, why,
		     !(domain->quirks & QUIRK_NO_DMABUF));
	domain->xfer.direct = !why && domain->quirks & QUIRK_DIRECT;
	domain->xfer.virt_addr =
		core_info->domain_attr->mr_mode & (FI_MR_VIRT_ADDR | FI_MR_BASIC);
	domain->allocated = info->domain_attr->mr_mode & (FI_MR_ALLOCATED | FI_MR_BASIC);
	/* no key may be there twice, as one of the cache's may: QUIRK_KEY_ONCE */
	if (info->caps & FI_ATOMIC)
		domain->xfer.local_flags = MAP_FLAG_NOCACHE;
	ret = adds ? xfer_want_local(&domain->xfer) : 0;
	if (ret)
		goto fini_xfer;

	domain->xfer.wait.fabric = fabric->core;
	domain->source = info->caps & FI_SOURCE;
	if (domain->layered) {
		domain->serves_all = info_serves_all(info, domain->quirks);
		info_keys(info, domain->serves_all, &domain->xfer.key_mark,
			  &domain->xfer.keys_ours);
		domain->xfer.atomics_ours =
			domain->xfer.key_mark && domain->quirks & QUIRK_ATOMICS;
	}
	ret = domain->automatic ? auto_start(&domain->auto_thread, &domain->xfer) : 0;
	if (ret)
		goto fini_xfer;
	domain->fabric = fabric;
	domain->fid.fid.fclass = FI_CLASS_DOMAIN;
	domain->fid.fid.context = context;
	domain->fid.fid.ops = &domain_class.ops;
	domain->fid.ops = &domain_ops;
	domain->fid.mr = &mr_ops;
	*domain_fid = &domain->fid;
	lf.freeinfo(core_info);
	return 0;

fini_xfer:
	xfer_fini(&domain->xfer);
close_core:
	fi_close(&domain->core->fid);
free_domain:
	free(domain);
free_info:
	lf.freeinfo(core_info);
	return ret;
}
