/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_multirecv: buffers for many messages (FI_MULTI_RECV). Both kinds of memory at both
 * ends, sizes around the thresholds, with enough buffers and with only one; every message
 * comes once, whole, within its buffer and beside the others, with its own remote data,
 * and where the core provider keeps order, in order. Each buffer is released once, after
 * its last message; one that is cancelled ends once. Writes that take a receive (FI_RX_CQ_DATA) are
 * reported in their turn, and take nothing of a buffer.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_rma.h>

#include "ft_test.h"

#define EAGER_SIZE "4096" /* FI_P2P_EAGER_SIZE: what is longer is announced */
#define EARLY_MAX 16384   /* goes before the receiver is known, and is not announced then */
#define LARGEST 200000
#define WINDOW 16
#define BUFFERS 3
#define BUFFER_LEN (1 << 20)
#define NOBODY 100000 /* the address of buffers, where an address means nothing */
#define DATA_BASE 0x4d000000u

/**
 * struct round - @buffers: how many are posted; @ordered: messages are such as no core
 * provider puts out of order. Else each has data, which tells them apart
 */
static const struct round {
	const char *name;
	size_t buffers;
	bool ordered;
} rounds[] = {
	{"in order", BUFFERS, true},
	{"any order", BUFFERS, false},
	{"one buffer", 1, false},
};

static const size_t sizes[] = {0, 1, 64, 4095, 4096, 4097, 65536, 8, 65537, 2000, LARGEST, 17};

/* Both ranks derive the same messages. */
struct message {
	size_t len;
	enum fi_hmem_iface from;
	enum ft_call call;
	bool data;
};

/* A posted buffer, and which of its bytes have been filled */
struct multi {
	struct fi_context2 context;
	struct ft_buf buf;
	bool posted;
	unsigned char *used;
};

struct side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	enum fi_hmem_iface kinds[2];
	size_t kind_count;
	struct multi multi[BUFFERS];
	bool *seen;
	uint64_t count; /* of messages in a round */
};

static struct message message(const struct side *s, const struct round *round, uint64_t n)
{
	static const enum ft_call calls[] = {FT_SENDDATA, FT_SEND, FT_SENDV, FT_SENDMSG};
	struct message msg = {
		.len = sizes[n % FT_COUNT(sizes)],
		.from = s->kinds[n / 5 % s->kind_count],
		.call = calls[round->ordered ? n % FT_COUNT(calls) : 0],
	};

	/* longer ones that the core provider has alone may come after those behind them */
	if (round->ordered && (msg.from == FI_HMEM_SYSTEM || !ft_is_p2p(&s->ctx)))
		msg.len = FT_MIN(msg.len, 4000);
	if (round->ordered && msg.len <= EARLY_MAX)
		msg.len = FT_MIN(msg.len, ft_whole_max(&s->ctx));
	msg.data = msg.call == FT_SENDDATA;
	if (n % 7 == 3 && msg.len <= s->ctx.info->tx_attr->inject_size)
		msg.call = msg.data ? FT_INJECTDATA : FT_INJECT;
	return msg;
}

/* ---- sending ---- */

static int send_all(struct side *s, const struct round *round, struct ft_buf bufs[2])
{
	struct ft_req req[WINDOW] = {0};

	for (size_t i = 0; i < WINDOW; i++)
		req[i].done = true;
	for (uint64_t n = 0; n < s->count; n++) {
		const struct message msg = message(s, round, n);
		const struct ft_slot slot = {&bufs[msg.from != FI_HMEM_SYSTEM],
					     n % WINDOW * LARGEST, msg.len,
					     n % WINDOW * LARGEST, msg.len};
		const bool inject = msg.call == FT_INJECT || msg.call == FT_INJECTDATA;
		struct ft_op op = {
			.call = msg.call,
			.addr = s->ctx.peer[1],
			.data = DATA_BASE + n,
			.req = inject ? NULL : &req[n % WINDOW],
		};

		FT_TRY(ft_wait(&s->ctx, &req[n % WINDOW], 1));
		FT_TRY(ft_slot_fill(&slot, n));
		ft_op_buf(&op, slot.buf, slot.off, slot.len);
		if (msg.call == FT_SENDV && msg.len > 1) {
			op.iov[0].iov_len = msg.len / 3;
			op.iov[1].iov_base = (char *) op.iov[0].iov_base + msg.len / 3;
			op.iov[1].iov_len = msg.len - msg.len / 3;
			op.desc[1] = op.desc[0];
			op.count = 2;
		}
		FT_TRY(ft_post(&s->ctx, &op));
	}
	return ft_wait(&s->ctx, req, WINDOW);
}

