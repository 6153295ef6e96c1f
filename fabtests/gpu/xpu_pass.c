/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_xpu_pass: a kernel puts to a peer that does not answer, and then to another one, out of the same ring. What is for
 * the other one arrives, though it is behind, more than the ring has slots. When the first peer answers again, all that
 * was for it is there, and the signal comes behind its puts. At first that peer has never answered; then it was
 * there, and is silent again.
 */
#include <inttypes.h>
#include <poll.h>

#include "xpu_side.h"

#define ACTOR 0
#define PEER 1
#define SILENT 2

/* As many as may wait, and more operations than a ring has slots: FI_P2P_XPU_SLOTS is 512 */
#define SILENT_PUTS 400
#define PUTS 700
#define LEN 40

static int fill(struct xpu_side *side, uint64_t round)
{
	char bytes[PUTS * LEN];

	ft_pattern_fill(bytes, sizeof(bytes), round);
	return side->out.ops->to(side->out.addr, bytes, sizeof(bytes));
}

/* The first @count puts are here, and nothing else of this round */
static int check(const struct xpu_side *side, size_t count, uint64_t round)
{
	char bytes[PUTS * LEN], expected[PUTS * LEN];

	ft_pattern_fill(expected, sizeof(expected), round);
	FT_TRY(side->in.ops->from(bytes, side->in.addr, sizeof(bytes)));
	for (size_t i = 0; i < sizeof(bytes); i++)
		FT_CHECK(i < count * LEN ? bytes[i] == expected[i] : !bytes[i],
			 "byte %zu of put %zu is wrong", i % LEN, i / LEN);
	return 0;
}

/* Waits until the signal has that value. @reads: nobody else makes progress here */
static int await_signal(struct xpu_side *side, uint64_t value, bool reads)
{
	uint64_t word = 0;

	while (word != value) {
		FT_TRY(side->signal.ops->from(&word, side->signal.addr, sizeof(word)));
		if (reads && ft_progress(&side->ctx) < 0)
			return -FI_EOTHER;
		/* who looks all the time takes the device from the proxy */
		poll(NULL, 0, !reads);
		FT_TRY(ft_idle(&side->ctx));
	}
	ft_progress_note();
	return 0;
}

/* All that was posted has ended well. */
static int await_all(struct xpu_side *side, uint64_t all)
{
	while (fi_cntr_read(side->tx) < all) {
		FT_CHECK(!fi_cntr_readerr(side->tx), "an operation fails");
		FT_TRY(ft_idle(&side->ctx));
	}
	FT_CHECK(fi_cntr_read(side->tx) == all,
		 "%" PRIu64 " operations are counted, not %" PRIu64, fi_cntr_read(side->tx),
		 all);
	return 0;
}

static int tell(const struct xpu_side *side, int rank)
{
	const char byte = 0;

	return ft_oob_send(side->proc->fd[rank], &byte, 1);
}

static int hear(const struct xpu_side *side, int rank)
{
	char byte;

	return ft_oob_recv(side->proc->fd[rank], &byte, 1, side->proc->opts.timeout);
}

static int act(struct xpu_side *side, uint64_t round)
{
	const uint64_t all = (round + 1) * (SILENT_PUTS + 1 + PUTS + PUTS / XPU_PASS_SIGNAL);

	FT_TRY(fill(side, round));
	FT_TRY(xpu_side_run(side, XPU_PASS, 1, NULL));
	FT_TRY(await_all(side, all));
	return tell(side, SILENT);
}

static int receive(struct xpu_side *side, uint64_t round)
{
	FT_TRY(await_signal(side, side->args.base + PUTS, false));
	FT_TRY(check(side, PUTS, round));
	return tell(side, SILENT);
}

/* Nothing of libfabric's is called here until the other peer has all. */
static int be_silent(struct xpu_side *side, uint64_t round)
{
	struct pollfd actor = {.fd = side->proc->fd[ACTOR], .events = POLLIN};

	FT_TRY(hear(side, PEER));
	FT_TRY(await_signal(side, side->args.base + SILENT_PUTS, true));
	FT_TRY(check(side, SILENT_PUTS, round));
	while (!poll(&actor, 1, 0)) {
		if (ft_progress(&side->ctx) < 0)
			return -FI_EOTHER;
		FT_TRY(ft_idle(&side->ctx));
	}
	return hear(side, ACTOR);
}

static int name_targets(struct xpu_side *side)
{
	const struct xpu_memory *there = &side->there[SILENT];
	struct xpu_args *args = &side->args;

	if (side->proc->rank != ACTOR)
		return 0;
	FT_TRY(xpu_side_target_of(side, SILENT, &side->out, there->in, there->in_key,
				  &args->silent_target));
	return xpu_side_target_of(side, SILENT, &side->out, there->signal, there->signal_key,
				  &args->silent_signal);
}

static int run(struct ft_proc *proc)
{
	int (*const parts[])(struct xpu_side *, uint64_t) = {act, receive, be_silent};
	struct xpu_side side = {0};

	FT_TRY(xpu_side_open(&side, proc, 0, PUTS * LEN, 1, false));
	FT_TRY(name_targets(&side));
	side.args.blocks = 1;
	side.args.count = PUTS;
	side.args.silent = SILENT_PUTS;
	side.args.len = LEN;
	if (proc->rank == SILENT)
		FT_TRY(xpu_side_take_back(&side));
	for (uint64_t round = 0; round < 2; round++) {
		side.args.base = round * 1000000;
		FT_TRY(xpu_side_clear(&side.in));
		FT_TRY(ft_meet_all(proc));
		FT_TRY(parts[proc->rank](&side, round));
	}
	FT_TRY(ft_meet_all(proc));
	return xpu_side_close(&side);
}

int main(int argc, char **argv)
{
	const struct ft_test test = {
		.purpose = "A kernel's operations pass those to a silent peer.",
		.scope = FT_SCOPE_TEST,
		.ranks = 3,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
