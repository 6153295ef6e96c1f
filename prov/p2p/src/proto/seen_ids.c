/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Ids that have been announced. See seen_ids.h. */
#include "proto/seen_ids.h"

#include <stdlib.h>

#include "base/base.h"
#include "xfer/wire.h"

/* @last: the highest count so far; the counts up to it are in @bits, in a circle */
struct seen_ids_sender {
	uint64_t base;
	uint32_t last;
	uint64_t bits[SEEN_IDS / 64];
	UT_hash_handle hh;
};

/* How far @id is behind the last one; more than half of all: it is ahead */
static uint32_t seen_ids_behind(const struct seen_ids_sender *sender, uint64_t id)
{
	return (uint32_t) ((sender->last - id) & WIRE_ID_COUNT);
}

static bool seen_ids_is_ahead(uint32_t behind)
{
	return behind > WIRE_ID_COUNT / 2;
}

static uint64_t *seen_ids_word(struct seen_ids_sender *sender, uint64_t id)
{
	return &sender->bits[id % SEEN_IDS / 64];
}

static struct seen_ids_sender *seen_ids_find(const struct seen_ids *heard, uint64_t id)
{
	uint64_t base = id & ~WIRE_ID_COUNT;
	struct seen_ids_sender *sender;

	HASH_FIND(hh, heard->senders, &base, sizeof base, sender);
	return sender;
}

static struct seen_ids_sender *seen_ids_new(struct seen_ids *heard, uint64_t id)
{
	struct seen_ids_sender *sender = calloc(1, sizeof *sender);

	if (!sender)
		return NULL;
	sender->base = id & ~WIRE_ID_COUNT;
	sender->last = (uint32_t) (id & WIRE_ID_COUNT);
	HASH_ADD(hh, heard->senders, base, sizeof sender->base, sender);
	if (sender->hh.tbl)
		return sender;
	free(sender);
	return NULL;
}

void seen_ids_add(struct seen_ids *heard, uint64_t id)
{
	struct seen_ids_sender *sender = seen_ids_find(heard, id);
	uint32_t behind;

	if (!sender)
		sender = seen_ids_new(heard, id);
	if (!sender)
		return;
	behind = seen_ids_behind(sender, id);
	if (seen_ids_is_ahead(behind)) {
		uint64_t ahead = WIRE_ID_COUNT + 1 - behind;

		/* those between have not been heard of yet */
		for (uint64_t i = id - P2P_MIN(ahead, SEEN_IDS) + 1; i != id; i++)
			*seen_ids_word(sender, i) &= ~(1ULL << i % 64);
		sender->last = (uint32_t) (id & WIRE_ID_COUNT);
	} else if (behind >= SEEN_IDS) {
		return;
	}
	*seen_ids_word(sender, id) |= 1ULL << id % 64;
}

bool seen_ids_before(const struct seen_ids *heard, uint64_t id)
{
	struct seen_ids_sender *sender = seen_ids_find(heard, id);
	uint32_t behind;

	if (!sender)
		return false;
	behind = seen_ids_behind(sender, id);
	if (seen_ids_is_ahead(behind))
		return false;
	return behind >= SEEN_IDS || *seen_ids_word(sender, id) & 1ULL << id % 64;
}

void seen_ids_fini(struct seen_ids *heard)
{
	struct seen_ids_sender *sender, *next;

	HASH_ITER(hh, heard->senders, sender, next) {
		HASH_DELETE(hh, heard->senders, sender);
		free(sender);
	}
}
