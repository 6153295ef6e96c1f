/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* One process's endpoints, queues, counters and memory. See stress.h. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stress.h"

/* What the test can use but need not have; asked for one by one */
static const struct {
	uint64_t cap;
	bool one_sided;
} optional[] = {
	{FI_DIRECTED_RECV, false}, {FI_SOURCE, false},   {FI_MULTI_RECV, false}, {FI_RMA, true},
	{FI_ATOMIC, true},         {FI_RMA_EVENT, true},
};

static const uint64_t levels[] = {
	FI_INJECT_COMPLETE,
	FI_TRANSMIT_COMPLETE,
	FI_DELIVERY_COMPLETE,
};

const uint64_t stress_counters[CNTRS] = {
	[CNTR_SEND] = FI_SEND,
	[CNTR_RECV] = FI_RECV,
	[CNTR_READ] = FI_READ,
	[CNTR_WRITE] = FI_WRITE,
	[CNTR_REMOTE_READ] = FI_REMOTE_READ,
	[CNTR_REMOTE_WRITE] = FI_REMOTE_WRITE,
};

/* ---- what is offered ---- */

static bool offered(const struct ft_ctx *ctx)
{
	struct fi_info *info;

	if (fi_getinfo(ctx->opts->api_version, NULL, NULL, 0, ctx->hints, &info))
		return false;
	fi_freeinfo(info);
	return true;
}

/* Does the program use an operation that wants @cap? */
static bool cap_used(const struct ft_opts *opts, uint64_t cap)
{
	for (size_t i = 0; i < stress_type_count; i++)
		if (stress_types[i]->caps & cap &&
		    ft_is_listed(opts->ops, stress_types[i]->name))
			return true;
	if (cap == FI_RMA_EVENT)
		return cap_used(opts, FI_RMA | FI_ATOMIC);
	return cap & (FI_DIRECTED_RECV | FI_SOURCE);
}

static int hints(struct stress *s)
{
	struct ft_ctx *ctx = &s->ctx[0];

	FT_TRY(ft_test_hints(s->proc, ctx));
	ctx->hints->caps &= ~FI_DIRECTED_RECV;
	for (size_t i = 0; i < FT_COUNT(optional); i++) {
		if (!cap_used(&s->proc->opts, optional[i].cap))
			continue;
		ctx->hints->caps |= optional[i].cap;
		if (!offered(ctx))
			ctx->hints->caps &= ~optional[i].cap;
		else if (optional[i].one_sided)
			ctx->mr_access = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
	}
	for (size_t i = 0; i < FT_COUNT(levels); i++) {
		ctx->hints->tx_attr->op_flags = levels[i];
		if (offered(ctx))
			s->plan.levels |= levels[i];
		ctx->hints->tx_attr->op_flags = 0;
	}
	s->plan.caps = ctx->hints->caps;
	return 0;
}

static int plan_types(struct stress *s)
{
	struct stress_plan *plan = &s->plan;
	const uint64_t needed = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_MULTI_RECV;

	for (size_t i = 0; i < stress_type_count; i++) {
		const struct stress_type *type = stress_types[i];

		if (!ft_is_listed(s->proc->opts.ops, type->name) ||
		    (type->caps & FI_ATOMIC && plan->quirks & QUIRK_ATOMICS))
			continue;
		if (type->caps & needed & ~plan->caps) {
			if (s->proc->rank == 0)
				printf("note: %s is not offered\n", type->name);
			continue;
		}
		plan->multi = plan->multi || type->multi;
		for (unsigned int n = 0; n < type->weight; n++)
			plan->types[plan->type_count++] = (unsigned int) i;
	}
	FT_CHECK(plan->type_count, "none of the operations of --ops %s is known and offered",
		 s->proc->opts.ops ? s->proc->opts.ops : "");
	return 0;
}

static void plan_quirks(struct stress *s)
{
	const struct fi_info *info = s->ctx[0].info;
	const bool say = s->proc->rank == 0;
	struct stress_plan *plan = &s->plan;

	plan->quirks = stress_quirks(info->fabric_attr->prov_name, info->caps & FI_HMEM, say);
	if (plan->kind_count == 1)
		return;
	if (ft_hook_active()) {
		plan->quirks |= QUIRK_DEVICE;
		if (say)
			printf("note: device memory in plain messages only, over a hook\n");
	}
	/* its threads stand for the device, and we look on as they write */
	if (dlsym(RTLD_DEFAULT, "__tsan_init")) {
		plan->quirks |= QUIRK_SELECTIVE | QUIRK_DEVICE;
		if (say)
			printf("note: all is reported, for the thread sanitizer's sake\n");
	}
}

static size_t threshold(const char *name, size_t fallback)
{
	const char *text = getenv(name);

	return text ? strtoul(text, NULL, 0) : fallback;
}

