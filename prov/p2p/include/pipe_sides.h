/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rank 4: what pipe.c (both sides), pipe_send.c, pipe_recv.c and pipe_arrival.c share. All [locked].
 */
#ifndef P2P_PIPE_SIDES_H
#define P2P_PIPE_SIDES_H

#include "pipe.h"

/**
 * struct pipe_arrival - a message on its way here, from the first that is known of it.
 * @ctx:	on the endpoint's list of live records; @ctx.ep is NULL until it is known
 * @announced:	the announcement has come; @total, @data, @flags, @chunk, @key, @addr,
 *		@offer, @name are its
 * @noted:	it is on the sender's board; @looks: it may be, soon, and is looked for (@look)
 * @ready:	the marker has come, too: what to do when both have
 * @req:	the request that the marker has matched, or NULL
 * @via, @src:	between which endpoints answers, and pieces, travel
 * @cq, @marker: what is known of a receive that is not followed up
 * @held:	the place of a message that is to come by itself, see pipe_divert()
 * @peeks:	peeks that wait for the announcement
 * @status:	the sender's error, if it gave up
 * @heard, @probes: of a message that is to come by itself, as in struct xfer_req
 */
struct pipe_arrival {
	struct xfer_ctx ctx;
	uint64_t id;
	bool announced;
	bool noted;
	bool looks;
	int status;
	void (*ready)(struct pipe_arrival *arrival);
	struct xfer_req *req;
	struct xfer_cq *cq;
	struct core_comp marker;
	struct multi_msg *held;
	TAILQ_HEAD(, xfer_req) peeks;
	uint64_t heard;
	unsigned int probes;
	uint64_t total;
	uint64_t data;
	uint32_t flags;
	uint32_t chunk;
	uint64_t key;
	uint64_t addr;
	struct ipc_offer offer;
	struct xfer_ep *via;
	fi_addr_t src;
	size_t name_len;
	uint8_t name[WIRE_NAME_MAX];
	LIST_ENTRY(pipe_arrival) chain;
	LIST_ENTRY(pipe_arrival) look;
};

/**
 * struct pipe_piece - a part of a long message, at either end.
 * @out:	what the core is given
 * @index:	its number in the message
 * @iov, @count, @len: its place in the user's buffer
 * @slot, @reserve: staging memory, at @host; neither: it travels from or to its place
 */
struct pipe_piece {
	struct xfer_out out;
	struct xfer_req *req;
	uint64_t index;
	struct stage_slot *slot;
	struct stage_reserve *reserve;
	void *host;
	void *host_desc;
	struct copy copy;
	size_t len;
	size_t count;
	struct iovec iov[P2P_IOV_MAX];
};

/* ---- pipe.c ---- */

/* Has every piece begun? */
bool pipe_req_done(const struct xfer_req *req);

/*
 * The request's next piece, with staging memory if it wants some; NULL: not now. It is
 * counted by pipe_piece_begun(), ended by pipe_piece_end() (which returns its request) or,
 * if it was never begun, by pipe_piece_drop().
 */
struct pipe_piece *pipe_piece_new(struct xfer_req *req, enum stage_use use,
				  void (*done)(struct xfer_ctx *ctx,
					       const struct core_comp *comp));
void pipe_piece_begun(struct xfer_req *req);
struct xfer_req *pipe_piece_end(struct pipe_piece *piece);
void pipe_piece_drop(struct xfer_ctx *ctx);

/* No slot is free: ordinary memory for it, if that has been so for long; or NULL */
struct stage_reserve *pipe_spare(struct xfer_req *req, size_t len);

/* Tells the other side, once, that this request has failed */
void pipe_abort_send(struct xfer_req *req);

/* Puts a request on one of xfer's lists, or takes it off the one that it is on */
void pipe_list_add(struct xfer_req *req, struct xfer_list *list);
void pipe_list_remove(struct xfer_req *req);

