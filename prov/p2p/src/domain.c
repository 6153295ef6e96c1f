/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Rank 5: domains. See domain.h. */
#include "domain.h"

#include <stdlib.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>

#include "av.h"
#include "cntr.h"
#include "cq.h"
#include "dev.h"
#include "ep.h"
#include "info.h"
#include "lf.h"
#include "log.h"
#include "mr.h"
#include "pollset.h"

static int domain_close(struct fid *fid)
{
	struct p2p_domain *domain = (struct p2p_domain *) fid;
	int ret = fi_close(&domain->core->fid);

	if (ret)
		return ret;
	xfer_fini(&domain->xfer);
	free(domain);
	return 0;
}

static int domain_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct fid *core = fid_core(fid);

	return core->ops->bind(core, fid_core(bfid), flags);
}

static int domain_query_atomic(struct fid_domain *fid, enum fi_datatype datatype,
			       enum fi_op op, struct fi_atomic_attr *attr, uint64_t flags)
{
	struct p2p_domain *domain = (struct p2p_domain *) fid;

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

static int domain_no_query_collective(struct fid_domain *domain,
				      enum fi_collective_op collective,
				      struct fi_collective_attr *attr, uint64_t flags)
{
	return -FI_ENOSYS;
}

static struct fi_ops domain_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = domain_close,
	.bind = domain_bind,
	.control = fid_control,
	.ops_open = fid_ops_open,
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
	.query_collective = domain_no_query_collective,
};

int domain_open(struct fid_fabric *fabric_fid, struct fi_info *info,
		struct fid_domain **domain_fid, void *context)
{
	struct p2p_fabric *fabric = (struct p2p_fabric *) fabric_fid;
	struct p2p_domain *domain;
	struct fi_info *core_info;
	bool local_mr;
	int ret;

	if (!info || !info->domain_attr || !domain_fid)
		return -FI_EINVAL;
	/* not at load time: the application may never open one */
	dev_load();

	core_info = lf.dupinfo(info);
	if (!core_info)
		return -FI_ENOMEM;
	ret = -FI_ENOMEM;
	domain = p2p_new(sizeof *domain);
	if (!domain)
		goto free_info;
	ret = fabric->layered ? info_to_core(core_info) : 0;
	if (!ret)
		ret = fi_domain(fabric->core, core_info, &domain->core, domain);
	if (ret)
		goto free_domain;
	local_mr = info->domain_attr->mr_mode & FI_MR_LOCAL;
	domain->layered = fabric->layered && info_layered(info);
	ret = xfer_init(&domain->xfer, domain->layered,
			info->domain_attr->threading != FI_THREAD_DOMAIN,
			local_mr ? domain->core : NULL);
	if (ret)
		goto close_core;

	domain->xfer.wait.fabric = fabric->core;
	domain->counts = info_core_counts(core_info);
	domain->source = info->caps & FI_SOURCE;
	domain->virt_addr = info->domain_attr->mr_mode & (FI_MR_VIRT_ADDR | FI_MR_BASIC);
	if (domain->layered)
		info_keys(info, &domain->xfer.key_mark, &domain->xfer.keys_ours);
	domain->fabric = fabric;
	domain->fid.fid.fclass = FI_CLASS_DOMAIN;
	domain->fid.fid.context = context;
	domain->fid.fid.ops = &domain_fid_ops;
	domain->fid.ops = &domain_ops;
	domain->fid.mr = &mr_ops;
	*domain_fid = &domain->fid;
	lf.freeinfo(core_info);
	return 0;

close_core:
	fi_close(&domain->core->fid);
free_domain:
	free(domain);
free_info:
	lf.freeinfo(core_info);
	return ret;
}
