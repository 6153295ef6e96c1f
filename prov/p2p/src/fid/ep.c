/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Endpoints. See ep.h; the data transfer calls are in msg.c, rma.c, atomic.c. */
#include "fid/ep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>

#include "fid/atomic.h"
#include "fid/cm.h"
#include "fid/cntr.h"
#include "fid/collective.h"
#include "base/conf.h"
#include "fid/ep_bind.h"
#include "fid/ep_opt.h"
#include "fid/ep_stats.h"
#include "fid/fid.h"
#include "fid/flags.h"
#include "path/info.h"
#include "path/quirks.h"
#include "base/libfabric.h"
#include "fid/msg.h"
#include "fid/native.h"
#include "fid/rma.h"
#include "fid/side_ep.h"
#include "fid/submit.h"
#include "fid/table.h"
#include "proto/post.h"
#include "xfer/ep_state.h"
#include "xfer/gone.h"
#include "xfer/life.h"

/* ---- entries of struct fi_ops_ep ---- */

static ssize_t ep_cancel(fid_t fid, void *context)
{
	struct p2p_ep *ep = ep_itself(fid);
	const struct domain_triggers *triggers = ep->domain->triggers;
	ssize_t ret = triggers ? triggers->cancel(ep, context) : -FI_ENOENT;

	if (ret == -FI_ENOENT)
		ret = xfer_cancel(&ep->xfer, context);
	return ret == -FI_ENOENT ? fi_cancel(&ep->xfer.front.core->fid, context) : ret;
}

static int ep_open_tx_ctx(struct fid_ep *sep, int index, struct fi_tx_attr *attr,
			  struct fid_ep **ep, void *context);
static int ep_open_rx_ctx(struct fid_ep *sep, int index, struct fi_rx_attr *attr,
			  struct fid_ep **ep, void *context);

static ssize_t ep_rx_size_left(struct fid_ep *ep)
{
	struct fid_ep *core = ep_of(&ep->fid)->xfer.front.core;

	return core->ops->rx_size_left(core);
}

static ssize_t ep_tx_size_left(struct fid_ep *ep)
{
	struct fid_ep *core = ep_of(&ep->fid)->xfer.front.core;

	return core->ops->tx_size_left(core);
}

static int ep_export_xpu(struct fid_ep *fid, uint64_t flags, struct fid_xpu_ep *xpu)
{
	struct native_ctx *ctx = ep_of(&fid->fid)->native;

	return ctx ? native_calls->ep_export(&ctx->fid, fid, flags, xpu) : native_refuse();
}

static union table_ep ep_table = {
	.ops =
		{
			.cancel = ep_cancel,
			.getopt = ep_opt_get,
			.setopt = ep_opt_set,
			.tx_ctx = ep_open_tx_ctx,
			.rx_ctx = ep_open_rx_ctx,
			.rx_size_left = ep_rx_size_left,
			.tx_size_left = ep_tx_size_left,
		},
};

static __attribute__((constructor)) void ep_complete_table(void)
{
	table_complete(ep_table.entry, LF_EP_EXPORT_XPU, (table_entry) ep_export_xpu);
}

/* ---- enable, close ---- */

/*
 * The core would take what is to be durable (FI_COMMIT_COMPLETE), or told, for any other write. So may it what is
 * to be delivered (QUIRK_EARLY).
 */
static void ep_set_tx_flags(struct p2p_ep *ep, uint64_t flags)
{
	const uint64_t early = ep->domain->xfer.quirks & QUIRK_EARLY ? FI_DELIVERY_COMPLETE : 0;

	/* a call without flags has no data, but for those that say so */
	ep->tx_flags = flags & ~FI_REMOTE_CQ_DATA;
	if (!(flags & ep->xfer.ours & (FI_COMMIT_COMPLETE | early)) && !ep->notices)
		return;
	p2p_lock_take(&ep->domain->xfer.lock);
	ep->xfer.followed |= FI_WRITE;
	xfer_ep_limit(&ep->xfer);
	p2p_lock_drop(&ep->domain->xfer.lock);
}

static int ep_resolve(struct xfer_channel *front, const void *name, size_t len, bool learn,
		      fi_addr_t *addr)
{
	struct p2p_ep *ep = container_of(front, struct p2p_ep, xfer.front);

	return ep->av ? av_resolve(ep->av, name, len, learn, addr) : -FI_EINVAL;
}

