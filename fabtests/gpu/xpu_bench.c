/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_xpu_bench: how long it takes a kernel to post, a put and a signal to get to a peer's kernel, and
 * the host to do the same; and how many operations a second many blocks post.
 *
 * Over a core provider that does nothing (BUSYCORE_NULL of busycore.c) it measures what needs no peer. So
 * what is left is the provider's part.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xpu_side.h"

#define TURNS 5
#define PINGS 1000
#define PUTS 200 /* less than a ring has room for */
#define RATE 20000

/* Blocks of which all but one put, also where threads of the host are the blocks */
#define CROWD 132

/* Beside the signals: what is put to and read from host memory [bytes] */
#define NEAR (XPU_SIGNALS * sizeof(uint64_t) / 2)

/**
 * struct bench - what is measured.
 * @near, @near_desc: the number and the raw descriptor of a target in host memory, here and there
 * @far:	that of device memory
 * @marks:	the core's writes tell when they are called
 */
struct bench {
	struct xpu_side side;
	unsigned int blocks, threads;
	uint64_t turns, pings, rate;
	uint32_t near, far;
	uint64_t near_desc;
	bool marks;
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

	FT_TRY(xpu_side_clear(&side->signal));
	side->args.base = fi_cntr_read(side->tx);
	return ft_meet_all(side->proc);
}

/* ---- kernels ---- */

static int issue(struct bench *bench, enum xpu_kernel kernel, const char *what)
{
	struct xpu_args *args = &bench->side.args;
	double ns[TURNS];
	uint64_t result;

	args->blocks = 1;
	args->count = PUTS;
	args->len = 8;
	args->target = bench->near;
	for (uint64_t i = 0; i < bench->turns; i++) {
		FT_TRY(clear(bench));
		FT_TRY(xpu_side_run(&bench->side, kernel, 1, &result));
		FT_CHECK(result, "a kernel has failed");
		ns[i] = (double) result / 1e3;
	}
	say(bench, what, ns, "ns");
	return 0;
}

/* The host's part of XPU_ECHO */
static void echo(struct bench *bench)
{
	uint64_t *word = (uint64_t *) bench->side.signal.addr;

	for (uint64_t i = 1; i <= bench->pings; i++) {
		while (__atomic_load_n(&word[0], __ATOMIC_ACQUIRE) < i) {
			if (bench->side.proc->opts.wait == FT_WAIT_YIELD)
				sched_yield();
		}
		__atomic_store_n(&word[XPU_APART], i, __ATOMIC_RELEASE);
	}
}

static int raw(struct bench *bench)
{
	struct xpu_side *side = &bench->side;
	struct xpu_args *args = &side->args;
	double us[TURNS];
	uint64_t result;

	args->kernel = XPU_ECHO;
	args->blocks = 1;
	args->count = bench->pings;
	for (uint64_t i = 0; i < bench->turns; i++) {
		FT_TRY(clear(bench));
		FT_CHECK(!xpu_launch(args, 1, 1, side->device), "launch");
		echo(bench);
		FT_CHECK(!xpu_join(side->device), "the kernel has failed");
		FT_TRY(side->result.ops->from(&result, side->result.addr, sizeof(result)));
		us[i] = (double) result / 1e3 / (double) bench->pings;
	}
	say(bench, "kernel to host and back, two words", us, "us");
	return 0;
}

/* Busy blocks say how many puts they have posted: the next measurement is to find none of them. */
static int drain(struct bench *bench, uint64_t counted, const uint64_t *posted,
		 unsigned int blocks)
{
	for (unsigned int i = 1; i < blocks; i++)
		counted += posted[i];
	while (fi_cntr_read(bench->side.tx) < counted) {
		FT_CHECK(!fi_cntr_readerr(bench->side.tx), "a put has failed");
		FT_TRY(ft_idle(&bench->side.ctx));
	}
	return 0;
}

