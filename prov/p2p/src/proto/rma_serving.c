/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Remote memory at its owner: what peers ask for, one job a request. See rma_served.h;
 * rma_served.c has the diagrams. A job copies between a slot and the device; for an atomic operation
 * the CPU computes between two copies.
 *
 * Copies are asynchronous, and an answer goes when its last copy has ended: nothing here waits. The
 * jobs of a domain form one list, in the order in which they came, from all endpoints and peers.
 * What is kept of that order:
 * - Of two jobs on overlapping memory, at least one of which writes, the second one touches it when
 *   the first one has ended. Only two writes to one device may be under way there together, in a
 *   queue that keeps order.
 * - Writes happen in order, whatever memory they are to: who sees the second one sees the first.
 * - So an atomic operation is atomic against all others, and against short reads and writes.
 * Everything else runs side by side: reads, writes to one device one behind the other, the reading
 * part of atomic operations on other memory. Host memory takes its turn, too, and ends at once.
 * A long request takes its turn to begin; its pieces are not in the list and keep no order.
 *
 * A job takes a slot as soon as one is free and no job before it lacks one. The first job of the
 * list never waits for another, so slots come back (stage.h).
 */
#include <rdma/fi_errno.h>

#include "base/amo.h"
#include "base/log.h"
#include "mem/mem.h"
#include "proto/rma_served.h"
#include "proto/proto.h"
#include "proto/proto_state.h"
#include "proto/rma_lent.h"
#include "proto/rndv_choose.h"
#include "proto/rndv_send.h"
#include "xfer/ep_state.h"
#include "xfer/ctrl.h"
#include "xfer/peer.h"
#include "xfer/pin.h"
#include "xfer/region.h"
#include "xfer/reports.h"
#include "xfer/req_state.h"

/* Jobs that are looked at, from the first of the list on: the others wait */
#define RMA_JOBS 64

/* Where in its slot a job has what came with the request, the memory as it was, and as it will be */
#define RMA_JOB_BEFORE WIRE_PAYLOAD_MAX
#define RMA_JOB_AFTER (RMA_JOB_BEFORE + RMA_SERVED_ATOMIC_MAX)
#define RMA_JOB_SLOT (RMA_JOB_AFTER + RMA_SERVED_ATOMIC_MAX)

enum rma_job_state {
	RMA_JOB_WAITS,   /* for a slot, or for its turn */
	RMA_JOB_READS,   /* the copy out is under way */
	RMA_JOB_KNOWS,   /* what it will write, and waits for its turn to write */
	RMA_JOB_WRITES,  /* the copy in is under way */
	RMA_JOB_COMMITS, /* what it has written is made durable: it is in nobody's way */
};

/* What a peer asks for, found here */
struct rma_reach {
	struct region *region;
	struct iovec iov[P2P_IOV_MAX];
	size_t count;
	struct dev_mem mem;
};

/**
 * struct rma_job - one request.
 * @ctx:	of the endpoint that was asked
 * @peer:	who asks
 * @msg:	the request. Where its payload lies: in @slot, in @reserve as long as there is no slot,
 *		or in the message that came
 * @reads, @writes: what it does to the memory
 * @epoch:	the peer's when it asked
 * @kept:	it has outlived the message
 * @commits:	what it writes is to be durable before it ends
 */
struct rma_job {
	struct xfer_ctx ctx;
	TAILQ_ENTRY(rma_job) entry;
	enum rma_job_state state;
	bool reads;
	bool writes;
	bool kept;
	bool commits;
	struct xfer_peer *peer;
	uint64_t epoch;
	struct wire_msg msg;
	struct rma_reach reach;
	struct stage_slot *slot;
	struct stage_reserve *reserve;
	struct copy copy;
	struct flush flush;
};

_Static_assert(sizeof(struct rma_job) <= CELL_SIZE, "a job is a cell");

/* ---- ending ---- */

/* Tells whether a peer's request is too long for one message, so that a transfer serves it. */
static bool rma_job_long(const struct rma_job *job)
{
	return job->msg.len > WIRE_PAYLOAD_MAX;
}

/* Tells the peer how its request has ended, with the bytes that it asked for. */
static void rma_job_answer(const struct rma_job *job, int status, const void *payload)
{
	struct wire_msg msg = {
		.type = WIRE_DONE,
		.to_sender = true,
		.id = job->msg.id,
		.status = status,
		.payload = payload,
		.payload_len = !status && job->msg.flags & WIRE_FETCH ? job->msg.len : 0,
		.among = true,
	};

	ctrl_owed(job->peer, ctrl_tell(job->peer, &msg));
}

