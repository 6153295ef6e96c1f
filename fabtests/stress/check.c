/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Whether what came is what was planned: completions, data, counters. See stress.h. */
#include <inttypes.h>
#include <stdio.h>

#include "stress.h"

/* The flags that say what has completed; others are the provider's own business. */
#define COMP_FLAGS                                                                             \
	(FI_SEND | FI_RECV | FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_READ | FI_WRITE |    \
	 FI_REMOTE_READ | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA)

/* ---- completions ---- */

/* The operation that remote cq data names */
static struct stress_part *part_by_data(struct stress *s, uint64_t data, int leader)
{
	for (unsigned int n = 0; n < s->round.count; n++) {
		const struct stress_op *op = &s->round.op[n];

		if (op->has_data && op->data == data && s->part[n][TO].mine &&
		    (leader < 0 || (op->type->multi && op->leader == (unsigned int) leader)))
			return &s->part[n][TO];
	}
	return NULL;
}

static struct stress_part *part_by_context(struct stress *s, const void *context)
{
	const uintptr_t at = (uintptr_t) context - (uintptr_t) s->part;

	if (at >= sizeof(s->part) || at % sizeof(struct stress_part))
		return NULL;
	return (struct stress_part *) context;
}

/* One of several completions of a multi-receive. NULL: only the buffer's release */
static int find_multi(struct stress *s, const struct fi_cq_tagged_entry *comp,
		      struct stress_part **found)
{
	struct stress_part *leader = *found;
	const struct stress_op *op = &s->round.op[leader->op];
	const struct stress_end *to = &op->end[TO];
	const char *buf = s->arena[TO][to->kind != FI_HMEM_SYSTEM].addr + to->off;
	const uintptr_t at = (uintptr_t) comp->buf - (uintptr_t) buf;

	if (comp->flags & FI_MULTI_RECV) {
		FT_CHECK(!leader->released, "the buffer of operation %u was released twice",
			 leader->op);
		leader->released = true;
	}
	*found = NULL;
	if (!(comp->flags & FI_RECV))
		return 0;
	*found = part_by_data(s, comp->data, (int) leader->op);
	FT_CHECK(*found,
		 "in the buffer of operation %u arrived a message with data %#" PRIx64
		 ", which is none of its own",
		 leader->op, comp->data);
	FT_CHECK(at <= to->len && comp->len <= to->len - at,
		 "operation %u: %zu bytes at %+zd of the buffer of operation %u, which has %zu",
		 (*found)->op, comp->len, (ssize_t) at, leader->op, to->len);
	s->round.op[(*found)->op].found = at;
	return 0;
}

static int check_comp(const struct stress *s, const struct stress_part *part,
		      const struct fi_cq_tagged_entry *comp, fi_addr_t src, const char *what)
{
	const struct stress_op *op = &s->round.op[part->op];
	const bool arrives = part->end == TO && op->type->starter == FROM;
	uint64_t flags = op->type->flags[part->end];
	/* whether the target is told what kind of write it was is up to the provider */
	const uint64_t compared =
		flags & FI_REMOTE_WRITE ? COMP_FLAGS & ~(FI_RMA | FI_ATOMIC) : COMP_FLAGS;

	if (arrives && op->has_data)
		flags |= FI_REMOTE_CQ_DATA;
	FT_CHECK((comp->flags & compared) == (flags & compared),
		 "%s: completion flags %#" PRIx64 " (%s) instead of %#" PRIx64, what,
		 comp->flags, part->end == TO ? "at its destination" : "at its source", flags);
	if (!arrives)
		return 0;
	FT_CHECK(comp->len == op->size || !op->type->take,
		 "%s: completion says %zu bytes, tag %#" PRIx64, what, comp->len, comp->tag);
	FT_CHECK(!op->has_data || comp->data == op->data,
		 "%s: completion has data %#" PRIx64 " instead of %#" PRIx64, what, comp->data,
		 op->data);
	FT_CHECK(!(flags & FI_TAGGED) || comp->tag == op->tag,
		 "%s: completion has tag %#" PRIx64, what, comp->tag);
	if (s->plan.caps & FI_SOURCE && op->type->take)
		FT_CHECK(src == s->peer[op->end[FROM].ep],
			 "%s: completion has source %#" PRIx64 " instead of %#" PRIx64, what,
			 (uint64_t) src, (uint64_t) s->peer[op->end[FROM].ep]);
	return 0;
}

/*
 * A peek has ended, and what it says of the message is true. That there is data, and who has
 * sent it, core providers need not say.
 */
static int probed(const struct stress *s, struct stress_part *part,
		  const struct fi_cq_tagged_entry *comp, int err)
{
	const struct stress_op *op = &s->round.op[part->op];
	char what[512];

	part->probing = false;
	part->found = !err;
	stress_op_name(op, what, sizeof(what));
	FT_CHECK(!err || err == FI_ENOMSG, "%s: the peek ended with %s", what,
		 fi_strerror(err));
	FT_CHECK(err || (comp->len == op->size && comp->tag == op->tag),
		 "%s: the peek says %zu bytes, tag %#" PRIx64, what, comp->len, comp->tag);
	FT_CHECK(err || !(comp->flags & FI_REMOTE_CQ_DATA) ||
			 (op->has_data && comp->data == op->data),
		 "%s: the peek says data %#" PRIx64, what, comp->data);
	return 0;
}

