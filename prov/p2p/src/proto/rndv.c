/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Long messages in pieces: what both sides have in common. See rndv.h for the idea,
 * wire.h for the protocol.
 */
#include "proto/rndv_sides.h"

#include <stdlib.h>
#include <time.h>
#include <rdma/fi_errno.h>

#include "base/conf.h"
#include "xfer/ctrl.h"
#include "proto/rndv_lent.h"
#include "base/log.h"
#include "mem/mem.h"
#include "proto/hello.h"
#include "xfer/pin.h"

/*
 * Slots may all be with peers that do not call libfabric for long, or have died, of which cores may
 * never tell. What has wanted one for RNDV_STALL, and has nothing in flight, goes on with ordinary
 * memory; RNDV_SPARE pieces in that time, so that what is merely many keeps to slots. After
 * RNDV_SILENCE a peer is probed [ms], then each time after twice as long, which is doubled
 * RNDV_PATIENCE times at most.
 */
#define RNDV_STALL 100
#define RNDV_SPARE 4
#define RNDV_SILENCE 2000
#define RNDV_PATIENCE 6

uint64_t rndv_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Unique here by its lower bits, among processes by the upper ones */
uint64_t rndv_id_new(struct xfer *xfer)
{
	uint64_t id;

	/* they come round again, and an old one may still wait to be received */
	do
		id = xfer_board_owner(xfer->id_base) | (++xfer->id_next & WIRE_ID_COUNT);
	while (rndv_sending_find(xfer, id));
	return id;
}

bool rndv_req_done(const struct xfer_req *req)
{
	return req->rndv.answered && req->rndv.next == req->rndv.pieces;
}

/* ---- pieces ---- */

void rndv_piece_drop(struct xfer_ctx *ctx)
{
	struct rndv_piece *piece = (struct rndv_piece *) ctx;
	struct stage *stage = &ctx->ep->xfer->stage;

	if (piece->slot)
		stage_slot_put(stage, piece->slot);
	if (piece->reserve)
		stage_reserve_put(stage, piece->reserve, piece->len);
	xfer_ctx_free(ctx);
}

struct stage_reserve *rndv_spare(struct xfer_req *req, size_t len)
{
	struct xfer *xfer = req->ctx.ep->xfer;
	uint32_t now = (uint32_t) rndv_now() | 1;
	struct stage_reserve *reserve = NULL;

	if (!req->rndv.starved)
		req->rndv.starved = now;
	if (xfer->spare && now - req->rndv.starved >= RNDV_STALL)
		reserve = stage_reserve_get(&xfer->stage, len);
	if (reserve)
		xfer->spare--;
	return reserve;
}

/* Staging memory for a piece: a slot, or in need any other. False: none now */
static bool rndv_piece_stage(struct rndv_piece *piece, enum stage_use use)
{
	struct xfer_req *req = piece->req;

	piece->slot = stage_slot_get(&req->ctx.ep->xfer->stage, use, piece->len);
	if (piece->slot) {
		req->rndv.starved = 0;
		piece->host = piece->slot->addr;
		piece->host_desc = piece->slot->desc;
		return true;
	}
	piece->reserve = req->rndv.in_flight ? NULL : rndv_spare(req, piece->len);
	if (!piece->reserve)
		return false;
	piece->host = piece->reserve->addr;
	piece->host_desc = piece->reserve->desc;
	return true;
}

