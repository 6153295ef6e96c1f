/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The proxy. See proxy.h. */
#include "gpu/proxy.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <rdma/fi_errno.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/libfabric.h"
#include "base/log.h"
#include "base/process.h"
#include "base/thread.h"
#include "gpu/cpus.h"
#include "mem/ipc.h"

/* How long it sleeps at a time while kernels may ask for something [ns] */
#define PROXY_DOZE 50000

/* So many looks in vain pass between two looks at the clock */
#define PROXY_VAIN 64

/**
 * struct proxy - the thread of a device.
 * @lock:	held while it looks, and by who changes the sources
 * @waiting:	how many want @lock: the thread lets them have it
 * @wake:	what it sleeps on
 * @woken:	there is something to do
 * @users:	contexts; PROCESS_PROXIES guards it
 */
struct proxy {
	const struct dev_ops *ops;
	uint64_t number;
	pthread_t thread;
	pthread_mutex_t lock;
	unsigned int waiting;
	pthread_cond_t wake;
	bool woken;
	bool stop;
	LIST_HEAD(, proxy_source) sources;
	unsigned int users;
	LIST_ENTRY(proxy) entry;
};

static LIST_HEAD(, proxy) proxies;

/* ---- the thread ---- */

static bool proxy_look(struct proxy *proxy)
{
	struct proxy_source *source;
	bool moved = false;

	LIST_FOREACH(source, &proxy->sources, entry)
		moved |= source->look(source);
	return moved;
}

static bool proxy_has_kernels(const struct proxy *proxy)
{
	const struct proxy_source *source;

	LIST_FOREACH(source, &proxy->sources, entry) {
		if (source->kernels)
			return true;
	}
	return false;
}

/* Sleeps, unless somebody has woken it. The lock is held, and free meanwhile. */
static void proxy_sleep(struct proxy *proxy)
{
	struct timespec end;

	if (!proxy_has_kernels(proxy)) {
		while (!proxy->woken && !proxy->stop)
			pthread_cond_wait(&proxy->wake, &proxy->lock);
	} else if (!proxy->woken) {
		clock_gettime(CLOCK_MONOTONIC, &end);
		end.tv_nsec += PROXY_DOZE;
		end.tv_sec += end.tv_nsec / 1000000000;
		end.tv_nsec %= 1000000000;
		pthread_cond_timedwait(&proxy->wake, &proxy->lock, &end);
	}
	proxy->woken = false;
}

static void *proxy_run(void *arg)
{
	struct proxy *proxy = arg;
	const uint64_t spin = conf.proxy_spin_us * UINT64_C(1000);
	uint64_t since = 0;
	unsigned int vain = 0;

	/* a doze is not to last twice as long */
	prctl(PR_SET_TIMERSLACK, 1000UL);
	pthread_mutex_lock(&proxy->lock);
	while (!proxy->stop) {
		if (proxy_look(proxy) || proxy->woken) {
			proxy->woken = false;
			vain = 0;
		} else if (!vain++) {
			since = clock_ns();
		} else if (vain % PROXY_VAIN == 0 && clock_ns() - since >= spin) {
			proxy_sleep(proxy);
		}
		if (__atomic_load_n(&proxy->waiting, __ATOMIC_ACQUIRE) || cpus_few()) {
			pthread_mutex_unlock(&proxy->lock);
			sched_yield();
			pthread_mutex_lock(&proxy->lock);
		}
	}
	pthread_mutex_unlock(&proxy->lock);
	return NULL;
}

/* ---- what others call ---- */

void proxy_hold(struct proxy *proxy)
{
	__atomic_fetch_add(&proxy->waiting, 1, __ATOMIC_ACQ_REL);
	pthread_mutex_lock(&proxy->lock);
	__atomic_fetch_sub(&proxy->waiting, 1, __ATOMIC_ACQ_REL);
}

void proxy_release(struct proxy *proxy)
{
	proxy->woken = true;
	pthread_cond_signal(&proxy->wake);
	pthread_mutex_unlock(&proxy->lock);
}

