/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* wire.c: what is encoded comes back, all else is refused. Buffers are malloc'ed to the byte, so a sanitizer sees reads past them */
#include "unit.h"

#include <arpa/inet.h>
#include <endian.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>

#include "base/base.h"
#include "xfer/wire.h"

/* The fixed part of a message, and where its fields are: a HELLO's in all later versions, too */
#define HEAD 64
#define AT_MAGIC 0
#define AT_VERSION 4
#define AT_TYPE 5
#define AT_TO_SENDER 6
#define AT_ID 16
#define AT_LEN 24
#define AT_DATA 32
#define AT_FLAGS 40
#define AT_NAME_LEN 60
#define AT_SIZE 62

#define MSG(t, i, ...)                                                                         \
	{                                                                                      \
		.type = WIRE_##t, .id = (i), __VA_ARGS__                                       \
	}
#define NAME(n) .name_len = (n), .name = some_name

#define WRITE .op = FI_ATOMIC_WRITE
#define LONG .len = 1 << 20, .chunk = 1
#define ANSWERS .to_sender = true
#define READ .op = FI_ATOMIC_READ, .flags = WIRE_FETCH
#define TARGET .key = UINT64_MAX, .addr = 0x1112131415161718
#define PAYLOAD(n) .payload = payload, .payload_len = (n)
#define SPEAKS .oldest = WIRE_VERSION_OLDEST, .newest = WIRE_VERSION
#define GREETING SPEAKS, .grant = UINT64_MAX, .process = 0x7172737475767778

/* after the head: target memory, then where a copy is, then what is offered; or a greeting */
#define TARGET_LEN 24
#define GREETING_LEN 32
#define LOAN_LEN 16
#define OFFER_LEN 120
#define AT_OFFSET (HEAD + TARGET_LEN + 40)

#define LENT .lent_key = 0x5152535455565758, .lent_addr = UINT64_MAX

/* @at in an allocation of @size bytes */
#define OFFER(size_, at)                                                                       \
	.offer = {.host = UINT64_MAX,                                                          \
		  .process = 0x8182838485868788,                                               \
		  .id = 3,                                                                     \
		  .base = 1 << 21,                                                             \
		  .size = (size_),                                                             \
		  .offset = (at),                                                              \
		  .device = UINT32_MAX,                                                        \
		  .shared = true,                                                              \
		  .handle = {9, 8, [DEV_IPC_HANDLE - 1] = 7}}

static const unsigned char payload[WIRE_PAYLOAD_MAX] = {5, 6, [WIRE_PAYLOAD_MAX - 1] = 7};
static const unsigned char some_name[WIRE_NAME_MAX] = {1, 2, 3, [WIRE_NAME_MAX - 1] = 4};

