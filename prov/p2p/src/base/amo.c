/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Atomic operations on arrays. See amo.h.
 *
 * The lists below make one function for each type. A type has the operations of its class.
 * Integers have all of them, real numbers no bitwise ones, complex numbers no order.
 */
#include "base/amo.h"

#include <complex.h>
#include <stdint.h>
#include <string.h>
#include <rdma/fi_p2p_xpu_abi.h>

#include "base/base.h"

#define AMO_INTEGERS(X)                                                                        \
	X(FI_INT8, int8_t)                                                                     \
	X(FI_UINT8, uint8_t)                                                                   \
	X(FI_INT16, int16_t)                                                                   \
	X(FI_UINT16, uint16_t)                                                                 \
	X(FI_INT32, int32_t)                                                                   \
	X(FI_UINT32, uint32_t)                                                                 \
	X(FI_INT64, int64_t)                                                                   \
	X(FI_UINT64, uint64_t)

#define AMO_REALS(X)                                                                           \
	X(FI_FLOAT, float)                                                                     \
	X(FI_DOUBLE, double)                                                                   \
	X(FI_LONG_DOUBLE, long double)

#define AMO_COMPLEXES(X)                                                                       \
	X(FI_FLOAT_COMPLEX, float complex)                                                     \
	X(FI_DOUBLE_COMPLEX, double complex)                                                   \
	X(FI_LONG_DOUBLE_COMPLEX, long double complex)

#define AMO_FUNCTION(name, type, cases)                                                        \
	static void amo_apply_##name(enum fi_op op, size_t count, char *target,                \
				     const char *operand, const char *compare)                 \
	{                                                                                      \
		for (size_t i = 0; i < count; i++, target += sizeof(type)) {                   \
			type t, o = 0, c = 0;                                                  \
                                                                                               \
			memcpy(&t, target, sizeof t);                                          \
			if (operand)                                                           \
				memcpy(&o, operand + i * sizeof o, sizeof o);                  \
			if (compare)                                                           \
				memcpy(&c, compare + i * sizeof c, sizeof c);                  \
			switch (op) {                                                          \
				cases(type) default : break;                                   \
			}                                                                      \
			memcpy(target, &t, sizeof t);                                          \
		}                                                                              \
	}

#define AMO_INTEGER_FUNCTION(name, type) AMO_FUNCTION(name, type, FI_P2P_AMO_INTEGER)
#define AMO_REAL_FUNCTION(name, type) AMO_FUNCTION(name, type, FI_P2P_AMO_REAL)
#define AMO_COMPLEX_FUNCTION(name, type) AMO_FUNCTION(name, type, FI_P2P_AMO_COMPLEX)

AMO_INTEGERS(AMO_INTEGER_FUNCTION)
AMO_REALS(AMO_REAL_FUNCTION)
AMO_COMPLEXES(AMO_COMPLEX_FUNCTION)

enum amo_class { AMO_NONE, AMO_INTEGER, AMO_REAL, AMO_COMPLEX };

struct amo_type {
	enum amo_class class;
	size_t size;
	void (*apply)(enum fi_op op, size_t count, char *target, const char *operand,
		      const char *compare);
};

#define AMO_INTEGER_TYPE(name, type) [name] = {AMO_INTEGER, sizeof(type), amo_apply_##name},
#define AMO_REAL_TYPE(name, type) [name] = {AMO_REAL, sizeof(type), amo_apply_##name},
#define AMO_COMPLEX_TYPE(name, type) [name] = {AMO_COMPLEX, sizeof(type), amo_apply_##name},

static const struct amo_type amo_types[] = {[FI_INT128] = {AMO_NONE, 16, NULL},
					    [FI_UINT128] = {AMO_NONE, 16, NULL},
					    AMO_INTEGERS(AMO_INTEGER_TYPE)
						    AMO_REALS(AMO_REAL_TYPE)
							    AMO_COMPLEXES(AMO_COMPLEX_TYPE)};

/* What is known of a type, whatever number a peer has sent */
static const struct amo_type *amo_type(enum fi_datatype datatype)
{
	static const struct amo_type none = {AMO_NONE, 0, NULL};

	return (size_t) datatype < sizeof amo_types / sizeof amo_types[0] ? &amo_types[datatype]
									  : &none;
}

size_t amo_size(enum fi_datatype datatype)
{
	return amo_type(datatype)->size;
}

bool amo_valid(enum fi_datatype datatype, enum fi_op op, bool compare)
{
	enum amo_class class = amo_type(datatype)->class;

	if (class == AMO_NONE)
		return false;
	switch (op) {
	case FI_SUM:
	case FI_PROD:
	case FI_LOR:
	case FI_LAND:
	case FI_LXOR:
	case FI_ATOMIC_READ:
	case FI_ATOMIC_WRITE:
		return !compare;
	case FI_MIN:
	case FI_MAX:
		return !compare && class != AMO_COMPLEX;
	case FI_BOR:
	case FI_BAND:
	case FI_BXOR:
		return !compare && class == AMO_INTEGER;
	case FI_CSWAP:
	case FI_CSWAP_NE:
		return compare;
	case FI_CSWAP_LE:
	case FI_CSWAP_LT:
	case FI_CSWAP_GE:
	case FI_CSWAP_GT:
		return compare && class != AMO_COMPLEX;
	case FI_MSWAP:
		return compare && class == AMO_INTEGER;
	default:
		return false;
	}
}

void amo_apply(enum fi_datatype datatype, enum fi_op op, size_t count, void *target,
	       const void *operand, const void *compare)
{
	amo_type(datatype)->apply(op, count, target, operand, compare);
}