static int ep_lookup(struct xfer_channel *front, fi_addr_t addr, void *name, size_t *len)
{
	struct p2p_ep *ep = container_of(front, struct p2p_ep, xfer.front);

	return ep->av ? av_lookup_name(ep->av, addr, name, len) : -FI_EINVAL;
}

static void ep_print(const struct xfer_channel *front, fi_addr_t addr, char *text, size_t room)
{
	const struct p2p_ep *ep = container_of(front, struct p2p_ep, xfer.front);
	char name[WIRE_NAME_MAX] = {0};
	size_t len = sizeof name;

	snprintf(text, room, "a peer");
	if (ep->av && !fi_av_lookup(ep->av->core, addr, name, &len) && len <= sizeof name)
		fi_av_straddr(ep->av->core, name, text, &room);
}

static const struct xfer_channel_ops ep_channel_ops = {
	.resolve = ep_resolve,
	.lookup = ep_lookup,
	.print = ep_print,
};

/* Who asks for device memory, and uses a device already, does not wait for it later. */
static void ep_meet_device(struct p2p_ep *ep)
{
	struct xfer *xfer = ep->xfer.xfer;
	struct dev_mem mem;

	domain_meet_devices(ep->domain, ep->caps);
	if (!(ep->caps & (FI_HMEM | FI_P2P)) || dev_current(&mem) <= 0)
		return;
	p2p_lock_take(&xfer->lock);
	xfer_ready(xfer, &mem);
	p2p_lock_drop(&xfer->lock);
}

static int ep_enable(struct p2p_ep *ep)
{
	int ret;

	ep_meet_device(ep);
	ret = ep_bind_enable(ep);
	if (ret || ep->xfer.started)
		return ret;
	gone_opened(&ep->xfer.front);
	return ep->domain->kind->ep_start ? ep->domain->kind->ep_start(ep) : 0;
}

/* FI_SETOPSFLAG: changes what calls without flags do in one direction */
static int ep_set_ops_flags(struct p2p_ep *ep, uint64_t flags)
{
	uint64_t core = flags & ~FI_TRIGGER;
	uint64_t defaults = flags & ~(FI_TRANSMIT | FI_RECV);
	int ret;

	if (flags & FI_TRIGGER && !ep->domain->triggers)
		return fid_refuse_trigger();
	ret = flags_check_own(ep->xfer.ours, flags & FI_TRANSMIT ? defaults : 0,
			      flags & FI_RECV ? defaults : 0);
	if (ret)
		return ret;
	core = flags_to_core(ep, core);
	ret = fid_control(&ep->fid.fid, FI_SETOPSFLAG, &core);
	if (ret)
		return ret;
	if (flags & FI_TRANSMIT)
		ep_set_tx_flags(ep, defaults | (ep->tx_all ? FI_COMPLETION : 0));
	if (flags & FI_RECV)
		ep_bind_set_rx_flags(ep, defaults);
	if (flags & FI_TRIGGER)
		ep->domain->triggers->ep_flags(ep);
	return 0;
}

static int ep_control(struct fid *fid, int command, void *arg)
{
	if (command == FI_ENABLE)
		return ep_enable(ep_of(fid));
	if (command == FI_SETOPSFLAG && arg)
		return ep_set_ops_flags(ep_of(fid), *(uint64_t *) arg);
	if (command == FI_ALIAS && ep_of(fid)->domain->triggers)
		return ep_of(fid)->domain->triggers->alias(ep_of(fid), arg);
	return fid_control(fid, command, arg);
}

static int ep_close(struct fid *fid)
{
	struct p2p_ep *ep = ep_of(fid);
	const struct domain_triggers *triggers = ep->domain->triggers;
	struct fid *core = &ep->xfer.front.core->fid;
	int ret;

	if (domain_inherited(ep->domain))
		return 0;
	if (!LIST_EMPTY(&ep->contexts) || __atomic_load_n(&ep->aliases, __ATOMIC_ACQUIRE))
		return -FI_EBUSY;
	/*
	 * what GPUs post comes from another thread, and must have ended before the core's endpoint does. If
	 * the core refuses the close all the same, for what we do not know of, they have it no more
	 */
	fid_exports_end(&ep->exports);
	if (triggers)
		triggers->ep_close(ep);
	fid_pair_remove(core);
	ret = xfer_ep_fini(&ep->xfer);
	if (ret) {
		fid_pair_add(&ep->pair, core, fid);
		return ret;
	}
	if (ep->sep)
		LIST_REMOVE(ep, sibling);
	ep_stats_print(ep);
	cntr_release_ep(&ep->xfer);
	for (int i = 0; i < 2; i++) {
		if (ep->own[i].core)
			xfer_cq_fini(&ep->own[i]);
	}
	side_ep_fini(ep);
	native_ctx_drop(ep->native);
	lf.freeinfo(ep->core_info);
	free(ep);
	return 0;
}

