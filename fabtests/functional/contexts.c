/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_contexts: contexts of a scalable endpoint, and shared ones, between every pair of memory kinds. For cores that
 * have them: sockets has.
 */
#include <string.h>

#include "ft_test.h"

#define CONTEXTS 2
#define BITS 1
#define TAG 5
#define LARGEST ((size_t) 100000)

/**
 * struct side - endpoints that send to themselves, and what they share.
 * @av:		for the scalable endpoint, whose addresses name contexts
 * @sent:	counts what @tx[0] sends
 * @self, @sep_self: the endpoint's address, and the scalable endpoint's
 */
struct side {
	struct ft_ctx ctx;
	struct fid_ep *sep, *tx[CONTEXTS], *rx[CONTEXTS], *ep, *srx;
	struct fid_stx *stx;
	struct fid_av *av;
	struct fid_cntr *sent;
	fi_addr_t self, sep_self;
	struct ft_buf from[2], to[2];
	size_t kinds;
	uint64_t number;
};

static int insert_self(struct fid_ep *ep, struct fid_av *av, fi_addr_t *self)
{
	struct ft_name name;
	size_t len = sizeof(name.bytes);
	const int ret = fi_getname(&ep->fid, name.bytes, &len);

	if (ret)
		return ft_fail(ret, "fi_getname", "an endpoint with contexts");
	FT_CHECK(fi_av_insert(av, name.bytes, 1, self, 0, NULL) == 1, "fi_av_insert");
	return 0;
}

/* ---- messages ---- */

/* One message, between buffers of two kinds */
static int message(struct side *s, struct fid_ep *tx, struct fid_ep *rx, fi_addr_t dest,
		   size_t from, size_t to, size_t len)
{
	const struct ft_slot out = {&s->from[from], 0, len + FT_ROOM, 64, len};
	const struct ft_slot in = {&s->to[to], 0, len + FT_ROOM, 64, len};
	struct ft_req req[2];
	ssize_t ret;

	memset(req, 0, sizeof(req));
	s->number++;
	FT_TRY(ft_slot_fill(&out, s->number));
	FT_TRY(ft_slot_arm(&in));
	ret = fi_trecv(rx, in.buf->addr + in.off, len, in.buf->desc, FI_ADDR_UNSPEC, TAG, 0,
		       &req[0]);
	FT_CHECK(!ret, "fi_trecv: %s", fi_strerror((int) -ret));
	while ((ret = fi_tsend(tx, out.buf->addr + out.off, len, out.buf->desc, dest, TAG,
			       &req[1])) == -FI_EAGAIN)
		FT_TRY(ft_idle(&s->ctx));
	FT_CHECK(!ret, "fi_tsend: %s", fi_strerror((int) -ret));
	FT_TRY(ft_wait(&s->ctx, req, 2));
	return ft_slot_check(&in, len, s->number, "by way of a context");
}

static int messages(struct side *s, struct fid_ep *tx, struct fid_ep *rx, fi_addr_t dest)
{
	static const size_t sizes[] = {0, 64, 20000, LARGEST};

	for (size_t i = 0; i < s->kinds * s->kinds; i++)
		for (size_t n = 0; n < FT_COUNT(sizes); n++)
			FT_TRY(message(s, tx, rx, dest, i % s->kinds, i / s->kinds, sizes[n]));
	return 0;
}

/* ---- a scalable endpoint ---- */

static int open_contexts(struct side *s)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_NONE};
	struct fid *cq = &s->ctx.cq->fid;
	int ret = fi_cntr_open(s->ctx.domain, &attr, &s->sent, NULL);

	for (int i = 0; !ret && i < CONTEXTS; i++) {
		ret = fi_tx_context(s->sep, i, NULL, &s->tx[i], NULL);
		if (!ret)
			ret = fi_rx_context(s->sep, i, NULL, &s->rx[i], NULL);
		if (!ret)
			ret = fi_ep_bind(s->tx[i], cq, FI_TRANSMIT);
		if (!ret && !i)
			ret = fi_ep_bind(s->tx[i], &s->sent->fid, FI_SEND);
		if (!ret)
			ret = fi_ep_bind(s->rx[i], cq, FI_RECV);
	}
	if (!ret)
		ret = fi_scalable_ep_bind(s->sep, &s->av->fid, 0);
	for (int i = 0; !ret && i < CONTEXTS; i++) {
		ret = fi_enable(s->tx[i]);
		if (!ret)
			ret = fi_enable(s->rx[i]);
	}
	return ret ? ret : fi_enable(s->sep);
}

