/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Rank 4: sleeping. See wait.h. */
#include "wait.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
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

/*
 * Where the core has nothing to sleep on: how often to look again at once, and then how
 * long to sleep between [ns].
 */
#define WAIT_YIELDS 2000
#define WAIT_DOZE 100000

/* Queues of the core's that one fi_trywait() is asked about */
#define WAIT_TRY_BATCH 16

static int wait_errno(const char *what)
{
	int err = errno;

	P2P_WARN("%s: %s\n", what, fi_strerror(err));
	return -err;
}

static int wait_epoll(int epoll, int op, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};

	return epoll_ctl(epoll, op, fd, &event) ? wait_errno("epoll_ctl") : 0;
}

/* ---- points ---- */

void wait_domain_init(struct wait_domain *domain)
{
	LIST_INIT(&domain->points);
}

void wait_domain_add(struct wait_domain *domain, int fd)
{
	struct wait_point *point;

	/* a descriptor leaves the sets when it is closed */
	LIST_FOREACH(point, &domain->points, entry) {
		if (fd >= 0 && point->wide)
			wait_epoll(point->fd, EPOLL_CTL_ADD, fd);
	}
}

static int wait_open_set(struct wait_point *point)
{
	int ret;

	point->fd = epoll_create1(EPOLL_CLOEXEC);
	if (point->fd < 0)
		return wait_errno("epoll_create1");
	point->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (point->event < 0) {
		ret = wait_errno("eventfd");
		goto close_fd;
	}
	point->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (point->timer < 0) {
		ret = wait_errno("timerfd_create");
		goto close_event;
	}
	ret = wait_epoll(point->fd, EPOLL_CTL_ADD, point->event);
	if (!ret)
		ret = wait_epoll(point->fd, EPOLL_CTL_ADD, point->timer);
	if (!ret)
		ret = wait_epoll(point->fd, EPOLL_CTL_ADD, point->cq->fd);
	if (!ret)
		return 0;

	close(point->timer);
close_event:
	close(point->event);
close_fd:
	close(point->fd);
	return ret;
}

int wait_open(struct wait_point *point, struct xfer_cq *cq, bool plain)
{
	struct xfer *xfer = cq->xfer;
	int ret = 0;

	*point = (struct wait_point){.xfer = xfer, .cq = cq, .fd = cq->fd, .event = -1};
	p2p_lock_take(&xfer->lock);
	if (!plain)
		ret = wait_open_set(point);
	if (!ret)
		LIST_INSERT_HEAD(&xfer->wait.points, point, entry);
	p2p_lock_drop(&xfer->lock);
	return ret;
}