/* ---- pipe_send.c ---- */

/* The announced message with this id, or NULL */
struct xfer_req *pipe_sending_find(const struct xfer *xfer, uint64_t id);

/* Who has yet to read its announcement, if that is a note, shall read that it has failed */
void pipe_sending_recall(struct xfer_req *req, int status);

/*
 * Tells the receiver what is to come; @key and @addr as @type has them, or where it is lent. 0 or an
 * error (logged): it is as if it had not been called
 */
int pipe_announce(struct xfer_req *req, enum wire_type type, uint64_t key, uint64_t addr);

/* The request's marker has gone */
void pipe_marker_sent(struct xfer_ctx *ctx, const struct core_comp *comp);

/* Begins the pieces that there are credits and slots for */
void pipe_push(struct xfer_req *req);

/* Begins no more pieces; @tell: the receiver does not know yet */
void pipe_send_fail(struct xfer_req *req, int status, bool tell);

/* What the receiver says about a message that was announced to it */
void pipe_answer(struct xfer *xfer, const struct wire_msg *msg);

/* ---- pipe_arrival.c ---- */

/* The record with this id, or NULL */
struct pipe_arrival *pipe_arrival_find(const struct xfer *xfer, uint64_t id);
void pipe_arrival_free(struct pipe_arrival *arrival, struct xfer *xfer);

/* The same, made if it is the first time that it is heard of; NULL: no room */
struct pipe_arrival *pipe_arrival_get(struct xfer *xfer, uint64_t id);

/* It concerns @ep, if nothing else is known yet */
void pipe_arrival_bind(struct pipe_arrival *arrival, struct xfer_ep *ep);

/* This is its announcement */
void pipe_arrival_announce(struct pipe_arrival *arrival, struct xfer_ep *ep,
			   const struct wire_msg *msg);

/* It will not be announced, for the reason @status: what waits for that ends */
void pipe_arrival_lost(struct pipe_arrival *arrival, struct xfer_ep *ep, int status);

/*
 * The marker of a message has come, and @ready is to be done when it is announced. Sets
 * @err when that cannot be: to FI_ENOMEM, or FI_EIO if it is the second marker.
 */
struct pipe_arrival *pipe_arrival_claim(struct xfer *xfer, uint64_t id,
					void (*ready)(struct pipe_arrival *arrival), int *err);

/* After that: the marker has come to @ep, or to one of the endpoints of its queue */
void pipe_arrival_check(struct pipe_arrival *arrival, struct xfer_ep *ep);

/* All of this for a request with the marker's completion in req->comp */
void pipe_arrival_take(struct xfer_req *req, void (*ready)(struct pipe_arrival *arrival));

/*
 * Looks once more for the notes of those whose marker came before it. @doubt: gives up those whose
 * sender has died, or left, between the two
 */
void pipe_arrivals_look(struct xfer *xfer, bool doubt);

/* Finds out where it comes from. 0, or why nothing will come from there */
int pipe_arrival_source(struct pipe_arrival *arrival);

/* Puts what the announcement says into the completion of what the marker has matched */
void pipe_arrival_describe(const struct pipe_arrival *arrival, struct core_comp *comp);

/* A message is announced */
void pipe_announced(struct xfer_ep *ep, const struct wire_msg *msg);

/* ---- pipe_recv.c ---- */

/* Posts the pieces that there is room for */
void pipe_pull(struct xfer_req *req);

/* Posts no more pieces; @tell: the sender does not know yet */
void pipe_recv_fail(struct xfer_req *req, int status, bool tell);

/* What was asked for is announced; the sender has given up */
void pipe_supplied(struct xfer_ep *ep, const struct wire_msg *msg);
void pipe_aborted(struct xfer_ep *ep, const struct wire_msg *msg);

/* A message that was to come by itself will not */
void pipe_divert_fail(struct pipe_arrival *arrival);

#endif /* P2P_PIPE_SIDES_H */
