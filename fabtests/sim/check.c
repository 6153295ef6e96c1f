/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The rules: each is a function, and a run that breaks one fails. See sim.h. */
#include "kernel.h"

#include "base/base.h"
#include "xfer/wire.h"

/* Why operations between two endpoints may fail, or NULL */
#define CHECK_EPS (SIM_NODES * SIM_EPS)
static const char *reasons[CHECK_EPS][CHECK_EPS];

/* From this operation on nothing is a reason any more */
static size_t excused = SIZE_MAX;

const char check_silence[] = "FI_P2P_PEER_TIMEOUT";

/* Since when a node has the successor of a process that has ended; UINT64_MAX: there is none yet; 0: none has ended */
static uint64_t succeeded_at[SIM_NODES];

void check_begin(void)
{
	memset(reasons, 0, sizeof reasons);
	memset(succeeded_at, 0, sizeof succeeded_at);
}

/* Silence is the least of reasons */
static void reason_add(unsigned int a, unsigned int b, const char *why)
{
	if (reasons[a][b] && why == check_silence)
		return;
	reasons[a][b] = reasons[b][a] = why;
}

void check_no_excuse(void)
{
	excused = op_count;
}

void check_reason(unsigned int a, unsigned int b, const char *why)
{
	for (unsigned int i = 0; i < CHECK_EPS; i++) {
		for (unsigned int e = 0; e < SIM_EPS && (b == SIM_NODES || i / SIM_EPS == b);
		     e++)
			reason_add(a * SIM_EPS + e, i, why);
	}
}

void check_reason_ep(unsigned int node, unsigned int e, const char *why)
{
	for (unsigned int i = 0; i < CHECK_EPS; i++)
		reason_add(node * SIM_EPS + e, i, why);
}

void check_death(unsigned int node)
{
	succeeded_at[node] = UINT64_MAX;
}

void check_successor(unsigned int node)
{
	succeeded_at[node] = world.now;
}

static bool any_death(void)
{
	bool any = false;

	for (unsigned int i = 0; i < SIM_NODES; i++)
		any |= succeeded_at[i] != 0;
	return any;
}

static bool reason_at(unsigned int at)
{
	for (unsigned int i = 0; i < CHECK_EPS; i++) {
		if (reasons[at][i])
			return true;
	}
	return false;
}

/* Is there a reason but the end of a process? A receive without a tag may be given any peer's message */
static bool has_reason(const struct op *op)
{
	const unsigned int from = op->plan.from * SIM_EPS + op->plan.from_ep;
	const unsigned int to = op->plan.to * SIM_EPS + op->plan.to_ep;

	return reasons[from][to] || (op->plan.untagged && reason_at(to));
}

static bool has_death(const struct op *op)
{
	return succeeded_at[op->plan.from] || succeeded_at[op->plan.to] ||
	       (op->plan.untagged && any_death());
}

bool check_may_fail(const struct op *op)
{
	if (op_end_lost(op, 0) || op_end_lost(op, 1))
		return true;
	return op->number < excused && (has_reason(op) || has_death(op));
}

/* Did both ends begin after the last end of a process of theirs, when they knew each other? */
static bool is_of_successors(const struct op *op)
{
	for (unsigned int end = 0; end < 2; end++) {
		const struct op_end *at = &op->ends[end];

		if (op_end_exists(op, end) &&
		    (!at->met || at->tried_at <= succeeded_at[op->plan.from] ||
		     at->tried_at <= succeeded_at[op->plan.to]))
			return false;
	}
	/* it may name memory of the process before */
	return op->plan.kind == OP_MESSAGE || op->shown == nodes[op->plan.to].life;
}

/*
 * The end of a process is no reason for what its successor does, or is asked for. But a receive may meet a message of the
 * process that has ended.
 */
static bool may_end_with_error(const struct op *op, unsigned int end)
{
	if (!check_may_fail(op))
		return false;
	return end || op->plan.untagged || op_end_lost(op, 0) || op_end_lost(op, 1) ||
	       has_reason(op) || !is_of_successors(op);
}

bool check_fails(unsigned int node)
{
	for (unsigned int e = 0; e < SIM_EPS; e++) {
		if (reason_at(node * SIM_EPS + e))
			return true;
	}
	return any_death();
}

