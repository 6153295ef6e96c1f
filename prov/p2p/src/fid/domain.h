/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Domains. */
#ifndef P2P_DOMAIN_H
#define P2P_DOMAIN_H

#include <rdma/fi_domain.h>

#include "base/process.h"
#include "xfer/auto.h"
#include "fid/fabric.h"
#include "fid/fid.h"
#include "xfer/xfer.h"

struct fi_alias;
struct p2p_domain;
struct p2p_ep;
struct trigger;

/**
 * struct domain_triggers - what lets operations wait for counters (gpu/trigger.h), where the application has
 * asked for FI_TRIGGER; or, over a hook, where the core offers that, which sockets does unasked. None of it is
 * [locked].
 * @open, @close: make and free what it keeps of a domain (struct p2p_domain.trigger). 0 or -FI_ENOMEM
 * @control:	fi_control(3) of a domain
 * @alias:	fi_ep_alias(3)
 * @cancel:	fi_cancel(3) of what waits, or was deferred. -FI_ENOENT: it is none of these
 * @ep_open:	an endpoint has been opened: takes its operations. 0 or an error
 * @ep_flags:	its own flags have FI_TRIGGER from now on
 * @ep_close:	it is about to be closed: nothing of it waits any more
 */
struct domain_triggers {
	int (*open)(struct p2p_domain *domain);
	void (*close)(struct p2p_domain *domain);
	int (*control)(struct p2p_domain *domain, int command, void *arg);
	int (*alias)(struct p2p_ep *ep, const struct fi_alias *alias);
	ssize_t (*cancel)(struct p2p_ep *ep, void *context);
	int (*ep_open)(struct p2p_ep *ep);
	void (*ep_flags)(struct p2p_ep *ep);
	void (*ep_close)(struct p2p_ep *ep);
};

/**
 * struct p2p_domain - a domain.
 * @core_info:	what @core was opened with. Some cores, as sockets, go on to read what they were given, and applications
 *		free their own: so each object of ours has a copy that ends after the core's
 * @kind:	what differs by whether we have a protocol there
 * @owner:	the process that opened it (base/process.h)
 * @source:	messages tell where they come from (FI_SOURCE)
 * @contexts:	the core writes where operations' contexts are (FI_CONTEXT)
 * @automatic:	the application has asked for progress without its calls
 * @auto_thread: makes that progress
 * @allocated:	registered memory exists (FI_MR_ALLOCATED), and so stays the kind that it is
 * @mr_attr_len: how much of struct fi_mr_attr the application knows [bytes]; 0: all of it
 * @hmem:	it was opened with FI_HMEM
 * @serves_all:	peers ask us for all memory, since the core does not count their accesses
 * @pmem:	regions may be persistent memory (FI_RMA_PMEM), which we serve
 * @virt_addr:	peers tell memory that we serve by the owner's addresses, not by offsets
 * @learned:	one of its address vectors has indices that are not the core's
 * @av_type:	of its address vectors, if it was opened for one
 * @rbuf:	see rbuf.h; NULL: nobody has asked
 * @exports:	uses of it by GPUs
 * @users:	objects of ours that the core does not know of: the domain is closed after them
 * @triggers:	lets operations wait for counters; NULL: the application has not asked for that
 * @trigger:	what @triggers keeps here
 */
struct p2p_domain {
	struct fid_domain fid;
	struct fid_domain *core;
	struct p2p_fabric *fabric;
	bool source;
	bool contexts;
	bool allocated;
	bool serves_all;
	bool pmem;
	bool automatic;
	bool virt_addr;
	struct xfer xfer;
	pid_t owner;
	const struct fid_kind *kind;
	struct auto_thread auto_thread;
	struct fi_info *core_info;
	size_t mr_attr_len;
	bool hmem;
	bool learned;
	enum fi_av_type av_type;
	const struct rbuf_ops *rbuf;
	struct fid_exports exports;
	unsigned int users;
	const struct domain_triggers *triggers;
	struct trigger *trigger;
};

_Static_assert(offsetof(struct p2p_domain, xfer) % P2P_CACHE_LINE == 0,
	       "what a read of a queue looks at is one cache line");

static inline struct p2p_domain *domain_of(struct fid *fid)
{
	return container_of(fid, struct p2p_domain, fid.fid);
}

/*
 * Is all remote memory served by us whatever the core is, since operations wait for counts of accesses?
 * Then it does not matter what the core has.
 */
static inline bool domain_serves_triggers(const struct p2p_domain *domain)
{
	return domain->triggers && domain->serves_all;
}

/* Are atomic operations ours to serve, whether the core has any or not? */
static inline bool domain_serves_atomics(const struct p2p_domain *domain)
{
	return domain->xfer.quirks & QUIRK_ATOMICS || domain_serves_triggers(domain);
}

static inline void domain_hold(struct p2p_domain *domain)
{
	__atomic_fetch_add(&domain->users, 1, __ATOMIC_RELAXED);
}

static inline void domain_release(struct p2p_domain *domain)
{
	__atomic_fetch_sub(&domain->users, 1, __ATOMIC_RELEASE);
}

/* An object with these capabilities is opened: device memory may come from now on. Over a hook nobody asks us for it */
static inline void domain_meet_devices(const struct p2p_domain *domain, uint64_t caps)
{
	if (!(domain->kind->ours & FI_HMEM) || caps & (FI_HMEM | FI_P2P))
		dev_sync();
}

/* Is it, with all that was opened in it, the parent's? Then nothing of that is closed here (base/process.h). */
static inline bool domain_inherited(const struct p2p_domain *domain)
{
	return process_inherited(domain->owner);
}

/**
 * struct domain_plan - what the application's info and the core's decide before the domain is open.
 * @quirks:	what is special about the core provider
 * @why:	why the NIC cannot have device memory; NULL: it can
 * @local:	the core is asked for FI_MR_LOCAL, whatever the application has asked for
 * @key_mark, @keys_ours: who serves which keys (struct xfer)
 */
struct domain_plan {
	const char *why;
	bool local;
	bool keys_ours;
	uint64_t key_mark;
	uint64_t quirks;
};

int domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
		void *context);

#endif /* P2P_DOMAIN_H */
