/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_xpu: kernels post operations and wait for them (rdma/fi_p2p_xpu_device.h). Two ranks run the
 * same kernel, or one sends and the other receives; then all bytes are compared. Without -D, threads
 * of the host are the kernels.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ft_test.h"
#include "xpu_kernels.h"

#define BLOCKS 6
#define COUNT 5
#define LARGEST ((size_t) 100003)
#define SIGNALS 64
#define WAIT_MS 60000

/**
 * struct side - one of the ranks.
 * @out, @in:	what is written, and what the peer writes to
 * @signal:	words that the peer sets
 * @result:	a word for each block
 */
struct side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	struct fi_p2p_xpu_ops *xpu;
	struct fid_xpu_ctx *xpu_ctx;
	struct fid_cntr *tx, *rx;
	struct ft_buf out, in, signal, result;
	struct xpu_args args;
	int device;
};

/* What the other side has to know */
struct shared {
	uint64_t in, in_key, signal, signal_key;
};

/* ---- opening ---- */

static int open_cntr(struct ft_ctx *ctx, uint64_t flags, struct fid_cntr **cntr)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
	int ret = fi_cntr_open(ctx->domain, &attr, cntr, NULL);

	if (ret)
		return ft_fail(ret, "fi_cntr_open", "counter");
	ret = fi_ep_bind(ctx->ep, &(*cntr)->fid, flags);
	return ret ? ft_fail(ret, "fi_ep_bind", "counter") : 0;
}

static int open_cntrs(struct ft_ctx *ctx)
{
	struct side *side = ctx->test;

	FT_TRY(open_cntr(ctx, FI_SEND | FI_WRITE, &side->tx));
	return open_cntr(ctx, FI_RECV | FI_READ, &side->rx);
}

static int open_xpu(struct side *side)
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

static int export_all(struct side *side, uint64_t flags)
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

static int raw(struct side *side)
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

static int target(struct side *side, const struct ft_buf *buf, uint64_t addr, uint64_t key,
		  uint32_t *number)
{
	const struct fi_p2p_xpu_target target = {
		.buf = buf->addr,
		.desc = buf->desc,
		.dest_addr = side->ctx.peer[!side->proc->rank],
		.addr = addr,
		.key = key,
	};
	int ret = side->xpu->target_add(side->ctx.ep, &target, number);

	return ret ? ft_fail(ret, "target_add", "target") : 0;
}

/* Tells the peer where it may write, and learns the same. */
static int share(struct side *side)
{
	const int fd = side->proc->fd[!side->proc->rank];
	struct shared mine, theirs;

	FT_TRY(ft_buf_share(&side->ctx, &side->in, FI_REMOTE_READ | FI_REMOTE_WRITE));
	FT_TRY(ft_buf_share(&side->ctx, &side->signal, FI_REMOTE_READ | FI_REMOTE_WRITE));
	mine = (struct shared){side->in.base, side->in.key, side->signal.base,
			       side->signal.key};
	FT_TRY(ft_oob_send(fd, &mine, sizeof(mine)));
	FT_TRY(ft_oob_recv(fd, &theirs, sizeof(theirs), side->proc->opts.timeout));
	side->args.there = theirs.in;
	side->args.key = theirs.in_key;
	FT_TRY(target(side, &side->out, theirs.in, theirs.in_key, &side->args.target));
	return target(side, &side->out, theirs.signal, theirs.signal_key,
		      &side->args.signal_target);
}

/* Kernels that wait for each other had better run at the same time: each rank has a GPU of its own. */
static int choose_device(struct ft_proc *proc)
{
	int count = 1;

	if (proc->opts.iface == FI_HMEM_CUDA)
		FT_TRY(ft_cuda_devices(&count));
	if (proc->rank < count)
		proc->opts.device = proc->rank;
	return 0;
}

static int side_open(struct side *side, struct ft_proc *proc, uint64_t flags)
{
	const enum fi_hmem_iface iface = proc->opts.iface;
	const size_t len = BLOCKS * COUNT * LARGEST;

	side->proc = proc;
	FT_TRY(choose_device(proc));
	side->device = iface == FI_HMEM_SYSTEM ? -1 : proc->opts.device;
	FT_TRY(ft_test_hints(proc, &side->ctx));
	side->ctx.hints->caps |= FI_RMA | FI_ATOMIC;
	side->ctx.hints->domain_attr->threading = FI_THREAD_SAFE;
	side->ctx.cq_flags = FI_SELECTIVE_COMPLETION;
	side->ctx.mr_access = FI_READ | FI_WRITE;
	side->ctx.prepare = open_cntrs;
	side->ctx.test = side;
	FT_TRY(ft_test_open(proc, &side->ctx));
	FT_TRY(ft_test_connect(proc, &side->ctx));
	FT_TRY(ft_buf_alloc(&side->ctx, &side->out, iface, len));
	FT_TRY(ft_buf_alloc(&side->ctx, &side->in, iface, len));
	FT_TRY(ft_buf_alloc(&side->ctx, &side->signal, iface, SIGNALS * sizeof(uint64_t)));
	FT_TRY(ft_buf_alloc(&side->ctx, &side->result, iface, BLOCKS * sizeof(uint64_t)));
	FT_TRY(open_xpu(side));
	FT_TRY(export_all(side, flags));
	FT_TRY(raw(side));
	FT_TRY(share(side));
	side->args.buf = side->out.addr;
	side->args.in = side->in.addr;
	side->args.signal = (uint64_t *) side->signal.addr;
	side->args.result = (uint64_t *) side->result.addr;
	side->args.timeout = WAIT_MS;
	side->args.scope = FI_XPU_WORK_GROUP;
	side->args.first = !proc->rank;
	return 0;
}

