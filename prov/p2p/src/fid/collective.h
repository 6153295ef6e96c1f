/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The calls of fi_collective(3): the core's own, for host memory. The application gets the core's
 * address sets and groups as they are.
 */
#ifndef P2P_COLLECTIVE_H
#define P2P_COLLECTIVE_H

#include <rdma/fi_collective.h>

extern struct fi_ops_collective collective_ops;

/* The calls of other objects: fi_query_collective(), fi_av_set() and fi_join() */
int collective_query(struct fid_domain *domain, enum fi_collective_op collective,
		     struct fi_collective_attr *attr, uint64_t flags);
int collective_av_set(struct fid_av *av, struct fi_av_set_attr *attr,
		      struct fid_av_set **av_set, void *context);
int collective_join(struct fid_ep *ep, const void *addr, uint64_t flags, struct fid_mc **mc,
		    void *context);

#endif /* P2P_COLLECTIVE_H */
