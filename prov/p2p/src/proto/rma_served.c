/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Remote memory that is reached by asking its owner: the initiator's side. See rma_served.h. What
 * is longer than WIRE_PAYLOAD_MAX travels as a long message.
 *
 *	initiator                                                        owner
 *	ASKING               --- CALL(id, write, target, bytes) -------> checks, writes
 *	ENDED                <--------------------- DONE(id, status) ---
 *
 *	ANNOUNCED            --- CALL(id, write, target, length) ------> checks, MATCHED
 *	ENDED                <-- TAKE(id, ...), pieces, DONE: rndv.c --- ENDED
 *
 *	ASKING               --- CALL(id, read, target, length) -------> checks, reads
 *	ENDED                <-------------- DONE(id, status, bytes) ---
 *
 *	ASKING               --- CALL(id, read, target, length) -------> checks
 *	MATCHED              <--------- ANNOUNCE(new id, id, length) --- ANNOUNCED
 *	ENDED                --- TAKE(new id, ...), pieces: rndv.c ----> ENDED
 *
 *	ASKING               --- CALL(id, op, target, operands) -------> checks, computes
 *	ENDED                <------ DONE(id, status, values before) ---
 *
 * CALL and ANNOUNCE of a long one may carry an offer: then the other end copies, as in
 * rndv_across.c. Or they lend it: rma_lent.c.
 *
 * What a short request takes along from device memory is copied to a slot first. The request goes
 * when that has ended. Requests of one endpoint to one owner leave in the order in which they were
 * posted. Another of this kind may be copied meanwhile, and goes behind the first; any other gets
 * -FI_EAGAIN until then.
 */
#include "proto/rma_served.h"

#include <rdma/fi_errno.h>

#include "base/amo.h"
#include "base/conf.h"
#include "xfer/ctrl.h"
#include "xfer/peer.h"
#include "base/log.h"
#include "base/trace.h"
#include "mem/mem.h"
#include "proto/hello.h"
#include "proto/hello_facts.h"
#include "xfer/pin.h"
#include "proto/proto_state.h"
#include "proto/rma_lent.h"
#include "proto/rma_notice.h"
#include "proto/rndv_pieces.h"
#include "proto/rndv_send.h"
#include "xfer/ep_state.h"
#include "xfer/req_state.h"
#include "xfer/region.h"

/* At most: the operands and the compare values of an atomic operation */
#define RMA_ASK_COPIES 2

/**
 * struct rma_ask - a request whose payload is being copied from device memory.
 * @ctx:	of the endpoint that asks
 * @msg:	the request, with its payload in @slot
 * @copying:	copies under way; @copies: they, and those that have ended
 * @status:	the first error
 */
struct rma_ask {
	struct xfer_ctx ctx;
	TAILQ_ENTRY(rma_ask) entry;
	struct xfer_req *req;
	struct wire_msg msg;
	struct stage_slot *slot;
	unsigned int copying;
	int status;
	struct rma_ask_copy {
		struct copy copy;
		struct rma_ask *ask;
	} copies[RMA_ASK_COPIES];
};

_Static_assert(sizeof(struct rma_ask) <= CELL_SIZE, "a request is a cell");

/* ---- asking ---- */

/* Fills a message with what the owner of the memory is asked for. */
static void rma_served_msg_init(const struct xfer_req *req, enum fi_op op, struct wire_msg *msg)
{
	*msg = (struct wire_msg){
		.type = WIRE_CALL,
		.op = (uint8_t) op,
		.len = req->len,
		.key = req->target->key,
		.addr = req->target->addr,
	};
	if (req->op_flags & FI_REMOTE_CQ_DATA) {
		msg->flags |= WIRE_HAS_DATA;
		msg->data = req->data & WIRE_USER_DATA_MASK;
	}
	if (op != FI_ATOMIC_READ && req->op_flags & FI_COMMIT_COMPLETE)
		msg->flags |= WIRE_COMMIT;
}

