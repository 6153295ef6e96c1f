/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_hostfunc: a host function of a CUDA stream transfers GPU memory. The driver serves no call there. Messages, and writes
 * to the peer, are posted before or in the function. In either case they end in it, at both ends.
 */
#include <stdlib.h>
#include <string.h>

#include "ft_test.h"
#include "dev/p2p_cuda_abi.h"

#define LARGEST ((size_t) 1 << 20)

static const size_t sizes[] = {8, 4096, 65536, LARGEST};

static struct {
	CUresult (*launch)(CUstream stream, void (*function)(void *arg), void *arg);
	CUresult (*stream_create)(CUstream *stream, unsigned int flags);
	CUresult (*stream_sync)(CUstream stream);
	CUresult (*stream_destroy)(CUstream stream);
} cuda;

static const struct ft_symbol symbols[] = {
	{"cuLaunchHostFunc", &cuda.launch},
	{"cuStreamCreate", &cuda.stream_create},
	{"cuStreamSynchronize", &cuda.stream_sync},
	{"cuStreamDestroy_v2", &cuda.stream_destroy},
};

struct name {
	uint64_t base, key;
};

/**
 * struct side - rank 1 gives what is in its @buf, rank 0 gets it into its own, the @target
 * @host:	what that is, or was
 * @len, @written, @within: of this round: how much; as a write, or as a message; posted in the host function
 */
struct side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	struct ft_buf buf;
	struct name target;
	CUstream stream;
	unsigned char *host;
	uint64_t round;
	size_t len;
	bool written, within;
	struct ft_req req;
	int ret;
};

static ssize_t post_write(struct side *s)
{
	const struct iovec iov = {s->buf.addr, s->len};
	const struct fi_rma_iov remote = {s->target.base, s->len, s->target.key};
	const struct fi_msg_rma msg = {&iov, &s->buf.desc, 1, s->ctx.peer[0], &remote,
				       1,    &s->req,      0};

	return fi_writemsg(s->ctx.ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE);
}

static int post(struct side *s)
{
	struct ft_op op = {
		.call = s->proc->rank == 1 ? FT_SEND : FT_RECV,
		.tagged = true,
		.addr = s->ctx.peer[!s->proc->rank],
		.tag = s->round,
		.req = &s->req,
	};
	ssize_t ret;

	if (!s->written) {
		ft_op_buf(&op, &s->buf, 0, s->len);
		op.desc[0] = NULL;
		return ft_post(&s->ctx, &op);
	}
	if (s->proc->rank == 0)
		return 0;
	while ((ret = post_write(s)) == -FI_EAGAIN) {
		if (ft_progress(&s->ctx) < 0)
			return -FI_EOTHER;
	}
	return ret ? ft_fail((int) ret, "fi_writemsg", "%zu bytes", s->len) : 0;
}

static int in_host_function(struct side *s)
{
	if (s->within)
		FT_TRY(post(s));
	if (!s->written || s->proc->rank == 1)
		FT_TRY(ft_wait(&s->ctx, &s->req, 1));
	return ft_barrier(s->proc, &s->ctx);
}

static void host_function(void *arg)
{
	struct side *s = arg;

	s->ret = in_host_function(s);
}

static int fill(struct side *s)
{
	ft_pattern_fill(s->host, LARGEST, 2 * s->round + (uint64_t) s->proc->rank);
	return s->buf.ops->to(s->buf.addr, s->host, LARGEST);
}

static int check(struct side *s)
{
	unsigned char *got = s->host + LARGEST;

	/* behind them is what was there before */
	ft_pattern_fill(s->host, LARGEST, 2 * s->round);
	ft_pattern_fill(s->host, s->len, 2 * s->round + 1);
	FT_TRY(s->buf.ops->from(got, s->buf.addr, LARGEST));
	for (size_t i = 0; i < LARGEST; i++)
		FT_CHECK(got[i] == s->host[i], "%zu bytes %s, posted %s: byte %zu is wrong",
			 s->len, s->written ? "written" : "sent",
			 s->within ? "in a host function" : "before", i);
	return 0;
}

static int play(struct side *s)
{
	s->round++;
	s->req = (struct ft_req){0};
	s->ret = -FI_EOTHER;
	FT_TRY(fill(s));
	FT_TRY(ft_barrier(s->proc, &s->ctx));
	if (!s->within)
		FT_TRY(post(s));
	FT_TRY(ft_cuda_check(cuda.launch(s->stream, host_function, s), "cuLaunchHostFunc"));
	FT_TRY(ft_cuda_check(cuda.stream_sync(s->stream), "cuStreamSynchronize"));
	FT_TRY(s->ret);
	return s->proc->rank == 0 ? check(s) : 0;
}

/* Rank 1 learns what rank 0 offers. */
static int offer(struct side *s)
{
	const int *fd = s->proc->fd;

	FT_TRY(ft_buf_share(&s->ctx, &s->buf, FI_REMOTE_WRITE));
	if (s->proc->rank == 1)
		return ft_oob_recv(fd[0], &s->target, sizeof(s->target), s->proc->opts.timeout);
	s->target = (struct name){s->buf.base, s->buf.key};
	return ft_oob_send(fd[1], &s->target, sizeof(s->target));
}

static int play_all(struct side *s)
{
	bool writes;

	FT_TRY(ft_test_hints(s->proc, &s->ctx));
	s->ctx.hints->caps |= FI_RMA;
	if (!ft_offered(&s->ctx))
		s->ctx.hints->caps &= ~FI_RMA;
	FT_TRY(ft_test_open(s->proc, &s->ctx));
	FT_TRY(ft_test_connect(s->proc, &s->ctx));
	FT_TRY(ft_buf_alloc(&s->ctx, &s->buf, FI_HMEM_CUDA, LARGEST));
	FT_TRY(ft_load("libcuda.so.1", symbols, FT_COUNT(symbols)));
	FT_TRY(ft_cuda_check(cuda.stream_create(&s->stream, CU_STREAM_NON_BLOCKING),
			     "cuStreamCreate"));
	writes = ft_is_p2p(&s->ctx) && s->ctx.info->caps & FI_RMA;
	if (writes)
		FT_TRY(offer(s));
	for (size_t i = 0; i < 4 * FT_COUNT(sizes); i++) {
		s->len = sizes[i / 4];
		s->written = i & 2;
		s->within = i & 1;
		if (!s->written || writes)
			FT_TRY(play(s));
	}
	FT_TRY(ft_cuda_check(cuda.stream_destroy(s->stream), "cuStreamDestroy"));
	ft_buf_free(&s->buf);
	return ft_close(&s->ctx);
}

static int run(struct ft_proc *proc)
{
	struct side s = {.proc = proc};
	int ret;

	if (proc->opts.iface != FI_HMEM_CUDA)
		return ft_skip("for CUDA memory (-D cuda)");
	s.host = malloc(2 * LARGEST);
	if (!s.host)
		return ft_fail(-FI_ENOMEM, "malloc", "%zu bytes", 2 * LARGEST);
	ret = play_all(&s);
	free(s.host);
	return ret;
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Host functions of streams transfer GPU memory.",
		.ranks = 2,
		.connects = true,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
