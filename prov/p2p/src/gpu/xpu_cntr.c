/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Exported counters: the proxy writes their values where kernels look. See xpu.h. */
#include <stdlib.h>
#include <rdma/fi_errno.h>

#include "base/log.h"
#include "gpu/xpu.h"

/* Changes by kernels that wait, at most; a power of two */
#define XPU_CNTR_SLOTS 64

static bool xpu_cntr_show(struct xpu_cntr *cntr, uint64_t value, uint64_t errors)
{
	struct fi_p2p_xpu_count *shown = &cntr->shown;

	if (shown->value == value && shown->errors == errors)
		return false;
	*shown = (struct fi_p2p_xpu_count){value, errors};
	/* what it tells of is there before */
	xpu_shared_order(cntr->shared);
	__atomic_store_n(&cntr->count->errors, errors, __ATOMIC_RELEASE);
	__atomic_store_n(&cntr->count->value, value, __ATOMIC_RELEASE);
	xpu_shared_order(cntr->shared);
	return true;
}

bool xpu_cntr_look(struct xpu_cntr *cntr)
{
	struct ring_op op;
	bool moved = false;
	uint64_t errors;

	while (ring_peek(&cntr->ring, &op)) {
		if (xpu_op_count(&cntr->cntr->fid, &op))
			P2P_WARN("a kernel's change of a counter is refused\n");
		ring_next(&cntr->ring);
		moved = true;
	}
	if (moved)
		ring_tell(&cntr->ring);
	/* errors first: who fails is told no later than who goes on. A bit is free for FI_P2P_XPU_CLOSED */
	errors = cntr_errors(cntr->cntr) & ~FI_P2P_XPU_CLOSED;
	return xpu_cntr_show(cntr, cntr_value(cntr->cntr), errors) || moved;
}

/* ---- export ---- */

static void xpu_cntr_end(struct fid_export *export)
{
	struct xpu_cntr *cntr = container_of(export, struct xpu_cntr, export);

	proxy_hold(cntr->ctx->proxy);
	xpu_cntr_show(cntr, cntr->shown.value, cntr->shown.errors | FI_P2P_XPU_CLOSED);
	ring_end(&cntr->ring);
	LIST_REMOVE(cntr, entry);
	fid_export_remove(export);
	proxy_release(cntr->ctx->proxy);
	free(cntr);
}

static int xpu_cntr_alloc(struct xpu_cntr *cntr)
{
	struct fi_p2p_xpu_cntr_dev state = {
		.abi = FI_P2P_XPU_ABI,
		.seen = {cntr_value(cntr->cntr), cntr_errors(cntr->cntr)},
	};
	struct xpu_shared *shared = xpu_shared_alloc(cntr->ctx, xpu_ring_bytes(XPU_CNTR_SLOTS),
						     sizeof *cntr->count);

	if (!shared)
		return -FI_ENOMEM;
	cntr->shared = shared;
	cntr->count = shared->shown;
	state.count = shared->shown_addr;
	xpu_ring_place(&shared->host, 0, XPU_CNTR_SLOTS, &cntr->ring, &state.ring);
	return gpu_state_alloc(&cntr->ctx->dev, &state, sizeof state, &shared->state);
}

int xpu_cntr_export(struct xpu_ctx *ctx, struct fid_cntr *fid, uint64_t flags,
		    struct fid_xpu_cntr *xpu)
{
	struct p2p_cntr *p2p_cntr = cntr_of(&fid->fid);
	struct xpu_cntr *cntr;
	int ret = xpu_export_check(ctx, p2p_cntr->domain, &p2p_cntr->exports, xpu_cntr_end,
				   flags, 0);

	if (ret)
		return ret;
	cntr = calloc(1, sizeof *cntr);
	if (!cntr)
		return -FI_ENOMEM;
	cntr->export.end = xpu_cntr_end;
	cntr->ctx = ctx;
	cntr->cntr = p2p_cntr;
	ret = xpu_cntr_alloc(cntr);
	if (ret) {
		free(cntr);
		return ret;
	}
	xpu->fid = xpu_export_handle(FI_CLASS_CNTR, cntr->shared);
	proxy_hold(ctx->proxy);
	fid_export_add(&p2p_cntr->exports, &cntr->export);
	LIST_INSERT_HEAD(&ctx->cntrs, cntr, entry);
	proxy_release(ctx->proxy);
	return 0;
}
