/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Control messages: what two ofi_p2p endpoints say to each other besides the user's messages.
 * docs/wire.md describes it all without the code. Sequence diagrams are at the heads of the protocols' files.
 *
 * A long message from device memory is two messages. The *marker* goes through the user's own
 * channel, with the user's tag and no bytes. The core matches it with a receive, in order, as it
 * would have matched the message. Its cq_data has the top bit set; the bits below are an id. The
 * *announcement*, a control message, tells what that id stands for. Either may come first. An
 * announcement may also be a note on the sender's board (board.h).
 *
 * The first idea was one message, with a header in the user's buffer. Two are better: the marker fits every receive, writes
 * to no buffer, and costs a multi-receive buffer nothing. It has an id in place of bits of the length, so a host receive of
 * up to WIRE_PLAIN_MAX bytes needs no following up.
 *
 * HELLO comes first: two endpoints greet each other (hello.h), and each gives the other a token. Every
 * later message bears the token that its receiver gave. Nobody else is heard.
 *
 * Checks: wire_decode() checks whatever arrives before anything uses it. xfer_state_fit() (req_state.h)
 * then tells whether the message fits the state of what it is about.
 */
#ifndef P2P_WIRE_H
#define P2P_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mem/ipc.h"

struct xfer_peer;

/*
 * What we speak, and the oldest version that we understand. HELLO is laid out the same way since
 * version 8 (WIRE_VERSION_GREETS), so ends of different versions tell each other what they speak. Ends
 * that have none in common send each other whole messages. A receiver passes over flags of HELLO that it does not know.
 */
#define WIRE_VERSION 9
#define WIRE_VERSION_OLDEST 9
#define WIRE_VERSION_GREETS 8

/* Its ends announce without greeting. So what they ask for is refused, as they would wait for ever (wire_refusal()). */
#define WIRE_VERSION_OLD 7

#define WIRE_MAGIC 0x66503270u /* "p2Pf", in all versions */

/*
 * Messages up to this length are announced to endpoints alone that say WIRE_FOLLOWS. Others need not
 * follow up a host receive that is no longer.
 */
#define WIRE_PLAIN_MAX 4096

/* cq_data: the mark, and the transaction's id below it; without it, the user's 32 bits */
#define WIRE_MARK (1ULL << 63)
#define WIRE_ID_MASK (WIRE_MARK - 1)
/* cq_data of an empty message without the mark: it tells of a write, and has that one's 32 bits (rma_notice.c) */
#define WIRE_NOTICE (1ULL << 62)
/* These bits of an id are random; the others are its sender's own. */
#define WIRE_ID_RANDOM 0xffffffffULL
#define WIRE_USER_DATA_MASK 0xffffffffULL

/* Below the internal tag bit: kind, transfer, piece */
#define WIRE_TAG_PIECE (1ULL << 60)
#define WIRE_TAG_TRANSFER_SHIFT 28
#define WIRE_PIECES_MAX (1ULL << WIRE_TAG_TRANSFER_SHIFT)

#define WIRE_NAME_MAX 256

/*
 * A core with QUIRK_DIRECTED sets aside messages of that length that have no receive, and stops at longer
 * ones. A HELLO that asks, between IPv4 addresses, has no more bytes.
 */
#define WIRE_ASK_MAX 128

/* The longest data that a control message carries itself */
#define WIRE_PAYLOAD_MAX 4096

enum wire_type {
	WIRE_ANNOUNCE = 1,
	WIRE_TAKE,
	WIRE_DONE, /* the last that may be an answer */
	WIRE_CALL,
	WIRE_PROBE,
	WIRE_LANES,
	WIRE_HELLO = 12, /* as in version 8 */
	WIRE_TYPES
};

