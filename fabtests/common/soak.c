/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Rounds that two ranks go on with, for a time or a number of them, and what they leave behind. */
#include <inttypes.h>
#include <stdio.h>

#include "ft_test.h"

#define REPORT_US 1e7

/* What rank 0 says before each round */
enum { END, MORE, WARM };

static char decide(struct ft_soak *soak, double now)
{
	const struct ft_opts *opts = &soak->proc->opts;
	const double all = (double) opts->seconds * 1e6;

	if (opts->flat && !soak->warm.resident && now - soak->began >= all / 2)
		return WARM;
	if ((opts->rounds && soak->rounds >= opts->rounds) ||
	    (opts->seconds && now - soak->began >= all))
		return END;
	return MORE;
}

static int say(struct ft_soak *soak, double now, uint64_t ops, uint64_t bytes)
{
	struct ft_usage usage;

	FT_TRY(ft_usage_read(&usage));
	soak->said = now;
	printf("%4.0f s: %" PRIu64 " rounds, %" PRIu64 " operations, %" PRIu64
	       " MiB received; rank 0 has %zu KiB, %zu descriptors, %zu mappings\n",
	       (now - soak->began) / 1e6, soak->rounds, ops, bytes >> 20, usage.resident >> 10,
	       usage.descriptors, usage.mappings);
	return 0;
}

/* Has this process more than when it was warm? */
static int check_flat(const struct ft_soak *soak)
{
	const struct ft_usage *was = &soak->warm;
	struct ft_usage is;

	FT_TRY(ft_usage_read(&is));
	printf("rank %d: %zu KiB resident (%zu when warm), %zu descriptors (%zu), %zu mappings "
	       "(%zu)\n",
	       soak->proc->rank, is.resident >> 10, was->resident >> 10, is.descriptors,
	       was->descriptors, is.mappings, was->mappings);
	FT_CHECK(is.resident <= was->resident + FT_FLAT_BYTES, "memory grows");
	FT_CHECK(is.descriptors <= was->descriptors, "descriptors grow in number");
	FT_CHECK(is.mappings <= was->mappings + FT_FLAT_MAPPINGS, "mappings grow in number");
	return 0;
}

void ft_soak_begin(struct ft_soak *soak, struct ft_proc *proc)
{
	*soak = (struct ft_soak){.proc = proc, .began = ft_usec()};
	soak->said = soak->began;
}

int ft_soak_more(struct ft_soak *soak, uint64_t ops, uint64_t bytes, bool *more)
{
	const struct ft_opts *opts = &soak->proc->opts;
	const int fd = soak->proc->fd[!soak->proc->rank];
	const uint64_t mine[] = {ops, bytes};
	uint64_t theirs[FT_COUNT(mine)];
	double now;
	char what;

	if (soak->proc->rank) {
		FT_TRY(ft_oob_send(fd, mine, sizeof(mine)));
		FT_TRY(ft_oob_recv(fd, &what, 1, opts->timeout));
	} else {
		FT_TRY(ft_oob_recv(fd, theirs, sizeof(theirs), opts->timeout));
		now = ft_usec();
		what = decide(soak, now);
		FT_TRY(ft_oob_send(fd, &what, 1));
		if (what == END || now - soak->said > REPORT_US)
			FT_TRY(say(soak, now, ops + theirs[0], bytes + theirs[1]));
	}
	if (what == WARM)
		FT_TRY(ft_usage_read(&soak->warm));
	if (what == END && opts->flat)
		FT_TRY(check_flat(soak));
	soak->rounds++;
	*more = what != END;
	return 0;
}
