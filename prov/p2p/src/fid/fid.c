/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What all objects have in common. See fid.h. */
#include "fid/fid.h"

#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>

#include "base/base.h"
#include "base/log.h"
#include "base/process.h"

bool (*fid_more_ops)(struct fid *fid, const char *name, void **ops);

/* ---- the core's object behind one of ours ---- */

const struct fid_class *fid_class(const struct fid *fid)
{
	if (!fid || !fid->ops || fid->ops->ops_open != fid_ops_open)
		return NULL;
	return container_of(fid->ops, struct fid_class, ops);
}

struct fid *fid_core(struct fid *fid)
{
	const struct fid_class *class = fid_class(fid);
	struct fid *core = NULL;

	/* the pointer is to a struct fid_domain, fid_cq …: all of them begin with a struct fid */
	if (class && class->core)
		memcpy(&core, (const char *) fid + class->core, sizeof core);
	return core ? core : fid;
}

/* ---- our object around one of the core's ---- */

/* In chains, by the core's object */
#define FID_CHAINS 1024

static LIST_HEAD(, fid_pair) fid_pairs[FID_CHAINS];

static unsigned int fid_chain(const struct fid *core)
{
	return (uintptr_t) core / 64 % FID_CHAINS;
}

/* Called with the lock held */
static struct fid_pair *fid_pair_find(const struct fid *core)
{
	struct fid_pair *pair;

	LIST_FOREACH(pair, &fid_pairs[fid_chain(core)], entry) {
		if (pair->core == core)
			return pair;
	}
	return NULL;
}

void fid_pair_add(struct fid_pair *pair, struct fid *core, struct fid *user)
{
	pair->core = core;
	pair->user = user;
	process_lock(PROCESS_TABLES);
	LIST_INSERT_HEAD(&fid_pairs[fid_chain(core)], pair, entry);
	process_unlock(PROCESS_TABLES);
}

struct fid_pair *fid_pair_remove(struct fid *core)
{
	struct fid_pair *pair;

	process_lock(PROCESS_TABLES);
	pair = fid_pair_find(core);
	if (pair)
		LIST_REMOVE(pair, entry);
	process_unlock(PROCESS_TABLES);
	return pair;
}

struct fid *fid_user(struct fid *core)
{
	struct fid_pair *pair;

	process_lock(PROCESS_TABLES);
	pair = fid_pair_find(core);
	process_unlock(PROCESS_TABLES);
	return pair ? pair->user : core;
}

/* ---- uses by GPUs ---- */

void fid_export_add(struct fid_exports *exports, struct fid_export *export)
{
	process_lock(PROCESS_TABLES);
	LIST_INSERT_HEAD(exports, export, entry);
	process_unlock(PROCESS_TABLES);
}

void fid_export_remove(struct fid_export *export)
{
	process_lock(PROCESS_TABLES);
	LIST_REMOVE(export, entry);
	process_unlock(PROCESS_TABLES);
}

struct fid_export *fid_export_find(const struct fid_exports *exports,
				   void (*end)(struct fid_export *export))
{
	struct fid_export *export;

	process_lock(PROCESS_TABLES);
	LIST_FOREACH(export, exports, entry) {
		if (export->end == end)
			break;
	}
	process_unlock(PROCESS_TABLES);
	return export;
}

void fid_exports_end(struct fid_exports *exports)
{
	while (!LIST_EMPTY(exports))
		LIST_FIRST(exports)->end(LIST_FIRST(exports));
}

/* ---- entries of struct fi_ops ---- */

int fid_control(struct fid *fid, int command, void *arg)
{
	struct fid *core = fid_core(fid);

	/* queued work names objects of ours all over */
	if (command == FI_ALIAS || command == FI_QUEUE_WORK)
		return -FI_ENOSYS;
	return core->ops->control(core, command, arg);
}

/*
 * The operations named ofix_… are those that providers of one stack share. They take endpoints as
 * arguments: handed through, they would be called with ours.
 */
int fid_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
	const struct fid_class *class = fid_class(fid);
	struct fid *core = fid_core(fid);

	if (!name || !ops)
		return -FI_EINVAL;
	if ((class->own_ops && class->own_ops(fid, name, ops)) ||
	    (fid_more_ops && fid_more_ops(fid, name, ops)))
		return 0;
	if (core == fid || !strncmp(name, "ofix_", 5))
		return -FI_ENOSYS;
	return fi_open_ops(core, name, flags, ops, context);
}

int fid_refuse_trigger(void)
{
	P2P_WARN(
		"FI_TRIGGER: operations wait for counters only in domains that were opened with it\n");
	return -FI_ENOSYS;
}

int fid_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct fid *core = fid_core(fid);

	return core->ops->bind(core, fid_core(bfid), flags);
}

int fid_no_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	return -FI_ENOSYS;
}

int fid_no_control(struct fid *fid, int command, void *arg)
{
	return -FI_ENOSYS;
}

int fid_close_core(struct fid *core)
{
	/* before the close: another object may have the address afterwards */
	struct fid_pair *pair = fid_pair_remove(core);
	int ret = fi_close(core);

	if (ret && pair)
		fid_pair_add(pair, core, pair->user);
	return ret;
}

int fid_close(struct fid *fid)
{
	int ret = fid_close_core(fid_core(fid));

	if (!ret)
		free(fid);
	return ret;
}