/* Reports a short write to the application if it came with data. */
static void rma_job_written(const struct rma_job *job)
{
	struct xfer_ep *ep = job->ctx.ep;
	const struct core_comp comp = {
		.flags = FI_RMA | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA,
		.len = job->msg.len,
		.data = job->msg.data,
		.src = FI_ADDR_NOTAVAIL,
	};

	if (job->msg.flags & WIRE_HAS_DATA && ep->rxcq)
		xfer_cq_report(ep->rxcq, &comp);
}

/* Ends a job: gives back its slot, its hold on the region, and its record. If its endpoint closes no copy is under way. */
static void rma_job_free(struct xfer_ctx *ctx)
{
	struct rma_job *job = (struct rma_job *) ctx;
	struct xfer *xfer = ctx->ep->xfer;

	if (job->state != RMA_JOB_COMMITS)
		TAILQ_REMOVE(&xfer->proto->serving, job, entry);
	if (job->slot)
		stage_slot_put(&xfer->stage, job->slot);
	if (job->reserve)
		stage_reserve_put(&xfer->stage, job->reserve, WIRE_PAYLOAD_MAX);
	job->reach.region->jobs -= !rma_job_long(job);
	region_release(job->reach.region);
	if (job->kept)
		xfer_busy_add(xfer, -1);
	xfer_peer_put(job->peer);
	xfer_ctx_free(ctx);
}

/*
 * Counts what a peer's request has done, answers it, and ends the job. @payload: what a read, or a fetching
 * atomic operation, has found
 */
static void rma_job_tell(struct rma_job *job, int status, const void *payload)
{
	const bool fetches = job->msg.flags & WIRE_FETCH;

	if (!status) {
		xfer_ep_count(job->ctx.ep, fetches ? FI_REMOTE_READ : FI_REMOTE_WRITE, 0);
		if (!fetches)
			rma_job_written(job);
	}
	rma_job_answer(job, status, payload);
	rma_job_free(&job->ctx);
}

/* ---- what is to be durable ---- */

static void rma_job_committed(struct flush *flush, int status)
{
	struct rma_job *job = container_of(flush, struct rma_job, flush);

	if (xfer_copy_ended(job->ctx.ep))
		return;
	job->ctx.ep->stats.commits += !status;
	rma_job_tell(job, status, job->msg.payload);
}

/* What is to be answered has to last until then. 0 or -FI_ENOMEM */
static int rma_job_keep_answer(struct rma_job *job, const void *payload)
{
	const size_t len = job->msg.flags & WIRE_FETCH ? job->msg.len : 0;

	job->msg.payload_len = 0;
	if (!len)
		return 0;
	if (!job->reserve)
		job->reserve = stage_reserve_get(&job->ctx.ep->xfer->stage, WIRE_PAYLOAD_MAX);
	if (!job->reserve)
		return -FI_ENOMEM;
	memcpy(job->reserve->addr, payload, len);
	job->msg.payload = job->reserve->addr;
	return 0;
}

/*
 * Answers a request that has written; or makes its bytes durable first, if the peer asks for that. False: it
 * is over
 */
static bool rma_job_end(struct rma_job *job, int status, const void *payload)
{
	if (!status && job->commits)
		status = rma_job_keep_answer(job, payload);
	if (status || !job->commits) {
		rma_job_tell(job, status, payload);
		return false;
	}
	TAILQ_REMOVE(&job->ctx.ep->xfer->proto->serving, job, entry);
	job->state = RMA_JOB_COMMITS;
	job->flush = (struct flush){
		.kind = job->reach.region->pmem,
		.iov = job->reach.iov,
		.count = job->reach.count,
		.done = rma_job_committed,
	};
	xfer_flush(job->ctx.ep, &job->flush);
	return true;
}

/* ---- the order ---- */

static bool rma_job_overlaps(const struct rma_job *a, const struct rma_job *b)
{
	for (size_t i = 0; i < a->reach.count; i++) {
		uintptr_t start = (uintptr_t) a->reach.iov[i].iov_base;
		uintptr_t end = start + a->reach.iov[i].iov_len;

		for (size_t j = 0; j < b->reach.count; j++) {
			uintptr_t other = (uintptr_t) b->reach.iov[j].iov_base;

			if (start < other + b->reach.iov[j].iov_len && other < end)
				return true;
		}
	}
	return false;
}

