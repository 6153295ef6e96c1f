/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Reads PTX. See ptx.h. */
#include "ptx.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu.h"
#include "ptx_op.h"

#define PTX_TOKEN 64
#define PTX_KINDS 16

/* Registers that were declared: %NAME0 to %NAME(COUNT - 1), of which @first is the first one of all */
struct ptx_registers {
	char name[16];
	unsigned int bits, count, first;
};

struct ptx_reader {
	const char *at;
	unsigned int line;
	char token[PTX_TOKEN];
	struct ptx_entry *entry;
	struct ptx_registers kind[PTX_KINDS];
	unsigned int kinds;
	struct ptx_label {
		char name[32];
		size_t at;
	} label[32];
	unsigned int labels;
};

/* What instructions there are, and for which types. The widths of operands are the type's, but for some. */
static const struct ptx_form {
	const char *name, *types;
	enum ptx_code code;
	unsigned int sources;
} ptx_forms[] = {
	{"ld.param", "u32 u64", PTX_LD_PARAM, 1},
	{"ld.global", "u8 s8 u16 s16 u32 s32 u64 s64", PTX_LD, 1},
	{"st.global", "u8 u16 u32 u64", PTX_ST, 1},
	{"ld.volatile.global", "u32 u64", PTX_LD, 1},
	{"st.volatile.global", "u32 u64", PTX_ST, 1},
	{"mov", "u32 u64", PTX_MOV, 1},
	{"add", "u32 s32 u64 s64", PTX_ADD, 2},
	{"add.rn", "f32 f64", PTX_ADD, 2},
	{"sub", "u32 s32 u64 s64", PTX_SUB, 2},
	{"mul.lo", "u32 s32 u64 s64", PTX_MUL, 2},
	{"mul.rn", "f32 f64", PTX_MUL, 2},
	{"mul.wide", "u32", PTX_MUL_WIDE, 2},
	{"mad.lo", "u32 u64", PTX_MAD, 3},
	{"div", "u32 u64", PTX_DIV, 2},
	{"rem", "u32 u64", PTX_REM, 2},
	{"and", "pred b32 b64", PTX_AND, 2},
	{"or", "pred b32 b64", PTX_OR, 2},
	{"xor", "pred b32 b64", PTX_XOR, 2},
	{"setp.eq", "u32 s32 u64 s64 f32 f64", PTX_SETP_EQ, 2},
	{"setp.ne", "u32 s32 u64 s64 f32 f64", PTX_SETP_NE, 2},
	{"setp.lt", "u32 s32 u64 s64 f32 f64", PTX_SETP_LT, 2},
	{"setp.le", "u32 s32 u64 s64 f32 f64", PTX_SETP_LE, 2},
	{"setp.gt", "u32 s32 u64 s64 f32 f64", PTX_SETP_GT, 2},
	{"setp.ge", "u32 s32 u64 s64 f32 f64", PTX_SETP_GE, 2},
	{"selp", "b32 b64", PTX_SELP, 3},
	{"bar.red.or", "pred", PTX_BAR, 2},
};

static const char *const ptx_specials[PTX_SPECIALS] = {
	[PTX_TID] = "%tid.x",
	[PTX_NTID] = "%ntid.x",
	[PTX_CTAID] = "%ctaid.x",
	[PTX_NCTAID] = "%nctaid.x",
};

static uint64_t ptx_mask(unsigned int bits)
{
	return bits == 64 ? ~0ull : (1ull << bits) - 1;
}

static bool ptx_wrong(const struct ptx_reader *reader, const char *what)
{
	fprintf(stderr, "cudaemu: PTX, line %u: \"%s\": %s\n", reader->line, reader->token,
		what);
	return false;
}

/* ---- words ---- */

static void ptx_skip(struct ptx_reader *reader)
{
	while (isspace((unsigned char) *reader->at) || !strncmp(reader->at, "//", 2)) {
		if (*reader->at == '/')
			reader->at += strcspn(reader->at, "\n");
		else
			reader->line += *reader->at++ == '\n';
	}
}

/* The next word, or sign, or nothing at the end */
static const char *ptx_next(struct ptx_reader *reader)
{
	size_t len;

	ptx_skip(reader);
	len = strspn(reader->at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				 "0123456789_.%$<>-");
	if (len == 0 && *reader->at)
		len = 1;
	if (len >= PTX_TOKEN)
		len = PTX_TOKEN - 1;
	memcpy(reader->token, reader->at, len);
	reader->token[len] = '\0';
	reader->at += len;
	return reader->token;
}

