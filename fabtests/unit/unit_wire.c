/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unit tests of wire.c: what is encoded comes back, anything else is refused. Buffers to
 * decode are malloc'ed to the byte, so that a sanitizer sees who reads past them.
 */
#include "unit.h"

#include <arpa/inet.h>
#include <endian.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>

#include "base/base.h"
#include "xfer/wire.h"

/* The fixed part of a message, and where its fields are: the same in all releases */
#define HEAD 56
#define AT_MAGIC 0
#define AT_VERSION 4
#define AT_TYPE 5
#define AT_ID 8
#define AT_LEN 16
#define AT_DATA 24
#define AT_FLAGS 32
#define AT_TRANSFER 36
#define AT_CHUNK 40
#define AT_COUNT 44
#define AT_STATUS 48
#define AT_NAME_LEN 52
#define AT_SIZE 54

#define MSG(t, i, ...)                                                                         \
	{                                                                                      \
		.type = WIRE_##t, .id = (i), __VA_ARGS__                                       \
	}
#define NAME(n) .name_len = (n), .name = some_name

#define TARGET .key = UINT64_MAX, .addr = 0x1112131415161718
#define PAYLOAD(n) .payload = payload, .payload_len = (n)

/* after the head, where a message is about target memory; then what is offered */
#define TARGET_LEN 24
#define OFFER_LEN 120
#define AT_OFFSET (HEAD + TARGET_LEN + 40)

/* @at in an allocation of @size bytes */
#define OFFER(size_, at)                                                                       \
	.offer = {.host = UINT64_MAX,                                                          \
		  .process = 0x8182838485868788,                                               \
		  .id = 3,                                                                     \
		  .base = 1 << 21,                                                             \
		  .size = (size_),                                                             \
		  .offset = (at),                                                              \
		  .device = UINT32_MAX,                                                        \
		  .handle = {9, 8, [DEV_IPC_HANDLE - 1] = 7}}

static const unsigned char payload[WIRE_PAYLOAD_MAX] = {5, 6, [WIRE_PAYLOAD_MAX - 1] = 7};
static const unsigned char some_name[WIRE_NAME_MAX] = {1, 2, 3, [WIRE_NAME_MAX - 1] = 4};

