/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * fi_p2p_mpi_calculate: what windows on GPU memory add up without MPI is what MPI_Reduce_local makes of it, for each
 * predefined operation and type. Numbers are small, so that sums are exact and do not overflow.
 */
#include <stdio.h>
#include <string.h>

#include "calculate.h"
#include "mpi_test.h"

#define COUNT 37
#define ROOM (COUNT * 32)

/* @number: b, s, i, l, f, d, g: the C type that elements are made of; @pair: an int follows each */
static const struct kind {
	const char *name;
	MPI_Datatype type;
	char number;
	bool pair;
} kinds[] = {
	{"SIGNED_CHAR", MPI_SIGNED_CHAR, 'b', false},
	{"UNSIGNED_CHAR", MPI_UNSIGNED_CHAR, 'b', false},
	{"BYTE", MPI_BYTE, 'b', false},
	{"SHORT", MPI_SHORT, 's', false},
	{"UNSIGNED_SHORT", MPI_UNSIGNED_SHORT, 's', false},
	{"INT", MPI_INT, 'i', false},
	{"UNSIGNED", MPI_UNSIGNED, 'i', false},
	{"LONG", MPI_LONG, 'l', false},
	{"UNSIGNED_LONG", MPI_UNSIGNED_LONG, 'l', false},
	{"LONG_LONG", MPI_LONG_LONG, 'l', false},
	{"UNSIGNED_LONG_LONG", MPI_UNSIGNED_LONG_LONG, 'l', false},
	{"INT8_T", MPI_INT8_T, 'b', false},
	{"UINT8_T", MPI_UINT8_T, 'b', false},
	{"INT16_T", MPI_INT16_T, 's', false},
	{"UINT16_T", MPI_UINT16_T, 's', false},
	{"INT32_T", MPI_INT32_T, 'i', false},
	{"UINT32_T", MPI_UINT32_T, 'i', false},
	{"INT64_T", MPI_INT64_T, 'l', false},
	{"UINT64_T", MPI_UINT64_T, 'l', false},
	{"AINT", MPI_AINT, 'l', false},
	{"OFFSET", MPI_OFFSET, 'l', false},
	{"COUNT", MPI_COUNT, 'l', false},
	{"FLOAT", MPI_FLOAT, 'f', false},
	{"DOUBLE", MPI_DOUBLE, 'd', false},
	{"LONG_DOUBLE", MPI_LONG_DOUBLE, 'g', false},
	{"C_FLOAT_COMPLEX", MPI_C_FLOAT_COMPLEX, 'f', false},
	{"C_DOUBLE_COMPLEX", MPI_C_DOUBLE_COMPLEX, 'd', false},
	{"C_LONG_DOUBLE_COMPLEX", MPI_C_LONG_DOUBLE_COMPLEX, 'g', false},
	{"C_BOOL", MPI_C_BOOL, 'b', false},
	{"INTEGER", MPI_INTEGER, 'i', false},
	{"LOGICAL", MPI_LOGICAL, 'i', false},
	{"REAL", MPI_REAL, 'f', false},
	{"DOUBLE_PRECISION", MPI_DOUBLE_PRECISION, 'd', false},
	{"COMPLEX", MPI_COMPLEX, 'f', false},
	{"DOUBLE_COMPLEX", MPI_DOUBLE_COMPLEX, 'd', false},
	{"SHORT_INT", MPI_SHORT_INT, 's', true},
	{"2INT", MPI_2INT, 'i', false},
	{"LONG_INT", MPI_LONG_INT, 'l', true},
	{"FLOAT_INT", MPI_FLOAT_INT, 'f', true},
	{"DOUBLE_INT", MPI_DOUBLE_INT, 'd', true},
	{"LONG_DOUBLE_INT", MPI_LONG_DOUBLE_INT, 'g', true},
	{"2INTEGER", MPI_2INTEGER, 'i', false},
	{"2REAL", MPI_2REAL, 'f', false},
	{"2DOUBLE_PRECISION", MPI_2DOUBLE_PRECISION, 'd', false},
};

