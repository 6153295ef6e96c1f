/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_gpufails: one end's GPU fails amid an operation, at each call of the driver in turn. From that call on all of
 * them fail, until the operation has ended. It has to end at both ends: with an error, or with the right bytes. What
 * a call refuses was never begun; the other end, which waits for it, takes its receive back. Afterwards both ends
 * exchange messages as before.
 */
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "ft_test.h"

#define MOST ((size_t) 1500001)
#define ROOM (MOST + FT_ROOM)
#define COUNT 4
/* Nothing here takes a second. An operation that has not ended by then [us] never does. */
#define PATIENCE 10e6

enum kind {
	MESSAGE,
	WRITE,
	READ,
	ATOMIC,
};

/* What rank 0 does with rank 1: so many at a time, of so many bytes */
static const struct op {
	const char *name;
	enum kind kind;
	size_t len;
	size_t count;
	uint64_t flags;
} ops[] = {
	{"a short message", MESSAGE, 8, 1, 0},
	{"messages of middling length", MESSAGE, 30000, COUNT, 0},
	{"a long message", MESSAGE, 300000, 1, 0},
	{"a long message that is delivered", MESSAGE, 300000, 1, FI_DELIVERY_COMPLETE},
	{"a very long message", MESSAGE, MOST, 1, 0},
	{"a short write", WRITE, 100, 1, 0},
	{"a write of middling length", WRITE, 30000, 1, 0},
	{"a long write", WRITE, 300000, 1, 0},
	{"a short read", READ, 100, 1, 0},
	{"a read of middling length", READ, 30000, 1, 0},
	{"a long read", READ, 300000, 1, 0},
	{"an atomic operation", ATOMIC, 64, 1, 0},
};

struct note {
	uint64_t key, base;
};

/* One operation after the other, at one end */
struct side {
	struct ft_pair pair;
	struct note far[2];
	const struct op *op;
	struct ft_buf *buf;
	const struct note *there;
	struct ft_req req[COUNT];
	uint64_t round;
};

static bool begins(const struct side *s)
{
	return s->pair.proc->rank == 0;
}

static struct ft_slot slot_of(const struct side *s, size_t i)
{
	const size_t room = s->op->len + FT_ROOM;

	return (struct ft_slot){s->buf, i * room, room, i * room + 64, s->op->len};
}

/* Has this end the bytes that are to come to the other one? */
static bool gives(const struct side *s)
{
	return s->op->kind == ATOMIC || begins(s) == (s->op->kind != READ);
}

static int prepare(struct side *s)
{
	for (size_t i = 0; i < s->op->count; i++) {
		const struct ft_slot slot = slot_of(s, i);

		FT_TRY(gives(s) ? ft_slot_fill(&slot, s->round + i) : ft_slot_arm(&slot));
	}
	memset(s->req, 0, sizeof(s->req));
	return 0;
}

static ssize_t post_message(struct side *s, size_t i)
{
	const struct ft_slot slot = slot_of(s, i);
	struct ft_op op = {
		.call = begins(s) ? FT_SENDMSG : FT_RECVMSG,
		.tagged = true,
		.addr = s->pair.peer,
		.tag = s->round + i,
		.flags = FI_COMPLETION | (begins(s) ? s->op->flags : 0),
		.req = &s->req[i],
	};

	ft_op_buf(&op, s->buf, slot.off, slot.len);
	return ft_post_once(&s->pair.ctx, &op);
}

/* The core's own write has ended for its initiator when it is on its way, unless it is to be delivered */
static ssize_t post_write(struct side *s, const struct iovec *iov,
			  const struct fi_rma_iov *there)
{
	const struct fi_msg_rma msg = {
		.msg_iov = iov,
		.desc = &s->buf->desc,
		.iov_count = 1,
		.addr = s->pair.peer,
		.rma_iov = there,
		.rma_iov_count = 1,
		.context = s->req,
	};

	return fi_writemsg(s->pair.ctx.ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE);
}

