/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Operations that kernels of the GPU post, by rings (rdma/fi_p2p_xpu_device.h, as it is), and whose ends they read.
 *
 * A node has some blocks of threads, each with one ring to an endpoint, or two share one. They go on while their process
 * computes, sleeps or is stopped; each is stuck now and then. What a kernel stores in a ring comes late there, in any
 * order. A put names its target by a number, which the host has given it. Then it signals: once the word is there at
 * the peer, so are the bytes.
 */
#include "exhaust.h"
#include "gate.h"
#include "kernel.h"

/* A block's thread acts for all of it */
static uint64_t kernel_block;
#define FI_P2P_XPU_BLOCK kernel_block
#define FI_P2P_XPU_THREAD 0U
#define FI_P2P_XPU_LANES 1U
#define FI_P2P_XPU_SYNC_BLOCK(value) (value)
#define FI_P2P_XPU_SYNC_LANES(value) (value)
#define FI_P2P_XPU_PREFIX

#include <rdma/fi_p2p_xpu_port.h>

static void kernel_store16(struct fi_p2p_xpu_word2 *to, uint64_t lo, uint64_t hi);
#define fi_p2p_xpu_store16 kernel_store16
#define fi_p2p_xpu_now() world.now

#include <rdma/fi_p2p_xpu_device.h>

/* ---- stores ---- */

/* Of kernels, on their way to the host's memory */
struct kernel_store {
	unsigned int node;
	uint64_t at;
	struct fi_p2p_xpu_word2 *to;
	uint64_t lo, hi;
	LIST_ENTRY(kernel_store) link;
};

static LIST_HEAD(, kernel_store) stores;
static unsigned int kernel_node;

static void kernel_store16(struct fi_p2p_xpu_word2 *to, uint64_t lo, uint64_t hi)
{
	struct kernel_store *store = calloc(1, sizeof *store);

	*store = (struct kernel_store){
		.node = kernel_node,
		.at = world.now + world_upto(world_upto(30) ? 3000 : SIM_MS),
		.to = to,
		.lo = lo,
		.hi = hi,
	};
	LIST_INSERT_HEAD(&stores, store, link);
}

static void store_comes(struct kernel_store *store, bool lost)
{
	if (!lost) {
		store->to->lo = store->lo;
		__atomic_store_n(&store->to->hi, store->hi, __ATOMIC_RELEASE);
		world.moved = true;
	}
	LIST_REMOVE(store, link);
	free(store);
}

static void stores_come(void)
{
	struct kernel_store *store, *next;

	for (store = LIST_FIRST(&stores); store; store = next) {
		next = LIST_NEXT(store, link);
		if (world.now >= store->at)
			store_comes(store, false);
	}
}

void kernels_settle(unsigned int i, bool lost)
{
	struct kernel_store *store, *next;

	for (store = LIST_FIRST(&stores); store; store = next) {
		next = LIST_NEXT(store, link);
		if (store->node == i)
			store_comes(store, lost);
	}
}

/* ---- posted ---- */

bool op_is_ringed(const struct op *op, unsigned int end)
{
	return kernels_have(op_node(op, end), SIM_DOMAIN_OF(op_ep(op, end)));
}

/* What kernels do not have (rdma/fi_p2p_xpu_device.h) */
void op_ring_fit(struct op *op)
{
	struct op_plan *plan = &op->plan;

	if (op_is_ringed(op, 0) || op_is_ringed(op, 1))
		plan->chained = plan->pieces = 0;
	plan->inject &= !op_is_ringed(op, 0);
	if (op_is_ringed(op, 0))
		plan->trigger = plan->stream = 0;
	else
		plan->put = 0;
	if (op_is_ringed(op, 1))
		plan->look = plan->recv_trigger = plan->recv_stream = 0;
	if (plan->put || (op_is_ringed(op, 0) && SIM_RINGS_OF(world.script) == 1))
		plan->fence = 0;
}

/*
 * What keeps an order is one block's: all receives, and what is for one peer. Receives have a ring of their own, if there
 * are two: behind a fence, or many sends that wait, they would wait, too.
 */
