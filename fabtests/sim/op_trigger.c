/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Operations that wait for a counter of the application's (fi_trigger(3)), by FI_TRIGGER or as deferred work.
 *
 * A domain has two such counters. One is a clock: the application sets it to the time [us], and each operation has a
 * threshold. The other one is a chain: an operation counts there when it has ended, and the next one waits for that. The
 * application counts in the place of those that fail.
 */
#include "sim.h"

/* A deferred work, and all that it points to. It stays as long as its process */
struct op_deferred {
	struct fi_deferred_work work;
	union {
		struct fi_op_tagged tagged;
		struct fi_op_rma rma;
		struct fi_op_atomic atomic;
	} op;
	struct iovec iov[4];
	struct fi_rma_iov place;
	struct fi_ioc ioc;
	struct fi_rma_ioc remote;
};

static struct node_domain *domain_at(const struct op *op, unsigned int end)
{
	return &nodes[op_node(op, end)].domains[SIM_DOMAIN_OF(op_ep(op, end))];
}

static unsigned int delay_of(const struct op *op, unsigned int end)
{
	return end ? op->plan.recv_trigger : op->plan.trigger;
}

bool op_is_triggered(const struct op *op, unsigned int end)
{
	return delay_of(op, end) && domain_at(op, end)->clock && !op_is_streamed(op, end);
}

bool op_trigger_moves(const struct op *op, unsigned int end)
{
	return op_is_triggered(op, end) && domain_at(op, end)->clock_moves;
}

static bool is_chained(const struct op *op, unsigned int end)
{
	return !end && op->plan.chained;
}

static bool is_deferred(const struct op *op, unsigned int end)
{
	return is_chained(op, end) || delay_of(op, end) % 2;
}

/* Has the clock not come there yet? A stream waits for it, though the endpoint may be closed by now */
static bool is_waiting(const struct op *op, unsigned int end)
{
	const struct op_end *at = &op->ends[end];

	if (!at->threshold || at->gone || !at->posted || is_chained(op, end))
		return false;
	return op_is_streamed(op, end) ? at->process == nodes[op_node(op, end)].life
				       : !at->done && op_end_lives(op, end);
}

uint64_t op_trigger_turn(struct op *op, unsigned int end)
{
	struct node_domain *domain = domain_at(op, end);
	struct op_end *at = &op->ends[end];

	at->queued = op_next_turn();
	at->process = nodes[op_node(op, end)].life;
	at->gone = false;
	if (is_chained(op, end)) {
		at->threshold = domain->links;
		return at->queued;
	}
	at->threshold =
		(SIM_S + (end ? op->plan.recv_at : op->plan.at)) / 1000 + delay_of(op, end);
	/* what is in a stream keeps its order there */
	return at->threshold <= domain->clock_at || op_is_streamed(op, end) ? at->queued
									    : UINT64_MAX;
}

/* ---- posted ---- */

static ssize_t defer(struct op *op, unsigned int end, enum fi_op_type type,
		     struct op_deferred *deferred)
{
	const struct node_ep *ep = &nodes[op_node(op, end)].eps[op_ep(op, end)];
	struct node_domain *domain = domain_at(op, end);
	const bool chained = is_chained(op, end);
	ssize_t ret;

	deferred->work.threshold = op->ends[end].threshold;
	deferred->work.triggering_cntr = chained ? domain->chain : domain->clock;
	deferred->work.completion_cntr =
		chained ? domain->chain : ep->cntrs[op_counts(op, end)];
	deferred->work.op_type = type;
	deferred->work.op.tagged = &deferred->op.tagged;
	/* another thread may have its completion before the call returns */
	op->ends[end].deferred = &deferred->work;
	domain->links += chained;
	ret = fi_control(&domain->domain->fid, FI_QUEUE_WORK, &deferred->work);
	if (ret) {
		op->ends[end].deferred = NULL;
		domain->links -= chained;
	}
	return ret;
}

/* FI_TRIGGER, and what comes with it; 0: it waits for nothing */
static uint64_t flags_of(struct op *op, unsigned int end)
{
	struct fi_triggered_context2 *context = (void *) &op->ends[end].context;

	if (!op_is_triggered(op, end))
		return 0;
	context->event_type = FI_TRIGGER_THRESHOLD;
	context->trigger.threshold.cntr = domain_at(op, end)->clock;
	context->trigger.threshold.threshold = op->ends[end].threshold;
	return FI_TRIGGER;
}

ssize_t op_post_tagged(struct op *op, unsigned int end, const struct fi_msg_tagged *msg,
		       uint64_t flags)
{
	struct fid_ep *ep = nodes[op_node(op, end)].eps[op_ep(op, end)].ep;
	struct op_deferred *deferred;

	if (!op_is_triggered(op, end) || !is_deferred(op, end)) {
		flags |= flags_of(op, end);
		return end ? fi_trecvmsg(ep, msg, flags) : fi_tsendmsg(ep, msg, flags);
	}
	deferred = calloc(1, sizeof *deferred);
	deferred->op.tagged =
		(struct fi_op_tagged){.ep = ep, .msg = *msg, .flags = flags | FI_COMPLETION};
	memcpy(deferred->iov, msg->msg_iov, msg->iov_count * sizeof *msg->msg_iov);
	deferred->op.tagged.msg.msg_iov = deferred->iov;
	return defer(op, end, end ? FI_OP_TRECV : FI_OP_TSEND, deferred);
}

