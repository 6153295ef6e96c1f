/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Composes PTX text, has the driver load it, and keeps what it has loaded. See kernel.h.
 *
 * A kernel that reduces is the same for each operation and type but for what it loads, what it does, and what it stores:
 *
 *	each thread begins with the element of its number
 *	MANY: as long as there are four, one for all threads apart:  load eight, do it four times, store four
 *	SOME: as long as there is one:                               load two, do it, store one
 *
 * Numbers of up to 32 bits are in registers of that width, others in those of 64 bits.
 *
 * The kernel that copies has a warp for each run. Its threads copy units as wide as addresses and length allow. The first
 * thread of a block looks at the gate, for all: a load of host memory takes a microsecond, and those of one word come one at a
 * time.
 */
#include "kernel.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "base/thread.h"

#define KERNEL_THREADS 256
/* As many blocks as a large GPU runs at once */
#define KERNEL_BLOCKS 1024
/* Of the kernel that copies: each block looks at the gate */
#define KERNEL_COPY_BLOCKS 64
#define KERNEL_UNROLLED 4
#define KERNEL_TEXT 8192
#define KERNEL_NAME "p2p_kernel"
#define KERNEL_HEAD                                                                            \
	".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry " KERNEL_NAME
#define KERNEL_WARP 32

/* ---- types and operations ---- */

enum kernel_kind {
	KERNEL_C_INTEGER = 1,
	KERNEL_INTEGER = 2, /* of Fortran, or of several languages */
	KERNEL_REAL = 4,
	KERNEL_LOGICAL = 8,
	KERNEL_BYTE = 16,
};

static const struct kernel_type {
	MPI_Datatype type;
	enum kernel_kind kind;
} kernel_types[] = {
	{MPI_SIGNED_CHAR, KERNEL_C_INTEGER},
	{MPI_UNSIGNED_CHAR, KERNEL_C_INTEGER},
	{MPI_SHORT, KERNEL_C_INTEGER},
	{MPI_UNSIGNED_SHORT, KERNEL_C_INTEGER},
	{MPI_INT, KERNEL_C_INTEGER},
	{MPI_UNSIGNED, KERNEL_C_INTEGER},
	{MPI_LONG, KERNEL_C_INTEGER},
	{MPI_UNSIGNED_LONG, KERNEL_C_INTEGER},
	{MPI_LONG_LONG, KERNEL_C_INTEGER},
	{MPI_UNSIGNED_LONG_LONG, KERNEL_C_INTEGER},
	{MPI_INT8_T, KERNEL_C_INTEGER},
	{MPI_UINT8_T, KERNEL_C_INTEGER},
	{MPI_INT16_T, KERNEL_C_INTEGER},
	{MPI_UINT16_T, KERNEL_C_INTEGER},
	{MPI_INT32_T, KERNEL_C_INTEGER},
	{MPI_UINT32_T, KERNEL_C_INTEGER},
	{MPI_INT64_T, KERNEL_C_INTEGER},
	{MPI_UINT64_T, KERNEL_C_INTEGER},
	{MPI_AINT, KERNEL_INTEGER},
	{MPI_OFFSET, KERNEL_INTEGER},
	{MPI_COUNT, KERNEL_INTEGER},
	{MPI_INTEGER, KERNEL_INTEGER},
	{MPI_INTEGER1, KERNEL_INTEGER},
	{MPI_INTEGER2, KERNEL_INTEGER},
	{MPI_INTEGER4, KERNEL_INTEGER},
	{MPI_INTEGER8, KERNEL_INTEGER},
	{MPI_FLOAT, KERNEL_REAL},
	{MPI_DOUBLE, KERNEL_REAL},
	{MPI_REAL, KERNEL_REAL},
	{MPI_DOUBLE_PRECISION, KERNEL_REAL},
	{MPI_REAL4, KERNEL_REAL},
	{MPI_REAL8, KERNEL_REAL},
	{MPI_C_BOOL, KERNEL_LOGICAL},
	{MPI_LOGICAL, KERNEL_LOGICAL},
	{MPI_BYTE, KERNEL_BYTE},
};

