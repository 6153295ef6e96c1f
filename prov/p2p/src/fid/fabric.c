/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Fabrics. See fabric.h. */
#include "fid/fabric.h"

#include <stdlib.h>
#include <rdma/fi_errno.h>

#include "fid/domain.h"
#include "fid/eq.h"
#include "fid/fid.h"
#include "fid/pep.h"
#include "fid/waitset.h"

static int fabric_trywait(struct fid_fabric *fid, struct fid **fids, int count)
{
	struct p2p_fabric *fabric = fabric_of(&fid->fid);
	const struct fid_class *class;
	struct fid *core;
	int ret = 0;

	for (int i = 0; !ret && i < count; i++) {
		class = fid_class(fids[i]);
		core = fid_core(fids[i]);
		ret = class && class->trywait ? class->trywait(fids[i])
					      : fi_trywait(fabric->core, &core, 1);
	}
	return ret;
}

static int fabric_close(struct fid *fid)
{
	return fabric_inherited(fabric_of(fid)) ? 0 : fid_close(fid);
}

static struct fid_class fabric_class = {
	.ops = FID_OPS(.close = fabric_close, .bind = fid_no_bind, .control = fid_control),
	.core = offsetof(struct p2p_fabric, core),
};

static struct fi_ops_fabric fabric_ops = {
	.size = offsetof(struct fi_ops_fabric, domain2),
	.domain = domain_open,
	.passive_ep = pep_open,
	.eq_open = eq_open,
	.wait_open = waitset_open,
	.trywait = fabric_trywait,
};

int fabric_open(struct fid_fabric *core, const struct fid_kind *kind,
		const struct domain_triggers *triggers, void *context,
		struct fid_fabric **fabric_fid)
{
	struct p2p_fabric *fabric = calloc(1, sizeof *fabric);

	if (!fabric)
		return -FI_ENOMEM;
	fabric->core = core;
	fabric->kind = kind;
	fabric->owner = getpid();
	fabric->triggers = triggers;
	fabric->fid.fid.fclass = FI_CLASS_FABRIC;
	fabric->fid.fid.context = context;
	fabric->fid.fid.ops = &fabric_class.ops;
	fabric->fid.ops = &fabric_ops;
	fabric->fid.api_version = core->api_version;
	/* a hook comes after the open, and events name the fabric by this context */
	core->fid.context = fabric;
	fid_pair_add(&fabric->pair, &core->fid, &fabric->fid.fid);
	*fabric_fid = &fabric->fid;
	return 0;
}
