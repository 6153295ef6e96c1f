/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The proxy: a thread for each GPU, that does what its kernels and streams ask for.
 *
 * It looks at its sources in turn: while there is something to do, again and again. If there was
 * nothing for FI_P2P_PROXY_SPIN_US, it sleeps: for moments if a kernel may ask at any time, which
 * wakes nobody, and otherwise until proxy_release().
 *
 * It runs on the processors of FI_P2P_PROXY_CPUS, or else on those beside the GPU.
 */
#ifndef P2P_PROXY_H
#define P2P_PROXY_H

#include <stdbool.h>
#include <sys/queue.h>

#include "fid/domain.h"
#include "gpu/gpu_mem.h"

struct proxy;

/**
 * struct proxy_source - what a proxy looks at.
 * @look:	does what there is to do, without waiting for anything. True: there was something
 * @kernels:	kernels may ask for something at any time
 */
struct proxy_source {
	bool (*look)(struct proxy_source *source);
	bool kernels;
	LIST_ENTRY(proxy_source) entry;
};

/* The proxy of a device, started if it does not run yet. 0 or a negative error, logged */
int proxy_get(const struct gpu_dev *dev, struct proxy **proxy);
void proxy_put(struct proxy *proxy);

/* After proxy_remove() the proxy does not look at it any more. Not for use in @look */
void proxy_add(struct proxy *proxy, struct proxy_source *source);
void proxy_remove(struct proxy *proxy, struct proxy_source *source);

/*
 * May a proxy call for the domain's application? 0 or -FI_EOPNOTSUPP, logged: the proxy calls at any
 * time, beside other threads
 */
int proxy_may_serve(struct p2p_domain *domain);

/* While it is held, the proxy looks at nothing. It looks once it is released. */
void proxy_hold(struct proxy *proxy);
void proxy_release(struct proxy *proxy);

#endif /* P2P_PROXY_H */
