/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Rank 5: fabrics; and which object of the core's is behind one of ours. */
#ifndef P2P_FABRIC_H
#define P2P_FABRIC_H

#include <stdbool.h>
#include <rdma/fabric.h>

/**
 * struct p2p_fabric - a fabric.
 * @core:	the core provider's
 * @layered:	opened as ofi_p2p; else it is a hook around a fabric of another provider
 */
struct p2p_fabric {
	struct fid_fabric fid;
	struct fid_fabric *core;
	bool layered;
};

/*
 * Wraps @core, which it then owns and closes with itself. 0 or -FI_ENOMEM.
 */
int fabric_open(struct fid_fabric *core, bool layered, void *context,
		struct fid_fabric **fabric);

/*
 * The core's object behind @fid if that is ours, else @fid itself. Objects of ours open
 * their core with themselves as the context, so fid_user() is the way back.
 */
struct fid *fid_core(struct fid *fid);
struct fid *fid_user(struct fid *core);

/* The common half of every object's operations: handed to the core's object */
int fid_control(struct fid *fid, int command, void *arg);
int fid_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops,
		 void *context);
int fid_no_bind(struct fid *fid, struct fid *bfid, uint64_t flags);

/* Closes the core's object and, if that went well, frees ours */
int fid_close(struct fid *fid);

#endif /* P2P_FABRIC_H */
