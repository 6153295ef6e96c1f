/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What the operations of fi_atomic(3) compute, in host memory */
#ifndef P2P_AMO_H
#define P2P_AMO_H

#include <stdbool.h>
#include <stddef.h>
#include <rdma/fi_domain.h>

/* The size of one element [bytes], also where amo_valid() knows no operation; 0: it is not known */
size_t amo_size(enum fi_datatype datatype);

/* Does the type have @op, with or without compare values? */
bool amo_valid(enum fi_datatype datatype, enum fi_op op, bool compare);

/*
 * Does @op to @count elements at @target, each with its @operand and its @compare value.
 *
 * FI_ATOMIC_READ reads no @operand. Only some operations have compare values. The arrays need
 * not be aligned.
 */
void amo_apply(enum fi_datatype datatype, enum fi_op op, size_t count, void *target,
	       const void *operand, const void *compare);

#endif /* P2P_AMO_H */