static bool ptx_expect(struct ptx_reader *reader, const char *what)
{
	return !strcmp(ptx_next(reader), what) || ptx_wrong(reader, what);
}

static bool ptx_name(struct ptx_reader *reader, char *name, size_t room)
{
	if (strlen(reader->token) >= room ||
	    (!isalpha((unsigned char) *reader->token) && *reader->token != '_'))
		return ptx_wrong(reader, "is no name, or too long");
	strcpy(name, reader->token);
	return true;
}

/* ---- operands ---- */

/* @bits: 1 for a predicate, 0 for an immediate; @at: its place among a thread's values; @offset: of an address */
struct ptx_operand {
	unsigned int bits, at;
	int64_t offset;
};

static bool ptx_register(const struct ptx_reader *reader, struct ptx_operand *operand)
{
	const size_t len = strcspn(reader->token, "0123456789");
	const unsigned long number = strtoul(reader->token + len, NULL, 10);
	const struct ptx_registers *kind;

	for (kind = reader->kind; kind < reader->kind + reader->kinds; kind++) {
		if (strlen(kind->name) != len || strncmp(kind->name, reader->token, len) ||
		    number >= kind->count || !reader->token[len])
			continue;
		*operand = (struct ptx_operand){kind->bits,
						PTX_REGISTER_AT + kind->first +
							(unsigned int) number,
						0};
		return true;
	}
	return false;
}

static bool ptx_special(const struct ptx_reader *reader, struct ptx_operand *operand)
{
	for (unsigned int i = 0; i < PTX_SPECIALS; i++) {
		if (strcmp(reader->token, ptx_specials[i]))
			continue;
		*operand = (struct ptx_operand){32, i, 0};
		return true;
	}
	return false;
}

static bool ptx_param(const struct ptx_reader *reader, struct ptx_operand *operand)
{
	const struct ptx_entry *entry = reader->entry;

	for (unsigned int i = 0; i < entry->params; i++) {
		if (strcmp(reader->token, entry->param[i]))
			continue;
		*operand = (struct ptx_operand){8 * entry->width[i], PTX_PARAM_AT + i, 0};
		return true;
	}
	return false;
}

/* A number is kept once, as wide as it is read: @bits */
static bool ptx_immediate(const struct ptx_reader *reader, struct ptx_operand *operand,
			  unsigned int bits)
{
	struct ptx_entry *entry = reader->entry;
	char *end;
	const uint64_t value = (uint64_t) strtoll(reader->token, &end, 0) & ptx_mask(bits);
	unsigned int i = 0;

	while (i < entry->immediates && entry->immediate[i] != value)
		i++;
	if (end == reader->token || *end || i == PTX_IMMEDIATES)
		return false;
	entry->immediate[i] = value;
	if (i == entry->immediates)
		entry->immediates++;
	*operand = (struct ptx_operand){.at = PTX_IMMEDIATE_AT + i};
	return true;
}

/* An address: [REGISTER], [REGISTER+NUMBER], or for a load of it [PARAMETER] */
static bool ptx_address(struct ptx_reader *reader, struct ptx_operand *operand, bool param)
{
	ptx_next(reader);
	if (param ? !ptx_param(reader, operand)
		  : !ptx_register(reader, operand) || operand->bits != 64)
		return ptx_wrong(reader, "is no address");
	if (!strcmp(ptx_next(reader), "]"))
		return true;
	if (param || strcmp(reader->token, "+"))
		return ptx_wrong(reader, "]");
	operand->offset = strtol(ptx_next(reader), NULL, 10);
	return ptx_expect(reader, "]");
}

/* @bits: how wide it has to be */
static bool ptx_operand(struct ptx_reader *reader, struct ptx_operand *operand, bool param,
			unsigned int bits)
{
	if (!strcmp(ptx_next(reader), "["))
		return ptx_address(reader, operand, param);
	return ptx_register(reader, operand) || ptx_special(reader, operand) ||
	       ptx_immediate(reader, operand, bits) ||
	       ptx_wrong(reader, "is no operand, or there are too many numbers");
}

/* ---- instructions ---- */

static bool ptx_type(struct ptx_op *op, const char *type)
{
	op->type = *type;
	op->bits = !strcmp(type, "pred") ? 1 : (unsigned int) strtoul(type + 1, NULL, 10);
	return op->bits;
}