static const struct wire_msg good[] = {
	MSG(ANNOUNCE, 7, .len = WIRE_PLAIN_MAX + 1, .chunk = 1, .token = 1),
	MSG(ANNOUNCE, 0, .len = 1 << 20, .chunk = 1 << 19, .token = UINT64_MAX),
	MSG(ANNOUNCE, WIRE_ID_MASK, .len = 1ULL << 44, .chunk = UINT32_MAX,
	    .data = WIRE_USER_DATA_MASK, .flags = WIRE_HAS_DATA | WIRE_WANT_DONE),
	MSG(ANNOUNCE, 7, .len = WIRE_PIECES_MAX, .chunk = 1),
	MSG(ANNOUNCE, 7, .len = 1 << 20, .chunk = 1 << 19, .flags = WIRE_READABLE, TARGET),
	MSG(ANNOUNCE, 7, .len = 65536, .chunk = 1 << 19, .flags = WIRE_LENT | WIRE_WANT_DONE,
	    LENT),
	MSG(ANNOUNCE, 7, .len = 1 << 20, .chunk = 1 << 19, .flags = WIRE_READABLE | WIRE_WORD,
	    TARGET, LENT),
	MSG(ANNOUNCE, 7, .len = 1 << 20, .chunk = 1 << 19, .data = 5,
	    .flags = WIRE_READABLE | WIRE_HAS_DATA | WIRE_WANT_DONE),
	MSG(ANNOUNCE, 7, .len = 1 << 20, .chunk = 1 << 19, .flags = WIRE_OFFERED,
	    OFFER(1 << 20, 0)),
	MSG(ANNOUNCE, 7, .len = 1 << 20, .chunk = 1 << 19, .data = 5,
	    .flags = WIRE_OFFERED | WIRE_READABLE | WIRE_HAS_DATA, TARGET,
	    OFFER(UINT64_MAX - (1 << 21), UINT64_MAX - (3 << 20))),
	MSG(ANNOUNCE, 7, .len = 1, .chunk = 1, .flags = WIRE_OFFERED, OFFER(1, 0)),
	MSG(ANNOUNCE, 7, .len = WIRE_PLAIN_MAX, .chunk = 1 << 19, .flags = WIRE_OFFERED,
	    OFFER(1 << 20, 3)),
	MSG(HELLO, 0, .flags = WIRE_ASKS, .key = UINT64_MAX, GREETING, NAME(WIRE_NAME_MAX)),
	MSG(HELLO, 0, .flags = WIRE_ASKS | WIRE_FOLLOWS, GREETING, NAME(1)),
	MSG(HELLO, 0, .flags = WIRE_CONFIRMS | WIRE_SIDE, GREETING, NAME(28), PAYLOAD(1)),
	MSG(HELLO, 0, .flags = WIRE_ANSWERS | WIRE_SIDE, GREETING, .token = 9,
	    NAME(WIRE_NAME_MAX), PAYLOAD(WIRE_NAME_MAX)),
	MSG(HELLO, WIRE_ID_MASK, .flags = WIRE_CONFIRMS | WIRE_BOARD, GREETING, .token = 9,
	    TARGET, NAME(28)),
	MSG(HELLO, 7, .flags = WIRE_READS, SPEAKS, .token = 9),
	MSG(HELLO, 7, .flags = WIRE_BOARD | WIRE_READS, TARGET, SPEAKS, .token = 9, NAME(16)),
	/* who speaks other versions, and means something by more flags */
	MSG(HELLO, 0, .flags = WIRE_ASKS | 1u << 31, .grant = 1, .oldest = 9, .newest = 9,
	    NAME(28)),
	MSG(HELLO, 0, .flags = WIRE_ASKS, .grant = 1, .newest = UINT16_MAX, NAME(28)),
	MSG(TAKE, 7, ANSWERS, .len = 0),
	MSG(TAKE, 7, ANSWERS, .data = WIRE_USER_DATA_MASK),
	MSG(TAKE, 7, ANSWERS, .flags = WIRE_PLAIN),
	MSG(TAKE, 7, ANSWERS, .len = 1, .chunk = 1, .count = 1, .transfer = UINT32_MAX),
	MSG(TAKE, 7, ANSWERS, .len = WIRE_PIECES_MAX, .chunk = 1, .count = UINT32_MAX),
	MSG(TAKE, WIRE_ID_MASK, ANSWERS, .len = WIRE_PIECES_MAX << 26, .chunk = 1 << 26,
	    .count = 8),
	MSG(DONE, 7, ANSWERS, .status = 0),
	MSG(DONE, WIRE_ID_MASK, ANSWERS, .status = -FI_EIO),
	MSG(DONE, 7, .status = -1),
	MSG(DONE, WIRE_ID_MASK, .status = -FI_ECANCELED, .front = true),
	MSG(PROBE, 0, .flags = WIRE_COUNTS_FRONT, .transfer = UINT32_MAX),
	MSG(PROBE, 0),
	MSG(PROBE, 0, .flags = WIRE_ASKS),
	MSG(CALL, 7, WRITE, .len = WIRE_PAYLOAD_MAX + 1, .chunk = 1, TARGET),
	MSG(CALL, 7, WRITE, .len = 0, .data = 5, .flags = WIRE_HAS_DATA, TARGET),
	MSG(CALL, 7, WRITE, .len = 100, PAYLOAD(100), TARGET),
	MSG(CALL, 7, WRITE, .len = 100, .flags = WIRE_COMMIT, PAYLOAD(100), TARGET),
	MSG(CALL, 7, WRITE, .len = 1 << 20, .chunk = 1 << 19,
	    .flags = WIRE_COMMIT | WIRE_WANT_DONE, TARGET),
	MSG(CALL, 7, WRITE, .len = WIRE_PAYLOAD_MAX, PAYLOAD(WIRE_PAYLOAD_MAX), TARGET),
	MSG(CALL, 7, WRITE, .len = WIRE_PAYLOAD_MAX + 1, .chunk = 1, .flags = WIRE_OFFERED,
	    TARGET, OFFER(WIRE_PAYLOAD_MAX + 2, 1)),
	MSG(ANNOUNCE, 7, ANSWERS, .len = WIRE_PAYLOAD_MAX + 1, .chunk = 1, .key = 9,
	    .flags = WIRE_OFFERED, OFFER(1 << 20, 4097)),
	MSG(CALL, 7, READ, .len = 0, TARGET),
	MSG(CALL, 7, READ, .len = UINT64_MAX, TARGET),
	MSG(ANNOUNCE, 7, ANSWERS, .len = WIRE_PAYLOAD_MAX + 1, .chunk = 1, .key = 9),
	MSG(ANNOUNCE, 7, ANSWERS, .len = WIRE_PAYLOAD_MAX + 1, .chunk = 1, .key = 9,
	    .flags = WIRE_LENT | WIRE_WANT_DONE, LENT),
	MSG(CALL, 7, WRITE, .len = 65536, .chunk = 1 << 19, .data = 5,
	    .flags = WIRE_LENT | WIRE_WANT_DONE | WIRE_HAS_DATA | WIRE_COMMIT, TARGET, LENT),
	MSG(CALL, 7, .len = 8, PAYLOAD(16), .flags = WIRE_COMPARE, .op = 255, .datatype = 255,
	    TARGET),
	MSG(CALL, 7, .len = 8, .flags = WIRE_FETCH, TARGET),
	MSG(CALL, 7, .len = 8, .flags = WIRE_COMMIT | WIRE_FETCH, PAYLOAD(8), TARGET),
	MSG(DONE, 7, ANSWERS, PAYLOAD(WIRE_PAYLOAD_MAX)),
	MSG(TAKE, 7, ANSWERS, .len = 1, .chunk = 1, .count = 1, .data = 9,
	    .flags = WIRE_TAKE_LANES | WIRE_TAKE_FAR),
	MSG(LANES, 0, .flags = WIRE_ASKS, .count = 8, PAYLOAD(128)),
	MSG(LANES, 0, .flags = WIRE_ASKS, .count = 1, PAYLOAD(WIRE_NAME_MAX)),
	MSG(LANES, 0, .flags = WIRE_ANSWERS, .count = UINT32_MAX),
	MSG(LANES, 0, .flags = WIRE_ANSWERS),
};

