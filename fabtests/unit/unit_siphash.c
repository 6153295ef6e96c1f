/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Unit tests of siphash.c. Texts are malloc'ed to the byte: a sanitizer sees who reads past them. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/siphash.h"

/* As bytes, 00 01 … 0f: the key of the vectors */
static const struct siphash_key key = {{0x0706050403020100, 0x0f0e0d0c0b0a0908}};

/* What the authors have published for texts of 0, 1, … 15 bytes, each of which is 00 01 02 … */
static const uint64_t vectors[] = {
	0x726fdb47dd0e0e31, 0x74f839c593dc67fd, 0x0d6c8009d9a94f5a, 0x85676696d7fb7e2d,
	0xcf2794e0277187b7, 0x18765564cd99a68d, 0xcbc9466e58fee3ce, 0xab0200f58b01d137,
	0x93f5f5799a932462, 0x9e0082df0ba9e4b0, 0x7a5dbbc594ddb9f3, 0xf4b32f46226bada7,
	0x751e8fbc860ee5fb, 0x14ea5627c0843d90, 0xf723ca908e7af2ee, 0xa129ca6149be45e5,
};

static void test_vectors(void **state)
{
	unsigned char *text;

	for (size_t len = 0; len < UNIT_COUNT(vectors); len++) {
		/* one byte before the text, so that it is at no even address */
		text = malloc(len + 1);
		assert_non_null(text);
		for (size_t i = 0; i < len; i++)
			text[i + 1] = (unsigned char) i;
		assert_int_equal(siphash(&key, text + 1, len), vectors[len]);
		free(text);
	}
}

static int compare(const void *one, const void *other)
{
	const uint32_t *a = one, *b = other;

	return (*a > *b) - (*a < *b);
}

/* No number comes twice; and none comes nearer to the one before than chance would have it */
static void test_permutation(void **state)
{
	enum { COUNT = 1 << 20 };
	uint32_t *numbers = malloc(COUNT * sizeof *numbers);
	unsigned int same = 0, close = 0;

	assert_non_null(numbers);
	for (uint32_t i = 0; i < COUNT; i++) {
		numbers[i] = siphash_permute(&key, i);
		same += numbers[i] == i;
		close += i && numbers[i] - numbers[i - 1] + (1u << 15) < 1u << 16;
	}
	/* chance would have 1 in four thousand, and 16 */
	assert_in_range(same, 0, 2);
	assert_in_range(close, 0, 64);
	qsort(numbers, COUNT, sizeof *numbers, compare);
	for (size_t i = 1; i < COUNT; i++)
		assert_int_not_equal(numbers[i], numbers[i - 1]);
	/* and they come from everywhere */
	assert_true(numbers[0] < 1u << 20);
	assert_true(numbers[COUNT - 1] > UINT32_MAX - (1u << 20));
	free(numbers);
}

/* Each half of a number, and each half of the key, makes a difference in both halves of the outcome */
static void test_differences(void **state)
{
	const struct siphash_key keys[] = {{{1, 0}},
					   {{0, 1}},
					   {{1 << 16, 0}},
					   {{0, 1ULL << 63}}};
	const struct siphash_key none = {{0, 0}};
	uint32_t before = siphash_permute(&none, 0), change;

	for (int bit = 0; bit < 32; bit++) {
		change = before ^ siphash_permute(&none, 1u << bit);
		assert_true(change & 0xffff);
		assert_true(change >> 16);
	}
	for (size_t i = 0; i < UNIT_COUNT(keys); i++) {
		change = before ^ siphash_permute(&keys[i], 0);
		assert_true(change & 0xffff);
		assert_true(change >> 16);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors),
		cmocka_unit_test(test_permutation),
		cmocka_unit_test(test_differences),
	};
	const struct unit unit = {.tests = tests, .test_count = UNIT_COUNT(tests)};

	return unit_main(argc, argv, &unit);
}
