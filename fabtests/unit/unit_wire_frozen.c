/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unit tests of wire.c: messages as they were once sent. Those of today's version mean
 * what they meant, and are encoded as they were. Greetings of version 8 are understood, and tell that its sender is not.
 * Messages of version 7 are refused, in its own words.
 * Buffers to decode are malloc'ed to the byte, so that a sanitizer sees who reads past them.
 */
#include "unit_wire_frozen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>

#include "xfer/wire.h"

#define AT_VERSION 4
#define AT_TYPE 5

/* Version 7's head, and where it tells of its length and its sender's name */
#define OLD_HEAD 56
#define OLD_AT_FLAGS 32
#define OLD_AT_NAME_LEN 52
#define OLD_AT_SIZE 54

#define MSG(t, ...)                                                                            \
	{                                                                                      \
		.type = WIRE_##t, .token = 0x4142434445464748, .id = 0x0123456789abcdef,       \
		__VA_ARGS__                                                                    \
	}
#define TARGET .key = 0x6162636465666768, .addr = 0x7172737475767778
#define LOAN .lent_key = 0x2122232425262728, .lent_addr = 0x3132333435363738
#define WRITE .op = FI_ATOMIC_WRITE
#define NAME(text) .name = (text), .name_len = sizeof(text) - 1
#define PAYLOAD(text) .payload = (text), .payload_len = sizeof(text) - 1
#define OFFER                                                                                  \
	.offer = {.host = 0x8182838485868788,                                                  \
		  .process = 0x9192939495969798,                                               \
		  .id = 0xa1a2a3a4a5a6a7a8,                                                    \
		  .base = 0x0102030405060708,                                                  \
		  .size = 0xc1c2c3c4c5c6c7c8,                                                  \
		  .offset = 0xb1b2b3b4b5b6b7b8,                                                \
		  .device = 0xe1e2e3e4,                                                        \
		  .shared = true,                                                              \
		  .handle = "handle"}
#define GREETING                                                                               \
	.grant = 0x5152535455565758, .process = 0x9192939495969798, .oldest = 8, .newest = 9

/* unit_wire_9[] has them, in this order, as they are sent */
static const struct wire_msg messages[] = {
	/* every field that a head has, though no type uses all of them */
	MSG(ANNOUNCE, .len = 0x0112131415161718, .data = 0x21222324,
	    .flags = WIRE_HAS_DATA | WIRE_WANT_DONE | WIRE_READABLE | WIRE_OFFERED |
		     WIRE_CALLS | WIRE_WORD,
	    .transfer = 0x31323334, .chunk = UINT32_MAX, .count = 0x51525354, .status = -2,
	    .to_sender = true, TARGET, LOAN, OFFER),
	MSG(ANNOUNCE, .len = 1 << 20, .chunk = 1 << 19, .flags = WIRE_LENT, LOAN),
	MSG(TAKE, .len = 1 << 20, .chunk = 1 << 18, .count = 4, .transfer = 9, .data = 3,
	    .flags = 2u << WIRE_TAKE_LANES_SHIFT | 5u << WIRE_TAKE_FAR_SHIFT,
	    .to_sender = true),
	MSG(TAKE, .flags = WIRE_PLAIN, .to_sender = true),
	MSG(DONE, .to_sender = true),
	MSG(DONE, .status = -FI_EIO, .to_sender = true),
	MSG(DONE, .status = -FI_ECANCELED, .transfer = 9, .count = 3),
	MSG(PROBE, .flags = WIRE_ASKS),
	MSG(CALL, WRITE, .len = 4, .data = 5, .flags = WIRE_HAS_DATA, TARGET, PAYLOAD("data")),
	MSG(CALL, WRITE, .len = 1 << 20, .chunk = 1 << 19, .flags = WIRE_OFFERED, TARGET,
	    OFFER),
	MSG(CALL, .op = FI_ATOMIC_READ, .flags = WIRE_FETCH, .len = 1 << 20, TARGET),
	MSG(ANNOUNCE, .len = 1 << 20, .chunk = 1 << 19, .key = 0x11, .to_sender = true),
	MSG(CALL, .len = 8, .flags = WIRE_FETCH | WIRE_COMPARE, .op = FI_CSWAP,
	    .datatype = FI_UINT64, TARGET, PAYLOAD("operandscompared")),
	MSG(DONE, PAYLOAD("before"), .to_sender = true),
	MSG(HELLO, .flags = WIRE_ASKS | WIRE_FOLLOWS, .key = 0x8182838485868788, GREETING,
	    NAME("fi_shm://4711:0")),
	MSG(HELLO, .flags = WIRE_ANSWERS | WIRE_SIDE, .key = 0x8182838485868788, GREETING,
	    NAME("endpoint"), PAYLOAD("side endpoint")),
	MSG(HELLO, .flags = WIRE_CONFIRMS | WIRE_BOARD, TARGET, GREETING,
	    NAME("fi_shm://4711:0")),
	MSG(HELLO, .flags = WIRE_READS, .key = 0x8182838485868788, .oldest = 8, .newest = 8),
	/* only to who has said WIRE_BORROWS */
	MSG(CALL, WRITE, .len = 1 << 16, .chunk = 1 << 19, .flags = WIRE_LENT | WIRE_WANT_DONE,
	    TARGET, LOAN),
	MSG(ANNOUNCE, .len = 1 << 16, .chunk = 1 << 19, .flags = WIRE_LENT | WIRE_WANT_DONE,
	    .key = 0x11, .to_sender = true, LOAN),
};

