/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Endpoints' aliases (fi_ep_alias(3)): the same endpoint, with other flags for calls without flags. So such
 * calls may wait for counters, too. And which object of ours is behind a pointer of the application's.
 */
#ifndef P2P_TRIGGER_ALIAS_H
#define P2P_TRIGGER_ALIAS_H

#include "fid/cntr.h"
#include "fid/ep.h"

/**
 * struct trigger_alias - an alias.
 * @ep:		what libfabric's calls see. It is never opened: it has the flags that calls without any have here, and
 *		hands on what is posted; no call is the core's at once
 * @of:		the endpoint
 * @entry:	on the domain's list of aliases
 */
struct trigger_alias {
	struct p2p_ep ep;
	struct p2p_ep *of;
	LIST_ENTRY(trigger_alias) entry;
};

/* An alias that is not listed yet. NULL: no memory */
struct trigger_alias *trigger_alias_new(struct p2p_ep *ep, uint64_t flags);

/* Is this endpoint of ours an alias? It is not what ep_of() wants, then */
bool trigger_is_alias(struct fid_ep *fid);

/* Which endpoint of ours this is, or is an alias of */
struct p2p_ep *trigger_ep_of(struct fid_ep *fid);

#define TRIGGER_NO_CNTR "a counter is missing, or not of its domain"

/* The endpoint, or the counter, of that domain that this is; NULL: it is none */
struct p2p_ep *trigger_ep(const struct p2p_domain *domain, struct fid_ep *fid);
struct p2p_cntr *trigger_cntr(const struct p2p_domain *domain, struct fid_cntr *fid);

#endif /* P2P_TRIGGER_ALIAS_H */