static bool ptx_listed(const char *types, const char *type)
{
	const char *found = strstr(types, type);
	const size_t len = strlen(type);

	return found && (found == types || found[-1] == ' ') &&
	       (found[len] == ' ' || !found[len]);
}

/* Splits a mnemonic, and finds what it is. */
static const struct ptx_form *ptx_form(const struct ptx_reader *reader, struct ptx_op *op)
{
	const char *type = strrchr(reader->token, '.');
	size_t len = type ? (size_t) (type++ - reader->token) : 0;

	for (size_t i = 0; len && i < sizeof(ptx_forms) / sizeof(ptx_forms[0]); i++) {
		const struct ptx_form *form = &ptx_forms[i];

		if (strlen(form->name) != len || strncmp(form->name, reader->token, len) ||
		    !ptx_listed(form->types, type) || !ptx_type(op, type))
			continue;
		op->code = form->code;
		return form;
	}
	return NULL;
}

/* How wide operand number @i has to be. Memory and registers may differ. */
static unsigned int ptx_width(const struct ptx_op *op, unsigned int i)
{
	const bool compares = op->code >= PTX_SETP_EQ && op->code <= PTX_SETP_GE;

	if ((compares && i == 0) || (op->code == PTX_SELP && i == 3))
		return 1;
	if ((op->code == PTX_MUL_WIDE && i == 0) || (op->code == PTX_LD && i == 1) ||
	    (op->code == PTX_ST && i == 0))
		return 64;
	return op->bits > 1 && op->bits < 32 ? 32 : op->bits;
}

static bool ptx_operands(struct ptx_reader *reader, struct ptx_op *op, unsigned int sources)
{
	for (unsigned int i = 0; i <= sources; i++) {
		const unsigned int bits = ptx_width(op, i);
		struct ptx_operand operand;

		if ((i && !ptx_expect(reader, ",")) ||
		    !ptx_operand(reader, &operand, op->code == PTX_LD_PARAM, bits))
			return false;
		if (operand.bits ? operand.bits != bits : i == 0)
			return ptx_wrong(reader, "has not the instruction's width");
		if (i == 0 && operand.at < PTX_REGISTER_AT)
			return ptx_wrong(reader, "cannot be written");
		op->at[i] = operand.at;
		op->offset += operand.offset;
		if (i == 0)
			op->mask = ptx_mask(bits);
	}
	return ptx_expect(reader, ";");
}

static struct ptx_op *ptx_op_new(struct ptx_entry *entry)
{
	entry->ops = realloc(entry->ops, (entry->count + 1) * sizeof(*entry->ops));
	if (!entry->ops)
		emu_die("operation of a PTX kernel");
	entry->ops[entry->count] = (struct ptx_op){.code = PTX_RET};
	return &entry->ops[entry->count++];
}

/* @token is the first word. */
static bool ptx_instruction(struct ptx_reader *reader)
{
	struct ptx_op *op = ptx_op_new(reader->entry);
	const struct ptx_form *form;
	struct ptx_operand guard;

	if (!strcmp(reader->token, "@")) {
		op->guarded = true;
		op->negated = !strcmp(ptx_next(reader), "!");
		if (op->negated)
			ptx_next(reader);
		if (!ptx_register(reader, &guard) || guard.bits != 1)
			return ptx_wrong(reader, "is no predicate");
		op->guard = guard.at;
		ptx_next(reader);
	}
	if (!strcmp(reader->token, "ret"))
		return ptx_expect(reader, ";");
	if (!strcmp(reader->token, "membar.sys")) {
		op->code = PTX_MEMBAR;
		return ptx_expect(reader, ";");
	}
	if (!strcmp(reader->token, "bra")) {
		op->code = PTX_BRA;
		ptx_next(reader);
		return ptx_name(reader, op->label, sizeof(op->label)) &&
		       ptx_expect(reader, ";");
	}
	form = ptx_form(reader, op);
	if (!form)
		return ptx_wrong(reader, "is an instruction that the emulator does not know");
	return ptx_operands(reader, op, form->sources);
}

/* ---- entries ---- */

