/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Rank 4: ids that have been announced. See heard.h. */
#include "heard.h"

#include <stdlib.h>

#include "base.h"
#include "wire.h"

/* @last: the highest count so far; the counts up to it are in @bits, in a circle */
struct heard_sender {
	uint64_t base;
	uint32_t last;
	uint64_t bits[HEARD_IDS / 64];
	UT_hash_handle hh;
};

/* How far @id is behind the last one; more than half of all: it is ahead */
static uint32_t heard_behind(const struct heard_sender *sender, uint64_t id)
{
	return (uint32_t) ((sender->last - id) & WIRE_ID_COUNT);
}

static bool heard_is_ahead(uint32_t behind)
{
	return behind > WIRE_ID_COUNT / 2;
}

static uint64_t *heard_word(struct heard_sender *sender, uint64_t id)
{
	return &sender->bits[id % HEARD_IDS / 64];
}

static struct heard_sender *heard_find(const struct heard *heard, uint64_t id)
{
	uint64_t base = id & ~WIRE_ID_COUNT;
	struct heard_sender *sender;

	HASH_FIND(hh, heard->senders, &base, sizeof base, sender);
	return sender;
}

static struct heard_sender *heard_new(struct heard *heard, uint64_t id)
{
	struct heard_sender *sender = calloc(1, sizeof *sender);

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

void heard_add(struct heard *heard, uint64_t id)
{
	struct heard_sender *sender = heard_find(heard, id);
	uint32_t behind;

	if (!sender)
		sender = heard_new(heard, id);
	if (!sender)
		return;
	behind = heard_behind(sender, id);
	if (heard_is_ahead(behind)) {
		uint64_t ahead = WIRE_ID_COUNT + 1 - behind;

		/* those between have not been heard of yet */
		for (uint64_t i = id - P2P_MIN(ahead, HEARD_IDS) + 1; i != id; i++)
			*heard_word(sender, i) &= ~(1ULL << i % 64);
		sender->last = (uint32_t) (id & WIRE_ID_COUNT);
	} else if (behind >= HEARD_IDS) {
		return;
	}
	*heard_word(sender, id) |= 1ULL << id % 64;
}

bool heard_before(const struct heard *heard, uint64_t id)
{
	struct heard_sender *sender = heard_find(heard, id);
	uint32_t behind;

	if (!sender)
		return false;
	behind = heard_behind(sender, id);
	if (heard_is_ahead(behind))
		return false;
	return behind >= HEARD_IDS || *heard_word(sender, id) & 1ULL << id % 64;
}

void heard_fini(struct heard *heard)
{
	struct heard_sender *sender, *next;

	HASH_ITER(hh, heard->senders, sender, next) {
		HASH_DELETE(hh, heard->senders, sender);
		free(sender);
	}
}