/* @ways: that one turn is */
static int timed(struct bench *bench, enum xpu_kernel kernel, unsigned int blocks, int ways,
		 const char *what)
{
	struct xpu_side *side = &bench->side;
	const uint64_t zero = 0;
	uint64_t result[XPU_BLOCKS_MAX], counted, others;
	double us[TURNS], meanwhile[TURNS];

	side->args.blocks = blocks;
	side->args.count = bench->pings;
	for (uint64_t i = 0; i < bench->turns; i++) {
		FT_TRY(clear(bench));
		counted = side->args.base;
		side->args.base = fi_cntr_read(kernel == XPU_TRIP ? side->rx : side->tx);
		FT_TRY(side->in.ops->to(side->args.over, &zero, sizeof(zero)));
		FT_TRY(ft_meet_all(side->proc));
		FT_TRY(xpu_side_run(side, kernel, bench->threads, result));
		FT_CHECK(result[0], "a kernel has failed");
		us[i] = (double) result[0] / 1e3 / ways / (double) bench->pings;
		FT_TRY(side->result.ops->from(&others,
					      side->result.addr + blocks * sizeof(others),
					      sizeof(others)));
		meanwhile[i] = (double) others / (double) bench->pings;
		if (kernel == XPU_LONE)
			counted += bench->pings;
		if (side->args.posting)
			FT_TRY(drain(bench, counted, result, blocks));
		FT_TRY(ft_meet_all(side->proc));
	}
	say(bench, what, us, "us");
	if (side->args.posting)
		say(bench, "    writes of all in that time", meanwhile, "");
	return 0;
}

static int ping(struct bench *bench, size_t len, const char *what)
{
	bench->side.args.len = len;
	bench->side.args.target = bench->far;
	return timed(bench, XPU_PING, 1, 2, what);
}

/* A read of 8 bytes of host memory, or with XPU_LONE a write, until the kernel knows that it has ended */
static int trip(struct bench *bench, enum xpu_kernel kernel, unsigned int blocks, int posting,
		const char *what)
{
	struct xpu_args *args = &bench->side.args;
	const struct xpu_args before = *args;
	int ret;

	args->buf = bench->side.signal.addr + NEAR;
	args->desc = bench->near_desc;
	args->there = bench->side.there_signal + NEAR;
	args->key = bench->side.there_signal_key;
	args->target = bench->near;
	args->len = 8;
	args->posting = posting;
	ret = timed(bench, kernel, blocks, 1, what);
	*args = before;
	return ret;
}

/* From the kernel to the call of the core, whose answer is a word that it adds to */
static int asked(struct bench *bench)
{
	struct xpu_args *args = &bench->side.args;
	const struct xpu_args before = *args;
	int ret;

	args->buf = bench->side.signal.addr + NEAR;
	args->target = bench->near;
	args->len = 8;
	ret = timed(bench, XPU_ASKED, 1, 1, "kernel to the core's call and back");
	*args = before;
	return ret;
}

static int rate(struct bench *bench, enum xpu_kernel kernel, uint32_t target,
		unsigned int blocks, const char *what)
{
	struct xpu_args *args = &bench->side.args;
	uint64_t result[XPU_BLOCKS_MAX];
	double millions[TURNS];

	args->blocks = blocks;
	args->count = bench->rate / blocks;
	args->len = 8;
	args->target = target;
	for (uint64_t i = 0; i < bench->turns; i++) {
		FT_TRY(clear(bench));
		/* one side at a time */
		if (!bench->side.proc->rank)
			FT_TRY(xpu_side_run(&bench->side, kernel, 1, result));
		millions[i] = (double) (args->blocks * args->count) * 1e3 / (double) result[0];
		FT_TRY(ft_meet_all(bench->side.proc));
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
	ft_progress_note();
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
					/* or it would yield the processor in each look */
					ft_progress_note();
					continue;
				}
				if (len)
					FT_TRY(host_put(side, len, &written));
				FT_TRY(host_signal(side, i, &written));
			}
		}
		us[t] = (ft_usec() - begin) / 2 / (double) bench->pings;
		FT_TRY(ft_meet_all(side->proc));
	}
	say(bench, what, us, "us");
	return 0;
}

/* ---- all of it ---- */

