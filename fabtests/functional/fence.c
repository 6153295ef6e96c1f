/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_fence: an operation with FI_FENCE begins when all that was posted before it to its peer has ended. So who sees
 * a fenced signal sees what was written before it; a read before a fenced write gives the bytes before; and the
 * completions come in that order. For all kinds of memory at both ends, of all lengths, by every kind of operation.
 *
 * Rank 0 posts, rank 1 owns the memory. Over the hook the core keeps its own fences, or has none: there what is ours
 * must have ended.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ft_test.h"

#define LARGEST 300000
#define RESULT LARGEST /* where a read puts its bytes in the local buffer */
#define ONE (2 * LARGEST)
#define TAG 0x51

static const size_t sizes[] = {64, 20000, LARGEST};

/* What comes before the fence, and what is fenced */
enum before { WRITE, READ, INJECT, SEND, BEFORES };
enum fenced { FENCED_WRITE, FENCED_SUM, FENCED_FETCH, FENCED };

static const char *const before_names[] = {"a write", "a read", "an injected write", "a send"};
static const char *const fenced_names[] = {"a write", "a sum", "a fetched sum"};

struct target {
	uint64_t key, base;
};

struct side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	size_t kinds;
	bool atomics;
	struct ft_buf local[2], data[2], signal[2]; /* by kind: host, device */
	struct target data_at[2], signal_at[2];
	uint64_t number;
};

struct test_case {
	enum before before;
	enum fenced fenced;
	size_t from, to, signal, len;
};

/* ---- posting ---- */

static ssize_t post_before(struct side *s, const struct test_case *c, struct ft_req *req)
{
	struct ft_buf *local = &s->local[c->from];
	const struct target *to = &s->data_at[c->to];
	const fi_addr_t peer = s->ctx.peer[1];
	char bytes[64];

	switch (c->before) {
	case WRITE:
		return fi_write(s->ctx.ep, local->addr, c->len, local->desc, peer, to->base,
				to->key, req);
	case READ:
		return fi_read(s->ctx.ep, (char *) local->addr + RESULT, c->len, local->desc,
			       peer, to->base, to->key, req);
	case INJECT:
		ft_pattern_fill(bytes, sizeof(bytes), s->number);
		return fi_inject_write(s->ctx.ep, bytes, sizeof(bytes), peer, to->base,
				       to->key);
	default:
		return fi_tsend(s->ctx.ep, local->addr, c->len, local->desc, peer, TAG, req);
	}
}

/* A read comes before a write of the same memory, all else before one of the signal. */
static ssize_t post_write(struct side *s, const struct test_case *c, struct ft_req *req)
{
	const bool read = c->before == READ;
	const struct target *to = read ? &s->data_at[c->to] : &s->signal_at[c->signal];
	const struct iovec iov = {
		(char *) s->local[c->from].addr + (read ? 0 : ONE),
		read ? c->len : sizeof(uint64_t),
	};
	const struct fi_rma_iov remote = {to->base, iov.iov_len, to->key};
	const struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &s->local[c->from].desc,
		.iov_count = 1,
		.addr = s->ctx.peer[1],
		.rma_iov = &remote,
		.rma_iov_count = 1,
		.context = req,
	};

	return fi_writemsg(s->ctx.ep, &msg, FI_FENCE | FI_COMPLETION);
}

static ssize_t post_fenced(struct side *s, const struct test_case *c, struct ft_req *req)
{
	char *local = (char *) s->local[c->from].addr;
	const struct target *to = &s->signal_at[c->signal];
	const struct fi_ioc one = {local + ONE, 1};
	struct fi_ioc result = {local + ONE + 64, 1};
	const struct fi_rma_ioc remote = {to->base, 1, to->key};
	const struct fi_msg_atomic msg = {
		.msg_iov = &one,
		.desc = &s->local[c->from].desc,
		.iov_count = 1,
		.addr = s->ctx.peer[1],
		.rma_iov = &remote,
		.rma_iov_count = 1,
		.datatype = FI_UINT64,
		.op = FI_SUM,
		.context = req,
	};

	if (c->fenced == FENCED_WRITE)
		return post_write(s, c, req);
	if (c->fenced == FENCED_SUM)
		return fi_atomicmsg(s->ctx.ep, &msg, FI_FENCE | FI_COMPLETION);
	return fi_fetch_atomicmsg(s->ctx.ep, &msg, &result, &s->local[c->from].desc, 1,
				  FI_FENCE | FI_COMPLETION);
}

