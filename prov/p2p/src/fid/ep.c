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
#include "fid/ep_opt.h"
#include "fid/ep_stats.h"
#include "fid/fid.h"
#include "fid/flags.h"
#include "path/info.h"
#include "path/info_tags.h"
#include "path/quirks.h"
#include "base/libfabric.h"
#include "base/log.h"
#include "fid/msg.h"
#include "fid/native.h"
#include "fid/rma.h"
#include "fid/side_ep.h"
#include "fid/table.h"
#include "proto/hello.h"
#include "proto/post.h"
#include "xfer/ep_state.h"
#include "xfer/lane.h"
#include "xfer/life.h"

/* ---- entries of struct fi_ops_ep ---- */

static ssize_t ep_cancel(fid_t fid, void *context)
{
	struct p2p_ep *ep = ep_of(fid);
	ssize_t ret = xfer_cancel(&ep->xfer, context);

	return ret == -FI_ENOENT ? fi_cancel(&ep->xfer.core->fid, context) : ret;
}

static int ep_no_tx_ctx(struct fid_ep *sep, int index, struct fi_tx_attr *attr,
			struct fid_ep **tx_ep, void *context)
{
	return -FI_ENOSYS;
}

static int ep_no_rx_ctx(struct fid_ep *sep, int index, struct fi_rx_attr *attr,
			struct fid_ep **rx_ep, void *context)
{
	return -FI_ENOSYS;
}

static ssize_t ep_rx_size_left(struct fid_ep *ep)
{
	struct fid_ep *core = ep_of(&ep->fid)->xfer.core;

	return core->ops->rx_size_left(core);
}

static ssize_t ep_tx_size_left(struct fid_ep *ep)
{
	struct fid_ep *core = ep_of(&ep->fid)->xfer.core;

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
			.tx_ctx = ep_no_tx_ctx,
			.rx_ctx = ep_no_rx_ctx,
			.rx_size_left = ep_rx_size_left,
			.tx_size_left = ep_tx_size_left,
		},
};

static __attribute__((constructor)) void ep_complete_table(void)
{
	table_complete(ep_table.entry, LF_EP_EXPORT_XPU, (table_entry) ep_export_xpu);
}

/* ---- bind, enable, close ---- */

/*
 * The core would take what is to be durable (FI_COMMIT_COMPLETE), or told, for any other write. So may it what is
 * to be delivered (QUIRK_EARLY).
 */
static void ep_set_tx_flags(struct p2p_ep *ep, uint64_t flags)
{
	const uint64_t early = ep->domain->quirks & QUIRK_EARLY ? FI_DELIVERY_COMPLETE : 0;

	ep->tx_flags = flags;
	if (!ep->domain->layered || !(flags & (FI_COMMIT_COMPLETE | early) || ep->xfer.notices))
		return;
	p2p_lock_take(&ep->domain->xfer.lock);
	ep->xfer.followed |= FI_WRITE;
	xfer_ep_limit(&ep->xfer);
	p2p_lock_drop(&ep->domain->xfer.lock);
}

static void ep_set_rx_flags(struct p2p_ep *ep, uint64_t flags)
{
	p2p_lock_take(&ep->domain->xfer.lock);
	ep->xfer.rx_flags = flags | (ep->rx_all ? FI_COMPLETION : 0);
	xfer_ep_limit(&ep->xfer);
	p2p_lock_drop(&ep->domain->xfer.lock);
}

/*
 * Notes a queue that the endpoint is bound to. Progress reads all queues of a domain, so
 * ep_enable_core() binds the core's endpoint (QUIRK_UNENABLED).
 */
static void ep_bind_core(struct p2p_ep *ep, struct xfer_cq *cq, uint64_t flags)
{
	bool send = flags & FI_TRANSMIT;

	p2p_lock_take(&ep->domain->xfer.lock);
	ep->binds[!send] = flags;
	if (send)
		ep->xfer.txcq = cq;
	else
		ep->xfer.rxcq = cq;
	p2p_lock_drop(&ep->domain->xfer.lock);
}

