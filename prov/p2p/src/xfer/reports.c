/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Completion queues: what comes from the core's, and what goes to the application.
 * Declared in xfer.h.
 */
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>

#include "xfer/ctrl.h"
#include "base/log.h"
#include "proto/multi_recv.h"
#include "proto/rndv.h"
#include "proto/eager.h"
#include "xfer/xfer.h"

/* Completions read from one core queue in one go, and reads in one progress call */
#define XFER_READ_BATCH 16
#define XFER_READS_MAX 4

void xfer_cq_init(struct xfer_cq *cq, struct xfer *xfer)
{
	cq->xfer = xfer;
	STAILQ_INIT(&cq->reports);
	p2p_lock_take(&xfer->lock);
	LIST_INSERT_HEAD(&xfer->cqs, cq, entry);
	wait_domain_add(&xfer->wait, cq->fd);
	xfer_apart_update(xfer);
	p2p_lock_drop(&xfer->lock);
}

struct xfer_ep *xfer_cq_ep(const struct xfer_cq *cq, const struct xfer_ep *after)
{
	struct xfer_ep *ep = after ? LIST_NEXT(after, entry) : LIST_FIRST(&cq->xfer->eps);

	while (ep && !xfer_ep_answers(ep, cq))
		ep = LIST_NEXT(ep, entry);
	return ep;
}

static bool xfer_cq_bound(const struct xfer_cq *cq)
{
	const struct xfer_ep *ep;

	LIST_FOREACH(ep, &cq->xfer->eps, entry) {
		if (ep->txcq == cq || ep->rxcq == cq)
			return true;
	}
	return false;
}

static int xfer_cq_close(struct xfer_cq *cq)
{
	int ret, fd;

	/* the core may not know yet */
	if (xfer_cq_bound(cq))
		return -FI_EBUSY;
	/* a child of this process may have the descriptor, too: it would stay in the sets */
	fd = wait_domain_forget(&cq->xfer->wait, cq);
	ret = fi_close(&cq->core->fid);
	if (ret) {
		wait_domain_recall(&cq->xfer->wait, cq, fd);
		return ret;
	}
	LIST_REMOVE(cq, entry);
	xfer_apart_update(cq->xfer);
	/* its point is there a little longer, and nobody is to be woken by way of the core's queue */
	if (cq->point)
		cq->point->armed = false;
	rndv_cq_drop(cq);
	eager_cq_drop(cq);
	return 0;
}

int xfer_cq_fini(struct xfer_cq *cq)
{
	struct core_comp comp;
	int ret;

	p2p_lock_take(&cq->xfer->lock);
	ret = xfer_cq_close(cq);
	p2p_lock_drop(&cq->xfer->lock);
	if (ret)
		return ret;
	while (xfer_cq_next(cq, true, &comp) == 1 || xfer_cq_next(cq, false, &comp) == 1)
		free(comp.err_data);
	return 0;
}

ssize_t xfer_cq_read_narrow(struct xfer_cq *cq, struct fi_cq_tagged_entry *entries,
			    size_t count, fi_addr_t *src)
{
	struct fi_cq_data_entry *narrow = (struct fi_cq_data_entry *) entries, entry;
	ssize_t ret = cq->source ? fi_cq_readfrom(cq->core, narrow, count, src)
				 : fi_cq_read(cq->core, narrow, count);

	/* from the last one on: they grow */
	for (ssize_t i = ret - 1; i >= 0; i--) {
		memcpy(&entry, &narrow[i], sizeof entry);
		entries[i] = (struct fi_cq_tagged_entry){
			.op_context = entry.op_context,
			.flags = entry.flags,
			.len = entry.len,
			.buf = entry.buf,
			.data = entry.data,
		};
	}
	return ret;
}

