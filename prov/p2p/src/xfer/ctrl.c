/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Control messages sent and received. See ctrl.h. */
#include "xfer/ctrl.h"

#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "xfer/ep_state.h"
#include "xfer/peer.h"
#include "xfer/sendq.h"
#include "xfer/xfer_proto.h"
#include "xfer/req_state.h"

/*
 * Receives posted for control messages. Cores look through posted receives one by one,
 * so each of these is paid for by every message of the user's; what does not find one
 * free waits in the core, until one of them is posted again: that depends on nothing but
 * our progress. So there is one, for greetings, before more are needed: before something comes
 * or goes that control messages are about. There are more on a side endpoint: nothing else is
 * received there but pieces, and the core stops reading meanwhile.
 */
#define CTRL_RECEIVES 2
#define CTRL_RECEIVES_SIDE 16

/*
 * Messages that go together are no longer than this: the first of them wait for the others. So is what cores
 * copy without further ado.
 */
#define CTRL_LETTER 2048

/* @reserve: where it lies if it is too long for @buf. Either may have several messages in it. */
struct ctrl_out {
	struct xfer_out out;
	struct stage_reserve *reserve;
	uint8_t buf[CELL_SIZE - sizeof(struct xfer_out) - sizeof(struct stage_reserve *)];
};

/*
 * @out:	in struct xfer_ep.inbox.posted, while the core has it, or it or one before it is not dealt with. It has @ret
 *		while the core has no room for it; or, if it @came, no memory is there for what it says
 * @came, @err:	its completion, once there is one
 * @read:	so many of its bytes are dealt with
 */
struct ctrl_in {
	struct xfer_out out;
	struct stage_reserve *reserve;
	bool came;
	int err;
	size_t read;
};

_Static_assert(sizeof(struct ctrl_out) <= CELL_SIZE, "a control message is a cell");
_Static_assert(sizeof((struct ctrl_out *) 0)->buf >= WIRE_PLAIN_MSG_MAX &&
		       sizeof((struct ctrl_out *) 0)->buf <= WIRE_MSG_MAX,
	       "any fits, and what it fits in fits a receive");
_Static_assert(sizeof(struct ctrl_in) <= CELL_SIZE, "a control message is a cell");

/* Frees a control message's record and counts it off. */
static void ctrl_out_drop(struct xfer_ctx *ctx)
{
	struct ctrl_out *ctrl = (struct ctrl_out *) ctx;
	struct xfer *xfer = ctx->ep->xfer;

	if (ctrl->reserve)
		stage_reserve_put(&xfer->stage, ctrl->reserve, WIRE_MSG_MAX);
	xfer_busy_add(xfer, -1);
	ctrl->out.via->owed--;
	xfer_ctx_free(ctx);
}

/* Frees a control message that the core has sent, and tells the protocols if it could not. */
static void ctrl_sent(struct xfer_ctx *ctx, const struct core_comp *comp)
{
	struct xfer_channel *via = ((struct xfer_out *) ctx)->via;
	fi_addr_t addr = ((struct xfer_out *) ctx)->addr;
	int err = comp->err;

	ctrl_out_drop(ctx);
	if (!err || via->ep->xfer->losing)
		return;
	P2P_WARN("a control message could not be sent: %s\n", fi_strerror(abs(err)));
	XFER_PROTO_EACH(via->ep->xfer, unsent, via, addr, -abs(err));
}

/* Writes a control message to the log. */
static void ctrl_trace(const char *what, const struct wire_msg *msg)
{
	P2P_DBG("%s %s 0x%zx: len %zu, count %u, status %d\n", what, wire_type_name(msg->type),
		(size_t) msg->id, (size_t) msg->len, msg->count, msg->status);
}

/*
 * Computes the tag for control messages to @addr, or of @channel's own (FI_ADDR_UNSPEC). Each channel has one of its own
 * over a core that mixes up those of a domain (QUIRK_MIXES). The wrong endpoint would take what is asked of another.
 */
static uint64_t ctrl_tag(struct xfer_channel *channel, fi_addr_t addr)
{
	const struct xfer_ep *ep = channel->ep;
	uint8_t name[WIRE_NAME_MAX] = {0};
	size_t len = sizeof name;

	if (!(ep->quirks & QUIRK_MIXES))
		return ep->tag_bit;
	if (addr == FI_ADDR_UNSPEC)
		return ep->tag_bit | wire_name_ident(channel->name, channel->name_len);
	if (channel->ops->lookup(channel, addr, name, &len))
		len = 0;
	return ep->tag_bit | wire_name_ident(name, len);
}

