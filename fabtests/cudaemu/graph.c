/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Graphs: made by capture, run again and again.
 *
 * What is instantiated has streams of its own, the lanes. A node runs in the lane of one that it
 * follows; a node beside that one has another lane. A launch queues copies of all operations in the
 * lanes, with waits between them. The stream of the launch goes on when all lanes have come to
 * their end. So nodes that do not follow each other run at the same time, as they may wait for
 * each other's values.
 *
 * Not emulated: nodes that are added by hand, that allocate, or that are graphs. The latter two are refused. A launch does
 * not notice that memory has been freed since the capture.
 */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

#define EMU_GRAPH_MAGIC 0x47524150u
#define EMU_EXEC_MAGIC 0x47455845u

struct emu_step {
	struct emu_op *op; /* what is queued is a copy of it */
	size_t lane;
	size_t *after; /* steps of other lanes */
	size_t count;
	uint64_t seq; /* of the latest launch */
};

struct CUgraphExec_st {
	uint32_t magic;
	struct CUctx_st *ctx;
	unsigned int ctx_id;
	struct emu_step *steps;
	size_t nsteps;
	struct CUstream_st **lanes;
	size_t nlanes;
	struct emu_held *held;
	struct CUgraphExec_st *next;
};

/* Destroyed ones are used again, so a look at a stale handle is safe */
static struct CUgraph_st *emu_graphs;
static struct CUgraphExec_st *emu_execs;

static void *emu_alloc_zero(size_t count, size_t size)
{
	void *p = calloc(count ? count : 1, size);

	if (!p)
		emu_die("graph");
	return p;
}

/* ---- sets of nodes ---- */

void emu_nodes_clear(struct emu_nodes *nodes)
{
	free(nodes->node);
	*nodes = (struct emu_nodes){NULL, 0};
}

static void emu_nodes_append(struct emu_nodes *nodes, struct CUgraphNode_st *node)
{
	/* to a power of two, whenever the count is one */
	if (!(nodes->count & (nodes->count - 1))) {
		nodes->node = realloc(nodes->node,
				      (nodes->count ? nodes->count * 2 : 1) * sizeof(node));
		if (!nodes->node)
			emu_die("nodes of a graph");
	}
	nodes->node[nodes->count++] = node;
}

void emu_nodes_add(struct emu_nodes *nodes, struct CUgraphNode_st *node)
{
	size_t i;

	for (i = 0; i < nodes->count; i++)
		if (nodes->node[i] == node)
			return;
	emu_nodes_append(nodes, node);
}

/* ---- graphs ---- */

bool emu_graph_valid(const struct CUgraph_st *graph)
{
	return graph && graph->magic == EMU_GRAPH_MAGIC;
}

struct CUgraph_st *emu_graph_new(void)
{
	struct CUgraph_st *graph;

	for (graph = emu_graphs; graph; graph = graph->next)
		if (!graph->magic)
			break;
	if (!graph) {
		graph = emu_alloc_zero(1, sizeof(*graph));
		graph->next = emu_graphs;
		emu_graphs = graph;
	}
	graph->magic = EMU_GRAPH_MAGIC;
	return graph;
}

void emu_graph_destroy(struct CUgraph_st *graph)
{
	struct CUgraphNode_st *node;
	size_t i;

	for (i = 0; i < graph->nodes.count; i++) {
		node = graph->nodes.node[i];
		emu_nodes_clear(&node->after);
		emu_op_free(node->op);
		free(node);
	}
	emu_nodes_clear(&graph->nodes);
	emu_held_drop(&graph->held, NULL, 0);
	graph->magic = 0;
}

/* Makes a node that follows others, and puts it in their place. Takes the operation over. */
void emu_graph_append(struct CUgraph_st *graph, struct emu_op *op, struct emu_nodes *after)
{
	struct CUgraphNode_st *node = emu_alloc_zero(1, sizeof(*node));

	node->op = op;
	node->after = *after;
	node->number = graph->nodes.count;
	emu_nodes_append(&graph->nodes, node);
	*after = (struct emu_nodes){NULL, 0};
	emu_nodes_append(after, node);
}