static int ep_enable_core(struct p2p_ep *ep)
{
	struct xfer_cq *cqs[] = {ep->xfer.txcq, ep->xfer.rxcq};
	int ret = 0;

	p2p_lock_take(&ep->domain->xfer.lock);
	for (int i = 0; !ret && i < 2; i++) {
		if (ep->binds[i])
			ret = fi_ep_bind(ep->xfer.core, &cqs[i]->core->fid, ep->binds[i]);
		if (!ret)
			ep->binds[i] = 0;
	}
	if (!ret)
		ret = fi_enable(ep->xfer.core);
	p2p_lock_drop(&ep->domain->xfer.lock);
	return ret;
}

static int ep_bind_cq(struct p2p_ep *ep, struct p2p_cq *cq, uint64_t flags)
{
	uint64_t rx_flags = flags & ~FI_TRANSMIT, tx_flags = flags & ~FI_RECV;
	bool all = !(flags & FI_SELECTIVE_COMPLETION);

	if (!(flags & (FI_TRANSMIT | FI_RECV)))
		return -FI_EINVAL;
	if ((flags & FI_TRANSMIT && ep->xfer.txcq) || (flags & FI_RECV && ep->xfer.rxcq)) {
		P2P_WARN("an endpoint is bound to a second completion queue\n");
		return -FI_EINVAL;
	}
	/* we must see a marker whatever receive it matches; we keep back what nobody asked for */
	if (ep->xfer.layered)
		rx_flags &= ~FI_SELECTIVE_COMPLETION;
	if (flags & FI_TRANSMIT) {
		ep_bind_core(ep, &cq->xfer, tx_flags);
		ep->tx_all = all;
		if (all)
			ep->tx_flags |= FI_COMPLETION;
	}
	if (flags & FI_RECV) {
		ep_bind_core(ep, &cq->xfer, rx_flags);
		ep->rx_all = all;
		ep_set_rx_flags(ep, ep->xfer.rx_flags);
		cq_set_av(cq, ep->av);
		if (ep->domain->layered && ep->caps & FI_SOURCE)
			cq_tell_sources(cq);
	}
	return 0;
}

static int ep_bind_av(struct p2p_ep *ep, struct p2p_av *av, uint64_t flags)
{
	int ret = fi_ep_bind(ep->xfer.core, &av->core->fid, flags);

	if (ret)
		return ret;
	ep->av = av;
	p2p_lock_take(&ep->domain->xfer.lock);
	ep->xfer.renamed = !av_same(av);
	xfer_ep_limit(&ep->xfer);
	p2p_lock_drop(&ep->domain->xfer.lock);
	if (ep->xfer.rxcq)
		cq_set_av(container_of(ep->xfer.rxcq, struct p2p_cq, xfer), av);
	return 0;
}

/* The kinds of operations that the core's counters count: those that only the core knows of */
static uint64_t ep_core_counts(const struct p2p_ep *ep)
{
	uint64_t kinds = ep->domain->serves_all ? 0 : FI_REMOTE_READ | FI_REMOTE_WRITE;

	/* what comes by way of a shared context, that context counts */
	if (ep->shares_rx)
		kinds |= FI_RECV;
	return kinds;
}

/* Do we count operations of one of these kinds? */
static bool ep_counts(const struct p2p_ep *ep, uint64_t kinds)
{
	kinds &= ~ep_core_counts(ep);
	for (uint64_t kind = FI_READ; kind <= FI_REMOTE_WRITE; kind <<= 1) {
		if (kinds & kind && ep->xfer.cntrs[xfer_count_index(kind)])
			return true;
	}
	return false;
}

/*
 * Is a queue of ours to take the place of one that the application has not bound? It is where our counters tell of
 * what the queue would, or where the application has no such operations. 1, 0, or -FI_ENOCQ
 */
