/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A loop for each operation and C type. See calculate.h. */
#include "calculate.h"

#include <complex.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* ---- types ---- */

enum calculate_kind {
	KIND_INT8,
	KIND_UINT8,
	KIND_INT16,
	KIND_UINT16,
	KIND_INT32,
	KIND_UINT32,
	KIND_INT64,
	KIND_UINT64,
	KIND_FLOAT,
	KIND_DOUBLE,
	KIND_LONG_DOUBLE,
	KIND_FLOAT_COMPLEX,
	KIND_DOUBLE_COMPLEX,
	KIND_LONG_DOUBLE_COMPLEX,
	KIND_BOOL,
	KIND_SHORT_INT,
	KIND_INT_INT,
	KIND_LONG_INT,
	KIND_FLOAT_INT,
	KIND_DOUBLE_INT,
	KIND_LONG_DOUBLE_INT,
	KIND_TWO_FLOATS,
	KIND_TWO_DOUBLES,
};

_Static_assert(sizeof(long) == sizeof(int64_t) && sizeof(int) == sizeof(int32_t),
	       "the table is of such a machine");

static const struct {
	MPI_Datatype type;
	enum calculate_kind kind;
} calculate_types[] = {
	{MPI_CHAR, KIND_INT8},
	{MPI_SIGNED_CHAR, KIND_INT8},
	{MPI_UNSIGNED_CHAR, KIND_UINT8},
	{MPI_BYTE, KIND_UINT8},
	{MPI_SHORT, KIND_INT16},
	{MPI_UNSIGNED_SHORT, KIND_UINT16},
	{MPI_INT, KIND_INT32},
	{MPI_UNSIGNED, KIND_UINT32},
	{MPI_LONG, KIND_INT64},
	{MPI_UNSIGNED_LONG, KIND_UINT64},
	{MPI_LONG_LONG, KIND_INT64},
	{MPI_UNSIGNED_LONG_LONG, KIND_UINT64},
	{MPI_INT8_T, KIND_INT8},
	{MPI_UINT8_T, KIND_UINT8},
	{MPI_INT16_T, KIND_INT16},
	{MPI_UINT16_T, KIND_UINT16},
	{MPI_INT32_T, KIND_INT32},
	{MPI_UINT32_T, KIND_UINT32},
	{MPI_INT64_T, KIND_INT64},
	{MPI_UINT64_T, KIND_UINT64},
	{MPI_AINT, KIND_INT64},
	{MPI_OFFSET, KIND_INT64},
	{MPI_COUNT, KIND_INT64},
	{MPI_FLOAT, KIND_FLOAT},
	{MPI_DOUBLE, KIND_DOUBLE},
	{MPI_LONG_DOUBLE, KIND_LONG_DOUBLE},
	{MPI_C_FLOAT_COMPLEX, KIND_FLOAT_COMPLEX},
	{MPI_C_DOUBLE_COMPLEX, KIND_DOUBLE_COMPLEX},
	{MPI_C_LONG_DOUBLE_COMPLEX, KIND_LONG_DOUBLE_COMPLEX},
	{MPI_C_BOOL, KIND_BOOL},
	{MPI_INTEGER, KIND_INT32},
	{MPI_INTEGER1, KIND_INT8},
	{MPI_INTEGER2, KIND_INT16},
	{MPI_INTEGER4, KIND_INT32},
	{MPI_INTEGER8, KIND_INT64},
	{MPI_LOGICAL, KIND_INT32},
	{MPI_REAL, KIND_FLOAT},
	{MPI_REAL4, KIND_FLOAT},
	{MPI_REAL8, KIND_DOUBLE},
	{MPI_DOUBLE_PRECISION, KIND_DOUBLE},
	{MPI_COMPLEX, KIND_FLOAT_COMPLEX},
	{MPI_DOUBLE_COMPLEX, KIND_DOUBLE_COMPLEX},
	{MPI_SHORT_INT, KIND_SHORT_INT},
	{MPI_2INT, KIND_INT_INT},
	{MPI_LONG_INT, KIND_LONG_INT},
	{MPI_FLOAT_INT, KIND_FLOAT_INT},
	{MPI_DOUBLE_INT, KIND_DOUBLE_INT},
	{MPI_LONG_DOUBLE_INT, KIND_LONG_DOUBLE_INT},
	{MPI_2INTEGER, KIND_INT_INT},
	{MPI_2REAL, KIND_TWO_FLOATS},
	{MPI_2DOUBLE_PRECISION, KIND_TWO_DOUBLES},
};

