/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Works that wait, and go. See trigger_list.h. */
#include "gpu/trigger_list.h"

#include <sched.h>
#include <stdlib.h>
#include <rdma/fi_errno.h>

#include "base/log.h"
#include "proto/post.h"
#include "xfer/ep_state.h"
#include "xfer/reports.h"

/* After so many ways on which the core has no room, the others are not tried in this round */
#define TRIGGER_HELD_MAX 8

/* So many operations wait for room at most, so that an application that does not heed it is told */
#define TRIGGER_ROOMLESS_MAX 64

/**
 * struct trigger_posted - a deferred work that is under way; lives in a cell.
 * @done:	counts its completion, or NULL
 */
struct trigger_posted {
	struct xfer_work work;
	struct trigger *trigger;
	struct p2p_cntr *done;
	struct p2p_ep *ep;
	LIST_ENTRY(trigger_posted) entry;
};

/* A way on which nothing may overtake: what an endpoint receives, or has for one peer */
struct trigger_way {
	const struct p2p_ep *ep;
	bool recv;
	fi_addr_t addr;
};

/* The ways on which the core has no room, in one round */
struct trigger_held {
	struct trigger_way ways[TRIGGER_HELD_MAX];
	size_t count;
};

static void trigger_assert_locked(const struct trigger *trigger)
{
	xfer_assert_locked(&trigger->domain->xfer);
}

/* ---- what a work holds while it waits ---- */

static void trigger_hold(struct p2p_cntr *cntr, int change)
{
	if (cntr)
		cntr->refs += change;
}

/* Counts a work among those that wait, or no longer, and the counters' users with it [locked]. */
static void trigger_work_hold(const struct trigger *trigger, const struct trigger_work *work,
			      int change)
{
	struct xfer *xfer = &trigger->domain->xfer;

	trigger_assert_locked(trigger);
	__atomic_store_n(&xfer->works, xfer->works + change, __ATOMIC_RELEASE);
	xfer_busy_add(xfer, change);
	trigger_hold(work->cntr, change);
	trigger_hold(work->done, change);
	if (!work->ep)
		trigger_hold(work->changed, change);
}

/* [locked] */
static void trigger_work_free(struct trigger *trigger, struct trigger_work *work)
{
	trigger_assert_locked(trigger);
	if (!work->cntr)
		trigger->roomless--;
	trigger_work_hold(trigger, work, -1);
	free(work);
}

/* ---- lists ---- */

/* Queues it behind those of the same threshold [locked]. */
static void trigger_insert(struct trigger *trigger, struct trigger_work *work)
{
	struct trigger_works *works = &work->cntr->works;
	struct trigger_work *before = TAILQ_LAST(works, trigger_works);

	trigger_assert_locked(trigger);
	if (!before)
		LIST_INSERT_HEAD(&trigger->cntrs, work->cntr, awaited);
	while (before && before->threshold > work->threshold)
		before = TAILQ_PREV(before, trigger_works, entry);
	if (before)
		TAILQ_INSERT_AFTER(works, before, work, entry);
	else
		TAILQ_INSERT_HEAD(works, work, entry);
}

/* Works of the counter have been taken off its list. */
static void trigger_taken(struct p2p_cntr *cntr)
{
	if (TAILQ_EMPTY(&cntr->works))
		LIST_REMOVE(cntr, awaited);
}

/* Makes due what need not wait any more [locked]. */
static void trigger_look(struct trigger *trigger)
{
	struct p2p_cntr *cntr, *next;
	struct trigger_work *work;
	uint64_t reached;

	trigger_assert_locked(trigger);
	for (cntr = LIST_FIRST(&trigger->cntrs); cntr; cntr = next) {
		next = LIST_NEXT(cntr, awaited);
		reached = cntr_reached(cntr);
		while ((work = TAILQ_FIRST(&cntr->works)) && work->threshold <= reached) {
			TAILQ_REMOVE(&cntr->works, work, entry);
			TAILQ_INSERT_TAIL(&trigger->due, work, entry);
		}
		trigger_taken(cntr);
	}
}

/* Sees to it that sleepers wake by themselves where nothing would wake them [locked]. */
static void trigger_set_blind(struct trigger *trigger)
{
	struct xfer *xfer = &trigger->domain->xfer;
	bool blind = !TAILQ_EMPTY(&trigger->due);
	const struct p2p_cntr *cntr;

	trigger_assert_locked(trigger);
	LIST_FOREACH(cntr, &trigger->cntrs, awaited)
		blind |= cntr->by_core;
	if (blind == trigger->blind)
		return;
	trigger->blind = blind;
	xfer->looks += blind ? 1 : -1;
	if (blind)
		wait_wake_all(&xfer->wait);
}

