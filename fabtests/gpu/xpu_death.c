/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_xpu_death: a rank dies while kernels of the other one write to it, and wait. Each kernel gets
 * an error, and ends; so does a stream. FI_P2P_PEER_TIMEOUT says how soon. Then the same with two others
 * (survivors.c).
 */
#include <signal.h>
#include <stdlib.h>

#include <rdma/fi_ext_p2p.h>

#include "cu.h"
#include "survivors.h"

#define BLOCKS 6
#define COUNT 4000
#define LEN 512
#define VICTIM 1

/* A stream sends what has no receive, and waits. It goes on when that fails. */
static int stream_begin(struct xpu_side *side, void **stream)
{
	int ret;

	FT_TRY(cu_load());
	CU(stream_create(stream, CU_NON_BLOCKING));
	ret = fi_p2p_stream_tsend(side->ctx.ep, side->out.addr, side->out.size, side->out.desc,
				  side->ctx.peer[VICTIM], 1, NULL, *stream);
	FT_CHECK(!ret, "fi_p2p_stream_tsend: %d", ret);
	ret = fi_p2p_stream_wait(&side->tx->fid, UINT64_MAX, *stream);
	FT_CHECK(!ret, "fi_p2p_stream_wait: %d", ret);
	return 0;
}

static int stream_end(void *stream)
{
	CU(synchronize(stream));
	CU(stream_destroy(stream));
	return 0;
}

/*
 * All blocks write, and wait for the end of that. What it is that fails, they say in their results. The
 * stream waits meanwhile.
 */
static int kernels(struct xpu_side *side)
{
	struct xpu_args *args = &side->args;
	uint64_t results[BLOCKS], failed = 0;
	void *stream = NULL;

	args->kernel = XPU_WRITE;
	args->blocks = BLOCKS;
	args->count = COUNT;
	args->len = LEN;
	args->careful = 1;
	args->base = fi_cntr_read(side->tx);
	FT_TRY(xpu_side_clear(&side->result));
	FT_CHECK(!xpu_launch(args, BLOCKS, 1, side->device), "a kernel cannot be launched");
	if (side->device >= 0)
		FT_TRY(stream_begin(side, &stream));
	FT_CHECK(!xpu_join(side->device), "a kernel");
	if (stream)
		FT_TRY(stream_end(stream));
	FT_TRY(side->result.ops->from(results, side->result.addr, sizeof(results)));
	for (int i = 0; i < BLOCKS; i++)
		failed += results[i] != 0;
	FT_CHECK(failed && fi_cntr_readerr(side->tx),
		 "a rank died, and no kernel was told of it");
	return 0;
}

/*
 * Not before something has come. It makes progress itself: over shm, who dies within a
 * call of the proxy's may leave a lock taken, which survivors want.
 */
static int die(struct xpu_side *side)
{
	char byte = 0;

	FT_TRY(xpu_side_take_back(side));
	while (!byte) {
		FT_TRY(side->in.ops->from(&byte, side->in.addr, 1));
		if (ft_progress(&side->ctx) < 0)
			return -FI_EOTHER;
		FT_TRY(ft_idle(&side->ctx));
	}
	raise(SIGKILL);
	return -FI_EOTHER;
}

static int run(struct ft_proc *proc)
{
	const char mark = 1;
	struct xpu_side side = {0};

	setenv("FI_P2P_PEER_TIMEOUT", "2", 0);
	if (proc->ranks > 2)
		return survivors_run_rank(proc, VICTIM);
	FT_TRY(xpu_side_open(&side, proc, 0, BLOCKS * COUNT * LEN, BLOCKS, false));
	side.args.scope = FI_XPU_WORK_ITEM;
	FT_TRY(xpu_side_clear(&side.in));
	FT_TRY(side.out.ops->to(side.out.addr, &mark, 1));
	FT_TRY(ft_meet_all(proc));
	if (proc->rank == VICTIM)
		return die(&side);
	FT_TRY(kernels(&side));
	return xpu_side_close(&side);
}

int main(int argc, char **argv)
{
	const struct ft_test test = {
		.purpose = "A rank that dies while kernels of others write to it.",
		.scope = FT_SCOPE_TEST | FT_SCOPE_RANKS,
		.ranks = 2,
		.most_ranks = 3,
		.may_die = VICTIM,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
