/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The calls of fi_atomic(3). */
#ifndef P2P_ATOMIC_H
#define P2P_ATOMIC_H

#include <rdma/fi_atomic.h>

#include "xfer/xfer.h"

extern struct fi_ops_atomic atomic_ops;

/*
 * How many elements an atomic operation may have, if the core takes @core_count; 0: none. Where we
 * serve some memory, the limit is the smaller of the core's and ours. @flags: as for fi_query_atomic(3)
 */
size_t atomic_count(const struct xfer *xfer, enum fi_datatype datatype, enum fi_op op,
		    uint64_t flags, size_t core_count);

/* 0, or what fi_query_atomic(3) returns for flags that no operation has */
int atomic_check_flags(uint64_t flags);

#endif /* P2P_ATOMIC_H */