/* What needs no peer */
static int provider(struct bench *bench)
{
	FT_TRY(issue(bench, XPU_ISSUE, "a kernel issues a put"));
	FT_TRY(issue(bench, XPU_BURST, "  in a burst"));
	FT_TRY(raw(bench));
	if (bench->marks)
		FT_TRY(asked(bench));
	bench->side.args.len = 8;
	bench->side.args.target = bench->near;
	FT_TRY(timed(bench, XPU_ROUND, 1, 1, "a kernel puts 8 bytes, and sees it counted"));
	FT_TRY(trip(bench, XPU_LONE, 1, 0, "a kernel puts 8 bytes, and sees an entry"));
	FT_TRY(trip(bench, XPU_LONE, CROWD, 1, "  while other blocks put"));
	FT_TRY(trip(bench, XPU_TRIP, 1, 0, "a kernel reads 8 bytes of the peer's"));
	FT_TRY(trip(bench, XPU_TRIP, bench->blocks, 0,
		    "  while other blocks look at a signal"));
	FT_TRY(trip(bench, XPU_TRIP, CROWD, 1, "  while other blocks put"));
	FT_TRY(rate(bench, XPU_SET, bench->near, 1, "signals: 1 block"));
	FT_TRY(rate(bench, XPU_SET, bench->near, bench->blocks, "  many blocks"));
	FT_TRY(rate(bench, XPU_RATE, bench->near, 1, "puts of 8 bytes, host memory: 1 block"));
	return rate(bench, XPU_RATE, bench->near, bench->blocks, "  many blocks");
}

static int kernels(struct bench *bench)
{
	FT_TRY(ping(bench, 0, "kernel to kernel, one way: a signal"));
	FT_TRY(ping(bench, 8, "  a put of 8 bytes and a signal"));
	FT_TRY(ping(bench, 65536, "  a put of 64 KiB and a signal"));
	FT_TRY(rate(bench, XPU_RATE, bench->far, 1, "puts of 8 bytes, device memory: 1 block"));
	return rate(bench, XPU_RATE, bench->far, bench->blocks, "  many blocks");
}

static int host(struct bench *bench)
{
	FT_TRY(host_ping(bench, 0, "host to host, one way: a signal"));
	FT_TRY(host_ping(bench, 8, "  a put of 8 bytes and a signal"));
	return host_ping(bench, 65536, "  a put of 64 KiB and a signal");
}

/* What a kernel costs that does nothing: it is there while kernels communicate, too */
static int host_beside_kernel(struct bench *bench)
{
	struct xpu_side *side = &bench->side;
	uint64_t *word = (uint64_t *) side->signal.addr + XPU_REST_WORD;
	int ret;

	side->args.kernel = XPU_REST;
	*word = 0;
	FT_CHECK(!xpu_launch(&side->args, 1, 1, side->device), "launch");
	ret = host_ping(bench, 8, "  while a kernel rests: 8 bytes and a signal");
	__atomic_store_n(word, 1, __ATOMIC_RELEASE);
	FT_CHECK(!xpu_join(side->device), "the kernel has failed");
	return ret;
}

/* As ping(), where kernels store themselves, beside plain stores of theirs */
static int store(struct bench *bench, size_t len, unsigned int threads, const char *raw,
		 const char *what)
{
	bench->threads = threads;
	bench->side.args.scope = threads > 1 ? FI_XPU_WORK_GROUP : FI_XPU_WORK_ITEM;
	bench->side.args.len = len;
	FT_TRY(timed(bench, XPU_STORE, 1, 2, raw));
	return timed(bench, XPU_PING, 1, 2, what);
}

/* A write or a read of device memory, until a kernel of the first rank knows that it has ended */
static int reach(struct bench *bench, enum xpu_kernel kernel, size_t len, unsigned int threads,
		 const char *who)
{
	struct xpu_side *side = &bench->side;
	const bool reads = kernel == XPU_TRIP;
	uint64_t result = 1;
	double us[TURNS];
	char what[64];

	side->args.blocks = 1;
	side->args.count = bench->pings;
	side->args.len = len;
	side->args.scope = FI_XPU_WORK_GROUP;
	for (uint64_t i = 0; i < bench->turns; i++) {
		side->args.base = fi_cntr_read(reads ? side->rx : side->tx);
		if (!side->proc->rank)
			FT_TRY(xpu_side_run(side, kernel, threads, &result));
		FT_CHECK(result, "a kernel has failed");
		us[i] = (double) result / 1e3 / (double) bench->pings;
		FT_TRY(ft_meet_all(side->proc));
	}
	snprintf(what, sizeof(what), "  %s %zu bytes, %u threads, by the %s",
		 reads ? "reads" : "writes", len, threads, who);
	say(bench, what, us, "us");
	return 0;
}

