/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Sleeping on a wait point (wait.h). Progress comes first; whoever finds something does not
 * sleep.
 */
#ifndef P2P_SLEEP_H
#define P2P_SLEEP_H

#include "xfer/wait.h"

/*
 * May the caller sleep on @point.fd? 0; -FI_EAGAIN: there may be something already; or
 * another error. Makes progress.
 */
int sleep_try(struct wait_point *point);

/*
 * Sleeps until there may be something, for at most @timeout [ms], or without limit if that
 * is negative. 0, -FI_EINTR or another error. Where there is no descriptor to sleep on
 * (NULL) it lets others run, and dozes for moments once @rounds (0 at first) is high.
 */
int sleep_on(struct wait_point *point, struct xfer *xfer, int64_t timeout,
	     unsigned int *rounds);

#endif /* P2P_SLEEP_H */
