/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Operations of kernels: posted as an application would. See xpu.h. */
#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include "base/clock.h"
#include "base/conf.h"
#include "base/log.h"
#include "gpu/xpu.h"
#include "path/quirks.h"
#include "xfer/ep_state.h"
#include "xfer/gone.h"
#include "xfer/op.h"
#include "xfer/reports.h"

/*
 * What has waited for so long until its peer's process was found to have ended fails, and for so long others to that
 * peer that the core has no room for [ms]
 */
#define XPU_GONE_AFTER 2000
#define XPU_GONE_FOR 30000

static void *xpu_ptr(uint64_t word)
{
	return (void *) (uintptr_t) word;
}

/* ---- operations with all of their arguments ---- */

static const enum fi_op_type xpu_types[] = {
	[FI_P2P_XPU_OP_SEND] = FI_OP_SEND,
	[FI_P2P_XPU_OP_RECV] = FI_OP_RECV,
	[FI_P2P_XPU_OP_TSEND] = FI_OP_TSEND,
	[FI_P2P_XPU_OP_TRECV] = FI_OP_TRECV,
	[FI_P2P_XPU_OP_WRITE] = FI_OP_WRITE,
	[FI_P2P_XPU_OP_READ] = FI_OP_READ,
	[FI_P2P_XPU_OP_ATOMIC] = FI_OP_ATOMIC,
	[FI_P2P_XPU_OP_FETCH] = FI_OP_FETCH_ATOMIC,
	[FI_P2P_XPU_OP_COMPARE] = FI_OP_COMPARE_ATOMIC,
};

static bool xpu_peer_is_gone(struct p2p_ep *ep, fi_addr_t peer)
{
	return gone_is_late(&ep->xfer, av_core_addr(ep->av, peer));
}

static int xpu_submit(struct p2p_ep *ep, struct p2p_op *op)
{
	if (xpu_peer_is_gone(ep, op_receives(op) ? FI_ADDR_UNSPEC : op->msg.addr))
		return -FI_ECONNRESET;
	return (int) ep->submit(ep, op);
}

/* One piece of everything; the word of @what that others have their data in is where compare values are */
static int xpu_submit_atomic(struct p2p_ep *ep, const struct ring_op *what, struct p2p_op *op)
{
	const uint64_t *word = what->word;
	const size_t count = word[FI_P2P_XPU_W_LEN];
	const struct fi_rma_ioc remote = {word[FI_P2P_XPU_W_ADDR], count,
					  word[FI_P2P_XPU_W_KEY]};
	const struct fi_ioc operand = {xpu_ptr(word[FI_P2P_XPU_W_BUF]), count};
	const struct fi_ioc compare = {xpu_ptr(word[FI_P2P_XPU_W_DATA]), count};
	struct fi_ioc result = {xpu_ptr(word[FI_P2P_XPU_W_RESULT]), count};
	void *desc = xpu_ptr(word[FI_P2P_XPU_W_DESC]);
	void *compare_desc = xpu_ptr(word[FI_P2P_XPU_W_COMPARE_DESC]);
	void *result_desc = xpu_ptr(word[FI_P2P_XPU_W_RESULT_DESC]);

	op->atomic = (struct fi_msg_atomic){
		.msg_iov = &operand,
		.desc = &desc,
		.iov_count = 1,
		.addr = word[FI_P2P_XPU_W_PEER],
		.rma_iov = &remote,
		.rma_iov_count = 1,
		.datatype = (enum fi_datatype) what->datatype,
		.op = (enum fi_op) what->atomic,
		.context = xpu_ptr(word[FI_P2P_XPU_W_CONTEXT]),
	};
	op->fetch = (struct fi_msg_fetch){&result, &result_desc, op->type != FI_OP_ATOMIC};
	op->compare = (struct fi_msg_compare){&compare, &compare_desc,
					      op->type == FI_OP_COMPARE_ATOMIC};
	return xpu_submit(ep, op);
}

