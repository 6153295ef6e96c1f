/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Carries PTX out. See ptx.h. */
#include "ptx.h"
#include "ptx_op.h"

#include <string.h>

/*
 * @values:	all that instructions name, at the places that they have for it
 * @part:	where the instruction of that number has found its memory the last time
 * @any:	of the predicates at the block's barrier, those of the threads so far
 */
struct ptx_thread {
	const struct ptx_grid *grid;
	uint64_t *values;
	const struct ptx_part **part;
	bool any;
};

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

/* What a narrower type with a sign makes of a register's bits */
static uint64_t ptx_signed(uint64_t value, unsigned int bits)
{
	return (uint64_t) ((int64_t) (value << (64 - bits)) >> (64 - bits));
}

/* ---- memory ---- */

static bool ptx_within(const struct ptx_part *part, uint64_t address, size_t len)
{
	return len <= part->size && address - part->base <= part->size - len;
}

/* The last part that begins no later than @address, if there is one */
static const struct ptx_part *ptx_part_find(const struct ptx_grid *grid, uint64_t address)
{
	size_t first = 0, end = grid->parts;

	while (end - first > 1) {
		const size_t middle = (first + end) / 2;

		if (grid->part[middle].base <= address)
			first = middle;
		else
			end = middle;
	}
	return &grid->part[first];
}

/* An address that is no multiple of the width is an error on a GPU, too */
static inline __attribute__((always_inline)) char *
ptx_memory(const struct ptx_thread *thread, const struct ptx_op *op, uint64_t address)
{
	const struct ptx_part **part = &thread->part[op - thread->grid->entry->ops];
	const size_t len = op->bits / 8;

	if (!ptx_within(*part, address, len))
		*part = ptx_part_find(thread->grid, address);
	if (address % len || !ptx_within(*part, address, len) ||
	    (op->code == PTX_ST && (*part)->read_only))
		return NULL;
	return (*part)->rw + (address - (*part)->base);
}

/* In one piece, as others may look */
static bool ptx_load(const struct ptx_thread *thread, const struct ptx_op *op, uint64_t address)
{
	const void *at = ptx_memory(thread, op, address);
	uint64_t value;

	if (!at)
		return false;
	value = op->bits == 8    ? __atomic_load_n((const uint8_t *) at, __ATOMIC_RELAXED)
		: op->bits == 16 ? __atomic_load_n((const uint16_t *) at, __ATOMIC_RELAXED)
		: op->bits == 32 ? __atomic_load_n((const uint32_t *) at, __ATOMIC_RELAXED)
				 : __atomic_load_n((const uint64_t *) at, __ATOMIC_RELAXED);
	if (op->type == 's')
		value = ptx_signed(value, op->bits);
	thread->values[op->at[0]] = value & op->mask;
	return true;
}

static bool ptx_store(const struct ptx_thread *thread, const struct ptx_op *op,
		      uint64_t address, uint64_t value)
{
	void *at = ptx_memory(thread, op, address);

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
	return type == 's' ? PTX_COMPARE((int64_t) ptx_signed(a, bits),
					 (int64_t) ptx_signed(b, bits))
			   : PTX_COMPARE(a, b);
}

/* ---- threads ---- */

/*
 * All but branches. What is read is as wide as its register or its type, and what is written is made as wide. False: memory
 * that it may not touch
 */
static inline __attribute__((always_inline)) bool ptx_step(struct ptx_thread *thread,
							   const struct ptx_op *op)
{
	uint64_t *values = thread->values, result = 0;
	const uint64_t a = values[op->at[1]], b = values[op->at[2]], c = values[op->at[3]];

	switch (op->code) {
	case PTX_ST:
		return ptx_store(thread, op, values[op->at[0]] + (uint64_t) op->offset, a);
	case PTX_LD:
		return ptx_load(thread, op, a + (uint64_t) op->offset);
	case PTX_MEMBAR:
		/* a fence, of a kind that the thread sanitizer knows */
		__atomic_fetch_add(&result, 0, __ATOMIC_SEQ_CST);
		return true;
	case PTX_BAR:
		/* the threads before would have had to wait for this one */
		if (b && !thread->any && values[PTX_TID])
			return false;
		result = thread->any |= b;
		break;
	case PTX_LD_PARAM:
	case PTX_MOV:
		result = a;
		break;
	case PTX_ADD:
		result = op->type == 'f' ? ptx_arithmetic_float(op, a, b) : a + b;
		break;
	case PTX_SUB:
		result = a - b;
		break;
	case PTX_MUL:
	case PTX_MUL_WIDE:
		result = op->type == 'f' ? ptx_arithmetic_float(op, a, b) : a * b;
		break;
	case PTX_MAD:
		result = a * b + c;
		break;
	case PTX_DIV:
		result = b ? a / b : ~0ull;
		break;
	case PTX_REM:
		result = b ? a % b : a;
		break;
	case PTX_AND:
		result = a & b;
		break;
	case PTX_OR:
		result = a | b;
		break;
	case PTX_XOR:
		result = a ^ b;
		break;
	case PTX_SELP:
		result = c ? a : b;
		break;
	default:
		result = ptx_compare(op->code, op->type, op->bits, a, b);
	}
	values[op->at[0]] = result & op->mask;
	return true;
}

static bool ptx_thread_run(struct ptx_thread *thread)
{
	const struct ptx_entry *entry = thread->grid->entry;
	const struct ptx_op *op = entry->ops, *end = op + entry->count;

	while (op < end) {
		const struct ptx_op *now = op++;

		if (now->guarded && !thread->values[now->guard] == !now->negated)
			continue;
		if (now->code == PTX_RET)
			return true;
		if (now->code == PTX_BRA)
			op = entry->ops + now->target;
		else if (!ptx_step(thread, now))
			return false;
	}
	return true;
}

bool ptx_run(const struct ptx_grid *grid)
{
	static const struct ptx_part nothing;
	const struct ptx_entry *entry = grid->entry;
	const size_t registers = entry->registers * sizeof(uint64_t);
	const struct ptx_part *part[entry->count + 1];
	uint64_t values[PTX_REGISTER_AT + entry->registers];
	struct ptx_thread thread = {.grid = grid, .values = values, .part = part};

	for (size_t i = 0; i < entry->count; i++)
		part[i] = &nothing;
	values[PTX_NTID] = grid->threads;
	values[PTX_NCTAID] = grid->blocks;
	memcpy(&values[PTX_PARAM_AT], grid->params, entry->params * sizeof(*values));
	memcpy(&values[PTX_IMMEDIATE_AT], entry->immediate, sizeof(entry->immediate));
	for (unsigned int block = 0; block < grid->blocks; block++) {
		thread.any = false;
		for (unsigned int number = 0; number < grid->threads; number++) {
			values[PTX_TID] = number;
			values[PTX_CTAID] = block;
			/* nobody may rely on what is in them */
			memset(&values[PTX_REGISTER_AT], 0xdb, registers);
			if (!ptx_thread_run(&thread))
				return false;
		}
	}
	return true;
}
