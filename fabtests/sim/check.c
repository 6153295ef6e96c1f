/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The rules: each is a function, and a run that breaks one fails. See sim.h. */
#include "sim.h"

#include "base/base.h"
#include "fid/domain.h"
#include "xfer/peer.h"
#include "xfer/req.h"
#include "xfer/req_state.h"

/* Why operations between two nodes may fail, or NULL */
static const char *reasons[SIM_NODES][SIM_NODES];

/* From this operation on nothing is a reason any more */
static size_t excused = SIZE_MAX;

void check_begin(void)
{
	memset(reasons, 0, sizeof reasons);
}

void check_no_excuse(void)
{
	excused = op_count;
}

void check_reason(unsigned int a, unsigned int b, const char *why)
{
	for (unsigned int i = 0; i < SIM_NODES; i++) {
		if (b == SIM_NODES || i == b)
			reasons[a][i] = reasons[i][a] = why;
	}
}

bool check_may_fail(const struct op *op)
{
	return op->number < excused && reasons[op->plan.from][op->plan.to];
}

bool check_fails(unsigned int node)
{
	for (unsigned int i = 0; i < SIM_NODES; i++) {
		if (reasons[node][i])
			return true;
	}
	return false;
}

/* ---- bytes ---- */

static uint8_t byte_of(const struct op *op, size_t at)
{
	return (uint8_t) ((op->number + 1) * 151 + at * 11 + (at >> 8) * 3);
}

void check_fill(const struct op *op, uint8_t *buf)
{
	for (size_t i = 0; i < op->plan.len; i++)
		buf[i] = byte_of(op, i);
}

static size_t wrong_byte(const struct op *op, const uint8_t *buf)
{
	size_t at = 0;

	while (at < op->plan.len && buf[at] == byte_of(op, at))
		at++;
	return at;
}

/* Nothing around a buffer is written */
static void check_guards(const struct op *op, unsigned int end, size_t len)
{
	const uint8_t *buf = op->ends[end].buf;

	for (size_t i = 0; i < SIM_GUARD; i++) {
		if (buf[len + i] != SIM_GUARD_BYTE ||
		    (op->plan.kind == OP_MESSAGE && *(buf - 1 - i) != SIM_GUARD_BYTE))
			world_fail("operation %u: memory around its buffer is written",
				   op->number);
	}
}

static bool same_stream(const struct op *a, const struct op *b)
{
	return a->plan.kind == OP_MESSAGE && b->plan.kind == OP_MESSAGE &&
	       a->plan.from == b->plan.from && a->plan.to == b->plan.to &&
	       a->plan.tag == b->plan.tag;
}

/*
 * A receive gets every byte of a message of its stream that nobody has got yet: its own, unless there is a reason why
 * one before it was lost.
 */
void check_arrived(struct op *op, size_t len)
{
	for (size_t i = 0; i < op_count; i++) {
		struct op *sent = &ops[i];

		if (!same_stream(sent, op) || sent->spare || sent->taken ||
		    sent->plan.len != len || (sent != op && !check_may_fail(op)) ||
		    wrong_byte(sent, op->ends[1].buf) < len)
			continue;
		sent->taken = true;
		check_guards(op, 1, op->room);
		return;
	}
	world_fail(
		"receive %u: %zu bytes, which are not those of its message: byte %zu is wrong",
		op->number, len, op->plan.len == len ? wrong_byte(op, op->ends[1].buf) : 0);
}

/* What was read, or written, is right */
static void check_rma(const struct op *op)
{
	const unsigned int at = op->plan.kind == OP_READ ? 0 : 1;

	if (wrong_byte(op, op->ends[at].buf) < op->plan.len)
		world_fail("operation %u: byte %zu is wrong at n%u", op->number,
			   wrong_byte(op, op->ends[at].buf), at ? op->plan.to : op->plan.from);
	check_guards(op, at, op->plan.len);
}

/* No operation fails, unless a reason of docs/reliability.md was there */
void check_ended(const struct op *op, unsigned int end)
{
	const struct op_end *at = &op->ends[end];

	if (at->err && !check_may_fail(op) && !at->cancelled)
		world_fail("%s %u fails, and nothing gave reason: %s",
			   end ? "receive" : "operation", op->number, fi_strerror(at->err));
	if (!at->err && !end && op->plan.kind != OP_MESSAGE)
		check_rma(op);
}

