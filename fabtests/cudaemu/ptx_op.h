/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* One instruction of PTX, between ptx.c, which reads it, and ptx_run.c, which carries it out. */
#ifndef CUDAEMU_PTX_OP_H
#define CUDAEMU_PTX_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

enum ptx_kind {
	PTX_REGISTER,
	PTX_IMMEDIATE,
	PTX_SPECIAL, /* enum ptx_special */
	PTX_PARAM,   /* its number */
};

enum ptx_special { PTX_TID, PTX_NTID, PTX_CTAID, PTX_NCTAID, PTX_SPECIALS };

/* @bits: 1 for a predicate */
struct ptx_operand {
	enum ptx_kind kind;
	unsigned int bits;
	uint64_t value; /* a register's number, or what it is */
	int64_t offset; /* of an address */
};

/**
 * struct ptx_op - an instruction
 * @type:	u, s, f, b, or p for predicates
 * @bits:	the type's width, 1 for a predicate
 * @guard:	the predicate that it depends on; @guarded, @negated: does it, and is that to be false?
 * @operand:	what it writes, then what it reads; a store's address comes first
 * @label, @target: where a branch goes
 */
struct ptx_op {
	enum ptx_code code;
	char type;
	unsigned int bits;
	bool guarded, negated;
	unsigned int guard;
	struct ptx_operand operand[4];
	char label[32];
	size_t target;
};

#endif /* CUDAEMU_PTX_OP_H */