bool check_breaks(unsigned int node)
{
	for (unsigned int i = 0; i < SIM_EPS * CHECK_EPS; i++) {
		const char *why = reasons[node * SIM_EPS + i / CHECK_EPS][i % CHECK_EPS];

		if (why && why != check_silence)
			return true;
	}
	return any_death();
}

/* ---- lies ---- */

/* Is it with a process that lies? Then it may end in any way, with any bytes, if they are in its buffer */
static bool is_lied(const struct op *op)
{
	return op->plan.from == world.liar || op->plan.to == world.liar;
}

/* Such a process may send what a receive for any sender gets */
static bool may_be_lied(const struct op *op)
{
	return is_lied(op) || (op->plan.untagged && world.liar != SIM_NODES);
}

/* A process that lies gets nothing of what lies around others' buffers */
void check_granted(unsigned int node, const uint8_t *bytes, size_t len)
{
	size_t run = 0;

	for (size_t i = 0; node == world.liar && i < len; i++) {
		run = bytes[i] == SIM_GUARD_BYTE ? run + 1 : 0;
		if (run == SIM_GUARD / 2)
			world_fail("n%u: it gets what was not granted to it", node);
	}
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

bool check_same_stream(const struct op *a, const struct op *b)
{
	if (a->plan.kind != OP_MESSAGE || b->plan.kind != OP_MESSAGE ||
	    a->plan.to != b->plan.to || a->plan.to_ep != b->plan.to_ep ||
	    a->plan.untagged != b->plan.untagged)
		return false;
	return a->plan.untagged ||
	       (a->plan.from == b->plan.from && a->plan.from_ep == b->plan.from_ep &&
		a->plan.tag == b->plan.tag);
}

/* Is it given to one sender's messages only? */
static bool is_directed(const struct op *op)
{
	return op->plan.directed && world.script->directs;
}

/* May messages of its stream meet other receives than their own? */
static bool may_shift(const struct op *op)
{
	bool shifts = check_may_fail(op) || op->plan.untagged;

	for (size_t i = 0; i < op_count && !shifts; i++)
		shifts = check_same_stream(&ops[i], op) &&
			 (ops[i].plan.cancel || ops[i].spare || ops[i].plan.trigger ||
			  ops[i].plan.recv_trigger);
	return shifts;
}

/* May a receive get this message, or, if nobody had before @since, have got it? It may not be posted yet. */
static bool might_get(const struct op *op, const struct op *sent, uint64_t since)
{
	if (!check_same_stream(sent, op) || sent->spare || (sent->taken && sent->taken < since))
		return false;
	if (sent != op && !may_shift(op))
		return false;
	return !is_directed(op) ||
	       (sent->plan.from == op->plan.from && sent->plan.from_ep == op->plan.from_ep);
}

bool check_may_get(const struct op *op, const struct op *sent)
{
	return might_get(op, sent, UINT64_MAX);
}

static bool might_be(const struct op *op, const struct op *sent, uint64_t since)
{
	return sent->ends[0].posted && sent->ends[0].turn != UINT64_MAX &&
	       might_get(op, sent, since);
}

bool check_may_be(const struct op *op, const struct op *sent)
{
	return might_be(op, sent, UINT64_MAX);
}

uint64_t check_data(const struct op *op)
{
	return (op->number * 2654435761u) & 0xffffffff;
}

/* A completion says what it has to of the message, and of nothing else */
static void check_fields(const struct op *op, const struct op *sent,
			 const struct fi_cq_err_entry *entry, fi_addr_t src, bool looks)
{
	const uint64_t data = entry->flags & FI_REMOTE_CQ_DATA;
	const struct node *to = &nodes[op->plan.to];
	fi_addr_t addr;

	if (!(entry->flags & FI_RECV))
		world_fail("receive %u: flags %llx do not say so", op->number,
			   (unsigned long long) entry->flags);
	/* some peeks do not say so */
	if ((!data != !sent->plan.data && (data || !looks || !world.script->model->unmarked)) ||
	    (data ? entry->data != check_data(sent) : entry->data && !looks && !to->plain))
		world_fail("receive %u: remote cq data %llx, and flags %llx", op->number,
			   (unsigned long long) entry->data, (unsigned long long) entry->flags);
	if (!sent->plan.untagged &&
	    (!(entry->flags & FI_TAGGED) || entry->tag != op_tag(&sent->plan)))
		world_fail("receive %u: tag %llx", op->number, (unsigned long long) entry->tag);
	/* its endpoint may have been closed, and another one have its place */
	addr = node_addr(op->plan.to, op->plan.to_ep, sent->plan.from, sent->plan.from_ep);
	if (!op_end_lives(sent, 0) || !entry->len || !world.script->sources || to->plain ||
	    to->hook || src == FI_ADDR_NOTAVAIL || addr == FI_ADDR_NOTAVAIL)
		return;
	if (src != addr)
		world_fail("receive %u: its source is %zu, not %zu", op->number, (size_t) src,
			   (size_t) addr);
}

/* Is there another message that nobody can tell from this one? Of neither is known which receive has got it */
static bool is_alike(const struct op *sent)
{
	bool alike = false;

	if (sent->plan.len || sent->plan.data)
		return false;
	for (size_t i = 0; i < op_count && !alike; i++)
		alike = &ops[i] != sent && check_same_stream(&ops[i], sent) && !ops[i].spare &&
			!ops[i].plan.len && !ops[i].plan.data;
	return alike;
}

/* Has it thrown a message away, and its peek could not tell which one? */
static bool has_discarded_any(const struct op *op)
{
	return op->plan.look >= LOOK_DISCARD && op->ends[1].done && !op->found;
}

/*
 * Messages of one sender keep their order: those before this one that nobody has got are on their way to receives that
 * were posted before.
 */
static void check_order(const struct op *op, const struct op *sent)
{
	size_t earlier = 0, pending = 0;

	if (is_alike(sent))
		return;
	for (size_t i = 0; i < op_count; i++) {
		const struct op *other = &ops[i];

		if (!check_same_stream(other, sent))
			continue;
		if (other->plan.cancel || other->spare || check_may_fail(other) ||
		    has_discarded_any(other))
			return;
		if (other->plan.from == sent->plan.from &&
		    other->plan.from_ep == sent->plan.from_ep && other->ends[0].posted &&
		    other->ends[0].turn < sent->ends[0].turn && !other->taken &&
		    !is_alike(other))
			earlier++;
		if (other->ends[1].posted && !other->ends[1].done &&
		    other->ends[1].turn < op->ends[1].turn)
			pending++;
	}
	if (earlier > pending)
		world_fail("message %u comes to n%u before %zu that were sent before it",
			   sent->number, op->plan.to, earlier);
}

/* What was posted before an operation with FI_FENCE has ended before it begins */
static void check_fence(const struct op *fenced)
{
	if (!fenced->plan.fence || !world.script->fences || nodes[fenced->plan.from].plain ||
	    nodes[fenced->plan.from].hook || fenced->plan.inject || is_alike(fenced))
		return;
	for (size_t i = 0; i < op_count; i++) {
		const struct op *op = &ops[i];

		/* when one that waits for a counter is posted, nobody sees */
		if (op->plan.kind == OP_WRITE && op->ends[0].posted && !op->ends[0].err &&
		    !op->plan.trigger && op->ends[0].turn < fenced->ends[0].turn &&
		    op->plan.from == fenced->plan.from &&
		    op->plan.from_ep == fenced->plan.from_ep &&
		    op->plan.to == fenced->plan.to && op->plan.to_ep == fenced->plan.to_ep &&
		    !check_may_fail(op) && wrong_byte(op, op->ends[1].buf) < op->plan.len)
			world_fail("write %u is not there when fenced message %u is",
				   op->number, fenced->number);
	}
}

/*
 * A receive gets every byte of a message of its stream that nobody has got yet: its own, unless there is a reason why
 * it may be another one.
 */
void check_arrived(struct op *op, const struct fi_cq_err_entry *entry, fi_addr_t src)
{
	struct op *got = NULL;

	for (size_t i = 0; i < op_count; i++) {
		struct op *sent = &ops[i];

		if (!check_may_be(op, sent) || sent->plan.len != entry->len ||
		    wrong_byte(sent, op->ends[1].buf) < entry->len)
			continue;
		/* those of no bytes are alike */
		if (!entry->len && sent->plan.data &&
		    (!(entry->flags & FI_REMOTE_CQ_DATA) || entry->data != check_data(sent)))
			continue;
		if (!entry->len && !sent->plan.data && entry->flags & FI_REMOTE_CQ_DATA)
			continue;
		if (!got || sent->ends[0].turn < got->ends[0].turn)
			got = sent;
	}
	check_guards(op, 1, op->room);
	if (may_be_lied(op) && (!got || is_lied(got)) && entry->len <= op->room)
		return;
	if (!got)
		world_fail(
			"receive %u: %zu bytes, which are not those of its message: byte %zu is wrong",
			op->number, entry->len,
			op->plan.len == entry->len ? wrong_byte(op, op->ends[1].buf) : 0);
	got->taken = world.now;
	check_order(op, got);
	check_fields(op, got, entry, src, false);
	check_fence(got);
}

struct op *check_looked(const struct op *op, const struct fi_cq_err_entry *entry, fi_addr_t src)
{
	const bool blind = world.script->model->loses && op->plan.look == LOOK_DISCARD;

	if (may_be_lied(op))
		return NULL;
	for (size_t i = 0; i < op_count; i++) {
		/* another receive may have got it before this is read */
		if (!might_be(op, &ops[i], op->ends[1].look_at) ||
		    (ops[i].plan.len != entry->len && (entry->len || !blind)))
			continue;
		/* which one it is cannot be told there */
		if (may_shift(op))
			return NULL;
		check_fields(op, &ops[i], entry, src, true);
		return &ops[i];
	}
	/* of one that will not come nobody knows more; and one that has failed at its sender is announced as a long one */
	if (check_may_fail(op) && (!entry->len || entry->len == WIRE_PLAIN_MAX + 1))
		return NULL;
	world_fail("peek for %u: a message of %zu bytes is found, and there is none",
		   op->number, entry->len);
}

/* A message lies within its buffer, whole, where no other one does; the last one gives the buffer back */
struct op *check_multi(unsigned int node, unsigned int e, struct node_multi *multi,
		       const struct fi_cq_err_entry *entry)
{
	uint8_t *at = entry->buf;
	struct op *sent = NULL;

	if (multi->closed)
		return NULL;
	if (!multi->posted)
		world_fail("n%u: a buffer is used that was given back", node);
	if (entry->flags & FI_MULTI_RECV)
		multi->posted = false;
	if (entry->err && !check_fails(node))
		world_fail("n%u: a buffer for many messages fails, and nothing gave reason: %s",
			   node, fi_strerror(entry->err));
	/* it is given back, or a message is lost; no message is told of */
	if (entry->err || !(entry->flags & FI_RECV))
		return NULL;
	for (size_t i = 0; i < entry->len; i++) {
		const ssize_t place = at + i - multi->buf;

		if (place < 0 || place >= SIM_MULTI || multi->used[place])
			world_fail("n%u: %zu bytes at %zd of a buffer are not its, or in use",
				   node, entry->len, (ssize_t) (at - multi->buf));
		multi->used[place] = true;
	}
	for (size_t i = 0; i < op_count && !sent; i++) {
		struct op *op = &ops[i];

		if (op_is_multi(op) && op->plan.to == node && op->plan.to_ep == e &&
		    !op->spare && !op->taken && op->ends[0].posted &&
		    op->plan.len == entry->len && wrong_byte(op, at) == entry->len &&
		    (entry->len || !op->plan.data == !(entry->flags & FI_REMOTE_CQ_DATA)) &&
		    (!op->plan.data || entry->data == check_data(op)))
			sent = op;
	}
	if (world.liar != SIM_NODES && (!sent || is_lied(sent)))
		return NULL;
	if (!sent)
		world_fail("n%u: %zu bytes in a buffer for many, which are nobody's", node,
			   entry->len);
	sent->taken = world.now;
	check_fields(sent, sent, entry, FI_ADDR_NOTAVAIL, false);
	check_fence(sent);
	return sent;
}

/* ---- remote memory ---- */

void check_compare(const struct op *op, uint8_t *buf)
{
	check_fill(op, buf);
	/* every other element differs */
	for (size_t i = 8; i < op->plan.len; i += 16)
		buf[i] ^= 0x80;
}

static uint64_t word_of(const struct op *op, size_t i)
{
	uint64_t word;
	uint8_t bytes[8];

	for (size_t at = 0; at < 8; at++)
		bytes[at] = byte_of(op, 8 * i + at);
	memcpy(&word, bytes, 8);
	return word;
}

/* An atomic operation is done once, or by each launch of its graph, and its result is what was there before */
static void check_atomic(const struct op *op)
{
	for (size_t i = 0; i < op->plan.len / 8; i++) {
		const uint64_t before = word_of(op, i);
		const uint64_t swapped = i % 2 ? before : ~before;
		const uint64_t sum = before * (1 + P2P_MAX(op->counted, 1));
		const uint64_t after = op->plan.kind == OP_SWAP ? swapped : sum;

		if (((const uint64_t *) op->ends[1].buf)[i] != after)
			world_fail("operation %u: element %zu at n%u is wrong", op->number, i,
				   op->plan.to);
		if (op->aside[0] && ((const uint64_t *) op->aside[0])[i] != before)
			world_fail("operation %u: element %zu of its result is wrong",
				   op->number, i);
	}
}

/*
 * Over TCP a put that is said to be sent is lost with the endpoint that it is for. The process may have another one at that address
 * by the time of the signal (docs/gpu.md).
 */
static bool is_lost_put(const struct op *op)
{
	const struct model *model = world.script->model;

	return op->plan.put && !model->nic && !model->reaches && !op_end_lives(op, 1);
}

/* What was read, or written, is right; and a put's bytes, when its signal is there */
void check_rma(const struct op *op)
{
	const unsigned int at = op->plan.kind == OP_READ ? 0 : 1;

	/* it had ended before its endpoint was closed, and then its buffer was given back */
	if (!op->ends[at].buf)
		return;
	/* with its process the device memory has ended */
	if (at && gpu_has(op->ends[1].buf) && op->shown != nodes[op->plan.to].life)
		return;
	if (at && op->plan.from == world.liar)
		return;
	if (is_lied(op)) {
		check_guards(op, at, op->plan.len);
		return;
	}
	if (op->plan.kind >= OP_ADD)
		check_atomic(op);
	else if (!is_lost_put(op) && wrong_byte(op, op->ends[at].buf) < op->plan.len)
		world_fail("operation %u: byte %zu is wrong at n%u", op->number,
			   wrong_byte(op, op->ends[at].buf), at ? op->plan.to : op->plan.from);
	check_guards(op, at, op->plan.len);
}

/* A put has the word that its signal sets, or adds. One of a liar's, or one to it, may have any */
void check_signal(const struct op *op, uint64_t value)
{
	if (*op->signal != value && !is_lied(op))
		world_fail("put %u: it is signalled by %llu", op->number,
			   (unsigned long long) *op->signal);
}

void check_places(void)
{
	for (size_t i = 0; i < op_count && world.liar != SIM_NODES; i++) {
		const struct op *op = &ops[i];

		if (op->plan.kind == OP_MESSAGE || is_lied(op) ||
		    op->shown != nodes[op->plan.to].life ||
		    (gpu_has(op->ends[1].buf) && nodes[op->plan.to].state == NODE_DEAD))
			continue;
		check_guards(op, 1, op->plan.len);
		if (op->plan.kind == OP_READ && wrong_byte(op, op->ends[1].buf) < op->plan.len)
			world_fail("operation %u: what it reads at n%u was written", op->number,
				   op->plan.to);
	}
}

/* ---- ends ---- */

static bool was_full(unsigned int node)
{
	bool full = false;

	for (size_t i = 0; i < world.script->fault_count; i++) {
		const struct fault_plan *fault = &world.script->faults[i];

		full |= !fault->dropped && fault->node == node &&
			(fault->kind == FAULT_FULL || fault->kind == FAULT_MEMORY);
	}
	return full;
}

/* Does the sender of a message with FI_DELIVERY_COMPLETE hear of its end before it is there? */
static void check_delivered(const struct op *op)
{
	const struct node *from = &nodes[op->plan.from], *to = &nodes[op->plan.to];
	/* else it may go whole, as its peer has not answered a greeting for FI_P2P_HELLO_TIMEOUT */
	const bool announced =
		op->plan.from_dev && op->plan.len > WIRE_PLAIN_MAX && op->ends[0].met;

	if (is_lied(op) || !op->plan.delivery || op->plan.inject || op->plan.untagged ||
	    op->plan.look || from->plain || from->hook || to->plain || to->hook ||
	    op->ends[0].err || may_shift(op) || op->taken)
		return;
	/* the core's word: what is copied in then is not there (docs/limits.md); and it may mean less */
	if ((!announced || world.script->fault_count) &&
	    (op->plan.to_dev || world.script->model->delivers != DELIVERS_RECEIVED))
		return;
	if (!op->ends[1].buf || wrong_byte(op, op->ends[1].buf) < op->plan.len)
		world_fail("message %u is said to be delivered, and byte %zu is not there",
			   op->number, op->ends[1].buf ? wrong_byte(op, op->ends[1].buf) : 0);
}

/* The application uses its buffer again, once it may */
static void use_again(const struct op *op)
{
	memset(op->ends[0].buf, 0x5c, op->plan.len);
}

/*
 * Where descriptors or memory were short an endpoint may have no side endpoint until it is closed. Then it is told so that asks for
 * remote memory (docs/limits.md). And an owner that was short of them does not answer a greeting, nor does one whose core
 * stops before that. Or both greetings, or their answers, were lost, and there is no third one. The answer is waited for as
 * long as FI_P2P_PEER_TIMEOUT says (docs/parameters.md).
 */
bool check_refuses(const struct op *op)
{
	const struct op_plan *plan = &op->plan;

	if (!world.script->model->stalls)
		return false;
	return was_full(plan->from) ||
	       (world.script->timeout && (was_full(plan->to) || check_unheard(op) ||
					  core_lost(plan->from, plan->to) > 1));
}

static bool is_refused(const struct op *op, unsigned int end)
{
	return op->plan.kind != OP_MESSAGE && op->ends[end].err == FI_EOPNOTSUPP &&
	       check_refuses(op);
}

/* No operation fails, unless a reason of docs/reliability.md was there */
void check_ended(struct op *op, unsigned int end)
{
	const struct op_end *at = &op->ends[end];

	if (at->err && !may_end_with_error(op, end) && !at->cancelled && !is_refused(op, end))
		world_fail("%s %u fails, and nothing gave reason: %s",
			   end ? "receive" : "operation", op->number, fi_strerror(at->err));
	if (!at->err && !end && op->plan.kind != OP_MESSAGE)
		check_rma(op);
	if (!end && op->plan.kind == OP_MESSAGE)
		check_delivered(op);
	check_freeze(op, end);
}

static uint64_t sum_of(const struct op *op, unsigned int end)
{
	const size_t len = (end ? op->room : op->plan.len) + 2 * SIM_GUARD;
	const uint8_t *buf = op->ends[end].buf - SIM_GUARD;
	uint64_t sum = 0xcbf29ce484222325ULL, word;

	for (size_t i = 0; i + 8 <= len; i += 8) {
		memcpy(&word, buf + i, 8);
		sum = (sum ^ word) * 0x100000001b3ULL;
	}
	return sum;
}

void check_freeze(struct op *op, unsigned int end)
{
	struct op_end *at = &op->ends[end];

	if (!end && op->plan.kind != OP_READ && at->buf)
		use_again(op);
	else if ((!end || op->plan.kind == OP_MESSAGE) && at->buf && !at->frozen) {
		at->frozen = true;
		at->sum = sum_of(op, end);
	}
}

/* What has ended, or was closed, is written no more */
void check_frozen_end(const struct op *op, unsigned int end)
{
	const struct op_end *at = &op->ends[end];

	if (at->frozen && at->buf && at->sum != sum_of(op, end))
		world_fail("%s %u: its buffer is written after its end",
			   end ? "receive" : "read", op->number);
}

void check_frozen(void)
{
	for (size_t i = 0; i < op_count; i++) {
		for (unsigned int end = 0; end < 2; end++)
			check_frozen_end(&ops[i], end);
	}
}

/* Counters count what has ended well, each once. Where something failed, not what nobody hears of */
void check_counted(unsigned int node, unsigned int e)
{
	static const char *const words[] = {"sends", "receives", "reads", "writes"};
	const struct node_ep *ep = &nodes[node].eps[e];

	for (size_t k = 0; k < SIM_COUNT(ep->cntrs); k++) {
		uint64_t value = ep->cntrs[k] ? fi_cntr_read(ep->cntrs[k]) : ep->counts[k];

		if (value < ep->counts[k] && !check_fails(node))
			world_fail("n%u: %llu %s have ended, and %llu are counted", node,
				   (unsigned long long) ep->counts[k], words[k],
				   (unsigned long long) value);
	}
}
