/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_cut: the link to a host is cut at a random moment of long messages both ways, and mended
 * again. Meanwhile nothing arrives by it, and a third host is served as if nothing were. Then
 * nothing is lost.
 */
#include <inttypes.h>
#include <stdio.h>
#include <sys/socket.h>

#include "ft_test.h"

enum { OBSERVER, CUT, OTHER, RANKS };

#define LOST_MIN 3   /* packets, so that something was tried in vain */
#define LOST_MAX 100 /* a core may have no room for another message before the link is mended */
#define POLLS 300    /* at most, into messages that the cut meets */
#define LARGEST ((size_t) 200003)
#define PLACE (LARGEST + FT_ROOM)

#define MENDED 'm' /* said instead of nothing: the link is mended already */

static const size_t sizes[] = {100, 5003, 70001, LARGEST};

/** enum burst - messages of all sizes, both ways at once */
enum burst {
	BURST_GOOD,
	BURST_MET,  /* under way when the link is cut */
	BURST_LATE, /* begun after that */
	BURSTS
};

struct side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	struct ft_buf in, out;
	struct ft_req recv[BURSTS][FT_COUNT(sizes)], send[BURSTS][FT_COUNT(sizes)];
};

static uint64_t tag_of(int sender, enum burst burst, size_t i)
{
	return (uint64_t) sender << 16 | (uint64_t) burst << 8 | i;
}

static struct ft_slot place(const struct ft_buf *buf, enum burst burst, size_t i)
{
	const size_t off = ((size_t) burst * FT_COUNT(sizes) + i) * PLACE;

	return (struct ft_slot){buf, off, sizes[i] + FT_ROOM, off + 64, sizes[i]};
}

static int post(struct side *s, int peer, bool sends, enum burst burst, size_t i)
{
	const struct ft_slot slot = place(sends ? &s->out : &s->in, burst, i);
	struct ft_req *req = sends ? &s->send[burst][i] : &s->recv[burst][i];
	struct ft_op op = {
		.call = sends ? FT_SEND : FT_RECV,
		.tagged = true,
		.addr = s->ctx.peer[peer],
		.tag = tag_of(sends ? s->proc->rank : peer, burst, i),
		.req = req,
	};

	*req = (struct ft_req){0};
	FT_TRY(sends ? ft_slot_fill(&slot, op.tag) : ft_slot_arm(&slot));
	ft_op_buf(&op, slot.buf, slot.off, slot.len);
	return ft_post(&s->ctx, &op);
}

static int burst_post(struct side *s, int peer, enum burst burst)
{
	for (size_t i = 0; i < 2 * FT_COUNT(sizes); i++)
		FT_TRY(post(s, peer, i >= FT_COUNT(sizes), burst, i % FT_COUNT(sizes)));
	return 0;
}

static int burst_wait(struct side *s, int peer, enum burst burst)
{
	FT_TRY(ft_wait(&s->ctx, s->recv[burst], FT_COUNT(sizes)));
	FT_TRY(ft_wait(&s->ctx, s->send[burst], FT_COUNT(sizes)));
	for (size_t i = 0; i < FT_COUNT(sizes); i++) {
		const struct ft_slot slot = place(&s->in, burst, i);

		FT_TRY(ft_slot_check(&slot, slot.len, tag_of(peer, burst, i), "a message"));
	}
	return 0;
}

static int good_burst(struct side *s, int peer)
{
	FT_TRY(burst_post(s, peer, BURST_GOOD));
	return burst_wait(s, peer, BURST_GOOD);
}

static int none_arrived(const struct side *s)
{
	for (size_t i = 0; i < FT_COUNT(sizes); i++)
		FT_CHECK(!s->recv[BURST_LATE][i].done, "%zu bytes came by a link that is cut",
			 sizes[i]);
	return 0;
}

static int progress(struct side *s)
{
	const int n = ft_progress(&s->ctx);

	if (n < 0)
		return n;
	return n ? 0 : ft_idle(&s->ctx);
}

/* Progress until @rank has sent a byte */
static int hear(struct side *s, int rank, char *byte)
{
	while (recv(s->proc->fd[rank], byte, 1, MSG_DONTWAIT) < 0)
		FT_TRY(progress(s));
	return 0;
}

