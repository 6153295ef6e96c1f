/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Remote memory reached by asking its owner. See rma_served.h. */
#include "proto/rma_served.h"

#include <rdma/fi_errno.h>

#include "base/amo.h"
#include "xfer/ctrl.h"
#include "base/log.h"
#include "xfer/ep_state.h"
#include "xfer/reports.h"
#include "mem/mem.h"
#include "xfer/pin.h"
#include "proto/proto.h"
#include "proto/rndv_choose.h"
#include "proto/rndv_send.h"
#include "xfer/region.h"
#include "xfer/req_state.h"

/* Operands and compare values share one payload. */
#define RMA_SERVED_ATOMIC_MAX (WIRE_PAYLOAD_MAX / 2)

/* ---- asking ---- */

static void rma_served_msg_init(const struct xfer_req *req, enum wire_type type,
				struct wire_msg *msg)
{
	struct xfer_ep *ep = req->ctx.ep;

	*msg = (struct wire_msg){
		.type = type,
		.len = req->len,
		.key = req->target->key,
		.addr = req->target->addr,
		.name = ep->name,
		.name_len = ep->name_len,
	};
	/* no message that has no receive here may be in the way of what ends it */
	if (type == WIRE_WRITE)
		ctrl_sign(ep, msg);
	if (req->op_flags & FI_REMOTE_CQ_DATA) {
		msg->flags |= WIRE_HAS_DATA;
		msg->data = req->data & WIRE_USER_DATA_MASK;
	}
}

/* Sends a request that one message answers: FIN, RESULT, or SUPPLY for a long read. */
static int rma_served_ask(struct xfer_req *req, struct wire_msg *msg, enum xfer_state asking)
{
	int ret;

	xfer_transfer_init(req);
	msg->id = req->transfer.id = xfer_id_new(req->ctx.ep->xfer);
	ret = ctrl_send(req->ctx.ep, req->addr, msg);
	if (ret)
		return ret;
	xfer_set_busy(req);
	xfer_req_move(req, asking);
	return 0;
}

/* FI_INJECT: the buffer is the user's again when the call returns. */
static int rma_served_inject(struct xfer_req *req)
{
	int ret;

	req->reserve = stage_reserve_get(&req->ctx.ep->xfer->stage, req->len);
	if (!req->reserve)
		return -FI_ENOMEM;
	ret = mem_gather(&req->mem, req->iov, req->count, req->reserve->addr);
	req->iov[0] = (struct iovec){req->reserve->addr, req->len};
	req->count = 1;
	req->mem.ops = NULL;
	return ret;
}

/*
 * What is too long for one control message is offered to the other end, where that may be of
 * use. 0, or -FI_EOPNOTSUPP when it has to be and cannot (logged)
 */
static int rma_served_offer(struct xfer_req *req)
{
	const struct xfer_ep *ep = req->ctx.ep;
	struct path_query query = {
		.device = true,
		.layered = true,
		.len = req->len,
		.plain_max = WIRE_PAYLOAD_MAX,
		.name_len = ep->name_len,
		.name_max = WIRE_NAME_MAX,
		.wish = ep->wish == PATH_ACROSS_LONG || ep->wish == PATH_STAGE_ONLY
				? ep->wish
				: PATH_NO_NIC,
		.pieces = req->count,
		.near = ep->near,
	};
	struct path_choice choice;

	if (!req->mem.ops || req->len <= WIRE_PAYLOAD_MAX || req->op_flags & FI_INJECT)
		return 0;
	choice = pin_choose(req, &query);
	if (choice.proto == PATH_ACROSS)
		req->path = choice;
	if (choice.proto != PATH_NONE)
		return 0;
	P2P_WARN("%zu bytes from %s device %d may not be staged: %s\n", req->len,
		 req->mem.ops->name, req->mem.ordinal, choice.reason);
	return -FI_EOPNOTSUPP;
}

