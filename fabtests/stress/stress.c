/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* fi_p2p_stress: see stress.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stress.h"

const struct stress_type *const stress_types[] = {
	&stress_msg,   &stress_tagged, &stress_probe,  &stress_cancel, &stress_multi,
	&stress_write, &stress_read,   &stress_atomic, &stress_fetch,  &stress_compare,
};
const size_t stress_type_count = FT_COUNT(stress_types);

/*
 * ofi_p2p's parameters, unless the environment has them: where its thresholds lie, and
 * how little memory it has to make do with, is chosen by the seed, too.
 */
static void set_parameters(uint64_t seed, bool say)
{
	static const char *const names[] = {"FI_P2P_EAGER_SIZE", "FI_P2P_CHUNK_SIZE",
					    "FI_P2P_PINNED_SIZE"};
	static const char *const values[][FT_COUNT(names)] = {
		{"1048576", "1048576", "67108864"},
		{"4096", "16384", "4194304"},
		{"16384", "65536", "4194304"},
		{"524288", "524288", "4194304"},
	};

	for (size_t i = 0; i < FT_COUNT(names); i++)
		setenv(names[i], values[seed % FT_COUNT(values)][i], 0);
	if (say)
		printf("%s=%s %s=%s %s=%s\n", names[0], getenv(names[0]), names[1],
		       getenv(names[1]), names[2], getenv(names[2]));
}

static void print_replay(const struct stress *s)
{
	const struct ft_opts *opts = &s->proc->opts;

	ft_err("round %" PRIu64 " of seed %" PRIu64
	       " failed. Alone: %sfi_p2p_stress%s%s%s%s%s%s "
	       "--seed %" PRIu64 " --first %" PRIu64 " --rounds 1; with those before it: "
	       "--first %" PRIu64 " --rounds %" PRIu64,
	       s->round.number, opts->seed, ft_hook_active() ? "FI_HOOK=p2p " : "",
	       opts->prov ? " -p '" : "", opts->prov ? opts->prov : "", opts->prov ? "'" : "",
	       opts->iface == FI_HMEM_SYSTEM ? " -D system" : " -D cuda",
	       opts->ops ? " --ops " : "", opts->ops ? opts->ops : "", opts->seed,
	       s->round.number, opts->first, s->round.number - opts->first + 1);
}

/* What has not ended says what it hangs on. */
static void print_unfinished(const struct stress *s)
{
	char what[512];
	int left = 8;

	for (unsigned int n = 0; n < s->round.count && left; n++)
		for (int end = 0; end < ENDS && left; end++) {
			const struct stress_part *part = &s->part[n][end];

			if (!part->mine || part->done || (!part->wanted && end == FROM))
				continue;
			stress_op_name(&s->round.op[n], what, sizeof(what));
			ft_err("not complete at its %s%s: %s",
			       end == TO ? "destination" : "source",
			       part->posted ? "" : ", not posted", what);
			left--;
		}
}

static int rounds(struct stress *s)
{
	struct ft_soak soak;
	uint64_t number;

	ft_soak_begin(&soak, s->proc);
	for (number = s->proc->opts.first;; number++) {
		bool more;
		int ret;

		FT_TRY(ft_soak_more(&soak, s->ops, s->bytes, &more));
		if (!more)
			return 0;
		stress_plan_round(&s->plan, number, &s->round);
		ret = stress_round_run(s);
		if (!ret)
			continue;
		/* what the other process waited for in vain may hang on this */
		print_unfinished(s);
		/* it says why, if that is what ended this one */
		if (ret != -FI_ECONNRESET)
			print_replay(s);
		return ret;
	}
}

static int run(struct ft_proc *proc)
{
	struct stress *s;
	int ret;

	if (proc->opts.prov && !strncmp(proc->opts.prov, "shm", 3) &&
	    fi_version() == FI_VERSION(2, 1))
		return ft_skip("shm of 2.1 does not say of remote data whether it was written");
	s = calloc(1, sizeof(*s));
	if (!s)
		return ft_fail(-FI_ENOMEM, "calloc", "%zu bytes", sizeof(*s));
	s->proc = proc;
	proc->opts.wait = FT_WAIT_YIELD;
	if (!proc->opts.seconds && !proc->opts.rounds)
		proc->opts.seconds = 10;
	set_parameters(proc->opts.seed, proc->rank == 0);
	ret = stress_open(s);
	if (!ret)
		ret = rounds(s);
	if (!ret)
		ret = stress_barrier(s);
	if (!ret)
		ret = stress_close(s);
	/* After an error operations may still be under way into it: leave it to exit. */
	if (!ret)
		free(s);
	return ret;
}

int main(int argc, char **argv)
{
	static const struct ft_test test = {
		.purpose = "Random operations between two processes, all that they do checked.",
		.scope = FT_SCOPE_STRESS,
		.ranks = 2,
		.may_die = -1,
		.run = run,
	};

	return ft_test_main(&test, argc, argv);
}
