/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Further connections with threads. See lane.h. */
#include "xfer/lane.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include "base/base.h"
#include "base/conf.h"
#include "base/libfabric.h"
#include "base/log.h"
#include "base/clock.h"
#include "base/room.h"
#include "base/thread.h"
#include "path/cost.h"
#include "xfer/core.h"
#include "xfer/lane_core.h"
#include "xfer/lane_load.h"
#include "xfer/sendq.h"

/*
 * For so long [us] a thread that has nothing to do looks on before it sleeps: who has long messages soon has the next
 * one, and to wake a thread takes as long as a piece of one. It lets others run meanwhile.
 */
#define LANE_SPIN 300

/* How many nobody has asked for, where each takes much memory */
#define LANES_DEAR 2u

/* Completions read at a time */
#define LANE_BATCH 16

/* For how long it sleeps while the core has no room for something, which nothing tells of [ms] */
#define LANE_FULL 1

/*
 * What a peer has had no room for, for so long, is given up, and may go another way: nobody may be there. What no message
 * waits for has longer, as a busy machine takes its time to connect. [ms]
 */
#define LANE_GIVE_UP 250
#define LANE_GIVE_UP_ASIDE 5000

/**
 * struct lane - one of them.
 * @channel:	its outq is the thread's alone, as is @posted: what the core has
 * @event:	an eventfd: there is something for the thread, which is @asleep
 * @times:	the thread's (lane_load.h)
 * @lock:	guards @asked, @stop, @cancels and @asleep
 * @asked:	what the thread has not seen yet
 * @cancels:	something is to be taken back
 * @nap:	for how long to sleep because of that, or -1 [ms]
 */
struct lane {
	struct xfer_channel channel;
	struct lane_core core;
	int event;
	int times;
	pthread_t thread;
	bool runs;
	pthread_mutex_t lock;
	struct xfer_outs asked;
	bool stop;
	bool cancels;
	bool asleep;
	struct xfer_outs posted;
	int nap;
};

/**
 * struct lanes - those of an endpoint.
 * @beside:	what the endpoint was opened with at the core
 * @info:	what the core's objects of lanes were opened with: see domain.h. NULL: none are open
 * @retry:	they could not be opened
 * @lock:	guards @done
 * @done:	what has ended, and has not been told
 * @under_way:	what was given to lanes, has not been told and is waited for [xfer.lock]
 * @load:	how many of @count are in use [xfer.lock]
 * @room, @kept: receives that each has, and how many of them are somebody's [xfer.lock]
 * @len_min:	lanes_len_min()
 */
struct lanes {
	struct fi_info *beside;
	struct fi_info *info;
	struct retry retry;
	unsigned int count;
	struct lane_load load;
	size_t len_min;
	pthread_mutex_t lock;
	struct xfer_outs done;
	unsigned int under_way;
	size_t room;
	size_t kept;
	struct lane lane[LANES_MAX];
};

/* ---- the thread ---- */

/*
 * Wakes who sleeps, if that can be done from here. Who closes the endpoint has the lock, and waits for this thread.
 */
static void lane_wake_others(struct lane *lane)
{
	struct xfer *xfer = lane->channel.ep->xfer;

	if (!wait_ended_set(&xfer->wait) || !xfer->lock.shared)
		return;
	while (!p2p_lock_try(&xfer->lock)) {
		if (__atomic_load_n(&lane->stop, __ATOMIC_RELAXED))
			return;
		sched_yield();
	}
	wait_wake_all(&xfer->wait);
	p2p_lock_drop(&xfer->lock);
}

/* Tells who makes progress what has ended. */
static void lane_tell(struct lane *lane, struct xfer_outs *ended)
{
	struct lanes *lanes = lane->channel.ep->lanes;

	if (TAILQ_EMPTY(ended))
		return;
	pthread_mutex_lock(&lanes->lock);
	TAILQ_CONCAT(&lanes->done, ended, entry);
	pthread_mutex_unlock(&lanes->lock);
	lane_wake_others(lane);
}

static void lane_end(struct xfer_outs *from, struct xfer_out *out, int err, size_t len,
		     struct xfer_outs *ended)
{
	TAILQ_REMOVE(from, out, entry);
	out->err = err;
	out->len = len;
	TAILQ_INSERT_TAIL(ended, out, entry);
}