#define KERNEL_NUMBERS (KERNEL_C_INTEGER | KERNEL_INTEGER | KERNEL_REAL)
#define KERNEL_TRUTH (KERNEL_C_INTEGER | KERNEL_LOGICAL)
#define KERNEL_BITS (KERNEL_C_INTEGER | KERNEL_INTEGER | KERNEL_BYTE)

/* What it does: computes, takes one of the two, or tells whether both are true or not */
enum kernel_way { KERNEL_COMPUTES, KERNEL_CHOOSES, KERNEL_TELLS, KERNEL_BITWISE };

static const struct kernel_op {
	MPI_Op op;
	unsigned int kinds;
	enum kernel_way way;
	const char *integer, *real; /* PTX, without the type */
} kernel_ops[] = {
	{MPI_SUM, KERNEL_NUMBERS, KERNEL_COMPUTES, "add", "add.rn"},
	{MPI_PROD, KERNEL_NUMBERS, KERNEL_COMPUTES, "mul.lo", "mul.rn"},
	{MPI_MAX, KERNEL_NUMBERS, KERNEL_CHOOSES, "setp.gt", "setp.gt"},
	{MPI_MIN, KERNEL_NUMBERS, KERNEL_CHOOSES, "setp.lt", "setp.lt"},
	{MPI_LAND, KERNEL_TRUTH, KERNEL_TELLS, "and", NULL},
	{MPI_LOR, KERNEL_TRUTH, KERNEL_TELLS, "or", NULL},
	{MPI_LXOR, KERNEL_TRUTH, KERNEL_TELLS, "xor", NULL},
	{MPI_BAND, KERNEL_BITS, KERNEL_BITWISE, "and", NULL},
	{MPI_BOR, KERNEL_BITS, KERNEL_BITWISE, "or", NULL},
	{MPI_BXOR, KERNEL_BITS, KERNEL_BITWISE, "xor", NULL},
};

#define KERNEL_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/**
 * struct kernel_made - a kernel that is being made.
 * @size:	of an element; @letter: what PTX types of it begin with
 * @width:	of the registers that have one, in bits
 * @len, @text:	what is written so far
 */
struct kernel_made {
	const struct kernel_op *op;
	const struct kernel_type *type;
	int size, width;
	char letter;
	size_t len;
	char *text;
};

static bool kernel_find(MPI_Op op, MPI_Datatype type, struct kernel_made *made)
{
	for (size_t i = 0; i < KERNEL_COUNT(kernel_types); i++) {
		if (kernel_types[i].type == type)
			made->type = &kernel_types[i];
	}
	for (size_t i = 0; i < KERNEL_COUNT(kernel_ops); i++) {
		if (kernel_ops[i].op == op)
			made->op = &kernel_ops[i];
	}
	return type != MPI_DATATYPE_NULL && made->op && made->type &&
	       made->op->kinds & made->type->kind &&
	       PMPI_Type_size(type, &made->size) == MPI_SUCCESS && made->size <= 8 &&
	       (made->type->kind != KERNEL_REAL || made->size >= 4);
}

/* ---- text ---- */

static __attribute__((format(printf, 2, 3))) void kernel_say(struct kernel_made *made,
							     const char *format, ...)
{
	va_list args;

	va_start(args, format);
	made->len += (size_t) vsnprintf(made->text + made->len, KERNEL_TEXT - made->len, format,
					args);
	va_end(args);
}

/*
 * Whether numbers have signs the MPI tells, as some of one reduction may be compared by it: Open MPI 4.1 takes unsigned long
 * for long, and MPI_OFFSET for unsigned.
 */
static char kernel_letter(const struct kernel_made *made)
{
	unsigned long long most = ~0ull, result = 0;

	if (made->type->kind == KERNEL_REAL)
		return 'f';
	if (made->op->way != KERNEL_CHOOSES)
		return 'u';
	PMPI_Reduce_local(&most, &result, 1, made->type->type, MPI_MAX);
	return result ? 'u' : 's';
}

