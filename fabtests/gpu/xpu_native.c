/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_xpu_native: kernels communicate by objects that were opened for a GPU, as fi_xpu(3) describes it. It
 * acts as a program does that was compiled with libfabric 2.7 (xpu_native.h). Entries that come
 * after those return -FI_ENOSYS.
 */
#include <dlfcn.h>
#include <stdlib.h>

#include "xpu_native.h"
#include "xpu_side.h"

#define BLOCKS 4
#define COUNT 5
#define LEN ((size_t) 10007)
#define ALL (BLOCKS * COUNT * LEN)

/* Entries that each table has room for, with its size */
#define ROOM 32

/* ---- open ---- */

/* fi_getinfo offers it where libfabric's structures have what belongs to it, and to who asks. */
static int get_info(struct xpu_side *side)
{
	const bool known = dlvsym(RTLD_DEFAULT, "fi_dupinfo", "FABRIC_1.10");
	struct fi_info *hints = side->ctx.hints, **info = &side->ctx.info;
	size_t ctxs = 0;
	int ret;

	hints->caps |= NATIVE_XPU;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	ret = fi_getinfo(fi_version(), NULL, NULL, 0, hints, info);
	if (known) {
		FT_CHECK(!ret && (*info)->caps & NATIVE_XPU, "FI_XPU is not offered: %d", ret);
		memcpy(&ctxs, (char *) (*info)->domain_attr + NATIVE_DOMAIN_ATTR_XPU_CTXS,
		       sizeof(ctxs));
		FT_CHECK(ctxs, "FI_XPU is offered for no context");
		return 0;
	}
	FT_CHECK(ret == -FI_ENODATA, "FI_XPU is offered without its structures: %d", ret);
	hints->caps &= ~NATIVE_XPU;
	hints->domain_attr->threading = FI_THREAD_SAFE;
	return ft_getinfo(&side->ctx, NULL, NULL, 0);
}

static int open_domain(struct xpu_side *side)
{
	struct ft_ctx *ctx = &side->ctx;
	struct fi_av_attr av = {.type = ctx->info->domain_attr->av_type};
	struct fi_xpu_attr xpu = {
		.iface = side->proc->opts.iface,
		.device = (uint64_t) side->proc->opts.device,
	};
	struct fi_xpu_ctx_attr about;
	int ret;

	FT_TRY(ft_fabric_open(ctx));
	ret = fi_domain(ctx->fabric, ctx->info, &ctx->domain, NULL);
	if (ret)
		return ft_fail(ret, "fi_domain", "%s", ctx->info->domain_attr->name);
	ret = fi_open_ops(&ctx->domain->fid, FI_P2P_XPU_OPS, 0, (void **) &side->xpu, NULL);
	if (ret)
		return ft_fail(ret, "fi_open_ops", FI_P2P_XPU_OPS);
	ret = native_xpu_ctx(ctx->domain, &xpu, &side->xpu_ctx, NULL);
	if (ret)
		return ft_fail(ret, "fi_xpu_ctx", "GPU %d", side->proc->opts.device);
	ret = fi_xpu_ctx_query(side->xpu_ctx, &about);
	FT_CHECK(!ret && about.av_addr_size == sizeof(uint64_t) &&
			 about.mr_desc_size == sizeof(uint64_t),
		 "fi_xpu_ctx_query: %d", ret);
	ret = fi_av_open(ctx->domain, &av, &ctx->av, NULL);
	return ret ? ft_fail(ret, "fi_av_open", "address vector") : 0;
}

/* Objects that are opened for nothing, or for what is no context, are refused. */
static int refuse(struct xpu_side *side)
{
	struct ft_ctx *ctx = &side->ctx;
	union native_attr attr = {.cq = ctx->cq_attr};
	struct fid_cntr *cntr;
	struct fid_cq *cq;

	attr.cq.flags = NATIVE_XPU;
	FT_CHECK(fi_cq_open(ctx->domain, &attr.cq, &cq, NULL) == -FI_EINVAL,
		 "a queue for no context");
	attr = (union native_attr){.cntr = {.flags = NATIVE_XPU}};
	native_attr_set(&attr, NATIVE_CNTR_ATTR_XPU_CTX, (void *) ctx->domain);
	FT_CHECK(fi_cntr_open(ctx->domain, &attr.cntr, &cntr, NULL) == -FI_EINVAL,
		 "a counter for a domain");
	return 0;
}

