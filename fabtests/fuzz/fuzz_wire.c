/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Control messages as bytes. What is decoded lies within its buffer, and is the same when it has been
 * encoded and decoded again.
 *
 * An input is a letter of messages: as it is, or made as a liar would (fuzz_msg.h). The last message that
 * can be read then has its neighbours tried: it is cut short everywhere, and longer than any; and one number
 * of its head at a time becomes another.
 */
#include "fuzz_msg.h"

#include <endian.h>
#include <string.h>
#include <sanitizer/asan_interface.h>

#include "base/base.h"
#include "xfer/wire.h"

/* The numbers in a message's head, and in what follows it where it is about memory; where its size is */
#define HEAD_END 64
#define TARGET_END 88
#define AT_SIZE 62

/* For a message, and more than it may carry */
#define ROOM (WIRE_MSG_MAX + WIRE_PAYLOAD_MAX + 8)

static uint64_t decoded, refused;

/* What is read lies where the message lies. */
static void check_place(const char *buf, size_t len, const struct wire_msg *msg)
{
	const char *name = msg->name, *payload = msg->payload;

	FUZZ_CHECK(msg->size && msg->size <= len);
	FUZZ_CHECK(msg->name_len <= WIRE_NAME_MAX && msg->payload_len <= WIRE_PAYLOAD_MAX);
	FUZZ_CHECK(name >= buf && name + msg->name_len <= buf + msg->size);
	FUZZ_CHECK(payload >= buf && payload + msg->payload_len <= buf + msg->size);
	FUZZ_CHECK(msg->type && msg->type < WIRE_TYPES && wire_type_name(msg->type));
}

static int decode(const char *buf, size_t len, struct wire_msg *msg)
{
	const char *why = NULL;
	int ret = wire_decode(buf, len, msg, &why);

	if (ret) {
		refused++;
		FUZZ_CHECK(why && msg->size <= len);
	} else {
		decoded++;
		check_place(buf, len, msg);
	}
	return ret;
}

/* Encodes it, and again what is decoded of that. The length */
static size_t check_again(const struct wire_msg *msg, char *buf)
{
	static char again[WIRE_MSG_MAX];
	const size_t len = wire_encode(msg, buf);
	struct wire_msg copy;

	FUZZ_CHECK(len == wire_size(msg) && len <= WIRE_MSG_MAX);
	FUZZ_CHECK(!decode(buf, len, &copy) && copy.size == len);
	FUZZ_CHECK(copy.type == msg->type && copy.id == msg->id && copy.len == msg->len);
	FUZZ_CHECK(copy.to_sender == msg->to_sender);
	FUZZ_CHECK(wire_encode(&copy, again) == len && !memcmp(buf, again, len));
	return len;
}

/* Behind what is left of it nothing may be read. */
static void cut_short(char *buf, size_t len)
{
	struct wire_msg msg;

	for (size_t cut = len; cut-- > len - P2P_MIN(len, TARGET_END + 8);) {
		__asan_poison_memory_region(buf + cut, ROOM - cut);
		FUZZ_CHECK(decode(buf, cut, &msg));
	}
	__asan_unpoison_memory_region(buf, ROOM);
}

/* With more behind it than a message may carry */
static void lengthen(char *buf, size_t len)
{
	const uint16_t longer = htole16(len + WIRE_PAYLOAD_MAX + 1);
	struct wire_msg msg;
	uint16_t before;

	memcpy(&before, buf + AT_SIZE, sizeof before);
	memcpy(buf + AT_SIZE, &longer, sizeof longer);
	FUZZ_CHECK(decode(buf, ROOM, &msg));
	memcpy(buf + AT_SIZE, &before, sizeof before);
}

static void change(char *buf, size_t len)
{
	static const uint64_t values[] = {0, 1, 255, 4096, UINT32_MAX, 1ULL << 63, UINT64_MAX};
	struct wire_msg msg;
	uint64_t before;

	for (size_t at = 0; at + 8 <= P2P_MIN(len, TARGET_END); at += 2) {
		for (size_t i = 0; i < FUZZ_COUNT(values); i++) {
			const size_t bytes = at + 2 < HEAD_END && at % 4 ? 2 : at % 8 ? 4 : 8;

			memcpy(&before, buf + at, sizeof before);
			memcpy(buf + at, &values[i], bytes);
			decode(buf, len, &msg);
			memcpy(buf + at, &before, sizeof before);
		}
	}
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	fuzz_start();
	fuzz_tell("messages decoded", &decoded);
	fuzz_tell("messages refused", &refused);
	return 0;
}

/* Reads all of a letter, and tries the neighbours of its last message. */
static void read_letter(const char *at, size_t len)
{
	_Alignas(8) static char buf[ROOM];
	size_t again = 0;
	struct wire_msg msg;

	do {
		if (!decode(at, len, &msg))
			again = check_again(&msg, buf);
		at += msg.size;
		len -= msg.size;
	} while (msg.size && len);
	if (!again)
		return;
	cut_short(buf, again);
	lengthen(buf, again);
	change(buf, again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct fuzz_known known = {
		.ids = {1, 2},
		.id_count = 2,
		.keys = {3},
		.key_count = 1,
		.host = 4,
		.tokens = {5},
		.token_count = 1,
		.grant = 6,
		.name = "liar",
		.name_len = 4,
		.side = "side",
		.side_len = 4,
	};
	static char letter[WIRE_MSG_MAX];
	struct fuzz in = {data, size};

	wire_name_ident(data, size);
	FUZZ_CHECK(wire_type_name(fuzz_pick(&in, 2 * WIRE_TYPES)));
	if (fuzz_rarely(&in, 2))
		read_letter(letter, fuzz_letter(&in, &known, letter));
	else
		read_letter((const char *) in.at, in.left);
	return 0;
}
