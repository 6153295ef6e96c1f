/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Operations that begin when a stream of the GPU gets there (rdma/fi_ext_p2p.h). The stream waits for the clock of
 * op_trigger.c before. Then a kernel fills the buffer that is sent, so who sends too early sends wrong bytes.
 */
#include "sim.h"

#include <rdma/fi_ext_p2p.h>

#define STREAM_UNFILLED 0x77

unsigned int op_stream(const struct op *op, unsigned int end)
{
	return end ? op->plan.recv_stream : op->plan.stream;
}

/*
 * Does a stream wait for launches of a graph, and these for each other's ends? Where a core stops reading at a message
 * without a receive, they may be behind one whose receive is behind them. No application posts it there.
 */
static bool has_graph(unsigned int node, unsigned int stream)
{
	bool has = false;

	for (size_t i = 0; i < world.script->op_count && !has; i++) {
		const struct op_plan *plan = &world.script->ops[i];

		has = !plan->dropped && plan->graph && plan->from == node &&
		      plan->stream == stream;
	}
	return has;
}

bool op_is_streamed(const struct op *op, unsigned int end)
{
	const unsigned int node = op_node(op, end);
	const struct script *script = world.script;

	/* the provider's thread calls beside the application's */
	if (end && script->model->stalls && has_graph(node, op_stream(op, 1)))
		return false;
	return op_stream(op, end) && nodes[node].domains[SIM_DOMAIN_OF(op_ep(op, end))].clock &&
	       !(script->alone >> node & 1 && !(script->pairs >> node & 1));
}

void op_stream_spoil(struct op *op)
{
	memset(op->ends[0].buf, STREAM_UNFILLED, op->plan.len);
}

static void fill(void *arg)
{
	const struct op *op = arg;
	const struct op_end *at = &op->ends[0];

	if (at->buf && !at->done && !at->closed && op_end_lives(op, 0))
		check_fill(op, at->buf);
}

static bool is_for_one(const struct op *op, unsigned int end)
{
	return !end || (op->plan.directed && world.script->directs);
}

static struct fi_p2p_stream_op describe(struct op *op, unsigned int end)
{
	const struct op_plan *plan = &op->plan;
	const struct node_domain *there = &nodes[plan->to].domains[SIM_DOMAIN_OF(plan->to_ep)];

	return (struct fi_p2p_stream_op){
		.kind = plan->kind == OP_ADD     ? FI_P2P_STREAM_ATOMIC
			: plan->kind == OP_WRITE ? FI_P2P_STREAM_WRITE
			: plan->kind == OP_READ  ? FI_P2P_STREAM_READ
			: end                    ? FI_P2P_STREAM_TRECV
						 : FI_P2P_STREAM_TSEND,
		.flags = plan->kind == OP_READ || end                 ? 0
			 : plan->kind != OP_MESSAGE || plan->delivery ? FI_DELIVERY_COMPLETE
								      : 0,
		.buf = op->ends[end].buf,
		.len = end                    ? op->room
		       : plan->kind == OP_ADD ? plan->len / 8
					      : plan->len,
		.datatype = FI_UINT64,
		.op = FI_SUM,
		.peer = is_for_one(op, end) ? node_addr(op_node(op, end), op_ep(op, end),
							op_node(op, !end), op_ep(op, !end))
					    : FI_ADDR_UNSPEC,
		.tag = plan->kind == OP_MESSAGE ? op_tag(plan) : 0,
		.addr = plan->kind == OP_MESSAGE ? 0 : (uintptr_t) op->ends[1].buf,
		.key = plan->kind == OP_MESSAGE ? 0 : fi_mr_key(there->mr[op_region(plan)]),
		.context = &op->ends[end].context,
	};
}

int op_stream_put(struct op *op, unsigned int end, struct fid_cntr *cntr, uint64_t threshold,
		  void *stream)
{
	const unsigned int node = op_node(op, end);
	struct fid_ep *ep = nodes[node].eps[op_ep(op, end)].ep;
	struct fi_p2p_stream_op what = describe(op, end);
	int ret;

	if (what.peer == FI_ADDR_NOTAVAIL && is_for_one(op, end))
		return -FI_EAGAIN;
	ret = fi_p2p_stream_wait(&cntr->fid, threshold, stream);
	if (!ret && !end && op->plan.kind != OP_READ) {
		op_stream_spoil(op);
		gpu_stream_kernel(stream, fill, op);
	}
	return ret ? ret : fi_p2p_stream_post(ep, &what, stream);
}

int op_post_stream(struct op *op, unsigned int end)
{
	const unsigned int node = op_node(op, end);
	struct node_domain *domain = &nodes[node].domains[SIM_DOMAIN_OF(op_ep(op, end))];
	int ret;

	if (!end && op->plan.graph)
		ret = op_post_graph(op);
	else
		ret = op_stream_put(op, end, domain->clock, op->ends[end].threshold,
				    gpu_stream(node, op_stream(op, end) - 1));
	if (ret != -FI_ENOMEM)
		return ret;
	/* the stream may wait for the clock by now, which goes on for what is still to be posted */
	op_end_later(&op->ends[end]);
	return -FI_EAGAIN;
}
