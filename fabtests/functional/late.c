/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_late: endpoints that have carried host messages for a while when the GPU's runtime comes
 * into the process: first at one end, then at the other. Whoever has concluded that there is no
 * device memory must see that there is now; and receives wait meanwhile.
 */
#include <stdio.h>

#include "ft_test.h"

#define MOST ((size_t) 300000)
#define PLACE                                                                                  \
	(MOST + FT_ROOM) /* of which a buffer has two: one to receive in, one to send from */
#define ENOUGH 1100      /* receives after which ofi_p2p takes it that there is no GPU */

static const size_t sizes[] = {1, 8, 4096, 4097, 20000, 65536, MOST};

/** struct late - @kinds: of memory, by rank, that there are so far; @key: of the last message */
struct late {
	struct ft_pair pair;
	size_t kinds[2];
	uint64_t key;
};

static struct ft_slot place(struct late *late, size_t kind, bool sends, size_t len)
{
	return (struct ft_slot){&late->pair.buf[kind], sends * PLACE, len + FT_ROOM,
				sends * PLACE + 64, len};
}

static int post(struct late *late, const struct ft_slot *slot, bool sends, uint64_t key,
		struct ft_req *req)
{
	struct ft_op op = {
		.call = sends ? FT_SEND : FT_RECV,
		.tagged = true,
		.addr = late->pair.peer,
		.tag = key,
		.req = req,
	};

	*req = (struct ft_req){0};
	FT_TRY(sends ? ft_slot_fill(slot, key) : ft_slot_arm(slot));
	ft_op_buf(&op, slot->buf, slot->off, slot->len);
	return ft_post(&late->pair.ctx, &op);
}

/* From memory of the kind @from, which is rank @sender's, to the kind @to */
static int message(struct late *late, int sender, size_t from, size_t to, size_t len)
{
	const bool sends = late->pair.proc->rank == sender;
	const struct ft_slot slot = place(late, sends ? from : to, sends, len);
	const uint64_t key = ++late->key;
	struct ft_req req;
	char what[80];

	snprintf(what, sizeof(what), "%zu bytes from rank %d's %s memory to %s memory", len,
		 sender, from ? "device" : "host", to ? "device" : "host");
	FT_TRY(post(late, &slot, sends, key, &req));
	FT_TRY(ft_wait(&late->pair.ctx, &req, 1));
	return sends ? 0 : ft_slot_check(&slot, len, key, what);
}

static int messages(struct late *late)
{
	for (int sender = 0; sender < 2; sender++)
		for (size_t from = 0; from < late->kinds[sender]; from++)
			for (size_t to = 0; to < late->kinds[!sender]; to++)
				for (size_t i = 0; i < FT_COUNT(sizes); i++)
					FT_TRY(message(late, sender, from, to, sizes[i]));
	return 0;
}

/* Rank @rank gets its device, while host buffers at both ends wait for what the other then sends */
static int arrive(struct late *late, int rank)
{
	struct ft_pair *pair = &late->pair;
	const bool arrives = pair->proc->rank == rank;
	const struct ft_slot in = place(late, 0, false, MOST),
			     out = place(late, arrives, true, MOST);
	const uint64_t key = ++late->key;
	struct ft_req req[2];

	FT_TRY(post(late, &in, false, key, &req[0]));
	if (arrives)
		FT_TRY(ft_buf_alloc(&pair->ctx, &pair->buf[1], pair->proc->opts.iface,
				    2 * PLACE));
	late->kinds[rank] = 2;
	FT_TRY(ft_barrier(pair->proc, &pair->ctx));
	FT_TRY(post(late, &out, true, key, &req[1]));
	FT_TRY(ft_wait(&pair->ctx, req, 2));
	return ft_slot_check(&in, MOST, key,
			     "in a receive that was posted before the device came");
}

static int run(struct ft_proc *proc)
{
	struct late late = {.kinds = {1, 1}};
	struct ft_pair *pair = &late.pair;

	if (proc->opts.iface == FI_HMEM_SYSTEM)
		return ft_skip("needs device memory (-D)");
	FT_TRY(ft_pair_hints(pair, proc));
	FT_TRY(ft_test_open(proc, &pair->ctx));
	FT_TRY(ft_test_connect(proc, &pair->ctx));
	pair->peer = pair->ctx.peer[!proc->rank];
	pair->kind_count = 2;
	FT_TRY(ft_buf_alloc(&pair->ctx, &pair->buf[0], FI_HMEM_SYSTEM, 2 * PLACE));
	for (int arrived = 0; arrived <= 2; arrived++) {
		if (arrived)
			FT_TRY(arrive(&late, arrived - 1));
		else
			for (int i = 0; i < 2 * ENOUGH; i++)
				FT_TRY(message(&late, i % 2, 0, 0, sizes[i / 2 % 2]));
		FT_TRY(messages(&late));
	}
	FT_TRY(ft_barrier(proc, &pair->ctx)); /* the peer may be waiting for the last message */
	return ft_pair_close(pair, NULL, 0);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "A GPU's runtime comes when messages have been sent for a while.",
		.ranks = 2,
		.connects = true,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
