/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What rndv.c (both sides), rndv_send.c, rndv_recv.c and rndv_arrival.c share. All [locked].
 */
#ifndef P2P_RNDV_SIDES_H
#define P2P_RNDV_SIDES_H

#include "proto/rndv.h"

/**
 * struct rndv_arrival - a message on its way here, from the first that is known of it.
 * @ctx:	on the endpoint's list of live records; @ctx.ep is NULL until it is known
 * @announced:	the announcement has come; @total, @data, @flags, @chunk, @key, @addr,
 *		@offer, @name are its
 * @noted:	it is on the sender's board; @looks: it may be, soon, and is looked for (@look)
 * @ready:	the marker has come, too: what to do when both have
 * @req:	the request that the marker has matched, or NULL
 * @via, @src:	between which endpoints answers, and pieces, travel
 * @cq, @marker: what is known of a receive that is not followed up
 * @held:	the place of a message that is to come by itself, see rndv_divert()
 * @peeks:	peeks that wait for the announcement
 * @status:	the sender's error, if it gave up
 * @heard, @probes: of a message that is to come by itself, as in struct xfer_req
 */
struct rndv_arrival {
	struct xfer_ctx ctx;
	uint64_t id;
	bool announced;
	bool noted;
	bool looks;
	int status;
	void (*ready)(struct rndv_arrival *arrival);
	struct xfer_req *req;
	struct xfer_cq *cq;
	struct core_comp marker;
	struct multi_recv_msg *held;
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
	LIST_ENTRY(rndv_arrival) chain;
	LIST_ENTRY(rndv_arrival) look;
};

/**
 * struct rndv_piece - a part of a long message, at either end.
 * @out:	what the core is given
 * @index:	its number in the message
 * @iov, @count, @len: its place in the user's buffer
 * @slot, @reserve: staging memory, at @host; neither: it travels from or to its place
 */
struct rndv_piece {
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

/* ---- rndv.c ---- */

/* Has every piece begun? */
bool rndv_req_done(const struct xfer_req *req);

/*
 * The request's next piece, with staging memory if it wants some; NULL: not now. It is
 * counted by rndv_piece_begun(), ended by rndv_piece_end() (which returns its request) or,
 * if it was never begun, by rndv_piece_drop().
 */
struct rndv_piece *rndv_piece_new(struct xfer_req *req, enum stage_use use,
				  void (*done)(struct xfer_ctx *ctx,
					       const struct core_comp *comp));
void rndv_piece_begun(struct xfer_req *req);
struct xfer_req *rndv_piece_end(struct rndv_piece *piece);
void rndv_piece_drop(struct xfer_ctx *ctx);

/* No slot is free: ordinary memory for it, if that has been so for long; or NULL */
struct stage_reserve *rndv_spare(struct xfer_req *req, size_t len);

/* Tells the other side, once, that this request has failed */
void rndv_abort_send(struct xfer_req *req);

/* Puts a request on one of xfer's lists, or takes it off the one that it is on */
void rndv_list_add(struct xfer_req *req, struct xfer_list *list);
void rndv_list_remove(struct xfer_req *req);

/* ---- rndv_send.c ---- */

/* The announced message with this id, or NULL */
struct xfer_req *rndv_sending_find(const struct xfer *xfer, uint64_t id);

/* Who has yet to read its announcement, if that is a note, shall read that it has failed */
void rndv_sending_recall(struct xfer_req *req, int status);

/*
 * Tells the receiver what is to come; @key and @addr as @type has them, or where it is lent. 0 or an
 * error (logged): it is as if it had not been called
 */
int rndv_announce(struct xfer_req *req, enum wire_type type, uint64_t key, uint64_t addr);

/* The request's marker has gone */
void rndv_marker_sent(struct xfer_ctx *ctx, const struct core_comp *comp);

/* Begins the pieces that there are credits and slots for */
void rndv_push(struct xfer_req *req);

/* Begins no more pieces; @tell: the receiver does not know yet */
void rndv_send_fail(struct xfer_req *req, int status, bool tell);

/* What the receiver says about a message that was announced to it */
void rndv_answer(struct xfer *xfer, const struct wire_msg *msg);

/* ---- rndv_arrival.c ---- */

/* The record with this id, or NULL */
struct rndv_arrival *rndv_arrival_find(const struct xfer *xfer, uint64_t id);
void rndv_arrival_free(struct rndv_arrival *arrival, struct xfer *xfer);

/* The same, made if it is the first time that it is heard of; NULL: no room */
struct rndv_arrival *rndv_arrival_get(struct xfer *xfer, uint64_t id);

/* It concerns @ep, if nothing else is known yet */
void rndv_arrival_bind(struct rndv_arrival *arrival, struct xfer_ep *ep);

/* This is its announcement */
void rndv_arrival_announce(struct rndv_arrival *arrival, struct xfer_ep *ep,
			   const struct wire_msg *msg);

/* It will not be announced, for the reason @status: what waits for that ends */
void rndv_arrival_lost(struct rndv_arrival *arrival, struct xfer_ep *ep, int status);

/*
 * The marker of a message has come, and @ready is to be done when it is announced. Sets
 * @err when that cannot be: to FI_ENOMEM, or FI_EIO if it is the second marker.
 */
struct rndv_arrival *rndv_arrival_claim(struct xfer *xfer, uint64_t id,
					void (*ready)(struct rndv_arrival *arrival), int *err);

/* After that: the marker has come to @ep, or to one of the endpoints of its queue */
void rndv_arrival_check(struct rndv_arrival *arrival, struct xfer_ep *ep);

/* All of this for a request with the marker's completion in req->comp */
void rndv_arrival_take(struct xfer_req *req, void (*ready)(struct rndv_arrival *arrival));

/*
 * Looks once more for the notes of those whose marker came before it. @doubt: gives up those whose
 * sender has died, or left, between the two
 */
void rndv_arrivals_look(struct xfer *xfer, bool doubt);

/* Finds out where it comes from. 0, or why nothing will come from there */
int rndv_arrival_source(struct rndv_arrival *arrival);

/* Puts what the announcement says into the completion of what the marker has matched */
void rndv_arrival_describe(const struct rndv_arrival *arrival, struct core_comp *comp);

/* A message is announced */
void rndv_announced(struct xfer_ep *ep, const struct wire_msg *msg);

/* ---- rndv_recv.c ---- */

/* Posts the pieces that there is room for */
void rndv_pull(struct xfer_req *req);

/* Posts no more pieces; @tell: the sender does not know yet */
void rndv_recv_fail(struct xfer_req *req, int status, bool tell);

/* What was asked for is announced; the sender has given up */
void rndv_supplied(struct xfer_ep *ep, const struct wire_msg *msg);
void rndv_aborted(struct xfer_ep *ep, const struct wire_msg *msg);

/* A message that was to come by itself will not */
void rndv_divert_fail(struct rndv_arrival *arrival);

#endif /* P2P_RNDV_SIDES_H */
