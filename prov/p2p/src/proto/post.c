/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Where an operation begins. See post.h. What is to be announced to a peer that has not been heard of
 * yet waits for its answer:
 *
 *	sender                                                           receiver
 *	GREETING             --- HELLO(asks) -------------------------->
 *	                     <-------------------------- HELLO(answers) ---
 *	the chosen way       --- HELLO(confirms), then eager.c, rndv.c ->
 */
#include "proto/post.h"

#include <rdma/fi_errno.h>

#include "base/conf.h"
#include "base/log.h"
#include "base/trace.h"
#include "mem/mem.h"
#include "path/cost.h"
#include "proto/eager.h"
#include "proto/hello.h"
#include "proto/hello_facts.h"
#include "proto/multi_recv.h"
#include "proto/peek.h"
#include "proto/proto.h"
#include "proto/proto_state.h"
#include "proto/rma_core.h"
#include "proto/rma_notice.h"
#include "proto/rma_served.h"
#include "proto/rndv_lanes.h"
#include "proto/rndv_send.h"
#include "xfer/ep_state.h"
#include "xfer/pin.h"
#include "xfer/progress.h"
#include "xfer/req_state.h"
#include "xfer/sendq.h"

/* Gathers what the choice of a message's path depends on. */
static struct path_query post_query(struct xfer_ep *ep, const struct p2p_op *op, size_t len)
{
	/* of the core we only hear when a message is in the receiver's staging memory */
	const size_t most = op->flags & FI_DELIVERY_COMPLETE || ep->policy == PATH_ACROSS_LONG
				    ? WIRE_PLAIN_MAX
				    : conf.eager_size;
	bool whole = len <= most;
	/* who sends short messages only needs no other endpoint; longer ones may be offered */
	bool stalls = ep->quirks & QUIRK_STALLS && !ep->side.core &&
		      ((whole && len <= cost_lend_min()) || !xfer_ep_side(ep));
	bool announced = xfer_announces(ep->xfer), pieces = announced && (whole || !stalls);

	return (struct path_query){
		.announced = announced,
		.stalls = stalls,
		.len = len,
		.short_max = pieces ? most : conf.chunk_size,
		.plain_max = WIRE_PLAIN_MAX,
		.slot = stage_slot_free(&ep->xfer->stage, STAGE_WHOLE_OUT, len, NULL),
		/* what waits here will be under way with it */
		.lends = xfer_ep_lends(ep) &&
			 (ep->waiting || stage_lends(&ep->xfer->stage, len)),
		.unnamed = ep->front.name_len > WIRE_NAME_MAX,
		.inject = op->flags & FI_INJECT,
		.policy = ep->policy,
		.pieces = op->msg.iov_count,
		.direct = ep->quirks & QUIRK_DIRECT,
		.inline_max = ep->inline_max,
		.near = ep->quirks & QUIRK_NEAR,
		.across_why = "over a hook there are no announcements",
	};
}

/* Tells whether a message that takes this way is announced. */
static bool post_announced(enum path_proto proto)
{
	return proto == PATH_LENT || proto == PATH_LONG || path_offers(proto);
}

/*
 * Chooses the path of a send. A peer that has not answered a greeting yet may be announced nothing. What is
 * longer than what a core sends as one message waits for that (@waits); the rest takes the way that is right
 * for all. @met: the peer's record, or NULL
 */
static struct path_choice post_choose(struct xfer_req *req, const struct p2p_op *op,
				      struct xfer_peer **met, bool *waits)
{
	struct path_query query = post_query(req->ctx.ep, op, req->len);
	struct xfer_peer *peer = *met = hello_meet(req->ctx.ep, op->msg.addr, &query);
	struct path_choice choice = pin_choose(req, &query);

	*waits = false;
	if (!peer || peer->state == XFER_PEER_KNOWN ||
	    !(post_announced(choice.proto) || peer->facts & HELLO_LOST))
		return choice;
	*waits = !hello_greet(peer) && hello_state(peer) == XFER_PEER_GREETED;
	query.foreign = true;
	choice = path_choose(&query);
	/* whole, it would be said to be delivered before it is copied in */
	*waits &= req->len > cost_lend_min() || choice.proto == PATH_NONE ||
		  peer->facts & HELLO_LOST || op->flags & FI_DELIVERY_COMPLETE;
	return choice;
}

