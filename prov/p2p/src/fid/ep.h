/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Endpoints. */
#ifndef P2P_EP_H
#define P2P_EP_H

#include <rdma/fi_endpoint.h>
#include <rdma/fi_trigger.h>

#include "fid/av.h"
#include "fid/cq.h"
#include "fid/domain.h"
#include "fid/fid.h"
#include "xfer/xfer.h"

struct native_ctx;
struct p2p_op;

/**
 * struct p2p_ep - an endpoint, a scalable endpoint, a context of one, or a shared receive context.
 * @xfer:	the part that transfers work on; @xfer.front.core is the core's endpoint
 * @side_info:	what to open a side channel with, if it may have one; @side_av: the peers' names there
 * @core_info:	what the core's endpoint was opened with: see domain.h
 * @tx_flags:	what sends without flags do; with FI_COMPLETION if the queue is not selective
 * @caps:	what it was opened with
 * @directed:	a receive may be for one peer only (FI_DIRECTED_RECV); else its address means nothing
 * @notices:	its writes with remote cq data take a receive at the other end (FI_RX_CQ_DATA)
 * @shares_rx:	a shared receive context is bound
 * @contexts:	of a scalable endpoint. It is closed after them
 * @sep:	the scalable endpoint that it is a context of, or NULL
 * @own:	queues that replace those that the application has not bound
 * @binds:	flags to bind the core's endpoint to its queues with, until it is (ep_bind_core())
 * @hmem_p2p:	FI_OPT_FI_HMEM_P2P
 * @exports:	uses of it by GPUs
 * @submit:	posts an operation: ep_submit(), or what begins those that wait for counters
 * @native:	what it was opened for (fid/native.h), or NULL
 * @of:		the endpoint that this is an alias of (gpu/trigger_ep.h), or itself; @aliases: how many it has
 * @tx_all, @rx_all: every operation completes: the queue is not selective
 */
struct p2p_ep {
	struct fid_ep fid;
	struct p2p_av *av;
	struct xfer_ep xfer;
	struct p2p_domain *domain;
	struct fi_info *side_info;
	struct p2p_av *side_av;
	struct fi_info *core_info;
	uint64_t tx_flags;
	uint64_t caps;
	bool directed;
	bool notices;
	bool shares_rx;
	LIST_HEAD(, p2p_ep) contexts;
	struct p2p_ep *sep;
	LIST_ENTRY(p2p_ep) sibling;
	struct xfer_cq own[2];
	uint64_t binds[2];
	int hmem_p2p;
	bool tx_all;
	bool rx_all;
	struct fid_exports exports;
	ssize_t (*submit)(struct p2p_ep *ep, struct p2p_op *op);
	struct native_ctx *native;
	struct p2p_ep *of;
	unsigned int aliases;
	struct fid_pair pair;
};

_Static_assert(offsetof(struct p2p_ep, xfer.front.core) / P2P_CACHE_LINE ==
		       offsetof(struct p2p_ep, xfer.tally) / P2P_CACHE_LINE,
	       "what decides about a message is one cache line");
_Static_assert(offsetof(struct p2p_ep, xfer.stats) % P2P_CACHE_LINE == 0,
	       "what counts it is another");

/* Finds our endpoint by libfabric's object. */
static inline struct p2p_ep *ep_of(struct fid *fid)
{
	return container_of(fid, struct p2p_ep, fid.fid);
}

/* The same, or the endpoint that this is an alias of: for all that an alias has not for itself */
static inline struct p2p_ep *ep_itself(struct fid *fid)
{
	return ep_of(fid)->of;
}

/* Returns the flags of receives that have none of their own. An endpoint's may be meant for both kinds */
static inline uint64_t ep_rx_flags(const struct p2p_ep *ep, enum fi_op_type type)
{
	return type == FI_OP_TRECV ? ep->xfer.rx_flags & ~FI_MULTI_RECV : ep->xfer.rx_flags;
}

/* Is it an object of ours by which operations are posted? */
static inline bool ep_posts(const struct fid *fid)
{
	return fid_class(fid) &&
	       (fid->fclass == FI_CLASS_EP || fid->fclass == FI_CLASS_TX_CTX ||
		fid->fclass == FI_CLASS_RX_CTX || fid->fclass == FI_CLASS_SRX_CTX);
}

int ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);
int ep_open2(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep,
	     uint64_t flags, void *context);
int ep_open_sep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep,
		void *context);
int ep_open_srx(struct fid_domain *domain, struct fi_rx_attr *attr, struct fid_ep **ep,
		void *context);

#endif /* P2P_EP_H */
