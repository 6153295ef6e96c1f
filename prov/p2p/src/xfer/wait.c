/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Sleeping. See wait.h. */
#include "xfer/wait.h"

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

#include "base/log.h"
#include "xfer/req.h"

/*
 * While transfers are under way: how long to sleep when some queue has no descriptor, and
 * how often to look after peers that have fallen silent otherwise [ms].
 */
#define WAIT_BLIND 1
#define WAIT_WATCH 25

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

	/* in a set, another point may have put it there already, or taken it away */
	if (!epoll_ctl(epoll, op, fd, &event) || errno == EEXIST || errno == ENOENT)
		return 0;
	return wait_errno("epoll_ctl");
}

/* ---- points ---- */

void wait_domain_init(struct wait_domain *domain)
{
	LIST_INIT(&domain->points);
	LIST_INIT(&domain->wide);
}

void wait_domain_add(struct wait_domain *domain, int fd)
{
	struct wait_point *point;

	xfer_assert_locked(container_of(domain, struct xfer, wait));
	/* a descriptor leaves the sets when it is closed */
	LIST_FOREACH(point, &domain->wide, wide_entry) {
		if (fd >= 0)
			wait_epoll(point->fd, EPOLL_CTL_ADD, fd);
	}
}

/* Who sleeps on that queue alone needs it in any case. */
static void wait_own(const struct xfer_cq *cq, int op, int fd)
{
	if (fd >= 0 && cq->point && !cq->point->plain)
		wait_epoll(cq->point->fd, op, fd);
}

int wait_domain_forget(struct wait_domain *domain, struct xfer_cq *cq)
{
	struct wait_point *point;
	const int fd = cq->fd;

	xfer_assert_locked(cq->xfer);
	LIST_FOREACH(point, &domain->wide, wide_entry) {
		if (fd >= 0)
			wait_epoll(point->fd, EPOLL_CTL_DEL, fd);
	}
	wait_own(cq, EPOLL_CTL_DEL, fd);
	cq->fd = -1;
	return fd;
}

void wait_domain_recall(struct wait_domain *domain, struct xfer_cq *cq, int fd)
{
	xfer_assert_locked(cq->xfer);
	cq->fd = fd;
	wait_domain_add(domain, fd);
	wait_own(cq, EPOLL_CTL_ADD, fd);
}

static int wait_open_set(struct wait_point *point, int set)
{
	int ret;

	point->shared = set >= 0;
	point->fd = point->shared ? set : epoll_create1(EPOLL_CLOEXEC);
	if (point->fd < 0)
		return wait_errno("epoll_create1");
	point->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (point->timer < 0) {
		ret = wait_errno("timerfd_create");
		goto close_fd;
	}
	ret = wait_epoll(point->fd, EPOLL_CTL_ADD, point->event);
	if (!ret)
		ret = wait_epoll(point->fd, EPOLL_CTL_ADD, point->timer);
	if (!ret && point->cq)
		ret = wait_epoll(point->fd, EPOLL_CTL_ADD, point->cq->fd);
	if (!ret)
		return 0;

	close(point->timer);
close_fd:
	if (!point->shared)
		close(point->fd);
	return ret;
}

static int wait_point_add(struct wait_point *point, int set)
{
	struct xfer *xfer = point->xfer;
	int ret = 0;

	point->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (point->event < 0)
		return wait_errno("eventfd");
	p2p_lock_take(&xfer->lock);
	if (!point->plain)
		ret = wait_open_set(point, set);
	if (!ret)
		LIST_INSERT_HEAD(&xfer->wait.points, point, entry);
	p2p_lock_drop(&xfer->lock);
	if (ret)
		close(point->event);
	return ret;
}

int wait_open(struct wait_point *point, struct xfer_cq *cq, int set, bool plain)
{
	*point = (struct wait_point){
		.xfer = cq->xfer,
		.cq = cq,
		.fd = cq->fd,
		.plain = plain && set < 0,
	};
	return wait_point_add(point, set);
}

