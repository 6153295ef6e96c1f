/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_order: messages with the same tag (or none) from the same peer match receives in
 * the order in which they were sent, whatever their sizes and memory kinds, and so
 * whichever of the provider's protocols carries each.
 */
#include <stdio.h>
#include <string.h>

#include "flood.h"

static const size_t sizes[] = {
	0,     1,     64,    4095,  4096,   8191,   8192,   8193,   16384,
	16385, 65535, 65536, 65537, 131072, 262144, 262145, 524289,
};

static int run(struct ft_proc *proc)
{
	static const unsigned int early[] = {100, 0, 50, 25};
	/*
	 * The matching code that shm and, after 1.17, ofi_rxm share loses the order
	 * between receives from any source and from the peer (2.6 still); shm of 1.x
	 * also when some receives are posted too late.
	 */
	const char *prov = proc->opts.prov ? proc->opts.prov : "";
	const bool shm = !strncmp(prov, "shm", 3);
	const bool no_mix =
		shm || (strstr(prov, "ofi_rxm") && fi_version() >= FI_VERSION(1, 18));
	const size_t early_count = shm && fi_version() < FI_VERSION(2, 0) ? 2 : FT_COUNT(early);
	struct flood_round rounds[4 * FT_COUNT(early)];
	const size_t total = FT_COUNT(rounds) / (proc->opts.quick ? 2 : 1);

	if (no_mix && proc->rank == 0)
		printf("note: without receives that the core provider itself mixes up\n");
	for (size_t i = 0; i < total; i++)
		rounds[i] = (struct flood_round){
			.count = 48,
			.tagged = i % 2 == 0,
			.one_tag = true,
			.any_source = !no_mix,
			.early = early[i / 2 % early_count],
			.sizes = sizes,
			.size_count = FT_COUNT(sizes),
			.largest = sizes[FT_COUNT(sizes) - 1],
		};
	return flood(proc, rounds, total);
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Messages of one tag match in the order in which they were sent.",
		.ranks = 2,
		.connects = true,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
