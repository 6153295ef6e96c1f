/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_hostile: a victim, its friend, and a liar. The liar runs the core provider alone, and speaks the
 * protocol as far as it is of use. It knows what an honest peer would, and guesses the rest. Whatever it
 * says, the victim's other memory stays its own, and its message to the friend arrives.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "hostile.h"
#include "mem/ipc_share.h"
#include "path/info_tags.h"

enum { TAG_BAIT = 1, TAG_GOOD, TAG_DONE, TAG_FRIENDS };

#define LENT ((size_t) 30000)
#define ROOM (LONG + FT_ROOM)
#define KEY_SECRET 1
#define KEY_GOOD 2

#define GRANT 9 /* the liar's token */
#define FIRST_ID (0x123456ULL << 32)
#define LAST_ID (FIRST_ID | UINT32_MAX)
#define GUESSES 16   /* of the ids that come after one that is known */
#define FLOOD 130000 /* more than there is room for, and less than there are cells */
#define READS 2048   /* of a piece each: more than there are slots */
#define NAMES 4096
#define FRIENDLY 16 /* messages */
#define ASKERS 4    /* times that descriptors are asked for */

static const struct scene *scene;

/* ---- the liar: what it says ---- */

static int letter_send(struct side *s, struct hostile_letter *letter)
{
	struct ft_req req = {0};
	struct ft_op op = {
		.call = FT_SEND,
		.tagged = true,
		.iov = {{letter->bytes, letter->len}},
		.count = 1,
		.addr = s->ctx.peer[VICTIM],
		.tag = s->tag,
		.req = &req,
	};

	letter->len = 0;
	FT_TRY(ft_post(&s->ctx, &op));
	return ft_wait(&s->ctx, &req, 1);
}

static void sign(const struct side *s, struct wire_msg *msg)
{
	msg->token = s->token;
	if (!msg->name) {
		msg->name = s->name.bytes;
		msg->name_len = s->name.len;
	}
}

int hostile_say(struct side *s, struct wire_msg msg)
{
	struct hostile_letter letter = {0};

	sign(s, &msg);
	FT_CHECK(hostile_add(&letter, &msg), "a letter is too short");
	return letter_send(s, &letter);
}

static int greet(struct side *s, uint32_t step)
{
	return hostile_say(s, (struct wire_msg){
				      .type = WIRE_HELLO,
				      .flags = step | WIRE_FOLLOWS |
					       (scene->lanes ? WIRE_MAY_LANES : 0),
				      .key = s->host_id,
				      .data = s->spaces.pid,
				      .status = (int32_t) s->spaces.net,
				      .process = (uint64_t) getpid(),
				      .grant = GRANT,
				      .oldest = WIRE_VERSION_OLDEST,
				      .newest = WIRE_VERSION,
			      });
}

struct wire_msg hostile_write(struct side *s)
{
	return (struct wire_msg){
		.type = WIRE_CALL,
		.op = FI_ATOMIC_WRITE,
		.id = s->next_id++,
		.len = LONG,
		.chunk = CHUNK,
		.flags = WIRE_WANT_DONE,
		.key = s->known.key,
		.addr = s->known.base,
	};
}

struct wire_msg hostile_take(uint64_t id, size_t len, uint32_t flags)
{
	return (struct wire_msg){
		.type = WIRE_TAKE,
		.to_sender = true,
		.id = id,
		.len = len,
		.chunk = CHUNK,
		.count = (uint32_t) (len / CHUNK),
		.transfer = 1,
		.flags = flags,
	};
}

int hostile_give_up(struct side *s, uint64_t id, bool to_sender)
{
	return hostile_say(s, (struct wire_msg){
				      .type = WIRE_DONE,
				      .id = id,
				      .status = -FI_ECANCELED,
				      .to_sender = to_sender,
			      });
}

/* ---- the liar: what it hears ---- */

static int listen_again(struct side *s, size_t i)
{
	struct ft_op op = {
		.call = FT_RECV,
		.tagged = true,
		.iov = {{s->ears[i], sizeof s->ears[i]}},
		.count = 1,
		.addr = FI_ADDR_UNSPEC,
		.ignore = scene->deaf ? ~WIRE_TAG_PIECE : ~0ULL,
		.req = &s->heard[i],
	};

	return ft_post(&s->ctx, &op);
}

