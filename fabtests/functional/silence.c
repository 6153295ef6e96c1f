/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_silence: rank 1 computes, and calls nothing of libfabric's, for an hour: before its first call, and again
 * when both have met and it has posted all of its own. Nothing of rank 0's ends by that, and all arrives when rank 1
 * goes on. With FT_STOPS set, rank 1's process is stopped meanwhile, so nobody answers for it.
 *
 * The hour is rank 0's alone: it sets its own clock forward, a little before each look. Rank 1 waits for a byte.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ft_test.h"

#define STEP_NS 150000000ll /* less than what progress lets count at a time */
#define HOUR_STEPS 24000
#define PLACE ((size_t) 1000000 + FT_ROOM + 64)

static const size_t sizes[] = {8, 3000, 30000, 1000000};

#define COUNT FT_COUNT(sizes)
#define REMOTE 2 /* a write and a read, of the last size each */

/* How far rank 0's clock is ahead [ns] */
static long long ahead;

/* Every library of this process reads the time by this one. What a thread sleeps for is not about it */
__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *now)
{
	const int ret = (int) syscall(SYS_clock_gettime, id, now);
	long long ns;

	if (ret || (id != CLOCK_MONOTONIC && id != CLOCK_MONOTONIC_COARSE))
		return ret;
	ns = now->tv_nsec + __atomic_load_n(&ahead, __ATOMIC_RELAXED);
	now->tv_sec += ns / 1000000000;
	now->tv_nsec = ns % 1000000000;
	return 0;
}

/** struct note - what rank 1 tells of itself */
struct note {
	pid_t pid;
	uint64_t key, base;
};

/** struct side - @out, @in: a place for each message; @shared: what rank 0 writes to and reads from */
struct side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	fi_addr_t peer;
	bool remote;
	struct ft_buf out, in, shared;
	struct note note;
	struct ft_req sent[COUNT], received[COUNT], done[REMOTE];
	bool asked[REMOTE];
};

static struct ft_slot place(const struct ft_buf *buf, size_t i, size_t len)
{
	return (struct ft_slot){buf, i * PLACE, len + FT_ROOM, i * PLACE + 64, len};
}

static uint64_t key_of(int round, int sender, size_t i)
{
	return (uint64_t) round << 16 | (uint64_t) sender << 8 | i;
}

static int post(struct side *s, int round, bool sends, size_t i)
{
	const struct ft_slot slot = place(sends ? &s->out : &s->in, i, sizes[i]);
	struct ft_req *req = sends ? &s->sent[i] : &s->received[i];
	struct ft_op op = {
		.call = sends ? FT_SEND : FT_RECV,
		.tagged = true,
		.addr = s->peer,
		.tag = key_of(round, sends ? s->proc->rank : !s->proc->rank, i),
		.req = req,
	};

	*req = (struct ft_req){0};
	FT_TRY(sends ? ft_slot_fill(&slot, op.tag) : ft_slot_arm(&slot));
	ft_op_buf(&op, slot.buf, slot.off, slot.len);
	return ft_post(&s->ctx, &op);
}

static int post_all(struct side *s, int round)
{
	for (size_t i = 0; i < COUNT; i++)
		FT_TRY(post(s, round, false, i));
	for (size_t i = 0; i < COUNT; i++)
		FT_TRY(post(s, round, true, i));
	return 0;
}

/* The write, and the read, if they have not been taken yet: the owner may have to answer a greeting first */
static int ask(struct side *s)
{
	const size_t len = sizes[COUNT - 1];

	for (size_t i = 0; s->remote && i < REMOTE; i++) {
		const struct ft_slot slot = place(i ? &s->in : &s->out, COUNT, len);
		const uint64_t to = s->note.base + i * PLACE + 64;
		ssize_t ret;

		if (s->asked[i])
			continue;
		ret = i ? fi_read(s->ctx.ep, s->in.addr + slot.off, len, s->in.desc, s->peer,
				  to, s->note.key, &s->done[i])
			: fi_write(s->ctx.ep, s->out.addr + slot.off, len, s->out.desc, s->peer,
				   to, s->note.key, &s->done[i]);
		FT_CHECK(!ret || ret == -FI_EAGAIN, "%s: %zd", i ? "fi_read" : "fi_write", ret);
		s->asked[i] = !ret;
	}
	return 0;
}

static int look(struct side *s)
{
	ft_progress_note(); /* for how long is what this is about */
	FT_TRY(ask(s));
	return ft_progress(&s->ctx) < 0 ? -FI_EOTHER : 0;
}

/* What has ended already has not failed */
static int none_failed(const struct side *s)
{
	for (size_t i = 0; i < COUNT; i++)
		FT_CHECK(!s->sent[i].err && !s->received[i].err,
			 "%zu bytes failed, as a peer was silent: %d, %d", sizes[i],
			 s->sent[i].err, s->received[i].err);
	for (size_t i = 0; i < REMOTE; i++)
		FT_CHECK(!s->done[i].err, "remote memory: %d", s->done[i].err);
	return 0;
}

static int wait_for_all(struct side *s)
{
	while (s->remote && !(s->asked[0] && s->asked[1]))
		FT_TRY(look(s));
	FT_TRY(ft_wait(&s->ctx, s->sent, COUNT));
	FT_TRY(ft_wait(&s->ctx, s->received, COUNT));
	return s->remote ? ft_wait(&s->ctx, s->done, REMOTE) : 0;
}

