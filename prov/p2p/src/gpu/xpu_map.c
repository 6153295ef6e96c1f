/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Peers' device memory that kernels store to themselves. See xpu.h.
 *
 *	owner: mr_share ► an offer, as within messages ── the application ──► target_map ► ipc_open ► tables that kernels read
 *
 * A signal comes after all puts to its peer. So kernels store to a peer once all its targets are mapped; until then the
 * proxy posts all that is for it. Nothing that has been opened is closed before the context is.
 */
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>

#include "base/conf.h"
#include "base/log.h"
#include "gpu/xpu.h"
#include "proto/rma_served.h"
#include "xfer/ep_state.h"

#define XPU_SHARE_MAGIC UINT64_C(0x6f66695f73686172)

_Static_assert(sizeof(struct xpu_share) <= FI_P2P_XPU_SHARE,
	       "more than applications have room for");
_Static_assert(FI_P2P_XPU_ATOMIC_MAX == RMA_SERVED_ATOMIC_MAX,
	       "one word is changed in one way, whatever the length");
_Static_assert(FI_P2P_XPU_TARGETS == FI_P2P_XPU_TARGETS_MASK + 1, "each has a place");

struct xpu_map {
	struct ipc_import *import;
	SLIST_ENTRY(xpu_map) entry;
};

/* ---- the owner ---- */

int xpu_mr_share(struct p2p_mr *mr, void *buf, size_t *len)
{
	const char *why = "it is not one piece of device memory that ofi_p2p serves";
	const struct region *region = &mr->region;
	const struct ipc_export *export = NULL;
	struct xfer *xfer = &mr->domain->xfer;
	const size_t room = *len;
	struct xpu_share share;

	*len = sizeof share;
	if (room < sizeof share || !buf)
		return -FI_ETOOSMALL;
	memset(&share, 0, sizeof share);
	share.magic = XPU_SHARE_MAGIC;
	share.key = region->key;
	share.base = region->base;
	share.len = region->len;
	share.access = region->access;
	p2p_lock_take(&xfer->lock);
	if (conf.path == CONF_PATH_STAGE)
		why = "FI_P2P_PATH=stage";
	else if (mr->served && region->mem.ops && region->count == 1 && !region->all)
		export = ipc_export(&xfer->ipc, &region->mem, region->iov[0].iov_base,
				    region->len, &why);
	if (export)
		ipc_describe(&xfer->ipc, export, &region->mem, region->iov[0].iov_base,
			     &share.offer);
	if (export && !mr->own.entry.le_prev)
		ipc_own_stand(&mr->own, 0, &region->mem, NULL, 0);
	p2p_lock_drop(&xfer->lock);
	if (!export) {
		P2P_INFO("peers' kernels cannot store to a region: %s\n", why);
		return -FI_EOPNOTSUPP;
	}
	share.shared = share.offer.shared;
	share.offer.shared = false;
	memcpy(buf, &share, sizeof share);
	return 0;
}

/* ---- its peer ---- */

int xpu_share_read(const void *buf, size_t len, struct xpu_share *share)
{
	const struct ipc_offer *offer = &share->offer;

	if (len != sizeof *share)
		return -FI_EINVAL;
	memcpy(share, buf, sizeof *share);
	share->offer.shared = share->shared != 0;
	return share->magic != XPU_SHARE_MAGIC || offer->offset > offer->size ||
			       share->len > offer->size - offer->offset
		       ? -FI_EINVAL
		       : 0;
}

static int xpu_share_check(const struct xpu_share *share,
			   const struct fi_p2p_xpu_target *target)
{
	if (share->key != target->key || target->addr - share->base >= share->len)
		return -FI_EKEYREJECTED;
	return share->access & FI_REMOTE_WRITE ? 0 : -FI_EACCES;
}

/*
 * Fills in the place where kernels find local memory, and what else they reach of that allocation. Of host memory that is not
 * known. NULL, or the reason why they find none
 */
static const char *xpu_map_local(const struct gpu_dev *dev, void *buf,
				 struct xpu_target *target)
{
	void *addr = buf;
	struct dev_mem mem;
	int ret = buf ? dev_find(buf, &mem) : 0;

	if (ret < 0 || (ret && (mem.ops != dev->mem.ops || mem.ordinal != dev->mem.ordinal)))
		return "the target's local memory is another device's";
	if (buf && !ret) {
		if (dev->mem.ops->hosts(buf) != 1)
			return "the target's local memory is not pinned";
		if (dev->mem.ops->host_address(&dev->mem, buf, &addr))
			return "the GPU cannot reach the target's local memory";
	}
	target->mapped.from = (uintptr_t) addr;
	target->range.local = ret ? mem.base : 0;
	target->range.local_len = ret ? mem.size : 0;
	return NULL;
}