static int ep_wants_own_cq(const struct p2p_ep *ep, const struct xfer_cq *cq, uint64_t kinds)
{
	uint64_t dirs = ep->caps & (FI_SEND | FI_RECV);

	if (cq)
		return 0;
	if (ep_counts(ep, kinds) || (ep->xfer.layered && dirs && !(dirs & kinds)))
		return 1;
	return ep->xfer.layered ? -FI_ENOCQ : 0;
}

/* Does anybody sleep on a counter of the endpoint? */
static bool ep_sleeps(const struct p2p_ep *ep)
{
	for (int i = 0; i < XFER_COUNT_KINDS; i++) {
		if (ep->xfer.cntrs[i] && ep->xfer.cntrs[i]->point)
			return true;
	}
	return false;
}

static int ep_own_cq(struct p2p_ep *ep, struct xfer_cq *own, uint64_t flags)
{
	bool sleeps = ep_sleeps(ep);
	struct fi_cq_attr attr = {.wait_obj = sleeps ? FI_WAIT_UNSPEC : FI_WAIT_NONE};
	int ret;

	own->silent = true;
	ret = cq_open_core(ep->domain, &attr, sleeps, own, NULL);
	if (ret)
		return ret;
	ep_bind_core(ep, own, flags);
	return 0;
}

/* A queue that the core has been bound to stays until the endpoint closes. */
static void ep_drop_own_cqs(struct p2p_ep *ep)
{
	for (int i = 0; i < 2; i++) {
		const uint64_t flags = ep->binds[i];

		if (!ep->own[i].core || !flags)
			continue;
		ep_bind_core(ep, NULL, flags);
		ep->binds[i] = 0;
		if (xfer_cq_fini(&ep->own[i]))
			ep_bind_core(ep, &ep->own[i], flags);
		else
			memset(&ep->own[i], 0, sizeof ep->own[i]);
	}
}

/*
 * Opens missing queues: the core wants both, and our receives and counted operations need one. If one is
 * missing, or the vector, nothing is opened: the application may bind them, and enable the endpoint again.
 */
static int ep_complete_cqs(struct p2p_ep *ep)
{
	static const uint64_t flags[] = {FI_TRANSMIT, FI_RECV};
	const int own[] = {
		ep_wants_own_cq(ep, ep->xfer.txcq, FI_SEND | FI_READ | FI_WRITE),
		ep_wants_own_cq(ep, ep->xfer.rxcq, FI_RECV),
	};
	int ret = 0;

	if (own[0] < 0 || own[1] < 0) {
		P2P_INFO("an endpoint is enabled that lacks a completion queue\n");
		return -FI_ENOCQ;
	}
	if ((own[0] || own[1]) && ep->xfer.layered && !ep->av)
		return -FI_ENOAV;
	for (int i = 0; !ret && i < 2; i++)
		ret = own[i] ? ep_own_cq(ep, &ep->own[i], flags[i]) : 0;
	return ret;
}

static int ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct p2p_ep *ep = ep_of(fid);
	struct fid *core = fid_core(bfid);

	if (!bfid)
		return -FI_EINVAL;
	if (core != bfid && bfid->fclass == FI_CLASS_CQ)
		return ep_bind_cq(ep, cq_of(bfid), flags);
	if (core != bfid && bfid->fclass == FI_CLASS_AV)
		return ep_bind_av(ep, av_of(bfid), flags);
	if (core != bfid && bfid->fclass == FI_CLASS_CNTR)
		return cntr_bind_ep(cntr_of(bfid), &ep->xfer, flags, ep_core_counts(ep));
	if (bfid->fclass == FI_CLASS_SRX_CTX) {
		if (ep->xfer.cntrs[xfer_count_index(FI_RECV)]) {
			P2P_WARN(
				"a shared receive context is to be bound before the counter of "
				"receives\n");
			return -FI_EINVAL;
		}
		ep->shares_rx = true;
	}
	return fi_ep_bind(ep->xfer.core, core, flags);
}

