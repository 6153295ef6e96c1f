/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The rules on ends: everything ends in time, and everything comes back. See sim.h. */
#include "gate.h"
#include "kernel.h"

#include "base/base.h"
#include "base/conf.h"
#include "fid/domain.h"
#include "proto/proto_state.h"
#include "proto/rndv_match.h"
#include "xfer/peer.h"
#include "xfer/req.h"
#include "xfer/req_state.h"
#include "xfer/sendq.h"

/* So long may an operation take among processes that run, where little room is left [ns] */
#define CHECK_PATIENCE (4 * SIM_S)
/* And so many turns of both: a process gives way in calls, and one that retries many has but two turns in a second */
#define CHECK_TURNS 20

/* The provider's state of a node's domain, or NULL */
static struct xfer *xfer_of(unsigned int node, unsigned int d)
{
	const struct node *at = &nodes[node];

	return at->state == NODE_DEAD || at->plain || !at->domains[d].domain
		       ? NULL
		       : &domain_of(&at->domains[d].domain->fid)->xfer;
}

static void tell_channel(unsigned int node, const struct xfer_channel *channel)
{
	const struct ctrl_inbox *inbox = &channel->inbox;
	const struct xfer_out *out;

	TAILQ_FOREACH(out, &channel->outq, entry)
		world_tell("n%u: %zu bytes wait to be sent to %zu%s", node, out->iov[0].iov_len,
			   (size_t) out->addr, out->until ? ", for a while" : "");
	if (channel->owed || inbox->refused || inbox->missing)
		world_tell("n%u: %u control messages, %u and %u receives for such", node,
			   channel->owed, inbox->refused, inbox->missing);
}

/* What the provider still has under way, for who looks for the cause */
static void tell_requests(unsigned int node, const struct xfer *xfer)
{
	const struct xfer_arrival *arrival;
	struct xfer_peer *peer, *next;
	struct xfer_ctx *ctx;
	struct xfer_ep *ep;

	for (size_t i = 0; i < XFER_CHAINS; i++) {
		LIST_FOREACH(arrival, &xfer->proto->arriving[i], chain)
			world_tell("n%u: message %llx is announced %d, its marker is here %d",
				   node, (unsigned long long) (arrival->id & 0xffffff),
				   arrival->announced, arrival->ready != NULL);
	}
	LIST_FOREACH(ep, &xfer->eps, entry) {
		LIST_FOREACH(ctx, &ep->live, live) {
			const struct xfer_req *req = (const struct xfer_req *) ctx;

			if (xfer_ctx_is_req(ctx))
				world_tell("n%u: %s of %zu with %zu is %s, id %llx", node,
					   req->recv ? "receive" : "send", req->len,
					   (size_t) req->addr, xfer_state_name(req->state),
					   (unsigned long long) (req->transfer.id & 0xffffff));
		}
		tell_channel(node, &ep->side);
		tell_channel(node, &ep->front);
		HASH_ITER(hh, ep->peers, peer, next)
			world_tell("n%u: peer %zu is in state %d, lost %d, %u users, %u sends",
				   node, (size_t) peer->addr, peer->state, peer->lost,
				   peer->users, peer->sends);
	}
}

static void tell_all_requests(void)
{
	for (unsigned int at = 0; at < SIM_NODES * SIM_DOMAINS; at++) {
		const unsigned int node = at / SIM_DOMAINS;

		if (xfer_of(node, at % SIM_DOMAINS))
			tell_requests(node, xfer_of(node, at % SIM_DOMAINS));
	}
}

/* Everything ends, in a bounded time */
void check_all_ended(const char *when)
{
	for (size_t i = 0; i < op_count; i++) {
		for (unsigned int end = 0; end < 2; end++) {
			if (op_end_over(&ops[i], end))
				continue;
			tell_all_requests();
			world_fail("%s: %s %u of n%u with n%u has not ended%s", when,
				   end ? "receive" : "operation", ops[i].number,
				   end ? ops[i].plan.to : ops[i].plan.from,
				   end ? ops[i].plan.from : ops[i].plan.to,
				   ops[i].ends[end].posted ? "" : ", nor been posted");
		}
	}
}

/*
 * Less pinned memory than users may say: whole messages for a process that rests, and pieces both ways, may hold all of it.
 * Nothing makes up for slots that injected writes need.
 */
static bool is_short_of_slots(const struct op *op)
{
	return op->plan.kind != OP_MESSAGE && op->plan.inject && world.script->pinned == 512;
}

/*
 * Has its receive got another message, as one before it was cancelled? Then it may have none, here as without us: the
 * application posts one more behind all that it has planned.
 */
