/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unit tests of docs/wire.md: its tables of layouts, types, flags and constants say what the code does. Whoever writes
 * the other end has only those.
 */
#include "unit.h"

#include <arpa/inet.h>
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mem/board.h"
#include "proto/rma_served.h"
#include "xfer/keepalive.h"
#include "xfer/lane.h"
#include "xfer/wire.h"

#define ROWS 128
#define CELLS 4
#define PATTERN 0x8182838485868788
#define OWNER 0x123456789a000000
#define PROCESS 0x1122334455667788
#define LIMIT 30 /* s: what has not been heard by then never is */

/* One row of a table: the heading above it, and its cells without marks of code */
struct row {
	char section[32];
	char cell[CELLS][512];
};

static struct row rows[ROWS];
static size_t row_count;

static void read_row(char *line, const char *section)
{
	struct row *row = &rows[row_count];
	char *text;

	snprintf(row->section, sizeof row->section, "%s", section);
	for (size_t i = 0; i < CELLS && (text = strsep(&line, "|")); i++) {
		text += strspn(text, " `");
		snprintf(row->cell[i], sizeof row->cell[i], "%.*s", (int) strcspn(text, "`"),
			 text);
		if (i)
			snprintf(row->cell[i], sizeof row->cell[i], "%s", text);
	}
	row_count++;
}

/* All rows whose first cell is code. The page is small: each fits, or this fails */
static int read_page(void **state)
{
	char line[1024], section[32] = "";
	FILE *page = fopen(WIRE_PAGE, "re");

	if (!page)
		return -1;
	while (fgets(line, sizeof line, page) && row_count < ROWS) {
		line[strcspn(line, "\n")] = '\0';
		if (line[0] == '#')
			snprintf(section, sizeof section, "%s", line + strspn(line, "#") + 1);
		else if (!strncmp(line, "| `", 3))
			read_row(line + 1, section);
	}
	fclose(page);
	return row_count < ROWS ? 0 : -1;
}

static size_t count_rows(const char *section)
{
	size_t count = 0;

	for (size_t i = 0; i < row_count; i++)
		count += !strcmp(rows[i].section, section);
	return count;
}

static const struct row *find_row(const char *section, const char *name)
{
	for (size_t i = 0; i < row_count; i++) {
		if (!strcmp(rows[i].section, section) && !strcmp(rows[i].cell[0], name))
			return &rows[i];
	}
	fail_msg("docs/wire.md has no %s in its table of %s", name, section);
	return NULL;
}

static size_t number_in(const struct row *row, size_t cell)
{
	char *end;
	size_t number = strtoull(row->cell[cell], &end, 0);

	if (end == row->cell[cell])
		fail_msg("%s of %s: no number", row->cell[0], row->section);
	return number;
}

static size_t at(const char *section, const char *name)
{
	return number_in(find_row(section, name), 1);
}

static size_t bytes(const char *section, const char *name)
{
	return number_in(find_row(section, name), 2);
}

/* The number that the meaning of a field begins with */
static uint64_t meant(const char *section, const char *name)
{
	return number_in(find_row(section, name), 3);
}

static uint64_t load(const void *from, size_t len)
{
	const uint8_t *byte = from;
	uint64_t value = 0;

	while (len--)
		value = value << 8 | byte[len];
	return value;
}

/* One field begins where the one before it ends, up to @size */
static void check_tiles(const char *section, size_t size)
{
	size_t end = 0;

	for (size_t i = 0; i < row_count; i++) {
		if (strcmp(rows[i].section, section))
			continue;
		if (number_in(&rows[i], 1) != end)
			fail_msg("%s of %s is not at %zu", rows[i].cell[0], section, end);
		end += number_in(&rows[i], 2);
	}
	assert_int_equal(end, size);
}

static void test_tiles(void **state)
{
	check_tiles("Head", 64);
	check_tiles("Target", 24);
	check_tiles("Greeting", 32);
	check_tiles("Loan", 16);
	check_tiles("Offer", 120);
	check_tiles("Board", 128 + BOARD_NOTES * 512);
	check_tiles("Note", 512);
	check_tiles("Datagram", 24);
}

/* ---- messages ---- */

/**
 * struct field - where a field of struct wire_msg is in the page.
 * @place, @size: in struct wire_msg; a bool is 1 where @boolean
 * @part:	where its part begins in a message of @type with @flags
 */