/* What is to be taken back. A receive that the core has ends in its queue; a send there cannot be had back. */
static void lane_cancel_all(struct lane *lane, struct xfer_outs *ended)
{
	struct xfer_out *out, *next;

	for (out = TAILQ_FIRST(&lane->channel.outq); out; out = next) {
		next = TAILQ_NEXT(out, entry);
		if (out->cancelled)
			lane_end(&lane->channel.outq, out, FI_ECANCELED, 0, ended);
	}
	TAILQ_FOREACH(out, &lane->posted, entry) {
		if (out->cancelled && out->recv)
			fi_cancel(&lane->channel.core->fid, &out->ctx);
	}
}

/* Takes what it was asked for. False: it is to end */
static bool lane_take(struct lane *lane, struct xfer_outs *ended)
{
	bool on;

	pthread_mutex_lock(&lane->lock);
	TAILQ_CONCAT(&lane->channel.outq, &lane->asked, entry);
	on = !lane->stop;
	if (lane->cancels)
		lane_cancel_all(lane, ended);
	lane->cancels = false;
	pthread_mutex_unlock(&lane->lock);
	return on;
}

/*
 * A receive looks for all of its tag but the bit which is ours at the endpoint: for the core of lanes it may be a sign of
 * its own. net takes the highest one for FI_CLAIM. So a short message that was there before its receive would not meet it.
 */
static ssize_t lane_give(struct lane *lane, struct xfer_out *out)
{
	const uint64_t bit = out->recv ? out->ctx.ep->tag_bit : 0;
	void *desc[P2P_IOV_MAX] = {NULL};
	struct p2p_op op = xfer_out_op(out);

	op.msg.desc = desc;
	op.msg.tag &= ~bit;
	op.msg.ignore |= bit;
	return core_call(lane->channel.core, &op);
}

/* The core has no room for it. True: it is given up */
static bool lane_refused(struct lane *lane, struct xfer_out *out, uint64_t now)
{
	if (!out->since)
		out->since = now;
	lane->nap = LANE_FULL;
	return !out->recv &&
	       now - out->since >= (out->aside ? LANE_GIVE_UP_ASIDE : LANE_GIVE_UP);
}

/* Gives the core what it has room for. Who cannot be reached holds up no others. False: nothing */
static bool lane_post(struct lane *lane, struct xfer_outs *ended)
{
	const uint64_t now = clock_coarse_ms();
	struct xfer_blocked blocked = {.count = 0};
	struct xfer_out *out, *next;
	fi_addr_t reached = FI_ADDR_NOTAVAIL;
	bool moved = false, deaf = false;
	ssize_t ret;

	lane->nap = -1;
	for (out = TAILQ_FIRST(&lane->channel.outq); out; out = next) {
		next = TAILQ_NEXT(out, entry);
		if (!out->recv && out->addr == reached)
			out->since = now;
		ret = -FI_EAGAIN;
		if (!(out->recv ? deaf : xfer_blocked_has(&blocked, out->addr)))
			ret = lane_give(lane, out);
		if (ret == -FI_EAGAIN) {
			if (out->recv)
				deaf = true;
			else
				xfer_blocked_add(&blocked, out->addr);
			if (lane_refused(lane, out, now))
				lane_end(&lane->channel.outq, out, FI_ETIMEDOUT, 0, ended);
			continue;
		}
		moved = true;
		if (ret) {
			P2P_INFO("a lane's core provider: %s\n", fi_strerror((int) -ret));
			lane_end(&lane->channel.outq, out, (int) -ret, 0, ended);
			continue;
		}
		if (!out->recv)
			reached = out->addr;
		TAILQ_REMOVE(&lane->channel.outq, out, entry);
		TAILQ_INSERT_TAIL(&lane->posted, out, entry);
	}
	return moved;
}

/* Reads what the core has done. False: nothing */
static bool lane_read(struct lane *lane, struct xfer_outs *ended)
{
	struct fi_cq_tagged_entry entries[LANE_BATCH];
	struct fi_cq_err_entry error = {.err = 0};
	ssize_t ret = fi_cq_read(lane->core.cq, entries, LANE_BATCH);
	struct xfer_out *out;

	for (ssize_t i = 0; i < ret; i++) {
		out = entries[i].op_context;
		/* one that takes several tags tells which one it was */
		if (out->recv)
			out->tag = entries[i].tag;
		lane_end(&lane->posted, out, 0, entries[i].len, ended);
	}
	if (ret == -FI_EAVAIL && fi_cq_readerr(lane->core.cq, &error, 0) == 1) {
		if (error.op_context)
			lane_end(&lane->posted, error.op_context, abs(error.err), error.len,
				 ended);
		return true;
	}
	return ret > 0;
}

