/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Poll sets. See pollset.h. */
#include "fid/pollset.h"

#include <stdlib.h>
#include <rdma/fi_errno.h>

#include "fid/fid.h"
#include "base/log.h"
#include "base/process.h"

/* All sets that there are. Who needs a set's lock, too, takes this one first. */
static LIST_HEAD(, p2p_pollset) pollset_all = LIST_HEAD_INITIALIZER(pollset_all);

/* The list may be half changed. What a child has inherited is not used there */
static void pollset_begin_anew(void)
{
	LIST_INIT(&pollset_all);
}

static struct pollset_entry *pollset_find(struct p2p_pollset *set, const struct fid *fid)
{
	struct pollset_entry *entry;

	LIST_FOREACH(entry, &set->entries, entry) {
		if (entry->fid == fid)
			return entry;
	}
	return NULL;
}

static int pollset_add(struct fid_poll *fid, struct fid *object, uint64_t flags)
{
	struct p2p_pollset *set = pollset_of(&fid->fid);
	struct pollset_entry *entry;

	if (!object || flags ||
	    (object->fclass != FI_CLASS_CQ && object->fclass != FI_CLASS_CNTR)) {
		P2P_WARN("a poll set takes completion queues and counters, without flags\n");
		return -FI_EINVAL;
	}
	entry = calloc(1, sizeof *entry);
	if (!entry)
		return -FI_ENOMEM;
	entry->fid = object;
	p2p_lock_take(&set->lock);
	/* a second time changes nothing */
	if (pollset_find(set, object))
		free(entry);
	else
		LIST_INSERT_HEAD(&set->entries, entry, entry);
	p2p_lock_drop(&set->lock);
	return 0;
}

static bool pollset_remove(struct p2p_pollset *set, const struct fid *object)
{
	struct pollset_entry *entry;

	p2p_lock_take(&set->lock);
	entry = pollset_find(set, object);
	if (entry)
		LIST_REMOVE(entry, entry);
	p2p_lock_drop(&set->lock);
	free(entry);
	return entry;
}

static int pollset_del(struct fid_poll *fid, struct fid *object, uint64_t flags)
{
	return pollset_remove(pollset_of(&fid->fid), object) ? 0 : -FI_EINVAL;
}

void pollset_forget(const struct fid *fid)
{
	struct p2p_pollset *set;

	process_lock(PROCESS_POLLSETS);
	LIST_FOREACH(set, &pollset_all, entry)
		pollset_remove(set, fid);
	process_unlock(PROCESS_POLLSETS);
}

/* Has an object something? 1, 0 or an error */
static int pollset_check(struct pollset_entry *entry)
{
	uint64_t value, errors;
	struct fid_cntr *cntr;
	ssize_t ret;

	if (entry->fid->fclass == FI_CLASS_CQ) {
		ret = fi_cq_read((struct fid_cq *) entry->fid, NULL, 0);
		if (ret == -FI_EAGAIN)
			return 0;
		return ret < 0 && ret != -FI_EAVAIL ? (int) ret : 1;
	}
	cntr = (struct fid_cntr *) entry->fid;
	value = fi_cntr_read(cntr);
	errors = fi_cntr_readerr(cntr);
	if (value == entry->value && errors == entry->errors)
		return 0;
	entry->value = value;
	entry->errors = errors;
	return 1;
}

static int pollset_poll(struct fid_poll *fid, void **context, int count)
{
	struct p2p_pollset *set = pollset_of(&fid->fid);
	struct pollset_entry *entry;
	int ret, found = 0, err = 0;

	p2p_lock_take(&set->lock);
	LIST_FOREACH(entry, &set->entries, entry) {
		/* the rest is found once the application has read what comes before */
		if (found == count)
			break;
		ret = pollset_check(entry);
		if (ret > 0)
			context[found++] = entry->fid->context;
		else if (ret)
			err = ret;
	}
	p2p_lock_drop(&set->lock);
	return found ? found : err;
}

static int pollset_close(struct fid *fid)
{
	struct p2p_pollset *set = pollset_of(fid);
	struct pollset_entry *entry;

	if (domain_inherited(set->domain))
		return 0;
	process_lock(PROCESS_POLLSETS);
	LIST_REMOVE(set, entry);
	process_unlock(PROCESS_POLLSETS);
	while ((entry = LIST_FIRST(&set->entries))) {
		LIST_REMOVE(entry, entry);
		free(entry);
	}
	p2p_lock_fini(&set->lock);
	domain_release(set->domain);
	free(set);
	return 0;
}

static struct fid_class pollset_class = {
	.ops = FID_OPS(.close = pollset_close, .bind = fid_no_bind, .control = fid_no_control),
};

static struct fi_ops_poll pollset_ops = {
	.size = sizeof(struct fi_ops_poll),
	.poll = pollset_poll,
	.poll_add = pollset_add,
	.poll_del = pollset_del,
};

int pollset_open(struct fid_domain *domain_fid, struct fi_poll_attr *attr,
		 struct fid_poll **pollset_fid)
{
	struct p2p_domain *domain = domain_of(&domain_fid->fid);
	struct p2p_pollset *set;

	if (!pollset_fid || (attr && attr->flags))
		return -FI_EINVAL;
	set = calloc(1, sizeof *set);
	if (!set)
		return -FI_ENOMEM;
	p2p_lock_init(&set->lock, true); /* other domains' threads look through all sets */
	LIST_INIT(&set->entries);
	set->domain = domain;
	domain_hold(domain);
	process_forget(pollset_begin_anew);
	process_lock(PROCESS_POLLSETS);
	LIST_INSERT_HEAD(&pollset_all, set, entry);
	process_unlock(PROCESS_POLLSETS);
	set->fid.fid.fclass = FI_CLASS_POLL;
	set->fid.fid.ops = &pollset_class.ops;
	set->fid.ops = &pollset_ops;
	*pollset_fid = &set->fid;
	return 0;
}
