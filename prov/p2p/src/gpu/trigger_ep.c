/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Endpoints. See trigger_ep.h. */
#include "gpu/trigger_ep.h"

#include <rdma/fi_errno.h>

#include "gpu/trigger_alias.h"
#include "gpu/trigger_calls.h"
#include "gpu/trigger_list.h"

static ssize_t trigger_ep_cancel(fid_t fid, void *context)
{
	struct p2p_ep *ep = ep_of(fid);
	struct trigger *trigger = ep->domain->trigger;
	ssize_t ret = trigger_cancel(trigger, ep, context);

	return ret == -FI_ENOENT ? trigger->ep_base->cancel(fid, context) : ret;
}

static void trigger_take_calls(struct fid_ep *fid)
{
	fid->msg = &trigger_msg_ops;
	fid->tagged = &trigger_tagged_ops;
	fid->rma = &trigger_rma_ops;
	fid->atomic = &trigger_atomic_ops;
}

/* Over a hook, calls whose flags come with them may have FI_TRIGGER. All others stay as quick as they are. */
static void trigger_take_flagged_calls(struct fid_ep *fid)
{
	fid->msg = &trigger_flagged_msg_ops;
	fid->tagged = &trigger_flagged_tagged_ops;
	fid->rma = &trigger_flagged_rma_ops;
	fid->atomic = &trigger_flagged_atomic_ops;
}

static int trigger_bind_waker(struct p2p_ep *ep)
{
	const uint64_t kinds = FI_SEND | FI_RECV | FI_READ | FI_WRITE;
	struct fid_cntr *waker = ep->domain->xfer.wait.waker;
	int ret = waker ? fi_ep_bind(ep->xfer.core, &waker->fid, kinds) : 0;

	ep->xfer.wakes = waker && !ret;
	return ret;
}

void trigger_ep_flags(struct p2p_ep *ep)
{
	trigger_take_calls(&ep->fid);
}

int trigger_ep_open(struct p2p_ep *ep)
{
	struct trigger *trigger = ep->domain->trigger;
	int ret = ep->xfer.layered ? trigger_bind_waker(ep) : 0;

	if (ret)
		return ret;
	if (ep->xfer.layered || (ep->tx_flags | ep->xfer.rx_flags) & FI_TRIGGER)
		trigger_take_calls(&ep->fid);
	else
		trigger_take_flagged_calls(&ep->fid);
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
		used |= alias->ep == ep;
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
	trigger_take_calls(&alias->fid);
	p2p_lock_take(lock);
	LIST_INSERT_HEAD(&ep->domain->trigger->aliases, alias, entry);
	p2p_lock_drop(lock);
	*asked->fid = &alias->fid.fid;
	return 0;
}