static const struct wire_msg good[] = {
	MSG(ANNOUNCE, 7, .len = WIRE_PLAIN_MAX + 1, .chunk = 1, NAME(1)),
	MSG(ANNOUNCE, 0, .len = 1 << 20, .chunk = 1 << 19, NAME(28)),
	MSG(ANNOUNCE, WIRE_ID_MASK, .len = 1ULL << 44, .chunk = UINT32_MAX,
	    .data = WIRE_USER_DATA_MASK, .flags = WIRE_HAS_DATA | WIRE_WANT_FIN,
	    NAME(WIRE_NAME_MAX)),
	MSG(ANNOUNCE, 7, .len = WIRE_PIECES_MAX, .chunk = 1, NAME(28)),
	MSG(ANNOUNCE, 7, .len = 1 << 20, .chunk = 1 << 19, .flags = WIRE_READABLE, TARGET,
	    NAME(WIRE_NAME_MAX)),
	MSG(ANNOUNCE, 7, .len = 65536, .chunk = 1 << 19, .flags = WIRE_LENT | WIRE_WANT_FIN,
	    TARGET, NAME(28)),
	MSG(ANNOUNCE, 7, .len = 1 << 20, .chunk = 1 << 19, .data = 5,
	    .flags = WIRE_READABLE | WIRE_HAS_DATA | WIRE_WANT_FIN, NAME(1)),
	MSG(ANNOUNCE, 7, .len = 1 << 20, .chunk = 1 << 19, .flags = WIRE_OFFERED,
	    OFFER(1 << 20, 0), NAME(WIRE_NAME_MAX)),
	MSG(ANNOUNCE, 7, .len = 1 << 20, .chunk = 1 << 19, .data = 5,
	    .flags = WIRE_OFFERED | WIRE_READABLE | WIRE_HAS_DATA, TARGET,
	    OFFER(UINT64_MAX - (1 << 21), UINT64_MAX - (3 << 20)), NAME(1)),
	MSG(ANNOUNCE, 7, .len = 1, .chunk = 1, .flags = WIRE_OFFERED, OFFER(1, 0), NAME(28)),
	MSG(ANNOUNCE, 7, .len = WIRE_PLAIN_MAX, .chunk = 1 << 19, .flags = WIRE_OFFERED,
	    OFFER(1 << 20, 3), NAME(28)),
	MSG(HELLO, 0, .key = UINT64_MAX, NAME(WIRE_NAME_MAX)),
	MSG(HELLO, 0, .flags = WIRE_ASKS | WIRE_SAYS | WIRE_FOLLOWS, NAME(1)),
	MSG(HELLO, WIRE_ID_MASK, .flags = WIRE_BOARD | WIRE_READS, TARGET, NAME(28)),
	MSG(CTS, 7, .len = 0),
	MSG(CTS, 7, .data = WIRE_USER_DATA_MASK),
	MSG(CTS, 7, .flags = WIRE_PLAIN),
	MSG(CTS, 7, .flags = WIRE_SIDE, NAME(1)),
	MSG(CTS, 7, .flags = WIRE_SIDE, .len = 1, .chunk = 1, .count = 1, NAME(WIRE_NAME_MAX)),
	MSG(CTS, 7, .len = 1, .chunk = 1, .count = 1, .transfer = UINT32_MAX),
	MSG(CTS, 7, .len = WIRE_PIECES_MAX, .chunk = 1, .count = UINT32_MAX),
	MSG(CTS, WIRE_ID_MASK, .len = WIRE_PIECES_MAX << 26, .chunk = 1 << 26, .count = 8),
	MSG(CREDIT, 7, .count = 1),
	MSG(CREDIT, WIRE_ID_MASK, .count = UINT32_MAX),
	MSG(FIN, 7, .status = 0),
	MSG(FIN, WIRE_ID_MASK, .status = -FI_EIO),
	MSG(ABORT, 7, .status = -1),
	MSG(ABORT, WIRE_ID_MASK, .status = -FI_ECANCELED, .to_sender = true),
	MSG(PROBE, 0),
	MSG(PROBE, WIRE_ID_MASK, .to_sender = true),
	MSG(WRITE, 7, .len = WIRE_PAYLOAD_MAX + 1, .chunk = 1, TARGET, NAME(28)),
	MSG(WRITE, 7, .len = 0, .data = 5, .flags = WIRE_HAS_DATA, TARGET, NAME(28)),
	MSG(WRITE, 7, .len = 100, PAYLOAD(100), TARGET, NAME(28)),
	MSG(WRITE, 7, .len = WIRE_PAYLOAD_MAX, PAYLOAD(WIRE_PAYLOAD_MAX), TARGET,
	    NAME(WIRE_NAME_MAX)),
	MSG(WRITE, 7, .len = WIRE_PAYLOAD_MAX + 1, .chunk = 1, .flags = WIRE_OFFERED, TARGET,
	    OFFER(WIRE_PAYLOAD_MAX + 2, 1), NAME(28)),
	MSG(SUPPLY, 7, .len = WIRE_PAYLOAD_MAX + 1, .chunk = 1, .key = 9, .flags = WIRE_OFFERED,
	    OFFER(1 << 20, 4097), NAME(28)),
	MSG(READ, 7, .len = 0, TARGET, NAME(1)),
	MSG(READ, 7, .len = UINT64_MAX, TARGET, NAME(28)),
	MSG(SUPPLY, 7, .len = WIRE_PAYLOAD_MAX + 1, .chunk = 1, .key = 9, NAME(28)),
	MSG(ATOMIC, 7, .len = 8, PAYLOAD(16), .flags = WIRE_COMPARE, .op = 255, .datatype = 255,
	    TARGET, NAME(28)),
	MSG(ATOMIC, 7, .len = 8, .flags = WIRE_FETCH, TARGET, NAME(28)),
	MSG(RESULT, 7, .status = -FI_EACCES),
	MSG(RESULT, 7, PAYLOAD(WIRE_PAYLOAD_MAX)),
};

