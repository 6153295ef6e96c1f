/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_foreign: peers that run the layered provider, a hook, or neither, over one core provider. Every
 * message between any two of them arrives as it was sent, and in order, from the first contact on.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ft_test.h"

/* What each rank runs */
enum { LAYERED, ALSO_LAYERED, HOOK, NEITHER, RANKS };

#define TAG 77
#define FIRST_COUNT 8
/* Sent to who does not call libfabric, and for how long: longer than FI_P2P_HELLO_TIMEOUT=1 */
#define SLOW_COUNT 3
#define LONG 300000
#define SLOW_US 1.5e6

static const size_t sizes[] = {0, 1, 4096, 4097, 65536, 65537, 1048577};

/* Messages of the first contact: long ones from device memory, with others behind them */
static const struct {
	size_t len;
	bool host;
} first[FIRST_COUNT] = {
	{300001, false}, {8, true}, {100, false},   {70000, true},
	{500000, false}, {0, true}, {16384, false}, {9, true},
};

struct side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	struct ft_buf buf[2]; /* of the host, and of the device where this rank has one */
	size_t kinds;
};

static const char *const names[RANKS] = {"layered", "another layered", "hook", "neither"};

/* The device is there on all ranks but the one that has neither provider. */
static size_t kinds_of(const struct side *s, int rank)
{
	return s->proc->opts.iface != FI_HMEM_SYSTEM && rank != NEITHER ? 2 : 1;
}

static struct ft_slot slot_of(const struct ft_buf *buf, size_t len)
{
	return (struct ft_slot){buf, 0, len + FT_ROOM, 64, len};
}

/* One message from @from to @to; both ranks call it. */
static int message(struct side *s, int from, int to, size_t kind_from, size_t kind_to,
		   size_t len, bool tagged, bool data)
{
	const bool sends = s->proc->rank == from;
	const struct ft_slot slot = slot_of(&s->buf[sends ? kind_from : kind_to], len);
	const uint64_t key = len * 4 + kind_from * 2 + kind_to;
	struct ft_req req = {0};
	struct ft_op op = {
		.call = !sends ? FT_RECV
			: data ? FT_SENDDATA
			       : FT_SEND,
		.tagged = tagged,
		.addr = s->ctx.peer[sends ? to : from],
		.tag = TAG,
		.data = 0x12345678,
		.req = &req,
	};

	FT_TRY(sends ? ft_slot_fill(&slot, key) : ft_slot_arm(&slot));
	ft_op_buf(&op, slot.buf, slot.off, len);
	FT_TRY(ft_post(&s->ctx, &op));
	FT_TRY(ft_wait(&s->ctx, &req, 1));
	if (sends)
		return 0;
	FT_CHECK(req.comp.len == len, "%s to %s: %zu bytes of %zu", names[from], names[to],
		 req.comp.len, len);
	FT_CHECK(!data == !(req.comp.flags & FI_REMOTE_CQ_DATA), "%s to %s: data", names[from],
		 names[to]);
	FT_CHECK(!data || req.comp.data == 0x12345678, "%s to %s: other data", names[from],
		 names[to]);
	return ft_slot_check(&slot, len, key, names[from]);
}

/* What a rank sends first: all at once, with one tag */
static int contact(struct side *s, int from, int to)
{
	const bool sends = s->proc->rank == from;
	struct ft_req reqs[FIRST_COUNT] = {{.done = false}};
	size_t base = 0;

	for (size_t i = 0; i < FIRST_COUNT; i++) {
		const size_t kind = sends && first[i].host ? 0 : s->kinds - 1;
		const struct ft_slot slot = {&s->buf[kind], base, first[i].len + FT_ROOM,
					     base + 64, first[i].len};
		struct ft_op op = {
			.call = sends ? FT_SEND : FT_RECV,
			.tagged = true,
			.addr = s->ctx.peer[sends ? to : from],
			.tag = TAG,
			.req = &reqs[i],
		};

		FT_TRY(sends ? ft_slot_fill(&slot, i) : ft_slot_arm(&slot));
		ft_op_buf(&op, slot.buf, slot.off, slot.len);
		FT_TRY(ft_post(&s->ctx, &op));
		base += first[i].len + FT_ROOM;
	}
	FT_TRY(ft_wait(&s->ctx, reqs, FIRST_COUNT));
	base = 0;
	for (size_t i = 0; i < FIRST_COUNT && !sends; i++) {
		const struct ft_slot slot = {&s->buf[s->kinds - 1], base,
					     first[i].len + FT_ROOM, base + 64, first[i].len};

		FT_CHECK(reqs[i].comp.len == first[i].len,
			 "%s to %s: message %zu has %zu bytes", names[from], names[to], i,
			 reqs[i].comp.len);
		FT_TRY(ft_slot_check(&slot, first[i].len, i, names[from]));
		base += first[i].len + FT_ROOM;
	}
	return 0;
}