#define TYPES (sizeof calculate_types / sizeof calculate_types[0])

int calculate_type(MPI_Datatype type)
{
	for (size_t i = 0; i < TYPES; i++) {
		if (calculate_types[i].type == type)
			return (int) i;
	}
	return -1;
}

/* ---- loops ---- */

#define LOOP(C, result)                                                                        \
	for (size_t i = 0; i < count; i++) {                                                   \
		C x, y, z;                                                                     \
                                                                                               \
		memcpy(&x, in + i * sizeof x, sizeof x);                                       \
		memcpy(&y, inout + i * sizeof y, sizeof y);                                    \
		z = result;                                                                    \
		memcpy(inout + i * sizeof z, &z, sizeof z);                                    \
	}                                                                                      \
	return

#define SUMS(C)                                                                                \
	case CALCULATE_SUM:                                                                    \
		LOOP(C, x + y);                                                                \
	case CALCULATE_PROD:                                                                   \
		LOOP(C, x *y);

#define CHOICES(C)                                                                             \
	case CALCULATE_MAX:                                                                    \
		LOOP(C, x > y ? x : y);                                                        \
	case CALCULATE_MIN:                                                                    \
		LOOP(C, x < y ? x : y);

#define TRUTHS(C)                                                                              \
	case CALCULATE_LAND:                                                                   \
		LOOP(C, x &&y);                                                                \
	case CALCULATE_LOR:                                                                    \
		LOOP(C, x || y);                                                               \
	case CALCULATE_LXOR:                                                                   \
		LOOP(C, !x != !y);

#define BITS(C)                                                                                \
	case CALCULATE_BAND:                                                                   \
		LOOP(C, x &y);                                                                 \
	case CALCULATE_BOR:                                                                    \
		LOOP(C, x | y);                                                                \
	case CALCULATE_BXOR:                                                                   \
		LOOP(C, x ^ y);

/* A number and where it was: of equal ones, the first place */
#define PLACES(C)                                                                              \
	case CALCULATE_MAXLOC:                                                                 \
		LOOP(C, x.number > y.number || (x.number == y.number && x.place < y.place)     \
				? x                                                            \
				: y);                                                          \
	case CALCULATE_MINLOC:                                                                 \
		LOOP(C, x.number < y.number || (x.number == y.number && x.place < y.place)     \
				? x                                                            \
				: y);

#define FUNCTION(name, loops)                                                                  \
	static void calculate_##name(enum calculation calculation, const char *in,             \
				     char *inout, size_t count)                                \
	{                                                                                      \
		switch (calculation) {                                                         \
			loops;                                                                 \
		default:                                                                       \
			return;                                                                \
		}                                                                              \
	}

