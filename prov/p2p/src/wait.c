/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Rank 4: sleeping. See wait.h. */
#include "wait.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include "log.h"
#include "xfer.h"

/*
 * While transfers are under way: how long to sleep when some queue has no descriptor, and
 * how often to look after peers that have fallen silent otherwise [ms].
 */
#define WAIT_BLIND 1
#define WAIT_WATCH 100

/* Queues of the core's that one fi_trywait() is asked about */
#define WAIT_TRY_BATCH 16

static int wait_errno(const char *what)
{
	int err = errno;

	P2P_WARN("%s: %s\n", what, fi_strerror(err));
	return -err;
}

static int wait_epoll(int epoll, int op, int fd, bool on)
{
	struct epoll_event event = {.events = on ? EPOLLIN : 0};

	return epoll_ctl(epoll, op, fd, &event) ? wait_errno("epoll_ctl") : 0;
}

/* ---- the domain's part ---- */

void wait_domain_init(struct wait_domain *domain)
{
	domain->fd = domain->timer = -1;
	LIST_INIT(&domain->points);
}

void wait_domain_fini(struct wait_domain *domain)
{
	if (domain->fd < 0)
		return;
	close(domain->timer);
	close(domain->fd);
}

void wait_domain_add(struct wait_domain *domain, int fd)
{
	/* a descriptor leaves the set when it is closed */
	if (domain->fd >= 0 && fd >= 0)
		wait_epoll(domain->fd, EPOLL_CTL_ADD, fd, true);
}

/* The first point makes it. */
static int wait_domain_open(struct xfer *xfer)
{
	struct wait_domain *domain = &xfer->wait;
	const struct xfer_cq *cq;
	int ret;

	if (domain->fd >= 0)
		return 0;
	domain->fd = epoll_create1(EPOLL_CLOEXEC);
	if (domain->fd < 0)
		return wait_errno("epoll_create1");
	domain->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	ret = domain->timer < 0 ? wait_errno("timerfd_create")
				: wait_epoll(domain->fd, EPOLL_CTL_ADD, domain->timer, true);
	if (ret) {
		close(domain->fd);
		domain->fd = -1;
		return ret;
	}
	LIST_FOREACH(cq, &xfer->cqs, entry)
		wait_domain_add(domain, cq->fd);
	return 0;
}

static void wait_timer_set(const struct wait_domain *domain, unsigned int ms)
{
	const struct itimerspec when = {.it_value.tv_nsec = ms * 1000000L};

	timerfd_settime(domain->timer, 0, &when, NULL);
}

/* ---- points ---- */

int wait_open(struct wait_point *point, struct xfer *xfer, struct fid *core, int fd)
{
	struct wait_point new = {.xfer = xfer, .core = core};
	int ret;

	p2p_lock_take(&xfer->lock);
	ret = wait_domain_open(xfer);
	if (ret)
		goto drop_lock;
	new.fd = epoll_create1(EPOLL_CLOEXEC);
	if (new.fd < 0) {
		ret = wait_errno("epoll_create1");
		goto drop_lock;
	}
	new.event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (new.event < 0) {
		ret = wait_errno("eventfd");
		goto close_fd;
	}
	ret = wait_epoll(new.fd, EPOLL_CTL_ADD, new.event, true);
	if (!ret)
		ret = wait_epoll(new.fd, EPOLL_CTL_ADD, fd, true);
	if (!ret)
		ret = wait_epoll(new.fd, EPOLL_CTL_ADD, xfer->wait.fd, false);
	if (ret)
		goto close_event;
	*point = new;
	LIST_INSERT_HEAD(&xfer->wait.points, point, entry);
	p2p_lock_drop(&xfer->lock);
	return 0;

close_event:
	close(new.event);
close_fd:
	close(new.fd);
drop_lock:
	p2p_lock_drop(&xfer->lock);
	return ret;
}

void wait_close(struct wait_point *point)
{
	p2p_lock_take(&point->xfer->lock);
	LIST_REMOVE(point, entry);
	p2p_lock_drop(&point->xfer->lock);
	close(point->event);
	close(point->fd);
}

void wait_wake(struct wait_point *point)
{
	const uint64_t one = 1;

	point->news = true;
	if (!point->armed)
		return;
	point->armed = false;
	point->written = write(point->event, &one, sizeof one) == sizeof one;
}

void wait_wake_all(struct wait_domain *domain)
{
	struct wait_point *point;

	LIST_FOREACH(point, &domain->points, entry) {
		if (point->armed)
			wait_wake(point);
	}
	if (domain->sleepers)
		fi_cntr_add(domain->waker, 1);
}

