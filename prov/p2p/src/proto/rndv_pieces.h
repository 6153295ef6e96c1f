/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Pieces, in either direction: their staging memory and their ends. All [locked]. */
#ifndef P2P_RNDV_PIECES_H
#define P2P_RNDV_PIECES_H

#include "mem/stage.h"
#include "xfer/lane.h"
#include "xfer/sendq.h"

/**
 * struct rndv_piece - a part of a long message, at either end.
 * @out:	what the core is given
 * @index:	its number in the message
 * @iov, @count, @len: its place in the user's buffer
 * @slot, @reserve: staging memory that it holds, one or none; none: it travels from or to its place
 * @ahead:	receiving: what counts its receive (struct xfer_peer.ahead), or NULL
 * @stray:	whose it is if its message has gone on without it, and has forgotten it
 */
struct rndv_piece {
	struct xfer_out out;
	struct xfer_req *req;
	uint64_t index;
	struct stage_slot *slot;
	struct stage_reserve *reserve;
	unsigned int *ahead;
	struct xfer_peer *stray;
	struct copy copy;
	size_t len;
	size_t count;
	struct iovec iov[P2P_IOV_MAX];
};

/* Returns where its staging memory is; NULL: it has none */
static inline void *rndv_piece_host(const struct rndv_piece *piece)
{
	xfer_assert_locked(piece->req->ctx.ep->xfer);
	return stage_place_of(piece->slot, piece->reserve).addr;
}

/* Tells whether every piece has begun. */
static inline bool rndv_all_begun(const struct xfer_req *req)
{
	xfer_assert_locked(req->ctx.ep->xfer);
	return req->transfer.next == req->transfer.pieces;
}

/*
 * Makes the request's next piece, with staging memory if it wants some. NULL: not now. The caller then calls
 * rndv_piece_begun(). rndv_piece_end() ends a piece, and returns its request; rndv_piece_drop() frees one that
 * has not begun.
 */
struct rndv_piece *rndv_piece_new(struct xfer_req *req, enum stage_use use,
				  void (*done)(struct xfer_ctx *ctx,
					       const struct core_comp *comp));
/* Counts a piece as begun and in flight. */
void rndv_piece_begun(struct rndv_piece *piece);
struct xfer_req *rndv_piece_end(struct rndv_piece *piece);
/* Gives back a piece's staging memory and its record. */
void rndv_piece_drop(struct xfer_ctx *ctx);

/*
 * Begins a copy of a transfer, as xfer_copy_start() does, and counts it. @copy.done begins with rndv_copied(),
 * which is false if the endpoint is closing and the record must be left alone.
 */
int rndv_copy(struct xfer_req *req, enum copy_dir dir, const struct iovec *iov, size_t count,
	      void *host, struct copy *copy);
/* Begins the copy of a piece between its place in the buffer and its staging memory. */
int rndv_piece_copy(struct rndv_piece *piece, enum copy_dir dir,
		    void (*done)(struct copy *copy, int status));
/* Counts a transfer's copy that has ended. False: its endpoint is closing */
bool rndv_copied(struct xfer_req *req);

/*
 * Reports a request that has failed, or whose receiver has had all of it, though the core may keep what goes to a dead peer for
 * ever. Not while a copy of the user's buffer is in flight, nor if the core has the user's memory.
 */
void rndv_report_early(struct xfer_req *req);

/*
 * Finds the count of slots that the request's peer holds in one direction. NULL: there was no memory for the peer's record,
 * and the core's own RMA goes on without
 */
unsigned int *rndv_held(const struct xfer_req *req, enum stage_use use);

/* Gets a slot that waits for the request's peer; NULL: none is free, or the rest is left to other peers */
struct stage_slot *rndv_slot(struct xfer_req *req, enum stage_use use, size_t len);

/*
 * There is none. Ordinary memory for @len bytes, once that has been so for long, if its peer holds no such
 * memory in that direction; or NULL
 */
struct stage_reserve *rndv_spare(struct xfer_req *req, size_t len);

/*
 * Takes a receive of the core's for a piece that comes by no lane. A message's first piece has the one that its marker took.
 * False: its peer holds as many more as are left for others, who may have more to do
 */
bool rndv_piece_ahead(struct rndv_piece *piece);

/* Tells the other side that this request has failed (transfer.status) */
void rndv_abort_send(struct xfer_req *req);

#endif /* P2P_RNDV_PIECES_H */