/* flags of ANNOUNCE, and of CALL */
#define WIRE_HAS_DATA (1u << 0)  /* the user gave remote cq data */
#define WIRE_WANT_DONE (1u << 1) /* the sender waits for the receiver's end */
#define WIRE_READABLE (1u << 4)  /* ANNOUNCE: there is a key to read it with */
#define WIRE_OFFERED (1u << 5)   /* there is an offer; a DONE follows where it is taken */
#define WIRE_CALLS (1u << 6)     /* ANNOUNCE: the DONE is to be sent: somebody may sleep */
#define WIRE_LENT (1u << 8)      /* the loan leads to a copy, in staging memory */
#define WIRE_WORD                                                                              \
	(1u                                                                                    \
	 << 10) /* ANNOUNCE: the loan leads to a word that tells how long its memory stands */
#define WIRE_COMMIT (1u << 9) /* CALL: the DONE is for what is durable */

/*
 * flags of CALL. A write is FI_ATOMIC_WRITE, and a read is FI_ATOMIC_READ with WIRE_FETCH. The payload is operands (none
 * for FI_ATOMIC_READ), then compare values. A long write is announced instead
 */
#define WIRE_FETCH (1u << 2)   /* the values before are wanted */
#define WIRE_COMPARE (1u << 3) /* there are compare values */

/*
 * flags of PROBE, besides WIRE_ASKS: it tells how many messages with its token went before it, but for
 * HELLO and PROBE
 */
#define WIRE_COUNTS_FRONT (1u << 1)
#define WIRE_COUNTS_SIDE (1u << 2)

/* flags of HELLO, the first of PROBE, the first two of LANES, too */
#define WIRE_ASKS (1u << 0)     /* for an answer */
#define WIRE_ANSWERS (1u << 1)  /* who has asked */
#define WIRE_CONFIRMS (1u << 2) /* that the answer has come */
#define WIRE_SIDE (1u << 3) /* the payload names the side endpoint, which is to hear the rest */
#define WIRE_FOLLOWS (1u << 4)   /* the sender follows up all of its receives */
#define WIRE_BOARD (1u << 5)     /* it has a board, at @addr, and is @id there */
#define WIRE_READS (1u << 6)     /* it reads the receiver's board */
#define WIRE_MAY_LANES (1u << 7) /* LANES may be said to it */
#define WIRE_BORROWS (1u << 8)   /* CALL, and ANNOUNCE of a read, to it may have WIRE_LENT */

/* DONE flag: the marker of what was announced was not sent */
#define WIRE_UNMARKED (1u << 0)

/* TAKE flag: the message is to be sent as if there were no announcements */
#define WIRE_PLAIN (1u << 0)

/* In a TAKE's flags, too: over so many lanes the pieces are to come; and why an offer is not taken (enum path_far) */
#define WIRE_TAKE_LANES_SHIFT 8
#define WIRE_TAKE_LANES (0xffu << WIRE_TAKE_LANES_SHIFT)
#define WIRE_TAKE_FAR_SHIFT 16
#define WIRE_TAKE_FAR (0xffu << WIRE_TAKE_FAR_SHIFT)

/**
 * struct wire_msg - a control message, decoded.
 * @type:	tells which of the fields below count
 * @token:	what the receiver has given to the sender; 0 in a HELLO that asks
 * @id:		the sender's id of the transfer. HELLO: what all of its ids have in common (xfer_board_owner())
 * @len, @data, @flags, @transfer, @chunk, @count: depend on the type: "Fields by type" of docs/wire.md says how
 * @status:	DONE: 0 or a negative fi_errno value. HELLO: struct ipc_spaces.net, as @data is its .pid
 * @to_sender:	it is about a request of its receiver's, known by its id; ANNOUNCE: the bytes of a read, known by @key
 * @front:	it travels between the applications' own endpoints, also where there are side endpoints
 * @key, @addr:	the target there. HELLO: the host (struct ipc), and where the board is. ANNOUNCE of a read: @key is its id
 * @lent_key, @lent_addr, @offer: the loan and the offer there
 * @op, @datatype: CALL: enum fi_op, enum fi_datatype
 * @grant, @process, @epoch, @port: HELLO: see "Greeting" there. wire_resets() tells what @grant is without a step
 * @oldest, @newest: HELLO: the versions that the sender speaks
 * @name:	HELLO: the sender's endpoint. It has @name_len bytes; decoded, it lies in the buffer
 * @payload:	CALL, DONE (what was read), HELLO, LANES: @payload_len bytes; decoded, it lies in the buffer
 * @size:	decoded: the message's own length; the next one begins behind it
 * @among:	not sent: more of its kind are likely to follow. While the core has yet to send an earlier message they go
 *		together, at the end of the next pass through progress or when they are many. One alone goes at once
 * @old:	not sent: it is of version 7, whose head has no @token. Decoded, it has no more than @type, @id, and @name if
 *		it asks for something
 * @peer:	not sent: who has sent it, as its token tells; NULL: somebody who has not been greeted
 * @noted:	not sent: it has come by a board (note.h)
 * @again:	not sent: set, if there is no memory for what it says (ctrl_dispatch())
 */
