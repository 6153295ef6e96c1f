/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_sendrecv: every call that sends and every call that receives, with every pair of
 * memory kinds, sizes around all thresholds, unaligned places, buffers that fit and that
 * are too large. Checks every byte, the guards around, and the completions' fields.
 */
#include <inttypes.h>
#include <stdio.h>

#include "ft_test.h"

#define GUARD_LEN 64
#define SLACK 1000 /* by which a receive buffer is too large */

static const struct tx_variant {
	const char *name;
	enum ft_call call;
	uint64_t flags;
	bool split, data, inject;
} tx_variants[] = {
	{"send", FT_SEND, 0, false, false, false},
	{"sendv", FT_SENDV, 0, true, false, false},
	{"sendmsg", FT_SENDMSG, 0, true, false, false},
	{"sendmsg(data)", FT_SENDMSG, FI_REMOTE_CQ_DATA, true, true, false},
	{"sendmsg(inject)", FT_SENDMSG, FI_INJECT, true, false, true},
	{"senddata", FT_SENDDATA, 0, false, true, false},
	{"inject", FT_INJECT, 0, false, false, true},
	{"injectdata", FT_INJECTDATA, 0, false, true, true},
};

static const struct rx_variant {
	const char *name;
	enum ft_call call;
	bool split;
} rx_variants[] = {
	{"recv", FT_RECV, false},
	{"recvv", FT_RECVV, true},
	{"recvmsg", FT_RECVMSG, true},
};

static const size_t sizes[] = {
	0,
	1,
	7,
	64,
	4095,
	4096,
	4097,
	16383,
	16384,
	16385,
	65535,
	65536,
	65537,
	131071,
	131072,
	131073,
	524287,
	524288,
	524289,
	1048575,
	1048576,
	1048577,
	3 * 1048576 + 5,
};

static const size_t offsets[] = {0, 1, 63};

/* One message; both ranks derive the same ones in the same order. */
struct message {
	uint64_t number;
	const struct tx_variant *tx;
	const struct rx_variant *rx;
	bool tagged;
	enum fi_hmem_iface from, to;
	size_t size, offset, slack;
};

struct side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	struct ft_buf buf[2]; /* by kind: host, device */
};

/* Cuts the one piece of @op into as many uneven ones as the provider takes. */
static void split(struct ft_op *op, size_t limit, uint64_t number)
{
	const size_t len = op->iov[0].iov_len;
	size_t pieces = FT_MIN(limit, FT_MAX_IOV), done = 0;
	char *const base = op->iov[0].iov_base;

	if (len < 2 * pieces)
		return;
	for (size_t i = 0; i < pieces; i++) {
		size_t part = (len - done) / (2 + (number + i) % 3);

		if (i == pieces - 1)
			part = len - done;
		op->iov[i] = (struct iovec){base + done, part};
		op->desc[i] = op->desc[0];
		done += part;
	}
	op->count = pieces;
}

static struct ft_slot place(const struct side *side, const struct message *msg,
			    enum fi_hmem_iface kind, size_t slack)
{
	const size_t off = GUARD_LEN + msg->offset;

	return (struct ft_slot){
		.buf = &side->buf[kind != FI_HMEM_SYSTEM],
		.room = off + msg->size + slack + GUARD_LEN,
		.off = off,
		.len = msg->size,
	};
}

static uint64_t data_of(const struct message *msg)
{
	return 0x5a000000u ^ msg->number;
}

static uint64_t tag_of(const struct message *msg)
{
	return 0x7e57000000ULL + msg->number;
}

static void describe(const struct message *msg, char *text, size_t len)
{
	snprintf(text, len,
		 "message %" PRIu64 " (%s%s %s to %s %s, %zu bytes at offset %zu, "
		 "buffer %zu)",
		 msg->number, msg->tagged ? "tagged " : "", msg->tx->name,
		 ft_mem_ops(msg->from)->name, msg->rx->name, ft_mem_ops(msg->to)->name,
		 msg->size, msg->offset, msg->size + msg->slack);
}

static int check_flags(const struct ft_req *req, uint64_t want, uint64_t not, const char *what)
{
	FT_CHECK((req->comp.flags & (want | not )) == want,
		 "%s: completion flags %#" PRIx64 ": expected %#" PRIx64 ", none of %#" PRIx64,
		 what, req->comp.flags, want, not );
	return 0;
}

static int send_one(struct side *side, const struct message *msg, const char *what)
{
	const struct ft_slot slot = place(side, msg, msg->from, 0);
	const bool no_completion = msg->tx->call == FT_INJECT || msg->tx->call == FT_INJECTDATA;
	struct ft_req req = {0};
	struct ft_op op = {
		.call = msg->tx->call,
		.tagged = msg->tagged,
		.addr = side->ctx.peer[1],
		.tag = tag_of(msg),
		.data = data_of(msg),
		.flags = msg->tx->flags,
		.req = no_completion ? NULL : &req,
	};

	FT_TRY(ft_slot_fill(&slot, msg->number));
	ft_op_buf(&op, slot.buf, slot.off, slot.len);
	if (msg->tx->split)
		split(&op, side->ctx.info->tx_attr->iov_limit, msg->number);
	FT_TRY(ft_post(&side->ctx, &op));
	/* An injected buffer is ours again at once. */
	if (msg->tx->inject)
		FT_TRY(ft_slot_arm(&slot));
	if (no_completion)
		return 0;
	FT_TRY(ft_wait(&side->ctx, &req, 1));
	return check_flags(&req, FI_SEND | (msg->tagged ? FI_TAGGED : FI_MSG), FI_RECV, what);
}

