/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What a round consists of, from seed and number: see stress.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "stress.h"

/* Of QUIRK_UNEXPECTED: what may arrive before its receive, each way */
#define UNEXPECTED_MAX 8

uint64_t stress_pick(uint64_t *rnd, uint64_t count)
{
	return ft_random(rnd) % count;
}

bool stress_coin(uint64_t *rnd)
{
	return ft_random(rnd) & 1;
}

size_t stress_plan_size(const struct stress_plan *plan, const struct stress_round *round,
			uint64_t *rnd)
{
	size_t size, tries = 8;

	if (stress_pick(rnd, 4) == 0) /* any, small ones as often as large ones */
		return stress_pick(rnd, (round->largest >> stress_pick(rnd, 20)) + 1);
	do {
		size = plan->size[stress_pick(rnd, plan->size_count)] + stress_pick(rnd, 3);
		size -= FT_MIN(size, 1);
	} while (size > round->largest && --tries);
	return FT_MIN(size, round->largest);
}

bool stress_plan_selective(const struct stress_plan *plan, const struct stress_end *end)
{
	return end->ep == STRESS_SELECTIVE && !(plan->quirks & QUIRK_SELECTIVE);
}

uint64_t stress_plan_levels(const struct stress_plan *plan, const struct stress_op *op,
			    uint64_t *rnd)
{
	static const uint64_t levels[] = {
		0,
		FI_INJECT_COMPLETE,
		FI_TRANSMIT_COMPLETE,
		FI_DELIVERY_COMPLETE,
	};

	uint64_t level = levels[stress_pick(rnd, FT_COUNT(levels))] & plan->levels;

	if (level == FI_DELIVERY_COMPLETE && !op->size && plan->quirks & QUIRK_NOTHING)
		return 0;
	return level;
}

bool stress_plan_end(struct stress_round *round, struct stress_op *op, int end, size_t len,
		     bool aligned, uint64_t *rnd)
{
	struct stress_end *e = &op->end[end];
	size_t *used = &round->used[e->rank][end][e->kind != FI_HMEM_SYSTEM];
	const size_t shift = stress_pick(rnd, 64);

	e->len = len;
	e->base = *used;
	e->off = e->base + STRESS_MARGIN + (stress_coin(rnd) ? shift : 0);
	if (aligned)
		e->off = (e->off + 15) & ~(size_t) 15;
	e->room = e->off + len + STRESS_MARGIN - e->base;
	if (e->base + e->room > STRESS_ARENA)
		return false;
	*used += e->room;
	return true;
}

/* ---- the round as a whole ---- */

static void plan_frame(const struct stress_plan *plan, struct stress_round *round,
		       uint64_t *rnd)
{
	static const size_t largest[] = {300, 5000, 70000, 300000, 4 << 20};

	round->largest = largest[stress_pick(rnd, FT_COUNT(largest))];
	round->earliest = (enum stress_when) stress_pick(rnd, 3);
	round->latest = round->earliest;
	if (!(plan->quirks & QUIRK_ORDER) && stress_pick(rnd, 4))
		round->latest = LATE;
	if (!(plan->quirks & QUIRK_ORDER) && stress_coin(rnd))
		round->earliest = EARLY;
	if (plan->quirks & QUIRK_ORDER && round->earliest == AMONG)
		round->earliest = round->latest = EARLY;
	round->directed = plan->caps & FI_DIRECTED_RECV && stress_coin(rnd);
	round->wild = !(plan->quirks & QUIRK_IGNORE) && stress_pick(rnd, 8) == 0;
	round->eps = plan->quirks & QUIRK_EPS && round->latest != EARLY ? 1 : STRESS_EPS;
	for (int rank = 0; rank < 2; rank++)
		for (int ep = 0; ep < STRESS_EPS; ep++) {
			round->source[rank][ep] = (unsigned int) stress_pick(rnd, round->eps);
			round->multi[rank][ep] = plan->multi && stress_pick(rnd, 3) == 0;
			round->multi_leader[rank][ep] = -1;
		}
}

static enum stress_when plan_when(const struct stress_plan *plan, struct stress_round *round,
				  uint64_t *rnd)
{
	const uint64_t span = (uint64_t) (round->latest - round->earliest) + 1;
	enum stress_when when = round->earliest + (enum stress_when) stress_pick(rnd, span);

	if (when == EARLY || !(plan->quirks & QUIRK_UNEXPECTED))
		return when;
	return round->unexpected++ < UNEXPECTED_MAX ? when : EARLY;
}

/* What all kinds of operations have: between which endpoints and memories, when */
static bool plan_op(const struct stress_plan *plan, struct stress_round *round,
		    struct stress_op *op, uint64_t *rnd)
{
	const int from = stress_coin(rnd);

