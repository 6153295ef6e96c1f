/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Peers that something is under way with, and that are silent.
 *
 * A control message is a sign of life. So is an answer of the peer's process (keepalive.h), which comes
 * though the application there does not call libfabric. Silence is no proof that it is dead: it may be stopped. So a
 * peer is lost (loss.h) when its host says that its process has ended, or it says itself that it has lost us. If the
 * user has set FI_P2P_PEER_TIMEOUT, a peer without a sign of life for that long is lost, too. Silence proves nothing of
 * a peer whose process should answer, and was never heard to: there may be a firewall.
 *
 * A peer that is silent is sent a control message now and then, too. That is how a core notices that
 * a connection is broken. The peer answers.
 *
 * Such a message tells how many others went before it. So the peers notice if the core has lost one. The lost one
 * may have been about anything, so we end all that is under way between the two.
 */
#ifndef P2P_WATCH_H
#define P2P_WATCH_H

#include "xfer/xfer_proto.h"

extern const struct xfer_proto watch_proto;

#endif /* P2P_WATCH_H */
