/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The core's data transfer calls, but for those that fid/msg.c and fid/rma.c make at once. See core.h. */
#include "xfer/core.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fi_errno.h>

#include "base/amo.h"
#include "base/base.h"
#include "base/libfabric.h"
#include "base/log.h"
#include "mem/mem.h"
#include "xfer/xfer.h"

/* The calls without flags, and those to inject */
static ssize_t core_plain_send(struct fid_ep *ep, const struct p2p_op *op)
{
	const struct fi_msg_tagged *msg = &op->msg;
	const bool data = op->flags & FI_REMOTE_CQ_DATA, tagged = op_tagged(op);
	const struct iovec *iov = msg->msg_iov;

	if (op->call == OP_INJECT && data)
		return tagged ? fi_tinjectdata(ep, iov->iov_base, iov->iov_len, msg->data,
					       msg->addr, msg->tag)
			      : fi_injectdata(ep, iov->iov_base, iov->iov_len, msg->data,
					      msg->addr);
	if (op->call == OP_INJECT)
		return tagged ? fi_tinject(ep, iov->iov_base, iov->iov_len, msg->addr, msg->tag)
			      : fi_inject(ep, iov->iov_base, iov->iov_len, msg->addr);
	if (data)
		return tagged ? fi_tsenddata(ep, iov->iov_base, iov->iov_len, *msg->desc,
					     msg->data, msg->addr, msg->tag, msg->context)
			      : fi_senddata(ep, iov->iov_base, iov->iov_len, *msg->desc,
					    msg->data, msg->addr, msg->context);
	return tagged ? fi_tsendv(ep, iov, msg->desc, msg->iov_count, msg->addr, msg->tag,
				  msg->context)
		      : fi_sendv(ep, iov, msg->desc, msg->iov_count, msg->addr, msg->context);
}

static ssize_t core_plain_recv(struct fid_ep *ep, const struct p2p_op *op)
{
	const struct fi_msg_tagged *msg = &op->msg;

	return op_tagged(op) ? fi_trecvv(ep, msg->msg_iov, msg->desc, msg->iov_count, msg->addr,
					 msg->tag, msg->ignore, msg->context)
			     : fi_recvv(ep, msg->msg_iov, msg->desc, msg->iov_count, msg->addr,
					msg->context);
}

static ssize_t core_plain_read(struct fid_ep *ep, const struct p2p_op *op)
{
	const struct fi_msg_rma *msg = &op->rma;

	return fi_readv(ep, msg->msg_iov, msg->desc, msg->iov_count, msg->addr,
			msg->rma_iov->addr, msg->rma_iov->key, msg->context);
}

static ssize_t core_plain_write(struct fid_ep *ep, const struct p2p_op *op)
{
	const struct fi_msg_rma *msg = &op->rma;
	const struct fi_rma_iov *to = msg->rma_iov;
	const bool data = op->flags & FI_REMOTE_CQ_DATA;
	const struct iovec *iov = msg->msg_iov;

	if (op->call == OP_INJECT && data)
		return fi_inject_writedata(ep, iov->iov_base, iov->iov_len, msg->data,
					   msg->addr, to->addr, to->key);
	if (op->call == OP_INJECT)
		return fi_inject_write(ep, iov->iov_base, iov->iov_len, msg->addr, to->addr,
				       to->key);
	if (data)
		return fi_writedata(ep, iov->iov_base, iov->iov_len, *msg->desc, msg->data,
				    msg->addr, to->addr, to->key, msg->context);
	return fi_writev(ep, iov, msg->desc, msg->iov_count, msg->addr, to->addr, to->key,
			 msg->context);
}

static P2P_NOINLINE ssize_t core_untagged(struct fid_ep *ep, const struct p2p_op *op)
{
	const struct fi_msg msg = {
		.msg_iov = op->msg.msg_iov,
		.desc = op->msg.desc,
		.iov_count = op->msg.iov_count,
		.addr = op->msg.addr,
		.context = op->msg.context,
		.data = op->msg.data,
	};

	return op_receives(op) ? fi_recvmsg(ep, &msg, op->flags)
			       : fi_sendmsg(ep, &msg, op->flags);
}

static void *core_desc(void *const *desc)
{
	return desc ? *desc : NULL;
}

