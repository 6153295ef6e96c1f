/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Kinds of operations: atomic ones. The target begins as the pattern of a key of its own,
 * so that what it and the fetched values have to become is known. At the source lie, one
 * after the other, the operands, what to compare with, and room for what is fetched.
 */
#include <string.h>

#include "stress.h"

#define COUNT_MAX 64 /* elements */
#define BYTES_MAX (COUNT_MAX * sizeof(uint64_t))

enum { CALL, CALLV, CALLMSG, INJECT };
enum { OPERAND, COMPARE, RESULT, PARTS };

static const struct stress_call atomic_calls[] = {
	{.name = "atomic", .call = CALL},
	{.name = "atomicv", .call = CALLV, .split = true},
	{.name = "atomicmsg", .call = CALLMSG, .split = true, .msg = true},
	{.name = "inject_atomic", .call = INJECT, .inject = true},
};

static const enum fi_datatype datatypes[] = {FI_UINT8, FI_UINT16, FI_UINT32, FI_UINT64};

static const enum fi_op plain_ops[] = {FI_MIN, FI_MAX,  FI_SUM,  FI_PROD,
				       FI_BOR, FI_BAND, FI_BXOR, FI_ATOMIC_WRITE};
static const enum fi_op fetch_ops[] = {FI_MIN,  FI_MAX,  FI_SUM,          FI_PROD,       FI_BOR,
				       FI_BAND, FI_BXOR, FI_ATOMIC_WRITE, FI_ATOMIC_READ};
static const enum fi_op compare_ops[] = {FI_CSWAP,    FI_CSWAP_NE, FI_CSWAP_LE, FI_CSWAP_LT,
					 FI_CSWAP_GE, FI_CSWAP_GT, FI_MSWAP};

static size_t unit_of(enum fi_datatype datatype)
{
	return (size_t) 1 << (datatype - FI_UINT8) / 2;
}

/* What @target becomes; all is unsigned, in the lowest bits */
static uint64_t apply(enum fi_op op, uint64_t target, uint64_t operand, uint64_t compare)
{
	switch (op) {
	case FI_MIN:
		return FT_MIN(target, operand);
	case FI_MAX:
		return FT_MAX(target, operand);
	case FI_SUM:
		return target + operand;
	case FI_PROD:
		return target * operand;
	case FI_BOR:
		return target | operand;
	case FI_BAND:
		return target & operand;
	case FI_BXOR:
		return target ^ operand;
	case FI_ATOMIC_WRITE:
		return operand;
	case FI_CSWAP:
		return compare == target ? operand : target;
	case FI_CSWAP_NE:
		return compare != target ? operand : target;
	case FI_CSWAP_LE:
		return compare <= target ? operand : target;
	case FI_CSWAP_LT:
		return compare < target ? operand : target;
	case FI_CSWAP_GE:
		return compare >= target ? operand : target;
	case FI_CSWAP_GT:
		return compare > target ? operand : target;
	case FI_MSWAP:
		return (operand & compare) | (target & ~compare);
	default: /* FI_ATOMIC_READ */
		return target;
	}
}

/* ---- planning ---- */

/* How many elements the provider takes at once; 0: it does not have this operation */
static size_t valid(struct fid_ep *ep, const struct stress_type *type,
		    enum fi_datatype datatype, enum fi_op op)
{
	size_t count = 0;
	int ret;

	if (type == &stress_atomic)
		ret = fi_atomicvalid(ep, datatype, op, &count);
	else if (type == &stress_fetch)
		ret = fi_fetch_atomicvalid(ep, datatype, op, &count);
	else
		ret = fi_compare_atomicvalid(ep, datatype, op, &count);
	return ret ? 0 : count;
}

static bool plan_atomic(const struct stress_plan *plan, struct stress_round *round,
			struct stress_op *op, const enum fi_op *ops, size_t op_count,
			bool fetches, uint64_t *rnd)
{
	struct stress_end *from = &op->end[FROM], *to = &op->end[TO];
	size_t most, unit;

	op->datatype = datatypes[stress_pick(rnd, FT_COUNT(datatypes))];
	op->atomic = ops[stress_pick(rnd, op_count)];
	unit = unit_of(op->datatype);
	most = FT_MIN(valid(plan->ep, op->type, op->datatype, op->atomic), COUNT_MAX);
	if (!most)
		return false;
	op->size = (1 + stress_pick(rnd, most)) * unit;
	do /* the last one of the calls is for operations that fetch nothing */
		from->call = &atomic_calls[stress_pick(rnd, FT_COUNT(atomic_calls) - fetches)];
	while (from->call->inject && op->size > plan->inject);
	from->signal =
		!from->call->inject && (!stress_plan_selective(plan, from) ||
					(from->call->msg && (fetches || stress_coin(rnd))));
	/* what is fetched is there when that is reported */
	if (fetches && !from->signal)
		return false;
	if (from->call->msg)
		op->flags = from->signal ? FI_COMPLETION : 0;
	to->signal = false;
	if (plan->quirks & QUIRK_DEVICE)
		from->kind = to->kind = FI_HMEM_SYSTEM;
	return stress_plan_end(round, op, FROM, fetches ? op->size * PARTS : op->size, true,
			       rnd) &&
	       stress_plan_end(round, op, TO, op->size, true, rnd);
}

