/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_farewell: rank 1's endpoint is closed as soon as rank 1 sees what rank 0 has sent, or written to
 * its memory: by its queue, or by a look at the memory. Rank 0, which waits for word that it has arrived, gets it: the close sends what is owed. Then rank 1
 * closes with operations of rank 0's under way that nobody will answer, and lives on. They end all the same.
 *
 * With FT_LOSES set, packets get lost. A greeting that comes after the close resets the connection, and TCP drops what it
 * had to send again. Then rank 0 may get an error, or wait in vain; but rank 1 has all.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ft_test.h"

#define LARGEST ((size_t) 200000)
#define DATA 77
#define LEFT 4 /* operations that nobody answers */
#define IN_VAIN_US 3e6

static const size_t sizes[] = {1, 1000, LARGEST};

struct target {
	uint64_t key, base;
};

struct side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	fi_addr_t peer;
	struct ft_buf shared;
	struct target target;
	struct ft_slot slot;
	bool writes;
	bool leaves;
	bool looks;
	uint64_t flags;
	struct ft_req req;
};

static int side_open(struct side *s, struct ft_proc *proc, bool writes, bool leaves, size_t len)
{
	memset(s, 0, sizeof(*s));
	s->proc = proc;
	s->writes = writes;
	s->leaves = leaves;
	FT_TRY(ft_test_hints(proc, &s->ctx));
	if (writes)
		s->ctx.hints->caps |= FI_RMA;
	FT_TRY(ft_test_open(proc, &s->ctx));
	FT_TRY(ft_test_connect(proc, &s->ctx));
	s->peer = s->ctx.peer[!proc->rank];
	FT_TRY(ft_buf_alloc(&s->ctx, &s->shared, proc->opts.iface, LARGEST + FT_ROOM));
	if (writes)
		FT_TRY(ft_buf_share(&s->ctx, &s->shared, FI_REMOTE_WRITE));
	s->target = (struct target){s->shared.key, s->shared.base};
	s->slot = (struct ft_slot){&s->shared, 0, LARGEST + FT_ROOM, 64, len};
	return 0;
}

/* Progress may not know yet that the copy has ended which has brought the bytes. */
static int look(struct side *s)
{
	const double end = ft_usec() + 1e6 * s->proc->opts.timeout;
	int here = 0;

	FT_TRY(ft_slot_arm(&s->slot));
	FT_TRY(ft_oob_send(s->proc->fd[0], &s->target, sizeof(s->target)));
	while (!here) {
		FT_CHECK(ft_usec() < end, "a write has not come");
		FT_CHECK(ft_progress(&s->ctx) >= 0, "no progress");
		here = ft_slot_holds(&s->slot, s->slot.len, s->slot.len);
	}
	FT_CHECK(here == 1, "looking at the memory");
	FT_CHECK(!fi_close(&s->ctx.ep->fid), "the endpoint does not close");
	s->ctx.ep = NULL;
	return ft_slot_check(&s->slot, s->slot.len, s->slot.len, "what has come");
}

/* Nothing is called between what says that all is here and the close. */
static int target(struct side *s)
{
	struct fi_cq_tagged_entry entry;
	struct ft_req req = {0};
	struct ft_op op = {.call = FT_RECV, .tagged = true, .addr = s->peer, .req = &req};
	char byte;
	ssize_t n;

	FT_TRY(ft_slot_arm(&s->slot));
	ft_op_buf(&op, &s->shared, s->slot.off, s->slot.len);
	if (!s->writes)
		FT_TRY(ft_post(&s->ctx, &op));
	FT_TRY(ft_oob_send(s->proc->fd[0], &s->target, sizeof(s->target)));
	while ((n = fi_cq_read(s->ctx.cq, &entry, 1)) == -FI_EAGAIN)
		FT_TRY(ft_idle(&s->ctx));
	if (s->leaves)
		FT_TRY(ft_oob_recv(s->proc->fd[0], &byte, 1, s->proc->opts.timeout));
	FT_CHECK(!fi_close(&s->ctx.ep->fid), "the endpoint does not close");
	s->ctx.ep = NULL;
	FT_CHECK(n == 1 && (!s->writes ||
			    (entry.flags & FI_REMOTE_CQ_DATA && entry.data == DATA)),
		 "reading the queue: %zd", n);
	return ft_slot_check(&s->slot, s->slot.len, s->slot.len, "what has come");
}

