/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Counters. See cntr.h. */
#include "fid/cntr.h"

#include <stdlib.h>
#include <rdma/fi_errno.h>

#include "base/clock.h"
#include "fid/fid.h"
#include "base/libfabric.h"
#include "base/log.h"
#include "fid/native.h"
#include "fid/pollset.h"
#include "fid/table.h"
#include "xfer/ep_state.h"
#include "xfer/progress.h"
#include "xfer/sleep.h"
#include "path/quirks.h"

/* The longest sleep on a counter that both the core and we count [ms] */
#define CNTR_SLICE 1

/* ---- values ---- */

/* A core's counter that is bound to nothing is not asked: some cores look for completions whenever they are. */
static uint64_t cntr_core_value(const struct p2p_cntr *cntr)
{
	return cntr->by_core ? fi_cntr_read(cntr->core) : 0;
}

uint64_t cntr_value(const struct p2p_cntr *cntr)
{
	return cntr_core_value(cntr) + __atomic_load_n(&cntr->xfer.value, __ATOMIC_ACQUIRE);
}

uint64_t cntr_errors(const struct p2p_cntr *cntr)
{
	return (cntr->by_core ? fi_cntr_readerr(cntr->core) : 0) +
	       __atomic_load_n(&cntr->xfer.errors, __ATOMIC_ACQUIRE);
}

uint64_t cntr_reached(const struct p2p_cntr *cntr)
{
	return cntr_value(cntr) + cntr_errors(cntr);
}

/* Under one lock: a counter that was set back may be further than before when somebody looks */
struct cntr_ends cntr_ends(const struct p2p_cntr *cntr)
{
	struct p2p_lock *lock = &cntr->domain->xfer.lock;
	struct cntr_ends ends;

	p2p_lock_take(lock);
	ends = (struct cntr_ends){cntr_reached(cntr) + cntr->forgiven, cntr->turns, cntr->base};
	p2p_lock_drop(lock);
	return ends;
}

static uint64_t cntr_read(struct fid_cntr *fid)
{
	struct p2p_cntr *cntr = cntr_of(&fid->fid);

	xfer_progress_poll(&cntr->domain->xfer);
	return cntr_value(cntr);
}

static uint64_t cntr_readerr(struct fid_cntr *fid)
{
	struct p2p_cntr *cntr = cntr_of(&fid->fid);

	xfer_progress_poll(&cntr->domain->xfer);
	return cntr_errors(cntr);
}

/* Changes one of our counts, and wakes who waits [locked]. */
static void cntr_store(struct p2p_cntr *cntr, uint64_t *count, uint64_t value)
{
	struct xfer *xfer = &cntr->domain->xfer;

	xfer_assert_locked(xfer);
	__atomic_store_n(count, value, __ATOMIC_RELEASE);
	if (cntr->xfer.point)
		wait_wake(cntr->xfer.point);
	wait_wake_all(&xfer->wait);
}

static int cntr_raise(struct p2p_cntr *cntr, uint64_t *count, uint64_t value)
{
	struct xfer *xfer = &cntr->domain->xfer;

	p2p_lock_take(&xfer->lock);
	cntr_store(cntr, count, *count + value);
	p2p_lock_drop(&xfer->lock);
	xfer_works_turn(xfer);
	return 0;
}

static int cntr_add(struct fid_cntr *fid, uint64_t value)
{
	struct p2p_cntr *cntr = cntr_of(&fid->fid);

	return cntr_raise(cntr, &cntr->xfer.value, value);
}

static int cntr_adderr(struct fid_cntr *fid, uint64_t value)
{
	struct p2p_cntr *cntr = cntr_of(&fid->fid);

	return cntr_raise(cntr, &cntr->xfer.errors, value);
}