static bool has_target(enum wire_type type)
{
	return type == WIRE_ANNOUNCE || type == WIRE_WRITE || type == WIRE_READ ||
	       type == WIRE_SUPPLY || type == WIRE_ATOMIC || type == WIRE_HELLO;
}

static bool has_offer(const struct wire_msg *msg)
{
	return msg->flags & WIRE_OFFERED &&
	       (msg->type == WIRE_ANNOUNCE || msg->type == WIRE_WRITE ||
		msg->type == WIRE_SUPPLY);
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
	assert_memory_equal(one->handle, other->handle, sizeof one->handle);
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
	const bool foreign =
		len >= HEAD && ((const unsigned char *) bytes)[AT_VERSION] != WIRE_VERSION;

	if ((ret != -FI_EINVAL && !(foreign && ret == -FI_EOPNOTSUPP)) || !why || !*why)
		fail_msg("%s %zu, %zu bytes: %d, reason %s", what, row, len, ret,
			 why ? why : "missing");
}

/* Who speaks another version is told apart, with what his message is and is about */
static void test_foreign(void **state)
{
	const struct wire_msg msg =
		MSG(ANNOUNCE, 0x1234567890, .len = 65536, .chunk = 4096, TARGET, NAME(20));
	unsigned char buf[WIRE_MSG_MAX];
	struct wire_msg back;
	const char *why;
	size_t len = wire_encode(&msg, buf);

	buf[AT_VERSION]++;
	assert_int_equal(decode(buf, len, &back, &why), -FI_EOPNOTSUPP);
	assert_int_equal(back.type, WIRE_ANNOUNCE);
	assert_int_equal(back.id, msg.id);
	/* longer or shorter than ours: only the beginning is known */
	assert_int_equal(decode(buf, HEAD, &back, &why), -FI_EOPNOTSUPP);
	assert_int_equal(decode(buf, HEAD - 1, &back, &why), -FI_EINVAL);
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
					      (has_offer(&good[i]) ? OFFER_LEN : 0) +
					      good[i].name_len + good[i].payload_len);
		assert_int_equal(wire_size(&good[i]), len);
		if (decode(buf, len, &msg, &why))
			fail_msg("row %zu: %s", i, why);
		assert_int_equal(msg.size, len);
		assert_int_equal(msg.key, good[i].key);
		assert_int_equal(msg.addr, good[i].addr);
		same_offer(&msg.offer, &good[i].offer);
		assert_int_equal(msg.op, good[i].op);
		assert_int_equal(msg.datatype, good[i].datatype);
		assert_int_equal(msg.payload_len, good[i].payload_len);
		assert_int_equal(msg.type, good[i].type);
		assert_int_equal(msg.id, good[i].id);
		assert_int_equal(msg.len, good[i].len);
		assert_int_equal(msg.data, good[i].data);
		assert_int_equal(msg.flags, good[i].flags);
		assert_int_equal(msg.transfer, good[i].transfer);
		assert_int_equal(msg.chunk, good[i].chunk);
		assert_int_equal(msg.count, good[i].count);
		assert_int_equal(msg.status, good[i].status);
		assert_int_equal(msg.to_sender, good[i].to_sender);
		assert_int_equal(msg.name_len, good[i].name_len);
		if (msg.name_len)
			assert_memory_equal(msg.name, good[i].name, good[i].name_len);
		if (msg.payload_len)
			assert_memory_equal(msg.payload, good[i].payload, msg.payload_len);
	}
}

