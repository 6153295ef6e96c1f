/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the applications do: operations, from the script to their completions. See sim.h. */
#include "exhaust.h"
#include "kernel.h"

struct op ops[SIM_OPS_ALL];
size_t op_count;

static uint64_t turns;

uint64_t op_next_turn(void)
{
	return ++turns;
}

unsigned int op_node(const struct op *op, unsigned int end)
{
	return end ? op->plan.to : op->plan.from;
}

unsigned int op_ep(const struct op *op, unsigned int end)
{
	return end ? op->plan.to_ep : op->plan.from_ep;
}

static struct node_ep *end_ep(const struct op *op, unsigned int end)
{
	return &nodes[op_node(op, end)].eps[op_ep(op, end)];
}

bool op_is_multi(const struct op *op)
{
	return world.script->multi && op->plan.kind == OP_MESSAGE && op->plan.untagged &&
	       !nodes[op->plan.to].plain && !op_is_ringed(op, 1);
}

/* Does the endpoint live that has this end? */
bool op_end_lives(const struct op *op, unsigned int end)
{
	const struct node_ep *ep = end_ep(op, end);

	return nodes[op_node(op, end)].state != NODE_DEAD && ep->open &&
	       ep->life == op->ends[end].life;
}

bool op_end_exists(const struct op *op, unsigned int end)
{
	return !(end ? op->plan.kind != OP_MESSAGE : op->spare);
}

/* ---- made ---- */

/* Both ends of one stream have room for its longest message, as an error may shift them */
static size_t op_longest(const struct op_plan *plan)
{
	size_t len = plan->len;

	for (size_t i = 0; plan >= world.script->ops && plan < world.script->ops + SIM_OPS &&
			   i < world.script->op_count;
	     i++) {
		const struct op_plan *other = &world.script->ops[i];

		if (other->dropped || other->kind != OP_MESSAGE || other->len <= len ||
		    other->to != plan->to || other->to_ep != plan->to_ep ||
		    other->untagged != plan->untagged)
			continue;
		if (plan->untagged ||
		    (other->from == plan->from && other->from_ep == plan->from_ep &&
		     other->tag == plan->tag))
			len = other->len;
	}
	return len;
}

unsigned int op_region(const struct op_plan *plan)
{
	return plan->to_dev + (plan->from == world.liar ? 2 : 0);
}

/* A place in what a node shows to its peers */
static uint8_t *op_place(const struct op_plan *plan)
{
	const unsigned int region = op_region(plan);
	size_t *place = &nodes[plan->to].shown_used[region];
	uint8_t *buf = nodes[plan->to].shown[region] + *place;

	if (*place + plan->len + SIM_GUARD > SIM_SHOWN)
		world_fail("n%u has too little memory to show", plan->to);
	memset(buf, region < 2 ? SIM_GUARD_BYTE : SIM_GUARD_BYTE_SHOWN, plan->len + SIM_GUARD);
	*place += (plan->len + SIM_GUARD + 7) & ~(size_t) 7;
	return buf;
}

/* What is read, or written: in the process that is there now */
static void op_show(struct op *op)
{
	op->shown = nodes[op->plan.to].life;
	op->ends[1].buf = op_place(&op->plan);
	if (op->plan.kind != OP_WRITE)
		check_fill(op, op->ends[1].buf);
	if (op->plan.put) {
		const struct op_plan word = {.from = op->plan.from,
					     .to = op->plan.to,
					     .to_dev = op->plan.to_dev,
					     .len = 8};

		op->signal = (uint64_t *) op_place(&word);
		*op->signal = 0;
	}
}

/* What is to be there then is something else */
static void op_aside(struct op *op)
{
	const struct op_plan *plan = &op->plan;

	if (plan->kind == OP_FETCH || plan->kind == OP_SWAP)
		op->aside[0] = node_buffer(plan->from, plan->from_dev, plan->len);
	if (plan->kind != OP_SWAP)
		return;
	for (size_t i = 0; i < plan->len; i++)
		op->ends[0].buf[i] ^= 0xff;
	op->aside[1] = node_buffer(plan->from, plan->from_dev, plan->len);
	check_compare(op, op->aside[1]);
}