static void plan_limits(struct stress *s)
{
	const struct fi_info *info = s->ctx[0].info;
	struct stress_plan *plan = &s->plan;
	const size_t eager = threshold("FI_P2P_EAGER_SIZE", 1 << 16);
	const size_t chunk = threshold("FI_P2P_CHUNK_SIZE", 1 << 20);
	const size_t sizes[] = {
		0,         1,         64,    info->tx_attr->inject_size,
		4096,      8192,      16384, 65536,
		eager,     eager * 2, chunk, chunk * 2,
		chunk * 3,
	};

	plan->seed = s->proc->opts.seed;
	plan->announced = ft_hook_active() ? SIZE_MAX : eager;
	plan->kind_count = ft_kinds(&s->proc->opts, plan->kinds);
	plan->inject = info->tx_attr->inject_size;
	plan->iov_limit[FROM] = info->tx_attr->iov_limit;
	plan->iov_limit[TO] = info->rx_attr->iov_limit;
	plan->rma_iov_limit = info->tx_attr->rma_iov_limit;
	memcpy(plan->size, sizes, sizeof(sizes));
	plan->size_count = FT_COUNT(sizes);
}

/* ---- opening ---- */

/* Counters are for those who have them; none at all is no error. */
static int open_counters(struct stress *s, struct ft_ctx *ctx)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP};
	const uint64_t remote = FI_REMOTE_READ | FI_REMOTE_WRITE;

	for (int i = 0; i < CNTRS; i++) {
		const uint64_t event = stress_counters[i];
		int ret;

		if ((event & (remote | FI_READ | FI_WRITE) && !ctx->mr_access) ||
		    (event & remote &&
		     (!(s->plan.caps & FI_RMA_EVENT) || s->plan.quirks & QUIRK_REMOTE)))
			continue;
		ret = fi_cntr_open(ctx->domain, &attr, &s->cntr[i], NULL);
		if (ret == -FI_ENOSYS || ret == -FI_EOPNOTSUPP) {
			if (s->proc->rank == 0)
				printf("note: counters are not offered\n");
			return 0;
		}
		if (ret)
			return ft_fail(ret, "fi_cntr_open", "counter %d", i);
		ret = fi_ep_bind(ctx->ep, &s->cntr[i]->fid, event);
		if (ret)
			return ft_fail(ret, "fi_ep_bind", "counter of %s",
				       fi_tostr(&event, FI_TYPE_CAPS));
	}
	return 0;
}

static int open_ep(struct stress *s, unsigned int n)
{
	struct ft_ctx *ctx = &s->ctx[n];
	uint64_t flags = FI_TRANSMIT | FI_RECV;
	int ret;

	*ctx = s->ctx[0];
	ctx->ep = NULL;
	if (n == STRESS_SELECTIVE) {
		ret = fi_cq_open(ctx->domain, &ctx->cq_attr, &ctx->cq, NULL);
		if (ret)
			return ft_fail(ret, "fi_cq_open", "second queue");
		s->cq[1] = ctx->cq;
		if (!(s->plan.quirks & QUIRK_SELECTIVE))
			flags |= FI_SELECTIVE_COMPLETION;
	}
	ret = fi_endpoint(ctx->domain, ctx->info, &ctx->ep, NULL);
	if (ret)
		return ft_fail(ret, "fi_endpoint", "endpoint %u", n);
	ret = fi_ep_bind(ctx->ep, &ctx->av->fid, 0);
	if (ret)
		return ft_fail(ret, "fi_ep_bind", "address vector");
	ret = fi_ep_bind(ctx->ep, &ctx->cq->fid, flags);
	if (ret)
		return ft_fail(ret, "fi_ep_bind", "completion queue of endpoint %u", n);
	if (n == STRESS_COUNTED && !(s->plan.quirks & QUIRK_COUNTERS))
		FT_TRY(open_counters(s, ctx));
	ret = fi_enable(ctx->ep);
	return ret ? ft_fail(ret, "fi_enable", "endpoint %u", n) : 0;
}

/* How little room makes the provider release a buffer: it ends there, when all has come.
 */
static int get_multi_min(struct stress *s)
{
	size_t len = sizeof(s->plan.multi_min);
	int ret;

	if (!s->plan.multi)
		return 0;
	ret = fi_getopt(&s->plan.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV,
			&s->plan.multi_min, &len);
	if (ret)
		return ft_fail(ret, "fi_getopt", "FI_OPT_MIN_MULTI_RECV");
	FT_CHECK(s->plan.multi_min > 0 && s->plan.multi_min < STRESS_MULTI_ROOM / 4,
		 "FI_OPT_MIN_MULTI_RECV is %zu", s->plan.multi_min);
	return 0;
}

/* What the other process has to know */
struct hello {
	struct ft_name name[STRESS_EPS];
	struct stress_remote remote[ENDS][2];
};

