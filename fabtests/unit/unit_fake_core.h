/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A core provider made up for tests: it notes what it is given, and the test says what becomes of it.
 * With it come a domain, a completion queue and endpoints over it.
 */
#ifndef P2P_UNIT_FAKE_CORE_H
#define P2P_UNIT_FAKE_CORE_H

#include "unit.h"

#include "xfer/peer.h"

/* Peers: the core has never room for what goes to the one that is dead, nor to addresses of nobody */
enum { FAKE_ALIVE, FAKE_DEAD, FAKE_OTHER, FAKE_KNOWN, FAKE_NEW = FAKE_KNOWN, FAKE_PEERS };

/* The token that a peer bears */
#define FAKE_TOKEN(peer) (1000ULL + (peer))

/* So much is kept of a name, and of a message */
#define FAKE_NAME 32
#define FAKE_TEXT 2048

/* The tag bit of internal traffic on endpoints that have one */
#define FAKE_TAG_BIT (1ULL << 63)

enum fake_kind { FAKE_RECV, FAKE_SEND, FAKE_RMA };

/**
 * struct fake_op - what the core has been given, and has not ended.
 * @internal:	a control message, or a piece
 * @tag:	0 for what has none
 * @flags:	of the call
 * @buf:	where a receive begins
 * @data:	the remote cq data of what is sent
 * @text:	of a control message, @text_len bytes
 */
struct fake_op {
	enum fake_kind kind;
	bool internal;
	bool cancelled;
	void *context;
	uint64_t tag;
	uint64_t flags;
	void *buf;
	size_t len;
	uint64_t data;
	uint8_t text[FAKE_TEXT];
	size_t text_len;
};

/**
 * struct fake_core - the core.
 * @held:	what it has, @count of them, the latest one last
 * @sent:	how many sends to each peer it has taken
 * @no_sends, @no_recvs: it has no room: for the application's sends, for internal receives
 * @no_internal: nor for control messages and pieces
 * @recv_error:	what it says of the application's receives; or 0
 * @named:	the address of whoever is asked for by name; @stranger: it has to be inserted first
 * @asked:	the name that was asked for last
 */
struct fake_core {
	struct fake_op *held;
	size_t count;
	size_t room;
	size_t sent[FAKE_PEERS];
	bool no_sends;
	bool no_recvs;
	bool no_internal;
	ssize_t recv_error;
	fi_addr_t named;
	char asked[FAKE_NAME];
	bool stranger;
};

extern struct fake_core fake;
extern struct xfer fake_xfer;
extern struct xfer_cq fake_cq;

/* Opens and closes the domain and its queue. @shared: see xfer_init() */
void fake_start(bool shared);
void fake_stop(void);

void fake_cq_open(struct xfer_cq *cq);

/* The peer's record: it is known */
struct xfer_peer *fake_peer(struct xfer_ep *ep, fi_addr_t addr);

/* Fills an endpoint, for xfer_ep_init() */
void fake_ep_init(struct xfer_ep *ep, struct xfer_cq *cq);

/* Closed, its memory is the application's again: what was there is gone, and the core has nothing */
void fake_ep_open(struct xfer_ep *ep, struct xfer_cq *cq);
/* Gives it a side channel, as over a core that stalls */
void fake_side_open(struct xfer_ep *ep);
void fake_ep_close(struct xfer_ep *ep);

/* Takes operation number @index of those that the core has, as if it had ended. */
struct fake_op fake_take(size_t index);

#endif /* P2P_UNIT_FAKE_CORE_H */
