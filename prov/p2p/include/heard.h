/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rank 4: which ids of transactions have been announced here, so that one that comes up again is
 * known for an old one. Of each sender the last HEARD_IDS that it has counted to are told apart,
 * and all before are old: its announcements come in any order, as it may have several endpoints,
 * but never so far apart. All [locked].
 */
#ifndef P2P_HEARD_H
#define P2P_HEARD_H

#include <stdbool.h>
#include <stdint.h>

#define HEARD_IDS 1024

struct heard_sender;

/** struct heard - all senders, by the part of their ids that they do not count in */
struct heard {
	struct heard_sender *senders;
};

/* Without memory for it, nothing is remembered. */
void heard_add(struct heard *heard, uint64_t id);

/* Has it been announced? False for senders that are not known. */
bool heard_before(const struct heard *heard, uint64_t id);

void heard_fini(struct heard *heard);

#endif /* P2P_HEARD_H */