int xpu_op_post_full(struct p2p_ep *ep, const struct ring_op *what)
{
	const uint64_t *word = what->word;
	const struct iovec iov = {xpu_ptr(word[FI_P2P_XPU_W_BUF]), word[FI_P2P_XPU_W_LEN]};
	const struct fi_rma_iov remote = {word[FI_P2P_XPU_W_ADDR], iov.iov_len,
					  word[FI_P2P_XPU_W_KEY]};
	void *context = xpu_ptr(word[FI_P2P_XPU_W_CONTEXT]);
	void *desc = xpu_ptr(word[FI_P2P_XPU_W_DESC]);
	struct p2p_op op;

	if (what->op > FI_P2P_XPU_OP_COMPARE)
		return -FI_EINVAL;
	op_init(&op, xpu_types[what->op], OP_FLAGGED, what->flags);
	if (op.type >= FI_OP_ATOMIC)
		return xpu_submit_atomic(ep, what, &op);
	if (op.type >= FI_OP_READ)
		op.rma = (struct fi_msg_rma){&iov,    &desc, 1,       word[FI_P2P_XPU_W_PEER],
					     &remote, 1,     context, word[FI_P2P_XPU_W_DATA]};
	else
		op.msg = (struct fi_msg_tagged){
			.msg_iov = &iov,
			.desc = &desc,
			.iov_count = 1,
			.addr = word[FI_P2P_XPU_W_PEER],
			.tag = op_tagged(&op) ? word[FI_P2P_XPU_W_ADDR] : 0,
			.ignore = op_tagged(&op) ? word[FI_P2P_XPU_W_KEY] : 0,
			.context = context,
			.data = word[FI_P2P_XPU_W_DATA],
		};
	return xpu_submit(ep, &op);
}

/* ---- operations of one trigger ---- */

bool xpu_report_take(struct xfer_cq *cq, struct core_comp *comp)
{
	return xfer_cq_has(cq) &&
	       (xfer_cq_next(cq, false, comp) == 1 || xfer_cq_next(cq, true, comp) == 1);
}

static unsigned int xpu_ring_number(const struct xpu_ep *ep, const struct xpu_ring *ring)
{
	return (unsigned int) (ring - ep->rings);
}

/* Notes whether puts of the ring to the peer have failed. */
static void xpu_failed_set(struct xpu_peer *peer, unsigned int ring, bool failed)
{
	const uint64_t bit = UINT64_C(1) << ring % 64;
	uint64_t *word = &peer->failed[ring / 64];

	*word = failed ? *word | bit : *word & ~bit;
}

/*
 * Would a signal tell of a put that has failed? Blocks may share a ring, so it may be any block's: signals to that
 * peer fail until the application sets the counter's errors to 0. Without a counter all of them do: several puts may have
 * failed, each with signals behind it, and nothing tells that the application knows.
 */
static bool xpu_signal_lies(struct xpu_ep *ep, const struct xpu_ring *ring,
			    const struct ring_op *op)
{
	const unsigned int number = xpu_ring_number(ep, ring);
	struct xfer_cntr *cntr = ep->ep->xfer.cntrs[xfer_count_index(FI_WRITE)];
	struct xpu_peer *peer = xpu_peer_of(ep, op->target);

	if (!(peer->failed[number / 64] >> number % 64 & 1))
		return false;
	if (!cntr || cntr_errors(container_of(cntr, struct p2p_cntr, xfer)))
		return true;
	xpu_failed_set(peer, number, false);
	return false;
}

void xpu_put_failed(struct xpu_ep *ep, const struct xpu_ring *ring, const struct ring_op *op)
{
	const struct xpu_peer *peer =
		op->kind == FI_P2P_XPU_KIND_PUT ? xpu_peer_of(ep, op->target) : NULL;

	/* if it is not known whose it was, it may be any peer's */
	for (unsigned int i = 0; i < ep->peer_count; i++) {
		if (!peer || peer == &ep->peers[i])
			xpu_failed_set(&ep->peers[i], xpu_ring_number(ep, ring), true);
	}
}

/* One more is under way to @peer (@change is 1), or one less */
static void xpu_put_count(const struct xpu_put *put, struct xpu_peer *peer, int change)
{
	peer->puts += (unsigned int) change;
	peer->ring_puts[xpu_ring_number(put->ep, put->ring)] += (uint16_t) change;
	peer->turn_puts += put->of_turn ? (unsigned int) change : 0;
	if (peer->refused && !peer->turn_puts) {
		put->ep->turn = peer->refused - 1;
		peer->refused = 0;
	}
	put->ep->puts += (unsigned int) change;
}

bool xpu_put_ended(struct xpu_ctx *ctx, const void *context, int err)
{
	struct xpu_put *put = (struct xpu_put *) (uintptr_t) context;
	struct xpu_peer *peer;

	if (put < ctx->puts || put >= ctx->puts + XPU_PUTS)
		return false;
	/* its endpoint may be exported no more */
	if (put->ring) {
		peer = &put->ep->peers[put->peer];
		xpu_put_count(put, peer, -1);
		if (err)
			xpu_failed_set(peer, xpu_ring_number(put->ep, put->ring), true);
	}
	ctx->orphans -= put->orphan_of != 0;
	put->orphan_of = 0;
	put->ring = NULL;
	SLIST_INSERT_HEAD(&ctx->free, put, entry);
	ctx->under_way--;
	return true;
}

