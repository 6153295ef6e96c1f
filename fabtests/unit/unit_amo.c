/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Unit tests of amo.c: a table of results by hand, and which operations there are. */
#include "unit.h"

#include <stdint.h>
#include <string.h>

#include "base/amo.h"

struct row {
	enum fi_op op;
	bool compare;
	long target, operand, expected, want;
};

/* The same for every type that can hold the numbers; all fit in 8 bits without a sign */
static const struct row any_rows[] = {
	{FI_SUM, false, 40, 2, 0, 42},        {FI_PROD, false, 7, 6, 0, 42},
	{FI_LOR, false, 0, 0, 0, 0},          {FI_LOR, false, 0, 9, 0, 1},
	{FI_LAND, false, 3, 9, 0, 1},         {FI_LAND, false, 3, 0, 0, 0},
	{FI_LXOR, false, 3, 9, 0, 0},         {FI_LXOR, false, 0, 9, 0, 1},
	{FI_ATOMIC_WRITE, false, 3, 9, 0, 9}, {FI_ATOMIC_READ, false, 3, 9, 0, 3},
	{FI_CSWAP, true, 3, 9, 3, 9},         {FI_CSWAP, true, 3, 9, 4, 3},
	{FI_CSWAP_NE, true, 3, 9, 3, 3},      {FI_CSWAP_NE, true, 3, 9, 4, 9},
};

static const struct row order_rows[] = {
	{FI_MIN, false, 3, 9, 0, 3},
	{FI_MIN, false, 9, 3, 0, 3},
	{FI_MAX, false, 3, 9, 0, 9},
	{FI_MAX, false, 9, 3, 0, 9},
	/* the compare value stands on the left */
	{FI_CSWAP_LE, true, 3, 9, 3, 9},
	{FI_CSWAP_LE, true, 3, 9, 2, 9},
	{FI_CSWAP_LE, true, 3, 9, 4, 3},
	{FI_CSWAP_LT, true, 3, 9, 3, 3},
	{FI_CSWAP_LT, true, 3, 9, 2, 9},
	{FI_CSWAP_GE, true, 3, 9, 3, 9},
	{FI_CSWAP_GE, true, 3, 9, 4, 9},
	{FI_CSWAP_GE, true, 3, 9, 2, 3},
	{FI_CSWAP_GT, true, 3, 9, 3, 3},
	{FI_CSWAP_GT, true, 3, 9, 4, 9},
};

static const struct row bit_rows[] = {
	{FI_BOR, false, 5, 3, 0, 7},
	{FI_BAND, false, 5, 3, 0, 1},
	{FI_BXOR, false, 5, 3, 0, 6},
	{FI_MSWAP, true, 0x5a, 0x3c, 0x0f, 0x5c},
};

