/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Atomic operations of kernels on mapped memory, word by word: all of fi_atomic(3) for types of 4 and 8 bytes. Not for
 * applications.
 *
 *	look ► compute ► exchange, if nobody else has meanwhile; else compute again
 */
#ifndef FI_P2P_XPU_AMO_H
#define FI_P2P_XPU_AMO_H

#include <rdma/fi_domain.h>
#include <rdma/fi_p2p_xpu_abi.h>
#include <rdma/fi_p2p_xpu_port.h>

/* What an operation makes of the bits of @target */
#define FI_P2P_XPU_AMO(name, type, cases)                                                      \
	FI_P2P_XPU_FUNC uint64_t fi_p2p_xpu_amo_##name(int op, uint64_t target,                \
						       uint64_t operand, uint64_t compare)     \
	{                                                                                      \
		type t, o, c;                                                                  \
		uint64_t result = 0;                                                           \
                                                                                               \
		__builtin_memcpy(&t, &target, sizeof(t));                                      \
		__builtin_memcpy(&o, &operand, sizeof(o));                                     \
		__builtin_memcpy(&c, &compare, sizeof(c));                                     \
		switch (op) {                                                                  \
			cases(type) default : break;                                           \
		}                                                                              \
		__builtin_memcpy(&result, &t, sizeof(t));                                      \
		return result;                                                                 \
	}

FI_P2P_XPU_AMO(int32, int32_t, FI_P2P_AMO_INTEGER)
FI_P2P_XPU_AMO(uint32, uint32_t, FI_P2P_AMO_INTEGER)
FI_P2P_XPU_AMO(int64, int64_t, FI_P2P_AMO_INTEGER)
FI_P2P_XPU_AMO(uint64, uint64_t, FI_P2P_AMO_INTEGER)
FI_P2P_XPU_AMO(float, float, FI_P2P_AMO_REAL)
FI_P2P_XPU_AMO(double, double, FI_P2P_AMO_REAL)

FI_P2P_XPU_FUNC uint64_t fi_p2p_xpu_amo_compute(int datatype, int op, uint64_t target,
						uint64_t operand, uint64_t compare)
{
	switch (datatype) {
	case FI_INT32:
		return fi_p2p_xpu_amo_int32(op, target, operand, compare);
	case FI_UINT32:
		return fi_p2p_xpu_amo_uint32(op, target, operand, compare);
	case FI_INT64:
		return fi_p2p_xpu_amo_int64(op, target, operand, compare);
	case FI_UINT64:
		return fi_p2p_xpu_amo_uint64(op, target, operand, compare);
	case FI_FLOAT:
		return fi_p2p_xpu_amo_float(op, target, operand, compare);
	default:
		return fi_p2p_xpu_amo_double(op, target, operand, compare);
	}
}

/* The length of a word of a type [bytes]. 0: the proxy does its operations, and is asked for what no type has */
FI_P2P_XPU_FUNC uint32_t fi_p2p_xpu_amo_size(int datatype, int op, int compares)
{
	const int real = datatype == FI_FLOAT || datatype == FI_DOUBLE;

	if (datatype < FI_INT32 || datatype > FI_DOUBLE || op > FI_MSWAP ||
	    compares != (op >= FI_CSWAP) ||
	    (real && (op == FI_BOR || op == FI_BAND || op == FI_BXOR || op == FI_MSWAP)))
		return 0;
	return datatype == FI_INT32 || datatype == FI_UINT32 || datatype == FI_FLOAT ? 4 : 8;
}

/* Does it to one word, and returns what was there. A hardware's own addition never has to begin again. */
FI_P2P_XPU_FUNC uint64_t fi_p2p_xpu_amo_do(int datatype, int op, uint64_t at, uint64_t operand,
					   uint64_t compare)
{
	const int wide = datatype != FI_INT32 && datatype != FI_UINT32 && datatype != FI_FLOAT;
	uint64_t old, value, seen;

	if (op == FI_SUM && datatype < FI_FLOAT)
		return fi_p2p_xpu_word_add(at, wide, operand);
	old = fi_p2p_xpu_word_look(at, wide);
	for (;;) {
		value = fi_p2p_xpu_amo_compute(datatype, op, old, operand, compare);
		if (value == old)
			return old;
		seen = fi_p2p_xpu_word_swap_if(at, wide, old, value);
		if (seen == old)
			return old;
		old = seen;
	}
}

#endif /* FI_P2P_XPU_AMO_H */