static int ep_resolve(struct xfer_ep *xfer, const void *name, size_t len, bool learn,
		      fi_addr_t *addr)
{
	struct p2p_ep *ep = container_of(xfer, struct p2p_ep, xfer);

	return ep->av ? av_resolve(ep->av, name, len, learn, addr) : -FI_EINVAL;
}

static int ep_lookup(struct xfer_ep *xfer, fi_addr_t addr, void *name, size_t *len)
{
	struct p2p_ep *ep = container_of(xfer, struct p2p_ep, xfer);

	return ep->av ? fi_av_lookup(ep->av->core, addr, name, len) : -FI_EINVAL;
}

static void ep_print(const struct xfer_ep *xfer, fi_addr_t addr, char *text, size_t room)
{
	const struct p2p_ep *ep = container_of(xfer, struct p2p_ep, xfer);
	char name[WIRE_NAME_MAX] = {0};
	size_t len = sizeof name;

	snprintf(text, room, "a peer");
	if (ep->av && !fi_av_lookup(ep->av->core, addr, name, &len) && len <= sizeof name)
		fi_av_straddr(ep->av->core, name, text, &room);
}

/* Who asks for device memory, and uses a device already, does not wait for it later. */
static void ep_meet_device(struct p2p_ep *ep)
{
	struct xfer *xfer = ep->xfer.xfer;
	struct dev_mem mem;

	domain_meet_devices(ep->domain, ep->caps);
	if (!(ep->caps & (FI_HMEM | FI_P2P)) || !dev_current(&mem))
		return;
	p2p_lock_take(&xfer->lock);
	xfer_ready(xfer, &mem);
	p2p_lock_drop(&xfer->lock);
}

static int ep_enable(struct p2p_ep *ep)
{
	size_t len = sizeof ep->xfer.name;
	int ret;

	ep_meet_device(ep);
	ret = ep_complete_cqs(ep);
	if (!ret)
		ret = ep_enable_core(ep);
	if (ret)
		ep_drop_own_cqs(ep);
	if (ret || ep->xfer.started || !ep->xfer.layered)
		return ret;
	p2p_lock_take(&ep->domain->xfer.lock);
	hello_start(&ep->xfer);
	p2p_lock_drop(&ep->domain->xfer.lock);
	ret = fi_getname(&ep->xfer.core->fid, ep->xfer.name, &len);
	/* a longer name is not kept, which name_len tells */
	if (ret && ret != -FI_ETOOSMALL) {
		P2P_WARN("fi_getname: %s\n", fi_strerror(-ret));
		return ret;
	}
	ep->xfer.name_len = len;
	xfer_ep_start(&ep->xfer);
	return 0;
}

