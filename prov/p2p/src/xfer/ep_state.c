/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Endpoints that are open. See ep_state.h. */
#include "xfer/ep_state.h"

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "base/trace.h"
#include "mem/mem.h"

void xfer_apart_update(struct xfer *xfer)
{
	const struct xfer_cq *first = LIST_FIRST(&xfer->cqs);
	const struct xfer_ep *ep;
	bool listens = false, apart;

	LIST_FOREACH(ep, &xfer->eps, entry)
		listens |= ep->front.inbox.open || ep->side.inbox.open;
	apart = listens && first && LIST_NEXT(first, entry);
	/* who sleeps did not reckon with it */
	if (apart && !xfer->apart)
		wait_wake_all(&xfer->wait);
	__atomic_store_n(&xfer->apart, apart, __ATOMIC_RELAXED);
}

struct xfer_channel *xfer_ep_side(struct xfer_ep *ep)
{
	struct xfer_channel *side = &ep->side;
	int ret;

	xfer_assert_locked(ep->xfer);
	if (!(ep->quirks & QUIRK_STALLS))
		return &ep->front;
	if (side->core)
		return side;
	if (!side->ops || !ep->started || ep->closing)
		return NULL;
	ret = side->ops->open(side);
	if (!ret)
		return side;
	side->core = NULL;
	/* and it is not tried again */
	side->ops = NULL;
	P2P_WARN("no endpoint for long messages from device memory, which travel whole: %s\n",
		 fi_strerror(-ret));
	return NULL;
}

void xfer_ep_count(struct xfer_ep *ep, uint64_t kind, int err)
{
	struct xfer_cntr *cntr = ep->cntrs[xfer_count_index(kind)];

	if (cntr)
		xfer_cntr_count(ep->xfer, cntr, err);
}

void xfer_ep_sent(struct xfer_ep *ep, const struct path_choice *choice, size_t len)
{
	xfer_assert_locked(ep->xfer);
	ep->stats.tx_msgs[choice->path]++;
	ep->stats.tx_bytes[choice->path] += len;
	ep->reason[choice->path] = choice->reason;
}

void xfer_ep_limit(struct xfer_ep *ep)
{
	bool sends = !ep->renamed && !ep->tally && !ep->waiting && !(ep->followed & FI_SEND);
	size_t longest = lanes_host(ep) ? cost_lanes_min(false) : SIZE_MAX;
	bool receives = !ep->renamed && !(ep->followed & FI_RECV);
	bool remote =
		!ep->renamed && !(ep->followed & (FI_READ | FI_WRITE)) && !ep->xfer->keys_ours;

	xfer_assert_locked(ep->xfer);
	__atomic_store_n(&ep->rma_limit, remote ? SIZE_MAX : 0, __ATOMIC_RELAXED);
	__atomic_store_n(&ep->send_limit, sends ? longest : 0, __ATOMIC_RELAXED);
	__atomic_store_n(&ep->recv_limit, receives ? xfer_recv_limit(ep, ep->rx_flags) : 0,
			 __ATOMIC_RELAXED);
}

/* Begins a copy, counts it, and wakes sleepers, whom no descriptor would tell of its end. */
static int xfer_copy_begin(struct xfer_ep *ep, const struct dev_mem *mem, enum copy_dir dir,
			   const struct iovec *iov, size_t count, void *host, struct copy *copy)
{
	const size_t len = mem_iov_len(iov, count);
	int ret;

	P2P_TRACE(copy_begin, copy, dir, len);
	copy->pinned = stage_pinned(&ep->xfer->stage, host);
	ret = copy_start(&ep->xfer->copies, mem, dir, iov, count, host, copy);
	if (ret) {
		P2P_TRACE(copy_end, copy, ret);
		return ret;
	}
	/* no descriptor tells of a copy's end: nobody may sleep until then */
	wait_wake_all(&ep->xfer->wait);
	ep->copying++;
	if (dir != COPY_ACROSS) {
		ep->stats.copies++;
		ep->stats.copy_bytes += len;
	}
	return 0;
}

int xfer_copy_start(struct xfer_ep *ep, const struct dev_mem *mem, enum copy_dir dir,
		    const struct iovec *iov, size_t count, void *host, struct copy *copy)
{
	copy->ordered = false;
	return xfer_copy_begin(ep, mem, dir, iov, count, host, copy);
}

int xfer_copy_in_order(struct xfer_ep *ep, const struct dev_mem *mem, const struct iovec *iov,
		       size_t count, void *host, struct copy *copy)
{
	xfer_assert_locked(ep->xfer);
	copy->ordered = true;
	return xfer_copy_begin(ep, mem, COPY_IN, iov, count, host, copy);
}

int xfer_copy_now(struct xfer *xfer, const struct dev_mem *mem, const struct iovec *iov,
		  size_t count, void *host)
{
	const size_t len = mem_iov_len(iov, count);
	struct copy copy;
	int ret;

	xfer_assert_locked(xfer);
	if (!mem->ops || !len) {
		mem_gather(iov, count, host);
		return 0;
	}
	P2P_TRACE(copy_begin, &copy, COPY_OUT, len);
	ret = copy_run(&xfer->copies, mem, COPY_OUT, iov, count, host, &copy);
	P2P_TRACE(copy_end, &copy, ret);
	return ret;
}

void xfer_flush(struct xfer_ep *ep, struct flush *flush)
{
	xfer_assert_locked(ep->xfer);
	ep->copying++;
	/* nothing tells of its end */
	ep->xfer->looks++;
	wait_wake_all(&ep->xfer->wait);
	flusher_add(&ep->xfer->flusher, flush);
}

void xfer_flush_progress(struct xfer *xfer)
{
	xfer_assert_locked(xfer);
	xfer->looks -= flusher_progress(&xfer->flusher);
}

bool xfer_copy_ended(struct xfer_ep *ep)
{
	ep->copying--;
	return ep->closing;
}
