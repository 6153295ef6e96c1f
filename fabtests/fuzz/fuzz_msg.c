/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Lies, made of bytes. See fuzz_msg.h. */
#include "fuzz_msg.h"

#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>

#include "base/base.h"

static uint8_t payload[WIRE_PAYLOAD_MAX];

static const uint64_t lens[] = {0,    1,     8,     100,   WIRE_PLAIN_MAX, WIRE_PLAIN_MAX + 1,
				8192, 20000, 60000, 65536, 1 << 20};
static const uint32_t chunks[] = {20000, 1 << 20, 8, 1, 65536, UINT32_MAX};
static const int32_t errors[] = {0, -FI_EIO, -FI_ECANCELED, -FI_EACCES, -FI_EOPNOTSUPP};

/* Any number, and where it may stand in a message instead of what is there */
#define FIELD(kind, name)                                                                      \
	{                                                                                      \
		kind, offsetof(struct wire_msg, name), sizeof((struct wire_msg *) 0)->name     \
	}

static const struct {
	enum fuzz_fields kind;
	size_t at, size;
} fields[] = {
	FIELD(FUZZ_IN_TOKENS, token),        FIELD(FUZZ_IN_TOKENS, grant),
	FIELD(FUZZ_IN_TOKENS, process),      FIELD(FUZZ_IN_VERSIONS, oldest),
	FIELD(FUZZ_IN_VERSIONS, newest),     FIELD(FUZZ_IN_IDS, id),
	FIELD(FUZZ_IN_LENGTHS, len),         FIELD(FUZZ_IN_WORDS, data),
	FIELD(FUZZ_IN_WORDS, flags),         FIELD(FUZZ_IN_IDS, transfer),
	FIELD(FUZZ_IN_LENGTHS, chunk),       FIELD(FUZZ_IN_LENGTHS, count),
	FIELD(FUZZ_IN_WORDS, status),        FIELD(FUZZ_IN_PLACES, key),
	FIELD(FUZZ_IN_PLACES, addr),         FIELD(FUZZ_IN_WORDS, op),
	FIELD(FUZZ_IN_WORDS, datatype),      FIELD(FUZZ_IN_OFFERS, offer.host),
	FIELD(FUZZ_IN_OFFERS, offer.base),   FIELD(FUZZ_IN_OFFERS, offer.size),
	FIELD(FUZZ_IN_OFFERS, offer.offset), FIELD(FUZZ_IN_OFFERS, offer.device),
	FIELD(FUZZ_IN_OFFERS, offer.id),     FIELD(FUZZ_IN_TOKENS, epoch),
	FIELD(FUZZ_IN_TOKENS, port),         FIELD(FUZZ_IN_PLACES, lent_key),
	FIELD(FUZZ_IN_PLACES, lent_addr),
};

void fuzz_spoil(struct fuzz *in, unsigned int kinds, bool near, struct wire_msg *msg)
{
	unsigned int i = fuzz_pick(in, FUZZ_COUNT(fields));
	uint64_t number = fuzz_number(in), before = 0;

	while (!(fields[i].kind & kinds))
		i = (i + 1) % FUZZ_COUNT(fields);
	/* little-endian, like all that this project runs on */
	__builtin_memcpy(&before, (char *) msg + fields[i].at, fields[i].size);
	number += near ? before : 0;
	__builtin_memcpy((char *) msg + fields[i].at, &number, fields[i].size);
}

void fuzz_know(struct fuzz_known *known, uint64_t id)
{
	known->ids[known->id_count++ % FUZZ_IDS] = id;
}

void fuzz_admit(struct fuzz_known *known, uint64_t token)
{
	known->tokens[known->token_count++ % FUZZ_TOKENS] = token;
}

/* Mostly one that was given; or none, or a guess */
static uint64_t bear(struct fuzz *in, const struct fuzz_known *known)
{
	const size_t count = P2P_MIN(known->token_count, FUZZ_TOKENS);
	const unsigned int i = fuzz_pick(in, 16);

	if (i == 15)
		return fuzz_number(in);
	if (i == 14 || !count)
		return 0;
	return known->tokens[(known->token_count - 1 - i % count) % FUZZ_TOKENS];
}

uint64_t fuzz_id(struct fuzz *in, const struct fuzz_known *known)
{
	const unsigned int i = fuzz_pick(in, 64);

	if (i == 63 || !known->id_count)
		return fuzz_number(in) & WIRE_ID_MASK;
	/* the latest first */
	return known->ids[(known->id_count - 1 - i % known->id_count) % FUZZ_IDS];
}

