/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Control messages of version 7. See wire_old.h. */
#include "xfer/wire_old.h"

#include <endian.h>
#include <string.h>
#include <rdma/fi_errno.h>

#define WIRE_OLD_VERSION 7

/* After the head comes the target memory, then an offer if this flag says so, then the name */
#define WIRE_OLD_OFFERED (1u << 5)
#define WIRE_OLD_TARGET 24
#define WIRE_OLD_OFFER 120

_Static_assert(sizeof(struct wire_old_head) == WIRE_OLD_MAX, "the wire format is what it was");

/* What ends a request of this type; 0: it asks for nothing */
static enum wire_type wire_old_answer(uint8_t type)
{
	switch (type) {
	case WIRE_ANNOUNCE:
		return WIRE_ABORT;
	case WIRE_WRITE:
		return WIRE_FIN;
	case WIRE_READ:
	case WIRE_ATOMIC:
		return WIRE_RESULT;
	default:
		return 0;
	}
}

bool wire_old_decode(const void *buf, size_t len, struct wire_msg *msg)
{
	struct wire_old_head head;
	size_t at = sizeof head + WIRE_OLD_TARGET, name_len;

	if (len < sizeof head)
		return false;
	memcpy(&head, buf, sizeof head);
	if (le32toh(head.magic) != WIRE_MAGIC || head.version != WIRE_OLD_VERSION)
		return false;
	*msg = (struct wire_msg){.type = head.type, .id = le64toh(head.id) & WIRE_ID_MASK};
	if (le16toh(head.size) >= sizeof head && le16toh(head.size) <= len)
		msg->size = le16toh(head.size);
	if (le32toh(head.flags) & WIRE_OLD_OFFERED)
		at += WIRE_OLD_OFFER;
	name_len = le16toh(head.name_len);
	if (wire_old_answer(head.type) && name_len <= WIRE_NAME_MAX &&
	    at + name_len <= msg->size) {
		msg->name = (const char *) buf + at;
		msg->name_len = name_len;
	}
	return true;
}

size_t wire_old_refuse(const struct wire_msg *msg, void *buf)
{
	const struct wire_old_head head = {
		.magic = htole32(WIRE_MAGIC),
		.version = WIRE_OLD_VERSION,
		.type = wire_old_answer(msg->type),
		.to_sender = true,
		.id = htole64(msg->id),
		.status = htole32((uint32_t) -FI_EOPNOTSUPP),
		.size = htole16(sizeof head),
	};

	memcpy(buf, &head, sizeof head);
	return sizeof head;
}