/* An end has its buffer from when it is first to be posted */
void op_allocate(struct op *op, unsigned int end)
{
	const struct op_plan *plan = &op->plan;

	if (op->ends[end].buf || (end && op_is_multi(op)))
		return;
	if (end) {
		op->ends[1].buf = node_buffer(plan->to, plan->to_dev, op->room);
		return;
	}
	op->ends[0].buf = node_buffer(plan->from, plan->from_dev, plan->len);
	if (plan->kind != OP_READ)
		check_fill(op, op->ends[0].buf);
	op_aside(op);
}

/* Once it is the application's again that may give it back, or not. What peers read and write stays */
static void end_give_back(struct op *op, unsigned int end)
{
	struct op_end *at = &op->ends[end];

	if ((end && op->plan.kind != OP_MESSAGE) || !at->buf || !gpu_has(at->buf) ||
	    exhaust_on || !world_upto(3))
		return;
	check_frozen_end(op, end);
	node_buffer_free(at->buf);
	at->buf = NULL;
	for (size_t i = 0; !end && i < SIM_COUNT(op->aside); i++) {
		if (op->aside[i])
			node_buffer_free(op->aside[i]);
		op->aside[i] = NULL;
	}
}

struct op *op_add(const struct op_plan *plan)
{
	const struct model *model = world.script->model;
	struct op *op = &ops[op_count];

	if (op_count == SIM_COUNT(ops))
		world_fail("more than %zu operations", SIM_COUNT(ops));
	*op = (struct op){.plan = *plan, .number = (unsigned int) op_count};
	op_count++;
	for (unsigned int end = 0; end < 2; end++)
		op->ends[end].life = end_ep(op, end)->life;
	op_todo_add(op);
	op_ring_fit(op);
	if (plan->kind == OP_MESSAGE)
		op->room = op_longest(plan);
	else
		op_show(op);
	/* what the core loses is no business of ours. It may come in the place of another one */
	if ((op->plan.look >= LOOK_DISCARD && model->loses && op->room > model->eager) ||
	    (op->plan.look >= LOOK_CLAIM && model->segments && op->room > SIM_SEGMENT))
		op->plan.look = LOOK_PEEK;
	return op;
}

struct op *op_add_spare(const struct op *like)
{
	struct op_plan plan = like->plan;
	struct op *op;

	if (op_is_multi(like))
		return NULL;
	plan.look = plan.cancel = plan.trigger = plan.recv_trigger = plan.chained =
		plan.recv_stream = 0;
	plan.to_dev = false;
	op = op_add(&plan);
	op->spare = true;
	op->room = 600000;
	return op;
}

/* ---- posted ---- */

uint64_t op_tag(const struct op_plan *plan)
{
	const uint64_t from = plan->from * SIM_EPS + plan->from_ep;
	const uint64_t to = plan->to * SIM_EPS + plan->to_ep;

	return 1 + from + SIM_NODES * SIM_EPS * (to + SIM_NODES * SIM_EPS * plan->tag);
}

static fi_addr_t op_addr(const struct op *op, unsigned int end)
{
	return node_addr(op_node(op, end), op_ep(op, end), op_node(op, !end), op_ep(op, !end));
}

/* The buffer, in pieces of different lengths */
static size_t op_iov(const struct op *op, uint8_t *buf, size_t len, struct iovec *iov)
{
	const size_t pieces = op->plan.pieces ? op->plan.pieces : 1;

	for (size_t i = 0, at = 0; i < pieces; i++) {
		size_t part = i + 1 == pieces ? len - at : len * (i + 1) / (pieces * 2);

		iov[i] = (struct iovec){buf + at, part};
		at += part;
	}
	return pieces;
}

