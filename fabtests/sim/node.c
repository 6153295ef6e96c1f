/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The processes: the provider under test, from fid/ down, and an application above it. See sim.h. */
#include "sim.h"

#include "base/base.h"
#include "base/conf.h"
#include "base/libfabric.h"
#include "base/log.h"
#include "fid/domain.h"
#include "path/info.h"
#include "path/info_tags.h"
#include <rdma/fi_cm.h>
#include <rdma/providers/fi_prov.h>

struct node nodes[SIM_NODES];
struct op ops[2 * SIM_OPS + 4 * SIM_NODES * SIM_NODES];
size_t op_count;

/* The libfabric that the model is of */
uint32_t fi_version(void)
{
	return world.script->model->version;
}

#define MUST(call)                                                                             \
	do {                                                                                   \
		const int must = (int) (call);                                                 \
		if (must)                                                                      \
			world_fail("n%u: %s: %s", world.current, #call, fi_strerror(-must));   \
	} while (0)

/* ---- open and close ---- */

static void provider_begin(void)
{
	static struct fi_provider provider = {.name = "ofi_p2p"};

	log_prov = &provider;
	lf.getinfo = fi_getinfo;
	lf.dupinfo = fi_dupinfo;
	lf.freeinfo = fi_freeinfo;
	/* little of everything, so that it is scarce; lanes have threads */
	conf.eager_size = 8192;
	conf.chunk_size = 16384;
	conf.pinned_size = 4 << 20;
	conf.lanes = 1;
	conf.peer_timeout = world.script->timeout;
}

static void open_fabric(unsigned int i)
{
	struct node *node = &nodes[i];
	struct fid_fabric *core = core_fabric(i);
	struct fi_info *hints;
	const char *why = "";

	node->info = core_info(i);
	node->fabric = core;
	if (node->plain)
		return;
	hints = fi_allocinfo();
	hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_HMEM;
	hints->domain_attr->mr_mode = node->info->domain_attr->mr_mode;
	if (!info_from_core(hints, node->info, fi_version(), &why))
		world_fail("not offered: %s", why);
	fi_freeinfo(hints);
	info_offer(node->info);
	MUST(fabric_open(core, true, NULL, NULL, &node->fabric));
}

/* What peers may read and write */
static void open_regions(unsigned int i)
{
	struct node *node = &nodes[i];

	for (int dev = 0; dev < 2; dev++) {
		node->shown[dev] = dev ? gpu_alloc(i, SIM_SHOWN) : malloc(SIM_SHOWN);
		MUST(fi_mr_reg(node->domain, node->shown[dev], SIM_SHOWN,
			       FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
			       (uint64_t) (2 * i + dev + 1), 0, &node->mr[dev], NULL));
	}
}

static uint64_t process_number(unsigned int i, unsigned int life)
{
	return 1 + i + SIM_NODES * (uint64_t) life;
}

void node_met(unsigned int i, uint64_t process)
{
	nodes[i].met[(process - 1) % SIM_NODES] = process;
}

void node_open(unsigned int i)
{
	struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
	struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .size = 1024};
	struct node *node = &nodes[i];
	char name[64];

	world.current = i;
	provider_begin();
	node->state = NODE_RUNS;
	node->process = process_number(i, node->life);
	memset(node->met, 0, sizeof node->met);
	node->plain = world.script->plain && i == world.script->nodes - 1;
	open_fabric(i);
	MUST(fi_domain(node->fabric, node->info, &node->domain, NULL));
	if (!node->plain) {
		struct xfer *xfer = &domain_of(&node->domain->fid)->xfer;

		/* each is alone on its host */
		xfer->ipc.process = node->process;
		xfer->ipc.host = node->process;
	}
	MUST(fi_av_open(node->domain, &av_attr, &node->av, NULL));
	MUST(fi_cq_open(node->domain, &cq_attr, &node->cq, NULL));
	MUST(fi_endpoint(node->domain, node->info, &node->ep, NULL));
	MUST(fi_ep_bind(node->ep, &node->av->fid, 0));
	MUST(fi_ep_bind(node->ep, &node->cq->fid, FI_TRANSMIT | FI_RECV));
	MUST(fi_enable(node->ep));
	for (unsigned int j = 0; j < world.script->nodes; j++) {
		core_name(j, name);
		if (fi_av_insert(node->av, name, 1, &node->addr[j], 0, NULL) != 1)
			world_fail("n%u: a peer is not inserted", i);
	}
	if (!node->plain)
		open_regions(i);
	world_tell("n%u: opened", i);
}

