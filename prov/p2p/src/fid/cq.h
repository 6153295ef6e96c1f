/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Completion queues. */
#ifndef P2P_CQ_H
#define P2P_CQ_H

#include <rdma/fi_eq.h>

#include "fid/av.h"
#include "fid/domain.h"
#include "fid/fid.h"
#include "fid/table.h"
#include "fid/waitset.h"

struct native_ctx;

/**
 * struct p2p_cq - a completion queue.
 * @vain:	reads that have found nothing, modulo 256
 * @xfer:	the part that transfers report to
 * @av:		the vector of the endpoints bound to it: tells where messages come from
 * @many_avs:	endpoints with other vectors are bound to it, too, or were
 * @wait_obj:	what the application asked for
 * @format:	the application's format; the core's has tags if the core has them
 * @table:	the functions that suit its format
 * @point:	where to sleep, if @xfer.point points there
 * @member:	of the wait set that it is in
 * @signalled:	fi_cq_signal() was called, and no waiting read has returned for it yet
 * @exports:	uses of it by GPUs
 * @native:	what it was opened for (fid/native.h), or NULL
 * @err_data:	what the last error pointed to; lives until the next error is read
 */
struct p2p_cq {
	struct fid_cq fid;
	uint8_t vain;
	struct xfer_cq xfer;
	struct p2p_domain *domain;
	struct p2p_av *av;
	bool many_avs;
	enum fi_wait_obj wait_obj;
	enum fi_cq_format format;
	union table_cq table;
	struct wait_point point;
	struct waitset_member member;
	bool signalled;
	struct fid_exports exports;
	struct native_ctx *native;
	void *err_data;
};

_Static_assert(offsetof(struct p2p_cq, xfer.count) < P2P_CACHE_LINE,
	       "what a read looks at is one cache line");

/* Finds our queue by libfabric's object. */
static inline struct p2p_cq *cq_of(struct fid *fid)
{
	return container_of(fid, struct p2p_cq, fid.fid);
}

/*
 * Where a message comes from, as the application knows it. An entry does not tell which endpoint,
 * and so which vector, it is for. Of several vectors none can be meant once one has other indices
 * than the core.
 */
static inline fi_addr_t cq_user_addr(const struct p2p_cq *cq, fi_addr_t addr)
{
	if (p2p_unlikely(cq->many_avs) && cq->domain->learned)
		return FI_ADDR_NOTAVAIL;
	return av_user_addr(cq->av, addr);
}

int cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
	    void *context);

/*
 * Opens a core queue for transfers, with @attr. If somebody is to sleep on it, the application
 * (@sleeps) or our thread, it has a descriptor if the core has one. 0 or the core's error
 */
int cq_open_core(struct p2p_domain *domain, struct fi_cq_attr *attr, bool sleeps,
		 struct xfer_cq *cq, void *context);

/* An endpoint bound to the queue has @av, or NULL. The queue may be read after @av is closed. */
void cq_set_av(struct p2p_cq *cq, struct p2p_av *av);

/* An endpoint with FI_SOURCE uses it, though the domain was opened without */
void cq_tell_sources(struct p2p_cq *cq);

/* fi_trywait() of a queue */
int cq_trywait(struct fid *cq);

#endif /* P2P_CQ_H */
