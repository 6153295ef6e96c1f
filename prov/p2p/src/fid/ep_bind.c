/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What endpoints are bound to, until they are enabled. See ep_bind.h. */
#include "fid/ep_bind.h"

#include <string.h>
#include <rdma/fi_errno.h>

#include "base/log.h"
#include "fid/av.h"
#include "fid/cntr.h"
#include "fid/cq.h"
#include "xfer/ep_state.h"
#include "xfer/life.h"

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

static int ep_bind_noted(struct p2p_ep *ep)
{
	struct xfer_cq *cqs[] = {ep->xfer.txcq, ep->xfer.rxcq};
	int ret = 0;

	xfer_assert_locked(&ep->domain->xfer);
	for (int i = 0; !ret && i < 2; i++) {
		if (ep->binds[i])
			ret = fi_ep_bind(ep->xfer.front.core, &cqs[i]->core->fid, ep->binds[i]);
		if (!ret)
			ep->binds[i] = 0;
	}
	return ret;
}

/* A core may enable the contexts of a scalable endpoint with that. */
static int ep_enable_core(struct p2p_ep *ep)
{
	struct p2p_ep *ctx;
	int ret;

	p2p_lock_take(&ep->domain->xfer.lock);
	ret = ep_bind_noted(ep);
	LIST_FOREACH(ctx, &ep->contexts, sibling)
		ret = ret ? ret : ep_bind_noted(ctx);
	if (!ret)
		ret = fi_enable(ep->xfer.front.core);
	p2p_lock_drop(&ep->domain->xfer.lock);
	return ret;
}

void ep_bind_set_rx_flags(struct p2p_ep *ep, uint64_t flags)
{
	p2p_lock_take(&ep->domain->xfer.lock);
	ep->xfer.rx_flags = flags | (ep->rx_all ? FI_COMPLETION : 0);
	xfer_ep_limit(&ep->xfer);
	p2p_lock_drop(&ep->domain->xfer.lock);
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
	rx_flags &= ~(ep->xfer.ours & FI_SELECTIVE_COMPLETION);
	if (flags & FI_TRANSMIT) {
		ep_bind_core(ep, &cq->xfer, tx_flags);
		ep->tx_all = all;
		if (all)
			ep->tx_flags |= FI_COMPLETION;
	}
	if (flags & FI_RECV) {
		ep_bind_core(ep, &cq->xfer, rx_flags);
		ep->rx_all = all;
		ep_bind_set_rx_flags(ep, ep->xfer.rx_flags);
		cq_set_av(cq, ep->av);
		if (ep->domain->core_info->caps & ep->caps & FI_SOURCE)
			cq_tell_sources(cq);
	}
	return 0;
}

static int ep_bind_av(struct p2p_ep *ep, struct p2p_av *av, uint64_t flags)
{
	int ret = fi_ep_bind(ep->xfer.front.core, &av->core->fid, flags);
	struct p2p_ep *ctx;

	if (ret)
		return ret;
	ep->av = av;
	LIST_FOREACH(ctx, &ep->contexts, sibling)
		ctx->av = av;
	p2p_lock_take(&ep->domain->xfer.lock);
	ep->xfer.renamed = !av_same(av);
	xfer_ep_limit(&ep->xfer);
	p2p_lock_drop(&ep->domain->xfer.lock);
	if (ep->xfer.rxcq)
		cq_set_av(container_of(ep->xfer.rxcq, struct p2p_cq, xfer), av);
	return 0;
}

#define EP_TX_KINDS (FI_SEND | FI_READ | FI_WRITE)
#define EP_RX_KINDS (FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE)

/* The kinds of operations that may be posted there, or that peers may do */
static uint64_t ep_kinds(const struct p2p_ep *ep)
{
	switch (ep->fid.fid.fclass) {
	case FI_CLASS_EP:
		return EP_TX_KINDS | EP_RX_KINDS;
	case FI_CLASS_TX_CTX:
		return EP_TX_KINDS;
	case FI_CLASS_RX_CTX:
		return EP_RX_KINDS;
	default:
		return 0;
	}
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
 * what the queue would. 1, 0, or an error
 */
static int ep_wants_own_cq(const struct p2p_ep *ep, const struct xfer_cq *cq, uint64_t kinds)
{
	return cq ? 0
		  : ep->domain->kind->lacks_cq(ep, kinds & ep_kinds(ep), ep_counts(ep, kinds));
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
	/* over a hook, the core reports there what is ours only */
	ep_bind_core(ep, own, flags | (FI_SELECTIVE_COMPLETION & ~ep->xfer.ours));
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
		ep_wants_own_cq(ep, ep->xfer.txcq, EP_TX_KINDS),
		ep_wants_own_cq(ep, ep->xfer.rxcq, FI_RECV),
	};
	int ret = own[0] < 0 ? own[0] : P2P_MIN(own[1], 0);

	if (ret)
		P2P_INFO("an endpoint is enabled that lacks a completion queue, or an address "
			 "vector\n");
	for (int i = 0; !ret && i < 2; i++)
		ret = own[i] ? ep_own_cq(ep, &ep->own[i], flags[i]) : 0;
	return ret;
}

/* Queues and counters of a scalable endpoint are those of each context that it has. */
static int ep_bind_contexts(struct p2p_ep *sep, struct fid *bfid, uint64_t flags)
{
	struct p2p_ep *ctx;
	int ret = 0;

	LIST_FOREACH(ctx, &sep->contexts, sibling) {
		const uint64_t others = (EP_TX_KINDS | EP_RX_KINDS) & ~ep_kinds(ctx);

		if (!ret && flags & ep_kinds(ctx))
			ret = fi_ep_bind(&ctx->fid, bfid, flags & ~others);
	}
	return ret;
}

int ep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct p2p_ep *ep = ep_of(fid);
	struct fid *core = fid_core(bfid);

	if (!bfid)
		return -FI_EINVAL;
	if (fid->fclass == FI_CLASS_SEP && core != bfid &&
	    (bfid->fclass == FI_CLASS_CQ || bfid->fclass == FI_CLASS_CNTR))
		return ep_bind_contexts(ep, bfid, flags);
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
	return fi_ep_bind(ep->xfer.front.core, core, flags);
}

int ep_bind_enable(struct p2p_ep *ep)
{
	int ret = ep_complete_cqs(ep);
	struct p2p_ep *ctx;

	LIST_FOREACH(ctx, &ep->contexts, sibling)
		ret = ret ? ret : ep_complete_cqs(ctx);
	if (!ret)
		ret = ep_enable_core(ep);
	if (ret)
		ep_drop_own_cqs(ep);
	return ret;
}
