/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Requests from post to report. See xfer.h; how a message of one kind or another
 * is carried is in eager.c and rndv.c.
 */
#include "xfer/xfer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <rdma/fi_errno.h>

#include "proto/rma_core.h"
#include "xfer/ctrl.h"
#include "proto/rndv_lent.h"
#include "base/log.h"
#include "mem/mem.h"
#include "proto/multi_recv.h"
#include "xfer/pin.h"
#include "proto/rndv.h"
#include "xfer/region.h"

/* See xfer_ctx_retire() [ms] */
#define XFER_RETIRE 10000

int xfer_init(struct xfer *xfer, bool layered, bool shared, struct fid_domain *local_mr_domain)
{
	uint64_t random;
	int ret;

	*xfer = (struct xfer){.mark = layered ? WIRE_MARK : 0};
	ret = cell_pool_init(&xfer->cells);
	if (ret)
		return ret;
	if (getrandom(&random, sizeof random, 0) != sizeof random) {
		P2P_WARN("getrandom: no random number for this process\n");
		cell_pool_fini(&xfer->cells);
		return -FI_EIO;
	}
	xfer->descs.cells = &xfer->cells;
	/* told apart from the other processes' by its upper bits */
	xfer->id_base = random & WIRE_ID_MASK;
	p2p_lock_init(&xfer->lock, shared);
	stage_init(&xfer->stage, local_mr_domain);
	nic_map_init(&xfer->map, NULL, "no domain is open");
	ipc_init(&xfer->ipc, random);
	copy_engines_init(&xfer->copies);
	wait_domain_init(&xfer->wait);
	TAILQ_INIT(&xfer->pushing);
	TAILQ_INIT(&xfer->pulling);
	TAILQ_INIT(&xfer->bouncing);
	TAILQ_INIT(&xfer->borrowing);
	TAILQ_INIT(&xfer->reading);
	LIST_INIT(&xfer->reads);
	LIST_INIT(&xfer->looking);
	LIST_INIT(&xfer->cqs);
	LIST_INIT(&xfer->eps);
	return 0;
}

void xfer_give_back(struct xfer *xfer)
{
	p2p_lock_take(&xfer->lock);
	if (LIST_EMPTY(&xfer->eps)) {
		if (xfer->local)
			stage_reserve_put(&xfer->stage, xfer->local, 0);
		xfer->local = NULL;
		stage_fini(&xfer->stage);
		nic_map_trim(&xfer->map);
		ipc_trim(&xfer->ipc);
	}
	p2p_lock_drop(&xfer->lock);
}

void xfer_fini(struct xfer *xfer)
{
	rndv_fini(xfer);
	copy_engines_fini(&xfer->copies);
	nic_map_fini(&xfer->map);
	ipc_fini(&xfer->ipc);
	board_close(&xfer->board);
	board_far_close_all(&xfer->boards);
	stage_fini(&xfer->stage);
	desc_cache_fini(&xfer->descs);
	p2p_lock_fini(&xfer->lock);
	cell_pool_fini(&xfer->cells);
}

int xfer_want_local(struct xfer *xfer)
{
	if (!xfer->local)
		xfer->local = stage_reserve_get(&xfer->stage, 1);
	return xfer->local ? 0 : -FI_ENOMEM;
}

/* ---- records ---- */

void xfer_ctx_init(struct xfer_ctx *ctx, struct xfer_ep *ep,
		   void (*done)(struct xfer_ctx *ctx, const struct core_comp *comp),
		   void (*drop)(struct xfer_ctx *ctx))
{
	ctx->ep = ep;
	ctx->done = done;
	ctx->drop = drop;
	LIST_INSERT_HEAD(&ep->live, ctx, live);
}

/* A record that nobody has taken since would else be ended, and freed, twice. */
static void xfer_ctx_ended(struct xfer_ctx *ctx, const struct core_comp *comp)
{
	P2P_WARN("the core provider reports the end of an operation that has ended\n");
}

/*
 * Another thread may have read a completion of this record from the core's queue, without the
 * lock, and be on its way to xfer_take() with it when the endpoint is closed. It must find
 * neither another record there nor the endpoint. Nobody sets out with one any more: the core's
 * endpoint is closed, and its queues have been emptied under the lock. To know who is still on
 * the way would cost every read; but it is a few instructions, so the record rests, with no
 * endpoint to be told by, for many times longer than a thread that is ready to run has to wait.
 * Only when cells are scarce it may be for less.
 */