/* All of it, in order: nothing may be busy */
void node_close(unsigned int i)
{
	struct node *node = &nodes[i];

	world.current = i;
	world_tell("n%u: closes", i);
	MUST(fi_close(&node->ep->fid));
	for (int dev = 0; dev < 2; dev++) {
		if (node->mr[dev])
			MUST(fi_close(&node->mr[dev]->fid));
	}
	MUST(fi_close(&node->cq->fid));
	MUST(fi_close(&node->av->fid));
	MUST(fi_close(&node->domain->fid));
	node->state = NODE_DEAD;
	check_closed(i);
}

/* Its memory stays, and nobody looks at it any more */
void node_kill(unsigned int i)
{
	world_tell("n%u: ends", i);
	core_kill(i);
	nodes[i].state = NODE_DEAD;
	nodes[i].life++;
	memset(nodes[i].mr, 0, sizeof nodes[i].mr);
}

/* ---- operations ---- */

static unsigned int end_node(const struct op *op, unsigned int end)
{
	return end ? op->plan.to : op->plan.from;
}

/* Does the process live that has this end? */
static bool end_lives(const struct op *op, unsigned int end)
{
	const struct node *node = &nodes[end_node(op, end)];

	return node->state != NODE_DEAD && node->life == op->ends[end].life;
}

static bool end_exists(const struct op *op, unsigned int end)
{
	return !(end ? op->plan.kind != OP_MESSAGE : op->spare);
}

static uint8_t *buffer_new(unsigned int node, bool dev, size_t len)
{
	uint8_t *mem = dev ? gpu_alloc(node, len + 2 * SIM_GUARD) : malloc(len + 2 * SIM_GUARD);

	memset(mem, SIM_GUARD_BYTE, len + 2 * SIM_GUARD);
	return mem + SIM_GUARD;
}

/* Both ends of one stream have room for its longest message, as an error may shift them */
static size_t op_longest(const struct op_plan *plan)
{
	size_t len = plan->len;

	for (size_t i = 0; plan >= world.script->ops && plan < world.script->ops + SIM_OPS &&
			   i < world.script->op_count;
	     i++) {
		const struct op_plan *other = &world.script->ops[i];

		if (!other->dropped && other->kind == OP_MESSAGE && other->from == plan->from &&
		    other->to == plan->to && other->tag == plan->tag && other->len > len)
			len = other->len;
	}
	return len;
}

struct op *op_add(const struct op_plan *plan)
{
	static size_t places[SIM_NODES][2];
	struct op *op = &ops[op_count];

	if (op_count == SIM_COUNT(ops))
		world_fail("more than %zu operations", SIM_COUNT(ops));
	*op = (struct op){.plan = *plan, .number = (unsigned int) op_count};
	op->ends[0].life = nodes[plan->from].life;
	op->ends[1].life = nodes[plan->to].life;
	op_count++;
	op->ends[0].buf = buffer_new(plan->from, plan->from_dev, plan->len);
	if (plan->kind == OP_MESSAGE) {
		op->room = op_longest(plan);
		op->ends[1].buf = buffer_new(plan->to, plan->to_dev, op->room);
	} else {
		size_t *place = &places[plan->to][plan->to_dev];

		if (*place + plan->len + SIM_GUARD > SIM_SHOWN)
			world_fail("n%u has too little memory to show", plan->to);
		op->ends[1].buf = nodes[plan->to].shown[plan->to_dev] + *place;
		memset(op->ends[1].buf, SIM_GUARD_BYTE, plan->len + SIM_GUARD);
		*place += plan->len + SIM_GUARD;
	}
	if (plan->kind == OP_READ)
		check_fill(op, op->ends[1].buf);
	else
		check_fill(op, op->ends[0].buf);
	return op;
}

void op_add_spare(const struct op *like)
{
	struct op *op = op_add(&like->plan);

	op->spare = true;
	op->room = 600000;
	op->ends[1].buf = buffer_new(op->plan.to, false, op->room);
}