/*
 * Sleeps until there is something to do. The core's descriptor counts while the core has something of ours alone:
 * some stay readable.
 *
 * A core over TCP says that a message is sent when the end of it is still in a buffer of its own, as the socket is
 * full. It goes on with that only when it is called. So who has been idle for @idle [ms] looks again after as long.
 */
static void lane_sleep(struct lane *lane, uint64_t idle)
{
	struct fid *fid = &lane->core.cq->fid;
	const bool busy = !TAILQ_EMPTY(&lane->posted);
	const int timeout = busy || lane->nap >= 0 ? lane->nap : (int) P2P_MIN(idle, INT_MAX);
	struct pollfd polled[] = {{.fd = lane->event, .events = POLLIN},
				  {.fd = lane->core.fd, .events = POLLIN}};
	eventfd_t events;

	pthread_mutex_lock(&lane->lock);
	lane->asleep = TAILQ_EMPTY(&lane->asked) && !lane->stop && !lane->cancels;
	pthread_mutex_unlock(&lane->lock);
	if (!lane->asleep)
		return;
	if (!busy || !fi_trywait(lane->core.fabric, &fid, 1))
		poll(polled, busy ? 2 : 1, timeout);
	pthread_mutex_lock(&lane->lock);
	lane->asleep = false;
	pthread_mutex_unlock(&lane->lock);
	if (polled[0].revents & POLLIN)
		eventfd_read(lane->event, &events);
}

static void *lane_run(void *arg)
{
	struct lane *lane = arg;
	struct xfer_outs ended = TAILQ_HEAD_INITIALIZER(ended);
	uint64_t moved_at = clock_ns(), woken = moved_at, now;
	bool moved;

	__atomic_store_n(&lane->times, lane_load_open(), __ATOMIC_RELEASE);
	while (lane_take(lane, &ended)) {
		moved = lane_post(lane, &ended);
		moved |= lane_read(lane, &ended);
		lane_tell(lane, &ended);
		now = clock_ns();
		if (moved) {
			moved_at = woken = now;
		} else if (now - woken < LANE_SPIN * 1000) {
			sched_yield();
		} else {
			lane_sleep(lane, 1 + (now - moved_at) / 1000000);
			woken = clock_ns();
		}
	}
	return NULL;
}

/* ---- one lane ---- */

static int lane_open(struct lane *lane, struct xfer_ep *ep)
{
	int ret;

	lane->channel.ep = ep;
	lane->channel.lane = (int) (lane - ep->lanes->lane);
	TAILQ_INIT(&lane->asked);
	TAILQ_INIT(&lane->channel.outq);
	TAILQ_INIT(&lane->posted);
	pthread_mutex_init(&lane->lock, NULL);
	lane->times = -1;
	lane->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (lane->event < 0)
		return -errno;
	ret = room_spare(ROOM_ENDPOINT);
	if (!ret)
		ret = lane_core_open(&lane->core, ep->lanes->info, &lane->channel.core);
	if (!ret)
		ret = thread_start(&lane->thread, "p2p_lane", lane_run, lane);
	lane->runs = !ret;
	return ret;
}

static void lane_close(struct lane *lane)
{
	if (lane->runs) {
		pthread_mutex_lock(&lane->lock);
		__atomic_store_n(&lane->stop, true, __ATOMIC_RELAXED);
		pthread_mutex_unlock(&lane->lock);
		eventfd_write(lane->event, 1);
		pthread_join(lane->thread, NULL);
	}
	lane_core_close(&lane->core, lane->channel.core);
	if (lane->times >= 0)
		close(lane->times);
	if (lane->event >= 0)
		close(lane->event);
	pthread_mutex_destroy(&lane->lock);
}

/* ---- all of them ---- */

/* As many as FI_P2P_LANES says, or as there are processors for */
static unsigned int lanes_most(void)
{
	return conf.lanes ? (unsigned int) conf.lanes : lane_load_start(LANES_MAX);
}

/* What a lane is opened with, which applications may leave out of infos of their own making */
static bool lanes_known(const struct fi_info *info)
{
	return info->tx_attr && info->rx_attr && info->domain_attr && info->fabric_attr &&
	       info->fabric_attr->prov_name;
}

