/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What waits to be sent. Messages go in order: each waits for its copy and for room in the
 * core. Control messages and pieces go in any order, and wait for room only. All [locked].
 */
#ifndef P2P_SENDQ_H
#define P2P_SENDQ_H

#include "xfer/req.h"

/**
 * struct xfer_out - the head of a record that is sent by itself, in any order; or (@recv) received.
 * @via:	the channel that it takes
 * @recv:	a receive is in no queue of ours but a lane's: it is only tried (xfer_out_try())
 * @behind:	another one for the same address waits before it
 * @late:	see @until
 * @aside:	nobody waits for its end. A send that a lane cannot send ends by itself, after long
 * @cancelled:	it is to be taken back
 * @ret:	what trying to send it has led to: 0, -FI_EAGAIN or an error to be told
 * @until:	it is dropped if the core has no room until then (clock_coarse_ms()), and a little longer (@late); 0: never
 * @since:	its lane's: the core has had no room for it since then [ms]; 0: it has not been asked
 * @post:	gives it to the core
 * @iov, @desc, @count, @addr, @tag: what to send; the buffer lives as long as the record
 * @ignore:	bits of @tag that a receive does not look for. A lane's has the tag that came in the end
 * @err:	how it has ended on its lane, whose thread sets it. It must not be @ret, which is set behind lanes_post()
 * @len:	so much has come
 */
struct xfer_out {
	struct xfer_ctx ctx;
	struct xfer_channel *via;
	bool recv;
	bool behind;
	bool late;
	bool aside;
	bool cancelled;
	ssize_t ret;
	union {
		uint64_t until;
		uint64_t since;
	};
	ssize_t (*post)(struct xfer_out *out);
	TAILQ_ENTRY(xfer_out) entry;
	struct iovec iov[P2P_IOV_MAX];
	void *desc[P2P_IOV_MAX];
	size_t count;
	fi_addr_t addr;
	uint64_t tag;
	uint64_t ignore;
	int err;
	size_t len;
};

/* Turns a record into the op that the core is asked for. Not [locked]: a lane's thread asks, too */
static inline struct p2p_op xfer_out_op(struct xfer_out *out)
{
	return (struct p2p_op){
		.type = out->recv ? FI_OP_TRECV : FI_OP_TSEND,
		.msg.msg_iov = out->iov,
		.msg.desc = out->desc,
		.msg.iov_count = out->count,
		.msg.addr = out->addr,
		.msg.tag = out->tag,
		.msg.ignore = out->ignore,
		.flags = FI_COMPLETION,
		.msg.context = &out->ctx,
	};
}

/* Makes a record one that is sent as a tagged message; the caller sets @iov and @count */
void xfer_out_init(struct xfer_out *out, struct xfer_channel *via, fi_addr_t addr, uint64_t tag,
		   void (*done)(struct xfer_ctx *ctx, const struct core_comp *comp),
		   void (*drop)(struct xfer_ctx *ctx));

/* Gives a record to its lane, or to the core. 0, or what the core says: -FI_EAGAIN, there is no room */
ssize_t xfer_out_try(struct xfer_out *out);

/*
 * Counts a record that the core has refused as @ret, or, 0, has taken after that. As long as one is, progress
 * looks. By how many more there are of those
 */
int xfer_out_wait(struct xfer_out *out, ssize_t ret);

/* Sends a record by itself: now or, when the core has no room or more is read before, in progress */
void xfer_out_post(struct xfer_out *out);

/* Takes back a receive, or anything that waits on a lane; it ends with FI_ECANCELED, unless it has ended otherwise */
void xfer_out_cancel(struct xfer_out *out);

/* As long as something waits to be sent to a peer it has a user, by which it is watched; until its endpoint closes */
void xfer_outq_hold(struct xfer_peer *peer);
void xfer_outq_close(struct xfer_ep *ep);

/*
 * Sends records that wait for room. Cores may have no room for a dead peer for ever: however many of those
 * there are, the others go on.
 */
void xfer_outq_flush(struct xfer_channel *channel);

/* Sends control messages that have waited for others to go with them */
void xfer_letter_post(struct xfer_channel *channel);

/* Those for @addr fail with @status, and are not sent. Pieces and control messages do so at once. */
void xfer_outq_fail(struct xfer_channel *channel, fi_addr_t addr, int status);

/* Messages that were to go to @addr, but for those that wait for its answer to a greeting, do so in turn. */
void xfer_sendq_fail(struct xfer_ep *ep, fi_addr_t addr, int status);

/* Sends those of ep.sendq that may and can be sent */
void xfer_sendq_flush(struct xfer_ep *ep);

/* Tells whether anything in ep.sendq goes to @addr */
bool xfer_sendq_has(const struct xfer_ep *ep, fi_addr_t addr);

/* Returns the first record that waits for room there, or NULL */
struct xfer_out *xfer_outq_find(const struct xfer_channel *channel, fi_addr_t addr);

/* What may be dropped (@until), and goes to @addr, is dropped now */
void xfer_outq_drop(struct xfer_channel *channel, fi_addr_t addr);

#endif /* P2P_SENDQ_H */
