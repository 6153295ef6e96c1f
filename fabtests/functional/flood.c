/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* See flood.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "flood.h"

#define PATIENCE 2000 /* attempts to post a send that the provider has no room for */
#define LOW_BITS 8    /* of a tag, random: a receive may ignore them */

struct message {
	size_t size;
	uint64_t tag, key;
	enum fi_hmem_iface from, to;
	size_t offset;
	bool any_source, ignore_low;
};

struct flood {
	struct ft_proc *proc;
	struct ft_ctx ctx;
	size_t stride;              /* of the slots in the buffers */
	struct ft_buf tx[2], rx[2]; /* by kind; every message has a slot in each */
	struct ft_req tx_req[FLOOD_MAX], rx_req[FLOOD_MAX];
	struct message out[FLOOD_MAX], in[FLOOD_MAX];
	size_t order[FLOOD_MAX]; /* in which receives are posted */
};

/* Both ranks know both directions' messages: the generator depends on sender and round.
 */
static void plan(struct flood *f, const struct flood_round *round, size_t number, int sender,
		 struct message *list)
{
	uint64_t rnd = f->proc->opts.seed * 1000003 + number * 2 + (uint64_t) sender;
	enum fi_hmem_iface kinds[2];
	const size_t kind_count = ft_kinds(&f->proc->opts, kinds);

	for (size_t i = 0; i < round->count; i++) {
		struct message *msg = &list[i];

		if (round->size_count)
			msg->size = round->sizes[ft_random(&rnd) % round->size_count];
		else /* small ones as often as large ones */
			msg->size = ft_random(&rnd) % (round->largest >> ft_random(&rnd) % 16);
		msg->tag = round->one_tag ? 42 : (i << LOW_BITS) + ft_random(&rnd) % 256;
		msg->key = (number * 2 + (uint64_t) sender) * FLOOD_MAX + i;
		msg->from = kinds[ft_random(&rnd) % kind_count];
		msg->to = kinds[ft_random(&rnd) % kind_count];
		msg->offset = ft_random(&rnd) % 64;
		msg->any_source = round->any_source && ft_random(&rnd) % 2;
		msg->ignore_low = round->ignore && ft_random(&rnd) % 2;
	}
}

static void shuffle(struct flood *f, const struct flood_round *round, uint64_t rnd)
{
	for (size_t i = 0; i < round->count; i++)
		f->order[i] = i;
	if (round->one_tag || !round->tagged)
		return;
	for (size_t i = round->count - 1; i > 0; i--) {
		size_t j = ft_random(&rnd) % (i + 1), tmp = f->order[i];

		f->order[i] = f->order[j];
		f->order[j] = tmp;
	}
}

static struct ft_slot slot_of(const struct flood *f, const struct ft_buf *bufs,
			      enum fi_hmem_iface kind, const struct message *msg, size_t i)
{
	return (struct ft_slot){
		.buf = &bufs[kind != FI_HMEM_SYSTEM],
		.base = i * f->stride,
		.room = 64 + msg->offset + msg->size + 64,
		.off = i * f->stride + 64 + msg->offset,
		.len = msg->size,
	};
}

static int post_recv(struct flood *f, const struct flood_round *round, size_t i)
{
	const struct message *msg = &f->in[i];
	const struct ft_slot slot = slot_of(f, f->rx, msg->to, msg, i);
	struct ft_op op = {
		.call = FT_RECV,
		.tagged = round->tagged,
		.addr = msg->any_source ? FI_ADDR_UNSPEC : f->ctx.peer[!f->proc->rank],
		.tag = msg->ignore_low ? msg->tag & ~0xffULL : msg->tag,
		.ignore = msg->ignore_low ? 0xff : 0,
		.req = &f->rx_req[i],
	};

	ft_op_buf(&op, slot.buf, slot.off, slot.len);
	return ft_post(&f->ctx, &op);
}

/* With @patience > 0, gives up on -FI_EAGAIN after so many polls: returns that. */
static int post_send(struct flood *f, const struct flood_round *round, size_t i, int patience)
{
	const struct message *msg = &f->out[i];
	const struct ft_slot slot = slot_of(f, f->tx, msg->from, msg, i);
	struct ft_op op = {
		.call = FT_SEND,
		.tagged = round->tagged,
		.addr = f->ctx.peer[!f->proc->rank],
		.tag = msg->tag,
		.req = &f->tx_req[i],
	};
	ssize_t ret;

	ft_op_buf(&op, slot.buf, slot.off, slot.len);
	if (!patience)
		return ft_post(&f->ctx, &op);
	do {
		int n;

		ret = ft_post_once(&f->ctx, &op);
		if (ret != -FI_EAGAIN)
			return ret ? ft_fail((int) ret, "fi_tsend", "message %zu", i) : 0;
		n = ft_progress(&f->ctx);
		if (n < 0)
			return n;
	} while (--patience);
	return -FI_EAGAIN;
}

