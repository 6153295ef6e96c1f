/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The scenes of fi_p2p_kill, and their operations. See kill.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kill.h"

#define LONG ((size_t) 1048577)
#define LENT ((size_t) 30000)
#define SHORT ((size_t) 3000)
#define MANY ((size_t) 70001) /* of a message for a buffer for many: it is announced */
#define MULTI_MESSAGES 6
#define MULTI ((MULTI_MESSAGES + 2) * (MANY + 1000))
#define PARTS 4
#define ALIGN(n) (((n) + 63) & ~(size_t) 63)
#define OPERAND sizeof(uint64_t) /* of KILL_FETCH, behind its guards */

#define RECVS(by, len, count)                                                                  \
	{                                                                                      \
		by, KILL_RECV, KILL_FIRST, len, count                                          \
	}
#define SENDS(by, len, count)                                                                  \
	{                                                                                      \
		by, KILL_SEND, KILL_THEN, len, count                                           \
	}
#define LATER(by, kind, len, count)                                                            \
	{                                                                                      \
		by, kind, KILL_AFTER, len, count                                               \
	}
#define THEN(by, kind, len, count)                                                             \
	{                                                                                      \
		by, kind, KILL_THEN, len, count                                                \
	}

/** struct scene - @unmet: its messages wait for their receives; they are from device memory */
static const struct scene {
	const char *name;
	bool unmet;
	struct kill_part parts[PARTS];
} scenes[] = {
	{"long-out", false, {RECVS(VICTIM, LONG, 4), SENDS(SURVIVOR, LONG, 4)}},
	{"long-in", false, {RECVS(SURVIVOR, LONG, 4), SENDS(VICTIM, LONG, 4)}},
	{"lent-out", false, {RECVS(VICTIM, LENT, 16), SENDS(SURVIVOR, LENT, 16)}},
	{"lent-in", false, {RECVS(SURVIVOR, LENT, 16), SENDS(VICTIM, LENT, 16)}},
	{"short-out", false, {RECVS(VICTIM, SHORT, 32), SENDS(SURVIVOR, SHORT, 32)}},
	{"short-in", false, {RECVS(SURVIVOR, SHORT, 32), SENDS(VICTIM, SHORT, 32)}},
	{"multi-out",
	 false,
	 {{VICTIM, KILL_MULTI, KILL_FIRST, MULTI, 1},
	  THEN(SURVIVOR, KILL_SEND_MULTI, MANY, MULTI_MESSAGES)}},
	{"multi-in",
	 false,
	 {{SURVIVOR, KILL_MULTI, KILL_FIRST, MULTI, 1},
	  THEN(VICTIM, KILL_SEND_MULTI, MANY, MULTI_MESSAGES)}},
	{"write",
	 false,
	 {THEN(SURVIVOR, KILL_WRITE, SHORT, 16), THEN(SURVIVOR, KILL_WRITE, LENT, 8),
	  THEN(SURVIVOR, KILL_WRITE, LONG, 2)}},
	{"read",
	 false,
	 {THEN(SURVIVOR, KILL_READ, SHORT, 16), THEN(SURVIVOR, KILL_READ, LENT, 8),
	  THEN(SURVIVOR, KILL_READ, LONG, 2)}},
	{"fetch", false, {THEN(SURVIVOR, KILL_FETCH, OPERAND, 32)}},
	{"written",
	 false,
	 {THEN(VICTIM, KILL_WRITE, SHORT, 16), THEN(VICTIM, KILL_WRITE, LENT, 8),
	  THEN(VICTIM, KILL_WRITE, LONG, 2)}},
	{"read-from",
	 false,
	 {THEN(VICTIM, KILL_READ, SHORT, 16), THEN(VICTIM, KILL_READ, LENT, 8),
	  THEN(VICTIM, KILL_READ, LONG, 2)}},
	{"fetched-from", false, {THEN(VICTIM, KILL_FETCH, OPERAND, 32)}},
	{"afterwards",
	 false,
	 {LATER(SURVIVOR, KILL_SEND, LONG, 1), LATER(SURVIVOR, KILL_SEND, SHORT, 2),
	  LATER(VICTIM, KILL_RECV, LONG, 1), LATER(VICTIM, KILL_RECV, SHORT, 2)}},
	{"unmet-out", true, {SENDS(SURVIVOR, LONG, 3), LATER(VICTIM, KILL_RECV, LONG, 3)}},
	{"unmet-in", true, {SENDS(VICTIM, LONG, 3), LATER(SURVIVOR, KILL_RECV, LONG, 3)}},
	{"unmet-lent-out", true, {SENDS(SURVIVOR, LENT, 4), LATER(VICTIM, KILL_RECV, LENT, 4)}},
	{"unmet-lent-in", true, {SENDS(VICTIM, LENT, 4), LATER(SURVIVOR, KILL_RECV, LENT, 4)}},
};

