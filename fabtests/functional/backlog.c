/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_backlog: a long message ends although others come behind it, or go the other way, that
 * nobody has posted a receive for yet, and will not before it has ended: some core providers read
 * nothing more from a connection on which such a message has come.
 */
#include <stdio.h>
#include <string.h>

#include "ft_test.h"

#define FIRST ((size_t) 1 << 20)
#define REST ((size_t) 3000)
#define BEHIND_MAX 80

struct test_case {
	size_t from, to; /* kinds of memory: of the first message */
	size_t behind;   /* messages behind it, in host memory */
	size_t against;  /* messages the other way, before it */
	bool tagged;
	uint64_t key;
};

static struct ft_slot first_slot(struct ft_pair *pair, const struct test_case *c)
{
	const size_t kind = ft_pair_sends(pair) ? c->from : c->to;

	return (struct ft_slot){&pair->buf[kind], 0, FIRST + FT_ROOM, 64, FIRST};
}

/* Message @i behind the first one or, @other, of those the other way */
static struct ft_slot rest_slot(struct ft_pair *pair, size_t i, bool other)
{
	const size_t base = FIRST + (i + other * BEHIND_MAX + 1) * (REST + FT_ROOM);

	return (struct ft_slot){&pair->buf[0], base, REST + FT_ROOM, base + 64, REST};
}

static int post(struct ft_pair *pair, const struct test_case *c, enum ft_call call,
		const struct ft_slot *slot, uint64_t key, struct ft_req *req)
{
	struct ft_op op = {
		.call = call,
		.tagged = c->tagged,
		.addr = pair->peer,
		.tag = key,
		.req = req,
	};

	if (call == FT_SEND)
		FT_TRY(ft_slot_fill(slot, key));
	else
		FT_TRY(ft_slot_arm(slot));
	ft_op_buf(&op, slot->buf, slot->off, slot->len);
	return ft_post(&pair->ctx, &op);
}

static int post_rest(struct ft_pair *pair, const struct test_case *c, enum ft_call call,
		     bool other, struct ft_req *req)
{
	const size_t count = other ? c->against : c->behind;

	memset(req, 0, BEHIND_MAX * sizeof(*req));
	for (size_t i = 0; i < count; i++) {
		const struct ft_slot slot = rest_slot(pair, i, other);

		FT_TRY(post(pair, c, call, &slot, c->key + 1 + i + other * BEHIND_MAX,
			    &req[i]));
	}
	return 0;
}

static int check_rest(struct ft_pair *pair, const struct test_case *c, bool other)
{
	const size_t count = other ? c->against : c->behind;

	for (size_t i = 0; i < count; i++) {
		const struct ft_slot slot = rest_slot(pair, i, other);

		FT_TRY(ft_slot_check(&slot, REST, c->key + 1 + i + other * BEHIND_MAX,
				     "a message that waited for its receive"));
	}
	return 0;
}

static int send_side(struct ft_pair *pair, const struct test_case *c)
{
	struct ft_req first = {0}, behind[BEHIND_MAX], against[BEHIND_MAX];
	const struct ft_slot slot = first_slot(pair, c);

	/* those the other way are on their way */
	FT_TRY(ft_barrier(pair->proc, &pair->ctx));
	FT_TRY(post(pair, c, FT_SEND, &slot, c->key, &first));
	FT_TRY(post_rest(pair, c, FT_SEND, false, behind));
	/* until the other end has the first one */
	FT_TRY(ft_barrier(pair->proc, &pair->ctx));
	FT_TRY(post_rest(pair, c, FT_RECV, true, against));
	FT_TRY(ft_wait(&pair->ctx, &first, 1));
	FT_TRY(ft_wait(&pair->ctx, behind, c->behind));
	FT_TRY(ft_wait(&pair->ctx, against, c->against));
	return check_rest(pair, c, true);
}

static int recv_side(struct ft_pair *pair, const struct test_case *c)
{
	struct ft_req first = {0}, behind[BEHIND_MAX], against[BEHIND_MAX];
	const struct ft_slot slot = first_slot(pair, c);

	FT_TRY(post_rest(pair, c, FT_SEND, true, against));
	FT_TRY(ft_barrier(pair->proc, &pair->ctx));
	FT_TRY(post(pair, c, FT_RECV, &slot, c->key, &first));
	FT_TRY(ft_wait(&pair->ctx, &first, 1));
	FT_TRY(ft_slot_check(&slot, FIRST, c->key, "the first message"));
	FT_TRY(ft_barrier(pair->proc, &pair->ctx));
	FT_TRY(post_rest(pair, c, FT_RECV, false, behind));
	FT_TRY(ft_wait(&pair->ctx, behind, c->behind));
	FT_TRY(ft_wait(&pair->ctx, against, c->against));
	return check_rest(pair, c, false);
}

static int run(struct ft_proc *proc)
{
	/* those behind first while there is no connection yet */
	static const size_t behind[] = {BEHIND_MAX, 1, 0}, against[] = {0, 1, BEHIND_MAX};
	const size_t count = FT_COUNT(behind);
	struct ft_pair pair;
	int ret;

	FT_TRY(ft_pair_hints(&pair, proc));
	FT_TRY(ft_pair_open(&pair, FIRST + (2 * BEHIND_MAX + 1) * (REST + FT_ROOM)));
	for (size_t i = 0; i < 2 * count * FT_COUNT(against); i++) {
		for (size_t kinds = 0; kinds < pair.kind_count * pair.kind_count; kinds++) {
			const struct test_case c = {
				.from = kinds % pair.kind_count,
				.to = kinds / pair.kind_count,
				.tagged = i % 2,
				.behind = behind[i / 2 % count],
				.against = against[i / 2 / count],
				.key = (i * 4 + kinds + 1) * 1000,
			};

			ret = ft_pair_sends(&pair) ? send_side(&pair, &c)
						   : recv_side(&pair, &c);
			if (!ret)
				ret = ft_barrier(proc, &pair.ctx);
			if (ret)
				return ft_fail(
					ret, "test",
					"%s, from %s to %s memory, %zu messages behind it and "
					"%zu against it",
					c.tagged ? "tagged" : "untagged",
					pair.buf[c.from].ops->name, pair.buf[c.to].ops->name,
					c.behind, c.against);
		}
	}
	return ft_pair_close(&pair, NULL, 0);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "A long message ends, whatever waits for a receive behind it.",
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