/* An encoder given a name or a key for what has none drops it */
static void test_name_of_others(void **state)
{
	const struct wire_msg fin = MSG(FIN, 7, TARGET, NAME(9));
	unsigned char buf[WIRE_MSG_MAX];
	struct wire_msg msg;
	const char *why;

	assert_int_equal(wire_encode(&fin, buf), HEAD);
	assert_int_equal(decode(buf, HEAD, &msg, &why), 0);
	assert_int_equal(msg.name_len, 0);
	assert_int_equal(msg.key, 0);
	assert_int_equal(msg.addr, 0);
}

static void test_layout(void **state)
{
	static const struct wire_msg msg = {
		.type = WIRE_ANNOUNCE,
		.id = 0x0123456789abcdef,
		.len = 0x1112131415161718,
		.data = 0x21222324,
		.flags = WIRE_HAS_DATA | WIRE_WANT_FIN | WIRE_READABLE | WIRE_OFFERED,
		.transfer = 0x31323334,
		.chunk = 0x41424344,
		.count = 0x51525354,
		.status = -2,
		.to_sender = true,
		.key = 0x6162636465666768,
		.addr = 0x7172737475767778,
		.offer = {.host = 0x8182838485868788,
			  .process = 0x9192939495969798,
			  .id = 0xa1a2a3a4a5a6a7a8,
			  .base = 0x0102030405060708,
			  .size = 0xc1c2c3c4c5c6c7c8,
			  .offset = 0xd1d2d3d4d5d6d7d8,
			  .device = 0xe1e2e3e4,
			  .handle = "handle"},
		.name_len = 5,
		.name = "peer1",
	};
	/* clang-format off */
	static const unsigned char bytes[] = {
		0x70, 0x32, 0x50, 0x66, 7,    1,    1,    0,    0xef, 0xcd, 0xab,
		0x89, 0x67, 0x45, 0x23, 0x01, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13,
		0x12, 0x11, 0x24, 0x23, 0x22, 0x21, 0,    0,    0,    0,    51,
		0,    0,    0,    0x34, 0x33, 0x32, 0x31, 0x44, 0x43, 0x42, 0x41,
		0x54, 0x53, 0x52, 0x51, 0xfe, 0xff, 0xff, 0xff, 5,    0,    205,
		0,    0x68, 0x67, 0x66, 0x65, 0x64, 0x63, 0x62, 0x61, 0x78, 0x77,
		0x76, 0x75, 0x74, 0x73, 0x72, 0x71, 0,    0,    0,    0,    0,
		0,    0,    0,
		/* the offer */
		0x88, 0x87, 0x86, 0x85, 0x84, 0x83, 0x82, 0x81, 0x98, 0x97, 0x96,
		0x95, 0x94, 0x93, 0x92, 0x91, 0xa8, 0xa7, 0xa6, 0xa5, 0xa4, 0xa3,
		0xa2, 0xa1, 0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, 0xc8,
		0xc7, 0xc6, 0xc5, 0xc4, 0xc3, 0xc2, 0xc1, 0xd8, 0xd7, 0xd6, 0xd5,
		0xd4, 0xd3, 0xd2, 0xd1, 0xe4, 0xe3, 0xe2, 0xe1, 0,    0,    0,
		0,    'h',  'a',  'n',  'd',  'l',  'e',  [HEAD + TARGET_LEN + OFFER_LEN] =
		'p',  'e',  'e',  'r',  '1',
	};
	/* clang-format on */
	unsigned char buf[WIRE_MSG_MAX + 1];

	memset(buf, 0x5a, sizeof buf);
	assert_int_equal(wire_encode(&msg, buf), sizeof bytes);
	assert_memory_equal(buf, bytes, sizeof bytes);
	assert_int_equal(buf[sizeof bytes], 0x5a);
}

