/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Rank 4: the only caller of the core provider's data transfer calls. See core.h. */
#include "core.h"

#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>

#include "base.h"
#include "log.h"

ssize_t core_post(struct fid_ep *ep, const struct core_op *op)
{
	ssize_t ret;

	if (op->tagged) {
		struct fi_msg_tagged msg = {
			.msg_iov = op->iov,
			.desc = op->desc,
			.iov_count = op->count,
			.addr = op->addr,
			.tag = op->tag,
			.ignore = op->ignore,
			.context = op->context,
			.data = op->data,
		};

		ret = op->recv ? fi_trecvmsg(ep, &msg, op->flags)
			       : fi_tsendmsg(ep, &msg, op->flags);
	} else {
		struct fi_msg msg = {
			.msg_iov = op->iov,
			.desc = op->desc,
			.iov_count = op->count,
			.addr = op->addr,
			.context = op->context,
			.data = op->data,
		};

		ret = op->recv ? fi_recvmsg(ep, &msg, op->flags)
			       : fi_sendmsg(ep, &msg, op->flags);
	}
	if (p2p_unlikely(ret && ret != -FI_EAGAIN))
		P2P_WARN("%s%s: %s\n", op->tagged ? "t" : "", op->recv ? "recv" : "send",
			 fi_strerror((int) -ret));
	return ret;
}

void core_comp_from_entry(const struct fi_cq_tagged_entry *entry, fi_addr_t src,
			  struct core_comp *comp)
{
	*comp = (struct core_comp){
		.context = entry->op_context,
		.flags = entry->flags,
		.len = entry->len,
		.buf = entry->buf,
		.data = entry->data,
		.tag = entry->tag,
		.src = src,
	};
}

int core_comp_from_error(struct fid_cq *cq, struct core_comp *comp)
{
	/* newer releases write a longer entry than the headers here may know */
	union {
		struct fi_cq_err_entry entry;
		char room[256];
	} err;
	ssize_t ret;

	memset(&err, 0, sizeof err);
	ret = fi_cq_readerr(cq, &err.entry, 0);
	if (ret != 1)
		return ret < 0 ? (int) ret : -FI_EAGAIN;
	*comp = (struct core_comp){
		.context = err.entry.op_context,
		.flags = err.entry.flags,
		.len = err.entry.len,
		.buf = err.entry.buf,
		.data = err.entry.data,
		.tag = err.entry.tag,
		.src = FI_ADDR_NOTAVAIL,
		.err = err.entry.err,
		.prov_errno = err.entry.prov_errno,
		.olen = err.entry.olen,
	};
	/* the core's copy lives until its queue is read again */
	if (err.entry.err_data_size && err.entry.err_data) {
		comp->err_data = malloc(err.entry.err_data_size);
		if (comp->err_data) {
			memcpy(comp->err_data, err.entry.err_data, err.entry.err_data_size);
			comp->err_data_size = err.entry.err_data_size;
		}
	}
	return 0;
}