/* FI_SETOPSFLAG: changes what calls without flags do in one direction */
static int ep_set_ops_flags(struct p2p_ep *ep, uint64_t flags)
{
	uint64_t core = flags & ~FI_TRIGGER;
	uint64_t defaults = flags & ~(FI_TRANSMIT | FI_RECV);
	int ret;

	if (flags & FI_TRIGGER && !ep->domain->triggers)
		return fid_refuse_trigger();
	ret = flags_check_own(ep->domain->layered, flags & FI_TRANSMIT ? defaults : 0,
			      flags & FI_RECV ? defaults : 0);
	if (ret)
		return ret;
	if (ep->domain->layered)
		core = info_flags_to_core(core);
	ret = fid_control(&ep->fid.fid, FI_SETOPSFLAG, &core);
	if (ret)
		return ret;
	if (flags & FI_TRANSMIT)
		ep_set_tx_flags(ep, defaults | (ep->tx_all ? FI_COMPLETION : 0));
	if (flags & FI_RECV)
		ep_set_rx_flags(ep, defaults);
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
	struct fid *core = &ep->xfer.core->fid;
	int ret;

	if (domain_inherited(ep->domain))
		return 0;
	if (triggers && triggers->ep_busy(ep))
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
	.ops =
		{
			.size = sizeof(struct fi_ops),
			.close = ep_close,
			.bind = ep_bind,
			.control = ep_control,
			.ops_open = fid_ops_open,
		},
	.core = offsetof(struct p2p_ep, xfer.core),
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
	bool layered = domain->layered;
	int ret;

	ep_opt_set_hmem_p2p(ep, FI_HMEM_P2P_ENABLED);
	/*
	 * the core wants descriptors: we add them to every operation; or operations may count for any
	 * counter
	 */
	if (domain->xfer.local || domain->triggers)
		ep->xfer.followed = XFER_COUNT_ALL;
	ep->xfer.layered = layered;
	ep->xfer.tally = conf.stats != CONF_STATS_NO;
	ep->xfer.data_mask = layered ? WIRE_USER_DATA_MASK : ~0ULL;
	ep->xfer.resolve = ep_resolve;
	ep->xfer.lookup = ep_lookup;
	ep->xfer.print = ep_print;
	ret = xfer_ep_init(&ep->xfer, &domain->xfer);
	if (ret)
		return ret;
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

/* Sets what transfers have to know of the core provider. */
static void ep_set_quirks(struct p2p_ep *ep)
{
	const bool layered = ep->domain->layered;
	const uint64_t quirks = ep->domain->quirks;

	ep->xfer.stalls = layered && quirks & QUIRK_STALLS;
	ep->xfer.mixes = quirks & QUIRK_MIXES;
	ep->xfer.shuns = layered && quirks & QUIRK_DIRECTED;
	ep->xfer.litters = quirks & QUIRK_LITTERS;
	ep->xfer.fragile = quirks & QUIRK_FRAGILE;
	ep->xfer.near = layered && quirks & QUIRK_NEAR;
	ep->xfer.peeks = !layered || !(quirks & QUIRK_NO_PEEK);
	ep->xfer.peek_data = quirks & QUIRK_PEEK_UNMARKED ? 0 : FI_REMOTE_CQ_DATA;
}

/* 0 leaves the limit to us */
static size_t ep_iov_limit(size_t asked)
{
	return asked ? P2P_MIN(asked, P2P_IOV_MAX) : P2P_IOV_MAX;
}

/* @core: the core's info; @format: what the application says of tags. 0 or -FI_EINVAL */
static int ep_set_tag_bit(struct p2p_ep *ep, const struct fi_info *core, uint64_t format)
{
	if (!ep->domain->layered)
		return 0;
	ep->xfer.tag_bit = info_tag_bit(info_offered_format(core, format));
	if (ep->xfer.tag_bit)
		return 0;
	P2P_WARN("mem_tag_format 0x%zx leaves no bit to us: use what fi_getinfo gives\n",
		 (size_t) format);
	return -FI_EINVAL;
}

/* Opens the core's endpoint. @info: the application's, becomes the core's. 0 or an error */
static int ep_open_core(struct p2p_ep *ep, struct fi_info *info)
{
	const struct p2p_domain *domain = ep->domain;
	const uint64_t format = info->ep_attr->mem_tag_format;
	int ret = domain->fabric->layered ? info_to_core(info, fi_version()) : 0;

	if (!ret)
		ret = ep_set_tag_bit(ep, info, format);
	if (ret)
		return ret;
	/* a connection request's handle belongs to the core, and is given to it once */
	info->handle = fid_core(info->handle);
	if (domain->xfer.local)
		info_core_add_maps(info);
	if (domain->xfer.stage.lender)
		info_core_add_lending(info);
	ep_set_quirks(ep);
	if (ep->xfer.stalls)
		ret = side_ep_init(ep, info);
	if (!ret && domain->layered)
		ret = lanes_init(&ep->xfer, info);
	if (ret)
		return ret;
	ret = fi_endpoint(domain->core, info, &ep->xfer.core, ep);
	if (ret)
		side_ep_fini(ep);
	else
		fid_pair_add(&ep->pair, &ep->xfer.core->fid, &ep->fid.fid);
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
	if (ep->xfer.layered && ep->caps & FI_FENCE)
		ep->xfer.followed |= FI_SEND | FI_READ | FI_WRITE;
	ep->xfer.notices = ep->domain->layered && info->mode & FI_RX_CQ_DATA;
	ep->xfer.counts_remote = xfer->key_mark && info->caps & FI_RMA_EVENT;
	ep->xfer.iov_limit = ep_iov_limit(tx ? tx->iov_limit : 0);
	ep->xfer.recv_iov_limit = ep_iov_limit(info->rx_attr ? info->rx_attr->iov_limit : 0);
	if (!tx)
		return;
	ep_set_tx_flags(ep, tx->op_flags);
	/* a utility provider does not tell the limit of the one below it */
	ep->xfer.inline_max =
		xfer->direct ? tx->inject_size : P2P_MAX(tx->inject_size, WIRE_PLAIN_MAX);
}

/* Are operations without flags to wait for counters? */
static bool ep_triggers(const struct fi_tx_attr *tx, const struct fi_rx_attr *rx)
{
	return (tx && tx->op_flags & FI_TRIGGER) || (rx && rx->op_flags & FI_TRIGGER);
}

int ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep_fid,
	    void *context)
{
	struct p2p_ep *ep;
	int ret;

	if (!info || !info->ep_attr || !ep_fid)
		return -FI_EINVAL;
	if (ep_triggers(info->tx_attr, info->rx_attr) && !domain_of(&domain->fid)->triggers)
		return fid_refuse_trigger();
	ret = flags_check_own(domain_of(&domain->fid)->layered,
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
	ret = ep_init(ep, FI_CLASS_EP, context);
	if (ret)
		goto free_both;
	ret = ep_open_core(ep, ep->core_info);
	if (ret)
		goto fini_xfer;
	ep_set_attr(ep, info);
	ep->xfer.borrows = ep->domain->xfer.stage.lender;
	/* there the core does not copy messages, and markers would be in the way of others */
	ep->xfer.lends = ep->xfer.borrows && !ep->xfer.stalls;
	xfer_ep_add(&ep->xfer);
	ep_set_rx_flags(ep, info->rx_attr ? info->rx_attr->op_flags : 0);
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

int ep_open_srx(struct fid_domain *domain_fid, struct fi_rx_attr *attr, struct fid_ep **ep_fid,
		void *context)
{
	struct p2p_domain *domain = domain_of(&domain_fid->fid);
	struct p2p_ep *ep;
	int ret;

	if (domain->layered) {
		P2P_INFO("shared receive contexts are not offered\n");
		return -FI_ENOSYS;
	}
	if (ep_triggers(NULL, attr))
		return fid_refuse_trigger();
	/* another provider's own is not wrapped, see cq_open() */
	if (attr && attr->op_flags & FI_PEER)
		return fi_srx_context(domain->core, attr, ep_fid, context);
	ep = p2p_new(sizeof *ep);
	if (!ep)
		return -FI_ENOMEM;
	ep->domain = domain;
	ret = ep_init(ep, FI_CLASS_SRX_CTX, context);
	if (ret)
		goto free_ep;
	ret = fi_srx_context(domain->core, attr, &ep->xfer.core, ep);
	if (ret)
		goto fini_xfer;
	ep->xfer.recv_iov_limit = ep_iov_limit(attr ? attr->iov_limit : 0);
	/* whose capabilities count is the core's to say: there is no table here that misses an address */
	ep->directed = true;
	xfer_ep_add(&ep->xfer);
	/* which endpoint, and so which queue, a receive is for is not known when it is posted */
	ep->rx_all = true;
	ep_set_rx_flags(ep, attr ? attr->op_flags : 0);
	*ep_fid = &ep->fid;
	return 0;

fini_xfer:
	xfer_ep_undo(&ep->xfer);
free_ep:
	free(ep);
	return ret;
}