static void test_other_lengths(void **state)
{
	unsigned char buf[WIRE_MSG_MAX + 64] = {0};
	size_t full;

	for (size_t i = 0; i < UNIT_COUNT(good); i++) {
		/* these may be of any length, and who asks knows how much it is to be */
		if (good[i].type == WIRE_RESULT || good[i].type == WIRE_ATOMIC)
			continue;
		full = wire_encode(&good[i], buf);
		for (size_t len = 0; len < full; len++)
			refused(buf, len, "part of a good message", i);
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
	const struct wire_msg bad = MSG(CREDIT, 7, .count = 0);
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
		MSG(ANNOUNCE, 7, .len = 1 << 20, .chunk = 1),
		MSG(ANNOUNCE, 7, .len = 0, .chunk = 1, NAME(28)),
		MSG(ANNOUNCE, 7, .len = WIRE_PLAIN_MAX, .chunk = 1, NAME(28)),
		MSG(ANNOUNCE, 7, .len = 1 << 20, .chunk = 0, NAME(28)),
		MSG(ANNOUNCE, 7, .len = 1 << 20, .chunk = 1, NAME(28),
		    .data = WIRE_USER_DATA_MASK + 1),
		MSG(ANNOUNCE, 7, .len = 1 << 20, .chunk = 1, NAME(28), .data = WIRE_MARK),
		MSG(ANNOUNCE, WIRE_MARK, .len = 1 << 20, .chunk = 1, NAME(28)),
		MSG(ANNOUNCE, 7, .len = WIRE_PIECES_MAX + 1, .chunk = 1, NAME(28)),
		MSG(ANNOUNCE, 7, .len = UINT64_MAX, .chunk = UINT32_MAX, NAME(28)),
		/* lent is what a message stands for */
		MSG(SUPPLY, 7, .len = 1 << 20, .chunk = 1, .flags = WIRE_LENT, TARGET,
		    NAME(28)),
		MSG(WRITE, 7, .len = 1 << 20, .chunk = 1, .flags = WIRE_LENT, TARGET, NAME(28)),
		/* offers of what cannot be there */
		MSG(ANNOUNCE, 7, .len = 1 << 20, .chunk = 1, .flags = WIRE_OFFERED,
		    OFFER((1 << 20) - 1, 0), NAME(28)),
		MSG(ANNOUNCE, 7, .len = 1 << 20, .chunk = 1, .flags = WIRE_OFFERED,
		    OFFER(1 << 20, 1), NAME(28)),
		MSG(ANNOUNCE, 7, .len = 1 << 20, .chunk = 1, .flags = WIRE_OFFERED,
		    OFFER(1 << 20, UINT64_MAX), NAME(28)),
		MSG(ANNOUNCE, 7, .len = 1 << 20, .chunk = 1, .flags = WIRE_OFFERED,
		    OFFER(UINT64_MAX, 0), NAME(28)),
		MSG(ANNOUNCE, 7, .len = 1 << 20, .chunk = 1, .flags = WIRE_OFFERED, OFFER(0, 0),
		    NAME(28)),
		MSG(WRITE, 7, .len = 1 << 20, .chunk = 1, .flags = WIRE_OFFERED, TARGET,
		    OFFER(1 << 20, 1), NAME(28)),
		MSG(WRITE, 7, .len = 8, PAYLOAD(8), .flags = WIRE_OFFERED, TARGET,
		    OFFER(1 << 20, 0), NAME(28)),
		MSG(SUPPLY, 7, .len = 1 << 20, .chunk = 1, .key = 9, .flags = WIRE_OFFERED,
		    OFFER(1 << 20, 1), NAME(28)),
		MSG(ANNOUNCE, 7, .len = 0, .chunk = 1, .flags = WIRE_OFFERED, OFFER(1, 0),
		    NAME(28)),
		MSG(ANNOUNCE, 7, .len = WIRE_PLAIN_MAX, .chunk = 1, .flags = WIRE_READABLE,
		    TARGET, NAME(28)),
		MSG(SUPPLY, 7, .len = WIRE_PLAIN_MAX, .chunk = 1, .key = 9,
		    .flags = WIRE_OFFERED, OFFER(1 << 20, 1), NAME(28)),
	};

	refuse_each(bad, UNIT_COUNT(bad));
}

