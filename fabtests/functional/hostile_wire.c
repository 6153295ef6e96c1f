/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Control messages of two versions. See hostile_wire.h. */
#include "hostile_wire.h"

#include <string.h>

#include "ft_test.h"
#include "mem/board.h"
#include "xfer/wire_old.h"
#include "xfer/xfer.h"

/* As all that this project runs on is little-endian, the parts of version 7 are written as they are. */
struct old_target {
	uint64_t key;
	uint64_t addr;
	uint64_t operation;
};

struct old_offer {
	uint64_t host;
	uint64_t process;
	uint64_t id;
	uint64_t base;
	uint64_t size;
	uint64_t offset;
	uint32_t device;
	uint32_t shared;
	uint8_t handle[DEV_IPC_HANDLE];
};

static bool old_named(enum wire_type type)
{
	return type == WIRE_ANNOUNCE || type == WIRE_WRITE || type == WIRE_READ ||
	       type == WIRE_SUPPLY;
}

static size_t put(struct hostile_letter *letter, size_t at, const void *part, size_t len)
{
	if (at + len <= sizeof letter->bytes)
		memcpy(letter->bytes + at, part, len);
	return at + len;
}

static struct old_offer old_offer_of(const struct ipc_offer *from)
{
	struct old_offer offer = {
		.host = from->host,
		.process = from->process,
		.id = from->id,
		.base = from->base,
		.size = from->size,
		.offset = from->offset,
		.device = from->device,
		.shared = from->shared,
	};

	memcpy(offer.handle, from->handle, sizeof offer.handle);
	return offer;
}

/* Where the letter ends with @msg behind it */
static size_t old_add(struct hostile_letter *letter, const struct wire_msg *msg)
{
	const bool aside = msg->type == WIRE_CTS && msg->flags & HOSTILE_ASIDE;
	const size_t name_len = old_named(msg->type) || aside ? msg->name_len : 0;
	const struct old_target target = {.key = msg->key, .addr = msg->addr};
	const struct old_offer offer = old_offer_of(&msg->offer);
	struct wire_old_head head = {
		.magic = WIRE_MAGIC,
		.version = 7,
		.type = msg->type,
		.to_sender = msg->to_sender,
		.id = msg->id,
		.len = msg->len,
		.flags = msg->flags,
		.transfer = msg->transfer,
		.chunk = msg->chunk,
		.count = msg->count,
		.status = (uint32_t) msg->status,
		.name_len = (uint16_t) name_len,
	};
	size_t at = letter->len + sizeof head;

	if (old_named(msg->type))
		at = put(letter, at, &target, sizeof target);
	if (old_named(msg->type) && msg->flags & WIRE_OFFERED)
		at = put(letter, at, &offer, sizeof offer);
	at = put(letter, at, msg->name, name_len);
	head.size = (uint16_t) (at - letter->len);
	put(letter, letter->len, &head, sizeof head);
	return at;
}

bool hostile_add(struct hostile_letter *letter, int version, const struct wire_msg *msg)
{
	size_t end;

	if (version == 7) {
		end = old_add(letter, msg);
	} else {
		end = letter->len + wire_size(msg);
		if (end <= sizeof letter->bytes)
			wire_encode(msg, letter->bytes + letter->len);
	}
	if (end > sizeof letter->bytes)
		return false;
	letter->len = end;
	return true;
}

int hostile_version(const void *buf, size_t len)
{
	struct wire_old_head head;

	if (len < sizeof head)
		return 0;
	memcpy(&head, buf, sizeof head);
	return head.magic == WIRE_MAGIC ? head.version : 0;
}

static bool old_read(const char *buf, size_t len, struct wire_msg *msg)
{
	struct wire_old_head head;
	struct old_target target = {.key = 0};
	struct old_offer offer = {.host = 0};
	size_t at = sizeof head;

	memcpy(&head, buf, sizeof head);
	if (head.size < sizeof head || head.size > len)
		return false;
	if (old_named(head.type) && at + sizeof target <= head.size) {
		memcpy(&target, buf + at, sizeof target);
		at += sizeof target;
	}
	if (old_named(head.type) && head.flags & WIRE_OFFERED && at + sizeof offer <= head.size)
		memcpy(&offer, buf + at, sizeof offer);
	*msg = (struct wire_msg){
		.type = head.type,
		.id = head.id,
		.len = head.len,
		.flags = head.flags,
		.chunk = head.chunk,
		.status = head.status,
		.key = target.key,
		.addr = target.addr,
		.offer = {offer.host,
			  offer.process,
			  offer.id,
			  offer.base,
			  offer.size,
			  offer.offset,
			  offer.device,
			  offer.shared != 0,
			  {0}},
		.size = head.size,
	};
	memcpy(msg->offer.handle, offer.handle, sizeof offer.handle);
	return true;
}

bool hostile_read(const void *buf, size_t len, int version, struct wire_msg *msg)
{
	const char *why;

	if (hostile_version(buf, len) != version)
		return false;
	return version == 7 ? old_read(buf, len, msg) : !wire_decode(buf, len, msg, &why);
}

int hostile_stand(struct wire_msg *msg)
{
	static struct board board;
	const uint64_t id = msg->id | WIRE_MARK;
	const uint64_t place = board_open(&board, xfer_board_owner(msg->id));

	FT_CHECK(place && board_note(&board, id), "the liar has no board");
	board_show(&board, id, 1);
	msg->flags |= WIRE_OFFERED | WIRE_STANDS;
	msg->transfer = (uint32_t) (place >> 32);
	msg->count = (uint32_t) place;
	return 0;
}