static uint64_t op_tag(const struct op_plan *plan)
{
	return 1 + plan->from + SIM_NODES * (plan->to + SIM_NODES * plan->tag);
}

static ssize_t post_message(struct op *op)
{
	const struct op_plan *plan = &op->plan;
	const struct node *node = &nodes[plan->from];
	const struct iovec iov = {op->ends[0].buf, plan->len};
	const struct fi_msg_tagged msg = {
		.msg_iov = &iov,
		.iov_count = 1,
		.addr = node->addr[plan->to],
		.tag = op_tag(plan),
		.context = &op->ends[0].context,
	};

	if (plan->inject)
		return fi_tinject(node->ep, iov.iov_base, iov.iov_len, msg.addr, msg.tag);
	return fi_tsendmsg(node->ep, &msg,
			   plan->delivery && !node->plain ? FI_DELIVERY_COMPLETE : 0);
}

static ssize_t post_receive(struct op *op)
{
	const struct iovec iov = {op->ends[1].buf, op->room};
	const struct fi_msg_tagged msg = {
		.msg_iov = &iov,
		.iov_count = 1,
		.addr = FI_ADDR_UNSPEC,
		.tag = op_tag(&op->plan),
		.context = &op->ends[1].context,
	};

	return fi_trecvmsg(nodes[op->plan.to].ep, &msg, 0);
}

static ssize_t post_rma(struct op *op)
{
	const struct op_plan *plan = &op->plan;
	const struct node *node = &nodes[plan->from];
	const struct iovec iov = {op->ends[0].buf, plan->len};
	const struct fi_rma_iov place = {.addr = (uintptr_t) op->ends[1].buf,
					 .len = plan->len,
					 .key = fi_mr_key(nodes[plan->to].mr[plan->to_dev])};
	const struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.iov_count = 1,
		.addr = node->addr[plan->to],
		.rma_iov = &place,
		.rma_iov_count = 1,
		.context = &op->ends[0].context,
	};

	if (plan->kind == OP_READ)
		return fi_readmsg(node->ep, &msg, 0);
	/* so that its end says that it is there */
	return fi_writemsg(node->ep, &msg, FI_DELIVERY_COMPLETE);
}

/* Are those before it of its stream posted at this end? */
static bool end_is_next(const struct op *op, unsigned int end)
{
	for (const struct op *other = ops; other < op; other++) {
		if (other->plan.kind == OP_MESSAGE && op->plan.kind == OP_MESSAGE &&
		    op_tag(&other->plan) == op_tag(&op->plan) && end_exists(other, end) &&
		    end_lives(other, end) && !other->ends[end].posted &&
		    !other->ends[end].skipped)
			return false;
	}
	return true;
}

static void end_post(struct op *op, unsigned int end)
{
	struct op_end *at = &op->ends[end];
	ssize_t ret;

	if (world.now < SIM_S + (end ? op->plan.recv_at : op->plan.at) || !end_is_next(op, end))
		return;
	if (end)
		ret = post_receive(op);
	else
		ret = op->plan.kind == OP_MESSAGE ? post_message(op) : post_rma(op);
	if (ret == -FI_EAGAIN)
		return;
	at->posted = true;
	world_tell("n%u: %s %u of %zu%s%s", end_node(op, end),
		   end                           ? "receives"
		   : op->plan.kind == OP_MESSAGE ? "sends"
		   : op->plan.kind == OP_READ    ? "reads"
						 : "writes",
		   op->number, op->plan.len, ret ? ": " : "",
		   ret ? fi_strerror((int) -ret) : "");
	if (ret || (!end && op->plan.inject)) {
		at->done = true;
		at->err = (int) -ret;
		check_ended(op, end);
	}
}