/* Peers name lanes by addresses; and the core takes staging memory as it is. */
static bool lanes_possible(const struct xfer *xfer, const struct fi_info *info)
{
	const uint32_t format = info->addr_format;

	return lanes_known(info) && lanes_most() > 1 && !xfer->stage.domain &&
	       info->ep_attr->type == FI_EP_RDM &&
	       (format == FI_SOCKADDR || format == FI_SOCKADDR_IN || format == FI_SOCKADDR_IN6);
}

int lanes_init(struct xfer_ep *ep, const struct fi_info *info)
{
	struct lanes *lanes;

	if (!lanes_possible(ep->xfer, info))
		return 0;
	lanes = calloc(1, sizeof *lanes);
	if (lanes)
		lanes->beside = lf.dupinfo(info);
	if (!lanes || !lanes->beside) {
		free(lanes);
		return -FI_ENOMEM;
	}
	lanes->len_min = cost_lanes_min(false);
	TAILQ_INIT(&lanes->done);
	pthread_mutex_init(&lanes->lock, NULL);
	ep->lanes = lanes;
	return 0;
}

static void lanes_shut(struct lanes *lanes)
{
	for (unsigned int i = 0; i < lanes->count; i++)
		lane_close(&lanes->lane[i]);
	memset(lanes->lane, 0, sizeof lanes->lane);
	lanes->count = 0;
	lf.freeinfo(lanes->info);
	lanes->info = NULL;
}

/* All of them, or none. 0 or an error */
static int lanes_begin(struct xfer_ep *ep)
{
	struct lanes *lanes = ep->lanes;
	unsigned int most = lanes_most();
	int ret = 0;

	lanes->len_min = cost_lanes_min(lane_core_dear(lanes->info));
	if (!conf.lanes && lane_core_dear(lanes->info))
		most = P2P_MIN(most, LANES_DEAR);
	while (!ret && lanes->count < most)
		ret = lane_open(&lanes->lane[lanes->count++], ep);
	if (ret) {
		P2P_INFO("a lane does not open: %s\n", fi_strerror(-ret));
		return ret;
	}
	lanes->room = lanes->info->rx_attr->size;
	lanes->load =
		(struct lane_load){.most = most, .use = most, .looked = clock_coarse_ms()};
	P2P_INFO("opened %u lanes over %s for long messages\n", most,
		 lanes->info->fabric_attr->prov_name);
	return 0;
}

unsigned int lanes_open(struct xfer_ep *ep)
{
	struct lanes *lanes = ep->lanes;

	xfer_assert_locked(ep->xfer);
	if (!lanes || lanes->count || !ep->started || ep->closing || !retry_due(&lanes->retry))
		return lanes ? lanes->count : 0;
	lanes->info = lane_core_info(lanes->beside, ep->front.name, ep->front.name_len);
	if (lanes->info && !lanes_begin(ep))
		return lanes->count;
	lanes_shut(lanes);
	/* what they lack may be there later. That is said once. */
	if (!lanes->retry.delay)
		P2P_WARN("no lanes for now. Long messages travel over one connection\n");
	retry_failed(&lanes->retry);
	return 0;
}

uint64_t lanes_kind(const struct xfer_ep *ep)
{
	xfer_assert_locked(ep->xfer);
	return ep->lanes && ep->lanes->info ? lane_core_kind(ep->lanes->info) : 0;
}

size_t lanes_len_min(const struct xfer_ep *ep)
{
	xfer_assert_locked(ep->xfer);
	return ep->lanes ? ep->lanes->len_min : cost_lanes_min(false);
}

unsigned int lanes_use(struct xfer_ep *ep)
{
	const uint64_t now = clock_coarse_ms();
	struct lanes *lanes = ep->lanes;
	uint64_t ran = 0, waited = 0;

	xfer_assert_locked(ep->xfer);
	if (!lanes || !lanes->count || conf.lanes)
		return lanes ? lanes->count : 0;
	if (lane_load_due(&lanes->load, now)) {
		for (unsigned int i = 0; i < lanes->count; i++)
			lane_load_read(__atomic_load_n(&lanes->lane[i].times, __ATOMIC_ACQUIRE),
				       &ran, &waited);
		lane_load_think(&lanes->load, now, ran, waited);
	}
	return lanes->load.use;
}

size_t lanes_names(const struct xfer_ep *ep, unsigned int count, void *names)
{
	uint8_t name[WIRE_NAME_MAX];
	size_t len = 0;

	xfer_assert_locked(ep->xfer);
	for (unsigned int i = 0; i < count; i++) {
		len = sizeof name;
		if (fi_getname(&ep->lanes->lane[i].channel.core->fid, name, &len))
			return 0;
		memcpy((uint8_t *) names + i * len, name, len);
	}
	return len;
}

