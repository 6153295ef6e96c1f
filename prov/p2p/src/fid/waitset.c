/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Wait sets. See waitset.h. */
#include "fid/waitset.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include "fid/fid.h"
#include "base/log.h"

/* ---- members ---- */

int waitset_choose(struct p2p_fabric *fabric, enum fi_wait_obj *wait_obj,
		   struct fid_wait *wait_set, struct p2p_waitset **set_out)
{
	struct p2p_waitset *set = wait_set ? waitset_of(&wait_set->fid) : NULL;

	*set_out = NULL;
	if (*wait_obj != FI_WAIT_SET)
		return 0;
	if (!set || set->fid.fid.fclass != FI_CLASS_WAIT || !fid_class(&set->fid.fid) ||
	    set->fabric != fabric) {
		P2P_WARN("FI_WAIT_SET without a wait set of this fabric\n");
		return -FI_EINVAL;
	}
	*wait_obj = FI_WAIT_FD;
	*set_out = set;
	return 0;
}

int waitset_add(const struct p2p_waitset *set, int fd)
{
	struct epoll_event event = {.events = EPOLLIN};
	int ret;

	if (!epoll_ctl(set->fd, EPOLL_CTL_ADD, fd, &event))
		return 0;
	ret = -errno;
	P2P_WARN("epoll_ctl: %s\n", fi_strerror(-ret));
	return ret;
}

void waitset_join(struct p2p_waitset *set, struct waitset_member *member, struct fid *fid)
{
	if (!set)
		return;
	p2p_lock_take(&set->lock);
	member->set = set;
	member->fid = fid;
	LIST_INSERT_HEAD(&set->members, member, entry);
	p2p_lock_drop(&set->lock);
}

void waitset_hold(struct waitset_member *member)
{
	if (member->set)
		p2p_lock_take(&member->set->lock);
}

void waitset_drop(struct waitset_member *member, bool closed)
{
	if (!member->set)
		return;
	if (closed)
		LIST_REMOVE(member, entry);
	p2p_lock_drop(&member->set->lock);
}

int waitset_control(struct fid *fid, const struct waitset_member *member,
		    const struct wait_point *point, enum fi_wait_obj wait_obj, int command,
		    void *arg)
{
	if (command != FI_GETWAIT && command != FI_GETWAITOBJ)
		return fid_control(fid, command, arg);
	if (member->set)
		return fi_control(&member->set->fid.fid, command, arg);
	return point ? wait_control(point->fd, wait_obj, command, arg)
		     : fid_control(fid, command, arg);
}

/* ---- waiting ---- */

int waitset_trywait(struct fid *fid)
{
	struct p2p_waitset *set = waitset_of(fid);
	struct waitset_member *member;
	int ret = 0;

	p2p_lock_take(&set->lock);
	LIST_FOREACH(member, &set->members, entry) {
		ret = fi_trywait(&set->fabric->fid, &member->fid, 1);
		if (ret)
			break;
	}
	p2p_lock_drop(&set->lock);
	return ret;
}

static int waitset_wait(struct fid_wait *fid, int timeout)
{
	struct p2p_waitset *set = waitset_of(&fid->fid);
	struct pollfd polled = {.fd = set->fd, .events = POLLIN};
	int ret = waitset_trywait(&fid->fid);

	if (ret)
		return ret == -FI_EAGAIN ? 0 : ret;
	ret = poll(&polled, 1, timeout);
	if (ret < 0)
		return -errno;
	return ret ? 0 : -FI_ETIMEDOUT;
}

/* ---- open and close ---- */

static int waitset_fid_control(struct fid *fid, int command, void *arg)
{
	struct p2p_waitset *set = waitset_of(fid);

	return wait_control(set->fd, set->wait_obj, command, arg);
}

static int waitset_close(struct fid *fid)
{
	struct p2p_waitset *set = waitset_of(fid);
	bool used;
	int ret;

	if (fabric_inherited(set->fabric))
		return 0;
	p2p_lock_take(&set->lock);
	used = !LIST_EMPTY(&set->members);
	p2p_lock_drop(&set->lock);
	if (used)
		return -FI_EBUSY;
	ret = fi_close(&set->core->fid);
	if (ret)
		return ret;
	close(set->fd);
	p2p_lock_fini(&set->lock);
	free(set);
	return 0;
}

static struct fid_class waitset_class = {
	.ops = FID_OPS(.close = waitset_close, .bind = fid_no_bind,
		       .control = waitset_fid_control),
	.core = offsetof(struct p2p_waitset, core),
	.trywait = waitset_trywait,
};

static struct fi_ops_wait waitset_ops = {
	.size = sizeof(struct fi_ops_wait),
	.wait = waitset_wait,
};

int waitset_open(struct fid_fabric *fabric_fid, struct fi_wait_attr *attr,
		 struct fid_wait **set_fid)
{
	struct fid_fabric *core = fabric_of(&fabric_fid->fid)->core;
	struct p2p_waitset *set;
	int ret;

	if (!attr || !set_fid)
		return -FI_EINVAL;
	set = calloc(1, sizeof *set);
	if (!set)
		return -FI_ENOMEM;
	set->fabric = fabric_of(&fabric_fid->fid);
	/* not fi_wait_open(), which newer headers call deprecated */
	ret = core->ops->wait_open(core, attr, &set->core);
	if (ret)
		goto free_set;
	set->fd = epoll_create1(EPOLL_CLOEXEC);
	if (set->fd < 0) {
		ret = -errno;
		P2P_WARN("epoll_create1: %s\n", fi_strerror(-ret));
		goto close_core;
	}
	set->wait_obj = attr->wait_obj;
	p2p_lock_init(&set->lock, true);
	LIST_INIT(&set->members);
	set->fid.fid.fclass = FI_CLASS_WAIT;
	set->fid.fid.ops = &waitset_class.ops;
	set->fid.ops = &waitset_ops;
	*set_fid = &set->fid;
	return 0;

close_core:
	fi_close(&set->core->fid);
free_set:
	free(set);
	return ret;
}
