/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_faults: a little of everything, for machines on which something fails (fabtests/faults).
 *
 * An operation may end with an error. Then its rank tells the other one, which need not wait for
 * what can come no more, and both close all that they have, with operations under way. But
 * nobody may wait for long for an operation that nobody was told about; what is received must be
 * right; and everything must close.
 *
 * FAULTS_RANK says for which rank the faults of the environment are; without it they are for both.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>

#include "ft_test.h"

#define LONG 1048577
#define ROOM (LONG + FT_ROOM)
#define WINDOW 8
#define SLOT (100000 + FT_ROOM)
#define MULTI 300000
#define ATOMS 16
#define PATIENCE_S 8

/* The operation cannot go on, and that is known to both ranks, or soon will be */
#define OVER 1

/* What the ranks tell each other between steps */
struct note {
	char told;
	struct ft_name name;
	uint64_t key, base;
};

struct side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	struct ft_buf device, host;
	struct note other;
	fi_addr_t peer;
	bool told;
};

/* ---- who was told ---- */

static int told(struct side *s, int err, const char *what)
{
	if (err == -FI_EOTHER)
		return err;
	printf("[%d] told: %s: %s\n", s->proc->rank, what, fi_strerror(err < 0 ? -err : err));
	s->told = true;
	return OVER;
}

/* Has the other rank been told, or has it ended? Its note stays to be read */
static bool other_told(const struct side *s)
{
	char byte;
	ssize_t got = recv(s->proc->fd[!s->proc->rank], &byte, 1, MSG_PEEK | MSG_DONTWAIT);

	return !got || (got == 1 && byte);
}

static int late(double since, const char *what)
{
	FT_CHECK(ft_usec() - since < PATIENCE_S * 1e6,
		 "hangs: %s, and nobody is told of an error", what);
	return 0;
}

/* ---- waiting ---- */

static int meet(struct side *s, const struct note *mine, const char *what)
{
	struct pollfd pfd = {.fd = s->proc->fd[!s->proc->rank], .events = POLLIN};
	struct note note = *mine;
	double since = ft_usec();
	int n;

	note.told = s->told;
	FT_TRY(ft_oob_send(pfd.fd, &note, sizeof(note)));
	while (poll(&pfd, 1, 0) <= 0) {
		n = s->ctx.cq ? ft_progress(&s->ctx) : 0;
		if (n < 0 && !s->told)
			told(s, n, "fi_cq_read");
		FT_TRY(late(since, what));
	}
	FT_TRY(ft_oob_recv(pfd.fd, &s->other, sizeof(s->other), PATIENCE_S));
	return s->told || s->other.told ? OVER : 0;
}

static int wait_for(struct side *s, struct ft_req *req, size_t count, const char *what)
{
	double since = ft_usec();

	for (size_t i = 0; i < count; i++) {
		while (!req[i].done) {
			int n = ft_progress(&s->ctx);

			if (n < 0)
				return told(s, n, "fi_cq_read");
			if (!n && other_told(s))
				return OVER;
			FT_TRY(late(since, what));
		}
	}
	for (size_t i = 0; i < count; i++)
		if (req[i].err)
			return told(s, req[i].err, what);
	return 0;
}

/* Repeats a call that has no room, and makes progress. 0, OVER, or an error */
#define POST(s, what, call)                                                                    \
	do {                                                                                   \
		const double began = ft_usec();                                                \
		ssize_t posted;                                                                \
                                                                                               \
		while ((posted = (call)) == -FI_EAGAIN) {                                      \
			int n = ft_progress(&(s)->ctx);                                        \
                                                                                               \
			if (n < 0)                                                             \
				return told(s, n, "fi_cq_read");                               \
			if (!n && other_told(s))                                               \
				return OVER;                                                   \
			FT_TRY(late(began, what));                                             \
		}                                                                              \
		if (posted)                                                                    \
			return told(s, (int) posted, what);                                    \
	} while (0)

/* ---- the steps ---- */

static struct ft_op message(const struct side *s, const struct ft_slot *slot, bool send,
			    uint64_t tag, struct ft_req *req)
{
	struct ft_op op = {
		.call = send ? FT_SEND : FT_RECV,
		.tagged = true,
		.addr = s->peer,
		.tag = tag,
		.req = req,
	};

	ft_op_buf(&op, slot->buf, slot->off, slot->len);
	return op;
}