int lanes_insert(struct xfer_ep *ep, unsigned int index, const void *name, fi_addr_t *addr)
{
	int ret = fi_av_insert(ep->lanes->lane[index].core.av, name, 1, addr, 0, NULL);

	xfer_assert_locked(ep->xfer);
	return ret == 1 ? 0 : ret < 0 ? ret : -FI_EINVAL;
}

bool lanes_keep(struct xfer_ep *ep, unsigned int *held, unsigned int count)
{
	struct lanes *lanes = ep->lanes;
	const size_t kept = lanes ? lanes->kept + count : 0;

	xfer_assert_locked(ep->xfer);
	if (!lanes || kept > lanes->room || (held ? *held + count : kept) > lanes->room - kept)
		return false;
	lanes->kept = kept;
	if (held)
		*held += count;
	return true;
}

void lanes_leave(struct xfer_ep *ep, unsigned int *held, unsigned int count)
{
	xfer_assert_locked(ep->xfer);
	ep->lanes->kept -= count;
	if (held)
		*held -= count;
}

/* So much more, or less, is waited for: who sleeps cannot be woken from threads if the lock is not shared, and looks */
static void lanes_look(struct xfer_ep *ep, int change)
{
	ep->lanes->under_way += change;
	if (!ep->xfer->lock.shared)
		ep->xfer->looks += change;
}

struct xfer_channel *lanes_channel(const struct xfer_ep *ep, uint64_t index)
{
	xfer_assert_locked(ep->xfer);
	return &ep->lanes->lane[index].channel;
}

void lanes_post(struct xfer_out *out)
{
	struct xfer_ep *ep = out->ctx.ep;
	struct lane *lane = container_of(out->via, struct lane, channel);
	bool asleep;

	xfer_assert_locked(ep->xfer);
	out->since = 0;
	if (!out->aside)
		lanes_look(ep, 1);
	pthread_mutex_lock(&lane->lock);
	TAILQ_INSERT_TAIL(&lane->asked, out, entry);
	asleep = lane->asleep;
	pthread_mutex_unlock(&lane->lock);
	if (asleep)
		eventfd_write(lane->event, 1);
}

void lanes_cancel(struct xfer_out *out)
{
	struct lane *lane = container_of(out->via, struct lane, channel);

	xfer_assert_locked(out->ctx.ep->xfer);
	pthread_mutex_lock(&lane->lock);
	out->cancelled = true;
	lane->cancels = true;
	pthread_mutex_unlock(&lane->lock);
	eventfd_write(lane->event, 1);
}

void lanes_forget(struct xfer_out *out)
{
	xfer_assert_locked(out->ctx.ep->xfer);
	if (!out->aside)
		lanes_look(out->ctx.ep, -1);
	out->aside = true;
	lanes_cancel(out);
}

void lanes_progress(struct xfer_ep *ep)
{
	struct xfer_outs done = TAILQ_HEAD_INITIALIZER(done);
	struct lanes *lanes = ep->lanes;
	struct xfer_out *out;

	xfer_assert_locked(ep->xfer);
	if (!lanes)
		return;
	pthread_mutex_lock(&lanes->lock);
	TAILQ_CONCAT(&done, &lanes->done, entry);
	pthread_mutex_unlock(&lanes->lock);
	while ((out = TAILQ_FIRST(&done))) {
		const struct core_comp comp = {
			.context = &out->ctx,
			.err = out->err,
			.len = out->len,
			.src = FI_ADDR_NOTAVAIL,
		};

		TAILQ_REMOVE(&done, out, entry);
		if (!out->aside)
			lanes_look(ep, -1);
		out->ctx.done(&out->ctx, &comp);
	}
}

void lanes_close(struct xfer_ep *ep)
{
	struct lanes *lanes = ep->lanes;

	xfer_assert_locked(ep->xfer);
	if (!lanes)
		return;
	lanes_look(ep, -(int) lanes->under_way);
	lanes_shut(lanes);
}

void lanes_free(struct xfer_ep *ep)
{
	struct lanes *lanes = ep->lanes;

	if (!lanes)
		return;
	pthread_mutex_destroy(&lanes->lock);
	lf.freeinfo(lanes->beside);
	free(lanes);
	ep->lanes = NULL;
}