/* ---- receiving ---- */

static int post(struct side *s, struct multi *m)
{
	const bool nobody = !(s->ctx.info->caps & FI_DIRECTED_RECV);
	struct iovec iov = {m->buf.addr, BUFFER_LEN};
	const struct fi_msg msg = {.msg_iov = &iov,
				   .desc = &m->buf.desc,
				   .iov_count = 1,
				   .addr = nobody ? NOBODY : FI_ADDR_UNSPEC,
				   .context = &m->context};
	ssize_t ret;

	memset(m->used, 0, BUFFER_LEN);
	while ((ret = fi_recvmsg(s->ctx.ep, &msg, FI_MULTI_RECV)) == -FI_EAGAIN)
		FT_TRY(ft_idle(&s->ctx));
	if (ret)
		return ft_fail((int) ret, "fi_recvmsg", "with FI_MULTI_RECV");
	m->posted = true;
	return 0;
}

static struct multi *multi_of(struct side *s, const void *context)
{
	for (size_t i = 0; i < BUFFERS; i++)
		if (context == &s->multi[i].context)
			return &s->multi[i];
	return NULL;
}

/* The next completion, which may be an error */
static int next(struct side *s, struct fi_cq_tagged_entry *comp, int *err)
{
	union {
		struct fi_cq_err_entry entry;
		char room[sizeof(struct fi_cq_err_entry) + 256];
	} error = {.room = {0}};
	ssize_t ret;

	while ((ret = fi_cq_read(s->ctx.cq, comp, 1)) == -FI_EAGAIN)
		FT_TRY(ft_idle(&s->ctx));
	*err = 0;
	if (ret == 1)
		return 0;
	if (ret != -FI_EAVAIL)
		return ft_fail((int) ret, "fi_cq_read", "multi-receive buffers");
	ret = fi_cq_readerr(s->ctx.cq, &error.entry, 0);
	FT_CHECK(ret == 1, "fi_cq_readerr: %zd after -FI_EAVAIL", ret);
	comp->op_context = error.entry.op_context;
	comp->flags = error.entry.flags;
	*err = abs(error.entry.err);
	return 0;
}

static int take_message(struct side *s, const struct round *round, struct multi *m,
			const struct fi_cq_tagged_entry *comp, uint64_t position)
{
	const uint64_t n = round->ordered ? position : comp->data - DATA_BASE;
	const size_t off = comp->buf ? (size_t) ((char *) comp->buf - m->buf.addr) : 0;
	struct message msg;

	FT_CHECK(n < s->count && !s->seen[n], "message %" PRIu64 " comes twice, or is none", n);
	s->seen[n] = true;
	msg = message(s, round, n);
	FT_CHECK((comp->flags & FI_MSG) && !(comp->flags & (FI_SEND | FI_TAGGED)),
		 "message %" PRIu64 ": flags %#" PRIx64, n, comp->flags);
	FT_CHECK(!(comp->flags & FI_REMOTE_CQ_DATA) == !msg.data,
		 "message %" PRIu64 ": flags %#" PRIx64 ", sent with%s data", n, comp->flags,
		 msg.data ? "" : "out");
	FT_CHECK(!msg.data || comp->data == DATA_BASE + n,
		 "message %" PRIu64 ": data %#" PRIx64, n, comp->data);
	FT_CHECK(comp->len == msg.len, "message %" PRIu64 ": %zu bytes instead of %zu", n,
		 comp->len, msg.len);
	FT_CHECK(!msg.len || (off < BUFFER_LEN && BUFFER_LEN - off >= msg.len),
		 "message %" PRIu64 " of %zu bytes is outside its buffer", n, msg.len);
	for (size_t i = 0; i < msg.len; i++)
		FT_CHECK(!m->used[off + i], "message %" PRIu64 " lies on another", n);
	memset(m->used + off, 1, msg.len);
	return ft_verify(&m->buf, off, msg.len, n);
}

static int recv_all(struct side *s, const struct round *round)
{
	struct fi_cq_tagged_entry comp;
	uint64_t got = 0;
	int err;

	memset(s->seen, 0, s->count * sizeof(*s->seen));
	while (got < s->count) {
		struct multi *m;

		FT_TRY(next(s, &comp, &err));
		m = multi_of(s, comp.op_context);
		FT_CHECK(!err, "after %" PRIu64 " messages: %s", got, fi_strerror(err));
		FT_CHECK(m && m->posted, "a completion for a buffer that is not posted");
		if (comp.flags & FI_RECV)
			FT_TRY(take_message(s, round, m, &comp, got++));
		if (comp.flags & FI_MULTI_RECV) {
			m->posted = false;
			FT_TRY(post(s, m));
		}
	}
	return 0;
}