struct wire_msg {
	enum wire_type type;
	uint64_t token;
	uint64_t id;
	uint64_t len;
	uint64_t data;
	uint32_t flags;
	uint32_t transfer;
	uint32_t chunk;
	uint32_t count;
	int32_t status;
	bool to_sender;
	bool front;
	uint64_t key;
	uint64_t addr;
	uint64_t lent_key;
	uint64_t lent_addr;
	struct ipc_offer offer;
	uint8_t op;
	uint8_t datatype;
	uint64_t grant;
	uint64_t process;
	uint64_t epoch;
	uint16_t port;
	uint16_t oldest;
	uint16_t newest;
	size_t name_len;
	const void *name;
	const void *payload;
	size_t payload_len;
	size_t size;
	bool among;
	bool old;
	struct xfer_peer *peer;
	bool noted;
	bool *again;
};

/* Longest encoded message without payload, and with */
#define WIRE_PLAIN_MSG_MAX (200 + WIRE_NAME_MAX)
#define WIRE_MSG_MAX (WIRE_PLAIN_MSG_MAX + WIRE_PAYLOAD_MAX)

/* For the log; any number will do */
const char *wire_type_name(enum wire_type type);

/* Tells whether a message is counted, so that its receiver may notice what is missing: all but those that may be repeated. */
static inline bool wire_counts(const struct wire_msg *msg)
{
	return msg->type != WIRE_HELLO && msg->type != WIRE_PROBE;
}

/* Does it say that the receiver must not bear a token any more (@grant)? */
static inline bool wire_resets(const struct wire_msg *msg)
{
	return msg->type == WIRE_HELLO && msg->grant &&
	       !(msg->flags & (WIRE_ASKS | WIRE_ANSWERS | WIRE_CONFIRMS));
}

/* Returns the length of @msg, encoded */
size_t wire_size(const struct wire_msg *msg);

/* Writes @msg to @buf and returns its length there */
size_t wire_encode(const struct wire_msg *msg, void *buf);

/*
 * Reads the first message of @len bytes that came from the network. 0, or:
 *
 * -FI_EINVAL: @why is what is wrong with it. @msg.size is 0 if the next message cannot be found.
 * -FI_EOPNOTSUPP: a peer has sent it that speaks another version of this. Type and id are known; of
 * version 7 more is (@msg.old).
 */
int wire_decode(const void *buf, size_t len, struct wire_msg *msg, const char **why);

/* What ends a request of version 7, in its own words */
struct wire_msg wire_refusal(const struct wire_msg *msg);

/*
 * Tells the endpoints of a domain apart, in the bits below WIRE_TAG_PIECE: the port of an IP address;
 * 0 for other names
 */
uint64_t wire_name_ident(const void *name, size_t len);

/* Is an endpoint that has the name @b on another host than @a? Where @a is no IP address nobody knows: false */
bool wire_names_apart(const void *a, size_t a_len, const void *b, size_t b_len);

#endif /* P2P_WIRE_H */