static ssize_t post_remote(struct side *s)
{
	const struct ft_slot slot = slot_of(s, 0);
	const struct iovec iov = {s->buf->addr + slot.off, slot.len};
	const struct fi_rma_iov there = {s->there->base + slot.off, slot.len, s->there->key};
	struct fid_ep *ep = s->pair.ctx.ep;

	switch (s->op->kind) {
	case WRITE:
		return post_write(s, &iov, &there);
	case READ:
		return fi_read(ep, iov.iov_base, slot.len, s->buf->desc, s->pair.peer,
			       there.addr, there.key, s->req);
	default:
		return fi_fetch_atomic(ep, iov.iov_base, slot.len / 8, s->buf->desc,
				       iov.iov_base, s->buf->desc, s->pair.peer, there.addr,
				       there.key, FI_UINT64, FI_ATOMIC_READ, s->req);
	}
}

static ssize_t post(struct side *s, size_t i)
{
	const double since = ft_usec();
	ssize_t ret;

	do {
		ret = s->op->kind == MESSAGE ? post_message(s, i) : post_remote(s);
		if (ret == -FI_EAGAIN)
			FT_TRY(ft_progress(&s->pair.ctx) < 0 ? -FI_EOTHER : 0);
		FT_CHECK(ft_usec() - since < PATIENCE, "%s is never begun", s->op->name);
	} while (ret == -FI_EAGAIN);
	return ret;
}

static bool over(const struct side *s)
{
	const size_t count = begins(s) || s->op->kind == MESSAGE ? s->op->count : 0;

	for (size_t i = 0; i < count; i++)
		if (!s->req[i].done)
			return false;
	return true;
}

/*
 * Until it has ended here and there. Each end says so; before, rank 0 says how many it has begun, for which the
 * receives stay.
 */
static int wait_both(struct side *s)
{
	const int fd = s->pair.proc->fd[!s->pair.proc->rank];
	const double since = ft_usec();
	const unsigned char ended = COUNT + 1;
	bool said = false, heard = false;
	unsigned char byte;

	while (!said || !heard) {
		FT_TRY(ft_progress(&s->pair.ctx) < 0 ? -FI_EOTHER : 0);
		if (!said && over(s)) {
			FT_TRY(ft_oob_send(fd, &ended, 1));
			said = true;
		}
		FT_CHECK(said || ft_usec() - since < PATIENCE, "%s never ends", s->op->name);
		/* What follows the other end's word is not a word of its own */
		if (heard || recv(fd, &byte, 1, MSG_DONTWAIT) != 1)
			continue;
		heard = byte == ended;
		for (size_t i = byte; s->op->kind == MESSAGE && i < s->op->count; i++)
			fi_cancel(&s->pair.ctx.ep->fid, &s->req[i]);
	}
	return 0;
}

/* What has ended well is right. A write of which its initiator was told no error is there. */
static int check(const struct side *s, bool well)
{
	for (size_t i = 0; i < s->op->count; i++) {
		const struct ft_slot slot = slot_of(s, i);
		const bool mine = begins(s) || s->op->kind == MESSAGE ? !s->req[i].err : well;

		if (!gives(s) && mine)
			FT_TRY(ft_slot_check(&slot, slot.len, s->round + i, s->op->name));
	}
	return 0;
}