static bool has_target(enum wire_type type)
{
	return type == WIRE_ANNOUNCE || type == WIRE_CALL;
}

/* May it be longer than its fields tell? */
static bool has_payload(enum wire_type type)
{
	return type == WIRE_HELLO || type == WIRE_CALL || type == WIRE_DONE ||
	       type == WIRE_LANES;
}

static bool has_offer(const struct wire_msg *msg)
{
	return msg->flags & WIRE_OFFERED && has_target(msg->type);
}

static bool has_loan(const struct wire_msg *msg)
{
	return msg->flags & (WIRE_LENT | WIRE_WORD) && has_target(msg->type);
}

/* Does it tell of bytes that are yet to come? */
static bool announces(const struct wire_msg *msg)
{
	return msg->type == WIRE_ANNOUNCE ||
	       (msg->type == WIRE_CALL && msg->op != FI_ATOMIC_READ &&
		msg->len > WIRE_PAYLOAD_MAX);
}

static void same_offer(const struct ipc_offer *one, const struct ipc_offer *other)
{
	assert_int_equal(one->host, other->host);
	assert_int_equal(one->process, other->process);
	assert_int_equal(one->id, other->id);
	assert_int_equal(one->base, other->base);
	assert_int_equal(one->size, other->size);
	assert_int_equal(one->offset, other->offset);
	assert_int_equal(one->device, other->device);
	assert_int_equal(one->shared, other->shared);
	assert_memory_equal(one->handle, other->handle, sizeof one->handle);
}

/* All but @size and @peer, which are not sent */
static void same_message(const struct wire_msg *one, const struct wire_msg *other)
{
	assert_int_equal(one->type, other->type);
	assert_int_equal(one->token, other->token);
	assert_int_equal(one->id, other->id);
	assert_int_equal(one->len, other->len);
	assert_int_equal(one->data, other->data);
	assert_int_equal(one->flags, other->flags);
	assert_int_equal(one->transfer, other->transfer);
	assert_int_equal(one->chunk, other->chunk);
	assert_int_equal(one->count, other->count);
	assert_int_equal(one->status, other->status);
	assert_int_equal(one->to_sender, other->to_sender);
	assert_int_equal(one->front, other->front);
	assert_int_equal(one->key, other->key);
	assert_int_equal(one->addr, other->addr);
	assert_int_equal(one->lent_key, other->lent_key);
	assert_int_equal(one->lent_addr, other->lent_addr);
	same_offer(&one->offer, &other->offer);
	assert_int_equal(one->op, other->op);
	assert_int_equal(one->datatype, other->datatype);
	assert_int_equal(one->grant, other->grant);
	assert_int_equal(one->process, other->process);
	assert_int_equal(one->oldest, other->oldest);
	assert_int_equal(one->newest, other->newest);
	assert_int_equal(one->name_len, other->name_len);
	if (one->name_len)
		assert_memory_equal(one->name, other->name, one->name_len);
	assert_int_equal(one->payload_len, other->payload_len);
	if (one->payload_len)
		assert_memory_equal(one->payload, other->payload, one->payload_len);
}

/* What wire_decode() makes of @len bytes at @bytes, in a buffer of just that size */
static int decode(const void *bytes, size_t len, struct wire_msg *msg, const char **why)
{
	void *exact = malloc(len ? len : 1);
	int ret;

	assert_non_null(exact);
	memcpy(exact, bytes, len);
	*why = NULL;
	/* len 0: one byte is there, and it must not be looked at either */
	ret = wire_decode(len ? exact : (char *) exact + 1, len, msg, why);
	/* name and payload stay in the caller's buffer */
	if (!ret) {
		assert_in_range(msg->size, HEAD, len);
		msg->payload = (const char *) bytes + msg->size - msg->payload_len;
		msg->name = (const char *) msg->payload - msg->name_len;
	}
	free(exact);
	return ret;
}

/* What a message says of its own length */
static void set_size(unsigned char *bytes, size_t size)
{
	uint16_t two = htole16((uint16_t) size);

	memcpy(bytes + AT_SIZE, &two, sizeof two);
}

static void refused(const void *bytes, size_t len, const char *what, size_t row)
{
	struct wire_msg msg;
	const char *why;
	int ret = decode(bytes, len, &msg, &why);

	if (ret != -FI_EINVAL || !why || !*why)
		fail_msg("%s %zu, %zu bytes: %d, reason %s", what, row, len, ret,
			 why ? why : "missing");
}

/* @len bytes at @bytes are of a version that this one is told of, and does not understand */
static void foreign(const void *bytes, size_t len, size_t row)
{
	struct wire_msg msg;
	const char *why;

	if (decode(bytes, len, &msg, &why) != -FI_EOPNOTSUPP)
		fail_msg("message %zu of another version is not told apart", row);
	/* where the next one begins is not known either */
	assert_int_equal(msg.size, 0);
	assert_non_null(strstr(why, "install the same release on both ends"));
}

