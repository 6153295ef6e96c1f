/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Domains. */
#ifndef P2P_DOMAIN_H
#define P2P_DOMAIN_H

#include <rdma/fi_domain.h>

#include "xfer/auto.h"
#include "fid/fabric.h"
#include "fid/fid.h"
#include "xfer/xfer.h"

/**
 * struct p2p_domain - a domain.
 * @layered:	peers of its endpoints run ofi_p2p, too: it is no hook's, and its endpoints are
 *		reliable datagram endpoints
 * @source:	messages tell where they come from (FI_SOURCE)
 * @automatic:	the application has asked for progress without its calls
 * @auto_thread: makes that progress
 * @allocated:	registered memory exists (FI_MR_ALLOCATED), and so stays the kind that it is
 * @serves_all:	peers ask us for all memory, since the core does not count their accesses
 * @learned:	one of its address vectors has indices that are not the core's
 * @quirks:	what is special about the core provider (path/quirks.h)
 * @rbuf:	see rbuf.h; NULL: nobody has asked
 * @exports:	uses of it by GPUs
 * @users:	objects of ours that the core does not know of: the domain is closed after them
 */
struct p2p_domain {
	struct fid_domain fid;
	struct fid_domain *core;
	struct p2p_fabric *fabric;
	bool layered;
	bool source;
	bool allocated;
	bool serves_all;
	bool automatic;
	struct xfer xfer;
	struct auto_thread auto_thread;
	bool learned;
	unsigned int quirks;
	const struct rbuf_ops *rbuf;
	struct fid_exports exports;
	unsigned int users;
};

_Static_assert(offsetof(struct p2p_domain, xfer) % P2P_CACHE_LINE == 0,
	       "what a read of a queue looks at is one cache line");

static inline struct p2p_domain *domain_of(struct fid *fid)
{
	return container_of(fid, struct p2p_domain, fid.fid);
}

static inline void domain_hold(struct p2p_domain *domain)
{
	__atomic_fetch_add(&domain->users, 1, __ATOMIC_RELAXED);
}

static inline void domain_release(struct p2p_domain *domain)
{
	__atomic_fetch_sub(&domain->users, 1, __ATOMIC_RELEASE);
}

int domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
		void *context);

#endif /* P2P_DOMAIN_H */
