/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Copies from device to device, by a receiver on the sender's host. See rndv_across.h.
 *
 *	sender                                                           receiver
 *	MARKING              --- ANNOUNCE(id, length, offer, board) ---> notes what is to come
 *	ANNOUNCED            --- marker(tag, id) ----------------------> MATCHED: maps the board, opens it
 *	                     === the receiver copies ==================> MOVING
 *	                     === the note stands ======================> believes the copy
 *	ENDED                <----------------------------- DONE(id) --- TELLING, ENDED
 *
 *	which reads it       --- HELLO(host, board) -------------------> maps the board
 *	                     <------------------- HELLO(host, reads) ---
 *	ANNOUNCED            --- marker(tag, id) ----------------------> MATCHED: looks for it
 *	                     === note(id, length, offer) ==============> finds it, opens it
 *	                     === the receiver copies ==================> MOVING
 *	ENDED                <=================== answer on the note === ENDED
 *
 * The note may be there before the marker. With WIRE_CALLS the receiver sends DONE in place of an answer on the note, as
 * somebody may sleep. A receiver that does not take the offer asks for pieces, and says why in TAKE: rndv.c.
 */
#include "proto/rndv_across.h"

#include <rdma/fi_errno.h>

#include "proto/rndv_pieces.h"
#include "proto/rndv_recv.h"
#include "mem/mem.h"
#include "xfer/ep_state.h"
#include "xfer/peer.h"
#include "xfer/req_state.h"

/* Can it be seen here how long the offer stands? */
static bool rndv_across_sees(const struct xfer_arrival *arrival)
{
	return arrival->noted ||
	       (arrival->peer &&
		!note_board(arrival->peer, xfer_board_owner(arrival->id), arrival->board));
}

/*
 * Says what keeps two processes of one user apart, whatever the driver can; PATH_FAR_NOT: nothing. CUDA (580, on an H200)
 * opens a handle of any namespace, but takes a process that has its own id for itself.
 */
static enum path_far rndv_across_apart(const struct xfer_arrival *arrival)
{
	const struct ipc *ipc = &arrival->ctx.ep->xfer->ipc;
	const struct ipc_offer *offer = &arrival->offer;
	const struct ipc_spaces *theirs = arrival->peer ? &arrival->peer->spaces : &ipc->spaces;
	const bool pids = theirs->pid != ipc->spaces.pid, nets = theirs->net != ipc->spaces.net;

	if ((pids && nets) || !rndv_across_sees(arrival))
		return nets ? PATH_FAR_SPACES : PATH_FAR_CLOSED;
	if (offer->shared)
		return nets ? PATH_FAR_NET : PATH_FAR_NOT;
	return pids && (uint32_t) offer->process == (uint32_t) ipc->process ? PATH_FAR_NUMBER
									    : PATH_FAR_NOT;
}

/* Opens what the sender offers, as req->import, with @from; or says why not */
enum path_far rndv_across_open(struct xfer_arrival *arrival, void **from)
{
	struct xfer_req *req = arrival->req;
	struct ipc *ipc = &req->ctx.ep->xfer->ipc;
	const struct path_query query = {.len = req->transfer.wanted,
					 .policy = req->ctx.ep->policy};
	const struct ipc_claim claim = {
		.peer = (uintptr_t) arrival->peer,
		.number = arrival->id,
		.len = arrival->total,
		.offer = &arrival->offer,
	};
	enum path_far far;
	const char *why;
	int ret;

	xfer_assert_locked(arrival->req->ctx.ep->xfer);
	if (!(arrival->flags & WIRE_OFFERED))
		return PATH_FAR_UNKNOWN;
	if (!ipc_near(ipc, &arrival->offer))
		return (arrival->offer.host ^ ipc->host) >> 32 ? PATH_FAR_HOST : PATH_FAR_USER;
	if (!req->mem.ops)
		return PATH_FAR_BUFFER;
	if (!path_wants_across(&query, &why))
		return PATH_FAR_POLICY;
	far = rndv_across_apart(arrival);
	if (far != PATH_FAR_NOT)
		return far;
	ret = ipc_open(ipc, &claim, &req->mem, &req->import, from);
	if (ret)
		return ret == -FI_EAGAIN ? PATH_FAR_BUSY : PATH_FAR_CLOSED;
	return PATH_FAR_NOT;
}

static void rndv_copied_across(struct copy *copy, int status)
{
	struct xfer_req *req = container_of(copy, struct xfer_req, copy);

	if (!req->import)
		ipc_read_end(&req->transfer.reading);
	if (!rndv_copied(req))
		return;
	req->transfer.in_flight--;
	/*
	 * The sender may have lost us, or closed its endpoint, before the copy ended, and then its memory may have been
	 * another message's. It has taken back its note before.
	 */
	if (!status && !note_stands(req->ctx.ep->xfer, req->transfer.id))
		status = -FI_ECONNABORTED;
	if (status)
		rndv_recv_fail(req, status, true);
	else
		rndv_recv_check(req);
}

struct across {
	struct xfer_req *req;
	void *from;
};

static int rndv_across_start(void *arg)
{
	const struct across *across = arg;
	struct xfer_req *req = across->req;
	struct iovec iov[P2P_IOV_MAX];
	size_t count = mem_iov_slice(req->iov, req->count, 0, req->transfer.wanted, iov);

	return rndv_copy(req, COPY_ACROSS, iov, count, across->from, &req->copy);
}

/* Its sender, in this process, may give the memory back amid the copy */
static int rndv_across_own(struct across *across)
{
	struct xfer_req *req = across->req;
	struct copy_engines *copies = &req->ctx.ep->xfer->copies;
	int ret = copy_ready(copies, &req->mem);

	return ret ? ret
		   : ipc_read(&req->transfer.reading, req->transfer.recv.arrival->id,
			      copy_queue(copies, &req->mem, COPY_ACROSS), rndv_across_start,
			      across);
}

/* Copies all of the message from the sender's memory, which is open here at @from. */
void rndv_across(struct xfer_req *req, void *from)
{
	struct across across = {req, from};
	int ret;

	xfer_assert_locked(req->ctx.ep->xfer);
	req->copy.done = rndv_copied_across;
	xfer_req_move(req, XFER_MOVING);
	req->transfer.in_flight++;
	ret = req->import ? rndv_across_start(&across) : rndv_across_own(&across);
	if (!ret)
		return;
	req->transfer.in_flight--;
	rndv_recv_fail(req, ret, true);
}
