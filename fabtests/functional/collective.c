/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_collective: the core provider's collective operations work as they do by themselves, on
 * host memory; device memory is refused with an error.
 */
#include <string.h>
#include <rdma/fi_collective.h>

#include "ft_test.h"

#define COUNT 100

struct side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	struct fid_av_set *set;
	struct fid_mc *group;
	fi_addr_t addr;
};

static int open_eq(struct ft_ctx *ctx)
{
	struct fi_eq_attr attr = {.wait_obj = FI_WAIT_NONE};
	int ret = fi_eq_open(ctx->fabric, &attr, &ctx->eq, NULL);

	if (!ret)
		ret = fi_ep_bind(ctx->ep, &ctx->eq->fid, 0);
	return ret ? ft_fail(ret, "fi_ep_bind", "event queue") : 0;
}

static int completed(struct side *s, const void *context)
{
	struct fi_cq_tagged_entry entry;
	ssize_t n;

	while ((n = fi_cq_read(s->ctx.cq, &entry, 1)) == -FI_EAGAIN)
		FT_TRY(ft_idle(&s->ctx));
	FT_CHECK(n == 1, "fi_cq_read: %zd", n);
	FT_CHECK(entry.op_context == context, "a completion of something else");
	return 0;
}

/* Both ranks list rank 0 first. */
static int set_open(struct side *s)
{
	/* nobody yet */
	struct fi_av_set_attr attr = {.count = 2, .start_addr = 1, .end_addr = 0, .stride = 1};
	fi_addr_t own, addr[2];
	struct ft_name name;
	int ret;

	FT_TRY(ft_getname(&s->ctx, &name));
	FT_TRY(ft_av_insert(&s->ctx, name.bytes, &own));
	ret = fi_av_set(s->ctx.av, &attr, &s->set, NULL);
	if (ret)
		return ft_fail(ret, "fi_av_set", "two ranks");
	addr[s->proc->rank] = own;
	addr[!s->proc->rank] = s->ctx.peer[!s->proc->rank];
	for (int i = 0; i < 2; i++) {
		ret = fi_av_set_insert(s->set, addr[i]);
		if (ret)
			return ft_fail(ret, "fi_av_set_insert", "rank %d", i);
	}
	return 0;
}

static int join(struct side *s)
{
	struct fi_eq_entry entry;
	fi_addr_t all;
	uint32_t event;
	ssize_t n;
	int ret = fi_av_set_addr(s->set, &all);

	if (!ret)
		ret = fi_join_collective(s->ctx.ep, all, s->set, 0, &s->group, s);
	if (ret)
		return ft_fail(ret, "fi_join_collective", "two ranks");
	while ((n = fi_eq_read(s->ctx.eq, &event, &entry, sizeof(entry), 0)) == -FI_EAGAIN) {
		fi_cq_read(s->ctx.cq, NULL, 0);
		FT_TRY(ft_idle(&s->ctx));
	}
	FT_CHECK(n == (ssize_t) sizeof(entry), "fi_eq_read: %zd", n);
	/* what else is in it is not what fi_collective(3) says, with the core alone neither */
	FT_CHECK(event == FI_JOIN_COMPLETE, "event %u instead of the group's", event);
	s->addr = fi_mc_addr(s->group);
	return 0;
}

static int barrier(struct side *s)
{
	const ssize_t ret = fi_barrier(s->ctx.ep, s->addr, &s->addr);

	return ret ? ft_fail((int) ret, "fi_barrier", "two ranks") : completed(s, &s->addr);
}

static int allreduce(struct side *s)
{
	uint64_t mine[COUNT], sum[COUNT] = {0};
	ssize_t ret;

	for (uint64_t i = 0; i < COUNT; i++)
		mine[i] = (i << 33) + i * (s->proc->rank ? 1000003 : 7);
	ret = fi_allreduce(s->ctx.ep, mine, COUNT, NULL, sum, NULL, s->addr, FI_UINT64, FI_SUM,
			   0, mine);
	if (ret)
		return ft_fail((int) ret, "fi_allreduce", "%d numbers", COUNT);
	FT_TRY(completed(s, mine));
	for (uint64_t i = 0; i < COUNT; i++)
		FT_CHECK(sum[i] == (i << 34) + i * 1000010, "sum %d is wrong", (int) i);
	return 0;
}

/* The last one is none, and nobody knows its size */
static const int datatypes[] = {FI_UINT64, FI_INT128, FI_UINT128, FI_VOID - 1};

static int device_refused(struct side *s)
{
	enum fi_hmem_iface kinds[2];
	ssize_t ret, moved = -FI_EOPNOTSUPP;
	struct ft_buf buf;

	if (ft_kinds(&s->proc->opts, kinds) < 2)
		return 0;
	FT_TRY(ft_buf_alloc(&s->ctx, &buf, kinds[1], COUNT * sizeof(uint64_t)));
	ret = fi_allreduce(s->ctx.ep, buf.addr, COUNT, NULL, buf.addr, NULL, s->addr, FI_UINT64,
			   FI_SUM, 0, NULL);
	for (size_t i = 0; i < FT_COUNT(datatypes) && moved == -FI_EOPNOTSUPP; i++)
		moved = fi_broadcast(s->ctx.ep, buf.addr, 1, NULL, s->addr, 0, datatypes[i], 0,
				     NULL);
	ft_buf_free(&buf);
	FT_CHECK(ret == -FI_EOPNOTSUPP, "fi_allreduce on device memory: %zd", ret);
	FT_CHECK(moved == -FI_EOPNOTSUPP, "fi_broadcast on device memory: %zd", moved);
	return 0;
}

static int run(struct ft_proc *proc)
{
	struct side s = {.proc = proc};

	FT_TRY(ft_test_hints(proc, &s.ctx));
	s.ctx.hints->caps |= FI_COLLECTIVE;
	s.ctx.prepare = open_eq;
	if (!ft_offered(&s.ctx)) {
		ft_close(&s.ctx);
		return proc->rank ? FT_SKIP : ft_skip("no collective operations here");
	}
	FT_TRY(ft_test_open(proc, &s.ctx));
	FT_TRY(ft_test_connect(proc, &s.ctx));
	FT_TRY(set_open(&s));
	FT_TRY(join(&s));
	for (int i = 0; i < 20; i++) {
		FT_TRY(allreduce(&s));
		FT_TRY(barrier(&s));
	}
	FT_TRY(device_refused(&s));
	FT_TRY(ft_barrier(proc, &s.ctx));
	FT_TRY(fi_close(&s.group->fid));
	FT_TRY(fi_close(&s.set->fid));
	return ft_close(&s.ctx);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Collective operations of the core provider's.",
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
