/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_stats: messages between host buffers are counted once each, when the core has
 * taken them: not when it has no room (-FI_EAGAIN), however often that is tried.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <rdma/fi_ext_p2p.h>

#include "ft_test.h"

#define MESSAGES 4000 /* more than a core provider takes while nobody reads */
#define ATTEMPTS 100  /* without room */
#define SIZE 64
#define KEY 7

struct side {
	struct ft_pair pair;
	struct fi_p2p_stats_ops *ops;
	struct ft_req reqs[MESSAGES];
};

static int check(struct side *s, uint64_t msgs)
{
	struct fi_p2p_stats stats;

	FT_TRY(s->ops->read(&s->pair.ctx.ep->fid, &stats, sizeof(stats)));
	FT_CHECK(stats.tx_msgs[FI_P2P_PATH_HOST] == msgs &&
			 stats.tx_bytes[FI_P2P_PATH_HOST] == msgs * SIZE,
		 "%" PRIu64 " messages of %d bytes sent, counted are %" PRIu64 " and %" PRIu64
		 " bytes",
		 msgs, SIZE, stats.tx_msgs[FI_P2P_PATH_HOST], stats.tx_bytes[FI_P2P_PATH_HOST]);
	return 0;
}

/* Every message is alike: the peer's room for one serves them all. */
static int send_all(struct side *s, enum ft_call call, uint64_t before)
{
	struct ft_ctx *const ctx = &s->pair.ctx;
	struct ft_op op = {.call = call, .tagged = true, .addr = s->pair.peer, .tag = KEY};
	size_t sent = 0, refused = 0;

	ft_op_buf(&op, &s->pair.buf[0], 0, SIZE);
	while (sent < MESSAGES && refused < ATTEMPTS) {
		op.req = call == FT_INJECT ? NULL : &s->reqs[sent];
		const ssize_t ret = ft_post_once(ctx, &op);

		if (ret == -FI_EAGAIN)
			refused++;
		else if (ret)
			return ft_fail((int) ret, "sending", "message %zu", sent);
		else
			sent++;
	}
	FT_CHECK(refused || !strstr(s->pair.proc->opts.prov, "shm"),
		 "shm has taken %d messages that nobody reads", MESSAGES);
	FT_TRY(check(s, before + sent));
	FT_TRY(ft_meet(s->pair.proc));
	for (size_t i = sent; i < MESSAGES; i++) {
		op.req = call == FT_INJECT ? NULL : &s->reqs[i];
		FT_TRY(ft_post(ctx, &op));
	}
	if (call != FT_INJECT)
		FT_TRY(ft_wait(ctx, s->reqs, MESSAGES));
	return check(s, before + MESSAGES);
}

static int receive_all(struct side *s)
{
	const struct ft_slot slot = {&s->pair.buf[0], 0, SIZE, 0, SIZE};
	struct ft_op op = {.call = FT_RECV, .tagged = true, .addr = s->pair.peer, .tag = KEY};

	FT_TRY(ft_meet(s->pair.proc));
	for (size_t i = 0; i < MESSAGES; i++) {
		op.req = &s->reqs[i];
		ft_op_buf(&op, &s->pair.buf[0], 0, SIZE);
		FT_TRY(ft_slot_arm(&slot));
		FT_TRY(ft_post(&s->pair.ctx, &op));
		FT_TRY(ft_wait(&s->pair.ctx, op.req, 1));
		FT_TRY(ft_verify(&s->pair.buf[0], 0, SIZE, KEY));
	}
	return check(s, 0);
}

static int run(struct ft_proc *proc)
{
	static const enum ft_call calls[] = {FT_SEND, FT_INJECT, FT_SENDMSG};
	static struct side s;
	int ret;

	FT_TRY(ft_pair_hints(&s.pair, proc));
	FT_TRY(ft_pair_open(&s.pair, SIZE));
	ret = fi_open_ops(&s.pair.ctx.ep->fid, FI_P2P_STATS_OPS, 0, (void **) &s.ops, NULL);
	if (ret)
		return ft_fail(ret, "fi_open_ops", FI_P2P_STATS_OPS);
	if (ft_pair_sends(&s.pair)) {
		const struct ft_slot slot = {&s.pair.buf[0], 0, SIZE, 0, SIZE};

		FT_TRY(ft_slot_fill(&slot, KEY));
	}
	for (size_t i = 0; i < FT_COUNT(calls); i++) {
		memset(s.reqs, 0, sizeof(s.reqs));
		FT_TRY(ft_pair_sends(&s.pair) ? send_all(&s, calls[i], i * MESSAGES)
					      : receive_all(&s));
		FT_TRY(ft_barrier(proc, &s.pair.ctx));
	}
	return ft_pair_close(&s.pair, NULL, 0);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Messages between host buffers are counted when they are taken.",
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