/* Is the write of @before one that a write of @job may follow at once? */
static bool rma_job_leads(const struct rma_job *before, const struct rma_job *job)
{
	const struct dev_mem *mem = &job->reach.mem;

	return before->state == RMA_JOB_WRITES && mem->ops && mem->ops->ordered &&
	       mem->ctx == before->reach.mem.ctx;
}

/* Has @job to wait with the part of it that reads, or else that writes, because of @before? */
static bool rma_job_follows(const struct rma_job *before, const struct rma_job *job,
			    bool reading)
{
	bool reads = before->reads && before->state <= RMA_JOB_READS;

	if (reading)
		return before->writes && rma_job_overlaps(before, job);
	if (before->writes && !rma_job_leads(before, job))
		return true;
	return reads && rma_job_overlaps(before, job);
}

/* Tells whether a job may go on: it is among the first, and none before it touches the same memory. */
static bool rma_job_may(const struct rma_job *job, bool reading)
{
	const struct rma_job *before;
	int count = 0;

	TAILQ_FOREACH(before, &job->ctx.ep->xfer->proto->serving, entry) {
		if (before == job)
			return true;
		if (++count == RMA_JOBS || rma_job_follows(before, job, reading))
			return false;
	}
	return false;
}

static bool rma_job_turn(const struct rma_job *job)
{
	return (!job->reads || rma_job_may(job, true)) &&
	       (!job->writes || rma_job_may(job, false));
}

/* ---- staging ---- */

/* Tells whether a job has the slot that it needs, or needs none. */
static bool rma_job_staged(const struct rma_job *job)
{
	return job->slot || !job->reach.mem.ops || rma_job_long(job);
}

/* Gets a job a slot, unless an earlier one still wants one. False: none now */
static bool rma_job_stage(struct rma_job *job)
{
	struct xfer *xfer = job->ctx.ep->xfer;
	const struct rma_job *before;

	if (rma_job_staged(job))
		return true;
	TAILQ_FOREACH(before, &xfer->proto->serving, entry) {
		if (before == job)
			break;
		if (!rma_job_staged(before))
			return false;
	}
	job->slot = stage_slot_get(&xfer->stage, STAGE_COPY, RMA_JOB_SLOT, NULL);
	if (!job->slot)
		return false;
	if (job->msg.payload_len)
		memcpy(job->slot->addr, job->msg.payload, job->msg.payload_len);
	job->msg.payload = job->slot->addr;
	if (job->reserve)
		stage_reserve_put(&xfer->stage, job->reserve, WIRE_PAYLOAD_MAX);
	job->reserve = NULL;
	return true;
}

/* Copies what a request brought, as the message that it came with is about to be gone. 0 or -FI_ENOMEM */
static int rma_job_keep(struct rma_job *job)
{
	struct xfer *xfer = job->ctx.ep->xfer;

	if (job->msg.payload_len && !job->slot) {
		job->reserve = stage_reserve_get(&xfer->stage, WIRE_PAYLOAD_MAX);
		if (!job->reserve)
			return -FI_ENOMEM;
		memcpy(job->reserve->addr, job->msg.payload, job->msg.payload_len);
		job->msg.payload = job->reserve->addr;
	}
	job->kept = true;
	xfer_busy_add(xfer, 1);
	return 0;
}

/* ---- what is short ---- */

static void rma_job_compute(const struct wire_msg *msg, const void *before, void *after)
{
	const char *operand = msg->payload;

	memcpy(after, before, msg->len);
	amo_apply(msg->datatype, msg->op, msg->len / amo_size(msg->datatype), after, operand,
		  msg->flags & WIRE_COMPARE ? operand + msg->len : NULL);
}

/* Ends a job when its bytes are in device memory. */
static void rma_job_copied_in(struct copy *copy, int status)
{
	struct rma_job *job = container_of(copy, struct rma_job, copy);

	if (!xfer_copy_ended(job->ctx.ep))
		rma_job_end(job, status, (char *) job->slot->addr + RMA_JOB_BEFORE);
}

/* Begins the copy of a job's bytes into device memory. False: it is over */
static bool rma_job_write(struct rma_job *job)
{
	int ret;

	job->copy.done = rma_job_copied_in;
	ret = xfer_copy_in_order(job->ctx.ep, &job->reach.mem, job->reach.iov, job->reach.count,
				 (char *) job->slot->addr + (job->reads ? RMA_JOB_AFTER : 0),
				 &job->copy);
	if (ret) {
		rma_job_end(job, ret, NULL);
		return false;
	}
	job->state = RMA_JOB_WRITES;
	return true;
}