static int cntr_set(struct fid_cntr *fid, uint64_t value)
{
	struct p2p_cntr *cntr = cntr_of(&fid->fid);
	struct xfer *xfer = &cntr->domain->xfer;
	uint64_t before;
	int ret;

	p2p_lock_take(&xfer->lock);
	before = cntr_value(cntr);
	ret = fi_cntr_set(cntr->core, 0);
	if (!ret && value <= before) {
		cntr->turns++;
		cntr->base = value + cntr_errors(cntr) + cntr->forgiven;
	}
	if (!ret)
		cntr_store(cntr, &cntr->xfer.value, value);
	p2p_lock_drop(&xfer->lock);
	xfer_works_turn(xfer);
	return ret;
}

static int cntr_seterr(struct fid_cntr *fid, uint64_t value)
{
	struct p2p_cntr *cntr = cntr_of(&fid->fid);
	struct xfer *xfer = &cntr->domain->xfer;
	uint64_t before;
	int ret;

	p2p_lock_take(&xfer->lock);
	before = cntr_errors(cntr);
	ret = fi_cntr_seterr(cntr->core, 0);
	if (!ret && value < before)
		cntr->forgiven += before - value;
	if (!ret)
		cntr_store(cntr, &cntr->xfer.errors, value);
	p2p_lock_drop(&xfer->lock);
	xfer_works_turn(xfer);
	return ret;
}

/* ---- waiting ---- */

/*
 * Sleeps until the core counts, but not for long: progress may be needed for what we count. The
 * caller looks at the counter, whatever the core has returned.
 */
static int cntr_sleep_core(struct p2p_cntr *cntr, uint64_t value, int64_t timeout,
			   unsigned int *rounds)
{
	struct xfer *xfer = &cntr->domain->xfer;
	uint64_t core = cntr_core_value(cntr);

	if (!xfer->wait.waker || xfer_busy(xfer) || cntr_value(cntr) != value)
		return sleep_on(NULL, xfer, timeout, rounds);
	if (timeout < 0 || timeout > CNTR_SLICE)
		timeout = CNTR_SLICE;
	fi_cntr_wait(cntr->core, core + 1, (int) timeout);
	return 0;
}

static int cntr_wait(struct fid_cntr *fid, uint64_t threshold, int timeout)
{
	struct p2p_cntr *cntr = cntr_of(&fid->fid);
	struct xfer *xfer = &cntr->domain->xfer;
	uint64_t errors = cntr_errors(cntr), value;
	struct wait_seen seen;
	int64_t end = clock_end(timeout), left;
	unsigned int rounds = 0;
	int ret;

	/*
	 * who has operations wait is the application to wait for them, too: the waker is there. And sockets lets wait for
	 * counters that were opened without, so that programs do over the hook; for those of a set the set waits
	 */
	if (cntr->domain->kind->no_wait >> cntr->wait_obj & 1 && !cntr->domain->triggers)
		return -FI_ENOSYS;
	do {
		seen = wait_waker_read(xfer);
		xfer_progress(xfer);
		value = cntr_value(cntr);
		if (value >= threshold)
			return 0;
		if (cntr_errors(cntr) != errors)
			return -FI_EAVAIL;
		left = clock_left(end);
		if (!left)
			return -FI_ETIMEDOUT;
		ret = cntr->by_core || !xfer->wait.waker
			      ? cntr_sleep_core(cntr, value, left, &rounds)
			      : wait_waker_sleep(xfer, seen, left, &rounds);
	} while (!ret);
	return ret;
}

/*
 * Says -FI_EAGAIN if anything was counted since the last call, even if the application has read it
 * since. One look too many costs less than a value that nobody looks at.
 */
int cntr_trywait(struct fid *fid)
{
	struct p2p_cntr *cntr = cntr_of(fid);

	return cntr->xfer.point ? sleep_try(cntr->xfer.point) : -FI_EINVAL;
}

static int cntr_control(struct fid *fid, int command, void *arg)
{
	struct p2p_cntr *cntr = cntr_of(fid);

	return waitset_control(fid, &cntr->member, cntr->xfer.point, cntr->wait_obj, command,
			       arg);
}

