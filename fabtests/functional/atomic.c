/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_atomic: the three kinds of atomic operations, on operands, results and targets in
 * host and device memory, with keys of the provider's choice and of the application's.
 * Many sums in flight to one place must all be in it at the end.
 *
 * Rank 1 owns the targets; rank 0 knows what must be in them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ft_test.h"

#define COUNT 17 /* elements in one operation */
#define SUMS 200 /* operations in flight */

struct target {
	uint64_t key, base;
};

enum array { OPERAND, COMPARE, RESULT, ARRAYS };

struct side {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	size_t kinds;
	struct ft_buf local[2][ARRAYS], shared[2]; /* by kind: host, device */
	struct target target[2];
	uint64_t expected[COUNT];
};

static const struct step {
	const char *name;
	enum fi_op op;
	bool fetch, compare;
} steps[] = {
	{"write", FI_ATOMIC_WRITE, false, false},
	{"sum", FI_SUM, false, false},
	{"max", FI_MAX, false, false},
	{"bxor", FI_BXOR, false, false},
	{"fetch sum", FI_SUM, true, false},
	{"fetch write", FI_ATOMIC_WRITE, true, false},
	{"fetch read", FI_ATOMIC_READ, true, false},
	{"cswap", FI_CSWAP, true, true},
	{"mswap", FI_MSWAP, true, true},
};

static uint64_t compute(enum fi_op op, uint64_t t, uint64_t o, uint64_t c)
{
	switch (op) {
	case FI_ATOMIC_WRITE:
		return o;
	case FI_SUM:
		return t + o;
	case FI_MAX:
		return t > o ? t : o;
	case FI_BXOR:
		return t ^ o;
	case FI_CSWAP:
		return t == c ? o : t;
	case FI_MSWAP:
		return (o & c) | (t & ~c);
	default:
		return t;
	}
}

static ssize_t post_once(struct side *side, const struct step *step, struct ft_buf *local,
			 const struct target *target, struct ft_req *req)
{
	struct fid_ep *ep = side->ctx.ep;
	const fi_addr_t peer = side->ctx.peer[1];
	const void *operand = step->op == FI_ATOMIC_READ ? NULL : local[OPERAND].addr;

	if (step->compare)
		return fi_compare_atomic(ep, operand, COUNT, local[OPERAND].desc,
					 local[COMPARE].addr, local[COMPARE].desc,
					 local[RESULT].addr, local[RESULT].desc, peer,
					 target->base, target->key, FI_UINT64, step->op, req);
	if (step->fetch)
		return fi_fetch_atomic(ep, operand, COUNT, local[OPERAND].desc,
				       local[RESULT].addr, local[RESULT].desc, peer,
				       target->base, target->key, FI_UINT64, step->op, req);
	return fi_atomic(ep, operand, COUNT, local[OPERAND].desc, peer, target->base,
			 target->key, FI_UINT64, step->op, req);
}

static int post(struct side *side, const struct step *step, struct ft_buf *local,
		const struct target *target, struct ft_req *req)
{
	ssize_t ret;

	while ((ret = post_once(side, step, local, target, req)) == -FI_EAGAIN) {
		int n = ft_progress(&side->ctx);

		if (n < 0)
			return n;
		if (!n)
			FT_TRY(ft_idle(&side->ctx));
	}
	return ret ? ft_fail((int) ret, step->name, "not posted") : 0;
}

/* One operation, waited for; what it fetches must be what was expected before it. */
static int one(struct side *side, const struct step *step, struct ft_buf *local,
	       const struct target *target, uint64_t *seed)
{
	const uint64_t flag = step->fetch ? FI_READ : FI_WRITE;
	uint64_t o[COUNT], c[COUNT], before[COUNT];
	struct ft_req req = {0};

	for (int i = 0; i < COUNT; i++) {
		o[i] = ft_random(seed);
		/* half of the comparisons hold */
		c[i] = i % 2 ? ft_random(seed) : side->expected[i];
	}
	FT_TRY(local[OPERAND].ops->to(local[OPERAND].addr, o, sizeof(o)));
	FT_TRY(local[COMPARE].ops->to(local[COMPARE].addr, c, sizeof(c)));
	FT_TRY(post(side, step, local, target, &req));
	FT_TRY(ft_wait(&side->ctx, &req, 1));
	FT_CHECK((req.comp.flags & (FI_ATOMIC | flag)) == (FI_ATOMIC | flag),
		 "%s: completion flags %#" PRIx64, step->name, req.comp.flags);
	FT_TRY(local[RESULT].ops->from(before, local[RESULT].addr, sizeof(before)));
	for (int i = 0; i < COUNT; i++) {
		FT_CHECK(!step->fetch || before[i] == side->expected[i],
			 "%s: element %d was %#" PRIx64 ", the result says %#" PRIx64,
			 step->name, i, side->expected[i], before[i]);
		side->expected[i] = compute(step->op, side->expected[i], o[i], c[i]);
	}
	return 0;
}

