/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Closed endpoints of this process, over core providers that crash at a send to one (QUIRK_FRAGILE).
 * Nothing more is sent there: neither messages of our own, nor those that the application has asked for before.
 */
#ifndef P2P_GONE_H
#define P2P_GONE_H

#include "xfer/xfer.h"

/* An endpoint has a name from now on, which a closed one may have had before. Takes a lock */
void gone_opened(const struct xfer_channel *channel);

/* It is about to be closed */
void gone_closed(const struct xfer_channel *channel);

/* Tells whether the peer with that address is an endpoint of this process that is closed. [locked] */
bool gone_is(struct xfer_channel *channel, fi_addr_t addr);

/*
 * The same, not [locked], of what the application asked for before, and what waited since: for a counter, in a stream, in
 * a kernel's ring
 */
bool gone_is_late(struct xfer_ep *ep, fi_addr_t addr);

#endif /* P2P_GONE_H */