/* … and others */
static void test_bad_content(void **state)
{
	static const struct wire_msg bad[] = {
		MSG(HELLO, 0, .flags = WIRE_ASKS),
		MSG(HELLO, 0, .flags = WIRE_READS << 1, NAME(28)),
		MSG(HELLO, WIRE_MARK, .flags = WIRE_FOLLOWS, NAME(28)),
		MSG(CTS, 7, .data = WIRE_USER_DATA_MASK + 1),
		MSG(CTS, 7, .len = 1, .chunk = 0, .count = 1),
		MSG(CTS, 7, .len = 1, .chunk = 1, .count = 0),
		MSG(CTS, 7, .len = WIRE_PIECES_MAX + 1, .chunk = 1, .count = 1),
		MSG(CTS, 7, .len = UINT64_MAX, .chunk = UINT32_MAX, .count = 1),
		MSG(CTS, UINT64_MAX),
		MSG(CTS, 7, .flags = WIRE_PLAIN << 1),
		MSG(CTS, 7, .flags = WIRE_SIDE),
		MSG(CTS, 7, NAME(1)),
		MSG(CTS, 7, .flags = WIRE_PLAIN, .len = 1, .chunk = 1, .count = 1),
		MSG(CREDIT, 7, .count = 0),
		MSG(CREDIT, WIRE_MARK, .count = 1),
		MSG(FIN, WIRE_MARK | 7),
		MSG(FIN, 7, .status = 1),
		MSG(FIN, 7, .status = INT32_MIN),
		MSG(ABORT, 7, .status = 0),
		MSG(ABORT, 7, .status = 1),
		MSG(ABORT, 7, .status = INT32_MAX),
		MSG(ABORT, 7, .status = INT32_MIN),
		MSG(ABORT, WIRE_MARK, .status = -1),
		MSG(PROBE, WIRE_MARK),
		MSG(WRITE, 7, .len = 100, PAYLOAD(99), TARGET, NAME(28)),
		MSG(WRITE, 7, .len = 99, PAYLOAD(100), TARGET, NAME(28)),
		MSG(WRITE, 7, .len = 100, PAYLOAD(100), TARGET),
		MSG(WRITE, 7, .len = WIRE_PAYLOAD_MAX + 1, .chunk = 0, TARGET, NAME(28)),
		MSG(WRITE, 7, .len = UINT64_MAX, .chunk = 1, TARGET, NAME(28)),
		MSG(WRITE, 7, .len = WIRE_PAYLOAD_MAX + 1, .chunk = 1, PAYLOAD(1), TARGET,
		    NAME(28)),
		MSG(WRITE, 7, .len = 1, PAYLOAD(1), .data = WIRE_MARK, TARGET, NAME(28)),
		MSG(READ, 7, .len = 1, TARGET),
		MSG(SUPPLY, 7, .len = 1, .chunk = 1, .key = 9, NAME(28)),
		MSG(SUPPLY, 7, .len = 1 << 20, .chunk = 0, .key = 9, NAME(28)),
		MSG(ATOMIC, 7, .len = 8, PAYLOAD(8), TARGET),
		MSG(RESULT, WIRE_MARK),
		MSG(RESULT, 7, .status = 1),
		MSG(RESULT, 7, .status = INT32_MIN),
	};

	refuse_each(bad, UNIT_COUNT(bad));
}

/*
 * Where a name would begin, there is a key now: an announcement without one, as the
 * version before had them, is refused at every length, whatever its name is long.
 */
