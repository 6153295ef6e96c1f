/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which ids of transactions have been announced here, so that one that comes up again is
 * known for an old one. Of each sender the last SEEN_IDS that it has counted to are told apart,
 * and all before are old: its announcements come in any order, as it may have several endpoints,
 * but never so far apart. All [locked].
 */
#ifndef P2P_SEEN_IDS_H
#define P2P_SEEN_IDS_H

#include <stdbool.h>
#include <stdint.h>

#define SEEN_IDS 1024

struct seen_ids_sender;

/** struct seen_ids - all senders, by the part of their ids that they do not count in */
struct seen_ids {
	struct seen_ids_sender *senders;
};

/* Without memory for it, nothing is remembered. */
void seen_ids_add(struct seen_ids *heard, uint64_t id);

/* Has it been announced? False for senders that are not known. */
bool seen_ids_before(const struct seen_ids *heard, uint64_t id);

void seen_ids_fini(struct seen_ids *heard);

#endif /* P2P_SEEN_IDS_H */