unsigned int op_block(const struct op *op, unsigned int end)
{
	const unsigned int peer = op_node(op, !end) * SIM_EPS + op_ep(op, !end);

	const unsigned int rings = SIM_RINGS_OF(world.script);
	const unsigned int block = 1 + peer % (SIM_BLOCKS - 1);

	if (end)
		return 0;
	return rings > 1 && block % rings == 0 ? 1 : block;
}

unsigned int op_ring(const struct op *op, unsigned int end)
{
	return op_block(op, end) % SIM_RINGS_OF(world.script);
}

static fi_addr_t peer_of(const struct op *op, unsigned int end)
{
	return node_addr(op_node(op, end), op_ep(op, end), op_node(op, !end), op_ep(op, !end));
}

static ssize_t post_message(struct op *op, struct fid_xpu_ep *ep)
{
	const struct op_plan *plan = &op->plan;
	const uint64_t flags = (plan->data ? FI_REMOTE_CQ_DATA : 0) |
			       (plan->delivery ? FI_DELIVERY_COMPLETE : 0) |
			       (plan->fence && world.script->fences ? FI_FENCE : 0);
	fi_addr_t peer = peer_of(op, 0);
	struct op_end *at = &op->ends[0];

	if (plan->untagged)
		return fi_p2p_xpu_send(ep, at->buf, plan->len, NULL, check_data(op), &peer,
				       &at->context, flags, FI_XPU_WORK_ITEM);
	return fi_p2p_xpu_tsend(ep, at->buf, plan->len, NULL, check_data(op), &peer,
				op_tag(plan), &at->context, flags, FI_XPU_WORK_ITEM);
}

static ssize_t post_receive(struct op *op, struct fid_xpu_ep *ep)
{
	const bool directed = op->plan.directed && world.script->directs;
	fi_addr_t peer = peer_of(op, 1);
	struct op_end *at = &op->ends[1];

	if (directed && peer == FI_ADDR_NOTAVAIL)
		return -FI_EAGAIN;
	if (op->plan.untagged)
		return fi_p2p_xpu_recv(ep, at->buf, op->room, NULL, directed ? &peer : NULL,
				       &at->context, 0, FI_XPU_WORK_ITEM);
	return fi_p2p_xpu_trecv(ep, at->buf, op->room, NULL, directed ? &peer : NULL,
				op_tag(&op->plan), 0, &at->context, 0, FI_XPU_WORK_ITEM);
}

static ssize_t post_rma(struct op *op, struct fid_xpu_ep *ep)
{
	const struct op_plan *plan = &op->plan;
	const struct node_domain *there = &nodes[plan->to].domains[SIM_DOMAIN_OF(plan->to_ep)];
	const uint64_t fence = plan->fence && world.script->fences ? FI_FENCE : 0;
	const uint64_t addr = (uintptr_t) op->ends[1].buf, count = plan->len / 8;
	const uint64_t key = fi_mr_key(there->mr[op_region(plan)]);
	fi_addr_t peer = peer_of(op, 0);
	struct op_end *at = &op->ends[0];

	switch (plan->kind) {
	case OP_READ:
		return fi_p2p_xpu_read(ep, at->buf, plan->len, NULL, &peer, addr, key,
				       &at->context, fence, FI_XPU_WORK_ITEM);
	case OP_WRITE:
		return fi_p2p_xpu_write(ep, at->buf, plan->len, NULL, 0, &peer, addr, key,
					&at->context, fence | FI_DELIVERY_COMPLETE,
					FI_XPU_WORK_ITEM);
	case OP_FETCH:
		return fi_p2p_xpu_fetch_atomic(ep, at->buf, count, NULL, op->aside[0], NULL,
					       &peer, addr, key, FI_UINT64, FI_SUM,
					       &at->context, 0, FI_XPU_WORK_ITEM);
	case OP_SWAP:
		return fi_p2p_xpu_compare_atomic(ep, at->buf, count, NULL, op->aside[1], NULL,
						 op->aside[0], NULL, &peer, addr, key,
						 FI_UINT64, FI_CSWAP, &at->context, 0,
						 FI_XPU_WORK_ITEM);
	default:
		return fi_p2p_xpu_atomic(ep, at->buf, count, NULL, &peer, addr, key, FI_UINT64,
					 FI_SUM, &at->context, FI_DELIVERY_COMPLETE,
					 FI_XPU_WORK_ITEM);
	}
}

