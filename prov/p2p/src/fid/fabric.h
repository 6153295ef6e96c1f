/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Fabrics; and which object of the core's is behind one of ours. */
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

/* The core's object behind @fid if that is ours, else @fid itself */
struct fid *fid_core(struct fid *fid);

/*
 * The way back, for objects that events tell of. Any value may be asked for: applications
 * write events of their own. Pairs are taken out by fid_close_core(). All may be called from
 * any thread. 0 or -FI_ENOMEM
 */
int fid_pair_add(struct fid *core, struct fid *user);
void fid_pair_remove(struct fid *core);
struct fid *fid_user(struct fid *core);

/* The common half of every object's operations: handed to the core's object */
int fid_control(struct fid *fid, int command, void *arg);
int fid_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context);
int fid_no_bind(struct fid *fid, struct fid *bfid, uint64_t flags);

/* fi_close() of a core's object; and, if that went well, freeing of ours */
int fid_close_core(struct fid *core);
int fid_close(struct fid *fid);

#endif /* P2P_FABRIC_H */