	memset(op, 0, sizeof(*op));
	op->number = round->count;
	op->type = stress_types[plan->types[stress_pick(rnd, plan->type_count)]];
	op->group = -1;
	op->leader = op->number;
	for (int end = 0; end < ENDS; end++) {
		op->end[end].rank = end == FROM ? from : !from;
		op->end[end].ep = (unsigned int) stress_pick(rnd, round->eps);
		op->end[end].kind = plan->kinds[stress_pick(rnd, plan->kind_count)];
		op->end[end].signal = true;
	}
	op->place = ft_random(rnd);
	op->cuts = ft_random(rnd);
	op->key = ft_random(rnd);
	/* remote cq data has 32 bits over ofi_p2p; its lowest byte says which operation
	 */
	op->data = (ft_random(rnd) << 8 & 0xffffff00) | op->number;
	op->directed = round->directed;
	if (!(plan->quirks & QUIRK_MIX) && plan->caps & FI_DIRECTED_RECV)
		op->directed = stress_coin(rnd);
	op->when = op->type->take ? plan_when(plan, round, rnd) : EARLY;
	return op->type->plan(plan, round, op, rnd);
}

/* ---- the order in which receives are posted ---- */

static bool goes_before(const struct stress_op *a, const struct stress_op *b)
{
	if (a->when != b->when)
		return a->when < b->when;
	return a->place < b->place;
}

/*
 * At random, but for what matches in order: members of a group swap their times and
 * places until they have that of their sends, which is that of their numbers.
 */
static void plan_takes(struct stress_round *round)
{
	struct stress_op *const op = round->op;
	unsigned int *const takes = round->takes;

	for (unsigned int i = 0; i < round->count; i++)
		for (unsigned int j = i + 1; j < round->count; j++) {
			const struct stress_op later = op[i];

			if (op[i].group < 0 || op[i].group != op[j].group ||
			    !goes_before(&op[j], &op[i]))
				continue;
			op[i].when = op[j].when;
			op[i].place = op[j].place;
			op[j].when = later.when;
			op[j].place = later.place;
		}
	for (unsigned int i = 0; i < round->count; i++) {
		unsigned int at = i;

		for (; at > 0 && goes_before(&op[i], &op[takes[at - 1]]); at--)
			takes[at] = takes[at - 1];
		takes[at] = i;
	}
}

/* Buffers of multi-receives: all of their messages, and then too little for one more */
static void plan_multi(const struct stress_plan *plan, struct stress_round *round)
{
	for (int rank = 0; rank < 2; rank++)
		for (int ep = 0; ep < STRESS_EPS; ep++) {
			const int leader = round->multi_leader[rank][ep];
			struct stress_end *end;
			size_t *used;

			if (leader < 0)
				continue;
			end = &round->op[leader].end[TO];
			used = &round->used[rank][TO][end->kind != FI_HMEM_SYSTEM];
			end->len += plan->multi_min - 1;
			end->base = *used;
			end->off = end->base + STRESS_MARGIN;
			end->room = end->len + 2 * STRESS_MARGIN;
			*used += end->room;
		}
}

void stress_plan_round(const struct stress_plan *plan, uint64_t number,
		       struct stress_round *round)
{
	uint64_t rnd = plan->seed * 0x9e3779b97f4a7c15ULL + number;
	unsigned int count, tries;

	/* seeds and rounds that lie next to each other shall have nothing in common */
	rnd = ft_random(&rnd);
	memset(round, 0, sizeof(*round));
	round->number = number;
	plan_frame(plan, round, &rnd);
	count = 1 + (unsigned int) stress_pick(&rnd, STRESS_OPS);
	for (tries = 2 * count; tries && round->count < count; tries--)
		if (plan_op(plan, round, &round->op[round->count], &rnd))
			round->count++;
	plan_multi(plan, round);
	plan_takes(round);
}

void stress_op_name(const struct stress_op *op, char *text, size_t len)
{
	const struct stress_end *from = &op->end[FROM], *to = &op->end[TO];
	static const char *const when[] = {"early", "among the sends", "late", "last"};

	snprintf(text, len,
		 "operation %u (%s by %s, rank %d endpoint %u %s %+zd to rank %d endpoint "
		 "%u %s %+zd%s%s, %zu bytes for %zu, tag %#" PRIx64 " for %#" PRIx64
		 " ignoring %#" PRIx64 ", flags %#" PRIx64 ", receive %s)",
		 op->number, op->type->name,
		 op->end[op->type->starter].call ? op->end[op->type->starter].call->name
						 : "nobody",
		 from->rank, from->ep, ft_mem_ops(from->kind)->name, (ssize_t) from->off,
		 to->rank, to->ep, ft_mem_ops(to->kind)->name, (ssize_t) to->off,
		 op->type->take && to->call ? " by " : "",
		 op->type->take && to->call ? to->call->name : "", op->size, to->len, op->tag,
		 op->match, op->ignore, op->flags, op->type->take ? when[op->when] : "none");
}
