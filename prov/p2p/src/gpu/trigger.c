/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The deferred work queue. See trigger.h. */
#include "gpu/trigger.h"

#include <stdlib.h>
#include <rdma/fi_errno.h>

#include "fid/fid.h"
#include "gpu/trigger_alias.h"
#include "gpu/trigger_ep.h"
#include "gpu/trigger_list.h"

/* An endpoint that is to post a work; NULL: it cannot */
static struct p2p_ep *trigger_work_ep(const struct p2p_domain *domain, struct fid_ep *fid)
{
	struct p2p_ep *ep = trigger_ep(domain, fid);

	if (ep && (ep->xfer.started || !ep->xfer.layered))
		return ep;
	trigger_refuse(-FI_EINVAL, "its endpoint is not of its domain, or not enabled");
	return NULL;
}

static int trigger_make_atomic(const struct p2p_domain *domain,
			       const struct fi_deferred_work *deferred,
			       struct trigger_work **work)
{
	const struct fi_op_compare_atomic *compare = deferred->op.compare_atomic;
	const struct fi_op_fetch_atomic *fetch = deferred->op.fetch_atomic;
	const struct fi_op_atomic *atomic = deferred->op.atomic;
	struct p2p_ep *ep = trigger_work_ep(domain, atomic->ep);

	if (!ep)
		return -FI_EINVAL;
	switch (deferred->op_type) {
	case FI_OP_FETCH_ATOMIC:
		return trigger_work_atomic(ep, FI_OP_FETCH_ATOMIC, &fetch->msg, &fetch->fetch,
					   NULL, fetch->flags & ~FI_TRIGGER, work);
	case FI_OP_COMPARE_ATOMIC:
		return trigger_work_atomic(ep, FI_OP_COMPARE_ATOMIC, &compare->msg,
					   &compare->fetch, &compare->compare,
					   compare->flags & ~FI_TRIGGER, work);
	default:
		return trigger_work_atomic(ep, FI_OP_ATOMIC, &atomic->msg, NULL, NULL,
					   atomic->flags & ~FI_TRIGGER, work);
	}
}

static int trigger_make_cntr(const struct p2p_domain *domain,
			     const struct fi_deferred_work *deferred,
			     struct trigger_work **work)
{
	struct p2p_cntr *cntr = trigger_cntr(domain, deferred->op.cntr->cntr);

	if (deferred->completion_cntr)
		return trigger_refuse(-FI_EINVAL, "it changes a counter: none counts that");
	if (!cntr)
		return trigger_refuse(-FI_EINVAL, TRIGGER_NO_CNTR);
	return trigger_work_cntr(cntr, deferred->op_type, deferred->op.cntr->value, work);
}

/* Makes a work of what the application has asked for. 0 or an error */
static int trigger_make(const struct p2p_domain *domain,
			const struct fi_deferred_work *deferred, struct trigger_work **work)
{
	const enum fi_op_type type = deferred->op_type;
	const struct fi_op_tagged *tagged = deferred->op.tagged;
	const struct fi_op_rma *rma = deferred->op.rma;
	const struct fi_op_msg *msg = deferred->op.msg;
	struct p2p_ep *ep;

	if (!msg)
		return -FI_EINVAL;
	switch (type) {
	case FI_OP_RECV:
	case FI_OP_SEND:
		ep = trigger_work_ep(domain, msg->ep);
		return ep ? trigger_work_msg(ep, type, &msg->msg, msg->flags & ~FI_TRIGGER,
					     work)
			  : -FI_EINVAL;
	case FI_OP_TRECV:
	case FI_OP_TSEND:
		ep = trigger_work_ep(domain, tagged->ep);
		return ep ? trigger_work_tagged(ep, type, &tagged->msg,
						tagged->flags & ~FI_TRIGGER, work)
			  : -FI_EINVAL;
	case FI_OP_READ:
	case FI_OP_WRITE:
		ep = trigger_work_ep(domain, rma->ep);
		return ep ? trigger_work_rma(ep, type, &rma->msg, rma->flags & ~FI_TRIGGER,
					     work)
			  : -FI_EINVAL;
	case FI_OP_ATOMIC:
	case FI_OP_FETCH_ATOMIC:
	case FI_OP_COMPARE_ATOMIC:
		return trigger_make_atomic(domain, deferred, work);
	case FI_OP_CNTR_SET:
	case FI_OP_CNTR_ADD:
		return trigger_make_cntr(domain, deferred, work);
	}
	return -FI_ENOSYS;
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
	.ep_open = trigger_ep_open,
	.ep_flags = trigger_ep_flags,
	.ep_busy = trigger_ep_busy,
	.ep_close = trigger_ep_close,
};
