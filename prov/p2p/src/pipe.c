/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rank 4: long messages in pieces: what both sides have in common. See pipe.h for the idea,
 * wire.h for the protocol.
 */
#include "pipe_sides.h"

#include <stdlib.h>
#include <time.h>
#include <rdma/fi_errno.h>

#include "conf.h"
#include "ctrl.h"
#include "lend.h"
#include "log.h"
#include "mem.h"
#include "peer.h"
#include "pin.h"

/*
 * Slots may all be with peers that do not call libfabric for long, or have died, of which cores may
 * never tell. What has wanted one for PIPE_STALL, and has nothing in flight, goes on with ordinary
 * memory; PIPE_SPARE pieces in that time, so that what is merely many keeps to slots. After
 * PIPE_SILENCE a peer is probed [ms], then each time after twice as long, which is doubled
 * PIPE_PATIENCE times at most.
 */
#define PIPE_STALL 100
#define PIPE_SPARE 4
#define PIPE_SILENCE 2000
#define PIPE_PATIENCE 6

uint64_t pipe_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Unique here by its lower bits, among processes by the upper ones */
uint64_t pipe_id_new(struct xfer *xfer)
{
	uint64_t id;

	/* they come round again, and an old one may still wait to be received */
	do
		id = xfer_board_owner(xfer->id_base) | (++xfer->id_next & WIRE_ID_COUNT);
	while (pipe_sending_find(xfer, id));
	return id;
}

bool pipe_req_done(const struct xfer_req *req)
{
	return req->pipe.answered && req->pipe.next == req->pipe.pieces;
}

/* ---- pieces ---- */

void pipe_piece_drop(struct xfer_ctx *ctx)
{
	struct pipe_piece *piece = (struct pipe_piece *) ctx;
	struct stage *stage = &ctx->ep->xfer->stage;

	if (piece->slot)
		stage_slot_put(stage, piece->slot);
	if (piece->reserve)
		stage_reserve_put(stage, piece->reserve, piece->len);
	xfer_ctx_free(ctx);
}

struct stage_reserve *pipe_spare(struct xfer_req *req, size_t len)
{
	struct xfer *xfer = req->ctx.ep->xfer;
	uint32_t now = (uint32_t) pipe_now() | 1;
	struct stage_reserve *reserve = NULL;

	if (!req->pipe.starved)
		req->pipe.starved = now;
	if (xfer->spare && now - req->pipe.starved >= PIPE_STALL)
		reserve = stage_reserve_get(&xfer->stage, len);
	if (reserve)
		xfer->spare--;
	return reserve;
}

/* Staging memory for a piece: a slot, or in need any other. False: none now */
static bool pipe_piece_stage(struct pipe_piece *piece, enum stage_use use)
{
	struct xfer_req *req = piece->req;

	piece->slot = stage_slot_get(&req->ctx.ep->xfer->stage, use, piece->len);
	if (piece->slot) {
		req->pipe.starved = 0;
		piece->host = piece->slot->addr;
		piece->host_desc = piece->slot->desc;
		return true;
	}
	piece->reserve = req->pipe.in_flight ? NULL : pipe_spare(req, piece->len);
	if (!piece->reserve)
		return false;
	piece->host = piece->reserve->addr;
	piece->host_desc = piece->reserve->desc;
	return true;
}

