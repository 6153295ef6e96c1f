/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What is left of what the system limits. See room.h. */
#include "base/room.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <rdma/fi_errno.h>

#include "base/base.h"

/* Looked at together. The kernel gives out low numbers first, so the highest ones are mostly free */
#define ROOM_LOOK 64

/* How many of the @count numbers from @first on are free. What is open is only looked at */
static int room_descriptors_free(rlim_t first, unsigned int count)
{
	struct pollfd polled[ROOM_LOOK];
	int left = 0;

	for (unsigned int i = 0; i < count; i++)
		polled[i] = (struct pollfd){.fd = (int) (first + i)};
	if (poll(polled, count, 0) <= 0)
		return 0;
	for (unsigned int i = 0; i < count; i++)
		left += (polled[i].revents & POLLNVAL) != 0;
	return left;
}

/* Tells whether @wanted or more descriptors are left */
static bool room_descriptors(int wanted)
{
	struct rlimit limit;
	unsigned int count;
	rlim_t at;
	int left = 0;

	/* without a limit there is nothing to count */
	if (getrlimit(RLIMIT_NOFILE, &limit))
		return true;
	for (at = limit.rlim_cur; at && left < wanted; at -= count) {
		count = (unsigned int) P2P_MIN(at, ROOM_LOOK);
		left += room_descriptors_free(at - count, count);
	}
	return left >= wanted;
}

bool room_for(size_t len)
{
	struct rlimit limit;
	void *tried;

	if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return true;
	/* without access it takes addresses alone */
	tried = mmap(NULL, ROOM_MEMORY + len, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (tried == MAP_FAILED)
		return false;
	munmap(tried, ROOM_MEMORY + len);
	return true;
}

int room_spare(unsigned int count)
{
	if (!room_descriptors(ROOM_DESCRIPTORS + (int) count))
		return -FI_EMFILE;
	return room_for(0) ? 0 : -FI_ENOMEM;
}
