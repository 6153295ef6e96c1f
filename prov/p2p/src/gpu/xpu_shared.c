/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What exports share with kernels. See xpu.h. */
#include <stdlib.h>

#include "gpu/xpu.h"

struct xpu_shared *xpu_shared_alloc(struct xpu_ctx *ctx, size_t len)
{
	struct xpu_shared *shared = calloc(1, sizeof *shared);

	if (!shared)
		return NULL;
	if (gpu_host_alloc(&ctx->dev, len, &shared->host)) {
		free(shared);
		return NULL;
	}
	proxy_hold(ctx->proxy);
	SLIST_INSERT_HEAD(&ctx->shared, shared, entry);
	proxy_release(ctx->proxy);
	return shared;
}

void xpu_shared_free_all(struct xpu_ctx *ctx)
{
	struct xpu_shared *shared;

	while ((shared = SLIST_FIRST(&ctx->shared))) {
		SLIST_REMOVE_HEAD(&ctx->shared, entry);
		gpu_state_free(&ctx->dev, shared->state);
		gpu_host_free(&ctx->dev, &shared->host);
		free(shared);
	}
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
