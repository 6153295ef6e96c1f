/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What a rank has whose kernels communicate. See xpu_side.h. */
#include "xpu_side.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define XPU_WAIT_MS 60000

static int open_cntrs(struct ft_ctx *ctx)
{
	struct xpu_side *side = ctx->test;

	FT_TRY(ft_cntr_open(ctx, FI_WAIT_NONE, FI_SEND | FI_WRITE, &side->tx));
	return ft_cntr_open(ctx, FI_WAIT_NONE, FI_RECV | FI_READ, &side->rx);
}

static int open_xpu(struct xpu_side *side)
{
	struct fi_xpu_attr attr = {
		.iface = side->proc->opts.iface,
		.device = (uint64_t) side->proc->opts.device,
	};
	struct fi_xpu_ctx_attr about;
	int ret = fi_open_ops(&side->ctx.domain->fid, FI_P2P_XPU_OPS, 0, (void **) &side->xpu,
			      NULL);

	if (ret)
		return ft_fail(ret, "fi_open_ops", FI_P2P_XPU_OPS);
	ret = side->xpu->ctx(side->ctx.domain, &attr, &side->xpu_ctx, NULL);
	if (ret)
		return ft_fail(ret, "ctx", "GPU %d", side->proc->opts.device);
	ret = fi_xpu_ctx_query(side->xpu_ctx, &about);
	FT_CHECK(!ret && about.av_addr_size == 8 && about.mr_desc_size == 8 &&
			 about.caps == (FI_XPU_CAP_EP | FI_XPU_CAP_CQ | FI_XPU_CAP_CNTR),
		 "fi_xpu_ctx_query: %d", ret);
	return 0;
}

static int export_all(struct xpu_side *side, uint64_t flags)
{
	struct fi_p2p_xpu_ops *xpu = side->xpu;
	struct xpu_args *args = &side->args;
	int ret;

	FT_CHECK(xpu->ep_export(side->xpu_ctx, side->ctx.ep, flags, &args->ep) == -FI_EINVAL,
		 "an endpoint is exported before its queue");
	ret = xpu->cq_export(side->xpu_ctx, side->ctx.cq, 0, &args->cq);
	if (!ret)
		ret = xpu->cntr_export(side->xpu_ctx, side->tx, 0, &args->tx);
	if (!ret)
		ret = xpu->cntr_export(side->xpu_ctx, side->rx, 0, &args->rx);
	if (!ret)
		ret = xpu->ep_export(side->xpu_ctx, side->ctx.ep, flags, &args->ep);
	if (ret)
		return ft_fail(ret, "export", "endpoint, queue or counter");
	FT_CHECK(xpu->cq_export(side->xpu_ctx, side->ctx.cq, 0, &args->cq) == -FI_EBUSY,
		 "a queue is exported twice");
	return 0;
}

static int raw(struct xpu_side *side)
{
	struct fi_p2p_xpu_ops *xpu = side->xpu;
	struct xpu_args *args = &side->args;
	size_t len = 4;

	FT_CHECK(xpu->av_lookup2(side->ctx.av, side->ctx.peer[!side->proc->rank], &args->peer,
				 &len, 0, side->xpu_ctx) == -FI_ETOOSMALL &&
			 len == 8,
		 "an address of 8 bytes fits 4");
	FT_TRY(xpu->av_lookup2(side->ctx.av, side->ctx.peer[!side->proc->rank], &args->peer,
			       &len, 0, side->xpu_ctx));
	if (side->out.mr)
		FT_TRY(xpu->mr_get_desc(side->out.mr, &args->desc, &len, 0, side->xpu_ctx));
	return 0;
}

int xpu_side_target_of(struct xpu_side *side, int rank, const struct ft_buf *buf, uint64_t addr,
		       uint64_t key, uint32_t *number)
{
	const struct fi_p2p_xpu_target target = {
		.buf = buf->addr,
		.desc = buf->desc,
		.dest_addr = side->ctx.peer[rank],
		.addr = addr,
		.key = key,
	};
	int ret = side->xpu->target_add(side->ctx.ep, &target, number);

	return ret ? ft_fail(ret, "target_add", "target") : 0;
}

int xpu_side_target(struct xpu_side *side, const struct ft_buf *buf, uint64_t addr,
		    uint64_t key, uint32_t *number)
{
	return xpu_side_target_of(side, !side->proc->rank, buf, addr, key, number);
}

