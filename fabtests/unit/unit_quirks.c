/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Unit tests of quirks.c: which core providers and releases each row is about, and which it
 * just is not; and what real names come to.
 */
#include "unit.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "path/quirks.h"

/* A name made from a row's */
struct name {
	char text[64];
};

static struct name name_make(const char *before, const char *name, const char *after)
{
	struct name made;

	snprintf(made.text, sizeof made.text, "%s%s%s", before, name, after);
	return made;
}

static struct name name_upper(const char *name)
{
	struct name made = name_make("", name, "");

	for (char *c = made.text; *c; c++)
		*c = (char) toupper(*c);
	return made;
}

/* A release that @row is about */
static uint32_t release_of(const struct quirk *row)
{
	return row->from ? row->from : row->below - 1;
}

/* The name of a row's provider in a release */
static const char *name_in(const struct quirk *row, uint32_t version)
{
	return row->match == QUIRK_NET && version >= FI_VERSION(1, 18) ? "tcp" : row->provider;
}

static void check_name(const struct quirk *row, const char *name, bool matches)
{
	uint32_t release = release_of(row);

	if (quirks_match(row, name, release) != matches)
		fail_msg("\"%s\" %s: \"%s\" does%s match", row->provider, row->does, name,
			 matches ? " not" : "");
	if (matches && row->flag)
		assert_true(quirks_of_name(name, release) & row->flag);
}

/* The names that a row is about, and those that are like it */
static void test_names(void **state)
{
	for (size_t i = 0; i < quirks_count; i++) {
		const struct quirk *row = &quirks_table[i];
		bool whole = row->match == QUIRK_WHOLE || row->match == QUIRK_NET,
		     layer = row->match == QUIRK_LAYER, begins = row->match == QUIRK_BEGINS;
		const char *name = name_in(row, release_of(row));

		if (row->match == QUIRK_ANY)
			continue;
		assert_true(whole || layer || begins);
		check_name(row, name, true);
		check_name(row, name_upper(name).text, true);
		check_name(row, NULL, false);
		check_name(row, "", false);
		check_name(row, name + 1, false);
		check_name(row, name_make("x", name, "").text, false);
		check_name(row, name_make("x", name, ";y").text, false);
		check_name(row, name_make("", name, "x").text, begins);
		check_name(row, name_make("", name, "x;y").text, begins);
		check_name(row, name_make("", name, ";x").text, begins || layer);
		check_name(row, name_make("x;", name, "").text, layer);
		check_name(row, name_make("x;", name, ";y").text, layer);
	}
}

/* A row about libfabric itself does not look at the name. */
static void test_any(void **state)
{
	size_t rows = 0;

	for (size_t i = 0; i < quirks_count; i++) {
		if (quirks_table[i].match != QUIRK_ANY)
			continue;
		assert_null(quirks_table[i].provider);
		check_name(&quirks_table[i], NULL, true);
		check_name(&quirks_table[i], "", true);
		check_name(&quirks_table[i], "tcp;ofi_rxm", true);
		rows++;
	}
	assert_true(rows);
}

/* The first and the last release of each row, and those beside them */
static void test_releases(void **state)
{
	for (size_t i = 0; i < quirks_count; i++) {
		const struct quirk *row = &quirks_table[i];
		const uint32_t last = row->below - 1;

		assert_true(row->from < row->below);
		assert_true(quirks_match(row, name_in(row, row->from), row->from));
		assert_true(quirks_match(row, name_in(row, last), last));
		assert_false(quirks_match(row, name_in(row, row->below), row->below));
		if (row->from)
			assert_false(quirks_match(row, row->provider, row->from - 1));
	}
}

/* A row has one flag or a name, and says what it is about. */
static void test_words(void **state)
{
	for (size_t i = 0; i < quirks_count; i++) {
		const struct quirk *row = &quirks_table[i];

		assert_int_equal(__builtin_popcountll(row->flag), !row->name);
		assert_true(*row->does && *row->why && *row->see);
		/* a log line ends with it */
		assert_true(islower(*row->does) && row->does[strlen(row->does) - 1] != '.');
	}
}