/* The same of one piece of everything */
static P2P_NOINLINE ssize_t core_plain_atomic(struct fid_ep *ep, const struct p2p_op *op)
{
	const struct fi_msg_atomic *msg = &op->atomic;
	const struct fi_ioc *sizes = msg->iov_count ? msg->msg_iov : op->fetch.msg_iov;
	const void *buf = msg->iov_count ? msg->msg_iov->addr : NULL;
	void *desc = msg->iov_count ? core_desc(msg->desc) : NULL;

	if (op->call == OP_INJECT)
		return fi_inject_atomic(ep, buf, sizes->count, msg->addr, msg->rma_iov->addr,
					msg->rma_iov->key, msg->datatype, msg->op);
	if (op->type == FI_OP_ATOMIC)
		return fi_atomic(ep, buf, sizes->count, desc, msg->addr, msg->rma_iov->addr,
				 msg->rma_iov->key, msg->datatype, msg->op, msg->context);
	if (op->type == FI_OP_FETCH_ATOMIC)
		return fi_fetch_atomic(ep, buf, sizes->count, desc, op->fetch.msg_iov->addr,
				       core_desc(op->fetch.desc), msg->addr, msg->rma_iov->addr,
				       msg->rma_iov->key, msg->datatype, msg->op, msg->context);
	return fi_compare_atomic(ep, buf, sizes->count, desc, op->compare.msg_iov->addr,
				 core_desc(op->compare.desc), op->fetch.msg_iov->addr,
				 core_desc(op->fetch.desc), msg->addr, msg->rma_iov->addr,
				 msg->rma_iov->key, msg->datatype, msg->op, msg->context);
}

static ssize_t core_msg_atomic(struct fid_ep *ep, const struct p2p_op *op)
{
	void *none[P2P_IOV_MAX] = {NULL};
	void **compare_desc = op->compare.desc ? op->compare.desc : none;
	void **result_desc = op->fetch.desc ? op->fetch.desc : none;
	struct fi_msg_atomic msg = op->atomic;

	if (!msg.desc)
		msg.desc = none;
	if (op->type == FI_OP_ATOMIC)
		return fi_atomicmsg(ep, &msg, op->flags);
	if (op->type == FI_OP_FETCH_ATOMIC)
		return fi_fetch_atomicmsg(ep, &msg, op->fetch.msg_iov, result_desc,
					  op->fetch.iov_count, op->flags);
	return fi_compare_atomicmsg(ep, &msg, op->compare.msg_iov, compare_desc,
				    op->compare.iov_count, op->fetch.msg_iov, result_desc,
				    op->fetch.iov_count, op->flags);
}

/* Has every array that it has to have, one piece each? */
static bool core_atomic_single(const struct p2p_op *op)
{
	const bool only_writes = op->type == FI_OP_ATOMIC;

	return op->atomic.rma_iov_count == 1 &&
	       op->atomic.iov_count ==
		       (op->atomic.op == FI_ATOMIC_READ && !only_writes ? 0 : 1) &&
	       op->fetch.iov_count == (only_writes ? 0 : 1) &&
	       op->compare.iov_count == (op->type == FI_OP_COMPARE_ATOMIC ? 1 : 0);
}

static ssize_t core_plain(struct fid_ep *ep, const struct p2p_op *op)
{
	switch (op->type) {
	case FI_OP_RECV:
	case FI_OP_TRECV:
		return core_plain_recv(ep, op);
	case FI_OP_SEND:
	case FI_OP_TSEND:
		return core_plain_send(ep, op);
	case FI_OP_READ:
		return core_plain_read(ep, op);
	case FI_OP_WRITE:
		return core_plain_write(ep, op);
	default:
		return core_atomic_single(op) ? core_plain_atomic(ep, op)
					      : core_msg_atomic(ep, op);
	}
}

ssize_t core_call(struct fid_ep *ep, const struct p2p_op *op)
{
	if (op->call != OP_FLAGGED)
		return core_plain(ep, op);
	switch (op->type) {
	case FI_OP_RECV:
	case FI_OP_SEND:
		return core_untagged(ep, op);
	case FI_OP_TRECV:
		return fi_trecvmsg(ep, &op->msg, op->flags);
	case FI_OP_TSEND:
		return fi_tsendmsg(ep, &op->msg, op->flags);
	case FI_OP_READ:
		return fi_readmsg(ep, &op->rma, op->flags);
	case FI_OP_WRITE:
		return fi_writemsg(ep, &op->rma, op->flags);
	default:
		return core_msg_atomic(ep, op);
	}
}