/* c = a OP b, of registers number @k. Of what is no number a comparison says what C does. */
static void kernel_element(struct kernel_made *made, int k)
{
	const int width = made->width;
	const char letter = made->letter,
		   *op = letter == 'f' ? made->op->real : made->op->integer;

	switch (made->op->way) {
	case KERNEL_COMPUTES:
		kernel_say(made, "%s.%c%d %%c%d, %%a%d, %%b%d;\n", op, letter, width, k, k, k);
		break;
	case KERNEL_CHOOSES:
		kernel_say(made, "%s.%c%d %%p0, %%b%d, %%a%d;\n", op, letter, width, k, k);
		kernel_say(made, "selp.b%d %%c%d, %%b%d, %%a%d, %%p0;\n", width, k, k, k);
		break;
	case KERNEL_TELLS:
		kernel_say(made, "setp.ne.u%d %%p0, %%a%d, 0;\n", width, k);
		kernel_say(made, "setp.ne.u%d %%p1, %%b%d, 0;\n", width, k);
		kernel_say(made, "%s.pred %%p0, %%p0, %%p1;\n", op);
		kernel_say(made, "selp.b%d %%c%d, 1, 0, %%p0;\n", width, k);
		break;
	case KERNEL_BITWISE:
		kernel_say(made, "%s.b%d %%c%d, %%a%d, %%b%d;\n", op, width, k, k, k);
		break;
	}
}

/* @count elements, a stride apart, and on by as many. %out, %in and %inout have the places of the first ones. */
static void kernel_elements(struct kernel_made *made, int count)
{
	static const char places[] = "xyz";
	const char letter = made->letter == 's' ? 's' : 'u';
	const int bits = 8 * made->size;

	for (int k = 1; k < count; k++)
		for (const char *place = places; *place; place++)
			kernel_say(made, "add.u64 %%%c%d, %%%c%d, %%d3;\n", *place, k, *place,
				   k - 1);
	for (int k = 0; k < count; k++) {
		kernel_say(made, "ld.global.%c%d %%a%d, [%%x%d];\n", letter, bits, k, k);
		kernel_say(made, "ld.global.%c%d %%b%d, [%%y%d];\n", letter, bits, k, k);
	}
	for (int k = 0; k < count; k++)
		kernel_element(made, k);
	for (int k = 0; k < count; k++)
		kernel_say(made, "st.global.u%d [%%z%d], %%c%d;\n", bits, k, k);
	for (const char *place = places; *place; place++)
		kernel_say(made, "add.u64 %%%c0, %%%c%d, %%d3;\n", *place, *place, count - 1);
}

/* d0: the element, d1: their number, d2: threads, d3: bytes between a thread's elements, d4: elements before the last of many */
static void kernel_compose_reduction(struct kernel_made *made)
{
	made->width = made->size == 8 ? 64 : 32;
	made->letter = kernel_letter(made);
	kernel_say(made,
		   KERNEL_HEAD "(.param .u64 out, .param .u64 a, "
			       ".param .u64 b, .param .u64 count)\n{\n"
			       ".reg .pred %%p<3>;\n.reg .b32 %%r<4>;\n.reg .b64 %%d<6>;\n"
			       ".reg .b64 %%x<4>;\n.reg .b64 %%y<4>;\n.reg .b64 %%z<4>;\n");
	kernel_say(made, ".reg .b%d %%a<4>;\n.reg .b%d %%b<4>;\n.reg .b%d %%c<4>;\n",
		   made->width, made->width, made->width);
	kernel_say(made, "ld.param.u64 %%z0, [out];\nld.param.u64 %%x0, [a];\n"
			 "ld.param.u64 %%y0, [b];\nld.param.u64 %%d1, [count];\n"
			 "mov.u32 %%r0, %%ctaid.x;\nmov.u32 %%r1, %%ntid.x;\n"
			 "mov.u32 %%r2, %%tid.x;\nmov.u32 %%r3, %%nctaid.x;\n"
			 "mul.wide.u32 %%d0, %%r0, %%r1;\nmul.wide.u32 %%d2, %%r2, 1;\n"
			 "add.u64 %%d0, %%d0, %%d2;\nmul.wide.u32 %%d2, %%r3, %%r1;\n");
	kernel_say(made, "mul.lo.u64 %%d3, %%d2, %d;\nmul.lo.u64 %%d4, %%d2, %d;\n", made->size,
		   KERNEL_UNROLLED - 1);
	kernel_say(made,
		   "mul.lo.u64 %%d5, %%d0, %d;\nadd.u64 %%x0, %%x0, %%d5;\n"
		   "add.u64 %%y0, %%y0, %%d5;\nadd.u64 %%z0, %%z0, %%d5;\n",
		   made->size);
	kernel_say(made, "MANY:\nadd.u64 %%d5, %%d0, %%d4;\n"
			 "setp.ge.u64 %%p2, %%d5, %%d1;\n@%%p2 bra SOME;\n");
	kernel_elements(made, KERNEL_UNROLLED);
	kernel_say(made, "add.u64 %%d0, %%d5, %%d2;\nbra MANY;\n");
	kernel_say(made, "SOME:\nsetp.ge.u64 %%p2, %%d0, %%d1;\n@%%p2 bra END;\n");
	kernel_elements(made, 1);
	kernel_say(made, "add.u64 %%d0, %%d0, %%d2;\nbra SOME;\nEND:\nret;\n}\n");
}