/* The request's next piece, with staging memory if it wants some; NULL: not now */
struct pipe_piece *pipe_piece_new(struct xfer_req *req, enum stage_use use,
					 void (*done)(struct xfer_ctx *ctx,
						      const struct core_comp *comp))
{
	struct xfer_ep *ep = req->ctx.ep;
	uint64_t offset = req->pipe.next * req->pipe.chunk;
	struct pipe_piece *piece = cell_get(&ep->xfer->cells);

	if (!piece)
		return NULL;
	piece->req = req;
	piece->index = req->pipe.next;
	piece->slot = NULL;
	piece->reserve = NULL;
	piece->host = NULL;
	piece->len = P2P_MIN(req->pipe.wanted - offset, req->pipe.chunk);
	if (req->mem.ops && !req->direct && !pipe_piece_stage(piece, use)) {
		cell_put(&ep->xfer->cells, piece);
		return NULL;
	}
	xfer_out_init(&piece->out, req->pipe.via, req->pipe.to,
		      ep->tag_bit | WIRE_TAG_PIECE |
			      (uint64_t) req->pipe.transfer << WIRE_TAG_TRANSFER_SHIFT |
			      piece->index,
		      done, pipe_piece_drop);
	piece->count = mem_iov_slice(req->iov, req->count, offset, piece->len, piece->iov);
	memset(piece->out.desc, 0, sizeof piece->out.desc);
	if (piece->host) {
		piece->out.iov[0] = (struct iovec){piece->host, piece->len};
		piece->out.desc[0] = piece->host_desc;
		piece->out.count = 1;
	} else {
		memcpy(piece->out.iov, piece->iov, piece->count * sizeof *piece->iov);
		pin_slice(req, offset, piece->count, piece->out.desc);
		piece->out.count = piece->count;
	}
	return piece;
}

void pipe_piece_begun(struct xfer_req *req)
{
	req->pipe.next++;
	req->pipe.in_flight++;
}

/* Ends a piece; what it means for its request is up to the caller. */
struct xfer_req *pipe_piece_end(struct pipe_piece *piece)
{
	struct xfer_req *req = piece->req;

	req->pipe.in_flight--;
	pipe_piece_drop(&piece->out.ctx);
	return req;
}

/* ---- both sides ---- */

void pipe_abort_send(struct xfer_req *req)
{
	const struct wire_msg msg = {
		.type = WIRE_ABORT,
		.id = req->pipe.id,
		.status = req->pipe.status,
		.to_sender = req->recv,
	};

	if (!req->pipe.aborted)
		ctrl_send(req->pipe.via, req->pipe.to, &msg);
	req->pipe.aborted = true;
}

void pipe_list_add(struct xfer_req *req, struct xfer_list *list)
{
	TAILQ_INSERT_TAIL(list, req, entry);
	req->pipe.list = list;
}

void pipe_list_remove(struct xfer_req *req)
{
	if (req->pipe.list)
		TAILQ_REMOVE(req->pipe.list, req, entry);
	req->pipe.list = NULL;
}

/* ---- the module's entries ---- */

void pipe_control(struct xfer_ep *ep, const struct wire_msg *msg)
{
	if (msg->type == WIRE_ANNOUNCE)
		pipe_announced(ep, msg);
	else if (msg->type == WIRE_SUPPLY)
		pipe_supplied(ep, msg);
	else if (msg->type == WIRE_ABORT && !msg->to_sender)
		pipe_aborted(ep, msg);
	else
		pipe_answer(ep->xfer, msg);
}

void pipe_peer_lost(struct xfer_ep *ep, fi_addr_t addr, int status)
{
	struct pipe_arrival *arrival, *next_arrival;
	struct xfer *xfer = ep->xfer;
	struct xfer_req *req, *next;

	for (size_t i = 0; i < XFER_CHAINS; i++) {
		for (arrival = LIST_FIRST(&xfer->arriving[i]); arrival;
		     arrival = next_arrival) {
			next_arrival = LIST_NEXT(arrival, chain);
			if (arrival->held && arrival->announced && arrival->via == ep &&
			    arrival->src == addr)
				pipe_divert_fail(arrival);
		}
	}
	for (req = TAILQ_FIRST(&xfer->pulling); req; req = next) {
		next = TAILQ_NEXT(req, entry);
		if (req->pipe.via == ep && req->pipe.to == addr)
			pipe_recv_fail(req, status, false);
	}
	lend_peer_lost(ep, addr, status);
	for (size_t i = 0; i < XFER_CHAINS; i++) {
		for (req = LIST_FIRST(&xfer->sending[i]); req; req = next) {
			next = LIST_NEXT(req, pipe.chain);
			/* who lives all the same, and connects again, must not read its slot */
			if (req->pipe.via == ep && req->pipe.to == addr)
				pipe_send_fail(req, status, req->path.proto == PATH_LENT);
		}
	}
}

