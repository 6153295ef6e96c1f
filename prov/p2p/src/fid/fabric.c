/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Fabrics, and what all objects have in common. See fabric.h. */
#include "fid/fabric.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>

#include "fid/av.h"
#include "fid/cntr.h"
#include "fid/cq.h"
#include "fid/domain.h"
#include "fid/ep.h"
#include "fid/eq.h"
#include "base/log.h"
#include "fid/mr.h"
#include "fid/waitset.h"

/* ---- what all objects have in common ---- */

/* Where the pointer to the core's object is, if @fid is ours; else NULL */
static struct fid *fid_behind(struct fid *fid)
{
	switch (fid->fclass) {
	case FI_CLASS_FABRIC:
		return &((struct p2p_fabric *) fid)->core->fid;
	case FI_CLASS_DOMAIN:
		return &((struct p2p_domain *) fid)->core->fid;
	case FI_CLASS_AV:
		return &((struct p2p_av *) fid)->core->fid;
	case FI_CLASS_CQ:
		return &((struct p2p_cq *) fid)->xfer.core->fid;
	case FI_CLASS_CNTR:
		return &((struct p2p_cntr *) fid)->core->fid;
	case FI_CLASS_EP:
	case FI_CLASS_SRX_CTX:
		return &((struct p2p_ep *) fid)->xfer.core->fid;
	case FI_CLASS_PEP:
		return &((struct p2p_pep *) fid)->core->fid;
	case FI_CLASS_EQ:
		return &((struct p2p_eq *) fid)->core->fid;
	case FI_CLASS_MR:
		return &((struct p2p_mr *) fid)->core->fid;
	case FI_CLASS_WAIT:
		return &((struct p2p_waitset *) fid)->core->fid;
	default:
		return NULL;
	}
}

struct fid *fid_core(struct fid *fid)
{
	struct fid *core;

	/* every table of ours has this entry */
	if (!fid || !fid->ops || fid->ops->ops_open != fid_ops_open)
		return fid;
	core = fid_behind(fid);
	return core ? core : fid;
}

struct fid_pair {
	struct fid *core;
	struct fid *user;
	UT_hash_handle hh;
};

static struct fid_pair *fid_pairs;
static pthread_mutex_t fid_pairs_lock = PTHREAD_MUTEX_INITIALIZER;

int fid_pair_add(struct fid *core, struct fid *user)
{
	struct fid_pair *pair = calloc(1, sizeof *pair);
	bool added;

	if (!pair)
		return -FI_ENOMEM;
	pair->core = core;
	pair->user = user;
	pthread_mutex_lock(&fid_pairs_lock);
	HASH_ADD_PTR(fid_pairs, core, pair);
	added = pair->hh.tbl;
	pthread_mutex_unlock(&fid_pairs_lock);
	if (!added)
		free(pair);
	return added ? 0 : -FI_ENOMEM;
}

void fid_pair_remove(struct fid *core)
{
	struct fid_pair *pair;

	pthread_mutex_lock(&fid_pairs_lock);
	HASH_FIND_PTR(fid_pairs, &core, pair);
	if (pair)
		HASH_DEL(fid_pairs, pair);
	pthread_mutex_unlock(&fid_pairs_lock);
	free(pair);
}

struct fid *fid_user(struct fid *core)
{
	struct fid *user = core;
	struct fid_pair *pair;

	pthread_mutex_lock(&fid_pairs_lock);
	HASH_FIND_PTR(fid_pairs, &core, pair);
	if (pair)
		user = pair->user;
	pthread_mutex_unlock(&fid_pairs_lock);
	return user;
}

int fid_control(struct fid *fid, int command, void *arg)
{
	struct fid *core = fid_core(fid);

	/* work that is queued names objects of ours all over */
	if (command == FI_ALIAS || command == FI_QUEUE_WORK)
		return -FI_ENOSYS;
	return core->ops->control(core, command, arg);
}

/*
 * Some operations that providers of one stack share among themselves take endpoints as
 * arguments; handed through, they would be called with ours.
 */
int fid_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
	struct fid *core = fid_core(fid);

	if (!name || !ops)
		return -FI_EINVAL;
	if (fid->fclass == FI_CLASS_EP && !strcmp(name, FI_P2P_STATS_OPS))
		return ep_stats_ops_open((struct p2p_ep *) fid, ops);
	if (core == fid || !strncmp(name, "ofix_", 5))
		return -FI_ENOSYS;
	return fi_open_ops(core, name, flags, ops, context);
}

int fid_no_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	return -FI_ENOSYS;
}

int fid_close_core(struct fid *core)
{
	struct fid *user = fid_user(core);
	int ret;

	/* beforehand: afterwards the address may be another object's */
	fid_pair_remove(core);
	ret = fi_close(core);
	if (ret && user != core)
		fid_pair_add(core, user);
	return ret;
}

int fid_close(struct fid *fid)
{
	int ret = fid_close_core(fid_core(fid));

	if (!ret)
		free(fid);
	return ret;
}

/* ---- fabrics ---- */

static int fabric_trywait(struct fid_fabric *fid, struct fid **fids, int count)
{
	struct p2p_fabric *fabric = (struct p2p_fabric *) fid;
	struct fid *core;
	int ret = 0;

	for (int i = 0; !ret && i < count; i++) {
		core = fid_core(fids[i]);
		if (core != fids[i] && core->fclass == FI_CLASS_CQ)
			ret = cq_trywait(fids[i]);
		else if (core != fids[i] && core->fclass == FI_CLASS_CNTR)
			ret = cntr_trywait(fids[i]);
		else if (core != fids[i] && core->fclass == FI_CLASS_WAIT)
			ret = waitset_trywait(fids[i]);
		else
			ret = fi_trywait(fabric->core, &core, 1);
	}
	return ret;
}

static struct fi_ops fabric_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = fid_close,
	.bind = fid_no_bind,
	.control = fid_control,
	.ops_open = fid_ops_open,
};

static struct fi_ops_fabric fabric_ops = {
	.size = offsetof(struct fi_ops_fabric, domain2),
	.domain = domain_open,
	.passive_ep = pep_open,
	.eq_open = eq_open,
	.wait_open = waitset_open,
	.trywait = fabric_trywait,
};

int fabric_open(struct fid_fabric *core, bool layered, void *context,
		struct fid_fabric **fabric_fid)
{
	struct p2p_fabric *fabric = calloc(1, sizeof *fabric);

	if (!fabric)
		return -FI_ENOMEM;
	fabric->core = core;
	fabric->layered = layered;
	fabric->fid.fid.fclass = FI_CLASS_FABRIC;
	fabric->fid.fid.context = context;
	fabric->fid.fid.ops = &fabric_fid_ops;
	fabric->fid.ops = &fabric_ops;
	fabric->fid.api_version = core->api_version;
	/* a hook comes after the open: events name the core's fabric by its context */
	core->fid.context = fabric;
	*fabric_fid = &fabric->fid;
	return 0;
}
