/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Flags of the calls that take some. docs/conformance.md has what becomes of each, call by call: what is not kept
 * is refused.
 */
#ifndef P2P_FLAGS_H
#define P2P_FLAGS_H

#include "fid/ep.h"

/* The calls with flags; all atomic operations are one */
enum flags_call {
	FLAGS_SEND,
	FLAGS_TSEND,
	FLAGS_RECV,
	FLAGS_TRECV,
	FLAGS_READ,
	FLAGS_WRITE,
	FLAGS_ATOMIC,
	FLAGS_CALLS
};

/* With these alone there is nothing to ask */
#define FLAGS_TX_PLAIN                                                                         \
	(FI_COMPLETION | FI_MORE | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |     \
	 FI_DELIVERY_COMPLETE)
#define FLAGS_RX_PLAIN (FI_COMPLETION | FI_MORE)

/*
 * Are they such as the call may have on this endpoint? 0 or an error, logged. Without a protocol of ours the core judges
 * what it is given.
 */
int flags_check(const struct p2p_ep *ep, enum flags_call call, uint64_t flags);

/*
 * The same of an endpoint's own flags, which calls without any have. @layered: with our protocol
 */
int flags_check_own(bool layered, uint64_t tx_flags, uint64_t rx_flags);

/*
 * The same of a call that is about to be carried out, to or from @peer; @flags become what is left to do. A fenced one
 * may have to wait: -FI_EAGAIN
 */
int flags_heed(struct p2p_ep *ep, enum flags_call call, uint64_t *flags, fi_addr_t peer);

/* The same, for the beginning of a call */
static inline int flags_take(struct p2p_ep *ep, enum flags_call call, uint64_t *flags,
			     fi_addr_t peer)
{
	const bool recv = call == FLAGS_RECV || call == FLAGS_TRECV;
	const bool data = call == FLAGS_SEND || call == FLAGS_TSEND || call == FLAGS_WRITE;
	const uint64_t plain =
		recv ? FLAGS_RX_PLAIN : FLAGS_TX_PLAIN | (data ? FI_REMOTE_CQ_DATA : 0);
	uint64_t given = *flags;
	int ret;

	if (p2p_likely(!(given & ~plain)))
		return 0;
	ret = flags_heed(ep, call, &given, peer);
	*flags = given;
	return ret;
}

#endif /* P2P_FLAGS_H */
