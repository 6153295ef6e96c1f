/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Rank 4: encoding and checking of control messages. See wire.h. */
#include "wire.h"

#include <endian.h>
#include <string.h>
#include <rdma/fi_errno.h>

#define WIRE_MAGIC 0x66503270u	/* "p2Pf" */

/* The head of every control message, then the union of what the types carry */
struct wire_packet {
	uint32_t magic;
	uint8_t version;
	uint8_t type;
	uint8_t to_sender;
	uint8_t zero;
	uint64_t id;
	uint64_t len;
	uint64_t data;
	uint32_t flags;
	uint32_t transfer;
	uint32_t chunk;
	uint32_t count;
	uint32_t status;
	uint32_t name_len;
	uint8_t name[WIRE_NAME_MAX];
};

#define WIRE_HEAD_LEN offsetof(struct wire_packet, name)

_Static_assert(WIRE_HEAD_LEN == 56, "the wire format is the same everywhere");
_Static_assert(sizeof(struct wire_packet) <= WIRE_MSG_MAX, "a message fits its buffer");

size_t wire_encode(const struct wire_msg *msg, void *buf)
{
	size_t name_len = msg->type == WIRE_ANNOUNCE ? msg->name_len : 0;
	struct wire_packet head = {
		.magic = htole32(WIRE_MAGIC),
		.version = WIRE_VERSION,
		.type = msg->type,
		.to_sender = msg->to_sender,
		.id = htole64(msg->id),
		.len = htole64(msg->len),
		.data = htole64(msg->data),
		.flags = htole32(msg->flags),
		.transfer = htole32(msg->transfer),
		.chunk = htole32(msg->chunk),
		.count = htole32(msg->count),
		.status = htole32((uint32_t) msg->status),
		.name_len = htole32((uint32_t) name_len),
	};

	memcpy(buf, &head, WIRE_HEAD_LEN);
	memcpy((char *) buf + WIRE_HEAD_LEN, msg->name, name_len);
	return WIRE_HEAD_LEN + name_len;
}

/* Negative, and a number that can be negated */
static bool wire_status_ok(int32_t status)
{
	return status < 0 && status > INT32_MIN;
}

static const char *wire_check(const struct wire_msg *msg)
{
	if (msg->id & ~WIRE_ID_MASK)
		return "the transaction's id is out of range";
	switch (msg->type) {
	case WIRE_ANNOUNCE:
		if (!msg->name_len)
			return "an announcement without the sender's name";
		if (msg->len <= WIRE_PLAIN_MAX)
			return "an announcement of a short message";
		if (msg->data & ~WIRE_USER_DATA_MASK)
			return "remote cq data is out of range";
		if (!msg->chunk)
			return "an announcement of pieces without a size";
		if ((msg->len - 1) / msg->chunk >= WIRE_PIECES_MAX)
			return "an announcement of too many pieces";
		return NULL;
	case WIRE_CTS:
		if (msg->flags & ~WIRE_PLAIN)
			return "a request with unknown flags";
		if (msg->flags && msg->len)
			return "a request for a plain message that asks for pieces";
		if (msg->len && (!msg->chunk || !msg->count))
			return "a request for data that gives no room for it";
		if (msg->len && (msg->len - 1) / msg->chunk >= WIRE_PIECES_MAX)
			return "a request for too many pieces";
		return NULL;
	case WIRE_CREDIT:
		return msg->count ? NULL : "a credit of nothing";
	case WIRE_PROBE:
		return NULL;
	case WIRE_FIN:
		return wire_status_ok(msg->status) || !msg->status
			       ? NULL
			       : "a status that is no error number";
	case WIRE_ABORT:
		return wire_status_ok(msg->status) ? NULL : "an abort without an error";
	default:
		return "an unknown type";
	}
}

int wire_decode(const void *buf, size_t len, struct wire_msg *msg, const char **why)
{
	struct wire_packet head;

	if (len < WIRE_HEAD_LEN) {
		*why = "too short";
		return -FI_EINVAL;
	}
	memcpy(&head, buf, WIRE_HEAD_LEN);
	if (le32toh(head.magic) != WIRE_MAGIC) {
		*why = "not a control message";
		return -FI_EINVAL;
	}
	if (head.version != WIRE_VERSION) {
		*why = "the peer speaks another version of the protocol: install the same "
		       "release on both ends";
		return -FI_EINVAL;
	}
	*msg = (struct wire_msg){
		.type = head.type,
		.to_sender = head.to_sender,
		.id = le64toh(head.id),
		.len = le64toh(head.len),
		.data = le64toh(head.data),
		.flags = le32toh(head.flags),
		.transfer = le32toh(head.transfer),
		.chunk = le32toh(head.chunk),
		.count = le32toh(head.count),
		.status = (int32_t) le32toh(head.status),
		.name_len = le32toh(head.name_len),
	};
	if (msg->name_len > WIRE_NAME_MAX || len != WIRE_HEAD_LEN + msg->name_len) {
		*why = "its length does not fit its content";
		return -FI_EINVAL;
	}
	memcpy(msg->name, (const char *) buf + WIRE_HEAD_LEN, msg->name_len);
	*why = wire_check(msg);
	return *why ? -FI_EINVAL : 0;
}
