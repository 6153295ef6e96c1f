/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Two ranks that survive a third one. See survivors.h. */
#include "survivors.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>

#include <rdma/fi_ext_p2p.h>

#include "cu.h"
#include "survivors_kernels.h"

/* Messages between streams of the survivors: so many before all know of the death, and after it */
#define ROUNDS 100
#define LEN ((size_t) 5003)
#define TAG 7

/**
 * struct run - a survivor.
 * @other:	the other survivor
 * @sends, @receives: what streams say to each other
 * @stream:	runs the kernel; @lost waits for the victim, @alive talks to the other survivor
 * @sent:	how many operations streams have posted that the counter of what is sent counts
 */
struct run {
	struct xpu_side side;
	struct survivors args;
	int victim, other;
	struct ft_buf sends, receives;
	void *stream, *lost, *alive;
	uint64_t sent;
};

/* ---- streams ---- */

/* Sends what has no receive, and waits. It goes on when that fails. */
static int lost_begin(struct run *run)
{
	struct xpu_side *side = &run->side;

	FT_TRY(fi_p2p_stream_tsend(side->ctx.ep, run->sends.addr, run->sends.size,
				   run->sends.desc, side->ctx.peer[run->victim], TAG, NULL,
				   run->lost));
	run->sent++;
	return fi_p2p_stream_wait(&side->tx->fid, UINT64_MAX, run->lost);
}

/* Messages number @first and so on: each begins when the one before it has arrived. */
static int alive_talk(struct run *run, uint64_t first)
{
	struct xpu_side *side = &run->side;
	const fi_addr_t other = side->ctx.peer[run->other];

	for (uint64_t i = first; i < first + ROUNDS; i++) {
		FT_TRY(fi_p2p_stream_trecv(side->ctx.ep, run->receives.addr + i * LEN, LEN,
					   run->receives.desc, other, TAG + i, 0, NULL,
					   run->alive));
		FT_TRY(fi_p2p_stream_tsend(side->ctx.ep, run->sends.addr + i * LEN, LEN,
					   run->sends.desc, other, TAG + i, NULL, run->alive));
		FT_TRY(fi_p2p_stream_wait(&side->rx->fid, i + 1, run->alive));
		run->sent++;
	}
	return 0;
}

static uint64_t key(int rank, uint64_t i)
{
	return (uint64_t) rank << 32 | i;
}

static int alive_check(struct run *run)
{
	FT_CHECK(!fi_cntr_readerr(run->side.rx), "a receive from the survivor has failed");
	for (uint64_t i = 0; i < UINT64_C(2) * ROUNDS; i++)
		FT_TRY(ft_verify(&run->receives, i * LEN, LEN, key(run->other, i)));
	return 0;
}

/* ---- survivors ---- */

static int check_results(struct run *run, uint64_t *posted)
{
	struct ft_buf *result = &run->side.result;
	uint64_t words[2][SURVIVORS_BLOCKS];

	FT_TRY(result->ops->from(words, result->addr, sizeof(words)));
	*posted = 0;
	for (int i = 0; i < SURVIVORS_BLOCKS; i++) {
		FT_CHECK(!words[1][i], "block %d failed with %" PRIu64, i, words[1][i]);
		*posted += words[0][i];
	}
	return 0;
}

/* All that was posted has ended, well or not. */
static int await_all(struct run *run, uint64_t posted)
{
	const struct xpu_side *side = &run->side;

	while (fi_cntr_read(side->tx) + fi_cntr_readerr(side->tx) < posted)
		;
	FT_CHECK(fi_cntr_read(side->tx) + fi_cntr_readerr(side->tx) == posted,
		 "%" PRIu64 " operations are posted, %" PRIu64 " have ended", posted,
		 fi_cntr_read(side->tx) + fi_cntr_readerr(side->tx));
	return 0;
}

static int meet_other(const struct run *run)
{
	const struct ft_proc *proc = run->side.proc;
	char byte = 0;

	FT_TRY(ft_oob_send(proc->fd[run->other], &byte, 1));
	return ft_oob_recv(proc->fd[run->other], &byte, 1, proc->opts.timeout);
}

static int survive(struct run *run)
{
	uint64_t posted;

	FT_CHECK(!survivors_run(&run->args, run->stream), "a kernel cannot be launched");
	FT_TRY(lost_begin(run));
	FT_TRY(alive_talk(run, 0));
	CU(synchronize(run->stream));
	CU(synchronize(run->lost));
	FT_TRY(check_results(run, &posted));
	FT_TRY(alive_talk(run, ROUNDS));
	CU(synchronize(run->alive));
	FT_TRY(alive_check(run));
	FT_TRY(await_all(run, posted + run->sent));
	ft_progress_note();
	return meet_other(run);
}

