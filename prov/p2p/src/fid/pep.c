/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Passive endpoints. See pep.h. */
#include "fid/pep.h"

#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>

#include "fid/cm.h"
#include "fid/fabric.h"
#include "fid/fid.h"
#include "fid/table.h"
#include "base/libfabric.h"

static int pep_getopt(fid_t fid, int level, int name, void *value, size_t *len)
{
	return fi_getopt(fid_core(fid), level, name, value, len);
}

static int pep_setopt(fid_t fid, int level, int name, const void *value, size_t len)
{
	return fi_setopt(fid_core(fid), level, name, value, len);
}

static int pep_close(struct fid *fid)
{
	const struct p2p_pep pep = *pep_of(fid);
	int ret;

	if (fabric_inherited(pep.fabric))
		return 0;
	ret = fid_close(fid);
	if (ret)
		return ret;
	lf.freeinfo(pep.info);
	lf.freeinfo(pep.core_info);
	return 0;
}

static struct fid_class pep_class = {
	.ops = FID_OPS(.close = pep_close, .bind = fid_bind, .control = fid_control),
	.core = offsetof(struct p2p_pep, core),
};

static union table_ep pep_table = {
	.ops =
		{
			.getopt = pep_getopt,
			.setopt = pep_setopt,
		},
};

static __attribute__((constructor)) void pep_complete_table(void)
{
	table_complete(pep_table.entry, LF_EP_EXPORT_XPU, NULL);
}

int pep_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep_fid,
	     void *context)
{
	const struct fid_kind *kind = fabric_of(&fabric->fid)->kind;
	struct p2p_pep *pep;
	int ret = -FI_ENOMEM;

	if (!info)
		return -FI_EINVAL;
	pep = calloc(1, sizeof *pep);
	if (!pep)
		return -FI_ENOMEM;
	pep->core_info = libfabric_copy_info(info);
	if (pep->core_info)
		ret = kind->to_core ? kind->to_core(pep->core_info) : 0;
	/* the core's infos of connection requests are to be turned into such as this one */
	if (!ret && info->fabric_attr && info->fabric_attr->prov_name &&
	    strcmp(info->fabric_attr->prov_name, pep->core_info->fabric_attr->prov_name))
		pep->info = libfabric_copy_info(info);
	if (!ret)
		ret = fi_passive_ep(fabric_of(&fabric->fid)->core, pep->core_info, &pep->core,
				    pep);
	if (ret) {
		lf.freeinfo(pep->info);
		lf.freeinfo(pep->core_info);
		free(pep);
		return ret;
	}
	fid_pair_add(&pep->pair, &pep->core->fid, &pep->fid.fid);
	pep->fid.fid.fclass = FI_CLASS_PEP;
	pep->fid.fid.context = context;
	pep->fid.fid.ops = &pep_class.ops;
	pep->fid.ops = &pep_table.ops;
	pep->fid.cm = &cm_ops;
	pep->fabric = fabric_of(&fabric->fid);
	*pep_fid = &pep->fid;
	return 0;
}