static void test_announce_without_key(void **state)
{
	const struct wire_msg msg = MSG(ANNOUNCE, 7, .len = 65536, .chunk = 4096,
					.flags = WIRE_READABLE, TARGET, NAME(WIRE_NAME_MAX));
	unsigned char buf[WIRE_MSG_MAX];
	struct wire_msg back;
	const char *why;
	uint16_t len;

	for (uint16_t name_len = 0; name_len <= WIRE_NAME_MAX; name_len++) {
		wire_encode(&msg, buf);
		len = htole16(name_len);
		memcpy(buf + AT_NAME_LEN, &len, sizeof len);
		set_size(buf, HEAD + name_len);
		refused(buf, HEAD + name_len, "announcement without key", name_len);
		if (name_len < TARGET_LEN) {
			assert_int_equal(decode(buf, HEAD + name_len, &back, &why), -FI_EINVAL);
			assert_string_equal(why, "too short");
		}
	}
}

/* One field of a good announcement changed: nothing of what it was remains good */
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
		{AT_VERSION, {0}, 1},
		{AT_VERSION, {WIRE_VERSION + 1}, 1},
		{AT_VERSION, {WIRE_VERSION - 1}, 1},
		{AT_VERSION, {255}, 1},
		{AT_TYPE, {0}, 1},
		{AT_TYPE, {WIRE_TYPES}, 1},
		{AT_TYPE, {255}, 1},
		{AT_NAME_LEN, {0}, 1},
		{AT_NAME_LEN, {27}, 1},
		{AT_NAME_LEN, {29}, 1},
		{AT_NAME_LEN, {1, 1}, 2},
		{AT_NAME_LEN + 1, {0x80}, 1},
		{AT_NAME_LEN, {255, 255}, 2},
		{AT_SIZE, {0, 0}, 2},
		{AT_SIZE, {HEAD + TARGET_LEN + 27}, 1},
		{AT_SIZE, {HEAD + TARGET_LEN + 29}, 1},
		{AT_SIZE + 1, {0x80}, 1},
		{AT_ID + 7, {0x80}, 1},
		{AT_DATA + 4, {1}, 1},
		{AT_LEN, {0, 16, 0, 0}, 4},
	};
	const struct wire_msg msg = MSG(ANNOUNCE, 7, .len = 65536, .chunk = 4096, NAME(28));
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
	const struct wire_msg msg = MSG(ANNOUNCE, 7, .len = 65536, .chunk = 1, NAME(256));
	unsigned char buf[WIRE_MSG_MAX + 256] = {0};
	uint16_t len;

	wire_encode(&msg, buf);
	for (uint16_t name_len = WIRE_NAME_MAX + 1; name_len < 400; name_len++) {
		len = htole16(name_len);
		memcpy(buf + AT_NAME_LEN, &len, sizeof len);
		set_size(buf, HEAD + TARGET_LEN + name_len);
		refused(buf, HEAD + TARGET_LEN + name_len, "name", name_len);
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
	if (msg->type == WIRE_ANNOUNCE || has_target(msg->type))
		assert_true(msg->name_len);
	if (has_offer(msg)) {
		assert_true(msg->offer.base + msg->offer.size >= msg->offer.base);
		assert_true(msg->offer.offset <= msg->offer.size);
		assert_true(msg->len <= msg->offer.size - msg->offer.offset);
		assert_true(msg->len);
	}
	if (msg->type == WIRE_WRITE && msg->len <= WIRE_PAYLOAD_MAX) {
		assert_int_equal(msg->payload_len, msg->len);
	} else if (msg->type == WIRE_ANNOUNCE || msg->type == WIRE_SUPPLY ||
		   msg->type == WIRE_WRITE) {
		assert_true(msg->chunk);
		assert_true(msg->len > WIRE_PLAIN_MAX ||
			    (msg->type == WIRE_ANNOUNCE && has_offer(msg)));
		assert_true((msg->len - 1) / msg->chunk < WIRE_PIECES_MAX);
	} else if (msg->type == WIRE_CTS && msg->len) {
		assert_true(msg->chunk && msg->count);
		assert_true((msg->len - 1) / msg->chunk < WIRE_PIECES_MAX);
	} else if (msg->type == WIRE_CREDIT) {
		assert_true(msg->count);
	} else if (msg->type == WIRE_FIN || msg->type == WIRE_RESULT) {
		assert_true(msg->status <= 0 && msg->status > INT32_MIN);
	} else if (msg->type == WIRE_ABORT) {
		assert_true(msg->status < 0 && msg->status > INT32_MIN);
	}
}

