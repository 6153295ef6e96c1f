/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_itself: an endpoint that sends to itself, and reads and writes its own memory: between each two kinds
 * of memory, with lengths around the thresholds, before and after the receive is posted, and many at a time.
 * Not over shm, which loses such messages by itself.
 */
#include <inttypes.h>
#include <string.h>
#include <rdma/fi_rma.h>

#include "ft_test.h"

#define MANY 24
#define TAG 0x700
#define LARGEST ((size_t) 2097155)

static const size_t sizes[] = {0, 8, 4097, 20000, 70001, LARGEST};

/* @from, @to: by kind */
struct side {
	struct ft_ctx ctx;
	struct ft_buf from[2], to[2];
	size_t kind_count;
	fi_addr_t self;
};

static struct ft_op make(const struct side *s, enum ft_call call, const struct ft_slot *slot,
			 uint64_t tag, struct ft_req *req)
{
	struct ft_op op = {.call = call,
			   .tagged = true,
			   .addr = s->self,
			   .tag = tag,
			   .req = req};

	ft_op_buf(&op, slot->buf, slot->off, slot->len);
	return op;
}

static int message(struct side *s, size_t from, size_t to, size_t len, bool early)
{
	const struct ft_slot out = {&s->from[from], 0, len + FT_ROOM, 64, len};
	const struct ft_slot in = {&s->to[to], 0, len + FT_ROOM, 64, len};
	struct ft_req req[2] = {0};
	const struct ft_op send = make(s, FT_SEND, &out, TAG, &req[0]);
	const struct ft_op recv = make(s, FT_RECV, &in, TAG, &req[1]);

	FT_TRY(ft_slot_fill(&out, len));
	FT_TRY(ft_slot_arm(&in));
	FT_TRY(ft_post(&s->ctx, early ? &recv : &send));
	FT_TRY(ft_post(&s->ctx, early ? &send : &recv));
	FT_TRY(ft_wait(&s->ctx, req, 2));
	FT_CHECK(req[1].comp.len == len, "%zu bytes of %zu", req[1].comp.len, len);
	return ft_slot_check(&in, len, len, "a message to oneself");
}

static int messages(struct side *s)
{
	for (size_t i = 0; i < s->kind_count * s->kind_count * 2; i++)
		for (size_t n = 0; n < FT_COUNT(sizes); n++) {
			const size_t from = i / 2 % s->kind_count, to = i / 2 / s->kind_count;
			int ret = message(s, from, to, sizes[n], i % 2);

			if (ret) {
				ft_err("%zu bytes from %s to %s memory, receive posted %s",
				       sizes[n], s->from[from].ops->name, s->to[to].ops->name,
				       i % 2 ? "before" : "after");
				return ret;
			}
		}
	return 0;
}

/* All receives come after all sends, the last one first */
static int many(struct side *s, size_t from, size_t to)
{
	const size_t room = LARGEST / MANY;
	struct ft_req req[2 * MANY] = {0};
	struct ft_slot out[MANY], in[MANY];
	struct ft_op op;

	for (size_t i = 0; i < MANY; i++) {
		const size_t len = sizes[i % 5];

		out[i] = (struct ft_slot){&s->from[from], i * room, len, i * room, len};
		in[i] = (struct ft_slot){&s->to[to], i * room, len, i * room, len};
		FT_TRY(ft_slot_fill(&out[i], i));
		op = make(s, FT_SEND, &out[i], TAG + i, &req[i]);
		FT_TRY(ft_post(&s->ctx, &op));
	}
	for (size_t i = MANY; i--;) {
		FT_TRY(ft_slot_arm(&in[i]));
		op = make(s, FT_RECV, &in[i], TAG + i, &req[MANY + i]);
		FT_TRY(ft_post(&s->ctx, &op));
	}
	FT_TRY(ft_wait(&s->ctx, req, 2 * MANY));
	for (size_t i = 0; i < MANY; i++)
		FT_TRY(ft_slot_check(&in[i], in[i].len, i, "one of many messages to oneself"));
	return 0;
}