/* ---- puts ---- */

/* A target is a region of the peer's and memory around the buffer: offsets say where in it */
static bool has_target(const struct op *op)
{
	return op->target_life == nodes[op->plan.from].eps[op->plan.from_ep].life + 1 &&
	       op->target_addr == peer_of(op, 0);
}

static bool wants_target(const struct op *op)
{
	const struct op_end *at = &op->ends[0];

	return op->plan.put && !at->posted && !at->done && !at->skipped &&
	       world.now >= at->look_at && op_end_lives(op, 0) && op_end_lives(op, 1) &&
	       !world_later(SIM_S + op->plan.at) && !has_target(op) &&
	       peer_of(op, 0) != FI_ADDR_NOTAVAIL;
}

void op_ring_prepare(struct op *op)
{
	const struct op_plan *plan = &op->plan;
	const struct node *to = &nodes[plan->to];
	const struct node_ep *ep = &nodes[plan->from].eps[plan->from_ep];
	const struct node_domain *domain =
		&nodes[plan->from].domains[SIM_DOMAIN_OF(plan->from_ep)];
	const struct node_domain *there = &to->domains[SIM_DOMAIN_OF(plan->to_ep)];
	struct fi_p2p_xpu_target target = {.dest_addr = peer_of(op, 0)};
	const unsigned int life = ep->life + 1;
	uint32_t number;
	int ret;

	if (!wants_target(op))
		return;
	target.addr = (uintptr_t) to->shown[op_region(plan)];
	target.key = fi_mr_key(there->mr[op_region(plan)]);
	op_allocate(op, 0);
	target.buf = op->ends[0].buf - SIM_GUARD;
	ret = domain->xpu->target_add(ep->ep, &target, &number);
	if (ret == -FI_ENOMEM && gate_is_scarce(plan->from)) {
		op_end_later(&op->ends[0]);
		return;
	}
	if (ret)
		world_fail("n%u: target_add: %s", plan->from, fi_strerror(-ret));
	op->target = number;
	op->target_addr = target.dest_addr;
	op->target_life = life;
}

static uint64_t signal_value(const struct op *op)
{
	return op->number + 1;
}

static ssize_t post_signal(struct op *op, struct fid_xpu_ep *ep)
{
	const uint64_t offset = (uint64_t) ((uint8_t *) op->signal -
					    nodes[op->plan.to].shown[op_region(&op->plan)]);
	ssize_t ret;

	if (world.script->model->atomics && op->number % 2)
		ret = fi_p2p_xpu_signal_add(ep, op->target, offset, signal_value(op), 0,
					    FI_XPU_WORK_ITEM);
	else
		ret = fi_p2p_xpu_signal_set(ep, op->target, offset, signal_value(op), 0,
					    FI_XPU_WORK_ITEM);
	op->signals = ret != 0;
	nodes[op->plan.from].eps[op->plan.from_ep].writes += !ret;
	return ret;
}

static ssize_t post_put(struct op *op, struct fid_xpu_ep *ep)
{
	const uint64_t offset =
		(uint64_t) (op->ends[1].buf - nodes[op->plan.to].shown[op_region(&op->plan)]);
	ssize_t ret = has_target(op) ? 0 : -FI_EAGAIN;

	if (!ret)
		ret = fi_p2p_xpu_put(ep, op->target, offset, SIM_GUARD, (uint32_t) op->plan.len,
				     0, FI_XPU_WORK_ITEM);
	/* the signal may follow later */
	op->signals = !ret;
	if (!ret && world_upto(2))
		post_signal(op, ep);
	return ret;
}

static ssize_t post_by_kind(struct op *op, struct fid_xpu_ep *ep)
{
	if (op->plan.put)
		return post_put(op, ep);
	return op->plan.kind == OP_MESSAGE ? post_message(op, ep) : post_rma(op, ep);
}

