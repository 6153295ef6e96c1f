/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What is done at the two ends of a lane: see load.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "load.h"

#define SPOKE_BITS 8

enum { MAIN, BACK }; /* struct load.mem */

/* ---- an operation ---- */

uint64_t load_key(const struct load_end *end, uint64_t number)
{
	return (number * LOAD_KINDS_MAX + end->lane) << SPOKE_BITS | end->spoke;
}

static uint64_t chance(const struct load *load, const struct load_end *end, uint64_t number)
{
	uint64_t rnd = load_key(end, number) + (load->proc->opts.seed << 48);

	return ft_random(&rnd);
}

size_t load_size(const struct load *load, const struct load_end *end)
{
	const struct load_kind *kind = end->kind;

	return kind->least + chance(load, end, end->number) % (kind->most - kind->least + 1);
}

size_t load_shift(const struct load *load, const struct load_end *end)
{
	return (chance(load, end, end->number) >> 32) % LOAD_MARGIN;
}

size_t load_stride(const struct load_kind *kind)
{
	return kind->burst ? kind->burst * (kind->most + LOAD_MARGIN)
			   : kind->most + 3 * LOAD_MARGIN;
}

/* Where an operation's data is; atomic operations want it aligned, others do not get it so */
static struct ft_slot slot_of(struct load *load, const struct load_end *end, int which)
{
	const size_t base = end->spoke * load_stride(end->kind), len = load_size(load, end);
	const size_t shift = end->kind->caps & FI_ATOMIC ? 0 : load_shift(load, end);

	return (struct ft_slot){
		.buf = &load->mem[end->lane][which],
		.base = base,
		.room = 2 * LOAD_MARGIN + shift + len,
		.off = base + LOAD_MARGIN + shift,
		.len = len,
	};
}

const char *load_name(const struct load_end *end)
{
	static char text[128];

	snprintf(text, sizeof(text), "%s, spoke %u, operation %" PRIu64, end->kind->name,
		 end->spoke, end->number);
	return text;
}

struct ft_op load_op(const struct load *load, const struct load_end *end, enum ft_call call)
{
	return (struct ft_op){
		.call = call,
		.tagged = true,
		.addr = load->peer[load->proc->rank ? 0 : end->spoke],
		.tag = (uint64_t) end->lane << SPOKE_BITS | end->spoke,
		.data = load_key(end, end->number) & UINT32_MAX,
	};
}

static ssize_t post_message(struct load *load, struct load_end *end, enum ft_call call,
			    bool tagged, uint64_t flags)
{
	const struct ft_slot slot = slot_of(load, end, MAIN);
	struct ft_op op = load_op(load, end, call);

	op.tagged = tagged;
	op.flags = flags;
	op.req = &end->req;
	ft_op_buf(&op, slot.buf, slot.off, slot.len);
	return ft_post_once(load_ctx(load, end), &op);
}

static bool no_room(const struct load *load, ssize_t ret)
{
	return ret == -FI_EAGAIN || (ret == -FI_ENOMEM && load->quirks & QUIRK_NOMEM);
}

/* ---- messages ---- */

static int fill(struct load *load, struct load_end *end)
{
	const struct ft_slot slot = slot_of(load, end, MAIN);

	return ft_slot_fill(&slot, load_key(end, end->number));
}

static int arm(struct load *load, struct load_end *end)
{
	const struct ft_slot slot = slot_of(load, end, MAIN);

	return ft_slot_arm(&slot);
}

static int holds(struct load *load, struct load_end *end, int which)
{
	const struct ft_slot slot = slot_of(load, end, which);

	FT_TRY(ft_slot_check(&slot, slot.len, load_key(end, end->number), load_name(end)));
	return 1;
}

static int sent(struct load *load, struct load_end *end)
{
	return holds(load, end, MAIN);
}

_Atomic uint64_t *load_ready(struct load *load, const struct load_end *end)
{
	return &load->ready[end->lane * LOAD_SPOKES_MAX + end->spoke];
}

static ssize_t post_send(struct load *load, struct load_end *end)
{
	if (load->expected && *load_ready(load, end) <= end->number)
		return -FI_EAGAIN;
	return post_message(load, end, FT_SEND, true, 0);
}

const struct load_role load_send = {.prepare = fill, .post = post_send, .ended = sent};

static ssize_t post_untagged(struct load *load, struct load_end *end)
{
	return post_message(load, end, FT_SENDDATA, false, 0);
}

const struct load_role load_send_untagged = {
	.prepare = fill,
	.post = post_untagged,
	.ended = sent,
};

static ssize_t post_recv(struct load *load, struct load_end *end)
{
	ssize_t ret = post_message(load, end, FT_RECV, true, 0);

	if (!ret)
		*load_ready(load, end) = end->number + 1;
	return ret;
}