static struct fid_class ep_class = {
	.ops = FID_OPS(.close = ep_close, .bind = ep_bind, .control = ep_control),
	.core = offsetof(struct p2p_ep, xfer.front.core),
	.own_ops = ep_stats_own_ops,
};

/* ---- open ---- */

/*
 * Makes an endpoint of ours, before there is one of the core's: some core providers do not survive
 * the end of an endpoint that nothing was bound to. 0 or an error
 */
static int ep_init(struct p2p_ep *ep, size_t fclass, void *context)
{
	struct p2p_domain *domain = ep->domain;
	int ret;

	ep_opt_set_hmem_p2p(ep, FI_HMEM_P2P_ENABLED);
	/*
	 * the core wants descriptors: we add them to every operation; or operations may count for any
	 * counter
	 */
	if (domain->xfer.local || domain->xfer.works_go)
		ep->xfer.followed = XFER_COUNT_ALL;
	ep->xfer.ours = domain->kind->ours;
	ep->xfer.tally = conf.stats != CONF_STATS_NO;
	ep->xfer.front.ops = &ep_channel_ops;
	ret = xfer_ep_init(&ep->xfer, &domain->xfer);
	if (ret)
		return ret;
	ep->submit = ep_submit;
	ep->of = ep;
	ep->fid.fid.fclass = fclass;
	ep->fid.fid.context = context;
	ep->fid.fid.ops = &ep_class.ops;
	ep->fid.ops = &ep_table.ops;
	ep->fid.cm = &cm_ops;
	ep->fid.msg = &msg_ops;
	ep->fid.tagged = &msg_tagged_ops;
	ep->fid.rma = &rma_ops;
	ep->fid.atomic = &atomic_ops;
	ep->fid.collective = &collective_ops;
	return 0;
}

/* 0 leaves the limit to us */
static size_t ep_iov_limit(size_t asked)
{
	return asked ? P2P_MIN(asked, P2P_IOV_MAX) : P2P_IOV_MAX;
}

/* Opens the core's endpoint. @info: the application's, becomes the core's. 0 or an error */
static int ep_open_core(struct p2p_ep *ep, struct fi_info *info)
{
	const struct p2p_domain *domain = ep->domain;
	const uint64_t format = info->ep_attr->mem_tag_format;
	int ret = domain->kind->to_core ? domain->kind->to_core(info) : 0;

	if (ret)
		return ret;
	/* a connection request's handle belongs to the core, and is given to it once */
	info->handle = fid_core(info->handle);
	if (domain->xfer.local)
		info_core_add_maps(info);
	if (domain->xfer.stage.lender)
		info_core_add_lending(info);
	/* what waits for counters is ours */
	if (info->tx_attr)
		info->tx_attr->op_flags &= ~FI_TRIGGER;
	if (info->rx_attr)
		info->rx_attr->op_flags &= ~FI_TRIGGER;
	ret = domain->kind->ep_plan ? domain->kind->ep_plan(ep, info, format) : 0;
	if (!ret && ep->xfer.quirks & QUIRK_STALLS)
		ret = side_ep_init(ep, info);
	if (ret)
		return ret;
	ret = ep->fid.fid.fclass == FI_CLASS_SEP
		      ? fi_scalable_ep(domain->core, info, &ep->xfer.front.core, ep)
		      : fi_endpoint(domain->core, info, &ep->xfer.front.core, ep);
	if (ret)
		side_ep_fini(ep);
	else
		fid_pair_add(&ep->pair, &ep->xfer.front.core->fid, &ep->fid.fid);
	return ret;
}

