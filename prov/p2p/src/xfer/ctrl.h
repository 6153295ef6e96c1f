/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Control messages (wire.h), sent and received. All [locked]. */
#ifndef P2P_CTRL_H
#define P2P_CTRL_H

#include "xfer/xfer.h"

/*
 * Hands a message that has come to its protocol, if its sender is known and it fits what is here. False: there
 * is no memory for what it says, and it is to come again, before those behind it
 */
bool ctrl_dispatch(struct xfer_ep *ep, struct wire_msg *msg);

/* Posts the internal receives if they are not posted, now or when there is room and memory */
void ctrl_listen(struct xfer_channel *channel);

/*
 * The endpoint begins: posts an internal receive for greetings; and all, if they may be needed before
 * we hear of it
 */
void ctrl_start(struct xfer_ep *ep);

/* No control message is expected any more, but for greetings */
void ctrl_stop(struct xfer_ep *ep);

/* The channel is closed at the core: what was to be posted is not any more */
void ctrl_close(struct xfer_channel *channel);

/* Posts internal receives that there was no room or memory for */
void ctrl_progress(struct xfer_channel *channel);

/* Listens for control messages, as a completion of ours came from the queue, with @data. */
void ctrl_expect(struct xfer_cq *cq, uint64_t data);

/*
 * Sends @msg by @channel to @addr, as it is, now or when the core has room. 0 or a negative error (logged). Within a pass
 * through progress it waits for others until that has ended. @until: as in struct xfer_out
 */
int ctrl_send(struct xfer_channel *channel, fi_addr_t addr, const struct wire_msg *msg,
	      uint64_t until);

/*
 * Answers who may not be whom he says he is: only the last answer waits for an address, and no longer than @time [ms].
 * Those before it were to questions that are out of date.
 */
int ctrl_answer(struct xfer_channel *channel, fi_addr_t addr, const struct wire_msg *msg,
		uint64_t time);

/*
 * Sends @msg to a peer: to where answers go or, if @msg.front, in the channel of the application's own messages. As
 * above; -FI_ENOTCONN: it is not known any more
 */
int ctrl_tell(struct xfer_peer *peer, struct wire_msg *msg);

/*
 * Counts a message that a peer waits for in vain, if it failed for want of memory (@ret). Without memory
 * (-FI_ENOMEM) it is never sent, so it counts as one that has got lost: the peer finds by a PROBE that it is
 * missing, and what is under way ends at both ends.
 */
void ctrl_owed(struct xfer_peer *peer, int ret);

/*
 * Sends a PROBE each way, if there are two, which tells what was sent before it. @asks: for one in return
 */
void ctrl_probe(struct xfer_peer *peer, bool asks);

/* Has anything that was sent to @addr yet to be given to the core? */
bool ctrl_unsent(const struct xfer_channel *channel, fi_addr_t addr);

#endif /* P2P_CTRL_H */
