/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What an application can ask for, in libfabric's own structures. Calls, works that wait for counters, streams and
 * kernels fill the same one, and so do protocols, for the core.
 */
#ifndef P2P_OP_H
#define P2P_OP_H

#include <stdbool.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/fi_trigger.h>

struct dev_mem;

/* Pieces of remote memory that one operation may have: no core takes more */
#define OP_RMA_MAX 4

/**
 * struct p2p_op - an operation of an endpoint.
 * @plain:	it is what a call without flags does: if no array has several pieces an atomic operation goes to the
 *		core as that call, since not all cores have the other ones
 * @notices:	a message tells of this write, with its data, and takes a receive at the other end. Not for the core
 * @flags:	as for the call of this type that has some
 * @seen:	as for mem_classify()
 * @msg:	of messages; without a tag if they have none
 * @rma:	of reads and writes; with 1 to OP_RMA_MAX pieces of remote memory, as long as the local ones together
 * @atomic:	of atomic operations; @fetch and @compare have no pieces where the operation has no such array
 */
struct p2p_op {
	enum fi_op_type type;
	bool plain;
	bool notices;
	uint64_t flags;
	const struct dev_mem *seen;
	union {
		struct fi_msg_tagged msg;
		struct fi_msg_rma rma;
		struct {
			struct fi_msg_atomic atomic;
			struct fi_msg_fetch fetch;
			struct fi_msg_compare compare;
		};
	};
};

static inline bool op_receives(const struct p2p_op *op)
{
	return op->type == FI_OP_RECV || op->type == FI_OP_TRECV;
}

static inline bool op_tagged(const struct p2p_op *op)
{
	return op->type == FI_OP_TRECV || op->type == FI_OP_TSEND;
}

/* The flags of its completion, of which one tells what counts it */
static inline uint64_t op_done_flags(enum fi_op_type type)
{
	static const uint64_t flags[] = {
		[FI_OP_RECV] = FI_RECV | FI_MSG,
		[FI_OP_SEND] = FI_SEND | FI_MSG,
		[FI_OP_TRECV] = FI_RECV | FI_TAGGED,
		[FI_OP_TSEND] = FI_SEND | FI_TAGGED,
		[FI_OP_READ] = FI_READ | FI_RMA,
		[FI_OP_WRITE] = FI_WRITE | FI_RMA,
		[FI_OP_ATOMIC] = FI_WRITE | FI_ATOMIC,
		[FI_OP_FETCH_ATOMIC] = FI_READ | FI_ATOMIC,
		[FI_OP_COMPARE_ATOMIC] = FI_READ | FI_ATOMIC,
	};

	return type <= FI_OP_COMPARE_ATOMIC ? flags[type] : 0;
}

#endif /* P2P_OP_H */
