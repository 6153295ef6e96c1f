/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Wait sets: sleeping until any of several queues and counters may have something.
 *
 * A set is ours alone. The core's objects are opened with a descriptor each, and their wait points
 * use the set's epoll instance in place of one of their own (QUIRK_NESTS). Beside it there is an
 * empty set of the core's: whether that can be opened tells which sets there are, and it keeps the
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
 * @core:	the core's, see above
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
 * An object of @fabric is to be opened with *@wait_obj: if that is FI_WAIT_SET, @set becomes the
 * set, and *@wait_obj what the core is to be asked for. 0 or -FI_EINVAL
 */
int waitset_choose(struct p2p_fabric *fabric, enum fi_wait_obj *wait_obj,
		   struct fid_wait *wait_set, struct p2p_waitset **set);

/* Where the wait point of such an object is to be, see wait_open() */
static inline int waitset_fd(const struct p2p_waitset *set)
{
	return set ? set->fd : -1;
}

/* The same for an object without one, whose core object has the descriptor @fd. 0 or an error */
int waitset_add(const struct p2p_waitset *set, int fd);

/* Makes an object that is complete a member of @set; NULL: nothing happens */
void waitset_join(struct p2p_waitset *set, struct waitset_member *member, struct fid *fid);

/*
 * Around the close of an object that may be in a set: nobody asks it anything meanwhile. If it
 * is @closed, it leaves the set; its descriptors do so by being closed.
 */
void waitset_hold(struct waitset_member *member);
void waitset_drop(struct waitset_member *member, bool closed);

/*
 * fi_control() of an object that may be in a set, whose wait object is then its, or has a
 * point, or neither: then the core answers.
 */
int waitset_control(struct fid *fid, const struct waitset_member *member,
		    const struct wait_point *point, enum fi_wait_obj wait_obj, int command,
		    void *arg);

#endif /* P2P_WAITSET_H */
