/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Peers' device memory that kernels store to themselves. See xpu.h.
 *
 *	owner: mr_share ► an offer, as within messages ── the application ──► target_map ► ipc_open ► a table that kernels read
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
#include "xfer/ep_state.h"

#define XPU_SHARE_MAGIC UINT64_C(0x6f66695f73686172)

/* What mr_share() writes. A peer may say anything there. @shared: in place of the offer's */
struct xpu_share {
	uint64_t magic;
	uint64_t key;
	uint64_t base;
	uint64_t len;
	uint64_t access;
	uint64_t shared;
	struct ipc_offer offer;
};

_Static_assert(sizeof(struct xpu_share) <= FI_P2P_XPU_SHARE,
	       "more than applications have room for");

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
	else if (mr->served && region->mem.ops && region->count == 1)
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

static int xpu_share_check(const struct xpu_share *share,
			   const struct fi_p2p_xpu_target *target)
{
	const struct ipc_offer *offer = &share->offer;

	if (share->magic != XPU_SHARE_MAGIC || offer->offset > offer->size ||
	    share->len > offer->size - offer->offset)
		return -FI_EINVAL;
	if (share->key != target->key || target->addr - share->base >= share->len)
		return -FI_EKEYREJECTED;
	return share->access & FI_REMOTE_WRITE ? 0 : -FI_EACCES;
}

/* Fills @from with the place where kernels find local memory. NULL, or the reason why they cannot */
static const char *xpu_map_local(const struct gpu_dev *dev, void *buf, uint64_t *from)
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
	*from = (uintptr_t) addr;
	return NULL;
}

/*
 * Opens the peer's memory, for as long as the context is there. @peer: the number of the endpoint's. 0, or an error with @why.
 * Memory of this process is not opened: nothing would keep it there.
 */
static int xpu_map_open(struct xpu_ctx *ctx, const struct xpu_share *share, unsigned int peer,
			void **addr, const char **why)
{
	const struct ipc_offer *offer = &share->offer;
	/* a number that no other peer of the domain's has */
	const struct ipc_claim claim = {.peer = (uintptr_t) ctx->puts + peer,
					.len = share->len,
					.offer = offer};
	struct xfer *xfer = &ctx->native.domain->xfer;
	struct xpu_map *map;
	int ret;

	*why = "it is another host's, another user's, or this process's";
	if (!ipc_near(&xfer->ipc, offer) || offer->process == xfer->ipc.process)
		return -FI_EOPNOTSUPP;
	*why = "out of memory";
	map = malloc(sizeof *map);
	if (!map)
		return -FI_ENOMEM;
	p2p_lock_take(&xfer->lock);
	ret = ipc_open(&xfer->ipc, &claim, &ctx->dev.mem, &map->import, addr);
	if (!ret)
		SLIST_INSERT_HEAD(&ctx->maps, map, entry);
	p2p_lock_drop(&xfer->lock);
	if (ret)
		free(map);
	*why = ret == -FI_EAGAIN ? "memory of other processes that is open is in the way"
				 : "this GPU cannot open it";
	return ret;
}

/* 0, or an error with @why */
static int xpu_map(struct xpu_ctx *ctx, const struct xpu_target *target,
		   const struct xpu_share *share, struct fi_p2p_xpu_mapped *mapped,
		   const char **why)
{
	const uint64_t offset = target->is.addr - share->base;
	void *addr;
	int ret;

	*why = NULL;
	if (!ctx->dev.mem.ops)
		*why = "the kernels are threads of the host";
	else if (conf.path == CONF_PATH_STAGE)
		*why = "FI_P2P_PATH=stage";
	else
		*why = xpu_map_local(&ctx->dev, target->is.buf, &mapped->from);
	if (*why)
		return -FI_EOPNOTSUPP;
	ret = xpu_map_open(ctx, share, target->peer, &addr, why);
	if (ret)
		return ret;
	mapped->to = (uintptr_t) addr + offset;
	mapped->len = share->len - offset;
	return 0;
}

/* Fills @table, as kernels are to read it: with the targets of those peers of whom all are mapped */
static void xpu_mapped_list(struct xpu_ep *ep, struct fi_p2p_xpu_mapped *table)
{
	for (unsigned int i = 0; i < ep->peer_count; i++)
		ep->peers[i].mapped = true;
	for (uint32_t i = 0; i < ep->target_count; i++) {
		if (!ep->targets[i].mapped.to)
			ep->peers[ep->targets[i].peer].mapped = false;
	}
	for (uint32_t i = 0; i < ep->target_count; i++) {
		if (ep->peers[ep->targets[i].peer].mapped)
			table[i] = ep->targets[i].mapped;
	}
}

/* From now on kernels look at the table. */
static int xpu_mapped_show(struct xpu_ep *ep, const struct fi_p2p_xpu_mapped *table)
{
	struct fi_p2p_xpu_ep_dev head = {
		.abi = FI_P2P_XPU_ABI | FI_P2P_XPU_MAPPED |
		       (ep->exclusive ? FI_P2P_XPU_OWNED : 0),
		.rings = ep->ring_count,
		.counted = ep->ep->xfer.cntrs[xfer_count_index(FI_WRITE)] != NULL,
	};
	struct xpu_shared *shared = ep->shared;
	struct gpu_dev *dev = &ep->ctx->dev;
	void *addr;
	int ret = gpu_state_alloc(dev, table, FI_P2P_XPU_TARGETS * sizeof *table, &addr);

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
	struct fi_p2p_xpu_mapped *table = calloc(FI_P2P_XPU_TARGETS, sizeof *table);
	uint32_t count;
	int ret;

	if (!table)
		return -FI_ENOMEM;
	proxy_hold(ep->ctx->proxy);
	count = ep->target_count;
	xpu_mapped_list(ep, table);
	proxy_release(ep->ctx->proxy);
	ret = ep->shared->mapped ? gpu_state_store(&ep->ctx->dev, ep->shared->mapped, table,
						   count * sizeof *table)
				 : xpu_mapped_show(ep, table);
	free(table);
	return ret;
}

/* Sets what is mapped of a target; all zero: nothing */
static void xpu_target_set(struct xpu_ep *ep, uint32_t number,
			   const struct fi_p2p_xpu_mapped *mapped)
{
	proxy_hold(ep->ctx->proxy);
	ep->targets[number].mapped = *mapped;
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
	struct fi_p2p_xpu_mapped mapped = {.to = 0};
	struct xpu_target target;
	struct xpu_share share;
	const char *why;
	int ret;

	if (len != sizeof share)
		return -FI_EINVAL;
	memcpy(&share, buf, sizeof share);
	share.offer.shared = share.shared != 0;
	ret = xpu_target_get(ep, number, &share, &target);
	if (ret)
		return ret;
	ret = xpu_map(ep->ctx, &target, &share, &mapped, &why);
	if (ret) {
		P2P_INFO("kernels do not store to target %u themselves: %s\n", number, why);
		return ret;
	}
	xpu_target_set(ep, number, &mapped);
	ret = xpu_mapped_store(ep);
	mapped = (struct fi_p2p_xpu_mapped){.to = 0};
	if (ret)
		xpu_target_set(ep, number, &mapped);
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
