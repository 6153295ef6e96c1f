/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Flags of calls. See flags.h. */
#include "fid/flags.h"

#include <rdma/fi_errno.h>

#include "base/log.h"
#include "proto/post.h"

#define FLAGS_TX (FLAGS_TX_PLAIN | FI_FENCE)

/*
 * What is kept. To what is read, FI_INJECT and FI_COMMIT_COMPLETE mean nothing. A message is never durable: an endpoint's
 * own flags are for its writes, too.
 */
static const struct {
	const char *name;
	uint64_t kept;
} flags_calls[] = {
	[FI_OP_SEND] = {"fi_sendmsg", FLAGS_TX | FI_REMOTE_CQ_DATA | FI_COMMIT_COMPLETE},
	[FI_OP_TSEND] = {"fi_tsendmsg", FLAGS_TX | FI_REMOTE_CQ_DATA | FI_COMMIT_COMPLETE},
	[FI_OP_RECV] = {"fi_recvmsg", FLAGS_RX_PLAIN | FI_MULTI_RECV},
	[FI_OP_TRECV] = {"fi_trecvmsg", FLAGS_RX_PLAIN | FI_PEEK | FI_CLAIM | FI_DISCARD},
	[FI_OP_READ] = {"fi_readmsg", FLAGS_TX | FI_COMMIT_COMPLETE},
	[FI_OP_WRITE] = {"fi_writemsg", FLAGS_TX | FI_REMOTE_CQ_DATA | FI_COMMIT_COMPLETE},
	[FI_OP_ATOMIC] = {"fi_atomicmsg", FLAGS_TX | FI_COMMIT_COMPLETE},
	[FI_OP_FETCH_ATOMIC] = {"fi_fetch_atomicmsg", FLAGS_TX | FI_COMMIT_COMPLETE},
	[FI_OP_COMPARE_ATOMIC] = {"fi_compare_atomicmsg", FLAGS_TX | FI_COMMIT_COMPLETE},
};

int flags_check(const struct p2p_ep *ep, enum fi_op_type type, uint64_t flags)
{
	const uint64_t ours = flags & ep->xfer.ours, wrong = ours & ~flags_calls[type].kept;

	if (flags & FI_TRIGGER)
		return fid_refuse_trigger();
	if (wrong) {
		P2P_WARN("%s with flags 0x%zx, which are not offered for it\n",
			 flags_calls[type].name, (size_t) wrong);
		return -FI_EBADFLAGS;
	}
	if (!(ours & FI_FENCE) || ep->caps & FI_FENCE)
		return 0;
	P2P_WARN("FI_FENCE is for endpoints that were opened with it\n");
	return -FI_EBADFLAGS;
}

/* Cores' infos have flags of sends among those of receives, where they mean nothing. */
int flags_check_own(uint64_t ours, uint64_t tx_flags, uint64_t rx_flags)
{
	const uint64_t tx = FLAGS_TX_PLAIN | FI_COMMIT_COMPLETE | FI_TRIGGER | FI_TRANSMIT;
	const uint64_t wrong =
		ours & ((tx_flags & ~tx) | (rx_flags & (FI_PEEK | FI_CLAIM | FI_DISCARD)));

	if (!wrong)
		return 0;
	P2P_WARN("op_flags 0x%zx: an endpoint cannot have these\n", (size_t) wrong);
	return -FI_EBADFLAGS;
}

int flags_heed(struct p2p_ep *ep, struct p2p_op *op)
{
	const bool fenced = op->flags & FI_FENCE;
	fi_addr_t peer = op->msg.addr;
	int ret = flags_check(ep, op->type, op->flags);

	if (ret)
		return ret;
	op->flags &= ~(ep->xfer.ours & FI_FENCE);
	if (op->type == FI_OP_SEND || op->type == FI_OP_TSEND)
		op->flags = flags_to_core(ep, op->flags);
	ret = fenced ? av_to_core(ep->av, &peer) : 0;
	return ret || !fenced ? ret : (int) xfer_post_fence(&ep->xfer, peer);
}