/* One message, from device memory to @to there */
static int one(struct side *s, bool send, struct ft_buf *to, size_t len, uint64_t tag)
{
	const struct ft_slot slot = {send ? &s->device : to, 0, len + FT_ROOM, 64, len};
	struct ft_req req = {0};
	const struct ft_op op = message(s, &slot, send, tag, &req);

	FT_TRY(send ? ft_slot_fill(&slot, tag) : ft_slot_arm(&slot));
	POST(s, send ? "fi_tsend" : "fi_trecv", ft_post_once(&s->ctx, &op));
	FT_TRY(wait_for(s, &req, 1, send ? "a send" : "a receive"));
	return send ? 0 : ft_slot_check(&slot, len, tag, "a message");
}

static int step_pingpong(struct side *s)
{
	static const size_t sizes[] = {8, 4097, 70000, LONG};

	for (size_t i = 0; i < FT_COUNT(sizes); i++) {
		for (int to = 0; to < 2; to++) {
			struct ft_buf *buf = to ? &s->host : &s->device;

			FT_TRY(one(s, !s->proc->rank, buf, sizes[i], 4 * i + 2 * to));
			FT_TRY(one(s, s->proc->rank, buf, sizes[i], 4 * i + 2 * to + 1));
		}
	}
	return 0;
}

/* Many at a time, both ways: receives in the first half of the buffer, sends in the second */
static int window(struct side *s, size_t len)
{
	struct ft_req req[2 * WINDOW] = {0};
	struct ft_slot slot[2 * WINDOW];
	struct ft_op op;

	for (size_t i = 0; i < 2 * WINDOW; i++) {
		const bool send = i >= WINDOW;

		slot[i] = (struct ft_slot){&s->device, i * SLOT, len + FT_ROOM, i * SLOT + 64,
					   len};
		op = message(s, &slot[i], send, i % WINDOW, &req[i]);
		FT_TRY(send ? ft_slot_fill(&slot[i], i % WINDOW) : ft_slot_arm(&slot[i]));
		POST(s, send ? "fi_tsend" : "fi_trecv", ft_post_once(&s->ctx, &op));
	}
	FT_TRY(wait_for(s, req, 2 * WINDOW, "a window of messages"));
	for (size_t i = 0; i < WINDOW; i++)
		FT_TRY(ft_slot_check(&slot[i], len, i, "one of many messages"));
	return 0;
}

static int step_bw(struct side *s)
{
	return window(s, 100000);
}

static int step_lent(struct side *s)
{
	return window(s, 30000);
}

static int shared(struct side *s)
{
	struct note mine = {.told = 0};
	int ret = ft_buf_share(&s->ctx, &s->device, FI_REMOTE_READ | FI_REMOTE_WRITE);

	if (ret)
		told(s, ret, "fi_mr_regattr");
	mine.key = s->device.key;
	mine.base = s->device.base;
	return meet(s, &mine, "keys");
}

static int rma(struct side *s, size_t len)
{
	const struct ft_slot out = {&s->host, 0, len + FT_ROOM, 64, len};
	const struct ft_slot in = {&s->device, 0, len + FT_ROOM, 64, len};
	struct fid_ep *ep = s->ctx.ep;
	struct ft_req req = {0};

	FT_TRY(ft_slot_fill(&out, len));
	POST(s, "fi_write",
	     fi_write(ep, s->host.addr + 64, len, s->host.desc, s->peer, s->other.base + 64,
		      s->other.key, &req));
	FT_TRY(wait_for(s, &req, 1, "a write"));
	req.done = false;
	FT_TRY(ft_slot_arm(&in));
	POST(s, "fi_read",
	     fi_read(ep, s->device.addr + 64, len, s->device.desc, s->peer, s->other.base + 64,
		     s->other.key, &req));
	FT_TRY(wait_for(s, &req, 1, "a read"));
	return ft_slot_check(&in, len, len, "what was written and read");
}

/* Rank 1 serves, until they meet again */
static int step_rma(struct side *s)
{
	FT_TRY(shared(s));
	if (s->proc->rank)
		return 0;
	FT_TRY(rma(s, 100));
	return rma(s, 200000);
}