/* Sends a request that one message answers: DONE, or ANNOUNCE for a long read. */
static int rma_served_ask(struct xfer_req *req, struct wire_msg *msg)
{
	int ret;

	rndv_send_init(req);
	msg->id = req->transfer.id = xfer_id_new(req->ctx.ep->xfer);
	P2P_TRACE(req_id, req, msg->id);
	msg->front = msg->among = true;
	ret = ctrl_tell(req->peer, msg);
	if (ret)
		return ret;
	xfer_set_busy(req);
	xfer_req_move(req, XFER_ASKING);
	return 0;
}

/* ---- what a request takes along from device memory ---- */

/* Tells whether there is a request before this one to the same owner, or (@ask NULL) any. */
static bool rma_ask_before(const struct xfer_ep *ep, fi_addr_t addr, const struct rma_ask *ask)
{
	const struct rma_ask *other;

	TAILQ_FOREACH(other, &ep->xfer->proto->asking, entry) {
		if (other == ask)
			return false;
		if (other->ctx.ep == ep && other->req->addr == addr)
			return true;
	}
	return false;
}

/* Gives back the slot and the record of a request whose payload has been copied, or whose endpoint closes. */
static void rma_ask_free(struct xfer_ctx *ctx)
{
	struct rma_ask *ask = (struct rma_ask *) ctx;
	struct xfer *xfer = ctx->ep->xfer;

	TAILQ_REMOVE(&xfer->proto->asking, ask, entry);
	stage_slot_put(&xfer->stage, ask->slot);
	xfer_ctx_free(ctx);
}

/* Sends the owner a request whose payload is complete; or ends it, if the copy has failed. */
static void rma_ask_send(struct rma_ask *ask)
{
	struct xfer_req *req = ask->req;
	int status = ask->status;

	/* its peer was lost meanwhile, and may be back */
	if (!status)
		status = -req->comp.err;
	if (!status)
		status = rma_served_ask(req, &ask->msg);
	rma_ask_free(&ask->ctx);
	if (!status)
		return;
	req->comp = (struct core_comp){.flags = req->done_flags, .src = FI_ADDR_NOTAVAIL};
	xfer_req_end(req, -status);
}

/* Sends requests whose payload is complete, unless one before them to the same owner is not. */
static void rma_ask_flush(struct xfer *xfer)
{
	struct rma_ask *ask, *next;

	for (ask = TAILQ_FIRST(&xfer->proto->asking); ask; ask = next) {
		next = TAILQ_NEXT(ask, entry);
		if (!ask->copying && !rma_ask_before(ask->ctx.ep, ask->req->addr, ask))
			rma_ask_send(ask);
	}
}

/* Notes that a payload's copy has ended; behind the last one, sends what may go. */
static void rma_ask_copied(struct copy *copy, int status)
{
	struct rma_ask *ask = container_of(copy, struct rma_ask_copy, copy)->ask;
	struct xfer *xfer = ask->ctx.ep->xfer;

	if (xfer_copy_ended(ask->ctx.ep))
		return;
	if (status && !ask->status)
		ask->status = status;
	if (!--ask->copying)
		rma_ask_flush(xfer);
}

/* Makes a record for @req with room for a payload; NULL: not now */
static struct rma_ask *rma_ask_new(struct xfer_req *req, const struct wire_msg *msg)
{
	struct xfer_ep *ep = req->ctx.ep;
	struct xfer *xfer = ep->xfer;
	struct rma_ask *ask = cell_get(&xfer->cells);
	struct stage_slot *slot =
		ask ? stage_slot_get(&xfer->stage, STAGE_COPY, WIRE_PAYLOAD_MAX, NULL) : NULL;

	if (!slot) {
		if (ask)
			cell_put(&xfer->cells, ask);
		return NULL;
	}
	ask->req = req;
	ask->msg = *msg;
	ask->msg.payload = slot->addr;
	ask->msg.payload_len = 0;
	ask->slot = slot;
	ask->copying = 0;
	ask->status = 0;
	xfer_ctx_init(&ask->ctx, ep, NULL, rma_ask_free);
	TAILQ_INSERT_TAIL(&xfer->proto->asking, ask, entry);
	return ask;
}

