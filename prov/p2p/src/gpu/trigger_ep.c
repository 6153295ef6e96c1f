/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Endpoints. See trigger_ep.h. */
#include "gpu/trigger_ep.h"

#include <stdlib.h>
#include <rdma/fi_errno.h>

#include "fid/fid.h"
#include "fid/submit.h"
#include "gpu/trigger_list.h"
#include "xfer/ep_state.h"
#include "xfer/progress.h"

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
	int ret = waker ? fi_ep_bind(ep->xfer.front.core, &waker->fid, kinds) : 0;

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
	int ret = ep->domain->kind->early ? trigger_bind_waker(ep) : 0;

	if (ret)
		return ret;
	ep->submit = trigger_submit;
	if ((ep->tx_flags | ep->xfer.rx_flags) & FI_TRIGGER)
		trigger_ep_flags(ep);
	return 0;
}

void trigger_ep_close(struct p2p_ep *ep)
{
	trigger_drop_ep(ep->domain->trigger, ep);
}

/* ---- aliases ---- */

static int trigger_alias_close(struct fid *fid)
{
	struct p2p_ep *alias = ep_of(fid);

	if (domain_inherited(alias->domain))
		return 0;
	__atomic_fetch_sub(&alias->of->aliases, 1, __ATOMIC_RELEASE);
	free(alias);
	return 0;
}

static void trigger_alias_set_flags(struct p2p_ep *alias, uint64_t flags)
{
	const uint64_t defaults = flags & ~(FI_TRANSMIT | FI_RECV);

	if (flags & FI_TRANSMIT)
		alias->tx_flags = defaults;
	if (flags & FI_RECV)
		alias->xfer.rx_flags = defaults;
}

/* @flags says of which direction: FI_TRANSMIT or FI_RECV, one of them. 0 or -FI_EINVAL */
static int trigger_alias_get_flags(const struct p2p_ep *alias, uint64_t *flags)
{
	const uint64_t way = *flags & (FI_TRANSMIT | FI_RECV);

	if (way != FI_TRANSMIT && way != FI_RECV)
		return -FI_EINVAL;
	*flags = way == FI_TRANSMIT ? alias->tx_flags : alias->xfer.rx_flags;
	return 0;
}

static int trigger_alias_control(struct fid *fid, int command, void *arg)
{
	struct p2p_ep *alias = ep_of(fid);

	if (command != FI_SETOPSFLAG && command != FI_GETOPSFLAG)
		return fi_control(&alias->of->fid.fid, command, arg);
	if (!arg)
		return -FI_EINVAL;
	if (command == FI_GETOPSFLAG)
		return trigger_alias_get_flags(alias, arg);
	trigger_alias_set_flags(alias, *(uint64_t *) arg);
	return 0;
}

static struct fid_class trigger_alias_class = {
	.ops = FID_OPS(.close = trigger_alias_close, .bind = fid_no_bind,
		       .control = trigger_alias_control),
	.core = offsetof(struct p2p_ep, xfer.front.core),
};

/* The core's calls without flags have the endpoint's: those of the alias become an operation's own. */
static ssize_t trigger_alias_submit(struct p2p_ep *alias, struct p2p_op *op)
{
	if (op->call == OP_PLAIN)
		op->call = OP_FLAGGED;
	return alias->of->submit(alias->of, op);
}

int trigger_ep_alias(struct p2p_ep *ep, const struct fi_alias *asked)
{
	struct p2p_ep *alias;

	if (!asked || !asked->fid || !(asked->flags & (FI_TRANSMIT | FI_RECV)))
		return -FI_EINVAL;
	alias = p2p_new(sizeof *alias);
	if (!alias)
		return -FI_ENOMEM;
	alias->of = ep;
	alias->domain = ep->domain;
	alias->submit = trigger_alias_submit;
	alias->tx_flags = ep->tx_flags;
	alias->xfer.xfer = ep->xfer.xfer;
	alias->xfer.front.core = ep->xfer.front.core;
	alias->xfer.data_mask = ep->xfer.data_mask;
	alias->xfer.rx_flags = ep->xfer.rx_flags;
	trigger_alias_set_flags(alias, asked->flags);
	alias->fid = ep->fid;
	alias->fid.fid.fclass = FI_CLASS_EP;
	alias->fid.fid.ops = &trigger_alias_class.ops;
	__atomic_fetch_add(&ep->aliases, 1, __ATOMIC_RELAXED);
	*asked->fid = &alias->fid.fid;
	return 0;
}
