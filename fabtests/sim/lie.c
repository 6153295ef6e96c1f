/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * A process that lies. It runs the provider as the others do, and what it sends is changed on its way, or other messages
 * come with it: those of fabtests/fuzz. It uses what an honest process in its place would know, and guesses the rest.
 *
 * It does not give a false name over cores that stall: there that harms others (docs/security.md, who a peer is).
 * Processes of one host trust each other with what the system lets them do. So it changes no page but its own.
 */
#include "core.h"
#include "gate.h"

#include "../fuzz/fuzz_msg.h"

/* Messages of a letter that are looked at, and letters of before that are remembered */
#define LIE_MESSAGES 16
#define LIE_LETTERS 4
/* Longer than the receives of control messages are */
#define LIE_LONGER 64

/* How: the first ones are enum fuzz_fields, of a control message */
enum lie_kind {
	LIE_TYPE = 1 << 7,      /* it is another one */
	LIE_CUT = 1 << 8,       /* it ends too early, or is too long */
	LIE_TWICE = 1 << 9,     /* it comes twice */
	LIE_AGAIN = 1 << 10,    /* one of before comes again */
	LIE_FORGED = 1 << 11,   /* one is made up */
	LIE_BYTES = 1 << 12,    /* a byte is wrong */
	LIE_MARKS = 1 << 13,    /* the number in a marker, or the tag or length of a piece */
	LIE_REMOTE = 1 << 14,   /* key or address of remote memory, for the core */
	LIE_PAGES = 1 << 15,    /* words of its board */
	LIE_DATAGRAM = 1 << 16, /* signs of life */
	LIE_SOCKET = 1 << 17,   /* what local sockets carry */
};
#define LIE_IN_LETTERS (LIE_MARKS - 1)

/*
 * @node: who lies now; SIM_NODES: nobody. @known: what it knows. @letters: @count of them so far
 * @hidden: to nodes, and to nobody: it has said who it is, and lied then
 */
static struct {
	unsigned int node, kinds, often;
	struct fuzz_known known;
	uint8_t name[WIRE_NAME_MAX], side[WIRE_NAME_MAX];
	size_t count;
	bool hidden[SIM_NODES + 1];
	struct {
		size_t len;
		uint8_t bytes[WIRE_MSG_MAX];
	} letters[LIE_LETTERS];
} liar = {.node = SIM_NODES};

void lie_begin(const struct fault_plan *fault)
{
	liar.node = fault->node;
	liar.kinds = fault->lies ? fault->lies : ~0U;
	liar.often = fault->often ? fault->often : 8;
}

void lie_end(void)
{
	liar.node = SIM_NODES;
}

bool lie_hides(unsigned int from)
{
	return liar.hidden[from];
}

static bool lies(unsigned int node, unsigned int kinds)
{
	return node == liar.node && liar.kinds & kinds && !world_upto(liar.often);
}

/* One of @kinds that it does */
static unsigned int pick(unsigned int kinds)
{
	unsigned int kind;

	do
		kind = 1U << world_upto(18);
	while (!(kind & kinds & liar.kinds));
	return kind;
}

/* What the fuzzers' functions take numbers from */
static struct fuzz *input(void)
{
	static uint8_t bytes[256];
	static struct fuzz in;

	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t) (world_random() >> 32);
	in = (struct fuzz){bytes, sizeof bytes};
	return &in;
}

/* ---- what it knows ---- */

static void learn_key(uint64_t key)
{
	struct fuzz_known *known = &liar.known;

	if (!key)
		return;
	if (known->key_count < FUZZ_KEYS)
		known->keys[known->key_count++] = key;
	else
		known->keys[world_upto(FUZZ_KEYS)] = key;
}

static void learn(const struct wire_msg *msg)
{
	if (msg->type == WIRE_HELLO) {
		liar.known.host = msg->key;
		if (msg->grant)
			fuzz_admit(&liar.known, msg->grant);
		return;
	}
	if (msg->type == WIRE_LANES && msg->flags & WIRE_ASKS)
		liar.known.lanes_kind = msg->len;
	if (msg->flags & WIRE_READABLE)
		learn_key(msg->key);
	if (msg->flags & WIRE_LENT)
		learn_key(msg->lent_key);
	fuzz_know(&liar.known, msg->id);
}

