/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_overhead: what ofi_p2p costs messages between host buffers.
 *
 * One process of each side has three endpoints open: the core provider's, one of ofi_p2p on top
 * of it, and a second one of the core provider's as a control. They take turns, with the same
 * buffers. The program reports the median of the ratios within each round of turns.
 */
#include <stdio.h>
#include <stdlib.h>

#include "turns.h"

#define ROUNDS 20
#define TURN_USEC 1500 /* how long a turn is to last */

static const size_t default_sizes[] = {8, 64, 1024, 4096};

enum role { CORE, OURS, CONTROL, ROLES };

/** struct overhead - the program, with the endpoints by role */
struct overhead {
	struct turns turns;
	struct turns_ep eps[ROLES];
	struct ft_buf tx, rx;
};

static void report(const struct turns *t, double *values)
{
	const struct turns_row *row = &t->row;
	const bool rate = row->test == TURNS_STREAM;
	const size_t rounds = row->rounds;

	printf("%-8s %-7s %-7s %6zu", rate ? "rate" : "latency", row->tagged ? "tagged" : "msg",
	       row->inject ? "inject" : "send", (size_t) row->size);
	for (enum role role = CORE; role <= OURS; role++) {
		double middle;

		for (size_t r = 0; r < rounds; r++)
			values[r] = t->usec[r][role];
		middle = turns_quantile(values, rounds, 0.5);
		printf(" %9.4f", rate ? 1 / middle : middle);
	}
	for (enum role role = OURS; role <= CONTROL; role++) {
		for (size_t r = 0; r < rounds; r++)
			values[r] = t->usec[r][CORE] / t->usec[r][role];
		printf(" %7.4f", turns_quantile(values, rounds, 0.5));
	}
	printf("\n");
	fflush(stdout);
}

/* Finds out how many messages a turn may have, and measures one row with that. */
static int measure(struct turns *t, enum turns_test test, bool inject, size_t size)
{
	double values[TURNS_ROUNDS], round;

	t->row.test = test;
	t->row.inject = inject;
	t->row.size = size;
	/* each window is acknowledged before the next one goes */
	t->row.window = test == TURNS_STREAM ? (uint64_t) t->opts.window : 1;
	t->row.batch = t->row.window;
	FT_TRY(turns_plan(t, TURN_USEC, &round));
	t->row.rounds = t->opts.rounds;
	t->row.seed++;
	FT_TRY(turns_tell(t));
	report(t, values);
	return 0;
}

static int run_client(struct overhead *o)
{
	static const enum turns_test tests[] = {TURNS_LATENCY, TURNS_STREAM};
	struct turns *t = &o->turns;
	const size_t injected = o->eps[OURS].ctx.info->tx_attr->inject_size;

	for (size_t i = 0; i < FT_COUNT(tests); i++)
		for (int inject = 0; inject <= 1; inject++)
			for (size_t k = 0; k < t->opts.size_count; k++) {
				const size_t size = t->opts.sizes[k];

				if (!inject || size <= injected)
					FT_TRY(measure(t, tests[i], inject, size));
			}
	t->row.rounds = 0;
	return turns_tell(t);
}

static int run_server(struct overhead *o)
{
	do
		FT_TRY(turns_obey(&o->turns));
	while (o->turns.row.rounds);
	return 0;
}

static int start(struct overhead *o)
{
	struct turns *t = &o->turns;
	struct ft_opts *opts = &t->opts;
	const size_t window = (size_t) opts->window;
	size_t largest = 1;

	FT_TRY(turns_sizes(opts, default_sizes, FT_COUNT(default_sizes)));
	if (!opts->rounds)
		opts->rounds = ROUNDS;
	t->side_count = ROLES;
	for (int i = 0; i < ROLES; i++)
		t->sides[i] = (struct turns_side){.ep = &o->eps[i], .tx = &o->tx, .rx = &o->rx};
	FT_TRY(turns_start(t));
	turns_shuffle(t);
	for (int i = 0; i < ROLES; i++)
		FT_TRY(turns_open(t, &o->eps[t->order[i]], t->order[i] == OURS, 0));
	for (size_t i = 0; i < opts->size_count; i++)
		largest = FT_MAX(largest, opts->sizes[i]);
	FT_TRY(ft_buf_alloc(&o->eps[CORE].ctx, &o->tx, FI_HMEM_SYSTEM, largest * window));
	FT_TRY(ft_buf_alloc(&o->eps[CORE].ctx, &o->rx, FI_HMEM_SYSTEM, largest * window));
	return turns_slots(t, &o->eps[CORE], window);
}

static int stop(struct overhead *o)
{
	int ret = turns_stop(&o->turns), closed;

	ft_buf_free(&o->tx);
	ft_buf_free(&o->rx);
	for (int i = 0; i < ROLES; i++) {
		closed = ft_close(&o->eps[i].ctx);
		ret = ret ? ret : closed;
	}
	return ret;
}

int main(int argc, char **argv)
{
	struct overhead o = {.turns.oob = -1};
	int ret;

	ft_options_parse(&o.turns.opts, FT_SCOPE_OVERHEAD,
			 "What ofi_p2p costs messages between host buffers: the medians of "
			 "the ratios, in speed, of\nPROVIDER (-p), which ends in \";ofi_p2p\", "
			 "to the core provider below it, and of a\nsecond endpoint of the core "
			 "provider's to the first.",
			 argc, argv);
	ret = start(&o);
	if (!ret)
		ret = o.turns.client ? run_client(&o) : run_server(&o);
	if (!ret)
		ret = stop(&o);
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
