/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Endpoints where operations may wait for counters: struct domain_triggers has these functions. */
#ifndef P2P_TRIGGER_EP_H
#define P2P_TRIGGER_EP_H

#include "fid/ep.h"

int trigger_ep_open(struct p2p_ep *ep);
void trigger_ep_flags(struct p2p_ep *ep);
void trigger_ep_close(struct p2p_ep *ep);

/*
 * fi_ep_alias(3): an endpoint that is never opened. It has the flags that calls without any have there, so these may wait for
 * counters, too. It hands on what is posted; no call is the core's at once
 */
int trigger_ep_alias(struct p2p_ep *ep, const struct fi_alias *alias);

#endif /* P2P_TRIGGER_EP_H */