/* Adds a buffer to the payload. An error is told when the copies before it have ended. */
static void rma_ask_add(struct rma_ask *ask, const struct core_array *array)
{
	struct rma_ask_copy *copy = &ask->copies[ask->copying];
	char *at = (char *) ask->slot->addr + ask->msg.payload_len;
	int ret;

	ask->msg.payload_len += array->len;
	if (!array->mem.ops) {
		mem_gather(array->iov, array->count, at);
		return;
	}
	copy->ask = ask;
	copy->copy.done = rma_ask_copied;
	ret = xfer_copy_start(ask->ctx.ep, &array->mem, COPY_OUT, array->iov, array->count, at,
			      &copy->copy);
	if (!ret)
		ask->copying++;
	else if (!ask->status)
		ask->status = ret;
}

/* Sends a payload that is complete, or leaves it to its copies: 0, or an error when nothing is under way */
static int rma_ask_begin(struct rma_ask *ask)
{
	int status = ask->status;

	if (!ask->copying) {
		rma_ask_free(&ask->ctx);
		return status;
	}
	xfer_set_busy(ask->req);
	xfer_req_move(ask->req, XFER_COPYING);
	return 0;
}

/* Sends a request with its payload: at once, or once that has been copied from device memory (@copies) */
static int rma_served_send(struct xfer_req *req, struct wire_msg *msg,
			   const struct core_array *operand, const struct core_array *compare,
			   bool copies)
{
	struct xfer *xfer = req->ctx.ep->xfer;
	char payload[WIRE_PAYLOAD_MAX];
	struct rma_ask *ask;
	int ret;

	if (copies) {
		ask = rma_ask_new(req, msg);
		if (!ask)
			return -FI_EAGAIN;
		rma_ask_add(ask, operand);
		rma_ask_add(ask, compare);
		return rma_ask_begin(ask);
	}
	ret = xfer_copy_now(xfer, &operand->mem, operand->iov, operand->count, payload);
	if (!ret)
		ret = xfer_copy_now(xfer, &compare->mem, compare->iov, compare->count,
				    payload + operand->len);
	if (ret)
		return ret;
	msg->payload = payload;
	msg->payload_len = operand->len + compare->len;
	return rma_served_ask(req, msg);
}

/* FI_INJECT: the buffer is the user's again when the call returns. */
static int rma_served_inject(struct xfer_req *req)
{
	int ret;

	req->reserve = stage_reserve_get(&req->ctx.ep->xfer->stage, req->len);
	if (!req->reserve)
		return -FI_ENOMEM;
	ret = xfer_copy_now(req->ctx.ep->xfer, &req->mem, req->iov, req->count,
			    req->reserve->addr);
	req->iov[0] = (struct iovec){req->reserve->addr, req->len};
	req->count = 1;
	req->mem.ops = NULL;
	return ret;
}

static struct path_query rma_served_query(const struct xfer_req *req)
{
	const struct xfer_ep *ep = req->ctx.ep;
	const struct xfer_peer *peer = req->peer ? req->peer : xfer_peer_find(ep, req->addr);
	const struct stage *stage = &ep->xfer->stage;
	enum path_policy policy = PATH_NO_NIC;

	if (!req->mem.ops)
		policy = PATH_STAGE_ONLY;
	else if (ep->policy == PATH_ACROSS_LONG || ep->policy == PATH_STAGE_ONLY)
		policy = ep->policy;
	return (struct path_query){
		.announced = true,
		.len = req->len,
		.short_max = conf.eager_size,
		.plain_max = WIRE_PAYLOAD_MAX,
		.slot = stage_slot_free(stage, STAGE_WHOLE_OUT, req->len, NULL),
		.unnamed = ep->front.name_len > WIRE_NAME_MAX,
		.policy = policy,
		.pieces = req->count,
		.near = ep->quirks & QUIRK_NEAR,
		.refuses = !hello_takes_offers(peer),
		.asked = true,
		.lends = peer->facts & HELLO_BORROWS && !(peer->facts & HELLO_WHOLE) &&
			 stage_can_lend(stage, req->len),
	};
}

