/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Triggered operations, and the deferred work queue (fi_trigger(3)).
 *
 * Works are posted by ep_submit() as all else is, so they take the same paths. Who does not ask for
 * FI_TRIGGER has nothing of this: a domain with it follows up every operation, and its endpoints look for works
 * before (p2p_ep.submit). Over a hook it follows up operations from the first work on.
 */
#ifndef P2P_TRIGGER_H
#define P2P_TRIGGER_H

#include "fid/domain.h"

extern const struct domain_triggers triggers;

#endif /* P2P_TRIGGER_H */
