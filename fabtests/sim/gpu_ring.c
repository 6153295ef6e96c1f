/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Domains that the GPU's kernels have (rdma/fi_p2p_xpu.h): the host exports the queue, the endpoints and their counters,
 * and posts and reads nothing there from then on. Kernels are threads of the host (FI_HMEM_SYSTEM), or the GPU's.
 */
#include "kernel.h"

#include "fid/ep.h"

bool kernels_have(unsigned int i, unsigned int d)
{
	const struct script *script = world.script;

	/* the proxy calls beside the application */
	return script->rings >> i & 1 && !nodes[i].plain && !nodes[i].hook &&
	       d == SIM_DOMAIN_OF(script->eps - 1) &&
	       !(script->alone >> i & 1 && !(script->pairs >> i & 1));
}

void kernels_open(unsigned int i, unsigned int d)
{
	struct node_domain *domain = &nodes[i].domains[d];
	const bool host = (world.script->noise >> 5 & 1) == i % 2;
	struct fi_xpu_attr attr = {.iface = host ? FI_HMEM_SYSTEM : FI_HMEM_CUDA};

	if (!kernels_have(i, d))
		return;
	SIM_MUST(fi_open_ops(&domain->domain->fid, FI_P2P_XPU_OPS, 0, (void **) &domain->xpu,
			     NULL));
	SIM_MUST(domain->xpu->ctx(domain->domain, &attr, &domain->ctx, NULL));
	SIM_MUST(domain->xpu->cq_export(domain->ctx, domain->cq, 0, &domain->kernel_cq));
}

void kernels_ep_open(unsigned int i, unsigned int e)
{
	struct node_ep *ep = &nodes[i].eps[e];
	const struct node_domain *domain = &nodes[i].domains[SIM_DOMAIN_OF(e)];
	const bool own = SIM_RINGS_OF(world.script) == SIM_BLOCKS && world.script->noise & 16;

	memset(ep->shown, 0, sizeof ep->shown);
	ep->writes = ep->forgiven = 0;
	if (!domain->ctx)
		return;
	for (size_t k = 0; k < SIM_COUNT(ep->cntrs); k++) {
		if (ep->cntrs[k])
			SIM_MUST(domain->xpu->cntr_export(domain->ctx, ep->cntrs[k], 0,
							  &ep->kernel_cntrs[k]));
	}
	SIM_MUST(domain->xpu->ep_export(domain->ctx, ep->ep, own ? FI_P2P_XPU_EXCLUSIVE : 0,
					&ep->kernel));
}

void kernels_ep_close(unsigned int i, unsigned int e)
{
	struct node_ep *ep = &nodes[i].eps[e];
	const struct node_domain *domain = &nodes[i].domains[SIM_DOMAIN_OF(e)];
	int ret;

	if (!domain->ctx)
		return;
	kernels_check_counts(i, e);
	/* or by the close itself, which takes puts with it that do not end */
	ret = world_upto(2) ? domain->xpu->unexport(domain->ctx, &ep->kernel.fid) : 0;
	if (ret && ret != -FI_EBUSY)
		world_fail("n%u: unexport: %s", i, fi_strerror(-ret));
}

void kernels_close(unsigned int i, unsigned int d)
{
	struct node_domain *domain = &nodes[i].domains[d];

	if (!domain->ctx)
		return;
	/* what is on its way there is not a child's, which has the ring in common with its parent */
	if (!world.child)
		kernels_settle(i, false);
	SIM_MUST(fi_close(&domain->ctx->fid));
	domain->ctx = NULL;
}