/*
 * Is a put to be there when it has ended? One that we serve is. One of the core's may be on its way, and a signal that we
 * serve may take another way and overtake it. In short looks the first put of a turn is to be there, and with it what came
 * before: the next turn waits for it. Within the host a peer takes all out of one queue.
 */
static bool xpu_put_arrives(const struct xpu_ep *ep, const struct xpu_peer *peer, uint64_t key)
{
	const struct xfer_ep *xfer_ep = &ep->ep->xfer;

	return (ep->mixed || (ep->in_turn && ep->brief && !peer->turn_puts)) &&
	       !(xfer_ep->quirks & QUIRK_NEAR) && !(key & xfer_ep->xfer->key_mark);
}

/* A write, whose arguments the target and the trigger have between them */
static int xpu_post_put(struct xpu_ep *ep, struct xpu_ring *ring, const struct ring_op *op,
			const struct xpu_target *to)
{
	const struct fi_p2p_xpu_target *target = &to->is;
	struct xpu_peer *peer = &ep->peers[to->peer];
	struct xpu_put *put = SLIST_FIRST(&ep->ctx->free);
	const struct iovec iov = {(char *) target->buf + op->local, op->len};
	const struct fi_rma_iov remote = {target->addr + op->offset, op->len, target->key};
	void *desc = target->desc;
	struct p2p_op write;
	int ret;

	SLIST_REMOVE_HEAD(&ep->ctx->free, entry);
	ep->ctx->under_way++;
	put->ep = ep;
	put->ring = ring;
	put->peer = to->peer;
	put->of_turn = ep->in_turn;
	op_init(&write, FI_OP_WRITE, OP_FLAGGED,
		FI_COMPLETION |
			(xpu_put_arrives(ep, peer, target->key) ? FI_DELIVERY_COMPLETE : 0));
	if (ep->in_turn && !peer->turn_puts)
		peer->turn_at = clock_coarse_ms();
	if (ep->in_turn)
		peer->turn = ep->turns;
	xpu_put_count(put, peer, 1);
	write.rma = (struct fi_msg_rma){&iov, &desc, 1, target->dest_addr, &remote, 1, put, 0};
	ret = xpu_submit(ep->ep, &write);
	if (ret)
		xpu_put_ended(ep->ctx, put, 0);
	return ret;
}

/* What follows a put comes after it: the core and we keep the order of what has ended. */
static ssize_t xpu_post_signal(struct xpu_ep *ep, const struct xpu_ring *ring,
			       const struct ring_op *op, const struct fi_p2p_xpu_target *target)
{
	const uint64_t addr = target->addr + op->offset;
	struct fid_ep *fid = &ep->ep->fid;

	if (xpu_signal_lies(ep, ring, op))
		return -FI_ECANCELED;
	if (xpu_peer_is_gone(ep->ep, target->dest_addr))
		return -FI_ECONNRESET;
	if (op->kind == FI_P2P_XPU_KIND_ADD)
		return fi_inject_atomic(fid, &op->value, 1, target->dest_addr, addr,
					target->key, FI_UINT64, FI_SUM);
	return fi_inject_write(fid, &op->value, sizeof op->value, target->dest_addr, addr,
			       target->key);
}

/* In short looks a turn's puts wait for those of the last turn. The first ring that does has its turn when these have ended. */
static bool xpu_turn_waits(const struct xpu_ep *ep, const struct xpu_ring *ring,
			   struct xpu_peer *peer)
{
	if (!ep->in_turn || !ep->brief || !peer->turn_puts || peer->turn == ep->turns ||
	    clock_coarse_ms() - peer->turn_at >= XPU_TURN_LATE)
		return false;
	if (!peer->refused)
		peer->refused = xpu_ring_number(ep, ring) + 1;
	return true;
}

bool xpu_op_waits(const struct xpu_ep *ep, const struct xpu_ring *ring,
		  const struct ring_op *op)
{
	struct xpu_peer *peer =
		op->kind == FI_P2P_XPU_KIND_OP ? NULL : xpu_peer_of(ep, op->target);

	if (!peer)
		return false;
	switch (op->kind) {
	case FI_P2P_XPU_KIND_PUT:
		return peer->puts >= XPU_PUTS - ep->ctx->under_way ||
		       xpu_turn_waits(ep, ring, peer);
	case FI_P2P_XPU_KIND_SET:
	case FI_P2P_XPU_KIND_ADD:
		return peer->ring_puts[xpu_ring_number(ep, ring)];
	default:
		return false;
	}
}