/* Ends of version 8 and of later ones greet each other as those of this one do. Nothing else is understood. */
static void test_later(void **state)
{
	unsigned char buf[WIRE_MSG_MAX];
	struct wire_msg back;
	const char *why;
	size_t len;

	for (size_t i = 0; i < UNIT_COUNT(good); i++) {
		len = wire_encode(&good[i], buf);
		for (unsigned int version = WIRE_VERSION_GREETS; version <= 255; version++) {
			if (version == WIRE_VERSION)
				continue;
			buf[AT_VERSION] = (unsigned char) version;
			if (good[i].type != WIRE_HELLO) {
				foreign(buf, len, i);
				continue;
			}
			assert_int_equal(decode(buf, len, &back, &why), 0);
			assert_int_equal(back.grant, good[i].grant);
			assert_int_equal(back.oldest, good[i].oldest);
			assert_int_equal(back.newest, good[i].newest);
			assert_int_equal(back.name_len, good[i].name_len);
		}
	}
	/* longer or shorter than ours: only the beginning is known */
	len = wire_encode(&good[0], buf);
	buf[AT_VERSION] = WIRE_VERSION + 1;
	foreign(buf, HEAD, 0);
	refused(buf, HEAD - 1, "part of a later message", 0);
	/* version 7 is told apart by its own head; those before were never released */
	for (unsigned char version = 0; version < 7; version++) {
		buf[AT_VERSION] = version;
		foreign(buf, len, version);
	}
}

static void test_round_trip(void **state)
{
	unsigned char buf[WIRE_MSG_MAX];
	struct wire_msg msg;
	const char *why;
	size_t len;

	for (size_t i = 0; i < UNIT_COUNT(good); i++) {
		memset(&msg, 0xa5, sizeof msg);
		len = wire_encode(&good[i], buf);
		assert_int_equal(len, HEAD + (has_target(good[i].type) ? TARGET_LEN : 0) +
					      (good[i].type == WIRE_HELLO ? GREETING_LEN : 0) +
					      (has_loan(&good[i]) ? LOAN_LEN : 0) +
					      (has_offer(&good[i]) ? OFFER_LEN : 0) +
					      good[i].name_len + good[i].payload_len);
		assert_int_equal(wire_size(&good[i]), len);
		if (decode(buf, len, &msg, &why))
			fail_msg("row %zu: %s", i, why);
		assert_int_equal(msg.size, len);
		same_message(&msg, &good[i]);
	}
}

/* An encoder given a name, a key, or a greeting's fields for what has none drops them */
static void test_parts_of_others(void **state)
{
	const struct wire_msg done = MSG(DONE, 7, ANSWERS, TARGET, NAME(9), GREETING);
	unsigned char buf[WIRE_MSG_MAX];
	struct wire_msg msg;
	const char *why;

	assert_int_equal(wire_encode(&done, buf), HEAD);
	assert_int_equal(decode(buf, HEAD, &msg, &why), 0);
	assert_int_equal(msg.name_len, 0);
	assert_int_equal(msg.key, 0);
	assert_int_equal(msg.addr, 0);
	assert_int_equal(msg.grant, 0);
	assert_int_equal(msg.newest, 0);
}

static void test_other_lengths(void **state)
{
	unsigned char buf[WIRE_MSG_MAX + 64] = {0};
	size_t full;

	for (size_t i = 0; i < UNIT_COUNT(good); i++) {
		full = wire_encode(&good[i], buf);
		for (size_t len = 0; len < full; len++)
			refused(buf, len, "part of a good message", i);
		/*
		 * These may be of any length: who asks knows how much it is to be, a greeting of
		 * a later version may tell more, and names may be longer.
		 */
		if (has_payload(good[i].type))
			continue;
		for (size_t len = HEAD; len < sizeof buf; len++) {
			set_size(buf, len);
			if (len != full)
				refused(buf, len, "good message", i);
		}
	}
}

/* Behind a message, good or bad, there may be another */
static void test_several(void **state)
{
	const struct wire_msg bad = MSG(TAKE, 7, .count = 0);
	unsigned char buf[3 * WIRE_MSG_MAX];
	struct wire_msg msg;
	const char *why;
	size_t first, all;

	for (size_t i = 0; i + 1 < UNIT_COUNT(good); i++) {
		first = wire_encode(&good[i], buf);
		all = first + wire_encode(&good[i + 1], buf + first);
		assert_int_equal(decode(buf, all, &msg, &why), 0);
		assert_int_equal(msg.type, good[i].type);
		assert_int_equal(msg.size, first);
		assert_int_equal(decode(buf + first, all - first, &msg, &why), 0);
		assert_int_equal(msg.type, good[i + 1].type);
		assert_int_equal(msg.size, all - first);
	}
	first = wire_encode(&bad, buf);
	all = first + wire_encode(&good[0], buf + first);
	assert_int_equal(decode(buf, all, &msg, &why), -FI_EINVAL);
	assert_int_equal(msg.size, first);
	/* where it ends cannot be told */
	for (size_t size = 0; size < 1 << 16; size++) {
		if (size >= HEAD && size <= all)
			continue;
		set_size(buf, size);
		assert_int_equal(decode(buf, all, &msg, &why), -FI_EINVAL);
		assert_int_equal(msg.size, 0);
	}
}

static void refuse_each(const struct wire_msg *bad, size_t count)
{
	unsigned char buf[WIRE_MSG_MAX];

	for (size_t i = 0; i < count; i++)
		refused(buf, wire_encode(&bad[i], buf), "bad content", i);
}