static bool is_without_receive(const struct op *op)
{
	return op->plan.kind == OP_MESSAGE && op->ends[1].done && !op->taken;
}

/* Was a message sent from this end of an operation to the other one, which needs a receive of its own? */
static bool is_behind(const struct op *op, unsigned int end, const struct op *message)
{
	return message->plan.kind == OP_MESSAGE && !op_is_multi(message) &&
	       message->plan.from == op_node(op, end) &&
	       message->plan.from_ep == op_ep(op, end) &&
	       message->plan.to == op_node(op, !end) &&
	       message->plan.to_ep == op_ep(op, !end) && message->ends[0].posted;
}

/* And is none there? */
static bool is_stopped_by(const struct op *op, unsigned int end, const struct op *message)
{
	return is_behind(op, end, message) && !message->taken &&
	       (!message->ends[1].posted || message->ends[1].done ||
		op_end_hindered(message, 1));
}

/*
 * Some cores read nothing of a peer's behind a message that no receive is there for, yet or any more, or whose receive waits
 * behind others in a stream or a ring. The owner's answer to an operation on its memory waits there, too, as the core's own
 * does.
 */
static bool is_stalled(const struct op *op)
{
	bool stalled = false;

	for (size_t i = 0; world.script->model->stalls && i < op_count && !stalled; i++)
		stalled = is_stopped_by(op, 0, &ops[i]) ||
			  (op->plan.kind != OP_MESSAGE && is_stopped_by(op, 1, &ops[i]));
	return stalled;
}

bool check_unheard(const struct op *op)
{
	/* the second question goes when half of that is over */
	const uint64_t questions = core_lost(op->plan.from, op->plan.to) ? 2 : 1;
	const uint64_t span = world.script->timeout * SIM_S / questions;
	bool unheard = false;

	for (const struct op *other = ops; other < ops + op_count; other++) {
		const uint64_t since = other->ends[0].tried_at;

		unheard |= since && is_behind(op, 0, other) &&
			   (other->taken ? other->taken : world.now) >= since + span;
	}
	return unheard;
}

/*
 * Is it with the core, or may it be? The application is told at once that a message with FI_INJECT has ended, and that others
 * have as FI_P2P_PEER_TIMEOUT is over. The core has them until their process goes on.
 */
static bool is_with_core(const struct op *op)
{
	const struct op_end *at = &op->ends[0];

	return at->posted && (!at->done || at->err || (op->plan.inject && !op->taken));
}

/* How much of the core's queue that takes: an announced message is a marker and its announcement there */
static unsigned int core_share(const struct op_plan *plan)
{
	return plan->kind == OP_MESSAGE && plan->from_dev && plan->len > conf.eager_size ? 2
											 : 1;
}

/*
 * The core takes so many operations of an endpoint. Those of an application for processes that rest may be all of them, as
 * they may be without us.
 */
static bool is_crowded(unsigned int node, unsigned int e)
{
	const struct model *model = world.script->model;
	unsigned int resting = 0;

	for (const struct op *op = ops; op < ops + op_count; op++) {
		if (op->plan.from == node && op->plan.from_ep == e && is_with_core(op) &&
		    nodes[op->plan.to].state != NODE_RUNS)
			resting += core_share(&op->plan);
	}
	return resting >= (model->posts ? model->posts : model->queue);
}

/*
 * Then neither a greeting nor the answer to one goes, and FI_P2P_PEER_TIMEOUT ends what waits for that (docs/limits.md).
 */
void check_crowds(void)
{
	for (unsigned int i = 0; world.script->timeout && i < SIM_NODES * SIM_EPS; i++) {
		if (is_crowded(i / SIM_EPS, i % SIM_EPS))
			check_reason_ep(i / SIM_EPS, i % SIM_EPS, check_silence);
	}
}

/* Does it wait behind others that wait for a process which rests? */
static bool is_behind_resting(const struct op *op)
{
	bool behind = false;

	for (unsigned int end = 0; end < 2; end++)
		behind |= is_crowded(op_node(op, end), op_ep(op, end)) ||
			  (op_end_exists(op, end) && op_end_hindered(op, end));
	return behind;
}

/* Does an application sleep on a counter for what is held up so? It reads of no other end until then */
static bool is_asleep_for_held(unsigned int node)
{
	const struct op *awaited = nodes[node].awaited;

	return awaited &&
	       (nodes[op_node(awaited, op_node(awaited, 0) == node)].state != NODE_RUNS ||
		is_behind_resting(awaited) || is_stalled(awaited));
}

/* Then its time begins anew */
static bool is_held(const struct op *op)
{
	return is_behind_resting(op) || is_stalled(op) || is_asleep_for_held(op->plan.from) ||
	       is_asleep_for_held(op->plan.to);
}