/* ---- which there are ---- */

uint64_t kill_scenes_unmet(void)
{
	uint64_t mask = 0;

	for (size_t i = 0; i < FT_COUNT(scenes); i++)
		mask |= (uint64_t) scenes[i].unmet << i;
	return mask;
}

bool kill_is_ours(const struct ft_opts *opts)
{
	return opts->iface != FI_HMEM_SYSTEM && !ft_hook_active() && ft_has_ours(opts);
}

uint64_t kill_scenes(const struct ft_opts *opts, const char *list)
{
	uint64_t mask = 0;

	for (size_t i = 0; i < FT_COUNT(scenes); i++)
		if (ft_is_listed(list, scenes[i].name) &&
		    (!scenes[i].unmet || kill_is_ours(opts)))
			mask |= (uint64_t) 1 << i;
	return mask;
}

const char *kill_scene_name(size_t place)
{
	return place < FT_COUNT(scenes) ? scenes[place].name : NULL;
}

/* ---- the operations ---- */

static bool on_remote(const struct kill_part *part)
{
	return part->kind >= KILL_WRITE;
}

bool kill_receives(const struct kill_op *op)
{
	return op->part->kind == KILL_RECV || op->part->kind == KILL_MULTI;
}

enum fi_hmem_iface kill_memory(const struct kill_side *s, int rank)
{
	return s->plan->device[rank] ? s->proc->opts.iface : FI_HMEM_SYSTEM;
}

/* Takes a place for @len bytes and their guards, at @at */
static struct ft_slot place(const struct ft_buf *buf, size_t *at, size_t len)
{
	const struct ft_slot slot = {buf, *at, len + FT_ROOM, *at + 64, len};

	*at = ALIGN(*at + len + FT_ROOM + OPERAND);
	return slot;
}

/* Calls @each for every operation of either rank, in an order that both know */
static int for_each(struct kill_side *s, enum kill_when when,
		    int (*each)(struct kill_side *s, const struct kill_part *part,
				const char *scene, uint64_t key))
{
	for (size_t i = 0; i < FT_COUNT(scenes); i++) {
		if (!(s->plan->scenes >> i & 1))
			continue;
		for (size_t p = 0; p < PARTS; p++) {
			const struct kill_part *part = &scenes[i].parts[p];
			/* sender and receiver are the same place in different parts */
			const bool second = p && part->by == part[-1].by;

			if (part->when != when || !(s->kinds >> part->kind & 1))
				continue;
			for (size_t n = 0; n < part->count; n++)
				FT_TRY(each(s, part, scenes[i].name,
					    (i + 1) << 16 | (size_t) second << 8 | n));
		}
	}
	return 0;
}

/* @key is also the tag; for a buffer for many, its messages' keys count from it */
static int add(struct kill_side *s, const struct kill_part *part, const char *scene,
	       uint64_t key)
{
	const bool own = part->by == s->proc->rank;
	struct kill_op *op = own ? &s->ops[s->count++] : &s->theirs[s->their_count];

	FT_CHECK(s->count < KILL_OPS_MAX && s->their_count < KILL_OPS_MAX,
		 "a round has more than %d operations", KILL_OPS_MAX);
	op->part = part;
	op->scene = scene;
	op->key = key;
	if (own)
		op->slot = place(&s->data, &s->data_len, part->len);
	if (on_remote(part))
		op->there = place(&s->shared, &s->shared_len[part->by], part->len);
	s->their_count += !own && on_remote(part);
	return 0;
}

