/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_skew: this build of the layered provider and one of release 1.0.0, which speaks wire version 8 and whose
 * plugins lie in FT_OLD_PLUGINS. All messages arrive, as whole ones. Operations on device memory of the other end are
 * refused at both ends. Both ends say what to do, and nothing waits for ever.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ft_test.h"

enum { TODAY, OLD, RANKS };

#define TAG 77
#define SHORT_MAX ((size_t) 4096)
#define LARGEST ((size_t) 1048577)
#define ADVICE "long messages travel whole. Install the same release on both ends"
#define BURST 24
#define ROOM ((size_t) BURST * (100000 + FT_ROOM)) /* more than LARGEST, too */

static const size_t sizes[] = {0, 1, SHORT_MAX, 65537, LARGEST};

struct target {
	uint64_t key, base;
};

struct side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	struct ft_buf buf[2], shared;
	size_t kinds;
	struct target target;
	int log, stderr_fd;
};

static const char *const names[RANKS] = {"today's", "the old one"};

/* ---- the log ---- */

/* What goes to stderr can be read again */
static int log_begin(struct side *s)
{
	setenv("FI_LOG_LEVEL", "warn", 1);
	setenv("FI_LOG_PROV", "ofi_p2p", 1);
	s->stderr_fd = dup(STDERR_FILENO);
	s->log = memfd_create("log", MFD_CLOEXEC);
	if (s->stderr_fd < 0 || s->log < 0 || dup2(s->log, STDERR_FILENO) < 0)
		return ft_errno("memfd_create", "for the log");
	return 0;
}

/* Shows the log. Does it say what to do? */
static bool log_end(struct side *s)
{
	static char text[1 << 16];
	ssize_t len;

	fflush(stderr);
	dup2(s->stderr_fd, STDERR_FILENO);
	len = pread(s->log, text, sizeof text - 1, 0);
	text[len > 0 ? len : 0] = '\0';
	fputs(text, stderr);
	return strstr(text, ADVICE) != NULL;
}

/* ---- messages ---- */

/* One end of a message */
struct message {
	struct ft_slot slot;
	struct ft_req req;
};

/* Posts this rank's end of a message from @from */
static int message_begin(struct side *s, struct message *m, int from, size_t kind_from,
			 size_t kind_to, size_t at, size_t len, bool tagged)
{
	const bool sends = s->proc->rank == from;
	const struct ft_buf *buf = &s->buf[sends ? kind_from : kind_to];
	struct ft_op op = {
		.call = sends ? FT_SEND : FT_RECV,
		.tagged = tagged,
		.addr = s->ctx.peer[!s->proc->rank],
		.tag = TAG,
		.req = &m->req,
	};

	*m = (struct message){.slot = {buf, at, len + FT_ROOM, at + 64, len}};
	FT_TRY(sends ? ft_slot_fill(&m->slot, at + len) : ft_slot_arm(&m->slot));
	ft_op_buf(&op, buf, m->slot.off, len);
	return ft_post(&s->ctx, &op);
}

static int message_end(struct side *s, struct message *m, int from)
{
	const bool sends = s->proc->rank == from;
	const size_t len = m->slot.len;

	FT_TRY(ft_wait(&s->ctx, &m->req, 1));
	if (sends)
		return 0;
	FT_CHECK(m->req.comp.len == len, "%zu bytes of %zu from %s", m->req.comp.len, len,
		 names[from]);
	return ft_slot_check(&m->slot, len, m->slot.base + len, names[from]);
}

static int message(struct side *s, int from, size_t kind_from, size_t kind_to, size_t len,
		   bool tagged)
{
	struct message m;

	FT_TRY(message_begin(s, &m, from, kind_from, kind_to, 0, len, tagged));
	return message_end(s, &m, from);
}

/* Many at once, of all lengths and from either memory: in order */
static int burst(struct side *s, int from)
{
	static const size_t lens[] = {65537, 1, 0, 70001, SHORT_MAX, 100000};
	struct message messages[BURST];
	size_t at = 0;

	for (size_t i = 0; i < BURST; i++) {
		const size_t len = lens[i % FT_COUNT(lens)];

		FT_TRY(message_begin(s, &messages[i], from, i / 2 % s->kinds, i / 3 % s->kinds,
				     at, len, true));
		at += len + FT_ROOM;
	}
	for (size_t i = 0; i < BURST; i++)
		FT_TRY(message_end(s, &messages[i], from));
	return 0;
}

static int messages(struct side *s, int from)
{
	FT_TRY(burst(s, from));
	for (size_t i = 0; i < FT_COUNT(sizes); i++)
		for (size_t kinds = 0; kinds < 4; kinds++)
			if (kinds / 2 < s->kinds && kinds % 2 < s->kinds)
				FT_TRY(message(s, from, kinds / 2, kinds % 2, sizes[i],
					       (i + kinds) % 2));
	return ft_barrier(s->proc, &s->ctx);
}

/* ---- remote memory ---- */

enum rma { WRITE, READ, ADD, KINDS };

