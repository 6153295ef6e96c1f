/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The program fi_p2p_scale. See scale.h. */
#include <string.h>

#include "scale.h"

int scale_gather(struct ft_proc *proc, const void *mine, size_t size, void *all)
{
	if (proc->rank)
		return ft_oob_send(proc->fd[0], mine, size);
	memcpy(all, mine, size);
	for (int i = 1; i < proc->ranks; i++)
		FT_TRY(ft_oob_recv(proc->fd[i], (char *) all + (size_t) i * size, size,
				   proc->opts.timeout));
	ft_progress_note();
	return 0;
}

int scale_tell(struct ft_proc *proc, void *value, size_t size)
{
	if (proc->rank)
		return ft_oob_recv(proc->fd[0], value, size, proc->opts.timeout);
	for (int i = 1; i < proc->ranks; i++)
		FT_TRY(ft_oob_send(proc->fd[i], value, size));
	return 0;
}

static int run(struct ft_proc *proc)
{
	const char *const ops = proc->opts.ops ? proc->opts.ops : "peers";
	const bool turns = ft_is_listed(ops, "pairs") || ft_is_listed(ops, "alltoall");

	FT_CHECK(turns || ft_is_listed(ops, "start") || ft_is_listed(ops, "lanes") ||
			 ft_is_listed(ops, "objects") || ft_is_listed(ops, "peers"),
		 "--ops %s: nothing of that is known", ops);
	/* first, as only the first fi_getinfo() of a process loads providers */
	if (ft_is_listed(ops, "start"))
		FT_TRY(scale_start(proc, false));
	if (ft_is_listed(ops, "lanes"))
		FT_TRY(scale_start(proc, true));
	if (ft_is_listed(ops, "objects"))
		FT_TRY(scale_objects(proc));
	if (ft_is_listed(ops, "peers"))
		FT_TRY(scale_peers(proc));
	return turns ? scale_turns(proc) : 0;
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose =
			"What scale costs. --ops chooses (peers):\n"
			"  start     time from fi_getinfo to a message from each other rank (-S: its "
			"length), memory,\n            descriptors, threads\n"
			"  lanes     the same, and on until a message of rank 0's has taken lanes (-S: "
			"some MiB)\n"
			"  objects   the same for one more endpoint, queue, region and so on, of up to "
			"1,000 (-q: 10)\n"
			"  peers     up to 64 endpoints (-q: 4), as peers of one: opening the last one, "
			"the first message\n            to it and back, then one of 1 MiB from device "
			"memory (-D); what the process with one\n            endpoint has grown by, what "
			"each peer's endpoint takes, and an empty fi_cq_read\n"
			"  pairs     half of the ranks send windows of 64 messages to the other half\n"
			"  alltoall  all send to all\n"
			"The last two compare PROVIDER (-p), which ends in \";ofi_p2p\", with the core "
			"provider below it,\nturn by turn, and that with a second endpoint of its own.",
		.scope = FT_SCOPE_TEST | FT_SCOPE_SCALE,
		.ranks = 2,
		.measures = true,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