/* A kernel has put or signalled itself */
static int xpu_count_done(struct xpu_ep *ep)
{
	struct xfer_ep *xfer_ep = &ep->ep->xfer;

	p2p_lock_take(&xfer_ep->xfer->lock);
	xfer_ep_count(xfer_ep, FI_WRITE, 0);
	p2p_lock_drop(&xfer_ep->xfer->lock);
	return 0;
}

/* The device has done it itself: a counter and a queue tell, as of what we have posted. -FI_EAGAIN: there is no room for an entry */
static int xpu_op_tell(struct p2p_ep *ep, const struct ring_op *op, uint64_t context)
{
	const struct core_comp comp = {.context = xpu_ptr(context),
				       .flags = op_done_flags(xpu_types[op->op]),
				       .src = FI_ADDR_NOTAVAIL};
	struct xfer_ep *xfer_ep = &ep->xfer;
	const bool report = xfer_ep->txcq && (ep->tx_all || op->flags & FI_COMPLETION);
	int ret = 0;

	p2p_lock_take(&xfer_ep->xfer->lock);
	if (report && cell_scarce(&xfer_ep->xfer->cells))
		ret = -FI_EAGAIN;
	if (!ret)
		xfer_ep_count(xfer_ep, comp.flags & XFER_COUNT_ALL, 0);
	if (!ret && report)
		xfer_cq_report(xfer_ep->txcq, &comp);
	p2p_lock_drop(&xfer_ep->xfer->lock);
	return ret;
}

static int xpu_tell_ended(struct p2p_ep *ep, const struct ring_op *op)
{
	if (op->op < FI_P2P_XPU_OP_WRITE || op->op > FI_P2P_XPU_OP_COMPARE)
		return -FI_EINVAL;
	return xpu_op_tell(ep, op, op->value);
}

int xpu_op_post(struct xpu_ep *ep, struct xpu_ring *ring, const struct ring_op *op)
{
	if (op->kind == FI_P2P_XPU_KIND_OP)
		return xpu_op_post_full(ep->ep, op);
	if (op->kind == FI_P2P_XPU_KIND_DONE)
		return xpu_count_done(ep);
	if (op->kind == FI_P2P_XPU_KIND_ENDED)
		return xpu_tell_ended(ep->ep, op);
	if (op->kind > FI_P2P_XPU_KIND_ADD || op->target >= ep->target_count)
		return -FI_EINVAL;
	if (op->kind == FI_P2P_XPU_KIND_PUT)
		return xpu_post_put(ep, ring, op, &ep->targets[op->target]);
	return (int) xpu_post_signal(ep, ring, op, &ep->targets[op->target].is);
}

int xpu_op_count(struct fid_cntr *cntr, const struct ring_op *op)
{
	const uint64_t value = op->word[FI_P2P_XPU_W_BUF];

	if (op->kind != FI_P2P_XPU_KIND_OP)
		return -FI_EINVAL;
	switch (op->op) {
	case FI_P2P_XPU_OP_CNTR_ADD:
		return fi_cntr_add(cntr, value);
	case FI_P2P_XPU_OP_CNTR_SET:
		return fi_cntr_set(cntr, value);
	case FI_P2P_XPU_OP_CNTR_ADDERR:
		return fi_cntr_adderr(cntr, value);
	case FI_P2P_XPU_OP_CNTR_SETERR:
		return fi_cntr_seterr(cntr, value);
	default:
		return -FI_EINVAL;
	}
}

/* ---- what fails at once, and what the core has no room for ---- */

fi_addr_t xpu_op_peer(const struct ring_op *op)
{
	return op->op == FI_P2P_XPU_OP_RECV || op->op == FI_P2P_XPU_OP_TRECV
		       ? FI_ADDR_UNSPEC
		       : op->word[FI_P2P_XPU_W_PEER];
}

/* Nobody's death is known: it is said once that the GPU waits */
static void xpu_op_say_waits(struct xpu_patience *patience, uint64_t waited)
{
	if (waited < XFER_SILENCE || patience->told)
		return;
	patience->told = true;
	P2P_WARN("the core provider has had no room for an operation of the GPU's for %u s: it "
		 "waits, unless FI_P2P_PEER_TIMEOUT is set\n",
		 XFER_SILENCE / 1000);
}

