/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Event queues, passive endpoints and connections. */
#ifndef P2P_EQ_H
#define P2P_EQ_H

#include <rdma/fi_cm.h>
#include <rdma/fi_eq.h>

#include "fid/fabric.h"
#include "fid/waitset.h"

/* @member: of the wait set that it is in */
struct p2p_eq {
	struct fid_eq fid;
	struct fid_eq *core;
	struct waitset_member member;
};

static inline struct p2p_eq *eq_of(struct fid *fid)
{
	return container_of(fid, struct p2p_eq, fid.fid);
}

/* @info: what it was opened with; NULL with the hook, which leaves infos as they are */
struct p2p_pep {
	struct fid_pep fid;
	struct fid_pep *core;
	struct fi_info *info;
};

static inline struct p2p_pep *pep_of(struct fid *fid)
{
	return container_of(fid, struct p2p_pep, fid.fid);
}

int eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
	    void *context);
int pep_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
	     void *context);

/* The calls of an endpoint, active or passive: handed to the core's */
extern struct fi_ops_cm cm_ops;

#endif /* P2P_EQ_H */
