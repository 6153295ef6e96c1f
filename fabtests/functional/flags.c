/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_flags: what becomes of each flag of each data transfer call on an endpoint with our protocol, host memory and
 * device memory. The rows are those of docs/conformance.md, letter by letter; make check compares them. What is kept
 * or does not matter is carried out, byte for byte; what is refused leaves nothing behind.
 *
 * Rank 0 posts what is sent, read, written; rank 1 receives.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ft_test.h"

#define LEN 5000 /* announced */
#define SHORT 8  /* what is injected */
#define TAG 0x77

enum call { SEND, TSEND, RECV, TRECV, READ, WRITE, ATOMIC, CALLS };

static const struct row {
	uint64_t flag;
	const char *line;
} rows[] = {
	/* | flag | fi_sendmsg | fi_tsendmsg | fi_recvmsg | fi_trecvmsg | fi_readmsg | fi_writemsg | atomics | */
	{FI_COMPLETION, "| `FI_COMPLETION` | kept | kept | kept | kept | kept | kept | kept |"},
	{FI_MORE, "| `FI_MORE` | kept | kept | kept | kept | kept | kept | kept |"},
	{FI_INJECT, "| `FI_INJECT` | kept | kept | refused | refused | void | kept | kept |"},
	{FI_INJECT_COMPLETE,
	 "| `FI_INJECT_COMPLETE` | kept | kept | refused | refused | kept | kept | kept |"},
	{FI_TRANSMIT_COMPLETE,
	 "| `FI_TRANSMIT_COMPLETE` | kept | kept | refused | refused | kept | kept | kept |"},
	{FI_DELIVERY_COMPLETE,
	 "| `FI_DELIVERY_COMPLETE` | kept | kept | refused | refused | kept | kept | kept |"},
	{FI_COMMIT_COMPLETE,
	 "| `FI_COMMIT_COMPLETE` | delivery | delivery | refused | refused | void | refused (a) | refused (a) |"},
	{1ULL << 31,
	 "| `FI_MATCH_COMPLETE` | refused | refused | refused | refused | refused | refused | refused |"},
	{FI_REMOTE_CQ_DATA,
	 "| `FI_REMOTE_CQ_DATA` | kept | kept | refused | refused | refused | kept | refused |"},
	{FI_FENCE,
	 "| `FI_FENCE` | kept (b) | kept (b) | refused | refused | kept (b) | kept (b) | kept (b) |"},
	{FI_TRIGGER,
	 "| `FI_TRIGGER` | refused (c) | refused (c) | refused (c) | refused (c) | refused (c) | refused (c) | refused (c) |"},
	{FI_MULTI_RECV,
	 "| `FI_MULTI_RECV` | refused | refused | kept | refused | refused | refused | refused |"},
	{FI_PEEK,
	 "| `FI_PEEK` | refused | refused | refused | kept (d) | refused | refused | refused |"},
	{FI_CLAIM,
	 "| `FI_CLAIM` | refused | refused | refused | kept (d) | refused | refused | refused |"},
	{FI_DISCARD,
	 "| `FI_DISCARD` | refused | refused | refused | kept (d) | refused | refused | refused |"},
	{FI_MULTICAST,
	 "| `FI_MULTICAST` | refused | refused | refused | refused | refused | refused | refused |"},
	{1ULL << 22,
	 "| any other | refused | refused | refused | refused | refused | refused | refused |"},
};

struct side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	size_t kinds;
	bool fences, atomics;
	struct ft_buf local[2], shared[2]; /* by kind: host, device */
	uint64_t target[2][2];             /* of rank 1's shared: key, base */
	uint64_t number;
	struct ft_req heard; /* of the peer's write with data */
};

/* Does the row say that this call refuses the flag? @fences: there is the capability */
static bool refused(const struct row *row, enum call call, bool fences)
{
	const char *cell = row->line;

	for (int i = 0; i < (int) call + 2; i++)
		cell = strchr(cell, '|') + 1;
	return !strncmp(cell, " refused", 8) ||
	       (strstr(cell, "kept (b)") == cell + 1 && !fences);
}

static ssize_t post_msg(struct side *s, const struct ft_buf *buf, enum call call,
			uint64_t flags, struct ft_req *req)
{
	const struct iovec iov = {(char *) buf->addr, flags & FI_INJECT ? SHORT : LEN};
	void *desc = buf->desc;
	const struct fi_msg msg = {&iov, &desc,
				   1,    call == SEND ? s->ctx.peer[1] : FI_ADDR_UNSPEC,
				   req,  7};
	const struct fi_msg_tagged tagged = {&iov, &desc, 1, msg.addr, TAG, 0, req, 7};
	struct fi_msg_tagged sent = tagged;

	sent.addr = s->ctx.peer[1];
	switch (call) {
	case SEND:
		return fi_sendmsg(s->ctx.ep, &msg, flags);
	case TSEND:
		return fi_tsendmsg(s->ctx.ep, &sent, flags);
	case RECV:
		return fi_recvmsg(s->ctx.ep, &msg, flags);
	default:
		return fi_trecvmsg(s->ctx.ep, &tagged, flags);
	}
}