static void rma_job_copied_out(struct copy *copy, int status)
{
	struct rma_job *job = container_of(copy, struct rma_job, copy);
	char *before = (char *) job->slot->addr + RMA_JOB_BEFORE;

	if (xfer_copy_ended(job->ctx.ep))
		return;
	if (status || !job->writes) {
		rma_job_end(job, status, before);
		return;
	}
	rma_job_compute(&job->msg, before, (char *) job->slot->addr + RMA_JOB_AFTER);
	job->state = RMA_JOB_KNOWS;
	if (rma_job_may(job, false))
		rma_job_write(job);
}

/* False: it is over */
static bool rma_job_read(struct rma_job *job)
{
	int ret;

	job->copy.done = rma_job_copied_out;
	ret = xfer_copy_start(job->ctx.ep, &job->reach.mem, COPY_OUT, job->reach.iov,
			      job->reach.count, (char *) job->slot->addr + RMA_JOB_BEFORE,
			      &job->copy);
	if (ret) {
		rma_job_end(job, ret, NULL);
		return false;
	}
	job->state = RMA_JOB_READS;
	return true;
}

/* False: it is over */
static bool rma_job_serve_host(struct rma_job *job)
{
	const struct rma_reach *reach = &job->reach;
	char before[WIRE_PAYLOAD_MAX], after[RMA_SERVED_ATOMIC_MAX];
	const void *written = job->msg.payload;

	if (job->reads)
		mem_gather(reach->iov, reach->count, before);
	if (job->reads && job->writes) {
		rma_job_compute(&job->msg, before, after);
		written = after;
	}
	if (job->writes)
		mem_scatter(reach->iov, reach->count, written);
	return rma_job_end(job, 0, before);
}

/* ---- what is long ---- */

/* A request that serves a peer; its buffer is what the job reaches. */
static struct xfer_req *rma_job_req_new(const struct rma_job *job)
{
	struct xfer_ep *ep = job->ctx.ep;
	const struct rma_reach *reach = &job->reach;
	const bool writes = job->writes;
	/* of a read nobody hears here, whatever the peer says */
	const struct p2p_op local = {
		.type = writes ? FI_OP_RECV : FI_OP_SEND,
		.msg.msg_iov = reach->iov,
		.msg.iov_count = reach->count,
		.msg.addr = job->peer->addr,
		.flags = writes && job->msg.flags & WIRE_HAS_DATA ? FI_COMPLETION : 0,
	};
	struct xfer_req *req;

	if (reach->mem.ops && xfer_ready(ep->xfer, &reach->mem))
		return NULL;
	req = xfer_req_new(ep, &local, &reach->mem);
	if (!req)
		return NULL;
	if (!req->mem.ops && pin_host(req, NULL, false)) {
		xfer_req_undo(req);
		return NULL;
	}
	req->served = true;
	xfer_req_meet(req, job->peer);
	req->done_flags = FI_RMA | (op_receives(&local) ? FI_REMOTE_WRITE : FI_REMOTE_READ);
	req->region = reach->region;
	region_hold(reach->region);
	return req;
}

/* The pieces are rndv.h's, from now on. True: it waits, as there is no room on the board for what it would offer */
static bool rma_job_hand_over(struct rma_job *job)
{
	struct xfer_req *req = rma_job_req_new(job);
	int ret = req ? 0 : -FI_ENOMEM;

	if (req && job->writes) {
		rndv_recv_unmarked(req, &job->msg);
	} else if (req) {
		/* its initiator knows it by that */
		req->target[0] = (struct fi_rma_iov){.key = job->msg.id};
		ret = rma_served_offer(req);
		if (!ret)
			ret = req->path.proto == PATH_LENT ? rma_lent_start(req)
							   : rndv_send_unmarked(req);
		if (ret)
			xfer_req_undo(req);
	}
	if (ret == -FI_EAGAIN)
		return true;
	if (ret)
		rma_job_answer(job, ret, NULL);
	rma_job_free(&job->ctx);
	return false;
}

/* ---- beginning ---- */

/* Moves a job on as far as it can go. False: it is over, and gone */
static bool rma_job_go(struct rma_job *job)
{
	if (job->state == RMA_JOB_KNOWS)
		return !rma_job_may(job, false) || rma_job_write(job);
	/* for the peer it has failed: it would wait for pieces that nobody sends, or write what is outdated */
	if (job->state == RMA_JOB_WAITS && job->epoch != job->peer->epoch) {
		rma_job_free(&job->ctx);
		return false;
	}
	if (job->state != RMA_JOB_WAITS || !rma_job_stage(job))
		return true;
	if (!job->reach.mem.ops || rma_job_long(job)) {
		if (!rma_job_turn(job))
			return true;
		if (!rma_job_long(job))
			return rma_job_serve_host(job);
		return rma_job_hand_over(job);
	}
	if (!rma_job_may(job, job->reads))
		return true;
	return job->reads ? rma_job_read(job) : rma_job_write(job);
}