/*
 * It cannot go on yet, and chooses anew when it can. Until then it holds nothing, but for the copy of what is injected.
 * 0, or an error of that
 */
static int post_wait(struct xfer_req *req)
{
	pin_release(req);
	if (req->op_flags & FI_INJECT)
		return eager_keep(req);
	xfer_req_unstage(req, req->len);
	return 0;
}

/* Begins a send from device memory, once it is known what its peer understands */
static ssize_t post_begin(struct xfer_req *req, const struct p2p_op *op)
{
	const struct xfer_proto *const *proto = req->ctx.ep->xfer->protos->table;
	const struct dev_mem mem = req->mem;
	struct xfer_ep *ep = req->ctx.ep;
	const size_t len = req->len;
	struct path_choice choice;
	struct xfer_peer *peer;
	bool waits;
	ssize_t ret;

	req->path = choice = post_choose(req, op, &peer, &waits);
	if (waits) {
		ret = post_wait(req);
		if (ret)
			return ret;
		xfer_set_busy(req);
		if (req->state != XFER_GREETING)
			xfer_req_move(req, XFER_GREETING);
		return 0;
	}
	if (post_announced(choice.proto) && peer->sends >= XFER_PEER_SENDS)
		return -FI_EAGAIN;
	while (*proto && !((*proto)->paths & PROTO_PATH(choice.proto)))
		proto++;
	if (!*proto) {
		P2P_WARN("%zu bytes from %s device %d may not be staged: %s\n", len,
			 mem.ops->name, mem.ordinal, choice.reason);
		return -FI_EOPNOTSUPP;
	}
	P2P_TRACE(req_path, req, choice.path, choice.reason);
	xfer_req_watch(req, peer);
	ret = (*proto)->start(req, op);
	/* the request may be gone */
	if (ret)
		return ret;
	/* what was offered is counted when it is known whether it was taken */
	if (!path_offers(choice.proto))
		xfer_ep_sent(ep, &choice, len);
	P2P_DBG("%zu bytes from %s device %d: %s\n", len, mem.ops->name, mem.ordinal,
		choice.reason);
	return 0;
}

/*
 * Begins a send from host memory that is followed up. If it is long (@lanes) its peer is to have lanes, and to know that
 * more is under way.
 */
static ssize_t post_host(struct xfer_req *req, const struct p2p_op *op, bool lanes)
{
	struct xfer_ep *ep = req->ctx.ep;
	struct xfer_peer *peer = NULL;

	if (lanes && xfer_ep_side(ep) && !hello_ready(ep, op->msg.addr))
		peer = xfer_peer_find(ep, op->msg.addr);
	if (peer && rndv_lanes_carry_host(peer, req->len)) {
		req->path.proto = PATH_LONG;
		return rndv_start(req, op);
	}
	if (xfer_sendq_has(ep, op->msg.addr))
		return -FI_EAGAIN;
	xfer_req_watch(req, peer);
	return eager_send_followed(req, op);
}

/* Sends host memory by the core alone where it can, and makes a request of all else. */
static ssize_t post_send(struct xfer_ep *ep, const struct p2p_op *op, const struct dev_mem *mem)
{
	const struct path_choice host = {FI_P2P_PATH_HOST, PATH_CORE, "host memory"};
	const bool lanes = !mem->ops && !(op->flags & FI_INJECT) &&
			   xfer_may_have_lanes(ep, op->msg.msg_iov, op->msg.iov_count);
	struct xfer_req *req;
	size_t len;
	ssize_t ret;

	if (!mem->ops && !xfer_ep_follows(ep, FI_SEND) && !lanes) {
		if (xfer_sendq_has(ep, op->msg.addr))
			return -FI_EAGAIN;
		ret = core_post(&ep->front, op);
		if (!ret)
			xfer_ep_tally(ep, mem_iov_len(op->msg.msg_iov, op->msg.iov_count));
		return ret;
	}
	req = xfer_req_new(ep, op, mem);
	if (!req)
		return -FI_EAGAIN;
	len = req->len;
	ret = mem->ops ? post_begin(req, op) : post_host(req, op, lanes);
	if (ret)
		xfer_req_undo(req);
	else if (!mem->ops)
		xfer_ep_sent(ep, &host, len);
	return ret;
}

/*
 * A send whose peer has answered, or is late or lost, goes on. What fails is told in its turn. True: it waits still, and
 * so does what goes to the same peer
 */
