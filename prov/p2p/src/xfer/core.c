/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The only caller of the core provider's data transfer calls. See core.h. */
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
#include "xfer/wire.h"

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

ssize_t core_inject_empty(struct fid_ep *ep, const struct core_op *op)
{
	return op->tagged ? fi_tinjectdata(ep, NULL, 0, op->data, op->addr, op->tag)
			  : fi_injectdata(ep, NULL, 0, op->data, op->addr);
}

ssize_t core_post_rma(struct fid_ep *ep, const struct core_rma *op)
{
	const struct fi_msg_rma msg = {
		.msg_iov = op->iov,
		.desc = op->desc,
		.iov_count = op->count,
		.addr = op->addr,
		.rma_iov = op->remote,
		.rma_iov_count = op->remotes,
		.context = op->context,
		.data = op->data,
	};
	ssize_t ret =
		op->read ? fi_readmsg(ep, &msg, op->flags) : fi_writemsg(ep, &msg, op->flags);

	if (p2p_unlikely(ret && ret != -FI_EAGAIN))
		P2P_WARN("%s: %s\n", op->read ? "read" : "write", fi_strerror((int) -ret));
	return ret;
}

static void *core_desc(void *const *desc)
{
	return desc ? *desc : NULL;
}

/* One piece of everything, in the endpoint's own way */
static ssize_t core_call_atomic(struct fid_ep *ep, const struct core_atomic *op)
{
	const struct fi_ioc *sizes = op->operands ? op->operand : op->result;
	const void *buf = op->operands ? op->operand->addr : NULL;
	void *desc = op->operands ? core_desc(op->operand_desc) : NULL;

	switch (op->kind) {
	case CORE_ATOMIC:
		return fi_atomic(ep, buf, sizes->count, desc, op->addr, op->remote->addr,
				 op->remote->key, op->datatype, op->op, op->context);
	case CORE_ATOMIC_FETCH:
		return fi_fetch_atomic(ep, buf, sizes->count, desc, op->result->addr,
				       core_desc(op->result_desc), op->addr, op->remote->addr,
				       op->remote->key, op->datatype, op->op, op->context);
	case CORE_ATOMIC_COMPARE:
		return fi_compare_atomic(ep, buf, sizes->count, desc, op->compare->addr,
					 core_desc(op->compare_desc), op->result->addr,
					 core_desc(op->result_desc), op->addr, op->remote->addr,
					 op->remote->key, op->datatype, op->op, op->context);
	}
	return -FI_EINVAL;
}

static ssize_t core_msg_atomic(struct fid_ep *ep, const struct core_atomic *op)
{
	void *none[P2P_IOV_MAX] = {NULL};
	const struct fi_msg_atomic msg = {
		.msg_iov = op->operand,
		.desc = op->operand_desc ? op->operand_desc : none,
		.iov_count = op->operands,
		.addr = op->addr,
		.rma_iov = op->remote,
		.rma_iov_count = op->remotes,
		.datatype = op->datatype,
		.op = op->op,
		.context = op->context,
		.data = op->data,
	};
	void **compare_desc = op->compare_desc ? op->compare_desc : none;
	void **result_desc = op->result_desc ? op->result_desc : none;

	if (op->kind == CORE_ATOMIC)
		return fi_atomicmsg(ep, &msg, op->flags);
	if (op->kind == CORE_ATOMIC_FETCH)
		return fi_fetch_atomicmsg(ep, &msg, (struct fi_ioc *) op->result, result_desc,
					  op->results, op->flags);
	return fi_compare_atomicmsg(ep, &msg, op->compare, compare_desc, op->compares,
				    (struct fi_ioc *) op->result, result_desc, op->results,
				    op->flags);
}

/* Has every array that it has to have, one piece each? */
static bool core_atomic_single(const struct core_atomic *op)
{
	return op->remotes == 1 &&
	       op->operands == (op->op == FI_ATOMIC_READ && op->kind != CORE_ATOMIC ? 0 : 1) &&
	       op->results == (op->kind == CORE_ATOMIC ? 0 : 1) &&
	       op->compares == (op->kind == CORE_ATOMIC_COMPARE ? 1 : 0);
}

ssize_t core_post_atomic(struct fid_ep *ep, const struct core_atomic *op)
{
	ssize_t ret = op->plain && core_atomic_single(op) ? core_call_atomic(ep, op)
							  : core_msg_atomic(ep, op);

	if (p2p_unlikely(ret && ret != -FI_EAGAIN))
		P2P_WARN("atomic: %s\n", fi_strerror((int) -ret));
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

int core_atomic_arrays(const struct core_atomic *op, struct core_array *operand,
		       struct core_array *compare, struct core_array *result, size_t *len)
{
	size_t size = amo_size(op->datatype);
	int ret;

	ret = core_array_init(operand, op->operand, op->operands, size);
	if (!ret)
		ret = core_array_init(compare, op->compare, op->compares, size);
	if (!ret)
		ret = core_array_init(result, op->result, op->results, size);
	if (ret)
		return ret;
	*len = P2P_MAX(operand->len, result->len);
	if (*len && (!operand->len || operand->len == *len) &&
	    (!op->compares || compare->len == *len) && (!op->results || result->len == *len))
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
