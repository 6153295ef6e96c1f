/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rank 4: what is known of long messages coming in, until marker and announcement have both
 * come. See pipe_sides.h.
 */
#include "pipe_sides.h"

#include <string.h>
#include <rdma/fi_errno.h>

#include "ctrl.h"
#include "log.h"
#include "probe.h"

_Static_assert(sizeof(struct pipe_arrival) <= CELL_SIZE, "an arrival is a cell");

/* Its marker may be on its way before its note is put up. */
static void pipe_arrival_look_again(struct pipe_arrival *arrival, struct xfer *xfer)
{
	if (arrival->looks || !board_far_known(xfer->boards, xfer_board_owner(arrival->id)))
		return;
	LIST_INSERT_HEAD(&xfer->looking, arrival, look);
	arrival->looks = true;
	/* else nobody would look */
	xfer_busy_add(xfer, 1);
}

static void pipe_arrival_look_no_more(struct pipe_arrival *arrival, struct xfer *xfer)
{
	if (!arrival->looks)
		return;
	LIST_REMOVE(arrival, look);
	arrival->looks = false;
	xfer_busy_add(xfer, -1);
}

void pipe_arrival_free(struct pipe_arrival *arrival, struct xfer *xfer)
{
	pipe_arrival_look_no_more(arrival, xfer);
	LIST_REMOVE(arrival, chain);
	xfer->open--;
	if (arrival->ctx.ep)
		xfer_ctx_free(&arrival->ctx);
	else
		cell_put(&xfer->cells, arrival);
}

/* Frees it, whatever waits for it */
static void pipe_arrival_forget(struct pipe_arrival *arrival, struct xfer *xfer)
{
	struct xfer_req *peek;

	if (arrival->req)
		arrival->req->pipe.arrival = NULL;
	TAILQ_FOREACH(peek, &arrival->peeks, entry)
		peek->pipe.arrival = NULL;
	pipe_arrival_free(arrival, xfer);
}

static void pipe_arrival_drop(struct xfer_ctx *ctx)
{
	pipe_arrival_forget((struct pipe_arrival *) ctx, ctx->ep->xfer);
}

void pipe_cq_drop(struct xfer_cq *cq)
{
	struct pipe_arrival *arrival, *next;
	struct xfer *xfer = cq->xfer;

	for (size_t i = 0; i < XFER_CHAINS; i++) {
		for (arrival = LIST_FIRST(&xfer->arriving[i]); arrival; arrival = next) {
			next = LIST_NEXT(arrival, chain);
			if (arrival->cq == cq)
				pipe_arrival_forget(arrival, xfer);
		}
	}
}

struct pipe_arrival *pipe_arrival_find(const struct xfer *xfer, uint64_t id)
{
	struct pipe_arrival *arrival;

	LIST_FOREACH(arrival, xfer_chain(xfer->arriving, id), chain) {
		if (arrival->id == id)
			return arrival;
	}
	return NULL;
}

struct pipe_arrival *pipe_arrival_get(struct xfer *xfer, uint64_t id)
{
	struct pipe_arrival *arrival = pipe_arrival_find(xfer, id);

	if (arrival)
		return arrival;
	arrival = cell_get(&xfer->cells);
	if (!arrival) {
		P2P_WARN("no room for an announced message\n");
		return NULL;
	}
	*arrival = (struct pipe_arrival){.id = id};
	TAILQ_INIT(&arrival->peeks);
	LIST_INSERT_HEAD(xfer_chain(xfer->arriving, id), arrival, chain);
	xfer->open++;
	return arrival;
}

void pipe_arrival_bind(struct pipe_arrival *arrival, struct xfer_ep *ep)
{
	if (!arrival->ctx.ep)
		xfer_ctx_init(&arrival->ctx, ep, NULL, pipe_arrival_drop);
}

/* All that will be known of it is known. */
static void pipe_arrival_told(struct pipe_arrival *arrival, struct xfer_ep *ep)
{
	pipe_arrival_bind(arrival, ep);
	pipe_arrival_look_no_more(arrival, ep->xfer);
	if (ep->peeks && !ep->peek_data)
		heard_add(&ep->xfer->heard, arrival->id);
	arrival->announced = true;
}

