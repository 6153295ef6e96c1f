/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Numbers that nobody can guess. See random.h. */
#include "base/random.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/types.h>
#include <rdma/fi_errno.h>

#include "base/log.h"

int random_fill(void *buf, size_t len)
{
	ssize_t got;

	/* so few bytes come at once, unless a signal is first, before the kernel has any */
	do
		got = getrandom(buf, len, 0);
	while (got < 0 && errno == EINTR);
	if (got == (ssize_t) len)
		return 0;
	P2P_WARN("getrandom: %s\n", strerror(errno));
	return -FI_EIO;
}
