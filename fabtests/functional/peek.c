/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_peek: FI_PEEK, FI_CLAIM and FI_DISCARD of tagged messages, of all sizes, from and to
 * both kinds of memory. A peek tells length, tag and remote data of the message itself, or
 * says FI_ENOMSG; what is claimed is received by its claim only, what is discarded by nobody.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ft_test.h"

#define EAGER_SIZE "4096" /* FI_P2P_EAGER_SIZE: what is longer is announced */
#define LARGEST 300000
#define DATA_BASE 0x9ee00000u
#define TAG_BASE 0x7000
#define NO_TAG 0x6fff

static const size_t sizes[] = {0, 1, 100, 4096, 4097, 20000, 65537, LARGEST};

enum way {
	PEEK_RECV,
	PEEK_PEEK_RECV,
	CLAIM_RECV,
	PEEK_DISCARD,
	CLAIM_DISCARD,
	CLAIM_SECOND_FIRST, /* of two messages, the second is received before the first */
	WAYS
};

static const char *const way_names[WAYS] = {
	"peek, receive",    "peek twice, receive", "claim, receive",
	"peek and discard", "claim, discard",      "claim, receive the next, then the claimed",
};

struct side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	struct ft_buf buf[2]; /* by kind: host, device */
	uint64_t number;
};

struct test_case {
	enum way way;
	size_t from, to, size;
	bool data;
};

static bool core_is(const struct side *s, const char *name)
{
	return !strncmp(s->ctx.info->fabric_attr->prov_name, name, strlen(name));
}

/*
 * What core providers do not manage: net looks no further than the first message; ofi_rxm
 * does not tell the sender of a long message that it throws away, tcp finds it again, and
 * ofi_rxm claims only the first part of one that comes in several. An announced message is
 * ofi_p2p's business.
 */
static bool left_out(const struct side *s, const struct test_case *c)
{
	const bool ours = ft_is_p2p(&s->ctx) && c->from && c->size > 4096;

	if (core_is(s, "net"))
		return c->way == CLAIM_SECOND_FIRST;
	if (ours || c->size <= 4096 || c->way == PEEK_RECV || c->way == PEEK_PEEK_RECV)
		return false;
	return c->way == PEEK_DISCARD || c->way == CLAIM_DISCARD ||
	       strstr(s->ctx.info->fabric_attr->prov_name, "ofi_rxm");
}

/* ---- sending ---- */

static int send_case(struct side *s, const struct test_case *c)
{
	const size_t count = c->way == CLAIM_SECOND_FIRST ? 2 : 1;
	struct ft_req req[2] = {0};

	for (size_t i = 0; i < count; i++) {
		const struct ft_slot slot = {&s->buf[c->from], i * LARGEST, c->size,
					     i * LARGEST, c->size};
		struct ft_op op = {
			.call = c->data ? FT_SENDDATA : FT_SEND,
			.tagged = true,
			.addr = s->ctx.peer[1],
			.tag = TAG_BASE + s->number,
			.data = DATA_BASE + s->number,
			.req = &req[i],
		};

		FT_TRY(ft_slot_fill(&slot, 2 * s->number + i));
		ft_op_buf(&op, slot.buf, slot.off, slot.len);
		FT_TRY(ft_post(&s->ctx, &op));
	}
	return ft_wait(&s->ctx, req, count);
}

/* ---- receiving ---- */

static int probe(struct side *s, uint64_t tag, uint64_t flags, struct ft_req *req)
{
	const struct ft_op op = {
		.call = FT_RECVMSG,
		.tagged = true,
		.addr = s->number % 2 ? s->ctx.peer[0] : FI_ADDR_UNSPEC,
		.tag = tag,
		.flags = flags,
		.req = req,
	};

	FT_TRY(ft_post(&s->ctx, &op));
	FT_TRY(ft_wait_any_result(&s->ctx, req, 1));
	FT_CHECK(!req->err || abs(req->err) == FI_ENOMSG, "a probe ended with %s",
		 fi_strerror(abs(req->err)));
	return 0;
}

static int probe_nothing(struct side *s, uint64_t tag)
{
	struct ft_req req = {0};

	FT_TRY(probe(s, tag, FI_PEEK, &req));
	FT_CHECK(req.err, "a peek has found a message where none is");
	return 0;
}

/* Probes until the message has arrived. */
static int probe_found(struct side *s, const struct test_case *c, uint64_t flags,
		       struct ft_req *req)
{
	do {
		FT_TRY(probe(s, TAG_BASE + s->number, flags, req));
		if (req->err)
			FT_TRY(ft_idle(&s->ctx));
	} while (req->err);
	/* what the length of a discarded message is said to be is the core provider's choice */
	FT_CHECK(req->comp.len == c->size || flags & FI_DISCARD,
		 "a peek says %zu bytes, the message has %zu", req->comp.len, c->size);
	FT_CHECK(req->comp.tag == TAG_BASE + s->number, "a peek says tag %#" PRIx64,
		 req->comp.tag);
	FT_CHECK(!(req->comp.flags & FI_REMOTE_CQ_DATA) || c->data,
		 "a peek says that there is data");
	if (c->data)
		FT_CHECK(req->comp.data == DATA_BASE + s->number, "a peek says data %#" PRIx64,
			 req->comp.data);
	else
		FT_CHECK(req->comp.data <= UINT32_MAX, "a peek shows data %#" PRIx64,
			 req->comp.data);
	return 0;
}