/* Counts an internal receive that the core has refused, or has taken after that. */
static void ctrl_in_wait(struct ctrl_in *ctrl, ssize_t ret)
{
	ctrl->out.via->inbox.refused += xfer_out_wait(&ctrl->out, ret);
}

static bool ctrl_in_is_unposted(const struct ctrl_in *ctrl)
{
	return ctrl->out.ret && !ctrl->came;
}

static void ctrl_in_free(struct ctrl_in *ctrl)
{
	stage_reserve_put(&ctrl->out.ctx.ep->xfer->stage, ctrl->reserve, WIRE_MSG_MAX);
	xfer_ctx_free(&ctrl->out.ctx);
}

static void ctrl_in_drop(struct xfer_ctx *ctx)
{
	struct ctrl_in *ctrl = (struct ctrl_in *) ctx;

	if (!ctrl_in_is_unposted(ctrl))
		TAILQ_REMOVE(&ctrl->out.via->inbox.posted, &ctrl->out, entry);
	ctrl_in_wait(ctrl, 0);
	ctrl_in_free(ctrl);
}

/*
 * Posts an internal receive, now or when the core takes it: others may have taken all of its places. After any
 * other error it is tried again, too, as peers would wait for ever.
 */
static void ctrl_in_again(struct ctrl_in *ctrl)
{
	const ssize_t ret = xfer_out_try(&ctrl->out);

	if (ret && ret != -FI_EAGAIN && !ctrl->out.ret)
		P2P_WARN("posting an internal receive: %s\n", fi_strerror((int) -ret));
	ctrl->came = false;
	ctrl_in_wait(ctrl, ret);
	if (!ret)
		TAILQ_INSERT_TAIL(&ctrl->out.via->inbox.posted, &ctrl->out, entry);
}

/*
 * Finds the request that a message answers; NULL: it answers none, as it asks or announces something. False in
 * @fits: it is dropped. Only the peer that was asked can answer.
 */
static struct xfer_req *ctrl_answered(struct xfer *xfer, const struct wire_msg *msg, bool *fits)
{
	struct xfer_req *req;

	*fits = true;
	if (!msg->to_sender)
		return NULL;
	req = xfer_req_find(xfer, msg->type == WIRE_ANNOUNCE ? msg->key : msg->id);
	if (req && req->peer != msg->peer) {
		xfer_message_wrong(xfer, msg->type, "another peer's");
		*fits = false;
		return NULL;
	}
	*fits = req && xfer_req_fits(req, msg->type);
	if (!req)
		/* one that failed here in the meantime */
		P2P_INFO("an answer for a message that is not being sent is dropped\n");
	return req;
}

bool ctrl_dispatch(struct xfer_ep *ep, struct wire_msg *msg)
{
	struct xfer_token *token = msg->token ? xfer_token_find(ep, msg->token) : NULL;
	struct xfer_req *req;
	bool fits, again = false;
	int ret;

	xfer_assert_locked(ep->xfer);
	ret = token ? xfer_peer_recall(token->peer) : 0;
	if (ret)
		return ret != -FI_ENOMEM;
	/* who is told that it is lost may have lost the other one, too, and be told nothing in return */
	if (token && token->lost && wire_resets(msg))
		token = NULL;
	if (!token && msg->type != WIRE_HELLO)
		xfer_message_wrong(ep->xfer, msg->type, "from nobody that was greeted");
	if (token ? token->lost : msg->type != WIRE_HELLO) {
		XFER_PROTO_EACH(ep->xfer, unheard, ep, token, msg);
		return true;
	}
	msg->peer = token ? token->peer : NULL;
	msg->again = &again;
	/* a note tells nothing of the core, and may be old */
	if (msg->peer && !msg->noted) {
		xfer_token_count(token, msg);
		xfer_peer_heard(msg->peer, wire_counts(msg));
	}
	req = ctrl_answered(ep->xfer, msg, &fits);
	if (fits)
		XFER_PROTO_EACH(ep->xfer, message[msg->type], ep, req, msg);
	return !again;
}

/* Who sends one such message sends many: the reason is said when it is another one. */
static void ctrl_unread(struct xfer *xfer, size_t len, const char *why)
{
	if (why == xfer->unread)
		return;
	xfer->unread = why;
	P2P_WARN("a control message of %zu bytes is dropped: %s\n", len, why);
}