ssize_t op_post_ring(struct op *op, unsigned int end)
{
	struct node_ep *ep = &nodes[op_node(op, end)].eps[op_ep(op, end)];
	ssize_t ret;

	kernel_node = op_node(op, end);
	kernel_block = op_block(op, end);
	ret = end ? post_receive(op, &ep->kernel) : post_by_kind(op, &ep->kernel);
	ep->writes += !ret && !end && op_counts(op, 0) == 3;
	return ret;
}

bool op_ring_wants(const struct op *op, unsigned int end)
{
	const struct op_end *at = &op->ends[end];

	return (at->posted && !at->done && at->cancel_at && world.now >= at->cancel_at) ||
	       (!end && wants_target(op));
}

/* Its signal is there, wherever its sender is by now: then its bytes are, and it has ended */
static void look_for_signal(struct op *op)
{
	struct op_end *at = &op->ends[0];
	const struct node *to = &nodes[op->plan.to];

	if (!op->plan.put || !at->posted || op->seen || to->state == NODE_DEAD ||
	    op->shown != to->life || !*op->signal)
		return;
	check_signal(op, signal_value(op));
	op_signalled(op);
}

/* ---- kernels ---- */

/* @until: it is stuck */
static struct kernel {
	uint64_t until;
} kernels[SIM_NODES][SIM_BLOCKS];

static void kernel_fails(unsigned int i, struct node_domain *domain,
			 const struct fi_cq_err_entry *error)
{
	bool excused = check_fails(i);

	for (const struct op *op = ops; op < ops + op_count && !excused; op++)
		excused = op->plan.put && op->plan.from == i && check_refuses(op);
	if (!excused)
		world_fail("n%u: a put fails, and nothing gave reason: %s", i,
			   fi_strerror(error->err));
	world_tell("n%u: a put or a signal fails: %s", i, fi_strerror(error->err));
	domain->put_errors++;
}

static void kernel_reads(unsigned int i, unsigned int d)
{
	struct node_domain *domain = &nodes[i].domains[d];
	struct fi_cq_tagged_entry entries[4];
	struct fi_cq_err_entry error = {.err = 0};
	fi_addr_t src[4];
	int64_t read = fi_p2p_xpu_cq_readfrom(&domain->kernel_cq, entries,
					      1 + world_upto(SIM_COUNT(entries)), src,
					      FI_XPU_WORK_ITEM);

	for (int64_t at = 0; at < read; at++)
		node_take(i, d, &entries[at], src[at]);
	if (read == -FI_EAVAIL &&
	    fi_p2p_xpu_cq_readerr(&domain->kernel_cq, &error, 0, FI_XPU_WORK_ITEM) == 1) {
		if (error.op_context)
			op_take(i, d, &error, FI_ADDR_NOTAVAIL);
		else
			kernel_fails(i, domain, &error);
	} else if (read < 0 && read != -FI_EAGAIN && read != -FI_EAVAIL &&
		   !(read == -FI_ECANCELED && nodes[i].ends)) {
		world_fail("n%u: a kernel reads a queue: %s", i, fi_strerror((int) -read));
	}
}

static bool has_signals(unsigned int i, unsigned int e)
{
	for (const struct op *op = ops; op < ops + op_count; op++) {
		if (op->signals && op->plan.from == i && op->plan.from_ep == e &&
		    op_end_lives(op, 0))
			return true;
	}
	return false;
}

/*
 * Signals behind a put that has failed are to fail. So its errors are forgiven once all has ended, and no signal is to
 * follow
 */
static void kernel_forgives(unsigned int i, unsigned int e)
{
	struct node_ep *ep = &nodes[i].eps[e];
	struct fid_xpu_cntr *writes = &ep->kernel_cntrs[3];
	const uint64_t errors = fi_p2p_xpu_cntr_readerr(writes, FI_XPU_WORK_ITEM);

	if (!errors || has_signals(i, e) || ep->shown[3] + errors + ep->forgiven < ep->writes ||
	    fi_p2p_xpu_cntr_seterr(writes, 0, FI_XPU_WORK_ITEM))
		return;
	ep->forgiven = ep->writes - ep->shown[3];
}