void pipe_arrival_announce(struct pipe_arrival *arrival, struct xfer_ep *ep,
			   const struct wire_msg *msg)
{
	pipe_arrival_told(arrival, ep);
	arrival->total = msg->len;
	arrival->data = msg->data;
	arrival->flags = msg->flags;
	arrival->chunk = msg->chunk;
	arrival->key = msg->key;
	arrival->addr = msg->addr;
	arrival->offer = msg->offer;
	arrival->name_len = msg->name_len;
	memcpy(arrival->name, msg->name, msg->name_len);
}

/* What would have been announced will not come, for the reason @status. */
static void pipe_arrival_fail(struct pipe_arrival *arrival, struct xfer_ep *ep, int status)
{
	pipe_arrival_told(arrival, ep);
	arrival->status = status;
}

/* Looks whether it is announced, or given up, on its sender's board */
static void pipe_arrival_look(struct pipe_arrival *arrival, struct xfer_ep *ep)
{
	const char *why = "it is about something else";
	uint8_t text[BOARD_TEXT_MAX];
	struct wire_msg msg;
	size_t len;
	int ret;

	if (arrival->announced || !ep->xfer->boards)
		return;
	len = board_far_read(ep->xfer->boards, xfer_board_owner(arrival->id), arrival->id, text);
	if (!len) {
		pipe_arrival_look_again(arrival, ep->xfer);
		return;
	}
	ret = wire_decode(text, len, &msg, &why);
	if (!ret && msg.id == arrival->id && msg.type == WIRE_ANNOUNCE) {
		pipe_arrival_announce(arrival, ep, &msg);
		arrival->noted = true;
	} else if (!ret && msg.id == arrival->id && msg.type == WIRE_ABORT) {
		pipe_arrival_fail(arrival, ep, msg.status);
	} else {
		P2P_WARN("a note of %zu bytes cannot be read: %s\n", len, why);
		pipe_arrival_fail(arrival, ep, -FI_EIO);
	}
}

int pipe_arrival_source(struct pipe_arrival *arrival)
{
	arrival->via = arrival->ctx.ep;
	if (arrival->status)
		return arrival->status;
	arrival->via = ctrl_answering(arrival->via, arrival->flags);
	return arrival->via->resolve(arrival->via, arrival->name, arrival->name_len,
				     &arrival->src);
}

void pipe_arrival_describe(const struct pipe_arrival *arrival, struct core_comp *comp)
{
	comp->flags &= ~FI_REMOTE_CQ_DATA;
	comp->data = arrival->data;
	comp->len = arrival->total;
	if (arrival->flags & WIRE_HAS_DATA)
		comp->flags |= FI_REMOTE_CQ_DATA;
}

/* ---- marker and announcement ---- */

static void pipe_peek_end(struct pipe_arrival *arrival, struct xfer_req *req)
{
	pipe_arrival_describe(arrival, &req->comp);
	probe_found(req);
}

/* What waited for the announcement goes on. */
static void pipe_arrival_known(struct pipe_arrival *arrival)
{
	struct xfer_req *peek;

	while ((peek = TAILQ_FIRST(&arrival->peeks))) {
		TAILQ_REMOVE(&arrival->peeks, peek, entry);
		peek->pipe.arrival = NULL;
		pipe_peek_end(arrival, peek);
	}
	if (arrival->ready)
		arrival->ready(arrival);
}

struct pipe_arrival *pipe_arrival_claim(struct xfer *xfer, uint64_t id,
					void (*ready)(struct pipe_arrival *arrival), int *err)
{
	struct pipe_arrival *arrival = pipe_arrival_get(xfer, id);

	if (arrival && !arrival->ready) {
		arrival->ready = ready;
		return arrival;
	}
	if (arrival)
		P2P_WARN("two messages came under one id\n");
	*err = arrival ? FI_EIO : FI_ENOMEM;
	return NULL;
}

void pipe_arrival_check(struct pipe_arrival *arrival, struct xfer_ep *ep)
{
	pipe_arrival_look(arrival, ep);
	if (arrival->announced)
		pipe_arrival_known(arrival);
}