static ssize_t post_remote(struct side *s, const struct ft_buf *buf, size_t kind,
			   enum call call, uint64_t flags, struct ft_req *req)
{
	const size_t len = flags & FI_INJECT ? SHORT : LEN;
	const struct iovec iov = {(char *) buf->addr, len};
	const struct fi_rma_iov rma = {s->target[kind][1], len, s->target[kind][0]};
	const struct fi_ioc ioc = {buf->addr, 1};
	const struct fi_rma_ioc rma_ioc = {s->target[kind][1], 1, s->target[kind][0]};
	void *desc = buf->desc;
	const struct fi_msg_rma msg = {&iov, &desc, 1, s->ctx.peer[1], &rma, 1, req, 7};
	const struct fi_msg_atomic amo = {&ioc,     &desc, 1,         s->ctx.peer[1],
					  &rma_ioc, 1,     FI_UINT64, FI_BXOR,
					  req,      7};

	if (call == READ)
		return fi_readmsg(s->ctx.ep, &msg, flags);
	return call == WRITE ? fi_writemsg(s->ctx.ep, &msg, flags)
			     : fi_atomicmsg(s->ctx.ep, &amo, flags);
}

static ssize_t post(struct side *s, size_t kind, enum call call, uint64_t flags,
		    struct ft_req *req)
{
	ssize_t ret;

	while ((ret = call < READ ? post_msg(s, &s->local[kind], call, flags, req)
				  : post_remote(s, &s->local[kind], kind, call, flags, req)) ==
	       -FI_EAGAIN) {
		int n = ft_progress(&s->ctx);

		if (n < 0)
			return n;
		if (!n)
			FT_TRY(ft_idle(&s->ctx));
	}
	return ret;
}

/* What takes more than one operation has a test of its own: fi_p2p_peek, fi_p2p_multirecv. */
static bool carried_out(const struct row *row)
{
	return !(row->flag & (FI_CLAIM | FI_DISCARD | FI_MULTI_RECV));
}

/* A message whose sender, or receiver, has the flag */
static int message(struct side *s, const struct row *row, enum call call, size_t kind)
{
	const bool tagged = call == TSEND || call == TRECV, sends = !s->proc->rank;
	const bool flagged = (call == SEND || call == TSEND) == sends;
	const enum call mine = sends ? (tagged ? TSEND : SEND) : tagged ? TRECV : RECV;
	const size_t len = row->flag == FI_INJECT ? SHORT : LEN;
	const struct ft_slot slot = {&s->local[kind], 0, LEN, 0, len};
	const bool peek = row->flag == FI_PEEK;
	struct ft_req req = {0};
	ssize_t ret;

	if (!carried_out(row) || (peek && sends))
		return 0;
	FT_TRY(sends ? ft_slot_fill(&slot, s->number) : ft_slot_arm(&slot));
	ret = post(s, kind, mine, FI_COMPLETION | (flagged ? row->flag : 0), &req);
	/* shm of 1.17 has none */
	if (peek && ret == -FI_EOPNOTSUPP)
		return 0;
	FT_CHECK(!ret, "it is refused: %s", fi_strerror((int) -ret));
	FT_TRY(ft_wait_any_result(&s->ctx, &req, 1));
	if (peek) {
		FT_CHECK(abs(req.err) == FI_ENOMSG, "a peek ends with %d", req.err);
		return 0;
	}
	FT_CHECK(!req.err, "it ends with %s", fi_strerror(abs(req.err)));
	return sends ? 0 : ft_slot_check(&slot, len, s->number, "a message");
}

/* An access of remote memory, by rank 0 alone */
static int access_remote(struct side *s, const struct row *row, enum call call, size_t kind)
{
	struct ft_req req = {0};
	ssize_t ret;

	if (call == ATOMIC && !s->atomics)
		return 0;
	ret = post(s, kind, call, FI_COMPLETION | row->flag, &req);
	FT_CHECK(!ret, "it is refused: %s", fi_strerror((int) -ret));
	return ft_wait(&s->ctx, &req, 1);
}

/* Rank 1 hears of a write with data. */
static int told(struct side *s)
{
	const struct fi_cq_tagged_entry *comp = &s->heard.comp;

	FT_TRY(ft_wait(&s->ctx, &s->heard, 1));
	/* shm 2.1 leaves out what kind of remote data it is */
	FT_CHECK(comp->flags & (FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA) && comp->data == 7,
		 "flags %#" PRIx64 " and data %" PRIu64 " of a write", comp->flags, comp->data);
	s->heard.done = false;
	return 0;
}