/* Sets what the application has asked for. */
static void ep_set_attr(struct p2p_ep *ep, const struct fi_info *info)
{
	const struct xfer *xfer = &ep->domain->xfer;
	const struct fi_tx_attr *tx = info->tx_attr;

	ep->caps = info->caps;
	ep->directed = info->caps & FI_DIRECTED_RECV;
	/* what is fenced waits for what the core alone could do, too */
	if (ep->xfer.ours & ep->caps & FI_FENCE)
		ep->xfer.followed |= FI_SEND | FI_READ | FI_WRITE;
	ep->notices = ep->xfer.ours & info->mode & FI_RX_CQ_DATA;
	ep->xfer.counts_remote = xfer->key_mark && info->caps & FI_RMA_EVENT;
	ep->xfer.iov_limit = ep_iov_limit(tx ? tx->iov_limit : 0);
	ep->xfer.recv_iov_limit = ep_iov_limit(info->rx_attr ? info->rx_attr->iov_limit : 0);
	if (!tx)
		return;
	ep_set_tx_flags(ep, tx->op_flags);
	/* a utility provider does not tell the limit of the one below it */
	ep->xfer.inline_max = xfer->quirks & QUIRK_DIRECT
				      ? tx->inject_size
				      : P2P_MAX(tx->inject_size, WIRE_PLAIN_MAX);
}

/* Are operations without flags to wait for counters? */
static bool ep_triggers(const struct fi_tx_attr *tx, const struct fi_rx_attr *rx)
{
	return (tx && tx->op_flags & FI_TRIGGER) || (rx && rx->op_flags & FI_TRIGGER);
}

/* @fclass: FI_CLASS_EP or FI_CLASS_SEP */
static int ep_open_as(size_t fclass, struct fid_domain *domain, struct fi_info *info,
		      struct fid_ep **ep_fid, void *context)
{
	struct p2p_ep *ep;
	int ret;

	if (!info || !info->ep_attr || !ep_fid)
		return -FI_EINVAL;
	if (ep_triggers(info->tx_attr, info->rx_attr) && !domain_of(&domain->fid)->triggers)
		return fid_refuse_trigger();
	ret = flags_check_own(domain_of(&domain->fid)->kind->ours,
			      info->tx_attr ? info->tx_attr->op_flags : 0,
			      info->rx_attr ? info->rx_attr->op_flags : 0);
	if (ret)
		return ret;
	ret = -FI_ENOMEM;
	ep = p2p_new(sizeof *ep);
	if (!ep)
		return ret;
	ep->core_info = libfabric_copy_info(info);
	if (!ep->core_info)
		goto free_both;
	ep->domain = domain_of(&domain->fid);
	ret = ep_init(ep, fclass, context);
	if (ret)
		goto free_both;
	ret = ep_open_core(ep, ep->core_info);
	if (ret)
		goto fini_xfer;
	ep_set_attr(ep, info);
	xfer_ep_add(&ep->xfer);
	ep_bind_set_rx_flags(ep, info->rx_attr ? info->rx_attr->op_flags : 0);
	ret = ep->domain->triggers ? ep->domain->triggers->ep_open(ep) : 0;
	if (ret) {
		fi_close(&ep->fid.fid);
		return ret;
	}
	*ep_fid = &ep->fid;
	return 0;

fini_xfer:
	xfer_ep_undo(&ep->xfer);
free_both:
	lf.freeinfo(ep->core_info);
	free(ep);
	return ret;
}

int ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context)
{
	return ep_open_as(FI_CLASS_EP, domain, info, ep, context);
}

int ep_open_sep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep,
		void *context)
{
	int ret = kind_offers(domain_of(&domain->fid)->kind, FI_CLASS_SEP);

	return ret ? ret : ep_open_as(FI_CLASS_SEP, domain, info, sep, context);
}

int ep_open2(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep_fid,
	     uint64_t flags, void *context)
{
	struct native_ctx *ctx;
	int ret;

	if (flags & ~LF_XPU)
		return -FI_ENOSYS;
	if (!info || !info->ep_attr)
		return -FI_EINVAL;
	ret = native_ctx_take(domain_of(&domain->fid), flags, info->ep_attr, LF_EP_ATTR_XPU_CTX,
			      &ctx);
	if (!ret)
		ret = ep_open(domain, info, ep_fid, context);
	if (ret)
		native_ctx_drop(ctx);
	else
		ep_of(&(*ep_fid)->fid)->native = ctx;
	return ret;
}

/* ---- contexts ---- */

/**
 * struct ep_ctx - what is asked for: a shared receive context, or a context of a scalable endpoint.
 * @sep:	the endpoint, and @index: which of its contexts; or NULL
 * @tx, @rx:	as the application gives them: one of them, or NULL
 */
struct ep_ctx {
	size_t fclass;
	struct p2p_ep *sep;
	int index;
	struct fi_tx_attr *tx;
	struct fi_rx_attr *rx;
};