void pipe_arrivals_look(struct xfer *xfer, bool doubt)
{
	struct pipe_arrival *arrival, *next;
	struct xfer_ep *ep;
	bool left;

	for (arrival = LIST_FIRST(&xfer->looking); arrival; arrival = next) {
		next = LIST_NEXT(arrival, look);
		ep = arrival->ctx.ep ? arrival->ctx.ep : xfer_cq_ep(arrival->cq, NULL);
		if (!ep)
			continue;
		/* asked first: what was put up before that is found */
		left = doubt && board_far_left(xfer->boards, xfer_board_owner(arrival->id));
		pipe_arrival_look(arrival, ep);
		if (left && !arrival->announced)
			pipe_arrival_fail(arrival, ep, -FI_ECONNABORTED);
		if (arrival->announced)
			pipe_arrival_known(arrival);
	}
}

void pipe_arrival_take(struct xfer_req *req, void (*ready)(struct pipe_arrival *arrival))
{
	struct xfer_ep *ep = req->ctx.ep;
	struct pipe_arrival *arrival;
	int err;

	xfer_set_busy(req);
	req->pipe.id = req->comp.data & WIRE_ID_MASK;
	arrival = pipe_arrival_claim(ep->xfer, req->pipe.id, ready, &err);
	if (!arrival) {
		xfer_req_end(req, err);
		return;
	}
	pipe_arrival_bind(arrival, ep);
	arrival->req = req;
	req->pipe.arrival = arrival;
	pipe_arrival_check(arrival, ep);
}

/* ---- peeks ---- */

bool pipe_marker_spent(const struct xfer *xfer, uint64_t id)
{
	const struct pipe_arrival *arrival = pipe_arrival_find(xfer, id);

	/* one that has been announced, and that no more is known of, is over */
	return arrival ? arrival->ready != NULL : heard_before(&xfer->heard, id);
}

void pipe_peeked(struct xfer_req *req)
{
	struct xfer_ep *ep = req->ctx.ep;
	struct pipe_arrival *arrival;

	arrival = pipe_arrival_get(ep->xfer, req->comp.data & WIRE_ID_MASK);
	if (!arrival) {
		xfer_req_end(req, FI_ENOMEM);
		return;
	}
	pipe_arrival_bind(arrival, ep);
	pipe_arrival_look(arrival, ep);
	if (arrival->announced) {
		pipe_peek_end(arrival, req);
		return;
	}
	xfer_set_busy(req);
	req->pipe.arrival = arrival;
	TAILQ_INSERT_TAIL(&arrival->peeks, req, entry);
}

/* ---- announcements ---- */

void pipe_announced(struct xfer_ep *ep, const struct wire_msg *msg)
{
	struct pipe_arrival *arrival = pipe_arrival_get(ep->xfer, msg->id);

	if (!arrival)
		return;
	if (arrival->announced) {
		P2P_WARN("a message is announced twice: the second time is ignored\n");
		return;
	}
	pipe_arrival_announce(arrival, ep, msg);
	pipe_arrival_known(arrival);
}

void pipe_arrival_lost(struct pipe_arrival *arrival, struct xfer_ep *ep, int status)
{
	pipe_arrival_fail(arrival, ep, status);
	pipe_arrival_known(arrival);
}

void pipe_unreadable(struct xfer_ep *ep, uint64_t id)
{
	struct pipe_arrival *arrival = pipe_arrival_get(ep->xfer, id);

	if (arrival && !arrival->announced)
		pipe_arrival_lost(arrival, ep, -FI_EOPNOTSUPP);
}

void pipe_board_found(struct xfer_ep *ep, uint64_t owner)
{
	struct pipe_arrival *arrival, *next;

	for (size_t i = 0; i < XFER_CHAINS; i++) {
		for (arrival = LIST_FIRST(&ep->xfer->arriving[i]); arrival; arrival = next) {
			next = LIST_NEXT(arrival, chain);
			if (arrival->announced || xfer_board_owner(arrival->id) != owner)
				continue;
			pipe_arrival_look(arrival, arrival->ctx.ep ? arrival->ctx.ep : ep);
			if (arrival->announced)
				pipe_arrival_known(arrival);
		}
	}
}