static void xfer_ctx_retire(struct xfer_ctx *ctx)
{
	struct xfer *xfer = ctx->ep->xfer;

	ctx->ep = NULL;
	LIST_INSERT_HEAD(&xfer->retired[xfer->retired_last], ctx, live);
}

/* Every XFER_RETIRE at most, those that had rested at the last time go back. */
static void xfer_retired_turn(struct xfer *xfer)
{
	uint64_t now = rndv_now();
	struct xfer_ctx *ctx;

	if (now < xfer->retired_at + XFER_RETIRE && !cell_scarce(&xfer->cells))
		return;
	xfer->retired_last = !xfer->retired_last;
	xfer->retired_at = now;
	while ((ctx = LIST_FIRST(&xfer->retired[xfer->retired_last]))) {
		LIST_REMOVE(ctx, live);
		cell_put(&xfer->cells, ctx);
	}
}

void xfer_ctx_free(struct xfer_ctx *ctx)
{
	struct xfer *xfer = ctx->ep->xfer;

	LIST_REMOVE(ctx, live);
	ctx->done = xfer_ctx_ended;
	if (p2p_unlikely(ctx->ep->closing && xfer->lock.shared))
		xfer_ctx_retire(ctx);
	else
		cell_put(&xfer->cells, ctx);
}

void xfer_busy_add(struct xfer *xfer, int change)
{
	/* who sleeps did not reckon with it */
	if (!xfer_moving(xfer))
		wait_wake_all(&xfer->wait);
	__atomic_store_n(&xfer->busy, xfer->busy + change, __ATOMIC_RELAXED);
}

void xfer_set_busy(struct xfer_req *req)
{
	if (!req->busy)
		xfer_busy_add(req->ctx.ep->xfer, 1);
	req->busy = true;
}

void xfer_req_unstage(struct xfer_req *req, size_t used)
{
	struct stage *stage = &req->ctx.ep->xfer->stage;

	if (req->slot)
		stage_slot_put(stage, req->slot);
	if (req->reserve)
		stage_reserve_put(stage, req->reserve, used);
	req->slot = NULL;
	req->reserve = NULL;
}

void xfer_req_release(struct xfer_req *req)
{
	struct xfer *xfer = req->ctx.ep->xfer;

	xfer_req_unstage(req, req->recv ? req->comp.len : req->len);
	if (req->region)
		region_release(req->region);
	pin_release(req);
	if (req->import)
		ipc_close(req->import);
	if (req->busy)
		xfer_busy_add(xfer, -1);
	req->region = NULL;
	req->import = NULL;
	req->busy = false;
}

void xfer_req_undo(struct xfer_req *req)
{
	xfer_req_release(req);
	xfer_ctx_free(&req->ctx);
}

/* A request of a closing endpoint */
static void xfer_req_drop(struct xfer_ctx *ctx)
{
	struct xfer_req *req = (struct xfer_req *) ctx;

	rndv_req_drop(req);
	xfer_req_undo(req);
}

void xfer_req_set_buffer(struct xfer_req *req, const struct core_op *op,
			 const struct dev_mem *mem)
{
	req->op_flags = op->flags;
	req->report = op->flags & FI_COMPLETION;
	req->mem = *mem;
	req->path.path = mem->ops ? FI_P2P_PATH_STAGE : FI_P2P_PATH_HOST;
	req->count = op->count;
	req->len = mem_iov_len(op->iov, op->count);
	for (size_t i = 0; i < op->count; i++)
		req->iov[i] = op->iov[i];
}

struct xfer_req *xfer_req_new(struct xfer_ep *ep, const struct core_op *op,
			      const struct dev_mem *mem)
{
	struct xfer_req *req = cell_get_zeroed(&ep->xfer->cells, XFER_REQ_ZEROED);

	if (!req)
		return NULL;
	req->context = op->context;
	req->tag = op->tag;
	req->data = op->data;
	req->addr = op->addr;
	req->recv = op->recv;
	req->tagged = op->tagged;
	req->cq = op->recv ? ep->rxcq : ep->txcq;
	req->done_flags = (op->recv ? FI_RECV : FI_SEND) | (op->tagged ? FI_TAGGED : FI_MSG);
	xfer_req_set_buffer(req, op, mem);
	xfer_ctx_init(&req->ctx, ep, NULL, xfer_req_drop);
	return req;
}

