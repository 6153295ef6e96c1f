/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Operations that are kept. See op.h. */
#include "xfer/op.h"

#include <string.h>

/* False: there is no list of pieces, or it is too long */
static bool op_keep_array(struct op_array *to, const void *pieces, void ***desc, size_t count,
			  bool described)
{
	if (count > P2P_IOV_MAX || (count && !pieces))
		return false;
	memset(to->desc, 0, sizeof to->desc);
	if (count)
		memcpy(to->iov, pieces, count * sizeof to->iov[0]);
	if (count && *desc && described)
		memcpy(to->desc, *desc, count * sizeof to->desc[0]);
	if (*desc)
		*desc = to->desc;
	return true;
}

static bool op_keep_remote(struct op_kept *to, const void *remote, size_t count)
{
	if (!remote || count > OP_RMA_MAX)
		return false;
	memcpy(to->rma, remote, count * sizeof to->rma[0]);
	return true;
}

static bool op_keep_atomic(struct p2p_op *op, struct op_kept *to, bool described)
{
	struct fi_msg_compare *compare = &op->compare;
	struct fi_msg_atomic *atomic = &op->atomic;
	struct fi_msg_fetch *fetch = &op->fetch;

	/* what is only read has no operands, whatever the message says */
	if (atomic->op == FI_ATOMIC_READ)
		atomic->iov_count = 0;
	if (!op_keep_array(&to->local, atomic->msg_iov, &atomic->desc, atomic->iov_count,
			   described) ||
	    !op_keep_array(&to->compare, compare->msg_iov, &compare->desc, compare->iov_count,
			   described) ||
	    !op_keep_array(&to->fetch, fetch->msg_iov, &fetch->desc, fetch->iov_count,
			   described) ||
	    !op_keep_remote(to, atomic->rma_iov, atomic->rma_iov_count))
		return false;
	atomic->msg_iov = to->local.ioc;
	compare->msg_iov = to->compare.ioc;
	fetch->msg_iov = to->fetch.ioc;
	atomic->rma_iov = to->rma_ioc;
	return true;
}

bool op_keep(struct p2p_op *op, struct op_kept *to, bool described)
{
	const bool rma = op->type == FI_OP_READ || op->type == FI_OP_WRITE;

	op->seen = NULL;
	if (op->type >= FI_OP_ATOMIC)
		return op_keep_atomic(op, to, described);
	if (!op_keep_array(&to->local, op->msg.msg_iov, &op->msg.desc, op->msg.iov_count,
			   described) ||
	    (rma && !op_keep_remote(to, op->rma.rma_iov, op->rma.rma_iov_count)))
		return false;
	op->msg.msg_iov = to->local.iov;
	if (rma)
		op->rma.rma_iov = to->rma;
	return true;
}
