/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* fi_p2p_hostile: what a liar says of lanes, and sends by them. See hostile.h. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include "base/libfabric.h"
#include "hostile.h"

/* What the victim has */
#define LANES 3

#define FORGED 16 /* pieces */

/* The first message of lane 0 in the first turn */
#define FIRST_TURN ((uint64_t) LANES_MAX)

/* The number of lanes in a TAKE */
#define IN_TAKE(count) ((uint32_t) (count) << WIRE_TAKE_LANES_SHIFT)

int hostile_lanes_prepare(const char *prov, bool rxm)
{
	/* later releases have what FI_PROVIDER leaves out here in tcp itself */
	if (rxm && (strcmp(prov, "tcp;ofi_rxm;ofi_p2p") ||
		    FI_VERSION_GE(fi_version(), FI_VERSION(1, 18))))
		return ft_skip("lanes are not made of ofi_rxm here");
	if (rxm)
		setenv("FI_PROVIDER", "tcp;ofi_rxm", 1);
	setenv("FI_P2P_LANES", "3", 1);
	setenv("FI_P2P_PATH", "stage", 1);
	return 0;
}

int hostile_lanes_open(struct side *s)
{
	struct liar_lanes *lanes = &s->lanes;
	struct fi_info *info;
	int ret = libfabric_bind();

	if (ret)
		return ft_fail(ret, "libfabric_bind", "the liar's lane");
	info = lane_core_info(s->ctx.info, s->name.bytes, s->name.len);
	FT_CHECK(info, "nothing to make lanes of");
	lanes->kind = lane_core_kind(info);
	ret = lane_core_open(&lanes->core, info, &lanes->ep);
	fi_freeinfo(info);
	lanes->len = sizeof lanes->name;
	if (!ret)
		ret = fi_getname(&lanes->ep->fid, lanes->name, &lanes->len);
	return ret ? ft_fail(ret, "lane_core_open", "the liar's lane") : 0;
}

void hostile_lanes_close(struct side *s)
{
	lane_core_close(&s->lanes.core, s->lanes.ep);
}

int hostile_lanes_heard(struct side *s, const struct wire_msg *msg)
{
	struct liar_lanes *lanes = &s->lanes;
	int ret;

	if (msg->flags & WIRE_ANSWERS) {
		lanes->answers++;
		lanes->answered = msg->count;
		return 0;
	}
	FT_CHECK(msg->len == lanes->kind, "the victim has lanes of another kind");
	lanes->number = msg->transfer;
	lanes->count = msg->count;
	ret = fi_av_insert(lanes->core.av, msg->payload, msg->count, lanes->to, 0, NULL);
	FT_CHECK(ret == (int) msg->count, "%d of %u lanes could be named", ret, msg->count);
	return 0;
}

/* ---- what is said ---- */

static int answer(struct side *s, uint32_t count, uint32_t flags)
{
	return hostile_say(s, (struct wire_msg){.type = WIRE_LANES,
						.flags = WIRE_ANSWERS | flags,
						.count = count});
}

/* Offers @count lanes, whose names are @len bytes long */
static int offer(struct side *s, uint64_t kind, uint32_t count, const void *names, size_t len)
{
	return hostile_say(s, (struct wire_msg){.type = WIRE_LANES,
						.flags = WIRE_ASKS,
						.len = kind,
						.transfer = 1,
						.count = count,
						.payload = names,
						.payload_len = len});
}

/* As many names as there may be, of ports from @port on */
static size_t name_ports(const struct side *s, uint16_t port,
			 uint8_t names[LANES_MAX * WIRE_NAME_MAX])
{
	for (uint16_t i = 0; i < LANES_MAX; i++) {
		const uint16_t bytes = htons((uint16_t) (port + i));

		memcpy(names + i * s->lanes.len, s->lanes.name, s->lanes.len);
		memcpy(names + i * s->lanes.len + offsetof(struct sockaddr_in, sin_port),
		       &bytes, sizeof bytes);
	}
	return s->lanes.len;
}

