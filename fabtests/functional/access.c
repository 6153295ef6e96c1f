/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_access: messages from and to virtual memory that lies on one device, and that only another one may access
 * (cuMemSetAccess). And messages in two pieces: one is virtual memory that one device alone may access, the other one
 * is another device's.
 */
#include "cudamem.h"
#include "ft_test.h"

#define MOST ((size_t) 300001)

static const size_t sizes[] = {8, 4096, 20000, MOST};

static int wait_one(struct ft_pair *pair, struct ft_req *req)
{
	return ft_wait(&pair->ctx, req, 1);
}

/* Pieces of @len bytes each; each end has its own order of them */
static int pieces(struct ft_pair *pair, const struct ft_buf part[2], size_t len, size_t first)
{
	struct ft_req req = {0};
	struct ft_op op = {
		.call = ft_pair_sends(pair) ? FT_SENDV : FT_RECVV,
		.tagged = true,
		.count = 2,
		.addr = pair->peer,
		.tag = len,
		.req = &req,
	};
	struct ft_slot slot[2];

	for (size_t i = 0; i < 2; i++) {
		const struct ft_buf *buf = &part[(first + i) % 2];

		slot[i] = (struct ft_slot){buf, 0, buf->size, 64, len};
		op.iov[i] = (struct iovec){buf->addr + 64, len};
		op.desc[i] = buf->desc;
		FT_TRY(ft_pair_sends(pair) ? ft_slot_fill(&slot[i], len + i)
					   : ft_slot_arm(&slot[i]));
	}
	FT_TRY(ft_pair_post(pair, &op));
	FT_TRY(ft_wait(&pair->ctx, &req, 1));
	for (size_t i = 0; i < 2 && !ft_pair_sends(pair); i++)
		FT_TRY(ft_slot_check(&slot[i], len, len + i, "in pieces of two devices"));
	return 0;
}

static int all_pieces(struct ft_pair *pair)
{
	struct ft_buf part[2];

	FT_TRY(ft_buf_alloc_by(&pair->ctx, &part[0], &cudamem_far, MOST + FT_ROOM));
	FT_TRY(ft_buf_alloc_by(&pair->ctx, &part[1], &cudamem_vmm_plain, MOST + FT_ROOM));
	for (size_t i = 0; i < FT_COUNT(sizes); i++)
		for (size_t order = 0; order < 4; order++)
			FT_TRY(pieces(pair, part, sizes[i],
				      ft_pair_sends(pair) ? order % 2 : order / 2));
	FT_TRY(ft_barrier(pair->proc, &pair->ctx));
	ft_buf_free(&part[0]);
	ft_buf_free(&part[1]);
	return 0;
}

static int run(struct ft_proc *proc)
{
	struct ft_pair pair;

	if (proc->opts.iface != FI_HMEM_CUDA)
		return ft_skip("for CUDA memory (-D cuda)");
	FT_TRY(cudamem_vmm_far.init(proc->opts.device));
	if (!cudamem_many())
		return ft_skip("for two devices or more");
	FT_TRY(ft_pair_hints(&pair, proc));
	FT_TRY(ft_pair_open(&pair, MOST));
	ft_buf_free(&pair.buf[0]);
	FT_TRY(ft_buf_alloc_by(&pair.ctx, &pair.buf[0], &cudamem_vmm_far, MOST + FT_ROOM));
	for (size_t i = 0; i < FT_COUNT(sizes); i++)
		for (size_t from = 0; from < 2; from++)
			for (size_t to = 0; to < 2; to++)
				FT_TRY(ft_pair_transfer(&pair, from, to, sizes[i], i % 2,
							wait_one));
	FT_TRY(all_pieces(&pair));
	return ft_pair_close(&pair, NULL, 0);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Virtual memory of one device that another one may access.",
		.ranks = 2,
		.connects = true,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