/*
 * Reads all messages that have come as one. False: there is no memory for what one of them says, and it is
 * read again.
 */
static bool ctrl_read(struct ctrl_in *ctrl)
{
	struct xfer_ep *ep = ctrl->out.ctx.ep;
	struct wire_msg msg;
	const char *why;
	int ret;

	do {
		ret = wire_decode((char *) ctrl->reserve->addr + ctrl->read,
				  ctrl->out.len - ctrl->read, &msg, &why);
		if (!ret) {
			ctrl_trace("received", &msg);
			if (!ctrl_dispatch(ep, &msg))
				return false;
		} else {
			ctrl_unread(ep->xfer, ctrl->out.len - ctrl->read, why);
		}
		if (ret == -FI_EOPNOTSUPP)
			XFER_PROTO_EACH(ep->xfer, unheard, ep, NULL, &msg);
		ctrl->read += msg.size;
	} while (msg.size && ctrl->read < ctrl->out.len);
	return true;
}

/* Takes the first internal receive that has come. False: it stays the first one */
static bool ctrl_in_take(struct ctrl_in *ctrl)
{
	struct ctrl_inbox *inbox = &ctrl->out.via->inbox;

	TAILQ_REMOVE(&inbox->posted, &ctrl->out, entry);
	if (ctrl->err == FI_ECANCELED) {
		ctrl_in_free(ctrl);
		return true;
	}
	if (ctrl->err) {
		P2P_WARN("a control message could not be received: %s\n",
			 fi_strerror(ctrl->err));
	} else if (!ctrl_read(ctrl)) {
		TAILQ_INSERT_HEAD(&inbox->posted, &ctrl->out, entry);
		ctrl_in_wait(ctrl, -FI_ENOMEM);
		return false;
	}
	ctrl_in_again(ctrl);
	return true;
}

/* Takes control messages in the order in which they have come */
static void ctrl_hear(struct ctrl_inbox *inbox)
{
	struct ctrl_in *ctrl;

	while ((ctrl = (struct ctrl_in *) TAILQ_FIRST(&inbox->posted)) && ctrl->came &&
	       ctrl_in_take(ctrl))
		;
}

/*
 * Notes that an internal receive has come, and hears what is in order. Threads that read a queue at once may
 * come here in another order than what they have read came in: what is told apart by its peer's token must not
 * overtake the greeting that gives it. Receives are matched in the order in which they were posted, so in that
 * order messages are dealt with.
 */
static void ctrl_received(struct xfer_ctx *ctx, const struct core_comp *comp)
{
	struct ctrl_in *ctrl = (struct ctrl_in *) ctx;

	ctx->cq->heard++;
	ctrl->came = true;
	ctrl->out.len = comp->len;
	ctrl->read = 0;
	ctrl->err = abs(comp->err);
	ctrl_hear(&ctrl->out.via->inbox);
}

/* How many internal receives have no memory yet */
static void ctrl_in_miss(struct xfer_channel *channel, unsigned int missing)
{
	xfer_busy_add(channel->ep->xfer, (int) missing - (int) channel->inbox.missing);
	channel->inbox.missing = missing;
}

/* Posts those that are missing, as far as there is memory for them */
static void ctrl_in_fill(struct xfer_channel *channel)
{
	struct xfer *xfer = channel->ep->xfer;
	struct stage_reserve *reserve;
	struct ctrl_in *ctrl;

	while (channel->inbox.missing) {
		reserve = stage_reserve_get(&xfer->stage, WIRE_MSG_MAX);
		ctrl = reserve ? cell_get(&xfer->cells) : NULL;
		if (reserve && !ctrl)
			stage_reserve_put(&xfer->stage, reserve, 0);
		if (!ctrl)
			return;
		ctrl->reserve = reserve;
		xfer_out_init(&ctrl->out, channel, FI_ADDR_UNSPEC,
			      ctrl_tag(channel, FI_ADDR_UNSPEC), ctrl_received, ctrl_in_drop);
		ctrl->out.recv = true;
		ctrl->out.iov[0] = (struct iovec){reserve->addr, WIRE_MSG_MAX};
		ctrl->out.desc[0] = reserve->desc;
		ctrl->out.count = 1;
		ctrl_in_again(ctrl);
		ctrl_in_miss(channel, channel->inbox.missing - 1);
	}
}