static int heard_one(struct side *s, const struct wire_msg *msg)
{
	if (msg->type == WIRE_ANNOUNCE && !msg->to_sender && !s->announced.id)
		s->announced = *msg;
	if (s->asked && msg->id == s->asked &&
	    (msg->type == WIRE_DONE || msg->type == WIRE_TAKE)) {
		s->granted = msg->type == WIRE_TAKE;
		s->answer = *msg;
		s->asked = 0;
	}
	if (msg->type == WIRE_LANES)
		return hostile_lanes_heard(s, msg);
	if (msg->type == WIRE_ANNOUNCE && msg->to_sender) {
		s->supplies++;
		return hostile_say(s, hostile_take(msg->id, CHUNK, 0));
	}
	if (msg->type != WIRE_HELLO || s->token)
		return 0;
	s->host_id = msg->key;
	s->spaces = (struct ipc_spaces){(uint32_t) msg->data, (uint32_t) msg->status};
	if (msg->flags & WIRE_ASKS)
		return greet(s, WIRE_ASKS);
	s->token = msg->grant;
	return greet(s, WIRE_CONFIRMS);
}

static int heard_letter(struct side *s, const uint8_t *at,
			const struct fi_cq_tagged_entry *comp)
{
	size_t len = comp->len;
	struct wire_msg msg;
	const char *why;

	s->pieces += (comp->tag & (s->known.tag_bit | WIRE_TAG_PIECE)) ==
		     (s->known.tag_bit | WIRE_TAG_PIECE);
	if (!(comp->tag & s->known.tag_bit) || comp->tag & WIRE_TAG_PIECE)
		return 0;
	if (!s->tag) {
		/* over cores that mix up a domain's endpoints the tag tells them apart */
		s->tag = s->known.tag_bit;
		if (comp->tag != s->tag)
			s->tag |= wire_name_ident(s->known.name.bytes, s->known.name.len);
	}
	while (!wire_decode(at, len, &msg, &why)) {
		FT_TRY(heard_one(s, &msg));
		at += msg.size;
		len -= msg.size;
	}
	return 0;
}

int hostile_hear(struct side *s)
{
	int n = ft_progress(&s->ctx);

	for (size_t i = 0; n >= 0 && i < LETTERS; i++) {
		if (!s->heard[i].done)
			continue;
		FT_TRY(heard_letter(s, s->ears[i], &s->heard[i].comp));
		FT_TRY(listen_again(s, i));
	}
	return n < 0 ? n : 0;
}

int hostile_ask(struct side *s, struct wire_msg msg)
{
	s->asked = msg.id;
	FT_TRY(hostile_say(s, msg));
	HOSTILE_UNTIL(s, !s->asked);
	return s->granted ? hostile_give_up(s, msg.id, false) : 0;
}

/* ---- attacks ---- */

/* The victim is offered memory of its own: what lies behind that which the liar was offered */
static int attack_own_offer(struct side *s)
{
	struct wire_msg msg = hostile_write(s);

	FT_CHECK(s->announced.flags & WIRE_OFFERED, "device memory is not offered");
	FT_TRY(hostile_stand(&msg));
	msg.offer = s->announced.offer;
	msg.offer.offset += LONG;
	return hostile_ask(s, msg);
}

/* Answers one question for memory with two descriptors */
static int answer_twice(int listener)
{
	uint8_t question[256], room[CMSG_SPACE(2 * sizeof(int))] = {0};
	int conn = accept(listener, NULL, NULL), fds[2] = {listener, listener};
	uint32_t answer[2] = {0};
	struct iovec iov = {answer, sizeof answer};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = room,
			     .msg_controllen = sizeof room};
	struct cmsghdr *head = CMSG_FIRSTHDR(&msg);
	bool sent;

	if (conn < 0 || recv(conn, question, sizeof question, 0) < (ssize_t) sizeof *answer)
		return ft_errno("recv", "a question for memory");
	memcpy(answer, question, sizeof *answer);
	*head = (struct cmsghdr){CMSG_LEN(sizeof fds), SOL_SOCKET, SCM_RIGHTS};
	memcpy(CMSG_DATA(head), fds, sizeof fds);
	sent = sendmsg(conn, &msg, MSG_NOSIGNAL) == sizeof answer;
	close(conn);
	return sent ? 0 : ft_errno("sendmsg", "two descriptors");
}