static ssize_t inject(const struct op *op, fi_addr_t addr)
{
	const struct op_plan *plan = &op->plan;
	struct fid_ep *ep = end_ep(op, 0)->ep;
	const uint8_t *buf = op->ends[0].buf;

	if (plan->untagged && plan->data)
		return fi_injectdata(ep, buf, plan->len, check_data(op), addr);
	if (plan->untagged)
		return fi_inject(ep, buf, plan->len, addr);
	if (plan->data)
		return fi_tinjectdata(ep, buf, plan->len, check_data(op), addr, op_tag(plan));
	return fi_tinject(ep, buf, plan->len, addr, op_tag(plan));
}

static ssize_t post_message(struct op *op, fi_addr_t addr)
{
	const struct op_plan *plan = &op->plan;
	const struct node *node = &nodes[plan->from];
	struct iovec iov[4];
	const struct fi_msg_tagged tagged = {
		.msg_iov = iov,
		.iov_count = op_iov(op, op->ends[0].buf, plan->len, iov),
		.addr = addr,
		.tag = op_tag(plan),
		.data = check_data(op),
		.context = &op->ends[0].context,
	};
	const struct fi_msg msg = {
		.msg_iov = iov,
		.iov_count = tagged.iov_count,
		.addr = addr,
		.data = tagged.data,
		.context = tagged.context,
	};
	uint64_t flags = plan->data ? FI_REMOTE_CQ_DATA : 0;

	if (plan->inject)
		return inject(op, addr);
	if (!node->plain)
		flags |= (plan->delivery ? FI_DELIVERY_COMPLETE : 0) |
			 (plan->fence && world.script->fences && !node->hook ? FI_FENCE : 0);
	return plan->untagged ? fi_sendmsg(end_ep(op, 0)->ep, &msg, flags)
			      : op_post_tagged(op, 0, &tagged, flags);
}

static ssize_t post_receive(struct op *op, uint64_t flags)
{
	const bool directed = op->plan.directed && world.script->directs;
	struct iovec iov[4];
	const struct fi_msg_tagged tagged = {
		.msg_iov = iov,
		.iov_count = flags & FI_PEEK ? 0 : op_iov(op, op->ends[1].buf, op->room, iov),
		.addr = directed ? op_addr(op, 1) : FI_ADDR_UNSPEC,
		.tag = op_tag(&op->plan),
		.context = &op->ends[1].context,
	};
	const struct fi_msg msg = {
		.msg_iov = iov,
		.iov_count = tagged.iov_count,
		.addr = tagged.addr,
		.context = tagged.context,
	};

	if (directed && tagged.addr == FI_ADDR_NOTAVAIL)
		return -FI_EAGAIN;
	return op->plan.untagged ? fi_recvmsg(end_ep(op, 1)->ep, &msg, flags)
				 : op_post_tagged(op, 1, &tagged, flags);
}

static struct fi_rma_iov op_remote(const struct op *op)
{
	const struct node_domain *domain =
		&nodes[op->plan.to].domains[SIM_DOMAIN_OF(op->plan.to_ep)];

	return (struct fi_rma_iov){.addr = (uintptr_t) op->ends[1].buf,
				   .len = op->plan.len,
				   .key = fi_mr_key(domain->mr[op_region(&op->plan)])};
}

static ssize_t post_rma(struct op *op, fi_addr_t addr)
{
	const struct op_plan *plan = &op->plan;
	const struct fi_rma_iov place = op_remote(op);
	struct iovec iov[4];
	const struct fi_msg_rma msg = {
		.msg_iov = iov,
		.iov_count = op_iov(op, op->ends[0].buf, plan->len, iov),
		.addr = addr,
		.rma_iov = &place,
		.rma_iov_count = 1,
		.context = &op->ends[0].context,
	};
	const uint64_t fence = plan->fence && world.script->fences ? FI_FENCE : 0;

	if (plan->kind == OP_READ)
		return op_post_rma(op, &msg, fence);
	/* so that its end says that it is there */
	return op_post_rma(op, &msg, FI_DELIVERY_COMPLETE | fence);
}

