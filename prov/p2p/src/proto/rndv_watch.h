/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Transfers that do not move: their peers are probed. All [locked]. */
#ifndef P2P_RNDV_WATCH_H
#define P2P_RNDV_WATCH_H

#include "xfer/req.h"

/* Looks after transfers that do not move; a few times a second is enough */
void rndv_watch(struct xfer *xfer);

#endif /* P2P_RNDV_WATCH_H */