int rma_served_offer(struct xfer_req *req)
{
	struct path_choice choice;
	struct path_query query;

	xfer_assert_locked(req->ctx.ep->xfer);
	if (req->len <= WIRE_PAYLOAD_MAX)
		return 0;
	rndv_send_init(req);
	if (req->op_flags & FI_INJECT)
		return 0;
	query = rma_served_query(req);
	choice = pin_choose(req, &query);
	if (choice.proto == PATH_ACROSS)
		req->path = choice;
	else if (choice.proto == PATH_LENT)
		rma_lent_take(req);
	if (choice.proto != PATH_NONE)
		return 0;
	P2P_WARN("%zu bytes from %s device %d may not be staged: %s\n", req->len,
		 req->mem.ops->name, req->mem.ordinal, choice.reason);
	return -FI_EOPNOTSUPP;
}

/* Tells whether the buffer of a short request is copied before the request goes. */
static bool rma_served_copies(uint64_t flags, const struct dev_mem *mem, size_t len)
{
	return mem->ops && len && len <= WIRE_PAYLOAD_MAX && !(flags & FI_INJECT);
}

/* Begins a write that its target's owner serves: in a control message, lent, or in pieces. */
static int rma_served_write(struct xfer_req *req)
{
	struct core_array operand = {.count = req->count, .len = req->len, .mem = req->mem};
	const struct core_array none = {.count = 0};
	struct wire_msg msg;
	int ret = 0;

	if (req->path.proto == PATH_LENT)
		return rma_lent_start(req);
	if (req->len > WIRE_PAYLOAD_MAX) {
		if (req->op_flags & FI_INJECT)
			ret = rma_served_inject(req);
		return ret ? ret : rndv_send_unmarked(req);
	}
	rma_served_msg_init(req, FI_ATOMIC_WRITE, &msg);
	memcpy(operand.iov, req->iov, req->count * sizeof *req->iov);
	return rma_served_send(req, &msg, &operand, &none,
			       rma_served_copies(req->op_flags, &req->mem, req->len));
}

static int rma_served_read(struct xfer_req *req)
{
	struct wire_msg msg;

	rma_served_msg_init(req, FI_ATOMIC_READ, &msg);
	msg.flags |= WIRE_FETCH;
	return rma_served_ask(req, &msg);
}

ssize_t rma_served_post(struct xfer_ep *ep, const struct p2p_op *op, const struct dev_mem *mem)
{
	struct path_choice choice;
	struct xfer_req *req;
	size_t len;
	int ret;

	xfer_assert_locked(ep->xfer);
	if (op->rma.rma_iov_count != 1) {
		P2P_WARN("%zu pieces of remote memory: one is offered (rma_iov_limit)\n",
			 op->rma.rma_iov_count);
		return -FI_EINVAL;
	}
	len = mem_iov_len(op->rma.msg_iov, op->rma.iov_count);
	if ((op->type == FI_OP_READ || !rma_served_copies(op->flags, mem, len)) &&
	    rma_ask_before(ep, op->rma.addr, NULL))
		return -FI_EAGAIN;
	ret = hello_ready(ep, op->rma.addr);
	if (ret)
		return ret;
	req = rma_notice_req(ep, op, mem);
	if (!req)
		return -FI_EAGAIN;
	req->path.reason = "its owner is asked for the remote memory";
	ret = mem->ops ? 0 : pin_host(req, op->rma.desc, false);
	if (!ret && op->type == FI_OP_WRITE)
		ret = rma_served_offer(req);
	choice = req->path;
	if (!ret)
		ret = op->type == FI_OP_READ ? rma_served_read(req) : rma_served_write(req);
	if (ret) {
		xfer_req_undo(req);
		return ret;
	}
	/* what was offered is counted when it is known whether it was taken */
	if (op->type == FI_OP_WRITE && !path_offers(choice.proto))
		xfer_ep_sent(ep, &choice, len);
	return 0;
}

size_t rma_served_atomic_max(enum fi_datatype datatype)
{
	return RMA_SERVED_ATOMIC_MAX / amo_size(datatype);
}

