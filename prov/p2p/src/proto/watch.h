/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Peers that something is under way with, and that are silent.
 *
 * A control message is a sign of life. So is an answer of the peer's process (keepalive.h), which comes
 * though the application there does not call libfabric. Silence is no proof that it is dead: it may be stopped. So a
 * peer is lost (loss.h) when its host says that its process has ended, or it says itself that it has lost us. Only where
 * the user has set FI_P2P_PEER_TIMEOUT, one without a sign of life for so long is lost, too. Silence counts for nothing
 * if the peer says that its process answers, but no answer was ever heard: there may be a firewall.
 *
 * A peer that is silent is sent a control message now and then, too. That is how a core notices that
 * a connection is broken. The peer answers.
 *
 * Such a message tells how many others went before it. If the core has lost one, the peers know by that. It
 * may have been about anything, so all that is under way between the two ends.
 */
#ifndef P2P_WATCH_H
#define P2P_WATCH_H

#include "xfer/xfer_proto.h"

extern const struct xfer_proto watch_proto;

#endif /* P2P_WATCH_H */