static ssize_t rma_post(struct side *s, enum rma kind, size_t len, struct ft_req *req)
{
	const struct ft_buf *local = &s->buf[0];
	const fi_addr_t peer = s->ctx.peer[!s->proc->rank];

	if (kind == WRITE)
		return fi_write(s->ctx.ep, local->addr, len, local->desc, peer, s->target.base,
				s->target.key, req);
	if (kind == READ)
		return fi_read(s->ctx.ep, local->addr, len, local->desc, peer, s->target.base,
			       s->target.key, req);
	return fi_atomic(s->ctx.ep, local->addr, 1, local->desc, peer, s->target.base,
			 s->target.key, FI_UINT64, FI_SUM, req);
}

/* An operation on the device memory of the other end: refused, when posted or later. */
static int rma(struct side *s, enum rma kind, size_t len)
{
	struct ft_req req = {0};
	ssize_t ret;
	int n;

	while ((ret = rma_post(s, kind, len, &req)) == -FI_EAGAIN) {
		n = ft_progress(&s->ctx);
		FT_TRY(n < 0 ? n : 0);
		FT_TRY(n ? 0 : ft_idle(&s->ctx));
	}
	if (!ret) {
		FT_TRY(ft_wait_any_result(&s->ctx, &req, 1));
		ret = -req.err;
	}
	FT_CHECK(ret == -FI_EOPNOTSUPP, "operation %d, %zu bytes, asked for by %s: %s", kind,
		 len, names[s->proc->rank], fi_strerror((int) -ret));
	return 0;
}

static int rma_share(struct side *s)
{
	const int fd = s->proc->fd[!s->proc->rank];
	struct target mine;

	FT_TRY(ft_buf_share(&s->ctx, &s->shared, FI_REMOTE_READ | FI_REMOTE_WRITE));
	mine = (struct target){s->shared.key, s->shared.base};
	FT_TRY(ft_oob_send(fd, &mine, sizeof mine));
	return ft_oob_recv(fd, &s->target, sizeof s->target, s->proc->opts.timeout);
}

/* Rank @from asks for the other one's memory, which does not change. */
static int rmas(struct side *s, int from)
{
	static const size_t lens[] = {8, SHORT_MAX + 1, LARGEST};
	const struct ft_slot slot = {&s->shared, 0, LARGEST + FT_ROOM, 0, LARGEST};

	if (s->proc->rank != from)
		FT_TRY(ft_slot_fill(&slot, from));
	FT_TRY(ft_barrier(s->proc, &s->ctx));
	for (int kind = WRITE; s->proc->rank == from && kind < KINDS; kind++)
		for (size_t i = 0; i < (kind == ADD ? 1 : FT_COUNT(lens)); i++)
			FT_TRY(rma(s, kind, lens[i]));
	FT_TRY(ft_barrier(s->proc, &s->ctx));
	return s->proc->rank == from ? 0 : ft_verify(&s->shared, 0, LARGEST, from);
}

/* ---- the test ---- */

static int play(struct side *s)
{
	FT_TRY(ft_test_hints(s->proc, &s->ctx));
	if (s->kinds == 2)
		s->ctx.hints->caps |= FI_RMA | FI_ATOMIC;
	FT_TRY(ft_test_open(s->proc, &s->ctx));
	FT_TRY(ft_test_connect(s->proc, &s->ctx));
	for (size_t i = 0; i < s->kinds; i++)
		FT_TRY(ft_buf_alloc(&s->ctx, &s->buf[i],
				    i ? s->proc->opts.iface : FI_HMEM_SYSTEM, ROOM));
	for (int from = TODAY; from < RANKS; from++)
		FT_TRY(messages(s, from));
	if (s->kinds == 2) {
		FT_TRY(ft_buf_alloc(&s->ctx, &s->shared, s->proc->opts.iface,
				    LARGEST + FT_ROOM));
		FT_TRY(rma_share(s));
		for (int from = TODAY; from < RANKS; from++)
			FT_TRY(rmas(s, from));
	}
	/* and all goes on */
	for (int from = TODAY; from < RANKS; from++)
		FT_TRY(message(s, from, 0, 0, LARGEST, true));
	FT_TRY(ft_barrier(s->proc, &s->ctx));
	ft_buf_free(&s->shared);
	for (size_t i = 0; i < s->kinds; i++)
		ft_buf_free(&s->buf[i]);
	return ft_close(&s->ctx);
}

static int run(struct ft_proc *proc)
{
	const char *old = getenv("FT_OLD_PLUGINS");
	static struct side s;
	bool advised;
	int ret;

	if (!old)
		return ft_skip("FT_OLD_PLUGINS names no plugins of release 1.0.0");
	if (proc->rank == OLD)
		setenv("FI_PROVIDER_PATH", old, 1);
	s.proc = proc;
	s.kinds = proc->opts.iface == FI_HMEM_SYSTEM ? 1 : 2;
	FT_TRY(log_begin(&s));
	ret = play(&s);
	advised = log_end(&s);
	FT_TRY(ret);
	FT_CHECK(advised || s.kinds == 1, "the log of %s does not say what to do",
		 names[proc->rank]);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "This build and one of release 1.0.0.",
		.ranks = RANKS,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
