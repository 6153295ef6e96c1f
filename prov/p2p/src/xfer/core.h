/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The core's data transfer calls, all variants as one; its completions, in one form; and its infos
 * for endpoints beside the application's.
 */
#ifndef P2P_CORE_H
#define P2P_CORE_H

#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include "mem/mem.h"
#include "xfer/op.h"

struct xfer_channel;

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

/* Makes the core's call for an op. 0 or the core's negative error */
ssize_t core_call(struct fid_ep *ep, const struct p2p_op *op);

/*
 * Makes the core's call for an op, and logs an error. It logs no -FI_EAGAIN, nor what QUIRK_RECV_NOMEM makes
 * one
 */
ssize_t core_post(const struct xfer_channel *channel, const struct p2p_op *op);

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
int core_atomic_arrays(const struct p2p_op *op, struct core_array *operand,
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

/* Turns an entry of the core's queue into a completion. */
void core_comp_from_entry(const struct fi_cq_tagged_entry *entry, fi_addr_t src,
			  struct core_comp *comp);

/* Takes the error that made a read of @cq return -FI_EAVAIL. 0 or a negative error */
int core_comp_from_error(struct fid_cq *cq, struct core_comp *comp);

/*
 * Addresses that, in the course of one walk along a queue, something has to wait for: what
 * else goes there waits too, and the rest does not wait for it. FI_ADDR_NOTAVAIL is every
 * address.
 */
struct xfer_blocked {
	fi_addr_t addr[16];
	size_t count;
};

/* Tells whether an address has had no room in this pass, so that others to it wait, too. */
bool xfer_blocked_has(const struct xfer_blocked *blocked, fi_addr_t addr);
void xfer_blocked_add(struct xfer_blocked *blocked, fi_addr_t addr);

#endif /* P2P_CORE_H */
