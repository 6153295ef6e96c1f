/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The deferred work queue. See trigger.h. */
#include "gpu/trigger.h"

#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>

#include "fid/fid.h"
#include "gpu/trigger_ep.h"
#include "gpu/trigger_list.h"

/* An endpoint that is to post a work; NULL: it cannot */
static struct p2p_ep *trigger_work_ep(const struct p2p_domain *domain, struct fid_ep *fid)
{
	struct p2p_ep *ep = fid && ep_posts(&fid->fid) ? ep_itself(&fid->fid) : NULL;

	if (ep && ep->domain == domain && (ep->xfer.started || !xfer_announces(&domain->xfer)))
		return ep;
	trigger_refuse(-FI_EINVAL, "its endpoint is not of its domain, or not enabled");
	return NULL;
}

/* What such begin has no one completion: it cannot be counted once. */
#define TRIGGER_NOT_COUNTED (FI_MULTI_RECV | FI_PEEK | FI_CLAIM | FI_DISCARD)

static int trigger_make_cntr(const struct p2p_domain *domain,
			     const struct fi_deferred_work *deferred,
			     struct trigger_work **work)
{
	struct p2p_cntr *cntr = trigger_cntr(domain, deferred->op.cntr->cntr);

	if (deferred->completion_cntr)
		return trigger_refuse(-FI_EINVAL, "it changes a counter: none counts that");
	if (!cntr)
		return trigger_refuse(-FI_EINVAL, TRIGGER_NO_CNTR);
	*work = calloc(1, sizeof **work);
	if (!*work)
		return -FI_ENOMEM;
	(*work)->op.type = deferred->op_type;
	(*work)->changed = cntr;
	(*work)->value = deferred->op.cntr->value;
	return 0;
}

/* The operation of a work that is no counter's. 0 or -FI_ENOSYS */
static int trigger_op(const struct fi_deferred_work *deferred, struct p2p_op *op)
{
	memset(op, 0, sizeof *op);
	op_init(op, deferred->op_type, OP_FLAGGED, 0);
	switch (op->type) {
	case FI_OP_RECV:
	case FI_OP_SEND:
		op_set_msg(op, &deferred->op.msg->msg);
		op->flags = deferred->op.msg->flags;
		return 0;
	case FI_OP_TRECV:
	case FI_OP_TSEND:
		op->msg = deferred->op.tagged->msg;
		op->flags = deferred->op.tagged->flags;
		return 0;
	case FI_OP_READ:
	case FI_OP_WRITE:
		op->rma = deferred->op.rma->msg;
		op->flags = deferred->op.rma->flags;
		return 0;
	case FI_OP_ATOMIC:
		op->atomic = deferred->op.atomic->msg;
		op->flags = deferred->op.atomic->flags;
		return 0;
	case FI_OP_FETCH_ATOMIC:
		op->atomic = deferred->op.fetch_atomic->msg;
		op->fetch = deferred->op.fetch_atomic->fetch;
		op->flags = deferred->op.fetch_atomic->flags;
		return 0;
	case FI_OP_COMPARE_ATOMIC:
		op->atomic = deferred->op.compare_atomic->msg;
		op->fetch = deferred->op.compare_atomic->fetch;
		op->compare = deferred->op.compare_atomic->compare;
		op->flags = deferred->op.compare_atomic->flags;
		return 0;
	default:
		return -FI_ENOSYS;
	}
}

/* Makes a work of what the application has asked for. 0 or an error */
static int trigger_make(const struct p2p_domain *domain,
			const struct fi_deferred_work *deferred, struct trigger_work **work)
{
	struct p2p_ep *ep;
	struct p2p_op op;
	int ret;

	if (!deferred->op.msg)
		return -FI_EINVAL;
	if (deferred->op_type == FI_OP_CNTR_SET || deferred->op_type == FI_OP_CNTR_ADD)
		return trigger_make_cntr(domain, deferred, work);
	ret = trigger_op(deferred, &op);
	if (ret)
		return ret;
	/* each of them begins with its endpoint */
	ep = trigger_work_ep(domain, deferred->op.msg->ep);
	if (!ep)
		return -FI_EINVAL;
	if (op.flags & TRIGGER_NOT_COUNTED)
		return trigger_refuse(-FI_ENOSYS,
				      "it is deferred work, and may not complete just once");
	return trigger_work_new(ep, &op, work);
}

static int trigger_queue_work(struct p2p_domain *domain,
			      const struct fi_deferred_work *deferred)
{
	struct p2p_cntr *cntr, *done;
	struct trigger_work *work;
	int ret;

	if (!deferred)
		return -FI_EINVAL;
	cntr = trigger_cntr(domain, deferred->triggering_cntr);
	done = trigger_cntr(domain, deferred->completion_cntr);
	if (!cntr || (deferred->completion_cntr && !done))
		return trigger_refuse(-FI_EINVAL, TRIGGER_NO_CNTR);
	ret = trigger_make(domain, deferred, &work);
	if (ret)
		return ret;
	work->deferred = deferred;
	work->cntr = cntr;
	work->threshold = deferred->threshold;
	work->done = done;
	return trigger_queue(domain->trigger, work);
}

/* @fid: a counter, or NULL for all works of the domain */
static int trigger_flush(struct p2p_domain *domain, struct fid_cntr *fid)
{
	struct p2p_cntr *cntr = trigger_cntr(domain, fid);

	if (fid && !cntr)
		return -FI_EINVAL;
	trigger_drop(domain->trigger, NULL, cntr);
	return 0;
}

static int trigger_control(struct p2p_domain *domain, int command, void *arg)
{
	switch (command) {
	case FI_QUEUE_WORK:
		return trigger_queue_work(domain, arg);
	case FI_CANCEL_WORK:
		if (!arg)
			return -FI_EINVAL;
		return trigger_drop(domain->trigger, arg, NULL) ? 0 : -FI_ENOENT;
	case FI_FLUSH_WORK:
		return trigger_flush(domain, arg);
	default:
		return fid_control(&domain->fid.fid, command, arg);
	}
}

const struct domain_triggers triggers = {
	.open = trigger_init,
	.close = trigger_fini,
	.control = trigger_control,
	.alias = trigger_ep_alias,
	.cancel = trigger_cancel,
	.ep_open = trigger_ep_open,
	.ep_flags = trigger_ep_flags,
	.ep_close = trigger_ep_close,
};