/* The request's next piece, with staging memory if it wants some; NULL: not now */
struct rndv_piece *rndv_piece_new(struct xfer_req *req, enum stage_use use,
				  void (*done)(struct xfer_ctx *ctx,
					       const struct core_comp *comp))
{
	struct xfer_ep *ep = req->ctx.ep;
	uint64_t offset = req->rndv.next * req->rndv.chunk;
	struct rndv_piece *piece = cell_get(&ep->xfer->cells);

	if (!piece)
		return NULL;
	piece->req = req;
	piece->index = req->rndv.next;
	piece->slot = NULL;
	piece->reserve = NULL;
	piece->host = NULL;
	piece->len = P2P_MIN(req->rndv.wanted - offset, req->rndv.chunk);
	if (req->mem.ops && !req->direct && !rndv_piece_stage(piece, use)) {
		cell_put(&ep->xfer->cells, piece);
		return NULL;
	}
	xfer_out_init(&piece->out, req->rndv.via, req->rndv.to,
		      ep->tag_bit | WIRE_TAG_PIECE |
			      (uint64_t) req->rndv.transfer << WIRE_TAG_TRANSFER_SHIFT |
			      piece->index,
		      done, rndv_piece_drop);
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

void rndv_piece_begun(struct xfer_req *req)
{
	req->rndv.next++;
	req->rndv.in_flight++;
}

/* Ends a piece; what it means for its request is up to the caller. */
struct xfer_req *rndv_piece_end(struct rndv_piece *piece)
{
	struct xfer_req *req = piece->req;

	req->rndv.in_flight--;
	rndv_piece_drop(&piece->out.ctx);
	return req;
}

/* ---- both sides ---- */

void rndv_abort_send(struct xfer_req *req)
{
	const struct wire_msg msg = {
		.type = WIRE_ABORT,
		.id = req->rndv.id,
		.status = req->rndv.status,
		.to_sender = req->recv,
	};

	if (!req->rndv.aborted)
		ctrl_send(req->rndv.via, req->rndv.to, &msg);
	req->rndv.aborted = true;
}

void rndv_list_add(struct xfer_req *req, struct xfer_list *list)
{
	TAILQ_INSERT_TAIL(list, req, entry);
	req->rndv.list = list;
}

void rndv_list_remove(struct xfer_req *req)
{
	if (req->rndv.list)
		TAILQ_REMOVE(req->rndv.list, req, entry);
	req->rndv.list = NULL;
}

/* ---- the module's entries ---- */

void rndv_control(struct xfer_ep *ep, const struct wire_msg *msg)
{
	if (msg->type == WIRE_ANNOUNCE)
		rndv_announced(ep, msg);
	else if (msg->type == WIRE_SUPPLY)
		rndv_supplied(ep, msg);
	else if (msg->type == WIRE_ABORT && !msg->to_sender)
		rndv_aborted(ep, msg);
	else
		rndv_answer(ep->xfer, msg);
}

void rndv_peer_lost(struct xfer_ep *ep, fi_addr_t addr, int status)
{
	struct rndv_arrival *arrival, *next_arrival;
	struct xfer *xfer = ep->xfer;
	struct xfer_req *req, *next;

	for (size_t i = 0; i < XFER_CHAINS; i++) {
		for (arrival = LIST_FIRST(&xfer->arriving[i]); arrival;
		     arrival = next_arrival) {
			next_arrival = LIST_NEXT(arrival, chain);
			if (arrival->held && arrival->announced && arrival->via == ep &&
			    arrival->src == addr)
				rndv_divert_fail(arrival);
		}
	}
	for (req = TAILQ_FIRST(&xfer->pulling); req; req = next) {
		next = TAILQ_NEXT(req, entry);
		if (req->rndv.via == ep && req->rndv.to == addr)
			rndv_recv_fail(req, status, false);
	}
	rndv_lent_peer_lost(ep, addr, status);
	for (size_t i = 0; i < XFER_CHAINS; i++) {
		for (req = LIST_FIRST(&xfer->sending[i]); req; req = next) {
			next = LIST_NEXT(req, rndv.chain);
			/* who lives all the same, and connects again, must not read its slot */
			if (req->rndv.via == ep && req->rndv.to == addr)
				rndv_send_fail(req, status, req->path.proto == PATH_LENT);
		}
	}
}

/* @heard, @probes: as in struct xfer_req. True: the peer is probed now */
static bool rndv_probe(struct xfer_ep *ep, fi_addr_t addr, uint64_t id, bool to_sender,
		       uint64_t *heard, unsigned int *probes)
{
	const struct wire_msg msg = {.type = WIRE_PROBE, .id = id, .to_sender = to_sender};
	uint64_t now = rndv_now();

	/* the next one after twice the time */
	if (now - *heard < (uint64_t) RNDV_SILENCE << P2P_MIN(*probes, RNDV_PATIENCE))
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
static void rndv_watch(struct xfer *xfer)
{
	const struct xfer_list *const receiving[] = {&xfer->pulling, &xfer->borrowing,
						     &xfer->reading};
	uint64_t now = rndv_now();
	struct rndv_arrival *arrival;
	struct xfer_req *req;

	if (now < xfer->watch_at)
		return;
	xfer->watch_at = now + RNDV_STALL;
	xfer->spare = RNDV_SPARE;
	rndv_arrivals_look(xfer, true);
	for (size_t i = 0; i < sizeof receiving / sizeof receiving[0]; i++) {
		TAILQ_FOREACH(req, receiving[i], entry)
			rndv_probe(req->rndv.via, req->rndv.to, req->rndv.id, true,
				   &req->rndv.heard, &req->rndv.probes);
	}
	for (size_t i = 0; i < XFER_CHAINS; i++) {
		LIST_FOREACH(arrival, &xfer->arriving[i], chain) {
			if (arrival->held && arrival->announced)
				rndv_probe(arrival->via, arrival->src, arrival->id, true,
					   &arrival->heard, &arrival->probes);
		}
		LIST_FOREACH(req, &xfer->sending[i], rndv.chain) {
			if (rndv_probe(req->rndv.via, req->rndv.to, req->rndv.id, false,
				       &req->rndv.heard, &req->rndv.probes) &&
			    hello_reads(req->ctx.ep, req->addr))
				hello_remind(req->ctx.ep, req->addr);
		}
	}
}

void rndv_progress(struct xfer *xfer)
{
	struct wire_msg fin = {.type = WIRE_FIN};
	struct xfer_req *req, *next;

	if (!xfer->open && TAILQ_EMPTY(&xfer->bouncing))
		return;
	while (board_answered(&xfer->board, &fin.id))
		rndv_answer(xfer, &fin);
	rndv_arrivals_look(xfer, false);
	for (req = TAILQ_FIRST(&xfer->pushing); req; req = next) {
		next = TAILQ_NEXT(req, entry);
		rndv_push(req);
	}
	for (req = TAILQ_FIRST(&xfer->pulling); req; req = next) {
		next = TAILQ_NEXT(req, entry);
		rndv_pull(req);
	}
	rndv_watch(xfer);
}

void rndv_req_drop(struct xfer_req *req)
{
	rndv_list_remove(req);
	rndv_sending_recall(req, -FI_ECANCELED);
	rndv_sending_remove(req);
	if (!req->rndv.arrival)
		return;
	if (req->rndv.arrival->req == req)
		req->rndv.arrival->req = NULL;
	else
		TAILQ_REMOVE(&req->rndv.arrival->peeks, req, entry);
}

void rndv_fini(struct xfer *xfer)
{
	seen_ids_fini(&xfer->heard);
}
