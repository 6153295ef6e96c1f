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

/**
 * struct wait_point - what to sleep on for a queue. The domain's lock guards it.
 * @core:	the core's queue
 * @fd:		what to poll: an epoll instance that holds @event, the core queue's
 *		descriptor and those of the domain
 * @event:	an eventfd
 * @armed:	somebody may be asleep: news write to @event
 * @written:	@event is readable
 * @news:	something has happened since the last wait_try()
 * @wide:	the domain's descriptors count
 */
struct wait_point {
	struct xfer *xfer;
	struct fid *core;
	int fd;
	int event;
	bool armed;
	bool written;
	bool news;
	bool wide;
	LIST_ENTRY(wait_point) entry;
};

/**
 * struct wait_domain - what the points of one domain share.
 * @fabric:	the core's, for fi_trywait(); set by whoever opens the domain
 * @fd:		an epoll instance with the descriptors of all queues, and @timer; -1: there
 *		has been no point yet
 * @timer:	wakes for what no descriptor tells of
 * @waker:	the core counter that counters sleep on, or NULL; @users: those that
 *		may, @sleepers: those that do
 */
struct wait_domain {
	struct fid_fabric *fabric;
	int fd;
	int timer;
	LIST_HEAD(, wait_point) points;
	struct fid_cntr *waker;
	unsigned int users;
	unsigned int sleepers;
};

void wait_domain_init(struct wait_domain *domain);
void wait_domain_fini(struct wait_domain *domain);

/* A queue of the core's was added, with descriptor @fd [locked]. */
void wait_domain_add(struct wait_domain *domain, int fd);

/* @fd: descriptor of @core. 0 or a negative error, logged; then @point is as it was. */
int wait_open(struct wait_point *point, struct xfer *xfer, struct fid *core, int fd);
void wait_close(struct wait_point *point);

/*
 * May the caller sleep on @point.fd? 0; -FI_EAGAIN: there may be something already; or
 * another error. Makes progress.
 */
int wait_try(struct wait_point *point);

/*
 * Sleeps until there may be something, for at most @timeout [ms], or without limit if that
 * is negative. 0, -FI_EINTR or another error. Without a point (NULL) it only lets others
 * run.
 */
int wait_sleep(struct wait_point *point, int64_t timeout);

/* The first user opens the waker, the last one closes it. 0 or the core's error */
int wait_waker_get(struct xfer *xfer, struct fid_domain *domain);
void wait_waker_put(struct xfer *xfer);

/* What the waker has counted so far */
uint64_t wait_waker_read(struct xfer *xfer);

/* Sleeps as wait_sleep() does, until the waker has counted more than @seen */
int wait_waker_sleep(struct xfer *xfer, uint64_t seen, int64_t timeout);

/* There is news: wakes who sleeps on this point, or on any of the domain [locked]. */
void wait_wake(struct wait_point *point);
void wait_wake_all(struct wait_domain *domain);

/* A clock that timeouts are told by [ms] */
int64_t wait_now(void);

/* When a timeout that begins now ends, and what is left of it: -1 for no limit */
int64_t wait_end(int timeout);
int64_t wait_left(int64_t end);

#endif /* P2P_WAIT_H */
