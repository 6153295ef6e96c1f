/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Aliases. See trigger_alias.h. */
#include "gpu/trigger_alias.h"

#include <stdlib.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "base/libfabric.h"
#include "fid/fid.h"
#include "fid/table.h"
#include "xfer/op.h"

static int trigger_alias_close(struct fid *fid)
{
	struct trigger_alias *alias = container_of(fid, struct trigger_alias, ep.fid.fid);
	struct p2p_lock *lock = &alias->of->domain->xfer.lock;

	if (domain_inherited(alias->of->domain))
		return 0;
	p2p_lock_take(lock);
	LIST_REMOVE(alias, entry);
	p2p_lock_drop(lock);
	free(alias);
	return 0;
}

static void trigger_alias_set_flags(struct trigger_alias *alias, uint64_t flags)
{
	const uint64_t defaults = flags & ~(FI_TRANSMIT | FI_RECV);

	if (flags & FI_TRANSMIT)
		alias->ep.tx_flags = defaults;
	if (flags & FI_RECV)
		alias->ep.xfer.rx_flags = defaults;
}

/* @flags says of which direction: FI_TRANSMIT or FI_RECV, one of them. 0 or -FI_EINVAL */
static int trigger_alias_get_flags(const struct trigger_alias *alias, uint64_t *flags)
{
	const uint64_t way = *flags & (FI_TRANSMIT | FI_RECV);

	if (way != FI_TRANSMIT && way != FI_RECV)
		return -FI_EINVAL;
	*flags = way == FI_TRANSMIT ? alias->ep.tx_flags : alias->ep.xfer.rx_flags;
	return 0;
}

static int trigger_alias_control(struct fid *fid, int command, void *arg)
{
	struct trigger_alias *alias = container_of(fid, struct trigger_alias, ep.fid.fid);

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
	.ops =
		{
			.size = sizeof(struct fi_ops),
			.close = trigger_alias_close,
			.bind = fid_no_bind,
			.control = trigger_alias_control,
			.ops_open = fid_ops_open,
		},
	.core = offsetof(struct trigger_alias, ep.xfer.core),
};

/* ---- which is which ---- */

static struct trigger_alias *trigger_alias_of(struct fid *fid)
{
	return fid->ops == &trigger_alias_class.ops
		       ? container_of(fid, struct trigger_alias, ep.fid.fid)
		       : NULL;
}

bool trigger_is_alias(struct fid_ep *fid)
{
	return trigger_alias_of(&fid->fid);
}

struct p2p_ep *trigger_ep_of(struct fid_ep *fid)
{
	const struct trigger_alias *alias = trigger_alias_of(&fid->fid);

	return alias ? alias->of : ep_of(&fid->fid);
}

struct p2p_ep *trigger_ep(const struct p2p_domain *domain, struct fid_ep *fid)
{
	struct p2p_ep *ep;

	if (!fid || !ep_posts(&fid->fid))
		return NULL;
	ep = trigger_ep_of(fid);
	return ep->domain == domain ? ep : NULL;
}

struct p2p_cntr *trigger_cntr(const struct p2p_domain *domain, struct fid_cntr *fid)
{
	struct p2p_cntr *cntr;

	if (!fid || fid->fid.fclass != FI_CLASS_CNTR || !fid_class(&fid->fid))
		return NULL;
	cntr = cntr_of(&fid->fid);
	return cntr->domain == domain ? cntr : NULL;
}

/* ---- the endpoint's calls that are not about data ---- */

static ssize_t trigger_alias_cancel(fid_t fid, void *context)
{
	return fi_cancel(&trigger_alias_of(fid)->of->fid.fid, context);
}

static int trigger_alias_getopt(fid_t fid, int level, int name, void *value, size_t *len)
{
	return fi_getopt(&trigger_alias_of(fid)->of->fid.fid, level, name, value, len);
}

static int trigger_alias_setopt(fid_t fid, int level, int name, const void *value, size_t len)
{
	return fi_setopt(&trigger_alias_of(fid)->of->fid.fid, level, name, value, len);
}

static int trigger_alias_no_tx_ctx(struct fid_ep *sep, int index, struct fi_tx_attr *attr,
				   struct fid_ep **tx_ep, void *context)
{
	return -FI_ENOSYS;
}

