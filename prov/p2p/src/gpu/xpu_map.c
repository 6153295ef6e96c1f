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

/* What mr_share() writes. A peer may say anything there. */
struct xpu_share {
	uint64_t magic;
	uint64_t key;
	uint64_t base;
	uint64_t len;
	uint64_t access;
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
	if (mr->served && region->mem.ops && region->count == 1)
		export = ipc_export(&xfer->ipc, &region->mem, region->iov[0].iov_base,
				    region->len, &why);
	if (export)
		ipc_describe(&xfer->ipc, export, &region->mem, region->iov[0].iov_base,
			     &share.offer);
	p2p_lock_drop(&xfer->lock);
	if (!export) {
		P2P_INFO("peers' kernels cannot store to a region: %s\n", why);
		return -FI_EOPNOTSUPP;
	}
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

/* Where kernels find local memory. NULL, or why they do not */
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

/* Where this process has it itself. False: it is gone, or another device's */
static bool xpu_map_own(const struct gpu_dev *dev, const struct ipc_offer *offer, void **addr)
{
	struct dev_mem mem;

	*addr = (void *) (uintptr_t) (offer->base + offer->offset);
	return dev_find(*addr, &mem) == 1 && mem.id == offer->id && mem.ops == dev->mem.ops &&
	       mem.ordinal == dev->mem.ordinal;
}

/* Opens the peer's memory, for as long as the context is there. NULL, or why it cannot */
static const char *xpu_map_open(struct xpu_ctx *ctx, const struct xpu_share *share, void **addr)
{
	const struct ipc_offer *offer = &share->offer;
	const struct ipc_claim claim = {.len = share->len, .offer = offer};
	struct xfer *xfer = &ctx->native.domain->xfer;
	struct xpu_map *map;
	int ret;

	if (!ipc_near(&xfer->ipc, offer))
		return "it is another host's, another user's or another container's";
	if (offer->process == xfer->ipc.process)
		return xpu_map_own(&ctx->dev, offer, addr) ? NULL : "it is another GPU's here";
	map = malloc(sizeof *map);
	if (!map)
		return "out of memory";
	p2p_lock_take(&xfer->lock);
	ret = ipc_open(&xfer->ipc, &claim, &ctx->dev.mem, &map->import, addr);
	if (!ret)
		SLIST_INSERT_HEAD(&ctx->maps, map, entry);
	p2p_lock_drop(&xfer->lock);
	if (!ret)
		return NULL;
	free(map);
	return ret == -FI_EAGAIN
		       ? "too much of other processes' memory is open (FI_P2P_MAP_SIZE)"
		       : "this GPU cannot open it";
}

static const char *xpu_map(struct xpu_ctx *ctx, const struct fi_p2p_xpu_target *target,
			   const struct xpu_share *share, struct fi_p2p_xpu_mapped *mapped)
{
	const uint64_t offset = target->addr - share->base;
	const char *why;
	void *addr;

	if (!ctx->dev.mem.ops)
		return "the kernels are threads of the host";
	if (conf.path == CONF_PATH_STAGE)
		return "FI_P2P_PATH=stage";
	why = xpu_map_local(&ctx->dev, target->buf, &mapped->from);
	if (!why)
		why = xpu_map_open(ctx, share, &addr);
	if (why)
		return why;
	mapped->to = (uintptr_t) addr + offset;
	mapped->len = share->len - offset;
	return NULL;
}

/* What kernels are to read: what is mapped of the targets of peers that are mapped as a whole */
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
	shared->mapped = addr;
	return gpu_state_store(dev, shared->state, &head,
			       offsetof(struct fi_p2p_xpu_ep_dev, ring));
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

int xpu_target_map(struct xpu_ep *ep, uint32_t number, const void *buf, size_t len)
{
	struct fi_p2p_xpu_mapped mapped = {.to = 0};
	struct fi_p2p_xpu_target target;
	struct xpu_share share;
	const char *why;
	int ret = -FI_EINVAL;

	if (len != sizeof share)
		return -FI_EINVAL;
	memcpy(&share, buf, sizeof share);
	proxy_hold(ep->ctx->proxy);
	if (number < ep->target_count) {
		target = ep->targets[number].is;
		ret = xpu_share_check(&share, &target);
	}
	proxy_release(ep->ctx->proxy);
	if (ret)
		return ret;
	why = xpu_map(ep->ctx, &target, &share, &mapped);
	if (why) {
		P2P_INFO("kernels do not store to target %u themselves: %s\n", number, why);
		return -FI_EOPNOTSUPP;
	}
	proxy_hold(ep->ctx->proxy);
	ep->targets[number].mapped = mapped;
	proxy_release(ep->ctx->proxy);
	return xpu_mapped_store(ep);
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
