/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Counters. */
#ifndef P2P_CNTR_H
#define P2P_CNTR_H

#include "fid/domain.h"
#include "fid/fid.h"
#include "fid/waitset.h"

struct native_ctx;
struct trigger_work;

TAILQ_HEAD(trigger_works, trigger_work);

/**
 * struct p2p_cntr - a counter. Its value is the sum of two:
 * @core:	the core's counter counts what only the core knows of, such as peers' accesses
 *		to host memory
 * @xfer:	we count the rest, once the data is where it should be. The core would count
 *		markers, pieces and messages that are still to be copied
 * @waits:	fi_cntr_wait() is allowed by what it was opened with
 * @wait_obj:	what the application asked for
 * @point:	where to sleep, if @xfer.point points there
 * @member:	of the wait set that it is in
 * @by_core:	@core is bound to something
 * @exports:	uses of it by GPUs
 * @native:	what it was opened for (fid/native.h), or NULL
 * @refs:	bindings to endpoints, and operations that wait for it or count for it; the domain's lock
 *		guards it, and
 * @works:	the operations that wait for it, by threshold; if there are any, it is on a list of theirs (gpu/trigger_list.h)
 * @turns:	how often fi_cntr_set(3) did not raise it, and @base: struct cntr_ends, from the last time
 * @forgiven:	errors that fi_cntr_seterr(3) has taken away
 */
struct p2p_cntr {
	struct fid_cntr fid;
	struct fid_cntr *core;
	struct xfer_cntr xfer;
	struct p2p_domain *domain;
	bool waits;
	enum fi_wait_obj wait_obj;
	struct wait_point point;
	struct waitset_member member;
	bool by_core;
	struct fid_exports exports;
	struct native_ctx *native;
	unsigned int refs;
	struct trigger_works works;
	LIST_ENTRY(p2p_cntr) awaited;
	uint64_t turns;
	uint64_t base;
	uint64_t forgiven;
};

/**
 * struct cntr_ends - how many operations have ended for a counter, as who uses them up one after the other counts.
 * @count:	good or bad ones; errors that are cleared stay among them
 * @turns:	changes if the application begins anew: it has not raised the counter by fi_cntr_set(3)
 * @base:	what @count was then
 */
struct cntr_ends {
	uint64_t count;
	uint64_t turns;
	uint64_t base;
};

static inline struct p2p_cntr *cntr_of(struct fid *fid)
{
	return container_of(fid, struct p2p_cntr, fid.fid);
}

/* What was counted so far, without progress */
uint64_t cntr_value(const struct p2p_cntr *cntr);
uint64_t cntr_errors(const struct p2p_cntr *cntr);
/* How far it has come: what it has counted, good or bad */
uint64_t cntr_reached(const struct p2p_cntr *cntr);
struct cntr_ends cntr_ends(const struct p2p_cntr *cntr);

int cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
	      void *context);

/* fi_trywait() of a counter */
int cntr_trywait(struct fid *cntr);

/* fi_ep_bind() of a counter. @by_core: the kinds that the core's counter is to count */
int cntr_bind_ep(struct p2p_cntr *cntr, struct xfer_ep *ep, uint64_t flags, uint64_t by_core);

/* The endpoint is closed: its counters may be, too. */
void cntr_release_ep(struct xfer_ep *ep);

#endif /* P2P_CNTR_H */
