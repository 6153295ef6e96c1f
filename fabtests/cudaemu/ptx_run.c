/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Carries PTX out. See ptx.h. */
#include "ptx.h"
#include "ptx_op.h"

#include <string.h>

/* @any: of the predicates at the block's barrier, those of the threads so far */
struct ptx_thread {
	const struct ptx_grid *grid;
	uint64_t *registers;
	uint32_t special[PTX_SPECIALS];
	bool any;
};

/* Inlined, as each instruction asks three times */
static inline __attribute__((always_inline)) uint64_t
ptx_value(const struct ptx_thread *thread, const struct ptx_operand *operand)
{
	switch (operand->kind) {
	case PTX_REGISTER:
		return thread->registers[operand->value];
	case PTX_SPECIAL:
		return thread->special[operand->value];
	case PTX_PARAM:
		return thread->grid->params[operand->value];
	default:
		return operand->value;
	}
}

static float ptx_f32(uint64_t bits)
{
	const uint32_t low = (uint32_t) bits;
	float value;

	memcpy(&value, &low, sizeof(value));
	return value;
}

static double ptx_f64(uint64_t bits)
{
	double value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* Both have what is written, too: so no excess of precision is kept */
static uint64_t ptx_of_f32(float value)
{
	uint32_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static uint64_t ptx_of_f64(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

/* What a narrower type makes of a register's bits */
static uint64_t ptx_narrow(uint64_t value, char type, unsigned int bits)
{
	if (bits == 64)
		return value;
	if (bits == 1)
		return value & 1;
	value &= (1ull << bits) - 1;
	if (type == 's' && value >> (bits - 1))
		value |= ~0ull << bits;
	return value;
}

/* An address that is no multiple of the width is an error on a GPU, too */
static char *ptx_memory(const struct ptx_thread *thread, const struct ptx_op *op,
			const struct ptx_operand *operand)
{
	const uint64_t address = ptx_value(thread, operand) + (uint64_t) operand->offset;

	return address % (op->bits / 8) ? NULL
					: thread->grid->reach(thread->grid->memory, address,
							      op->bits / 8, op->code == PTX_ST);
}

/* In one piece, as others may look */
static bool ptx_load(struct ptx_thread *thread, const struct ptx_op *op)
{
	const void *at = ptx_memory(thread, op, &op->operand[1]);
	uint64_t value;

	if (!at)
		return false;
	value = op->bits == 8    ? __atomic_load_n((const uint8_t *) at, __ATOMIC_RELAXED)
		: op->bits == 16 ? __atomic_load_n((const uint16_t *) at, __ATOMIC_RELAXED)
		: op->bits == 32 ? __atomic_load_n((const uint32_t *) at, __ATOMIC_RELAXED)
				 : __atomic_load_n((const uint64_t *) at, __ATOMIC_RELAXED);
	thread->registers[op->operand[0].value] =
		ptx_narrow(ptx_narrow(value, op->type, op->bits), 'u', op->operand[0].bits);
	return true;
}

static bool ptx_store(struct ptx_thread *thread, const struct ptx_op *op)
{
	const uint64_t value = ptx_value(thread, &op->operand[1]);
	void *at = ptx_memory(thread, op, &op->operand[0]);

	if (!at)
		return false;
	if (op->bits == 8)
		__atomic_store_n((uint8_t *) at, (uint8_t) value, __ATOMIC_RELAXED);
	else if (op->bits == 16)
		__atomic_store_n((uint16_t *) at, (uint16_t) value, __ATOMIC_RELAXED);
	else if (op->bits == 32)
		__atomic_store_n((uint32_t *) at, (uint32_t) value, __ATOMIC_RELAXED);
	else
		__atomic_store_n((uint64_t *) at, value, __ATOMIC_RELAXED);
	return true;
}

/* ---- numbers ---- */

static uint64_t ptx_arithmetic_float(const struct ptx_op *op, uint64_t a, uint64_t b)
{
	const bool add = op->code == PTX_ADD;

	if (op->bits == 32)
		return ptx_of_f32(add ? ptx_f32(a) + ptx_f32(b) : ptx_f32(a) * ptx_f32(b));
	return ptx_of_f64(add ? ptx_f64(a) + ptx_f64(b) : ptx_f64(a) * ptx_f64(b));
}

static uint64_t ptx_arithmetic(const struct ptx_op *op, uint64_t a, uint64_t b, uint64_t c)
{
	if (op->type == 'f')
		return ptx_arithmetic_float(op, a, b);
	a = ptx_narrow(a, 'u', op->bits);
	b = ptx_narrow(b, 'u', op->bits);
	switch (op->code) {
	case PTX_ADD:
		return a + b;
	case PTX_SUB:
		return a - b;
	case PTX_MAD:
		return a * b + c;
	case PTX_DIV:
		return b ? a / b : ~0ull;
	case PTX_REM:
		return b ? a % b : a;
	case PTX_AND:
		return a & b;
	case PTX_OR:
		return a | b;
	case PTX_XOR:
		return a ^ b;
	default:
		return a * b;
	}
}

#define PTX_COMPARE(a, b)                                                                      \
	((code) == PTX_SETP_EQ   ? (a) == (b)                                                  \
	 : (code) == PTX_SETP_NE ? (a) < (b) || (a) > (b)                                      \
	 : (code) == PTX_SETP_LT ? (a) < (b)                                                   \
	 : (code) == PTX_SETP_LE ? (a) <= (b)                                                  \
	 : (code) == PTX_SETP_GT ? (a) > (b)                                                   \
				 : (a) >= (b))

/* What is no number is neither equal nor unequal to anything */
static bool ptx_compare(enum ptx_code code, char type, unsigned int bits, uint64_t a,
			uint64_t b)
{
	if (type == 'f')
		return bits == 32 ? PTX_COMPARE(ptx_f32(a), ptx_f32(b))
				  : PTX_COMPARE(ptx_f64(a), ptx_f64(b));
	a = ptx_narrow(a, type, bits);
	b = ptx_narrow(b, type, bits);
	return type == 's' ? PTX_COMPARE((int64_t) a, (int64_t) b) : PTX_COMPARE(a, b);
}

/* ---- threads ---- */

/* All but branches. What is written is as wide as its register. False: memory that it may not touch */
static bool ptx_step(struct ptx_thread *thread, const struct ptx_op *op)
{
	const struct ptx_operand *operand = op->operand;
	const uint64_t a = ptx_value(thread, &operand[1]), b = ptx_value(thread, &operand[2]),
		       c = ptx_value(thread, &operand[3]);
	uint64_t result = 0;

	switch (op->code) {
	case PTX_ST:
		return ptx_store(thread, op);
	case PTX_LD:
		return ptx_load(thread, op);
	case PTX_MEMBAR:
		/* a fence, of a kind that the thread sanitizer knows */
		__atomic_fetch_add(&result, 0, __ATOMIC_SEQ_CST);
		return true;
	case PTX_BAR:
		/* the threads before would have had to wait for this one */
		if (b && !thread->any && thread->special[PTX_TID])
			return false;
		result = thread->any |= b;
		break;
	case PTX_LD_PARAM:
	case PTX_MOV:
		result = a;
		break;
	case PTX_SELP:
		result = c ? a : b;
		break;
	case PTX_SETP_EQ:
	case PTX_SETP_NE:
	case PTX_SETP_LT:
	case PTX_SETP_LE:
	case PTX_SETP_GT:
	case PTX_SETP_GE:
		result = ptx_compare(op->code, op->type, op->bits, a, b);
		break;
	default:
		result = ptx_arithmetic(op, a, b, c);
	}
	thread->registers[operand[0].value] = ptx_narrow(result, 'u', operand[0].bits);
	return true;
}

static bool ptx_thread_run(struct ptx_thread *thread)
{
	const struct ptx_entry *entry = thread->grid->entry;
	size_t at = 0;

	while (at < entry->count) {
		const struct ptx_op *op = &entry->ops[at++];

		if (op->guarded && !thread->registers[op->guard] == !op->negated)
			continue;
		if (op->code == PTX_RET)
			return true;
		if (op->code == PTX_BRA)
			at = op->target;
		else if (!ptx_step(thread, op))
			return false;
	}
	return true;
}

bool ptx_run(const struct ptx_grid *grid)
{
	uint64_t registers[grid->entry->registers + 1];
	struct ptx_thread thread = {.grid = grid, .registers = registers};

	thread.special[PTX_NTID] = grid->threads;
	thread.special[PTX_NCTAID] = grid->blocks;
	for (unsigned int block = 0; block < grid->blocks; block++) {
		thread.any = false;
		for (unsigned int number = 0; number < grid->threads; number++) {
			thread.special[PTX_TID] = number;
			thread.special[PTX_CTAID] = block;
			/* nobody may rely on what is in them */
			memset(registers, 0xdb, sizeof(registers));
			if (!ptx_thread_run(&thread))
				return false;
		}
	}
	return true;
}
