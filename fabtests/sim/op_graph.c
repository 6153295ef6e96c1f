/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Operations in graphs of the GPU (rdma/fi_ext_p2p.h). A stream is captured: it waits for a count, a kernel fills the
 * buffer, and the operation begins. The graph is launched some times, ahead or not. Each launch waits for a count more,
 * and does the operation once.
 */
#include "fiber.h"
#include "sim.h"

/* @go: each launch waits for one count of it; @launched: so many were, of op_plan.graph */
struct op_graph {
	struct gpu_graph *graph;
	struct fid_cntr *go;
	unsigned int launched;
};

static struct node_domain *domain_of_op(const struct op *op)
{
	return &nodes[op->plan.from].domains[SIM_DOMAIN_OF(op->plan.from_ep)];
}

/* Some have each launch wait for the one before */
static bool waits_for_last(const struct op *op)
{
	return op->number % 2;
}

static bool count_is_due(const struct op *op)
{
	return op->counted < op->graph->launched && world.now / 1000 >= op->ends[0].threshold &&
	       !(waits_for_last(op) && op->counted > op->ended);
}

/* Is there another launch, or a count? */
static bool graph_is_due(const struct op *op)
{
	return op->graph->launched < op->plan.graph || count_is_due(op);
}

bool op_graph_wants(const struct op *op)
{
	return op->graph && graph_is_due(op);
}

void op_graph_turn(struct op *op)
{
	struct op_graph *graph = op->graph;

	if (!graph || !graph_is_due(op) || world_upto(2))
		return;
	if (graph->launched < op->plan.graph && world_upto(2)) {
		graph->launched++;
		gpu_graph_launch(graph->graph, gpu_stream(op->plan.from, op->plan.stream - 1));
	} else if (count_is_due(op)) {
		/* the launch's kernel fills it again */
		if (waits_for_last(op))
			op_stream_spoil(op);
		op->counted++;
		if (fi_cntr_add(graph->go, 1))
			world_fail("n%u: a counter is not added to", op->plan.from);
	}
}

void op_graph_close(struct op *op)
{
	struct op_graph *graph = op->graph;

	if (!graph)
		return;
	op->graph = NULL;
	/* a child of fork() asks no driver */
	if (!world.child)
		gpu_graph_destroy(graph->graph);
	if (graph->go)
		SIM_MUST(fi_close(&graph->go->fid));
	free(graph);
}

int op_post_graph(struct op *op)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_NONE};
	void *stream = gpu_stream(op->plan.from, SIM_CAPTURED);
	struct op_graph *graph;
	int ret;

	if (!gpu_capture_begin(stream))
		return -FI_EAGAIN;
	graph = calloc(1, sizeof *graph);
	ret = fi_cntr_open(domain_of_op(op)->domain, &attr, &graph->go, NULL);
	/* other threads go on meanwhile */
	fiber_switch_point();
	if (!ret)
		ret = op_stream_put(op, 0, graph->go, 1, stream);
	fiber_switch_point();
	graph->graph = gpu_capture_end(stream);
	op->graph = graph;
	if (ret)
		op_graph_close(op);
	return ret;
}

bool op_graph_ended(struct op *op)
{
	op->ended++;
	if (!op->graph)
		return op->ended >= op->counted;
	if (op->ended < op->plan.graph)
		return false;
	if (op->ended > op->counted)
		world_fail("n%u: operation %u ends more often than it was launched",
			   op->plan.from, op->number);
	return true;
}

void op_graphs_close(unsigned int node, unsigned int d)
{
	for (size_t i = 0; i < op_count; i++) {
		struct op *op = &ops[i];

		if (op->plan.from == node && SIM_DOMAIN_OF(op->plan.from_ep) == d)
			op_graph_close(op);
	}
}