static int move(struct side *s, bool read, size_t local, size_t remote, size_t len)
{
	const struct ft_buf *const target = &s->to[remote];
	const struct ft_slot mine = {&s->from[local], 0, len + FT_ROOM, 64, len};
	const struct ft_slot there = {target, 0, len + FT_ROOM, 64, len};
	struct ft_req req = {0};
	void *const at = mine.buf->addr + mine.off;
	ssize_t ret;

	FT_TRY(ft_slot_fill(read ? &there : &mine, len));
	FT_TRY(ft_slot_arm(read ? &mine : &there));
	while ((ret = read ? fi_read(s->ctx.ep, at, len, mine.buf->desc, s->self,
				     target->base + 64, target->key, &req)
			   : fi_write(s->ctx.ep, at, len, mine.buf->desc, s->self,
				      target->base + 64, target->key, &req)) == -FI_EAGAIN)
		FT_TRY(ft_idle(&s->ctx));
	FT_CHECK(!ret, "%s: %s", read ? "fi_read" : "fi_write", fi_strerror((int) -ret));
	FT_TRY(ft_wait(&s->ctx, &req, 1));
	return ft_slot_check(read ? &mine : &there, len, len,
			     read ? "what was read" : "what was written");
}

static int remote(struct side *s)
{
	for (size_t i = 0; i < s->kind_count * s->kind_count; i++)
		for (size_t n = 1; n < FT_COUNT(sizes); n++) {
			const size_t local = i % s->kind_count, there = i / s->kind_count;

			for (int read = 1; read >= 0; read--) {
				int ret = move(s, read, local, there, sizes[n]);

				if (ret) {
					ft_err("%s of %zu bytes, %s and %s memory",
					       read ? "read" : "write", sizes[n],
					       s->from[local].ops->name,
					       s->to[there].ops->name);
					return ret;
				}
			}
		}
	return 0;
}

static int run(struct ft_proc *proc)
{
	struct side s = {.kind_count = 0};
	enum fi_hmem_iface kinds[2];
	struct ft_name name;

	s.kind_count = ft_kinds(&proc->opts, kinds);
	FT_TRY(ft_test_hints(proc, &s.ctx));
	s.ctx.hints->caps |= FI_RMA;
	s.ctx.hints->tx_attr->op_flags |= FI_DELIVERY_COMPLETE;
	if (!ft_offered(&s.ctx))
		s.ctx.hints->caps &= ~FI_RMA;
	FT_TRY(ft_test_open(proc, &s.ctx));
	if (!strncmp(s.ctx.info->fabric_attr->prov_name, "shm", 3)) {
		ft_close(&s.ctx);
		return ft_skip("shm loses what an endpoint sends to itself");
	}
	FT_TRY(ft_getname(&s.ctx, &name));
	FT_TRY(ft_av_insert(&s.ctx, name.bytes, &s.self));
	for (size_t i = 0; i < s.kind_count; i++) {
		FT_TRY(ft_buf_alloc(&s.ctx, &s.from[i], kinds[i], LARGEST + FT_ROOM));
		FT_TRY(ft_buf_alloc(&s.ctx, &s.to[i], kinds[i], LARGEST + FT_ROOM));
		if (s.ctx.info->caps & FI_RMA && (!i || ft_is_p2p(&s.ctx)))
			FT_TRY(ft_buf_share(&s.ctx, &s.to[i],
					    FI_REMOTE_READ | FI_REMOTE_WRITE));
	}
	FT_TRY(messages(&s));
	for (size_t i = 0; i < s.kind_count * s.kind_count; i++)
		FT_TRY(many(&s, i % s.kind_count, i / s.kind_count));
	if (s.ctx.info->caps & FI_RMA && ft_is_p2p(&s.ctx))
		FT_TRY(remote(&s));
	FT_TRY(fi_close(&s.ctx.ep->fid));
	s.ctx.ep = NULL;
	for (size_t i = 0; i < s.kind_count; i++) {
		ft_buf_free(&s.from[i]);
		ft_buf_free(&s.to[i]);
	}
	return ft_close(&s.ctx);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "An endpoint that sends to itself.",
		.ranks = 1,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