/* Memory is offered that is asked for by a socket of the liar's. */
static int attack_descriptors(struct side *s)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const uint64_t process = (uint64_t) getpid() << 32 | 1;
	int len = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, IPC_SHARE_NAME,
			   process);
	struct pollfd pfd = {.fd = socket(AF_UNIX, SOCK_SEQPACKET, 0), .events = POLLIN};
	struct wire_msg msg;

	FT_CHECK(s->announced.flags & WIRE_OFFERED, "device memory is not offered");
	if (bind(pfd.fd, (struct sockaddr *) &address,
		 (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + (size_t) len)) ||
	    listen(pfd.fd, ASKERS))
		return ft_errno("bind", "where descriptors are asked for");
	for (size_t i = 0; i < ASKERS; i++) {
		msg = hostile_write(s);
		FT_TRY(hostile_stand(&msg));
		msg.offer = (struct ipc_offer){
			.host = s->announced.offer.host,
			.process = process,
			.id = 1,
			.base = LONG,
			.size = LONG,
			.shared = true,
		};
		FT_TRY(hostile_say(s, msg));
		HOSTILE_UNTIL(s, poll(&pfd, 1, 0) == 1);
		FT_TRY(answer_twice(pfd.fd));
		FT_TRY(hostile_give_up(s, msg.id, false));
	}
	close(pfd.fd);
	return 0;
}

/* Reads by the key of a lent message. @read: whether all of it came */
static int read_lent(struct side *s, size_t len, bool *read)
{
	static char bytes[2 * LENT];
	struct ft_req req = {0};
	ssize_t ret;

	while ((ret = fi_read(s->ctx.ep, bytes, len, NULL, s->ctx.peer[VICTIM],
			      s->announced.lent_addr, s->announced.lent_key, &req)) ==
	       -FI_EAGAIN)
		FT_TRY(hostile_hear(s));
	if (ret)
		return ft_fail((int) ret, "fi_read", "a lent message");
	FT_TRY(ft_wait_any_result(&s->ctx, &req, 1));
	*read = !req.err;
	return 0;
}

static int attack_lent_key(struct side *s)
{
	bool read;

	FT_CHECK(s->announced.flags & WIRE_LENT, "no message is lent");
	FT_TRY(read_lent(s, LENT, &read));
	FT_CHECK(read, "what was lent cannot be read");
	FT_TRY(read_lent(s, 2 * LENT, &read));
	FT_CHECK(!read, "the key of a lent message leads to what lies behind it");
	return 0;
}

/* The victim is lent something for memory that the liar may not write to; then what nobody can read. */
static int attack_lent_write(struct side *s)
{
	struct wire_msg msg = hostile_write(s);

	msg.len = LENT;
	msg.flags |= WIRE_LENT;
	msg.lent_key = s->known.key + 1;
	msg.key++;
	FT_TRY(hostile_ask(s, msg));
	msg.id = s->next_id++;
	msg.key--;
	return hostile_say(s, msg);
}

/* The liar guesses ids: those that come after its own. */
static int guess(struct side *s, struct wire_msg msg)
{
	for (uint64_t i = 1; i <= GUESSES; i++) {
		msg.id = s->announced.id + i;
		FT_TRY(hostile_say(s, msg));
	}
	return 0;
}

/* Another's message is said to have arrived. */
static int attack_done(struct side *s)
{
	return guess(s, (struct wire_msg){.type = WIRE_DONE, .to_sender = true});
}

/* The pieces of another's message are asked for. */
static int attack_take(struct side *s)
{
	return guess(s, hostile_take(0, LONG, 0));
}

int hostile_flood(struct side *s, struct wire_msg msg, size_t count)
{
	struct hostile_letter letter = {0};

	sign(s, &msg);
	for (size_t i = 0; i < count; i++, msg.id++) {
		if (hostile_add(&letter, &msg))
			continue;
		FT_TRY(letter_send(s, &letter));
		FT_TRY(hostile_hear(s));
		hostile_add(&letter, &msg);
	}
	return letter_send(s, &letter);
}

static int attack_announcements(struct side *s)
{
	return hostile_flood(s,
			     (struct wire_msg){.type = WIRE_ANNOUNCE,
					       .id = FIRST_ID,
					       .len = LONG,
					       .chunk = CHUNK},
			     FLOOD);
}

