/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What exports share with kernels, and have in common. See xpu.h. */
#include <stdlib.h>
#include <rdma/fi_errno.h>

#include "gpu/xpu.h"

/* What kernels look at is aligned to */
#define XPU_ALIGN 128

struct xpu_shared *xpu_shared_alloc(struct xpu_ctx *ctx, size_t len, size_t shown)
{
	struct xpu_shared *shared = calloc(1, sizeof *shared);
	struct gpu_host *host;
	bool window;

	if (!shared)
		return NULL;
	host = &shared->host;
	len = P2P_ALIGN_UP(len, XPU_ALIGN);
	window = shown && !gpu_window_open(&ctx->dev, shown, &shared->window);
	if (gpu_host_alloc(&ctx->dev, len + (window ? 0 : shown), host)) {
		if (window)
			gpu_window_close(&ctx->dev, &shared->window);
		free(shared);
		return NULL;
	}
	shared->shown = window ? shared->window.map : (char *) host->host + len;
	shared->shown_addr = window ? shared->window.addr : (char *) host->addr + len;
	proxy_hold(ctx->proxy);
	SLIST_INSERT_HEAD(&ctx->shared, shared, entry);
	proxy_release(ctx->proxy);
	return shared;
}

void xpu_shared_order(const struct xpu_shared *shared)
{
	if (shared->window.map)
		dev_window_order();
}

void xpu_shared_free_all(struct xpu_ctx *ctx)
{
	struct xpu_shared *shared;

	while ((shared = SLIST_FIRST(&ctx->shared))) {
		SLIST_REMOVE_HEAD(&ctx->shared, entry);
		gpu_state_free(&ctx->dev, shared->state);
		gpu_state_free(&ctx->dev, shared->mapped);
		if (shared->window.map)
			gpu_window_close(&ctx->dev, &shared->window);
		gpu_host_free(&ctx->dev, &shared->host);
		free(shared);
	}
}

int xpu_export_check(const struct xpu_ctx *ctx, const struct p2p_domain *domain,
		     const struct fid_exports *exports, void (*end)(struct fid_export *export),
		     uint64_t flags, uint64_t allowed)
{
	if (flags & ~allowed)
		return -FI_EBADFLAGS;
	if (domain != ctx->native.domain)
		return -FI_EINVAL;
	return fid_export_find(exports, end) ? -FI_EBUSY : 0;
}

struct fid_xpu xpu_export_handle(uint32_t fclass, const struct xpu_shared *shared)
{
	return (struct fid_xpu){fclass, FI_XPU_PROV_P2P, (uintptr_t) shared->state};
}

size_t xpu_ring_bytes(size_t size)
{
	return size * (sizeof(struct fi_p2p_xpu_word2) + sizeof(struct fi_p2p_xpu_parts)) +
	       P2P_CACHE_LINE;
}

void xpu_ring_place(const struct gpu_host *host, size_t offset, size_t size, struct ring *ring,
		    struct fi_p2p_xpu_ring *dev)
{
	const size_t slots = size * sizeof(struct fi_p2p_xpu_word2);
	const size_t parts = size * sizeof(struct fi_p2p_xpu_parts);
	char *at = (char *) host->host + offset, *there = (char *) host->addr + offset;

	*ring = (struct ring){
		.slots = (void *) at,
		.parts = (void *) (at + slots),
		.told = (void *) (at + slots + parts),
		.size = size,
	};
	*dev = (struct fi_p2p_xpu_ring){
		.slots = (void *) there,
		.parts = (void *) (there + slots),
		.tail = (void *) (there + slots + parts),
		.size = size,
	};
}