struct xfer_req *xfer_req_new_rma(struct xfer_ep *ep, const struct core_rma *op,
				  const struct dev_mem *mem)
{
	const struct core_op local = {
		.recv = op->read,
		.iov = op->iov,
		.count = op->count,
		.addr = op->addr,
		.data = op->data,
		.flags = op->flags,
		.context = op->context,
	};
	struct xfer_req *req = xfer_req_new(ep, &local, mem);

	if (!req)
		return NULL;
	req->cq = ep->txcq;
	req->done_flags = FI_RMA | (op->read ? FI_READ : FI_WRITE);
	memcpy(req->target, op->remote, op->remotes * sizeof *op->remote);
	req->targets = op->remotes;
	return req;
}

struct xfer_req *xfer_req_new_atomic(struct xfer_ep *ep, const struct core_atomic *op,
				     const struct core_array *result)
{
	const struct core_op local = {
		.recv = op->results,
		.iov = result->iov,
		.count = result->count,
		.addr = op->addr,
		.flags = op->flags,
		.context = op->context,
	};
	struct xfer_req *req = xfer_req_new(ep, &local, &result->mem);

	if (!req)
		return NULL;
	req->cq = ep->txcq;
	req->done_flags = FI_ATOMIC | (op->results ? FI_READ : FI_WRITE);
	req->target[0] = (struct fi_rma_iov){.addr = op->remote->addr, .key = op->remote->key};
	return req;
}

void xfer_ep_count(struct xfer_ep *ep, uint64_t kind, int err)
{
	struct xfer_cntr *cntr = ep->cntrs[xfer_count_index(kind)];
	uint64_t *count;

	if (!cntr)
		return;
	count = err ? &cntr->errors : &cntr->value;
	__atomic_store_n(count, *count + 1, __ATOMIC_RELEASE);
	if (cntr->point)
		wait_wake(cntr->point);
	wait_wake_counted(&ep->xfer->wait);
}

void xfer_ep_sent(struct xfer_ep *ep, const struct path_choice *choice, size_t len)
{
	ep->stats.tx_msgs[choice->path]++;
	ep->stats.tx_bytes[choice->path] += len;
	ep->reason[choice->path] = choice->reason;
}

void xfer_req_end(struct xfer_req *req, int err)
{
	struct xfer_ep *ep = req->ctx.ep;
	struct xfer_cq *cq = req->cq;
	bool report = err ? !req->served : req->report;

	req->comp.context = req->context;
	req->comp.err = err;
	if (req->recv && !err && !req->probe) {
		ep->stats.rx_msgs[req->path.path]++;
		ep->stats.rx_bytes[req->path.path] += req->comp.len;
	}
	if (!req->probe)
		xfer_ep_count(ep, req->done_flags & XFER_COUNT_ALL, err);
	if (cq && report)
		xfer_cq_report(cq, &req->comp);
	xfer_req_release(req);
	xfer_ctx_free(&req->ctx);
}

void xfer_ep_limit(struct xfer_ep *ep)
{
	bool sends = !ep->renamed && !ep->tally && !ep->waiting && !(ep->followed & FI_SEND);
	bool receives = !ep->renamed && !(ep->followed & FI_RECV);
	bool remote =
		!ep->renamed && !(ep->followed & (FI_READ | FI_WRITE)) && !ep->xfer->keys_ours;

	__atomic_store_n(&ep->rma_limit, remote ? SIZE_MAX : 0, __ATOMIC_RELAXED);
	__atomic_store_n(&ep->send_limit, sends ? SIZE_MAX : 0, __ATOMIC_RELAXED);
	__atomic_store_n(&ep->recv_limit, receives ? xfer_recv_limit(ep, ep->rx_flags) : 0,
			 __ATOMIC_RELAXED);
}

int xfer_copy_start(struct xfer_ep *ep, const struct dev_mem *mem, enum copy_dir dir,
		    const struct iovec *iov, size_t count, void *host, struct copy *copy)
{
	int ret;

	copy->pinned = stage_pinned(&ep->xfer->stage, host);
	ret = copy_start(&ep->xfer->copies, mem, dir, iov, count, host, copy);
	if (ret)
		return ret;
	/* no descriptor tells of a copy's end: nobody may sleep until then */
	wait_wake_all(&ep->xfer->wait);
	ep->copying++;
	if (dir != COPY_ACROSS) {
		ep->stats.copies++;
		ep->stats.copy_bytes += mem_iov_len(iov, count);
	}
	return 0;
}

