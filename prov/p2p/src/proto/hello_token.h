/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Tokens of greetings (hello.h): those that answers give without a record of who has asked, and those that are not good
 * any more.
 *
 * An end that has lost a peer holds the peer's tokens for lost. Whoever bears one that is, and whatever it says, is told
 * so, as it would wait for ever for what it has under way. It may have lost this end as well, and greeted it anew. So it is
 * told the token that it bears, which nobody else knows, and it bears no other one that is meant. All [locked].
 */
#ifndef P2P_HELLO_TOKEN_H
#define P2P_HELLO_TOKEN_H

#include "xfer/peer.h"

/* The token for who asks in @msg: it is made of what is said there. @dead: the one that is lost, by which we knew it */
uint64_t hello_token_make(struct xfer_ep *ep, const struct wire_msg *msg, uint64_t *dead);

/* Was the token that @msg, a confirmation, bears made so? */
bool hello_token_ours(const struct xfer_ep *ep, const struct wire_msg *msg);

/*
 * Was such a token made before @peer was lost for the last time? The confirmation may have been on its way for as long as
 * one of the two was stopped. A peer that is known by it may say it again.
 */
bool hello_token_outdated(const struct xfer_peer *peer, uint64_t token);

/* Holds such a token for lost, and tells @peer */
void hello_token_refuse(struct xfer_peer *peer, uint64_t token);

/* Tells who bears @token that it is not good any more */
void hello_token_tell(const struct xfer_token *token);

/* Tells a peer that is lost so by its endpoint itself: what goes beside it does not get there */
void hello_token_bury(const struct xfer_peer *peer);

/* This end is told that a token which it bears is lost (wire_resets()): so is the peer that has given it */
void hello_token_reset(struct xfer_ep *ep, const struct wire_msg *msg);

#endif /* P2P_HELLO_TOKEN_H */