/* There is no room for it now. Is that for good? */
static int xpu_op_refused(struct xpu_patience *patience, fi_addr_t peer, uint64_t now)
{
	const uint64_t most = conf.peer_timeout * UINT64_C(1000);

	if (patience->gave_up && patience->lost == peer &&
	    now - patience->gave_up < (most ? most : XPU_GONE_FOR))
		return -FI_ETIMEDOUT;
	if (!patience->since)
		patience->since = now;
	xpu_op_say_waits(patience, now - patience->since);
	if (!conf_overdue(now - patience->since))
		return -FI_EAGAIN;
	P2P_WARN("the core provider has had no room for an operation of the GPU's for %zu s: "
		 "it and others to its peer fail\n",
		 conf.peer_timeout);
	return -FI_ETIMEDOUT;
}

int xpu_op_patience(struct xpu_patience *patience, fi_addr_t peer, int ret)
{
	const uint64_t most = conf.peer_timeout * UINT64_C(1000);
	uint64_t now, waited;

	if (!ret || peer == FI_ADDR_UNSPEC || (ret != -FI_EAGAIN && !patience->since)) {
		patience->since = 0;
		return ret;
	}
	now = clock_coarse_ms();
	if (ret == -FI_EAGAIN)
		ret = xpu_op_refused(patience, peer, now);
	if (ret == -FI_EAGAIN || !patience->since)
		return ret;
	waited = now - patience->since;
	/* it has waited, too, if that ended in another way */
	if (most ? waited >= most / 2 : ret == -FI_ECONNRESET && waited >= XPU_GONE_AFTER) {
		patience->lost = peer;
		patience->gave_up = now;
	}
	patience->since = 0;
	return ret;
}

/* The kind of operation that a counter counts it as; its queue is that of FI_RECV or the other */
static uint64_t xpu_op_kind(const struct ring_op *op)
{
	return op->kind == FI_P2P_XPU_KIND_OP && op->op <= FI_P2P_XPU_OP_COMPARE
		       ? op_done_flags(xpu_types[op->op]) & XFER_COUNT_ALL
		       : FI_WRITE;
}

bool xpu_op_fail(struct p2p_ep *ep, const struct ring_op *op, int error)
{
	const uint64_t kind = xpu_op_kind(op);
	struct xfer_ep *xfer_ep = &ep->xfer;
	struct xfer_cq *cq = kind == FI_RECV ? xfer_ep->rxcq : xfer_ep->txcq;
	struct core_comp comp = {.flags = kind, .src = FI_ADDR_NOTAVAIL, .err = -error};
	bool told;

	/* of what had no room for too long, xpu_op_patience() has told; of who is lost, its own */
	if (error != -FI_ETIMEDOUT && error != -FI_ECONNRESET)
		P2P_WARN("an operation of the GPU's (kind %u, number %u) is refused: %s\n",
			 op->kind, op->kind == FI_P2P_XPU_KIND_OP ? op->op : op->target,
			 fi_strerror(-error));
	if (op->kind == FI_P2P_XPU_KIND_OP) {
		comp.context = xpu_ptr(op->word[FI_P2P_XPU_W_CONTEXT]);
		comp.buf = xpu_ptr(op->word[FI_P2P_XPU_W_BUF]);
		comp.olen = op->word[FI_P2P_XPU_W_LEN];
	}
	p2p_lock_take(&xfer_ep->xfer->lock);
	/* who waits for an operation of its own has to be told; of puts the counter tells, too */
	told = op->kind != FI_P2P_XPU_KIND_OP || !cell_scarce(&xfer_ep->xfer->cells);
	if (told)
		xfer_ep_count(xfer_ep, kind, comp.err);
	if (told && cq && (op->kind == FI_P2P_XPU_KIND_OP || cq->count < XPU_CQ_SIZE))
		xfer_cq_report(cq, &comp);
	p2p_lock_drop(&xfer_ep->xfer->lock);
	return told;
}

int xpu_op_done(struct p2p_ep *ep, const struct ring_op *op)
{
	const struct path_choice copied = {.path = FI_P2P_PATH_IPC,
					   .reason = "the stream copies it"};
	struct xfer_ep *xfer_ep = &ep->xfer;
	int ret = xpu_op_tell(ep, op, op->word[FI_P2P_XPU_W_CONTEXT]);

	if (ret || op->op != FI_P2P_XPU_OP_WRITE)
		return ret;
	p2p_lock_take(&xfer_ep->xfer->lock);
	xfer_ep_sent(xfer_ep, &copied, op->word[FI_P2P_XPU_W_LEN]);
	p2p_lock_drop(&xfer_ep->xfer->lock);
	return 0;
}