static ssize_t post_once(struct side *s, struct ft_req *req)
{
	void *desc = s->shared.desc;
	const struct iovec iov = {s->shared.addr + s->slot.off, s->slot.len};
	const struct fi_rma_iov to = {s->target.base + s->slot.off, s->slot.len, s->target.key};
	const struct fi_msg_rma rma = {&iov, &desc, 1, s->peer, &to, 1, req, DATA};
	const struct fi_msg_tagged msg = {&iov, &desc, 1, s->peer, 0, 0, req, 0};
	const uint64_t flags = FI_COMPLETION | FI_DELIVERY_COMPLETE;

	if (s->looks)
		return fi_writemsg(s->ctx.ep, &rma, FI_COMPLETION | s->flags);
	if (s->writes)
		return fi_writemsg(s->ctx.ep, &rma, flags | FI_REMOTE_CQ_DATA);
	return fi_tsendmsg(s->ctx.ep, &msg, flags);
}

static int post(struct side *s, struct ft_req *req)
{
	ssize_t ret;

	while ((ret = post_once(s, req)) == -FI_EAGAIN)
		FT_CHECK(ft_progress(&s->ctx) >= 0, "no progress");
	return ret ? ft_fail((int) ret, "posting", "%zu bytes", s->slot.len) : 0;
}

/* Rank 1 makes no progress any more */
static int leave(struct side *s)
{
	struct ft_req req[LEFT] = {0};

	for (size_t i = 0; i < LEFT; i++)
		FT_TRY(post(s, &req[i]));
	/* who has never answered is not known to be gone, and answers may get lost there */
	if (ft_link_there())
		FT_TRY(ft_progress_for(&s->ctx, 1e6));
	FT_TRY(ft_oob_send(s->proc->fd[1], "", 1));
	return ft_wait_any_result(&s->ctx, req, LEFT);
}

/* Rank 1 has what it waited for, and has closed: so what is not here soon got lost. */
static int wait_lossy(struct side *s)
{
	const struct ft_req *req = &s->req;
	const double end = ft_usec() + IN_VAIN_US;

	while (!req->done && ft_usec() < end)
		FT_TRY(ft_progress_for(&s->ctx, 1e4));
	FT_CHECK(!req->err || abs(req->err) == FI_ECONNRESET || abs(req->err) == FI_ECANCELED,
		 "word of the arrival ended with %s", fi_strerror(abs(req->err)));
	return 0;
}

static int initiator(struct side *s)
{
	FT_TRY(ft_slot_fill(&s->slot, s->slot.len));
	FT_TRY(ft_oob_recv(s->proc->fd[1], &s->target, sizeof(s->target),
			   s->proc->opts.timeout));
	FT_TRY(post(s, &s->req));
	if (s->leaves || !getenv("FT_LOSES"))
		FT_TRY(ft_wait(&s->ctx, &s->req, 1));
	return s->leaves ? leave(s) : 0;
}

static int side_close(struct side *s)
{
	if (getenv("FT_LOSES")) {
		FT_TRY(ft_barrier(s->proc, &s->ctx));
		FT_TRY(s->proc->rank ? 0 : wait_lossy(s));
	}
	FT_TRY(ft_meet(s->proc));
	ft_buf_free(&s->shared);
	return ft_close(&s->ctx);
}

static int way(struct ft_proc *proc, bool writes, bool leaves, size_t len)
{
	struct side s;

	FT_TRY(side_open(&s, proc, writes, leaves, len));
	FT_TRY(proc->rank ? target(&s) : initiator(&s));
	return side_close(&s);
}

/* What is seen in the memory has arrived, and its writer hears so. */
static int seen(struct ft_proc *proc, uint64_t flags, size_t len)
{
	struct side s;

	FT_TRY(side_open(&s, proc, true, false, len));
	s.looks = true;
	s.flags = flags;
	FT_TRY(proc->rank ? look(&s) : initiator(&s));
	return side_close(&s);
}

/* Without our protocol the core ends what is left, or keeps it */
static bool ends(const struct ft_opts *opts)
{
	return opts->prov && strstr(opts->prov, "ofi_p2p") && opts->iface != FI_HMEM_SYSTEM;
}

static int run(struct ft_proc *proc)
{
	for (size_t i = 0; i < 2 * FT_COUNT(sizes); i++)
		FT_TRY(way(proc, i % 2, false, sizes[i / 2]));
	for (size_t i = 0; i < 2 * FT_COUNT(sizes); i++)
		FT_TRY(seen(proc, i % 2 ? FI_DELIVERY_COMPLETE : 0, sizes[i / 2]));
	for (int writes = 0; writes < 2 && ends(&proc->opts); writes++)
		FT_TRY(way(proc, writes, true, LARGEST));
	return 0;
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "What is owed to a peer when an endpoint is closed.",
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