static int open_cntr(struct xpu_side *side, uint64_t flags, struct fid_cntr **cntr)
{
	union native_attr attr = {.cntr = {.flags = NATIVE_XPU, .wait_obj = FI_WAIT_NONE}};
	int ret;

	native_attr_set(&attr, NATIVE_CNTR_ATTR_XPU_CTX, side->xpu_ctx);
	ret = fi_cntr_open(side->ctx.domain, &attr.cntr, cntr, NULL);
	if (!ret)
		ret = fi_ep_bind(side->ctx.ep, &(*cntr)->fid, flags);
	return ret ? ft_fail(ret, "fi_cntr_open, fi_ep_bind", "a counter for a GPU") : 0;
}

static int open_ep(struct xpu_side *side)
{
	struct ft_ctx *ctx = &side->ctx;
	struct fi_ep_attr *own = ctx->info->ep_attr;
	union native_attr attr = {.cq = ctx->cq_attr};
	int ret;

	attr.cq.flags |= NATIVE_XPU;
	native_attr_set(&attr, NATIVE_CQ_ATTR_XPU_CTX, side->xpu_ctx);
	ret = fi_cq_open(ctx->domain, &attr.cq, &ctx->cq, NULL);
	if (ret)
		return ft_fail(ret, "fi_cq_open", "a queue for a GPU");
	attr = (union native_attr){.ep = *own};
	native_attr_set(&attr, NATIVE_EP_ATTR_XPU_CTX, side->xpu_ctx);
	ctx->info->ep_attr = &attr.ep;
	ret = fi_endpoint2(ctx->domain, ctx->info, &ctx->ep, NATIVE_XPU, NULL);
	ctx->info->ep_attr = own;
	if (!ret)
		ret = fi_ep_bind(ctx->ep, &ctx->av->fid, 0);
	if (!ret)
		ret = fi_ep_bind(ctx->ep, &ctx->cq->fid, FI_TRANSMIT | FI_RECV | ctx->cq_flags);
	if (ret)
		return ft_fail(ret, "fi_endpoint2, fi_ep_bind", "an endpoint for a GPU");
	FT_TRY(open_cntr(side, FI_SEND | FI_WRITE, &side->tx));
	FT_TRY(open_cntr(side, FI_RECV | FI_READ, &side->rx));
	ret = fi_enable(ctx->ep);
	return ret ? ft_fail(ret, "fi_enable", "an endpoint for a GPU") : 0;
}

/* In the manual's order: the endpoint comes first */
static int export_all(struct xpu_side *side)
{
	struct xpu_args *args = &side->args;
	int ret = native_ep_export(side->ctx.ep, 0, &args->ep);

	if (!ret)
		ret = native_cq_export(side->ctx.cq, 0, &args->cq);
	if (!ret)
		ret = native_cntr_export(side->tx, 0, &args->tx);
	if (!ret)
		ret = native_cntr_export(side->rx, 0, &args->rx);
	if (ret)
		return ft_fail(ret, "export", "endpoint, queue or counter");
	FT_CHECK(native_ep_export(side->ctx.ep, 0, &args->ep) == -FI_EBUSY,
		 "an endpoint is exported twice");
	return 0;
}