/* In hook mode nobody reaches device memory of others */
static enum fi_hmem_iface shared_memory(const struct kill_side *s, int rank)
{
	return ft_hook_active() ? FI_HMEM_SYSTEM : kill_memory(s, rank);
}

int kill_ops_make(struct kill_side *s)
{
	const int rank = s->proc->rank;

	for (int when = 0; when < KILL_TIMES; when++)
		FT_TRY(for_each(s, (enum kill_when) when, add));
	FT_TRY(ft_buf_alloc(&s->ctx, &s->data, kill_memory(s, rank), s->data_len + 64));
	FT_TRY(ft_buf_alloc(&s->ctx, &s->shared, shared_memory(s, rank),
			    s->shared_len[s->peer] + 64));
	return ft_buf_share(&s->ctx, &s->shared, FI_REMOTE_READ | FI_REMOTE_WRITE);
}

void kill_ops_free(struct kill_side *s)
{
	ft_buf_free(&s->data);
	ft_buf_free(&s->shared);
}

static int put(const struct ft_slot *slot, size_t off, uint64_t value)
{
	return slot->buf->ops->to(slot->buf->addr + slot->base + off, &value, sizeof(value));
}

static int value_at(const struct ft_slot *slot, uint64_t *value)
{
	return slot->buf->ops->from(value, slot->buf->addr + slot->off, sizeof(*value));
}

int kill_ops_fill(struct kill_side *s)
{
	for (size_t i = 0; i < s->count; i++) {
		struct kill_op *op = &s->ops[i];
		const bool out = op->part->kind == KILL_SEND || op->part->kind == KILL_WRITE ||
				 op->part->kind == KILL_SEND_MULTI;

		FT_TRY(out ? ft_slot_fill(&op->slot, op->key) : ft_slot_arm(&op->slot));
		if (op->part->kind == KILL_FETCH)
			FT_TRY(put(&op->slot, op->slot.room, 1));
	}
	for (size_t i = 0; i < s->their_count; i++) {
		struct kill_op *op = &s->theirs[i];
		const bool out = op->part->kind == KILL_READ;

		FT_TRY(out ? ft_slot_fill(&op->there, op->key) : ft_slot_arm(&op->there));
		if (op->part->kind == KILL_FETCH)
			FT_TRY(put(&op->there, 64, op->key));
	}
	return 0;
}

/* ---- posting ---- */

static int take_message(struct kill_op *op, const struct fi_cq_tagged_entry *comp)
{
	const char *start = op->slot.buf->addr + op->slot.off;

	FT_CHECK((char *) comp->buf >= start &&
			 (char *) comp->buf + comp->len <= start + op->slot.len,
		 "a message of %zu bytes beside its buffer", comp->len);
	/* the third rank's have other keys */
	op->others += comp->data >> 16 != op->key >> 16;
	op->messages++;
	return ft_verify(op->slot.buf, (size_t) ((char *) comp->buf - op->slot.buf->addr),
			 comp->len, comp->data);
}

/* Messages in a buffer for many are checked as they come. The last one is the buffer's end, too. */
static int took(struct ft_ctx *ctx, const struct fi_cq_tagged_entry *comp)
{
	struct kill_side *s =
		(struct kill_side *) ((char *) ctx - offsetof(struct kill_side, ctx));

	for (size_t i = 0; i < s->count; i++) {
		struct kill_op *op = &s->ops[i];

		if (comp->op_context != &op->req || op->part->kind != KILL_MULTI)
			continue;
		if (comp->flags & FI_RECV)
			FT_TRY(take_message(op, comp));
		return !(comp->flags & FI_MULTI_RECV);
	}
	return 0;
}

static ssize_t post_message(struct kill_side *s, struct kill_op *op)
{
	struct ft_op msg = {
		.call = kill_receives(op) ? FT_RECV : FT_SEND,
		.tagged = true,
		.addr = s->ctx.peer[s->peer],
		.tag = op->key,
		.req = &op->req,
	};

	ft_op_buf(&msg, op->slot.buf, op->slot.off, op->slot.len);
	if (op->part->kind == KILL_MULTI) {
		msg.call = FT_RECVMSG;
		msg.flags = FI_MULTI_RECV;
		msg.tagged = false;
		msg.addr = FI_ADDR_UNSPEC;
		s->ctx.took = took;
	} else if (op->part->kind == KILL_SEND_MULTI) {
		msg.call = FT_SENDDATA;
		msg.tagged = false;
		msg.data = op->key;
	}
	return ft_post_once(&s->ctx, &msg);
}

