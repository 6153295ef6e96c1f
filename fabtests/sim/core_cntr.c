/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The simulated core provider's counters: nothing is bound to one, as the provider above counts itself. See core.h. */
#include "core.h"

#include "base/base.h"

struct core_cntr {
	struct fid_cntr fid;
	struct core_domain *domain;
	uint64_t value, errors;
};

static struct core_cntr *cntr_of(struct fid_cntr *fid)
{
	return container_of(fid, struct core_cntr, fid);
}

static int cntr_close(struct fid *fid)
{
	struct core_cntr *cntr = container_of(fid, struct core_cntr, fid.fid);

	cntr->domain->open--;
	free(cntr);
	return 0;
}

static uint64_t cntr_read(struct fid_cntr *fid)
{
	core_wire_progress(cntr_of(fid)->domain);
	return cntr_of(fid)->value;
}

static uint64_t cntr_readerr(struct fid_cntr *fid)
{
	return cntr_of(fid)->errors;
}

static struct fi_ops cntr_fi_ops = {.size = sizeof cntr_fi_ops, .close = cntr_close};
static struct fi_ops_cntr cntr_ops = {.size = sizeof cntr_ops,
				      .read = cntr_read,
				      .readerr = cntr_readerr};

int core_cntr_open(struct fid_domain *fid, struct fi_cntr_attr *attr, struct fid_cntr **to,
		   void *context)
{
	struct core_cntr *cntr = calloc(1, sizeof *cntr);

	cntr->domain = container_of(fid, struct core_domain, fid);
	cntr->domain->open++;
	cntr->fid = (struct fid_cntr){.fid = {.fclass = FI_CLASS_CNTR,
					      .context = context,
					      .ops = &cntr_fi_ops},
				      .ops = &cntr_ops};
	*to = &cntr->fid;
	return 0;
}
