/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Unit tests of path.c: the whole table of decisions, with their borders. */
#include "unit.h"

#include <stdint.h>

#include "path.h"

/* Sizes of the borders; the name is announced up to NAME */
#define SHORT 16384
#define PLAIN 4096
#define NAME 256

#define HOST FI_P2P_PATH_HOST
#define STAGE FI_P2P_PATH_STAGE

#define Q(device, layered, stalls, len, slot, name_len)                          \
	{                                                                        \
		device, layered, stalls, len, SHORT, PLAIN, slot, name_len, NAME \
	}

static const struct path_case {
	struct path_query query;
	enum fi_p2p_path path;
	enum path_proto proto;
} cases[] = {
	/* device, layered, stalls, len, slot, name_len */
	{Q(false, false, false, 0, true, 28), HOST, PATH_CORE},
	{Q(false, true, false, 0, true, 28), HOST, PATH_CORE},
	{Q(false, true, false, SHORT, true, 28), HOST, PATH_CORE},
	{Q(false, true, false, SHORT + 1, true, 28), HOST, PATH_CORE},
	{Q(false, false, false, SIZE_MAX, true, 28), HOST, PATH_CORE},
	{Q(false, true, false, SIZE_MAX, true, NAME + 1), HOST, PATH_CORE},
	{Q(true, true, false, 0, true, 28), STAGE, PATH_SHORT},
	{Q(true, true, false, 1, true, 28), STAGE, PATH_SHORT},
	{Q(true, true, false, SHORT, true, 28), STAGE, PATH_SHORT},
	{Q(true, true, false, SHORT, true, NAME + 1), STAGE, PATH_SHORT},
	{Q(true, false, false, 0, true, 28), STAGE, PATH_SHORT},
	{Q(true, false, false, SHORT, true, 28), STAGE, PATH_SHORT},
	{Q(true, false, false, SHORT + 1, true, 28), STAGE, PATH_WHOLE},
	{Q(true, false, false, SIZE_MAX, true, 28), STAGE, PATH_WHOLE},
	{Q(true, false, false, SHORT + 1, true, NAME + 1), STAGE, PATH_WHOLE},
	{Q(true, true, false, SHORT + 1, true, 28), STAGE, PATH_LONG},
	{Q(true, true, false, SIZE_MAX, true, 28), STAGE, PATH_LONG},
	{Q(true, true, false, SHORT + 1, true, NAME), STAGE, PATH_LONG},
	{Q(true, true, false, SHORT + 1, true, NAME + 1), STAGE, PATH_WHOLE},
	{Q(true, true, false, SHORT + 1, true, SIZE_MAX), STAGE, PATH_WHOLE},
	{Q(true, true, true, SHORT, true, 28), STAGE, PATH_SHORT},
	{Q(true, true, true, SHORT + 1, true, 28), STAGE, PATH_WHOLE},
	{Q(true, true, true, SIZE_MAX, true, NAME + 1), STAGE, PATH_WHOLE},
	{Q(true, false, true, SHORT + 1, true, 28), STAGE, PATH_WHOLE},
	{Q(false, true, true, SHORT + 1, true, 28), HOST, PATH_CORE},
	/* no slot is free: only what may not be announced waits for one */
	{Q(true, true, false, PLAIN, false, 28), STAGE, PATH_SHORT},
	{Q(true, true, false, PLAIN + 1, false, 28), STAGE, PATH_LONG},
	{Q(true, true, false, SHORT, false, 28), STAGE, PATH_LONG},
	{Q(true, true, true, SHORT, false, 28), STAGE, PATH_WHOLE},
	{Q(true, false, false, SHORT, false, 28), STAGE, PATH_WHOLE},
	{Q(true, true, false, SHORT, false, NAME + 1), STAGE, PATH_WHOLE},
	{{true, true, false, SHORT + 1, SHORT, SHORT + 1, false, 28, NAME},
	 STAGE,
	 PATH_LONG},
	{Q(false, true, false, SHORT, false, 28), HOST, PATH_CORE},
	{{true, true, false, 1, 0, PLAIN, true, 28, NAME}, STAGE, PATH_LONG},
	{{true, true, false, 0, 0, PLAIN, true, 28, NAME}, STAGE, PATH_SHORT},
	/* injected */
	{{true, true, false, SHORT + 1, SHORT, PLAIN, true, 28, NAME, true},
	 STAGE,
	 PATH_WHOLE},
	{{true, true, false, PLAIN + 1, SHORT, PLAIN, false, 28, NAME, true},
	 STAGE,
	 PATH_WHOLE},
	{{true, true, false, SHORT, SHORT, PLAIN, true, 28, NAME, true},
	 STAGE,
	 PATH_SHORT},
	{{false, true, false, SHORT + 1, SHORT, PLAIN, true, 28, NAME, true},
	 HOST,
	 PATH_CORE},
};

static void test_table(void **state)
{
	struct path_choice choice;

	for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
		choice = path_choose(&cases[i].query);
		if (choice.path != cases[i].path || choice.proto != cases[i].proto)
			fail_msg("row %zu: path %d, proto %d (%s)", i, choice.path,
				 choice.proto, choice.reason);
		assert_non_null(choice.reason);
		assert_true(*choice.reason);
	}
}

/* Each reason says something else: two causes of one protocol are told apart */
static void test_reasons(void **state)
{
	static const size_t distinct[] = {2, 8, 12, 15, 18, 21, 35};

	for (size_t i = 0; i < UNIT_COUNT(distinct); i++) {
		for (size_t j = 0; j < i; j++)
			assert_string_not_equal(
				path_choose(&cases[distinct[i]].query).reason,
				path_choose(&cases[distinct[j]].query).reason);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_reasons),
	};
	const struct unit unit = {.tests = tests, .test_count = UNIT_COUNT(tests)};

	return unit_main(argc, argv, &unit);
}
