/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_apart: queues apart from each other. Rank 0 reads only the one for what it sends, or
 * sleeps in it, while rank 1 writes to its device's memory: what that takes comes to the other
 * queue. And it has sent a message which rank 1 receives only after all that: it is in nothing's
 * way.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "ft_test.h"

#define LARGEST ((size_t) 200000)
#define SLEEP_MS 100

static const size_t sizes[] = {1, 1000, 70001, LARGEST};

/* Rank 0's memory, as rank 1 names it */
struct target {
	uint64_t key, base;
};

struct side {
	struct ft_pair pair;
	struct fid_cq *rx_cq; /* pair.ctx.cq is for sends */
	struct ft_buf shared;
	struct target target;
	bool sleeps;
};

static int bind_rx_cq(struct ft_ctx *ctx)
{
	struct side *s = ctx->test;

	return ft_rx_cq_open(ctx, &s->rx_cq);
}

static int side_open(struct side *s, struct ft_proc *proc, bool sleeps)
{
	struct ft_ctx *ctx = &s->pair.ctx;

	memset(s, 0, sizeof(*s));
	s->sleeps = sleeps;
	FT_TRY(ft_pair_hints(&s->pair, proc));
	ctx->hints->caps |= FI_RMA;
	ctx->cq_attr.wait_obj = sleeps ? FI_WAIT_UNSPEC : FI_WAIT_NONE;
	ctx->tx_only = true;
	ctx->prepare = bind_rx_cq;
	ctx->test = s;
	FT_TRY(ft_pair_open(&s->pair, LARGEST));
	FT_TRY(ft_buf_alloc(ctx, &s->shared, proc->opts.iface, LARGEST + FT_ROOM));
	FT_TRY(ft_buf_share(ctx, &s->shared, FI_REMOTE_WRITE));
	s->target = (struct target){s->shared.key, s->shared.base};
	return 0;
}

static int side_close(struct side *s)
{
	struct fid *rx_cq = &s->rx_cq->fid;

	FT_TRY(ft_meet(s->pair.proc));
	ft_buf_free(&s->shared);
	return ft_pair_close(&s->pair, &rx_cq, 1);
}

static struct ft_slot slot_of(const struct ft_buf *buf, size_t len)
{
	return (struct ft_slot){buf, 0, LARGEST + FT_ROOM, 64, len};
}

/* From host to host, and rank 1's to receive. Without a tag: net and tcp keep some of those with */
static int post_message(struct side *s, struct ft_req *req)
{
	const bool sends = !s->pair.proc->rank;
	const struct ft_slot slot = slot_of(&s->pair.buf[0], 8);
	struct ft_op op = {
		.call = sends ? FT_SENDMSG : FT_RECV,
		.addr = s->pair.peer,
		.flags = sends ? FI_COMPLETION : 0,
		.req = req,
	};

	FT_TRY(sends ? ft_slot_fill(&slot, 1) : ft_slot_arm(&slot));
	ft_op_buf(&op, slot.buf, slot.off, slot.len);
	return ft_post(&s->pair.ctx, &op);
}

/* Reads the one queue, until the peer's byte comes by the socket or, without @fd, @req has ended */
static int read_one(struct side *s, struct fid_cq *cq, const int *fd, struct ft_req *req)
{
	struct fi_cq_tagged_entry entry;
	struct pollfd said = {.fd = fd ? *fd : -1, .events = POLLIN};
	ssize_t n;

	while (fd ? !poll(&said, 1, 0) : !req->done) {
		n = s->sleeps ? fi_cq_sread(cq, &entry, 1, NULL, SLEEP_MS)
			      : fi_cq_read(cq, &entry, 1);
		FT_CHECK(n == 1 || n == -FI_EAGAIN, "reading one queue: %zd", n);
		FT_CHECK(n < 0 || entry.op_context == req, "a completion of something else");
		req->done |= n == 1;
	}
	ft_progress_note();
	return 0;
}

