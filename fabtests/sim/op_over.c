/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Which operations are over, or wait for what nobody can know. See sim.h. */
#include "sim.h"

static const struct node_ep *ep_of_end(const struct op *op, unsigned int end)
{
	return &nodes[op_node(op, end)].eps[op_ep(op, end)];
}

/* Does it go whole, so that the core alone knows of its end? */
static bool core_alone(const struct op_plan *plan)
{
	if (nodes[plan->from].plain || nodes[plan->to].plain || nodes[plan->from].hook ||
	    nodes[plan->to].hook)
		return true;
	if (plan->kind != OP_MESSAGE)
		return !plan->to_dev && (!plan->from_dev || !plan->len);
	/* what is longer waits for a greeting */
	return !plan->from_dev || plan->len <= 16384;
}

static bool core_loses(void)
{
	for (size_t i = 0; i < world.script->fault_count; i++) {
		const struct fault_plan *fault = &world.script->faults[i];

		if (!fault->dropped && (fault->kind == FAULT_LOSE ||
					fault->kind == FAULT_HARD || fault->kind == FAULT_FULL))
			return true;
	}
	return false;
}

/* Is it a message to one that may have been lost, and not have answered since? */
static bool may_go_whole(const struct op_plan *plan)
{
	return plan->kind == OP_MESSAGE && (core_loses() || world.script->timeout);
}

bool op_end_lost(const struct op *op, unsigned int end)
{
	const struct node_ep *ep = ep_of_end(op, end);
	const unsigned int peer = op_node(op, !end), peer_ep = op_ep(op, !end);
	const bool met = ep->met[peer][peer_ep] == op->ends[!end].life + 1;

	/* it may go only now, and a core has no room for what is for a process that is gone */
	if (op->ends[end].threshold && !op_end_lives(op, !end))
		return true;
	/* it may still be with the one that was there before; and a silent core gives no memory back that it was to send */
	if (ep->blind[peer][peer_ep] && ep->blind[peer][peer_ep] == ep_of_end(op, !end)->port)
		return true;
	return !op_end_lives(op, !end) &&
	       (!met ||
		(world.script->model->silent && !end &&
		 (core_alone(&op->plan) || !op->plan.from_dev || may_go_whole(&op->plan))));
}

/* Is it a long message of the core's whose connection broke, or fenced behind one? */
static bool core_keeps(const struct op *op)
{
	const struct op_plan *plan = &op->plan;

	return world.script->model->keeps && check_may_fail(op) &&
	       ((plan->kind == OP_MESSAGE && plan->len > world.script->model->eager &&
		 core_alone(plan)) ||
		(plan->fence && world.script->fences));
}

/*
 * A receive that took another message's marker waits for the sender of that one, which is gone, and nobody knows. As many
 * do as there are such messages.
 */
static bool waits_for_lost(const struct op *op)
{
	unsigned int lost = 0, waiting = 0;

	for (const struct op *other = ops; op->ends[1].posted && other < ops + op_count;
	     other++)
		lost += !op_end_lives(other, 0) && check_may_be(op, other) &&
			op_end_lost(other, 1);
	for (const struct op *other = ops; lost && other < ops + op_count; other++)
		waiting += check_same_stream(op, other) && op_end_lives(other, 1) &&
			   other->ends[1].posted && !other->ends[1].done;
	return lost && waiting <= lost;
}

/*
 * What is known, and written down in sim.c: an announcement was lost, and nobody tells whose marker it is that waits for
 * it; or greetings were, and are not repeated.
 */
static bool end_known(const struct op *op, unsigned int end)
{
	bool anew = world.script->eps > 1;

	for (unsigned int e = 0; e < SIM_EPS; e++)
		anew |= nodes[op_node(op, end)].eps[e].life;
	if (!end && core_keeps(op))
		return true;
	if (end && waits_for_lost(op))
		return true;
	if (!core_loses())
		return false;
	if (end)
		return op->ends[1].cancelled && anew && check_may_fail(op);
	return world.script->model->stalls && op->plan.kind != OP_MESSAGE &&
	       !op->ends[0].posted;
}

bool op_end_over(const struct op *op, unsigned int end)
{
	const struct op_end *at = &op->ends[end];

	return !op_end_exists(op, end) || !op_end_lives(op, end) || at->done || at->skipped ||
	       op_end_lost(op, end) || end_known(op, end);
}

bool op_ended(const struct op *op)
{
	return op_end_over(op, 0) && op_end_over(op, 1);
}
