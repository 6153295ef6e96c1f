/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Operations that wait for counters. See trigger_work.h. */
#include "gpu/trigger_work.h"

#include <stdlib.h>
#include <rdma/fi_errno.h>

#include "base/log.h"
#include "fid/flags.h"
#include "fid/submit.h"
#include "xfer/gone.h"

int trigger_refuse(int err, const char *why)
{
	P2P_WARN("an operation that waits for a counter is refused: %s\n", why);
	return err;
}

struct p2p_cntr *trigger_cntr(const struct p2p_domain *domain, struct fid_cntr *fid)
{
	struct p2p_cntr *cntr;

	if (!fid || fid->fid.fclass != FI_CLASS_CNTR || !fid_class(&fid->fid))
		return NULL;
	cntr = cntr_of(&fid->fid);
	return cntr->domain == domain ? cntr : NULL;
}

int trigger_work_new(struct p2p_ep *ep, const struct p2p_op *op, struct trigger_work **made)
{
	const uint64_t flags = op->flags & ~FI_TRIGGER;
	struct trigger_work *work;
	int ret = flags_check(ep, op->type, flags);

	if (ret)
		return ret;
	/* a buffer that may be used again at once would have to be copied now, though it is not to be read yet */
	if (flags & FI_INJECT)
		return trigger_refuse(-FI_ENOSYS, "it has FI_INJECT");
	work = calloc(1, sizeof *work);
	if (!work)
		return -FI_ENOMEM;
	work->ep = ep;
	work->op = *op;
	work->op.call = OP_FLAGGED;
	work->op.flags = flags;
	work->context = *op_context(&work->op);
	/* where the core wants no descriptors, what the application passes for an array of them may be none */
	if (!op_keep(&work->op, &work->kept, ep->domain->xfer.local)) {
		free(work);
		return trigger_refuse(-FI_EINVAL, "it has no list of pieces, or too many");
	}
	*made = work;
	return 0;
}

fi_addr_t trigger_work_addr(const struct trigger_work *work)
{
	return work->ep && !op_receives(&work->op) ? work->op.msg.addr : FI_ADDR_UNSPEC;
}

ssize_t trigger_work_post(const struct trigger_work *work, void *context)
{
	struct p2p_op op = work->op;
	struct p2p_ep *ep = work->ep;

	if (!ep)
		return op.type == FI_OP_CNTR_SET
			       ? fi_cntr_set(&work->changed->fid, work->value)
			       : fi_cntr_add(&work->changed->fid, work->value);
	if (gone_is_late(&ep->xfer, av_core_addr(ep->av, trigger_work_addr(work))))
		return -FI_ECONNRESET;
	*op_context(&op) = context;
	return ep_submit(ep, &op);
}