/* An owner is the one to refuse what is to be durable and is no file's. */
static int refuse(struct side *s, const struct row *row, enum call call, size_t kind)
{
	struct ft_req req = {0};
	ssize_t ret;

	if (call == ATOMIC && !s->atomics)
		return 0;
	ret = post(s, kind, call, FI_COMPLETION | row->flag, &req);
	if (!ret && row->flag == FI_COMMIT_COMPLETE) {
		FT_TRY(ft_wait_any_result(&s->ctx, &req, 1));
		ret = -abs(req.err);
	}
	FT_CHECK(ret == -FI_EBADFLAGS || ret == -FI_ENOSYS || ret == -FI_EOPNOTSUPP,
		 "a flag that is to be refused leads to %zd", ret);
	return 0;
}

static int one(struct side *s, const struct row *row, enum call call, size_t kind)
{
	const bool receives = call == RECV || call == TRECV;
	const bool posts = receives == (s->proc->rank == 1);

	s->number++;
	if (refused(row, call, s->fences))
		return posts ? refuse(s, row, call, kind) : 0;
	if (call < READ)
		return message(s, row, call, kind);
	if (posts)
		return access_remote(s, row, call, kind);
	return call == WRITE && row->flag == FI_REMOTE_CQ_DATA ? told(s) : 0;
}

static int all(struct side *s)
{
	for (size_t i = 0; i < FT_COUNT(rows) * CALLS * s->kinds; i++) {
		const struct row *row = &rows[i / s->kinds / CALLS];
		const enum call call = i / s->kinds % CALLS;
		int ret = one(s, row, call, i % s->kinds);

		if (!ret)
			ret = ft_barrier(s->proc, &s->ctx);
		if (ret) {
			ft_err("column %d, %s memory, %s a fence: %s", call + 1,
			       s->local[i % s->kinds].ops->name, s->fences ? "with" : "without",
			       row->line);
			return ret;
		}
	}
	return 0;
}

/* A multi-receive buffer is to be released by the one message that it gets. */
static int side_open(struct side *s)
{
	enum fi_hmem_iface ifaces[2];
	size_t most, min = LEN;

	FT_TRY(ft_test_open(s->proc, &s->ctx));
	s->atomics = s->ctx.info->caps & FI_ATOMIC &&
		     !fi_atomicvalid(s->ctx.ep, FI_UINT64, FI_BXOR, &most);
	FT_TRY(fi_setopt(&s->ctx.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &min,
			 sizeof(min)));
	FT_TRY(ft_test_connect(s->proc, &s->ctx));
	s->kinds = ft_kinds(&s->proc->opts, ifaces);
	for (size_t i = 0; i < s->kinds; i++) {
		FT_TRY(ft_buf_alloc(&s->ctx, &s->local[i], ifaces[i], LEN));
		FT_TRY(ft_buf_alloc(&s->ctx, &s->shared[i], ifaces[i], LEN));
		FT_TRY(ft_buf_share(&s->ctx, &s->shared[i], FI_REMOTE_READ | FI_REMOTE_WRITE));
		s->target[i][0] = s->shared[i].key;
		s->target[i][1] = s->shared[i].base;
	}
	if (s->proc->rank)
		return ft_oob_send(s->proc->fd[0], s->target, sizeof(s->target));
	return ft_oob_recv(s->proc->fd[1], s->target, sizeof(s->target), s->proc->opts.timeout);
}

/* An endpoint cannot have, for all of its calls, what is for single ones. */
static int own_flags(struct side *s)
{
	static const uint64_t flags[] = {FI_FENCE, FI_REMOTE_CQ_DATA, FI_PEEK, FI_MULTICAST};
	struct fi_info *info = fi_dupinfo(s->ctx.info);
	struct fid_ep *ep;
	int ret;

	FT_CHECK(info, "fi_dupinfo: no memory");
	for (size_t i = 0; i < FT_COUNT(flags); i++) {
		info->tx_attr->op_flags = flags[i];
		ret = fi_endpoint(s->ctx.domain, info, &ep, NULL);
		FT_CHECK(ret == -FI_EBADFLAGS, "fi_endpoint with op_flags %#" PRIx64 ": %d",
			 flags[i], ret);
	}
	fi_freeinfo(info);
	return 0;
}

static int with_fence(struct ft_proc *proc, bool fences)
{
	struct side s = {.proc = proc, .fences = fences};

	FT_TRY(ft_test_hints(proc, &s.ctx));
	s.ctx.hints->caps |= FI_RMA | FI_ATOMIC | FI_MULTI_RECV | (fences ? FI_FENCE : 0);
	if (!ft_offered(&s.ctx))
		s.ctx.hints->caps &= ~FI_ATOMIC;
	FT_TRY(side_open(&s));
	FT_TRY(own_flags(&s));
	s.ctx.remote = &s.heard;
	FT_TRY(all(&s));
	for (size_t i = 0; i < s.kinds; i++) {
		ft_buf_free(&s.local[i]);
		ft_buf_free(&s.shared[i]);
	}
	return ft_close(&s.ctx);
}

static int run(struct ft_proc *proc)
{
	FT_TRY(with_fence(proc, false));
	return with_fence(proc, true);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Each flag of each call is kept, or refused.",
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	setenv("FI_P2P_EAGER_SIZE", "4096", 1);
	return ft_test_main(&test, argc, argv);
}
