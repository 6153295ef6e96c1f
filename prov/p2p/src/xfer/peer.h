/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Peers: a record for each endpoint that this one has to do with by control messages.
 *
 * Either end gives the other a token, a number that nobody can guess, when they greet each other
 * (hello.h). Each control message bears the token that its receiver gave to its sender. So the receiver
 * knows the sender, and drops messages without a token of its own.
 *
 * If a peer is lost, what was under way with it ends here. It may live, and come back. Its token is
 * lost then: it is told that it must end everything, too. What comes after that is another epoch, with
 * another token. All [locked].
 */
#ifndef P2P_PEER_H
#define P2P_PEER_H

#include "xfer/lane.h"
#include "xfer/xfer.h"

/* a library does not end the process when memory is short */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

/**
 * enum xfer_peer_state - what is known of a peer.
 * @XFER_PEER_NEW:	nothing: it has not been greeted
 * @XFER_PEER_GREETED:	it has not answered yet, and it is not late
 * @XFER_PEER_KNOWN:	it speaks our protocol: control messages may go there
 * @XFER_PEER_FOREIGN:	it has not answered in time, or cannot be understood. It gets whole messages;
 *		it may answer yet
 */
enum xfer_peer_state {
	XFER_PEER_NEW,
	XFER_PEER_GREETED,
	XFER_PEER_KNOWN,
	XFER_PEER_FOREIGN,
};

/*
 * What is under way with one peer. Here no more than XFER_PEER_SENDS requests ask one for answers: others
 * wait. So no honest peer has records of XFER_PEER_USERS things here, and nothing more is begun for who has.
 */
#define XFER_PEER_SENDS 1024
#define XFER_PEER_USERS 8192
#define XFER_PEER_FULL "more than a peer may have under way"

/*
 * One is the number of a question that it has not answered, or its token. The other one is of a time before it was lost:
 * its bearer is told that it is dead.
 */
#define XFER_PEER_TOKENS 2

/**
 * struct xfer_token - who may say something to us.
 * @lost:	of a time before its peer was lost: who bears it has to be told, as what it was used for is over
 * @spoke:	one that its bearer sent in this epoch, HELLO and PROBE too, has come the way that its reads take
 * @heard:	so many messages have come with it, by struct wire_msg.front
 */
struct xfer_token {
	uint64_t token;
	bool lost;
	bool spoke;
	uint32_t heard[2];
	struct xfer_peer *peer;
	UT_hash_handle hh;
};

/* So many messages have been sent with @token, by struct wire_msg.front */
struct xfer_said {
	uint64_t token;
	uint32_t count[2];
};

/**
 * struct xfer_life - a peer's signs of life. Only time in which this process has looked counts.
 * @quiet:	for how long no control message has come [ms]
 * @silent:	for how long there was no sign of life at all [ms]
 * @keepalive:	what its host and its process tell, or NULL
 * @port:	at which it may be asked for, as it has said; 0: it may not
 * @gone:	for how long nobody has had that port any more, and nothing has come [ms]
 * @answers:	how often that had answered when it was looked at last
 * @asked:	of @quiet, when it was asked; @asks: how often, since it last said anything but PROBE and
 *		HELLO
 * @unheard:	how often, since the last sign of life
 * @probed, @probes: the same of control messages
 * @verdict: 0, or why it is about to be lost
 * @told:	it was said that it is silent, or is not reached
 */
struct xfer_life {
	unsigned int quiet;
	unsigned int silent;
	struct keepalive *keepalive;
	uint16_t port;
	unsigned int gone;
	unsigned int answers;
	unsigned int asked;
	unsigned int asks;
	unsigned int unheard;
	unsigned int probed;
	unsigned int probes;
	int verdict;
	bool told;
};

/**
 * struct xfer_peer_lanes - what is agreed of lanes with a peer (rndv_lanes.c).
 * @offered:	ours are offered to it, by this @number of a transfer
 * @offers:	it has refused them, or was lost: when they may be offered again
 * @heard:	over each of ours: its latest turn of which it has been heard there, and 1 more; 0: none
 * @limit:	so many of ours it uses at most, in its turn @limit_turn
 * @out:	so many of its we know, by their addresses @to. It has offered them by its number @theirs
 * @taken:	when an offer was taken last: the next one is not taken at once
 * @told:	so many of those we use, as it knows
 * @turn:	how often we have begun to use them anew; @over: its end was said, or there are none
 * @failed:	one of those has failed: when they may be tried again
 * @again:	they were tried: when that is repeated, as long as not all of them are used
 * @held:	receives of lanes that are kept for it (lanes_keep())
 * @whole:	it wants messages from host memory whole
 * @hinted:	when one of those was announced last for it to offer lanes [ms]
 */
