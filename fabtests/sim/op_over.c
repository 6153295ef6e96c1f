/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Which operations are over, or wait for what nobody can know. See sim.h. */
#include "kernel.h"

#include "xfer/wire.h"

/* What has found nothing, or no memory, is tried again after so long, and each time after twice that, up to the second [ns] */
#define OP_LOOK_AGAIN (200 * 1000)
#define OP_LOOK_MAX (100 * SIM_MS)

void op_end_later(struct op_end *at)
{
	if (at->look_wait < OP_LOOK_MAX)
		at->look_wait = at->look_wait ? 2 * at->look_wait : OP_LOOK_AGAIN;
	at->look_at = world.now + at->look_wait;
}

static const struct node_ep *ep_of_end(const struct op *op, unsigned int end)
{
	return &nodes[op_node(op, end)].eps[op_ep(op, end)];
}

/* The call that posts it may say -FI_EAGAIN yet */
static bool is_posted(const struct op_end *at)
{
	return at->posted && !at->calling;
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

/* Has the core this very operation, whose end it never tells? A silent one has copies of device memory, which we give up */
static bool is_kept(const struct op *op)
{
	const struct op_plan *plan = &op->plan;
	const bool copied = world.script->model->silent && plan->from_dev && plan->len;
	const struct core_kept what = {
		.rma = plan->kind != OP_MESSAGE && (!plan->from_dev || !plan->len),
		.tag = plan->untagged ? 0 : op_tag(plan),
		.buf = op->ends[0].buf,
		.len = plan->len,
	};

	return op->ends[0].posted && !copied &&
	       core_keeps(plan->from, ep_of_end(op, 0)->port, plan->to, &what);
}

bool op_piece_kept(const struct op *op)
{
	const struct op_plan *plan = &op->plan;
	const struct core_kept any = {.any = true};

	return world.script->model->keeps && world.script->eager &&
	       (core_keeps(plan->from, ep_of_end(op, 0)->port, plan->to, &any) ||
		core_keeps(plan->to, ep_of_end(op, 1)->port, plan->from, &any));
}

/*
 * Does the provider post it again until the core takes it? With a queue it never says -FI_EAGAIN of remote memory. The first
 * link of a chain waits for nothing, and is queued, too.
 */
static bool is_queued(const struct op *op, unsigned int end)
{
	return op->ends[end].threshold || op->ends[end].deferred || op_is_ringed(op, end) ||
	       (!end && world.script->triggers && op->plan.kind != OP_MESSAGE);
}

/* Has the call not taken it, or the provider kept it for later? */
static bool is_yet_to_go(const struct op *op)
{
	return !is_posted(&op->ends[0]) || is_queued(op, 0);
}

/* Is it on remote memory of a peer whose greetings were lost, and are not repeated? */
static bool is_ungreeted(const struct op *op)
{
	return core_loses() && world.script->model->stalls && op->plan.kind != OP_MESSAGE &&
	       is_yet_to_go(op);
}

/* Are they of one endpoint, with one other? */
static bool is_beside(const struct op *op, const struct op *other)
{
	return op_node(other, 0) == op_node(op, 0) && op_ep(other, 0) == op_ep(op, 0) &&
	       op_node(other, 1) == op_node(op, 1) && op_ep(other, 1) == op_ep(op, 1);
}

/* Has such a one been posted, with the same peer? */
static bool is_beside_ungreeted(const struct op *op)
{
	for (const struct op *other = ops; other < ops + op_count; other++) {
		if (is_beside(op, other) && other->ends[0].posted && !other->ends[0].done &&
		    is_ungreeted(other))
			return true;
	}
	return false;
}

/* Is it fenced behind what the core keeps, or what waits for a greeting, with the same peer? */
static bool is_fenced(const struct op *op)
{
	const struct op_plan *plan = &op->plan;
	const struct node_domain *domain =
		&nodes[plan->from].domains[SIM_DOMAIN_OF(plan->from_ep)];
	const struct core_kept what = {
		.port = domain->ports[plan->to][plan->to_ep],
		.any = true,
	};

	return plan->fence && world.script->fences && is_yet_to_go(op) &&
	       (core_keeps(plan->from, ep_of_end(op, 0)->port, plan->to, &what) ||
		is_beside_ungreeted(op));
}

/* Or is it to be posted after such a message? */
static bool is_held_up(const struct op *op)
{
	for (const struct op *other = ops; other < op && !is_posted(&op->ends[0]); other++) {
		if (check_same_stream(other, op) && other->plan.from == op->plan.from &&
		    other->plan.from_ep == op->plan.from_ep && op_end_lives(other, 0) &&
		    is_fenced(other))
			return true;
	}
	return is_fenced(op);
}

static bool is_lost(const struct op *op, unsigned int end)
{
	const struct node_ep *ep = ep_of_end(op, end);
	const unsigned int peer = op_node(op, !end), peer_ep = op_ep(op, !end);
	/* what is sent after its address was removed is for somebody unknown. A receive knows its markers by their tokens */
	const bool met = ep->met[peer][peer_ep] == op->ends[!end].life + 1 &&
			 (end || !ep->removed[peer][peer_ep]) &&
			 !(peer == world.liar && lie_hides(op_node(op, end)));

	/* it may go only now, and a core has no room for what is for a process that is gone */
	if (is_queued(op, end) && !op_end_lives(op, !end))
		return true;
	/* it may still be with the one that was there before */
	if (ep->blind[peer][peer_ep] && ep->blind[peer][peer_ep] == ep_of_end(op, !end)->port)
		return true;
	/* a silent core gives no memory back that it was to send */
	return !op_end_lives(op, !end) &&
	       (!met || (world.script->model->silent && !end && is_kept(op)));
}

/* Is it in a stream more than once? Then it is behind some that were put there later, too */
static bool is_repeated(const struct op *op, unsigned int end)
{
	return !end && op->plan.graph > 1 && op_is_streamed(op, 0);
}

/* In a stream nothing overtakes what waits */
static bool is_behind_in_stream(const struct op *op, unsigned int end,
				bool (*waits)(const struct op *op, unsigned int end))
{
	const struct op_end *at = &op->ends[end];

	if (!op_is_streamed(op, end))
		return false;
	for (size_t i = 0; i < 2 * op_count; i++) {
		const struct op *other = &ops[i / 2];
		const struct op_end *before = &other->ends[i % 2];

		if (before->posted && !before->done &&
		    op_node(other, i % 2) == op_node(op, end) &&
		    op_stream(other, i % 2) == op_stream(op, end) &&
		    op_is_streamed(other, i % 2) &&
		    (before->queued < at->queued || is_repeated(op, end)) &&
		    waits(other, i % 2))
			return true;
	}
	return false;
}

/*
 * Of a ring, as many operations may wait as it has room for. Then, or behind one with FI_FENCE, the ring waits as a whole
 * (docs/gpu.md).
 */
static bool is_in_full_ring(const struct op *op, unsigned int end,
			    bool (*waits)(const struct op *op, unsigned int end))
{
	unsigned int waiting = 0;

	if (!op_is_ringed(op, end))
		return false;
	for (size_t i = 0; i < 2 * op_count; i++) {
		const struct op *other = &ops[i / 2];
		const struct op_end *at = &other->ends[i % 2];

		if (!at->posted || at->done || other == op ||
		    op_node(other, i % 2) != op_node(op, end) ||
		    op_ep(other, i % 2) != op_ep(op, end) || !op_is_ringed(other, i % 2) ||
		    op_ring(other, i % 2) != op_ring(op, end) || !op_end_lives(other, i % 2) ||
		    !waits(other, i % 2))
			continue;
		/* a put is two */
		waiting += 1 + other->plan.put;
		if (other->plan.fence && world.script->fences)
			return true;
	}
	return waiting >= SIM_SLOTS_OF(world.script);
}

/* Does the provider keep the order of these of one process? In a stream, else of what is in a ring, or queued, to a peer */
static bool is_in_order(const struct op *op, const struct op *other)
{
	if (op_is_streamed(op, 0) || op_is_streamed(other, 0))
		return op_is_streamed(op, 0) && op_is_streamed(other, 0) &&
		       op_stream(other, 0) == op_stream(op, 0);
	if (!is_beside(op, other))
		return false;
	if (op_is_ringed(op, 0))
		return op_ring(other, 0) == op_ring(op, 0);
	return is_queued(op, 0) && is_queued(other, 0);
}

/* Is it ungreeted, or fenced? */
static bool is_held(const struct op *op)
{
	return is_ungreeted(op) || is_fenced(op);
}

/* Asks that of all that a process has posted, once: op.held */
static void find_held(unsigned int node)
{
	for (struct op *op = ops; op < ops + op_count; op++)
		op->held = op_node(op, 0) == node && op->ends[0].posted && !op->ends[0].done &&
			   is_held(op);
}

/* Does it wait behind such a one? */
static bool is_behind_held(const struct op *op, unsigned int end)
{
	if (end || !(world.script->fences || (core_loses() && world.script->model->stalls)))
		return false;
	for (const struct op *other = ops; other < ops + op_count; other++) {
		if (other->held && is_in_order(op, other) &&
		    (other->ends[0].turn < op->ends[0].turn || is_repeated(op, 0)))
			return true;
	}
	return false;
}

/* Has it a place in its ring for ever? */
static bool is_stuck(const struct op *op, unsigned int end)
{
	return is_lost(op, end) || (!end && op->held) || is_behind_held(op, end);
}

bool op_end_lost(const struct op *op, unsigned int end)
{
	if (is_lost(op, end) || is_behind_in_stream(op, end, is_lost))
		return true;
	if (end && !op_is_ringed(op, end))
		return false;
	find_held(op_node(op, end));
	return is_in_full_ring(op, end, is_stuck) || is_behind_held(op, end);
}

bool op_end_hindered(const struct op *op, unsigned int end)
{
	return is_behind_in_stream(op, end, op_end_lives) ||
	       is_in_full_ring(op, end, op_end_lives);
}

/*
 * Has a put failed, for which there was a reason? An error of one does not tell which. Nor does it tell whether it is of a
 * put or of its signal.
 */
static bool is_put_failed(const struct op *op)
{
	const unsigned int d = SIM_DOMAIN_OF(op->plan.from_ep);
	unsigned int unseen = 0;

	if (!op->plan.put || !op->ends[0].posted || !(check_may_fail(op) || check_refuses(op)))
		return false;
	for (size_t i = 0; i < op_count; i++)
		unseen += ops[i].plan.put && ops[i].plan.from == op->plan.from &&
			  SIM_DOMAIN_OF(ops[i].plan.from_ep) == d && ops[i].ends[0].posted &&
			  !ops[i].seen && op_end_lives(&ops[i], 0) && op_end_lives(&ops[i], 1);
	return unseen <= nodes[op->plan.from].domains[d].put_errors;
}

/* Has another receive got its message, so that it waits for that one's, which its sender holds for ever? */
static bool waits_for_held(const struct op *op, const struct op *other)
{
	return op->taken && !other->ends[0].done && check_may_get(op, other) &&
	       op_end_over(other, 0);
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
		lost += op_end_lives(other, 0)
				? waits_for_held(op, other)
				: check_may_be(op, other) && op_end_lost(other, 1);
	for (const struct op *other = ops; lost && other < ops + op_count; other++)
		waiting += check_same_stream(op, other) && op_end_lives(other, 1) &&
			   other->ends[1].posted && !other->ends[1].done;
	return lost && waiting <= lost;
}

/*
 * Has its sender failed, or ended? Or does it wait for the process that was here before? Then the receive may have its
 * marker, and no announcement
 */
static bool is_forsaken(const struct op *op)
{
	for (const struct op *other = ops; other < ops + op_count; other++) {
		if ((other->ends[0].err || !op_end_lives(other, 0) || is_lost(other, 0)) &&
		    check_may_be(op, other))
			return true;
	}
	return false;
}

/*
 * A process that lies may have given a number to its marker that stands for nothing. No receive is taken back that has met
 * a message, and the core does not say whose it was. Only where the receive is for one sender that is known; of a short one of
 * host memory, or of no bytes, the provider has no record.
 */
static bool is_deceived(const struct op *op)
{
	const struct op_plan *plan = &op->plan;
	const bool recorded = op->room > WIRE_PLAIN_MAX || (plan->to_dev && op->room);

	return op->ends[1].cancelled &&
	       !(plan->directed && world.script->directs && recorded) &&
	       (plan->from == world.liar || (plan->untagged && world.liar != SIM_NODES));
}

/*
 * What is known, and written down in sim.c: an announcement was lost, or went to the endpoint before, and nobody tells
 * whose marker it is that waits for it; or greetings were lost, and are not repeated.
 */
static bool end_known(const struct op *op, unsigned int end)
{
	const struct op_plan *plan = &op->plan;
	/* its sender's process may have another endpoint that is known here, or not be known */
	bool anew = world.script->eps > 1 ||
		    ep_of_end(op, 1)->met[plan->from][plan->from_ep] != op->ends[0].life + 1;

	if (op_piece_kept(op) || (!end && (is_kept(op) || is_held_up(op) || is_put_failed(op))))
		return true;
	if (end && (waits_for_lost(op) || is_deceived(op)))
		return true;
	for (unsigned int e = 0; e < SIM_EPS; e++)
		anew |= nodes[plan->from].eps[e].life;
	if (end)
		return op->ends[1].cancelled && is_forsaken(op) &&
		       (ep_of_end(op, 1)->life || (core_loses() && anew));
	return is_ungreeted(op);
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

void op_cancel(struct op *op)
{
	struct op_end *at = &op->ends[1];

	at->cancelled = true;
	if (!at->posted || op_is_multi(op))
		/* what it has found is there, and it may have claimed that */
		at->skipped = !at->looking && !at->found;
	else
		at->cancel_at = world.now;
}
