/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A rank whose streams communicate. See stream_side.h. */
#include "stream_side.h"

static int open_cntrs(struct ft_ctx *ctx)
{
	struct stream_side *side = ctx->test;
	const uint64_t reads = side->tx_reads ? FI_READ : 0;

	FT_TRY(ft_cntr_open(ctx, FI_WAIT_NONE, FI_SEND | FI_WRITE | reads, &side->tx));
	return ft_cntr_open(ctx, FI_WAIT_NONE, FI_RECV | (FI_READ & ~reads), &side->rx);
}

int stream_side_swap(struct stream_side *side, const void *mine, void *theirs, size_t len)
{
	const int fd = side->proc->fd[!side->proc->rank];

	FT_TRY(ft_oob_send(fd, mine, len));
	return ft_oob_recv(fd, theirs, len, side->proc->opts.timeout);
}

int stream_side_open(struct stream_side *side, struct ft_proc *proc, size_t size)
{
	uint64_t mine[2], theirs[2];

	side->proc = proc;
	FT_TRY(ft_test_own_device(proc));
	FT_TRY(cu_load());
	FT_TRY(ft_test_hints(proc, &side->ctx));
	side->ctx.hints->caps |= FI_RMA | side->caps;
	side->ctx.hints->domain_attr->threading = FI_THREAD_SAFE;
	side->ctx.cq_flags = FI_SELECTIVE_COMPLETION;
	side->ctx.mr_access = FI_READ | FI_WRITE;
	side->ctx.prepare = open_cntrs;
	side->ctx.test = side;
	FT_TRY(ft_test_open(proc, &side->ctx));
	FT_TRY(ft_test_connect(proc, &side->ctx));
	side->peer = side->ctx.peer[!proc->rank];
	FT_TRY(ft_buf_alloc(&side->ctx, &side->out, FI_HMEM_CUDA, size));
	FT_TRY(ft_buf_alloc(&side->ctx, &side->in, FI_HMEM_CUDA, size));
	CU(stream_create(&side->stream, CU_NON_BLOCKING));
	FT_TRY(ft_buf_share(&side->ctx, &side->in, FI_REMOTE_READ | FI_REMOTE_WRITE));
	mine[0] = side->in.base;
	mine[1] = side->in.key;
	FT_TRY(stream_side_swap(side, mine, theirs, sizeof(mine)));
	side->there = theirs[0];
	side->key = theirs[1];
	return 0;
}

int stream_side_end(struct stream_side *side)
{
	CU(synchronize(side->stream));
	FT_TRY(fi_close(&side->ctx.ep->fid));
	side->ctx.ep = NULL;
	FT_TRY(fi_close(&side->tx->fid));
	FT_TRY(fi_close(&side->rx->fid));
	ft_buf_free(&side->out);
	ft_buf_free(&side->in);
	return 0;
}