static int rma_served_write(struct xfer_req *req)
{
	char payload[WIRE_PAYLOAD_MAX];
	struct wire_msg msg;
	int ret = 0;

	if (req->len > WIRE_PAYLOAD_MAX) {
		if (req->op_flags & FI_INJECT)
			ret = rma_served_inject(req);
		return ret ? ret
			   : rndv_send_unmarked(req, WIRE_WRITE, req->target->key,
						req->target->addr);
	}
	ret = mem_gather(&req->mem, req->iov, req->count, payload);
	if (ret)
		return ret;
	rma_served_msg_init(req, WIRE_WRITE, &msg);
	msg.payload = payload;
	msg.payload_len = req->len;
	return rma_served_ask(req, &msg, XFER_ASKING_FIN);
}

static int rma_served_read(struct xfer_req *req)
{
	struct wire_msg msg;

	rma_served_msg_init(req, WIRE_READ, &msg);
	return rma_served_ask(req, &msg,
			      req->len > WIRE_PAYLOAD_MAX ? XFER_ASKING_BYTES
							  : XFER_ASKING_RESULT);
}

ssize_t rma_served_post(struct xfer_ep *ep, const struct core_rma *op,
			const struct dev_mem *mem)
{
	struct path_choice choice;
	struct xfer_req *req;
	size_t len;
	int ret;

	if (op->remotes != 1) {
		P2P_WARN("%zu pieces of remote memory: one is offered (rma_iov_limit)\n",
			 op->remotes);
		return -FI_EINVAL;
	}
	req = xfer_req_new_rma(ep, op, mem);
	if (!req)
		return -FI_EAGAIN;
	req->path.reason = "its owner is asked for the remote memory";
	len = req->len;
	ret = mem->ops ? 0 : pin_host(req, op->desc, false);
	if (!ret && !op->read)
		ret = rma_served_offer(req);
	choice = req->path;
	if (!ret)
		ret = op->read ? rma_served_read(req) : rma_served_write(req);
	if (ret) {
		xfer_req_undo(req);
		return ret;
	}
	/* what was offered is counted when it is known whether it was taken */
	if (!op->read && !path_offers(choice.proto))
		xfer_ep_sent(ep, &choice, len);
	return 0;
}

size_t rma_served_atomic_max(enum fi_datatype datatype)
{
	return RMA_SERVED_ATOMIC_MAX / amo_size(datatype);
}

ssize_t rma_served_atomic(struct xfer_ep *ep, const struct core_atomic *op)
{
	struct core_array operand, compare, result;
	char payload[WIRE_PAYLOAD_MAX];
	struct wire_msg msg;
	struct xfer_req *req;
	size_t len;
	int ret;

	ret = core_atomic_arrays(op, &operand, &compare, &result, &len);
	if (ret)
		return ret;
	if (len > RMA_SERVED_ATOMIC_MAX || op->remotes != 1) {
		P2P_WARN("an atomic operation on %zu bytes in %zu pieces of remote memory: at "
			 "most %d are offered, in one piece\n",
			 len, op->remotes, RMA_SERVED_ATOMIC_MAX);
		return -FI_EINVAL;
	}
	req = xfer_req_new_atomic(ep, op, &result);
	if (!req)
		return -FI_EAGAIN;
	rma_served_msg_init(req, WIRE_ATOMIC, &msg);
	msg.len = len;
	msg.op = op->op;
	msg.datatype = op->datatype;
	msg.payload = payload;
	if (op->results)
		msg.flags |= WIRE_FETCH;
	if (op->op != FI_ATOMIC_READ) {
		ret = mem_gather(&operand.mem, operand.iov, operand.count, payload);
		msg.payload_len = len;
	}
	if (!ret && op->compares) {
		msg.flags |= WIRE_COMPARE;
		ret = mem_gather(&compare.mem, compare.iov, compare.count, payload + len);
		msg.payload_len += len;
	}
	if (!ret)
		ret = rma_served_ask(req, &msg, XFER_ASKING_RESULT);
	if (ret)
		xfer_req_undo(req);
	return ret;
}

/* The answer to a request of ours */
static void rma_served_result(struct xfer_ep *ep, struct xfer_req *req,
			      const struct wire_msg *msg)
{
	int status = msg->status;

	if (!status && msg->payload_len != (req->recv ? req->len : 0)) {
		P2P_WARN("an answer of %zu bytes where %zu were asked for\n", msg->payload_len,
			 req->len);
		status = -FI_EIO;
	}
	if (!status && msg->payload_len)
		status = mem_scatter(&req->mem, req->iov, req->count, msg->payload);
	req->transfer.status = status;
	rndv_send_end(req);
}