int stress_completed(struct stress *s, const struct fi_cq_tagged_entry *comp, fi_addr_t src,
		     int err)
{
	struct stress_part *part;
	const struct stress_op *op;
	char what[512];
	int expected;

	/* what others do to our memory has no context of ours */
	if (!err && comp->flags & FI_REMOTE_WRITE)
		part = part_by_data(s, comp->data, -1);
	else
		part = part_by_context(s, comp->op_context);
	if (part && part->probing)
		return probed(s, part, comp, err);
	FT_CHECK(part && part->mine && (part->posted || comp->flags & FI_REMOTE_WRITE),
		 "a completion of nothing that is under way: flags %#" PRIx64 ", data %#" PRIx64
		 ", tag %#" PRIx64 ", %zu bytes, %s",
		 comp->flags, comp->data, comp->tag, comp->len,
		 err ? fi_strerror(err) : "no error");
	op = &s->round.op[part->op];
	if (op->type->multi && part->end == TO && !err) {
		FT_TRY(find_multi(s, comp, &part));
		if (!part)
			return 0;
		op = &s->round.op[part->op];
	}
	stress_op_name(op, what, sizeof(what));
	expected = part->end == TO ? op->type->error : 0;
	FT_CHECK(err == expected, "%s: completed at its %s with %s instead of %s", what,
		 part->end == TO ? "destination" : "source", err ? fi_strerror(err) : "success",
		 expected ? fi_strerror(expected) : "success");
	FT_CHECK(part->wanted, "%s: a completion that was not asked for", what);
	FT_CHECK(!part->done, "%s: completed twice", what);
	part->done = true;
	return err ? 0 : check_comp(s, part, comp, src, what);
}

/* ---- data ---- */

/* Do we have to look for it ourselves? */
static bool unreported(const struct stress_part *part)
{
	return part->mine && part->end == TO && !part->wanted;
}

int stress_arrived(struct stress *s)
{
	for (unsigned int n = 0; n < s->round.count; n++) {
		const struct stress_op *op = &s->round.op[n];
		const struct ft_slot slot = stress_slot(s, op, TO);
		struct stress_part *part = &s->part[n][TO];
		int ret;

		if (!unreported(part) || part->done)
			continue;
		ret = op->type->arrived ? op->type->arrived(s, op)
					: ft_slot_holds(&slot, op->size, op->key);
		if (ret <= 0)
			return ret;
		part->done = true;
	}
	return 1;
}

int stress_check_source(struct stress *s, const struct stress_op *op, const char *what)
{
	const struct ft_slot slot = stress_slot(s, op, FROM);

	/* the injected are overwritten as soon as they may be */
	if (op->end[FROM].call && (op->end[FROM].call->inject || op->flags & FI_INJECT))
		return ft_slot_guards(&slot, 0, what);
	return ft_slot_check(&slot, slot.len, op->key, what);
}

static int check_end(struct stress *s, unsigned int n, int end)
{
	const struct stress_op *op = &s->round.op[n];
	const struct ft_slot slot = stress_slot(s, op, end);
	char name[512], what[560];

	if (!s->part[n][end].mine)
		return 0;
	stress_op_name(op, name, sizeof(name));
	snprintf(what, sizeof(what), "%s, at its %s", name,
		 end == TO ? "destination" : "source");
	FT_CHECK(!op->type->multi || end == FROM || op->leader != n || s->part[n][TO].released,
		 "%s: the full buffer was not released", what);
	if (op->type->check)
		return op->type->check(s, op, end, what);
	return end == TO ? ft_slot_check(&slot, op->size, op->key, what)
			 : stress_check_source(s, op, what);
}

/* ---- counters ---- */

int stress_check_counters(struct stress *s)
{
	for (unsigned int n = 0; n < s->round.count; n++)
		for (int end = 0; end < ENDS; end++) {
			const struct stress_op *op = &s->round.op[n];

			if (s->part[n][end].mine && op->end[end].ep == STRESS_COUNTED &&
			    op->type->counter[end] != CNTR_NONE)
				s->counted[op->type->counter[end]]++;
		}
	for (int i = 0; i < CNTRS; i++) {
		uint64_t value = 0;
		int ret = 0;

		while (s->cntr[i] && (value = fi_cntr_read(s->cntr[i])) < s->counted[i])
			if ((ret = stress_turn(s)))
				break;
		FT_CHECK(!s->cntr[i] || value == s->counted[i],
			 "the counter of %s is %" PRIu64 " after %" PRIu64 " operations",
			 fi_tostr(&stress_counters[i], FI_TYPE_CAPS), value, s->counted[i]);
	}
	return 0;
}

int stress_check_round(struct stress *s)
{
	for (unsigned int n = 0; n < s->round.count; n++) {
		FT_TRY(check_end(s, n, FROM));
		FT_TRY(check_end(s, n, TO));
		s->ops += s->part[n][TO].mine;
		s->bytes += s->part[n][TO].mine ? s->round.op[n].size : 0;
	}
	return 0;
}