static ssize_t post_atomic(struct op *op, fi_addr_t addr)
{
	const struct op_plan *plan = &op->plan;
	const struct fi_rma_iov place = op_remote(op);
	const size_t count = plan->len / 8;
	struct fid_ep *ep = end_ep(op, 0)->ep;
	void *context = &op->ends[0].context;
	const struct fi_ioc ioc = {op->ends[0].buf, count};
	const struct fi_rma_ioc remote = {.addr = place.addr, .count = count, .key = place.key};
	const struct fi_msg_atomic msg = {
		.msg_iov = &ioc,
		.iov_count = 1,
		.addr = addr,
		.rma_iov = &remote,
		.rma_iov_count = 1,
		.datatype = FI_UINT64,
		.op = FI_SUM,
		.context = context,
	};

	if (plan->kind == OP_FETCH)
		return fi_fetch_atomic(ep, op->ends[0].buf, count, NULL, op->aside[0], NULL,
				       addr, place.addr, place.key, FI_UINT64, FI_SUM, context);
	if (plan->kind == OP_SWAP)
		return fi_compare_atomic(ep, op->ends[0].buf, count, NULL, op->aside[1], NULL,
					 op->aside[0], NULL, addr, place.addr, place.key,
					 FI_UINT64, FI_CSWAP, context);
	return op_post_atomic(op, &msg, FI_DELIVERY_COMPLETE);
}

static const char *const op_words[] = {
	[OP_MESSAGE] = "sends",
	[OP_WRITE] = "writes",
	[OP_READ] = "reads",
	[OP_ADD] = "adds",
	[OP_FETCH] = "fetches and adds",
	[OP_SWAP] = "compares and swaps",
};

/* A receiver peeks first. True: it has nothing to post (yet) */
static bool end_looks(struct op *op)
{
	struct op_end *at = &op->ends[1];
	uint64_t flags = FI_PEEK;

	if (!op->plan.look || at->found)
		return false;
	if (at->looking)
		return true;
	if (op->plan.look == LOOK_CLAIM || op->plan.look == LOOK_REFUSE)
		flags |= FI_CLAIM;
	if (op->plan.look == LOOK_DISCARD)
		flags |= FI_DISCARD;
	/* another thread may have its completion before the call returns */
	at->looking = true;
	at->look_at = world.now;
	if (post_receive(op, flags))
		at->looking = false;
	return true;
}

static ssize_t end_post_receive(struct op *op)
{
	switch (op->plan.look) {
	case LOOK_CLAIM:
		return post_receive(op, FI_CLAIM);
	case LOOK_REFUSE:
		return post_receive(op, FI_CLAIM | FI_DISCARD);
	default:
		return op_is_multi(op) ? 0 : post_receive(op, 0);
	}
}

static void end_posted(struct op *op, unsigned int end, ssize_t ret)
{
	struct op_end *at = &op->ends[end];

	world_tell("n%u: %s %u of %zu%s%s", op_node(op, end),
		   end ? "receives" : op_words[op->plan.kind], op->number, op->plan.len,
		   ret ? ": " : "", ret ? fi_strerror((int) -ret) : "");
	if (end && op->plan.cancel)
		at->cancel_at = world.now + op->plan.cancel * 1000ULL;
	if (ret || (!end && op->plan.inject)) {
		at->done = true;
		at->err = (int) -ret;
		if (!end && !ret)
			end_ep(op, 0)->counts[0]++;
		check_ended(op, end);
		end_give_back(op, end);
	}
}

static void end_post(struct op *op, unsigned int end)
{
	struct op_end *at = &op->ends[end];
	fi_addr_t addr;
	ssize_t ret;

	if (!op_is_next(op, end) || (end && end_looks(op)))
		return;
	addr = op_addr(op, 0);
	if (!end && addr == FI_ADDR_NOTAVAIL)
		return;
	op_allocate(op, end);
	/* another thread may have its completion before the call returns */
	at->posted = at->calling = true;
	at->turn = op_is_triggered(op, end) || op_is_streamed(op, end)
			   ? op_trigger_turn(op, end)
			   : op_next_turn();
	ret = op_is_ringed(op, end)         ? op_post_ring(op, end)
	      : op_is_streamed(op, end)     ? op_post_stream(op, end)
	      : end                         ? end_post_receive(op)
	      : op->plan.kind == OP_MESSAGE ? post_message(op, addr)
	      : op->plan.kind <= OP_READ    ? post_rma(op, addr)
					    : post_atomic(op, addr);
	at->calling = false;
	if (!at->tried_at) {
		at->tried_at = world.now;
		at->met = end_ep(op, end)->met[op_node(op, !end)][op_ep(op, !end)] ==
			  op->ends[!end].life + 1;
	}
	/* nobody else has what was found */
	if (ret == -FI_ENOMEM && at->found)
		op_end_later(at);
	if (ret == -FI_EAGAIN || (ret == -FI_ENOMEM && at->found))
		at->posted = false;
	else
		end_posted(op, end, ret);
}