static int target(struct side *s)
{
	const int fd = s->pair.proc->fd[1];
	struct ft_req req = {0};
	struct ft_slot slot;
	char what[64], byte;

	FT_TRY(ft_oob_send(fd, &s->target, sizeof(s->target)));
	FT_TRY(post_message(s, &req));
	for (size_t i = 0; i < FT_COUNT(sizes); i++) {
		slot = slot_of(&s->shared, sizes[i]);
		FT_TRY(ft_slot_arm(&slot));
		FT_TRY(ft_oob_send(fd, "", 1));
		FT_TRY(read_one(s, s->pair.ctx.cq, &fd, &req));
		FT_TRY(ft_oob_recv(fd, &byte, 1, s->pair.proc->opts.timeout));
		snprintf(what, sizeof(what), "%zu bytes written", slot.len);
		FT_TRY(ft_slot_check(&slot, slot.len, i, what));
	}
	return read_one(s, s->pair.ctx.cq, NULL, &req);
}

/* The peer's byte, which may have to wait for a connection that takes our progress */
static int hear(struct side *s)
{
	const int fd = s->pair.proc->fd[0];
	struct pollfd said = {.fd = fd, .events = POLLIN};
	char byte;

	while (!poll(&said, 1, 0)) {
		if (ft_progress(&s->pair.ctx) < 0)
			return -FI_EOTHER;
		FT_TRY(ft_idle(&s->pair.ctx));
	}
	ft_progress_note();
	return ft_oob_recv(fd, &byte, 1, s->pair.proc->opts.timeout);
}

static int write_one(struct side *s, const struct ft_slot *slot)
{
	struct ft_req req = {0};
	void *desc = slot->buf->desc;
	const struct iovec iov = {slot->buf->addr + slot->off, slot->len};
	const struct fi_rma_iov remote = {s->target.base + slot->off, slot->len, s->target.key};
	const struct fi_msg_rma msg = {&iov, &desc, 1, s->pair.peer, &remote, 1, &req, 0};
	ssize_t ret;

	while ((ret = fi_writemsg(s->pair.ctx.ep, &msg,
				  FI_COMPLETION | FI_DELIVERY_COMPLETE)) == -FI_EAGAIN) {
		if (ft_progress(&s->pair.ctx) < 0)
			return -FI_EOTHER;
	}
	if (ret)
		return ft_fail((int) ret, "fi_writemsg", "%zu bytes", slot->len);
	return ft_wait(&s->pair.ctx, &req, 1);
}

static int initiator(struct side *s)
{
	const struct ft_buf *device = &s->pair.buf[s->pair.kind_count - 1];
	const int fd = s->pair.proc->fd[0];
	struct ft_req req = {0};
	struct ft_slot slot;

	FT_TRY(ft_oob_recv(fd, &s->target, sizeof(s->target), s->pair.proc->opts.timeout));
	for (size_t i = 0; i < FT_COUNT(sizes); i++) {
		slot = slot_of(device, sizes[i]);
		FT_TRY(hear(s));
		FT_TRY(ft_slot_fill(&slot, i));
		FT_TRY(write_one(s, &slot));
		FT_TRY(ft_oob_send(fd, "", 1));
	}
	FT_TRY(post_message(s, &req));
	FT_TRY(read_one(s, s->rx_cq, NULL, &req));
	slot = slot_of(&s->pair.buf[0], 8);
	return ft_slot_check(&slot, slot.len, 1, "the message");
}

static int way(struct ft_proc *proc, bool sleeps)
{
	struct side s;

	FT_TRY(side_open(&s, proc, sleeps));
	FT_TRY(proc->rank ? initiator(&s) : target(&s));
	return side_close(&s);
}

static int run(struct ft_proc *proc)
{
	FT_TRY(way(proc, false));
	return way(proc, true);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Reading one queue while what a peer asks for comes to another.",
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