/* What @hex stands for, in a buffer of just that size, which the caller frees */
static unsigned char *bytes_of(const char *hex, size_t *len)
{
	unsigned char *bytes;

	*len = strlen(hex) / 2;
	bytes = malloc(*len);
	assert_non_null(bytes);
	for (size_t i = 0; i < *len; i++)
		assert_int_equal(sscanf(hex + 2 * i, "%2hhx", &bytes[i]), 1);
	return bytes;
}

static void same_bytes(const unsigned char *is, size_t len, const char *hex, size_t row)
{
	char text[2 * WIRE_MSG_MAX + 1] = "";

	for (size_t i = 0; i < len; i++)
		snprintf(text + 2 * i, 3, "%02x", is[i]);
	if (strcmp(text, hex))
		fail_msg("message %zu is now\n%s, it was\n%s", row, text, hex);
}

/* Who changes what is sent changes WIRE_VERSION, and puts a table of its own beside this one. */
static void test_today(void **state)
{
	unsigned char buf[WIRE_MSG_MAX];
	unsigned char *bytes;
	struct wire_msg msg;
	const char *why;
	size_t len;

	assert_int_equal(WIRE_VERSION, 9);
	assert_int_equal(UNIT_COUNT(messages), UNIT_COUNT(unit_wire_9));
	for (size_t i = 0; i < UNIT_COUNT(messages); i++) {
		same_bytes(buf, wire_encode(&messages[i], buf), unit_wire_9[i], i);
		bytes = bytes_of(unit_wire_9[i], &len);
		if (wire_decode(bytes, len, &msg, &why))
			fail_msg("message %zu: %s", i, why);
		assert_int_equal(msg.type, messages[i].type);
		assert_int_equal(msg.token, messages[i].token);
		assert_int_equal(msg.id, messages[i].id);
		assert_int_equal(msg.grant, messages[i].grant);
		/* what it means is what it is made of */
		same_bytes(buf, wire_encode(&msg, buf), unit_wire_9[i], i);
		free(bytes);
	}
}