/* @heard, @probes: as in struct xfer_req. True: the peer is probed now */
static bool pipe_probe(struct xfer_ep *ep, fi_addr_t addr, uint64_t id, bool to_sender,
		       uint64_t *heard, unsigned int *probes)
{
	const struct wire_msg msg = {.type = WIRE_PROBE, .id = id, .to_sender = to_sender};
	uint64_t now = pipe_now();

	/* the next one after twice the time */
	if (now - *heard < (uint64_t) PIPE_SILENCE << P2P_MIN(*probes, PIPE_PATIENCE))
		return false;
	*heard = now;
	++*probes;
	/* what waits finds out as much; and cores may have no room for a dead peer for ever */
	if (xfer_outq_has(ep, addr))
		return false;
	ctrl_send(ep, addr, &msg);
	return true;
}

/* Looks after transfers that do not move; a few times a second is enough. */
static void pipe_watch(struct xfer *xfer)
{
	const struct xfer_list *const receiving[] = {&xfer->pulling, &xfer->borrowing,
						     &xfer->reading};
	uint64_t now = pipe_now();
	struct pipe_arrival *arrival;
	struct xfer_req *req;

	if (now < xfer->watch_at)
		return;
	xfer->watch_at = now + PIPE_STALL;
	xfer->spare = PIPE_SPARE;
	pipe_arrivals_look(xfer, true);
	for (size_t i = 0; i < sizeof receiving / sizeof receiving[0]; i++) {
		TAILQ_FOREACH(req, receiving[i], entry)
			pipe_probe(req->pipe.via, req->pipe.to, req->pipe.id, true,
				   &req->pipe.heard, &req->pipe.probes);
	}
	for (size_t i = 0; i < XFER_CHAINS; i++) {
		LIST_FOREACH(arrival, &xfer->arriving[i], chain) {
			if (arrival->held && arrival->announced)
				pipe_probe(arrival->via, arrival->src, arrival->id, true,
					   &arrival->heard, &arrival->probes);
		}
		LIST_FOREACH(req, &xfer->sending[i], pipe.chain) {
			if (pipe_probe(req->pipe.via, req->pipe.to, req->pipe.id, false,
				       &req->pipe.heard, &req->pipe.probes) &&
			    peer_reads(req->ctx.ep, req->addr))
				peer_remind(req->ctx.ep, req->addr);
		}
	}
}

void pipe_progress(struct xfer *xfer)
{
	struct wire_msg fin = {.type = WIRE_FIN};
	struct xfer_req *req, *next;

	if (!xfer->open && TAILQ_EMPTY(&xfer->bouncing))
		return;
	while (board_answered(&xfer->board, &fin.id))
		pipe_answer(xfer, &fin);
	pipe_arrivals_look(xfer, false);
	for (req = TAILQ_FIRST(&xfer->pushing); req; req = next) {
		next = TAILQ_NEXT(req, entry);
		pipe_push(req);
	}
	for (req = TAILQ_FIRST(&xfer->pulling); req; req = next) {
		next = TAILQ_NEXT(req, entry);
		pipe_pull(req);
	}
	pipe_watch(xfer);
}

void pipe_req_drop(struct xfer_req *req)
{
	pipe_list_remove(req);
	pipe_sending_recall(req, -FI_ECANCELED);
	pipe_sending_remove(req);
	if (!req->pipe.arrival)
		return;
	if (req->pipe.arrival->req == req)
		req->pipe.arrival->req = NULL;
	else
		TAILQ_REMOVE(&req->pipe.arrival->peeks, req, entry);
}

void pipe_fini(struct xfer *xfer)
{
	heard_fini(&xfer->heard);
}
