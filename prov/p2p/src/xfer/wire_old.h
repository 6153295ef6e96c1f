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

/*
 * Is this a message of version 7? If so, @msg has its type and id; and the name of who is to be refused,
 * if it asks for anything.
 */
bool wire_old_decode(const void *buf, size_t len, struct wire_msg *msg);

/* Writes to @buf, of WIRE_OLD_MAX bytes, the refusal of what @msg asks for. Returns its length */
size_t wire_old_refuse(const struct wire_msg *msg, void *buf);

#endif /* P2P_WIRE_OLD_H */
