/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Flags of the calls that take some. docs/conformance.md says what becomes of each, call by call. A flag that is not
 * kept is refused.
 */
#ifndef P2P_FLAGS_H
#define P2P_FLAGS_H

#include "fid/ep.h"
#include "path/info.h"
#include "xfer/op.h"

/* With these alone there is nothing to ask */
#define FLAGS_TX_PLAIN                                                                         \
	(FI_COMPLETION | FI_MORE | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |     \
	 FI_DELIVERY_COMPLETE)
#define FLAGS_RX_PLAIN (FI_COMPLETION | FI_MORE)

/*
 * Are they such as the call may have on this endpoint? 0 or an error, logged. Without a protocol of ours the core judges
 * what it is given.
 */
int flags_check(const struct p2p_ep *ep, enum fi_op_type type, uint64_t flags);

/*
 * The same of an endpoint's own flags, which calls without any have. @ours: of its kind
 */
int flags_check_own(uint64_t ours, uint64_t tx_flags, uint64_t rx_flags);

/* Returns flags as the core is to have them: those of a message that is never durable, or of an endpoint */
static inline uint64_t flags_to_core(const struct p2p_ep *ep, uint64_t flags)
{
	return flags & ep->xfer.ours & FI_COMMIT_COMPLETE ? info_flags_to_core(flags) : flags;
}

/*
 * The same of an operation that is about to be carried out; its flags become what is left to do. A fenced one
 * may have to wait: -FI_EAGAIN
 */
int flags_heed(struct p2p_ep *ep, struct p2p_op *op);

/* The same, for the beginning of a call */
static inline int flags_take(struct p2p_ep *ep, struct p2p_op *op)
{
	const bool data =
		op->type == FI_OP_WRITE || op->type == FI_OP_SEND || op->type == FI_OP_TSEND;
	const uint64_t plain = op_receives(op)
				       ? FLAGS_RX_PLAIN
				       : FLAGS_TX_PLAIN | (data ? FI_REMOTE_CQ_DATA : 0);

	return p2p_likely(!(op->flags & ~plain)) ? 0 : flags_heed(ep, op);
}

#endif /* P2P_FLAGS_H */
