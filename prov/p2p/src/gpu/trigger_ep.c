/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Endpoints. See trigger_ep.h. */
#include "gpu/trigger_ep.h"

#include <stdlib.h>
#include <rdma/fi_errno.h>

#include "fid/submit.h"
#include "gpu/trigger_alias.h"
#include "gpu/trigger_list.h"
#include "xfer/ep_state.h"
#include "xfer/progress.h"

static ssize_t trigger_ep_cancel(fid_t fid, void *context)
{
	struct p2p_ep *ep = ep_of(fid);
	struct trigger *trigger = ep->domain->trigger;
	ssize_t ret = trigger_cancel(trigger, ep, context);

	return ret == -FI_ENOENT ? trigger->ep_base->cancel(fid, context) : ret;
}

/* What the context of an operation says that it waits for. 0 or an error */
static int trigger_condition(const struct p2p_domain *domain, struct trigger_work *work)
{
	const struct fi_triggered_context *triggered = work->context;

	if (!triggered)
		return trigger_refuse(-FI_EINVAL, TRIGGER_NO_CNTR);
	if (triggered->event_type != FI_TRIGGER_THRESHOLD)
		return trigger_refuse(-FI_ENOSYS, "its event is not FI_TRIGGER_THRESHOLD");
	work->cntr = trigger_cntr(domain, triggered->trigger.threshold.cntr);
	work->threshold = triggered->trigger.threshold.threshold;
	return work->cntr ? 0 : trigger_refuse(-FI_EINVAL, TRIGGER_NO_CNTR);
}

/* Lets an operation wait for what its context says. */
static ssize_t trigger_wait(struct p2p_ep *ep, const struct p2p_op *op)
{
	struct trigger_work *work;
	int ret = trigger_work_new(ep, op, &work);

	if (ret)
		return ret;
	ret = trigger_condition(ep->domain, work);
	if (!ret)
		return trigger_queue(ep->domain->trigger, work);
	free(work);
	return ret;
}

/*
 * Posts what does not wait. What is fenced may not begin while what was posted before it waits for room: -FI_EAGAIN.
 * Who repeats the call makes progress by that
 */
static ssize_t trigger_post_now(struct p2p_ep *ep, struct p2p_op *op)
{
	if (!(op->flags & FI_FENCE) ||
	    !trigger_is_awaited(ep->domain->trigger, ep, op->msg.addr))
		return ep_submit(ep, op);
	xfer_progress(&ep->domain->xfer);
	return -FI_EAGAIN;
}

/*
 * Remote memory is served by its owner here (info_serves_all()), which has to be greeted first. Applications
 * know of no such thing, and there is a queue: the first operations wait there.
 */
static ssize_t trigger_post_remote(struct p2p_ep *ep, const struct p2p_op *op)
{
	struct p2p_op now = *op;
	struct trigger_work *work;
	ssize_t ret = trigger_post_now(ep, &now);

	if (ret != -FI_EAGAIN || trigger_work_new(ep, op, &work))
		return ret;
	return trigger_queue_due(ep->domain->trigger, work);
}

/* A call to inject has no context that could name a counter. */
static ssize_t trigger_submit(struct p2p_ep *ep, struct p2p_op *op)
{
	if (op->flags & FI_TRIGGER)
		return trigger_wait(ep, op);
	if (xfer_announces(&ep->domain->xfer) && !(op->flags & FI_INJECT) &&
	    op_done_flags(op->type) & (FI_READ | FI_WRITE))
		return trigger_post_remote(ep, op);
	return trigger_post_now(ep, op);
}

static int trigger_bind_waker(struct p2p_ep *ep)
{
	const uint64_t kinds = FI_SEND | FI_RECV | FI_READ | FI_WRITE;
	struct fid_cntr *waker = ep->domain->xfer.wait.waker;
	int ret = waker ? fi_ep_bind(ep->xfer.core, &waker->fid, kinds) : 0;

	ep->xfer.wakes = waker && !ret;
	return ret;
}

/* Calls without flags may wait from now on: none of them is the core's at once. */
void trigger_ep_flags(struct p2p_ep *ep)
{
	p2p_lock_take(&ep->domain->xfer.lock);
	ep->xfer.followed = XFER_COUNT_ALL;
	xfer_ep_limit(&ep->xfer);
	p2p_lock_drop(&ep->domain->xfer.lock);
}

int trigger_ep_open(struct p2p_ep *ep)
{
	struct trigger *trigger = ep->domain->trigger;
	int ret = ep->domain->kind->early ? trigger_bind_waker(ep) : 0;

	if (ret)
		return ret;
	ep->submit = trigger_submit;
	if ((ep->tx_flags | ep->xfer.rx_flags) & FI_TRIGGER)
		trigger_ep_flags(ep);
	p2p_lock_take(&ep->domain->xfer.lock);
	if (!trigger->ep_base) {
		trigger->ep_base = ep->fid.ops;
		trigger->ep_calls = *container_of(ep->fid.ops, union table_ep, ops);
		trigger->ep_calls.ops.cancel = trigger_ep_cancel;
	}
	p2p_lock_drop(&ep->domain->xfer.lock);
	ep->fid.ops = &trigger->ep_calls.ops;
	return 0;
}

bool trigger_ep_busy(const struct p2p_ep *ep)
{
	const struct trigger *trigger = ep->domain->trigger;
	struct p2p_lock *lock = &ep->domain->xfer.lock;
	const struct trigger_alias *alias;
	bool used = false;

	p2p_lock_take(lock);
	LIST_FOREACH(alias, &trigger->aliases, entry)
		used |= alias->of == ep;
	p2p_lock_drop(lock);
	return used;
}

void trigger_ep_close(struct p2p_ep *ep)
{
	trigger_drop_ep(ep->domain->trigger, ep);
}

int trigger_ep_alias(struct p2p_ep *ep, const struct fi_alias *asked)
{
	struct p2p_lock *lock = &ep->domain->xfer.lock;
	struct trigger_alias *alias;

	if (!asked || !asked->fid || !(asked->flags & (FI_TRANSMIT | FI_RECV)))
		return -FI_EINVAL;
	alias = trigger_alias_new(ep, asked->flags);
	if (!alias)
		return -FI_ENOMEM;
	p2p_lock_take(lock);
	LIST_INSERT_HEAD(&ep->domain->trigger->aliases, alias, entry);
	p2p_lock_drop(lock);
	*asked->fid = &alias->ep.fid.fid;
	return 0;
}