/* ---- serving ---- */

/* What a peer asks for, found here */
struct rma_served_reach {
	struct region *region;
	struct iovec iov[P2P_IOV_MAX];
	size_t count;
	struct dev_mem mem;
};

static void rma_served_answer(struct xfer_ep *ep, fi_addr_t addr, enum wire_type type,
			      const struct wire_msg *request, int status, const void *payload,
			      size_t len)
{
	const struct wire_msg msg = {
		.type = type,
		.id = request->id,
		.status = status,
		.payload = payload,
		.payload_len = status ? 0 : len,
	};

	ctrl_send(ep, addr, &msg);
}

/* A request that serves a peer; its buffer is what @reach has found. */
static struct xfer_req *rma_served_req_new(struct xfer_ep *ep, fi_addr_t addr,
					   const struct wire_msg *msg,
					   const struct rma_served_reach *reach)
{
	const struct core_op local = {
		.recv = msg->type == WIRE_WRITE,
		.iov = reach->iov,
		.count = reach->count,
		.addr = addr,
		.flags = msg->flags & WIRE_HAS_DATA ? FI_COMPLETION : 0,
	};
	struct xfer_req *req;

	if (reach->mem.ops && stage_ready(&ep->xfer->stage, &reach->mem))
		return NULL;
	req = xfer_req_new(ep, &local, &reach->mem);
	if (!req)
		return NULL;
	if (!req->mem.ops && pin_host(req, NULL, false)) {
		xfer_req_undo(req);
		return NULL;
	}
	req->served = true;
	req->done_flags = FI_RMA | (local.recv ? FI_REMOTE_WRITE : FI_REMOTE_READ);
	req->region = reach->region;
	region_hold(reach->region);
	return req;
}

/* A short write is done: the application hears of it if it came with data. */
static void rma_served_written(struct xfer_ep *ep, const struct wire_msg *msg)
{
	const struct core_comp comp = {
		.flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA,
		.len = msg->len,
		.data = msg->data,
		.src = FI_ADDR_NOTAVAIL,
	};

	xfer_ep_count(ep, FI_REMOTE_WRITE, 0);
	if (msg->flags & WIRE_HAS_DATA && ep->rxcq)
		xfer_cq_report(ep->rxcq, &comp);
}

/* @via, @addr: between which endpoints the answer travels */
static void rma_served_serve_write(struct xfer_ep *ep, struct xfer_ep *via, fi_addr_t addr,
				   const struct wire_msg *msg)
{
	struct rma_served_reach reach;
	struct xfer_req *req;
	int ret;

	ret = region_reach(ep->xfer, msg->key, msg->addr, msg->len, FI_REMOTE_WRITE,
			   &reach.region, reach.iov, &reach.count, &reach.mem);
	if (!ret && msg->len > WIRE_PAYLOAD_MAX) {
		req = rma_served_req_new(ep, addr, msg, &reach);
		if (req) {
			rndv_recv_unmarked(req, msg);
			return;
		}
		ret = -FI_ENOMEM;
	}
	if (!ret)
		ret = mem_scatter(&reach.mem, reach.iov, reach.count, msg->payload);
	if (!ret)
		rma_served_written(ep, msg);
	rma_served_answer(via, addr, WIRE_FIN, msg, ret, NULL, 0);
}

static void rma_served_serve_read(struct xfer_ep *ep, fi_addr_t addr,
				  const struct wire_msg *msg)
{
	char payload[WIRE_PAYLOAD_MAX];
	struct rma_served_reach reach;
	struct xfer_req *req;
	int ret;

	ret = region_reach(ep->xfer, msg->key, msg->addr, msg->len, FI_REMOTE_READ,
			   &reach.region, reach.iov, &reach.count, &reach.mem);
	if (!ret && msg->len > WIRE_PAYLOAD_MAX) {
		req = rma_served_req_new(ep, addr, msg, &reach);
		ret = req ? rma_served_offer(req) : -FI_ENOMEM;
		if (!ret)
			ret = rndv_send_unmarked(req, WIRE_SUPPLY, msg->id, 0);
		if (!ret)
			return;
		if (req)
			xfer_req_undo(req);
	}
	if (!ret)
		ret = mem_gather(&reach.mem, reach.iov, reach.count, payload);
	if (!ret)
		xfer_ep_count(ep, FI_REMOTE_READ, 0);
	rma_served_answer(ep, addr, WIRE_RESULT, msg, ret, payload, msg->len);
}