static int trigger_alias_no_rx_ctx(struct fid_ep *sep, int index, struct fi_rx_attr *attr,
				   struct fid_ep **rx_ep, void *context)
{
	return -FI_ENOSYS;
}

static ssize_t trigger_alias_rx_size_left(struct fid_ep *fid)
{
	struct fid_ep *ep = &trigger_alias_of(&fid->fid)->of->fid;

	return ep->ops->rx_size_left(ep);
}

static ssize_t trigger_alias_tx_size_left(struct fid_ep *fid)
{
	struct fid_ep *ep = &trigger_alias_of(&fid->fid)->of->fid;

	return ep->ops->tx_size_left(ep);
}

static union table_ep trigger_alias_table = {
	.ops =
		{
			.cancel = trigger_alias_cancel,
			.getopt = trigger_alias_getopt,
			.setopt = trigger_alias_setopt,
			.tx_ctx = trigger_alias_no_tx_ctx,
			.rx_ctx = trigger_alias_no_rx_ctx,
			.rx_size_left = trigger_alias_rx_size_left,
			.tx_size_left = trigger_alias_tx_size_left,
		},
};

static __attribute__((constructor)) void trigger_alias_complete_table(void)
{
	table_complete(trigger_alias_table.entry, LF_EP_EXPORT_XPU, NULL);
}

static int trigger_alias_setname(fid_t fid, void *addr, size_t len)
{
	return fi_setname(&trigger_alias_of(fid)->of->fid.fid, addr, len);
}

static int trigger_alias_getname(fid_t fid, void *addr, size_t *len)
{
	return fi_getname(&trigger_alias_of(fid)->of->fid.fid, addr, len);
}

static int trigger_alias_getpeer(struct fid_ep *fid, void *addr, size_t *len)
{
	return fi_getpeer(&trigger_alias_of(&fid->fid)->of->fid, addr, len);
}

static int trigger_alias_no_connect(struct fid_ep *ep, const void *addr, const void *param,
				    size_t len)
{
	return -FI_ENOSYS;
}

static int trigger_alias_no_accept(struct fid_ep *ep, const void *param, size_t len)
{
	return -FI_ENOSYS;
}

static int trigger_alias_no_shutdown(struct fid_ep *ep, uint64_t flags)
{
	return -FI_ENOSYS;
}

static int trigger_alias_join(struct fid_ep *fid, const void *addr, uint64_t flags,
			      struct fid_mc **mc, void *context)
{
	return fi_join(&trigger_alias_of(&fid->fid)->of->fid, addr, flags, mc, context);
}

static struct fi_ops_cm trigger_alias_cm_ops = {
	.size = sizeof(struct fi_ops_cm),
	.setname = trigger_alias_setname,
	.getname = trigger_alias_getname,
	.getpeer = trigger_alias_getpeer,
	.connect = trigger_alias_no_connect,
	.accept = trigger_alias_no_accept,
	.shutdown = trigger_alias_no_shutdown,
	.join = trigger_alias_join,
};

/* The core's calls without flags have the endpoint's: those of the alias become an operation's own. */
static ssize_t trigger_alias_submit(struct p2p_ep *ep, struct p2p_op *op)
{
	struct p2p_ep *of = container_of(ep, struct trigger_alias, ep)->of;

	if (op->call == OP_PLAIN)
		op->call = OP_FLAGGED;
	return of->submit(of, op);
}

struct trigger_alias *trigger_alias_new(struct p2p_ep *of, uint64_t flags)
{
	struct trigger_alias *alias = p2p_new(sizeof *alias);
	struct p2p_ep *ep;

	if (!alias)
		return NULL;
	alias->of = of;
	ep = &alias->ep;
	ep->domain = of->domain;
	ep->submit = trigger_alias_submit;
	ep->tx_flags = of->tx_flags;
	ep->xfer.xfer = of->xfer.xfer;
	ep->xfer.core = of->xfer.core;
	ep->xfer.data_mask = of->xfer.data_mask;
	ep->xfer.rx_flags = of->xfer.rx_flags;
	trigger_alias_set_flags(alias, flags);
	ep->fid = of->fid;
	ep->fid.fid.fclass = FI_CLASS_EP;
	ep->fid.fid.ops = &trigger_alias_class.ops;
	ep->fid.ops = &trigger_alias_table.ops;
	ep->fid.cm = &trigger_alias_cm_ops;
	ep->fid.collective = NULL;
	return alias;
}
