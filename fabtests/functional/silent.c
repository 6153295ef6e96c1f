/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_silent: peers announce long messages, whose receives are there, and then do not call
 * libfabric for a while. They hold staging memory meanwhile; another peer's messages arrive all the
 * same, though this end's own sends never pause. Then the silent ones speak again, and nothing of
 * theirs is lost. With FI_P2P_PEER_TIMEOUT set, they are silent for twice as long: who computes is alive.
 */
#include <stdio.h>
#include <stdlib.h>

#include "ft_test.h"

enum { RECEIVER, TALKER, FIRST_SILENT, RANKS = 4 };

#define GOOD 8 /* messages of the other one */
#define LONG                                                                                   \
	3 /* messages of each silent one: all of them together want more slots than there are */
#define LEN ((size_t) 8 << 20)
#define PLACE (LEN + FT_ROOM)
#define SHORT ((size_t) 64)
#define TAG_FIRST 1
#define TAG_SILENT 2
#define TAG_GOOD 3

/** struct side - @in: by sender; @out: what this one sends */
struct side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	struct ft_buf in[RANKS], out;
};

static struct ft_slot place(const struct ft_buf *buf, size_t i, size_t len)
{
	return (struct ft_slot){buf, i * PLACE, len + FT_ROOM, i * PLACE + 64, len};
}

static uint64_t tag_of(int sender, uint64_t tag, size_t i)
{
	return tag << 16 | (uint64_t) sender << 8 | i;
}

/* The @i-th such message to or from @peer */
static int post(struct side *s, int peer, bool sends, uint64_t tag, size_t i, size_t len,
		struct ft_req *req)
{
	const struct ft_slot slot = place(sends ? &s->out : &s->in[peer], i, len);
	struct ft_op op = {
		.call = sends ? FT_SEND : FT_RECV,
		.tagged = true,
		.addr = s->ctx.peer[peer],
		.tag = tag_of(sends ? s->proc->rank : peer, tag, i),
		.req = req,
	};

	*req = (struct ft_req){0};
	FT_TRY(sends ? ft_slot_fill(&slot, op.tag) : ft_slot_arm(&slot));
	ft_op_buf(&op, slot.buf, slot.off, len);
	return ft_post(&s->ctx, &op);
}

static int check(const struct side *s, int peer, uint64_t tag, size_t i, size_t len)
{
	const struct ft_slot slot = place(&s->in[peer], i, len);

	return ft_slot_check(&slot, len, tag_of(peer, tag, i), "a message");
}

/* Short ones both ways first: connections are there when somebody falls silent */
static int greet(struct side *s, int peer)
{
	struct ft_req req[2];

	FT_TRY(post(s, peer, false, TAG_FIRST, 0, SHORT, &req[0]));
	FT_TRY(post(s, peer, true, TAG_FIRST, 0, SHORT, &req[1]));
	FT_TRY(ft_wait(&s->ctx, req, 2));
	return check(s, peer, TAG_FIRST, 0, SHORT);
}

/* That this end has got one more: how long all of them take is not for the silent ones' patience */
static int tell_silent(struct side *s)
{
	for (int peer = FIRST_SILENT; peer < RANKS; peer++)
		FT_TRY(ft_oob_send(s->proc->fd[peer], "", 1));
	return 0;
}

/*
 * The talker sends GOOD long messages, one after the other. The receiver's own do not pause until it
 * has them all; then a short one is the last.
 */
