/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The simulated core provider's atomic operations: on 64-bit integers, in one piece. See core.h. */
#include "core.h"

#include "base/base.h"

static size_t most(bool compares)
{
	return world.script->model->atomic_len / (compares ? 2 : 1);
}

static ssize_t post(struct fid_ep *fid, const struct core_send *like, fi_addr_t addr,
		    uint64_t remote, uint64_t key, enum fi_datatype datatype)
{
	struct core_ep *ep = container_of(fid, struct core_ep, fid);
	struct core_send *send = malloc(sizeof *send);

	*send = *like;
	if (datatype != FI_UINT64 || send->len > most(send->compares))
		world_fail("an atomic operation that the simulated core does not have");
	send->kind = SEND_ATOMIC;
	send->remotes = 1;
	send->remote[0] = (struct fi_rma_iov){.addr = remote, .len = send->len, .key = key};
	return core_post_send(ep, send, addr);
}

static ssize_t atomic_write(struct fid_ep *fid, const void *buf, size_t count, void *desc,
			    fi_addr_t addr, uint64_t remote, uint64_t key,
			    enum fi_datatype datatype, enum fi_op op, void *context)
{
	const struct core_send send = {.iov = {{(void *) buf, 8 * count}},
				       .count = 1,
				       .len = 8 * count,
				       .op = op,
				       .context = context,
				       .tells = true};

	return post(fid, &send, addr, remote, key, datatype);
}

static ssize_t atomic_writemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
			       uint64_t flags)
{
	const struct core_send send = {.iov = {{msg->msg_iov[0].addr,
						8 * msg->msg_iov[0].count}},
				       .count = 1,
				       .len = 8 * msg->msg_iov[0].count,
				       .op = msg->op,
				       .flags = flags,
				       .context = msg->context,
				       .tells = true};

	if (msg->iov_count != 1 || msg->rma_iov_count != 1)
		world_fail("an atomic operation in several pieces");
	return post(fid, &send, msg->addr, msg->rma_iov[0].addr, msg->rma_iov[0].key,
		    msg->datatype);
}

static ssize_t atomic_fetch(struct fid_ep *fid, const void *buf, size_t count, void *desc,
			    void *result, void *result_desc, fi_addr_t addr, uint64_t remote,
			    uint64_t key, enum fi_datatype datatype, enum fi_op op,
			    void *context)
{
	const struct core_send send = {.iov = {{(void *) buf, 8 * count}},
				       .count = 1,
				       .len = 8 * count,
				       .op = op,
				       .result = result,
				       .context = context,
				       .tells = true};

	return post(fid, &send, addr, remote, key, datatype);
}

static ssize_t atomic_compare(struct fid_ep *fid, const void *buf, size_t count, void *desc,
			      const void *compare, void *compare_desc, void *result,
			      void *result_desc, fi_addr_t addr, uint64_t remote, uint64_t key,
			      enum fi_datatype datatype, enum fi_op op, void *context)
{
	const struct core_send send = {.iov = {{(void *) buf, 8 * count},
					       {(void *) compare, 8 * count}},
				       .count = 2,
				       .len = 8 * count,
				       .compares = true,
				       .op = op,
				       .result = result,
				       .context = context,
				       .tells = true};

	return post(fid, &send, addr, remote, key, datatype);
}

static ssize_t atomic_readwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
				   struct fi_ioc *result, void **result_desc, size_t results,
				   uint64_t flags)
{
	return atomic_fetch(fid, msg->msg_iov[0].addr, msg->msg_iov[0].count, NULL,
			    result[0].addr, NULL, msg->addr, msg->rma_iov[0].addr,
			    msg->rma_iov[0].key, msg->datatype, msg->op, msg->context);
}

static ssize_t atomic_compwritemsg(struct fid_ep *fid, const struct fi_msg_atomic *msg,
				   const struct fi_ioc *compare, void **compare_desc,
				   size_t compares, struct fi_ioc *result, void **result_desc,
				   size_t results, uint64_t flags)
{
	return atomic_compare(fid, msg->msg_iov[0].addr, msg->msg_iov[0].count, NULL,
			      compare[0].addr, NULL, result[0].addr, NULL, msg->addr,
			      msg->rma_iov[0].addr, msg->rma_iov[0].key, msg->datatype, msg->op,
			      msg->context);
}

static ssize_t atomic_inject(struct fid_ep *fid, const void *buf, size_t count, fi_addr_t addr,
			     uint64_t remote, uint64_t key, enum fi_datatype datatype,
			     enum fi_op op)
{
	const struct core_send send = {.iov = {{(void *) buf, 8 * count}},
				       .count = 1,
				       .len = 8 * count,
				       .op = op,
				       .flags = FI_INJECT};

	return post(fid, &send, addr, remote, key, datatype);
}

struct fi_ops_atomic core_atomic_ops = {.size = sizeof core_atomic_ops,
					.write = atomic_write,
					.writemsg = atomic_writemsg,
					.inject = atomic_inject,
					.readwrite = atomic_fetch,
					.readwritemsg = atomic_readwritemsg,
					.compwrite = atomic_compare,
					.compwritemsg = atomic_compwritemsg};

int core_query_atomic(struct fid_domain *domain, enum fi_datatype datatype, enum fi_op op,
		      struct fi_atomic_attr *attr, uint64_t flags)
{
	*attr = (struct fi_atomic_attr){.count = most(flags & FI_COMPARE_ATOMIC) / 8,
					.size = 8};
	return datatype == FI_UINT64 ? 0 : -FI_EOPNOTSUPP;
}
