/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The simulated core provider's counters. The provider above counts itself, but for what wakes those who sleep on its
 * counters (wait.h). See core.h.
 */
#include "core.h"
#include "fiber.h"
#include "gate.h"

#include "base/base.h"

struct core_cntr {
	struct fid_cntr fid;
	struct core_domain *domain;
	bool waits;
	uint64_t value, errors;
};

static struct core_cntr *cntr_of(struct fid_cntr *fid)
{
	return container_of(fid, struct core_cntr, fid);
}

static int cntr_close(struct fid *fid)
{
	struct core_cntr *cntr = container_of(fid, struct core_cntr, fid.fid);
	const struct core_ep *ep;

	core_asked();
	TAILQ_FOREACH(ep, &core_eps, link) {
		for (size_t k = 0; k < SIM_COUNT(ep->cntrs); k++) {
			if (ep->alive && ep->cntrs[k] == cntr)
				world_fail("n%u: a counter is closed before its endpoint",
					   cntr->domain->node);
		}
	}
	cntr->domain->open--;
	free(cntr);
	return 0;
}

static uint64_t cntr_read(struct fid_cntr *fid)
{
	core_call_begin(cntr_of(fid)->domain, CALL_READS);
	core_wire_progress(cntr_of(fid)->domain);
	core_call_end(cntr_of(fid)->domain);
	return cntr_of(fid)->value;
}

static uint64_t cntr_readerr(struct fid_cntr *fid)
{
	return cntr_of(fid)->errors;
}

static int cntr_add(struct fid_cntr *fid, uint64_t value)
{
	cntr_of(fid)->value += value;
	world.moved = true;
	return 0;
}

static int kind_index(uint64_t kind)
{
	return kind & FI_SEND ? 0 : kind & FI_RECV ? 1 : kind & FI_READ ? 2 : 3;
}

void core_count(struct core_ep *ep, uint64_t kind, int err)
{
	struct core_cntr *cntr = ep->cntrs[kind_index(kind)];

	if (!cntr)
		return;
	cntr->value += !err;
	cntr->errors += err != 0;
}

void core_cntr_bind(struct core_ep *ep, struct fid *fid, uint64_t flags)
{
	static const uint64_t kinds[] = {FI_SEND, FI_RECV, FI_READ, FI_WRITE};

	if (ep->model->uncounting)
		world_fail("n%u: the core crashes when it counts", ep->name.node);
	for (size_t k = 0; k < SIM_COUNT(kinds); k++) {
		if (flags & kinds[k])
			ep->cntrs[kind_index(kinds[k])] =
				container_of(fid, struct core_cntr, fid.fid);
	}
}

/* ---- sleeping ---- */

struct counted {
	const struct core_cntr *cntr;
	uint64_t threshold, errors;
};

static bool cntr_has_ep(const struct core_ep *ep, const void *cntr)
{
	for (size_t k = 0; k < SIM_COUNT(ep->cntrs); k++) {
		if (ep->cntrs[k] == cntr)
			return true;
	}
	return false;
}

static bool cntr_ready(const void *what)
{
	const struct counted *counted = what;

	return counted->cntr->value >= counted->threshold ||
	       counted->cntr->errors != counted->errors ||
	       core_wire_pends(counted->cntr->domain, cntr_has_ep, counted->cntr);
}

static int cntr_wait(struct fid_cntr *fid, uint64_t threshold, int timeout)
{
	struct core_cntr *cntr = cntr_of(fid);
	const struct counted counted = {cntr, threshold, cntr->errors};
	const uint64_t until = gate_until(timeout);

	if (!cntr->waits)
		return -FI_ENOSYS;
	do {
		if (cntr_read(fid) >= threshold)
			return 0;
		if (cntr->errors != counted.errors)
			return -FI_EAVAIL;
	} while (fiber_wait(cntr_ready, &counted, until));
	return -FI_ETIMEDOUT;
}

/* ---- open ---- */

static int cntr_set(struct fid_cntr *fid, uint64_t value)
{
	cntr_of(fid)->value = value;
	return 0;
}

static int cntr_seterr(struct fid_cntr *fid, uint64_t value)
{
	cntr_of(fid)->errors = value;
	return 0;
}

static struct fi_ops cntr_fi_ops = {.size = sizeof cntr_fi_ops, .close = cntr_close};
static struct fi_ops_cntr cntr_ops = {.size = sizeof cntr_ops,
				      .read = cntr_read,
				      .readerr = cntr_readerr,
				      .add = cntr_add,
				      .set = cntr_set,
				      .seterr = cntr_seterr,
				      .wait = cntr_wait};

int core_cntr_open(struct fid_domain *fid, struct fi_cntr_attr *attr, struct fid_cntr **to,
		   void *context)
{
	struct core_domain *domain = container_of(fid, struct core_domain, fid);
	struct core_cntr *cntr;

	if (attr->wait_obj == FI_WAIT_FD && !domain->model->waits)
		return -FI_ENOSYS;
	cntr = calloc(1, sizeof *cntr);
	cntr->domain = domain;
	cntr->domain->open++;
	cntr->waits = attr->wait_obj != FI_WAIT_NONE;
	cntr->fid = (struct fid_cntr){.fid = {.fclass = FI_CLASS_CNTR,
					      .context = context,
					      .ops = &cntr_fi_ops},
				      .ops = &cntr_ops};
	*to = &cntr->fid;
	return 0;
}