/* A run in units of @unit bytes: d1 from, d2 to, d3 its length, d4 the thread in its warp */
static void kernel_units(struct kernel_made *made, int unit)
{
	const int width = unit == 8 ? 64 : 32;

	kernel_say(made, "UNITS%d:\nmul.lo.u64 %%d5, %%d4, %d;\n", unit, unit);
	kernel_say(made, "UNIT%d:\nsetp.ge.u64 %%p0, %%d5, %%d3;\n@%%p0 bra DONE;\n", unit);
	kernel_say(made, "add.u64 %%d6, %%d1, %%d5;\nadd.u64 %%d7, %%d2, %%d5;\n");
	kernel_say(made, "ld.global.u%d %%%s, [%%d6];\nst.global.u%d [%%d7], %%%s;\n", 8 * unit,
		   width == 64 ? "d6" : "r0", 8 * unit, width == 64 ? "d6" : "r0");
	kernel_say(made, "add.u64 %%d5, %%d5, %d;\nbra UNIT%d;\n", KERNEL_WARP * unit, unit);
}

/* d0: the run, d8: their number, d9: warps, d10: where the runs are */
static void kernel_compose_copy(struct kernel_made *made)
{
	kernel_say(made, KERNEL_HEAD "(.param .u64 runs, .param .u64 count, .param .u64 gate)\n"
				     "{\n.reg .pred %%p<1>;\n.reg .b32 %%r<4>;\n"
				     ".reg .b64 %%d<11>;\n"
				     "ld.param.u64 %%d10, [runs];\n"
				     "ld.param.u64 %%d8, [count];\n"
				     "ld.param.u64 %%d9, [gate];\n");
	kernel_say(made, "mov.u32 %%r2, %%tid.x;\nmov.u32 %%r0, 0;\n"
			 "setp.ne.u32 %%p0, %%r2, 0;\n@%%p0 bra BEGUN;\n"
			 "mov.u32 %%r0, 1;\nst.volatile.global.u32 [%%d9], %%r0;\nmembar.sys;\n"
			 "ld.volatile.global.u32 %%r0, [%%d9+4];\n"
			 "BEGUN:\nsetp.ne.u32 %%p0, %%r0, 0;\n"
			 "bar.red.or.pred %%p0, 0, %%p0;\n@%%p0 bra END;\n");
	kernel_say(made, "mov.u32 %%r0, %%ctaid.x;\nmov.u32 %%r1, %%ntid.x;\n"
			 "mov.u32 %%r3, %%nctaid.x;\n"
			 "mul.wide.u32 %%d0, %%r0, %%r1;\nmul.wide.u32 %%d9, %%r2, 1;\n"
			 "add.u64 %%d0, %%d0, %%d9;\nmul.wide.u32 %%d9, %%r3, %%r1;\n");
	kernel_say(made,
		   "rem.u64 %%d4, %%d0, %d;\ndiv.u64 %%d0, %%d0, %d;\n"
		   "div.u64 %%d9, %%d9, %d;\n",
		   KERNEL_WARP, KERNEL_WARP, KERNEL_WARP);
	kernel_say(made,
		   "NEXT:\nsetp.ge.u64 %%p0, %%d0, %%d8;\n@%%p0 bra END;\n"
		   "mul.lo.u64 %%d5, %%d0, %zu;\nadd.u64 %%d5, %%d5, %%d10;\n"
		   "ld.global.u64 %%d1, [%%d5];\nld.global.u64 %%d2, [%%d5+8];\n"
		   "ld.global.u64 %%d3, [%%d5+16];\nadd.u64 %%d0, %%d0, %%d9;\n"
		   "or.b64 %%d5, %%d1, %%d2;\nor.b64 %%d5, %%d5, %%d3;\n",
		   sizeof(struct kernel_run));
	for (int unit = 8; unit > 1; unit /= 2)
		kernel_say(made,
			   "and.b64 %%d6, %%d5, %d;\nsetp.eq.u64 %%p0, %%d6, 0;\n"
			   "@%%p0 bra UNITS%d;\n",
			   unit - 1, unit);
	for (int unit = 1; unit <= 8; unit *= 2)
		kernel_units(made, unit);
	kernel_say(made, "DONE:\nbra NEXT;\nEND:\nret;\n}\n");
}