static int side_close(struct side *side)
{
	FT_TRY(fi_close(&side->ctx.ep->fid));
	side->ctx.ep = NULL;
	FT_TRY(fi_close(&side->tx->fid));
	FT_TRY(fi_close(&side->rx->fid));
	ft_buf_free(&side->out);
	ft_buf_free(&side->in);
	ft_buf_free(&side->signal);
	ft_buf_free(&side->result);
	FT_TRY(fi_close(&side->xpu_ctx->fid));
	return ft_close(&side->ctx);
}

/* ---- scenes ---- */

static unsigned char *scratch; /* BLOCKS * COUNT * LARGEST bytes */

static int fill(struct side *side, struct ft_buf *buf, size_t len, int value)
{
	memset(scratch, value, len);
	return buf->ops->to(buf->addr, scratch, len);
}

/* What @rank has for message @i of @block, in each byte */
static unsigned char content(int rank, uint64_t block, uint64_t i)
{
	return (unsigned char) (i + 1 + block + (uint64_t) !rank);
}

static int fill_out(struct side *side)
{
	const struct xpu_args *args = &side->args;

	for (uint64_t i = 0; i < args->blocks * args->count; i++)
		memset(scratch + i * args->len,
		       content(side->proc->rank, i / args->count, i % args->count), args->len);
	return side->out.ops->to(side->out.addr, scratch,
				 args->blocks * args->count * args->len);
}

static int check(struct side *side, const struct ft_buf *buf, const char *what)
{
	const struct xpu_args *args = &side->args;
	const size_t len = args->blocks * args->count * args->len;

	FT_TRY(buf->ops->from(scratch, buf->addr, len));
	for (size_t at = 0; at < len; at++) {
		const uint64_t i = at / args->len;
		const unsigned char expected =
			content(!side->proc->rank, i / args->count, i % args->count);

		FT_CHECK(scratch[at] == expected,
			 "%s: byte %zu of message %" PRIu64 " is 0x%02x, not 0x%02x", what,
			 at % args->len, i, scratch[at], expected);
	}
	return 0;
}

static int run_kernel(struct side *side, enum xpu_kernel kernel, unsigned int threads)
{
	struct xpu_args *args = &side->args;
	uint64_t result[BLOCKS] = {0};
	int ret;

	args->kernel = kernel;
	FT_TRY(side->result.ops->to(side->result.addr, result, sizeof(result)));
	ret = xpu_launch(args, (unsigned int) args->blocks, threads, side->device);
	if (!ret)
		ret = xpu_join(side->device);
	FT_CHECK(!ret, "kernel %d: the GPU says %d", kernel, ret);
	FT_TRY(side->result.ops->from(result, side->result.addr, sizeof(result)));
	for (uint64_t i = 0; i < args->blocks; i++)
		FT_CHECK(!result[i], "kernel %d: block %" PRIu64 " failed with %" PRIu64,
			 kernel, i, result[i]);
	ft_progress_note();
	return 0;
}

static int scene_begin(struct side *side, uint64_t count, size_t len)
{
	struct xpu_args *args = &side->args;

	args->blocks = BLOCKS;
	args->count = count;
	args->len = len;
	args->base = fi_cntr_read(side->tx);
	FT_TRY(fill(side, &side->in, BLOCKS * count * len, 0xee));
	FT_TRY(fill(side, &side->signal, SIGNALS * sizeof(uint64_t), 0));
	FT_TRY(fill_out(side));
	return ft_meet(side->proc);
}

static int scene_writes(struct side *side, size_t len, unsigned int threads)
{
	static const enum xpu_kernel kernels[] = {XPU_WRITE, XPU_PUT, XPU_SIGNAL};

	for (size_t i = 0; i < FT_COUNT(kernels); i++) {
		FT_TRY(scene_begin(side, COUNT, len));
		FT_TRY(run_kernel(side, kernels[i], threads));
		FT_TRY(ft_meet(side->proc));
		FT_TRY(check(side, &side->in, "written"));
	}
	return 0;
}

