/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the core carries, in words. See core.h. */
#include "core.h"

#include "xfer/wire.h"

static const char *send_word(const struct core_send *send, char *text, size_t room)
{
	struct wire_msg msg;
	const char *why;

	if (send->kind != SEND_MSG)
		snprintf(text, room, "%s of %zu", send->kind == SEND_READ ? "read" : "write",
			 send->len);
	else if (core_is_internal(send) && send->tag & WIRE_TAG_PIECE)
		snprintf(text, room, "piece of %zu", send->len);
	else if (core_is_internal(send) && send->bytes &&
		 !wire_decode(send->bytes, send->len, &msg, &why))
		snprintf(text, room, "%s %llx flags %x", wire_type_name(msg.type),
			 (unsigned long long) (msg.id & 0xffffff), msg.flags);
	else if (send->has_data && send->data & WIRE_MARK)
		snprintf(text, room, "marker %llx",
			 (unsigned long long) (send->data & 0xffffff));
	else
		snprintf(text, room, "message of %zu tag %llx", send->len,
			 (unsigned long long) send->tag);
	return text;
}

void core_send_tell(const struct core_send *send, const char *what)
{
	char text[80];

	world_tell("n%u:%u --%s--> n%u:%u %s", send->conn->src->name.node,
		   send->conn->src->name.port, what, send->conn->to.node, send->conn->to.port,
		   send_word(send, text, sizeof text));
}