static ssize_t post_once(struct kill_side *s, struct kill_op *op)
{
	const struct ft_buf *buf = op->slot.buf;
	char *at = buf->addr + op->slot.off;
	const uint64_t to = s->note.base + op->there.off;
	const fi_addr_t peer = s->ctx.peer[s->peer];
	struct fid_ep *ep = s->ctx.ep;

	switch (op->part->kind) {
	case KILL_WRITE:
		return fi_write(ep, at, op->slot.len, buf->desc, peer, to, s->note.key,
				&op->req);
	case KILL_READ:
		return fi_read(ep, at, op->slot.len, buf->desc, peer, to, s->note.key,
			       &op->req);
	case KILL_FETCH:
		return fi_fetch_atomic(ep, buf->addr + op->slot.base + op->slot.room, 1,
				       buf->desc, at, buf->desc, peer, to, s->note.key,
				       FI_UINT64, FI_SUM, &op->req);
	default:
		return post_message(s, op);
	}
}

/*
 * The first message that could be lent travels whole, and so does any that finds no other under way. Over verbs, in an
 * emulated machine, that may be the next one.
 */
static bool may_come_whole(const struct kill_side *s, const struct kill_op *op)
{
	return op->part->kind == KILL_RECV && op->part->len == LENT &&
	       (!(op->key & 0xff) || ft_over_verbs(&s->proc->opts));
}

/*
 * A receive that meets a whole message of a lost peer is the core's alone: ofi_rxm (1.17, 2.1) crashes when it
 * reads from a connection that is no more.
 */
static bool meets_whole(const struct kill_side *s, const struct kill_op *op)
{
	return s->plan->fate != KILL_LATE && op->part->when == KILL_AFTER &&
	       may_come_whole(s, op);
}

/*
 * The core may be fetching a message that travels whole when its sender stops for good: then it has the receive,
 * and does not give it back. Short messages arrive at once; with the hook all others travel whole, and those to a buffer
 * for many always do.
 */
static bool may_be_fetched(const struct kill_side *s, const struct kill_op *op)
{
	const bool pieces = s->plan->device[s->peer] && ft_is_p2p(&s->ctx);
	const bool whole = op->part->len > SHORT && (op->part->kind == KILL_MULTI ||
						     (op->part->kind == KILL_RECV && !pieces));

	return s->plan->fate == KILL_STOP && (whole || may_come_whole(s, op));
}

/* What cannot be posted any more to a peer that is lost is not posted: nothing will come of it. */
int kill_post_due(struct kill_side *s)
{
	const bool lost = s->when == KILL_AFTER && s->plan->fate != KILL_PAUSE;
	struct kill_op *op;
	ssize_t ret;

	while (s->next < s->count && s->ops[s->next].part->when <= s->when) {
		op = &s->ops[s->next];
		ret = lost && (op->part->when != KILL_AFTER || meets_whole(s, op))
			      ? -FI_EAGAIN
			      : post_once(s, op);
		if (ret == -FI_EAGAIN && !lost)
			return 0;
		if (ret && s->plan->fate == KILL_PAUSE)
			return ft_fail((int) ret, "posting", "%s", op->scene);
		op->posted = !ret;
		op->refused = ret;
		s->next++;
		ft_progress_note();
	}
	return 0;
}

bool kill_posted(const struct kill_side *s)
{
	return s->next == s->count || s->ops[s->next].part->when == KILL_AFTER;
}

bool kill_must_end(const struct kill_side *s, const struct kill_op *op)
{
	/* who has not been greeted yet is not known to keep alive; the core has such messages whole */
	return op->posted && ft_is_p2p(&s->ctx) && s->plan->device[s->proc->rank] &&
	       (!on_remote(op->part) || s->plan->device[s->peer]) && !s->plan->cold &&
	       !may_be_fetched(s, op);
}