/* What a counter shows never goes back */
static void kernel_counts(unsigned int i, unsigned int e)
{
	struct node_ep *ep = &nodes[i].eps[e];

	if (!ep->open || !ep->cntrs[0])
		return;
	for (size_t k = 0; k < SIM_COUNT(ep->cntrs); k++) {
		const uint64_t value =
			fi_p2p_xpu_cntr_read(&ep->kernel_cntrs[k], FI_XPU_WORK_ITEM);

		if (value < ep->shown[k])
			world_fail("n%u: a kernel sees a counter go back", i);
		ep->shown[k] = value;
	}
	kernel_forgives(i, e);
}

static void signals_turn(unsigned int i, unsigned int block)
{
	for (size_t j = 0; j < op_count; j++) {
		struct op *op = &ops[j];

		if (op->plan.put && op->signals && op->plan.from == i &&
		    op_block(op, 0) == block && op_end_lives(op, 0))
			post_signal(op, &nodes[i].eps[op->plan.from_ep].kernel);
	}
}

static void kernel_turn(unsigned int i, unsigned int d, unsigned int block)
{
	struct kernel *kernel = &kernels[i][block];

	if (world.now < kernel->until || !world_upto(3))
		return;
	if (!world_upto(400)) {
		kernel->until = world.now + world_upto(world_upto(4) ? 2 * SIM_MS
						       : world.calm  ? 50 * SIM_MS
								     : SIM_S);
		return;
	}
	kernel_node = world.current = i;
	kernel_block = block;
	if (!world_upto(2))
		kernel_reads(i, d);
	for (unsigned int e = 0; !world_upto(8) && e < world.script->eps; e++) {
		if (SIM_DOMAIN_OF(e) == d)
			kernel_counts(i, e);
	}
	signals_turn(i, block);
	op_ring_turn(i, block, 1 + (unsigned int) world_upto(world_upto(4) ? 3 : 40));
}

void kernels_run(void)
{
	const unsigned int d = SIM_DOMAIN_OF(world.script->eps - 1);

	if (!world.script->rings)
		return;
	stores_come();
	for (unsigned int at = 0; at < world.script->nodes * SIM_BLOCKS; at++) {
		const unsigned int i = at / SIM_BLOCKS;

		if (nodes[i].state != NODE_DEAD && nodes[i].domains[d].ctx)
			kernel_turn(i, d, at % SIM_BLOCKS);
	}
	for (size_t j = 0; j < op_count; j++)
		look_for_signal(&ops[j]);
}

uint64_t kernels_due(void)
{
	const struct kernel_store *store;
	uint64_t due = UINT64_MAX;

	LIST_FOREACH(store, &stores, link) {
		if (store->at < due)
			due = store->at;
	}
	for (unsigned int at = 0; at < SIM_NODES * SIM_BLOCKS; at++) {
		const uint64_t until = kernels[at / SIM_BLOCKS][at % SIM_BLOCKS].until;

		if (until > world.now && until < due)
			due = until;
	}
	return due;
}

/* ---- rules ---- */

uint64_t kernels_ring_left(const struct node_ep *ep)
{
	const struct fi_p2p_xpu_ep_dev *dev = (void *) (uintptr_t) ep->kernel.fid.prov_ctx;
	uint64_t left = 0;

	for (uint64_t r = 0; r < dev->rings; r++)
		left += dev->ring[r].head - (*dev->ring[r].tail & ~FI_P2P_XPU_CLOSED);
	return left;
}

/* No more than the host's. In peace it is the same */
void kernels_check_counts(unsigned int i, unsigned int e)
{
	const struct node_ep *ep = &nodes[i].eps[e];

	for (size_t k = 0; k < SIM_COUNT(ep->cntrs); k++) {
		uint64_t seen, value;

		if (!ep->cntrs[k])
			continue;
		seen = fi_p2p_xpu_cntr_read((struct fid_xpu_cntr *) &ep->kernel_cntrs[k],
					    FI_XPU_WORK_ITEM);
		value = fi_cntr_read(ep->cntrs[k]);
		if (seen > value || (world.awake && seen != value))
			world_fail("n%u: a kernel sees %llu, and the counter is %llu", i,
				   (unsigned long long) seen, (unsigned long long) value);
	}
}