struct xfer_peer_lanes {
	bool offered;
	bool whole;
	bool over;
	uint64_t hinted;
	struct retry offers;
	struct retry taken;
	struct retry failed;
	struct retry again;
	uint32_t number;
	uint32_t theirs;
	uint32_t heard[LANES_MAX];
	uint32_t limit_turn;
	uint32_t turn;
	unsigned int limit;
	unsigned int out;
	unsigned int told;
	unsigned int held;
	fi_addr_t to[LANES_MAX];
};

/*
 * An address may be nobody's any more, though its peer knows nothing of that. The peer may go on to send: the core takes
 * that, so it is to be heard. So many are remembered, besides those with which something is under way
 */
#define XFER_PASTS 256

/**
 * struct xfer_peer - a peer of one endpoint.
 * @ep, @addr:	the application's endpoint here, and the peer's address there
 * @via, @to:	answers and pieces take this channel, to this address there
 * @open:	it was known, and was not lost since: its token is good. It may be greeted again meanwhile
 * @epoch:	how often one of the two has lost the other, as far as this end knows
 * @tokens:	what it may bear, as @current says which one, and what it bore before; 0: none
 * @theirs:	what we bear in messages to it, or bore before it was lost
 * @waited:	for how long it has been waited for since it was greeted: time in which this process has
 *		looked, and all time once FI_P2P_PEER_TIMEOUT is over [ms]
 * @looked:	when that was last [ms]
 * @told:	in their place, once it is known: it has been told of our board, and has not said that it reads it
 * @repeats:	how often it was greeted again meanwhile
 * @lost:	why it is lost, if nobody has been told yet
 * @host, @process, @spaces: as in struct ipc: what it has said
 * @owner:	what its ids have in common, as do those of other endpoints of its domain; 0: unknown
 * @facts:	what else is known of it (hello_facts.h)
 * @offers:	it could not open what it was offered
 * @sends:	requests of ours that it may answer
 * @slots:	what waits for it: with what goes out, and for what comes in (stage.h) [parts]
 * @spares:	the same of memory in place of slots
 * @ahead:	its share of the receives that pieces hold
 * @lanes:	what is agreed of lanes, or NULL: nothing
 * @users:	requests and records that are about it
 * @unsent:	one of those is what waits to be sent there (sendq.h)
 * @name, @name_len: where it is, as its address is nobody's any more; NULL: it has one. @past: among all of those
 * @life:	its signs of life, which are looked for while it has users (watch.h)
 * @busy:	on the list of the domain's peers that have users
 * @hh:		by @addr
 */
struct xfer_peer {
	struct xfer_ep *ep;
	fi_addr_t addr;
	struct xfer_channel *via;
	fi_addr_t to;
	enum xfer_peer_state state;
	bool open;
	uint8_t current;
	uint64_t epoch;
	struct xfer_token tokens[XFER_PEER_TOKENS];
	struct xfer_said theirs;
	union {
		struct {
			uint64_t waited;
			uint64_t looked;
		};
		struct retry told;
	};
	unsigned int repeats;
	int lost;
	uint64_t host;
	uint64_t process;
	struct ipc_spaces spaces;
	uint64_t owner;
	struct retry offers;
	unsigned int facts;
	unsigned int sends;
	unsigned int slots[2];
	unsigned int spares[2];
	unsigned int ahead;
	struct xfer_peer_lanes *lanes;
	unsigned int users;
	bool unsent;
	uint8_t *name;
	size_t name_len;
	TAILQ_ENTRY(xfer_peer) past;
	struct xfer_life life;
	LIST_ENTRY(xfer_peer) busy;
	UT_hash_handle hh;
};

/* Returns the record of the peer at @addr, or NULL. */
struct xfer_peer *xfer_peer_find(const struct xfer_ep *ep, fi_addr_t addr);
/* Returns the record of the peer at @addr, and makes one if there is none; NULL: without memory. */
struct xfer_peer *xfer_peer_get(struct xfer_ep *ep, fi_addr_t addr);

/* The record of a peer that calls itself so, though it may have been removed; or NULL */
struct xfer_peer *xfer_peer_named(struct xfer_ep *ep, const void *name, size_t len);

/* Returns the record of @token, or NULL */
struct xfer_token *xfer_token_find(const struct xfer_ep *ep, uint64_t token);