static int scene_messages(struct side *side, size_t len, unsigned int threads)
{
	for (int sender = 0; sender < 2; sender++) {
		FT_TRY(scene_begin(side, COUNT, len));
		side->args.buf = sender == side->proc->rank ? side->out.addr : side->in.addr;
		FT_TRY(run_kernel(side, sender == side->proc->rank ? XPU_SEND : XPU_RECV,
				  threads));
		side->args.buf = side->out.addr;
		FT_TRY(ft_meet(side->proc));
		if (sender != side->proc->rank)
			FT_TRY(check(side, &side->in, "received"));
	}
	return 0;
}

/* Until what the peer's kernel has added is there */
static int await_word(struct side *side, const struct ft_buf *buf, uint64_t value)
{
	uint64_t word = 0;

	do {
		FT_TRY(buf->ops->from(&word, buf->addr, sizeof(word)));
		FT_TRY(ft_idle(&side->ctx));
	} while (word < value);
	FT_CHECK(word == value, "a word is %" PRIu64 ", not %" PRIu64, word, value);
	return ft_meet(side->proc);
}

static int scene_atomics(struct side *side, unsigned int threads)
{
	size_t most;

	/* where the core has none for host memory, there are none */
	if (fi_atomicvalid(side->ctx.ep, FI_UINT64, FI_SUM, &most))
		return 0;
	FT_TRY(scene_begin(side, COUNT, 16));
	FT_TRY(run_kernel(side, XPU_ADD, threads));
	FT_TRY(await_word(side, &side->signal, BLOCKS * COUNT));
	FT_TRY(scene_begin(side, COUNT, 16));
	FT_TRY(fill(side, &side->in, sizeof(uint64_t), 0));
	FT_TRY(ft_meet(side->proc));
	side->args.base = fi_cntr_read(side->rx);
	FT_TRY(run_kernel(side, XPU_FETCH, threads));
	return await_word(side, &side->in, BLOCKS * COUNT);
}

static int scene_errors(struct side *side, unsigned int threads)
{
	/* with host memory a core may end the connection */
	const enum xpu_kernel last = side->device < 0 ? XPU_NOBODY : XPU_WRONG;

	for (int kernel = XPU_NOBODY; kernel >= (int) last; kernel--) {
		FT_TRY(scene_begin(side, 1, 16));
		side->args.blocks = 1;
		FT_TRY(run_kernel(side, (enum xpu_kernel) kernel, threads));
		FT_TRY(ft_meet(side->proc));
	}
	return 0;
}

static int scene_counter(struct side *side, unsigned int threads)
{
	int ret;

	FT_TRY(scene_begin(side, 200, 16));
	side->args.blocks = 1;
	FT_TRY(run_kernel(side, XPU_COUNT, threads));
	side->args.kernel = XPU_WAIT;
	FT_TRY(xpu_launch(&side->args, 1, threads, side->device));
	ret = side->xpu->unexport(side->xpu_ctx, &side->args.rx.fid);
	FT_CHECK(!ret, "unexport: %d", ret);
	FT_CHECK(side->xpu->unexport(side->xpu_ctx, &side->args.rx.fid) == -FI_EINVAL,
		 "a counter is exported no more, twice");
	FT_CHECK(!xpu_join(side->device), "a kernel that waits");
	return ft_meet(side->proc);
}

static int scenes(struct ft_proc *proc, uint64_t flags)
{
	static const size_t lens[] = {1, 8, 4096, LARGEST};
	const unsigned int threads = proc->opts.iface == FI_HMEM_SYSTEM || flags ? 1 : 4;
	struct side side = {0};

	FT_TRY(side_open(&side, proc, flags));
	for (size_t i = 0; i < FT_COUNT(lens); i++) {
		FT_TRY(scene_writes(&side, lens[i], threads));
		FT_TRY(scene_messages(&side, lens[i], threads));
	}
	FT_TRY(scene_atomics(&side, threads));
	FT_TRY(scene_errors(&side, threads));
	FT_TRY(scene_counter(&side, threads));
	return side_close(&side);
}

static int run(struct ft_proc *proc)
{
	scratch = malloc(BLOCKS * COUNT * LARGEST);
	if (!scratch)
		return -FI_ENOMEM;
	FT_TRY(scenes(proc, 0));
	FT_TRY(ft_meet(proc));
	/* not where blocks share rings */
	if (!getenv("FI_P2P_XPU_RINGS"))
		FT_TRY(scenes(proc, FI_P2P_XPU_EXCLUSIVE));
	free(scratch);
	return 0;
}

int main(int argc, char **argv)
{
	const struct ft_test test = {
		.purpose = "GPU kernels that send, receive, write, read and wait.",
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