/* Receives message @i of the case, with @req; @flags: FI_CLAIM or 0 */
static int receive(struct side *s, const struct test_case *c, uint64_t flags, size_t i,
		   struct ft_req *req)
{
	const struct ft_slot slot = {&s->buf[c->to], 0, c->size + FT_ROOM, 64, c->size};
	struct ft_op op = {
		.call = FT_RECVMSG,
		.tagged = true,
		.addr = s->number % 2 ? s->ctx.peer[0] : FI_ADDR_UNSPEC,
		.tag = TAG_BASE + s->number,
		.flags = flags,
		.req = req,
	};

	FT_TRY(ft_slot_arm(&slot));
	ft_op_buf(&op, slot.buf, slot.off, c->size);
	FT_TRY(ft_post(&s->ctx, &op));
	FT_TRY(ft_wait(&s->ctx, req, 1));
	FT_CHECK(req->comp.len == c->size, "received %zu bytes instead of %zu", req->comp.len,
		 c->size);
	FT_CHECK(!c->data || ((req->comp.flags & FI_REMOTE_CQ_DATA) &&
			      req->comp.data == DATA_BASE + s->number),
		 "received with flags %#" PRIx64 ", data %#" PRIx64, req->comp.flags,
		 req->comp.data);
	return ft_slot_check(&slot, c->size, 2 * s->number + i, "after a peek");
}

static int recv_case(struct side *s, const struct test_case *c)
{
	struct ft_req req = {0}, other = {0};

	FT_TRY(probe_nothing(s, NO_TAG));
	switch (c->way) {
	case PEEK_PEEK_RECV:
		FT_TRY(probe_found(s, c, FI_PEEK, &other));
		/* fall through */
	case PEEK_RECV:
		FT_TRY(probe_found(s, c, FI_PEEK, &req));
		FT_TRY(receive(s, c, 0, 0, &req));
		break;
	case CLAIM_RECV:
		FT_TRY(probe_found(s, c, FI_PEEK | FI_CLAIM, &req));
		FT_TRY(probe_nothing(s, TAG_BASE + s->number));
		FT_TRY(receive(s, c, FI_CLAIM, 0, &req));
		break;
	case PEEK_DISCARD:
		FT_TRY(probe_found(s, c, FI_PEEK | FI_DISCARD, &req));
		break;
	case CLAIM_DISCARD:
		FT_TRY(probe_found(s, c, FI_PEEK | FI_CLAIM, &req));
		FT_TRY(probe(s, TAG_BASE + s->number, FI_CLAIM | FI_DISCARD, &req));
		FT_CHECK(!req.err, "a claimed message could not be discarded");
		break;
	default:
		FT_TRY(probe_found(s, c, FI_PEEK | FI_CLAIM, &req));
		FT_TRY(receive(s, c, 0, 1, &other));
		FT_TRY(receive(s, c, FI_CLAIM, 0, &req));
	}
	return probe_nothing(s, TAG_BASE + s->number);
}

static int one(struct side *s, const struct test_case *c)
{
	int ret;

	if (left_out(s, c))
		return 0;
	s->number++;
	ret = s->proc->rank == 0 ? send_case(s, c) : recv_case(s, c);
	if (!ret)
		ret = ft_barrier(s->proc, &s->ctx);
	if (ret)
		ft_err("%s: %zu bytes, %s to %s memory, with%s data", way_names[c->way],
		       c->size, s->buf[c->from].ops->name, s->buf[c->to].ops->name,
		       c->data ? "" : "out");
	return ret;
}

static int run(struct ft_proc *proc)
{
	struct side s = {.proc = proc};
	enum fi_hmem_iface kinds[2];
	const size_t kind_count = ft_kinds(&proc->opts, kinds);

	FT_TRY(ft_test_hints(proc, &s.ctx));
	FT_TRY(ft_test_open(proc, &s.ctx));
	if (core_is(&s, "shm") && FI_VERSION_LT(fi_version(), FI_VERSION(1, 19))) {
		ft_close(&s.ctx);
		return ft_skip("shm has no FI_PEEK before libfabric 1.19");
	}
	FT_TRY(ft_test_connect(proc, &s.ctx));
	for (size_t i = 0; i < kind_count; i++)
		FT_TRY(ft_buf_alloc(&s.ctx, &s.buf[i], kinds[i], 2 * LARGEST + FT_ROOM));
	for (size_t i = 0; i < WAYS * FT_COUNT(sizes) * kind_count * kind_count * 2; i++) {
		struct test_case c = {.data = i % 2};
		size_t rest = i / 2;

		c.from = rest % kind_count;
		rest /= kind_count;
		c.to = rest % kind_count;
		rest /= kind_count;
		c.size = sizes[rest % FT_COUNT(sizes)];
		c.way = rest / FT_COUNT(sizes);
		FT_TRY(one(&s, &c));
	}
	for (size_t i = 0; i < kind_count; i++)
		ft_buf_free(&s.buf[i]);
	return ft_close(&s.ctx);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Peeking at messages, claiming and discarding them.",
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	setenv("FI_P2P_EAGER_SIZE", EAGER_SIZE, 1);
	return ft_test_main(&test, argc, argv);
}
