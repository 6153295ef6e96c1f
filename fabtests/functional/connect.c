/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_connect: connections. A request that is rejected, with data both ways; several
 * endpoints by way of one that listens, which share a queue and keep their messages
 * apart; one whose receives come from a shared context, where the provider has those;
 * an end that shuts down, of which the other is told, and whose receives end.
 * Events are about our objects, and what a request says of the provider is what
 * fi_getinfo said.
 *
 * Rank 0 listens, rank 1 asks.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ft_test.h"

#define CONNECTIONS 3
#define SHARED CONNECTIONS /* the one more that has a shared context */
#define MESSAGES 4         /* each way, of every connection */
#define TOTAL (CONNECTIONS * MESSAGES)
#define LARGEST ((size_t) 200000)
#define STRIDE (LARGEST + FT_ROOM)

static const char question[] = "may I?", answer[] = "you may not";

/**
 * struct side
 * @listener:	what fi_getinfo() said to rank 0
 * @ep, @rx_ep:	connections, and where each one's receives are posted
 */
struct side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	struct fi_info *listener;
	struct fid_ep *ep[CONNECTIONS + 1], *rx_ep[CONNECTIONS + 1];
	struct ft_buf tx[2], rx[2]; /* by kind: host, device */
	size_t kind_count;
};

/* ---- connecting ---- */

static int check_request(const struct side *s, const struct fi_info *info)
{
	const struct fi_info *mine = s->listener;
	const uint64_t wanted = s->ctx.hints->caps;

	FT_CHECK(info->fabric_attr->prov_name &&
			 !strcmp(info->fabric_attr->prov_name, mine->fabric_attr->prov_name),
		 "a request for %s, listening is %s", info->fabric_attr->prov_name,
		 mine->fabric_attr->prov_name);
	FT_CHECK((info->caps & wanted) == wanted &&
			 !(wanted & FI_HMEM & ~info->tx_attr->caps) &&
			 info->domain_attr->mr_mode == mine->domain_attr->mr_mode,
		 "a request with caps %#" PRIx64 ", %#" PRIx64
		 ", mr_mode %#x; asked for %#" PRIx64 ", listening is mr_mode %#x",
		 info->caps, info->tx_attr->caps, (unsigned int) info->domain_attr->mr_mode,
		 wanted, (unsigned int) mine->domain_attr->mr_mode);
	return 0;
}

/* Looks at the first request with room for no more than the object that it is for. */
static int peek_short(struct side *s)
{
	struct fid *fid = NULL;
	uint32_t event;
	ssize_t ret;

	while ((ret = fi_eq_read(s->ctx.eq, &event, &fid, sizeof(fid), FI_PEEK)) == -FI_EAGAIN)
		FT_TRY(ft_idle(&s->ctx));
	FT_CHECK(ret == -FI_ETOOSMALL || (ret == sizeof(fid) && fid == &s->ctx.pep->fid),
		 "an event read into %zu bytes: %zd", sizeof(fid), ret);
	return 0;
}

static int reject(struct side *s)
{
	struct ft_event event;
	int ret;

	FT_TRY(peek_short(s));
	FT_TRY(ft_eq_wait(&s->ctx, FI_CONNREQ, &event));
	FT_CHECK(event.entry.fid == &s->ctx.pep->fid, "a request for another endpoint");
	FT_CHECK(event.data_len >= sizeof(question) &&
			 !memcmp(event.entry.data, question, sizeof(question)),
		 "%zu bytes came with the request", event.data_len);
	FT_TRY(check_request(s, event.entry.info));
	ret = fi_reject(s->ctx.pep, event.entry.info->handle, answer, sizeof(answer));
	fi_freeinfo(event.entry.info);
	return ret ? ft_fail(ret, "fi_reject", "a request") : 0;
}