/* Writes whose bytes never come */
static int attack_writes(struct side *s)
{
	return hostile_flood(s, hostile_write(s), WRITES);
}

int hostile_recant_writes(struct side *s)
{
	const struct wire_msg abort = {.type = WIRE_DONE,
				       .id = FIRST_ID,
				       .status = -FI_ECANCELED};

	return hostile_flood(s, abort, WRITES);
}

/* Reads whose bytes are asked for, and not taken */
static int attack_reads(struct side *s)
{
	struct wire_msg read = hostile_write(s);

	read.op = FI_ATOMIC_READ;
	read.len = CHUNK;
	read.flags = WIRE_FETCH;
	FT_TRY(hostile_flood(s, read, READS));
	HOSTILE_UNTIL(s, s->supplies == READS);
	return 0;
}

/* Takes them: else the core would keep them for ever */
static int recant_reads(struct side *s)
{
	static uint8_t piece[CHUNK];

	for (size_t i = 0; i < READS; i++) {
		struct ft_req req = {0};
		const struct ft_op op = {
			.call = FT_RECV,
			.tagged = true,
			.iov = {{piece, sizeof piece}},
			.count = 1,
			.addr = FI_ADDR_UNSPEC,
			.tag = s->known.tag_bit | WIRE_TAG_PIECE,
			.ignore = WIRE_TAG_PIECE - 1,
			.req = &req,
		};

		FT_TRY(ft_post(&s->ctx, &op));
		FT_TRY(ft_wait(&s->ctx, &req, 1));
	}
	return 0;
}

/*
 * Whoever is answered by name is made up: an address of this host where nobody listens. Each answer makes
 * the core try to connect.
 */
static int attack_names(struct side *s)
{
	struct ft_name name = s->name;
	struct wire_msg msg = {
		.type = WIRE_HELLO,
		.flags = WIRE_ASKS,
		.id = FIRST_ID,
		.process = 1,
		.grant = GRANT,
		.oldest = WIRE_VERSION_OLDEST,
		.newest = WIRE_VERSION,
		.name = name.bytes,
		.name_len = name.len,
	};

	for (uint16_t port = 1; port <= NAMES; port++) {
		const uint8_t bytes[2] = {(uint8_t) (port >> 8), (uint8_t) port};

		memcpy(name.bytes + 2, bytes, sizeof bytes);
		msg.id++;
		FT_TRY(hostile_say(s, msg));
		FT_TRY(hostile_hear(s));
	}
	return 0;
}

static const struct scene scenes[] = {
	{"own-offer", LONG, 1, false, attack_own_offer, NULL},
	{"descriptors", LONG, 1, false, attack_descriptors, NULL},
	{"lent-key", LENT, BAITS, false, attack_lent_key, NULL},
	{"lent-write", LONG, 1, false, attack_lent_write, NULL},
	{"done", LONG, 1, true, attack_done, NULL},
	{"take", LONG, 1, true, attack_take, NULL},
	{"announcements", LONG, 1, false, attack_announcements, NULL},
	{"writes", LONG, 1, false, attack_writes, hostile_recant_writes},
	{"reads", LONG, 1, false, attack_reads, recant_reads, true},
	{"names", LONG, 1, false, attack_names, NULL},
	{"lanes-said", LONG, 1, .attack = hostile_lanes_said, .lanes = true},
	{"lanes-named", LONG, 1, .attack = hostile_lanes_named, .lanes = true},
	{"lanes-unknown", LONG, 1, .attack = hostile_lanes_unknown, .lanes = true},
	{"lanes-pieces", LONG, 1, .attack = hostile_lanes_pieces, .lanes = true},
	{"lanes-flood", LONG, 1, .attack = hostile_lanes_flood, .recant = hostile_recant_writes,
	 .lanes = true},
	{"lanes-rxm", LONG, 1, .attack = hostile_lanes_flood, .recant = hostile_recant_writes,
	 .lanes = true, .rxm = true},
};

/* ---- the three ---- */

/* tcp ends the connection to who reads what it may not: there is nothing more to say */
static bool disconnects(void)
{
	return scene->attack == attack_lent_key || scene->attack == attack_lent_write;
}

/* A tagged message to or from @peer; @op: which, and its tag */
static int post(struct side *s, struct ft_op op, int peer, const struct ft_buf *buf, size_t off,
		size_t len)
{
	op.tagged = true;
	op.addr = s->ctx.peer[peer];
	ft_op_buf(&op, buf, off, len);
	return ft_post(&s->ctx, &op);
}