static void end_ended(struct op *op, unsigned int end)
{
	const struct op_end *at = &op->ends[end];

	check_ended(op, end);
	end_give_back(op, end);
	/* its message comes later, and may be in the way of others */
	if (end && at->err == FI_ECANCELED && op->plan.cancel && !at->closed && !op->spare &&
	    op_end_lives(op, 1))
		op_add_spare(op);
}

/* One that waits for many messages is not */
static void end_cancel(struct op *op, struct op_end *at)
{
	at->cancel_at = 0;
	at->cancelled = true;
	if (op_trigger_cancel(op, 1)) {
		at->done = true;
		at->err = FI_ECANCELED;
		end_ended(op, 1);
	} else if (!op_is_multi(op)) {
		fi_cancel(&end_ep(op, 1)->ep->fid, &at->context);
		/* it may be in a ring or a stream still, and for long; or another thread is about to post it */
		at->look_wait = 2 * at->look_wait + SIM_MS;
		if (op_is_ringed(op, 1) || op_is_streamed(op, 1) || at->calling)
			at->cancel_at = world.now + at->look_wait;
	}
}

bool op_end_is_open(const struct op *op, unsigned int end)
{
	const struct op_end *at = &op->ends[end];

	return !at->done && !at->skipped && op_end_exists(op, end) && op_end_lives(op, end);
}

/*
 * The application does not know yet that the owner of remote memory has ended, and uses it. What the provider does for that
 * ends: what the core does itself, as it does sums, or takes later, may wait for ever (op_over.c).
 */
static bool end_tries(const struct op *op, unsigned int end)
{
	const struct op_plan *plan = &op->plan;

	return !end && (plan->kind == OP_WRITE || plan->kind == OP_READ) && plan->from_dev &&
	       plan->len && !world.script->model->nic && !world.script->triggers &&
	       !op_is_ringed(op, 0) && nodes[plan->to].state == NODE_DEAD &&
	       nodes[plan->to].life == op->shown + 1 &&
	       nodes[plan->to].domains[SIM_DOMAIN_OF(plan->to_ep)].domain;
}

/* It is posted, if it may be now */
static void end_begin(struct op *op, unsigned int end)
{
	struct op_end *at = &op->ends[end];

	if (at->posted || world.now < at->look_at ||
	    world_later(SIM_S + (end ? op->plan.recv_at : op->plan.at)))
		return;
	/* what the other end never posts is not posted here either */
	if (!op_end_lives(op, !end) && !(end && op->ends[0].posted) && !end_tries(op, end))
		at->skipped = !at->looking && !at->found;
	else
		end_post(op, end);
}

void op_turn(unsigned int node)
{
	unsigned int end;
	struct op *op;

	for (size_t i = 0; (op = op_todo(node, i, &end)); i++) {
		struct op_end *at = &op->ends[end];

		if (!op_end_is_open(op, end))
			continue;
		if (at->posted && at->cancel_at && world.now >= at->cancel_at)
			end_cancel(op, at);
		if (!end && at->posted)
			op_graph_turn(op);
		if (!op_is_ringed(op, end))
			end_begin(op, end);
		else if (!end)
			op_ring_prepare(op);
	}
}