static int meet(struct stress *s)
{
	const int fd = s->proc->fd[!s->proc->rank];
	struct hello mine = {0}, other;

	for (int i = 0; i < STRESS_EPS; i++)
		FT_TRY(ft_getname(&s->ctx[i], &mine.name[i]));
	for (int end = 0; end < ENDS; end++)
		for (size_t k = 0; k < s->plan.kind_count; k++) {
			const struct ft_buf *buf = &s->arena[end][k];

			if (!buf->mr)
				continue;
			mine.remote[end][k].key = fi_mr_key(buf->mr);
			if (s->ctx[0].info->domain_attr->mr_mode & FI_MR_VIRT_ADDR)
				mine.remote[end][k].addr = (uint64_t) (uintptr_t) buf->addr;
		}
	FT_TRY(ft_oob_send(fd, &mine, sizeof(mine)));
	FT_TRY(ft_oob_recv(fd, &other, sizeof(other), s->proc->opts.timeout));
	memcpy(s->remote, other.remote, sizeof(s->remote));
	for (int i = 0; i < STRESS_EPS; i++)
		FT_TRY(ft_av_insert(&s->ctx[0], other.name[i].bytes, &s->peer[i]));
	return 0;
}

static int alloc_arenas(struct stress *s)
{
	const size_t size = STRESS_ARENA + STRESS_EPS * STRESS_MULTI_ROOM;
	struct ft_ctx *ctx = &s->ctx[0];
	const uint64_t access = ctx->mr_access;

	for (int end = 0; end < ENDS; end++)
		for (size_t k = 0; k < s->plan.kind_count; k++) {
			if (s->plan.kinds[k] != FI_HMEM_SYSTEM && s->plan.quirks & QUIRK_DEVICE)
				ctx->mr_access = 0;
			FT_TRY(ft_buf_alloc(ctx, &s->arena[end][k], s->plan.kinds[k], size));
			ctx->mr_access = access;
		}
	return 0;
}

int stress_open(struct stress *s)
{
	struct ft_ctx *ctx = &s->ctx[0];
	const struct ft_opts *opts = &s->proc->opts;

	FT_TRY(hints(s));
	FT_TRY(ft_getinfo(ctx, opts->src_addr, NULL, opts->src_addr ? FI_SOURCE : 0));
	plan_limits(s);
	plan_quirks(s);
	FT_TRY(plan_types(s));
	FT_TRY(ft_open(ctx));
	s->plan.ep = ctx->ep;
	s->cq[0] = ctx->cq;
	for (unsigned int i = 1; i < STRESS_EPS; i++)
		FT_TRY(open_ep(s, i));
	FT_TRY(get_multi_min(s));
	FT_TRY(alloc_arenas(s));
	return meet(s);
}

static int close_fid(struct fid *fid, const char *what)
{
	int ret = fid ? fi_close(fid) : 0;

	return ret ? ft_fail(ret, "fi_close", "%s", what) : 0;
}

int stress_close(struct stress *s)
{
	for (int end = 0; end < ENDS; end++)
		for (size_t k = 0; k < s->plan.kind_count; k++)
			ft_buf_free(&s->arena[end][k]);
	for (int i = 1; i < STRESS_EPS; i++)
		FT_TRY(close_fid(&s->ctx[i].ep->fid, "endpoint"));
	for (int i = 0; i < CNTRS; i++)
		FT_TRY(close_fid(s->cntr[i] ? &s->cntr[i]->fid : NULL, "counter"));
	FT_TRY(close_fid(&s->cq[1]->fid, "second queue"));
	return ft_close(&s->ctx[0]);
}

/* ---- memory ---- */

struct ft_slot stress_slot(const struct stress *s, const struct stress_op *op, int end)
{
	const struct stress_end *e = &op->end[end];

	return (struct ft_slot){
		.buf = &s->arena[end][e->kind != FI_HMEM_SYSTEM],
		.base = e->base,
		.room = e->room,
		.off = e->off,
		.len = e->len,
	};
}

size_t stress_cut(const struct stress *s, struct iovec *iov, char *base, size_t len,
		  size_t limit, uint64_t cuts, size_t unit)
{
	const bool empty = !(s->plan.quirks & QUIRK_EMPTY);
	size_t pieces = 1 + cuts % FT_MIN(limit, FT_MAX_IOV), done = 0;

	if (!empty && pieces > len / unit)
		pieces = 1;
	for (size_t i = 0; i < pieces; i++) {
		const size_t left = (len - done) / unit, later = pieces - 1 - i;
		size_t part = left / (1 + (cuts >> (8 + 4 * i)) % 16) * unit;

		if (!empty) /* one for each that follows, too */
			part = FT_MAX(FT_MIN(part, (left - later) * unit), unit);
		if (!later)
			part = len - done;
		iov[i] = (struct iovec){(char *) ((uintptr_t) base + done), part};
		done += part;
	}
	return pieces;
}
