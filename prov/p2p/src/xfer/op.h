/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Operations, in libfabric's own structures. Calls, works that wait for counters, streams and kernels all fill a
 * struct p2p_op, and so do protocols, for the core.
 */
#ifndef P2P_OP_H
#define P2P_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/fi_trigger.h>

#include "base/base.h"

struct dev_mem;

/* Pieces of remote memory that one operation may have: no core takes more */
#define OP_RMA_MAX 4

/* Which of libfabric's calls it is: one with flags of its own, one with the endpoint's, or one to inject, which never completes */
enum op_call { OP_FLAGGED, OP_PLAIN, OP_INJECT };

/**
 * struct p2p_op - an operation of an endpoint.
 * @call:	the core gets the same call, if it can do it alone: its own flags are for the others, and not all cores
 *		have atomic operations with flags
 * @notices:	a message tells of this write, with its data, and takes a receive at the other end. Not for the core
 * @flags:	as for the call of this type that has some, the endpoint's where @call has none
 * @seen:	as for mem_classify()
 * @msg:	of messages; without a tag if they have none
 * @rma:	of reads and writes; with 1 to OP_RMA_MAX pieces of remote memory, as long as the local ones together
 * @atomic:	of atomic operations; @fetch and @compare have no pieces where the operation has no such array
 */
struct p2p_op {
	enum fi_op_type type;
	enum op_call call;
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

_Static_assert(sizeof(struct iovec) == sizeof(struct fi_ioc) &&
		       sizeof(struct fi_rma_iov) == sizeof(struct fi_rma_ioc),
	       "pieces are copied alike");
_Static_assert(offsetof(struct p2p_op, msg.addr) == offsetof(struct p2p_op, rma.addr) &&
		       offsetof(struct p2p_op, msg.addr) ==
			       offsetof(struct p2p_op, atomic.addr),
	       "the address is at one place");

/* Begins an operation. The caller sets the member of the union: nothing is set twice for host messages */
static inline void op_init(struct p2p_op *op, enum fi_op_type type, enum op_call call,
			   uint64_t flags)
{
	op->type = type;
	op->call = call;
	op->notices = false;
	op->flags = flags;
	op->seen = NULL;
}

static inline void op_set_msg(struct p2p_op *op, const struct fi_msg *msg)
{
	op->msg = (struct fi_msg_tagged){.msg_iov = msg->msg_iov,
					 .desc = msg->desc,
					 .iov_count = msg->iov_count,
					 .addr = msg->addr,
					 .context = msg->context,
					 .data = msg->data};
}

/* Tells whether an op is a receive. */
static inline bool op_receives(const struct p2p_op *op)
{
	return op->type == FI_OP_RECV || op->type == FI_OP_TRECV;
}

/* Tells whether an op is a tagged message. */
static inline bool op_tagged(const struct p2p_op *op)
{
	return op->type == FI_OP_TRECV || op->type == FI_OP_TSEND;
}

/* Returns the flags of an op's completion, of which one tells what counts it */
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

/* Where its context is */
static inline void **op_context(struct p2p_op *op)
{
	if (op->type >= FI_OP_ATOMIC)
		return &op->atomic.context;
	return op->type >= FI_OP_READ ? &op->rma.context : &op->msg.context;
}

/* An array of pieces, with their descriptors */
struct op_array {
	union {
		struct iovec iov[P2P_IOV_MAX];
		struct fi_ioc ioc[P2P_IOV_MAX];
	};
	void *desc[P2P_IOV_MAX];
};

/**
 * struct op_kept - what the pointers of an operation lead to, but for the data.
 */
struct op_kept {
	struct op_array local;
	struct op_array compare;
	struct op_array fetch;
	union {
		struct fi_rma_iov rma[OP_RMA_MAX];
		struct fi_rma_ioc rma_ioc[OP_RMA_MAX];
	};
};

/*
 * Copies what an operation points to, for one that is carried out later. @described: what it says of descriptors is true.
 * False: it has no list of pieces, or too many
 */
bool op_keep(struct p2p_op *op, struct op_kept *to, bool described);

#endif /* P2P_OP_H */