/* ---- endpoints ---- */

static int cntr_wake_by(struct p2p_cntr *cntr, struct xfer_ep *ep, uint64_t by_core)
{
	const uint64_t kinds = FI_SEND | FI_RECV | FI_READ | FI_WRITE;
	struct fid_cntr *waker = cntr->domain->xfer.wait.waker;
	int ret;

	if (!cntr->waits || !waker || ep->wakes)
		return 0;
	ret = fi_ep_bind(ep->front.core, &waker->fid, kinds & ~by_core);
	ep->wakes = !ret;
	return ret;
}

int cntr_bind_ep(struct p2p_cntr *cntr, struct xfer_ep *ep, uint64_t flags, uint64_t by_core)
{
	int ret = 0;

	if (!flags || flags & ~XFER_COUNT_ALL) {
		P2P_WARN("binding a counter: flags 0x%zx\n", (size_t) flags);
		return -FI_EBADFLAGS;
	}
	for (uint64_t kind = FI_READ; kind <= FI_REMOTE_WRITE; kind <<= 1) {
		if (flags & kind && ep->cntrs[xfer_count_index(kind)]) {
			P2P_WARN("binding a counter: there is one already\n");
			return -FI_EINVAL;
		}
	}
	if (flags & by_core) {
		ret = fi_ep_bind(ep->front.core, &cntr->core->fid, flags & by_core);
		if (ret)
			return ret;
		cntr->by_core = true;
	}
	ret = cntr_wake_by(cntr, ep, by_core);
	if (ret)
		return ret;
	p2p_lock_take(&cntr->domain->xfer.lock);
	cntr->point.blind = cntr->by_core;
	for (uint64_t kind = FI_READ; kind <= FI_REMOTE_WRITE; kind <<= 1) {
		if (!(flags & kind))
			continue;
		ep->cntrs[xfer_count_index(kind)] = &cntr->xfer;
		cntr->refs++;
	}
	/* whoever serves a peer's access counts it */
	ep->followed |= flags & ~(by_core & ~(FI_REMOTE_READ | FI_REMOTE_WRITE));
	xfer_ep_limit(ep);
	p2p_lock_drop(&cntr->domain->xfer.lock);
	return 0;
}

void cntr_release_ep(struct xfer_ep *ep)
{
	p2p_lock_take(&ep->xfer->lock);
	for (int i = 0; i < XFER_COUNT_KINDS; i++) {
		if (ep->cntrs[i])
			container_of(ep->cntrs[i], struct p2p_cntr, xfer)->refs--;
	}
	p2p_lock_drop(&ep->xfer->lock);
}

/* ---- open and close ---- */

static int cntr_close(struct fid *fid)
{
	struct p2p_cntr *cntr = cntr_of(fid);
	bool bound;
	int ret;

	if (domain_inherited(cntr->domain))
		return 0;
	p2p_lock_take(&cntr->domain->xfer.lock);
	bound = cntr->refs;
	p2p_lock_drop(&cntr->domain->xfer.lock);
	if (bound)
		return -FI_EBUSY;
	/* as in cq_close() */
	fid_exports_end(&cntr->exports);
	waitset_hold(&cntr->member);
	ret = fi_close(&cntr->core->fid);
	waitset_drop(&cntr->member, !ret);
	if (ret)
		return ret;
	pollset_forget(fid);
	if (cntr->xfer.point)
		wait_close(cntr->xfer.point);
	if (cntr->waits)
		wait_waker_put(&cntr->domain->xfer);
	native_ctx_drop(cntr->native);
	free(cntr);
	return 0;
}

static struct fid_class cntr_class = {
	.ops = FID_OPS(.close = cntr_close, .bind = fid_no_bind, .control = cntr_control),
	.core = offsetof(struct p2p_cntr, core),
	.trywait = cntr_trywait,
};