ssize_t rma_served_atomic(struct xfer_ep *ep, const struct p2p_op *op)
{
	struct core_array operand, compare, result;
	const struct dev_mem *device;
	struct wire_msg msg;
	struct xfer_req *req;
	bool copies;
	size_t len;
	int ret;

	xfer_assert_locked(ep->xfer);
	ret = core_atomic_arrays(op, &operand, &compare, &result, &len);
	if (ret)
		return ret;
	if (len > RMA_SERVED_ATOMIC_MAX || op->atomic.rma_iov_count != 1) {
		P2P_WARN("an atomic operation on %zu bytes in %zu pieces of remote memory: at "
			 "most %d are offered, in one piece\n",
			 len, op->atomic.rma_iov_count, RMA_SERVED_ATOMIC_MAX);
		return -FI_EINVAL;
	}
	device = core_atomic_device(&operand, &compare, &result);
	ret = device ? xfer_ready(ep->xfer, device) : 0;
	if (ret)
		return ret;
	copies = rma_served_copies(op->flags, &operand.mem, operand.len) ||
		 rma_served_copies(op->flags, &compare.mem, compare.len);
	if (!copies && rma_ask_before(ep, op->atomic.addr, NULL))
		return -FI_EAGAIN;
	ret = hello_ready(ep, op->atomic.addr);
	if (ret)
		return ret;
	req = xfer_req_new_atomic(ep, op, &result);
	if (!req)
		return -FI_EAGAIN;
	rma_served_msg_init(req, op->atomic.op, &msg);
	msg.len = len;
	msg.datatype = op->atomic.datatype;
	msg.flags |= (op->fetch.iov_count ? WIRE_FETCH : 0) |
		     (op->compare.iov_count ? WIRE_COMPARE : 0);
	ret = rma_served_send(req, &msg, &operand, &compare, copies);
	if (ret)
		xfer_req_undo(req);
	return ret;
}

/* ---- the answer ---- */

static void rma_served_result_copied(struct copy *copy, int status)
{
	struct xfer_req *req = container_of(copy, struct xfer_req, copy);

	if (!rndv_copied(req))
		return;
	req->transfer.in_flight--;
	if (!req->transfer.status)
		req->transfer.status = status;
	rndv_send_end(req);
}

/*
 * Copies what has come to the user's buffer. Without a slot it goes by way of ordinary memory, which
 * the driver reads before the call returns.
 */
static int rma_served_result_copy(struct xfer_req *req, const struct wire_msg *msg)
{
	struct stage *stage = &req->ctx.ep->xfer->stage;
	int ret;

	req->slot = stage_slot_get(stage, STAGE_COPY, msg->payload_len, NULL);
	req->reserve = req->slot ? NULL : stage_reserve_get(stage, msg->payload_len);
	if (!req->slot && !req->reserve)
		return -FI_ENOMEM;
	memcpy(stage_place_of(req->slot, req->reserve).addr, msg->payload, msg->payload_len);
	req->copy.done = rma_served_result_copied;
	ret = rndv_copy(req, COPY_IN, req->iov, req->count,
			stage_place_of(req->slot, req->reserve).addr, &req->copy);
	if (!ret)
		req->transfer.in_flight++;
	return ret;
}

void rma_served_result(struct xfer_ep *ep, struct xfer_req *req, const struct wire_msg *msg)
{
	int status = msg->status;

	xfer_assert_locked(ep->xfer);
	if (!status && msg->payload_len != (req->recv ? req->len : 0)) {
		P2P_WARN("an answer of %zu bytes where %zu were asked for\n", msg->payload_len,
			 req->len);
		status = -FI_EIO;
	}
	xfer_req_move(req, XFER_ENDING);
	if (!status && req->mem.ops && msg->payload_len) {
		status = rma_served_result_copy(req, msg);
		if (!status)
			return;
	} else if (!status && req->recv) {
		mem_scatter(req->iov, req->count, msg->payload);
	}
	req->transfer.status = status;
	rndv_send_end(req);
}
