/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Contexts, and the table of the host's calls. See xpu.h. */
#include "gpu/xpu.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <rdma/fi_errno.h>

#include "base/clock.h"
#include "base/libfabric.h"
#include "base/log.h"
#include "fid/fid.h"
#include "fid/mr.h"
#include "xfer/progress.h"

/* How long to sleep between two looks at puts that are waited for [ns] */
#define XPU_DOZE 50000

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

static bool xpu_ep_lives(const struct xfer *xfer, uint64_t number)
{
	const struct xfer_ep *ep;

	LIST_FOREACH(ep, &xfer->eps, entry) {
		if (ep->number == number)
			return true;
	}
	return false;
}

/* Ends puts of endpoints that have been closed: once queues have said what they know, nothing tells of them. */
static bool xpu_orphans_end(struct xpu_ctx *ctx)
{
	struct xfer *xfer = &ctx->native.domain->xfer;
	bool gone[XPU_PUTS], moved = false;
	struct xpu_cq *cq;

	p2p_lock_take(&xfer->lock);
	for (int i = 0; i < XPU_PUTS; i++)
		gone[i] = ctx->puts[i].orphan_of && !xpu_ep_lives(xfer, ctx->puts[i].orphan_of);
	p2p_lock_drop(&xfer->lock);
	LIST_FOREACH(cq, &ctx->cqs, entry)
		xpu_cq_sift(cq);
	for (int i = 0; i < XPU_PUTS; i++) {
		if (gone[i] && ctx->puts[i].orphan_of)
			moved |= xpu_put_ended(ctx, &ctx->puts[i], 0);
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

	if (LIST_EMPTY(&ctx->eps) && LIST_EMPTY(&ctx->cqs) && LIST_EMPTY(&ctx->cntrs) &&
	    !ctx->orphans)
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
	if (p2p_unlikely(ctx->orphans))
		moved |= xpu_orphans_end(ctx);
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

/* Endpoints post nothing more, or again: all, or one (@only) */
static void xpu_eps_set_ending(struct xpu_ctx *ctx, const struct xpu_ep *only, bool ending)
{
	struct xpu_ep *ep;

	proxy_hold(ctx->proxy);
	LIST_FOREACH(ep, &ctx->eps, entry) {
		if (!only || ep == only)
			ep->ending = ending;
	}
	proxy_release(ctx->proxy);
}

/*
 * Puts that are under way know their endpoint's rings, and come out of its queues: waits for them, for a bounded
 * time. 0 or -FI_EBUSY
 */
static int xpu_puts_await(struct xpu_ctx *ctx, const struct xpu_ep *only)
{
	const struct timespec doze = {.tv_nsec = XPU_DOZE};
	const int64_t end = clock_end(ctx->native.domain->xfer.farewell);
	const unsigned int *count = only ? &only->puts : &ctx->under_way;
	unsigned int left;

	xpu_eps_set_ending(ctx, only, true);
	for (;;) {
		proxy_hold(ctx->proxy);
		left = *count;
		proxy_release(ctx->proxy);
		if (!left || !clock_left(end))
			break;
		nanosleep(&doze, NULL);
	}
	if (left)
		xpu_eps_set_ending(ctx, only, false);
	return left ? -FI_EBUSY : 0;
}

static int xpu_ctx_close(struct fid *fid)
{
	struct xpu_ctx *ctx = container_of(fid, struct xpu_ctx, native.fid.fid);

	if (domain_inherited(ctx->native.domain))
		return 0;
	if (__atomic_load_n(&ctx->native.users, __ATOMIC_ACQUIRE) || xpu_puts_await(ctx, NULL))
		return -FI_EBUSY;
	xpu_ctx_end_exports(ctx);
	proxy_remove(ctx->proxy, &ctx->source);
	proxy_put(ctx->proxy);
	xpu_maps_close(ctx);
	domain_release(ctx->native.domain);
	xpu_shared_free_all(ctx);
	free(ctx->puts);
	free(ctx);
	return 0;
}

static struct fid_class xpu_ctx_class = {
	.ops = FID_OPS(.close = xpu_ctx_close, .bind = fid_no_bind, .control = fid_no_control),
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

/* An alias is none that a kernel can have: its flags are for calls of the host's */
static bool xpu_ep_ours(struct fid_ep *ep)
{
	return xpu_ours(&ep->fid, FI_CLASS_EP) && ep_itself(&ep->fid) == ep_of(&ep->fid);
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
	if (domain->contexts) {
		P2P_WARN("kernels start no operations over a core provider that wants "
			 "FI_CONTEXT: it would write where their contexts point\n");
		return -FI_EOPNOTSUPP;
	}
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
	if (!xpu_ctx_ours(ctx) || !ep || !xpu || !xpu_ep_ours(ep))
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

/* May it end? An endpoint's puts are waited for; a queue has them told as long as its endpoint is exported. 0 or -FI_EBUSY */
static int xpu_ep_unexport(struct xpu_ctx *ctx, struct xpu_ep *ep)
{
	int ret = xpu_puts_await(ctx, ep);

	if (!ret)
		ep->export.end(&ep->export);
	return ret;
}

static int xpu_cq_unexport(struct xpu_ctx *ctx, struct xpu_cq *cq)
{
	const struct xfer_cq *queue = &cq->cq->xfer;
	const struct xpu_ep *ep;
	bool used = false;

	proxy_hold(ctx->proxy);
	LIST_FOREACH(ep, &ctx->eps, entry)
		used |= ep->ep->xfer.txcq == queue || ep->ep->xfer.rxcq == queue;
	proxy_release(ctx->proxy);
	if (used)
		return -FI_EBUSY;
	cq->export.end(&cq->export);
	return 0;
}

static int xpu_ops_unexport(struct fid_xpu_ctx *fid, struct fid_xpu *xpu)
{
	struct xpu_cntr *cntr;
	struct xpu_ctx *ctx;
	struct xpu_ep *ep;
	struct xpu_cq *cq;
	void *state;

	if (!xpu_ctx_ours(fid) || !xpu || xpu->prov_id != FI_XPU_PROV_P2P)
		return -FI_EINVAL;
	ctx = xpu_ctx_of(fid);
	state = (void *) (uintptr_t) xpu->prov_ctx;
	/* one of the three has that state */
	proxy_hold(ctx->proxy);
	LIST_FOREACH(ep, &ctx->eps, entry) {
		if (ep->shared->state == state)
			break;
	}
	LIST_FOREACH(cq, &ctx->cqs, entry) {
		if (cq->shared->state == state)
			break;
	}
	LIST_FOREACH(cntr, &ctx->cntrs, entry) {
		if (cntr->shared->state == state)
			break;
	}
	proxy_release(ctx->proxy);
	if (ep)
		return xpu_ep_unexport(ctx, ep);
	if (cq)
		return xpu_cq_unexport(ctx, cq);
	if (!cntr)
		return -FI_EINVAL;
	cntr->export.end(&cntr->export);
	return 0;
}

static int xpu_ops_target_add(struct fid_ep *ep, const struct fi_p2p_xpu_target *target,
			      uint32_t *number)
{
	if (!ep || !target || !number || !xpu_ep_ours(ep))
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

static int xpu_ops_mr_share(struct fid_mr *mr, void *share, size_t *len)
{
	if (!mr || !len || !xpu_ours(&mr->fid, FI_CLASS_MR))
		return -FI_EINVAL;
	return xpu_mr_share(mr_of(&mr->fid), share, len);
}

static int xpu_ops_target_map(struct fid_ep *fid, uint32_t number, const void *share,
			      size_t len)
{
	struct xpu_ep *ep =
		fid && share && xpu_ep_ours(fid) ? xpu_ep_find(ep_of(&fid->fid)) : NULL;

	return ep ? xpu_target_map(ep, number, share, len) : -FI_EINVAL;
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
	.mr_share = xpu_ops_mr_share,
	.target_map = xpu_ops_target_map,
};

bool xpu_own_ops(struct fid *fid, const char *name, void **ops)
{
	if (fid->fclass != FI_CLASS_DOMAIN || strcmp(name, FI_P2P_XPU_OPS))
		return false;
	*ops = &xpu_ops;
	return true;
}
