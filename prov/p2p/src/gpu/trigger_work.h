/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A work: an operation that waits for a counter. It is a copy of what the application has said, but for
 * the data. So only the buffers have to stay as they are.
 */
#ifndef P2P_TRIGGER_WORK_H
#define P2P_TRIGGER_WORK_H

#include "fid/cntr.h"
#include "fid/ep.h"
#include "xfer/op.h"

/**
 * struct trigger_work - a work.
 * @deferred:	FI_QUEUE_WORK's, which it is known by; NULL: an operation with FI_TRIGGER
 * @ep:		posts it; NULL: it changes a counter
 * @cntr, @threshold: it waits until the counter has come so far
 * @done:	counts its completion, if it is @deferred; or NULL
 * @context:	the user's
 * @op, @kept:	what is posted, without FI_TRIGGER; of what changes a counter only the type counts
 * @changed, @value: the counter that it changes, and by or to which value
 * @entry:	on its counter's list, or that of those that are due
 */
struct trigger_work {
	const struct fi_deferred_work *deferred;
	struct p2p_ep *ep;
	struct p2p_cntr *cntr;
	uint64_t threshold;
	struct p2p_cntr *done;
	void *context;
	struct p2p_op op;
	struct op_kept kept;
	struct p2p_cntr *changed;
	uint64_t value;
	TAILQ_ENTRY(trigger_work) entry;
};

#define TRIGGER_NO_CNTR "a counter is missing, or not of its domain"

/* The counter of that domain that this is; NULL: it is none */
struct p2p_cntr *trigger_cntr(const struct p2p_domain *domain, struct fid_cntr *fid);

/* Says why an operation may not wait for a counter. Returns @err */
int trigger_refuse(int err, const char *why);

/*
 * Makes one of an operation. 0, -FI_ENOSYS if such cannot wait, -FI_EINVAL or -FI_ENOMEM. The caller
 * sets what it waits for.
 */
int trigger_work_new(struct p2p_ep *ep, const struct p2p_op *op, struct trigger_work **work);

/* To whom its endpoint sends, or whose memory it reaches */
fi_addr_t trigger_work_addr(const struct trigger_work *work);

/* Posts it, with @context. 0 or an error */
ssize_t trigger_work_post(const struct trigger_work *work, void *context);

#endif /* P2P_TRIGGER_WORK_H */