static int step_atomic(struct side *s)
{
	uint64_t values[ATOMS], before[ATOMS];
	struct fid_ep *ep = s->ctx.ep;

	for (uint64_t i = 0; i < ATOMS; i++)
		values[i] = i + 1;
	FT_TRY(s->device.ops->to(s->device.addr, values, sizeof(values)));
	FT_TRY(shared(s));
	if (s->proc->rank)
		return 0;
	for (uint64_t round = 0; round < 2; round++) {
		struct ft_req req = {0};
		char *result = s->device.addr + 4096;

		POST(s, "fi_fetch_atomic",
		     fi_fetch_atomic(ep, s->device.addr, ATOMS, s->device.desc, result,
				     s->device.desc, s->peer, s->other.base, s->other.key,
				     FI_UINT64, FI_SUM, &req));
		FT_TRY(wait_for(s, &req, 1, "an atomic operation"));
		FT_TRY(s->device.ops->from(before, result, sizeof(before)));
		for (uint64_t i = 0; i < ATOMS; i++)
			FT_CHECK(before[i] == (i + 1) * (round + 1),
				 "element %d was %d, not what was added", (int) i,
				 (int) before[i]);
	}
	return 0;
}

/* Short and long messages into one buffer; they may be placed in any order */
static int step_multirecv(struct side *s)
{
	static const size_t sizes[] = {100, 30000, 70000, 5000};
	struct ft_req req[FT_COUNT(sizes)] = {0};
	bool seen[FT_COUNT(sizes)] = {false};
	struct fi_cq_tagged_entry comp;
	struct ft_req multi = {0};
	struct ft_op op = {.call = s->proc->rank ? FT_RECVMSG : FT_SENDDATA, .addr = s->peer};
	double since;

	if (s->proc->rank) {
		op.flags = FI_MULTI_RECV | FI_COMPLETION;
		op.req = &multi;
		ft_op_buf(&op, &s->host, 0, MULTI);
		POST(s, "fi_recvmsg", ft_post_once(&s->ctx, &op));
	}
	for (size_t i = 0; !s->proc->rank && i < FT_COUNT(sizes); i++) {
		const struct ft_slot slot = {&s->device, i * SLOT, sizes[i], i * SLOT,
					     sizes[i]};

		FT_TRY(ft_slot_fill(&slot, i));
		ft_op_buf(&op, &s->device, slot.off, slot.len);
		op.data = i;
		op.req = &req[i];
		POST(s, "fi_senddata", ft_post_once(&s->ctx, &op));
	}
	if (!s->proc->rank)
		return wait_for(s, req, FT_COUNT(sizes), "messages for a large buffer");
	since = ft_usec();
	for (size_t got = 0; got < FT_COUNT(sizes);) {
		ssize_t n = fi_cq_read(s->ctx.cq, &comp, 1);

		if (n == -FI_EAVAIL)
			return told(s, ft_progress(&s->ctx) < 0 ? FI_EIO : multi.err,
				    "a large buffer");
		if (n < 0 && n != -FI_EAGAIN)
			return told(s, (int) n, "fi_cq_read");
		if (n == -FI_EAGAIN && other_told(s))
			return OVER;
		FT_TRY(late(since, "receiving into a large buffer"));
		if (n != 1 || !(comp.flags & FI_RECV))
			continue;
		FT_CHECK(comp.data < FT_COUNT(sizes) && !seen[comp.data] &&
				 comp.len == sizes[comp.data],
			 "a message of %zu bytes that was not sent", comp.len);
		FT_TRY(ft_verify(&s->host, (size_t) ((char *) comp.buf - s->host.addr),
				 comp.len, comp.data));
		seen[comp.data] = true;
		got++;
	}
	return 0;
}

