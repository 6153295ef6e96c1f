/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Control messages by boards. See note.h. */
#include "xfer/note.h"

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "xfer/ctrl.h"
#include "xfer/peer.h"
#include "xfer/req_state.h"
#include "xfer/xfer_proto.h"

bool note_tell(struct xfer_peer *peer, struct wire_msg *msg)
{
	struct xfer *xfer = peer->ep->xfer;
	void *text = board_note(&xfer->notes.board, msg->id);

	xfer_assert_locked(xfer);
	if (!text)
		return false;
	/* an answer may be a message all the same */
	ctrl_listen(&peer->ep->front);
	if (wait_sleepers(&xfer->wait))
		msg->flags |= WIRE_CALLS;
	msg->token = peer->theirs.token;
	board_show(&xfer->notes.board, msg->id, wire_encode(msg, text));
	return true;
}

void note_give_up(struct xfer *xfer, uint64_t id, int status)
{
	xfer_assert_locked(xfer);
	board_take_down(&xfer->notes.board, id | WIRE_MARK);
	board_give_up(&xfer->notes.board, id, status);
}

bool note_answer(const struct xfer *xfer, uint64_t id)
{
	xfer_assert_locked(xfer);
	return board_far_answer(xfer->notes.boards, xfer_board_owner(id), id);
}

int note_board(const struct xfer_peer *peer, uint64_t owner, uint64_t place)
{
	struct xfer *xfer = peer->ep->xfer;

	xfer_assert_locked(xfer);
	return board_far_open(&xfer->notes.boards, owner, place, peer->process,
			      ipc_shares_ids(&xfer->ipc, peer->spaces.pid));
}

/* Whose token it is, among the domain's endpoints; any, if it is nobody's */
static struct xfer_ep *note_ep(const struct xfer *xfer, uint64_t token)
{
	struct xfer_ep *ep;

	LIST_FOREACH(ep, &xfer->eps, entry) {
		if (xfer_token_find(ep, token))
			return ep;
	}
	return LIST_FIRST(&xfer->eps);
}

static void note_look(struct xfer *xfer, uint64_t id)
{
	uint8_t text[BOARD_TEXT_MAX];
	int len = board_far_read(xfer->notes.boards, xfer_board_owner(id), id, text);
	struct wire_msg msg = {.token = 0}, end = {.type = WIRE_DONE, .id = id};
	const char *why = "it is about something else";
	struct xfer_ep *ep;

	if (len > 0 && (wire_decode(text, (size_t) len, &msg, &why) || msg.id != id ||
			msg.type != WIRE_ANNOUNCE || msg.to_sender)) {
		P2P_WARN("a note of %d bytes cannot be read: %s\n", len, why);
		len = -FI_EIO;
	}
	ep = len ? note_ep(xfer, msg.token) : NULL;
	if (!ep)
		return;
	if (len > 0) {
		msg.noted = true;
		ctrl_dispatch(ep, &msg);
		return;
	}
	/* nobody else reads it */
	note_answer(xfer, id);
	end.status = len;
	XFER_PROTO_EACH(xfer, message[WIRE_DONE], ep, NULL, &end);
}

void note_await(struct xfer *xfer, struct note_look *look, uint64_t id)
{
	xfer_assert_locked(xfer);
	if (!look->entry.le_prev)
		LIST_INSERT_HEAD(&xfer->notes.looks, look, entry);
	look->id = id;
	if (!look->far && board_far_known(xfer->notes.boards, xfer_board_owner(id))) {
		look->far = true;
		xfer->looks++;
		/* else nobody would look */
		xfer_busy_add(xfer, 1);
	}
	if (look->far)
		note_look(xfer, id);
}

void note_await_no_more(struct xfer *xfer, struct note_look *look)
{
	xfer_assert_locked(xfer);
	if (!look->entry.le_prev)
		return;
	LIST_REMOVE(look, entry);
	xfer->looks -= look->far;
	xfer_busy_add(xfer, -look->far);
	*look = (struct note_look){.id = 0};
}

void notes_progress(struct xfer *xfer)
{
	struct wire_msg end = {.type = WIRE_DONE, .to_sender = true};
	struct note_look *look, *next;
	struct xfer_req *req;

	xfer_assert_locked(xfer);
	while (board_answered(&xfer->notes.board, &end.id)) {
		req = xfer_req_find(xfer, end.id);
		if (req && xfer_req_fits(req, end.type))
			XFER_PROTO_EACH(xfer, message[WIRE_DONE], req->ctx.ep, req, &end);
	}
	for (look = LIST_FIRST(&xfer->notes.looks); look; look = next) {
		next = LIST_NEXT(look, entry);
		note_await(xfer, look, look->id);
	}
}

bool note_stands(const struct xfer *xfer, uint64_t id)
{
	const uint64_t owner = xfer_board_owner(id);
	uint8_t text[BOARD_TEXT_MAX];

	xfer_assert_locked(xfer);
	return board_far_read(xfer->notes.boards, owner, id, text) > 0 ||
	       board_far_read(xfer->notes.boards, owner, id | WIRE_MARK, text) > 0;
}