ssize_t core_post(const struct xfer_channel *channel, const struct p2p_op *op)
{
	static const char *const names[] = {"recv", "send", "trecv", "tsend", "read", "write"};
	ssize_t ret = core_call(channel->core, op);

	/* all receives are in use, pieces' among them, which come back */
	if (p2p_unlikely(ret == -FI_ENOMEM) && op_receives(op) &&
	    channel->ep->quirks & QUIRK_RECV_NOMEM)
		return -FI_EAGAIN;
	if (p2p_unlikely(ret && ret != -FI_EAGAIN))
		P2P_WARN("%s: %s\n", op->type <= FI_OP_WRITE ? names[op->type] : "atomic",
			 fi_strerror((int) -ret));
	return ret;
}

static int core_array_init(struct core_array *array, const struct fi_ioc *ioc, size_t count,
			   size_t size)
{
	*array = (struct core_array){.count = count};
	if (count > P2P_IOV_MAX || (count && !ioc))
		return -FI_EINVAL;
	for (size_t i = 0; i < count; i++) {
		array->iov[i].iov_base = ioc[i].addr;
		if (__builtin_mul_overflow(ioc[i].count, size, &array->iov[i].iov_len))
			return -FI_EINVAL;
	}
	array->len = mem_iov_len(array->iov, array->count);
	return mem_classify(array->iov, array->count, NULL, &array->mem);
}

int core_atomic_arrays(const struct p2p_op *op, struct core_array *operand,
		       struct core_array *compare, struct core_array *result, size_t *len)
{
	size_t size = amo_size(op->atomic.datatype);
	int ret;

	ret = core_array_init(operand, op->atomic.msg_iov, op->atomic.iov_count, size);
	if (!ret)
		ret = core_array_init(compare, op->compare.msg_iov, op->compare.iov_count,
				      size);
	if (!ret)
		ret = core_array_init(result, op->fetch.msg_iov, op->fetch.iov_count, size);
	if (ret)
		return ret;
	*len = P2P_MAX(operand->len, result->len);
	if (*len && (!operand->len || operand->len == *len) &&
	    (!op->compare.iov_count || compare->len == *len) &&
	    (!op->fetch.iov_count || result->len == *len))
		return 0;
	P2P_WARN("an atomic operation with %zu bytes of operands, %zu to compare and %zu of "
		 "results\n",
		 operand->len, compare->len, result->len);
	return -FI_EINVAL;
}

const struct dev_mem *core_atomic_device(const struct core_array *operand,
					 const struct core_array *compare,
					 const struct core_array *result)
{
	const struct core_array *const arrays[] = {operand, compare, result};

	for (int i = 0; i < 3; i++) {
		if (arrays[i]->mem.ops)
			return &arrays[i]->mem;
	}
	return NULL;
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

struct fi_info *core_info_aside(const struct fi_info *info)
{
	struct fi_info *aside = lf.dupinfo(info);

	if (!aside)
		return NULL;
	aside->caps &= ~FI_DIRECTED_RECV;
	if (aside->rx_attr)
		aside->rx_attr->caps &= ~FI_DIRECTED_RECV;
	free(aside->dest_addr);
	aside->dest_addr = NULL;
	aside->dest_addrlen = 0;
	return aside;
}

int core_info_beside(struct fi_info *info, const void *name, size_t len)
{
	struct sockaddr_in6 *in6;
	struct sockaddr_in *in;
	void *addr;
	bool named;

	if (len < sizeof *in || len > WIRE_NAME_MAX)
		return -FI_EADDRNOTAVAIL;
	addr = calloc(1, P2P_MAX(len, sizeof *in6));
	if (!addr)
		return -FI_ENOMEM;
	memcpy(addr, name, len);
	in = addr;
	in6 = addr;
	if (in->sin_family == AF_INET) {
		named = in->sin_addr.s_addr != htonl(INADDR_ANY);
		in->sin_port = 0;
	} else {
		named = !IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr);
		in6->sin6_port = 0;
	}
	free(info->src_addr);
	info->src_addr = addr;
	info->src_addrlen = len;
	return named ? 0 : -FI_EADDRNOTAVAIL;
}

bool xfer_blocked_has(const struct xfer_blocked *blocked, fi_addr_t addr)
{
	for (size_t i = 0; i < blocked->count; i++) {
		if (blocked->addr[i] == addr)
			return true;
	}
	return blocked->count == sizeof blocked->addr / sizeof blocked->addr[0] ||
	       (addr == FI_ADDR_NOTAVAIL && blocked->count);
}

void xfer_blocked_add(struct xfer_blocked *blocked, fi_addr_t addr)
{
	if (xfer_blocked_has(blocked, addr))
		return;
	if (addr == FI_ADDR_NOTAVAIL)
		blocked->count = sizeof blocked->addr / sizeof blocked->addr[0];
	else
		blocked->addr[blocked->count++] = addr;
}