static void end_take(unsigned int node, const struct fi_cq_err_entry *entry)
{
	for (size_t i = 0; i < op_count; i++) {
		for (unsigned int end = 0; end < 2; end++) {
			struct op_end *at = &ops[i].ends[end];

			if (entry->op_context != &at->context)
				continue;
			if (end_node(&ops[i], end) != node || !at->posted || at->done)
				world_fail(
					"n%u: operation %u has a completion that it should not have",
					node, ops[i].number);
			at->done = true;
			at->err = entry->err;
			at->len = entry->len;
			world_tell("n%u: %s %u ends%s%s", node, end ? "receive" : "operation",
				   ops[i].number, at->err ? ": " : "",
				   at->err ? fi_strerror(at->err) : "");
			if (end && !at->err)
				check_arrived(&ops[i], entry->len);
			check_ended(&ops[i], end);
			return;
		}
	}
	/* an injected message may fail, and has no context to tell that by */
	if (!entry->op_context && entry->err && check_fails(node))
		return;
	world_fail("n%u: a completion of nothing: flags %llx, error %d", node,
		   (unsigned long long) entry->flags, entry->err);
}

static void node_read(unsigned int i)
{
	struct fi_cq_tagged_entry entries[4];
	struct fi_cq_err_entry error;
	ssize_t read;

	do {
		read = fi_cq_read(nodes[i].cq, entries, SIM_COUNT(entries));
		for (ssize_t at = 0; at < read; at++) {
			error = (struct fi_cq_err_entry){.op_context = entries[at].op_context,
							 .flags = entries[at].flags,
							 .len = entries[at].len};
			end_take(i, &error);
		}
		if (read == -FI_EAVAIL) {
			memset(&error, 0, sizeof error);
			if (fi_cq_readerr(nodes[i].cq, &error, 0) == 1)
				end_take(i, &error);
		} else if (read < 0 && read != -FI_EAGAIN) {
			world_fail("n%u: fi_cq_read: %s", i, fi_strerror((int) -read));
		}
	} while (read == SIM_COUNT(entries));
}

void node_turn(unsigned int i)
{
	const unsigned int before = world.current;

	world.current = i;
	node_read(i);
	for (size_t j = 0; j < op_count; j++) {
		for (unsigned int end = 0; end < 2; end++) {
			struct op *op = &ops[j];

			if (end_node(op, end) != i || !end_exists(op, end) ||
			    op->ends[end].posted || op->ends[end].skipped ||
			    !end_lives(op, end))
				continue;
			/* what the other end never posts is not posted here either */
			if (!end_lives(op, !end) && !(end && op->ends[0].posted))
				op->ends[end].skipped = true;
			else
				end_post(op, end);
		}
	}
	world.current = before;
}

void node_look(unsigned int i)
{
	world.current = i;
	if (nodes[i].state == NODE_RUNS && !nodes[i].plain)
		fi_cq_read(nodes[i].cq, NULL, 0);
}

void node_others(void)
{
	static bool within;
	const unsigned int node = world.current;

	if (within)
		return;
	within = true;
	world_datagrams();
	for (unsigned int i = 0; i < world.script->nodes; i++) {
		if (i != node && nodes[i].state == NODE_RUNS)
			node_turn(i);
	}
	world.current = node;
	within = false;
}

/* Does it go whole, so that the core alone knows of its end? */
static bool core_alone(const struct op_plan *plan)
{
	if (plan->kind != OP_MESSAGE)
		return !plan->from_dev && !plan->to_dev;
	return (!plan->from_dev || plan->len <= conf.eager_size);
}

bool op_end_lost(const struct op *op, unsigned int end)
{
	const unsigned int node = end_node(op, end), peer = end_node(op, !end);
	const bool met = nodes[node].met[peer] == process_number(peer, op->ends[!end].life);
	const bool succeeded = nodes[peer].state != NODE_DEAD;

	return !end_lives(op, !end) &&
	       ((!met && !succeeded) ||
		(world.script->model->silent && !end && core_alone(&op->plan)));
}

bool op_end_over(const struct op *op, unsigned int end)
{
	const struct op_end *at = &op->ends[end];

	return !end_exists(op, end) || !end_lives(op, end) || at->done || at->skipped ||
	       op_end_lost(op, end);
}

bool op_ended(const struct op *op)
{
	return op_end_over(op, 0) && op_end_over(op, 1);
}

void op_cancel(struct op *op)
{
	world.current = op->plan.to;
	op->ends[1].cancelled = true;
	if (!op->ends[1].posted)
		op->ends[1].skipped = true;
	else if (nodes[op->plan.to].state == NODE_RUNS)
		fi_cancel(&nodes[op->plan.to].ep->fid, &op->ends[1].context);
}