#define NET                                                                                    \
	(QUIRK_STALLS | QUIRK_MIXES | QUIRK_UNCOUNTED | QUIRK_AHEAD | QUIRK_KEYS |             \
	 QUIRK_LENDS | QUIRK_DANGLES)
#define NET_1_17 (NET | QUIRK_EARLY | QUIRK_ATOMICS | QUIRK_NO_COUNTERS | QUIRK_DIRECTED)
#define RXM (QUIRK_LITTERS | QUIRK_OWN_DATA)
#define RXM_1 (RXM | QUIRK_PEEK_UNMARKED)
#define TCP_RXM (QUIRK_LENDS | QUIRK_BEHIND | QUIRK_DEAR)
#define SHM (QUIRK_NEAR | QUIRK_FRAGILE | QUIRK_KEYS)
#define SHM_OLD (SHM | QUIRK_ATOMICS | QUIRK_NO_PEEK | QUIRK_RECV_NOMEM)
#define VERBS (QUIRK_MAPS | QUIRK_ATOMICS)
#define OLD QUIRK_NO_DMABUF

/* What names come to, at the releases where something changes */
static void test_flags(void **state)
{
	static const struct {
		const char *name;
		uint32_t version;
		uint64_t flags;
	} cases[] = {
		{"net", FI_VERSION(1, 17), NET_1_17 | OLD},
		{"NET", FI_VERSION(1, 17), NET_1_17 | OLD},
		{"net", FI_VERSION(1, 18), OLD},
		{"net;ofi_rxm", FI_VERSION(1, 17), RXM_1 | QUIRK_BEHIND | OLD},
		{"tcp", FI_VERSION(1, 17), QUIRK_NO_COUNTERS | OLD},
		{"tcp", FI_VERSION(1, 18), NET | QUIRK_EARLY | OLD},
		{"tcp", FI_VERSION(1, 19), NET | QUIRK_EARLY | OLD},
		{"tcp", FI_VERSION(1, 20), NET},
		{"tcp", FI_VERSION(2, 6), NET},
		{"tcp;ofi_rxm", FI_VERSION(1, 17), RXM_1 | TCP_RXM | OLD},
		{"tcp;ofi_rxm", FI_VERSION(1, 18), RXM_1 | TCP_RXM | OLD},
		{"tcp;ofi_rxm", FI_VERSION(1, 22), RXM_1 | TCP_RXM},
		{"tcp;ofi_rxm", FI_VERSION(2, 0), RXM | TCP_RXM | QUIRK_SOURCELESS},
		{"tcp;ofi_rxm", FI_VERSION(2, 3), RXM | TCP_RXM | QUIRK_SOURCELESS},
		{"tcp;ofi_rxm", FI_VERSION(2, 4), RXM | TCP_RXM},
		{"shm", FI_VERSION(1, 17), SHM_OLD | QUIRK_SERIAL | OLD},
		{"shm", FI_VERSION(1, 18), SHM_OLD | OLD},
		{"shm", FI_VERSION(1, 19), SHM | QUIRK_ATOMICS | OLD},
		{"shm", FI_VERSION(2, 4), SHM | QUIRK_ATOMICS},
		{"shm", FI_VERSION(2, 5), SHM},
		{"sm2", FI_VERSION(1, 17), OLD},
		{"sm2", FI_VERSION(1, 18), QUIRK_NO_DATA | OLD},
		{"sm2", FI_VERSION(2, 6), QUIRK_NO_DATA},
		{"sockets", FI_VERSION(1, 17), QUIRK_NO_COUNTERS | QUIRK_NO_DATA | OLD},
		{"sockets", FI_VERSION(2, 6), QUIRK_NO_COUNTERS | QUIRK_NO_DATA},
		{"verbs", FI_VERSION(1, 17), VERBS | QUIRK_DIRECT | OLD},
		{"verbs", FI_VERSION(2, 1), VERBS | QUIRK_DIRECT},
		{"verbs;ofi_rxm", FI_VERSION(1, 22), VERBS | RXM_1},
		{"verbs;ofi_rxm", FI_VERSION(2, 0), VERBS | RXM | QUIRK_SOURCELESS},
		{"verbs;ofi_rxd", FI_VERSION(2, 0), VERBS},
		{"off_coll", FI_VERSION(2, 1), QUIRK_NO_HOOK},
		{"efa", FI_VERSION(1, 17), OLD},
		{"efa", FI_VERSION(2, 6), 0},
		{"", FI_VERSION(2, 6), 0},
		{NULL, FI_VERSION(1, 17), OLD},
		{NULL, FI_VERSION(2, 6), 0},
	};
	struct fi_fabric_attr fabric = {0};
	const struct fi_info core = {.fabric_attr = &fabric}, none = {0};

	for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
		uint64_t flags = quirks_of_name(cases[i].name, cases[i].version);

		if (flags != cases[i].flags)
			fail_msg("row %zu: 0x%" PRIx64 ", not 0x%" PRIx64, i, flags,
				 cases[i].flags);
		fabric.prov_name = (char *) (uintptr_t) cases[i].name;
		assert_int_equal(quirks_of(&core, cases[i].version), flags);
	}
	assert_int_equal(quirks_of(&none, FI_VERSION(2, 6)), 0);
	assert_int_equal(quirks_of(&none, FI_VERSION(1, 17)), OLD);
}

