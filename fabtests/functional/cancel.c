/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_cancel: fi_cancel() of receives, before and while their messages come. Each ends
 * once: with its message, whole, or with FI_ECANCELED and its buffer untouched; and a
 * message whose receive was cancelled goes to the next one. Receives directed at one of two
 * senders get that one's messages.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "ft_test.h"

#define EAGER_SIZE "4096" /* FI_P2P_EAGER_SIZE: what is longer is announced */
#define LARGEST 300000
#define RECEIVES 4
#define SENDERS 2
#define RECEIVER 1

static const size_t sizes[] = {1, 4096, 4097, 65537, LARGEST};

/* Over connections there is only the first sender. */
struct side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	struct ft_buf buf[2]; /* by kind: host, device */
};

struct test_case {
	size_t from, to, size;
	bool tagged;
	bool late; /* cancelled when the messages are under way */
	uint64_t key;
};

/* What @rank is among the senders */
static int sender(int rank)
{
	return rank > RECEIVER ? rank - 1 : rank;
}

static struct ft_slot place(const struct side *s, const struct test_case *c, size_t i)
{
	const size_t room = LARGEST + FT_ROOM;

	return (struct ft_slot){&s->buf[c->to], i * room, c->size + FT_ROOM, i * room + 64,
				c->size};
}

static int post_recv(struct side *s, const struct test_case *c, size_t i, fi_addr_t from,
		     struct ft_req *req)
{
	const struct ft_slot slot = place(s, c, i);
	struct ft_op op = {
		.call = FT_RECV,
		.tagged = c->tagged,
		.addr = from,
		.tag = c->key,
		.req = req,
	};

	FT_TRY(ft_slot_arm(&slot));
	ft_op_buf(&op, slot.buf, slot.off, slot.len);
	return ft_post(&s->ctx, &op);
}

/* @count messages, all alike but for their keys */
static int send_all(struct side *s, const struct test_case *c, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct ft_slot slot = {&s->buf[c->from], 0, c->size, 0, c->size};
		struct ft_req req = {0};
		struct ft_op op = {
			.call = FT_SEND,
			.tagged = c->tagged,
			.addr = s->ctx.peer[RECEIVER],
			.tag = c->key,
			.req = &req,
		};

		FT_TRY(ft_slot_fill(&slot,
				    c->key + SENDERS * i + (uint64_t) sender(s->proc->rank)));
		ft_op_buf(&op, slot.buf, slot.off, slot.len);
		FT_TRY(ft_post(&s->ctx, &op));
		FT_TRY(ft_wait(&s->ctx, &req, 1));
	}
	return 0;
}

/* What became of receive @i: *@got counts those that have their message. */
static int judge(struct side *s, const struct test_case *c, struct ft_req *req, size_t i,
		 size_t *got)
{
	const struct ft_slot slot = place(s, c, i);

	if (!req->err)
		return ft_slot_check(&slot, c->size, c->key + SENDERS * (*got)++,
				     "a receive that fi_cancel() came too late for");
	FT_CHECK(abs(req->err) == FI_ECANCELED, "a cancelled receive ended with %s",
		 fi_strerror(abs(req->err)));
	return ft_slot_check(&slot, 0, 0, "a cancelled receive");
}

static int cancel_recv(struct side *s, const struct test_case *c)
{
	struct ft_req req[RECEIVES] = {0}, again[RECEIVES] = {0};
	size_t got = 0, rest;

	for (size_t i = 0; i < RECEIVES; i++)
		FT_TRY(post_recv(s, c, i, FI_ADDR_UNSPEC, &req[i]));
	if (c->late)
		FT_TRY(ft_barrier(s->proc, &s->ctx));
	if (c->late)
		FT_TRY(ft_wait(&s->ctx, req, 1));
	for (size_t i = RECEIVES; i--;)
		FT_TRY(req[i].done ? 0 : (int) fi_cancel(&s->ctx.ep->fid, &req[i]));
	FT_TRY(ft_wait_any_result(&s->ctx, req, RECEIVES));
	for (size_t i = 0; i < RECEIVES; i++)
		FT_TRY(judge(s, c, &req[i], i, &got));
	FT_CHECK(c->late || !got, "%zu receives got a message that nobody has sent", got);
	if (!c->late)
		FT_TRY(ft_barrier(s->proc, &s->ctx));
	rest = RECEIVES - got;
	for (size_t i = 0; i < rest; i++)
		FT_TRY(post_recv(s, c, i, FI_ADDR_UNSPEC, &again[i]));
	FT_TRY(ft_wait(&s->ctx, again, rest));
	for (size_t i = 0; i < rest; i++)
		FT_TRY(judge(s, c, &again[i], i, &got));
	return 0;
}