/* ---- the victim ---- */

/*
 * Not before both have written something. It makes progress itself: over shm, who dies within a
 * call of the proxy's may leave a lock taken, which survivors want.
 */
static int die(struct run *run)
{
	struct xpu_side *side = &run->side;
	char bytes[SURVIVORS_TALK] = {0};

	FT_TRY(xpu_side_take_back(side));
	while (!bytes[0] || !bytes[SURVIVORS_TALK / 2]) {
		FT_TRY(side->in.ops->from(bytes, side->in.addr, sizeof(bytes)));
		if (ft_progress(&side->ctx) < 0)
			return -FI_EOTHER;
		FT_TRY(ft_idle(&side->ctx));
	}
	raise(SIGKILL);
	return -FI_EOTHER;
}

/* ---- opening and closing ---- */

static int find_targets(struct run *run)
{
	struct xpu_side *side = &run->side;
	struct survivors *args = &run->args;
	const struct xpu_memory *victim = &side->there[run->victim],
				*other = &side->there[run->other];
	size_t len = sizeof(uint64_t);

	FT_TRY(xpu_side_target_of(side, run->victim, &side->out, victim->in, victim->in_key,
				  &args->victim));
	FT_TRY(xpu_side_target_of(side, run->other, &side->out, other->in, other->in_key,
				  &args->other));
	FT_TRY(xpu_side_target_of(side, run->other, &side->out, other->signal,
				  other->signal_key, &args->other_signal));
	args->victim_desc = side->args.desc;
	args->victim_addr = victim->in;
	args->victim_key = victim->in_key;
	return side->xpu->av_lookup2(side->ctx.av, side->ctx.peer[run->victim],
				     &args->victim_peer, &len, 0, side->xpu_ctx);
}

static int fill_args(struct run *run)
{
	struct xpu_side *side = &run->side;
	struct survivors *args = &run->args;

	args->ep = side->args.ep;
	args->tx = side->args.tx;
	args->rank = (unsigned int) side->proc->rank;
	args->other_rank = (unsigned int) run->other;
	args->there = run->other > side->proc->rank ? 0 : SURVIVORS_TALK / 2;
	args->out = (unsigned char *) side->out.addr;
	args->in = (unsigned char *) side->in.addr;
	args->signal = (uint64_t *) side->signal.addr;
	args->posted = (uint64_t *) side->result.addr;
	args->result = args->posted + SURVIVORS_BLOCKS;
	args->most = 20000;
	return find_targets(run);
}

static int prepare(struct run *run)
{
	static const unsigned char mark = 1;
	struct xpu_side *side = &run->side;
	unsigned char bytes[LEN];

	FT_TRY(xpu_side_open(side, side->proc, 0, SURVIVORS_LEN, 2 * SURVIVORS_BLOCKS, false));
	FT_TRY(cu_load());
	CU(stream_create(&run->stream, CU_NON_BLOCKING));
	CU(stream_create(&run->lost, CU_NON_BLOCKING));
	CU(stream_create(&run->alive, CU_NON_BLOCKING));
	FT_TRY(ft_buf_alloc(&side->ctx, &run->sends, FI_HMEM_CUDA, 2 * ROUNDS * LEN));
	FT_TRY(ft_buf_alloc(&side->ctx, &run->receives, FI_HMEM_CUDA, 2 * ROUNDS * LEN));
	for (uint64_t i = 0; i < UINT64_C(2) * ROUNDS; i++) {
		ft_pattern_fill(bytes, LEN, key(side->proc->rank, i));
		FT_TRY(run->sends.ops->to(run->sends.addr + i * LEN, bytes, LEN));
	}
	FT_TRY(xpu_side_clear(&side->in));
	FT_TRY(xpu_side_clear(&side->signal));
	FT_TRY(xpu_side_clear(&side->result));
	return side->out.ops->to(side->out.addr, &mark, sizeof(mark));
}

static int finish(struct run *run)
{
	CU(stream_destroy(run->stream));
	CU(stream_destroy(run->lost));
	CU(stream_destroy(run->alive));
	ft_buf_free(&run->sends);
	ft_buf_free(&run->receives);
	return xpu_side_close(&run->side);
}

int survivors_run_rank(struct ft_proc *proc, int victim)
{
	struct run run = {.side = {.proc = proc}, .victim = victim};

	if (proc->opts.iface != FI_HMEM_CUDA)
		return ft_skip("three ranks: for CUDA memory (-D cuda)");
	while (run.other == victim || run.other == proc->rank)
		run.other++;
	FT_TRY(prepare(&run));
	FT_TRY(fill_args(&run));
	FT_TRY(ft_meet_all(proc));
	if (proc->rank == victim)
		return die(&run);
	FT_TRY(survive(&run));
	return finish(&run);
}
