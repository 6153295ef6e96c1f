/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Contexts, and the table of the host's calls. See xpu.h. */
#include "gpu/xpu.h"

#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>

#include "base/libfabric.h"
#include "base/log.h"
#include "fid/fid.h"
#include "fid/mr.h"
#include "xfer/progress.h"

/* ---- what the proxy does ---- */

/* Of queues that the application has not bound, only puts of ours are of interest. */
static bool xpu_own_look(struct xpu_ctx *ctx, struct xfer_cq *own)
{
	struct core_comp comp;
	bool moved = false;

	while (own->kept && xpu_report_take(own, &comp)) {
		xpu_put_ended(ctx, comp.context, comp.err);
		free(comp.err_data);
		moved = true;
	}
	return moved;
}

static bool xpu_look(struct proxy_source *source)
{
	struct xpu_ctx *ctx = container_of(source, struct xpu_ctx, source);
	struct xfer *xfer = &ctx->native.domain->xfer;
	struct xpu_cntr *cntr;
	struct xpu_ep *ep;
	struct xpu_cq *cq;
	bool moved = false;

	if (LIST_EMPTY(&ctx->eps) && LIST_EMPTY(&ctx->cqs) && LIST_EMPTY(&ctx->cntrs))
		return false;
	LIST_FOREACH(ep, &ctx->eps, entry)
		moved |= xpu_ep_look(ep);
	xfer_progress(xfer);
	LIST_FOREACH(cq, &ctx->cqs, entry)
		moved |= xpu_cq_look(cq);
	LIST_FOREACH(ep, &ctx->eps, entry) {
		moved |= xpu_own_look(ctx, &ep->ep->own[0]);
		moved |= xpu_own_look(ctx, &ep->ep->own[1]);
	}
	LIST_FOREACH(cntr, &ctx->cntrs, entry)
		moved |= xpu_cntr_look(cntr);
	return moved || xfer_busy(xfer);
}

/* ---- contexts ---- */

/* Ends the exports that are left. Each takes itself off its list. */
static void xpu_ctx_end_exports(struct xpu_ctx *ctx)
{
	struct fid_export *export;

	while (!LIST_EMPTY(&ctx->eps)) {
		export = &LIST_FIRST(&ctx->eps)->export;
		export->end(export);
	}
	while (!LIST_EMPTY(&ctx->cqs)) {
		export = &LIST_FIRST(&ctx->cqs)->export;
		export->end(export);
	}
	while (!LIST_EMPTY(&ctx->cntrs)) {
		export = &LIST_FIRST(&ctx->cntrs)->export;
		export->end(export);
	}
}

static int xpu_ctx_close(struct fid *fid)
{
	struct xpu_ctx *ctx = container_of(fid, struct xpu_ctx, native.fid.fid);

	if (__atomic_load_n(&ctx->native.users, __ATOMIC_ACQUIRE))
		return -FI_EBUSY;
	xpu_ctx_end_exports(ctx);
	proxy_remove(ctx->proxy, &ctx->source);
	proxy_put(ctx->proxy);
	domain_release(ctx->native.domain);
	xpu_shared_free_all(ctx);
	free(ctx->puts);
	free(ctx);
	return 0;
}

static int xpu_ctx_control(struct fid *fid, int command, void *arg)
{
	return -FI_ENOSYS;
}

static struct fid_class xpu_ctx_class = {
	.ops =
		{
			.size = sizeof(struct fi_ops),
			.close = xpu_ctx_close,
			.bind = fid_no_bind,
			.control = xpu_ctx_control,
			.ops_open = fid_ops_open,
		},
};

static int xpu_ctx_query(struct fid_xpu_ctx *ctx, struct fi_xpu_ctx_attr *attr)
{
	if (!attr)
		return -FI_EINVAL;
	*attr = (struct fi_xpu_ctx_attr){
		.caps = FI_XPU_CAP_EP | FI_XPU_CAP_CQ | FI_XPU_CAP_CNTR,
		.av_addr_size = sizeof(fi_addr_t),
		.mr_desc_size = sizeof(uint64_t),
	};
	return 0;
}

static struct fi_ops_xpu_ctx xpu_ctx_ops = {
	.size = sizeof(struct fi_ops_xpu_ctx),
	.query = xpu_ctx_query,
};

/* Is @fid an object of ours of this class? */
static bool xpu_ours(const struct fid *fid, size_t fclass)
{
	return fid_class(fid) && fid->fclass == fclass;
}

static bool xpu_ctx_ours(const struct fid_xpu_ctx *ctx)
{
	return ctx && fid_class(&ctx->fid) == &xpu_ctx_class;
}

static int xpu_ctx_open(struct fid_domain *fid, struct fi_xpu_attr *attr,
			struct fid_xpu_ctx **opened, void *context)
{
	struct p2p_domain *domain;
	struct xpu_ctx *ctx;
	int ret;

	if (!attr || !opened || !fid || !xpu_ours(&fid->fid, FI_CLASS_DOMAIN))
		return -FI_EINVAL;
	domain = domain_of(&fid->fid);
	ret = proxy_may_serve(domain);
	if (ret)
		return ret;
	ctx = calloc(1, sizeof *ctx);
	if (!ctx)
		return -FI_ENOMEM;
	ctx->puts = calloc(XPU_PUTS, sizeof *ctx->puts);
	ret = ctx->puts ? gpu_dev_open(&ctx->dev, attr) : -FI_ENOMEM;
	if (!ret)
		ret = proxy_get(&ctx->dev, &ctx->proxy);
	if (ret) {
		free(ctx->puts);
		free(ctx);
		return ret;
	}
	for (int i = 0; i < XPU_PUTS; i++)
		SLIST_INSERT_HEAD(&ctx->free, &ctx->puts[i], entry);
	ctx->native.domain = domain;
	domain_hold(domain);
	ctx->source.look = xpu_look;
	ctx->source.kernels = true;
	ctx->native.fid.fid.fclass = LF_CLASS_XPU_CTX;
	ctx->native.fid.fid.context = context;
	ctx->native.fid.fid.ops = &xpu_ctx_class.ops;
	ctx->native.fid.ops = &xpu_ctx_ops;
	proxy_add(ctx->proxy, &ctx->source);
	*opened = &ctx->native.fid;
	return 0;
}