EMU_API(cuGraphCreate, CUgraph *out, unsigned int flags)
{
	EMU_ENTER(EMU_NEED_INIT);
	if (!out || flags)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&emu.lock);
	*out = emu_graph_new();
	pthread_mutex_unlock(&emu.lock);
	return CUDA_SUCCESS;
}

EMU_API(cuGraphDestroy, CUgraph graph)
{
	CUresult rc = CUDA_ERROR_INVALID_VALUE;

	EMU_ENTER(EMU_NEED_INIT);
	pthread_mutex_lock(&emu.lock);
	if (emu_graph_valid(graph) && !graph->capturing) {
		emu_graph_destroy(graph);
		rc = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

/* With no room for nodes, tells only how many there are */
EMU_API(cuGraphGetNodes, CUgraph graph, CUgraphNode *nodes, size_t *count)
{
	CUresult rc = CUDA_ERROR_INVALID_VALUE;
	size_t i;

	EMU_ENTER(EMU_NEED_INIT);
	pthread_mutex_lock(&emu.lock);
	if (emu_graph_valid(graph) && count) {
		for (i = 0; nodes && i < *count; i++)
			nodes[i] = i < graph->nodes.count ? graph->nodes.node[i] : NULL;
		if (!nodes || *count > graph->nodes.count)
			*count = graph->nodes.count;
		rc = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

/* ---- instantiation ---- */

static struct CUgraphExec_st *emu_exec_unused(void)
{
	struct CUgraphExec_st *exec;

	for (exec = emu_execs; exec; exec = exec->next)
		if (!exec->magic)
			return exec;
	exec = emu_alloc_zero(1, sizeof(*exec));
	exec->next = emu_execs;
	emu_execs = exec;
	return exec;
}

static size_t emu_lane_new(struct CUgraphExec_st *exec)
{
	struct CUstream_st *lane;

	if (emu_stream_create(exec->ctx, CU_STREAM_NON_BLOCKING, 0, &lane))
		emu_die("stream for a graph");
	lane->implicit = true;
	exec->lanes[exec->nlanes] = lane;
	return exec->nlanes++;
}

/* last[lane] is the node that a lane ends with */
static void emu_step_init(struct CUgraphExec_st *exec, const struct CUgraphNode_st *node,
			  size_t *last)
{
	struct emu_step *step = &exec->steps[node->number];
	size_t i, number;
	bool placed = false;

	step->op = emu_op_copy(node->op);
	for (i = 0; !placed && i < node->after.count; i++) {
		number = node->after.node[i]->number;
		step->lane = exec->steps[number].lane;
		placed = last[step->lane] == number;
	}
	if (!placed)
		step->lane = emu_lane_new(exec);
	last[step->lane] = node->number;
	step->after = emu_alloc_zero(node->after.count, sizeof(*step->after));
	for (i = 0; i < node->after.count; i++) {
		number = node->after.node[i]->number;
		if (exec->steps[number].lane != step->lane)
			step->after[step->count++] = number;
	}
}

static struct CUgraphExec_st *emu_exec_new(const struct CUgraph_st *graph)
{
	struct CUgraphExec_st *exec = emu_exec_unused();
	size_t *last = emu_alloc_zero(graph->nodes.count, sizeof(*last)), i;

	exec->magic = EMU_EXEC_MAGIC;
	exec->ctx = emu_ctx_current();
	exec->ctx_id = exec->ctx->id;
	exec->nsteps = graph->nodes.count;
	exec->steps = emu_alloc_zero(exec->nsteps, sizeof(*exec->steps));
	exec->lanes = emu_alloc_zero(exec->nsteps, sizeof(struct CUstream_st *));
	exec->nlanes = 0;
	for (i = 0; i < exec->nsteps; i++)
		emu_step_init(exec, graph->nodes.node[i], last);
	emu_held_copy(&exec->held, graph->held);
	free(last);
	return exec;
}

EMU_API(cuGraphInstantiateWithFlags, CUgraphExec *out, CUgraph graph, unsigned long long flags)
{
	CUresult rc = CUDA_ERROR_INVALID_VALUE;

	EMU_ENTER(EMU_NEED_CTX);
	if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (!out ||
	    flags & ~(unsigned long long) (CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
					   CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY))
		return rc;
	pthread_mutex_lock(&emu.lock);
	if (emu_graph_valid(graph) && !graph->capturing) {
		*out = emu_exec_new(graph);
		rc = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

/* No node is ever at fault here, so there is nothing to tell */
EMU_API(cuGraphInstantiate_v2, CUgraphExec *out, CUgraph graph, CUgraphNode *fault, char *log,
	size_t size)
{
	if (fault)
		*fault = NULL;
	if (log && size)
		*log = 0;
	return cuGraphInstantiateWithFlags(out, graph, 0);
}

/* What has been launched still runs */
EMU_API(cuGraphExecDestroy, CUgraphExec exec)
{
	CUresult rc = CUDA_ERROR_INVALID_VALUE;
	size_t i;

	EMU_ENTER(EMU_NEED_INIT);
	pthread_mutex_lock(&emu.lock);
	if (exec && exec->magic == EMU_EXEC_MAGIC) {
		emu_held_drop(&exec->held, exec->lanes, exec->nlanes);
		for (i = 0; i < exec->nlanes; i++)
			emu_stream_retire(exec->lanes[i]);
		for (i = 0; i < exec->nsteps; i++) {
			emu_op_free(exec->steps[i].op);
			free(exec->steps[i].after);
		}
		free(exec->steps);
		free(exec->lanes);
		exec->magic = 0;
		rc = CUDA_SUCCESS;
	}
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

/* ---- launch ---- */

static void emu_step_queue(struct CUgraphExec_st *exec, struct emu_step *step)
{
	struct CUstream_st *lane = exec->lanes[step->lane];
	const struct emu_step *other;
	struct emu_op *op;
	size_t i;

	for (i = 0; i < step->count; i++) {
		other = &exec->steps[step->after[i]];
		op = emu_op_new(EMU_OP_WAIT);
		op->wait = (struct emu_point){exec->lanes[other->lane], other->seq};
		emu_stream_enqueue(lane, op);
	}
	op = emu_op_copy(step->op);
	if (op->kind == EMU_OP_WAIT_EVENT)
		emu_event_wait(op);
	emu_stream_enqueue(lane, op);
	if (op->kind == EMU_OP_RECORD)
		emu_event_record(op->event, lane);
	step->seq = lane->tail_seq;
}

static CUresult emu_exec_launch(struct CUgraphExec_st *exec, struct CUstream_st *stream)
{
	size_t i, j;

	if (!exec || exec->magic != EMU_EXEC_MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	if (!emu_ctx_is_open(exec->ctx) || exec->ctx->id != exec->ctx_id)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	/* graphs within graphs are not emulated */
	if (stream->capture)
		return emu_capture_refuse(stream);
	emu_stream_order(stream);
	for (i = 0; i < exec->nlanes; i++) {
		emu_stream_follow(exec->lanes[i], stream);
		for (j = 0; j < exec->nlanes; j++)
			if (j != i)
				emu_stream_follow(exec->lanes[i], exec->lanes[j]);
	}
	for (i = 0; i < exec->nsteps; i++)
		emu_step_queue(exec, &exec->steps[i]);
	for (i = 0; i < exec->nlanes; i++)
		emu_stream_follow(stream, exec->lanes[i]);
	emu_stream_kick(stream);
	return CUDA_SUCCESS;
}

EMU_API(cuGraphLaunch, CUgraphExec exec, CUstream stream)
{
	CUresult rc;

	EMU_ENTER(EMU_NEED_INIT);
	pthread_mutex_lock(&emu.lock);
	rc = emu_stream_get(stream, &stream);
	if (rc == CUDA_SUCCESS)
		rc = emu_exec_launch(exec, stream);
	pthread_mutex_unlock(&emu.lock);
	return rc;
}

/* Nothing has to be prepared. The stream's order is kept all the same. */
EMU_API(cuGraphUpload, CUgraphExec exec, CUstream stream)
{
	CUresult rc;

	EMU_ENTER(EMU_NEED_INIT);
	pthread_mutex_lock(&emu.lock);
	rc = emu_stream_get(stream, &stream);
	if (rc == CUDA_SUCCESS && (!exec || exec->magic != EMU_EXEC_MAGIC))
		rc = CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_unlock(&emu.lock);
	return rc;
}