/* A greeting of version 8 tells what its sender speaks, and that is none of ours */
static void test_before(void **state)
{
	unsigned char *bytes;
	struct wire_msg msg;
	const char *why;
	size_t len;

	for (size_t i = 0; i < UNIT_COUNT(unit_wire_8); i++) {
		bytes = bytes_of(unit_wire_8[i], &len);
		assert_int_equal(bytes[AT_VERSION], 8);
		assert_int_equal(wire_decode(bytes, len, &msg, &why), 0);
		assert_int_equal(msg.type, WIRE_HELLO);
		assert_int_equal(msg.oldest, 8);
		assert_int_equal(msg.newest, 8);
		assert_true(msg.newest < WIRE_VERSION_OLDEST);
		assert_int_equal(msg.size, len);
		/* nothing else of that version is understood */
		for (unsigned char type = 0; type <= WIRE_TYPES; type++) {
			bytes[AT_TYPE] = type;
			if (type == WIRE_HELLO)
				continue;
			assert_int_equal(wire_decode(bytes, len, &msg, &why), -FI_EOPNOTSUPP);
			assert_non_null(strstr(why, "install the same release on both ends"));
			assert_int_equal(msg.size, 0);
		}
		free(bytes);
	}
}

/* Version 7 is told apart, whatever it says, and its sender is named if it waits for an answer */
static void test_old(void **state)
{
	unsigned char *bytes;
	struct wire_msg msg;
	const char *why;
	size_t len;

	for (size_t i = 0; i < UNIT_COUNT(unit_wire_7); i++) {
		const struct unit_wire_old *old = &unit_wire_7[i];

		bytes = bytes_of(old->hex, &len);
		assert_int_equal(wire_decode(bytes, len, &msg, &why), -FI_EOPNOTSUPP);
		assert_non_null(strstr(why, "install the same release on both ends"));
		assert_true(msg.old);
		assert_int_equal(msg.type, old->type);
		assert_int_equal(msg.id, old->id);
		assert_int_equal(msg.size, len);
		assert_int_equal(msg.name_len, old->name_len);
		if (old->name_len)
			assert_memory_equal(msg.name, old->name, old->name_len);
		/* nothing else of it counts */
		assert_int_equal(msg.token, 0);
		assert_int_equal(msg.grant, 0);
		assert_int_equal(msg.payload_len, 0);
		free(bytes);
	}
}

/* The name lies in the message, or there is none */
static void check_name(const struct wire_msg *msg, const unsigned char *bytes, size_t len)
{
	const unsigned char *name = msg->name;

	assert_true(msg->size <= len);
	assert_true(msg->name_len <= WIRE_NAME_MAX);
	if (!msg->name_len)
		return;
	assert_true(name >= bytes + OLD_HEAD);
	assert_true(name + msg->name_len <= bytes + msg->size);
}

/* Parts of them, of any length, and more than them: the same, without a name where that is not there */
static void test_old_lengths(void **state)
{
	unsigned char *bytes, *part;
	struct wire_msg msg;
	const char *why;
	size_t full;

	for (size_t i = 0; i < UNIT_COUNT(unit_wire_7); i++) {
		bytes = bytes_of(unit_wire_7[i].hex, &full);
		for (size_t len = 0; len < full; len++) {
			part = malloc(len + 1);
			assert_non_null(part);
			/* the byte before it belongs to nobody */
			memcpy(part + 1, bytes, len);
			assert_int_equal(wire_decode(part + 1, len, &msg, &why),
					 len < OLD_HEAD ? -FI_EINVAL : -FI_EOPNOTSUPP);
			assert_int_equal(msg.size, 0);
			assert_int_equal(msg.name_len, 0);
			free(part);
		}
		free(bytes);
	}
}

