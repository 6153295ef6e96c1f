/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The core's data transfer calls, all variants as one. What its completion queues say, in one
 * form. And infos of the core's, for endpoints beside the application's.
 */
#ifndef P2P_CORE_H
#define P2P_CORE_H

#include <stdbool.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include "mem/mem.h"

/**
 * struct core_op - one operation on a core endpoint.
 * @recv, @tagged: which of the four
 * @flags:	as for fi_sendmsg(3), fi_recvmsg(3)
 * @seen:	as for mem_classify()
 */
struct core_op {
	bool recv;
	bool tagged;
	const struct iovec *iov;
	void **desc;
	size_t count;
	fi_addr_t addr;
	uint64_t tag;
	uint64_t ignore;
	uint64_t data;
	uint64_t flags;
	void *context;
	const struct dev_mem *seen;
};

/* Pieces of remote memory that one operation may have: no core takes more */
#define CORE_RMA_MAX 4

/*
 * A copy of @info for an endpoint aside, to which peers send that are not inserted there: QUIRK_DIRECTED. NULL: there
 * is no memory
 */
struct fi_info *core_info_aside(const struct fi_info *info);

/*
 * Gives @info the address of the endpoint that has @name, at any other port, for one beside it. If that one listens
 * at all of a host's addresses, peers can do nothing with its name: -FI_EADDRNOTAVAIL
 */
int core_info_beside(struct fi_info *info, const void *name, size_t len);

/**
 * struct core_rma - a read or write of remote memory.
 * @remote, @remotes: the remote memory, 1 to CORE_RMA_MAX pieces, as long as @iov together
 * @flags:	as for fi_readmsg(3), fi_writemsg(3)
 * @notices:	a message tells of it, with @data, and takes a receive at the other end. Not for the core
 */
struct core_rma {
	bool read;
	bool notices;
	const struct iovec *iov;
	void **desc;
	size_t count;
	fi_addr_t addr;
	const struct fi_rma_iov *remote;
	size_t remotes;
	uint64_t data;
	uint64_t flags;
	void *context;
};

/* The three kinds of atomic operations */
enum core_atomic_kind { CORE_ATOMIC, CORE_ATOMIC_FETCH, CORE_ATOMIC_COMPARE };

/**
 * struct core_atomic - an atomic operation on remote memory.
 * @operand, @compare, @result: pieces of memory; there are @operands of the first …;
 *		compare values and results as @kind has them
 * @operand_desc …: their descriptors, or NULL
 * @remote, @remotes: the remote memory, as long
 * @plain:	it is what a call without flags does: if no array has several pieces it goes to the
 *		core as that call, since not all cores have the other ones
 */
struct core_atomic {
	enum core_atomic_kind kind;
	const struct fi_ioc *operand;
	void **operand_desc;
	size_t operands;
	const struct fi_ioc *compare;
	void **compare_desc;
	size_t compares;
	const struct fi_ioc *result;
	void **result_desc;
	size_t results;
	fi_addr_t addr;
	const struct fi_rma_ioc *remote;
	size_t remotes;
	enum fi_datatype datatype;
	enum fi_op op;
	bool plain;
	uint64_t data;
	uint64_t flags;
	void *context;
};

/* Posts it. 0 or the core's negative error; -FI_EAGAIN is not logged */
ssize_t core_post(struct fid_ep *ep, const struct core_op *op);

/* Sends @op.data with no bytes, without a completion. 0, -FI_EAGAIN or another error, not logged */
ssize_t core_inject_empty(struct fid_ep *ep, const struct core_op *op);
ssize_t core_post_rma(struct fid_ep *ep, const struct core_rma *op);
ssize_t core_post_atomic(struct fid_ep *ep, const struct core_atomic *op);

/* One of the arrays of an atomic operation, as a buffer in the allocation @mem */
struct core_array {
	struct iovec iov[P2P_IOV_MAX];
	size_t count;
	size_t len;
	struct dev_mem mem;
};

/*
 * Looks at the three arrays of an operation. Each has @len bytes, or none. 0, -FI_EINVAL
 * when they do not fit together (logged), or what mem_classify() returns
 */
int core_atomic_arrays(const struct core_atomic *op, struct core_array *operand,
		       struct core_array *compare, struct core_array *result, size_t *len);

/* The first of them that is device memory, or NULL */
const struct dev_mem *core_atomic_device(const struct core_array *operand,
					 const struct core_array *compare,
					 const struct core_array *result);

/**
 * struct core_comp - one completion, good or bad.
 * @err:	0, or a positive fi_errno value: then @prov_errno and @olen count too
 * @err_data:	@err_data_size bytes, malloc'ed; the holder frees them
 */
struct core_comp {
	void *context;
	uint64_t flags;
	size_t len;
	void *buf;
	uint64_t data;
	uint64_t tag;
	fi_addr_t src;
	int err;
	int prov_errno;
	size_t olen;
	void *err_data;
	size_t err_data_size;
};

void core_comp_from_entry(const struct fi_cq_tagged_entry *entry, fi_addr_t src,
			  struct core_comp *comp);

/* Takes the error that made a read of @cq return -FI_EAVAIL. 0 or a negative error */
int core_comp_from_error(struct fid_cq *cq, struct core_comp *comp);

#endif /* P2P_CORE_H */