static int message(struct side *s, enum ft_call call, int peer, size_t len, uint64_t tag,
		   struct ft_req *req)
{
	return post(s, (struct ft_op){.call = call, .tag = tag, .req = req}, peer, &s->mem, 64,
		    len);
}

/* The liar says to the victim that it has lied all it wanted */
static int done(struct side *s, enum ft_call call, int peer)
{
	return post(s, (struct ft_op){.call = call, .tag = TAG_DONE, .req = &s->done}, peer,
		    &s->host, 0, 1);
}

/* Tells the victim when it has read all that was said: requests are served in order. */
static int liar_done(struct side *s)
{
	const struct wire_msg read = {
		.type = WIRE_CALL,
		.op = FI_ATOMIC_READ,
		.flags = WIRE_FETCH,
		.id = LAST_ID,
		.len = 8,
		.key = s->known.key,
		.addr = s->known.base,
	};

	if (disconnects())
		return 0;
	FT_TRY(hostile_ask(s, read));
	FT_TRY(done(s, FT_SEND, VICTIM));
	return ft_wait(&s->ctx, &s->done, 1);
}

static int liar(struct side *s)
{
	s->next_id = FIRST_ID;
	if (scene->lanes)
		FT_TRY(hostile_lanes_open(s));
	for (size_t i = 0; i < LETTERS; i++)
		FT_TRY(listen_again(s, i));
	FT_TRY(ft_barrier(s->proc, &s->ctx));
	HOSTILE_UNTIL(s, s->announced.id);
	FT_TRY(ft_barrier(s->proc, &s->ctx));
	FT_TRY(scene->attack(s));
	FT_TRY(liar_done(s));
	FT_TRY(ft_barrier(s->proc, &s->ctx));
	FT_TRY(ft_barrier(s->proc, &s->ctx));
	/* who sends pieces knows by now that they have come */
	FT_TRY(hostile_hear(s));
	FT_CHECK(!s->pieces, "%zu pieces of the friend's message", s->pieces);
	if (scene->recant)
		FT_TRY(scene->recant(s));
	/* nobody is to wait for the bait's end; a DONE would be refused where it is staged */
	if (!disconnects())
		FT_TRY(hostile_give_up(s, s->announced.id, true));
	FT_TRY(ft_barrier(s->proc, &s->ctx));
	hostile_lanes_close(s);
	return 0;
}

/* The friend's answer, where the victim's secret was */
static int back(struct side *s)
{
	const struct ft_slot slot = {&s->mem, ROOM, ROOM, ROOM + 64, LONG};
	struct ft_op op = {
		.call = FT_RECV,
		.tagged = true,
		.addr = s->ctx.peer[FRIEND],
		.tag = TAG_GOOD,
		.req = &s->good,
	};

	FT_TRY(ft_slot_arm(&slot));
	ft_op_buf(&op, &s->mem, slot.off, LONG);
	FT_TRY(ft_post(&s->ctx, &op));
	FT_TRY(ft_wait(&s->ctx, &s->good, 1));
	return ft_slot_check(&slot, LONG, KEY_GOOD, "the friend's answer");
}

/* Messages between victim and friend, one after the other: the first of them agree on lanes. */
static int friends(struct side *s)
{
	const struct ft_slot slot = {&s->mem, ROOM, ROOM, ROOM + 64, LONG};
	const bool sends = s->proc->rank == VICTIM;
	const int peer = sends ? FRIEND : VICTIM;

	for (uint64_t i = 0; scene->lanes && i < FRIENDLY; i++) {
		const struct ft_op op = {
			.call = (i % 2 == 0) == sends ? FT_SEND : FT_RECV,
			.tag = TAG_FRIENDS,
			.req = &s->good,
		};

		FT_TRY(op.call == FT_SEND ? ft_slot_fill(&slot, i) : ft_slot_arm(&slot));
		FT_TRY(post(s, op, peer, &s->mem, slot.off, LONG));
		FT_TRY(ft_wait(&s->ctx, &s->good, 1));
		FT_TRY(ft_slot_check(&slot, LONG, i, "a message between friends"));
	}
	return 0;
}