struct field {
	const char *section;
	const char *name;
	enum wire_type type;
	uint32_t flags;
	size_t part;
	size_t place;
	size_t size;
	bool boolean;
};

#define FIELD(s, n, t, f, p, member, ...)                                                      \
	{                                                                                      \
		s, n, WIRE_##t, f, p, offsetof(struct wire_msg, member),                       \
			sizeof((struct wire_msg *) 0)->member, __VA_ARGS__                     \
	}
#define HEAD(member, ...) FIELD("Head", #member, TAKE, 0, 0, member, __VA_ARGS__)
#define HELLO_HEAD(n, member) FIELD("Head", n, HELLO, 0, 0, member, false)
#define TARGET(member) FIELD("Target", #member, CALL, 0, 64, member, false)
#define GREETING(n, member) FIELD("Greeting", n, HELLO, 0, 64, member, false)
#define LOAN(n, member) FIELD("Loan", n, ANNOUNCE, WIRE_LENT, 88, member, false)
#define OFFER(member, ...)                                                                     \
	FIELD("Offer", #member, ANNOUNCE, WIRE_OFFERED, 88, offer.member, __VA_ARGS__)

static const struct field fields[] = {
	HEAD(to_sender, true),
	HEAD(front, true),
	HEAD(token, false),
	HEAD(id, false),
	HEAD(len, false),
	HEAD(data, false),
	HEAD(flags, false),
	HEAD(transfer, false),
	HEAD(chunk, false),
	HEAD(count, false),
	HEAD(status, false),
	HELLO_HEAD("len", epoch),
	HELLO_HEAD("transfer", port),
	HELLO_HEAD("chunk", oldest),
	HELLO_HEAD("count", newest),
	TARGET(key),
	TARGET(addr),
	TARGET(op),
	TARGET(datatype),
	GREETING("grant", grant),
	GREETING("process", process),
	GREETING("host", key),
	GREETING("board", addr),
	LOAN("key", lent_key),
	LOAN("addr", lent_addr),
	OFFER(host, false),
	OFFER(process, false),
	OFFER(id, false),
	OFFER(base, false),
	OFFER(size, false),
	OFFER(offset, false),
	OFFER(device, false),
	OFFER(shared, true),
	OFFER(handle, false),
};

/* Fills it so that no two bytes of a number are the same. Returns the number, or 0: it is no number */
static uint64_t fill(struct wire_msg *msg, const struct field *field)
{
	const uint64_t value = field->boolean ? 1 : PATTERN;
	char *to = (char *) msg + field->place;

	if (field->size > sizeof value) {
		memset(to, 0xa5, field->size);
		return 0;
	}
	switch (field->size) {
	case 1:
		*(uint8_t *) to = (uint8_t) value;
		break;
	case 2:
		*(uint16_t *) to = (uint16_t) value;
		break;
	case 4:
		*(uint32_t *) to = (uint32_t) value;
		break;
	default:
		*(uint64_t *) to = value;
	}
	return value & (UINT64_MAX >> (64 - 8 * field->size));
}

static void check_field(const struct field *field)
{
	const size_t start = field->part + at(field->section, field->name);
	const size_t len = bytes(field->section, field->name);
	struct wire_msg msg = {.type = field->type, .flags = field->flags};
	uint8_t before[WIRE_MSG_MAX], after[WIRE_MSG_MAX];
	size_t size = wire_encode(&msg, before);
	uint64_t value = fill(&msg, field);

	assert_int_equal(wire_encode(&msg, after), size);
	for (size_t i = 0; i < size; i++) {
		if ((before[i] != after[i]) && (i < start || i >= start + len))
			fail_msg("%s of %s is at byte %zu, too", field->name, field->section,
				 i - field->part);
	}
	if (value && load(after + start, len) != value)
		fail_msg("%s of %s is elsewhere", field->name, field->section);
	for (size_t i = start; !value && i < start + len; i++)
		assert_int_equal(after[i], 0xa5);
}

static void test_fields(void **state)
{
	static const char name[] = "name";
	const struct wire_msg msg = {.type = WIRE_HELLO, .name = name, .name_len = 5};
	uint8_t buf[WIRE_MSG_MAX];
	size_t size = wire_encode(&msg, buf);

	for (size_t i = 0; i < UNIT_COUNT(fields); i++)
		check_field(&fields[i]);
	assert_int_equal(load(buf + at("Head", "magic"), bytes("Head", "magic")),
			 meant("Head", "magic"));
	assert_int_equal(load(buf + at("Head", "version"), bytes("Head", "version")),
			 meant("Head", "version"));
	assert_int_equal(load(buf + at("Head", "type"), bytes("Head", "type")), WIRE_HELLO);
	assert_int_equal(load(buf + at("Head", "name_len"), bytes("Head", "name_len")), 5);
	assert_int_equal(load(buf + at("Head", "size"), bytes("Head", "size")), size);
	/* four of the head's are told of twice; five, and the zeros behind a target, are not in the table above */
	assert_int_equal(count_rows("Head") + count_rows("Target") + count_rows("Greeting") +
				 count_rows("Loan") + count_rows("Offer"),
			 UNIT_COUNT(fields) - 4 + 6);
}

/* ---- what messages are made of ---- */

static size_t part_len(const char *parts, const char *part, const char *only, size_t len)
{
	const char *found = strstr(parts, part), *named;

	if (!found)
		return 0;
	found += strlen(part);
	/* "if" what, or what? */
	if (strncmp(found, " if ", 4))
		return len;
	named = only ? strstr(found, only) : NULL;
	return named && named < found + strcspn(found, ";") ? len : 0;
}

static void check_parts(const struct row *row, enum wire_type type, uint32_t flag,
			const char *only)
{
	const struct wire_msg msg = {
		.type = type,
		.flags = flag,
		.name = "name",
		.name_len = 4,
		.payload = "payload",
		.payload_len = 7,
	};
	const char *parts = row->cell[2];

	assert_int_equal(wire_size(&msg), 64 + part_len(parts, "target", only, 24) +
						  part_len(parts, "greeting", only, 32) +
						  part_len(parts, "loan", only, 16) +
						  part_len(parts, "offer", only, 120) +
						  part_len(parts, "name", only, 4) +
						  part_len(parts, "payload", only, 7));
}

static void test_types(void **state)
{
	const char *none = wire_type_name(WIRE_TYPES);
	size_t count = 0;

	for (enum wire_type type = WIRE_ANNOUNCE; type < WIRE_TYPES; type++) {
		const struct row *row;

		/* between the numbers there are some that no type has */
		if (wire_type_name(type) == none)
			continue;
		count++;
		row = find_row("Types", wire_type_name(type));
		assert_int_equal(number_in(row, 1), type);
		check_parts(row, type, 0, NULL);
		check_parts(row, type, WIRE_LENT, "LENT");
		check_parts(row, type, WIRE_WORD, "WORD");
		check_parts(row, type, WIRE_OFFERED, "OFFERED");
	}
	assert_int_equal(count_rows("Types"), count);
}

#define NAMED(name)                                                                            \
	{                                                                                      \
#name, WIRE_##name                                                             \
	}

static const struct named {
	const char *name;
	uint64_t value;
} flags[] =
	{
		NAMED(HAS_DATA),    NAMED(WANT_DONE), NAMED(READABLE), NAMED(OFFERED),
		NAMED(CALLS),       NAMED(LENT),      NAMED(COMMIT),   NAMED(WORD),
		NAMED(FETCH),       NAMED(COMPARE),   NAMED(ASKS),     NAMED(ANSWERS),
		NAMED(CONFIRMS),    NAMED(SIDE),      NAMED(FOLLOWS),  NAMED(BOARD),
		NAMED(READS),       NAMED(MAY_LANES), NAMED(BORROWS),  NAMED(COUNTS_FRONT),
		NAMED(COUNTS_SIDE), NAMED(UNMARKED),  NAMED(PLAIN),
},
  constants[] = {
	  NAMED(PLAIN_MAX),
	  NAMED(PAYLOAD_MAX),
	  NAMED(NAME_MAX),
	  NAMED(ASK_MAX),
	  NAMED(MSG_MAX),
	  NAMED(PIECES_MAX),
	  {"ATOMIC_MAX", RMA_SERVED_ATOMIC_MAX},
	  {"LANES_MAX", LANES_MAX},
	  {"NOTES", BOARD_NOTES},
};

static void test_flags(void **state)
{
	assert_int_equal(count_rows("Flags"), UNIT_COUNT(flags));
	for (size_t i = 0; i < UNIT_COUNT(flags); i++)
		assert_int_equal(1ULL << number_in(find_row("Flags", flags[i].name), 1),
				 flags[i].value);
	assert_int_equal(WIRE_TAKE_LANES, 0xff << 8);
	assert_int_equal(WIRE_TAKE_FAR, 0xff << 16);
}

static void test_constants(void **state)
{
	assert_int_equal(count_rows("Constants"), UNIT_COUNT(constants));
	for (size_t i = 0; i < UNIT_COUNT(constants); i++)
		assert_int_equal(number_in(find_row("Constants", constants[i].name), 1),
				 constants[i].value);
}

/* ---- beside messages ---- */

static void test_board(void **state)
{
	const uint64_t id = OWNER + 0x103;
	struct board board = {.page = NULL};
	struct board_far *fars = NULL;
	uint64_t place = board_open(&board, OWNER);
	const char *page, *note;

	assert_int_not_equal(place, 0);
	page = board_memory(&board).iov_base;
	assert_int_equal(board_memory(&board).iov_len,
			 at("Board", "notes") + bytes("Board", "notes"));
	assert_int_equal(*(const uint64_t *) (page + at("Board", "magic")),
			 meant("Board", "magic"));
	assert_int_equal(*(const uint64_t *) (page + at("Board", "owner")), OWNER);
	assert_int_equal(bytes("Note", "text"), BOARD_TEXT_MAX);
	note = page + at("Board", "notes") +
	       (id % BOARD_NOTES) * (bytes("Board", "notes") / BOARD_NOTES);
	assert_ptr_equal(board_note(&board, id), note + at("Note", "text"));
	board_show(&board, id, 3);
	assert_int_equal(*(const uint64_t *) (note + at("Note", "id")), id);
	assert_int_equal(*(const uint64_t *) (note + at("Note", "done")), 0);
	assert_int_equal(*(const uint32_t *) (note + at("Note", "len")), 3);
	assert_ptr_equal(board_word(&board, id), note + at("Note", "id"));
	assert_int_equal(board_far_open(&fars, OWNER, place, 0, true), 0);
	assert_true(board_far_answer(fars, OWNER, id));
	assert_int_equal(*(const uint64_t *) (note + at("Note", "done")), id);
	assert_int_equal(*(const uint64_t *) (page + at("Board", "answers")), 1);
	board_far_close_all(&fars);
	board_close(&board);
}

static void store(uint8_t *msg, const char *name, uint64_t value)
{
	const uint64_t little = htole64(value);

	memcpy(msg + at("Datagram", name), &little, bytes("Datagram", name));
}

/* A question as the page has it is answered so, too */
static void test_datagram(void **state)
{
	struct sockaddr_in name = {.sin_family = AF_INET};
	struct keepalive_sock *sock;
	uint8_t msg[64] = {0};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	assert_true(fd >= 0);
	name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	sock = keepalive_listen(PROCESS, &name, sizeof name);
	assert_non_null(sock);
	name.sin_port = htons(keepalive_port(sock));
	store(msg, "magic", meant("Datagram", "magic"));
	store(msg, "kind", 1);
	store(msg, "process", PROCESS);
	store(msg, "nonce", PATTERN);
	alarm(LIMIT);
	assert_int_equal(sendto(fd, msg, 24, 0, (struct sockaddr *) &name, sizeof name), 24);
	memset(msg, 0, sizeof msg);
	assert_int_equal(recv(fd, msg, sizeof msg, 0), 24);
	alarm(0);
	assert_int_equal(load(msg + at("Datagram", "magic"), 4), meant("Datagram", "magic"));
	assert_int_equal(load(msg + at("Datagram", "kind"), 4), 2);
	assert_int_equal(load(msg + at("Datagram", "process"), 8), PROCESS);
	assert_int_equal(load(msg + at("Datagram", "nonce"), 8), PATTERN);
	assert_int_equal(count_rows("Datagram"), 4);
	close(fd);
	keepalive_sock_close(sock);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tiles),     cmocka_unit_test(test_fields),
		cmocka_unit_test(test_types),     cmocka_unit_test(test_flags),
		cmocka_unit_test(test_constants), cmocka_unit_test(test_board),
		cmocka_unit_test(test_datagram),
	};
	const struct unit unit = {
		.tests = tests,
		.test_count = UNIT_COUNT(tests),
		.setup = read_page,
	};

	return unit_main(argc, argv, &unit);
}