static int post(struct side *s, const struct test_case *c, struct ft_req *req,
		ssize_t (*call)(struct side *, const struct test_case *, struct ft_req *))
{
	ssize_t ret;

	while ((ret = call(s, c, req)) == -FI_EAGAIN) {
		int n = ft_progress(&s->ctx);

		if (n < 0)
			return n;
		if (!n)
			FT_TRY(ft_idle(&s->ctx));
	}
	return ret ? ft_fail((int) ret, "post", "the operation is refused") : 0;
}

/* Posts both, and waits for the second one alone. */
static int initiate(struct side *s, const struct test_case *c)
{
	const struct ft_mem_ops *ops = s->local[c->from].ops;
	char *local = s->local[c->from].addr;
	const uint64_t word = c->fenced == FENCED_WRITE ? s->number : 1;
	struct ft_req before = {.done = c->before == INJECT}, fenced = {0};
	unsigned char bytes[LARGEST], expected;
	ssize_t at;

	ft_pattern_fill(bytes, c->len, s->number);
	FT_TRY(ops->to(local, bytes, c->len));
	FT_TRY(ops->to(local + ONE, &word, sizeof(word)));
	FT_TRY(post(s, c, &before, post_before));
	FT_TRY(post(s, c, &fenced, post_fenced));
	FT_TRY(ft_wait(&s->ctx, &fenced, 1));
	FT_CHECK(before.done, "what is fenced has ended before what was posted before it");
	if (c->before != READ)
		return 0;
	/* these were there before the fenced write */
	FT_TRY(ops->from(bytes, local + RESULT, c->len));
	at = ft_pattern_diff(bytes, c->len, ~s->number, &expected);
	FT_CHECK(at < 0, "byte %zd that was read is %#x instead of %#x", at, bytes[at],
		 expected);
	return 0;
}

/* ---- the owner ---- */

static int signal_wait(struct side *s, const struct test_case *c)
{
	const struct ft_buf *signal = &s->signal[c->signal];
	uint64_t value;

	do {
		int n = ft_progress(&s->ctx);

		if (n < 0)
			return n;
		FT_TRY(ft_idle(&s->ctx));
		FT_TRY(signal->ops->from(&value, signal->addr, sizeof(value)));
	} while (value < s->number);
	FT_CHECK(value == s->number, "the signal is %" PRIu64 " instead of %" PRIu64, value,
		 s->number);
	return 0;
}

/* The data of a case at its owner: is it there? 1, 0 or an error */
static int data_holds(struct side *s, const struct test_case *c)
{
	const struct ft_slot slot = {&s->data[c->to], 0, c->len, 0, c->len};

	return ft_slot_holds(&slot, c->len, s->number);
}

static int own(struct side *s, const struct test_case *c)
{
	int ret;

	if (c->before != READ) {
		FT_TRY(signal_wait(s, c));
		if (c->before == SEND)
			return 0;
		ret = data_holds(s, c);
		FT_CHECK(ret, "the signal is here before the data");
		return ret < 0 ? ret : 0;
	}
	/* the core may have a write that has ended on its way; the next case uses the memory again */
	while (!(ret = data_holds(s, c))) {
		ret = ft_progress(&s->ctx);
		if (ret < 0)
			return ret;
		FT_TRY(ft_idle(&s->ctx));
	}
	return ret < 0 ? ret : 0;
}

/* What the owner has in place before: old data, the signal before this one, a receive */
static int prepare(struct side *s, const struct test_case *c, struct ft_req *recv)
{
	const struct ft_buf *data = &s->data[c->to], *signal = &s->signal[c->signal];
	const uint64_t last = s->number - 1;
	unsigned char bytes[LARGEST];
	struct ft_op op = {
		.call = FT_RECV,
		.tagged = true,
		.addr = FI_ADDR_UNSPEC,
		.tag = TAG,
		.req = recv,
	};

	ft_pattern_fill(bytes, c->len, ~s->number);
	FT_TRY(data->ops->to(data->addr, bytes, c->len));
	FT_TRY(signal->ops->to(signal->addr, &last, sizeof(last)));
	if (c->before != SEND)
		return 0;
	ft_op_buf(&op, &s->local[c->to], 0, c->len);
	return ft_post(&s->ctx, &op);
}

/* ---- cases ---- */

static bool left_out(const struct side *s, const struct test_case *c)
{
	if (c->fenced != FENCED_WRITE && !s->atomics)
		return true;
	if (c->fenced == FENCED_FETCH && c->before != WRITE)
		return true;
	/* whatever is fenced, the memory that was read is written next */
	if (c->before == READ && (c->fenced != FENCED_WRITE || c->signal))
		return true;
	if (c->before == INJECT && (c->len > s->ctx.info->tx_attr->inject_size || c->len > 64))
		return true;
	/* over the hook peers reach host memory only, and what the core does alone is not ours */
	return ft_hook_active() && (!c->from || c->to || c->signal || c->before == INJECT);
}