void xfer_cq_report(struct xfer_cq *cq, const struct core_comp *comp)
{
	struct xfer_report *report;

	if (cq->silent) {
		free(comp->err_data);
		return;
	}
	if (cq->reader && !cq->count && !comp->err) {
		*cq->reader = *comp;
		cq->reader = NULL;
		return;
	}
	if (cq->point)
		wait_wake(cq->point);
	report = cell_get(&cq->xfer->cells);
	if (!report) {
		P2P_WARN("more than %u completions wait to be read: one is lost\n", CELL_COUNT);
		cq->failed = -FI_EOVERRUN;
		return;
	}
	report->comp = *comp;
	STAILQ_INSERT_TAIL(&cq->reports, report, entry);
	__atomic_store_n(&cq->count, cq->count + 1, __ATOMIC_RELAXED);
}

int xfer_cq_next(struct xfer_cq *cq, bool error, struct core_comp *comp)
{
	struct xfer_report *report;
	int ret = 0;

	p2p_lock_take(&cq->xfer->lock);
	report = STAILQ_FIRST(&cq->reports);
	if (!report) {
		ret = cq->failed;
	} else if (!report->comp.err == !error) {
		*comp = report->comp;
		STAILQ_REMOVE_HEAD(&cq->reports, entry);
		__atomic_store_n(&cq->count, cq->count - 1, __ATOMIC_RELAXED);
		cell_put(&cq->xfer->cells, report);
		ret = 1;
	} else if (!error) {
		ret = -FI_EAVAIL;
	}
	p2p_lock_drop(&cq->xfer->lock);
	return ret;
}

static bool xfer_take_locked(struct xfer_cq *cq, const struct core_comp *comp)
{
	struct xfer_ctx *ctx = comp->context;

	ctrl_expect(cq, comp->data);
	if (cell_mine(&cq->xfer->cells, ctx)) {
		if (p2p_likely(ctx->ep && !ctx->ep->closing)) {
			ctx->cq = cq;
			ctx->done(ctx, comp);
		}
		return true;
	}
	if ((comp->err && abs(comp->err) != FI_ETRUNC) ||
	    !xfer_concerned(cq, ctx, comp->flags, comp->data))
		return false;
	/* a marker has no bytes that could be too many */
	if (comp->len || comp->err)
		multi_recv_body_stray(cq, comp);
	else
		rndv_marker_untracked(cq, comp);
	return true;
}

enum xfer_taken xfer_take(struct xfer_cq *cq, const struct core_comp *comp,
			  struct core_comp *report)
{
	enum xfer_taken taken;

	p2p_lock_take(&cq->xfer->lock);
	cq->reader = report;
	taken = xfer_take_locked(cq, comp) ? XFER_TAKEN : XFER_PLAIN;
	if (!cq->reader)
		taken = XFER_REPORTED;
	cq->reader = NULL;
	p2p_lock_drop(&cq->xfer->lock);
	return taken;
}

bool xfer_cq_pull(struct xfer_cq *cq)
{
	struct fi_cq_tagged_entry entries[XFER_READ_BATCH];
	fi_addr_t src[XFER_READ_BATCH];
	struct core_comp comp;
	ssize_t ret = XFER_READ_BATCH;

	for (int reads = 0; ret == XFER_READ_BATCH && reads < XFER_READS_MAX; reads++) {
		ret = xfer_cq_read(cq, entries, XFER_READ_BATCH, src);
		for (ssize_t i = 0; i < ret; i++) {
			core_comp_from_entry(&entries[i],
					     cq->source ? src[i] : FI_ADDR_NOTAVAIL, &comp);
			if (!xfer_take_locked(cq, &comp))
				xfer_cq_report(cq, &comp);
		}
	}
	if (ret == -FI_EAVAIL) {
		ret = core_comp_from_error(cq->core, &comp);
		if (ret)
			return false;
		if (!xfer_take_locked(cq, &comp))
			xfer_cq_report(cq, &comp);
		else
			free(comp.err_data);
		return true;
	}
	if (ret < 0 && ret != -FI_EAGAIN && !cq->failed) {
		P2P_WARN("reading the core provider's completions: %s\n",
			 fi_strerror((int) -ret));
		cq->failed = (int) ret;
		if (cq->point)
			wait_wake(cq->point);
	}
	return ret > 0;
}