int wait_open_all(struct wait_point *point, struct xfer *xfer, int set)
{
	*point = (struct wait_point){.xfer = xfer};
	return wait_point_add(point, set);
}

void wait_wake(struct wait_point *point)
{
	const uint64_t one = 1;

	xfer_assert_locked(point->xfer);
	point->news = true;
	if (!point->armed)
		return;
	point->armed = false;
	if (point->plain)
		fi_cq_signal(point->cq->core);
	if (!point->plain || point->asleep)
		point->written = write(point->event, &one, sizeof one) == sizeof one;
}

void wait_wake_counted(struct wait_domain *domain)
{
	xfer_assert_locked(container_of(domain, struct xfer, wait));
	__atomic_store_n(&domain->counted, domain->counted + 1, __ATOMIC_RELEASE);
	if (domain->sleepers)
		fi_cntr_add(domain->waker, 1);
}

void wait_wake_all(struct wait_domain *domain)
{
	struct wait_point *point;

	xfer_assert_locked(container_of(domain, struct xfer, wait));
	__atomic_store_n(&domain->dozing, false, __ATOMIC_RELAXED);
	LIST_FOREACH(point, &domain->points, entry) {
		if (point->armed)
			wait_wake(point);
	}
	wait_wake_counted(domain);
}

static void wait_timer_set(const struct wait_point *point, struct timespec when)
{
	const struct itimerspec timer = {.it_value = when};

	timerfd_settime(point->timer, 0, &timer, NULL);
}

/* Does nobody else see to it that transfers move? */
static bool wait_moves(const struct wait_point *point)
{
	const struct wait_point *mover = point->xfer->wait.mover;

	return !mover || mover == point;
}

/* Sends, and reads, that wait for room in the core: nothing says when there is some. */
static bool wait_sends(const struct xfer *xfer)
{
	const struct xfer_req *req;
	const struct xfer_ep *ep;

	LIST_FOREACH(ep, &xfer->eps, entry) {
		if (ep->waiting || ep->front.letter || ep->side.letter ||
		    !TAILQ_EMPTY(&ep->front.outq) || !TAILQ_EMPTY(&ep->side.outq))
			return true;
	}
	TAILQ_FOREACH(req, &xfer->in[XFER_MOVING], entry) {
		if (!req->transfer.in_flight)
			return true;
	}
	return false;
}

/* Somebody is about to sleep. From now on lanes wake who sleeps: have they done something meanwhile? */
static bool wait_ended_late(struct wait_domain *domain)
{
	__atomic_store_n(&domain->dozing, true, __ATOMIC_SEQ_CST);
	return __atomic_load_n(&domain->ended, __ATOMIC_SEQ_CST);
}

/* What is looked for: nothing says when it is there. */
static bool wait_looks(const struct xfer *xfer)
{
	return xfer->looks;
}