/* A long write, given up. @by: over how many lanes the victim wants its pieces */
static int lanes_asked(struct side *s, uint32_t *by)
{
	FT_TRY(hostile_ask(s, hostile_write(s)));
	FT_CHECK(s->answer.type == WIRE_TAKE, "a write is refused");
	*by = (s->answer.flags & WIRE_TAKE_LANES) >> WIRE_TAKE_LANES_SHIFT;
	return 0;
}

/* The victim uses none of its lanes: nothing has come by them */
static int lanes_unused(struct side *s)
{
	uint32_t by;

	FT_TRY(lanes_asked(s, &by));
	FT_CHECK(!by, "pieces are wanted over %u lanes by which nothing has come", by);
	return 0;
}

/* Sends @len bytes by a lane of the victim's */
static int by_lane(struct side *s, unsigned int lane, uint32_t number, uint64_t piece,
		   size_t len)
{
	static const uint8_t bytes[CHUNK];
	struct lane_core *core = &s->lanes.core;
	struct fi_cq_tagged_entry entry;
	struct fi_context2 context;
	ssize_t ret;

	do {
		FT_TRY(hostile_hear(s));
		fi_cq_read(core->cq, NULL, 0);
		ret = fi_tsend(s->lanes.ep, bytes, len, NULL, s->lanes.to[lane],
			       s->known.tag_bit | WIRE_TAG_PIECE |
				       (uint64_t) number << WIRE_TAG_TRANSFER_SHIFT | piece,
			       &context);
	} while (ret == -FI_EAGAIN);
	while (!ret && (ret = fi_cq_read(core->cq, &entry, 1)) == -FI_EAGAIN) {
		FT_TRY(hostile_hear(s));
		ret = 0;
	}
	return ret < 0 ? ft_fail((int) ret, "fi_tsend", "by a lane") : 0;
}

/* ---- attacks ---- */

int hostile_lanes_said(struct side *s)
{
	/* of what nobody has asked */
	FT_TRY(answer(s, UINT32_MAX, 0));
	FT_TRY(lanes_unused(s));
	HOSTILE_UNTIL(s, s->lanes.count);
	FT_TRY(answer(s, UINT32_MAX, 0));
	FT_TRY(answer(s, LANES, WIRE_ASKS));
	FT_TRY(offer(s, s->lanes.kind, 0, NULL, 0));
	FT_TRY(offer(s, s->lanes.kind, UINT32_MAX, s->lanes.name, s->lanes.len));
	FT_TRY(offer(s, s->lanes.kind, 3, s->lanes.name, s->lanes.len));
	FT_TRY(lanes_unused(s));
	/* what comes first by a lane is another one's */
	FT_TRY(by_lane(s, 0, s->lanes.number, 1, 0));
	FT_TRY(by_lane(s, 1, s->lanes.number + 1, 1, 0));
	FT_TRY(lanes_unused(s));
	FT_TRY(answer(s, 0, 0));
	FT_TRY(answer(s, LANES, 0));
	return lanes_unused(s);
}