void wait_close(struct wait_point *point)
{
	p2p_lock_take(&point->xfer->lock);
	LIST_REMOVE(point, entry);
	p2p_lock_drop(&point->xfer->lock);
	if (point->event < 0)
		return;
	close(point->timer);
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
	if (point->event < 0)
		fi_cq_signal(point->cq->core);
	else
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

static void wait_timer_set(const struct wait_point *point, struct timespec when)
{
	const struct itimerspec timer = {.it_value = when};

	timerfd_settime(point->timer, 0, &timer, NULL);
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

/* While transfers are under way, any queue counts. */
static int wait_widen(struct wait_point *point, bool wide)
{
	const int op = wide ? EPOLL_CTL_ADD : EPOLL_CTL_DEL;
	const struct timespec never = {0};
	struct xfer_cq *cq;
	int ret = 0;

	if (wide == point->wide)
		return 0;
	LIST_FOREACH(cq, &point->xfer->cqs, entry) {
		if (!ret && cq != point->cq && cq->fd >= 0)
			ret = wait_epoll(point->fd, op, cq->fd);
	}
	if (!ret)
		point->wide = wide;
	if (!wide)
		wait_timer_set(point, never);
	return ret;
}

static int wait_arm_set(struct wait_point *point)
{
	struct xfer *xfer = point->xfer;
	bool busy = xfer_busy(xfer), blind = false;
	struct timespec when = {0};
	uint64_t events;
	int ret;

	if (point->written && read(point->event, &events, sizeof events) == sizeof events)
		point->written = false;
	ret = wait_widen(point, busy);
	if (ret || !busy)
		return ret;
	ret = wait_try_queues(xfer, &blind);
	when.tv_nsec = (blind ? WAIT_BLIND : WAIT_WATCH) * 1000000L;
	wait_timer_set(point, when);
	return ret;
}

/* Sends that wait for room in the core: nothing says when there is some. */
static bool wait_sends(const struct xfer *xfer)
{
	const struct xfer_ep *ep;

	LIST_FOREACH(ep, &xfer->eps, entry) {
		if (ep->waiting)
			return true;
	}
	return false;
}

static int wait_arm(struct wait_point *point)
{
	struct xfer *xfer = point->xfer;
	struct fid *core = &point->cq->core->fid;
	int ret = 0;

	if (point->news || xfer->copies.pending) {
		point->news = false;
		return -FI_EAGAIN;
	}
	if (point->event >= 0)
		ret = wait_arm_set(point);
	else if (wait_sends(xfer))
		ret = -FI_EAGAIN;
	if (!ret)
		ret = fi_trywait(xfer->wait.fabric, &core, 1);
	point->armed = !ret;
	return ret;
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

/* For what has no descriptor, and while copies are in flight: lets others run. */
static int wait_doze(struct xfer *xfer, unsigned int *rounds)
{
	const struct timespec doze = {.tv_nsec = WAIT_DOZE};

	if (xfer_busy(xfer) || (*rounds)++ < WAIT_YIELDS)
		sched_yield();
	else if (nanosleep(&doze, NULL))
		return -FI_EINTR;
	return 0;
}

int wait_sleep(struct wait_point *point, struct xfer *xfer, int64_t timeout,
	       unsigned int *rounds)
{
	struct pollfd polled;
	int ret;

	if (!point)
		return wait_doze(xfer, rounds);
	ret = wait_try(point);
	if (ret == -FI_EAGAIN)
		return wait_doze(xfer, rounds);
	if (ret)
		return ret;
	*rounds = 0;
	polled = (struct pollfd){.fd = point->fd, .events = POLLIN};
	ret = poll(&polled, 1, (int) P2P_MIN(timeout, INT_MAX));
	return ret < 0 ? -errno : 0;
}

/* ---- counters ---- */

void wait_waker_get(struct xfer *xfer, struct fid_domain *domain)
{
	/* what waits in other ways may do so without looking at the time, or for us */
	struct fi_cntr_attr attr = {.events = FI_CNTR_EVENTS_COMP, .wait_obj = FI_WAIT_FD};

	p2p_lock_take(&xfer->lock);
	if (!xfer->wait.users++ &&
	    (!domain || fi_cntr_open(domain, &attr, &xfer->wait.waker, NULL)))
		xfer->wait.waker = NULL;
	p2p_lock_drop(&xfer->lock);
}

void wait_waker_put(struct xfer *xfer)
{
	p2p_lock_take(&xfer->lock);
	if (!--xfer->wait.users && xfer->wait.waker)
		fi_close(&xfer->wait.waker->fid);
	p2p_lock_drop(&xfer->lock);
}

uint64_t wait_waker_read(struct xfer *xfer)
{
	return xfer->wait.waker ? fi_cntr_read(xfer->wait.waker) : 0;
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

int wait_waker_sleep(struct xfer *xfer, uint64_t seen, int64_t timeout,
		     unsigned int *rounds)
{
	int64_t longest = INT_MAX;
	bool sleeps;
	int ret;

	p2p_lock_take(&xfer->lock);
	sleeps = xfer->wait.waker && !xfer->copies.pending;
	if (xfer_busy(xfer))
		longest = wait_waker_blind(xfer) ? WAIT_BLIND : WAIT_WATCH;
	if (sleeps)
		xfer->wait.sleepers++;
	p2p_lock_drop(&xfer->lock);
	if (!sleeps)
		return wait_doze(xfer, rounds);
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