static bool post_resume(struct xfer_req *req)
{
	const struct p2p_op op = {
		.type = req->done_flags & FI_TAGGED ? FI_OP_TSEND : FI_OP_SEND,
		.msg.msg_iov = req->iov,
		.msg.iov_count = req->count,
		.msg.addr = req->addr,
		.msg.tag = req->tag,
		.msg.data = req->data,
		.flags = req->op_flags,
		.msg.context = req->context,
	};
	struct xfer_ep *ep = req->ctx.ep;
	struct xfer_peer *peer = xfer_peer_find(ep, req->addr);
	bool again;
	ssize_t ret;

	/* that it is lost may be found now */
	if (peer && hello_state(peer) == XFER_PEER_GREETED)
		return true;
	ret = peer && peer->lost ? peer->lost : post_begin(req, &op);
	again = ret == -FI_EAGAIN;
	/* nothing tells when there is room */
	ep->proto->news |= again;
	if (again)
		ret = post_wait(req);
	if (ret) {
		eager_give_up(req, (int) ret);
		xfer_sendq_flush(ep);
	}
	return again;
}

/*
 * Looks at sends whose peers had not answered. There may be thousands: they are looked at when there is news,
 * and one for each peer in a row. Who goes on may be found to be lost, and take others with it that wait here.
 */
static void post_progress(struct xfer *xfer)
{
	fi_addr_t waits, addr;
	struct xfer_req *req;
	struct xfer_ep *ep;

	LIST_FOREACH(ep, &xfer->eps, entry) {
		if (ep->ready == ep->waiting || !ep->proto->news)
			continue;
		ep->proto->news = false;
		waits = FI_ADDR_UNSPEC;
		for (req = TAILQ_FIRST(&ep->sendq); req; req = ep->resumes) {
			ep->resumes = TAILQ_NEXT(req, entry);
			addr = req->addr;
			if (req->state == XFER_GREETING && addr != waits && post_resume(req))
				waits = addr;
		}
	}
}

/* Has post_progress() look at waiting sends, as whether a peer is late is a matter of time. */
static void post_look(struct xfer *xfer, unsigned int passed)
{
	struct xfer_ep *ep;

	LIST_FOREACH(ep, &xfer->eps, entry)
		ep->proto->news = true;
}

const struct xfer_proto post_proto = {
	.name = "post",
	.progress = post_progress,
	.watch = post_look,
};

/*
 * Tells whether a receive only has to be under the lock (QUIRK_SERIAL). The core completes it by itself then.
 */
static bool post_recv_alone(const struct xfer_ep *ep, const struct p2p_op *op,
			    const struct dev_mem *mem)
{
	return ep->xfer->serial && !mem->ops && !xfer_ep_follows(ep, FI_RECV) &&
	       mem_iov_len(op->msg.msg_iov, op->msg.iov_count) < xfer_recv_alone(ep, op->flags);
}

/* Posts a receive: to the core alone, as a peek, for many messages, or as a request. */
static ssize_t post_recv(struct xfer_ep *ep, const struct p2p_op *op, const struct dev_mem *mem)
{
	struct xfer_req *req;
	ssize_t ret;

	if (op_tagged(op) && op->flags & (FI_PEEK | FI_CLAIM | FI_DISCARD))
		return peek_post(ep, op, mem);
	if (post_recv_alone(ep, op, mem))
		return core_post(&ep->front, op);
	if (!op_tagged(op) && op->flags & FI_MULTI_RECV)
		return multi_recv_post(ep, op, mem);
	req = xfer_req_new(ep, op, mem);
	if (!req)
		return -FI_EAGAIN;
	ret = eager_recv(req, op);
	if (ret)
		xfer_req_undo(req);
	return ret;
}

/*
 * Finds out what memory a buffer is, by its descriptors where they tell. @seen: as for mem_classify(). Where
 * one of them is ours and wrong, as it is host memory, @desc becomes none, since the core knows it not.
 */
static int post_classify(const struct xfer *xfer, const struct iovec *iov, size_t count,
			 const struct dev_mem *seen, void ***desc, struct dev_mem *mem)
{
	static void *none[P2P_IOV_MAX];
	const struct dev_mem *described = desc_cache_device(&xfer->descs, *desc, count);
	int ret = 0;

	if (described || !desc_cache_host(&xfer->descs, iov, *desc, count))
		ret = mem_classify(iov, count, described ? described : seen, mem);
	else
		mem->ops = NULL;
	if (!ret && described && !mem->ops)
		*desc = none;
	return ret;
}