static int transfer(struct flood *f, const struct flood_round *round)
{
	const size_t early = round->count * round->early / 100;
	size_t sent = 0, i;

	for (i = 0; i < early; i++)
		FT_TRY(post_recv(f, round, f->order[i]));
	FT_TRY(ft_barrier(f->proc, &f->ctx));
	/* Neither side receives the rest before the other has sent all that goes out. */
	while (sent < round->count) {
		int ret = post_send(f, round, sent, PATIENCE);

		if (ret == -FI_EAGAIN)
			break;
		FT_TRY(ret);
		sent++;
	}
	FT_TRY(ft_barrier(f->proc, &f->ctx));
	for (; i < round->count; i++)
		FT_TRY(post_recv(f, round, f->order[i]));
	for (; sent < round->count; sent++)
		FT_TRY(post_send(f, round, sent, 0));
	FT_TRY(ft_wait(&f->ctx, f->tx_req, round->count));
	return ft_wait(&f->ctx, f->rx_req, round->count);
}

static int check(struct flood *f, const struct flood_round *round, size_t number)
{
	char what[96];

	for (size_t i = 0; i < round->count; i++) {
		const struct message *msg = &f->in[i];
		const struct ft_slot slot = slot_of(f, f->rx, msg->to, msg, i);
		const struct fi_cq_tagged_entry *comp = &f->rx_req[i].comp;

		snprintf(what, sizeof(what), "round %zu message %zu (%zu bytes, %s to %s)",
			 number, i, msg->size, ft_mem_ops(msg->from)->name,
			 ft_mem_ops(msg->to)->name);
		FT_CHECK(comp->len == msg->size, "%s: %zu bytes arrived", what, comp->len);
		FT_CHECK(!round->tagged || comp->tag == msg->tag,
			 "%s: tag %#" PRIx64 " instead of %#" PRIx64, what, comp->tag,
			 msg->tag);
		FT_TRY(ft_slot_check(&slot, msg->size, msg->key, what));
	}
	return 0;
}

static int one_round(struct flood *f, const struct flood_round *round, size_t number)
{
	plan(f, round, number, f->proc->rank, f->out);
	plan(f, round, number, !f->proc->rank, f->in);
	shuffle(f, round, f->proc->opts.seed + number);
	for (size_t i = 0; i < round->count; i++) {
		struct ft_slot out = slot_of(f, f->tx, f->out[i].from, &f->out[i], i);
		struct ft_slot in = slot_of(f, f->rx, f->in[i].to, &f->in[i], i);

		FT_TRY(ft_slot_fill(&out, f->out[i].key));
		FT_TRY(ft_slot_arm(&in));
	}
	FT_TRY(transfer(f, round));
	return check(f, round, number);
}

static int run_rounds(struct flood *f, const struct flood_round *rounds, size_t count)
{
	enum fi_hmem_iface kinds[2];
	const size_t kind_count = ft_kinds(&f->proc->opts, kinds);
	size_t largest = 0, slots = 0;

	for (size_t i = 0; i < count; i++) {
		largest = FT_MAX(largest, rounds[i].largest);
		slots = FT_MAX(slots, rounds[i].count);
	}
	f->stride = largest + FT_ROOM;
	FT_TRY(ft_test_hints(f->proc, &f->ctx));
	FT_TRY(ft_test_open(f->proc, &f->ctx));
	FT_TRY(ft_test_connect(f->proc, &f->ctx));
	for (size_t i = 0; i < kind_count; i++) {
		FT_TRY(ft_buf_alloc(&f->ctx, &f->tx[i], kinds[i], slots * f->stride));
		FT_TRY(ft_buf_alloc(&f->ctx, &f->rx[i], kinds[i], slots * f->stride));
	}
	for (size_t i = 0; i < count; i++) {
		struct flood_round round = rounds[i];

		round.tagged &= ft_has_tags(&f->ctx);
		FT_TRY(one_round(f, &round, i));
	}
	FT_TRY(ft_barrier(f->proc, &f->ctx));
	for (size_t i = 0; i < kind_count; i++) {
		ft_buf_free(&f->tx[i]);
		ft_buf_free(&f->rx[i]);
	}
	return ft_close(&f->ctx);
}

int flood(struct ft_proc *proc, const struct flood_round *rounds, size_t count)
{
	struct flood *f = calloc(1, sizeof(*f));
	int ret;

	if (!f)
		return ft_fail(-FI_ENOMEM, "calloc", "%zu bytes", sizeof(*f));
	f->proc = proc;
	ret = run_rounds(f, rounds, count);
	/* After an error operations may still be under way into it: leave it to exit. */
	if (!ret)
		free(f);
	return ret;
}
