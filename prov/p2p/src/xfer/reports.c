/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Completion queues. See reports.h. */
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>

#include "xfer/ctrl.h"
#include "base/log.h"
#include "xfer/ep_state.h"
#include "xfer/xfer_proto.h"
#include "xfer/reports.h"

/* Completions read from one core queue in one go, and reads in one progress call */
#define XFER_READ_BATCH 16
#define XFER_READS_MAX 4
/* What has waited for receives of ours is read to the last one: cores may give out one sender's before all others */
#define XFER_READS_HEARD 1024

struct xfer_ep *xfer_cq_ep(const struct xfer_cq *cq, const struct xfer_ep *after)
{
	struct xfer_ep *ep = after ? LIST_NEXT(after, entry) : LIST_FIRST(&cq->xfer->eps);

	while (ep && !xfer_ep_answers(ep, cq))
		ep = LIST_NEXT(ep, entry);
	return ep;
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

	xfer_assert_locked(cq->xfer);
	if (cq->silent && !cq->kept) {
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

unsigned int xfer_cq_sift(struct xfer_cq *cq, bool (*keep)(void *arg, struct core_comp *comp),
			  void *arg)
{
	struct xfer_reports kept = STAILQ_HEAD_INITIALIZER(kept);
	struct xfer_report *report;
	unsigned int gone = 0;

	p2p_lock_take(&cq->xfer->lock);
	while ((report = STAILQ_FIRST(&cq->reports))) {
		STAILQ_REMOVE_HEAD(&cq->reports, entry);
		if (keep(arg, &report->comp)) {
			STAILQ_INSERT_TAIL(&kept, report, entry);
		} else {
			cell_put(&cq->xfer->cells, report);
			gone++;
		}
	}
	STAILQ_CONCAT(&cq->reports, &kept);
	__atomic_store_n(&cq->count, cq->count - gone, __ATOMIC_RELAXED);
	p2p_lock_drop(&cq->xfer->lock);
	return gone;
}

/* Turns the completion of a receive that has met a notice into that of the write that it tells of. */
static bool xfer_take_notice(const struct xfer_cq *cq, const struct core_comp *comp,
			     struct core_comp *write)
{
	if (comp->err || comp->len || !(comp->flags & FI_RECV) ||
	    !(comp->flags & FI_REMOTE_CQ_DATA) || (comp->data & cq->xfer->marks) != WIRE_NOTICE)
		return false;
	*write = *comp;
	write->flags = (comp->flags & ~(FI_RECV | FI_MSG)) | FI_RMA | FI_REMOTE_WRITE;
	write->data &= WIRE_USER_DATA_MASK;
	write->buf = NULL;
	return true;
}

/* Deals with a completion of the core's: calls the record's @done, or takes a marker or a notice. */
static bool xfer_take_locked(struct xfer_cq *cq, const struct core_comp *comp)
{
	struct xfer_ctx *ctx = comp->context;
	struct core_comp body, write;
	const bool notice = xfer_take_notice(cq, comp, &write);

	if (p2p_unlikely(notice))
		comp = &write;
	ctrl_expect(cq, comp->data);
	if (cell_mine(&cq->xfer->cells, ctx)) {
		if (p2p_likely(ctx->ep && !ctx->ep->closing)) {
			ctx->cq = cq;
			ctx->done(ctx, comp);
		}
		return true;
	}
	if (notice) {
		xfer_cq_report(cq, comp);
		return true;
	}
	if ((comp->err && abs(comp->err) != FI_ETRUNC) ||
	    !xfer_concerned(cq, ctx, comp->flags, comp->data))
		return false;
	/* a marker has no bytes that could be too many */
	if (comp->len || comp->err) {
		body = *comp;
		XFER_PROTO_EACH(cq->xfer, body, cq->xfer, &body);
		xfer_cq_report(cq, &body);
	} else {
		XFER_PROTO_EACH(cq->xfer, stray, cq, comp);
	}
	return true;
}

/* What xfer_take() was called with, and returns */
struct xfer_lent {
	struct xfer_cq *cq;
	const struct core_comp *comp;
	struct core_comp *report;
	enum xfer_taken taken;
};

static void *xfer_take_lent(void *arg)
{
	struct xfer_lent *lent = arg;

	lent->taken = xfer_take(lent->cq, lent->comp, lent->report);
	return NULL;
}

enum xfer_taken xfer_take(struct xfer_cq *cq, const struct core_comp *comp,
			  struct core_comp *report)
{
	struct xfer_lent lent = {cq, comp, report, XFER_PLAIN};
	enum xfer_taken taken;

	if (dev_lend(xfer_take_lent, &lent))
		return lent.taken;
	p2p_lock_take(&cq->xfer->lock);
	cq->reader = report;
	taken = xfer_take_locked(cq, comp) ? XFER_TAKEN : XFER_PLAIN;
	if (!cq->reader)
		taken = XFER_REPORTED;
	cq->reader = NULL;
	p2p_lock_drop(&cq->xfer->lock);
	return taken;
}

bool xfer_cq_pull_error(struct xfer_cq *cq)
{
	struct core_comp comp, taken;

	xfer_assert_locked(cq->xfer);
	if (core_comp_from_error(cq->core, &comp))
		return false;
	/* what becomes of one of ours has no such data: it is freed here */
	taken = comp;
	taken.err_data = NULL;
	taken.err_data_size = 0;
	if (xfer_take_locked(cq, &taken))
		free(comp.err_data);
	else
		xfer_cq_report(cq, &comp);
	return true;
}

bool xfer_cq_pull(struct xfer_cq *cq)
{
	struct fi_cq_tagged_entry entries[XFER_READ_BATCH];
	fi_addr_t src[XFER_READ_BATCH];
	struct core_comp comp;
	int reads = 0;
	ssize_t ret;

	xfer_assert_locked(cq->xfer);
	do {
		cq->hears = reads && cq->heard > 1;
		cq->heard = 0;
		ret = xfer_cq_read(cq, entries, XFER_READ_BATCH, src);
		for (ssize_t i = 0; i < ret; i++) {
			core_comp_from_entry(&entries[i],
					     cq->source ? src[i] : FI_ADDR_NOTAVAIL, &comp);
			if (!xfer_take_locked(cq, &comp))
				xfer_cq_report(cq, &comp);
		}
		reads++;
	} while (
		(cq->heard > 1 && reads < XFER_READS_HEARD && !cell_scarce(&cq->xfer->cells)) ||
		(ret == XFER_READ_BATCH && reads < XFER_READS_MAX));
	cq->hears = false;
	if (ret == -FI_EAVAIL)
		return xfer_cq_pull_error(cq);
	if (ret < 0 && ret != -FI_EAGAIN && !cq->failed) {
		P2P_WARN("reading the core provider's completions: %s\n",
			 fi_strerror((int) -ret));
		cq->failed = (int) ret;
		if (cq->point)
			wait_wake(cq->point);
	}
	return ret > 0 || reads > 1;
}