void proxy_add(struct proxy *proxy, struct proxy_source *source)
{
	proxy_hold(proxy);
	LIST_INSERT_HEAD(&proxy->sources, source, entry);
	proxy_release(proxy);
}

void proxy_remove(struct proxy *proxy, struct proxy_source *source)
{
	proxy_hold(proxy);
	LIST_REMOVE(source, entry);
	proxy_release(proxy);
}

int proxy_may_serve(struct p2p_domain *domain)
{
	if (!(domain->kind->ours & LF_XPU)) {
		P2P_WARN("GPUs start operations on endpoints of ofi_p2p only, of the type "
			 "FI_EP_RDM\n");
		return -FI_EOPNOTSUPP;
	}
	if (!domain->xfer.lock.shared) {
		P2P_WARN(
			"GPUs start operations by a thread of this provider: open the domain with "
			"FI_THREAD_SAFE\n");
		return -FI_EOPNOTSUPP;
	}
	p2p_lock_take(&domain->xfer.lock);
	xfer_serialise(&domain->xfer);
	p2p_lock_drop(&domain->xfer.lock);
	return 0;
}

static int proxy_start(const struct gpu_dev *dev, struct proxy **started)
{
	struct proxy *proxy = calloc(1, sizeof *proxy);
	pthread_condattr_t attr;
	int ret;

	if (!proxy)
		return -FI_ENOMEM;
	proxy->ops = dev->mem.ops;
	proxy->number = dev->number;
	pthread_mutex_init(&proxy->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&proxy->wake, &attr);
	pthread_condattr_destroy(&attr);
	ret = thread_start(&proxy->thread, "p2p_proxy", proxy_run, proxy);
	if (ret) {
		free(proxy);
		return ret;
	}
	cpus_place(proxy->thread, dev);
	*started = proxy;
	return 0;
}

/* A child has no such threads. */
static void proxy_forget(void)
{
	LIST_INIT(&proxies);
}

/* Streams and kernels that wait for messages do not go together with kernels that are loaded meanwhile */
static void proxy_warn_late(const struct gpu_dev *dev)
{
	static bool said;
	/* threads of the host that play the kernels' part load nothing */
	const char *remedy = dev->mem.ops ? dev->mem.ops->loads_late() : NULL;

	if (remedy && !__atomic_exchange_n(&said, true, __ATOMIC_RELAXED))
		P2P_WARN(
			"the GPU loads kernels at their first launch. Behind a kernel or a stream "
			"that waits for a message the launch may never return: load them before, "
			"or set %s\n",
			remedy);
}

int proxy_get(const struct gpu_dev *dev, struct proxy **found)
{
	struct proxy *proxy;
	int ret = 0;

	process_forget(proxy_forget);
	process_lock(PROCESS_PROXIES);
	LIST_FOREACH(proxy, &proxies, entry) {
		if (proxy->ops == dev->mem.ops && proxy->number == dev->number)
			break;
	}
	if (!proxy) {
		proxy_warn_late(dev);
		ret = proxy_start(dev, &proxy);
		if (!ret)
			LIST_INSERT_HEAD(&proxies, proxy, entry);
	}
	if (!ret) {
		proxy->users++;
		*found = proxy;
		ipc_kernels_wait();
	}
	process_unlock(PROCESS_PROXIES);
	return ret;
}

void proxy_put(struct proxy *proxy)
{
	bool last;

	process_lock(PROCESS_PROXIES);
	last = !--proxy->users;
	if (last)
		LIST_REMOVE(proxy, entry);
	process_unlock(PROCESS_PROXIES);
	if (!last)
		return;
	proxy_hold(proxy);
	proxy->stop = true;
	proxy_release(proxy);
	pthread_join(proxy->thread, NULL);
	pthread_cond_destroy(&proxy->wake);
	pthread_mutex_destroy(&proxy->lock);
	free(proxy);
}