static int be_rejected(struct side *s)
{
	union {
		struct fi_eq_err_entry entry;
		char room[sizeof(struct fi_eq_err_entry) + 256];
	} err = {.room = {0}};
	struct ft_event event;
	uint32_t type;
	ssize_t ret;

	ret = fi_connect(s->ctx.ep, s->ctx.info->dest_addr, question, sizeof(question));
	if (ret)
		return ft_fail((int) ret, "fi_connect", "with data");
	ret = ft_eq_wait_any(&s->ctx, &type, &event);
	FT_CHECK(ret == -FI_EAVAIL, "a rejected request ended with %zd", ret);
	ret = fi_eq_readerr(s->ctx.eq, &err.entry, 0);
	FT_CHECK(ret > 0 && err.entry.fid == &s->ctx.ep->fid &&
			 err.entry.err == FI_ECONNREFUSED,
		 "a rejected request: fi_eq_readerr %zd, error %d (%s)%s", ret, err.entry.err,
		 fi_strerror(err.entry.err),
		 err.entry.fid == &s->ctx.ep->fid ? "" : ", of another endpoint");
	FT_CHECK(err.entry.err_data_size >= sizeof(answer) &&
			 !memcmp(err.entry.err_data, answer, sizeof(answer)),
		 "%zu bytes came with the rejection", err.entry.err_data_size);
	ret = fi_close(&s->ctx.ep->fid);
	s->ctx.ep = NULL;
	return ret ? ft_fail((int) ret, "fi_close", "the endpoint of a rejected request") : 0;
}

static int connect_one(struct side *s, size_t i)
{
	if (s->proc->rank == 0)
		FT_TRY(check_request(s, s->ctx.info));
	if (!s->ctx.ep)
		FT_TRY(ft_ep_open(&s->ctx));
	FT_TRY(ft_connect(&s->ctx));
	s->ep[i] = s->ctx.ep;
	if (!s->rx_ep[i])
		s->rx_ep[i] = s->ctx.ep;
	s->ctx.ep = NULL;
	return 0;
}

static int connect_all(struct side *s)
{
	for (size_t i = 0; i < CONNECTIONS; i++) {
		if (s->proc->rank == 0 && i) /* ft_open() has waited for the first */
			FT_TRY(ft_request_wait(&s->ctx));
		FT_TRY(connect_one(s, i));
	}
	return 0;
}

static int bind_shared(struct ft_ctx *ctx)
{
	const struct side *s = ctx->test;
	int ret = fi_ep_bind(ctx->ep, &s->rx_ep[SHARED]->fid, 0);

	return ret ? ft_fail(ret, "fi_ep_bind", "a shared receive context") : 0;
}

/* One more, with a context whose attributes say next to nothing, as they may */
static int connect_shared(struct side *s)
{
	struct fi_rx_attr attr = {.size = s->ctx.info->rx_attr->size};
	int ret = fi_srx_context(s->ctx.domain, &attr, &s->rx_ep[SHARED], NULL);

	if (ret == -FI_ENOSYS || ret == -FI_EOPNOTSUPP)
		return 0;
	if (ret)
		return ft_fail(ret, "fi_srx_context", "next to no attributes");
	if (s->proc->rank == 0)
		FT_TRY(ft_request_wait(&s->ctx));
	s->ctx.info->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	s->ctx.test = s;
	s->ctx.prepare = bind_shared;
	return connect_one(s, SHARED);
}

static int open_all(struct side *s)
{
	struct ft_ctx *ctx = &s->ctx;
	const char *const addr = s->proc->opts.src_addr;

	FT_TRY(ft_test_hints(s->proc, ctx));
	if (s->proc->rank == 1) {
		FT_TRY(ft_resolve_listener(ctx, s->proc->fd[0]));
		FT_TRY(ft_open(ctx));
		FT_TRY(be_rejected(s));
		return connect_all(s);
	}
	FT_TRY(ft_getinfo(ctx, addr, NULL, addr ? FI_SOURCE : 0));
	s->listener = fi_dupinfo(ctx->info);
	if (!s->listener)
		return ft_fail(-FI_ENOMEM, "fi_dupinfo", "listener");
	FT_TRY(ft_listen(ctx, s->proc->fd[1]));
	FT_TRY(reject(s));
	FT_TRY(ft_open(ctx));
	return connect_all(s);
}

/* ---- messages ---- */

