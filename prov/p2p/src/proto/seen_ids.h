/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Which ids have been announced here. An id that comes again is known for an old one.
 *
 * Ids are random in their lower bits, which choose a set. A set forgets what has been in it for
 * longest. So some thirty thousand ids are known, and of the last thousand hardly one is missing. The
 * caller's lock guards it.
 */
#ifndef P2P_SEEN_IDS_H
#define P2P_SEEN_IDS_H

#include <stdbool.h>
#include <stdint.h>

#define SEEN_IDS_SETS 4096
#define SEEN_IDS_FEW 32
#define SEEN_IDS_WAYS 8

/* @next: the place that is taken next; @count: how many are taken */
struct seen_ids_set {
	uint64_t id[SEEN_IDS_WAYS];
	uint8_t next;
	uint8_t count;
};

/**
 * struct seen_ids - all zero before the first one.
 * @sets:	NULL: there was no need for them, or no memory. @few: smaller ones, for what comes while there is none
 */
struct seen_ids {
	struct seen_ids_set *sets;
	struct seen_ids_set few[SEEN_IDS_FEW];
};

/* Remembers an id, in place of the oldest one of its set if that is full. */
void seen_ids_add(struct seen_ids *seen, uint64_t id);

/* Tells whether an id is remembered. */
bool seen_ids_before(const struct seen_ids *seen, uint64_t id);

void seen_ids_fini(struct seen_ids *seen);

#endif /* P2P_SEEN_IDS_H */
