/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A work: an operation that waits for a counter. It is a copy of what the application has said, but for
 * the data. So only the buffers have to stay as they are.
 */
#ifndef P2P_TRIGGER_WORK_H
#define P2P_TRIGGER_WORK_H

#include <sys/queue.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/fi_trigger.h>

#include "base/base.h"
#include "fid/cntr.h"
#include "fid/ep.h"

/* An array of an atomic operation, with its descriptors */
struct trigger_array {
	struct fi_ioc ioc[P2P_IOV_MAX];
	void *desc[P2P_IOV_MAX];
	size_t count;
};

/**
 * struct trigger_work - a work.
 * @type:	which operation, a receive of FI_OP_RECV or a sum of FI_OP_CNTR_ADD
 * @deferred:	FI_QUEUE_WORK's, which it is known by; NULL: an operation with FI_TRIGGER
 * @ep:		posts it; NULL: it changes a counter
 * @cntr, @threshold: it waits until the counter has come so far
 * @done:	counts its completion, if it is @deferred; or NULL
 * @context:	the user's
 * @flags:	the operation's, without FI_TRIGGER
 * @iov, @desc, @remote, @operand, @remote_ioc, @compare, @result: what the messages point to
 * @count:	the counter that it changes, and by or to which value
 * @entry:	on one of the lists of trigger_list.h
 */
struct trigger_work {
	enum fi_op_type type;
	const struct fi_deferred_work *deferred;
	struct p2p_ep *ep;
	struct p2p_cntr *cntr;
	uint64_t threshold;
	struct p2p_cntr *done;
	void *context;
	uint64_t flags;
	union {
		struct fi_msg msg;
		struct fi_msg_tagged tagged;
		struct fi_msg_rma rma;
		struct fi_msg_atomic atomic;
		struct {
			struct p2p_cntr *cntr;
			uint64_t value;
		} count;
	} op;
	union {
		struct {
			struct iovec iov[P2P_IOV_MAX];
			void *desc[P2P_IOV_MAX];
			struct fi_rma_iov remote[OP_RMA_MAX];
		};
		struct {
			struct trigger_array operand;
			struct trigger_array compare;
			struct trigger_array result;
			struct fi_rma_ioc remote_ioc[OP_RMA_MAX];
		};
	};
	TAILQ_ENTRY(trigger_work) entry;
};

TAILQ_HEAD(trigger_works, trigger_work);

/* Says why an operation may not wait for a counter. Returns @err */
int trigger_refuse(int err, const char *why);

/*
 * Makes one of an operation. 0, -FI_ENOSYS if such cannot wait, -FI_EINVAL or -FI_ENOMEM. The caller
 * sets what it waits for.
 */
int trigger_work_msg(struct p2p_ep *ep, enum fi_op_type type, const struct fi_msg *msg,
		     uint64_t flags, struct trigger_work **work);
int trigger_work_tagged(struct p2p_ep *ep, enum fi_op_type type,
			const struct fi_msg_tagged *msg, uint64_t flags,
			struct trigger_work **work);
int trigger_work_rma(struct p2p_ep *ep, enum fi_op_type type, const struct fi_msg_rma *msg,
		     uint64_t flags, struct trigger_work **work);

/* @fetch, @compare: NULL where the operation has none */
int trigger_work_atomic(struct p2p_ep *ep, enum fi_op_type type,
			const struct fi_msg_atomic *msg, const struct fi_msg_fetch *fetch,
			const struct fi_msg_compare *compare, uint64_t flags,
			struct trigger_work **work);
int trigger_work_cntr(struct p2p_cntr *cntr, enum fi_op_type type, uint64_t value,
		      struct trigger_work **work);

/* Does it receive a message, or else belong to the sending side of its endpoint? */
static inline bool trigger_work_recv(const struct trigger_work *work)
{
	return work->type == FI_OP_RECV || work->type == FI_OP_TRECV;
}

/* To whom its endpoint sends, or whose memory it reaches */
fi_addr_t trigger_work_addr(const struct trigger_work *work);

/* The flags of its completion, of which one tells what counts it */
uint64_t trigger_work_comp_flags(const struct trigger_work *work);

/* Posts it by the call that it stands for, with @context. What that call says */
ssize_t trigger_work_post(struct trigger_work *work, void *context);

#endif /* P2P_TRIGGER_WORK_H */
