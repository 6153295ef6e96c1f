/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The ends that each process has to do with still, and which of them is next. A run looks at them in each step, so it does
 * not look at all that have ended. See sim.h.
 */
#include "sim.h"

/* Twice the number of an operation, and the end */
static uint16_t todos[SIM_NODES][2 * SIM_OPS_ALL];
static size_t todo_counts[SIM_NODES];

_Static_assert(2 * SIM_OPS_ALL <= UINT16_MAX, "an end has a number of 16 bits");

void op_todo_add(const struct op *op)
{
	for (unsigned int end = 0; end < 2; end++) {
		const unsigned int node = op_node(op, end);

		todos[node][todo_counts[node]++] = (uint16_t) (2 * op->number + end);
	}
}

struct op *op_todo(unsigned int node, size_t at, unsigned int *end)
{
	if (at >= todo_counts[node])
		return NULL;
	*end = todos[node][at] % 2;
	return &ops[todos[node][at] / 2];
}

void op_todo_tidy(unsigned int node)
{
	size_t kept = 0;

	for (size_t at = 0; at < todo_counts[node]; at++) {
		const uint16_t number = todos[node][at];

		if (!ops[number / 2].ends[number % 2].done)
			todos[node][kept++] = number;
	}
	todo_counts[node] = kept;
}

static bool same_line(const struct op *a, const struct op *b)
{
	if (a->plan.kind != OP_MESSAGE || b->plan.kind != OP_MESSAGE ||
	    a->plan.untagged != b->plan.untagged)
		return false;
	if (a->plan.untagged)
		return a->plan.to == b->plan.to && a->plan.to_ep == b->plan.to_ep &&
		       a->plan.from == b->plan.from && a->plan.from_ep == b->plan.from_ep;
	return op_tag(&a->plan) == op_tag(&b->plan);
}

/* Is another thread about to post what this one has an order with, or to let it go? */
static bool end_is_crowded(const struct op *op, unsigned int end)
{
	if (op_trigger_moves(op, end))
		return true;
	for (const struct op *other = ops; other < ops + op_count; other++) {
		if (!other->ends[end].calling || other == op || !op_end_lives(other, end))
			continue;
		if (same_line(other, op) || (!end && op->plan.fence) ||
		    (end && op->plan.untagged && other->plan.untagged))
			return true;
	}
	return false;
}

/* Are those before it of its stream posted at this end? One that was cancelled may look for ever */
bool op_is_next(const struct op *op, unsigned int end)
{
	const struct op *other;
	unsigned int its;

	if (nodes[op_node(op, end)].posting > 1 && end_is_crowded(op, end))
		return false;
	for (size_t i = 0; (other = op_todo(op_node(op, end), i, &its)) && other < op; i++) {
		if (its == end && !other->ends[end].posted && !other->ends[end].skipped &&
		    !other->ends[end].cancelled && same_line(other, op) &&
		    op_end_exists(other, end) && op_end_lives(other, end))
			return false;
	}
	return true;
}
