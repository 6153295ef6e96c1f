/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * The data transfer calls of endpoints, and of their aliases, where operations may wait for counters. One
 * with FI_TRIGGER becomes a work. Every other goes on to the call of fid/.
 */
#ifndef P2P_TRIGGER_CALLS_H
#define P2P_TRIGGER_CALLS_H

#include <rdma/fi_atomic.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

/* Only those with flags may have FI_TRIGGER. The others are those of fid/ */
extern struct fi_ops_msg trigger_flagged_msg_ops;
extern struct fi_ops_tagged trigger_flagged_tagged_ops;
extern struct fi_ops_rma trigger_flagged_rma_ops;
extern struct fi_ops_atomic trigger_flagged_atomic_ops;

extern struct fi_ops_msg trigger_msg_ops;
extern struct fi_ops_tagged trigger_tagged_ops;
extern struct fi_ops_rma trigger_rma_ops;
extern struct fi_ops_atomic trigger_atomic_ops;

#endif /* P2P_TRIGGER_CALLS_H */
