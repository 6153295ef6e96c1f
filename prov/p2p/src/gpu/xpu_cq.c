/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Exported completion queues: the proxy reads them, and writes entries where kernels look. See xpu.h. */
#include <stdlib.h>
#include <rdma/fi_errno.h>

#include "gpu/xpu.h"
#include "xfer/reports.h"

static void xpu_cq_put(struct xpu_cq *cq, struct fi_p2p_xpu_entry *entry,
		       const struct core_comp *comp)
{
	entry->context = (uintptr_t) comp->context;
	entry->flags = comp->flags;
	entry->len = comp->len;
	entry->buf = (uintptr_t) comp->buf;
	entry->data = comp->flags & FI_REMOTE_CQ_DATA ? comp->data : 0;
	entry->tag = comp->tag;
	entry->src = cq_user_addr(cq->cq, comp->src);
	entry->olen = comp->olen;
	entry->err = comp->err;
	entry->prov_errno = comp->prov_errno;
	xpu_shared_order(cq->shared);
	__atomic_store_n(&entry->turn, ++cq->next | (comp->err ? FI_P2P_XPU_ERROR : 0),
			 __ATOMIC_RELEASE);
}

static bool xpu_cq_full(const struct xpu_cq *cq)
{
	return cq->next - __atomic_load_n(&cq->queue->read, __ATOMIC_ACQUIRE) >= cq->size;
}

/* @failed: how many failed puts have been left to kernels */
struct xpu_cq_sieve {
	struct xpu_ctx *ctx;
	unsigned int failed;
};

/*
 * Is this a report for kernels? Of a put they know no context, and are told if it has failed. Who reads no queue knows
 * from the counter: not all errors are kept for it.
 */
static bool xpu_cq_for_kernels(void *arg, struct core_comp *comp)
{
	struct xpu_cq_sieve *sieve = arg;

	if (!xpu_put_ended(sieve->ctx, comp->context, comp->err))
		return true;
	comp->context = NULL;
	return comp->err && sieve->failed++ < XPU_CQ_SIZE;
}

bool xpu_cq_sift(struct xpu_cq *cq)
{
	struct xpu_cq_sieve sieve = {.ctx = cq->ctx};

	return xfer_cq_sift(&cq->cq->xfer, xpu_cq_for_kernels, &sieve);
}

/* What no kernel has room for yet stays where it is. Puts end nevertheless: signals wait for that. */
bool xpu_cq_look(struct xpu_cq *cq)
{
	struct xpu_cq_sieve sieve = {.ctx = cq->ctx};
	struct core_comp comp;
	const uint64_t before = cq->next;
	bool moved = false, full;

	while (!(full = xpu_cq_full(cq)) && xpu_report_take(&cq->cq->xfer, &comp)) {
		moved = true;
		if (xpu_cq_for_kernels(&sieve, &comp))
			xpu_cq_put(cq, &cq->entries[cq->next & (cq->size - 1)], &comp);
		free(comp.err_data);
	}
	if (cq->next != before)
		xpu_shared_order(cq->shared);
	return (full && cq->ctx->under_way && xpu_cq_sift(cq)) || moved;
}

/* ---- export ---- */

static void xpu_cq_end(struct fid_export *export)
{
	struct xpu_cq *cq = container_of(export, struct xpu_cq, export);

	__atomic_store_n(&cq->queue->closed, 1, __ATOMIC_RELEASE);
	proxy_hold(cq->ctx->proxy);
	xpu_cq_sift(cq);
	LIST_REMOVE(cq, entry);
	fid_export_remove(export);
	proxy_release(cq->ctx->proxy);
	free(cq);
}

static uint32_t xpu_cq_entry_size(enum fi_cq_format format)
{
	switch (format) {
	case FI_CQ_FORMAT_CONTEXT:
		return sizeof(struct fi_cq_entry);
	case FI_CQ_FORMAT_MSG:
		return sizeof(struct fi_cq_msg_entry);
	case FI_CQ_FORMAT_DATA:
		return sizeof(struct fi_cq_data_entry);
	default:
		return sizeof(struct fi_cq_tagged_entry);
	}
}

static int xpu_cq_alloc(struct xpu_cq *cq)
{
	const size_t entries = XPU_CQ_SIZE * sizeof *cq->entries;
	struct fi_p2p_xpu_cq_dev state = {
		.abi = FI_P2P_XPU_ABI,
		.entry_size = xpu_cq_entry_size(cq->cq->format),
		.size = XPU_CQ_SIZE,
	};
	struct xpu_shared *shared = xpu_shared_alloc(cq->ctx, sizeof *cq->queue, entries);

	if (!shared)
		return -FI_ENOMEM;
	cq->shared = shared;
	cq->entries = shared->shown;
	cq->size = XPU_CQ_SIZE;
	cq->queue = shared->host.host;
	state.entries = shared->shown_addr;
	state.queue = shared->host.addr;
	return gpu_state_alloc(&cq->ctx->dev, &state, sizeof state, &shared->state);
}

int xpu_cq_export(struct xpu_ctx *ctx, struct fid_cq *fid, uint64_t flags,
		  struct fid_xpu_cq *xpu)
{
	struct p2p_cq *p2p_cq = cq_of(&fid->fid);
	struct xpu_cq *cq;
	int ret = xpu_export_check(ctx, p2p_cq->domain, &p2p_cq->exports, xpu_cq_end, flags, 0);

	if (ret)
		return ret;
	cq = calloc(1, sizeof *cq);
	if (!cq)
		return -FI_ENOMEM;
	cq->export.end = xpu_cq_end;
	cq->ctx = ctx;
	cq->cq = p2p_cq;
	ret = xpu_cq_alloc(cq);
	if (ret) {
		free(cq);
		return ret;
	}
	xpu->fid = xpu_export_handle(FI_CLASS_CQ, cq->shared);
	proxy_hold(ctx->proxy);
	fid_export_add(&p2p_cq->exports, &cq->export);
	LIST_INSERT_HEAD(&ctx->cqs, cq, entry);
	proxy_release(ctx->proxy);
	return 0;
}
