/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Remote memory that the other end reads out of a slot. See rma_lent.h. It is MOVING in rndv_lent.c.
 *
 *	initiator                                                        owner
 *	copies out
 *	ANNOUNCED            --- CALL(id, write, target, loan) --------> checks
 *	                     === the core reads this and other slots ==> MOVING, copies in
 *	ENDED                <----------------------------- DONE(id) --- ENDED
 *
 *	ASKING               --- CALL(id, read, target, length) -------> checks, copies out
 *	                     <---------- ANNOUNCE(new id, id, loan) ---- ANNOUNCED
 *	MOVING, copies in    <== the core reads this and other slots ===
 *	ENDED                --- DONE(new id) -------------------------> ENDED
 *
 * The bytes of a read could be written into a slot of the initiator's, which is one exchange less. But
 * a core may go on with a write when that memory is another peer's already. So peers are lent what they
 * may read, and nothing that they may write to.
 */
#include "proto/rma_lent.h"

#include <rdma/fi_errno.h>

#include "mem/mem.h"
#include "proto/rndv_send.h"
#include "xfer/ctrl.h"
#include "xfer/ep_state.h"
#include "xfer/peer.h"
#include "xfer/req_state.h"

void rma_lent_take(struct xfer_req *req)
{
	struct stage *stage = &req->ctx.ep->xfer->stage;

	xfer_assert_locked(req->ctx.ep->xfer);
	req->slot = rndv_slot(req, STAGE_WHOLE_OUT, req->len);
	if (!req->slot)
		return;
	if (stage_slot_lend(stage, req->slot, req->len)) {
		xfer_req_unstage(req, 0);
		return;
	}
	req->path.proto = PATH_LENT;
}

/* It has failed before the other end has heard of it. Who reads waits for an answer. */
static void rma_lent_fail(struct xfer_req *req, int status)
{
	struct wire_msg msg = {
		.type = WIRE_DONE,
		.to_sender = true,
		.id = req->target[0].key,
		.status = status,
	};

	if (req->served)
		ctrl_owed(req->peer, ctrl_tell(req->peer, &msg));
	req->transfer.status = status;
	rndv_send_end(req);
}

static void rma_lent_copied_out(struct copy *copy, int status)
{
	struct xfer_req *req = container_of(copy, struct xfer_req, copy);

	if (xfer_copy_ended(req->ctx.ep))
		return;
	/* its peer was lost meanwhile, and may be back */
	if (!status)
		status = -req->comp.err;
	if (!status)
		status = rndv_send_unmarked(req);
	if (status)
		rma_lent_fail(req, status);
}

int rma_lent_start(struct xfer_req *req)
{
	int ret;

	xfer_assert_locked(req->ctx.ep->xfer);
	req->transfer.send.wants_done = true;
	if (!req->mem.ops) {
		mem_gather(req->iov, req->count, req->slot->addr);
		return rndv_send_unmarked(req);
	}
	req->copy.done = rma_lent_copied_out;
	ret = xfer_copy_start(req->ctx.ep, &req->mem, COPY_OUT, req->iov, req->count,
			      req->slot->addr, &req->copy);
	if (ret)
		return ret;
	xfer_set_busy(req);
	xfer_req_move(req, XFER_COPYING);
	return 0;
}