/* Well formed, but nothing that a peer may say: messages that announce data … */
static void test_bad_announcement(void **state)
{
	static const struct wire_msg bad[] = {
		MSG(ANNOUNCE, 7, .len = 0, .chunk = 1),
		MSG(ANNOUNCE, 7, .len = WIRE_PLAIN_MAX, .chunk = 1),
		MSG(ANNOUNCE, 7, .len = 1 << 20, .chunk = 0),
		MSG(ANNOUNCE, 7, LONG, .data = WIRE_USER_DATA_MASK + 1),
		MSG(ANNOUNCE, 7, LONG, .data = WIRE_MARK),
		MSG(ANNOUNCE, WIRE_MARK, LONG),
		MSG(ANNOUNCE, 7, .len = WIRE_PIECES_MAX + 1, .chunk = 1),
		MSG(ANNOUNCE, 7, .len = UINT64_MAX, .chunk = UINT32_MAX),
		/* memory is lent or offered or readable; what is short, or a read, is nothing of that */
		MSG(ANNOUNCE, 7, ANSWERS, LONG, .flags = WIRE_LENT | WIRE_OFFERED,
		    OFFER(1 << 20, 0)),
		MSG(CALL, 7, WRITE, LONG, .flags = WIRE_LENT | WIRE_OFFERED, TARGET,
		    OFFER(1 << 20, 0)),
		MSG(ANNOUNCE, 7, LONG, .flags = WIRE_LENT | WIRE_READABLE),
		MSG(ANNOUNCE, 7, LONG, .flags = WIRE_LENT | WIRE_WORD),
		MSG(CALL, 7, WRITE, .len = 100, .flags = WIRE_LENT, PAYLOAD(100), TARGET),
		MSG(CALL, 7, WRITE, .len = 100, .flags = WIRE_WORD, PAYLOAD(100), TARGET),
		MSG(CALL, 7, .op = FI_ATOMIC_READ, LONG, .flags = WIRE_FETCH | WIRE_LENT,
		    TARGET),
		MSG(CALL, 7, .op = FI_ATOMIC_READ, LONG, .flags = WIRE_FETCH | WIRE_OFFERED,
		    TARGET, OFFER(1 << 20, 0)),
		MSG(ANNOUNCE, 7, ANSWERS, .len = WIRE_PLAIN_MAX, .chunk = 1, .flags = WIRE_LENT,
		    TARGET),
		/* the key is the region's */
		MSG(CALL, 7, WRITE, LONG, .flags = WIRE_READABLE, TARGET),
		MSG(CALL, 7, WRITE, .len = 100, .flags = WIRE_READABLE, PAYLOAD(100), TARGET),
		/* what is no write is in no file */
		MSG(ANNOUNCE, 7, LONG, .flags = WIRE_COMMIT),
		MSG(ANNOUNCE, 7, ANSWERS, LONG, .flags = WIRE_COMMIT, TARGET),
		/* lanes: no names, names of no length or too long, names in an answer, neither, both */
		MSG(LANES, 0, .flags = WIRE_ASKS, .count = 1),
		MSG(LANES, 0, .flags = WIRE_ASKS, PAYLOAD(16)),
		MSG(LANES, 0, .flags = WIRE_ASKS, .count = 3, PAYLOAD(16)),
		MSG(LANES, 0, .flags = WIRE_ASKS, .count = UINT32_MAX, PAYLOAD(16)),
		MSG(LANES, 0, .flags = WIRE_ASKS, .count = 1, PAYLOAD(WIRE_NAME_MAX + 1)),
		MSG(LANES, 0, .flags = WIRE_ANSWERS, .count = 1, PAYLOAD(16)),
		MSG(LANES, 0, .count = 1, PAYLOAD(16)),
		MSG(LANES, 0, .flags = WIRE_ASKS | WIRE_ANSWERS, .count = 1, PAYLOAD(16)),
		MSG(TAKE, 7, ANSWERS, .len = 1, .chunk = 1, .count = 1, .flags = 1u << 24),
		/* offers of what cannot be there */
		MSG(ANNOUNCE, 7, LONG, .flags = WIRE_OFFERED, OFFER((1 << 20) - 1, 0)),
		MSG(ANNOUNCE, 7, LONG, .flags = WIRE_OFFERED, OFFER(1 << 20, 1)),
		MSG(ANNOUNCE, 7, LONG, .flags = WIRE_OFFERED, OFFER(1 << 20, UINT64_MAX)),
		MSG(ANNOUNCE, 7, LONG, .flags = WIRE_OFFERED, OFFER(UINT64_MAX, 0)),
		MSG(ANNOUNCE, 7, LONG, .flags = WIRE_OFFERED, OFFER(0, 0)),
		MSG(CALL, 7, WRITE, LONG, .flags = WIRE_OFFERED, TARGET, OFFER(1 << 20, 1)),
		MSG(CALL, 7, WRITE, .len = 8, PAYLOAD(8), .flags = WIRE_OFFERED, TARGET,
		    OFFER(1 << 20, 0)),
		MSG(ANNOUNCE, 7, ANSWERS, LONG, .key = 9, .flags = WIRE_OFFERED,
		    OFFER(1 << 20, 1)),
		MSG(ANNOUNCE, 7, .len = 0, .chunk = 1, .flags = WIRE_OFFERED, OFFER(1, 0)),
		MSG(ANNOUNCE, 7, .len = WIRE_PLAIN_MAX, .chunk = 1, .flags = WIRE_READABLE,
		    TARGET),
	};

	refuse_each(bad, UNIT_COUNT(bad));
}

