/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Descriptors that are left. See descriptors.h. */
#include "base/descriptors.h"

#include <poll.h>
#include <sys/resource.h>
#include <rdma/fi_errno.h>

#include "base/base.h"

/* Looked at together. The kernel gives out low numbers first, so the highest ones are mostly free */
#define DESCRIPTORS_LOOK 64

/* How many of the @count numbers from @first on are free. What is open is only looked at */
static int descriptors_free(rlim_t first, unsigned int count)
{
	struct pollfd polled[DESCRIPTORS_LOOK];
	int left = 0;

	for (unsigned int i = 0; i < count; i++)
		polled[i] = (struct pollfd){.fd = (int) (first + i)};
	if (poll(polled, count, 0) <= 0)
		return 0;
	for (unsigned int i = 0; i < count; i++)
		left += (polled[i].revents & POLLNVAL) != 0;
	return left;
}

int descriptors_spare(void)
{
	struct rlimit limit;
	unsigned int count;
	rlim_t at;
	int left = 0;

	/* without a limit there is nothing to count */
	if (getrlimit(RLIMIT_NOFILE, &limit))
		return 0;
	for (at = limit.rlim_cur; at && left <= DESCRIPTORS_KEPT; at -= count) {
		count = (unsigned int) P2P_MIN(at, DESCRIPTORS_LOOK);
		left += descriptors_free(at - count, count);
	}
	return left > DESCRIPTORS_KEPT ? 0 : -FI_EMFILE;
}