/* What there is to reach: memory of regions, by their keys */
static void target(struct fuzz *in, const struct fuzz_known *known, struct wire_msg *msg)
{
	const unsigned int i = fuzz_pick(in, 16);

	msg->key = i < 15 && known->key_count ? known->keys[i % known->key_count]
					      : fuzz_number(in);
	msg->addr = fuzz_rarely(in, 4) ? fuzz_number(in) : 8 * fuzz_take(in, 1);
}

/* What is offered is whole, and fits the message: what else it says may be anything. */
static void offer(struct fuzz *in, const struct fuzz_known *known, struct wire_msg *msg)
{
	msg->offer = (struct ipc_offer){
		.host = fuzz_rarely(in, 8) ? fuzz_number(in) : known->host,
		.process = fuzz_number(in),
		.id = fuzz_take(in, 1),
		.base = fuzz_number(in) & ~UINT64_C(0xfff) & INT64_MAX,
		.size = msg->len + fuzz_take(in, 2),
		.offset = fuzz_take(in, 1),
		.device = fuzz_pick(in, 3),
		.shared = fuzz_rarely(in, 2),
	};
	msg->offer.size += msg->offer.offset;
	fuzz_bytes(in, msg->offer.handle, fuzz_pick(in, sizeof msg->offer.handle));
}

static void announce(struct fuzz *in, const struct fuzz_known *known, struct wire_msg *msg)
{
	static const uint32_t flags[] = {
		0,
		WIRE_WANT_DONE,
		WIRE_HAS_DATA,
		WIRE_LENT | WIRE_WANT_DONE,
		WIRE_READABLE | WIRE_WANT_DONE,
		WIRE_OFFERED,
		WIRE_OFFERED | WIRE_CALLS,
		WIRE_READABLE | WIRE_OFFERED | WIRE_HAS_DATA,
		WIRE_COMMIT | WIRE_WANT_DONE,
	};

	msg->flags = flags[fuzz_pick(in, FUZZ_COUNT(flags))];
	target(in, known, msg);
	if (msg->flags & WIRE_OFFERED)
		offer(in, known, msg);
}

/* What is lent, or whose end is told by a word, may be anywhere that is known */
static void lend(struct wire_msg *msg)
{
	if (msg->flags & WIRE_READABLE && msg->id % 2)
		msg->flags |= WIRE_WORD;
	msg->lent_key = msg->key;
	msg->lent_addr = msg->addr;
}

static void ask(struct fuzz *in, struct wire_msg *msg)
{
	msg->flags = fuzz_rarely(in, 3) ? WIRE_PLAIN : 0;
	if (fuzz_rarely(in, 4))
		msg->flags |= fuzz_pick(in, 10) << WIRE_TAKE_LANES_SHIFT;
	msg->flags |= fuzz_pick(in, 10) << WIRE_TAKE_FAR_SHIFT;
	msg->transfer = (uint32_t) fuzz_take(in, 1);
	msg->data = fuzz_pick(in, 4);
	if (msg->flags & WIRE_PLAIN)
		msg->len = 0;
}

/* A write, a read, or any other operation */
static void call(struct fuzz *in, const struct fuzz_known *known, struct wire_msg *msg)
{
	if (fuzz_rarely(in, 3)) {
		announce(in, known, msg);
		lend(msg);
		if (msg->len <= WIRE_PAYLOAD_MAX)
			msg->flags &= ~WIRE_LENT;
		msg->op = FI_ATOMIC_WRITE;
		msg->payload_len = msg->len <= WIRE_PAYLOAD_MAX ? msg->len : 0;
		return;
	}
	target(in, known, msg);
	if (fuzz_rarely(in, 2)) {
		msg->op = FI_ATOMIC_READ;
		msg->flags = WIRE_FETCH;
		return;
	}
	msg->op = fuzz_take(in, 1) % (FI_ATOMIC_OP_LAST + 1);
	msg->datatype = fuzz_take(in, 1) % (FI_DATATYPE_LAST + 1);
	msg->flags =
		(fuzz_rarely(in, 2) ? WIRE_FETCH : 0) | (fuzz_rarely(in, 2) ? WIRE_COMPARE : 0);
	msg->len = 8 * fuzz_take(in, 1) % 512;
	msg->payload_len = (msg->flags & WIRE_COMPARE ? 2 : 1) * msg->len;
}