/* Asks the core about every queue that has a descriptor; is there one that has none? */
static int wait_try_queues(struct xfer *xfer, bool *blind)
{
	struct fid *fids[WAIT_TRY_BATCH];
	struct xfer_cq *cq;
	int count = 0, ret = 0;

	LIST_FOREACH(cq, &xfer->cqs, entry) {
		if (cq->fd < 0) {
			*blind |= !LIST_EMPTY(&xfer->eps);
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

/*
 * While transfers are under way, or memory is open that has to be closed in time, or where peers may ask for one in another
 * queue, any queue counts to who moves them; to who wants all of them it always does. What lies in a set stays there, since
 * it may be there for several points.
 */
bool wait_wide(const struct wait_point *point)
{
	return !point->cq || point->shared ||
	       (wait_moves(point) && (xfer_busy(point->xfer) || xfer_apart(point->xfer) ||
				      ipc_restless(&point->xfer->ipc)));
}

static void wait_set_wide(struct wait_point *point, bool wide)
{
	if (wide && !point->wide)
		LIST_INSERT_HEAD(&point->xfer->wait.wide, point, wide_entry);
	else if (!wide && point->wide)
		LIST_REMOVE(point, wide_entry);
	point->wide = wide;
}

static int wait_widen(struct wait_point *point, bool wide)
{
	const int op = wide ? EPOLL_CTL_ADD : EPOLL_CTL_DEL;
	const struct timespec never = {0};
	struct xfer_cq *cq;
	int ret = 0;

	if (wide == point->wide)
		return 0;
	LIST_FOREACH(cq, &point->xfer->cqs, entry) {
		if (!ret && cq->fd >= 0 && (cq != point->cq || point->shared))
			ret = wait_epoll(point->fd, op, cq->fd);
	}
	if (!ret)
		wait_set_wide(point, wide);
	if (!wide)
		wait_timer_set(point, never);
	return ret;
}

/* The core may not be asked about the point's queue any more (QUIRK_LITTERS): who sleeps looks again soon. */
static bool wait_unasked(const struct wait_point *point)
{
	return point->cq && point->cq->fd < 0;
}

static int wait_arm_set(struct wait_point *point)
{
	const bool unasked = wait_unasked(point);
	struct xfer *xfer = point->xfer;
	bool moving = xfer_moving(xfer);
	bool blind = point->blind || wait_looks(xfer) || (xfer->wait.mover && wait_sends(xfer));
	struct timespec when = {0};
	int ret;

	ret = wait_widen(point, wait_wide(point));
	if (ret || !(point->wide || unasked))
		return ret;
	if (point->wide)
		ret = wait_try_queues(xfer, &blind);
	/* a queue by itself needs no other */
	if (unasked || (blind && (moving || xfer_apart(xfer) || !point->cq)))
		when.tv_nsec = WAIT_BLIND * 1000000L;
	else if (moving || ipc_restless(&xfer->ipc))
		when.tv_nsec = WAIT_WATCH * 1000000L;
	wait_timer_set(point, when);
	return ret;
}

/* What the point has put into its set goes; the others look again what they need of it. */
static void wait_unshare(struct wait_point *point)
{
	struct wait_point *other;

	wait_widen(point, false);
	LIST_FOREACH(other, &point->xfer->wait.points, entry) {
		if (!other->shared || other->fd != point->fd)
			continue;
		wait_set_wide(other, false);
		wait_wake(other);
	}
}

void wait_close(struct wait_point *point)
{
	p2p_lock_take(&point->xfer->lock);
	LIST_REMOVE(point, entry);
	if (point->shared) {
		wait_unshare(point);
		/* a child of this process may have them open, too: they would stay in the set */
		wait_epoll(point->fd, EPOLL_CTL_DEL, point->event);
		wait_epoll(point->fd, EPOLL_CTL_DEL, point->timer);
	}
	wait_set_wide(point, false);
	p2p_lock_drop(&point->xfer->lock);
	close(point->event);
	if (point->plain)
		return;
	close(point->timer);
	if (!point->shared)
		close(point->fd);
}

int wait_arm(struct wait_point *point)
{
	struct xfer *xfer = point->xfer;
	struct fid *core = point->cq ? &point->cq->core->fid : NULL;
	uint64_t events;
	int ret = 0;

	xfer_assert_locked(point->xfer);
	/* of two threads that wait for one queue the other may have seen the news */
	if (point->news || (point->cq && point->cq->count) ||
	    (wait_moves(point) && xfer->copies.pending)) {
		point->news = false;
		return -FI_EAGAIN;
	}
	if (point->written && read(point->event, &events, sizeof events) == sizeof events)
		point->written = false;
	if (!point->plain)
		ret = wait_arm_set(point);
	else if (wait_sends(xfer) || wait_looks(xfer) || wait_unasked(point))
		ret = -FI_EAGAIN;
	if (!ret && core && !wait_unasked(point))
		ret = fi_trywait(xfer->wait.fabric, &core, 1);
	if (!ret && wait_moves(point) && wait_ended_late(&xfer->wait))
		ret = -FI_EAGAIN;
	/* what was to wake another thread is gone now; what there is may be enough for two */
	point->armed |= !ret || point->asleep;
	if (ret == -FI_EAGAIN && point->asleep)
		wait_wake(point);
	return ret;
}

int wait_control(int fd, enum fi_wait_obj wait_obj, int command, void *arg)
{
	struct fi_wait_pollfd *polled = arg;
	size_t room;

	if (!arg)
		return -FI_EINVAL;
	if (command == FI_GETWAITOBJ) {
		*(enum fi_wait_obj *) arg = wait_obj == FI_WAIT_UNSPEC ? FI_WAIT_FD : wait_obj;
		return 0;
	}
	if (command != FI_GETWAIT)
		return -FI_ENOSYS;
	switch (wait_obj) {
	case FI_WAIT_UNSPEC:
	case FI_WAIT_FD:
		*(int *) arg = fd;
		return 0;
	case FI_WAIT_POLLFD:
		room = polled->nfds;
		if (room)
			*polled->fd = (struct pollfd){.fd = fd, .events = POLLIN};
		polled->change_index = 1;
		polled->nfds = 1;
		return room ? 0 : -FI_ETOOSMALL;
	default:
		return -FI_ENODATA;
	}
}

/* For what has no descriptor, and while copies are in flight: lets others run. */
int wait_doze(struct xfer *xfer, unsigned int *rounds)
{
	const struct timespec doze = {.tv_nsec = WAIT_DOZE};

	if ((xfer_busy(xfer) && !xfer->wait.mover) || (*rounds)++ < WAIT_YIELDS)
		sched_yield();
	else if (nanosleep(&doze, NULL))
		return -FI_EINTR;
	return 0;
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
	if (!--xfer->wait.users && xfer->wait.waker) {
		fi_close(&xfer->wait.waker->fid);
		xfer->wait.waker = NULL;
	}
	p2p_lock_drop(&xfer->lock);
}

struct wait_seen wait_waker_read(struct xfer *xfer)
{
	return (struct wait_seen){
		.waker = xfer->wait.waker ? fi_cntr_read(xfer->wait.waker) : 0,
		.counted = __atomic_load_n(&xfer->wait.counted, __ATOMIC_ACQUIRE),
	};
}

/* Is there something that the waker does not count: room, a note, an endpoint's completions? */
static bool wait_waker_blind(const struct xfer *xfer)
{
	const struct xfer_ep *ep;

	LIST_FOREACH(ep, &xfer->eps, entry) {
		if (!ep->wakes &&
		    (ep->front.inbox.open || ep->side.inbox.open || xfer_busy(xfer)))
			return true;
	}
	return wait_sends(xfer) || wait_looks(xfer);
}

int wait_waker_sleep(struct xfer *xfer, struct wait_seen seen, int64_t timeout,
		     unsigned int *rounds)
{
	int64_t longest = SURVEY_TURN;
	bool sleeps, news;
	int ret;

	p2p_lock_take(&xfer->lock);
	/* another thread may have counted what the caller has not seen yet */
	news = xfer->wait.counted != seen.counted;
	sleeps = xfer->wait.waker && (xfer->wait.mover || !xfer->copies.pending);
	if (!xfer->wait.mover && wait_waker_blind(xfer))
		longest = WAIT_BLIND;
	else if (!xfer->wait.mover && xfer_busy(xfer))
		longest = WAIT_WATCH;
	sleeps &= !news;
	if (sleeps)
		xfer->wait.sleepers++;
	news |= sleeps && !xfer->wait.mover && wait_ended_late(&xfer->wait);
	xfer->wait.sleepers -= sleeps && news;
	p2p_lock_drop(&xfer->lock);
	if (news)
		return 0;
	if (!sleeps)
		return wait_doze(xfer, rounds);
	if (timeout < 0 || timeout > longest)
		timeout = longest;

	ret = fi_cntr_wait(xfer->wait.waker, seen.waker + 1, (int) timeout);
	p2p_lock_take(&xfer->lock);
	xfer->wait.sleepers--;
	p2p_lock_drop(&xfer->lock);
	return ret == -FI_ETIMEDOUT || ret == -FI_EAVAIL ? 0 : ret;
}
