/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_owncontext: a program that has made its CUDA context itself (cuCtxCreate), and uses virtual memory, gets no
 * other context: no device's primary one is active while it sends, receives, and is written to. It destroys its
 * context, and has another one by then. The memory, its registration and what peers know of it are valid all the
 * same, as virtual memory belongs to no context.
 *
 * The library for buffers has a primary context while it is used. Afterwards it is gone, also where the provider has met
 * it. That is tried with the library before all messages, and behind them.
 */
#include <rdma/fi_p2p_buffer.h>

#include "cudamem.h"
#include "ft_test.h"

#define MOST ((size_t) 300001)

static const size_t sizes[] = {8, 4096, 20000, MOST};

/* @target: rank 0's virtual memory, which rank 1 writes to; @base and @key: its names for that */
struct side {
	struct ft_pair pair;
	struct ft_buf target;
	uint64_t base, key;
	uint64_t round;
};

static int expect_primaries(const char *when, int expected)
{
	int active;

	FT_TRY(ft_cuda_primaries(&active));
	FT_CHECK(active == expected, "%s, %d primary contexts are active, not %d", when, active,
		 expected);
	return 0;
}

static int wait_one(struct ft_pair *pair, struct ft_req *req)
{
	return ft_wait(&pair->ctx, req, 1);
}

static int messages(struct side *s)
{
	for (size_t i = 0; i < FT_COUNT(sizes); i++)
		for (size_t from = 0; from < 2; from++)
			for (size_t to = 0; to < 2; to++)
				FT_TRY(ft_pair_transfer(&s->pair, from, to, sizes[i], i % 2,
							wait_one));
	return 0;
}

/* Rank 0's memory, as rank 1 names it; none where the core reaches no device's memory */
static int share(struct side *s)
{
	struct ft_proc *proc = s->pair.proc;
	uint64_t names[2] = {0};

	if (!(s->pair.ctx.info->caps & FI_RMA) || !ft_is_p2p(&s->pair.ctx))
		return 0;
	if (proc->rank == 1) {
		FT_TRY(ft_oob_recv(proc->fd[0], names, sizeof(names), proc->opts.timeout));
	} else {
		FT_TRY(ft_buf_alloc_by(&s->pair.ctx, &s->target, &cudamem_vmm_plain, MOST));
		FT_TRY(ft_buf_share(&s->pair.ctx, &s->target, FI_REMOTE_WRITE));
		names[0] = s->target.base;
		names[1] = s->target.key;
		FT_TRY(ft_oob_send(proc->fd[1], names, sizeof(names)));
	}
	s->base = names[0];
	s->key = names[1];
	return 0;
}

static int write_part(struct side *s, size_t len)
{
	struct ft_buf *buf = &s->pair.buf[1];
	struct ft_req req = {0};
	struct iovec iov = {buf->addr, len};
	const struct fi_rma_iov remote = {s->base, len, s->key};
	const struct fi_msg_rma msg = {&iov, &buf->desc, 1, s->pair.peer, &remote, 1, &req, 0};
	char bytes[MOST];
	ssize_t ret;

	ft_pattern_fill(bytes, len, s->round);
	FT_TRY(buf->ops->to(buf->addr, bytes, len));
	while ((ret = fi_writemsg(s->pair.ctx.ep, &msg,
				  FI_COMPLETION | FI_DELIVERY_COMPLETE)) == -FI_EAGAIN) {
		if (ft_progress(&s->pair.ctx) < 0)
			return -FI_EOTHER;
	}
	return ret ? ft_fail((int) ret, "fi_writemsg", "%zu bytes", len)
		   : ft_wait(&s->pair.ctx, &req, 1);
}

static int check_part(struct side *s, size_t len)
{
	unsigned char expected;
	char bytes[MOST];
	ssize_t diff;

	FT_TRY(s->target.ops->from(bytes, s->target.addr, len));
	diff = ft_pattern_diff(bytes, len, s->round, &expected);
	FT_CHECK(diff < 0, "byte %zd of %zu that were written is wrong", diff, len);
	return 0;
}