/* ---- the table ---- */

static int xpu_ops_ep_export(struct fid_xpu_ctx *ctx, struct fid_ep *ep, uint64_t flags,
			     struct fid_xpu_ep *xpu)
{
	if (!xpu_ctx_ours(ctx) || !ep || !xpu || !xpu_ours(&ep->fid, FI_CLASS_EP))
		return -FI_EINVAL;
	return xpu_ep_export(xpu_ctx_of(ctx), ep, flags, xpu);
}

static int xpu_ops_cq_export(struct fid_xpu_ctx *ctx, struct fid_cq *cq, uint64_t flags,
			     struct fid_xpu_cq *xpu)
{
	if (!xpu_ctx_ours(ctx) || !cq || !xpu || !xpu_ours(&cq->fid, FI_CLASS_CQ))
		return -FI_EINVAL;
	return xpu_cq_export(xpu_ctx_of(ctx), cq, flags, xpu);
}

static int xpu_ops_cntr_export(struct fid_xpu_ctx *ctx, struct fid_cntr *cntr, uint64_t flags,
			       struct fid_xpu_cntr *xpu)
{
	if (!xpu_ctx_ours(ctx) || !cntr || !xpu || !xpu_ours(&cntr->fid, FI_CLASS_CNTR))
		return -FI_EINVAL;
	return xpu_cntr_export(xpu_ctx_of(ctx), cntr, flags, xpu);
}

/* The export whose handle has @state. Called with the proxy's lock held; NULL: none */
static struct fid_export *xpu_export_find(const struct xpu_ctx *ctx, const void *state)
{
	struct xpu_cntr *cntr;
	struct xpu_ep *ep;
	struct xpu_cq *cq;

	LIST_FOREACH(ep, &ctx->eps, entry) {
		if (ep->shared->state == state)
			return &ep->export;
	}
	LIST_FOREACH(cq, &ctx->cqs, entry) {
		if (cq->shared->state == state)
			return &cq->export;
	}
	LIST_FOREACH(cntr, &ctx->cntrs, entry) {
		if (cntr->shared->state == state)
			return &cntr->export;
	}
	return NULL;
}

static int xpu_ops_unexport(struct fid_xpu_ctx *fid, struct fid_xpu *xpu)
{
	struct fid_export *export;
	struct xpu_ctx *ctx;

	if (!xpu_ctx_ours(fid) || !xpu || xpu->prov_id != FI_XPU_PROV_P2P)
		return -FI_EINVAL;
	ctx = xpu_ctx_of(fid);
	proxy_hold(ctx->proxy);
	export = xpu_export_find(ctx, (void *) (uintptr_t) xpu->prov_ctx);
	proxy_release(ctx->proxy);
	if (!export)
		return -FI_EINVAL;
	export->end(export);
	return 0;
}

static int xpu_ops_target_add(struct fid_ep *ep, const struct fi_p2p_xpu_target *target,
			      uint32_t *number)
{
	if (!ep || !target || !number || !xpu_ours(&ep->fid, FI_CLASS_EP))
		return -FI_EINVAL;
	return xpu_target_add(ep_of(&ep->fid), target, number);
}

/* Gives 8 bytes to who has room for them. */
static int xpu_ops_give(uint64_t value, void *buf, size_t *len)
{
	if (!len)
		return -FI_EINVAL;
	if (*len < sizeof value || !buf) {
		*len = sizeof value;
		return -FI_ETOOSMALL;
	}
	*len = sizeof value;
	memcpy(buf, &value, sizeof value);
	return 0;
}

static int xpu_ops_av_lookup2(struct fid_av *av, fi_addr_t addr, void *buf, size_t *len,
			      uint64_t flags, struct fid_xpu_ctx *ctx)
{
	if (!av || !xpu_ctx_ours(ctx) || !xpu_ours(&av->fid, FI_CLASS_AV))
		return -FI_EINVAL;
	return xpu_ops_give(addr, buf, len);
}

static int xpu_ops_mr_get_desc(struct fid_mr *mr, void *buf, size_t *len, uint64_t flags,
			       struct fid_xpu_ctx *ctx)
{
	if (!mr || !xpu_ctx_ours(ctx))
		return -FI_EINVAL;
	return xpu_ops_give((uintptr_t) fi_mr_desc(mr), buf, len);
}

struct fi_p2p_xpu_ops xpu_ops = {
	.size = sizeof(struct fi_p2p_xpu_ops),
	.ctx = xpu_ctx_open,
	.ep_export = xpu_ops_ep_export,
	.cq_export = xpu_ops_cq_export,
	.cntr_export = xpu_ops_cntr_export,
	.unexport = xpu_ops_unexport,
	.target_add = xpu_ops_target_add,
	.av_lookup2 = xpu_ops_av_lookup2,
	.mr_get_desc = xpu_ops_mr_get_desc,
};

bool xpu_own_ops(struct fid *fid, const char *name, void **ops)
{
	if (fid->fclass != FI_CLASS_DOMAIN || strcmp(name, FI_P2P_XPU_OPS))
		return false;
	*ops = &xpu_ops;
	return true;
}