bool xfer_copy_ended(struct xfer_ep *ep)
{
	ep->copying--;
	return ep->closing;
}

/* ---- progress ---- */

/*
 * Copies first: a look at them costs nearly nothing, one at the core's queues system calls.
 * Where those were in vain last time, a copy is even waited for a little.
 */
static void xfer_progress_copies(struct xfer *xfer)
{
	if (xfer->quiet)
		copy_await(&xfer->copies);
	else
		copy_progress(&xfer->copies);
}

/*
 * The application may not be reading this queue, but another one, or leave all to the thread: what
 * does not fit here stays with the core. A call by the application is asked for then.
 */
static bool xfer_cq_full(const struct xfer_cq *cq)
{
	return cq->count && cell_scarce(&cq->xfer->cells);
}

static void xfer_progress_core(struct xfer *xfer)
{
	struct xfer_cq *cq;
	struct xfer_ep *ep;

	xfer->quiet = true;
	LIST_FOREACH(cq, &xfer->cqs, entry) {
		if (!xfer_cq_full(cq) && xfer_cq_pull(cq))
			xfer->quiet = false;
	}
	xfer->copies.more = !xfer->quiet;
	copy_progress(&xfer->copies);
	rndv_progress(xfer);
	rma_core_progress(xfer);
	LIST_FOREACH(ep, &xfer->eps, entry) {
		rndv_lent_progress(ep);
		ctrl_progress(ep);
		xfer_outq_flush(ep);
		xfer_sendq_flush(ep);
	}
}

/* What waited for more of its kind, to be begun together, begins. */
static void xfer_pass_end(struct xfer *xfer)
{
	struct xfer_ep *ep;
	bool told = false;

	xfer->passing = false;
	copy_push(&xfer->copies);
	LIST_FOREACH(ep, &xfer->eps, entry) {
		if (ep->letter) {
			ctrl_flush(ep);
			told = true;
		}
	}
	if (told)
		rndv_told(xfer);
}

void xfer_progress_locked(struct xfer *xfer)
{
	if (p2p_unlikely(cell_scarce(&xfer->cells)))
		xfer_retired_turn(xfer);
	xfer->passing = true;
	xfer_progress_copies(xfer);
	xfer_progress_core(xfer);
	xfer_pass_end(xfer);
}

bool xfer_cq_progress(struct xfer_cq *cq)
{
	struct xfer *xfer = cq->xfer;
	bool moved;

	p2p_lock_take(&xfer->lock);
	xfer->passing = true;
	xfer_progress_copies(xfer);
	if (!cq->count)
		xfer_progress_core(xfer);
	xfer_pass_end(xfer);
	moved = !xfer->quiet;
	p2p_lock_drop(&xfer->lock);
	return moved;
}

void xfer_apart_update(struct xfer *xfer)
{
	const struct xfer_cq *first = LIST_FIRST(&xfer->cqs);
	const struct xfer_ep *ep;
	bool listens = false, apart;

	LIST_FOREACH(ep, &xfer->eps, entry)
		listens |= ep->listens;
	apart = listens && first && LIST_NEXT(first, entry);
	/* who sleeps did not reckon with it */
	if (apart && !xfer->apart)
		wait_wake_all(&xfer->wait);
	__atomic_store_n(&xfer->apart, apart, __ATOMIC_RELAXED);
}

void xfer_progress(struct xfer *xfer)
{
	p2p_lock_take(&xfer->lock);
	xfer_progress_locked(xfer);
	p2p_lock_drop(&xfer->lock);
}

/* ---- endpoints ---- */

/* Closes the core's endpoint, and reads what it has completed or cancelled: records of ours */
static int xfer_ep_close_core(struct xfer_ep *ep)
{
	struct xfer_cq *cq;
	int ret = fi_close(&ep->core->fid);

	if (ret)
		return ret;
	ep->closing = true;
	/* what comes there is about this one */
	if (ep->aside)
		ep->aside->closing = true;
	LIST_FOREACH(cq, &ep->xfer->cqs, entry) {
		while (xfer_cq_pull(cq))
			;
	}
	return 0;
}

/* Ends what is left of it */
static void xfer_ep_drop(struct xfer_ep *ep)
{
	struct xfer_ctx *ctx;

	while ((ctx = LIST_FIRST(&ep->live)))
		ctx->drop(ctx);
	LIST_REMOVE(ep, entry);
	xfer_apart_update(ep->xfer);
}

