/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Encoding and checking of control messages. See wire.h. */
#include "xfer/wire.h"

#include <endian.h>
#include <netinet/in.h>
#include <string.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>

#include "base/base.h"

/* The head of every control message: the union of what the types carry */
struct wire_head {
	uint32_t magic;
	uint8_t version;
	uint8_t type;
	uint8_t to_sender;
	uint8_t front;
	uint64_t token;
	uint64_t id;
	uint64_t len;
	uint64_t data;
	uint32_t flags;
	uint32_t transfer;
	uint32_t chunk;
	uint32_t count;
	uint32_t status;
	uint16_t name_len;
	uint16_t size;
};

/* Follows it where a message is about memory that peers reach */
struct wire_target {
	uint64_t key;
	uint64_t addr;
	uint8_t op;
	uint8_t datatype;
	uint8_t zero[6];
};

/* Follows the head in a HELLO */
struct wire_greeting {
	uint64_t grant;
	uint64_t process;
	uint64_t host;
	uint64_t board;
};

/* Comes next if WIRE_LENT or WIRE_WORD */
struct wire_loan {
	uint64_t key;
	uint64_t addr;
};

/* Comes next if WIRE_OFFERED: struct ipc_offer. Then the name, then the payload */
struct wire_offer {
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

_Static_assert(sizeof(struct wire_head) == 64, "the wire format is the same everywhere");
_Static_assert(sizeof(struct wire_greeting) == 32, "the wire format is the same everywhere");
_Static_assert(sizeof(struct wire_head) + sizeof(struct wire_greeting) +
			       2 * sizeof(struct sockaddr_in) <=
		       WIRE_ASK_MAX,
	       "the core sets a greeting aside that has no receive");
_Static_assert(sizeof(struct wire_target) == 24, "the wire format is the same everywhere");
_Static_assert(sizeof(struct wire_loan) == 16, "the wire format is the same everywhere");
_Static_assert(sizeof(struct wire_offer) == 120, "the wire format is the same everywhere");
_Static_assert(sizeof(struct wire_head) + sizeof(struct wire_target) +
				       sizeof(struct wire_loan) + sizeof(struct wire_offer) <=
			       WIRE_PLAIN_MSG_MAX &&
		       sizeof(struct wire_head) + sizeof(struct wire_greeting) +
				       WIRE_NAME_MAX <=
			       WIRE_PLAIN_MSG_MAX,
	       "a message fits its buffer");

/* What the types have besides the head */
enum {
	WIRE_NAMED = 1 << 0,
	WIRE_TARGETED = 1 << 1,
	WIRE_LOADED = 1 << 2,
	WIRE_OFFERING = 1 << 3, /* a loan, or an offer, as flags say */
	WIRE_GREETING = 1 << 4,
};

static const uint8_t wire_parts[WIRE_TYPES] = {
	[WIRE_ANNOUNCE] = WIRE_TARGETED | WIRE_OFFERING,
	[WIRE_CALL] = WIRE_TARGETED | WIRE_LOADED | WIRE_OFFERING,
	[WIRE_DONE] = WIRE_LOADED,
	[WIRE_HELLO] = WIRE_NAMED | WIRE_GREETING | WIRE_LOADED,
	[WIRE_LANES] = WIRE_LOADED,
};

/* A refusal of version 7 has none: its types are others */
static uint8_t wire_parts_of(const struct wire_msg *msg)
{
	return msg->old ? 0 : wire_parts[msg->type];
}

/* Tells whether a message of such parts has an offer. */
static bool wire_offers(uint8_t parts, const struct wire_msg *msg)
{
	return parts & WIRE_OFFERING && msg->flags & WIRE_OFFERED;
}

/* Tells whether a message of such parts tells where memory may be read. */
static bool wire_lends(uint8_t parts, const struct wire_msg *msg)
{
	return parts & WIRE_OFFERING && msg->flags & (WIRE_LENT | WIRE_WORD);
}

static size_t wire_encode_loan(const struct wire_msg *msg, void *at)
{
	const struct wire_loan loan = {
		.key = htole64(msg->lent_key),
		.addr = htole64(msg->lent_addr),
	};

	memcpy(at, &loan, sizeof loan);
	return sizeof loan;
}

static size_t wire_decode_loan(const void *at, struct wire_msg *msg)
{
	struct wire_loan loan;

	memcpy(&loan, at, sizeof loan);
	msg->lent_key = le64toh(loan.key);
	msg->lent_addr = le64toh(loan.addr);
	return sizeof loan;
}

static size_t wire_encode_offer(const struct ipc_offer *from, void *at)
{
	struct wire_offer offer = {
		.host = htole64(from->host),
		.process = htole64(from->process),
		.id = htole64(from->id),
		.base = htole64(from->base),
		.size = htole64(from->size),
		.offset = htole64(from->offset),
		.device = htole32(from->device),
		.shared = htole32(from->shared),
	};

	memcpy(offer.handle, from->handle, sizeof offer.handle);
	memcpy(at, &offer, sizeof offer);
	return sizeof offer;
}

static size_t wire_decode_offer(const void *at, struct ipc_offer *to)
{
	struct wire_offer offer;

	memcpy(&offer, at, sizeof offer);
	*to = (struct ipc_offer){
		.host = le64toh(offer.host),
		.process = le64toh(offer.process),
		.id = le64toh(offer.id),
		.base = le64toh(offer.base),
		.size = le64toh(offer.size),
		.offset = le64toh(offer.offset),
		.device = le32toh(offer.device),
		.shared = offer.shared != 0,
	};
	memcpy(to->handle, offer.handle, sizeof to->handle);
	return sizeof offer;
}

/* What comes before the token in a head */
#define WIRE_HEAD_BEFORE offsetof(struct wire_head, token)

/* Returns by how much the head of an older version is shorter: version 7 has no token in it */
static size_t wire_head_lacks(unsigned int version)
{
	return version == WIRE_VERSION_OLD ? sizeof((struct wire_head *) 0)->token : 0;
}

/* Returns the length of all that comes before name and payload */
static size_t wire_fixed_size(const struct wire_msg *msg)
{
	uint8_t parts = wire_parts_of(msg);

	return sizeof(struct wire_head) - wire_head_lacks(msg->old ? WIRE_VERSION_OLD : 0) +
	       (parts & WIRE_TARGETED ? sizeof(struct wire_target) : 0) +
	       (parts & WIRE_GREETING ? sizeof(struct wire_greeting) : 0) +
	       (wire_lends(parts, msg) ? sizeof(struct wire_loan) : 0) +
	       (wire_offers(parts, msg) ? sizeof(struct wire_offer) : 0);
}

size_t wire_size(const struct wire_msg *msg)
{
	uint8_t parts = wire_parts_of(msg);

	return wire_fixed_size(msg) + (parts & WIRE_NAMED ? msg->name_len : 0) +
	       (parts & WIRE_LOADED ? msg->payload_len : 0);
}

size_t wire_encode(const struct wire_msg *msg, void *buf)
{
	uint8_t parts = wire_parts_of(msg);
	size_t name_len = parts & WIRE_NAMED ? msg->name_len : 0;
	const struct wire_head head = {
		.magic = htole32(WIRE_MAGIC),
		.version = msg->old ? WIRE_VERSION_OLD : WIRE_VERSION,
		.type = msg->type,
		.to_sender = msg->to_sender,
		.front = msg->front,
		.token = htole64(msg->token),
		.id = htole64(msg->id),
		.len = htole64(parts & WIRE_GREETING ? msg->epoch : msg->len),
		.data = htole64(msg->data),
		.flags = htole32(msg->flags),
		.transfer = htole32(parts & WIRE_GREETING ? msg->port : msg->transfer),
		.chunk = htole32(parts & WIRE_GREETING ? msg->oldest : msg->chunk),
		.count = htole32(parts & WIRE_GREETING ? msg->newest : msg->count),
		.status = htole32((uint32_t) msg->status),
		.name_len = htole16((uint16_t) name_len),
		.size = htole16((uint16_t) wire_size(msg)),
	};
	const struct wire_target target = {
		.key = htole64(msg->key),
		.addr = htole64(msg->addr),
		.op = msg->op,
		.datatype = msg->datatype,
	};
	const struct wire_greeting greeting = {
		.grant = htole64(msg->grant),
		.process = htole64(msg->process),
		.host = htole64(msg->key),
		.board = htole64(msg->addr),
	};
	const size_t lacks = wire_head_lacks(head.version);
	char *at = buf;

	memcpy(at, &head, WIRE_HEAD_BEFORE);
	memcpy(at + WIRE_HEAD_BEFORE, (const char *) &head + WIRE_HEAD_BEFORE + lacks,
	       sizeof head - WIRE_HEAD_BEFORE - lacks);
	at += sizeof head - lacks;
	if (parts & WIRE_TARGETED) {
		memcpy(at, &target, sizeof target);
		at += sizeof target;
	}
	if (parts & WIRE_GREETING) {
		memcpy(at, &greeting, sizeof greeting);
		at += sizeof greeting;
	}
	if (wire_lends(parts, msg))
		at += wire_encode_loan(msg, at);
	if (wire_offers(parts, msg))
		at += wire_encode_offer(&msg->offer, at);
	if (name_len)
		memcpy(at, msg->name, name_len);
	at += name_len;
	if (parts & WIRE_LOADED && msg->payload_len) {
		memcpy(at, msg->payload, msg->payload_len);
		at += msg->payload_len;
	}
	return at - (char *) buf;
}

/* Says what is wrong with an announcement of pieces, or NULL */
static const char *wire_check_announced(const struct wire_msg *msg)
{
	const struct ipc_offer *offer = &msg->offer;

	if (msg->len <= WIRE_PLAIN_MAX &&
	    (!msg->len || msg->type != WIRE_ANNOUNCE || !(msg->flags & WIRE_OFFERED)))
		return "an announcement of a short message";
	if (!msg->chunk)
		return "an announcement of pieces without a size";
	if ((msg->len - 1) / msg->chunk >= WIRE_PIECES_MAX)
		return "an announcement of too many pieces";
	if (msg->flags & WIRE_LENT && msg->flags & (WIRE_OFFERED | WIRE_READABLE | WIRE_WORD))
		return "memory that is lent, and to be had otherwise";
	if (msg->flags & WIRE_READABLE && msg->type != WIRE_ANNOUNCE)
		return "a long write with a key of its own memory";
	if (msg->flags & WIRE_COMMIT && msg->type != WIRE_CALL)
		return "what is to be durable, and is no write";
	if (!wire_offers(wire_parts[msg->type], msg))
		return NULL;
	if (offer->base + offer->size < offer->base)
		return "an offer of memory past the end of all memory";
	if (offer->offset > offer->size || msg->len > offer->size - offer->offset)
		return "an offer of a message that leaves its allocation";
	return NULL;
}

/* Its operands are for whoever knows the operation (rma_serving.c) */
static const char *wire_check_call(const struct wire_msg *msg)
{
	const bool announces = msg->len > WIRE_PAYLOAD_MAX && msg->op != FI_ATOMIC_READ;

	if (msg->op == FI_ATOMIC_READ && !(msg->flags & WIRE_FETCH))
		return "a read that wants nothing";
	if (!announces && msg->flags & (WIRE_OFFERED | WIRE_READABLE | WIRE_LENT | WIRE_WORD))
		return "a short call, or a read, that offers or lends";
	if (msg->len > WIRE_PAYLOAD_MAX && msg->payload_len)
		return "a long call with data";
	return announces ? wire_check_announced(msg) : NULL;
}

/* Says what is wrong with a request for data, or NULL */
static const char *wire_check_take(const struct wire_msg *msg)
{
	if (!msg->to_sender)
		return "a request for data that nobody sends";
	if (msg->flags & ~(WIRE_PLAIN | WIRE_TAKE_LANES | WIRE_TAKE_FAR))
		return "a request with unknown flags";
	if (msg->flags & WIRE_PLAIN && msg->len)
		return "a request for a plain message that asks for pieces";
	if (msg->len && (!msg->chunk || !msg->count))
		return "a request for data that gives no room for it";
	if (msg->len && (msg->len - 1) / msg->chunk >= WIRE_PIECES_MAX)
		return "a request for too many pieces";
	return NULL;
}

static const char *wire_check_greeting(const struct wire_msg *msg)
{
	const uint32_t steps = WIRE_ASKS | WIRE_ANSWERS | WIRE_CONFIRMS;
	const uint32_t step = msg->flags & steps;

	if (msg->oldest > msg->newest)
		return "a greeting from who speaks no version";
	if (step & (step - 1))
		return "a greeting that asks and answers";
	if (!step)
		return NULL;
	if (!msg->name_len || (msg->flags & WIRE_SIDE) != (msg->payload_len ? WIRE_SIDE : 0) ||
	    msg->payload_len > WIRE_NAME_MAX)
		return "a greeting without its sender's name";
	return msg->grant ? NULL : "a greeting without a token";
}

static const char *wire_check_lanes(const struct wire_msg *msg)
{
	if (msg->flags == WIRE_ANSWERS)
		return msg->payload_len ? "an answer about lanes with names" : NULL;
	if (msg->flags != WIRE_ASKS)
		return "what is said of lanes neither asks nor answers";
	if (!msg->count || !msg->payload_len || msg->payload_len % msg->count ||
	    msg->payload_len / msg->count > WIRE_NAME_MAX)
		return "lanes without their names";
	return NULL;
}

/* Says what no honest peer would have sent in a message, or NULL. */
static const char *wire_check(const struct wire_msg *msg)
{
	if (msg->id & ~WIRE_ID_MASK)
		return "the transaction's id is out of range";
	if (msg->data & ~WIRE_USER_DATA_MASK)
		return "remote cq data is out of range";
	if (msg->to_sender && msg->type > WIRE_DONE)
		return "an answer of a type that answers nothing";
	switch (msg->type) {
	case WIRE_ANNOUNCE:
		return wire_check_announced(msg);
	case WIRE_CALL:
		return wire_check_call(msg);
	case WIRE_TAKE:
		return wire_check_take(msg);
	case WIRE_DONE:
		/* it is negated */
		return (msg->status < 0 && msg->status > INT32_MIN) ||
				       (!msg->status && msg->to_sender)
			       ? NULL
			       : "an end with a status that is no error number";
	case WIRE_PROBE:
		return msg->flags & ~(WIRE_ASKS | WIRE_COUNTS_FRONT | WIRE_COUNTS_SIDE)
			       ? "a probe with unknown flags"
			       : NULL;
	case WIRE_HELLO:
		return wire_check_greeting(msg);
	case WIRE_LANES:
		return wire_check_lanes(msg);
	default:
		return "an unknown type";
	}
}

/* Reads what follows the head of @msg, from @at to @end. NULL, or what is wrong with it */
static const char *wire_decode_parts(const char *at, const char *end, struct wire_msg *msg)
{
	const uint8_t parts = wire_parts[msg->type];
	struct wire_greeting greeting;
	struct wire_target target;

	if ((size_t) (end - at) < wire_fixed_size(msg) - sizeof(struct wire_head))
		return "too short";
	if (parts & WIRE_TARGETED) {
		memcpy(&target, at, sizeof target);
		at += sizeof target;
		msg->key = le64toh(target.key);
		msg->addr = le64toh(target.addr);
		msg->op = target.op;
		msg->datatype = target.datatype;
	}
	if (parts & WIRE_GREETING) {
		memcpy(&greeting, at, sizeof greeting);
		at += sizeof greeting;
		msg->grant = le64toh(greeting.grant);
		msg->process = le64toh(greeting.process);
		msg->key = le64toh(greeting.host);
		msg->addr = le64toh(greeting.board);
		msg->epoch = msg->len;
		msg->port = msg->transfer <= UINT16_MAX ? (uint16_t) msg->transfer : 0;
		msg->oldest = P2P_MIN(msg->chunk, UINT16_MAX);
		msg->newest = P2P_MIN(msg->count, UINT16_MAX);
		msg->len = msg->transfer = msg->chunk = msg->count = 0;
	}
	if (wire_lends(parts, msg))
		at += wire_decode_loan(at, msg);
	if (wire_offers(parts, msg))
		at += wire_decode_offer(at, &msg->offer);
	if (msg->name_len > (parts & WIRE_NAMED ? WIRE_NAME_MAX : 0) ||
	    (size_t) (end - at) < msg->name_len ||
	    (size_t) (end - at) > msg->name_len + (parts & WIRE_LOADED ? WIRE_PAYLOAD_MAX : 0))
		return "its length does not fit its content";
	msg->name = at;
	msg->payload = at + msg->name_len;
	msg->payload_len = end - at - msg->name_len;
	return wire_check(msg);
}

static const char wire_other[] = "the peer speaks another version of the protocol: install the "
				 "same release on both ends";

/* What ends a request of version 7 of this type; 0: it asks for nothing. Both are numbers of that version */
static uint8_t wire_ended_by(unsigned int type)
{
	static const uint8_t ends[] = {[1] = 5, [7] = 4, [8] = 11, [10] = 11};

	return type < sizeof ends ? ends[type] : 0;
}

/* A message of version 7: its head is followed by the target memory, by an offer if WIRE_OFFERED, and by the name */
static void wire_decode_old(const char *buf, size_t len, const struct wire_head *head,
			    struct wire_msg *msg)
{
	const size_t head_len = sizeof *head - wire_head_lacks(WIRE_VERSION_OLD);
	const size_t size = le16toh(head->size), name_len = le16toh(head->name_len);
	const size_t at = head_len + sizeof(struct wire_target) +
			  (le32toh(head->flags) & WIRE_OFFERED ? sizeof(struct wire_offer) : 0);