ssize_t op_post_rma(struct op *op, const struct fi_msg_rma *msg, uint64_t flags)
{
	struct fid_ep *ep = nodes[op->plan.from].eps[op->plan.from_ep].ep;
	const bool reads = op->plan.kind == OP_READ;
	struct op_deferred *deferred;

	if (!op_is_triggered(op, 0) || !is_deferred(op, 0)) {
		flags |= flags_of(op, 0);
		return reads ? fi_readmsg(ep, msg, flags) : fi_writemsg(ep, msg, flags);
	}
	deferred = calloc(1, sizeof *deferred);
	deferred->op.rma =
		(struct fi_op_rma){.ep = ep, .msg = *msg, .flags = flags | FI_COMPLETION};
	memcpy(deferred->iov, msg->msg_iov, msg->iov_count * sizeof *msg->msg_iov);
	deferred->op.rma.msg.msg_iov = deferred->iov;
	deferred->place = *msg->rma_iov;
	deferred->op.rma.msg.rma_iov = &deferred->place;
	return defer(op, 0, reads ? FI_OP_READ : FI_OP_WRITE, deferred);
}

ssize_t op_post_atomic(struct op *op, const struct fi_msg_atomic *msg, uint64_t flags)
{
	struct fid_ep *ep = nodes[op->plan.from].eps[op->plan.from_ep].ep;
	struct op_deferred *deferred;

	if (!op_is_triggered(op, 0) || !is_deferred(op, 0))
		return fi_atomicmsg(ep, msg, flags | flags_of(op, 0));
	deferred = calloc(1, sizeof *deferred);
	deferred->op.atomic =
		(struct fi_op_atomic){.ep = ep, .msg = *msg, .flags = flags | FI_COMPLETION};
	deferred->ioc = *msg->msg_iov;
	deferred->op.atomic.msg.msg_iov = &deferred->ioc;
	deferred->remote = *msg->rma_iov;
	deferred->op.atomic.msg.rma_iov = &deferred->remote;
	return defer(op, 0, FI_OP_ATOMIC, deferred);
}

bool op_is_counted(const struct op *op, unsigned int end)
{
	return !(is_chained(op, end) && op->ends[end].deferred);
}

bool op_trigger_cancel(struct op *op, unsigned int end)
{
	struct fi_deferred_work *work = op->ends[end].deferred;

	return work && !fi_control(&domain_at(op, end)->domain->fid, FI_CANCEL_WORK, work);
}

/* ---- counted ---- */

/* The first of those that wait, of a domain, up to @until [us], or NULL */
static struct op_end *first_waiting(unsigned int node, unsigned int d, uint64_t until)
{
	struct op_end *first = NULL;

	for (size_t i = 0; i < 2 * op_count; i++) {
		struct op *op = &ops[i / 2];
		const unsigned int end = i % 2;
		struct op_end *at = &op->ends[end];

		if (at->threshold && at->threshold <= until && op_node(op, end) == node &&
		    SIM_DOMAIN_OF(op_ep(op, end)) == d && is_waiting(op, end) &&
		    (!first || at->threshold < first->threshold ||
		     (at->threshold == first->threshold && at->queued < first->queued)))
			first = at;
	}
	return first;
}

/* Is another thread about to queue something? What is queued then goes before, or after, what waits */
static bool is_being_queued(unsigned int node)
{
	for (size_t i = 0; i < 2 * op_count; i++) {
		if (op_node(&ops[i / 2], i % 2) == node && ops[i / 2].ends[i % 2].calling &&
		    op_end_lives(&ops[i / 2], i % 2))
			return true;
	}
	return false;
}

/* Links of the chain that will not count by themselves */
static uint64_t broken_links(unsigned int node, unsigned int d)
{
	uint64_t broken = 0;

	for (size_t i = 0; i < op_count; i++) {
		const struct op *op = &ops[i];

		broken += op->ends[0].deferred && op->plan.from == node &&
			  SIM_DOMAIN_OF(op->plan.from_ep) == d && is_chained(op, 0) &&
			  op->ends[0].process == nodes[node].life && op_end_over(op, 0) &&
			  (op->ends[0].err || !op->ends[0].done);
	}
	return broken;
}

bool op_triggers_want(unsigned int node, unsigned int d)
{
	const struct node_domain *domain = &nodes[node].domains[d];

	return domain->clock && (first_waiting(node, d, world.now / 1000) ||
				 broken_links(node, d) > domain->mended);
}

static void go(struct op_end *at)
{
	at->gone = true;
	if (at->turn == UINT64_MAX)
		at->turn = op_next_turn();
}

void op_triggers_turn(unsigned int node, unsigned int d)
{
	struct node_domain *domain = &nodes[node].domains[d];
	const uint64_t now = world.now / 1000;
	struct op_end *at;
	uint64_t broken;

	if (!domain->clock)
		return;
	broken = broken_links(node, d);
	at = first_waiting(node, d, now);
	if (at && !is_being_queued(node)) {
		for (; at; at = first_waiting(node, d, now))
			go(at);
		domain->clock_at = now;
		domain->clock_moves = true;
		world_tell("n%u: its clock is at %llu us", node, (unsigned long long) now);
		if (fi_cntr_set(domain->clock, now))
			world_fail("n%u: a counter is not set", node);
		domain->clock_moves = false;
	}
	if (broken > domain->mended) {
		const uint64_t more = broken - domain->mended;

		domain->mended = broken;
		if (fi_cntr_add(domain->chain, more))
			world_fail("n%u: a counter is not added to", node);
	}
}
