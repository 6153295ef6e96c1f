/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Wait sets: sleeping until any of several queues and counters may have something.
 *
 * A set is ours alone. The core's objects are opened with a descriptor each, and their wait points
 * use the set's epoll instance in place of one of their own (QUIRK_NESTS). Beside it there is an
 * empty set of the core's. The core refuses to open it where it has no such sets, and it keeps the
 * fabric busy.
 */
#ifndef P2P_WAITSET_H
#define P2P_WAITSET_H

#include <sys/queue.h>
#include <rdma/fi_eq.h>

#include "fid/fabric.h"
#include "base/lock.h"
#include "xfer/wait.h"

struct p2p_waitset;

/**
 * struct waitset_member - an object's place in a set; zeroed: it is in none.
 * @fid:	the object
 */
struct waitset_member {
	struct p2p_waitset *set;
	struct fid *fid;
	LIST_ENTRY(waitset_member) entry;
};

/**
 * struct p2p_waitset - a wait set.
 * @core:	the core's, which stays empty
 * @fd:		an epoll instance with the members' descriptors
 * @lock:	guards @members
 */
struct p2p_waitset {
	struct fid_wait fid;
	struct fid_wait *core;
	struct p2p_fabric *fabric;
	enum fi_wait_obj wait_obj;
	int fd;
	struct p2p_lock lock;
	LIST_HEAD(, waitset_member) members;
};

static inline struct p2p_waitset *waitset_of(struct fid *fid)
{
	return container_of(fid, struct p2p_waitset, fid.fid);
}

int waitset_open(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **set);

/* fi_trywait() of a set */
int waitset_trywait(struct fid *set);

/*
 * Chooses how an object of @fabric waits. If *@wait_obj is FI_WAIT_SET, it becomes what the core is
 * to be asked for, and @set the set; else @set is NULL. 0 or -FI_EINVAL
 */
int waitset_choose(struct p2p_fabric *fabric, enum fi_wait_obj *wait_obj,
		   struct fid_wait *wait_set, struct p2p_waitset **set);

/* The descriptor for wait_open(), if an object is to be in @set; -1: it is in none */
static inline int waitset_fd(const struct p2p_waitset *set)
{
	return set ? set->fd : -1;
}

/* Adds the core object's descriptor @fd for an object without a wait point. 0 or an error */
int waitset_add(const struct p2p_waitset *set, int fd);

/* Makes an object that is complete a member of @set, if that is not NULL */
void waitset_join(struct p2p_waitset *set, struct waitset_member *member, struct fid *fid);

/*
 * These two enclose the close of an object that may be in a set: nobody asks it anything meanwhile.
 * If it is @closed, it leaves the set. Its descriptors have left by being closed.
 */
void waitset_hold(struct waitset_member *member);
void waitset_drop(struct waitset_member *member, bool closed);

/*
 * fi_control() of an object. The set answers what is asked about its wait object, if the object
 * is in one, else the point, if it has one, else the core.
 */
int waitset_control(struct fid *fid, const struct waitset_member *member,
		    const struct wait_point *point, enum fi_wait_obj wait_obj, int command,
		    void *arg);

#endif /* P2P_WAITSET_H */