/* Lies about name, length, and offer */
static void test_old_lies(void **state)
{
	unsigned int seed = 20261125, named = 0;
	unsigned char *bytes;
	struct wire_msg msg;
	const char *why;
	size_t len;

	for (size_t i = 0; i < UNIT_COUNT(unit_wire_7); i++) {
		bytes = bytes_of(unit_wire_7[i].hex, &len);
		for (int round = 0; round < 10000; round++) {
			bytes[OLD_AT_FLAGS] = (unsigned char) rand_r(&seed);
			bytes[OLD_AT_NAME_LEN] = (unsigned char) (rand_r(&seed) % 64);
			bytes[OLD_AT_NAME_LEN + 1] = (unsigned char) (rand_r(&seed) % 16 == 0);
			bytes[OLD_AT_SIZE] = (unsigned char) (rand_r(&seed) % (len + 8));
			assert_int_equal(wire_decode(bytes, len, &msg, &why), -FI_EOPNOTSUPP);
			check_name(&msg, bytes, len);
			named += msg.name_len > 0;
		}
		free(bytes);
	}
	/* else this shows nothing */
	assert_in_range(named, 1000, 100000);
}

/* A name that is longer than version 7 has them is no name */
static void test_old_long_name(void **state)
{
	enum { SIZE = OLD_HEAD + 24 + WIRE_NAME_MAX + 1 };
	unsigned char *bytes = bytes_of(unit_wire_7[0].hex, &(size_t){0});
	unsigned char *longer = calloc(1, SIZE);
	struct wire_msg msg;
	const char *why;

	assert_non_null(longer);
	memcpy(longer, bytes, OLD_HEAD);
	longer[OLD_AT_SIZE] = SIZE & 0xff;
	longer[OLD_AT_SIZE + 1] = SIZE >> 8;
	longer[OLD_AT_NAME_LEN] = 0;
	longer[OLD_AT_NAME_LEN + 1] = 1;
	assert_int_equal(wire_decode(longer, SIZE, &msg, &why), -FI_EOPNOTSUPP);
	assert_int_equal(msg.name_len, WIRE_NAME_MAX);
	longer[OLD_AT_NAME_LEN] = 1;
	assert_int_equal(wire_decode(longer, SIZE, &msg, &why), -FI_EOPNOTSUPP);
	assert_int_equal(msg.name_len, 0);
	free(longer);
	free(bytes);
}

/* Several may have come as one */
static void test_old_several(void **state)
{
	unsigned char *first, *second, *both;
	size_t first_len, second_len;
	struct wire_msg msg;
	const char *why;

	first = bytes_of(unit_wire_7[0].hex, &first_len);
	second = bytes_of(unit_wire_7[1].hex, &second_len);
	both = malloc(first_len + second_len);
	assert_non_null(both);
	memcpy(both, first, first_len);
	memcpy(both + first_len, second, second_len);
	assert_int_equal(wire_decode(both, first_len + second_len, &msg, &why), -FI_EOPNOTSUPP);
	assert_int_equal(msg.size, first_len);
	assert_int_equal(msg.id, unit_wire_7[0].id);
	assert_int_equal(wire_decode(both + first_len, second_len, &msg, &why), -FI_EOPNOTSUPP);
	assert_int_equal(msg.size, second_len);
	assert_int_equal(msg.id, unit_wire_7[1].id);
	free(both);
	free(second);
	free(first);
}

/* What asks for something is answered, in the bytes that version 7 itself would send */
static void test_old_refusals(void **state)
{
	unsigned char buf[WIRE_MSG_MAX];

	for (size_t i = 0; i < UNIT_COUNT(unit_wire_7_refusals); i++) {
		const struct unit_wire_refusal *refusal = &unit_wire_7_refusals[i];
		const struct wire_msg asked = {.type = (enum wire_type) refusal->type,
					       .id = refusal->id};
		const struct wire_msg msg = wire_refusal(&asked);

		assert_int_equal(wire_size(&msg), OLD_HEAD);
		same_bytes(buf, wire_encode(&msg, buf), refusal->hex, i);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_today),       cmocka_unit_test(test_before),
		cmocka_unit_test(test_old),         cmocka_unit_test(test_old_lengths),
		cmocka_unit_test(test_old_lies),    cmocka_unit_test(test_old_long_name),
		cmocka_unit_test(test_old_several), cmocka_unit_test(test_old_refusals),
	};
	const struct unit unit = {.tests = tests, .test_count = UNIT_COUNT(tests)};

	return unit_main(argc, argv, &unit);
}