int xpu_share_open(struct p2p_domain *domain, const struct dev_mem *local, uint64_t peer,
		   const struct xpu_share *share, struct ipc_import **import, void **addr,
		   const char **why)
{
	const struct ipc_offer *offer = &share->offer;
	const struct ipc_claim claim = {.peer = peer, .len = share->len, .offer = offer};
	struct xfer *xfer = &domain->xfer;
	int ret;

	*why = "FI_P2P_PATH=stage";
	if (conf.path == CONF_PATH_STAGE)
		return -FI_EOPNOTSUPP;
	*why = "it is another host's, another user's, or this process's";
	if (!ipc_near(&xfer->ipc, offer) || offer->process == xfer->ipc.process)
		return -FI_EOPNOTSUPP;
	p2p_lock_take(&xfer->lock);
	ret = ipc_open(&xfer->ipc, &claim, local, import, addr);
	p2p_lock_drop(&xfer->lock);
	*why = ret == -FI_EAGAIN ? "memory of other processes that is open is in the way"
				 : "this GPU cannot open it";
	return ret;
}

/* Opens the peer's memory, for as long as the context is there. @peer: the number of the endpoint's */
static int xpu_map_open(struct xpu_ctx *ctx, const struct xpu_share *share, unsigned int peer,
			void **addr, const char **why)
{
	struct xfer *xfer = &ctx->native.domain->xfer;
	struct xpu_map *map = malloc(sizeof *map);
	int ret;

	*why = "out of memory";
	if (!map)
		return -FI_ENOMEM;
	ret = xpu_share_open(ctx->native.domain, &ctx->dev.mem, (uintptr_t) ctx->puts + peer,
			     share, &map->import, addr, why);
	if (ret) {
		free(map);
		return ret;
	}
	p2p_lock_take(&xfer->lock);
	SLIST_INSERT_HEAD(&ctx->maps, map, entry);
	p2p_lock_drop(&xfer->lock);
	return 0;
}

/* Fills in what is mapped of @target: 0, or an error with @why */
static int xpu_map(struct xpu_ctx *ctx, struct xpu_target *target,
		   const struct xpu_share *share, const char **why)
{
	const uint64_t offset = target->is.addr - share->base;
	void *addr;
	int ret;

	*why = NULL;
	if (!ctx->dev.mem.ops)
		*why = "the kernels are threads of the host";
	else
		*why = xpu_map_local(&ctx->dev, target->is.buf, target);
	if (*why)
		return -FI_EOPNOTSUPP;
	ret = xpu_map_open(ctx, share, target->peer, &addr, why);
	if (ret)
		return ret;
	target->mapped.to = (uintptr_t) addr + offset;
	target->mapped.len = share->len - offset;
	target->range.peer = target->is.dest_addr;
	target->range.key = target->is.key;
	target->range.addr = share->base;
	target->range.to = (uintptr_t) addr;
	target->range.len = share->len;
	target->range.what = FI_P2P_XPU_RANGE_WRITE |
			     (share->access & FI_REMOTE_READ ? FI_P2P_XPU_RANGE_READ : 0);
	return 0;
}

/* One for all targets of a region and an allocation here. Kernels look no further: what has no place there is the proxy's */
static void xpu_range_list(const struct xpu_target *target, uint32_t number,
			   struct fi_p2p_xpu_range *ranges)
{
	struct fi_p2p_xpu_range *range =
		&ranges[FI_P2P_XPU_RANGE_AT(target->range.peer, target->range.key)];

	for (unsigned int i = 0; i < FI_P2P_XPU_PROBES; i++) {
		if (!memcmp(&range[i], &target->range, offsetof(struct fi_p2p_xpu_range, what)))
			return;
		if (range[i].what)
			continue;
		range[i] = target->range;
		range[i].what |= number;
		return;
	}
	P2P_INFO("kernels find target %u by its number alone: there are too many of that key\n",
		 number);
}

/* Fills @table, as kernels are to read it: with the targets of those peers of whom all are mapped */
static void xpu_mapped_list(struct xpu_ep *ep, struct fi_p2p_xpu_table *table)
{
	for (unsigned int i = 0; i < ep->peer_count; i++)
		ep->peers[i].mapped = true;
	for (uint32_t i = 0; i < ep->target_count; i++) {
		if (!ep->targets[i].mapped.to)
			ep->peers[ep->targets[i].peer].mapped = false;
	}
	/* the latest first: its key, or its peer, may stand for something else now */
	for (uint32_t i = ep->target_count; i-- > 0;) {
		if (!ep->peers[ep->targets[i].peer].mapped)
			continue;
		table->mapped[i] = ep->targets[i].mapped;
		xpu_range_list(&ep->targets[i], i, table->range);
	}
}