/* Sums wrap around, and are of 64 bits: shorter ones would be of int, whose overflow is not defined. */
#define INTEGER(bits)                                                                          \
	FUNCTION(int##bits, case CALCULATE_SUM                                                 \
		 : case CALCULATE_PROD                                                         \
		 : calculate_uint##bits(calculation, in, inout, count);                        \
		 return; CHOICES(int##bits##_t) TRUTHS(int##bits##_t) BITS(int##bits##_t))

#define UNSIGNED(bits)                                                                         \
	FUNCTION(uint##bits, case CALCULATE_SUM                                                \
		 : LOOP(uint##bits##_t, (uint64_t) x + y);                                     \
		 case CALCULATE_PROD                                                           \
		 : LOOP(uint##bits##_t, (uint64_t) x * y);                                     \
		 CHOICES(uint##bits##_t) TRUTHS(uint##bits##_t) BITS(uint##bits##_t))

#define PAIR(name, first, second)                                                              \
	struct pair_##name {                                                                   \
		first number;                                                                  \
		second place;                                                                  \
	};                                                                                     \
	FUNCTION(name, PLACES(struct pair_##name))

UNSIGNED(8)
UNSIGNED(16)
UNSIGNED(32)
UNSIGNED(64)
INTEGER(8)
INTEGER(16)
INTEGER(32)
INTEGER(64)
FUNCTION(float, SUMS(float) CHOICES(float))
FUNCTION(double, SUMS(double) CHOICES(double))
FUNCTION(long_double, SUMS(long double) CHOICES(long double))
FUNCTION(float_complex, SUMS(float complex))
FUNCTION(double_complex, SUMS(double complex))
FUNCTION(long_double_complex, SUMS(long double complex))
/* what another process sends may be no bool's value */
_Static_assert(sizeof(bool) == sizeof(uint8_t), "a bool is a byte");
FUNCTION(bool, TRUTHS(uint8_t))
PAIR(short_int, short, int)
PAIR(int_int, int, int)
PAIR(long_int, long, int)
PAIR(float_int, float, int)
PAIR(double_int, double, int)
PAIR(long_double_int, long double, int)
PAIR(two_floats, float, float)
PAIR(two_doubles, double, double)

static const struct {
	void (*calculate)(enum calculation, const char *, char *, size_t);
	size_t size;
} calculate_kinds[] = {
	[KIND_INT8] = {calculate_int8, sizeof(int8_t)},
	[KIND_UINT8] = {calculate_uint8, sizeof(uint8_t)},
	[KIND_INT16] = {calculate_int16, sizeof(int16_t)},
	[KIND_UINT16] = {calculate_uint16, sizeof(uint16_t)},
	[KIND_INT32] = {calculate_int32, sizeof(int32_t)},
	[KIND_UINT32] = {calculate_uint32, sizeof(uint32_t)},
	[KIND_INT64] = {calculate_int64, sizeof(int64_t)},
	[KIND_UINT64] = {calculate_uint64, sizeof(uint64_t)},
	[KIND_FLOAT] = {calculate_float, sizeof(float)},
	[KIND_DOUBLE] = {calculate_double, sizeof(double)},
	[KIND_LONG_DOUBLE] = {calculate_long_double, sizeof(long double)},
	[KIND_FLOAT_COMPLEX] = {calculate_float_complex, sizeof(float complex)},
	[KIND_DOUBLE_COMPLEX] = {calculate_double_complex, sizeof(double complex)},
	[KIND_LONG_DOUBLE_COMPLEX] = {calculate_long_double_complex,
				      sizeof(long double complex)},
	[KIND_BOOL] = {calculate_bool, sizeof(bool)},
	[KIND_SHORT_INT] = {calculate_short_int, sizeof(struct pair_short_int)},
	[KIND_INT_INT] = {calculate_int_int, sizeof(struct pair_int_int)},
	[KIND_LONG_INT] = {calculate_long_int, sizeof(struct pair_long_int)},
	[KIND_FLOAT_INT] = {calculate_float_int, sizeof(struct pair_float_int)},
	[KIND_DOUBLE_INT] = {calculate_double_int, sizeof(struct pair_double_int)},
	[KIND_LONG_DOUBLE_INT] = {calculate_long_double_int,
				  sizeof(struct pair_long_double_int)},
	[KIND_TWO_FLOATS] = {calculate_two_floats, sizeof(struct pair_two_floats)},
	[KIND_TWO_DOUBLES] = {calculate_two_doubles, sizeof(struct pair_two_doubles)},
};

size_t calculate_size(int type)
{
	return type >= 0 && (size_t) type < TYPES
		       ? calculate_kinds[calculate_types[type].kind].size
		       : 0;
}

void calculate(enum calculation calculation, int type, const void *in, void *inout,
	       size_t count)
{
	if (calculate_size(type))
		calculate_kinds[calculate_types[type].kind].calculate(calculation, in, inout,
								      count);
}
