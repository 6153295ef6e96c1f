/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Programs that do the same in several forms. See forms.h. */
#include "forms.h"

#include <stdio.h>
#include <time.h>

static double cpu_usec(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double) now.tv_sec * 1e6 + (double) now.tv_nsec / 1e3;
}

int form_begin(const struct xpu_side *side, struct form_time *time)
{
	FT_TRY(ft_meet_all(side->proc));
	time->usec = ft_usec();
	time->cpu = cpu_usec();
	return 0;
}

int form_end(const struct xpu_side *side, const struct form_time *time, const char *name,
	     uint64_t turns)
{
	const double usec = ft_usec() - time->usec, cpu = cpu_usec() - time->cpu;

	FT_TRY(ft_meet_all(side->proc));
	if (!side->proc->rank)
		printf("%-10s %10.2f us an iteration, %10.2f us of them the host's thread\n",
		       name, usec / (double) turns, cpu / (double) turns);
	return 0;
}