/* The same again: what was agreed holds */
static int friends_after(struct side *s)
{
	uint64_t before, after;

	FT_TRY(ft_lane_pieces(&s->ctx, &before));
	FT_TRY(friends(s));
	FT_TRY(ft_lane_pieces(&s->ctx, &after));
	FT_CHECK(!scene->lanes || after > before, "friends have lost their lanes");
	return 0;
}

static int victim(struct side *s)
{
	const struct ft_slot target = {&s->shared, 0, ROOM, 64, LONG};
	int before;

	FT_TRY(ft_slot_arm(&target));
	if (!disconnects())
		FT_TRY(done(s, FT_RECV, LIAR));
	FT_TRY(friends(s));
	FT_TRY(ft_barrier(s->proc, &s->ctx));
	for (size_t i = 0; i < scene->baits; i++)
		FT_TRY(message(s, FT_SEND, LIAR, scene->bait, TAG_BAIT, &s->bait[i]));
	FT_TRY(ft_barrier(s->proc, &s->ctx));
	if (scene->early)
		FT_TRY(message(s, FT_SEND, FRIEND, LONG, TAG_GOOD, &s->good));
	before = ft_descriptors();
	if (!disconnects())
		FT_TRY(ft_wait(&s->ctx, &s->done, 1));
	/* the core may be about to connect a lane */
	FT_CHECK(scene->lanes || ft_descriptors() == before,
		 "%d descriptors were open, and now %d", before, ft_descriptors());
	FT_TRY(ft_slot_guards(&target, 0, "memory that was not granted was copied"));
	FT_CHECK(!scene->early || !s->good.done, "a message to the friend ended: %s",
		 s->good.err ? fi_strerror(s->good.err) : "success");
	FT_TRY(ft_barrier(s->proc, &s->ctx));
	if (!scene->early)
		FT_TRY(message(s, FT_SEND, FRIEND, LONG, TAG_GOOD, &s->good));
	FT_TRY(ft_wait(&s->ctx, &s->good, 1));
	FT_TRY(back(s));
	FT_TRY(friends_after(s));
	FT_TRY(ft_barrier(s->proc, &s->ctx));
	if (!disconnects())
		FT_TRY(ft_wait_any_result(&s->ctx, s->bait, scene->baits));
	return ft_barrier(s->proc, &s->ctx);
}

static int friend(struct side *s)
{
	const struct ft_slot slot = {&s->mem, 0, ROOM, 64, LONG};

	FT_TRY(ft_slot_arm(&slot));
	FT_TRY(friends(s));
	for (int i = 0; i < 3; i++)
		FT_TRY(ft_barrier(s->proc, &s->ctx));
	FT_TRY(message(s, FT_RECV, VICTIM, LONG, TAG_GOOD, &s->good));
	FT_TRY(ft_wait(&s->ctx, &s->good, 1));
	FT_TRY(ft_slot_check(&slot, LONG, KEY_SECRET, "the friend's message"));
	FT_TRY(ft_slot_fill(&slot, KEY_GOOD));
	FT_TRY(message(s, FT_SEND, VICTIM, LONG, TAG_GOOD, &s->good));
	FT_TRY(ft_wait(&s->ctx, &s->good, 1));
	FT_TRY(friends_after(s));
	for (int i = 0; i < 2; i++)
		FT_TRY(ft_barrier(s->proc, &s->ctx));
	return 0;
}

/* What this rank runs, before libfabric looks */
static int become(struct ft_proc *proc)
{
	static char prov[256];
	char *ours;

	snprintf(prov, sizeof prov, "%s", proc->opts.prov ? proc->opts.prov : "");
	ours = strstr(prov, ";ofi_p2p");
	if (!ours || proc->opts.iface == FI_HMEM_SYSTEM)
		return ft_skip("for device memory below ofi_p2p");
	/* within a host announcements are notes on boards */
	if (!strncmp(prov, "shm", 3))
		return ft_skip("whoever is a peer over shm has its memory");
	if (scene->attack == attack_lent_key && !strstr(prov, "ofi_rxm"))
		return ft_skip("no message is lent but over ofi_rxm");
	/* else it is offered to a peer on this host */
	if (scene->attack == attack_lent_key)
		setenv("FI_P2P_PATH", "stage", 1);
	if (scene->deaf && !strstr(prov, "ofi_rxm"))
		return ft_skip("other cores read nothing behind what is not taken");
	if (scene->lanes)
		FT_TRY(hostile_lanes_prepare(prov, scene->rxm));
	if (proc->rank != LIAR)
		return 0;
	unsetenv("FI_HOOK");
	*ours = '\0';
	proc->opts.prov = prov;
	proc->opts.no_hmem = true;
	proc->opts.iface = proc->opts.init_iface = FI_HMEM_SYSTEM;
	return 0;
}

