/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Tokens of greetings (hello.h), and those that are not good any more.
 *
 * A peer's token is a hash of its name, process, port and epoch, with a secret. So an end gives the same one in its answer
 * and in its confirmation, and needs no record of its askers. Another process, or another epoch, has another token.
 *
 * An end that has lost a peer takes the peer's tokens for lost. A peer that says anything with a lost token is told
 * so, as it would wait for ever for what it has under way. It may have lost this end as well, and greeted it anew. So the
 * word names the token that is lost, which nobody else knows, and means no newer one. All [locked].
 */
#ifndef P2P_HELLO_TOKEN_H
#define P2P_HELLO_TOKEN_H

#include "xfer/peer.h"

/* The token for who says @msg, a greeting with a name, in @epoch */
uint64_t hello_token_make(const struct xfer_ep *ep, const struct wire_msg *msg, uint64_t epoch);

/* Tells by @via to @to that a token is lost: @grant, which @peer bears, or @token, which it has given. The other is 0 */
void hello_token_say(const struct xfer_peer *peer, uint64_t grant, uint64_t token,
		     struct xfer_channel *via, fi_addr_t to);

/* Tells a peer that is lost so by its endpoint itself: what goes beside it does not get there */
void hello_token_say_again(const struct xfer_peer *peer);

/* This end is told that a token which it bears is lost (wire_resets()): so is the peer that has given it */
void hello_token_reset(struct xfer_ep *ep, const struct wire_msg *msg);

#endif /* P2P_HELLO_TOKEN_H */
