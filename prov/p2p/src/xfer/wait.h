/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Wait points: where to sleep until a completion queue or a counter may have something new.
 *
 * A wait point is a descriptor of ours. A queue's point wakes for the core's object behind it, and
 * for reports of our own. As long as transfers are under way it wakes for every
 * queue of the domain, since any of them may move a transfer on. Copies have no descriptor:
 * while some are in flight, nobody sleeps.
 *
 * A counter has a point if its user asked for a descriptor. What we count comes out of the
 * domain's queues, so the point wakes for all of them at any time. Cores give no descriptors
 * for their own counters. We look at such a counter every WAIT_BLIND ms, and at
 * a queue without a descriptor.
 *
 * The thread of automatic progress (auto.h) has a point for all queues. It alone looks after
 * copies and other queues then.
 *
 * fi_cntr_wait() sleeps in the core, on a counter of our own. That counts whatever the core
 * completes on the domain's endpoints with counters.
 */
#ifndef P2P_WAIT_H
#define P2P_WAIT_H

#include <stdbool.h>
#include <sys/queue.h>
#include <rdma/fi_domain.h>

struct xfer;
struct xfer_cq;

/**
 * struct wait_point - what to sleep on for a queue, or for all of a domain's. The domain's lock
 *		guards it.
 * @cq:		the queue; NULL: all, for a counter or for who moves transfers on
 * @fd:		what to poll: an epoll instance with @event, @timer and the core's descriptor
 *		of @cq; or just that one
 * @event:	an eventfd
 * @timer:	wakes for what no descriptor tells of
 * @plain:	@fd is the core's: its queue is signalled, and since any read of it may take that
 *		back, sleep_on() looks at @event besides
 * @shared:	@fd is a wait set's, with what belongs to its other members
 * @blind:	there is always something that no descriptor tells of
 * @armed:	somebody may be asleep: news write to @event
 * @asleep:	threads in sleep_on(); each may take away what was to wake the others
 * @written:	@event is readable
 * @news:	something has happened since the last sleep_try()
 * @wide:	the descriptors of the domain's other queues are in @fd, too
 */
struct wait_point {
	struct xfer *xfer;
	struct xfer_cq *cq;
	int fd;
	int event;
	int timer;
	bool plain;
	bool shared;
	bool blind;
	bool armed;
	unsigned int asleep;
	bool written;
	bool news;
	bool wide;
	LIST_ENTRY(wait_point) entry;
	LIST_ENTRY(wait_point) wide_entry;
};

/**
 * struct wait_domain - what the points of one domain share.
 * @fabric:	the core's, for fi_trywait(); set by whoever opens the domain
 * @points:	all; @wide: those into whose sets a new queue goes, so that opening queues takes no longer
 *		the more there are
 * @mover:	the point of the thread that moves transfers on by itself, or NULL
 * @waker:	the core counter that counters sleep on, or NULL; @users: those that
 *		may, @sleepers: those that do
 * @counted:	what the domain's counters have counted, all together
 * @dozing:	somebody may be asleep, or about to
 * @ended:	lanes have done something that progress has not looked at
 */
struct wait_domain {
	struct fid_fabric *fabric;
	LIST_HEAD(, wait_point) points;
	LIST_HEAD(, wait_point) wide;
	struct wait_point *mover;
	struct fid_cntr *waker;
	unsigned int users;
	unsigned int sleepers;
	uint64_t counted;
	bool dozing;
	bool ended;
};

/* What was counted when a counter was looked at */
struct wait_seen {
	uint64_t waker;
	uint64_t counted;
};

void wait_domain_init(struct wait_domain *domain);

/* A queue of the core's was added, with descriptor @fd [locked]. */
void wait_domain_add(struct wait_domain *domain, int fd);

/*
 * @cq is about to be closed, or the core may not be asked about it any more (QUIRK_LITTERS): nobody sleeps on its
 * descriptor, which is returned. If it was not closed, it is told again [locked].
 */