/* Operands that do not fit each other, or the operation */
static bool rma_served_atomic_bad(const struct wire_msg *msg)
{
	size_t size = amo_size(msg->datatype);
	bool compare = msg->flags & WIRE_COMPARE;
	size_t arrays = (msg->op != FI_ATOMIC_READ) + compare;

	return !amo_valid(msg->datatype, msg->op, compare) || !msg->len || msg->len % size ||
	       msg->len > RMA_SERVED_ATOMIC_MAX || msg->payload_len != arrays * msg->len;
}

static uint64_t rma_served_atomic_access(const struct wire_msg *msg)
{
	return (msg->op == FI_ATOMIC_READ ? 0 : FI_REMOTE_WRITE) |
	       (msg->flags & WIRE_FETCH ? FI_REMOTE_READ : 0);
}

static void rma_served_serve_atomic(struct xfer_ep *ep, fi_addr_t addr,
				    const struct wire_msg *msg)
{
	char before[RMA_SERVED_ATOMIC_MAX], now[RMA_SERVED_ATOMIC_MAX];
	struct rma_served_reach reach;
	int ret = -FI_EINVAL;

	if (rma_served_atomic_bad(msg))
		P2P_WARN("a peer asks for an atomic operation %d on type %d that is none\n",
			 msg->op, msg->datatype);
	else
		ret = region_reach(ep->xfer, msg->key, msg->addr, msg->len,
				   rma_served_atomic_access(msg), &reach.region, reach.iov,
				   &reach.count, &reach.mem);
	if (!ret)
		ret = mem_gather(&reach.mem, reach.iov, reach.count, before);
	if (!ret && msg->op != FI_ATOMIC_READ) {
		memcpy(now, before, msg->len);
		amo_apply(msg->datatype, msg->op, msg->len / amo_size(msg->datatype), now,
			  msg->payload,
			  msg->flags & WIRE_COMPARE ? (const char *) msg->payload + msg->len
						    : NULL);
		ret = mem_scatter(&reach.mem, reach.iov, reach.count, now);
	}
	if (!ret)
		xfer_ep_count(ep, msg->flags & WIRE_FETCH ? FI_REMOTE_READ : FI_REMOTE_WRITE,
			      0);
	rma_served_answer(ep, addr, WIRE_RESULT, msg, ret, before,
			  msg->flags & WIRE_FETCH ? msg->len : 0);
}

static void rma_served_serve(struct xfer_ep *ep, struct xfer_req *req,
			     const struct wire_msg *msg)
{
	struct xfer_ep *via = msg->type == WIRE_WRITE ? ctrl_answering(ep, msg->flags) : ep;
	fi_addr_t addr;

	if (via->resolve(via, msg->name, msg->name_len, &addr)) {
		P2P_WARN("a request from a peer whose address cannot be used is dropped\n");
		return;
	}
	if (msg->type == WIRE_WRITE)
		rma_served_serve_write(ep, via, addr, msg);
	else if (msg->type == WIRE_READ)
		rma_served_serve_read(ep, addr, msg);
	else
		rma_served_serve_atomic(ep, addr, msg);
}

/* The answer to a long read */
static void rma_served_supplied(struct xfer_ep *ep, struct xfer_req *req,
				const struct wire_msg *msg)
{
	if (msg->len == req->len)
		rndv_recv_unmarked(req, msg);
	else
		P2P_WARN("%zu bytes are supplied where %zu were asked for\n", (size_t) msg->len,
			 req->len);
}

const struct xfer_proto rma_served_proto = {
	.name = "RMA by its owner",
	.message =
		{
			[WIRE_WRITE] = rma_served_serve,
			[WIRE_READ] = rma_served_serve,
			[WIRE_ATOMIC] = rma_served_serve,
			[WIRE_SUPPLY] = rma_served_supplied,
			[WIRE_RESULT] = rma_served_result,
		},
};