/* What the provider still has under way, for who looks for the cause */
static void tell_requests(unsigned int node)
{
	struct xfer_peer *peer, *next;
	struct xfer_ctx *ctx;
	struct xfer_ep *ep;

	if (nodes[node].state == NODE_DEAD || nodes[node].plain)
		return;
	LIST_FOREACH(ep, &domain_of(&nodes[node].domain->fid)->xfer.eps, entry) {
		LIST_FOREACH(ctx, &ep->live, live) {
			const struct xfer_req *req = (const struct xfer_req *) ctx;

			if (xfer_ctx_is_req(ctx))
				world_tell("n%u: %s of %zu with %zu is %s, id %llx", node,
					   req->recv ? "receive" : "send", req->len,
					   (size_t) req->addr, xfer_state_name(req->state),
					   (unsigned long long) (req->transfer.id & 0xffffff));
		}
		HASH_ITER(hh, ep->peers, peer, next)
			world_tell("n%u: peer %zu is in state %d, lost %d, %u users, %u sends",
				   node, (size_t) peer->addr, peer->state, peer->lost,
				   peer->users, peer->sends);
	}
}

/* Everything ends, in a bounded time */
void check_all_ended(const char *when)
{
	for (size_t i = 0; i < op_count; i++) {
		for (unsigned int end = 0; end < 2; end++) {
			if (op_end_over(&ops[i], end))
				continue;
			for (unsigned int node = 0; node < world.script->nodes; node++)
				tell_requests(node);
			world_fail("%s: %s %u of n%u with n%u has not ended%s", when,
				   end ? "receive" : "operation", ops[i].number,
				   end ? ops[i].plan.to : ops[i].plan.from,
				   end ? ops[i].plan.from : ops[i].plan.to,
				   ops[i].ends[end].posted ? "" : ", nor been posted");
		}
	}
}

/* Does something of the node's wait for ever? */
static bool waits_for_ever(unsigned int node)
{
	for (size_t i = 0; i < op_count; i++) {
		const struct op *op = &ops[i];

		if ((op->plan.from == node && op_end_lost(op, 0)) ||
		    (op->plan.to == node && op_end_lost(op, 1)))
			return true;
	}
	return false;
}

/* Slots, pins and records come back */
void check_nothing_left(unsigned int node)
{
	struct xfer *xfer = &domain_of(&nodes[node].domain->fid)->xfer;
	struct xfer_peer *peer, *next;
	struct xfer_ep *ep;

	if (waits_for_ever(node))
		return;
	if (xfer_busy(xfer) || xfer->open || xfer->looks)
		tell_requests(node);
	if (xfer_busy(xfer) || xfer->open || xfer->looks)
		world_fail("n%u: at the end %u requests, %u ids and %u looks are left", node,
			   xfer->busy, xfer->open, xfer->looks);
	LIST_FOREACH(ep, &xfer->eps, entry) {
		HASH_ITER(hh, ep->peers, peer, next) {
			if (peer->users || peer->sends || peer->slots[0] || peer->slots[1] ||
			    peer->spares[0] || peer->spares[1])
				world_fail(
					"n%u: at the end peer %zu has %u users, %u sends, %u and %u slots",
					node, (size_t) peer->addr, peer->users, peer->sends,
					peer->slots[0], peer->slots[1]);
		}
	}
}

/*
 * A message that no honest peer sends was not sent. But who had another one's address hears what is for that one, and a
 * greeting may be lost.
 */
void check_nothing_wrong(unsigned int node)
{
	const struct xfer *xfer = &domain_of(&nodes[node].domain->fid)->xfer;
	bool lost = false;

	for (size_t i = 0; i < world.script->fault_count; i++)
		lost |= !world.script->faults[i].dropped &&
			world.script->faults[i].kind == FAULT_LOSE;
	if (xfer->wrong && !nodes[node].life && !lost)
		world_fail("n%u: %zu messages of honest peers were wrong: %s", node,
			   (size_t) xfer->wrong, xfer->unread ? xfer->unread : "");
}

/* What was opened in the core is closed */
void check_closed(unsigned int node)
{
	if (core_left(node))
		world_fail("n%u: %s is left when all is closed", node, core_left(node));
}