/* Three elements at an odd address: the first and last by the row, guards around */
#define TEST_ROWS(type, datatype, rows)                                                        \
	for (size_t i = 0; i < UNIT_COUNT(rows); i++) {                                        \
		type t[3], o[3], c[3], want = (type) (rows)[i].want;                           \
		char bytes[sizeof t + 3];                                                      \
                                                                                               \
		for (int k = 0; k < 3; k++) {                                                  \
			t[k] = (type) (rows)[i].target;                                        \
			o[k] = (type) (rows)[i].operand;                                       \
			c[k] = (type) (rows)[i].expected;                                      \
		}                                                                              \
		assert_true(amo_valid(datatype, (rows)[i].op, (rows)[i].compare));             \
		assert_false(amo_valid(datatype, (rows)[i].op, !(rows)[i].compare));           \
		assert_int_equal(amo_size(datatype), sizeof(type));                            \
		memset(bytes, 0x77, sizeof bytes);                                             \
		memcpy(bytes + 1, t, sizeof t);                                                \
		amo_apply(datatype, (rows)[i].op, 3, bytes + 1,                                \
			  (rows)[i].op == FI_ATOMIC_READ ? NULL : o,                           \
			  (rows)[i].compare ? c : NULL);                                       \
		memcpy(t, bytes + 1, sizeof t);                                                \
		if (t[0] != want || t[1] != want || t[2] != want)                              \
			fail_msg(#datatype ", row %zu of " #rows, i);                          \
		assert_int_equal(bytes[0], 0x77);                                              \
		assert_int_equal(bytes[sizeof bytes - 1], 0x77);                               \
	}

#define TEST_INTEGER(type, datatype)                                                           \
	TEST_ROWS(type, datatype, any_rows)                                                    \
	TEST_ROWS(type, datatype, order_rows)                                                  \
	TEST_ROWS(type, datatype, bit_rows)

static void test_integers(void **state)
{
	TEST_INTEGER(int8_t, FI_INT8)
	TEST_INTEGER(uint8_t, FI_UINT8)
	TEST_INTEGER(int16_t, FI_INT16)
	TEST_INTEGER(uint16_t, FI_UINT16)
	TEST_INTEGER(int32_t, FI_INT32)
	TEST_INTEGER(uint32_t, FI_UINT32)
	TEST_INTEGER(int64_t, FI_INT64)
	TEST_INTEGER(uint64_t, FI_UINT64)
}

static void test_reals(void **state)
{
	TEST_ROWS(float, FI_FLOAT, any_rows)
	TEST_ROWS(float, FI_FLOAT, order_rows)
	TEST_ROWS(double, FI_DOUBLE, any_rows)
	TEST_ROWS(double, FI_DOUBLE, order_rows)
	TEST_ROWS(long double, FI_LONG_DOUBLE, any_rows)
	TEST_ROWS(long double, FI_LONG_DOUBLE, order_rows)
}

static void test_complexes(void **state)
{
	TEST_ROWS(float _Complex, FI_FLOAT_COMPLEX, any_rows)
	TEST_ROWS(double _Complex, FI_DOUBLE_COMPLEX, any_rows)
	TEST_ROWS(long double _Complex, FI_LONG_DOUBLE_COMPLEX, any_rows)
}

static void test_wrap(void **state)
{
	int64_t low = INT64_MIN, minus = -1;
	int32_t high = INT32_MAX, one = 1;

	amo_apply(FI_INT64, FI_PROD, 1, &low, &minus, NULL);
	assert_true(low == INT64_MIN);
	amo_apply(FI_INT32, FI_SUM, 1, &high, &one, NULL);
	assert_int_equal(high, INT32_MIN);
	amo_apply(FI_INT32, FI_MIN, 1, &one, &high, NULL);
	assert_int_equal(one, INT32_MIN);
}

static void test_none(void **state)
{
	for (int op = 0; op < 256; op++) {
		assert_false(amo_valid(255, op, false));
		assert_false(amo_valid(FI_LONG_DOUBLE_COMPLEX + 1, op, true));
	}
	for (size_t i = 0; i < UNIT_COUNT(order_rows); i++)
		assert_false(
			amo_valid(FI_DOUBLE_COMPLEX, order_rows[i].op, order_rows[i].compare));
	for (size_t i = 0; i < UNIT_COUNT(bit_rows); i++)
		assert_false(amo_valid(FI_DOUBLE, bit_rows[i].op, bit_rows[i].compare));
	assert_false(amo_valid(FI_INT32, 255, false));
	assert_int_equal(amo_size(255), 0);
	assert_false(amo_valid(FI_UINT128, FI_SUM, false));
	assert_int_equal(amo_size(FI_INT128), 16);
	assert_int_equal(amo_size(FI_UINT128), 16);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_integers),  cmocka_unit_test(test_reals),
		cmocka_unit_test(test_complexes), cmocka_unit_test(test_wrap),
		cmocka_unit_test(test_none),
	};
	const struct unit unit = {.tests = tests, .test_count = UNIT_COUNT(tests)};

	return unit_main(argc, argv, &unit);
}
