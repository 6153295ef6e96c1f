/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Ids that have been announced. See seen_ids.h. */
#include "proto/seen_ids.h"

#include <stdlib.h>

/* @next: the place that is taken next; @count: how many are taken */
struct seen_ids_set {
	uint64_t id[SEEN_IDS_WAYS];
	uint8_t next;
	uint8_t count;
};

void seen_ids_add(struct seen_ids *seen, uint64_t id)
{
	struct seen_ids_set *set;

	if (!seen->sets)
		seen->sets = calloc(SEEN_IDS_SETS, sizeof *seen->sets);
	if (!seen->sets)
		return;
	set = &seen->sets[id % SEEN_IDS_SETS];
	set->id[set->next] = id;
	set->next = (set->next + 1) % SEEN_IDS_WAYS;
	set->count += set->count < SEEN_IDS_WAYS;
}

bool seen_ids_before(const struct seen_ids *seen, uint64_t id)
{
	const struct seen_ids_set *set = seen->sets ? &seen->sets[id % SEEN_IDS_SETS] : NULL;

	for (int i = 0; set && i < set->count; i++) {
		if (set->id[i] == id)
			return true;
	}
	return false;
}

void seen_ids_fini(struct seen_ids *seen)
{
	free(seen->sets);
	seen->sets = NULL;
}