/*
 * Random bytes, half of them behind a head that gets past the first checks. Whatever is
 * accepted must be something that encodes to the same message again.
 */
static void test_random(void **state)
{
	unsigned char buf[WIRE_PLAIN_MSG_MAX + 64], again[WIRE_MSG_MAX];
	struct wire_msg msg, copy;
	unsigned int seed = 20240229, accepted = 0, offers = 0;
	const char *why;
	size_t len, rest;

	for (int round = 0; round < 100000; round++) {
		len = (size_t) rand_r(&seed) % sizeof buf;
		for (size_t i = 0; i < len; i++)
			buf[i] = (unsigned char) (rand_r(&seed) >> 8);
		if (round % 2 && len >= HEAD) {
			memcpy(buf, "\x70\x32\x50\x66", 4);
			buf[AT_VERSION] = WIRE_VERSION;
			buf[AT_TYPE] %= WIRE_TYPES + 1;
			buf[AT_ID + 7] &= round % 16 ? 0x7f : 0xff;
			memset(buf + AT_DATA + 4, 0, round % 8 ? 4 : 0);
			memset(buf + AT_NAME_LEN, 0, 2);
			set_size(buf, len);
			rest = len - HEAD - (round % 4 == 3);
			if (has_target(buf[AT_TYPE]))
				rest -= TARGET_LEN;
			if (buf[AT_FLAGS] & WIRE_OFFERED && round % 5)
				rest -= OFFER_LEN;
			/* messages that are shorter than their allocations */
			memset(buf + AT_LEN + 4, 0, round % 3 ? 4 : 0);
			if (len >= HEAD + TARGET_LEN + OFFER_LEN && round % 3)
				memset(buf + AT_OFFSET + 4, 0, 4);
			buf[AT_NAME_LEN] = (unsigned char) rest;
		}
		if (decode(buf, len, &msg, &why)) {
			assert_non_null(why);
			continue;
		}
		accepted++;
		check_accepted(&msg);
		len = wire_encode(&msg, again);
		assert_int_equal(decode(again, len, &copy, &why), 0);
		assert_int_equal(copy.type, msg.type);
		assert_int_equal(copy.id, msg.id);
		assert_int_equal(copy.len, msg.len);
		assert_int_equal(copy.flags, msg.flags);
		assert_int_equal(copy.key, msg.key);
		assert_int_equal(copy.addr, msg.addr);
		same_offer(&copy.offer, &msg.offer);
		offers += has_offer(&msg);
	}
	/* else this shows nothing */
	assert_in_range(accepted, 1000, 50000);
	assert_in_range(offers, 100, 50000);
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

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_foreign),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_name_of_others),
		cmocka_unit_test(test_layout),
		cmocka_unit_test(test_other_lengths),
		cmocka_unit_test(test_bad_announcement),
		cmocka_unit_test(test_bad_content),
		cmocka_unit_test(test_bad_bytes),
		cmocka_unit_test(test_long_name),
		cmocka_unit_test(test_several),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_announce_without_key),
		cmocka_unit_test(test_ident),
	};
	const struct unit unit = {.tests = tests, .test_count = UNIT_COUNT(tests)};

	return unit_main(argc, argv, &unit);
}