/* … greetings … */
static void test_bad_greeting(void **state)
{
	static const struct wire_msg bad[] = {
		/* a step without a name, a token, or either */
		MSG(HELLO, 0, .flags = WIRE_ASKS, GREETING),
		MSG(HELLO, 0, .flags = WIRE_ANSWERS, GREETING),
		MSG(HELLO, 0, .flags = WIRE_CONFIRMS, GREETING),
		MSG(HELLO, 0, .flags = WIRE_ASKS, SPEAKS, NAME(28)),
		MSG(HELLO, 0, .flags = WIRE_ANSWERS, SPEAKS, NAME(28)),
		MSG(HELLO, 0, .flags = WIRE_CONFIRMS, SPEAKS, NAME(28)),
		/* two steps at once */
		MSG(HELLO, 0, .flags = WIRE_ASKS | WIRE_ANSWERS, GREETING, NAME(28)),
		MSG(HELLO, 0, .flags = WIRE_ASKS | WIRE_CONFIRMS, GREETING, NAME(28)),
		MSG(HELLO, 0, .flags = WIRE_ANSWERS | WIRE_CONFIRMS, GREETING, NAME(28)),
		MSG(HELLO, 0, .flags = WIRE_ASKS | WIRE_ANSWERS | WIRE_CONFIRMS, GREETING,
		    NAME(28)),
		/* the side endpoint's name: missing, not meant, too long */
		MSG(HELLO, 0, .flags = WIRE_ASKS | WIRE_SIDE, GREETING, NAME(28)),
		MSG(HELLO, 0, .flags = WIRE_ASKS, GREETING, NAME(28), PAYLOAD(28)),
		MSG(HELLO, 0, .flags = WIRE_ASKS | WIRE_SIDE, GREETING, NAME(28),
		    PAYLOAD(WIRE_NAME_MAX + 1)),
		/* no version at all */
		MSG(HELLO, 0, .flags = WIRE_ASKS, .grant = 1, .oldest = 9, .newest = 8,
		    NAME(28)),
		MSG(HELLO, 7, .flags = WIRE_READS, .oldest = 1),
		MSG(HELLO, WIRE_MARK, .flags = WIRE_ASKS, GREETING, NAME(28)),
		MSG(HELLO, 0, .flags = WIRE_ASKS, GREETING, .data = WIRE_MARK, NAME(28)),
	};

	refuse_each(bad, UNIT_COUNT(bad));
}

/* … and others */
static void test_bad_content(void **state)
{
	static const struct wire_msg bad[] = {
		MSG(TAKE, 7, ANSWERS, .data = WIRE_USER_DATA_MASK + 1),
		MSG(TAKE, 7, ANSWERS, .len = 1, .chunk = 0, .count = 1),
		MSG(TAKE, 7, ANSWERS, .len = 1, .chunk = 1, .count = 0),
		MSG(TAKE, 7, ANSWERS, .len = WIRE_PIECES_MAX + 1, .chunk = 1, .count = 1),
		MSG(TAKE, 7, ANSWERS, .len = UINT64_MAX, .chunk = UINT32_MAX, .count = 1),
		MSG(TAKE, UINT64_MAX, ANSWERS),
		MSG(TAKE, 7, ANSWERS, .flags = WIRE_PLAIN << 1),
		MSG(TAKE, 7, ANSWERS, .flags = WIRE_PLAIN, .len = 1, .chunk = 1, .count = 1),
		MSG(TAKE, 7, .to_sender = false),
		MSG(DONE, 7, ANSWERS, .status = 1),
		MSG(DONE, 7, ANSWERS, .status = INT32_MIN),
		MSG(DONE, 7, .status = 0),
		MSG(DONE, 7, .status = INT32_MAX),
		MSG(DONE, 7, .status = INT32_MIN),
		MSG(CALL, 7, READ, ANSWERS, .len = 8, TARGET),
		MSG(CALL, 7, .op = FI_ATOMIC_READ, .len = 8, TARGET),
		MSG(CALL, 7, READ, .len = WIRE_PAYLOAD_MAX + 1, PAYLOAD(1), TARGET),
		MSG(CALL, 7, WRITE, .len = WIRE_PAYLOAD_MAX + 1, .chunk = 0, TARGET),
		MSG(CALL, 7, WRITE, .len = UINT64_MAX, .chunk = 1, TARGET),
		MSG(CALL, 7, WRITE, .len = WIRE_PAYLOAD_MAX + 1, .chunk = 1, PAYLOAD(1),
		    TARGET),
		MSG(CALL, 7, WRITE, .len = 1, PAYLOAD(1), .data = WIRE_MARK, TARGET),
		MSG(ANNOUNCE, 7, ANSWERS, .len = 1, .chunk = 1, .key = 9),
		MSG(ANNOUNCE, 7, ANSWERS, .len = 1 << 20, .chunk = 0, .key = 9),
	};

	refuse_each(bad, UNIT_COUNT(bad));
}

/* One field of a good greeting changed: nothing of what it was remains good */
static void test_bad_bytes(void **state)
{
	static const struct {
		size_t at;
		unsigned char bytes[4];
		size_t count;
	} changes[] = {
		{AT_MAGIC, {0x71}, 1},
		{AT_MAGIC + 3, {0x67}, 1},
		{AT_MAGIC, {0, 0, 0, 0}, 4},
		{AT_MAGIC, {0x66, 0x50, 0x32, 0x70}, 4},
		{AT_TYPE, {0}, 1},
		{AT_TYPE, {WIRE_LANES + 1}, 1},
		{AT_TYPE, {WIRE_TYPES}, 1},
		{AT_TYPE, {255}, 1},
		{AT_NAME_LEN, {0}, 1},
		{AT_NAME_LEN, {27}, 1},
		{AT_NAME_LEN, {29}, 1},
		{AT_NAME_LEN, {1, 1}, 2},
		{AT_NAME_LEN + 1, {0x80}, 1},
		{AT_NAME_LEN, {255, 255}, 2},
		{AT_SIZE, {0, 0}, 2},
		{AT_SIZE, {HEAD + TARGET_LEN + GREETING_LEN + 27}, 1},
		{AT_SIZE, {HEAD + TARGET_LEN + GREETING_LEN + 29}, 1},
		{AT_SIZE + 1, {0x80}, 1},
		{AT_ID + 7, {0x80}, 1},
		{AT_DATA + 4, {1}, 1},
	};
	const struct wire_msg msg = MSG(HELLO, 0, .flags = WIRE_ASKS, GREETING, NAME(28));
	unsigned char buf[WIRE_MSG_MAX];
	size_t len;

	for (size_t i = 0; i < UNIT_COUNT(changes); i++) {
		len = wire_encode(&msg, buf);
		memcpy(buf + changes[i].at, changes[i].bytes, changes[i].count);
		refused(buf, len, "change", i);
	}
}

