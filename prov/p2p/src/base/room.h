/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * What this process may have yet of what the system limits: descriptors (RLIMIT_NOFILE) and addresses (RLIMIT_AS). The
 * core needs some for its connections, and without them no message arrives. What we open beside it makes messages
 * faster, or tells of dead peers: it may be smaller, or left out.
 */
#ifndef P2P_ROOM_H
#define P2P_ROOM_H

#include <stdbool.h>
#include <stddef.h>

/* So much is the core's and the application's: it is enough for a few peers [bytes] */
#define ROOM_DESCRIPTORS 16
#define ROOM_MEMORY ((size_t) 256 << 20)

/* A core's endpoint takes at most so many descriptors with its queues: net's takes 12 */
#define ROOM_ENDPOINT 16

/* Are there so many bytes for us beside ROOM_MEMORY? */
bool room_for(size_t len);

/*
 * May we open @count descriptors for ourselves, or start a thread? 0; -FI_EMFILE: fewer than ROOM_DESCRIPTORS would
 * be left; or -FI_ENOMEM. A few calls of the system
 */
int room_spare(unsigned int count);

#endif /* P2P_ROOM_H */