/* Memory as the next operation will find it */
static int look(struct side *side, const struct target *target, const char *what)
{
	const struct step read = {"fetch read", FI_ATOMIC_READ, true, false};
	uint64_t seed = 1;
	int ret = one(side, &read, side->local[0], target, &seed);

	if (ret)
		ft_err("after %s", what);
	return ret;
}

static int steps_to(struct side *side, int kind)
{
	uint64_t seed = side->proc->opts.seed;
	char what[64];

	memset(side->expected, 0, sizeof(side->expected));
	for (int round = 0; round < 3; round++) {
		for (size_t from = 0; from < side->kinds; from++) {
			/* the owner does nothing but wait, and that has an end */
			FT_TRY(ft_barrier(side->proc, &side->ctx));
			for (size_t s = 0; side->proc->rank == 0 && s < FT_COUNT(steps); s++) {
				snprintf(what, sizeof(what), "%s from kind %zu to kind %d",
					 steps[s].name, from, kind);
				FT_TRY(one(side, &steps[s], side->local[from],
					   &side->target[kind], &seed));
				FT_TRY(look(side, &side->target[kind], what));
			}
		}
	}
	return 0;
}

/* Keys and ranges that are not there, where it is not the core's business */
static int refuse(struct side *side, int kind)
{
	struct target wrong[2] = {side->target[kind], side->target[kind]};
	struct ft_req req;

	wrong[0].key += 99;
	wrong[1].base += side->shared[kind].size - 8;
	for (size_t i = 0; i < FT_COUNT(wrong); i++) {
		for (size_t s = 0; s < FT_COUNT(steps); s++) {
			req = (struct ft_req){.done = false};
			FT_TRY(post(side, &steps[s], side->local[0], &wrong[i], &req));
			FT_TRY(ft_wait_any_result(&side->ctx, &req, 1));
			FT_CHECK(req.err == FI_EKEYREJECTED || req.err == FI_EACCES,
				 "%s with a wrong target: ended with %d", steps[s].name,
				 req.err);
		}
	}
	return look(side, &side->target[kind], "operations that were refused");
}

/* Sums of one, many at a time */
static int sums(struct side *side, int kind)
{
	const struct step sum = {"sum", FI_SUM, false, false};
	static struct ft_req req[SUMS];
	uint64_t ones[COUNT];

	for (int i = 0; i < COUNT; i++) {
		ones[i] = 1;
		side->expected[i] += SUMS;
	}
	for (size_t from = 0; from < side->kinds; from++)
		FT_TRY(side->local[from][OPERAND].ops->to(side->local[from][OPERAND].addr, ones,
							  sizeof(ones)));
	memset(req, 0, sizeof(req));
	for (int i = 0; i < SUMS; i++)
		FT_TRY(post(side, &sum, side->local[(size_t) i % side->kinds],
			    &side->target[kind], &req[i]));
	FT_TRY(ft_wait(&side->ctx, req, SUMS));
	return look(side, &side->target[kind], "many sums");
}