static int one(struct side *s, const struct test_case *c)
{
	struct ft_req recv = {.done = c->before != SEND};
	int ret = 0;

	if (left_out(s, c))
		return 0;
	s->number++;
	if (s->proc->rank == 1)
		ret = prepare(s, c, &recv);
	if (!ret)
		ret = ft_barrier(s->proc, &s->ctx);
	if (!ret)
		ret = s->proc->rank ? own(s, c) : initiate(s, c);
	if (!ret && s->proc->rank)
		ret = ft_wait(&s->ctx, &recv, 1);
	if (!ret)
		ret = ft_barrier(s->proc, &s->ctx);
	if (ret)
		ft_err("%s of %zu bytes from %s to %s memory, then %s, fenced, to %s memory",
		       before_names[c->before], c->len, s->local[c->from].ops->name,
		       s->data[c->to].ops->name, fenced_names[c->fenced],
		       s->signal[c->signal].ops->name);
	return ret;
}

static int all(struct side *s)
{
	const size_t kinds = s->kinds;
	const size_t count = BEFORES * FENCED * FT_COUNT(sizes) * kinds * kinds * kinds;

	for (size_t i = 0; i < count; i++) {
		struct test_case c;
		size_t rest = i;

		c.from = rest % kinds;
		rest /= kinds;
		c.to = rest % kinds;
		rest /= kinds;
		c.signal = rest % kinds;
		rest /= kinds;
		c.len = sizes[rest % FT_COUNT(sizes)];
		rest /= FT_COUNT(sizes);
		c.fenced = rest % FENCED;
		c.before = rest / FENCED;
		FT_TRY(one(s, &c));
	}
	return 0;
}

static int share(struct side *s, struct ft_buf *buf, enum fi_hmem_iface iface, size_t size,
		 struct target *target)
{
	FT_TRY(ft_buf_alloc(&s->ctx, buf, ft_hook_active() ? FI_HMEM_SYSTEM : iface, size));
	FT_TRY(ft_buf_share(&s->ctx, buf, FI_REMOTE_READ | FI_REMOTE_WRITE));
	*target = (struct target){buf->key, buf->base};
	return 0;
}

/* The caps that are asked for: over the hook it is the core's to have FI_FENCE. 0, an error or FT_SKIP */
static int ask(struct side *s)
{
	FT_TRY(ft_test_hints(s->proc, &s->ctx));
	s->ctx.hints->caps |= FI_RMA | FI_ATOMIC;
	if (!ft_offered(&s->ctx))
		s->ctx.hints->caps &= ~FI_ATOMIC;
	if (ft_hook_active() && !ft_offered(&s->ctx)) {
		FT_TRY(ft_close(&s->ctx));
		return ft_skip("%s has no remote memory", s->proc->opts.prov);
	}
	if (!ft_hook_active())
		s->ctx.hints->caps |= FI_FENCE;
	return 0;
}

static int run(struct ft_proc *proc)
{
	struct side s = {.proc = proc};
	enum fi_hmem_iface ifaces[2];
	size_t most;

	s.kinds = ft_kinds(&proc->opts, ifaces);
	FT_TRY(ask(&s));
	FT_TRY(ft_test_open(proc, &s.ctx));
	FT_CHECK(ft_hook_active() || s.ctx.info->caps & s.ctx.info->tx_attr->caps & FI_FENCE,
		 "FI_FENCE was asked for, and is not offered");
	s.atomics = s.ctx.info->caps & FI_ATOMIC &&
		    !fi_atomicvalid(s.ctx.ep, FI_UINT64, FI_SUM, &most);
	FT_TRY(ft_test_connect(proc, &s.ctx));
	for (size_t i = 0; i < s.kinds; i++) {
		FT_TRY(ft_buf_alloc(&s.ctx, &s.local[i], ifaces[i], ONE + 128));
		FT_TRY(share(&s, &s.data[i], ifaces[i], LARGEST, &s.data_at[i]));
		FT_TRY(share(&s, &s.signal[i], ifaces[i], 64, &s.signal_at[i]));
	}
	for (int i = 0; i < 2; i++) {
		struct target *at = i ? s.signal_at : s.data_at;

		if (proc->rank)
			FT_TRY(ft_oob_send(proc->fd[0], at, sizeof(s.data_at)));
		else
			FT_TRY(ft_oob_recv(proc->fd[1], at, sizeof(s.data_at),
					   proc->opts.timeout));
	}
	FT_TRY(all(&s));
	for (size_t i = 0; i < s.kinds; i++) {
		ft_buf_free(&s.local[i]);
		ft_buf_free(&s.data[i]);
		ft_buf_free(&s.signal[i]);
	}
	return ft_close(&s.ctx);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Fenced operations begin when all before them have ended.",
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
