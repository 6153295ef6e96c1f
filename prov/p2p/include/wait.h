/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rank 4: sleeping until a completion queue or a counter may have something new.
 *
 * A queue's wait point is a file descriptor of ours. It wakes for the core's object behind it, for
 * what we have to tell ourselves and, as long as transfers are under way, for every queue
 * of the domain, since any of them may carry what moves a transfer on. Copies have no
 * descriptor: while some are in flight, nobody sleeps.
 *
 * Cores give no descriptors for counters. We sleep in the core's fi_cntr_wait(), on a
 * counter of our own that counts whatever the core completes on the domain's endpoints with
 * counters.
 */
#ifndef P2P_WAIT_H
#define P2P_WAIT_H

#include <stdbool.h>
#include <sys/queue.h>
#include <rdma/fi_domain.h>

struct xfer;
struct xfer_cq;

/**
 * struct wait_point - what to sleep on for a queue. The domain's lock guards it.
 * @fd:		what to poll: an epoll instance with @event, @timer and the core's descriptor
 *		of @cq; or just that one
 * @event:	an eventfd; -1: the core's queue can be signalled
 * @timer:	wakes for what no descriptor tells of
 * @armed:	somebody may be asleep: news write to @event
 * @written:	@event is readable
 * @news:	something has happened since the last wait_try()
 * @wide:	the descriptors of the domain's other queues are in @fd, too
 */
struct wait_point {
	struct xfer *xfer;
	struct xfer_cq *cq;
	int fd;
	int event;
	int timer;
	bool armed;
	bool written;
	bool news;
	bool wide;
	LIST_ENTRY(wait_point) entry;
};

/**
 * struct wait_domain - what the points of one domain share.
 * @fabric:	the core's, for fi_trywait(); set by whoever opens the domain
 * @waker:	the core counter that counters sleep on, or NULL; @users: those that
 *		may, @sleepers: those that do
 */
struct wait_domain {
	struct fid_fabric *fabric;
	LIST_HEAD(, wait_point) points;
	struct fid_cntr *waker;
	unsigned int users;
	unsigned int sleepers;
};

void wait_domain_init(struct wait_domain *domain);

/* A queue of the core's was added, with descriptor @fd [locked]. */
void wait_domain_add(struct wait_domain *domain, int fd);

/*
 * @cq has a descriptor. @plain: that is all there is to sleep on, as nothing moves by way of
 * another queue; fewer epoll instances lie within each other then, which the kernel limits.
 * 0 or a negative error, logged.
 */
int wait_open(struct wait_point *point, struct xfer_cq *cq, bool plain);
void wait_close(struct wait_point *point);

/*
 * May the caller sleep on @point.fd? 0; -FI_EAGAIN: there may be something already; or
 * another error. Makes progress.
 */
int wait_try(struct wait_point *point);

/*
 * Sleeps until there may be something, for at most @timeout [ms], or without limit if that
 * is negative. 0, -FI_EINTR or another error. Where there is no descriptor to sleep on
 * (NULL) it lets others run, and dozes for moments once @rounds (0 at first) is high.
 */
int wait_sleep(struct wait_point *point, struct xfer *xfer, int64_t timeout,
	       unsigned int *rounds);

/*
 * The first user opens the waker, if the core has one to sleep on, the last closes it.
 * @domain: the core's, or NULL if its counters are of no use.
 */
void wait_waker_get(struct xfer *xfer, struct fid_domain *domain);
void wait_waker_put(struct xfer *xfer);

/* What the waker has counted so far */
uint64_t wait_waker_read(struct xfer *xfer);

/* Sleeps as wait_sleep() does, until the waker has counted more than @seen */
int wait_waker_sleep(struct xfer *xfer, uint64_t seen, int64_t timeout,
		     unsigned int *rounds);

/* There is news: wakes who sleeps on this point, or on any of the domain [locked]. */
void wait_wake(struct wait_point *point);
void wait_wake_all(struct wait_domain *domain);

/* A clock that timeouts are told by [ms] */
int64_t wait_now(void);

/* When a timeout that begins now ends, and what is left of it: -1 for no limit */
int64_t wait_end(int timeout);
int64_t wait_left(int64_t end);

#endif /* P2P_WAIT_H */