/*
 * Tells whether a buffer without an address may be one of which no byte is used. The core judges that, where
 * we touch no host memory, and if the descriptor is not ours: the core would not know it.
 */
static bool post_is_nowhere(const struct xfer_ep *ep, const struct p2p_op *op)
{
	return !xfer_announces(ep->xfer) && op->msg.iov_count == 1 &&
	       !op->msg.msg_iov[0].iov_base &&
	       !desc_cache_device(&ep->xfer->descs, op->msg.desc, op->msg.iov_count);
}

/* Tells whether another operation may begin, on @mem: 0, -FI_EAGAIN: not now, or an error */
static int post_ready(struct xfer *xfer, const struct dev_mem *mem)
{
	if (cell_scarce(&xfer->cells))
		return -FI_EAGAIN;
	return mem->ops ? xfer_ready(xfer, mem) : 0;
}

ssize_t xfer_post(struct xfer_ep *ep, const struct p2p_op *op)
{
	struct xfer *xfer = ep->xfer;
	const size_t limit = op_receives(op) ? ep->recv_iov_limit : ep->iov_limit;
	void **desc = op->msg.desc;
	struct p2p_op plain;
	struct dev_mem mem = {.ops = NULL};
	ssize_t ret = 0;

	if (op->msg.iov_count > limit) {
		P2P_WARN("%zu pieces in one message: no more than %zu are offered "
			 "(iov_limit)\n",
			 op->msg.iov_count, limit);
		return -FI_EINVAL;
	}
	if (!post_is_nowhere(ep, op))
		ret = post_classify(xfer, op->msg.msg_iov, op->msg.iov_count, op->seen, &desc,
				    &mem);
	if (ret)
		return ret;
	if (desc != op->msg.desc) {
		plain = *op;
		plain.msg.desc = desc;
		op = &plain;
	}

	p2p_lock_take(&xfer->lock);
	if (mem.ops || op_receives(op))
		hello_trial(ep, mem.ops);
	ret = post_ready(xfer, &mem);
	if (!ret)
		ret = op_receives(op) ? post_recv(ep, op, &mem) : post_send(ep, op, &mem);
	if (ret == -FI_EAGAIN)
		xfer_progress_locked(xfer);
	p2p_lock_drop(&xfer->lock);
	return ret;
}

int xfer_ask_path(struct xfer_ep *ep, const struct p2p_op *op, struct path_choice *choice)
{
	struct path_query query;
	struct xfer_req *req;
	struct dev_mem mem;
	int ret;

	ret = mem_classify_untouched(op->msg.msg_iov, op->msg.iov_count, &mem);
	if (ret)
		return ret;
	*choice = (struct path_choice){FI_P2P_PATH_HOST, PATH_CORE, "host memory"};
	if (!mem.ops)
		return 0;
	p2p_lock_take(&ep->xfer->lock);
	req = xfer_req_new(ep, op, &mem);
	if (req) {
		query = post_query(ep, op, req->len);
		hello_query(ep, op->msg.addr, &query);
		*choice = pin_choose(req, &query);
		xfer_req_undo(req);
	}
	p2p_lock_drop(&ep->xfer->lock);
	if (!req)
		return -FI_EAGAIN;
	return choice->proto == PATH_NONE ? -FI_EOPNOTSUPP : 0;
}

/*
 * Checks that a write may be made durable. Only what is registered with FI_RMA_PMEM can be, and its owner is
 * asked then. Over a hook that is between the core and the application. 0 or -FI_EOPNOTSUPP
 */
static int post_check_commit(const struct xfer_ep *ep, uint64_t flags, bool owner)
{
	if (p2p_likely(!(flags & ep->ours & FI_COMMIT_COMPLETE)) || owner)
		return 0;
	P2P_WARN(
		"FI_COMMIT_COMPLETE: the remote memory was not registered with FI_RMA_PMEM, or this "
		"domain was opened without\n");
	return -FI_EOPNOTSUPP;
}

