/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Graphs and their capture. All functions want the lock.
 *
 * A node is an operation of a stream that has not been queued, and the nodes that it follows. A
 * graph has its nodes in an order that fits: each comes behind those that it follows.
 */
#ifndef CUDAEMU_GRAPH_H
#define CUDAEMU_GRAPH_H

#include "emu.h"

struct CUgraphNode_st {
	struct emu_op *op;
	struct emu_nodes after;
	size_t number; /* within its graph */
	bool reached;  /* for whoever walks the graph */
};

/* References to a user object that a graph has, or something that was made from one */
struct emu_held {
	struct CUuserObject_st *object;
	unsigned int count;
	struct emu_held *next;
};

struct CUgraph_st {
	uint32_t magic;
	struct emu_nodes nodes;
	struct emu_held *held;
	bool capturing; /* belongs to a capture until that ends */
	struct CUgraph_st *next;
};

/* From cuStreamBeginCapture to cuStreamEndCapture, on all streams that have joined */
struct emu_capture {
	uint64_t id;
	struct CUstream_st *origin;
	struct CUgraph_st *graph;
	CUstreamCaptureMode mode;
	pthread_t thread;
	bool invalid;
	struct emu_capture *next;
};

/* graph.c */
struct CUgraph_st *emu_graph_new(void);
void emu_graph_destroy(struct CUgraph_st *graph);
bool emu_graph_valid(const struct CUgraph_st *graph);
void emu_nodes_add(struct emu_nodes *nodes, struct CUgraphNode_st *node);
void emu_nodes_clear(struct emu_nodes *nodes);
void emu_graph_append(struct CUgraph_st *graph, struct emu_op *op, struct emu_nodes *after);

/* user_object.c */
void emu_held_copy(struct emu_held **to, const struct emu_held *from);
/* Lets go of all, once all that is queued in the streams has been done */
void emu_held_drop(struct emu_held **held, struct CUstream_st **streams, size_t count);

#endif /* CUDAEMU_GRAPH_H */