static int raw(struct xpu_side *side)
{
	struct xpu_args *args = &side->args;
	const fi_addr_t peer = side->ctx.peer[!side->proc->rank];
	char name[FT_NAME_MAX], same[FT_NAME_MAX];
	size_t len = sizeof(name), other = sizeof(same);

	FT_CHECK(!fi_av_lookup(side->ctx.av, peer, name, &len) &&
			 !native_av_lookup2(side->ctx.av, peer, same, &other, 0, NULL) &&
			 len == other && !memcmp(name, same, len),
		 "fi_av_lookup2 without FI_XPU has another address");
	len = 4;
	FT_CHECK(native_av_lookup2(side->ctx.av, peer, &args->peer, &len, NATIVE_XPU,
				   side->xpu_ctx) == -FI_ETOOSMALL &&
			 len == sizeof(uint64_t),
		 "a raw address fits 4 bytes");
	FT_TRY(native_av_lookup2(side->ctx.av, peer, &args->peer, &len, NATIVE_XPU,
				 side->xpu_ctx));
	return native_mr_desc(side->out.mr, &args->desc, &len, NATIVE_XPU, side->xpu_ctx);
}

/* ---- objects that are for no GPU, and entries that nobody knows ---- */

static int ordinary(struct xpu_side *side)
{
	struct ft_ctx *ctx = &side->ctx;
	struct fi_cq_attr attr = {.format = FI_CQ_FORMAT_TAGGED};
	struct fid_xpu_cntr xpu_cntr;
	struct fid_xpu_cq xpu_cq;
	struct fid_xpu_ep xpu_ep;
	struct fid_cntr *cntr;
	struct fid_cq *cq;
	struct fid_ep *ep;

	FT_TRY(fi_cq_open(ctx->domain, &attr, &cq, NULL));
	FT_TRY(ft_cntr_open(ctx, FI_WAIT_NONE, 0, &cntr));
	FT_TRY(fi_endpoint(ctx->domain, ctx->info, &ep, NULL));
	FT_CHECK(native_cq_export(cq, 0, &xpu_cq) == -FI_EINVAL &&
			 native_cntr_export(cntr, 0, &xpu_cntr) == -FI_EINVAL &&
			 native_ep_export(ep, 0, &xpu_ep) == -FI_EINVAL,
		 "what is for no GPU is exported");
	FT_TRY(fi_ep_bind(ep, &ctx->av->fid, 0));
	FT_TRY(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	FT_TRY(fi_enable(ep));
	FT_TRY(fi_close(&ep->fid));
	FT_TRY(fi_close(&cntr->fid));
	return fi_close(&cq->fid);
}

/* Calls the entries of a table from number @first on. */
static int beyond(const char *what, void *fid, const void *table, size_t first)
{
	for (size_t i = first; i < ROOM; i++) {
		int (*call)(void *, uint64_t, void *, uint64_t, void *, uint64_t) =
			(__typeof__(call)) native_get(table, i);

		FT_CHECK(call(fid, 1, NULL, 2, NULL, 3) == -FI_ENOSYS,
			 "entry %zu of %s' table is not -FI_ENOSYS", i, what);
	}
	return 0;
}

/* An alias is an endpoint that cannot be exported. */
static int beyond_alias(const struct ft_ctx *ctx)
{
	int (*export)(struct fid_ep *, uint64_t, void *);
	struct fid_ep *alias;
	int ret = fi_ep_alias(ctx->ep, &alias, FI_TRANSMIT);

	if (ret)
		return ft_fail(ret, "fi_ep_alias", "endpoint");
	export = (__typeof__(export)) native_get(alias->ops, NATIVE_EP_EXPORT_XPU);
	FT_CHECK(export(alias, 0, NULL) == -FI_EINVAL, "an alias could be exported");
	FT_TRY(beyond("aliases", alias, alias->ops, NATIVE_EP_EXPORT_XPU + 1));
	return fi_close(&alias->fid);
}

static int beyond_all(const struct ft_ctx *ctx, struct fid_cntr *cntr)
{
	if (ctx->hints->caps & FI_TRIGGER)
		FT_TRY(beyond_alias(ctx));
	FT_TRY(beyond("domains", ctx->domain, ctx->domain->ops, NATIVE_DOMAIN_XPU_CTX + 1));
	FT_TRY(beyond("endpoints", ctx->ep, ctx->ep->ops, NATIVE_EP_EXPORT_XPU + 1));
	FT_TRY(beyond("queues", ctx->cq, ctx->cq->ops, NATIVE_CQ_EXPORT_XPU + 1));
	FT_TRY(beyond("counters", cntr, cntr->ops, NATIVE_CNTR_EXPORT_XPU + 1));
	return beyond("address vectors", ctx->av, ctx->av->ops, NATIVE_AV_LOOKUP2 + 1);
}

/* ---- kernels ---- */

static unsigned char *scratch; /* ALL bytes */

/* Fills with @rank's bytes, or compares with them. */
static int bytes(const struct ft_buf *buf, int rank, bool check)
{
	if (check)
		FT_TRY(buf->ops->from(scratch, buf->addr, ALL));
	for (size_t i = 0; i < ALL; i++) {
		const unsigned char byte =
			(unsigned char) (i * 7 + i / LEN + 1 + (size_t) rank);

		FT_CHECK(!check || scratch[i] == byte, "byte %zu is 0x%02x, not 0x%02x", i,
			 scratch[i], byte);
		scratch[i] = byte;
	}
	return check ? 0 : buf->ops->to(buf->addr, scratch, ALL);
}

static int kernels(struct xpu_side *side)
{
	struct xpu_args *args = &side->args;
	const int rank = side->proc->rank;
	bool sends;

	args->blocks = BLOCKS;
	args->count = COUNT;
	args->len = LEN;
	FT_TRY(bytes(&side->out, rank, false));
	FT_TRY(ft_meet_all(side->proc));
	FT_TRY(xpu_side_run(side, XPU_WRITE, 1, NULL));
	FT_TRY(ft_meet_all(side->proc));
	FT_TRY(bytes(&side->in, !rank, true));
	for (int sender = 0; sender < 2; sender++) {
		sends = sender == rank;
		FT_TRY(xpu_side_clear(&side->in));
		FT_TRY(ft_meet_all(side->proc));
		args->base = fi_cntr_read(side->tx);
		args->buf = sends ? side->out.addr : side->in.addr;
		FT_TRY(xpu_side_run(side, sends ? XPU_SEND : XPU_RECV, 1, NULL));
		if (!sends)
			FT_TRY(bytes(&side->in, !rank, true));
	}
	return ft_meet_all(side->proc);
}

/* ---- the program ---- */

/* @caps: asked for besides */
static int scenes(struct ft_proc *proc, uint64_t caps)
{
	struct xpu_side side = {0};

	FT_TRY(xpu_side_hints(&side, proc));
	side.ctx.hints->caps |= caps;
	FT_TRY(get_info(&side));
	FT_TRY(open_domain(&side));
	FT_TRY(refuse(&side));
	FT_TRY(open_ep(&side));
	FT_TRY(ft_test_connect(proc, &side.ctx));
	FT_TRY(xpu_side_alloc(&side, ALL, BLOCKS, false));
	FT_TRY(export_all(&side));
	FT_TRY(raw(&side));
	FT_TRY(ordinary(&side));
	FT_TRY(beyond_all(&side.ctx, side.tx));
	FT_TRY(xpu_side_share(&side));
	FT_TRY(kernels(&side));
	FT_CHECK(fi_close(&side.xpu_ctx->fid) == -FI_EBUSY,
		 "a context is closed before its objects");
	return xpu_side_close(&side);
}

static int run(struct ft_proc *proc)
{
	scratch = malloc(ALL);
	if (!scratch)
		return -FI_ENOMEM;
	FT_TRY(scenes(proc, 0));
	FT_TRY(ft_meet_all(proc));
	/* endpoints have other tables there */
	FT_TRY(scenes(proc, FI_TRIGGER));
	free(scratch);
	return 0;
}

int main(int argc, char **argv)
{
	const struct ft_test test = {
		.purpose = "Endpoints, queues and counters that were opened for a GPU.",
		.scope = FT_SCOPE_TEST,
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