/*
 * A message, or an operation on memory, between two that have not rested for so long, and begun at both ends before. Where
 * there is no room for it, the call says so for as long.
 */
static bool is_overdue(const struct op *op)
{
	const struct op_plan *plan = &op->plan;

	if (plan->untagged || plan->look || plan->cancel || plan->trigger ||
	    plan->recv_trigger || plan->stream || plan->fence || op->spare ||
	    check_may_fail(op) || is_short_of_slots(op) || is_without_receive(op) ||
	    world.now < op->held_at + CHECK_PATIENCE)
		return false;
	for (unsigned int end = 0; end < 2; end++) {
		const struct node *node = &nodes[op_node(op, end)];

		if (node->state != NODE_RUNS || node->plain || node->hook ||
		    world.now < node->until + CHECK_PATIENCE)
			return false;
		if (op_end_exists(op, end) &&
		    (!op->ends[end].tried_at ||
		     world.now < op->ends[end].tried_at + CHECK_PATIENCE))
			return false;
	}
	return !op_ended(op);
}

/* And for so many turns of both? A process that sleeps has none while it waits */
static bool is_stuck(struct op *op)
{
	const bool overdue = is_overdue(op);
	bool stuck = overdue;

	for (unsigned int end = 0; end < 2; end++) {
		const struct node *node = &nodes[op_node(op, end)];

		if (!overdue)
			op->turns[end] = node->turns;
		stuck &= node->asleep || node->turns - op->turns[end] >= CHECK_TURNS;
	}
	return stuck;
}

/* Nobody waits for a third one that computes, or is stopped */
void check_unhindered(void)
{
	for (size_t i = 0; i < op_count; i++) {
		if (!op_ended(&ops[i]) && is_held(&ops[i]))
			ops[i].held_at = world.now;
		if (!is_stuck(&ops[i]))
			continue;
		tell_all_requests();
		world_fail("operation %u of n%u with n%u waits, while others rest",
			   ops[i].number, ops[i].plan.from, ops[i].plan.to);
	}
}

static bool has_fault(enum fault_kind kind)
{
	bool has = false;

	for (size_t i = 0; i < world.script->fault_count; i++)
		has |= !world.script->faults[i].dropped && world.script->faults[i].kind == kind;
	return has;
}

/* Has the other end's endpoint ended, at whatever address, without an answer to this one? Nobody tells (op_end_lost()) */
static bool is_blind(const struct op *op, unsigned int end)
{
	const struct node_ep *ep = &nodes[op_node(op, end)].eps[op_ep(op, end)];

	return op->ends[!end].posted && ep->blind[op_node(op, !end)][op_ep(op, !end)];
}

/* Does something of the node's wait for ever? */
static bool waits_for_ever(unsigned int node)
{
	const struct core_kept any = {.any = true};

	for (size_t i = 0; i < 2 * op_count; i++) {
		const struct op *op = &ops[i / 2];
		const unsigned int end = i % 2;

		if (op_node(op, end) != node)
			continue;
		if (op_end_lost(op, end) || is_blind(op, end) ||
		    ((op->ends[end].posted || op->ends[end].looking) && !op->ends[end].done &&
		     op_end_exists(op, end) && op_end_lives(op, end) && op_end_over(op, end)))
			return true;
		/* its end may have been told as the peer was lost, and so may that of the receive of what the peer keeps */
		if (op_piece_kept(op) || core_keeps(node, 0, op_node(op, !end), &any) ||
		    core_keeps(node, nodes[node].eps[op_ep(op, end)].port, op_node(op, !end),
			       &any))
			return true;
		/* a silent core keeps what it has for a process, or an endpoint, that is gone: of what it reads here, too */
		if (world.script->model->silent && !op_end_lives(op, !end) &&
		    (op->ends[end].posted || !op_end_exists(op, end)))
			return true;
	}
	return false;
}

/* Slots that were lent to a peer, or to any (NULL), which was silent for too long and is not known again (rndv_keep()) */
static unsigned int kept_for(const struct xfer *xfer, const struct xfer_peer *peer)
{
	const struct xfer_req *req;
	unsigned int kept = 0;

	for (size_t i = 0; i < XFER_CHAINS; i++) {
		LIST_FOREACH(req, &xfer->sending[i], transfer.chain) {
			kept += req->transfer.send.kept && (!peer || req->peer == peer) &&
				!req->peer->open;
		}
	}
	return kept;
}

/* QUIRK_SERIAL counts as one for ever, and so does the thread of automatic progress */
static unsigned int busy_of(const struct xfer *xfer)
{
	return xfer->busy - xfer->serial - (xfer->wait.mover != NULL) - kept_for(xfer, NULL);
}