int wait_domain_forget(struct wait_domain *domain, struct xfer_cq *cq);
void wait_domain_recall(struct wait_domain *domain, struct xfer_cq *cq, int fd);

/*
 * @cq has a descriptor. @set: a wait set's epoll instance that the point is to use, or -1. @plain:
 * without a set, that is all there is to sleep on, as nothing moves by way of another queue.
 * Either saves an epoll instance: the kernel limits how many may lie within each other.
 * 0 or a negative error, logged.
 */
int wait_open(struct wait_point *point, struct xfer_cq *cq, int set, bool plain);

/* The same for all of the domain's queues; for a counter, which is @blind if the core counts, too */
int wait_open_all(struct wait_point *point, struct xfer *xfer, int set);
void wait_close(struct wait_point *point);

/*
 * Does the point sleep for all of the domain's queues now? Not [locked]: it is a look. While transfers are under way, or
 * where peers may ask for one in another queue, any queue counts to who moves them.
 */
bool wait_wide(const struct wait_point *point);

/* Prepares a sleep on the point. 0; -FI_EAGAIN: there may be something already; or an error [locked] */
int wait_arm(struct wait_point *point);

/* For what has no descriptor, and while copies are in flight: lets others run. 0 or -FI_EINTR */
int wait_doze(struct xfer *xfer, unsigned int *rounds);

/*
 * fi_control(): FI_GETWAIT and FI_GETWAITOBJ of an object that is slept on by way of @fd, as the
 * application has asked for with @wait_obj
 */
int wait_control(int fd, enum fi_wait_obj wait_obj, int command, void *arg);

/*
 * The first user opens the waker, if the core has one to sleep on, the last closes it.
 * @domain: the core's, or NULL if its counters are of no use.
 */
void wait_waker_get(struct xfer *xfer, struct fid_domain *domain);
void wait_waker_put(struct xfer *xfer);

/* What the waker has counted so far, and the domain's counters: before they are looked at */
struct wait_seen wait_waker_read(struct xfer *xfer);

/* Sleeps as sleep_on() does, until more than @seen is counted */
int wait_waker_sleep(struct xfer *xfer, struct wait_seen seen, int64_t timeout,
		     unsigned int *rounds);

/* May anybody sleep, so that news has to come by way of the core? The caller holds the domain's lock. */
static inline bool wait_sleepers(const struct wait_domain *domain)
{
	return !LIST_EMPTY(&domain->points) || domain->waker;
}

/*
 * A lane has done something: is wait_wake_all() of use? Not [locked]. It makes that known first, and then looks whether
 * somebody sleeps; who sleeps does it the other way round.
 */
static inline bool wait_ended_set(struct wait_domain *domain)
{
	__atomic_store_n(&domain->ended, true, __ATOMIC_SEQ_CST);
	return __atomic_load_n(&domain->dozing, __ATOMIC_SEQ_CST);
}

/* Tells whether a lane has done something since the last time. */
static inline bool wait_ended_take(struct wait_domain *domain)
{
	return __atomic_load_n(&domain->ended, __ATOMIC_RELAXED) &&
	       __atomic_exchange_n(&domain->ended, false, __ATOMIC_ACQ_REL);
}

/* There is news: wakes who sleeps on this point, or on any of the domain [locked]. */
void wait_wake(struct wait_point *point);
/* Wakes every sleeper of the domain. */
void wait_wake_all(struct wait_domain *domain);

/* Wakes the thread that moves transfers on, if there is one. The caller holds the domain's lock. */
static inline void wait_wake_mover(struct wait_domain *domain)
{
	if (domain->mover)
		wait_wake(domain->mover);
}

/*
 * Wakes the sleepers on the waker, or those about to sleep, as that thread may have counted something
 * [locked].
 */
void wait_wake_counted(struct wait_domain *domain);

#endif /* P2P_WAIT_H */