/* A name that claims the length which the packet has, but is longer than names are */
static void test_long_name(void **state)
{
	const struct wire_msg msg =
		MSG(HELLO, 0, .flags = WIRE_ASKS | WIRE_SIDE, GREETING, NAME(WIRE_NAME_MAX));
	const size_t fixed = HEAD + TARGET_LEN + GREETING_LEN;
	unsigned char buf[WIRE_MSG_MAX + 256] = {0};
	uint16_t len;

	wire_encode(&msg, buf);
	for (uint16_t name_len = WIRE_NAME_MAX + 1; name_len < 400; name_len++) {
		len = htole16(name_len);
		memcpy(buf + AT_NAME_LEN, &len, sizeof len);
		set_size(buf, fixed + name_len + 1);
		refused(buf, fixed + name_len + 1, "name", name_len);
	}
}

/* Only a greeting names anybody: whoever claims that of other messages is refused. */
static void test_name_of_others(void **state)
{
	unsigned char buf[WIRE_MSG_MAX + 8] = {0};
	size_t len;

	for (size_t i = 0; i < UNIT_COUNT(good); i++) {
		len = wire_encode(&good[i], buf);
		if (good[i].type == WIRE_HELLO)
			continue;
		buf[AT_NAME_LEN] = 8;
		refused(buf, len, "name without room", i);
		set_size(buf, len + 8);
		refused(buf, len + 8, "name", i);
	}
}

/* Everything that the rest of the provider relies on */
static void check_accepted(const struct wire_msg *msg)
{
	assert_in_range(msg->type, WIRE_ANNOUNCE, WIRE_TYPES - 1);
	assert_true(msg->id <= WIRE_ID_MASK);
	assert_true(msg->name_len <= WIRE_NAME_MAX);
	assert_true(msg->payload_len <= WIRE_PAYLOAD_MAX);
	assert_true(msg->data <= WIRE_USER_DATA_MASK);
	if (msg->type != WIRE_HELLO)
		assert_int_equal(msg->name_len, 0);
	if (!has_payload(msg->type))
		assert_int_equal(msg->payload_len, 0);
	if (msg->type == WIRE_HELLO)
		assert_true(msg->oldest <= msg->newest);
	if (msg->type == WIRE_HELLO &&
	    msg->flags & (WIRE_ASKS | WIRE_ANSWERS | WIRE_CONFIRMS)) {
		assert_true(msg->name_len && msg->grant);
		assert_true(msg->payload_len <= WIRE_NAME_MAX);
		assert_int_equal(!(msg->flags & WIRE_SIDE), !msg->payload_len);
	}
	assert_true(!(msg->flags & WIRE_LENT) || !has_loan(msg) || !has_offer(msg));
	if (has_offer(msg)) {
		assert_true(msg->offer.base + msg->offer.size >= msg->offer.base);
		assert_true(msg->offer.offset <= msg->offer.size);
		assert_true(msg->len <= msg->offer.size - msg->offer.offset);
		assert_true(msg->len);
	}
	if (announces(msg)) {
		assert_true(msg->chunk);
		assert_int_equal(msg->payload_len, 0);
		assert_true(msg->len > WIRE_PLAIN_MAX ||
			    (msg->type == WIRE_ANNOUNCE && has_offer(msg)));
		assert_true((msg->len - 1) / msg->chunk < WIRE_PIECES_MAX);
	} else if (msg->type == WIRE_CALL) {
		assert_true(msg->len <= WIRE_PAYLOAD_MAX || msg->op == FI_ATOMIC_READ);
		assert_true(msg->op != FI_ATOMIC_READ || msg->flags & WIRE_FETCH);
		assert_true(!has_loan(msg) && !has_offer(msg));
	} else if (msg->type == WIRE_TAKE && msg->len) {
		assert_true(msg->chunk && msg->count);
		assert_true((msg->len - 1) / msg->chunk < WIRE_PIECES_MAX);
	} else if (msg->type == WIRE_DONE) {
		assert_true(msg->status <= 0 && msg->status > INT32_MIN);
		assert_true(msg->status || msg->to_sender);
	}
}

/*
 * Random bytes at @buf get a head that passes the first checks, most of the time. Returns the length
 * that goes with it: @len, where that may be.
 */
