/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which ids have been announced here. An id that comes again is known for an old one.
 *
 * A sender announces its ids in any order, as it may have several endpoints, but never far
 * apart. So the last SEEN_IDS ids of each sender are told apart. All before them count as old.
 * The caller's lock guards it.
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
