/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Ids that have been announced. See seen_ids.h. */
#include "proto/seen_ids.h"

#include <stdlib.h>

void seen_ids_add(struct seen_ids *seen, uint64_t id)
{
	struct seen_ids_set *set;

	if (!seen->sets)
		seen->sets = calloc(SEEN_IDS_SETS, sizeof *seen->sets);
	set = seen->sets ? &seen->sets[id % SEEN_IDS_SETS] : &seen->few[id % SEEN_IDS_FEW];
	set->id[set->next] = id;
	set->next = (set->next + 1) % SEEN_IDS_WAYS;
	set->count += set->count < SEEN_IDS_WAYS;
}

/* Tells whether a set has an id. */
static bool seen_ids_has(const struct seen_ids_set *set, uint64_t id)
{
	for (int i = 0; i < set->count; i++) {
		if (set->id[i] == id)
			return true;
	}
	return false;
}

bool seen_ids_before(const struct seen_ids *seen, uint64_t id)
{
	return (seen->sets && seen_ids_has(&seen->sets[id % SEEN_IDS_SETS], id)) ||
	       seen_ids_has(&seen->few[id % SEEN_IDS_FEW], id);
}

void seen_ids_fini(struct seen_ids *seen)
{
	free(seen->sets);
	*seen = (struct seen_ids){.sets = NULL};
}