static int stream(struct side *s, int peer)
{
	const bool talks = s->proc->rank == TALKER;
	struct ft_req in, out = {.done = true};
	size_t received = 0, sent = 0, len;
	bool more = true;
	int n;

	FT_TRY(post(s, peer, false, TAG_GOOD, 0, LEN, &in));
	while (more) {
		FT_CHECK(!in.err && !out.err, "errors %d and %d", in.err, out.err);
		if (out.done && (!talks || sent < GOOD))
			FT_TRY(post(s, peer, true, TAG_GOOD, sent++ % LONG, LEN, &out));
		if (in.done) {
			len = in.comp.len;
			FT_TRY(check(s, peer, TAG_GOOD, received++ % LONG, len));
			FT_TRY(talks ? 0 : tell_silent(s));
			more = talks ? len == LEN : received < GOOD;
			if (more)
				FT_TRY(post(s, peer, false, TAG_GOOD, received % LONG, LEN,
					    &in));
			continue;
		}
		n = ft_progress(&s->ctx);
		if (n < 0)
			return n;
		if (!n)
			FT_TRY(ft_idle(&s->ctx));
	}
	FT_TRY(ft_wait(&s->ctx, &out, 1));
	if (talks)
		return 0;
	FT_TRY(post(s, peer, true, TAG_GOOD, sent % LONG, SHORT, &out));
	return ft_wait(&s->ctx, &out, 1);
}

static int receiver(struct side *s)
{
	const char *timeout = getenv("FI_P2P_PEER_TIMEOUT");
	struct ft_req req[RANKS][LONG];

	for (int peer = TALKER; peer < RANKS; peer++)
		FT_TRY(greet(s, peer));
	for (int peer = FIRST_SILENT; peer < RANKS; peer++)
		for (size_t i = 0; i < LONG; i++)
			FT_TRY(post(s, peer, false, TAG_SILENT, i, LEN, &req[peer][i]));
	FT_TRY(ft_barrier(s->proc, &s->ctx));
	FT_TRY(stream(s, TALKER));
	if (timeout)
		FT_TRY(ft_progress_for(&s->ctx, 2e6 * atoi(timeout)));
	FT_TRY(tell_silent(s));
	for (int peer = FIRST_SILENT; peer < RANKS; peer++) {
		FT_TRY(ft_wait(&s->ctx, req[peer], LONG));
		for (size_t i = 0; i < LONG; i++)
			FT_TRY(check(s, peer, TAG_SILENT, i, LEN));
	}
	return 0;
}

static int talker(struct side *s)
{
	FT_TRY(greet(s, RECEIVER));
	FT_TRY(ft_barrier(s->proc, &s->ctx));
	return stream(s, RECEIVER);
}

static int silent(struct side *s)
{
	struct ft_req req[LONG];
	char byte;

	FT_TRY(greet(s, RECEIVER));
	for (size_t i = 0; i < LONG; i++)
		FT_TRY(post(s, RECEIVER, true, TAG_SILENT, i, LEN, &req[i]));
	FT_TRY(ft_barrier(s->proc, &s->ctx));
	for (int told = 0; told <= GOOD; told++) {
		FT_TRY(ft_oob_recv(s->proc->fd[RECEIVER], &byte, 1, s->proc->opts.timeout));
		ft_progress_note();
	}
	return ft_wait(&s->ctx, req, LONG);
}

static int run(struct ft_proc *proc)
{
	static struct side s; /* requests are under way until the end */
	const int peers = proc->rank == RECEIVER ? RANKS : 1;

	s.proc = proc;
	FT_TRY(ft_test_hints(proc, &s.ctx));
	FT_TRY(ft_test_open(proc, &s.ctx));
	FT_TRY(ft_test_connect(proc, &s.ctx));
	FT_TRY(ft_buf_alloc(&s.ctx, &s.out, proc->opts.iface, LONG * PLACE));
	for (int i = 0; i < peers; i++)
		FT_TRY(ft_buf_alloc(&s.ctx, &s.in[i], proc->opts.iface, LONG * PLACE));
	if (proc->rank == RECEIVER)
		FT_TRY(receiver(&s));
	else
		FT_TRY(proc->rank == TALKER ? talker(&s) : silent(&s));
	FT_TRY(ft_barrier(proc, &s.ctx));
	ft_buf_free(&s.out);
	for (int i = 0; i < peers; i++)
		ft_buf_free(&s.in[i]);
	return ft_close(&s.ctx);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Peers that do not call libfabric for long, and one that does.",
		.ranks = RANKS,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