static int received(struct load *load, struct load_end *end)
{
	FT_CHECK(end->req.comp.len == load_size(load, end), "%s: %zu bytes instead of %zu",
		 load_name(end), end->req.comp.len, load_size(load, end));
	return holds(load, end, MAIN);
}

const struct load_role load_recv = {
	.prepare = arm,
	.post = post_recv,
	.ended = received,
	.counts = true,
};

/* ---- peeks: until the message is there, then its receive ---- */

enum { PEEK, CLAIM };

static ssize_t post_peek(struct load *load, struct load_end *end)
{
	struct ft_op peek = load_op(load, end, FT_RECVMSG);

	peek.flags = FI_PEEK | FI_CLAIM | FI_COMPLETION;
	peek.req = &end->req;
	if (end->phase == CLAIM)
		return post_message(load, end, FT_RECVMSG, true, FI_CLAIM | FI_COMPLETION);
	return ft_post_once(load_ctx(load, end), &peek);
}

static int peeked(struct load *load, struct load_end *end)
{
	if (end->phase == PEEK && end->req.err == FI_ENOMSG) {
		end->req.err = 0;
		return 0;
	}
	if (end->phase++ == CLAIM)
		return received(load, end);
	FT_CHECK(end->req.comp.len == load_size(load, end), "%s: the peek says %zu bytes",
		 load_name(end), end->req.comp.len);
	return 0;
}

const struct load_role load_peek = {
	.prepare = arm,
	.post = post_peek,
	.ended = peeked,
	.counts = true,
};

/* ---- the hub's buffers for many messages ---- */

const struct load_role load_multi = {.counts = true};

int load_multi_post(struct load *load, struct load_multi_buf *multi)
{
	struct ft_op op = {
		.call = FT_RECVMSG,
		.addr = FI_ADDR_UNSPEC,
		.flags = FI_MULTI_RECV | FI_COMPLETION,
		.req = &multi->req,
	};
	ssize_t ret;

	ft_op_buf(&op, &multi->buf, 0, LOAD_MULTI_LEN);
	ret = ft_post_once(&load->ctx[0], &op);
	multi->posted = !ret;
	return ret && !no_room(load, ret) ? ft_fail((int) ret, "fi_recvmsg", "FI_MULTI_RECV")
					  : 0;
}

/* A message's data is the lower half of its key: whose it is, and which one */
static int take_message(struct load *load, const struct load_multi_buf *multi,
			const struct fi_cq_tagged_entry *comp)
{
	const unsigned int spoke = comp->data & ((1 << SPOKE_BITS) - 1);
	const unsigned int lane = (comp->data >> SPOKE_BITS) % LOAD_KINDS_MAX;
	const size_t off = (size_t) ((char *) comp->buf - multi->buf.addr);
	struct load_end *end = spoke < load->spokes ? load_end_of(load, lane, spoke) : NULL;
	uint64_t key;

	FT_CHECK(end && end->role == &load_multi, "data %#" PRIx64 " is no lane's", comp->data);
	key = load_key(end, end->number);
	FT_CHECK((uint32_t) key == comp->data && end->number < end->target,
		 "%s: data %#" PRIx64 " instead of %#" PRIx64, load_name(end), comp->data,
		 key & UINT32_MAX);
	FT_CHECK(comp->len == load_size(load, end) && off < LOAD_MULTI_LEN &&
			 comp->len <= LOAD_MULTI_LEN - off,
		 "%s: %zu bytes at %zd", load_name(end), comp->len, (ssize_t) off);
	FT_TRY(ft_verify(&multi->buf, off, comp->len, key));
	load_count(load, end);
	return 0;
}

int load_took(struct ft_ctx *ctx, const struct fi_cq_tagged_entry *comp)
{
	struct load *load = ctx->test;

	for (int i = 0; i < LOAD_MULTIS; i++) {
		struct load_multi_buf *multi = &load->multi[i];

		if (comp->op_context != &multi->req)
			continue;
		if (comp->flags & FI_RECV)
			FT_TRY(take_message(load, multi, comp));
		if (comp->flags & FI_MULTI_RECV)
			multi->posted = false;
		return 1;
	}
	return 0;
}

/* ---- the other end's memory: written and read back ---- */

enum { WRITE, READ };

