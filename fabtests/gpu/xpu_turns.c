/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_xpu_turns: a ring that posts little waits for few operations of rings that are full, however slow the core
 * provider is. That is BUSYCORE_NULL=slow of null.c, where a write says how many are in front of it.
 *
 * Full rings go on after that. With BUSYCORE_NULL=deaf their peer makes no progress, and a turn waits for it for a second at most.
 *
 * A thread of the host plays all blocks. The full rings keep more than the core ends meanwhile.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>

#include "xpu_side.h"

/* The block that the thread plays now */
static unsigned int played;

#define FI_P2P_XPU_BLOCK played
#define FI_P2P_XPU_THREAD 0U
#define FI_P2P_XPU_THREADS 1U
#define FI_P2P_XPU_LANES 1U
#define FI_P2P_XPU_SYNC_BLOCK(value) (value)
#define FI_P2P_XPU_SYNC_LANES(value) (value)
#include <rdma/fi_p2p_xpu_device.h>

/* Full rings, and how many of their puts end before others come, and after them */
#define FULL 131
#define BEFORE 2000
#define AFTER 2000
/*
 * Writes that come alone, and how many of others may be in front of one: two turns, where one is meant. The first write, and
 * each one that comes late as this thread had no processor, finds a longer queue: so half of them count.
 */
#define LONE 30
#define FEW 8

static int compare(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

	return x < y ? -1 : x > y;
}

/* Waits until so many operations have ended */
static int ended(struct xpu_side *side, uint64_t count)
{
	while (fi_cntr_read(side->tx) < count)
		FT_TRY(ft_idle(&side->ctx));
	return 0;
}

static int fill(struct xpu_side *side)
{
	int ret = 0;

	for (played = 1; played <= FULL; played++) {
		do
			ret = fi_p2p_xpu_put(&side->args.ep, side->args.target, 0, 0, 8, 0,
					     FI_XPU_WORK_ITEM);
		while (!ret);
		FT_CHECK(ret == -FI_EAGAIN, "a put: %d", ret);
	}
	played = 0;
	return ended(side, BEFORE);
}

/* A write whose end the queue tells. @front: how many were in front of it */
static int lone(struct xpu_side *side, uint64_t *front)
{
	uint64_t *word = (uint64_t *) side->signal.addr;
	struct fi_cq_tagged_entry entry;
	int64_t got;
	int ret;

	ret = fi_p2p_xpu_write(&side->args.ep, word, sizeof(*word), NULL, 0, &side->args.peer,
			       side->there_signal, side->there_signal_key, NULL, FI_COMPLETION,
			       FI_XPU_WORK_ITEM);
	FT_CHECK(!ret, "a write: %d", ret);
	do {
		got = fi_p2p_xpu_cq_read(&side->args.cq, &entry, 1, FI_XPU_WORK_ITEM);
		sched_yield();
	} while (got == -FI_EAGAIN);
	FT_CHECK(got == 1, "its end: %" PRIi64, got);
	*front = __atomic_load_n(word, __ATOMIC_ACQUIRE);
	ft_progress_note();
	return 0;
}

static int act(struct xpu_side *side)
{
	uint64_t front[LONE];

	FT_TRY(fill(side));
	for (int i = 0; i < LONE; i++)
		FT_TRY(lone(side, &front[i]));
	qsort(front, LONE, sizeof(front[0]), compare);
	FT_CHECK(front[LONE / 2] <= FEW,
		 "%" PRIu64 " to %" PRIu64 " writes are in front, median %" PRIu64, front[0],
		 front[LONE - 1], front[LONE / 2]);
	return ended(side, fi_cntr_read(side->tx) + AFTER);
}

static int run(struct ft_proc *proc)
{
	struct xpu_side side = {0};

	FT_TRY(xpu_side_open(&side, proc, FI_P2P_XPU_EXCLUSIVE, 4096, 1, false));
	FT_TRY(ft_meet_all(proc));
	if (!proc->rank)
		FT_TRY(act(&side));
	FT_TRY(ft_meet_all(proc));
	return xpu_side_close(&side);
}

int main(int argc, char **argv)
{
	const struct ft_test test = {
		.purpose = "Rings take turns, also in the core's queue.",
		.scope = FT_SCOPE_TEST,
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