/* ---- what is loaded ---- */

/*
 * Of a context; they stay, as there are few, and a context's record is never another one's. @op, @type: NULL: it copies.
 * @kernel: NULL: it cannot be had
 */
struct kernel {
	SLIST_ENTRY(kernel) entry;
	const void *ctx;
	const struct kernel_op *op;
	const struct kernel_type *type;
	void *kernel;
};

static struct {
	pthread_mutex_t lock;
	SLIST_HEAD(, kernel) kernels;
} kernel_loaded = {.lock = PTHREAD_MUTEX_INITIALIZER};

static __thread bool kernel_loads_none;

void kernel_load_none(void)
{
	kernel_loads_none = true;
}

/* Called with the lock held. */
static struct kernel *kernel_load(const struct dev_mem *mem, struct kernel_made *made)
{
	struct kernel *kernel = calloc(1, sizeof *kernel);

	if (!kernel)
		return NULL;
	kernel->ctx = mem->ctx;
	kernel->op = made->op;
	kernel->type = made->type;
	made->text = malloc(KERNEL_TEXT);
	if (made->text && made->op)
		kernel_compose_reduction(made);
	else if (made->text)
		kernel_compose_copy(made);
	if (!made->text || mem->ops->kernel_load(mem, made->text, KERNEL_NAME, &kernel->kernel))
		kernel->kernel = NULL;
	free(made->text);
	SLIST_INSERT_HEAD(&kernel_loaded.kernels, kernel, entry);
	return kernel;
}

static void *kernel_get(const struct dev_mem *mem, struct kernel_made *made)
{
	struct kernel *kernel;

	pthread_mutex_lock(&kernel_loaded.lock);
	SLIST_FOREACH(kernel, &kernel_loaded.kernels, entry)
	{
		if (kernel->ctx == mem->ctx && kernel->op == made->op &&
		    kernel->type == made->type)
			break;
	}
	/* the driver would wait for streams, which may wait for this thread */
	if (!kernel && !thread_is_ours())
		kernel = kernel_load(mem, made);
	pthread_mutex_unlock(&kernel_loaded.lock);
	return kernel ? kernel->kernel : NULL;
}

/* ---- launches ---- */

/* Kernels reach what their context has allocated, and what is mapped for the device. */
static bool kernel_reaches(const struct dev_mem *own, const struct dev_mem *mem)
{
	return mem->ops == own->ops && mem->ordinal == own->ordinal &&
	       (mem->mapped || mem->ctx == own->ctx);
}

