/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Endpoints of this process that are closed, where the core provider crashes when something is sent
 * to one (QUIRK_FRAGILE). What we have still to send to them is not sent, nor what the application asked for before.
 */
#ifndef P2P_GONE_H
#define P2P_GONE_H

#include "xfer/xfer.h"

/* An endpoint has a name from now on, which a closed one may have had before. Takes a lock */
void gone_opened(const struct xfer_ep *ep);

/* It is about to be closed */
void gone_closed(const struct xfer_ep *ep);

/* Is the peer with that address an endpoint of this process that is closed? [locked] */
bool gone_is(struct xfer_ep *ep, fi_addr_t addr);

/*
 * The same, not [locked], of what the application asked for before, and what waited since: for a counter, in a stream, in
 * a kernel's ring
 */
bool gone_is_late(struct xfer_ep *ep, fi_addr_t addr);

#endif /* P2P_GONE_H */