static int open_scalable(struct side *s)
{
	struct fi_av_attr attr = {.type = FI_AV_TABLE, .rx_ctx_bits = BITS};
	int ret;

	s->ctx.info->ep_attr->tx_ctx_cnt = s->ctx.info->ep_attr->rx_ctx_cnt = CONTEXTS;
	ret = fi_av_open(s->ctx.domain, &attr, &s->av, NULL);
	if (!ret)
		ret = fi_scalable_ep(s->ctx.domain, s->ctx.info, &s->sep, NULL);
	if (!ret)
		ret = open_contexts(s);
	if (ret)
		return ft_fail(ret, "fi_scalable_ep", "with its contexts");
	return insert_self(s->sep, s->av, &s->sep_self);
}

static int close_scalable(struct side *s)
{
	FT_CHECK(fi_close(&s->sep->fid) == -FI_EBUSY,
		 "a scalable endpoint with contexts could be closed");
	for (int i = 0; i < CONTEXTS; i++) {
		FT_TRY(fi_close(&s->tx[i]->fid));
		FT_TRY(fi_close(&s->rx[i]->fid));
	}
	FT_TRY(fi_close(&s->sep->fid));
	FT_TRY(fi_close(&s->sent->fid));
	return fi_close(&s->av->fid);
}

static int scalable(struct side *s)
{
	FT_TRY(open_scalable(s));
	for (int i = 0; i < CONTEXTS; i++)
		FT_TRY(messages(s, s->tx[i], s->rx[CONTEXTS - 1 - i],
				fi_rx_addr(s->sep_self, CONTEXTS - 1 - i, BITS)));
	FT_CHECK(fi_cntr_read(s->sent) == s->number / CONTEXTS,
		 "a context's counter has %zu, not %zu", (size_t) fi_cntr_read(s->sent),
		 (size_t) s->number / CONTEXTS);
	return close_scalable(s);
}

/* ---- shared contexts ---- */

static int open_shared(struct side *s)
{
	struct fi_info *info = s->ctx.info;
	int ret = fi_stx_context(s->ctx.domain, info->tx_attr, &s->stx, NULL);

	info->ep_attr->tx_ctx_cnt = info->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	if (!ret)
		ret = fi_srx_context(s->ctx.domain, info->rx_attr, &s->srx, NULL);
	if (!ret)
		ret = fi_endpoint(s->ctx.domain, info, &s->ep, NULL);
	if (!ret)
		ret = fi_ep_bind(s->ep, &s->stx->fid, 0);
	if (!ret)
		ret = fi_ep_bind(s->ep, &s->srx->fid, 0);
	if (!ret)
		ret = fi_ep_bind(s->ep, &s->ctx.cq->fid, FI_TRANSMIT | FI_RECV);
	if (!ret)
		ret = fi_ep_bind(s->ep, &s->ctx.av->fid, 0);
	if (!ret)
		ret = fi_enable(s->ep);
	if (ret)
		return ft_fail(ret, "fi_endpoint", "with shared contexts");
	return insert_self(s->ep, s->ctx.av, &s->self);
}

static int shared(struct side *s)
{
	FT_TRY(open_shared(s));
	FT_TRY(messages(s, s->ep, s->srx, s->self));
	FT_TRY(fi_close(&s->ep->fid));
	FT_TRY(fi_close(&s->srx->fid));
	return fi_close(&s->stx->fid);
}

/* ---- */

static int run(struct ft_proc *proc)
{
	enum fi_hmem_iface kinds[2];
	struct side s = {.kinds = ft_kinds(&proc->opts, kinds)};

	FT_TRY(ft_test_hints(proc, &s.ctx));
	s.ctx.hints->caps |= FI_NAMED_RX_CTX;
	FT_TRY(ft_test_open(proc, &s.ctx));
	for (size_t i = 0; i < s.kinds; i++) {
		FT_TRY(ft_buf_alloc(&s.ctx, &s.from[i], kinds[i], LARGEST + FT_ROOM));
		FT_TRY(ft_buf_alloc(&s.ctx, &s.to[i], kinds[i], LARGEST + FT_ROOM));
	}
	FT_TRY(scalable(&s));
	FT_TRY(shared(&s));
	for (size_t i = 0; i < s.kinds; i++) {
		ft_buf_free(&s.from[i]);
		ft_buf_free(&s.to[i]);
	}
	return ft_close(&s.ctx);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Contexts of scalable endpoints, and shared ones.",
		.ranks = 1,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
