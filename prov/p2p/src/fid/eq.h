/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Event queues. */
#ifndef P2P_EQ_H
#define P2P_EQ_H

#include <rdma/fi_eq.h>

#include "fid/fabric.h"
#include "fid/waitset.h"

/**
 * struct p2p_eq - an event queue.
 * @fabric:	whose it is
 * @member:	its place in a wait set
 */
struct p2p_eq {
	struct fid_eq fid;
	struct fid_eq *core;
	const struct p2p_fabric *fabric;
	struct waitset_member member;
};

static inline struct p2p_eq *eq_of(struct fid *fid)
{
	return container_of(fid, struct p2p_eq, fid.fid);
}

int eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
	    void *context);

#endif /* P2P_EQ_H */