static int writes(struct side *s)
{
	for (size_t i = 0; s->base && i < FT_COUNT(sizes); i++) {
		s->round++;
		if (s->pair.proc->rank == 1)
			FT_TRY(write_part(s, sizes[i]));
		FT_TRY(ft_barrier(s->pair.proc, &s->pair.ctx));
		if (s->pair.proc->rank == 0)
			FT_TRY(check_part(s, sizes[i]));
	}
	return 0;
}

/* Memory of the library's own, and virtual memory, which it names for peers */
static int buffers(struct side *s)
{
	struct p2p_buffer_context *context;
	struct p2p_buffer *wrapped, *own;
	int ret;

	if (!(s->pair.ctx.info->caps & FI_RMA))
		return 0;
	ret = p2p_buffer_context_open(s->pair.ctx.domain, s->pair.ctx.ep, s->pair.ctx.info,
				      &context);
	if (!ret)
		ret = p2p_buffer_wrap(context, s->pair.proc->opts.device, s->pair.buf[1].addr,
				      MOST, &wrapped);
	if (!ret)
		ret = p2p_buffer_alloc(context, s->pair.proc->opts.device, MOST, &own);
	if (ret)
		return ft_fail(ret, "p2p_buffer_wrap or _alloc", "see fi_p2p_buffer(3)");
	FT_TRY(expect_primaries("with a buffer", 1));
	/* meanwhile the provider meets that context */
	FT_TRY(messages(s));
	ret = p2p_buffer_release(wrapped);
	if (!ret)
		ret = p2p_buffer_release(own);
	if (!ret)
		ret = p2p_buffer_context_close(context);
	return ret ? ft_fail(ret, "p2p_buffer_release", "see fi_p2p_buffer(3)") : 0;
}

static int open_side(struct side *s, struct ft_proc *proc)
{
	struct ft_pair *pair = &s->pair;

	FT_TRY(ft_pair_hints(pair, proc));
	FT_TRY(ft_pair_open(pair, MOST));
	ft_buf_free(&pair->buf[1]);
	FT_TRY(cudamem_vmm_plain.init(proc->opts.device));
	return ft_buf_alloc_by(&pair->ctx, &pair->buf[1], &cudamem_vmm_plain, MOST + FT_ROOM);
}

static int close_side(struct side *s)
{
	FT_TRY(ft_barrier(s->pair.proc, &s->pair.ctx));
	if (s->target.addr)
		ft_buf_free(&s->target);
	FT_TRY(ft_pair_close(&s->pair, NULL, 0));
	return expect_primaries("when all is closed", 0);
}

static int play(struct ft_proc *proc, bool buffers_first)
{
	struct side s = {.round = 0};

	FT_TRY(open_side(&s, proc));
	if (buffers_first)
		FT_TRY(buffers(&s));
	FT_TRY(share(&s));
	for (int round = 0; round < 3; round++) {
		FT_TRY(messages(&s));
		FT_TRY(writes(&s));
		if (!buffers_first)
			FT_TRY(expect_primaries("behind messages", 0));
		/* one end after the other, and both */
		if (proc->rank == round || round == 2)
			FT_TRY(ft_cuda_own(proc->opts.device));
	}
	FT_TRY(messages(&s));
	FT_TRY(writes(&s));
	if (!buffers_first) {
		FT_TRY(buffers(&s));
		FT_TRY(expect_primaries("without buffers", 0));
	}
	return close_side(&s);
}

static int run(struct ft_proc *proc)
{
	if (proc->opts.iface != FI_HMEM_CUDA)
		return ft_skip("for CUDA memory (-D cuda)");
	FT_TRY(ft_cuda_own(proc->opts.device));
	FT_TRY(play(proc, false));
	return play(proc, true);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "A program with a CUDA context of its own gets no other one.",
		.ranks = 2,
		.connects = true,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