ssize_t xfer_post_rma(struct xfer_ep *ep, const struct p2p_op *op)
{
	struct xfer *xfer = ep->xfer;
	void **desc = op->rma.desc;
	bool owner = xfer_key_remote(xfer, op->rma.rma_iov->key);
	struct p2p_op plain;
	struct dev_mem mem;
	ssize_t ret;

	ret = post_classify(xfer, op->rma.msg_iov, op->rma.iov_count, NULL, &desc, &mem);
	if (ret)
		return ret;
	if (desc != op->rma.desc) {
		plain = *op;
		plain.rma.desc = desc;
		op = &plain;
	}
	p2p_lock_take(&xfer->lock);
	ret = owner && xfer->keys_ours ? hello_ready(ep, op->rma.addr) : 0;
	/* keys that the application chooses do not tell who runs what */
	if (ret == -FI_EOPNOTSUPP) {
		owner = false;
		ret = 0;
	}
	if (!ret && op->type == FI_OP_WRITE)
		ret = post_check_commit(ep, op->flags, owner);
	if (!ret)
		ret = post_ready(xfer, &mem);
	if (!ret && !owner)
		ret = rma_core_post(ep, op, &mem, &owner);
	if (!ret && owner)
		ret = rma_served_post(ep, op, &mem);
	if (ret == -FI_EAGAIN)
		xfer_progress_locked(xfer);
	p2p_lock_drop(&xfer->lock);
	return ret;
}

ssize_t xfer_post_atomic(struct xfer_ep *ep, const struct p2p_op *op)
{
	struct xfer *xfer = ep->xfer;
	bool owner = xfer_key_atomic_remote(xfer, op->atomic.rma_iov->key);
	ssize_t ret;

	p2p_lock_take(&xfer->lock);
	ret = post_check_commit(ep, op->atomic.op == FI_ATOMIC_READ ? 0 : op->flags, owner);
	if (!ret && cell_scarce(&xfer->cells))
		ret = -FI_EAGAIN;
	if (!ret)
		ret = owner ? rma_served_atomic(ep, op) : rma_core_atomic(ep, op);
	if (ret == -FI_EAGAIN)
		xfer_progress_locked(xfer);
	p2p_lock_drop(&xfer->lock);
	return ret;
}

/* Is this record about something that @ep has posted to @addr, and that has not ended? */
static bool post_is_before(const struct xfer_ctx *ctx, fi_addr_t addr)
{
	const struct xfer_req *req = (const struct xfer_req *) ctx;
	fi_addr_t to = rma_notice_addr(ctx);

	if (xfer_ctx_is_req(ctx)) {
		if (req->served || req->reported ||
		    !(req->done_flags & (FI_SEND | FI_READ | FI_WRITE)))
			return false;
		to = req->addr;
	}
	return to != FI_ADDR_NOTAVAIL && (addr == FI_ADDR_UNSPEC || addr == to);
}

/*
 * Nothing counts what is under way to a peer, as few ask. Who repeats the call makes progress by that, as with any that
 * there is no room for.
 */
ssize_t xfer_post_fence(struct xfer_ep *ep, fi_addr_t addr)
{
	const struct xfer_ctx *ctx;
	bool waits = false;

	p2p_lock_take(&ep->xfer->lock);
	for (ctx = LIST_FIRST(&ep->live); ctx && !waits; ctx = LIST_NEXT(ctx, live))
		waits = post_is_before(ctx, addr);
	if (waits)
		xfer_progress_locked(ep->xfer);
	p2p_lock_drop(&ep->xfer->lock);
	return waits ? -FI_EAGAIN : 0;
}

ssize_t xfer_cancel_locked(struct xfer_ep *ep, void *context)
{
	struct xfer_ctx *ctx = multi_recv_find(ep, context);

	xfer_assert_locked(ep->xfer);
	if (ctx)
		return fi_cancel(&ep->front.core->fid, ctx);
	LIST_FOREACH(ctx, &ep->live, live) {
		struct xfer_req *req = (struct xfer_req *) ctx;

		if (xfer_ctx_is_req(ctx) && req->done_flags & FI_RECV && !req->busy &&
		    req->context == context)
			return fi_cancel(&ep->front.core->fid, ctx);
	}
	return -FI_ENOENT;
}

ssize_t xfer_cancel(struct xfer_ep *ep, void *context)
{
	ssize_t ret;

	p2p_lock_take(&ep->xfer->lock);
	ret = xfer_cancel_locked(ep, context);
	p2p_lock_drop(&ep->xfer->lock);
	return ret;
}