/* ---- under way ---- */

/* Ends the record of a deferred work, whose request has ended [locked]. */
static void trigger_ended(struct xfer_work *work)
{
	struct trigger_posted *posted = (struct trigger_posted *) work;
	struct xfer *xfer = &posted->trigger->domain->xfer;

	xfer_assert_locked(xfer);
	LIST_REMOVE(posted, entry);
	trigger_hold(posted->done, -1);
	xfer_busy_add(xfer, -1);
	cell_put(&xfer->cells, posted);
}

/* Makes the record of a deferred work that is about to be posted; NULL: there is no room [locked] */
static struct trigger_posted *trigger_posted_new(struct trigger *trigger,
						 const struct trigger_work *work)
{
	struct xfer *xfer = &trigger->domain->xfer;
	struct trigger_posted *posted;

	trigger_assert_locked(trigger);
	posted = cell_scarce(&xfer->cells) ? NULL : cell_get(&xfer->cells);
	if (!posted)
		return NULL;
	*posted = (struct trigger_posted){
		.work =
			{
				.context = work->context,
				.report = work->op.flags & FI_COMPLETION,
				.cntr = work->done ? &work->done->xfer : NULL,
				.ended = trigger_ended,
			},
		.trigger = trigger,
		.done = work->done,
		.ep = work->ep,
	};
	trigger_hold(posted->done, 1);
	xfer_busy_add(xfer, 1);
	LIST_INSERT_HEAD(&trigger->posted, posted, entry);
	return posted;
}

/* A work ends that could not begin: it is counted, and reported where an error of its endpoint is [locked]. */
static void trigger_fail(const struct trigger *trigger, const struct trigger_work *work,
			 int err)
{
	const uint64_t flags = op_done_flags(work->op.type);
	const struct core_comp comp = {
		.context = work->context,
		.flags = flags,
		.src = FI_ADDR_NOTAVAIL,
		.err = err,
	};
	struct xfer_ep *ep = &work->ep->xfer;
	struct xfer_cq *cq = op_receives(&work->op) ? ep->rxcq : ep->txcq;

	trigger_assert_locked(trigger);
	if (!work->deferred)
		xfer_ep_count(ep, flags & XFER_COUNT_ALL, err);
	else if (work->done)
		xfer_cntr_count(ep->xfer, &work->done->xfer, err);
	if (cq)
		xfer_cq_report(cq, &comp);
}

/* Posts a work that is due. False: there is no room now. Drops the lock meanwhile [locked] */
static bool trigger_post(struct trigger *trigger, struct trigger_work *work)
{
	struct p2p_lock *lock = &trigger->domain->xfer.lock;
	struct trigger_posted *posted = NULL;
	void *context = work->context;
	ssize_t ret;

	trigger_assert_locked(trigger);
	if (work->deferred && work->ep) {
		posted = trigger_posted_new(trigger, work);
		if (!posted)
			return false;
		context = posted;
	}
	trigger->current = work;
	p2p_lock_drop(lock);
	ret = trigger_work_post(work, context);
	p2p_lock_take(lock);
	trigger->current = NULL;
	/* what was posted may have ended, and its record be gone */
	if (ret && posted)
		trigger_ended(&posted->work);
	if (ret == -FI_EAGAIN)
		return false;
	if (ret && work->ep)
		trigger_fail(trigger, work, (int) -ret);
	else if (ret)
		P2P_WARN("a counter is not changed, as was deferred: %s\n",
			 fi_strerror((int) -ret));
	return true;
}

/* ---- going ---- */

static struct trigger_way trigger_way_of(const struct trigger_work *work)
{
	const bool recv = op_receives(&work->op);

	return (struct trigger_way){
		.ep = work->ep,
		.recv = recv,
		.addr = trigger_work_addr(work),
	};
}

static bool trigger_is_held(const struct trigger_held *held, const struct trigger_work *work)
{
	const struct trigger_way way = trigger_way_of(work);

	for (size_t i = 0; i < held->count; i++) {
		const struct trigger_way *other = &held->ways[i];

		if (way.ep == other->ep && way.recv == other->recv && way.addr == other->addr)
			return true;
	}
	return false;
}

/* Posts what is due, and for which there is room. True: some were posted [locked] */
static bool trigger_post_due(struct trigger *trigger)
{
	struct trigger_work *work = TAILQ_FIRST(&trigger->due), *next;
	struct trigger_held held = {.count = 0};
	bool posted, some = false;

	trigger_assert_locked(trigger);
	while (held.count < TRIGGER_HELD_MAX && work) {
		const bool tried = !trigger_is_held(&held, work);

		posted = tried && trigger_post(trigger, work);
		if (tried && !posted)
			held.ways[held.count++] = trigger_way_of(work);
		next = TAILQ_NEXT(work, entry);
		if (posted) {
			TAILQ_REMOVE(&trigger->due, work, entry);
			trigger_work_free(trigger, work);
			some = true;
		}
		work = next;
	}
	return some;
}

