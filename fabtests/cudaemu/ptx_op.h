/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* One instruction of PTX, between ptx.c, which reads it, and ptx_run.c, which carries it out. */
#ifndef CUDAEMU_PTX_OP_H
#define CUDAEMU_PTX_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ptx.h"

enum ptx_code {
	PTX_LD_PARAM,
	PTX_LD,
	PTX_ST,
	PTX_MOV,
	PTX_ADD,
	PTX_SUB,
	PTX_MUL,
	PTX_MUL_WIDE,
	PTX_MAD,
	PTX_DIV,
	PTX_REM,
	PTX_AND,
	PTX_OR,
	PTX_XOR,
	PTX_SETP_EQ,
	PTX_SETP_NE,
	PTX_SETP_LT,
	PTX_SETP_LE,
	PTX_SETP_GT,
	PTX_SETP_GE,
	PTX_SELP,
	PTX_MEMBAR,
	PTX_BAR,
	PTX_BRA,
	PTX_RET,
};

enum ptx_special { PTX_TID, PTX_NTID, PTX_CTAID, PTX_NCTAID, PTX_SPECIALS };

/* The values that a thread has, from the first one on: the special registers, parameters, immediates, its own registers */
#define PTX_PARAM_AT PTX_SPECIALS
#define PTX_IMMEDIATE_AT (PTX_PARAM_AT + PTX_PARAMS)
#define PTX_REGISTER_AT (PTX_IMMEDIATE_AT + PTX_IMMEDIATES)

/**
 * struct ptx_op - an instruction
 * @type:	u, s, f, b, or p for predicates
 * @bits:	the type's width, 1 for a predicate
 * @guard:	the predicate that it depends on; @guarded, @negated: does it, and is that to be false?
 * @at:		the values that it writes, then those that it reads; a store's address comes first
 * @mask:	the bits that the register has that it writes
 * @offset:	of an address
 * @label, @target: where a branch goes
 */
struct ptx_op {
	enum ptx_code code;
	char type;
	bool guarded, negated;
	unsigned int bits, guard, at[4];
	uint64_t mask;
	int64_t offset;
	size_t target;
	char label[32];
};

#endif /* CUDAEMU_PTX_OP_H */