/* The GPU of the rank @fails fails from the @nth call on. @hit: there were so many */
static int round_of(struct side *s, int fails, unsigned long nth, bool *hit)
{
	struct ft_proc *proc = s->pair.proc;
	const int fd = proc->fd[!proc->rank];
	struct {
		unsigned long failed;
		int err;
	} mine = {0, 0}, far;
	unsigned char begun = 0;
	ssize_t ret = 0;

	s->round += COUNT;
	FT_TRY(prepare(s));
	for (size_t i = 0; !begins(s) && s->op->kind == MESSAGE && i < s->op->count; i++)
		FT_TRY(post(s, i));
	FT_TRY(ft_barrier(proc, &s->pair.ctx));
	if (proc->rank == fails)
		FT_TRY(ft_cuda_break(nth, &mine.failed));
	FT_TRY(ft_meet(proc));
	while (begins(s) && begun < s->op->count && !ret) {
		ret = post(s, begun);
		begun += !ret;
	}
	for (size_t i = begun; begins(s) && i < s->op->count; i++)
		s->req[i] = (struct ft_req){.done = true, .err = (int) -ret};
	if (begins(s))
		FT_TRY(ft_oob_send(fd, &begun, 1));
	FT_TRY(wait_both(s));
	if (proc->rank == fails)
		FT_TRY(ft_cuda_break(0, &mine.failed));
	mine.err = s->req[0].err;
	FT_TRY(ft_oob_send(fd, &mine, sizeof(mine)));
	FT_TRY(ft_oob_recv(fd, &far, sizeof(far), proc->opts.timeout));
	*hit = mine.failed || far.failed;
	return check(s, !far.err);
}

static int wait_one(struct ft_pair *pair, struct ft_req *req)
{
	return ft_wait(&pair->ctx, req, 1);
}

/* Both know each other, and nothing stands in the way */
static int go_on(struct side *s)
{
	FT_TRY(ft_pair_transfer(&s->pair, 1, 1, 100, true, wait_one));
	return ft_pair_transfer(&s->pair, 1, 1, 300000, true, wait_one);
}

/* @kind: the memory of the end whose GPU lives: host, or the device's */
static int sweep(struct side *s, int fails, size_t kind)
{
	const size_t mine = s->pair.proc->rank == fails ? 1 : kind;
	const size_t theirs = s->pair.proc->rank == fails ? kind : 1;
	unsigned long nth = 0;
	bool hit;

	s->buf = &s->pair.buf[mine];
	s->there = &s->far[theirs];
	do {
		nth++;
		FT_TRY(round_of(s, fails, nth, &hit));
	} while (hit);
	if (begins(s))
		printf("%s: rank %d's GPU failed at each of %lu calls\n", s->op->name, fails,
		       nth - 1);
	return go_on(s);
}

static int share(struct side *s)
{
	const int fd = s->pair.proc->fd[!s->pair.proc->rank];
	struct note mine[2];

	for (size_t i = 0; i < 2; i++) {
		FT_TRY(ft_buf_share(&s->pair.ctx, &s->pair.buf[i],
				    FI_REMOTE_READ | FI_REMOTE_WRITE));
		mine[i] = (struct note){s->pair.buf[i].key, s->pair.buf[i].base};
	}
	FT_TRY(ft_oob_send(fd, mine, sizeof(mine)));
	return ft_oob_recv(fd, s->far, sizeof(s->far), s->pair.proc->opts.timeout);
}

static int run(struct ft_proc *proc)
{
	struct side s = {.round = 0};
	unsigned long failed;

	if (proc->opts.iface != FI_HMEM_CUDA)
		return ft_skip("needs CUDA memory (-D cuda)");
	/* both ranks skip where nothing can be broken */
	FT_TRY(ft_cuda_break(0, &failed));
	FT_TRY(ft_pair_hints(&s.pair, proc));
	s.pair.ctx.hints->caps |= FI_RMA | FI_ATOMIC;
	if (!ft_offered(&s.pair.ctx))
		s.pair.ctx.hints->caps &= ~FI_ATOMIC;
	FT_TRY(ft_pair_open(&s.pair, ROOM));
	FT_TRY(share(&s));
	FT_TRY(go_on(&s));
	for (size_t i = 0; i < FT_COUNT(ops); i++) {
		s.op = &ops[i];
		if (s.op->kind == ATOMIC && !(s.pair.ctx.hints->caps & FI_ATOMIC))
			continue;
		for (int fails = 0; fails < 2; fails++)
			for (size_t kind = 0; kind < 2; kind++)
				if (!proc->opts.quick || kind == (i + fails) % 2)
					FT_TRY(sweep(&s, fails, kind));
	}
	FT_TRY(ft_barrier(proc, &s.pair.ctx));
	return ft_pair_close(&s.pair, NULL, 0);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "One end's GPU fails amid an operation.",
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