/* The names of rows without a flag that are about a provider, in the order of the table */
static void names_of(const char *provider, uint32_t version, char *text, size_t room)
{
	*text = '\0';
	for (size_t i = 0; i < quirks_count; i++) {
		const struct quirk *row = &quirks_table[i];

		if (row->name && quirks_match(row, provider, version))
			snprintf(text + strlen(text), room - strlen(text), "%s ",
				 row->name + strlen("QUIRK_"));
	}
}

#define RXM_NAMES "UNENABLED AUTO_LOSES KEY_ONCE LONG_LEN "

/* The same for rows without a flag */
static void test_named(void **state)
{
	static const struct {
		const char *provider;
		uint32_t version;
		const char *names;
	} cases[] = {
		{"net", FI_VERSION(1, 17), "READABLE POLLFD "},
		{"net", FI_VERSION(1, 18), ""},
		{"net;ofi_rxm", FI_VERSION(1, 17), RXM_NAMES},
		{"tcp", FI_VERSION(1, 17), ""},
		{"tcp", FI_VERSION(1, 18), "POLLFD "},
		{"tcp", FI_VERSION(2, 6), "POLLFD "},
		{"tcp;ofi_rxm", FI_VERSION(1, 17), RXM_NAMES "READ_TWICE "},
		{"tcp;ofi_rxm", FI_VERSION(1, 18), RXM_NAMES "NESTS "},
		{"tcp;ofi_rxm", FI_VERSION(2, 6), RXM_NAMES "NESTS "},
		{"shm", FI_VERSION(1, 17), "EMPTY_WRITE "},
		{"shm", FI_VERSION(1, 18), "EMPTY_WRITE "},
		{"shm", FI_VERSION(1, 19), ""},
		{"sm2", FI_VERSION(2, 6), ""},
		{"verbs", FI_VERSION(1, 17), "STALE_MR "},
		{"verbs;ofi_rxm", FI_VERSION(2, 0), RXM_NAMES "STALE_MR EMPTY_MR "},
		{"verbs;ofi_rxd", FI_VERSION(2, 0), "STALE_MR "},
		{"efa", FI_VERSION(2, 6), ""},
		{NULL, FI_VERSION(1, 17), ""},
	};
	char names[256];

	for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
		names_of(cases[i].provider, cases[i].version, names, sizeof names);
		assert_string_equal(names, cases[i].names);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),    cmocka_unit_test(test_any),
		cmocka_unit_test(test_releases), cmocka_unit_test(test_words),
		cmocka_unit_test(test_flags),    cmocka_unit_test(test_named),
	};
	const struct unit unit = {.tests = tests, .test_count = UNIT_COUNT(tests)};

	return unit_main(argc, argv, &unit);
}