/* Asks the core about every queue that has a descriptor; is there one that has none? */
static int wait_try_queues(struct xfer *xfer, bool *blind)
{
	struct fid *fids[WAIT_TRY_BATCH];
	struct xfer_cq *cq;
	int count = 0, ret = 0;

	LIST_FOREACH(cq, &xfer->cqs, entry) {
		if (cq->fd < 0) {
			*blind = true;
			continue;
		}
		fids[count++] = &cq->core->fid;
		if (count == WAIT_TRY_BATCH) {
			ret = fi_trywait(xfer->wait.fabric, fids, count);
			count = 0;
		}
		if (ret)
			return ret;
	}
	return count ? fi_trywait(xfer->wait.fabric, fids, count) : 0;
}

static int wait_arm(struct wait_point *point)
{
	struct xfer *xfer = point->xfer;
	bool busy = xfer_busy(xfer), blind = false;
	uint64_t events;
	int ret = 0;

	if (point->written && read(point->event, &events, sizeof events) == sizeof events)
		point->written = false;
	if (point->news || xfer->copies.pending) {
		point->news = false;
		return -FI_EAGAIN;
	}
	if (busy != point->wide) {
		ret = wait_epoll(point->fd, EPOLL_CTL_MOD, xfer->wait.fd, busy);
		if (ret)
			return ret;
		point->wide = busy;
	}
	if (busy)
		ret = wait_try_queues(xfer, &blind);
	if (!ret)
		ret = fi_trywait(xfer->wait.fabric, &point->core, 1);
	if (ret)
		return ret;
	if (busy)
		wait_timer_set(&xfer->wait, blind ? WAIT_BLIND : WAIT_WATCH);
	point->armed = true;
	return 0;
}

int wait_try(struct wait_point *point)
{
	struct xfer *xfer = point->xfer;
	int ret;

	/* leaves nothing in the core's queues that would keep the descriptors readable */
	if (xfer_busy(xfer))
		xfer_progress(xfer);
	p2p_lock_take(&xfer->lock);
	ret = wait_arm(point);
	p2p_lock_drop(&xfer->lock);
	return ret;
}

int wait_sleep(struct wait_point *point, int64_t timeout)
{
	struct epoll_event event;
	int ret;

	if (!point) {
		sched_yield();
		return 0;
	}
	ret = wait_try(point);
	if (ret == -FI_EAGAIN) {
		sched_yield();
		return 0;
	}
	if (ret)
		return ret;
	ret = epoll_wait(point->fd, &event, 1, (int) P2P_MIN(timeout, INT_MAX));
	return ret < 0 ? -errno : 0;
}

/* ---- counters ---- */

int wait_waker_get(struct xfer *xfer, struct fid_domain *domain)
{
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_UNSPEC};
	int ret = 0;

	p2p_lock_take(&xfer->lock);
	if (!xfer->wait.users)
		ret = fi_cntr_open(domain, &attr, &xfer->wait.waker, NULL);
	if (!ret)
		xfer->wait.users++;
	p2p_lock_drop(&xfer->lock);
	return ret;
}

void wait_waker_put(struct xfer *xfer)
{
	p2p_lock_take(&xfer->lock);
	if (!--xfer->wait.users)
		fi_close(&xfer->wait.waker->fid);
	p2p_lock_drop(&xfer->lock);
}

uint64_t wait_waker_read(struct xfer *xfer)
{
	return fi_cntr_read(xfer->wait.waker);
}

/* Is there an endpoint whose completions the waker does not count? */
static bool wait_waker_blind(const struct xfer *xfer)
{
	const struct xfer_ep *ep;

	LIST_FOREACH(ep, &xfer->eps, entry) {
		if (!ep->wakes)
			return true;
	}
	return false;
}

int wait_waker_sleep(struct xfer *xfer, uint64_t seen, int64_t timeout)
{
	int64_t longest = INT_MAX;
	bool copying;
	int ret;

	p2p_lock_take(&xfer->lock);
	copying = xfer->copies.pending;
	if (xfer_busy(xfer))
		longest = wait_waker_blind(xfer) ? WAIT_BLIND : WAIT_WATCH;
	if (!copying)
		xfer->wait.sleepers++;
	p2p_lock_drop(&xfer->lock);
	if (copying)
		return wait_sleep(NULL, 0);
	if (timeout < 0 || timeout > longest)
		timeout = longest;

	ret = fi_cntr_wait(xfer->wait.waker, seen + 1, (int) timeout);
	p2p_lock_take(&xfer->lock);
	xfer->wait.sleepers--;
	p2p_lock_drop(&xfer->lock);
	return ret == -FI_ETIMEDOUT || ret == -FI_EAVAIL ? 0 : ret;
}

/* ---- time ---- */

int64_t wait_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t wait_end(int timeout)
{
	return timeout < 0 ? INT64_MAX : wait_now() + timeout;
}

int64_t wait_left(int64_t end)
{
	int64_t left;

	if (end == INT64_MAX)
		return -1;
	left = end - wait_now();
	return P2P_MAX(left, 0);
}