void op_ring_turn(unsigned int node, unsigned int block, unsigned int most)
{
	unsigned int end;
	struct op *op;

	for (size_t i = 0; most && (op = op_todo(node, i, &end)); i++) {
		if (op->ends[end].posted || !op_is_ringed(op, end) ||
		    op_block(op, end) != block || !op_end_is_open(op, end))
			continue;
		end_begin(op, end);
		most -= op->ends[end].posted;
	}
}

/* ---- completed ---- */

/* What a peek has found */
static void look_take(struct op *op, const struct fi_cq_err_entry *entry, fi_addr_t src)
{
	struct op_end *at = &op->ends[1];

	at->looking = false;
	/* it may have been cancelled while it looked */
	at->skipped = entry->err == FI_ENOMSG && at->cancelled;
	if (entry->err == FI_ENOMSG) {
		op_end_later(at);
		return;
	}
	world_tell("n%u: peek for %u ends: %s", op->plan.to, op->number,
		   entry->err ? fi_strerror(entry->err) : "found");
	at->err = entry->err;
	if (entry->err) {
		at->posted = at->done = true;
		check_ended(op, 1);
		return;
	}
	at->found = true;
	op->found = check_looked(op, entry, src);
	op_end_later(at);
	if (op->plan.look == LOOK_DISCARD)
		at->posted = at->done = true;
	if (op->plan.look == LOOK_DISCARD && op->found)
		op->found->taken = world.now;
}

unsigned int op_counts(const struct op *op, unsigned int end)
{
	static const unsigned int kinds[] = {
		[OP_MESSAGE] = 0, [OP_WRITE] = 3, [OP_READ] = 2,
		[OP_ADD] = 3,     [OP_FETCH] = 2, [OP_SWAP] = 2,
	};

	return end ? 1 : kinds[op->plan.kind];
}

static void end_take(struct op *op, unsigned int end, const struct fi_cq_err_entry *entry,
		     fi_addr_t src)
{
	struct op_end *at = &op->ends[end];

	if (end && at->looking) {
		look_take(op, entry, src);
		return;
	}
	if (!at->posted || at->done)
		world_fail("n%u: operation %u has a completion that it should not have",
			   op_node(op, end), op->number);
	at->err = at->err ? at->err : entry->err;
	if (!entry->err && !at->closed && op_is_counted(op, end))
		end_ep(op, end)->counts[op_counts(op, end)]++;
	if (!end && !op_graph_ended(op))
		return;
	at->done = true;
	at->len = entry->len;
	world_tell("n%u: %s %u ends%s%s", op_node(op, end), end ? "receive" : "operation",
		   op->number, at->err ? ": " : "", at->err ? fi_strerror(at->err) : "");
	/* where its endpoint was closed before, the buffer may have been given back */
	if (end && !at->err && !at->buf && !at->closed)
		world_fail("receive %u: it has no buffer, and ends", op->number);
	if (end && !at->err && at->buf && op->plan.look != LOOK_REFUSE)
		check_arrived(op, entry, src);
	else if (end && !at->err && op->found)
		op->found->taken = world.now;
	end_ended(op, end);
}

void op_signalled(struct op *op)
{
	struct op_end *at = &op->ends[0];

	op->seen = true;
	world_tell("n%u: put %u is signalled", op->plan.to, op->number);
	/* who has put it may have ended */
	if (at->closed || !op_end_lives(op, 0)) {
		check_rma(op);
		return;
	}
	at->done = true;
	end_ep(op, 0)->counts[3]++;
	end_ended(op, 0);
}

static bool multi_take(unsigned int node, const struct fi_cq_err_entry *entry)
{
	for (unsigned int e = 0; e < world.script->eps; e++) {
		for (struct node_multi *multi = nodes[node].eps[e].multis; multi;
		     multi = multi->next) {
			struct op *sent;

			if (entry->op_context != &multi->context)
				continue;
			sent = check_multi(node, e, multi, entry);
			if (!sent)
				return true;
			sent->ends[1].posted = sent->ends[1].done = true;
			nodes[node].eps[e].counts[1]++;
			world_tell("n%u: message %u came", node, sent->number);
			return true;
		}
	}
	return false;
}