bool kill_fetches(const struct kill_side *s)
{
	for (size_t i = 0; i < s->count; i++) {
		const struct kill_op *op = &s->ops[i];

		/* of a staged one that was cancelled, too */
		if (op->posted && (!op->req.done || op->req.err) && may_be_fetched(s, op))
			return true;
	}
	return false;
}

void kill_cancel(struct kill_side *s)
{
	for (size_t i = 0; i < s->count; i++) {
		struct kill_op *op = &s->ops[i];

		if (op->posted && !op->req.done && kill_receives(op))
			fi_cancel(&s->ctx.ep->fid, &op->req);
	}
}

/* ---- what has come of them ---- */

static int check_error(struct kill_side *s, struct kill_op *op)
{
	const char *text;

	if (op->req.err != FI_ECANCELED) {
		text = fi_cq_strerror(s->ctx.cq, op->req.prov_errno, NULL, NULL, 0);
		/* cores leave it out, e.g. net (1.17) */
		FT_CHECK(op->req.err > 0 && text && *text &&
				 (op->req.prov_errno || !kill_must_end(s, op)),
			 "%s: error %d, prov_errno %d, '%s'", op->scene, op->req.err,
			 op->req.prov_errno, text ? text : "no text");
	}
	return op->part->kind == KILL_MULTI ? 0 : ft_slot_arm(&op->slot);
}

static int check_success(const struct kill_op *op)
{
	uint64_t value;

	switch (op->part->kind) {
	case KILL_RECV:
	case KILL_READ:
		return ft_slot_check(&op->slot, op->slot.len, op->key, op->scene);
	case KILL_FETCH:
		FT_TRY(value_at(&op->slot, &value));
		FT_CHECK(value == op->key, "%s: %#" PRIx64 " was fetched, and not %#" PRIx64,
			 op->scene, value, op->key);
		return ft_slot_guards(&op->slot, op->slot.len, op->scene);
	default:
		return 0;
	}
}

int kill_settle(struct kill_side *s, bool whole)
{
	for (size_t i = 0; i < s->count; i++) {
		struct kill_op *op = &s->ops[i];

		if (!op->req.done || op->settled)
			continue;
		op->settled = true;
		FT_CHECK(!whole || !op->req.err || op->part->kind == KILL_MULTI,
			 "%s: ended with %d (%s), and the peer lives", op->scene, op->req.err,
			 fi_strerror(op->req.err));
		FT_TRY(op->req.err ? check_error(s, op) : check_success(op));
	}
	return 0;
}

int kill_untouched(const struct kill_side *s)
{
	for (size_t i = 0; i < s->count; i++) {
		const struct kill_op *op = &s->ops[i];

		if (op->settled && op->req.err && op->part->kind != KILL_MULTI)
			FT_TRY(ft_slot_guards(&op->slot, 0, op->scene));
	}
	return 0;
}

int kill_written(const struct kill_side *s)
{
	uint64_t value;
	int ret;

	for (size_t i = 0; i < s->count; i++) {
		const struct kill_op *op = &s->ops[i];

		if (op->part->kind == KILL_MULTI && op->messages - op->others < MULTI_MESSAGES)
			return 0;
	}
	for (size_t i = 0; i < s->their_count; i++) {
		const struct kill_op *op = &s->theirs[i];

		if (op->part->kind == KILL_WRITE) {
			ret = ft_slot_holds(&op->there, op->there.len, op->key);
			if (ret <= 0)
				return ret;
		} else if (op->part->kind == KILL_FETCH) {
			FT_TRY(value_at(&op->there, &value));
			if (value != op->key + 1)
				return 0;
		}
	}
	return 1;
}

void kill_op_print(const struct kill_op *op)
{
	static const char *const names[] = {"send",    "send to a buffer for many",
					    "receive", "buffer for many",
					    "write",   "read",
					    "fetch"};

	printf("  %s: %s of %zu bytes, key %#" PRIx64 ": ", op->scene, names[op->part->kind],
	       op->part->len, op->key);
	if (!op->posted)
		printf("not posted\n");
	else if (!op->req.done)
		printf("has not ended\n");
	else
		printf("ended with %d (%s)\n", op->req.err, fi_strerror(op->req.err));
}