static int cancel_all(struct side *s)
{
	struct fi_cq_tagged_entry comp;
	size_t posted = 0;
	int err;

	for (size_t i = 0; i < BUFFERS; i++) {
		if (!s->multi[i].posted)
			continue;
		posted++;
		FT_TRY(fi_cancel(&s->ctx.ep->fid, &s->multi[i].context));
	}
	while (posted--) {
		struct multi *m;

		FT_TRY(next(s, &comp, &err));
		m = multi_of(s, comp.op_context);
		FT_CHECK(m && m->posted &&
				 (err == FI_ECANCELED ? comp.flags & FI_RECV
						      : !err && comp.flags & FI_MULTI_RECV),
			 "a cancelled buffer ended with %s, flags %#" PRIx64,
			 err ? fi_strerror(err) : "success", comp.flags);
		m->posted = false;
	}
	return fi_cq_read(s->ctx.cq, &comp, 1) == -FI_EAGAIN
		       ? 0
		       : (ft_err("a cancelled buffer ended twice"), -FI_EOTHER);
}

/* ---- both ---- */

/* A barrier that leaves the queue alone: what may come is no struct ft_req's. */
static int one_round(struct side *s, const struct round *round, enum fi_hmem_iface to)
{
	struct ft_buf bufs[2] = {0};

	if (s->proc->rank == 0) {
		for (size_t i = 0; i < s->kind_count; i++)
			FT_TRY(ft_buf_alloc(&s->ctx, &bufs[i], s->kinds[i], WINDOW * LARGEST));
		FT_TRY(ft_meet(s->proc));
		FT_TRY(send_all(s, round, bufs));
		FT_TRY(ft_barrier(s->proc, &s->ctx));
		for (size_t i = 0; i < s->kind_count; i++)
			ft_buf_free(&bufs[i]);
		return 0;
	}
	for (size_t i = 0; i < round->buffers; i++) {
		FT_TRY(ft_buf_alloc(&s->ctx, &s->multi[i].buf, to, BUFFER_LEN));
		FT_TRY(post(s, &s->multi[i]));
	}
	FT_TRY(ft_meet(s->proc));
	FT_TRY(recv_all(s, round));
	FT_TRY(cancel_all(s));
	FT_TRY(ft_barrier(s->proc, &s->ctx));
	for (size_t i = 0; i < round->buffers; i++)
		ft_buf_free(&s->multi[i].buf);
	return 0;
}

/* ---- writes that take a receive ---- */

/* Where writes go */
struct target {
	uint64_t base, key;
};

/*
 * Message, write, message, and so on; each brings its number as data. Of the writes, every other one has no bytes, and
 * is about host memory.
 */
static int write_all(struct side *s, const struct ft_buf bufs[2],
		     const struct target targets[2])
{
	for (uint64_t n = 0; n < s->count; n++) {
		struct ft_req req = {0};
		struct ft_op op = {.call = FT_SENDDATA,
				   .addr = s->ctx.peer[1],
				   .data = DATA_BASE + n,
				   .req = &req};
		const bool empty = n % 4 == 1;
		const struct target *to = &targets[!empty];
		const struct ft_buf *buf = &bufs[!empty];
		ssize_t ret = 0;

		ft_op_buf(&op, buf, 0, 64);
		if (n % 2)
			while ((ret = fi_writedata(s->ctx.ep, buf->addr, empty ? 0 : 64,
						   buf->desc, op.data, op.addr, to->base,
						   to->key, &req)) == -FI_EAGAIN)
				FT_TRY(ft_idle(&s->ctx));
		FT_CHECK(!ret, "fi_writedata: %s", fi_strerror((int) -ret));
		FT_TRY(n % 2 ? 0 : ft_post(&s->ctx, &op));
		FT_TRY(ft_wait(&s->ctx, &req, 1));
	}
	return 0;
}

static int told_all(struct side *s)
{
	struct fi_cq_tagged_entry comp;
	int err;

	for (uint64_t n = 0; n < s->count; n++) {
		const uint64_t kind = n % 2 ? FI_RMA | FI_REMOTE_WRITE : FI_MSG | FI_RECV;

		FT_TRY(next(s, &comp, &err));
		FT_CHECK(!err && comp.op_context == &s->multi[0].context &&
				 (comp.flags & (FI_RMA | FI_REMOTE_WRITE | FI_MSG | FI_RECV)) ==
					 kind &&
				 comp.data == DATA_BASE + n,
			 "number %" PRIu64 ": %s, flags %#" PRIx64 ", data %#" PRIx64, n,
			 fi_strerror(err), comp.flags, comp.data);
	}
	return cancel_all(s);
}

