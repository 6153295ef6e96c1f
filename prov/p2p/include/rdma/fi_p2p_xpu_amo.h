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
#include <rdma/fi_p2p_xpu_port.h>

/* Of integers alone */
#define FI_P2P_XPU_AMO_BITS                                                                    \
	case FI_BOR:                                                                           \
		t = t | o;                                                                     \
		break;                                                                         \
	case FI_BAND:                                                                          \
		t = t & o;                                                                     \
		break;                                                                         \
	case FI_BXOR:                                                                          \
		t = t ^ o;                                                                     \
		break;                                                                         \
	case FI_MSWAP:                                                                         \
		t = (t & ~c) | (o & c);                                                        \
		break;
#define FI_P2P_XPU_AMO_NO_BITS

/*
 * What an operation makes of the bits of @target. @wrap: the type that sums are computed in, as those of integers wrap around.
 * What only reads changes nothing.
 */
#define FI_P2P_XPU_AMO(name, type, wrap, bits)                                                 \
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
		case FI_MIN:                                                                   \
			t = o < t ? o : t;                                                     \
			break;                                                                 \
		case FI_MAX:                                                                   \
			t = o > t ? o : t;                                                     \
			break;                                                                 \
		case FI_SUM:                                                                   \
			t = (type) ((wrap) t + (wrap) o);                                      \
			break;                                                                 \
		case FI_PROD:                                                                  \
			t = (type) ((wrap) t * (wrap) o);                                      \
			break;                                                                 \
		case FI_LOR:                                                                   \
			t = (type) (t || o);                                                   \
			break;                                                                 \
		case FI_LAND:                                                                  \
			t = (type) (t && o);                                                   \
			break;                                                                 \
		case FI_LXOR:                                                                  \
			t = (type) (!t != !o);                                                 \
			break;                                                                 \
		case FI_ATOMIC_WRITE:                                                          \
			t = o;                                                                 \
			break;                                                                 \
		case FI_CSWAP:                                                                 \
			t = c == t ? o : t;                                                    \
			break;                                                                 \
		case FI_CSWAP_NE:                                                              \
			t = c != t ? o : t;                                                    \
			break;                                                                 \
		case FI_CSWAP_LE:                                                              \
			t = c <= t ? o : t;                                                    \
			break;                                                                 \
		case FI_CSWAP_LT:                                                              \
			t = c < t ? o : t;                                                     \
			break;                                                                 \
		case FI_CSWAP_GE:                                                              \
			t = c >= t ? o : t;                                                    \
			break;                                                                 \
		case FI_CSWAP_GT:                                                              \
			t = c > t ? o : t;                                                     \
			break;                                                                 \
			bits default : break;                                                  \
		}                                                                              \
		__builtin_memcpy(&result, &t, sizeof(t));                                      \
		return result;                                                                 \
	}

FI_P2P_XPU_AMO(int32, int32_t, uint32_t, FI_P2P_XPU_AMO_BITS)
FI_P2P_XPU_AMO(uint32, uint32_t, uint32_t, FI_P2P_XPU_AMO_BITS)
FI_P2P_XPU_AMO(int64, int64_t, uint64_t, FI_P2P_XPU_AMO_BITS)
FI_P2P_XPU_AMO(uint64, uint64_t, uint64_t, FI_P2P_XPU_AMO_BITS)
FI_P2P_XPU_AMO(float, float, float, FI_P2P_XPU_AMO_NO_BITS)
FI_P2P_XPU_AMO(double, double, double, FI_P2P_XPU_AMO_NO_BITS)

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