static void trigger_go(struct xfer *xfer)
{
	struct trigger *trigger = container_of(xfer, struct p2p_domain, xfer)->trigger;
	bool some;

	p2p_lock_take(&xfer->lock);
	/* another thread, or this one in a call below */
	trigger->again = true;
	if (!trigger->going) {
		trigger->going = true;
		do {
			trigger->again = false;
			trigger_look(trigger);
			some = trigger_post_due(trigger);
		} while (some || trigger->again);
		trigger_set_blind(trigger);
		trigger->going = false;
	}
	p2p_lock_drop(&xfer->lock);
}

/* Over a core that progresses by itself, works go without the application's calls as they would there. */
static bool trigger_wants_thread(const struct p2p_domain *domain)
{
	const struct fi_domain_attr *attr = domain->core_info->domain_attr;

	return attr->data_progress == FI_PROGRESS_AUTO && attr->threading == FI_THREAD_SAFE;
}

/* From now on every operation is followed up: it may be what a work waits for, or begin as one. 0 or an error */
static int trigger_begin(struct p2p_domain *domain)
{
	struct xfer *xfer = &domain->xfer;
	struct xfer_ep *ep;
	bool first;
	int ret = 0;

	p2p_lock_take(&xfer->lock);
	first = !xfer->works_go;
	xfer->works_go = trigger_go;
	LIST_FOREACH(ep, &xfer->eps, entry) {
		ep->followed = XFER_COUNT_ALL;
		xfer_ep_limit(ep);
	}
	p2p_lock_drop(&xfer->lock);
	if (first && trigger_wants_thread(domain)) {
		ret = auto_start(&domain->auto_thread, xfer);
		domain->automatic = !ret;
	}
	return ret;
}

int trigger_queue(struct trigger *trigger, struct trigger_work *work)
{
	struct xfer *xfer = &trigger->domain->xfer;
	int ret = xfer->works_go ? 0 : trigger_begin(trigger->domain);

	if (ret) {
		free(work);
		return ret;
	}
	p2p_lock_take(&xfer->lock);
	/* what need not wait any more goes before it, though another thread may be posting now */
	trigger_look(trigger);
	trigger_work_hold(trigger, work, 1);
	trigger_insert(trigger, work);
	/* and if it need not wait either, it goes before what is queued later */
	trigger_look(trigger);
	trigger_set_blind(trigger);
	p2p_lock_drop(&xfer->lock);
	trigger_go(xfer);
	return 0;
}

int trigger_queue_due(struct trigger *trigger, struct trigger_work *work)
{
	struct xfer *xfer = &trigger->domain->xfer;

	p2p_lock_take(&xfer->lock);
	if (trigger->roomless == TRIGGER_ROOMLESS_MAX) {
		p2p_lock_drop(&xfer->lock);
		free(work);
		return -FI_EAGAIN;
	}
	trigger->roomless++;
	trigger_work_hold(trigger, work, 1);
	TAILQ_INSERT_TAIL(&trigger->due, work, entry);
	trigger_set_blind(trigger);
	p2p_lock_drop(&xfer->lock);
	return 0;
}

bool trigger_is_awaited(struct trigger *trigger, const struct p2p_ep *ep, fi_addr_t addr)
{
	struct p2p_lock *lock = &trigger->domain->xfer.lock;
	const struct trigger_work *work;
	bool awaited = false;

	p2p_lock_take(lock);
	TAILQ_FOREACH(work, &trigger->due, entry)
		awaited |= work->ep == ep && !op_receives(&work->op) &&
			   trigger_work_addr(work) == addr;
	p2p_lock_drop(lock);
	return awaited;
}

/* ---- given up ---- */

/* Which works trigger_drop() is about */
struct trigger_which {
	const struct fi_deferred_work *deferred;
	const struct p2p_cntr *cntr;
	const struct p2p_ep *ep;
};

static bool trigger_is_meant(const struct trigger_work *work, const struct trigger_which *which)
{
	/* plain calls have returned 0, and their ends are told: only the endpoint's close drops them */
	if (!work->cntr && !which->ep)
		return false;
	return (!which->deferred || work->deferred == which->deferred) &&
	       (!which->cntr || work->cntr == which->cntr) &&
	       (!which->ep || work->ep == which->ep);
}