/* Message @n is one of @rank's. */
static struct ft_slot place(const struct side *s, const struct ft_buf *bufs, size_t n, int rank)
{
	static const size_t sizes[] = {1, 4096, LARGEST, 0, 70000};
	const size_t len = sizes[(n + (size_t) rank) % FT_COUNT(sizes)];

	return (struct ft_slot){&bufs[n / 2 % s->kind_count], n * STRIDE, len + FT_ROOM,
				n * STRIDE + 64, len};
}

static uint64_t key(size_t n, int rank)
{
	return 2 * n + (uint64_t) rank;
}

static int post(struct side *s, enum ft_call call, const struct ft_slot *slot, size_t to,
		struct ft_req *req)
{
	struct ft_op op = {.call = call, .req = req};
	int ret;

	ft_op_buf(&op, slot->buf, slot->off, slot->len);
	s->ctx.ep = call == FT_RECV ? s->rx_ep[to] : s->ep[to];
	ret = ft_post(&s->ctx, &op);
	s->ctx.ep = NULL;
	return ret;
}

/* All that one way and the other; @count connections from @first on take turns */
static int exchange(struct side *s, size_t first, size_t count)
{
	struct ft_req sent[TOTAL] = {0}, received[TOTAL] = {0};
	const int self = s->proc->rank;

	for (size_t n = 0; n < TOTAL; n++) {
		const struct ft_slot slot = place(s, s->rx, n, !self);

		FT_TRY(ft_slot_arm(&slot));
		FT_TRY(post(s, FT_RECV, &slot, first + n % count, &received[n]));
	}
	for (size_t n = 0; n < TOTAL; n++) {
		const struct ft_slot slot = place(s, s->tx, n, self);

		FT_TRY(ft_slot_fill(&slot, key(n, self)));
		FT_TRY(post(s, FT_SEND, &slot, first + n % count, &sent[n]));
	}
	FT_TRY(ft_wait(&s->ctx, sent, TOTAL));
	FT_TRY(ft_wait(&s->ctx, received, TOTAL));
	for (size_t n = 0; n < TOTAL; n++) {
		const struct ft_slot slot = place(s, s->rx, n, !self);

		FT_CHECK(received[n].comp.len == slot.len, "message %zu has %zu bytes of %zu",
			 n, received[n].comp.len, slot.len);
		FT_TRY(ft_slot_check(&slot, slot.len, key(n, !self), "a message"));
	}
	return ft_barrier(s->proc, &s->ctx);
}

/* A receive without an address, of a message without bytes */
static int receive_nothing(struct side *s)
{
	struct ft_req req = {0};
	struct ft_op op = {.count = 1, .req = &req};

	s->ctx.ep = s->ep[0];
	op.call = s->proc->rank ? FT_SEND : FT_RECV;
	op.iov[0].iov_len = s->proc->rank ? 0 : 4096;
	FT_TRY(ft_post(&s->ctx, &op));
	s->ctx.ep = NULL;
	FT_TRY(ft_wait(&s->ctx, &req, 1));
	FT_CHECK(s->proc->rank || !req.comp.len, "a message of no bytes has %zu", req.comp.len);
	return ft_barrier(s->proc, &s->ctx);
}

/* ---- the end ---- */

/* Some providers see it in the event queue, others as they progress. */
static int wait_shutdown(struct side *s)
{
	struct ft_event event;
	uint32_t type;
	ssize_t ret;

	while ((ret = fi_eq_read(s->ctx.eq, &type, event.room, sizeof(event.room), 0)) ==
	       -FI_EAGAIN) {
		int n = ft_progress(&s->ctx);

		if (n < 0)
			return n;
		if (!n)
			FT_TRY(ft_idle(&s->ctx));
	}
	FT_CHECK(ret > 0 && type == FI_SHUTDOWN, "fi_eq_read %zd, event %" PRIu32, ret, type);
	FT_CHECK(event.entry.fid == &s->ep[0]->fid, "another endpoint was shut down");
	return 0;
}