static const struct operation {
	const char *name;
	MPI_Op op;
	enum calculation calculation;
} operations[] = {
	{"SUM", MPI_SUM, CALCULATE_SUM},          {"PROD", MPI_PROD, CALCULATE_PROD},
	{"MAX", MPI_MAX, CALCULATE_MAX},          {"MIN", MPI_MIN, CALCULATE_MIN},
	{"LAND", MPI_LAND, CALCULATE_LAND},       {"LOR", MPI_LOR, CALCULATE_LOR},
	{"LXOR", MPI_LXOR, CALCULATE_LXOR},       {"BAND", MPI_BAND, CALCULATE_BAND},
	{"BOR", MPI_BOR, CALCULATE_BOR},          {"BXOR", MPI_BXOR, CALCULATE_BXOR},
	{"MAXLOC", MPI_MAXLOC, CALCULATE_MAXLOC}, {"MINLOC", MPI_MINLOC, CALCULATE_MINLOC},
};

/* Writes a small number, and returns how long it is. */
static size_t put(char *to, char number, int value)
{
	const signed char b = (signed char) value;
	const short s = (short) value;
	const long l = value;
	const float f = (float) value;
	const double d = value;
	const long double g = value;

	switch (number) {
	case 'b':
		memcpy(to, &b, sizeof b);
		return sizeof b;
	case 's':
		memcpy(to, &s, sizeof s);
		return sizeof s;
	case 'l':
		memcpy(to, &l, sizeof l);
		return sizeof l;
	case 'f':
		memcpy(to, &f, sizeof f);
		return sizeof f;
	case 'd':
		memcpy(to, &d, sizeof d);
		return sizeof d;
	case 'g':
		/* the last six bytes are no part of it */
		memcpy(to, &g, 10);
		return sizeof g;
	default:
		memcpy(to, &value, sizeof value);
		return sizeof value;
	}
}

static void fill(char *memory, const struct kind *kind, size_t bytes, uint64_t *seed)
{
	size_t at = 0;
	char scratch[16];

	memset(memory, 0, ROOM);
	while (at < bytes) {
		const int limit = kind->type == MPI_C_BOOL || kind->type == MPI_LOGICAL ? 2 : 4;
		const size_t len = put(scratch, kind->number, 0);

		put(memory + at, kind->number, (int) (ft_random(seed) % (uint64_t) limit));
		at += kind->pair && len < sizeof(int) ? sizeof(int) : len;
		if (kind->pair) {
			put(memory + at, 'i', (int) (ft_random(seed) % 8));
			at += len < sizeof(int) ? sizeof(int) : len;
		}
	}
}

/* Bytes that are no part of a number are left out. */
static bool counts(const struct kind *kind, size_t at)
{
	if (kind->number != 'g')
		return true;
	return kind->pair && at % 32 >= 16 ? at % 16 < sizeof(int) : at % 16 < 10;
}

static int one(const struct kind *kind, const struct operation *operation, uint64_t *seed,
	       unsigned int *tried)
{
	static char in[ROOM], expected[ROOM], found[ROOM];
	const int type = calculate_type(kind->type);
	MPI_Aint low, extent;

	FT_CHECK(type >= 0, "MPI_%s is not known", kind->name);
	/* an MPI without Fortran has none of its types */
	if (MPI_Type_get_extent(kind->type, &low, &extent) != MPI_SUCCESS)
		return 0;
	FT_CHECK(calculate_size(type) == (size_t) extent, "an MPI_%s has %zu bytes, not %zu",
		 kind->name, (size_t) extent, calculate_size(type));
	fill(in, kind, COUNT * (size_t) extent, seed);
	fill(expected, kind, COUNT * (size_t) extent, seed);
	memcpy(found, expected, ROOM);
	if (MPI_Reduce_local(in, expected, COUNT, kind->type, operation->op) != MPI_SUCCESS)
		return 0;
	calculate(operation->calculation, type, in, found, COUNT);
	for (size_t i = 0; i < ROOM; i++)
		FT_CHECK(!counts(kind, i) || found[i] == expected[i],
			 "MPI_%s of MPI_%s: byte %zu is %d, not %d", operation->name,
			 kind->name, i, found[i], expected[i]);
	++*tried;
	return 0;
}

static int run_all(struct mpi_run *run)
{
	unsigned int tried = 0;

	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	for (size_t i = 0; i < FT_COUNT(kinds) * FT_COUNT(operations); i++)
		FT_TRY(one(&kinds[i / FT_COUNT(operations)],
			   &operations[i % FT_COUNT(operations)], &run->random, &tried));
	FT_CHECK(tried > 200, "MPI defines %u operations only", tried);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct mpi_test test = {
		.purpose = "reductions without MPI",
		.pool = 4096,
		.ranks = 1,
		.run = run_all,
	};

	return mpi_test_main(&test, argc, argv);
}