/* Has so many internal receives posted, now or when there is room and memory */
static void ctrl_in_want(struct xfer_channel *channel, unsigned int wanted)
{
	if (channel->inbox.wanted >= wanted)
		return;
	ctrl_in_miss(channel, channel->inbox.missing + wanted - channel->inbox.wanted);
	channel->inbox.wanted = wanted;
	ctrl_in_fill(channel);
}

void ctrl_progress(struct xfer_channel *channel)
{
	struct xfer_ctx *ctx;
	struct ctrl_in *ctrl;

	xfer_assert_locked(channel->ep->xfer);
	if (channel->inbox.refused) {
		LIST_FOREACH(ctx, &channel->ep->live, live) {
			ctrl = (struct ctrl_in *) ctx;
			if (ctx->done == ctrl_received && ctrl->out.via == channel &&
			    ctrl_in_is_unposted(ctrl))
				ctrl_in_again(ctrl);
		}
		ctrl_hear(&channel->inbox);
	}
	if (channel->inbox.missing)
		ctrl_in_fill(channel);
}

void ctrl_listen(struct xfer_channel *channel)
{
	struct xfer_ep *ep = channel->ep;

	xfer_assert_locked(ep->xfer);
	ctrl_in_want(channel, channel == &ep->front ? CTRL_RECEIVES : CTRL_RECEIVES_SIDE);
	if (channel->inbox.open)
		return;
	channel->inbox.open = true;
	xfer_apart_update(ep->xfer);
}

void ctrl_expect(struct xfer_cq *cq, uint64_t data)
{
	struct xfer_ep *ep;

	xfer_assert_locked(cq->xfer);
	if (!(data & cq->xfer->marks & WIRE_MARK))
		return;
	/* the completion does not tell which endpoint it came to */
	LIST_FOREACH(ep, &cq->xfer->eps, entry) {
		if (xfer_ep_answers(ep, cq))
			ctrl_listen(&ep->front);
	}
}

/* May peers ask for memory of ours before anything else happens, and at any time? */
static bool ctrl_serves(const struct xfer_ep *ep)
{
	return ep->quirks & QUIRK_MIXES || ep->xfer->key_mark || ep->xfer->keys_ours;
}

/* Peers may greet this endpoint: nobody has to look for that in another queue than the one that is read. */
void ctrl_start(struct xfer_ep *ep)
{
	xfer_assert_locked(ep->xfer);
	if (ctrl_serves(ep))
		ctrl_listen(&ep->front);
	else if (ep->rxcq && ep->tag_bit)
		ctrl_in_want(&ep->front, 1);
}

void ctrl_stop(struct xfer_ep *ep)
{
	xfer_assert_locked(ep->xfer);
	if (!ep->front.inbox.open || ctrl_serves(ep))
		return;
	ep->front.inbox.open = false;
	xfer_apart_update(ep->xfer);
}

void ctrl_close(struct xfer_channel *channel)
{
	xfer_assert_locked(channel->ep->xfer);
	ctrl_in_miss(channel, 0);
}

bool ctrl_unsent(const struct xfer_channel *channel, fi_addr_t addr)
{
	xfer_assert_locked(channel->ep->xfer);
	return (channel->letter && channel->letter->addr == addr) ||
	       xfer_outq_find(channel, addr);
}

/* Has it room for @len bytes more? */
static bool ctrl_holds(const struct ctrl_out *ctrl, size_t len)
{
	const size_t room = ctrl->reserve ? CTRL_LETTER : sizeof ctrl->buf;

	return ctrl->out.iov[0].iov_len + len <= room;
}

/* Puts a message behind others that are about to be sent there. False: there are none, or there is no room */
static bool ctrl_append(struct xfer_channel *channel, fi_addr_t addr,
			const struct wire_msg *msg)
{
	struct ctrl_out *ctrl = (struct ctrl_out *) channel->letter;
	struct iovec *iov;

	if (!ctrl || ctrl->out.addr != addr || !ctrl_holds(ctrl, wire_size(msg)))
		return false;
	iov = ctrl->out.iov;
	iov->iov_len += wire_encode(msg, (char *) iov->iov_base + iov->iov_len);
	return true;
}