/* What has this context, and which end of it; or NULL */
static struct op *op_by_context(const void *context, unsigned int *end)
{
	const uintptr_t offset = (uintptr_t) context - (uintptr_t) ops;
	struct op *op;

	if (offset >= op_count * sizeof *ops)
		return NULL;
	op = &ops[offset / sizeof *ops];
	*end = context == &op->ends[1].context;
	return context == &op->ends[*end].context ? op : NULL;
}

void op_take(unsigned int node, unsigned int d, const struct fi_cq_err_entry *entry,
	     fi_addr_t src)
{
	unsigned int end;
	struct op *op = op_by_context(entry->op_context, &end);

	if (op && (op_node(op, end) != node || SIM_DOMAIN_OF(op_ep(op, end)) != d))
		world_fail("n%u: operation %u is reported in another's queue", node,
			   op->number);
	if (op)
		end_take(op, end, entry, src);
	if (op || multi_take(node, entry))
		return;
	/* a liar may write with remote cq data to what was granted to it, and nobody else does */
	if (world.liar != SIM_NODES && entry->flags & FI_REMOTE_WRITE)
		return;
	/* an injected message may fail, and has no context to tell that by */
	if (!entry->op_context && entry->err && check_fails(node))
		return;
	world_fail("n%u: a completion of nothing: flags %llx, error %d", node,
		   (unsigned long long) entry->flags, entry->err);
}

/* ---- over ---- */

bool op_names(unsigned int node, unsigned int domain, unsigned int peer)
{
	for (size_t i = 0; i < op_count; i++) {
		for (unsigned int end = 0; end < 2; end++) {
			const struct op *op = &ops[i];
			const struct op_end *at = &op->ends[end];

			if (op_node(op, end) == node && op_node(op, !end) == peer &&
			    SIM_DOMAIN_OF(op_ep(op, end)) == domain && !at->done &&
			    !at->closed && (at->posted || at->looking) &&
			    op_end_lives(op, end) &&
			    (!end || (op->plan.directed && world.script->directs)))
				return true;
		}
	}
	return false;
}

void op_adopt(unsigned int node, unsigned int e)
{
	for (size_t i = 0; i < op_count; i++) {
		for (unsigned int end = 0; end < 2; end++) {
			struct op *op = &ops[i];

			if (op_node(op, end) == node && op_ep(op, end) == e &&
			    world_later(SIM_S + op->plan.at) &&
			    world_later(SIM_S + op->plan.recv_at) && !op->ends[0].posted &&
			    !op->ends[1].posted && !op->ends[1].looking)
				op->ends[end].life = nodes[node].eps[e].life;
			if (end && op->plan.kind != OP_MESSAGE && op_end_lives(op, 1) &&
			    op_node(op, 1) == node && op->shown != nodes[node].life)
				op_show(op);
		}
	}
}

void op_end_process(unsigned int node)
{
	for (size_t i = 0; i < op_count; i++) {
		for (unsigned int end = 0; end < 2; end++) {
			struct op_end *at = &ops[i].ends[end];

			if (op_node(&ops[i], end) != node || !at->buf)
				continue;
			if (ops[i].plan.kind != OP_MESSAGE && end)
				continue;
			check_frozen_end(&ops[i], end);
			/* its graph has ended, too */
			if (!end)
				ops[i].graph = NULL;
			if (gpu_has(at->buf) || !at->posted)
				at->buf = NULL;
			if (!end && !at->posted)
				memset(ops[i].aside, 0, sizeof ops[i].aside);
		}
	}
}

void op_close(unsigned int node, unsigned int e)
{
	for (size_t i = 0; i < op_count; i++) {
		for (unsigned int end = 0; end < 2; end++) {
			struct op_end *at = &ops[i].ends[end];

			if (op_node(&ops[i], end) != node || op_ep(&ops[i], end) != e ||
			    !op_end_exists(&ops[i], end) || !op_end_lives(&ops[i], end) ||
			    at->done || !(at->posted || at->looking))
				continue;
			at->closed = true;
			if (!end)
				op_graph_close(&ops[i]);
			check_freeze(&ops[i], end);
			end_give_back(&ops[i], end);
		}
	}
}
