/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Bursts of short messages: see load.h. All messages of a burst lie side by side in a part of the lane's memory,
 * with guards between them. That part is filled by one copy, and compared as a whole: copies of device memory by
 * the test take longer than such messages.
 */
#include <string.h>

#include "load.h"

#define BURST_MAX 32
#define SHORT_MAX 64
#define APART (SHORT_MAX + LOAD_MARGIN)
#define PART_BITS 6
#define TAG_PART 16 /* the first tag bit that others do not use */

/* The bytes of the memory, when the messages are there */
static void draw(const struct load *load, const struct load_end *end, unsigned char *mem)
{
	const uint64_t key = load_key(end, end->number) << PART_BITS;
	const size_t len = load_size(load, end), shift = load_shift(load, end);

	memset(mem, FT_GUARD, load_stride(end->kind));
	for (unsigned int i = 0; i < end->kind->burst; i++)
		ft_pattern_fill(mem + i * APART + shift, len, key + i);
}

static int place(struct load *load, struct load_end *end, const unsigned char *mem)
{
	const size_t size = load_stride(end->kind);
	const struct ft_buf *buf = &load->mem[end->lane][0];

	memset(end->part, 0, end->kind->burst * sizeof(*end->part));
	end->ended = 0;
	return buf->ops->to(buf->addr + end->spoke * size, mem, size);
}

static int fill(struct load *load, struct load_end *end)
{
	unsigned char mem[BURST_MAX * APART];

	draw(load, end, mem);
	return place(load, end, mem);
}

static int arm(struct load *load, struct load_end *end)
{
	unsigned char mem[BURST_MAX * APART];

	memset(mem, FT_GUARD, sizeof(mem));
	return place(load, end, mem);
}

static ssize_t post(struct load *load, struct load_end *end, enum ft_call call)
{
	const struct ft_buf *buf = &load->mem[end->lane][0];
	const size_t base = end->spoke * load_stride(end->kind) + load_shift(load, end);
	const struct ft_op message = load_op(load, end, call);

	/* the phase is the number of those that have been posted: there may not be room for all */
	for (; (unsigned int) end->phase < end->kind->burst; end->phase++) {
		const uint64_t part = (uint64_t) end->phase;
		struct ft_op op = message;
		ssize_t ret;

		op.req = &end->part[part];
		/* else they have one tag, and come in order */
		if (load->quirks & QUIRK_ORDER)
			op.tag |= part << TAG_PART;
		ft_op_buf(&op, buf, base + part * APART, load_size(load, end));
		ret = ft_post_once(load_ctx(load, end), &op);
		if (ret)
			return ret;
	}
	return 0;
}

static ssize_t post_sends(struct load *load, struct load_end *end)
{
	/* one burst may come before its receives: else a sender would fill the core's memory with all of a round */
	const unsigned int ahead = load->expected ? 0 : 1;

	if (*load_ready(load, end) + ahead <= end->number)
		return -FI_EAGAIN;
	return post(load, end, FT_SEND);
}

static ssize_t post_recvs(struct load *load, struct load_end *end)
{
	ssize_t ret = post(load, end, FT_RECV);

	if (!ret)
		*load_ready(load, end) = end->number + 1;
	return ret;
}

bool load_burst_over(struct load_end *end)
{
	while (end->ended < end->kind->burst && end->part[end->ended].done)
		end->ended++;
	return end->ended == end->kind->burst;
}

static int holds(struct load *load, struct load_end *end)
{
	const size_t size = load_stride(end->kind);
	const struct ft_buf *buf = &load->mem[end->lane][0];
	unsigned char want[BURST_MAX * APART], mem[BURST_MAX * APART];

	for (unsigned int i = 0; i < end->kind->burst; i++)
		if (end->part[i].err)
			return ft_fail(-end->part[i].err, "operation", "%s, message %u",
				       load_name(end), i);
	draw(load, end, want);
	FT_TRY(buf->ops->from(mem, buf->addr + end->spoke * size, size));
	if (!memcmp(mem, want, size))
		return 1;
	for (size_t i = 0; i < size; i++)
		FT_CHECK(mem[i] == want[i],
			 "%s, message %zu: byte %zd of %zu is %#04x instead of %#04x",
			 load_name(end), i / APART,
			 (ssize_t) (i % APART) - (ssize_t) load_shift(load, end),
			 load_size(load, end), mem[i], want[i]);
	return 1;
}

static int received(struct load *load, struct load_end *end)
{
	for (unsigned int i = 0; i < end->kind->burst; i++)
		FT_CHECK(end->part[i].err || end->part[i].comp.len == load_size(load, end),
			 "%s, message %u: %zu bytes instead of %zu", load_name(end), i,
			 end->part[i].comp.len, load_size(load, end));
	return holds(load, end);
}

const struct load_role load_burst_send = {.prepare = fill, .post = post_sends, .ended = holds};

const struct load_role load_burst_recv = {
	.prepare = arm,
	.post = post_recvs,
	.ended = received,
	.counts = true,
};
