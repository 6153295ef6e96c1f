/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Rank 5: completion queues. */
#ifndef P2P_CQ_H
#define P2P_CQ_H

#include <rdma/fi_eq.h>

#include "domain.h"

/**
 * struct p2p_cq - a completion queue.
 * @xfer:	the part that transfers report to
 * @format:	the application's format; the core's has tags if the core has them
 * @av:		of the endpoints bound to it, for the addresses that messages come from
 * @wait_obj:	what the application asked for
 * @point:	where to sleep, if @xfer.point points there
 * @signalled:	fi_cq_signal() was called, and no waiting read has come back for it
 * @err_data:	what the last error pointed to; lives until the next read
 */
struct p2p_cq {
	struct fid_cq fid;
	enum fi_cq_format format;
	struct xfer_cq xfer;
	struct p2p_domain *domain;
	struct p2p_av *av;
	enum fi_wait_obj wait_obj;
	struct wait_point point;
	bool signalled;
	void *err_data;
};

_Static_assert(offsetof(struct p2p_cq, xfer.count) < P2P_CACHE_LINE,
	       "what a read looks at is one cache line");

int cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq,
	    void *context);

/*
 * A core queue for transfers: @attr for the core, with @sleeps: with a descriptor, if the
 * core has one. 0 or the core's error.
 */
int cq_open_core(struct p2p_domain *domain, struct fi_cq_attr *attr, bool sleeps,
		 struct xfer_cq *cq, void *context);

/* fi_trywait() of a queue */
int cq_trywait(struct fid *cq);

#endif /* P2P_CQ_H */