/* Messages that lie one behind the other, @room at most */
static size_t read_letter(const uint8_t *bytes, size_t len, struct wire_msg *msgs, size_t room)
{
	size_t count = 0;
	const char *why;

	while (count < room && len && !wire_decode(bytes, len, &msgs[count], &why)) {
		bytes += msgs[count].size;
		len -= msgs[count].size;
		count++;
	}
	return count;
}

void lie_hear(unsigned int node, const struct core_send *send)
{
	struct wire_msg msgs[LIE_MESSAGES];
	size_t count;

	if (node != liar.node || !core_is_internal(send) || send->tag & WIRE_TAG_PIECE ||
	    !send->bytes)
		return;
	count = read_letter(send->bytes, send->len, msgs, LIE_MESSAGES);
	for (size_t i = 0; i < count; i++)
		learn(&msgs[i]);
}

/* It remembers what it has said itself, with what it was to reach */
static void remember(const uint8_t *bytes, size_t len, const struct wire_msg *msgs,
		     size_t count)
{
	const size_t at = liar.count++ % LIE_LETTERS;

	for (size_t i = 0; i < count; i++) {
		if (msgs[i].type == WIRE_CALL)
			learn_key(msgs[i].key);
		fuzz_know(&liar.known, msgs[i].id);
		if (msgs[i].type == WIRE_HELLO && msgs[i].grant)
			liar.known.grant = msgs[i].grant;
		if (msgs[i].type == WIRE_HELLO && msgs[i].flags & WIRE_SIDE) {
			liar.known.side = liar.side;
			liar.known.side_len = msgs[i].payload_len;
			memcpy(liar.side, msgs[i].payload, msgs[i].payload_len);
		}
	}
	liar.letters[at].len = len < WIRE_MSG_MAX ? len : WIRE_MSG_MAX;
	memcpy(liar.letters[at].bytes, bytes, liar.letters[at].len);
}

/* ---- control messages ---- */

static void forge(struct wire_msg *msg)
{
	struct fuzz *in = input();
	const uint64_t token = msg->token;

	fuzz_msg(in, &liar.known, msg);
	if (!fuzz_rarely(in, 8))
		msg->token = token;
}

static void change(struct wire_msg *msg, unsigned int kind)
{
	if (kind == LIE_TYPE)
		msg->type = 1 + (enum wire_type) world_upto(WIRE_TYPES - 1);
	else if (kind == LIE_FORGED)
		forge(msg);
	else if (kind < LIE_TYPE)
		fuzz_spoil(input(), kind, world_upto(2), msg);
}

/* As many as there is room for. Their length */
static size_t write_letter(const struct wire_msg *msgs, size_t count, uint8_t *bytes,
			   size_t room)
{
	size_t len = 0;

	for (size_t i = 0; i < count && len + wire_size(&msgs[i]) <= room; i++)
		len += wire_encode(&msgs[i], bytes + len);
	return len;
}

static bool has_greeting(const struct wire_msg *msgs, size_t count)
{
	bool greets = false;

	for (size_t i = 0; i < count; i++)
		greets |= msgs[i].type == WIRE_HELLO;
	return greets;
}

/* @bytes has room for more of them. Their length then */
static size_t lie_letter(unsigned int to, uint8_t *bytes, size_t len, size_t room)
{
	static uint8_t said[WIRE_MSG_MAX];
	struct wire_msg msgs[LIE_MESSAGES + 1];
	const unsigned int kind = pick(LIE_IN_LETTERS);
	size_t count, which;

	if (len > sizeof said)
		return len;
	memcpy(said, bytes, len);
	count = read_letter(said, len, msgs, LIE_MESSAGES);
	if (!count)
		return len;
	remember(said, len, msgs, count);
	which = world_upto(count);
	if (kind == LIE_CUT)
		return world_upto(8) ? world_upto(len) : room;
	liar.hidden[to] |= has_greeting(msgs, count);
	if (kind == LIE_BYTES && !(has_greeting(msgs, count) && world.script->model->stalls)) {
		bytes[world_upto(len)] = (uint8_t) world_random();
		return len;
	}
	if (kind == LIE_AGAIN) {
		const size_t at =
			world_upto(liar.count < LIE_LETTERS ? liar.count : LIE_LETTERS);

		count += read_letter(liar.letters[at].bytes, liar.letters[at].len, msgs + count,
				     1);
	} else if (kind == LIE_TWICE || (kind == LIE_FORGED && world_upto(2))) {
		msgs[count++] = msgs[which];
		which = count - 1;
	}
	change(&msgs[which], kind);
	liar.hidden[to] |= has_greeting(msgs, count);
	return write_letter(msgs, count, bytes, WIRE_MSG_MAX);
}