static unsigned int open_of(const struct xfer *xfer)
{
	return xfer->open - kept_for(xfer, NULL);
}

bool check_is_left(unsigned int node)
{
	bool left = false;

	for (unsigned int d = 0; d < SIM_DOMAINS; d++) {
		const struct xfer *xfer = xfer_of(node, d);

		left |= xfer && (busy_of(xfer) || open_of(xfer) || xfer->looks);
	}
	return left && !waits_for_ever(node);
}

static void check_domain_left(unsigned int node, struct xfer *xfer)
{
	const unsigned int kept = kept_for(xfer, NULL);
	struct xfer_peer *peer, *next;
	struct xfer_ep *ep;

	if (busy_of(xfer) || open_of(xfer) || xfer->looks) {
		tell_requests(node, xfer);
		world_fail("n%u: at the end %u requests, %u ids and %u looks are left", node,
			   busy_of(xfer), open_of(xfer), xfer->looks);
	}
	for (size_t i = 0; i < BOARD_NOTES; i++) {
		if (xfer->notes.board.ids[i])
			world_fail("n%u: at the end a note is left on its board", node);
	}
	LIST_FOREACH(ep, &xfer->eps, entry) {
		HASH_ITER(hh, ep->peers, peer, next) {
			if (kept && kept_for(xfer, peer))
				continue;
			if (peer->users || peer->sends || peer->slots[0] || peer->slots[1] ||
			    peer->spares[0] || peer->spares[1] ||
			    (peer->lanes && peer->lanes->held))
				world_fail(
					"n%u: at the end peer %zu has %u users, %u sends, %u and %u slots, %u receives of lanes",
					node, (size_t) peer->addr, peer->users, peer->sends,
					peer->slots[0], peer->slots[1],
					peer->lanes ? peer->lanes->held : 0);
		}
	}
}

/* Slots, pins and records come back, and what kernels have put in rings was taken out */
void check_nothing_left(unsigned int node)
{
	if (waits_for_ever(node))
		return;
	for (unsigned int d = 0; d < SIM_DOMAINS; d++) {
		if (xfer_of(node, d))
			check_domain_left(node, xfer_of(node, d));
	}
	for (unsigned int e = 0; e < world.script->eps; e++) {
		if (nodes[node].eps[e].open && kernels_have(node, SIM_DOMAIN_OF(e)) &&
		    kernels_ring_left(&nodes[node].eps[e]))
			world_fail("n%u: at the end %u operations are left in rings", node,
				   (unsigned int) kernels_ring_left(&nodes[node].eps[e]));
	}
}

/* Of the tokens that a peer has been given, those are remembered that were good until it was lost last */
static bool has_lost_twice(const struct xfer *xfer)
{
	struct xfer_peer *peer, *next;
	const struct xfer_ep *ep;
	bool twice = false;

	LIST_FOREACH(ep, &xfer->eps, entry) {
		HASH_ITER(hh, ep->peers, peer, next)
			twice |= peer->epoch > 1;
	}
	return twice;
}

/*
 * A message that no honest peer sends was not sent. But who had another one's address hears what is for that one, and a
 * greeting may be lost. Or it comes by the connection that has broken, behind what comes by the next one.
 */
void check_nothing_wrong(unsigned int node)
{
	/* a peer that was removed, and has failed since, is forgotten, and may not have heard so */
	bool lost = has_fault(FAULT_LOSE) ||
		    (check_fails(node) && (has_fault(FAULT_FORGET) || has_fault(FAULT_RESET)));

	/* what is not said for lack of memory is lost, too */
	lost |= world.liar != SIM_NODES || has_fault(FAULT_MEMORY);
	for (unsigned int e = 0; e < SIM_EPS; e++)
		lost |= nodes[node].eps[e].life;
	for (unsigned int d = 0; d < SIM_DOMAINS; d++) {
		const struct xfer *xfer = xfer_of(node, d);

		if (xfer && xfer->wrong && !lost && !has_lost_twice(xfer))
			world_fail("n%u: %zu messages of honest peers were wrong: %s", node,
				   (size_t) xfer->wrong, xfer->unread ? xfer->unread : "");
	}
}

/* What was opened in the core, in the GPU's driver and of the system is closed */
void check_closed(unsigned int node)
{
	if (core_left(node))
		world_fail("n%u: %s is left when all is closed", node, core_left(node));
	if (gpu_opened(node))
		world_fail("n%u: device memory of %u allocations is left open", node,
			   gpu_opened(node));
	if (gate_open_count(node))
		world_fail("n%u: %u descriptors are left open", node, gate_open_count(node));
	if (gate_mapped(node))
		world_fail("n%u: %u shared pages are left mapped", node, gate_mapped(node));
}