static ssize_t post_put(struct load *load, struct load_end *end)
{
	const struct ft_slot slot = slot_of(load, end, end->phase == WRITE ? MAIN : BACK);
	const struct load_far *far = &load->far[end->lane];
	struct fid_ep *ep = load_ctx(load, end)->ep;
	void *desc = slot.buf->desc;
	const struct iovec iov = {slot.buf->addr + slot.off, slot.len};
	const struct fi_rma_iov rma = {far->addr + slot.off, slot.len, far->key};
	const struct fi_msg_rma msg = {
		.msg_iov = &iov,
		.desc = &desc,
		.iov_count = 1,
		.addr = load->peer[load->proc->rank ? 0 : end->spoke],
		.rma_iov = &rma,
		.rma_iov_count = 1,
		.context = &end->req,
	};

	return end->phase == WRITE ? fi_writemsg(ep, &msg, FI_COMPLETION | load->delivery)
				   : fi_readmsg(ep, &msg, FI_COMPLETION);
}

static int put(struct load *load, struct load_end *end)
{
	const struct ft_slot back = slot_of(load, end, BACK);

	if (end->phase++ == READ)
		return holds(load, end, BACK);
	FT_TRY(ft_slot_arm(&back));
	FT_CHECK(holds(load, end, MAIN) == 1, "%s: what was written has changed",
		 load_name(end));
	return 0;
}

const struct load_role load_put = {
	.prepare = fill,
	.post = post_put,
	.ended = put,
	.counts = true,
};

/* ---- atomic operations: sums, of which each brings back the one before ---- */

static int prepare_add(struct load *load, struct load_end *end)
{
	const struct ft_slot back = slot_of(load, end, BACK);

	FT_TRY(ft_slot_arm(&back));
	return fill(load, end);
}

static ssize_t post_add(struct load *load, struct load_end *end)
{
	const struct ft_slot slot = slot_of(load, end, MAIN), back = slot_of(load, end, BACK);
	const struct load_far *far = &load->far[end->lane];

	return fi_fetch_atomic(load_ctx(load, end)->ep, slot.buf->addr + slot.off,
			       LOAD_ELEMENTS, slot.buf->desc, back.buf->addr + back.off,
			       back.buf->desc, load->peer[load->proc->rank ? 0 : end->spoke],
			       far->addr + slot.off, far->key, FI_UINT64, FI_SUM, &end->req);
}

static int added(struct load *load, struct load_end *end)
{
	const struct ft_slot back = slot_of(load, end, BACK);
	uint64_t operand[LOAD_ELEMENTS];
	unsigned char *mem;

	FT_TRY(ft_slot_guards(&back, back.len, load_name(end)));
	FT_TRY(ft_slot_read(&back, &mem));
	FT_CHECK(!memcmp(mem + LOAD_MARGIN, end->sum, sizeof(end->sum)),
		 "%s: not the sum of those before", load_name(end));
	ft_pattern_fill(operand, sizeof(operand), load_key(end, end->number));
	for (int i = 0; i < LOAD_ELEMENTS; i++)
		end->sum[i] += operand[i];
	return holds(load, end, MAIN);
}

const struct load_role load_add = {
	.prepare = prepare_add,
	.post = post_add,
	.ended = added,
	.counts = true,
};

int load_check_targets(struct load *load)
{
	for (size_t i = 0; i < load->end_count; i++) {
		const struct load_end *end = &load->end[i];
		struct ft_slot slot = slot_of(load, end, MAIN);

		if (end->role || !slot.buf->addr)
			continue;
		/* those before may have been longer, and begun elsewhere */
		slot.room = load_stride(end->kind);
		slot.off = slot.base + LOAD_MARGIN;
		slot.len = slot.room - 2 * LOAD_MARGIN;
		FT_TRY(ft_slot_guards(&slot, slot.len, load_name(end)));
	}
	return 0;
}

/* ---- a step ---- */

static bool over(struct load_end *end)
{
	return end->part ? load_burst_over(end) : end->req.done;
}

int load_step(struct load *load, struct load_end *end)
{
	ssize_t ret;

	if (!end->role || !end->role->post || (end->posted && !over(end)))
		return 0;
	if (end->posted) {
		end->posted = false;
		/* what has failed has nothing to check; a peek that finds nothing has not */
		ret = end->req.err && end->req.err != FI_ENOMSG ? -end->req.err
								: end->role->ended(load, end);
		if (ret < 0 || end->req.err)
			return ft_fail(end->req.err ? -end->req.err : (int) ret, "operation",
				       "%s", load_name(end));
		if (ret)
			load_count(load, end);
	}
	if (end->number == end->target)
		return 0;
	if (!end->prepared)
		FT_TRY(end->role->prepare(load, end));
	end->prepared = true;
	/* the context is the core's, who may have claimed a message by it */
	end->req.done = false;
	end->req.err = 0;
	/* it may be over before the call returns */
	end->posted = true;
	ret = end->role->post(load, end);
	if (!ret)
		return 1;
	end->posted = false;
	return no_room(load, ret) ? 0 : ft_fail((int) ret, "posting", "%s", load_name(end));
}