static int cancel_case(struct side *s, const struct test_case *c)
{
	if (s->proc->rank == RECEIVER)
		return cancel_recv(s, c);
	FT_TRY(ft_barrier(s->proc, &s->ctx));
	return s->proc->rank == 0 ? send_all(s, c, RECEIVES) : 0;
}

/* The receives name the second sender first. */
static int directed_case(struct side *s, const struct test_case *c)
{
	struct ft_req req[SENDERS] = {0};

	if (s->proc->rank != RECEIVER) {
		FT_TRY(ft_barrier(s->proc, &s->ctx));
		return send_all(s, c, 1);
	}
	for (size_t i = 0; i < SENDERS; i++)
		FT_TRY(post_recv(s, c, i, s->ctx.peer[i ? 0 : RECEIVER + 1], &req[i]));
	FT_TRY(ft_barrier(s->proc, &s->ctx));
	FT_TRY(ft_wait(&s->ctx, req, SENDERS));
	for (size_t i = 0; i < SENDERS; i++) {
		const struct ft_slot slot = place(s, c, i);

		FT_TRY(ft_slot_check(&slot, c->size, c->key + SENDERS - 1 - i,
				     "a directed receive"));
	}
	return 0;
}

static int one(struct side *s, const struct test_case *c)
{
	int ret = cancel_case(s, c);

	if (!ret)
		ret = ft_barrier(s->proc, &s->ctx);
	/* net and tcp heed the source of tagged receives only */
	if (!ret && c->tagged && ft_has_tags(&s->ctx))
		ret = directed_case(s, c);
	if (!ret)
		ret = ft_barrier(s->proc, &s->ctx);
	if (ret)
		ft_err("%zu bytes, %s%s to %s memory%s", c->size, c->tagged ? "tagged, " : "",
		       s->buf[c->from].ops->name, s->buf[c->to].ops->name,
		       c->late ? ", cancelled late" : "");
	return ret;
}

static int run(struct ft_proc *proc)
{
	struct side s = {.proc = proc};
	enum fi_hmem_iface kinds[2];
	const size_t kind_count = ft_kinds(&proc->opts, kinds);

	FT_TRY(ft_test_hints(proc, &s.ctx));
	FT_TRY(ft_test_open(proc, &s.ctx));
	FT_TRY(ft_test_connect(proc, &s.ctx));
	for (size_t i = 0; i < kind_count; i++)
		FT_TRY(ft_buf_alloc(&s.ctx, &s.buf[i], kinds[i],
				    RECEIVES * (LARGEST + FT_ROOM)));
	for (size_t i = 0; i < 4 * kind_count * kind_count * FT_COUNT(sizes); i++) {
		struct test_case c = {
			.tagged = i % 2,
			.late = i / 2 % 2,
			.from = i / 4 % kind_count,
			.to = i / 4 / kind_count % kind_count,
			.size = sizes[i / 4 / kind_count / kind_count],
			.key = (i + 1) * 100,
		};

		if (!proc->opts.quick || i / 4 / kind_count / kind_count % 2 == 0)
			FT_TRY(one(&s, &c));
	}
	for (size_t i = 0; i < kind_count; i++)
		ft_buf_free(&s.buf[i]);
	return ft_close(&s.ctx);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Cancelled receives, and directed ones.",
		.ranks = SENDERS + 1,
		.connects = true,
		.may_die = -1,
		.run = run,
	};

	setenv("FI_P2P_EAGER_SIZE", EAGER_SIZE, 1);
	return ft_test_main(&test, argc, argv);
}
