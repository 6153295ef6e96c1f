/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_xpu_bench: how long it takes a kernel to post, a put and a signal to get to a peer's kernel, and
 * the host to do the same; and how many operations a second many blocks post. Kernels and the host's
 * own calls take turns, so that a run compares them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xpu_side.h"

#define TURNS 5
#define PINGS 1000
#define PUTS 100
#define RATE 20000

struct bench {
	struct xpu_side side;
	unsigned int blocks;
	uint64_t turns, pings, rate;
};

static int compare(const void *a, const void *b)
{
	const double x = *(const double *) a, y = *(const double *) b;

	return x < y ? -1 : x > y;
}

static void say(const struct bench *bench, const char *what, double *values, const char *unit)
{
	if (bench->side.proc->rank)
		return;
	qsort(values, bench->turns, sizeof(values[0]), compare);
	printf("%-44s %10.3f %10.3f %10.3f %s\n", what, values[bench->turns / 2], values[0],
	       values[bench->turns - 1], unit);
}

static int clear(struct bench *bench)
{
	struct xpu_side *side = &bench->side;

	memset(side->signal.addr, 0, side->signal.size);
	side->args.base = fi_cntr_read(side->tx);
	return ft_meet(side->proc);
}

/* ---- kernels ---- */

static int issue(struct bench *bench)
{
	struct xpu_args *args = &bench->side.args;
	double ns[TURNS];
	uint64_t result;

	args->blocks = 1;
	args->count = PUTS;
	args->len = 8;
	for (uint64_t i = 0; i < bench->turns; i++) {
		FT_TRY(clear(bench));
		FT_TRY(xpu_side_run(&bench->side, XPU_ISSUE, 1, &result));
		ns[i] = (double) result / 1e3;
	}
	say(bench, "a kernel issues a put", ns, "ns");
	return 0;
}

static int ping(struct bench *bench, size_t len, const char *what)
{
	struct xpu_args *args = &bench->side.args;
	double us[TURNS];
	uint64_t result;

	args->blocks = 1;
	args->count = bench->pings;
	args->len = len;
	for (uint64_t i = 0; i < bench->turns; i++) {
		FT_TRY(clear(bench));
		FT_TRY(xpu_side_run(&bench->side, XPU_PING, 1, &result));
		FT_CHECK(result, "a kernel has failed");
		us[i] = (double) result / 1e3 / 2 / (double) bench->pings;
		FT_TRY(ft_meet(bench->side.proc));
	}
	say(bench, what, us, "us");
	return 0;
}

static int rate(struct bench *bench, unsigned int blocks, const char *what)
{
	struct xpu_args *args = &bench->side.args;
	uint64_t result[XPU_BLOCKS_MAX];
	double millions[TURNS];

	args->blocks = blocks;
	args->count = bench->rate / blocks;
	args->len = 8;
	for (uint64_t i = 0; i < bench->turns; i++) {
		FT_TRY(clear(bench));
		/* one side at a time */
		if (!bench->side.proc->rank)
			FT_TRY(xpu_side_run(&bench->side, XPU_RATE, 1, result));
		millions[i] = (double) (args->blocks * args->count) * 1e3 / (double) result[0];
		FT_TRY(ft_meet(bench->side.proc));
	}
	say(bench, what, millions, "million/s");
	return 0;
}

/* ---- the host ---- */

static int host_put(struct xpu_side *side, size_t len, uint64_t *written)
{
	ssize_t ret;

	do {
		ret = fi_write(side->ctx.ep, side->out.addr, len, side->out.desc,
			       side->ctx.peer[!side->proc->rank], side->args.there,
			       side->args.key, NULL);
		if (ret == -FI_EAGAIN)
			fi_cntr_read(side->tx);
	} while (ret == -FI_EAGAIN);
	if (ret)
		return ft_fail((int) ret, "fi_write", "%zu bytes", len);
	++*written;
	while (fi_cntr_read(side->tx) < *written) {
		FT_CHECK(!fi_cntr_readerr(side->tx), "a write has failed");
		FT_TRY(ft_idle(&side->ctx));
	}
	return 0;
}

static int host_signal(struct xpu_side *side, uint64_t value, uint64_t *written)
{
	ssize_t ret;

	do {
		ret = fi_inject_write(side->ctx.ep, &value, sizeof(value),
				      side->ctx.peer[!side->proc->rank], side->there_signal,
				      side->there_signal_key);
		if (ret == -FI_EAGAIN)
			fi_cntr_read(side->tx);
	} while (ret == -FI_EAGAIN);
	++*written;
	return ret ? ft_fail((int) ret, "fi_inject_write", "signal") : 0;
}

static int host_ping(struct bench *bench, size_t len, const char *what)
{
	struct xpu_side *side = &bench->side;
	const volatile uint64_t *word = (const volatile uint64_t *) side->signal.addr;
	double us[TURNS], begin;
	uint64_t written;

	for (uint64_t t = 0; t < bench->turns; t++) {
		FT_TRY(clear(bench));
		written = fi_cntr_read(side->tx);
		begin = ft_usec();
		for (uint64_t i = 1; i <= bench->pings; i++) {
			for (int turn = 0; turn < 2; turn++) {
				if (turn != side->proc->rank) {
					while (*word < i) {
						fi_cntr_read(side->tx);
						FT_TRY(ft_idle(&side->ctx));
					}
					continue;
				}
				if (len)
					FT_TRY(host_put(side, len, &written));
				FT_TRY(host_signal(side, i, &written));
			}
		}
		us[t] = (ft_usec() - begin) / 2 / (double) bench->pings;
		FT_TRY(ft_meet(side->proc));
	}
	say(bench, what, us, "us");
	return 0;
}

static int run(struct ft_proc *proc)
{
	struct bench bench = {
		.blocks = proc->opts.iface == FI_HMEM_SYSTEM ? 4 : 132,
		.turns = proc->opts.quick ? 1 : TURNS,
		.pings = proc->opts.quick ? 20 : PINGS,
		.rate = proc->opts.quick ? 50 : RATE,
	};
	struct xpu_side *side = &bench.side;

	if (proc->opts.quick)
		proc->opts.wait = FT_WAIT_YIELD;
	FT_TRY(xpu_side_open(side, proc, FI_P2P_XPU_EXCLUSIVE, 1 << 20, XPU_BLOCKS_MAX, true));
	side->args.scope = FI_XPU_WORK_ITEM;
	if (!proc->rank)
		printf("%-44s %10s %10s %10s\n", "", "median", "least", "most");
	FT_TRY(issue(&bench));
	FT_TRY(ping(&bench, 0, "kernel to kernel, one way: a signal"));
	FT_TRY(ping(&bench, 8, "  a put of 8 bytes and a signal"));
	FT_TRY(ping(&bench, 65536, "  a put of 64 KiB and a signal"));
	FT_TRY(rate(&bench, 1, "puts of 8 bytes: 1 block"));
	FT_TRY(rate(&bench, bench.blocks,
		    proc->opts.iface == FI_HMEM_SYSTEM ? "  4 blocks" : "  132 blocks"));
	FT_TRY(xpu_side_take_back(side));
	FT_TRY(ft_meet(proc));
	FT_TRY(host_ping(&bench, 0, "host to host, one way: a signal"));
	FT_TRY(host_ping(&bench, 8, "  a put of 8 bytes and a signal"));
	FT_TRY(host_ping(&bench, 65536, "  a put of 64 KiB and a signal"));
	return xpu_side_close(side);
}

int main(int argc, char **argv)
{
	const struct ft_test test = {
		.purpose = "Latency and rate of what kernels post, and the host.",
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