static int observer(struct side *s)
{
	uint64_t rnd = s->proc->opts.seed, before, lost;
	const uint64_t polls = ft_random(&rnd) % POLLS;
	const int fd = s->proc->fd[CUT];
	bool posted = false;
	char byte;

	FT_TRY(good_burst(s, CUT));
	FT_TRY(good_burst(s, OTHER));
	FT_TRY(burst_post(s, CUT, BURST_MET));
	for (uint64_t i = 0; i < polls; i++)
		FT_TRY(progress(s));
	FT_TRY(ft_link_tell("cut 1", &before));
	FT_TRY(ft_oob_send(fd, "", 1));
	FT_TRY(burst_post(s, CUT, BURST_LATE));
	FT_TRY(good_burst(s, OTHER));
	do {
		FT_TRY(progress(s));
		FT_TRY(ft_link_tell("count", &lost));
	} while (lost < before + LOST_MIN);
	/* until the other one has posted all */
	while (!posted && lost < before + LOST_MAX) {
		posted = recv(fd, &byte, 1, MSG_DONTWAIT) == 1;
		FT_TRY(progress(s));
		FT_TRY(ft_link_tell("count", &lost));
	}
	FT_TRY(none_arrived(s));
	if (posted) {
		FT_TRY(ft_oob_send(fd, "", 1));
		FT_TRY(ft_oob_recv(fd, &byte, 1, s->proc->opts.timeout));
	}
	FT_TRY(ft_link_tell("mend 1", &lost));
	if (!posted) {
		FT_TRY(ft_oob_send(fd, &(char){MENDED}, 1));
		FT_TRY(hear(s, CUT, &byte));
	}
	printf("cut after %" PRIu64 " polls, %" PRIu64 " packets got lost\n", polls,
	       lost - before);
	FT_TRY(burst_wait(s, CUT, BURST_MET));
	return burst_wait(s, CUT, BURST_LATE);
}

static int cut(struct side *s)
{
	const int fd = s->proc->fd[OBSERVER];
	char byte;

	FT_TRY(good_burst(s, OBSERVER));
	FT_TRY(burst_post(s, OBSERVER, BURST_MET));
	FT_TRY(hear(s, OBSERVER, &byte));
	FT_TRY(burst_post(s, OBSERVER, BURST_LATE));
	FT_TRY(ft_oob_send(fd, "", 1));
	FT_TRY(hear(s, OBSERVER, &byte));
	if (byte != MENDED) {
		FT_TRY(none_arrived(s));
		FT_TRY(ft_oob_send(fd, "", 1));
	}
	FT_TRY(burst_wait(s, OBSERVER, BURST_MET));
	return burst_wait(s, OBSERVER, BURST_LATE);
}

static int run(struct ft_proc *proc)
{
	static struct side s; /* requests are under way until the end */
	uint64_t lost;

	s.proc = proc;
	FT_TRY(ft_link_tell("count", &lost));
	FT_TRY(ft_test_hints(proc, &s.ctx));
	FT_TRY(ft_test_open(proc, &s.ctx));
	FT_TRY(ft_test_connect(proc, &s.ctx));
	FT_TRY(ft_buf_alloc(&s.ctx, &s.in, proc->opts.iface, BURSTS * FT_COUNT(sizes) * PLACE));
	FT_TRY(ft_buf_alloc(&s.ctx, &s.out, proc->opts.iface,
			    BURSTS * FT_COUNT(sizes) * PLACE));
	switch (proc->rank) {
	case OBSERVER:
		FT_TRY(observer(&s));
		break;
	case CUT:
		FT_TRY(cut(&s));
		break;
	case OTHER:
		FT_TRY(good_burst(&s, OBSERVER));
		FT_TRY(good_burst(&s, OBSERVER));
		break;
	}
	FT_TRY(ft_barrier(proc, &s.ctx));
	ft_buf_free(&s.in);
	ft_buf_free(&s.out);
	return ft_close(&s.ctx);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "A link that is cut in the middle of long messages, and mended.",
		.ranks = RANKS,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