static bool atomic_plan(const struct stress_plan *plan, struct stress_round *round,
			struct stress_op *op, uint64_t *rnd)
{
	return plan_atomic(plan, round, op, plain_ops, FT_COUNT(plain_ops), false, rnd);
}

static bool fetch_plan(const struct stress_plan *plan, struct stress_round *round,
		       struct stress_op *op, uint64_t *rnd)
{
	return plan_atomic(plan, round, op, fetch_ops, FT_COUNT(fetch_ops), true, rnd);
}

static bool compare_plan(const struct stress_plan *plan, struct stress_round *round,
			 struct stress_op *op, uint64_t *rnd)
{
	return plan_atomic(plan, round, op, compare_ops, FT_COUNT(compare_ops), true, rnd);
}

/* ---- what is where, before and after ---- */

struct values {
	unsigned char operand[BYTES_MAX], compare[BYTES_MAX], target[BYTES_MAX],
		after[BYTES_MAX];
};

static uint64_t element(const unsigned char *from, size_t at, size_t unit)
{
	uint64_t value = 0;

	/* little-endian machines only, as the rest of what is tested here */
	memcpy(&value, from + at, unit);
	return value;
}

static void values_make(const struct stress_op *op, struct values *v)
{
	const size_t unit = unit_of(op->datatype);

	ft_pattern_fill(v->operand, op->size, op->key);
	ft_pattern_fill(v->target, op->size, op->key + 1);
	ft_pattern_fill(v->compare, op->size, op->key + 2);
	for (size_t at = 0; at < op->size; at += unit) {
		uint64_t after;

		/* every other one is equal, sooner or later */
		if (op->cuts >> at / unit & 1)
			memcpy(v->compare + at, v->target + at, unit);
		after = apply(op->atomic, element(v->target, at, unit),
			      element(v->operand, at, unit), element(v->compare, at, unit));
		memcpy(v->after + at, &after, unit);
	}
}

static int atomic_prepare(struct stress *s, const struct stress_op *op, int end)
{
	const struct ft_slot slot = stress_slot(s, op, end);
	char *const at = slot.buf->addr + slot.off;
	struct values v;

	values_make(op, &v);
	FT_TRY(ft_slot_arm(&slot));
	if (end == TO)
		return slot.buf->ops->to(at, v.target, op->size);
	FT_TRY(slot.buf->ops->to(at, v.operand, op->size));
	return slot.len == op->size
		       ? 0
		       : slot.buf->ops->to(at + op->size * COMPARE, v.compare, op->size);
}

static int compare_values(const struct stress_op *op, const unsigned char *found,
			  const unsigned char *expected, const char *part, const char *what)
{
	for (size_t i = 0; i < op->size; i++)
		FT_CHECK(found[i] == expected[i],
			 "%s: %s: byte %zu is %#04x instead of %#04x (%s, %s)", what, part, i,
			 found[i], expected[i], fi_tostr(&op->atomic, FI_TYPE_ATOMIC_OP),
			 op->datatype == FI_UINT8 ? "8 bits" : "more bits");
	return 0;
}

static int atomic_arrived(struct stress *s, const struct stress_op *op)
{
	const struct ft_slot slot = stress_slot(s, op, TO);
	unsigned char *mem;
	struct values v;

	values_make(op, &v);
	FT_TRY(ft_slot_read(&slot, &mem));
	return !memcmp(mem + (slot.off - slot.base), v.after, op->size);
}

static int atomic_check(struct stress *s, const struct stress_op *op, int end, const char *what)
{
	const struct ft_slot slot = stress_slot(s, op, end);
	unsigned char *mem;
	struct values v;

	values_make(op, &v);
	FT_TRY(ft_slot_guards(&slot, slot.len, what));
	FT_TRY(ft_slot_read(&slot, &mem));
	mem += slot.off - slot.base;
	if (end == TO)
		return compare_values(op, mem, v.after, "target", what);
	if (op->end[FROM].call->inject)
		return 0;
	FT_TRY(compare_values(op, mem, v.operand, "operands", what));
	if (slot.len == op->size)
		return 0;
	FT_TRY(compare_values(op, mem + op->size * COMPARE, v.compare, "comparands", what));
	return compare_values(op, mem + op->size * RESULT, v.target, "fetched values", what);
}

/* ---- posting ---- */

/* A part of the source, in pieces: how many */
static size_t pieces(const struct stress *s, const struct stress_op *op, int part,
		     struct fi_ioc *ioc)
{
	const struct ft_slot slot = stress_slot(s, op, FROM);
	const size_t unit = unit_of(op->datatype);
	struct iovec iov[FT_MAX_IOV];
	size_t count =
		stress_cut(s, iov, slot.buf->addr + slot.off + op->size * (size_t) part,
			   op->size, s->plan.iov_limit[FROM], op->cuts >> part * 8, unit);