static int ep_open_ctx_core(struct p2p_ep *ep, const struct ep_ctx *asked)
{
	switch (asked->fclass) {
	case FI_CLASS_TX_CTX:
		return fi_tx_context(asked->sep->xfer.front.core, asked->index, asked->tx,
				     &ep->xfer.front.core, ep);
	case FI_CLASS_RX_CTX:
		return fi_rx_context(asked->sep->xfer.front.core, asked->index, asked->rx,
				     &ep->xfer.front.core, ep);
	default:
		return fi_srx_context(ep->domain->core, asked->rx, &ep->xfer.front.core, ep);
	}
}

/* What the application has not said of a context, its endpoint's info says. */
static void ep_set_ctx_attr(struct p2p_ep *ep, const struct ep_ctx *asked)
{
	const struct fi_info *info = asked->sep ? asked->sep->core_info : NULL;
	struct fi_info own = {.caps = info ? info->caps : 0};

	own.tx_attr = asked->tx || !info ? asked->tx : info->tx_attr;
	own.rx_attr = asked->rx || !info ? asked->rx : info->rx_attr;
	ep_set_attr(ep, &own);
	if (asked->sep) {
		ep->av = asked->sep->av;
		p2p_lock_take(&ep->domain->xfer.lock);
		LIST_INSERT_HEAD(&asked->sep->contexts, ep, sibling);
		p2p_lock_drop(&ep->domain->xfer.lock);
	} else {
		/* whose capabilities count is the core's to say: there is no table here that misses an address */
		ep->directed = true;
		/* which endpoint, and so which queue, a receive is for is not known when it is posted */
		ep->rx_all = true;
	}
	ep->sep = asked->sep;
	xfer_ep_add(&ep->xfer);
	ep_bind_set_rx_flags(ep, own.rx_attr ? own.rx_attr->op_flags : 0);
}

static int ep_open_ctx(struct p2p_domain *domain, const struct ep_ctx *asked,
		       struct fid_ep **ep_fid, void *context)
{
	struct p2p_ep *ep;
	int ret;

	if (ep_triggers(asked->tx, asked->rx) && !domain->triggers)
		return fid_refuse_trigger();
	ep = p2p_new(sizeof *ep);
	if (!ep)
		return -FI_ENOMEM;
	ep->domain = domain;
	ret = ep_init(ep, asked->fclass, context);
	if (ret)
		goto free_ep;
	ret = ep_open_ctx_core(ep, asked);
	if (ret)
		goto fini_xfer;
	fid_pair_add(&ep->pair, &ep->xfer.front.core->fid, &ep->fid.fid);
	ep_set_ctx_attr(ep, asked);
	ret = domain->triggers ? domain->triggers->ep_open(ep) : 0;
	if (ret) {
		fi_close(&ep->fid.fid);
		return ret;
	}
	*ep_fid = &ep->fid;
	return 0;

fini_xfer:
	xfer_ep_undo(&ep->xfer);
free_ep:
	free(ep);
	return ret;
}

static int ep_open_tx_ctx(struct fid_ep *sep, int index, struct fi_tx_attr *attr,
			  struct fid_ep **ep, void *context)
{
	const struct ep_ctx asked = {FI_CLASS_TX_CTX, ep_of(&sep->fid), index, attr, NULL};

	if (sep->fid.fclass != FI_CLASS_SEP)
		return -FI_EINVAL;
	return ep_open_ctx(asked.sep->domain, &asked, ep, context);
}

static int ep_open_rx_ctx(struct fid_ep *sep, int index, struct fi_rx_attr *attr,
			  struct fid_ep **ep, void *context)
{
	const struct ep_ctx asked = {FI_CLASS_RX_CTX, ep_of(&sep->fid), index, NULL, attr};

	if (sep->fid.fclass != FI_CLASS_SEP)
		return -FI_EINVAL;
	return ep_open_ctx(asked.sep->domain, &asked, ep, context);
}

int ep_open_srx(struct fid_domain *fid, struct fi_rx_attr *attr, struct fid_ep **ep,
		void *context)
{
	const struct ep_ctx asked = {.fclass = FI_CLASS_SRX_CTX, .rx = attr};
	struct p2p_domain *domain = domain_of(&fid->fid);
	int ret = kind_offers(domain->kind, FI_CLASS_SRX_CTX);

	if (ret)
		return ret;
	/* another provider's own is not wrapped, see cq_open() */
	if (attr && attr->op_flags & FI_PEER)
		return fi_srx_context(domain->core, attr, ep, context);
	return ep_open_ctx(domain, &asked, ep, context);
}