static int step_peek(struct side *s)
{
	const size_t len = 70000;
	const struct ft_slot slot = {&s->device, 0, len + FT_ROOM, 64, len};
	struct fi_msg_tagged msg = {.addr = s->peer, .tag = 5};
	const uint64_t flags = FI_PEEK | FI_CLAIM | FI_COMPLETION;
	struct ft_req req = {0};
	double since = ft_usec();
	struct ft_op op;

	if (!s->proc->rank)
		return one(s, true, NULL, len, 5);
	FT_TRY(ft_slot_arm(&slot));
	msg.context = &req;
	do {
		req = (struct ft_req){.done = false};
		POST(s, "a peek", fi_trecvmsg(s->ctx.ep, &msg, flags));
		while (!req.done) {
			int n = ft_progress(&s->ctx);

			if (n < 0)
				return told(s, n, "fi_cq_read");
			if (!n && other_told(s))
				return OVER;
			FT_TRY(late(since, "a peek"));
		}
		FT_TRY(late(since, "a message that a peek does not find"));
		if (req.err && req.err != FI_ENOMSG)
			return told(s, req.err, "a peek");
		if (req.err && other_told(s))
			return OVER;
	} while (req.err);
	FT_CHECK(req.comp.len == len, "a peek says %zu bytes", req.comp.len);
	op = message(s, &slot, false, 5, &req);
	op.call = FT_RECVMSG;
	op.flags = FI_CLAIM | FI_COMPLETION;
	POST(s, "receiving what was claimed", ft_post_once(&s->ctx, &op));
	FT_TRY(wait_for(s, &req, 1, "a claimed message"));
	return ft_slot_check(&slot, len, 5, "a claimed message");
}

static const struct step {
	const char *name;
	uint64_t caps;
	int (*run)(struct side *s);
} steps[] = {
	{"pingpong", 0, step_pingpong},
	{"bw", 0, step_bw},
	{"lent", 0, step_lent},
	{"rma", FI_RMA, step_rma},
	{"atomic", FI_RMA | FI_ATOMIC, step_atomic},
	{"multirecv", FI_MULTI_RECV, step_multirecv},
	{"peek", 0, step_peek},
};

/* ---- the frame ---- */

static int open_all(struct side *s)
{
	struct note mine = {.told = 0};
	int ret = ft_getinfo(&s->ctx, NULL, NULL, 0);

	if (!ret)
		ret = ft_open(&s->ctx);
	if (!ret)
		ret = ft_buf_alloc(&s->ctx, &s->device, s->proc->opts.iface, 2 * WINDOW * SLOT);
	if (!ret)
		ret = ft_buf_alloc(&s->ctx, &s->host, FI_HMEM_SYSTEM, ROOM);
	if (!ret)
		ret = ft_getname(&s->ctx, &mine.name);
	if (ret)
		told(s, ret, "opening");
	FT_TRY(meet(s, &mine, "opening"));
	ret = ft_av_insert(&s->ctx, s->other.name.bytes, &s->peer);
	if (ret)
		told(s, ret, "fi_av_insert");
	return meet(s, &mine, "addresses");
}

/* The endpoint goes first: what peers still do with the buffers ends with it */
static int close_all(struct side *s)
{
	int ret = s->ctx.ep ? fi_close(&s->ctx.ep->fid) : 0;

	if (ret)
		return ft_fail(ret, "fi_close", "endpoint");
	s->ctx.ep = NULL;
	ft_buf_free(&s->device);
	ft_buf_free(&s->host);
	return ft_close(&s->ctx);
}

static void spare_other_rank(int rank)
{
	static const char *const faults[] = {"SCARCE", "CUDAEMU_FAIL", "BUSYCORE_FAIL",
					     "BUSYCORE_CUT", "BUSYCORE_LOSE"};
	const char *chosen = getenv("FAULTS_RANK");

	for (size_t i = 0; chosen && atoi(chosen) != rank && i < FT_COUNT(faults); i++)
		unsetenv(faults[i]);
}

static int run(struct ft_proc *proc)
{
	struct side s = {.proc = proc};
	const struct note none = {.told = 0};
	int ret;

	spare_other_rank(proc->rank);
	FT_TRY(ft_test_hints(proc, &s.ctx));
	s.ctx.watch_count = 0;
	for (size_t i = 0; i < FT_COUNT(steps); i++)
		if (!proc->opts.ops || strstr(proc->opts.ops, steps[i].name))
			s.ctx.hints->caps |= steps[i].caps;
	ret = open_all(&s);
	for (size_t i = 0; !ret && i < FT_COUNT(steps); i++) {
		if (proc->opts.ops && !strstr(proc->opts.ops, steps[i].name))
			continue;
		ret = steps[i].run(&s);
		if (ret >= 0)
			ret = meet(&s, &none, steps[i].name);
	}
	if (ret < 0)
		return ret;
	FT_TRY(close_all(&s));
	printf("[%d] ended with %d descriptors\n", proc->rank, ft_descriptors());
	return 0;
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "A little of everything, where something may fail.",
		.scope = FT_SCOPE_TEST | FT_SCOPE_FAULTS,
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