	for (size_t i = 0; i < count; i++)
		ioc[i] = (struct fi_ioc){iov[i].iov_base, iov[i].iov_len / unit};
	return count;
}

static ssize_t atomic_start(struct stress *s, struct stress_op *op)
{
	const struct stress_end *from = &op->end[FROM], *to = &op->end[TO];
	const struct ft_slot slot = stress_slot(s, op, FROM);
	const struct stress_remote *remote = &s->remote[TO][to->kind != FI_HMEM_SYSTEM];
	struct fid_ep *ep = s->ctx[from->ep].ep;
	char *const at = slot.buf->addr + slot.off;
	char *const compare = at + op->size * COMPARE, *const result = at + op->size * RESULT;
	const size_t count = op->size / unit_of(op->datatype);
	const fi_addr_t peer = s->peer[to->ep];
	const uint64_t addr = remote->addr + to->off, key = remote->key;
	void *const desc = slot.buf->desc, *const context = &s->part[op->number][FROM].req;
	void *descs[FT_MAX_IOV] = {desc, desc, desc, desc};
	struct fi_ioc ioc[PARTS][FT_MAX_IOV];
	struct fi_rma_ioc rma = {addr, count, key};
	const enum fi_datatype type = op->datatype;
	struct fi_msg_atomic msg = {
		.msg_iov = ioc[OPERAND],
		.desc = descs,
		.iov_count = pieces(s, op, OPERAND, ioc[OPERAND]),
		.addr = peer,
		.rma_iov = &rma,
		.rma_iov_count = 1,
		.datatype = type,
		.op = op->atomic,
		.context = context,
	};
	size_t compares = 0, results = 0;
	ssize_t ret;

	if (op->type != &stress_atomic) {
		compares = pieces(s, op, COMPARE, ioc[COMPARE]);
		results = pieces(s, op, RESULT, ioc[RESULT]);
	}
	if (from->call->call == INJECT) {
		ret = fi_inject_atomic(ep, at, count, peer, addr, key, type, op->atomic);
		return ret ? ret : ft_slot_arm(&slot);
	}
	if (op->type == &stress_atomic) {
		if (from->call->call == CALL)
			return fi_atomic(ep, at, count, desc, peer, addr, key, type, op->atomic,
					 context);
		if (from->call->call == CALLV)
			return fi_atomicv(ep, ioc[OPERAND], descs, msg.iov_count, peer, addr,
					  key, type, op->atomic, context);
		return fi_atomicmsg(ep, &msg, op->flags);
	}
	if (op->type == &stress_fetch) {
		if (from->call->call == CALL)
			return fi_fetch_atomic(ep, at, count, desc, result, desc, peer, addr,
					       key, type, op->atomic, context);
		if (from->call->call == CALLV)
			return fi_fetch_atomicv(ep, ioc[OPERAND], descs, msg.iov_count,
						ioc[RESULT], descs, results, peer, addr, key,
						type, op->atomic, context);
		return fi_fetch_atomicmsg(ep, &msg, ioc[RESULT], descs, results, op->flags);
	}
	if (from->call->call == CALL)
		return fi_compare_atomic(ep, at, count, desc, compare, desc, result, desc, peer,
					 addr, key, type, op->atomic, context);
	if (from->call->call == CALLV)
		return fi_compare_atomicv(ep, ioc[OPERAND], descs, msg.iov_count, ioc[COMPARE],
					  descs, compares, ioc[RESULT], descs, results, peer,
					  addr, key, type, op->atomic, context);
	return fi_compare_atomicmsg(ep, &msg, ioc[COMPARE], descs, compares, ioc[RESULT], descs,
				    results, op->flags);
}

const struct stress_type stress_atomic = {
	.name = "atomic",
	.caps = FI_ATOMIC,
	.weight = 1,
	.starter = FROM,
	.plan = atomic_plan,
	.prepare = atomic_prepare,
	.start = atomic_start,
	.flags = {FI_WRITE | FI_ATOMIC, 0},
	.counter = {CNTR_WRITE, CNTR_REMOTE_WRITE},
	.arrived = atomic_arrived,
	.check = atomic_check,
};

const struct stress_type stress_fetch = {
	.name = "fetch",
	.caps = FI_ATOMIC,
	.weight = 1,
	.starter = FROM,
	.plan = fetch_plan,
	.prepare = atomic_prepare,
	.start = atomic_start,
	.flags = {FI_READ | FI_ATOMIC, 0},
	.counter = {CNTR_READ, CNTR_REMOTE_READ},
	.arrived = atomic_arrived,
	.check = atomic_check,
};

const struct stress_type stress_compare = {
	.name = "compare",
	.caps = FI_ATOMIC,
	.weight = 1,
	.starter = FROM,
	.plan = compare_plan,
	.prepare = atomic_prepare,
	.start = atomic_start,
	.flags = {FI_READ | FI_ATOMIC, 0},
	.counter = {CNTR_READ, CNTR_REMOTE_READ},
	.arrived = atomic_arrived,
	.check = atomic_check,
};
