/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The works of a domain, in the order in which they go.
 *
 * Each counter has a list of those that wait for it, by threshold, and then as they were queued. Progress
 * compares the first of each with its counter. So it does not matter who counts, the core or us. What
 * need not wait any more is *due*: it is posted after progress, without the domain's lock, by one thread at
 * a time. What that completes is looked at by the same thread, so chains of works need no recursion.
 *
 * A due work that the core has no room for is tried again. Meanwhile nothing overtakes it to the same peer,
 * and no receive overtakes a receive. Others go on: they may be what makes room.
 */
#ifndef P2P_TRIGGER_LIST_H
#define P2P_TRIGGER_LIST_H

#include "gpu/trigger_work.h"

struct trigger_posted;

/**
 * struct trigger - the works of a domain. Its lock guards all of it.
 * @cntrs:	counters that works wait for
 * @due:	those that need not wait any more
 * @current:	the one of these that is being posted, without the lock; or NULL
 * @posted:	the deferred ones that are under way
 * @roomless:	how many works wait for no counter, but for room
 * @going:	a thread posts what is due; @again: something was counted meanwhile
 * @blind:	nothing tells when a work can go: the core counts, or has no room
 */
struct trigger {
	struct p2p_domain *domain;
	LIST_HEAD(, p2p_cntr) cntrs;
	struct trigger_works due;
	struct trigger_work *current;
	LIST_HEAD(, trigger_posted) posted;
	unsigned int roomless;
	bool going;
	bool again;
	bool blind;
};

/* Makes and frees it; nothing waits then any more. 0 or -FI_ENOMEM */
int trigger_init(struct p2p_domain *domain);
void trigger_fini(struct p2p_domain *domain);

/*
 * Queues a work, which is the domain's from then on, and posts it if it need not wait. How that ends
 * is reported, and counted, in any case. 0, or an error: then the work is freed
 */
int trigger_queue(struct trigger *trigger, struct trigger_work *work);

/*
 * The same for an operation that waits for no counter: the core, or a protocol, has no room for it now. No
 * more than a few wait so. 0, or -FI_EAGAIN: then the work is freed
 */
int trigger_queue_due(struct trigger *trigger, struct trigger_work *work);

/*
 * Drops works that have not been posted: only @deferred, or those that wait for @cntr, or all that wait for a
 * counter. They are neither reported nor counted. How many there were
 */
size_t trigger_drop(struct trigger *trigger, const struct fi_deferred_work *deferred,
		    const struct p2p_cntr *cntr);

/* The same with those of an endpoint, and with what waits for room there. None of them is being posted when it returns */
void trigger_drop_ep(struct trigger *trigger, const struct p2p_ep *ep);

/*
 * Has what @ep has for a peer to wait for room, or is it being posted? Then nothing with FI_FENCE begins behind it
 */
bool trigger_is_awaited(struct trigger *trigger, const struct p2p_ep *ep, fi_addr_t addr);

/*
 * fi_cancel(3): an operation with FI_TRIGGER that waits, or a deferred receive that was posted, ends
 * with FI_ECANCELED. 0, or -FI_ENOENT: it is none of these
 */
ssize_t trigger_cancel(struct p2p_ep *ep, void *context);

#endif /* P2P_TRIGGER_LIST_H */