int hostile_lanes_named(struct side *s)
{
	uint8_t names[LANES_MAX * WIRE_NAME_MAX], other[WIRE_NAME_MAX];
	const in_addr_t far = htonl(0xcb007101); /* of no host: RFC 5737 */
	const uint16_t family = AF_INET6;
	size_t len = name_ports(s, 0, names);

	/* none of these is taken, and each is answered so */
	FT_TRY(offer(s, s->lanes.kind + 1, LANES_MAX, names, LANES_MAX * len));
	memcpy(other, names, len);
	memcpy(other + offsetof(struct sockaddr_in, sin_addr), &far, sizeof far);
	FT_TRY(offer(s, s->lanes.kind, 1, other, len));
	memcpy(other, names, len);
	memcpy(other, &family, sizeof family);
	FT_TRY(offer(s, s->lanes.kind, 1, other, len));
	FT_TRY(offer(s, s->lanes.kind, LANES_MAX, names, LANES_MAX));
	FT_TRY(offer(s, s->lanes.kind, LANES_MAX, names, LANES_MAX * (len - 1)));
	HOSTILE_UNTIL(s, s->lanes.answers == 5);
	FT_CHECK(!s->lanes.answered, "%u lanes of nobody are used", s->lanes.answered);
	/* nobody is there, which is not taken at once; then those that are one */
	name_ports(s, 1, names);
	for (unsigned int said = 5; !s->lanes.answered; said++) {
		FT_TRY(offer(s, s->lanes.kind, LANES_MAX, names, LANES_MAX * len));
		HOSTILE_UNTIL(s, s->lanes.answers > said);
	}
	FT_CHECK(s->lanes.answered == LANES, "%u lanes are used", s->lanes.answered);
	for (size_t i = 0; i < LANES_MAX; i++)
		memcpy(names + i * len, s->lanes.name, len);
	FT_TRY(offer(s, s->lanes.kind, LANES_MAX, names, LANES_MAX * len));
	return hostile_say(s, hostile_take(s->announced.id, LONG, IN_TAKE(LANES)));
}

int hostile_lanes_unknown(struct side *s)
{
	s->asked = s->announced.id;
	FT_TRY(hostile_say(s, hostile_take(s->asked, LONG, IN_TAKE(LANES))));
	HOSTILE_UNTIL(s, !s->asked && s->lanes.answers);
	FT_CHECK(s->answer.type == WIRE_DONE && s->answer.status,
		 "a message goes over lanes that nobody knows");
	FT_CHECK(!s->lanes.answered, "%u lanes of nobody are used", s->lanes.answered);
	return 0;
}

/* Says what makes the victim use its lanes with the liar */
static int lanes_agree(struct side *s)
{
	uint32_t by;

	FT_TRY(lanes_asked(s, &by));
	HOSTILE_UNTIL(s, s->lanes.count);
	for (unsigned int i = 0; i < s->lanes.count; i++)
		FT_TRY(by_lane(s, i, s->lanes.number, FIRST_TURN + i, 0));
	while (by != s->lanes.count)
		FT_TRY(lanes_asked(s, &by));
	return 0;
}

/* A write whose first piece comes by lane @off from its own, and has @len bytes. */
static int lanes_write(struct side *s, unsigned int off, size_t len)
{
	const struct wire_msg msg = hostile_write(s);
	uint32_t number;

	s->asked = msg.id;
	FT_TRY(hostile_say(s, msg));
	HOSTILE_UNTIL(s, !s->asked);
	FT_CHECK(s->answer.flags & WIRE_TAKE_LANES, "lanes are not used");
	number = s->answer.transfer;
	s->asked = off ? 0 : msg.id;
	FT_TRY(by_lane(s, (number + off) % LANES, number, 0, len));
	HOSTILE_UNTIL(s, !s->asked);
	FT_CHECK(off || s->answer.status, "a piece of %zu bytes is taken", len);
	return hostile_give_up(s, msg.id, false);
}

int hostile_lanes_pieces(struct side *s)
{
	FT_TRY(lanes_agree(s));
	FT_TRY(lanes_write(s, 0, 1));
	FT_TRY(lanes_write(s, 0, 0));
	FT_TRY(lanes_write(s, 1, CHUNK));
	/* the next message's, if numbers can be guessed: the friend's */
	for (uint32_t i = 1; i <= FORGED; i++)
		FT_TRY(by_lane(s, (s->answer.transfer + i) % LANES, s->answer.transfer + i, 0,
			       1));
	return 0;
}

/* Writes by lanes whose bytes never come */
int hostile_lanes_flood(struct side *s)
{
	struct wire_msg msg;

	FT_TRY(lanes_agree(s));
	msg = hostile_write(s);
	msg.id = s->next_id;
	return hostile_flood(s, msg, WRITES / 8);
}