static void greet(struct fuzz *in, const struct fuzz_known *known, struct wire_msg *msg)
{
	static const uint32_t steps[] = {0, WIRE_ASKS, WIRE_ANSWERS, WIRE_CONFIRMS};
	const unsigned int what = fuzz_pick(in, 64);

	msg->flags = (uint32_t) fuzz_take(in, 1) * (WIRE_MAY_LANES / 2) &
		     (WIRE_MAY_LANES | WIRE_BORROWS);
	msg->flags |= steps[what % 4] | (what & 4 ? WIRE_FOLLOWS : 0) |
		      (what & 8 ? WIRE_BOARD : 0) | (what & 16 ? WIRE_READS : 0) |
		      (what & 32 ? WIRE_SIDE : 0);
	if (msg->flags & WIRE_SIDE) {
		msg->payload = known->side;
		msg->payload_len = known->side_len;
	}
	msg->key = known->host;
	msg->addr = fuzz_number(in);
	msg->grant = known->grant;
	msg->process = fuzz_rarely(in, 4) ? fuzz_number(in) << 32 : 1;
	msg->oldest = fuzz_rarely(in, 8) ? WIRE_VERSION + 1 : WIRE_VERSION_OLDEST;
	msg->newest = P2P_MAX(msg->oldest, WIRE_VERSION);
}

/* Lanes that are all the liar itself; or how many of the other's will be used */
static void lanes(struct fuzz *in, const struct fuzz_known *known, struct wire_msg *msg)
{
	const size_t size = known->name_len;

	msg->flags = fuzz_rarely(in, 2) ? WIRE_ANSWERS : WIRE_ASKS;
	msg->len = fuzz_rarely(in, 8) ? fuzz_number(in) : known->lanes_kind;
	msg->transfer = (uint32_t) fuzz_take(in, 1);
	if (msg->flags & WIRE_ANSWERS)
		return;
	msg->count = 1 + fuzz_pick(in, 8);
	msg->payload_len = msg->count * size;
	for (size_t at = 0; at < msg->payload_len; at += size)
		__builtin_memcpy(payload + at, known->name, size);
}

/* What belongs to the type */
static void dress(struct fuzz *in, const struct fuzz_known *known, struct wire_msg *msg)
{
	switch (msg->type) {
	case WIRE_ANNOUNCE:
		announce(in, known, msg);
		lend(msg);
		if (msg->to_sender)
			msg->key = fuzz_id(in, known);
		break;
	case WIRE_CALL:
		call(in, known, msg);
		break;
	case WIRE_TAKE:
		ask(in, msg);
		break;
	case WIRE_HELLO:
		greet(in, known, msg);
		break;
	case WIRE_LANES:
		lanes(in, known, msg);
		break;
	case WIRE_DONE:
		msg->payload_len = P2P_MIN(msg->len, WIRE_PAYLOAD_MAX);
		break;
	default:
		break;
	}
}

static const enum wire_type types[] = {WIRE_ANNOUNCE, WIRE_TAKE,  WIRE_DONE, WIRE_CALL,
				       WIRE_PROBE,    WIRE_LANES, WIRE_HELLO};

void fuzz_msg(struct fuzz *in, const struct fuzz_known *known, struct wire_msg *msg)
{
	const unsigned int kind = (unsigned int) fuzz_take(in, 1);

	*msg = (struct wire_msg){
		.type = types[kind % FUZZ_COUNT(types)],
		.id = fuzz_id(in, known),
		.len = lens[fuzz_pick(in, FUZZ_COUNT(lens))],
		.chunk = chunks[fuzz_pick(in, FUZZ_COUNT(chunks))],
		.count = fuzz_rarely(in, 8) ? UINT32_MAX : 1 + fuzz_pick(in, 4),
		.status = errors[fuzz_pick(in, FUZZ_COUNT(errors))],
		.to_sender = kind & 128,
		.front = kind & 64,
		.name = known->name,
		.name_len = known->name_len,
		.payload = payload,
	};
	if (msg->type == WIRE_DONE && !msg->to_sender && !msg->status)
		msg->status = -FI_EIO;
	msg->to_sender |= msg->type == WIRE_TAKE;
	msg->to_sender &= msg->type <= WIRE_DONE;
	dress(in, known, msg);
	msg->token = bear(in, known);
	if (fuzz_rarely(in, 4))
		fuzz_spoil(in, ~0U, false, msg);
}

size_t fuzz_letter(struct fuzz *in, const struct fuzz_known *known, void *buf)
{
	const unsigned int kind = fuzz_pick(in, 32);
	struct wire_msg msg;
	size_t len = 0;

	for (unsigned int more = kind % 4 ? 1 : 3; more--;) {
		fuzz_msg(in, known, &msg);
		if (len + wire_size(&msg) <= WIRE_MSG_MAX)
			len += wire_encode(&msg, (char *) buf + len);
	}
	if (kind == 31)
		((uint8_t *) buf)[fuzz_take(in, 2) % len] = (uint8_t) fuzz_take(in, 1);
	return len;
}