	msg->old = true;
	if (size >= head_len && size <= len)
		msg->size = size;
	if (wire_ended_by(msg->type) && name_len <= WIRE_NAME_MAX &&
	    at + name_len <= msg->size) {
		msg->name = buf + at;
		msg->name_len = name_len;
	}
}

struct wire_msg wire_refusal(const struct wire_msg *msg)
{
	return (struct wire_msg){
		.type = wire_ended_by(msg->type),
		.id = msg->id,
		.to_sender = true,
		.status = -FI_EOPNOTSUPP,
		.old = true,
	};
}

int wire_decode(const void *buf, size_t len, struct wire_msg *msg, const char **why)
{
	const size_t at_version = offsetof(struct wire_head, version);
	struct wire_head head = {.token = 0};
	size_t lacks;

	*msg = (struct wire_msg){.size = 0};
	lacks = wire_head_lacks(len > at_version ? ((const uint8_t *) buf)[at_version] : 0);
	*why = "too short";
	if (len < sizeof head - lacks)
		return -FI_EINVAL;
	memcpy(&head, buf, WIRE_HEAD_BEFORE);
	memcpy((char *) &head + WIRE_HEAD_BEFORE + lacks, (const char *) buf + WIRE_HEAD_BEFORE,
	       sizeof head - WIRE_HEAD_BEFORE - lacks);
	if (le32toh(head.magic) != WIRE_MAGIC) {
		*why = "not a control message";
		return -FI_EINVAL;
	}
	if (head.version != WIRE_VERSION &&
	    (head.version < WIRE_VERSION_GREETS || head.type != WIRE_HELLO)) {
		*why = wire_other;
		msg->type = head.type;
		msg->id = le64toh(head.id) & WIRE_ID_MASK;
		if (head.version == WIRE_VERSION_OLD)
			wire_decode_old(buf, len, &head, msg);
		return -FI_EOPNOTSUPP;
	}
	msg->size = le16toh(head.size);
	if (msg->size < sizeof head || msg->size > len) {
		msg->size = 0;
		*why = "it is not as long as it says";
		return -FI_EINVAL;
	}
	if (!head.type || head.type >= WIRE_TYPES) {
		*why = "an unknown type";
		return -FI_EINVAL;
	}
	*msg = (struct wire_msg){
		.type = head.type,
		.to_sender = head.to_sender,
		.front = head.front,
		.token = le64toh(head.token),
		.id = le64toh(head.id),
		.len = le64toh(head.len),
		.data = le64toh(head.data),
		.flags = le32toh(head.flags),
		.transfer = le32toh(head.transfer),
		.chunk = le32toh(head.chunk),
		.count = le32toh(head.count),
		.status = (int32_t) le32toh(head.status),
		.name_len = le16toh(head.name_len),
		.size = msg->size,
	};
	*why = wire_decode_parts((const char *) buf + sizeof head,
				 (const char *) buf + msg->size, msg);
	return *why ? -FI_EINVAL : 0;
}

/* What is in an IP address. Returns the length of @host; 0: it is another name */
static size_t wire_name_split(const void *name, size_t len, struct in6_addr *host,
			      uint64_t *port)
{
	struct sockaddr_in6 in6;
	struct sockaddr_in in;

	if (len >= sizeof in6) {
		memcpy(&in6, name, sizeof in6);
		if (in6.sin6_family == AF_INET6) {
			*port = ntohs(in6.sin6_port);
			*host = in6.sin6_addr;
			return sizeof in6.sin6_addr;
		}
	}
	if (len >= sizeof in) {
		memcpy(&in, name, sizeof in);
		if (in.sin_family == AF_INET) {
			*port = ntohs(in.sin_port);
			memcpy(host, &in.sin_addr, sizeof in.sin_addr);
			return sizeof in.sin_addr;
		}
	}
	return 0;
}

uint64_t wire_name_ident(const void *name, size_t len)
{
	struct in6_addr host;
	uint64_t port;

	return wire_name_split(name, len, &host, &port) ? port : 0;
}

bool wire_names_apart(const void *a, size_t a_len, const void *b, size_t b_len)
{
	struct in6_addr hosts[2];
	uint64_t port;
	size_t len = wire_name_split(a, a_len, &hosts[0], &port);

	return len && (wire_name_split(b, b_len, &hosts[1], &port) != len ||
		       memcmp(&hosts[0], &hosts[1], len));
}

const char *wire_type_name(enum wire_type type)
{
	static const char *const names[WIRE_TYPES] = {
		[WIRE_ANNOUNCE] = "ANNOUNCE", [WIRE_TAKE] = "TAKE",   [WIRE_DONE] = "DONE",
		[WIRE_CALL] = "CALL",         [WIRE_PROBE] = "PROBE", [WIRE_LANES] = "LANES",
		[WIRE_HELLO] = "HELLO",
	};

	return type < WIRE_TYPES && names[type] ? names[type] : "nothing known";
}