static size_t make_plausible(unsigned char *buf, size_t len, int round)
{
	const bool lends = buf[AT_FLAGS + 1] & (WIRE_LENT | WIRE_WORD) >> 8;
	size_t fixed = HEAD, name_len;

	memcpy(buf, "\x70\x32\x50\x66", 4);
	buf[AT_VERSION] = WIRE_VERSION;
	buf[AT_TYPE] %= WIRE_TYPES + 1;
	buf[AT_TO_SENDER] &= buf[AT_TYPE] <= WIRE_DONE;
	buf[AT_ID + 7] &= round % 16 ? 0x7f : 0xff;
	memset(buf + AT_DATA + 4, 0, round % 8 ? 4 : 0);
	memset(buf + AT_LEN + 4, 0, round % 3 ? 4 : 0);
	memset(buf + AT_NAME_LEN, 0, 2);
	if (has_target(buf[AT_TYPE]))
		fixed += TARGET_LEN;
	if (lends && has_target(buf[AT_TYPE]))
		fixed += LOAN_LEN;
	if (buf[AT_TYPE] == WIRE_HELLO)
		fixed += GREETING_LEN;
	else if (buf[AT_FLAGS] & WIRE_OFFERED) {
		fixed += OFFER_LEN;
		memset(buf + AT_OFFSET + 4, 0, round % 3 ? 4 : 0);
	}
	if (round % 5 && (len < fixed || !has_payload(buf[AT_TYPE])))
		len = fixed;
	if (buf[AT_TYPE] == WIRE_HELLO && len > fixed) {
		name_len = buf[AT_FLAGS] & WIRE_SIDE ? (len - fixed) / 2 : len - fixed;
		buf[AT_NAME_LEN] = (unsigned char) name_len;
	}
	set_size(buf, len);
	return len;
}

/*
 * Random bytes, half of them behind a head that gets past the first checks. Whatever is
 * accepted must be something that encodes to the same message again.
 */
static void test_random(void **state)
{
	unsigned char buf[WIRE_PLAIN_MSG_MAX + 64], again[WIRE_MSG_MAX];
	struct wire_msg msg, copy;
	unsigned int seed = 20240229, accepted = 0, offers = 0, greetings = 0;
	const char *why;
	size_t len;

	for (int round = 0; round < 100000; round++) {
		len = (size_t) rand_r(&seed) % sizeof buf;
		for (size_t i = 0; i < sizeof buf; i++)
			buf[i] = (unsigned char) (rand_r(&seed) >> 8);
		if (round % 2)
			len = make_plausible(buf, len, round);
		if (decode(buf, len, &msg, &why)) {
			assert_non_null(why);
			continue;
		}
		accepted++;
		offers += has_offer(&msg);
		greetings += msg.type == WIRE_HELLO;
		check_accepted(&msg);
		assert_int_equal(wire_encode(&msg, again), msg.size);
		assert_int_equal(decode(again, msg.size, &copy, &why), 0);
		same_message(&copy, &msg);
	}
	/* else this shows nothing */
	assert_in_range(accepted, 1000, 50000);
	assert_in_range(offers, 100, 50000);
	assert_in_range(greetings, 100, 50000);
}

/* Endpoints of one domain differ by it, and nothing but whole IP addresses has one */
static void test_ident(void **state)
{
	const struct sockaddr_in in = {.sin_family = AF_INET,
				       .sin_port = htons(0xfedc),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(7)};
	char room[WIRE_NAME_MAX] = "fi_shm://1234:0";

	assert_int_equal(wire_name_ident(&in, sizeof in), 0xfedc);
	assert_int_equal(wire_name_ident(&in6, sizeof in6), 7);
	assert_int_equal(wire_name_ident(&in, sizeof in - 1), 0);
	assert_int_equal(wire_name_ident(&in6, sizeof in), 0);
	assert_int_equal(wire_name_ident(room, sizeof room), 0);
	assert_int_equal(wire_name_ident(NULL, 0), 0);
	/* some cores say how much room there was */
	memcpy(room, &in, sizeof in);
	assert_int_equal(wire_name_ident(room, sizeof room), 0xfedc);
}

/* What is named beside an endpoint is on its host, if that has an IP address */
static void test_apart(void **state)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(1)}, b = a;
	struct sockaddr_in6 a6 = {.sin6_family = AF_INET6, .sin6_port = htons(1)}, b6 = a6;

	b.sin_port = b6.sin6_port = htons(2);
	assert_false(wire_names_apart(&a, sizeof a, &b, sizeof b));
	assert_false(wire_names_apart(&a6, sizeof a6, &b6, sizeof b6));
	assert_true(wire_names_apart(&a, sizeof a, &a6, sizeof a6));
	assert_true(wire_names_apart(&a, sizeof a, &b, sizeof b - 1));
	assert_true(wire_names_apart(&a, sizeof a, "somebody", 9));
	assert_false(wire_names_apart("somebody", 9, &a, sizeof a));
	b.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	b6.sin6_addr.s6_addr[15] = 1;
	assert_true(wire_names_apart(&a, sizeof a, &b, sizeof b));
	assert_true(wire_names_apart(&a6, sizeof a6, &b6, sizeof b6));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_later),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_parts_of_others),
		cmocka_unit_test(test_other_lengths),
		cmocka_unit_test(test_bad_announcement),
		cmocka_unit_test(test_bad_greeting),
		cmocka_unit_test(test_bad_content),
		cmocka_unit_test(test_bad_bytes),
		cmocka_unit_test(test_long_name),
		cmocka_unit_test(test_several),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_name_of_others),
		cmocka_unit_test(test_apart),
		cmocka_unit_test(test_ident),
	};
	const struct unit unit = {.tests = tests, .test_count = UNIT_COUNT(tests)};

	return unit_main(argc, argv, &unit);
}
