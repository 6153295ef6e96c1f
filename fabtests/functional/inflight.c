/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_inflight: many messages under way in both directions at once, of mixed sizes and
 * memory kinds, received in another order than sent, from any source or a given one, with
 * and without ignored tag bits; some or all of them before a receive is posted.
 */
#include <stdio.h>
#include <string.h>

#include "flood.h"

#define LARGEST (300 * 1024)
#define MIDDLING (64 * 1024)

/*
 * The shm provider of libfabric 1.17 compares an unexpected message with the ignored bits
 * of the wrong side: such receives never complete there, whoever posts them.
 */
static bool core_ignores_bits(const struct ft_proc *proc)
{
	const char *prov = proc->opts.prov;

	if (!prov || strncmp(prov, "shm", 3) || fi_version() >= FI_VERSION(1, 18))
		return true;
	if (proc->rank == 0)
		printf("note: without ignored tag bits, wrong in libfabric 1.17 shm\n");
	return false;
}

static int run(struct ft_proc *proc)
{
	static const unsigned int early[] = {100, 0, 50, 90, 10, 0};
	const size_t count = proc->opts.quick ? 64 : 128;
	struct flood_round rounds[3 * FT_COUNT(early)];
	const bool ignore = core_ignores_bits(proc);
	const size_t total = proc->opts.quick ? FT_COUNT(early) : FT_COUNT(rounds);

	for (size_t i = 0; i < total; i++)
		rounds[i] = (struct flood_round){
			.count = count,
			.tagged = true,
			.any_source = true,
			.ignore = ignore,
			.early = early[i % FT_COUNT(early)],
			.largest = i % 2 ? MIDDLING : LARGEST,
		};
	return flood(proc, rounds, total);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Many messages in flight both ways, received out of order.",
		.ranks = 2,
		.connects = true,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
