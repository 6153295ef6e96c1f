/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Rank 4: the core provider's data transfer calls, all variants as one; and what its
 * completion queues say, in one form.
 */
#ifndef P2P_CORE_H
#define P2P_CORE_H

#include <stdbool.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_tagged.h>

/**
 * struct core_op - one operation on a core endpoint.
 * @recv, @tagged: which of the four
 * @flags:	as for fi_sendmsg(3), fi_recvmsg(3)
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
};

/* Posts it. 0 or the core's negative error; -FI_EAGAIN is not logged */
ssize_t core_post(struct fid_ep *ep, const struct core_op *op);

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