/* ---- what goes to the core ---- */

static void lie_remote(struct core_send *send)
{
	struct fi_rma_iov *remote = &send->remote[world_upto(send->remotes)];
	struct fuzz *in = input();

	if (world_upto(2) && liar.known.key_count)
		remote->key = liar.known.keys[world_upto(liar.known.key_count)];
	else if (!world_upto(4))
		remote->key = fuzz_number(in);
	/* operations on elements are where elements are */
	remote->addr += 8 * (world_upto(2) ? fuzz_number(in) : world_upto(512) - 256);
}

static void lie_piece(struct core_send *send)
{
	if (world_upto(2) && send->bytes)
		send->len = world_upto(send->len + 1);
	else
		send->tag ^= 1ULL << world_upto(WIRE_TAG_TRANSFER_SHIFT + 8);
}

static void lie_mark(struct core_send *send)
{
	if (send->has_data && world_upto(4))
		send->data = WIRE_MARK | fuzz_id(input(), &liar.known);
	else if (send->has_data)
		send->data = fuzz_number(input());
	else if (!world_upto(4)) {
		send->has_data = true;
		send->data = WIRE_MARK | fuzz_id(input(), &liar.known);
	}
}

static void lie_control(struct core_send *send)
{
	const size_t room = WIRE_MSG_MAX + LIE_LONGER;

	if (!send->bytes)
		return;
	send->bytes = realloc(send->bytes, room + send->len);
	memset(send->bytes + send->len, 0, room);
	liar.known.name = liar.name;
	liar.known.name_len = core_name(liar.node, send->conn->src->name.port, liar.name);
	send->len = lie_letter(send->conn->to.node, send->bytes, send->len, room);
}

void lie_send(struct core_send *send)
{
	const unsigned int node = send->conn->src->name.node;
	const bool piece = core_is_internal(send) && send->tag & WIRE_TAG_PIECE;

	if (send->kind != SEND_MSG && lies(node, LIE_REMOTE))
		lie_remote(send);
	else if (send->kind != SEND_MSG)
		return;
	else if (core_is_internal(send) && !piece && lies(node, LIE_IN_LETTERS))
		lie_control(send);
	else if (piece && lies(node, LIE_MARKS))
		lie_piece(send);
	else if (!core_is_internal(send) && lies(node, LIE_MARKS))
		lie_mark(send);
	else
		return;
	core_send_tell(send, "lies");
}

/* ---- what goes beside it ---- */

/* One is wrong, or there are less */
static void lie_bytes(uint8_t *bytes, size_t *len)
{
	if (*len && world_upto(4))
		bytes[world_upto(*len)] = (uint8_t) world_random();
	else
		*len = world_upto(*len + 1);
}

bool lie_datagram(uint8_t *bytes, size_t *len)
{
	const bool lied = lies(world.current, LIE_DATAGRAM);

	if (lied)
		lie_bytes(bytes, len);
	return lied;
}

void lie_local(uint8_t *bytes, size_t *len)
{
	if (lies(world.current, LIE_SOCKET))
		lie_bytes(bytes, len);
}

/* A note on its board, or a word of it, from a place on where there is something */
void lie_turn(void)
{
	uint64_t *words;
	size_t len, at;

	if (liar.node == SIM_NODES || world_upto(16) || !lies(liar.node, LIE_PAGES))
		return;
	words = gate_own_page(liar.node, &len);
	if (!words)
		return;
	at = world_upto(len / 8);
	for (size_t i = 0; i < len / 8 && !words[at]; i++)
		at = (at + 1) % (len / 8);
	words[at] = world_upto(2) ? fuzz_number(input()) : words[at] + world_upto(512) - 256;
}
