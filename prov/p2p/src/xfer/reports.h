/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Completion queues: what comes from the core, and what goes to the application. */
#ifndef P2P_REPORTS_H
#define P2P_REPORTS_H

#include "xfer/xfer.h"

/* What a completion in a core's queue turns out to be */
enum xfer_taken {
	XFER_PLAIN,   /* simply the user's */
	XFER_TAKEN,   /* ours, and dealt with */
	XFER_REPORTED /* the same, and there is a report to be read in its place */
};

/*
 * Reads the core's queue: entries with tags, whatever it has, and where they come from if
 * it tells. As fi_cq_read(3)
 */
ssize_t xfer_cq_read_narrow(struct xfer_cq *cq, struct fi_cq_tagged_entry *entries,
			    size_t count, fi_addr_t *src);

/* Reads entries of the core's queue, with their sources where those are asked for. */
static inline ssize_t xfer_cq_read(struct xfer_cq *cq, struct fi_cq_tagged_entry *entries,
				   size_t count, fi_addr_t *src)
{
	if (p2p_unlikely(cq->narrow))
		return xfer_cq_read_narrow(cq, entries, count, src);
	return cq->source ? fi_cq_readfrom(cq->core, entries, count, src)
			  : fi_cq_read(cq->core, entries, count);
}

/*
 * Reads what the core's queue has, or much of it: ours is dealt with, the user's becomes
 * reports. True: there was something, and there may be more [locked].
 */
bool xfer_cq_pull(struct xfer_cq *cq);

/* The same of one error that comes next there, without progress of the core's */
bool xfer_cq_pull_error(struct xfer_cq *cq);

/* The first one that it holds of, or the next one @after that; NULL: no more */
struct xfer_ep *xfer_cq_ep(const struct xfer_cq *cq, const struct xfer_ep *after);

/*
 * Deals with a completion that was read from a core's queue. It gives the @report that this leads to if no
 * other one waits: then the order is the core's.
 */
enum xfer_taken xfer_take(struct xfer_cq *cq, const struct core_comp *comp,
			  struct core_comp *report);

/* Tells whether an entry is possibly something for xfer_take(). */
static inline bool xfer_concerned(const struct xfer_cq *cq, const void *context, uint64_t flags,
				  uint64_t data)
{
	return cell_mine(&cq->xfer->cells, context) ||
	       ((flags & FI_REMOTE_CQ_DATA) && (data & cq->xfer->marks));
}

/* Puts a completion last in the queue's reports [locked]. */
void xfer_cq_report(struct xfer_cq *cq, const struct core_comp *comp);

/* Tells whether there is a report. */
static inline bool xfer_cq_has(const struct xfer_cq *cq)
{
	return __atomic_load_n(&cq->count, __ATOMIC_RELAXED);
}

/* Tells whether there is a report, or something under way that may lead to one. At the beginning of a call */
P2P_GLANCE bool xfer_cq_ours(const struct xfer_cq *cq)
{
	return cq->count | cq->xfer->busy;
}

/*
 * Takes the first report if it is an error, or if it is none, as @error says. What the
 * queue failed with, once the reports are read: a negative error; 1: taken; 0: no such;
 * -FI_EAVAIL: it is an error, and none was wanted.
 */
int xfer_cq_next(struct xfer_cq *cq, bool error, struct core_comp *comp);

/*
 * Drops the reports that @keep does not want to keep, wherever they wait. It is called with the lock held, may
 * change those that stay, and frees the err_data of those that go. Returns how many went
 */
unsigned int xfer_cq_sift(struct xfer_cq *cq, bool (*keep)(void *arg, struct core_comp *comp),
			  void *arg);

#endif /* P2P_REPORTS_H */