static int check(struct side *s, int round)
{
	const int rank = s->proc->rank;
	/* what rank 0 has read, and what it has written */
	const struct ft_slot remote =
		place(rank ? &s->shared : &s->in, rank ? 0 : COUNT, sizes[COUNT - 1]);

	for (size_t i = 0; i < COUNT; i++) {
		const struct ft_slot slot = place(&s->in, i, sizes[i]);

		FT_TRY(ft_slot_check(&slot, slot.len, key_of(round, !s->proc->rank, i),
				     "a message of who was silent, or to it"));
	}
	return s->remote ? ft_slot_check(&remote, remote.len, key_of(round, !rank, COUNT),
					 "remote memory")
			 : 0;
}

/* ---- rank 0 ---- */

static bool stopped(pid_t pid)
{
	char path[64], state = '?';
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int) pid);
	file = fopen(path, "r");
	if (file && fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
		state = '?';
	if (file)
		fclose(file);
	return state == 'T';
}

static int hour(struct side *s)
{
	while (getenv("FT_STOPS") && !stopped(s->note.pid))
		FT_TRY(look(s));
	for (int i = 0; i < HOUR_STEPS; i++) {
		__atomic_fetch_add(&ahead, STEP_NS, __ATOMIC_RELAXED);
		FT_TRY(look(s));
	}
	FT_TRY(none_failed(s));
	if (getenv("FT_STOPS"))
		kill(s->note.pid, SIGCONT);
	return ft_oob_send(s->proc->fd[1], "", 1);
}

static int waits(struct side *s, int round)
{
	const struct ft_slot write = place(&s->out, COUNT, sizes[COUNT - 1]);
	const struct ft_slot read = place(&s->in, COUNT, sizes[COUNT - 1]);

	FT_TRY(ft_slot_fill(&write, key_of(round, 0, COUNT)));
	FT_TRY(ft_slot_arm(&read));
	for (size_t i = 0; i < REMOTE; i++) {
		s->done[i] = (struct ft_req){0};
		s->asked[i] = false;
	}
	FT_TRY(ft_oob_recv(s->proc->fd[1], &s->note, sizeof(s->note), s->proc->opts.timeout));
	FT_TRY(post_all(s, round));
	FT_TRY(hour(s));
	return wait_for_all(s);
}

/* ---- rank 1 ---- */

/* It is silent in between. In the first round it has called nothing before */
static int silent(struct side *s, int round)
{
	const struct note note = {getpid(), s->shared.key, s->shared.base};
	const struct ft_slot written = place(&s->shared, 0, sizes[COUNT - 1]);
	const struct ft_slot read = place(&s->shared, 1, sizes[COUNT - 1]);
	char byte;

	FT_TRY(ft_slot_arm(&written));
	FT_TRY(ft_slot_fill(&read, key_of(round, 1, COUNT)));
	if (round)
		FT_TRY(post_all(s, round));
	FT_TRY(ft_oob_send(s->proc->fd[0], &note, sizeof(note)));
	if (getenv("FT_STOPS"))
		raise(SIGSTOP);
	FT_TRY(ft_oob_recv(s->proc->fd[0], &byte, 1, s->proc->opts.timeout));
	ft_progress_note();
	if (!round)
		FT_TRY(post_all(s, round));
	FT_TRY(ft_wait(&s->ctx, s->sent, COUNT));
	return ft_wait(&s->ctx, s->received, COUNT);
}

static int both(struct side *s, int round)
{
	FT_TRY(s->proc->rank ? silent(s, round) : waits(s, round));
	FT_TRY(ft_barrier(s->proc, &s->ctx));
	FT_TRY(check(s, round));
	return ft_meet(s->proc);
}

static int run(struct ft_proc *proc)
{
	static struct side s; /* requests are under way until the end */

	s.proc = proc;
	FT_TRY(ft_test_hints(proc, &s.ctx));
	s.ctx.hints->caps |= FI_RMA;
	s.remote = ft_offered(&s.ctx);
	if (!s.remote)
		s.ctx.hints->caps &= ~FI_RMA;
	FT_TRY(ft_test_open(proc, &s.ctx));
	FT_TRY(ft_test_connect(proc, &s.ctx));
	s.peer = s.ctx.peer[!proc->rank];
	FT_TRY(ft_buf_alloc(&s.ctx, &s.out, proc->opts.iface, (COUNT + 1) * PLACE));
	FT_TRY(ft_buf_alloc(&s.ctx, &s.in, proc->opts.iface, (COUNT + 1) * PLACE));
	FT_TRY(ft_buf_alloc(&s.ctx, &s.shared, proc->opts.iface, REMOTE * PLACE));
	if (s.remote)
		FT_TRY(ft_buf_share(&s.ctx, &s.shared, FI_REMOTE_READ | FI_REMOTE_WRITE));
	for (int round = 0; round < 2; round++)
		FT_TRY(both(&s, round));
	ft_buf_free(&s.out);
	ft_buf_free(&s.in);
	ft_buf_free(&s.shared);
	return ft_close(&s.ctx);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose =
			"A rank that does not call libfabric for an hour, and one that waits.",
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
