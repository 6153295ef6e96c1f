/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A domain's transfers, and the records of its core operations. See xfer.h. */
#include "xfer/xfer.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <rdma/fi_errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "mem/mem.h"
#include "xfer/xfer_proto.h"

/* See xfer_ctx_retire() [ms] */
#define XFER_RETIRE 10000

int xfer_init(struct xfer *xfer, const struct xfer_protos *protos, bool shared,
	      struct fid_domain *local_mr_domain)
{
	struct {
		uint64_t process;
		uint64_t id_base;
		struct siphash_key secret;
	} random;
	int ret;

	*xfer = (struct xfer){.protos = protos, .marks = protos->marks};
	ret = cell_pool_init(&xfer->cells);
	if (ret)
		return ret;
	ret = random_fill(&random, sizeof random);
	if (!ret)
		ret = protos->init(xfer);
	if (ret) {
		cell_pool_fini(&xfer->cells);
		return ret;
	}
	xfer->descs.cells = &xfer->cells;
	/* told apart from the other processes' by its upper bits */
	xfer->id_base = xfer_board_owner(random.id_base);
	xfer->secret = random.secret;
	p2p_lock_init(&xfer->lock, shared);
	stage_init(&xfer->stage, local_mr_domain);
	nic_map_init(&xfer->map, NULL, "no domain is open", false);
	ipc_init(&xfer->ipc, random.process);
	copy_engines_init(&xfer->copies);
	flusher_init(&xfer->flusher);
	wait_domain_init(&xfer->wait);
	for (size_t i = 0; i < XFER_STATES_MAX; i++)
		TAILQ_INIT(&xfer->in[i]);
	LIST_INIT(&xfer->cqs);
	LIST_INIT(&xfer->eps);
	LIST_INIT(&xfer->busy_peers);
	return 0;
}

void xfer_give_back(struct xfer *xfer)
{
	p2p_lock_take(&xfer->lock);
	if (LIST_EMPTY(&xfer->eps)) {
		if (xfer->local)
			stage_reserve_put(&xfer->stage, xfer->local, 0);
		xfer->local = NULL;
		if (xfer->notes.mr)
			fi_close(&xfer->notes.mr->fid);
		xfer->notes.mr = NULL;
		stage_fini(&xfer->stage);
		nic_map_trim(&xfer->map);
		ipc_trim(&xfer->ipc);
	}
	p2p_lock_drop(&xfer->lock);
}

void xfer_fini(struct xfer *xfer)
{
	flusher_fini(&xfer->flusher);
	xfer->protos->fini(xfer);
	copy_engines_fini(&xfer->copies);
	nic_map_fini(&xfer->map);
	ipc_fini(&xfer->ipc);
	board_close(&xfer->notes.board);
	board_far_close_all(&xfer->notes.boards);
	stage_fini(&xfer->stage);
	desc_cache_fini(&xfer->descs);
	p2p_lock_fini(&xfer->lock);
	cell_pool_fini(&xfer->cells);
}

int xfer_want_local(struct xfer *xfer)
{
	if (!xfer->local)
		xfer->local = stage_reserve_get(&xfer->stage, XFER_WORDS * sizeof(uint64_t));
	return xfer->local ? 0 : -FI_ENOMEM;
}

void xfer_serialise(struct xfer *xfer)
{
	struct xfer_ep *ep;

	xfer_assert_locked(xfer);
	if (p2p_likely(!(xfer->quirks & QUIRK_SERIAL) || xfer->serial))
		return;
	xfer->serial = true;
	xfer_busy_add(xfer, 1);
	LIST_FOREACH(ep, &xfer->eps, entry)
		__atomic_store_n(&ep->recv_limit, 0, __ATOMIC_RELAXED);
}

int xfer_ready(struct xfer *xfer, const struct dev_mem *mem)
{
	int ret;

	xfer_assert_locked(xfer);
	/* first: pinning takes milliseconds, and a thread that is in the core without the lock has left it by then */
	xfer_serialise(xfer);
	ret = stage_ready(&xfer->stage, mem);
	return ret ? ret : copy_ready(&xfer->copies, mem);
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
	LIST_INSERT_HEAD(&xfer->retired.lists[xfer->retired.last], ctx, live);
}

/* Every XFER_RETIRE at most, those that had rested at the last time go back. */
void xfer_retired_turn(struct xfer *xfer)
{
	uint64_t now = clock_coarse_ms();
	struct xfer_ctx *ctx;

	if (now < xfer->retired.at + XFER_RETIRE && !cell_scarce(&xfer->cells))
		return;
	xfer->retired.last = !xfer->retired.last;
	xfer->retired.at = now;
	while ((ctx = LIST_FIRST(&xfer->retired.lists[xfer->retired.last]))) {
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