/* Tells the others where they may write, and learns the same. */
static int exchange(struct xpu_side *side)
{
	const struct ft_proc *proc = side->proc;
	const struct xpu_memory *peer = &side->there[!proc->rank];
	struct xpu_memory mine;

	FT_TRY(ft_buf_share(&side->ctx, &side->in, FI_REMOTE_READ | FI_REMOTE_WRITE));
	FT_TRY(ft_buf_share(&side->ctx, &side->signal, FI_REMOTE_READ | FI_REMOTE_WRITE));
	mine = (struct xpu_memory){side->in.base, side->in.key, side->signal.base,
				   side->signal.key};
	for (int i = 0; i < proc->ranks; i++)
		if (i != proc->rank)
			FT_TRY(ft_oob_send(proc->fd[i], &mine, sizeof(mine)));
	for (int i = 0; i < proc->ranks; i++)
		if (i != proc->rank)
			FT_TRY(ft_oob_recv(proc->fd[i], &side->there[i], sizeof(mine),
					   proc->opts.timeout));
	side->args.there = peer->in;
	side->args.key = peer->in_key;
	side->there_signal = peer->signal;
	side->there_signal_key = peer->signal_key;
	FT_TRY(xpu_side_target(side, &side->out, peer->in, peer->in_key, &side->args.target));
	return xpu_side_target(side, &side->out, peer->signal, peer->signal_key,
			       &side->args.signal_target);
}

int xpu_side_hints(struct xpu_side *side, struct ft_proc *proc)
{
	side->proc = proc;
	FT_TRY(ft_test_own_device(proc));
	side->device = proc->opts.iface == FI_HMEM_SYSTEM ? -1 : proc->opts.device;
	FT_TRY(ft_test_hints(proc, &side->ctx));
	side->ctx.hints->caps |= FI_RMA | FI_ATOMIC | side->caps;
	if (!ft_offered(&side->ctx))
		side->ctx.hints->caps &= ~FI_ATOMIC;
	side->ctx.hints->domain_attr->threading = FI_THREAD_SAFE;
	side->ctx.cq_flags = FI_SELECTIVE_COMPLETION;
	side->ctx.mr_access = FI_READ | FI_WRITE;
	return 0;
}

int xpu_side_alloc(struct xpu_side *side, size_t len, size_t blocks, bool near)
{
	const enum fi_hmem_iface iface = side->proc->opts.iface;

	FT_TRY(ft_buf_alloc(&side->ctx, &side->out, iface, len));
	FT_TRY(ft_buf_alloc(&side->ctx, &side->in, iface, len));
	FT_TRY(ft_buf_alloc(&side->ctx, &side->signal, near ? FI_HMEM_SYSTEM : iface,
			    XPU_SIGNALS * sizeof(uint64_t)));
	if (near && side->device >= 0)
		FT_CHECK(!xpu_pin(side->signal.addr, side->signal.size), "pinning of signals");
	return ft_buf_alloc(&side->ctx, &side->result, iface, blocks * sizeof(uint64_t));
}

int xpu_side_share(struct xpu_side *side)
{
	size_t most;

	FT_TRY(exchange(side));
	side->args.buf = side->out.addr;
	side->args.in = side->in.addr;
	side->args.signal = (uint64_t *) side->signal.addr;
	side->args.result = (uint64_t *) side->result.addr;
	side->args.timeout = XPU_WAIT_MS;
	side->args.scope = FI_XPU_WORK_GROUP;
	side->args.adds = !fi_atomicvalid(side->ctx.ep, FI_UINT64, FI_SUM, &most);
	side->args.first = !side->proc->rank;
	return 0;
}

int xpu_side_open(struct xpu_side *side, struct ft_proc *proc, uint64_t flags, size_t len,
		  size_t blocks, bool near)
{
	FT_TRY(xpu_side_hints(side, proc));
	side->ctx.prepare = open_cntrs;
	side->ctx.test = side;
	FT_TRY(ft_test_open(proc, &side->ctx));
	FT_TRY(ft_test_connect(proc, &side->ctx));
	FT_TRY(xpu_side_alloc(side, len, blocks, near));
	FT_TRY(open_xpu(side));
	FT_TRY(export_all(side, flags));
	FT_TRY(raw(side));
	return xpu_side_share(side);
}

bool xpu_side_shares(const struct xpu_side *side)
{
	return side->xpu->size > offsetof(struct fi_p2p_xpu_ops, mr_share);
}