/* What any peer gets to know of the victim */
static int introduce(struct side *s)
{
	const int fd = s->proc->fd[s->proc->rank == VICTIM ? LIAR : VICTIM];

	if (s->proc->rank == LIAR)
		return ft_oob_recv(fd, &s->known, sizeof s->known, s->proc->opts.timeout);
	if (s->proc->rank == FRIEND)
		return 0;
	s->known = (struct known){
		.name = s->name,
		.tag_bit = info_tag_bit(s->ctx.info->ep_attr->mem_tag_format),
		.key = s->shared.key,
		.base = s->shared.base + 64,
	};
	return ft_oob_send(fd, &s->known, sizeof s->known);
}

/* The victim has two messages' worth: what it sends, and behind that what nobody is granted. */
static int open_side(struct side *s, struct ft_proc *proc)
{
	const enum fi_hmem_iface iface = proc->opts.iface;
	const struct ft_slot slot = {&s->mem, 0, ROOM, 64, LONG};
	const struct ft_slot secret = {&s->mem, ROOM, ROOM, ROOM, LONG};

	s->proc = proc;
	FT_TRY(ft_test_hints(proc, &s->ctx));
	s->ctx.hints->caps |= FI_RMA;
	/* it hears the victim's side endpoint, which is not inserted: net crashes there, QUIRK_DIRECTED */
	if (proc->rank == LIAR)
		s->ctx.hints->caps &= ~FI_DIRECTED_RECV;
	FT_TRY(ft_test_open(proc, &s->ctx));
	FT_TRY(ft_test_connect(proc, &s->ctx));
	FT_TRY(ft_getname(&s->ctx, &s->name));
	FT_TRY(ft_buf_alloc(&s->ctx, &s->host, FI_HMEM_SYSTEM, 64));
	FT_TRY(ft_buf_alloc(&s->ctx, &s->mem, iface, 2 * ROOM));
	FT_TRY(ft_buf_alloc(&s->ctx, &s->shared, iface, ROOM));
	FT_TRY(ft_slot_fill(&slot, KEY_SECRET));
	FT_TRY(ft_slot_fill(&secret, KEY_SECRET));
	if (proc->rank == VICTIM)
		FT_TRY(ft_buf_share(&s->ctx, &s->shared, FI_REMOTE_READ | FI_REMOTE_WRITE));
	return introduce(s);
}

static int run(struct ft_proc *proc)
{
	static int (*const roles[RANKS])(struct side * s) = {victim, friend, liar};
	static struct side s; /* the provider may hold requests until the very end */
	int ret = become(proc);

	if (ret)
		return ret;
	FT_TRY(open_side(&s, proc));
	FT_TRY(roles[proc->rank](&s));
	ft_buf_free(&s.shared);
	ft_buf_free(&s.mem);
	ft_buf_free(&s.host);
	return ft_close(&s.ctx);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "A peer that lies reaches and ends nothing that is not its own.",
		.scope = FT_SCOPE_TEST | FT_SCOPE_FAULTS,
		.ranks = RANKS,
		.may_die = -1,
		.run = run,
	};
	struct ft_opts opts;
	size_t passed = 0;
	int ret, result = EXIT_SUCCESS;

	setvbuf(stdout, NULL, _IOLBF, 0);
	ft_options_parse(&opts, test.scope, test.purpose, argc, argv);
	for (size_t i = 0; i < FT_COUNT(scenes); i++) {
		scene = &scenes[i];
		if (opts.ops && !strstr(opts.ops, scene->name))
			continue;
		printf("%s\n", scene->name);
		ret = ft_test_round(&test, &opts);
		passed += ret == EXIT_SUCCESS;
		if (ret == EXIT_SUCCESS || ret == FT_SKIP)
			continue;
		printf("FAILED: --ops %s\n", scene->name);
		result = EXIT_FAILURE;
	}
	return result == EXIT_SUCCESS && !passed ? FT_SKIP : result;
}