/* What no operation is, is not offered. */
static int asked(struct side *side)
{
	static const uint64_t flags[] = {FI_TAGGED, FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC,
					 FI_MULTI_RECV};
	struct fi_atomic_attr attr;
	size_t most;

	FT_CHECK(fi_atomicvalid(side->ctx.ep, FI_UINT64, FI_ATOMIC_READ, &most),
		 "a read without a result is offered");
	FT_CHECK(fi_query_atomic(side->ctx.domain, FI_UINT64, FI_ATOMIC_READ, &attr, 0),
		 "a read without a result is offered by the domain");
	for (size_t i = 0; i < FT_COUNT(flags); i++)
		FT_CHECK(fi_query_atomic(side->ctx.domain, FI_UINT64, FI_SUM, &attr, flags[i]),
			 "flags %#" PRIx64 " are offered", flags[i]);
	FT_CHECK(!fi_query_atomic(side->ctx.domain, FI_UINT64, FI_SUM, &attr, FI_FETCH_ATOMIC),
		 "a sum is not offered by the domain");
	return 0;
}

static int with_keys(struct ft_proc *proc, bool chosen)
{
	struct side side = {.proc = proc};
	enum fi_hmem_iface ifaces[2];
	const size_t size = COUNT * sizeof(uint64_t);
	size_t most;

	side.kinds = ft_kinds(&proc->opts, ifaces);
	FT_TRY(ft_test_hints(proc, &side.ctx));
	if (!chosen)
		side.ctx.hints->domain_attr->mr_mode &= ~FI_MR_PROV_KEY;
	side.ctx.hints->caps |= FI_ATOMIC;
	if (fi_getinfo(proc->opts.api_version, NULL, NULL, 0, side.ctx.hints, &side.ctx.info)) {
		FT_TRY(ft_close(&side.ctx));
		return ft_skip("%s has no atomic operations", proc->opts.prov);
	}
	fi_freeinfo(side.ctx.info);
	side.ctx.info = NULL;
	FT_TRY(ft_test_open(proc, &side.ctx));
	/* net of 1.17 has the capability, and no operations */
	if (fi_atomicvalid(side.ctx.ep, FI_UINT64, FI_SUM, &most)) {
		FT_TRY(ft_close(&side.ctx));
		return ft_skip("%s has no atomic operations", proc->opts.prov);
	}
	FT_CHECK(most >= COUNT, "%zu elements are the most", most);
	FT_TRY(asked(&side));
	FT_TRY(ft_test_connect(proc, &side.ctx));
	for (size_t kind = 0; kind < side.kinds; kind++) {
		uint64_t zero[COUNT] = {0};

		for (int i = 0; i < ARRAYS; i++)
			FT_TRY(ft_buf_alloc(&side.ctx, &side.local[kind][i], ifaces[kind],
					    size));
		FT_TRY(ft_buf_alloc(&side.ctx, &side.shared[kind],
				    ft_hook_active() ? FI_HMEM_SYSTEM : ifaces[kind], size));
		FT_TRY(side.shared[kind].ops->to(side.shared[kind].addr, zero, size));
		FT_TRY(ft_buf_share(&side.ctx, &side.shared[kind],
				    FI_REMOTE_READ | FI_REMOTE_WRITE));
		side.target[kind] =
			(struct target){side.shared[kind].key, side.shared[kind].base};
	}
	if (proc->rank == 1)
		FT_TRY(ft_oob_send(proc->fd[0], side.target, sizeof(side.target)));
	else
		FT_TRY(ft_oob_recv(proc->fd[1], side.target, sizeof(side.target),
				   proc->opts.timeout));
	for (int kind = 0; kind < (int) side.kinds; kind++) {
		FT_TRY(steps_to(&side, kind));
		if (proc->rank)
			continue;
		FT_TRY(sums(&side, kind));
		if (ft_is_p2p(&side.ctx) && side.ctx.info->caps & FI_HMEM &&
		    (!chosen || side.shared[kind].ops->iface != FI_HMEM_SYSTEM))
			FT_TRY(refuse(&side, kind));
	}
	FT_TRY(ft_barrier(proc, &side.ctx));
	for (size_t kind = 0; kind < side.kinds; kind++) {
		for (int i = 0; i < ARRAYS; i++)
			ft_buf_free(&side.local[kind][i]);
		ft_buf_free(&side.shared[kind]);
	}
	return ft_close(&side.ctx);
}

static int run(struct ft_proc *proc)
{
	FT_TRY(with_keys(proc, true));
	/* a NIC chooses its keys */
	return ft_over_verbs(&proc->opts) ? 0 : with_keys(proc, false);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Atomic operations from and to every kind of memory.",
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
