/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Kinds of fabrics and domains: whether we have a protocol there. ofi_p2p has one for reliable datagram endpoints. Behind
 * its others, and behind a hook, the core carries messages whole, and peers need not know of us.
 */
#ifndef P2P_KIND_H
#define P2P_KIND_H

#include <stdbool.h>
#include <rdma/fi_domain.h>

struct domain_plan;
struct p2p_domain;
struct p2p_ep;
struct xfer_protos;

/**
 * struct fid_kind - what differs. Where an entry is NULL, nothing is to be done.
 * @protos:	the protocols of transfers
 * @plain:	the kind of domains there whose endpoints are no reliable datagram endpoints
 * @ours:	flags and capabilities that are ours to keep or to refuse: the core is not asked for them. It has all
 *		others as they are, and judges them
 * @quirks:	those of the core that matter
 * @classes:	scalable endpoints and shared contexts that are offered: a bit for each class
 * @no_wait:	wait objects of counters that are not waited for, unless works may wait for any: a bit for each
 * @early:	works may be asked for: all operations are followed up, and not from the first work on only
 * @to_core:	turns a copy of the application's info into what the core's object is opened with. 0 or an error
 * @plan:	completes the plan of a domain (fid/domain.h), and what the core is asked for
 * @ep_plan:	takes what an endpoint needs of the core's info. @format: what the application says of tags. 0 or an
 *		error
 * @ep_start:	the core's endpoint has been enabled. 0 or an error
 * @lacks_cq:	an endpoint that is enabled has no queue for operations of @kinds, of which some are @counted: 1: one
 *		of ours takes its place; 0: it needs none; or -FI_ENOCQ or -FI_ENOAV
 */
struct fid_kind {
	const struct xfer_protos *protos;
	const struct fid_kind *plain;
	uint64_t ours;
	uint64_t quirks;
	uint32_t classes;
	uint32_t no_wait;
	bool early;
	int (*to_core)(struct fi_info *info);
	void (*plan)(struct p2p_domain *domain, const struct fi_info *info,
		     struct fi_info *core_info, struct domain_plan *plan);
	int (*ep_plan)(struct p2p_ep *ep, const struct fi_info *core, uint64_t format);
	int (*ep_start)(struct p2p_ep *ep);
	int (*lacks_cq)(const struct p2p_ep *ep, uint64_t kinds, bool counted);
};

/* A fabric of ofi_p2p, and one that a hook is around */
extern const struct fid_kind kind_p2p;
extern const struct fid_kind kind_hook;

/* Are objects of the class @fclass, a scalable endpoint's or a shared context's, offered? 0 or -FI_ENOSYS (logged) */
int kind_offers(const struct fid_kind *kind, size_t fclass);

#endif /* P2P_KIND_H */
