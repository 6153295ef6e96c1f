/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Control messages of version 7, as releases before November 2026 send them. They are not acted on. What
 * asks for something is refused in words that its sender understands, so that nothing waits for ever.
 */
#ifndef P2P_WIRE_OLD_H
#define P2P_WIRE_OLD_H

#include "xfer/wire.h"

/* The longest refusal */
#define WIRE_OLD_MAX 56

/* What every message began with. Numbers are little-endian */
struct wire_old_head {
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
	uint16_t name_len;
	uint16_t size;
};

/*
 * Is this a message of version 7? If so, @msg has its type and id; and the name of who is to be refused,
 * if it asks for anything.
 */
bool wire_old_decode(const void *buf, size_t len, struct wire_msg *msg);

/* Writes to @buf, of WIRE_OLD_MAX bytes, the refusal of what @msg asks for. Returns its length */
size_t wire_old_refuse(const struct wire_msg *msg, void *buf);

#endif /* P2P_WIRE_OLD_H */