/* How many of a peer's messages have not come, as its probe @msg tells */
uint32_t xfer_peer_missing(const struct wire_msg *msg);
/* Counts a control message that has come with a token. */
void xfer_token_count(struct xfer_token *token, const struct wire_msg *msg);

/* Has it said anything in this epoch, by the way that its answers and reads take? What it gave the core before has come, too */
bool xfer_peer_spoke(const struct xfer_peer *peer);

/* From now on it may use @token, and no other one. 0 or -FI_ENOMEM */
int xfer_peer_admit(struct xfer_peer *peer, uint64_t token);

/* The same of one that is lost already: it was given to the peer before that, and comes only now */
int xfer_peer_admit_lost(struct xfer_peer *peer, uint64_t token);

/* The one that it may bear */
static inline const struct xfer_token *xfer_peer_token(const struct xfer_peer *peer)
{
	xfer_assert_locked(peer->ep->xfer);
	return &peer->tokens[peer->current];
}

/* Tells whether a peer has lost us, if it says that @token is dead. 0: it says nothing */
static inline bool xfer_peer_reset(const struct xfer_peer *peer, uint64_t token)
{
	xfer_assert_locked(peer->ep->xfer);
	return token && peer->open &&
	       (token == peer->theirs.token || token == xfer_peer_token(peer)->token);
}

/* Tells whether a peer has said by a datagram that it has lost us. */
static inline bool xfer_peer_reset_heard(const struct xfer_peer *peer)
{
	xfer_assert_locked(peer->ep->xfer);
	return xfer_peer_reset(peer, keepalive_signs(peer->life.keepalive).reset);
}

/* It is lost, and so is its token */
void xfer_peer_expire(struct xfer_peer *peer);

/*
 * Notes that a control message has come from a peer; @news: another one than PROBE and HELLO, which may be
 * repeated
 */
static inline void xfer_peer_heard(struct xfer_peer *peer, bool news)
{
	struct xfer_life *life = &peer->life;

	xfer_assert_locked(peer->ep->xfer);
	life->quiet = life->silent = life->gone = 0;
	life->asked = life->unheard = life->probed = 0;
	if (news)
		life->asks = life->probes = 0;
}

/* A number that nobody can guess, and not 0 */
uint64_t xfer_token_new(struct xfer *xfer);

/* Counts one more user of the record. A record goes with its address, or later, when others' are removed */
void xfer_peer_hold(struct xfer_peer *peer);
/* Counts a user of the record off; without any it is not watched. */
void xfer_peer_put(struct xfer_peer *peer);

/* Tells whether a peer has as much under way here as it may. */
static inline bool xfer_peer_full(const struct xfer_peer *peer)
{
	xfer_assert_locked(peer->ep->xfer);
	return peer->users >= XFER_PEER_USERS;
}

/*
 * @addr is nobody's any more. True: something is under way with who was there, and cores trust an address, so it is
 * to stay in the core's vector; or nothing is known of who was there by its name, as memory is short
 */
bool xfer_peer_forget(struct xfer_ep *ep, fi_addr_t addr);

/* Gives a forgotten peer a new address, since it was heard. 0 or a negative error: it cannot be answered */
int xfer_peer_recall(struct xfer_peer *peer);

/* The same of all whose domain is @owner: something of one of them is waited for */
void xfer_peer_recall_owner(struct xfer_ep *ep, uint64_t owner);

/* Does a message by @channel to @addr go to this peer? */
static inline bool xfer_peer_at(const struct xfer_peer *peer,
				const struct xfer_channel *channel, fi_addr_t addr)
{
	xfer_assert_locked(channel->ep->xfer);
	return peer && ((&peer->ep->front == channel && peer->addr == addr) ||
			(peer->via == channel && peer->to == addr));
}

/*
 * Tells whether all that goes to a peer takes one way. Else what is beside one of the endpoints may be sooner
 * there, or later
 */
static inline bool xfer_peer_one_way(const struct xfer_peer *peer)
{
	xfer_assert_locked(peer->ep->xfer);
	return peer->via == &peer->ep->front && peer->to == peer->addr;
}

/*
 * Warns once that a peer has been silent for @ms. That proves nothing, but somebody may look for the reason
 * why nothing moves. It is said once.
 */
void xfer_peer_say_silent(struct xfer_peer *peer, uint64_t ms);

/* The endpoint is gone, and nothing of it is left */
void xfer_peers_free(struct xfer_ep *ep);

#endif /* P2P_PEER_H */