/* [locked] */
static size_t trigger_drop_from(struct trigger *trigger, struct trigger_works *works,
				const struct trigger_which *which)
{
	struct trigger_work *work, *next;
	size_t count = 0;

	trigger_assert_locked(trigger);
	for (work = TAILQ_FIRST(works); work; work = next) {
		next = TAILQ_NEXT(work, entry);
		if (work == trigger->current || !trigger_is_meant(work, which))
			continue;
		TAILQ_REMOVE(works, work, entry);
		trigger_work_free(trigger, work);
		count++;
	}
	return count;
}

/* [locked] */
static size_t trigger_drop_locked(struct trigger *trigger, const struct trigger_which *which)
{
	struct p2p_cntr *cntr, *next;
	size_t count = 0;

	trigger_assert_locked(trigger);
	for (cntr = LIST_FIRST(&trigger->cntrs); cntr; cntr = next) {
		next = LIST_NEXT(cntr, awaited);
		count += trigger_drop_from(trigger, &cntr->works, which);
		trigger_taken(cntr);
	}
	count += trigger_drop_from(trigger, &trigger->due, which);
	if (!trigger->going)
		trigger_set_blind(trigger);
	return count;
}

size_t trigger_drop(struct trigger *trigger, const struct fi_deferred_work *deferred,
		    const struct p2p_cntr *cntr)
{
	const struct trigger_which which = {.deferred = deferred, .cntr = cntr};
	struct p2p_lock *lock = &trigger->domain->xfer.lock;
	size_t count;

	p2p_lock_take(lock);
	count = trigger_drop_locked(trigger, &which);
	p2p_lock_drop(lock);
	return count;
}

void trigger_drop_ep(struct trigger *trigger, const struct p2p_ep *ep)
{
	const struct trigger_which which = {.ep = ep};
	struct p2p_lock *lock = &trigger->domain->xfer.lock;

	p2p_lock_take(lock);
	trigger_drop_locked(trigger, &which);
	/* if there is no room for what another thread posts now, it waits again */
	while (trigger->current && trigger->current->ep == ep) {
		p2p_lock_drop(lock);
		sched_yield();
		p2p_lock_take(lock);
		trigger_drop_locked(trigger, &which);
	}
	p2p_lock_drop(lock);
}

/* Takes an operation with FI_TRIGGER that waits off the list @works; NULL: it is not there [locked] */
static struct trigger_work *trigger_take_from(const struct trigger *trigger,
					      struct trigger_works *works,
					      const struct p2p_ep *ep, const void *context)
{
	struct trigger_work *work;

	trigger_assert_locked(trigger);
	TAILQ_FOREACH(work, works, entry) {
		if (work != trigger->current && !work->deferred && work->ep == ep &&
		    work->context == context)
			break;
	}
	if (work)
		TAILQ_REMOVE(works, work, entry);
	return work;
}

/* The same of any list [locked] */
static struct trigger_work *trigger_take(struct trigger *trigger, const struct p2p_ep *ep,
					 const void *context)
{
	struct trigger_work *work;
	struct p2p_cntr *cntr;

	trigger_assert_locked(trigger);
	LIST_FOREACH(cntr, &trigger->cntrs, awaited) {
		work = trigger_take_from(trigger, &cntr->works, ep, context);
		if (work) {
			trigger_taken(cntr);
			return work;
		}
	}
	return trigger_take_from(trigger, &trigger->due, ep, context);
}

ssize_t trigger_cancel(struct p2p_ep *ep, void *context)
{
	struct trigger *trigger = ep->domain->trigger;
	struct p2p_lock *lock = &ep->domain->xfer.lock;
	struct trigger_posted *posted;
	struct trigger_work *work;
	ssize_t ret = -FI_ENOENT;

	p2p_lock_take(lock);
	work = trigger_take(trigger, ep, context);
	if (work) {
		trigger_fail(trigger, work, FI_ECANCELED);
		trigger_work_free(trigger, work);
		if (!trigger->going)
			trigger_set_blind(trigger);
		ret = 0;
	}
	LIST_FOREACH(posted, &trigger->posted, entry) {
		if (ret == -FI_ENOENT && posted->ep == ep && posted->work.context == context)
			ret = xfer_cancel_locked(&ep->xfer, posted);
	}
	p2p_lock_drop(lock);
	return ret;
}

/* ---- domains ---- */

int trigger_init(struct p2p_domain *domain)
{
	struct trigger *trigger = calloc(1, sizeof *trigger);

	if (!trigger)
		return -FI_ENOMEM;
	trigger->domain = domain;
	LIST_INIT(&trigger->cntrs);
	TAILQ_INIT(&trigger->due);
	LIST_INIT(&trigger->posted);
	domain->trigger = trigger;
	return domain->kind->early ? trigger_begin(domain) : 0;
}

void trigger_fini(struct p2p_domain *domain)
{
	free(domain->trigger);
	domain->trigger = NULL;
}