/* Where the proxy begins to be faster: FI_P2P_XPU_WORDS_MAX has kernels do longer ones themselves */
static int lengths(struct bench *bench, const char *who)
{
	static const size_t lens[] = {8, 256, 1024, 4096, 16384, 65536, 262144, 524288};
	static const unsigned int threads[] = {1, 32, XPU_THREADS_MAX};

	for (size_t t = 0; t < FT_COUNT(threads); t++) {
		for (size_t i = 0; i < FT_COUNT(lens); i++) {
			if (lens[i] / threads[t] > 8192 || lens[i] < threads[t])
				continue;
			FT_TRY(reach(bench, XPU_LONE, lens[i], threads[t], who));
			FT_TRY(reach(bench, XPU_TRIP, lens[i], threads[t], who));
		}
	}
	return 0;
}

/* All targets are device memory, and mapped. */
static int mapped(struct bench *bench)
{
	struct xpu_side *side = &bench->side;
	struct ft_proc *proc = side->proc;
	bool can;

	*side = (struct xpu_side){.proc = NULL};
	FT_TRY(xpu_side_open(side, proc, FI_P2P_XPU_EXCLUSIVE, 1 << 20, XPU_BLOCKS_MAX, false));
	side->args.over = (uint64_t *) (side->in.addr + side->in.size) - 1;
	FT_TRY(lengths(bench, "proxy"));
	FT_TRY(xpu_side_map(side, &can));
	if (can) {
		FT_TRY(lengths(bench, "kernel"));
		bench->near = side->args.target;
		FT_TRY(issue(bench, XPU_ISSUE, "a kernel puts 8 bytes itself"));
		FT_TRY(store(bench, 0, 1, "kernel to kernel, one way: a plain store",
			     "  a signal that the kernel stores"));
		FT_TRY(store(bench, 8, 1, "  two plain stores, 8 bytes and a word",
			     "  a put of 8 bytes and a signal"));
		FT_TRY(store(bench, 65536, XPU_THREADS_MAX, "  64 KiB and a word, plain stores",
			     "  a put of 64 KiB and a signal"));
	} else if (!proc->rank) {
		printf("kernels cannot store to the peer's memory here\n");
	}
	return xpu_side_close(side);
}

/* Names host memory beside the signals as a target. */
static int name_near(struct bench *bench)
{
	struct xpu_side *side = &bench->side;
	struct ft_buf near = side->signal;
	size_t len = sizeof(bench->near_desc);

	near.addr += NEAR;
	FT_TRY(xpu_side_target(side, &near, side->there_signal + NEAR, side->there_signal_key,
			       &bench->near));
	bench->far = side->args.target;
	if (!side->signal.mr)
		return 0;
	return side->xpu->mr_get_desc(side->signal.mr, &bench->near_desc, &len, 0,
				      side->xpu_ctx);
}

static int run(struct ft_proc *proc)
{
	struct bench bench = {
		.blocks = proc->opts.iface == FI_HMEM_SYSTEM ? 4 : 132,
		.threads = 1,
		.turns = proc->opts.quick ? 1 : TURNS,
		.pings = proc->opts.quick ? 20 : PINGS,
		.rate = proc->opts.quick ? 50 : RATE,
	};
	struct xpu_side *side = &bench.side;
	const char *null = getenv("BUSYCORE_NULL");

	if (proc->opts.quick)
		proc->opts.wait = FT_WAIT_YIELD;
	FT_TRY(xpu_side_open(side, proc, FI_P2P_XPU_EXCLUSIVE, 1 << 20, XPU_BLOCKS_MAX, true));
	FT_TRY(name_near(&bench));
	bench.marks = null && !strcmp(null, "mark");
	side->args.scope = FI_XPU_WORK_ITEM;
	side->args.over = (uint64_t *) (side->in.addr + side->in.size) - 1;
	if (!proc->rank)
		printf("%-44s %10s %10s %10s\n", "", "median", "least", "most");
	FT_TRY(provider(&bench));
	if (!null)
		FT_TRY(kernels(&bench));
	FT_TRY(xpu_side_take_back(side));
	FT_TRY(ft_meet_all(proc));
	if (!null) {
		FT_TRY(host(&bench));
		FT_TRY(host_beside_kernel(&bench));
	}
	FT_TRY(xpu_side_close(side));
	return null || side->device < 0 ? 0 : mapped(&bench);
}

int main(int argc, char **argv)
{
	const struct ft_test test = {
		.purpose = "Latency and rate of what kernels post, and the host.",
		.ranks = 2,
		.measures = true,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