static int recv_one(struct side *side, const struct message *msg, const char *what)
{
	const struct ft_slot slot = place(side, msg, msg->to, msg->slack);
	struct ft_req req = {0};
	struct ft_op op = {
		.call = msg->rx->call,
		.tagged = msg->tagged,
		.addr = msg->number % 2 ? side->ctx.peer[0] : FI_ADDR_UNSPEC,
		.tag = tag_of(msg),
		.req = &req,
	};
	const uint64_t kind = msg->tagged ? FI_TAGGED : FI_MSG;
	const uint64_t data = msg->tx->data ? FI_REMOTE_CQ_DATA : 0;

	FT_TRY(ft_slot_arm(&slot));
	ft_op_buf(&op, slot.buf, slot.off, msg->size + msg->slack);
	if (msg->rx->split)
		split(&op, side->ctx.info->rx_attr->iov_limit, msg->number);
	FT_TRY(ft_post(&side->ctx, &op));
	FT_TRY(ft_wait(&side->ctx, &req, 1));
	FT_TRY(check_flags(&req, FI_RECV | kind | data, FI_SEND | (FI_REMOTE_CQ_DATA ^ data),
			   what));
	FT_CHECK(req.comp.len == msg->size, "%s: completion says %zu bytes", what,
		 req.comp.len);
	FT_CHECK(!msg->tagged || req.comp.tag == op.tag,
		 "%s: completion has tag %#" PRIx64 ", expected %#" PRIx64, what, req.comp.tag,
		 op.tag);
	FT_CHECK(!msg->tx->data || req.comp.data == data_of(msg),
		 "%s: completion has data %#" PRIx64 ", expected %#" PRIx64, what,
		 req.comp.data, data_of(msg));
	return ft_slot_check(&slot, msg->size, msg->number, what);
}

static int one(struct side *side, const struct message *msg)
{
	char what[256];
	int ret;

	if (msg->tx->inject && msg->size > side->ctx.info->tx_attr->inject_size)
		return 0;
	describe(msg, what, sizeof(what));
	ret = side->proc->rank == 0 ? send_one(side, msg, what) : recv_one(side, msg, what);
	if (ret)
		ft_err("%s failed", what);
	return ret;
}

/*
 * The full product of sending calls, memory kinds, sizes and offsets; receiving calls and
 * buffer sizes rotate through it. A quick run rotates the offsets, too.
 */
static int all(struct side *side)
{
	const struct ft_opts *opts = &side->proc->opts;
	const size_t each_offset = opts->quick ? 1 : FT_COUNT(offsets);
	enum fi_hmem_iface kinds[2];
	const size_t kind_count = ft_kinds(opts, kinds);
	const size_t total = FT_COUNT(sizes) * FT_COUNT(tx_variants) * 2 * kind_count *
			     kind_count * each_offset;
	struct message msg = {0};

	for (size_t i = 0; i < total; i++) {
		size_t rest = i;

		msg.number = i;
		msg.tagged = rest % 2 && ft_has_tags(&side->ctx);
		rest /= 2;
		msg.from = kinds[rest % kind_count];
		rest /= kind_count;
		msg.to = kinds[rest % kind_count];
		rest /= kind_count;
		msg.tx = &tx_variants[rest % FT_COUNT(tx_variants)];
		rest /= FT_COUNT(tx_variants);
		msg.size = sizes[rest % FT_COUNT(sizes)];
		rest /= FT_COUNT(sizes);
		msg.offset = offsets[(opts->quick ? i / 5 : rest) % FT_COUNT(offsets)];
		msg.rx = &rx_variants[i / 7 % FT_COUNT(rx_variants)];
		msg.slack = i / 11 % 2 ? SLACK : 0;
		FT_TRY(one(side, &msg));
	}
	return 0;
}

static int run(struct ft_proc *proc)
{
	const size_t room = sizes[FT_COUNT(sizes) - 1] + 3 * GUARD_LEN + SLACK;
	struct side side = {.proc = proc};
	enum fi_hmem_iface kinds[2];
	const size_t kind_count = ft_kinds(&proc->opts, kinds);

	FT_TRY(ft_test_hints(proc, &side.ctx));
	FT_TRY(ft_test_open(proc, &side.ctx));
	FT_TRY(ft_test_connect(proc, &side.ctx));
	for (size_t i = 0; i < kind_count; i++)
		FT_TRY(ft_buf_alloc(&side.ctx, &side.buf[i], kinds[i], room));
	FT_TRY(all(&side));
	FT_TRY(ft_barrier(proc, &side.ctx));
	for (size_t i = 0; i < kind_count; i++)
		ft_buf_free(&side.buf[i]);
	return ft_close(&side.ctx);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Every send and receive call, memory kind, size and alignment.",
		.ranks = 2,
		.connects = true,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