/* For who has a GPU, and asks for what goes with such writes */
static int notices(struct ft_proc *proc)
{
	struct side s = {.proc = proc, .count = 20};
	struct target targets[2];
	struct ft_buf bufs[2];

	s.kind_count = ft_kinds(&proc->opts, s.kinds);
	FT_TRY(ft_test_hints(proc, &s.ctx));
	s.ctx.hints->caps = FI_MSG | FI_RMA | FI_HMEM | FI_SOURCE | FI_MULTI_RECV;
	s.ctx.hints->mode |= FI_RX_CQ_DATA;
	if (s.kind_count < 2 || ft_connected(&s.ctx) || ft_hook_active() ||
	    !ft_offered(&s.ctx)) {
		fi_freeinfo(s.ctx.hints);
		return 0;
	}
	FT_TRY(ft_test_open(proc, &s.ctx));
	FT_TRY(ft_test_connect(proc, &s.ctx));
	for (int i = 0; i < 2; i++) {
		FT_TRY(ft_buf_alloc(&s.ctx, &bufs[i], s.kinds[i], BUFFER_LEN));
		FT_TRY(ft_buf_share(&s.ctx, &bufs[i], FI_REMOTE_WRITE));
		targets[i] = (struct target){bufs[i].base, bufs[i].key};
	}
	s.multi[0].used = malloc(BUFFER_LEN);
	FT_TRY(ft_buf_alloc(&s.ctx, &s.multi[0].buf, s.kinds[0], BUFFER_LEN));
	FT_TRY(proc->rank ? post(&s, &s.multi[0]) : 0);
	FT_TRY(proc->rank ? ft_oob_send(proc->fd[0], targets, sizeof(targets))
			  : ft_oob_recv(proc->fd[1], targets, sizeof(targets),
					proc->opts.timeout));
	FT_TRY(proc->rank ? told_all(&s) : write_all(&s, bufs, targets));
	FT_TRY(ft_barrier(proc, &s.ctx));
	for (int i = 0; i < 2; i++)
		ft_buf_free(&bufs[i]);
	ft_buf_free(&s.multi[0].buf);
	free(s.multi[0].used);
	return ft_close(&s.ctx);
}

static int run(struct ft_proc *proc)
{
	struct side s = {.proc = proc, .count = proc->opts.quick ? 200 : 2000};
	int ret;

	s.kind_count = ft_kinds(&proc->opts, s.kinds);
	FT_TRY(ft_test_hints(proc, &s.ctx));
	s.ctx.hints->caps = (s.ctx.hints->caps & ~FI_DIRECTED_RECV) | FI_MULTI_RECV;
	s.ctx.min_multi_recv = LARGEST;
	if (ft_connected(&s.ctx) && !ft_offered(&s.ctx)) {
		ft_close(&s.ctx);
		return proc->rank ? FT_SKIP : ft_skip("no such buffers over connections here");
	}
	FT_TRY(ft_test_open(proc, &s.ctx));
	if (!strncmp(s.ctx.info->fabric_attr->prov_name, "shm", 3) &&
	    FI_VERSION_GE(fi_version(), FI_VERSION(2, 0))) {
		ft_close(&s.ctx);
		return ft_skip("a long message makes a read of shm's 2.x not return");
	}
	FT_TRY(ft_test_connect(proc, &s.ctx));
	s.seen = calloc(s.count, sizeof(*s.seen));
	for (size_t i = 0; i < BUFFERS; i++)
		s.multi[i].used = malloc(BUFFER_LEN);
	for (size_t i = 0; i < FT_COUNT(rounds) * s.kind_count; i++) {
		const struct round *round = &rounds[i / s.kind_count];
		const enum fi_hmem_iface to = s.kinds[i % s.kind_count];

		ret = one_round(&s, round, to);
		if (ret) {
			ft_err("%s, to %s memory", round->name, ft_mem_ops(to)->name);
			return ret;
		}
	}
	for (size_t i = 0; i < BUFFERS; i++)
		free(s.multi[i].used);
	free(s.seen);
	FT_TRY(ft_close(&s.ctx));
	return notices(proc);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Buffers for many messages.",
		.ranks = 2,
		.connects = true,
		.may_die = -1,
		.run = run,
	};

	setenv("FI_P2P_EAGER_SIZE", EAGER_SIZE, 1);
	return ft_test_main(&test, argc, argv);
}
