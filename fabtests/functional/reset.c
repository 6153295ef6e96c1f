/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_reset: messages, after which the device's primary context is reset, first at one end, then at
 * the other, then at both. All that was in it is gone, also what the provider has there, and the driver
 * may crash if that is used. Messages of new memory go on as before. A receive into memory that is gone
 * ends with an error.
 */
#include <stdio.h>

#include "ft_test.h"

#define MOST ((size_t) 1100001)
#define GONE_LEN ((size_t) 1000)

static const size_t sizes[] = {8, 4096, 20000, 70000, MOST};

static int wait_one(struct ft_pair *pair, struct ft_req *req)
{
	return ft_wait(&pair->ctx, req, 1);
}

static int messages(struct ft_pair *pair)
{
	for (size_t i = 0; i < FT_COUNT(sizes); i++)
		for (size_t from = 0; from < 2; from++)
			for (size_t to = 0; to < 2; to++)
				FT_TRY(ft_pair_transfer(pair, from, to, sizes[i], i % 2,
							wait_one));
	return 0;
}

/* Replaces the device's memory, whether the context that it was in is gone or not */
static int renew(struct ft_pair *pair, bool resets)
{
	ft_buf_free(&pair->buf[1]);
	if (resets)
		FT_TRY(ft_cuda_reset());
	return ft_buf_alloc(&pair->ctx, &pair->buf[1], FI_HMEM_CUDA, MOST + FT_ROOM);
}

/* Who receives resets with a receive posted; the message comes afterwards */
static int under_way(struct ft_pair *pair)
{
	struct ft_req req = {0};
	struct ft_op op;
	struct ft_slot slot = ft_pair_message(pair, 0, 1, GONE_LEN, 77, &req, &op);

	if (!ft_pair_sends(pair)) {
		FT_TRY(ft_pair_post(pair, &op));
		FT_TRY(renew(pair, true));
		FT_TRY(ft_slot_arm(&slot));
	}
	FT_TRY(ft_barrier(pair->proc, &pair->ctx));
	if (ft_pair_sends(pair)) {
		FT_TRY(ft_slot_fill(&slot, 1));
		FT_TRY(ft_pair_post(pair, &op));
	}
	FT_TRY(ft_wait_any_result(&pair->ctx, &req, 1));
	if (ft_pair_sends(pair))
		return 0;
	FT_CHECK(req.err, "a receive into memory that is gone succeeds");
	return ft_slot_guards(&slot, 0, "where memory that is gone was");
}

static int run(struct ft_proc *proc)
{
	struct ft_pair pair;

	if (proc->opts.iface != FI_HMEM_CUDA)
		return ft_skip("needs CUDA memory (-D cuda)");
	FT_TRY(ft_pair_hints(&pair, proc));
	FT_TRY(ft_pair_open(&pair, MOST));
	FT_TRY(messages(&pair));
	for (int who = 1; who <= 3; who++) {
		FT_TRY(renew(&pair, who >> proc->rank & 1));
		FT_TRY(ft_barrier(proc, &pair.ctx));
		FT_TRY(messages(&pair));
	}
	FT_TRY(under_way(&pair));
	FT_TRY(messages(&pair));
	FT_TRY(ft_barrier(proc, &pair.ctx)); /* the peer may be waiting for the last message */
	return ft_pair_close(&pair, NULL, 0);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "The device's primary context is reset between messages.",
		.ranks = 2,
		.connects = true,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