static int see_shutdown(struct side *s)
{
	struct ft_req req[2] = {0};

	for (size_t n = 0; n < 2; n++) {
		const struct ft_slot slot = {&s->rx[n % s->kind_count], n * STRIDE,
					     LARGEST + FT_ROOM, n * STRIDE + 64, LARGEST};

		FT_TRY(ft_slot_arm(&slot));
		FT_TRY(post(s, FT_RECV, &slot, 0, &req[n]));
	}
	FT_TRY(ft_barrier(s->proc, &s->ctx));
	FT_TRY(wait_shutdown(s));
	/* verbs gives receives back when this end is down, too; tcp is at the end of it
	 */
	fi_shutdown(s->ep[0], 0);
	FT_TRY(ft_wait_any_result(&s->ctx, req, 2));
	FT_CHECK(req[0].err && req[1].err,
		 "a receive of an endpoint that was shut down ended well");
	return 0;
}

/* One connection ends, the others do not notice. */
static int shut_one(struct side *s)
{
	struct ft_req req = {0};
	const struct ft_slot slot = place(s, s->proc->rank ? s->tx : s->rx, 1, 1);
	int ret;

	if (s->proc->rank == 0) {
		FT_TRY(see_shutdown(s));
	} else {
		FT_TRY(ft_barrier(s->proc, &s->ctx));
		ret = fi_shutdown(s->ep[0], 0);
		if (ret)
			return ft_fail(ret, "fi_shutdown", "the first connection");
	}
	FT_TRY(ft_barrier(s->proc, &s->ctx));
	FT_TRY(s->proc->rank ? ft_slot_fill(&slot, 77) : ft_slot_arm(&slot));
	FT_TRY(post(s, s->proc->rank ? FT_SEND : FT_RECV, &slot, 1, &req));
	FT_TRY(ft_wait(&s->ctx, &req, 1));
	FT_TRY(s->proc->rank ? 0 : ft_slot_check(&slot, slot.len, 77, "another connection's"));
	return ft_barrier(s->proc, &s->ctx);
}

static int run(struct ft_proc *proc)
{
	struct side s = {.proc = proc};
	enum fi_hmem_iface kinds[2];
	int ret = 0;

	s.kind_count = ft_kinds(&proc->opts, kinds);
	FT_TRY(open_all(&s));
	FT_TRY(connect_shared(&s));
	for (size_t k = 0; k < s.kind_count; k++) {
		FT_TRY(ft_buf_alloc(&s.ctx, &s.tx[k], kinds[k], TOTAL * STRIDE));
		FT_TRY(ft_buf_alloc(&s.ctx, &s.rx[k], kinds[k], TOTAL * STRIDE));
	}
	FT_TRY(ft_barrier(proc, &s.ctx));
	for (int round = 0; round < (proc->opts.quick ? 3 : 20); round++)
		FT_TRY(exchange(&s, 0, CONNECTIONS));
	FT_TRY(receive_nothing(&s));
	if (s.ep[SHARED])
		FT_TRY(exchange(&s, SHARED, 1));
	FT_TRY(shut_one(&s));
	for (size_t i = 0; !ret && i <= SHARED && s.ep[i]; i++)
		ret = fi_close(&s.ep[i]->fid);
	if (!ret && s.ep[SHARED])
		ret = fi_close(&s.rx_ep[SHARED]->fid);
	if (ret)
		return ft_fail(ret, "fi_close", "a connected endpoint");
	for (size_t k = 0; k < s.kind_count; k++) {
		ft_buf_free(&s.tx[k]);
		ft_buf_free(&s.rx[k]);
	}
	fi_freeinfo(s.listener);
	return ft_close(&s.ctx);
}

static int run_if_asked(struct ft_proc *proc)
{
	if (proc->opts.ep_type == FI_EP_MSG)
		return run(proc);
	return proc->rank ? FT_SKIP : ft_skip("for connected endpoints: -e msg");
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Connections: asked for, rejected, accepted, used and shut down.",
		.ranks = 2,
		.connects = true,
		.may_die = -1,
		.run = run_if_asked,
	};

	return ft_test_main(&test, argc, argv);
}
