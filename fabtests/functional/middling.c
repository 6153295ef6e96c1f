/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_middling: many messages of 16 to 64 KiB under way, which ofi_p2p over tcp;ofi_rxm leaves
 * for the receiver to read, several at once, meet receives of all kinds, posted before and after:
 * of host and device memory, in one piece and in two, long enough and not.
 */
#include <stdio.h>
#include <string.h>

#include "ft_test.h"

#define COUNT 40
#define LEAST ((size_t) 16385)
#define MOST ((size_t) 65536)
#define PLACE (MOST + FT_ROOM)

struct test_case {
	size_t from; /* kind of memory */
	bool tagged;
	bool late; /* receives are posted when all messages have been sent */
	uint64_t key;
};

static size_t message_len(size_t i)
{
	if (i % 8 == 7)
		return i % 16 == 7 ? MOST : LEAST;
	return LEAST + i * 12345 % (MOST - LEAST);
}

/*
 * Does ofi_p2p carry these messages by itself? No core provider here survives a truncated one:
 * ofi_rxm (2.6) keeps the segments that come after the end, and gives them to a later message. With
 * automatic progress what is sent may have arrived, so that the next one travels by itself, too.
 */
static bool lends(const struct ft_pair *pair, const struct test_case *c)
{
	return ft_is_p2p(&pair->ctx) && c->from && c->late && !pair->proc->opts.automatic &&
	       !strncmp(pair->ctx.info->fabric_attr->prov_name, "tcp;ofi_rxm", 11);
}

/* How much of message @i there is room for. The first one finds none to be read with, and is sent */
static size_t message_room(const struct ft_pair *pair, const struct test_case *c, size_t i)
{
	const size_t len = message_len(i);

	if (!i || !lends(pair, c))
		return len;
	switch (i % 10) {
	case 4:
		return len - 1;
	case 5:
		return 5000;
	case 6:
		return 100;
	case 9:
		return 0;
	default:
		return len;
	}
}

static struct ft_slot message_slot(struct ft_pair *pair, const struct test_case *c, size_t i)
{
	const bool sends = ft_pair_sends(pair);
	const size_t kind = sends ? c->from : i / 2 % pair->kind_count;
	const size_t len = sends ? message_len(i) : message_room(pair, c, i);

	return (struct ft_slot){&pair->buf[kind], i * PLACE, len + FT_ROOM, i * PLACE + 64,
				len};
}

static int post(struct ft_pair *pair, const struct test_case *c, size_t i, struct ft_req *req)
{
	const struct ft_slot slot = message_slot(pair, c, i);
	const bool halves = i % 3 == 1 && slot.len > 1;
	struct ft_op op = {.tagged = c->tagged, .addr = pair->peer, .tag = i, .req = req};

	if (ft_pair_sends(pair)) {
		op.call = halves ? FT_SENDV : FT_SEND;
		FT_TRY(ft_slot_fill(&slot, c->key + i));
	} else {
		op.call = halves ? FT_RECVV : FT_RECV;
		FT_TRY(ft_slot_arm(&slot));
	}
	ft_op_buf(&op, slot.buf, slot.off, slot.len);
	if (halves) {
		op.iov[0].iov_len = slot.len / 3;
		op.iov[1].iov_base = slot.buf->addr + slot.off + slot.len / 3;
		op.iov[1].iov_len = slot.len - slot.len / 3;
		op.desc[1] = op.desc[0];
		op.count = 2;
	}
	return ft_post(&pair->ctx, &op);
}

static int post_all(struct ft_pair *pair, const struct test_case *c, struct ft_req *req)
{
	memset(req, 0, COUNT * sizeof(*req));
	/* without tags it is the order that tells which one a receive is for */
	for (size_t i = 0; i < COUNT; i++) {
		const size_t at = c->tagged && !ft_pair_sends(pair) ? COUNT - 1 - i : i;

		FT_TRY(post(pair, c, at, &req[at]));
	}
	return 0;
}

static int check(struct ft_pair *pair, const struct test_case *c, size_t i,
		 const struct ft_req *req)
{
	const struct ft_slot slot = message_slot(pair, c, i);
	const size_t len = message_len(i);
	const int wanted = slot.len < len ? FI_ETRUNC : 0;

	FT_CHECK(req->err == wanted,
		 "message %zu, of %zu bytes, ended with %s in a buffer of %zu", i, len,
		 req->err ? fi_strerror(req->err) : "success", slot.len);
	if (!wanted)
		return ft_slot_check(&slot, len, c->key + i, "a message among others");
	FT_CHECK(
		req->comp.len <= slot.len && req->comp.len + req->olen == len,
		"message %zu, of %zu bytes, in a buffer of %zu: %zu are said to be there, %zu lost",
		i, len, slot.len, req->comp.len, req->olen);
	/* what did arrive is not said to be anything */
	return ft_slot_guards(&slot, slot.len, "a truncated message");
}

static int run_case(struct ft_pair *pair, const struct test_case *c)
{
	struct ft_req req[COUNT];
	const bool sends = ft_pair_sends(pair);

	if (sends != c->late)
		FT_TRY(ft_meet(pair->proc));
	FT_TRY(post_all(pair, c, req));
	if (sends == c->late)
		FT_TRY(ft_meet(pair->proc));
	if (sends)
		return ft_wait(&pair->ctx, req, COUNT);
	FT_TRY(ft_wait_any_result(&pair->ctx, req, COUNT));
	for (size_t i = 0; i < COUNT; i++)
		FT_TRY(check(pair, c, i, &req[i]));
	return 0;
}

static int run(struct ft_proc *proc)
{
	struct ft_pair pair;
	int ret;

	FT_TRY(ft_pair_hints(&pair, proc));
	FT_TRY(ft_pair_open(&pair, COUNT * PLACE));
	for (size_t i = 0; i < 8 * pair.kind_count; i++) {
		const struct test_case c = {
			.from = i / 4 % pair.kind_count,
			.tagged = i % 2 && ft_has_tags(&pair.ctx),
			.late = i / 2 % 2,
			.key = (i + 1) * 1000,
		};

		ret = run_case(&pair, &c);
		if (!ret)
			ret = ft_barrier(proc, &pair.ctx);
		if (ret)
			return ft_fail(ret, "test", "%s, from %s memory, receives posted %s",
				       c.tagged ? "tagged" : "untagged",
				       pair.buf[c.from].ops->name, c.late ? "late" : "early");
	}
	return ft_pair_close(&pair, NULL, 0);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose =
			"Messages of middling length, many at a time, meet receives of all kinds.",
		.ranks = 2,
		.connects = true,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