/* Exchanges what the others need to map @buf, and maps the peer's for target @number. @can: they can be mapped */
static int map(struct xpu_side *side, const struct ft_buf *buf, uint32_t number, bool *can)
{
	const int fd = side->proc->fd[!side->proc->rank];
	struct {
		size_t len;
		unsigned char bytes[FI_P2P_XPU_SHARE];
	} mine = {.len = sizeof(mine.bytes)}, theirs;
	int ret = xpu_side_shares(side) ? side->xpu->mr_share(buf->mr, mine.bytes, &mine.len)
					: -FI_EOPNOTSUPP;

	FT_CHECK(!ret || ret == -FI_EOPNOTSUPP, "mr_share: %d", ret);
	*can = !ret;
	FT_TRY(ft_oob_send(fd, &mine, sizeof(mine)));
	FT_TRY(ft_oob_recv(fd, &theirs, sizeof(theirs), side->proc->opts.timeout));
	if (!*can)
		return 0;
	ret = side->xpu->target_map(side->ctx.ep, number, theirs.bytes, theirs.len);
	FT_CHECK(!ret || ret == -FI_EOPNOTSUPP, "target_map: %d", ret);
	*can = !ret;
	return 0;
}

int xpu_side_map(struct xpu_side *side, bool *can)
{
	bool signals;

	FT_TRY(map(side, &side->in, side->args.target, can));
	FT_TRY(map(side, &side->signal, side->args.signal_target, &signals));
	*can &= signals;
	return ft_meet_all(side->proc);
}

int xpu_side_clear(const struct ft_buf *buf)
{
	void *zeros = calloc(1, buf->size);
	int ret;

	FT_CHECK(zeros, "no memory for %zu bytes", buf->size);
	ret = buf->ops->to(buf->addr, zeros, buf->size);
	free(zeros);
	return ret;
}

int xpu_side_take_back(struct xpu_side *side)
{
	struct fi_p2p_xpu_ops *xpu = side->xpu;
	int ret = xpu->unexport(side->xpu_ctx, &side->args.ep.fid);

	if (!ret)
		ret = xpu->unexport(side->xpu_ctx, &side->args.cq.fid);
	if (!ret)
		ret = xpu->unexport(side->xpu_ctx, &side->args.tx.fid);
	if (!ret)
		ret = xpu->unexport(side->xpu_ctx, &side->args.rx.fid);
	return ret ? ft_fail(ret, "unexport", "endpoint, queue or counter") : 0;
}

int xpu_side_close(struct xpu_side *side)
{
	FT_TRY(fi_close(&side->ctx.ep->fid));
	side->ctx.ep = NULL;
	FT_TRY(fi_close(&side->ctx.cq->fid));
	side->ctx.cq = NULL;
	FT_TRY(fi_close(&side->tx->fid));
	FT_TRY(fi_close(&side->rx->fid));
	ft_buf_free(&side->out);
	ft_buf_free(&side->in);
	if (side->device >= 0 && side->signal.ops->iface == FI_HMEM_SYSTEM)
		FT_CHECK(!xpu_unpin(side->signal.addr), "unpinning of signals");
	ft_buf_free(&side->signal);
	ft_buf_free(&side->result);
	FT_TRY(fi_close(&side->xpu_ctx->fid));
	return ft_close(&side->ctx);
}

int xpu_side_run(struct xpu_side *side, enum xpu_kernel kernel, unsigned int threads,
		 uint64_t *results)
{
	struct xpu_args *args = &side->args;
	uint64_t result[XPU_BLOCKS_MAX] = {0};
	const size_t size = args->blocks * sizeof(uint64_t);
	int ret;

	FT_CHECK(size <= sizeof(result), "%" PRIu64 " blocks", args->blocks);
	args->kernel = kernel;
	FT_TRY(side->result.ops->to(side->result.addr, result, size));
	ret = xpu_launch(args, (unsigned int) args->blocks, threads, side->device);
	if (!ret)
		ret = xpu_join(side->device);
	FT_CHECK(!ret, "kernel %d: the GPU says %d", kernel, ret);
	FT_TRY(side->result.ops->from(result, side->result.addr, size));
	for (uint64_t i = 0; i < args->blocks && !results; i++)
		FT_CHECK(!result[i], "kernel %d: block %" PRIu64 " failed with %" PRIu64,
			 kernel, i, result[i]);
	if (results)
		memcpy(results, result, size);
	ft_progress_note();
	return 0;
}
