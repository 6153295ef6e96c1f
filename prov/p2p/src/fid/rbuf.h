/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Receive buffers that are chosen when a message comes: between ofi_rxm and tcp of libfabric 1.17.
 *
 * ofi_rxm asks the domain below for that by fi_set_ops(3). If it is there, both ends send tagged
 * messages in another format. So a hook between the two hands it through: else an end with the
 * hook would understand no message of an end without.
 */
#ifndef P2P_RBUF_H
#define P2P_RBUF_H

#include <rdma/fabric.h>

/* fi_ops.ops_set of a domain. 0, -FI_ENOSYS or the core's error */
int rbuf_ops_set(struct fid *domain, const char *name, uint64_t flags, void *ops,
		 void *context);

#endif /* P2P_RBUF_H */