/*
 * What kernels are to tell of, and whether they look for ranges: not where all that follows an operation with FI_FENCE waits
 * for what the proxy has posted.
 */
static uint64_t xpu_mapped_tell(const struct p2p_ep *ep)
{
	const struct xfer_ep *xfer_ep = &ep->xfer;
	const bool writes = xfer_ep->cntrs[xfer_count_index(FI_WRITE)] != NULL;
	uint64_t tell = writes ? FI_P2P_XPU_TELL_PUTS : 0;

	if (writes || xfer_ep->cntrs[xfer_count_index(FI_READ)] ||
	    (xfer_ep->txcq && !xfer_ep->txcq->silent))
		tell |= FI_P2P_XPU_TELL_OPS;
	return tell | (ep->caps & FI_FENCE ? 0 : FI_P2P_XPU_TELL_RANGES);
}

/* From now on kernels look at the table. */
static int xpu_mapped_show(struct xpu_ep *ep, const struct fi_p2p_xpu_table *table)
{
	struct fi_p2p_xpu_ep_dev head = {
		.abi = FI_P2P_XPU_ABI | FI_P2P_XPU_MAPPED |
		       (ep->exclusive ? FI_P2P_XPU_OWNED : 0),
		.rings = ep->ring_count,
		.tell = xpu_mapped_tell(ep->ep),
	};
	struct xpu_shared *shared = ep->shared;
	struct gpu_dev *dev = &ep->ctx->dev;
	void *addr;
	int ret = gpu_state_alloc(dev, table, sizeof *table, &addr);

	if (ret)
		return ret;
	head.mapped = addr;
	ret = gpu_state_store(dev, shared->state, &head,
			      offsetof(struct fi_p2p_xpu_ep_dev, ring));
	if (ret)
		gpu_state_free(dev, addr);
	else
		shared->mapped = addr;
	return ret;
}

int xpu_mapped_store(struct xpu_ep *ep)
{
	struct fi_p2p_xpu_table *table = calloc(1, sizeof *table);
	int ret;

	if (!table)
		return -FI_ENOMEM;
	proxy_hold(ep->ctx->proxy);
	xpu_mapped_list(ep, table);
	proxy_release(ep->ctx->proxy);
	ret = ep->shared->mapped
		      ? gpu_state_store(&ep->ctx->dev, ep->shared->mapped, table, sizeof *table)
		      : xpu_mapped_show(ep, table);
	free(table);
	return ret;
}

static void xpu_target_set(struct xpu_ep *ep, uint32_t number, const struct xpu_target *target)
{
	proxy_hold(ep->ctx->proxy);
	ep->targets[number] = *target;
	proxy_release(ep->ctx->proxy);
}

/* The target, if @share is of its memory. 0 or an error */
static int xpu_target_get(const struct xpu_ep *ep, uint32_t number,
			  const struct xpu_share *share, struct xpu_target *target)
{
	int ret = -FI_EINVAL;

	proxy_hold(ep->ctx->proxy);
	if (number < ep->target_count) {
		*target = ep->targets[number];
		ret = target->mapped.to ? -FI_EALREADY : xpu_share_check(share, &target->is);
	}
	proxy_release(ep->ctx->proxy);
	return ret;
}

int xpu_target_map(struct xpu_ep *ep, uint32_t number, const void *buf, size_t len)
{
	struct xpu_target target, before;
	struct xpu_share share;
	const char *why;
	int ret;

	ret = xpu_share_read(buf, len, &share);
	if (!ret)
		ret = xpu_target_get(ep, number, &share, &target);
	if (ret)
		return ret;
	before = target;
	ret = xpu_map(ep->ctx, &target, &share, &why);
	if (ret) {
		P2P_INFO("kernels do not store to target %u themselves: %s\n", number, why);
		return ret;
	}
	xpu_target_set(ep, number, &target);
	ret = xpu_mapped_store(ep);
	if (ret)
		xpu_target_set(ep, number, &before);
	return ret;
}

void xpu_maps_close(struct xpu_ctx *ctx)
{
	struct xfer *xfer = &ctx->native.domain->xfer;
	struct xpu_map *map;

	p2p_lock_take(&xfer->lock);
	while ((map = SLIST_FIRST(&ctx->maps))) {
		SLIST_REMOVE_HEAD(&ctx->maps, entry);
		ipc_close(&xfer->ipc, map->import);
		free(map);
	}
	p2p_lock_drop(&xfer->lock);
}
