/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_access: messages from and to virtual memory that lies on one device, and that only another one may access
 * (cuMemSetAccess).
 */
#include "cudamem.h"
#include "ft_test.h"

#define MOST ((size_t) 300001)

static const size_t sizes[] = {8, 4096, 20000, MOST};

static int wait_one(struct ft_pair *pair, struct ft_req *req)
{
	return ft_wait(&pair->ctx, req, 1);
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
	FT_TRY(ft_barrier(proc, &pair.ctx));
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