static void xfer_ep_add(struct xfer_ep *ep, struct xfer *xfer, struct xfer_ep *front)
{
	ep->xfer = xfer;
	ep->front = front;
	TAILQ_INIT(&ep->sendq);
	TAILQ_INIT(&ep->outq);
	TAILQ_INIT(&ep->claimed);
	LIST_INIT(&ep->multis);
	TAILQ_INIT(&ep->multi_msgs);
	LIST_INIT(&ep->live);
	LIST_INSERT_HEAD(&xfer->eps, ep, entry);
	/* who sleeps without a descriptor has something to look for now */
	wait_wake_all(&xfer->wait);
}

void xfer_ep_init(struct xfer_ep *ep, struct xfer *xfer)
{
	p2p_lock_take(&xfer->lock);
	xfer_ep_add(ep, xfer, ep);
	p2p_lock_drop(&xfer->lock);
}

int xfer_ep_init_aside(struct xfer_ep *aside, struct xfer_ep *front)
{
	int ret;

	aside->layered = true;
	aside->mixes = front->mixes;
	aside->tag_bit = front->tag_bit;
	aside->txcq = front->txcq;
	aside->rxcq = front->rxcq;
	xfer_ep_add(aside, front->xfer, front);
	ret = ctrl_listen(aside);
	if (!ret)
		return 0;
	xfer_ep_close_core(aside);
	xfer_ep_drop(aside);
	return ret;
}

struct xfer_ep *xfer_ep_beside(struct xfer_ep *ep)
{
	int ret;

	if (!ep->stalls)
		return ep;
	if (ep->aside || !ep->aside_open || !ep->started || ep->closing)
		return ep->aside;
	ret = ep->aside_open(ep, &ep->aside);
	if (!ret)
		return ep->aside;
	ep->aside = NULL;
	/* and it is not tried again */
	ep->aside_open = NULL;
	P2P_WARN("no endpoint for long messages from device memory, which travel whole: %s\n",
		 fi_strerror(-ret));
	return NULL;
}

int xfer_ep_start(struct xfer_ep *ep)
{
	int ret;

	p2p_lock_take(&ep->xfer->lock);
	ret = ctrl_start(ep);
	ep->started = !ret;
	p2p_lock_drop(&ep->xfer->lock);
	return ret;
}

int xfer_ep_fini(struct xfer_ep *ep)
{
	struct xfer *xfer = ep->xfer;
	int ret;

	p2p_lock_take(&xfer->lock);
	rndv_lent_close(ep);
	ret = xfer_ep_close_core(ep);
	if (ret) {
		p2p_lock_drop(&xfer->lock);
		return ret;
	}
	if (ep->aside && xfer_ep_close_core(ep->aside))
		P2P_WARN("the endpoint for long messages does not close\n");
	xfer->copies.more = false;
	while (ep->copying)
		copy_progress(&xfer->copies);
	xfer_retired_turn(xfer);
	/* its records are about requests of this one */
	if (ep->aside)
		xfer_ep_drop(ep->aside);
	xfer_ep_drop(ep);
	if (ep->litters && ep->txcq)
		wait_domain_remove(&xfer->wait, ep->txcq);
	if (ep->litters && ep->rxcq)
		wait_domain_remove(&xfer->wait, ep->rxcq);
	free(ep->peers);
	p2p_lock_drop(&xfer->lock);
	return 0;
}

/* ---- cancelling ---- */

ssize_t xfer_cancel(struct xfer_ep *ep, void *context)
{
	struct xfer_ctx *ctx;
	ssize_t ret = -FI_ENOENT;

	p2p_lock_take(&ep->xfer->lock);
	ctx = multi_recv_find(ep, context);
	if (ctx) {
		ret = fi_cancel(&ep->core->fid, ctx);
		p2p_lock_drop(&ep->xfer->lock);
		return ret;
	}
	LIST_FOREACH(ctx, &ep->live, live) {
		struct xfer_req *req = (struct xfer_req *) ctx;

		if (ctx->drop == xfer_req_drop && req->done_flags & FI_RECV && !req->busy &&
		    req->context == context) {
			ret = fi_cancel(&ep->core->fid, ctx);
			break;
		}
	}
	p2p_lock_drop(&ep->xfer->lock);
	return ret;
}
