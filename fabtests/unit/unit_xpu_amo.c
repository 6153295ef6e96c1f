/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unit tests of rdma/fi_p2p_xpu_amo.h: kernels compute what the provider does, and leave it what they cannot. The values
 * are few, so that they meet often.
 */
#include "unit.h"

#include <stdint.h>
#include <string.h>

#include <rdma/fi_p2p_xpu_amo.h>

#include "base/amo.h"

#define OPS (FI_MSWAP + 2)
#define TYPES (FI_LONG_DOUBLE_COMPLEX + 2)

static const int64_t values[] = {0, 1, -1, 2, 3, -7, 100, INT32_MAX, INT32_MIN, INT64_MAX};

/* The bits of a value, as the type has it */
static uint64_t bits_of(int datatype, int64_t value)
{
	uint64_t bits = 0;
	float single = (float) value;
	double real = (double) value;

	if (datatype == FI_FLOAT)
		memcpy(&bits, &single, sizeof single);
	else if (datatype == FI_DOUBLE)
		memcpy(&bits, &real, sizeof real);
	else if (amo_size((enum fi_datatype) datatype) == 4)
		bits = (uint32_t) value;
	else
		bits = (uint64_t) value;
	return bits;
}

/* One word between two others, which stay */
static void check_word(int datatype, int op, uint64_t target, uint64_t operand,
		       uint64_t compare)
{
	const size_t size = amo_size((enum fi_datatype) datatype);
	_Alignas(16) unsigned char bytes[24], expected[24];
	uint64_t old = 0;

	memset(bytes, 0xa5, sizeof bytes);
	memcpy(bytes + 8, &target, size);
	memcpy(expected, bytes, sizeof bytes);
	amo_apply((enum fi_datatype) datatype, (enum fi_op) op, 1, expected + 8, &operand,
		  &compare);
	old = fi_p2p_xpu_amo_do(datatype, op, (uintptr_t) (bytes + 8), operand, compare);
	assert_memory_equal(&old, &target, sizeof old);
	assert_memory_equal(bytes, expected, sizeof bytes);
}

static void test_results(void **state)
{
	(void) state;
	for (int type = FI_INT8; type < TYPES; type++) {
		for (int op = FI_MIN; op < OPS; op++) {
			if (!fi_p2p_xpu_amo_size(type, op, op >= FI_CSWAP))
				continue;
			for (size_t i = 0; i < UNIT_COUNT(values) * UNIT_COUNT(values); i++) {
				const uint64_t t =
					bits_of(type, values[i % UNIT_COUNT(values)]);
				const uint64_t o =
					bits_of(type, values[i / UNIT_COUNT(values)]);

				for (size_t c = 0; c < UNIT_COUNT(values); c++)
					check_word(type, op, t, o, bits_of(type, values[c]));
			}
		}
	}
}

/* All that the provider has for words of 4 and 8 bytes, but for those of complex numbers; and nothing else */
static void test_offers(void **state)
{
	(void) state;
	for (int type = FI_INT8; type < TYPES; type++) {
		for (int op = FI_MIN; op < OPS; op++) {
			for (int compares = 0; compares < 2; compares++) {
				const bool has = amo_valid((enum fi_datatype) type,
							   (enum fi_op) op, compares) &&
						 type >= FI_INT32 && type <= FI_DOUBLE;
				const size_t size = amo_size((enum fi_datatype) type);

				assert_int_equal(fi_p2p_xpu_amo_size(type, op, compares),
						 has ? size : 0);
			}
		}
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_results),
		cmocka_unit_test(test_offers),
	};
	const struct unit unit = {.tests = tests, .test_count = UNIT_COUNT(tests)};

	return unit_main(argc, argv, &unit);
}