static int cntr_export_xpu(struct fid_cntr *fid, uint64_t flags, struct fid_xpu_cntr *xpu)
{
	struct native_ctx *ctx = cntr_of(&fid->fid)->native;

	return ctx ? native_calls->cntr_export(&ctx->fid, fid, flags, xpu) : native_refuse();
}

static union table_cntr cntr_table = {
	.ops =
		{
			.read = cntr_read,
			.readerr = cntr_readerr,
			.add = cntr_add,
			.adderr = cntr_adderr,
			.set = cntr_set,
			.seterr = cntr_seterr,
			.wait = cntr_wait,
		},
};

static __attribute__((constructor)) void cntr_complete_table(void)
{
	table_complete(cntr_table.entry, LF_CNTR_EXPORT_XPU, (table_entry) cntr_export_xpu);
}

/* Opens the core's counter and, if the application wants a descriptor, a point to sleep on. */
static int cntr_open_core(struct p2p_cntr *cntr, const struct fi_cntr_attr *attr, int set)
{
	struct p2p_domain *domain = cntr->domain;
	struct fi_cntr_attr core_attr = *attr;
	bool sleeps;
	int ret;

	/* a list of descriptors makes some cores start a thread: QUIRK_POLLFD */
	if (core_attr.wait_obj == FI_WAIT_POLLFD)
		core_attr.wait_obj = FI_WAIT_FD;
	sleeps = core_attr.wait_obj == FI_WAIT_FD;
	ret = fi_cntr_open(domain->core, &core_attr, &cntr->core, cntr);
	if (ret || !sleeps)
		return ret;
	ret = wait_open_all(&cntr->point, &domain->xfer, set);
	if (ret)
		fi_close(&cntr->core->fid);
	else
		cntr->xfer.point = &cntr->point;
	return ret;
}

int cntr_open(struct fid_domain *domain_fid, struct fi_cntr_attr *attr,
	      struct fid_cntr **cntr_fid, void *context)
{
	struct p2p_domain *domain = domain_of(&domain_fid->fid);
	struct fi_cntr_attr core_attr = attr ? *attr : (struct fi_cntr_attr){0};
	struct p2p_waitset *set;
	struct p2p_cntr *cntr;
	int ret;

	if (!cntr_fid)
		return -FI_EINVAL;
	cntr = calloc(1, sizeof *cntr);
	if (!cntr)
		return -FI_ENOMEM;
	ret = native_ctx_take(domain, core_attr.flags, attr, LF_CNTR_ATTR_XPU_CTX,
			      &cntr->native);
	if (ret)
		goto free_cntr;
	core_attr.flags &= ~LF_XPU;
	cntr->domain = domain;
	cntr->wait_obj = core_attr.wait_obj;
	cntr->waits = cntr->wait_obj != FI_WAIT_NONE && cntr->wait_obj != FI_WAIT_SET;
	TAILQ_INIT(&cntr->works);
	cntr->fid.fid.fclass = FI_CLASS_CNTR;
	cntr->fid.fid.context = context;
	cntr->fid.fid.ops = &cntr_class.ops;
	cntr->fid.ops = &cntr_table.ops;
	ret = waitset_choose(domain->fabric, &core_attr.wait_obj, core_attr.wait_set, &set);
	if (!ret)
		ret = cntr_open_core(cntr, &core_attr, waitset_fd(set));
	if (ret)
		goto drop_native;
	if (cntr->waits)
		wait_waker_get(&domain->xfer,
			       domain->xfer.quirks & QUIRK_NO_COUNTERS ? NULL : domain->core);
	waitset_join(set, &cntr->member, &cntr->fid.fid);
	*cntr_fid = &cntr->fid;
	return 0;

drop_native:
	native_ctx_drop(cntr->native);
free_cntr:
	free(cntr);
	return ret;
}
