/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Kinds of operations: reads and writes of the other process's memory. */
#include "stress.h"

enum { WRITE, WRITEV, WRITEMSG, WRITEDATA, INJECT, INJECTDATA, READ, READV, READMSG };

static const struct stress_call write_calls[] = {
	{.name = "write", .call = WRITE},
	{.name = "writev", .call = WRITEV, .split = true},
	{.name = "writemsg", .call = WRITEMSG, .split = true, .msg = true},
	{.name = "writedata", .call = WRITEDATA, .data = true},
	{.name = "inject_write", .call = INJECT, .inject = true},
	{.name = "inject_writedata", .call = INJECTDATA, .data = true, .inject = true},
};

static const struct stress_call read_calls[] = {
	{.name = "read", .call = READ},
	{.name = "readv", .call = READV, .split = true},
	{.name = "readmsg", .call = READMSG, .split = true, .msg = true},
};

static bool plan_both_ends(const struct stress_plan *plan, struct stress_round *round,
			   struct stress_op *op, uint64_t *rnd)
{
	if (plan->quirks & QUIRK_DEVICE)
		op->end[FROM].kind = op->end[TO].kind = FI_HMEM_SYSTEM;
	return stress_plan_end(round, op, FROM, op->size, false, rnd) &&
	       stress_plan_end(round, op, TO, op->size, false, rnd);
}

static bool write_plan(const struct stress_plan *plan, struct stress_round *round,
		       struct stress_op *op, uint64_t *rnd)
{
	struct stress_end *from = &op->end[FROM], *to = &op->end[TO];

	op->size = stress_plan_size(plan, round, rnd);
	do
		from->call = &write_calls[stress_pick(rnd, FT_COUNT(write_calls))];
	while (from->call->inject && op->size > plan->inject);
	op->has_data = from->call->data;
	from->signal = !from->call->inject && (!stress_plan_selective(plan, from) ||
					       (from->call->msg && stress_coin(rnd)));
	if (from->call->msg) {
		op->has_data = stress_coin(rnd);
		op->flags = stress_plan_levels(plan, op, rnd) |
			    (op->has_data ? FI_REMOTE_CQ_DATA : 0) |
			    (from->signal ? FI_COMPLETION : 0);
	}
	/* the target hears of data, and of nothing else */
	to->signal = op->has_data;
	return plan_both_ends(plan, round, op, rnd);
}

static bool read_plan(const struct stress_plan *plan, struct stress_round *round,
		      struct stress_op *op, uint64_t *rnd)
{
	struct stress_end *to = &op->end[TO];

	op->size = stress_plan_size(plan, round, rnd);
	to->call = &read_calls[stress_pick(rnd, FT_COUNT(read_calls))];
	to->signal = !stress_plan_selective(plan, to) || (to->call->msg && stress_coin(rnd));
	if (to->call->msg && to->signal)
		op->flags = FI_COMPLETION;
	op->end[FROM].signal = false;
	return plan_both_ends(plan, round, op, rnd);
}

static ssize_t rma_start(struct stress *s, struct stress_op *op)
{
	const int mine = op->type->starter;
	const struct stress_end *e = &op->end[mine], *other = &op->end[!mine];
	const struct ft_buf *buf = &s->arena[mine][e->kind != FI_HMEM_SYSTEM];
	const struct stress_remote *remote = &s->remote[!mine][other->kind != FI_HMEM_SYSTEM];
	struct fid_ep *ep = s->ctx[e->ep].ep;
	const fi_addr_t peer = s->peer[other->ep];
	const uint64_t addr = remote->addr + other->off, key = remote->key;
	char *const base = buf->addr + e->off;
	void *const context = &s->part[op->number][mine].req;
	void *desc[FT_MAX_IOV] = {buf->desc, buf->desc, buf->desc, buf->desc};
	struct iovec iov[FT_MAX_IOV], far[FT_MAX_IOV];
	struct fi_rma_iov rma[FT_MAX_IOV];
	struct fi_msg_rma msg = {
		.msg_iov = iov,
		.desc = desc,
		.addr = peer,
		.rma_iov = rma,
		.context = context,
		.data = op->data,
	};

	msg.iov_count = stress_cut(s, iov, base, e->len, s->plan.iov_limit[FROM], op->cuts, 1);
	msg.rma_iov_count =
		stress_cut(s, far, NULL, e->len, s->plan.rma_iov_limit, op->cuts >> 8, 1);
	for (size_t i = 0; i < msg.rma_iov_count; i++)
		rma[i] = (struct fi_rma_iov){addr + (uintptr_t) far[i].iov_base, far[i].iov_len,
					     key};
	switch (e->call->call) {
	case WRITE:
		return fi_write(ep, base, e->len, buf->desc, peer, addr, key, context);
	case WRITEV:
		return fi_writev(ep, iov, desc, msg.iov_count, peer, addr, key, context);
	case WRITEMSG:
		return fi_writemsg(ep, &msg, op->flags);
	case WRITEDATA:
		return fi_writedata(ep, base, e->len, buf->desc, op->data, peer, addr, key,
				    context);
	case INJECT:
		return fi_inject_write(ep, base, e->len, peer, addr, key);
	case INJECTDATA:
		return fi_inject_writedata(ep, base, e->len, op->data, peer, addr, key);
	case READ:
		return fi_read(ep, base, e->len, buf->desc, peer, addr, key, context);
	case READV:
		return fi_readv(ep, iov, desc, msg.iov_count, peer, addr, key, context);
	default:
		return fi_readmsg(ep, &msg, op->flags);
	}
}

static ssize_t write_start(struct stress *s, struct stress_op *op)
{
	const struct ft_slot slot = stress_slot(s, op, FROM);
	ssize_t ret = rma_start(s, op);

	return !ret && op->end[FROM].call->inject ? ft_slot_arm(&slot) : ret;
}

const struct stress_type stress_write = {
	.name = "write",
	.caps = FI_RMA,
	.weight = 3,
	.starter = FROM,
	.plan = write_plan,
	.start = write_start,
	.flags = {FI_WRITE | FI_RMA, FI_REMOTE_WRITE | FI_RMA},
	.counter = {CNTR_WRITE, CNTR_REMOTE_WRITE},
};

const struct stress_type stress_read = {
	.name = "read",
	.caps = FI_RMA,
	.weight = 3,
	.starter = TO,
	.plan = read_plan,
	.start = rma_start,
	.flags = {0, FI_READ | FI_RMA},
	.counter = {CNTR_REMOTE_READ, CNTR_READ},
};
