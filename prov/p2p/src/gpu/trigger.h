/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Triggered operations, and the deferred work queue (fi_trigger(3)).
 *
 * Works are posted by the same calls as all else, so they take the same paths. Who does not ask for
 * FI_TRIGGER has nothing of this: a domain with it follows up every operation, and has calls of its own
 * (trigger_calls.h). Over a hook, where nobody asks us, it does so from the first work on.
 */
#ifndef P2P_TRIGGER_H
#define P2P_TRIGGER_H

#include "fid/domain.h"

extern const struct domain_triggers triggers;

#endif /* P2P_TRIGGER_H */
