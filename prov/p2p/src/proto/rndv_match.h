/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Arrivals: what is known of long messages coming in, until marker and announcement are both
 * here. All [locked].
 */
#ifndef P2P_RNDV_MATCH_H
#define P2P_RNDV_MATCH_H

#include "xfer/req.h"

/**
 * struct xfer_arrival - a message on its way here. It lives from the first that is known of it.
 * @ctx:	on the endpoint's list of live records; @ctx.ep is NULL until that is known
 * @announced:	the announcement has come; it has @total, @data, @flags, @chunk, @key, @addr
 *		and @offer; and @board, the place of the sender's, if WIRE_OFFERED, not on a note; and @loan, if WIRE_LENT; or of the word, if WIRE_WORD
 * @noted:	by a note
 * @ready:	the marker has come: what to do when the announcement is here, too
 * @req:	the request that the marker has matched, or NULL
 * @peer:	who has announced it, or the one that is to be answered; NULL: nobody yet
 * @cq, @marker: what is known of a receive that is not followed up
 * @held, @gone: the caller's of rndv_divert()
 * @peeks:	peeks that wait for the announcement; @found is called for them then
 * @status:	the sender's error, if it gave up: only its first @begun pieces may come
 * @waited:	how long its announcement has been waited for [ms]; since its sender was lost, if it is @deserted
 * @suspect:	the peer that is watched meanwhile, or NULL
 * @look:	for its note
 * @chain:	arrivals with a like id (struct proto_domain.arriving)
 */
struct xfer_arrival {
	struct xfer_ctx ctx;
	uint64_t id;
	bool announced;
	bool noted;
	int status;
	uint32_t begun;
	void (*ready)(struct xfer_arrival *arrival);
	struct xfer_req *req;
	struct xfer_cq *cq;
	struct core_comp marker;
	void *held;
	void (*gone)(void *held);
	void (*found)(struct xfer_req *req);
	TAILQ_HEAD(, xfer_req) peeks;
	unsigned int waited;
	bool deserted;
	struct xfer_peer *suspect;
	uint64_t total;
	uint64_t data;
	uint32_t flags;
	uint32_t chunk;
	uint64_t key;
	uint64_t addr;
	struct ipc_offer offer;
	uint64_t board;
	struct fi_rma_iov loan;
	struct xfer_peer *peer;
	LIST_ENTRY(xfer_arrival) chain;
	struct note_look look;
};

/* Returns the record with this id, or NULL */
struct xfer_arrival *rndv_arrival_find(const struct xfer *xfer, uint64_t id);
/* Ends an arrival's record, and all holds on peers that it has. */
void rndv_arrival_free(struct xfer_arrival *arrival, struct xfer *xfer);

/* Returns the record with this id, and makes one if there is none. NULL: no room */
struct xfer_arrival *rndv_arrival_get(struct xfer *xfer, uint64_t id);

/* Gives an arrival to @ep, with which it ends: the first that knows of it, then that of its announcement, then its marker's */
void rndv_arrival_bind(struct xfer_arrival *arrival, struct xfer_ep *ep);

/* Completes an arrival with its announcement */
void rndv_arrival_announce(struct xfer_arrival *arrival, struct xfer_ep *ep,
			   const struct wire_msg *msg);

/*
 * Finds or makes the arrival of a marker that has come. @ready is called when the announcement is here, too.
 * NULL: that cannot be, and @err is FI_ENOMEM, or FI_EIO for a second marker.
 */
struct xfer_arrival *rndv_arrival_claim(struct xfer *xfer, uint64_t id,
					void (*ready)(struct xfer_arrival *arrival), int *err);

/*
 * Checks an arrival after rndv_arrival_claim(): the marker has come to @ep, or to another endpoint of its
 * queue
 */
void rndv_arrival_check(struct xfer_arrival *arrival, struct xfer_ep *ep);

/* Claims the arrival of a marker that a request's receive has met: its completion is in req->comp */
void rndv_arrival_take(struct xfer_req *req, void (*ready)(struct xfer_arrival *arrival));

/* Tells whether an announced message comes to one endpoint for another one, and either closes */
bool rndv_arrival_parts(const struct xfer_arrival *arrival);

/*
 * So much more time has passed [ms]. Whoever has sent a marker may have died, and it is not known for sure who that was.
 * But its id tells the domain. So what waits for an announcement fails if all peers of that domain are lost; or after
 * FI_P2P_PEER_TIMEOUT, if it is set.
 */
void rndv_arrivals_watch(struct xfer *xfer, unsigned int passed);

/*
 * A peer is lost, or was, and comes back now. What waits for an announcement of its goes on to do so for a while only,
 * even if the peer is back. @suspected: only what watches that peer. It was lost before, and has said how much it has sent,
 * and all of that is here: but a marker that came since may be older than the loss
 */
void rndv_arrivals_desert(const struct xfer_peer *peer, bool suspected);

/*
 * Its sender is lost, or could not send its marker. If that has not come, it fails when it comes. The second: is that
 * known of the message with this id?
 */
void rndv_arrival_orphan(struct xfer_arrival *arrival, struct xfer *xfer);
/* Tells whether a message has been given up here, as its sender was lost. */
bool rndv_orphaned(const struct xfer *xfer, uint64_t id);

/* Puts what the announcement says into the completion of what the marker has matched */
void rndv_arrival_describe(const struct xfer_arrival *arrival, struct core_comp *comp);

/* Takes an announcement: makes or completes the arrival of its message */
void rndv_announced(struct xfer_ep *ep, const struct wire_msg *msg);

/*
 * A marker has come to a peek, its completion in req->comp. @found is called when the message is
 * announced, which may be now: the completion has the message's own length and data then.
 */
void rndv_peeked(struct xfer_req *req, void (*found)(struct xfer_req *req));

/*
 * Has the marker with this id been received? Then what seems to be it now is another message, with
 * data that the marker has left behind. Asked where peeks tell data without saying whose it is
 * (QUIRK_PEEK_UNMARKED)
 */
bool rndv_marker_spent(const struct xfer *xfer, uint64_t id);

/*
 * A message is announced by a peer that was lost, and does not know yet, or that gives it up; or, if it is not @known, by nobody
 * that we know, or in a way that we cannot read. Whatever its marker matches fails.
 */
void rndv_announced_in_vain(struct xfer_ep *ep, uint64_t id, bool known, int status);

/* Forgets what would be reported in a queue that closes. */
void rndv_cq_drop(struct xfer_cq *cq);

#endif /* P2P_RNDV_MATCH_H */