static int direction(struct side *s, int from, int to)
{
	FT_TRY(contact(s, from, to));
	for (size_t i = 0; i < FT_COUNT(sizes); i++) {
		for (size_t kinds = 0; kinds < 4; kinds++) {
			if (kinds / 2 >= kinds_of(s, from) || kinds % 2 >= kinds_of(s, to))
				continue;
			FT_TRY(message(s, from, to, kinds / 2, kinds % 2, sizes[i], true,
				       i % 2));
			FT_TRY(message(s, from, to, kinds / 2, kinds % 2, sizes[i], false,
				       i % 2 == 0));
		}
	}
	return 0;
}

/*
 * A peer that does not call libfabric for longer than greetings are waited for is no foreign one: what is
 * sent meanwhile arrives once, in order, and so does what is sent when it has answered.
 */
static int slow(struct side *s, int from, int to)
{
	const bool sends = s->proc->rank == from;
	const int fd = s->proc->fd[sends ? to : from];
	struct ft_req reqs[SLOW_COUNT] = {{.done = false}};
	char byte = 0;

	if (!sends)
		FT_TRY(ft_oob_recv(fd, &byte, 1, s->proc->opts.timeout));
	for (size_t i = 0; i < SLOW_COUNT; i++) {
		const size_t len = LONG + i, base = i * (LONG + FT_ROOM);
		const struct ft_slot slot = {&s->buf[s->kinds - 1], base, len + FT_ROOM,
					     base + 64, len};
		struct ft_op op = {
			.call = sends ? FT_SEND : FT_RECV,
			.tagged = true,
			.addr = s->ctx.peer[sends ? to : from],
			.tag = TAG,
			.req = &reqs[i],
		};

		FT_TRY(sends ? ft_slot_fill(&slot, i) : ft_slot_arm(&slot));
		ft_op_buf(&op, slot.buf, slot.off, len);
		FT_TRY(ft_post(&s->ctx, &op));
	}
	if (sends) {
		FT_TRY(ft_progress_for(&s->ctx, SLOW_US));
		FT_TRY(ft_oob_send(fd, &byte, 1));
	}
	FT_TRY(ft_wait(&s->ctx, reqs, SLOW_COUNT));
	for (size_t i = 0; i < SLOW_COUNT && !sends; i++) {
		const size_t len = LONG + i, base = i * (LONG + FT_ROOM);
		const struct ft_slot slot = {&s->buf[s->kinds - 1], base, len + FT_ROOM,
					     base + 64, len};

		FT_CHECK(reqs[i].comp.len == len, "slow: %zu bytes", reqs[i].comp.len);
		FT_TRY(ft_slot_check(&slot, len, i, "slow"));
	}
	/* if any had come twice, this would be something else */
	return message(s, from, to, s->kinds - 1, s->kinds - 1, sizes[FT_COUNT(sizes) - 1],
		       true, true);
}

/* What this rank is to run, before libfabric looks. */
static int become(struct ft_proc *proc)
{
	static char prov[256];
	char *ours;

	snprintf(prov, sizeof prov, "%s", proc->opts.prov ? proc->opts.prov : "");
	ours = strstr(prov, ";ofi_p2p");
	if (!ours)
		return ft_skip("-p names no provider with ofi_p2p");
	unsetenv("FI_HOOK");
	if (proc->rank == HOOK || proc->rank == NEITHER)
		*ours = '\0';
	if (proc->rank == HOOK) {
		setenv("FI_HOOK", "p2p", 1);
		proc->opts.no_hmem = true;
	}
	proc->opts.prov = prov;
	return 0;
}

static int run(struct ft_proc *proc)
{
	static struct side s;
	enum fi_hmem_iface iface = proc->opts.iface;
	size_t room = FIRST_COUNT * FT_ROOM;
	int ret;

	s.proc = proc;
	ret = become(proc);
	if (ret)
		return ret;
	s.kinds = kinds_of(&s, proc->rank);
	if (s.kinds == 1)
		proc->opts.iface = proc->opts.init_iface = FI_HMEM_SYSTEM;
	FT_TRY(ft_test_hints(proc, &s.ctx));
	FT_TRY(ft_test_open(proc, &s.ctx));
	FT_TRY(ft_test_connect(proc, &s.ctx));
	for (size_t i = 0; i < FIRST_COUNT; i++)
		room += first[i].len;
	/* one message, or some that are under way together */
	room += sizes[FT_COUNT(sizes) - 1];
	for (size_t i = 0; i < s.kinds; i++)
		FT_TRY(ft_buf_alloc(&s.ctx, &s.buf[i], i ? iface : FI_HMEM_SYSTEM, room));
	proc->opts.iface = iface;
	/* host memory is the core's to send, which may have no room before the peer connects */
	if (s.kinds == 2 && (proc->rank == LAYERED || proc->rank == ALSO_LAYERED))
		FT_TRY(slow(&s, LAYERED, ALSO_LAYERED));
	FT_TRY(ft_barrier(proc, &s.ctx));
	for (int from = 0; from < RANKS; from++) {
		for (int to = 0; to < RANKS; to++) {
			if (from != to && (proc->rank == from || proc->rank == to))
				FT_TRY(direction(&s, from, to));
			FT_TRY(ft_barrier(proc, &s.ctx));
		}
	}
	for (size_t i = 0; i < s.kinds; i++)
		ft_buf_free(&s.buf[i]);
	return ft_close(&s.ctx);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Peers that run this provider, its hook, or neither.",
		.ranks = RANKS,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