/* .reg .TYPE %NAME<COUNT>; */
static bool ptx_declaration(struct ptx_reader *reader)
{
	struct ptx_registers *kind = &reader->kind[reader->kinds];
	const char *type = ptx_next(reader);

	kind->bits = !strcmp(type, ".pred")  ? 1
		     : !strcmp(type, ".b32") ? 32
		     : !strcmp(type, ".b64") ? 64
					     : 0;
	if (!kind->bits || reader->kinds == PTX_KINDS)
		return ptx_wrong(reader, "is no type of registers, or they are too many");
	if (sscanf(ptx_next(reader), "%15[%a-z]<%u>", kind->name, &kind->count) != 2 ||
	    *kind->name != '%' || kind->count > 256)
		return ptx_wrong(reader, "declares no registers");
	kind->first = reader->entry->registers;
	reader->entry->registers += kind->count;
	reader->kinds++;
	return ptx_expect(reader, ";");
}

static bool ptx_label(struct ptx_reader *reader)
{
	struct ptx_label *label = &reader->label[reader->labels++];

	label->at = reader->entry->count;
	return reader->labels <= sizeof(reader->label) / sizeof(*label) &&
	       ptx_name(reader, label->name, sizeof(label->name)) && ptx_expect(reader, ":");
}

static bool ptx_branches(struct ptx_reader *reader)
{
	struct ptx_entry *entry = reader->entry;

	for (struct ptx_op *op = entry->ops; op < entry->ops + entry->count; op++) {
		unsigned int i = 0;

		if (op->code != PTX_BRA)
			continue;
		while (i < reader->labels && strcmp(reader->label[i].name, op->label))
			i++;
		if (i == reader->labels) {
			strcpy(reader->token, op->label);
			return ptx_wrong(reader, "is no label");
		}
		op->target = reader->label[i].at;
	}
	return true;
}

static bool ptx_body(struct ptx_reader *reader)
{
	while (strcmp(ptx_next(reader), "}")) {
		bool fine;

		ptx_skip(reader);
		if (!strcmp(reader->token, ".reg"))
			fine = ptx_declaration(reader);
		else if (*reader->at == ':')
			fine = ptx_label(reader);
		else
			fine = ptx_instruction(reader);
		if (!fine)
			return false;
	}
	return ptx_branches(reader);
}

/* .param .TYPE NAME, ... up to the ) */
static bool ptx_params(struct ptx_reader *reader)
{
	struct ptx_entry *entry = reader->entry;

	do {
		const char *type;

		if (entry->params == PTX_PARAMS || !ptx_expect(reader, ".param"))
			return false;
		type = ptx_next(reader);
		if (strcmp(type, ".u32") && strcmp(type, ".u64"))
			return ptx_wrong(reader, "is no type of parameters here");
		entry->width[entry->params] = type[2] == '3' ? 4 : 8;
		ptx_next(reader);
		if (!ptx_name(reader, entry->param[entry->params++], sizeof(entry->param[0])))
			return false;
	} while (!strcmp(ptx_next(reader), ","));
	return !strcmp(reader->token, ")") || ptx_wrong(reader, ")");
}

static bool ptx_entry(struct ptx_reader *reader)
{
	struct ptx_entry *entry = calloc(1, sizeof(*entry));

	if (!entry)
		emu_die("PTX kernel");
	entry->next = reader->entry;
	reader->entry = entry;
	reader->kinds = reader->labels = 0;
	if (!ptx_expect(reader, ".entry"))
		return false;
	ptx_next(reader);
	return ptx_name(reader, entry->name, sizeof(entry->name)) && ptx_expect(reader, "(") &&
	       ptx_params(reader) && ptx_expect(reader, "{") && ptx_body(reader);
}

static bool ptx_head(struct ptx_reader *reader)
{
	if (!ptx_expect(reader, ".version"))
		return false;
	ptx_next(reader);
	if (!ptx_expect(reader, ".target"))
		return false;
	if (strncmp(ptx_next(reader), "sm_", 3))
		return ptx_wrong(reader, "is no target");
	return ptx_expect(reader, ".address_size") && ptx_expect(reader, "64");
}

struct ptx_entry *ptx_parse(const char *text)
{
	struct ptx_reader reader = {.at = text, .line = 1};
	bool fine = ptx_head(&reader);

	while (fine && *ptx_next(&reader))
		fine = (!strcmp(reader.token, ".visible") ||
			ptx_wrong(&reader, "is nothing that the emulator knows")) &&
		       ptx_entry(&reader);
	while (!fine && reader.entry) {
		struct ptx_entry *entry = reader.entry;

		reader.entry = entry->next;
		free(entry->ops);
		free(entry);
	}
	return reader.entry;
}