/* Makes the record of a message, with room for @len bytes; NULL: there is none (logged) */
static struct ctrl_out *ctrl_out_new(struct xfer *xfer, size_t len)
{
	struct ctrl_out *ctrl = cell_get(&xfer->cells);

	if (!ctrl) {
		P2P_WARN("no room for a control message\n");
		return NULL;
	}
	ctrl->reserve = NULL;
	if (len <= sizeof ctrl->buf)
		return ctrl;
	ctrl->reserve = stage_reserve_get(&xfer->stage, WIRE_MSG_MAX);
	if (ctrl->reserve)
		return ctrl;
	cell_put(&xfer->cells, ctrl);
	return NULL;
}

int ctrl_send(struct xfer_channel *channel, fi_addr_t addr, const struct wire_msg *msg,
	      uint64_t until)
{
	struct xfer *xfer = channel->ep->xfer;
	const size_t len = wire_size(msg);
	/* nothing that matters may be put behind what is dropped, or what its receiver cannot read */
	const bool crowd = !until && !msg->old && (msg->among || xfer->passing);
	struct ctrl_out *ctrl;
	bool waits;

	xfer_assert_locked(xfer);
	if (channel->ep->closing)
		return -FI_ECANCELED;
	ctrl_listen(channel);
	ctrl_trace("sending", msg);
	if (crowd && ctrl_append(channel, addr, msg))
		return 0;
	xfer_letter_post(channel);
	waits = crowd && len <= CTRL_LETTER && (channel->owed || !msg->among);
	ctrl = ctrl_out_new(xfer, waits && msg->among ? CTRL_LETTER : len);
	if (!ctrl)
		return -FI_ENOMEM;
	xfer_out_init(&ctrl->out, channel, addr, ctrl_tag(channel, addr), ctrl_sent,
		      ctrl_out_drop);
	xfer_busy_add(xfer, 1);
	channel->owed++;
	ctrl->out.until = until;
	ctrl->out.iov[0].iov_base = ctrl->reserve ? ctrl->reserve->addr : ctrl->buf;
	ctrl->out.iov[0].iov_len = wire_encode(msg, ctrl->out.iov[0].iov_base);
	ctrl->out.desc[0] = ctrl->reserve ? ctrl->reserve->desc : NULL;
	ctrl->out.count = 1;
	if (!waits) {
		xfer_out_post(&ctrl->out);
		return 0;
	}
	/* for others, which may come until the pass has ended, or the next one */
	channel->letter = &ctrl->out;
	if (!xfer->passing)
		wait_wake_mover(&xfer->wait);
	return 0;
}

int ctrl_answer(struct xfer_channel *channel, fi_addr_t addr, const struct wire_msg *msg,
		uint64_t time)
{
	xfer_assert_locked(channel->ep->xfer);
	xfer_outq_drop(channel, addr);
	return ctrl_send(channel, addr, msg, clock_coarse_ms() + time);
}

int ctrl_tell(struct xfer_peer *peer, struct wire_msg *msg)
{
	int ret;

	xfer_assert_locked(peer->ep->xfer);
	if (!peer->open)
		return -FI_ENOTCONN;
	msg->token = peer->theirs.token;
	ret = ctrl_send(msg->front ? &peer->ep->front : peer->via,
			msg->front ? peer->addr : peer->to, msg, 0);
	if (!ret)
		peer->theirs.count[msg->front] += wire_counts(msg);
	return ret;
}

void ctrl_owed(struct xfer_peer *peer, int ret)
{
	xfer_assert_locked(peer->ep->xfer);
	if (ret == -FI_ENOMEM)
		peer->theirs.count[false]++;
}

void ctrl_probe(struct xfer_peer *peer, bool asks)
{
	const uint32_t flags = asks ? WIRE_ASKS : 0;
	struct wire_msg msg = {
		.type = WIRE_PROBE,
		.flags = flags | WIRE_COUNTS_SIDE | WIRE_COUNTS_FRONT,
		.count = peer->theirs.count[false],
		.transfer = peer->theirs.count[true],
	};

	xfer_assert_locked(peer->ep->xfer);
	if (xfer_peer_one_way(peer)) {
		ctrl_tell(peer, &msg);
		return;
	}
	/* nobody knows which of two ways is the faster one */
	msg.flags = flags | WIRE_COUNTS_SIDE;
	ctrl_tell(peer, &msg);
	msg.flags = WIRE_COUNTS_FRONT;
	msg.front = true;
	ctrl_tell(peer, &msg);
}