/* Moves peers' requests on, in the order in which they came. */
static void rma_served_progress(struct xfer *xfer)
{
	struct rma_job *job, *next;
	int count = 0;

	if (xfer->flusher.pending)
		xfer_flush_progress(xfer);
	for (job = TAILQ_FIRST(&xfer->proto->serving); job && count < RMA_JOBS; job = next) {
		next = TAILQ_NEXT(job, entry);
		count += rma_job_go(job);
	}
}

/* Operands that do not fit each other, or the operation */
static bool rma_job_bad(const struct rma_job *job)
{
	const struct wire_msg *msg = &job->msg;
	const bool compare = msg->flags & WIRE_COMPARE, computes = job->reads && job->writes;
	const size_t most = computes ? RMA_SERVED_ATOMIC_MAX : SIZE_MAX;
	const size_t arrays = rma_job_long(job) ? 0 : job->writes + compare;

	if (amo_valid(msg->datatype, msg->op, compare) && msg->len <= most &&
	    !(msg->len % amo_size(msg->datatype)) && msg->payload_len == arrays * msg->len)
		return false;
	P2P_WARN("a peer asks for an operation %d on %zu bytes of type %d that is none\n",
		 msg->op, (size_t) msg->len, msg->datatype);
	return true;
}

/* Finds the memory that a request is about: 0, or what the peer is told */
static int rma_job_reach(struct rma_job *job)
{
	const struct wire_msg *msg = &job->msg;
	struct rma_reach *reach = &job->reach;
	const bool fetch = msg->flags & WIRE_FETCH;
	int ret;

	job->writes = msg->op != FI_ATOMIC_READ;
	job->reads = fetch || msg->op != FI_ATOMIC_WRITE;
	if (rma_job_bad(job))
		return -FI_EINVAL;
	ret = region_reach(job->ctx.ep->xfer, msg->key, msg->addr, msg->len,
			   (job->writes ? FI_REMOTE_WRITE : 0) | (fetch ? FI_REMOTE_READ : 0),
			   &reach->region, reach->iov, &reach->count, &reach->mem);
	job->commits = job->writes && msg->flags & WIRE_COMMIT;
	if (ret || !job->commits || reach->region->pmem != PMEM_NOT)
		return ret;
	P2P_WARN(
		"a peer wants what it writes to region 0x%zx to be durable: it was not registered "
		"with FI_RMA_PMEM\n",
		(size_t) msg->key);
	return -FI_EOPNOTSUPP;
}

/* Makes a job of a peer's request for our memory, or refuses it. */
static void rma_served_serve(struct xfer_ep *ep, struct xfer_req *req,
			     const struct wire_msg *msg)
{
	struct xfer *xfer = ep->xfer;
	struct rma_job *job;
	int ret;

	job = cell_get_zeroed(&xfer->cells, offsetof(struct rma_job, copy));
	if (!job) {
		P2P_WARN("no room for a request of a peer, which is dropped\n");
		ctrl_owed(msg->peer, -FI_ENOMEM);
		return;
	}
	job->peer = msg->peer;
	job->epoch = msg->peer->epoch;
	job->msg = *msg;
	xfer_ctx_init(&job->ctx, ep, NULL, rma_job_free);
	ret = xfer_peer_full(job->peer) ? -FI_EBUSY : rma_job_reach(job);
	if (ret == -FI_EBUSY)
		xfer_message_wrong(xfer, msg->type, XFER_PEER_FULL);
	if (!ret && job->reach.mem.ops)
		ret = xfer_ready(xfer, &job->reach.mem);
	if (ret) {
		rma_job_answer(job, ret, NULL);
		xfer_ctx_free(&job->ctx);
		return;
	}
	xfer_peer_hold(job->peer);
	region_hold(job->reach.region);
	job->reach.region->jobs += !rma_job_long(job);
	TAILQ_INSERT_TAIL(&xfer->proto->serving, job, entry);
	if (rma_job_go(job) && rma_job_keep(job))
		rma_job_end(job, -FI_ENOMEM, NULL);
}

const struct xfer_proto rma_served_proto = {
	.name = "RMA by its owner",
	.message = {[WIRE_CALL] = rma_served_serve},
	.progress = rma_served_progress,
};