static bool kernel_reaches_all(const struct dev_mem *own, const void *addr, size_t len)
{
	struct dev_mem mem;

	return dev_find(addr, &mem) > 0 && kernel_reaches(own, &mem) &&
	       (mem.mapped || len <= mem.size - ((uintptr_t) addr - mem.base));
}

/* @blocks: as many as the work has; @most of them do it */
static bool kernel_launch(struct lane *lane, void *kernel, void **args, size_t blocks,
			  unsigned int most)
{
	return kernel &&
	       lane_launch(lane, kernel, args, blocks < most ? (unsigned int) blocks : most,
			   KERNEL_THREADS) == 0;
}

bool kernel_reduces(MPI_Op op, MPI_Datatype type)
{
	struct kernel_made made = {0};

	return kernel_find(op, type, &made);
}

bool kernel_agrees(MPI_Op op, MPI_Datatype type)
{
	struct kernel_made made = {0};

	if (!kernel_find(op, type, &made))
		return false;
	if (made.op->way == KERNEL_COMPUTES)
		return made.size >= 4;
	return made.op->way != KERNEL_CHOOSES || made.type->kind != KERNEL_REAL;
}

int kernel_reduce(struct lane *lane, MPI_Op op, MPI_Datatype type, void *out, const void *a,
		  const void *b, size_t count, const char **why)
{
	void *args[] = {&out, &a, &b, &count};
	const struct dev_mem *mem = lane_device(lane);
	struct kernel_made made = {0};
	size_t blocks, len;

	if (!kernel_find(op, type, &made)) {
		*why = "no kernel does this";
		return MPI_ERR_OP;
	}
	if (count == 0)
		return MPI_SUCCESS;
	if (__builtin_mul_overflow(count, (size_t) made.size, &len) ||
	    ((uintptr_t) out | (uintptr_t) a | (uintptr_t) b) % (size_t) made.size ||
	    !kernel_reaches_all(mem, out, len) || !kernel_reaches_all(mem, a, len) ||
	    !kernel_reaches_all(mem, b, len)) {
		*why = "no kernel reaches this memory, or its elements are not aligned";
		return MPI_ERR_BUFFER;
	}
	blocks = (count - 1) / (KERNEL_THREADS * KERNEL_UNROLLED) + 1;
	if (!kernel_launch(lane, kernel_get(mem, &made), args, blocks, KERNEL_BLOCKS)) {
		*why = "the GPU starts no kernel";
		return MPI_ERR_OTHER;
	}
	return MPI_SUCCESS;
}

bool kernel_copies(struct lane *lane, const struct dev_mem *mem)
{
	const struct dev_mem *own = lane_device(lane);
	struct kernel_made made = {0};

	return kernel_reaches(own, mem) && kernel_get(own, &made);
}

bool kernel_copy(struct lane *lane, const struct kernel_run *runs, size_t count,
		 struct kernel_gate *gate)
{
	void *args[] = {&runs, &count, &gate};
	struct kernel_made made = {0};

	return kernel_launch(lane, kernel_get(lane_device(lane), &made), args,
			     count / (KERNEL_THREADS / KERNEL_WARP) + 1, KERNEL_COPY_BLOCKS);
}

bool kernel_begins(const struct dev_mem *mem)
{
	struct lane *lane;
	const struct dev_mem *own;
	const char *why;
	char *memory;
	void *gate;
	int begun = 0;

	if (lane_open(mem, &lane, &why) != MPI_SUCCESS)
		return false;
	own = lane_device(lane);
	if (lane_memory(own, sizeof(struct kernel_gate), &memory, &why) == MPI_SUCCESS) {
		*(struct kernel_gate *) memory = (struct kernel_gate){0};
		if (!own->ops->host_address(own, memory, &gate) &&
		    kernel_copy(lane, NULL, 0, gate)) {
			begun = lane_wait(lane, KERNEL_WAIT_NS);
			if (begun == 0) {
				lane_park(lane, memory, sizeof(struct kernel_gate));
				return false;
			}
		}
		lane_memory_free(own, memory, sizeof(struct kernel_gate));
	}
	return lane_close(lane, MPI_SUCCESS, &why) == MPI_SUCCESS && begun > 0;
}
